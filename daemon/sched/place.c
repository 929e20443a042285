/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/place.h"

#include "device/bound.h"
#include "sched/internal.h"
#include "util/macro.h"

/* Whether the operation can run on the rung as far as residency matters: its blocks fit at once, or need not. */
static int place_holds(const ds_sched *sched, const struct detshare_op_view *view, uint32_t rung)
{
        uint64_t fits = (uint64_t)view->blocks_per_sm * sched->ladder.views[rung].n_sms;

        return !view->all_resident || view->blocks <= fits;
}

static uint32_t place_rung(
        ds_sched *sched, const struct detshare_op_view *view, const struct ds_ladder_ask *ask, uint32_t percent)
{
        struct ds_ladder_ask capped_ask = *ask;
        uint32_t named, capped;

        named = ds_ladder_find(&sched->ladder, ask);
        if (named == DETSHARE_RUNG_NONE) {
                sched->stats.loans += ask->rung != 0;
                return 0;
        }
        capped_ask.percent = percent;
        capped = percent < 100 ? ds_ladder_find(&sched->ladder, &capped_ask) : named;
        if (capped != DETSHARE_RUNG_NONE && place_holds(sched, view, capped)) {
                sched->stats.capped += capped != named && view->kind == DETSHARE_OP_KERNEL;
                return capped;
        }
        if (!named || place_holds(sched, view, named))
                return named;
        sched->stats.loans++;
        return 0;
}

/* Number of the operation's blocks that would be resident on a rung at once. */
static uint64_t place_resident(const ds_sched *sched, const struct detshare_op_view *view, uint32_t rung)
{
        return DS_MIN((uint64_t)view->blocks, (uint64_t)view->blocks_per_sm * sched->ladder.views[rung].n_sms);
}

/* For a device that keeps bounds per SM: the largest number of SMs on which it can keep this bound on resident
 * blocks. */
static uint32_t place_bound_sms(
        const ds_sched *sched, const struct ds_op *op, const struct detshare_op_view *view, uint32_t bound)
{
        uint32_t least = view->blocks_per_sm;

        if (op->kind == DS_OP_LAUNCH &&
                ds_bound_may_pad(sched->info, sched->ops->kernel_info(op->launch.kernel), op->cluster_blocks))
                least = DS_MIN(least, ds_bound_least(sched->info));
        return DS_MAX(bound / DS_MAX(least, 1u), 1u);
}

static void place_bound(const ds_sched *sched, const struct ds_op *op, const struct detshare_op_view *view,
        struct ds_ladder_ask *ask, struct ds_place *ret)
{
        uint32_t inside;

        ret->bounded = ret->max_resident_blocks && ret->max_resident_blocks < place_resident(sched, view, ret->rung);
        if (!sched->info->bound_per_sm)
                return;
        if (ret->bounded) {
                ask->rung = ret->rung;
                ask->n_sms = place_bound_sms(sched, op, view, ret->max_resident_blocks);
                inside = ds_ladder_find(&sched->ladder, ask);
                if (inside != DETSHARE_RUNG_NONE)
                        ret->rung = inside;
        }
        /* on the smaller rung no more blocks than the bound fit anyway, so the launch needs no bound (which changes
         * its shared memory) */
        if (ret->max_resident_blocks >= place_resident(sched, view, ret->rung))
                ret->max_resident_blocks = 0;
}

void ds_place_choose(ds_coroutine *coroutine, const struct ds_op *op, const struct detshare_op_view *view,
        const struct ds_launch_target *target, struct ds_place *ret)
{
        const struct ds_sched_session_config *config = &coroutine->session->config;
        struct ds_ladder_ask ask = {
                .rung = target->rung,
                .class_ = config->class_,
                .percent = 100,
                .n_sms = UINT32_MAX,
                .cluster_blocks = op->cluster_blocks,
        };

        *ret = (struct ds_place){.rung = place_rung(coroutine->sched, view, &ask, config->sm_percent)};
        if (view->kind != DETSHARE_OP_KERNEL || view->all_resident)
                return;
        ret->max_resident_blocks = target->max_resident_blocks;
        place_bound(coroutine->sched, op, view, &ask, ret);
}
