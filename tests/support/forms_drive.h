/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of a kernel in the interpreter: slices, and workers that are told to stop and taken up again
 *
 * A launch of the native kernel becomes slices of random sizes, or rounds of workers of random numbers with random
 * chunks. Workers run one after the other in a random order, or all in turns; in a round somebody may write the stop
 * flag in the moment that a worker looks at the control block, so that workers leave between any two chunks, and a
 * worker may have a bound. After each round the control block must be as forms.h has it.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/interp/interp.h"
#include "ptx/pass/forms.h"

#define FORMS_ROUNDS 100000 /* until a launch counts as one that never ends */
#define FORMS_WORKERS 6
#define FORMS_RANGES 40

struct forms_drive {
        uint64_t random;
        uint32_t evictions, rounds; /* of the last launch */
        uint32_t every;             /* one look at the control block of so many is told to stop; 0: none */
        int in_turns;               /* workers all at once instead of one after the other */
        ds_interp_block *work[FORMS_WORKERS];
        struct ds_ptx_control *control; /* 64 bytes at a multiple of 64 */
        struct ds_ptx_virtual v;
        uint32_t looks;
        struct ds_interp_cost cost; /* instructions of the last launch */
        char wrong[200];
};

static inline uint32_t forms_random(struct forms_drive *d, uint32_t n)
{
        /* splitmix64, Steele, Lea and Flood 2014 */
        uint64_t z = d->random += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return (uint32_t)((z ^ z >> 31) % n);
}

static inline int forms_open(struct forms_drive *d, uint64_t seed)
{
        int good = 1;

        memset(d, 0, sizeof(*d));
        d->random = seed;
        d->control = aligned_alloc(64, sizeof(*d->control));
        for (int i = 0; i < FORMS_WORKERS; i++)
                good &= (d->work[i] = ds_interp_block_new()) != NULL;
        return good && d->control;
}

static inline void forms_close(struct forms_drive *d)
{
        for (int i = 0; i < FORMS_WORKERS; i++)
                ds_interp_block_free(d->work[i]);
        free(d->control);
        memset(d, 0, sizeof(*d));
}

/* Somebody looks at the control block: perhaps that is the moment in which it is told to stop. */
static inline void forms_memory(void *user, const uint64_t *sectors, uint32_t n, enum ds_interp_access kind)
{
        struct forms_drive *d = user;

        (void)kind;
        for (uint32_t i = 0; i < n; i++) {
                if (sectors[i] != (uint64_t)(uintptr_t)d->control >> DS_INTERP_SECTOR_BITS || !d->every)
                        continue;
                d->looks++;
                if (forms_random(d, d->every) == 0 && d->control->stop != d->v.epoch) {
                        d->control->stop = d->v.epoch;
                        d->evictions++;
                }
        }
}

/* The launch of a form: the native one's, its kernel and parameters replaced */
static inline struct ds_interp_launch forms_launch(struct forms_drive *d, const struct ds_interp_launch *native,
        const ds_interp_kernel *kernel, uint8_t *params, struct ds_interp_range *ranges)
{
        const struct ds_interp_kernel_info *info = ds_interp_kernel_info(kernel);
        const struct ds_interp_range own = {(uintptr_t)d->control, sizeof(*d->control)};
        struct ds_interp_launch l = *native;
        size_t n = 0;

        l.kernel = kernel;
        memcpy(params, native->params, native->params_size);
        l.params = params;
        l.params_size = info->params_size;
        for (size_t i = 0; i < native->n_ranges; i++)
                if (native->ranges[i].va < own.va)
                        ranges[n++] = native->ranges[i];
        ranges[n++] = own;
        for (size_t i = 0; i < native->n_ranges; i++)
                if (native->ranges[i].va > own.va)
                        ranges[n++] = native->ranges[i];
        l.ranges = ranges;
        l.n_ranges = n;
        l.memory = forms_memory;
        l.memory_user = d;
        memcpy(d->v.grid, native->grid, sizeof(d->v.grid));
        d->v.n_blocks = native->grid[0] * native->grid[1] * native->grid[2];
        d->v.control = (uintptr_t)d->control;
        memset(d->control, 0, sizeof(*d->control));
        memset(&d->cost, 0, sizeof(d->cost));
        d->evictions = d->rounds = d->looks = 0;
        d->wrong[0] = 0;
        l.grid[1] = l.grid[2] = 1;
        return l;
}

static inline void forms_set(struct forms_drive *d, const struct ds_interp_launch *l, uint8_t *params)
{
        const struct ds_interp_kernel_info *info = ds_interp_kernel_info(l->kernel);

        memcpy(params + info->params[info->n_params - 1].offset, &d->v, sizeof(d->v));
}

static inline struct ds_interp_result forms_slices(
        struct forms_drive *d, const struct ds_interp_launch *native, const ds_interp_kernel *kernel)
{
        static uint8_t params[65536];
        struct ds_interp_range ranges[FORMS_RANGES];
        struct ds_interp_launch l = forms_launch(d, native, kernel, params, ranges);
        struct ds_interp_result result = {.fault = DS_INTERP_OK};

        for (uint32_t first = 0; first < d->v.n_blocks && !result.fault; first += l.grid[0]) {
                l.grid[0] = 1 + forms_random(d, d->v.n_blocks - first);
                d->v.first = first;
                d->rounds++;
                forms_set(d, &l, params);
                for (uint32_t i = 0; i < l.grid[0] && !result.fault; i++) {
                        if (ds_interp_run_block(d->work[0], &l, i, 0, 0, &result))
                                abort();
                        d->cost.instructions += result.cost.instructions;
                }
        }
        return result;
}

/* One launch of workers */
static inline struct ds_interp_result forms_round(struct forms_drive *d, const struct ds_interp_launch *l)
{
        struct ds_interp_result results[FORMS_WORKERS], result = {.fault = DS_INTERP_OK};
        struct ds_interp_part parts[FORMS_WORKERS];
        uint32_t n = l->grid[0], first = forms_random(d, n);

        for (uint32_t i = 0; i < n; i++) {
                parts[i] =
                        (struct ds_interp_part){.work = d->work[i], .launch = *l, .first = {i}, .results = &results[i]};
                results[i] = (struct ds_interp_result){.fault = DS_INTERP_OK};
        }
        if (d->in_turns && ds_interp_run_grid(parts, n))
                abort();
        for (uint32_t i = 0; i < n && !d->in_turns && !result.fault; i++) {
                if (ds_interp_run_block(d->work[0], l, (i + first) % n, 0, 0, &results[i]))
                        abort();
                result = results[i];
        }
        for (uint32_t i = 0; i < n; i++) {
                d->cost.instructions += results[i].cost.instructions;
                if (results[i].fault)
                        result = results[i];
        }
        return result;
}

static inline struct ds_interp_result forms_persistent(
        struct forms_drive *d, const struct ds_interp_launch *native, const ds_interp_kernel *kernel)
{
        static uint8_t params[65536];
        struct ds_interp_range ranges[FORMS_RANGES];
        struct ds_interp_launch l = forms_launch(d, native, kernel, params, ranges);
        struct ds_interp_result result = {.fault = DS_INTERP_OK};
        uint32_t most, next = 0;

        for (d->v.epoch = 1; d->control->completed == 0 && d->v.epoch < FORMS_ROUNDS; d->v.epoch++) {
                l.grid[0] = 1 + forms_random(d, FORMS_WORKERS);
                d->v.chunk = 1 + forms_random(d, 4);
                most = forms_random(d, 2) ? 0 : 1 + forms_random(d, 3);
                d->v.most = most;
                d->rounds++;
                forms_set(d, &l, params);
                result = forms_round(d, &l);
                if (result.fault)
                        return result;
                if (d->control->left || (d->control->completed && d->control->completed != d->v.epoch) ||
                        (d->control->completed && d->control->next) ||
                        (!d->control->completed && d->control->next < next))
                        (void)snprintf(d->wrong, sizeof(d->wrong), "round %u: left %u, completed %u, next %u after %u",
                                d->v.epoch, d->control->left, d->control->completed, d->control->next, next);
                next = d->control->next;
        }
        if (!d->control->completed)
                (void)snprintf(d->wrong, sizeof(d->wrong), "does not end");
        return result;
}
