/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver: work in flight, events, waiting, output of kernels
 *
 * Each stream counts submissions and completions; the sim's tokens are stream and count. An event stores the count at
 * its recording. It is reached when the stream has completed that many, at the time at which that job ended.
 *
 * A completion with an error is a fault, and the context is lost.
 *
 * Output of kernels is taken at once and written when a real driver writes it: at a launch, load or synchronisation,
 * through stdio. With a fault, stderr is written at once, since it explains the fault.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/fake_cuda/fake.h"

#define COUNT_BITS 40
#define NAP_US 50

/* --- submission and completion ---- */

uint64_t fake_token(const struct CUstream_st *stream)
{
        return (uint64_t)stream->id << COUNT_BITS | (stream->submitted + 1);
}

CUresult fake_submitted(CUstream stream, int r, bool serious)
{
        if (r)
                return fake_result(r);
        stream->submitted++;
        /* A clear outside of the green contexts is the daemon's own work; it ends soon and does not count. */
        if (serious || fake.rungs[stream->id / FAKE_SLOTS]->owner != FAKE_RUNG_PRIMARY)
                stream->serious = stream->submitted;
        return CUDA_SUCCESS;
}

static void event_reach(CUevent event, uint64_t time_ns)
{
        event->reached = true;
        event->time_ns = time_ns;
        if (!event->write)
                return;
        if (event->narrow)
                __atomic_store_n((uint32_t *)event->write, (uint32_t)event->value, __ATOMIC_RELEASE);
        else
                __atomic_store_n(event->write, event->value, __ATOMIC_RELEASE);
        DL_DELETE2(fake.events, event, all_prev, all_next);
        ds_free(event);
}

static void stream_done(const struct ds_completion *c)
{
        uint32_t id = (uint32_t)(c->token >> COUNT_BITS);
        CUstream stream = &fake.rungs[id / FAKE_SLOTS]->streams[id % FAKE_SLOTS];
        CUevent event;

        stream->done++;
        stream->done_ns = c->end_ns;
        while ((event = stream->pending) && event->count <= stream->done) {
                DL_DELETE(stream->pending, event);
                event_reach(event, c->end_ns);
        }
}

static void text_take(void)
{
        struct ds_device_output piece;
        char *grown;
        int to;

        while (fake_sim->output(fake.device, &piece) > 0) {
                to = piece.to_stderr ? 1 : 0;
                grown = ds_realloc(fake.text[to], fake.text_size[to] + piece.size, 1);
                if (!grown)
                        return;
                memcpy(grown + fake.text_size[to], piece.text, piece.size);
                fake.text[to] = grown;
                fake.text_size[to] += piece.size;
        }
}

void fake_flush(void)
{
        FILE *to[2] = {stdout, stderr};

        for (int i = 0; i < 2; i++) {
                if (fake.text_size[i])
                        fwrite(fake.text[i], 1, fake.text_size[i], to[i]);
                fake.text[i] = ds_free(fake.text[i]);
                fake.text_size[i] = 0;
        }
}

static void take(void)
{
        struct ds_completion c[32];
        size_t n;

        while (!fake.lost && (n = fake_sim->poll(fake.device, c, DS_ARRAY_SIZE(c)))) {
                text_take();
                for (size_t i = 0; i < n && !fake.lost; i++) {
                        if (!c[i].status) {
                                stream_done(&c[i]);
                                continue;
                        }
                        fake.lost = (CUresult)c[i].status;
                        if (getenv("FAKE_CUDA_VERBOSE"))
                                fprintf(stderr, "fake_cuda: the context is lost: %s\n", c[i].message);
                        fake_flush();
                }
        }
}

/* Advances the sim's clock to the current time and takes completions. Returns what the sim's advance returned last:
 * -ETIME, -EAGAIN, or 0 if the context is lost. */
static int pump(void)
{
        uint64_t now = fake_clock() - fake.start_ns;
        int r;

        do {
                take();
                if (fake.lost)
                        return 0;
                r = fake_sim->advance(fake.device, now);
        } while (!r);
        take();
        return r;
}

void fake_pump(void)
{
        pump();
}

bool fake_busy(void)
{
        const struct CUstream_st *stream;

        for (uint32_t i = 0; i < fake.n_rungs; i++) {
                for (uint32_t k = 0; k < FAKE_SLOTS; k++) {
                        stream = &fake.rungs[i]->streams[k];
                        if (stream->done < stream->serious)
                                return true;
                }
        }
        return false;
}

/* --- waiting --- */

static bool all_done(void)
{
        for (uint32_t i = 0; i < fake.n_rungs; i++)
                for (uint32_t k = 0; k < FAKE_SLOTS; k++)
                        if (fake.rungs[i]->streams[k].done != fake.rungs[i]->streams[k].submitted)
                                return false;
        return true;
}

static void nap(int pumped)
{
        struct pollfd p = {.fd = fake_sim->event_fd(fake.device), .events = POLLIN};

        if (pumped == -EAGAIN)
                poll(&p, 1, 1);
        else
                usleep(NAP_US);
}

static CUresult wait_for(CUstream stream, uint64_t count)
{
        int r;

        for (;;) {
                r = pump();
                if (fake.lost)
                        return fake.lost;
                if (stream ? stream->done >= count : all_done())
                        break;
                nap(r);
        }
        fake_flush();
        return CUDA_SUCCESS;
}

CUresult fake_wait(CUstream stream)
{
        return wait_for(stream, stream ? stream->submitted : 0);
}

FAKE_API cuStreamQuery(CUstream stream)
{
        FAKE_ENTER(cuStreamQuery, ASKS);
        if (!fake_stream_ok(stream))
                return CUDA_ERROR_INVALID_HANDLE;
        fake_pump();
        if (fake.lost)
                return fake.lost;
        return stream->done == stream->submitted ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

FAKE_API cuStreamSynchronize(CUstream stream)
{
        FAKE_ENTER(cuStreamSynchronize, CONTEXT);
        return fake_stream_ok(stream) ? fake_wait(stream) : CUDA_ERROR_INVALID_HANDLE;
}

/* --- events: handles are not validated, as in a real driver -------- */

static void event_forget(CUevent event)
{
        if (event->recorded && !event->reached)
                DL_DELETE(event->stream->pending, event);
        event->recorded = event->reached = false;
}

FAKE_API cuEventCreate(CUevent *event, unsigned int flags)
{
        CUevent made;

        FAKE_ENTER(cuEventCreate, CONTEXT);
        made = ds_alloc0(1, sizeof(*made));
        if (!made)
                return CUDA_ERROR_OUT_OF_MEMORY;
        made->timing = !(flags & CU_EVENT_DISABLE_TIMING);
        DL_APPEND2(fake.events, made, all_prev, all_next);
        *event = made;
        return CUDA_SUCCESS;
}

FAKE_API cuEventDestroy(CUevent event)
{
        FAKE_ENTER(cuEventDestroy, CONTEXT);
        if (!event)
                return CUDA_ERROR_INVALID_HANDLE;
        event_forget(event);
        DL_DELETE2(fake.events, event, all_prev, all_next);
        ds_free(event);
        return CUDA_SUCCESS;
}

/* Records the event behind the stream's submissions so far. */
static void event_put(CUevent event, CUstream stream)
{
        event->recorded = true;
        event->stream = stream;
        event->count = stream->submitted;
        if (stream->done == stream->submitted)
                event_reach(event, fake_sim->now(fake.device));
        else
                DL_APPEND(stream->pending, event);
}

FAKE_API cuEventRecord(CUevent event, CUstream stream)
{
        FAKE_ENTER(cuEventRecord, CONTEXT);
        if (!event || !fake_stream_ok(stream))
                return CUDA_ERROR_INVALID_HANDLE;
        fake_pump();
        if (fake.lost)
                return fake.lost;
        event_forget(event);
        event_put(event, stream);
        return CUDA_SUCCESS;
}

static CUresult value_write(CUstream stream, CUdeviceptr at, uint64_t value, uint32_t size, unsigned int flags)
{
        CUevent made;

        if (!fake_stream_ok(stream))
                return CUDA_ERROR_INVALID_HANDLE;
        if (flags || at % size || !fake_covers(at, size))
                return CUDA_ERROR_INVALID_VALUE;
        if (fake_is_device(at)) /* the address is device memory, so the sim's work queue writes there */
                return fake_fill(stream, at, 0, value, size, 1, 1);
        fake_pump();
        if (fake.lost)
                return fake.lost;
        made = ds_alloc0(1, sizeof(*made));
        if (!made)
                return CUDA_ERROR_OUT_OF_MEMORY;
        made->write = (uint64_t *)(uintptr_t)at;
        made->value = value;
        made->narrow = size == sizeof(uint32_t);
        DL_APPEND2(fake.events, made, all_prev, all_next);
        event_put(made, stream);
        return CUDA_SUCCESS;
}

FAKE_API cuStreamWriteValue64(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags)
{
        FAKE_ENTER(cuStreamWriteValue64, CONTEXT);
        return value_write(stream, at, value, sizeof(value), flags);
}

FAKE_API cuStreamWriteValue32(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned int flags)
{
        FAKE_ENTER(cuStreamWriteValue32, CONTEXT);
        return value_write(stream, at, value, sizeof(value), flags);
}

static CUresult event_state(CUevent event)
{
        if (!event)
                return CUDA_ERROR_INVALID_HANDLE;
        fake_pump();
        if (fake.lost)
                return fake.lost;
        return event->recorded && !event->reached ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

FAKE_API cuEventQuery(CUevent event)
{
        FAKE_ENTER(cuEventQuery, ASKS);
        return event_state(event);
}

FAKE_API cuEventSynchronize(CUevent event)
{
        CUresult r;

        FAKE_ENTER(cuEventSynchronize, CONTEXT);
        r = event_state(event);
        return r == CUDA_ERROR_NOT_READY ? wait_for(event->stream, event->count) : r;
}

FAKE_API cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
        FAKE_ENTER(cuEventElapsedTime, ASKS);
        if (!start || !end || !start->recorded || !end->recorded || !start->timing || !end->timing)
                return CUDA_ERROR_INVALID_HANDLE;
        fake_pump();
        if (fake.lost)
                return fake.lost;
        if (!start->reached || !end->reached)
                return CUDA_ERROR_NOT_READY;
        *ms = (float)((double)((int64_t)end->time_ns - (int64_t)start->time_ns) * 1e-6);
        return CUDA_SUCCESS;
}

FAKE_API cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
        CUresult r;

        FAKE_ENTER(cuStreamWaitEvent, CONTEXT);
        if (!fake_stream_ok(stream) || flags)
                return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
        r = event_state(event);
        if (r != CUDA_ERROR_NOT_READY)
                return r;
        return fake_result(fake_sim->fence(fake.device, event->stream->id, stream->id));
}
