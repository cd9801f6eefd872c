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
    /* 2^y, y = -h^2/2 log2(e), by rounding and a polynomial; the tail over the bell as a polynomial of 1/(1 + 0.28|h|).
       Fitted for the least relative error: 2e-9 and 5e-8. */
    float y = (float)(-h * h) * 0.72134752f;
    y = y > -126.0f ? y : -126.0f;
    float whole = rintf(y), z = y - whole;
    float p = 0.000153458201f;
    p = p * z + 0.00133999372f;
    p = p * z + 0.00961848898f;
    p = p * z + 0.0555032876f;
    p = p * z + 0.240226469f;
    p = p * z + 0.693147206f;
    p = p * z + 1.0f;
    int bits = ((int)whole + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    *bell = p * power;
    float t = 1.0f / (1.0f + 0.28f * fabsf((float)h));
    float q = 0.0227909349f;
    q = q * t - 0.0833637193f;
    q = q * t + 0.0697777718f;
    q = q * t + 0.0208425336f;
    q = q * t + 0.0532624982f;
    q = q * t + 0.0920772702f;
    q = q * t + 0.100930668f;
    q = q * t + 0.111994796f;
    q = q * t + 0.111687265f;
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
