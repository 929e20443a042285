/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The IR: one PTX module, resolved and still printable
 *
 * The IR is PTX itself, not a lower form. Each instruction keeps its row of opcodes.def, its dotted words both decoded
 * and as text, and its operands with names resolved. Registers have dense indices per function, in the order of their
 * first use, so that an interpreter can index an array by them. Labels are instruction indices. PTX's statements
 * between instructions (scopes, declarations, labels, .loc, ...) are a list of items beside the flat instruction array.
 * Each item has the index of the instruction behind it, so that printing keeps order and scopes.
 *
 * Everything lives in the module's arena, nothing is freed singly, pointers are stable. After ds_ptx_parse has returned
 * a module, all indices are in range and all pointers are set: readers need not check again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx/ptx.h"
#include "util/arena.h"

#define DS_PTX_NO_REG UINT32_MAX
#define DS_PTX_MAX_TYPES 4 /* most type suffixes of one instruction */
#define DS_PTX_MAX_MODS 12 /* most other dotted words of one instruction */
#define DS_PTX_MAX_OPERANDS 12
#define DS_PTX_MAX_VECTOR 256 /* most elements of {a, b, ...}; wgmma has up to 128 */
#define DS_PTX_MAX_DIMS 8
#define DS_PTX_MAX_SCOPES 64 /* most nested { } */
#define DS_PTX_MAX_PARAM_BYTES 32764

/* List of the types of registers, variables and type suffixes: name, "word", bits. */
#define DS_PTX_TYPES(X)                 \
        X(B8, "b8", 8)                  \
        X(B16, "b16", 16)               \
        X(B32, "b32", 32)               \
        X(B64, "b64", 64)               \
        X(B128, "b128", 128)            \
        X(U8, "u8", 8)                  \
        X(U16, "u16", 16)               \
        X(U32, "u32", 32)               \
        X(U64, "u64", 64)               \
        X(S8, "s8", 8)                  \
        X(S16, "s16", 16)               \
        X(S32, "s32", 32)               \
        X(S64, "s64", 64)               \
        X(F16, "f16", 16)               \
        X(F16X2, "f16x2", 32)           \
        X(BF16, "bf16", 16)             \
        X(BF16X2, "bf16x2", 32)         \
        X(TF32, "tf32", 32)             \
        X(F32, "f32", 32)               \
        X(F64, "f64", 64)               \
        X(PRED, "pred", 1)              \
        X(U16X2, "u16x2", 32)           \
        X(S16X2, "s16x2", 32)           \
        X(E4M3, "e4m3", 8)              \
        X(E5M2, "e5m2", 8)              \
        X(E4M3X2, "e4m3x2", 16)         \
        X(E5M2X2, "e5m2x2", 16)         \
        X(U4, "u4", 4)                  \
        X(S4, "s4", 4)                  \
        X(U2, "u2", 2)                  \
        X(S2, "s2", 2)                  \
        X(B1, "b1", 1)                  \
        X(TEXREF, "texref", 64)         \
        X(SAMPLERREF, "samplerref", 64) \
        X(SURFREF, "surfref", 64)

enum ds_ptx_type {
        DS_PTX_TYPE_NONE = 0,
#define X(name, word, bits) DS_PTX_TYPE_##name,
        DS_PTX_TYPES(X)
#undef X
                _DS_PTX_TYPE_MAX,
};

/* clang-format off: it never reaches a stable result on so long a list */
/* List of the special registers: name, "word", number of components (0: a scalar; else .x .y .z .w may follow),
 * type. ENVREG's component is its number, 0..31. */
#define DS_PTX_SREGS(X)                                               \
        X(TID, "%tid", 4, U32)                                        \
        X(NTID, "%ntid", 4, U32)                                      \
        X(LANEID, "%laneid", 0, U32)                                  \
        X(WARPID, "%warpid", 0, U32)                                  \
        X(NWARPID, "%nwarpid", 0, U32)                                \
        X(CTAID, "%ctaid", 4, U32)                                    \
        X(NCTAID, "%nctaid", 4, U32)                                  \
        X(SMID, "%smid", 0, U32)                                      \
        X(NSMID, "%nsmid", 0, U32)                                    \
        X(GRIDID, "%gridid", 0, U64)                                  \
        X(IS_EXPLICIT_CLUSTER, "%is_explicit_cluster", 0, PRED)       \
        X(CLUSTERID, "%clusterid", 4, U32)                            \
        X(NCLUSTERID, "%nclusterid", 4, U32)                          \
        X(CLUSTER_CTAID, "%cluster_ctaid", 4, U32)                    \
        X(CLUSTER_NCTAID, "%cluster_nctaid", 4, U32)                  \
        X(CLUSTER_CTARANK, "%cluster_ctarank", 0, U32)                \
        X(CLUSTER_NCTARANK, "%cluster_nctarank", 0, U32)              \
        X(LANEMASK_EQ, "%lanemask_eq", 0, U32)                        \
        X(LANEMASK_LE, "%lanemask_le", 0, U32)                        \
        X(LANEMASK_LT, "%lanemask_lt", 0, U32)                        \
        X(LANEMASK_GE, "%lanemask_ge", 0, U32)                        \
        X(LANEMASK_GT, "%lanemask_gt", 0, U32)                        \
        X(CLOCK, "%clock", 0, U32)                                    \
        X(CLOCK_HI, "%clock_hi", 0, U32)                              \
        X(CLOCK64, "%clock64", 0, U64)                                \
        X(GLOBALTIMER, "%globaltimer", 0, U64)                        \
        X(GLOBALTIMER_LO, "%globaltimer_lo", 0, U32)                  \
        X(GLOBALTIMER_HI, "%globaltimer_hi", 0, U32)                  \
        X(TOTAL_SMEM_SIZE, "%total_smem_size", 0, U32)                \
        X(AGGR_SMEM_SIZE, "%aggr_smem_size", 0, U32)                  \
        X(DYNAMIC_SMEM_SIZE, "%dynamic_smem_size", 0, U32)            \
        X(CURRENT_GRAPH_EXEC, "%current_graph_exec", 0, U64)          \
        X(RESERVED_SMEM_BEGIN, "%reserved_smem_offset_begin", 0, B32) \
        X(RESERVED_SMEM_END, "%reserved_smem_offset_end", 0, B32)     \
        X(RESERVED_SMEM_CAP, "%reserved_smem_offset_cap", 0, B32)     \
        X(RESERVED_SMEM_0, "%reserved_smem_offset_0", 0, B32)         \
        X(RESERVED_SMEM_1, "%reserved_smem_offset_1", 0, B32)         \
        X(PM0, "%pm0", 0, U32)                                        \
        X(PM1, "%pm1", 0, U32)                                        \
        X(PM2, "%pm2", 0, U32)                                        \
        X(PM3, "%pm3", 0, U32)                                        \
        X(PM4, "%pm4", 0, U32)                                        \
        X(PM5, "%pm5", 0, U32)                                        \
        X(PM6, "%pm6", 0, U32)                                        \
        X(PM7, "%pm7", 0, U32)                                        \
        X(PM0_64, "%pm0_64", 0, U64)                                  \
        X(PM1_64, "%pm1_64", 0, U64)                                  \
        X(PM2_64, "%pm2_64", 0, U64)                                  \
        X(PM3_64, "%pm3_64", 0, U64)                                  \
        X(PM4_64, "%pm4_64", 0, U64)                                  \
        X(PM5_64, "%pm5_64", 0, U64)                                  \
        X(PM6_64, "%pm6_64", 0, U64)                                  \
        X(PM7_64, "%pm7_64", 0, U64)                                  \
        X(ENVREG, "%envreg", 0, B32)
/* clang-format on */

enum ds_ptx_sreg {
        DS_PTX_SREG_NONE = 0,
#define X(name, word, components, type) DS_PTX_SREG_##name,
        DS_PTX_SREGS(X)
#undef X
                _DS_PTX_SREG_MAX,
};

/* State spaces of variables. An instruction has its space as a modifier of the slot SPACE (none: generic). */
enum ds_ptx_space {
        DS_PTX_SPACE_NONE = 0,
        DS_PTX_IN_REG,
        DS_PTX_IN_GLOBAL,
        DS_PTX_IN_CONST,
        DS_PTX_IN_SHARED,
        DS_PTX_IN_LOCAL,
        DS_PTX_IN_PARAM,
        _DS_PTX_IN_MAX,
};

enum ds_ptx_linkage {
        DS_PTX_LINKAGE_NONE = 0,
        DS_PTX_LINKAGE_VISIBLE,
        DS_PTX_LINKAGE_EXTERN,
        DS_PTX_LINKAGE_WEAK,
        DS_PTX_LINKAGE_COMMON,
};

enum ds_ptx_class {
        DS_PTX_CLASS_INT,
        DS_PTX_CLASS_FLOAT,
        DS_PTX_CLASS_SPECIAL, /* division, roots, transcendental functions */
        DS_PTX_CLASS_COMPARE,
        DS_PTX_CLASS_MOVE,
        DS_PTX_CLASS_CONVERT,
        DS_PTX_CLASS_MEMORY,
        DS_PTX_CLASS_ATOMIC,
        DS_PTX_CLASS_CONTROL,
        DS_PTX_CLASS_BARRIER,
        DS_PTX_CLASS_WARP,
        DS_PTX_CLASS_ASYNC,
        DS_PTX_CLASS_TENSOR,
        DS_PTX_CLASS_VIDEO,
        DS_PTX_CLASS_TEXTURE,
        DS_PTX_CLASS_MISC,
        _DS_PTX_CLASS_MAX,
};

enum ds_ptx_flag {
        DS_PTX_READS = 1 << 0,
        DS_PTX_WRITES = 1 << 1,
        DS_PTX_BRANCH = 1 << 2,
        DS_PTX_ENDS = 1 << 3,
        DS_PTX_CONVERGE = 1 << 4,
        DS_PTX_BARRIER = 1 << 5,
        DS_PTX_CARRY_IN = 1 << 6,
        DS_PTX_CARRY_OUT = 1 << 7,
        DS_PTX_CLUSTER = 1 << 8,
        DS_PTX_ASYNC = 1 << 9,
};

/* The opcodes, one per row of opcodes.def: DS_PTX_OP_FADD ... */
enum ds_ptx_op {
#define DS_PTX_OPCODE(key, mnemonic, class, types, syntax, operands, flags, run) DS_PTX_OP_##key,
#include "ptx/opcodes.def"
#undef DS_PTX_OPCODE
        _DS_PTX_OP_MAX,
};

/* The modifiers, one per row of modifiers.def: DS_PTX_ROUND_RN, DS_PTX_CMP_LO ... Values are unique over all slots;
 * 0: none. */
enum ds_ptx_modifier {
        DS_PTX_MODIFIER_NONE = 0,
#define DS_PTX_MODIFIER(slot, value, word) DS_PTX_##slot##_##value,
#include "ptx/modifiers.def"
#undef DS_PTX_MODIFIER
        _DS_PTX_MODIFIER_MAX,
};

enum ds_ptx_operand_kind {
        DS_PTX_OPERAND_NONE = 0,
        DS_PTX_OPERAND_REG,  /* register `reg` */
        DS_PTX_OPERAND_PAIR, /* reg|pair; either may be DS_PTX_NO_REG, the sink `_` */
        DS_PTX_OPERAND_SINK, /* the sink `_` */
        DS_PTX_OPERAND_SREG, /* special register `sreg`, `component` */
        DS_PTX_OPERAND_INT,  /* integer constant; `bits`: its value, sign-extended to 64 bits */
        DS_PTX_OPERAND_F32,  /* float constant (0f........); `bits`: its pattern */
        /* double constant (0d................, or a decimal number of a 64-bit operand); `bits`: its pattern */
        DS_PTX_OPERAND_F64,
        DS_PTX_OPERAND_ADDRESS, /* [base + offset]: the base is reg, var, or none (absolute address) */
        DS_PTX_OPERAND_VAR,     /* address of var, plus offset; in a call's arguments the parameter itself */
        DS_PTX_OPERAND_FUNCTION,
        DS_PTX_OPERAND_LABEL,   /* `label`: index into the function's labels */
        DS_PTX_OPERAND_TARGETS, /* `targets`: index into the function's target lists (brx.idx) */
        DS_PTX_OPERAND_VECTOR,  /* {element[0..n_elements)} of REG, SINK or constants; `pair`: the p of {...}|p */
        DS_PTX_OPERAND_CALL,    /* a call: callee, arguments, results */
        _DS_PTX_OPERAND_MAX,
};

/* Part of a 32-bit register that a video instruction reads or writes (operand.select) */
enum ds_ptx_select {
        DS_PTX_SELECT_NONE = 0,
        DS_PTX_SELECT_B0,
        DS_PTX_SELECT_B1,
        DS_PTX_SELECT_B2,
        DS_PTX_SELECT_B3,
        DS_PTX_SELECT_H0,
        DS_PTX_SELECT_H1,
        DS_PTX_SELECT_MASK,    /* SIMD: .h10, .b3210 and the like; see select_text */
        DS_PTX_SELECT_UNIFIED, /* ld with [x].unified: the address is the same in all threads of the warp */
};

struct ds_ptx_var;
struct ds_ptx_function;
struct ds_ptx_call;

struct ds_ptx_operand {
        uint8_t kind;
        uint8_t component; /* component of a special register, 0..3 for .x .y .z .w; or the number of %envreg */
        uint8_t select;    /* enum ds_ptx_select */
        bool negated : 1;  /* !p (predicate) or -a (video operand) */
        /* 1: the address has a written offset, even 0, for which ptxas without optimisation emits an addition */
        bool plus : 1;
        uint16_t n_elements;
        uint16_t sreg; /* enum ds_ptx_sreg */
        uint32_t line, column;
        uint32_t reg; /* index of the register, also of the base of an address; DS_PTX_NO_REG: none */
        uint32_t pair;
        union {
                uint64_t bits;
                int64_t offset; /* offset of an address or of a variable's address */
                uint32_t label;
                uint32_t targets;
                const char *select_text;
        };
        union {
                const struct ds_ptx_var *var;
                const struct ds_ptx_function *function;
                struct ds_ptx_call *call;
        };
        /* Elements of a vector; for an address the operands behind its base: [map, {x, y}], [texture, sampler, {x}] */
        struct ds_ptx_operand *elements;
};

/* A call: call (rets), callee, (args), targets; */
struct ds_ptx_call {
        const struct ds_ptx_function *function; /* callee of a direct call; NULL: the call is indirect */
        /* register with an indirect callee's address; DS_PTX_NO_REG: the call is direct */
        uint32_t reg;
        uint16_t n_rets, n_args;
        struct ds_ptx_operand *rets;              /* results: VAR (param space) or REG operands */
        struct ds_ptx_operand *args;              /* arguments: VAR, REG or constant operands */
        const struct ds_ptx_prototype *prototype; /* prototype that an indirect call names; else NULL */
        uint32_t targets;                         /* index of the call's .calltargets list; UINT32_MAX: none */
};

struct ds_ptx_instr {
        uint16_t op; /* enum ds_ptx_op */
        uint8_t n_types, n_mods, n_operands;
        bool guard_negated;
        uint8_t types[DS_PTX_MAX_TYPES]; /* type suffixes in their order */
        uint16_t mods[DS_PTX_MAX_MODS];  /* enum ds_ptx_modifier, in their order; read with ds_ptx_mod() */
        uint16_t shape[3];               /* m, n, k of a matrix shape */
        uint32_t guard;                  /* predicate register; DS_PTX_NO_REG: unconditional */
        uint32_t line, column;           /* position of the mnemonic */
        struct ds_ptx_operand *operands;
        const char *text; /* mnemonic with all its words, as written: "ld.global.nc.v4.f32" */
};

/* A `.reg` declaration; %r<6> declares six registers %r0..%r5 */
struct ds_ptx_reg_decl {
        const char *name;
        uint32_t count; /* number of registers in a range; 0: a single register */
        uint8_t type;
        /* 2 or 4: number of components of a vector register, which is named as a whole or by component; 0: a scalar
         * register */
        uint8_t vector;
        uint32_t line;
};

struct ds_ptx_reg {
        const struct ds_ptx_reg_decl *decl;
        uint32_t number; /* number of the register in its range */
        uint8_t type;
        uint8_t component; /* component of a vector register, 0..3 */
};

/* An address in a variable's initialiser. */
struct ds_ptx_reloc {
        uint64_t offset;
        const struct ds_ptx_var *var; /* variable whose address is stored; NULL: the address is that of `function` */
        const struct ds_ptx_function *function;
        int64_t addend;
        uint64_t mask; /* bits of the address to store, shifted down, as in 0xFF(x), 0xFF00(x); 0: all bits */
        uint8_t size;  /* size of the stored value, bytes */
        bool generic;  /* true: generic(x), the generic address */
};

struct ds_ptx_var {
        const char *name;                       /* name of the variable; NULL: an unnamed parameter of a prototype */
        const struct ds_ptx_function *function; /* function in which the variable is declared; NULL: at module level */
        /* The module's definition of an extern variable; else the variable itself. */
        const struct ds_ptx_var *definition;
        uint32_t index; /* index in module->vars at module level, else in function->vars, params or rets */
        uint8_t space;  /* enum ds_ptx_space */
        uint8_t type;
        uint8_t vector; /* 2 or 4 elements; 0: scalar */
        uint8_t linkage;
        /* unsized: declared as x[] (an extern variable, or an array parameter) */
        bool align_given, is_ptr, managed, unsized;
        uint8_t ptr_space; /* a .ptr parameter's space; NONE: generic */
        uint32_t ptr_align;
        uint32_t align; /* bytes */
        uint8_t n_dims;
        uint64_t dims[DS_PTX_MAX_DIMS];
        uint64_t size;   /* bytes; 0 when unsized */
        uint64_t offset; /* kernel's parameter: offset in the packed parameters, bytes */
        uint32_t reg;    /* register of a parameter in register space; else DS_PTX_NO_REG */
        /* initial value: `initialised` bytes from the variable's start; the remaining bytes are zero. NULL: no
         * initialiser */
        const uint8_t *data;
        uint64_t initialised;
        struct ds_ptx_reloc *relocs; /* in ascending order of offsets */
        uint32_t n_relocs;
        uint32_t line;
};

struct ds_ptx_label {
        const char *name;
        uint32_t instr; /* index of the instruction behind the label; n_instrs at the end of the body */
        uint32_t line;
};

/* A .branchtargets list (labels) or a .calltargets list (functions) */
struct ds_ptx_targets {
        const char *name;
        uint32_t n;
        uint32_t *labels;                         /* indices into function->labels; NULL for .calltargets */
        const struct ds_ptx_function **functions; /* NULL for .branchtargets */
        uint32_t line;
};

struct ds_ptx_prototype {
        const char *name;
        uint32_t n_rets, n_params;
        struct ds_ptx_var **rets;
        struct ds_ptx_var **params;
        bool noreturn;
        uint32_t line;
};

/* A statement between instructions; the items before one instruction are in the order of the text. */
enum ds_ptx_item_kind {
        DS_PTX_ITEM_OPEN,      /* the brace { */
        DS_PTX_ITEM_CLOSE,     /* the brace } */
        DS_PTX_ITEM_REG,       /* see reg_decl */
        DS_PTX_ITEM_VAR,       /* see var */
        DS_PTX_ITEM_LABEL,     /* index into labels */
        DS_PTX_ITEM_TARGETS,   /* index into targets */
        DS_PTX_ITEM_PROTOTYPE, /* see prototype */
        DS_PTX_ITEM_TEXT,      /* .loc, .pragma or @@DWARF: printed unchanged */
};

struct ds_ptx_item {
        uint8_t kind;
        uint32_t at;
        union {
                const struct ds_ptx_reg_decl *reg_decl;
                const struct ds_ptx_var *var;
                const struct ds_ptx_prototype *prototype;
                const char *text;
                uint32_t index;
        };
};

/* Performance directives of a function; 0: not given. `text` has all of them as written. */
struct ds_ptx_limits {
        uint32_t maxntid[3]; /* dimensions not given are 1 if the first one is given */
        uint32_t reqntid[3];
        uint32_t minnctapersm, maxnreg, maxclusterrank;
        uint32_t reqnctapercluster[3];
        bool explicitcluster, noreturn, blocksareclusters;
};

struct ds_ptx_function {
        const char *name;
        uint32_t index; /* index in module->functions */
        uint8_t linkage;
        bool is_entry;
        bool has_body; /* false: a declaration (.extern, or defined later under the same name) */
        /* definition that belongs to a declaration; else the function itself */
        const struct ds_ptx_function *definition;
        struct ds_ptx_limits limits;
        const char *limits_text;
        uint32_t line;

        uint32_t n_rets, n_params;
        struct ds_ptx_var **rets; /* results of a .func */
        struct ds_ptx_var **params;
        uint32_t params_size; /* size of an entry's packed parameters, bytes */

        uint32_t n_regs;
        struct ds_ptx_reg *regs;
        uint32_t n_vars; /* local, shared, param, const and global variables declared inside the function */
        struct ds_ptx_var **vars;
        uint32_t n_instrs;
        struct ds_ptx_instr *instrs;
        uint32_t n_labels;
        struct ds_ptx_label *labels;
        uint32_t n_targets;
        struct ds_ptx_targets *targets;
        uint32_t n_items;
        struct ds_ptx_item *items;
};

enum ds_ptx_directive_kind {
        DS_PTX_DIRECTIVE_VAR,
        DS_PTX_DIRECTIVE_FUNCTION,
        DS_PTX_DIRECTIVE_ALIAS,
        DS_PTX_DIRECTIVE_TEXT, /* .file, .section { }, .pragma or @@DWARF: the text as written */
};

/* The module's statements from top to bottom */
struct ds_ptx_directive {
        uint8_t kind;
        union {
                struct ds_ptx_var *var;
                struct ds_ptx_function *function; /* a declaration or a definition */
                struct {
                        const struct ds_ptx_function *alias, *aliasee;
                };
                const char *text;
        };
};

struct ds_ptx_module {
        ds_arena *arena;
        const char *text; /* source text, for diagnostics */
        size_t length;
        uint32_t version;        /* PTX version: 90 for 9.0 */
        uint32_t target;         /* GPU architecture: 90 for sm_90 */
        char target_suffix;      /* 'a' for sm_90a, 'f', or 0 */
        const char *target_text; /* operand of .target: "sm_90, debug" */
        uint32_t address_size;   /* bits: 64 */
        bool address_size_given;

        uint32_t n_directives;
        struct ds_ptx_directive *directives;
        uint32_t n_vars;
        struct ds_ptx_var **vars;
        uint32_t n_functions; /* declarations and definitions, each with an entry of its own */
        struct ds_ptx_function **functions;
};

/* One row of opcodes.def as data. The elements of `syntax` are private to the front end. */
struct ds_ptx_op_info {
        const char *key;
        const char *mnemonic;
        const char *operands;
        /* accepted types of the first, the second, and all later type suffixes, as sets of 1 << enum ds_ptx_type */
        uint64_t types[3];
        uint16_t flags; /* enum ds_ptx_flag */
        uint8_t class;  /* enum ds_ptx_class */
        bool run;       /* true: the interpreter executes it */
        uint8_t syntax[18];
};

const struct ds_ptx_op_info *ds_ptx_op_info(enum ds_ptx_op op);
const char *ds_ptx_class_name(enum ds_ptx_class class);
const char *ds_ptx_type_name(enum ds_ptx_type type); /* e.g. "f32" */
uint32_t ds_ptx_type_bits(enum ds_ptx_type type);    /* bits of a type; 1 for pred */
bool ds_ptx_type_is_float(enum ds_ptx_type type);    /* true for f16 .. f64 and their packed forms */
bool ds_ptx_type_is_signed(enum ds_ptx_type type);   /* true for s8 .. s64 */
const char *ds_ptx_sreg_name(enum ds_ptx_sreg sreg);
enum ds_ptx_type ds_ptx_sreg_type(enum ds_ptx_sreg sreg);
const char *ds_ptx_modifier_word(enum ds_ptx_modifier modifier);

/*
 * Value of an instruction's modifier in the same slot as `any`, which may be any value of that slot; 0: the instruction
 * has none. Example: ds_ptx_mod(i, DS_PTX_ROUND_RN) == DS_PTX_ROUND_RZ.
 */
enum ds_ptx_modifier ds_ptx_mod(const struct ds_ptx_instr *instr, enum ds_ptx_modifier any);
bool ds_ptx_has(const struct ds_ptx_instr *instr, enum ds_ptx_modifier value);
/* State space that an instruction names; `::` words count as their base space; NONE if generic. */
enum ds_ptx_space ds_ptx_instr_space(const struct ds_ptx_instr *instr);
/* Number of elements of .v2, .v4 or .v8; 1: the instruction has no such word. */
uint32_t ds_ptx_instr_vector(const struct ds_ptx_instr *instr);
/* Writes a register's source name to buffer; returns buffer. */
const char *ds_ptx_reg_name(const struct ds_ptx_function *function, uint32_t reg, char *buffer, size_t size);
