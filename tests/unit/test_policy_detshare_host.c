/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `detshare` beside services that are bound by their host: decode loops, and gaps inside of requests
 *
 * The device is the timing model of an H200 (sim). A service that pauses for the same time after each step leaves the GPU
 * idle then: that time belongs to the job, and the steps keep their latency.
 */
#include "tests/unit/policy_harness.h"

#define SMS 132
#define STEPS 300

static struct ph_kernel token = {.name = "token", .blocks = SMS, .block_ns = 40 * US};
static struct ph_kernel layer = {.name = "layer", .blocks = SMS, .block_ns = 10 * US};
/* a piece of a graph: 150 us, of short blocks */
static struct ph_kernel piece = {.name = "piece", .blocks = 15 * SMS, .block_ns = 10 * US};
static struct ph_kernel brief = {.name = "brief", .blocks = 2 * SMS, .block_ns = 10 * US};

struct loop {
        const struct ph_kernel *kernel, *job;
        uint32_t n, gap_us, think_us; /* kernels of a step, time between their launches, pause after the step */
};

struct outcome {
        uint64_t mean_ns; /* mean time of the second half of the steps, ns */
        uint32_t late;    /* steps of that half that took more than 1.05 of the first step, permille */
        uint64_t busy;    /* time for which BE ran in the second half, permille */
        uint64_t idle;    /* time for which the service left the GPU idle, permille */
};

static struct outcome outcome_of(const struct loop *loop, int beside)
{
        struct ph_kernel *kernels[] = {&token, &layer, &piece, &brief};
        struct ph_client *ls, *be = NULL;
        struct outcome outcome = {0};
        uint64_t half = 0;
        uint32_t first = 0;

        ph_open_sim(kernels, DS_ARRAY_SIZE(kernels), "detshare", NULL);
        ls = ph_ls(0);
        ls->synchronises = 1;
        ls->gap_us = loop->gap_us;
        if (beside) {
                be = ph_be();
                ph_loop(be, loop->job, 2);
        }
        for (uint32_t i = 0; i < 2 * STEPS; i++) {
                if (i == STEPS) {
                        half = ph_now();
                        first = ls->n_latency;
                }
                ph_request(ls, loop->kernel, loop->n);
                while (ls->running || ls->synchronise)
                        ph_run_for(5 * US);
                ph_run_for(loop->think_us * US);
        }
        for (uint32_t i = first; i < ls->n_latency; i++) {
                outcome.mean_ns += ls->latency[i] / (ls->n_latency - first);
                outcome.late += ls->latency[i] * 100 > ls->latency[0] * 105 ? 1000 / STEPS : 0;
        }
        outcome.idle = 1000 - loop->n * loop->kernel->block_ns * STEPS * 1000 / (ph_now() - half);
        outcome.busy = be ? ph_busy(be, half, ph_now()) : 0;
        ph_close();
        return outcome;
}

/* The job gets at least this share of the GPU's idle time, permille. Steps take at most 1.02 of their time alone in the
 * mean, and at most one in twenty more than 1.05 of it. */
static void shares(const struct loop *loop, uint64_t least)
{
        const struct outcome alone = outcome_of(loop, 0), with = outcome_of(loop, 1);

        cr_assert(with.mean_ns * 100 <= alone.mean_ns * 102, "%llu instead of %llu us",
                (unsigned long long)with.mean_ns / 1000, (unsigned long long)alone.mean_ns / 1000);
        cr_assert_leq(with.late, 50, "%u", with.late);
        cr_assert(with.busy * 1000 >= with.idle * least, "the job has %llu of %llu permille",
                (unsigned long long)with.busy, (unsigned long long)with.idle);
}

Test(policy_detshare_host, pauses_of_a_decode_loop_belong_to_the_job, .timeout = 60)
{
        shares(&(struct loop){&token, &piece, 100, 0, 1000}, 900);
        shares(&(struct loop){&token, &piece, 100, 0, 300}, 800);
        shares(&(struct loop){&token, &brief, 100, 0, 300}, 800);
}

Test(policy_detshare_host, gaps_between_kernels_belong_to_the_job, .timeout = 60)
{
        shares(&(struct loop){&layer, &brief, 50, 70, 500}, 600);
        shares(&(struct loop){&layer, &piece, 20, 310, 500}, 500);
}
