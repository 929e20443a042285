/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of detshare-lut probe, shared by its methods
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
        uint32_t per_page;        /* granules measured per page; 0: all */
        uint32_t pages, channels; /* pages to measure; maximum number of channels for the paper's method, 0: all */
        bool rate, structure, paper;
};

/* Selects the granules to measure in n pages: a bitmap of random aligned pieces; per_page 0: all granules. Free it
 * with ds_free(); NULL if out of memory. */
uint8_t *ds_lut_probe_choose(uint32_t granules, uint32_t per_page, size_t n, uint64_t seed);
/* Reads an existing file of samples before a run appends to it; *ret is NULL if the file does not exist. Returns an
 * exit code. Free *ret with ds_lut_samples_free(). */
int ds_lut_probe_before(const char *path, struct ds_lut_samples **ret);
void ds_lut_probe_about(const struct ds_device_info *info, uint32_t unit_bits, struct ds_lut_about *ret);

/* Runs --method paper (lut/probe/paper.h). Returns an exit code. */
int ds_lut_probe_paper(const struct ds_lut_probe_options *options);

static inline bool ds_lut_probe_chosen(const uint8_t *chosen, size_t at)
{
        return chosen[at / 8] >> at % 8 & 1;
}
