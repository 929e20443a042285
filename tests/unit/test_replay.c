/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay: workloads, arrivals, and results of simulations
 *
 * Without concurrent kernels every figure of a run follows from the model's launch costs by hand; the tests of single
 * sessions do so.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "replay/run.h"
#include "util/alloc.h"
#include "util/macro.h"

#define US DS_NS_PER_US
#define MS DS_NS_PER_MS
#define S DS_NS_PER_S

/* --- workloads --- */

static int by_ns(const void *a, const void *b)
{
        const struct sim_profile_kernel *x = a, *y = b;

        return (x->ns > y->ns) - (x->ns < y->ns);
}

/* Compares the kernels of a synthesised workload with the statistics that it was made from; times in us. */
static void synthesised(const char *name, uint32_t kernels, double p50, double p99, double max, double blocks)
{
        struct ds_replay_workload *workload = NULL;
        struct sim_profile_kernel *k;
        char message[256] = "";

        cr_assert_eq(ds_replay_workload_open(name, 132, message, sizeof(message), &workload), 0, "%s", message);
        cr_assert_eq(workload->profile->n_kernels, kernels);
        cr_assert(strstr(workload->profile->source, "synthesised from quantiles"));
        k = workload->profile->kernels;
        qsort(k, kernels, sizeof(*k), by_ns);
        /* the median of an even number of kernels lies between two of them: 2% tolerance */
        cr_assert_float_eq((double)k[kernels / 2].ns / 1000, p50, p50 * 0.02, "%s: p50 %llu", name,
                (unsigned long long)k[kernels / 2].ns);
        cr_assert_float_eq((double)k[kernels * 99 / 100].ns / 1000, p99, p99 * 0.1, "%s: p99 %llu", name,
                (unsigned long long)k[kernels * 99 / 100].ns);
        cr_assert_eq(k[kernels - 1].ns, (uint64_t)(max * 1000));
        cr_assert_float_eq((double)sim_profile_blocks(&k[kernels / 2]), blocks, blocks * 0.03);
        ds_replay_workload_free(workload);
}

Test(replay, built_in_workloads_have_the_quantiles_that_were_measured)
{
        synthesised("resnet152-train", 2425, 12, 153, 1390, 1024);
        synthesised("densenet161-b64", 1185, 5, 116, 561, 588);
        synthesised("llama-1b-decode", 694, 2.0, 10, 36, 16);
        synthesised("resnet34-b1", 298, 1.6, 14, 18, 56);
        synthesised("bert-base-b64", 154, 17, 58, 59, 132);
}

static char table[] =
        "a line of words before\n"
        "\"Start (ns)\",\"Duration (ns)\",\"CorrId\",\"GrdX\",\"GrdY\",\"GrdZ\",\"BlkX\",\"BlkY\",\"BlkZ\",\"Reg/Trd\","
        "\"StcSMem (MB)\",\"DymSMem (MB)\",\"Name\"\n"
        "10,1500,1,4,5,6,128,2,1,40,0.001024,0.002,\"void f<int, 3>(float *)\"\n"
        "20,900,2,,,,,,,,,,\"[CUDA memcpy Host-to-Device]\"\r\n"
        "30,2500,3,7,1,1,64,1,1,16,0.000000,0.000,\"say \"\"g\"\"\"\n";

Test(replay, a_profilers_table_becomes_a_profile)
{
        struct sim_profile *profile = NULL;
        char message[256] = "", *text = NULL;

        cr_assert_eq(ds_replay_convert("dir/t.csv", table, sizeof(table) - 1, 132, message, sizeof(message), &text), 0,
                "%s", message);
        cr_assert_eq(sim_profile_parse(text, strlen(text), message, sizeof(message), &profile), 0, "%s", message);
        cr_assert_eq(profile->n_kernels, 2, "a copy is no kernel");
        cr_assert_str_eq(profile->kernels[0].name, "void_f<int,_3>(float_*)");
        cr_assert_eq(profile->kernels[0].ns, 1500);
        cr_assert_eq(profile->kernels[0].grid[2], 6);
        cr_assert_eq(profile->kernels[0].block[1], 2);
        cr_assert_eq(profile->kernels[0].registers, 40);
        cr_assert_eq(profile->kernels[0].shared, 3024);
        cr_assert_str_eq(profile->kernels[1].name, "say_\"g\"");
        cr_assert(strstr(text, "1 rows that are no kernels"));
        sim_profile_free(profile);
        free(text);
        cr_assert_eq(ds_replay_convert("t.csv", "a,b\n1,2\n", 8, 132, message, sizeof(message), &text),
                DS_REPLAY_E_BAD_FILE);
        cr_assert(strstr(message, "t.csv: no line that names the columns"), "%s", message);
}

/* --- arrivals --- */

static ds_replay_arrivals *arrivals(const char *rule, const char *id, double speed, uint64_t seed)
{
        ds_replay_arrivals *a = NULL;
        char message[256] = "";

        cr_assert_eq(ds_replay_arrivals_open(rule, id, speed, seed, message, sizeof(message), &a), 0, "%s", message);
        return a;
}

static uint64_t next_ns(ds_replay_arrivals *a)
{
        return ds_replay_arrivals_next(a).ns;
}

Test(replay, random_arrivals_keep_their_rate_and_their_seed)
{
        ds_replay_arrivals *a = arrivals("poisson:200", NULL, 1, 7), *b = arrivals("poisson:200", NULL, 1, 7);
        ds_replay_arrivals *c = arrivals("poisson:200", NULL, 1, 8), *d = arrivals("uniform:200", NULL, 2, 8);
        uint64_t last = 0, first = next_ns(a);
        int same = 0;

        ds_replay_arrivals_rewind(a);
        cr_assert_eq(next_ns(a), first);
        ds_replay_arrivals_rewind(a);
        for (int i = 0; i < 100000; i++) {
                last = next_ns(a);
                cr_assert_eq(last, next_ns(b));
                same += last == next_ns(c);
                cr_assert_eq(next_ns(d), (uint64_t)(i + 1) * 2500 * US);
        }
        cr_assert_float_eq((double)last / 1e9, 500, 10, "100,000 at 200 a second");
        cr_assert_lt(same, 3);
        ds_replay_arrivals_free(a);
        ds_replay_arrivals_free(b);
        ds_replay_arrivals_free(c);
        ds_replay_arrivals_free(d);
}

Test(replay, traces_are_read_and_go_round)
{
        ds_replay_arrivals *a = arrivals(TEST_DATA_DIR "/disb_real.json", "resnet152_rt", 1, 0);
        struct ds_replay_arrival azure;
        uint64_t second;

        cr_assert_eq(next_ns(a), 0);
        cr_assert_eq(next_ns(a), 150 * MS);
        cr_assert_eq(next_ns(a), 258 * MS);
        for (int i = 3; i < 375; i++)
                next_ns(a);
        /* the trace's last arrival is at 38,792 ms, later than the 38 s that the trace states: the next arrival
         * comes after the mean gap */
        second = next_ns(a);
        cr_assert_float_eq((double)second / 1e6, 38792.0 * 375 / 374, 0.01);
        ds_replay_arrivals_free(a);
        a = arrivals(TEST_DATA_DIR "/disb_real.json", "vgg19_rt", 2, 0);
        cr_assert_eq(next_ns(a), 0);
        cr_assert_eq(next_ns(a), 13 * MS / 2, "9 and 22 ms, from the first one on, twice as fast");
        for (int i = 2; i < 560; i++)
                next_ns(a);
        cr_assert_eq(next_ns(a), 19 * S, "38 s are a round");
        ds_replay_arrivals_free(a);
        a = arrivals(TEST_DATA_DIR "/apollo_inter_arrival_s.json", NULL, 1, 0);
        cr_assert_eq(next_ns(a), 0);
        cr_assert_eq(next_ns(a), 12 * MS);
        cr_assert_eq(next_ns(a), 85 * MS);
        ds_replay_arrivals_free(a);
        a = arrivals(TEST_DATA_DIR "/azure_llm_2023_conv.csv", NULL, 1, 0);
        azure = ds_replay_arrivals_next(a);
        cr_assert(azure.ns == 0 && azure.context_tokens == 374 && azure.generated_tokens == 44);
        azure = ds_replay_arrivals_next(a);
        cr_assert(azure.context_tokens == 396 && azure.generated_tokens == 109);
        cr_assert_float_eq((double)azure.ns / 1e9, 50.9951690 - 46.6805900, 1e-6);
        ds_replay_arrivals_free(a);
}

Test(replay, an_invalid_trace_is_reported)
{
        static const struct {
                const char *text, *id, *says;
        } wrong[] = {
                {"", NULL, "not a trace"},
                {"[]", NULL, "not a trace"},
                {"[1, two]", NULL, "not a trace"},
                {"[1, -2]", NULL, "not a trace"},
                {"3\n2\n", NULL, "not a trace"},
                {"1\nx\n", NULL, "not a trace"},
                {"TIMESTAMP,ContextTokens\n1,2\n", NULL, "not a trace"},
                {"{\"tasks\": [{\"id\": \"a\", \"load\": {}}]}", NULL, "name one of its tasks with id="},
                {"{\"tasks\": [{\"id\": \"a\", \"load\": {}}]}", "b", "no task 'b' in it"},
#define TASK_A "\"tasks\": [{\"id\": \"a\", \"load\": {\"trace\": [1, 2]}}]"
                {"{\"time\": nan, " TASK_A "}", "a", "10^9 seconds"},
                {"{\"time\": inf, " TASK_A "}", "a", "10^9 seconds"},
                {"{\"time\": -1, " TASK_A "}", "a", "10^9 seconds"},
                {"{\"time\": 1e300, " TASK_A "}", "a", "10^9 seconds"},
                {"[1, nan]", NULL, "not a trace"},
                {"[1e999]", NULL, "not a trace"},
                {"{\"tasks\": [{\"id\": \"a\"}, {\"id\": \"b\", \"load\": {\"trace\": [1]}}]}", "a", "closed loop"},
        };
        char path[] = "/tmp/detshare-replay-XXXXXX", message[256];
        ds_replay_arrivals *a = NULL;
        int fd = mkstemp(path);

        cr_assert_geq(fd, 0);
        for (size_t i = 0; i < DS_ARRAY_SIZE(wrong); i++) {
                cr_assert_eq(ftruncate(fd, 0), 0);
                cr_assert_eq(pwrite(fd, wrong[i].text, strlen(wrong[i].text), 0), (ssize_t)strlen(wrong[i].text));
                cr_assert_eq(ds_replay_arrivals_open(path, wrong[i].id, 1, 0, message, sizeof(message), &a),
                        DS_REPLAY_E_BAD_FILE, "%s", wrong[i].text);
                cr_assert(strstr(message, path) && strstr(message, wrong[i].says), "%s", message);
        }
        close(fd);
        unlink(path);
        cr_assert_eq(ds_replay_arrivals_open(path, NULL, 1, 0, message, sizeof(message), &a), DS_REPLAY_E_BAD_FILE);
        cr_assert_eq(
                ds_replay_arrivals_open("poisson:0", NULL, 1, 0, message, sizeof(message), &a), DS_REPLAY_E_BAD_RULE);
        cr_assert_null(a);
}

#ifdef __SANITIZE_ADDRESS__
#define LONG_TABLE_S 30.0
#else
#define LONG_TABLE_S 8.0
#endif

/* Reading a row must not take longer the more rows follow. The bound is processor time of this process. */
Test(replay, a_long_table_is_read_in_one_go, .timeout = 300)
{
        char path[] = "/tmp/detshare-replay-XXXXXX";
        FILE *f = fdopen(mkstemp(path), "w");
        ds_replay_arrivals *a;
        double seconds;
        clock_t begin;

        cr_assert(f);
        fprintf(f, "TIMESTAMP,ContextTokens,GeneratedTokens\n");
        for (int i = 0; i < 400000; i++)
                fprintf(f, "2023-11-%02d %02d:%02d:%02d.5,374,%d\n", 1 + i / 86400, i / 3600 % 24, i / 60 % 60, i % 60,
                        i);
        fclose(f);
        begin = clock();
        a = arrivals(path, NULL, 1, 0);
        seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        cr_expect_lt(seconds, LONG_TABLE_S, "%.1f s", seconds);
        unlink(path);
        for (int i = 0; i < 400000; i++)
                cr_assert_eq(ds_replay_arrivals_next(a).generated_tokens, (uint32_t)i);
        ds_replay_arrivals_free(a);
}

/* A text that ends behind "time" at the end of its memory: the address sanitizer notices a read one byte too far. */
Test(replay, a_time_that_is_cut_off)
{
        static const char text[] = "{" TASK_A ", \"time\"";
        char path[] = "/tmp/detshare-replay-XXXXXX";
        int fd = mkstemp(path);
        ds_replay_arrivals *a;

        cr_assert(fd >= 0 && write(fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1);
        close(fd);
        a = arrivals(path, "a", 1, 0);
        unlink(path);
        cr_assert_eq(next_ns(a), 0);
        cr_assert_eq(next_ns(a), MS);
        ds_replay_arrivals_free(a);
}

/* --- simulations --- */

static struct {
        struct ds_replay_session sessions[4];
        struct ds_replay_workload workloads[4];
        struct ds_replay_config config;
        struct ds_replay_result result;
        char policy_dir[4096];
} rig;

static void rig_init(const char *policy, uint64_t duration_ns)
{
        ssize_t n = readlink("/proc/self/exe", rig.policy_dir, sizeof(rig.policy_dir) - 32);

        cr_assert_gt(n, 0);
        rig.policy_dir[n] = 0;
        for (int i = 0; i < 3; i++)
                *strrchr(rig.policy_dir, '/') = 0;
        strcat(rig.policy_dir, "/policies");
        rig.config = (struct ds_replay_config){.device = "sim:h200",
                .policy_dir = rig.policy_dir,
                .policy_any_owner = 1,
                .policy = policy,
                .sessions = rig.sessions,
                .duration_ns = duration_ns};
}

static struct ds_replay_workload *workload(size_t i, const char *text)
{
        char error[256] = "";

        rig.workloads[i] = (struct ds_replay_workload){.text = (char *)text, .size = strlen(text)};
        cr_assert_eq(
                sim_profile_parse(text, strlen(text), error, sizeof(error), &rig.workloads[i].profile), 0, "%s", error);
        return &rig.workloads[i];
}

static struct ds_replay_session *session(
        const struct ds_replay_workload *w, enum detshare_class class_, const char *rule, uint64_t seed)
{
        struct ds_replay_session *s = &rig.sessions[rig.config.n_sessions++];

        *s = (struct ds_replay_session){.class_ = class_,
                .workload = {w},
                .queue = DS_REPLAY_QUEUE,
                .sm_percent = 100,
                .arrivals = arrivals(rule, NULL, 1, seed)};
        snprintf(s->name, sizeof(s->name), "s%u", rig.config.n_sessions);
        return s;
}

static void rig_run(void)
{
        char message[256] = "";

        cr_assert_eq(ds_replay_run(&rig.config, message, sizeof(message), &rig.result), 0, "%s", message);
        cr_assert_eq(rig.result.fallbacks, 0);
}

static void rig_free(void)
{
        for (uint32_t i = 0; i < rig.config.n_sessions; i++)
                ds_replay_arrivals_free(rig.sessions[i].arrivals);
        for (size_t i = 0; i < DS_ARRAY_SIZE(rig.workloads); i++)
                sim_profile_free(rig.workloads[i].profile);
}

#define TEN "detshare-profile 1\nsms 132\nkernel k grid=264 block=1024 ns=9300\n"

Test(replay, a_closed_loop_alone_is_its_kernels_and_the_gaps_between_them)
{
        rig_init("fifo", S / 10);
        session(workload(0, TEN), DETSHARE_CLASS_BE, "closed", 0);
        rig_run();
        /* each kernel runs 9.3 us, and the next one begins 0.7 us after it; the first launch needs 4 us to arrive,
         * and the client notices an end 2.2 us later */
        cr_assert_eq(rig.result.sessions[0].ended, 9999);
        cr_assert_float_eq((double)rig.result.busy_ns / 1e9, 0.093, 1e-5);
        cr_assert_eq(rig.result.sessions[0].p50_ns, 10 * US);
        cr_assert_eq(rig.result.kernels, 9999);
        rig_free();
}

Test(replay, a_request_alone_takes_its_way_its_kernels_and_the_way_back)
{
        rig_init("fifo", S);
        session(workload(0, TEN), DETSHARE_CLASS_LS, "uniform:1000", 0)->slo_ns = 20 * US;
        rig_run();
        cr_assert_eq(rig.result.sessions[0].arrived, 999, "the one at the end does not count");
        cr_assert_eq(rig.result.sessions[0].ended, 999);
        cr_assert_eq(rig.result.sessions[0].p50_ns, 4000 + 9300 + 2200);
        cr_assert_eq(rig.result.sessions[0].max_ns, 4000 + 9300 + 2200);
        cr_assert_eq(rig.result.sessions[0].in_slo, 999);
        rig_free();
}

/* A step of 15.5 us and 84.5 us of thinking: 10,000 steps a second. The first one begins at once. */
Test(replay, a_decode_loop_thinks_between_its_steps)
{
        struct ds_replay_session *loop;

        rig_init("fifo", S / 10);
        loop = session(workload(0, TEN), DETSHARE_CLASS_LS, "closed", 0);
        loop->think_ns = 84500;
        rig_run();
        cr_assert_eq(rig.result.sessions[0].ended, 1000);
        cr_assert_eq(rig.result.sessions[0].max_ns, 4000 + 9300 + 2200);
        rig_free();
}

Test(replay, a_server_that_cannot_keep_up_falls_behind)
{
        rig_init("fifo", S);
        session(workload(0, TEN), DETSHARE_CLASS_LS, "uniform:100000", 0)->slo_ns = 20 * US;
        rig_run();
        cr_assert_geq(rig.result.sessions[0].arrived, 99998);
        /* the requests run one after the other, 15.5 us each, and the server takes the next one 10 us later */
        cr_assert(abs((int)rig.result.sessions[0].ended - 1000000 * 10 / 255) < 3, "%llu",
                (unsigned long long)rig.result.sessions[0].ended);
        cr_assert_lt(rig.result.sessions[0].in_slo, 5);
        cr_assert_gt(rig.result.sessions[0].max_ns, 300 * MS);
        rig_free();
}

Test(replay, a_request_of_tokens_is_part_of_a_prefill_and_a_step_per_token)
{
        static const char prefill[] = "detshare-profile 1\nsms 132\nsamples 1000\n"
                                      "kernel a grid=1 block=32 ns=1000\nkernel b grid=1 block=32 ns=1000\n";
        struct ds_replay_session *s;
        char path[] = "/tmp/detshare-replay-XXXXXX";
        int fd = mkstemp(path);

        cr_assert_geq(fd, 0);
        cr_assert_gt(dprintf(fd, "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                 "2023-11-16 18:15:00.0,400,7\n2023-11-16 18:15:00.5,2100,0\n"
                                 "2023-11-16 18:15:10.0,1,1\n"),
                0);
        rig_init("fifo", S);
        s = session(workload(0, prefill), DETSHARE_CLASS_LS, path, 0);
        s->workload[1] = workload(1, TEN);
        rig_run();
        cr_assert_eq(rig.result.sessions[0].ended, 2);
        /* the model has two kernels for 1,000 tokens: one for 400 tokens, five for 2,100; and seven for the
         * generated tokens */
        cr_assert_eq(rig.result.sessions[0].kernels, 1 + 7 + 5);
        rig_free();
        close(fd);
        unlink(path);
}

Test(replay, policies_differ_where_they_must)
{
        static const char blocks[] = "detshare-profile 1\nsms 132\nkernel long grid=26400 block=1024 ns=20000000\n";
        static const char small[] = "detshare-profile 1\nsms 132\nkernel k grid=16 block=256 regs=32 ns=1600\n";
        static const char *const policies[] = {"fifo", "multistream", "static"};
        uint64_t p50[3];

        for (int i = 0; i < 3; i++) {
                rig_init(policies[i], 4 * S);
                session(workload(0, small), DETSHARE_CLASS_LS, "poisson:20", 1);
                session(workload(1, blocks), DETSHARE_CLASS_BE, "closed", 2);
                rig_run();
                p50[i] = rig.result.sessions[0].p50_ns;
                rig_free();
        }
        cr_assert_gt(p50[0], 5 * MS, "behind all blocks of a kernel that came before");
        /* under multistream LS waits for a quarter of a BE block of 200 us */
        cr_assert_eq(p50[1], 4000 + 50 * US + 1600 + 2200);
        cr_assert_eq(p50[2], 4000 + 1600 + 2200, "nobody there");
}

/* A BE kernel of ten waves of 0.5 ms runs beside LS requests of 100 kernels, with and without eviction. */
Test(replay, long_kernels_can_be_evicted)
{
        static const char slab[] = "detshare-profile 1\nsms 132\nkernel slab grid=2640 block=1024 regs=32 ns=5000000\n";
        static char small[100 * 64];
        struct ds_replay_result results[2];
        size_t at = (size_t)sprintf(small, "detshare-profile 1\nsms 132\n");

        for (int i = 0; i < 100; i++)
                at += (size_t)sprintf(small + at, "kernel k%d grid=56 block=256 regs=32 ns=4000\n", i);
        for (int evict = 0; evict < 2; evict++) {
                rig_init("detshare", 300 * MS);
                rig.config.params[rig.config.n_params++] = evict ? "evict=1" : "evict=0";
                rig.config.profiled = rig.config.transform = 1;
                session(workload(0, small), DETSHARE_CLASS_LS, "poisson:100", 1);
                session(workload(1, slab), DETSHARE_CLASS_BE, "closed", 2);
                rig_run();
                results[evict] = rig.result;
                rig_free();
        }
        cr_assert_eq(results[0].evictions, 0);
        cr_assert_geq(results[1].evictions, 5);
        cr_assert_gt(results[1].sessions[1].ended * 10, results[0].sessions[1].ended * 11);
        cr_assert_leq(results[1].sessions[0].p99_ns, 2 * results[0].sessions[0].p99_ns);
}

/* LS reads 24 MB in 10 us on half of the SMs; the job on the other half demands more bandwidth than there is. */
#define READS "detshare-profile 1\nsms 132\nkernel r grid=264 block=256 ns=10000 block_ns=10000 bytes=24000000 bound="
#define FLOOD                                                                                                 \
        "detshare-profile 1\nsms 132\nkernel f grid=5280 block=256 ns=300000 block_ns=10000 bytes=528000000 " \
        "written=1000 bound=memory\n"

static struct ds_replay_session_result beside_flood(const char *reads, uint32_t be_channels, uint64_t *ret_flooded)
{
        struct ds_replay_session_result result;

        rig_init("static", 40 * MS);
        rig.config.device = "sim:h200+apart";
        rig.config.blocks = 1;
        rig.config.be_channels = be_channels;
        rig.workloads[0] = (struct ds_replay_workload){.text = NULL};
        if (reads)
                session(workload(0, reads), DETSHARE_CLASS_LS, "closed", 1);
        session(workload(1, FLOOD), DETSHARE_CLASS_BE, "closed", 2)->queue = 4;
        rig_run();
        result = rig.result.sessions[0];
        *ret_flooded = rig.result.sessions[rig.config.n_sessions - 1].kernels;
        rig_free();
        return result;
}

Test(replay, channels_are_divided_while_both_have_work)
{
        uint64_t shared_be, divided_be, alone_be[2];
        const struct ds_replay_session_result shared = beside_flood(READS "memory\n", 0, &shared_be);
        const struct ds_replay_session_result divided = beside_flood(READS "memory\n", 15, &divided_be);
        const struct ds_replay_session_result elsewhere = beside_flood(READS "compute\n", 15, &divided_be);

        cr_assert_gt(shared.ended, 100);
        cr_assert_lt(divided.p99_ns * 5, shared.p99_ns * 4, "in channels of its own");
        cr_assert_gt(elsewhere.p99_ns, divided.p99_ns, "what is not memory-bound stays in all channels, the job's too");
        cr_assert_lt(divided_be, shared_be);
        (void)beside_flood(NULL, 0, &alone_be[0]);
        (void)beside_flood(NULL, 15, &alone_be[1]);
        cr_assert_eq(alone_be[0], alone_be[1], "nobody else: all channels");
}

Test(replay, nobody_starves_among_equals)
{
        static const char *const names[] = {"resnet152-train", "densenet161-b64", "bert-base-b64", "llama-1b-decode"};
        struct ds_replay_workload *w[4] = {};
        char message[256] = "";

        rig_init("fifo", S);
        for (int i = 0; i < 4; i++) {
                cr_assert_eq(ds_replay_workload_open(names[i], 132, message, sizeof(message), &w[i]), 0);
                session(w[i], DETSHARE_CLASS_BE, "closed", 0);
        }
        rig_run();
        for (int i = 0; i < 4; i++)
                cr_assert_gt(rig.result.sessions[i].ended, 5, "%s", names[i]);
        rig_free();
        for (int i = 0; i < 4; i++)
                ds_replay_workload_free(w[i]);
}

static void traced(uint64_t seed, int json, char **ret_text, size_t *ret_size)
{
        struct ds_replay_workload *small = NULL, *large = NULL;
        char message[256] = "";

        cr_assert_eq(ds_replay_workload_open("resnet34-b1", 132, message, sizeof(message), &small), 0);
        cr_assert_eq(ds_replay_workload_open("resnet152-train", 132, message, sizeof(message), &large), 0);
        rig_init("multistream", 100 * MS);
        session(small, DETSHARE_CLASS_LS, "poisson:200", seed);
        session(large, DETSHARE_CLASS_BE, "closed", seed);
        rig.config.trace = open_memstream(ret_text, ret_size);
        rig.config.trace_json = json;
        rig_run();
        fclose(rig.config.trace);
        rig_free();
        ds_replay_workload_free(small);
        ds_replay_workload_free(large);
}

Test(replay, the_same_seed_gives_the_same_trace_byte_for_byte)
{
        for (int json = 0; json < 2; json++) {
                char *text[3] = {};
                size_t size[3];

                traced(1, json, &text[0], &size[0]);
                traced(1, json, &text[1], &size[1]);
                traced(2, json, &text[2], &size[2]);
                cr_assert_gt(size[0], 50000);
                cr_assert(size[0] == size[1] && !memcmp(text[0], text[1], size[0]));
                cr_assert(size[0] != size[2] || memcmp(text[0], text[2], size[0]) != 0);
                for (int i = 0; i < 3; i++)
                        free(text[i]);
        }
}

/* The n-th allocation fails, for every n: the replay returns an error and leaks nothing (the sanitized run shows),
 * and the next run succeeds. */
Test(replay, lack_of_memory_is_reported)
{
        struct ds_replay_workload *w = NULL;
        char message[256] = "", *text = NULL;
        int r = -ENOMEM;

        for (int n = 0; r; n++) {
                ds_alloc_fail_after(n);
                r = ds_replay_workload_open("resnet34-b1", 132, message, sizeof(message), &w);
                if (!r) {
                        ds_alloc_fail_after(-1);
                        ds_replay_workload_free(w);
                }
                cr_assert(!r || r == -ENOMEM, "%d: %d %s", n, r, message);
        }
        r = -ENOMEM;
        for (int n = 0; r; n++) {
                ds_alloc_fail_after(n);
                r = ds_replay_convert("t.csv", table, sizeof(table) - 1, 132, message, sizeof(message), &text);
                cr_assert(!r || r == -ENOMEM, "%d: %d %s", n, r, message);
        }
        ds_alloc_fail_after(-1);
        free(text);
        rig_init("multistream", 10 * MS);
        session(workload(0, TEN), DETSHARE_CLASS_LS, "uniform:10000", 0);
        session(workload(1, TEN), DETSHARE_CLASS_BE, "closed", 0);
        r = -ENOMEM;
        for (int n = 0; r; n++) {
                ds_alloc_fail_after(n);
                r = ds_replay_run(&rig.config, message, sizeof(message), &rig.result);
                cr_assert(!r || r < 0 || r == DS_REPLAY_E_BAD_FILE, "%d: %d %s", n, r, message);
                cr_assert(n < 3000);
        }
        ds_alloc_fail_after(-1);
        rig_run();
        cr_assert_gt(rig.result.kernels, 1000);
        rig_free();
}

Test(replay, an_impossible_simulation_is_reported)
{
        static const char other[] = "detshare-profile 1\nsms 26\nkernel k grid=1 block=32 ns=1000\n";
        char message[256] = "";

        rig_init("fifo", MS);
        session(workload(0, other), DETSHARE_CLASS_LS, "uniform:1000", 0);
        cr_assert_eq(ds_replay_run(&rig.config, message, sizeof(message), &rig.result), DS_REPLAY_E_BAD_FILE);
        cr_assert(strstr(message, "26 SMs"), "%s", message);
        rig.config.device = "sim:h300";
        cr_assert_eq(ds_replay_run(&rig.config, message, sizeof(message), &rig.result), DS_REPLAY_E_BAD_DEVICE);
        rig.config.device = "cuda:0";
        cr_assert_eq(ds_replay_run(&rig.config, message, sizeof(message), &rig.result), DS_REPLAY_E_BAD_DEVICE);
        rig.config.device = "sim:h200";
        rig.config.policy = "none";
        cr_assert_eq(ds_replay_run(&rig.config, message, sizeof(message), &rig.result), DS_REPLAY_E_BAD_POLICY);
        rig.config.policy = "fifo";
        rig.config.params[0] = "depth=0";
        rig.config.n_params = 1;
        cr_assert_eq(ds_replay_run(&rig.config, message, sizeof(message), &rig.result), DS_REPLAY_E_BAD_POLICY);
        cr_assert(strstr(message, "depth"), "%s", message);
        rig_free();
}
