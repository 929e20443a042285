/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/sharing.h"

#include <string.h>

#include "policies/detshare/mean.h"

#define SHARING_SAMPLES 16u
#define SHARING_KNOWN 8u                     /* samples from which on the means count */
#define SHARING_DEVIATIONS 2u                /* mean deviations by which a request may be slower than the mean */
#define SHARING_MOST (SHARING_ONE / 16 * 15) /* highest speed of a request that is relied on */
#define SHARING_RESERVE_PART 4u /* this part of a longer time is left, because a late request costs the budget a miss */
#define SHARING_GAIN_PART 50u   /* the gain per request must be more than this part of its length */
#define SHARING_BETTER_PART 16  /* another way must gain this part more */
/* One request in so many measures a way again, all in turn. It must share no divisor with the period of the requests
 * beside which the caller allows no more BE than without an objective (64): those measure no way. */
#define SHARING_AGAIN 63u
#define SHARING_PAUSE_MOST_NS (1ull << 40) /* a longer pause counts as this one, ns */
#define SHARING_OVER 2u     /* so many samples that took more than the slack end the measurement of a way */
#define SHARING_FAR_PART 8u /* a speed that differs from the kept one by more than this part of 1 refutes it */
#define SHARING_TRIES 64u   /* a way that so many requests in a row could not measure is left */

void sharing_forget(struct sharing *sharing)
{
        memset(sharing->way, 0, sizeof(sharing->way));
        sharing->without_n = 0;
        sharing->now = sharing->best = sharing->chosen = 0;
        sharing->settled = sharing->learned = sharing->written = sharing->dropped = 0;
        sharing->origin = SHARING_MEASURED;
}

void sharing_adopt(struct sharing *sharing, const struct sharing *kept)
{
        sharing_forget(sharing);
        sharing->alone_ns = kept->alone_ns;
        sharing->without_ns = kept->without_ns;
        sharing->without_n = kept->without_n ? SHARING_KNOWN : 0;
        sharing->origin = SHARING_KEPT;
        sharing->best = kept->best;
        for (uint32_t i = 0; i < SHARING_WAYS; i++) {
                struct sharing_way *way = &sharing->way[i];

                if (!kept->way[i].n)
                        continue;
                *way = kept->way[i];
                way->n = SHARING_KNOWN;
                way->kept = 1;
                way->kept_ls = way->ls;
                way->kept_deviation = way->deviation;
                way->kept_be = way->be;
        }
}

/* Whether the mean of a few samples contradicts the kept speed. */
static int sharing_is_far(uint64_t mean, uint64_t kept, uint64_t deviation)
{
        return difference_u64(mean, kept) > max_u64(SHARING_ONE / SHARING_FAR_PART, SHARING_DEVIATIONS * deviation);
}

/* Whether the requests that check a way contradict its kept values. */
static int sharing_contradicts(const struct sharing_way *way)
{
        return sharing_is_far(way->check_ls, way->kept_ls, way->kept_deviation) ||
               sharing_is_far(way->check_be, way->kept_be, way->kept_be / SHARING_FAR_PART / SHARING_DEVIATIONS);
}

/* Adds a request to those that check the kept values of its way. over: it took longer than its slack allows. Returns 1:
 * they contradict them, so all measurements are discarded. */
static int sharing_check(struct sharing *sharing, uint64_t ls, uint64_t be, int over)
{
        struct sharing_way *way = &sharing->way[sharing->now];

        if (!way->kept)
                return 0;
        way->checks++;
        learn_part(&way->check_ls, ls, way->checks);
        learn_part(&way->check_be, be, way->checks);
        if (way->checks < SHARING_CHECKS && !over)
                return 0;
        if (sharing_contradicts(way)) {
                sharing_forget(sharing);
                sharing->origin = SHARING_REFUTED;
                return 1;
        }
        way->kept = way->checks < SHARING_CHECKS;
        if (!way->kept && sharing->origin == SHARING_KEPT && sharing->now == sharing->best)
                sharing->origin = SHARING_CONFIRMED;
        return 0;
}

void sharing_begin(struct sharing *sharing, uint64_t be_ns)
{
        sharing->begin_ns = be_ns;
        sharing->now = 0;
}

int sharing_is_known(const struct sharing_way *way)
{
        return way->n >= SHARING_KNOWN;
}

/* Loss of BE in the pause after a request, because it stays on its part of the SMs there, ns. */
static uint64_t sharing_pause_cost(const struct sharing *sharing, uint32_t way)
{
        const uint64_t be = min_u64(sharing->way[way].be, SHARING_ONE);

        return way ? min_u64(sharing->pause_ns, SHARING_PAUSE_MOST_NS) * (SHARING_ONE - be) / SHARING_ONE : 0;
}

uint64_t sharing_time(const struct sharing *sharing, uint32_t way, uint64_t slack_ns)
{
        const struct sharing_way *of = &sharing->way[way];
        const uint64_t less = SHARING_DEVIATIONS * of->deviation;
        const uint64_t speed = !sharing_is_known(of) ? 0 : min_u64(of->ls - min_u64(less, of->ls), SHARING_MOST);
        const uint64_t used_ns = slack_ns - slack_ns / SHARING_RESERVE_PART;

        if (slack_ns > UINT64_MAX / SHARING_ONE)
                return slack_ns;
        return max_u64(slack_ns, used_ns * SHARING_ONE / (SHARING_ONE - speed));
}

/* Gain of BE per request beside which it is in this way, less the cost of the longer request and of the pause after it,
 * ns. */
static int64_t sharing_gain(const struct sharing *sharing, uint32_t way, uint64_t slack_ns)
{
        const struct sharing_way *of = &sharing->way[way];
        const uint64_t whole_ns = sharing->alone_ns * SHARING_ONE / max_u64(of->ls, SHARING_ONE / 64);
        const uint64_t beside_ns = min_u64(sharing_time(sharing, way, slack_ns), whole_ns);

        return (int64_t)beside_ns * ((int64_t)(of->be + of->ls) - (int64_t)SHARING_ONE) / (int64_t)SHARING_ONE -
               (int64_t)sharing_pause_cost(sharing, way);
}

/* Finds the best way again. A change of the way costs requests time, so it must gain something. */
static void sharing_compare(struct sharing *sharing, uint32_t n_ways, uint64_t slack_ns)
{
        if (sharing->best >= n_ways)
                sharing->best = 0;
        for (uint32_t i = 0; i < n_ways; i++) {
                const int64_t gain = sharing_gain(sharing, sharing->best, slack_ns);

                if (sharing_is_known(&sharing->way[i]) &&
                        sharing_gain(sharing, i, slack_ns) > gain + (gain > 0 ? gain / SHARING_BETTER_PART : 0))
                        sharing->best = i;
        }
}

/* The way with the fewest SMs that is not measured yet, because it costs requests least; n_ways if there is none. */
static uint32_t sharing_unknown(struct sharing *sharing, uint32_t n_ways)
{
        for (uint32_t i = n_ways; i-- > 0;)
                if (!sharing_is_known(&sharing->way[i]) && sharing->way[i].tries++ < SHARING_TRIES)
                        return i;
        return n_ways;
}

void sharing_choose(struct sharing *sharing, uint32_t n_ways, uint64_t slack_ns, uint64_t length_ns, uint64_t pause_ns)
{
        const uint32_t turn = sharing->chosen++;

        sharing->n_ways = n_ways;
        sharing->slack_ns = slack_ns;
        sharing->pause_ns = pause_ns;
        if (n_ways == 1) {
                sharing->now = sharing->best = 0;
                sharing->settled = sharing_is_known(&sharing->way[0]);
                return;
        }
        sharing->now = slack_ns > length_ns / SHARING_LEAST_PART ? sharing_unknown(sharing, n_ways) : n_ways;
        if (sharing->now < n_ways)
                return;
        sharing_compare(sharing, n_ways, slack_ns);
        sharing->settled = sharing_is_known(&sharing->way[sharing->best]);
        sharing->now = turn % SHARING_AGAIN ? sharing->best : turn / SHARING_AGAIN % n_ways;
}

void sharing_learn(struct sharing *sharing, uint64_t length_ns, uint64_t may_ns, uint64_t beside_ns, uint64_t alone_ns,
        uint64_t be_ns)
{
        struct sharing_way *way = &sharing->way[sharing->now];
        const uint64_t after = length_ns - min_u64(may_ns, length_ns);
        const uint64_t achieved = min_u64(alone_ns - min_u64(after, alone_ns), may_ns);
        uint64_t ls, be;
        uint32_t over;

        if (may_ns <= alone_ns / SHARING_LEAST_PART || !beside_ns)
                return;
        ls = achieved * SHARING_ONE / may_ns;
        be = min_u64((be_ns - sharing->begin_ns) * SHARING_ONE / beside_ns, 2 * SHARING_ONE);
        over = length_ns - min_u64(alone_ns, length_ns) > sharing->slack_ns;
        if (sharing_check(sharing, ls, be, over))
                return;
        way->n += way->n < SHARING_SAMPLES;
        way->tries = 0;
        sharing->alone_ns = alone_ns;
        sharing->learned = sharing->settled ? sharing->learned + 1 : 0;
        learn_part(&way->with_ns, be_ns - sharing->begin_ns, way->n);
        learn_part(&way->longer_ns, length_ns - min_u64(alone_ns, length_ns), way->n);
        learn_deviation(&way->ls, &way->deviation, ls, way->n);
        learn_part(&way->be, be, way->n);
        way->over += over;
        /* further samples would cost the objective too much */
        if (sharing->n_ways > 1 && way->over >= SHARING_OVER)
                way->n = (uint32_t)max_u64(way->n, SHARING_KNOWN);
}

void sharing_learn_without(struct sharing *sharing, uint64_t be_ns)
{
        sharing->without_n += sharing->without_n < SHARING_SAMPLES;
        learn_part(&sharing->without_ns, be_ns - sharing->begin_ns, sharing->without_n);
}

int sharing_pays(const struct sharing *sharing, uint32_t way)
{
        const struct sharing_way *of = &sharing->way[way];
        const uint64_t without_ns = sharing->without_ns + sharing->alone_ns / SHARING_GAIN_PART;

        return !sharing_is_known(of) || of->with_ns >= of->longer_ns + without_ns + sharing_pause_cost(sharing, way);
}
