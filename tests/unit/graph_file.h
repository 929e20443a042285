/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes files of graphs (proto/wire.h) for tests
 */
#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/wire.h"

struct gf {
        uint64_t bytes;
        uint32_t n;
        _Alignas(8) uint8_t at[DS_GRAPH_BYTES_MAX / 64];
};

static inline void gf_begin(struct gf *f)
{
        memset(f, 0, sizeof(f->bytes) + sizeof(f->n));
        f->bytes = sizeof(struct ds_graph_file);
}

/* Adds a node to the file. Returns the node, so that the caller can change its fields. */
static inline struct ds_graph_node *gf_add(
        struct gf *f, const void *record, uint32_t size, const uint32_t *deps, uint32_t n_deps, uint32_t flags)
{
        struct ds_graph_node *node = (void *)(f->at + f->bytes);
        uint32_t deps_end = (uint32_t)(sizeof(*node) + n_deps * sizeof(*deps));

        node->record_offset = (deps_end + 7) / 8 * 8;
        node->n_deps = n_deps;
        node->flags = flags;
        node->size = (node->record_offset + size + 7) / 8 * 8;
        memset(node + 1, 0, node->size - sizeof(*node));
        if (n_deps)
                memcpy(node + 1, deps, n_deps * sizeof(*deps));
        memcpy((uint8_t *)node + node->record_offset, record, size);
        f->bytes += node->size;
        f->n++;
        return node;
}

/* Adds a launch of a kernel with an address and a number as parameters; it depends on the previous node. */
static inline void gf_poke(struct gf *f, uint64_t kernel, uint64_t p, uint32_t value)
{
        struct {
                struct ds_record_launch launch;
                uint64_t p;
                uint32_t value;
        } r = {
                .launch = {.head = {DS_RECORD_LAUNCH, 0, sizeof(r.launch) + 12},
                        .kernel = kernel,
                        .grid = {1, 1, 1},
                        .block = {1, 1, 1},
                        .params_size = 12},
                .p = p,
                .value = value,
        };
        uint32_t dep = f->n - 1;

        gf_add(f, &r, r.launch.head.size, &dep, f->n ? 1 : 0, 0);
}

static inline void gf_copy(struct gf *f, uint64_t dst, uint64_t src, uint64_t bytes)
{
        struct ds_record_copy r = {
                .head = {DS_RECORD_COPY, 0, sizeof(r)}, .kind = 2, .dst = dst, .src = src, .width = bytes, .height = 1};
        uint32_t dep = f->n - 1;

        gf_add(f, &r, sizeof(r), &dep, f->n ? 1 : 0, 0);
}

static inline void gf_memset(struct gf *f, uint64_t dst, uint32_t value, uint64_t n)
{
        struct ds_record_memset r = {.head = {DS_RECORD_MEMSET, 0, sizeof(r)},
                .value = value,
                .element_size = 4,
                .dst = dst,
                .width = n,
                .height = 1};
        uint32_t dep = f->n - 1;

        gf_add(f, &r, sizeof(r), &dep, f->n ? 1 : 0, 0);
}

static inline void gf_event(struct gf *f, uint64_t event)
{
        struct ds_record_event r = {.head = {DS_RECORD_EVENT, 0, sizeof(r)}, .event = event};
        uint32_t dep = f->n - 1;

        gf_add(f, &r, sizeof(r), &dep, f->n ? 1 : 0, 0);
}

static inline void gf_end(struct gf *f)
{
        struct ds_graph_file *header = (void *)f->at;

        header->version = DS_WIRE_VERSION;
        header->n_nodes = f->n;
        header->bytes = f->bytes;
}

static inline int gf_fd(const struct gf *f)
{
        int fd = memfd_create("graph", MFD_CLOEXEC);

        if (fd >= 0 && write(fd, f->at, f->bytes) != (ssize_t)f->bytes) {
                close(fd);
                fd = -1;
        }
        return fd;
}
