/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of other forms of a kernel (ptx/pass/forms.h): checks and parameters that both devices share
 *
 * A form's entry has the native parameters, followed by a struct ds_ptx_virtual. The caller supplies the native ones.
 * Only the device fills in the rest, because it contains the address of the memory in which a kernel counts its blocks.
 */
#pragma once

#include <string.h>

#include "device/device.h"
#include "util/macro.h"

#define DS_FORM_GRID_X_MAX 2147483647u
#define DS_FORM_GRID_YZ_MAX 65535u
#define DS_FORM_BLOCKS_MAX 2147483647u
/* Each worker of the persistent form adds one chunk too many to the block counter before it exits; these limits keep
 * the counter below 2^32. */
#define DS_FORM_WORKERS_MAX 65536u
#define DS_FORM_CHUNK_MAX 32768u

/* Size of the native parameters in the form's parameter block, bytes. */
static inline uint32_t ds_device_form_native_size(const struct ds_kernel_info *kernel)
{
        const struct ds_kernel_param *last = kernel->n_params > 1 ? &kernel->params[kernel->n_params - 2] : NULL;

        return last ? last->offset + last->size : 0;
}

/* Whether the kernel is the entry of a sliced or persistent form, judged by its last parameter (struct
 * ds_ptx_virtual). */
static inline int ds_device_form_entry(const struct ds_kernel_info *kernel)
{
        const struct ds_kernel_param *last = kernel->n_params ? &kernel->params[kernel->n_params - 1] : NULL;

        return last && last->size == sizeof(struct ds_ptx_virtual) && last->offset % 8 == 0 &&
               last->offset + last->size <= kernel->params_size;
}

/*
 * Checks the form's fields of a launch in a form other than native. Returns 0 with the number of blocks of its grid, or
 * DS_CUDA_INVALID_VALUE. Block size, shared memory and limits of the rung are not checked.
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

/* Fills in the form's parameter block of kernel->params_size bytes. The launch must be checked. */
static inline void ds_device_form_params(const struct ds_kernel_info *kernel, const struct ds_launch *launch,
        const struct ds_ptx_virtual *virtual, uint8_t *ret)
{
        uint32_t native = ds_device_form_native_size(kernel);

        memset(ret, 0, kernel->params_size);
        if (native)
                memcpy(ret, launch->params, native);
        memcpy(ret + kernel->params[kernel->n_params - 1].offset, virtual, sizeof(*virtual));
}

/* The parameters that the form has beyond the native ones. For the persistent form the device then sets `control`
 * and `epoch`. */
static inline struct ds_ptx_virtual ds_device_form_virtual(const struct ds_launch *launch, uint32_t blocks)
{
        return (struct ds_ptx_virtual){
                .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                .n_blocks = blocks,
                .first = launch->form == DS_PTX_FORM_SLICED ? launch->first : 0,
                .chunk = DS_MAX(DS_MIN(launch->chunk, DS_FORM_CHUNK_MAX), 1u),
        };
}
