/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, kernels and globals
 *
 * An image travels as the file that contains it (mapped.c), or as a memory file with a copy. The daemon copies what it
 * reads, so the file may change later. Addresses of globals are added to the table of allocations, so that libcuda
 * recognises them like any other device memory.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/internal.h"

#define NAMES_MAX 65536u /* most names in a list, if a daemon never sends the last page */

static void put_log(char *log, size_t log_size, const char *words)
{
        if (log && log_size)
                snprintf(log, log_size, "%s", words);
}

int dsc_module_unload(dsc_session *s, uint64_t module)
{
        Detshare__ModuleUnload unload = DETSHARE__MODULE_UNLOAD__INIT;
        unload.module = module;
        Detshare__Request request = DSC__REQUEST(MODULE_UNLOAD, module_unload, &unload);
        int r = dsc__usable(s);
        if (r)
                return r;
        r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
        dsc_output(s);
        if (!r)
                dsc__table_drop_module(s, module);
        return r;
}

/* --- kernels --- */

void dsc_kernel_clear(struct dsc_kernel *kernel)
{
        free(kernel->name);
        free(kernel->params);
        *kernel = (struct dsc_kernel){.name = NULL};
}

/* 1: the parameter table is valid. Every launch copies parameters by its offsets and sizes into a block of
 * params_size. */
static bool params_fit(const Detshare__KernelReply *reply)
{
        bool fit = reply->params_size <= DS_RECORD_PARAMS_MAX;
        for (size_t i = 0; i < reply->n_params && fit; i++) {
                const Detshare__KernelParam *p = reply->params[i];
                fit = p->size <= reply->params_size && p->offset <= reply->params_size - p->size;
        }
        return fit;
}

static int take_kernel(const Detshare__KernelReply *reply, struct dsc_kernel *ret)
{
        if (!params_fit(reply)) {
                dsc__message("the daemon's description of kernel %s is invalid", reply->name);
                return DETSHARE__STATUS__INTERNAL;
        }
        struct dsc_kernel k = {
                .id = reply->kernel,
                .name = strdup(reply->name),
                .n_params = (uint32_t)reply->n_params,
                .params = calloc(reply->n_params + 1, sizeof(*k.params)),
                .params_size = reply->params_size,
                .max_threads = reply->max_threads,
                .static_shared = reply->static_shared,
                .local_bytes = reply->local_bytes,
                .const_bytes = reply->const_bytes,
                .registers = reply->registers,
                .ptx_version = reply->ptx_version,
                .binary_version = reply->binary_version,
                .cluster = {reply->cluster_x, reply->cluster_y, reply->cluster_z},
                .cluster_max = reply->cluster_max,
                .cluster_explicit = (uint32_t)reply->cluster_explicit,
                .blocks_are_clusters = (uint32_t)reply->blocks_are_clusters,
        };
        if (!k.name || !k.params) {
                dsc_kernel_clear(&k);
                return DSC__OUT_OF_MEMORY;
        }
        for (uint32_t i = 0; i < k.n_params; i++)
                k.params[i] = (struct dsc_param){.offset = reply->params[i]->offset, .size = reply->params[i]->size};
        *ret = k;
        return 0;
}

/* --- loading --- */

int dsc_module_open(dsc_session *s, const struct dsc_load *load, struct dsc_loaded *ret)
{
        int fd = -1;
        Detshare__ModuleLoad message = DETSHARE__MODULE_LOAD__INIT;
        put_log(load->log, load->log_size, "");
        int r = dsc__usable(s);
        if (!r && !load->size)
                r = DSC__INVALID_VALUE;
        if (!r) {
                fd = dsc__mapped(load->image, load->size, &message.offset);
                r = fd < 0 ? dsc__sealed_file("detshare-image", load->image, load->size,
                                     F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, &fd)
                           : 0;
        }
        if (r)
                return r;
        message.bytes = load->size;
        message.max_registers = load->max_registers;
        message.optimization = load->optimization;
        Detshare__Request request = DSC__REQUEST(MODULE_LOAD, module_load, &message);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        dsc_output(s);
        dsc__message_clear();
        r = dsc__call(s, &request, fd, DETSHARE__REPLY__RESULT_MODULE_LOAD, &answer);
        close(fd);
        if (r) {
                put_log(load->log, load->log_size, dsc_message());
                return r;
        }
        put_log(load->log, load->log_size, answer.reply->module_load->log);
        *ret = (struct dsc_loaded){.module = answer.reply->module_load->module,
                .described = dsc__described(&answer.reply->module_load->described)};
        dsc__answer_clear(&answer);
        return 0;
}

int dsc_module_load(dsc_session *s, const void *image, size_t size, char *log, size_t log_size, uint64_t *ret_module)
{
        const struct dsc_load load = {.image = image, .size = size, .log = log, .log_size = log_size};
        struct dsc_loaded loaded;
        const int r = dsc_module_open(s, &load, &loaded);
        if (r)
                return r;
        free(loaded.described);
        *ret_module = loaded.module;
        return 0;
}

int dsc_kernel_get_more(
        dsc_session *s, uint64_t module, const char *name, struct dsc_kernel *ret, struct dsc_described **ret_more)
{
        *ret_more = NULL;
        Detshare__GetKernel get = DETSHARE__GET_KERNEL__INIT;
        get.module = module;
        get.name = (char *)name;
        Detshare__Request request = DSC__REQUEST(GET_KERNEL, get_kernel, &get);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_GET_KERNEL, &answer);
        if (r)
                return r;
        r = take_kernel(answer.reply->get_kernel, ret);
        if (!r)
                *ret_more = dsc__described(&answer.reply->described);
        dsc__answer_clear(&answer);
        return r;
}

int dsc_kernel_get(dsc_session *s, uint64_t module, const char *name, struct dsc_kernel *ret)
{
        struct dsc_described *more;
        int r = dsc_kernel_get_more(s, module, name, ret, &more);
        free(more);
        return r;
}

int dsc_kernel_clusters(dsc_session *s, uint64_t kernel, const uint32_t cluster[3], uint32_t block_threads,
        uint32_t shared_bytes, uint32_t *ret_clusters)
{
        Detshare__CountClusters count = DETSHARE__COUNT_CLUSTERS__INIT;
        count.kernel = kernel;
        count.cluster_x = cluster[0];
        count.cluster_y = cluster[1];
        count.cluster_z = cluster[2];
        count.block_threads = block_threads;
        count.shared_bytes = shared_bytes;
        Detshare__Request request = DSC__REQUEST(COUNT_CLUSTERS, count_clusters, &count);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_COUNT_CLUSTERS, &answer);
        if (r)
                return r;
        *ret_clusters = answer.reply->count_clusters->clusters;
        dsc__answer_clear(&answer);
        return 0;
}

static int add_names(const Detshare__KernelList *list, char ***names, size_t *n)
{
        char **more = reallocarray(*names, *n + list->n_names + 1, sizeof(*more));
        if (!more)
                return DSC__OUT_OF_MEMORY;
        *names = more;
        for (size_t i = 0; i < list->n_names; i++) {
                more[*n] = strdup(list->names[i]);
                if (!more[*n])
                        return DSC__OUT_OF_MEMORY;
                ++*n;
        }
        return 0;
}

int dsc_kernel_names(dsc_session *s, uint64_t module, char ***ret_names, size_t *ret_n)
{
        char **names = NULL;
        size_t n = 0;
        bool more = true;
        int r = 0;
        while (!r && more && n < NAMES_MAX) {
                Detshare__ListKernels list = DETSHARE__LIST_KERNELS__INIT;
                list.module = module;
                list.after = (uint32_t)n;
                Detshare__Request request = DSC__REQUEST(LIST_KERNELS, list_kernels, &list);
                struct dsc__answer answer = DSC__ANSWER_NULL;
                r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_LIST_KERNELS, &answer);
                if (r)
                        break;
                more = answer.reply->list_kernels->more && answer.reply->list_kernels->n_names > 0;
                r = add_names(answer.reply->list_kernels, &names, &n);
                dsc__answer_clear(&answer);
        }
        if (r) {
                while (n > 0)
                        free(names[--n]);
                free(names);
                return r;
        }
        *ret_names = names;
        *ret_n = n;
        return 0;
}

int dsc_global_get(dsc_session *s, uint64_t module, const char *name, uint64_t *ret_address, uint64_t *ret_bytes)
{
        Detshare__GetGlobal get = DETSHARE__GET_GLOBAL__INIT;
        get.module = module;
        get.name = (char *)name;
        Detshare__Request request = DSC__REQUEST(GET_GLOBAL, get_global, &get);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_GET_GLOBAL, &answer);
        if (r)
                return r;
        const struct dsc__range range = {
                .base = answer.reply->get_global->address,
                .size = answer.reply->get_global->bytes,
                .kind = DSC__RANGE_GLOBAL,
                .module = module,
        };
        dsc__answer_clear(&answer);
        r = range.size ? dsc__table_add(s, &range) : 0;
        if (r)
                return r;
        *ret_address = range.base;
        *ret_bytes = range.size;
        return 0;
}
