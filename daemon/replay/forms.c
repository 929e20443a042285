/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a profile's kernels as PTX
 */
#include "replay/forms.h"

#include <errno.h>
#include <stdio.h>

#include "sched/kstat.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define PIECE 500u /* kernels of a module: the simulated GPU reads so many hints */
#define ENTRY_MAX 512u
#define ATTRIBUTE_SHARED_PER_SM 81 /* CUDA's numbers */
#define ATTRIBUTE_RESERVED_SHARED 111
#define SHARED_UNIT 128u

static uint32_t blocks_per_sm(const struct ds_device_info *device, const struct sim_profile_kernel *kernel)
{
        const struct ds_kernel_info info = {.registers = kernel->registers, .static_shared = kernel->shared};
        uint32_t threads = kernel->block[0] * kernel->block[1] * kernel->block[2];

        return DS_MAX(ds_kstat_blocks_per_sm(device, &info, threads, 0), 1u);
}

/* Shared memory of a block so that no more than so many are resident on an SM. */
static uint32_t shared_for(const struct ds_device_info *device, uint32_t per_sm)
{
        uint32_t all = (uint32_t)device->attributes[ATTRIBUTE_SHARED_PER_SM];
        uint32_t reserved = (uint32_t)device->attributes[ATTRIBUTE_RESERVED_SHARED];
        uint32_t each = all / per_sm / SHARED_UNIT * SHARED_UNIT;

        return each > reserved + SHARED_UNIT ? each - reserved : SHARED_UNIT;
}

static size_t entry_print(uint32_t number, const char *suffix, uint32_t parameter, uint32_t shared, char *text)
{
        char virtual[64] = "";

        if (parameter)
                snprintf(virtual, sizeof(virtual), ".param .align 8 .b8 v[%u]", parameter);
        return (size_t)snprintf(text, ENTRY_MAX,
                ".visible .entry k%u%s(%s)\n{\n .shared .align 4 .b8 s[%u];\n .reg .b32 %%r<2>;\n"
                " mov.u32 %%r1, s;\n st.shared.u32 [%%r1], %%r1;\n ret;\n}\n",
                number, suffix, virtual, shared);
}

static size_t kernel_print(const struct ds_device_info *device, const struct sim_profile_kernel *kernel,
        uint32_t number, int evictable, char *text)
{
        uint32_t per_sm = blocks_per_sm(device, kernel), shared = shared_for(device, per_sm);
        uint64_t blocks = sim_profile_blocks(kernel), waves = DS_DIV_UP(blocks, (uint64_t)per_sm * device->n_sms);
        uint64_t block_ns = kernel->block_ns ? kernel->block_ns : kernel->ns / waves;
        size_t at = entry_print(number, "", 0, shared, text);

        if (evictable && kernel->ns > DS_SCHED_EVICT_BOUND_NS)
                at += entry_print(
                        number, DS_PTX_FORM_PERSISTENT_SUFFIX, sizeof(struct ds_ptx_virtual), shared, text + at);
        return at + (size_t)snprintf(text + at, ENTRY_MAX, "// detshare-sim: k%u block_ns=%llu bytes=%llu\n", number,
                            (unsigned long long)DS_MAX(block_ns, 1u), (unsigned long long)(kernel->bytes / blocks));
}

/* The kernels from first on, as many as a module has. */
static int module_open(const struct ds_device_ops *ops, ds_device *device, uint32_t space,
        const struct sim_profile *profile, uint32_t first, int evictable, struct ds_replay_forms *ret, char *log,
        size_t log_size)
{
        static const char head[] = ".version 8.0\n.target sm_75\n.address_size 64\n";
        ds_cleanup(ds_freep) char *text = ds_alloc(sizeof(head) + PIECE * 3 * (size_t)ENTRY_MAX);
        uint32_t end = DS_MIN(first + PIECE, profile->n_kernels);
        ds_device_module *module;
        char name[64];
        size_t at;
        int r;

        if (!text)
                return ds_error_origin(-ENOMEM);
        at = (size_t)sprintf(text, "%s", head);
        for (uint32_t i = first; i < end; i++)
                at += kernel_print(ops->info(device), &profile->kernels[i], i, evictable, text + at);
        r = ops->module_load(device, space, text, at, log, log_size, &module);
        if (r)
                return ds_error_trace(r);
        ret->modules[ret->n_modules++] = module;
        for (uint32_t i = first; i < end; i++) {
                snprintf(name, sizeof(name), "k%u", i);
                ret->kernels[i] = ops->kernel_find(module, name);
                snprintf(name, sizeof(name), "k%u" DS_PTX_FORM_PERSISTENT_SUFFIX, i);
                ret->of[i].persistent = ops->kernel_find(module, name);
        }
        return 0;
}

int ds_replay_forms_open(const struct ds_device_ops *ops, ds_device *device, uint32_t space,
        const struct ds_replay_workload *workload, int evictable, struct ds_replay_forms *ret, char *message,
        size_t message_size)
{
        const struct sim_profile *profile = workload->profile;
        char log[256] = "";
        int r = 0;

        ret->modules = ds_alloc0(DS_DIV_UP(profile->n_kernels, PIECE), sizeof(*ret->modules));
        ret->kernels = ds_alloc0(profile->n_kernels, sizeof(*ret->kernels));
        ret->of = ds_alloc0(profile->n_kernels, sizeof(*ret->of));
        if (!ret->modules || !ret->kernels || !ret->of)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < profile->n_kernels && !r; i += PIECE)
                r = module_open(ops, device, space, profile, i, evictable, ret, log, sizeof(log));
        if (r <= 0)
                return ds_error_trace(r);
        snprintf(message, message_size, "%s as code: %s", profile->name, log);
        return DS_REPLAY_E_BAD_FILE;
}

void ds_replay_forms_close(const struct ds_device_ops *ops, ds_device *device, struct ds_replay_forms *forms)
{
        for (uint32_t i = 0; i < forms->n_modules; i++)
                ops->module_unload(device, forms->modules[i]);
        ds_free(forms->modules);
        ds_free(forms->kernels);
        ds_free(forms->of);
        *forms = (struct ds_replay_forms){0};
}
