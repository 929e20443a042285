/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally: best-effort work in the gaps, one kernel at a time, in a form that latency-sensitive work waits for only
 * briefly
 *
 * The priority rule of Tally (Zhao, Jayarajan, Pekhimenko, ASPLOS'25) as its public code has it (tally-project/tally,
 * scheduler/priority.cpp):
 *
 * - LS (high-priority) work is launched at once, at high priority.
 * - Best effort has at most one kernel in flight, and only while LS has nothing queued, nothing on the device, and has
 *   been idle for 0.1 ms.
 * - Each best-effort kernel runs in the fastest form with an expected turnaround (the time that LS would wait for it)
 *   of at most 0.1 ms: the original, or one that can be interrupted.
 * - After 100 ms without LS work kernels run as originals.
 * - LS work that arrives takes the GPU back from an interruptible form, and is not launched later for that. The kernel
 *   resumes where it was, by the rules above.
 *
 * Differences. Tally rewrites kernels: persistent blocks that look at a flag, and slices. It times each with several
 * numbers of blocks or slices and takes the fastest. Where none is good enough it takes fewer blocks or more slices, as
 * many as should keep the bound, or the original. Here the forms are these, fastest first:
 *
 * - the original, on all SMs: LS waits for all of it, as in Tally, so its turnaround is its expected time;
 * - an evictable form, on all SMs, where the daemon has transformed the kernel: it is evicted when LS work arrives. The
 *   host chooses persistent or sliced, and the number of blocks, by measured cost as in Tally (daemon/sched/forms.h).
 *   Its turnaround is half of an eviction's maximum, as Tally has it for persistent blocks. `evict=0` excludes it;
 * - confined to a rung of the upper side, from the largest to the smallest, because most kernels (machine code without
 *   PTX) have no evictable form, and Tally runs those as originals. LS starts on the remaining SMs. If these are as
 *   many as LS kernels needed lately (the largest need of the last one to two seconds), it does not wait; otherwise for
 *   half a wave of the kernel's blocks;
 * - not at all, where even the smallest rung is too slow (below a tenth of the original's speed, Tally's lowest step)
 *   or LS would wait too long: until LS has been idle for 100 ms, or the kernel has waited for `patience_ms`.
 *
 * A kernel of unknown duration runs as the original, which is how Tally profiles it. A kernel whose blocks must all be
 * resident has no confined form where they do not fit. Copies and memsets count as one original kernel.
 *
 * Only beside LS work that leaves no gap of 0.1 ms does best effort starve: that is the rule.
 */
#include "policies/round.h"
#include "policies/size.h"
#include "policies/stair.h"

#define MS 1000000ull
#define NEED_NS (1000 * MS)

struct tally {
        uint64_t wait_ns, bound_ns, original_ns, patience_ns;
        uint32_t slowest; /* lowest permitted speed of a confined kernel, percent of its speed on all SMs */
        uint32_t ls_depth, evict;

        uint64_t idle_ns; /* time since when LS is idle, ns; 0: it never had work */
        uint32_t busy;    /* 1: LS had work at the last decision */
        uint32_t need, need_before;
        uint64_t need_until_ns;
        uint64_t last_be;
};

static const struct detshare_policy_param params[] = {
        {.name = "wait_us", .help = "LS idle time before BE starts, us", .def = 100, .min = 0, .max = 1000000},
        {.name = "bound_us",
                .help = "longest time that LS may wait for a BE kernel, us",
                .def = 100,
                .min = 1,
                .max = 1000000},
        {.name = "original_ms",
                .help = "time without LS after which BE kernels run in their original form, ms",
                .def = 100,
                .min = 0,
                .max = 1000000},
        {.name = "patience_ms",
                .help = "wait at the head of its queue after which a BE kernel runs in its original form, ms",
                .def = 1000,
                .min = 0,
                .max = 1000000},
        {.name = "slowest_percent",
                .help = "slowest form that may be chosen, percent of the original's speed",
                .def = 10,
                .min = 1,
                .max = 100},
        ROUND_LS_DEPTH_PARAM,
        {.name = "evict",
                .help = "1: an evictable form may be chosen where a kernel has one; 0: never",
                .def = 1,
                .min = 0,
                .max = 1},
};

/* Form of a kernel. */
struct form {
        uint32_t rung; /* DETSHARE_RUNG_NONE: the kernel must wait */
        uint32_t lets_go;
};

static int tally_init(void *state, const struct detshare_policy_config *config)
{
        struct tally *tally = state;

        tally->wait_ns = (uint64_t)config->params[0] * 1000;
        tally->bound_ns = (uint64_t)config->params[1] * 1000;
        tally->original_ns = (uint64_t)config->params[2] * MS;
        tally->patience_ns = (uint64_t)config->params[3] * MS;
        tally->slowest = (uint32_t)config->params[4];
        tally->ls_depth = (uint32_t)config->params[5];
        tally->evict = (uint32_t)config->params[6];
        return 0;
}

/* Updates the largest SM need of LS kernels, over the present second and the previous one. */
static void look_at_need(struct tally *tally, const struct detshare_snapshot *snapshot)
{
        if (snapshot->now_ns >= tally->need_until_ns) {
                tally->need_before = snapshot->now_ns - tally->need_until_ns < NEED_NS ? tally->need : 0;
                tally->need = 0;
                tally->need_until_ns = snapshot->now_ns + NEED_NS;
        }
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                for (uint32_t k = 0; coroutine->class_ == DETSHARE_CLASS_LS && k < coroutine->n_ahead; k++)
                        if (coroutine->ahead[k].sms_needed > tally->need)
                                tally->need = coroutine->ahead[k].sms_needed;
        }
}

/* Expected time for which LS work would wait for this kernel on this rung, ns. */
static uint64_t turnaround(const struct tally *tally, const struct detshare_snapshot *snapshot,
        const struct detshare_op_view *op, uint32_t rung)
{
        uint32_t need = tally->need > tally->need_before ? tally->need : tally->need_before;
        uint32_t sms = snapshot->rungs[rung].n_sms;

        if (!rung)
                return stair_time(op, sms, sms);
        if (snapshot->n_sms - sms >= need)
                return 0;
        return stair_time(op, sms, snapshot->n_sms) / size_waves(op, sms) / 2;
}

/* Whether the kernel can be confined to this rung and is fast enough there. */
static int is_form(const struct tally *tally, const struct detshare_snapshot *snapshot,
        const struct detshare_op_view *op, uint32_t rung)
{
        uint32_t sms = snapshot->rungs[rung].n_sms;

        if (op->all_resident && size_waves(op, sms) > 1)
                return 0;
        return stair_time(op, sms, snapshot->n_sms) * tally->slowest <=
               stair_time(op, snapshot->n_sms, snapshot->n_sms) * 100;
}

/* Whether the kernel can be evicted, and half of its longest eviction is within the turnaround bound. */
static int lets_go(const struct tally *tally, const struct detshare_op_view *op)
{
        return tally->evict && op->evict_ns && op->evict_ns / 2 <= tally->bound_ns;
}

/* The fastest form with a turnaround within the bound. */
static struct form choose(
        const struct tally *tally, const struct detshare_snapshot *snapshot, const struct detshare_op_view *op)
{
        uint32_t sms = snapshot->n_sms - 1, rung;

        if (op->kind != DETSHARE_OP_KERNEL || !stair_known(op) || turnaround(tally, snapshot, op, 0) <= tally->bound_ns)
                return (struct form){0};
        if (lets_go(tally, op))
                return (struct form){.lets_go = 1};
        while ((rung = size_rung(snapshot, DETSHARE_SIDE_UPPER, sms, NULL))) {
                if (is_form(tally, snapshot, op, rung) && turnaround(tally, snapshot, op, rung) <= tally->bound_ns)
                        return (struct form){.rung = rung};
                sms = snapshot->rungs[rung].n_sms - 1;
        }
        return (struct form){.rung = DETSHARE_RUNG_NONE};
}

static void wake_at(struct detshare_decision *decision, uint64_t at_ns)
{
        if (at_ns < decision->next_timer_ns)
                decision->next_timer_ns = at_ns;
}

/* Launches the next best-effort coroutine in turn whose kernel may go now. */
static void launch_be(struct tally *tally, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        uint32_t first = round_first(snapshot, tally->last_be);
        int original = !tally->idle_ns || snapshot->now_ns - tally->idle_ns >= tally->original_ns;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *be = round_at(snapshot, first, i);
                uint64_t until_ns = be->head_since_ns + tally->patience_ns;
                struct form form = {0};

                if (be->class_ != DETSHARE_CLASS_BE || !be->ready)
                        continue;
                if (!original && snapshot->now_ns < until_ns)
                        form = choose(tally, snapshot, &be->ahead[0]);
                if (form.rung != DETSHARE_RUNG_NONE) {
                        if (!round_launch(decision, be, form.rung, 1))
                                return;
                        tally->last_be = be->id;
                        decision->actions[decision->n - 1].evictable = form.lets_go;
                        return;
                }
                wake_at(decision, until_ns);
                wake_at(decision, tally->idle_ns + tally->original_ns);
        }
}

/* Evicts the best-effort kernels that can be evicted, because LS work has arrived. */
static void take_back(const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *be = &snapshot->coroutines[i];

                if (be->class_ != DETSHARE_CLASS_BE || !be->evictable)
                        continue;
                if (!round_launch(decision, be, 0, 0))
                        return;
                decision->actions[decision->n - 1].kind = DETSHARE_ACTION_EVICT;
        }
}

static int tally_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct tally *tally = state;

        look_at_need(tally, snapshot);
        if (round_is_busy(snapshot, DETSHARE_CLASS_LS))
                take_back(snapshot, decision);
        round_launch_class(snapshot, decision, DETSHARE_CLASS_LS, tally->ls_depth);
        if (round_is_busy(snapshot, DETSHARE_CLASS_LS)) {
                tally->busy = 1;
                return 0;
        }
        if (tally->busy)
                tally->idle_ns = snapshot->now_ns;
        tally->busy = 0;
        if (round_in_flight(snapshot, DETSHARE_CLASS_BE) || !round_is_busy(snapshot, DETSHARE_CLASS_BE))
                return 0;
        if (tally->idle_ns && snapshot->now_ns - tally->idle_ns < tally->wait_ns) {
                decision->next_timer_ns = tally->idle_ns + tally->wait_ns;
                return 0;
        }
        launch_be(tally, snapshot, decision);
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "tally",
        .description =
                "BE runs in the gaps of LS, one kernel at a time, in a form that LS waits for only briefly (Tally)",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct tally),
        .init = tally_init,
        .decide = tally_decide,
};
