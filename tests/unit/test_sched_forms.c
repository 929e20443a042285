/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of kernels: eviction and continuation, slices, choice of the form; every block runs once
 *
 * The scripted device fails a test if a block would run twice or before an earlier block of its kernel. 16 SMs hold 128
 * of these blocks at once.
 */
#include <stdlib.h>

#include "tests/unit/sched_device.h"

#define US 1000ULL
#define MS 1000000ULL
#define KEY 4711

static struct harness h;
static char message[256];

/* --- a policy that launches everything to `rung`, and returns one given action once ------------------------------- */

static uint32_t rung, depth, evictable, max_blocks, seen_completes, seen_submits;
static struct detshare_action once;
static struct detshare_op_view seen_head;
static struct detshare_coroutine_view seen;
static uint32_t seen_can_evict;

__attribute__((__visibility__("default"))) int probe_decide(
        void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision);

int probe_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        seen_completes += snapshot->event == DETSHARE_EVENT_COMPLETE;
        seen_submits += snapshot->event == DETSHARE_EVENT_SUBMIT;
        seen_can_evict = snapshot->can_evict;
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *view = &snapshot->coroutines[i];

                seen = *view;
                if (view->n_ahead)
                        seen_head = view->ahead[0];
                if (once.kind != DETSHARE_ACTION_LAUNCH && once.coroutine == view->id) {
                        decision->actions[decision->n++] = once;
                        once.coroutine = 0;
                } else if (view->ready && view->in_flight < depth) {
                        decision->actions[decision->n++] = (struct detshare_action){.coroutine = view->id,
                                .rung = rung,
                                .count = depth - view->in_flight,
                                .max_resident_blocks = max_blocks,
                                .evictable = evictable};
                }
        }
        return 0;
}

static void begin(enum ds_sched_transform transform)
{
        cr_assert_eq(harness_open_transform(&h, 8, "tests/policies", "fifo", transform), 0);
        cr_assert_eq(ds_sched_set_policy(h.sched, "probe", NULL, 0, 0, message, sizeof(message)), 0, "%s", message);
        rung = max_blocks = 0;
        depth = 8;
        evictable = 1;
        once = (struct detshare_action){0};
        seen_completes = seen_submits = 0;
        harness_step(&h);
}

static void end(void)
{
        harness_run(&h, UINT64_MAX);
        harness_assert_clean(&h);
        harness_close(&h);
}

/* Causes an event of the coroutine, so that the host calls the policy. */
static void ask(const ds_coroutine *coroutine)
{
        ds_sched_session_share(coroutine->session, coroutine->session->config.gpu_request, 0, harness_now(&h));
        harness_step(&h);
}

static void do_once(uint32_t kind, const ds_coroutine *coroutine)
{
        once = (struct detshare_action){.kind = kind, .coroutine = coroutine->id};
        ask(coroutine);
        cr_assert_eq(once.coroutine, 0);
}

/* Evicts the coroutine's kernel; the policy launches nothing more until on() is called. */
static void evict(const ds_coroutine *coroutine)
{
        depth = 0;
        do_once(DETSHARE_ACTION_EVICT, coroutine);
}

static void on(const ds_coroutine *coroutine, uint32_t to_rung)
{
        depth = 8;
        rung = to_rung;
        ask(coroutine);
}

static struct top *forms_init(
        struct top *top, uint64_t duration_ns, uint32_t blocks, const struct ds_sched_forms *forms)
{
        kernel_init(top, 1, duration_ns, blocks, KEY + blocks);
        top->op.forms = forms;
        return top;
}

static const struct sdev_record *record(size_t i)
{
        cr_assert_lt(i, h.device->n_log);
        return &h.device->log[i];
}

static struct ds_sched_session_stats stats_of(const ds_coroutine *coroutine)
{
        struct ds_sched_session_stats stats;

        ds_sched_session_stats(coroutine->session, &stats);
        return stats;
}

static ds_coroutine *be_open(void)
{
        return stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
}

/* --- persistent --------------------------------------------------------------------------------------------------- */

Test(sched_forms, an_evicted_kernel_continues_and_is_reported_once)
{
        struct top k, behind, mark;
        ds_coroutine *c;

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        submit(&h, c, forms_init(&k, 1 * MS, 1000, &sdev_forms));
        submit(&h, c, mark_init(&mark));
        submit(&h, c, forms_init(&behind, 100 * US, 100, &sdev_forms));
        harness_run(&h, 300 * US + 1);
        cr_assert_eq(record(0)->form, DS_PTX_FORM_PERSISTENT);
        cr_assert_eq(c->n_in_flight, 2);
        cr_assert_eq(seen_can_evict, 1);
        cr_assert_eq(seen.evictable, 1);
        evict(c);
        cr_assert_eq(seen_head.blocks, 1000, "not back yet: what was seen last is the first launch");
        cr_assert_eq(h.device->evictions, 2, "what stands behind it lets go, too");
        harness_run(&h, 400 * US);
        cr_assert_eq(k.script.ran, 301, "to the end of the block that ran");
        cr_assert_eq(behind.script.ran, 0);
        cr_assert_eq(c->n_in_flight, 0);
        cr_assert_eq(k.done + mark.done + behind.done, 0);
        cr_assert_eq(seen.ready, 1);
        cr_assert_eq(seen.evictable, 0);
        cr_assert_eq(seen_head.progress_permille, 301);
        cr_assert_eq(seen_head.forms, DETSHARE_FORM_PERSISTENT, "it stays what it is");
        on(c, 2);
        end();
        cr_assert_eq(k.script.ran, 1000);
        cr_assert_eq(k.script.pieces, 2);
        cr_assert_eq(behind.script.ran, 100);
        cr_assert(k.order < mark.order && mark.order < behind.order);
        cr_assert_eq(k.start_ns, 0, "it began when its first piece did");
        cr_assert_eq(k.end_ns, 400 * US + 699 * US);
        cr_assert_eq(mark.end_ns, k.end_ns);
        cr_assert_eq(behind.end_ns, k.end_ns + 100 * US);
        cr_assert_eq(seen_completes, 2, "nobody is told that an evicted kernel has ended");
}

Test(sched_forms, evictions_are_counted_and_every_block_once)
{
        struct ds_sched_session_stats stats;
        ds_coroutine *c;
        struct top k;

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        submit(&h, c, forms_init(&k, 1 * MS, 1000, &sdev_forms));
        for (uint64_t at = 100; at <= 500; at += 100) {
                harness_run(&h, at * US + 1);
                evict(c);
                harness_run(&h, at * US + 50 * US);
                on(c, (uint32_t)(at / 100));
        }
        harness_run(&h, UINT64_MAX);
        stats = stats_of(c);
        cr_assert_eq(k.script.ran, 1000);
        cr_assert_eq(k.script.pieces, 6);
        cr_assert_eq(stats.evictions, 5);
        cr_assert_eq(stats.blocks, 1000);
        cr_assert_eq(stats.completed, 1);
        cr_assert_eq(stats.errors, 0);
        cr_assert_eq(stats.device_ns, 1 * MS);
        cr_assert_eq(harness_stats(&h).evictions, 5);
        cr_assert_eq(harness_stats(&h).resumed, 5);
        cr_assert_eq(harness_stats(&h).persistent, 6);
        cr_assert_eq(harness_stats(&h).nonsense, 0);
        end();
}

Test(sched_forms, native_kernels_stay_before_evictable_ones)
{
        struct top native, k, copy;
        ds_coroutine *c;

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        submit(&h, c, forms_init(&native, 50 * US, 10, NULL));
        submit(&h, c, forms_init(&k, 100 * US, 100, &sdev_forms));
        copy = (struct top){.op.kind = DS_OP_COPY};
        copy.op.copy = (struct ds_copy){.space = 1, .width = 10 * US, .height = 1};
        submit(&h, c, &copy);
        harness_run(&h, 10 * US);
        cr_assert_eq(h.device->n_log, 2, "the copy waits for the end of what lets go");
        evict(c);
        harness_run(&h, 30 * US);
        cr_assert_eq(c->n_in_flight, 1, "the native one runs to its end");
        cr_assert_eq(native.done, 0);
        harness_run(&h, 60 * US);
        cr_assert_eq(native.end_ns, 50 * US);
        cr_assert_eq(k.done, 0);
        on(c, 0);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k.start_ns, 60 * US);
        cr_assert_eq(copy.start_ns, 160 * US);
        submit(&h, c, forms_init(&native, 50 * US, 10, NULL));
        harness_run(&h, 170 * US);
        cr_assert_eq(harness_stats(&h).nonsense, 0);
        evict(c);
        cr_assert_eq(harness_stats(&h).nonsense, 1, "nothing lets go");
        end();
}

Test(sched_forms, an_eviction_that_comes_too_late_changes_nothing)
{
        ds_coroutine *c;
        struct top k;

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        submit(&h, c, forms_init(&k, 100 * US, 100, &sdev_forms));
        harness_run(&h, 99 * US + 1);
        do_once(DETSHARE_ACTION_EVICT, c);
        cr_assert_eq(ds_launch_evict(c), DS_LET_GO_ALREADY);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k.end_ns, 100 * US);
        cr_assert_eq(k.script.ran, 100);
        cr_assert_eq(h.device->evictions, 0);
        end();
}

Test(sched_forms, a_kill_of_an_evictable_kernel_keeps_progress)
{
        ds_coroutine *c;
        struct top k[2];

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        submit(&h, c, kernel_init(&k[0], 1, 100 * US, 1, 0));
        k[0].op.launch.kernel = &sdev_idempotent;
        submit(&h, c, forms_init(&k[1], 100 * US, 100, &sdev_forms));
        harness_run(&h, 10 * US);
        do_once(DETSHARE_ACTION_KILL, c);
        harness_run(&h, 150 * US);
        do_once(DETSHARE_ACTION_KILL, c);
        cr_assert_eq(h.device->kills, 1);
        cr_assert_eq(h.device->evictions, 2);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k[0].start_ns, 10 * US);
        cr_assert_eq(k[1].script.ran, 100);
        cr_assert_eq(harness_stats(&h).nonsense, 0);
        end();
}

Test(sched_forms, the_deadline_covers_the_rest)
{
        ds_coroutine *c;
        struct top k;

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        forms_init(&k, 1 * MS, 1000, &sdev_forms)->op.launch.deadline_ns = 5 * MS;
        submit(&h, c, &k);
        harness_run(&h, 300 * US);
        evict(c);
        harness_run(&h, 400 * US);
        on(c, 0);
        cr_assert_eq(record(0)->deadline_ns, 5 * MS);
        cr_assert_eq(record(1)->deadline_ns, 5 * MS - 301 * US);
        end();
}

Test(sched_forms, a_bound_on_blocks_is_one_on_workers)
{
        ds_coroutine *c;
        struct top k;

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        max_blocks = 40;
        submit(&h, c, forms_init(&k, 1 * MS, 1000, &sdev_forms));
        harness_step(&h);
        cr_assert_eq(record(0)->workers, 40);
        cr_assert_eq(record(0)->max_resident_blocks, 0);
        end();
}

/* --- slices ------------------------------------------------------------------------------------------------------- */

static const struct ds_sched_forms sliced_only = {.sliced = &sdev_sliced};

/* Makes the time of a block known: 128 of them take 9.6 us. */
static void put_profile(uint64_t key, uint64_t mean_ns)
{
        struct ds_sched_profile profile = {.key = key, .n_points = 1, .points = {{16, 9, mean_ns}}};

        ds_sched_profile_put(h.sched, &profile);
}

Test(sched_forms, slices_follow_each_other_without_a_gap)
{
        ds_coroutine *c;
        struct top k, behind;

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        forms_init(&k, 960 * US, 12800, &sliced_only);
        put_profile(k.op.kernel_key, 960 * US);
        submit(&h, c, &k);
        submit(&h, c, kernel_init(&behind, 1, US, 1, 0));
        harness_step(&h);
        cr_assert_eq(h.device->n_log, 2, "two at a time");
        cr_assert_eq(record(0)->form, DS_PTX_FORM_SLICED);
        cr_assert_eq(record(0)->n_blocks, 640, "5 waves of 9.6 us: half of the bound");
        cr_assert_eq(record(1)->first, 640);
        cr_assert_eq(c->n_in_flight, 1, "one operation");
        cr_assert_eq(seen_completes, 0);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k.script.ran, 12800);
        cr_assert_eq(k.script.pieces, 20);
        cr_assert_eq(k.end_ns, 960 * US, "no gap");
        cr_assert_eq(behind.start_ns, 960 * US);
        cr_assert_eq(seen_completes, 2);
        cr_assert_eq(stats_of(c).launches, 2);
        cr_assert_eq(stats_of(c).blocks, 12801);
        cr_assert_eq(stats_of(c).device_ns, 960 * US + US);
        end();
}

Test(sched_forms, an_evicted_sliced_kernel_continues_in_other_slices)
{
        ds_coroutine *c;
        struct top k;

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        forms_init(&k, 960 * US, 12800, &sliced_only);
        put_profile(k.op.kernel_key, 960 * US);
        submit(&h, c, &k);
        harness_run(&h, 201 * US);
        cr_assert_eq(seen.evictable, 1);
        evict(c);
        cr_assert_eq(c->n_in_flight, 1);
        harness_run(&h, 350 * US);
        cr_assert_eq(k.script.ran, 6 * 640, "what was on the device has ended");
        cr_assert_eq(c->n_in_flight, 0);
        cr_assert_eq(seen_head.progress_permille, 300);
        on(c, 2);
        cr_assert_lt(record(6)->n_blocks, 640, "fewer SMs hold less");
        cr_assert_eq(record(6)->first, 6 * 640);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k.script.ran, 12800);
        cr_assert_eq(k.end_ns, 350 * US + 672 * US);
        cr_assert_eq(stats_of(c).evictions, 1);
        cr_assert_eq(stats_of(c).blocks, 12800);
        end();
}

Test(sched_forms, a_suspended_session_has_no_more_slices_launched)
{
        ds_coroutine *c;
        struct top k;

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        forms_init(&k, 960 * US, 12800, &sliced_only);
        put_profile(k.op.kernel_key, 960 * US);
        submit(&h, c, &k);
        harness_run(&h, 10 * US);
        do_once(DETSHARE_ACTION_SUSPEND, c);
        cr_assert_eq(c->state, DS_COROUTINE_YIELDING);
        harness_run(&h, 500 * US);
        cr_assert_eq(c->state, DS_COROUTINE_SUSPENDED);
        cr_assert_eq(k.script.ran, 2 * 640);
        do_once(DETSHARE_ACTION_RESUME, c);
        end();
        cr_assert_eq(k.script.ran, 12800);
        cr_assert_eq(k.end_ns, 500 * US + 864 * US);
}

Test(sched_forms, an_error_of_a_slice_is_the_kernels)
{
        ds_coroutine *c;
        struct top k;

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        forms_init(&k, 1 * MS, 12800, &sliced_only)->script.status = DS_CUDA_ILLEGAL_ADDRESS;
        put_profile(k.op.kernel_key, 1 * MS);
        submit(&h, c, &k);
        end();
        cr_assert_eq(k.done, 1);
        cr_assert_eq(k.status, DS_CUDA_ILLEGAL_ADDRESS);
        cr_assert_str_eq(k.message, "scripted fault");
        cr_assert_eq(k.script.pieces, 2);
}

/* --- obstacles ---------------------------------------------------------------------------------------------------- */

Test(sched_forms, a_form_that_the_device_refuses_is_native)
{
        ds_coroutine *c;
        struct top k[2];

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        for (int i = 0; i < 2; i++) {
                forms_init(&k[i], 100 * US, 100, i ? &sliced_only : &sdev_forms);
                k[i].script.refuse_form = DS_CUDA_OUT_OF_MEMORY;
                submit(&h, c, &k[i]);
        }
        harness_run(&h, UINT64_MAX);
        for (int i = 0; i < 2; i++) {
                cr_assert_eq(k[i].status, 0);
                cr_assert_eq(record((size_t)i)->form, DS_PTX_FORM_NATIVE);
        }
        cr_assert_eq(harness_stats(&h).form_refusals, 2);
        end();
}

Test(sched_forms, a_cancelled_session_drops_evicted_kernels)
{
        ds_sched_session *s[3];
        ds_coroutine *c[3];
        struct top k[3];

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        h.device->abort_works = 0;
        for (int i = 0; i < 3; i++) {
                s[i] = session_open(&h, 1 + (uint64_t)i, DETSHARE_CLASS_BE, 0);
                c[i] = stream_open(s[i], 0, 0);
                forms_init(&k[i], 1 * MS, 12800, i == 2 ? &sliced_only : &sdev_forms);
                if (i == 2)
                        put_profile(k[i].op.kernel_key, 1 * MS);
                submit(&h, c[i], &k[i]);
        }
        harness_run(&h, 100 * US);
        evict(c[0]);
        harness_run(&h, 110 * US);
        cr_assert_eq(h.device->n_kept, 1);
        for (int i = 0; i < 3; i++)
                ds_sched_session_cancel(s[i], DS_CUDA_LAUNCH_FAILED, harness_now(&h));
        cr_assert_eq(k[0].done, 1);
        cr_assert_eq(h.device->drops, 1);
        harness_run(&h, 300 * US);
        for (int i = 0; i < 3; i++) {
                cr_assert_eq(k[i].done, 1);
                cr_assert_eq(k[i].status, DS_CUDA_LAUNCH_FAILED);
                cr_assert(ds_sched_session_idle(s[i]), "%d", i);
        }
        cr_assert_eq(h.device->drops, 2);
        cr_assert_lt(k[1].script.ran, 2000, "it was asked to let go");
        cr_assert_eq(k[2].script.pieces, 4, "no slice was launched after that");
        end();
}

Test(sched_forms, a_hold_does_not_wait_for_evictable_kernels)
{
        uint32_t in_flight, all;
        ds_coroutine *c;
        struct top k;

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        submit(&h, c, forms_init(&k, 100 * MS, 1000, &sdev_forms));
        harness_run(&h, 1 * MS);
        ds_sched_hold(h.sched, 1u << DETSHARE_CLASS_BE, harness_now(&h));
        harness_run(&h, 2 * MS);
        ds_sched_load(h.sched, DETSHARE_CLASS_BE, &in_flight, &all);
        cr_assert_eq(in_flight, 0);
        cr_assert_eq(all, 1);
        ds_sched_hold(h.sched, 0, harness_now(&h));
        end();
        cr_assert_eq(k.script.ran, 1000);
        cr_assert_eq(k.end_ns, 2 * MS + 100 * MS - 1100 * US, "what had run has run");
}

/* A trace records every piece of a launch with its own times. */
Test(sched_forms, a_trace_shows_the_pieces)
{
        const struct ds_trace_record *records;
        struct ds_trace_header *header = calloc(1, DS_TRACE_BYTES_MIN);
        uint32_t pieces = 0;
        ds_coroutine *c;
        struct top k;

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        cr_assert_eq(ds_sched_trace_start(h.sched, header, DS_TRACE_BYTES_MIN, 0, UINT64_MAX), 0);
        submit(&h, c, forms_init(&k, 1 * MS, 1000, &sdev_forms));
        harness_run(&h, 200 * US);
        evict(c);
        harness_run(&h, 500 * US);
        on(c, 0);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(ds_sched_trace_stop(h.sched, harness_now(&h)), 0);
        records = (const void *)((const char *)header + header->records_at);
        for (uint64_t i = 0; i < header->written; i++) {
                if (records[i].kind != DS_TRACE_OPERATION)
                        continue;
                cr_assert_eq((records[i].flags & DS_TRACE_EVICTED) != 0, pieces == 0);
                cr_assert_eq(records[i].begin_ns, pieces ? 500 * US : 0);
                pieces++;
        }
        cr_assert_eq(pieces, 2);
        free(header);
        end();
}

/* --- the choice --------------------------------------------------------------------------------------------------- */

static void run_alone(ds_coroutine *c, struct top *k, uint64_t duration_ns, uint32_t permille)
{
        forms_init(k, duration_ns, 1280, &sdev_forms)->script.form_permille = permille;
        submit(&h, c, k);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k->done, 1);
        cr_assert_eq(k->status, 0);
}

static struct ds_sched_form_choice chosen(void)
{
        struct ds_sched_form_choice choice;

        cr_assert_eq(ds_sched_form_chosen(h.sched, KEY + 1280, &choice), 0);
        cr_assert_str_neq(ds_sched_form_reason(choice.reason), "unknown");
        return choice;
}

/* The device refuses a form, for example for lack of shared memory for its workers. The next launch runs the rest
 * natively, and the reason is reported. */
Test(sched_forms, a_form_that_the_device_refuses_is_not_chosen_again)
{
        static const uint32_t forms[] = {
                DS_PTX_FORM_NATIVE, DS_PTX_FORM_SLICED, DS_PTX_FORM_NATIVE, DS_PTX_FORM_NATIVE};
        ds_coroutine *c;
        struct top k[4];

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        for (int i = 0; i < 4; i++) {
                forms_init(&k[i], 1 * MS, 1280, &sdev_forms)->script.refuse_form = i % 2 ? 0 : DS_CUDA_INVALID_VALUE;
                submit(&h, c, &k[i]);
                harness_run(&h, UINT64_MAX);
                cr_assert_eq(k[i].status, 0);
                cr_assert_eq(k[i].op.form, forms[i], "launch %d", i);
                cr_assert_eq(chosen().form, forms[i], "launch %d", i);
                cr_assert_eq(chosen().reason, i == 1 ? DS_SCHED_FORM_MUST : DS_SCHED_FORM_REFUSED, "launch %d", i);
        }
        cr_assert_eq(harness_stats(&h).form_refusals, 2);
        end();
}

/* A kernel of 10 waves of 32 us: the native form would end too late. Both other forms cost 2%. */
Test(sched_forms, auto_tries_each_form_and_takes_the_cheapest)
{
        struct ds_sched_profile got[2];
        uint32_t tried[_DS_PTX_FORM_MAX] = {0};
        ds_coroutine *c;
        struct top k;

        begin(DS_SCHED_TRANSFORM_AUTO);
        c = be_open();
        for (int i = 0; i < 20; i++) {
                run_alone(c, &k, 320 * US, 1020);
                tried[k.op.form]++;
                if (i == 0)
                        cr_assert_eq(chosen().reason, DS_SCHED_FORM_UNKNOWN);
                if (i == 1)
                        cr_assert_eq(chosen().reason, DS_SCHED_FORM_TRIED);
        }
        cr_assert_eq(tried[DS_PTX_FORM_NATIVE], 1);
        cr_assert_eq(tried[DS_PTX_FORM_SLICED], 4);
        cr_assert_eq(chosen().reason, DS_SCHED_FORM_CHEAPEST);
        cr_assert_eq(chosen().form, DS_PTX_FORM_PERSISTENT);
        cr_assert_eq(chosen().costs[DS_PTX_FORM_PERSISTENT].permille, 1020);
        cr_assert_eq(chosen().native_ns, 320 * US);
        cr_assert_eq(chosen().block_ns, 32 * US);
        cr_assert_eq(chosen().evict_ns, 32 * US);
        cr_assert_eq(ds_sched_profiles_changed(h.sched, got, 2), 1);
        cr_assert_eq(got[0].forms[DS_PTX_FORM_SLICED].samples, 4);
        end();
        /* a new scheduler with stored costs, in which slices are cheaper */
        begin(DS_SCHED_TRANSFORM_AUTO);
        c = be_open();
        got[0].forms[DS_PTX_FORM_SLICED].permille = 1001;
        ds_sched_profile_put(h.sched, &got[0]);
        run_alone(c, &k, 320 * US, 1020);
        cr_assert_eq(k.op.form, DS_PTX_FORM_SLICED);
        cr_assert_eq(chosen().reason, DS_SCHED_FORM_CHEAPEST);
        /* a new scheduler with stored costs, in which no form pays */
        got[0].forms[DS_PTX_FORM_SLICED] = got[0].forms[DS_PTX_FORM_PERSISTENT] =
                (struct ds_sched_form_cost){.samples = 1000, .permille = 2000};
        ds_sched_profile_put(h.sched, &got[0]);
        run_alone(c, &k, 320 * US, 2000);
        cr_assert_eq(k.op.form, DS_PTX_FORM_NATIVE);
        cr_assert_eq(chosen().reason, DS_SCHED_FORM_DEAR);
        end();
}

Test(sched_forms, auto_keeps_short_and_unrequested_kernels_native)
{
        ds_coroutine *c, *ls;
        struct top k;

        begin(DS_SCHED_TRANSFORM_AUTO);
        c = be_open();
        put_profile(KEY + 1280, 90 * US);
        run_alone(c, &k, 90 * US, 0);
        cr_assert_eq(k.op.form, DS_PTX_FORM_NATIVE);
        cr_assert_eq(chosen().reason, DS_SCHED_FORM_SHORT);
        put_profile(KEY + 1280, 90 * US);
        end();
        begin(DS_SCHED_TRANSFORM_AUTO);
        c = be_open();
        ls = stream_open(session_open(&h, 2, DETSHARE_CLASS_LS, 0), 0, 0);
        put_profile(KEY + 1280, 400 * US);
        run_alone(ls, &k, 400 * US, 0);
        cr_assert_eq(k.op.form, DS_PTX_FORM_NATIVE);
        cr_assert_eq(chosen().reason, DS_SCHED_FORM_UNASKED);
        evictable = 0;
        run_alone(c, &k, 400 * US, 0);
        cr_assert_eq(k.op.form, DS_PTX_FORM_NATIVE);
        evictable = 1;
        run_alone(c, &k, 400 * US, 0);
        cr_assert_neq(k.op.form, DS_PTX_FORM_NATIVE);
        end();
}

/* A kernel of blocks of 2 ms: no form stops within the bound, but one stops after 2 ms instead of 20. */
Test(sched_forms, auto_takes_the_soonest_stop_with_long_blocks)
{
        ds_coroutine *c;
        struct top k;

        begin(DS_SCHED_TRANSFORM_AUTO);
        c = be_open();
        put_profile(KEY + 1280, 20 * MS);
        run_alone(c, &k, 20 * MS, 0);
        cr_assert_eq(k.op.form, DS_PTX_FORM_PERSISTENT);
        cr_assert_eq(chosen().reason, DS_SCHED_FORM_SOONEST);
        cr_assert_eq(chosen().evict_ns, 2 * MS);
        end();
}

/* After the stop word a worker may finish its block, and with larger chunks two more, within a bound of 100 us. */
Test(sched_forms, short_blocks_are_taken_several_at_a_time)
{
        static const struct {
                uint64_t block_ns, evict_ns;
                uint32_t chunk;
        } cases[] = {{1 * US, 9 * US, 7}, {2 * US, 8 * US, 2}, {4 * US, 16 * US, 2}, {5 * US, 20 * US, 2},
                {6 * US, 6 * US, 1}};

        for (size_t i = 0; i < DS_ARRAY_SIZE(cases); i++) {
                const uint64_t whole_ns = cases[i].block_ns * 1000;
                struct ds_sched_form_choice choice;
                ds_coroutine *c;
                struct top k;

                begin(DS_SCHED_TRANSFORM_AUTO);
                c = be_open();
                forms_init(&k, whole_ns, 128000, &sdev_forms);
                put_profile(k.op.kernel_key, whole_ns);
                submit(&h, c, &k);
                harness_step(&h);
                cr_assert_eq(record(0)->form, DS_PTX_FORM_PERSISTENT);
                cr_assert_eq(record(0)->chunk, cases[i].chunk);
                cr_assert_eq(ds_sched_form_chosen(h.sched, k.op.kernel_key, &choice), 0);
                cr_assert_eq(choice.evict_ns, cases[i].evict_ns);
                end();
        }
}

Test(sched_forms, never_is_never)
{
        ds_coroutine *c;
        struct top k;

        begin(DS_SCHED_TRANSFORM_NEVER);
        c = be_open();
        put_profile(KEY + 1280, 20 * MS);
        run_alone(c, &k, 20 * MS, 0);
        cr_assert_eq(k.op.form, DS_PTX_FORM_NATIVE);
        cr_assert_eq(chosen().reason, DS_SCHED_FORM_NEVER);
        cr_assert_eq(seen_can_evict, 0);
        end();
}

/* Kernels whose blocks wait for others get a form only if it cannot be a grid barrier, and only if a form is
 * mandatory. */
Test(sched_forms, kernels_that_wait_for_other_blocks)
{
        static const struct ds_sched_forms waiting = {
                .sliced = &sdev_sliced, .persistent = &sdev_persistent, .waits = 1};
        ds_coroutine *c;
        struct top k[3];

        begin(DS_SCHED_TRANSFORM_ALWAYS);
        c = be_open();
        submit(&h, c, forms_init(&k[0], 100 * US, 128, &waiting));
        submit(&h, c, forms_init(&k[1], 100 * US, 129, &waiting));
        forms_init(&k[2], 100 * US, 128, &sdev_forms)->op.launch.cooperative = 1;
        submit(&h, c, &k[2]);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k[0].op.form, DS_PTX_FORM_NATIVE);
        cr_assert_eq(k[1].op.form, DS_PTX_FORM_PERSISTENT);
        cr_assert_eq(k[2].op.form, DS_PTX_FORM_NATIVE);
        end();
        begin(DS_SCHED_TRANSFORM_AUTO);
        c = be_open();
        forms_init(&k[1], 20 * MS, 1280, &waiting);
        put_profile(k[1].op.kernel_key, 20 * MS);
        submit(&h, c, &k[1]);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k[1].op.form, DS_PTX_FORM_NATIVE);
        end();
}
