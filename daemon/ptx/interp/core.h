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
#define DS_IX_SLICE 16384 /* warp instructions after which a warp checks the abort flag and another warp has its turn */
#define DS_IX_PATIENCE 64 /* slices that a diverged group runs alone without touching shared state */
#define DS_IX_DEFAULT_BUDGET (UINT64_C(1) << 40)
#define DS_IX_MAX_FRAME (UINT32_C(4) << 20) /* most bytes of registers of one function, for all lanes of a warp */
#define DS_IX_MAX_DEPTH 512                 /* most nested calls */
/* most bytes of registers in all frames of a block; twice that for a cluster */
#define DS_IX_MAX_FRAMES_BYTES (UINT64_C(256) << 20)
#define DS_IX_MAX_LOCAL (UINT32_C(512) << 10) /* most bytes of local memory per thread, as on the hardware */
/* most bytes of local memory of all threads of a block or cluster */
#define DS_IX_MAX_LOCAL_BLOCK (UINT64_C(256) << 20)
#define DS_IX_MAX_SHARED (UINT32_C(256) << 10) /* most bytes of shared memory of a block */
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

/* One handler, compiled for each instruction set of the CPU; ds_ix_isa() chooses the set. All variants give the same
 * bits. */
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
        ds_ix_fn inner; /* handler that the wrapper in `fn` calls */
        uint32_t d, e;  /* slots of the destinations; e: the second one (shfl's predicate, setp's complement) */
        uint32_t a, b, c, f;
        uint32_t guard; /* slot of the predicate of @p; DS_IX_NO_SLOT: unconditional */
        uint32_t line;
        union {
                uint64_t imm; /* constant of the instruction: an address offset, lop3's lookup table, ... */
                const ds_ix_op *target;
                /* data that needs more room: ds_ix_call, struct ds_ix_table, struct ds_ix_matrix, ... */
                const void *ext;
        };
        /* in control operations: number of instructions since the previous control operation, including this one */
        uint16_t count;
        uint8_t guard_not;
        uint8_t size;  /* bytes of one element in memory */
        uint8_t n;     /* number of elements of a vector access */
        uint8_t mode;  /* rounding, comparison, kind of shuffle, ... */
        uint8_t flags; /* set of DS_IX_FTZ and the flags below */
        uint8_t space; /* enum ds_ix_space */
};

_Static_assert(sizeof(ds_ix_op) == 64, "one cache line");

enum ds_ix_flag {
        DS_IX_FTZ = 1 << 0,
        DS_IX_SAT = 1 << 1,
        DS_IX_VOLATILE = 1 << 2,     /* memory access that may be part of a spin loop */
        DS_IX_WIDE_ADDRESS = 1 << 3, /* the address register has 64 bits */
        DS_IX_RELU = 1 << 4,
        DS_IX_BACKWARD = 1 << 5,
};

enum ds_ix_round { DS_IX_RN, DS_IX_RZ, DS_IX_RM, DS_IX_RP, DS_IX_RNA };

enum ds_ix_space {
        DS_IX_GENERIC,
        DS_IX_GLOBAL, /* global memory; addresses are host addresses */
        DS_IX_CONST,  /* the module's constants; addresses are host addresses */
        DS_IX_SHARED,
        DS_IX_LOCAL,
        DS_IX_PARAM,   /* a kernel's parameters */
        DS_IX_ARGS,    /* param variables in a frame's args area */
        DS_IX_CLUSTER, /* shared memory of any block of the cluster */
};

enum ds_ix_vote { DS_IX_VOTE_AND, DS_IX_VOTE_OR, DS_IX_VOTE_POPC };

struct ds_ix_table { /* jump table of brx.idx */
        uint32_t n;
        const ds_ix_op *target[];
};

/* Place of an argument or result: a frame's args area, or a slot if it is passed in a register or as a constant. */
struct ds_ix_arg {
        uint32_t caller_offset, callee_offset, size;
        uint32_t slot;        /* slot in the caller; DS_IX_NO_SLOT: in the caller's args area */
        uint32_t callee_slot; /* slot in the callee; DS_IX_NO_SLOT: in the callee's args area */
};

struct ds_ix_call {
        ds_ix_func *func; /* function that a direct call calls; NULL: the call is indirect */
        uint32_t target;  /* slot of an indirect callee's address */
        uint32_t n_args, n_rets;
        /* arguments; the callee's offsets are valid for every callee, since all functions lay out their formals in
         * the same way */
        struct ds_ix_arg *args;
        struct ds_ix_arg *rets;
};

struct ds_ix_func {
        const struct ds_ptx_function *ir;
        struct ds_ix_op *ops;
        uint32_t n_ops;
        uint32_t *rank; /* rank of each operation in the execution order, see cfg.c */
        uint32_t *reg;  /* slot of each register */
        uint32_t frame_bytes;
        uint8_t *pool; /* values of the function's constants */
        /* bytes of the args area per lane: formals first, then the param variables of the function's calls */
        uint32_t args_bytes;
        /* value of each variable, by index in ir->vars: offset in the args area or local memory, shared symbol, or
         * address */
        uint64_t *var_value;
        uint32_t *param_offset, *ret_offset;
        uint32_t local_bytes;
        uint32_t *shared; /* symbols of the shared variables that the function uses */
        uint32_t n_shared, shared_capacity;
        ds_ix_func **callees;
        uint32_t n_callees, callees_capacity;
        uint32_t registers; /* most 32-bit registers live at once */
        ds_ix_func *alias;  /* function that this name is an alias of; NULL: none */
        uint8_t indirect;   /* 1: the function makes indirect calls */
        uint8_t stack;      /* 1: the function moves the stack pointer (alloca) */
        uint8_t address_taken;
        uint8_t visit;
        uint32_t stack_slot;  /* if `stack`: slot where a frame saves its caller's stack pointers */
        uint32_t stack_local; /* bytes of local memory of the deepest call chain, including the function itself */
};

struct ds_ix_frame {
        ds_ix_frame *parent, *next_free;
        ds_ix_func *func;
        const ds_ix_op *ret; /* operation with which the caller continues after the return */
        const ds_ix_call *call;
        uint8_t *regs;
        uint8_t *args; /* [lane][func->args_bytes] */
        uint32_t refs; /* number of groups in the frame, plus number of frames called from it */
        uint32_t depth;
        uint32_t local_base;
        uint64_t bytes;
};

enum ds_ix_state { DS_IX_READY, DS_IX_RUNNING, DS_IX_WAIT_BARRIER, DS_IX_WAIT_SYNC, DS_IX_WAIT_CLUSTER };

struct ds_ix_group {
        const ds_ix_op *pc;
        ds_ix_frame *frame;
        uint32_t mask;
        uint32_t turn;    /* number of times that the group spun and had to let others run first */
        uint32_t need;    /* WAIT_SYNC: lanes that the group waits for */
        uint32_t granted; /* once the lanes waited for have come: all lanes that are present; else 0 */
        uint8_t state;
        uint8_t barrier;
        uint8_t kind; /* kind of the operation: lanes that wait at different operations of one kind may meet */
};

struct ds_ix_barrier {
        uint32_t arrived;      /* number of arrived lanes; at a barrier with a count, each warp counts as 32 */
        uint32_t lanes;        /* number of lanes that have really arrived */
        uint32_t expected;     /* number of lanes to wait for; 0: all threads that have not exited */
        uint32_t votes, voted; /* bar.red: number of lanes whose predicate holds, number of lanes that voted */
        uint8_t active;
};

/* Blocks that run together; a single block is a cluster of one. The structure is a member of block[0], the block
 * that the caller supplied. */
struct ds_ix_cluster {
        uint32_t n, dim[3];
        /* number of threads that have not exited; number of those that have arrived at barrier.cluster */
        uint32_t live_threads, arrived;
        ds_ix_block *block[DS_INTERP_CLUSTER_MAX];
        uint64_t left; /* instructions left in the budget */
        /* instructions executed by the cluster; value last given to the caller's progress function */
        uint64_t executed, told;
        uint64_t elsewhere;    /* instructions executed by other clusters of a cooperative grid */
        uint64_t frames_bytes; /* bytes of the frames of all blocks */
        uint8_t faulted;       /* 1: one of the cluster's blocks has faulted */
        uint8_t moved;         /* 1: in this round a warp did more than wait for an incomplete mbarrier */
        uint32_t idle_rounds;  /* number of consecutive rounds in which all warps only waited for mbarriers */
};

struct ds_ix_warp {
        uint8_t *base[_DS_IX_BASES];
        uint32_t mask;   /* lanes of the running group */
        uint32_t live;   /* lanes that have not exited */
        uint32_t others; /* number of ready groups of the warp, without the running one */
        int64_t fuel;    /* instructions left in the slice */
        ds_ix_frame *frame;
        uint64_t lo, size; /* range of global memory that the warp accessed last */
        ds_ix_block *block;
        uint32_t n_groups, current;
        uint32_t index;
        uint32_t cc; /* carry flags, one bit per lane */
        /* lanes that are present for the synchronising operation that the running group repeats; 0: only the group's
         * own lanes */
        uint32_t granted;
        /* lanes that have arrived at barrier.cluster and not waited yet; those of them whose barrier is complete */
        uint32_t cluster_arrived, cluster_complete;
        uint64_t local_limit; /* bytes of local memory that the frame and its callers have */
        uint8_t *local;       /* local memory of lane 0 */
        /* offset of each lane's lowest alloca allocation; allocations grow down from the end */
        uint32_t stack[DS_IX_LANES];
        uint8_t spun; /* 1: the warp accessed state that another thread may change */
        uint8_t idle; /* 1: since its last turn began the warp has only waited for an mbarrier */
        uint8_t patience;
        uint64_t slice, executed;
        struct ds_interp_cost cost;
        struct ds_ix_group group[DS_IX_LANES];
        uint64_t exchange[DS_IX_LANES]; /* operands for lanes that wait at other operations of the same kind */
        uint32_t exchange_pred;
        uint8_t scratch[512] __attribute__((__aligned__(64))); /* destination of results that the program discards */
};

struct ds_interp_block {
        const struct ds_interp_launch *launch;
        const ds_interp_kernel *kernel;
        const ds_interp *interp;
        struct ds_interp_result *result;
        ds_ix_warp *warp; /* array of DS_IX_WARPS warps */
        struct ds_ix_cluster *cluster;
        uint32_t rank;                                        /* rank of the block in its cluster */
        uint32_t n_warps, n_threads, live_threads, n_started; /* n_started: number of warps that have a frame */
        uint32_t ctaid[3];
        uint64_t executed;
        uint8_t *shared;
        void *shared_memory, *local_memory;
        uint32_t shared_size;
        uint32_t shared_base; /* address of the first byte of the block's shared memory; contains the block's rank */
        uint64_t shared_capacity;
        uint8_t *local;
        uint32_t local_stride;
        uint64_t local_capacity;
        uint64_t frames_of;        /* serial of the interpreter to which the functions of the free frames belong */
        ds_ix_frame **free_frames; /* lists of free frames, one per function */
        uint32_t n_free_frames;
        uint8_t faulted;
        struct ds_ix_barrier barrier[DS_IX_BARRIERS];
        uint8_t *sregs; /* special registers of all warps, [DS_IX_WARPS][DS_IX_SREGS_BYTES] */
        void *memory;   /* allocation that contains `warp` and `sregs` */
        /* buffer for the text of one printf, DS_IX_TEXT_MAX bytes; allocated at the block's first printf */
        char *text;
        struct ds_ix_cluster own;
        /* working memory for the other blocks of its clusters; [0] is NULL */
        ds_ix_block *other[DS_INTERP_CLUSTER_MAX];
        uint32_t params_size;
        uint8_t params[DS_PTX_MAX_PARAM_BYTES + 4]
                /* copy of the launch's parameters, aligned, used by this block only */
                __attribute__((__aligned__(16)));
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
        uint64_t serial; /* number of this interpreter, since a later one may have the same address */
        ds_arena *arena;
        ds_ix_func *funcs; /* one per entry of module->functions */
        ds_interp_kernel *kernels;
        uint32_t n_kernels;
        struct ds_ix_shared_var *shared; /* indices 0 and 1 are unused, as for symbols */
        uint32_t n_shared, shared_capacity;
        /* value of each module variable, by index in module->vars: offset in its area, or shared symbol */
        uint64_t *var_value;
        uint8_t *globals, *consts;
        /* areas_size: bytes of the areas of globals and constants together, which are one piece of area.h */
        uint64_t globals_size, consts_size, areas_size;
        /* special registers that the module reads, one bit per slot of sregs.c */
        uint64_t sregs_used;
        uint8_t stack;    /* 1: some function has `stack` set */
        ds_ix_heap *heap; /* heap of the kernels; NULL: no function calls malloc or free */
        uint8_t prints;   /* 1: some function calls vprintf or __assertfail */
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

/* lanes in which a predicate holds, as a bit mask */
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
 * For tests: how warps run from now on. They take turns after `slice` instructions (0: normal), the last warp first if
 * `backwards` is set, and shared and local memory starts with the byte `fill`. The results of a correct kernel do not
 * depend on any of these.
 */
void ds_ix_force_turns(uint32_t slice, int backwards, uint8_t fill);
uint64_t ds_ix_slice(void); /* DS_IX_SLICE, unless a test has set another value */

/* sregs.c: special registers that stay constant while a block runs are arrays like other operands */
#define DS_IX_SREGS_SLOT 128u
#define DS_IX_SREGS_SLOTS 48u
#define DS_IX_SREGS_BYTES (DS_IX_SREGS_SLOT * DS_IX_SREGS_SLOTS)
/* slot of a special register; DS_IX_NO_SLOT: it is not constant, see ds_ix_clock */
uint32_t ds_ix_sreg_slot(enum ds_ptx_sreg sreg, uint32_t component);
void ds_ix_sregs_fill(const ds_ix_block *block, ds_ix_warp *w);
/* reads a clock; op's mode: enum ds_ptx_sreg, n: bytes of the result */
const ds_ix_op *ds_ix_clock(ds_ix_warp *w, const ds_ix_op *op);
void ds_ix_enter_frame(ds_ix_warp *w, ds_ix_frame *frame);

/* Ends the block with a fault. lane: the first lane that faulted; fmt: the client's error text. Always returns NULL. */
const ds_ix_op *ds_ix_fault(ds_ix_warp *w, const ds_ix_op *op, enum ds_interp_fault fault, uint32_t lane,
        uint64_t address, const char *fmt, ...) ds_printf(6, 7);
/* Records a fault, while the block continues. Only the first fault is kept. */
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
const ds_ix_op *ds_ix_barrier_red(ds_ix_warp *w, const ds_ix_op *op); /* op's mode: enum ds_ix_vote */

/* cluster.c: ds_ix_cluster_exit(): lanes of w have exited. Then the handlers of barrier.cluster, and those of mapa
 * and getctarank by the width of the address; NULL: there is none. */
void ds_ix_cluster_exit(ds_ix_warp *w, uint32_t leaving);
const ds_ix_op *ds_ix_cluster_arrive(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_cluster_wait(ds_ix_warp *w, const ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_mapa(uint32_t bytes);
const struct ds_ix_impl *ds_ix_find_getctarank(uint32_t bytes);

/*
 * Host pointer of the bytes at a shared::cluster address (or a generic one without its window bits); NULL if they are
 * not all in one block of the cluster. *ret_block (may be NULL): the block that owns that memory.
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

/* mem.c: ds_ix_resolve() computes the host addresses that the active lanes access. It returns 0 if it recorded a
 * fault. */
struct ds_ix_access {
        uint64_t p[DS_IX_LANES];
        uint8_t contiguous; /* 1: all lanes are active, at consecutive addresses */
};
enum ds_ix_intent { DS_IX_READ, DS_IX_WRITE, DS_IX_ATOMIC }; /* values as in enum ds_interp_access */
int ds_ix_resolve(ds_ix_warp *w, const ds_ix_op *op, enum ds_ix_intent intent, struct ds_ix_access *access);
/* Host pointer of [address, address + size) in global memory; NULL if it is not all in one range. */
uint8_t *ds_ix_global(ds_ix_warp *w, uint64_t address, uint64_t size, enum ds_ix_intent intent);
/* Counts `size` bytes of global memory that a handler moved without ds_ix_resolve(), and reports the access to the
 * launch. */
void ds_ix_touch(ds_ix_warp *w, uint64_t address, uint64_t size, enum ds_ix_intent intent);
/* Values of op's address operand for every lane, as generic addresses; op->space is global, shared or generic. */
void ds_ix_addresses(const ds_ix_warp *w, const ds_ix_op *op, uint64_t *ret_addresses);
/* Host pointer of `size` bytes at a generic address that the lane may access, all in one range; NULL: the lane may
 * not. */
uint8_t *ds_ix_reach(ds_ix_warp *w, uint64_t address, uint64_t size, enum ds_ix_intent intent, uint32_t lane);
/* Host pointer of the byte at a generic address that the lane may read, or NULL. */
const uint8_t *ds_ix_readable(ds_ix_warp *w, uint64_t address, uint32_t lane);
/* Handler of a load or store, whose fields it sets in *op; NULL: there is no handler for these widths. */
const struct ds_ix_impl *ds_ix_find_load(enum ds_ptx_type type, uint32_t register_bytes, ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_store(enum ds_ptx_type type, uint32_t register_bytes, ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_atomic(const struct ds_ptx_instr *instr, ds_ix_op *op); /* atom.c */

/* stack.c: alloca, a control operation. d: slot of the address, a: slot of the size, imm: alignment, n: bytes of the
 * registers */
const ds_ix_op *ds_ix_alloca(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_stack_save(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_stack_restore(ds_ix_warp *w, const ds_ix_op *op);
/* Lowest alloca stack pointer of the running lanes, bytes. */
uint32_t ds_ix_stack_least(const ds_ix_warp *w);
/* ds_ix_stack_enter(), at a call: saves the stack pointers of the running lanes in the frame. ds_ix_stack_leave(),
 * at its return: restores them. */
void ds_ix_stack_enter(const ds_ix_warp *w, const ds_ix_frame *frame);
void ds_ix_stack_leave(ds_ix_warp *w, const ds_ix_frame *frame);

/* heap.c: address and size in bytes of the kernels' heap; both 0 before the first allocation */
uint64_t ds_ix_heap_base(ds_ix_heap *heap, uint64_t *ret_size);

/* print.c: argument k of one lane's call of a driver function, and the call's result; up to 8 bytes */
uint64_t ds_ix_call_argument(const ds_ix_warp *w, const ds_ix_call *call, uint32_t k, uint32_t lane);
void ds_ix_call_result(const ds_ix_warp *w, const ds_ix_call *call, uint32_t lane, uint64_t value);
/* Handlers of calls of vprintf and __assertfail; op's ext: the ds_ix_call. */
const ds_ix_op *ds_ix_vprintf(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_assert(ds_ix_warp *w, const ds_ix_op *op);

/* trap.c: handlers of rare operations */
const ds_ix_op *ds_ix_nop(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_trap(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_fence(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_nanosleep(ds_ix_warp *w, const ds_ix_op *op);
/* handler of mov of a variable's address; f, imm: symbol and offset; n: bytes of the register */
const ds_ix_op *ds_ix_symbol_address(ds_ix_warp *w, const ds_ix_op *op);

/* The function that a name stands for: its definition, or the target of an alias. Its ops are NULL if it is not
 * defined. */
static inline ds_ix_func *ds_ix_behind(const ds_interp *interp, const struct ds_ptx_function *function)
{
        ds_ix_func *f = &interp->funcs[function->definition ? function->definition->index : function->index];

        return f->alias ? f->alias : f;
}

const ds_ix_op *ds_ix_guarded(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_counted(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_guarded_counted(ds_ix_warp *w, const ds_ix_op *op);

/* Handlers by instruction; NULL: there is none. These functions read opcode, types and modifiers, and set op's mode
 * and flags. */
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
/* handler of mov; bytes: width of the register, 0 for a predicate */
const struct ds_ix_impl *ds_ix_move(uint32_t bytes);
const struct ds_ix_impl *ds_ix_pack(const ds_ix_op *op);
const struct ds_ix_impl *ds_ix_unpack(ds_ix_op *op);
/* cvt.c: from_bytes and to_bytes are the widths of the registers */
const struct ds_ix_impl *ds_ix_find_cvt(
        const struct ds_ptx_instr *instr, uint32_t from_bytes, uint32_t to_bytes, ds_ix_op *op);
/* cvt_narrow.c: conversions with .satfinite, and conversions to or from formats of 8 bits */
const struct ds_ix_impl *ds_ix_find_narrow(const struct ds_ptx_instr *instr, ds_ix_op *op);
const struct ds_ix_impl *ds_ix_find_warp(const struct ds_ptx_instr *instr, ds_ix_op *op);
