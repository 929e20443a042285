/* SPDX-License-Identifier: Apache-2.0 */
/*
 * temporal: round robin by time slices
 *
 * One session at a time has the whole GPU. Sessions with work take turns in the order of their ids, each for a time
 * slice; a session without work gives up the rest of its slice. A kernel cannot be stopped, so a switch waits until
 * everything in flight has ended. Only operations that should begin within the slice are sent ahead. Classes and
 * priorities do not matter.
 *
 * Other systems that share a GPU in turns do the same: XSched's processes in turn (OSDI'25, policy PUP, whose slice of
 * 5 ms is the default here, without its weights and saved slices), nvshare's lock, and the driver's own time slices
 * without preemption inside a kernel. Nothing starves: a turn ends with the first operation that ends after the slice.
 */
#include "policies/round.h"

struct temporal {
        uint64_t slice_ns, end_ns;
        uint64_t holder; /* session that has the GPU, or had it last */
        uint32_t held;
        uint32_t depth;
};

static const struct detshare_policy_param params[] = {
        {.name = "slice_ms", .help = "length of a session's time slice, ms", .def = 5, .min = 1, .max = 10000},
        {.name = "depth",
                .help = "operations of one coroutine on the device at once",
                .def = ROUND_DEPTH,
                .min = 1,
                .max = 1024},
};

/* Work of the sessions in one snapshot. */
struct work {
        int in_flight;    /* 1: any session has work in flight */
        int holder;       /* 1: the holder has work ready or in flight */
        int others_ready; /* 1: another session has ready work */
};

static int temporal_init(void *state, const struct detshare_policy_config *config)
{
        struct temporal *temporal = state;

        temporal->slice_ns = (uint64_t)config->params[0] * 1000000;
        temporal->depth = (uint32_t)config->params[1];
        return 0;
}

static uint64_t owner(const struct detshare_snapshot *snapshot, const struct detshare_coroutine_view *coroutine)
{
        return snapshot->sessions[coroutine->session].id;
}

static struct work look(const struct temporal *temporal, const struct detshare_snapshot *snapshot)
{
        struct work work = {0};

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                int is_holder = temporal->held && owner(snapshot, coroutine) == temporal->holder;

                work.in_flight |= coroutine->in_flight != 0;
                work.holder |= is_holder && (coroutine->ready || coroutine->in_flight);
                work.others_ready |= !is_holder && coroutine->ready;
        }
        return work;
}

/* Gives the GPU to the next session with ready work: the smallest id after the last holder's, else the smallest. */
static void take(struct temporal *temporal, const struct detshare_snapshot *snapshot)
{
        uint64_t next = UINT64_MAX, smallest = UINT64_MAX;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                uint64_t id = owner(snapshot, &snapshot->coroutines[i]);

                if (!snapshot->coroutines[i].ready)
                        continue;
                if (id > temporal->holder && id < next)
                        next = id;
                if (id < smallest)
                        smallest = id;
        }
        if (smallest == UINT64_MAX)
                return;
        temporal->holder = next == UINT64_MAX ? smallest : next;
        temporal->held = 1;
        temporal->end_ns = snapshot->now_ns + temporal->slice_ns;
}

static void launch_holder(
        const struct temporal *temporal, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                uint32_t n = 0;

                if (coroutine->ready && owner(snapshot, coroutine) == temporal->holder)
                        n = round_within(coroutine, temporal->end_ns - snapshot->now_ns, temporal->depth);
                if (n && !round_launch(decision, coroutine, 0, n))
                        return;
        }
}

static int temporal_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct temporal *temporal = state;
        struct work work = look(temporal, snapshot);

        if (temporal->held && !work.holder)
                temporal->held = 0;
        if (temporal->held && snapshot->now_ns >= temporal->end_ns) {
                if (!work.others_ready)
                        temporal->end_ns = snapshot->now_ns + temporal->slice_ns;
                else if (work.in_flight)
                        return 0;
                else
                        temporal->held = 0;
        }
        if (!temporal->held && !work.in_flight)
                take(temporal, snapshot);
        if (!temporal->held)
                return 0;
        launch_holder(temporal, snapshot, decision);
        if (look(temporal, snapshot).others_ready)
                decision->next_timer_ns = temporal->end_ns;
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "temporal",
        .description = "one session at a time has the whole GPU, round robin by time slices",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct temporal),
        .init = temporal_init,
        .decide = temporal_decide,
};
