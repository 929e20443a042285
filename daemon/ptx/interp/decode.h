/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding: from the instructions of a function to operations
 *
 * One decoder per function. It processes the instructions once and appends operations; jump targets are filled in at
 * the end. It reports each instruction that it cannot decode with its line and continues, so that one load names all
 * reasons. The front end has checked the module. The decoder checks the widths of registers again, because a wrong one
 * would be a security hole in the daemon and not just an error.
 */
#pragma once

#include "ptx/interp/core.h"

typedef struct ds_ix_decoder ds_ix_decoder;

struct ds_ix_fix { /* a jump whose target the decoder fills in at the end */
        uint32_t op;
        uint32_t label;   /* label of the target; UINT32_MAX: the target is the operation with index op->imm */
        uint32_t targets; /* target list of a brx; UINT32_MAX: not a brx */
};

struct ds_ix_constant {
        uint64_t bits;
        uint32_t bytes; /* bytes per lane; 0: a predicate */
        uint32_t offset;
};

struct ds_ix_decoder {
        ds_interp *interp;
        ds_ix_func *func;
        const struct ds_ptx_function *ir;
        struct ds_ptx_diags *diags;
        ds_ix_op *ops;
        size_t ops_capacity, fixes_capacity, constants_capacity;
        uint32_t n_ops, n_fixes, n_constants;
        struct ds_ix_fix *fixes;
        struct ds_ix_constant *constants;
        uint32_t *table; /* open-addressed hash table: index + 1 of each constant */
        uint32_t table_size;
        uint32_t pool_bytes;
        uint32_t *start; /* index of the first operation of each instruction */
        uint8_t *leader; /* 1 for each instruction that is a jump target */
        uint32_t count;  /* number of instructions since the last control operation */
        uint32_t regs_bytes, temps, temps_most;
        int out_of_memory;
        int failed; /* 1: the decoder has reported an instruction that it cannot decode */
};

/* Adds a diagnostic for the instruction. Returns 0, so that a decoder function may return this call's result. */
int ds_ix_refuse(ds_ix_decoder *d, const struct ds_ptx_instr *in, const char *fmt, ...) ds_printf(3, 4);
/* An operation of `in` with every slot empty (DS_IX_NO_SLOT). */
ds_ix_op ds_ix_blank(const struct ds_ptx_instr *in);
/* Appends op with its handler; adds wrappers for guard and counter. */
void ds_ix_emit(ds_ix_decoder *d, const struct ds_ptx_instr *in, ds_ix_op op, const struct ds_ix_impl *impl);
void ds_ix_emit_fn(ds_ix_decoder *d, const struct ds_ptx_instr *in, ds_ix_op op, ds_ix_fn fn);
void ds_ix_emit_plain(ds_ix_decoder *d, ds_ix_op op); /* appends op unchanged */
/* Appends a control operation unchanged, with the number of instructions since the last one. */
ds_ix_op *ds_ix_emit_control(ds_ix_decoder *d, ds_ix_op op);
/* Before an operation that may wait or switch lanes: appends a jump over it for lanes without the guard. Returns the
 * jump. */
uint32_t ds_ix_emit_skip(ds_ix_decoder *d, const struct ds_ptx_instr *in);
void ds_ix_end_skip(ds_ix_decoder *d, uint32_t skip);
void ds_ix_fix(ds_ix_decoder *d, uint32_t op, uint32_t label, uint32_t targets);
/* makes a temporary slot for up to 8 bytes per lane, valid until the end of the instruction */
uint32_t ds_ix_temp(ds_ix_decoder *d);

/* Slot of a source or destination operand; bytes: width of the register, 0 for a predicate. Returns 0 if the operand
 * is refused. */
int ds_ix_source(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_operand *o, uint32_t bytes,
        uint32_t *ret_slot);
int ds_ix_destination(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_operand *o, uint32_t bytes,
        uint32_t *ret_slot);
uint32_t ds_ix_constant_slot(ds_ix_decoder *d, uint64_t bits, uint32_t bytes);
uint32_t ds_ix_register_bytes(const ds_ix_decoder *d, uint32_t reg);
uint32_t ds_ix_type_bytes(enum ds_ptx_type type); /* register bytes of a type; 0: a predicate */

/* Place of a variable: the space of accesses to it, its value (address or offset) and its symbol. */
struct ds_ix_place {
        enum ds_ix_space space;
        uint64_t value;
        uint32_t symbol;
};
/* Stores the address [reg + offset], [variable + offset] or [number] of that space in op's a, f, imm, space and
 * flags. Returns 0 if the address is refused. */
int ds_ix_address(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_operand *o,
        enum ds_ptx_space space, ds_ix_op *op);
int ds_ix_place_of(
        ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_var *var, struct ds_ix_place *ret);

/* Decoders of families of instructions. Each returns 0 if it refused the instruction, else 1. */
int ds_ix_decode_move(ds_ix_decoder *d, const struct ds_ptx_instr *in);
int ds_ix_decode_memory(ds_ix_decoder *d, const struct ds_ptx_instr *in);
int ds_ix_decode_atomic(ds_ix_decoder *d, const struct ds_ptx_instr *in);
int ds_ix_decode_copy(ds_ix_decoder *d, const struct ds_ptx_instr *in);
int ds_ix_decode_control(ds_ix_decoder *d, const struct ds_ptx_instr *in);
int ds_ix_decode_barrier(ds_ix_decoder *d, const struct ds_ptx_instr *in);
int ds_ix_decode_tensor(ds_ix_decoder *d, const struct ds_ptx_instr *in); /* decode_tensor.c */
int ds_ix_decode_async(ds_ix_decoder *d, const struct ds_ptx_instr *in);  /* decode_async.c */
int ds_ix_decode_some(ds_ix_decoder *d, const struct ds_ptx_instr *in);   /* cp.async of fewer bytes than its size */
int ds_ix_decode_video(ds_ix_decoder *d, const struct ds_ptx_instr *in);  /* video.c */

/* decode.c: fills func->ops and related fields. Returns 0, -ENOMEM, or DS_INTERP_E_UNSUPPORTED. */
int ds_ix_decode(ds_interp *interp, ds_ix_func *func, struct ds_ptx_diags *diags);
/* layout.c: places registers, parameters and variables of a function. Returns as ds_ix_decode(). */
int ds_ix_layout(ds_interp *interp, ds_ix_func *func, struct ds_ptx_diags *diags);
