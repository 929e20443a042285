/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the ladder on a device, and finds rungs on it
 */
#include "sched/ladder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/macro.h"

/* --- order of TPCs and groups ------------------------------------------------------------------------------------- */

/* A TPC or a group, with its sort key. */
struct ladder_item {
        uint32_t key, number;
};

struct ladder_build {
        struct ds_ladder *ladder;
        const struct ds_device_ops *ops;
        ds_device *device;
        const struct ds_device_info *info;
        struct ladder_item items[DS_DEVICE_TPCS_MAX];
        uint32_t n_items;
};

static int item_compare(const void *a, const void *b)
{
        const struct ladder_item *x = a, *y = b;

        if (x->key != y->key)
                return x->key < y->key ? -1 : 1;
        return x->number < y->number ? -1 : x->number > y->number;
}

/* Sorts TPCs by GPC, or by their rank inside the GPC. TPCs whose GPC is not known are kept together. */
static void order_tpcs(struct ladder_build *b, uint32_t by_gpc)
{
        uint32_t seen[UINT8_MAX + 1] = {0};

        b->n_items = b->info->n_tpcs;
        for (uint32_t i = 0; i < b->n_items; i++) {
                uint8_t gpc = b->info->gpc_of_tpc[i];

                b->items[i] = (struct ladder_item){.key = by_gpc ? gpc : seen[gpc]++, .number = i};
                if (!b->info->n_gpcs)
                        b->items[i].key = 0;
        }
        qsort(b->items, b->n_items, sizeof(b->items[0]), item_compare);
}

/* The GPC to which all TPCs of the group belong. */
static uint32_t gpc_of_group(const struct ds_device_info *info, uint32_t group)
{
        uint32_t gpc = DS_DEVICE_GPC_NONE, n = 0;

        for (uint32_t i = 0; i < info->n_tpcs; i++) {
                if (!(info->group[group].word[i / 64] >> i % 64 & 1))
                        continue;
                if (n++ && info->gpc_of_tpc[i] != gpc)
                        return DS_DEVICE_GPC_NONE;
                gpc = info->gpc_of_tpc[i];
        }
        return gpc;
}

/* Sorts groups by GPC, or keeps the device's order, which spreads them over the GPCs. */
static void order_groups(struct ladder_build *b, uint32_t by_gpc)
{
        b->n_items = b->info->n_groups;
        for (uint32_t i = 0; i < b->n_items; i++)
                b->items[i] = (struct ladder_item){.key = by_gpc ? gpc_of_group(b->info, i) : 0, .number = i};
        qsort(b->items, b->n_items, sizeof(b->items[0]), item_compare);
}

/* --- building ----------------------------------------------------------------------------------------------------- */

static int ladder_create(struct ladder_build *b, uint32_t family, uint32_t begin, uint32_t end, uint32_t *ret_rung)
{
        struct ds_tpc_mask mask = {0};
        uint32_t groups = 0;

        for (uint32_t i = begin; i < end; i++) {
                mask.word[b->items[i].number / 64] |= 1ULL << b->items[i].number % 64;
                groups |= family == DETSHARE_FAMILY_COARSE ? 1u << b->items[i].number : 0;
        }
        if (family == DETSHARE_FAMILY_COARSE)
                return b->ops->rung_create_coarse(b->device, groups, ret_rung);
        return b->ops->rung_create(b->device, &mask, ret_rung);
}

/* Adds a rung over a range of the items. */
static int ladder_add(struct ladder_build *b, uint32_t family, uint32_t begin, uint32_t end)
{
        struct ds_ladder *ladder = b->ladder;
        const struct ds_rung_info *info;
        struct detshare_rung_view *view;
        uint32_t device_rung;
        int r;

        assert(ladder->n < DS_LADDER_MAX);
        r = ladder_create(b, family, begin, end, &device_rung);
        if (r)
                return ds_error_fold(r);
        info = b->ops->rung_info(b->device, device_rung);
        if (!info)
                return ds_error_origin(-ENOTRECOVERABLE);
        view = &ladder->views[ladder->n];
        *view = (struct detshare_rung_view){
                .id = ladder->n,
                .n_sms = info->n_sms,
                .n_tpcs = info->n_tpcs,
                .side = end < b->n_items ? DETSHARE_SIDE_LOWER
                        : begin          ? DETSHARE_SIDE_UPPER
                                         : DETSHARE_SIDE_ALL,
                .family = family,
                .cluster_max = info->cluster_max,
        };
        for (size_t i = 0; i < DS_ARRAY_SIZE(view->tpcs); i++)
                view->tpcs[i] = info->mask.word[i];
        ladder->device_rung[ladder->n++] = device_rung;
        ladder->n_coarse += family == DETSHARE_FAMILY_COARSE;
        return 0;
}

/* Adds a pair of complementary rungs for each border k/steps of the items. */
static int ladder_pairs(struct ladder_build *b, uint32_t family, uint32_t steps)
{
        uint32_t previous = 0;
        int r = 0;

        for (uint32_t k = 1; !r && k < steps; k++) {
                uint32_t border = (k * b->n_items + steps / 2) / steps;

                if (border == previous || border >= b->n_items)
                        continue;
                previous = border;
                r = ladder_add(b, family, 0, border);
                if (!r)
                        r = ladder_add(b, family, border, b->n_items);
        }
        return r;
}

int ds_ladder_build(struct ds_ladder *ladder, const struct ds_device_ops *ops, ds_device *device,
        const struct ds_ladder_options *options)
{
        struct ladder_build b = {.ladder = ladder, .ops = ops, .device = device, .info = ops->info(device)};
        uint32_t steps = options && options->steps ? options->steps : DS_LADDER_STEPS;
        uint32_t by_gpc = options ? options->by_gpc : 0;
        uint64_t before = b.info->own_bytes;
        int r;

        if (!b.info->n_tpcs || b.info->n_tpcs > DS_DEVICE_TPCS_MAX || b.info->n_groups > DS_DEVICE_GROUPS_MAX)
                return ds_error_origin(-ENODEV);
        if (steps < 2 || steps > DS_LADDER_STEPS_MAX)
                return ds_error_origin(-EINVAL);
        memset(ladder, 0, sizeof(*ladder));
        order_tpcs(&b, by_gpc);
        r = ladder_add(&b, DETSHARE_FAMILY_FINE, 0, b.n_items);
        if (!r)
                r = ladder_pairs(&b, DETSHARE_FAMILY_FINE, steps);
        if (!r && b.info->n_groups) {
                order_groups(&b, by_gpc);
                r = ladder_pairs(&b, DETSHARE_FAMILY_COARSE, DS_LADDER_COARSE_STEPS);
        }
        ladder->bytes = b.info->own_bytes > before ? b.info->own_bytes - before : 0;
        ladder->mask_permille = ladder->n > 1 ? b.info->mask_permille : 0;
        return ds_error_trace(r);
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

static int ladder_within(const struct ds_ladder *ladder, uint32_t rung, const struct ds_ladder_ask *ask)
{
        const struct detshare_rung_view *view = &ladder->views[rung];

        return (uint64_t)view->n_tpcs * 100 <= (uint64_t)ask->percent * ladder->views[0].n_tpcs &&
               view->n_sms <= ask->n_sms;
}

static int ladder_takes(const struct detshare_rung_view *view, const struct ds_ladder_ask *ask)
{
        return ask->cluster_blocks <= 1 || ask->cluster_blocks <= view->cluster_max;
}

/* The family (fine or coarse) in which to search for a rung inside ask->rung. */
static uint32_t ladder_family(const struct ds_ladder *ladder, const struct ds_ladder_ask *ask)
{
        const struct detshare_rung_view *fine = &ladder->views[ask->rung ? ask->rung : DS_MIN(1u, ladder->n - 1)];

        return ladder_takes(fine, ask) ? fine->family : (uint32_t)DETSHARE_FAMILY_COARSE;
}

uint32_t ds_ladder_find(const struct ds_ladder *ladder, const struct ds_ladder_ask *ask)
{
        const struct detshare_rung_view *views = ladder->views, *named = &views[ask->rung];
        uint32_t side = ask->class_ == DETSHARE_CLASS_LS ? DETSHARE_SIDE_LOWER : DETSHARE_SIDE_UPPER;
        uint32_t best = DETSHARE_RUNG_NONE, family;

        if (ladder_takes(named, ask)) {
                if (ladder_within(ladder, ask->rung, ask))
                        return ask->rung;
                best = ask->rung;
        }
        if (ask->rung)
                side = named->side;
        family = ladder_family(ladder, ask);
        for (uint32_t i = 1; i < ladder->n; i++) {
                int larger = best != DETSHARE_RUNG_NONE && views[i].n_sms > views[best].n_sms;

                if (views[i].side != side || views[i].family != family || views[i].n_sms > named->n_sms ||
                        !ladder_takes(&views[i], ask))
                        continue;
                /* takes a smaller rung until one is within the bounds, then larger ones as long as they are within
                 * the bounds */
                if (best == DETSHARE_RUNG_NONE ||
                        (ladder_within(ladder, best, ask) ? larger && ladder_within(ladder, i, ask) : !larger))
                        best = i;
        }
        return best;
}

uint32_t ds_ladder_cap(const struct ds_ladder *ladder, uint32_t rung, uint32_t percent, enum detshare_class class_)
{
        const struct ds_ladder_ask ask = {.rung = rung, .class_ = class_, .percent = percent, .n_sms = UINT32_MAX};

        return ds_ladder_find(ladder, &ask);
}
