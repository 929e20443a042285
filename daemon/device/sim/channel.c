/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hashes from an address to its memory channel
 *
 * PAIRED reproduces a measurement on an H200. Inside each KiB the channels alternate a,b,a,b in granules of 256 bytes.
 * The pairs (a,b) that occur form a graph:
 *
 *  - eight chains of three interior channels, each closed to a cycle of six;
 *  - four hubs that belong to two cycles each;
 *  - four bridges that join the ends of the chains of one hub to those of the next. One bridge is missing, and its
 *    neighbours pair with each other.
 *
 * That makes 47 channels: 24 have two neighbours, 16 have three, 7 have four. For all channels to have the same amount
 * of memory, the pairs need weights: 2 along a chain, 1 at hubs and bridges; 94 in all. The simulator assigns these 94
 * to the KiB of a 2 MiB page by a linear congruence. Its two numbers come from the page's address. So every page has
 * its pattern and every channel its share.
 *
 * GROUPS follows the SGDRC paper's report of the Tesla P40 (12 channels of 32 bits, 3 groups of 4) and the RTX A2000 (6
 * channels, 3 groups of 2): 1 KiB belongs to one channel, and the channels of a group follow each other. In the paper's
 * figure 9 the orders are XORs of each other, and the positions of a group are numbers modulo three whose bits were
 * XORed. So the channel's index in its group consists of parities of address bits. The group is a number made of such
 * parities, modulo three; that makes the hash non-linear. The choice of address bits is invented here.
 *
 * XOR is the FGPU project's finding on the GTX 1080 (8 channels), as the SGDRC paper reports it: each bit of the
 * channel is the parity of some address bits, and each page of 4 KiB has one colour. The choice of address bits is
 * invented here.
 */
#include "device/sim/channel.h"

#include <assert.h>

#include "util/macro.h"

#define PAGE_MASK ((UINT64_C(1) << SIM_CHANNEL_PAGE_BITS) - 1)

/* Random bits for an address's page. Any good mixing function works; the constants are those of splitmix64 (Steele
 * et al.). */
static uint64_t mix(uint64_t x)
{
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

/* --- 47 channels in pairs --- */

#define CYCLES 8
#define HUBS 4
#define PAIR_SLOTS 94
/* channel i of a cycle's chain: 0 and 4 are the chain's ends, 1 to 3 its interior */
#define CHAIN(cycle, i) (uint8_t)((cycle)*5 + (i))
#define HUB(i) (uint8_t)(CYCLES * 5 + (i))
/* channel number of bridge i, 0 to 2; the fourth bridge is missing */
#define BRIDGE(i) (uint8_t)(CYCLES * 5 + HUBS + (i))

#define CYCLE(c)                                                                                    \
        {HUB((c) / 2), CHAIN(c, 0)}, {CHAIN(c, 0), CHAIN(c, 1)}, {CHAIN(c, 1), CHAIN(c, 0)},        \
                {CHAIN(c, 1), CHAIN(c, 2)}, {CHAIN(c, 2), CHAIN(c, 1)}, {CHAIN(c, 2), CHAIN(c, 3)}, \
                {CHAIN(c, 3), CHAIN(c, 2)}, {CHAIN(c, 3), CHAIN(c, 4)}, {CHAIN(c, 4), CHAIN(c, 3)}, \
        {                                                                                           \
                CHAIN(c, 4), HUB((c) / 2)                                                           \
        }
/* Bridge b: pairs with the last chain ends of one hub and with the first chain ends of the next hub. */
#define JOIN(b)                                                                                                      \
        {BRIDGE(b), CHAIN((b)*2, 4)}, {CHAIN((b)*2 + 1, 4), BRIDGE(b)}, {BRIDGE(b), CHAIN(((b)*2 + 2) % CYCLES, 0)}, \
        {                                                                                                            \
                CHAIN(((b)*2 + 3) % CYCLES, 0), BRIDGE(b)                                                            \
        }

static const uint8_t pairs[PAIR_SLOTS][2] = {CYCLE(0), CYCLE(1), CYCLE(2), CYCLE(3), CYCLE(4), CYCLE(5), CYCLE(6),
        CYCLE(7), JOIN(0), JOIN(1), JOIN(2), {CHAIN(6, 4), CHAIN(0, 0)}, {CHAIN(1, 0), CHAIN(7, 4)}};

static uint32_t paired(uint64_t address)
{
        /* `step` is below 94 and coprime to it (odd and not 47), so that the page uses all slots alike */
        uint64_t page = mix(address >> SIM_CHANNEL_PAGE_BITS), kib = (address & PAGE_MASK) >> 10;
        uint64_t step = 1 + 2 * (page % 46), first = (page >> 32) % PAIR_SLOTS;

        step += step >= 47 ? 2 : 0;
        return pairs[(kib * step + first) % PAIR_SLOTS][address >> 8 & 1];
}

/* --- groups --- */

/* The address's bits from bit `from` on, each XORed with some of the bits above it. */
static uint64_t folded(uint64_t address, unsigned from)
{
        uint64_t bits = address >> from;

        return bits ^ bits >> 5 ^ bits >> 9 ^ bits >> 14;
}

static uint32_t grouped(const struct sim_channels *channels, uint64_t address)
{
        unsigned place_bits = (unsigned)__builtin_ctz(channels->group);
        uint64_t place = folded(address, 10), upper = folded(address, 12);
        uint32_t group = (uint32_t)(folded(address, 10 + place_bits) % (channels->n / channels->group));

        return group * channels->group + (uint32_t)((place ^ upper >> 3) & (channels->group - 1));
}

/* --- parities --- */

static uint32_t parities(uint64_t address)
{
        static const uint64_t bits[] = {
                UINT64_C(0x2a5529000), /* address bits 12, 15, 17, 20, 22, 24, 26, 29, 31, 33 */
                UINT64_C(0x4d2996000), /* address bits 13, 14, 16, 19, 20, 23, 25, 28, 30, 31, 34 */
                UINT64_C(0x3693cc000), /* address bits 14, 15, 18..21, 24, 27, 29, 30, 32, 33 */
        };
        uint32_t channel = 0;

        for (uint32_t i = 0; i < DS_ARRAY_SIZE(bits); i++)
                channel |= (uint32_t)__builtin_parityll(address & bits[i]) << i;
        return channel;
}

uint32_t sim_channel_of(const struct sim_channels *channels, uint64_t address)
{
        switch (channels->hash) {
        case SIM_CHANNELS_PAIRED:
                return paired(address);
        case SIM_CHANNELS_GROUPS:
                return grouped(channels, address);
        case SIM_CHANNELS_XOR:
                break;
        }
        return parities(address);
}
