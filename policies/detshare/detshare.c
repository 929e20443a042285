/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare: BE gives up SMs for the time of an LS request
 *
 * Best-effort (BE) work has the whole GPU while no latency-sensitive (LS) request runs. When a request begins, BE ebbs:
 * it gives up SMs. When the request ends, BE flows back. The unit is the request and not the kernel: a request is
 * hundreds of kernels of 1 to 2 us, and a wait at each of them adds up. Reserving SMs for the needs of the LS queue,
 * and looking for these needs offline, is SGDRC's idea (PPoPP'25, sections 4 and 7.1: tidal SM masking). Requests,
 * stairs, prices and everything learned are ours. docs/policies/detshare.md explains the rule for users.
 *
 * Begin and end. A request begins with its first launch. It ends when its queue is empty and the client has waited for
 * it, or when the queue stayed empty for a hold-off: the quantile `hold_percent` of the gaps inside this session's
 * requests (a program bound by its host has one between any two kernels).
 *
 * Prices. A BE kernel beside LS need not give way: where its blocks are short, priority alone lets LS in within
 * microseconds. Its harm is the mean rest of a block that LS finds on full SMs, less the gap that LS makes anyway,
 * times the LS kernels of a request (a long one counts once more per 10 us, because it may be a graph). While that is
 * within the slack, the kernel stays on the whole GPU. The slack is `slack_permille` of the request's length, or what the
 * session's objective leaves (see Objectives). Otherwise the kernel goes
 * to the upper rung with the lowest SM count of its own stair (stair.h) that leaves the reserve: below the first
 * missing SM the next ones cost nothing.
 *
 * The reserve is the most SMs that an LS kernel among the first of the queues needs for its best latency, and that the
 * session's recent kernels needed (the quantile `need_percent` of their time), up to `reserve_percent` of the GPU. LS
 * itself goes to the whole GPU with high priority: it begins in the reserve and spreads as BE blocks end. (`ls_overlap`
 * 0: it goes to the lower rung of its need, where spreading hurts; 2: to the SMs outside of BE's part.)
 *
 * Standing reserve. While no request runs but an LS session was active lately (`recent_ms`, or four times its pauses),
 * one wait remains: that of a request's first kernel for a BE block. Where that exceeds the slack, BE leaves SMs free:
 * as many as the need if its kernel loses at most `standing_permille` by that, otherwise fewer, otherwise none. A
 * kernel that would fall off its stair keeps all SMs.
 *
 * Pauses. A kernel is not launched on all SMs if it will probably still run when the next request comes, and that
 * request would suffer. Probably means: more than `meet_permille` of the pauses that last as long as this one so far
 * end by then. Queued requests follow each other within microseconds, so BE waits for that time after each; it runs in
 * the remaining pauses. A kernel longer than the pauses runs beside the next request anyway. So it is placed as if that
 * had begun, and requests back to back do not move it to and fro. But this holds only while no requests queue, and only
 * beside a session that would be busy for at most `busy_permille` of its time if all its requests took what those
 * beside BE take: a busier one would never get through its queue. Otherwise BE waits, for at most `starve_ms`. Kernels
 * whose blocks must all be resident are launched in any pause.
 *
 * Price of a part (`mask_permille`). On an H200, after kernels ran on a part of the SMs, every later kernel begins
 * later, until the GPU has had another context for a moment (daemon/supervisor/settle.h). Where the device reports such
 * a cost, a kernel goes to a part of the SMs only if half of its time exceeds the loss of the next few requests.
 *
 * Bounds. A BE coroutine gets the next operation when its work on the device should end within `be_ahead_us`
 * (`be_alone_us` with no LS for a second), not earlier, and with LS within its slack: queued work delays the next
 * request, too. Beside LS, kernels known to be bound by compute or memory have at most as many resident blocks as the
 * calibration found to keep LS under `interference_permille`; unknown kernels are not bounded. BE sessions are kept
 * within `fair_us` of device time of each other.
 *
 * A kernel whose blocks must all be resident and do not fit BE's SMs borrows the whole GPU if every running LS request
 * would still keep its slack. Otherwise it waits, for at most `starve_ms`.
 *
 * Felt cost. Prices are predictions, so felt.h times a session's requests with and without BE. If requests lose more
 * than the slack, all of BE keeps to a half, a quarter or an eighth of the SMs while they run: the largest part at
 * which they keep the slack. Now and then BE tries a larger part during one request, until that request has taken twice
 * its usual time. A kernel runs on such a part only if it ends sooner there than on all SMs after the requests. If
 * requests lose more than the slack even beside the smallest part, BE is held: none of its kernels is launched, except
 * after `starve_ms`.
 *
 * Objectives. A session that states a latency has a budget (budget.h): `attain_permille` of its requests must meet the
 * latency, the others may miss it. While the budget lasts, BE may cost a request all that the objective leaves, and is
 * held once the request needs the rest for itself. A request that waited in its client for others gets BE only while the
 * budget has a whole miss in reserve: each delay would also delay those behind it. When the budget is spent, the session
 * is treated as one without an objective.
 *
 * Evicting. A BE kernel of long blocks is launched in an evictable form (daemon/sched/forms.h), so no request waits for
 * its end, and no SMs stay free for a request that may come. When a request comes and BE runs where it would not be
 * sent now, it is evicted if its own end is farther off than an eviction costs (its duration and `resume_us`). It
 * resumes on the rung that leaves the reserve, and moves back likewise after the request. BE never starves: it runs for
 * `be_floor_permille` of the time since its last eviction before the next one, whatever LS needs.
 *
 * Exploring. While LS is idle (and, where parts have a price, was idle for a while), a kernel with a good profile at
 * few SM counts is now and then sent to an unknown rung, for at most `explore_permille` of BE's time.
 *
 * Several LS sessions go by deadline. The earliest may have `ls_depth` operations on the device, others
 * `ls_late_depth`.
 *
 * The state is bounded: it holds the LS sessions and the BE sessions seen last, a fixed number of each. If there are
 * more sessions, the policy forgets the one that it has not seen for longest, and learns it again when it returns.
 */
#include "policies/detshare/best_effort.h"
#include "policies/detshare/evict.h"
#include "policies/detshare/interference.h"
#include "policies/detshare/launch.h"
#include "policies/detshare/requests.h"
#include "policies/detshare/tide.h"

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
        be_evict_all(d, snapshot, decision);
        launch_ls(d, snapshot, decision);
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
                        d->bounds[k].blocks[bound] =
                                interference_bound(config, n_sms, bound, number(d, P_INTERFERENCE));
                d->n_bounds++;
        }
}

static int detshare_init(void *state, const struct detshare_policy_config *config)
{
        struct detshare *d = state;

        for (uint32_t i = 0; i < PARAMS; i++)
                d->p[i] = config->params[i];
        if (d->p[P_MASK] < 0)
                d->p[P_MASK] = config->mask_permille;
        d->n_sms = config->n_sms;
        stair_side_init(&d->upper, config, DETSHARE_SIDE_UPPER, DETSHARE_FAMILY_FINE);
        stair_side_init(&d->lower, config, DETSHARE_SIDE_LOWER, DETSHARE_FAMILY_FINE);
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
};
