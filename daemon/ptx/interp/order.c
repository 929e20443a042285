/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/interp/order.h"

#include <assert.h>

#include "util/macro.h"

/* number of blocks up to which the order is tested for being the increasing one; for more blocks that is too
 * improbable (1 in n!) */
#define CERTAIN 16

/* Mixes the bits of x: splitmix64's finaliser (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x)
{
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

static void make_keys(struct ds_interp_order *order, uint64_t state)
{
        for (uint32_t i = 0; i < DS_INTERP_ORDER_ROUNDS; i++)
                order->key[i] = mix(state += UINT64_C(0x9e3779b97f4a7c15));
}

static int is_increasing(const struct ds_interp_order *order)
{
        for (uint64_t i = 0; i < order->n; i++)
                if (ds_interp_order_at(order, i) != i)
                        return 0;
        return 1;
}

void ds_interp_order_init(struct ds_interp_order *order, uint64_t n, uint64_t seed, uint64_t launch)
{
        *order = (struct ds_interp_order){.n = n};
        if (!seed || n < 2)
                return;
        order->half = (uint32_t)DS_DIV_UP(64 - __builtin_clzll(n - 1), 2);
        do
                make_keys(order, mix(seed) ^ launch++ * UINT64_C(0xd1342543de82ef95));
        while (n < CERTAIN && is_increasing(order));
}

static uint64_t step(const struct ds_interp_order *order, uint64_t x)
{
        uint64_t mask = (UINT64_C(1) << order->half) - 1, left = x >> order->half, right = x & mask, t;

        for (uint32_t i = 0; i < DS_INTERP_ORDER_ROUNDS; i++) {
                t = left ^ (mix(right ^ order->key[i]) & mask);
                left = right;
                right = t;
        }
        return left << order->half | right;
}

uint64_t ds_interp_order_at(const struct ds_interp_order *order, uint64_t place)
{
        assert(place < order->n);
        if (!order->half)
                return place;
        /* The permutation covers at most four times as many values as there are blocks. So repeating it reaches the
         * index of a block after a few steps, and always reaches one. */
        do
                place = step(order, place);
        while (place >= order->n);
        return place;
}
