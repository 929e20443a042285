/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions and kernels: attributes, names, parameters
 *
 * Calls on functions accept both kinds of handle: the runtime passes a CUkernel where the prototype says CUfunction.
 */
#include <stdlib.h>

#include "cuda/module.h"

static CUresult get_attribute(const struct dcu_entry *entry, CUfunction_attribute attrib, int *ret)
{
        const struct dsc_kernel *k = &entry->info;

        switch (attrib) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
                *ret = (int)k->max_threads;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
                *ret = (int)k->static_shared;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
                *ret = (int)k->const_bytes;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
                *ret = (int)k->local_bytes;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_NUM_REGS:
                *ret = (int)k->registers;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION:
                *ret = (int)k->ptx_version;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
                *ret = (int)k->binary_version;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
                *ret = atomic_load(&entry->max_dynamic_shared);
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
                *ret = entry->carveout;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
                *ret = entry->non_portable_cluster;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
                *ret = entry->cluster_policy;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
                *ret = k->cluster_explicit || k->cluster[0];
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
                *ret = k->cluster[0] ? (int)k->cluster[attrib - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH]
                                     : entry->cluster[attrib - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
                *ret = 0;
                return CUDA_SUCCESS;
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

static CUresult set_max_dynamic_shared(struct dcu_entry *entry, int value)
{
        int optin = dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);

        if (value < 0 || (int64_t)value + entry->info.static_shared > optin)
                return CUDA_ERROR_INVALID_VALUE;
        atomic_store(&entry->max_dynamic_shared, value);
        return CUDA_SUCCESS;
}

/* Sets one dimension of the required cluster size. A size that the code requires cannot be changed; other sizes are
 * checked at the launch. */
static CUresult set_cluster(struct dcu_entry *entry, unsigned int dimension, int value)
{
        if (value < 0 || (entry->info.cluster[0] && value != (int)entry->info.cluster[dimension]))
                return CUDA_ERROR_INVALID_VALUE;
        if (!entry->info.cluster[0])
                entry->cluster[dimension] = value;
        return CUDA_SUCCESS;
}

static CUresult set_attribute(struct dcu_entry *entry, CUfunction_attribute attrib, int value)
{
        switch (attrib) {
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
                return set_max_dynamic_shared(entry, value);
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
                if (value < CU_SHAREDMEM_CARVEOUT_DEFAULT || value > CU_SHAREDMEM_CARVEOUT_MAX_SHARED)
                        return CUDA_ERROR_INVALID_VALUE;
                entry->carveout = value;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
                entry->non_portable_cluster = value != 0;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
                if (value < CU_CLUSTER_SCHEDULING_POLICY_DEFAULT || value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
                        return CUDA_ERROR_INVALID_VALUE;
                entry->cluster_policy = value;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
                return set_cluster(entry, attrib - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, value);
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

static CUresult enter_function(CUfunction handle, struct dcu_entry **ret)
{
        struct dcu_context *context, *owner;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        *ret = dcu_entry_of(handle, &owner);
        return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult enter_kernel(CUkernel handle, struct dcu_kernel **ret)
{
        CUresult r = dcu_enter_process();

        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_sticky_error(dcu.session));
        if (r != CUDA_SUCCESS)
                return r;
        *ret = dcu_object_of(handle, DCU_KERNEL);
        return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
        struct dcu_entry *entry;
        CUresult r = enter_function(hfunc, &entry);

        if (r != CUDA_SUCCESS)
                return r;
        return pi ? get_attribute(entry, attrib, pi) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
        struct dcu_entry *entry;
        CUresult r = enter_function(hfunc, &entry);

        return r == CUDA_SUCCESS ? set_attribute(entry, attrib, value) : r;
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
        struct dcu_entry *entry;
        CUresult r = enter_function(hfunc, &entry);

        if (r != CUDA_SUCCESS)
                return r;
        return (unsigned int)config <= CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
        struct dcu_entry *entry;
        CUresult r = enter_function(hfunc, &entry);

        if (r != CUDA_SUCCESS)
                return r;
        return (unsigned int)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_SUCCESS
                                                                                 : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
        const struct dcu_function *function;
        struct dcu_module *module;
        struct dcu_entry *entry;
        CUresult r = enter_function(hfunc, &entry);

        if (r != CUDA_SUCCESS)
                return r;
        if (!hmod)
                return CUDA_ERROR_INVALID_VALUE;
        function = dcu_object_of(hfunc, DCU_FUNCTION);
        if (!function)
                return CUDA_ERROR_INVALID_HANDLE;
        pthread_mutex_lock(&dcu.lock);
        module = function->library ? dcu_library_module(function->library) : function->module;
        if (module)
                *hmod = dcu_handle(module);
        pthread_mutex_unlock(&dcu.lock);
        return module ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Returns CUDA_ERROR_INVALID_VALUE for a NULL name or function; other calls return an invalid handle for a NULL
 * function. */
CUresult cuFuncGetName(const char **name, CUfunction hfunc)
{
        struct dcu_entry *entry;
        CUresult r;

        if (!name || !hfunc) {
                r = dcu_enter_process();
                return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : r;
        }
        r = enter_function(hfunc, &entry);
        if (r == CUDA_SUCCESS)
                *name = entry->info.name;
        return r;
}

static CUresult param_info(const struct dcu_entry *entry, size_t index, size_t *offset, size_t *size)
{
        if (!offset || index >= entry->info.n_params)
                return CUDA_ERROR_INVALID_VALUE;
        *offset = entry->info.params[index].offset;
        if (size)
                *size = entry->info.params[index].size;
        return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
        struct dcu_entry *entry;
        CUresult r = enter_function(func, &entry);

        return r == CUDA_SUCCESS ? param_info(entry, paramIndex, paramOffset, paramSize) : r;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
        struct dcu_entry *entry;
        CUresult r = enter_function(function, &entry);

        if (r != CUDA_SUCCESS)
                return r;
        if (!state)
                return CUDA_ERROR_INVALID_VALUE;
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
        return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function)
{
        struct dcu_entry *entry;

        return enter_function(function, &entry);
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
        struct dcu_context *context;
        struct dcu_function *function;
        struct dcu_kernel *object;
        CUresult r;

        if (!pFunc)
                return dcu_enter_process() == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_INITIALIZED;
        r = dcu_enter(&context);
        if (r == CUDA_SUCCESS)
                r = enter_kernel(kernel, &object);
        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        function = dcu_function_of_entry(object->entry, NULL, object->library);
        if (function)
                *pFunc = dcu_handle(function);
        pthread_mutex_unlock(&dcu.lock);
        return function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
        struct dcu_kernel *object;
        CUresult r = enter_kernel(kernel, &object);

        if (r == CUDA_SUCCESS)
                r = dcu_check_device(dev);
        if (r != CUDA_SUCCESS)
                return r;
        return pi ? get_attribute(object->entry, attrib, pi) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
        struct dcu_kernel *object;
        CUresult r = enter_kernel(kernel, &object);

        if (r == CUDA_SUCCESS)
                r = dcu_check_device(dev);
        return r == CUDA_SUCCESS ? set_attribute(object->entry, attrib, val) : r;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
        struct dcu_kernel *object;
        CUresult r = enter_kernel(kernel, &object);

        if (r == CUDA_SUCCESS)
                r = dcu_check_device(dev);
        if (r != CUDA_SUCCESS)
                return r;
        return (unsigned int)config <= CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc)
{
        struct dcu_kernel *object;
        CUresult r = enter_kernel(hfunc, &object);

        if (r != CUDA_SUCCESS)
                return r;
        if (!name)
                return CUDA_ERROR_INVALID_VALUE;
        *name = object->entry->info.name;
        return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
        struct dcu_kernel *object;
        CUresult r = enter_kernel(kernel, &object);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pLib)
                return CUDA_ERROR_INVALID_VALUE;
        *pLib = dcu_handle(object->library);
        return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
        struct dcu_context *context;
        struct dcu_kernel *object;
        CUresult r = dcu_enter(&context);

        if (r == CUDA_SUCCESS)
                r = enter_kernel(kernel, &object);
        return r == CUDA_SUCCESS ? param_info(object->entry, paramIndex, paramOffset, paramSize) : r;
}
