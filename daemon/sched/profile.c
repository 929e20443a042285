/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges profiles between the statistics and their keeper
 */
#include <string.h>

#include "sched/internal.h"
#include "util/macro.h"

static int point_is_sound(const struct ds_sched_profile *profile, uint32_t i)
{
        const struct detshare_profile_point *point = &profile->points[i];

        return point->n_sms && point->samples && point->mean_ns && point->mean_ns <= INT64_MAX &&
               (!i || profile->points[i - 1].n_sms < point->n_sms);
}

void ds_sched_profile_put(ds_sched *sched, const struct ds_sched_profile *profile)
{
        uint32_t index = ds_kstat_touch(sched->kstat, profile->key);
        struct ds_kstat_row *row = ds_kstat_at(sched->kstat, index, profile->key);
        const struct detshare_profile_point *best = NULL;

        if (profile->bound == DETSHARE_BOUND_COMPUTE || profile->bound == DETSHARE_BOUND_MEMORY)
                row->bound = (uint8_t)profile->bound;
        for (uint32_t i = 0; i < DS_MIN(profile->n_points, DETSHARE_POINTS_MAX); i++) {
                if (!point_is_sound(profile, i))
                        continue;
                ds_kstat_point_put(sched->kstat, row, &profile->points[i]);
                best = &profile->points[i];
        }
        for (int i = DS_PTX_FORM_SLICED; i < _DS_PTX_FORM_MAX; i++)
                if (profile->forms[i].samples && profile->forms[i].permille)
                        ds_kstat_form_put(sched->kstat, row, (enum ds_ptx_form)i, &profile->forms[i]);
        /* first estimate of the kernel's mean: its duration on the largest number of SMs in the profile */
        if (best && !row->samples) {
                row->mean_ns = best->mean_ns;
                row->samples = best->samples;
        }
}

size_t ds_sched_profiles_changed(ds_sched *sched, struct ds_sched_profile *ret, size_t n)
{
        const struct ds_kstat_points *points;
        const struct ds_kstat_row *row;
        size_t i;

        for (i = 0; i < n && (row = ds_kstat_changed(sched->kstat)); i++) {
                points = ds_kstat_points(sched->kstat, row);
                ret[i] = (struct ds_sched_profile){.key = row->key, .bound = row->bound, .n_points = points->n};
                memcpy(ret[i].points, points->at, points->n * sizeof(points->at[0]));
                memcpy(ret[i].forms, points->forms.costs, sizeof(ret[i].forms));
        }
        return i;
}

void ds_sched_profiles_forget(ds_sched *sched)
{
        ds_kstat_forget(sched->kstat);
        ds_notes_forget(&sched->host.notes);
}

void ds_sched_set_bound(ds_sched *sched, uint64_t kernel_key, enum detshare_kernel_bound bound)
{
        uint32_t row = ds_kstat_touch(sched->kstat, kernel_key);

        ds_kstat_at(sched->kstat, row, kernel_key)->bound = (uint8_t)bound;
}
