/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter's public face: making a module ready, and finding things in it
 *
 * Order matters: offsets of all variables first, then their memory, so that decoding can put addresses into operations,
 * then functions, then kernels, which need to know who calls whom, and initial values last.
 */
#include <errno.h>

#include "ptx/interp_decode.h"
#include "ptx/interp_layout.h"
#include "util/alloc.h"
#include "util/error.h"

#define ARENA_LIMIT (UINT64_C(1) << 30)
#define MAX_FUNCTIONS 65536u

static int layout_functions(ds_interp *interp, struct ds_ptx_diags *diags)
{
        const struct ds_ptx_module *m = interp->module;
        int r = 0, unsupported = 0;

        for (uint32_t i = 0; i < m->n_functions && r >= 0; i++) {
                interp->funcs[i].ir = m->functions[i];
                if (!m->functions[i]->has_body)
                        continue;
                r = ds_ix_layout(interp, &interp->funcs[i], diags);
                unsupported |= r > 0;
        }
        return r < 0 ? r : unsupported ? DS_INTERP_E_UNSUPPORTED : 0;
}

static int decode_functions(ds_interp *interp, struct ds_ptx_diags *diags)
{
        const struct ds_ptx_module *m = interp->module;
        int r = 0, unsupported = 0;

        for (uint32_t i = 0; i < m->n_functions && r >= 0; i++) {
                if (!m->functions[i]->has_body)
                        continue;
                r = ds_ix_decode(interp, &interp->funcs[i], diags);
                unsupported |= r > 0;
        }
        return r < 0 ? r : unsupported ? DS_INTERP_E_UNSUPPORTED : 0;
}

/* .alias a, b: calls of a are calls of b. Chains of aliases are not followed: PTX has none. */
static void find_aliases(ds_interp *interp)
{
        const struct ds_ptx_module *m = interp->module;

        for (uint32_t i = 0; i < m->n_directives; i++) {
                const struct ds_ptx_directive *d = &m->directives[i];

                if (d->kind != DS_PTX_DIRECTIVE_ALIAS)
                        continue;
                for (uint32_t k = 0; k < m->n_functions; k++) {
                        if (!m->functions[k]->has_body && strcmp(m->functions[k]->name, d->alias->name) == 0)
                                interp->funcs[k].alias = &interp->funcs[d->aliasee->definition->index];
                }
        }
}

static int build(ds_interp *interp, struct ds_ptx_diags *diags)
{
        const struct ds_ptx_module *m = interp->module;
        int r;

        interp->arena = ds_arena_new(ARENA_LIMIT);
        if (!interp->arena)
                return ds_error_origin(-ENOMEM);
        interp->funcs = ds_arena_alloc(interp->arena, (size_t)m->n_functions + 1, sizeof(*interp->funcs));
        if (!interp->funcs)
                return ds_error_origin(-ENOMEM);
        find_aliases(interp);
        r = ds_ix_layout_module(interp, diags);
        if (!r)
                r = layout_functions(interp, diags);
        if (!r)
                r = ds_ix_make_areas(interp);
        if (!r)
                r = decode_functions(interp, diags);
        if (r)
                return r;
        ds_ix_initialise_areas(interp); /* takes addresses of functions: before kernels are made */
        return ds_ix_make_kernels(interp, diags);
}

int ds_interp_new(const struct ds_ptx_module *module, struct ds_ptx_diags *diags, ds_interp **ret)
{
        static _Atomic uint64_t serial;
        ds_cleanup(ds_interp_freep) ds_interp *interp = ds_alloc0(1, sizeof(*interp));
        int r;

        if (!interp)
                return ds_error_origin(-ENOMEM);
        interp->module = module;
        interp->isa = ds_ix_isa();
        interp->serial = 1 + atomic_fetch_add(&serial, 1);
        if (module->n_functions > MAX_FUNCTIONS || module->address_size != 64) {
                ds_ptx_diag_add(diags, module->text, module->length, 1, 1, "%s",
                        module->address_size != 64
                                ? "only modules with 64-bit addresses are supported by the simulated device"
                                : "too many functions");
                return DS_INTERP_E_UNSUPPORTED;
        }
        r = build(interp, diags);
        if (r)
                return ds_error_trace(r);
        *ret = DS_TAKE_PTR(interp);
        return 0;
}

ds_interp *ds_interp_free(ds_interp *interp)
{
        if (!interp)
                return NULL;
        ds_arena_free(interp->arena);
        ds_free(interp->globals_memory);
        ds_free(interp->consts_memory);
        return ds_free(interp);
}

/* --- finding --- */
const ds_interp_kernel *ds_interp_kernel_at(const ds_interp *interp, size_t index)
{
        return index < interp->n_kernels ? &interp->kernels[index] : NULL;
}

const ds_interp_kernel *ds_interp_find_kernel(const ds_interp *interp, const char *name)
{
        for (uint32_t i = 0; i < interp->n_kernels; i++) {
                if (strcmp(interp->kernels[i].info.name, name) == 0)
                        return &interp->kernels[i];
        }
        return NULL;
}

const struct ds_interp_kernel_info *ds_interp_kernel_info(const ds_interp_kernel *kernel)
{
        return &kernel->info;
}

int ds_interp_find_global(const ds_interp *interp, const char *name, uint64_t *ret_va, uint64_t *ret_size)
{
        const struct ds_ptx_module *m = interp->module;

        for (uint32_t i = 0; i < m->n_vars; i++) {
                const struct ds_ptx_var *var = m->vars[i];
                const uint8_t *area = var->space == DS_PTX_IN_GLOBAL ? interp->globals : interp->consts;

                if ((var->space != DS_PTX_IN_GLOBAL && var->space != DS_PTX_IN_CONST) ||
                        var->linkage == DS_PTX_LINKAGE_EXTERN || strcmp(var->name, name) != 0)
                        continue;
                *ret_va = (uintptr_t)area + interp->var_value[i];
                *ret_size = var->size;
                return 0;
        }
        return -ENOENT;
}

int ds_interp_has_globals(const ds_interp *interp)
{
        const struct ds_ptx_module *m = interp->module;

        for (uint32_t i = 0; i < m->n_vars; i++) {
                const struct ds_ptx_var *var = m->vars[i];

                /* what printf() is given is the compiler's, and nobody writes to it */
                if (var->space == DS_PTX_IN_GLOBAL && var->linkage != DS_PTX_LINKAGE_EXTERN && var->name[0] != '$')
                        return 1;
        }
        return 0;
}
