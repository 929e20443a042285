/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: creation, destruction, and each thread's stack of them
 */
#include "cuda/context.h"
#include "cuda/event.h"
#include "cuda/link.h"
#include "cuda/module.h"
#include "cuda/pool.h"
#include "cuda/range.h"
#include "cuda/stream.h"
#include "cuda/vmm.h"

static unsigned int active_contexts; /* number of active contexts; protected by dcu.lock */
static unsigned long long next_id = 1;

CUresult dcu_context_check(CUcontext handle, struct dcu_context **ret)
{
        struct dcu_context *context = dcu_context_of(handle);
        uintptr_t offset = (uintptr_t)handle - dcu_cells;

        if (!context)
                return offset < atomic_load(&dcu_cells_used) ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                             : CUDA_ERROR_INVALID_CONTEXT;
        if (!atomic_load(&context->active))
                return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        *ret = context;
        return CUDA_SUCCESS;
}

int dcu_context_flags_valid(unsigned int flags)
{
        unsigned int schedule = flags & CU_CTX_SCHED_MASK;

        if (flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
                return 0;
        return schedule == CU_CTX_SCHED_AUTO || schedule == CU_CTX_SCHED_SPIN || schedule == CU_CTX_SCHED_YIELD ||
               schedule == CU_CTX_SCHED_BLOCKING_SYNC;
}

static void set_default_limits(struct dcu_context *context)
{
        for (uint32_t i = CU_LIMIT_STACK_SIZE; i <= CU_LIMIT_MALLOC_HEAP_SIZE; i++)
                context->limits[i] = (size_t)dsc_limit(dcu.session, i);
        context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
        context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
        context->limits[CU_LIMIT_SHMEM_SIZE] =
                (size_t)dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
}

struct dcu_context *dcu_context_new(unsigned int flags)
{
        struct dcu_context *context = dcu_object_new(DCU_CONTEXT, sizeof(*context), NULL);

        if (!context)
                return NULL;
        context->flags = flags;
        context->id = next_id++;
        set_default_limits(context);
        return context;
}

void dcu_context_activate(struct dcu_context *context)
{
        if (!atomic_exchange(&context->active, 1))
                active_contexts++;
}

/* in_daemon: frees each object in the daemon too; otherwise the session's reset has done that. */
static void free_objects(struct dcu_context *context, int in_daemon)
{
        while (context->objects) {
                struct dcu_object *object = context->objects;

                switch ((enum dcu_kind)(atomic_load(&object->tag) >> 8)) {
                case DCU_STREAM:
                        dcu_stream_free((struct dcu_stream *)object, in_daemon);
                        break;
                case DCU_EVENT:
                        dcu_event_free((struct dcu_event *)object, in_daemon);
                        break;
                case DCU_MODULE:
                        dcu_module_free((struct dcu_module *)object, in_daemon);
                        break;
                case DCU_LINK:
                        dcu_link_free((struct dcu_link *)object);
                        break;
                case DCU_CONTEXT:
                case DCU_LIBRARY:
                case DCU_FUNCTION:
                case DCU_KERNEL:
                case DCU_GRAPH:
                case DCU_NODE:
                case DCU_GRAPH_EXEC:
                case DCU_USER_OBJECT:
                case DCU_POOL:
                case DCU_PHYSICAL:
                        dcu_object_free(object);
                        break;
                }
        }
}

/*
 * Waits for the session's work and its printed text, then resets the session. Libraries are loaded again when they are
 * next used.
 */
static CUresult reset_session(void)
{
        (void)dsc_wait_all(dcu.session); /* result ignored: the reset clears the sticky error that it may report */
        dcu_stream_reset();
        dcu_pool_reset();
        dcu_ipc_reset();
        dcu_vmm_reset();
        atomic_fetch_add(&dcu.epoch, 1);
        return dcu_result(dsc_reset(dcu.session));
}

void dcu_context_deactivate(struct dcu_context *context)
{
        int last;

        if (!atomic_exchange(&context->active, 0))
                return;
        last = --active_contexts == 0;
        if (!last)
                dsc_output(dcu.session);
        free_objects(context, !last);
        dcu_range_free_owned(context, !last);
        if (last)
                (void)reset_session(); /* result ignored: the caller cannot fail any more */
}

static CUresult revive_locked(void)
{
        if (active_contexts > 0 || !dsc_lost(dcu.session))
                return CUDA_SUCCESS;
        dcu_stream_reset();
        dcu_pool_reset();
        dcu_ipc_reset();
        dcu_vmm_reset();
        atomic_fetch_add(&dcu.epoch, 1);
        return dcu_session_renew();
}

CUresult dcu_context_revive(void)
{
        CUresult r;

        pthread_mutex_lock(&dcu.lock);
        r = revive_locked();
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult dcu_context_prepare(void)
{
        CUresult r = revive_locked(), sticky;

        if (r != CUDA_SUCCESS)
                return r;
        sticky = dcu_result(dsc_sticky_error(dcu.session));
        /* the error belongs to no context, because none was active: reset the session */
        return sticky != CUDA_SUCCESS && active_contexts == 0 ? reset_session() : sticky;
}

static CUresult create_locked(unsigned int flags, CUcontext *ret)
{
        struct dcu_context *context = dcu_context_new(flags);

        if (!context)
                return CUDA_ERROR_OUT_OF_MEMORY;
        if (!dcu_thread_push(dcu_context_handle(context))) {
                dcu_object_free(&context->head);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        context->references = 1;
        dcu_context_activate(context);
        *ret = dcu_context_handle(context);
        return CUDA_SUCCESS;
}

static CUresult create(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!pctx || !dcu_context_flags_valid(flags))
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_check_device(dev);
        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        r = dcu_context_prepare();
        if (r == CUDA_SUCCESS)
                r = create_locked(flags, pctx);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
        return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
        return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v3(
        CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags, CUdevice dev)
{
        if (numParams != 0)
                return numParams < 0 || !paramsArray ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
        return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
        if (ctxCreateParams && ctxCreateParams->cigParams)
                return CUDA_ERROR_NOT_SUPPORTED;
        if (ctxCreateParams && ctxCreateParams->numExecAffinityParams != 0)
                return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
        return create(pctx, flags, dev);
}

/* Drops one reference of a created context; the last one destroys it. With dcu.lock held. */
static CUresult drop(CUcontext handle, int all)
{
        struct dcu_context *context;
        CUresult r = dcu_context_check(handle, &context);

        if (r != CUDA_SUCCESS)
                return r;
        if (context->primary)
                return CUDA_ERROR_INVALID_CONTEXT;
        context->references = all ? 0 : context->references - 1;
        if (context->references > 0)
                return CUDA_SUCCESS;
        dcu_context_deactivate(context);
        if (dcu_thread_current() == handle)
                dcu_self.depth--;
        dcu_cls_free(context);
        dcu_object_free(&context->head);
        return CUDA_SUCCESS;
}

/* Runs destructors of context-local values before the context is destroyed (all: whatever the number of references),
 * while the context still works. */
static void clear_kept(CUcontext ctx, int all)
{
        struct dcu_context *context;
        int goes;

        pthread_mutex_lock(&dcu.lock);
        goes = dcu_context_check(ctx, &context) == CUDA_SUCCESS && !context->primary &&
               (all || context->references == 1);
        pthread_mutex_unlock(&dcu.lock);
        if (goes)
                dcu_cls_clear(context);
}

static CUresult destroy(CUcontext ctx, int all)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!ctx)
                return CUDA_ERROR_INVALID_VALUE;
        clear_kept(ctx, all);
        pthread_mutex_lock(&dcu.lock);
        r = drop(ctx, all);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
        return destroy(ctx, 1);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
        return destroy(ctx, 1);
}

CUresult cuCtxDetach(CUcontext ctx)
{
        return destroy(ctx, 0);
}

CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pctx || flags != 0)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        context->references++;
        *pctx = dcu_context_handle(context);
        pthread_mutex_unlock(&dcu.lock);
        return CUDA_SUCCESS;
}

static CUresult push(CUcontext ctx)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!ctx)
                return CUDA_ERROR_INVALID_VALUE;
        /* an inactive primary context may become current: NVIDIA's runtime makes it current before it retains it */
        if (!dcu_context_of(ctx))
                return CUDA_ERROR_INVALID_CONTEXT;
        return dcu_thread_push(ctx) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
        return push(ctx);
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
        return push(ctx);
}

static CUresult pop(CUcontext *pctx)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (dcu_self.depth == 0)
                return CUDA_ERROR_INVALID_CONTEXT;
        if (pctx)
                *pctx = dcu_thread_current();
        dcu_self.depth--;
        return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *pctx)
{
        return pop(pctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
        return pop(pctx);
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (ctx && !dcu_context_of(ctx))
                return CUDA_ERROR_INVALID_CONTEXT;
        if (dcu_self.depth)
                dcu_self.depth--;
        if (ctx && !dcu_thread_push(ctx))
                return CUDA_ERROR_OUT_OF_MEMORY;
        return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!pctx)
                return CUDA_ERROR_INVALID_VALUE;
        *pctx = dcu_thread_current();
        return CUDA_SUCCESS;
}
