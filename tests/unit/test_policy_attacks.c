/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks of a client on a policy and on the sessions beside it
 *
 * Clients state any class and objective, queue any work and make it wait for anything. None of this may get a good
 * policy replaced, or keep others from the GPU beyond the limits in the policy's own essay.
 */
#include "tests/unit/policy_harness.h"

#define SMS 132

static struct ph_kernel brief = {.name = "brief", .blocks = 4 * SMS, .block_ns = 25 * US};
static struct ph_kernel small = {.name = "small", .blocks = 16, .block_ns = 20 * US};
static struct ph_kernel all = {.name = "all", .blocks = SMS, .threads = 1024, .block_ns = 20 * US};
static struct ph_kernel again = {.name = "again", .blocks = 4 * SMS, .block_ns = 25 * US, .idempotent = 1};
static struct ph_kernel endless = {.name = "endless", .blocks = SMS, .block_ns = 3000 * MS};

static const char *const policies[] = {"fifo", "multistream", "static", "temporal", "orion", "tgs", "reef", "tally",
        "krisp", "sgdrc", "sgdrc-static", "paella", "gemini", "antman", "edf", "tpot-first", "detshare"};

static void attack_open(const char *policy)
{
        PH_KERNELS_ARE(&brief, &small, &all, &again, &endless);
        ph_open(SMS / 2, policy, NULL);
        ph_know(&brief, 0);
        ph_know(&small, 0);
        ph_know(&all, 0);
}

/* 0: a host function of the client is still running */
static int host_is_done;

static int host_due(void *user, struct ds_op *op)
{
        (void)user;
        (void)op;
        return host_is_done;
}

static struct ph_op *host_call(struct ph_client *client)
{
        struct ph_op *op = calloc(1, sizeof(*op));

        ph.sched->due = host_due;
        op->kernel = &small;
        op->client = client;
        op->op.kind = DS_OP_OUTSIDE;
        cr_assert_eq(ds_sched_submit(client->stream[0], &op->op, ph_now()), 0);
        return op;
}

/* An LS client has a kernel for all SMs behind a host function of its own that does not return. */
Test(policy_attacks, a_queue_behind_a_host_function_delays_nobody)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(policies); i++) {
                struct ph_client *ls, *be;
                struct ph_op *host;
                uint64_t begin;

                attack_open(policies[i]);
                ls = ph_ls(0);
                be = ph_be();
                ph_request(ls, &all, 2);
                ph_run_for(1 * MS);
                host_is_done = 0;
                host = host_call(ls);
                ph_submit(ls, 0, &all, 0);
                ph_run_for(1 * MS);
                ph_loop(be, &brief, 2);
                ph_run_for(3000 * MS);
                begin = ph_now();
                ph_run_for(1000 * MS);
                cr_expect_eq(ph_stats().fallbacks, 0, "%s was replaced", policies[i]);
                cr_expect_gt(ph_launches(be, begin, ph_now()), 1000, "%s: %u", policies[i],
                        ph_launches(be, begin, ph_now()));
                host_is_done = 1;
                ds_sched_over(&host->op, ph_now());
                ph_loop(be, NULL, 0);
                if (ph_stats().fallbacks)
                        return;
                ph_close();
        }
}

/* A BE session has a kernel of seconds and more work behind it: the others still get their share. */
Test(policy_attacks, a_long_kernel_of_one_client_does_not_stop_the_others)
{
        static const char *const together[] = {"fifo", "multistream", "static", "reef", "krisp", "detshare"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(together); i++) {
                struct ph_client *a, *b;
                uint64_t begin;

                attack_open(together[i]);
                a = ph_be();
                b = ph_be();
                for (int k = 0; k < 80; k++)
                        ph_submit(a, 0, &endless, 0);
                ph_run_for(1 * MS);
                begin = ph_now();
                ph_loop(b, &brief, 2);
                ph_run_for(1000 * MS);
                cr_expect_gt(
                        ph_launches(b, begin, ph_now()), 4000, "%s: %u", together[i], ph_launches(b, begin, ph_now()));
                ph_loop(b, NULL, 0);
                ph_run_for(1000 * MS);
                ph_close();
        }
}

/* A session with an objective of years disconnects: no deadline of it remains. */
Test(policy_attacks, a_departed_server_has_no_deadline)
{
        struct ph_client *liar, *be;
        uint64_t begin;

        attack_open("tpot-first");
        liar = ph_ls(UINT64_MAX / 2);
        be = ph_be();
        for (int i = 0; i < 4; i++) {
                ds_sched_session_phase(liar->session, DETSHARE_PHASE_DECODE, ph_now());
                ph_submit(liar, 0, &small, 0);
                ph_run_for(1 * MS);
                ds_sched_session_synchronised(liar->session, ph_now());
                ph_run_for(1 * MS);
        }
        ph_leave(liar);
        ph_run_for(30000 * MS);
        begin = ph_now();
        ph_loop(be, &brief, 2);
        ph_run_for(100 * MS);
        cr_expect_eq(ph_last(be)->n_sms, SMS, "%u", ph_last(be)->n_sms);
        cr_expect_gt(ph_launches(be, begin, ph_now()), 900, "%u", ph_launches(be, begin, ph_now()));
        ph_close();
}

/* When the device refuses more work, the policy does not kill operations that never reached it. */
Test(policy_attacks, kills_stay_sensible_on_a_full_device)
{
        struct ph_client *be, *ls;

        attack_open("reef");
        ph_set_policy("reef", "queue_cap=8", NULL);
        be = ph_be();
        for (int i = 0; i < 300; i++) {
                cr_assert_eq(ds_coroutine_new(be->session, 0, 0, 0, &be->stream[0]), 0);
                for (int k = 0; k < 10; k++)
                        ph_submit(be, 0, k ? &again : &brief, 0);
        }
        ph_run_for(1 * US);
        ls = ph_ls(0);
        ph_submit(ls, 0, &small, 0);
        ph_run_for(1 * US);
        cr_expect_eq(ph_stats().nonsense, 0);
        ph_close();
}

/* A BE session with the maximum of streams: the work in flight is bounded, and LS finds room. */
Test(policy_attacks, many_streams_do_not_fill_the_device)
{
        struct ph_client *be[PH_CLIENTS - 1], *ls;
        uint32_t at_once;

        attack_open("detshare");
        for (size_t i = 0; i < DS_ARRAY_SIZE(be); i++) {
                be[i] = ph_be();
                for (int k = 0; k < 40 * PH_STREAMS; k++)
                        ph_submit(be[i], (uint32_t)k % PH_STREAMS, &small, 0);
        }
        ph_run_for(1 * US);
        for (size_t i = 0; i < DS_ARRAY_SIZE(be); i++)
                for (int k = 0; k < PH_STREAMS; k++)
                        cr_expect_geq(ds_coroutine_in_flight(be[i]->stream[k]), 1);
        at_once = ph_stats().in_flight;
        cr_expect_leq(at_once, 512 + PH_STREAMS * PH_CLIENTS, "%u", at_once);
        ls = ph_ls(0);
        ph_submit(ls, 0, &small, 0);
        ph_run_for(1 * US);
        cr_expect_eq(ph_in_flight(ls), 1);
        ph_close();
}

static uint64_t any_of(const uint64_t *values, uint32_t n)
{
        static uint32_t seed = 1;

        seed = seed * 1664525u + 1013904223u;
        return values[(seed >> 16) % n];
}

/* Changes class and objectives, states when a request arrived, and submits one kernel. */
static void lie(struct ph_client *liar)
{
        static const uint64_t times[] = {0, 1, MS, 1ull << 62, 1ull << 63, UINT64_MAX - 1000, UINT64_MAX};
        static const uint64_t factors[] = {0, DS_SLO_FACTOR_MIN, DS_SLO_FACTOR_MAX};
        const uint64_t arrivals[] = {0, 1, ph_now() / 2, ph_now(), ph_now() + 1000 * MS, UINT64_MAX};
        struct ds_slo slo = {0};

        for (int kind = 0; kind < _DS_SLO_KINDS; kind++) {
                slo.ns[kind] = any_of(times, DS_ARRAY_SIZE(times));
                slo.permille[kind] = (uint32_t)any_of(factors, DS_ARRAY_SIZE(factors));
        }
        if (any_of(times, DS_ARRAY_SIZE(times)) < MS)
                ds_sched_session_set(liar->session,
                        any_of(times, DS_ARRAY_SIZE(times)) ? DETSHARE_CLASS_LS : DETSHARE_CLASS_BE, &slo, 100,
                        ph_now());
        ds_sched_session_arrival(liar->session, any_of(arrivals, DS_ARRAY_SIZE(arrivals)), ph_now());
        ph_submit(liar, 0, &small, 0);
}

/* A client states any objectives and arrivals, changes them and its class all the time, and does not always wait for its
 * work: others lose no more than the time of its kernels. */
Test(policy_attacks, any_objectives_and_arrivals_harm_nobody, .timeout = 60)
{
        static const char *const judges[] = {"fifo", "edf", "tpot-first", "detshare"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(judges); i++) {
                struct ph_client *liar, *ls, *be;

                attack_open(judges[i]);
                liar = ph_ls(0);
                ls = ph_ls(2 * MS);
                ls->synchronises = 1;
                be = ph_be();
                ph_loop(be, &brief, 2);
                ph_every(ls, &small, 10, 4 * MS, 1000);
                for (uint32_t k = 0; k < 4000; k++) {
                        lie(liar);
                        ph_run_for(k % 4 ? 30 * US : 3900 * US);
                        if (k % 3 == 0)
                                ds_sched_session_synchronised(liar->session, ph_now());
                }
                cr_expect_eq(ph_stats().fallbacks, 0, "%s was replaced", judges[i]);
                cr_expect_gt(ph_launches(be, 0, ph_now()), 10000, "%s: %u", judges[i], ph_launches(be, 0, ph_now()));
                cr_expect_lt(ph_latency(ls, 990), MS, "%s: %llu", judges[i], (unsigned long long)ph_latency(ls, 990));
                ph_loop(be, NULL, 0);
                ph_run_for(1000 * MS);
                ph_close();
        }
}
