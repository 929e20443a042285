/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a profile's kernels as PTX
 */
#include "replay/forms.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sched/kstat.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define PIECE 250u /* kernels per module, each with two entries; the simulated GPU reads hints for no more entries */
#define ENTRY_MAX 512u
#define KERNEL_MAX (6u * ENTRY_MAX) /* bytes of text for all entries of a kernel, with its forms and hints */
#define ATTRIBUTE_SHARED_PER_SM 81  /* numbers of CUDA's device attributes */
#define ATTRIBUTE_RESERVED_SHARED 111
#define SHARED_UNIT 128u

static uint32_t blocks_per_sm(const struct ds_device_info *device, const struct sim_profile_kernel *kernel)
{
        const struct ds_kernel_info info = {.registers = kernel->registers, .static_shared = kernel->shared};
        uint32_t threads = kernel->block[0] * kernel->block[1] * kernel->block[2];

        return DS_MAX(ds_kstat_blocks_per_sm(device, &info, threads, 0), 1u);
}

/* Shared memory per block, so that at most per_sm blocks are resident on an SM. */
static uint32_t shared_for(const struct ds_device_info *device, uint32_t per_sm)
{
        uint32_t all = (uint32_t)device->attributes[ATTRIBUTE_SHARED_PER_SM];
        uint32_t reserved = (uint32_t)device->attributes[ATTRIBUTE_RESERVED_SHARED];
        uint32_t each = all / per_sm / SHARED_UNIT * SHARED_UNIT;

        return each > reserved + SHARED_UNIT ? each - reserved : SHARED_UNIT;
}

/* A kernel entry in a module. Its name contains the session, because the simulated L2 identifies memory by the name. */
struct entry {
        char name[48];
        uint64_t block_ns, blocks;
        uint32_t shared, channels[2]; /* channels [0] to before [1]; [1] 0: all channels */
        int evictable;
};

static void entry_name(uint32_t space, uint32_t number, int coloured, char name[static 48])
{
        snprintf(name, 48, "s%u_%s%u", space, coloured ? "c" : "k", number);
}

static size_t entry_print(const struct entry *entry, const char *suffix, uint32_t parameter, char *text)
{
        char virtual[64] = "";

        if (parameter)
                snprintf(virtual, sizeof(virtual), ".param .align 8 .b8 v[%u]", parameter);
        return (size_t)snprintf(text, ENTRY_MAX,
                ".visible .entry %s%s(%s)\n{\n .shared .align 4 .b8 s[%u];\n .reg .b32 %%r<2>;\n"
                " mov.u32 %%r1, s;\n st.shared.u32 [%%r1], %%r1;\n ret;\n}\n",
                entry->name, suffix, virtual, entry->shared);
}

static size_t hint_print(const struct entry *entry, const struct sim_profile_kernel *kernel, char *text)
{
        size_t at = (size_t)snprintf(text, ENTRY_MAX,
                "// detshare-sim: %s block_ns=%llu issue_ns=%llu bytes=%llu written=%llu reuse=%llu", entry->name,
                (unsigned long long)DS_MAX(entry->block_ns, 1u), (unsigned long long)kernel->issue_ns,
                (unsigned long long)(kernel->bytes / entry->blocks),
                (unsigned long long)(kernel->written / entry->blocks), (unsigned long long)kernel->reuse);

        if (entry->channels[1])
                at += (size_t)snprintf(
                        text + at, ENTRY_MAX - at, " channels=%u-%u", entry->channels[0], entry->channels[1] - 1);
        return at + (size_t)snprintf(text + at, ENTRY_MAX - at, "\n");
}

static size_t forms_print(const struct entry *entry, const struct sim_profile_kernel *kernel, char *text)
{
        size_t at = entry_print(entry, "", 0, text);

        if (entry->evictable)
                at += entry_print(entry, DS_PTX_FORM_PERSISTENT_SUFFIX, sizeof(struct ds_ptx_virtual), text + at);
        return at + hint_print(entry, kernel, text + at);
}

static int is_coloured(const struct sim_profile_kernel *kernel, const struct ds_replay_forms_want *want)
{
        return kernel->memory_bound && want->channels[1];
}

static size_t kernel_print(const struct ds_device_info *device, uint32_t space, const struct sim_profile_kernel *kernel,
        uint32_t number, const struct ds_replay_forms_want *want, char *text)
{
        const uint32_t per_sm = blocks_per_sm(device, kernel);
        struct entry entry = {.shared = shared_for(device, per_sm), .blocks = sim_profile_blocks(kernel)};
        const uint64_t waves = DS_DIV_UP(entry.blocks, (uint64_t)per_sm * device->n_sms);
        size_t at;

        entry.block_ns = kernel->block_ns ? kernel->block_ns : kernel->ns / waves;
        entry.evictable = want->evictable && kernel->ns > DS_SCHED_EVICT_BOUND_NS;
        entry_name(space, number, 0, entry.name);
        at = forms_print(&entry, kernel, text);
        if (!is_coloured(kernel, want))
                return at;
        entry_name(space, number, 1, entry.name);
        memcpy(entry.channels, want->channels, sizeof(entry.channels));
        return at + forms_print(&entry, kernel, text + at);
}

static void form_find(
        const struct ds_device_ops *ops, ds_device_module *module, const char *name, struct ds_replay_form *ret)
{
        char persistent[80];

        snprintf(persistent, sizeof(persistent), "%s" DS_PTX_FORM_PERSISTENT_SUFFIX, name);
        ret->native = ops->kernel_find(module, name);
        ret->of.persistent = ops->kernel_find(module, persistent);
}

/* Write the kernels from `first` on, as many as one module holds. */
static int module_open(const struct ds_device_ops *ops, ds_device *device, uint32_t space,
        const struct sim_profile *profile, uint32_t first, const struct ds_replay_forms_want *want,
        struct ds_replay_forms *ret, char *log, size_t log_size)
{
        static const char head[] = ".version 8.0\n.target sm_75\n.address_size 64\n";
        ds_cleanup(ds_freep) char *text = ds_alloc(sizeof(head) + PIECE * (size_t)KERNEL_MAX);
        uint32_t end = DS_MIN(first + PIECE, profile->n_kernels);
        ds_device_module *module;
        char name[48];
        size_t at;
        int r;

        if (!text)
                return ds_error_origin(-ENOMEM);
        at = (size_t)sprintf(text, "%s", head);
        for (uint32_t i = first; i < end; i++)
                at += kernel_print(ops->info(device), space, &profile->kernels[i], i, want, text + at);
        r = ops->module_load(device, space, text, at, log, log_size, &module);
        if (r)
                return ds_error_trace(r);
        ret->modules[ret->n_modules++] = module;
        for (uint32_t i = first; i < end; i++) {
                entry_name(space, i, 0, name);
                form_find(ops, module, name, &ret->plain[i]);
                entry_name(space, i, 1, name);
                form_find(ops, module, name, &ret->coloured[i]);
        }
        return 0;
}

int ds_replay_forms_open(const struct ds_device_ops *ops, ds_device *device, uint32_t space,
        const struct ds_replay_workload *workload, const struct ds_replay_forms_want *want, struct ds_replay_forms *ret,
        char *message, size_t message_size)
{
        const struct sim_profile *profile = workload->profile;
        char log[256] = "";
        int r = 0;

        ret->modules = ds_alloc0(DS_DIV_UP(profile->n_kernels, PIECE), sizeof(*ret->modules));
        ret->plain = ds_alloc0(profile->n_kernels, sizeof(*ret->plain));
        ret->coloured = ds_alloc0(profile->n_kernels, sizeof(*ret->coloured));
        if (!ret->modules || !ret->plain || !ret->coloured)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < profile->n_kernels && !r; i += PIECE)
                r = module_open(ops, device, space, profile, i, want, ret, log, sizeof(log));
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
        ds_free(forms->plain);
        ds_free(forms->coloured);
        *forms = (struct ds_replay_forms){0};
}
