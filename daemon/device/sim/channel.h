/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VRAM channels: which one an address belongs to
 *
 * A GPU spreads memory over its channels by a hash of the physical address. Each channel is a slice of L2 and a part of
 * VRAM. No vendor documents the hash. The simulated device has no physical addresses: the channel is a pure function of
 * the model and the virtual address. So memory that is mapped again at its address has the same channels, in another
 * process too.
 *
 * channel.c says which parts of each hash come from measurements of a real GPU and which are invented. The exact
 * permutations are invented, so a channel table learned here is of no use on a GPU.
 */
#pragma once

#include <stdint.h>

#define SIM_CHANNELS_MAX 64
/* log2 of the bytes of a page; inside a page only the low address bits select the channel */
#define SIM_CHANNEL_PAGE_BITS 21

enum sim_channel_hash {
        SIM_CHANNELS_PAIRED, /* 47 channels; pairs alternate every 256 bytes of a KiB */
        SIM_CHANNELS_GROUPS, /* groups of a few channels: parities of address bits, and a modulus for the group */
        SIM_CHANNELS_XOR,    /* parities of address bits */
};

struct sim_channels {
        enum sim_channel_hash hash;
        uint32_t n;
        uint32_t group; /* GROUPS: channels per group, a power of two; consecutive KiB use them in turn */
};

uint32_t sim_channel_of(const struct sim_channels *channels, uint64_t address);
