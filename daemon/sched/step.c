/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/step.h"

#include "policies/detshare_policy.h"

static uint64_t *word_of(struct ds_step_kernels *kernels, uint64_t kernel, uint64_t *ret_bit)
{
        uint64_t hash = kernel * 0x9e3779b97f4a7c15ull;

        *ret_bit = 1ull << (hash >> 58);
        return &kernels->word[(hash >> 40) % DS_STEP_WORDS];
}

static int has(struct ds_step_kernels *kernels, uint64_t kernel)
{
        uint64_t bit, *word = word_of(kernels, kernel, &bit);

        return (*word & bit) != 0;
}

static void add(struct ds_step_kernels *kernels, uint64_t kernel)
{
        uint64_t bit, *word = word_of(kernels, kernel, &bit);

        *word |= bit;
        kernels->n++;
}

/* Whether two steps are alike: at most a tenth more or fewer kernels, and at most a quarter of other ones. A growing
 * answer changes some grids. */
static int is_like(const struct ds_step_kernels *a, const struct ds_step_kernels *b)
{
        uint32_t n = a->n > b->n ? a->n - b->n : b->n - a->n, other = 0, all = 0;

        for (uint32_t i = 0; i < DS_STEP_WORDS; i++) {
                other += (uint32_t)__builtin_popcountll(a->word[i] ^ b->word[i]);
                all += (uint32_t)__builtin_popcountll(a->word[i] | b->word[i]);
        }
        return a->n && b->n && n <= a->n / 10 && other <= all / 4;
}

void ds_step_kernel(struct ds_step *step, uint64_t kernel, uint32_t hint, int fills)
{
        if (hint != DETSHARE_PHASE_NONE)
                step->hint = hint;
        if (!has(&step->decode, kernel)) {
                step->n_other++;
                step->fills |= (uint32_t)(fills != 0);
        }
        add(&step->now, kernel);
}

uint32_t ds_step_phase(const struct ds_step *step)
{
        if (step->hint != DETSHARE_PHASE_NONE)
                return step->hint;
        return step->fills || step->before == DETSHARE_PHASE_NONE ? DETSHARE_PHASE_PREFILL : DETSHARE_PHASE_DECODE;
}

int ds_step_is_part(const struct ds_step *step)
{
        return step->now.n <= step->decode.n / 8;
}

static uint32_t phase_at_end(const struct ds_step *step)
{
        if (step->hint != DETSHARE_PHASE_NONE)
                return step->hint;
        if (is_like(&step->now, &step->last) || is_like(&step->now, &step->decode))
                return DETSHARE_PHASE_DECODE;
        return step->n_other > step->now.n / 4 ? DETSHARE_PHASE_PREFILL : DETSHARE_PHASE_DECODE;
}

uint32_t ds_step_end(struct ds_step *step)
{
        static const struct ds_step_kernels none;
        uint32_t phase = phase_at_end(step);

        if (phase == DETSHARE_PHASE_DECODE)
                step->decode = step->now;
        step->last = step->now;
        step->now = none;
        step->before = phase;
        step->hint = step->n_other = step->fills = 0;
        return phase;
}
