/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver: libraries and kernels
 *
 * The sim executes PTX, but the daemon passes machine code to a driver. The fake ptxas, which replaces the toolkit's in
 * these tests, therefore appends the text to the real cubin that it makes:
 *      [cubin][PTX text][length of the text, 8 bytes, little endian]["DSFAKEPX"]
 * A driver gets a pointer without a size. The cubin's end follows from its ELF header; the text ends at the first zero
 * byte, which belongs to the length. Machine code without a text counts as code for another GPU.
 *
 * PTX text alone and fatbins with PTX are accepted, too.
 *
 * Lazy loading works as measured on an H200: reading a library stops nothing; the first call that needs its code in the
 * context does, and each kernel's first launch may.
 */
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/support/fake_cuda/fake.h"

#include "image/image.h"

#define TRAILER "DSFAKEPX"
#define TRAILER_SIZE 8u
#define TEXT_MAX DS_MIB(64)
#define FATBIN_MAGIC 0xba55ed50u
#define RECURSION_LOCAL 65536u /* same value as DS_IX_RECURSION_LOCAL */

/* --- images --- */

/* Copies bytes after an image of unknown length. Returns how many were readable. */
static size_t peek(uint64_t at, void *bytes, size_t size)
{
        struct iovec to = {.iov_base = bytes, .iov_len = size},
                     from = {.iov_base = (void *)(uintptr_t)at, .iov_len = size};
        uint64_t page_end = (at | 4095) + 1;
        ssize_t n;

        n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
        if (n >= 0)
                return (size_t)n;
        from.iov_len = to.iov_len = DS_MIN(size, page_end - at);
        n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
        return n > 0 ? (size_t)n : 0;
}

static uint64_t elf_end(const Elf64_Ehdr *elf)
{
        const uint8_t *bytes = (const uint8_t *)elf;
        uint64_t end = elf->e_shoff + (uint64_t)elf->e_shnum * elf->e_shentsize;
        const Elf64_Shdr *section;

        end = DS_MAX(end, elf->e_phoff + (uint64_t)elf->e_phnum * elf->e_phentsize);
        for (uint32_t i = 0; i < elf->e_shnum; i++) {
                section = (const Elf64_Shdr *)(const void *)(bytes + elf->e_shoff + (uint64_t)i * elf->e_shentsize);
                if (section->sh_type != SHT_NOBITS)
                        end = DS_MAX(end, section->sh_offset + section->sh_size);
        }
        return end;
}

/* Number of bytes up to the first zero byte; TEXT_MAX if there is none before. */
static uint64_t text_run(uint64_t at)
{
        char chunk[4096];
        uint64_t length = 0;
        const char *zero;
        size_t n;

        while (length < TEXT_MAX && (n = peek(at + length, chunk, sizeof(chunk)))) {
                zero = memchr(chunk, 0, n);
                if (zero)
                        return length + (uint64_t)(zero - chunk);
                length += n;
        }
        return TEXT_MAX;
}

/* Returns a copy of the text that the fake ptxas appended to a cubin, or NULL. */
static char *trailing_text(const void *image, size_t *ret_size)
{
        uint64_t start = (uintptr_t)image + elf_end(image), run = text_run(start), length;
        char end[8 + TRAILER_SIZE], *text;

        if (run == TEXT_MAX)
                return NULL;
        /* The low bytes of the length that follows may look like text. */
        for (uint64_t back = 0; back < 8 && back <= run; back++) {
                if (peek(start + run - back, end, sizeof(end)) != sizeof(end) || memcmp(end + 8, TRAILER, TRAILER_SIZE))
                        continue;
                memcpy(&length, end, sizeof(length));
                if (length != run - back)
                        continue;
                text = ds_alloc(length + 1);
                if (text)
                        memcpy(text, (const void *)(uintptr_t)start, length);
                if (text)
                        text[length] = 0;
                *ret_size = length + 1;
                return text;
        }
        return NULL;
}

/* Finds the image that the sim can load. The caller frees *ret_owned. */
static CUresult image_find(const void *code, const void **ret, size_t *ret_size, char **ret_owned)
{
        struct {
                uint32_t magic;
                uint16_t version, header;
                uint64_t size;
        } fatbin;

        *ret_owned = NULL;
        *ret = code;
        if (!memcmp(code, ELFMAG, SELFMAG)) {
                *ret = *ret_owned = trailing_text(code, ret_size);
                return *ret ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
        }
        memcpy(&fatbin, code, sizeof(uint32_t));
        if (fatbin.magic == FATBIN_MAGIC) {
                memcpy(&fatbin, code, sizeof(fatbin));
                *ret_size = fatbin.header + fatbin.size;
                return CUDA_SUCCESS;
        }
        *ret_size = strnlen(code, TEXT_MAX) + 1;
        return *ret_size > TEXT_MAX ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
}

/* --- libraries --- */

static void library_free(CUlibrary library)
{
        if (library->module)
                fake_sim->module_unload(fake.device, library->module);
        ds_free(library->kernels);
        ds_free(library);
}

void fake_libraries_free(void)
{
        CUlibrary library, next;

        DL_FOREACH_SAFE(fake.libraries, library, next)
        {
                DL_DELETE(fake.libraries, library);
                library_free(library);
        }
}

static bool library_ok(CUlibrary wanted)
{
        CUlibrary library;

        DL_FOREACH(fake.libraries, library)
        {
                if (library == wanted)
                        return true;
        }
        return false;
}

struct CUkern_st *fake_kernel(const void *handle)
{
        uintptr_t at = (uintptr_t)handle, first;
        CUlibrary library;

        DL_FOREACH(fake.libraries, library)
        {
                first = (uintptr_t)library->kernels;
                if (at >= first && at < first + library->n_kernels * sizeof(struct CUkern_st) &&
                        (at - first) % sizeof(struct CUkern_st) == 0)
                        return &library->kernels[(at - first) / sizeof(struct CUkern_st)];
        }
        return NULL;
}

static CUresult library_kernels(CUlibrary library)
{
        const ds_device_kernel *kernel;
        const struct ds_kernel_info *info;

        while (fake_sim->kernel_at(library->module, library->n_kernels))
                library->n_kernels++;
        library->kernels = ds_alloc0(library->n_kernels + 1, sizeof(*library->kernels));
        if (!library->kernels)
                return CUDA_ERROR_OUT_OF_MEMORY;
        for (size_t i = 0; (kernel = fake_sim->kernel_at(library->module, i)); i++) {
                info = fake_sim->kernel_info(kernel);
                library->kernels[i] = (struct CUkern_st){
                        .library = library,
                        .kernel = kernel,
                        .max_dynamic = 49152 - (int)DS_MIN(info->static_shared, 49152u),
                        .loaded = fake.eager,
                };
        }
        library->there = fake.eager;
        return CUDA_SUCCESS;
}

/* Stores the compiler's messages where the caller requested them. */
static void log_give(const char *log, const CUjit_option *options, void **values, unsigned int n)
{
        char *to = NULL;
        size_t size = 0;

        for (unsigned int i = 0; i < n; i++) {
                if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
                        to = values[i];
                else if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
                        size = (uint32_t)(uintptr_t)values[i];
        }
        if (to && size)
                snprintf(to, size, "%s", log);
}

FAKE_API cuLibraryLoadData(CUlibrary *ret, const void *code, CUjit_option *options, void **values, unsigned int n,
        CUlibraryOption *library_options, void **library_values, unsigned int n_library)
{
        ds_cleanup(ds_freep) char *owned = NULL;
        ds_cleanup(ds_freep) CUlibrary library = NULL;
        const void *image;
        char log[4096] = "";
        size_t size = 0;
        CUresult r;

        FAKE_ENTER(cuLibraryLoadData, CONTEXT);
        if (fake.eager) {
                r = fake_stop("cuLibraryLoadData");
                if (r)
                        return r;
        }
        r = image_find(code, &image, &size, &owned);
        if (r)
                return r;
        library = ds_alloc0(1, sizeof(*library));
        if (!library)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = fake_result(
                fake_sim->module_load(fake.device, FAKE_SPACE, image, size, log, sizeof(log), &library->module));
        log_give(log, options, values, n);
        if (r)
                return r;
        r = library_kernels(library);
        if (r) {
                library_free(DS_TAKE_PTR(library));
                return r;
        }
        DL_APPEND(fake.libraries, library);
        *ret = DS_TAKE_PTR(library);
        return CUDA_SUCCESS;
}

/* Loads the library's code into the context unless it is there. */
static CUresult library_touch(CUlibrary library, const char *name)
{
        CUresult r;

        if (library->there)
                return CUDA_SUCCESS;
        r = fake_stop(name);
        library->there = !r;
        return r;
}

FAKE_API cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
        FAKE_ENTER(cuLibraryGetModule, CONTEXT);
        if (!library_ok(library))
                return CUDA_ERROR_INVALID_HANDLE;
        *module = (CUmodule)(void *)library;
        return library_touch(library, "cuLibraryGetModule");
}

FAKE_API cuLibraryUnload(CUlibrary library)
{
        FAKE_ENTER(cuLibraryUnload, STOPS);
        if (!library_ok(library))
                return CUDA_ERROR_INVALID_HANDLE;
        DL_DELETE(fake.libraries, library);
        library_free(library);
        return CUDA_SUCCESS;
}

FAKE_API cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
        FAKE_ENTER(cuLibraryGetKernelCount, CONTEXT);
        if (!library_ok(library))
                return CUDA_ERROR_INVALID_HANDLE;
        *count = (unsigned int)library->n_kernels;
        return CUDA_SUCCESS;
}

FAKE_API cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int n, CUlibrary library)
{
        FAKE_ENTER(cuLibraryEnumerateKernels, CONTEXT);
        if (!library_ok(library))
                return CUDA_ERROR_INVALID_HANDLE;
        for (unsigned int i = 0; i < n && i < library->n_kernels; i++)
                kernels[i] = &library->kernels[i];
        return CUDA_SUCCESS;
}

FAKE_API cuLibraryGetGlobal(CUdeviceptr *ptr, size_t *size, CUlibrary library, const char *name)
{
        uint64_t va, bytes;
        CUresult r;

        FAKE_ENTER(cuLibraryGetGlobal, CONTEXT);
        if (!library_ok(library) || !name)
                return name ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
        r = library_touch(library, "cuLibraryGetGlobal");
        if (r)
                return r;
        r = fake_result(fake_sim->global_find(library->module, name, &va, &bytes));
        if (r)
                return r;
        if (ptr)
                *ptr = va;
        if (size)
                *size = bytes;
        return CUDA_SUCCESS;
}

/* --- kernels --- */

FAKE_API cuKernelGetName(const char **name, CUkernel handle)
{
        struct CUkern_st *kernel;

        FAKE_ENTER(cuKernelGetName, CONTEXT);
        kernel = fake_kernel(handle);
        if (!kernel)
                return CUDA_ERROR_INVALID_HANDLE;
        *name = fake_sim->kernel_info(kernel->kernel)->name;
        return CUDA_SUCCESS;
}

FAKE_API cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *offset, size_t *size)
{
        const struct ds_kernel_info *info;
        struct CUkern_st *kernel;
        CUresult r;

        FAKE_ENTER(cuKernelGetParamInfo, CONTEXT);
        kernel = fake_kernel(handle);
        if (!kernel)
                return CUDA_ERROR_INVALID_HANDLE;
        r = library_touch(kernel->library, "cuKernelGetParamInfo");
        if (r)
                return r;
        info = fake_sim->kernel_info(kernel->kernel);
        if (index >= info->n_params)
                return CUDA_ERROR_INVALID_VALUE;
        *offset = info->params[index].offset;
        if (size)
                *size = info->params[index].size;
        return CUDA_SUCCESS;
}

/* Local memory of a recursive kernel, as a compiler would report it: the interpreter counts this amount in addition
 * to the memory that it uses. */
static uint32_t local_bytes(const struct ds_kernel_info *info)
{
        return info->local_bytes >= RECURSION_LOCAL ? info->local_bytes - RECURSION_LOCAL : info->local_bytes;
}

static CUresult attribute_get(int *value, CUfunction_attribute attribute, const void *handle)
{
        const struct CUkern_st *kernel = fake_kernel(handle);
        const struct ds_kernel_info *info;
        CUresult r;

        if (!kernel)
                return CUDA_ERROR_INVALID_HANDLE;
        r = library_touch(kernel->library, "an attribute of a kernel");
        if (r)
                return r;
        info = fake_sim->kernel_info(kernel->kernel);
        const uint32_t values[] = {
                [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = info->max_threads,
                [CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = info->static_shared,
                [CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES] = info->const_bytes,
                [CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES] = local_bytes(info),
                [CU_FUNC_ATTRIBUTE_NUM_REGS] = info->registers,
                [CU_FUNC_ATTRIBUTE_PTX_VERSION] = info->ptx_version,
                [CU_FUNC_ATTRIBUTE_BINARY_VERSION] = info->binary_version,
                [CU_FUNC_ATTRIBUTE_CACHE_MODE_CA] = 0,
                [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = (uint32_t)kernel->max_dynamic,
                [CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = (uint32_t)-1,
                [CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET] = info->cluster_explicit || info->cluster[0],
                [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = info->cluster[0],
                [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT] = info->cluster[1],
                [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH] = info->cluster[2],
        };

        if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
                return CUDA_ERROR_INVALID_VALUE;
        *value = (size_t)attribute < DS_ARRAY_SIZE(values) ? (int)values[attribute] : 0;
        return CUDA_SUCCESS;
}

static CUresult attribute_set(CUfunction_attribute attribute, int value, const void *handle)
{
        struct CUkern_st *kernel = fake_kernel(handle);
        int most;

        if (!kernel)
                return CUDA_ERROR_INVALID_HANDLE;
        if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
                return value < -1 || value > 100 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
                return CUDA_SUCCESS;
        if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
                return CUDA_ERROR_INVALID_VALUE;
        most = (int)fake.device->model->block_shared_optin - (int)fake_sim->kernel_info(kernel->kernel)->static_shared;
        if (value < 0 || value > most)
                return CUDA_ERROR_INVALID_VALUE;
        kernel->max_dynamic = value;
        return CUDA_SUCCESS;
}

FAKE_API cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice dev)
{
        FAKE_ENTER(cuKernelGetAttribute, CONTEXT);
        return dev ? CUDA_ERROR_INVALID_DEVICE : attribute_get(value, attribute, kernel);
}

FAKE_API cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice dev)
{
        FAKE_ENTER(cuKernelSetAttribute, CONTEXT);
        return dev ? CUDA_ERROR_INVALID_DEVICE : attribute_set(attribute, value, kernel);
}

FAKE_API cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
        FAKE_ENTER(cuFuncGetAttribute, CONTEXT);
        return attribute_get(value, attribute, function);
}

FAKE_API cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
        FAKE_ENTER(cuFuncSetAttribute, CONTEXT);
        return attribute_set(attribute, value, function);
}

/* Loads the kernel into the context unless it is there. With lazy loading the first launch of a kernel loads it and
 * stops the context; see the launch. */
FAKE_API cuKernelGetFunction(CUfunction *function, CUkernel handle)
{
        struct CUkern_st *kernel;
        CUresult r;

        FAKE_ENTER(cuKernelGetFunction, CONTEXT);
        kernel = fake_kernel(handle);
        if (!kernel)
                return CUDA_ERROR_INVALID_HANDLE;
        if (!kernel->loaded) {
                r = fake_stop("cuKernelGetFunction");
                if (r)
                        return r;
        }
        kernel->loaded = kernel->library->there = true;
        *function = (CUfunction)(void *)kernel;
        return CUDA_SUCCESS;
}
