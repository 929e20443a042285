/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare: BE gives up SMs for the time of an LS request
 *
 * Best-effort (BE) kernels have the whole GPU while no latency-sensitive (LS) request runs. A request may lose a little
 * time by BE, the slack: `slack_permille` of its length, or all that its objective leaves. During a request, a BE
 * kernel that will cost the request less than the slack keeps all SMs at low priority. A BE kernel that will cost more
 * gets only the SMs that the request does not need. If BE has cost requests more than the slack even so, no BE kernel
 * starts until the request ends. Between requests, a BE kernel starts if it probably ends before the next request. A BE
 * kernel that is in the way when a request begins is evicted, if it can be. No BE kernel waits for LS longer than
 * `starve_ms`.
 *
 * The unit is the request and not the kernel: a request is hundreds of kernels of 1 to 2 us, and a wait at each of them
 * adds up. Each part of the rule is one file; calls point down this list:
 *
 *      launch.c        sends LS work at once, and BE work just before the device needs it
 *      evict.c         stops BE kernels that are in the way of a request
 *      place.c         finds the place of a BE kernel, or lets it wait; explore.c: to learn its times on fewer SMs
 *      prices.c        predicts what a BE kernel costs a request
 *      best_effort.c   shares device time between BE sessions
 *      tide.c          sums up what the running requests require, and whether one of them holds BE
 *      requests.c      learns each LS session's requests: begin and end, length, gaps, SMs
 *      felt.c          measures what BE costs requests; budget.c and waits.c: what an objective leaves for BE
 *      kept.c          keeps that beyond the end of the daemon, per pair of programs (sketch.h)
 *      sharing.c       measures what both achieve side by side, with BE on all SMs and on parts of them
 *      gaps.c, mean.c  statistics; interference.c: the calibration of the GPU
 *      state.h         everything that the policy remembers; params.c: its parameters
 *
 * Reserving SMs for the needs of the LS queue, and looking for these needs offline, is SGDRC's idea (PPoPP'25, sections
 * 4 and 7.1: tidal SM masking). Requests, stairs, prices and everything learned are ours. docs/policies/detshare.md
 * explains the rule for users.
 *
 * Not guaranteed: a running BE block cannot be shortened, and a BE kernel longer than `starve_ms` is never held. BE
 * kernels longer than the pauses, but too short to be worth a part of the SMs, wait for `starve_ms` each.
 */
#include "policies/detshare/best_effort.h"
#include "policies/detshare/evict.h"
#include "policies/detshare/explain.h"
#include "policies/detshare/interference.h"
#include "policies/detshare/launch.h"
#include "policies/detshare/requests.h"
#include "policies/detshare/tide.h"

/* calibrated LS time beside BE up to which resident BE blocks are not bounded, permille of alone */
#define INTERFERENCE_PERMILLE 1100u

static int detshare_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct detshare *d = state;

        d->decision++;
        d->now_ns = snapshot->now_ns;
        d->timer_ns = UINT64_MAX;
        ls_count(d, snapshot);
        tide_look(d, snapshot);
        ls_complete(d, snapshot);
        tide_regime(d);
        be_look(d, snapshot);
        be_complete(d, snapshot);
        be_evict_all(d, snapshot, decision);
        launch_ls(snapshot, decision);
        if (!decision->again)
                launch_be(d, snapshot, decision);
        tide_note(d);
        decision->next_timer_ns = d->timer_ns;
        return 0;
}

static void bounds_init(struct detshare *d, const struct detshare_policy_config *config)
{
        for (uint32_t i = 0; i < config->n_interference && d->n_bounds < BLOCKS_MAX; i++) {
                uint32_t n_sms = config->interference[i].be_sms, k = 0;

                while (k < d->n_bounds && d->bounds[k].n_sms != n_sms)
                        k++;
                if (k < d->n_bounds)
                        continue;
                d->bounds[k].n_sms = n_sms;
                for (uint32_t bound = DETSHARE_BOUND_COMPUTE; bound <= DETSHARE_BOUND_MEMORY; bound++)
                        d->bounds[k].blocks[bound] = interference_bound(config, n_sms, bound, INTERFERENCE_PERMILLE);
                d->n_bounds++;
        }
}

/* The ways to share: all SMs, and the rungs next to three quarters, a half and a quarter of them. */
static void ways_init(struct detshare *d)
{
        d->n_ways = 1;
        d->way_sms[0] = d->n_sms;
        for (uint32_t quarters = 3; quarters; quarters--) {
                const uint32_t at = stair_at_least(&d->upper, d->n_sms * quarters / 4);

                if (at == d->upper.n || d->upper.n_sms[at] >= d->way_sms[d->n_ways - 1])
                        continue;
                d->way_sms[d->n_ways] = d->upper.n_sms[at];
                d->way_rung[d->n_ways++] = d->upper.rung[at];
        }
}

static int detshare_init(void *state, const struct detshare_policy_config *config)
{
        struct detshare *d = state;

        for (uint32_t i = 0; i < PARAMS; i++)
                d->p[i] = config->params[i];
        d->n_sms = config->n_sms;
        d->mask_permille = config->mask_permille;
        if (config->size > offsetof(struct detshare_policy_config, notes))
                d->notes = config->notes;
        stair_side_init(&d->upper, config, DETSHARE_SIDE_UPPER, DETSHARE_FAMILY_FINE);
        ways_init(d);
        bounds_init(d, config);
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "detshare",
        .description = "BE gives up SMs when an LS request begins and takes them back when it ends",
        .params = detshare_params,
        .n_params = PARAMS,
        .state_size = sizeof(struct detshare),
        .init = detshare_init,
        .decide = detshare_decide,
        .explain = detshare_explain,
};
