/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs, their events, and how they come back
 *
 * Behind every job an event is recorded that carries the GPU's time. Within a stream jobs end in order, so poll asks
 * only the oldest of each stream that has any: a query of an event that is not done costs 0.6 us on an H200, and a
 * round over idle streams costs nothing. Events are pooled; making one stops nothing, so the pool grows when it must.
 *
 * What a completion tells: end_ns is the GPU's time of the event. start_ns is the end of the job before it in the
 * stream, or, where the stream was empty, the moment at which the driver had taken the launch: the GPU may have begun
 * a little later, never earlier.
 */
#include <assert.h>
#include <string.h>
#include <time.h>

#include "device/cuda/internal.h"
#include "util/error.h"

uint64_t cuda_now(ds_device *device)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * DS_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* --- events --- */

CUevent cuda_event_take(ds_device *device)
{
        CUevent event, *grown;
        CUresult result;

        if (device->n_free_events)
                return device->free_events[--device->n_free_events];
        /* room to give it back is made now: giving back must not fail */
        grown = ds_realloc(device->free_events, device->n_events + 1, sizeof(CUevent));
        if (!grown)
                return NULL;
        device->free_events = grown;
        result = CU(device, cuEventCreate)(&event, CU_EVENT_DEFAULT);
        if (result) {
                (void)ds_cuda_failed(device, result, "cuEventCreate");
                return NULL;
        }
        device->n_events++;
        return event;
}

void cuda_event_give(ds_device *device, CUevent event)
{
        assert(device->n_free_events < device->n_events);
        device->free_events[device->n_free_events++] = event;
}

/* --- jobs --- */

struct cuda_job *cuda_job_new(ds_device *device, enum cuda_job_kind kind, struct cuda_space *space, uint64_t token)
{
        struct cuda_job *job = device->free_jobs;

        if (job)
                device->free_jobs = job->next;
        else
                job = ds_alloc(sizeof(*job));
        if (!job)
                return NULL;
        *job = (struct cuda_job){.token = token, .kind = kind, .space = space, .entries = 1};
        space->n_jobs++;
        device->n_jobs++;
        return job;
}

void cuda_job_free(ds_device *device, struct cuda_job *job)
{
        assert(job->space->n_jobs && device->n_jobs);
        if (job->event)
                cuda_event_give(device, job->event);
        if (job->kernel)
                cuda_kernel_put(device, job->kernel);
        job->space->n_jobs--;
        device->n_jobs--;
        job->next = device->free_jobs;
        device->free_jobs = job;
}

void cuda_stream_push(ds_device *device, struct cuda_stream *stream, struct cuda_job *job)
{
        job->next = NULL;
        job->after = stream->after;
        job->after_seq = stream->after_seq;
        stream->after = NULL;
        if (!stream->tail)
                DL_APPEND2(device->busy, stream, busy_prev, busy_next);
        *(stream->tail ? &stream->tail->next : &stream->head) = job;
        stream->tail = job;
        stream->issued++;
        stream->n_entries += job->entries;
}

static struct cuda_job *stream_pop(ds_device *device, struct cuda_stream *stream)
{
        struct cuda_job *job = stream->head;

        assert(stream->n_entries >= job->entries);
        stream->head = job->next;
        if (!stream->head) {
                stream->tail = NULL;
                DL_DELETE2(device->busy, stream, busy_prev, busy_next);
        }
        stream->ended++;
        stream->n_entries -= job->entries;
        return job;
}

uint64_t cuda_head_start(const struct cuda_stream *stream)
{
        const struct cuda_job *job = stream->head;

        if (job->after && job->after->ended < job->after_seq)
                return UINT64_MAX;
        return DS_MAX(job->submit_ns, stream->last_end_ns);
}

/* --- completions --- */

static void completion_write(ds_device *device, struct cuda_stream *stream, const struct cuda_job *job, int32_t status,
        uint64_t now_ns, struct ds_completion *ret)
{
        uint64_t end = now_ns;

        /* it may have ended since this round began */
        if (!status)
                end = DS_MAX(cuda_clock_of(device, job->event, cuda_now(device)), stream->last_end_ns);
        ret->token = job->token;
        ret->status = status;
        ret->end_ns = end;
        ret->start_ns = DS_MIN(DS_MAX(job->submit_ns, stream->last_end_ns), end);
        ret->message[0] = 0;
        if (status)
                cuda_fault_message(device, job, status, ret->message, sizeof(ret->message));
        stream->last_end_ns = end;
}

/* 1 when the head has ended, with *ret_status. */
static int head_ended(ds_device *device, struct cuda_stream *stream, uint64_t now_ns, int32_t *ret_status)
{
        struct cuda_job *job = stream->head;
        CUresult result;
        uint64_t start;

        if (!job->status && !device->lost) {
                result = CU(device, cuEventQuery)(job->event);
                if (result == CUDA_SUCCESS) {
                        *ret_status = 0;
                        return 1;
                }
                if (result != CUDA_ERROR_NOT_READY)
                        cuda_fault_note(device, result);
        }
        if (!job->status && !device->lost && job->deadline_ns) {
                start = cuda_head_start(stream);
                if (start <= now_ns && now_ns - start > job->deadline_ns)
                        cuda_fault_timeout(device, job);
        }
        *ret_status = job->status;
        return job->status != 0;
}

/* What has ended in one stream. */
static size_t stream_poll(
        ds_device *device, struct cuda_stream *stream, uint64_t now_ns, struct ds_completion *completions, size_t n)
{
        struct cuda_job *job;
        size_t done = 0;
        int32_t status;

        while (done < n && stream->head && head_ended(device, stream, now_ns, &status)) {
                job = stream_pop(device, stream);
                if (job->prints)
                        cuda_output_collect(device);
                completion_write(device, stream, job, status, now_ns, &completions[done++]);
                cuda_job_free(device, job);
        }
        return done;
}

/* Oldest first; within a stream they are, so this moves little. */
static void completions_sort(struct ds_completion *completions, size_t n)
{
        struct ds_completion one;
        size_t k;

        for (size_t i = 1; i < n; i++) {
                if (completions[i - 1].end_ns <= completions[i].end_ns)
                        continue;
                one = completions[i];
                for (k = i; k && completions[k - 1].end_ns > one.end_ns; k--)
                        completions[k] = completions[k - 1];
                completions[k] = one;
        }
}

size_t cuda_poll(ds_device *device, struct ds_completion *completions, size_t n)
{
        struct cuda_stream *stream, *next;
        uint64_t now_ns;
        size_t done = 0;

        if (!device->n_jobs)
                return 0;
        now_ns = cuda_now(device);
        cuda_clock_tend(device, now_ns);
        DL_FOREACH_SAFE2(device->busy, stream, next, busy_next)
        {
                if (done == n)
                        break;
                done += stream_poll(device, stream, now_ns, completions + done, n - done);
        }
        if (device->holding)
                cuda_hold_pump(device);
        completions_sort(completions, done);
        return done;
}
