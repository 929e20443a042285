/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Effects: the threads that execute kernels and copies
 *
 * Two threads at a time (one on a machine with one CPU) take jobs from a queue. One thread runs a kernel's blocks in
 * increasing order, or in the order of a seed, so that a launch gives the same bits on every machine. A thread may
 * touch only its job, the memory snapshot that came with it, and the variables of the job's module. Results go back
 * through a list under the pool's lock, and an eventfd wakes the owner.
 *
 * A client's kernel can fault, loop for ever or be given up. So the interpreter checks every access, every launch has
 * an instruction budget, and every backward branch checks the abort flag; stopping the pool is quick. A thread
 * publishes the progress of its job. Long jobs do not count as one of the two: spare threads execute others beside
 * them. When the spare threads are used up as well, the longest job is given up (see internal.h).
 */
#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/sim/internal.h"
#include "ptx/interp/area.h"
#include "ptx/interp/order.h"
#include "util/alloc.h"
#include "util/error.h"

/* Device address of the first module variable: below all session windows, which begin at 2^44 */
#define OWN_BASE (UINT64_C(1) << 43)
#define OWN_MODULES 256u

/* most blocks (or clusters) of a cooperative launch, since all of them are in memory while they are executed in
 * turns */
#define GRID_MAX 4096u

#define GIVE_WAY_DEPTH 8u
#define FILL_PIECE 8192u
/* bytes above which a fill may store pieces instead of elements: no program waits for one word of so large a fill */
#define FILL_LARGE DS_KIB(64)

/* bytes of extra memory that a launch may touch while it is executed, and no other launch */
#define OWN_BYTES DS_INTERP_WORKSPACE

struct own {
        struct ds_interp_range *ranges;
        uint64_t at; /* address of the extra memory; 0: none */
        struct sim_probe *probe;
};

struct grid {
        struct ds_interp_part *parts;
        struct ds_interp_result *results;
        struct own own;
        uint32_t n;
};

/* One job under execution. */
struct exec {
        ds_device *device;
        struct sim_job *job;
        uint64_t executed; /* units executed completely: whole blocks, whole rows */
        uint64_t told;
        uint64_t budget;
        struct sim_probe *probe;  /* traffic counter; NULL: the traffic is not counted */
        struct sim_waits *waits;  /* memory latency model; NULL: the launch reads no clock */
        struct exec_tools *tools; /* tools of the thread; NULL: the owner's thread executes the job */
        uint32_t depth;           /* number of interrupted copies below this job on the thread's stack */
};

/* --- progress of a job --- */

/* Wakes the owner. The caller holds the lock. */
static void pool_news(ds_device *device)
{
        uint64_t one = 1;

        /* if the non-blocking write fails, the counter is full, so event_fd is readable anyway */
        if (!atomic_fetch_add(&device->pool.n_news, 1) && write(device->event_fd, &one, sizeof(one)) < 0)
                return;
}

void sim_pool_wake(ds_device *device)
{
        pthread_mutex_lock(&device->pool.lock);
        pool_news(device);
        pthread_mutex_unlock(&device->pool.lock);
}

/* Marks the job as long, so that another job may be executed beside it. */
static void exec_is_long(struct exec *x)
{
        struct sim_pool *pool = &x->device->pool;

        pthread_mutex_lock(&pool->lock);
        atomic_fetch_add(&pool->n_long, 1);
        pthread_cond_signal(&pool->work);
        pthread_mutex_unlock(&pool->lock);
}

static bool passed(uint64_t before, uint64_t now, uint64_t mark)
{
        return before <= mark && now > mark;
}

/* Publishes that n units are executed. The owner writes `wake` and then reads `executed`; the thread writes
 * `executed` and then reads `wake`, so one of them sees the other's write. */
static void exec_tell(struct exec *x, uint64_t n)
{
        struct sim_job *job = x->job;
        uint32_t none = SIM_ABORT_NONE;
        bool wake = passed(x->told, n, SIM_PATIENCE) || passed(x->told, n, SIM_CROWD);

        atomic_store(&job->executed, n);
        if (passed(x->told, n, SIM_PATIENCE))
                exec_is_long(x);
        x->told = n;
        if (n > atomic_load(&job->limit))
                atomic_compare_exchange_strong(&job->abort, &none, SIM_ABORT_TOO_LONG);
        if (n >= atomic_load(&job->wake)) {
                atomic_store(&job->wake, UINT64_MAX);
                wake = true;
        }
        if (wake)
                sim_pool_wake(x->device);
}

static void exec_progress(void *user, uint64_t instructions)
{
        struct exec *x = user;

        exec_tell(x, x->executed + instructions);
}

/* Counts more complete units. */
static void exec_count(struct exec *x, uint64_t units)
{
        x->executed += units;
        if (x->executed - x->told >= SIM_TELL)
                exec_tell(x, x->executed);
}

static void exec_print(void *user, int to_stderr, const char *text, size_t size)
{
        struct exec *x = user;

        /* the units of a text are published with the thread's next progress: formatting takes much longer than an
         * instruction */
        x->executed += SIM_PRINT_UNITS + size / SIM_PRINT_BYTES;
        sim_text_add(x->device, x->job, to_stderr, text, size);
}

static bool exec_aborted(const struct sim_job *job)
{
        return atomic_load_explicit(&job->abort, memory_order_relaxed) != SIM_ABORT_NONE;
}

/* --- CUDA error of each fault --- */

static int32_t fault_status(enum ds_interp_fault fault)
{
        switch (fault) {
        case DS_INTERP_OK:
                return DS_CUDA_SUCCESS;
        case DS_INTERP_FAULT_ADDRESS:
                return DS_CUDA_ILLEGAL_ADDRESS;
        case DS_INTERP_FAULT_MISALIGNED:
                return DS_CUDA_MISALIGNED_ADDRESS;
        case DS_INTERP_FAULT_ASSERT:
                return DS_CUDA_ASSERT;
        case DS_INTERP_FAULT_BUDGET:
                return DS_CUDA_LAUNCH_TIMEOUT;
        case DS_INTERP_FAULT_ILLEGAL:
                return DS_CUDA_ILLEGAL_INSTRUCTION;
        case DS_INTERP_FAULT_TRAP:
        case DS_INTERP_FAULT_BARRIER:
        case DS_INTERP_FAULT_STACK:
        case DS_INTERP_FAULT_ABORTED:
        case _DS_INTERP_FAULT_MAX:
                break;
        }
        return DS_CUDA_LAUNCH_FAILED;
}

/* The interpreter's message without the kernel's name at its beginning. */
static const char *fault_sentence(const struct ds_interp_result *result)
{
        const char *colon = strstr(result->message, ": ");

        return colon ? colon + 2 : result->message;
}

static void fault_report(struct sim_job *job, const struct ds_interp_result *result, const uint32_t *block)
{
        char where[32] = "", words[SIM_KERNEL_WORDS];

        if (result->fault == DS_INTERP_FAULT_ADDRESS || result->fault == DS_INTERP_FAULT_MISALIGNED)
                snprintf(where, sizeof(where), " at 0x%" PRIx64, result->address);
        sim_job_fail(job, fault_status(result->fault), "%s%s, block (%u,%u,%u) thread (%u,%u,%u), PTX line %u: %s",
                sim_form_words(job->kernel, words), where, block[0], block[1], block[2], result->thread[0],
                result->thread[1], result->thread[2], result->line, fault_sentence(result));
}

/* --- kernels --- */

static uint64_t kernel_budget(const struct sim_model *model, const struct sim_job *job)
{
        unsigned __int128 deadline;

        if (!job->deadline_ns)
                return SIM_BUDGET_INSTRUCTIONS;
        deadline = (unsigned __int128)job->deadline_ns * model->clock_khz / 1000000 * model->timing.issue_width;
        return deadline < SIM_BUDGET_INSTRUCTIONS ? DS_MAX((uint64_t)deadline, SIM_BUDGET_BLOCK)
                                                  : SIM_BUDGET_INSTRUCTIONS;
}

/* Evaluates the result of one block; false: the launch ends with this block. */
static bool kernel_result(struct exec *x, const struct ds_interp_result *result, const uint32_t *block)
{
        struct sim_job *job = x->job;
        struct sim_run run;

        exec_count(x, SIM_BUDGET_BLOCK + result->cost.instructions);
        sim_cost_run(x->device->model, &result->cost, &run);
        sim_costs_add(&job->costs, &run);
        if (!result->fault)
                return true;
        if (result->fault != DS_INTERP_FAULT_ABORTED)
                fault_report(job, result, block);
        /* after a fault other blocks may run, and report an error too, for a limited number of units */
        x->budget = DS_MIN(x->budget, x->executed + SIM_PATIENCE);
        return result->fault == DS_INTERP_FAULT_ASSERT;
}

/* Evaluates the result of each block of the cluster that begins with `block`; false: the launch ends with these
 * blocks. */
static bool kernel_results(struct exec *x, const struct ds_interp_launch *launch, const uint32_t *block,
        const struct ds_interp_result *results)
{
        uint32_t n = ds_interp_cluster_blocks(launch), at[3], dx = DS_MAX(launch->cluster[0], 1u),
                 dy = DS_MAX(launch->cluster[1], 1u);
        bool good = true;

        for (uint32_t i = 0; i < n; i++) {
                at[0] = block[0] + i % dx;
                at[1] = block[1] + i / dx % dy;
                at[2] = block[2] + i / dx / dy;
                good &= kernel_result(x, &results[i], at);
        }
        return good;
}

/* Runs the cluster, or the single block, that begins with `block`; false: the launch ends with it. */
static bool kernel_blocks(struct exec *x, ds_interp_block *work, struct ds_interp_launch *launch, const uint32_t *block)
{
        char words[SIM_KERNEL_WORDS];
        struct ds_interp_result results[DS_INTERP_CLUSTER_MAX];
        struct sim_job *job = x->job;
        int r;

        launch->max_instructions = x->budget - x->executed;
        if (x->probe)
                sim_probe_block(x->probe);
        r = ds_interp_run_cluster(work, launch, block[0], block[1], block[2], results);
        if (r < 0) {
                sim_job_fail(job, DS_CUDA_OUT_OF_MEMORY, "%s: not enough host memory to execute %s",
                        sim_form_words(job->kernel, words),
                        ds_interp_cluster_blocks(launch) > 1 ? "a cluster" : "a block");
                return false;
        }
        if (!kernel_results(x, launch, block, results))
                return false;
        if (x->executed >= x->budget) {
                sim_job_fail(job, DS_CUDA_LAUNCH_TIMEOUT,
                        "%s reached the instruction budget of one launch and was aborted",
                        sim_form_words(job->kernel, words));
                return false;
        }
        return !exec_aborted(job);
}

/* Ascending ids of the SMs that a rung's kernels run on; blocks of a launch read them as %smid. */
static uint32_t rung_sm_ids(const ds_device *device, uint32_t rung, uint32_t ids[SIM_SMS_MAX])
{
        const uint64_t *sms = device->rungs[rung]->sms;
        bool in[SIM_SMS_MAX] = {};
        uint32_t n = 0;

        for (uint32_t i = 0; i < device->n_sms; i++)
                in[device->sm[i].id] = sms[i / 64] >> i % 64 & 1;
        for (uint32_t id = 0; id < device->n_sms; id++)
                if (in[id])
                        ids[n++] = id;
        return n;
}

/* A thread's tools for the execution of kernels, made when the thread executes its first kernel. */
struct exec_tools {
        ds_interp_block *work;
        struct sim_probe *probe; /* NULL: out of memory; then all accesses count as VRAM accesses */
        /* NULL until a kernel reads a clock, or out of memory; without it clocks show no memory waits */
        struct sim_waits *waits;
};

static bool exec_tools_ready(struct exec_tools *tools, const ds_device *device, const struct sim_job *job)
{
        if (!tools->work)
                tools->work = ds_interp_block_new();
        if (!tools->probe)
                tools->probe = sim_probe_new(device->model);
        if (!tools->waits && job->kernel->reads_clock)
                tools->waits = sim_waits_new(device->model);
        return tools->work;
}

static void exec_probed(struct sim_job *job, struct sim_probe *probe)
{
        sim_probe_end(probe, &job->traffic);
        for (uint32_t i = 0; i < job->traffic.n_granules; i++)
                job->traffic.granules[i].key |= (uint64_t)job->space->id << 32;
}

/* Sets the first block of a cluster, and the SM id that the block reads. */
static void place_cluster(const struct sim_job *job, uint64_t index, const uint32_t *ids, uint32_t n_ids,
        struct ds_interp_launch *launch, uint32_t first[3])
{
        uint32_t size[3], clusters[3];

        for (int i = 0; i < 3; i++) {
                size[i] = DS_MAX(job->cluster[i], 1u);
                clusters[i] = job->grid[i] / size[i];
        }
        first[0] = (uint32_t)(index % clusters[0]) * size[0];
        first[1] = (uint32_t)(index / clusters[0] % clusters[1]) * size[1];
        first[2] = (uint32_t)(index / clusters[0] / clusters[1]) * size[2];
        launch->sm_id = ids[index % n_ids];
}

/* --- extra memory of a launch --- */

/* Reports accesses to the extra memory. Its address depends on what else the process executes, so the addresses
 * reported do not contain it: they are the same in every run. */
static void own_told(void *user, const uint64_t *sectors, uint32_t n, enum ds_interp_access kind)
{
        const struct own *own = user;
        uint64_t told[DS_INTERP_SECTORS_MAX];

        for (uint32_t i = 0; i < n; i++)
                told[i] = sectors[i] >> 1 == own->at >> (DS_INTERP_SECTOR_BITS + 1)
                                  ? (OWN_BASE - OWN_BYTES) >> DS_INTERP_SECTOR_BITS
                                  : sectors[i];
        sim_probe_memory(own->probe, told, n, kind);
}

static bool own_make(struct own *own, const struct sim_snapshot *snapshot)
{
        own->ranges = ds_alloc0(snapshot->n_ranges + 1, sizeof(*own->ranges));
        own->at = (uintptr_t)ds_ix_area_new(OWN_BYTES);
        return own->ranges && own->at;
}

static void own_free(struct own *own)
{
        ds_free(own->ranges);
        (void)ds_ix_area_free((void *)(uintptr_t)own->at, OWN_BYTES);
}

/* Sets the launch's memory ranges: those of the job, and the extra memory, sorted by address. */
static void own_grant(struct own *own, const struct sim_snapshot *snapshot, struct ds_interp_launch *launch)
{
        size_t n = 0;

        for (size_t i = 0; i < snapshot->n_ranges; i++) {
                if (n == i && snapshot->ranges[i].va > own->at)
                        own->ranges[n++] = (struct ds_interp_range){own->at, OWN_BYTES};
                own->ranges[n++] = snapshot->ranges[i];
        }
        if (n == snapshot->n_ranges)
                own->ranges[n++] = (struct ds_interp_range){own->at, OWN_BYTES};
        launch->ranges = own->ranges;
        launch->n_ranges = n;
        if (launch->memory) {
                own->probe = launch->memory_user;
                launch->memory = own_told;
                launch->memory_user = own;
        }
}

/* --- cooperative launches: all blocks in turns --- */

static struct grid *grid_free(struct grid *grid)
{
        for (uint32_t i = 0; grid->parts && i < grid->n; i++)
                ds_interp_block_free(grid->parts[i].work);
        ds_free(grid->parts);
        ds_free(grid->results);
        own_free(&grid->own);
        return NULL;
}

static bool grid_make(struct grid *grid, const struct sim_job *job, uint64_t n)
{
        grid->n = (uint32_t)n;
        grid->parts = ds_alloc0(n, sizeof(*grid->parts));
        grid->results = ds_alloc0(n * job->cluster_blocks, sizeof(*grid->results));
        if (!own_make(&grid->own, job->snapshot) || !grid->parts || !grid->results)
                return false;
        ((uint32_t *)(uintptr_t)grid->own.at)[0] = DS_INTERP_WORKSPACE;
        for (uint32_t i = 0; i < n; i++) {
                grid->parts[i].work = ds_interp_block_new();
                if (!grid->parts[i].work)
                        return false;
        }
        return true;
}

static void exec_grid(struct exec *x, struct ds_interp_launch *launch, uint64_t n, const uint32_t *ids, uint32_t n_ids)
{
        char words[SIM_KERNEL_WORDS];
        struct sim_job *job = x->job;
        struct grid grid = {};

        if (n > GRID_MAX || !grid_make(&grid, job, n)) {
                sim_job_fail(job, DS_CUDA_OUT_OF_MEMORY, "%s: not enough host memory to execute all its blocks at once",
                        sim_form_words(job->kernel, words));
                grid_free(&grid);
                return;
        }
        launch->max_instructions = x->budget;
        if (x->probe)
                sim_probe_block(x->probe);
        own_grant(&grid.own, job->snapshot, launch);
        launch->workspace = grid.own.at;
        for (uint32_t i = 0; i < n; i++) {
                place_cluster(job, i, ids, n_ids, launch, grid.parts[i].first);
                grid.parts[i].launch = *launch;
                grid.parts[i].results = &grid.results[(size_t)i * job->cluster_blocks];
        }
        if (ds_interp_run_grid(grid.parts, grid.n) < 0) {
                sim_job_fail(job, DS_CUDA_OUT_OF_MEMORY, "%s: not enough host memory to execute all its blocks at once",
                        sim_form_words(job->kernel, words));
        } else {
                for (uint32_t i = 0; i < n; i++)
                        (void)kernel_results(x, launch, grid.parts[i].first, grid.parts[i].results);
        }
        grid_free(&grid);
}

static void exec_blocks(struct exec *x, const struct exec_tools *tools, struct ds_interp_launch *launch, uint64_t n,
        const uint32_t *ids, uint32_t n_ids)
{
        struct ds_interp_order order;
        uint64_t index;
        uint32_t block[3];

        ds_interp_order_init(&order, n, x->device->order_seed, x->job->number);
        for (uint64_t i = 0; i < n; i++) {
                index = ds_interp_order_at(&order, i);
                place_cluster(x->job, index, ids, n_ids, launch, block);
                if (!kernel_blocks(x, tools->work, launch, block))
                        break;
        }
}

/* Executes workers of the persistent form, with the control block that gives them their blocks. */
static void exec_workers(struct exec *x, const struct exec_tools *tools, struct ds_interp_launch *launch, uint64_t n,
        const uint32_t *ids, uint32_t n_ids)
{
        char words[SIM_KERNEL_WORDS];
        struct sim_job *job = x->job;
        const struct ds_kernel_info *info = &job->kernel->info;
        uint8_t *at = (uint8_t *)job->params + info->params[info->n_params - 1].offset;
        struct ds_ptx_virtual virtual;
        struct own own = {};

        static_assert(sizeof(struct ds_ptx_control) == OWN_BYTES, "a control block has a launch's own memory");
        if (!own_make(&own, job->snapshot)) {
                sim_job_fail(job, DS_CUDA_OUT_OF_MEMORY, "%s: not enough host memory for its control block",
                        sim_form_words(job->kernel, words));
                own_free(&own);
                return;
        }
        memcpy(&virtual, at, sizeof(virtual));
        virtual.control = own.at;
        memcpy(at, &virtual, sizeof(virtual));
        own_grant(&own, job->snapshot, launch);
        exec_blocks(x, tools, launch, n, ids, n_ids);
        sim_form_executed(job, (const struct ds_ptx_control *)(uintptr_t)own.at, virtual.epoch);
        own_free(&own);
}

/* --- launches that read a clock --- */

static uint64_t disturbance(const struct sim_job *job)
{
        uint64_t x = (job->number << 32 ^ job->space->id) * UINT64_C(0x9e3779b97f4a7c15);

        return (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

static void exec_memory(void *user, const uint64_t *sectors, uint32_t n, enum ds_interp_access kind)
{
        struct exec *x = user;

        if (x->probe)
                sim_probe_memory(x->probe, sectors, n, kind);
        sim_waits_memory(x->waits, sectors, n, kind);
}

/* Adds the waits of the launch's memory accesses to its clock, as if its blocks ran one after another. */
static void exec_watch(struct exec *x, const struct exec_tools *tools, struct ds_interp_launch *launch)
{
        const struct sim_job *job = x->job;

        if (!tools->waits || !job->kernel->reads_clock || job->cooperative || job->workers.n)
                return;
        x->waits = tools->waits;
        launch->waited = sim_waits_begin(x->waits, x->device->noise, disturbance(job));
        launch->memory = exec_memory;
        launch->memory_user = x;
}

static void exec_kernel(struct exec *x, const struct exec_tools *tools)
{
        ds_device *device = x->device;
        struct sim_job *job = x->job;
        struct ds_interp_launch launch = {
                .kernel = job->kernel->code,
                .grid = {job->grid[0], job->grid[1], job->grid[2]},
                .block = {job->block[0], job->block[1], job->block[2]},
                .cluster = {job->cluster[0], job->cluster[1], job->cluster[2]},
                .dynamic_shared = job->shared_bytes,
                .params = job->params,
                .params_size = job->params_size,
                .ranges = job->snapshot->ranges,
                .n_ranges = job->snapshot->n_ranges,
                .abort = &job->abort,
                .progress = exec_progress,
                .progress_user = x,
                .print = exec_print,
                .print_user = x,
                .memory = tools->probe ? sim_probe_memory : NULL,
                .memory_user = tools->probe,
                .memory_base = OWN_BASE + job->kernel->module->number % OWN_MODULES * DS_INTERP_OWN_BYTES,
                .clock_ns = job->clock_ns,
                .n_sms = device->n_sms,
        };
        uint32_t ids[SIM_SMS_MAX], n_ids = rung_sm_ids(device, job->stream->rung, ids);
        uint64_t n = (uint64_t)job->grid[0] * job->grid[1] * job->grid[2] / job->cluster_blocks;

        x->budget = kernel_budget(device->model, job);
        x->probe = tools->probe;
        if (x->probe)
                sim_probe_begin(x->probe);
        exec_watch(x, tools, &launch);
        if (job->cooperative)
                exec_grid(x, &launch, n, ids, n_ids);
        else if (job->workers.n)
                exec_workers(x, tools, &launch, n, ids, n_ids);
        else
                exec_blocks(x, tools, &launch, n, ids, n_ids);
        if (tools->probe)
                exec_probed(job, tools->probe);
        if (device->noise && (disturbance(job) >> 32) * 100 >> 32 < device->noise)
                sim_costs_disturb(&job->costs);
}

/* --- copies --- */

static void exec_give_way(struct exec *x);

static bool transfer_covers(const struct sim_job *job, uint64_t va, uint64_t pitch, uint64_t width, uint64_t height)
{
        return sim_snapshot_covers(job->snapshot, va, (height - 1) * pitch + width);
}

static void exec_copy_row(struct exec *x, uint64_t dst, uint64_t src, uint64_t width)
{
        uint64_t n;

        for (; width && !exec_aborted(x->job); width -= n) {
                n = DS_MIN(width, SIM_COPY_CHUNK);
                memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, n);
                dst += n;
                src += n;
                exec_count(x, n / SIM_UNIT_BYTES);
                exec_give_way(x);
        }
        exec_count(x, 1);
}

static void fill(void *p, uint64_t value, uint32_t size, uint64_t n);

/* A large fill: a few KiB by fill(), then whole pieces, at the speed of memory. */
static void fill_pieces(uint8_t *p, uint64_t value, uint32_t size, uint64_t n)
{
        uint64_t piece[FILL_PIECE / 8], bytes = n * size, part;

        fill(piece, value, size, FILL_PIECE / size);
        for (; bytes; bytes -= part, p += part) {
                part = DS_MIN(bytes, (uint64_t)FILL_PIECE);
                memcpy(p, piece, part);
        }
}

static void fill(void *p, uint64_t value, uint32_t size, uint64_t n)
{
        if (size > 1 && n > FILL_LARGE / size) {
                fill_pieces(p, value, size, n);
                return;
        }
        switch (size) {
        case 1:
                /* large zero fill of a slab: removes its pages, which then read as zeros, instead of writing all of
                 * them */
                if (value || n < SIM_COPY_CHUNK || madvise(p, n, MADV_REMOVE))
                        memset(p, (int)value, n);
                break;
        case 2:
                for (uint64_t i = 0; i < n; i++)
                        ((uint16_t *)p)[i] = (uint16_t)value;
                break;
        case 4:
                for (uint64_t i = 0; i < n; i++)
                        ((uint32_t *)p)[i] = (uint32_t)value;
                break;
        default:
                for (uint64_t i = 0; i < n; i++)
                        __atomic_store_n((uint64_t *)p + i, value, __ATOMIC_RELEASE);
        }
}

static void exec_fill_row(struct exec *x, uint64_t dst, uint64_t width)
{
        const struct ds_memset *m = &x->job->memset;
        uint64_t n;

        for (; width && !exec_aborted(x->job); width -= n) {
                n = DS_MIN(width, SIM_COPY_CHUNK / m->element_size);
                fill((void *)(uintptr_t)dst, m->value, m->element_size, n);
                dst += n * m->element_size;
                exec_count(x, n * m->element_size / SIM_UNIT_BYTES);
                exec_give_way(x);
        }
        exec_count(x, 1);
}

static void exec_transfer(struct exec *x)
{
        struct sim_job *job = x->job;
        const struct ds_copy *c = &job->copy;
        const struct ds_memset *m = &job->memset;
        bool ok;

        if (job->kind == SIM_JOB_COPY) {
                if (!c->width || !c->height)
                        return;
                ok = transfer_covers(job, c->dst, c->dst_pitch, c->width, c->height) &&
                     transfer_covers(job, c->src, c->src_pitch, c->width, c->height);
                for (uint64_t y = 0; ok && y < c->height && !exec_aborted(job); y++)
                        exec_copy_row(x, c->dst + y * c->dst_pitch, c->src + y * c->src_pitch, c->width);
        } else {
                if (!m->width || !m->height)
                        return;
                ok = transfer_covers(job, m->dst, m->pitch, m->width * m->element_size, m->height);
                for (uint64_t y = 0; ok && y < m->height && !exec_aborted(job); y++)
                        exec_fill_row(x, m->dst + y * m->pitch, m->width);
        }
        if (!ok)
                sim_job_fail(job, DS_CUDA_ILLEGAL_ADDRESS, "memory was unmapped before the %s ran",
                        job->kind == SIM_JOB_COPY ? "copy" : "memset");
}

/* Ends the execution of the job: publishes its last progress. Nothing of the job is executed afterwards. */
static void exec_end(struct exec *x)
{
        char words[SIM_KERNEL_WORDS];
        struct sim_job *job = x->job;
        uint32_t abort = atomic_load(&job->abort);

        exec_tell(x, x->executed);
        if (abort == SIM_ABORT_UNWANTED)
                sim_job_fail(job, DS_CUDA_LAUNCH_FAILED, "aborted before its end, with its session");
        else if (abort == SIM_ABORT_TOO_LONG && job->kind == SIM_JOB_KERNEL)
                sim_job_fail(job, DS_CUDA_LAUNCH_TIMEOUT,
                        "%s was aborted after %" PRIu64
                        " million warp instructions: it took too long while other clients waited",
                        sim_form_words(job->kernel, words), x->executed / 1000000);
        else if (abort == SIM_ABORT_TOO_LONG)
                sim_job_fail(job, DS_CUDA_LAUNCH_TIMEOUT,
                        "a copy or memset was aborted: it took too long while other clients waited");
}

void sim_exec_transfer(ds_device *device, struct sim_job *job)
{
        struct exec x = {.device = device, .job = job};

        exec_transfer(&x);
        exec_end(&x);
}

/* --- the pool --- */

static struct sim_job *line_take(struct sim_line *line)
{
        struct sim_job *job = line->head;

        if (job) {
                line->head = job->pool_next;
                if (!line->head)
                        line->tail = NULL;
                job->pool_next = NULL;
        }
        return job;
}

/* Takes a job that the clock waits for */
static struct sim_job *pool_take_needed(struct sim_pool *pool)
{
        struct sim_job *job = line_take(&pool->needed);

        if (job)
                atomic_fetch_sub(&pool->n_needed, 1);
        return job;
}

static struct sim_job *pool_take(struct sim_pool *pool)
{
        struct sim_job *job = pool_take_needed(pool);

        return job ? job : line_take(&pool->queue);
}

/* Adds the job to the list of running jobs. */
static void pool_running(struct sim_pool *pool, struct sim_job *job)
{
        pool->n_running++;
        job->pool_next = pool->running;
        pool->running = job;
}

/* Takes the first queued job that may be executed now, and adds it to the running ones; NULL if none. */
static struct sim_job *pool_begin(struct sim_pool *pool)
{
        struct sim_job *job = NULL;

        if (pool->n_running < pool->width + atomic_load(&pool->n_long))
                job = pool_take(pool);
        if (job)
                pool_running(pool, job);
        return job;
}

static void pool_end(ds_device *device, struct sim_job *job)
{
        struct sim_pool *pool = &device->pool;
        struct sim_job **at = &pool->running;

        while (*at != job)
                at = &(*at)->pool_next;
        *at = job->pool_next;
        pool->n_running--;
        if (atomic_load(&job->executed) > SIM_PATIENCE)
                atomic_fetch_sub(&pool->n_long, 1);
        job->pool_next = pool->done;
        pool->done = job;
        pool_news(device);
}

static void pool_execute(ds_device *device, struct sim_job *job, struct exec_tools *tools, uint32_t depth)
{
        struct exec x = {.device = device, .job = job, .tools = tools, .depth = depth};

        if (job->kind != SIM_JOB_KERNEL)
                exec_transfer(&x);
        else if (exec_tools_ready(tools, device, job))
                exec_kernel(&x, tools);
        else
                sim_job_fail(job, DS_CUDA_OUT_OF_MEMORY, "not enough host memory to execute kernels");
        exec_end(&x);
}

/*
 * Executes, between two pieces of a copy, a job that the clock waits for and that no thread is free to execute. If that
 * job is a copy it does the same in turn; the depth is limited to the number of copy engines and a few more.
 */
static void exec_give_way(struct exec *x)
{
        struct sim_pool *pool = &x->device->pool;
        struct sim_job *job;

        while (x->tools && x->depth < GIVE_WAY_DEPTH && atomic_load(&pool->n_needed)) {
                pthread_mutex_lock(&pool->lock);
                job = pool_take_needed(pool);
                if (job)
                        pool_running(pool, job);
                pthread_mutex_unlock(&pool->lock);
                if (!job)
                        return;
                pool_execute(x->device, job, x->tools, x->depth + 1);
                pthread_mutex_lock(&pool->lock);
                pool_end(x->device, job);
                pthread_mutex_unlock(&pool->lock);
        }
}

static void *pool_main(void *arg)
{
        ds_device *device = arg;
        struct sim_pool *pool = &device->pool;
        struct exec_tools tools = {};
        struct sim_job *job;

        pthread_mutex_lock(&pool->lock);
        while (!pool->closing) {
                job = pool_begin(pool);
                if (!job) {
                        pthread_cond_wait(&pool->work, &pool->lock);
                        continue;
                }
                pthread_mutex_unlock(&pool->lock);
                pool_execute(device, job, &tools, 0);
                pthread_mutex_lock(&pool->lock);
                pool_end(device, job);
        }
        pthread_mutex_unlock(&pool->lock);
        ds_interp_block_free(tools.work);
        sim_probe_free(tools.probe);
        sim_waits_free(tools.waits);
        return NULL;
}

int sim_pool_start(ds_device *device)
{
        struct sim_pool *pool = &device->pool;
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);
        sigset_t all, old;
        int r = 0;

        pthread_mutex_init(&pool->lock, NULL);
        pthread_cond_init(&pool->work, NULL);
        pool->ready = true;
        pool->width = cpus > 1 ? SIM_WIDTH : 1;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        while (!r && pool->n_threads < SIM_THREADS) {
                r = pthread_create(&pool->threads[pool->n_threads], NULL, pool_main, device);
                pool->n_threads += !r;
        }
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        /* the pool works if at least one thread was created */
        return r && !pool->n_threads ? ds_error_origin(-r) : 0;
}

void sim_pool_stop(ds_device *device)
{
        struct sim_pool *pool = &device->pool;

        if (!pool->ready)
                return;
        pthread_mutex_lock(&pool->lock);
        pool->closing = true;
        pthread_cond_broadcast(&pool->work);
        pthread_mutex_unlock(&pool->lock);
        while (pool->n_threads)
                pthread_join(pool->threads[--pool->n_threads], NULL);
        pthread_cond_destroy(&pool->work);
        pthread_mutex_destroy(&pool->lock);
        pool->ready = false;
}

static void pool_push(struct sim_pool *pool, struct sim_job *job, bool needed)
{
        struct sim_line *line = needed ? &pool->needed : &pool->queue;

        job->pool_next = NULL;
        *(line->head ? &line->tail->pool_next : &line->head) = job;
        line->tail = job;
        if (needed)
                atomic_fetch_add(&pool->n_needed, 1);
}

static bool line_drop(struct sim_line *line, struct sim_job *job)
{
        struct sim_job **at = &line->head, *before = NULL;

        for (; *at && *at != job; at = &(*at)->pool_next)
                before = *at;
        if (!*at)
                return false;
        *at = job->pool_next;
        if (line->tail == job)
                line->tail = before;
        job->pool_next = NULL;
        return true;
}

static bool pool_remove(struct sim_pool *pool, struct sim_job *job)
{
        if (line_drop(&pool->queue, job))
                return true;
        if (!line_drop(&pool->needed, job))
                return false;
        atomic_fetch_sub(&pool->n_needed, 1);
        return true;
}

void sim_pool_submit(ds_device *device, struct sim_job *job, bool needed)
{
        struct sim_pool *pool = &device->pool;

        job->effect = SIM_EFFECT_SUBMITTED;
        pthread_mutex_lock(&pool->lock);
        pool_push(pool, job, needed);
        pthread_cond_signal(&pool->work);
        pthread_mutex_unlock(&pool->lock);
}

bool sim_pool_cancel(ds_device *device, struct sim_job *job)
{
        struct sim_pool *pool = &device->pool;
        bool removed;

        pthread_mutex_lock(&pool->lock);
        removed = pool_remove(pool, job);
        pthread_mutex_unlock(&pool->lock);
        return removed;
}

void sim_pool_promote(ds_device *device, struct sim_job *job)
{
        struct sim_pool *pool = &device->pool;

        pthread_mutex_lock(&pool->lock);
        if (line_drop(&pool->queue, job))
                pool_push(pool, job, true);
        pthread_mutex_unlock(&pool->lock);
}

void sim_pool_collect(ds_device *device)
{
        struct sim_pool *pool = &device->pool;
        struct sim_job *job, *next;
        uint64_t count;

        if (!atomic_load_explicit(&pool->n_news, memory_order_relaxed))
                return;
        pthread_mutex_lock(&pool->lock);
        job = pool->done;
        pool->done = NULL;
        atomic_store(&pool->n_news, 0);
        if (read(device->event_fd, &count, sizeof(count)) < 0)
                count = 0; /* an earlier read has emptied the counter; only the list of finished jobs counts */
        pthread_mutex_unlock(&pool->lock);
        for (; job; job = next) {
                next = job->pool_next;
                job->pool_next = NULL;
                job->effect = SIM_EFFECT_DONE;
                job->snapshot = sim_snapshot_put(job->snapshot);
                if (job->kind == SIM_JOB_KERNEL)
                        sim_costs_finish(&job->costs, SIM_BLOCKS_EXACT);
                job->stream->effect_busy = false;
                job->stream->effected = job->seq;
                sim_stream_effected(device, job->stream);
                sim_job_unblock(device, job);
                if (job->state == SIM_JOB_PUT_OFF)
                        sim_put_off_done(device, job);
        }
}

void sim_pool_relieve(ds_device *device, uint64_t limit_ns)
{
        struct sim_pool *pool = &device->pool;
        struct sim_job *longest = NULL;
        uint32_t none = SIM_ABORT_NONE;
        uint64_t most = SIM_CROWD, n;

        if (atomic_load(&pool->n_long) < pool->n_threads)
                return;
        pthread_mutex_lock(&pool->lock);
        for (struct sim_job *job = pool->needed.head || pool->queue.head ? pool->running : NULL; job;
                job = job->pool_next) {
                n = atomic_load(&job->executed);
                if (n <= most || !sim_others_wait(device, job, limit_ns))
                        continue;
                most = n;
                longest = job;
        }
        if (longest)
                atomic_compare_exchange_strong(&longest->abort, &none, SIM_ABORT_TOO_LONG);
        pthread_mutex_unlock(&pool->lock);
}
