/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block scheduler: places the blocks of kernels on SMs
 *
 * Ready kernels queue by priority, and in order of arrival within one priority. Blocks go to SMs of the kernel's SM
 * mask that have free threads, registers, shared memory and a free block slot, the emptiest SM first. A kernel whose
 * blocks do not all fit reserves its SMs until they do. Later kernels get only SMs outside its mask, or none, as
 * measured on a GPU with two streams of one priority. A limit on resident blocks (max_resident_blocks) holds back only
 * its own kernel.
 *
 * A worker block of the persistent form keeps its place from chunk to chunk. So work of a higher priority finds no more
 * room than on a GPU: none, until the workers let go.
 *
 * Timing: the blocks of one wave are first counted on all SMs and then timed together (share.c), so that they slow each
 * other. The SM array has the order in which hardware assigns blocks: one SM per TPC over all GPCs first, then the
 * second SMs.
 */
#include <assert.h>
#include <string.h>

#include "device/sim/internal.h"
#include "util/alloc.h"
#include "util/error.h"

/* most bytes per us of a group; more than any device has, and small enough that sums stay below 64 bits */
#define BLOCK_RATE_MAX (UINT64_C(1) << 32)

/* --- initialisation --- */

static int order_key(const struct sim_model *model, uint32_t sm)
{
        uint32_t gpc, rank;

        sim_model_gpc(model, sm / model->sms_per_tpc, &gpc, &rank);
        return (int)((sm % model->sms_per_tpc) * 65536 + rank * SIM_GPCS_MAX + gpc);
}

int sim_blocks_init(ds_device *device)
{
        const struct sim_model *model = device->model;
        /* most groups on the device: each group takes at least one block slot; one more for a copy */
        uint32_t n_groups = model->n_tpcs * model->sms_per_tpc * model->sm_blocks + 1, at;

        assert(model->n_tpcs * model->sms_per_tpc <= SIM_SM_APART);
        device->n_sms = model->n_tpcs * model->sms_per_tpc;
        for (uint32_t id = 0; id < device->n_sms; id++) {
                for (at = id; at && order_key(model, device->sm[at - 1].id) > order_key(model, id); at--)
                        device->sm[at] = device->sm[at - 1];
                device->sm[at] = (struct sim_sm){
                        .id = id,
                        .threads = model->sm_threads,
                        .blocks = model->sm_blocks,
                        .registers = model->sm_registers,
                        .shared = model->sm_shared,
                        .stretch = SIM_LOAD_ONE,
                };
                device->sms_empty[id / 64] |= UINT64_C(1) << id % 64;
        }
        sim_clusters_init(device);
        device->groups = ds_alloc0(n_groups, sizeof(*device->groups));
        if (!device->groups)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n_groups; i++) {
                device->groups[i].next = device->free_groups;
                device->free_groups = &device->groups[i];
        }
        device->memory.l2 = device->memory.vram = device->memory.backlog = device->memory.stall = SIM_LOAD_ONE;
        return ds_error_trace(sim_heap_reserve(device, n_groups));
}

void sim_blocks_deinit(ds_device *device)
{
        device->groups = ds_free(device->groups);
        device->free_groups = NULL;
}

bool sim_blocks_fit(const ds_device *device, const struct sim_need *need)
{
        const struct sim_model *model = device->model;

        return need->threads <= model->sm_threads && need->registers <= model->sm_registers &&
               need->shared <= model->sm_shared;
}

/* --- queue of kernels that have blocks to place --- */

static struct sim_fifo *ready_list(ds_device *device, const struct sim_job *job)
{
        return &device->ready[job->stream->priority];
}

static void mask_or(uint64_t *mask, const uint64_t *more)
{
        for (size_t i = 0; i < SIM_SM_WORDS; i++)
                mask[i] |= more[i];
}

static const uint64_t *job_mask(const ds_device *device, const struct sim_job *job)
{
        return device->rungs[job->stream->rung]->sms;
}

void sim_blocks_ready(ds_device *device, struct sim_job *job)
{
        struct sim_fifo *list = ready_list(device, job);
        struct sim_job *after = list->tail;

        assert(job->costs.n_blocks);
        job->unplaced = job->costs.n_blocks;
        job->run = 0;
        job->run_used = 0;
        job->fresh = true;
        sim_l2_begin(device, job);
        /* Jobs that waited for their effects arrive here in the order of execution; sort them by their order on the
         * clock */
        while (after && after->order > job->order)
                after = after->ready_prev;
        job->ready_prev = after;
        job->ready_next = after ? after->ready_next : list->head;
        *(job->ready_next ? &job->ready_next->ready_prev : &list->tail) = job;
        *(after ? &after->ready_next : &list->head) = job;
        device->round_due = true;
}

static void ready_remove(ds_device *device, struct sim_job *job)
{
        struct sim_fifo *list = ready_list(device, job);

        *(job->ready_prev ? &job->ready_prev->ready_next : &list->head) = job->ready_next;
        *(job->ready_next ? &job->ready_next->ready_prev : &list->tail) = job->ready_prev;
        job->ready_next = job->ready_prev = NULL;
        if (job->claiming)
                mask_or(device->sms_freed, job_mask(device, job));
        job->claiming = false;
        device->round_due = true;
}

/* --- groups --- */

static void group_release(ds_device *device, struct sim_group *group)
{
        struct sim_sm *sm = &device->sm[group->sm];
        struct sim_job *job = group->job;

        assert(job->resident >= group->n && sm->resident >= group->n);
        sm->threads += group->n * job->need.threads;
        sm->registers += group->n * job->need.registers;
        sm->shared += group->n * job->need.shared;
        sm->blocks += group->n;
        sm->resident -= group->n;
        if (!sm->resident)
                device->sms_empty[group->sm / 64] |= UINT64_C(1) << group->sm % 64;
        sim_share_remove(device, group);
        device->sms_freed[group->sm / 64] |= UINT64_C(1) << group->sm % 64;
        device->round_due = true;
        job->resident -= group->n;
        if (job->kind == SIM_JOB_KERNEL) {
                device->rungs[job->stream->rung]->resident -= group->n;
                device->resident -= group->n;
        }
        *(group->job_prev ? &group->job_prev->job_next : &job->groups) = group->job_next;
        if (group->job_next)
                group->job_next->job_prev = group->job_prev;
        group->next = device->free_groups;
        device->free_groups = group;
}

/* Rate at which n blocks of this run move bytes through L2, bytes per us */
static uint64_t run_rate(const struct sim_run *run, uint32_t n, const struct sim_traffic *traffic)
{
        return n * DS_MIN(run->bytes * 1000 / run->latency_ns, BLOCK_RATE_MAX) * traffic->pass / SIM_LOAD_ONE;
}

static void group_add(ds_device *device, struct sim_job *job, uint32_t at, uint32_t n, const struct sim_run *run)
{
        struct sim_sm *sm = &device->sm[at];
        struct sim_group *group = device->free_groups;

        assert(group);
        device->free_groups = group->next;
        *group = (struct sim_group){
                .job = job,
                .sm = at,
                .n = n,
                .sm_load = n * (run->issue_ns * SIM_LOAD_ONE / run->latency_ns),
                .rate = run_rate(run, n, &job->traffic),
                .vram_rate = run_rate(run, n, &job->traffic) / SIM_LOAD_ONE * job->traffic.vram,
                .filled = n * (run->bytes / SIM_LOAD_ONE * job->traffic.pass / SIM_LOAD_ONE) * job->traffic.fill,
                .stall = (uint32_t)(run->stall_ns * SIM_LOAD_ONE / run->latency_ns),
                .left_ns = run->latency_ns,
                .job_next = job->groups,
        };
        if (job->groups)
                job->groups->job_prev = group;
        job->groups = group;

        sm->threads -= n * job->need.threads;
        sm->registers -= n * job->need.registers;
        sm->shared -= n * job->need.shared;
        sm->blocks -= n;
        sm->resident += n;
        device->sms_empty[at / 64] &= ~(UINT64_C(1) << at % 64);
        sim_share_add(device, group);
        if (job->kind == SIM_JOB_KERNEL) {
                device->resident += n;
                device->rungs[job->stream->rung]->resident += n;
        }
        job->resident += n;
        job->unplaced -= n;
}

/* Places the next n blocks of the job on one SM. */
static void sm_take(ds_device *device, struct sim_job *job, uint32_t at, uint64_t n)
{
        const struct sim_run *run;
        uint64_t take;

        while (n) {
                run = &job->costs.runs[job->run];
                take = DS_MIN(n, run->n - job->run_used);
                group_add(device, job, at, (uint32_t)take, run);
                n -= take;
                job->run_used += take;
                if (job->run_used == run->n) {
                        job->run++;
                        job->run_used = 0;
                }
        }
}

uint64_t sim_sm_room(const struct sim_sm *sm, const struct sim_need *need, uint64_t want)
{
        uint64_t room = DS_MIN(want, sm->blocks);

        if (sm->threads < need->threads || sm->registers < need->registers || sm->shared < need->shared)
                return 0;
        if (room <= 1)
                return room;
        room = DS_MIN(room, sm->threads / need->threads);
        if (need->registers)
                room = DS_MIN(room, sm->registers / need->registers);
        if (need->shared)
                room = DS_MIN(room, sm->shared / need->shared);
        return room;
}

static void candidates_find(const ds_device *device, const struct sim_job *job, const uint64_t *sms, uint64_t want,
        struct sim_candidates *c)
{
        uint64_t room, word;
        uint32_t at;

        c->n = 0;
        c->room_total = 0;
        c->level = UINT32_MAX;
        for (uint32_t i = 0; i < SIM_SM_WORDS; i++) {
                for (word = sms[i]; word; word &= word - 1) {
                        at = i * 64 + (uint32_t)__builtin_ctzll(word);
                        room = sim_sm_room(&device->sm[at], &job->need, want);
                        if (!room)
                                continue;
                        c->sm[c->n] = (uint16_t)at;
                        c->room[c->n] = (uint16_t)room;
                        c->taken[c->n++] = 0;
                        c->room_total += room;
                        c->level = DS_MIN(c->level, device->sm[at].resident);
                }
        }
}

/* Assigns `want` blocks one by one to the emptiest SMs; want is less than the SMs have room for. */
static void candidates_deal(const ds_device *device, struct sim_candidates *c, uint64_t want)
{
        for (uint32_t level = c->level; want; level++) {
                for (uint32_t i = 0; i < c->n && want; i++) {
                        if (c->taken[i] == c->room[i] || device->sm[c->sm[i]].resident + c->taken[i] > level)
                                continue;
                        c->taken[i]++;
                        want--;
                }
        }
}

/* Number of further blocks that the job's own limit allows: whole clusters, and at least one block. */
static uint64_t job_allowance(const struct sim_job *job)
{
        /* max_resident 0: no blocks are placed until the limit is raised */
        uint32_t bound = job->max_resident ? DS_MAX(job->max_resident, job->cluster_blocks) : 0;

        if (job->resident >= bound)
                return 0;
        if (job->unplaced <= bound - job->resident)
                return job->unplaced;
        return (bound - job->resident) / job->cluster_blocks * job->cluster_blocks;
}

static void job_placed_first(ds_device *device, struct sim_job *job)
{
        job->placed_any = true;
        job->start_ns = device->now - DS_MIN(device->now, job->lead_ns);
        if (job->deadline_ns && job->deadline_ns < UINT64_MAX - device->now)
                sim_event_push(device, &job->deadline, SIM_EVENT_DEADLINE, device->now + job->deadline_ns);
}

/* Fast path for most kernels of a request: one block on each empty SM, as candidates_deal() would choose, if enough
 * are empty */
static bool job_place_apart(ds_device *device, struct sim_job *job, const uint64_t *sms, uint64_t want)
{
        uint64_t empty[SIM_SM_WORDS], n = 0, left = want;

        for (uint32_t i = 0; i < SIM_SM_WORDS; i++) {
                empty[i] = sms[i] & device->sms_empty[i];
                n += (uint64_t)__builtin_popcountll(empty[i]);
        }
        if (n < want)
                return false;
        if (!job->placed_any)
                job_placed_first(device, job);
        for (uint32_t i = 0; left; i++)
                for (uint64_t word = empty[i]; word && left; word &= word - 1, left--)
                        sm_take(device, job, i * 64 + (uint32_t)__builtin_ctzll(word), 1);
        return true;
}

static void job_place(ds_device *device, struct sim_job *job, const uint64_t *sms)
{
        uint64_t want = job_allowance(job);
        struct sim_candidates c;

        if (!want || (job->cluster_blocks == 1 && job_place_apart(device, job, sms, want)))
                return;
        candidates_find(device, job, sms, want, &c);
        if (!c.n)
                return;
        if (job->cluster_blocks > 1)
                want = sim_clusters_deal(device, job, &c, want);
        else if (want < c.room_total)
                candidates_deal(device, &c, want);
        else
                memcpy(c.taken, c.room, c.n * sizeof(*c.taken));
        if (!want)
                return;
        if (!job->placed_any)
                job_placed_first(device, job);
        for (uint32_t i = 0; i < c.n; i++)
                if (c.taken[i])
                        sm_take(device, job, c.sm[i], c.taken[i]);
}

/* --- placement round --- */

static bool mask_subset(const uint64_t *mask, const uint64_t *of)
{
        for (size_t i = 0; i < SIM_SM_WORDS; i++)
                if (mask[i] & ~of[i])
                        return false;
        return true;
}

/* Places blocks of one kernel; claimed: SMs that kernels earlier in the queue reserve. */
static void round_job(ds_device *device, struct sim_job *job, uint64_t *claimed)
{
        const uint64_t *mask = job_mask(device, job);
        uint64_t sms[SIM_SM_WORDS], any = 0;
        /* a cluster checks all SMs, since its SMs need not become free at the same time */
        bool bound, all = job->fresh || job->cluster_blocks > 1;

        if (mask_subset(mask, claimed))
                return;
        for (size_t i = 0; i < SIM_SM_WORDS; i++) {
                sms[i] = mask[i] & ~claimed[i] & (all ? UINT64_MAX : device->sms_freed[i]);
                any |= sms[i];
        }
        if (any)
                job_place(device, job, sms);
        if (!job->unplaced) {
                ready_remove(device, job);
                return;
        }
        bound = !job_allowance(job);
        if (bound && job->claiming)
                mask_or(device->sms_freed, mask);
        job->claiming = !bound;
        /* a job that its limit stopped checks all its SMs again in the next round */
        job->fresh = bound;
        if (!bound)
                mask_or(claimed, mask);
}

void sim_blocks_round(ds_device *device)
{
        uint64_t claimed[SIM_SM_WORDS] = {};
        struct sim_job *job, *next;

        if (!device->round_due)
                return;
        for (size_t priority = 0; priority < DS_DEVICE_PRIORITIES; priority++) {
                for (job = device->ready[priority].head; job; job = next) {
                        next = job->ready_next;
                        round_job(device, job, claimed);
                }
        }
        memset(device->sms_freed, 0, sizeof(device->sms_freed));
        device->round_due = false;
        sim_share_settle(device);
}

/* --- ends of blocks --- */

/* A worker that has finished a chunk takes the next one on the same SM; no other kernel can take its place in
 * between. */
static void workers_go_on(ds_device *device, struct sim_job *job, uint32_t sm, uint32_t n)
{
        uint64_t more = DS_MIN(n, job_allowance(job));

        if (!more)
                return;
        sm_take(device, job, sm, more);
        if (!job->unplaced)
                ready_remove(device, job);
}

void sim_blocks_end(ds_device *device, struct sim_event *event)
{
        struct sim_group *group = DS_CONTAINER_OF(event, struct sim_group, event), *next;
        struct sim_job *job;
        uint32_t sm, n;

        for (; group; group = next) {
                next = group->next;
                job = group->job;
                sm = group->sm;
                n = group->n;
                sim_l2_fill(device, job, group->filled);
                group_release(device, group);
                if (job->workers.n && job->unplaced)
                        workers_go_on(device, job, sm, n);
                if (job->unplaced || job->resident)
                        continue;
                sim_l2_end(device, job);
                if (job->kind != SIM_JOB_KERNEL)
                        sim_copy_done(device, job);
                sim_job_end(device, job, false);
        }
}

void sim_blocks_kill(ds_device *device, struct sim_job *job)
{
        struct sim_group *group;

        while ((group = job->groups)) {
                sim_share_unlink(device, group);
                group_release(device, group);
        }
        if (job->unplaced)
                ready_remove(device, job);
        job->unplaced = 0;
}

void sim_blocks_bound(ds_device *device, struct sim_job *job, uint32_t bound)
{
        job->max_resident = bound;
        if (job->state != SIM_JOB_RUNNING || !job->unplaced)
                return;
        /* The job may now look at every SM again, and may no longer need the SMs that it has reserved. */
        job->fresh = true;
        if (job->claiming)
                mask_or(device->sms_freed, job_mask(device, job));
        device->round_due = true;
}

void sim_blocks_let_go(ds_device *device, struct sim_job *job)
{
        job->workers.left = job->unplaced;
        if (!job->unplaced)
                return;
        ready_remove(device, job);
        job->unplaced = 0;
        if (!job->resident)
                sim_job_end(device, job, false);
}

void sim_blocks_apart(ds_device *device, struct sim_job *job, const struct sim_run *run)
{
        job->unplaced = 1;
        group_add(device, job, SIM_SM_APART, 1, run);
        device->round_due = true;
}
