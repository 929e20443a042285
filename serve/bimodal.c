/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/bimodal.h"

#include <errno.h>
#include <stdlib.h>

#include "util/alloc.h"
#include "util/macro.h"

struct state_of {
        uint64_t place;    /* offset of the coloured copy */
        uint32_t written;  /* number of the run that first wrote the tensor */
        enum sv_copy copy; /* the copy that holds the current version */
};

struct sv_bimodal {
        const struct sv_bm_model *model;
        struct state_of *tensors;
        uint64_t weights_again, arena_again;
        uint32_t run, next; /* run: counted from 1; next: number of the next launch */
        enum sv_copy weights;
};

static uint64_t up(uint64_t bytes)
{
        return DS_DIV_UP(bytes, SV_BIMODAL_ALIGN) * SV_BIMODAL_ALIGN;
}

/* --- which tensors have a coloured place -------------------------------------------------------------------------- */

static bool is_good(const struct sv_bm_model *model)
{
        for (uint32_t i = 0; i < model->n_tensors; i++) {
                const struct sv_bm_tensor *tensor = &model->tensors[i];

                if (!tensor->weight && (tensor->first > tensor->last || tensor->last >= model->n_launches))
                        return false;
                if (tensor->bytes > UINT64_MAX / 2 / DS_MAX(model->n_tensors, 1u))
                        return false;
        }
        for (uint32_t i = 0; i < model->n_launches; i++)
                if (model->launches[i].first_use > model->n_uses ||
                        model->launches[i].n_uses > model->n_uses - model->launches[i].first_use)
                        return false;
        for (uint32_t i = 0; i < model->n_uses; i++)
                if (model->uses[i].tensor >= model->n_tensors ||
                        (model->uses[i].access & SV_WRITES && model->tensors[model->uses[i].tensor].weight))
                        return false;
        return true;
}

/* Gives a place other than NOWHERE to each tensor that a memory-bound kernel reads as a weight or is the first to
 * write. */
static void wanted(struct sv_bimodal *b)
{
        const struct sv_bm_model *model = b->model;

        for (uint32_t i = 0; i < model->n_launches; i++) {
                const struct sv_bm_launch *launch = &model->launches[i];

                for (uint32_t k = 0; k < launch->n_uses; k++) {
                        const struct sv_bm_use *use = &model->uses[launch->first_use + k];
                        const struct sv_bm_tensor *tensor = &model->tensors[use->tensor];
                        struct state_of *state = &b->tensors[use->tensor];
                        const bool begins = use->access & SV_WRITES && !tensor->given && !state->written;

                        if (launch->memory_bound && !launch->fixed && (tensor->weight || begins))
                                state->place = 0;
                        state->written |= begins;
                }
        }
}

/* Takes the place away from tensors of kernels whose code accepts no coloured tensor. */
static void unwanted(struct sv_bimodal *b)
{
        const struct sv_bm_model *model = b->model;

        for (uint32_t i = 0; i < model->n_launches; i++) {
                const struct sv_bm_launch *launch = &model->launches[i];

                for (uint32_t k = 0; launch->fixed && k < launch->n_uses; k++) {
                        const uint32_t tensor = model->uses[launch->first_use + k].tensor;

                        /* a kernel gets the other copy of a weight that is held twice */
                        if (!model->tensors[tensor].weight || model->moves)
                                b->tensors[tensor].place = SV_BIMODAL_NOWHERE;
                }
        }
}

/* --- places in the coloured arena --------------------------------------------------------------------------------- */

/* Places of one arena, sorted by their beginnings */
struct placed {
        uint64_t begin, end;
        uint32_t first, last;
};

static int order_places(const void *a, const void *b)
{
        const struct placed *x = a, *y = b;

        return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Orders tensors by size, the largest first; equal sizes by their number. */
static int order_tensors(const void *a, const void *b, void *user)
{
        const struct sv_bm_tensor *all = user;
        const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;

        if (up(all[i].bytes) != up(all[k].bytes))
                return up(all[i].bytes) < up(all[k].bytes) ? 1 : -1;
        if (all[i].first != all[k].first)
                return all[i].first > all[k].first ? 1 : -1;
        return (i > k) - (i < k);
}

/* Returns the beginning of the smallest sufficient gap between tensors with overlapping lifetimes, or the end behind
 * them. */
static uint64_t find_gap(const struct placed *placed, uint32_t n, const struct sv_bm_tensor *tensor)
{
        uint64_t end = 0, best = UINT64_MAX, at = 0;

        for (uint32_t i = 0; i < n; i++) {
                if (placed[i].first > tensor->last || tensor->first > placed[i].last)
                        continue;
                if (placed[i].begin >= end + up(tensor->bytes) && placed[i].begin - end < best) {
                        best = placed[i].begin - end;
                        at = end;
                }
                end = DS_MAX(end, placed[i].end);
        }
        return best == UINT64_MAX ? end : at;
}

static void place_arena(struct sv_bimodal *b, uint32_t *order, struct placed *placed)
{
        const struct sv_bm_tensor *tensors = b->model->tensors;
        uint32_t n = 0;

        for (uint32_t i = 0; i < b->model->n_tensors; i++)
                if (!tensors[i].weight && b->tensors[i].place != SV_BIMODAL_NOWHERE)
                        order[n++] = i;
        qsort_r(order, n, sizeof(*order), order_tensors, (void *)tensors);
        for (uint32_t i = 0; i < n; i++) {
                const struct sv_bm_tensor *tensor = &tensors[order[i]];
                const uint64_t at = find_gap(placed, i, tensor);

                b->tensors[order[i]].place = at;
                b->arena_again = DS_MAX(b->arena_again, at + up(tensor->bytes));
                placed[i] = (struct placed){at, at + up(tensor->bytes), tensor->first, tensor->last};
                qsort(placed, i + 1, sizeof(*placed), order_places);
        }
}

static void place_weights(struct sv_bimodal *b)
{
        for (uint32_t i = 0; i < b->model->n_tensors; i++)
                if (b->model->tensors[i].weight && b->tensors[i].place != SV_BIMODAL_NOWHERE) {
                        b->tensors[i].place = b->weights_again;
                        b->weights_again += up(b->model->tensors[i].bytes);
                }
}

static int plan(struct sv_bimodal *b)
{
        const uint32_t n = b->model->n_tensors;
        ds_cleanup(ds_freep) uint32_t *order = ds_alloc0(DS_MAX(n, 1u), sizeof(*order));
        ds_cleanup(ds_freep) struct placed *placed = ds_alloc0(DS_MAX(n, 1u), sizeof(*placed));

        b->tensors = ds_alloc0(DS_MAX(n, 1u), sizeof(*b->tensors));
        if (!b->tensors || !order || !placed)
                return -ENOMEM;
        for (uint32_t i = 0; i < n; i++)
                b->tensors[i].place = SV_BIMODAL_NOWHERE;
        wanted(b);
        unwanted(b);
        for (uint32_t i = 0; i < n; i++)
                b->tensors[i].written = 0;
        place_weights(b);
        place_arena(b, order, placed);
        return 0;
}

int sv_bimodal_new(const struct sv_bm_model *model, struct sv_bimodal **ret)
{
        ds_cleanup(sv_bimodal_freep) struct sv_bimodal *b = NULL;
        int r;

        if (!is_good(model))
                return -EINVAL;
        b = ds_alloc0(1, sizeof(*b));
        if (!b)
                return -ENOMEM;
        b->model = model;
        r = plan(b);
        if (!r)
                *ret = DS_TAKE_PTR(b);
        return r;
}

struct sv_bimodal *sv_bimodal_free(struct sv_bimodal *b)
{
        if (b)
                ds_free(b->tensors);
        return ds_free(b);
}

void sv_bimodal_freep(struct sv_bimodal **b)
{
        *b = sv_bimodal_free(*b);
}

uint64_t sv_bimodal_place(const struct sv_bimodal *b, uint32_t tensor)
{
        return b->tensors[tensor].place;
}

void sv_bimodal_footprint(const struct sv_bimodal *b, uint64_t arena, struct sv_bm_footprint *ret)
{
        *ret = (struct sv_bm_footprint){
                .weights_again = b->weights_again, .arena = up(arena), .arena_again = b->arena_again};
        for (uint32_t i = 0; i < b->model->n_tensors; i++) {
                const struct sv_bm_tensor *tensor = &b->model->tensors[i];

                *(tensor->weight ? &ret->weights : &ret->arena_apart) += up(tensor->bytes);
                if (!tensor->weight && b->tensors[i].place != SV_BIMODAL_NOWHERE)
                        ret->arena_again_apart += up(tensor->bytes);
        }
}

/* --- the rule ----------------------------------------------------------------------------------------------------- */

static enum sv_copy by_state(enum sv_state state)
{
        return state == SV_COLOCATION ? SV_COLOURED : SV_ALL;
}

bool sv_bimodal_request(struct sv_bimodal *b, enum sv_state state)
{
        const enum sv_copy before = b->weights;

        b->run++;
        b->next = 0;
        if (!b->model->moves || !b->weights_again)
                return false;
        b->weights = by_state(state);
        return b->weights != before;
}

enum sv_copy sv_bimodal_weights(const struct sv_bimodal *b)
{
        return b->weights;
}

static enum sv_copy weight_copy(const struct sv_bimodal *b, const struct sv_bm_launch *launch, enum sv_state state)
{
        if (b->model->moves)
                return b->weights;
        return launch->memory_bound && !launch->fixed ? by_state(state) : SV_ALL;
}

static enum sv_copy copy_for(
        struct sv_bimodal *b, const struct sv_bm_launch *launch, const struct sv_bm_use *use, enum sv_state state)
{
        struct state_of *tensor = &b->tensors[use->tensor];

        if (b->model->tensors[use->tensor].weight)
                return tensor->place == SV_BIMODAL_NOWHERE ? SV_ALL : weight_copy(b, launch, state);
        if (tensor->written == b->run)
                return tensor->copy;
        tensor->copy = SV_ALL;
        if (!(use->access & SV_WRITES) || b->model->tensors[use->tensor].given)
                return SV_ALL;
        tensor->written = b->run;
        if (launch->memory_bound && tensor->place != SV_BIMODAL_NOWHERE)
                tensor->copy = by_state(state);
        return tensor->copy;
}

void sv_bimodal_launch(struct sv_bimodal *b, enum sv_state state, enum sv_copy *ret_copies)
{
        const struct sv_bm_launch *launch = &b->model->launches[b->next++];

        for (uint32_t k = 0; k < launch->n_uses; k++)
                ret_copies[k] = copy_for(b, launch, &b->model->uses[launch->first_use + k], state);
}

enum sv_copy sv_bimodal_copy(const struct sv_bimodal *b, uint32_t tensor)
{
        return b->tensors[tensor].copy;
}
