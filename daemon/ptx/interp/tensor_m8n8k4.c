/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mma.sync.m8n8k4 of halves
 *
 * Volta's instruction: four products of 8 x 4 by 4 x 8 at once, one for each "quad pair" (lanes 4q..4q+3 and
 * 16+4q..16+4q+3). Since sm_80 the hardware lacks it: compilers replace it by a chain of fused multiply-adds in f32
 * along k, with c added at the end. This file computes the same.
 */
#include "ptx/interp/half.h"
#include "ptx/interp/tensor.h"

/* Half number i in a lane's registers, as a float. */
static float half_at(const ds_ix_warp *w, const struct ds_ix_fragment *f, uint32_t lane, uint32_t i)
{
        uint32_t word = ((const uint32_t *)ds_ix_lanes(w, f->slot[i / 2]))[lane];

        return ds_ix_from_half((uint16_t)(word >> (16 * (i & 1))));
}

/* The lane of a quad pair that holds row (or column) x of eight. */
static uint32_t lane_of(uint32_t quad, uint32_t x)
{
        return 4 * quad + (x & 3) + (x & 4) * 4;
}

/* Element (x, k) of A or (k, x) of B, as a float. along: 1 if each lane holds all k of one x; 0 if it holds four
 * consecutive x of one k */
static float factor(
        const ds_ix_warp *w, const struct ds_ix_fragment *f, uint32_t quad, uint32_t x, uint32_t k, int along)
{
        return along ? half_at(w, f, lane_of(quad, x), k) : half_at(w, f, 4 * quad + k + (x & 4) * 4, x & 3);
}

/* Row and column of element i of a lane's accumulators */
static void place(const struct ds_ix_fragment *f, uint32_t lane, uint32_t i, uint32_t *ret_row, uint32_t *ret_column)
{
        uint32_t high = lane >> 4 << 2;

        if (f->kind == DS_IX_MATRIX_F16) {
                *ret_row = (lane & 3) + high;
                *ret_column = i;
        } else {
                *ret_row = (lane & 1) + (i & 2) + high;
                *ret_column = (i & 4) + (lane & 2) + (i & 1);
        }
}

static void gather_c(const ds_ix_warp *w, const struct ds_ix_fragment *f, uint32_t quad, float (*c)[8])
{
        for (uint32_t x = 0; x < 8; x++) {
                uint32_t lane = lane_of(quad, x), row, column;

                for (uint32_t i = 0; i < 8; i++) {
                        place(f, lane, i, &row, &column);
                        c[row][column] = f->kind == DS_IX_MATRIX_F16
                                                 ? half_at(w, f, lane, i)
                                                 : ((const float *)ds_ix_lanes(w, f->slot[i]))[lane];
                }
        }
}

static void scatter_d(const ds_ix_warp *w, const struct ds_ix_fragment *f, uint32_t quad, float (*d)[8])
{
        for (uint32_t x = 0; x < 8; x++) {
                uint32_t lane = lane_of(quad, x), row, column;

                for (uint32_t i = 0; i < 8; i++) {
                        uint32_t *to =
                                (uint32_t *)ds_ix_lanes(w, f->slot[f->kind == DS_IX_MATRIX_F16 ? i / 2 : i]) + lane;
                        uint32_t shift = 16 * (i & 1);

                        place(f, lane, i, &row, &column);
                        if (f->kind == DS_IX_MATRIX_F16)
                                *to = (*to & ~(0xffffu << shift)) | (uint32_t)ds_ix_to_half(d[row][column]) << shift;
                        else
                                *to = ds_ix_canonical(d[row][column]);
                }
        }
}

static float in_a_row(const float *a, const float *b, float c)
{
        float sum = 0;

        for (uint32_t k = 0; k < 4; k++)
                sum = __builtin_fmaf(a[k], b[k], sum);
        return c + sum;
}

static float in_pairs(const float *a, const float *b, float c)
{
        float first = __builtin_fmaf(a[1], b[1], a[0] * b[0]), second = __builtin_fmaf(a[3], b[3], a[2] * b[2]);

        return (c + first) + second;
}

static const ds_ix_op *mma_m8n8k4(ds_ix_warp *w, const ds_ix_op *op)
{
        const struct ds_ix_matrix *m = op->ext;
        const ds_ix_op *next;
        float d[4][8][8];

        if (!ds_ix_whole_warp(w, op, &next))
                return next;
        w->cost.tensor_instructions += m->weight;
        for (uint32_t q = 0; q < 4; q++) {
                gather_c(w, &m->c, q, d[q]);
                for (uint32_t i = 0; i < 8; i++) {
                        for (uint32_t j = 0; j < 8; j++) {
                                float a[4], b[4];

                                for (uint32_t k = 0; k < 4; k++) {
                                        a[k] = factor(w, &m->a, q, i, k, !m->a_columns);
                                        b[k] = factor(w, &m->b, q, j, k, m->b_columns);
                                }
                                d[q][i][j] = m->d.kind == DS_IX_MATRIX_F16 ? in_pairs(a, b, d[q][i][j])
                                                                           : in_a_row(a, b, d[q][i][j]);
                        }
                }
        }
        for (uint32_t q = 0; q < 4; q++)
                scatter_d(w, &m->d, q, d[q]);
        return op + 1;
}

const struct ds_ix_impl ds_ix_mma_m8n8k4 = {{mma_m8n8k4, mma_m8n8k4}};
