/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/seen.h"

#include <stdio.h>
#include <string.h>

#include "sched/internal.h"
#include "util/alloc.h"
#include "util/macro.h"

int ds_seen_note(ds_sched *sched, const struct ds_op *op)
{
        struct ds_seen *seen = &sched->seen;
        struct ds_sched_seen *note;

        if (!seen->notes)
                seen->notes = ds_alloc0(DS_SEEN_MAX, sizeof(*seen->notes));
        if (!seen->notes || seen->n == DS_SEEN_MAX)
                return 0;
        note = &seen->notes[(seen->first + seen->n++) % DS_SEEN_MAX];
        *note = (struct ds_sched_seen){.key = op->kernel_key};
        if (op->kind == DS_OP_GRAPH) {
                note->n_kernels = op->graph->n_kernels;
                snprintf(note->name, sizeof(note->name), "graph of %u kernels", op->graph->n_kernels);
                return 1;
        }
        memcpy(note->grid, op->launch.grid, sizeof(note->grid));
        memcpy(note->block, op->launch.block, sizeof(note->block));
        note->shared_bytes = op->launch.shared_bytes;
        snprintf(note->name, sizeof(note->name), "%s", sched->ops->kernel_info(op->launch.kernel)->name);
        return 1;
}

size_t ds_sched_seen(ds_sched *sched, struct ds_sched_seen *ret, size_t n)
{
        struct ds_seen *seen = &sched->seen;
        size_t i;

        for (i = 0; i < n && seen->n; i++, seen->n--) {
                ret[i] = seen->notes[seen->first];
                seen->first = (seen->first + 1) % DS_SEEN_MAX;
        }
        return i;
}

void ds_seen_deinit(struct ds_seen *seen)
{
        seen->notes = ds_free(seen->notes);
}
