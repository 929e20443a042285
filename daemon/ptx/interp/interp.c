/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter's interface: preparing a module, and finding things in it
 *
 * The order matters: first the offsets of all variables, then their memory, so that decoding can put addresses into
 * operations. Then functions, then kernels, which need the call graph, and initial values last.
 */
#include <errno.h>
#include <stdlib.h>

#include "ptx/interp/area.h"
#include "ptx/interp/decode.h"
#include "ptx/interp/heap.h"
#include "ptx/interp/layout.h"
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

/* Compares two aliases by name; equal names keep the order of the text. */
static int compare_aliases(const void *a, const void *b)
{
        const struct ds_ptx_directive *x = *(const struct ds_ptx_directive *const *)a;
        const struct ds_ptx_directive *y = *(const struct ds_ptx_directive *const *)b;
        int order = strcmp(x->alias->name, y->alias->name);

        return order ? order : x < y ? -1 : x > y;
}

/* The last alias of this name; NULL: there is none. */
static const struct ds_ptx_directive *find_alias(const struct ds_ptx_directive **sorted, size_t n, const char *name)
{
        size_t low = 0, high = n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (strcmp(sorted[middle]->alias->name, name) <= 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low && strcmp(sorted[low - 1]->alias->name, name) == 0 ? sorted[low - 1] : NULL;
}

/*
 * Resolves ".alias a, b": calls of a become calls of b. Chains of aliases are not followed: PTX has none. The search is
 * sorted, since a module may have a hundred thousand aliases and as many functions.
 */
static int find_aliases(ds_interp *interp)
{
        const struct ds_ptx_module *m = interp->module;
        const struct ds_ptx_directive **sorted, *d;
        size_t n = 0;

        for (uint32_t i = 0; i < m->n_directives; i++)
                n += m->directives[i].kind == DS_PTX_DIRECTIVE_ALIAS;
        if (!n)
                return 0;
        sorted = ds_arena_alloc(interp->arena, n, sizeof(*sorted));
        if (!sorted)
                return ds_error_origin(-ENOMEM);
        n = 0;
        for (uint32_t i = 0; i < m->n_directives; i++)
                if (m->directives[i].kind == DS_PTX_DIRECTIVE_ALIAS)
                        sorted[n++] = &m->directives[i];
        qsort(sorted, n, sizeof(*sorted), compare_aliases);
        for (uint32_t k = 0; k < m->n_functions; k++) {
                d = m->functions[k]->has_body ? NULL : find_alias(sorted, n, m->functions[k]->name);
                if (d)
                        interp->funcs[k].alias = &interp->funcs[d->aliasee->definition->index];
        }
        return 0;
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
        r = find_aliases(interp);
        if (r)
                return ds_error_trace(r);
        r = ds_ix_layout_module(interp, diags);
        if (!r)
                r = layout_functions(interp, diags);
        if (!r)
                r = ds_ix_make_areas(interp);
        if (!r)
                r = decode_functions(interp, diags);
        if (r)
                return r;
        /* initial values may contain addresses of functions, so they follow the decoding of functions */
        ds_ix_initialise_areas(interp);
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
        (void)ds_ix_heap_free(interp->heap);
        (void)ds_ix_area_free(interp->globals, interp->areas_size);
        return ds_free(interp);
}

/* --- lookup --- */
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

        if (interp->heap)
                return 1;
        for (uint32_t i = 0; i < m->n_vars; i++) {
                const struct ds_ptx_var *var = m->vars[i];

                /* Kernels write global variables, the host writes constants. Variables whose names begin with $ are
                 * the compiler's printf formats, which nothing writes */
                if ((var->space == DS_PTX_IN_GLOBAL || var->space == DS_PTX_IN_CONST) &&
                        var->linkage != DS_PTX_LINKAGE_EXTERN && var->name[0] != '$')
                        return 1;
        }
        return 0;
}
