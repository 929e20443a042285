/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter's internals: decoded code and running warps
 *
 * A function of PTX becomes an array of 64-byte operations (struct ds_ix_op). Each operation has a handler that
 * executes it for all 32 lanes of a warp at once and returns the next operation. Running a warp means calling handlers
 * until one returns NULL. A virtual register is an array of 32 lanes in the function's frame (a predicate is one bit
 * mask), an immediate is such an array in the function's constant pool, a special register one in the warp. So an
 * operand is always "base plus offset", and handlers need not distinguish operand kinds. Handlers compute all 32 lanes,
 * which the compiler vectorises; when the warp has diverged, only the active lanes are stored.
 *
 * Divergence: a warp is a set of groups, each with lanes at the same operation of the same frame. One group runs; the
 * others wait at their operations. At every jump the group that is furthest behind continues: deepest call, then lowest
 * rank in an order in which loops precede the code after them, see cfg.c. Groups that meet merge. Correctness never
 * needs a reconvergence point: a group that spins loses its turn, as lanes of a warp do since Volta.
 *
 * Faults never unwind: a handler records the fault in the block and returns NULL.
 *
 * Names: ds_ix_ is internal to the interpreter's files. Decoding of PTX is elsewhere (decode*.c).
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ptx/interp/interp.h"
#include "ptx/ir.h"
#include "util/macro.h"

#define DS_IX_LANES 32
#define DS_IX_FULL UINT32_MAX
#define DS_IX_WARPS 32
#define DS_IX_BARRIERS 16
#define DS_IX_SLICE 16384 /* warp instructions between two checks of the abort flag and turns of warps */
#define DS_IX_PATIENCE 64 /* slices that a diverged group runs alone without touching shared state */
#define DS_IX_DEFAULT_BUDGET (UINT64_C(1) << 40)
#define DS_IX_MAX_FRAME (UINT32_C(4) << 20) /* bytes of registers of one function */
#define DS_IX_MAX_DEPTH 512                 /* most nested calls */
/* bytes of registers of all frames of a block; twice that for a cluster */
#define DS_IX_MAX_FRAMES_BYTES (UINT64_C(256) << 20)
#define DS_IX_MAX_LOCAL (UINT32_C(512) << 10)       /* bytes of local memory per thread, as on the hardware */
#define DS_IX_MAX_LOCAL_BLOCK (UINT64_C(256) << 20) /* bytes of local memory of all threads of a block or cluster */
#define DS_IX_MAX_SHARED (UINT32_C(256) << 10)      /* bytes of shared memory of a block */
/* bytes of local memory per thread reserved for recursion and indirect calls */
#define DS_IX_RECURSION_LOCAL (UINT32_C(64) << 10)
#define DS_IX_PARAM_BASE (UINT64_C(3) << 56) /* generic address of a kernel's parameters */
#define DS_IX_CODE_BASE (UINT64_C(4) << 56)  /* generic address of function i: base + 16 * i */
#define DS_IX_WINDOW_MASK ((UINT64_C(1) << 56) - 1)
/*
 * An address of shared memory has the rank of its block in the cluster above these bits, also for the block itself, as
 * on the hardware. So an address of shared::cta is also one of shared::cluster, valid in all blocks.
 */
#define DS_IX_RANK_SHIFT 24

typedef struct ds_interp_block ds_ix_block;
typedef struct ds_ix_call ds_ix_call;
typedef struct ds_ix_frame ds_ix_frame;
typedef struct ds_ix_func ds_ix_func;
typedef struct ds_ix_heap ds_ix_heap;
typedef struct ds_ix_op ds_ix_op;
typedef struct ds_ix_warp ds_ix_warp;

typedef const ds_ix_op *(*ds_ix_fn)(ds_ix_warp *w, const ds_ix_op *op);

/* One handler, compiled for each instruction set; ds_ix_isa() chooses. All give the same bits. */
enum { DS_IX_ISA_BASE, DS_IX_ISA_AVX2, _DS_IX_ISA_MAX };
struct ds_ix_impl {
        ds_ix_fn fn[_DS_IX_ISA_MAX];
};

/* An operand: an offset in one of the warp's four bases; its two low bits select the base */
enum { DS_IX_IN_FRAME, DS_IX_IN_POOL, DS_IX_IN_SREGS, DS_IX_IN_SCRATCH, _DS_IX_BASES };
#define DS_IX_NO_SLOT UINT32_MAX

struct ds_ix_op {
        /* function that the main loop calls: the handler, or a wrapper (guard, counter) around `inner` */
        ds_ix_fn fn;
        ds_ix_fn inner; /* the handler behind a wrapper */
        uint32_t d, e;  /* destinations; e: the second one (shfl's predicate, setp's complement) */
        uint32_t a, b, c, f;
        uint32_t guard; /* predicate of @p; DS_IX_NO_SLOT: unconditional */
        uint32_t line;
        union {
                uint64_t imm; /* address offset, lookup table of lop3, ... */
                const ds_ix_op *target;
                const void *ext; /* ds_ix_call, struct ds_ix_table, struct ds_ix_convert */
        };
        uint16_t count; /* control operations: instructions since the last one, including itself */
        uint8_t guard_not;
        uint8_t size;  /* bytes of one memory element */
        uint8_t n;     /* elements of a vector access */
        uint8_t mode;  /* rounding, comparison, kind of shuffle, ... */
        uint8_t flags; /* bits: DS_IX_FTZ and others */
        uint8_t space; /* enum ds_ix_space */
};

_Static_assert(sizeof(ds_ix_op) == 64, "one cache line");

enum ds_ix_flag {
        DS_IX_FTZ = 1 << 0,
        DS_IX_SAT = 1 << 1,
        DS_IX_VOLATILE = 1 << 2,     /* a memory access that may be part of a spin loop */
        DS_IX_WIDE_ADDRESS = 1 << 3, /* the address register has 64 bits */
        DS_IX_RELU = 1 << 4,
        DS_IX_BACKWARD = 1 << 5,
};

enum ds_ix_round { DS_IX_RN, DS_IX_RZ, DS_IX_RM, DS_IX_RP, DS_IX_RNA };

enum ds_ix_space {
        DS_IX_GENERIC,
        DS_IX_GLOBAL, /* host addresses */
        DS_IX_CONST,  /* host addresses in the module's constants */
        DS_IX_SHARED,
        DS_IX_LOCAL,
        DS_IX_PARAM,   /* a kernel's parameters */
        DS_IX_ARGS,    /* param variables of a frame */
        DS_IX_CLUSTER, /* shared memory of any block of the cluster */
};

enum ds_ix_vote { DS_IX_VOTE_AND, DS_IX_VOTE_OR, DS_IX_VOTE_POPC };

struct ds_ix_table { /* jump table of brx.idx */
        uint32_t n;
        const ds_ix_op *target[];
};

/* Location of an argument or result in a frame's args area; `slot` if it is passed in a register or as a constant */
struct ds_ix_arg {
        uint32_t caller_offset, callee_offset, size;
        uint32_t slot;        /* DS_IX_NO_SLOT: in the caller's args area */
        uint32_t callee_slot; /* DS_IX_NO_SLOT: in the callee's args area */
};

struct ds_ix_call {
        ds_ix_func *func; /* NULL for an indirect call */
        uint32_t target;  /* slot of an indirect callee's address */
        uint32_t n_args, n_rets;
        struct ds_ix_arg *args; /* callee offsets: all functions lay out their formals in the same way */
        struct ds_ix_arg *rets;
};

struct ds_ix_func {
        const struct ds_ptx_function *ir;
        struct ds_ix_op *ops;
        uint32_t n_ops;
        uint32_t *rank; /* rank of each operation in the execution order, see cfg.c */
        uint32_t *reg;  /* slot of each register */
        uint32_t frame_bytes;
        uint8_t *pool;       /* constants */
        uint32_t args_bytes; /* bytes per lane: formals first, then the param variables of its calls */
        /* by index in ir->vars: offset in the args area or local memory, shared symbol, or address */
        uint64_t *var_value;
        uint32_t *param_offset, *ret_offset;
        uint32_t local_bytes;
        uint32_t *shared; /* shared symbols that the function uses */
        uint32_t n_shared, shared_capacity;
        ds_ix_func **callees;
        uint32_t n_callees, callees_capacity;
        uint32_t registers; /* most 32-bit registers live at once */
        ds_ix_func *alias;  /* function that this name is an alias of; NULL: none */
        uint8_t indirect;   /* 1: makes indirect calls */
        uint8_t stack;      /* 1: moves the stack pointer (alloca) */
        uint8_t address_taken;
        uint8_t visit;
        uint32_t stack_slot;  /* if `stack`: slot where a frame saves its caller's stack pointers */
        uint32_t stack_local; /* bytes of local memory of the deepest call chain, including the function itself */
};

struct ds_ix_frame {
        ds_ix_frame *parent, *next_free;
        ds_ix_func *func;
        const ds_ix_op *ret; /* the caller's next operation */
        const ds_ix_call *call;
        uint8_t *regs;
        uint8_t *args; /* [lane][func->args_bytes] */
        uint32_t refs; /* groups in the frame, and frames called from it */
        uint32_t depth;
        uint32_t local_base;
        uint64_t bytes;
};

enum ds_ix_state { DS_IX_READY, DS_IX_RUNNING, DS_IX_WAIT_BARRIER, DS_IX_WAIT_SYNC, DS_IX_WAIT_CLUSTER };

struct ds_ix_group {
        const ds_ix_op *pc;
        ds_ix_frame *frame;
        uint32_t mask;
        uint32_t turn;    /* times that it spun and was put back */
        uint32_t need;    /* lanes it waits for (WAIT_SYNC) */
        uint32_t granted; /* lanes present at the meeting, once it takes place; else 0 */
        uint8_t state;
        uint8_t barrier;
        uint8_t kind; /* kind of meeting: lanes at different operations of one kind may meet */
};

struct ds_ix_barrier {
        uint32_t arrived;      /* arrived lanes; with a count, each warp counts as 32 */
        uint32_t lanes;        /* lanes that have really arrived */
        uint32_t expected;     /* 0: all threads that have not exited */
        uint32_t votes, voted; /* bar.red: lanes whose predicate holds, lanes that voted */
        uint8_t active;
};

/* Blocks that run together; a single block is a cluster of one. It is a member of the caller's block, which is
 * block[0]. */
struct ds_ix_cluster {
        uint32_t n, dim[3];
        /* threads that have not exited; those of them that have arrived at barrier.cluster */
        uint32_t live_threads, arrived;
        ds_ix_block *block[DS_INTERP_CLUSTER_MAX];
        uint64_t left;           /* instructions left in the budget */
        uint64_t executed, told; /* told: the last value given to the caller's progress function */
        uint64_t elsewhere;      /* instructions executed by other clusters of a cooperative grid */
        uint64_t frames_bytes;   /* bytes of all blocks' frames */
        uint8_t faulted;         /* 1: one of the blocks has faulted */
        uint8_t moved;           /* 1: in this round a warp did more than wait for an mbarrier that was not complete */
        uint32_t idle_rounds;    /* consecutive rounds in which no warp did */
};

struct ds_ix_warp {
        uint8_t *base[_DS_IX_BASES];
        uint32_t mask;   /* lanes of the running group */
        uint32_t live;   /* lanes that have not exited */
        uint32_t others; /* number of ready groups besides the running one */
        int64_t fuel;    /* instructions left in the slice */
        ds_ix_frame *frame;
        uint64_t lo, size; /* the last range of global memory that was accessed */
        ds_ix_block *block;
        uint32_t n_groups, current;
        uint32_t index;
        uint32_t cc; /* carry flag of every lane */
        /* lanes that a synchronising operation of the running group may take as present; 0: only its own */
        uint32_t granted;
        /* lanes that have arrived at barrier.cluster and not waited; those of them whose barrier is complete */
        uint32_t cluster_arrived, cluster_complete;
        uint64_t local_limit; /* bytes of local memory of the frame and its callers */
        uint8_t *local;       /* local memory of lane 0 */
        /* offset of the lowest alloca allocation; grows down from the end */
        uint32_t stack[DS_IX_LANES];
        uint8_t spun; /* 1: touched state that another thread may change */
        uint8_t idle; /* 1: since it was picked last it has only waited for an mbarrier */
        uint8_t patience;
        uint64_t slice, executed;
        struct ds_interp_cost cost;
        struct ds_ix_group group[DS_IX_LANES];
        uint64_t exchange[DS_IX_LANES]; /* operands of lanes that meet at different operations */
        uint32_t exchange_pred;
        uint8_t scratch[512] __attribute__((__aligned__(64))); /* destination of sinks */
};

struct ds_interp_block {
        const struct ds_interp_launch *launch;
        const ds_interp_kernel *kernel;
        const ds_interp *interp;
        struct ds_interp_result *result;
        ds_ix_warp *warp; /* [DS_IX_WARPS] */
        struct ds_ix_cluster *cluster;
        uint32_t rank;                                        /* rank in the cluster */
        uint32_t n_warps, n_threads, live_threads, n_started; /* n_started: warps that have a frame */
        uint32_t ctaid[3];
        uint64_t executed;
        uint8_t *shared;
        void *shared_memory, *local_memory;
        uint32_t shared_size;
        uint32_t shared_base; /* address of its first byte; contains the rank */
        uint64_t shared_capacity;
        uint8_t *local;
        uint32_t local_stride;
        uint64_t local_capacity;
        uint64_t frames_of;        /* serial of the interpreter whose functions own the free frames */
        ds_ix_frame **free_frames; /* one list per function */
        uint32_t n_free_frames;
        uint8_t faulted;
        struct ds_ix_barrier barrier[DS_IX_BARRIERS];
        uint8_t *sregs; /* [DS_IX_WARPS][DS_IX_SREGS_BYTES] */
        void *memory;   /* memory that contains warp and sregs */
        char *text;     /* text of one printf, DS_IX_TEXT_MAX bytes; allocated by the first one */
        struct ds_ix_cluster own;
        /* working memory for the other blocks of its clusters; [0] is NULL */
        ds_ix_block *other[DS_INTERP_CLUSTER_MAX];
        uint32_t params_size;
        uint8_t params[DS_PTX_MAX_PARAM_BYTES + 4]
                __attribute__((__aligned__(16))); /* an aligned copy that only this block uses */
};

struct ds_interp_kernel {
        const ds_interp *interp;
        ds_ix_func *func;
        struct ds_interp_kernel_info info;
        struct ds_interp_param *params;
        uint32_t *symbol; /* offset of each shared symbol; [0] is 0 */
};

/* Symbols: the base that an address is relative to. 0: none, 1: the frame's local memory, others: shared variables. */
enum { DS_IX_SYM_NONE, DS_IX_SYM_LOCAL, DS_IX_SYM_SHARED };

struct ds_ix_shared_var {
        const struct ds_ptx_var *var;
        uint32_t align;
        uint64_t size;
        uint8_t dynamic;
};

struct ds_interp {
        const struct ds_ptx_module *module;
        uint64_t serial; /* distinguishes interpreters that had the same address one after the other */
        ds_arena *arena;
        ds_ix_func *funcs; /* one per entry of module->functions */
        ds_interp_kernel *kernels;
        uint32_t n_kernels;
        struct ds_ix_shared_var *shared; /* indices 0 and 1 are unused, as for symbols */
        uint32_t n_shared, shared_capacity;
        uint64_t *var_value; /* by index in module->vars: offset in its area, or shared symbol */
        uint8_t *globals, *consts;
        uint64_t globals_size, consts_size, areas_size; /* areas_size: of both, which are one piece of area.h */
        uint64_t sregs_used;                            /* one bit per slot of sregs.c */
        uint8_t stack;                                  /* 1: some function has `stack` set */
        ds_ix_heap *heap;                               /* NULL: no function calls malloc or free */
        uint8_t prints;                                 /* 1: calls vprintf or __assertfail somewhere */
        int isa;
        struct ds_ix_watch *watch; /* watch.c; NULL: no thread is watched */
};

/* --- operands --- */
static inline void *ds_ix_at(const ds_ix_warp *w, uint32_t slot)
{
        return __builtin_assume_aligned(w->base[slot & 3] + (slot & ~UINT32_C(3)), 4);
}

static inline void *ds_ix_lanes(const ds_ix_warp *w, uint32_t slot)
{
        return __builtin_assume_aligned(w->base[slot & 3] + (slot & ~UINT32_C(3)), 64);
}

/* bit mask of a predicate */
static inline uint32_t ds_ix_pred(const ds_ix_warp *w, uint32_t slot)
{
        return *(const uint32_t *)ds_ix_at(w, slot);
}

static inline void ds_ix_set_pred(const ds_ix_warp *w, uint32_t slot, uint32_t value)
{
        uint32_t *p = ds_ix_at(w, slot);

        *p = (*p & ~w->mask) | (value & w->mask);
}

/* --- shared by several files --- */
int ds_ix_isa(void);
/* For tests: interpreters made from now on use this instruction set; -1: the processor's best. */
void ds_ix_force_isa(int isa);
/*
 * For tests, from now on: warps take turns after `slice` instructions (0: normal), the last warp first if backwards,
 * and shared and local memory starts with the byte `fill`. A correct kernel depends on none of these.
 */
void ds_ix_force_turns(uint32_t slice, int backwards, uint8_t fill);
uint64_t ds_ix_slice(void); /* DS_IX_SLICE, unless a test has set another value */

/* sregs.c: special registers that stay constant while a block runs are arrays like other operands */
#define DS_IX_SREGS_SLOT 128u
#define DS_IX_SREGS_SLOTS 48u
#define DS_IX_SREGS_BYTES (DS_IX_SREGS_SLOT * DS_IX_SREGS_SLOTS)
uint32_t ds_ix_sreg_slot(enum ds_ptx_sreg sreg, uint32_t component); /* DS_IX_NO_SLOT: not constant, see ds_ix_clock */
void ds_ix_sregs_fill(const ds_ix_block *block, ds_ix_warp *w);
const ds_ix_op *ds_ix_clock(ds_ix_warp *w, const ds_ix_op *op); /* mode: enum ds_ptx_sreg, n: bytes */
void ds_ix_enter_frame(ds_ix_warp *w, ds_ix_frame *frame);

/* Ends the block with a fault. lane: the first that faulted; fmt becomes the client's error text. Always returns
 * NULL. */
const ds_ix_op *ds_ix_fault(ds_ix_warp *w, const ds_ix_op *op, enum ds_interp_fault fault, uint32_t lane,
        uint64_t address, const char *fmt, ...) ds_printf(6, 7);
/* Records a fault; the block continues. The first fault stays. */
void ds_ix_record(ds_ix_warp *w, const ds_ix_op *op, enum ds_interp_fault fault, uint32_t lane, uint64_t address,
        const char *fmt, ...) ds_printf(6, 7);

/* flow.c: groups. Each returns the next operation, or NULL if the warp has nothing to run. */
const ds_ix_op *ds_ix_pick(ds_ix_warp *w);
const ds_ix_op *ds_ix_switch(ds_ix_warp *w, const ds_ix_op *pc);
const ds_ix_op *ds_ix_wait(ds_ix_warp *w, const ds_ix_op *pc, enum ds_ix_state state);
const ds_ix_op *ds_ix_expire(ds_ix_warp *w, const ds_ix_op *pc);
const ds_ix_op *ds_ix_leave(ds_ix_warp *w);
void ds_ix_split(ds_ix_warp *w, uint32_t mask, const ds_ix_op *pc);
void ds_ix_account(ds_ix_warp *w);
const ds_ix_op *ds_ix_fall(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_bra(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_bra_if(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_brx(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_call_op(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_ret(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_exit(ds_ix_warp *w, const ds_ix_op *op);
void ds_ix_frame_release(ds_ix_block *block, ds_ix_frame *frame);
ds_ix_frame *ds_ix_frame_new(ds_ix_block *block, ds_ix_func *func);
void ds_ix_frames_free(ds_ix_block *block);
/* barrier.c: lanes of w have exited, which may complete barriers */
void ds_ix_barrier_exit(ds_ix_warp *w, uint32_t leaving);
const ds_ix_op *ds_ix_barrier_sync(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_barrier_arrive(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_barrier_red(ds_ix_warp *w, const ds_ix_op *op); /* mode: enum ds_ix_vote */

/* cluster.c: lanes of w have exited; barrier.cluster; handlers by the width of the address, NULL if none */
void ds_ix_cluster_exit(ds_ix_warp *w, uint32_t leaving);
const ds_ix_op *ds_ix_cluster_arrive(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_cluster_wait(ds_ix_warp *w, const ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_mapa(uint32_t bytes);
const struct ds_ix_impl *ds_ix_find_getctarank(uint32_t bytes);

/*
 * Host pointer of the bytes at an address of shared::cluster (a generic one without its window); NULL if they are not
 * in one block of the cluster. *ret_block (may be NULL): the block that owns that memory.
 */
static inline uint8_t *ds_ix_cluster_at(const ds_ix_warp *w, uint64_t address, uint64_t bytes, ds_ix_block **ret_block)
{
        const struct ds_ix_cluster *cluster = w->block->cluster;
        uint64_t rank = address >> DS_IX_RANK_SHIFT, offset = address & ((UINT64_C(1) << DS_IX_RANK_SHIFT) - 1);
        ds_ix_block *block;

        if (rank >= cluster->n)
                return NULL;
        block = cluster->block[rank];
        if (bytes > block->shared_size || offset > block->shared_size - bytes)
                return NULL;
        if (ret_block)
                *ret_block = block;
        return block->shared + offset;
}

/* cfg.c: sets func->rank. Returns 0 or -ENOMEM. */
int ds_ix_order(ds_ix_func *func, ds_arena *arena);
/* Estimate, from the text, of a thread's 32-bit registers that hold live values at once */
int ds_ix_estimate_registers(const struct ds_ptx_function *function, uint32_t *ret_registers);

/* mem.c: host addresses that the active lanes access; 0 if a fault was recorded */
struct ds_ix_access {
        uint64_t p[DS_IX_LANES];
        uint8_t contiguous; /* all lanes are active, at consecutive addresses */
};
enum ds_ix_intent { DS_IX_READ, DS_IX_WRITE, DS_IX_ATOMIC }; /* the first values of enum ds_interp_access */
int ds_ix_resolve(ds_ix_warp *w, const ds_ix_op *op, enum ds_ix_intent intent, struct ds_ix_access *access);
/* Host pointer of [address, address + size) in global memory; NULL if it is not all in one range. */
uint8_t *ds_ix_global(ds_ix_warp *w, uint64_t address, uint64_t size, enum ds_ix_intent intent);
/* Counts `size` bytes of global memory moved without ds_ix_resolve, and reports them to the launch. */
void ds_ix_touch(ds_ix_warp *w, uint64_t address, uint64_t size, enum ds_ix_intent intent);
/* Values of op's address operand for every lane, as generic addresses; op->space is global, shared or generic. */
void ds_ix_addresses(const ds_ix_warp *w, const ds_ix_op *op, uint64_t *ret_addresses);
/* Host pointer of `size` bytes at a generic address that the lane may access, all in one range; NULL: it may not. */
uint8_t *ds_ix_reach(ds_ix_warp *w, uint64_t address, uint64_t size, enum ds_ix_intent intent, uint32_t lane);
/* Host pointer of the byte at a generic address that the lane may read, or NULL. */
const uint8_t *ds_ix_readable(ds_ix_warp *w, uint64_t address, uint32_t lane);
/* Handler of a load or store, set up in *op; NULL if there is none for these widths. */
const struct ds_ix_impl *ds_ix_find_load(enum ds_ptx_type type, uint32_t register_bytes, ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_store(enum ds_ptx_type type, uint32_t register_bytes, ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_atomic(const struct ds_ptx_instr *instr, ds_ix_op *op); /* atom.c */

/* stack.c. alloca, a control operation: d: address, a: size, imm: alignment; n: bytes of the registers */
const ds_ix_op *ds_ix_alloca(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_stack_save(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_stack_restore(ds_ix_warp *w, const ds_ix_op *op);
/* Lowest stack pointer of the running lanes */
uint32_t ds_ix_stack_least(const ds_ix_warp *w);
/* At a call and at its return: saves the stack pointers of the running lanes in the frame, and restores them. */
void ds_ix_stack_enter(const ds_ix_warp *w, const ds_ix_frame *frame);
void ds_ix_stack_leave(ds_ix_warp *w, const ds_ix_frame *frame);

/* heap.c: address and size of the kernels' heap; 0 and a size of 0 before the first allocation */
uint64_t ds_ix_heap_base(ds_ix_heap *heap, uint64_t *ret_size);

/* print.c: for one lane, argument k of a call of a driver's function, and its result; up to 8 bytes */
uint64_t ds_ix_call_argument(const ds_ix_warp *w, const ds_ix_call *call, uint32_t k, uint32_t lane);
void ds_ix_call_result(const ds_ix_warp *w, const ds_ix_call *call, uint32_t lane, uint64_t value);
/* ext: the call */
const ds_ix_op *ds_ix_vprintf(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_assert(ds_ix_warp *w, const ds_ix_op *op);

/* trap.c: operations that are rare in programs */
const ds_ix_op *ds_ix_nop(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_trap(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_fence(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_nanosleep(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_symbol_address(ds_ix_warp *w, const ds_ix_op *op); /* f, imm, n: bytes of the register */

/* The function behind a name: its definition, or the target of an alias. Its ops are NULL if it is not defined. */
static inline ds_ix_func *ds_ix_behind(const ds_interp *interp, const struct ds_ptx_function *function)
{
        ds_ix_func *f = &interp->funcs[function->definition ? function->definition->index : function->index];

        return f->alias ? f->alias : f;
}

const ds_ix_op *ds_ix_guarded(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_counted(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_guarded_counted(ds_ix_warp *w, const ds_ix_op *op);

/* Handlers by instruction: NULL if there is none. They read opcode, types and modifiers, and set op's mode and
 * flags. */
const struct ds_ix_impl *ds_ix_find_int(const struct ds_ptx_instr *instr, ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_bits(const struct ds_ptx_instr *instr, ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_float(const struct ds_ptx_instr *instr, ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_special(const struct ds_ptx_instr *instr, ds_ix_op *op);
/* ex2 or tanh of f32 */
const struct ds_ix_impl *ds_ix_special_f32(int ex2);
const struct ds_ix_impl *ds_ix_find_half(const struct ds_ptx_instr *instr, ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_compare(const struct ds_ptx_instr *instr, ds_ix_op *op);
/* select.c */
const struct ds_ix_impl *ds_ix_set_result(uint32_t bytes, int packed);
const struct ds_ix_impl *ds_ix_convert_address(int to);
const struct ds_ix_impl *ds_ix_move(uint32_t bytes); /* 0: a predicate */
const struct ds_ix_impl *ds_ix_pack(const ds_ix_op *op);
const struct ds_ix_impl *ds_ix_unpack(ds_ix_op *op);
/* cvt.c: from_bytes and to_bytes are register widths */
const struct ds_ix_impl *ds_ix_find_cvt(
        const struct ds_ptx_instr *instr, uint32_t from_bytes, uint32_t to_bytes, ds_ix_op *op);
/* cvt_narrow.c: .satfinite, formats of 8 bits */
const struct ds_ix_impl *ds_ix_find_narrow(const struct ds_ptx_instr *instr, ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_warp(const struct ds_ptx_instr *instr, ds_ix_op *op);
