/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/explore.h"

#define SAMPLES 32u /* completions after which a kernel is measured on fewer SMs: a kernel that is launched often */
#define POINTS 6u   /* SM counts at which a kernel is measured: enough for the steps of a stair */

/* Index of the upper rung whose SM count is farthest from those in the kernel's profile; upper.n if the profile is
 * good enough. */
static uint32_t be_unexplored(const struct detshare *d, const struct detshare_op_view *op)
{
        uint32_t best = d->upper.n, best_distance = 0;

        for (uint32_t i = 0; i < d->upper.n; i++) {
                uint32_t distance = UINT32_MAX, n_sms = d->upper.n_sms[i];

                for (uint32_t k = 0; k < op->n_points; k++) {
                        uint32_t at = op->points[k].n_sms, away = at > n_sms ? at - n_sms : n_sms - at;

                        distance = away < distance ? away : distance;
                }
                if (distance > best_distance) {
                        best = i;
                        best_distance = distance;
                }
        }
        return best;
}

uint32_t be_explore(
        struct detshare *d, const struct detshare_coroutine_view *coroutine, const struct detshare_op_view *op)
{
        uint64_t ns;
        uint32_t at;

        if (op->samples < SAMPLES || !op->n_points || op->n_points >= POINTS)
                return 0;
        if (d->flying > (coroutine->in_flight != 0) || d->mask_ns)
                return 0;
        at = be_unexplored(d, op);
        if (at == d->upper.n)
                return 0;
        ns = stair_time(op, d->upper.n_sms[at], d->n_sms);
        if ((d->explored_ns + ns) / (uint64_t)d->p[P_EXPLORE] > d->be_ns / 1000)
                return 0;
        d->explored_ns += ns;
        return d->upper.rung[at];
}
