/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that makes the driver write the text that kernels printed
 *
 * The driver formats text while a thread waits for a stream. That takes about 1 us a line and 0.3 s for a full buffer;
 * one number printed with a billion decimals takes seconds. So only a thread of its own waits for that. Meanwhile the
 * driver takes other work as quickly as ever (measured: launches beside 9 ms of formatting took at most 51 us).
 *
 * The thread serves one request at a time, and the owner checks whether it has ended. A request that does not end is
 * given up with the context; the thread then stays in the driver until the process ends.
 */
#include <pthread.h>
#include <stdio.h>

#include "device/cuda/internal.h"
#include "util/error.h"
#include "util/thread.h"

enum flush_state {
        FLUSH_IDLE,
        FLUSH_ASKED,
        FLUSH_ENDED,
        FLUSH_GOING, /* the thread must end */
        FLUSH_ALONE, /* the thread must end, and no thread joins it: it frees its own structure */
};

/* Owned by the device; after FLUSH_ALONE by the thread, which frees it. */
struct cuda_flush {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        pthread_t thread;
        enum flush_state state;
        CUresult result;
        CUcontext context;
        CUstream stream;
        CUresult (*set_current)(CUcontext);
        CUresult (*synchronize)(CUstream);
};

static void flush_delete(struct cuda_flush *flush)
{
        pthread_cond_destroy(&flush->changed);
        pthread_mutex_destroy(&flush->lock);
        ds_free(flush);
}

/* Serves requests until the thread must end. The caller holds the lock on entry and on return. */
static void flush_serve(struct cuda_flush *flush)
{
        CUresult result;

        while (flush->state < FLUSH_GOING) {
                if (flush->state != FLUSH_ASKED) {
                        pthread_cond_wait(&flush->changed, &flush->lock);
                        continue;
                }
                pthread_mutex_unlock(&flush->lock);
                result = flush->synchronize(flush->stream);
                fflush(stdout);
                pthread_mutex_lock(&flush->lock);
                flush->result = result;
                if (flush->state == FLUSH_ASKED)
                        flush->state = FLUSH_ENDED;
        }
}

static void *flush_main(void *arg)
{
        struct cuda_flush *flush = arg;
        int alone;

        flush->set_current(flush->context);
        pthread_mutex_lock(&flush->lock);
        flush_serve(flush);
        alone = flush->state == FLUSH_ALONE;
        pthread_mutex_unlock(&flush->lock);
        if (alone)
                flush_delete(flush);
        return NULL;
}

int cuda_flush_new(ds_device *device, CUstream idle, struct cuda_flush **ret)
{
        struct cuda_flush *flush = ds_alloc0(1, sizeof(*flush));
        int r;

        if (!flush)
                return ds_error_origin(-ENOMEM);
        pthread_mutex_init(&flush->lock, NULL);
        pthread_cond_init(&flush->changed, NULL);
        flush->context = device->primary;
        flush->stream = idle;
        flush->set_current = device->driver.cuCtxSetCurrent_fn;
        flush->synchronize = device->driver.cuStreamSynchronize_fn;
        r = ds_thread_start(&flush->thread, flush_main, flush);
        if (r) {
                flush_delete(flush);
                return ds_error_origin(r);
        }
        *ret = flush;
        return 0;
}

static enum flush_state flush_set(struct cuda_flush *flush, enum flush_state state)
{
        enum flush_state was;

        pthread_mutex_lock(&flush->lock);
        was = flush->state;
        flush->state = state == FLUSH_GOING && was == FLUSH_ASKED ? FLUSH_ALONE : state;
        pthread_cond_signal(&flush->changed);
        pthread_mutex_unlock(&flush->lock);
        return was;
}

struct cuda_flush *cuda_flush_free(struct cuda_flush *flush)
{
        pthread_t thread;

        if (!flush)
                return NULL;
        thread = flush->thread; /* read before flush_set: a thread left alone may free `flush` at once */
        if (flush_set(flush, FLUSH_GOING) == FLUSH_ASKED) {
                pthread_detach(thread);
                return NULL;
        }
        pthread_join(thread, NULL);
        flush_delete(flush);
        return NULL;
}

void cuda_flush_ask(struct cuda_flush *flush)
{
        (void)flush_set(flush, FLUSH_ASKED);
}

int cuda_flush_ended(struct cuda_flush *flush, CUresult *ret)
{
        int ended;

        pthread_mutex_lock(&flush->lock);
        ended = flush->state == FLUSH_ENDED;
        if (ended) {
                *ret = flush->result;
                flush->state = FLUSH_IDLE;
        }
        pthread_mutex_unlock(&flush->lock);
        return ended;
}
