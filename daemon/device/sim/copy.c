/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Duration of copies and memsets
 *
 * Each direction (to the device, from it, on the device, on the host) does one transfer at a time, in order of arrival.
 * A transfer over the host link takes the link's time; its small use of VRAM bandwidth disturbs no kernel. A transfer
 * on the device uses as much L2 and VRAM bandwidth as a big kernel. So it is modelled as one block on an SM of its own:
 * kernels slow it, and it slows them (share.c). Alone it takes the model's time, and it never uses more than all of
 * VRAM's bandwidth.
 *
 * The cost of a copy follows from its size. So its time can pass before its bytes are moved: the clock may be as far in
 * the copy's time as the execution is in its bytes, and the copy ends when it has been executed. So sessions with much
 * shorter work wait for a short part of a large copy, not for all of it. No time on the clock depends on that. A copy
 * so large that it could be put off (internal.h) waits for its execution at its begin.
 */
#include <assert.h>

#include "device/sim/internal.h"

static uint64_t job_bytes(const struct sim_job *job)
{
        if (job->kind == SIM_JOB_COPY)
                return job->copy.width * job->copy.height;
        return job->memset.width * job->memset.height * job->memset.element_size;
}

/* Units of the whole copy or memset, as exec.c counts them. */
static uint64_t job_units(const struct sim_job *job)
{
        const bool copy = job->kind == SIM_JOB_COPY;
        const uint64_t height = copy ? job->copy.height : job->memset.height;
        const uint64_t width = copy ? job->copy.width : job->memset.width * job->memset.element_size;
        uint64_t units;

        return __builtin_mul_overflow(height, width / SIM_UNIT_BYTES + 1, &units) ? UINT64_MAX : units;
}

static uint64_t transfer_ns(const ds_device *device, const struct sim_job *job, enum ds_copy_kind engine)
{
        const struct sim_timing *t = &device->model->timing;
        const uint32_t rates[_DS_COPY_MAX] = {
                [DS_COPY_HTOD] = t->h2d_mbps,
                [DS_COPY_DTOH] = t->d2h_mbps,
                [DS_COPY_DTOD] = job->kind == SIM_JOB_COPY ? t->d2d_mbps : t->memset_mbps,
                [DS_COPY_HTOH] = t->h2h_mbps,
        };

        return t->copy_ns + (uint64_t)((unsigned __int128)job_bytes(job) * 1000 / rates[engine]);
}

/* --- copies whose time passes before their execution -------------------------------------------------------------- */

bool sim_copy_is_early(const struct sim_job *job)
{
        return job->kind != SIM_JOB_KERNEL && job_units(job) <= SIM_PATIENCE;
}

/* Begins a copy whose time passes before its execution: from start_ns, for move_ns or more. */
static void copy_moves(ds_device *device, struct sim_job *job, uint64_t move_ns)
{
        if (job->effect == SIM_EFFECT_DONE)
                return;
        assert(!job->moving);
        job->moving = true;
        job->move_ns = move_ns;
        job->moving_next = device->moving;
        device->moving = job;
        if (job->effect == SIM_EFFECT_SUBMITTED)
                sim_pool_promote(device, job);
}

void sim_copy_forget(ds_device *device, struct sim_job *job)
{
        struct sim_job **at = &device->moving;

        if (!job->moving)
                return;
        while (*at != job)
                at = &(*at)->moving_next;
        *at = job->moving_next;
        job->moving = false;
}

/* Latest time to which the clock may advance after `units` executed units: always before the copy's end, however the
 * division rounds. */
static uint64_t moved_until(const struct sim_job *job, uint64_t units)
{
        const uint64_t executed = DS_MIN(atomic_load(&job->executed), units);

        return job->start_ns + (uint64_t)((unsigned __int128)(job->move_ns - job->move_ns / 64) * executed / units);
}

/* Whether the clock may advance to `time`. Sets the progress at which the thread must wake the owner, then checks
 * once more, so that one of the two sees the other's write. */
static bool copy_allows(struct sim_job *job, uint64_t time)
{
        const uint64_t units = job_units(job), most = job->move_ns - job->move_ns / 64;
        uint64_t wake = UINT64_MAX;

        if (moved_until(job, units) >= time)
                return true;
        if (most && time - job->start_ns < most)
                wake = (uint64_t)((unsigned __int128)(time - job->start_ns) * units / most) + 1;
        atomic_store(&job->wake, wake);
        return moved_until(job, units) >= time;
}

bool sim_copy_allow(ds_device *device, uint64_t time)
{
        struct sim_job *job, *next;
        bool allowed = true;

        for (job = device->moving; job; job = next) {
                next = job->moving_next;
                if (job->effect == SIM_EFFECT_DONE)
                        sim_copy_forget(device, job);
                else if (job->start_ns < time)
                        allowed &= copy_allows(job, time);
        }
        return allowed;
}

/* --- begin and end ------------------------------------------------------------------------------------------------ */

/* Starts the first queued transfer on the device, if none is running. */
static void copy_next(ds_device *device)
{
        const struct sim_timing *t = &device->model->timing;
        struct sim_job *job = device->copies.head;
        struct sim_run run = {.n = 1};
        bool writes_only;
        uint64_t rate;

        if (device->copying || !job)
                return;
        device->copies.head = job->ready_next;
        if (!job->ready_next)
                device->copies.tail = NULL;
        job->ready_next = NULL;
        device->copying = job;
        job->start_ns = device->now;
        run.latency_ns = run.stall_ns = transfer_ns(device, job, DS_COPY_DTOD);
        writes_only = job->kind == SIM_JOB_MEMSET;
        run.bytes = job_bytes(job) * (writes_only ? 1 : 2);
        rate = DS_MAX(run.bytes * 1000 / run.latency_ns, 1);
        job->traffic.vram = writes_only ? t->write_cost : (SIM_LOAD_ONE + t->write_cost) / 2;
        job->traffic.vram = (uint32_t)DS_MIN(job->traffic.vram, t->kernel_mbps * UINT64_C(1024) / rate);
        sim_blocks_apart(device, job, &run);
        copy_moves(device, job, run.latency_ns);
}

void sim_copy_begin(ds_device *device, struct sim_job *job)
{
        enum ds_copy_kind engine = job->kind == SIM_JOB_COPY ? job->copy.kind : DS_COPY_DTOD;
        uint64_t duration;

        if (engine == DS_COPY_DTOD) {
                sim_line_push(&device->copies, job);
                copy_next(device);
                return;
        }
        duration = transfer_ns(device, job, engine);
        job->start_ns = DS_MAX(device->now, device->engine_ns[engine]);
        device->engine_ns[engine] = job->start_ns + duration;
        sim_event_push(device, &job->event, SIM_EVENT_END, job->start_ns + duration);
        copy_moves(device, job, duration);
}

void sim_copy_done(ds_device *device, struct sim_job *job)
{
        assert(device->copying == job);
        device->copying = NULL;
        copy_next(device);
}

void sim_copy_kill(ds_device *device, struct sim_job *job)
{
        struct sim_job **at = &device->copies.head, *before = NULL;

        sim_copy_forget(device, job);
        if (device->copying == job) {
                sim_blocks_kill(device, job);
                sim_copy_done(device, job);
                return;
        }
        for (; *at && *at != job; at = &(*at)->ready_next)
                before = *at;
        if (!*at)
                return; /* a transfer over the host link is not in this list, and its event is already removed */
        *at = job->ready_next;
        if (device->copies.tail == job)
                device->copies.tail = before;
        job->ready_next = NULL;
}
