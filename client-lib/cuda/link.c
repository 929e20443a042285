/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linker API
 *
 * Programs mostly link one input: PTX that they generated, to compile it before loading. That is supported: an input is
 * compiled when it is added, so that its errors appear where CUDA's do. The output is the input; the daemon caches its
 * machine code. Linking several images is refused when the second is added, with a message in the error log.
 *
 * A link state belongs to the context. Its output lives as long as the state. It is completed once: after that no input
 * and no further output. Completed without input it gives an empty module.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/code.h"
#include "cuda/file.h"
#include "cuda/image.h"
#include "cuda/jit.h"
#include "cuda/link.h"
#include "cuda/state.h"

static const char nothing[] = ".version 7.0\n.target sm_70\n.address_size 64\n";

struct dcu_link {
        struct dcu_object head;
        struct dcu_jit jit; /* options; the program must keep their arrays valid until it destroys the state */
        char *bytes;        /* the input, with a NUL after it */
        size_t size;
        unsigned int inputs;
        int complete; /* 1: completed */
};

static CUresult enter_link(CUlinkState state, struct dcu_link **ret)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        *ret = dcu_object_of(state, DCU_LINK);
        return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
        struct dcu_context *context;
        struct dcu_link *link;
        struct dcu_jit jit;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!stateOut)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_jit_begin(&jit, numOptions, options, optionValues);
        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        link = dcu_object_new(DCU_LINK, sizeof(*link), context);
        if (link) {
                link->jit = jit;
                *stateOut = dcu_handle(link);
        }
        pthread_mutex_unlock(&dcu.lock);
        return link ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Compiles the input in the daemon, which caches the machine code, and unloads the module again. */
static CUresult try_image(const struct dcu_link *link, const void *bytes, size_t size, struct dcu_jit *options)
{
        struct dcu_image *image = dcu_image_new(bytes, size, 0);
        struct dcu_jit jit = link->jit;
        CUresult r;

        if (!image)
                return CUDA_ERROR_OUT_OF_MEMORY;
        dcu_jit_tuning(options->count ? options : &jit, &image->max_registers, &image->optimization);
        r = dcu_image_load(image, &jit);
        dcu_image_free(image, 1);
        return r;
}

static CUresult refuse(struct dcu_link *link, const char *why)
{
        dcu_jit_finish(&link->jit, 0, why);
        return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult keep(struct dcu_link *link, const void *data, size_t size)
{
        link->bytes = malloc(size + 1);
        if (!link->bytes)
                return CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(link->bytes, data, size);
        link->bytes[size] = '\0';
        link->size = size;
        return CUDA_SUCCESS;
}

static CUresult add(struct dcu_link *link, CUjitInputType type, const void *data, size_t size, struct dcu_jit *options)
{
        CUresult r;

        if (type > CU_JIT_INPUT_OBJECT)
                return refuse(link, "this input is not supported: the linker accepts PTX, cubins and fatbins, not "
                                    "object libraries or NVVM code");
        if (link->inputs)
                return refuse(link, "linking several images into one is not supported: compile them as one");
        if (!dcu_image_plausible(data, size))
                return type == CU_JIT_INPUT_PTX ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_INVALID_IMAGE;
        /* the size that the program passes for PTX may include the final NUL */
        if (type == CU_JIT_INPUT_PTX)
                size = strnlen(data, size);
        r = try_image(link, data, size, options);
        if (r != CUDA_SUCCESS)
                return r;
        r = keep(link, data, size);
        link->inputs = r == CUDA_SUCCESS;
        return r;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
        unsigned int numOptions, CUjit_option *options, void **optionValues)
{
        struct dcu_link *link;
        struct dcu_jit jit;
        CUresult r = enter_link(state, &link);

        if (r != CUDA_SUCCESS)
                return r;
        if (!data || !size || (unsigned int)type >= CU_JIT_NUM_INPUT_TYPES || link->complete)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_jit_begin(&jit, numOptions, options, optionValues);
        return r == CUDA_SUCCESS ? add(link, type, data, size, &jit) : r;
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions,
        CUjit_option *options, void **optionValues)
{
        struct dcu_link *link;
        struct dcu_jit jit;
        void *bytes;
        size_t size;
        CUresult r = enter_link(state, &link);

        if (r != CUDA_SUCCESS)
                return r;
        if (!path || (unsigned int)type >= CU_JIT_NUM_INPUT_TYPES || link->complete)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_jit_begin(&jit, numOptions, options, optionValues);
        if (r == CUDA_SUCCESS)
                r = dcu_file_read(path, &bytes, &size);
        if (r != CUDA_SUCCESS)
                return r;
        r = add(link, type, bytes, size, &jit);
        free(bytes);
        return r;
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
        struct dcu_link *link;
        CUresult r = enter_link(state, &link);

        if (r != CUDA_SUCCESS)
                return r;
        if (!cubinOut)
                return CUDA_ERROR_INVALID_VALUE;
        if (link->complete)
                return CUDA_ERROR_INVALID_HANDLE;
        r = link->bytes ? CUDA_SUCCESS : keep(link, nothing, strlen(nothing));
        if (r != CUDA_SUCCESS)
                return r;
        link->complete = 1;
        *cubinOut = link->bytes;
        if (sizeOut)
                *sizeOut = link->size;
        return CUDA_SUCCESS;
}

/* First ABI version of cuLinkCreate, with the same arguments. */
CUresult cuLinkCreate(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
        return cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
        unsigned int numOptions, CUjit_option *options, void **optionValues)
{
        return cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions,
        CUjit_option *options, void **optionValues)
{
        return cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}

void dcu_link_free(struct dcu_link *link)
{
        free(link->bytes);
        dcu_object_free(&link->head);
}

CUresult cuLinkDestroy(CUlinkState state)
{
        struct dcu_link *link;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        link = dcu_object_of(state, DCU_LINK);
        if (link)
                dcu_link_free(link);
        pthread_mutex_unlock(&dcu.lock);
        return link ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
