/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creation of the scheduler, and its step
 *
 * Reading order: coroutine.h (order and dependencies), launch.h (streams and completions), snapshot.h and host.h (the
 * policy). This file connects them.
 */
#include "sched/sched.h"

#include <assert.h>
#include <stdio.h>

#include "sched/internal.h"
#include "sched/slices.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"

static void sched_freep(ds_sched **sched)
{
        *sched = ds_sched_free(*sched);
}

static int sched_init_slots(ds_sched *sched)
{
        sched->slots = ds_alloc0(DS_SCHED_IN_FLIGHT_MAX, sizeof(*sched->slots));
        if (!sched->slots)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < DS_SCHED_IN_FLIGHT_MAX; i++) {
                sched->slots[i].event.kind = DETSHARE_EVENT_COMPLETE;
                sched->slots[i].next_free = i + 1 < DS_SCHED_IN_FLIGHT_MAX ? i + 1 : DS_SLOT_NONE;
        }
        return 0;
}

static int sched_init_ladder(ds_sched *sched, const struct ds_sched_config *config)
{
        struct ds_ladder *ladder = &sched->ladder;
        uint64_t begin_ns = config->wall_ns ? config->wall_ns() : 0;
        int r;

        r = ds_ladder_build(ladder, sched->ops, sched->device, &config->ladder);
        if (r || !config->wall_ns)
                return ds_error_trace(r);
        ladder->build_ns = DS_MAX(config->wall_ns() - begin_ns, (uint64_t)1);
        return 0;
}

static void sched_say_ladder(const struct ds_ladder *ladder)
{
        if (ladder->build_ns)
                ds_log(DS_LOG_INFO, "%u rungs, %u of them for large clusters: %.1f ms, %llu MiB of the device's memory",
                        ladder->n, ladder->n_coarse, (double)ladder->build_ns / 1e6,
                        (unsigned long long)(ladder->bytes / DS_MIB(1)));
}

int ds_sched_new(const struct ds_sched_config *config, ds_sched **ret)
{
        ds_cleanup(sched_freep) ds_sched *sched = NULL;
        char message[256] = "";
        int r;

        assert(config->ops->version == DS_DEVICE_OPS_VERSION && config->done);
        sched = ds_alloc0(1, sizeof(*sched));
        if (!sched)
                return ds_error_origin(-ENOMEM);
        sched->ops = config->ops;
        sched->device = config->device;
        sched->info = config->ops->info(config->device);
        sched->done = config->done;
        sched->unfold = config->unfold;
        sched->due = config->due;
        sched->memory_cap = config->memory_cap;
        sched->user = config->user;
        sched->transform = config->transform;
        sched->evict_bound_ns = config->evict_bound_ns ? config->evict_bound_ns : DS_SCHED_EVICT_BOUND_NS;
        sched->switch_event.kind = DETSHARE_EVENT_SWITCH;
        sched->timer_event.kind = DETSHARE_EVENT_TIMER;
        sched->gone_event.kind = DETSHARE_EVENT_SESSION;
        r = sched_init_ladder(sched, config);
        if (r)
                return ds_error_trace(r);
        sched->stream_load = ds_alloc0(sched->ladder.n * DS_LADDER_STREAMS, sizeof(*sched->stream_load));
        if (!sched->stream_load)
                return ds_error_origin(-ENOMEM);
        r = ds_kstat_new(DS_KSTAT_ROWS_MAX, &sched->kstat);
        if (!r)
                r = sched_init_slots(sched);
        if (!r)
                r = ds_host_init(sched, config, message, sizeof(message));
        if (r > 0)
                ds_log(DS_LOG_ERROR, "%s", message);
        if (r)
                return ds_error_trace(r);
        sched_say_ladder(&sched->ladder);
        *ret = DS_TAKE_PTR(sched);
        return 0;
}

ds_sched *ds_sched_free(ds_sched *sched)
{
        if (!sched)
                return NULL;
        assert(!sched->n_in_flight);
        while (sched->sessions)
                ds_sched_session_free(sched->sessions);
        assert(!sched->n_sessions && !sched->n_coroutines && !sched->touched && !sched->later);
        ds_host_deinit(sched);
        ds_snapshot_deinit(&sched->snapshot);
        ds_free(sched->slots);
        ds_kstat_free(sched->kstat);
        ds_seen_deinit(&sched->seen);
        ds_free(sched->stream_load);
        ds_free(sched->trace);
        return ds_free(sched);
}

int ds_sched_step(ds_sched *sched, uint64_t now_ns)
{
        int r;

        ds_sched_now(sched, now_ns);
        ds_sched_settle(sched);
        r = sched->error;
        if (!r)
                r = ds_slices_step(sched);
        if (!r)
                r = ds_host_run(sched, now_ns);
        if (!r)
                r = ds_slices_step(sched);
        ds_sched_settle(sched);
        return ds_error_trace(r);
}

int ds_sched_behind(const ds_sched *sched)
{
        return sched->events != NULL;
}

uint64_t ds_sched_next_timer(const ds_sched *sched)
{
        if (sched->events || sched->touched || sched->later)
                return sched->now_ns;
        return DS_MIN(sched->host.timer_ns, sched->host.stall_ns);
}

void ds_sched_stats(const ds_sched *sched, struct ds_sched_stats *stats)
{
        *stats = sched->stats;
        stats->in_flight = sched->n_in_flight;
        stats->queued = sched->n_ops - sched->n_in_flight;
        stats->coroutines = sched->n_coroutines;
        stats->sessions = sched->n_sessions;
        stats->n_rungs = sched->ladder.n;
        stats->n_coarse_rungs = sched->ladder.n_coarse;
        stats->ladder_bytes = sched->ladder.bytes;
        stats->ladder_ns = sched->ladder.build_ns;
        snprintf(stats->policy, sizeof(stats->policy), "%s", sched->host.plugin->policy->name);
}
