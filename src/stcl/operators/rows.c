/* What an FNO does at the nodes, row by row: stcl.operators.rows in C, for one CPU and one type of REAL.

A row of a dual field, (1+q) x ny x C numbers, fits the innermost caches. So each row goes through all of a layer before
the next one is touched, and fields are read and written once, where array operations would pass over them thirty times.
Names and formulas are those of stcl/operators/rows.py. Threads share the samples; what is summed over samples has one
array per thread, so that results do not depend on their timing. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef REAL real;

typedef struct {
    long threads, samples, nx, r, ny, c, half, hidden, outputs;
} Size;

#define SAMPLES(size, thread)                                                                      \
    for (long sample = (size)->samples * (thread) / (size)->threads,                               \
              last = (size)->samples * ((thread) + 1) / (size)->threads;                           \
         sample < last; sample++)

/* ---- out [M, N] (+)= A [M, K] B [K, N], with any strides of A ------------------------------------------------- */

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TALL 8
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#define TALL 4
#else
#define VECTOR_BYTES 16
#define TALL 4
#endif
#define LANES ((long)(VECTOR_BYTES / sizeof(real)))
#define WIDE 2
typedef real lanes __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

/* A tile of the result, `tall` rows and `wide` vectors, stays in registers while K runs. */
static inline __attribute__((always_inline)) void tile(const int tall, const int wide, long K, const real *A, long row,
                                                       long column, const real *B, long ldb, real *out, long ldo,
                                                       int add) {
    lanes sum[TALL][WIDE];
    for (int i = 0; i < tall; i++)
        for (int n = 0; n < wide; n++)
            sum[i][n] = add ? *(lanes *)(out + i * ldo + n * LANES) : (lanes){0};
    for (long k = 0; k < K; k++) {
        lanes b[WIDE];
        for (int n = 0; n < wide; n++)
            b[n] = *(const lanes *)(B + k * ldb + n * LANES);
        for (int i = 0; i < tall; i++)
            for (int n = 0; n < wide; n++)
                sum[i][n] += A[i * row + k * column] * b[n];
    }
    for (int i = 0; i < tall; i++)
        for (int n = 0; n < wide; n++)
            *(lanes *)(out + i * ldo + n * LANES) = sum[i][n];
}

/* All rows of `wide` vectors of columns. */
static inline __attribute__((always_inline)) void columns(const int wide, long M, long K, const real *A, long row,
                                                          long column, const real *B, long ldb, real *out, long ldo,
                                                          int add) {
    long m = 0;
    for (; m + TALL <= M; m += TALL)
        tile(TALL, wide, K, A + m * row, row, column, B, ldb, out + m * ldo, ldo, add);
    A += m * row;
    out += m * ldo;
    switch (M - m) {
#define REST(tall)                                                                                 \
    case tall:                                                                                     \
        tile(tall, wide, K, A, row, column, B, ldb, out, ldo, add);                                \
        break;
        REST(1)
        REST(2)
        REST(3)
#if TALL > 4
        REST(4)
        REST(5)
        REST(6)
        REST(7)
#endif
    }
}

static void product(long M, long N, long K, const real *A, long row, long column, const real *B, real *out, int add) {
    long n = 0;
    for (; n + WIDE * LANES <= N; n += WIDE * LANES)
        columns(WIDE, M, K, A, row, column, B + n, N, out + n, N, add);
    for (; n + LANES <= N; n += LANES)
        columns(1, M, K, A, row, column, B + n, N, out + n, N, add);
    if (n == N)
        return;
    long rest = N - n; /* columns that do not fill a vector: with zeros they do */
    real padded[K * LANES], edge[TALL * LANES];
    memset(padded, 0, sizeof padded);
    memset(edge, 0, sizeof edge);
    for (long k = 0; k < K; k++)
        memcpy(padded + k * LANES, B + k * N + n, rest * sizeof(real));
    for (long m = 0; m < M; m += TALL) {
        long few = M - m < TALL ? M - m : TALL;
        for (long i = 0; i < few && add; i++)
            memcpy(edge + i * LANES, out + (m + i) * N + n, rest * sizeof(real));
        columns(1, few, K, A + m * row, row, column, padded, LANES, edge, LANES, add);
        for (long i = 0; i < few; i++)
            memcpy(out + (m + i) * N + n, edge + i * LANES, rest * sizeof(real));
    }
}

/* ---- GELU ------------------------------------------------------------------------------------------------------ */

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

/* g = h Phi, g' = Phi + h phi, g'' = (2 - h^2) phi of n numbers. */
static void gelu(long n, const real *restrict h, real *restrict value, real *restrict slope, real *restrict curvature) {
    for (long i = 0; i < n; i++) {
        real bell, tail;
        normal(h[i], &bell, &tail);
        real cdf = h[i] > 0 ? 1 - tail : tail, density = bell * (real)0.39894228040143267794;
        value[i] = h[i] * cdf;
        slope[i] = cdf + h[i] * density;
        curvature[i] = (2 - h[i] * h[i]) * density;
    }
}

static inline void multiply(long n, const real *restrict x, const real *restrict y, real *restrict out) {
    for (long i = 0; i < n; i++)
        out[i] = x[i] * y[i];
}

static inline void multiply_add(long n, const real *restrict x, const real *restrict y, real *restrict out) {
    for (long i = 0; i < n; i++)
        out[i] += x[i] * y[i];
}

static inline real dot(long n, const real *x, const real *y) {
    lanes sums = {0};
    long i = 0;
    for (; i + LANES <= n; i += LANES)
        sums += *(const lanes *)(x + i) * *(const lanes *)(y + i);
    real sum = 0;
    for (long k = 0; k < LANES; k++)
        sum += sums[k];
    for (; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* ---- linear maps of a row --------------------------------------------------------------------------------------- */

/* Every field of the row: out += A half, A [ny, 2m]. */
static void synthesise(const Size *size, const real *A, long row, long column, const real *half, real *out) {
    for (long j = 0; j < size->r; j++)
        product(size->ny, size->c, size->half, A, row, column, half + j * size->half * size->c,
                out + j * size->ny * size->c, 1);
}

/* Every field of the row: half = A field, A [2m, ny]. */
static void analyse(const Size *size, const real *A, long row, long column, const real *field, real *half) {
    for (long j = 0; j < size->r; j++)
        product(size->half, size->c, size->ny, A, row, column, field + j * size->ny * size->c,
                half + j * size->half * size->c, 0);
}

/* ---- the rest of a layer, from a row of H on -------------------------------------------------------------------- */

/* T = GELU(H), with g' and g'' of the values. */
static void gelu_dual(const Size *size, const real *H, real *T, real *slope, real *curvature) {
    long row = size->ny * size->c;
    gelu(row, H, T, slope, curvature);
    for (long j = 1; j < size->r; j++)
        multiply(row, slope, H + j * row, T + j * row);
}

/* T P^T and the half spectra of T; `across` is P^T. Scratch: 1+q+2 rows. */
static void layer(const Size *size, real *memory, const real *H, const real *across, const real *analysis, real *local,
                  real *half) {
    long row = size->ny * size->c, c = size->c;
    real *T = memory, *slope = T + size->r * row, *curvature = slope + row;
    gelu_dual(size, H, T, slope, curvature);
    product(size->r * size->ny, c, c, T, c, 1, across, local, 0);
    analyse(size, analysis, size->ny, 1, T, half);
}

/* The adjoint of H, and the gradient of P added to `weight_bar`. Scratch: 1+q+3 rows. */
static void layer_adjoint(const Size *size, real *memory, const real *H, const real *weight, const real *analysis,
                          const real *local_bar, const real *half_bar, real *H_bar, real *weight_bar) {
    long row = size->ny * size->c, c = size->c, nodes = size->r * size->ny;
    real *T = memory, *slope = T + size->r * row, *curvature = slope + row, *slope_bar = curvature + row;
    gelu_dual(size, H, T, slope, curvature);
    product(c, c, nodes, local_bar, 1, c, T, weight_bar, 1);
    product(nodes, c, c, local_bar, c, 1, weight, H_bar, 0);
    synthesise(size, analysis, 1, size->ny, half_bar, H_bar); /* now the adjoint of T */
    memset(slope_bar, 0, row * sizeof(real));
    for (long j = 1; j < size->r; j++)
        for (long i = 0; i < row; i++) {
            slope_bar[i] += H_bar[j * row + i] * H[j * row + i];
            H_bar[j * row + i] *= slope[i];
        }
    for (long i = 0; i < row; i++)
        H_bar[i] = H_bar[i] * slope[i] + slope_bar[i] * curvature[i];
}

/* ---- the functions of stcl/operators/rows.py -------------------------------------------------------------------- */

/* Numbers of scratch memory that each thread needs. */
long scratch(const Size *size) {
    long row = size->ny * size->c;
    return (3 * size->r + 6) * row + 5 * size->ny * size->hidden + 2 * size->outputs * row;
}

/* Tangents of the first layer: strides of sample, row, tangent and node, 0 where one stands for all. */
typedef struct {
    long sample, row, tangent, node;
} Strides;

static inline long position(const Strides *at, long sample, long x, long j, long y) {
    return sample * at->sample + x * at->row + (j - 1) * at->tangent + y * at->node;
}

static void collect(const Size *size, const real *h, const real *dh, const Strides *at, long sample, long x, real *H) {
    long row = size->ny * size->c, c = size->c;
    memcpy(H, h + (sample * size->nx + x) * row, row * sizeof(real));
    for (long j = 1; j < size->r; j++)
        for (long y = 0; y < size->ny; y++)
            memcpy(H + j * row + y * c, dh + position(at, sample, x, j, y), c * sizeof(real));
}

void first_forward(const Size *size, real *memory, const real *h, const real *dh, const Strides *at, const real *across,
                   const real *analysis, real *local, real *half) {
    long field = size->r * size->ny * size->c, spectrum = size->r * size->half * size->c;
#pragma omp parallel for num_threads(size->threads)
    for (long thread = 0; thread < size->threads; thread++) {
        real *H = memory + thread * scratch(size);
        SAMPLES(size, thread)
        for (long x = 0; x < size->nx; x++) {
            long n = sample * size->nx + x;
            collect(size, h, dh, at, sample, x, H);
            layer(size, H + field, H, across, analysis, local + n * field, half + n * spectrum);
        }
    }
}

void first_backward(const Size *size, real *memory, const real *h, const real *dh, const Strides *at,
                    const real *weight, const real *analysis, const real *local_bar, const real *half_bar, real *h_bar,
                    real *dh_bar, const Strides *bar_at, long dh_bar_size, real *weight_bar) {
    long row = size->ny * size->c, c = size->c, field = size->r * row, spectrum = size->r * size->half * c;
#pragma omp parallel for num_threads(size->threads)
    for (long thread = 0; thread < size->threads; thread++) {
        real *H = memory + thread * scratch(size), *H_bar = H + field, *own = dh_bar + thread * dh_bar_size;
        SAMPLES(size, thread)
        for (long x = 0; x < size->nx; x++) {
            long n = sample * size->nx + x;
            collect(size, h, dh, at, sample, x, H);
            layer_adjoint(size, H_bar + field, H, weight, analysis, local_bar + n * field, half_bar + n * spectrum,
                          H_bar, weight_bar + thread * c * c);
            memcpy(h_bar + n * row, H_bar, row * sizeof(real));
            for (long j = 1; j < size->r; j++)
                for (long y = 0; y < size->ny; y++)
                    for (long i = 0; i < c; i++)
                        own[position(bar_at, sample, x, j, y) + i] += H_bar[j * row + y * c + i];
        }
    }
}

void block_forward(const Size *size, real *memory, real *dual, real *half, const real *across, const real *synthesis,
                   const real *analysis, real *local) {
    long field = size->r * size->ny * size->c, spectrum = size->r * size->half * size->c;
#pragma omp parallel for num_threads(size->threads)
    for (long thread = 0; thread < size->threads; thread++)
        SAMPLES(size, thread)
        for (long n = sample * size->nx; n < (sample + 1) * size->nx; n++) {
            real *H = dual + n * field;
            synthesise(size, synthesis, size->half, 1, half + n * spectrum, H);
            layer(size, memory + thread * scratch(size), H, across, analysis, local + n * field, half + n * spectrum);
        }
}

void block_backward(const Size *size, real *memory, const real *dual, const real *weight, const real *synthesis,
                    const real *analysis, const real *local_bar, real *half_bar, real *dual_bar, real *weight_bar) {
    long field = size->r * size->ny * size->c, spectrum = size->r * size->half * size->c;
#pragma omp parallel for num_threads(size->threads)
    for (long thread = 0; thread < size->threads; thread++)
        SAMPLES(size, thread)
        for (long n = sample * size->nx; n < (sample + 1) * size->nx; n++) {
            real *H_bar = dual_bar + n * field;
            layer_adjoint(size, memory + thread * scratch(size), dual + n * field, weight, analysis,
                          local_bar + n * field, half_bar + n * spectrum, H_bar,
                          weight_bar + thread * size->c * size->c);
            analyse(size, synthesis, 1, size->half, H_bar, half_bar + n * spectrum);
        }
}

/* k = W1 z + b1 of a row, and g, g', g'' of it; `w1` is W1^T. */
static void hidden_layer(const Size *size, const real *z, const real *w1, const real *b1, real *k, real *value,
                         real *slope, real *curvature) {
    for (long y = 0; y < size->ny; y++)
        memcpy(k + y * size->hidden, b1, size->hidden * sizeof(real));
    product(size->ny, size->hidden, size->c, z, size->c, 1, w1, k, 1);
    gelu(size->ny * size->hidden, k, value, slope, curvature);
}

void head_forward(const Size *size, real *memory, real *dual, const real *half, const real *synthesis, const real *w1,
                  const real *b1, const real *w2, const real *b2, const real *R, real *y_out, real *dy_out) {
    long ny = size->ny, c = size->c, row = ny * c, D = size->hidden, outputs = size->outputs;
#pragma omp parallel for num_threads(size->threads)
    for (long thread = 0; thread < size->threads; thread++) {
        real *z = memory + thread * scratch(size), *slope = z + row, *curvature = slope + row;
        real *k = curvature + row, *value_k = k + ny * D, *slope_k = value_k + ny * D, *curvature_k = slope_k + ny * D;
        real *inner = curvature_k + ny * D;
        SAMPLES(size, thread)
        for (long x = 0; x < size->nx; x++) {
            long n = sample * size->nx + x;
            real *H = dual + n * size->r * row, *dy = dy_out + n * (size->r - 1) * ny * outputs;
            synthesise(size, synthesis, size->half, 1, half + n * size->r * size->half * c, H);
            gelu(row, H, z, slope, curvature);
            hidden_layer(size, z, w1, b1, k, value_k, slope_k, curvature_k);
            product(ny, outputs * c, D, slope_k, D, 1, R, inner, 0);
            for (long y = 0; y < ny; y++)
                for (long o = 0; o < outputs; o++) {
                    y_out[(n * ny + y) * outputs + o] = b2[o] + dot(D, w2 + o * D, value_k + y * D);
                    real *jacobian = inner + (y * outputs + o) * c;
                    for (long i = 0; i < c; i++)
                        jacobian[i] *= slope[y * c + i];
                    for (long j = 1; j < size->r; j++)
                        dy[((j - 1) * ny + y) * outputs + o] = dot(c, jacobian, H + j * row + y * c);
                }
        }
    }
}

void head_backward(const Size *size, real *memory, const real *dual, const real *synthesis, const real *w1,
                   const real *across, const real *b1, const real *w2, const real *R, const real *R_across,
                   const real *y_bar_in, const real *dy_bar_in, real *dual_bar, real *half_bar, real *w1_bars,
                   real *b1_bars, real *w2_bars, real *R_bars) {
    long ny = size->ny, c = size->c, row = ny * c, D = size->hidden, outputs = size->outputs;
#pragma omp parallel for num_threads(size->threads)
    for (long thread = 0; thread < size->threads; thread++) {
        real *z = memory + thread * scratch(size), *slope = z + row, *curvature = slope + row;
        real *slope_bar = curvature + row, *z_bar = slope_bar + row, *jacobian_bar = z_bar + row;
        real *k = jacobian_bar + row, *value_k = k + ny * D, *slope_k = value_k + ny * D;
        real *curvature_k = slope_k + ny * D, *k_bar = curvature_k + ny * D;
        real *inner = k_bar + ny * D, *inner_bar = inner + outputs * row;
        real *w1_bar = w1_bars + thread * D * c, *b1_bar = b1_bars + thread * D;
        real *w2_bar = w2_bars + thread * outputs * D, *R_bar = R_bars + thread * D * outputs * c;
        SAMPLES(size, thread)
        for (long x = 0; x < size->nx; x++) {
            long n = sample * size->nx + x;
            const real *H = dual + n * size->r * row, *y_bar = y_bar_in + n * ny * outputs;
            const real *dy_bar = dy_bar_in + n * (size->r - 1) * ny * outputs;
            real *bar = dual_bar + n * size->r * row;
            gelu(row, H, z, slope, curvature);
            hidden_layer(size, z, across, b1, k, value_k, slope_k, curvature_k);
            product(ny, outputs * c, D, slope_k, D, 1, R, inner, 0);

            memset(slope_bar, 0, row * sizeof(real));
            memset(bar + row, 0, (size->r - 1) * row * sizeof(real));
            for (long y = 0; y < ny; y++)
                for (long o = 0; o < outputs; o++) {
                    const real *inner_o = inner + (y * outputs + o) * c;
                    real jacobian[c];
                    multiply(c, inner_o, slope + y * c, jacobian);
                    memset(jacobian_bar, 0, c * sizeof(real));
                    for (long j = 1; j < size->r; j++) {
                        real along = dy_bar[((j - 1) * ny + y) * outputs + o];
                        const real *dh = H + j * row + y * c;
                        real *dh_bar = bar + j * row + y * c;
                        for (long i = 0; i < c; i++) {
                            dh_bar[i] += along * jacobian[i];
                            jacobian_bar[i] += along * dh[i];
                        }
                    }
                    multiply_add(c, jacobian_bar, inner_o, slope_bar + y * c);
                    multiply(c, jacobian_bar, slope + y * c, inner_bar + (y * outputs + o) * c);
                }
            product(D, outputs * c, ny, slope_k, 1, D, inner_bar, R_bar, 1);
            product(outputs, D, ny, y_bar, 1, outputs, value_k, w2_bar, 1);

            product(ny, D, outputs * c, inner_bar, outputs * c, 1, R_across, k_bar, 0);
            for (long i = 0; i < ny * D; i++)
                k_bar[i] *= curvature_k[i];
            for (long y = 0; y < ny; y++) {
                for (long o = 0; o < outputs; o++)
                    for (long d = 0; d < D; d++)
                        k_bar[y * D + d] += y_bar[y * outputs + o] * w2[o * D + d] * slope_k[y * D + d];
                for (long d = 0; d < D; d++)
                    b1_bar[d] += k_bar[y * D + d];
            }
            product(D, c, ny, k_bar, 1, D, z, w1_bar, 1);
            product(ny, c, D, k_bar, D, 1, w1, z_bar, 0);
            for (long i = 0; i < row; i++)
                bar[i] = z_bar[i] * slope[i] + slope_bar[i] * curvature[i];
            analyse(size, synthesis, 1, size->half, bar, half_bar + n * size->r * size->half * c);
        }
    }
}
