/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/mean.h"

void learn_part(uint64_t *mean, uint64_t seen, uint32_t n)
{
        *mean = seen > *mean ? *mean + (seen - *mean) / n : *mean - (*mean - seen) / n;
}

void learn_deviation(uint64_t *mean, uint64_t *deviation, uint64_t seen, uint32_t n)
{
        const uint64_t before = *mean;

        learn_part(mean, seen, n);
        if (n > 1)
                learn_part(deviation, difference_u64(seen, before), n - 1);
}

void learn_low(uint64_t *value, uint64_t seen)
{
        if (!*value)
                *value = seen;
        else if (seen < *value)
                *value -= (*value - seen + 3) / 4;
        else
                learn_part(value, seen, 64);
}

void learn_slowly(uint64_t *mean, uint64_t seen)
{
        if (!*mean)
                *mean = seen;
        else
                learn_part(mean, seen, 32);
}

void learn_mean(uint32_t *mean, uint64_t seen)
{
        int64_t difference = (int64_t)min_u64(seen, UINT32_MAX) - (int64_t)*mean;

        *mean = *mean ? (uint32_t)((int64_t)*mean + difference / 8) : (uint32_t)min_u64(seen, UINT32_MAX);
}
