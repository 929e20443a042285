/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of registered names
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "cudart/crt.h"
#include "cudart/register.h"

#define BUCKETS 4096u

/* The structure that nvcc puts before a fatbin. In version 2, `data` was linked from the containers at `parts`. */
struct wrapper {
        uint32_t magic, version;
        const void *data;
        const void *const *parts;
};

struct container {
        uint32_t magic;
        uint16_t version, header_bytes;
        uint64_t bytes; /* number of bytes after the header */
};

struct rt_binary {
        const struct wrapper *wrapper;
        CUlibrary library;   /* library in the driver; NULL until something of the binary is used */
        const char *managed; /* name of a managed variable of the binary; NULL: it has none */
};

static struct rt_name *buckets[BUCKETS];
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static struct rt_name **bucket(const void *host)
{
        return &buckets[((uintptr_t)host * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
}

void **__cudaRegisterFatBinary(void *fatCubin)
{
        struct rt_binary *binary = calloc(1, sizeof(*binary));

        if (binary)
                binary->wrapper = fatCubin;
        return (void **)binary;
}

void __cudaRegisterFatBinaryEnd(void **fatCubinHandle)
{
}

/* Returns a record for a host address: an unused one, or a new one. With the lock held. */
static struct rt_name *take(const void *host)
{
        struct rt_name **head = bucket(host), *name;

        for (name = *head; name; name = name->next) {
                if (name->host == host && !atomic_load(&name->binary))
                        return name;
        }
        name = calloc(1, sizeof(*name));
        if (!name)
                return NULL;
        name->host = host;
        name->next = *head;
        *head = name;
        return name;
}

static void add(void **handle, const void *host, const char *device, size_t bytes, void **managed)
{
        struct rt_binary *binary = (struct rt_binary *)handle;
        struct rt_name *name;

        if (!binary)
                return;
        pthread_rwlock_wrlock(&lock);
        name = take(host);
        if (name) {
                name->device = device;
                name->bytes = bytes;
                name->managed = managed;
                atomic_store(&name->kernel, NULL);
                atomic_store(&name->binary, binary);
        }
        if (managed)
                binary->managed = device;
        pthread_rwlock_unlock(&lock);
}

void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun, const char *deviceName,
        int thread_limit, uint3 *tid, uint3 *bid, dim3 *bDim, dim3 *gDim, int *wSize)
{
        add(fatCubinHandle, hostFun, deviceName, 0, NULL);
}

void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress, const char *deviceName, int ext,
        size_t size, int constant, int global)
{
        add(fatCubinHandle, hostVar, deviceName, size, NULL);
}

void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress,
        const char *deviceName, int ext, size_t size, int constant, int global)
{
        add(fatCubinHandle, hostVarPtrAddress, deviceName, size, hostVarPtrAddress);
}

void __cudaUnregisterFatBinary(void **fatCubinHandle)
{
        struct rt_binary *binary = (struct rt_binary *)fatCubinHandle;
        CUlibrary library;

        if (!binary)
                return;
        pthread_rwlock_wrlock(&lock);
        for (unsigned int i = 0; i < BUCKETS; i++) {
                for (struct rt_name *name = buckets[i]; name; name = name->next) {
                        if (atomic_load(&name->binary) == binary) {
                                atomic_store(&name->kernel, NULL);
                                atomic_store(&name->binary, NULL);
                        }
                }
        }
        library = binary->library;
        free(binary);
        pthread_rwlock_unlock(&lock);
        if (library)
                cuLibraryUnload(library);
}

static CUresult load_image(CUlibrary *ret, const void *image)
{
        CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
        void *value = (void *)1;

        return cuLibraryLoadData(ret, image, NULL, NULL, 0, &option, &value, 1);
}

/* Links separately compiled parts in the driver. *ret: the library of the result, which is a copy. */
static CUresult link_parts(CUlibrary *ret, const void *const *parts)
{
        CUlinkState state;
        void *linked;
        size_t size;
        CUresult r = cuLinkCreate(0, NULL, NULL, &state);

        if (r != CUDA_SUCCESS)
                return r;
        for (; *parts && r == CUDA_SUCCESS; parts++) {
                const struct container *part = *parts;

                size = part->header_bytes + (size_t)part->bytes;
                r = cuLinkAddData(state, CU_JIT_INPUT_FATBINARY, *(void *const *)parts, size, "", 0, NULL, NULL);
        }
        if (r == CUDA_SUCCESS)
                r = cuLinkComplete(state, &linked, &size);
        if (r == CUDA_SUCCESS)
                r = cuLibraryLoadData(ret, linked, NULL, NULL, 0, NULL, NULL, 0);
        cuLinkDestroy(state);
        return r;
}

/*
 * Loads relocatable device code: it carries the machine code that nvcc linked, and the parts with their PTX. If the
 * machine code does not fit the device, the parts are linked.
 */
static CUresult load_linked(struct rt_binary *binary, const struct wrapper *wrapper)
{
        unsigned int count;
        CUlibrary library;
        CUresult r = cuLibraryGetKernelCount(&count, binary->library);

        if (r != CUDA_ERROR_NO_BINARY_FOR_GPU || !wrapper->parts || !wrapper->parts[0])
                return CUDA_SUCCESS;
        r = wrapper->parts[1] ? link_parts(&library, wrapper->parts) : load_image(&library, wrapper->parts[0]);
        if (r == CUDA_SUCCESS) {
                cuLibraryUnload(binary->library);
                binary->library = library;
        }
        return CUDA_SUCCESS;
}

/* Loads the binary's code, as a library of the driver. With the lock held for writing. */
static CUresult load(struct rt_binary *binary)
{
        const struct wrapper *wrapper = binary->wrapper;
        CUresult r;

        if (binary->managed)
                return CUDA_ERROR_NOT_SUPPORTED;
        if (binary->library)
                return CUDA_SUCCESS;
        r = load_image(&binary->library, wrapper);
        return r == CUDA_SUCCESS && wrapper->version == 2 ? load_linked(binary, wrapper) : r;
}

/* Returns the newest record of a host address whose binary is still loaded; NULL: none. With the lock held. */
static struct rt_name *find(const void *host)
{
        for (struct rt_name *name = *bucket(host); name; name = name->next) {
                if (name->host == host && atomic_load(&name->binary))
                        return name;
        }
        return NULL;
}

CUresult rt_name_kernel(struct rt_name *name, CUkernel *ret)
{
        CUresult r = CUDA_ERROR_NOT_FOUND;
        struct rt_binary *binary;

        *ret = atomic_load_explicit(&name->kernel, memory_order_acquire);
        if (*ret)
                return CUDA_SUCCESS;
        pthread_rwlock_wrlock(&lock);
        if (!atomic_load(&name->binary))
                name = find(name->host);
        if (name) {
                binary = atomic_load(&name->binary);
                r = load(binary);
                if (r == CUDA_SUCCESS)
                        r = cuLibraryGetKernel(ret, binary->library, name->device);
                if (r == CUDA_SUCCESS)
                        atomic_store_explicit(&name->kernel, *ret, memory_order_release);
        }
        pthread_rwlock_unlock(&lock);
        return r;
}

static struct rt_name *find_locked(const void *host)
{
        struct rt_name *name;

        pthread_rwlock_rdlock(&lock);
        name = find(host);
        pthread_rwlock_unlock(&lock);
        return name;
}

void *rt_function_host(CUfunction function)
{
        const void *host = function;
        CUfunction its;
        CUkernel kernel;

        pthread_rwlock_rdlock(&lock);
        for (unsigned int i = 0; i < BUCKETS && host == function; i++) {
                for (struct rt_name *name = buckets[i]; name; name = name->next) {
                        kernel = atomic_load(&name->kernel);
                        if (kernel && (function == (CUfunction)kernel ||
                                              (cuKernelGetFunction(&its, kernel) == CUDA_SUCCESS && its == function)))
                                host = name->host;
                }
        }
        pthread_rwlock_unlock(&lock);
        return (void *)(uintptr_t)host;
}

cudaError_t rt_kernel(const void *func, CUkernel *ret)
{
        struct rt_name *name = find_locked(func);
        CUresult r;

        if (!func)
                return rt_fail(cudaErrorInvalidDeviceFunction);
        if (!name || name->bytes) {
                /* not a registered address: a handle of a kernel or function, or invalid, which the driver detects */
                *ret = (CUkernel)func;
                return cudaSuccess;
        }
        r = rt_name_kernel(name, ret);
        return r == CUDA_ERROR_NOT_FOUND ? rt_fail(cudaErrorInvalidDeviceFunction) : rt_error(r);
}

cudaError_t rt_symbol(const void *symbol, CUdeviceptr *ret, size_t *ret_bytes)
{
        struct rt_binary *binary;
        struct rt_name *name;
        CUresult r = CUDA_ERROR_NOT_FOUND;

        pthread_rwlock_wrlock(&lock);
        name = find(symbol);
        if (name && name->bytes) {
                binary = atomic_load(&name->binary);
                r = load(binary);
                if (r == CUDA_SUCCESS)
                        r = cuLibraryGetGlobal(ret, ret_bytes, binary->library, name->device);
        }
        pthread_rwlock_unlock(&lock);
        return r == CUDA_ERROR_NOT_FOUND ? rt_fail(cudaErrorInvalidSymbol) : rt_error(r);
}

/* Returns the record of a kernel as its handle: compiled code passes it to later launches. Loads nothing. */
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *func)
{
        struct rt_name *name = find_locked(func);

        *kernel = (cudaKernel_t)name;
        return name ? cudaSuccess : rt_fail(cudaErrorInvalidDeviceFunction);
}

/*
 * Compiled code calls this before a program first uses a managed variable of the binary. Managed variables are not
 * supported, and a binary with one does not load. The variable gets plain memory, so that the program runs as far as
 * its own error checks.
 */
char __cudaInitModule(void **fatCubinHandle)
{
        struct rt_binary *binary = (struct rt_binary *)fatCubinHandle;
        static atomic_flag said = ATOMIC_FLAG_INIT;

        if (!binary || !binary->managed)
                return 1;
        if (!atomic_flag_test_and_set(&said))
                fprintf(stderr,
                        "detshare: this program has __managed__ variables (%s), which are not supported: use "
                        "cudaMallocManaged\n",
                        binary->managed);
        pthread_rwlock_wrlock(&lock);
        for (unsigned int i = 0; i < BUCKETS; i++) {
                for (struct rt_name *name = buckets[i]; name; name = name->next) {
                        if (atomic_load(&name->binary) == binary && name->managed && !*name->managed)
                                *name->managed = calloc(1, name->bytes);
                }
        }
        pthread_rwlock_unlock(&lock);
        return 1;
}
