/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VRAM channels: which one an address belongs to
 *
 * A GPU spreads memory over its channels, each a slice of L2 and a piece of VRAM, by a hash of the physical address
 * that no vendor documents. Here it is a pure function of the model and the address as kernels see it: there are no
 * physical addresses behind the simulated ones, so memory that is mapped again at its address has its channels again,
 * also by another process. What each hash reproduces of a real part, and what of it is invented, is said in channel.c;
 * the exact permutations are ours, so a table learned here is of no use on a GPU.
 */
#pragma once

#include <stdint.h>

#define SIM_CHANNELS_MAX 64
#define SIM_CHANNEL_PAGE_BITS 21 /* pages in which the pattern is one and the same function of the low bits */

enum sim_channel_hash {
        SIM_CHANNELS_PAIRED, /* 47 channels, pairs alternating every 256 bytes of a KiB */
        SIM_CHANNELS_GROUPS, /* groups of a few channels: parities of address bits, and a modulus for the group */
        SIM_CHANNELS_XOR,    /* parities of address bits */
};

struct sim_channels {
        enum sim_channel_hash hash;
        uint32_t n;
        uint32_t group; /* GROUPS: channels in one, a power of two, 1 KiB of each in turn */
};

uint32_t sim_channel_of(const struct sim_channels *channels, uint64_t address);
