/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work of kernel nodes: a launch with copies of its parameters and attributes
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/graph.h"
#include "cuda/launch.h"

void dcu_work_kernel_clear(struct dcu_kernel_work *kernel)
{
        free(kernel->params);
        free(kernel->pointers);
        free(kernel->attributes);
        kernel->params = NULL;
        kernel->pointers = NULL;
        kernel->attributes = NULL;
}

/* Allocates memory for `bytes` of parameters and for n pointers to them. */
static CUresult make_room(struct dcu_kernel_work *kernel, uint32_t bytes, uint32_t n)
{
        kernel->params = malloc(bytes ? bytes : 1);
        kernel->pointers = calloc(n + 1, sizeof(void *));
        kernel->params_size = bytes;
        kernel->n_params = n;
        if (kernel->params && kernel->pointers)
                return CUDA_SUCCESS;
        dcu_work_kernel_clear(kernel);
        return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult copy_params(const struct dcu_launch *launch, const struct dcu_entry *entry, struct dcu_kernel_work *to)
{
        const struct dsc_kernel *info = &entry->info;
        CUresult r = make_room(to, info->params_size, info->n_params);

        if (r == CUDA_SUCCESS)
                r = dcu_launch_pack(launch, info, to->params);
        for (uint32_t i = 0; i < info->n_params && r == CUDA_SUCCESS; i++)
                to->pointers[i] = to->params + info->params[i].offset;
        return r;
}

CUresult dcu_work_kernel_attribute(
        struct dcu_kernel_work *kernel, CUlaunchAttributeID id, const CUlaunchAttributeValue *value)
{
        CUlaunchAttribute *more;
        uint32_t i = 0;

        while (i < kernel->n_attributes && kernel->attributes[i].id != id)
                i++;
        if (i == kernel->n_attributes) {
                more = realloc(kernel->attributes, (i + 1) * sizeof(*more));
                if (!more)
                        return CUDA_ERROR_OUT_OF_MEMORY;
                kernel->attributes = more;
                more[i] = (CUlaunchAttribute){.id = id};
                kernel->n_attributes++;
        }
        kernel->attributes[i].value = *value;
        return CUDA_SUCCESS;
}

/* 1: the node keeps this attribute. Events that a launch records are recorded in the capture, not by the node. */
static int is_kept(CUlaunchAttributeID id)
{
        return id != CU_LAUNCH_ATTRIBUTE_IGNORE && id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT &&
               id != CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
}

static CUresult copy_attributes(const CUlaunchAttribute *attributes, uint32_t n, struct dcu_kernel_work *to)
{
        CUresult r = CUDA_SUCCESS;

        for (uint32_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
                if (is_kept(attributes[i].id))
                        r = dcu_work_kernel_attribute(to, attributes[i].id, &attributes[i].value);
        }
        return r;
}

CUresult dcu_work_launch(const struct dcu_launch *launch, CUcontext context, struct dcu_work **ret)
{
        struct dcu_launch checked = *launch;
        struct dcu_context *owner;
        struct dcu_entry *entry;
        struct dcu_work *work;
        CUresult r = dcu_launch_check(&checked, &entry, &owner);

        if (r != CUDA_SUCCESS)
                return r;
        work = calloc(1, sizeof(*work));
        if (!work)
                return CUDA_ERROR_OUT_OF_MEMORY;
        work->type = CU_GRAPH_NODE_TYPE_KERNEL;
        work->context = owner ? dcu_handle(owner) : context;
        work->kernel.function = launch->function;
        work->kernel.shared_bytes = launch->shared_bytes;
        memcpy(work->kernel.grid, launch->grid, sizeof(launch->grid));
        memcpy(work->kernel.block, launch->block, sizeof(launch->block));
        r = copy_params(launch, entry, &work->kernel);
        if (r == CUDA_SUCCESS)
                r = copy_attributes(launch->attributes, launch->n_attributes, &work->kernel);
        if (r != CUDA_SUCCESS) {
                dcu_work_kernel_clear(&work->kernel);
                free(work);
                return r;
        }
        *ret = work;
        return CUDA_SUCCESS;
}

CUresult dcu_work_kernel(const CUDA_KERNEL_NODE_PARAMS *p, const struct dcu_work *old, struct dcu_work **ret)
{
        struct dcu_launch launch = {.attributes = NULL};
        struct dcu_context *context = NULL;
        CUresult r = CUDA_SUCCESS;

        if (!p)
                return CUDA_ERROR_INVALID_VALUE;
        r = !p->func && p->ctx ? dcu_context_check(p->ctx, &context) : dcu_enter(&context);
        if (r != CUDA_SUCCESS)
                return r;
        if (!p->func && !p->kern)
                return CUDA_ERROR_INVALID_VALUE;
        launch = (struct dcu_launch){p->func ? p->func : (CUfunction)p->kern, {p->gridDimX, p->gridDimY, p->gridDimZ},
                {p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes, NULL, p->kernelParams, p->extra, 0,
                {0, 0, 0}, {0, 0, 0}, NULL, 0};
        if (old) {
                launch.attributes = old->kernel.attributes;
                launch.n_attributes = old->kernel.n_attributes;
        }
        for (uint32_t i = 0; i < launch.n_attributes && r == CUDA_SUCCESS; i++)
                r = dcu_launch_attribute(&launch, &launch.attributes[i]);
        if (r == CUDA_SUCCESS)
                r = dcu_work_launch(&launch, dcu_handle(context), ret);
        if (r == CUDA_SUCCESS && !p->func) {
                (*ret)->kernel.function = NULL;
                (*ret)->kernel.kernel = p->kern;
        }
        return r;
}

CUresult dcu_work_kernel_clone(const struct dcu_kernel_work *from, struct dcu_kernel_work *to)
{
        CUresult r;

        *to = *from;
        to->attributes = NULL;
        to->n_attributes = 0;
        r = make_room(to, from->params_size, from->n_params);
        if (r != CUDA_SUCCESS)
                return r;
        memcpy(to->params, from->params, from->params_size);
        for (uint32_t i = 0; i < from->n_params; i++)
                to->pointers[i] = to->params + ((uint8_t *)from->pointers[i] - from->params);
        r = copy_attributes(from->attributes, from->n_attributes, to);
        if (r != CUDA_SUCCESS)
                dcu_work_kernel_clear(to);
        return r;
}

CUresult dcu_work_kernel_launch(const struct dcu_kernel_work *kernel, struct dcu_launch *ret)
{
        CUresult r = CUDA_SUCCESS;

        *ret = (struct dcu_launch){
                .function = kernel->function ? kernel->function : (CUfunction)kernel->kernel,
                .shared_bytes = kernel->shared_bytes,
                .params = kernel->pointers,
                .attributes = kernel->attributes,
                .n_attributes = kernel->n_attributes,
        };
        memcpy(ret->grid, kernel->grid, sizeof(ret->grid));
        memcpy(ret->block, kernel->block, sizeof(ret->block));
        for (uint32_t i = 0; i < kernel->n_attributes && r == CUDA_SUCCESS; i++)
                r = dcu_launch_attribute(ret, &kernel->attributes[i]);
        return r;
}
