/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SGDRC's queues: shared by sgdrc and sgdrc-static
 *
 * From Zhang et al., "SGDRC: Software-Defined Dynamic Resource Control for Concurrent DNN Inference on NVIDIA GPUs"
 * (PPoPP'25), section 4: latency-sensitive and best-effort kernels have a queue each. The tasks of a class put their
 * kernels into it round robin, and one kernel of each class runs at a time.
 *
 * Here a queue is a turn that goes round the coroutines of a class. The owner of the turn has the class's part of the
 * GPU until its launched kernels have ended; then the next coroutine with a ready kernel owns it. An owner may send a
 * few kernels ahead (`ls_depth`, `be_depth`). Its stream runs them one by one, so one kernel of the class runs all the
 * same, and the time of a launch is hidden.
 *
 * While others wait, a turn ends after `turn` kernels. In the paper's queue, which is one stream, the next kernel may
 * be another task's at no cost. Here the turn passes after the end of the last kernel has been seen, which takes longer
 * than most LS kernels, so it does not pass at each kernel. With `turn` 1 it does. Copies and memsets are not kernels
 * and go at once.
 */
#pragma once

#include "policies/stair.h"

#define SGDRC_DEPTH_PARAMS                                                                     \
        {"ls_depth", "LS kernels on the device at once; one of them runs", 8, 1, 256},         \
                {"be_depth", "BE kernels on the device at once; one of them runs", 2, 1, 256}, \
        {                                                                                      \
                "turn", "kernels after which it is another client's turn", 8, 1, 65536         \
        }

struct sgdrc_turn {
        uint64_t owner;       /* coroutine that owns the turn; 0: none */
        uint64_t last;        /* coroutine that owned the turn last */
        uint32_t depth, most; /* maximum number of the owner's kernels on the device, and in one turn */
        uint32_t n;           /* kernels launched in this turn */
};

/* params: the values of SGDRC_DEPTH_PARAMS. */
static inline void sgdrc_init_turns(struct sgdrc_turn *ls, struct sgdrc_turn *be, const int64_t *params)
{
        ls->depth = (uint32_t)params[0];
        be->depth = (uint32_t)params[1];
        ls->most = be->most = (uint32_t)params[2];
}

static inline const struct detshare_coroutine_view *sgdrc_coroutine(
        const struct detshare_snapshot *snapshot, uint64_t id)
{
        for (uint32_t i = 0; id && i < snapshot->n_coroutines; i++)
                if (snapshot->coroutines[i].id == id)
                        return &snapshot->coroutines[i];
        return NULL;
}

static inline int sgdrc_kernel_ready(const struct detshare_coroutine_view *coroutine, uint32_t class_)
{
        return coroutine->class_ == class_ && coroutine->ready && coroutine->n_ahead &&
               coroutine->ahead[0].kind == DETSHARE_OP_KERNEL;
}

static inline int sgdrc_other_ready(const struct detshare_coroutine_view *coroutine)
{
        return coroutine->ready && coroutine->n_ahead && coroutine->ahead[0].kind != DETSHARE_OP_KERNEL;
}

/* Updates the owner of the turn: removes it when its turn is over. Work of the previous policy on the device also
 * counts as a turn. */
static inline void sgdrc_look(struct sgdrc_turn *turn, const struct detshare_snapshot *snapshot, uint32_t class_)
{
        const struct detshare_coroutine_view *owner = sgdrc_coroutine(snapshot, turn->owner);

        if (!owner || !owner->in_flight)
                turn->owner = 0;
        for (uint32_t i = 0; snapshot->event == DETSHARE_EVENT_SWITCH && i < snapshot->n_coroutines; i++)
                if (snapshot->coroutines[i].class_ == class_ && snapshot->coroutines[i].in_flight)
                        turn->owner = snapshot->coroutines[i].id;
}

/* The coroutine whose kernel the class launches next; NULL if none may go now. */
static inline const struct detshare_coroutine_view *sgdrc_next(
        const struct sgdrc_turn *turn, const struct detshare_snapshot *snapshot, uint32_t class_)
{
        const struct detshare_coroutine_view *first = NULL, *behind = NULL, *owner = NULL;
        uint32_t n = 0;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (!sgdrc_kernel_ready(coroutine, class_))
                        continue;
                n++;
                if (coroutine->id == turn->owner)
                        owner = coroutine;
                if (!first)
                        first = coroutine;
                if (!behind && coroutine->id > turn->last)
                        behind = coroutine;
        }
        if (!turn->owner)
                return behind ? behind : first;
        /* alone, the owner may launch more kernels; while other coroutines wait, only until its turn is over */
        return owner && owner->in_flight < turn->depth && (n == 1 || turn->n < turn->most) ? owner : NULL;
}

/* Adds an action for the coroutine. Returns 0 if the decision is full. */
static inline int sgdrc_push(struct detshare_decision *decision, const struct detshare_coroutine_view *coroutine,
        uint32_t kind, uint32_t rung)
{
        if (decision->n == decision->capacity) {
                decision->again = 1;
                return 0;
        }
        decision->actions[decision->n++] = (struct detshare_action){
                .kind = kind,
                .rung = rung,
                .coroutine = coroutine->id,
                .priority = coroutine->class_ == DETSHARE_CLASS_LS ? DETSHARE_PRIORITY_HIGH : DETSHARE_PRIORITY_LOW,
                .count = 1,
        };
        return 1;
}

static inline void sgdrc_launch(struct sgdrc_turn *turn, struct detshare_decision *decision,
        const struct detshare_coroutine_view *coroutine, uint32_t rung, uint32_t evictable)
{
        if (!sgdrc_push(decision, coroutine, DETSHARE_ACTION_LAUNCH, rung))
                return;
        decision->actions[decision->n - 1].evictable = evictable;
        turn->n = turn->owner ? turn->n + 1 : 1;
        turn->owner = turn->last = coroutine->id;
        decision->again = 1; /* a second call finds out whether another kernel may go, too */
}

/* Launches all ready copies and memsets at once; they do not take turns. */
static inline void sgdrc_launch_others(const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (!sgdrc_other_ready(coroutine))
                        continue;
                if (!sgdrc_push(
                            decision, coroutine, DETSHARE_ACTION_LAUNCH, coroutine->in_flight ? coroutine->rung : 0))
                        return;
                decision->again = 1;
        }
}
