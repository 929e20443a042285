/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about code
 *
 * The helper has checked the image of a ModuleLoad, and the device parses it again. From the request to unload on,
 * launches of the module's kernels are refused; it is unloaded when the work submitted by then has ended. Kernels of a
 * large module are loaded when a client looks them up by name, in a quiesce if necessary. A launch of a kernel not
 * loaded fails as for an unknown kernel.
 */
#include <string.h>

#include "device/cluster.h"
#include "worker/internal.h"

#define MODULE_NAMES_MAX 128u             /* kernel names per page of an answer */
#define MODULE_NAME_BYTES_MAX (48u << 10) /* bytes of names per page, so that it fits a client's frame */
#define MODULE_PARAMS_MAX 4096u
#define MODULE_ENTRIES_MAX 64u             /* kernels returned with their module */
#define MODULE_ENTRY_PARAMS_MAX 1024u      /* parameters of all kernels returned with their module */
#define MODULE_ENTRY_BYTES_MAX (24u << 10) /* bytes of the names of all kernels returned with their module */

/* Fills in a kernel's description for the client. `params` and `pointers` have room for the kernel's parameters;
 * both belong to the caller. */
static void module_describe(const struct dsw_module *module, uint32_t index, Detshare__KernelParam *params,
        Detshare__KernelParam **pointers, Detshare__KernelReply *ret)
{
        const struct ds_kernel_info *info = module->kernels[index].info;

        for (uint32_t i = 0; i < info->n_params; i++) {
                params[i] = (Detshare__KernelParam)DETSHARE__KERNEL_PARAM__INIT;
                params[i].offset = info->params[i].offset;
                params[i].size = info->params[i].size;
                pointers[i] = &params[i];
        }
        *ret = (Detshare__KernelReply)DETSHARE__KERNEL_REPLY__INIT;
        ret->kernel = dsw_module_kernel_id(module, index);
        ret->name = (char *)(uintptr_t)info->name;
        ret->params = pointers;
        ret->n_params = info->n_params;
        ret->params_size = info->params_size;
        ret->max_threads = info->max_threads;
        ret->static_shared = info->static_shared;
        ret->local_bytes = info->local_bytes;
        ret->const_bytes = info->const_bytes;
        ret->registers = info->registers;
        ret->ptx_version = info->ptx_version;
        ret->binary_version = info->binary_version;
        ret->cluster_x = info->cluster[0];
        ret->cluster_y = info->cluster[1];
        ret->cluster_z = info->cluster[2];
        ret->cluster_max = info->cluster_max;
        ret->cluster_explicit = info->cluster_explicit;
        ret->blocks_are_clusters = info->blocks_are_clusters;
}

/* All kernels of a small module, returned with it to save single look-ups. */
struct module_entries {
        Detshare__KernelReply kernels[MODULE_ENTRIES_MAX], *pointers[MODULE_ENTRIES_MAX];
        Detshare__KernelParam params[MODULE_ENTRY_PARAMS_MAX], *param_pointers[MODULE_ENTRY_PARAMS_MAX];
};

static int module_is_small(const ds_worker *worker, const struct dsw_module *module)
{
        size_t params = 0, bytes = 0;

        if (module->n_kernels > MODULE_ENTRIES_MAX)
                return 0;
        for (uint32_t i = 0; i < module->n_kernels; i++) {
                if (!dsw_module_kernel_loaded(worker, &module->kernels[i]))
                        return 0;
                params += module->kernels[i].info->n_params;
                bytes += strlen(module->kernels[i].info->name);
        }
        return params <= MODULE_ENTRY_PARAMS_MAX && bytes <= MODULE_ENTRY_BYTES_MAX;
}

static void module_entries_fill(const ds_worker *worker, const struct dsw_module *module,
        struct module_entries *entries, Detshare__ModuleReply *reply)
{
        size_t at = 0;

        if (!module_is_small(worker, module))
                return;
        for (uint32_t i = 0; i < module->n_kernels; i++) {
                module_describe(module, i, entries->params + at, entries->param_pointers + at, &entries->kernels[i]);
                entries->pointers[i] = &entries->kernels[i];
                at += module->kernels[i].info->n_params;
        }
        reply->entries = entries->pointers;
        reply->n_entries = module->n_kernels;
}

enum dsw_outcome dsw_calls_module_load(struct dsw_call *call, const Detshare__Request *request)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Module note = DETSHARE__INTERNAL__MODULE__INIT;
        Detshare__ModuleReply result = DETSHARE__MODULE_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        const ds_worker *worker = call->session->worker;
        struct module_entries entries;
        char log[DSW_MESSAGE_MAX];
        struct dsw_module *module;
        int r;

        r = dsw_module_load(call->session, 0, call->fd, request->module_load->bytes, log, sizeof(log), &module);
        if (r == DSW_WORK_E_STALLED)
                return DSW_STALLED;
        if (r)
                return dsw_call_fail(call, r, "%s", log[0] ? log : "the module cannot be loaded");
        result.module = note.module = module->id;
        result.kernels = module->n_kernels;
        result.writable_globals = note.writable_globals = worker->ops->module_has_globals(module->device) != 0;
        result.log = log;
        module_entries_fill(worker, module, &entries, &result);
        ledger.module_added = &note;
        reply.result_case = DETSHARE__REPLY__RESULT_MODULE_LOAD;
        reply.module_load = &result;
        dsw_call_reply(call, &reply, &ledger, NULL, 0, 0);
        return DSW_ANSWERED;
}

static enum dsw_outcome module_unknown(struct dsw_call *call, uint64_t id)
{
        return dsw_call_fail(call, DS_CUDA_INVALID_HANDLE, "no module %#llx", (unsigned long long)id);
}

static void module_finish_unload(struct dsw_call *call)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        struct dsw_module *module;

        module = dsw_module_find_closing(call->session, call->address);
        ledger.module_removed = call->address;
        if (module)
                dsw_module_unload(call->session, module);
        dsw_call_reply(call, NULL, &ledger, NULL, 0, 0);
}

enum dsw_outcome dsw_calls_module_unload(struct dsw_call *call, const Detshare__Request *request)
{
        uint64_t id = request->module_unload->module;
        struct dsw_module *module = dsw_module_find(call->session, id);

        if (!module)
                return module_unknown(call, id);
        module->closing = 1;
        dsw_graph_taken(call->session);
        call->address = id;
        call->target = call->session->op_index;
        return dsw_call_park(call, dsw_call_session_ended, module_finish_unload);
}

static enum dsw_outcome module_reply_kernel(struct dsw_call *call, const struct dsw_module *module, uint32_t index)
{
        const struct ds_kernel_info *info = module->kernels[index].info;
        Detshare__KernelParam params[MODULE_PARAMS_MAX], *pointers[MODULE_PARAMS_MAX];
        Detshare__KernelReply result;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        int r = dsw_module_kernel_load(call->session, &module->kernels[index]);

        if (r == DSW_WORK_E_STALLED)
                return DSW_STALLED;
        if (r)
                return dsw_call_fail(call, r, "the kernel cannot be loaded");
        if (info->n_params > MODULE_PARAMS_MAX)
                return dsw_call_fail(call, DS_CUDA_NOT_SUPPORTED, "the kernel has %u parameters", info->n_params);
        module_describe(module, index, params, pointers, &result);
        reply.result_case = DETSHARE__REPLY__RESULT_GET_KERNEL;
        reply.get_kernel = &result;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}

enum dsw_outcome dsw_calls_get_kernel(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__GetKernel *get = request->get_kernel;
        struct dsw_module *module = dsw_module_find(call->session, get->module);

        if (!module)
                return module_unknown(call, get->module);
        for (uint32_t i = 0; i < module->n_kernels; i++) {
                if (!strcmp(module->kernels[i].info->name, get->name))
                        return module_reply_kernel(call, module, i);
        }
        return dsw_call_fail(call, DS_CUDA_NOT_FOUND, "no kernel \"%.200s\" in the module", get->name);
}

enum dsw_outcome dsw_calls_get_global(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__GetGlobal *get = request->get_global;
        struct dsw_module *module = dsw_module_find(call->session, get->module);
        const ds_worker *worker = call->session->worker;
        Detshare__GlobalReply result = DETSHARE__GLOBAL_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        if (!module)
                return module_unknown(call, get->module);
        if (worker->ops->global_find(module->device, get->name, &result.address, &result.bytes))
                return dsw_call_fail(call, DS_CUDA_NOT_FOUND, "no global \"%.200s\" in the module", get->name);
        if (dsw_module_note_global(module, result.address, result.bytes))
                return dsw_call_fail(call, DETSHARE__STATUS__INTERNAL, "the daemon is out of memory");
        reply.result_case = DETSHARE__REPLY__RESULT_GET_GLOBAL;
        reply.get_global = &result;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}

enum dsw_outcome dsw_calls_list_kernels(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__ListKernels *list = request->list_kernels;
        struct dsw_module *module = dsw_module_find(call->session, list->module);
        Detshare__KernelList result = DETSHARE__KERNEL_LIST__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        char *names[MODULE_NAMES_MAX];
        size_t bytes = 0;
        uint32_t i;

        if (!module)
                return module_unknown(call, list->module);
        for (i = list->after; i < module->n_kernels && result.n_names < MODULE_NAMES_MAX; i++) {
                bytes += strlen(module->kernels[i].info->name) + 4;
                if (bytes > MODULE_NAME_BYTES_MAX && result.n_names)
                        break;
                names[result.n_names++] = (char *)(uintptr_t)module->kernels[i].info->name;
        }
        result.names = names;
        result.more = i < module->n_kernels;
        reply.result_case = DETSHARE__REPLY__RESULT_LIST_KERNELS;
        reply.list_kernels = &result;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}

/* Checks a launch whose possible number of clusters the client wants to know. Its cluster may be too large to run:
 * libraries find the largest size of the GPU that way. */
static int check_counted(const ds_worker *worker, const struct ds_kernel_info *kernel, const struct ds_launch *launch,
        const char **ret_why)
{
        struct ds_launch without = *launch;
        uint32_t cluster[3];
        uint64_t grid[3];

        if (!kernel->cluster[0] && !kernel->cluster_explicit && launch->cluster[0]) {
                memset(without.grid, 0, sizeof(without.grid));
                memset(without.cluster, 0, sizeof(without.cluster));
                without.grid[0] = without.grid[1] = without.grid[2] = 1;
                if (ds_device_cluster_within(
                            kernel, DS_DEVICE_CLUSTER_ASKED, launch->cluster, launch->cluster, cluster, grid)) {
                        *ret_why = "a cluster of this size is invalid, so it cannot be counted";
                        return DS_CUDA_INVALID_CLUSTER_SIZE;
                }
        }
        return dsw_check_launch(&worker->limits, kernel, &without, ret_why);
}

enum dsw_outcome dsw_calls_count_clusters(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__CountClusters *ask = request->count_clusters;
        const ds_worker *worker = call->session->worker;
        const struct dsw_kernel *kernel = dsw_module_kernel(call->session, ask->kernel);
        struct ds_launch launch = {.grid = {ask->cluster_x, ask->cluster_y, ask->cluster_z},
                .block = {ask->block_threads, 1, 1},
                .cluster = {ask->cluster_x, ask->cluster_y, ask->cluster_z},
                .shared_bytes = ask->shared_bytes};
        Detshare__ClusterCount result = DETSHARE__CLUSTER_COUNT__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        const char *why = "";
        int r;

        if (!kernel)
                return dsw_call_fail(call, DS_CUDA_INVALID_HANDLE, "a count of clusters names an unknown kernel");
        launch.kernel = kernel->device;
        launch.params_size = kernel->info->params_size;
        r = check_counted(worker, kernel->info, &launch, &why);
        if (!r)
                r = worker->ops->clusters(worker->device, &launch, &result.clusters);
        if (r)
                return dsw_call_fail(call, r > 0 ? r : DS_CUDA_UNKNOWN, "%s", why);
        reply.result_case = DETSHARE__REPLY__RESULT_COUNT_CLUSTERS;
        reply.count_clusters = &result;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}
