/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lost context, and the kernel that caused it
 *
 * When a kernel faults, the context is lost: the next driver call reports it, every later call returns the same error,
 * and the process must end. The driver does not say which kernel faulted. The device knows how far the GPU had come in
 * each stream, by its counters or because poll takes jobs back within microseconds of their end. A job that had ended
 * is no suspect and keeps its result. The offender is the launch at the head of the rest of its stream. Not every head
 * is a suspect:
 *
 *  - A head that waits behind a fence has not begun.
 *  - The driver reports a fault at an address at the earliest 100 ms after it happened (measured on an H200: 110 to
 *    460 ms), and meanwhile all of the context stands still. So a job that came to the head in the last moments before
 *    the report has not begun.
 *  - A failed assertion comes from a kernel whose module has assertions.
 *  - An expired deadline names its kernel.
 *
 * Suspects get the error. If only one session had work, all of its work does. Other work in flight is as lost as the
 * context: it gets LAUNCH_FAILED, and a message that does not tell one session about another.
 */
#include <stdio.h>

#include "device/cuda/internal.h"

/* age at the head of a stream below which a job is no suspect; well below the measured minimum of 110 ms */
#define FAULT_TOLD_AFTER_NS (20 * DS_NS_PER_MS)

int cuda_lost(ds_device *device)
{
        return (int)device->lost;
}

int cuda_fault_ends(CUresult result)
{
        switch ((int)result) {
        case CUDA_ERROR_DEINITIALIZED:
        case CUDA_ERROR_DEVICE_UNAVAILABLE:
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_NVLINK_UNCORRECTABLE:
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED:
        case CUDA_ERROR_EXTERNAL_DEVICE:
                return 1;
        default:
                return 0;
        }
}

/* --- suspects --- */

/* Rules that select suspects among the streams' heads, applied in order; a rule that leaves no suspect is skipped. */
enum fault_rule {
        FAULT_ANY,
        FAULT_LAUNCH,
        FAULT_BEGUN,
        FAULT_CAPABLE,
        FAULT_LONG_AGO,
        _FAULT_RULE_MAX,
};

static int fault_told_late(CUresult result)
{
        return result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_MISALIGNED_ADDRESS ||
               result == CUDA_ERROR_LAUNCH_FAILED;
}

/* Oldest job of the stream that has not ended; NULL if all have. */
static struct cuda_job *stream_head(const ds_device *device, const struct cuda_stream *stream)
{
        uint64_t ended = cuda_counter(device, stream);
        struct cuda_job *job = stream->head;

        while (job && !job->status && job->number <= ended)
                job = job->next;
        return job;
}

static int head_keeps(const struct cuda_stream *stream, const struct cuda_job *job, enum fault_rule rule,
        CUresult result, uint64_t now_ns)
{
        /* a job that became its stream's oldest after the last round of polling counts as started now */
        uint64_t start = job == stream->head ? cuda_job_start(stream, job) : now_ns;

        switch (rule) {
        case FAULT_ANY:
                return !job->status;
        case FAULT_LAUNCH:
                return job->kind == CUDA_JOB_LAUNCH || job->kind == CUDA_JOB_GRAPH;
        case FAULT_BEGUN:
                return start != UINT64_MAX;
        case FAULT_CAPABLE:
                return result != CUDA_ERROR_ASSERT || (job->kernel && cuda_kernel_asserts(job->kernel)) ||
                       (job->graph && cuda_graph_asserts(job->graph));
        case FAULT_LONG_AGO:
                return !fault_told_late(result) || (start < now_ns && now_ns - start > FAULT_TOLD_AFTER_NS);
        case _FAULT_RULE_MAX:
                break;
        }
        return 0;
}

static void fault_find_suspects(ds_device *device, CUresult result)
{
        uint64_t now_ns = cuda_now(device);
        struct cuda_stream *stream;
        struct cuda_job *job;
        uint32_t n;

        DL_FOREACH2(device->busy, stream, busy_next)
        {
                job = stream_head(device, stream);
                if (job)
                        job->suspect = 1;
        }
        for (enum fault_rule rule = FAULT_ANY; rule < _FAULT_RULE_MAX; rule++) {
                n = 0;
                DL_FOREACH2(device->busy, stream, busy_next)
                {
                        job = stream_head(device, stream);
                        n += job && job->suspect && head_keeps(stream, job, rule, result, now_ns);
                }
                DL_FOREACH2(device->busy, stream, busy_next)
                {
                        job = stream_head(device, stream);
                        if (n && job && !head_keeps(stream, job, rule, result, now_ns))
                                job->suspect = 0;
                }
        }
}

/* --- verdicts --- */

static int fault_one_space(const ds_device *device)
{
        const struct cuda_space *space = NULL;
        const struct cuda_stream *stream;

        DL_FOREACH2(device->busy, stream, busy_next)
        {
                for (const struct cuda_job *job = stream_head(device, stream); job; job = job->next) {
                        if (space && job->space != space)
                                return 0;
                        space = job->space;
                }
        }
        return 1;
}

/* Sets the result of every job on the GPU that has not ended and has no result yet: the suspects' error, or
 * LAUNCH_FAILED. */
static void fault_judge(ds_device *device, CUresult result, int all)
{
        struct cuda_stream *stream;

        DL_FOREACH2(device->busy, stream, busy_next)
        {
                for (struct cuda_job *job = stream_head(device, stream); job; job = job->next)
                        if (!job->status)
                                job->status = all || job->suspect ? (int32_t)result : DS_CUDA_LAUNCH_FAILED;
        }
        cuda_hold_cancel(device, NULL, DS_CUDA_LAUNCH_FAILED);
}

static const struct cuda_job *stream_suspect(const struct cuda_stream *stream)
{
        const struct cuda_job *job = stream->head;

        while (job && !job->suspect)
                job = job->next;
        return job;
}

static void fault_log(const ds_device *device, CUresult result)
{
        const struct cuda_stream *stream;
        const struct cuda_job *job;

        ds_log(DS_LOG_ERROR, "the context of the GPU is lost: %s", ds_cuda_driver_error(&device->driver, result));
        DL_FOREACH2(device->busy, stream, busy_next)
        {
                job = stream_suspect(stream);
                if (job)
                        ds_log(DS_LOG_ERROR, "suspect: space %u, %s %.80s", job->space->id,
                                job->kernel  ? "kernel"
                                : job->graph ? "a graph"
                                             : "a copy",
                                job->kernel ? cuda_kernel_info(job->kernel)->name : "");
        }
}

static void fault_say_assertion(ds_device *device)
{
        const struct cuda_stream *stream;
        const struct cuda_job *job;

        DL_FOREACH2(device->busy, stream, busy_next)
        {
                job = stream_suspect(stream);
                if (job) {
                        cuda_output_asserted(device, job->space->id);
                        return;
                }
        }
}

void cuda_fault_note(ds_device *device, CUresult result)
{
        if (device->lost)
                return;
        device->lost = result;
        fault_find_suspects(device, result);
        fault_log(device, result);
        if (result == CUDA_ERROR_ASSERT)
                fault_say_assertion(device);
        fault_judge(device, result, fault_one_space(device));
}

void cuda_fault_timeout(ds_device *device, struct cuda_job *job)
{
        if (device->lost)
                return;
        device->lost = CUDA_ERROR_LAUNCH_TIMEOUT;
        job->suspect = 1;
        job->status = DS_CUDA_LAUNCH_TIMEOUT;
        fault_log(device, CUDA_ERROR_LAUNCH_TIMEOUT);
        fault_judge(device, CUDA_ERROR_LAUNCH_TIMEOUT, 0);
}

/* --- messages --- */

static void kernel_words(const struct cuda_job *job, char *ret, size_t size)
{
        if (job->kernel)
                snprintf(ret, size, "kernel %.200s, grid %ux%ux%u, block %ux%ux%u", cuda_kernel_info(job->kernel)->name,
                        job->grid[0], job->grid[1], job->grid[2], job->block[0], job->block[1], job->block[2]);
        else if (job->graph)
                snprintf(ret, size, "a graph of %u kernels", cuda_graph_kernels(job->graph));
        else
                snprintf(ret, size, "%s", job->kind == CUDA_JOB_COPY ? "a copy" : "a memset");
}

void cuda_fault_message(const ds_device *device, const struct cuda_job *job, int32_t status, char *ret, size_t size)
{
        char what[320];

        kernel_words(job, what, sizeof(what));
        if (job->suspect && device->lost == CUDA_ERROR_LAUNCH_TIMEOUT && job->prints && !job->deadline_ns)
                snprintf(ret, size, "%s: writing down what it printed took too long", what);
        else if (job->suspect && device->lost == CUDA_ERROR_LAUNCH_TIMEOUT)
                snprintf(ret, size, "%s: ran past its deadline of %llu ns", what, (unsigned long long)job->deadline_ns);
        else if (job->suspect)
                snprintf(ret, size, "%s: %s", what, ds_cuda_driver_error(&device->driver, device->lost));
        else if (device->lost && (CUresult)status == device->lost)
                snprintf(ret, size, "%s: behind what failed with %s", what,
                        ds_cuda_driver_error(&device->driver, device->lost));
        else if (device->lost)
                snprintf(ret, size, "%s: under way when another kernel ended the GPU's context", what);
        else if (!job->given && status == DS_CUDA_LAUNCH_FAILED)
                snprintf(ret, size, "%s: given up before it began", what);
        else
                snprintf(ret, size, "%s: %s", what, ds_cuda_driver_error(&device->driver, (CUresult)status));
}

/* --- jobs that do not end ----------------------------------------------------------------------------------------- */

#define STUCK_JOBS 3 /* most jobs reported per space, the oldest; later ones wait for these */
#define STUCK_READ_NS (30 * DS_NS_PER_MS)

/* Stream of the job; NULL: the job has not been submitted to the GPU. */
static const struct cuda_stream *stream_of(const ds_device *device, const struct cuda_job *job)
{
        const struct cuda_stream *stream;

        DL_FOREACH2(device->busy, stream, busy_next)
        {
                for (const struct cuda_job *one = stream->head; one; one = one->next)
                        if (one == job)
                                return stream;
        }
        return NULL;
}

static size_t stuck_job(ds_device *device, const struct cuda_job *job, char *ret, size_t size)
{
        const struct cuda_stream *stream = stream_of(device, job);
        char what[160], place[240] = "held", form[320] = "";
        int n;

        kernel_words(job, what, sizeof(what));
        if (stream)
                snprintf(place, sizeof(place),
                        "%s%s%s%s, status %d, stream %u: number %llu, the GPU is at %llu, asked to say %llu, told of "
                        "%llu, has %llu",
                        job->given ? "given" : "never given", stream->head == job ? ", first" : "",
                        job->prints ? ", prints" : "", job->after ? ", behind a fence" : "", job->status, stream->id,
                        (unsigned long long)job->number, (unsigned long long)cuda_counter(device, stream),
                        (unsigned long long)stream->asked, (unsigned long long)stream->marked,
                        (unsigned long long)stream->issued);
        if (job->form)
                cuda_form_say(device, job->form, STUCK_READ_NS, form, sizeof(form));
        n = snprintf(ret, size, "%s: %s%s%s; ", what, place, form[0] ? "; " : "", form);
        return DS_MIN((size_t)DS_MAX(n, 0), size - 1);
}

void cuda_stuck(ds_device *device, uint32_t id, char *ret, size_t size)
{
        const struct cuda_space *space = cuda_space_find(device, id);
        const struct cuda_job *job = space ? space->jobs : NULL;
        size_t used = 0;

        ret[0] = 0;
        for (int i = 0; job && i < STUCK_JOBS; i++, job = job->space_next)
                used += stuck_job(device, job, ret + used, size - used);
        for (uint32_t more = 0; job; job = job->space_next)
                if (!job->space_next)
                        snprintf(ret + used, size - used, "and %u more", more + 1);
                else
                        more++;
}
