/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measurements that labelling needs from a device: how long reading lines at once takes
 *
 * A line is an address whose first 128 bytes nothing writes to. Implementations: a GPU, a simulated device (bench.h),
 * and the tests' models.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ds_probe_pair {
        uint64_t a, b;
};

struct ds_probe_meter {
        void *user;
        /* ticks[i]: duration of reading both lines of pairs[i]. 0, or a negative errno. */
        int (*pairs)(void *user, const struct ds_probe_pair *pairs, size_t n, uint32_t *ticks);
        /*
         * Tells the meter that from now on every given line begins a range of `bytes` bytes of one channel; times may
         * change. NULL if the device has no use for it. Returns 0, DS_PROBE_E_ONE_KIND, or a negative errno.
         */
        int (*widen)(void *user, uint32_t bytes);
        /*
         * Reads lines[i] hard, and each of the n_known lines known[] a little by a reader of its own. ticks[i * n_known
         * + k] is the duration for the reader of known[k]. NULL if the device cannot do that. Returns 0 or a negative
         * errno.
         */
        int (*listen)(
                void *user, const uint64_t *known, uint32_t n_known, const uint64_t *lines, size_t n, uint32_t *ticks);
};
