/* SPDX-License-Identifier: Apache-2.0 */
/*
 * krisp: every kernel on a partition of its own size
 *
 * The rule of KRISP (Chow, Jahanshahi, Wong, HPCA'23): a kernel's right size is the least number of compute units at
 * which it takes no longer than on all of them, known from a profile. Each kernel gets a partition of that size, not
 * each model. Kernels that run at one time get disjoint partitions as far as they fit. There are no classes: clients
 * are equals.
 *
 * Written from the paper's abstract; we know of no public code to compare with. Ours are these choices:
 *
 * - "No longer" is within `tolerance_permille`.
 * - Partitions are rungs of the ladder, which lie at its two ends, so at most two kernels have disjoint partitions;
 *   AMD's masks allow more.
 * - A kernel without a free rung of its size takes a smaller free one with at least `shrink_percent` of its size.
 *   Otherwise it takes the rung of its size that shares fewest TPCs with others, if these are at most
 *   `overlap_percent`. Otherwise it waits for the end of a kernel.
 * - Where kernels wait, they are served in the order in which they reached the head of their queues. After
 *   `patience_ms` no other kernel overtakes one, so nothing starves.
 * - Kernels of a coroutine with the same partition follow each other without a gap, up to `depth`. The next one on
 *   another partition is sent behind them; the one after that only when the first partition is empty.
 * - Copies and memsets take no SMs and go at once.
 */
#include "policies/round.h"
#include "policies/stair.h"

#define MS 1000000ull
#define TRIES 64u /* coroutines that one decision tries to place, longest waiting first */

/* maximum number of coroutines with kernels on two partitions; other coroutines change partition only when theirs is
 * empty */
#define MOVES 64u

/* A coroutine with kernels on two partitions. */
struct move {
        uint64_t coroutine;
        uint32_t from; /* rung of the older partition */
        /* operations sent to the newer partition; the coroutine's other operations in flight are on the older one */
        uint32_t since;
};

struct krisp {
        uint32_t tolerance, overlap, shrink, depth;
        uint64_t patience_ns;
        uint32_t n;
        struct move moves[MOVES];
};

/* TPCs on which kernels run or will run. */
struct taken {
        uint64_t tpcs[2];
};

static const struct detshare_policy_param params[] = {
        {.name = "tolerance_permille",
                .help = "slowdown against all SMs that counts as none, permille",
                .def = 20,
                .min = 0,
                .max = 1000},
        {.name = "overlap_percent",
                .help = "share of a partition that other kernels may hold too when none is free, percent",
                .def = 100,
                .min = 0,
                .max = 100},
        {.name = "shrink_percent",
                .help = "smallest free partition taken instead, percent of the kernel's size; 100 = never a smaller "
                        "one",
                .def = 50,
                .min = 1,
                .max = 100},
        {.name = "patience_ms",
                .help = "wait at the head of its queue after which no other kernel overtakes a kernel, ms",
                .def = 10,
                .min = 0,
                .max = 1000000},
        {.name = "depth", .help = "kernels of one coroutine on the device at once", .def = 16, .min = 1, .max = 1024},
};

static int krisp_init(void *state, const struct detshare_policy_config *config)
{
        struct krisp *krisp = state;

        krisp->tolerance = (uint32_t)config->params[0];
        krisp->overlap = (uint32_t)config->params[1];
        krisp->shrink = (uint32_t)config->params[2];
        krisp->patience_ns = (uint64_t)config->params[3] * MS;
        krisp->depth = (uint32_t)config->params[4];
        return 0;
}

static void take(struct taken *taken, const struct detshare_rung_view *rung)
{
        taken->tpcs[0] |= rung->tpcs[0];
        taken->tpcs[1] |= rung->tpcs[1];
}

static uint32_t shared_tpcs(const struct taken *taken, const struct detshare_rung_view *rung)
{
        return (uint32_t)(__builtin_popcountll(taken->tpcs[0] & rung->tpcs[0]) +
                          __builtin_popcountll(taken->tpcs[1] & rung->tpcs[1]));
}

static int is_running(const struct detshare_coroutine_view *coroutine)
{
        return coroutine->in_flight && coroutine->in_flight_sms && coroutine->rung != DETSHARE_RUNG_NONE;
}

static const struct detshare_coroutine_view *find(const struct detshare_snapshot *snapshot, uint64_t id)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                if (snapshot->coroutines[i].id == id)
                        return &snapshot->coroutines[i];
        return NULL;
}

/* Forgets the moves of coroutines whose older partition is empty. */
static void moves_look(struct krisp *krisp, const struct detshare_snapshot *snapshot)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < krisp->n; i++) {
                const struct detshare_coroutine_view *self = find(snapshot, krisp->moves[i].coroutine);

                if (self && self->in_flight > krisp->moves[i].since)
                        krisp->moves[n++] = krisp->moves[i];
        }
        krisp->n = n;
}

static struct move *move_find(struct krisp *krisp, uint64_t coroutine)
{
        for (uint32_t i = 0; i < krisp->n; i++)
                if (krisp->moves[i].coroutine == coroutine)
                        return &krisp->moves[i];
        return NULL;
}

/* TPCs of the kernels of all other coroutines, and those that this decision has already given away. */
static struct taken taken_by_others(const struct krisp *krisp, const struct detshare_snapshot *snapshot,
        const struct detshare_decision *decision, const struct detshare_coroutine_view *self)
{
        struct taken taken = {0};

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                if (&snapshot->coroutines[i] != self && is_running(&snapshot->coroutines[i]))
                        take(&taken, &snapshot->rungs[snapshot->coroutines[i].rung]);
        for (uint32_t i = 0; i < krisp->n; i++)
                if (krisp->moves[i].coroutine != self->id)
                        take(&taken, &snapshot->rungs[krisp->moves[i].from]);
        for (uint32_t i = 0; i < decision->n; i++)
                if (decision->actions[i].reserved)
                        take(&taken, &snapshot->rungs[decision->actions[i].rung]);
        return taken;
}

/* The free rung for a kernel of this size: the smallest that is large enough, else the largest. */
static uint32_t free_rung(
        const struct detshare_snapshot *snapshot, const struct taken *taken, uint32_t size, uint32_t least)
{
        uint32_t best = DETSHARE_RUNG_NONE;

        for (uint32_t i = 0; i < snapshot->n_rungs; i++) {
                const struct detshare_rung_view *rung = &snapshot->rungs[i];
                uint32_t best_sms = best == DETSHARE_RUNG_NONE ? 0 : snapshot->rungs[best].n_sms;

                if (rung->family != DETSHARE_FAMILY_FINE || rung->n_sms < least || shared_tpcs(taken, rung))
                        continue;
                if (best_sms < size ? rung->n_sms > best_sms : rung->n_sms >= size && rung->n_sms < best_sms)
                        best = i;
        }
        return best;
}

/* The rung of this size that shares the fewest TPCs with other kernels; of two equal ones the smaller. */
static uint32_t shared_rung(
        const struct krisp *krisp, const struct detshare_snapshot *snapshot, const struct taken *taken, uint32_t size)
{
        uint32_t best = DETSHARE_RUNG_NONE, best_shared = 0;

        for (uint32_t i = 0; i < snapshot->n_rungs; i++) {
                const struct detshare_rung_view *rung = &snapshot->rungs[i];
                uint32_t shared = shared_tpcs(taken, rung);

                if (rung->family != DETSHARE_FAMILY_FINE || rung->n_sms < size ||
                        shared * 100 > krisp->overlap * rung->n_tpcs)
                        continue;
                if (best != DETSHARE_RUNG_NONE &&
                        (shared > best_shared || (shared == best_shared && rung->n_sms >= snapshot->rungs[best].n_sms)))
                        continue;
                best = i;
                best_shared = shared;
        }
        return best;
}

/* The rung for a kernel; DETSHARE_RUNG_NONE if the kernel must wait. */
static uint32_t partition(const struct krisp *krisp, const struct detshare_snapshot *snapshot,
        const struct taken *taken, const struct detshare_op_view *op)
{
        uint32_t size = stair_need(op, snapshot->n_sms, krisp->tolerance);
        uint32_t least = op->all_resident ? size : (size * krisp->shrink + 99) / 100;
        uint32_t rung = free_rung(snapshot, taken, size, least);

        return rung != DETSHARE_RUNG_NONE ? rung : shared_rung(krisp, snapshot, taken, size);
}

/* Number of operations from the head of the queue on that get the same partition; copies between the kernels count. */
static uint32_t run_of(const struct krisp *krisp, const struct detshare_snapshot *snapshot, const struct taken *taken,
        const struct detshare_coroutine_view *self, uint32_t rung)
{
        uint32_t n = 1;

        while (n < self->n_ahead && self->in_flight + n < krisp->depth &&
                (self->ahead[n].kind != DETSHARE_OP_KERNEL ||
                        partition(krisp, snapshot, taken, &self->ahead[n]) == rung))
                n++;
        return n;
}

/* Notes that n operations of the coroutine go to this rung. Returns 0 if the coroutine has kernels on two partitions
 * already, so the operations must wait. */
static int move_to(struct krisp *krisp, const struct detshare_coroutine_view *self, uint32_t rung, uint32_t n)
{
        struct move *move = move_find(krisp, self->id);

        if (is_running(self) && rung != self->rung) {
                if (move || krisp->n == MOVES)
                        return 0;
                krisp->moves[krisp->n++] = (struct move){.coroutine = self->id, .from = self->rung, .since = n};
        } else if (move) {
                move->since += n;
        }
        return 1;
}

/* Launches operations from the head of the coroutine's queue. Returns 0 if they must wait. The caller lets no later
 * coroutine overtake one that has waited for the patience. */
static int serve(struct krisp *krisp, const struct detshare_snapshot *snapshot, struct detshare_decision *decision,
        const struct detshare_coroutine_view *self)
{
        struct taken taken = taken_by_others(krisp, snapshot, decision, self);
        struct detshare_action *action = &decision->actions[decision->n];
        uint32_t rung, n;

        if (self->ahead[0].kind != DETSHARE_OP_KERNEL)
                return round_launch(decision, self, self->in_flight ? self->rung : 0, 1);
        rung = partition(krisp, snapshot, &taken, &self->ahead[0]);
        if (rung == DETSHARE_RUNG_NONE)
                return 0;
        n = run_of(krisp, snapshot, &taken, self, rung);
        if (!round_launch(decision, self, rung, n))
                return 0;
        if (!move_to(krisp, self, rung, n)) {
                decision->n--;
                return 0;
        }
        action->reserved = 1;
        action->priority = DETSHARE_PRIORITY_HIGH;
        if (n < self->n_ahead && self->in_flight + n < krisp->depth)
                decision->again = 1;
        return 1;
}

/* The ready coroutine that follows `after` in the order of waiting times, longest first; NULL if none is left. Equal
 * times go by id. */
static const struct detshare_coroutine_view *next_oldest(const struct krisp *krisp,
        const struct detshare_snapshot *snapshot, const struct detshare_coroutine_view *after)
{
        const struct detshare_coroutine_view *best = NULL;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *self = &snapshot->coroutines[i];

                if (!self->ready || self->in_flight >= krisp->depth)
                        continue;
                if (after && (self->head_since_ns < after->head_since_ns ||
                                     (self->head_since_ns == after->head_since_ns && self->id <= after->id)))
                        continue;
                if (!best || self->head_since_ns < best->head_since_ns)
                        best = self;
        }
        return best;
}

static int krisp_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct krisp *krisp = state;
        const struct detshare_coroutine_view *self = NULL;

        moves_look(krisp, snapshot);
        for (uint32_t i = 0; i < TRIES && (self = next_oldest(krisp, snapshot, self)); i++) {
                if (!serve(krisp, snapshot, decision, self) &&
                        snapshot->now_ns - self->head_since_ns >= krisp->patience_ns)
                        break;
        }
        for (uint32_t i = 0; i < decision->n; i++)
                decision->actions[i].reserved = 0;
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "krisp",
        .description = "each kernel runs on the fewest SMs that give it its best latency (KRISP)",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct krisp),
        .init = krisp_init,
        .decide = krisp_decide,
};
