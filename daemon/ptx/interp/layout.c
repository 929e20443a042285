/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout: registers in frames, parameters and variables in their memories
 *
 * Module variables of the global and constant spaces lie in two areas that the interpreter owns, at host addresses, so
 * that the daemon can copy to and from them like any memory. Shared variables are symbols: their offset depends on the
 * kernel, which has only the shared variables that it and its callees use.
 */
#include <errno.h>

#include "ptx/interp/area.h"
#include "ptx/interp/decode.h"
#include "ptx/interp/layout.h"
#include "util/alloc.h"
#include "util/error.h"

#define MAX_ARGS_BYTES 65536u

static int refuse(ds_interp *interp, struct ds_ptx_diags *diags, uint32_t line, const char *what, const char *name)
{
        const struct ds_ptx_module *m = interp->module;

        ds_ptx_diag_add(diags, m->text, m->length, line, 1, "%.80s: %s", name ? name : "?", what);
        return DS_INTERP_E_UNSUPPORTED;
}

/* --- areas of the module --- */
static int add_to_area(uint64_t *size, const struct ds_ptx_var *var, uint64_t *ret_offset)
{
        uint64_t align = DS_MAX(var->align, 16u), offset = DS_ALIGN_UP(*size, align);

        if (var->size > DS_INTERP_MAX_GLOBALS || offset > DS_INTERP_MAX_GLOBALS - var->size || align > 65536)
                return 0;
        *ret_offset = offset;
        *size = offset + var->size;
        return 1;
}

/* Assigns a symbol number to a shared variable; the variable's offset is decided per kernel. */
static int add_shared(ds_interp *interp, const struct ds_ptx_var *var, uint32_t *ret_symbol)
{
        size_t capacity = interp->shared_capacity;

        interp->shared =
                ds_arena_grow(interp->arena, interp->shared, interp->n_shared, &capacity, sizeof(*interp->shared));
        if (!interp->shared)
                return ds_error_origin(-ENOMEM);
        interp->shared_capacity = (uint32_t)capacity;
        interp->shared[interp->n_shared] = (struct ds_ix_shared_var){
                .var = var,
                .align = DS_MAX(var->align, 1u),
                .size = var->unsized || var->linkage == DS_PTX_LINKAGE_EXTERN ? 0 : var->size,
                .dynamic = var->unsized || var->linkage == DS_PTX_LINKAGE_EXTERN,
        };
        *ret_symbol = interp->n_shared++;
        return 0;
}

/* Assigns the value of a variable at module level or inside a function: its offset in an area, or its symbol. */
static int place_var(ds_interp *interp, struct ds_ptx_diags *diags, const struct ds_ptx_var *var, uint64_t *value)
{
        uint32_t symbol = 0;
        int r;

        switch (var->space) {
        case DS_PTX_IN_GLOBAL:
        case DS_PTX_IN_CONST:
                if (var->linkage == DS_PTX_LINKAGE_EXTERN)
                        return 0; /* an extern variable gets its definition's address later (resolve_externs) */
                if (var->type == DS_PTX_TYPE_TEXREF || var->type == DS_PTX_TYPE_SAMPLERREF ||
                        var->type == DS_PTX_TYPE_SURFREF)
                        return refuse(interp, diags, var->line, "textures are not supported by the simulated device",
                                var->name);
                if (!add_to_area(
                            var->space == DS_PTX_IN_GLOBAL ? &interp->globals_size : &interp->consts_size, var, value))
                        return refuse(interp, diags, var->line, "the module's variables are too large", var->name);
                return 0;
        case DS_PTX_IN_SHARED:
                r = add_shared(interp, var, &symbol);
                *value = symbol;
                return r;
        default:
                return 0;
        }
}

/* Gives each declaration the address of its definition. */
static int resolve_externs(ds_interp *interp, struct ds_ptx_diags *diags)
{
        const struct ds_ptx_module *m = interp->module;
        int r = 0;

        for (uint32_t i = 0; i < m->n_vars; i++) {
                const struct ds_ptx_var *var = m->vars[i];

                if (var->linkage != DS_PTX_LINKAGE_EXTERN ||
                        (var->space != DS_PTX_IN_GLOBAL && var->space != DS_PTX_IN_CONST))
                        continue;
                if (var->definition && var->definition != var)
                        interp->var_value[i] = interp->var_value[var->definition->index];
                else
                        r = refuse(interp, diags, var->line, "the variable is declared but not defined", var->name);
        }
        return r;
}

int ds_ix_layout_module(ds_interp *interp, struct ds_ptx_diags *diags)
{
        const struct ds_ptx_module *m = interp->module;
        uint32_t unused;
        int r = 0;

        interp->var_value = ds_arena_alloc(interp->arena, (size_t)m->n_vars + 1, sizeof(*interp->var_value));
        if (!interp->var_value)
                return ds_error_origin(-ENOMEM);
        /* reserves the symbols 0 and 1, which stand for no variable */
        for (int k = 0; k < DS_IX_SYM_SHARED && !r; k++)
                r = add_shared(interp, &(const struct ds_ptx_var){.unsized = false}, &unused);
        for (uint32_t i = 0; i < m->n_vars && !r; i++)
                r = place_var(interp, diags, m->vars[i], &interp->var_value[i]);
        return r ? r : resolve_externs(interp, diags);
}

/* --- functions --- */
static int layout_registers(ds_interp *interp, ds_ix_func *func, struct ds_ptx_diags *diags)
{
        const struct ds_ptx_function *ir = func->ir;
        uint64_t bytes = 0;

        func->reg = ds_arena_alloc(interp->arena, (size_t)ir->n_regs + 1, sizeof(*func->reg));
        if (!func->reg)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < ir->n_regs; i++) {
                uint32_t width = ds_ptx_type_bits((enum ds_ptx_type)ir->regs[i].type);

                func->reg[i] = (uint32_t)bytes;
                bytes += width == 1 ? 4 : 0;
                if (width == 1)
                        continue;
                if (width < 8 || width > 128)
                        return refuse(interp, diags, ir->line, "registers of a type that is not supported", ir->name);
                bytes = DS_ALIGN_UP(bytes, 64);
                func->reg[i] = (uint32_t)bytes;
                bytes += (uint64_t)width / 8 * DS_IX_LANES;
                if (bytes > DS_IX_MAX_FRAME)
                        return refuse(interp, diags, ir->line, "too many registers", ir->name);
        }
        func->frame_bytes = (uint32_t)DS_ALIGN_UP(bytes, 64);
        return bytes > DS_IX_MAX_FRAME ? refuse(interp, diags, ir->line, "too many registers", ir->name) : 0;
}

/* Lays out the formals of a device function; a kernel's parameters come from the launch. */
static int layout_formals(ds_interp *interp, ds_ix_func *func, uint64_t *args)
{
        const struct ds_ptx_function *ir = func->ir;

        func->param_offset = ds_arena_alloc(interp->arena, (size_t)ir->n_params + 1, sizeof(*func->param_offset));
        func->ret_offset = ds_arena_alloc(interp->arena, (size_t)ir->n_rets + 1, sizeof(*func->ret_offset));
        if (!func->param_offset || !func->ret_offset)
                return ds_error_origin(-ENOMEM);
        for (uint32_t k = 0; k < ir->n_params + ir->n_rets; k++) {
                const struct ds_ptx_var *var = k < ir->n_params ? ir->params[k] : ir->rets[k - ir->n_params];
                uint32_t *offset = k < ir->n_params ? &func->param_offset[k] : &func->ret_offset[k - ir->n_params];

                if (ir->is_entry) {
                        *offset = (uint32_t)var->offset;
                        continue;
                }
                *offset = (uint32_t)*args;
                *args += DS_ALIGN_UP(DS_MIN(var->size, (uint64_t)MAX_ARGS_BYTES + 1), 16);
                if (*args > MAX_ARGS_BYTES)
                        break;
        }
        return 0;
}

static int use_shared(ds_interp *interp, ds_ix_func *func, uint32_t symbol)
{
        size_t capacity = func->shared_capacity;

        if (func->n_shared && func->shared[func->n_shared - 1] == symbol)
                return 0;
        func->shared = ds_arena_grow(interp->arena, func->shared, func->n_shared, &capacity, sizeof(*func->shared));
        if (!func->shared)
                return ds_error_origin(-ENOMEM);
        func->shared_capacity = (uint32_t)capacity;
        func->shared[func->n_shared++] = symbol;
        return 0;
}

static int layout_vars(ds_interp *interp, ds_ix_func *func, struct ds_ptx_diags *diags, uint64_t *args)
{
        const struct ds_ptx_function *ir = func->ir;
        uint64_t local = 0;
        int r;

        func->var_value = ds_arena_alloc(interp->arena, (size_t)ir->n_vars + 1, sizeof(*func->var_value));
        if (!func->var_value)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < ir->n_vars && *args <= MAX_ARGS_BYTES && local <= DS_IX_MAX_LOCAL; i++) {
                const struct ds_ptx_var *var = ir->vars[i];

                if (var->space == DS_PTX_IN_PARAM) {
                        func->var_value[i] = *args;
                        *args += DS_ALIGN_UP(DS_MIN(var->size, (uint64_t)MAX_ARGS_BYTES + 1), 16);
                } else if (var->space == DS_PTX_IN_LOCAL) {
                        local = DS_ALIGN_UP(local, (uint64_t)DS_MIN(DS_MAX(var->align, 1u), 65536u));
                        func->var_value[i] = local;
                        local += DS_MIN(var->size, (uint64_t)DS_IX_MAX_LOCAL + 1);
                } else {
                        r = place_var(interp, diags, var, &func->var_value[i]);
                        if (r)
                                return r;
                }
        }
        if (local > DS_IX_MAX_LOCAL)
                return refuse(interp, diags, ir->line, "too much local memory", ir->name);
        func->local_bytes = (uint32_t)DS_ALIGN_UP(local, 16);
        return 0;
}

int ds_ix_layout(ds_interp *interp, ds_ix_func *func, struct ds_ptx_diags *diags)
{
        uint64_t args = 0;
        int r = layout_registers(interp, func, diags);

        if (!r)
                r = layout_formals(interp, func, &args);
        if (!r)
                r = layout_vars(interp, func, diags, &args);
        if (r)
                return r;
        if (args > MAX_ARGS_BYTES)
                return refuse(interp, diags, func->ir->line, "too many bytes of parameters", func->ir->name);
        func->args_bytes = (uint32_t)args;
        return 0;
}

/* --- lookup --- */
/* Value of a variable (offset, address or symbol), wherever it is declared. Returns the space that accesses use: for
 * parameters, the frame's or the kernel's. */
static int value_of(
        ds_interp *interp, const struct ds_ptx_function *in, const struct ds_ptx_var *var, uint64_t *ret_value)
{
        const ds_ix_func *func = var->function ? &interp->funcs[var->function->index] : NULL;
        const struct ds_ptx_function *f = var->function;

        if (!f) {
                *ret_value = interp->var_value[var->index];
                return 1;
        }
        if (f != in)
                return 0;
        if (var->index < f->n_vars && f->vars[var->index] == var)
                *ret_value = func->var_value[var->index];
        else if (var->index < f->n_params && f->params[var->index] == var)
                *ret_value = func->param_offset[var->index];
        else if (var->index < f->n_rets && f->rets[var->index] == var)
                *ret_value = func->ret_offset[var->index];
        else
                return 0;
        return 1;
}

static int is_formal(const struct ds_ptx_var *var)
{
        const struct ds_ptx_function *f = var->function;

        return f && var->index < f->n_params && f->params[var->index] == var;
}

int ds_ix_place_of(
        ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_var *var, struct ds_ix_place *ret)
{
        ds_interp *interp = d->interp;

        *ret = (struct ds_ix_place){.symbol = DS_IX_SYM_NONE};
        if (!value_of(interp, d->ir, var, &ret->value))
                return ds_ix_refuse(d, in, "variable %s is out of reach", var->name ? var->name : "?");
        switch (var->space) {
        case DS_PTX_IN_GLOBAL:
                ret->space = DS_IX_GLOBAL;
                ret->value += (uintptr_t)interp->globals;
                return 1;
        case DS_PTX_IN_CONST:
                ret->space = DS_IX_CONST;
                ret->value += (uintptr_t)interp->consts;
                return 1;
        case DS_PTX_IN_SHARED:
                ret->space = DS_IX_SHARED;
                ret->symbol = (uint32_t)ret->value;
                ret->value = 0;
                if (use_shared(interp, d->func, ret->symbol)) {
                        d->out_of_memory = 1;
                        return 0;
                }
                return 1;
        case DS_PTX_IN_LOCAL:
                ret->space = DS_IX_LOCAL;
                ret->symbol = DS_IX_SYM_LOCAL;
                return 1;
        case DS_PTX_IN_PARAM:
                ret->space = d->ir->is_entry && is_formal(var) ? DS_IX_PARAM : DS_IX_ARGS;
                return 1;
        default:
                return ds_ix_refuse(d, in, "variable %s has no address", var->name ? var->name : "?");
        }
}

/* --- initialisers --- */
static uint64_t address_of(ds_interp *interp, const struct ds_ptx_reloc *reloc)
{
        const struct ds_ptx_var *var = reloc->var;
        uint64_t value = 0;

        if (reloc->function) {
                ds_ix_behind(interp, reloc->function)->address_taken = 1;
                return DS_IX_CODE_BASE + UINT64_C(16) * ds_ix_behind(interp, reloc->function)->ir->index;
        }
        if (!var || !value_of(interp, var->function, var, &value))
                return 0;
        if (var->space == DS_PTX_IN_GLOBAL)
                return (uintptr_t)interp->globals + value;
        return var->space == DS_PTX_IN_CONST ? (uintptr_t)interp->consts + value : 0;
}

static void initialise(ds_interp *interp, const struct ds_ptx_var *var, uint64_t offset)
{
        uint8_t *to = (var->space == DS_PTX_IN_GLOBAL ? interp->globals : interp->consts) + offset;

        if (var->linkage == DS_PTX_LINKAGE_EXTERN || !var->data)
                return;
        memcpy(to, var->data, DS_MIN(var->initialised, var->size));
        for (uint32_t k = 0; k < var->n_relocs; k++) {
                const struct ds_ptx_reloc *r = &var->relocs[k];
                uint64_t value = address_of(interp, r) + (uint64_t)r->addend;

                if (r->mask)
                        value = (value & r->mask) >> __builtin_ctzll(r->mask);
                if (r->size <= sizeof(value) && r->size <= var->size && r->offset <= var->size - r->size)
                        memcpy(to + r->offset, &value, r->size);
        }
}

static int in_areas(const struct ds_ptx_var *var)
{
        return var->space == DS_PTX_IN_GLOBAL || var->space == DS_PTX_IN_CONST;
}

int ds_ix_make_areas(ds_interp *interp)
{
        /* an unused piece between the areas separates addresses of globals from addresses of constants */
        const uint64_t consts = DS_ALIGN_UP(interp->globals_size, (uint64_t)DS_IX_AREA_ALIGN) + DS_IX_AREA_ALIGN;

        interp->areas_size = consts + interp->consts_size + DS_IX_AREA_ALIGN;
        interp->globals = ds_ix_area_new(interp->areas_size);
        if (!interp->globals)
                return ds_error_origin(-ENOMEM);
        interp->consts = interp->globals + consts;
        return 0;
}

void ds_ix_initialise_areas(ds_interp *interp)
{
        const struct ds_ptx_module *m = interp->module;

        for (uint32_t i = 0; i < m->n_vars; i++) {
                if (in_areas(m->vars[i]))
                        initialise(interp, m->vars[i], interp->var_value[i]);
        }
        for (uint32_t f = 0; f < m->n_functions; f++) {
                const struct ds_ptx_function *ir = m->functions[f];

                for (uint32_t i = 0; interp->funcs[f].var_value && i < ir->n_vars; i++) {
                        if (in_areas(ir->vars[i]))
                                initialise(interp, ir->vars[i], interp->funcs[f].var_value[i]);
                }
        }
}
