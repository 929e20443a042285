/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/sharing.h"

#include "policies/detshare/mean.h"

#define SHARING_SAMPLES 16u
#define SHARING_KNOWN 8u                     /* samples from which on the means count */
#define SHARING_LEAST_PART 16u               /* a shorter time beside BE than this part of a request is not measured */
#define SHARING_DEVIATIONS 2u                /* mean deviations by which a request may be slower than the mean */
#define SHARING_MOST (SHARING_ONE / 16 * 15) /* highest speed of a request that is relied on */
#define SHARING_RESERVE_PART 4u /* this part of a longer time is left, because a late request costs the budget a miss */
#define SHARING_GAIN_PART 50u   /* the gain per request must be more than this part of its length */

void sharing_forget(struct sharing *sharing)
{
        sharing->n = sharing->without_n = 0;
        sharing->ls = sharing->be = sharing->deviation = 0;
}

void sharing_begin(struct sharing *sharing, uint64_t be_ns)
{
        sharing->begin_ns = be_ns;
}

void sharing_learn(struct sharing *sharing, uint64_t length_ns, uint64_t may_ns, uint64_t beside_ns, uint64_t alone_ns,
        uint64_t be_ns)
{
        const uint64_t after = length_ns - min_u64(may_ns, length_ns);
        const uint64_t achieved = min_u64(alone_ns - min_u64(after, alone_ns), may_ns);
        uint64_t ls, be;

        if (may_ns <= alone_ns / SHARING_LEAST_PART || !beside_ns)
                return;
        ls = achieved * SHARING_ONE / may_ns;
        be = min_u64((be_ns - sharing->begin_ns) * SHARING_ONE / beside_ns, 2 * SHARING_ONE);
        sharing->n += sharing->n < SHARING_SAMPLES;
        sharing->alone_ns = alone_ns;
        learn_part(&sharing->with_ns, be_ns - sharing->begin_ns, sharing->n);
        learn_part(&sharing->longer_ns, length_ns - min_u64(alone_ns, length_ns), sharing->n);
        learn_deviation(&sharing->ls, &sharing->deviation, ls, sharing->n);
        learn_part(&sharing->be, be, sharing->n);
}

void sharing_learn_without(struct sharing *sharing, uint64_t be_ns)
{
        sharing->without_n += sharing->without_n < SHARING_SAMPLES;
        learn_part(&sharing->without_ns, be_ns - sharing->begin_ns, sharing->without_n);
}

int sharing_is_known(const struct sharing *sharing)
{
        return sharing->n >= SHARING_KNOWN;
}

int sharing_pays(const struct sharing *sharing)
{
        const uint64_t without_ns = sharing->without_ns + sharing->alone_ns / SHARING_GAIN_PART;

        return !sharing_is_known(sharing) || sharing->with_ns >= sharing->longer_ns + without_ns;
}

uint64_t sharing_time(const struct sharing *sharing, uint64_t slack_ns)
{
        const uint64_t less = SHARING_DEVIATIONS * sharing->deviation;
        const uint64_t speed =
                !sharing_is_known(sharing) ? 0 : min_u64(sharing->ls - min_u64(less, sharing->ls), SHARING_MOST);
        const uint64_t used_ns = slack_ns - slack_ns / SHARING_RESERVE_PART;

        if (slack_ns > UINT64_MAX / SHARING_ONE)
                return slack_ns;
        return max_u64(slack_ns, used_ns * SHARING_ONE / (SHARING_ONE - speed));
}
