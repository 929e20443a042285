/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sgdrc: tidal SM masking, kernel by kernel
 *
 * The rule of SGDRC (PPoPP'25, sections 4 and 7.1), as the paper has it:
 *
 * - one latency-sensitive and one best-effort kernel at once, tasks of a class round robin (sgdrc.h);
 * - monopolisation: while the LS queue is empty, a BE kernel has all SMs;
 * - colocation: an LS kernel gets the least SMs at which it has its best latency. Reserved for the next LS kernel is
 *   the greatest need in a sliding window over the LS queue; BE kernels get the other SMs;
 * - an LS kernel that meets a BE kernel on all SMs evicts it; the BE kernel restarts beside LS.
 *
 * Questions that the paper leaves open, and the answers here:
 *
 * - Length of the window: the LS kernels on the device and the next `window` operations of each LS stream.
 * - Needs: from profiles of time against SMs, within `tolerance_permille`; without a profile from the blocks (stair.h).
 * - SMs of an LS kernel beyond its need: it runs on the reserved SMs as far as the running BE kernel leaves them, and
 *   on all SMs where there is no BE work.
 * - An LS kernel that needs all SMs: BE waits until it has left the window.
 * - Eviction: in the paper a flag that its transformed kernels read at the end of a block, after which the kernel
 *   restarts. Here an evictable BE kernel is evicted likewise and resumes. Another one is killed and launched again
 *   where the device can kill and the kernel is proven idempotent. Otherwise the LS kernel waits for blocks to end.
 *
 * The paper also divides VRAM channels (bimodal tensors); that changes memory and is no part of a policy.
 */
#include "policies/sgdrc.h"

#define NEEDS 256u /* maximum number of LS kernels on the device whose needs are known */
#define LOOK 512u  /* operations in the windows of all streams that one decision looks at, to bound its time */

struct sgdrc {
        uint32_t n_sms, window, tolerance;
        struct stair_side lower, upper;
        struct sgdrc_turn ls, be;
        uint32_t ls_sms[NEEDS]; /* SMs that the LS kernels launched last need, a ring */
        uint32_t ls_launched;
        uint32_t be_rung;       /* rung of the running BE kernels */
        uint32_t be_idempotent; /* 1: all running BE kernels are idempotent */
};

static const struct detshare_policy_param params[] = {
        {.name = "window",
                .help = "operations at the head of each LS stream that decide the SMs reserved for LS",
                .def = 8,
                .min = 1,
                .max = DETSHARE_AHEAD_MAX},
        {.name = "tolerance_permille",
                .help = "latencies this close count as equal to the best one, permille",
                .def = 20,
                .min = 0,
                .max = 1000},
        SGDRC_DEPTH_PARAMS,
};

static int sgdrc_init(void *state, const struct detshare_policy_config *config)
{
        struct sgdrc *sgdrc = state;

        sgdrc->n_sms = config->n_sms;
        sgdrc->window = (uint32_t)config->params[0];
        sgdrc->tolerance = (uint32_t)config->params[1];
        sgdrc_init_turns(&sgdrc->ls, &sgdrc->be, &config->params[2]);
        stair_side_init(&sgdrc->lower, config, DETSHARE_SIDE_LOWER, DETSHARE_FAMILY_FINE);
        stair_side_init(&sgdrc->upper, config, DETSHARE_SIDE_UPPER, DETSHARE_FAMILY_FINE);
        return 0;
}

/* Whether the class has ready work or work on the device. A coroutine that waits for a host function, for example,
 * does not count. */
static int has_work(const struct detshare_snapshot *snapshot, uint32_t class_)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                if (snapshot->coroutines[i].class_ == class_ &&
                        (snapshot->coroutines[i].ready || snapshot->coroutines[i].in_flight))
                        return 1;
        return 0;
}

/* The most SMs that any LS kernel in the window needs. */
static uint32_t reserve(const struct sgdrc *sgdrc, const struct detshare_snapshot *snapshot)
{
        const struct detshare_coroutine_view *owner = sgdrc_coroutine(snapshot, sgdrc->ls.owner);
        uint32_t most = 0, left = LOOK;

        for (uint32_t i = 0; owner && i < owner->in_flight && i < NEEDS; i++) {
                uint32_t need = sgdrc->ls_sms[(sgdrc->ls_launched - 1 - i) % NEEDS];

                most = need > most ? need : most;
        }
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                uint32_t n = coroutine->class_ == DETSHARE_CLASS_LS ? coroutine->n_ahead : 0;

                for (uint32_t k = 0; k < n && k < sgdrc->window && left; k++, left--) {
                        uint32_t need = 0;

                        if (coroutine->ahead[k].kind == DETSHARE_OP_KERNEL)
                                need = stair_need(&coroutine->ahead[k], sgdrc->n_sms, sgdrc->tolerance);
                        most = need > most ? need : most;
                }
        }
        return most;
}

/* The rung for LS kernels: the lower rung for the reserved SMs, or a smaller one if the running BE kernel is in the
 * way; the whole GPU if there is no BE work. */
static uint32_t ls_rung(const struct sgdrc *sgdrc, const struct detshare_snapshot *snapshot, uint32_t reserved)
{
        uint32_t at = stair_at_least(&sgdrc->lower, reserved), most = sgdrc->lower.n;

        if (!has_work(snapshot, DETSHARE_CLASS_BE))
                return 0;
        if (sgdrc->be.owner && sgdrc->be_rung)
                most = stair_at_least(&sgdrc->lower, sgdrc->n_sms - snapshot->rungs[sgdrc->be_rung].n_sms + 1);
        if (at >= most && most && most < sgdrc->lower.n)
                return sgdrc->lower.rung[most - 1];
        return at < sgdrc->lower.n ? sgdrc->lower.rung[at] : 0;
}

static void ls_launch(struct sgdrc *sgdrc, const struct detshare_snapshot *snapshot, struct detshare_decision *decision,
        uint32_t reserved)
{
        const struct detshare_coroutine_view *next = sgdrc_next(&sgdrc->ls, snapshot, DETSHARE_CLASS_LS);
        const struct detshare_coroutine_view *be = sgdrc_coroutine(snapshot, sgdrc->be.owner);

        if (!next)
                return;
        if (be && !sgdrc->be_rung && be->evictable)
                /* the BE kernel's turn ends when the eviction is complete */
                sgdrc_push(decision, be, DETSHARE_ACTION_EVICT, 0);
        else if (be && !sgdrc->be_rung && sgdrc->be_idempotent && snapshot->can_kill &&
                 sgdrc_push(decision, be, DETSHARE_ACTION_KILL, 0))
                sgdrc->be_idempotent = 0; /* killed only once; the BE kernel's turn ends when the kill is complete */
        sgdrc->ls_sms[sgdrc->ls_launched++ % NEEDS] = stair_need(&next->ahead[0], sgdrc->n_sms, sgdrc->tolerance);
        sgdrc_launch(&sgdrc->ls, decision, next, ls_rung(sgdrc, snapshot, reserved), 0);
}

static void be_launch(struct sgdrc *sgdrc, const struct detshare_snapshot *snapshot, struct detshare_decision *decision,
        uint32_t reserved)
{
        const struct detshare_coroutine_view *next = sgdrc_next(&sgdrc->be, snapshot, DETSHARE_CLASS_BE);
        uint32_t rung = 0, at;

        if (!next)
                return;
        if (has_work(snapshot, DETSHARE_CLASS_LS)) {
                at = reserved < sgdrc->n_sms ? stair_at_least(&sgdrc->upper, sgdrc->n_sms - reserved + 1) : 0;
                if (!at)
                        return;
                rung = sgdrc->upper.rung[at - 1];
        }
        sgdrc->be_idempotent = next->ahead[0].idempotent &&
                               (!next->in_flight || (sgdrc->be.owner == next->id && sgdrc->be_idempotent));
        sgdrc->be_rung = rung;
        sgdrc_launch(&sgdrc->be, decision, next, rung, 1);
}

static int sgdrc_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        const struct detshare_coroutine_view *owner;
        struct sgdrc *sgdrc = state;
        uint32_t reserved;

        sgdrc_look(&sgdrc->ls, snapshot, DETSHARE_CLASS_LS);
        sgdrc_look(&sgdrc->be, snapshot, DETSHARE_CLASS_BE);
        if (snapshot->event == DETSHARE_EVENT_SWITCH)
                sgdrc->be_rung = sgdrc->be_idempotent = 0;
        reserved = reserve(sgdrc, snapshot);
        owner = sgdrc_coroutine(snapshot, sgdrc->be.owner);
        if (owner && sgdrc_other_ready(owner))
                /* the owner's copies and memsets go together with its kernels and cannot be killed */
                sgdrc->be_idempotent = 0;
        sgdrc_launch_others(snapshot, decision);
        ls_launch(sgdrc, snapshot, decision, reserved);
        be_launch(sgdrc, snapshot, decision, reserved);
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "sgdrc",
        .description = "one LS and one BE kernel at once; BE gets the SMs that the LS queue does not need (SGDRC)",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct sgdrc),
        .init = sgdrc_init,
        .decide = sgdrc_decide,
};
