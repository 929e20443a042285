/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-lut probe from inside: what its methods share
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lut/probe/bench.h"
#include "lut/samples.h"

struct ds_lut_probe_options {
        struct ds_bench_ask ask;
        const char *out;
        uint32_t per_page;        /* granules of a page; 0: all */
        uint32_t pages, channels; /* channels: the paper's method looks for no more; 0: all */
        bool rate, structure, paper;
};

/* Which granules of n pages are measured: a bit each, aligned pieces at random; 0 per page: all. ds_free; NULL: out of
 * memory. */
uint8_t *ds_lut_probe_choose(uint32_t granules, uint32_t per_page, size_t n, uint64_t seed);
/* What a file has before it is appended to; NULL: it is not there. An exit code. ds_lut_samples_free. */
int ds_lut_probe_before(const char *path, struct ds_lut_samples **ret);
void ds_lut_probe_about(const struct ds_device_info *info, uint32_t unit_bits, struct ds_lut_about *ret);

/* --method paper (lut/probe/paper.h): an exit code. */
int ds_lut_probe_paper(const struct ds_lut_probe_options *options);

static inline bool ds_lut_probe_chosen(const uint8_t *chosen, size_t at)
{
        return chosen[at / 8] >> at % 8 & 1;
}
