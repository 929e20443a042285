/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many blocks of a kernel fit on one SM
 *
 * Libraries choose their algorithms by the answers, so they have to be the real driver's: computed from the device's
 * attributes and the kernel's registers and shared memory with the hardware's allocation granules. A pure function,
 * tested against the toolkit's own calculator and against answers recorded from a GPU.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct dcu_occupancy_device {
        int cc_major, cc_minor;
        int threads_per_block, threads_per_sm, blocks_per_sm, warp;
        int registers_per_block, registers_per_sm;
        size_t shared_per_sm, shared_per_block_optin, shared_reserved; /* bytes */
};

struct dcu_occupancy_kernel {
        int registers; /* per thread */
        size_t static_shared, max_dynamic_shared;
        int carveout; /* percent, -1: none preferred */
};

/* Blocks per SM; 0 when a block does not fit at all. block >= 1. */
int dcu_occupancy_blocks(const struct dcu_occupancy_device *device, const struct dcu_occupancy_kernel *kernel,
        int block, size_t dynamic_shared);
/* 1 if the registers of a block of that many threads fit into those that a block may have. */
int dcu_occupancy_registers_fit(const struct dcu_occupancy_device *device, int registers, int block);
/* Most dynamic shared memory with which `blocks` blocks fit on an SM; -1 when they do not at all. */
int64_t dcu_occupancy_dynamic_shared(
        const struct dcu_occupancy_device *device, const struct dcu_occupancy_kernel *kernel, int blocks, int block);

struct dcu_entry;
/* Of the session's device, and of an entry with what the program has set on it. */
void dcu_occupancy_device(struct dcu_occupancy_device *ret);
void dcu_occupancy_kernel(const struct dcu_entry *entry, struct dcu_occupancy_kernel *ret);
