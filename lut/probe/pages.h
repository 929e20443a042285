/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channels of all granules of some pages, by a table of channels if there is one, otherwise by probing
 *
 * With a table for this model (lut/table.h), a part of two pages is probed to match names with channels; of all pages
 * only the granules that distinguish the patterns are probed. A page that fits no pattern is probed in full; so are all
 * pages if there is no table or it describes another board. No other work may run on the device meanwhile, since its
 * reads change the times. On a GPU without a table this takes 10 to 20 s, and then one second per 100,000 granules.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lut/probe/bench.h"

#define DS_PAGES_E_NONE 1 /* contract: the channels cannot be determined; the reason is in `why` */

struct ds_pages_labels {
        /* channel of each granule, page after page; DS_SECTORS_NO_CHANNEL (lut/sectors.h) if undecided */
        uint8_t *channel;
        size_t granules; /* granules per page */
        uint32_t granule_bits, n_channels;
        char source[128]; /* source of the channels, for display: the table, and the number of probed pages */
        char why[256];
};

struct ds_pages_ask {
        const char *model;   /* the model's name in tables */
        const char *lut_dir; /* directory of the tables; NULL: none. An unreadable directory is logged */
        int lut_dir_fd;      /* 0, or a descriptor of the same directory, opened by a process with permission */
        /* NULL, or a function that is called many times a second with the present activity (a static text), and how
         * much of it is done. `of` 0: the total is not known */
        void (*progress)(void *user, const char *what, uint64_t done, uint64_t of);
        void *user;
};

/*
 * Finds the channels of n pages of 2 MiB of zeroed memory at the given addresses. Returns 0, DS_PAGES_E_NONE, or a
 * negative errno: out of memory, or the device failed (-EIO, -ETIMEDOUT, -ENOTRECOVERABLE). *ret is initialised in
 * every case and must be deinitialised.
 */
int ds_pages_label(const struct ds_bench_site *site, const struct ds_pages_ask *ask, const uint64_t *pages, size_t n,
        struct ds_pages_labels *ret);
void ds_pages_deinit(struct ds_pages_labels *labels);
