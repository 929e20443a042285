/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executing PTX on the CPU
 *
 * A ds_interp is one parsed module made ready to run: instructions decoded, branches resolved, reconvergence points
 * computed, globals and constants laid out in memory of its own. ds_interp_run_block executes one thread block to its
 * end, 32 lanes of a warp per step, and says what it cost; the simulated device calls it block by block and turns the
 * cost into time. The interpreter reads no clock, starts no thread, and holds no state between blocks except the
 * module's global variables, so that the same launch gives the same bits however its blocks are spread.
 *
 * Every access of a kernel to global memory is checked against the ranges of the launch (the session's own memory) and
 * the module's globals; shared and local accesses against their sizes. A kernel can therefore not touch
 * anything but its session's memory: a bad access ends the block with a fault that names the address and the PTX line.
 *
 * The blocks of a cluster run together, on one thread, and may use each other's shared memory: ds_interp_run_cluster.
 * So do all blocks of a cooperative launch, which may wait for each other: ds_interp_run_grid.
 *
 * One interpreter may run blocks on several threads at once, each with its own ds_interp_block. Results are a GPU's to
 * the bit, with these exceptions: .approx functions have other last bits (within PTX's error); clocks count
 * instructions; scalar video instructions do what PTX says also where ptxas's code for sm_90 does not (rows_video in
 * tests/support/interp_rows.h); a mul and an add without .rn stay two operations, which ptxas may make one fma; of two
 * 64-bit NaNs another may be passed on; addresses differ, and which of them malloc gives.
 *
 * Not here: timing, scheduling of blocks, textures, tensor copies, wgmma; where text goes that a kernel prints.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ds_interp ds_interp;
typedef struct ds_interp_kernel ds_interp_kernel;
typedef struct ds_interp_block ds_interp_block;
struct ds_ptx_function;
struct ds_ptx_module; /* ptx.h */
struct ds_ptx_diags;

/* Addresses that a kernel sees for shared and local memory as generic addresses: never a mapped user address. */
#define DS_INTERP_SHARED_BASE (UINT64_C(1) << 56)
#define DS_INTERP_LOCAL_BASE (UINT64_C(2) << 56)

/* Memory that a launch may touch; va is a host pointer as well. Sorted by va, disjoint. */
struct ds_interp_range {
        uint64_t va;
        uint64_t size;
};

enum ds_interp_fault {
        DS_INTERP_OK = 0,
        DS_INTERP_FAULT_ADDRESS,    /* access outside the launch's memory */
        DS_INTERP_FAULT_MISALIGNED, /* access not aligned to its size */
        DS_INTERP_FAULT_TRAP,       /* trap or brkpt executed */
        DS_INTERP_FAULT_ASSERT,     /* __assertfail called; lanes that did not went on */
        DS_INTERP_FAULT_BARRIER,    /* warps wait at barriers that can never complete */
        DS_INTERP_FAULT_BUDGET,     /* the block executed more than max_instructions */
        DS_INTERP_FAULT_ABORTED,    /* *abort became non-zero */
        DS_INTERP_FAULT_STACK,      /* call depth or local memory exhausted */
        DS_INTERP_FAULT_ILLEGAL,    /* something that the program may not do, see message */
        _DS_INTERP_FAULT_MAX,
};

#define DS_INTERP_SECTOR_BITS 5  /* what a GPU moves at least, between memory and an SM: 32 bytes */
#define DS_INTERP_SECTORS_MAX 64 /* that one access of a warp is told of at once */

enum ds_interp_access {
        DS_INTERP_READ,
        DS_INTERP_WRITE,
        DS_INTERP_ATOMIC,
        DS_INTERP_READ_L2, /* past L1: volatile, relaxed, .cg, .cv */
};

#define DS_INTERP_CLUSTER_MAX 16 /* blocks of a cluster */
#define DS_INTERP_OWN_BYTES (UINT64_C(1) << 34)
#define DS_INTERP_WORKSPACE 64 /* bytes of a cooperative launch, aligned to as many */

struct ds_interp_launch {
        const ds_interp_kernel *kernel;
        uint32_t grid[3];
        uint32_t block[3];
        uint32_t cluster[3];     /* blocks; 0 = none was asked for, as 1. It divides the grid. */
        uint32_t dynamic_shared; /* bytes behind the kernel's static shared memory */
        const void *params;      /* packed by the kernel's parameter layout */
        size_t params_size;
        const struct ds_interp_range *ranges;
        size_t n_ranges;
        uint64_t max_instructions; /* warp instructions per block, or of all blocks of a cluster; 0 = 2^40 */
        const _Atomic uint32_t
                *abort; /* NULL, or looked at whenever a warp waits and at least every 16,384 instructions */
        /*
         * NULL, or told now and then, at least each time that the abort flag is about to be looked at after as many
         * instructions as a time slice has: warp instructions of the block (or cluster) so far. Never more than the
         * result (or all of them together) says.
         */
        void (*progress)(void *user, uint64_t instructions);
        void *progress_user;
        /*
         * NULL, or given what lanes print, as they do: the text of one printf, or one line of an assertion, which goes
         * to the standard error. Good during the call.
         */
        void (*print)(void *user, int to_stderr, const char *text, size_t size);
        void *print_user;
        /*
         * NULL, or told of each access of a warp to global memory that was found good: the distinct sectors that it
         * touches, as addresses shifted right by DS_INTERP_SECTOR_BITS, in no order. A bulk copy comes in pieces.
         */
        void (*memory)(void *user, const uint64_t *sectors, uint32_t n, enum ds_interp_access kind);
        void *memory_user;
        /* NULL, or cycles that %clock and %clock64 are ahead of the instructions: `memory` may count them up. */
        const uint64_t *waited;
        /*
         * Where the module's own variables and its heap are told to lie, a multiple of 256: their real addresses are
         * other ones in every process. They take less than DS_INTERP_OWN_BYTES from there.
         */
        uint64_t memory_base;
        /* 0, or of a cooperative launch: DS_INTERP_WORKSPACE zeroed bytes in its ranges, for the grid's barrier */
        uint64_t workspace;
        uint64_t clock_ns;     /* what %globaltimer reads at block start */
        uint32_t sm_id, n_sms; /* %smid, %nsmid */
};

/* What a block did. Warp-level counts: one instruction executed by a warp counts once. */
struct ds_interp_cost {
        uint64_t instructions;
        uint64_t memory_instructions; /* global/generic loads, stores, atomics */
        uint64_t sectors;             /* 32-byte sectors of global memory touched by them */
        uint64_t shared_instructions;
        uint64_t special_instructions; /* sin, ex2, div, sqrt, 64-bit float... */
        uint64_t tensor_instructions;  /* matrix products, in such of 16 x 8 x 16 halves; smaller ones count as one */
        uint64_t barriers;
        uint64_t critical_path; /* instructions of the warp that executed most */
};

struct ds_interp_result {
        enum ds_interp_fault fault;
        uint64_t address;   /* of a bad access */
        uint32_t line;      /* of the PTX text, 0 if unknown */
        uint32_t thread[3]; /* the first lane that faulted */
        char message[160];  /* one sentence for the client's error text */
        struct ds_interp_cost cost;
};

struct ds_interp_kernel_info {
        const char *name;
        uint32_t n_params;
        const struct ds_interp_param *params; /* offsets and sizes in the packed block */
        uint32_t params_size;
        uint32_t static_shared;
        uint32_t local_bytes; /* per thread */
        uint32_t const_bytes; /* of the module */
        uint32_t registers;   /* estimate per thread: live 32-bit registers, 16..255, for occupancy */
        uint32_t max_threads; /* .maxntid product, else 1024 */
        uint32_t ptx_version; /* 90 for 9.0 */
        uint32_t target;      /* 90 for sm_90 */
        uint32_t prints;      /* its module may print or assert */
        uint32_t cluster[3];  /* .reqnctapercluster, 0: none */
        uint32_t max_cluster; /* .maxclusterrank: blocks, 0: none */
        uint32_t explicit_cluster, blocks_are_clusters; /* .explicitcluster, .blocksareclusters */
};

struct ds_interp_param {
        uint32_t offset;
        uint32_t size;
};

/*
 * Make a parsed and validated module ready to run. The module must outlive the interpreter. Returns 0, -ENOMEM, or
 * DS_INTERP_E_UNSUPPORTED with the reasons (instruction and line) added to diags. Global variables are initialised.
 */
#define DS_INTERP_E_UNSUPPORTED 1
int ds_interp_new(const struct ds_ptx_module *module, struct ds_ptx_diags *diags, ds_interp **ret);
ds_interp *ds_interp_free(ds_interp *interp);

const ds_interp_kernel *ds_interp_find_kernel(const ds_interp *interp, const char *name);
const ds_interp_kernel *ds_interp_kernel_at(const ds_interp *interp, size_t index); /* NULL past the end */
const struct ds_interp_kernel_info *ds_interp_kernel_info(const ds_interp_kernel *kernel);
/* A module variable of the global or constant space: 0 and its address (host pointer as well) and size, or -ENOENT. */
int ds_interp_find_global(const ds_interp *interp, const char *name, uint64_t *ret_va, uint64_t *ret_size);
/* True when the module has variables of the global or constant space, which a launch or the host may write. */
int ds_interp_has_globals(const ds_interp *interp);

/* Working memory (registers, shared, local) to run blocks with, reused from block to block. One per executing thread.
 */
ds_interp_block *ds_interp_block_new(void);
ds_interp_block *ds_interp_block_free(ds_interp_block *block);

/*
 * Run block (x, y, z) of the launch to its end. Returns 0 with *result filled (look at result->fault), or -ENOMEM.
 * Dimensions must have been checked by the caller (threads <= 1024, shared within the device's limit). The launch has
 * no clusters.
 */
int ds_interp_run_block(ds_interp_block *work, const struct ds_interp_launch *launch, uint32_t x, uint32_t y,
        uint32_t z, struct ds_interp_result *result);

/*
 * Run the cluster whose first block is (x, y, z), all its blocks in turns, until they have ended or one of them
 * faulted. results: one for each block, by its rank in the cluster (x counts first). Where one faulted the others ended
 * early, their results say no fault and what they did. Returns 0 or -ENOMEM, also when the blocks together need more
 * memory than one call may have.
 */
int ds_interp_run_cluster(ds_interp_block *work, const struct ds_interp_launch *launch, uint32_t x, uint32_t y,
        uint32_t z, struct ds_interp_result *results);

/* A cluster (or block) of a grid whose blocks all run in turns. */
struct ds_interp_part {
        ds_interp_block *work;
        struct ds_interp_launch launch;   /* equal but for sm_id */
        uint32_t first[3];                /* its first block */
        struct ds_interp_result *results; /* as of ds_interp_run_cluster */
        int runs;                         /* the call's own */
};

/*
 * Run all clusters of a grid until they have ended or a block faulted; n parts. What progress functions are told counts
 * the whole grid. Returns 0 or -ENOMEM.
 */
int ds_interp_run_grid(struct ds_interp_part *parts, uint32_t n);

/* One instruction of the thread that is watched: where it stands, and the registers that it wrote */
#define DS_INTERP_STEP_VALUES 16
struct ds_interp_step {
        const struct ds_ptx_function *function;
        uint32_t line;    /* of the PTX text */
        uint32_t skipped; /* its guard did not hold */
        uint32_t n_values;
        struct ds_interp_value {
                uint32_t reg; /* of the function */
                uint64_t bits[2];
        } values[DS_INTERP_STEP_VALUES];
};
typedef void (*ds_interp_step_fn)(void *user, const struct ds_interp_step *step);
/*
 * Tell fn of every instruction that a thread executes, by its index in the block, in launches from now on: once per
 * interpreter, before it runs. For people who debug kernels: everything becomes slower. Returns 0 or -ENOMEM.
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
