/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/pass/colour.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ptx/pass/colour_trace.h"
#include "ptx/pass/colour_write.h"
#include "ptx/pass/pass.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define OLD_PARAM_BYTES 4352u /* most bytes of a kernel's parameters before PTX 8.1 or sm_70 */
#define NAME_MAX_BYTES 4096u  /* most bytes of a kernel's name with the suffix */

/* --- layouts --- */

bool ds_ptx_colour_layout_is_good(const struct ds_ptx_colour_layout *l)
{
        if (l->sector_bits < DS_PTX_COLOUR_SECTOR_MIN || l->sector_bits > DS_PTX_COLOUR_SECTOR_MAX)
                return false;
        return l->kind == DS_PTX_COLOUR_REGULAR ? l->shift <= DS_PTX_COLOUR_SHIFT_MAX
                                                : l->kind == DS_PTX_COLOUR_TABLE && !l->shift;
}

/* Computes the parameters of a coloured launch. The window's address is subtracted here, so that the kernel computes
 * directly on logical addresses, with arithmetic that wraps. */
bool ds_ptx_colour_set(const struct ds_ptx_colour_layout *layout, uint64_t window, uint64_t size, uint64_t pool,
        uint64_t table, struct ds_ptx_colour *ret)
{
        uint64_t rest = (UINT64_C(1) << layout->sector_bits) - 1, first = window >> layout->sector_bits;

        if (!ds_ptx_colour_layout_is_good(layout) || ((window | pool) & rest) || !size || window + (size - 1) < window)
                return false;
        if (layout->kind == DS_PTX_COLOUR_REGULAR) {
                *ret = (struct ds_ptx_colour){.pool = pool - (window << layout->shift)};
                return true;
        }
        if (!table || table & 3 || first >> 32 != (window + (size - 1)) >> layout->sector_bits >> 32)
                return false;
        *ret = (struct ds_ptx_colour){.pool = pool, .table = table - (first & UINT32_MAX) * sizeof(uint32_t)};
        return true;
}

uint64_t ds_ptx_colour_place(
        const struct ds_ptx_colour_layout *layout, const struct ds_ptx_colour *colour, uint64_t logical, uint32_t entry)
{
        uint64_t rest = logical & ((UINT64_C(1) << layout->sector_bits) - 1);

        if (layout->kind == DS_PTX_COLOUR_TABLE)
                return colour->pool + ((uint64_t)entry << layout->sector_bits) + rest;
        return colour->pool + ((logical - rest) << layout->shift) + rest;
}

bool ds_ptx_colour_name(const char *kernel, uint64_t mask, char *buffer, size_t size)
{
        int n = snprintf(buffer, size, "%s" DS_PTX_COLOUR_SUFFIX "%" PRIx64, kernel, mask);

        return mask && n > 0 && (size_t)n < size;
}

/* --- verdicts --- */

static void refuse(struct ds_ptx_colour_verdict *v, uint32_t line, const char *fmt, ...)
        __attribute__((__format__(__printf__, 3, 4)));

static void refuse(struct ds_ptx_colour_verdict *v, uint32_t line, const char *fmt, ...)
{
        va_list args;

        va_start(args, fmt);
        vsnprintf(v->reason, sizeof(v->reason), fmt, args);
        va_end(args);
        v->line = line;
}

/* A variable declared inside the function, of which a copy of the function would have another instance; NULL: there
 * is none. */
static const struct ds_ptx_var *own_variable(const struct ds_ptx_function *f)
{
        for (uint32_t k = 0; k < f->n_vars; k++)
                if (f->vars[k]->space == DS_PTX_IN_GLOBAL || f->vars[k]->space == DS_PTX_IN_CONST)
                        return f->vars[k];
        return NULL;
}

/* Checks everything except the instructions; true: nothing prevents colouring. */
static bool looks_right(
        const struct ds_ptx_module *m, const struct ds_ptx_function *f, uint64_t mask, struct ds_ptx_colour_verdict *v)
{
        uint64_t limit = m->version >= 81 && m->target >= 70 ? DS_PTX_MAX_PARAM_BYTES : OLD_PARAM_BYTES;
        const struct ds_ptx_var *own = own_variable(f);

        if (own)
                refuse(v, own->line, "has a variable of its own in memory, and a copy would have another");
        else if (m->address_size != 64)
                refuse(v, f->line, "has addresses of %u bits", m->address_size);
        else if (DS_ALIGN_UP((uint64_t)f->params_size, 8) + sizeof(struct ds_ptx_colour) > limit)
                refuse(v, f->line, "has no room for one more parameter");
        for (uint32_t i = 0; i < DS_PTX_COLOUR_PARAMS && !v->reason[0]; i++)
                if ((mask >> i & 1) && (i >= f->n_params || !ds_ptx_colour_is_wide(f, i)))
                        refuse(v, f->line, "has no parameter %u that is an address", i);
        if (!mask)
                refuse(v, f->line, "no parameter is to be coloured");
        return !v->reason[0];
}

/* Traces the kernel. *ret: the trace if the parameters in the mask can be coloured; else NULL, with the reason in
 * the verdict. Returns 0 or -ENOMEM. */
static int judge(const struct ds_ptx_module *module, const struct ds_ptx_function *f, uint64_t mask, uint64_t *steps,
        struct ds_ptx_colour_verdict *v, struct ds_ptx_colour_trace **ret)
{
        ds_cleanup(ds_ptx_colour_trace_freep) struct ds_ptx_colour_trace *trace = NULL;

        *v = (struct ds_ptx_colour_verdict){0};
        *ret = NULL;
        if (!looks_right(module, f, mask, v))
                return 0;
        if (ds_ptx_colour_trace_new(f, mask, steps, &trace))
                return ds_error_trace(-ENOMEM);
        v->accesses = trace->n_accesses;
        if (trace->reason[0]) {
                refuse(v, trace->line, "%s", trace->reason);
                return 0;
        }
        v->made = true;
        *ret = DS_TAKE_PTR(trace);
        return 0;
}

static const struct ds_ptx_function *find_kernel(const struct ds_ptx_module *m, const char *name)
{
        for (uint32_t i = 0; i < m->n_functions; i++)
                if (m->functions[i]->is_entry && m->functions[i]->has_body && strcmp(m->functions[i]->name, name) == 0)
                        return m->functions[i];
        return NULL;
}

int ds_ptx_colour_judge(const struct ds_ptx_module *module, const struct ds_ptx_colour_want *want,
        struct ds_ptx_colour_verdict *ret_verdict)
{
        const struct ds_ptx_function *f = find_kernel(module, want->kernel);
        ds_cleanup(ds_ptx_colour_trace_freep) struct ds_ptx_colour_trace *trace = NULL;
        uint64_t steps = DS_PTX_COLOUR_STEPS_MAX;
        int r = f ? judge(module, f, want->mask, &steps, ret_verdict, &trace) : 0;

        if (f)
                return r ? ds_error_trace(r) : 0;
        *ret_verdict = (struct ds_ptx_colour_verdict){0};
        refuse(ret_verdict, 0, "the module has no kernel '%.100s'", want->kernel);
        return 0;
}

/* --- copies --- */

static bool is_taken(const struct ds_ptx_module *m, const char *name)
{
        for (uint32_t i = 0; i < m->n_functions; i++)
                if (strcmp(m->functions[i]->name, name) == 0)
                        return true;
        for (uint32_t i = 0; i < m->n_vars; i++)
                if (strcmp(m->vars[i]->name, name) == 0)
                        return true;
        return false;
}

static bool is_repeated(const struct ds_ptx_colour_want *wants, size_t at)
{
        for (size_t i = 0; i < at; i++)
                if (wants[i].mask == wants[at].mask && strcmp(wants[i].kernel, wants[at].kernel) == 0)
                        return true;
        return false;
}

static void check_copy(const struct ds_ptx_module *module, const struct ds_ptx_function *f,
        const struct ds_ptx_colour_want *wants, size_t at, const char *name, struct ds_ptx_colour_verdict *v)
{
        if (is_repeated(wants, at))
                refuse(v, f->line, "the same form is requested twice");
        else if (!name[0] || is_taken(module, name))
                refuse(v, f->line, "the name of its coloured form is taken, or too long");
        v->made = !v->reason[0];
}

static int make_one(const struct ds_ptx_module *module, const struct ds_ptx_colour_want *wants, size_t at,
        const struct ds_ptx_colour_layout *layout, ds_ptx_edit *edit, uint64_t *steps, struct ds_ptx_colour_verdict *v)
{
        const struct ds_ptx_function *f = find_kernel(module, wants[at].kernel), *copy;
        ds_cleanup(ds_ptx_colour_trace_freep) struct ds_ptx_colour_trace *trace = NULL;
        char name[NAME_MAX_BYTES];
        int r;

        if (!f)
                return ds_ptx_colour_judge(module, &wants[at], v);
        r = judge(module, f, wants[at].mask, steps, v, &trace);
        if (r)
                return ds_error_trace(r);
        if (!v->made)
                return 0;
        if (!ds_ptx_colour_name(f->name, wants[at].mask, name, sizeof(name)))
                name[0] = '\0';
        check_copy(module, f, wants, at, name, v);
        copy = v->made ? ds_ptx_edit_clone(edit, f, name) : NULL;
        if (copy)
                ds_ptx_colour_write(edit, trace, copy, layout);
        return 0;
}

int ds_ptx_colour_make(const struct ds_ptx_module *module, const struct ds_ptx_colour_want *wants, size_t n,
        const struct ds_ptx_colour_layout *layout, size_t limit, struct ds_ptx_diags *diags, struct ds_ptx_module **ret,
        struct ds_ptx_colour_verdict *ret_verdicts)
{
        ds_cleanup(ds_ptx_edit_freep) ds_ptx_edit *edit = NULL;
        uint64_t steps = DS_PTX_COLOUR_STEPS_MAX;
        int r = 0;

        if (!ds_ptx_colour_layout_is_good(layout))
                return ds_error_origin(-EINVAL);
        edit = ds_ptx_edit_new(module, limit);
        if (!edit)
                return ds_error_origin(-ENOMEM);
        *diags = (struct ds_ptx_diags){0};
        for (size_t i = 0; i < n && !r; i++)
                r = make_one(module, wants, i, layout, edit, &steps, &ret_verdicts[i]);
        if (!r)
                r = ds_ptx_edit_apply(edit, limit, diags, ret);
        return r < 0 ? ds_error_trace(r) : r;
}

/* --- in place --- */

/* Chooses the parameters to colour: the requested mask, or the largest possible one. Mask 0: nothing can be
 * coloured; then the verdict may be a refusal. */
static int choose(const struct ds_ptx_pass_run *run, const struct ds_ptx_function *f, uint64_t *ret_mask,
        struct ds_ptx_colour_verdict *v)
{
        ds_cleanup(ds_freep) struct ds_ptx_colour_param *params = ds_alloc0((size_t)f->n_params + 1, sizeof(*params));

        *v = (struct ds_ptx_colour_verdict){0};
        *ret_mask = run->options.mask;
        if (*ret_mask)
                return 0;
        if (!params || ds_ptx_colour_params(run->module, f, params, ret_mask))
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < DS_MIN(f->n_params, DS_PTX_COLOUR_PARAMS) && !*ret_mask && !v->reason[0]; i++)
                if (params[i].pointer)
                        refuse(v, params[i].line, "%s", params[i].reason);
        return 0;
}

static int colour_one(struct ds_ptx_pass_run *run, const struct ds_ptx_function *f)
{
        static const struct ds_ptx_colour_layout usual = {DS_PTX_COLOUR_REGULAR, 11, 1};
        const struct ds_ptx_colour_layout *layout = run->options.layout ? run->options.layout : &usual;
        const struct ds_ptx_function *declared = ds_ptx_pass_declaration(run->module, f);
        ds_cleanup(ds_ptx_colour_trace_freep) struct ds_ptx_colour_trace *trace = NULL;
        struct ds_ptx_colour_verdict v;
        uint64_t mask, steps = DS_PTX_COLOUR_STEPS_MAX;
        int r = choose(run, f, &mask, &v);

        if (!r && mask)
                r = judge(run->module, f, mask, &steps, &v, &trace);
        if (r)
                return ds_error_trace(r);
        if (trace && declared) {
                ds_ptx_pass_refuse(run, f, declared->line, "is declared here with its original parameters");
        } else if (trace) {
                ds_ptx_colour_write(run->edit, trace, f, layout);
                ds_ptx_pass_done(run, f);
        } else if (v.reason[0]) {
                ds_ptx_pass_refuse(run, f, v.line, "%s", v.reason);
        }
        return 0;
}

int ds_ptx_pass_colour(struct ds_ptx_pass_run *run)
{
        int r = 0;

        if (run->options.layout && !ds_ptx_colour_layout_is_good(run->options.layout))
                return ds_error_origin(-EINVAL);
        for (uint32_t i = 0; i < run->module->n_functions && !r; i++)
                if (run->module->functions[i]->is_entry && ds_ptx_pass_wants(run, run->module->functions[i]))
                        r = colour_one(run, run->module->functions[i]);
        return r ? ds_error_trace(r) : 0;
}
