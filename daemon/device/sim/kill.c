/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that are killed and launched anew
 *
 * A kernel's effect is there before its time is played, and that of kernels behind it in the stream may be, too. So a
 * kernel that is killed, by the clock, in the middle may have been executed as a whole, and so may one behind it that,
 * by the clock, has not begun. Executing both again in order would let the first see what the second has written, which
 * on a GPU it never does. Therefore what was executed as a whole is not executed again: what it cost is kept until the
 * kernel is launched anew, and its effect, that the clock has not come to yet, is then the new launch's. What was
 * executed in part only is executed again from its beginning; nothing behind it was.
 *
 * What is kept goes when the session is aborted, or with its space.
 */
#include "device/sim/internal.h"
#include "util/alloc.h"

#define KEPT_MAX 4096u /* of a space; more cannot be killed */

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

/* It is off the SMs, and needs its costs no more. */
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
        if (job->workers.done) /* what it went on from is gone: launched anew it would do the rest only */
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
                /* it ends when it is its turn */
                job->cancelled = true;
                atomic_store(&job->abort, SIM_ABORT_UNWANTED);
        }
        if (kept)
                kept_add(job, kept);
        /* nothing follows from it before the next call: those behind it may be killed as well */
        sim_pool_wake(device);
        return 0;
}
