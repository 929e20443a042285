/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The primary context: one per process, shared by all that retain it
 *
 * Its handle never changes. Releasing the last retain, or a reset, frees what it owns and makes it inactive; the next
 * retain makes it active again.
 */
#include "cuda/context.h"

static struct dcu_context *primary;

_Atomic(CUcontext) dcu_context_token;
_Atomic(struct dcu_context *) dcu_context_of_token;

CUresult dcu_context_set_token(CUcontext token)
{
        struct dcu_context *context;

        pthread_mutex_lock(&dcu.lock);
        context = dcu_context_primary();
        if (context) {
                atomic_store(&dcu_context_of_token, context);
                atomic_store_explicit(&dcu_context_token, token, memory_order_release);
        }
        pthread_mutex_unlock(&dcu.lock);
        return context ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

struct dcu_context *dcu_context_primary(void)
{
        if (!primary) {
                primary = dcu_context_new(0);
                if (primary)
                        primary->primary = 1;
        }
        return primary;
}

static CUresult enter_device(CUdevice dev)
{
        CUresult r = dcu_enter_process();

        return r == CUDA_SUCCESS ? dcu_check_device(dev) : r;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
        struct dcu_context *context;
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pctx)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        context = dcu_context_primary();
        if (!context) {
                r = CUDA_ERROR_OUT_OF_MEMORY;
        } else if (!atomic_load(&context->active)) {
                r = dcu_context_prepare();
                if (r == CUDA_SUCCESS)
                        dcu_context_activate(context);
        }
        if (r == CUDA_SUCCESS) {
                context->references++;
                *pctx = dcu_context_handle(context);
        }
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

/* Removes context-local values of other libraries before the primary context ends. references: 1 only if one retain
 * is left, 0 always. */
static void clear_kept(uint32_t references)
{
        struct dcu_context *context;

        pthread_mutex_lock(&dcu.lock);
        context = primary && (!references || primary->references == references) ? primary : NULL;
        pthread_mutex_unlock(&dcu.lock);
        if (context)
                dcu_cls_clear(context);
}

static CUresult release(CUdevice dev)
{
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        clear_kept(1);
        pthread_mutex_lock(&dcu.lock);
        if (!primary || primary->references == 0) {
                r = CUDA_ERROR_INVALID_CONTEXT;
        } else if (--primary->references == 0) {
                dcu_context_deactivate(primary);
                primary->flags = 0;
        }
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
        return release(dev);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
        return release(dev);
}

static CUresult reset(CUdevice dev)
{
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        clear_kept(0);
        pthread_mutex_lock(&dcu.lock);
        if (primary) {
                dcu_context_deactivate(primary);
                primary->flags = 0;
        }
        pthread_mutex_unlock(&dcu.lock);
        return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
        return reset(dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
        return reset(dev);
}

static CUresult set_flags(CUdevice dev, unsigned int flags)
{
        struct dcu_context *context;
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        if (!dcu_context_flags_valid(flags))
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        context = dcu_context_primary();
        if (context)
                context->flags = flags;
        pthread_mutex_unlock(&dcu.lock);
        return context ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
        return set_flags(dev, flags);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
        return set_flags(dev, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        if (!flags || !active)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        *flags = primary ? primary->flags : 0;
        *active = primary && atomic_load(&primary->active);
        pthread_mutex_unlock(&dcu.lock);
        return CUDA_SUCCESS;
}
