/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds files of graphs for tests that use the client core: chains of launches of one kernel
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "proto/wire.h"

/* Makes the file of a chain of n launches; launch i has the parameters at params + i * size. The result is
 * malloc'ed. */
static inline void *graph_chain(const struct dsc_kernel *kernel, uint32_t grid, uint32_t block, uint32_t n,
        const void *params, uint32_t size, size_t *ret_bytes)
{
        const uint32_t offset = sizeof(struct ds_graph_node) + 8;
        const uint32_t one = (uint32_t)((offset + sizeof(struct ds_record_launch) + size + 7) / 8 * 8);
        uint8_t *file = calloc(1, sizeof(struct ds_graph_file) + (size_t)n * one), *at = file;

        *ret_bytes = sizeof(struct ds_graph_file) + (size_t)n * one;
        *(struct ds_graph_file *)at =
                (struct ds_graph_file){.version = DS_WIRE_VERSION, .n_nodes = n, .bytes = *ret_bytes};
        at += sizeof(struct ds_graph_file);
        for (uint32_t i = 0; i < n; i++, at += one) {
                uint32_t before = i - 1;

                *(struct ds_graph_node *)at =
                        (struct ds_graph_node){.size = one, .n_deps = i != 0, .record_offset = offset};
                memcpy(at + sizeof(struct ds_graph_node), &before, i ? sizeof(before) : 0);
                *(struct ds_record_launch *)(at + offset) = (struct ds_record_launch){
                        .head = {DS_RECORD_LAUNCH, 0, (uint32_t)sizeof(struct ds_record_launch) + size},
                        .kernel = kernel->id,
                        .grid = {grid, 1, 1},
                        .block = {block, 1, 1},
                        .params_size = size,
                };
                memcpy(at + offset + sizeof(struct ds_record_launch), (const uint8_t *)params + (size_t)i * size, size);
        }
        return file;
}

/* Launches a graph of graph_chain(), with the same arguments, after changing the parameters of all its launches. */
static inline int graph_change_launch(dsc_session *s, uint32_t stream, uint64_t graph, const struct dsc_kernel *kernel,
        uint32_t grid, uint32_t block, uint32_t n, const void *params, uint32_t size)
{
        const uint32_t offset = sizeof(struct ds_graph_change) + sizeof(struct ds_record_launch);
        const uint32_t one = (offset + size + 7) / 8 * 8;
        uint8_t *changes = calloc(n, one), *at = changes;
        int r;

        for (uint32_t i = 0; i < n; i++, at += one) {
                *(struct ds_graph_change *)at = (struct ds_graph_change){i, one};
                *(struct ds_record_launch *)(at + sizeof(struct ds_graph_change)) = (struct ds_record_launch){
                        .head = {DS_RECORD_LAUNCH, 0, (uint32_t)sizeof(struct ds_record_launch) + size},
                        .kernel = kernel->id,
                        .grid = {grid, 1, 1},
                        .block = {block, 1, 1},
                        .params_size = size,
                };
                memcpy(at + offset, (const uint8_t *)params + (size_t)i * size, size);
        }
        r = dsc_graph_change_launch(s, stream, graph, changes, (size_t)n * one, NULL);
        free(changes);
        return r;
}

static inline int graph_make(dsc_session *s, const struct dsc_kernel *kernel, uint32_t grid, uint32_t block, uint32_t n,
        const void *params, uint32_t size, uint64_t *graph)
{
        size_t bytes;
        void *file = graph_chain(kernel, grid, block, n, params, size, &bytes);
        int r = *graph ? dsc_graph_update(s, *graph, file, bytes) : dsc_graph_create(s, file, bytes, graph);

        free(file);
        return r;
}
