/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding mbarriers and bulk copies
 *
 * An operation has room for one address. Instructions with two or three become several operations: one per address,
 * which puts it into a temporary register, and one that reads these.
 */
#include "ptx/interp/async.h"

#define T(name) DS_PTX_TYPE_##name

/* --- mbarriers --- */
static int decode_counted(ds_ix_decoder *d, const struct ds_ptx_instr *in, ds_ix_fn fn, uint32_t n)
{
        ds_ix_op op = ds_ix_blank(in);

        if (!ds_ix_address(d, in, &in->operands[0], ds_ptx_instr_space(in), &op) ||
                (n > 1 && !ds_ix_source(d, in, &in->operands[1], 4, &op.b)))
                return 0;
        ds_ix_emit_fn(d, in, op, fn);
        return 1;
}

/* Decodes mbarrier.arrive; operands: [state,] [mbarrier] [, count or bytes] */
static int decode_arrive(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        const struct ds_ptx_operand *o = in->operands;
        uint32_t k = o[0].kind != DS_PTX_OPERAND_ADDRESS;
        int expect = ds_ptx_has(in, DS_PTX_EXPECT_EXPECT_TX);
        ds_ix_op op = ds_ix_blank(in);

        op.mode = in->op == DS_PTX_OP_MBARRIER_ARRIVE_DROP ? DS_IX_ARRIVE_DROP : 0;
        if (k && o[0].kind != DS_PTX_OPERAND_SINK && !ds_ix_destination(d, in, &o[0], 8, &op.d))
                return 0;
        if (k >= in->n_operands)
                return ds_ix_refuse(d, in, "an address is needed");
        if (!ds_ix_address(d, in, &o[k], ds_ptx_instr_space(in), &op))
                return 0;
        if (k + 1 < in->n_operands && !ds_ix_source(d, in, &o[k + 1], 4, expect ? &op.c : &op.b))
                return 0;
        ds_ix_emit_fn(d, in, op, ds_ix_mbarrier_arrive);
        return 1;
}

/* Decodes a wait. It may yield, so lanes that do not take part jump over it. Its time limit is only a hint, and is
 * ignored. */
static int decode_wait(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        uint32_t skip = ds_ix_emit_skip(d, in);
        ds_ix_op op = ds_ix_blank(in);

        op.mode = ds_ptx_has(in, DS_PTX_PARITY_PARITY);
        if (!ds_ix_destination(d, in, &in->operands[0], 0, &op.d) ||
                !ds_ix_address(d, in, &in->operands[1], ds_ptx_instr_space(in), &op) ||
                !ds_ix_source(d, in, &in->operands[2], op.mode ? 4 : 8, &op.b))
                return 0;
        if (op.d == DS_IX_NO_SLOT)
                op.d = ds_ix_temp(d);
        op.fn = op.inner = ds_ix_mbarrier_wait;
        (void)ds_ix_emit_control(d, op);
        ds_ix_end_skip(d, skip);
        return 1;
}

static int decode_pending(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        ds_ix_op op = ds_ix_blank(in);

        if (!ds_ix_destination(d, in, &in->operands[0], 4, &op.d) || !ds_ix_source(d, in, &in->operands[1], 8, &op.a))
                return 0;
        ds_ix_emit_fn(d, in, op, ds_ix_mbarrier_pending);
        return 1;
}

/* --- copies --- */
/* Appends an operation that puts the generic address of an operand into a temporary slot. */
static int decode_end(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_operand *o,
        enum ds_ptx_space space, uint32_t *ret_slot)
{
        ds_ix_op op = ds_ix_blank(in);

        if (!ds_ix_address(d, in, o, space, &op))
                return 0;
        if (op.space != DS_IX_GLOBAL && op.space != DS_IX_SHARED && op.space != DS_IX_CLUSTER &&
                op.space != DS_IX_GENERIC)
                return ds_ix_refuse(d, in, "bulk copies work on global and shared memory");
        op.d = *ret_slot = ds_ix_temp(d);
        ds_ix_emit_fn(d, in, op, ds_ix_address_of);
        return 1;
}

/*
 * Decodes a bulk copy; operands: [to], [from], size, then [mbarrier] and a mask of blocks, or a mask of bytes; then a
 * cache policy. A copy may take as long as thousands of instructions, so it may end the time slice.
 */
static int decode_bulk(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        const struct ds_ptx_operand *o = in->operands;
        enum ds_ptx_modifier second = ds_ptx_mod(in, DS_PTX_SPACE2_GLOBAL);
        int to_shared = ds_ptx_instr_space(in) != DS_PTX_IN_GLOBAL, from_shared = second != DS_PTX_SPACE2_GLOBAL;
        int mbarrier = ds_ptx_has(in, DS_PTX_COMPLETION_MBARRIER), masked = ds_ptx_has(in, DS_PTX_BYTEMASK_CP_MASK);
        int multicast = ds_ptx_has(in, DS_PTX_MULTICAST_CLUSTER);
        ds_ix_op op = ds_ix_blank(in);
        uint32_t skip;

        if (in->n_operands < 3u + (uint32_t)mbarrier + (uint32_t)(masked || multicast) || mbarrier != to_shared ||
                (masked && multicast))
                return ds_ix_refuse(d, in, "there is no such copy");
        op.mode = (uint8_t)((to_shared ? DS_IX_BULK_TO_SHARED : 0) | (from_shared ? DS_IX_BULK_FROM_SHARED : 0) |
                            (multicast ? DS_IX_BULK_MULTICAST : 0));
        if (in->op == DS_PTX_OP_CP_REDUCE_BULK) {
                op.ext = ds_ix_find_reduction(ds_ptx_mod(in, DS_PTX_ATOM_ADD), (enum ds_ptx_type)in->types[0]);
                if (!op.ext || !from_shared)
                        return ds_ix_refuse(d, in, "there is no such reduction");
        }
        skip = ds_ix_emit_skip(d, in);
        if (!decode_end(d, in, &o[0], to_shared ? DS_PTX_IN_SHARED : DS_PTX_IN_GLOBAL, &op.b) ||
                !decode_end(d, in, &o[1], from_shared ? DS_PTX_IN_SHARED : DS_PTX_IN_GLOBAL, &op.a) ||
                !ds_ix_source(d, in, &o[2], 4, &op.c) ||
                (mbarrier && !decode_end(d, in, &o[3], DS_PTX_IN_SHARED, &op.f)) ||
                (masked && !ds_ix_source(d, in, &o[in->n_operands - 1], 2, &op.e)) ||
                (multicast && !ds_ix_source(d, in, &o[4], 2, &op.e)))
                return 0;
        op.fn = op.inner = ds_ix_bulk_copy;
        (void)ds_ix_emit_control(d, op);
        ds_ix_end_skip(d, skip);
        return 1;
}

/* Decodes cp.async with operands [to], [from], size, and the number of bytes to copy or a predicate that is true to
 * copy none. */
int ds_ix_decode_some(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        const struct ds_ptx_operand *o = in->operands;
        ds_ix_op op = ds_ix_blank(in);
        int ignore = o[3].kind == DS_PTX_OPERAND_REG && d->ir->regs[o[3].reg].type == T(PRED);

        op.n = (uint8_t)o[2].bits;
        if (!decode_end(d, in, &o[0], DS_PTX_IN_SHARED, &op.b) || !decode_end(d, in, &o[1], DS_PTX_IN_GLOBAL, &op.a) ||
                !ds_ix_source(d, in, &o[3], ignore ? 0 : 4, ignore ? &op.e : &op.c))
                return 0;
        ds_ix_emit_fn(d, in, op, ds_ix_copy_some);
        return 1;
}

/* Decodes st.async and red.async as st and red, and then counts their bytes at the mbarrier. */
static int decode_remote(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        struct ds_ptx_instr plain = *in;
        ds_ix_op op = ds_ix_blank(in);
        uint32_t bytes = ds_ix_type_bytes((enum ds_ptx_type)in->types[0]) * ds_ptx_instr_vector(in);
        int store = in->op == DS_PTX_OP_ST_ASYNC;

        plain.op = store ? DS_PTX_OP_ST : DS_PTX_OP_RED;
        plain.n_operands = 2;
        if (!(store ? ds_ix_decode_memory(d, &plain) : ds_ix_decode_atomic(d, &plain)) ||
                !ds_ix_address(d, in, &in->operands[2], ds_ptx_instr_space(in), &op))
                return 0;
        op.b = ds_ix_constant_slot(d, bytes, 4);
        ds_ix_emit_fn(d, in, op, ds_ix_mbarrier_complete);
        return 1;
}

int ds_ix_decode_async(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        switch (in->op) {
        case DS_PTX_OP_MBARRIER_INIT:
                return decode_counted(d, in, ds_ix_mbarrier_init, 2);
        case DS_PTX_OP_MBARRIER_INVAL:
                return decode_counted(d, in, ds_ix_mbarrier_inval, 1);
        case DS_PTX_OP_MBARRIER_EXPECT_TX:
                return decode_counted(d, in, ds_ix_mbarrier_expect, 2);
        case DS_PTX_OP_MBARRIER_COMPLETE_TX:
                return decode_counted(d, in, ds_ix_mbarrier_complete, 2);
        case DS_PTX_OP_MBARRIER_ARRIVE:
        case DS_PTX_OP_MBARRIER_ARRIVE_DROP:
                return decode_arrive(d, in);
        case DS_PTX_OP_MBARRIER_TEST_WAIT:
        case DS_PTX_OP_MBARRIER_TRY_WAIT:
                return decode_wait(d, in);
        case DS_PTX_OP_MBARRIER_PENDING:
                return decode_pending(d, in);
        case DS_PTX_OP_CP_ASYNC_MBARRIER:
                return decode_counted(
                        d, in, ds_ptx_has(in, DS_PTX_NOINC_NOINC) ? ds_ix_mbarrier_arrive : ds_ix_mbarrier_touch, 1);
        case DS_PTX_OP_CP_BULK:
        case DS_PTX_OP_CP_REDUCE_BULK:
                return decode_bulk(d, in);
        case DS_PTX_OP_ST_ASYNC:
        case DS_PTX_OP_RED_ASYNC:
                return decode_remote(d, in);
        case DS_PTX_OP_CP_BULK_COMMIT:
        case DS_PTX_OP_CP_BULK_WAIT:
        case DS_PTX_OP_CP_BULK_PREFETCH: /* a prefetch is a hint: even invalid addresses have no effect */
                ds_ix_emit_fn(d, in, ds_ix_blank(in), ds_ix_nop);
                return 1;
        default:
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        }
}
