/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An order of a launch's blocks, from a seed
 *
 * CUDA promises nothing about the order in which blocks run. Kernels that rely on one pass every test that runs them in
 * increasing order. A seed gives another order: a permutation of the indices, without a table, since a grid may have
 * 2^63 blocks. It is a Feistel network over the next even power of two, iterated until it gives an existing index
 * (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). The same seed and launch give the same order
 * everywhere; two launches of one seed have different ones. Seed 0 is the increasing order.
 *
 * It is not cryptography: from one order others may be guessed.
 */
#pragma once

#include <stdint.h>

#define DS_INTERP_ORDER_ROUNDS 6

struct ds_interp_order {
        uint64_t n;
        uint32_t half; /* bits of each half of the Feistel network's values; 0: increasing order */
        uint64_t key[DS_INTERP_ORDER_ROUNDS];
};

/* Prepares an order. n: blocks (or clusters) of the launch; launch: any number that differs between launches of one
 * seed */
void ds_interp_order_init(struct ds_interp_order *order, uint64_t n, uint64_t seed, uint64_t launch);
/* Index of the block at this place of the order; place < n. With a seed and n > 1 the order is never the increasing
 * one. */
uint64_t ds_interp_order_at(const struct ds_interp_order *order, uint64_t place);
