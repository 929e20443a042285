/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linker API
 *
 * Each input is checked when it is added, so that its errors appear where CUDA's do: PTX is compiled, of machine code
 * and objects the headers are read. cuLinkComplete sends all inputs to the daemon, which links and caches them.
 *
 * One PTX text that needs no other input is compiled as a module, and is the output itself. The output is PTX if all
 * inputs have PTX, else a cubin; both load with cuModuleLoadData.
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
#include "proto/wire.h"

static const char nothing[] = ".version 7.0\n.target sm_70\n.address_size 64\n";

struct dcu_link {
        struct dcu_object head;
        struct dcu_jit jit; /* options; the program must keep their arrays valid until it destroys the state */
        struct dsc_link_input *inputs; /* their bytes and names are malloc'ed; the bytes have a NUL behind them */
        size_t n_inputs;
        uint32_t max_registers, optimization; /* options of the compiler for the output, as in struct dsc_load */
        char *output;
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
                dcu_jit_tuning(&jit, &link->max_registers, &link->optimization);
                *stateOut = dcu_handle(link);
        }
        pthread_mutex_unlock(&dcu.lock);
        return link ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */

static const uint32_t kinds[CU_JIT_NUM_INPUT_TYPES] = {
        [CU_JIT_INPUT_CUBIN] = DS_LINK_CUBIN,
        [CU_JIT_INPUT_PTX] = DS_LINK_PTX,
        [CU_JIT_INPUT_FATBINARY] = DS_LINK_FATBIN,
        [CU_JIT_INPUT_OBJECT] = DS_LINK_OBJECT,
        [CU_JIT_INPUT_LIBRARY] = DS_LINK_LIBRARY,
        [CU_JIT_INPUT_NVVM] = DS_LINK_LTO,
};

/* Whether PTX may need names of other inputs. */
static int has_extern(const char *text, size_t size)
{
        static const char word[] = ".extern";

        return memmem(text, size, word, strlen(word)) != NULL;
}

static int stands_alone(const struct dsc_link_input *input)
{
        return input->kind == DS_LINK_PTX && !has_extern(input->bytes, input->size);
}

static CUresult check_kind(const struct dsc_link_input *input)
{
        static const char archive[] = "!<arch>\n", elf[] = "\177ELF";

        switch (input->kind) {
        case DS_LINK_PTX:
                return dcu_image_plausible(input->bytes, input->size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
        case DS_LINK_LIBRARY:
                return input->size >= strlen(archive) && memcmp(input->bytes, archive, strlen(archive)) == 0
                               ? CUDA_SUCCESS
                               : CUDA_ERROR_INVALID_IMAGE;
        case DS_LINK_OBJECT:
                return input->size >= strlen(elf) && memcmp(input->bytes, elf, strlen(elf)) == 0
                               ? CUDA_SUCCESS
                               : CUDA_ERROR_INVALID_IMAGE;
        case DS_LINK_LTO:
                return CUDA_SUCCESS;
        default:
                return dcu_image_plausible(input->bytes, input->size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
        }
}

/* Compiles PTX in the daemon, which caches the machine code, and unloads the module again. */
static CUresult try_image(
        const struct dcu_link *link, const void *bytes, size_t size, uint32_t max_registers, uint32_t optimization)
{
        struct dcu_image *image = dcu_image_new(bytes, size, 0);
        struct dcu_jit jit = link->jit;
        CUresult r;

        if (!image)
                return CUDA_ERROR_OUT_OF_MEMORY;
        image->max_registers = max_registers;
        image->optimization = optimization;
        r = dcu_image_load(image, &jit);
        dcu_image_free(image, 1);
        return r;
}

static struct dsc_link request_of(
        const struct dcu_jit *options, const struct dsc_link_input *inputs, size_t n_inputs, char *log)
{
        struct dsc_link request = {.inputs = inputs,
                .n_inputs = n_inputs,
                .flags = dcu_jit_link_flags(options),
                .log = log,
                .log_size = log ? DCU_JIT_LOG_BYTES : 0};

        dcu_jit_tuning(options, &request.max_registers, &request.optimization);
        return request;
}

/* Checks an input that needs other inputs, or is no PTX. Libraries and LTO code are read when the link completes. */
static CUresult check_input(
        const struct dcu_link *link, const struct dsc_link_input *input, const struct dcu_jit *options)
{
        struct dcu_jit jit = link->jit;
        struct dsc_link request;
        char *log;
        int r;

        if (input->kind == DS_LINK_LIBRARY || input->kind == DS_LINK_LTO)
                return CUDA_SUCCESS;
        log = calloc(1, DCU_JIT_LOG_BYTES);
        request = request_of(options->count ? options : &jit, input, 1, log);
        r = dsc_link_check(dcu.session, &request);
        dcu_jit_finish(&jit, r == 0, log);
        free(log);
        return dcu_result(r);
}

/* Copies the input into the state. */
static CUresult keep(struct dcu_link *link, const struct dsc_link_input *input)
{
        struct dsc_link_input *inputs = realloc(link->inputs, (link->n_inputs + 1) * sizeof(*inputs));
        char *bytes = malloc(input->size + 1), *name = strdup(input->name);

        if (inputs)
                link->inputs = inputs;
        if (!inputs || !bytes || !name) {
                free(bytes);
                free(name);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        memcpy(bytes, input->bytes, input->size);
        bytes[input->size] = '\0';
        inputs[link->n_inputs++] =
                (struct dsc_link_input){.bytes = bytes, .size = input->size, .kind = input->kind, .name = name};
        return CUDA_SUCCESS;
}

static CUresult add(struct dcu_link *link, CUjitInputType type, const void *data, size_t size, const char *name,
        const struct dcu_jit *options)
{
        struct dsc_link_input input = {.bytes = data, .size = size, .kind = kinds[type], .name = name ? name : ""};
        uint32_t max_registers, optimization;
        CUresult r = check_kind(&input);

        if (r != CUDA_SUCCESS)
                return r;
        /* the size that the program passes for PTX may include the final NUL */
        if (type == CU_JIT_INPUT_PTX)
                input.size = strnlen(data, size);
        dcu_jit_tuning(options->count ? options : &link->jit, &max_registers, &optimization);
        r = stands_alone(&input) ? try_image(link, data, input.size, max_registers, optimization)
                                 : check_input(link, &input, options);
        if (r == CUDA_SUCCESS)
                r = keep(link, &input);
        /* the output of the only input is compiled with the options of that input */
        if (r == CUDA_SUCCESS && link->n_inputs == 1) {
                link->max_registers = max_registers;
                link->optimization = optimization;
        } else if (r == CUDA_SUCCESS) {
                dcu_jit_tuning(&link->jit, &link->max_registers, &link->optimization);
        }
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
        return r == CUDA_SUCCESS ? add(link, type, data, size, name, &jit) : r;
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
        r = add(link, type, bytes, size, path, &jit);
        free(bytes);
        return r;
}

/* --- output ------------------------------------------------------------------------------------------------------- */

/* Whether the linked image is text: it is compiled once more, as the module that it is. */
static int is_text(const char *image, size_t size)
{
        return strnlen(image, size) == size;
}

/* Makes the output: the image, behind a note of the compiler's options if it is text. */
static CUresult put_output(struct dcu_link *link, const char *image, size_t *size)
{
        char note[DCU_JIT_NOTE_BYTES] = "";
        const size_t length =
                is_text(image, *size) ? dcu_jit_note_write(link->max_registers, link->optimization, note) : 0;

        link->output = malloc(length + *size + 1);
        if (!link->output)
                return CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(link->output, note, length);
        memcpy(link->output + length, image, *size);
        *size += length;
        link->output[*size] = '\0';
        return CUDA_SUCCESS;
}

static CUresult link_all(struct dcu_link *link, size_t *ret_size)
{
        char *log = calloc(1, DCU_JIT_LOG_BYTES);
        const struct dsc_link request = request_of(&link->jit, link->inputs, link->n_inputs, log);
        struct dcu_jit jit = link->jit;
        void *image;
        CUresult r = dcu_result(dsc_link(dcu.session, &request, &image, ret_size));

        dcu_jit_finish(&jit, r == CUDA_SUCCESS, log);
        free(log);
        if (r != CUDA_SUCCESS)
                return r;
        r = put_output(link, image, ret_size);
        free(image);
        if (r == CUDA_SUCCESS && is_text(link->output, *ret_size))
                r = try_image(link, link->output, *ret_size, link->max_registers, link->optimization);
        return r;
}

static CUresult make_output(struct dcu_link *link, size_t *ret_size)
{
        const struct dsc_link_input *only = link->n_inputs == 1 ? &link->inputs[0] : NULL;

        if (link->n_inputs && !(only && stands_alone(only)))
                return link_all(link, ret_size);
        *ret_size = only ? only->size : strlen(nothing);
        return put_output(link, only ? only->bytes : nothing, ret_size);
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
        struct dcu_link *link;
        size_t size = 0;
        CUresult r = enter_link(state, &link);

        if (r != CUDA_SUCCESS)
                return r;
        if (!cubinOut)
                return CUDA_ERROR_INVALID_VALUE;
        if (link->complete)
                return CUDA_ERROR_INVALID_HANDLE;
        r = make_output(link, &size);
        if (r != CUDA_SUCCESS) {
                free(link->output);
                link->output = NULL;
                return r;
        }
        link->complete = 1;
        *cubinOut = link->output;
        /* programs copy `size` bytes and load the copy, so the NUL behind a text counts */
        if (sizeOut)
                *sizeOut = size + (size_t)is_text(link->output, size);
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
        for (size_t i = 0; i < link->n_inputs; i++) {
                free((void *)(uintptr_t)link->inputs[i].bytes);
                free((void *)(uintptr_t)link->inputs[i].name);
        }
        free(link->inputs);
        free(link->output);
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
