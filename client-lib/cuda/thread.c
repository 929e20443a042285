/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Per-thread state: growth, and freeing at the thread's end
 *
 * At a thread's end its context stack and its per-thread stream are freed. In a forked child, and after the library's
 * destructor, nothing is freed: the session belongs to another process, or is gone.
 */
#include <pthread.h>
#include <stdlib.h>

#include "cuda/state.h"
#include "cuda/stream.h"
#include "cuda/thread.h"

__thread struct dcu_thread dcu_self;

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_error;

static void thread_end(void *argument)
{
        struct dcu_thread *self = argument;

        if (dcu_enter_process() == CUDA_SUCCESS)
                dcu_stream_thread_end(self);
        free(self->stack);
        *self = (struct dcu_thread){0};
}

static void make_key(void)
{
        key_error = pthread_key_create(&key, thread_end);
}

int dcu_thread_register(void)
{
        if (dcu_self.registered)
                return 1;
        pthread_once(&key_once, make_key);
        if (key_error || pthread_setspecific(key, &dcu_self) != 0)
                return 0;
        dcu_self.registered = 1;
        return 1;
}

int dcu_thread_push(CUcontext context)
{
        struct dcu_thread *self = &dcu_self;

        if (!dcu_thread_register())
                return 0;
        if (self->depth == self->capacity) {
                uint32_t capacity = self->capacity ? self->capacity * 2 : 8;
                CUcontext *stack = realloc(self->stack, capacity * sizeof(*stack));

                if (!stack)
                        return 0;
                self->stack = stack;
                self->capacity = capacity;
        }
        self->stack[self->depth++] = context;
        return 1;
}
