/* The two passes of an FNO on a value and its q tangents: stcl.operators.passes in C, for one CPU and one type of REAL.

A row of a dual field, (1+q) x ny x C numbers, fits the innermost caches. So each row goes through all of a layer before
the next one is touched, and fields are read and written once, where array operations would pass over them thirty times.
Rows meet only in the modes. Names and formulas are those of stcl/operators/passes.py. Threads share samples, rows or
modes; what is summed over samples has one array per thread, so that results do not depend on their timing.

Fields, halves and modes are those of spectrum.h with r = 1 + q; x, y [samples, nx, ny, c], dx, dy [samples, q, nx, ny, c]. */

#include "gelu.h"
#include "matrix.h"
#include "spectrum.h"

typedef struct {
    long threads, samples, q, nx, ny, modes, inputs, c, layers, hidden, outputs;
    long dx_samples, dx_nx, dx_ny; /* 1 where one sample, row or column of the directions stands for all */
} Size;

/* The weights or their bars, in the order of stcl.operators.weights.Weights.flat. */
typedef struct {
    real *lift, *lift_bias, *head, *head_bias, *output, *output_bias;
    real *const *spectral, *const *pointwise, *const *bias; /* of each layer */
} Weights;

static Weights unpack(const Size *size, real *const *flat) {
    real *const *layers = flat + 6;
    return (Weights){flat[0], flat[1], flat[2], flat[3], flat[4], flat[5],
                     layers, layers + size->layers, layers + 2 * size->layers};
}

/* ---- what happens to a row between two GELUs ---------------------------------------------------------------------- */

/* T = GELU(H), with g' and, for tangents' sake, g'' of the values. */
static void gelu_dual(const Grid *g, int order, const real *H, real *T, real *slope, real *curvature) {
    long row = g->ny * g->c;
    gelu_of(order, row, H, T, slope, curvature);
    for (long j = 1; j < g->r; j++)
        multiply(row, slope, H + j * row, T + j * row);
}

static long row_scratch(const Grid *g) { return 2 * row_of(g) + 3 * g->ny * g->c; }

/* T P^T and the half spectra of T; `across` is P^T. The results may take the place of H. */
static void layer(const Grid *g, real *memory, const real *H, const real *across, real *local, real *half) {
    real *T = memory, *slope = T + row_of(g);
    gelu_dual(g, g->r > 1, H, T, slope, NULL);
    product(g->r * g->ny, g->c, g->c, T, g->c, 1, across, local, 0);
    analyse_y(g, slope, g->dft->analysis_y, g->ny, 1, T, half);
}

/* The bar of H, which may take the place of that of T P^T, and the gradient of P added to `weight_bar`. */
static void layer_adjoint(const Grid *g, real *memory, const real *H, const real *weight, const real *local_bar,
                          const real *half_bar, real *H_bar, real *weight_bar) {
    long row = g->ny * g->c, c = g->c, nodes = g->r * g->ny;
    real *T = memory, *slope = T + g->r * row, *curvature = slope + row, *slope_bar = curvature + row;
    real *T_bar = slope_bar + row;
    gelu_dual(g, g->r > 1 ? 2 : 1, H, T, slope, curvature);
    product(c, c, nodes, local_bar, 1, c, T, weight_bar, 1);
    product(nodes, c, c, local_bar, c, 1, weight, T_bar, 0);
    synthesise_y(g, T, g->dft->analysis_y, 1, g->ny, half_bar, T_bar);
    multiply(row, T_bar, slope, H_bar);
    if (g->r == 1)
        return;
    memset(slope_bar, 0, row * sizeof(real));
    for (long j = 1; j < g->r; j++)
        for (long i = 0; i < row; i++) {
            slope_bar[i] += T_bar[j * row + i] * H[j * row + i];
            H_bar[j * row + i] = T_bar[j * row + i] * slope[i];
        }
    multiply_add(row, slope_bar, curvature, H_bar);
}

/* ---- the first layer behind the lift: fields [samples, r, nx, ny, c_in] of x or of its directions ------------------ */

static inline const real *input_row(const Grid *g, const real *fields, long sample, long x, long j) {
    return fields + (((sample * g->r + j) * g->nx) + x) * g->ny * g->c;
}

/* `in` has the channels of the fields, `out` those of the network; `across` [c_in, C] is the pointwise matrix. */
static void convolve(const Grid *in, const Grid *out, const real *fields, const real *spectral, const real *across,
                     const real *constant, real *z, real *mixed, real *half, real *waves, real *result) {
    long rows = in->samples * in->nx, m = in->m, c = out->c, threads = in->threads;
    PARALLEL(threads)
    PART(n, rows, threads)
    for (long j = 0; j < in->r; j++)
        product(2 * m, in->c, in->ny, in->dft->analysis_y, in->ny, 1,
                input_row(in, fields, n / in->nx, n % in->nx, j), half + n * half_of(in) + j * 2 * m * in->c, 0);
    analyse_x(in, half, z, waves);
    mix(threads, 2 * m * m, in->samples * in->r, in->c, c, z, spectral, mixed, waves);
    synthesise_x(out, mixed, half, waves);
    PARALLEL(threads)
    PART(n, rows, threads) {
        real *H = result + n * row_of(out);
        for (long j = 0; j < in->r; j++) {
            for (long y = 0; y < in->ny && constant; y++)
                memcpy(H + (j * in->ny + y) * c, constant, c * sizeof(real));
            product(in->ny, c, in->c, input_row(in, fields, n / in->nx, n % in->nx, j), in->c, 1, across,
                    H + j * in->ny * c, constant != NULL);
        }
        synthesise_y(out, waves + thread * in->ny * c, out->dft->synthesis_y, 2 * m, 1, half + n * half_of(out), H);
    }
}

/* The bars of the two matrices, and of the fields if they are not NULL. That of the spectral one is added to it if
   `onto`; that of the pointwise one goes to [c_in, C] numbers of each thread, `apart` from each other. */
static void convolve_adjoint(const Grid *in, const Grid *out, const real *fields, const real *spectral,
                             const real *pointwise, const real *bar, const real *z, real *mixed_bar, real *z_bar,
                             real *half, real *waves, real *spectral_bar, int onto, real *sums, long apart, real *fields_bar) {
    long rows = in->samples * in->nx, m = in->m, c = out->c, threads = in->threads, N = in->samples * in->r;
    PARALLEL(threads)
    PART(n, rows, threads) {
        analyse_y(out, waves + thread * in->ny * c, out->dft->synthesis_y, 1, 2 * m, bar + n * row_of(out),
                  half + n * half_of(out));
        for (long j = 0; j < in->r; j++)
            product(in->c, c, in->ny, input_row(in, fields, n / in->nx, n % in->nx, j), 1, in->c,
                    bar + n * row_of(out) + j * in->ny * c, sums + thread * apart, 1);
    }
    analyse_x(out, half, mixed_bar, waves);
    mix_adjoint(threads, 2 * m * m, N, in->c, c, z, spectral, mixed_bar, spectral_bar, onto, fields_bar ? z_bar : NULL,
                waves);
    if (!fields_bar)
        return;
    synthesise_x(in, z_bar, half, waves);
    PARALLEL(threads)
    PART(n, rows, threads)
    for (long j = 0; j < in->r; j++) {
        real *row_bar = (real *)input_row(in, fields_bar, n / in->nx, n % in->nx, j);
        product(in->ny, in->c, c, bar + n * row_of(out) + j * in->ny * c, c, 1, pointwise, row_bar, 0);
        product(in->ny, in->c, 2 * m, in->dft->analysis_y, 1, in->ny, half + n * half_of(in) + j * 2 * m * in->c,
                row_bar, 1);
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

static real *take(real **at, long n) {
    real *taken = *at;
    *at += (n + 15) / 16 * 16;
    return taken;
}

typedef struct {
    Grid x, dx, h, dh, dual; /* the input, its directions, both behind the first layer, and every later field */
} Grids;

static Grids grids_of(const Size *s, const Transform *dft, const Transform *dx_dft) {
    long shared = s->dx_samples * s->dx_nx, few = s->threads < shared ? s->threads : shared;
    Grid x = {s->threads, s->samples, s->nx, 1, s->ny, s->inputs, s->modes, dft}, h = x, dual = x;
    Grid dx = {few, s->dx_samples, s->dx_nx, s->q, s->dx_ny, s->inputs, s->modes, dx_dft}, dh = dx;
    h.c = dh.c = dual.c = s->c;
    dual.r = 1 + s->q;
    return (Grids){x, dx, h, dh, dual};
}

static inline long max(long a, long b) { return a > b ? a : b; }
static inline long field_of(const Grid *g) { return g->samples * g->nx * row_of(g); }

/* What the forward pass leaves for the backward pass. */
typedef struct {
    real *folded, *folded_across, *constant; /* [2m^2, Re|Im, c_in, C], [c_in, C], [C] */
    real *x_modes, *dx_modes, *h, *dh;
    real *modes, *fields; /* of the layers after the first; a pass that keeps nothing has one of each for all layers */
    long next_modes, next_field;
} Kept;

static Kept kept_of(const Size *s, const Grids *g, int keep, real **at) {
    long layers = keep ? s->layers - 1 : 1;
    Kept k;
    k.folded = take(at, 4 * s->modes * s->modes * s->inputs * s->c);
    k.folded_across = take(at, s->inputs * s->c);
    k.constant = take(at, s->c);
    k.x_modes = take(at, modes_of(&g->x));
    k.dx_modes = take(at, modes_of(&g->dx));
    k.h = take(at, field_of(&g->h));
    k.dh = take(at, field_of(&g->dh));
    k.next_modes = keep ? modes_of(&g->dual) : 0;
    k.next_field = keep ? field_of(&g->dual) : 0;
    k.modes = take(at, layers * modes_of(&g->dual));
    k.fields = take(at, layers * field_of(&g->dual));
    return k;
}

long kept_size(const Size *size, long keep) {
    Grids g = grids_of(size, NULL, NULL);
    real *at = NULL;
    kept_of(size, &g, keep, &at);
    return at - (real *)NULL;
}

/* What both passes need while they run. */
typedef struct {
    real *half, *mixed, *transposed, *product, *threads;
    long thread; /* numbers of each thread's own */
} Scratch;

static Scratch scratch_of(const Size *s, const Grids *g, real **at) {
    const Grid *all[] = {&g->x, &g->dx, &g->h, &g->dh, &g->dual};
    long half = 0, modes = 0, own = 0;
    for (int i = 0; i < 5; i++) {
        half = max(half, all[i]->samples * all[i]->nx * half_of(all[i]));
        modes = max(modes, modes_of(all[i]));
        own = max(own, wave_scratch(all[i]));
        own = max(own, mix_scratch(all[i]->samples * all[i]->r, s->c, s->c));
        own = max(own, mix_scratch(all[i]->samples * all[i]->r, s->inputs, s->c));
    }
    long row = s->ny * s->c, head = 8 * row + 5 * s->ny * s->hidden + 2 * s->outputs * row;
    own = max(own, row_of(&g->dual) * 2 + max(row_scratch(&g->dual), head));
    return (Scratch){take(at, half), take(at, 2 * modes), take(at, s->c * max(s->c, s->inputs)),
                     take(at, 2 * s->hidden * s->outputs * s->c + s->hidden * s->c), take(at, own * s->threads), own};
}

/* Gradients that are sums over rows, one array of each per thread. */
typedef struct {
    real *pointwise, *folded, *constant, *head, *head_bias, *output, *output_bias, *product, *dh;
    long thread;
} Sums;

static Sums sums_of(const Size *s, const Grids *g, real **at) {
    real *start = *at;
    Sums sums;
    sums.pointwise = take(at, s->c * s->c);
    sums.folded = take(at, s->inputs * s->c);
    sums.constant = take(at, s->c);
    sums.head = take(at, s->hidden * s->c);
    sums.head_bias = take(at, s->hidden);
    sums.output = take(at, s->outputs * s->hidden);
    sums.output_bias = take(at, s->outputs);
    sums.product = take(at, s->q ? s->hidden * s->outputs * s->c : 0);
    /* Directions that all samples share are met by all threads, those of a sample by one. */
    sums.dh = take(at, s->dx_samples == 1 ? field_of(&g->dh) : 0);
    sums.thread = *at - start;
    *at = start + s->threads * sums.thread;
    return sums;
}

/* Adds up the threads' arrays of n numbers in the first of them. */
static void collect(const Size *s, const Sums *sums, real *array, long n) {
    for (long thread = 1; thread < s->threads; thread++)
        add(n, array + thread * sums->thread, array);
}

long scratch_size(const Size *size, long backward) {
    Grids g = grids_of(size, NULL, NULL);
    real *at = NULL;
    scratch_of(size, &g, &at);
    if (backward) {
        sums_of(size, &g, &at);
        take(&at, field_of(&g.dual));
        take(&at, size->dx_samples > 1 ? field_of(&g.dh) : 0);
        take(&at, size->q ? field_of(&g.h) : 0);
        take(&at, 4 * size->modes * size->modes * size->inputs * size->c);
    }
    return at - (real *)NULL;
}

/* ---- forward ------------------------------------------------------------------------------------------------------ */

/* K1(L x + l) = folded x + constant. */
static void fold(const Size *s, const Weights *w, const Kept *k, real *transposed) {
    long c = s->c, in = s->inputs;
    PARALLEL(s->threads)
    PART(i, 4 * s->modes * s->modes, s->threads)
    product(in, c, c, w->lift, 1, in, w->spectral[0] + i * c * c, k->folded + i * in * c, 0);
    transpose(c, c, w->pointwise[0], transposed);
    product(in, c, c, w->lift, 1, in, transposed, k->folded_across, 0);
    memcpy(k->constant, w->bias[0], c * sizeof(real));
    product(1, c, c, w->lift_bias, c, 1, transposed, k->constant, 1);
    product(1, c, c, w->lift_bias, c, 1, w->spectral[0], k->constant, 1);
}

/* The first layer's dual row: h of the sample, and tangents of which one may stand for many. */
static void first_row(const Size *s, const Kept *k, long sample, long x, real *H) {
    long row = s->ny * s->c;
    memcpy(H, k->h + (sample * s->nx + x) * row, row * sizeof(real));
    long at = (s->dx_samples > 1 ? sample : 0) * s->dx_nx + (s->dx_nx > 1 ? x : 0);
    for (long j = 1; j < 1 + s->q; j++) {
        const real *dh = k->dh + (at * s->q + j - 1) * s->dx_ny * s->c;
        if (s->dx_ny > 1)
            memcpy(H + j * row, dh, row * sizeof(real));
        else
            for (long y = 0; y < s->ny; y++)
                memcpy(H + j * row + y * s->c, dh, s->c * sizeof(real));
    }
}

static void add_bias(const Size *s, const real *bias, real *mixed) {
    real root = sqrt((double)(s->nx * s->ny));
    for (long sample = 0; sample < s->samples; sample++)
        for (long i = 0; i < s->c; i++)
            mixed[sample * (1 + s->q) * s->c + i] += root * bias[i]; /* the zero mode of the values */
}

/* R [D, o * i] = W2[o, d] W1[d, i]. */
static void outer(const Size *s, const Weights *w, real *R) {
    for (long d = 0; d < s->hidden; d++)
        for (long o = 0; o < s->outputs; o++)
            for (long i = 0; i < s->c; i++)
                R[(d * s->outputs + o) * s->c + i] = w->output[o * s->hidden + d] * w->head[d * s->c + i];
}

/* k = W1 z + b1 of a row, and g, g', g'' of it; `across` is W1^T. */
static void hidden_layer(const Size *s, int order, const real *z, const real *across, const real *b1, real *k,
                         real *value, real *slope, real *curvature) {
    for (long y = 0; y < s->ny; y++)
        memcpy(k + y * s->hidden, b1, s->hidden * sizeof(real));
    product(s->ny, s->hidden, s->c, z, s->c, 1, across, k, 1);
    gelu_of(order, s->ny * s->hidden, k, value, slope, curvature);
}

static void head_row(const Size *s, const Weights *w, real *memory, const real *H, const real *across, const real *R,
                     long sample, long x, real *y_out, real *dy_out) {
    long ny = s->ny, c = s->c, row = ny * c, D = s->hidden, outputs = s->outputs;
    real *z = memory, *slope = z + row, *k = slope + row, *value_k = k + ny * D, *slope_k = value_k + ny * D;
    real *inner = slope_k + ny * D, *out = y_out + (sample * s->nx + x) * ny * outputs;
    gelu_of(s->q > 0, row, H, z, slope, NULL);
    hidden_layer(s, s->q > 0, z, across, w->head_bias, k, value_k, slope_k, NULL);
    for (long y = 0; y < ny; y++)
        for (long o = 0; o < outputs; o++)
            out[y * outputs + o] = w->output_bias[o] + dot(D, w->output + o * D, value_k + y * D);
    if (!s->q)
        return;
    product(ny, outputs * c, D, slope_k, D, 1, R, inner, 0);
    for (long y = 0; y < ny; y++)
        for (long o = 0; o < outputs; o++) {
            real *jacobian = inner + (y * outputs + o) * c;
            for (long i = 0; i < c; i++)
                jacobian[i] *= slope[y * c + i];
            for (long j = 0; j < s->q; j++)
                dy_out[(((sample * s->q + j) * s->nx + x) * ny + y) * outputs + o] =
                    dot(c, jacobian, H + (j + 1) * row + y * c);
        }
}

void forward(const Size *size, const Transform *dft, const Transform *dx_dft, real *const *weights, const real *x,
             const real *dx, long keep, real *kept, real *scratch, real *y, real *dy) {
    const Size *s = size;
    Weights w = unpack(s, weights);
    Grids g = grids_of(s, dft, dx_dft);
    Kept k = kept_of(s, &g, keep, &kept);
    Scratch own = scratch_of(s, &g, &scratch);
    const Grid *d = &g.dual;
    long row = row_of(d), half = half_of(d), modes = 2 * s->modes * s->modes;

    fold(s, &w, &k, own.transposed);
    convolve(&g.x, &g.h, x, k.folded, k.folded_across, k.constant, k.x_modes, own.mixed, own.half, own.threads, k.h);
    if (s->q)
        convolve(&g.dx, &g.dh, dx, k.folded, k.folded_across, NULL, k.dx_modes, own.mixed, own.half, own.threads, k.dh);
    for (long level = 1; level < s->layers; level++) {
        real *before = level == 1 ? k.h : k.fields + (level - 2) * k.next_field;
        real *after = k.fields + (level - 1) * k.next_field;
        real *z = k.modes + (level - 1) * k.next_modes;
        transpose(s->c, s->c, w.pointwise[level], own.transposed);
        PARALLEL(s->threads) {
            real *memory = own.threads + thread * own.thread, *first = memory + row_scratch(d);
            PART(n, s->samples * s->nx, s->threads) {
                real *H = level == 1 && s->q ? first : before + n * row;
                if (H == first)
                    first_row(s, &k, n / s->nx, n % s->nx, H);
                if (level > 1)
                    synthesise_y(d, memory, dft->synthesis_y, 2 * s->modes, 1, own.half + n * half, H);
                layer(d, memory, H, own.transposed, after + n * row, own.half + n * half);
            }
        }
        analyse_x(d, own.half, z, own.threads);
        mix(s->threads, modes, s->samples * d->r, s->c, s->c, z, w.spectral[level], own.mixed, own.threads);
        add_bias(s, w.bias[level], own.mixed);
        synthesise_x(d, own.mixed, own.half, own.threads);
    }
    real *last = k.fields + (s->layers - 2) * k.next_field, *R = own.product, *across = R + s->hidden * s->outputs * s->c;
    if (s->q)
        outer(s, &w, R);
    transpose(s->hidden, s->c, w.head, across);
    PARALLEL(s->threads)
    PART(n, s->samples * s->nx, s->threads) {
        real *memory = own.threads + thread * own.thread, *H = last + n * row;
        synthesise_y(d, memory, dft->synthesis_y, 2 * s->modes, 1, own.half + n * half, H);
        head_row(s, &w, memory, H, across, R, n / s->nx, n % s->nx, y, dy);
    }
}

/* ---- backward ----------------------------------------------------------------------------------------------------- */

static void head_row_adjoint(const Size *s, const Weights *w, real *memory, const real *H, const real *across,
                             const real *R, const real *R_across, long sample, long x, const real *y_bars,
                             const real *dy_bars, const Sums *sums, long thread, real *bar) {
    long ny = s->ny, c = s->c, row = ny * c, D = s->hidden, outputs = s->outputs, own = thread * sums->thread;
    real *z = memory, *slope = z + row, *curvature = slope + row, *slope_bar = curvature + row, *z_bar = slope_bar + row;
    real *jacobian = z_bar + row, *jacobian_bar = jacobian + row, *k = jacobian_bar + row, *value_k = k + ny * D;
    real *slope_k = value_k + ny * D, *curvature_k = slope_k + ny * D, *k_bar = curvature_k + ny * D;
    real *inner = k_bar + ny * D, *inner_bar = inner + outputs * row;
    const real *y_bar = y_bars + (sample * s->nx + x) * ny * outputs;
    real *head_bias_bar = sums->head_bias + own, *output_bias_bar = sums->output_bias + own;
    gelu_of(s->q ? 2 : 1, row, H, z, slope, curvature);
    hidden_layer(s, s->q ? 2 : 1, z, across, w->head_bias, k, value_k, slope_k, curvature_k);
    if (s->q) {
        product(ny, outputs * c, D, slope_k, D, 1, R, inner, 0);
        memset(slope_bar, 0, row * sizeof(real));
        memset(bar + row, 0, s->q * row * sizeof(real));
        for (long y = 0; y < ny; y++)
            for (long o = 0; o < outputs; o++) {
                const real *inner_o = inner + (y * outputs + o) * c;
                multiply(c, inner_o, slope + y * c, jacobian);
                memset(jacobian_bar, 0, c * sizeof(real));
                for (long j = 0; j < s->q; j++) {
                    real along = dy_bars[(((sample * s->q + j) * s->nx + x) * ny + y) * outputs + o];
                    const real *dh = H + (j + 1) * row + y * c;
                    real *dh_bar = bar + (j + 1) * row + y * c;
                    for (long i = 0; i < c; i++) {
                        dh_bar[i] += along * jacobian[i];
                        jacobian_bar[i] += along * dh[i];
                    }
                }
                multiply_add(c, jacobian_bar, inner_o, slope_bar + y * c);
                multiply(c, jacobian_bar, slope + y * c, inner_bar + (y * outputs + o) * c);
            }
        product(D, outputs * c, ny, slope_k, 1, D, inner_bar, sums->product + own, 1);
        product(ny, D, outputs * c, inner_bar, outputs * c, 1, R_across, k_bar, 0);
        for (long i = 0; i < ny * D; i++)
            k_bar[i] *= curvature_k[i];
    }
    product(outputs, D, ny, y_bar, 1, outputs, value_k, sums->output + own, 1);
    real *value_bar = value_k; /* the values are no longer needed */
    product(ny, D, outputs, y_bar, outputs, 1, w->output, value_bar, 0);
    (s->q ? multiply_add : multiply)(ny * D, value_bar, slope_k, k_bar);
    for (long y = 0; y < ny; y++) {
        add(outputs, y_bar + y * outputs, output_bias_bar);
        add(D, k_bar + y * D, head_bias_bar);
    }
    product(D, c, ny, k_bar, 1, D, z, sums->head + own, 1);
    product(ny, c, D, k_bar, D, 1, w->head, z_bar, 0);
    multiply(row, z_bar, slope, bar);
    if (s->q)
        multiply_add(row, slope_bar, curvature, bar);
}

/* The bars of W1 and W2 through R. */
static void outer_adjoint(const Size *s, const Weights *w, const real *R_bar, Weights *bars) {
    for (long d = 0; d < s->hidden; d++)
        for (long o = 0; o < s->outputs; o++) {
            const real *along = R_bar + (d * s->outputs + o) * s->c;
            for (long i = 0; i < s->c; i++)
                bars->head[d * s->c + i] += along[i] * w->output[o * s->hidden + d];
            bars->output[o * s->hidden + d] += dot(s->c, along, w->head + d * s->c);
        }
}

/* The first layer's bars of a row: of h, of its tangents where they stand, and of the constant. Without tangents, the
   row itself is the bar of h. */
static void first_row_adjoint(const Size *s, const real *bar, long sample, long x, real *h_bar, real *dh_bar,
                              real *constant_bar) {
    long row = s->ny * s->c;
    if (s->q)
        memcpy(h_bar + (sample * s->nx + x) * row, bar, row * sizeof(real));
    for (long y = 0; y < s->ny; y++)
        add(s->c, bar + y * s->c, constant_bar);
    long at = (s->dx_samples > 1 ? sample : 0) * s->dx_nx + (s->dx_nx > 1 ? x : 0);
    for (long j = 0; j < s->q; j++)
        for (long y = 0; y < s->ny; y++)
            add(s->c, bar + (j + 1) * row + y * s->c,
                dh_bar + ((at * s->q + j) * s->dx_ny + (s->dx_ny > 1 ? y : 0)) * s->c);
}

/* The bars of the lift and of the first layer, from those of the folded matrices and the constant. */
static void fold_adjoint(const Size *s, const Weights *w, const real *folded_bar, const real *across_bar,
                         const real *constant_bar, real *transposed, Weights *bars) {
    long c = s->c, in = s->inputs, matrices = 4 * s->modes * s->modes;
    PARALLEL(s->threads)
    PART(i, matrices, s->threads)
    product(c, c, in, w->lift, in, 1, folded_bar + i * in * c, bars->spectral[0] + i * c * c, 0);
    memset(bars->lift, 0, c * in * sizeof(real));
    for (long i = 0; i < matrices; i++) { /* L += M folded^T */
        transpose(in, c, folded_bar + i * in * c, transposed);
        product(c, in, c, w->spectral[0] + i * c * c, c, 1, transposed, bars->lift, 1);
    }
    transpose(in, c, across_bar, transposed); /* the bar of P L, [C, c_in] */
    product(c, in, c, w->pointwise[0], 1, c, transposed, bars->lift, 1);
    for (long o = 0; o < c; o++)
        for (long i = 0; i < c; i++) {
            real sum = constant_bar[o] * w->lift_bias[i];
            for (long a = 0; a < in; a++)
                sum += across_bar[a * c + o] * w->lift[i * in + a];
            bars->pointwise[0][o * c + i] = sum;
            bars->spectral[0][i * c + o] += w->lift_bias[i] * constant_bar[o];
        }
    memcpy(bars->bias[0], constant_bar, c * sizeof(real));
    product(1, c, c, constant_bar, c, 1, w->pointwise[0], bars->lift_bias, 0);
    for (long i = 0; i < c; i++)
        bars->lift_bias[i] += dot(c, w->spectral[0] + i * c, constant_bar);
}

void backward(const Size *size, const Transform *dft, const Transform *dx_dft, real *const *weights, const real *x,
              const real *dx, real *kept, const real *y_bar, const real *dy_bar, real *scratch, long inputs,
              real *x_bar, real *dx_bar, real *const *weight_bars) {
    const Size *s = size;
    Weights w = unpack(s, weights), bars = unpack(s, weight_bars);
    Grids g = grids_of(s, dft, dx_dft);
    Kept k = kept_of(s, &g, 1, &kept);
    Scratch own = scratch_of(s, &g, &scratch);
    real *sums_start = scratch;
    Sums sums = sums_of(s, &g, &scratch);
    memset(sums_start, 0, (scratch - sums_start) * sizeof(real));
    const Grid *d = &g.dual;
    long row = row_of(d), half = half_of(d), modes = 2 * s->modes * s->modes, c = s->c;
    real *bar = take(&scratch, field_of(d));
    real *dh_bar = s->dx_samples > 1 ? take(&scratch, field_of(&g.dh)) : sums.dh;
    real *h_bar = s->q ? take(&scratch, field_of(&g.h)) : bar, *folded_bar = take(&scratch, 2 * modes * s->inputs * c);
    real *mixed_bar = own.mixed, *z_bar = own.mixed + modes_of(d);
    long dh_bar_thread = s->dx_samples > 1 ? 0 : sums.thread;
    if (s->dx_samples > 1)
        memset(dh_bar, 0, field_of(&g.dh) * sizeof(real));

    const real *last = k.fields + (s->layers - 2) * k.next_field;
    real *R = own.product, *R_across = R + s->hidden * s->outputs * c, *across = R_across + s->hidden * s->outputs * c;
    if (s->q) {
        outer(s, &w, R);
        transpose(s->hidden, s->outputs * c, R, R_across);
    }
    transpose(s->hidden, c, w.head, across);
    PARALLEL(s->threads)
    PART(n, s->samples * s->nx, s->threads) {
        real *memory = own.threads + thread * own.thread;
        head_row_adjoint(s, &w, memory, last + n * row, across, R, R_across, n / s->nx,
                         n % s->nx, y_bar, dy_bar, &sums, thread, bar + n * row);
        analyse_y(d, memory, dft->synthesis_y, 1, 2 * s->modes, bar + n * row, own.half + n * half);
    }
    real *sum[] = {sums.head, sums.head_bias, sums.output, sums.output_bias};
    real *to[] = {bars.head, bars.head_bias, bars.output, bars.output_bias};
    long count[] = {s->hidden * c, s->hidden, s->outputs * s->hidden, s->outputs};
    for (int i = 0; i < 4; i++) {
        collect(s, &sums, sum[i], count[i]);
        memcpy(to[i], sum[i], count[i] * sizeof(real));
    }
    if (s->q) {
        collect(s, &sums, sums.product, s->hidden * s->outputs * c);
        outer_adjoint(s, &w, sums.product, &bars);
    }

    for (long level = s->layers - 1; level > 0; level--) {
        const real *before = level == 1 ? k.h : k.fields + (level - 2) * k.next_field;
        const real *z = k.modes + (level - 1) * k.next_modes;
        analyse_x(d, own.half, mixed_bar, own.threads);
        memset(bars.bias[level], 0, c * sizeof(real));
        for (long sample = 0; sample < s->samples; sample++)
            add(c, mixed_bar + sample * d->r * c, bars.bias[level]);
        for (long i = 0; i < c; i++)
            bars.bias[level][i] *= sqrt((double)(s->nx * s->ny));
        mix_adjoint(s->threads, modes, s->samples * d->r, c, c, z, w.spectral[level], mixed_bar,
                    bars.spectral[level], 0, z_bar, own.threads);
        synthesise_x(d, z_bar, own.half, own.threads);
        PARALLEL(s->threads) {
            real *memory = own.threads + thread * own.thread, *first = memory + row_scratch(d);
            real *weight_bar = sums.pointwise + thread * sums.thread;
            memset(weight_bar, 0, c * c * sizeof(real));
            /* Rows of a sample stay with one thread: its directions have one bar. */
            PART(sample, s->samples, s->threads)
            for (long n = sample * s->nx; n < (sample + 1) * s->nx; n++) {
                const real *H = level == 1 && s->q ? first : before + n * row;
                if (H == first)
                    first_row(s, &k, sample, n % s->nx, first);
                layer_adjoint(d, memory, H, w.pointwise[level], bar + n * row, own.half + n * half, bar + n * row,
                              weight_bar);
                if (level == 1)
                    first_row_adjoint(s, bar + n * row, sample, n % s->nx, h_bar, dh_bar + thread * dh_bar_thread,
                                      sums.constant + thread * sums.thread);
                else
                    analyse_y(d, memory, dft->synthesis_y, 1, 2 * s->modes, bar + n * row, own.half + n * half);
            }
        }
        collect(s, &sums, sums.pointwise, c * c);
        memcpy(bars.pointwise[level], sums.pointwise, c * c * sizeof(real));
    }
    transpose(s->inputs, c, k.folded_across, own.transposed);
    convolve_adjoint(&g.x, &g.h, x, k.folded, own.transposed, h_bar, k.x_modes, mixed_bar, z_bar, own.half, own.threads,
                     folded_bar, 0, sums.folded, sums.thread, inputs ? x_bar : NULL);
    if (s->q) {
        if (s->dx_samples == 1)
            collect(s, &sums, dh_bar, field_of(&g.dh));
        convolve_adjoint(&g.dx, &g.dh, dx, k.folded, own.transposed, dh_bar, k.dx_modes, mixed_bar, z_bar, own.half,
                         own.threads, folded_bar, 1, sums.folded, sums.thread, inputs ? dx_bar : NULL);
    }
    collect(s, &sums, sums.folded, s->inputs * c);
    collect(s, &sums, sums.constant, c);
    fold_adjoint(s, &w, folded_bar, sums.folded, sums.constant, own.transposed, &bars);
}
