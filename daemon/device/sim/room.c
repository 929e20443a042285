/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room of profile kernels on the SMs, and the pace that follows from it
 *
 * Reading order: room (take, give back), pace (from room to an end), shortage (what a kernel that lacks room may expect
 * from those that hold it), events.
 */
#include "device/sim/room.h"

#include <assert.h>
#include <string.h>

#include "device/sim/internal.h"
#include "device/sim/profile.h"

/* longest time, ns (36 years); the sum with any time that occurs is still a valid time */
#define TIME_MAX (UINT64_C(1) << 60)

/* --- initialisation --- */

void sim_room_rungs(ds_device *device)
{
        const uint32_t sms_per_tpc = device->model->sms_per_tpc;
        struct sim_room *room = &device->room;
        uint64_t of_atom[SIM_ATOMS_MAX], rungs;
        uint32_t atom;

        assert(!room->line[0].head && !room->line[1].head);
        room->n_atoms = 0;
        memset(room->free, 0, sizeof(room->free));
        for (uint32_t tpc = 0; tpc < device->model->n_tpcs; tpc++) {
                rungs = 0;
                for (uint32_t i = 0; i < device->n_rungs; i++)
                        rungs |= (device->rungs[i]->info.mask.word[tpc / 64] >> tpc % 64 & 1) << i;
                for (atom = 0; atom < room->n_atoms && of_atom[atom] != rungs; atom++)
                        ;
                of_atom[atom] = rungs;
                room->n_atoms = DS_MAX(room->n_atoms, atom + 1);
                room->free[atom] += sms_per_tpc * SIM_ROOM_SM;
        }
        for (uint32_t i = 0; i < device->n_rungs; i++) {
                device->rungs[i]->n_atoms = 0;
                for (atom = 0; atom < room->n_atoms; atom++)
                        if (of_atom[atom] >> i & 1)
                                device->rungs[i]->atoms[device->rungs[i]->n_atoms++] = (uint8_t)atom;
        }
}

static uint32_t per(uint32_t has, uint32_t needs, uint32_t most)
{
        return needs ? DS_MIN(has / needs, most) : most;
}

bool sim_shape_of(const struct sim_model *model, const struct ds_device_kernel *kernel, struct sim_shape *ret)
{
        const struct sim_profile_kernel *profile = kernel->profile;
        struct sim_need need;
        uint32_t n = model->sm_blocks;

        sim_need_of(model, kernel, profile->block, 0, &need);
        n = per(model->sm_threads, need.threads, n);
        n = per(model->sm_registers, need.registers, n);
        n = per(model->sm_shared, need.shared, n);
        *ret = (struct sim_shape){.per_sm = n, .part = n ? SIM_ROOM_SM / n : 0, .blocks = sim_profile_blocks(profile)};
        return n > 0;
}

/* --- room --- */

static const struct sim_shape *shape(const struct sim_job *job)
{
        return &job->kernel->shape;
}

static const struct sim_rung *rung_of(const ds_device *device, const struct sim_job *job)
{
        return device->rungs[job->stream->rung];
}

/* Number of blocks that the job's own limit allows to be resident. */
static uint32_t bound_of(const struct sim_job *job)
{
        return job->max_resident ? job->max_resident : UINT32_MAX;
}

static bool is_short(const struct sim_job *job)
{
        return job->share.held < job->share.want;
}

static uint32_t free_room(const struct sim_room *room, const struct sim_rung *rung)
{
        uint32_t sum = 0;

        for (uint32_t i = 0; i < rung->n_atoms; i++)
                sum += room->free[rung->atoms[i]];
        return sum;
}

/* Moves `amount` of `of` units of room in total from from[] to to[]: from each atom of the rung in proportion to its
 * room. */
static void move_room(uint32_t *from, uint32_t *to, const struct sim_rung *rung, uint32_t amount, uint32_t of)
{
        uint64_t ratio = ((uint64_t)amount << 24) / of;
        uint32_t atom, n;

        for (uint32_t i = 0; i < rung->n_atoms; i++) {
                atom = rung->atoms[i];
                n = amount == of ? from[atom] : (uint32_t)(from[atom] * ratio >> 24);
                from[atom] -= n;
                to[atom] += n;
                amount -= n;
                of -= n;
        }
        for (uint32_t i = 0; amount; i++) {
                atom = rung->atoms[i];
                n = DS_MIN(amount, from[atom]);
                from[atom] -= n;
                to[atom] += n;
                amount -= n;
        }
}

static void set_want(ds_device *device, struct sim_job *job, uint32_t want)
{
        device->room.n_short -= is_short(job);
        job->share.want = want;
        device->room.n_short += is_short(job);
}

static void set_held(ds_device *device, struct sim_job *job, uint32_t held)
{
        device->room.n_short -= is_short(job);
        job->share.held = held;
        device->room.n_short += is_short(job);
}

/* Gives the job free room that it wants, in whole blocks; true: it got some. */
static bool take(ds_device *device, struct sim_job *job)
{
        const struct sim_rung *rung = rung_of(device, job);
        uint32_t amount = job->share.want - job->share.held, available = free_room(&device->room, rung);

        if (!available)
                return false;
        if (available < amount)
                amount = available / shape(job)->part * shape(job)->part;
        if (!amount)
                return false;
        move_room(device->room.free, job->room_of, rung, amount, available);
        set_held(device, job, job->share.held + amount);
        return true;
}

static void give_back(ds_device *device, struct sim_job *job, uint32_t amount)
{
        if (amount)
                move_room(job->room_of, device->room.free, rung_of(device, job), amount, job->share.held);
        set_held(device, job, job->share.held - amount);
}

/* --- pace --- */

static uint64_t alone_time(const ds_device *device, const struct sim_job *job)
{
        const struct sim_profile *profile = job->kernel->module->profile;
        const struct sim_profile_kernel *kernel = job->kernel->profile;
        uint64_t slots = job->share.slots, all;
        uint32_t sms = rung_of(device, job)->info.n_sms;

        if (job->share.held < shape(job)->part)
                return 0;
        all = DS_MIN(shape(job)->blocks, (uint64_t)shape(job)->per_sm * sms);
        if (slots >= all)
                return sim_profile_time(profile, kernel, sms);
        /* A kernel that would fill its rung gets the time of a rung with as many SMs as it has room of. The blocks
         * of a smaller kernel stay spread over all SMs, but fewer run at once. */
        if (all == (uint64_t)shape(job)->per_sm * sms)
                return sim_profile_time(profile, kernel, (uint32_t)(slots / shape(job)->per_sm));
        return sim_profile_waves_time(kernel, sim_profile_time(profile, kernel, sms), slots);
}

static uint64_t block_time(const struct sim_job *job)
{
        uint64_t ns = job->kernel->profile->block_ns;

        return DS_MAX(ns ? ns : job->share.time_ns / job->share.waves, 1);
}

static void progress(const ds_device *device, struct sim_job *job)
{
        struct sim_share *share = &job->share;
        unsigned __int128 done;

        if (share->time_ns && device->now > share->since_ns) {
                done = (unsigned __int128)(device->now - share->since_ns) * SIM_SHARE_ONE / share->time_ns;
                share->left -= (uint64_t)DS_MIN(done, (unsigned __int128)share->left);
        }
        share->since_ns = device->now;
}

/* Schedules the job's end from the work left and the present pace. */
static void aim(ds_device *device, struct sim_job *job)
{
        struct sim_share *share = &job->share;
        uint64_t ns = share->alone_ns;
        unsigned __int128 rest, stretched;

        if (device->room.demand > device->model->timing.kernel_mbps && share->demand) {
                stretched = (unsigned __int128)ns * device->room.demand / device->model->timing.kernel_mbps;
                ns = (uint64_t)DS_MIN(stretched, (unsigned __int128)TIME_MAX);
        }
        share->time_ns = ns;
        share->last_ns = device->now;
        if (share->left > SIM_SHARE_ONE / share->waves)
                share->last_ns += (uint64_t)DS_DIV_UP(
                        (unsigned __int128)(share->left - SIM_SHARE_ONE / share->waves) * ns, SIM_SHARE_ONE);
        sim_event_remove(device, &job->event);
        if (!ns)
                return;
        rest = share->left == SIM_SHARE_ONE ? ns : DS_DIV_UP((unsigned __int128)share->left * ns, SIM_SHARE_ONE);
        sim_event_push(device, &job->event, SIM_EVENT_ROOM_END, device->now + (uint64_t)rest);
}

static void aim_all(ds_device *device, const struct sim_job *but)
{
        for (size_t priority = 0; priority < DS_DEVICE_PRIORITIES; priority++)
                for (struct sim_job *job = device->room.line[priority].head; job; job = job->share.next) {
                        if (job == but || !job->share.demand)
                                continue;
                        progress(device, job);
                        aim(device, job);
                }
}

/* Changes the job's memory demand, which may change the pace of other jobs that use the memory. */
static void set_demand(ds_device *device, struct sim_job *job, uint64_t demand)
{
        const uint64_t bears = device->model->timing.kernel_mbps;
        uint64_t before = device->room.demand;

        device->room.demand += demand - job->share.demand;
        job->share.demand = demand;
        if (device->room.demand != before && DS_MAX(device->room.demand, before) > bears)
                aim_all(device, job);
}

static void expect_tail(ds_device *device, struct sim_job *holder);

/* Recomputes the job's pace after a change of its room. */
static void pace(ds_device *device, struct sim_job *job)
{
        const uint64_t bytes = job->kernel->profile->bytes;

        progress(device, job);
        if (!job->share.last_wave) {
                job->share.slots = DS_MAX(job->share.held / shape(job)->part, 1);
                job->share.waves = DS_DIV_UP(shape(job)->blocks, job->share.slots);
                job->share.alone_ns = alone_time(device, job);
        }
        if (bytes)
                set_demand(device, job, job->share.alone_ns ? bytes * 1000 / job->share.alone_ns : 0);
        aim(device, job);
        if (job->tail.index) {
                sim_event_remove(device, &job->tail);
                expect_tail(device, job);
        }
        if (job->placed_any || !job->share.alone_ns)
                return;
        job->placed_any = true;
        job->start_ns = device->now;
        if (job->deadline_ns && job->deadline_ns < UINT64_MAX - device->now)
                sim_event_push(device, &job->deadline, SIM_EVENT_DEADLINE, device->now + job->deadline_ns);
}

/* --- shortage of room --- */

/* True before the job's last wave, while some of its blocks have not begun. */
static bool has_more(const ds_device *device, const struct sim_job *job)
{
        return job->share.time_ns && !job->share.last_wave && job->share.waves > 1 && device->now < job->share.last_ns;
}

static bool before(const struct sim_job *a, const struct sim_job *b)
{
        return a->stream->priority != b->stream->priority ? a->stream->priority < b->stream->priority
                                                          : a->order < b->order;
}

/* Room that the job holds inside the other job's rung. */
static uint32_t overlap(const ds_device *device, const struct sim_job *job, const struct sim_job *other)
{
        const struct sim_rung *rung = rung_of(device, other);
        uint32_t sum = 0;

        for (uint32_t i = 0; i < rung->n_atoms; i++)
                sum += job->room_of[rung->atoms[i]];
        return sum;
}

/* Schedules the event at which a holder earlier in the queue returns the room that its last wave does not need. */
static void expect_tail(ds_device *device, struct sim_job *holder)
{
        if (!holder->tail.index && has_more(device, holder))
                sim_event_push(device, &holder->tail, SIM_EVENT_ROOM_TAIL, holder->share.last_ns);
}

/* Schedules the time at which jobs later in the queue will have freed the room that this job lacks. */
static void expect_yield(ds_device *device, struct sim_job *job, uint64_t ending, uint64_t room, uint64_t block_ns)
{
        uint64_t lacks = DS_MIN(job->share.want - job->share.held, room), ns;

        if (!ending)
                return;
        ns = DS_MAX((lacks << 20) / ending, block_ns / SIM_SHARE_PHASE);
        sim_event_push(device, &job->yield, SIM_EVENT_ROOM_YIELD, device->now + DS_MAX(ns, 1));
}

/* Finds the jobs from which a job that wants more room than it has may expect room. */
static void seek(ds_device *device, struct sim_job *job)
{
        uint64_t ending = 0, room = 0, block_ns = UINT64_MAX, n;

        for (size_t priority = 0; priority < DS_DEVICE_PRIORITIES; priority++)
                for (struct sim_job *other = device->room.line[priority].head; other; other = other->share.next) {
                        if (other == job || !other->share.held)
                                continue;
                        n = overlap(device, other, job);
                        if (!n)
                                continue;
                        if (before(other, job)) {
                                expect_tail(device, other);
                        } else if (!job->yield.index && has_more(device, other)) {
                                room += n;
                                ending += (n << 20) / block_time(other);
                                block_ns = DS_MIN(block_ns, block_time(other));
                        }
                }
        expect_yield(device, job, ending, room, block_ns);
}

/* Gives returned room to the jobs that want more, in queue order. */
static void deal(ds_device *device)
{
        struct sim_job *job;

        for (size_t priority = 0; device->room.n_short && priority < DS_DEVICE_PRIORITIES; priority++)
                for (job = device->room.line[priority].head; job; job = job->share.next) {
                        if (!is_short(job))
                                continue;
                        if (take(device, job))
                                pace(device, job);
                        if (is_short(job))
                                seek(device, job);
                        else
                                sim_event_remove(device, &job->yield);
                }
}

/* --- events --- */

static void line_insert(struct sim_room *room, struct sim_job *job)
{
        struct sim_job *after = room->line[job->stream->priority].tail;

        while (after && after->order > job->order)
                after = after->share.prev;
        job->share.prev = after;
        job->share.next = after ? after->share.next : room->line[job->stream->priority].head;
        *(job->share.next ? &job->share.next->share.prev : &room->line[job->stream->priority].tail) = job;
        *(after ? &after->share.next : &room->line[job->stream->priority].head) = job;
}

static void line_remove(struct sim_room *room, struct sim_job *job)
{
        *(job->share.next ? &job->share.next->share.prev : &room->line[job->stream->priority].tail) = job->share.prev;
        *(job->share.prev ? &job->share.prev->share.next : &room->line[job->stream->priority].head) = job->share.next;
        job->share.next = job->share.prev = NULL;
}

void sim_room_ready(ds_device *device, struct sim_job *job)
{
        const struct sim_shape *s = shape(job);
        uint64_t blocks = DS_MIN(s->blocks, (uint64_t)s->per_sm * rung_of(device, job)->info.n_sms);

        blocks = DS_MIN(blocks, bound_of(job));
        job->share = (struct sim_share){.left = SIM_SHARE_ONE, .since_ns = device->now};
        memset(job->room_of, 0, device->room.n_atoms * sizeof(job->room_of[0]));
        line_insert(&device->room, job);
        set_want(device, job, (uint32_t)blocks * s->part);
        if (take(device, job))
                pace(device, job);
        if (is_short(job))
                seek(device, job);
}

static void leave(ds_device *device, struct sim_job *job)
{
        set_want(device, job, 0);
        give_back(device, job, job->share.held);
        if (job->share.demand)
                set_demand(device, job, 0);
        line_remove(&device->room, job);
        sim_event_remove(device, &job->tail);
        sim_event_remove(device, &job->yield);
}

void sim_room_end(ds_device *device, struct sim_job *job)
{
        leave(device, job);
        sim_job_end(device, job, false);
        deal(device);
}

void sim_room_kill(ds_device *device, struct sim_job *job)
{
        leave(device, job);
        deal(device);
}

void sim_room_tail(ds_device *device, struct sim_job *job)
{
        uint64_t last = shape(job)->blocks % job->share.slots;
        uint32_t keeps = last ? (uint32_t)last * shape(job)->part : job->share.held;

        /* the job's room changed since the event was scheduled, or it lost all of it: jobs that want more room
         * search again */
        if (job->share.time_ns && !has_more(device, job)) {
                job->share.last_wave = true;
                set_want(device, job, job->share.held);
                give_back(device, job, job->share.held - keeps);
                set_want(device, job, keeps);
        }
        deal(device);
}

void sim_room_yield(ds_device *device, struct sim_job *job)
{
        const struct sim_rung *rung = rung_of(device, job);
        uint32_t n, of;

        for (size_t priority = DS_DEVICE_PRIORITIES; priority-- > 0 && is_short(job);)
                for (struct sim_job *other = device->room.line[priority].tail; other && is_short(job);
                        other = other->share.prev) {
                        if (other == job || !before(job, other) || !has_more(device, other))
                                continue;
                        of = overlap(device, other, job);
                        n = DS_MIN(job->share.want - job->share.held, of);
                        if (!n)
                                continue;
                        move_room(other->room_of, job->room_of, rung, n, of);
                        set_held(device, other, other->share.held - n);
                        set_held(device, job, job->share.held + n);
                        pace(device, other);
                        pace(device, job);
                }
        deal(device);
}
