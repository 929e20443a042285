/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about profiles of kernels: see control_profile.h
 */
#include "core/control_profile.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/internal.h"

#define LIST_MAX 65536u /* most profiles in a list, if a daemon never sends the last page */
#define PUT_MAX 32u

#define TAKE_STRING(to, from) snprintf(to, sizeof(to), "%s", from)

/* --- lists --- */

static void take_profile(const Detshare__Profile *e, struct dsc_profile *ret)
{
        *ret = (struct dsc_profile){
                .key = e->key,
                .grid = {e->grid_x, e->grid_y, e->grid_z},
                .block = {e->block_x, e->block_y, e->block_z},
                .shared_bytes = e->shared_bytes,
                .bound = e->bound,
                .footprint = e->footprint,
                .sliced_permille = e->sliced_permille,
                .sliced_samples = e->sliced_samples,
                .persistent_permille = e->persistent_permille,
                .persistent_samples = e->persistent_samples,
                .changed_ms = e->changed_ms,
                .used_ms = e->used_ms,
                .group = e->group,
        };
        TAKE_STRING(ret->kernel, e->kernel);
        for (size_t i = 0; i < e->n_points && i < DSC_PROFILE_POINTS; i++)
                ret->points[ret->n_points++] = (struct dsc_profile_point){
                        .n_sms = e->points[i]->n_sms,
                        .samples = e->points[i]->samples,
                        .mean_ns = e->points[i]->mean_ns,
                };
        for (size_t i = 0; i < e->n_note && i < DSC_PROFILE_NOTE; i++)
                ret->note[ret->n_note++] = e->note[i];
}

static int take_page(const Detshare__ProfileList *page, struct dsc_profiles *ret)
{
        if (ret->n + page->n_profiles > LIST_MAX)
                return DSC__OUT_OF_MEMORY;
        void *p = reallocarray(ret->rows, ret->n + page->n_profiles + 1, sizeof(*ret->rows));
        if (!p)
                return DSC__OUT_OF_MEMORY;
        ret->rows = p;
        for (size_t i = 0; i < page->n_profiles; i++)
                take_profile(page->profiles[i], &ret->rows[ret->n++]);
        TAKE_STRING(ret->gpu, page->gpu);
        ret->kept = page->kept;
        ret->bytes = page->bytes;
        ret->refused = page->refused;
        ret->failed = page->failed;
        ret->in_memory = page->in_memory;
        return 0;
}

static int next_page(dsc_session *s, Detshare__ListProfiles *list, struct dsc_profiles *ret, bool *more)
{
        Detshare__Request request = DSC__REQUEST(LIST_PROFILES, list_profiles, list);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_LIST_PROFILES, &answer);
        if (r)
                return r;
        const Detshare__ProfileList *page = answer.reply->list_profiles;
        r = take_page(page, ret);
        *more = page->more && page->n_profiles > 0;
        if (*more)
                list->after = page->profiles[page->n_profiles - 1]->id;
        dsc__answer_clear(&answer);
        return r;
}

int dsc_control_profiles(dsc_session *s, const char *filter, uint64_t since_ms, struct dsc_profiles *ret)
{
        Detshare__ListProfiles list = DETSHARE__LIST_PROFILES__INIT;
        bool more = true;
        int r = 0;
        list.filter = (char *)filter;
        list.since_ms = since_ms;
        *ret = (struct dsc_profiles){.n = 0};
        while (more && !r)
                r = next_page(s, &list, ret, &more);
        if (r) {
                free(ret->rows);
                ret->rows = NULL;
        }
        return r;
}

/* --- changes --- */

int dsc_control_profiles_forget(dsc_session *s, const char *filter, uint64_t *ret_count)
{
        Detshare__ForgetProfiles forget = DETSHARE__FORGET_PROFILES__INIT;
        forget.filter = (char *)filter;
        Detshare__Request request = DSC__REQUEST(FORGET_PROFILES, forget_profiles, &forget);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_FORGET_PROFILES, &answer);
        if (r)
                return r;
        *ret_count = answer.reply->forget_profiles->count;
        dsc__answer_clear(&answer);
        return 0;
}

struct put_page {
        Detshare__Profile profiles[PUT_MAX], *pointers[PUT_MAX];
        Detshare__ProfilePoint points[PUT_MAX][DSC_PROFILE_POINTS], *point_pointers[PUT_MAX][DSC_PROFILE_POINTS];
};

static void fill_profile(struct put_page *page, size_t i, const struct dsc_profile *row)
{
        Detshare__Profile *to = &page->profiles[i];
        detshare__profile__init(to);
        to->key = row->key;
        to->of_policy = row->n_note != 0;
        to->group = row->group;
        to->note = (uint64_t *)row->note;
        to->n_note = row->n_note;
        to->kernel = (char *)row->kernel;
        to->grid_x = row->grid[0];
        to->grid_y = row->grid[1];
        to->grid_z = row->grid[2];
        to->block_x = row->block[0];
        to->block_y = row->block[1];
        to->block_z = row->block[2];
        to->shared_bytes = row->shared_bytes;
        to->bound = row->bound;
        to->footprint = row->footprint;
        to->sliced_permille = row->sliced_permille;
        to->sliced_samples = row->sliced_samples;
        to->persistent_permille = row->persistent_permille;
        to->persistent_samples = row->persistent_samples;
        for (uint32_t k = 0; k < row->n_points; k++) {
                detshare__profile_point__init(&page->points[i][k]);
                page->points[i][k].n_sms = row->points[k].n_sms;
                page->points[i][k].samples = row->points[k].samples;
                page->points[i][k].mean_ns = row->points[k].mean_ns;
                page->point_pointers[i][k] = &page->points[i][k];
        }
        to->points = page->point_pointers[i];
        to->n_points = row->n_points;
        page->pointers[i] = to;
}

static int put_page(dsc_session *s, struct put_page *page, const struct dsc_profile *rows, size_t n)
{
        Detshare__PutProfiles put = DETSHARE__PUT_PROFILES__INIT;
        for (size_t i = 0; i < n; i++)
                fill_profile(page, i, &rows[i]);
        put.profiles = page->pointers;
        put.n_profiles = n;
        Detshare__Request request = DSC__REQUEST(PUT_PROFILES, put_profiles, &put);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

int dsc_control_profiles_put(dsc_session *s, const struct dsc_profile *rows, size_t n)
{
        struct put_page *page = calloc(1, sizeof(*page));
        int r = page ? 0 : DSC__OUT_OF_MEMORY;
        for (size_t i = 0; i < n && !r; i += PUT_MAX)
                r = put_page(s, page, rows + i, n - i < PUT_MAX ? n - i : PUT_MAX);
        free(page);
        return r;
}

static int profile_run(dsc_session *s, bool end, char *const *params, size_t n_params)
{
        Detshare__ProfileRun run = DETSHARE__PROFILE_RUN__INIT;
        run.end = end;
        run.params = (char **)params;
        run.n_params = n_params;
        Detshare__Request request = DSC__REQUEST(PROFILE_RUN, profile_run, &run);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

int dsc_control_profile_run(dsc_session *s, char *const *params, size_t n_params)
{
        return profile_run(s, false, params, n_params);
}

int dsc_control_profile_end(dsc_session *s)
{
        return profile_run(s, true, NULL, 0);
}
