/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The occupancy calculation
 *
 * Registers are allocated to warps in units of 256, and warps to a block in units of the SM's four partitions, each of
 * which has a quarter of the registers. Shared memory is allocated in units of 128 bytes (256 before compute capability
 * 8), plus the system's part per block, out of the shared half of the L1. The size of that half comes in steps: the
 * smallest step that holds the preferred share, or the largest without a preference, and never less than one block
 * needs.
 */
#include "cuda/occupancy.h"

#define REGISTER_UNIT 256
#define PARTITIONS 4

static int round_up(int n, int unit)
{
        return (n + unit - 1) / unit * unit;
}

static size_t shared_unit(const struct dcu_occupancy_device *device)
{
        return device->cc_major >= 8 ? 128 : 256;
}

static size_t round_shared(const struct dcu_occupancy_device *device, size_t bytes)
{
        size_t unit = shared_unit(device);

        return (bytes + unit - 1) / unit * unit;
}

/* Possible sizes of the shared half of the L1, KiB, ascending, ended by 0. */
static const uint16_t *shared_steps(const struct dcu_occupancy_device *device)
{
        static const uint16_t volta[] = {8, 16, 32, 64, 96, 0}, turing[] = {32, 64, 0};
        static const uint16_t ampere[] = {8, 16, 32, 64, 100, 132, 164, 0}, small[] = {8, 16, 32, 64, 100, 0};
        static const uint16_t hopper[] = {8, 16, 32, 64, 100, 132, 164, 196, 228, 0};

        switch (device->cc_major) {
        case 7:
                return device->cc_minor >= 5 ? turing : volta;
        case 8:
                return device->cc_minor == 0 || device->cc_minor == 7 ? ampere : small;
        case 9:
        case 10:
        case 11:
                return hopper;
        case 12:
                return small;
        default:
                return NULL;
        }
}

/* Shared memory of an SM while the kernel runs, bytes: the smallest step that holds the carve-out and one block; the
 * SM's maximum without a carve-out. */
static size_t configured_shared(const struct dcu_occupancy_device *device, int carveout, size_t per_block)
{
        const uint16_t *step = shared_steps(device);
        size_t wanted;

        if (carveout < 0 || !step)
                return device->shared_per_sm;
        wanted = device->shared_per_sm * (size_t)carveout / 100;
        if (wanted < per_block)
                wanted = per_block;
        while (*step && (size_t)*step * 1024 < wanted)
                step++;
        return *step && (size_t)*step * 1024 < device->shared_per_sm ? (size_t)*step * 1024 : device->shared_per_sm;
}

static int registers_per_warp(const struct dcu_occupancy_device *device, int registers)
{
        return round_up(registers * device->warp, REGISTER_UNIT);
}

int dcu_occupancy_registers_fit(const struct dcu_occupancy_device *device, int registers, int block)
{
        int warps = round_up((block + device->warp - 1) / device->warp, PARTITIONS);

        return (int64_t)registers_per_warp(device, registers) * warps <= device->registers_per_block;
}

/* Blocks per SM that the limits of warps and registers allow. */
static int blocks_by_warps(
        const struct dcu_occupancy_device *device, const struct dcu_occupancy_kernel *kernel, int block)
{
        int warps = (block + device->warp - 1) / device->warp;
        int limit = device->threads_per_sm / device->warp / warps, by_registers, per_warp;

        if (limit > device->blocks_per_sm)
                limit = device->blocks_per_sm;
        if (kernel->registers <= 0)
                return limit;
        if (!dcu_occupancy_registers_fit(device, kernel->registers, block))
                return 0;
        per_warp = registers_per_warp(device, kernel->registers);
        by_registers = device->registers_per_sm / PARTITIONS / per_warp * PARTITIONS / warps;
        return by_registers < limit ? by_registers : limit;
}

int dcu_occupancy_blocks(const struct dcu_occupancy_device *device, const struct dcu_occupancy_kernel *kernel,
        int block, size_t dynamic_shared)
{
        size_t per_block;
        int limit, by_shared;

        if (block > device->threads_per_block || dynamic_shared > kernel->max_dynamic_shared ||
                kernel->static_shared + dynamic_shared > device->shared_per_block_optin)
                return 0;
        limit = blocks_by_warps(device, kernel, block);
        per_block = round_shared(device, kernel->static_shared + dynamic_shared + device->shared_reserved);
        if (per_block == 0 || limit == 0)
                return limit;
        by_shared = (int)(configured_shared(device, kernel->carveout, per_block) / per_block);
        return by_shared < limit ? by_shared : limit;
}

int64_t dcu_occupancy_dynamic_shared(
        const struct dcu_occupancy_device *device, const struct dcu_occupancy_kernel *kernel, int blocks, int block)
{
        size_t unit = shared_unit(device), share;

        if (block > device->threads_per_block || blocks > blocks_by_warps(device, kernel, block))
                return -1;
        share = device->shared_per_sm / (size_t)blocks / unit * unit;
        if (share < kernel->static_shared)
                return -1;
        share -= kernel->static_shared;
        return (int64_t)(share < kernel->max_dynamic_shared ? share : kernel->max_dynamic_shared);
}
