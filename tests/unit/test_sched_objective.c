/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler measures what a session has alone; its objectives follow from that (sched/objective.h,
 * sched/step.h), on the virtual clock
 *
 * The scripted GPU has 66 TPCs of two SMs; kernels of different streams do not disturb each other there, so a request
 * takes as long beside BE as alone, unless a kernel says otherwise.
 */
#include <math.h>

#include "sched/step.h"
#include "tests/unit/policy_harness.h"

#define SMS 132
#define FACTOR(thousandths) \
        ((struct ds_sched_session_config){.class_ = DETSHARE_CLASS_LS, .slo = {.permille = {(thousandths)}}})

static struct ph_kernel small = {.name = "small", .blocks = 16, .block_ns = 50 * US};
static struct ph_kernel large = {.name = "large", .blocks = 8 * SMS, .block_ns = 250 * US}; /* 2 ms */
static struct ph_kernel filler = {.name = "filler", .blocks = SMS, .block_ns = 100 * US};

static struct ds_sched_objective objective_of(const struct ph_client *client)
{
        struct ds_sched_objective objective;

        ds_sched_session_objective(client->session, &objective);
        return objective;
}

static struct ph_client *opened(const char *policy, const struct ds_sched_session_config *config)
{
        struct ph_client *client;

        PH_KERNELS_ARE(&small, &large, &filler);
        ph_open(SMS / 2, policy, NULL);
        client = ph_client(config);
        client->synchronises = 1;
        return client;
}

/* Requests of 20 small kernels, of which one in `every` has 40. */
static void serve(struct ph_client *client, uint32_t n, uint32_t every)
{
        for (uint32_t i = 0; i < n; i++) {
                ph_request(client, &small, i % every == every - 1 ? 40 : 20);
                ph_run_for(4 * MS);
        }
}

static int near(uint64_t a, uint64_t b)
{
        return a > b - b / 20 && a < b + b / 20;
}

Test(sched_objective, a_factor_refers_to_the_p99_alone)
{
        struct ph_client *client = opened("fifo", &FACTOR(1500));

        serve(client, 30, 1000);
        cr_assert_eq(objective_of(client).ns[DS_SLO_LATENCY], 0, "it is known before it was measured");
        serve(client, 970, 1000);
        cr_assert(near(objective_of(client).alone_ns[DS_SLO_LATENCY], MS), "%llu",
                (unsigned long long)objective_of(client).alone_ns[DS_SLO_LATENCY]);
        cr_assert(near(objective_of(client).ns[DS_SLO_LATENCY], 1500 * US));
        /* one request in fifty takes twice as long: more than one in a hundred */
        serve(client, 1000, 50);
        cr_assert(near(objective_of(client).alone_ns[DS_SLO_LATENCY], 2 * MS));
        cr_assert(near(objective_of(client).ns[DS_SLO_LATENCY], 3 * MS));
        ph_close();
}

Test(sched_objective, of_a_latency_and_a_factor_the_stricter_one_holds)
{
        struct ph_client *client = opened("fifo", &FACTOR(1500));
        struct ds_slo both = {.ns = {1200 * US}, .permille = {1500}};

        ds_sched_session_set(client->session, DETSHARE_CLASS_LS, &both, 100, ph_now());
        cr_assert_eq(objective_of(client).ns[DS_SLO_LATENCY], 1200 * US);
        serve(client, 100, 1000);
        cr_assert_eq(objective_of(client).ns[DS_SLO_LATENCY], 1200 * US);
        both.permille[0] = 1100;
        ds_sched_session_set(client->session, DETSHARE_CLASS_LS, &both, 100, ph_now());
        cr_assert(near(objective_of(client).ns[DS_SLO_LATENCY], 1100 * US));
        ph_close();
}

/* BE that never leaves hides what the session has alone; a factor is then no objective. */
Test(sched_objective, requests_beside_best_effort_are_not_measured)
{
        struct ph_client *client = opened("multistream", &FACTOR(2000)), *be = ph_be();

        ph_loop(be, &filler, 4);
        serve(client, 200, 1000);
        cr_assert_eq(objective_of(client).ns[DS_SLO_LATENCY], 0);
        cr_assert_eq(objective_of(client).alone_ns[DS_SLO_LATENCY], 0);
        ph_loop(be, NULL, 0);
        be->loop = NULL;
        serve(client, 100, 1000);
        cr_assert(near(objective_of(client).alone_ns[DS_SLO_LATENCY], MS));
        ph_close();
}

/* Under `detshare` BE is held during some requests, so the daemon learns what the session has alone beside BE, too. */
Test(sched_objective, detshare_measures_beside_best_effort, .timeout = 60)
{
        struct ph_client *client = opened("detshare", &FACTOR(2000)), *be = ph_be();

        ph_loop(be, &filler, 4);
        serve(client, 1000, 2000);
        cr_assert(objective_of(client).alone_ns[DS_SLO_LATENCY] > 930 * US &&
                          objective_of(client).alone_ns[DS_SLO_LATENCY] < 1030 * US,
                "%llu", (unsigned long long)objective_of(client).alone_ns[DS_SLO_LATENCY]);
        ph_close();
}

/* Whether the other service states an objective makes no difference. */
Test(sched_objective, requests_beside_another_service_are_not_measured)
{
        for (uint32_t thousandths = 0; thousandths <= 2000; thousandths += 2000) {
                struct ph_client *client = opened("fifo", &FACTOR(2000)), *other = ph_client(&FACTOR(thousandths));

                other->synchronises = 1;
                for (uint32_t i = 0; i < 100; i++) {
                        ph_request(client, &small, 20);
                        ph_run_for(500 * US);
                        ph_request(other, &small, 20);
                        ph_run_for(4 * MS);
                }
                cr_assert_eq(objective_of(client).alone_ns[DS_SLO_LATENCY], 0, "%u", thousandths);
                ph_close();
        }
}

/* --- queue in the client ------------------------------------------------------------------------------------------ */

static uint32_t seed = 1;

/* A number of the exponential distribution with this mean. */
static uint64_t random_ns(uint64_t mean_ns)
{
        double u;

        seed = seed * 1664525u + 1013904223u;
        u = ((double)(seed >> 8) + 0.5) / (1 << 24);
        return (uint64_t)(-(double)mean_ns * log(u));
}

/* Serves 4,000 requests of 1 ms that arrive at random times. The client takes each from its queue turn_ns after the end
 * of the last one. Returns their true p99, from arrival to end. */
static uint64_t serve_random(struct ph_client *client, uint64_t mean_ns, uint64_t turn_ns, int stated)
{
        uint64_t arrival = ph_now();

        for (uint32_t i = 0; i < 4000; i++) {
                arrival += random_ns(mean_ns);
                if (arrival > ph_now())
                        ph_run(arrival);
                if (stated)
                        ds_sched_session_arrival(client->session, arrival, ph_now());
                ph_request(client, &small, 20);
                while (client->running || client->synchronise)
                        ph_run_for(5 * US);
                client->latency[client->n_latency - 1] = ph_now() - arrival;
                ph_run_for(turn_ns);
        }
        return ph_latency(client, 990);
}

/* The wait of requests in their client belongs to what the session has alone, whether the client states arrivals or
 * they are guessed. */
Test(sched_objective, the_queue_in_the_client_counts, .timeout = 60)
{
        static const struct {
                uint64_t mean_ns, turn_ns;
                int stated;
        } cases[] = {{4 * MS, 0, 1}, {4 * MS, 0, 0}, {2 * MS, 0, 1}, {2 * MS, 0, 0}, {4 * MS, 100 * US, 0},
                {2 * MS, 100 * US, 0}, {4 * MS, 200 * US, 0}, {2 * MS, 200 * US, 0}};

        for (size_t i = 0; i < DS_ARRAY_SIZE(cases); i++) {
                struct ph_client *client = opened("fifo", &FACTOR(1000));
                const uint64_t true_ns = serve_random(client, cases[i].mean_ns, cases[i].turn_ns, cases[i].stated);
                const uint64_t found_ns = objective_of(client).alone_ns[DS_SLO_LATENCY];

                cr_assert(found_ns > true_ns * 8 / 10 && found_ns < true_ns * 12 / 10, "%zu: %llu instead of %llu", i,
                        (unsigned long long)found_ns, (unsigned long long)true_ns);
                ph_close();
        }
}

/* A client that sends its next request when it has the answer has no queue. */
Test(sched_objective, a_client_that_never_pauses_has_no_queue)
{
        struct ph_client *client = opened("fifo", &FACTOR(1000));

        for (uint32_t i = 0; i < 3000; i++) {
                ph_request(client, &small, 20);
                while (client->running || client->synchronise)
                        ph_run_for(5 * US);
        }
        cr_assert(near(objective_of(client).alone_ns[DS_SLO_LATENCY], MS), "%llu",
                (unsigned long long)objective_of(client).alone_ns[DS_SLO_LATENCY]);
        ph_close();
}

/* An objective counts from the stated arrival: the policy sees the rest of it. */
Test(sched_objective, an_objective_counts_from_the_stated_arrival)
{
        struct ph_client *client =
                opened("fifo", &(struct ds_sched_session_config){.class_ = DETSHARE_CLASS_LS, .slo = {.ns = {5 * MS}}});
        const struct detshare_session_view *view;

        ph_run(10 * MS);
        ds_sched_session_arrival(client->session, 8 * MS, ph_now());
        ph_request(client, &small, 20);
        ph_run_for(100 * US);
        view = &ph.sched->snapshot.session_views[client->session->view];
        cr_assert(view->counted && view->slo_ns == 3 * MS && view->deadline_ns == 13 * MS, "%llu %llu",
                (unsigned long long)view->slo_ns, (unsigned long long)view->deadline_ns);
        /* the statement holds for one request */
        ph_run_for(10 * MS);
        ph_request(client, &small, 20);
        ph_run_for(100 * US);
        view = &ph.sched->snapshot.session_views[client->session->view];
        cr_assert(!view->counted && view->slo_ns == 5 * MS);
        /* a request that arrives now may state a time after the worker's last look at the clock */
        ph_run_for(10 * MS);
        ds_sched_session_arrival(client->session, ph_now() + US, ph_now());
        ph_request(client, &small, 20);
        ph_run_for(100 * US);
        view = &ph.sched->snapshot.session_views[client->session->view];
        cr_assert(view->counted && view->slo_ns == 5 * MS);
        ph_close();
}

/* --- judgement ---------------------------------------------------------------------------------------------------- */

static uint32_t missed_of(uint64_t slo_ns, uint32_t every)
{
        struct ph_client *client =
                opened("fifo", &(struct ds_sched_session_config){.class_ = DETSHARE_CLASS_LS, .slo = {.ns = {slo_ns}}});
        uint32_t missed;

        serve(client, 600, every);
        missed = objective_of(client).alone_missed_permille;
        ph_close();
        return missed;
}

Test(sched_objective, an_objective_that_is_missed_alone_is_reported)
{
        cr_assert_eq(missed_of(1500 * US, 10000), 0);
        cr_assert_eq(missed_of(1500 * US, 120), 0, "fewer than one in a hundred");
        cr_assert(missed_of(1500 * US, 20) >= 40 && missed_of(1500 * US, 20) <= 60);
        cr_assert_eq(missed_of(900 * US, 10000), 1000);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static struct ds_sched_session_config model(uint64_t ttft_ns, uint64_t tpot_ns)
{
        return (struct ds_sched_session_config){
                .class_ = DETSHARE_CLASS_LS, .slo = {.ns = {[DS_SLO_TTFT] = ttft_ns, [DS_SLO_TPOT] = tpot_ns}}};
}

static const struct detshare_session_view *during(struct ph_client *client, const struct ph_kernel *kernel, uint32_t n)
{
        ph_request(client, kernel, n);
        ph_run_for(30 * US);
        return &ph.sched->snapshot.session_views[client->session->view];
}

static void settle(struct ph_client *client)
{
        while (client->running || client->synchronise)
                ph_run_for(5 * US);
}

/* Answers of a prompt of 5 large kernels and steps of 20 small ones, with 300 us of the host between steps. */
Test(sched_objective, prefill_and_decode_have_objectives_of_their_own)
{
        const struct ds_sched_session_config config = model(50 * MS, 3 * MS);
        struct ph_client *client = opened("fifo", &config);

        for (uint32_t answer = 0; answer < 20; answer++) {
                const struct detshare_session_view *view = during(client, &large, 5);

                cr_assert(answer == 0 || view->counted);
                cr_assert_leq(view->slo_ns, 50 * MS);
                settle(client);
                for (uint32_t step = 0; step < 10; step++) {
                        ph_run_for(300 * US);
                        view = during(client, &small, 20);
                        if (answer > 1)
                                cr_assert(view->slo_ns > 2600 * US && view->slo_ns < 2750 * US, "%u %u: %llu", answer,
                                        step, (unsigned long long)view->slo_ns);
                        settle(client);
                }
                ph_run_for(20 * MS);
        }
        cr_assert(near(objective_of(client).alone_ns[DS_SLO_TPOT], 1300 * US), "%llu",
                (unsigned long long)objective_of(client).alone_ns[DS_SLO_TPOT]);
        cr_assert_eq(objective_of(client).ns[DS_SLO_TTFT], 50 * MS);
        ph_close();
}

static uint64_t slo_during(struct ph_client *client)
{
        return during(client, &small, 20)->slo_ns;
}

/* A step that has not ended, or a request of another class, leaves nothing behind for later requests. */
Test(sched_objective, a_change_of_objectives_ends_the_running_step)
{
        const struct ds_sched_session_config config = model(50 * MS, 3 * MS);
        const struct ds_slo latency = {.ns = {5 * MS}};
        struct ph_client *client = opened("fifo", &config);

        client->synchronises = 0; /* so each request is only a part of a step */
        for (uint32_t i = 0; i < 3; i++) {
                during(client, &small, 20);
                ph_run_for(20 * MS);
        }
        ds_sched_session_set(client->session, DETSHARE_CLASS_LS, &latency, 100, ph_now());
        cr_assert_eq(slo_during(client), 5 * MS);
        ds_sched_session_set(client->session, DETSHARE_CLASS_BE, &latency, 100, ph_now());
        ph_run_for(20 * MS);
        during(client, &small, 20);
        ds_sched_session_set(client->session, DETSHARE_CLASS_LS, &latency, 100, ph_now());
        ph_run_for(30 * US);
        cr_assert_eq(ph.sched->snapshot.session_views[client->session->view].slo_ns, 5 * MS);
        cr_assert(!ph.sched->snapshot.session_views[client->session->view].counted);
        ph_close();
}

/* A client may state that its prompts arrived days ago: a factor of that is at most the largest time. */
Test(sched_objective, a_factor_of_a_huge_latency_saturates)
{
        const struct ds_sched_session_config config = {
                .class_ = DETSHARE_CLASS_LS, .slo = {.permille = {[DS_SLO_TTFT] = DS_SLO_FACTOR_MAX}}};
        struct ph_client *client = opened("fifo", &config);

        ds_sched_session_phase(client->session, DETSHARE_PHASE_PREFILL, ph_now());
        ph_run(185000000 * MS);
        for (uint32_t i = 0; i < 60; i++) {
                ds_sched_session_arrival(client->session, i + 1, ph_now());
                during(client, &large, 1);
                settle(client);
        }
        cr_assert_geq(objective_of(client).alone_ns[DS_SLO_TTFT], 185000000 * MS);
        cr_assert_geq(objective_of(client).ns[DS_SLO_TTFT], objective_of(client).alone_ns[DS_SLO_TTFT]);
        ph_close();
}

Test(sched_step, hints_decide)
{
        struct ds_step step = {0};

        for (int i = 0; i < 3; i++) {
                ds_step_kernel(&step, 1, DETSHARE_PHASE_PREFILL, 0);
                cr_assert_eq(ds_step_phase(&step), DETSHARE_PHASE_PREFILL);
                cr_assert_eq(ds_step_end(&step), DETSHARE_PHASE_PREFILL);
        }
        ds_step_kernel(&step, 1, DETSHARE_PHASE_DECODE, 1);
        cr_assert_eq(ds_step_end(&step), DETSHARE_PHASE_DECODE);
}

static uint32_t end_of(struct ds_step *step, uint64_t first, uint32_t n, int fills)
{
        for (uint32_t i = 0; i < n; i++)
                ds_step_kernel(step, first + i, DETSHARE_PHASE_NONE, fills);
        return ds_step_end(step);
}

Test(sched_step, kernels_decide_without_hints)
{
        struct ds_step step = {0};

        cr_assert_eq(ds_step_phase(&step), DETSHARE_PHASE_PREFILL, "the first step computes a prompt");
        cr_assert_eq(end_of(&step, 1000, 100, 1), DETSHARE_PHASE_PREFILL);
        end_of(&step, 1, 100, 0);
        for (uint32_t i = 0; i < 5; i++)
                cr_assert_eq(end_of(&step, 1, 95 + i, 0), DETSHARE_PHASE_DECODE, "a step that repeats");
        cr_assert_eq(ds_step_phase(&step), DETSHARE_PHASE_DECODE, "the next one probably is, too");
        ds_step_kernel(&step, 1000, DETSHARE_PHASE_NONE, 1);
        cr_assert_eq(ds_step_phase(&step), DETSHARE_PHASE_PREFILL, "another kernel that fills the GPU");
        cr_assert_eq(end_of(&step, 1001, 99, 1), DETSHARE_PHASE_PREFILL);
        cr_assert_eq(end_of(&step, 1, 100, 0), DETSHARE_PHASE_DECODE, "like the last decode step");
}
