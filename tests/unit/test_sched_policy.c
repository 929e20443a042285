/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy host: loading and refusing plug-ins, good and bad decisions, switching, fallback, snapshots
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/unit/sched_device.h"

#define US 1000ULL
#define MS 1000000ULL
#define TEST_POLICIES "tests/policies"

static struct harness h;
static char message[256];

static void teardown(void)
{
        if (h.sched)
                harness_assert_clean(&h);
        harness_close(&h);
}

static void setup(void)
{
        cr_assert_eq(harness_open(&h, 8, TEST_POLICIES, "fifo"), 0);
}

TestSuite(sched_policy, .init = setup, .fini = teardown);

static int set_policy(const char *name, const char *param)
{
        return ds_sched_set_policy(h.sched, name, &param, param ? 1 : 0, harness_now(&h), message, sizeof(message));
}

/* --- the probe: a policy whose decisions this test makes ---------------------------------------------------------- */

typedef int (*probe_fn)(const struct detshare_snapshot *snapshot, struct detshare_decision *decision);
static probe_fn probe;
static uint32_t probe_events[256], probe_n;

__attribute__((__visibility__("default"))) int probe_decide(
        void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision);

int probe_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        if (probe_n < 256)
                probe_events[probe_n++] = snapshot->event;
        return probe ? probe(snapshot, decision) : 0;
}

static void probe_start(probe_fn fn)
{
        probe = fn;
        probe_n = 0;
        cr_assert_eq(set_policy("probe", NULL), 0, "%s", message);
}

static struct detshare_action *push(
        struct detshare_decision *decision, uint32_t kind, uint64_t coroutine, uint32_t rung)
{
        struct detshare_action *action = &decision->actions[decision->n++];

        *action = (struct detshare_action){.kind = kind, .coroutine = coroutine, .rung = rung, .count = 1};
        return action;
}

/* --- loading ------------------------------------------------------------------------------------------------------ */

Test(sched_policy, refuses_unusable_plugins)
{
        static const char *const names[] = {"bad-abi", "bad-size", "bad-null", "bad-noname", "bad-name", "bad-init",
                "bad-state", "bad-params", "bad-symbol"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                message[0] = 0;
                cr_assert_eq(set_policy(names[i], NULL), DS_SCHED_E_REFUSED, "%s", names[i]);
                cr_assert_str_not_empty(message);
                cr_assert_str_eq(harness_stats(&h).policy, "fifo");
        }
}

Test(sched_policy, names_are_checked_before_they_become_paths)
{
        static const char *const names[] = {"", "../policies/edf", "edf.so", "EDF", "a/b", "nobody-wrote-this-one",
                "a-name-that-is-longer-than-any-name-may-be"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                message[0] = 0;
                cr_assert_eq(set_policy(names[i], NULL), DS_SCHED_E_NO_POLICY, "%s", names[i]);
                cr_assert_str_not_empty(message);
        }
}

Test(sched_policy, parameters_are_checked)
{
        static const char *const bad[] = {"seed", "seed=", "seed=x", "seed=0", "seed=5x", "sed=1", "=1",
                "seed=99999999999999999999999", "seeds=4"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(bad); i++) {
                message[0] = 0;
                cr_assert_eq(set_policy("chaos", bad[i]), DS_SCHED_E_BAD_PARAM, "%s", bad[i]);
                cr_assert_str_not_empty(message);
                cr_assert_str_eq(harness_stats(&h).policy, "fifo");
        }
        cr_assert_eq(set_policy("chaos", "seed=5"), 0);
        cr_assert_str_eq(harness_stats(&h).policy, "chaos");
        cr_assert_eq(set_policy("fifo", "depth=3"), 0);
}

Test(sched_policy, lists_loadable_policies)
{
        struct ds_policy_listing list[64];
        size_t n = ds_sched_list_policies(h.sched, list, 64);
        int edf = 0;

        cr_assert_geq(n, 4);
        cr_assert_str_eq(list[0].name, "fifo");
        cr_assert_eq(list[0].active, 1);
        cr_assert_str_eq(list[0].params, "depth=16 [1..1024]: operations of one coroutine on the device at once");
        for (size_t i = 1; i < n; i++) {
                cr_assert_eq(list[i].active, 0);
                /* the plug-in bad-init loads, and fails only when it becomes the active policy */
                cr_assert(strncmp(list[i].name, "bad-", 4) || !strcmp(list[i].name, "bad-init"), "%s", list[i].name);
                edf += !strcmp(list[i].name, "edf");
                cr_assert(i == 1 || strcmp(list[i - 1].name, list[i].name) < 0);
        }
        cr_assert_eq(edf, 1);
        cr_assert_eq(ds_sched_list_policies(h.sched, NULL, 0), n);
        memset(list, 0, sizeof(list));
        cr_assert_eq(ds_sched_list_policies(h.sched, list, 2), n);
        cr_assert_str_not_empty(list[1].name);
        cr_assert_str_empty(list[2].name);
}

static void copy_file(const char *from, const char *to)
{
        char buffer[65536];
        int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
        ssize_t n;

        cr_assert(in >= 0 && out >= 0);
        while ((n = read(in, buffer, sizeof(buffer))) > 0)
                cr_assert_eq(write(out, buffer, (size_t)n), n);
        close(in);
        close(out);
        cr_assert_eq(chmod(to, 0755), 0);
}

Test(sched_policy, loads_only_from_where_nobody_else_can_write)
{
        char dir[] = "/tmp/detshare-policy-XXXXXX", file[64], link_[64], from[4096];
        struct ds_plugin_place place = {.dir = dir};
        ds_plugin *plugin = NULL;

        cr_assert_not_null(mkdtemp(dir));
        snprintf(file, sizeof(file), "%s/edf.so", dir);
        snprintf(link_, sizeof(link_), "%s/orion.so", dir);
        snprintf(from, sizeof(from), "%s", build_path(TEST_POLICIES "/edf.so"));
        copy_file(from, file);
        cr_assert_eq(ds_plugin_open(&place, "edf", message, sizeof(message), &plugin), 0, "%s", message);
        ds_plugin_close(plugin);

        cr_assert_eq(chmod(file, 0775), 0);
        cr_assert_eq(ds_plugin_open(&place, "edf", message, sizeof(message), &plugin), DS_SCHED_E_REFUSED);
        cr_assert_not_null(strstr(message, "writable by others"));
        place.trust_any_owner = 1;
        cr_assert_eq(ds_plugin_open(&place, "edf", message, sizeof(message), &plugin), 0);
        ds_plugin_close(plugin);
        place.trust_any_owner = 0;
        cr_assert_eq(chmod(file, 0755), 0);

        cr_assert_eq(chmod(dir, 0777), 0);
        cr_assert_eq(ds_plugin_open(&place, "edf", message, sizeof(message), &plugin), DS_SCHED_E_REFUSED);
        cr_assert_eq(chmod(dir, 0755), 0);

        /* the plug-in itself must be in the folder, not a link to another place */
        cr_assert_eq(symlink(from, link_), 0);
        cr_assert_eq(ds_plugin_open(&place, "orion", message, sizeof(message), &plugin), DS_SCHED_E_REFUSED);
        unlink(link_);
        cr_assert_eq(mkfifo(link_, 0600), 0);
        cr_assert_eq(ds_plugin_open(&place, "orion", message, sizeof(message), &plugin), DS_SCHED_E_REFUSED);
        unlink(link_);

        if (geteuid() == 0) {
                cr_assert_eq(chown(file, 12345, 12345), 0);
                cr_assert_eq(ds_plugin_open(&place, "edf", message, sizeof(message), &plugin), DS_SCHED_E_REFUSED);
                cr_assert_not_null(strstr(message, "another user"));
        } else {
                skip_part("root, for a policy that belongs to another user");
        }
        unlink(file);
        rmdir(dir);
        cr_assert_eq(ds_plugin_open(&place, "edf", message, sizeof(message), &plugin), DS_SCHED_E_REFUSED);
        cr_assert_eq(ds_plugin_open(&place, "fifo", message, sizeof(message), &plugin), 0, "always there");
        ds_plugin_close(plugin);
}

/* The first directory with a file of that name decides. */
Test(sched_policy, searches_directories_in_order)
{
        char one[] = "/tmp/detshare-policy-XXXXXX", two[] = "/tmp/detshare-policy-XXXXXX", file[64], other[64],
             from[4096];
        struct ds_plugin_place second = {.dir = two}, place = {.dir = one, .next = &second};
        struct ds_policy_listing list[8];
        ds_plugin *plugin = NULL;

        cr_assert_not_null(mkdtemp(one));
        cr_assert_not_null(mkdtemp(two));
        snprintf(from, sizeof(from), "%s", build_path(TEST_POLICIES "/edf.so"));
        snprintf(file, sizeof(file), "%s/edf.so", one);
        snprintf(other, sizeof(other), "%s/edf.so", two);
        copy_file(from, other);
        cr_assert_eq(ds_plugin_open(&place, "edf", message, sizeof(message), &plugin), 0, "%s", message);
        ds_plugin_close(plugin);
        cr_assert_eq(ds_plugin_list(&place, list, 8), 2, "fifo and edf");
        cr_assert_str_eq(list[1].name, "edf");
        cr_assert_eq(ds_plugin_open(&place, "orion", message, sizeof(message), &plugin), DS_SCHED_E_NO_POLICY);

        copy_file(from, file);
        cr_assert_eq(ds_plugin_list(&place, list, 8), 2, "the same name once");
        cr_assert_eq(chmod(file, 0775), 0);
        cr_assert_eq(ds_plugin_open(&place, "edf", message, sizeof(message), &plugin), DS_SCHED_E_REFUSED);
        cr_assert_not_null(strstr(message, one), "%s", message);
        /* other users may write to the directory, so no file in it counts */
        cr_assert_eq(chmod(one, 0777), 0);
        cr_assert_eq(ds_plugin_open(&place, "edf", message, sizeof(message), &plugin), 0, "%s", message);
        ds_plugin_close(plugin);
        unlink(file);
        rmdir(one);
        cr_assert_eq(ds_plugin_open(&place, "edf", message, sizeof(message), &plugin), 0, "%s", message);
        ds_plugin_close(plugin);
        unlink(other);
        rmdir(two);
        cr_assert_eq(ds_plugin_open(&place, "edf", message, sizeof(message), &plugin), DS_SCHED_E_REFUSED);
}

/* The loader caches files by path: a reused descriptor number must not return the old plug-in. */
Test(sched_policy, loading_again_and_again_gets_the_right_one)
{
        static const char *const names[] = {"chaos", "chaos", "edf", "edf", "orion", "chaos", "fifo", "gemini", "edf"};

        for (size_t i = 0; i < 20 * DS_ARRAY_SIZE(names); i++) {
                cr_assert_eq(set_policy(names[i % DS_ARRAY_SIZE(names)], NULL), 0, "%s", message);
                cr_assert_str_eq(harness_stats(&h).policy, names[i % DS_ARRAY_SIZE(names)]);
        }
}

Test(sched_policy, a_policy_that_is_not_there_at_start)
{
        struct harness other;

        cr_assert_eq(harness_open(&other, 8, TEST_POLICIES, "nobody"), DS_SCHED_E_NO_POLICY);
        free(other.device);
        cr_assert_eq(harness_open(&other, 8, NULL, "edf"), DS_SCHED_E_NO_POLICY);
        free(other.device);
        cr_assert_eq(harness_open(&other, 8, TEST_POLICIES, "bad-abi"), DS_SCHED_E_REFUSED);
        free(other.device);
        cr_assert_eq(harness_open(&other, 8, TEST_POLICIES, "edf"), 0);
        harness_close(&other);
}

/* --- bad behaviour ------------------------------------------------------------------------------------------------ */

static uint64_t real_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

Test(sched_policy, one_that_overruns_is_replaced)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top tops[20];
        struct ds_sched_stats stats;

        h.sched->host.wall_ns = real_ns;
        h.sched->host.budget_ns = MS;
        cr_assert_eq(set_policy("slow", NULL), 0);
        for (int i = 0; i < 20; i++)
                submit(&h, c, kernel_init(&tops[i], 1, 10 * US, 1, 0));
        harness_run(&h, UINT64_MAX);
        stats = harness_stats(&h);
        cr_assert_str_eq(stats.policy, "fifo");
        cr_assert_eq(stats.fallbacks, 1);
        cr_assert_geq(stats.overruns, 3);
        cr_assert_eq(h.told, 20);
}

static int fail_on_complete(const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        if (snapshot->event == DETSHARE_EVENT_COMPLETE)
                return -EIO;
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                push(decision, DETSHARE_ACTION_LAUNCH, snapshot->coroutines[i].id, 1);
        return 0;
}

Test(sched_policy, one_that_fails_is_replaced)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top tops[20];

        probe_start(fail_on_complete);
        for (int i = 0; i < 20; i++)
                submit(&h, c, kernel_init(&tops[i], 1, 10 * US, 1, 0));
        harness_run(&h, UINT64_MAX);
        cr_assert_str_eq(harness_stats(&h).policy, "fifo");
        cr_assert_eq(harness_stats(&h).fallbacks, 1);
        cr_assert_eq(h.told, 20);
        for (int i = 1; i < 20; i++)
                cr_assert_eq(tops[i].start_ns, tops[i - 1].end_ns);
}

static int suspend_all(const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                push(decision, DETSHARE_ACTION_SUSPEND, snapshot->coroutines[i].id, 0);
        return 0;
}

Test(sched_policy, one_that_stalls_is_replaced_after_a_second)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k;

        probe_start(suspend_all);
        harness_run(&h, 5 * MS);
        submit(&h, c, kernel_init(&k, 1, 10 * US, 1, 0));
        harness_run(&h, 900 * MS);
        cr_assert_eq(c->state, DS_COROUTINE_SUSPENDED);
        cr_assert_str_eq(harness_stats(&h).policy, "probe");
        harness_run(&h, UINT64_MAX);
        cr_assert_str_eq(harness_stats(&h).policy, "fifo");
        cr_assert_eq(k.start_ns, 1005 * MS);
}

static int write_past_the_end(const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        decision->n = UINT32_MAX;
        decision->actions = NULL;
        decision->capacity = UINT32_MAX;
        decision->again = 77;
        return 0;
}

Test(sched_policy, one_that_lies_about_its_answer)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k;

        probe_start(write_past_the_end);
        submit(&h, c, kernel_init(&k, 1, 10 * US, 1, 0));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k.done, 1, "by the built-in policy, after the stall");
        cr_assert_geq(harness_stats(&h).actions_ignored, UINT32_MAX);
        cr_assert_eq(harness_stats(&h).actions, 1);
}

static int senseless(const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        uint64_t id;

        if (snapshot->event != DETSHARE_EVENT_SUBMIT)
                return 0;
        id = snapshot->coroutines[0].id;
        push(decision, DETSHARE_ACTION_LAUNCH, 987654321, 0);
        push(decision, DETSHARE_ACTION_LAUNCH, id, snapshot->n_rungs);
        push(decision, DETSHARE_ACTION_LAUNCH, id, DETSHARE_RUNG_NONE);
        push(decision, DETSHARE_ACTION_LAUNCH, id, 0)->count = 0;
        push(decision, DETSHARE_ACTION_LAUNCH, id, 0)->priority = 2;
        push(decision, 3, id, 0);
        push(decision, UINT32_MAX, id, 0);
        push(decision, DETSHARE_ACTION_RESUME, 0, 0);
        push(decision, DETSHARE_ACTION_LAUNCH, id, 0)->count = UINT32_MAX;
        /* a second launch of the same coroutine, which has nothing left to launch */
        push(decision, DETSHARE_ACTION_LAUNCH, id, 0);
        return 0;
}

Test(sched_policy, senseless_actions_are_ignored_and_counted)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k[2];

        probe_start(senseless);
        submit(&h, c, kernel_init(&k[0], 1, 10 * US, 1, 0));
        submit(&h, c, kernel_init(&k[1], 1, 10 * US, 1, 0));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(h.told, 2);
        cr_assert_eq(harness_stats(&h).actions_ignored, 9);
        cr_assert_eq(harness_stats(&h).actions, 1);
        cr_assert_str_eq(harness_stats(&h).policy, "probe");
}

static int ask_again(const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        decision->again = 1;
        return 0;
}

Test(sched_policy, asking_again_is_bounded)
{
        probe_start(ask_again);
        harness_step(&h);
        cr_assert_eq(probe_n, 1 + DS_HOST_AGAIN_MAX);
        cr_assert_eq(probe_events[0], DETSHARE_EVENT_SWITCH);
        cr_assert_eq(probe_events[1], DETSHARE_EVENT_AGAIN);
}

static uint64_t timer_at;

static int want_timer(const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        decision->next_timer_ns = timer_at;
        if (snapshot->event == DETSHARE_EVENT_TIMER)
                timer_at = UINT64_MAX;
        return 0;
}

Test(sched_policy, timers)
{
        timer_at = 300 * US;
        probe_start(want_timer);
        harness_step(&h);
        cr_assert_eq(ds_sched_next_timer(h.sched), 300 * US);
        timer_at = 0; /* a timer in the past: the host delays it a little, so that it does not spin */
        h.device->now_ns = 300 * US;
        harness_step(&h);
        cr_assert_eq(probe_n, 2);
        cr_assert_eq(probe_events[1], DETSHARE_EVENT_TIMER);
        cr_assert_eq(ds_sched_next_timer(h.sched), 310 * US);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(probe_n, 3);
        cr_assert_eq(ds_sched_next_timer(h.sched), UINT64_MAX);
}

/* --- suspension, migration, loans --------------------------------------------------------------------------------- */

static uint32_t wanted_kind, wanted_rung, wanted_count, wanted_bound;

static int do_what_is_wanted(const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                if (wanted_kind != DETSHARE_ACTION_LAUNCH || snapshot->coroutines[i].ready) {
                        struct detshare_action *action =
                                push(decision, wanted_kind, snapshot->coroutines[i].id, wanted_rung);

                        action->count = wanted_count;
                        action->max_resident_blocks = wanted_bound;
                }
        return 0;
}

Test(sched_policy, suspension_is_of_the_whole_session)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *a = stream_open(s, 0, 0), *b = stream_open(s, 0, 0), *idle = stream_open(s, 0, 0);
        struct top k[5];

        wanted_kind = DETSHARE_ACTION_LAUNCH;
        wanted_count = 1;
        wanted_rung = 0;
        probe_start(do_what_is_wanted);
        harness_step(&h);
        submit(&h, a, kernel_init(&k[0], 1, 100 * US, 1, 0));
        submit(&h, a, kernel_init(&k[1], 1, 100 * US, 1, 0));
        harness_run(&h, 10 * US);
        wanted_kind = DETSHARE_ACTION_SUSPEND;
        submit(&h, b, kernel_init(&k[2], 1, 100 * US, 1, 0));
        harness_run(&h, 50 * US);
        cr_assert_eq(a->state, DS_COROUTINE_YIELDING);
        cr_assert_eq(b->state, DS_COROUTINE_SUSPENDED);
        cr_assert_eq(idle->state, DS_COROUTINE_SUSPENDED);
        harness_run(&h, 200 * US);
        cr_assert_eq(a->state, DS_COROUTINE_SUSPENDED);
        cr_assert_eq(k[0].done, 1);
        /* the policy gets events of new work of a suspended session, otherwise no policy would resume it */
        wanted_kind = DETSHARE_ACTION_RESUME;
        submit(&h, idle, kernel_init(&k[3], 1, 100 * US, 1, 0));
        harness_step(&h);
        cr_assert_eq(a->state, DS_COROUTINE_READY);
        wanted_kind = DETSHARE_ACTION_LAUNCH;
        submit(&h, stream_open(s, 0, 0), kernel_init(&k[4], 1, 100 * US, 1, 0));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(h.told, 5);
        cr_assert_eq(harness_stats(&h).fallbacks, 0);
}

Test(sched_policy, a_switch_resumes_suspended_sessions)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k;

        probe_start(suspend_all);
        submit(&h, c, kernel_init(&k, 1, 100 * US, 1, 0));
        harness_run(&h, 10 * US);
        cr_assert_eq(c->state, DS_COROUTINE_SUSPENDED);
        cr_assert_eq(set_policy("edf", NULL), 0);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k.start_ns, 10 * US);
        cr_assert_eq(harness_stats(&h).fallbacks, 0);
}

static int wander(const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        /* launches on another rung each time, without waiting for work in flight */
        for (uint32_t i = 1; i < 12 && snapshot->n_coroutines && snapshot->coroutines[0].ready; i++)
                push(decision, DETSHARE_ACTION_LAUNCH, snapshot->coroutines[0].id, i)->priority = i & 1;
        return 0;
}

Test(sched_policy, migration_keeps_the_order)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top tops[12], mark;

        probe_start(wander);
        for (int i = 0; i < 11; i++)
                submit(&h, c, kernel_init(&tops[i], 1, 10 * US, 1, 0));
        submit(&h, c, mark_init(&mark));
        harness_run(&h, UINT64_MAX);
        for (int i = 0; i < 11; i++) {
                cr_assert_eq(tops[i].start_ns, (uint64_t)i * 10 * US);
                cr_assert_eq(h.device->log[i].now_ns, 0, "all were launched at once");
                cr_assert_eq(h.device->log[i].rung, (uint32_t)i + 1);
                cr_assert_eq(h.device->log[i].priority, (uint32_t)(i + 1) & 1);
        }
        cr_assert_eq(mark.end_ns, 110 * US);
        cr_assert_eq(harness_stats(&h).migrations, 10);
        cr_assert_eq(h.device->fences, 10);
        /* nothing of the stream is in flight, so no fence is needed */
        submit(&h, c, kernel_init(&tops[11], 1, 10 * US, 1, 0));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(h.device->fences, 10);
}

Test(sched_policy, a_kernel_that_needs_all_its_blocks_borrows_the_gpu)
{
        static const ds_device_kernel cooperative = {
                .info = {.name = "grid_sync", .max_threads = 1024, .registers = 16, .cooperative = 1}};
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top small, large;

        wanted_kind = DETSHARE_ACTION_LAUNCH;
        wanted_count = 1;
        wanted_rung = 1; /* rung 1 has 1 of 8 TPCs: 2 SMs, 16 blocks */
        probe_start(do_what_is_wanted);
        kernel_init(&small, 1, 10 * US, 16, 0);
        kernel_init(&large, 1, 10 * US, 17, 0);
        small.op.launch.kernel = large.op.launch.kernel = &cooperative;
        submit(&h, c, &small);
        submit(&h, c, &large);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(h.device->log[0].rung, 1);
        cr_assert_eq(h.device->log[1].rung, 0);
        cr_assert_eq(harness_stats(&h).loans, 1);
}

/*
 * A kernel whose code may wait for other blocks borrows the GPU too, unless its resident blocks are bounded. If not
 * even the whole GPU holds all blocks, it can only wait for earlier ones, and runs on the rung that the policy named.
 */
Test(sched_policy, a_kernel_that_waits_for_other_blocks_borrows_the_gpu)
{
        static const ds_device_kernel waits = {
                .info = {.name = "look_back", .max_threads = 1024, .registers = 16, .waits = 1, .idempotent = 1}};
        static const struct {
                uint32_t blocks, lent;
                /* an SM holds 8 of these blocks, and the device has 16 SMs */
        } rows[] = {{16, 0}, {17, 1}, {128, 1}, {129, 0}};
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top tops[DS_ARRAY_SIZE(rows)];

        wanted_kind = DETSHARE_ACTION_LAUNCH;
        wanted_count = 1;
        wanted_rung = 1; /* rung 1: 2 SMs, 16 blocks */
        wanted_bound = 3;
        probe_start(do_what_is_wanted);
        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                struct sdev_record *record = &h.device->log[i];
                bool resident = rows[i].blocks <= 128;

                kernel_init(&tops[i], 1, 10 * US, rows[i].blocks, 0)->op.launch.kernel = &waits;
                submit(&h, c, &tops[i]);
                harness_run(&h, UINT64_MAX);
                cr_expect_eq(record->rung, rows[i].lent ? 0 : 1, "%u blocks on %u", rows[i].blocks, record->rung);
                cr_expect_eq(record->max_resident_blocks, resident ? 0 : 3, "%u blocks", rows[i].blocks);
        }
        cr_assert_eq(harness_stats(&h).loans, 2);
}

/* A kernel whose clusters do not fit on the rung's TPCs borrows the GPU, under every policy. A kernel with another
 * cluster shape counts as another kernel. */
Test(sched_policy, a_kernel_with_large_clusters_borrows_the_gpu)
{
        static const ds_device_kernel fours = {
                .info = {.name = "fours", .max_threads = 1024, .registers = 16, .cluster = {4, 1, 1}}};
        static const uint32_t asked[][2] = {{0, 1}, {1, 1}, {2, 1}, {4, 0}, {16, 0}};
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top tops[DS_ARRAY_SIZE(asked) + 1];
        size_t n = DS_ARRAY_SIZE(asked);

        wanted_kind = DETSHARE_ACTION_LAUNCH;
        wanted_count = 1;
        wanted_rung = 1;
        probe_start(do_what_is_wanted);
        for (size_t i = 0; i <= n; i++) {
                kernel_init(&tops[i], 1, 10 * US, 16, 0);
                tops[i].op.launch.cluster[0] = i < n ? asked[i][0] : 0;
                tops[i].op.launch.cluster[1] = tops[i].op.launch.cluster[2] = tops[i].op.launch.cluster[0] != 0;
        }
        tops[n].op.launch.kernel = &fours;
        for (size_t i = 0; i <= n; i++)
                submit(&h, c, &tops[i]);
        harness_run(&h, UINT64_MAX);
        for (size_t i = 0; i < n; i++)
                cr_assert_eq(h.device->log[i].rung, asked[i][1], "clusters of %u", asked[i][0]);
        cr_assert_eq(h.device->log[n].rung, 0, "the code's own");
        cr_assert_eq(harness_stats(&h).loans, 3);
        for (size_t i = 1; i <= n; i++)
                cr_assert_neq(tops[i].op.kernel_key, tops[i - 1].op.kernel_key);
}

/* The session's share limits the rung that a policy names, on its class's side of the ladder. */
Test(sched_policy, a_session_keeps_to_its_share_of_the_sms)
{
        ds_sched_session *be = session_open(&h, 1, DETSHARE_CLASS_BE, 0),
                         *ls = session_open(&h, 2, DETSHARE_CLASS_LS, 0);
        ds_coroutine *b = stream_open(be, 0, 0), *l = stream_open(ls, 0, 0);
        /* percent, named rung, rung of a BE session, rung of an LS session; of the 8 TPCs rung 2k-1 has k, and rung
         * 2k has 8-k */
        static const uint32_t rows[][4] = {{100, 0, 0, 0}, {99, 0, 2, 13}, {50, 0, 8, 7}, {49, 0, 10, 5},
                {25, 0, 12, 3}, {12, 0, 14, 1}, {1, 0, 14, 1}, {50, 7, 7, 7}, {50, 3, 3, 3}, {50, 9, 7, 7},
                {50, 4, 8, 8}, {13, 2, 14, 14}, {1, 1, 1, 1}, {1000, 0, 0, 0}};
        struct top tops[2 * DS_ARRAY_SIZE(rows)];
        uint64_t capped = 0;

        wanted_kind = DETSHARE_ACTION_LAUNCH;
        wanted_count = 1;
        probe_start(do_what_is_wanted);
        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                wanted_rung = rows[i][1];
                ds_sched_session_set(be, DETSHARE_CLASS_BE, 0, rows[i][0], harness_now(&h));
                ds_sched_session_set(ls, DETSHARE_CLASS_LS, 0, rows[i][0], harness_now(&h));
                submit(&h, b, kernel_init(&tops[2 * i], 1, 10 * US, 100, 0));
                harness_run(&h, UINT64_MAX);
                submit(&h, l, kernel_init(&tops[2 * i + 1], 2, 10 * US, 100, 0));
                harness_run(&h, UINT64_MAX);
                cr_assert_eq(h.device->log[2 * i].rung, rows[i][2], "row %zu: BE on %u", i, h.device->log[2 * i].rung);
                cr_assert_eq(h.device->log[2 * i + 1].rung, rows[i][3], "row %zu: LS on %u", i,
                        h.device->log[2 * i + 1].rung);
                capped += (rows[i][2] != rows[i][1]) + (rows[i][3] != rows[i][1]);
                cr_assert_eq(harness_stats(&h).capped, capped);
        }
        cr_assert_eq(harness_stats(&h).loans, 0);
}

static struct top *copy_init(struct top *top, uint32_t space, uint64_t duration_ns)
{
        *top = (struct top){.op.kind = DS_OP_COPY};
        top->op.copy = (struct ds_copy){.space = space, .kind = DS_COPY_DTOD, .width = duration_ns, .height = 1};
        return top;
}

Test(sched_policy, copies_go_along_with_the_kernels_of_a_share)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *c = stream_open(s, 0, 0);
        struct top tops[10];

        ds_sched_session_set(s, DETSHARE_CLASS_BE, 0, 50, 0);
        wanted_kind = DETSHARE_ACTION_LAUNCH;
        wanted_count = 16;
        wanted_rung = 0;
        probe_start(do_what_is_wanted);
        for (int i = 0; i < 10; i += 2) {
                submit(&h, c, copy_init(&tops[i], 1, 5 * US));
                submit(&h, c, kernel_init(&tops[i + 1], 1, 10 * US, 1, 0));
        }
        harness_run(&h, UINT64_MAX);
        for (int i = 0; i < 10; i++)
                cr_assert_eq(h.device->log[i].rung, 8);
        cr_assert_eq(h.device->fences, 0);
        cr_assert_eq(harness_stats(&h).capped, 5, "copies use no SMs");
}

/* Cooperative kernels go where they fit: within the share, else on the named rung, else on the whole GPU. */
Test(sched_policy, a_share_too_small_for_all_blocks_does_not_hold)
{
        static const ds_device_kernel cooperative = {
                .info = {.name = "grid_sync", .max_threads = 1024, .registers = 16, .cooperative = 1}};
        static const struct {
                uint32_t blocks, rung;
        } rows[] = {{16, 14}, {17, 8}, {64, 8}, {65, 0}};
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *c = stream_open(s, 0, 0);
        struct top tops[DS_ARRAY_SIZE(rows)];

        ds_sched_session_set(s, DETSHARE_CLASS_BE, 0, 13, 0); /* 1 of 8 TPCs: 2 SMs, 16 blocks */
        wanted_kind = DETSHARE_ACTION_LAUNCH;
        wanted_count = 1;
        wanted_rung = 8; /* 4 of 8 TPCs */
        probe_start(do_what_is_wanted);
        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                kernel_init(&tops[i], 1, 10 * US, rows[i].blocks, 0)->op.launch.kernel = &cooperative;
                submit(&h, c, &tops[i]);
                harness_run(&h, UINT64_MAX);
                cr_assert_eq(
                        h.device->log[i].rung, rows[i].rung, "%u blocks on %u", rows[i].blocks, h.device->log[i].rung);
        }
        cr_assert_eq(harness_stats(&h).capped, 1);
        cr_assert_eq(harness_stats(&h).loans, 1);
}

/* --- the policy's snapshot ---------------------------------------------------------------------------------------- */

static struct detshare_snapshot seen;
static struct detshare_coroutine_view seen_coroutines[8];
static struct detshare_session_view seen_sessions[8];
static struct detshare_op_view seen_ahead[DETSHARE_AHEAD_MAX];

static int look(const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        seen = *snapshot;
        for (uint32_t i = 0; i < snapshot->n_coroutines && i < 8; i++)
                seen_coroutines[i] = snapshot->coroutines[i];
        for (uint32_t i = 0; i < snapshot->n_sessions && i < 8; i++)
                seen_sessions[i] = snapshot->sessions[i];
        if (snapshot->n_coroutines && snapshot->coroutines[0].n_ahead)
                memcpy(seen_ahead, snapshot->coroutines[0].ahead,
                        snapshot->coroutines[0].n_ahead * sizeof(seen_ahead[0]));
        return do_what_is_wanted(snapshot, decision);
}

Test(sched_policy, snapshot_of_a_queue)
{
        ds_sched_session *s = session_open(&h, 7, DETSHARE_CLASS_LS, 5 * MS),
                         *idle = session_open(&h, 8, DETSHARE_CLASS_BE, 0);
        ds_coroutine *c = stream_open(s, 0, 0);
        struct top tops[40], marks[40], copy;

        cr_assert_not_null(idle);
        ds_sched_set_bound(h.sched, 42, DETSHARE_BOUND_MEMORY);
        wanted_kind = DETSHARE_ACTION_LAUNCH;
        wanted_count = 1;
        wanted_rung = 3;
        probe_start(look);
        harness_step(&h);
        cr_assert_eq(seen.n_coroutines, 0);
        h.device->now_ns = 2 * MS;
        for (int i = 0; i < 39; i++) {
                submit(&h, c, kernel_init(&tops[i], 1, 30 * US, 70, 42));
                submit(&h, c, mark_init(&marks[i]));
        }
        copy = (struct top){.op.kind = DS_OP_COPY};
        copy.op.copy = (struct ds_copy){.kind = DS_COPY_HTOD, .width = 4096, .height = 1};
        submit(&h, c, &copy);
        harness_step(&h);
        /* within one step, the policy got SUBMIT before the launch and REQUEST_BEGIN after it */
        cr_assert_eq(seen.event, DETSHARE_EVENT_SUBMIT);
        cr_assert_eq(seen.n_coroutines, 1);
        cr_assert_eq(seen.n_sessions, 1, "sessions without work are not shown");
        cr_assert_eq(seen_sessions[0].id, 7);
        cr_assert_eq(seen_sessions[0].request_active, 1);
        cr_assert_eq(seen_sessions[0].deadline_ns, 7 * MS);
        cr_assert_eq(seen.event_session, 0);
        cr_assert_eq(seen_coroutines[0].id, c->id);
        cr_assert_eq(seen_coroutines[0].queued, 39, "one was launched when the request began");
        cr_assert_eq(seen_coroutines[0].in_flight, 1);
        cr_assert_eq(seen_coroutines[0].rung, 3);
        cr_assert_eq(seen_coroutines[0].n_ahead, DETSHARE_AHEAD_MAX);
        cr_assert_eq(seen_coroutines[0].in_flight_sms, 9);
        cr_assert_eq(seen_ahead[0].kernel, 42);
        cr_assert_eq(seen_ahead[0].blocks, 70);
        cr_assert_eq(seen_ahead[0].threads, 256);
        cr_assert_eq(seen_ahead[0].blocks_per_sm, 8);
        cr_assert_eq(seen_ahead[0].sms_needed, 9);
        cr_assert_eq(seen_ahead[0].samples, 0);
        cr_assert_eq(seen_ahead[0].bound, DETSHARE_BOUND_MEMORY);
        cr_assert_eq(seen_ahead[0].submitted_ns, 2 * MS);
        harness_run(&h, 2 * MS + 30 * US * 37 + 10 * US);
        cr_assert_eq(seen.event, DETSHARE_EVENT_COMPLETE);
        cr_assert_eq(seen.event_op.kernel, 42);
        cr_assert_eq(seen.event_coroutine, c->id);
        cr_assert_eq(seen.event_end_ns - seen.event_start_ns, 30 * US);
        cr_assert_eq(seen_coroutines[0].n_ahead, seen_coroutines[0].queued);
        cr_assert_eq(seen_ahead[0].expected_ns, 30 * US);
        cr_assert_geq(seen_ahead[0].samples, 30);
        cr_assert_eq(seen_ahead[seen_coroutines[0].n_ahead - 1].kind, DETSHARE_OP_COPY);
        cr_assert_eq(seen_ahead[seen_coroutines[0].n_ahead - 1].bytes, 4096);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(seen.event, DETSHARE_EVENT_REQUEST_END);
        cr_assert_eq(seen.n_coroutines, 0);
        cr_assert_eq(seen.n_sessions, 1, "the session is still shown while its last event is told");
        cr_assert_eq(seen.event_session, 0);
        cr_assert_eq(h.told, 79);
}

Test(sched_policy, sessions_move_and_coroutines_find_them)
{
        ds_sched_session *s[4];
        ds_coroutine *c[4];
        struct top k[8];

        wanted_kind = DETSHARE_ACTION_LAUNCH;
        wanted_count = 1;
        wanted_rung = 0;
        probe_start(look);
        for (uint64_t i = 0; i < 4; i++) {
                s[i] = session_open(&h, 10 + i, DETSHARE_CLASS_BE, 0);
                c[i] = stream_open(s[i], 0, 0);
                submit(&h, c[i], kernel_init(&k[i], 1, (10 + i) * US, 1, 0));
                submit(&h, c[i], kernel_init(&k[4 + i], 1, (i ? 1000 : 1) * US, 1, 0));
        }
        harness_run(&h, 50 * US);
        cr_assert_eq(seen.n_sessions, 3);
        cr_assert_eq(seen.n_coroutines, 3);
        for (uint32_t i = 0; i < 3; i++) {
                cr_assert_eq(seen_coroutines[i].id, c[i + 1]->id);
                cr_assert_eq(seen_sessions[seen_coroutines[i].session].id, 11 + i);
        }
        ds_sched_session_free(s[0]);
        harness_step(&h);
        cr_assert_eq(seen.event, DETSHARE_EVENT_SESSION);
        cr_assert_eq(seen.event_session, UINT32_MAX);
        harness_run(&h, UINT64_MAX);
}

Test(sched_policy, begin_and_end_are_reported_in_order)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_LS, 0);
        ds_coroutine *c = stream_open(s, 0, 0);
        struct ds_completion completion;
        struct top k[3];
        int begins = 0, ends = 0;

        wanted_kind = DETSHARE_ACTION_LAUNCH;
        wanted_count = 1;
        wanted_rung = 0;
        probe_start(do_what_is_wanted);
        submit(&h, c, kernel_init(&k[0], 1, 10 * US, 1, 0));
        harness_step(&h);
        /* a request of the client ends and the next one begins between two steps */
        h.device->now_ns = 10 * US;
        cr_assert_eq(sdev_poll(h.device, &completion, 1), 1);
        ds_sched_complete(h.sched, &completion, 1);
        submit(&h, c, kernel_init(&k[1], 1, 10 * US, 1, 0));
        harness_run(&h, UINT64_MAX);
        for (uint32_t i = 0; i < probe_n; i++) {
                begins += probe_events[i] == DETSHARE_EVENT_REQUEST_BEGIN;
                ends += probe_events[i] == DETSHARE_EVENT_REQUEST_END;
                cr_assert(begins == ends || begins == ends + 1);
        }
        cr_assert_eq(begins, 2);
        cr_assert_eq(ends, 2);
}

/* --- switching under load ----------------------------------------------------------------------------------------- */

Test(sched_policy, switching_live_loses_and_reorders_nothing)
{
        static const char *const names[] = {"edf", "fifo", "orion", "chaos", "gemini", "fifo"};
        ds_sched_session *s[2] = {
                session_open(&h, 1, DETSHARE_CLASS_LS, MS), session_open(&h, 2, DETSHARE_CLASS_BE, 0)};
        ds_coroutine *c[6];
        struct top *tops = calloc(6 * 500, sizeof(*tops));

        for (int i = 0; i < 6; i++)
                c[i] = stream_open(s[i % 2], 0, 0);
        for (int i = 0; i < 3000; i++)
                submit(&h, c[i % 6], kernel_init(&tops[i], 1, 10 * US, 1, 0));
        for (uint64_t i = 0; i < 30; i++) {
                cr_assert_eq(set_policy(names[i % 6], NULL), 0, "%s", message);
                harness_run(&h, (i + 1) * 100 * US);
        }
        cr_assert_eq(set_policy("fifo", NULL), 0);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(h.told, 3000);
        for (int i = 6; i < 3000; i++)
                cr_assert(tops[i].start_ns >= tops[i - 6].end_ns && tops[i].done == 1);
        free(tops);
}
