/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/positions.h"

#include "policies/detshare/mean.h"

#define POSITIONS_PART 16u /* reserve for gaps that vary: this part of the gap is not used */

void positions_begin(struct positions *positions)
{
        positions->at = 0;
}

void positions_count(struct positions *positions)
{
        positions->at++;
}

void positions_learn(struct positions *positions, uint64_t gap_ns)
{
        uint32_t *low = &positions->low[positions->at % POSITIONS];
        uint64_t ns = *low;

        learn_low(&ns, min_u64(gap_ns + 1, UINT32_MAX));
        *low = (uint32_t)ns;
}

uint64_t positions_left(const struct positions *positions, uint64_t since_ns)
{
        const uint32_t low = positions->low[positions->at % POSITIONS];

        return low - min_u64(low, since_ns + low / POSITIONS_PART);
}
