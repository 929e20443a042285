/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: what CUDA calls one, and what the daemon knows of it (nothing)
 *
 * The daemon gives a process one session. Contexts are bookkeeping of this library on top of it: the primary context
 * and every created one have handles of their own, own what is made while they are current, and take it along when they
 * are destroyed. When the last active context goes, the session is reset, which also clears a sticky error: that is
 * what makes a fresh start after a fault possible without a new process.
 *
 * When the daemon is gone every call with an active context fails, as after a fault. Once none is left, the next one
 * that is made has a new session.
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
        struct dcu_object *objects; /* what it owns; dcu.lock */
        _Atomic int active;
        int primary;
        uint32_t references; /* retains of the primary context, attachments of a created one; dcu.lock */
        unsigned int flags;
        unsigned long long id;
        CUfunc_cache cache;
        size_t limits[DCU_N_LIMITS];
        _Atomic(struct dcu_cls *) cls; /* what others keep with it (cls.h) */
};

/* The primary context's handle where NVIDIA's runtime has another one for it, and the object that it stands for. */
extern _Atomic(CUcontext) dcu_context_token;
extern _Atomic(struct dcu_context *) dcu_context_of_token;
/* From now on the primary context has this handle; the one of before stays good. CUDA_ERROR_OUT_OF_MEMORY. */
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

/* An active context, else CUDA_ERROR_CONTEXT_IS_DESTROYED for one that was, CUDA_ERROR_INVALID_CONTEXT for garbage. */
CUresult dcu_context_check(CUcontext handle, struct dcu_context **ret);
/* The current context, active; CUDA_ERROR_INVALID_CONTEXT without one. */
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

/* What nearly every entry point begins with: initialised, a usable current context, no sticky error. */
static inline CUresult dcu_enter(struct dcu_context **ret)
{
        CUresult r = dcu_enter_process();

        if (r == CUDA_SUCCESS)
                r = dcu_context_current(ret);
        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_sticky_error(dcu.session));
        return r;
}

/* As dcu_enter, but without a current context *ret is NULL: for calls whose handle or address says which one it is. */
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

/* A new context object with its defaults, inactive. NULL when out of memory. dcu.lock must be held. */
struct dcu_context *dcu_context_new(unsigned int flags);
/* Before a context becomes active: CUDA_SUCCESS unless others that are have a sticky error. dcu.lock must be held. */
CUresult dcu_context_prepare(void);
/* If the daemon is gone and no context is active, a new session. */
CUresult dcu_context_revive(void);
void dcu_context_activate(struct dcu_context *context);
/* Free what it owns and make it inactive. dcu.lock must be held. */
void dcu_context_deactivate(struct dcu_context *context);
/* The one primary context, made on first use. NULL when out of memory. dcu.lock must be held. */
struct dcu_context *dcu_context_primary(void);
/* Flags of a context that CUDA accepts. */
int dcu_context_flags_valid(unsigned int flags);
