/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an image to kernels
 *
 * The simulated device executes PTX of any target. It takes the image's entry that fits its compute capability best,
 * and any other PTX when none fits. Machine code alone is refused, as CUDA refuses code for another GPU. The PTX front
 * end parses and validates the text and the interpreter prepares it. Text that either rejects becomes
 * DS_CUDA_INVALID_PTX with their diagnostics and line numbers.
 *
 * A timing-only device never executes the code. A block's cost is then its kernel's instructions, once each, or the
 * values of a comment in the text, so that a schedule can be studied with measured durations:
 *
 *      // detshare-sim: KERNEL block_ns=20000 issue_ns=5000 bytes=65536 written=16384 reuse=8388608 channels=0-14
 *
 *  block_ns   duration of a block alone; the only key that must be there
 *  issue_ns   time of that in which the block has the SM's issue slots
 *  bytes      bytes that a block moves through L2
 *  written    bytes of these that it writes
 *  reuse      bytes that all its blocks touch together, the same in every launch, so that L2 may have them (0: new ones
 *             each time)
 *  channels   the only channels that it uses, evenly
 *
 * Instead of code the image can be a profile (profile.h), whose kernels have names, shapes and durations. All modules
 * of a device are of one kind, because kernels of the two kinds would not see each other on the SMs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "device/sim/internal.h"
#include "image/image.h"
#include "ptx/ir.h"
#include "ptx/pass/facts.h"
#include "util/alloc.h"
#include "util/error.h"

#define HINTS_MAX 512
#define HINT "// detshare-sim:"

/* --- properties of the instructions --- */

static bool operand_reads_clock(const struct ds_ptx_operand *operand)
{
        if (operand->kind != DS_PTX_OPERAND_SREG)
                return false;
        switch (operand->sreg) {
        case DS_PTX_SREG_CLOCK:
        case DS_PTX_SREG_CLOCK_HI:
        case DS_PTX_SREG_CLOCK64:
        case DS_PTX_SREG_GLOBALTIMER:
        case DS_PTX_SREG_GLOBALTIMER_LO:
        case DS_PTX_SREG_GLOBALTIMER_HI:
                return true;
        default:
                return false;
        }
}

static bool function_reads_clock(const struct ds_ptx_function *function)
{
        for (uint32_t i = 0; i < function->n_instrs; i++)
                for (uint32_t k = 0; k < function->instrs[i].n_operands; k++)
                        if (operand_reads_clock(&function->instrs[i].operands[k]))
                                return true;
        return false;
}

static bool module_reads_clock(const struct ds_ptx_module *ptx)
{
        for (uint32_t i = 0; i < ptx->n_functions; i++)
                if (function_reads_clock(ptx->functions[i]))
                        return true;
        return false;
}

/* The PTX function of this name. Kernels are in the order of functions, so the search continues at *at, behind the
 * function found last. */
static const struct ds_ptx_function *find_function(const struct ds_ptx_module *ptx, const char *name, uint32_t *at)
{
        for (uint32_t i = 0; i < ptx->n_functions; i++) {
                const struct ds_ptx_function *function = ptx->functions[*at];

                *at = (*at + 1) % ptx->n_functions;
                if (function->has_body && !strcmp(function->name, name))
                        return function;
        }
        return NULL;
}

static void kernel_count(struct ds_device_kernel *kernel, const struct ds_ptx_module *ptx, uint32_t *at)
{
        const struct ds_ptx_function *function = find_function(ptx, kernel->info.name, at);
        uint8_t class;

        if (!function)
                return;
        kernel->static_instructions = function->n_instrs;
        for (uint32_t i = 0; i < function->n_instrs; i++) {
                class = ds_ptx_op_info(function->instrs[i].op)->class;
                kernel->static_memory += class == DS_PTX_CLASS_MEMORY || class == DS_PTX_CLASS_ATOMIC;
                kernel->static_special += class == DS_PTX_CLASS_SPECIAL;
        }
}

/* --- hints for timing-only devices --- */

static uint64_t hint_value(const char *line, const char *key)
{
        const char *at = strstr(line, key);

        return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static void hint_line(ds_device_module *module, const char *line)
{
        const ds_device_kernel *found;
        struct ds_device_kernel *kernel;
        const char *channels;
        uint32_t first, last;
        char name[256];

        if (sscanf(line, "%255s", name) != 1)
                return;
        found = sim_kernel_find(module, name);
        if (!found)
                return;
        kernel = &module->kernels[found - module->kernels];
        kernel->hint_block_ns = hint_value(line, "block_ns=");
        kernel->hint_bytes = hint_value(line, "bytes=");
        kernel->hint_issue_ns = hint_value(line, "issue_ns=");
        kernel->hint_written = hint_value(line, "written=");
        kernel->hint_reuse = hint_value(line, "reuse=");
        channels = strstr(line, "channels=");
        if (channels && sscanf(channels, "channels=%" SCNu32 "-%" SCNu32, &first, &last) == 2 && last < UINT32_MAX) {
                kernel->hint_channels[0] = first;
                kernel->hint_channels[1] = last + 1;
        }
}

static void module_hints(ds_device_module *module, const char *text)
{
        char line[512];
        const char *at, *end;
        unsigned lines = 0;
        size_t n;

        for (at = strstr(text, HINT); at && lines++ < HINTS_MAX; at = strstr(end, HINT)) {
                at += strlen(HINT);
                end = at + strcspn(at, "\n");
                n = DS_MIN((size_t)(end - at), sizeof(line) - 1);
                memcpy(line, at, n);
                line[n] = 0;
                hint_line(module, line);
        }
}

/* --- kernels --- */

static int kernel_init(ds_device *device, ds_device_module *module, struct ds_device_kernel *kernel,
        const ds_interp_kernel *code, uint32_t *at)
{
        const struct ds_interp_kernel_info *info = ds_interp_kernel_info(code);
        struct ds_kernel_param *params;

        params = ds_alloc0(info->n_params, sizeof(*params));
        if (!params)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < info->n_params; i++)
                params[i] = (struct ds_kernel_param){.offset = info->params[i].offset, .size = info->params[i].size};
        kernel->module = module;
        kernel->code = code;
        kernel->info = (struct ds_kernel_info){
                .name = info->name,
                .n_params = info->n_params,
                .params = params,
                .params_size = info->params_size,
                .max_threads = info->max_threads,
                .static_shared = info->static_shared,
                .local_bytes = info->local_bytes,
                .const_bytes = info->const_bytes,
                .registers = info->registers,
                .ptx_version = info->target,
                .prints = info->prints,
                .cluster = {info->cluster[0], info->cluster[1], info->cluster[2]},
                .cluster_max = info->max_cluster,
                .cluster_explicit = info->explicit_cluster,
                .blocks_are_clusters = info->blocks_are_clusters,
                .binary_version = device->info.cc_major * 10 + device->info.cc_minor,
        };
        kernel_count(kernel, module->ptx, at);
        return 0;
}

/* Stores the kernel properties that schedulers use (info.waits and others), as found in the PTX. */
static int module_facts(ds_device_module *module)
{
        ds_cleanup(ds_freep) struct ds_ptx_facts *facts = ds_alloc0(module->ptx->n_functions, sizeof(*facts));
        int r = facts ? ds_ptx_facts_find(module->ptx, facts) : ds_error_origin(-ENOMEM);

        for (uint32_t i = 0, n = 0; i < module->ptx->n_functions && !r; i++) {
                const struct ds_ptx_function *function = module->ptx->functions[i];
                struct ds_kernel_info *info;

                if (!function->is_entry || !function->has_body)
                        continue;
                /* the interpreter's kernels are in the order of the functions with bodies */
                info = &module->kernels[n++].info;
                info->waits = ds_ptx_fact(&facts[i], DS_PTX_FACT_WAITS);
                info->idempotent = !ds_ptx_fact(&facts[i], DS_PTX_FACT_ONCE);
                info->sees_shared = ds_ptx_fact(&facts[i], DS_PTX_FACT_SIZES);
        }
        return ds_error_trace(r);
}

static int module_kernels(ds_device *device, ds_device_module *module)
{
        const ds_interp_kernel *code;
        bool reads_clock = module_reads_clock(module->ptx);
        uint32_t at = 0;
        size_t n = 0;
        int r;

        while (ds_interp_kernel_at(module->interp, n))
                n++;
        module->kernels = ds_alloc0(n, sizeof(*module->kernels));
        if (!module->kernels)
                return ds_error_origin(-ENOMEM);
        for (; (code = ds_interp_kernel_at(module->interp, module->n_kernels)); module->n_kernels++) {
                r = kernel_init(device, module, &module->kernels[module->n_kernels], code, &at);
                if (r < 0)
                        return ds_error_trace(r);
                module->kernels[module->n_kernels].reads_clock = reads_clock;
        }
        return module_facts(module);
}

/* --- modules --- */

static int kernel_order(const void *a, const void *b)
{
        const ds_device_kernel *const *x = a, *const *y = b;
        int order = strcmp((*x)->info.name, (*y)->info.name);

        /* if names are equal, the first kernel comes first, since a search must find it */
        return order ? order : (*x > *y) - (*x < *y);
}

/* Sorts the kernels by name, once, when all are there. 0 or -ENOMEM. */
static int module_sort(ds_device_module *module)
{
        module->by_name = ds_alloc0(DS_MAX(module->n_kernels, (size_t)1), sizeof(*module->by_name));
        if (!module->by_name)
                return ds_error_origin(-ENOMEM);
        for (size_t i = 0; i < module->n_kernels; i++)
                module->by_name[i] = &module->kernels[i];
        qsort(module->by_name, module->n_kernels, sizeof(*module->by_name), kernel_order);
        return 0;
}

static int profile_kernel(ds_device *device, ds_device_module *module, uint32_t i, char *log, size_t log_size)
{
        const struct sim_profile_kernel *profile = &module->profile->kernels[i];
        struct ds_device_kernel *kernel = &module->kernels[i];

        kernel->module = module;
        kernel->profile = profile;
        kernel->info = (struct ds_kernel_info){
                .name = profile->name,
                .max_threads = profile->block[0] * profile->block[1] * profile->block[2],
                .static_shared = profile->shared,
                .registers = profile->registers,
                .binary_version = device->info.cc_major * 10 + device->info.cc_minor,
        };
        if (sim_shape_of(device->model, kernel, &kernel->shape))
                return 0;
        snprintf(log, log_size, "kernel %.60s: a block needs more resources than an SM of %s has", profile->name,
                device->info.model);
        return DS_CUDA_INVALID_IMAGE;
}

/* Builds a module whose kernels come from a profile. */
static int profile_build(
        ds_device *device, ds_device_module *module, const char *text, size_t size, char *log, size_t log_size)
{
        int r;

        if (device->room.code) {
                snprintf(log, log_size,
                        "this device has loaded PTX modules and takes no profiles; use another device for profiles");
                return DS_CUDA_INVALID_IMAGE;
        }
        r = sim_profile_parse(text, size, log, log_size, &module->profile);
        if (r)
                return r < 0 ? ds_error_trace(r) : DS_CUDA_INVALID_IMAGE;
        if (module->profile->sms != device->n_sms) {
                snprintf(log, log_size, "the profile was measured on a GPU with %u SMs; %s has %u",
                        module->profile->sms, device->info.model, device->n_sms);
                return DS_CUDA_INVALID_IMAGE;
        }
        module->kernels = ds_alloc0(module->profile->n_kernels, sizeof(*module->kernels));
        if (!module->kernels)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; !r && i < module->profile->n_kernels; i++, module->n_kernels++)
                r = profile_kernel(device, module, i, log, log_size);
        if (!r)
                r = module_sort(module);
        device->room.profiles = device->room.profiles || !r;
        return r;
}

static ds_device_module *module_free(ds_device_module *module)
{
        if (!module)
                return NULL;
        for (size_t i = 0; i < module->n_kernels; i++)
                ds_free((void *)module->kernels[i].info.params);
        ds_free(module->kernels);
        ds_free(module->by_name);
        ds_interp_free(module->interp);
        ds_ptx_module_free(module->ptx);
        sim_profile_free(module->profile);
        return ds_free(module);
}

static void module_freep(ds_device_module **module)
{
        *module = module_free(*module);
}

void sim_module_put(ds_device_module *module)
{
        if (--module->refs)
                return;
        *(module->prev ? &module->prev->next : &module->device->modules) = module->next;
        if (module->next)
                module->next->prev = module->prev;
        module_free(module);
}

ds_device_module *sim_module_unload(ds_device *device, ds_device_module *module)
{
        struct sim_space *space;

        if (!module)
                return NULL;
        space = sim_space_find(device, module->space);
        if (space)
                sim_space_drop_globals(space, module);
        module->loaded = false;
        sim_module_put(module);
        return NULL;
}

void sim_modules_free(ds_device *device)
{
        ds_device_module *module, *next;

        for (module = device->modules; module; module = next) {
                next = module->next;
                if (module->loaded)
                        sim_module_unload(device, module);
        }
}

/* The image's PTX text for this device, or a contract code with a message in log. */
static int image_text(ds_device *device, const void *bytes, size_t size, char *log, size_t log_size, char **ret_text,
        size_t *ret_length)
{
        ds_cleanup(ds_image_freep) ds_image *image = NULL;
        size_t index;
        int r;

        r = ds_image_open(bytes, size, log, log_size, &image);
        if (r < 0)
                return ds_error_trace(r);
        if (r)
                return DS_CUDA_INVALID_IMAGE;
        r = ds_image_choose_ptx(image, device->info.cc_major * 10 + device->info.cc_minor, 1, &index);
        if (r < 0) {
                snprintf(log, log_size,
                        "the image holds machine code only (%zu entries, none of them PTX): a simulated GPU executes "
                        "PTX",
                        ds_image_count(image));
                return DS_CUDA_NO_BINARY_FOR_GPU;
        }
        r = ds_image_ptx(image, index, log, log_size, ret_text, ret_length);
        if (r < 0)
                return ds_error_trace(r);
        return r ? DS_CUDA_INVALID_IMAGE : 0;
}

static int module_build(
        ds_device *device, ds_device_module *module, const char *text, size_t length, char *log, size_t log_size)
{
        ds_cleanup(ds_freep) struct ds_ptx_diags *diags = NULL;
        int r;

        diags = ds_alloc0(1, sizeof(*diags));
        if (!diags)
                return ds_error_origin(-ENOMEM);
        r = ds_ptx_parse(text, length, 0, diags, &module->ptx);
        if (!r)
                r = ds_interp_new(module->ptx, diags, &module->interp);
        if (r > 0) {
                ds_ptx_diags_format(diags, "ptx", log, log_size);
                return DS_CUDA_INVALID_PTX;
        }
        if (!r)
                r = module_kernels(device, module);
        if (!r)
                r = module_sort(module);
        if (!r && device->timing_only)
                module_hints(module, text);
        return r < 0 ? ds_error_trace(r) : 0;
}

static int code_build(
        ds_device *device, ds_device_module *module, const void *image, size_t size, char *log, size_t log_size)
{
        ds_cleanup(ds_freep) char *text = NULL;
        size_t length = 0;
        int r;

        if (device->room.profiles) {
                snprintf(log, log_size,
                        "this device has loaded profiles and takes no PTX modules; use another device for PTX");
                return DS_CUDA_INVALID_IMAGE;
        }
        r = image_text(device, image, size, log, log_size, &text, &length);
        if (!r)
                r = module_build(device, module, text, length, log, log_size);
        device->room.code = device->room.code || !r;
        return r;
}

static void module_hash(ds_device_module *module, const void *image, size_t size)
{
        const uint64_t hash = XXH3_64bits(image, size);

        for (size_t i = 0; i < module->n_kernels; i++) {
                struct ds_kernel_info *info = &module->kernels[i].info;

                info->hash = XXH3_64bits_withSeed(info->name, strlen(info->name), hash);
        }
}

int sim_module_load(ds_device *device, uint32_t space, const void *image, size_t size, char *log, size_t log_size,
        ds_device_module **ret)
{
        ds_cleanup(module_freep) ds_device_module *module = NULL;
        int r;

        if (log_size)
                log[0] = 0;
        if (!sim_space_find(device, space))
                return ds_error_origin(-ENOENT);
        module = ds_alloc0(1, sizeof(*module));
        if (!module)
                r = ds_error_origin(-ENOMEM);
        else if (device->timing_only && sim_profile_is(image, size))
                r = profile_build(device, module, image, size, log, log_size);
        else
                r = code_build(device, module, image, size, log, log_size);
        if (r == -ENOMEM) {
                snprintf(log, log_size, "the module needs more host memory than is free, or than one module may take");
                return DS_CUDA_OUT_OF_MEMORY;
        }
        if (r)
                return r;
        module_hash(module, image, size);
        module->device = device;
        module->refs = 1;
        module->loaded = true;
        module->space = space;
        module->number = sim_space_find(device, space)->n_modules++;
        module->next = device->modules;
        if (module->next)
                module->next->prev = module;
        device->modules = module;
        *ret = DS_TAKE_PTR(module);
        return 0;
}

const ds_device_kernel *sim_kernel_find(ds_device_module *module, const char *name)
{
        size_t from = 0, to = module->n_kernels;

        while (from < to) {
                size_t middle = from + (to - from) / 2;

                if (strcmp(module->by_name[middle]->info.name, name) < 0)
                        from = middle + 1;
                else
                        to = middle;
        }
        return from < module->n_kernels && !strcmp(module->by_name[from]->info.name, name) ? module->by_name[from]
                                                                                           : NULL;
}

const ds_device_kernel *sim_kernel_at(ds_device_module *module, size_t index)
{
        return index < module->n_kernels ? &module->kernels[index] : NULL;
}

const struct ds_kernel_info *sim_kernel_info(const ds_device_kernel *kernel)
{
        return &kernel->info;
}

int sim_global_find(ds_device_module *module, const char *name, uint64_t *ret_va, uint64_t *ret_size)
{
        struct sim_space *space = sim_space_find(module->device, module->space);
        uint64_t va, size;
        int r;

        if (module->profile)
                return -ENOENT;
        r = ds_interp_find_global(module->interp, name, &va, &size);
        if (r < 0)
                return r;
        /* if the caller requests the address, the variable joins its space: copies and kernels of other modules may
         * use it */
        if (space) {
                r = sim_space_add_global(space, module, va, size);
                if (r < 0)
                        return ds_error_trace(r);
        }
        *ret_va = va;
        *ret_size = size;
        return 0;
}

int sim_module_has_globals(ds_device_module *module)
{
        return module->interp && ds_interp_has_globals(module->interp);
}
