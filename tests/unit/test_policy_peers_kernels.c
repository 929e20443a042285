/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies that decide per kernel, compared with their published rules: REEF, Tally, KRISP
 *
 * Order and place are tested on the virtual clock. Killable kernels and profiles are tested with hand-made snapshots
 * (the "desk"), because the test's scheduler has neither.
 */
#include "tests/unit/policy_harness.h"

static struct ph_client *ls, *be, *be2;

static void open_policy(const char *name, const char *param)
{
        ph_open(8, name, param, NULL); /* 8 TPCs: 16 SMs */
        ls = ph_ls(0);
        be = ph_be();
        be2 = ph_be();
}

/* Runs each kernel once, so that its time is known, and then idles until no policy remembers it. */
static void know(struct ph_client *client, const struct ph_kernel *const *kernels, size_t n)
{
        for (size_t i = 0; i < n; i++)
                ph_submit(client, 0, kernels[i], 0);
        ph_run(UINT64_MAX);
}
#define KNOW(client, ...)                                              \
        do {                                                           \
                const struct ph_kernel *list_[] = {__VA_ARGS__};       \
                know(client, list_, sizeof(list_) / sizeof(list_[0])); \
        } while (0)

/* --- the desk: hand-made snapshots -------------------------------------------------------------------------------- */

#define DESK 4
static struct {
        struct detshare_session_view sessions[DESK];
        struct detshare_coroutine_view coroutines[DESK];
        struct detshare_op_view ahead[DESK][DETSHARE_AHEAD_MAX];
        struct detshare_action actions[64];
        struct detshare_snapshot snapshot;
        struct detshare_decision decision;
} desk;

/* Opens the policy with one client per class of the list, each with one empty coroutine; ids from 1. */
static void desk_open(const char *name, const char *param, const uint32_t *classes, uint32_t n)
{
        open_policy(name, param);
        memset(&desk, 0, sizeof(desk));
        for (uint32_t i = 0; i < n; i++) {
                desk.sessions[i] = (struct detshare_session_view){.id = i + 1, .class_ = classes[i]};
                desk.coroutines[i] = (struct detshare_coroutine_view){.id = i + 1,
                        .session = i,
                        .class_ = classes[i],
                        .rung = DETSHARE_RUNG_NONE,
                        .ahead = desk.ahead[i]};
        }
        desk.snapshot = (struct detshare_snapshot){.size = sizeof(desk.snapshot),
                .event_session = UINT32_MAX,
                .now_ns = MS,
                .n_sms = 16,
                .n_tpcs = 8,
                .n_coroutines = n,
                .n_sessions = n,
                .n_rungs = ph.sched->ladder.n,
                .coroutines = desk.coroutines,
                .sessions = desk.sessions,
                .rungs = ph.sched->ladder.views,
                .can_kill = 1};
}

static void desk_queue(uint32_t i, const struct detshare_op_view *op)
{
        desk.ahead[i][desk.coroutines[i].n_ahead++] = *op;
        desk.coroutines[i].queued++;
        desk.coroutines[i].ready = 1;
}

static void desk_pop(struct detshare_coroutine_view *coroutine, uint32_t index)
{
        memmove(desk.ahead[index], desk.ahead[index] + 1, sizeof(desk.ahead[0]) - sizeof(desk.ahead[0][0]));
        coroutine->n_ahead--;
        coroutine->queued--;
        coroutine->ready = coroutine->n_ahead != 0;
        coroutine->in_flight++;
}

/* Calls decide() and launches what it returns, until it requests no further call. */
static void desk_decide(void)
{
        ds_plugin *plugin = ph.sched->host.plugin;

        for (int again = 1, i = 0; again && i < 8; i++) {
                uint32_t n = i ? desk.decision.n : 0;

                desk.decision = (struct detshare_decision){.size = sizeof(desk.decision),
                        .capacity = DS_ARRAY_SIZE(desk.actions) - n,
                        .next_timer_ns = UINT64_MAX,
                        .actions = desk.actions + n};
                cr_assert_eq(plugin->policy->decide(plugin->state, &desk.snapshot, &desk.decision), 0);
                again = (int)desk.decision.again;
                desk.decision.n += n;
                for (uint32_t k = n; k < desk.decision.n; k++) {
                        uint32_t at = (uint32_t)desk.actions[k].coroutine - 1;

                        cr_assert_lt(at, DESK);
                        for (uint32_t c = 0; c < desk.actions[k].count && desk.coroutines[at].n_ahead; c++)
                                desk_pop(&desk.coroutines[at], at);
                }
        }
}

/* Number of actions of this kind for the coroutine. */
static uint32_t desk_actions(uint32_t kind, uint64_t coroutine)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < desk.decision.n; i++)
                n += desk.actions[i].kind == kind && desk.actions[i].coroutine == coroutine;
        return n;
}

static const struct detshare_op_view
        idempotent = {.kind = DETSHARE_OP_KERNEL, .blocks = 8, .blocks_per_sm = 1, .sms_needed = 8, .idempotent = 1},
        lasting = {.kind = DETSHARE_OP_KERNEL, .blocks = 8, .blocks_per_sm = 1, .sms_needed = 8},
        copy = {.kind = DETSHARE_OP_COPY, .bytes = 4096};

static const uint32_t be_and_ls[] = {DETSHARE_CLASS_BE, DETSHARE_CLASS_LS};

/* --- reef --------------------------------------------------------------------------------------------------------- */

static struct ph_kernel rt = {.name = "rt", .blocks = 4, .block_ns = US * 100};
static struct ph_kernel rt_wide = {.name = "rt_wide", .blocks = 12, .block_ns = US * 100};
static struct ph_kernel rt_full = {.name = "rt_full", .blocks = 16, .block_ns = US * 100};
static struct ph_kernel fits = {.name = "fits", .blocks = 12, .block_ns = US * 50};
static struct ph_kernel slow = {.name = "slow", .blocks = 12, .block_ns = US * 150};
static struct ph_kernel wide = {.name = "wide", .blocks = 16, .block_ns = US * 50};
static struct ph_kernel quick = {.name = "quick", .blocks = 40, .block_ns = US * 10};
static struct ph_kernel too_many = {.name = "too_many", .blocks = 41, .block_ns = US * 10};

static void reef_open(const char *param)
{
        open_policy("reef", param);
        PH_KERNELS_ARE(&rt, &rt_wide, &rt_full, &fits, &slow, &wide);
        KNOW(ls, &rt, &rt_wide, &rt_full);
        KNOW(be, &fits, &slow, &wide);
}

Test(policy_reef, best_effort_waits_while_there_is_ls_work)
{
        uint64_t begin;

        reef_open("padding=0");
        ph_loop(be, &fits, 8);
        ph_run_for(MS);
        begin = ph_now();
        ph_request(ls, &rt, 10);
        ph_run_for(2 * MS);
        cr_assert_eq(ph_latency(ls, 1000), MS, "LS does not wait");
        cr_assert_eq(ph_launches(be, begin + 1, begin + MS), 0);
        cr_assert_geq(ph_launches(be, begin + MS, begin + 2 * MS), 19);
        ph_close();
}

Test(policy_reef, a_queue_has_two_operations_on_the_device)
{
        reef_open(NULL);
        ph_loop(be, &fits, 8);
        ph_loop(be2, &fits, 8);
        for (int i = 0; i < 20; i++) {
                ph_run_for(20 * US);
                cr_assert_eq(ph_in_flight(be), 2);
                cr_assert_eq(ph_in_flight(be2), 2);
        }
        ph_close();
}

Test(policy_reef, kernels_that_cannot_be_killed_finish)
{
        reef_open("padding=0");
        ph_loop(be, &slow, 2);
        ph_run_for(10 * US);
        ph_request(ls, &rt, 1);
        ph_run_for(MS);
        cr_assert_eq(ph_stats().actions_ignored, 0);
        ph_close();
}

/* Runs an LS request of five kernels beside a queue of BE kernels. Returns the number of BE kernels that ran with
 * them. */
static uint32_t padded(const struct ph_kernel *real_time, const struct ph_kernel *best_effort)
{
        uint64_t begin;

        ph_request(ls, real_time, 5);
        for (int i = 0; i < 9; i++)
                ph_submit(be, 0, best_effort, 0);
        begin = ph_now();
        ph_run(begin + 500 * US - 1);
        cr_assert_eq(ph_launches(ls, begin, begin + 500 * US), 5, "LS is not delayed");
        cr_assert_eq(ph_last(ls)->launch_ns, begin + (ph_before(ls, 1)->launch_ns == begin ? 0 : 400 * US));
        return ph_launches(be, begin, begin + 500 * US);
}

Test(policy_reef, a_kernel_that_fits_pads_each_ls_kernel)
{
        reef_open(NULL);
        cr_assert_eq(padded(&rt, &fits), 5);
        for (uint32_t i = 0; i < 5; i++) {
                const struct ph_log *a = ph_before(ls, i), *b = ph_before(be, i);

                cr_assert_eq(a->launch_ns, b->launch_ns);
                cr_assert_eq(a->side, DETSHARE_SIDE_LOWER);
                cr_assert_eq(b->side, DETSHARE_SIDE_UPPER);
                cr_assert_geq(a->n_sms, 4);
                cr_assert_geq(b->n_sms, 12 - 1);
                cr_assert_leq(a->n_sms + b->n_sms, 16);
                cr_assert_eq(a->priority, DETSHARE_PRIORITY_HIGH);
        }
        ph_run_for(MS);
        cr_assert_eq(ph_latency(ls, 1000), 500 * US);
        ph_close();
}

Test(policy_reef, a_kernel_that_takes_longer_does_not)
{
        reef_open(NULL);
        cr_assert_eq(padded(&rt, &slow), 0);
        ph_close();
}

Test(policy_reef, a_kernel_with_too_many_blocks_does_not_fit)
{
        reef_open(NULL);
        cr_assert_eq(padded(&rt_wide, &wide), 0, "four SMs for two layers: eight blocks of sixteen");
        ph_close();
}

/* A layer of BE kernels takes 10 us: while the LS kernel runs, ten layers fit on the four free SMs, which is forty
 * blocks. */
Test(policy_reef, as_many_layers_as_the_ls_kernel_lasts_fit)
{
        reef_open(NULL);
        PH_KERNELS_ARE(&quick, &too_many);
        KNOW(be, &quick, &too_many);
        cr_assert_eq(padded(&rt_wide, &quick), 5);
        ph_run(UINT64_MAX);
        cr_assert_eq(padded(&rt_wide, &too_many), 0);
        ph_close();
}

Test(policy_reef, an_ls_kernel_that_fills_the_gpu_is_not_padded)
{
        reef_open(NULL);
        cr_assert_eq(padded(&rt_full, &fits), 0);
        ph_close();
}

Test(policy_reef, the_first_that_fits_pads)
{
        struct ph_client *third;

        reef_open(NULL);
        third = ph_be();
        ph_submit(be, 0, &slow, 0);
        ph_submit(be2, 0, &fits, 0);
        ph_submit(third, 0, &fits, 0);
        ph_request(ls, &rt, 1);
        ph_run(UINT64_MAX);
        cr_assert_eq(ph_last(be2)->side, DETSHARE_SIDE_UPPER);
        cr_assert_eq(ph_last(be2)->launch_ns, ph_last(ls)->launch_ns);
        cr_assert_eq(ph_last(third)->side, DETSHARE_SIDE_ALL, "after the request");
        cr_assert_eq(ph_last(be)->launch_ns, ph_last(ls)->end_ns);
        ph_close();
}

Test(policy_reef, nothing_pads_where_several_ls_queues_work)
{
        struct ph_client *other;

        reef_open(NULL);
        other = ph_ls(0);
        ph_request(other, &rt, 5);
        cr_assert_eq(padded(&rt, &fits), 0);
        ph_run(UINT64_MAX);
        ph_close();
}

Test(policy_reef, idempotent_kernels_are_killed_when_ls_comes)
{
        desk_open("reef", NULL, be_and_ls, 2);
        for (int i = 0; i < 3; i++)
                desk_queue(0, &idempotent);
        desk_decide();
        cr_assert_eq(desk.coroutines[0].in_flight, 2);
        desk_queue(1, &lasting);
        desk_decide();
        cr_assert_eq(desk_actions(DETSHARE_ACTION_KILL, 1), 1);
        cr_assert_eq(desk_actions(DETSHARE_ACTION_LAUNCH, 2), 1, "and LS goes at once");
        cr_assert_eq(desk.actions[0].kind, DETSHARE_ACTION_KILL);
        desk_decide();
        cr_assert_eq(desk_actions(DETSHARE_ACTION_KILL, 1), 0, "once");
        ph_close();
}

Test(policy_reef, killed_kernels_are_launched_again)
{
        desk_open("reef", NULL, be_and_ls, 2);
        desk_queue(0, &idempotent);
        desk_decide();
        desk_queue(1, &lasting);
        desk_decide();
        cr_assert_eq(desk_actions(DETSHARE_ACTION_KILL, 1), 1);
        desk.coroutines[0].in_flight = desk.coroutines[1].in_flight = 0;
        desk_queue(0, &idempotent);
        desk_decide();
        cr_assert_eq(desk.coroutines[0].in_flight, 1);
        desk_queue(1, &lasting);
        desk_decide();
        cr_assert_eq(desk_actions(DETSHARE_ACTION_KILL, 1), 1, "and may be killed again");
        ph_close();
}

Test(policy_reef, others_are_waited_for)
{
        const struct detshare_op_view *const first[] = {&lasting, &idempotent, &copy, &idempotent};
        const struct detshare_op_view *const second[] = {&idempotent, &lasting, &idempotent, &copy};

        for (int i = 0; i < 4; i++) {
                desk_open("reef", NULL, be_and_ls, 2);
                desk_queue(0, first[i]);
                desk_queue(0, second[i]);
                desk_decide();
                desk_queue(1, &lasting);
                desk_decide();
                cr_assert_eq(desk_actions(DETSHARE_ACTION_KILL, 1), 0, "%d", i);
                cr_assert_eq(desk_actions(DETSHARE_ACTION_LAUNCH, 2), 1);
                ph_close();
        }
}

Test(policy_reef, ended_kernels_do_not_count)
{
        desk_open("reef", NULL, be_and_ls, 2);
        desk_queue(0, &lasting);
        desk_queue(0, &idempotent);
        desk_decide();
        desk.coroutines[0].in_flight = 1; /* the coroutine's first kernel has ended, and one is still in flight */
        desk_queue(1, &lasting);
        desk_decide();
        cr_assert_eq(desk_actions(DETSHARE_ACTION_KILL, 1), 1);
        ph_close();
}

Test(policy_reef, kernels_of_another_policy_are_not_killed)
{
        desk_open("reef", NULL, be_and_ls, 2);
        desk.coroutines[0].in_flight = 1;
        desk_queue(0, &idempotent);
        desk_decide();
        cr_assert_eq(desk.coroutines[0].in_flight, 2);
        desk_queue(1, &lasting);
        desk_decide();
        cr_assert_eq(desk_actions(DETSHARE_ACTION_KILL, 1), 0);
        ph_close();
}

Test(policy_reef, nothing_is_killed_where_the_device_cannot)
{
        desk_open("reef", NULL, be_and_ls, 2);
        desk.snapshot.can_kill = 0;
        desk_queue(0, &idempotent);
        desk_decide();
        desk_queue(1, &lasting);
        desk_decide();
        cr_assert_eq(desk_actions(DETSHARE_ACTION_KILL, 1), 0);
        ph_close();
}

Test(policy_reef, padding_kernels_are_not_killed)
{
        struct detshare_op_view long_ = lasting, short_ = idempotent;

        desk_open("reef", NULL, be_and_ls, 2);
        long_.samples = short_.samples = 1;
        long_.blocks = 4;
        long_.expected_ns = 100 * US;
        short_.expected_ns = 50 * US;
        desk_queue(0, &short_);
        desk_queue(1, &long_);
        desk_queue(1, &long_);
        desk_decide();
        cr_assert_eq(desk.coroutines[0].in_flight, 1, "pads");
        cr_assert_eq(desk_actions(DETSHARE_ACTION_KILL, 1), 0);
        cr_assert_eq(desk.coroutines[1].in_flight, 1);
        desk.coroutines[1].in_flight = 0;
        desk_decide();
        cr_assert_eq(desk_actions(DETSHARE_ACTION_KILL, 1), 0);
        cr_assert_eq(desk.coroutines[1].in_flight, 1, "the next one does not wait for it");
        ph_close();
}

Test(policy_reef, a_killed_kernel_runs_again_after_ls)
{
        struct ph_kernel victim = {.name = "victim", .blocks = 16, .block_ns = US * 2000};
        uint64_t begin;

        reef_open("padding=0");
        PH_KERNELS_ARE(&victim);
        victim.device.info.idempotent = 1;
        begin = ph_now();
        ph_submit(be, 0, &victim, 0);
        ph_submit(be, 0, &slow, 0);
        ph_run_for(MS);
        ph_submit(be2, 0, &victim, 0);
        ph_request(ls, &rt, 3);
        ph_run(UINT64_MAX);
        cr_assert_eq(ph_latency(ls, 1000), 300 * US);
        cr_assert_eq(ph_last(be2)->launch_ns, begin + MS + 300 * US);
        cr_assert_eq(ph_last(be)->kernel, &slow, "what was not idempotent was in flight, too: waited for");
        cr_assert_eq(ph_last(be)->launch_ns, begin);
        ph_submit(be2, 0, &victim, 0);
        ph_run_for(MS);
        ph_request(ls, &rt, 3);
        ph_run(UINT64_MAX);
        cr_assert_eq(ph_last(be2)->launch_ns, ph_last(ls)->end_ns, "it begins anew");
        cr_assert_eq(ph_last(be2)->end_ns - ph_last(be2)->start_ns, 2 * MS);
        cr_assert_eq(ph_stats().kills, 1);
        ph_close();
}

/* --- tally -------------------------------------------------------------------------------------------------------- */

static struct ph_kernel brief = {.name = "brief", .blocks = 16, .block_ns = US * 90};
static struct ph_kernel longer = {.name = "longer", .blocks = 16, .block_ns = US * 2000};
static struct ph_kernel fine = {.name = "fine", .blocks = 1600, .block_ns = US * 150};
static struct ph_kernel together = {.name = "together", .blocks = 16, .block_ns = US * 2000, .all_resident = 1};

static void tally_open(void)
{
        open_policy("tally", NULL);
        PH_KERNELS_ARE(&rt, &rt_wide, &rt_full, &brief, &longer, &fine, &together);
        KNOW(be, &brief, &longer, &fine, &together);
}

/* Launch of a BE kernel that was queued when LS became idle; *ret_wait_ns is the time until it started. */
static const struct ph_log *after_ls(
        const struct ph_kernel *ls_kernel, const struct ph_kernel *be_kernel, uint64_t *ret_wait_ns)
{
        uint64_t end;

        ph_request(ls, ls_kernel, 3);
        ph_submit(be, 0, be_kernel, 0);
        ph_run_for(300 * US);
        end = ph_now();
        cr_assert_eq(ls->running, 0);
        ph_run(UINT64_MAX);
        *ret_wait_ns = ph_last(be)->launch_ns - end;
        return ph_last(be);
}

Test(policy_tally, best_effort_goes_when_ls_was_idle_for_100_us)
{
        uint64_t wait_ns;

        tally_open();
        after_ls(&rt, &brief, &wait_ns);
        cr_assert_eq(wait_ns, 100 * US);
        ph_close();
}

Test(policy_tally, ls_is_launched_at_once)
{
        tally_open();
        ph_loop(be, &longer, 1);
        ph_run_for(500 * US);
        ph_request(ls, &rt, 3);
        ph_run_for(MS);
        cr_assert_eq(ph_latency(ls, 1000), 300 * US);
        cr_assert_eq(ph_last(ls)->priority, DETSHARE_PRIORITY_HIGH);
        ph_close();
}

Test(policy_tally, one_best_effort_kernel_is_in_flight)
{
        uint64_t busy;

        tally_open();
        ph_loop(be, &brief, 4);
        ph_loop(be2, &brief, 4);
        for (int i = 0; i < 50; i++) {
                ph_run_for(33 * US);
                cr_assert_eq(ph_in_flight(be) + ph_in_flight(be2), 1);
        }
        busy = ph_busy(be, ph_now() - MS, ph_now());
        cr_assert(busy > 400 && busy < 600, "in turn: %lu", (unsigned long)busy);
        ph_close();
}

Test(policy_tally, short_kernels_run_as_originals)
{
        uint64_t wait_ns;

        tally_open();
        cr_assert_eq(after_ls(&rt, &brief, &wait_ns)->n_sms, 16);
        ph_close();
}

Test(policy_tally, long_kernels_leave_the_sms_that_ls_needs)
{
        uint64_t wait_ns;
        const struct ph_log *log;

        tally_open();
        log = after_ls(&rt, &longer, &wait_ns);
        cr_assert_eq(wait_ns, 100 * US);
        cr_assert_eq(log->side, DETSHARE_SIDE_UPPER);
        cr_assert_eq(log->n_sms, 12, "the largest that leaves four");
        ph_close();
}

Test(policy_tally, many_short_blocks_give_way_by_themselves)
{
        uint64_t wait_ns;
        const struct ph_log *log;

        tally_open();
        log = after_ls(&rt_full, &fine, &wait_ns);
        cr_assert_eq(wait_ns, 100 * US);
        cr_assert_eq(log->side, DETSHARE_SIDE_UPPER);
        cr_assert_geq(log->n_sms, 14, "half a wave is 75 us: the fastest");
        ph_close();
}

Test(policy_tally, long_blocks_that_ls_would_wait_for_do_not_run_before_100_ms)
{
        uint64_t wait_ns;

        tally_open();
        cr_assert_eq(after_ls(&rt_full, &longer, &wait_ns)->n_sms, 16);
        cr_assert_eq(wait_ns, 100 * MS);
        ph_close();
}

Test(policy_tally, blocks_that_must_be_resident_are_not_confined)
{
        uint64_t wait_ns;

        tally_open();
        cr_assert_eq(after_ls(&rt, &together, &wait_ns)->n_sms, 16);
        cr_assert_eq(wait_ns, 100 * MS);
        ph_close();
}

Test(policy_tally, originals_after_100_ms_without_ls)
{
        tally_open();
        ph_loop(be, &longer, 1);
        ph_request(ls, &rt, 1);
        ph_run_for(50 * MS);
        cr_assert_eq(ph_last(be)->n_sms, 12);
        ph_run_for(60 * MS);
        cr_assert_eq(ph_last(be)->n_sms, 16);
        ph_close();
}

Test(policy_tally, unknown_kernels_run_as_originals)
{
        struct ph_kernel unknown = longer;
        uint64_t wait_ns;

        unknown.name = "unknown";
        tally_open();
        PH_KERNELS_ARE(&unknown);
        cr_assert_eq(after_ls(&rt_full, &unknown, &wait_ns)->n_sms, 16);
        cr_assert_eq(wait_ns, 100 * US);
        ph_close();
}

Test(policy_tally, a_form_that_is_too_slow_is_not_taken)
{
        uint64_t wait_ns;

        tally_open();
        /* on 12 SMs the kernel has half of its speed, below the required 60% */
        ph_set_policy("tally", "slowest_percent=60", NULL);
        cr_assert_eq(after_ls(&rt, &longer, &wait_ns)->n_sms, 16);
        cr_assert_eq(wait_ns, 100 * MS);
        ph_close();
}

Test(policy_tally, the_need_of_ls_is_known_for_a_second)
{
        static const uint32_t at_ms[] = {900, 600, 1100}, n_sms[] = {4, 4, 12};

        tally_open();
        /* half a wave of the kernel is longer than the bound, so it runs on the SMs that LS leaves */
        ph_set_policy("tally", "bound_us=60", NULL);
        ph_run_for(MS);
        ph_every(ls, &rt, 1, 10 * MS, 300);
        ph_request(ls, &rt_wide, 1);
        for (int i = 0; i < 3; i++) {
                ph_run_for(at_ms[i] * MS);
                ph_submit(be, 0, &fine, 0);
                ph_run_for(50 * MS);
                cr_assert_eq(ph_last(be)->n_sms, n_sms[i], "%d: %u", i, ph_last(be)->n_sms);
        }
        ph_close();
}

Test(policy_tally, nobody_waits_longer_than_the_patience)
{
        uint64_t begin;

        tally_open();
        begin = ph_now();
        ph_every(ls, &rt_full, 1, 10 * MS, 200);
        ph_submit(be, 0, &longer, 0);
        ph_run_for(1500 * MS);
        cr_assert_geq(ph_last(be)->launch_ns, begin + 1000 * MS);
        cr_assert_leq(ph_last(be)->launch_ns, begin + 1010 * MS);
        ph_close();
}

/* --- krisp -------------------------------------------------------------------------------------------------------- */

static struct ph_kernel small = {.name = "small", .blocks = 4, .block_ns = US * 100};
static struct ph_kernel half = {.name = "half", .blocks = 8, .block_ns = US * 100};
static struct ph_kernel two_waves = {.name = "two_waves", .blocks = 24, .block_ns = US * 100};
static struct ph_kernel large = {.name = "large", .blocks = 12, .block_ns = US * 100};
static struct ph_kernel all = {.name = "all", .blocks = 16, .block_ns = US * 100};

static void krisp_open(const char *param)
{
        open_policy("krisp", param);
        PH_KERNELS_ARE(&small, &half, &two_waves, &large, &all);
}

Test(policy_krisp, a_kernel_gets_the_fewest_sms_that_cost_no_wave)
{
        const struct {
                const struct ph_kernel *kernel;
                uint32_t n_sms;
        } rows[] = {{&small, 4}, {&half, 8}, {&two_waves, 12}, {&large, 12}, {&all, 16}};

        krisp_open(NULL);
        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                ph_submit(be, 0, rows[i].kernel, 0);
                ph_run(UINT64_MAX);
                cr_assert_eq(ph_last(be)->n_sms, rows[i].n_sms, "%s: %u", rows[i].kernel->name, ph_last(be)->n_sms);
        }
        ph_close();
}

Test(policy_krisp, each_kernel_of_a_model_gets_its_own)
{
        krisp_open(NULL);
        for (int i = 0; i < 3; i++) {
                ph_submit(ls, 0, &small, 0);
                ph_submit(ls, 0, &all, 0);
        }
        ph_run(UINT64_MAX);
        for (uint32_t i = 0; i < 6; i++) {
                cr_assert_eq(ph_nth(ls, i)->n_sms, i % 2 ? 16 : 4);
                cr_assert(i < 1 || ph_nth(ls, i)->start_ns >= ph_nth(ls, i - 1)->end_ns, "in order");
                cr_assert(i < 2 || ph_nth(ls, i)->launch_ns >= ph_nth(ls, i - 2)->end_ns, "on two at most");
                cr_assert(i < 1 || ph_nth(ls, i)->launch_ns < ph_nth(ls, i - 1)->end_ns, "and on the next beforehand");
        }
        ph_close();
}

static void assert_apart(const struct ph_log *a, const struct ph_log *b)
{
        const struct detshare_rung_view *rungs = ph.sched->ladder.views;

        cr_assert_eq(rungs[a->rung].tpcs[0] & rungs[b->rung].tpcs[0], 0);
        cr_assert_eq(a->launch_ns, b->launch_ns);
}

Test(policy_krisp, kernels_that_run_at_one_time_are_apart)
{
        krisp_open(NULL);
        ph_submit(be, 0, &small, 0);
        ph_submit(ls, 0, &large, 0);
        ph_run(UINT64_MAX);
        assert_apart(ph_last(be), ph_last(ls));
        cr_assert_eq(ph_last(be)->n_sms, 4);
        cr_assert_eq(ph_last(ls)->n_sms, 12);
        ph_close();
}

Test(policy_krisp, a_kernel_that_does_not_fit_takes_the_free_sms)
{
        krisp_open(NULL);
        ph_submit(be, 0, &half, 0);
        ph_submit(be2, 0, &large, 0);
        ph_run(UINT64_MAX);
        assert_apart(ph_last(be), ph_last(be2));
        cr_assert_eq(ph_last(be2)->n_sms, 8);
        ph_close();
}

Test(policy_krisp, or_waits_where_that_is_too_little)
{
        uint64_t begin;

        krisp_open(NULL);
        ph_set_policy("krisp", "shrink_percent=80", "overlap_percent=0", NULL);
        begin = ph_now();
        ph_submit(be, 0, &half, 0);
        ph_submit(be2, 0, &large, 0);
        ph_run(UINT64_MAX);
        cr_assert_eq(ph_last(be2)->n_sms, 12);
        cr_assert_eq(ph_last(be2)->launch_ns, begin + 100 * US);
        ph_close();
}

/* A small and a large kernel fill the GPU. Returns the place of a small third kernel; *ret_wait_ns is its delay. */
static const struct ph_log *third_of(const char *param, uint64_t *ret_wait_ns)
{
        struct ph_client *third;
        uint64_t begin;

        krisp_open(param);
        third = ph_be();
        begin = ph_now();
        ph_submit(be, 0, &small, 0);
        ph_submit(be2, 0, &large, 0);
        ph_submit(third, 0, &small, 0);
        ph_run(UINT64_MAX);
        *ret_wait_ns = ph_last(third)->launch_ns - begin;
        return ph_last(third);
}

Test(policy_krisp, where_nothing_is_free_partitions_overlap)
{
        uint64_t wait_ns;

        cr_assert_eq(third_of(NULL, &wait_ns)->n_sms, 4);
        cr_assert_eq(wait_ns, 0);
        ph_close();
}

Test(policy_krisp, or_wait_where_they_must_not)
{
        uint64_t wait_ns;

        cr_assert_eq(third_of("overlap_percent=0", &wait_ns)->n_sms, 4);
        cr_assert_eq(wait_ns, 100 * US);
        ph_close();
}

Test(policy_krisp, overlap_is_minimal)
{
        krisp_open("shrink_percent=100");
        ph_submit(be, 0, &half, 0);
        ph_submit(be2, 0, &large, 0);
        ph_run(UINT64_MAX);
        cr_assert_eq(ph_last(be2)->launch_ns, ph_last(be)->launch_ns);
        cr_assert_eq(ph_last(be2)->n_sms, 12);
        cr_assert_neq(ph_last(be2)->side, ph_last(be)->side, "four SMs of twelve in common, not eight");
        ph_close();
}

Test(policy_krisp, nobody_is_overtaken_for_longer_than_the_patience)
{
        uint64_t begin;

        krisp_open(NULL);
        ph_set_policy("krisp", "overlap_percent=0", "shrink_percent=100", NULL);
        ph_loop(be, &small, 1);
        ph_run_for(50 * US);
        ph_loop(be2, &large, 1);
        ph_run_for(US);
        begin = ph_now();
        ph_submit(ls, 0, &all, 0);
        ph_run_for(30 * MS);
        cr_assert_geq(ph_last(ls)->launch_ns, begin + 10 * MS - 100 * US);
        cr_assert_leq(ph_last(ls)->launch_ns, begin + 10 * MS + 200 * US);
        cr_assert_gt(ph_last(be)->launch_ns, ph_last(ls)->launch_ns);
        ph_close();
}

Test(policy_krisp, clients_are_equals)
{
        krisp_open(NULL);
        ph_submit(be, 0, &small, 0);
        ph_submit(ls, 0, &small, 0);
        ph_run(UINT64_MAX);
        cr_assert_eq(ph_last(be)->priority, ph_last(ls)->priority);
        ph_close();
}

Test(policy_krisp, a_coroutine_has_as_much_on_the_device_as_its_depth)
{
        open_policy("krisp", "depth=2");
        PH_KERNELS_ARE(&small);
        KNOW(be, &small);
        ph_loop(be, &small, 5);
        for (int i = 0; i < 20; i++) {
                ph_run_for(33 * US);
                cr_assert_eq(ph_in_flight(be), 2);
        }
        ph_close();
}

Test(policy_krisp, copies_take_no_sms)
{
        struct detshare_op_view kernel = lasting;

        desk_open("krisp", "overlap_percent=0", be_and_ls, 2);
        kernel.blocks = 16;
        desk_queue(0, &kernel);
        desk_decide();
        desk.coroutines[0].rung = 0;
        desk.coroutines[0].in_flight_sms = 16;
        desk_queue(1, &copy);
        desk_decide();
        cr_assert_eq(desk_actions(DETSHARE_ACTION_LAUNCH, 2), 1);
        desk.coroutines[1].in_flight = 0;
        desk_queue(1, &kernel);
        desk_decide();
        cr_assert_eq(desk_actions(DETSHARE_ACTION_LAUNCH, 2), 0);
        ph_close();
}

static uint32_t krisp_size(const struct detshare_profile_point *points, uint32_t n, uint32_t tolerance)
{
        struct detshare_op_view op = lasting;
        char param[64];

        snprintf(param, sizeof(param), "tolerance_permille=%u", tolerance);
        desk_open("krisp", param, be_and_ls, 1);
        op.blocks = 16;
        op.points = points;
        op.n_points = n;
        desk_queue(0, &op);
        desk_decide();
        cr_assert_eq(desk.decision.n, 1);
        n = ph.sched->ladder.views[desk.actions[0].rung].n_sms;
        ph_close();
        return n;
}

Test(policy_krisp, a_profile_says_which_size_is_right)
{
        const struct detshare_profile_point stairs[] = {
                {4, 1, 200 * US}, {8, 1, 103 * US}, {10, 1, 101 * US}, {16, 1, 100 * US}};

        cr_assert_eq(krisp_size(stairs, 4, 0), 16);
        cr_assert_eq(krisp_size(stairs, 4, 10), 10);
        cr_assert_eq(krisp_size(stairs, 4, 20), 10);
        cr_assert_eq(krisp_size(stairs, 4, 30), 8);
        cr_assert_eq(krisp_size(stairs, 4, 1000), 4);
        cr_assert_eq(krisp_size(stairs + 3, 1, 900), 16, "one point says nothing about fewer");
}

/* --- random work under every policy ------------------------------------------------------------------------------- */

static uint64_t dice_state;

static uint32_t dice(uint32_t n)
{
        dice_state = dice_state * 6364136223846793005ull + 1442695040888963407ull;
        return (uint32_t)(dice_state >> 33) % n;
}

#define DICE_KERNELS 8

/* Kernels of all kinds from clients of both classes, at once and with gaps, on several streams. */
static void throw_dice(const char *policy, uint64_t seed)
{
        struct ph_kernel kernels[DICE_KERNELS] = {{0}};
        struct ph_client *clients[5];
        char names[DICE_KERNELS][8];

        dice_state = seed;
        ph_open(8, policy, NULL);
        for (uint32_t i = 0; i < DICE_KERNELS; i++) {
                struct ph_kernel *kernel = &kernels[i], *const list[] = {kernel};

                snprintf(names[i], sizeof(names[i]), "k%u", i);
                *kernel = (struct ph_kernel){.name = names[i],
                        .blocks = 1 + dice(40),
                        .per_sm = 1 + dice(4),
                        .block_ns = US * (1 + dice(i < 6 ? 50 : 3000)),
                        .all_resident = !dice(8)};
                ph_kernels(list, 1);
                kernel->device.info.idempotent = dice(2);
        }
        for (uint32_t i = 0; i < 5; i++) {
                clients[i] = i < 2 ? ph_ls(i * MS) : ph_be();
                clients[i]->gap_us = dice(2) * 10;
        }
        for (uint32_t i = 0; i < 400; i++) {
                struct ph_client *client = clients[dice(5)];

                if (dice(2))
                        ph_submit(client, dice(PH_STREAMS), &kernels[dice(DICE_KERNELS)], 0);
                else
                        ph_request(client, &kernels[dice(6)], 1 + dice(20));
                if (!dice(3))
                        ph_run_for(US * dice(dice(10) ? 300 : 30000));
        }
        ph_close(); /* asserts that everything ended, no action was senseless, and no policy was replaced */
}

Test(policy_dice, nothing_is_lost_and_nobody_stands_still)
{
        static const char *const policies[] = {"temporal", "orion", "tgs", "reef", "tally", "krisp", "sgdrc",
                "sgdrc-static", "paella", "gemini", "antman", "edf", "tpot-first", "multistream", "static", "detshare"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(policies); i++)
                for (uint64_t seed = 1; seed <= 8; seed++)
                        throw_dice(policies[i], seed);
}
