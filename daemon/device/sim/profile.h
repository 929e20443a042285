/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profile: the kernels that one request or step of a program launches, and each one's duration
 *
 * A timing-only device takes a profile as the image of a module. Its kernels are then the profile's, in the profile's
 * order, with the profile's durations. The text has one kernel per line:
 *
 *      detshare-profile 1
 *      name resnet34-b1
 *      source measured with CUPTI on an H200          (where the figures come from; shown, not interpreted)
 *      gpu h200
 *      sms 132                                        (SMs of the GPU on which `ns` was measured)
 *      samples 1                                      (work of one step: a batch's size, tokens)
 *      kernel NAME grid=56 block=256 regs=64 shared=0 ns=1600 bytes=0 stair=66:2500,108:1900 block_ns=800
 *
 * grid and block are X, XxY or XxYxZ; only grid, block and ns must be there.
 *
 *  ns         time from the kernel's begin to its end alone on the whole GPU
 *  stair      the same on fewer SMs, ascending; between two points the lower one holds (stairs, not slopes). Without
 *             it, the time is in proportion to the blocks of the busiest SM: 132 blocks take twice as long on 131 SMs
 *             as on 132, and on 66 as well
 *  bytes      bytes that the kernel moves to and from memory
 *  block_ns   time of one block, if that is not the kernel's time divided by its waves
 *
 * Four more keys are only for simulations block by block (daemon/replay/forms.h):
 *
 *  issue_ns   time of block_ns in which a block has the SM's issue slots
 *  written    bytes of `bytes` that are written
 *  reuse      bytes that are the same ones in every launch
 *  bound      `memory` or `compute`: with `memory` the kernel's tensors lie in memory channels of their own
 *
 * A line that begins with # is a comment. Errors name the line and the key. The size of a profile is bounded. No state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_PROFILE_MAGIC "detshare-profile"
#define SIM_PROFILE_VERSION 1
#define SIM_PROFILE_TEXT_MAX (64u << 20)
#define SIM_PROFILE_KERNELS_MAX (1u << 20)
#define SIM_PROFILE_STAIRS_MAX 256u               /* most points in the stair of one kernel */
#define SIM_PROFILE_NS_MAX UINT64_C(100000000000) /* longest time, 100 s; keeps every product below 64 bits */
#define SIM_PROFILE_BYTES_MAX (UINT64_C(1) << 50)

struct sim_stair {
        uint32_t sms;
        uint64_t ns;
};

struct sim_profile_kernel {
        const char *name;
        uint32_t grid[3], block[3];
        uint32_t registers, shared;
        uint64_t ns, bytes, block_ns; /* block_ns: 0 if not given */
        uint64_t issue_ns, written, reuse;
        bool memory_bound; /* bound=memory */
        /* index of the kernel's first point in the profile's `stairs`, and number of its points */
        uint32_t stair, n_stairs;
};

struct sim_profile {
        char name[64], source[200], gpu[32];
        uint32_t sms, samples;
        struct sim_profile_kernel *kernels;
        uint32_t n_kernels;
        struct sim_stair *stairs;
        uint32_t n_stairs;
        char *text; /* copy of the profile's text; all names point into it */
};

/* Whether the image begins like a profile, so that sim_profile_parse() should read it. */
int sim_profile_is(const void *text, size_t size);
/* Returns 0, -ENOMEM, or 1 if the text is wrong; then error says where ("line 7: regs=-1: not a number from 0 to
 * 255"). */
int sim_profile_parse(const char *text, size_t size, char *error, size_t error_size, struct sim_profile **ret);
struct sim_profile *sim_profile_free(struct sim_profile *profile);
/* Time of the kernel on `sms` SMs of its own, at least one; its `ns` if these are all SMs of the GPU. */
uint64_t sim_profile_time(const struct sim_profile *profile, const struct sim_profile_kernel *kernel, uint32_t sms);
/* Time of the kernel when only `slots` of its blocks run at once, fewer than it has; ns: time of one wave of that
 * many blocks. */
uint64_t sim_profile_waves_time(const struct sim_profile_kernel *kernel, uint64_t ns, uint64_t slots);
uint64_t sim_profile_blocks(const struct sim_profile_kernel *kernel);
