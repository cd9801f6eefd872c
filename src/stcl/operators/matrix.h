/* Matrix products and elementary operations on rows of numbers, for one CPU and one type of REAL. */

#pragma once

#include <string.h>

typedef REAL real;

/* Work is dealt out in contiguous parts, one for each thread. */
#define PRAGMA(text) _Pragma(#text)
#define PARALLEL(count)                                                                            \
    PRAGMA(omp parallel for num_threads(count) if (count > 1))                                     \
    for (long thread = 0; thread < count; thread++)
#define PART(i, count, threads)                                                                    \
    for (long i = (count) * thread / (threads), i##_end = (count) * (thread + 1) / (threads); i < i##_end; i++)

/* out [M, N] (+)= A [M, K] B [K, N], with any strides of A. */

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TALL 8
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#define TALL 6
#else
#define VECTOR_BYTES 16
#define TALL 4
#endif
#define LANES ((long)(VECTOR_BYTES / sizeof(real)))
#define WIDE 2
#define CHUNK 128
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

/* All rows of `wide` vectors of columns, in tiles of nearly the same height: a low one would wait for its own sums. */
static inline __attribute__((always_inline)) void columns(const int wide, long M, long K, const real *A, long row,
                                                          long column, const real *B, long ldb, real *out, long ldo,
                                                          int add) {
    long tiles = (M + TALL - 1) / TALL;
    for (long t = 0, m = 0, end; t < tiles; t++, m = end) {
        end = M * (t + 1) / tiles;
        switch (end - m) {
#define CASE(tall)                                                                                 \
    case tall:                                                                                     \
        tile(tall, wide, K, A + m * row, row, column, B, ldb, out + m * ldo, ldo, add);            \
        break;
            CASE(1)
            CASE(2)
            CASE(3)
            CASE(4)
#if TALL > 4
            CASE(5)
            CASE(6)
#endif
#if TALL > 6
            CASE(7)
            CASE(8)
#endif
        }
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
    real padded[CHUNK * LANES], edge[TALL * LANES];
    memset(padded, 0, sizeof padded);
    memset(edge, 0, sizeof edge);
    for (long start = 0; start < K || start == 0; start += CHUNK) {
        long deep = K - start < CHUNK ? K - start : CHUNK;
        int onto = add || start > 0;
        for (long k = 0; k < deep; k++)
            memcpy(padded + k * LANES, B + (start + k) * N + n, rest * sizeof(real));
        for (long m = 0; m < M; m += TALL) {
            long few = M - m < TALL ? M - m : TALL;
            for (long i = 0; i < few && onto; i++)
                memcpy(edge + i * LANES, out + (m + i) * N + n, rest * sizeof(real));
            columns(1, few, deep, A + m * row + start * column, row, column, padded, LANES, edge, LANES, onto);
            for (long i = 0; i < few; i++)
                memcpy(out + (m + i) * N + n, edge + i * LANES, rest * sizeof(real));
        }
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

static inline void add(long n, const real *restrict x, real *restrict out) {
    for (long i = 0; i < n; i++)
        out[i] += x[i];
}

static inline void sum_and_difference(long n, const real *restrict x, const real *restrict y, real *restrict sum,
                                      real *restrict difference) {
    for (long i = 0; i < n; i++) {
        sum[i] = x[i] + y[i];
        difference[i] = x[i] - y[i];
    }
}

static inline void add_sum_and_difference(long n, const real *restrict x, const real *restrict y, real *restrict sum,
                                          real *restrict difference) {
    for (long i = 0; i < n; i++) {
        sum[i] += x[i] + y[i];
        difference[i] += x[i] - y[i];
    }
}

/* The lanes are added up in short vectors first: a chain of single numbers would take longer than the products. */
#define SHORT_BYTES 16
typedef real short_lanes __attribute__((vector_size(SHORT_BYTES), may_alias));

static inline real dot(long n, const real *x, const real *y) {
    lanes sums = {0};
    long i = 0;
    for (; i + LANES <= n; i += LANES)
        sums += *(const lanes *)(x + i) * *(const lanes *)(y + i);
    short_lanes few = {0};
    for (int k = 0; k < VECTOR_BYTES / SHORT_BYTES; k++)
        few += ((const short_lanes *)&sums)[k];
    real sum = 0;
    for (int k = 0; k < SHORT_BYTES / (int)sizeof(real); k++)
        sum += few[k];
    for (; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* out [N, M] = A^T for A [M, N]. */
static void transpose(long M, long N, const real *A, real *out) {
    for (long m = 0; m < M; m++)
        for (long n = 0; n < N; n++)
            out[n * M + m] = A[m * N + n];
}
