/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading of code, and fetching of kernels from the daemon
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/code.h"
#include "cuda/jit.h"
#include "cuda/range.h"
#include "cuda/state.h"

/* default limit of dynamic shared memory per block, the same on every architecture, bytes */
#define DEFAULT_SHARED_LIMIT 49152

struct dcu_image *dcu_image_new(const void *bytes, size_t size, int keep)
{
        struct dcu_image *image = calloc(1, sizeof(*image));

        if (!image)
                return NULL;
        image->bytes = bytes;
        image->size = size;
        if (keep == 1) {
                image->copy = malloc(size);
                if (!image->copy) {
                        free(image);
                        return NULL;
                }
                memcpy(image->copy, bytes, size);
                image->bytes = image->copy;
        }
        pthread_mutex_init(&image->lock, NULL);
        return image;
}

/* --- kernels that the daemon described with others --- */

static void described_drop(struct dcu_image *image)
{
        struct dsc_described *described = image->described, *next;

        for (; described; described = next) {
                next = described->next;
                free(described);
        }
        image->described = NULL;
}

static void described_add(struct dcu_image *image, struct dsc_described *described)
{
        if (!described)
                return;
        described->next = image->described;
        image->described = described;
}

/* Looks for the kernel among the descriptions. Returns 1 and *ret; 0: it was not described, or memory is short and the
 * kernel is to be requested. */
static int described_take(struct dcu_image *image, const char *name, struct dsc_kernel *ret)
{
        struct dsc_described **at = &image->described, *described;

        for (; (described = *at); at = &described->next) {
                if (dsc_described_find(described, name, ret))
                        continue;
                if (!described->n_left) {
                        *at = described->next;
                        free(described);
                }
                return 1;
        }
        return 0;
}

/* --- images and entries --- */

void dcu_image_free(struct dcu_image *image, int in_daemon)
{
        struct dcu_entry *entry, *next;

        if (!image)
                return;
        dcu_range_remove_image(image);
        if (in_daemon && image->epoch && image->epoch == atomic_load(&dcu.epoch))
                (void)dsc_module_unload(dcu.session, image->module);
        HASH_ITER(hh, image->entries, entry, next)
        {
                HASH_DEL(image->entries, entry);
                dsc_kernel_clear(&entry->info);
                free(entry);
        }
        described_drop(image);
        pthread_mutex_destroy(&image->lock);
        free(image->copy);
        free(image);
}

/* Adds an entry for a kernel to the image, and consumes *info. NULL: out of memory, *info is unchanged. */
static struct dcu_entry *append_locked(struct dcu_image *image, struct dsc_kernel *info)
{
        struct dcu_entry *entry = calloc(1, sizeof(*entry));

        if (!entry)
                return NULL;
        HASH_ADD_KEYPTR(hh, image->entries, info->name, strlen(info->name), entry);
        if (!entry->hh.tbl) {
                free(entry);
                return NULL;
        }
        entry->info = *info;
        *info = (struct dsc_kernel){.name = NULL};
        entry->image = image;
        atomic_store(&entry->epoch, image->epoch);
        atomic_store(&entry->max_dynamic_shared, entry->info.static_shared < DEFAULT_SHARED_LIMIT
                                                         ? DEFAULT_SHARED_LIMIT - (int)entry->info.static_shared
                                                         : 0);
        entry->carveout = -1;
        return entry;
}

static struct dcu_entry *find_locked(const struct dcu_image *image, const char *name)
{
        struct dcu_entry *entry;

        HASH_FIND(hh, image->entries, name, strlen(name), entry);
        return entry;
}

/* Gives the entry the kernel's new id. Name, parameter layout and the attributes that the program set stay valid,
 * because the module was loaded from the same bytes. */
static void renew_locked(struct dcu_entry *entry, const struct dsc_kernel *info)
{
        entry->info.id = info->id;
        atomic_store_explicit(&entry->epoch, entry->image->epoch, memory_order_release);
}

static CUresult load_locked(struct dcu_image *image, struct dcu_jit *jit)
{
        struct dsc_load load = {.image = image->bytes,
                .size = image->size,
                .max_registers = image->max_registers,
                .optimization = image->optimization};
        uint32_t epoch = atomic_load(&dcu.epoch);
        struct dsc_loaded loaded;
        size_t note;
        int r;

        if (image->epoch == epoch)
                return CUDA_SUCCESS;
        if (!image->bytes)
                return CUDA_ERROR_INVALID_HANDLE;
        /* the daemon gets the text without the note, so that it recognises the text that was compiled when it was
         * linked */
        note = dcu_jit_note_read(load.image, load.size, &load.max_registers, &load.optimization);
        load.image = (const char *)load.image + note;
        load.size -= note;
        if (jit && dcu_jit_wants_log(jit))
                load.log = calloc(1, DCU_JIT_LOG_BYTES);
        load.log_size = load.log ? DCU_JIT_LOG_BYTES : 0;
        r = dsc_module_open(dcu.session, &load, &loaded);
        if (jit)
                dcu_jit_finish(jit, r == 0, load.log);
        free(load.log);
        if (r == 0) {
                image->module = loaded.module;
                image->epoch = epoch;
                described_drop(image);
                described_add(image, loaded.described);
        }
        return dcu_result(r);
}

CUresult dcu_image_load(struct dcu_image *image, struct dcu_jit *jit)
{
        CUresult r;

        pthread_mutex_lock(&image->lock);
        r = load_locked(image, jit);
        pthread_mutex_unlock(&image->lock);
        return r;
}

/* Gets the kernel's description: one that has come already, or one that it requests from the daemon. */
static CUresult describe_locked(struct dcu_image *image, const char *name, struct dsc_kernel *ret)
{
        struct dsc_described *more;
        int r;

        if (described_take(image, name, ret))
                return CUDA_SUCCESS;
        r = dsc_kernel_get_more(dcu.session, image->module, name, ret, &more);
        if (r == 0)
                described_add(image, more);
        return dcu_result(r);
}

/* Gets the kernel's new id after a reload; attributes that the program set stay. */
static CUresult refresh_locked(struct dcu_entry *entry)
{
        struct dsc_kernel info = {0};
        CUresult r = describe_locked(entry->image, entry->info.name, &info);

        if (r != CUDA_SUCCESS)
                return r;
        renew_locked(entry, &info);
        dsc_kernel_clear(&info);
        return CUDA_SUCCESS;
}

CUresult dcu_entry_reload(struct dcu_entry *entry)
{
        CUresult r;

        pthread_mutex_lock(&entry->image->lock);
        r = load_locked(entry->image, NULL);
        if (r == CUDA_SUCCESS && atomic_load(&entry->epoch) != entry->image->epoch)
                r = refresh_locked(entry);
        pthread_mutex_unlock(&entry->image->lock);
        return r;
}

static CUresult add_locked(struct dcu_image *image, const char *name, struct dcu_entry **ret)
{
        struct dsc_kernel info = {0};
        CUresult r = describe_locked(image, name, &info);

        if (r != CUDA_SUCCESS)
                return r;
        *ret = append_locked(image, &info);
        dsc_kernel_clear(&info);
        return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult entry_locked(struct dcu_image *image, const char *name, struct dcu_entry **ret)
{
        struct dcu_entry *entry = find_locked(image, name);

        if (!entry)
                return add_locked(image, name, ret);
        *ret = entry;
        return atomic_load(&entry->epoch) == image->epoch ? CUDA_SUCCESS : refresh_locked(entry);
}

CUresult dcu_image_entry(struct dcu_image *image, const char *name, struct dcu_entry **ret)
{
        CUresult r;

        pthread_mutex_lock(&image->lock);
        r = load_locked(image, NULL);
        if (r == CUDA_SUCCESS)
                r = entry_locked(image, name, ret);
        pthread_mutex_unlock(&image->lock);
        return r;
}

CUresult dcu_image_global(struct dcu_image *image, const char *name, uint64_t *ret_address, uint64_t *ret_bytes)
{
        CUresult r;

        pthread_mutex_lock(&image->lock);
        r = load_locked(image, NULL);
        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_global_get(dcu.session, image->module, name, ret_address, ret_bytes));
        pthread_mutex_unlock(&image->lock);
        return r;
}

static CUresult all_locked(struct dcu_image *image, char **names, size_t n, struct dcu_entry ***ret)
{
        struct dcu_entry **entries = calloc(n + 1, sizeof(*entries));
        CUresult r = entries ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

        for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++)
                r = entry_locked(image, names[i], &entries[i]);
        if (r != CUDA_SUCCESS) {
                free(entries);
                return r;
        }
        *ret = entries;
        return CUDA_SUCCESS;
}

CUresult dcu_image_all_entries(struct dcu_image *image, struct dcu_entry ***ret, size_t *ret_n)
{
        char **names = NULL;
        size_t n = 0;
        CUresult r;

        pthread_mutex_lock(&image->lock);
        r = load_locked(image, NULL);
        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_kernel_names(dcu.session, image->module, &names, &n));
        if (r == CUDA_SUCCESS)
                r = all_locked(image, names, n, ret);
        pthread_mutex_unlock(&image->lock);
        for (size_t i = 0; i < n; i++)
                free(names[i]);
        free(names);
        if (r == CUDA_SUCCESS)
                *ret_n = n;
        return r;
}
