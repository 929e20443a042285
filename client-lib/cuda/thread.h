/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA state of a thread: its context stack and its per-thread default stream
 *
 * The stack holds handles, not objects, so that a context destroyed by another thread is detected at its next use. In a
 * stream's host function every call is refused. `per_thread` is set while a _ptds or _ptsz entry runs: stream 0 then
 * means the per-thread stream.
 */
#pragma once

#include <stdint.h>

#include "cuda/api.h"

struct dcu_thread {
        CUcontext *stack; /* handles, malloc'ed; the last one is the current context */
        uint32_t depth, capacity;
        int per_thread;
        int in_host_function; /* 1: the thread runs a stream's host function and may not call CUDA */
        uint32_t stream;      /* slot of the per-thread stream, 0: none yet */
        uint32_t stream_epoch;
        uint32_t capture_mode;
        int registered; /* 1: the destructor at the thread's end is registered */
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

/* The handle of the current context, NULL if there is none. */
static inline CUcontext dcu_thread_current(void)
{
        return dcu_self.depth ? dcu_self.stack[dcu_self.depth - 1] : NULL;
}

/* Makes the context the thread's current one. 0: out of memory. */
int dcu_thread_push(CUcontext context);
/* Registers the destructor that frees the thread's context stack and per-thread stream at its end. */
int dcu_thread_register(void);
