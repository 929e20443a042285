/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/launch.h"

#include "policies/detshare/best_effort.h"
#include "policies/detshare/evict.h"
#include "policies/detshare/mean.h"
#include "policies/detshare/place.h"

#define LS_DEPTH 64u      /* operations of an LS coroutine on the device at once */
#define ALONE_AHEAD_NS MS /* like `be_ahead_us` while no LS work comes, ns: there is nothing to delay */
#define UNKNOWN 2u        /* operations of unknown duration of one BE coroutine on the device at once */
/* device time by which one BE session may be ahead of another, ns: a few kernels, so that they need not alternate */
#define FAIR_NS (2 * MS)
#define DEPTH 256u /* maximum number of operations of a BE coroutine on the device */
/* Limits on all BE operations on the device. They keep room there for LS, however many streams the BE clients open. */
/* BE operations on the device from which on each BE coroutine has at most one operation there */
#define BE_MANY 512u
#define BE_MOST 3072u /* BE operations on the device from which on no more are sent until some have ended */

/* Launches `count` operations of the coroutine: extends the decision's last action if place and coroutine are the
 * same, otherwise adds an action. Returns 0 if the decision has no room. */
static int launch_add(struct detshare_decision *decision, const struct detshare_coroutine_view *coroutine,
        const struct place *place, uint32_t count)
{
        struct detshare_action *action = decision->n ? &decision->actions[decision->n - 1] : NULL;

        if (action && action->kind == DETSHARE_ACTION_LAUNCH && action->coroutine == coroutine->id &&
                action->rung == place->rung && action->max_resident_blocks == place->blocks &&
                action->evictable == place->evictable) {
                action->count += count;
                return 1;
        }
        if (decision->n == decision->capacity) {
                decision->again = 1;
                return 0;
        }
        decision->actions[decision->n++] = (struct detshare_action){
                .kind = DETSHARE_ACTION_LAUNCH,
                .rung = place->rung,
                .coroutine = coroutine->id,
                .priority = coroutine->class_ == DETSHARE_CLASS_LS ? DETSHARE_PRIORITY_HIGH : DETSHARE_PRIORITY_LOW,
                .count = count,
                .max_resident_blocks = place->blocks,
                .evictable = place->evictable,
        };
        return 1;
}

void launch_ls(const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        const struct place place = {0};

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (coroutine->class_ != DETSHARE_CLASS_LS || !coroutine->ready || coroutine->in_flight >= LS_DEPTH)
                        continue;
                if (!launch_add(decision, coroutine, &place, LS_DEPTH - coroutine->in_flight))
                        return;
        }
}

/* Operations of a BE coroutine on the device. */
struct pipeline {
        uint32_t n;
        int known;
        uint64_t all_ns;  /* expected time of the operations, ns */
        uint64_t rest_ns; /* remaining part of it, ns */
};

static struct pipeline be_pipeline(const struct detshare *d, const struct detshare_coroutine_view *coroutine)
{
        uint64_t all = coroutine->in_flight_expected_ns;

        if (!coroutine->in_flight)
                return (struct pipeline){.known = 1};
        return (struct pipeline){
                .n = coroutine->in_flight,
                .known = all != 0,
                .all_ns = all,
                .rest_ns = all - min_u64(be_runs_for(d, coroutine), all),
        };
}

/*
 * Whether the next operation should be sent now. The device reports the end of an operation late if others follow, so
 * an operation whose expected time has passed counts as ended. A limit on this keeps kernels that are slower than
 * expected from piling up on the device.
 */
static int be_follows(struct detshare *d, const struct pipeline *pipeline, const struct detshare_op_view *op)
{
        uint64_t ahead = d->alone ? ALONE_AHEAD_NS : number(d, P_AHEAD) * US;

        if (!d->alone)
                ahead = min_u64(ahead, max_u64(d->soon_slack_ns, AHEAD_LEAST_NS));
        if (pipeline->n >= UNKNOWN && (!pipeline->known || !op->samples))
                return 0;
        if (!pipeline->n || !pipeline->all_ns)
                return 1;
        if (pipeline->n >= 2 && pipeline->all_ns > 2 * ahead)
                return 0;
        if (pipeline->rest_ns > ahead)
                wake_at(d, d->now_ns + pipeline->rest_ns - ahead);
        return pipeline->rest_ns <= ahead;
}

/* Sends the next operations of a BE coroutine shortly before the device needs them. Returns 0 if the decision is
 * full. */
static int be_launch(struct detshare *d, const struct detshare_snapshot *snapshot, struct detshare_decision *decision,
        const struct detshare_coroutine_view *coroutine)
{
        struct pipeline pipeline = be_pipeline(d, coroutine);
        struct place place = {0};
        uint64_t ns;

        for (uint32_t i = 0; i < coroutine->n_ahead && pipeline.n < DEPTH; i++) {
                const struct detshare_op_view *op = &coroutine->ahead[i];

                if (d->be_flying >= (pipeline.n ? BE_MANY : BE_MOST))
                        break;
                if (!be_follows(d, &pipeline, op))
                        break;
                if (!be_place(d, coroutine, op, pipeline.rest_ns, &place)) {
                        if (!pipeline.n)
                                be_find(d, &snapshot->sessions[coroutine->session])->waits = d->decision;
                        break;
                }
                if (!launch_add(decision, coroutine, &place, 1))
                        return 0;
                ns = op->samples ? stair_time(op, snapshot->rungs[place.rung].n_sms, d->n_sms) : 0;
                ns -= ns / 1000 * op->progress_permille;
                pipeline.n++;
                d->be_flying++;
                pipeline.known = pipeline.known && op->samples;
                pipeline.all_ns += ns;
                pipeline.rest_ns += ns;
        }
        return 1;
}

void launch_be(struct detshare *d, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                uint64_t may = d->fair_ns + FAIR_NS, is;

                if (coroutine->class_ == DETSHARE_CLASS_LS || !coroutine->ready || be_leaves(d, coroutine))
                        continue;
                is = be_find(d, &snapshot->sessions[coroutine->session])->virtual_ns;
                if (is > may && d->fair_runs)
                        wake_at(d, d->now_ns + is - may);
                if (is > may)
                        continue;
                if (!be_launch(d, snapshot, decision, coroutine))
                        return;
        }
}
