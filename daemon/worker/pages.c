/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates and frees the pages of pinned memory in a thread beside the loop
 *
 * Pinned memory is a file. Its registration with a GPU must happen in a quiesce, which holds LS. Most of the time,
 * however, goes into allocating and clearing the file's pages (16 MiB: 6 ms on a virtual machine that touches them for
 * the first time), and into freeing them later. Neither needs a quiesce. One thread writes zeros into new files, piece
 * by piece, and closes files that are no longer needed, while the loop continues. The thread makes no device call and
 * sees nothing of the worker but these files, which travel in two lists under a lock.
 *
 *  - An arena of DS_ARENA_BYTES, which every client needs first, comes from a few spare files.
 *  - A request for another file of more than PAGES_LEAST_BYTES waits until the file is full, and only then for a
 *    quiesce.
 *  - A file is given to one client and never reused: that client may still have it mapped.
 *  - The worker keeps a duplicate descriptor of each file it gave out, up to a limit, so that the last close, which
 *    frees the pages, happens in the thread.
 *
 * The thread exists only where calls stop the device; elsewhere no session waits for pages, and the worker has one
 * thread. The thread writes zeros because fallocate would leave the clearing to the first access, which happens in the
 * quiesce.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/error.h"
#include "worker/internal.h"

#define PAGES_LEAST_BYTES DS_KIB(256) /* the loop itself makes smaller files */
#define PAGES_WRITE_BYTES DS_KIB(64)
/* bytes that the thread writes to one file before the next awaited file gets its share */
#define PAGES_SLICE_BYTES DS_MIB(4)
#define PAGES_SPARES 4u
#define PAGES_CLOSES_MAX 64u /* descriptors queued for the thread to close; with more, the loop closes them itself */
#define PAGES_NICE 10        /* nice value of the thread: on a machine with few CPUs, other work comes first */

/* A file being prepared. Of the files in `todo`, the thread reads fd, bytes and written. Only the loop uses the
 * other fields. */
struct dsw_file {
        struct dsw_file *prev, *next;
        uint64_t bytes, written;
        int fd;
        int failed;    /* 1: there was no memory for the file */
        int cancelled; /* 1: no session waits for the file any more; protected by the lock */
        int spare;     /* 1: a spare file, for which no session waits yet; protected by the lock */
        int ready;
        struct dsw_session *session;
};

struct dsw_pages {
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t work;
        int event_fd; /* readable while `done` has files */
        _Atomic int any_done;

        /* fields protected by the lock */
        int ending;
        struct dsw_file *todo, *done;
        int closes[PAGES_CLOSES_MAX];
        size_t n_closes;

        /* fields that only the loop uses */
        struct dsw_file *spares; /* complete spare files */
        size_t n_spares;         /* spare files, both complete and in preparation */
        size_t n_awaited;        /* number of files that sessions wait for */
        size_t n_handles;
        int broken; /* 1: the last spare file failed for lack of memory, so no further ones are made for now */
};

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* Writes one slice of zeros. The thread holds no lock here: only it uses the file meanwhile. */
static void pages_fill(struct dsw_file *file)
{
        static const char zeros[PAGES_WRITE_BYTES];
        uint64_t until = DS_MIN(file->bytes, file->written + PAGES_SLICE_BYTES);
        ssize_t n;

        while (file->written < until) {
                n = pwrite(
                        file->fd, zeros, DS_MIN((uint64_t)sizeof(zeros), until - file->written), (off_t)file->written);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        file->failed = 1;
                        return;
                }
                file->written += (uint64_t)n;
        }
}

/* Picks the next file: in order of arrival, spare files last. */
static struct dsw_file *pages_next(struct dsw_pages *pages)
{
        struct dsw_file *file;

        DL_FOREACH(pages->todo, file)
        {
                if (!file->spare)
                        return file;
        }
        return pages->todo;
}

static void pages_done(struct dsw_pages *pages, struct dsw_file *file)
{
        const uint64_t one = 1;

        DL_APPEND(pages->done, file);
        atomic_store(&pages->any_done, 1);
        /* EAGAIN means that the counter is full, so the fd is readable anyway */
        if (write(pages->event_fd, &one, sizeof(one)) < 0)
                return;
}

/* Does one step of the thread, with the lock held. 0: there is nothing to do. */
static int pages_turn(struct dsw_pages *pages)
{
        struct dsw_file *file = pages_next(pages);
        int fd;

        /* descriptors are closed before files are filled, because pages that were just freed are the fastest to
         * allocate */
        if (pages->n_closes) {
                fd = pages->closes[--pages->n_closes];
                pthread_mutex_unlock(&pages->lock);
                close(fd);
                pthread_mutex_lock(&pages->lock);
                return 1;
        }
        if (!file)
                return 0;
        DL_DELETE(pages->todo, file);
        pthread_mutex_unlock(&pages->lock);
        pages_fill(file);
        pthread_mutex_lock(&pages->lock);
        if (file->failed || file->cancelled || file->written == file->bytes)
                pages_done(pages, file);
        else
                DL_APPEND(pages->todo, file);
        return 1;
}

static void *pages_run(void *arg)
{
        struct dsw_pages *pages = arg;

        /* a failure to set the nice value is harmless */
        setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), PAGES_NICE);
        pthread_mutex_lock(&pages->lock);
        while (!pages->ending) {
                if (!pages_turn(pages))
                        pthread_cond_wait(&pages->work, &pages->lock);
        }
        pthread_mutex_unlock(&pages->lock);
        return NULL;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Frees the structure of a file; the thread closes its descriptor. */
static void pages_file_free(ds_worker *worker, struct dsw_file *file)
{
        dsw_pages_drop(worker, file->fd);
        ds_free(file);
}

/* Orders a file for `session`; NULL: a spare file. Returns 0, OUT_OF_MEMORY, or a negative errno. */
static int pages_order(ds_worker *worker, struct dsw_session *session, uint64_t bytes, struct dsw_file **ret)
{
        struct dsw_pages *pages = worker->pages;
        struct dsw_file *file = ds_alloc0(1, sizeof(*file));
        int r;

        if (!file)
                return ds_error_origin(-ENOMEM);
        r = dsw_memory_host_file(bytes, &file->fd);
        if (r) {
                ds_free(file);
                return ds_error_trace(r);
        }
        file->bytes = bytes;
        file->session = session;
        file->spare = !session;
        pthread_mutex_lock(&pages->lock);
        DL_APPEND(pages->todo, file);
        pthread_cond_signal(&pages->work);
        pthread_mutex_unlock(&pages->lock);
        if (ret)
                *ret = file;
        return 0;
}

static void pages_refill(ds_worker *worker)
{
        struct dsw_pages *pages = worker->pages;

        while (pages->n_spares < PAGES_SPARES && !pages->broken && !worker->stopping) {
                if (pages_order(worker, NULL, DS_ARENA_BYTES, NULL)) {
                        pages->broken = 1;
                        return;
                }
                pages->n_spares++;
        }
}

/* --- the loop's side ---------------------------------------------------------------------------------------------- */

static void pages_deliver(ds_worker *worker, struct dsw_file *file)
{
        struct dsw_pages *pages = worker->pages;
        struct dsw_session *session = file->session;

        file->ready = 1;
        if (session) {
                pages->n_awaited--;
                session->retry = 1;
                dsw_session_activate(session);
        } else if (!file->cancelled && !file->failed) {
                DL_APPEND(pages->spares, file);
        } else {
                if (file->spare) {
                        pages->n_spares--;
                        pages->broken = 1;
                }
                pages_file_free(worker, file);
        }
}

size_t dsw_pages_step(ds_worker *worker)
{
        struct dsw_pages *pages = worker->pages;
        struct dsw_file *done, *file, *next;
        uint64_t count;
        size_t n = 0;

        if (!pages || !atomic_load_explicit(&pages->any_done, memory_order_relaxed))
                return 0;
        pthread_mutex_lock(&pages->lock);
        done = pages->done;
        pages->done = NULL;
        atomic_store(&pages->any_done, 0);
        if (read(pages->event_fd, &count, sizeof(count)) < 0)
                count = 0; /* the thread had not signalled anything */
        pthread_mutex_unlock(&pages->lock);
        DL_FOREACH_SAFE(done, file, next)
        {
                DL_DELETE(done, file);
                pages_deliver(worker, file);
                n++;
        }
        return n;
}

int dsw_pages_awaited(const ds_worker *worker)
{
        return worker->pages && worker->pages->n_awaited;
}

int dsw_pages_fd(const ds_worker *worker)
{
        return worker->pages ? worker->pages->event_fd : -1;
}

/* Takes a complete spare file, or returns NULL. */
static struct dsw_file *pages_spare(ds_worker *worker)
{
        struct dsw_pages *pages = worker->pages;
        struct dsw_file *file = pages->spares;

        if (!file)
                return NULL;
        DL_DELETE(pages->spares, file);
        pages->n_spares--;
        pages_refill(worker);
        return file;
}

int dsw_pages_ready(struct dsw_session *session, uint64_t bytes)
{
        ds_worker *worker = session->worker;
        struct dsw_file *file = session->file;
        int r;

        if (file && file->bytes != bytes) {
                dsw_pages_forget(session);
                file = NULL;
        }
        if (!worker->pages || bytes < PAGES_LEAST_BYTES)
                return 0;
        if (!file && bytes == DS_ARENA_BYTES)
                file = session->file = pages_spare(worker);
        if (!file) {
                r = pages_order(worker, session, bytes, &session->file);
                if (r)
                        return ds_error_trace(r);
                worker->pages->n_awaited++;
                return DSW_WORK_E_STALLED;
        }
        if (!file->ready)
                return DSW_WORK_E_STALLED;
        if (!file->failed)
                return 0;
        dsw_pages_forget(session);
        return DS_CUDA_OUT_OF_MEMORY;
}

int dsw_pages_take(struct dsw_session *session)
{
        struct dsw_file *file = session->file;
        int fd;

        if (!file)
                return -1;
        assert(file->ready && !file->failed);
        fd = DS_TAKE_FD(file->fd);
        session->file = ds_free(file);
        session->worker->pages->broken = 0; /* an allocation succeeded, so memory is available again */
        pages_refill(session->worker);
        return fd;
}

void dsw_pages_forget(struct dsw_session *session)
{
        struct dsw_file *file = session->file;
        ds_worker *worker = session->worker;

        session->file = NULL;
        if (!file)
                return;
        if (file->ready) {
                pages_file_free(worker, file);
                return;
        }
        worker->pages->n_awaited--;
        file->session = NULL; /* the thread does not read this field */
        pthread_mutex_lock(&worker->pages->lock);
        file->cancelled = 1;
        pthread_mutex_unlock(&worker->pages->lock);
}

void dsw_pages_drop(ds_worker *worker, int fd)
{
        struct dsw_pages *pages = worker->pages;

        if (fd < 0)
                return;
        if (pages) {
                pthread_mutex_lock(&pages->lock);
                if (pages->n_closes < PAGES_CLOSES_MAX) {
                        pages->closes[pages->n_closes++] = DS_TAKE_FD(fd);
                        pthread_cond_signal(&pages->work);
                }
                pthread_mutex_unlock(&pages->lock);
        }
        ds_close(fd);
}

/* --- duplicate descriptors of files that clients have ------------------------------------------------------------- */

void dsw_pages_hold(struct dsw_session *session, uint64_t va, uint64_t bytes, int fd)
{
        struct dsw_pages *pages = session->worker->pages;

        if (!pages || bytes < PAGES_LEAST_BYTES || pages->n_handles == DSW_HANDLES_MAX)
                return;
        for (size_t i = 0; i < DSW_SESSION_HANDLES_MAX; i++) {
                struct dsw_handle *handle = &session->handles[i];
                int copy;

                if (handle->va)
                        continue;
                copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
                if (copy < 0)
                        return; /* without a duplicate, the last close of the file may happen in the loop */
                *handle = (struct dsw_handle){.va = va, .fd = copy};
                pages->n_handles++;
                return;
        }
}

void dsw_pages_release(struct dsw_session *session, uint64_t va)
{
        for (size_t i = 0; session->worker->pages && i < DSW_SESSION_HANDLES_MAX; i++) {
                struct dsw_handle *handle = &session->handles[i];

                if (handle->va != va)
                        continue;
                dsw_pages_drop(session->worker, handle->fd);
                *handle = (struct dsw_handle){0};
                session->worker->pages->n_handles--;
                return;
        }
}

/* --- start and stop ----------------------------------------------------------------------------------------------- */

/* Starts the thread with all signals blocked: the loop handles them. */
static int pages_start(struct dsw_pages *pages)
{
        sigset_t all, before;
        int r;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&pages->thread, NULL, pages_run, pages);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return r ? ds_error_origin(-r) : 0;
}

int dsw_pages_new(ds_worker *worker)
{
        ds_cleanup(ds_freep) struct dsw_pages *pages = ds_alloc0(1, sizeof(*pages));
        int r;

        if (!pages)
                return ds_error_origin(-ENOMEM);
        pthread_mutex_init(&pages->lock, NULL);
        pthread_cond_init(&pages->work, NULL);
        pages->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (pages->event_fd < 0)
                return ds_error_origin(-errno);
        r = pages_start(pages);
        if (r) {
                ds_close(pages->event_fd);
                return ds_error_trace(r);
        }
        worker->pages = pages;
        pages = NULL;
        pages_refill(worker);
        return 0;
}

static void pages_free_list(struct dsw_file *list)
{
        struct dsw_file *file, *next;

        DL_FOREACH_SAFE(list, file, next)
        {
                ds_close(file->fd);
                ds_free(file);
        }
}

void dsw_pages_free(ds_worker *worker)
{
        struct dsw_pages *pages = worker->pages;

        if (!pages)
                return;
        pthread_mutex_lock(&pages->lock);
        pages->ending = 1;
        pthread_cond_signal(&pages->work);
        pthread_mutex_unlock(&pages->lock);
        pthread_join(pages->thread, NULL);
        pages_free_list(pages->todo);
        pages_free_list(pages->done);
        pages_free_list(pages->spares);
        while (pages->n_closes)
                ds_close(pages->closes[--pages->n_closes]);
        ds_close(pages->event_fd);
        pthread_cond_destroy(&pages->work);
        pthread_mutex_destroy(&pages->lock);
        worker->pages = ds_free(pages);
}
