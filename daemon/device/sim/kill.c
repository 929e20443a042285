/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that are killed and launched again
 *
 * A kernel's effect is complete before its time passes, and so may be the effects of kernels behind it in the stream.
 * So a kernel that is killed in the middle, by the clock, may have been executed as a whole. A kernel behind it that
 * has not begun, by the clock, may have been executed too. If both were executed again in order, the first would see
 * writes of the second; on a GPU that never happens.
 *
 * Therefore a kernel that was executed as a whole is not executed again. Its cost is kept until the kernel is launched
 * again, and its effect, not yet reached by the clock, becomes the new launch's. A kernel that was executed in part is
 * executed again from its beginning; nothing behind it was executed.
 *
 * Kept costs are freed when the session is aborted, or with its space.
 */
#include "device/sim/internal.h"
#include "util/alloc.h"

#define KEPT_MAX 4096u /* most kernels per space whose results are kept; another executed kernel cannot be killed */

static void kept_free(struct sim_kept *kept)
{
        sim_costs_deinit(&kept->costs);
        sim_traffic_deinit(&kept->traffic);
        ds_free(kept);
}

void sim_kept_drop(struct sim_space *space)
{
        struct sim_kept *kept;

        while ((kept = space->kept)) {
                space->kept = kept->next;
                kept_free(kept);
        }
        space->n_kept = 0;
}

bool sim_kept_take(struct sim_space *space, uint64_t token, struct sim_job *job)
{
        struct sim_kept **at = &space->kept, *kept;

        for (; *at && (*at)->token != token; at = &(*at)->next)
                ;
        kept = *at;
        if (!kept)
                return false;
        *at = kept->next;
        space->n_kept--;
        sim_costs_move(&job->costs, &kept->costs);
        sim_traffic_move(&job->traffic, &kept->traffic);
        atomic_store(&job->executed, kept->executed);
        kept_free(kept);
        return true;
}

/* Moves the costs of a killed job, which is off the SMs, to the record for the kernel's next launch. */
static void kept_add(struct sim_job *job, struct sim_kept *kept)
{
        kept->token = job->token;
        kept->executed = atomic_load(&job->executed);
        sim_costs_init(&kept->costs);
        sim_costs_move(&kept->costs, &job->costs);
        sim_traffic_move(&kept->traffic, &job->traffic);
        kept->next = job->space->kept;
        job->space->kept = kept;
        job->space->n_kept++;
}

int sim_kill(ds_device *device, uint64_t token)
{
        struct sim_job *job = sim_kernel_in_flight(device, token);
        struct sim_kept *kept = NULL;

        if (!job || job->state == SIM_JOB_ENDING || job->cancelled)
                return job ? 0 : DS_CUDA_NOT_FOUND;
        /* the state from which this launch resumed is gone: launched again it would do only the rest of the kernel */
        if (job->workers.done)
                return DS_CUDA_NOT_SUPPORTED;
        if (job->effect == SIM_EFFECT_DONE && !job->status && !device->timing_only) {
                if (job->space->n_kept < KEPT_MAX)
                        kept = ds_alloc0(1, sizeof(*kept));
                if (!kept)
                        return DS_CUDA_OUT_OF_MEMORY;
        }
        job->killed = true;
        if (job == job->stream->head) {
                sim_job_give_up(device, job, DS_DEVICE_KILLED);
        } else {
                /* a kernel behind the head of its stream ends when the stream reaches it */
                job->cancelled = true;
                atomic_store(&job->abort, SIM_ABORT_UNWANTED);
        }
        if (kept)
                kept_add(job, kept);
        /* Jobs behind the killed kernel start only in the next call, since the caller may also kill those. */
        sim_pool_wake(device);
        return 0;
}
