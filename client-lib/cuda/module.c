/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: loading, lookups, unloading
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda/capture.h"
#include "cuda/file.h"
#include "cuda/image.h"
#include "cuda/jit.h"
#include "cuda/module.h"
#include "cuda/range.h"

/* Makes a module of the context from a loaded image. Frees the image on failure. */
static CUresult publish(struct dcu_context *context, struct dcu_image *image, CUmodule *ret)
{
        struct dcu_module *module;

        /* a module ends with a reset of the session: its image is never loaded again and needs no bytes */
        image->bytes = NULL;
        pthread_mutex_lock(&dcu.lock);
        module = dcu_object_new(DCU_MODULE, sizeof(*module), context);
        if (module) {
                module->image = image;
                *ret = dcu_handle(module);
        } else {
                dcu_image_free(image, 1);
        }
        pthread_mutex_unlock(&dcu.lock);
        return module ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult load_bytes(
        struct dcu_context *context, const void *bytes, size_t size, struct dcu_jit *jit, CUmodule *ret_module)
{
        struct dcu_image *image;
        CUresult r;

        if (!dcu_image_plausible(bytes, size))
                return CUDA_ERROR_INVALID_IMAGE;
        image = dcu_image_new(bytes, size, 0);
        if (!image)
                return CUDA_ERROR_OUT_OF_MEMORY;
        if (jit)
                dcu_jit_tuning(jit, &image->max_registers, &image->optimization);
        r = dcu_image_load(image, jit);
        if (r != CUDA_SUCCESS) {
                dcu_image_free(image, 1);
                return r;
        }
        return publish(context, image, ret_module);
}

static CUresult load(CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values)
{
        struct dcu_context *context;
        struct dcu_jit jit;
        const void *bytes;
        size_t size;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!module || !image)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_jit_begin(&jit, count, options, values);
        if (r != CUDA_SUCCESS)
                return r;
        if (!dcu_image_measure(image, atomic_load(&dcu.device)->simulated, &bytes, &size))
                return CUDA_ERROR_INVALID_IMAGE;
        return load_bytes(context, bytes, size, &jit, module);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
        return load(module, image, 0, NULL, NULL);
}

CUresult cuModuleLoadDataEx(
        CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options, void **optionValues)
{
        return load(module, image, numOptions, options, optionValues);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
        return load(module, fatCubin, 0, NULL, NULL);
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
        struct dcu_context *context;
        void *bytes;
        size_t size;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!module || !fname)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_file_read(fname, &bytes, &size);
        if (r != CUDA_SUCCESS)
                return r;
        r = load_bytes(context, bytes, size, NULL, module);
        free(bytes);
        return r;
}

void dcu_image_free_handles(struct dcu_image *image)
{
        for (struct dcu_entry *entry = image->entries; entry; entry = entry->hh.next) {
                if (entry->function)
                        dcu_object_free(&entry->function->head);
                if (entry->kernel)
                        dcu_object_free(&entry->kernel->head);
                entry->function = NULL;
                entry->kernel = NULL;
        }
}

void dcu_module_free(struct dcu_module *module, int in_daemon)
{
        struct dcu_image *image = module->image;

        dcu_image_free_handles(image);
        dcu_object_free(&module->head);
        dcu_image_free(image, in_daemon);
}

CUresult cuModuleUnload(CUmodule hmod)
{
        struct dcu_context *context;
        struct dcu_module *module;
        CUresult r = dcu_enter_any(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_capture_unsafe();
        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        module = dcu_object_of(hmod, DCU_MODULE);
        if (!module)
                r = CUDA_ERROR_INVALID_HANDLE;
        else if (module->library)
                r = CUDA_ERROR_NOT_PERMITTED;
        else
                dcu_module_free(module, 1);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

struct dcu_function *dcu_function_of_entry(
        struct dcu_entry *entry, struct dcu_module *module, struct dcu_library *library)
{
        struct dcu_function *function = entry->function;

        if (function)
                return function;
        function = dcu_object_new(DCU_FUNCTION, sizeof(*function), NULL);
        if (!function)
                return NULL;
        function->entry = entry;
        function->module = library ? NULL : module;
        function->library = library;
        entry->function = function;
        return function;
}

static CUresult function_handle(struct dcu_module *module, struct dcu_entry *entry, CUfunction *ret)
{
        struct dcu_function *function;

        pthread_mutex_lock(&dcu.lock);
        function = dcu_function_of_entry(entry, module, module->library);
        if (function)
                *ret = dcu_handle(function);
        pthread_mutex_unlock(&dcu.lock);
        return function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult enter_module(CUmodule hmod, struct dcu_module **ret)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        *ret = dcu_object_of(hmod, DCU_MODULE);
        return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
        struct dcu_module *module;
        struct dcu_entry *entry;
        CUresult r = enter_module(hmod, &module);

        if (r != CUDA_SUCCESS)
                return r;
        if (!hfunc || !name || !name[0])
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_image_entry(module->image, name, &entry);
        return r == CUDA_SUCCESS ? function_handle(module, entry, hfunc) : r;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
        struct dcu_module *module;
        uint64_t address, size;
        CUresult r = enter_module(hmod, &module);

        if (r != CUDA_SUCCESS)
                return r;
        if (!name || (!dptr && !bytes))
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_range_global(module->image, module->head.owner, name, &address, &size);
        if (r != CUDA_SUCCESS)
                return r;
        if (dptr)
                *dptr = address;
        if (bytes)
                *bytes = size;
        return CUDA_SUCCESS;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
        struct dcu_module *module;
        struct dcu_entry **entries;
        size_t n;
        CUresult r = enter_module(mod, &module);

        if (r != CUDA_SUCCESS)
                return r;
        if (!count)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_image_all_entries(module->image, &entries, &n);
        if (r != CUDA_SUCCESS)
                return r;
        free(entries);
        *count = (unsigned int)n;
        return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
        struct dcu_module *module;
        struct dcu_entry **entries;
        size_t n;
        CUresult r = enter_module(mod, &module);

        if (r != CUDA_SUCCESS)
                return r;
        if (!functions)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_image_all_entries(module->image, &entries, &n);
        if (r != CUDA_SUCCESS)
                return r;
        for (size_t i = 0; i < n && i < numFunctions && r == CUDA_SUCCESS; i++)
                r = function_handle(module, entries[i], &functions[i]);
        free(entries);
        return r;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!mode)
                return CUDA_ERROR_INVALID_VALUE;
        *mode = dcu.eager_loading ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
        return CUDA_SUCCESS;
}
