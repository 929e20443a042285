/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that loads libraries beside running work
 *
 * Where the driver loads lazily (cuda.c), cuLibraryLoadData only reads the library: it does not wait for kernels, but
 * takes up to 13 ms of a CPU for the largest ones (7 MB of code, measured on an H200). The owner's thread has launches
 * to make meanwhile, so this thread reads libraries: one task after the other, in the order of the requests. Steps that
 * put code on the GPU, and wait for all kernels, happen elsewhere (module.c, in a quiesce).
 *
 * The thread starts with the first task and lives as long as the device. It uses only the driver's functions and the
 * task, nothing of the device. A thread that is in the driver when the context is lost is left alone with a copy of the
 * functions and with its task.
 */
#include <pthread.h>

#include "device/cuda/internal.h"
#include "util/error.h"
#include "util/thread.h"

struct cuda_loader {
        struct ds_cuda_driver driver; /* a copy of the device's table of driver functions */
        CUcontext context;
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t changed;

        /* the following fields are accessed under the lock */
        struct cuda_task *todo, *ended;
        int working, going, alone;
};

static void loader_delete(struct cuda_loader *loader)
{
        pthread_cond_destroy(&loader->changed);
        pthread_mutex_destroy(&loader->lock);
        ds_free(loader);
}

/* Runs tasks until the thread must end. The caller holds the lock on entry and on return. */
static void loader_serve(struct cuda_loader *loader)
{
        struct cuda_task *task;

        while (!loader->going) {
                task = loader->todo;
                if (!task) {
                        pthread_cond_wait(&loader->changed, &loader->lock);
                        continue;
                }
                DL_DELETE(loader->todo, task);
                loader->working = 1;
                pthread_mutex_unlock(&loader->lock);
                task->work(&loader->driver, task);
                pthread_mutex_lock(&loader->lock);
                loader->working = 0;
                DL_APPEND(loader->ended, task);
        }
}

static void *loader_main(void *arg)
{
        struct cuda_loader *loader = arg;
        int alone;

        loader->driver.cuCtxSetCurrent_fn(loader->context);
        pthread_mutex_lock(&loader->lock);
        loader_serve(loader);
        alone = loader->alone;
        pthread_mutex_unlock(&loader->lock);
        if (alone)
                loader_delete(loader);
        return NULL;
}

static int loader_new(ds_device *device)
{
        struct cuda_loader *loader = ds_alloc0(1, sizeof(*loader));
        int r;

        if (!loader)
                return ds_error_origin(-ENOMEM);
        pthread_mutex_init(&loader->lock, NULL);
        pthread_cond_init(&loader->changed, NULL);
        loader->driver = device->driver;
        loader->context = device->primary;
        r = ds_thread_start(&loader->thread, loader_main, loader);
        if (r) {
                loader_delete(loader);
                return ds_error_origin(r);
        }
        device->loader = loader;
        return 0;
}

int cuda_loader_ask(ds_device *device, struct cuda_task *task)
{
        int r = device->loader ? 0 : loader_new(device);

        if (r)
                return ds_error_trace(r);
        pthread_mutex_lock(&device->loader->lock);
        DL_APPEND(device->loader->todo, task);
        pthread_cond_signal(&device->loader->changed);
        pthread_mutex_unlock(&device->loader->lock);
        return 0;
}

struct cuda_task *cuda_loader_ended(ds_device *device)
{
        struct cuda_loader *loader = device->loader;
        struct cuda_task *task;

        if (!loader)
                return NULL;
        pthread_mutex_lock(&loader->lock);
        task = loader->ended;
        if (task)
                DL_DELETE(loader->ended, task);
        pthread_mutex_unlock(&loader->lock);
        return task;
}

struct cuda_task *cuda_loader_free(ds_device *device)
{
        struct cuda_loader *loader = DS_TAKE_PTR(device->loader);
        struct cuda_task *left;
        pthread_t thread;

        if (!loader)
                return NULL;
        thread = loader->thread; /* read before `alone` is set: a thread left alone may free the loader at once */
        pthread_mutex_lock(&loader->lock);
        left = loader->todo;
        DL_CONCAT(left, loader->ended);
        loader->todo = loader->ended = NULL;
        loader->going = 1;
        loader->alone = loader->working && !cuda_usable(device);
        pthread_cond_signal(&loader->changed);
        if (loader->alone) {
                pthread_mutex_unlock(&loader->lock);
                pthread_detach(thread);
                return left;
        }
        pthread_mutex_unlock(&loader->lock);
        pthread_join(thread, NULL);
        DL_CONCAT(left, loader->ended); /* adds the task that the thread was working on */
        loader_delete(loader);
        return left;
}
