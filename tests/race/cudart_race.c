/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime's table of names under ThreadSanitizer: threads register images as libraries do between dlopen and
 * dlclose, launch by handle and by name, request variables and reset the device, over a driver that only counts calls
 */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "cudart/crt.h"
#include "cudart/register.h"

#define THREADS 4
#define ROUNDS 400

static _Atomic int loaded, retained, kernels;
static char context, names[THREADS][4];
static const struct {
        uint32_t magic, version;
        const void *data, *parts;
} wrapper = {0x466243b1u, 1, &wrapper, NULL};
static __thread CUcontext current;

CUresult cuInit(unsigned int flags)
{
        return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
        *count = 1;
        return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *ret)
{
        *ret = current;
        return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext next)
{
        current = next;
        return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
        *device = 0;
        return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice device)
{
        *ret = (CUcontext)&context;
        atomic_store(&retained, 1);
        return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
        *flags = 0;
        *active = atomic_load(&retained);
        return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values, unsigned int n,
        CUlibraryOption *library_options, void **library_values, unsigned int n_library)
{
        *library = malloc(1);
        atomic_fetch_add(&loaded, 1);
        return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library)
{
        free(library);
        atomic_fetch_sub(&loaded, 1);
        return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
        *kernel = (CUkernel)name;
        atomic_fetch_add(&kernels, 1);
        return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
        *count = 1;
        return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name)
{
        *address = (CUdeviceptr)name;
        *bytes = 4;
        return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
        *function = (CUfunction)kernel;
        return CUDA_SUCCESS;
}

/* the runtime links only programs of several translation units, so it never calls this here */
CUresult cuLinkCreate_v2(unsigned int n, CUjit_option *options, void **values, CUlinkState *state)
{
        abort();
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
        unsigned int n, CUjit_option *options, void **values)
{
        abort();
}

CUresult cuLinkComplete(CUlinkState state, void **cubin, size_t *size)
{
        abort();
}

CUresult cuLinkDestroy(CUlinkState state)
{
        abort();
}

/* The calls of a library between dlopen and dlclose. The first two names are its own; all libraries share the
 * others. */
static void life(int id, int round)
{
        void **handle = __cudaRegisterFatBinary((void *)&wrapper);
        const char *own = &names[id][0], *shared = &names[round % THREADS][2];
        cudaKernel_t kernel;
        CUdeviceptr address;
        size_t bytes;
        CUkernel k;

        __cudaRegisterFunction(handle, own, NULL, "own", -1, NULL, NULL, NULL, NULL, NULL);
        __cudaRegisterFunction(handle, shared, NULL, "shared", -1, NULL, NULL, NULL, NULL, NULL);
        __cudaRegisterVar(handle, &names[id][1], NULL, "variable", 0, 4, 0, 0);
        __cudaRegisterFatBinaryEnd(handle);
        assert(rt_enter() == cudaSuccess);
        assert(__cudaGetKernel(&kernel, own) == cudaSuccess);
        assert(rt_name_kernel((struct rt_name *)kernel, &k) == CUDA_SUCCESS);
        assert(rt_kernel(own, &k) == cudaSuccess);
        assert(rt_kernel(shared, &k) == cudaSuccess);
        assert(rt_symbol(&names[id][1], &address, &bytes) == cudaSuccess && bytes == 4);
        if (round % 16 == id) {
                atomic_store(&retained, 0);
                rt_contexts_changed();
        }
        __cudaUnregisterFatBinary(handle);
        assert(rt_symbol(&names[id][1], &address, &bytes) == cudaErrorInvalidSymbol);
}

static void *run(void *arg)
{
        for (int round = 0; round < ROUNDS; round++)
                life((int)(intptr_t)arg, round);
        return NULL;
}

int main(void)
{
        pthread_t threads[THREADS];

        for (intptr_t i = 0; i < THREADS; i++)
                if (pthread_create(&threads[i], NULL, run, (void *)i))
                        return 1;
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        if (atomic_load(&loaded) || !atomic_load(&kernels)) {
                printf("%d images are left, %d kernels were asked for\n", atomic_load(&loaded), atomic_load(&kernels));
                return 1;
        }
        return 0;
}
