/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings and queries of a context
 *
 * Cache preferences and flags are hints; they are only stored. The daemon sets the sizes of stack, printf FIFO and heap
 * in its one context to the largest values that any session requested. A program reads back what it set, rounded as
 * CUDA rounds.
 */
#include "cuda/capture.h"
#include "cuda/context.h"
#include "cuda/pool.h"

#define CTX_API_VERSION 3020
#define MAX_STACK_BYTES ((size_t)512 << 10)
#define MIN_PRINTF_BYTES ((size_t)512 << 10)
#define MIN_HEAP_BYTES ((size_t)4 << 20)
#define HEAP_GRANULE ((size_t)64 << 10)
#define MAX_L2_FETCH 128

static CUresult context_or_current(CUcontext ctx, struct dcu_context **ret)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        return ctx ? dcu_context_check(ctx, ret) : dcu_context_current(ret);
}

/* Works although the current context has been destroyed: there is only one device. */
CUresult cuCtxGetDevice(CUdevice *device)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!device)
                return CUDA_ERROR_INVALID_VALUE;
        if (!dcu_thread_current())
                return CUDA_ERROR_INVALID_CONTEXT;
        *device = 0;
        return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
        CUresult r;

        if (!ctx)
                return cuCtxGetDevice(device);
        r = dcu_enter_process();
        if (r != CUDA_SUCCESS)
                return r;
        if (!device)
                return CUDA_ERROR_INVALID_VALUE;
        if (!dcu_context_of(ctx))
                return CUDA_ERROR_INVALID_CONTEXT;
        *device = 0;
        return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
        struct dcu_context *context;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!flags)
                return CUDA_ERROR_INVALID_VALUE;
        context = dcu_context_of(dcu_thread_current());
        if (!context)
                return CUDA_ERROR_INVALID_CONTEXT;
        *flags = context->flags;
        return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!dcu_context_flags_valid(flags))
                return CUDA_ERROR_INVALID_VALUE;
        context->flags = flags;
        return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
        struct dcu_context *context;
        CUresult r = context_or_current(ctx, &context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ctxId)
                return CUDA_ERROR_INVALID_VALUE;
        *ctxId = context->id;
        return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
        struct dcu_context *context;
        CUresult r = context_or_current(ctx, &context);

        if (r == CUDA_ERROR_CONTEXT_IS_DESTROYED)
                return CUDA_ERROR_INVALID_CONTEXT;
        if (r != CUDA_SUCCESS)
                return r;
        if (!version)
                return CUDA_ERROR_INVALID_VALUE;
        *version = CTX_API_VERSION;
        return CUDA_SUCCESS;
}

static CUresult limit_status(CUlimit limit)
{
        if ((unsigned int)limit >= DCU_N_LIMITS)
                return CUDA_ERROR_INVALID_VALUE;
        if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH || limit == CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED)
                return CUDA_ERROR_UNSUPPORTED_LIMIT;
        return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pvalue)
                return CUDA_ERROR_INVALID_VALUE;
        r = limit_status(limit);
        if (r == CUDA_SUCCESS)
                *pvalue = context->limits[limit];
        return r;
}

/* Returns the limit as CUDA rounds it; 0: CUDA refuses the value. */
static size_t round_limit(CUlimit limit, size_t value)
{
        size_t most_persisting = (size_t)dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);

        switch (limit) {
        case CU_LIMIT_STACK_SIZE:
                return value > MAX_STACK_BYTES ? 0 : (value < 16 ? 16 : (value + 15) & ~(size_t)15);
        case CU_LIMIT_PRINTF_FIFO_SIZE:
                return value < MIN_PRINTF_BYTES ? MIN_PRINTF_BYTES : value;
        case CU_LIMIT_MALLOC_HEAP_SIZE:
                if (value > SIZE_MAX - HEAP_GRANULE)
                        return 0;
                return value < MIN_HEAP_BYTES ? MIN_HEAP_BYTES : (value + HEAP_GRANULE - 1) & ~(HEAP_GRANULE - 1);
        case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
                return value > MAX_L2_FETCH ? 0 : value;
        case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
                return value > most_persisting ? 0 : value;
        default:
                return value;
        }
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);
        size_t rounded;

        if (r == CUDA_SUCCESS)
                r = dcu_capture_unsafe();
        if (r == CUDA_SUCCESS)
                r = limit_status(limit);
        if (r != CUDA_SUCCESS)
                return r;
        if (limit == CU_LIMIT_SHMEM_SIZE || limit == CU_LIMIT_CIG_ENABLED)
                return CUDA_ERROR_NOT_PERMITTED;
        rounded = round_limit(limit, value);
        if (rounded == 0 && value != 0)
                return CUDA_ERROR_INVALID_VALUE;
        if (limit <= CU_LIMIT_MALLOC_HEAP_SIZE && rounded != context->limits[limit])
                r = dcu_result(dsc_limit_set(dcu.session, (uint32_t)limit, rounded));
        if (r == CUDA_SUCCESS)
                context->limits[limit] = rounded;
        return r;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pconfig)
                return CUDA_ERROR_INVALID_VALUE;
        *pconfig = context->cache;
        return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if ((unsigned int)config > CU_FUNC_CACHE_PREFER_EQUAL)
                return CUDA_ERROR_INVALID_VALUE;
        context->cache = config;
        return CUDA_SUCCESS;
}

/* Since compute capability 5, banks are always four bytes wide. */
CUresult cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pConfig)
                return CUDA_ERROR_INVALID_VALUE;
        *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
        return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        return (unsigned int)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_SUCCESS
                                                                                 : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
        struct dcu_context *context;

        return dcu_enter(&context);
}

static CUresult synchronize(void)
{
        CUresult r = dcu_capture_none();

        if (r != CUDA_SUCCESS)
                return r;
        r = dcu_result(dsc_wait_all(dcu.session));
        CUresult sticky = dcu_result(dsc_sticky_error(dcu.session));

        dcu_pool_synchronized();
        return r != CUDA_SUCCESS ? r : sticky;
}

CUresult cuCtxSynchronize(void)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        return r == CUDA_SUCCESS ? synchronize() : r;
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
        struct dcu_context *context;
        CUresult r = context_or_current(ctx, &context);

        return r == CUDA_SUCCESS ? synchronize() : r;
}

/* Always refused: there is one device, so it has no peer. */
CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
        struct dcu_context *context, *peer;
        CUresult r = dcu_enter(&context);

        if (r == CUDA_SUCCESS && Flags != 0)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                r = dcu_context_check(peerContext, &peer);
        return r == CUDA_SUCCESS ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED : r;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
        struct dcu_context *context, *peer;
        CUresult r = dcu_enter(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_context_check(peerContext, &peer);
        return r == CUDA_SUCCESS ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED : r;
}

/* Every context may use all SMs: execution affinity is not supported (cuDeviceGetExecAffinitySupport). */
CUresult cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        return !pExecAffinity || (unsigned int)type >= CU_EXEC_AFFINITY_TYPE_MAX ? CUDA_ERROR_INVALID_VALUE
                                                                                 : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}
