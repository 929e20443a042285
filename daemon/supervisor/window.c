/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/window.h"

#include <assert.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

/*
 * A complete binary tree in an array: node 1 is the whole area, the children of n are 2n and 2n+1. best[n] is 1 + the
 * order of the largest free block below n; 0: nothing is free there (order 0 is the smallest block).
 */
struct ds_windows {
        uint64_t base, smallest, bytes, unused, extra;
        unsigned orders; /* order of the whole area */
        uint32_t count;
        uint8_t best[];
};

static unsigned log2_of(uint64_t n)
{
        assert(n > 0 && (n & (n - 1)) == 0);
        return (unsigned)__builtin_ctzll(n);
}

int ds_windows_new(uint64_t base, uint64_t bytes, uint64_t smallest, ds_windows **ret)
{
        unsigned orders = log2_of(bytes) - log2_of(smallest);
        size_t nodes = (size_t)2 << orders;
        ds_windows *w;

        assert(bytes >= smallest && orders <= 20);
        assert(base % smallest == 0);
        w = ds_alloc0(1, sizeof(*w) + nodes);
        if (!w)
                return ds_error_origin(-ENOMEM);
        w->base = base;
        w->smallest = smallest;
        w->bytes = w->unused = bytes;
        w->orders = orders;
        for (size_t node = 1; node < nodes; node++)
                w->best[node] = (uint8_t)(orders - (63u - (unsigned)__builtin_clzll(node)) + 1);
        *ret = w;
        return 0;
}

ds_windows *ds_windows_free(ds_windows *windows)
{
        if (!windows)
                return NULL;
        assert(windows->count == 0);
        assert(windows->best[1] == windows->orders + 1);
        return ds_free(windows);
}

static uint64_t round_down(uint64_t n)
{
        return n ? UINT64_C(1) << (63 - __builtin_clzll(n)) : 0;
}

/* Size of a full window, half of which is 1.25 times the device's memory. */
static uint64_t full_window(uint64_t memory_bytes)
{
        uint64_t memory = DS_MIN(memory_bytes, DS_WINDOW_MAX), full = DS_WINDOW_FULL;

        while (full < DS_WINDOW_MAX && full / 2 < memory + memory / 4)
                full *= 2;
        return full;
}

uint64_t ds_windows_choose(const ds_windows *windows, uint64_t memory_bytes, unsigned refused)
{
        /* sessions' ranges outside of windows count as unused here, so that they do not make new windows smaller */
        uint64_t unused = windows->unused + windows->extra;
        uint64_t full = full_window(memory_bytes), share = round_down(unused / 256);
        unsigned halvings = refused > 1 ? DS_MIN(refused - 1, 16u) : 0;

        if (share < full && unused >= windows->bytes / 16 * 13 + full)
                share = full;
        return DS_MAX(DS_MIN(share, full) >> halvings, DS_WINDOW_MIN);
}

/* Updates best[] from the node's parent up to the root. order: that of the node. */
static void update_parents(ds_windows *w, size_t node, unsigned order)
{
        while (node > 1) {
                uint8_t left, right;

                node /= 2;
                order++;
                left = w->best[2 * node];
                right = w->best[2 * node + 1];
                /* two completely free halves form one free block */
                w->best[node] = left == order && right == order ? (uint8_t)(order + 1) : DS_MAX(left, right);
        }
}

int ds_windows_take(ds_windows *windows, uint64_t bytes, struct ds_window *ret)
{
        unsigned order = log2_of(DS_MAX(bytes, windows->smallest)) - log2_of(windows->smallest), at = windows->orders;
        size_t node = 1;

        if (windows->best[1] == 0)
                return DS_WINDOWS_E_EXHAUSTED;
        order = DS_MIN(order, windows->best[1] - 1u);
        while (at > order) {
                uint8_t left = windows->best[2 * node], right = windows->best[2 * node + 1];

                /* takes the half with the smaller sufficient block, so that large blocks stay whole; if both are
                 * equal, the lower addresses */
                if (left > order && (right <= order || left <= right))
                        node = 2 * node;
                else
                        node = 2 * node + 1;
                at--;
        }
        assert(windows->best[node] == order + 1);
        windows->best[node] = 0;
        update_parents(windows, node, order);
        *ret = (struct ds_window){
                .base = windows->base +
                        (node - ((size_t)1 << (windows->orders - order))) * (windows->smallest << order),
                .bytes = windows->smallest << order,
        };
        windows->unused -= ret->bytes;
        windows->count++;
        return 0;
}

/* Whether this allocator can have assigned the window. */
static int is_window(const ds_windows *windows, const struct ds_window *window)
{
        uint64_t bytes = window->bytes;

        if (bytes < windows->smallest || bytes > windows->bytes || (bytes & (bytes - 1)))
                return 0;
        return window->base >= windows->base && (window->base - windows->base) % bytes == 0 &&
               window->base - windows->base <= windows->bytes - bytes;
}

static uint64_t round_up(uint64_t n)
{
        return n <= 1 ? 1 : UINT64_C(1) << (64 - __builtin_clzll(n - 1));
}

int ds_windows_take_extra(ds_windows *windows, uint64_t bytes, struct ds_window *ret)
{
        uint64_t exact = bytes && bytes <= DS_WINDOW_MAX ? DS_MAX(round_up(bytes), windows->smallest) : UINT64_MAX;
        struct ds_window window;

        if (exact > windows->bytes / 2 || windows->extra > windows->bytes / 2 - exact ||
                ds_windows_take(windows, exact, &window))
                return DS_WINDOWS_E_EXHAUSTED;
        windows->extra += window.bytes;
        *ret = window;
        if (window.bytes == exact)
                return 0;
        ds_windows_release_extra(windows, ret);
        return DS_WINDOWS_E_EXHAUSTED;
}

int ds_windows_take_extra_at(ds_windows *windows, const struct ds_window *wanted)
{
        int r = wanted->bytes > windows->bytes / 2 || windows->extra > windows->bytes / 2 - wanted->bytes
                        ? DS_WINDOWS_E_REFUSED
                        : ds_windows_take_at(windows, wanted);

        if (!r)
                windows->extra += wanted->bytes;
        return r;
}

uint64_t ds_windows_extra_left(const ds_windows *windows)
{
        return windows->bytes / 2 - windows->extra;
}

void ds_windows_release_extra(ds_windows *windows, struct ds_window *window)
{
        assert(windows->extra >= window->bytes);
        windows->extra -= window->bytes;
        ds_windows_release(windows, window);
}

int ds_windows_take_at(ds_windows *windows, const struct ds_window *wanted)
{
        unsigned order, at = windows->orders;
        size_t node;

        if (!is_window(windows, wanted))
                return DS_WINDOWS_E_REFUSED;
        order = log2_of(wanted->bytes) - log2_of(windows->smallest);
        node = ((size_t)1 << (windows->orders - order)) + (size_t)((wanted->base - windows->base) / wanted->bytes);
        /* best[] is not valid below an assigned block, so the check goes from the root down */
        for (; at > order; at--)
                if (windows->best[node >> (at - order)] == 0)
                        return DS_WINDOWS_E_REFUSED;
        if (windows->best[node] != order + 1)
                return DS_WINDOWS_E_REFUSED;
        windows->best[node] = 0;
        update_parents(windows, node, order);
        windows->unused -= wanted->bytes;
        windows->count++;
        return 0;
}

void ds_windows_release(ds_windows *windows, struct ds_window *window)
{
        unsigned order;
        size_t node;

        if (!window->bytes)
                return;
        order = log2_of(window->bytes) - log2_of(windows->smallest);
        node = ((size_t)1 << (windows->orders - order)) + (size_t)((window->base - windows->base) / window->bytes);
        assert(windows->count > 0);
        assert(windows->best[node] == 0);
        windows->best[node] = (uint8_t)(order + 1);
        update_parents(windows, node, order);
        windows->unused += window->bytes;
        windows->count--;
        *window = (struct ds_window){0};
}

uint32_t ds_windows_count(const ds_windows *windows)
{
        return windows->count;
}

uint64_t ds_windows_unused(const ds_windows *windows)
{
        return windows->unused;
}
