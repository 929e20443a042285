/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies and kernels that can stop between blocks: detshare, sgdrc and tally evict them, other policies never use
 * them
 *
 * The scripted GPU has 66 TPCs of two SMs. An evicted kernel stops when its current wave of blocks has ended.
 */
#include "tests/unit/policy_harness.h"

#define SMS 132

static struct ph_kernel small = {.name = "small", .blocks = 16, .block_ns = 2 * US};
static struct ph_kernel slabs = {
        /* 20 ms in blocks of 0.5 ms */
        .name = "slabs",
        .blocks = 40 * SMS,
        .block_ns = 500 * US,
        .forms = &sdev_forms};
static struct ph_kernel shorts = {
        .name = "shorts", .blocks = 200 * SMS, .block_ns = 4 * US, .forms = &sdev_forms}; /* 0.8 ms in short blocks */
static struct ph_kernel plates = {
        /* 20 ms in blocks of 50 us */
        .name = "plates",
        .blocks = 400 * SMS,
        .block_ns = 50 * US,
        .forms = &sdev_forms};
static struct ph_kernel bars = {
        .name = "bars", .blocks = 60 * SMS, .block_ns = 300 * US, .forms = &sdev_forms}; /* 18 ms in blocks of 0.3 ms */
static struct ph_kernel plain = {.name = "plain", .blocks = 40 * SMS, .block_ns = 500 * US};

/* BE client that slows LS: an LS kernel that begins while this client runs takes 1.5 times as long; NULL: none */
static const struct ph_client *touched_by;
static uint64_t half_more(const struct ph_kernel *kernel, uint64_t alone_ns, uint32_t n_others)
{
        (void)kernel;
        (void)n_others;
        return touched_by && ph_in_flight(touched_by) ? alone_ns * 3 / 2 : alone_ns;
}
static struct ph_kernel touchy = {.name = "touchy", .blocks = 16, .block_ns = 50 * US, .beside = half_more};

#define OPEN(...)                                                                         \
        do {                                                                              \
                PH_KERNELS_ARE(&small, &slabs, &shorts, &plain, &touchy, &plates, &bars); \
                ph_open(SMS / 2, __VA_ARGS__, NULL);                                      \
                ph_know(&small, 0);                                                       \
                ph_know(&slabs, 0);                                                       \
                ph_know(&shorts, 0);                                                      \
                ph_know(&plain, 0);                                                       \
        } while (0)

/* An LS session after some requests, so that the policy knows their length. */
static struct ph_client *taught(void)
{
        struct ph_client *ls = ph_ls(0);

        ls->synchronises = 1;
        ph_every(ls, &small, 50, 5 * MS, 20);
        ph_run_for(100 * MS);
        cr_assert_eq(ls->n_latency, 20);
        return ls;
}

static uint64_t blocks_of(const struct ph_client *client)
{
        struct ds_sched_session_stats stats;

        ds_sched_session_stats(client->session, &stats);
        return stats.blocks;
}

/* --- detshare ----------------------------------------------------------------------------------------------------- */

Test(policy_evict, best_effort_lets_go_when_a_request_begins_and_goes_on_beside_it)
{
        struct ph_client *ls, *be;
        uint64_t begin;

        OPEN("detshare", "held_first=0", "slack_permille=50", "explore_permille=0");
        ls = taught();
        be = ph_be();
        ph_submit(be, 0, &slabs, 0);
        ph_run_for(3 * MS + 100 * US);
        cr_assert_eq(ph_last(be)->n_sms, SMS);
        cr_assert_eq(ph_last(be)->form, DS_PTX_FORM_PERSISTENT);
        begin = ph_now();
        ph_request(ls, &small, 500);
        ph_run_for(600 * US);
        cr_assert_eq(ph_stats().evictions, 1);
        cr_assert_eq(ph_nth(be, 1)->form, DS_PTX_FORM_PERSISTENT);
        cr_assert_leq(ph_nth(be, 1)->n_sms, SMS - 16);
        cr_assert_eq(ph_nth(be, 1)->side, DETSHARE_SIDE_UPPER);
        cr_assert_leq(ph_nth(be, 1)->launch_ns, begin + 500 * US, "as soon as a wave of blocks had ended");
        ph_run_for(30 * MS);
        cr_assert_eq(be->ended, 1);
        cr_assert_eq(blocks_of(be), slabs.blocks, "each once");
        ph_close();
}

Test(policy_evict, kernels_that_end_before_an_eviction_are_not_evicted)
{
        struct ph_client *ls, *be;

        OPEN("detshare", "held_first=0", "slack_permille=50", "explore_permille=0");
        ls = taught();
        be = ph_be();
        ph_submit(be, 0, &slabs, 0);
        ph_run_for(19700 * US);
        cr_assert_eq(ph_last(be)->form, DS_PTX_FORM_PERSISTENT);
        ph_request(ls, &small, 50);
        ph_run_for(2 * MS);
        cr_assert_eq(ph_stats().evictions, 0);
        cr_assert_eq(be->ended, 1);
        ph_close();
}

/* LS gets SMs soon enough by priority, so BE kernels stay native: an evictable kernel keeps its SMs and would only
 * harm. */
Test(policy_evict, short_blocks_and_times_without_ls_are_native)
{
        struct ph_client *be, *ls;

        OPEN("detshare", "held_first=0", "slack_permille=50", "explore_permille=0");
        be = ph_be();
        ph_submit(be, 0, &slabs, 0);
        ph_run_for(1 * MS);
        cr_assert_eq(ph_last(be)->form, DS_PTX_FORM_NATIVE, "there was no LS");
        ph_run_for(30 * MS);
        ls = taught();
        ph_submit(be, 0, &shorts, 0);
        ph_request(ls, &small, 50);
        ph_run_for(5 * MS);
        cr_assert_eq(ph_last(be)->form, DS_PTX_FORM_NATIVE);
        cr_assert_eq(ph_stats().evictions, 0);
        ph_close();
}

Test(policy_evict, evict_0_evicts_nothing)
{
        struct ph_client *be, *ls;

        OPEN("detshare", "held_first=0", "slack_permille=50", "explore_permille=0", "evict=0");
        ls = taught();
        be = ph_be();
        ph_submit(be, 0, &slabs, 0);
        ph_run_for(3 * MS);
        ph_request(ls, &small, 50);
        ph_run_for(5 * MS);
        cr_assert_eq(ph_last(be)->form, DS_PTX_FORM_NATIVE);
        cr_assert_eq(ph_stats().evictions, 0);
        ph_close();
}

/* Back-to-back requests, each of which evicts BE. Returns BE's rate in permille of its rate alone. */
static uint64_t be_share(void)
{
        struct ph_client *be, *ls;
        uint64_t before, share;

        OPEN("detshare", "held_first=0", "slack_permille=50", "explore_permille=0", "starve_ms=2");
        ph_know(&plates, 0);
        touched_by = be = ph_be();
        ls = ph_ls(0);
        ls->gap_us = 60;
        ls->synchronises = 1;
        ph_every(ls, &touchy, 20, 1250 * US, 1000);
        ph_run_for(200 * MS);
        ph_loop(be, &plates, 2);
        ph_run_for(500 * MS);
        before = blocks_of(be);
        ph_run_for(500 * MS);
        share = (blocks_of(be) - before) * 20 * 1000 / (plates.blocks * 500);
        cr_assert_geq(ph_stats().evictions, 100);
        ph_close();
        return share;
}

Test(policy_evict, best_effort_never_starves)
{
        const uint64_t share = be_share();

        cr_assert_geq(share, 50, "%llu", (unsigned long long)share);
}

/* --- sgdrc -------------------------------------------------------------------------------------------------------- */

/* "LS tasks can write the eviction flag to preempt a BE kernel": the kernel is not idempotent and continues where it
 * was. */
Test(policy_evict, sgdrc_evicts_and_continues_beside_ls)
{
        struct ph_client *ls, *be;

        OPEN("sgdrc");
        ls = ph_ls(0);
        be = ph_be();
        ph_submit(be, 0, &slabs, 0);
        ph_run(50 * US);
        cr_assert_eq(ph_last(be)->form, DS_PTX_FORM_PERSISTENT);
        ph_request(ls, &small, 500);
        ph_run(600 * US);
        cr_assert_eq(ph_stats().evictions, 1);
        cr_assert_eq(ph_stats().kills, 0);
        cr_assert_eq(ph_nth(be, 1)->n_sms, SMS - 16);
        ph_run(40 * MS);
        cr_assert_eq(be->ended, 1);
        cr_assert_eq(blocks_of(be), slabs.blocks);
        ph_close();
}

/* --- tally -------------------------------------------------------------------------------------------------------- */

/* Opens an LS session and a BE session; BE has run since the end of the last LS request. */
static struct ph_client *tally_beside(const struct ph_kernel *kernel, struct ph_client **ret_be, const char *param)
{
        struct ph_client *ls;

        OPEN("tally", param);
        ph_know(&plates, 0);
        ph_know(&bars, 0);
        ls = ph_ls(0);
        *ret_be = ph_be();
        ph_request(ls, &small, 5);
        ph_submit(*ret_be, 0, kernel, 0);
        ph_run_for(MS);
        cr_assert_eq(ls->running, 0);
        cr_assert_eq(ph_in_flight(*ret_be), 1);
        return ls;
}

/* LS work sets the eviction flag of the paper's code: the BE kernel stops at the end of its blocks and continues 0.1
 * ms after LS. */
Test(policy_evict, tally_evicts_when_ls_arrives)
{
        struct ph_client *be, *ls = tally_beside(&plates, &be, NULL);
        uint64_t begin;

        cr_assert_eq(ph_last(be)->form, DS_PTX_FORM_PERSISTENT);
        cr_assert_eq(ph_last(be)->n_sms, SMS);
        begin = ph_now();
        ph_request(ls, &small, 50);
        ph_run_for(150 * US); /* a wave of BE blocks takes 50 us, the LS request 100 us */
        cr_assert_eq(ph_last(ls)->launch_ns, begin, "LS waits for nobody");
        cr_assert_eq(ph_last(ls)->end_ns, begin + 100 * US);
        cr_assert_eq(ph_stats().evictions, 1);
        cr_assert_eq(ph_in_flight(be), 0, "not while LS was not idle for 0.1 ms");
        ph_run_for(51 * US);
        cr_assert_eq(ph_nth(be, 1)->launch_ns, begin + 200 * US);
        cr_assert_eq(ph_nth(be, 1)->form, DS_PTX_FORM_PERSISTENT);
        ph_run_for(40 * MS);
        cr_assert_eq(be->ended, 1);
        cr_assert_eq(blocks_of(be), plates.blocks, "each once");
        ph_close();
}

/* Half a wave of 0.3 ms exceeds the bound on LS's wait: the BE kernel runs on the SMs that LS does not need instead. */
Test(policy_evict, tally_confines_kernels_that_stop_too_late)
{
        struct ph_client *be, *ls = tally_beside(&bars, &be, NULL);

        cr_assert_eq(ph_last(be)->form, DS_PTX_FORM_NATIVE);
        cr_assert_eq(ph_last(be)->side, DETSHARE_SIDE_UPPER);
        cr_assert_leq(ph_last(be)->n_sms, SMS - 16);
        ph_request(ls, &small, 50);
        ph_run_for(MS);
        cr_assert_eq(ph_stats().evictions, 0);
        cr_assert_eq(ph_in_flight(be), 1);
        ph_close();
}

Test(policy_evict, tally_evicts_nothing_if_told_so)
{
        struct ph_client *be, *ls = tally_beside(&plates, &be, "evict=0");

        cr_assert_eq(ph_last(be)->form, DS_PTX_FORM_NATIVE);
        cr_assert_eq(ph_last(be)->side, DETSHARE_SIDE_UPPER, "the next best");
        ph_request(ls, &small, 50);
        ph_run_for(MS);
        cr_assert_eq(ph_stats().evictions, 0);
        ph_close();
}

/* After 100 ms without LS, BE kernels are the originals: LS then waits for the end of one. */
Test(policy_evict, tally_runs_originals_after_100_ms)
{
        struct ph_client *be, *ls = tally_beside(&plates, &be, NULL);
        uint32_t n;

        ph_run_for(120 * MS);
        ph_submit(be, 0, &plates, 0);
        ph_run_for(MS);
        cr_assert_eq(ph_last(be)->form, DS_PTX_FORM_NATIVE);
        cr_assert_eq(ph_last(be)->n_sms, SMS);
        n = (uint32_t)be->ended;
        ph_request(ls, &small, 50);
        ph_run_for(10 * MS);
        cr_assert_eq(ph_stats().evictions, 0);
        cr_assert_eq(be->ended, n);
        ph_run_for(10 * MS);
        cr_assert_eq(be->ended, n + 1);
        ph_close();
}

/* --- policies that do not evict ----------------------------------------------------------------------------------- */

/* These policies never evict. They launch native kernels, because an evictable kernel that is never evicted is
 * slower. */
Test(policy_evict, other_policies_have_native_kernels)
{
        static const char *const names[] = {"multistream", "static", "fifo", "temporal", "orion", "tgs", "reef",
                "tally", "krisp", "paella", "gemini", "antman", "edf", "tpot-first", "sgdrc-static"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                struct ph_client *be;

                OPEN(names[i]);
                be = ph_be();
                ph_submit(be, 0, &slabs, 0);
                ph_run(50 * MS);
                cr_assert_eq(be->ended, 1, "%s", names[i]);
                cr_assert_eq(ph_last(be)->form, DS_PTX_FORM_NATIVE, "%s", names[i]);
                ph_close();
        }
}
