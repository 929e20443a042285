/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual clock
 *
 * A heap of events, ordered by time and then by creation. So the same submissions give the same completions. Each event
 * is a member of the job or group that it concerns and leaves the heap when that is freed: there are no stale events.
 *
 * advance() moves from instant to instant until a completion becomes visible to the caller. It stops where a kernel
 * begins whose cost is not known yet, and never sleeps. When a kernel's execution takes too long for other sessions,
 * its begin is put off (see internal.h). The clock then continues, but no further than the job has come in its
 * execution.
 *
 * A completion becomes visible notify_ns after the end on the device. Completions of work that was given up become
 * visible at once, since the clock may not move for a caller that waits for them.
 */
#include <assert.h>
#include <string.h>

#include "device/sim/internal.h"
#include "util/alloc.h"
#include "util/error.h"

/* --- heap --- */

int sim_heap_reserve(ds_device *device, uint32_t n)
{
        struct sim_event **heap;

        heap = ds_realloc(device->heap, (size_t)device->heap_capacity + n + 1, sizeof(*heap));
        if (!heap)
                return ds_error_origin(-ENOMEM);
        device->heap = heap;
        device->heap_capacity += n;
        return 0;
}

static bool event_before(const struct sim_event *a, const struct sim_event *b)
{
        return a->time != b->time ? a->time < b->time : a->seq < b->seq;
}

static void heap_put(ds_device *device, uint32_t index, struct sim_event *event)
{
        device->heap[index] = event;
        event->index = index;
}

/* Moves the event from the free place at `index` to its right place in the heap. */
static void heap_sift(ds_device *device, uint32_t index, struct sim_event *event)
{
        uint32_t child;

        for (; index > 1 && event_before(event, device->heap[index / 2]); index /= 2)
                heap_put(device, index, device->heap[index / 2]);
        for (; (child = index * 2) <= device->n_heap; index = child) {
                if (child < device->n_heap && event_before(device->heap[child + 1], device->heap[child]))
                        child++;
                if (!event_before(device->heap[child], event))
                        break;
                heap_put(device, index, device->heap[child]);
        }
        heap_put(device, index, event);
}

void sim_event_push(ds_device *device, struct sim_event *event, enum sim_event_kind kind, uint64_t time)
{
        assert(!event->index);
        assert(time >= device->now);
        assert(device->n_heap < device->heap_capacity);
        event->time = time;
        event->kind = kind;
        event->seq = device->event_seq++;
        heap_sift(device, ++device->n_heap, event);
}

void sim_event_remove(ds_device *device, struct sim_event *event)
{
        uint32_t index = event->index;
        struct sim_event *last;

        if (!index)
                return;
        assert(device->heap[index] == event);
        event->index = 0;
        last = device->heap[device->n_heap--];
        if (last != event)
                heap_sift(device, index, last);
}

/* --- processing of an instant --- */

/* Runs a job whose start time has come and whose effect is complete (except for a copy). */
static void job_run(ds_device *device, struct sim_job *job)
{
        job->state = SIM_JOB_RUNNING;
        /* a job that was given up has delayed other sessions long enough: it ends without running */
        if (job->status == DS_CUDA_LAUNCH_TIMEOUT && atomic_load(&job->abort) == SIM_ABORT_TOO_LONG) {
                job->start_ns = device->now;
                sim_event_push(device, &job->event, SIM_EVENT_END, device->now);
                return;
        }
        if (job->workers.n && sim_form_begins(job)) {
                job->start_ns = device->now;
                sim_event_push(device, &job->event, SIM_EVENT_END, device->now);
                return;
        }
        if (job->kind == SIM_JOB_KERNEL) {
                if (job->kernel->profile)
                        sim_room_ready(device, job);
                else
                        sim_blocks_ready(device, job);
                return;
        }
        sim_copy_begin(device, job);
}

void sim_job_block(ds_device *device, struct sim_job *job)
{
        assert(!job->blocking);
        job->blocking = true;
        device->n_blockers++;
        device->n_ending += job->state == SIM_JOB_ENDING;
}

void sim_job_unblock(ds_device *device, struct sim_job *job)
{
        if (!job->blocking)
                return;
        job->blocking = false;
        device->n_blockers--;
        device->n_ending -= job->state == SIM_JOB_ENDING;
}

/* Starts a job. Jobs that start at one instant continue together and in order, whichever effect was complete first. */
static void job_start(ds_device *device, struct sim_job *job)
{
        job->state = SIM_JOB_WAITING;
        job->order = device->order++;
        sim_line_push(&device->waiting, job);
        if (job->effect == SIM_EFFECT_DONE)
                return;
        if (sim_copy_is_early(job)) {
                if (job->effect == SIM_EFFECT_NONE)
                        sim_stream_touch(device, job->stream, SIM_TODO_EFFECTS);
                return;
        }
        sim_job_block(device, job);
        if (job->effect == SIM_EFFECT_NONE)
                sim_stream_touch(device, job->stream, SIM_TODO_EFFECTS);
        else
                sim_pool_promote(device, job);
}

/* Begins a kernel in the GPU's front end, which takes one kernel at a time over the whole device. */
static void job_begin(ds_device *device, struct sim_job *job)
{
        const struct sim_timing *t = &device->model->timing;
        uint64_t begin = DS_MAX(device->now, device->issue_ns);

        device->issue_ns = begin + t->issue_device_ns;
        job->lead_ns = t->kernel_ns;
        if (device->resident != device->rungs[job->stream->rung]->resident)
                job->lead_ns += t->beside_ns;
        /* a profile's duration includes the time before the first block */
        if (job->kernel->profile)
                job->lead_ns = 0;
        if (job->kernel->profile && begin == device->now)
                job_start(device, job);
        else
                sim_event_push(device, &job->event, SIM_EVENT_START, begin + job->lead_ns);
}

static void waiting_run(ds_device *device)
{
        struct sim_job *job, *next;

        job = device->waiting.head;
        device->waiting = (struct sim_fifo){};
        for (; job; job = next) {
                next = job->ready_next;
                job->ready_next = NULL;
                job_run(device, job);
        }
}

static void line_remove(struct sim_fifo *line, struct sim_job *job)
{
        struct sim_job **at = &line->head, *before = NULL;

        for (; *at != job; at = &(*at)->ready_next)
                before = *at;
        *at = job->ready_next;
        if (line->tail == job)
                line->tail = before;
        job->ready_next = NULL;
}

void sim_waiting_remove(ds_device *device, struct sim_job *job)
{
        line_remove(&device->waiting, job);
        sim_job_unblock(device, job);
}

/* --- jobs that take long to execute --- */

bool sim_others_wait(const ds_device *device, const struct sim_job *job, uint64_t limit_ns)
{
        for (size_t i = 0; i < device->n_spaces; i++)
                if (device->spaces[i] != job->space && device->spaces[i]->in_flight)
                        return true;
        return limit_ns != UINT64_MAX;
}

/* Time on the clock, ns, at which a put-off job begins if it executes no further units. */
static uint64_t put_off_until(const struct sim_job *job)
{
        uint64_t executed = atomic_load(&job->executed);

        return job->put_off_ns + (executed - DS_MIN(executed, SIM_PATIENCE)) * SIM_PUT_OFF_NS;
}

void sim_put_off_done(ds_device *device, struct sim_job *job)
{
        line_remove(&device->put_off, job);
        sim_event_push(device, &job->event, SIM_EVENT_START, put_off_until(job));
}

void sim_put_off_remove(ds_device *device, struct sim_job *job)
{
        /* only jobs under execution are in the list; other PUT_OFF jobs wait just for their start time */
        if (job->effect == SIM_EFFECT_SUBMITTED)
                line_remove(&device->put_off, job);
}

static void put_off(ds_device *device, struct sim_job *job)
{
        sim_waiting_remove(device, job);
        job->state = SIM_JOB_PUT_OFF;
        job->was_put_off = true;
        job->put_off_ns = device->now;
        sim_line_push(&device->put_off, job);
        if (job->effect == SIM_EFFECT_DONE)
                sim_put_off_done(device, job);
        else
                atomic_store(&job->limit, SIM_BUDGET_SHARED);
}

/* Puts off every waiting job that has executed too long, once each. Called before the clock stops for them or moves
 * on. */
static void waiting_put_off(ds_device *device, uint64_t limit_ns)
{
        struct sim_job *job, *next;

        for (job = device->waiting.head; job; job = next) {
                next = job->ready_next;
                if (!job->was_put_off && atomic_load(&job->executed) > SIM_PATIENCE &&
                        sim_others_wait(device, job, limit_ns))
                        put_off(device, job);
        }
}

/* Whether the clock may advance to `time`. If not, an execution thread wakes the owner when it may. */
static bool put_off_allow(ds_device *device, uint64_t time)
{
        struct sim_job *job;
        bool allowed = true;

        for (job = device->put_off.head; job; job = job->ready_next) {
                if (put_off_until(job) >= time)
                        continue;
                /* `wake` is stored before progress is checked again: either the thread sees the new value, or this
                 * check sees the thread's progress */
                atomic_store(&job->wake, time - job->put_off_ns < UINT64_MAX / 2
                                                 ? SIM_PATIENCE + (time - job->put_off_ns) / SIM_PUT_OFF_NS
                                                 : UINT64_MAX);
                allowed = allowed && put_off_until(job) >= time;
        }
        return allowed;
}

static void event_fire(ds_device *device, struct sim_event *event)
{
        struct sim_job *job = DS_CONTAINER_OF(event, struct sim_job, event);

        switch (event->kind) {
        case SIM_EVENT_BEGIN:
                job_begin(device, job);
                break;
        case SIM_EVENT_START:
                job_start(device, job);
                break;
        case SIM_EVENT_END:
                sim_job_end(device, job, false);
                break;
        case SIM_EVENT_DEADLINE:
                job = DS_CONTAINER_OF(event, struct sim_job, deadline);
                sim_job_withdraw(device, job, DS_CUDA_LAUNCH_TIMEOUT);
                sim_job_end(device, job, false);
                break;
        case SIM_EVENT_GROUPS:
                sim_blocks_end(device, event);
                break;
        case SIM_EVENT_BOUND:
                job = DS_CONTAINER_OF(event, struct sim_job, bound);
                sim_blocks_bound(device, job, job->bound_to);
                break;
        case SIM_EVENT_EVICT:
                sim_evict_due(device, DS_CONTAINER_OF(event, struct sim_job, bound));
                break;
        case SIM_EVENT_ROOM_END:
                sim_room_end(device, job);
                break;
        case SIM_EVENT_ROOM_TAIL:
                sim_room_tail(device, DS_CONTAINER_OF(event, struct sim_job, tail));
                break;
        case SIM_EVENT_ROOM_YIELD:
                sim_room_yield(device, DS_CONTAINER_OF(event, struct sim_job, yield));
                break;
        }
}

static struct sim_fifo *visible(ds_device *device)
{
        if (device->ended.head && device->ended.head->visible_ns <= device->now)
                return &device->ended;
        return device->urgent.head ? &device->urgent : NULL;
}

static uint64_t next_time(const ds_device *device)
{
        uint64_t time = device->n_heap ? device->heap[1]->time : UINT64_MAX;

        if (device->ended.head)
                time = DS_MIN(time, device->ended.head->visible_ns);
        return time;
}

/* Processes all events of the current instant, including those that they cause at the same instant. */
static void instant(ds_device *device)
{
        struct sim_event *event;

        while (device->n_heap && device->heap[1]->time == device->now) {
                event = device->heap[1];
                sim_event_remove(device, event);
                event_fire(device, event);
                sim_settle(device);
        }
}

int sim_advance(ds_device *device, uint64_t limit_ns)
{
        uint64_t time;

        sim_pool_collect(device);
        sim_settle(device);
        for (uint32_t step = 0; step < SIM_ADVANCE_STEPS; step++) {
                if (visible(device))
                        return 0;
                waiting_put_off(device, limit_ns);
                if (device->n_blockers) {
                        sim_pool_relieve(device, limit_ns);
                        return -EAGAIN;
                }
                waiting_run(device);
                sim_blocks_round(device);
                time = next_time(device);
                if (!put_off_allow(device, DS_MIN(time, limit_ns)) || !sim_copy_allow(device, DS_MIN(time, limit_ns)))
                        return -EAGAIN;
                if (time == UINT64_MAX || time > limit_ns) {
                        if (limit_ns != UINT64_MAX)
                                device->now = DS_MAX(device->now, limit_ns);
                        return -ETIME;
                }
                device->now = DS_MAX(device->now, time);
                instant(device);
        }
        return 0;
}

uint64_t sim_now(ds_device *device)
{
        return device->now;
}

size_t sim_poll(ds_device *device, struct ds_completion *completions, size_t n)
{
        struct sim_fifo *from;
        struct sim_job *job;
        size_t i = 0;

        sim_pool_collect(device);
        sim_settle(device);
        for (; i < n && (from = visible(device)); i++) {
                job = sim_fifo_pop(from);
                completions[i] = (struct ds_completion){
                        .token = job->token,
                        .status = job->status,
                        .start_ns = job->start_ns,
                        .end_ns = job->end_ns,
                        .blocks = job->status == DS_DEVICE_EVICTED ? job->workers.done : 0,
                };
                if (job->status)
                        memcpy(completions[i].message, job->message, sizeof(job->message));
                sim_text_publish(device, job);
                sim_job_free(device, job);
        }
        return i;
}
