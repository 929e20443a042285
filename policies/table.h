/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy's memory of sessions and kernels, with a bounded size
 *
 * A table has a fixed number of rows in the policy's state; an id is found in a set of eight. Rows are never removed: a
 * new id in a full set gets the row that was used longest ago, zeroed. So a session that is gone costs nothing and is
 * overwritten in time. More sessions than rows cost a policy its memory of some of them, never its correctness.
 */
#pragma once

#include <string.h>

#include "policies/detshare_policy.h"

#define TABLE_WAYS 8u
#define TABLE_SESSIONS 256u
#define TABLE_KERNELS 4096u

/* First member of every row. */
struct table_row {
        uint64_t id;
        uint64_t used_ns; /* time of the last use + 1, ns; 0: free row */
};

static inline struct table_row *table_row(void *rows, size_t size, uint32_t i)
{
        return (struct table_row *)((char *)rows + size * i);
}

/* The row of an id in a table of n rows (a multiple of TABLE_WAYS): the existing row, or a zeroed one that now
 * belongs to the id. */
static inline void *table_take(void *rows, size_t size, uint32_t n, uint64_t id, uint64_t now_ns)
{
        uint32_t set = (uint32_t)((id * 0x9e3779b97f4a7c15ull) >> 32) % (n / TABLE_WAYS) * TABLE_WAYS;
        struct table_row *oldest = table_row(rows, size, set);

        for (uint32_t i = set; i < set + TABLE_WAYS; i++) {
                struct table_row *row = table_row(rows, size, i);

                if (row->used_ns && row->id == id) {
                        row->used_ns = now_ns + 1;
                        return row;
                }
                if (row->used_ns < oldest->used_ns)
                        oldest = row;
        }
        memset(oldest, 0, size);
        *oldest = (struct table_row){.id = id, .used_ns = now_ns + 1};
        return oldest;
}
#define TABLE_TAKE(rows, id, now_ns) \
        table_take((rows), sizeof((rows)[0]), sizeof(rows) / sizeof((rows)[0]), (id), (now_ns))
