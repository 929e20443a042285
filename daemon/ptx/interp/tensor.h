/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix instructions: data from decoding for the handlers, and the layout of a matrix over the lanes
 *
 * Nearly every fragment consists of the same unit: one 32-bit register of 32 lanes is a tile of 8 rows ("outer") by 16
 * bytes ("inner"), lanes 4g..4g+3 being row g. Outer and inner are row and k of A, column and k of B, row and column of
 * C. So a fragment is a list of tiles (struct ds_ix_tile), gathering it copies rows of 16 bytes, and B is gathered by
 * columns. Accumulators of 32 bits are such tiles whose registers come in pairs (one for the even, one for the odd
 * column of each pair of columns); elements of 64 bits have tiles twice as wide. The only other layout is that of
 * m8n8k4 (tensor_m8n8k4.c).
 *
 * The results equal an NVIDIA H200's, bit by bit, see tensor.c.
 */
#pragma once

#include "ptx/interp/core.h"

#define DS_IX_MATRIX_REGS 8
#define DS_IX_MATRIX_STORED 64 /* most stored elements in a row of a sparse matrix */

struct ds_ix_tile {
        uint8_t outer, inner; /* place of the tile in the matrix, in units of tiles */
};

enum ds_ix_matrix_kind {
        DS_IX_MATRIX_F16,
        DS_IX_MATRIX_BF16,
        DS_IX_MATRIX_TF32,
        DS_IX_MATRIX_E4M3,
        DS_IX_MATRIX_E5M2,
        DS_IX_MATRIX_F64,
        DS_IX_MATRIX_S8,
        DS_IX_MATRIX_U8,
        DS_IX_MATRIX_S4,
        DS_IX_MATRIX_U4,
        DS_IX_MATRIX_B1,
        DS_IX_MATRIX_F32, /* F32 and S32: only for accumulators */
        DS_IX_MATRIX_S32,
        _DS_IX_MATRIX_KINDS,
};

struct ds_ix_fragment {
        uint8_t kind; /* enum ds_ix_matrix_kind */
        uint8_t n;    /* registers */
        uint8_t used; /* number of registers that a product reads; wmma's halves are stored twice */
        uint32_t slot[DS_IX_MATRIX_REGS];
        struct ds_ix_tile tile[DS_IX_MATRIX_REGS];
};

/* A matrix operation's parameters (op's ext). Loads and stores use only `d`, the moved matrix, `at` and the fields
 * below it. */
struct ds_ix_matrix {
        uint16_t m, n, k;
        struct ds_ix_fragment a, b, c, d;
        uint8_t sparse;
        uint8_t selector; /* selects the lanes of a quad that provide metadata */
        uint8_t saturate, bit_and;
        uint8_t round; /* enum ds_ix_round, for f64 */
        uint8_t weight;
        uint8_t group;                /* number of elements along k whose products are added at once */
        uint8_t a_columns, b_columns; /* m8n8k4: 1 if the layout of A, of B is .col */
        uint32_t metadata;            /* slot of the metadata register */
        ds_ix_op at;                  /* the access to memory, as an operation of its own */
        uint32_t stride;              /* slot of the stride between rows (or columns), in elements */
        uint8_t across;               /* 1: the stride applies to the inner direction */
        uint8_t transposed;
        uint8_t accumulator; /* 1: the moved matrix is C or D, not A or B */
};

/* warp.c: start of an operation of the whole warp (.sync.aligned). 1: all 32 lanes are present; 0: *ret_next is the
 * operation to continue with. */
int ds_ix_whole_warp(ds_ix_warp *w, const ds_ix_op *op, const ds_ix_op **ret_next);

/* handlers of products: tensor.c; for integers, bits and f64 tensor_exact.c */
const struct ds_ix_impl *ds_ix_find_mma(const struct ds_ix_matrix *m);
const struct ds_ix_impl *ds_ix_find_mma_exact(const struct ds_ix_matrix *m);
/* Computes the position along k of each stored element in each row of a sparse A. */
void ds_ix_read_metadata(const ds_ix_warp *w, const struct ds_ix_matrix *m, uint8_t (*columns)[DS_IX_MATRIX_STORED]);
extern const struct ds_ix_impl ds_ix_mma_m8n8k4, ds_ix_ldmatrix, ds_ix_stmatrix, ds_ix_movmatrix, ds_ix_wmma_load,
        ds_ix_wmma_store;
