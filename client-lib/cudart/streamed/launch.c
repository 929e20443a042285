/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches
 *
 * The driver checks a launch. It has one answer for all that is wrong with its numbers, and the runtime two: what no
 * grid or block of the device can have is a bad configuration, anything else a bad value.
 */
#include "cudart/crt.h"
#include "cudart/register.h"

_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "both have the same attributes");

struct shape {
        dim3 grid, block;
};

static int within(unsigned int n, CUdevice_attribute limit, CUdevice device)
{
        int most = 0;

        return n > 0 && cuDeviceGetAttribute(&most, limit, device) == CUDA_SUCCESS && n <= (unsigned int)most;
}

static int possible(const struct shape *s)
{
        uint64_t threads = (uint64_t)s->block.x * s->block.y * s->block.z;
        CUdevice d;

        return cuCtxGetDevice(&d) != CUDA_SUCCESS ||
               (within(s->grid.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, d) &&
                       within(s->grid.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, d) &&
                       within(s->grid.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, d) &&
                       within(s->block.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, d) &&
                       within(s->block.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, d) &&
                       within(s->block.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, d) && threads <= UINT32_MAX &&
                       within((unsigned int)threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, d));
}

static cudaError_t launched(CUresult r, dim3 grid, dim3 block)
{
        const struct shape s = {grid, block};

        if (r == CUDA_ERROR_INVALID_VALUE && !possible(&s))
                return rt_fail(cudaErrorInvalidConfiguration);
        return rt_error(r);
}

static cudaError_t launch(CUkernel k, dim3 g, dim3 b, void **args, size_t shared, cudaStream_t stream)
{
        if (shared > UINT32_MAX)
                return rt_fail(cudaErrorInvalidValue);
        return launched(
                cuLaunchKernel((CUfunction)k, g.x, g.y, g.z, b.x, b.y, b.z, (unsigned int)shared, stream, args, NULL),
                g, b);
}

/* What compiled code calls for <<<>>>, with what __cudaGetKernel gave it. */
cudaError_t __cudaLaunchKernel(
        cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem, cudaStream_t stream)
{
        cudaError_t e = rt_enter();
        CUkernel k;
        CUresult r;

        if (e != cudaSuccess)
                return e;
        r = kernel ? rt_name_kernel((struct rt_name *)kernel, &k) : CUDA_ERROR_NOT_FOUND;
        if (r != CUDA_SUCCESS)
                return r == CUDA_ERROR_NOT_FOUND ? rt_fail(cudaErrorInvalidDeviceFunction) : rt_error(r);
        return launch(k, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t cudaLaunchKernel(
        const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem, cudaStream_t stream)
{
        cudaError_t e = rt_enter();
        CUkernel k;

        if (e == cudaSuccess)
                e = rt_kernel(func, &k);
        return e ? e : launch(k, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t cudaLaunchCooperativeKernel(
        const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem, cudaStream_t stream)
{
        cudaError_t e = rt_enter();
        CUkernel k;

        if (e == cudaSuccess)
                e = rt_kernel(func, &k);
        if (e != cudaSuccess)
                return e;
        if (sharedMem > UINT32_MAX)
                return rt_fail(cudaErrorInvalidValue);
        return launched(cuLaunchCooperativeKernel((CUfunction)k, gridDim.x, gridDim.y, gridDim.z, blockDim.x,
                                blockDim.y, blockDim.z, (unsigned int)sharedMem, stream, args),
                gridDim, blockDim);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
        cudaError_t e = rt_enter();
        CUlaunchConfig c;
        CUkernel k;

        if (e != cudaSuccess)
                return e;
        if (!config || config->dynamicSmemBytes > UINT32_MAX)
                return rt_fail(cudaErrorInvalidValue);
        e = rt_kernel(func, &k);
        if (e != cudaSuccess)
                return e;
        c = (CUlaunchConfig){config->gridDim.x, config->gridDim.y, config->gridDim.z, config->blockDim.x,
                config->blockDim.y, config->blockDim.z, (unsigned int)config->dynamicSmemBytes, config->stream,
                (CUlaunchAttribute *)config->attrs, config->numAttrs};
        return launched(cuLaunchKernelEx(&c, (CUfunction)k, args, NULL), config->gridDim, config->blockDim);
}
