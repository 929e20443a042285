/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mma.sync, mma.sp and wmma.mma of integers, bits and f64
 *
 * Integers are summed exactly and then wrap, or saturate with .satfinite. f64 is a chain of fused multiply-adds along k
 * that begins with c.
 */
#include <fenv.h>
#include <math.h>

#include "ptx/interp/tensor_tiles.h"

#define MOST_K 128

/* --- integers --- */
struct integers {
        int16_t a[32][MOST_K], b[32][MOST_K]; /* a: rows of A; b: columns of B */
};

/* Widens n elements of 8 or 4 bits to 16 bits. */
DS_IX_INLINE void widen(enum ds_ix_matrix_kind kind, const uint8_t *row, unsigned n, int16_t *to)
{
        switch (kind) {
        case DS_IX_MATRIX_S8:
                for (unsigned i = 0; i < n; i++)
                        to[i] = (int8_t)row[i];
                break;
        case DS_IX_MATRIX_U8:
                for (unsigned i = 0; i < n; i++)
                        to[i] = row[i];
                break;
        case DS_IX_MATRIX_S4:
                for (unsigned i = 0; i < n; i++)
                        to[i] = (int8_t)((row[i / 2] >> (4 * (i & 1)) & 15) << 4) >> 4;
                break;
        default:
                for (unsigned i = 0; i < n; i++)
                        to[i] = row[i / 2] >> (4 * (i & 1)) & 15;
        }
}

DS_IX_INLINE int32_t add(int32_t c, int32_t sum, int saturate)
{
        int64_t exact = (int64_t)c + sum;

        if (!saturate)
                return (int32_t)(uint32_t)exact;
        return (int32_t)(exact > INT32_MAX ? INT32_MAX : exact < INT32_MIN ? INT32_MIN : exact);
}

/* Moves the stored elements of a sparse A to their positions along k, by the metadata; the other elements become
 * zero. */
static void spread(const ds_ix_warp *w, const struct ds_ix_matrix *m, struct integers *x)
{
        uint8_t columns[16][DS_IX_MATRIX_STORED];
        int16_t stored[MOST_K / 2];

        ds_ix_read_metadata(w, m, columns);
        for (unsigned i = 0; i < 16; i++) {
                memcpy(stored, x->a[i], sizeof(stored));
                memset(x->a[i], 0, sizeof(x->a[i]));
                for (unsigned t = 0; t < m->k / 2u; t++)
                        x->a[i][columns[i][t]] = stored[t];
        }
}

DS_IX_INLINE const ds_ix_op *mma_int_body(ds_ix_warp *w, const ds_ix_op *op)
{
        const struct ds_ix_matrix *m = op->ext;
        int32_t c[DS_IX_ACCUMULATORS];
        const ds_ix_op *next;
        struct ds_ix_dense a, b;
        struct integers x;

        if (!ds_ix_whole_warp(w, op, &next))
                return next;
        w->cost.tensor_instructions += m->weight;
        ds_ix_gather(w, &m->a, &a);
        ds_ix_gather(w, &m->b, &b);
        ds_ix_gather32(w, &m->c, m->n, (uint32_t *)c);
        for (unsigned i = 0; i < m->m; i++)
                widen((enum ds_ix_matrix_kind)m->a.kind, a.row[i], m->sparse ? m->k / 2u : m->k, x.a[i]);
        for (unsigned j = 0; j < m->n; j++)
                widen((enum ds_ix_matrix_kind)m->b.kind, b.row[j], m->k, x.b[j]);
        if (m->sparse)
                spread(w, m, &x);
        for (unsigned i = 0; i < m->m; i++) {
                for (unsigned j = 0; j < m->n; j++) {
                        int32_t sum = 0;

                        for (unsigned k = 0; k < m->k; k += 16) {
                                for (unsigned u = 0; u < 16; u++)
                                        sum += x.a[i][k + u] * x.b[j][k + u];
                        }
                        c[i * m->n + j] = add(c[i * m->n + j], sum, m->saturate);
                }
        }
        ds_ix_scatter32(w, &m->d, m->n, (const uint32_t *)c);
        return op + 1;
}

DS_IX_FLOW_VARIANTS(mma_int)

/* --- bits --- */
DS_IX_INLINE const ds_ix_op *mma_b1_body(ds_ix_warp *w, const ds_ix_op *op)
{
        const struct ds_ix_matrix *m = op->ext;
        uint32_t c[DS_IX_ACCUMULATORS];
        const ds_ix_op *next;
        struct ds_ix_dense a, b;

        if (!ds_ix_whole_warp(w, op, &next))
                return next;
        w->cost.tensor_instructions += m->weight;
        ds_ix_gather(w, &m->a, &a);
        ds_ix_gather(w, &m->b, &b);
        ds_ix_gather32(w, &m->c, m->n, c);
        for (unsigned i = 0; i < m->m; i++) {
                for (unsigned j = 0; j < m->n; j++) {
                        for (unsigned k = 0; k < m->k / 64u; k++) {
                                uint64_t x, y;

                                memcpy(&x, a.row[i] + (size_t)8 * k, 8);
                                memcpy(&y, b.row[j] + (size_t)8 * k, 8);
                                c[i * m->n + j] += (uint32_t)__builtin_popcountll(m->bit_and ? x & y : x ^ y);
                        }
                }
        }
        ds_ix_scatter32(w, &m->d, m->n, c);
        return op + 1;
}

DS_IX_FLOW_VARIANTS(mma_b1)

/* --- f64 --- */
#define DOUBLES 16 /* most elements of a row of A or a column of B */
#define NAN64 UINT64_C(0xfff8000000000000)

struct doubles {
        double row[16][DOUBLES];
};

static void gather64(const ds_ix_warp *w, const struct ds_ix_fragment *f, struct doubles *to)
{
        for (unsigned r = 0; r < f->n; r++) {
                const uint8_t *lanes = ds_ix_lanes(w, f->slot[r]);

                for (unsigned g = 0; g < 8; g++)
                        memcpy(&to->row[f->tile[r].outer * 8 + g][f->tile[r].inner * 4], lanes + (size_t)32 * g, 32);
        }
}

/* Gathers the accumulators of f64 from registers, each of which holds every second element of some rows. */
static void gather64_c(const ds_ix_warp *w, const struct ds_ix_fragment *f, struct doubles *to)
{
        for (unsigned r = 0; r < f->n; r++) {
                const double *lanes = ds_ix_lanes(w, f->slot[r]);

                for (unsigned i = 0; i < DS_IX_LANES; i++)
                        to->row[f->tile[r].outer * 8 + i / 4][i % 4 * 2 + (r & 1)] = lanes[i];
        }
}

static void scatter64(const ds_ix_warp *w, const struct ds_ix_fragment *f, const struct doubles *from)
{
        for (unsigned r = 0; r < f->n; r++) {
                double *lanes = ds_ix_lanes(w, f->slot[r]);

                for (unsigned i = 0; i < DS_IX_LANES; i++)
                        lanes[i] = from->row[f->tile[r].outer * 8 + i / 4][i % 4 * 2 + (r & 1)];
        }
}

/* a * b + c in the processor's rounding mode; volatile keeps the computation between the two mode changes */
static double fma_rounded(double x, double y, double z, enum ds_ix_round round)
{
        static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
        volatile double a = x, b = y, c = z, r;
        int before;

        if (round == DS_IX_RN)
                return __builtin_fma(x, y, z);
        before = fegetround();
        (void)fesetround(modes[round]);
        r = fma(a, b, c);
        (void)fesetround(before);
        return r;
}

/* NaN result of a * b + c: a NaN operand becomes quiet, with priority b, c, a, as in fma; a NaN from numbers is the
 * default one. */
static double quiet(double r, double a, double b, double c)
{
        double nan = b != b ? b : c != c ? c : a != a ? a : ds_ix_double(NAN64);

        return r == r ? r : ds_ix_double(ds_ix_bits64(nan) | UINT64_C(1) << 51);
}

static const ds_ix_op *mma_f64(ds_ix_warp *w, const ds_ix_op *op)
{
        const struct ds_ix_matrix *m = op->ext;
        struct doubles a, b, c;
        const ds_ix_op *next;

        if (!ds_ix_whole_warp(w, op, &next))
                return next;
        w->cost.tensor_instructions += m->weight;
        gather64(w, &m->a, &a);
        gather64(w, &m->b, &b);
        gather64_c(w, &m->c, &c);
        for (unsigned i = 0; i < m->m; i++) {
                for (unsigned j = 0; j < m->n; j++) {
                        double sum = c.row[i][j];

                        for (unsigned k = 0; k < m->k; k++) {
                                double x = a.row[i][k], y = b.row[j][k];

                                sum = quiet(fma_rounded(x, y, sum, (enum ds_ix_round)m->round), x, y, sum);
                        }
                        c.row[i][j] = sum;
                }
        }
        scatter64(w, &m->d, &c);
        return op + 1;
}

static const struct ds_ix_impl mma_f64_impl = {{mma_f64, mma_f64}};

const struct ds_ix_impl *ds_ix_find_mma_exact(const struct ds_ix_matrix *m)
{
        switch (m->a.kind) {
        case DS_IX_MATRIX_F64:
                return &mma_f64_impl;
        case DS_IX_MATRIX_B1:
                return &mma_b1;
        default:
                return &mma_int;
        }
}
