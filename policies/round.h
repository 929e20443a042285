/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching in turns: helpers that several policies share
 *
 * They launch latency-sensitive work on the whole GPU at once, launch operations of a class one by one, round robin
 * over its coroutines, if the policy permits each, and count what a snapshot has. They keep no state. A round begins
 * after the coroutine that was served last: its id is enough, even when it is gone.
 */
#pragma once

#include "policies/detshare_policy.h"

/* Maximum number of operations of one coroutine on the device where a published rule has no bound. */
#define ROUND_DEPTH 64u

/* Maximum number of LS operations on the device, the same parameter in every policy that has it. */
#define ROUND_LS_DEPTH_PARAM                                                                                           \
        {                                                                                                              \
                .name = "ls_depth", .help = "operations of an LS coroutine on the device at once", .def = ROUND_DEPTH, \
                .min = 1, .max = 1024                                                                                  \
        }

/* Launches `count` operations of the coroutine. Returns 0 if the decision is full; the host then calls decide()
 * again. */
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

/* Launches ready work of a class on the whole GPU, until each coroutine has `depth` operations on the device. */
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
 * Number of the coroutine's operations to send now: one if it has none on the device, and those whose predecessors
 * should end within left_ns. An operation of unknown duration goes alone.
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

/* Number of operations of a class on the device. */
static inline uint32_t round_in_flight(const struct detshare_snapshot *snapshot, uint32_t class_)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                if (snapshot->coroutines[i].class_ == class_)
                        n += snapshot->coroutines[i].in_flight;
        return n;
}

/*
 * Whether the class has work on the device or ready for it. Work that waits for something else, such as a host
 * function, does not count.
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

/* Whether an LS session runs a request. */
static inline int round_request_active(const struct detshare_snapshot *snapshot)
{
        for (uint32_t i = 0; i < snapshot->n_sessions; i++)
                if (snapshot->sessions[i].class_ == DETSHARE_CLASS_LS && snapshot->sessions[i].request_active)
                        return 1;
        return 0;
}

/* Index of the first coroutine with an id after `last`; a round begins there. */
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

/* Whether this operation may be launched now, in this pass over the coroutines. If so, round_pass() launches it. */
typedef int (*round_may_fn)(
        void *state, uint32_t pass, const struct detshare_coroutine_view *coroutine, const struct detshare_op_view *op);

/* Adds a launch action with a count of 0 for each ready coroutine of the class, in turn. Until round_compact() the
 * action's `reserved` field holds the coroutine's index. */
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

/* Adds one operation to the action of each coroutine that may launch one; returns the number of operations added. */
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

/* Removes the actions from index `begin` on that have a count of 0, and clears `reserved` in the others. */
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
 * Launches operations of a class in turn, one of each coroutine per pass, until no coroutine may launch another one.
 * *last: id of the coroutine served last; the caller keeps it between decisions.
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
