/* From fields to modes and back, and what happens to modes: stcl/operators/dft.py and the mix of a layer.

With r fields per sample and 2m half-spectrum rows (real parts, then imaginary ones):
    fields [samples, nx, r, ny, C]     halves [samples, nx, r, 2m, C]     modes [m, 2m, Re|Im, samples * r, C] */

#pragma once

#include "matrix.h"

/* The matrices of the transform on one grid, as in stcl/operators/dft.py. */
typedef struct {
    const real *analysis_y, *synthesis_y, *waves_x;
} Transform;

/* Fields of one grid: r fields of c channels for each sample. */
typedef struct {
    long threads, samples, nx, r, ny, c, m;
    const Transform *dft;
} Grid;

static inline long row_of(const Grid *g) { return g->r * g->ny * g->c; }
static inline long half_of(const Grid *g) { return g->r * 2 * g->m * g->c; }
static inline long modes_of(const Grid *g) { return 4 * g->m * g->m * g->samples * g->r * g->c; }

/* ---- cosines are even and sines are odd, so that half of the nodes is enough for each ---------------------------- */

/* n rows become f(j) + f(n-j), j = 0..n/2, and then f(j) - f(n-j), j = 1..(n-1)/2. What is its own mirror image stays,
   so that these are n rows again. */
static inline long evens(long n) { return n / 2 + 1; }
static inline long odds(long n) { return (n - 1) / 2; }
static inline int alone(long n, long j) { return j == 0 || 2 * j == n; }

/* Rows of f [n, parts, c] are `apart` from each other; folded is [parts, n, c]. */
static void fold_mirror(long n, long parts, long c, const real *f, long apart, real *folded) {
    for (long j = 0; j < evens(n); j++)
        for (long part = 0; part < parts; part++) {
            const real *here = f + j * apart + part * c, *there = here + (n - 2 * j) * apart;
            real *even = folded + (part * n + j) * c, *odd = even + n / 2 * c;
            if (alone(n, j))
                memcpy(even, here, c * sizeof(real));
            else
                sum_and_difference(c, here, there, even, odd);
        }
}

/* f from its folded rows: the adjoint but for the rows that are their own mirror images, which stay here, too. */
static void unfold_mirror(long n, long parts, long c, const real *folded, real *f, long apart) {
    for (long j = 0; j < evens(n); j++)
        for (long part = 0; part < parts; part++) {
            real *here = f + j * apart + part * c, *there = here + (n - 2 * j) * apart;
            const real *even = folded + (part * n + j) * c, *odd = even + n / 2 * c;
            if (alone(n, j))
                memcpy(here, even, c * sizeof(real));
            else
                sum_and_difference(c, even, odd, here, there);
        }
}

/* The same, added to f [n, c]. */
static void unfold_mirror_onto(long n, long c, const real *folded, real *f) {
    for (long j = 0; j < evens(n); j++)
        if (alone(n, j))
            add(c, folded + j * c, f + j * c);
        else
            add_sum_and_difference(c, folded + j * c, folded + (n / 2 + j) * c, f + j * c, f + (n - j) * c);
}

/* ---- along y: matrices A of m cosines, then m sines; `memory` has ny x C numbers ------------------------------- */

/* Every field of a row: out += A half, A [ny, 2m]. */
static void synthesise_y(const Grid *g, real *memory, const real *A, long row, long column, const real *half,
                         real *out) {
    long m = g->m, c = g->c, ny = g->ny;
    for (long j = 0; j < g->r; j++, half += 2 * m * c, out += ny * c) {
        product(evens(ny), c, m, A, row, column, half, memory, 0);
        product(odds(ny), c, m, A + row + m * column, row, column, half + m * c, memory + evens(ny) * c, 0);
        unfold_mirror_onto(ny, c, memory, out);
    }
}

/* Every field of a row: half = A field, A [2m, ny]. */
static void analyse_y(const Grid *g, real *memory, const real *A, long row, long column, const real *field,
                      real *half) {
    long m = g->m, c = g->c, ny = g->ny;
    for (long j = 0; j < g->r; j++, half += 2 * m * c, field += ny * c) {
        fold_mirror(ny, 1, c, field, c, memory);
        product(m, c, evens(ny), A, row, column, memory, half, 0);
        product(m, c, odds(ny), A + m * row + column, row, column, memory + evens(ny) * c, half + m * c, 0);
    }
}

/* ---- along x: modes of kx and -kx from the cosines and sines of |kx|, one ky at a time -------------------------- */

static long wave_scratch(const Grid *g) { return (2 * g->m * g->nx + 4 * g->m + 3) * g->c; }

/* What a thread has of one field: the folded half spectra, [2m, nx, c]; of one ky the cosines [m+1, c] and sines [m, c]
   of the real and of the imaginary part; a place for the mode kx = m, which does not exist, though kx = -m does. */
typedef struct {
    real *folded, *re, *im, *missing;
} Waves;

static Waves waves_of(const Grid *g, real *memory) {
    real *re = memory + 2 * g->m * g->nx * g->c, *im = re + (2 * g->m + 1) * g->c;
    return (Waves){memory, re, im, im + (2 * g->m + 1) * g->c};
}

/* Modes of the half spectra of all samples: (Re + i Im)(cos kx - i sin kx) for both signs of kx. */
static void analyse_x(const Grid *g, const real *half, real *modes, real *scratch) {
    long m = g->m, c = g->c, nx = g->nx, N = g->samples * g->r, line = half_of(g), bytes = c * sizeof(real);
    const real *cosines = g->dft->waves_x, *sines = cosines + (m + 1) * nx + 1;
    PARALLEL(g->threads) {
        Waves w = waves_of(g, scratch + thread * wave_scratch(g));
        PART(n, N, g->threads) {
            fold_mirror(nx, 2 * m, c, half + n / g->r * nx * line + n % g->r * 2 * m * c, line, w.folded);
            for (long ky = 0; ky < m; ky++) {
                const real *re = w.folded + ky * nx * c, *im = re + m * nx * c;
                product(m + 1, c, evens(nx), cosines, nx, 1, re, w.re, 0);
                product(m + 1, c, evens(nx), cosines, nx, 1, im, w.im, 0);
                product(m, c, odds(nx), sines, nx, 1, re + evens(nx) * c, w.re + (m + 1) * c, 0);
                product(m, c, odds(nx), sines, nx, 1, im + evens(nx) * c, w.im + (m + 1) * c, 0);
                real *zero = modes + (ky * 4 * m * N + n) * c;
                memcpy(zero, w.re, bytes);
                memcpy(zero + N * c, w.im, bytes);
                for (long k = 1; k <= m; k++) {
                    real *plus = k < m ? zero + k * 2 * N * c : NULL, *minus = zero + (2 * m - k) * 2 * N * c;
                    const real *cos_re = w.re + k * c, *cos_im = w.im + k * c;
                    const real *sin_re = cos_re + m * c, *sin_im = cos_im + m * c;
                    sum_and_difference(c, cos_re, sin_im, plus ? plus : w.missing, minus);
                    sum_and_difference(c, cos_im, sin_re, minus + N * c, plus ? plus + N * c : w.missing);
                }
            }
        }
    }
}

/* Half spectra of modes: the adjoint of the above. */
static void synthesise_x(const Grid *g, const real *modes, real *half, real *scratch) {
    long m = g->m, c = g->c, nx = g->nx, N = g->samples * g->r, line = half_of(g), bytes = c * sizeof(real);
    const real *cosines = g->dft->waves_x, *sines = cosines + (m + 1) * nx + 1;
    PARALLEL(g->threads) {
        Waves w = waves_of(g, scratch + thread * wave_scratch(g));
        memset(w.missing, 0, bytes);
        PART(n, N, g->threads) {
            for (long ky = 0; ky < m; ky++) {
                const real *zero = modes + (ky * 4 * m * N + n) * c;
                memcpy(w.re, zero, bytes);
                memcpy(w.im, zero + N * c, bytes);
                for (long k = 1; k <= m; k++) {
                    const real *plus = k < m ? zero + k * 2 * N * c : NULL, *minus = zero + (2 * m - k) * 2 * N * c;
                    real *cos_re = w.re + k * c, *cos_im = w.im + k * c;
                    real *sin_re = cos_re + m * c, *sin_im = cos_im + m * c;
                    sum_and_difference(c, plus ? plus : w.missing, minus, cos_re, sin_im);
                    sum_and_difference(c, minus + N * c, plus ? plus + N * c : w.missing, cos_im, sin_re);
                }
                real *re = w.folded + ky * nx * c, *im = re + m * nx * c;
                product(evens(nx), c, m + 1, cosines, 1, nx, w.re, re, 0);
                product(evens(nx), c, m + 1, cosines, 1, nx, w.im, im, 0);
                product(odds(nx), c, m, sines, 1, nx, w.re + (m + 1) * c, re + evens(nx) * c, 0);
                product(odds(nx), c, m, sines, 1, nx, w.im + (m + 1) * c, im + evens(nx) * c, 0);
            }
            unfold_mirror(nx, 2 * m, c, w.folded, half + n / g->r * nx * line + n % g->r * 2 * m * c, line);
        }
    }
}

/* ---- each mode times its complex matrix, W [Re|Im, in, out] ------------------------------------------------------- */

static void mix(long threads, long modes, long N, long in, long out, const real *z, const real *W, real *mixed,
                real *scratch) {
    PARALLEL(threads) {
        real *minus_im = scratch + thread * N * in;
        PART(mode, modes, threads) {
            const real *re = z + mode * 2 * N * in, *im = re + N * in;
            const real *W_re = W + mode * 2 * in * out, *W_im = W_re + in * out;
            real *out_re = mixed + mode * 2 * N * out, *out_im = out_re + N * out;
            for (long i = 0; i < N * in; i++)
                minus_im[i] = -im[i];
            product(N, out, in, re, in, 1, W_re, out_re, 0);
            product(N, out, in, minus_im, in, 1, W_im, out_re, 1);
            product(N, out, in, re, in, 1, W_im, out_im, 0);
            product(N, out, in, im, in, 1, W_re, out_im, 1);
        }
    }
}

static long mix_scratch(long N, long in, long out) { return 2 * in * out + N * (in > out ? in : out); }

/* The bar of W, added to it if `onto`, and of z if it is not NULL. */
static void mix_adjoint(long threads, long modes, long N, long in, long out, const real *z, const real *W,
                        const real *mixed_bar, real *W_bar, int onto, real *z_bar, real *scratch) {
    PARALLEL(threads) {
        real *W_re_across = scratch + thread * mix_scratch(N, in, out), *W_im_across = W_re_across + in * out;
        real *minus = W_im_across + in * out;
        PART(mode, modes, threads) {
            const real *re = z + mode * 2 * N * in, *im = re + N * in;
            const real *re_bar = mixed_bar + mode * 2 * N * out, *im_bar = re_bar + N * out;
            real *W_re_bar = W_bar + mode * 2 * in * out, *W_im_bar = W_re_bar + in * out;
            product(in, out, N, re, 1, in, re_bar, W_re_bar, onto);
            product(in, out, N, im, 1, in, im_bar, W_re_bar, 1);
            for (long i = 0; i < N * in; i++)
                minus[i] = -im[i];
            product(in, out, N, re, 1, in, im_bar, W_im_bar, onto);
            product(in, out, N, minus, 1, in, re_bar, W_im_bar, 1);
            if (!z_bar)
                continue;
            const real *W_re = W + mode * 2 * in * out;
            transpose(in, out, W_re, W_re_across);
            transpose(in, out, W_re + in * out, W_im_across);
            real *z_re_bar = z_bar + mode * 2 * N * in, *z_im_bar = z_re_bar + N * in;
            for (long i = 0; i < N * out; i++)
                minus[i] = -re_bar[i];
            product(N, in, out, re_bar, out, 1, W_re_across, z_re_bar, 0);
            product(N, in, out, im_bar, out, 1, W_im_across, z_re_bar, 1);
            product(N, in, out, im_bar, out, 1, W_re_across, z_im_bar, 0);
            product(N, in, out, minus, out, 1, W_im_across, z_im_bar, 1);
        }
    }
}
