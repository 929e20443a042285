/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches
 *
 * The driver checks a launch, and its error goes to the program. Errors as on an H200: a grid without blocks gives
 * cudaErrorInvalidValue, a pointer that is no kernel cudaErrorInvalidResourceHandle. The driver counts shared memory in
 * 32 bits.
 */
#include "cudart/crt.h"
#include "cudart/register.h"

_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "both have the same attributes");

static cudaError_t launch(CUkernel k, dim3 g, dim3 b, void **args, size_t shared, cudaStream_t stream)
{
        return rt_error(
                cuLaunchKernel((CUfunction)k, g.x, g.y, g.z, b.x, b.y, b.z, (unsigned int)shared, stream, args, NULL));
}

/* Compiled code calls this for <<<>>>, with the kernel that __cudaGetKernel returned. */
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
        return e ? e
                 : rt_error(cuLaunchCooperativeKernel((CUfunction)k, gridDim.x, gridDim.y, gridDim.z, blockDim.x,
                           blockDim.y, blockDim.z, (unsigned int)sharedMem, stream, args));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
        cudaError_t e = rt_enter();
        CUlaunchConfig c;
        CUkernel k;

        if (e != cudaSuccess)
                return e;
        if (!config)
                return rt_fail(cudaErrorInvalidValue);
        e = rt_kernel(func, &k);
        if (e != cudaSuccess)
                return e;
        c = (CUlaunchConfig){config->gridDim.x, config->gridDim.y, config->gridDim.z, config->blockDim.x,
                config->blockDim.y, config->blockDim.z, (unsigned int)config->dynamicSmemBytes, config->stream,
                (CUlaunchAttribute *)config->attrs, config->numAttrs};
        return rt_error(cuLaunchKernelEx(&c, (CUfunction)k, args, NULL));
}
