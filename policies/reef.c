/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reef: real-time kernels kill best-effort ones, and best-effort ones pad them
 *
 * The rule of REEF (Han, Zhang, Chen, Chen, OSDI'22) as its public code has it (SJTU-IPADS/reef, scheduler.cpp), with
 * LS as its real-time and BE as its best-effort tasks:
 *
 * - Real-time mode, while there is LS work: no best-effort kernel is launched. When LS work arrives, best-effort work
 *   on the device is reset: kernels that are proven idempotent are killed and return to the head of their queue, where
 *   the device can do that; the others are waited for. Best effort has at most two operations of a queue on the device
 *   (the device queue cap), so there is little to reset.
 * - Best-effort mode, while there is none: every best-effort queue launches, up to the cap.
 * - Dynamic kernel padding: beside an LS kernel goes the first best-effort kernel that does not delay it. With
 *   layers = ceil(blocks / SMs) the LS kernel keeps ceil(blocks / layers) SMs. On the others a best-effort kernel may
 *   run for as long as the LS kernel does. Its blocks may be: SMs left x (LS time / time of one layer of its blocks,
 *   rounded down) x blocks resident on an SM. Both times must be known.
 *
 * Differences:
 *
 * - REEF runs models compiled for it on AMD GPUs, whose command processor it can reset. NVIDIA GPUs end no single
 *   kernel, so there can_kill is 0 and everything is waited for, as in the authors' REEF-N.
 * - LS is launched at once at high priority, and not only when the last best-effort kernel has gone.
 * - REEF merges the two kernels of a padding and may run a part of the best-effort kernel's blocks. Here they are two
 *   launches on complementary rungs, so a best-effort kernel pads only if all its blocks fit, and REEF's test of the
 *   merged kernel's occupancy does not apply.
 * - Padding is per kernel: an LS kernel that can be padded is launched when its predecessor has ended, the others as
 *   far ahead as their queue allows. With several LS queues at work nothing is padded; REEF serves one real-time task
 *   after the other.
 *
 * Best effort waits while LS work follows LS work, except for padding: that is the rule. A killed kernel has lost its
 * time and may be killed again.
 */
#include "policies/round.h"
#include "policies/size.h"
#include "policies/stair.h"

/* maximum number of best-effort coroutines whose kernels in flight are known; kernels of other coroutines are never
 * killed */
#define FLIGHTS 64u
#define ALL_IDEMPOTENT UINT32_MAX

/* Work of a best-effort coroutine on the device. */
struct flight {
        uint64_t coroutine;
        uint32_t idempotent; /* number of last launches of the coroutine that are all idempotent kernels */
        uint32_t killed;
        /* 1: the last decision sent an operation while `before` were in flight; not yet confirmed that the device
         * took it */
        uint32_t is_new, before;
};

struct reef {
        uint32_t cap, padding, ls_depth;
        uint32_t real_time; /* 1: there was LS work at the last decision, so best-effort work was held */
        uint32_t padded;    /* 1: a best-effort kernel runs beside the LS kernel in flight */
        uint32_t n;
        struct flight flights[FLIGHTS]; /* sorted by coroutine id, ascending */
};

static const struct detshare_policy_param params[] = {
        {.name = "queue_cap", .help = "operations of one BE queue on the device at once", .def = 2, .min = 1, .max = 8},
        {.name = "padding",
                .help = "1: BE kernels that fit run beside an LS kernel; 0: none does",
                .def = 1,
                .min = 0,
                .max = 1},
        ROUND_LS_DEPTH_PARAM,
};

static int reef_init(void *state, const struct detshare_policy_config *config)
{
        struct reef *reef = state;

        reef->cap = (uint32_t)config->params[0];
        reef->padding = (uint32_t)config->params[1];
        reef->ls_depth = (uint32_t)config->params[2];
        return 0;
}

/* --- work in flight ----------------------------------------------------------------------------------------------- */

static struct flight *flight_find(struct reef *reef, uint64_t coroutine)
{
        for (uint32_t i = 0; i < reef->n; i++)
                if (reef->flights[i].coroutine == coroutine)
                        return &reef->flights[i];
        return NULL;
}

/* The flight after the last launch is settled. If the device did not take the operation, the coroutine's operations
 * in flight count as unknown, so they are not killed. */
static struct flight flight_settled(const struct flight *flight, const struct detshare_coroutine_view *coroutine)
{
        struct flight settled = *flight;

        if (settled.is_new && coroutine->in_flight != settled.before + 1)
                settled.idempotent = 0;
        settled.is_new = 0;
        return settled;
}

/* Removes the flights of coroutines without work on the device. */
static void flights_look(struct reef *reef, const struct detshare_snapshot *snapshot)
{
        uint32_t n = 0, i = 0;

        for (uint32_t k = 0; k < reef->n; k++) {
                while (i < snapshot->n_coroutines && snapshot->coroutines[i].id < reef->flights[k].coroutine)
                        i++;
                if (i < snapshot->n_coroutines && snapshot->coroutines[i].id == reef->flights[k].coroutine &&
                        snapshot->coroutines[i].in_flight)
                        reef->flights[n++] = flight_settled(&reef->flights[k], &snapshot->coroutines[i]);
        }
        reef->n = n;
}

/*
 * Notes that one operation of the coroutine is launched. Work in flight that is not known counts as not idempotent. The
 * next call of decide() shows whether the device took the operation, and must come before any operation ends, so this
 * function asks for it with `again`.
 */
static void flight_add(struct reef *reef, const struct detshare_snapshot *snapshot, struct detshare_decision *decision,
        const struct detshare_coroutine_view *coroutine)
{
        const struct detshare_op_view *op = &coroutine->ahead[0];
        struct flight *flight = flight_find(reef, coroutine->id);
        uint32_t at = reef->n;

        if (!flight) {
                if (reef->n == FLIGHTS)
                        return;
                for (; at && reef->flights[at - 1].coroutine > coroutine->id; at--)
                        reef->flights[at] = reef->flights[at - 1];
                flight = &reef->flights[at];
                *flight = (struct flight){.coroutine = coroutine->id};
                reef->n++;
        }
        flight->is_new = 1;
        flight->before = coroutine->in_flight;
        decision->again |= snapshot->can_kill;
        if (op->kind != DETSHARE_OP_KERNEL || !op->idempotent)
                flight->idempotent = 0;
        else if (flight->idempotent < ALL_IDEMPOTENT)
                flight->idempotent++;
}

static void kill_idempotent(
        struct reef *reef, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines && snapshot->can_kill; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                struct flight *flight = flight_find(reef, coroutine->id);

                if (!flight || flight->killed || coroutine->class_ != DETSHARE_CLASS_BE || !coroutine->in_flight ||
                        flight->idempotent < coroutine->in_flight)
                        continue;
                if (!round_launch(decision, coroutine, 0, 0))
                        return;
                decision->actions[decision->n - 1].kind = DETSHARE_ACTION_KILL;
                flight->killed = 1;
        }
}

/* --- padding ------------------------------------------------------------------------------------------------------ */

struct padding {
        const struct detshare_coroutine_view *be;
        uint32_t ls_rung, be_rung;
};

static uint32_t divide_up(uint32_t a, uint32_t b)
{
        return (uint32_t)(((uint64_t)a + b - 1) / b);
}

static uint32_t ls_sms(const struct detshare_snapshot *snapshot, const struct detshare_op_view *op)
{
        uint32_t layers = divide_up(op->blocks, snapshot->n_sms);

        return layers ? divide_up(op->blocks, layers) : 1;
}

static int is_known_kernel(const struct detshare_op_view *op)
{
        return op->kind == DETSHARE_OP_KERNEL && stair_known(op) && op->blocks && op->blocks_per_sm &&
               !op->all_resident;
}

/* Number of blocks of a best-effort kernel that run on `sms` SMs in the LS kernel's time. */
static uint64_t be_blocks(const struct detshare_snapshot *snapshot, const struct detshare_op_view *ls,
        const struct detshare_op_view *be, uint32_t sms)
{
        uint64_t ls_ns = stair_time(ls, snapshot->n_sms, snapshot->n_sms);
        uint64_t be_ns = stair_time(be, snapshot->n_sms, snapshot->n_sms);

        return be_ns ? sms * (ls_ns * size_waves(be, snapshot->n_sms) / be_ns) * be->blocks_per_sm : 0;
}

/* Finds the best-effort kernel that may run beside this LS operation, and the rungs of both. Returns 0 if there is
 * none. */
static int pad(const struct detshare_snapshot *snapshot, const struct detshare_op_view *op, struct padding *padding)
{
        uint32_t needed;

        if (!is_known_kernel(op))
                return 0;
        needed = ls_sms(snapshot, op);
        padding->be_rung = size_rung(snapshot, DETSHARE_SIDE_UPPER, snapshot->n_sms - needed, NULL);
        if (!padding->be_rung)
                return 0;
        padding->ls_rung =
                size_rung(snapshot, DETSHARE_SIDE_LOWER, snapshot->n_sms, &snapshot->rungs[padding->be_rung]);
        if (!padding->ls_rung || snapshot->rungs[padding->ls_rung].n_sms < needed)
                return 0;
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                padding->be = &snapshot->coroutines[i];
                if (padding->be->class_ == DETSHARE_CLASS_BE && padding->be->ready && !padding->be->in_flight &&
                        is_known_kernel(&padding->be->ahead[0]) &&
                        padding->be->ahead[0].blocks <= be_blocks(snapshot, op, &padding->be->ahead[0],
                                                                snapshot->rungs[padding->be_rung].n_sms))
                        return 1;
        }
        return 0;
}

/* Launches the work of one LS coroutine. Operations that cannot be padded go ahead of time; an operation that can be
 * padded waits for its predecessor and goes with its padding. */
static void launch_padded(struct reef *reef, const struct detshare_snapshot *snapshot,
        struct detshare_decision *decision, const struct detshare_coroutine_view *ls)
{
        struct padding padding = {0};
        int found = 0;
        uint32_t n;

        for (n = 0; n < ls->n_ahead && ls->in_flight + n < reef->ls_depth; n++) {
                found = pad(snapshot, &ls->ahead[n], &padding);
                if (found)
                        break;
        }
        if (n) {
                round_launch(decision, ls, 0, n);
        } else if (found && !ls->in_flight && round_launch(decision, ls, padding.ls_rung, 1) &&
                   round_launch(decision, padding.be, padding.be_rung, 1)) {
                flight_add(reef, snapshot, decision, padding.be);
                reef->padded = 1;
        }
}

/* --- the two modes ------------------------------------------------------------------------------------------------ */

/* The only LS coroutine with work; NULL if several have work. */
static const struct detshare_coroutine_view *only_ls(const struct detshare_snapshot *snapshot)
{
        const struct detshare_coroutine_view *only = NULL;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                if (snapshot->coroutines[i].class_ != DETSHARE_CLASS_LS)
                        continue;
                if (only)
                        return NULL;
                only = &snapshot->coroutines[i];
        }
        return only;
}

static void real_time(struct reef *reef, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        const struct detshare_coroutine_view *ls = reef->padding ? only_ls(snapshot) : NULL;
        uint32_t be_in_flight = round_in_flight(snapshot, DETSHARE_CLASS_BE);

        if (!reef->real_time)
                kill_idempotent(reef, snapshot, decision);
        reef->real_time = 1;
        if (ls && ls->in_flight && reef->padded)
                return;
        reef->padded = 0;
        if (!ls || be_in_flight)
                round_launch_class(snapshot, decision, DETSHARE_CLASS_LS, reef->ls_depth);
        else if (ls->ready && ls->in_flight < reef->ls_depth)
                launch_padded(reef, snapshot, decision, ls);
}

/* Launches one operation of each best-effort queue below the cap. One at a time, so the work in flight stays known. */
static void best_effort(struct reef *reef, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        reef->real_time = 0;
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (!coroutine->ready || coroutine->in_flight >= reef->cap)
                        continue;
                if (!round_launch(decision, coroutine, 0, 1))
                        return;
                flight_add(reef, snapshot, decision, coroutine);
                if (coroutine->in_flight + 1 < reef->cap && coroutine->n_ahead > 1)
                        decision->again = 1;
        }
}

static int reef_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct reef *reef = state;

        flights_look(reef, snapshot);
        if (round_is_busy(snapshot, DETSHARE_CLASS_LS))
                real_time(reef, snapshot, decision);
        else
                best_effort(reef, snapshot, decision);
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "reef",
        .description = "LS kills idempotent BE kernels; BE kernels that fit run beside LS kernels (REEF)",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct reef),
        .init = reef_init,
        .decide = reef_decide,
};
