/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other forms of kernels: slices, and workers that let go at a chunk's end and resume
 *
 * The device executes the form's own code, as a GPU would. A slice is a launch like any other. Of the persistent form,
 * each chunk is executed by a worker of its own, which takes one chunk and leaves. So the cost of each chunk is known.
 * On the clock the chunks are the blocks, and as many are resident as the launch has workers. Workers keep their places
 * from chunk to chunk (blocks.c).
 *
 * As everywhere in this device, a launch's effect is complete before its time passes. So letting go is only a matter of
 * time: chunks that the clock has not reached are not placed, and their cost is kept. The launch that resumes has no
 * effect any more, only time.
 *
 * A launch that has to let go before it has begun begins when the stream reaches it and lets go at once, with no block
 * done, as on a GPU. If none of it was executed when the request came, it is not executed until it resumes, because the
 * work before it may be killed and executed again. Text that the kernel printed comes with its first completion.
 *
 * Limit: work behind an evicted launch in its stream may have been executed after all of the launch. A caller that runs
 * such work before the launch resumes is wrong, and does not see the error here; a GPU would show it.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "device/form.h"
#include "device/sim/internal.h"
#include "util/alloc.h"

/* --- launches --- */

static struct sim_evicted **evicted_at(struct sim_space *space, uint64_t token)
{
        struct sim_evicted **at = &space->evicted;

        while (*at && (*at)->token != token)
                at = &(*at)->next;
        return at;
}

static bool evicted_is(const struct sim_evicted *evicted, const struct ds_launch *launch)
{
        return evicted && evicted->kernel == launch->kernel &&
               !memcmp(evicted->grid, launch->grid, sizeof(evicted->grid)) &&
               !memcmp(evicted->block, launch->block, sizeof(evicted->block));
}

int sim_form_make(struct sim_space *space, const struct ds_launch *launch, struct sim_form *ret)
{
        const struct ds_kernel_info *info = &launch->kernel->info;
        struct ds_ptx_virtual virtual;
        uint32_t blocks, chunk;
        int r;

        if (info->params_size > sizeof(ret->params))
                return DS_CUDA_INVALID_VALUE;
        r = ds_device_form_check(info, launch, &blocks);
        if (r)
                return r;
        ret->resumes = launch->resumes ? *evicted_at(space, launch->resumes - 1) : NULL;
        if (launch->resumes && !evicted_is(ret->resumes, launch))
                return DS_CUDA_INVALID_VALUE;
        virtual = ds_device_form_virtual(launch, blocks);
        virtual.epoch = virtual.most = launch->form == DS_PTX_FORM_PERSISTENT;
        ret->plain = *launch;
        chunk = DS_MIN(virtual.chunk, blocks);
        ret->plain.grid[0] = launch->form == DS_PTX_FORM_SLICED ? launch->n_blocks : DS_DIV_UP(blocks, chunk);
        ret->plain.grid[1] = ret->plain.grid[2] = 1;
        ds_device_form_params(info, launch, &virtual, ret->params);
        ret->plain.params = ret->params;
        ret->plain.params_size = info->params_size;
        ret->workers = (struct sim_workers){.blocks = blocks, .chunk = chunk};
        memcpy(ret->workers.grid, launch->grid, sizeof(launch->grid));
        return 0;
}

/* Number of the job's blocks that fit on its rung at once. */
static uint64_t rung_room(const ds_device *device, const struct sim_job *job, const struct sim_stream *stream)
{
        const struct sim_model *model = device->model;
        const struct sim_sm empty = {
                .threads = model->sm_threads,
                .blocks = model->sm_blocks,
                .registers = model->sm_registers,
                .shared = model->sm_shared,
        };

        return sim_sm_room(&empty, &job->need, UINT32_MAX) * device->rungs[stream->rung]->info.n_sms;
}

static void resume(struct sim_job *job, struct sim_evicted *evicted)
{
        *evicted_at(job->space, evicted->token) = evicted->next;
        if (evicted->executed) {
                job->executed_before = true;
                job->workers.done = evicted->done;
                job->workers.chunk = evicted->chunk;
                job->workers.chunks = evicted->chunks;
                sim_costs_move(&job->costs, &evicted->costs);
                sim_traffic_move(&job->traffic, &evicted->traffic);
        }
        sim_evicted_free(evicted);
}

void sim_form_take(ds_device *device, const struct sim_stream *stream, struct sim_job *job, struct sim_form *form)
{
        uint64_t room = rung_room(device, job, stream);

        if (form->plain.form != DS_PTX_FORM_PERSISTENT)
                return;
        job->workers = form->workers;
        if (form->plain.workers)
                room = form->plain.workers;
        job->workers.n = (uint32_t)DS_MAX(DS_MIN(room, form->workers.blocks), 1);
        job->max_resident = DS_MIN(job->max_resident, job->workers.n);
        if (form->resumes)
                resume(job, form->resumes);
}

/* Form of a kernel according to the suffix of its name; ret_length: length of the native kernel's name. */
static enum ds_ptx_form form_named(const char *name, size_t *ret_length)
{
        static const char *const suffixes[_DS_PTX_FORM_MAX] = {[DS_PTX_FORM_SLICED] = DS_PTX_FORM_SLICED_SUFFIX,
                [DS_PTX_FORM_PERSISTENT] = DS_PTX_FORM_PERSISTENT_SUFFIX};
        size_t length = strlen(name), suffix;

        for (int form = DS_PTX_FORM_SLICED; form < _DS_PTX_FORM_MAX; form++) {
                suffix = strlen(suffixes[form]);
                *ret_length = length - suffix;
                if (length > suffix && !strcmp(name + length - suffix, suffixes[form]))
                        return (enum ds_ptx_form)form;
        }
        *ret_length = length;
        return DS_PTX_FORM_NATIVE;
}

const char *sim_form_words(const struct ds_device_kernel *kernel, char words[static SIM_KERNEL_WORDS])
{
        static const char *const forms[_DS_PTX_FORM_MAX] = {"", " in slices", " with workers"};
        size_t length;
        enum ds_ptx_form form = form_named(kernel->info.name, &length);

        snprintf(words, SIM_KERNEL_WORDS, "kernel %.*s%s", (int)DS_MIN(length, (size_t)SIM_KERNEL_NAME),
                kernel->info.name, forms[form]);
        return words;
}

const struct ds_device_kernel *sim_form_hinted(const struct ds_device_kernel *kernel)
{
        const ds_device_module *module = kernel->module;
        size_t length;

        if (form_named(kernel->info.name, &length) == DS_PTX_FORM_NATIVE)
                return kernel;
        for (size_t k = 0; k < module->n_kernels; k++)
                if (!strncmp(module->kernels[k].info.name, kernel->info.name, length) &&
                        !module->kernels[k].info.name[length])
                        return &module->kernels[k];
        return kernel;
}

void sim_form_executed(struct sim_job *job, const struct ds_ptx_control *control, uint32_t epoch)
{
        char words[SIM_KERNEL_WORDS];

        if (job->status || atomic_load(&job->abort) ||
                (!control->next && !control->left && control->completed == epoch))
                return;
        sim_job_fail(job, DS_CUDA_LAUNCH_FAILED,
                "%s: its control block ends with next=%u left=%u completed=%u instead of 0, 0 and %u",
                sim_form_words(job->kernel, words), control->next, control->left, control->completed, epoch);
}

/* --- eviction --- */

struct sim_evicted *sim_evicted_free(struct sim_evicted *evicted)
{
        if (!evicted)
                return NULL;
        sim_costs_deinit(&evicted->costs);
        sim_traffic_deinit(&evicted->traffic);
        if (evicted->kernel)
                sim_module_put(evicted->kernel->module);
        return ds_free(evicted);
}

void sim_evicted_drop(struct sim_space *space)
{
        struct sim_evicted *evicted;

        while ((evicted = space->evicted)) {
                space->evicted = evicted->next;
                sim_evicted_free(evicted);
        }
}

bool sim_form_begins(struct sim_job *job)
{
        struct sim_workers *workers = &job->workers;

        if (!workers->chunks)
                workers->chunks = job->costs.n_blocks;
        workers->fill = job->traffic.fill;
        workers->vram = job->traffic.vram;
        if (!workers->let_go || job->status)
                return false;
        workers->left = job->costs.n_blocks;
        return true;
}

/* Blocks of the kernel that are done when workers->left chunks are left. A launch of very many chunks is timed in
 * bundles of chunks. */
static uint32_t blocks_done(const struct sim_workers *workers)
{
        bool whole = workers->chunks == DS_DIV_UP(workers->blocks, workers->chunk);
        uint64_t each = whole ? workers->chunk : DS_DIV_UP(workers->blocks, workers->chunks);

        return (uint32_t)DS_MIN((workers->chunks - workers->left) * each, workers->blocks - 1);
}

/* Moves the costs of chunks that the clock has not reached to `evicted`. */
static void costs_keep(struct sim_job *job, struct sim_evicted *evicted)
{
        struct sim_workers *workers = &job->workers;

        assert(workers->left <= job->costs.n_blocks);
        if (workers->left < job->costs.n_blocks)
                sim_costs_skip(&job->costs, job->costs.n_blocks - workers->left);
        sim_costs_move(&evicted->costs, &job->costs);
        job->traffic.fill = workers->fill;
        job->traffic.vram = workers->vram;
        sim_traffic_move(&evicted->traffic, &job->traffic);
        workers->done = blocks_done(workers);
        evicted->done = workers->done;
        evicted->chunk = workers->chunk;
        evicted->chunks = workers->chunks;
}

bool sim_form_let_go(struct sim_job *job)
{
        struct sim_workers *workers = &job->workers;
        struct sim_evicted *evicted = workers->evicted;

        if (job->status || (!workers->left && !workers->never))
                return false;
        workers->evicted = NULL;
        evicted->token = job->token;
        evicted->kernel = job->kernel;
        evicted->kernel->module->refs++;
        memcpy(evicted->grid, workers->grid, sizeof(evicted->grid));
        memcpy(evicted->block, job->block, sizeof(evicted->block));
        if (workers->never && job->executed_before)
                (void)sim_form_begins(job);
        evicted->executed = !workers->never || job->executed_before;
        if (evicted->executed)
                costs_keep(job, evicted);
        evicted->next = job->space->evicted;
        job->space->evicted = evicted;
        return true;
}

int sim_evict(ds_device *device, uint64_t token)
{
        struct sim_job *job = sim_kernel_in_flight(device, token);

        if (!job || !job->workers.n)
                return DS_CUDA_NOT_FOUND;
        if (job->state == SIM_JOB_ENDING || job->cancelled || job->workers.evicted)
                return 0;
        job->workers.evicted = ds_alloc0(1, sizeof(*job->workers.evicted));
        if (!job->workers.evicted)
                return DS_CUDA_OUT_OF_MEMORY;
        sim_costs_init(&job->workers.evicted->costs);
        if (job != job->stream->head) {
                job->workers.let_go = true;
                job->workers.never = job->cancelled = job->effect == SIM_EFFECT_NONE;
                return 0;
        }
        /* a pending change of the limit on resident blocks has no effect on an evicted launch */
        sim_event_remove(device, &job->bound);
        sim_event_push(device, &job->bound, SIM_EVENT_EVICT, device->now + device->model->timing.bound_ns);
        return 0;
}

void sim_evict_due(ds_device *device, struct sim_job *job)
{
        job->workers.let_go = true;
        if (job->state == SIM_JOB_RUNNING && !job->status)
                sim_blocks_let_go(device, job);
}

void sim_drop(ds_device *device, uint64_t token)
{
        struct sim_evicted **at, *evicted;

        for (size_t i = 0; i < device->n_spaces; i++) {
                at = evicted_at(device->spaces[i], token);
                evicted = *at;
                if (!evicted)
                        continue;
                *at = evicted->next;
                sim_evicted_free(evicted);
                return;
        }
}
