/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that a program loads explicitly. Their handles, and those of their kernels, are the driver's.
 */
#include "cudart/rt.h"

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jitOptions,
        void **jitOptionsValues, unsigned int numJitOptions, enum cudaLibraryOption *libraryOptions,
        void **libraryOptionValues, unsigned int numLibraryOptions)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuLibraryLoadData((CUlibrary *)library, code, (CUjit_option *)jitOptions, jitOptionsValues,
                           numJitOptions, (CUlibraryOption *)libraryOptions, libraryOptionValues, numLibraryOptions));
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *fileName, enum cudaJitOption *jitOptions,
        void **jitOptionsValues, unsigned int numJitOptions, enum cudaLibraryOption *libraryOptions,
        void **libraryOptionValues, unsigned int numLibraryOptions)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuLibraryLoadFromFile((CUlibrary *)library, fileName, (CUjit_option *)jitOptions,
                           jitOptionsValues, numJitOptions, (CUlibraryOption *)libraryOptions, libraryOptionValues,
                           numLibraryOptions));
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuLibraryUnload((CUlibrary)library));
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t library, const char *name)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuLibraryGetKernel((CUkernel *)pKernel, (CUlibrary)library, name));
}

cudaError_t cudaLibraryGetGlobal(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuLibraryGetGlobal((CUdeviceptr *)dptr, bytes, (CUlibrary)library, name));
}

cudaError_t cudaLibraryGetManaged(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuLibraryGetManaged((CUdeviceptr *)dptr, bytes, (CUlibrary)library, name));
}

cudaError_t cudaLibraryGetUnifiedFunction(void **fptr, cudaLibrary_t library, const char *symbol)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuLibraryGetUnifiedFunction(fptr, (CUlibrary)library, symbol));
}

cudaError_t cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t lib)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuLibraryGetKernelCount(count, (CUlibrary)lib));
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int numKernels, cudaLibrary_t lib)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuLibraryEnumerateKernels((CUkernel *)kernels, numKernels, (CUlibrary)lib));
}
