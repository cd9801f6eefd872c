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

/* Every field of a row: out += A half, A [ny, 2m]. */
static void synthesise_y(const Grid *g, const real *A, long row, long column, const real *half, real *out) {
    for (long j = 0; j < g->r; j++)
        product(g->ny, g->c, 2 * g->m, A, row, column, half + j * 2 * g->m * g->c, out + j * g->ny * g->c, 1);
}

/* Every field of a row: half = A field, A [2m, ny]. */
static void analyse_y(const Grid *g, const real *A, long row, long column, const real *field, real *half) {
    for (long j = 0; j < g->r; j++)
        product(2 * g->m, g->c, g->ny, A, row, column, field + j * g->ny * g->c, half + j * 2 * g->m * g->c, 0);
}

static long wave_scratch(const Grid *g) { return (2 * g->m + 1) * half_of(g); }

/* Modes of the half spectra of all samples: (Re + i Im)(cos kx - i sin kx) for both signs of kx. */
static void analyse_x(const Grid *g, const real *half, real *modes, real *scratch) {
    long m = g->m, c = g->c, N = g->samples * g->r, line = half_of(g);
    PARALLEL(g->threads) {
        real *waves = scratch + thread * wave_scratch(g);
        PART(sample, g->samples, g->threads) {
            product(2 * m + 1, line, g->nx, g->dft->waves_x, g->nx, 1, half + sample * g->nx * line, waves, 0);
            for (long ky = 0; ky < m; ky++)
                for (long k = 0; k < 2 * m; k++) {
                    long kx = k < m ? k : k - 2 * m, wave = kx < 0 ? -kx : kx;
                    real sign = kx < 0 ? -1 : 1;
                    real *re = modes + ((ky * 2 * m + k) * 2 * N + sample * g->r) * c, *im = re + N * c;
                    for (long j = 0; j < g->r; j++) {
                        const real *cos_re = waves + wave * line + (j * 2 * m + ky) * c, *cos_im = cos_re + m * c;
                        const real *sin_re = cos_re + m * line, *sin_im = cos_im + m * line;
                        for (long i = 0; i < c; i++) {
                            re[j * c + i] = wave ? cos_re[i] + sign * sin_im[i] : cos_re[i];
                            im[j * c + i] = wave ? cos_im[i] - sign * sin_re[i] : cos_im[i];
                        }
                    }
                }
        }
    }
}

/* Half spectra of modes: the adjoint of the above. */
static void synthesise_x(const Grid *g, const real *modes, real *half, real *scratch) {
    long m = g->m, c = g->c, N = g->samples * g->r, line = half_of(g);
    PARALLEL(g->threads) {
        real *waves = scratch + thread * wave_scratch(g);
        PART(sample, g->samples, g->threads) {
            memset(waves, 0, wave_scratch(g) * sizeof(real));
            for (long ky = 0; ky < m; ky++)
                for (long k = 0; k < 2 * m; k++) {
                    long kx = k < m ? k : k - 2 * m, wave = kx < 0 ? -kx : kx;
                    real sign = kx < 0 ? -1 : 1;
                    const real *re = modes + ((ky * 2 * m + k) * 2 * N + sample * g->r) * c, *im = re + N * c;
                    for (long j = 0; j < g->r; j++) {
                        real *cos_re = waves + wave * line + (j * 2 * m + ky) * c, *cos_im = cos_re + m * c;
                        real *sin_re = cos_re + m * line, *sin_im = cos_im + m * line;
                        add(c, re + j * c, cos_re);
                        add(c, im + j * c, cos_im);
                        for (long i = 0; i < c && wave; i++) {
                            sin_im[i] += sign * re[j * c + i];
                            sin_re[i] -= sign * im[j * c + i];
                        }
                    }
                }
            product(g->nx, line, 2 * m + 1, g->dft->waves_x, 1, g->nx, waves, half + sample * g->nx * line, 0);
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
