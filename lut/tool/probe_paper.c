/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-lut probe --method paper: banks, sets of L2, marks
 *
 * Pages, granules and file are the same as with the other method and the same options, so that the two can be compared.
 * The file is written at the end, since labels of channels that are found later do not exist before.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lut/probe/paper.h"
#include "lut/tool/probe.h"
#include "lut/tool/tool.h"
#include "util/alloc.h"
#include "util/macro.h"

#define PAGE DS_MIB(2)
#define KIB_BITS 10u
#define KIBS ((uint32_t)(PAGE / DS_PAPER_KIB))

struct marked {
        uint64_t *kib;
        uint8_t *labels;
        size_t n;
        uint32_t channels;
};

static void marked_free(struct marked *m)
{
        m->kib = ds_free(m->kib);
        m->labels = ds_free(m->labels);
}

static double now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Selects the same granules as the other method, which takes pages one by one on a simulated device. */
static int choose(const struct ds_lut_probe_options *options, const uint64_t *pages, struct marked *m)
{
        m->kib = ds_alloc((size_t)options->pages * KIBS * sizeof(*m->kib));
        m->labels = ds_alloc((size_t)options->pages * KIBS);
        if (!m->kib || !m->labels)
                return ds_lut_tool_bad("out of memory");
        for (uint32_t p = 0; p < options->pages; p++) {
                ds_cleanup(ds_freep) uint8_t *chosen =
                        ds_lut_probe_choose(KIBS, options->per_page, 1, pages[p] ^ options->ask.seed);

                if (!chosen)
                        return ds_lut_tool_bad("out of memory");
                for (uint32_t i = 0; i < KIBS; i++)
                        if (ds_lut_probe_chosen(chosen, i))
                                m->kib[m->n++] = pages[p] + (uint64_t)i * DS_PAPER_KIB;
        }
        return 0;
}

static int write_blocks(const struct ds_lut_probe_options *options, const struct marked *m, uint32_t number,
        struct ds_lut_writer *writer)
{
        struct ds_lut_sample samples[KIBS];
        struct ds_lut_block block = {.run = number, .samples = samples};

        for (size_t i = 0; i < m->n; i++) {
                block.address = m->kib[i] & ~(PAGE - 1);
                samples[block.n++] = (struct ds_lut_sample){
                        .unit = (uint32_t)((m->kib[i] - block.address) >> KIB_BITS),
                        .label = m->labels[i] == DS_PAPER_NONE ? DS_LUT_SAMPLE_UNKNOWN : m->labels[i],
                };
                if (i + 1 < m->n && (m->kib[i + 1] & ~(PAGE - 1)) == block.address)
                        continue;
                if (ds_lut_writer_put(writer, &block))
                        return ds_lut_tool_bad("%s: cannot write", options->out);
                block.n = 0;
        }
        return 0;
}

/* Writes the samples. They get a new run number, because their channel names are independent of those in the file. */
static int write_file(
        const struct ds_lut_probe_options *options, const struct ds_device_info *info, const struct marked *m)
{
        struct ds_lut_samples *before = NULL;
        struct ds_lut_writer *writer = NULL;
        struct ds_lut_about about;
        char why[160] = "";
        uint32_t number;
        int r;

        r = ds_lut_probe_before(options->out, &before);
        if (r)
                return r;
        number = before ? before->next_run : 0;
        ds_lut_samples_free(before);
        ds_lut_probe_about(info, KIB_BITS, &about);
        r = ds_lut_writer_open(options->out, &about, &writer, why, sizeof(why));
        if (r)
                return ds_lut_tool_bad("%s: %s", options->out, r > 0 ? why : strerror(-r));
        r = write_blocks(options, m, number, writer);
        if (ds_lut_writer_close(writer) && !r)
                r = ds_lut_tool_bad("%s: cannot write", options->out);
        return r;
}

static void say(
        const struct ds_device_info *info, const struct ds_paper_found *found, const struct marked *m, double took)
{
        printf("device     %s%s\n", info->name, info->simulated ? " (sim: no figure is a GPU's)" : "");
        printf("reads      %.0f clocks from L2, %.0f from VRAM; L2 %s a launch\n", found->hit, found->miss,
                found->survives ? "outlives" : "does not outlive");
        printf("pairs      %.0f clocks of two banks, %.0f of one\n", found->apart, found->conflict);
        printf("channel    %" PRIu32 " KiB of a bank collected, %" PRIu32 " lines throw out the others\n",
                found->collected, found->needed);
        printf("channels   %" PRIu32 "\n", m->channels);
        printf("labelled   %zu KiB in %.1f s, %" PRIu64 " timed readings\n", m->n, took, found->readings);
}

static int label(const struct ds_lut_probe_options *options, ds_bench *bench, size_t n_pages)
{
        ds_cleanup(marked_free) struct marked m = {};
        ds_cleanup(ds_paper_freep) ds_paper *paper = NULL;
        double began = now();
        int r;

        r = choose(options, ds_bench_pages(bench), &m);
        if (r)
                return r;
        r = ds_paper_new(bench, n_pages, options->pages, options->ask.seed, &paper);
        if (!r)
                r = ds_paper_label(paper, m.kib, m.n, options->channels ? options->channels : DS_PAPER_CHANNELS_MAX,
                        m.labels, &m.channels);
        if (r == DS_PAPER_E_BLIND)
                return ds_lut_tool_bad(
                        "reads from L2 and VRAM, or from one bank and two, take the same time on this device");
        if (r == DS_PAPER_E_MEMORY)
                return ds_lut_tool_bad("not enough memory that shares a bank to fill a channel's part of L2");
        if (r)
                return ds_lut_tool_bad("the device failed");
        say(ds_bench_info(bench), ds_paper_found(paper), &m, now() - began);
        return write_file(options, ds_bench_info(bench), &m);
}

int ds_lut_probe_paper(const struct ds_lut_probe_options *options)
{
        ds_cleanup(ds_bench_closep) ds_bench *bench = NULL;
        struct ds_bench_ask ask = options->ask;
        int r;

        /* how much memory the method needs depends on the device, so it is opened once to find out, and then again */
        ask.n_pages = 1;
        r = ds_bench_open(&ask, &bench);
        if (!r) {
                ask.n_pages = options->pages + ds_paper_pages(ds_bench_info(bench));
                bench = ds_bench_close(bench);
                r = ds_bench_open(&ask, &bench);
        }
        if (r)
                return ds_lut_tool_bad("%s cannot be opened", ask.device);
        r = label(options, bench, ask.n_pages);
        return r ? r : ds_lut_tool_flush();
}
