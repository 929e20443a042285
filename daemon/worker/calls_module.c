/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about code
 *
 * The helper has checked the image of a ModuleLoad, and the device parses it again. From the request to unload on,
 * launches of the module's kernels are refused; it is unloaded when the work submitted by then has ended. Kernels of a
 * large module are loaded when a client looks them up by name, in a quiesce if necessary. A launch of a kernel not
 * loaded fails as for an unknown kernel.
 *
 * A request takes longer than the load of a kernel (41 and 15 us on an H200). So the answer to a load describes the
 * kernels that are loaded already: all of a small module, and those of a large one that any session has requested. An
 * answer about one kernel describes others as well: those that are loaded, and some that are loaded ahead, in the order
 * of the module. Their number doubles with each request for a kernel that was not loaded, up to MODULE_AHEAD_MAX. So a
 * client that needs few kernels of a large module makes the GPU load at most twice as many.
 */
#include <string.h>

#include "device/cluster.h"
#include "worker/internal.h"
#include "worker/repeat.h"

#define MODULE_NAMES_MAX 128u             /* kernel names per page of an answer */
#define MODULE_NAME_BYTES_MAX (48u << 10) /* bytes of names per page, so that it fits a client's frame */
#define MODULE_PARAMS_MAX 4096u
#define MODULE_ENTRIES_MAX 128u /* kernels described with their module, or with another kernel */
/* parameters, and bytes of the name, of a kernel with which others are described */
#define MODULE_FIRST_PARAMS_MAX 1024u
#define MODULE_FIRST_NAME_MAX 4096u
#define MODULE_AHEAD_MAX 16u         /* kernels loaded ahead at one request */
#define MODULE_LOOK_MAX 256u         /* kernels considered for one answer about a kernel */
#define MODULE_LOADED_LOOK_MAX 4096u /* kernels considered for the answer to a load */

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

/* Descriptions of kernels beyond the requested one, so that they need no request of their own. */
struct module_entries {
        _Alignas(8) uint8_t bytes[DS_DESCRIBED_MAX];
        size_t n, size;
};

/* Adds a loaded kernel. Returns 0 if there is no room for it. */
static int module_entries_add(struct module_entries *entries, const struct dsw_module *module, uint32_t index)
{
        const struct ds_kernel_info *info = module->kernels[index].info;
        const size_t name_bytes = strlen(info->name), params_bytes = info->n_params * sizeof(struct ds_described_param);
        const size_t bytes = DS_ALIGN_UP(sizeof(struct ds_described) + params_bytes + name_bytes + 1, 8u);
        struct ds_described *said = (struct ds_described *)(void *)(entries->bytes + entries->size);
        struct ds_described_param *params = (struct ds_described_param *)(said + 1);

        if (entries->n == MODULE_ENTRIES_MAX || bytes > sizeof(entries->bytes) - entries->size)
                return 0;
        memset(said, 0, bytes);
        *said = (struct ds_described){.kernel = dsw_module_kernel_id(module, index),
                .bytes = (uint32_t)bytes,
                .name_bytes = (uint32_t)name_bytes,
                .n_params = info->n_params,
                .params_size = info->params_size,
                .max_threads = info->max_threads,
                .static_shared = info->static_shared,
                .local_bytes = info->local_bytes,
                .const_bytes = info->const_bytes,
                .registers = info->registers,
                .ptx_version = info->ptx_version,
                .binary_version = info->binary_version,
                .cluster = {info->cluster[0], info->cluster[1], info->cluster[2]},
                .cluster_max = info->cluster_max,
                .cluster_explicit = info->cluster_explicit != 0,
                .blocks_are_clusters = info->blocks_are_clusters != 0};
        for (uint32_t i = 0; i < info->n_params; i++)
                params[i] = (struct ds_described_param){info->params[i].offset, info->params[i].size};
        memcpy(params + info->n_params, info->name, name_bytes);
        entries->size += bytes;
        entries->n++;
        module->kernels[index].described = 1;
        return 1;
}

/* Describes the kernels of a module that are loaded, as far as there is room: those of a small one, or those that any
 * session has requested. */
static void module_entries_fill(
        const ds_worker *worker, const struct dsw_module *module, struct module_entries *entries)
{
        const uint32_t looks = DS_MIN(module->n_kernels, MODULE_LOADED_LOOK_MAX);

        entries->n = entries->size = 0;
        for (uint32_t i = 0; i < looks; i++)
                if (dsw_module_kernel_loaded(worker, &module->kernels[i]) && !module_entries_add(entries, module, i))
                        return;
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
        module->forms.no_ptx = call->no_ptx;
        result.module = note.module = module->id;
        result.kernels = module->n_kernels;
        result.writable_globals = note.writable_globals = worker->ops->module_has_globals(module->device) != 0;
        result.log = log;
        module_entries_fill(worker, module, &entries);
        result.described.data = entries.bytes;
        result.described.len = entries.size;
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
        dsw_repeat_forget_all(call->session); /* later launches of the module's kernels are refused */
        call->address = id;
        call->target = call->session->op_index;
        return dsw_call_park(call, dsw_call_session_ended, module_finish_unload);
}

/*
 * Describes kernels after the one at `index` that the client does not know yet: loaded ones, and if `ahead`, so many
 * that it loads now. `ahead` is not 0 only if the device may stop.
 */
static void module_entries_ahead(struct dsw_session *session, struct dsw_module *module, uint32_t index, uint32_t ahead,
        struct module_entries *entries)
{
        uint32_t looks = DS_MIN(module->n_kernels - 1, MODULE_LOOK_MAX);
        const struct ds_kernel_info *first = module->kernels[index].info;
        int room = first->n_params <= MODULE_FIRST_PARAMS_MAX && strlen(first->name) <= MODULE_FIRST_NAME_MAX;

        entries->n = entries->size = 0;
        for (uint32_t i = 1; i <= looks && room; i++) {
                uint32_t at = (index + i) % module->n_kernels;
                struct dsw_kernel *kernel = &module->kernels[at];

                if (kernel->described)
                        continue;
                if (!dsw_module_kernel_loaded(session->worker, kernel)) {
                        if (!ahead)
                                continue;
                        ahead--;
                        if (dsw_module_kernel_load(session, kernel))
                                continue; /* a request for this kernel reports the error */
                }
                room = module_entries_add(entries, module, at);
        }
}

static enum dsw_outcome module_reply_kernel(struct dsw_call *call, struct dsw_module *module, uint32_t index)
{
        struct dsw_kernel *kernel = &module->kernels[index];
        const struct ds_kernel_info *info = kernel->info;
        Detshare__KernelParam params[MODULE_PARAMS_MAX], *pointers[MODULE_PARAMS_MAX];
        struct module_entries entries;
        Detshare__KernelReply result;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        int loads = !dsw_module_kernel_loaded(call->session->worker, kernel);
        uint32_t ahead = loads ? module->n_ahead : 0;
        int r = dsw_module_kernel_load(call->session, kernel);

        if (r == DSW_WORK_E_STALLED)
                return DSW_STALLED;
        if (r)
                return dsw_call_fail(call, r, "the kernel cannot be loaded");
        if (info->n_params > MODULE_PARAMS_MAX)
                return dsw_call_fail(call, DS_CUDA_NOT_SUPPORTED, "the kernel has %u parameters", info->n_params);
        if (loads)
                module->n_ahead = DS_MIN(2 * module->n_ahead + 1, MODULE_AHEAD_MAX);
        kernel->described = 1;
        module_describe(module, index, params, pointers, &result);
        module_entries_ahead(call->session, module, index, ahead, &entries);
        reply.result_case = DETSHARE__REPLY__RESULT_GET_KERNEL;
        reply.get_kernel = &result;
        reply.described.data = entries.bytes;
        reply.described.len = entries.size;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}

enum dsw_outcome dsw_calls_get_kernel(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__GetKernel *get = request->get_kernel;
        struct dsw_module *module = dsw_module_find(call->session, get->module);
        uint32_t index;

        if (!module)
                return module_unknown(call, get->module);
        if (dsw_module_kernel_named(module, get->name, &index))
                return dsw_call_fail(call, DS_CUDA_NOT_FOUND, "no kernel \"%.200s\" in the module", get->name);
        return module_reply_kernel(call, module, index);
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
