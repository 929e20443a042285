/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/gaps.h"

#include "policies/detshare/mean.h"

void gaps_learn(struct gaps *gaps, uint64_t ns)
{
        uint32_t bucket = 0;

        for (uint64_t edge = GAPS_NS; bucket < GAPS - 1 && ns >= edge; edge *= 2)
                bucket++;
        gaps->n[bucket]++;
        if (++gaps->total < GAPS_MAX)
                return;
        gaps->total = 0;
        for (uint32_t i = 0; i < GAPS; i++) {
                gaps->n[i] /= 2;
                gaps->total = (uint16_t)(gaps->total + gaps->n[i]);
        }
}

uint64_t gaps_quantile(const struct gaps *gaps, uint32_t percent)
{
        uint32_t sum = 0, bucket = 0;

        if (gaps->total < GAPS_MIN)
                return UINT64_MAX;
        for (; bucket < GAPS - 1; bucket++) {
                sum += gaps->n[bucket];
                if (sum * 100 >= gaps->total * percent)
                        break;
        }
        return GAPS_NS << bucket;
}

uint32_t gaps_over_permille(const struct gaps *gaps, uint64_t since_ns, uint64_t ns)
{
        uint64_t longer = 0, over = 0, from = 0, to = GAPS_NS;
        const uint64_t end = ns < UINT64_MAX - since_ns ? since_ns + ns : UINT64_MAX;

        if (gaps->total < GAPS_MIN)
                return 0;
        for (uint32_t i = 0; i < GAPS; i++, from = to, to *= 2) {
                const uint64_t begin = max_u64(from, since_ns);

                if (begin >= to)
                        continue;
                longer += gaps->n[i] * ((to - begin) * 1000 / (to - from));
                if (end > begin)
                        over += gaps->n[i] * ((min_u64(end, to) - begin) * 1000 / (to - from));
        }
        return longer ? (uint32_t)(over * 1000 / longer) : 0;
}

uint64_t gaps_edge(uint64_t since_ns)
{
        uint64_t edge = GAPS_NS;

        while (edge <= since_ns && edge < UINT64_MAX / 2)
                edge *= 2;
        return edge;
}
