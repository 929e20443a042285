/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work: streams, jobs, and their order
 *
 * A submission is checked completely before it is queued: the shape of a launch, and that a copy's bytes belong to the
 * space. Every queued job completes exactly once.
 *
 * Each stream has two cursors. `effect_next` runs ahead: it hands the next job to the execution threads as soon as the
 * one before it is executed, and waits at fences for the other stream's effects. `head` follows on the virtual clock
 * and waits at fences for the other stream's ends. A kernel that reads a clock is executed only when its virtual start
 * has come.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "device/sim/internal.h"
#include "util/alloc.h"
#include "util/error.h"

#define BLOCK_THREADS_MAX 1024
#define GRID_X_MAX 2147483647u
#define GRID_YZ_MAX 65535u

/* --- streams --- */

void sim_streams_init(struct sim_rung *rung, uint32_t id)
{
        struct sim_stream *stream;

        for (uint32_t priority = 0; priority < DS_DEVICE_PRIORITIES; priority++) {
                for (uint32_t i = 0; i < DS_DEVICE_STREAMS_PER_RUNG; i++) {
                        stream = &rung->streams[priority * DS_DEVICE_STREAMS_PER_RUNG + i];
                        *stream = (struct sim_stream){
                                .id = ds_device_stream(id, priority, i), .rung = id, .priority = priority};
                }
        }
}

struct sim_stream *sim_stream_find(ds_device *device, uint32_t id)
{
        const uint32_t per_rung = DS_DEVICE_PRIORITIES * DS_DEVICE_STREAMS_PER_RUNG;

        return id / per_rung < device->n_rungs ? &device->rungs[id / per_rung]->streams[id % per_rung] : NULL;
}

void sim_stream_touch(ds_device *device, struct sim_stream *stream, enum sim_todo todo)
{
        if (stream->todo[todo])
                return;
        stream->todo[todo] = true;
        stream->todo_next[todo] = NULL;
        *(device->todo[todo].tail ? &device->todo[todo].tail->todo_next[todo] : &device->todo[todo].head) = stream;
        device->todo[todo].tail = stream;
}

static struct sim_stream *todo_take(ds_device *device, enum sim_todo todo)
{
        struct sim_stream *stream = device->todo[todo].head;

        if (stream) {
                device->todo[todo].head = stream->todo_next[todo];
                if (!device->todo[todo].head)
                        device->todo[todo].tail = NULL;
                stream->todo[todo] = false;
        }
        return stream;
}

static void stream_push(struct sim_stream *stream, struct sim_job *job)
{
        job->stream = stream;
        job->seq = ++stream->submitted;
        if (stream->tail)
                stream->tail->next = job;
        else
                stream->head = job;
        stream->tail = job;
        if (!stream->effect_next)
                stream->effect_next = job;
}

static void stream_pop(struct sim_stream *stream)
{
        struct sim_job *job = stream->head;

        stream->head = job->next;
        if (!stream->head)
                stream->tail = NULL;
        if (stream->effect_next == job)
                stream->effect_next = job->next;
        job->next = NULL;
}

void sim_stream_effected(ds_device *device, struct sim_stream *stream)
{
        struct sim_stream *waiter;

        sim_stream_touch(device, stream, SIM_TODO_EFFECTS);
        while ((waiter = stream->effect_waiters)) {
                stream->effect_waiters = waiter->effect_wait_next;
                waiter->effect_waiting = false;
                sim_stream_touch(device, waiter, SIM_TODO_EFFECTS);
        }
}

static void stream_ended(ds_device *device, struct sim_stream *stream)
{
        struct sim_stream *waiter;

        sim_stream_touch(device, stream, SIM_TODO_HEAD);
        while ((waiter = stream->end_waiters)) {
                stream->end_waiters = waiter->end_wait_next;
                waiter->end_waiting = false;
                sim_stream_touch(device, waiter, SIM_TODO_HEAD);
        }
}

/* --- jobs --- */

static struct sim_job *job_new(ds_device *device, enum sim_job_kind kind, struct sim_space *space, uint64_t token)
{
        struct sim_job *job = device->free_jobs;

        if (job)
                device->free_jobs = job->next;
        else
                job = ds_alloc(sizeof(*job));
        if (!job)
                return NULL;
        /* all fields except the message and the inline parameters, which are large and are written before they are
         * read */
        memset(job, 0, offsetof(struct sim_job, message));
        job->message[0] = 0;
        job->kind = kind;
        job->space = space;
        job->token = token;
        job->submit_ns = device->now;
        job->limit = job->wake = UINT64_MAX;
        sim_costs_init(&job->costs);
        job->traffic.pass = job->traffic.fill = job->traffic.vram = SIM_LOAD_ONE;
        if (space)
                space->in_flight++;
        return job;
}

void sim_job_free(ds_device *device, struct sim_job *job)
{
        assert(!job->event.index && !job->deadline.index && !job->bound.index && !job->groups && !job->snapshot);
        sim_costs_deinit(&job->costs);
        sim_traffic_deinit(&job->traffic);
        sim_text_drop(device, job);
        job->workers.evicted = sim_evicted_free(job->workers.evicted);
        if (job->kind == SIM_JOB_KERNEL) {
                if (job->params != job->params_inline)
                        ds_free(job->params);
                if (job->kernel)
                        sim_module_put(job->kernel->module);
        }
        job->next = device->free_jobs;
        device->free_jobs = job;
}

void sim_job_fail(struct sim_job *job, int32_t status, const char *fmt, ...)
{
        va_list args;

        if (job->status)
                return;
        job->status = status;
        va_start(args, fmt);
        vsnprintf(job->message, sizeof(job->message), fmt, args);
        va_end(args);
}

static void job_sentence(struct sim_job *job)
{
        char words[SIM_KERNEL_WORDS];

        if (!job->verdict)
                return;
        job->status = 0;
        if (job->verdict == DS_DEVICE_EVICTED)
                return;
        if (job->verdict == DS_CUDA_LAUNCH_TIMEOUT)
                sim_job_fail(job, job->verdict, "%s ran past its deadline of %llu ns",
                        sim_form_words(job->kernel, words), (unsigned long long)job->deadline_ns);
        else
                sim_job_fail(job, job->verdict, job->killed ? "killed" : "aborted before its end, with its session");
}

void sim_job_end(ds_device *device, struct sim_job *job, bool urgent)
{
        struct sim_stream *stream = job->stream;

        assert(stream->head == job && job->effect != SIM_EFFECT_SUBMITTED);
        sim_event_remove(device, &job->event);
        sim_event_remove(device, &job->deadline);
        sim_event_remove(device, &job->bound);
        stream_pop(stream);
        if (stream->effected < job->seq) { /* the job ends without having been executed */
                stream->effected = job->seq;
                sim_stream_effected(device, stream);
        }
        sim_copy_forget(device, job);
        job_sentence(job);
        if (job->workers.let_go && sim_form_let_go(job))
                job->status = DS_DEVICE_EVICTED;
        job->state = SIM_JOB_ENDED;
        job->end_ns = device->now;
        job->visible_ns = device->now + device->model->timing.notify_ns;
        job->space->in_flight--;
        stream->ended = job->seq;
        stream->ended_ns = device->now;
        stream->free_ns = device->now + device->model->timing.gap_ns;
        sim_fifo_push(urgent ? &device->urgent : &device->ended, job);
        stream_ended(device, stream);
}

void sim_job_withdraw(ds_device *device, struct sim_job *job, int32_t verdict)
{
        assert(job->stream->head == job);
        sim_event_remove(device, &job->event);
        sim_event_remove(device, &job->deadline);
        sim_event_remove(device, &job->bound);
        if (job->state == SIM_JOB_WAITING)
                sim_waiting_remove(device, job);
        else if (job->state == SIM_JOB_PUT_OFF)
                sim_put_off_remove(device, job);
        else if (job->state == SIM_JOB_RUNNING && job->kind == SIM_JOB_KERNEL && job->kernel->profile)
                sim_room_kill(device, job);
        else if (job->state == SIM_JOB_RUNNING && job->kind == SIM_JOB_KERNEL)
                sim_blocks_kill(device, job);
        else if (job->state == SIM_JOB_RUNNING)
                sim_copy_kill(device, job);
        if (job->state != SIM_JOB_RUNNING || !job->start_ns || job->start_ns > device->now)
                job->start_ns = device->now;
        job->verdict = verdict;
}

/*
 * Gives up a job. Jobs given up at one instant end together, when no thread executes any of them any more, in the order
 * of giving up. So the consequences do not depend on the order in which threads finish.
 */
void sim_job_give_up(ds_device *device, struct sim_job *job, int32_t verdict)
{
        if (job->state == SIM_JOB_ENDING) {
                job->killed = job->killed && verdict == DS_DEVICE_KILLED;
                job->workers.never = false;
                if (job->verdict == DS_DEVICE_EVICTED)
                        job->verdict = verdict;
                return;
        }
        sim_job_withdraw(device, job, verdict);
        job->state = SIM_JOB_ENDING;
        job->cancelled = true;
        sim_line_push(&device->ending, job);
        if (job->effect != SIM_EFFECT_SUBMITTED)
                return;
        if (!sim_pool_cancel(device, job)) {
                atomic_store(&job->abort, SIM_ABORT_UNWANTED);
                sim_job_block(device, job);
                return;
        }
        job->effect = SIM_EFFECT_NONE;
        job->stream->effect_busy = false;
        job->snapshot = sim_snapshot_put(job->snapshot);
}

static void ending_end(ds_device *device)
{
        struct sim_job *job = device->ending.head, *next;

        device->ending = (struct sim_fifo){};
        for (; job; job = next) {
                next = job->ready_next;
                job->ready_next = NULL;
                sim_job_end(device, job,
                        /* the end of an aborted session's jobs becomes visible without waiting for the clock */
                        !job->killed && !job->workers.never);
        }
}

/* --- effects --- */

/* Hands the job to a thread, or executes it here if it is short. Afterwards its effect is DONE or SUBMITTED. */
static void job_effect(ds_device *device, struct sim_job *job)
{
        struct sim_stream *stream = job->stream;
        uint64_t bytes;

        if (job->cancelled || job->executed_before || (job->kind == SIM_JOB_KERNEL && device->timing_only)) {
                job->effect = SIM_EFFECT_DONE;
                return;
        }
        job->snapshot = sim_snapshot_get(job->space);
        if (!job->snapshot) {
                sim_job_fail(job, DS_CUDA_OUT_OF_MEMORY, "not enough host memory to execute kernels");
                job->effect = SIM_EFFECT_DONE;
                sim_costs_finish(&job->costs, SIM_BLOCKS_EXACT);
                return;
        }
        bytes = job->kind == SIM_JOB_KERNEL ? UINT64_MAX
                : job->kind == SIM_JOB_COPY ? job->copy.width * job->copy.height
                                            : job->memset.width * job->memset.height * job->memset.element_size;
        if (bytes <= SIM_COPY_INLINE) {
                sim_exec_transfer(device, job);
                job->snapshot = sim_snapshot_put(job->snapshot);
                job->effect = SIM_EFFECT_DONE;
                return;
        }
        job->clock_ns = device->now;
        stream->effect_busy = true;
        sim_pool_submit(device, job, job->moving || (job->state == SIM_JOB_WAITING && !sim_copy_is_early(job)));
}

/* True: the effects that the fence waits for are complete. False: the stream waits for the other stream's effects. */
static bool fence_effected(struct sim_stream *stream, const struct sim_job *fence)
{
        struct sim_stream *from = fence->from;

        if (from->effected >= fence->from_seq)
                return true;
        if (!stream->effect_waiting) {
                stream->effect_waiting = true;
                stream->effect_wait_next = from->effect_waiters;
                from->effect_waiters = stream;
        }
        return false;
}

static void stream_effects(ds_device *device, struct sim_stream *stream)
{
        struct sim_job *job;

        while (!stream->effect_busy && (job = stream->effect_next)) {
                if (job->kind == SIM_JOB_FENCE) {
                        if (!fence_effected(stream, job))
                                return;
                        job->effect = SIM_EFFECT_DONE;
                } else if (job->effect == SIM_EFFECT_NONE) {
                        if (job->kind == SIM_JOB_KERNEL && job->kernel->reads_clock && !device->timing_only &&
                                !job->cancelled && job->state != SIM_JOB_WAITING)
                                return;
                        job_effect(device, job);
                }
                stream->effect_next = job->next;
                if (job->effect != SIM_EFFECT_DONE)
                        /* a thread executes the job; sim_pool_collect() continues the stream when the effect is
                         * complete */
                        return;
                stream->effected = job->seq;
                sim_stream_effected(device, stream);
                sim_job_unblock(device, job);
        }
}

/* --- heads --- */

static void job_arm(ds_device *device, struct sim_job *job)
{
        const struct sim_timing *t = &device->model->timing;
        struct sim_stream *stream = job->stream;
        uint64_t begin;

        begin = DS_MAX(DS_MAX(job->submit_ns + t->launch_ns, stream->free_ns), device->now);
        job->state = SIM_JOB_ARMED;
        if (job->kind != SIM_JOB_KERNEL) {
                sim_event_push(device, &job->event, SIM_EVENT_START, begin);
                return;
        }
        begin = DS_MAX(begin, stream->issue_ns);
        stream->issue_ns = begin + t->issue_stream_ns;
        sim_event_push(device, &job->event, SIM_EVENT_BEGIN, begin);
}

/* True: the jobs that the head's fence waits for have ended. False: the stream waits for the other stream's ends. */
static bool fence_ended(ds_device *device, struct sim_stream *stream, struct sim_job *fence)
{
        const struct sim_timing *t = &device->model->timing;
        struct sim_stream *from = fence->from;

        if (from->ended >= fence->from_seq) {
                stream->free_ns = DS_MAX(stream->free_ns, from->ended_ns + t->gap_ns + t->fence_ns);
                return true;
        }
        if (!stream->end_waiting) {
                stream->end_waiting = true;
                stream->end_wait_next = from->end_waiters;
                from->end_waiters = stream;
        }
        return false;
}

/* Status with which a cancelled job ends: it never begins. */
static int32_t cancelled_verdict(const struct sim_job *job)
{
        if (job->workers.never)
                return DS_DEVICE_EVICTED;
        return job->killed ? DS_DEVICE_KILLED : DS_CUDA_LAUNCH_FAILED;
}

static void stream_arm(ds_device *device, struct sim_stream *stream)
{
        struct sim_job *job;

        while ((job = stream->head) && job->state == SIM_JOB_QUEUED) {
                if (job->kind != SIM_JOB_FENCE) {
                        if (!job->cancelled)
                                job_arm(device, job);
                        else
                                sim_job_give_up(device, job, cancelled_verdict(job));
                        continue;
                }
                /* a job ends only after its effect is complete, so the effect cursor is never behind the head */
                if (!fence_ended(device, stream, job))
                        return;
                stream_pop(stream);
                stream->effected = DS_MAX(stream->effected, job->seq);
                stream->ended = job->seq;
                stream->ended_ns = DS_MAX(stream->ended_ns, job->from->ended_ns);
                sim_job_free(device, job);
                sim_stream_effected(device, stream);
                stream_ended(device, stream);
        }
}

void sim_settle(ds_device *device)
{
        struct sim_stream *stream;

        do {
                while ((stream = todo_take(device, SIM_TODO_HEAD)))
                        stream_arm(device, stream);
                while ((stream = todo_take(device, SIM_TODO_EFFECTS)))
                        stream_effects(device, stream);
                if (!device->n_ending)
                        ending_end(device);
        } while (device->todo[SIM_TODO_HEAD].head);
}

/* --- submission --- */

static void stream_submit(ds_device *device, struct sim_stream *stream, struct sim_job *job)
{
        stream_push(stream, job);
        sim_stream_touch(device, stream, SIM_TODO_HEAD);
        sim_stream_touch(device, stream, SIM_TODO_EFFECTS);
        sim_settle(device);
}

/* Values derived from a launch and its kernel: resources of a block, grid, clusters. */
struct shape {
        struct sim_need need;
        uint32_t grid[3], cluster[3];
};

static int launch_check(const ds_device *device, const struct ds_launch *l, uint32_t rung, struct shape *ret)
{
        const struct ds_kernel_info *info = &l->kernel->info;
        const struct sim_model *model = device->model;
        uint64_t threads = (uint64_t)l->block[0] * l->block[1];

        if (!l->grid[0] || !l->grid[1] || !l->grid[2] || l->grid[0] > GRID_X_MAX || l->grid[1] > GRID_YZ_MAX ||
                l->grid[2] > GRID_YZ_MAX)
                return DS_CUDA_INVALID_VALUE;
        if (!l->block[0] || !l->block[1] || !l->block[2] || l->block[0] > 1024 || l->block[1] > 1024 ||
                l->block[2] > 64 || threads * l->block[2] > BLOCK_THREADS_MAX)
                return DS_CUDA_INVALID_VALUE;
        if (l->shared_bytes > model->block_shared_optin ||
                info->static_shared > model->block_shared_optin - l->shared_bytes)
                return DS_CUDA_INVALID_VALUE;
        if (l->params_size < info->params_size || l->params_size > SIM_PARAMS_MAX || (l->params_size && !l->params))
                return DS_CUDA_INVALID_VALUE;
        if (threads * l->block[2] > info->max_threads)
                return DS_CUDA_LAUNCH_OUT_OF_RESOURCES;
        sim_need_of(model, l->kernel, l->block, l->shared_bytes, &ret->need);
        if (!sim_blocks_fit(device, &ret->need))
                return DS_CUDA_LAUNCH_OUT_OF_RESOURCES;
        return sim_clusters_check(device, device->rungs[rung], l, ret->grid, ret->cluster);
}

/* Checks that a launch has the grid, block and shared memory for which the profile gives the duration. */
static int profile_check(const struct ds_launch *l)
{
        const struct sim_profile_kernel *profile = l->kernel->profile;

        return memcmp(l->grid, profile->grid, sizeof(l->grid)) || memcmp(l->block, profile->block, sizeof(l->block)) ||
                               l->shared_bytes
                       ? DS_CUDA_INVALID_VALUE
                       : 0;
}

static int job_params(struct sim_job *job, const struct ds_launch *launch)
{
        job->params = job->params_inline;
        /* size that the kernel expects; a longer buffer from the caller has padding at its end */
        job->params_size = launch->kernel->info.params_size;
        if (job->params_size > sizeof(job->params_inline)) {
                job->params = ds_alloc(job->params_size);
                if (!job->params)
                        return -ENOMEM;
        }
        if (job->params_size)
                memcpy(job->params, launch->params, job->params_size);
        return 0;
}

static uint64_t saturated_product(uint64_t a, uint64_t b)
{
        uint64_t product;

        return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Sets the cost of blocks, or of a worker's chunks, on a timing-only device. */
static void job_static_cost(ds_device *device, struct sim_job *job)
{
        const struct ds_device_kernel *kernel = sim_form_hinted(job->kernel);
        uint64_t n = (uint64_t)job->grid[0] * job->grid[1] * job->grid[2];
        struct sim_run run;

        sim_cost_static(device->model, kernel, job->block, &run);
        if (job->workers.n)
                sim_cost_times(&run, job->workers.chunk);
        run.n = n;
        sim_costs_add(&job->costs, &run);
        sim_traffic_static(device->model, kernel, saturated_product(run.bytes, run.n), &job->traffic);
        sim_costs_finish(&job->costs, SIM_BLOCKS_EXACT);
}

static int job_of_launch(ds_device *device, struct sim_space *space, const struct ds_launch *launch,
        const struct shape *shape, uint64_t token, struct sim_job **ret)
{
        struct sim_job *job = job_new(device, SIM_JOB_KERNEL, space, token);

        if (!job)
                return ds_error_origin(-ENOMEM);
        if (job_params(job, launch) < 0) {
                space->in_flight--;
                sim_job_free(device, job);
                return ds_error_origin(-ENOMEM);
        }
        job->kernel = launch->kernel;
        job->kernel->module->refs++;
        memcpy(job->grid, launch->kernel->profile ? launch->grid : shape->grid, sizeof(job->grid));
        memcpy(job->block, launch->block, sizeof(job->block));
        memcpy(job->cluster, shape->cluster, sizeof(job->cluster));
        job->cluster_blocks = DS_MAX(shape->cluster[0] * shape->cluster[1] * shape->cluster[2], 1u);
        job->shared_bytes = launch->shared_bytes;
        job->cooperative = launch->cooperative;
        job->max_resident = launch->max_resident_blocks ? launch->max_resident_blocks : UINT32_MAX;
        job->deadline_ns = launch->deadline_ns;
        job->number = space->n_launches++;
        job->need = shape->need;
        if (launch->replays)
                job->executed_before = sim_kept_take(space, launch->replays - 1, job);
        *ret = job;
        return 0;
}

/* form: the sliced or persistent form of the launch; NULL for the native form */
static int launch_plain(ds_device *device, struct sim_space *space, struct sim_stream *stream,
        const struct ds_launch *launch, struct sim_form *form, uint64_t token)
{
        struct shape shape = {};
        struct sim_job *job = NULL;
        int r;

        r = launch->kernel->profile ? profile_check(launch) : launch_check(device, launch, stream->rung, &shape);
        if (!r)
                r = job_of_launch(device, space, launch, &shape, token, &job);
        if (r)
                return r;
        if (form)
                sim_form_take(device, stream, job, form);
        if (device->timing_only && !job->kernel->profile && !job->executed_before)
                job_static_cost(device, job);
        stream_submit(device, stream, job);
        return 0;
}

static int launch_form(ds_device *device, struct sim_space *space, struct sim_stream *stream,
        const struct ds_launch *launch, uint64_t token)
{
        struct sim_form form;
        int r = launch->kernel->profile ? DS_CUDA_NOT_SUPPORTED : sim_form_make(space, launch, &form);

        return r ? r : launch_plain(device, space, stream, &form.plain, &form, token);
}

int sim_launch(ds_device *device, const struct ds_launch *launch, uint64_t token)
{
        struct sim_space *space = sim_space_find(device, launch->space);
        struct sim_stream *stream = sim_stream_find(device, launch->stream);

        if (!space || !stream)
                return ds_error_origin(-ENOENT);
        if (!launch->kernel || launch->kernel->module->space != launch->space)
                return DS_CUDA_INVALID_HANDLE;
        if (launch->form != DS_PTX_FORM_NATIVE)
                return launch_form(device, space, stream, launch, token);
        return launch_plain(device, space, stream, launch, NULL, token);
}

/* Checks rows of width bytes, pitch apart: all lie in the space, and no address overflows. */
static bool rows_ok(struct sim_space *space, uint64_t va, uint64_t pitch, uint64_t width, uint64_t height)
{
        uint64_t extent;

        if (height > 1 && pitch < width)
                return false;
        if (__builtin_mul_overflow(height - 1, pitch, &extent) || __builtin_add_overflow(extent, width, &extent))
                return false;
        return sim_space_covers(space, va, extent);
}

int sim_copy(ds_device *device, const struct ds_copy *copy, uint64_t token)
{
        struct sim_space *space = sim_space_find(device, copy->space);
        struct sim_stream *stream = sim_stream_find(device, copy->stream);
        struct sim_job *job;

        if (!space || !stream)
                return ds_error_origin(-ENOENT);
        if ((uint32_t)copy->kind >= _DS_COPY_MAX)
                return DS_CUDA_INVALID_VALUE;
        if (copy->width && copy->height &&
                (!rows_ok(space, copy->dst, copy->dst_pitch, copy->width, copy->height) ||
                        !rows_ok(space, copy->src, copy->src_pitch, copy->width, copy->height)))
                return DS_CUDA_INVALID_VALUE;
        job = job_new(device, SIM_JOB_COPY, space, token);
        if (!job)
                return ds_error_origin(-ENOMEM);
        job->copy = *copy;
        stream_submit(device, stream, job);
        return 0;
}

int sim_memset(ds_device *device, const struct ds_memset *memset, uint64_t token)
{
        struct sim_space *space = sim_space_find(device, memset->space);
        struct sim_stream *stream = sim_stream_find(device, memset->stream);
        uint32_t size = memset->element_size;
        struct sim_job *job;
        uint64_t width;

        if (!space || !stream)
                return ds_error_origin(-ENOENT);
        if ((size != 1 && size != 2 && size != 4 && !(size == 8 && memset->width == 1 && memset->height == 1)) ||
                memset->dst % size || memset->pitch % size || __builtin_mul_overflow(memset->width, size, &width))
                return DS_CUDA_INVALID_VALUE;
        if (width && memset->height && !rows_ok(space, memset->dst, memset->pitch, width, memset->height))
                return DS_CUDA_INVALID_VALUE;
        job = job_new(device, SIM_JOB_MEMSET, space, token);
        if (!job)
                return ds_error_origin(-ENOMEM);
        job->memset = *memset;
        stream_submit(device, stream, job);
        return 0;
}

int sim_fence(ds_device *device, uint32_t from_id, uint32_t to_id)
{
        struct sim_stream *from = sim_stream_find(device, from_id), *to = sim_stream_find(device, to_id);
        struct sim_job *job;

        if (!from || !to)
                return ds_error_origin(-ENOENT);
        if (from == to || !from->submitted)
                return 0;
        job = job_new(device, SIM_JOB_FENCE, NULL, 0);
        if (!job)
                return ds_error_origin(-ENOMEM);
        job->from = from;
        job->from_seq = from->submitted;
        stream_submit(device, to, job);
        return 0;
}

/* --- limit on resident blocks --- */

struct sim_job *sim_kernel_in_flight(ds_device *device, uint64_t token)
{
        const uint32_t per_rung = DS_DEVICE_PRIORITIES * DS_DEVICE_STREAMS_PER_RUNG;

        for (uint32_t i = 0; i < device->n_rungs * per_rung; i++)
                for (struct sim_job *job = sim_stream_find(device, i)->head; job; job = job->next)
                        if (job->kind == SIM_JOB_KERNEL && job->token == token)
                                return job;
        return NULL;
}

int sim_bound(ds_device *device, uint64_t token, uint32_t max_resident_blocks)
{
        struct sim_job *job = sim_kernel_in_flight(device, token);

        if (!job)
                return DS_CUDA_NOT_FOUND;
        if (job->kernel->profile)
                return DS_CUDA_NOT_SUPPORTED; /* the kernels of a profile have no blocks to limit */
        if (job->state == SIM_JOB_ENDING || job->workers.evicted)
                return 0;
        if (job->workers.n)
                max_resident_blocks = DS_MIN(max_resident_blocks, job->workers.n);
        job->bound_to = max_resident_blocks;
        if (job != job->stream->head) {
                job->max_resident = max_resident_blocks;
                return 0;
        }
        /* the last of several pending changes counts */
        sim_event_remove(device, &job->bound);
        sim_event_push(device, &job->bound, SIM_EVENT_BOUND, device->now + device->model->timing.bound_ns);
        return 0;
}

/* --- abort --- */

static void stream_abort(ds_device *device, struct sim_stream *stream, const struct sim_space *space)
{
        struct sim_job *head = stream->head;

        /* jobs behind the head end when the stream reaches them, in order */
        for (struct sim_job *job = head ? head->next : NULL; job; job = job->next) {
                if (job->space != space || job->kind == SIM_JOB_FENCE)
                        continue;
                job->cancelled = true;
                job->killed = job->workers.never = false;
                atomic_store(&job->abort, SIM_ABORT_UNWANTED);
        }
        if (head && head->space == space && head->kind != SIM_JOB_FENCE)
                sim_job_give_up(device, head, DS_CUDA_LAUNCH_FAILED);
}

void sim_abort(ds_device *device, uint32_t id)
{
        const uint32_t per_rung = DS_DEVICE_PRIORITIES * DS_DEVICE_STREAMS_PER_RUNG;
        struct sim_space *space = sim_space_find(device, id);

        if (space)
                sim_kept_drop(space);
        if (!space || !space->in_flight)
                return;
        for (uint32_t i = 0; i < device->n_rungs * per_rung; i++)
                stream_abort(device, sim_stream_find(device, i), space);
        sim_settle(device);
        /* completions of aborted jobs are available at once: wakes the owner, since the clock may stand */
        if (device->urgent.head)
                sim_pool_wake(device);
}

static void stream_free(ds_device *device, struct sim_stream *stream)
{
        struct sim_job *job;

        while ((job = stream->head)) {
                sim_event_remove(device, &job->event);
                sim_event_remove(device, &job->deadline);
                sim_event_remove(device, &job->bound);
                sim_event_remove(device, &job->tail);
                sim_event_remove(device, &job->yield);
                job->groups = NULL;
                job->snapshot = sim_snapshot_put(job->snapshot);
                stream_pop(stream);
                if (job->space)
                        job->space->in_flight--;
                sim_job_free(device, job);
        }
}

void sim_jobs_free(ds_device *device)
{
        const uint32_t per_rung = DS_DEVICE_PRIORITIES * DS_DEVICE_STREAMS_PER_RUNG;
        struct sim_stream *stream;
        struct sim_job *job;

        for (uint32_t i = 0; i < device->n_rungs * per_rung; i++)
                for (job = sim_stream_find(device, i)->head; job; job = job->next)
                        atomic_store(&job->abort, SIM_ABORT_UNWANTED);
        sim_pool_stop(device);
        for (uint32_t i = 0; i < device->n_rungs * per_rung; i++) {
                stream = sim_stream_find(device, i);
                stream_free(device, stream);
        }
        while ((job = sim_fifo_pop(&device->urgent)))
                sim_job_free(device, job);
        while ((job = sim_fifo_pop(&device->ended)))
                sim_job_free(device, job);
        while ((job = device->free_jobs)) {
                device->free_jobs = job->next;
                ds_free(job);
        }
}
