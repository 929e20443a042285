/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding moves, loads, stores, atomics and asynchronous copies
 *
 * An address operand becomes a base register (or none), a constant offset and a symbol. The address space is the
 * instruction's, or that of the named variable. Inside device functions the parameter space is the frame's.
 */
#include "ptx/interp/decode.h"

#define T(name) DS_PTX_TYPE_##name

/* --- addresses --- */
static enum ds_ix_space space_of(const ds_ix_decoder *d, enum ds_ptx_space space)
{
        switch (space) {
        case DS_PTX_IN_GLOBAL:
                return DS_IX_GLOBAL;
        case DS_PTX_IN_CONST:
                return DS_IX_CONST;
        case DS_PTX_IN_SHARED:
                return DS_IX_SHARED;
        case DS_PTX_IN_LOCAL:
                return DS_IX_LOCAL;
        case DS_PTX_IN_PARAM:
                return d->ir->is_entry ? DS_IX_PARAM : DS_IX_ARGS;
        default:
                return DS_IX_GENERIC;
        }
}

int ds_ix_address(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_operand *o,
        enum ds_ptx_space space, ds_ix_op *op)
{
        struct ds_ix_place place;
        uint32_t bytes;

        if (o->kind != DS_PTX_OPERAND_ADDRESS)
                return ds_ix_refuse(d, in, "an address is needed");
        op->imm = (uint64_t)o->offset;
        op->f = DS_IX_SYM_NONE;
        op->space = space_of(d, space);
        if (op->space == DS_IX_SHARED && ds_ptx_has(in, DS_PTX_SPACE_SHARED_CLUSTER))
                op->space = DS_IX_CLUSTER;
        if (o->reg != DS_PTX_NO_REG) {
                bytes = ds_ix_register_bytes(d, o->reg);
                if (bytes != 4 && bytes != 8)
                        return ds_ix_refuse(d, in, "an address has 32 or 64 bits");
                op->a = d->func->reg[o->reg];
                op->flags |= bytes == 8 ? DS_IX_WIDE_ADDRESS : 0;
        } else if (o->var) {
                if (!ds_ix_place_of(d, in, o->var, &place))
                        return 0;
                op->imm += place.value;
                op->f = place.symbol;
                op->space = place.space;
        }
        return 1;
}

static uint8_t volatile_flag(const struct ds_ptx_instr *in)
{
        enum ds_ptx_modifier sem = ds_ptx_mod(in, DS_PTX_SEM_WEAK), cache = ds_ptx_mod(in, DS_PTX_CACHE_CV);

        return (sem && sem != DS_PTX_SEM_WEAK) || cache == DS_PTX_CACHE_CV || cache == DS_PTX_CACHE_CG ? DS_IX_VOLATILE
                                                                                                       : 0;
}

/* --- loads and stores --- */
/* The elements of a vector operand, or the operand itself as the only element; returns their number. */
static uint32_t elements_of(const struct ds_ptx_operand *o, const struct ds_ptx_operand **ret)
{
        *ret = o->kind == DS_PTX_OPERAND_VECTOR ? o->elements : o;
        return o->kind == DS_PTX_OPERAND_VECTOR ? o->n_elements : 1;
}

/* Bytes of the registers of a vector; the type's bytes if no element is a register. 0: the registers differ in size. */
static uint32_t common_bytes(const ds_ix_decoder *d, const struct ds_ptx_operand *o, enum ds_ptx_type type)
{
        const struct ds_ptx_operand *e;
        uint32_t n = elements_of(o, &e), bytes = 0;

        for (uint32_t k = 0; k < n; k++) {
                uint32_t b;

                if (e[k].kind != DS_PTX_OPERAND_REG)
                        continue;
                b = ds_ix_register_bytes(d, e[k].reg);
                if (bytes && b != bytes)
                        return 0;
                bytes = b;
        }
        return bytes ? bytes : ds_ix_type_bytes(type) == 1 ? 2 : ds_ix_type_bytes(type);
}

/* Decodes an access to eight elements as two accesses to four; `vector` and `address`: indices of these operands. */
static int decode_eight(ds_ix_decoder *d, const struct ds_ptx_instr *in, uint32_t vector, uint32_t address)
{
        struct ds_ptx_operand o[DS_PTX_MAX_OPERANDS];
        struct ds_ptx_instr half = *in;

        memcpy(o, in->operands, in->n_operands * sizeof(*o));
        half.operands = o;
        for (uint32_t k = 0; k < in->n_mods; k++)
                half.mods[k] = in->mods[k] == DS_PTX_VEC_V8 ? DS_PTX_VEC_V4 : in->mods[k];
        o[vector].n_elements = 4;
        for (uint32_t k = 0; k < 4 && vector == 0 && o[address].reg != DS_PTX_NO_REG; k++) {
                if (o[0].elements[k].kind == DS_PTX_OPERAND_REG && o[0].elements[k].reg == o[address].reg)
                        return ds_ix_refuse(d, in, "a load into the register of its own address is not supported");
        }
        if (!ds_ix_decode_memory(d, &half))
                return 0;
        o[vector].elements += 4;
        o[address].offset += 4 * (int64_t)ds_ix_type_bytes((enum ds_ptx_type)in->types[0]);
        return ds_ix_decode_memory(d, &half);
}

static int decode_load(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        ds_ix_op op = ds_ix_blank(in);
        uint32_t *slots[] = {&op.d, &op.e, &op.b, &op.c}, n, bytes;
        const struct ds_ptx_operand *e;
        const struct ds_ix_impl *impl;

        n = elements_of(&in->operands[0], &e);
        bytes = common_bytes(d, &in->operands[0], (enum ds_ptx_type)in->types[0]);
        if (n == 8 && ds_ptx_instr_vector(in) == 8)
                return decode_eight(d, in, 0, 1);
        if (n != ds_ptx_instr_vector(in) || n > 4)
                return ds_ix_refuse(d, in, "vectors of %u elements are not supported by the simulated device", n);
        op.n = (uint8_t)n;
        op.flags = volatile_flag(in);
        if (!ds_ix_address(d, in, &in->operands[1], ds_ptx_instr_space(in), &op))
                return 0;
        for (uint32_t k = 0; k < n; k++) {
                if (e[k].kind != DS_PTX_OPERAND_SINK && !ds_ix_destination(d, in, &e[k], bytes, slots[k]))
                        return 0;
        }
        impl = ds_ix_find_load((enum ds_ptx_type)in->types[0], bytes, &op);
        if (!impl)
                return ds_ix_refuse(d, in, "registers of %u bytes do not fit", bytes);
        ds_ix_emit(d, in, op, impl);
        return 1;
}

static int decode_store(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        ds_ix_op op = ds_ix_blank(in);
        uint32_t *slots[] = {&op.d, &op.e, &op.b, &op.c}, n, bytes;
        const struct ds_ptx_operand *e;
        const struct ds_ix_impl *impl;

        n = elements_of(&in->operands[1], &e);
        bytes = common_bytes(d, &in->operands[1], (enum ds_ptx_type)in->types[0]);
        if (n == 8 && ds_ptx_instr_vector(in) == 8)
                return decode_eight(d, in, 1, 0);
        if (n != ds_ptx_instr_vector(in) || n > 4)
                return ds_ix_refuse(d, in, "vectors of %u elements are not supported by the simulated device", n);
        op.n = (uint8_t)n;
        op.flags = volatile_flag(in);
        if (!ds_ix_address(d, in, &in->operands[0], ds_ptx_instr_space(in), &op))
                return 0;
        if (op.space == DS_IX_CONST || op.space == DS_IX_PARAM)
                return ds_ix_refuse(d, in, "this memory is read-only");
        for (uint32_t k = 0; k < n; k++) {
                if (!ds_ix_source(d, in, &e[k], bytes, slots[k]))
                        return 0;
        }
        impl = ds_ix_find_store((enum ds_ptx_type)in->types[0], bytes, &op);
        if (!impl)
                return ds_ix_refuse(d, in, "registers of %u bytes do not fit", bytes);
        ds_ix_emit(d, in, op, impl);
        return 1;
}

/* Decodes alloca, stacksave, stackrestore, whose operands are addresses of local memory. */
static int decode_stack(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        ds_ix_op op = ds_ix_blank(in);
        uint32_t bytes = ds_ix_type_bytes((enum ds_ptx_type)in->types[0]);
        uint64_t align = in->n_operands > 2 ? in->operands[2].bits : 8;
        uint32_t skip = UINT32_MAX;

        op.n = (uint8_t)bytes;
        op.imm = DS_MAX(align, UINT64_C(8));
        if (op.imm & (op.imm - 1) || op.imm > UINT64_C(1) << 23)
                return ds_ix_refuse(d, in, "an alignment of %llu bytes is not supported", (unsigned long long)align);
        if (in->op == DS_PTX_OP_ALLOCA)
                skip = ds_ix_emit_skip(d, in);
        if (in->op != DS_PTX_OP_STACKRESTORE && !ds_ix_destination(d, in, &in->operands[0], bytes, &op.d))
                return 0;
        if (in->op != DS_PTX_OP_STACKSAVE &&
                !ds_ix_source(d, in, &in->operands[in->op == DS_PTX_OP_ALLOCA], bytes, &op.a))
                return 0;
        if (in->op != DS_PTX_OP_ALLOCA) {
                ds_ix_emit_fn(d, in, op, in->op == DS_PTX_OP_STACKSAVE ? ds_ix_stack_save : ds_ix_stack_restore);
                return 1;
        }
        op.fn = op.inner = ds_ix_alloca; /* alloca is a control operation, because it may zero many bytes */
        (void)ds_ix_emit_control(d, op);
        ds_ix_end_skip(d, skip);
        return 1;
}

/* Decodes createpolicy: a cache policy is a number that this interpreter never reads. */
static int decode_policy(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        ds_ix_op op = ds_ix_blank(in);

        if (!ds_ix_destination(d, in, &in->operands[0], 8, &op.d))
                return 0;
        op.a = ds_ix_constant_slot(d, 0, 8);
        ds_ix_emit(d, in, op, ds_ix_move(8));
        return 1;
}

int ds_ix_decode_memory(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        switch (in->op) {
        case DS_PTX_OP_LD:
        case DS_PTX_OP_LDU:
                return decode_load(d, in);
        case DS_PTX_OP_ST:
                return decode_store(d, in);
        case DS_PTX_OP_PREFETCH:
        case DS_PTX_OP_PREFETCHU:
        case DS_PTX_OP_APPLYPRIORITY:
        case DS_PTX_OP_DISCARD:
                ds_ix_emit_fn(d, in, ds_ix_blank(in), ds_ix_nop);
                return 1;
        case DS_PTX_OP_POLICY_RANGE:
        case DS_PTX_OP_POLICY_FRACTIONAL:
        case DS_PTX_OP_POLICY_CVT:
                return decode_policy(d, in);
        case DS_PTX_OP_ALLOCA:
        case DS_PTX_OP_STACKSAVE:
        case DS_PTX_OP_STACKRESTORE:
                return decode_stack(d, in);
        default:
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        }
}

/* --- atomics --- */
/* Decodes the atomic on one element; operands from index k: [destination,] address, b [, c] */
static int decode_one_atomic(ds_ix_decoder *d, const struct ds_ptx_instr *in, uint32_t k, int has_result)
{
        const struct ds_ptx_operand *o = in->operands, *e;
        uint32_t bytes = ds_ix_type_bytes((enum ds_ptx_type)in->types[0]);
        ds_ix_op op = ds_ix_blank(in);
        const struct ds_ix_impl *impl = ds_ix_find_atomic(in, &op);

        if (!impl)
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        if (has_result && o[0].kind != DS_PTX_OPERAND_SINK) {
                if (elements_of(&o[0], &e) <= k)
                        return ds_ix_refuse(d, in, "too few elements");
                if (e[k].kind != DS_PTX_OPERAND_SINK && !ds_ix_destination(d, in, &e[k], bytes, &op.d))
                        return 0;
        }
        o += has_result;
        if (!ds_ix_address(d, in, &o[0], ds_ptx_instr_space(in), &op))
                return 0;
        op.imm += (uint64_t)k * bytes;
        if (op.space != DS_IX_GLOBAL && op.space != DS_IX_SHARED && op.space != DS_IX_CLUSTER &&
                op.space != DS_IX_GENERIC)
                return ds_ix_refuse(d, in, "atomics work on global and shared memory");
        if (elements_of(&o[1], &e) <= k)
                return ds_ix_refuse(d, in, "too few elements");
        if (!ds_ix_source(d, in, &e[k], bytes, &op.b))
                return 0;
        if (in->op == DS_PTX_OP_ATOM_CAS && !ds_ix_source(d, in, &o[2], bytes, &op.c))
                return 0;
        ds_ix_emit(d, in, op, impl);
        return 1;
}

int ds_ix_decode_atomic(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        int has_result = in->op != DS_PTX_OP_RED;

        switch (in->op) {
        case DS_PTX_OP_ATOM:
        case DS_PTX_OP_ATOM_CAS:
        case DS_PTX_OP_ATOM_EXCH:
        case DS_PTX_OP_RED:
                for (uint32_t k = 0; k < ds_ptx_instr_vector(in); k++) {
                        if (!decode_one_atomic(d, in, k, has_result))
                                return 0;
                }
                return 1;
        default:
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        }
}

/* --- cp.async --- */
/* Decodes cp.async as a load into a temporary and a store: the copy happens at once, which PTX permits. */
static int decode_copy(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        static const enum ds_ptx_type types[] = {[4] = T(B32), [8] = T(B64), [16] = T(B128)};
        const struct ds_ptx_operand *o = in->operands;
        ds_ix_op load = ds_ix_blank(in), store = ds_ix_blank(in);
        uint64_t bytes = in->n_operands >= 3 && o[2].kind == DS_PTX_OPERAND_INT ? o[2].bits : 0;
        enum ds_ptx_space from =
                ds_ptx_mod(in, DS_PTX_SPACE2_GLOBAL) == DS_PTX_SPACE2_GLOBAL ? DS_PTX_IN_GLOBAL : DS_PTX_SPACE_NONE;

        if (bytes != 4 && bytes != 8 && bytes != 16)
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        if (in->n_operands > 3u + (uint32_t)ds_ptx_has(in, DS_PTX_HINT_CACHE_HINT))
                return ds_ix_decode_some(d, in);
        load.n = store.n = 1;
        load.d = store.d = ds_ix_temp(d);
        if (!ds_ix_address(d, in, &o[0], ds_ptx_instr_space(in), &store) || !ds_ix_address(d, in, &o[1], from, &load))
                return 0;
        const struct ds_ix_impl *load_impl = ds_ix_find_load(types[bytes], (uint32_t)bytes, &load);
        const struct ds_ix_impl *store_impl = ds_ix_find_store(types[bytes], (uint32_t)bytes, &store);

        if (!load_impl || !store_impl)
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        ds_ix_emit(d, in, load, load_impl);
        ds_ix_emit(d, in, store, store_impl);
        return 1;
}

int ds_ix_decode_copy(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        switch (in->op) {
        case DS_PTX_OP_CP_ASYNC:
                return decode_copy(d, in);
        case DS_PTX_OP_CP_ASYNC_COMMIT:
        case DS_PTX_OP_CP_ASYNC_WAIT_GROUP:
        case DS_PTX_OP_CP_ASYNC_WAIT_ALL:
                ds_ix_emit_fn(d, in, ds_ix_blank(in), ds_ix_nop);
                return 1;
        default:
                return ds_ix_decode_async(d, in);
        }
}

/* --- moves --- */
static int decode_pack(ds_ix_decoder *d, const struct ds_ptx_instr *in, uint32_t bytes)
{
        const struct ds_ptx_operand *o = &in->operands[1];
        ds_ix_op op = ds_ix_blank(in);
        uint32_t *slots[] = {&op.a, &op.b, &op.c, &op.f};

        if (o->n_elements < 2 || o->n_elements > 4 || bytes % o->n_elements)
                return ds_ix_refuse(d, in, "a vector of %u elements is not supported here", o->n_elements);
        op.n = (uint8_t)o->n_elements;
        op.size = (uint8_t)(bytes / o->n_elements);
        if (!ds_ix_destination(d, in, &in->operands[0], bytes, &op.d))
                return 0;
        for (uint32_t k = 0; k < op.n; k++) {
                if (!ds_ix_source(d, in, &o->elements[k], op.size, slots[k]))
                        return 0;
        }
        ds_ix_emit(d, in, op, ds_ix_pack(&op));
        return 1;
}

static int decode_unpack(ds_ix_decoder *d, const struct ds_ptx_instr *in, uint32_t bytes)
{
        const struct ds_ptx_operand *o = &in->operands[0];
        ds_ix_op op = ds_ix_blank(in);
        uint32_t *slots[] = {&op.d, &op.e, &op.b, &op.c};
        const struct ds_ix_impl *impl;

        if (o->n_elements < 2 || o->n_elements > 4 || bytes % o->n_elements)
                return ds_ix_refuse(d, in, "a vector of %u elements is not supported here", o->n_elements);
        op.n = (uint8_t)o->n_elements;
        op.size = (uint8_t)(bytes / o->n_elements);
        if (!ds_ix_source(d, in, &in->operands[1], bytes, &op.a))
                return 0;
        for (uint32_t k = 0; k < op.n; k++) {
                if (o->elements[k].kind != DS_PTX_OPERAND_SINK &&
                        !ds_ix_destination(d, in, &o->elements[k], op.size, slots[k]))
                        return 0;
        }
        impl = ds_ix_unpack(&op);
        ds_ix_emit(d, in, op, impl);
        return 1;
}

/* Decodes a move from vector to vector: element by element through temporaries, because the vectors may overlap. */
static int decode_vector(ds_ix_decoder *d, const struct ds_ptx_instr *in, uint32_t bytes)
{
        const struct ds_ptx_operand *to = &in->operands[0], *from = &in->operands[1];
        uint32_t temp[4];

        if (to->n_elements != from->n_elements || to->n_elements > 4)
                return ds_ix_refuse(
                        d, in, "a move between vectors of %u and %u elements", to->n_elements, from->n_elements);
        for (uint32_t pass = 0; pass < 2; pass++) {
                for (uint32_t k = 0; k < to->n_elements; k++) {
                        ds_ix_op op = ds_ix_blank(in);

                        if (pass == 0)
                                temp[k] = ds_ix_temp(d);
                        op.a = op.d = temp[k];
                        if (pass == 0 ? !ds_ix_source(d, in, &from->elements[k], bytes, &op.a)
                                      : !ds_ix_destination(d, in, &to->elements[k], bytes, &op.d))
                                return 0;
                        if (op.d != DS_IX_NO_SLOT)
                                ds_ix_emit(d, in, op, ds_ix_move(bytes));
                }
        }
        return 1;
}

static int decode_mov(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        uint32_t bytes = ds_ix_type_bytes((enum ds_ptx_type)in->types[0]);
        int to_vector = in->operands[0].kind == DS_PTX_OPERAND_VECTOR;
        int from_vector = in->operands[1].kind == DS_PTX_OPERAND_VECTOR;
        ds_ix_op op = ds_ix_blank(in);

        if (to_vector && from_vector)
                return decode_vector(d, in, bytes);
        if (to_vector)
                return decode_unpack(d, in, bytes);
        if (from_vector)
                return decode_pack(d, in, bytes);
        if (!ds_ix_source(d, in, &in->operands[1], bytes, &op.a) ||
                !ds_ix_destination(d, in, &in->operands[0], bytes, &op.d))
                return 0;
        if (!ds_ix_move(bytes))
                return ds_ix_refuse(d, in, "a move of %u bytes is not supported", bytes);
        if (op.d != DS_IX_NO_SLOT)
                ds_ix_emit(d, in, op, ds_ix_move(bytes));
        return 1;
}

/* Decodes cvta. It refuses the parameter space of a device function, which has no generic addresses. */
static int decode_cvta(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        ds_ix_op op = ds_ix_blank(in);
        enum ds_ptx_space space = ds_ptx_instr_space(in);

        switch (space) {
        case DS_PTX_IN_SHARED:
                op.imm = DS_INTERP_SHARED_BASE;
                break;
        case DS_PTX_IN_LOCAL:
                op.imm = DS_INTERP_LOCAL_BASE;
                break;
        case DS_PTX_IN_PARAM:
                op.imm = DS_IX_PARAM_BASE;
                break;
        default:
                break;
        }
        if (in->types[0] != T(U64) || (space == DS_PTX_IN_PARAM && !d->ir->is_entry))
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        if (!ds_ix_source(d, in, &in->operands[1], 8, &op.a) || !ds_ix_destination(d, in, &in->operands[0], 8, &op.d))
                return 0;
        ds_ix_emit(d, in, op, ds_ix_convert_address(ds_ptx_has(in, DS_PTX_TO_TO)));
        return 1;
}

/* Decodes mapa and getctarank, which convert between an address of shared memory and the rank of a block in the
 * cluster. */
static int decode_rank(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        uint32_t bytes = ds_ix_type_bytes((enum ds_ptx_type)in->types[0]);
        int mapa = in->op == DS_PTX_OP_MAPA;
        const struct ds_ix_impl *impl = mapa ? ds_ix_find_mapa(bytes) : ds_ix_find_getctarank(bytes);
        ds_ix_op op = ds_ix_blank(in);

        if (!impl)
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        if (!ds_ix_destination(d, in, &in->operands[0], mapa ? bytes : 4, &op.d) ||
                !ds_ix_source(d, in, &in->operands[1], bytes, &op.a) ||
                (mapa && !ds_ix_source(d, in, &in->operands[2], 4, &op.b)))
                return 0;
        ds_ix_emit(d, in, op, impl);
        return 1;
}

int ds_ix_decode_move(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        if (in->op == DS_PTX_OP_MAPA || in->op == DS_PTX_OP_GETCTARANK)
                return decode_rank(d, in);
        if (in->op == DS_PTX_OP_MOV)
                return decode_mov(d, in);
        if (in->op == DS_PTX_OP_CVTA)
                return decode_cvta(d, in);
        return ds_ix_refuse(d, in, "not supported by the simulated device");
}
