/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding jumps, calls, barriers, and instructions without effect here
 */
#include "ptx/interp/decode.h"
#include "ptx/interp/heap.h"

/* --- jumps --- */
static ds_ix_op guarded_op(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        ds_ix_op op = ds_ix_blank(in);

        if (in->guard != DS_PTX_NO_REG)
                op.guard = d->func->reg[in->guard];
        op.guard_not = in->guard_negated;
        return op;
}

static int decode_bra(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        ds_ix_op op = guarded_op(d, in);

        if (in->operands[0].kind != DS_PTX_OPERAND_LABEL)
                return ds_ix_refuse(d, in, "a label is needed");
        op.fn = op.guard == DS_IX_NO_SLOT ? ds_ix_bra : ds_ix_bra_if;
        ds_ix_fix(d, d->n_ops, in->operands[0].label, UINT32_MAX);
        (void)ds_ix_emit_control(d, op);
        return 1;
}

static int decode_brx(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        ds_ix_op op = guarded_op(d, in);

        if (in->n_operands < 2 || in->operands[1].kind != DS_PTX_OPERAND_TARGETS)
                return ds_ix_refuse(d, in, "a list of targets is needed");
        if (!d->ir->targets[in->operands[1].targets].labels)
                return ds_ix_refuse(d, in, "a list of labels is needed");
        if (!ds_ix_source(d, in, &in->operands[0], 4, &op.a))
                return 0;
        op.fn = ds_ix_brx;
        ds_ix_fix(d, d->n_ops, UINT32_MAX, in->operands[1].targets);
        (void)ds_ix_emit_control(d, op);
        return 1;
}

/* --- calls --- */
/* The first target in the list of an indirect call; all targets have the same parameters. NULL: the call has no
 * list. */
static const struct ds_ptx_function *first_target(const ds_ix_decoder *d, const struct ds_ptx_call *call)
{
        const struct ds_ptx_targets *list = call->targets != UINT32_MAX ? &d->ir->targets[call->targets] : NULL;

        return list && list->functions && list->n ? list->functions[0] : NULL;
}

/* Size of formal k in bytes: of the callee, or for an indirect call of the prototype or of the listed targets. */
static uint64_t formal_size(const ds_ix_decoder *d, const struct ds_ptx_call *call, uint32_t k, int ret)
{
        const struct ds_ptx_function *target = call->function ? call->function : first_target(d, call);
        const struct ds_ptx_function *f = target ? ds_ix_behind(d->interp, target)->ir : NULL;
        const struct ds_ptx_prototype *p = call->prototype;
        struct ds_ptx_var *const *vars = f ? (ret ? f->rets : f->params) : p ? (ret ? p->rets : p->params) : NULL;
        uint32_t n = f ? (ret ? f->n_rets : f->n_params) : p ? (ret ? p->n_rets : p->n_params) : 0;

        return k < n ? vars[k]->size : 0;
}

static int decode_argument(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_operand *o,
        uint64_t size, int ret, struct ds_ix_arg *arg)
{
        struct ds_ix_place place;

        arg->slot = arg->callee_slot = DS_IX_NO_SLOT;
        arg->size = (uint32_t)size;
        if (o->kind == DS_PTX_OPERAND_VAR && o->var->space == DS_PTX_IN_PARAM) {
                if (!ds_ix_place_of(d, in, o->var, &place))
                        return 0;
                arg->caller_offset = (uint32_t)place.value;
                if (place.space != DS_IX_ARGS || o->var->size != size)
                        return ds_ix_refuse(d, in, "parameter %s does not fit", o->var->name);
                return 1;
        }
        if (size != 1 && size != 2 && size != 4 && size != 8 && size != 16)
                return ds_ix_refuse(
                        d, in, "an argument of %llu bytes does not fit a register", (unsigned long long)size);
        if (ret)
                return ds_ix_destination(d, in, o, (uint32_t)size, &arg->slot);
        return ds_ix_source(d, in, o, (uint32_t)size, &arg->slot);
}

static int decode_arguments(
        ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_call *from, ds_ix_call *call)
{
        const struct ds_ptx_function *f = from->function ? ds_ix_behind(d->interp, from->function)->ir : NULL;

        if (f && (f->n_params != from->n_args || f->n_rets != from->n_rets))
                return ds_ix_refuse(d, in, "%s takes %u arguments", f->name, f->n_params);
        call->n_args = from->n_args;
        call->n_rets = from->n_rets;
        call->args = ds_arena_alloc(d->interp->arena, (size_t)from->n_args + 1, sizeof(*call->args));
        call->rets = ds_arena_alloc(d->interp->arena, (size_t)from->n_rets + 1, sizeof(*call->rets));
        if (!call->args || !call->rets) {
                d->out_of_memory = 1;
                return 0;
        }
        for (uint32_t k = 0; k < from->n_args; k++) {
                if (!decode_argument(d, in, &from->args[k], formal_size(d, from, k, 0), 0, &call->args[k]))
                        return 0;
        }
        for (uint32_t k = 0; k < from->n_rets; k++) {
                if (!decode_argument(d, in, &from->rets[k], formal_size(d, from, k, 1), 1, &call->rets[k]))
                        return 0;
        }
        return 1;
}

/* Records a callee of the function, since stack size and shared memory depend on callees. */
static int add_callee(ds_ix_decoder *d, ds_ix_func *callee)
{
        ds_ix_func *func = d->func;
        size_t capacity = func->callees_capacity;

        for (uint32_t k = 0; k < func->n_callees && k < 64; k++) {
                if (func->callees[k] == callee)
                        return 1;
        }
        func->callees =
                ds_arena_grow(d->interp->arena, func->callees, func->n_callees, &capacity, sizeof(*func->callees));
        if (!func->callees) {
                d->out_of_memory = 1;
                return 0;
        }
        func->callees_capacity = (uint32_t)capacity;
        func->callees[func->n_callees++] = callee;
        return 1;
}

/* functions that only the driver defines, with the sizes of arguments and result in nvcc's declarations, bytes */
static const struct driver_function {
        const char *name;
        ds_ix_fn fn;
        uint32_t n_args, args[5], ret; /* ret: bytes of the result; 0: no result */
        uint8_t prints, heap, needs_ret;
} driver_functions[] = {
        {"vprintf", ds_ix_vprintf, 2, {8, 8}, 4, 1, 0, 0},
        {"__assertfail", ds_ix_assert, 5, {8, 8, 4, 8, 8}, 0, 1, 0, 0},
        {"malloc", ds_ix_malloc, 1, {8}, 8, 0, 1, 1},
        {"free", ds_ix_free, 1, {8}, 0, 0, 1, 0},
};

/* The driver's function of this name; NULL: there is none, or the program declares it differently. */
static const struct driver_function *driver_function(const char *name, const ds_ix_call *call)
{
        const struct driver_function *f = driver_functions;
        size_t n = DS_ARRAY_SIZE(driver_functions);

        while (n && strcmp(name, f->name) != 0) {
                f++;
                n--;
        }
        if (!n || call->n_args != f->n_args || call->n_rets > (f->ret ? 1u : 0u) || call->n_rets < f->needs_ret)
                return NULL;
        for (uint32_t k = 0; k < call->n_args; k++) {
                if (call->args[k].size != f->args[k])
                        return NULL;
        }
        return call->n_rets && call->rets[0].size != f->ret ? NULL : f;
}

/* Adds the module's resources (heap, printing) that the function needs. 0: out of memory */
static int use_driver_function(ds_ix_decoder *d, const struct driver_function *f)
{
        d->interp->prints |= f->prints;
        if (f->heap && !d->interp->heap)
                d->interp->heap = ds_ix_heap_new();
        if (f->heap && !d->interp->heap)
                d->out_of_memory = 1;
        return !d->out_of_memory;
}

static int decode_call(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        const struct ds_ptx_call *from = in->operands[0].call;
        ds_ix_call *call = ds_arena_alloc(d->interp->arena, 1, sizeof(*call));
        const struct ds_ptx_function *f = from->function ? ds_ix_behind(d->interp, from->function)->ir : NULL;
        ds_ix_op op = ds_ix_blank(in);
        uint32_t skip;

        if (!call) {
                d->out_of_memory = 1;
                return 0;
        }
        skip = ds_ix_emit_skip(d, in);
        if (!decode_arguments(d, in, from, call))
                return 0;
        op.ext = call;
        op.fn = ds_ix_call_op;
        if (f && !f->has_body) {
                const struct driver_function *driver = driver_function(f->name, call);

                if (!driver)
                        return ds_ix_refuse(d, in, "function %s is not defined", f->name);
                if (!use_driver_function(d, driver))
                        return 0;
                op.fn = driver->fn;
        } else if (f) {
                if (f->is_entry)
                        return ds_ix_refuse(d, in, "%s is a kernel", f->name);
                call->func = &d->interp->funcs[f->index];
                if (!add_callee(d, call->func))
                        return 0;
        } else {
                d->func->indirect = 1;
                if (!from->prototype && !first_target(d, from) && from->n_args + from->n_rets > 0)
                        return ds_ix_refuse(d, in, "an indirect call without a prototype");
                if (from->reg == DS_PTX_NO_REG || ds_ix_register_bytes(d, from->reg) != 8)
                        return ds_ix_refuse(d, in, "a function's address has 64 bits");
                call->target = d->func->reg[from->reg];
        }
        (void)ds_ix_emit_control(d, op);
        ds_ix_end_skip(d, skip);
        return 1;
}

static int decode_leave(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        ds_ix_op op = guarded_op(d, in);

        op.fn = in->op == DS_PTX_OP_RET ? ds_ix_ret : ds_ix_exit;
        (void)ds_ix_emit_control(d, op);
        return 1;
}

int ds_ix_decode_control(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        switch (in->op) {
        case DS_PTX_OP_BRA:
                return decode_bra(d, in);
        case DS_PTX_OP_BRX:
                return decode_brx(d, in);
        case DS_PTX_OP_CALL:
                return decode_call(d, in);
        case DS_PTX_OP_RET:
        case DS_PTX_OP_EXIT:
                return decode_leave(d, in);
        case DS_PTX_OP_TRAP:
        case DS_PTX_OP_BRKPT:
                ds_ix_emit_fn(d, in, ds_ix_blank(in), ds_ix_trap);
                return 1;
        case DS_PTX_OP_NANOSLEEP:
                ds_ix_emit_fn(d, in, ds_ix_blank(in), ds_ix_nanosleep);
                return 1;
        case DS_PTX_OP_MEMBAR:
        case DS_PTX_OP_MEMBAR_PROXY:
        case DS_PTX_OP_FENCE:
        case DS_PTX_OP_FENCE_PROXY:
        case DS_PTX_OP_FENCE_MBARRIER:
        case DS_PTX_OP_FENCE_PROXY_ACQUIRE:
        case DS_PTX_OP_FENCE_PROXY_RELEASE:
        case DS_PTX_OP_FENCE_ACQUIRE_RESTRICT:
        case DS_PTX_OP_FENCE_RELEASE_RESTRICT:
                ds_ix_emit_fn(d, in, ds_ix_blank(in), ds_ix_fence);
                return 1;
        case DS_PTX_OP_PMEVENT:
        case DS_PTX_OP_GRIDDEP_LAUNCH:
        case DS_PTX_OP_GRIDDEP_WAIT:
        case DS_PTX_OP_SETMAXNREG:
                ds_ix_emit_fn(d, in, ds_ix_blank(in), ds_ix_nop);
                return 1;
        default:
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        }
}

/* --- barriers --- */
/* Decodes operands from number k on: the barrier, and a count if there is one more operand. */
static int barrier_operands(ds_ix_decoder *d, const struct ds_ptx_instr *in, uint32_t k, int count, ds_ix_op *op)
{
        if (!ds_ix_source(d, in, &in->operands[k], 4, &op->a))
                return 0;
        return !count || ds_ix_source(d, in, &in->operands[k + 1], 4, &op->b);
}

static int decode_reduction(ds_ix_decoder *d, const struct ds_ptx_instr *in, ds_ix_op *op)
{
        enum ds_ptx_modifier how = ds_ptx_mod(in, DS_PTX_BARRED_AND);
        uint32_t bytes = how == DS_PTX_BARRED_POPC ? 4 : 0;

        op->mode = how == DS_PTX_BARRED_AND  ? DS_IX_VOTE_AND
                   : how == DS_PTX_BARRED_OR ? DS_IX_VOTE_OR
                                             : DS_IX_VOTE_POPC;
        op->fn = ds_ix_barrier_red;
        if (!ds_ix_destination(d, in, &in->operands[0], bytes, &op->d) ||
                !barrier_operands(d, in, 1, in->n_operands == 4, op) ||
                !ds_ix_source(d, in, &in->operands[in->n_operands - 1], 0, &op->c))
                return 0;
        if (op->d == DS_IX_NO_SLOT)
                op->d = ds_ix_temp(d);
        return 1;
}

int ds_ix_decode_barrier(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        uint32_t skip = ds_ix_emit_skip(d, in);
        ds_ix_op op = ds_ix_blank(in);
        int ok;

        switch (in->op) {
        case DS_PTX_OP_BAR_SYNC:
        case DS_PTX_OP_BARRIER_SYNC:
                op.fn = ds_ix_barrier_sync;
                ok = barrier_operands(d, in, 0, in->n_operands > 1, &op);
                break;
        case DS_PTX_OP_BAR_ARRIVE:
        case DS_PTX_OP_BARRIER_ARRIVE:
                op.fn = ds_ix_barrier_arrive;
                ok = barrier_operands(d, in, 0, 1, &op);
                break;
        case DS_PTX_OP_BARRIER_CLUSTER_ARRIVE:
        case DS_PTX_OP_BARRIER_CLUSTER_WAIT:
                op.fn = in->op == DS_PTX_OP_BARRIER_CLUSTER_ARRIVE ? ds_ix_cluster_arrive : ds_ix_cluster_wait;
                ok = 1;
                break;
        case DS_PTX_OP_BAR_RED:
        case DS_PTX_OP_BARRIER_RED:
                ok = decode_reduction(d, in, &op);
                break;
        default:
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        }
        if (!ok)
                return 0;
        op.inner = op.fn;
        ds_ix_emit_plain(d, op);
        ds_ix_end_skip(d, skip);
        return 1;
}
