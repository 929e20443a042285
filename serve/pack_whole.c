/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the whole manifest can show
 *
 * Inputs are copied in one after the other before a run, so no two of them share bytes. Buffers may share bytes but not
 * at the same time: they are walked in the order of their first launches, with those that are still in use sorted by
 * their offset, so that a new one needs to be compared with its two neighbours only.
 */
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

static int by_first(const void *a, const void *b)
{
        const struct sv_buffer *x = a, *y = b;

        return x->first != y->first ? (x->first < y->first ? -1 : 1) : 0;
}

struct live {
        const struct sv_buffer **list; /* by offset */
        uint32_t n;
};

static void drop_old(struct live *live, uint32_t now)
{
        uint32_t kept = 0;

        for (uint32_t i = 0; i < live->n; i++)
                if (live->list[i]->last >= now)
                        live->list[kept++] = live->list[i];
        live->n = kept;
}

static int overlap(const struct sv_buffer *a, const struct sv_buffer *b)
{
        return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Returns the one that it shares bytes with, or NULL. */
static const struct sv_buffer *add(struct live *live, const struct sv_buffer *buffer)
{
        uint32_t low = 0, high = live->n;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (live->list[middle]->offset < buffer->offset)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low < live->n && overlap(live->list[low], buffer))
                return live->list[low];
        if (low > 0 && overlap(live->list[low - 1], buffer))
                return live->list[low - 1];
        memmove(live->list + low + 1, live->list + low, (live->n - low) * sizeof(*live->list));
        live->list[low] = buffer;
        live->n++;
        return NULL;
}

static int check_sorted(
        const struct sv_buffer *sorted, uint32_t n, struct live *live, const char *name, struct sv_why *why)
{
        for (uint32_t i = 0; i < n; i++) {
                const struct sv_buffer *other;

                if (!i || sorted[i].first != sorted[i - 1].first)
                        drop_old(live, sorted[i].first);
                other = add(live, &sorted[i]);
                if (other)
                        return sv_fail(why,
                                "%s: the buffers at %llu and %llu share bytes of the arena and both are in use in "
                                "launch %u",
                                name, (unsigned long long)other->offset, (unsigned long long)sorted[i].offset,
                                sorted[i].first);
        }
        return 0;
}

static int check_buffers(const struct sv_pack *pack, const char *name, struct sv_why *why)
{
        ds_cleanup(ds_freep) struct sv_buffer *sorted = ds_alloc0(pack->n_buffers, sizeof(*sorted));
        ds_cleanup(ds_freep) const struct sv_buffer **list = ds_alloc0(pack->n_buffers, sizeof(struct sv_buffer *));
        struct live live = {.list = list};

        if (!sorted || !list)
                return sv_fail(why, "%s: out of memory", name);
        if (!pack->n_buffers)
                return 0;
        memcpy(sorted, pack->buffers, pack->n_buffers * sizeof(*sorted));
        qsort(sorted, pack->n_buffers, sizeof(*sorted), by_first);
        return check_sorted(sorted, pack->n_buffers, &live, name, why);
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
