/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs and their completion
 *
 * Within a stream jobs end in order, and the GPU counts them (counter.c). A round of polling reads one number per
 * stream that has jobs, and takes back all jobs that it covers. Where a GPU cannot count, an event is recorded behind
 * every job, and the oldest event of each stream is queried. Events are pooled; making one stops nothing, so the pools
 * grow on demand.
 *
 * Times of a completion: end_ns of a timed job is the GPU's time of an event recorded behind it, else the moment at
 * which its end was seen. start_ns is the end of the job before it in the stream. Where the stream was empty it is the
 * moment at which the driver had taken the launch: the GPU may have begun a little later, never earlier. The duration
 * of an exactly timed launch is the time between two events of the GPU. A job behind a fence completes after the job
 * that the fence waits for.
 */
#include <assert.h>
#include <string.h>
#include <time.h>

#include "device/cuda/internal.h"
#include "util/clock.h"
#include "util/error.h"

uint64_t cuda_now(ds_device *device)
{
        return ds_monotonic_ns();
}

/* --- events --- */

CUevent cuda_event_take(ds_device *device, int timed)
{
        struct cuda_events *events = &device->events[timed];
        CUevent event, *grown;
        CUresult result;

        if (events->n_free)
                return events->free[--events->n_free];
        grown = ds_realloc(events->free, events->n + 1, sizeof(CUevent));
        if (!grown)
                return NULL;
        events->free = grown;
        result = CU(device, cuEventCreate)(&event, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
        if (result) {
                (void)ds_cuda_failed(device, result, "cuEventCreate");
                return NULL;
        }
        events->n++;
        return event;
}

void cuda_event_give(ds_device *device, int timed, CUevent event)
{
        struct cuda_events *events = &device->events[timed];

        assert(events->n_free < events->n);
        events->free[events->n_free++] = event;
}

void cuda_events_free(ds_device *device)
{
        for (size_t timed = 0; timed < DS_ARRAY_SIZE(device->events); timed++) {
                struct cuda_events *events = &device->events[timed];

                while (events->n_free) {
                        events->n_free--;
                        if (!device->lost)
                                CU(device, cuEventDestroy)(events->free[events->n_free]);
                }
                events->free = ds_free(events->free);
                events->n = 0;
        }
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
        *job = (struct cuda_job){
                .token = token, .kind = kind, .space = space, .space_number = ++space->n_submitted, .entries = 1};
        DL_APPEND2(space->jobs, job, space_prev, space_next);
        device->n_jobs++;
        return job;
}

void cuda_job_free(ds_device *device, struct cuda_job *job)
{
        assert(device->n_jobs);
        if (job->event)
                cuda_event_give(device, job->timed, job->event);
        if (job->begun)
                cuda_event_give(device, 1, job->begun);
        if (job->form)
                cuda_form_ended(device, job);
        if (job->kernel)
                cuda_kernel_put(device, job->kernel);
        if (job->graph)
                cuda_graph_put(device, job->graph, job->given);
        DL_DELETE2(job->space->jobs, job, space_prev, space_next);
        device->n_jobs--;
        job->next = device->free_jobs;
        device->free_jobs = job;
}

/* 1 if the job's kernels run on a part of the SMs: kernels of later work then begin later (supervisor/settle.h). */
static uint32_t job_divides(const ds_device *device, const struct cuda_stream *stream, const struct cuda_job *job)
{
        const struct cuda_rung *rung = device->rungs[stream->id / CUDA_STREAMS_PER_RUNG];

        return (job->kernel || job->graph) && rung->info.n_sms < device->info.n_sms;
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
        job->number = ++stream->issued;
        stream->n_entries += job->entries;
        device->n_divided += job_divides(device, stream, job);
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
        if (job_divides(device, stream, job)) {
                device->n_divided--;
                device->n_stirs++;
        }
        return job;
}

/* 1: the job must still wait for the stream that its fence names. */
static int job_is_fenced(const struct cuda_job *job)
{
        return job->after && job->after->ended < job->after_seq;
}

uint64_t cuda_job_start(const struct cuda_stream *stream, const struct cuda_job *job)
{
        return job_is_fenced(job) ? UINT64_MAX : DS_MAX(job->submit_ns, stream->last_end_ns);
}

/* --- completions --- */

/* One round of polling. */
struct poll_round {
        struct ds_completion *completions;
        size_t n, done;
        uint64_t now_ns;  /* begin of the round, on the clock of now() */
        uint64_t seen_ns; /* time at which this round saw its first ended job; 0: none yet */
};

/*
 * Start of a job that ended at `end`. With an event before the job and one behind it, the time between them is exact,
 * and the job is marked so. When the end of the stream's previous job was seen late, both times of this job are as
 * late.
 */
static uint64_t completion_start(
        ds_device *device, const struct cuda_stream *stream, const struct cuda_job *job, uint64_t end)
{
        uint64_t now, begun, ended;

        if (!job->begun || job->status)
                return DS_MIN(DS_MAX(job->submit_ns, stream->last_end_ns), end);
        now = cuda_now(device);
        begun = cuda_clock_of(device, job->begun, now);
        ended = cuda_clock_of(device, job->event, now);
        return end - DS_MIN(end, ended > begun ? ended - begun : 0);
}

static void completion_write(
        ds_device *device, struct cuda_stream *stream, const struct cuda_job *job, struct poll_round *round)
{
        int32_t status = job->status;
        struct ds_completion *c = &round->completions[round->done++];
        uint64_t end;

        if (!round->seen_ns)
                round->seen_ns = cuda_now(device);
        end = DS_MAX(round->seen_ns, stream->last_end_ns);
        /* the job may have ended after `seen_ns`, the first end of this round */
        if (!status && job->timed)
                end = DS_MAX(cuda_clock_of(device, job->event, cuda_now(device)), stream->last_end_ns);
        c->token = job->token;
        c->status = status;
        c->end_ns = end;
        c->start_ns = completion_start(device, stream, job, end);
        c->shared = !job->marked || !job->alone;
        c->blocks = cuda_form_done(job);
        c->message[0] = 0;
        if (status && status != DS_DEVICE_EVICTED)
                cuda_fault_message(device, job, status, c->message, sizeof(c->message));
        stream->last_end_ns = end;
}

/* 1: the GPU has done the stream's oldest job. */
static int head_is_done(ds_device *device, const struct cuda_stream *stream)
{
        const struct cuda_job *job = stream->head;
        CUresult result;

        if (cuda_launcher_has(device, stream, job->passed)) /* the driver may have refused it */
                return 0;
        if (device->counters)
                return cuda_counter(device, stream) >= job->number;
        if (device->lost)
                return 0;
        result = CU(device, cuEventQuery)(job->event);
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
                cuda_fault_note(device, result);
        return result == CUDA_SUCCESS;
}

/* 1: the stream's oldest job has ended, and job->status is its result. */
static int head_ended(ds_device *device, struct cuda_stream *stream, uint64_t now_ns)
{
        struct cuda_job *job = stream->head;
        uint64_t start;

        if (!job->status && (device->lost || !job_is_fenced(job)) && head_is_done(device, stream))
                return 1;
        if (!job->status && !device->lost && job->deadline_ns) {
                start = cuda_job_start(stream, job);
                if (start <= now_ns && now_ns - start > job->deadline_ns)
                        cuda_fault_timeout(device, job);
        }
        return job->status != 0;
}

/* Takes back the finished jobs of one stream. */
static void stream_poll(ds_device *device, struct cuda_stream *stream, struct poll_round *round)
{
        struct cuda_job *job;

        while (round->done < round->n && stream->head && head_ended(device, stream, round->now_ns)) {
                if (stream->head->form && !cuda_form_collect(device, stream->head))
                        return;
                if (stream->head->prints && !cuda_output_collect(device, stream->head, round->now_ns))
                        return;
                job = stream_pop(device, stream);
                completion_write(device, stream, job, round);
                cuda_job_free(device, job);
        }
}

/* Sorts by end, oldest first. Each stream's completions are sorted already, so this moves little. */
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
        struct poll_round round = {.completions = completions, .n = n};
        struct cuda_stream *stream, *next;

        if (!device->n_jobs)
                return 0;
        cuda_launcher_collect(device);
        round.now_ns = cuda_now(device);
        cuda_counters_tend(device, round.now_ns);
        DL_FOREACH_SAFE2(device->busy, stream, next, busy_next)
        {
                if (round.done == n)
                        break;
                stream_poll(device, stream, &round);
                cuda_stream_tell(device, stream, round.now_ns);
        }
        if (device->holding)
                cuda_hold_pump(device);
        completions_sort(completions, round.done);
        return round.done;
}
