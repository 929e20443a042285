/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the cuda device through the device vtable, on the GPU of this machine
 *
 * It runs the bodies of the simulated device (device_common.h), each in a process of its own with a time limit, and
 * bodies for properties of a real context: a fault ends it for good. Left out are bodies that need an abort of one
 * kernel alone (endless, abort, close_busy), spaces that kernels cannot leave (isolation, faults), or PTX text, which
 * the helper compiles (module_errors).
 *
 * usage: device_cuda [NAME...]        NAME: of a body; default: all. Device: DETSHARE_TEST_DEVICE, else cuda:0
 */
#define DT_PLAIN
#define DT_BOUND_LOOPS 40000u /* many loops, so that the launch itself does not dominate the time */
#define DT_FORM_LOOPS 20000u
#include "tests/gpu/device_common.h"
#include "tests/gpu/device_forms_crowd.h"
#include "tests/gpu/device_graph.h"
#include "tests/gpu/device_hopper.h"
#include "tests/gpu/device_rungs.h"

#include <signal.h>
#include <sys/wait.h>

#define SECONDS 60 /* time limit of one body, s */

/* After a fault the context is lost: work in flight ends with an error, nothing can be submitted, device memory
 * stays. */
static void test_lost(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        struct ds_launch null = dt_launch_of(t, module, "null", 1, 32);
        uint64_t bad, behind[4];
        size_t n = 0;

        cr_assert_eq(ops->lost(t->device), 0);
        dt_ok(t, dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA, 1));
        bad = dt_poke(t, module, "poke", t->stream, 0xdead0000, 1);
        /* submits work until the device reports the fault */
        for (; n < DS_ARRAY_SIZE(behind); n++) {
                behind[n] = dt_token(t);
                if (ops->launch(t->device, &null, behind[n])) {
                        t->next_token--;
                        break;
                }
        }
        dt_wait_all(t);
        cr_assert_eq(t->seen[bad].status, DS_CUDA_ILLEGAL_ADDRESS, "status %d", t->seen[bad].status);
        for (size_t i = 0; i < n; i++)
                cr_assert_neq(t->seen[behind[i]].status, 0);
        cr_assert_eq(ops->lost(t->device), DS_CUDA_ILLEGAL_ADDRESS);
        cr_assert_neq(ops->launch(t->device, &null, dt_token(t)), 0, "a lost context accepts work");
}

/* Loading a module again after unloading it does not stop the device. */
static void test_cached(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        size_t size;
        void *image = dt_image(t, DT_PTX, &size);
        ds_device_module *module = NULL;
        char log[1000] = "";

        cr_assert_eq(ops->module_cached(t->device, image, size), 0);
        for (int i = 0; i < 3; i++) {
                cr_assert_eq(ops->module_load(t->device, DT_SPACE, image, size, log, sizeof(log), &module), 0);
                dt_ok(t, dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA, 1));
                cr_assert_null(ops->module_unload(t->device, module));
                cr_assert_eq(ops->module_cached(t->device, image, size), 1);
        }
        free(image);
        dt_close(t);
}

static void test_bad_image(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = NULL;
        char log[1000] = "";

        cr_assert_eq(
                ops->module_load(t->device, DT_SPACE, "\1\2\3\4", 4, log, sizeof(log), &module), DS_CUDA_INVALID_IMAGE);
        cr_assert(log[0], "no words");
        cr_assert_null(module);
        dt_close(t);
}

#define PTX_PRESENT                                                                                         \
        ".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry present(.param .u64 p)\n{\n"        \
        " .reg .pred %q; .reg .b32 %r<5>; .reg .b64 %rd<5>;\n ld.param.u64 %rd1, [p];\n"                    \
        " atom.global.add.u32 %r1, [%rd1], 1;\n add.u32 %r2, %r1, 1;\n red.global.max.u32 [%rd1+4], %r2;\n" \
        " mov.u64 %rd2, %globaltimer;\nAGAIN:\n mov.u64 %rd3, %globaltimer;\n sub.u64 %rd4, %rd3, %rd2;\n"  \
        " setp.lt.u64 %q, %rd4, 200000;\n @%q bra AGAIN;\n red.global.add.u32 [%rd1], -1;\n ret;\n}\n"

/* On 32 SMs and on all SMs, with bounds: the kernels count their resident blocks themselves. */
static void test_bound_counted(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, PTX_PRESENT);
        struct ds_tpc_mask part = dt_mask(0, DS_MIN(16u, ops->info(t->device)->n_tpcs));
        volatile uint32_t *there = (volatile uint32_t *)DT_HOST_VA;
        uint64_t counters = DT_DEVICE_VA;
        uint32_t rung, sms;

        cr_assert_eq(ops->rung_create(t->device, &part, &rung), 0);
        for (int all = 0; all < 2; all++) {
                const uint32_t on = all ? t->rung : rung;

                sms = ops->rung_info(t->device, on)->n_sms;
                for (uint32_t bound = sms == 32 ? 33 : sms; bound <= 8 * sms; bound *= 2) {
                        struct ds_launch l = dt_launch_of(t, module, "present", 16 * sms, 1);

                        dt_poke(t, dt_load(t, DT_PTX), "poke", t->stream, DT_DEVICE_VA, 0);
                        dt_poke(t, dt_load(t, DT_PTX), "poke", t->stream, DT_DEVICE_VA + 4, 0);
                        dt_wait_all(t);
                        l.stream = ds_device_stream(on, 1, 0);
                        l.params = &counters;
                        l.params_size = 8;
                        l.max_resident_blocks = bound;
                        dt_ok(t, dt_launch(t, &l));
                        dt_ok(t, dt_copy(t, l.stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 8));
                        printf("%u SMs, at most %u blocks: got %u\n", sms, bound, there[1]);
                        cr_assert(there[1] <= bound && there[1] >= bound / sms * sms);
                }
        }
        dt_close(t);
}

#define CHAIN 200u

/* Wall time per kernel of a chain of short kernels that alternates between two streams; checks the final value. */
static double chain_us(struct dt *t, ds_device_module *module, const uint32_t streams[2])
{
        volatile uint32_t *host = (uint32_t *)DT_HOST_VA;
        uint32_t want = 1, last = streams[0];
        uint64_t begin, end;

        dt_ok(t, dt_poke(t, module, "poke", last, DT_DEVICE_VA, 1));
        begin = dt_wall_ns();
        for (uint32_t i = 0; i < CHAIN; i++) {
                const uint32_t next = streams[i % 2];

                if (next != last)
                        cr_assert_eq(t->ops->fence(t->device, last, next), 0);
                dt_poke(t, module, "step", next, DT_DEVICE_VA, i);
                want = want * 3 + i;
                last = next;
        }
        dt_wait_all(t);
        end = dt_wall_ns();
        dt_ok(t, dt_copy(t, last, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 4));
        cr_assert_eq(host[0], want);
        return (double)(end - begin) / 1e3 / CHAIN;
}

/* Prints the cost of a chain in which every kernel runs on another rung than its predecessor; checks the result. */
static void test_migration(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        struct ds_tpc_mask half = dt_mask(0, DS_MAX(1u, ops->info(t->device)->n_tpcs / 2));
        double stays = 1e9, moves = 1e9, best = 1e9;
        uint32_t rung;

        cr_assert_eq(ops->rung_create(t->device, &half, &rung), 0);
        for (int i = 0; i < 4; i++) {
                const uint32_t one = ds_device_stream(t->rung, 0, 0), other = ds_device_stream(rung, 0, 0);

                stays = DS_MIN(stays, chain_us(t, module, (uint32_t[2]){one, one}));
                best = DS_MIN(best, chain_us(t, module, (uint32_t[2]){other, other}));
                moves = DS_MIN(moves, chain_us(t, module, (uint32_t[2]){one, other}));
        }
        printf("a chain's kernel: %.2f us on all SMs, %.2f us on half of them, %.2f us when each migrates; %.2f us per "
               "a "
               "migration\n",
                stays, best, moves, moves - DS_MAX(stays, best));
        dt_close(t);
}

static const struct {
        const char *name;
        void (*run)(const struct ds_device_ops *ops, const char *spec);
} tests[] = {
        {"info", dt_test_info},
        {"rungs", dt_test_rungs},
        {"spaces", dt_test_spaces},
        {"memory", dt_test_memory},
        {"copy_2d", dt_test_copy_2d},
        {"memset", dt_test_memset},
        {"memory_errors", dt_test_memory_errors},
        {"slab_survives", dt_test_slab_survives},
        {"module", dt_test_module},
        {"kernel_facts", dt_test_kernel_facts},
        {"kernel_hash", dt_test_kernel_hash},
        {"cached", test_cached},
        {"bad_image", test_bad_image},
        {"launch_errors", dt_test_launch_errors},
        {"saxpy", dt_test_saxpy},
        {"zero_copy", dt_test_zero_copy},
        {"stream_order", dt_test_stream_order},
        {"graph", dt_test_graph},
        {"graph_freed", dt_test_graph_freed},
        {"graph_taken", dt_test_graph_taken},
        {"graph_refused", dt_test_graph_refused},
        {"graph_branches", dt_test_graph_branches},
        {"fences", dt_test_fences},
        {"globals", dt_test_globals},
        {"clock", dt_test_clock},
        {"unmap_under_work", dt_test_unmap_under_work},
        {"clusters", dt_test_clusters},
        {"groups", dt_test_groups},
        {"ladder", dt_test_ladder},
        {"bound", dt_test_bound},
        {"bound_counted", test_bound_counted},
        {"migration", test_migration},
        {"tensor_maps", dt_test_tensor_maps},
        {"forms_equal", dt_test_forms_equal},
        {"forms_refused", dt_test_forms_refused},
        {"forms_evict", dt_test_forms_evict},
        {"forms_early_and_late", dt_test_forms_evict_early_and_late},
        {"forms_many", dt_test_forms_many},
        {"forms_session_goes", dt_test_forms_session_goes},
        {"forms_made", dt_test_forms_made},
        {"forms_evict_behind", dt_test_forms_evict_behind},
        {"forms_again_and_again", dt_test_forms_again_and_again},
        {"forms_sessions_go", dt_test_forms_sessions_go},
        {"lost", test_lost},
};

/* Runs body i in a child process. Returns 1 when it passes. */
static int in_child(size_t i, const struct ds_device_ops *ops, const char *spec)
{
        int status;
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                alarm(SECONDS);
                tests[i].run(ops, spec);
                fflush(stdout);
                _exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return 0;
        if (WIFSIGNALED(status))
                printf("signal %d%s\n", WTERMSIG(status), WTERMSIG(status) == SIGALRM ? ": it took too long" : "");
        return status == 0;
}

static int wanted(const char *name, int argc, char **argv)
{
        for (int i = 1; i < argc; i++)
                if (!strcmp(argv[i], name))
                        return 1;
        return argc == 1;
}

int main(int argc, char **argv)
{
        const char *device = getenv("DETSHARE_TEST_DEVICE"), *spec;
        const struct ds_device_ops *ops = ds_device_find(device && device[0] ? device : "cuda:0", &spec);
        unsigned passed = 0, failed = 0;

        if (!ops)
                return 2;
        for (size_t i = 0; i < DS_ARRAY_SIZE(tests); i++) {
                int ok;

                if (!wanted(tests[i].name, argc, argv))
                        continue;
                ok = in_child(i, ops, spec);
                printf("%s %s\n", ok ? "ok  " : "FAIL", tests[i].name);
                passed += ok != 0;
                failed += ok == 0;
        }
        printf("%u passed, %u failed\n", passed, failed);
        return failed || !passed;
}
