/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In reading order: forms of kernels, weights, the model's part, an instance's part
 */
#include "serve/coloured.h"

#include <detshare/coloured.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/bounds.h"
#include "serve/tensors.h"
#include "util/alloc.h"
#include "util/macro.h"

#define WANTS_MAX 64u /* requested forms of one image */
#define LOG_MAX 4096u
#define NAME_MAX_ 256u
#define UNWRITTEN 0xff

struct form {
        uint32_t kernel;
        uint64_t mask;
        CUfunction function;
};

struct sv_coloured {
        const struct sv_model *model;
        enum sv_follow follow;
        enum detshare_colour colour;
        struct sv_tensors tensors;
        struct sv_bimodal *plan; /* for places and masks; instances have plans of their own */
        struct sv_bm_footprint footprint;
        struct detshare_coloured_parameter parameter;
        uint64_t weights; /* logical address; 0: none */
        struct form *forms;
        uint32_t n_forms, n_fixed;
        CUmodule *modules;
        uint32_t n_modules;
        bool *fixed; /* one entry per kernel */
        uint32_t n_bound;
        _Atomic uint64_t launched, coloured, moves;
        /* only for models whose weights move */
        pthread_mutex_t lock;
        uint32_t running;
        enum sv_copy weights_at;
};

struct sv_placed {
        struct sv_coloured *coloured;
        const struct sv_instance *instance;
        struct sv_bimodal *bimodal;
        uint64_t arena; /* logical address; 0: none */
        uint64_t *values;
        void *params[SV_PARAMS_MAX + 1];
        CUevent events[2];
        uint32_t turns; /* state of the pseudorandom sequence, with SV_FOLLOW_TURNS */
};

static int fail(const char *what, int r, struct sv_why *why)
{
        return sv_fail(why, "%s: %s: %s", what, detshare_strerror(r), detshare_last_error());
}

/* --- forms of kernels --------------------------------------------------------------------------------------------- */

static const char *kernel_name(const struct sv_coloured *c, uint32_t kernel)
{
        return c->model->pack->kernels[kernel].name;
}

static struct form *find_form(const struct sv_coloured *c, uint32_t kernel, uint64_t mask)
{
        for (uint32_t i = 0; i < c->n_forms; i++)
                if (c->forms[i].kernel == kernel && c->forms[i].mask == mask)
                        return &c->forms[i];
        return NULL;
}

static int add_form(struct sv_coloured *c, uint32_t kernel, uint64_t mask, struct sv_why *why)
{
        struct form *more;

        if (find_form(c, kernel, mask))
                return 0;
        more = ds_realloc(c->forms, c->n_forms + 1u, sizeof(*more));
        if (!more)
                return sv_fail(why, "out of memory");
        c->forms = more;
        more[c->n_forms++] = (struct form){.kernel = kernel, .mask = mask};
        return 0;
}

/* Makes the plan with the fixed kernels, and the list of forms that it needs. */
static int make_plan(struct sv_coloured *c, struct sv_why *why)
{
        const struct sv_pack *pack = c->model->pack;
        uint64_t masks[SV_MASKS_MAX];

        for (uint32_t i = 0; i < pack->n_launches; i++)
                c->tensors.launches[i].fixed = c->fixed[pack->launches[i].kernel];
        c->plan = sv_bimodal_free(c->plan);
        if (sv_bimodal_new(&c->tensors.model, &c->plan))
                return sv_fail(why, "%s: its tensors make no plan", pack->path);
        c->n_forms = 0;
        for (uint32_t i = 0; i < pack->n_launches; i++) {
                const uint32_t kernel = pack->launches[i].kernel, n = sv_tensors_masks(&c->tensors, c->plan, i, masks);

                if (n > SV_MASKS_MAX) { /* too many forms: the kernel counts as fixed */
                        c->fixed[kernel] = true;
                        c->n_fixed++;
                        return make_plan(c, why);
                }
                for (uint32_t k = 0; k < n; k++)
                        if (add_form(c, kernel, masks[k], why))
                                return -1;
        }
        sv_bimodal_footprint(c->plan, pack->arena, &c->footprint);
        return 0;
}

/* Whether the helper's message refuses this kernel */
static bool says_refused(const char *words, const char *name)
{
        char sentence[SV_NAME_MAX + 32];
        const char *at = words;

        snprintf(sentence, sizeof(sentence), "%s cannot be coloured:", name);
        while ((at = strstr(at, sentence)) && at != words && at[-1] != ' ')
                at++;
        return at;
}

/* Finds the requested kernel that the message refuses; false: the message blames no kernel. */
static bool find_refused(const struct sv_coloured *c, const char *words, uint32_t *ret)
{
        for (uint32_t i = 0; i < c->n_forms; i++) {
                *ret = c->forms[i].kernel;
                if (says_refused(words, kernel_name(c, *ret)))
                        return true;
        }
        return false;
}

enum { LOADED, REFUSED = 1 };

/* 0; REFUSED: one more kernel is fixed and the plan has changed; -1: another error. */
static int load_refused(struct sv_coloured *c, CUresult r, const char *log, struct sv_why *why)
{
        uint32_t kernel;

        if (!find_refused(c, log, &kernel) && !find_refused(c, detshare_last_error(), &kernel)) {
                struct sv_why reason = {""};

                (void)sv_driver_fail(c->model->driver, "cuModuleLoadDataEx", r, &reason);
                return sv_fail(why, "coloured forms of %s: %.120s: %.200s", c->model->pack->path, reason.text, log);
        }
        c->fixed[kernel] = true;
        c->n_fixed++;
        return make_plan(c, why) ? -1 : REFUSED;
}

/* Loads an image with n forms, from `first` on. */
static int load_image(struct sv_coloured *c, const uint8_t *text, uint32_t first, uint32_t n, struct sv_why *why)
{
        const struct sv_driver *driver = c->model->driver;
        struct detshare_coloured_kernel wants[WANTS_MAX];
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        char log[LOG_MAX] = "", name[NAME_MAX_];
        void *values[] = {log, (void *)(uintptr_t)sizeof(log)}, *image = NULL;
        size_t size;
        CUresult r;
        int e;

        for (uint32_t i = 0; i < n; i++)
                wants[i] = (struct detshare_coloured_kernel){
                        .name = kernel_name(c, c->forms[first + i].kernel), .mask = c->forms[first + i].mask};
        e = detshare_coloured_image(text, strlen((const char *)text), wants, n, &image, &size);
        if (e < 0)
                return fail("detshare_coloured_image", e, why);
        r = driver->cuModuleLoadDataEx_fn(&c->modules[c->n_modules], image, DS_ARRAY_SIZE(options), options, values);
        free(image);
        log[sizeof(log) - 1] = 0;
        if (r != CUDA_SUCCESS)
                return load_refused(c, r, log, why);
        c->n_modules++;
        for (uint32_t i = 0; i < n; i++) {
                struct form *form = &c->forms[first + i];

                e = detshare_coloured_name(wants[i].name, form->mask, name, sizeof(name));
                if (e < 0)
                        return fail("detshare_coloured_name", e, why);
                if (SV_CU(driver, why, cuModuleGetFunction, &form->function, c->modules[c->n_modules - 1], name))
                        return -1;
                if (c->model->pack->kernels[form->kernel].shared > 48u << 10 &&
                        SV_CU(driver, why, cuFuncSetAttribute, form->function,
                                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                (int)c->model->pack->kernels[form->kernel].shared))
                        return -1;
        }
        return LOADED;
}

static void unload(struct sv_coloured *c)
{
        while (c->n_modules)
                (void)c->model->driver->cuModuleUnload_fn(c->modules[--c->n_modules]);
}

/* Each refused kernel changes the plan, so this ends after at most as many rounds as there are kernels. */
static int load_forms(struct sv_coloured *c, struct sv_why *why)
{
        const struct sv_pack *pack = c->model->pack;
        ds_cleanup(ds_freep) uint8_t *text = NULL;
        int r = REFUSED;

        if (sv_pack_load(pack, pack->module, &text, why) || make_plan(c, why))
                return -1;
        while (r == REFUSED) {
                unload(c);
                ds_free(c->modules);
                c->modules = ds_alloc0(DS_DIV_UP(c->n_forms, WANTS_MAX) + 1u, sizeof(CUmodule));
                r = c->modules ? LOADED : sv_fail(why, "out of memory");
                for (uint32_t first = 0; first < c->n_forms && r == LOADED; first += WANTS_MAX)
                        r = load_image(c, text, first, DS_MIN(WANTS_MAX, c->n_forms - first), why);
        }
        return r;
}

/* --- weights ------------------------------------------------------------------------------------------------------ */

/* Copies all weights with a second place to that place or back, in stream order. */
static int move_weights(struct sv_coloured *c, CUstream stream, enum sv_copy to, struct sv_why *why)
{
        for (uint32_t i = 0; i < c->model->pack->n_weights; i++) {
                const uint64_t place = sv_bimodal_place(c->plan, i), bytes = c->tensors.list[i].bytes;
                const uint64_t plain = c->model->weights + c->tensors.begins[i], other = c->weights + place;
                int r;

                if (place == SV_BIMODAL_NOWHERE)
                        continue;
                r = detshare_coloured_copy(
                        stream, to == SV_COLOURED ? other : plain, to == SV_COLOURED ? plain : other, bytes);
                if (r < 0)
                        return fail("detshare_coloured_copy", r, why);
        }
        return 0;
}

static int open_weights(struct sv_coloured *c, struct sv_why *why)
{
        int r = 0;

        if (c->footprint.weights_again)
                r = detshare_coloured_alloc(c->footprint.weights_again, c->colour, &c->weights);
        if (r < 0)
                return fail("coloured memory for weights", r, why);
        if (!c->weights || c->tensors.model.moves)
                return 0;
        return move_weights(c, NULL, SV_COLOURED, why) || SV_CU(c->model->driver, why, cuCtxSynchronize) ? -1 : 0;
}

/* --- the model's part --------------------------------------------------------------------------------------------- */

static int find_class(struct sv_coloured *c, struct sv_why *why)
{
        struct detshare_coloured_info info = {.size = sizeof(info)};
        struct detshare_stats stats = {.size = sizeof(stats)};
        int r = detshare_coloured_info(&info);

        if (r == DETSHARE_OK && !info.on)
                return sv_fail(
                        why, "tensors cannot lie in two places: the daemon keeps no coloured memory: %s", info.why);
        if (r < 0)
                return fail("tensors cannot lie in two places", r, why);
        r = detshare_get_stats(&stats);
        if (r < 0)
                return fail("detshare_get_stats", r, why);
        c->colour = stats.class_ == DETSHARE_LS ? DETSHARE_COLOUR_LS : DETSHARE_COLOUR_BE;
        return 0;
}

static int prepare(struct sv_coloured *c, const char *bounds, struct sv_why *why)
{
        const struct sv_pack *pack = c->model->pack;
        ds_cleanup(ds_freep) bool *bound = ds_alloc0(pack->n_launches, sizeof(*bound));

        c->fixed = ds_alloc0(pack->n_kernels, sizeof(*c->fixed));
        if (!bound || !c->fixed)
                return sv_fail(why, "out of memory");
        if (find_class(c, why) || sv_bounds_read(pack, bounds, bound, why) ||
                sv_tensors_open(&c->tensors, pack, bound, c->colour == DETSHARE_COLOUR_LS, why) || load_forms(c, why) ||
                open_weights(c, why))
                return -1;
        for (uint32_t i = 0; i < pack->n_launches; i++)
                c->n_bound += bound[i];
        return 0;
}

int sv_coloured_open(struct sv_coloured **ret, const struct sv_model *model, const char *bounds, enum sv_follow follow,
        struct sv_why *why)
{
        struct sv_coloured *c = ds_alloc0(1, sizeof(*c));

        if (!c)
                return sv_fail(why, "out of memory");
        c->model = model;
        c->follow = follow;
        (void)pthread_mutex_init(&c->lock, NULL);
        if (!prepare(c, bounds, why)) {
                *ret = c;
                return 0;
        }
        (void)sv_coloured_close(c);
        return -1;
}

struct sv_coloured *sv_coloured_close(struct sv_coloured *c)
{
        if (!c)
                return NULL;
        if (c->weights)
                (void)detshare_coloured_free(c->weights);
        unload(c);
        ds_free(c->modules);
        ds_free(c->forms);
        ds_free(c->fixed);
        c->plan = sv_bimodal_free(c->plan);
        sv_tensors_close(&c->tensors);
        (void)pthread_mutex_destroy(&c->lock);
        return ds_free(c);
}

void sv_coloured_figures(const struct sv_coloured *c, struct sv_coloured_figures *ret)
{
        *ret = (struct sv_coloured_figures){
                .launches = c->model->pack->n_launches,
                .memory_bound = c->n_bound,
                .forms = c->n_forms,
                .refused = c->n_fixed,
                .launched = c->launched,
                .coloured = c->coloured,
                .moves = c->moves,
        };
}

/* --- an instance's part ------------------------------------------------------------------------------------------- */

static int open_placed(struct sv_placed *p, struct sv_why *why)
{
        const struct sv_driver *driver = p->coloured->model->driver;
        int r = 0;

        p->values = ds_alloc0(SV_PARAMS_MAX, sizeof(*p->values));
        if (!p->values || sv_bimodal_new(&p->coloured->tensors.model, &p->bimodal))
                return sv_fail(why, "out of memory");
        if (p->coloured->footprint.arena_again)
                r = detshare_coloured_alloc(p->coloured->footprint.arena_again, p->coloured->colour, &p->arena);
        if (r < 0)
                return fail("coloured memory for intermediates", r, why);
        /* the parameter exists once the first tensor exists */
        if (p->coloured->weights || p->arena)
                r = detshare_coloured_parameter(&p->coloured->parameter);
        if (r < 0)
                return fail("detshare_coloured_parameter", r, why);
        /* fills with NaN, as the arena of an instance, so that a read of unwritten memory shows */
        if (p->arena)
                r = detshare_coloured_memset(
                        p->instance->stream, p->arena, UNWRITTEN, p->coloured->footprint.arena_again);
        if (r < 0)
                return fail("detshare_coloured_memset", r, why);
        for (int i = 0; i < 2; i++)
                if (SV_CU(driver, why, cuEventCreate, &p->events[i], CU_EVENT_DISABLE_TIMING))
                        return -1;
        return 0;
}

int sv_placed_open(
        struct sv_placed **ret, struct sv_coloured *coloured, const struct sv_instance *instance, struct sv_why *why)
{
        struct sv_placed *p = ds_alloc0(1, sizeof(*p));

        if (!p)
                return sv_fail(why, "out of memory");
        p->coloured = coloured;
        p->instance = instance;
        if (!open_placed(p, why)) {
                *ret = p;
                return 0;
        }
        (void)sv_placed_close(p);
        return -1;
}

struct sv_placed *sv_placed_close(struct sv_placed *p)
{
        if (!p)
                return NULL;
        for (int i = 0; i < 2; i++)
                if (p->events[i])
                        (void)p->coloured->model->driver->cuEventDestroy_fn(p->events[i]);
        if (p->arena)
                (void)detshare_coloured_free(p->arena);
        p->bimodal = sv_bimodal_free(p->bimodal);
        ds_free(p->values);
        return ds_free(p);
}

static enum sv_state state_of(struct sv_placed *p)
{
        switch (p->coloured->follow) {
        case SV_FOLLOW_ALONE:
                return SV_MONOPOLISATION;
        case SV_FOLLOW_BESIDE:
                return SV_COLOCATION;
        case SV_FOLLOW_TURNS:
                p->turns = p->turns * 1103515245u + 12345u; /* any pseudorandom sequence will do */
                return p->turns >> 16 & 1 ? SV_COLOCATION : SV_MONOPOLISATION;
        default:
                return detshare_coloured_beside() == 1 ? SV_COLOCATION : SV_MONOPOLISATION;
        }
}

/* Waits until no other run uses the weights, and moves them. This run's launches follow the copies in stream order. */
static int settle_weights(struct sv_placed *p, enum sv_state state, struct sv_why *why)
{
        struct sv_coloured *c = p->coloured;
        const enum sv_copy to = state == SV_COLOCATION ? SV_COLOURED : SV_ALL;

        if (c->running || c->weights_at == to || !c->weights)
                return 0;
        if (move_weights(c, p->instance->stream, to, why) ||
                SV_CU(c->model->driver, why, cuStreamSynchronize, p->instance->stream))
                return -1;
        c->weights_at = to;
        c->moves++;
        return 0;
}

int sv_placed_begin(struct sv_placed *p, struct sv_why *why)
{
        struct sv_coloured *c = p->coloured;
        enum sv_state state = state_of(p);
        int r = 0;

        if (c->tensors.model.moves) {
                (void)pthread_mutex_lock(&c->lock);
                r = settle_weights(p, state, why);
                c->running += !r;
                state = c->weights_at == SV_COLOURED ? SV_COLOCATION : SV_MONOPOLISATION;
                (void)pthread_mutex_unlock(&c->lock);
        }
        (void)sv_bimodal_request(p->bimodal, state);
        return r;
}

void sv_placed_end(struct sv_placed *p)
{
        struct sv_coloured *c = p->coloured;

        if (!c->tensors.model.moves)
                return;
        (void)pthread_mutex_lock(&c->lock);
        c->running--;
        (void)pthread_mutex_unlock(&c->lock);
}

/* After every half of SV_AHEAD launches, waits until the half before it has run. */
static int stay_near(struct sv_placed *p, uint32_t i, struct sv_why *why)
{
        const struct sv_driver *driver = p->coloured->model->driver;
        const uint32_t half = i / (SV_AHEAD / 2);

        if (p->coloured->tensors.model.moves || p->coloured->follow != SV_FOLLOW_DAEMON || i % (SV_AHEAD / 2) || !i)
                return 0;
        if (SV_CU(driver, why, cuEventRecord, p->events[half % 2], p->instance->stream))
                return -1;
        return half > 1 ? SV_CU(driver, why, cuEventSynchronize, p->events[(half + 1) % 2]) : 0;
}

/* Address of a parameter's tensor in this copy. */
static uint64_t address_of(const struct sv_placed *p, uint32_t tensor, uint64_t value, enum sv_copy copy)
{
        const struct sv_coloured *c = p->coloured;
        const bool weight = c->tensors.list[tensor].weight;

        if (copy == SV_ALL)
                return value + (weight ? c->model->weights : p->instance->arena);
        return value - c->tensors.begins[tensor] + sv_bimodal_place(c->plan, tensor) + (weight ? c->weights : p->arena);
}

static enum sv_copy copy_of(const struct sv_tensors *t, uint32_t i, uint32_t tensor, const enum sv_copy *copies)
{
        const struct sv_bm_launch *launch = &t->launches[i];
        uint32_t k = 0;

        while (t->uses[launch->first_use + k].tensor != tensor)
                k++;
        return copies[k];
}

int sv_placed_launch(struct sv_placed *p, uint32_t i, CUfunction *ret_function, void ***ret_params, struct sv_why *why)
{
        struct sv_coloured *c = p->coloured;
        const struct sv_pack *pack = c->model->pack;
        const struct sv_launch *launch = &pack->launches[i];
        const uint32_t n = pack->kernels[launch->kernel].n_params;
        enum sv_copy copies[SV_PARAMS_MAX];
        const struct form *form;
        uint64_t mask;

        if (stay_near(p, i, why))
                return -1;
        sv_bimodal_launch(p->bimodal, state_of(p), copies);
        mask = sv_tensors_mask(&c->tensors, i, copies);
        for (uint32_t k = 0; k < n; k++) {
                const struct sv_param *param = &pack->params[launch->first_param + k];
                const uint32_t tensor = c->tensors.of_param[launch->first_param + k];

                p->values[k] = tensor == SV_TENSOR_NONE
                                       ? param->value
                                       : address_of(p, tensor, param->value, copy_of(&c->tensors, i, tensor, copies));
                p->params[k] = &p->values[k];
        }
        p->params[n] = (void *)&c->parameter;
        c->launched++;
        c->coloured += mask != 0;
        form = mask ? find_form(c, launch->kernel, mask) : NULL;
        if (mask && !form)
                return sv_fail(why, "%s, launch %u: no form for mask %llx", pack->path, i, (unsigned long long)mask);
        *ret_function = form ? form->function : c->model->kernels[launch->kernel];
        *ret_params = p->params;
        return 0;
}

int sv_placed_output(struct sv_placed *p, uint32_t i, void *to, struct sv_why *why)
{
        const struct sv_coloured *c = p->coloured;
        const struct sv_tensor *output = &c->model->pack->outputs[i];
        const uint32_t tensor = sv_tensors_output(&c->tensors, i);
        int r;

        if (tensor == SV_TENSOR_NONE || sv_bimodal_copy(p->bimodal, tensor) == SV_ALL)
                return SV_CU(c->model->driver, why, cuMemcpyDtoHAsync, to, p->instance->output_at[i], output->bytes,
                        p->instance->stream);
        r = detshare_coloured_read(p->instance->stream, to,
                p->arena + sv_bimodal_place(c->plan, tensor) + output->offset - c->tensors.begins[tensor],
                output->bytes);
        return r < 0 ? fail("detshare_coloured_read", r, why) : 0;
}
