/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input of detshare-serve: the manifest of a model pack, or arrivals if the first byte is a digit or a bracket
 *
 * A refused input causes one line that names the file. For an accepted one this target verifies the guarantees of
 * serve/pack.h by another method.
 */
#include <ctype.h>

#include "serve/arrivals.h"
#include "serve/pack.h"
#include "tests/fuzz/fuzz.h"
#include "util/alloc.h"

static void check_reason(const struct sv_why *why)
{
        FUZZ_CHECK(!strncmp(why->text, "fuzz.txt", strlen("fuzz.txt")));
        FUZZ_CHECK(strlen(why->text) < sizeof(why->text) && !strchr(why->text, '\n'));
}

static void check_tensors(const struct sv_pack *pack, const struct sv_tensor *list, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++) {
                uint64_t elements = 1;

                FUZZ_CHECK(list[i].n_dims >= 1 && list[i].n_dims <= SV_DIMS_MAX);
                for (uint32_t k = 0; k < list[i].n_dims; k++)
                        elements *= list[i].dims[k];
                FUZZ_CHECK(elements == list[i].n && elements * sv_type_bytes(list[i].type) == list[i].bytes);
                FUZZ_CHECK(list[i].bytes && list[i].offset % SV_ALIGN == 0);
                FUZZ_CHECK(list[i].offset < pack->arena && list[i].bytes <= pack->arena - list[i].offset);
        }
}

static void check_launch(const struct sv_pack *pack, const struct sv_launch *launch)
{
        const uint64_t weights = pack->files[pack->weights].bytes;

        FUZZ_CHECK(launch->kernel < pack->n_kernels);
        FUZZ_CHECK(launch->grid[0] && launch->grid[1] && launch->grid[2]);
        FUZZ_CHECK(launch->first_param + pack->kernels[launch->kernel].n_params <= pack->n_params);
        for (uint32_t i = 0; i < pack->kernels[launch->kernel].n_params; i++) {
                const struct sv_param *param = &pack->params[launch->first_param + i];

                FUZZ_CHECK(param->kind != SV_PARAM_ARENA || param->value < pack->arena);
                FUZZ_CHECK(param->kind != SV_PARAM_WEIGHTS || param->value < weights);
        }
}

static void check_buffers(const struct sv_pack *pack)
{
        for (uint32_t i = 0; i < pack->n_buffers && i < 256; i++) {
                const struct sv_buffer *a = &pack->buffers[i];

                FUZZ_CHECK(a->first <= a->last && a->last < pack->n_launches);
                FUZZ_CHECK(a->bytes && a->offset < pack->arena && a->bytes <= pack->arena - a->offset);
                for (uint32_t k = 0; k < i; k++) {
                        const struct sv_buffer *b = &pack->buffers[k];

                        FUZZ_CHECK(a->offset >= b->offset + b->bytes || b->offset >= a->offset + a->bytes ||
                                   a->first > b->last || b->first > a->last);
                }
        }
}

static void check_cases(const struct sv_pack *pack)
{
        for (uint32_t i = 0; i < pack->n_cases; i++) {
                for (uint32_t k = 0; k < pack->n_inputs; k++)
                        FUZZ_CHECK(pack->files[pack->cases[i].input[k]].bytes == pack->inputs[k].bytes);
                for (uint32_t k = 0; k < pack->n_outputs; k++) {
                        FUZZ_CHECK(pack->files[pack->cases[i].output[k]].bytes == pack->outputs[k].n * 4);
                        FUZZ_CHECK(pack->cases[i].abs[k] >= 0 && pack->cases[i].rel[k] >= 0);
                }
        }
}

static void check_pack(const struct sv_pack *pack)
{
        FUZZ_CHECK(pack->n_files <= SV_FILES_MAX && pack->module < pack->n_files && pack->weights < pack->n_files);
        FUZZ_CHECK(pack->n_inputs <= SV_INPUTS_MAX && pack->n_outputs >= 1 && pack->n_outputs <= SV_OUTPUTS_MAX);
        FUZZ_CHECK(pack->n_kernels >= 1 && pack->n_launches >= 1 && pack->n_cases <= SV_CASES_MAX);
        check_tensors(pack, pack->inputs, pack->n_inputs);
        check_tensors(pack, pack->outputs, pack->n_outputs);
        for (uint32_t i = 0; i < pack->n_kernels; i++)
                FUZZ_CHECK(pack->kernels[i].threads >= 1 && pack->kernels[i].threads <= SV_THREADS_MAX &&
                           pack->kernels[i].n_params <= SV_PARAMS_MAX && pack->kernels[i].shared <= SV_SHARED_MAX);
        for (uint32_t i = 0; i < pack->n_launches; i++)
                check_launch(pack, &pack->launches[i]);
        check_buffers(pack);
        check_cases(pack);
}

static void read_arrivals(const char *text)
{
        struct sv_arrivals arrivals;
        struct sv_why why = {""};

        if (sv_arrivals_parse(&arrivals, text, "fuzz.txt", 2, &why)) {
                check_reason(&why);
                return;
        }
        for (size_t i = 1; i < arrivals.n; i++)
                FUZZ_CHECK(arrivals.ns[i] >= arrivals.ns[i - 1]);
        sv_arrivals_clear(&arrivals);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *copy = fuzz_copy(data, size), *text;
        struct sv_pack *pack = NULL;
        struct sv_why why = {""};

        if (size && (isdigit(data[0]) || data[0] == '[')) {
                text = strndup(copy, size);
                read_arrivals(text);
                free(text);
        } else if (sv_pack_parse(copy, size, "fuzz.txt", &pack, &why) == 0) {
                check_pack(pack);
                FUZZ_CHECK(!sv_pack_free(pack));
        } else {
                FUZZ_CHECK(!pack);
                check_reason(&why);
        }
        free(copy);
        return 0;
}
