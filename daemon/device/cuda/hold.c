/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that may not go to the GPU yet
 *
 * There are two reasons to hold work. First, a launch that prints waits while a launch of another session prints,
 * because the driver's text does not say whose it is. Second, a stream's hardware queue holds about a thousand entries;
 * then the driver blocks the launching thread until one has ended (measured: the 1,022nd launch behind a 30 ms kernel
 * took 26 ms). DetShare stays well below that. A copy from host to host that could fill the queue alone (staging.c)
 * waits until its stream is empty.
 *
 * A stream that holds something holds everything behind it, fences included. Nothing goes to the GPU that waits for
 * work not yet submitted, so work fenced after a held job is held too. A held entry is a copy of the request,
 * parameters included. There is at most one per job that the scheduler has in flight, and a fence per job. Held work
 * goes in the order of each stream; streams take turns in the order in which they began to hold.
 */
#include <assert.h>
#include <string.h>

#include "device/cuda/internal.h"
#include "device/cuda/staging.h"
#include "util/error.h"

/* most entries of a stream's hardware queue in use, including those that report a job's end; two streams may share a
 * queue */
#define HOLD_ENTRIES 448

enum held_kind {
        HELD_LAUNCH,
        HELD_COPY,
        HELD_MEMSET,
        HELD_GRAPH,
        HELD_FENCE,
        HELD_NOTHING, /* cancelled: completes with `status` */
};

struct cuda_held {
        enum held_kind kind;
        int32_t status;       /* status of a cancelled entry */
        struct cuda_job *job; /* job of the held operation; NULL for a fence */
        struct cuda_held *next;
        union {
                struct ds_launch launch;
                struct ds_copy copy;
                struct ds_memset memset;
                struct ds_graph_launch graph;
                struct {
                        struct cuda_stream *from;
                        uint64_t from_seq;
                } fence;
        };
        uint8_t params[];
};

int cuda_hold_must(const struct cuda_stream *stream)
{
        return stream->held || stream->n_entries >= HOLD_ENTRIES;
}

static struct cuda_held *held_new(
        ds_device *device, struct cuda_stream *stream, enum held_kind kind, struct cuda_job *job, size_t params)
{
        struct cuda_held *held = ds_alloc(sizeof(*held) + params);

        if (!held)
                return NULL;
        *held = (struct cuda_held){.kind = kind, .job = job};
        if (!stream->held)
                DL_APPEND2(device->holding, stream, hold_prev, hold_next);
        *(stream->held ? &stream->held_tail->next : &stream->held) = held;
        stream->held_tail = held;
        return held;
}

int cuda_hold_launch(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_launch *launch)
{
        uint32_t size = cuda_kernel_info(launch->kernel)->params_size;
        struct cuda_held *held = held_new(device, stream, HELD_LAUNCH, job, size);

        if (!held)
                return ds_error_origin(-ENOMEM);
        held->launch = *launch;
        held->launch.params = held->params;
        held->launch.params_size = size;
        if (size)
                memcpy(held->params, launch->params, size);
        return 0;
}

int cuda_hold_copy(ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_copy *copy)
{
        struct cuda_held *held = held_new(device, stream, HELD_COPY, job, 0);

        if (!held)
                return ds_error_origin(-ENOMEM);
        held->copy = *copy;
        return 0;
}

int cuda_hold_memset(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_memset *memset)
{
        struct cuda_held *held = held_new(device, stream, HELD_MEMSET, job, 0);

        if (!held)
                return ds_error_origin(-ENOMEM);
        held->memset = *memset;
        return 0;
}

int cuda_hold_graph(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_graph_launch *launch)
{
        const uint32_t size = launch->params ? cuda_graph_params_bytes(launch->graph) : 0;
        struct cuda_held *held = held_new(device, stream, HELD_GRAPH, job, size);

        if (!held)
                return ds_error_origin(-ENOMEM);
        held->graph = *launch;
        if (launch->params) {
                memcpy(held->params, launch->params, size);
                held->graph.params = held->params;
        }
        return 0;
}

int cuda_hold_fence(ds_device *device, struct cuda_stream *from, uint64_t from_seq, struct cuda_stream *to)
{
        struct cuda_held *held = held_new(device, to, HELD_FENCE, NULL, 0);

        if (!held)
                return ds_error_origin(-ENOMEM);
        held->fence.from = from;
        held->fence.from_seq = from_seq;
        return 0;
}

/* --- release --- */

static int held_may_go(ds_device *device, const struct cuda_stream *stream, const struct cuda_held *held)
{
        if (held->kind == HELD_NOTHING || device->lost)
                return 1;
        if (held->kind == HELD_FENCE)
                return held->fence.from->issued >= held->fence.from_seq;
        if (stream->n_entries >= HOLD_ENTRIES)
                return 0;
        if (held->kind == HELD_COPY && stream->n_entries && cuda_staging_is_long(&held->copy))
                return 0;
        return held->kind != HELD_LAUNCH || !cuda_kernel_prints(held->launch.kernel) ||
               cuda_output_may_launch(device, held->job->space->id);
}

static int held_go(ds_device *device, struct cuda_stream *stream, struct cuda_held *held)
{
        switch (held->kind) {
        case HELD_LAUNCH:
                return cuda_issue_launch(device, stream, held->job, &held->launch);
        case HELD_COPY:
                return cuda_issue_copy(device, stream, held->job, &held->copy);
        case HELD_MEMSET:
                return cuda_issue_memset(device, stream, held->job, &held->memset);
        case HELD_GRAPH:
                return cuda_issue_graph(device, stream, held->job, &held->graph);
        case HELD_FENCE:
                return cuda_issue_fence(device, held->fence.from, held->fence.from_seq, stream);
        case HELD_NOTHING:
                return held->status;
        }
        return -EINVAL;
}

/* Submits the stream's first held job to the GPU. A refusal becomes the job's status, because the caller already
 * counts it as queued. */
static void held_release(ds_device *device, struct cuda_stream *stream)
{
        struct cuda_held *held = stream->held;
        int r;

        /* removes the stream from the list of holding streams; if it holds more, it goes to the end of that list */
        stream->held = held->next;
        DL_DELETE2(device->holding, stream, hold_prev, hold_next);
        if (stream->held)
                DL_APPEND2(device->holding, stream, hold_prev, hold_next);
        r = device->lost && held->kind != HELD_NOTHING ? DS_CUDA_LAUNCH_FAILED : held_go(device, stream, held);
        if (r && held->job)
                cuda_issue_nothing(device, stream, held->job, r < 0 ? DS_CUDA_OUT_OF_MEMORY : r);
        ds_free(held);
}

void cuda_hold_pump(ds_device *device)
{
        struct cuda_stream *stream, *next;
        int moved = 1;

        while (moved) {
                moved = 0;
                DL_FOREACH_SAFE2(device->holding, stream, next, hold_next)
                {
                        if (held_may_go(device, stream, stream->held)) {
                                held_release(device, stream);
                                moved = 1;
                        }
                }
        }
}

void cuda_hold_cancel(ds_device *device, const struct cuda_space *space, int32_t status)
{
        struct cuda_stream *stream;

        DL_FOREACH2(device->holding, stream, hold_next)
        {
                for (struct cuda_held *held = stream->held; held; held = held->next) {
                        if (!held->job || held->kind == HELD_NOTHING || (space && held->job->space != space))
                                continue;
                        held->kind = HELD_NOTHING;
                        held->status = status;
                }
        }
}

int cuda_hold_cancel_job(ds_device *device, const struct cuda_job *job, int32_t status)
{
        struct cuda_stream *stream;

        DL_FOREACH2(device->holding, stream, hold_next)
        {
                for (struct cuda_held *held = stream->held; held; held = held->next) {
                        if (held->job != job || held->kind == HELD_NOTHING)
                                continue;
                        held->kind = HELD_NOTHING;
                        held->status = status;
                        return 1;
                }
        }
        return 0;
}

int cuda_hold_waits(const ds_device *device, uint32_t space)
{
        const struct cuda_stream *stream;
        const struct cuda_held *held;

        DL_FOREACH2(device->holding, stream, hold_next)
        {
                held = stream->held;
                if (held->kind == HELD_LAUNCH && cuda_kernel_prints(held->launch.kernel) &&
                        held->job->space->id != space)
                        return 1;
        }
        return 0;
}

void cuda_hold_free(ds_device *device)
{
        struct cuda_stream *stream, *next;
        struct cuda_held *held;

        DL_FOREACH_SAFE2(device->holding, stream, next, hold_next)
        {
                while ((held = stream->held)) {
                        stream->held = held->next;
                        if (held->job)
                                cuda_job_free(device, held->job);
                        ds_free(held);
                }
        }
        device->holding = NULL;
}
