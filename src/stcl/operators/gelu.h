/* The GELU g(h) = h Phi(h) of a standard normal variable's distribution Phi, with two derivatives, in vectors. */

#pragma once

#include <math.h>

#include "matrix.h"

/* exp(-h^2/2), and the normal distribution's mass beyond |h|. */
static inline void normal(real h, real *bell, real *tail) {
    if (sizeof(real) == sizeof(double)) {
        *bell = exp(-0.5 * h * h);
        *tail = 0.5 * erfc(fabs(h) * 0.70710678118654752440);
        return;
    }
    /* 2^y, y = -h^2/2 log2(e), by rounding, a polynomial, and the whole part in the bits of the exponent; the tail over
       the bell as a polynomial of 1/(1 + 0.4|h|). Fitted for the least relative error: 8e-8 of the power, and of the
       tail 3e-8 (1 + h^2/2), which is no more than what rounding y costs. */
    float y = (float)h * (float)h * -0.72134752f;
    y = y > -125.0f ? y : -125.0f;
    float whole = rintf(y), z = y - whole;
    float p = 0.00132764841f;
    p = p * z + 0.00967554096f;
    p = p * z + 0.0555071309f;
    p = p * z + 0.240221202f;
    p = p * z + 0.693146944f;
    p = p * z + 1.00000012f;
    int bits;
    memcpy(&bits, &p, sizeof bits);
    bits += (int)whole * (1 << 23);
    float power;
    memcpy(&power, &bits, sizeof power);
    *bell = power;
    float t = 1.0f / (1.0f + 0.4f * fabsf((float)h));
    float q = -0.0370179527f;
    q = q * t + 0.188146964f;
    q = q * t - 0.348349214f;
    q = q * t + 0.222705498f;
    q = q * t + 0.00643840386f;
    q = q * t + 0.150801927f;
    q = q * t + 0.157601506f;
    q = q * t + 0.159672856f;
    *tail = q * t * *bell;
}

/* g = h Phi and, for `order` 1 and 2, g' = Phi + h phi and g'' = (2 - h^2) phi of n numbers. */
static inline __attribute__((always_inline)) void gelu(const int order, long n, const real *restrict h,
                                                       real *restrict value, real *restrict slope,
                                                       real *restrict curvature) {
    for (long i = 0; i < n; i++) {
        real bell, tail;
        normal(h[i], &bell, &tail);
        real cdf = h[i] > 0 ? 1 - tail : tail, density = bell * (real)0.39894228040143267794;
        value[i] = h[i] * cdf;
        if (order > 0)
            slope[i] = cdf + h[i] * density;
        if (order > 1)
            curvature[i] = (2 - h[i] * h[i]) * density;
    }
}

/* The same with an order that is known only when it runs. What is beyond it may be NULL. */
void gelu_of(long order, long n, const real *h, real *value, real *slope, real *curvature) {
    if (order == 0)
        gelu(0, n, h, value, slope, curvature);
    else if (order == 1)
        gelu(1, n, h, value, slope, curvature);
    else
        gelu(2, n, h, value, slope, curvature);
}
