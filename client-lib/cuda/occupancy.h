/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Occupancy: how many blocks of a kernel fit on one SM
 *
 * Libraries choose algorithms by these numbers, so they must be the genuine driver's. They are computed from the
 * device's attributes and the kernel's registers and shared memory with the hardware's allocation granules. The
 * computation is a pure function, tested against the toolkit's calculator and against numbers recorded on a GPU.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct dcu_occupancy_device {
        int cc_major, cc_minor;
        int threads_per_block, threads_per_sm, blocks_per_sm, warp;
        int registers_per_block, registers_per_sm;
        /* shared memory, bytes: of an SM, the largest of a block, the part of each block that the system needs */
        size_t shared_per_sm, shared_per_block_optin, shared_reserved;
};

struct dcu_occupancy_kernel {
        int registers; /* registers per thread */
        size_t static_shared, max_dynamic_shared;
        int carveout; /* preferred shared-memory carve-out, per cent; -1: none */
};

/* Returns the blocks of `block` >= 1 threads that fit on one SM; 0: not even one fits. */
int dcu_occupancy_blocks(const struct dcu_occupancy_device *device, const struct dcu_occupancy_kernel *kernel,
        int block, size_t dynamic_shared);
/* 1: the registers of a block of `block` threads fit on an SM. */
int dcu_occupancy_registers_fit(const struct dcu_occupancy_device *device, int registers, int block);
/* Returns the most dynamic shared memory per block, bytes, with which `blocks` blocks fit on an SM; -1: they never
 * fit. */
int64_t dcu_occupancy_dynamic_shared(
        const struct dcu_occupancy_device *device, const struct dcu_occupancy_kernel *kernel, int blocks, int block);

struct dcu_entry;
/* The inputs of the calculation: the session's device; a kernel with the attributes that the program set. */
void dcu_occupancy_device(struct dcu_occupancy_device *ret);
void dcu_occupancy_kernel(const struct dcu_entry *entry, struct dcu_occupancy_kernel *ret);
