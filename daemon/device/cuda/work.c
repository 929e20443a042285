/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work: launches, copies, memsets, fences
 *
 * A submission is checked completely before it is queued, because held work (hold.c) goes to the driver only later.
 * Then it is given to the GPU, or held, and in both cases completes exactly once. A refusal by the driver is returned
 * at once.
 *
 * No call here waits for the GPU. Copies are from and to registered memory only, which the driver queues (3 to 20 us a
 * call). From host to host it would wait, so those copies go through device memory (staging.c). Whether an address is
 * the host's or the device's is looked up in the space's mappings, not taken from the caller.
 *
 * A limit on resident blocks is enforced by shared memory that the kernel does not need (device/bound.h). Not
 * supported: running work cannot be aborted (except workers of a persistent form) or killed, and the limit of a running
 * kernel cannot be changed.
 */
#include <assert.h>

#include "device/bound.h"
#include "device/cluster.h"
#include "device/cuda/internal.h"
#include "device/cuda/staging.h"
#include "util/error.h"

#define LATE_MAX 16      /* most jobs of a stream whose end the GPU reports together */
#define LATE_IDLE 4      /* the same while no report is pending */
#define LATE_NS 3000     /* time after a job within which the job that follows it is expected */
#define WORK_EVENTS 1024 /* events made before serving; more are made when more work is in flight */
#define GRID_X_MAX 2147483647u
#define GRID_YZ_MAX 65535u
#define BLOCK_XY_MAX 1024u
#define BLOCK_Z_MAX 64u
#define BLOCK_THREADS_MAX 1024u
#define PARAMS_MAX 32764u

/* Adds events to the pool. 0 or -ENOMEM. */
static int events_make(ds_device *device, int timed, size_t count)
{
        CUevent events[WORK_EVENTS];
        size_t n;

        assert(count <= WORK_EVENTS);
        for (n = 0; n < count; n++) {
                events[n] = cuda_event_take(device, timed);
                if (!events[n])
                        break;
        }
        for (size_t i = 0; i < n; i++)
                cuda_event_give(device, timed, events[i]);
        return n < count ? ds_error_origin(-ENOMEM) : 0;
}

int cuda_work_init(ds_device *device)
{
        int r;

        r = cuda_counters_init(device);
        if (!r)
                r = cuda_forms_init(device, cuda_counters_more(device));
        if (!r)
                r = events_make(device, 1, WORK_EVENTS);
        if (!r && !device->counters)
                r = events_make(device, 0, WORK_EVENTS);
        if (r)
                return ds_error_trace(r);
        device->fence = cuda_event_take(device, 0);
        if (!device->fence)
                return ds_error_origin(-ENOMEM);
        r = cuda_clock_init(device);
        return ds_error_trace(r ? r : cuda_launcher_init(device));
}

void cuda_work_free(ds_device *device)
{
        struct cuda_stream *stream, *next;
        struct cuda_job *job;

        cuda_launcher_free(device);
        cuda_hold_free(device);
        DL_FOREACH_SAFE2(device->busy, stream, next, busy_next)
        {
                while ((job = stream->head)) {
                        stream->head = job->next;
                        cuda_job_free(device, job);
                }
        }
        device->busy = NULL;
        assert(!device->n_jobs);
        while ((job = device->free_jobs)) {
                device->free_jobs = job->next;
                ds_free(job);
        }
        cuda_forms_free(device);
        cuda_staging_free(device);
        cuda_clock_free(device);
        if (device->fence)
                cuda_event_give(device, 0, DS_TAKE_PTR(device->fence));
        cuda_events_free(device);
        cuda_counters_free(device);
}

/* --- submission to the GPU --- */

/* Result to return for a driver call on a stream: contract codes stay, a lost context gives the error of all other
 * work. */
static int work_result(ds_device *device, CUresult result)
{
        if (!result)
                return 0;
        if (cuda_fault_ends(result)) {
                cuda_fault_note(device, result);
                return DS_CUDA_LAUNCH_FAILED;
        }
        return (int)result;
}

/* Called before the driver calls of a job: makes the stream wait for memory that is being cleared, and takes the
 * event that the job needs. */
static int job_begin(ds_device *device, struct cuda_stream *stream, struct cuda_job *job, uint32_t timed)
{
        int r;

        if (device->lost)
                return DS_CUDA_LAUNCH_FAILED;
        r = cuda_memory_order(device, stream, job->space);
        if (r)
                return device->lost ? DS_CUDA_LAUNCH_FAILED : ds_error_trace(r);
        job->timed = timed != 0;
        if (!timed && device->counters)
                return 0;
        job->event = cuda_event_take(device, job->timed);
        if (!job->event)
                return device->lost ? DS_CUDA_LAUNCH_FAILED : ds_error_origin(-ENOMEM);
        return 0;
}

/*
 * A report of a job's end costs the GPU 1 to 2 us between two kernels, and the caller 1 us. While an earlier job of the
 * stream still has to be reported, the jobs behind it need no report of their own: poll requests one for the rest when
 * that job has ended. Where the GPU has ended every job before the next one comes, each fourth job is reported. The GPU
 * reports only jobs that it has received, so only writes that were requested count here.
 */
static int job_may_be_late(
        const ds_device *device, const struct cuda_stream *stream, const struct cuda_job *job, int tell)
{
        uint64_t n = stream->issued - stream->marked;

        if (tell != DS_TELL_LATE || !device->counters || job->event)
                return 0;
        return n + 1 < LATE_IDLE || (n < LATE_MAX && cuda_counter(device, stream) < stream->asked);
}

/* Submits, behind the job, the writes that report its end and its time. */
static CUresult job_mark(ds_device *device, struct cuda_stream *stream, struct cuda_job *job)
{
        CUresult result = CUDA_SUCCESS;

        job->alone = stream->marked == stream->issued;
        if (job->event)
                result = CU(device, cuEventRecord)(job->event, stream->stream);
        if (!result && device->counters)
                result = cuda_counter_submit(device, stream, stream->issued + 1);
        job->marked = 1;
        return result;
}

/* Makes the GPU report the end of all jobs of the stream so far. */
static CUresult stream_mark(ds_device *device, struct cuda_stream *stream)
{
        CUresult result = CUDA_SUCCESS;

        if (stream->marked < stream->issued && device->counters)
                result = cuda_counter_submit(device, stream, stream->issued);
        if (!result)
                stream->marked = stream->issued;
        return result;
}

void cuda_stream_tell(ds_device *device, struct cuda_stream *stream, uint64_t now_ns)
{
        CUresult result;

        if (stream->marked == stream->issued || device->lost || cuda_counter(device, stream) < stream->asked ||
                cuda_launcher_has(device, stream, stream->passed))
                return;
        if (stream->issued - stream->marked < LATE_IDLE && stream->tail && now_ns < stream->tail->submit_ns + LATE_NS)
                return;
        result = stream_mark(device, stream);
        if (result)
                cuda_fault_note(device, result);
}

/* Called when a job has not gone to the GPU. */
static int job_refused(ds_device *device, struct cuda_job *job, CUresult result)
{
        if (job->event)
                cuda_event_give(device, job->timed, DS_TAKE_PTR(job->event));
        if (job->begun)
                cuda_event_give(device, 1, DS_TAKE_PTR(job->begun));
        return work_result(device, result);
}

/* Called when a job has gone to the GPU, or to the launcher. */
static void job_given(ds_device *device, struct cuda_stream *stream, struct cuda_job *job)
{
        job->given = 1;
        job->entries += (job->event ? 1 : 0) + (job->begun ? 1 : 0) + (device->counters ? 1 : 0);
        job->submit_ns = cuda_now(device);
        cuda_stream_push(device, stream, job);
        if (job->marked)
                stream->marked = job->number;
}

/* Called after the driver calls of a job. */
static int job_end(ds_device *device, struct cuda_stream *stream, struct cuda_job *job, CUresult result)
{
        CUresult marked = result ? result : job_mark(device, stream, job);

        /* the driver took the job and has lost the context since, so the job counts as submitted and may be the
         * cause */
        if (!result && cuda_fault_ends(marked))
                result = CUDA_SUCCESS;
        else
                result = marked;
        if (result)
                return job_refused(device, job, result);
        job_given(device, stream, job);
        if (marked)
                cuda_fault_note(device, marked);
        return 0;
}

void cuda_issue_nothing(ds_device *device, struct cuda_stream *stream, struct cuda_job *job, int32_t status)
{
        assert(!job->given && status);
        job->status = status;
        job->entries = 0;
        job->submit_ns = cuda_now(device);
        /* if the GPU reports all earlier jobs, this one needs no report: the GPU never receives it */
        stream->marked += stream->marked == stream->issued;
        cuda_stream_push(device, stream, job);
}

/* Dynamic shared memory of a launch, bytes: the requested size; or with a limit on resident blocks, so much that no
 * more blocks fit. */
static uint32_t launch_shared(const ds_device *device, uint32_t rung, const struct ds_launch *launch)
{
        const struct ds_kernel_info *info = cuda_kernel_info(launch->kernel);
        uint32_t bound = launch->max_resident_blocks;

        if (!bound || launch->cooperative || info->cooperative ||
                !ds_bound_may_pad(&device->info, info, ds_device_cluster_blocks(info, launch)))
                return launch->shared_bytes;
        return ds_bound_shared(
                &device->info, info, launch->shared_bytes, ds_bound_share(bound, device->rungs[rung]->info.n_sms));
}

/* The driver's configuration of a launch; attributes: space for two launch attributes, cluster size and cooperative
 * launch. */
static CUlaunchConfig launch_config(
        const struct ds_launch *launch, CUstream stream, CUlaunchAttribute attributes[CUDA_CALL_ATTRIBUTES])
{
        uint32_t n = 0;

        if (launch->cluster[0])
                attributes[n++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                        .value.clusterDim = {launch->cluster[0], launch->cluster[1], launch->cluster[2]}};
        if (launch->cooperative)
                attributes[n++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
        return (CUlaunchConfig){
                .gridDimX = launch->grid[0],
                .gridDimY = launch->grid[1],
                .gridDimZ = launch->grid[2],
                .blockDimX = launch->block[0],
                .blockDimY = launch->block[1],
                .blockDimZ = launch->block[2],
                .sharedMemBytes = launch->shared_bytes,
                .hStream = stream,
                .attrs = attributes,
                .numAttrs = n,
        };
}

CUresult cuda_call_make(const struct ds_cuda_driver *driver, const struct cuda_call *call, int report, int *ret_taken)
{
        size_t size = call->size;
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)call->params, CU_LAUNCH_PARAM_BUFFER_SIZE,
                &size, CU_LAUNCH_PARAM_END};
        CUstream stream = call->config.hStream;
        CUresult result = CUDA_SUCCESS, told = CUDA_SUCCESS;

        if (call->before)
                result = driver->cuStreamWriteValue64_fn(
                        stream, (uintptr_t)call->counter, call->before, CU_STREAM_WRITE_VALUE_DEFAULT);
        if (!result && call->begun)
                result = driver->cuEventRecord_fn(call->begun, stream);
        if (!result)
                result = driver->cuLaunchKernelEx_fn(&call->config, call->function, NULL, size ? extra : NULL);
        *ret_taken = !result;
        if (!result && call->ended)
                result = driver->cuEventRecord_fn(call->ended, stream);
        if (call->behind && (!result || report))
                told = driver->cuStreamWriteValue64_fn(
                        stream, (uintptr_t)call->counter, call->behind, CU_STREAM_WRITE_VALUE_DEFAULT);
        return result ? result : told;
}

/* Plans the events and reports of a launch, see job_mark() and stream_mark(). */
static void call_plan(ds_device *device, struct cuda_stream *stream, struct cuda_job *job,
        const struct ds_launch *launch, struct cuda_call *call)
{
        if (launch->tell == DS_TELL_EXACT) {
                if (stream->marked < stream->issued && device->counters)
                        call->before = stream->asked = stream->issued;
                stream->marked = stream->issued;
        }
        /* if no event can be made, the job's start is not exact */
        if (launch->tell == DS_TELL_EXACT && launch->timed)
                call->begun = job->begun = cuda_event_take(device, 1);
        job->alone = stream->marked == stream->issued;
        if (job_may_be_late(device, stream, job, (int)launch->tell))
                return;
        job->marked = 1;
        call->ended = job->event;
        call->behind = device->counters ? stream->issued + 1 : 0;
}

/* Makes the calls of a launch, or passes them on. */
static int call_issue(ds_device *device, struct cuda_stream *stream, struct cuda_job *job,
        const struct ds_launch *launch, const struct cuda_call *call)
{
        int plain = launch->form == DS_PTX_FORM_NATIVE && !cuda_kernel_prints(launch->kernel);
        CUresult result;
        int taken = 1;

        if (plain && cuda_launcher_takes(device, stream, call, launch->tell == DS_TELL_LATE)) {
                cuda_launcher_pass(device, stream, job, call);
                /* the loss was noticed after the check in job_begin(), when this job was not yet among those that end */
                job->status = device->lost ? DS_CUDA_LAUNCH_FAILED : 0;
                result = CUDA_SUCCESS;
        } else {
                cuda_launcher_settle(device, stream);
                result = cuda_call_make(&device->driver, call, 0, &taken);
        }
        /* the driver took the job and has lost the context since, so the job counts as submitted and may be the
         * cause */
        if (result && !(taken && cuda_fault_ends(result)))
                return job_refused(device, job, result);
        if (call->behind)
                stream->asked = call->behind;
        job_given(device, stream, job);
        if (result)
                cuda_fault_note(device, result);
        return 0;
}

int cuda_issue_launch(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_launch *launch)
{
        CUlaunchAttribute attributes[CUDA_CALL_ATTRIBUTES];
        struct cuda_call call = {
                .function = cuda_kernel_function(launch->kernel),
                .config = launch_config(launch, stream->stream, attributes),
                .params = launch->params,
                /* size that the kernel expects; a longer buffer from the caller has padding at its end */
                .size = cuda_kernel_info(launch->kernel)->params_size,
        };
        int r;

        call.config.sharedMemBytes = launch_shared(device, stream->id / CUDA_STREAMS_PER_RUNG, launch);
        r = job_begin(device, stream, job, launch->timed);
        if (r)
                return r;
        if (device->counters)
                call.counter = cuda_counter_of(device, stream);
        call_plan(device, stream, job, launch, &call);
        r = call_issue(device, stream, job, launch, &call);
        if (!r && cuda_kernel_prints(launch->kernel)) {
                job->prints = 1;
                cuda_output_launched(device, launch->space);
        }
        return r;
}

static CUresult copy_rows(ds_device *device, CUstream stream, const struct ds_copy *copy)
{
        int to_host = copy->kind == DS_COPY_DTOH, from_host = copy->kind == DS_COPY_HTOD;
        CUDA_MEMCPY2D rows = {
                .srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                .dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                .srcPitch = copy->src_pitch,
                .dstPitch = copy->dst_pitch,
                .WidthInBytes = copy->width,
                .Height = copy->height,
        };

        if (from_host)
                rows.srcHost = (const void *)(uintptr_t)copy->src;
        else
                rows.srcDevice = copy->src;
        if (to_host)
                rows.dstHost = (void *)(uintptr_t)copy->dst;
        else
                rows.dstDevice = copy->dst;
        return CU(device, cuMemcpy2DAsync)(&rows, stream);
}

CUresult cuda_copy_call(ds_device *device, CUstream stream, const struct ds_copy *copy)
{
        uint64_t size = copy->width * copy->height;

        if (copy->height > 1 && (copy->dst_pitch != copy->width || copy->src_pitch != copy->width))
                return copy_rows(device, stream, copy);
        switch (copy->kind) {
        case DS_COPY_HTOD:
                return CU(device, cuMemcpyHtoDAsync)(copy->dst, (const void *)(uintptr_t)copy->src, size, stream);
        case DS_COPY_DTOH:
                return CU(device, cuMemcpyDtoHAsync)((void *)(uintptr_t)copy->dst, copy->src, size, stream);
        case DS_COPY_DTOD:
                return CU(device, cuMemcpyDtoDAsync)(copy->dst, copy->src, size, stream);
        case DS_COPY_HTOH:
        case _DS_COPY_MAX:
                break;
        }
        return CUDA_ERROR_INVALID_VALUE;
}

int cuda_issue_copy(ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_copy *copy)
{
        CUresult result = CUDA_SUCCESS;
        int r;

        cuda_launcher_settle(device, stream);
        r = job_begin(device, stream, job, copy->timed);
        if (r)
                return r;
        if (copy->kind == DS_COPY_HTOH && copy->width && copy->height)
                result = cuda_staging_copy(device, stream, copy, &job->entries);
        else if (copy->width && copy->height)
                result = cuda_copy_call(device, stream->stream, copy);
        return job_end(device, stream, job, result);
}

static CUresult memset_call(ds_device *device, CUstream stream, const struct ds_memset *m)
{
        CUdeviceptr dst = m->dst;

        if (m->element_size == 8)
                return CU(device, cuStreamWriteValue64)(stream, dst, m->value, CU_STREAM_WRITE_VALUE_DEFAULT);
        if (m->height == 1 || m->pitch == m->width * m->element_size) {
                uint64_t n = m->width * m->height;

                if (m->element_size == 1)
                        return CU(device, cuMemsetD8Async)(dst, (unsigned char)m->value, n, stream);
                if (m->element_size == 2)
                        return CU(device, cuMemsetD16Async)(dst, (unsigned short)m->value, n, stream);
                return CU(device, cuMemsetD32Async)(dst, (unsigned int)m->value, n, stream);
        }
        if (m->element_size == 1)
                return CU(device, cuMemsetD2D8Async)(
                        dst, m->pitch, (unsigned char)m->value, m->width, m->height, stream);
        if (m->element_size == 2)
                return CU(device, cuMemsetD2D16Async)(
                        dst, m->pitch, (unsigned short)m->value, m->width, m->height, stream);
        return CU(device, cuMemsetD2D32Async)(dst, m->pitch, (unsigned int)m->value, m->width, m->height, stream);
}

int cuda_issue_memset(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_memset *memset)
{
        CUresult result = CUDA_SUCCESS;
        int r;

        cuda_launcher_settle(device, stream);
        r = job_begin(device, stream, job, memset->timed);
        if (r)
                return r;
        if (memset->width && memset->height)
                result = memset_call(device, stream->stream, memset);
        return job_end(device, stream, job, result);
}

int cuda_issue_graph(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_graph_launch *launch)
{
        const uint32_t rung = stream->id / CUDA_STREAMS_PER_RUNG;
        CUgraphExec exec = cuda_graph_exec(launch->graph, rung);
        CUresult result = CUDA_SUCCESS;
        int r;

        if (!exec) /* the launch was held, and the instance went after an error of an earlier one */
                return DS_CUDA_INVALID_HANDLE;
        cuda_launcher_settle(device, stream);
        r = job_begin(device, stream, job, launch->timed);
        if (!r && launch->params)
                result = cuda_graph_set_params(device, launch->graph, rung, launch->params);
        if (!r && !result)
                result = CU(device, cuGraphLaunch)(exec, stream->stream);
        if (!r)
                r = job_end(device, stream, job, result);
        if (!r)
                cuda_graph_given(launch->graph);
        return r;
}

/* Makes `to` wait for `from`. A wait refers to its event's last record, so one event serves all fences. All work
 * that a fence waits for has been submitted. */
int cuda_issue_fence(ds_device *device, struct cuda_stream *from, uint64_t from_seq, struct cuda_stream *to)
{
        CUresult result;

        assert(from->issued >= from_seq);
        if (from->ended >= from_seq || device->lost)
                return 0;
        to->after = from;
        to->after_seq = from_seq;
        if (cuda_counter(device, from) >= from_seq)
                return 0;
        cuda_launcher_settle(device, from);
        cuda_launcher_settle(device, to);
        result = CU(device, cuEventRecord)(device->fence, from->stream);
        if (!result)
                result = CU(device, cuStreamWaitEvent)(to->stream, device->fence, 0);
        if (result && cuda_fault_ends(result)) {
                cuda_fault_note(device, result); /* the owner learns of the lost context from lost() */
                return 0;
        }
        return result ? ds_cuda_failed(device, result, "a fence") : 0;
}

/* --- checks --- */

int cuda_launch_check(const ds_device *device, const struct ds_launch *l, uint32_t rung)
{
        const struct ds_kernel_info *info = cuda_kernel_info(l->kernel);
        uint64_t threads = (uint64_t)l->block[0] * l->block[1];
        uint32_t shared_max = (uint32_t)device->info.attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN];

        if (!cuda_kernel_loaded(l->kernel))
                return DS_CUDA_INVALID_HANDLE;
        if (!l->grid[0] || !l->grid[1] || !l->grid[2] || l->grid[0] > GRID_X_MAX || l->grid[1] > GRID_YZ_MAX ||
                l->grid[2] > GRID_YZ_MAX)
                return DS_CUDA_INVALID_VALUE;
        if (!l->block[0] || !l->block[1] || !l->block[2] || l->block[0] > BLOCK_XY_MAX || l->block[1] > BLOCK_XY_MAX ||
                l->block[2] > BLOCK_Z_MAX || threads * l->block[2] > BLOCK_THREADS_MAX)
                return DS_CUDA_INVALID_VALUE;
        if (l->shared_bytes > shared_max || info->static_shared > shared_max - l->shared_bytes)
                return DS_CUDA_INVALID_VALUE;
        if (l->params_size < info->params_size || l->params_size > PARAMS_MAX || (l->params_size && !l->params))
                return DS_CUDA_INVALID_VALUE;
        if (threads * l->block[2] > info->max_threads)
                return DS_CUDA_LAUNCH_OUT_OF_RESOURCES;
        if (device->info.attributes[CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH])
                return ds_device_cluster_blocks(info, l) > device->rungs[rung]->info.cluster_max
                               ? DS_CUDA_INVALID_CLUSTER_SIZE
                               : 0;
        return l->cluster[0] * l->cluster[1] * l->cluster[2] > 1 ? DS_CUDA_NOT_SUPPORTED : 0;
}

static const struct cuda_mapping *mapping_at(const struct cuda_space *space, uint64_t va)
{
        const struct cuda_mapping *mapping;

        DL_FOREACH(space->mappings, mapping)
        {
                if (va >= mapping->va && va - mapping->va < mapping->size)
                        return mapping;
        }
        return NULL;
}

/* 1: all of the range is mapped in the space, and of one kind; *ret_host: 1 host memory, 0 device memory. */
static int space_covers(ds_device *device, const struct cuda_space *space, uint64_t va, uint64_t size, int *ret_host)
{
        const struct cuda_mapping *mapping = mapping_at(space, va);
        uint64_t part;

        if (!mapping) {
                *ret_host = 0;
                return cuda_modules_cover(device, space->id, va, size);
        }
        *ret_host = mapping->host;
        for (; size; va += part, size -= part) {
                if (!mapping || mapping->host != *ret_host)
                        return 0;
                part = DS_MIN(size, mapping->va + mapping->size - va);
                if (part < size)
                        mapping = mapping_at(space, va + part);
        }
        return 1;
}

/* Checks rows of width bytes, pitch apart: all lie in the space, and no address overflows. */
static int rows_ok(ds_device *device, const struct cuda_space *space, uint64_t va, uint64_t pitch, uint64_t width,
        uint64_t height, int *ret_host)
{
        uint64_t extent;

        if (height > 1 && pitch < width)
                return 0;
        if (__builtin_mul_overflow(height - 1, pitch, &extent) || __builtin_add_overflow(extent, width, &extent))
                return 0;
        return space_covers(device, space, va, extent, ret_host);
}

int cuda_copy_check(ds_device *device, const struct cuda_space *space, struct ds_copy *copy)
{
        int to_host, from_host;

        if ((uint32_t)copy->kind >= _DS_COPY_MAX)
                return DS_CUDA_INVALID_VALUE;
        if (!copy->width || !copy->height)
                return 0;
        if (!rows_ok(device, space, copy->dst, copy->dst_pitch, copy->width, copy->height, &to_host) ||
                !rows_ok(device, space, copy->src, copy->src_pitch, copy->width, copy->height, &from_host))
                return DS_CUDA_INVALID_VALUE;
        copy->kind = to_host ? (from_host ? DS_COPY_HTOH : DS_COPY_DTOH) : (from_host ? DS_COPY_HTOD : DS_COPY_DTOD);
        return 0;
}

int cuda_memset_check(ds_device *device, const struct cuda_space *space, const struct ds_memset *memset)
{
        uint32_t size = memset->element_size;
        uint64_t width;
        int host;

        if ((size != 1 && size != 2 && size != 4 && !(size == 8 && memset->width == 1 && memset->height == 1)) ||
                memset->dst % size || memset->pitch % size || __builtin_mul_overflow(memset->width, size, &width))
                return DS_CUDA_INVALID_VALUE;
        if (!width || !memset->height)
                return 0;
        return rows_ok(device, space, memset->dst, memset->pitch, width, memset->height, &host) ? 0
                                                                                                : DS_CUDA_INVALID_VALUE;
}

/* --- submission --- */

/* Ends a submission; r: result of submitting the job to the GPU or holding it back. */
static int submitted(ds_device *device, struct cuda_stream *stream, struct cuda_job *job, int r)
{
        if (!r)
                stream->entered++;
        else
                cuda_job_free(device, job);
        return r;
}

/* plain: the launch that goes to the GPU; form: its kernel in the persistent form, else NULL */
static int launch_plain(ds_device *device, const struct ds_launch *launch, const struct ds_launch *plain,
        struct cuda_form *form, uint64_t token)
{
        struct cuda_space *space = cuda_space_find(device, launch->space);
        struct cuda_stream *stream = cuda_stream_at(device, launch->stream);
        struct cuda_job *job;
        int r, hold;

        r = cuda_launch_check(device, plain, stream->id / CUDA_STREAMS_PER_RUNG);
        if (r)
                return r;
        job = cuda_job_new(device, CUDA_JOB_LAUNCH, space, token);
        if (!job)
                return ds_error_origin(-ENOMEM);
        job->kernel = launch->kernel;
        cuda_kernel_get(job->kernel);
        for (int i = 0; i < 3; i++) {
                job->grid[i] = launch->grid[i];
                job->block[i] = launch->block[i];
        }
        job->deadline_ns = launch->deadline_ns;
        hold = cuda_hold_must(stream) ||
               (cuda_kernel_prints(launch->kernel) && !cuda_output_may_launch(device, launch->space));
        r = hold ? cuda_hold_launch(device, stream, job, plain) : cuda_issue_launch(device, stream, job, plain);
        if (!r && form)
                cuda_form_launched(form, job);
        return submitted(device, stream, job, r);
}

static int launch_form(ds_device *device, const struct ds_launch *launch, uint32_t rung, uint64_t token)
{
        struct cuda_form_launch made;
        int r = cuda_form_make(device, launch, rung, &made);

        if (r)
                return r;
        r = launch_plain(device, launch, &made.plain, made.form, token);
        if (r && made.form)
                cuda_form_refused(device, made.form, launch);
        return r;
}

int cuda_launch(ds_device *device, const struct ds_launch *launch, uint64_t token)
{
        const struct cuda_stream *stream = cuda_stream_at(device, launch->stream);

        if (!cuda_space_find(device, launch->space) || !stream)
                return ds_error_origin(-ENOENT);
        if (!launch->kernel || cuda_kernel_space(launch->kernel) != launch->space)
                return DS_CUDA_INVALID_HANDLE;
        if (device->lost)
                return DS_CUDA_LAUNCH_FAILED;
        if (launch->form != DS_PTX_FORM_NATIVE)
                return launch_form(device, launch, stream->id / CUDA_STREAMS_PER_RUNG, token);
        return launch_plain(device, launch, launch, NULL, token);
}

int cuda_copy(ds_device *device, const struct ds_copy *copy, uint64_t token)
{
        struct cuda_space *space = cuda_space_find(device, copy->space);
        struct cuda_stream *stream = cuda_stream_at(device, copy->stream);
        struct ds_copy known = *copy;
        struct cuda_job *job;
        int r, hold;

        if (!space || !stream)
                return ds_error_origin(-ENOENT);
        if (device->lost)
                return DS_CUDA_LAUNCH_FAILED;
        r = cuda_copy_check(device, space, &known);
        if (r)
                return r;
        job = cuda_job_new(device, CUDA_JOB_COPY, space, token);
        if (!job)
                return ds_error_origin(-ENOMEM);
        hold = cuda_hold_must(stream) || (stream->n_entries && cuda_staging_is_long(&known));
        r = hold ? cuda_hold_copy(device, stream, job, &known) : cuda_issue_copy(device, stream, job, &known);
        return submitted(device, stream, job, r);
}

int cuda_memset(ds_device *device, const struct ds_memset *memset, uint64_t token)
{
        struct cuda_space *space = cuda_space_find(device, memset->space);
        struct cuda_stream *stream = cuda_stream_at(device, memset->stream);
        struct cuda_job *job;
        int r;

        if (!space || !stream)
                return ds_error_origin(-ENOENT);
        r = cuda_memset_check(device, space, memset);
        if (r)
                return r;
        if (device->lost)
                return DS_CUDA_LAUNCH_FAILED;
        job = cuda_job_new(device, CUDA_JOB_MEMSET, space, token);
        if (!job)
                return ds_error_origin(-ENOMEM);
        r = cuda_hold_must(stream) ? cuda_hold_memset(device, stream, job, memset)
                                   : cuda_issue_memset(device, stream, job, memset);
        return submitted(device, stream, job, r);
}

int cuda_graph_launch(ds_device *device, const struct ds_graph_launch *launch, uint64_t token)
{
        struct cuda_space *space = cuda_space_find(device, launch->space);
        struct cuda_stream *stream = cuda_stream_at(device, launch->stream);
        struct cuda_job *job;
        int r;

        if (!space || !stream)
                return ds_error_origin(-ENOENT);
        if (!launch->graph || !cuda_graph_exec(launch->graph, stream->id / CUDA_STREAMS_PER_RUNG))
                return DS_CUDA_INVALID_HANDLE;
        if (device->lost)
                return DS_CUDA_LAUNCH_FAILED;
        job = cuda_job_new(device, CUDA_JOB_GRAPH, space, token);
        if (!job)
                return ds_error_origin(-ENOMEM);
        cuda_graph_get(launch->graph, job);
        job->deadline_ns = launch->deadline_ns;
        r = cuda_hold_must(stream) ? cuda_hold_graph(device, stream, job, launch)
                                   : cuda_issue_graph(device, stream, job, launch);
        return submitted(device, stream, job, r);
}

int cuda_fence(ds_device *device, uint32_t from_id, uint32_t to_id)
{
        struct cuda_stream *from = cuda_stream_at(device, from_id), *to = cuda_stream_at(device, to_id);

        if (!from || !to)
                return ds_error_origin(-ENOENT);
        if (from == to || from->ended >= from->entered || device->lost)
                return 0;
        if (cuda_hold_must(to) || from->issued < from->entered)
                return ds_error_trace(cuda_hold_fence(device, from, from->entered, to));
        return cuda_issue_fence(device, from, from->entered, to);
}

void cuda_abort(ds_device *device, uint32_t id)
{
        struct cuda_space *space = cuda_space_find(device, id);

        if (!space || !space->jobs)
                return;
        cuda_hold_cancel(device, space, DS_CUDA_LAUNCH_FAILED);
        cuda_forms_abort(device, id);
}

int cuda_clusters(ds_device *device, const struct ds_launch *launch, uint32_t *ret_clusters)
{
        CUlaunchAttribute attributes[CUDA_CALL_ATTRIBUTES];
        CUlaunchConfig config = launch_config(launch, device->rungs[0]->streams[0].stream, attributes);
        CUresult result;
        int n = 0;

        *ret_clusters = 0;
        if (!device->info.attributes[CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH])
                return DS_CUDA_NOT_SUPPORTED;
        config.gridDimX = DS_MAX(launch->cluster[0], 1u);
        config.gridDimY = DS_MAX(launch->cluster[1], 1u);
        config.gridDimZ = DS_MAX(launch->cluster[2], 1u);
        result = CU(device, cuOccupancyMaxActiveClusters)(&n, cuda_kernel_function(launch->kernel), &config);
        *ret_clusters = (uint32_t)DS_MAX(n, 0);
        if (result && cuda_fault_ends(result))
                cuda_fault_note(device, result);
        return (int)result;
}
