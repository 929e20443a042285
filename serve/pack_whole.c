/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the whole manifest
 *
 * Inputs are copied in one after the other before a run, so no two of them may share bytes. Buffers may share bytes but
 * not at the same time. The check walks them in the order of their first launches, and keeps the live ones in a set
 * ordered by offset, so a new one is compared with its two neighbours only. The set is a bit array with a tree of words
 * above it that marks non-zero words: every operation takes a few steps, however many buffers there are.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/pack.h"
#include "util/alloc.h"
#include "util/macro.h"

static int check_inputs(const struct sv_pack *pack, const char *name, struct sv_why *why)
{
        for (uint32_t i = 0; i < pack->n_inputs; i++) {
                for (uint32_t k = 0; k < i; k++) {
                        const struct sv_tensor *a = &pack->inputs[i], *b = &pack->inputs[k];

                        if (a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                                return sv_fail(why, "%s: the inputs %s and %s share bytes of the arena", name, b->name,
                                        a->name);
                }
        }
        return 0;
}

static int check_cases(const struct sv_pack *pack, const char *name, struct sv_why *why)
{
        for (uint32_t i = 0; i < pack->n_cases; i++)
                if (pack->cases[i].has_input != (1u << pack->n_inputs) - 1 ||
                        pack->cases[i].has_output != (1u << pack->n_outputs) - 1)
                        return sv_fail(why, "%s: case %u lacks an input or an output", name, i);
        return 0;
}

/* --- a set of numbers below SV_BUFFERS_MAX ------------------------------------------------------------------------ */

#define LEVELS 3
#define LEVEL_WORDS (SV_BUFFERS_MAX / 64)
#define NONE UINT32_MAX

_Static_assert(SV_BUFFERS_MAX <= 64 * 64 * 64 && SV_BUFFERS_MAX % 64 == 0, "the set's highest word has bits for all");

/* A bit of an upper word is set if the word below it is not zero. */
struct set {
        uint64_t words[LEVELS][LEVEL_WORDS];
};

static void set_add(struct set *set, uint32_t n)
{
        for (int i = 0; i < LEVELS; i++, n /= 64)
                set->words[i][n / 64] |= UINT64_C(1) << n % 64;
}

static void set_remove(struct set *set, uint32_t n)
{
        for (int i = 0; i < LEVELS; i++, n /= 64) {
                set->words[i][n / 64] &= ~(UINT64_C(1) << n % 64);
                if (set->words[i][n / 64])
                        return;
        }
}

/* The least element from n on, or NONE. */
static uint32_t set_from(const struct set *set, uint32_t n)
{
        for (int i = 0; i < LEVELS; i++, n = n / 64 + 1) {
                uint64_t word = n / 64 < LEVEL_WORDS ? set->words[i][n / 64] & ~UINT64_C(0) << n % 64 : 0;

                if (!word)
                        continue;
                n = n / 64 * 64 + (uint32_t)__builtin_ctzll(word);
                while (i-- > 0)
                        n = n * 64 + (uint32_t)__builtin_ctzll(set->words[i][n]);
                return n;
        }
        return NONE;
}

/* The greatest element below n, or NONE. */
static uint32_t set_below(const struct set *set, uint32_t n)
{
        for (int i = 0; i < LEVELS; i++, n /= 64) {
                uint64_t word = n % 64 ? set->words[i][n / 64] & ((UINT64_C(1) << n % 64) - 1) : 0;

                if (!word)
                        continue;
                n = n / 64 * 64 + 63 - (uint32_t)__builtin_clzll(word);
                while (i-- > 0)
                        n = n * 64 + 63 - (uint32_t)__builtin_clzll(set->words[i][n]);
                return n;
        }
        return NONE;
}

/* --- buffers ------------------------------------------------------------------------------------------------------ */

/* The buffers in three orders: by_offset holds them, the other two hold positions in by_offset. */
struct plan {
        struct sv_buffer *by_offset;
        uint32_t *by_first, *by_last;
        struct set live; /* positions in by_offset */
};

static int order_offsets(const void *a, const void *b)
{
        const struct sv_buffer *x = a, *y = b;

        return (x->offset > y->offset) - (x->offset < y->offset);
}

static int order_first(const void *a, const void *b, void *user)
{
        const struct sv_buffer *all = user;
        const uint32_t x = all[*(const uint32_t *)a].first, y = all[*(const uint32_t *)b].first;

        return (x > y) - (x < y);
}

static int order_last(const void *a, const void *b, void *user)
{
        const struct sv_buffer *all = user;
        const uint32_t x = all[*(const uint32_t *)a].last, y = all[*(const uint32_t *)b].last;

        return (x > y) - (x < y);
}

static bool overlap(const struct sv_buffer *a, const struct sv_buffer *b)
{
        return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* The live buffer that shares bytes with this one, or NULL. */
static const struct sv_buffer *find_other(const struct plan *plan, uint32_t place)
{
        const uint32_t neighbours[] = {set_below(&plan->live, place), set_from(&plan->live, place + 1)};

        for (int i = 0; i < 2; i++)
                if (neighbours[i] != NONE && overlap(&plan->by_offset[neighbours[i]], &plan->by_offset[place]))
                        return &plan->by_offset[neighbours[i]];
        return NULL;
}

static int check_plan(struct plan *plan, uint32_t n, const char *name, struct sv_why *why)
{
        uint32_t over = 0;

        for (uint32_t i = 0; i < n; i++) {
                const struct sv_buffer *buffer = &plan->by_offset[plan->by_first[i]], *other;

                for (; plan->by_offset[plan->by_last[over]].last < buffer->first; over++)
                        set_remove(&plan->live, plan->by_last[over]);
                other = find_other(plan, plan->by_first[i]);
                if (other)
                        return sv_fail(why,
                                "%s: the buffers at %llu and %llu share bytes of the arena and both are in use in "
                                "launch %u",
                                name, (unsigned long long)other->offset, (unsigned long long)buffer->offset,
                                buffer->first);
                set_add(&plan->live, plan->by_first[i]);
        }
        return 0;
}

static int check_buffers(const struct sv_pack *pack, const char *name, struct sv_why *why)
{
        const uint32_t n = pack->n_buffers;
        ds_cleanup(ds_freep) struct sv_buffer *by_offset = ds_alloc0(n, sizeof(*by_offset));
        ds_cleanup(ds_freep) uint32_t *by_first = ds_alloc0(n, sizeof(*by_first));
        ds_cleanup(ds_freep) uint32_t *by_last = ds_alloc0(n, sizeof(*by_last));
        ds_cleanup(ds_freep) struct plan *plan = ds_alloc0(1, sizeof(*plan));

        if (!by_offset || !by_first || !by_last || !plan)
                return sv_fail(why, "%s: out of memory", name);
        if (!n)
                return 0;
        memcpy(by_offset, pack->buffers, n * sizeof(*by_offset));
        qsort(by_offset, n, sizeof(*by_offset), order_offsets);
        for (uint32_t i = 0; i < n; i++)
                by_first[i] = by_last[i] = i;
        qsort_r(by_first, n, sizeof(*by_first), order_first, by_offset);
        qsort_r(by_last, n, sizeof(*by_last), order_last, by_offset);
        plan->by_offset = by_offset;
        plan->by_first = by_first;
        plan->by_last = by_last;
        return check_plan(plan, n, name, why);
}

int sv_pack_whole(const struct sv_pack *pack, const char *name, struct sv_why *why)
{
        return check_inputs(pack, name, why) || check_cases(pack, name, why) || check_buffers(pack, name, why) ? -1 : 0;
}

uint64_t sv_pack_input_bytes(const struct sv_pack *pack)
{
        uint64_t n = 0;

        for (uint32_t i = 0; i < pack->n_inputs; i++)
                n += pack->inputs[i].bytes;
        return n;
}

uint64_t sv_pack_output_bytes(const struct sv_pack *pack)
{
        uint64_t n = 0;

        for (uint32_t i = 0; i < pack->n_outputs; i++)
                n += pack->outputs[i].bytes;
        return n;
}
