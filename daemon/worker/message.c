/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf messages in and out
 *
 * Messages are unpacked into one block that every message reuses. The usual case needs no allocation, and memory is
 * bounded in every case, because protobuf can expand a small message into much memory. One message is valid at a time.
 *
 * Answers can be a thousand times as long as the requests for them. So the worker stops accepting work while the
 * supervisor does not read: it reads no frames, starts no queued request, and answers no parked one (dsw_message_full).
 * The bound is low, because one user's answers wait behind another's in that queue. A client can therefore not overflow
 * the queue to the supervisor, which would end the worker.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "util/arena.h"
#include "util/error.h"
#include "worker/internal.h"

#define MESSAGE_BLOCK ((size_t)256 << 10)
#define MESSAGE_BUDGET ((size_t)8 << 20)
/* bytes that the supervisor has not read; with more of them, dsw_message_full() is true */
#define MESSAGE_QUEUED_MAX ((size_t)32 << 10)

struct dsw_unpack {
        ProtobufCAllocator allocator;
        size_t used;
        ds_arena *more; /* memory beyond `block`, used when the block is full */
        _Alignas(16) uint8_t block[MESSAGE_BLOCK];
};

static void *message_alloc(void *data, size_t size)
{
        struct dsw_unpack *unpack = data;
        void *p;

        if (size <= MESSAGE_BLOCK - unpack->used) {
                p = unpack->block + unpack->used;
                unpack->used = DS_MIN(MESSAGE_BLOCK, DS_ALIGN_UP(unpack->used + size, (size_t)16));
                return p;
        }
        if (!unpack->more)
                unpack->more = ds_arena_new(MESSAGE_BUDGET);
        return unpack->more ? ds_arena_alloc(unpack->more, 1, size) : NULL;
}

static void message_free(void *data, void *p)
{
        /* nothing to do: the next unpack frees the whole block at once */
}

int dsw_message_init(ds_worker *worker)
{
        worker->unpack = ds_alloc(sizeof(*worker->unpack));
        if (!worker->unpack)
                return ds_error_origin(-ENOMEM);
        worker->unpack->allocator = (ProtobufCAllocator){message_alloc, message_free, worker->unpack};
        worker->unpack->used = 0;
        worker->unpack->more = NULL;
        worker->out = ds_alloc(DS_WORKER_FRAME_MAX);
        return worker->out ? 0 : ds_error_origin(-ENOMEM);
}

void dsw_message_deinit(ds_worker *worker)
{
        if (worker->unpack)
                worker->unpack->more = ds_arena_free(worker->unpack->more);
        worker->unpack = ds_free(worker->unpack);
        worker->out = ds_free(worker->out);
}

Detshare__Internal__ToWorker *dsw_message_unpack(ds_worker *worker, const uint8_t *payload, size_t size)
{
        struct dsw_unpack *unpack = worker->unpack;

        unpack->used = 0;
        unpack->more = ds_arena_free(unpack->more);
        return detshare__internal__to_worker__unpack(&unpack->allocator, size, payload);
}

void dsw_message_send(ds_worker *worker, Detshare__Internal__FromWorker *message, const int *fds, size_t n_fds)
{
        size_t size;
        int r;

        message->fds = (uint32_t)n_fds;
        size = detshare__internal__from_worker__get_packed_size(message);
        if (size > DS_WORKER_FRAME_MAX) {
                dsw_message_answer(worker, message->id, DETSHARE__STATUS__INTERNAL, "the answer does not fit a frame");
                return;
        }
        detshare__internal__from_worker__pack(message, worker->out);
        r = ds_conn_send(worker->conn, worker->out, size, fds, n_fds);
        if (r == DS_CONN_E_CLOSED)
                worker->gone = 1;
        else if (r && !worker->fatal)
                worker->fatal = ds_error_fold(r);
}

int dsw_message_full(const ds_worker *worker)
{
        return ds_conn_queued(worker->conn) > MESSAGE_QUEUED_MAX;
}

void dsw_message_answer(ds_worker *worker, uint64_t id, int status, const char *fmt, ...)
{
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        char text[DSW_MESSAGE_MAX];
        va_list args;

        if (!id)
                return;
        va_start(args, fmt);
        vsnprintf(text, sizeof(text), fmt, args);
        va_end(args);
        message.id = id;
        message.status = status;
        message.message = text;
        dsw_message_send(worker, &message, NULL, 0);
}
