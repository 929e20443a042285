/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts
 *
 * The daemon gives a process one session and knows no contexts. They are bookkeeping of this library: the primary
 * context and each created one have a handle, own the objects that are made while they are current, and free them when
 * destroyed. When the last active context ends, the session is reset, which also clears a sticky error. So a program
 * recovers from a fault without a new process.
 *
 * When the daemon is gone, every call with an active context fails, as after a fault. Once no context is left, the next
 * one that is made gets a new session.
 *
 * The primary context is one object for the life of the process, active while it is retained.
 */
#pragma once

#include "cuda/cls.h"
#include "cuda/object.h"
#include "cuda/state.h"
#include "cuda/thread.h"

#define DCU_N_LIMITS 10

struct dcu_context {
        struct dcu_object head;
        struct dcu_object *objects; /* objects of the context; protected by dcu.lock */
        _Atomic int active;
        int primary;
        /* retains of the primary context, or attachments of a created one; protected by dcu.lock */
        uint32_t references;
        unsigned int flags;
        unsigned long long id;
        CUfunc_cache cache;
        size_t limits[DCU_N_LIMITS];
        _Atomic(struct dcu_cls *) cls; /* context-local values of other libraries (cls.h) */
};

/* dcu_context_token: handle of the primary context in the genuine driver, used by NVIDIA's runtime.
 * dcu_context_of_token: the context of this library with that handle. */
extern _Atomic(CUcontext) dcu_context_token;
extern _Atomic(struct dcu_context *) dcu_context_of_token;
/* Gives the primary context this handle; the previous handle stays valid. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult dcu_context_set_token(CUcontext token);

static inline struct dcu_context *dcu_context_of(CUcontext handle)
{
        if (handle && handle == atomic_load_explicit(&dcu_context_token, memory_order_acquire))
                return atomic_load_explicit(&dcu_context_of_token, memory_order_relaxed);
        return dcu_object_of(handle, DCU_CONTEXT);
}

static inline CUcontext dcu_context_handle(const struct dcu_context *context)
{
        CUcontext token = context->primary ? atomic_load_explicit(&dcu_context_token, memory_order_acquire) : NULL;

        return token ? token : (CUcontext)dcu_handle(context);
}

/* The active context of a handle; CUDA_ERROR_CONTEXT_IS_DESTROYED for a destroyed one, CUDA_ERROR_INVALID_CONTEXT
 * otherwise. */
CUresult dcu_context_check(CUcontext handle, struct dcu_context **ret);
/* Returns the calling thread's current context. CUDA_ERROR_INVALID_CONTEXT: the thread has none, or it is inactive. */
static inline CUresult dcu_context_current(struct dcu_context **ret)
{
        CUcontext handle = dcu_thread_current();
        struct dcu_context *context = dcu_context_of(handle);

        if (__builtin_expect(context && atomic_load_explicit(&context->active, memory_order_relaxed), 1)) {
                *ret = context;
                return CUDA_SUCCESS;
        }
        return handle ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
}

/* The checks with which nearly every entry point begins: CUDA is initialised, the thread has an active current
 * context, the session has no sticky error. */
static inline CUresult dcu_enter(struct dcu_context **ret)
{
        CUresult r = dcu_enter_process();

        if (r == CUDA_SUCCESS)
                r = dcu_context_current(ret);
        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_sticky_error(dcu.session));
        return r;
}

/* As dcu_enter(), but *ret is NULL without a current context: for calls whose handle or address determines the
 * context. */
static inline CUresult dcu_enter_any(struct dcu_context **ret)
{
        CUresult r = dcu_enter_process();

        *ret = NULL;
        if (r == CUDA_SUCCESS && dcu_thread_current())
                r = dcu_context_current(ret);
        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_sticky_error(dcu.session));
        return r;
}

/* A new, inactive context object with default settings. NULL: out of memory. With dcu.lock held. */
struct dcu_context *dcu_context_new(unsigned int flags);
/* Call before a context becomes active. Returns the sticky error if other contexts are active; if none is, resets
 * the session. With dcu.lock held. */
CUresult dcu_context_prepare(void);
/* Makes a new session if the daemon is gone and no context is active. */
CUresult dcu_context_revive(void);
void dcu_context_activate(struct dcu_context *context);
/* Frees the context's objects and makes it inactive. With dcu.lock held. */
void dcu_context_deactivate(struct dcu_context *context);
/* The primary context, made at the first call. NULL: out of memory. With dcu.lock held. */
struct dcu_context *dcu_context_primary(void);
/* 1: CUDA accepts these context flags. */
int dcu_context_flags_valid(unsigned int flags);
