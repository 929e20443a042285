/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/tensors.h"

#include <string.h>

#include "util/alloc.h"
#include "util/macro.h"

/* --- tensors ------------------------------------------------------------------------------------------------------ */

static uint64_t begin_of(const struct sv_pack *pack, uint32_t tensor)
{
        return tensor < pack->n_weights ? pack->weights_list[tensor].offset
                                        : pack->buffers[tensor - pack->n_weights].offset;
}

static bool shares(const struct sv_buffer *buffer, const struct sv_tensor *tensor)
{
        return buffer->offset < tensor->offset + tensor->bytes && tensor->offset < buffer->offset + buffer->bytes;
}

/* Lists the buffers that hold an input first: they are written before any launch. */
static void list_given(struct sv_tensors *t, const struct sv_tensor *input)
{
        const struct sv_pack *pack = t->pack;
        uint32_t first = UINT32_MAX;

        for (uint32_t i = 0; i < pack->n_buffers; i++)
                if (shares(&pack->buffers[i], input))
                        first = DS_MIN(first, pack->buffers[i].first);
        for (uint32_t i = 0; i < pack->n_buffers; i++)
                if (pack->buffers[i].first == first && shares(&pack->buffers[i], input))
                        t->list[pack->n_weights + i].given = true;
}

static void list_tensors(struct sv_tensors *t)
{
        const struct sv_pack *pack = t->pack;

        for (uint32_t i = 0; i < pack->n_weights; i++)
                t->list[i] = (struct sv_bm_tensor){.bytes = pack->weights_list[i].bytes, .weight = true};
        for (uint32_t i = 0; i < pack->n_buffers; i++) {
                const struct sv_buffer *buffer = &pack->buffers[i];

                t->list[pack->n_weights + i] = (struct sv_bm_tensor){
                        .bytes = buffer->bytes,
                        .first = buffer->first,
                        .last = buffer->last,
                };
        }
        for (uint32_t i = 0; i < pack->n_inputs; i++)
                list_given(t, &pack->inputs[i]);
        for (uint32_t i = 0; i < t->model.n_tensors; i++)
                t->begins[i] = begin_of(pack, i);
}

/* --- targets of launch parameters --------------------------------------------------------------------------------- */

static uint32_t find_weight(const struct sv_tensors *t, uint64_t offset)
{
        uint32_t low = 0, high = t->pack->n_weights;

        while (low < high) {
                const uint32_t middle = low + (high - low) / 2;

                if (t->begins[middle] <= offset)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low && offset - t->begins[low - 1] < t->list[low - 1].bytes ? low - 1 : SV_TENSOR_NONE;
}

/* live: the n buffers that are in use */
static uint32_t find_buffer(const struct sv_tensors *t, const uint32_t *live, uint32_t n, uint64_t offset)
{
        for (uint32_t i = 0; i < n; i++)
                if (offset >= t->begins[live[i]] && offset - t->begins[live[i]] < t->list[live[i]].bytes)
                        return live[i];
        return SV_TENSOR_NONE;
}

/* Returns the current launch's use of that tensor, and adds one if there is none. */
static struct sv_bm_use *use_of(struct sv_tensors *t, struct sv_bm_launch *launch, uint32_t tensor)
{
        for (uint32_t k = 0; k < launch->n_uses; k++)
                if (t->uses[launch->first_use + k].tensor == tensor)
                        return &t->uses[launch->first_use + k];
        launch->n_uses++;
        t->uses[t->model.n_uses] = (struct sv_bm_use){.tensor = tensor};
        return &t->uses[t->model.n_uses++];
}

static int read_launch(struct sv_tensors *t, uint32_t i, const uint32_t *live, uint32_t n_live, struct sv_why *why)
{
        const struct sv_launch *from = &t->pack->launches[i];
        const struct sv_kernel *kernel = &t->pack->kernels[from->kernel];
        struct sv_bm_launch *launch = &t->launches[i];

        if (!kernel->says_writes)
                return sv_fail(why, "%s does not say what kernel %s writes: it is a pack of an older compiler",
                        t->pack->path, kernel->name);
        launch->first_use = t->model.n_uses;
        for (uint32_t k = 0; k < kernel->n_params; k++) {
                const struct sv_param *param = &t->pack->params[from->first_param + k];
                const bool writes = kernel->writes >> k & 1;
                uint32_t *tensor = &t->of_param[from->first_param + k];

                *tensor = SV_TENSOR_NONE;
                if (param->kind == SV_PARAM_WEIGHTS)
                        *tensor = find_weight(t, param->value);
                if (param->kind == SV_PARAM_ARENA)
                        *tensor = find_buffer(t, live, n_live, param->value);
                if (*tensor == SV_TENSOR_NONE && (param->kind == SV_PARAM_WEIGHTS || param->kind == SV_PARAM_ARENA))
                        return sv_fail(why, "%s, launch %u, parameter %u points to no tensor that the pack names",
                                t->pack->path, i, k);
                if (*tensor != SV_TENSOR_NONE)
                        use_of(t, launch, *tensor)->access |= writes ? SV_WRITES : SV_READS;
        }
        return 0;
}

/* Reads the launches in order, with the set of buffers in use. */
static int read_launches(struct sv_tensors *t, uint32_t *live, struct sv_why *why)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < t->pack->n_launches; i++) {
                uint32_t kept = 0;

                for (uint32_t k = 0; k < n; k++)
                        if (t->list[live[k]].last >= i)
                                live[kept++] = live[k];
                n = kept;
                for (uint32_t k = t->pack->n_weights; k < t->model.n_tensors; k++)
                        if (t->list[k].first == i)
                                live[n++] = k;
                if (read_launch(t, i, live, n, why))
                        return -1;
        }
        return 0;
}

uint32_t sv_tensors_output(const struct sv_tensors *t, uint32_t i)
{
        const struct sv_pack *pack = t->pack;
        uint32_t found = SV_TENSOR_NONE;

        for (uint32_t k = 0; k < pack->n_buffers; k++)
                if (shares(&pack->buffers[k], &pack->outputs[i]) &&
                        (found == SV_TENSOR_NONE || pack->buffers[k].last > pack->buffers[found].last))
                        found = k;
        return found == SV_TENSOR_NONE ? found : pack->n_weights + found;
}

/* Refuses weights and outputs of which no second copy is possible. */
static int check_places(const struct sv_tensors *t, struct sv_why *why)
{
        const struct sv_pack *pack = t->pack;

        for (uint32_t i = 0; i < pack->n_weights; i++)
                if (t->begins[i] % SV_BIMODAL_ALIGN)
                        return sv_fail(why, "%s: the weight at %llu does not begin at a multiple of %u", pack->path,
                                (unsigned long long)t->begins[i], SV_BIMODAL_ALIGN);
        for (uint32_t i = 0; i < pack->n_outputs; i++) {
                const struct sv_tensor *output = &pack->outputs[i];
                const uint32_t k = sv_tensors_output(t, i);

                if (k != SV_TENSOR_NONE && (output->offset < t->begins[k] ||
                                                   output->offset + output->bytes > t->begins[k] + t->list[k].bytes))
                        return sv_fail(why, "%s: the output %s does not lie in one buffer", pack->path, output->name);
        }
        return 0;
}

/* An output with a coloured copy keeps that place until the outputs are read. */
static void keep_outputs(struct sv_tensors *t)
{
        for (uint32_t i = 0; i < t->pack->n_outputs; i++) {
                const uint32_t k = sv_tensors_output(t, i);

                if (k != SV_TENSOR_NONE)
                        t->list[k].last = t->model.n_launches - 1;
        }
}

static int fill(struct sv_tensors *t, const bool *memory_bound, struct sv_why *why)
{
        const struct sv_pack *pack = t->pack;
        const uint32_t n = pack->n_weights + pack->n_buffers;
        ds_cleanup(ds_freep) uint32_t *live = ds_alloc0(n + 1u, sizeof(*live));

        t->list = ds_alloc0(n + 1u, sizeof(*t->list));
        t->begins = ds_alloc0(n + 1u, sizeof(*t->begins));
        t->uses = ds_alloc0(pack->n_params + 1u, sizeof(*t->uses));
        t->launches = ds_alloc0(pack->n_launches, sizeof(*t->launches));
        t->of_param = ds_alloc0(pack->n_params + 1u, sizeof(*t->of_param));
        if (!live || !t->list || !t->begins || !t->uses || !t->launches || !t->of_param)
                return sv_fail(why, "%s: out of memory", pack->path);
        t->model.n_tensors = n;
        t->model.n_launches = pack->n_launches;
        list_tensors(t);
        for (uint32_t i = 0; i < pack->n_launches; i++)
                t->launches[i].memory_bound = memory_bound[i];
        if (check_places(t, why) || read_launches(t, live, why))
                return -1;
        keep_outputs(t);
        t->model.tensors = t->list;
        t->model.uses = t->uses;
        t->model.launches = t->launches;
        return 0;
}

int sv_tensors_open(
        struct sv_tensors *t, const struct sv_pack *pack, const bool *memory_bound, bool moves, struct sv_why *why)
{
        *t = (struct sv_tensors){.pack = pack, .model = {.moves = moves}};
        if (!fill(t, memory_bound, why))
                return 0;
        sv_tensors_close(t);
        return -1;
}

void sv_tensors_close(struct sv_tensors *t)
{
        ds_free(t->list);
        ds_free(t->begins);
        ds_free(t->uses);
        ds_free(t->launches);
        ds_free(t->of_param);
        *t = (struct sv_tensors){.pack = NULL};
}

/* --- masks -------------------------------------------------------------------------------------------------------- */

/* Position of the tensor among the launch's uses. */
static uint32_t place_of(const struct sv_tensors *t, const struct sv_bm_launch *launch, uint32_t tensor)
{
        uint32_t k = 0;

        while (t->uses[launch->first_use + k].tensor != tensor)
                k++;
        return k;
}

uint64_t sv_tensors_mask(const struct sv_tensors *t, uint32_t i, const enum sv_copy *copies)
{
        const struct sv_launch *from = &t->pack->launches[i];
        uint64_t mask = 0;

        for (uint32_t k = 0; k < t->pack->kernels[from->kernel].n_params; k++) {
                const uint32_t tensor = t->of_param[from->first_param + k];

                if (tensor != SV_TENSOR_NONE && copies[place_of(t, &t->launches[i], tensor)] == SV_COLOURED)
                        mask |= UINT64_C(1) << k;
        }
        return mask;
}

/* A choice that decides the copy of some uses of a launch: the state, the place of weights, or of an intermediate. */
struct choices {
        uint32_t n;
        uint32_t of_use[SV_PARAMS_MAX]; /* SV_TENSOR_NONE: over all channels under every choice */
};

static uint32_t first_writer(const struct sv_tensors *t, uint32_t tensor)
{
        for (uint32_t i = t->list[tensor].first; i <= t->list[tensor].last; i++)
                for (uint32_t k = 0; k < t->launches[i].n_uses; k++) {
                        const struct sv_bm_use *use = &t->uses[t->launches[i].first_use + k];

                        if (use->tensor == tensor && use->access & SV_WRITES)
                                return i;
                }
        return UINT32_MAX;
}

static void find_choices(const struct sv_tensors *t, const struct sv_bimodal *bimodal, uint32_t i, struct choices *ret)
{
        const struct sv_bm_launch *launch = &t->launches[i];

        /* choice 0 is the state of the GPU; where weights move, choice 1 is their place */
        ret->n = t->model.moves ? 2 : 1;
        for (uint32_t k = 0; k < launch->n_uses; k++) {
                const uint32_t tensor = t->uses[launch->first_use + k].tensor;
                const bool bound = launch->memory_bound && !launch->fixed;

                ret->of_use[k] = SV_TENSOR_NONE;
                if (sv_bimodal_place(bimodal, tensor) == SV_BIMODAL_NOWHERE)
                        continue;
                if (t->list[tensor].weight)
                        ret->of_use[k] = t->model.moves ? 1 : bound ? 0 : SV_TENSOR_NONE;
                else if (first_writer(t, tensor) == i)
                        ret->of_use[k] = bound ? 0 : SV_TENSOR_NONE;
                else
                        ret->of_use[k] = ret->n++;
        }
}

uint32_t sv_tensors_masks(const struct sv_tensors *t, const struct sv_bimodal *bimodal, uint32_t i,
        uint64_t ret_masks[static SV_MASKS_MAX])
{
        struct choices choices;
        enum sv_copy copies[SV_PARAMS_MAX];
        uint32_t n = 0;

        find_choices(t, bimodal, i, &choices);
        if (choices.n > 8)
                return SV_MASKS_MAX + 1;
        for (uint32_t chosen = 0; chosen < 1u << choices.n; chosen++) {
                uint64_t mask;
                uint32_t k = 0;

                for (uint32_t u = 0; u < t->launches[i].n_uses; u++)
                        copies[u] = choices.of_use[u] != SV_TENSOR_NONE && chosen >> choices.of_use[u] & 1 ? SV_COLOURED
                                                                                                           : SV_ALL;
                mask = sv_tensors_mask(t, i, copies);
                while (k < n && ret_masks[k] != mask)
                        k++;
                if (!mask || k < n)
                        continue;
                if (n == SV_MASKS_MAX)
                        return SV_MASKS_MAX + 1;
                ret_masks[n++] = mask;
        }
        return n;
}
