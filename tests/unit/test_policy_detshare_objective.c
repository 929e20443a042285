/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `detshare` with objectives (policies/detshare/budget.h): what BE gets beside requests that state a latency, on the
 * virtual clock
 *
 * The scripted GPU has 66 TPCs of two SMs. An LS kernel takes 1.5 times as long beside BE, which no price predicts.
 */
#include <string.h>

#include "tests/unit/policy_harness.h"

#define SMS 132
#define KERNELS 20u
#define KERNEL_NS (50 * US)

static const struct ph_client *job;

static const struct ph_client *service;
static uint32_t ls_permille = 1500, be_permille = 1000; /* times of kernels side by side, permille of those alone */

static uint64_t half_more(const struct ph_kernel *kernel, uint64_t alone_ns, uint32_t n_others)
{
        (void)kernel;
        (void)n_others;
        return ph_in_flight(job) ? alone_ns * ls_permille / 1000 : alone_ns;
}

static uint64_t be_more(const struct ph_kernel *kernel, uint64_t alone_ns, uint32_t n_others)
{
        (void)kernel;
        (void)n_others;
        return service && ph_in_flight(service) ? alone_ns * be_permille / 1000 : alone_ns;
}

static struct ph_kernel touchy = {.name = "touchy", .blocks = 16, .block_ns = KERNEL_NS, .beside = half_more};
static struct ph_kernel shorts = {.name = "shorts", .blocks = 32 * SMS, .block_ns = 4 * US, .beside = be_more};

/* Result of the second half of a run, for the service and the job. */
struct outcome {
        uint64_t busy;      /* time for which BE ran, permille */
        uint64_t done;      /* kernels of BE that ended */
        uint32_t n, missed; /* requests, and those that took longer than the objective */
        uint64_t p99_ns;
        uint64_t request_ns; /* time for which requests ran, permille */
};

/* 2,000 requests of 20 kernels and 1.1 ms, one every `period_us`, beside a closed loop of BE. */
static struct outcome outcome_of(uint64_t slo_ns, uint32_t period_us)
{
        struct outcome outcome = {.n = 1000};
        struct ph_client *ls;
        uint64_t half, sum = 0;

        PH_KERNELS_ARE(&touchy, &shorts);
        ph_open(SMS / 2, "detshare", "explore_permille=0", NULL);
        ls = ph_ls(slo_ns);
        service = ls;
        ls->synchronises = 1;
        ls->gap_us = 55; /* the client launches a kernel when the one before it should have ended */
        job = ph_be();
        ph_know(&shorts, 0);
        ph_loop((struct ph_client *)job, &shorts, 4);
        ph_every(ls, &touchy, KERNELS, period_us * US, 2000);
        ph_run_for((uint64_t)period_us * US * 1000);
        half = ph_now();
        outcome.done = job->ended;
        ph_run_for((uint64_t)period_us * US * 1000);
        outcome.done = job->ended - outcome.done;
        outcome.busy = ph_busy(job, half, ph_now());
        for (uint32_t i = ls->n_latency - outcome.n; i < ls->n_latency; i++) {
                outcome.missed += slo_ns && ls->latency[i] > slo_ns;
                sum += ls->latency[i];
        }
        outcome.request_ns = sum / outcome.n / period_us;
        outcome.p99_ns = ph_latency(ls, 990);
        ph_close();
        return outcome;
}

/* Without an objective BE is held beside requests that it costs half of their time. With one of twice their time it
 * runs beside them. */
Test(policy_detshare_objective, an_objective_buys_throughput, .timeout = 60)
{
        const struct outcome without = outcome_of(0, 2000), with = outcome_of(2500 * US, 2000);

        cr_assert_leq(without.busy, 550, "%llu", (unsigned long long)without.busy);
        cr_assert_geq(with.busy, 800, "%llu", (unsigned long long)with.busy);
        cr_assert_leq(with.missed, 10, "%u", with.missed);
}

/* BE leaves in time: requests meet an objective that they would miss if it stayed. */
Test(policy_detshare_objective, requests_meet_an_objective_that_they_would_miss_beside_best_effort, .timeout = 60)
{
        const struct outcome with = outcome_of(1450 * US, 4000), beside = outcome_of(10 * MS, 4000);

        cr_assert_gt(beside.p99_ns, 1450 * US, "the objective could not be missed");
        cr_assert_leq(with.missed, 5, "%u", with.missed);
        cr_assert_lt(with.p99_ns, 1450 * US);
        cr_assert_gt(with.busy, outcome_of(0, 4000).busy + 10, "%llu", (unsigned long long)with.busy);
}

/* An objective that requests miss even alone buys nothing, and costs neither side anything. */
Test(policy_detshare_objective, an_objective_that_cannot_be_met_changes_nothing, .timeout = 60)
{
        const struct outcome without = outcome_of(0, 2000), with = outcome_of(500 * US, 2000);

        cr_assert_eq(with.missed, with.n);
        cr_assert(with.busy + 20 > without.busy && with.busy < without.busy + 20, "%llu instead of %llu",
                (unsigned long long)with.busy, (unsigned long long)without.busy);
        cr_assert_leq(with.p99_ns, without.p99_ns + 50 * US);
}

/* BE stays for longer than the time that the objective leaves if requests lose little beside it. */
Test(policy_detshare_objective, best_effort_stays_longer_where_it_costs_little, .timeout = 60)
{
        struct outcome little, much, none;

        ls_permille = 1300;
        none = outcome_of(0, 2500);
        little = outcome_of(1500 * US, 2500);
        ls_permille = 3000;
        much = outcome_of(1500 * US, 2500);
        cr_assert_leq(little.missed, 10, "%u", little.missed);
        cr_assert_leq(much.missed, 10, "%u", much.missed);
        cr_assert_gt(little.busy, much.busy + 150, "%llu and %llu, %llu without an objective",
                (unsigned long long)little.busy, (unsigned long long)much.busy, (unsigned long long)none.busy);
}

/* The objective buys nothing if both achieve less side by side than one after the other, so the job loses nothing. */
Test(policy_detshare_objective, sharing_that_does_not_pay_is_left, .timeout = 60)
{
        struct outcome without, with;

        ls_permille = be_permille = 2500; /* 0.8 GPUs together */
        without = outcome_of(0, 2500);
        with = outcome_of(5000 * US, 2500);
        cr_assert_geq(with.done * 100, without.done * 98, "%llu instead of %llu", (unsigned long long)with.done,
                (unsigned long long)without.done);
        ls_permille = be_permille = 1400; /* 1.4 GPUs */
        with = outcome_of(5000 * US, 2500);
        cr_assert_geq(with.done * 100, without.done * 110, "%llu instead of %llu", (unsigned long long)with.done,
                (unsigned long long)without.done);
}

static const char *explained(void)
{
        static char text[512];

        ds_sched_session_explain(service->session, text, sizeof(text));
        return text;
}

/* A job that does not pay says nothing about the next job. */
Test(policy_detshare_objective, another_job_is_measured_anew, .timeout = 60)
{
        struct ph_client *ls, *be;

        ls_permille = be_permille = 2500;
        PH_KERNELS_ARE(&touchy, &shorts);
        ph_open(SMS / 2, "detshare", "explore_permille=0", NULL);
        ls = ph_ls(5 * MS);
        service = ls;
        ls->synchronises = 1;
        ls->gap_us = 55;
        job = be = ph_be();
        ph_know(&shorts, 0);
        ph_loop(be, &shorts, 4);
        ph_every(ls, &touchy, KERNELS, 2500 * US, 1100);
        ph_run_for(2500 * MS);
        cr_assert(strstr(explained(), "held: side by side"), "%s", explained());
        ph_loop(ph_be(), &shorts, 4);
        ph_run_for(5 * MS);
        cr_assert(strstr(explained(), "learns"), "%s", explained());
        ph_close();
}

/* A kernel of a step: BE on all SMs costs it much, BE on a part of them little. */
static uint64_t by_part(const struct ph_kernel *kernel, uint64_t alone_ns, uint32_t n_others)
{
        const struct ph_log *last = ph_in_flight(job) ? ph_last(job) : NULL;

        (void)kernel;
        (void)n_others;
        return !last ? alone_ns : last->n_sms == SMS ? alone_ns * 18 / 10 : alone_ns * 11 / 10;
}

/* A decode loop of a language model beside a closed loop of BE. */
struct decode {
        struct ph_kernel *kernel;
        uint32_t kernels; /* per step */
        uint32_t gap_us;  /* between two launches of a step */
        uint64_t tpot_ns, think_ns;
        uint32_t steps, late; /* steps, and those of their last half that exceed the TPOT */
        uint64_t busy;        /* time for which BE ran in that half, permille */
};

/* Runs it, and closes nothing. */
static void decode(struct decode *loop)
{
        const struct ds_slo slo = {.ns = {[DS_SLO_TPOT] = loop->tpot_ns}};
        struct ph_client *ls, *be;
        uint64_t half = 0;

        ph_open(SMS / 2, "detshare", "explore_permille=0", NULL);
        ls = ph_client(&(struct ds_sched_session_config){.class_ = DETSHARE_CLASS_LS, .slo = slo});
        service = ls;
        ls->synchronises = 1;
        ls->gap_us = loop->gap_us;
        job = be = ph_be();
        ph_know(&shorts, 0);
        ph_loop(be, &shorts, 4);
        for (uint32_t i = 0; i < loop->steps; i++) {
                half = i == loop->steps / 2 ? ph_now() : half;
                ph_request(ls, loop->kernel, loop->kernels);
                while (ls->running || ls->synchronise)
                        ph_run_for(5 * US);
                ph_run_for(loop->think_ns);
        }
        for (uint32_t i = loop->steps / 2; i < ls->n_latency; i++)
                loop->late += ls->latency[i] + loop->think_ns > loop->tpot_ns;
        loop->busy = ph_busy(be, half, ph_now());
}

/*
 * A decode loop that nearly never pauses, with steps of 12 ms and a TPOT of 14.5 ms. BE on all SMs uses up what the
 * TPOT leaves in a part of the step. On a part of the SMs BE may stay beside whole steps, so it achieves more there.
 */
Test(policy_detshare_objective, a_decode_loop_shares_on_a_part_of_the_sms, .timeout = 60)
{
        struct ph_kernel step = {.name = "step", .blocks = 16, .block_ns = 600 * US, .beside = by_part};
        struct decode loop = {
                &step, .kernels = 20, .gap_us = 600, .tpot_ns = 14500 * US, .think_ns = 200 * US, .steps = 600};

        PH_KERNELS_ARE(&step, &shorts);
        decode(&loop);
        cr_assert_leq(loop.late, 3, "%u", loop.late);
        cr_assert(strstr(explained(), "on 108 of 132 SMs"), "%s", explained());
        cr_assert_geq(loop.busy, 650, "%llu: %s", (unsigned long long)loop.busy, explained());
        ph_close();
}

/* The same, but BE on all SMs costs the step so much that it may be beside it for no longer than the TPOT leaves. */
static uint64_t by_part_much(const struct ph_kernel *kernel, uint64_t alone_ns, uint32_t n_others)
{
        const struct ph_log *last = ph_in_flight(job) ? ph_last(job) : NULL;

        return last && last->n_sms == SMS ? alone_ns * 3 : by_part(kernel, alone_ns, n_others);
}

/* With a TPOT that leaves a fifteenth of a step, all SMs are not worth it. The parts are measured and used even so. */
Test(policy_detshare_objective, a_small_objective_shares_on_a_part_of_the_sms, .timeout = 60)
{
        struct ph_kernel step = {.name = "step", .blocks = 16, .block_ns = 200 * US, .beside = by_part_much};
        struct decode loop = {
                &step, .kernels = 60, .gap_us = 200, .tpot_ns = 14600 * US, .think_ns = 200 * US, .steps = 2200};

        PH_KERNELS_ARE(&step, &shorts);
        decode(&loop);
        cr_assert_leq(loop.late, 11, "%u: %s", loop.late, explained());
        cr_assert(strstr(explained(), "on 108 of 132 SMs"), "%s", explained());
        cr_assert_geq(loop.busy, 400, "%llu: %s", (unsigned long long)loop.busy, explained());
        ph_close();
}

/*
 * Steps of a language model that take 12 and 30 ms, and TPOTs of a third more: what both achieve side by side is measured,
 * also where the step is longer than the pieces in which requests are timed. Then the job runs beside whole steps.
 */
Test(policy_detshare_objective, a_long_step_with_a_tpot_shares, .timeout = 60)
{
        static const struct {
                uint64_t step_ns, tpot_ns;
        } lengths[] = {{12 * MS, 16 * MS}, {30 * MS, 40 * MS}};

        ls_permille = 1100;
        be_permille = 3000;
        for (size_t i = 0; i < 2; i++) {
                struct ph_kernel step = {
                        .name = "step", .blocks = 16, .block_ns = lengths[i].step_ns, .beside = half_more};
                struct decode loop = {
                        &step, .kernels = 1, .tpot_ns = lengths[i].tpot_ns, .think_ns = 300 * US, .steps = 400};

                PH_KERNELS_ARE(&step, &shorts);
                decode(&loop);
                cr_assert_leq(loop.late, 2, "%zu: %u", i, loop.late);
                cr_assert_geq(loop.busy, 900, "%zu: %llu", i, (unsigned long long)loop.busy);
                ph_close();
        }
}
