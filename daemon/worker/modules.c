/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and kernels of a session, and the ids by which clients name them
 *
 * A module's id is a slot number and a generation that grows with every load. So the id of an unloaded module is
 * refused even if its slot is used again. A kernel's id is its module's id and its index. Both survive a restart of the
 * worker: the supervisor passes the module's id, and the order of an image's kernels does not change.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "util/error.h"
#include "worker/internal.h"

#define MODULE_SLOT_BITS 12
#define MODULE_GENERATION_BITS 36
#define MODULE_KERNEL_BITS 16

_Static_assert(DSW_SESSION_MODULES_MAX == 1u << MODULE_SLOT_BITS, "module ids have no room for all slots");
_Static_assert(DSW_MODULE_KERNELS_MAX == 1u << MODULE_KERNEL_BITS, "kernel ids have no room for all kernels");

struct module_image {
        void *bytes;
        size_t size;
};

static void module_image_unmap(struct module_image *image)
{
        if (image->bytes)
                munmap(image->bytes, image->size);
}

/* Maps an image for the time of the load. The helper has sealed its file, so the file cannot shrink. */
static int module_image_map(int fd, uint64_t bytes, struct module_image *ret)
{
        struct stat st;
        void *p;
        int seals;

        if (fd < 0 || fstat(fd, &st) < 0 || !bytes || st.st_size < 0 || (uint64_t)st.st_size < bytes)
                return ds_error_origin(-EINVAL);
        seals = fcntl(fd, F_GET_SEALS);
        if (seals < 0 || !(seals & F_SEAL_SHRINK) || !(seals & F_SEAL_WRITE))
                return ds_error_origin(-EPERM);
        p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
                return ds_error_origin(-errno);
        *ret = (struct module_image){p, bytes};
        return 0;
}

static uint32_t module_slot(uint64_t id)
{
        return (uint32_t)(id & ((1u << MODULE_SLOT_BITS) - 1));
}

static struct dsw_module *module_at(struct dsw_session *session, uint64_t id, int closing)
{
        uint32_t slot = module_slot(id);
        struct dsw_module *module = slot < session->n_module_slots ? session->modules[slot] : NULL;

        return module && module->id == id && module->closing == closing ? module : NULL;
}

struct dsw_module *dsw_module_find(struct dsw_session *session, uint64_t id)
{
        return module_at(session, id, 0);
}

struct dsw_module *dsw_module_find_closing(struct dsw_session *session, uint64_t id)
{
        return module_at(session, id, 1);
}

struct dsw_kernel *dsw_module_kernel(struct dsw_session *session, uint64_t kernel_id)
{
        struct dsw_module *module = dsw_module_find(session, kernel_id >> MODULE_KERNEL_BITS);
        uint32_t index = (uint32_t)(kernel_id & (DSW_MODULE_KERNELS_MAX - 1));

        if (!module || index >= module->n_kernels ||
                !dsw_module_kernel_loaded(session->worker, &module->kernels[index]))
                return NULL;
        return &module->kernels[index];
}

/* By bisection: a module with ten thousand kernels gets as many requests. */
static int module_bisect(const struct dsw_module *module, const char *name, uint32_t *ret_index)
{
        uint32_t first = 0, end = module->n_kernels;

        while (first < end) {
                uint32_t middle = first + (end - first) / 2;
                int order = strcmp(name, module->kernels[middle].info->name);

                if (!order) {
                        *ret_index = middle;
                        return 0;
                }
                if (order < 0)
                        end = middle;
                else
                        first = middle + 1;
        }
        return -ENOENT;
}

int dsw_module_kernel_named(const struct dsw_module *module, const char *name, uint32_t *ret_index)
{
        if (module->sorted)
                return module_bisect(module, name, ret_index);
        for (uint32_t i = 0; i < module->n_kernels; i++) {
                if (!strcmp(module->kernels[i].info->name, name)) {
                        *ret_index = i;
                        return 0;
                }
        }
        return -ENOENT;
}

int dsw_module_kernel_loaded(const ds_worker *worker, const struct dsw_kernel *kernel)
{
        return !worker->ops->kernel_loaded || worker->ops->kernel_loaded(kernel->device);
}

int dsw_module_kernel_load(struct dsw_session *session, struct dsw_kernel *kernel)
{
        ds_worker *worker = session->worker;
        int r;

        if (dsw_module_kernel_loaded(worker, kernel))
                return 0;
        if (!dsw_quiesce_may_do(session, DSW_STOP_KERNEL, 0))
                return DSW_WORK_E_STALLED;
        r = worker->ops->kernel_load(worker->device, kernel->device);
        if (!r)
                dsw_forms_kernel(worker, kernel);
        return r;
}

uint64_t dsw_module_kernel_id(const struct dsw_module *module, uint32_t index)
{
        assert(index < module->n_kernels);
        return module->id << MODULE_KERNEL_BITS | index;
}

/* Finds the slot of the id, or a free one with a new id if the id is 0. Returns 0, QUOTA, or a negative errno. */
static int module_place(struct dsw_session *session, uint64_t *id, uint32_t *ret_slot)
{
        uint32_t slot = *id ? module_slot(*id) : 0, n;
        struct dsw_module **grown;

        while (!*id && slot < session->n_module_slots && session->modules[slot])
                slot++;
        if (slot >= DSW_SESSION_MODULES_MAX)
                return DETSHARE__STATUS__QUOTA;
        if (slot >= session->n_module_slots) {
                n = DS_MIN(DSW_SESSION_MODULES_MAX, DS_MAX(slot + 1, session->n_module_slots * 2));
                grown = ds_realloc(session->modules, n, sizeof(struct dsw_module *));
                if (!grown)
                        return ds_error_origin(-ENOMEM);
                for (uint32_t i = session->n_module_slots; i < n; i++)
                        grown[i] = NULL;
                session->modules = grown;
                session->n_module_slots = n;
        }
        if (session->modules[slot])
                return ds_error_origin(-EEXIST);
        if (*id)
                session->module_generation = DS_MAX(session->module_generation, *id >> MODULE_SLOT_BITS);
        else
                *id = ++session->module_generation << MODULE_SLOT_BITS | slot;
        *ret_slot = slot;
        return *id >> (MODULE_SLOT_BITS + MODULE_GENERATION_BITS) ? ds_error_origin(-EOVERFLOW) : 0;
}

/* Lists the module's kernels, and refuses names or parameters that replies cannot hold. */
static int module_list_kernels(const ds_worker *worker, struct dsw_module *module, char *log, size_t log_size)
{
        const ds_device_kernel *kernel;
        const struct ds_kernel_info *info;
        uint32_t n = 0;

        while (n < DSW_MODULE_KERNELS_MAX && worker->ops->kernel_at(module->device, n))
                n++;
        module->kernels = ds_alloc0(DS_MAX(n, 1u), sizeof(*module->kernels));
        if (!module->kernels)
                return ds_error_origin(-ENOMEM);
        module->sorted = 1;
        for (uint32_t i = 0; i < n; i++) {
                kernel = worker->ops->kernel_at(module->device, i);
                info = worker->ops->kernel_info(kernel);
                if (dsw_forms_hides(module, info->name))
                        continue;
                if (strlen(info->name) > DSW_KERNEL_NAME_MAX) {
                        snprintf(log, log_size, "the name of kernel %u of the module is longer than %u bytes", i,
                                DSW_KERNEL_NAME_MAX);
                        return DS_CUDA_INVALID_IMAGE;
                }
                if (module->n_kernels && strcmp(module->kernels[module->n_kernels - 1].info->name, info->name) > 0)
                        module->sorted = 0;
                module->kernels[module->n_kernels++] =
                        (struct dsw_kernel){.device = kernel, .info = info, .module = module};
        }
        return 0;
}

static void module_free(struct dsw_session *session, struct dsw_module *module)
{
        ds_worker *worker = session->worker;

        dsw_forms_free(session, module);
        if (module->device)
                module->device = worker->ops->module_unload(worker->device, module->device);
        dsw_quiesce_chore(worker);
        ds_free(module->kernels);
        ds_free(module->globals);
        ds_free(module);
}

/* --- preparation of loads ----------------------------------------------------------------------------------------- */

/*
 * Does the part of a load that stops nothing in parallel to other work, before the session waits for a quiesce. Returns
 * 1 when this part is over. It is tried only once: if it fails, the load does it again and reports the error.
 */
static int module_is_prepared(struct dsw_session *session, int fd, size_t size)
{
        ds_worker *worker = session->worker;

        if (session->load_prepared || !worker->ops->module_prepare)
                return 1;
        if (worker->ops->module_prepare(worker->device, fd, size)) {
                session->load_prepared = 1;
                return 1;
        }
        worker->n_preparing += session->load_waits ? 0 : 1;
        session->load_waits = 1;
        return 0;
}

void dsw_module_forget(struct dsw_session *session)
{
        session->worker->n_preparing -= session->load_waits ? 1 : 0;
        session->worker->n_preparing -= session->forms_wait ? 1 : 0;
        session->load_waits = session->load_prepared = session->forms_wait = 0;
}

size_t dsw_module_step(ds_worker *worker)
{
        struct dsw_session *session;
        uint64_t n;

        if (!worker->n_preparing)
                return 0;
        n = worker->ops->module_prepared(worker->device);
        if (n == worker->n_prepared)
                return 0;
        worker->n_prepared = n;
        n = worker->n_preparing;
        worker->n_preparing = 0;
        for (session = worker->sessions; session; session = session->hh.next) {
                if (session->forms_wait) {
                        session->forms_wait = 0;
                        dsw_forms_resume(session);
                }
                if (!session->load_waits)
                        continue;
                session->load_waits = 0;
                session->retry = 1;
                dsw_session_activate(session);
        }
        return n;
}

/* Whether the load may happen now. A device without `stops` always allows it. A session being restored always waits
 * for a quiesce. */
static int module_may_load(struct dsw_session *session, uint64_t id, int fd, const struct module_image *image)
{
        ds_worker *worker = session->worker;

        if (!worker->info->stops || worker->ops->module_cached(worker->device, image->bytes, image->size))
                return 1;
        if (!id && !module_is_prepared(session, fd, image->size))
                return 0;
        return dsw_quiesce_may_do(session, DSW_STOP_MODULE, image->size);
}

/* Loads the image's bytes; the device remembers their file. Returns 0, STALLED, a CUDA error, or a negative errno. */
static int module_load_bytes(struct dsw_session *session, uint64_t id, int fd, uint64_t bytes, char *log,
        size_t log_size, ds_device_module **ret)
{
        ds_worker *worker = session->worker;
        ds_cleanup(module_image_unmap) struct module_image image = {0};
        int r;

        r = module_image_map(fd, bytes, &image);
        if (r)
                return ds_error_trace(r);
        if (!module_may_load(session, id, fd, &image))
                return DSW_WORK_E_STALLED;
        session->load_prepared = 0;
        r = worker->ops->module_load(worker->device, session->space, image.bytes, image.size, log, log_size, ret);
        if (!r && worker->ops->module_lies_in)
                worker->ops->module_lies_in(worker->device, *ret, fd);
        return r;
}

static int module_load_device(struct dsw_session *session, uint64_t id, int fd, uint64_t bytes, char *log,
        size_t log_size, ds_device_module **ret)
{
        ds_worker *worker = session->worker;

        if (worker->ops->module_again && worker->ops->module_again(worker->device, session->space, fd, bytes, ret) == 0)
                return 0;
        return module_load_bytes(session, id, fd, bytes, log, log_size, ret);
}

/* Loads all kernels of a restored module: its client knows their ids and may launch any of them. Returns 0, STALLED,
 * or the error of a load. */
static int module_restore_kernels(struct dsw_session *session, const struct dsw_module *module)
{
        int r = 0;

        for (uint32_t i = 0; i < module->n_kernels && !r; i++)
                r = dsw_module_kernel_load(session, &module->kernels[i]);
        return r;
}

int dsw_module_load(struct dsw_session *session, uint64_t id, int fd, uint64_t bytes, char *log, size_t log_size,
        struct dsw_module **ret)
{
        ds_worker *worker = session->worker;
        ds_cleanup(ds_freep) struct dsw_module *module = ds_alloc0(1, sizeof(*module));
        uint32_t slot = 0;
        int r;

        log[0] = 0;
        if (!module)
                return ds_error_origin(-ENOMEM);
        dsw_forms_init(&module->forms);
        r = module_load_device(session, id, fd, bytes, log, log_size, &module->device);
        if (r == DSW_WORK_E_STALLED)
                return r;
        if (!r)
                r = dsw_forms_instead(module, fd, bytes);
        if (!r)
                r = module_list_kernels(worker, module, log, log_size);
        if (!r)
                r = dsw_forms_connect(session, module);
        if (!r && id)
                r = module_restore_kernels(session, module);
        if (!r)
                r = module_place(session, &id, &slot);
        if (r == DSW_WORK_E_STALLED) {
                module_free(session, DS_TAKE_PTR(module));
                return r;
        }
        if (r) {
                module_free(session, DS_TAKE_PTR(module));
                return ds_error_trace(r);
        }
        module->id = id;
        session->modules[slot] = module;
        session->n_modules++;
        worker->n_modules++;
        *ret = DS_TAKE_PTR(module);
        return 0;
}

void dsw_module_unload(struct dsw_session *session, struct dsw_module *module)
{
        uint32_t slot = module_slot(module->id);

        assert(session->modules[slot] == module);
        session->modules[slot] = NULL;
        session->n_modules--;
        session->worker->n_modules--;
        module_free(session, module);
}

void dsw_module_unload_all(struct dsw_session *session)
{
        for (uint32_t i = 0; i < session->n_module_slots; i++) {
                if (session->modules[i])
                        dsw_module_unload(session, session->modules[i]);
        }
        assert(session->n_modules == 0);
        session->modules = ds_free(session->modules);
        session->n_module_slots = 0;
}

int dsw_module_note_global(struct dsw_module *module, uint64_t va, uint64_t bytes)
{
        size_t cap = DS_MAX(module->cap_globals * 2, (size_t)4);
        struct dsw_range *grown;

        for (size_t i = 0; i < module->n_globals; i++) {
                if (module->globals[i].va == va && module->globals[i].bytes == bytes)
                        return 0;
        }
        if (module->n_globals == module->cap_globals) {
                grown = ds_realloc(module->globals, cap, sizeof(*grown));
                if (!grown)
                        return ds_error_origin(-ENOMEM);
                module->globals = grown;
                module->cap_globals = cap;
        }
        module->globals[module->n_globals++] = (struct dsw_range){.va = va, .bytes = bytes};
        return 0;
}

static int module_holds(const struct dsw_module *module, uint64_t va, uint64_t bytes)
{
        for (size_t i = 0; i < module->n_globals; i++) {
                const struct dsw_range *global = &module->globals[i];

                if (va >= global->va && va - global->va <= global->bytes && bytes <= global->bytes - (va - global->va))
                        return 1;
        }
        return 0;
}

int dsw_module_is_global(const struct dsw_session *session, uint64_t va, uint64_t bytes)
{
        for (uint32_t i = 0; i < session->n_module_slots; i++) {
                const struct dsw_module *module = session->modules[i];

                if (module && !module->closing && module_holds(module, va, bytes))
                        return 1;
        }
        return 0;
}
