/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of modules: the driver's information about them, and the attributes set before their first launch
 *
 * module.c decides when kernels are loaded.
 */
#include <string.h>

#include "device/cuda/module.h"

#define PARAMS_MAX 4096 /* most parameters of a kernel: no more than the bytes of its parameter block */

static CUresult code_params(ds_device *device, struct cuda_code *code)
{
        struct ds_kernel_param params[PARAMS_MAX], *copy;
        CUresult result = CUDA_SUCCESS;
        size_t offset, size;
        uint32_t n;

        for (n = 0; n < PARAMS_MAX; n++) {
                result = CU(device, cuKernelGetParamInfo)(code->kernel, n, &offset, &size);
                if (result)
                        break;
                params[n] = (struct ds_kernel_param){.offset = (uint32_t)offset, .size = (uint32_t)size};
                code->info.params_size = DS_MAX(code->info.params_size, (uint32_t)(offset + size));
        }
        if (result != CUDA_ERROR_INVALID_VALUE) /* INVALID_VALUE is the driver's answer past the last parameter */
                return result ? result : CUDA_ERROR_INVALID_IMAGE;
        copy = ds_alloc0(n, sizeof(*copy));
        if (!copy)
                return CUDA_ERROR_OUT_OF_MEMORY;
        /* parameters left by an earlier attempt that failed after this step */
        ds_free((void *)(uintptr_t)code->info.params);
        memcpy(copy, params, n * sizeof(*copy));
        code->info.params = copy;
        code->info.n_params = n;
        return CUDA_SUCCESS;
}

static CUresult code_attributes(ds_device *device, struct cuda_code *code)
{
        struct ds_kernel_info *info = &code->info;
        const struct {
                CUfunction_attribute attribute;
                uint32_t *ret;
        } wanted[] = {
                {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &info->max_threads},
                {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &info->static_shared},
                {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, &info->const_bytes},
                {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &info->local_bytes},
                {CU_FUNC_ATTRIBUTE_NUM_REGS, &info->registers},
                {CU_FUNC_ATTRIBUTE_PTX_VERSION, &info->ptx_version},
                {CU_FUNC_ATTRIBUTE_BINARY_VERSION, &info->binary_version},
                {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, &info->cluster[0]},
                {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, &info->cluster[1]},
                {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, &info->cluster[2]},
                {CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, &info->cluster_explicit},
        };
        CUresult result;
        int value;

        for (size_t i = 0; i < DS_ARRAY_SIZE(wanted); i++) {
                result = CU(device, cuKernelGetAttribute)(&value, wanted[i].attribute, code->kernel, device->ordinal);
                if (result)
                        return result;
                *wanted[i].ret = (uint32_t)DS_MAX(value, 0);
        }
        return CUDA_SUCCESS;
}

/* --- properties of the machine code --- */

/* Reads the kernel's properties from its machine code; a kernel whose code cannot be read counts as having all of
 * them. */
static CUresult code_scan(ds_sass *sass, struct cuda_code *code)
{
        struct ds_sass_kernel facts = {.waits = 1, .sees_shared = 1};

        if (sass && ds_sass_kernel(sass, code->info.name, &facts) < 0)
                return CUDA_ERROR_OUT_OF_MEMORY;
        code->info.waits = facts.waits;
        code->info.sees_shared = facts.sees_shared;
        code->scanned = 1;
        return CUDA_SUCCESS;
}

CUresult cuda_codes_scan(struct cuda_image *image, const void *bytes)
{
        ds_cleanup(ds_sass_freep) ds_sass *sass = NULL;
        CUresult result = CUDA_SUCCESS;

        if (ds_sass_open(bytes, image->size, &sass) < 0)
                return CUDA_ERROR_OUT_OF_MEMORY;
        for (size_t i = 0; i < image->n_codes && !result; i++)
                result = code_scan(sass, &image->codes[i]);
        return result;
}

/* Scans the machine code of one kernel when that kernel is loaded. Libraries have thousands of kernels, and programs
 * use few. */
static CUresult code_scan_kept(struct cuda_image *image, struct cuda_code *code)
{
        if (code->scanned)
                return CUDA_SUCCESS;
        if (!image->sass && image->bytes && ds_sass_open(image->bytes, image->size, &image->sass) < 0)
                return CUDA_ERROR_OUT_OF_MEMORY;
        return code_scan(image->sass, code);
}

/* Does everything that the kernel's first launch needs, so that the launch stops nothing. */
CUresult cuda_code_fill(ds_device *device, struct cuda_image *image, struct cuda_code *code)
{
        int shared = device->info.attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN];
        CUfunction function = NULL;
        CUresult result;

        code->info.prints = image->cubin.prints || image->cubin.asserts;
        result = code_scan_kept(image, code);
        if (!result)
                result = code_attributes(device, code);
        if (!result)
                result = code_params(device, code);
        if (!result)
                result = CU(device, cuKernelGetFunction)(&function, code->kernel);
        device->n_stirs += function != NULL;
        if (!result && shared > (int)code->info.static_shared)
                result = CU(device, cuFuncSetAttribute)(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                        shared - (int)code->info.static_shared);
        /* sets the attribute for clusters above 8 blocks on every kernel: the client library decides which kernels
         * may use it */
        if (!result && device->info.attributes[CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH])
                result = CU(device, cuFuncSetAttribute)(
                        function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
        if (!result)
                code->function = function;
        return result;
}

CUkernel cuda_kernel_handle(const ds_device_kernel *kernel)
{
        return kernel->code->kernel;
}

CUfunction cuda_kernel_function(const ds_device_kernel *kernel)
{
        return kernel->code->function;
}

uint32_t cuda_kernel_blocks_per_sm(
        ds_device *device, const ds_device_kernel *kernel, uint32_t threads, uint32_t shared_bytes)
{
        struct cuda_code *code = kernel->code;
        CUresult result;
        int n = 0;

        if (code->fits && code->fits_threads == threads && code->fits_shared == shared_bytes)
                return code->fits;
        result =
                CU(device, cuOccupancyMaxActiveBlocksPerMultiprocessor)(&n, code->function, (int)threads, shared_bytes);
        if (result)
                (void)ds_cuda_failed(device, result, "querying how many blocks fit on an SM");
        code->fits_threads = threads;
        code->fits_shared = shared_bytes;
        code->fits = n > 0 ? (uint32_t)n : 1;
        return code->fits;
}

uint32_t cuda_kernel_space(const ds_device_kernel *kernel)
{
        return kernel->module->space;
}

int cuda_kernel_prints(const ds_device_kernel *kernel)
{
        return kernel->module->image->cubin.prints != 0;
}

int cuda_kernel_asserts(const ds_device_kernel *kernel)
{
        return kernel->module->image->cubin.asserts != 0;
}
