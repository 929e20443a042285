/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building the ladder on a device
 */
#include "sched/ladder.h"

#include <assert.h>
#include <string.h>

#include "util/error.h"
#include "util/macro.h"

static struct ds_tpc_mask ladder_range(uint32_t begin, uint32_t end)
{
        struct ds_tpc_mask mask = {0};

        for (uint32_t i = begin; i < end; i++)
                mask.word[i / 64] |= 1ULL << (i % 64);
        return mask;
}

static int ladder_add(
        struct ds_ladder *ladder, const struct ds_device_ops *ops, ds_device *device, uint32_t begin, uint32_t end)
{
        struct ds_tpc_mask mask = ladder_range(begin, end);
        uint32_t n_tpcs = ops->info(device)->n_tpcs;
        const struct ds_rung_info *info;
        struct detshare_rung_view *view;
        uint32_t device_rung;
        int r;

        assert(ladder->n < DS_LADDER_MAX);
        r = ops->rung_create(device, &mask, &device_rung);
        if (r)
                return ds_error_fold(r);
        info = ops->rung_info(device, device_rung);
        if (!info)
                return ds_error_origin(-ENOTRECOVERABLE);
        view = &ladder->views[ladder->n];
        *view = (struct detshare_rung_view){.id = ladder->n, .n_sms = info->n_sms, .n_tpcs = info->n_tpcs};
        for (size_t i = 0; i < DS_ARRAY_SIZE(view->tpcs); i++)
                view->tpcs[i] = info->mask.word[i];
        view->cluster_max = info->cluster_max;
        if (view->n_tpcs < n_tpcs)
                view->side = begin ? DETSHARE_SIDE_UPPER : DETSHARE_SIDE_LOWER;
        ladder->device_rung[ladder->n++] = device_rung;
        return 0;
}

int ds_ladder_build(struct ds_ladder *ladder, const struct ds_device_ops *ops, ds_device *device)
{
        uint32_t n_tpcs = ops->info(device)->n_tpcs;
        uint32_t previous = 0;
        int r;

        if (!n_tpcs || n_tpcs > DS_DEVICE_TPCS_MAX)
                return ds_error_origin(-ENODEV);
        memset(ladder, 0, sizeof(*ladder));
        r = ladder_add(ladder, ops, device, 0, n_tpcs);
        for (uint32_t k = 1; !r && k < DS_LADDER_STEPS; k++) {
                uint32_t border = (k * n_tpcs + DS_LADDER_STEPS / 2) / DS_LADDER_STEPS;

                if (border == previous || border == n_tpcs)
                        continue;
                previous = border;
                r = ladder_add(ladder, ops, device, 0, border);
                if (!r)
                        r = ladder_add(ladder, ops, device, border, n_tpcs);
        }
        return ds_error_trace(r);
}

static int ladder_within(const struct ds_ladder *ladder, uint32_t rung, uint32_t percent)
{
        return (uint64_t)ladder->views[rung].n_tpcs * 100 <= (uint64_t)percent * ladder->views[0].n_tpcs;
}

uint32_t ds_ladder_cap(const struct ds_ladder *ladder, uint32_t rung, uint32_t percent, enum detshare_class class_)
{
        uint32_t side = class_ == DETSHARE_CLASS_LS ? DETSHARE_SIDE_LOWER : DETSHARE_SIDE_UPPER;
        uint32_t best = rung;

        if (ladder_within(ladder, rung, percent))
                return rung;
        if (rung)
                side = ladder->views[rung].side;
        for (uint32_t i = 1; i < ladder->n; i++) {
                int larger = ladder->views[i].n_tpcs > ladder->views[best].n_tpcs;

                if (ladder->views[i].side != side)
                        continue;
                /* smaller and smaller until one is within, then larger and larger while they are */
                if (ladder_within(ladder, best, percent) ? larger && ladder_within(ladder, i, percent) : !larger)
                        best = i;
        }
        return best;
}
