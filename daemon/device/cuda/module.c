/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: one per load, over images that may be shared
 *
 * Putting a library's code on the GPU, and unloading it, stop all of the context's work (43 ms measured: until the
 * longest kernel had ended). The driver loads lazily (cuda.c), in three steps, measured on an H200 with libraries of 38
 * KB to 7 MB:
 *
 *  reading it    cuLibraryLoadData, 0.04 to 13 ms. It waits for nothing, and on a thread of its own (loader.c) it
 *                delays no launch. So it happens in advance, see prepare.
 *  its code      the first call that needs it in the context, 0.03 to 2.6 ms: stops.
 *  its kernels   0.01 to 0.02 ms each. Most wait for nothing, but some need more memory of the context and wait (one of
 *                510 waited 28 ms): stops. Kernels of small libraries are loaded with the code, those of large ones on
 *                request; a kernel is always loaded before its launch.
 *
 * A daemon that was started with CUDA_MODULE_LOADING=EAGER does all of that in one call, which stops. In addition:
 *
 *  - An image without writable variables is the same for all spaces: it is loaded once, shared by all spaces that load
 *    the same bytes, and kept when no module uses it any more, up to a bound. Loading it again stops nothing. Equal
 *    means equal bytes: the hash only finds candidates, and clients could make two images of one hash. An image in a
 *    sealed file is kept as a mapping of it, so no other file can have that inode while the image is known. A load of
 *    that file again reads nothing.
 *  - An image with writable variables gets an instance per load. The session's memory account for the variables is kept
 *    elsewhere; module.c only checks, before loading anything, that the GPU has the memory.
 *  - module_unload unloads nothing. Images to unload, and the least recently used ones when too many are kept, wait for
 *    put_off_do, or for the next load of an image that is not kept, which stops the context anyway.
 *
 * A module's kernels are numbered by name, so that they have the same numbers when another worker loads it.
 *
 * Dynamic shared memory: CUDA requires a program to set an attribute, per kernel, before a launch may use more than 48
 * KiB. Here every kernel gets, once, at load, the largest value that its static shared memory leaves of a block's
 * maximum. That is a limit only. How much of an SM's memory becomes shared memory is another attribute, which stays
 * unchanged, and follows from the launch's real use. The client library checks whether the program has set the
 * attribute.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "device/cuda/internal.h"
#include "device/cuda/module.h"
#include "util/error.h"

/* most images kept without a module that uses them; a process of a large framework loads hundreds */
#define KEPT_IMAGES 4096
#define KEPT_BYTES_MIN DS_MIB(256)
#define KEPT_BYTES_MAX DS_GIB(2)
#define KEPT_MEMORY_PART 64 /* images kept may take at most 1 / this of the GPU's memory */
#define IMAGES_DROPPED_AT_ONCE 4u
/* kernels of an image that are loaded with it; kernels of a larger image are loaded one by one */
#define KERNELS_AT_ONCE 32u
#define READINGS_MAX 64u /* images queued for the thread, or read there and not loaded yet */

/* Images in the order of their last use, the oldest first. */
struct cuda_images {
        struct cuda_image *list;
        struct cuda_image *readings; /* images that the loader's thread reads, and images that it failed to read */
        size_t n_readings;
        uint64_t n_read;
        /* number of images without references that are kept, and number of those to be unloaded */
        size_t n_kept, n_going;
        uint64_t kept_bytes;
};

/* --- kernels of an image --- */

static int code_compare(const void *a, const void *b)
{
        return strcmp(((const struct cuda_code *)a)->info.name, ((const struct cuda_code *)b)->info.name);
}

static CUresult image_name_codes(
        const struct ds_cuda_driver *driver, struct cuda_image *image, CUkernel *kernels, unsigned n)
{
        CUresult result;

        result = driver->cuLibraryEnumerateKernels_fn(kernels, n, image->library);
        for (unsigned i = 0; i < n && !result; i++) {
                image->codes[i].kernel = kernels[i];
                result = driver->cuKernelGetName_fn(&image->codes[i].info.name, kernels[i]);
                if (!result)
                        image->codes[i].info.hash = XXH3_64bits_withSeed(
                                image->codes[i].info.name, strlen(image->codes[i].info.name), image->hash.low64);
        }
        if (!result)
                qsort(image->codes, n, sizeof(*image->codes), code_compare);
        return result;
}

static CUresult image_codes(const struct ds_cuda_driver *driver, struct cuda_image *image)
{
        ds_cleanup(ds_freep) CUkernel *kernels = NULL;
        unsigned n = 0;
        CUresult result;

        result = driver->cuLibraryGetKernelCount_fn(&n, image->library);
        if (result)
                return result;
        kernels = ds_alloc0(n, sizeof(CUkernel));
        image->codes = ds_alloc0(n, sizeof(*image->codes));
        if (!kernels || !image->codes)
                return CUDA_ERROR_OUT_OF_MEMORY;
        image->n_codes = n;
        return image_name_codes(driver, image, kernels, n);
}

/*
 * The first step of loading: reads the library, which puts nothing on the GPU where loading is lazy. It runs on the
 * owner's thread or on the loader's. It also scans the machine code (image/sass.h: 0.05 ms a kernel) if all kernels
 * will be loaded at once; kernels of a large library are scanned one by one, later.
 */
static CUresult image_read(const struct ds_cuda_driver *driver, struct cuda_image *image, const void *bytes)
{
        CUresult result;

        image->what = "the driver does not load the image";
        result = driver->cuLibraryLoadData_fn(&image->library, bytes, NULL, NULL, 0, NULL, NULL, 0);
        if (result)
                return result;
        image->what = "the driver does not list the image's kernels";
        result = image_codes(driver, image);
        if (!result && (image->cubin.has_globals || image->n_codes <= KERNELS_AT_ONCE))
                result = cuda_codes_scan(image, bytes);
        return result;
}

/* The later steps of loading: puts the code on the GPU, and loads the kernels if they are few. A second call does
 * nothing. */
static CUresult image_put_there(ds_device *device, struct cuda_image *image)
{
        CUresult result = CUDA_SUCCESS;
        CUmodule module;

        image->what = "the driver does not load the image's code";
        if (!image->there) {
                result = CU(device, cuLibraryGetModule)(&module, image->library);
                device->n_stirs++;
        }
        for (size_t i = 0; i < image->n_codes && !result; i++) {
                if (device->lazy && image->n_codes > KERNELS_AT_ONCE)
                        break;
                if (!image->codes[i].function)
                        result = cuda_code_fill(device, image, &image->codes[i]);
        }
        image->there = !result;
        return result;
}

static uint64_t image_local_bytes(const struct cuda_image *image)
{
        uint64_t most = 0;

        for (size_t i = 0; i < image->n_codes; i++)
                most = DS_MAX(most, (uint64_t)image->codes[i].info.local_bytes);
        return most;
}

/* --- images --- */

static struct cuda_images *images_of(ds_device *device)
{
        if (!device->images)
                device->images = ds_alloc0(1, sizeof(*device->images));
        return device->images;
}

static void image_forget(struct cuda_image *image)
{
        image->sass = ds_sass_free(image->sass);
        if (image->mapped)
                munmap(image->bytes, image->size);
        else
                ds_free(image->bytes);
        image->bytes = NULL;
        image->mapped = 0;
}

static struct cuda_image *image_free(ds_device *device, struct cuda_image *image)
{
        CUresult result;

        if (!image)
                return NULL;
        if (image->library && cuda_usable(device)) {
                result = CU(device, cuLibraryUnload)(image->library);
                if (result)
                        (void)ds_cuda_failed(device, result, "cuLibraryUnload");
        }
        for (size_t i = 0; i < image->n_codes; i++)
                ds_free((void *)(uintptr_t)image->codes[i].info.params);
        ds_free(image->codes);
        image_forget(image);
        return ds_free(image);
}

/* Bytes that count for keeping the image: its copy in host memory, about as large as its code on the GPU, and its
 * data on the GPU. */
static uint64_t image_weight(const struct cuda_image *image)
{
        return image->size + image->cubin.variable_bytes;
}

/* Called when the image has no references: counts it among the kept images (going = 0), or among those to unload. */
static void image_idle(struct cuda_images *images, struct cuda_image *image, int going)
{
        image->going = going;
        if (going) {
                images->n_going++;
                return;
        }
        images->n_kept++;
        images->kept_bytes += image_weight(image);
}

static void image_not_idle(struct cuda_images *images, struct cuda_image *image)
{
        if (image->going) {
                images->n_going--;
        } else {
                images->n_kept--;
                images->kept_bytes -= image_weight(image);
        }
        image->going = 0;
}

static void image_get(struct cuda_images *images, struct cuda_image *image)
{
        if (!image->refs++)
                image_not_idle(images, image);
}

/* Marks the least recently used images for unloading while too much is kept. */
static void images_trim(ds_device *device, struct cuda_images *images)
{
        uint64_t most = DS_MIN(DS_MAX(device->info.memory_bytes / KEPT_MEMORY_PART, KEPT_BYTES_MIN), KEPT_BYTES_MAX);
        struct cuda_image *image;

        DL_FOREACH(images->list, image)
        {
                if (images->n_kept <= KEPT_IMAGES && images->kept_bytes <= most)
                        return;
                if (image->refs || image->going)
                        continue;
                image_not_idle(images, image);
                image_idle(images, image, 1);
        }
}

static void image_put(ds_device *device, struct cuda_image *image)
{
        struct cuda_images *images = device->images;

        assert(image->refs);
        if (--image->refs)
                return;
        DL_DELETE(images->list, image);
        DL_APPEND(images->list, image);
        image_idle(images, image, !image->bytes);
        images_trim(device, images);
}

static struct cuda_image *image_find(const struct cuda_images *images, const void *bytes, size_t size)
{
        XXH128_hash_t hash = {0};
        struct cuda_image *image;
        int hashed = 0;

        if (!images)
                return NULL;
        DL_FOREACH(images->list, image)
        {
                if (!image->bytes || image->size != size)
                        continue;
                if (!hashed++)
                        hash = XXH3_128bits(bytes, size);
                if (XXH128_isEqual(image->hash, hash) && !memcmp(image->bytes, bytes, size))
                        return image;
        }
        return NULL;
}

/* Unloads at most `most` of the images marked for it. Called only inside a [stops] call. */
static void images_drop_going(ds_device *device, size_t most)
{
        struct cuda_image *image, *next;

        if (!device->images || !device->images->n_going)
                return;
        /* destroys unused graph instances first: they may hold kernels of these images */
        cuda_graphs_drop_going(device);
        DL_FOREACH_SAFE(device->images->list, image, next)
        {
                if (image->refs || !image->going)
                        continue;
                if (!most--)
                        return;
                image_not_idle(device->images, image);
                DL_DELETE(device->images->list, image);
                image_free(device, image);
        }
}

int cuda_module_cached(ds_device *device, const void *image, size_t size)
{
        const struct cuda_image *found = image_find(device->images, image, size);

        return found && found->there;
}

size_t cuda_put_off(ds_device *device)
{
        return device->images ? device->images->n_going : 0;
}

void cuda_put_off_do(ds_device *device)
{
        images_drop_going(device, IMAGES_DROPPED_AT_ONCE);
}

/* --- loading --- */

static int load_failed(ds_device *device, CUresult result, const char *what, char *log, size_t log_size)
{
        snprintf(log, log_size, "%s: %s", what, ds_cuda_driver_error(&device->driver, result));
        return ds_cuda_failed(device, result, what);
}

static int image_check(
        ds_device *device, const void *bytes, size_t size, struct ds_cubin *ret, char *log, size_t log_size)
{
        uint32_t cc = device->info.cc_major * 10 + device->info.cc_minor;

        if (ds_cubin_read(bytes, size, ret)) {
                snprintf(log, log_size, "not a cubin, or a damaged one: %s", ds_cubin_why(bytes, size));
                return DS_CUDA_INVALID_IMAGE;
        }
        if (!ds_cubin_runs_on(ret, cc)) {
                snprintf(log, log_size, "the code is for sm_%u%s, this GPU is sm_%u", ret->cc, ret->family ? "a" : "",
                        cc);
                return DS_CUDA_NO_BINARY_FOR_GPU;
        }
        return 0;
}

/* Checks that the GPU has memory for the image's variables, which may be of any size. Frees the slabs kept for reuse
 * if that is needed. */
static int image_room(ds_device *device, const struct ds_cubin *cubin, char *log, size_t log_size)
{
        uint64_t wanted = cubin->variable_bytes, available = cuda_memory_free(device);

        if (available && wanted > available && cuda_memory_pool_drop(device))
                available = cuda_memory_free(device);
        if (wanted <= device->info.memory_bytes && (!available || wanted <= available))
                return 0;
        snprintf(log, log_size, "the image's variables take %llu bytes of device memory", (unsigned long long)wanted);
        return DS_CUDA_OUT_OF_MEMORY;
}

/* Does all remaining steps of loading the image into the context. [stops] */
static int image_load(ds_device *device, struct cuda_image *image, char *log, size_t log_size)
{
        CUresult result;
        int r;

        r = cuda_output_catch(device, image->cubin.prints != 0, image->cubin.asserts != 0);
        if (r)
                return ds_error_trace(r);
        result = image_put_there(device, image);
        if (result)
                return load_failed(device, result, image->what, log, log_size);
        r = cuda_limit_local(device, image_local_bytes(image));
        if (!r)
                return 0;
        image->there = 0; /* so that a repeated load checks the memory again and reports the same error */
        snprintf(log, log_size, "a kernel needs %llu bytes of local memory per thread",
                (unsigned long long)image_local_bytes(image));
        return r;
}

/* Loads an image that was not prepared. After a failure the caller frees the image. */
static int image_load_new(
        ds_device *device, struct cuda_image *image, const void *bytes, size_t size, char *log, size_t log_size)
{
        CUresult result;
        int r;

        r = cuda_output_catch(device, image->cubin.prints != 0, image->cubin.asserts != 0);
        if (r)
                return ds_error_trace(r);
        image->hash = XXH3_128bits(bytes, size);
        if (!image->cubin.has_globals) {
                image->bytes = ds_alloc(size);
                if (!image->bytes)
                        return ds_error_origin(-ENOMEM);
                memcpy(image->bytes, bytes, size);
        }
        result = image_read(&device->driver, image, bytes);
        if (result)
                return load_failed(device, result, image->what, log, log_size);
        return image_load(device, image, log, log_size);
}

/* Creates and loads an image, with one reference. */
static int image_new(
        ds_device *device, const void *bytes, size_t size, char *log, size_t log_size, struct cuda_image **ret)
{
        struct cuda_image *image;
        struct ds_cubin cubin;
        int r;

        r = image_check(device, bytes, size, &cubin, log, log_size);
        if (r)
                return r;
        images_drop_going(device, SIZE_MAX);
        r = image_room(device, &cubin, log, log_size);
        if (r)
                return r;
        image = ds_alloc0(1, sizeof(*image));
        if (!image)
                return ds_error_origin(-ENOMEM);
        image->cubin = cubin;
        image->size = size;
        image->refs = 1;
        r = image_load_new(device, image, bytes, size, log, log_size);
        if (r) {
                image_free(device, image);
                return ds_error_trace(r);
        }
        DL_APPEND(device->images->list, image);
        *ret = image;
        return 0;
}

/* Takes a prepared image with variables out of the list of readings; later loads do not find it by its bytes. It has
 * no reference yet. */
static struct cuda_image *image_claim(struct cuda_images *images, const void *bytes, size_t size)
{
        struct cuda_image *image;

        DL_FOREACH(images->readings, image)
        {
                if (image->read && !image->result && image->size == size && !memcmp(image->bytes, bytes, size))
                        break;
        }
        if (!image)
                return NULL;
        DL_DELETE(images->readings, image);
        images->n_readings--;
        image_forget(image);
        DL_APPEND(images->list, image);
        image_idle(images, image, 1); /* marked for unloading until the load adds a reference */
        return image;
}

/* Adds a reference to a known image. */
static int image_take(ds_device *device, struct cuda_image *image, char *log, size_t log_size)
{
        int r = 0;

        if (!image->there)
                r = image_room(device, &image->cubin, log, log_size);
        if (!r && !image->there)
                r = image_load(device, image, log, log_size);
        if (!r)
                image_get(device->images, image);
        return ds_error_trace(r);
}

static ds_device_module *module_new(ds_device *device, uint32_t space, struct cuda_image *image)
{
        ds_device_module *module = ds_alloc0(1, sizeof(*module));

        if (!module)
                return NULL;
        module->kernels = ds_alloc0(image->n_codes, sizeof(*module->kernels));
        if (!module->kernels)
                return ds_free(module);
        for (size_t i = 0; i < image->n_codes; i++)
                module->kernels[i] = (struct ds_device_kernel){.module = module, .code = &image->codes[i]};
        module->device = device;
        module->space = space;
        module->refs = 1;
        module->image = image;
        DL_APPEND(device->modules, module);
        return module;
}

int cuda_module_load(ds_device *device, uint32_t space, const void *bytes, size_t size, char *log, size_t log_size,
        ds_device_module **ret)
{
        struct cuda_image *image;
        int r = 0;

        if (log_size)
                log[0] = 0;
        if (!cuda_space_find(device, space))
                return ds_error_origin(-ENOENT);
        if (device->lost)
                return DS_CUDA_LAUNCH_FAILED;
        if (!images_of(device))
                return ds_error_origin(-ENOMEM);
        image = image_find(device->images, bytes, size);
        if (!image)
                image = image_claim(device->images, bytes, size);
        if (image)
                r = image_take(device, image, log, log_size);
        else
                r = image_new(device, bytes, size, log, log_size, &image);
        if (r == -ENOMEM)
                r = DS_CUDA_OUT_OF_MEMORY;
        if (r)
                return ds_error_trace(r);
        *ret = module_new(device, space, image);
        if (*ret)
                return 0;
        image_put(device, image);
        return DS_CUDA_OUT_OF_MEMORY;
}

/* --- images in files --- */

static struct cuda_image *image_in_file(struct cuda_image *list, const struct stat *st, size_t size)
{
        struct cuda_image *image;

        DL_FOREACH(list, image)
        {
                if (image->mapped && image->ino == st->st_ino && image->dev == st->st_dev && image->size == size)
                        break;
        }
        return image;
}

int cuda_module_again(ds_device *device, uint32_t space, int fd, size_t size, ds_device_module **ret)
{
        struct cuda_image *image;
        struct stat st;

        if (!device->images || device->lost || !cuda_space_find(device, space) || fstat(fd, &st) < 0)
                return -ENOENT;
        image = image_in_file(device->images->list, &st, size);
        if (!image || !image->there)
                return -ENOENT;
        image_get(device->images, image);
        *ret = module_new(device, space, image);
        if (*ret)
                return 0;
        image_put(device, image);
        /* the load failed for lack of memory: the caller falls back to module_load(), which reports the error */
        return -ENOENT;
}

static int image_map(struct cuda_image *image, int fd, const struct stat *st)
{
        void *bytes = mmap(NULL, image->size, PROT_READ, MAP_PRIVATE, fd, 0);

        if (bytes == MAP_FAILED)
                return -errno;
        image_forget(image);
        image->bytes = bytes;
        image->mapped = 1;
        image->dev = st->st_dev;
        image->ino = st->st_ino;
        return 0;
}

void cuda_module_lies_in(ds_device *device, ds_device_module *module, int fd)
{
        struct cuda_image *image = module->image;
        struct stat st;

        /* An image found by its bytes may come from another file. The newer file is kept, since it is the more
         * likely to be loaded again. */
        if (image->bytes && fstat(fd, &st) == 0 && (uint64_t)st.st_size >= image->size)
                (void)image_map(image, fd, &st); /* on failure the image keeps its copy of the bytes */
}

/* --- preparation in advance --- */

static void reading_work(const struct ds_cuda_driver *driver, struct cuda_task *task)
{
        struct cuda_image *image = (struct cuda_image *)((char *)task - offsetof(struct cuda_image, task));

        image->hash = XXH3_128bits(image->bytes, image->size);
        image->result = image_read(driver, image, image->bytes);
}

/* Collects the images that the loader's thread has read. An image without variables joins the kept images. An image
 * with variables, or one that failed, stays in `readings` until its loader comes. */
static void readings_collect(ds_device *device)
{
        struct cuda_images *images = device->images;
        struct cuda_image *image;
        struct cuda_task *task;

        while ((task = cuda_loader_ended(device))) {
                image = (struct cuda_image *)((char *)task - offsetof(struct cuda_image, task));
                image->read = 1;
                images->n_read++;
                if (image->result || image->cubin.has_globals)
                        continue;
                DL_DELETE(images->readings, image);
                images->n_readings--;
                DL_APPEND(images->list, image);
                image_idle(images, image, 0);
                images_trim(device, images);
        }
}

/* Removes an image from the readings. Its library, if there is one, is unloaded in the next stop. */
static void reading_drop(struct cuda_images *images, struct cuda_image *image)
{
        DL_DELETE(images->readings, image);
        images->n_readings--;
        DL_APPEND(images->list, image);
        image_idle(images, image, 1);
        image_forget(image);
}

/* Makes room for one more reading: drops the oldest that no load has used. */
static int readings_room(struct cuda_images *images)
{
        struct cuda_image *image;

        if (images->n_readings < READINGS_MAX)
                return 1;
        DL_FOREACH(images->readings, image)
        {
                if (!image->read)
                        continue;
                reading_drop(images, image);
                return 1;
        }
        return 0;
}

/* Starts to read an image on the loader's thread, if module_load() would accept it. 0: started; another number: it
 * is not read. */
static int reading_new(ds_device *device, int fd, const struct stat *st, size_t size)
{
        struct cuda_image *image = ds_alloc0(1, sizeof(*image));
        char log[1];
        int r;

        if (!image)
                return ds_error_origin(-ENOMEM);
        image->size = size;
        image->task.work = reading_work;
        r = image_map(image, fd, st);
        if (!r)
                r = image_check(device, image->bytes, size, &image->cubin, log, sizeof(log));
        if (!r)
                r = image_room(device, &image->cubin, log, sizeof(log));
        if (!r && image_find(device->images, image->bytes, size))
                r = -EEXIST;
        if (!r)
                r = cuda_loader_ask(device, &image->task);
        if (r) {
                image_free(device, image);
                return r;
        }
        DL_APPEND(device->images->readings, image);
        device->images->n_readings++;
        return 0;
}

int cuda_module_prepare(ds_device *device, int fd, size_t size)
{
        struct cuda_image *image;
        struct stat st;

        if (!device->lazy || device->lost || !images_of(device) || fstat(fd, &st) < 0 || (uint64_t)st.st_size < size)
                return 1;
        readings_collect(device);
        if (image_in_file(device->images->list, &st, size))
                return 1;
        image = image_in_file(device->images->readings, &st, size);
        if (!image)
                return !readings_room(device->images) || reading_new(device, fd, &st, size);
        if (!image->read)
                return 0;
        if (!image->result)
                return 1;
        /* module_load() reads the image again and reports the driver's error */
        reading_drop(device->images, image);
        return 1;
}

uint64_t cuda_module_prepared(ds_device *device)
{
        if (!device->images)
                return 0;
        readings_collect(device);
        return device->images->n_read;
}

/* --- modules --- */

static void module_put(ds_device *device, ds_device_module *module)
{
        struct cuda_global *global;

        assert(module->refs);
        if (--module->refs)
                return;
        DL_DELETE(device->modules, module);
        while ((global = module->globals)) {
                module->globals = global->next;
                ds_free(global);
        }
        image_put(device, module->image);
        ds_free(module->kernels);
        ds_free(module);
}

ds_device_module *cuda_module_unload(ds_device *device, ds_device_module *module)
{
        if (module)
                module_put(device, module);
        return NULL;
}

void cuda_modules_free(ds_device *device)
{
        ds_device_module *module, *next_module;
        struct cuda_image *image, *next;
        struct cuda_task *task, *next_task;

        DL_FOREACH_SAFE(device->modules, module, next_module)
        {
                module->refs = 1;
                module_put(device, module);
        }
        if (!device->images)
                return;
        task = cuda_loader_free(device);
        for (; task; task = next_task) {
                next_task = task->next;
                image = (struct cuda_image *)((char *)task - offsetof(struct cuda_image, task));
                image->read = 1;
        }
        DL_FOREACH_SAFE(device->images->readings, image, next)
        {
                if (image->read) /* otherwise the loader's thread still uses the image, and never returns it */
                        image_free(device, image);
        }
        DL_FOREACH_SAFE(device->images->list, image, next)
        {
                image_free(device, image);
        }
        device->images = ds_free(device->images);
}

const ds_device_kernel *cuda_kernel_find(ds_device_module *module, const char *name)
{
        size_t first = 0, end = module->image->n_codes, middle;
        int order;

        while (first < end) {
                middle = first + (end - first) / 2;
                order = strcmp(name, module->kernels[middle].code->info.name);
                if (!order)
                        return &module->kernels[middle];
                if (order < 0)
                        end = middle;
                else
                        first = middle + 1;
        }
        return NULL;
}

const ds_device_kernel *cuda_kernel_at(ds_device_module *module, size_t index)
{
        return index < module->image->n_codes ? &module->kernels[index] : NULL;
}

const struct ds_kernel_info *cuda_kernel_info(const ds_device_kernel *kernel)
{
        return &kernel->code->info;
}

int cuda_kernel_loaded(const ds_device_kernel *kernel)
{
        return kernel->code->function != NULL;
}

int cuda_kernel_load(ds_device *device, const ds_device_kernel *kernel)
{
        struct cuda_code *code = kernel->code;
        CUresult result;
        int r;

        if (device->lost)
                return DS_CUDA_LAUNCH_FAILED;
        if (code->function)
                return 0;
        result = cuda_code_fill(device, kernel->module->image, code);
        if (result)
                return ds_cuda_failed(device, result, "the driver does not load a kernel");
        r = cuda_limit_local(device, code->info.local_bytes);
        if (r)
                code->function = NULL; /* the kernel counts as not loaded: a launch of it would stop the context */
        return ds_error_trace(r);
}

void cuda_kernel_get(const ds_device_kernel *kernel)
{
        kernel->module->refs++;
}

void cuda_kernel_put(ds_device *device, const ds_device_kernel *kernel)
{
        module_put(device, kernel->module);
}

/* --- variables --- */

static int module_note_global(ds_device_module *module, uint64_t va, uint64_t size)
{
        struct cuda_global *global;

        LL_FOREACH(module->globals, global)
        {
                if (global->va == va && global->size == size)
                        return 0;
        }
        global = ds_alloc(sizeof(*global));
        if (!global)
                return ds_error_origin(-ENOMEM);
        *global = (struct cuda_global){.va = va, .size = size, .next = module->globals};
        module->globals = global;
        return 0;
}

/* Finds a variable that the program may access. Refuses variables of a shared image: other spaces would see a
 * program's writes to them. */
int cuda_global_find(ds_device_module *module, const char *name, uint64_t *ret_va, uint64_t *ret_size)
{
        ds_device *device = module->device;
        CUdeviceptr va = 0;
        size_t size = 0;
        CUresult result;
        int r;

        if (!module->image->cubin.has_globals || device->lost)
                return -ENOENT;
        result = CU(device, cuLibraryGetGlobal)(&va, &size, module->image->library, name);
        if (result == CUDA_ERROR_NOT_FOUND)
                return -ENOENT;
        if (result) {
                (void)ds_cuda_failed(device, result, "cuLibraryGetGlobal");
                return -ENOENT;
        }
        r = module_note_global(module, va, size);
        if (r)
                return ds_error_trace(r);
        *ret_va = va;
        *ret_size = size;
        return 0;
}

int cuda_module_has_globals(ds_device_module *module)
{
        return module->image->cubin.has_globals != 0;
}

int cuda_modules_cover(ds_device *device, uint32_t space, uint64_t va, uint64_t size)
{
        const ds_device_module *module;
        const struct cuda_global *global;

        DL_FOREACH(device->modules, module)
        {
                if (module->space != space)
                        continue;
                LL_FOREACH(module->globals, global)
                {
                        if (va >= global->va && va - global->va <= global->size &&
                                size <= global->size - (va - global->va))
                                return 1;
                }
        }
        return 0;
}
