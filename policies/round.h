/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching in turn: what several policies share
 *
 * Latency-sensitive work that goes to the whole GPU at once; operations of one class that are taken one by one, round
 * robin over their coroutines, each asked for leave; and what there is to count in a snapshot. Nothing here has a state
 * of its own. The turn begins behind the coroutine that was served last: its id is enough to go on from, also when it
 * is gone.
 */
#pragma once

#include "policies/detshare_policy.h"

/* Operations of one coroutine on the device at once where a published rule knows no bound. */
#define ROUND_DEPTH 64u

/* How many LS operations are on the device at once, the same parameter in every policy that has it. */
#define ROUND_LS_DEPTH_PARAM                                                                                           \
        {                                                                                                              \
                .name = "ls_depth", .help = "operations of an LS coroutine on the device at once", .def = ROUND_DEPTH, \
                .min = 1, .max = 1024                                                                                  \
        }

/* 0: the decision is full, and the host will ask again. */
static inline int round_launch(struct detshare_decision *decision, const struct detshare_coroutine_view *coroutine,
        uint32_t rung, uint32_t count)
{
        if (decision->n == decision->capacity) {
                decision->again = 1;
                return 0;
        }
        decision->actions[decision->n++] = (struct detshare_action){
                .kind = DETSHARE_ACTION_LAUNCH,
                .rung = rung,
                .coroutine = coroutine->id,
                .priority = coroutine->class_ == DETSHARE_CLASS_LS ? DETSHARE_PRIORITY_HIGH : DETSHARE_PRIORITY_LOW,
                .count = count,
        };
        return 1;
}

/* All that is ready of a class, on the whole GPU, `depth` operations of a coroutine at once. */
static inline void round_launch_class(
        const struct detshare_snapshot *snapshot, struct detshare_decision *decision, uint32_t class_, uint32_t depth)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (coroutine->class_ != class_ || !coroutine->ready || coroutine->in_flight >= depth)
                        continue;
                if (!round_launch(decision, coroutine, 0, depth - coroutine->in_flight))
                        return;
        }
}

/*
 * Operations of a coroutine to send now: one if nothing of it is on the device, and those whose predecessors are
 * expected to end within left_ns. What is not known goes alone.
 */
static inline uint32_t round_within(const struct detshare_coroutine_view *coroutine, uint64_t left_ns, uint32_t depth)
{
        uint64_t expected_ns = coroutine->in_flight_expected_ns;
        uint32_t n = 0;

        for (; n < coroutine->n_ahead && coroutine->in_flight + n < depth; n++) {
                if (coroutine->in_flight + n && (!coroutine->ahead[n].samples || expected_ns >= left_ns))
                        break;
                expected_ns += coroutine->ahead[n].expected_ns;
        }
        return n;
}

/* Operations of a class on the device. */
static inline uint32_t round_in_flight(const struct detshare_snapshot *snapshot, uint32_t class_)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                if (snapshot->coroutines[i].class_ == class_)
                        n += snapshot->coroutines[i].in_flight;
        return n;
}

/*
 * Whether anything of the class is on the device or could go there. What waits for something else, a host function for
 * example, keeps nobody waiting.
 */
static inline int round_is_busy(const struct detshare_snapshot *snapshot, uint32_t class_)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (coroutine->class_ == class_ && (coroutine->ready || coroutine->in_flight))
                        return 1;
        }
        return 0;
}

/* Whether an LS session is inside a request. */
static inline int round_request_active(const struct detshare_snapshot *snapshot)
{
        for (uint32_t i = 0; i < snapshot->n_sessions; i++)
                if (snapshot->sessions[i].class_ == DETSHARE_CLASS_LS && snapshot->sessions[i].request_active)
                        return 1;
        return 0;
}

/* Index of the first coroutine whose turn comes behind `last`: the one to begin a round with. */
static inline uint32_t round_first(const struct detshare_snapshot *snapshot, uint64_t last)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                if (snapshot->coroutines[i].id > last)
                        return i;
        return 0;
}

/* The n-th coroutine of a round that began at `first`. */
static inline const struct detshare_coroutine_view *round_at(
        const struct detshare_snapshot *snapshot, uint32_t first, uint32_t n)
{
        return &snapshot->coroutines[(first + n) % snapshot->n_coroutines];
}

/* Whether this operation may go now, in which pass over the coroutines. What it allows is launched. */
typedef int (*round_may_fn)(
        void *state, uint32_t pass, const struct detshare_coroutine_view *coroutine, const struct detshare_op_view *op);

/* One action without operations for each ready coroutine of the class, in turn; `reserved` is its index meanwhile. */
static inline void round_gather(const struct detshare_snapshot *snapshot, struct detshare_decision *decision,
        uint32_t class_, uint64_t last, uint32_t depth)
{
        uint32_t first = round_first(snapshot, last);

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = round_at(snapshot, first, i);

                if (coroutine->class_ != class_ || !coroutine->ready || coroutine->in_flight >= depth)
                        continue;
                if (!round_launch(decision, coroutine, 0, 0))
                        return;
                decision->actions[decision->n - 1].reserved = (first + i) % snapshot->n_coroutines;
        }
}

/* One operation more of each that may; how many that were. */
static inline uint32_t round_pass(const struct detshare_snapshot *snapshot, struct detshare_decision *decision,
        uint32_t begin, uint32_t depth, uint32_t pass, round_may_fn may, void *state, uint64_t *last)
{
        uint32_t n = 0;

        for (uint32_t i = begin; i < decision->n; i++) {
                struct detshare_action *action = &decision->actions[i];
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[action->reserved];

                uint32_t at = action->count;

                if (at >= coroutine->n_ahead || coroutine->in_flight + at >= depth ||
                        !may(state, pass, coroutine, &coroutine->ahead[at]))
                        continue;
                action->count++;
                *last = coroutine->id;
                n++;
        }
        return n;
}

/* Drops the actions from `begin` on that got no operation, and what `reserved` held. */
static inline void round_compact(struct detshare_decision *decision, uint32_t begin)
{
        uint32_t n = begin;

        for (uint32_t i = begin; i < decision->n; i++) {
                if (!decision->actions[i].count)
                        continue;
                decision->actions[n] = decision->actions[i];
                decision->actions[n++].reserved = 0;
        }
        decision->n = n;
}

/*
 * Operations of a class in turn, one of each coroutine per pass, until none may any more. *last: who was served last,
 * kept by the caller.
 */
static inline void round_robin(const struct detshare_snapshot *snapshot, struct detshare_decision *decision,
        uint32_t class_, uint32_t depth, round_may_fn may, void *state, uint64_t *last)
{
        uint32_t begin = decision->n, pass = 0;

        round_gather(snapshot, decision, class_, *last, depth);
        while (round_pass(snapshot, decision, begin, depth, pass, may, state, last))
                pass++;
        round_compact(decision, begin);
}
