/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries: code without a context
 *
 * Loading is lazy, as in CUDA: the first call that needs something of an image returns its errors. If the program
 * passed a log buffer, the image is compiled at once.
 */
#include <stdlib.h>

#include "cuda/file.h"
#include "cuda/image.h"
#include "cuda/jit.h"
#include "cuda/module.h"
#include "cuda/range.h"

static int is_preserved(unsigned int count, const CUlibraryOption *options, void *const *values)
{
        for (unsigned int i = 0; i < count; i++) {
                if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED && values && values[i])
                        return 1;
        }
        return 0;
}

/* Publishes a handle for the image. Frees the image on failure. */
static CUresult publish(struct dcu_image *image, struct dcu_jit *jit, CUlibrary *ret)
{
        struct dcu_library *library;
        CUresult r = CUDA_SUCCESS;

        dcu_jit_tuning(jit, &image->max_registers, &image->optimization);
        if (dcu.eager_loading || dcu_jit_wants_log(jit))
                r = dcu_image_load(image, jit);
        if (r != CUDA_SUCCESS) {
                dcu_image_free(image, 1);
                return r;
        }
        pthread_mutex_lock(&dcu.lock);
        library = dcu_object_new(DCU_LIBRARY, sizeof(*library), NULL);
        if (library) {
                library->image = image;
                *ret = dcu_handle(library);
        } else {
                dcu_image_free(image, 1);
        }
        pthread_mutex_unlock(&dcu.lock);
        return library ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
        unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
        unsigned int numLibraryOptions)
{
        struct dcu_image *image;
        struct dcu_jit jit;
        const void *bytes;
        size_t size;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!library || !code || (numLibraryOptions && !libraryOptions))
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_jit_begin(&jit, numJitOptions, jitOptions, jitOptionsValues);
        if (r != CUDA_SUCCESS)
                return r;
        if (!dcu_image_measure(code, atomic_load(&dcu.device)->simulated, &bytes, &size))
                return CUDA_ERROR_INVALID_IMAGE;
        image = dcu_image_new(
                bytes, size, is_preserved(numLibraryOptions, libraryOptions, libraryOptionValues) ? 2 : 1);
        return image ? publish(image, &jit, library) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
        void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
        void **libraryOptionValues, unsigned int numLibraryOptions)
{
        struct dcu_image *image;
        struct dcu_jit jit;
        void *bytes;
        size_t size;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!library || !fileName || (numLibraryOptions && !libraryOptions))
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_jit_begin(&jit, numJitOptions, jitOptions, jitOptionsValues);
        if (r == CUDA_SUCCESS)
                r = dcu_file_read(fileName, &bytes, &size);
        if (r != CUDA_SUCCESS)
                return r;
        image = dcu_image_new(bytes, size, 2);
        if (!image) {
                free(bytes);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        image->copy = bytes;
        return publish(image, &jit, library);
}

CUresult cuLibraryUnload(CUlibrary library)
{
        struct dcu_library *object;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        object = dcu_object_of(library, DCU_LIBRARY);
        if (object) {
                struct dcu_image *image = object->image;

                dcu_image_free_handles(image);
                if (object->module)
                        dcu_object_free(&object->module->head);
                dcu_object_free(&object->head);
                dcu_image_free(image, 1);
        }
        pthread_mutex_unlock(&dcu.lock);
        return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* The checks with which calls on libraries begin; they need no context. */
static CUresult enter_library(CUlibrary handle, struct dcu_library **ret)
{
        CUresult r = dcu_enter_process();

        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_sticky_error(dcu.session));
        if (r != CUDA_SUCCESS)
                return r;
        *ret = dcu_object_of(handle, DCU_LIBRARY);
        return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult kernel_handle(struct dcu_library *library, struct dcu_entry *entry, CUkernel *ret)
{
        struct dcu_kernel *kernel;

        pthread_mutex_lock(&dcu.lock);
        kernel = entry->kernel;
        if (!kernel) {
                kernel = dcu_object_new(DCU_KERNEL, sizeof(*kernel), NULL);
                if (kernel) {
                        kernel->entry = entry;
                        kernel->library = library;
                        entry->kernel = kernel;
                }
        }
        if (kernel)
                *ret = dcu_handle(kernel);
        pthread_mutex_unlock(&dcu.lock);
        return kernel ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
        struct dcu_library *object;
        struct dcu_entry *entry;
        CUresult r = enter_library(library, &object);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pKernel || !name || !name[0])
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_image_entry(object->image, name, &entry);
        return r == CUDA_SUCCESS ? kernel_handle(object, entry, pKernel) : r;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
        struct dcu_library *object;
        struct dcu_entry **entries;
        size_t n;
        CUresult r = enter_library(lib, &object);

        if (r != CUDA_SUCCESS)
                return r;
        if (!count)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_image_all_entries(object->image, &entries, &n);
        if (r != CUDA_SUCCESS)
                return r;
        free(entries);
        *count = (unsigned int)n;
        return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
        struct dcu_library *object;
        struct dcu_entry **entries;
        size_t n;
        CUresult r = enter_library(lib, &object);

        if (r != CUDA_SUCCESS)
                return r;
        if (!kernels)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_image_all_entries(object->image, &entries, &n);
        if (r != CUDA_SUCCESS)
                return r;
        for (size_t i = 0; i < n && i < numKernels && r == CUDA_SUCCESS; i++)
                r = kernel_handle(object, entries[i], &kernels[i]);
        free(entries);
        return r;
}

static CUresult enter_library_with_context(CUlibrary handle, struct dcu_context **ret_context, struct dcu_library **ret)
{
        CUresult r = dcu_enter(ret_context);

        return r == CUDA_SUCCESS ? enter_library(handle, ret) : r;
}

struct dcu_module *dcu_library_module(struct dcu_library *library)
{
        if (!library->module) {
                library->module = dcu_object_new(DCU_MODULE, sizeof(*library->module), NULL);
                if (library->module) {
                        library->module->image = library->image;
                        library->module->library = library;
                }
        }
        return library->module;
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
        struct dcu_context *context;
        struct dcu_library *object;
        struct dcu_module *module;
        CUresult r = enter_library_with_context(library, &context, &object);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pMod)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_image_load(object->image, NULL);
        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        module = dcu_library_module(object);
        if (module)
                *pMod = dcu_handle(module);
        pthread_mutex_unlock(&dcu.lock);
        return module ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
        struct dcu_context *context;
        struct dcu_library *object;
        uint64_t address, size;
        CUresult r = enter_library_with_context(library, &context, &object);

        if (r != CUDA_SUCCESS)
                return r;
        if (!name || (!dptr && !bytes))
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_range_global(object->image, context, name, &address, &size);
        if (r != CUDA_SUCCESS)
                return r;
        if (dptr)
                *dptr = address;
        if (bytes)
                *bytes = size;
        return CUDA_SUCCESS;
}

/* Managed variables are not supported, so no library has any. */
CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
        struct dcu_library *object;
        CUresult r = enter_library(library, &object);

        if (r == CUDA_SUCCESS && !name)
                r = CUDA_ERROR_INVALID_VALUE;
        return r == CUDA_SUCCESS ? CUDA_ERROR_NOT_FOUND : r;
}
