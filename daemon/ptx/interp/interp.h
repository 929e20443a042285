/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executing PTX on the CPU
 *
 * A ds_interp is one parsed module prepared for execution: instructions decoded, branches resolved, execution order
 * computed, globals and constants laid out in memory of its own. ds_interp_run_block executes one thread block to its
 * end, 32 lanes of a warp per step, and returns its cost. The simulated device calls it block by block and turns the
 * cost into time. The interpreter reads no clock, starts no thread, and keeps no state between blocks except the
 * module's global variables. So the same launch gives the same bits, whichever threads run its blocks.
 *
 * Every access of a kernel to global memory is checked against the ranges of the launch (the session's own memory) and
 * the module's globals; shared and local accesses against their sizes. So a kernel can touch only its session's memory:
 * a bad access ends the block with a fault that names the address and the PTX line.
 *
 * The blocks of a cluster run together, on one thread, and may use each other's shared memory: ds_interp_run_cluster.
 * So do all blocks of a cooperative launch, which may wait for each other: ds_interp_run_grid.
 *
 * One interpreter may run blocks on several threads at once, each with its own ds_interp_block. Results equal a GPU's
 * to the bit, with these exceptions:
 *
 *  - .approx functions have other last bits (within PTX's error);
 *  - clocks count instructions;
 *  - scalar video instructions follow PTX, even where ptxas's code for sm_90 does not (rows_video in
 *    tests/support/interp_rows.h);
 *  - a mul and an add without .rn stay two operations, which ptxas may fuse to one fma;
 *  - of two 64-bit NaNs another may be passed on;
 *  - addresses differ, and so do the results of malloc.
 *
 * Not here: timing, scheduling of blocks, textures, tensor copies, wgmma, and the destination of text that a kernel
 * prints.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ds_interp ds_interp;
typedef struct ds_interp_kernel ds_interp_kernel;
typedef struct ds_interp_block ds_interp_block;
struct ds_ptx_function;
struct ds_ptx_module; /* defined in ptx.h */
struct ds_ptx_diags;

/* Generic addresses at which shared and local memory begin: no session can have memory mapped there. */
#define DS_INTERP_SHARED_BASE (UINT64_C(1) << 56)
#define DS_INTERP_LOCAL_BASE (UINT64_C(2) << 56)

/* A range of memory that a launch may access; va is a host pointer too. Ranges are sorted by va and disjoint. */
struct ds_interp_range {
        uint64_t va;
        uint64_t size;
};

enum ds_interp_fault {
        DS_INTERP_OK = 0,
        DS_INTERP_FAULT_ADDRESS,    /* access outside the launch's memory */
        DS_INTERP_FAULT_MISALIGNED, /* access not aligned to its size */
        DS_INTERP_FAULT_TRAP,       /* trap or brkpt executed */
        DS_INTERP_FAULT_ASSERT,     /* __assertfail was called; other lanes continued */
        DS_INTERP_FAULT_BARRIER,    /* warps wait at barriers that can never complete */
        DS_INTERP_FAULT_BUDGET,     /* the block executed more than max_instructions */
        DS_INTERP_FAULT_ABORTED,    /* *abort became non-zero */
        DS_INTERP_FAULT_STACK,      /* call depth or local memory exhausted */
        DS_INTERP_FAULT_ILLEGAL,    /* an operation that a program may not do; the result's message says which */
        _DS_INTERP_FAULT_MAX,
};

#define DS_INTERP_SECTOR_BITS 5  /* smallest transfer of a GPU between memory and an SM: 32 bytes */
#define DS_INTERP_SECTORS_MAX 64 /* most sectors in one report of a warp's access */

enum ds_interp_access {
        DS_INTERP_READ,
        DS_INTERP_WRITE,
        DS_INTERP_ATOMIC,
        DS_INTERP_READ_L2, /* a read that bypasses L1: volatile, relaxed, .cg, .cv */
};

#define DS_INTERP_CLUSTER_MAX 16 /* most blocks of a cluster */
#define DS_INTERP_OWN_BYTES (UINT64_C(1) << 34)
#define DS_INTERP_WORKSPACE 64 /* bytes for the grid-wide barrier of a cooperative launch, aligned to the same number */

struct ds_interp_launch {
        const ds_interp_kernel *kernel;
        uint32_t grid[3];
        uint32_t block[3];
        uint32_t cluster[3];     /* cluster size in blocks, a divisor of the grid; 0: not given, counts as 1 */
        uint32_t dynamic_shared; /* bytes of shared memory behind the kernel's static shared memory */
        const void *params;      /* the kernel's parameters, in its packed layout */
        size_t params_size;
        const struct ds_interp_range *ranges;
        size_t n_ranges;
        uint64_t max_instructions; /* warp instructions per block, or of all blocks of a cluster; 0: 2^40 */
        const _Atomic uint32_t
                /* NULL, or a flag to abort: checked whenever a warp waits, and at least every 16,384 instructions */
                *abort;
        /*
         * NULL, or called from time to time with the warp instructions of the block (or cluster) so far: at least
         * before each check of the abort flag that follows a full time slice. Never more than the result (or the sum of
         * results) reports.
         */
        void (*progress)(void *user, uint64_t instructions);
        void *progress_user;
        /*
         * NULL, or called with lanes' text as they print it: the text of one printf, or one line of an assertion, which
         * goes to standard error. Valid during the call.
         */
        void (*print)(void *user, int to_stderr, const char *text, size_t size);
        void *print_user;
        /*
         * NULL, or called for each valid access of a warp to global memory: the distinct sectors that it touches, as
         * addresses shifted right by DS_INTERP_SECTOR_BITS, in no order. A bulk copy is reported in pieces.
         */
        void (*memory)(void *user, const uint64_t *sectors, uint32_t n, enum ds_interp_access kind);
        void *memory_user;
        /* NULL, or cycles by which %clock and %clock64 are ahead of the instructions; `memory` may increase them. */
        const uint64_t *waited;
        /*
         * Address that `memory` reports for the module's own variables and its heap, a multiple of 256: their real
         * addresses differ in every process. They take less than DS_INTERP_OWN_BYTES from there.
         */
        uint64_t memory_base;
        /* 0, or for a cooperative launch the address of DS_INTERP_WORKSPACE zeroed bytes in its ranges, for the
         * grid's barrier */
        uint64_t workspace;
        uint64_t clock_ns;     /* value of %globaltimer when the block starts */
        uint32_t sm_id, n_sms; /* values of %smid and %nsmid */
};

/* Cost of a block. Warp-level counts: one instruction executed by a warp counts once. */
struct ds_interp_cost {
        uint64_t instructions;
        uint64_t memory_instructions; /* loads, stores and atomics of global or generic addresses */
        uint64_t sectors;             /* 32-byte sectors of global memory that these instructions touch */
        uint64_t shared_instructions;
        uint64_t special_instructions; /* sin, ex2, div, sqrt, 64-bit float... */
        /* matrix products, in units of 16 x 8 x 16 halves; a smaller product counts as one */
        uint64_t tensor_instructions;
        uint64_t barriers;
        uint64_t critical_path; /* instructions of the warp that executed the most */
};

struct ds_interp_result {
        enum ds_interp_fault fault;
        uint64_t address;   /* address of the bad access */
        uint32_t line;      /* line of the PTX text, 0 if unknown */
        uint32_t thread[3]; /* index in the block of the first thread that faulted */
        char message[160];  /* one sentence for the client's error text */
        struct ds_interp_cost cost;
};

struct ds_interp_kernel_info {
        const char *name;
        uint32_t n_params;
        const struct ds_interp_param *params; /* offset and size of each parameter in the packed layout */
        uint32_t params_size;
        uint32_t static_shared;
        uint32_t local_bytes; /* local memory per thread, bytes */
        uint32_t const_bytes; /* constants of the module, bytes */
        uint32_t registers;   /* estimate per thread: live 32-bit registers, 16..255, for occupancy */
        uint32_t max_threads; /* product of .maxntid; 1024 if the kernel has none */
        uint32_t ptx_version; /* 90 for 9.0 */
        uint32_t target;      /* 90 for sm_90 */
        uint32_t prints;      /* 1: the module may print or assert */
        uint32_t cluster[3];  /* .reqnctapercluster, blocks; 0: not given */
        uint32_t max_cluster; /* .maxclusterrank, blocks; 0: not given */
        uint32_t explicit_cluster, blocks_are_clusters; /* 1: the kernel has .explicitcluster, .blocksareclusters */
};

struct ds_interp_param {
        uint32_t offset;
        uint32_t size;
};

/*
 * Prepares a parsed and validated module for execution. The module must outlive the interpreter. Returns 0, -ENOMEM, or
 * DS_INTERP_E_UNSUPPORTED with the reasons (instruction and line) added to diags. Global variables are initialised.
 */
#define DS_INTERP_E_UNSUPPORTED 1
int ds_interp_new(const struct ds_ptx_module *module, struct ds_ptx_diags *diags, ds_interp **ret);
ds_interp *ds_interp_free(ds_interp *interp);

const ds_interp_kernel *ds_interp_find_kernel(const ds_interp *interp, const char *name);
/* kernel by its index; NULL past the end */
const ds_interp_kernel *ds_interp_kernel_at(const ds_interp *interp, size_t index);
const struct ds_interp_kernel_info *ds_interp_kernel_info(const ds_interp_kernel *kernel);
/* Finds a variable of the global or constant space. Returns 0 with its address (a host pointer too) and size, or
 * -ENOENT. */
int ds_interp_find_global(const ds_interp *interp, const char *name, uint64_t *ret_va, uint64_t *ret_size);
/* True if the module has variables of the global or constant space that a launch or the host may write. */
int ds_interp_has_globals(const ds_interp *interp);

/* Working memory (registers, shared, local) for running blocks, reused from block to block. Each executing thread
 * needs its own. */
ds_interp_block *ds_interp_block_new(void);
ds_interp_block *ds_interp_block_free(ds_interp_block *block);

/*
 * Runs block (x, y, z) of the launch to its end. Returns 0 with *result filled (check result->fault), or -ENOMEM. The
 * caller must have checked the dimensions (threads <= 1024, shared within the device's limit). The launch has no
 * clusters.
 */
int ds_interp_run_block(ds_interp_block *work, const struct ds_interp_launch *launch, uint32_t x, uint32_t y,
        uint32_t z, struct ds_interp_result *result);

/*
 * Runs the cluster whose first block is (x, y, z), all its blocks in turns, until they have ended or one of them has
 * faulted. results: one per block, by the block's rank in the cluster (x counts first). If a block faulted, the others
 * ended early: their results have no fault, and the cost so far. Returns 0 or -ENOMEM, also if the blocks together
 * exceed the memory limit of one call.
 */
int ds_interp_run_cluster(ds_interp_block *work, const struct ds_interp_launch *launch, uint32_t x, uint32_t y,
        uint32_t z, struct ds_interp_result *results);

/* A cluster (or block) of a grid whose blocks all run in turns. */
struct ds_interp_part {
        ds_interp_block *work;
        struct ds_interp_launch launch;   /* the launch; equal for all parts except sm_id */
        uint32_t first[3];                /* index of the first block of this cluster */
        struct ds_interp_result *results; /* array of results as for ds_interp_run_cluster */
        int runs;                         /* private to the call */
};

/*
 * Runs all n clusters (parts) of a grid until they have ended or a block has faulted. Progress functions get the count
 * of the whole grid. Returns 0 or -ENOMEM.
 */
int ds_interp_run_grid(struct ds_interp_part *parts, uint32_t n);

/* One instruction that a watched thread executed: its position, and the registers that it wrote. */
#define DS_INTERP_STEP_VALUES 16
struct ds_interp_step {
        const struct ds_ptx_function *function;
        uint32_t line;    /* line of the PTX text */
        uint32_t skipped; /* 1: the instruction's guard did not hold */
        uint32_t n_values;
        struct ds_interp_value {
                uint32_t reg; /* number of the register in the function */
                uint64_t bits[2];
        } values[DS_INTERP_STEP_VALUES];
};
typedef void (*ds_interp_step_fn)(void *user, const struct ds_interp_step *step);
/*
 * Makes the interpreter report to fn every instruction that the thread number `thread` of a block executes in later
 * launches; block: the launches' block size. Call it once per interpreter, before it runs. For debugging kernels: it
 * slows everything down. Returns 0 or -ENOMEM.
 */
int ds_interp_watch(ds_interp *interp, const uint32_t block[3], uint32_t thread, ds_interp_step_fn fn, void *user);

static inline uint32_t ds_interp_cluster_blocks(const struct ds_interp_launch *launch)
{
        const uint32_t *c = launch->cluster;

        return (c[0] ? c[0] : 1) * (c[1] ? c[1] : 1) * (c[2] ? c[2] : 1);
}

static inline void ds_interp_freep(ds_interp **p)
{
        *p = ds_interp_free(*p);
}

static inline void ds_interp_block_freep(ds_interp_block **p)
{
        *p = ds_interp_block_free(*p);
}
