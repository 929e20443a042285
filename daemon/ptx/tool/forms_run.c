/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/tool/forms_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

/* rounds after which a launch counts as endless, together with ROUNDS_PER_BLOCK for each block */
#define ROUNDS 100000u
#define ROUNDS_PER_BLOCK 10u
#define CHUNK_MAX 4u
#define TAKES_MAX 3u /* most tickets of a worker that has a limit */

/* A launch of a form, with the memory of its parameters and ranges. */
struct launch {
        struct ds_interp_launch l;
        uint8_t *params;
        struct ds_interp_range *ranges;
};

uint32_t ds_forms_run_random(struct ds_forms_run *run, uint32_t n)
{
        /* splitmix64, Steele, Lea and Flood 2014 */
        uint64_t z = run->random += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return (uint32_t)((z ^ z >> 31) % n);
}

int ds_forms_run_open(struct ds_forms_run *run, uint64_t seed)
{
        int good = 1;

        *run = (struct ds_forms_run){.random = seed};
        run->control = aligned_alloc(64, sizeof(*run->control));
        for (int i = 0; i < DS_FORMS_RUN_WORKERS; i++)
                good &= (run->work[i] = ds_interp_block_new()) != NULL;
        return good && run->control ? 0 : ds_error_origin(-ENOMEM);
}

void ds_forms_run_close(struct ds_forms_run *run)
{
        for (int i = 0; i < DS_FORMS_RUN_WORKERS; i++)
                ds_interp_block_free(run->work[i]);
        free(run->control);
        *run = (struct ds_forms_run){0};
}

/* Called for accesses to memory: when a worker reads the control block, it may write the stop request. */
static void on_memory(void *user, const uint64_t *sectors, uint32_t n, enum ds_interp_access kind)
{
        struct ds_forms_run *run = user;

        (void)kind;
        for (uint32_t i = 0; i < n; i++) {
                if (sectors[i] != (uint64_t)(uintptr_t)run->control >> DS_INTERP_SECTOR_BITS || !run->every)
                        continue;
                if (ds_forms_run_random(run, run->every) == 0 && run->control->stop != run->v.epoch) {
                        run->control->stop = run->v.epoch;
                        run->evictions++;
                }
        }
}

/* Sets the launch's ranges of memory: those of the native launch, and the control block, sorted. */
static void launch_ranges(const struct ds_forms_run *run, const struct ds_interp_launch *native, struct launch *to)
{
        const struct ds_interp_range own = {(uintptr_t)run->control, sizeof(*run->control)};
        size_t n = 0;

        for (size_t i = 0; i < native->n_ranges; i++)
                if (native->ranges[i].va < own.va)
                        to->ranges[n++] = native->ranges[i];
        to->ranges[n++] = own;
        for (size_t i = 0; i < native->n_ranges; i++)
                if (native->ranges[i].va > own.va)
                        to->ranges[n++] = native->ranges[i];
        to->l.ranges = to->ranges;
        to->l.n_ranges = n;
}

static void launch_free(struct launch *launch)
{
        ds_free(launch->params);
        ds_free(launch->ranges);
}

/* Makes a form's launch from the native one, with another kernel and other parameters. 0 or -ENOMEM; the caller
 * frees the launch in both cases. */
static int launch_make(struct ds_forms_run *run, const struct ds_interp_launch *native, const ds_interp_kernel *kernel,
        struct launch *ret)
{
        const struct ds_interp_kernel_info *info = ds_interp_kernel_info(kernel);

        *ret = (struct launch){.l = *native,
                .params = ds_alloc0(info->params_size, 1),
                .ranges = ds_alloc0(native->n_ranges + 1, sizeof(*ret->ranges))};
        if (!ret->params || !ret->ranges)
                return ds_error_origin(-ENOMEM);
        launch_ranges(run, native, ret);
        if (native->params_size)
                memcpy(ret->params, native->params, native->params_size);
        ret->l.kernel = kernel;
        ret->l.params = ret->params;
        ret->l.params_size = info->params_size;
        ret->l.memory = on_memory;
        ret->l.memory_user = run;
        ret->l.grid[1] = ret->l.grid[2] = 1;
        memcpy(run->v.grid, native->grid, sizeof(run->v.grid));
        run->v.n_blocks = native->grid[0] * native->grid[1] * native->grid[2];
        run->v.control = (uintptr_t)run->control;
        memset(run->control, 0, sizeof(*run->control));
        run->cost = (struct ds_interp_cost){0};
        run->evictions = run->rounds = 0;
        run->wrong[0] = 0;
        return 0;
}

static void launch_set(const struct ds_forms_run *run, struct launch *launch)
{
        const struct ds_interp_kernel_info *info = ds_interp_kernel_info(launch->l.kernel);

        memcpy(launch->params + info->params[info->n_params - 1].offset, &run->v, sizeof(run->v));
}

/* --- slices --- */

static int slice(struct ds_forms_run *run, struct launch *launch, struct ds_interp_result *ret)
{
        launch_set(run, launch);
        for (uint32_t i = 0; i < launch->l.grid[0] && !ret->fault; i++) {
                int r = ds_interp_run_block(run->work[0], &launch->l, i, 0, 0, ret);

                if (r)
                        return ds_error_trace(r);
                run->cost.instructions += ret->cost.instructions;
        }
        return 0;
}

int ds_forms_run_sliced(struct ds_forms_run *run, const struct ds_interp_launch *native, const ds_interp_kernel *kernel,
        struct ds_interp_result *ret)
{
        struct launch launch;
        int r = launch_make(run, native, kernel, &launch);

        *ret = (struct ds_interp_result){.fault = DS_INTERP_OK};
        for (run->v.first = 0; !r && run->v.first < run->v.n_blocks && !ret->fault; run->v.first += launch.l.grid[0]) {
                launch.l.grid[0] = 1 + ds_forms_run_random(run, run->v.n_blocks - run->v.first);
                run->rounds++;
                r = slice(run, &launch, ret);
        }
        launch_free(&launch);
        return r;
}

/* --- workers --- */

static int workers_in_turns(
        struct ds_forms_run *run, const struct ds_interp_launch *l, struct ds_interp_result *results)
{
        struct ds_interp_part parts[DS_FORMS_RUN_WORKERS];

        for (uint32_t i = 0; i < l->grid[0]; i++)
                parts[i] = (struct ds_interp_part){
                        .work = run->work[i], .launch = *l, .first = {i}, .results = &results[i]};
        return ds_interp_run_grid(parts, l->grid[0]);
}

static int workers_one_by_one(
        struct ds_forms_run *run, const struct ds_interp_launch *l, uint32_t first, struct ds_interp_result *results)
{
        const uint32_t n = l->grid[0];
        int r = 0, fault = DS_INTERP_OK;

        for (uint32_t i = 0; i < n && !r && !fault; i++) {
                r = ds_interp_run_block(run->work[0], l, (i + first) % n, 0, 0, &results[i]);
                fault = results[i].fault;
        }
        return r;
}

/* Runs one launch of the persistent form's workers. */
static int workers(struct ds_forms_run *run, struct launch *launch, struct ds_interp_result *ret)
{
        struct ds_interp_result results[DS_FORMS_RUN_WORKERS] = {0};
        uint32_t n = launch->l.grid[0], first = ds_forms_run_random(run, n);
        int r;

        launch_set(run, launch);
        r = run->in_turns ? workers_in_turns(run, &launch->l, results)
                          : workers_one_by_one(run, &launch->l, first, results);
        for (uint32_t i = 0; i < n && !r; i++) {
                run->cost.instructions += results[i].cost.instructions;
                if (results[i].fault && !ret->fault)
                        *ret = results[i];
        }
        return r ? ds_error_trace(r) : 0;
}

/* Checks the control block after a round; next: value of its counter before the round */
static void control_check(struct ds_forms_run *run, uint32_t next)
{
        const struct ds_ptx_control *c = run->control;

        if (c->left || (c->completed && c->completed != run->v.epoch) || (c->completed && c->next) ||
                (!c->completed && c->next < next))
                (void)snprintf(run->wrong, sizeof(run->wrong), "round %u: left %u, completed %u, next %u after %u",
                        run->v.epoch, c->left, c->completed, c->next, next);
}

int ds_forms_run_persistent(struct ds_forms_run *run, const struct ds_interp_launch *native,
        const ds_interp_kernel *kernel, struct ds_interp_result *ret)
{
        struct launch launch;
        int r = launch_make(run, native, kernel, &launch);
        const uint64_t most = ROUNDS + (uint64_t)run->v.n_blocks * ROUNDS_PER_BLOCK;
        uint32_t next = 0;

        *ret = (struct ds_interp_result){.fault = DS_INTERP_OK};
        run->v.epoch = 0;
        while (!r && !ret->fault && !run->control->completed && ++run->v.epoch < DS_MIN(most, UINT32_MAX)) {
                launch.l.grid[0] = 1 + ds_forms_run_random(run, DS_FORMS_RUN_WORKERS);
                run->v.chunk = 1 + ds_forms_run_random(run, CHUNK_MAX);
                run->v.most = ds_forms_run_random(run, 2) ? 0 : 1 + ds_forms_run_random(run, TAKES_MAX);
                run->rounds++;
                r = workers(run, &launch, ret);
                if (!r && !ret->fault)
                        control_check(run, next);
                next = run->control->next;
        }
        if (!r && !ret->fault && !run->control->completed)
                (void)snprintf(run->wrong, sizeof(run->wrong), "does not end");
        launch_free(&launch);
        return r;
}
