/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channels of all granules of some pages, by a table of channels where there is one, else by probing
 *
 * Where there is a table of channels for this model (lut/table.h), a part of two pages is probed to learn which channel
 * has which name, and of all pages as many granules as tell the patterns apart; a page that fits no pattern is probed
 * in full, and so are all when there is no table or it describes another board. The device must be free of other work
 * meanwhile: what somebody else reads shows in the times. On a GPU without a table that takes 10 to 20 s and then a
 * second for each 100,000 granules.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lut/probe/bench.h"

#define DS_PAGES_E_NONE 1 /* contract: they cannot be told, and why is in `why` */

struct ds_pages_labels {
        uint8_t *channel; /* by granule, page after page; what is not decided is no channel (lut/sectors.h) */
        size_t granules;  /* of a page */
        uint32_t granule_bits, n_channels;
        char source[128]; /* for people: tables and pages */
        char why[256];
};

struct ds_pages_ask {
        const char *model;   /* as tables name it */
        const char *lut_dir; /* where tables are, NULL: nowhere. One that cannot be read is said in a line */
        int lut_dir_fd;      /* 0, or the same directory, which was opened by somebody who may */
        /* NULL, or: called many times a second with what is being done, in words that stay, and how much of it is; of
         * 0: nobody knows how much there is to do */
        void (*progress)(void *user, const char *what, uint64_t done, uint64_t of);
        void *user;
};

/*
 * pages: n addresses of 2 MiB of clear memory each. 0, DS_PAGES_E_NONE, or a negative errno: memory is short, or (-EIO,
 * -ETIMEDOUT, -ENOTRECOVERABLE) the device is not to be trusted any more. *ret is cleared before, and is to be
 * deinitialised whatever comes back.
 */
int ds_pages_label(const struct ds_bench_site *site, const struct ds_pages_ask *ask, const uint64_t *pages, size_t n,
        struct ds_pages_labels *ret);
void ds_pages_deinit(struct ds_pages_labels *labels);
