/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule of `detshare`, sentence by sentence, in replays on a simulated H200 (docs/policies.md)
 *
 * Each test replays one service beside one job twice: with the policy as it is, and with one part of its rule switched
 * off by a parameter. So each test also shows what a parameter is for. The service answers requests of 40 kernels of 10
 * us, which arrive at random; the results are figures of the simulator (sim).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "replay/run.h"
#include "util/macro.h"

#define MS DS_NS_PER_MS
#define HEAD "detshare-profile 1\nsms 132\nkernel "
#define WAVES HEAD "waves grid=2640 block=1024 regs=32 ns=1000000\n" /* ten waves of blocks of 0.1 ms on all SMs */
#define SLABS HEAD "slabs grid=2640 block=1024 regs=32 ns=5000000\n" /* ten waves of blocks of 0.5 ms on all SMs */
#define WAVE HEAD "wave grid=264 block=1024 regs=32 ns=400000\n"     /* one wave of blocks of 0.4 ms on all SMs */
#define BRIEF HEAD "brief grid=2640 block=1024 regs=32 ns=40000\n"   /* ten waves of blocks of 4 us on all SMs */

struct scene {
        const char *job, *arrivals; /* profile of the job; arrivals of requests */
        uint32_t service_blocks;    /* 66: LS kernels need half of the SMs; 264: all of them */
        uint64_t slo_ns, duration_ns;
        int transform; /* 1: BE kernels can be evicted */
};

struct figures {
        uint64_t p50_ns, p99_ns; /* latency of the service's requests */
        uint64_t steps;          /* kernels of the job */
        uint64_t evictions;
};

static struct ds_replay_workload workload(char *text)
{
        struct ds_replay_workload workload = {.text = text, .size = strlen(text)};
        char error[256] = "";

        cr_assert_eq(sim_profile_parse(text, strlen(text), error, sizeof(error), &workload.profile), 0, "%s", error);
        return workload;
}

static struct ds_replay_session session(
        enum detshare_class class_, const struct ds_replay_workload *workload, const char *arrivals)
{
        struct ds_replay_session session = {
                .class_ = class_, .workload = {workload}, .queue = DS_REPLAY_QUEUE, .sm_percent = 100};
        char message[256] = "";

        cr_assert_eq(ds_replay_arrivals_open(arrivals, NULL, 1, 1, message, sizeof(message), &session.arrivals), 0,
                "%s", message);
        return session;
}

/* Replays the scene under detshare with up to two parameters; NULL: the default. */
static struct figures replay(const struct scene *scene, const char *first, const char *second)
{
        static char service[40 * 64], job[256];
        char dir[4096] = "", message[256] = "";
        struct ds_replay_workload workloads[2];
        struct ds_replay_session sessions[2];
        struct ds_replay_config config = {.device = "sim:h200",
                .policy = "detshare",
                .policy_dir = dir,
                .policy_any_owner = 1,
                .duration_ns = scene->duration_ns,
                .profiled = 1,
                .transform = scene->transform,
                .sessions = sessions,
                .n_sessions = 2};
        struct ds_replay_result result;
        size_t at = (size_t)sprintf(service, "detshare-profile 1\nsms 132\n");

        cr_assert_gt(readlink("/proc/self/exe", dir, sizeof(dir) - 32), 0);
        for (int i = 0; i < 3; i++)
                *strrchr(dir, '/') = 0;
        strcat(dir, "/policies");
        for (int i = 0; i < 40; i++)
                at += (size_t)sprintf(
                        service + at, "kernel k%d grid=%u block=1024 regs=32 ns=10000\n", i, scene->service_blocks);
        strcpy(job, scene->job);
        workloads[0] = workload(service);
        workloads[1] = workload(job);
        sessions[0] = session(DETSHARE_CLASS_LS, &workloads[0], scene->arrivals);
        sessions[0].slo_ns = scene->slo_ns;
        sessions[1] = session(DETSHARE_CLASS_BE, &workloads[1], "closed");
        for (const char *const *p = (const char *const[]){first, second, NULL}; *p; p++)
                config.params[config.n_params++] = *p;
        cr_assert_eq(ds_replay_run(&config, message, sizeof(message), &result), 0, "%s", message);
        cr_assert_eq(result.fallbacks, 0);
        for (int i = 0; i < 2; i++) {
                ds_replay_arrivals_free(sessions[i].arrivals);
                sim_profile_free(workloads[i].profile);
        }
        return (struct figures){
                result.sessions[0].p50_ns, result.sessions[0].p99_ns, result.sessions[1].ended, result.evictions};
}

/* Best-effort kernels have the whole GPU while no request runs. */
Test(policy_detshare_replay, the_job_has_the_whole_gpu_while_no_request_runs)
{
        const struct scene scene = {WAVES, "uniform:10", 66, 0, 300 * MS, 0};
        const struct figures figures = replay(&scene, NULL, NULL);

        cr_assert_geq(figures.steps, 270, "%llu of 300", (unsigned long long)figures.steps);
}

/* During a request, a BE kernel that will cost the request less than the slack keeps all SMs; otherwise it gets the SMs
 * that the request does not need. */
Test(policy_detshare_replay, a_kernel_that_costs_more_than_the_slack_gives_up_sms)
{
        const struct scene scene = {WAVES, "poisson:500", 66, 0, 300 * MS, 0};
        const struct figures tight = replay(&scene, "feel=0", "slack_permille=0"),
                             loose = replay(&scene, "feel=0", "slack_permille=10000");

        cr_assert_lt(tight.p99_ns * 5, loose.p99_ns);
        cr_assert_gt(loose.steps * 2, tight.steps * 3);
}

Test(policy_detshare_replay, it_leaves_the_sms_that_the_request_needs)
{
        const struct scene scene = {WAVES, "poisson:500", 66, 0, 300 * MS, 0};
        const struct figures half = replay(&scene, "feel=0", NULL), few = replay(&scene, "feel=0", "reserve_percent=5");

        cr_assert_lt(half.p99_ns * 2, few.p99_ns);
        cr_assert_lt(half.steps, few.steps);
}

/* If BE has cost requests more than the slack even so, no BE kernel starts until the request ends. */
Test(policy_detshare_replay, a_job_that_costs_too_much_is_held)
{
        const struct scene scene = {WAVES, "poisson:500", 264, 0, 1000 * MS, 0};
        const struct figures measured = replay(&scene, NULL, NULL), predicted = replay(&scene, "feel=0", NULL);

        cr_assert_lt(measured.p99_ns * 10, predicted.p99_ns * 9);
        cr_assert_lt(measured.steps, predicted.steps);
}

Test(policy_detshare_replay, a_new_job_is_held_until_its_cost_is_known)
{
        const struct scene scene = {BRIEF, "poisson:500", 66, 0, 300 * MS, 0};
        const struct figures held = replay(&scene, NULL, NULL), at_once = replay(&scene, "held_first=0", NULL);

        cr_assert_leq(held.p99_ns, at_once.p99_ns);
        cr_assert_lt(held.steps, at_once.steps);
}

/* Between requests, a BE kernel starts if it probably ends before the next request. */
Test(policy_detshare_replay, a_kernel_that_would_meet_the_next_request_waits)
{
        const struct scene scene = {WAVE, "poisson:600", 264, 0, 300 * MS, 0};
        const struct figures waits = replay(&scene, NULL, NULL), meets = replay(&scene, "meet_permille=1000", NULL);

        cr_assert_lt(waits.p99_ns * 10, meets.p99_ns * 9);
        cr_assert_lt(waits.steps, meets.steps);
}

/* A BE kernel that is in the way when a request begins is evicted, if it can be. */
Test(policy_detshare_replay, a_kernel_in_the_way_is_evicted)
{
        const struct scene scene = {SLABS, "poisson:100", 66, 0, 300 * MS, 1};
        const struct figures evicts = replay(&scene, NULL, NULL), never = replay(&scene, "evict=0", NULL);

        cr_assert_gt(evicts.evictions, 0);
        cr_assert_eq(never.evictions, 0);
        cr_assert_gt(evicts.steps * 10, never.steps * 11);
}

/* No BE kernel waits for LS longer than starve_ms. */
Test(policy_detshare_replay, a_job_beside_a_service_without_pauses_runs_every_starve_ms)
{
        const struct scene scene = {WAVE, "closed", 66, 0, 300 * MS, 0};
        const struct figures soon = replay(&scene, "starve_ms=5", NULL), late = replay(&scene, "starve_ms=1000", NULL);

        cr_assert_geq(soon.steps, 50);
        cr_assert_eq(late.steps, 0);
}

/* A request may lose all the time that its objective leaves while 99% of the requests meet it. */
Test(policy_detshare_replay, an_objective_is_time_for_the_job)
{
        struct scene scene = {BRIEF, "poisson:500", 66, 1500000, 1000 * MS, 0};
        const struct figures some = replay(&scene, NULL, NULL), none = replay(&scene, "attain_permille=1000", NULL);

        cr_assert_gt(some.steps * 10, none.steps * 11);
        cr_assert_lt(some.p99_ns, scene.slo_ns);
        scene.slo_ns = 0;
        cr_assert_leq(replay(&scene, NULL, NULL).steps, none.steps);
}

/* The next BE kernel is sent before the present one ends. */
Test(policy_detshare_replay, kernels_are_sent_ahead)
{
        const struct scene scene = {BRIEF, "poisson:50", 66, 0, 300 * MS, 0};
        const struct figures ahead = replay(&scene, NULL, NULL), at_end = replay(&scene, "be_ahead_us=0", NULL);

        cr_assert_gt(ahead.steps * 100, at_end.steps * 102);
}
