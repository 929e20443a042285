/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the labelling asks of a device: how long lines take that are read at once
 *
 * A line is an address whose first 128 bytes nobody writes. Behind this stand a GPU, a simulated one (bench.h), and
 * what tests make up.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ds_probe_pair {
        uint64_t a, b;
};

struct ds_probe_meter {
        void *user;
        /* ticks[i]: how long reading both lines of pairs[i] takes. 0, or a negative errno. */
        int (*pairs)(void *user, const struct ds_probe_pair *pairs, size_t n, uint32_t *ticks);
        /*
         * NULL, or: from now on every line that is asked about is the begin of so many bytes that belong to one
         * channel; times may be other ones then. 0, DS_PROBE_E_ONE_KIND, or a negative errno.
         */
        int (*widen)(void *user, uint32_t bytes);
        /*
         * NULL where a device cannot. lines[i] is read hard, and each of the n_known lines known[] a little by somebody
         * of its own: ticks[i * n_known + k] is how long that took who read known[k]. 0, or a negative errno.
         */
        int (*listen)(
                void *user, const uint64_t *known, uint32_t n_known, const uint64_t *lines, size_t n, uint32_t *ticks);
};
