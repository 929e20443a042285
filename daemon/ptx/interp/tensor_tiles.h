/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathering fragments into dense matrices, and scattering the result
 */
#pragma once

#include "ptx/interp/lane.h"
#include "ptx/interp/tensor.h"

#define DS_IX_OUTER 32 /* most rows of A or columns of B */
#define DS_IX_INNER 64 /* most bytes of a row of A or a column of B */
#define DS_IX_ACCUMULATORS 256

struct ds_ix_dense {
        uint8_t row[DS_IX_OUTER][DS_IX_INNER] __attribute__((__aligned__(64)));
};

DS_IX_INLINE void ds_ix_gather(const ds_ix_warp *w, const struct ds_ix_fragment *f, struct ds_ix_dense *to)
{
        for (unsigned r = 0; r < f->used; r++) {
                const uint8_t *lanes = ds_ix_lanes(w, f->slot[r]);

                for (unsigned g = 0; g < 8; g++)
                        memcpy(&to->row[f->tile[r].outer * 8 + g][f->tile[r].inner * 16], lanes + (size_t)16 * g, 16);
        }
}

/* Gathers accumulators of 32 bits into to[row][column] with `n` columns. */
DS_IX_INLINE void ds_ix_gather32(const ds_ix_warp *w, const struct ds_ix_fragment *f, unsigned n, uint32_t *to)
{
        for (unsigned r = 0; r < f->n; r += 2) {
                const uint32_t *even = ds_ix_lanes(w, f->slot[r]), *odd = ds_ix_lanes(w, f->slot[r + 1]);
                uint32_t *at = to + f->tile[r].outer * 8 * n + f->tile[r].inner * 8;

                for (unsigned g = 0; g < 8; g++, at += n) {
                        for (unsigned t = 0; t < 4; t++) {
                                at[2 * t] = even[4 * g + t];
                                at[2 * t + 1] = odd[4 * g + t];
                        }
                }
        }
}

DS_IX_INLINE void ds_ix_scatter32(const ds_ix_warp *w, const struct ds_ix_fragment *f, unsigned n, const uint32_t *from)
{
        for (unsigned r = 0; r < f->n; r += 2) {
                uint32_t *even = ds_ix_lanes(w, f->slot[r]), *odd = ds_ix_lanes(w, f->slot[r + 1]);
                const uint32_t *at = from + f->tile[r].outer * 8 * n + f->tile[r].inner * 8;

                for (unsigned g = 0; g < 8; g++, at += n) {
                        for (unsigned t = 0; t < 4; t++) {
                                even[4 * g + t] = at[2 * t];
                                odd[4 * g + t] = at[2 * t + 1];
                        }
                }
        }
}

/* Gathers accumulators of 16 bits, of which a register holds a pair of columns, into to[row][column] with `n`
 * columns. */
DS_IX_INLINE void ds_ix_gather16(const ds_ix_warp *w, const struct ds_ix_fragment *f, unsigned n, uint16_t *to)
{
        for (unsigned r = 0; r < f->n; r++) {
                const uint8_t *lanes = ds_ix_lanes(w, f->slot[r]);
                uint16_t *at = to + f->tile[r].outer * 8 * n + f->tile[r].inner * 8;

                for (unsigned g = 0; g < 8; g++, at += n)
                        memcpy(at, lanes + (size_t)16 * g, 16);
        }
}

DS_IX_INLINE void ds_ix_scatter16(const ds_ix_warp *w, const struct ds_ix_fragment *f, unsigned n, const uint16_t *from)
{
        for (unsigned r = 0; r < f->n; r++) {
                uint8_t *lanes = ds_ix_lanes(w, f->slot[r]);
                const uint16_t *at = from + f->tile[r].outer * 8 * n + f->tile[r].inner * 8;

                for (unsigned g = 0; g < 8; g++, at += n)
                        memcpy(lanes + (size_t)16 * g, at, 16);
        }
}
