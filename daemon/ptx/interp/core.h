/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter's inside: what decoded code and running warps look like
 *
 * A function of PTX becomes an array of 64-byte operations (struct ds_ix_op). Each has a handler that does it for all
 * 32 lanes of a warp at once and returns the next operation; running a warp is calling handlers until one returns NULL.
 * A virtual register is an array of 32 lanes in the function's frame (a predicate is one bit mask), an immediate is
 * such an array in the function's constant pool, a special register one in the warp: an operand is therefore always
 * "base plus offset", and no handler asks what kind it has. Handlers compute all 32 lanes, the compiler vectorises
 * that, and when the warp has diverged only the active lanes are stored.
 *
 * Divergence: a warp is a set of groups, lanes that stand at the same operation of the same frame. One group runs; the
 * others wait at theirs. At every jump the group that is furthest behind (deepest call, then lowest rank in an order in
 * which loops come before what follows them, see cfg.c) goes on, and groups that meet merge. No reconvergence
 * point is ever needed for correctness: a group that spins loses its turn, as lanes of a warp do since Volta.
 *
 * Faults never unwind: a handler records it in the block and returns NULL.
 *
 * Names: ds_ix_ is internal to the interpreter's files. Not here: how PTX is decoded (decode*.c).
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
#define DS_IX_SLICE 16384 /* warp instructions until the abort flag is looked at and warps take turns */
#define DS_IX_PATIENCE 64 /* slices a diverged group runs alone without touching shared state */
#define DS_IX_DEFAULT_BUDGET (UINT64_C(1) << 40)
#define DS_IX_MAX_FRAME (UINT32_C(4) << 20)          /* bytes of registers of one function */
#define DS_IX_MAX_DEPTH 512                          /* calls within calls */
#define DS_IX_MAX_FRAMES_BYTES (UINT64_C(256) << 20) /* registers of all frames of a block; twice that of a cluster */
#define DS_IX_MAX_LOCAL (UINT32_C(512) << 10)        /* bytes of local memory per thread, as on the hardware */
#define DS_IX_MAX_LOCAL_BLOCK (UINT64_C(256) << 20)  /* of all threads of a block or cluster */
#define DS_IX_MAX_SHARED (UINT32_C(256) << 10)       /* bytes of shared memory of a block */
#define DS_IX_RECURSION_LOCAL (UINT32_C(64) << 10)   /* local memory per thread kept for recursion and indirect calls */
#define DS_IX_PARAM_BASE (UINT64_C(3) << 56)         /* generic address of a kernel's parameters */
#define DS_IX_CODE_BASE (UINT64_C(4) << 56)          /* address of function i: base + 16 * i */
#define DS_IX_WINDOW_MASK ((UINT64_C(1) << 56) - 1)
/*
 * An address of shared memory has the rank of its block in the cluster above these bits, also in the block itself, as
 * on the hardware: an address of shared::cta is one of shared::cluster, good in all blocks.
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

/* One handler for every instruction set it was compiled for; ds_ix_isa() picks. All give the same bits. */
enum { DS_IX_ISA_BASE, DS_IX_ISA_AVX2, _DS_IX_ISA_MAX };
struct ds_ix_impl {
        ds_ix_fn fn[_DS_IX_ISA_MAX];
};

/* An operand: offset in one of the warp's four bases, which its two low bits name */
enum { DS_IX_IN_FRAME, DS_IX_IN_POOL, DS_IX_IN_SREGS, DS_IX_IN_SCRATCH, _DS_IX_BASES };
#define DS_IX_NO_SLOT UINT32_MAX

struct ds_ix_op {
        ds_ix_fn fn;    /* what the loop calls: the handler, or a wrapper (guard, counter) around inner */
        ds_ix_fn inner; /* the handler behind a wrapper */
        uint32_t d, e;  /* destinations; e is the second one (shfl's predicate, setp's complement) */
        uint32_t a, b, c, f;
        uint32_t guard; /* predicate of @p, DS_IX_NO_SLOT when always */
        uint32_t line;
        union {
                uint64_t imm; /* address offset, look-up table of lop3... */
                const ds_ix_op *target;
                const void *ext; /* ds_ix_call, struct ds_ix_table, struct ds_ix_convert */
        };
        uint16_t count; /* of control operations: instructions since the last one, itself included */
        uint8_t guard_not;
        uint8_t size;  /* bytes of a memory element */
        uint8_t n;     /* elements of a vector access */
        uint8_t mode;  /* rounding, comparison, kind of shuffle... */
        uint8_t flags; /* DS_IX_FTZ... */
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
        DS_IX_PARAM,   /* of the kernel */
        DS_IX_ARGS,    /* param variables of a frame */
        DS_IX_CLUSTER, /* shared memory of any block of the cluster */
};

enum ds_ix_vote { DS_IX_VOTE_AND, DS_IX_VOTE_OR, DS_IX_VOTE_POPC };

struct ds_ix_table { /* of brx.idx */
        uint32_t n;
        const ds_ix_op *target[];
};

/* Where an argument or result lies in a frame's args area; from_slot when it is passed in a register or as a constant
 */
struct ds_ix_arg {
        uint32_t caller_offset, callee_offset, size;
        uint32_t slot;        /* DS_IX_NO_SLOT: in the caller's args area */
        uint32_t callee_slot; /* DS_IX_NO_SLOT: in the callee's args area */
};

struct ds_ix_call {
        ds_ix_func *func; /* NULL: indirect */
        uint32_t target;  /* slot of the address */
        uint32_t n_args, n_rets;
        struct ds_ix_arg *args; /* callee offsets: every function lays its formals out in the same way */
        struct ds_ix_arg *rets;
};

struct ds_ix_func {
        const struct ds_ptx_function *ir;
        struct ds_ix_op *ops;
        uint32_t n_ops;
        uint32_t *rank; /* of every operation: where it stands in the order of execution, cfg.c */
        uint32_t *reg;  /* slot of every register */
        uint32_t frame_bytes;
        uint8_t *pool;       /* constants */
        uint32_t args_bytes; /* per lane: formals first, then the param variables of its calls */
        uint64_t *var_value; /* of ir->vars: offset in the args area or local memory, shared symbol, or address */
        uint32_t *param_offset, *ret_offset;
        uint32_t local_bytes;
        uint32_t *shared; /* symbols it uses */
        uint32_t n_shared, shared_capacity;
        ds_ix_func **callees;
        uint32_t n_callees, callees_capacity;
        uint32_t registers; /* 32-bit registers live at once */
        ds_ix_func *alias;  /* the function that this name stands for, NULL: itself */
        uint8_t indirect;   /* makes indirect calls */
        uint8_t stack;      /* moves the stack pointer (alloca) */
        uint8_t address_taken;
        uint8_t visit;
        uint32_t stack_slot;  /* with stack: where a frame keeps its caller's stack pointers */
        uint32_t stack_local; /* local bytes of the deepest chain of calls, itself included */
};

struct ds_ix_frame {
        ds_ix_frame *parent, *next_free;
        ds_ix_func *func;
        const ds_ix_op *ret; /* where the caller goes on */
        const ds_ix_call *call;
        uint8_t *regs;
        uint8_t *args; /* [lane][func->args_bytes] */
        uint32_t refs; /* groups that stand in it and frames called from it */
        uint32_t depth;
        uint32_t local_base;
        uint64_t bytes;
};

enum ds_ix_state { DS_IX_READY, DS_IX_RUNNING, DS_IX_WAIT_BARRIER, DS_IX_WAIT_SYNC, DS_IX_WAIT_CLUSTER };

struct ds_ix_group {
        const ds_ix_op *pc;
        ds_ix_frame *frame;
        uint32_t mask;
        uint32_t turn;    /* times it spun and was set back */
        uint32_t need;    /* lanes it waits for (WAIT_SYNC) */
        uint32_t granted; /* lanes that came to the meeting, once it takes place; else 0 */
        uint8_t state;
        uint8_t barrier;
        uint8_t kind; /* of meeting: lanes at different operations of one kind may meet */
};

struct ds_ix_barrier {
        uint32_t arrived;      /* lanes, whole warps counted as 32 when expected is given */
        uint32_t lanes;        /* lanes that arrived */
        uint32_t expected;     /* 0: all threads that have not exited */
        uint32_t votes, voted; /* bar.red: lanes whose predicate holds, lanes that voted */
        uint8_t active;
};

/* Blocks that run together; a block alone is a cluster of one. In the block that the caller gave, which is block[0]. */
struct ds_ix_cluster {
        uint32_t n, dim[3];
        uint32_t live_threads, arrived; /* not exited; of them, arrived at barrier.cluster */
        ds_ix_block *block[DS_INTERP_CLUSTER_MAX];
        uint64_t left;           /* instructions left of the budget */
        uint64_t executed, told; /* told: what of it the caller's progress function knows */
        uint64_t elsewhere;      /* executed by other clusters of a cooperative grid */
        uint64_t frames_bytes;   /* of all blocks */
        uint8_t faulted;         /* one of the blocks */
        uint8_t moved;           /* this round somebody did something else than to wait for an mbarrier in vain */
        uint32_t idle_rounds;    /* in a row, in which nobody did */
};

struct ds_ix_warp {
        uint8_t *base[_DS_IX_BASES];
        uint32_t mask;   /* lanes of the running group */
        uint32_t live;   /* lanes that have not exited */
        uint32_t others; /* groups that are ready beside the running one */
        int64_t fuel;    /* instructions left of the slice */
        ds_ix_frame *frame;
        uint64_t lo, size; /* the range of global memory hit last */
        ds_ix_block *block;
        uint32_t n_groups, current;
        uint32_t index;
        uint32_t cc;      /* carry flag of every lane */
        uint32_t granted; /* lanes that a synchronising operation of the running group may take as present, 0 = its own
                           */
        uint32_t cluster_arrived, cluster_complete; /* lanes that have arrived at barrier.cluster and not waited; of
                                                       them, those whose barrier is complete */
        uint64_t local_limit;                       /* local memory that the frame and its callers have */
        uint8_t *local;                             /* of lane 0 */
        uint32_t stack[DS_IX_LANES];                /* where what alloca gave begins; it grows down from the end */
        uint8_t spun;                               /* touched something that another thread may change */
        uint8_t idle;                               /* it only waits for an mbarrier since it was picked last */
        uint8_t patience;
        uint64_t slice, executed;
        struct ds_interp_cost cost;
        struct ds_ix_group group[DS_IX_LANES];
        uint64_t exchange[DS_IX_LANES]; /* operands of lanes that meet at different operations */
        uint32_t exchange_pred;
        uint8_t scratch[512] __attribute__((__aligned__(64))); /* where sinks write */
};

struct ds_interp_block {
        const struct ds_interp_launch *launch;
        const ds_interp_kernel *kernel;
        const ds_interp *interp;
        struct ds_interp_result *result;
        ds_ix_warp *warp; /* [DS_IX_WARPS] */
        struct ds_ix_cluster *cluster;
        uint32_t rank;                                        /* in it */
        uint32_t n_warps, n_threads, live_threads, n_started; /* n_started: warps that have a frame */
        uint32_t ctaid[3];
        uint64_t executed;
        uint8_t *shared;
        void *shared_memory, *local_memory;
        uint32_t shared_size;
        uint32_t shared_base; /* address of its first byte: the rank */
        uint64_t shared_capacity;
        uint8_t *local;
        uint32_t local_stride;
        uint64_t local_capacity;
        uint64_t frames_of;        /* serial of the interpreter whose functions the free frames belong to */
        ds_ix_frame **free_frames; /* per function */
        uint32_t n_free_frames;
        uint8_t faulted;
        struct ds_ix_barrier barrier[DS_IX_BARRIERS];
        uint8_t *sregs; /* [DS_IX_WARPS][DS_IX_SREGS_BYTES] */
        void *memory;   /* that warp and sregs are in */
        char *text;     /* of a printf, DS_IX_TEXT_MAX bytes once there was one */
        struct ds_ix_cluster own;
        ds_ix_block *other[DS_INTERP_CLUSTER_MAX]; /* working memory for the others of its clusters; [0] is NULL */
        uint32_t params_size;
        uint8_t params[DS_PTX_MAX_PARAM_BYTES + 4]
                __attribute__((__aligned__(16))); /* a copy: aligned, and the block's own */
};

struct ds_interp_kernel {
        const ds_interp *interp;
        ds_ix_func *func;
        struct ds_interp_kernel_info info;
        struct ds_interp_param *params;
        uint32_t *symbol; /* offset of every shared symbol; [0] is 0 */
};

/* Symbols: what an address is relative to. 0 = nothing, 1 = the frame's local memory, others = shared variables. */
enum { DS_IX_SYM_NONE, DS_IX_SYM_LOCAL, DS_IX_SYM_SHARED };

struct ds_ix_shared_var {
        const struct ds_ptx_var *var;
        uint32_t align;
        uint64_t size;
        uint8_t dynamic;
};

struct ds_interp {
        const struct ds_ptx_module *module;
        uint64_t serial; /* tells interpreters apart that were given the same address one after the other */
        ds_arena *arena;
        ds_ix_func *funcs; /* one per module->functions */
        ds_interp_kernel *kernels;
        uint32_t n_kernels;
        struct ds_ix_shared_var *shared; /* index 0 and 1 unused, as symbols */
        uint32_t n_shared, shared_capacity;
        uint64_t *var_value; /* of module->vars: offset in its area, or shared symbol */
        uint8_t *globals, *consts;
        uint64_t globals_size, consts_size, areas_size; /* areas_size: of both, which are one piece of area.h */
        uint64_t sregs_used;                            /* bit per slot of sregs.c */
        uint8_t stack;                                  /* some function has its stack set */
        ds_ix_heap *heap;                               /* NULL: no function calls malloc or free */
        uint8_t prints;                                 /* calls vprintf or __assertfail somewhere */
        int isa;
        struct ds_ix_watch *watch; /* watch.c; NULL: nobody looks */
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

/* predicates are bit masks */
static inline uint32_t ds_ix_pred(const ds_ix_warp *w, uint32_t slot)
{
        return *(const uint32_t *)ds_ix_at(w, slot);
}

static inline void ds_ix_set_pred(const ds_ix_warp *w, uint32_t slot, uint32_t value)
{
        uint32_t *p = ds_ix_at(w, slot);

        *p = (*p & ~w->mask) | (value & w->mask);
}

/* --- between the files --- */
int ds_ix_isa(void);
/* Test seam: interpreters made from now on use this one; -1 = the best that the processor has. */
void ds_ix_force_isa(int isa);
/*
 * Test seam: from now on warps take turns after so many instructions (0: as always), the last one first if backwards,
 * and shared and local memory begins as these bytes: what a kernel may not depend on.
 */
void ds_ix_force_turns(uint32_t slice, int backwards, uint8_t fill);
uint64_t ds_ix_slice(void); /* DS_IX_SLICE, unless forced */

/* sregs.c: special registers that do not change while a block runs are arrays like all others */
#define DS_IX_SREGS_SLOT 128u
#define DS_IX_SREGS_SLOTS 48u
#define DS_IX_SREGS_BYTES (DS_IX_SREGS_SLOT * DS_IX_SREGS_SLOTS)
uint32_t ds_ix_sreg_slot(enum ds_ptx_sreg sreg, uint32_t component); /* DS_IX_NO_SLOT: it changes, see ds_ix_clock */
void ds_ix_sregs_fill(const ds_ix_block *block, ds_ix_warp *w);
const ds_ix_op *ds_ix_clock(ds_ix_warp *w, const ds_ix_op *op); /* mode: enum ds_ptx_sreg, n: bytes */
void ds_ix_enter_frame(ds_ix_warp *w, ds_ix_frame *frame);

/* Ends the block. lane: the first that faulted; fmt becomes the client's error text. Always returns NULL. */
const ds_ix_op *ds_ix_fault(ds_ix_warp *w, const ds_ix_op *op, enum ds_interp_fault fault, uint32_t lane,
        uint64_t address, const char *fmt, ...) ds_printf(6, 7);
/* Writes the fault down, and the block goes on; the first one stays. */
void ds_ix_record(ds_ix_warp *w, const ds_ix_op *op, enum ds_interp_fault fault, uint32_t lane, uint64_t address,
        const char *fmt, ...) ds_printf(6, 7);

/* flow.c: groups. All return the operation to go on with, NULL when the warp has nothing to run. */
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
/* barrier.c: lanes of w exited, barriers may be complete now */
void ds_ix_barrier_exit(ds_ix_warp *w, uint32_t leaving);
const ds_ix_op *ds_ix_barrier_sync(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_barrier_arrive(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_barrier_red(ds_ix_warp *w, const ds_ix_op *op); /* mode: enum ds_ix_vote */

/* cluster.c: lanes of w exited; barrier.cluster; handlers by the width of the address, NULL when there is none */
void ds_ix_cluster_exit(ds_ix_warp *w, uint32_t leaving);
const ds_ix_op *ds_ix_cluster_arrive(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_cluster_wait(ds_ix_warp *w, const ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_mapa(uint32_t bytes);
const struct ds_ix_impl *ds_ix_find_getctarank(uint32_t bytes);

/*
 * Host pointer of the bytes at an address of shared::cluster (a generic one without its window), and in *ret_block the
 * block whose memory that is (may be NULL); NULL when they are not in one block of the cluster.
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
/* 32-bit registers of a thread that hold live values at once, estimated from the text */
int ds_ix_estimate_registers(const struct ds_ptx_function *function, uint32_t *ret_registers);

/* mem.c: host addresses of what the active lanes access; 0 when a fault was recorded */
struct ds_ix_access {
        uint64_t p[DS_IX_LANES];
        uint8_t contiguous; /* all lanes are active and each lies behind the one before */
};
enum ds_ix_intent { DS_IX_READ, DS_IX_WRITE, DS_IX_ATOMIC }; /* the first of enum ds_interp_access */
int ds_ix_resolve(ds_ix_warp *w, const ds_ix_op *op, enum ds_ix_intent intent, struct ds_ix_access *access);
/* Host pointer of [address, address + size) in global memory, NULL when that is not all in one range. */
uint8_t *ds_ix_global(ds_ix_warp *w, uint64_t address, uint64_t size, enum ds_ix_intent intent);
/* Counts `size` bytes of global memory that were moved otherwise than by ds_ix_resolve, and tells the launch of them.
 */
void ds_ix_touch(ds_ix_warp *w, uint64_t address, uint64_t size, enum ds_ix_intent intent);
/* What op's address operand says for every lane, as generic addresses; op->space is global, shared or generic. */
void ds_ix_addresses(const ds_ix_warp *w, const ds_ix_op *op, uint64_t *ret_addresses);
/* Host pointer of `size` bytes at a generic address as a lane may use them, all in one range; NULL: it may not. */
uint8_t *ds_ix_reach(ds_ix_warp *w, uint64_t address, uint64_t size, enum ds_ix_intent intent, uint32_t lane);
/* Host pointer of the byte at a generic address as a lane may read it, or NULL. */
const uint8_t *ds_ix_readable(ds_ix_warp *w, uint64_t address, uint32_t lane);
/* Sets the handler of a load or store; 0 when there is none for these widths. */
const struct ds_ix_impl *ds_ix_find_load(enum ds_ptx_type type, uint32_t register_bytes, ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_store(enum ds_ptx_type type, uint32_t register_bytes, ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_atomic(const struct ds_ptx_instr *instr, ds_ix_op *op); /* atom.c */

/* stack.c. alloca, a control operation: d, a: size, imm: alignment; n: bytes of the registers */
const ds_ix_op *ds_ix_alloca(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_stack_save(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_stack_restore(ds_ix_warp *w, const ds_ix_op *op);
/* The lowest stack pointer of the running lanes */
uint32_t ds_ix_stack_least(const ds_ix_warp *w);
/* Between a call and its return: keeps the stack pointers of the running lanes in the frame, and takes them back. */
void ds_ix_stack_enter(const ds_ix_warp *w, const ds_ix_frame *frame);
void ds_ix_stack_leave(ds_ix_warp *w, const ds_ix_frame *frame);

/* heap.c: where what kernels allocate lies, 0 and a size of 0 before there is anything */
uint64_t ds_ix_heap_base(ds_ix_heap *heap, uint64_t *ret_size);

/* print.c: argument k of a call of the driver's function, and its result, for one lane; up to 8 bytes */
uint64_t ds_ix_call_argument(const ds_ix_warp *w, const ds_ix_call *call, uint32_t k, uint32_t lane);
void ds_ix_call_result(const ds_ix_warp *w, const ds_ix_call *call, uint32_t lane, uint64_t value);
/* ext: the call */
const ds_ix_op *ds_ix_vprintf(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_assert(ds_ix_warp *w, const ds_ix_op *op);

/* trap.c: operations that only a few programs meet */
const ds_ix_op *ds_ix_nop(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_trap(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_fence(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_nanosleep(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_symbol_address(ds_ix_warp *w, const ds_ix_op *op); /* f, imm, n: bytes of the register */

/* The function behind a name: its definition, or what it is an alias of. Its ops are NULL when nobody defines it. */
static inline ds_ix_func *ds_ix_behind(const ds_interp *interp, const struct ds_ptx_function *function)
{
        ds_ix_func *f = &interp->funcs[function->definition ? function->definition->index : function->index];

        return f->alias ? f->alias : f;
}

const ds_ix_op *ds_ix_guarded(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_counted(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_guarded_counted(ds_ix_warp *w, const ds_ix_op *op);

/* Handlers by instruction: NULL when there is none. They read opcode, types and modifiers, set op's mode and flags. */
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
/* cvt.c: from_bytes and to_bytes are the widths of the registers */
const struct ds_ix_impl *ds_ix_find_cvt(
        const struct ds_ptx_instr *instr, uint32_t from_bytes, uint32_t to_bytes, ds_ix_op *op);
/* cvt_narrow.c: .satfinite, formats of 8 bits */
const struct ds_ix_impl *ds_ix_find_narrow(const struct ds_ptx_instr *instr, ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_warp(const struct ds_ptx_instr *instr, ds_ix_op *op);
