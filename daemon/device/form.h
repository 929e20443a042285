/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of other forms of a kernel (ptx/pass/forms.h): what both devices check and put together alike
 *
 * A form's entry has the native parameters and behind them a struct ds_ptx_virtual. Who launches gives the native ones;
 * what stands behind them the device fills in, and nobody else: it says which memory a kernel counts its blocks in.
 */
#pragma once

#include <string.h>

#include "device/device.h"
#include "util/macro.h"

#define DS_FORM_GRID_X_MAX 2147483647u
#define DS_FORM_GRID_YZ_MAX 65535u
#define DS_FORM_BLOCKS_MAX 2147483647u
/* Each worker counts one chunk that is not there before it leaves: with these the counter stays below 2^32. */
#define DS_FORM_WORKERS_MAX 65536u
#define DS_FORM_CHUNK_MAX 32768u

/* Where the native parameters end in the form's block. */
static inline uint32_t ds_device_form_native_size(const struct ds_kernel_info *kernel)
{
        const struct ds_kernel_param *last = kernel->n_params > 1 ? &kernel->params[kernel->n_params - 2] : NULL;

        return last ? last->offset + last->size : 0;
}

/* The kernel is such a form's entry, as far as its parameters show. */
static inline int ds_device_form_entry(const struct ds_kernel_info *kernel)
{
        const struct ds_kernel_param *last = kernel->n_params ? &kernel->params[kernel->n_params - 1] : NULL;

        return last && last->size == sizeof(struct ds_ptx_virtual) && last->offset % 8 == 0 &&
               last->offset + last->size <= kernel->params_size;
}

/*
 * What of a launch concerns its form, which is not the native one: 0 with the blocks of its grid, or
 * DS_CUDA_INVALID_VALUE. Blocks, shared memory and what the rung takes are not looked at.
 */
static inline int ds_device_form_check(
        const struct ds_kernel_info *kernel, const struct ds_launch *launch, uint32_t *ret_blocks)
{
        const uint32_t *grid = launch->grid;
        uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];

        if (!grid[0] || !grid[1] || !grid[2] || grid[0] > DS_FORM_GRID_X_MAX || grid[1] > DS_FORM_GRID_YZ_MAX ||
                grid[2] > DS_FORM_GRID_YZ_MAX || blocks > DS_FORM_BLOCKS_MAX)
                return DS_CUDA_INVALID_VALUE;
        if (launch->cooperative || launch->cluster[0] || launch->cluster[1] || launch->cluster[2] ||
                kernel->cluster[0] || kernel->cluster_explicit || kernel->blocks_are_clusters)
                return DS_CUDA_INVALID_VALUE;
        if (!ds_device_form_entry(kernel) || launch->params_size < ds_device_form_native_size(kernel) ||
                (launch->params_size && !launch->params))
                return DS_CUDA_INVALID_VALUE;
        *ret_blocks = (uint32_t)blocks;
        if (launch->form == DS_PTX_FORM_PERSISTENT)
                return 0;
        if (launch->form != DS_PTX_FORM_SLICED || launch->resumes || !launch->n_blocks || launch->first >= blocks ||
                launch->n_blocks > blocks - launch->first)
                return DS_CUDA_INVALID_VALUE;
        return 0;
}

/* The form's block of parameters, kernel->params_size bytes. The launch was checked. */
static inline void ds_device_form_params(const struct ds_kernel_info *kernel, const struct ds_launch *launch,
        const struct ds_ptx_virtual *virtual, uint8_t *ret)
{
        uint32_t native = ds_device_form_native_size(kernel);

        memset(ret, 0, kernel->params_size);
        if (native)
                memcpy(ret, launch->params, native);
        memcpy(ret + kernel->params[kernel->n_params - 1].offset, virtual, sizeof(*virtual));
}

/* What the form is told of the launch; control and epoch are the device's, persistent only. */
static inline struct ds_ptx_virtual ds_device_form_virtual(const struct ds_launch *launch, uint32_t blocks)
{
        return (struct ds_ptx_virtual){
                .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                .n_blocks = blocks,
                .first = launch->form == DS_PTX_FORM_SLICED ? launch->first : 0,
                .chunk = DS_MAX(DS_MIN(launch->chunk, DS_FORM_CHUNK_MAX), 1u),
        };
}
