/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of a module: their properties for a launch
 *
 * A kernel has the shared variables of every function that it may reach; its stack is the deepest call chain, its
 * registers the maximum over these functions. Recursion, calls through pointers and alloca have no deepest chain: they
 * get a fixed stack, and exceeding it is a fault.
 */
#include <errno.h>

#include "ptx/interp/layout.h"
#include "util/alloc.h"
#include "util/error.h"

/* most visits of functions in the search for what each kernel reaches, for all kernels together */
#define MAX_EFFORT 50000000u

/* --- stacks --- */
/* Bytes of local memory of the deepest call chain that begins with f; callees: bytes of the chain below f. A result
 * above DS_IX_MAX_LOCAL, the most that a kernel may have, is cut to that limit plus one, so that sums cannot
 * overflow. */
static uint32_t chain_bytes(const ds_ix_func *f, uint32_t callees)
{
        uint64_t bytes = (uint64_t)f->local_bytes + callees + (f->stack ? DS_IX_RECURSION_LOCAL : 0);

        return (uint32_t)DS_MIN(bytes, (uint64_t)DS_IX_MAX_LOCAL + 1);
}

/*
 * Computes the bytes of each function's deepest call chain: repeatedly takes the functions whose callees are all known.
 * The remaining functions get at least the largest function's own bytes, since a kernel's own variables must always
 * fit.
 */
static int measure_stacks(ds_interp *interp)
{
        uint32_t n = interp->module->n_functions, done = 0, before;
        uint8_t *known = ds_alloc0(n + 1, 1);
        uint32_t deepest = 0, rounds = 0;

        if (!known)
                return ds_error_origin(-ENOMEM);
        do {
                before = done;
                for (uint32_t i = n; i-- > 0;) {
                        ds_ix_func *f = &interp->funcs[rounds & 1 ? i : n - 1 - i];
                        uint32_t most = 0, k = 0;

                        if (known[f->ir->index] || f->indirect)
                                continue;
                        for (; k < f->n_callees && known[f->callees[k]->ir->index]; k++)
                                most = DS_MAX(most, f->callees[k]->stack_local);
                        if (k < f->n_callees)
                                continue;
                        known[f->ir->index] = 1;
                        f->stack_local = chain_bytes(f, most);
                        deepest = DS_MAX(deepest, f->stack_local);
                        done++;
                }
        } while (done != before && ++rounds < 64);
        for (uint32_t i = 0; i < n; i++)
                deepest = DS_MAX(deepest, interp->funcs[i].local_bytes);
        for (uint32_t i = 0; i < n; i++) {
                if (!known[i])
                        interp->funcs[i].stack_local = deepest + DS_IX_RECURSION_LOCAL;
        }
        ds_free(known);
        return 0;
}

/* --- reachable functions --- */
struct reach {
        ds_interp *interp;
        ds_ix_func **stack; /* functions still to visit */
        uint32_t *seen;     /* for each function, number of the kernel (from 1) whose search visited it last */
        uint32_t n, kernel;
        uint64_t effort;
        uint8_t *shared; /* 1 for each symbol that this kernel uses */
        uint32_t registers;
        int indirect;
};

static void push(struct reach *r, ds_ix_func *f)
{
        if (r->seen[f->ir->index] == r->kernel)
                return;
        r->seen[f->ir->index] = r->kernel;
        r->stack[r->n++] = f;
}

static void visit(struct reach *r, ds_ix_func *f)
{
        r->effort += 1 + f->n_callees + f->n_shared;
        r->registers = DS_MAX(r->registers, f->registers);
        for (uint32_t k = 0; k < f->n_shared; k++)
                r->shared[f->shared[k]] = 1;
        for (uint32_t k = 0; k < f->n_callees; k++)
                push(r, f->callees[k]);
        if (!f->indirect || r->indirect)
                return;
        r->indirect = 1;
        for (uint32_t k = 0; k < r->interp->module->n_functions; k++) {
                r->effort++;
                if (r->interp->funcs[k].address_taken && r->interp->funcs[k].ops)
                        push(r, &r->interp->funcs[k]);
        }
}

/* Assigns offsets to the kernel's shared variables and returns their total size; variables of unknown size begin
 * behind the others. */
static uint64_t place_shared(const ds_interp *interp, const uint8_t *used, uint32_t *symbol)
{
        uint64_t size = 0, dynamic_align = 1;

        for (uint32_t k = DS_IX_SYM_SHARED; k < interp->n_shared; k++) {
                const struct ds_ix_shared_var *v = &interp->shared[k];

                if (!used[k])
                        continue;
                if (v->dynamic) {
                        dynamic_align = DS_MAX(dynamic_align, (uint64_t)DS_MIN(v->align, 1024u));
                        continue;
                }
                size = DS_ALIGN_UP(size, (uint64_t)DS_MIN(v->align, 1024u));
                symbol[k] = (uint32_t)size;
                size += DS_MIN(v->size, (uint64_t)DS_IX_MAX_SHARED + 1);
                if (size > DS_IX_MAX_SHARED)
                        return size;
        }
        /* the padding is added only if there are variables of unknown size */
        size = DS_ALIGN_UP(size, dynamic_align);
        for (uint32_t k = DS_IX_SYM_SHARED; k < interp->n_shared; k++) {
                if (used[k] && interp->shared[k].dynamic)
                        symbol[k] = (uint32_t)size;
        }
        return size;
}

/* --- kernels --- */
static uint32_t max_threads(const struct ds_ptx_limits *limits)
{
        const uint32_t *dim = limits->reqntid[0] ? limits->reqntid : limits->maxntid;
        uint64_t threads = 1;

        for (int i = 0; i < 3; i++)
                threads *= DS_MIN(DS_MAX(dim[i], 1u), 1025u);
        return dim[0] ? (uint32_t)DS_MIN(threads, UINT64_C(1024)) : 1024;
}

static int make_params(ds_interp *interp, ds_interp_kernel *kernel)
{
        const struct ds_ptx_function *ir = kernel->func->ir;

        kernel->params = ds_arena_alloc(interp->arena, (size_t)ir->n_params + 1, sizeof(*kernel->params));
        if (!kernel->params)
                return ds_error_origin(-ENOMEM);
        for (uint32_t k = 0; k < ir->n_params; k++) {
                kernel->params[k].offset = (uint32_t)ir->params[k]->offset;
                kernel->params[k].size = (uint32_t)ir->params[k]->size;
        }
        return 0;
}

static void fill_info(ds_interp *interp, ds_interp_kernel *kernel, uint64_t shared, uint32_t registers)
{
        const struct ds_ptx_function *ir = kernel->func->ir;
        /* adds 6: a rough estimate of the registers that the assembler needs for addresses and temporaries */
        uint32_t estimate = DS_MIN(DS_MAX(registers + 6, 16u), 255u);

        kernel->info = (struct ds_interp_kernel_info){
                .name = ir->name,
                .n_params = ir->n_params,
                .params = kernel->params,
                .params_size = ir->params_size,
                .static_shared = (uint32_t)shared,
                .local_bytes = kernel->func->stack_local,
                .const_bytes = (uint32_t)DS_MIN(interp->consts_size, (uint64_t)UINT32_MAX),
                .registers = ir->limits.maxnreg ? DS_MIN(estimate, DS_MAX(ir->limits.maxnreg, 16u)) : estimate,
                .max_threads = max_threads(&ir->limits),
                .ptx_version = interp->module->version,
                .target = interp->module->target,
                .prints = interp->prints,
                .max_cluster = ir->limits.maxclusterrank,
                .explicit_cluster = ir->limits.explicitcluster,
                .blocks_are_clusters = ir->limits.blocksareclusters,
        };
        for (int i = 0; i < 3 && ir->limits.reqnctapercluster[0]; i++)
                kernel->info.cluster[i] = DS_MAX(ir->limits.reqnctapercluster[i], 1u);
}

static int refuse(ds_interp *interp, struct ds_ptx_diags *diags, const struct ds_ptx_function *ir, const char *what)
{
        const struct ds_ptx_module *m = interp->module;

        ds_ptx_diag_add(diags, m->text, m->length, ir->line, 1, "%.80s: %s", ir->name, what);
        return DS_INTERP_E_UNSUPPORTED;
}

static int make_kernel(ds_interp *interp, struct reach *r, ds_interp_kernel *kernel, struct ds_ptx_diags *diags)
{
        const struct ds_ptx_function *ir = kernel->func->ir;
        uint64_t shared;
        int result;

        r->registers = 0;
        r->indirect = 0;
        memset(r->shared, 0, interp->n_shared);
        push(r, kernel->func);
        while (r->n)
                visit(r, r->stack[--r->n]);
        r->effort += interp->n_shared;
        if (r->effort > MAX_EFFORT)
                return refuse(interp, diags, ir, "the module has too many calls to analyse");
        kernel->interp = interp;
        kernel->symbol = ds_arena_alloc(interp->arena, interp->n_shared, sizeof(*kernel->symbol));
        if (!kernel->symbol)
                return ds_error_origin(-ENOMEM);
        shared = place_shared(interp, r->shared, kernel->symbol);
        if (shared > DS_IX_MAX_SHARED)
                return refuse(interp, diags, ir, "too much shared memory");
        if (kernel->func->stack_local > DS_IX_MAX_LOCAL)
                return refuse(interp, diags, ir, "too much local memory");
        if (ir->params_size > DS_PTX_MAX_PARAM_BYTES)
                return refuse(interp, diags, ir, "too many bytes of parameters");
        result = make_params(interp, kernel);
        if (!result)
                fill_info(interp, kernel, shared, r->registers);
        return result;
}

static int make_all(ds_interp *interp, struct reach *r, struct ds_ptx_diags *diags)
{
        const struct ds_ptx_module *m = interp->module;
        int result = 0;

        for (uint32_t i = 0; i < m->n_functions && !result; i++) {
                if (!m->functions[i]->is_entry || !m->functions[i]->has_body)
                        continue;
                interp->kernels[interp->n_kernels].func = &interp->funcs[i];
                r->kernel = interp->n_kernels + 1;
                result = make_kernel(interp, r, &interp->kernels[interp->n_kernels], diags);
                interp->n_kernels++;
        }
        return result;
}

int ds_ix_make_kernels(ds_interp *interp, struct ds_ptx_diags *diags)
{
        uint32_t n = interp->module->n_functions;
        struct reach r = {.interp = interp};
        int result = measure_stacks(interp);

        if (result)
                return result;
        interp->kernels = ds_arena_alloc(interp->arena, (size_t)n + 1, sizeof(*interp->kernels));
        r.stack = ds_alloc0((size_t)n + 1, sizeof(ds_ix_func *));
        r.seen = ds_alloc0((size_t)n + 1, sizeof(*r.seen));
        r.shared = ds_alloc0(interp->n_shared, 1);
        if (interp->kernels && r.stack && r.seen && r.shared)
                result = make_all(interp, &r, diags);
        else
                result = ds_error_origin(-ENOMEM);
        ds_free(r.stack);
        ds_free(r.seen);
        ds_free(r.shared);
        return result;
}
