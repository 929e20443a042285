/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptions of kernels that come with an answer about another kernel or about their module
 *
 * An answer describes up to a hundred kernels, and a program launches few of them. So the bytes of the answer are kept
 * as they are, and a description is read when a program looks up its kernel. Positions and sizes in it are checked as
 * if the daemon could err, because a launch copies parameters by them.
 */
#include <stdlib.h>
#include <string.h>

#include "core/internal.h"

/* The description at a position, or NULL: there is none, or it does not fit into the bytes. */
static const struct ds_described *description(const struct dsc_described *described, size_t at)
{
        const struct ds_described *d = (const struct ds_described *)(const void *)(described->bytes + at);
        const size_t left = described->size - at;
        if (left < sizeof(*d) || d->bytes < sizeof(*d) || d->bytes > left || d->bytes % 8)
                return NULL;
        const size_t rest = d->bytes - sizeof(*d);
        if (d->n_params > rest / sizeof(struct ds_described_param) ||
                d->name_bytes >= rest - d->n_params * sizeof(struct ds_described_param))
                return NULL;
        const char *name = (const char *)(d + 1) + d->n_params * sizeof(struct ds_described_param);
        return name[d->name_bytes] ? NULL : d;
}

static const struct ds_described_param *params_of(const struct ds_described *d)
{
        return (const struct ds_described_param *)(d + 1);
}

static const char *name_of(const struct ds_described *d)
{
        return (const char *)(params_of(d) + d->n_params);
}

struct dsc_described *dsc__described(const ProtobufCBinaryData *from)
{
        struct dsc_described *described = from->len ? malloc(sizeof(*described) + from->len) : NULL;
        if (!described)
                return NULL;
        *described = (struct dsc_described){.size = from->len};
        memcpy(described->bytes, from->data, from->len);
        const struct ds_described *d;
        for (size_t at = 0; (d = description(described, at)); at += d->bytes)
                described->n_left++;
        return described;
}

/* 1: the parameter table is valid. Every launch copies parameters by its offsets and sizes into a block of
 * params_size. */
static bool params_fit(const struct ds_described *d)
{
        const struct ds_described_param *params = params_of(d);
        bool fit = d->params_size <= DS_RECORD_PARAMS_MAX;
        for (size_t i = 0; i < d->n_params && fit; i++)
                fit = params[i].size <= d->params_size && params[i].offset <= d->params_size - params[i].size;
        return fit;
}

static int take(const struct ds_described *d, struct dsc_kernel *ret)
{
        struct dsc_kernel k = {
                .id = d->kernel,
                .name = strdup(name_of(d)),
                .n_params = d->n_params,
                .params = calloc((size_t)d->n_params + 1, sizeof(*k.params)),
                .params_size = d->params_size,
                .max_threads = d->max_threads,
                .static_shared = d->static_shared,
                .local_bytes = d->local_bytes,
                .const_bytes = d->const_bytes,
                .registers = d->registers,
                .ptx_version = d->ptx_version,
                .binary_version = d->binary_version,
                .cluster = {d->cluster[0], d->cluster[1], d->cluster[2]},
                .cluster_max = d->cluster_max,
                .cluster_explicit = d->cluster_explicit,
                .blocks_are_clusters = d->blocks_are_clusters,
        };
        if (!k.name || !k.params) {
                dsc_kernel_clear(&k);
                return DSC__OUT_OF_MEMORY;
        }
        for (uint32_t i = 0; i < k.n_params; i++)
                k.params[i] = (struct dsc_param){.offset = params_of(d)[i].offset, .size = params_of(d)[i].size};
        *ret = k;
        return 0;
}

/* Looks for the name from `at` on, up to `end`. Returns the size of the bytes if it is not there. */
static size_t find(const struct dsc_described *described, size_t at, size_t end, const char *name, size_t name_bytes)
{
        const struct ds_described *d;
        for (; at < end && (d = description(described, at)); at += d->bytes)
                if (d->name_bytes == name_bytes && !memcmp(name_of(d), name, name_bytes))
                        return at;
        return described->size;
}

int dsc_described_find(struct dsc_described *described, const char *name, struct dsc_kernel *ret)
{
        const size_t name_bytes = strlen(name);
        size_t at = find(described, described->at, described->size, name, name_bytes);
        if (at == described->size)
                at = find(described, 0, described->at, name, name_bytes);
        const struct ds_described *d = at < described->size ? description(described, at) : NULL;
        if (!d || !params_fit(d))
                return -1;
        const int r = take(d, ret);
        if (r)
                return r;
        described->at = at + d->bytes;
        described->n_left -= described->n_left > 0;
        return 0;
}
