/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that passes every call on to another one and writes the trace
 */
#include "replay/trace.h"

#include <inttypes.h>

#include "replay/json.h"
#include "sched/sched.h"
#include "util/alloc.h"
#include "util/macro.h"

#define STREAMS_PER_RUNG (DS_DEVICE_PRIORITIES * DS_DEVICE_STREAMS_PER_RUNG)

struct flight {
        const char *kernel;
        uint32_t space, stream;
        uint64_t launched_ns;
};

struct ds_replay_trace {
        const struct ds_device_ops *ops;
        ds_device *device;
        const char *const *names;
        uint32_t n_names;
        FILE *out;
        int json;
        uint64_t n_events;
        /* launches in flight, by scheduler slot, which is the low half of a token */
        struct flight flights[DS_SCHED_IN_FLIGHT_MAX];
};

static ds_replay_trace *trace_of(ds_device *device)
{
        return (ds_replay_trace *)device;
}

static const char *session_name(const ds_replay_trace *trace, uint32_t space)
{
        return space && space <= trace->n_names ? trace->names[space - 1] : "?";
}

/* --- functions that the scheduler calls --- */

static const struct ds_device_info *trace_info(ds_device *device)
{
        return trace_of(device)->ops->info(trace_of(device)->device);
}

static int trace_rung_create(ds_device *device, const struct ds_tpc_mask *mask, uint32_t *ret_rung)
{
        return trace_of(device)->ops->rung_create(trace_of(device)->device, mask, ret_rung);
}

static int trace_rung_create_coarse(ds_device *device, uint32_t groups, uint32_t *ret_rung)
{
        return trace_of(device)->ops->rung_create_coarse(trace_of(device)->device, groups, ret_rung);
}

static const struct ds_rung_info *trace_rung_info(ds_device *device, uint32_t rung)
{
        return trace_of(device)->ops->rung_info(trace_of(device)->device, rung);
}

static const struct ds_kernel_info *trace_kernel_info(const ds_device_kernel *kernel)
{
        const char *rest;

        return ds_device_find("sim:", &rest)->kernel_info(kernel);
}

static int trace_launch(ds_device *device, const struct ds_launch *launch, uint64_t token)
{
        ds_replay_trace *trace = trace_of(device);
        struct flight *flight = &trace->flights[(uint32_t)token % DS_SCHED_IN_FLIGHT_MAX];

        *flight = (struct flight){
                .kernel = trace->ops->kernel_info(launch->kernel)->name,
                .space = launch->space,
                .stream = launch->stream,
                .launched_ns = trace->ops->now(trace->device),
        };
        if (!trace->json)
                fprintf(trace->out, "launch %" PRIu64 " %s %s rung=%u priority=%u stream=%u bound=%u\n",
                        flight->launched_ns, session_name(trace, flight->space), flight->kernel,
                        flight->stream / STREAMS_PER_RUNG,
                        flight->stream % STREAMS_PER_RUNG / DS_DEVICE_STREAMS_PER_RUNG,
                        flight->stream % DS_DEVICE_STREAMS_PER_RUNG, launch->max_resident_blocks);
        return trace->ops->launch(trace->device, launch, token);
}

static int trace_copy(ds_device *device, const struct ds_copy *copy, uint64_t token)
{
        return trace_of(device)->ops->copy(trace_of(device)->device, copy, token);
}

static int trace_memset(ds_device *device, const struct ds_memset *memset, uint64_t token)
{
        return trace_of(device)->ops->memset(trace_of(device)->device, memset, token);
}

static int trace_fence(ds_device *device, uint32_t from, uint32_t to)
{
        return trace_of(device)->ops->fence(trace_of(device)->device, from, to);
}

static void trace_abort(ds_device *device, uint32_t space)
{
        trace_of(device)->ops->abort(trace_of(device)->device, space);
}

static int trace_kill(ds_device *device, uint64_t token)
{
        return trace_of(device)->ops->kill(trace_of(device)->device, token);
}

static int trace_evict(ds_device *device, uint64_t token)
{
        return trace_of(device)->ops->evict(trace_of(device)->device, token);
}

static void trace_drop(ds_device *device, uint64_t token)
{
        trace_of(device)->ops->drop(trace_of(device)->device, token);
}

const struct ds_device_ops ds_replay_trace_ops = {
        .version = DS_DEVICE_OPS_VERSION,
        .name = "trace",
        .info = trace_info,
        .rung_create = trace_rung_create,
        .rung_create_coarse = trace_rung_create_coarse,
        .rung_info = trace_rung_info,
        .kernel_info = trace_kernel_info,
        .launch = trace_launch,
        .copy = trace_copy,
        .memset = trace_memset,
        .fence = trace_fence,
        .abort = trace_abort,
        .kill = trace_kill,
        .evict = trace_evict,
        .drop = trace_drop,
};

/* --- the trace's own functions ---- */

/* Format and arguments that print nanoseconds as microseconds with three digits. */
#define US_FORMAT "%" PRIu64 ".%03u"
#define US_OF(ns) (ns) / 1000, (unsigned)((ns) % 1000)

static void json_kernel(ds_replay_trace *trace, const struct flight *flight, const struct ds_completion *completion)
{
        uint64_t ns = completion->end_ns - completion->start_ns;

        fprintf(trace->out, "%s{\"name\":", trace->n_events++ ? ",\n" : "");
        ds_replay_json_text(trace->out, flight->kernel);
        fprintf(trace->out,
                ",\"ph\":\"X\",\"pid\":0,\"tid\":%u,\"ts\":" US_FORMAT ",\"dur\":" US_FORMAT
                ",\"args\":{\"launched\":" US_FORMAT ",\"rung\":%u,\"priority\":%u}}",
                flight->space, US_OF(completion->start_ns), US_OF(ns), US_OF(flight->launched_ns),
                flight->stream / STREAMS_PER_RUNG, flight->stream % STREAMS_PER_RUNG / DS_DEVICE_STREAMS_PER_RUNG);
}

void ds_replay_trace_ended(ds_replay_trace *trace, const struct ds_completion *completions, size_t n)
{
        const struct flight *flight;

        for (size_t i = 0; i < n; i++) {
                flight = &trace->flights[(uint32_t)completions[i].token % DS_SCHED_IN_FLIGHT_MAX];
                if (trace->json)
                        json_kernel(trace, flight, &completions[i]);
                else
                        fprintf(trace->out, "end %" PRIu64 " %s %s start=%" PRIu64 "\n", completions[i].end_ns,
                                session_name(trace, flight->space), flight->kernel, completions[i].start_ns);
        }
}

ds_replay_trace *ds_replay_trace_new(const struct ds_device_ops *ops, ds_device *device, const char *const *names,
        uint32_t n_names, FILE *out, int json)
{
        ds_replay_trace *trace = ds_alloc0(1, sizeof(*trace));

        if (!trace)
                return NULL;
        trace->ops = ops;
        trace->device = device;
        trace->names = names;
        trace->n_names = n_names;
        trace->out = out;
        trace->json = json;
        if (json)
                fprintf(out, "[\n");
        for (uint32_t i = 0; json && i < n_names; i++) {
                fprintf(out, "%s{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%u,\"args\":{\"name\":",
                        trace->n_events++ ? ",\n" : "", i + 1);
                ds_replay_json_text(out, names[i]);
                fprintf(out, "}}");
        }
        return trace;
}

ds_device *ds_replay_trace_device(ds_replay_trace *trace)
{
        return (ds_device *)trace;
}

ds_replay_trace *ds_replay_trace_free(ds_replay_trace *trace)
{
        if (trace && trace->json)
                fprintf(trace->out, "\n]\n");
        return ds_free(trace);
}
