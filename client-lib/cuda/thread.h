/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each thread has of CUDA: its stack of contexts and its per-thread default stream
 *
 * The stack holds handles, not objects, so that a context destroyed by another thread is found dead when it is next
 * used. In a host function of a stream every call is refused. `per_thread` is set while a _ptds or _ptsz entry runs:
 * stream 0 then means the per-thread stream.
 */
#pragma once

#include <stdint.h>

#include "cuda/api.h"

struct dcu_thread {
        CUcontext *stack; /* malloc'ed; the last one is current */
        uint32_t depth, capacity;
        int per_thread;
        int in_host_function; /* one of a stream's: CUDA may not be called */
        uint32_t stream;      /* slot of the per-thread stream, 0: none yet */
        uint32_t stream_epoch;
        uint32_t capture_mode;
        int registered; /* with the destructor that runs when the thread ends */
};

extern __thread struct dcu_thread dcu_self;

static inline int dcu_per_thread_enter(void)
{
        int before = dcu_self.per_thread;

        dcu_self.per_thread = 1;
        return before;
}

static inline void dcu_per_thread_leave(int before)
{
        dcu_self.per_thread = before;
}

/* The current context's handle, NULL if there is none. */
static inline CUcontext dcu_thread_current(void)
{
        return dcu_self.depth ? dcu_self.stack[dcu_self.depth - 1] : NULL;
}

/* 0 when out of memory. */
int dcu_thread_push(CUcontext context);
/* Have the thread's resources freed when it ends. */
int dcu_thread_register(void);
