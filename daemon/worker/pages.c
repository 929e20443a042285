/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates and frees the pages of pinned memory in threads beside the loop
 *
 * Pinned memory is a file. Its registration with a GPU must happen in a quiesce, which holds LS. Most of the time,
 * however, goes into allocating, clearing and mapping the file's pages (16 MiB: 6 ms on a virtual machine that touches
 * them for the first time), and into freeing them later. None of this needs a quiesce. A few threads map new files and
 * have the kernel allocate their pages, slice by slice; one more thread closes files that are no longer needed. The
 * loop continues meanwhile. The threads make no device call and see nothing of the worker but these files, which
 * travel in lists under a lock.
 *
 *  - An arena of DS_ARENA_BYTES, which every client needs first, comes from a few spare files.
 *  - A request for another file of more than PAGES_LEAST_BYTES waits until the file is full, and only then for a
 *    quiesce.
 *  - A file is given to one client and never reused: that client may still have it mapped.
 *  - The worker keeps a duplicate descriptor of each file it gave out, up to a limit, so that the last close, which
 *    frees the pages, happens in a thread. Closing never delays the filling: a new file may be tiny, and one to close
 *    may have gigabytes. Only when much memory waits to be freed does the filling wait: programs that allocate and free
 *    could otherwise use up the machine's memory.
 *
 * A full file comes with its mapping, which the device moves to its place: that keeps the page tables, so the quiesce
 * has nothing left to do but the registration. The threads populate the mapping in pieces of PAGES_PIECE_BYTES, because
 * the loop's own mmap waits for such a call to end. Populating changes no byte, so a client may already use the file.
 * Before Linux 5.14 it is not possible; then the threads write zeros, and the files have no mapping.
 *
 * The threads exist only where calls stop the device; elsewhere no session waits for pages, and the worker has one
 * thread. Neither fallocate nor a larger file would do: they leave the clearing to the first access, which happens in
 * the quiesce.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/error.h"
#include "worker/internal.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGES_LEAST_BYTES DS_KIB(256) /* the loop itself makes smaller files */
#define PAGES_WRITE_BYTES DS_KIB(64)
#define PAGES_PIECE_BYTES DS_KIB(256)
/* bytes of one file that a thread fills before the next awaited file gets its share: at most this, and a part of a
 * small file, so that several threads fill it */
#define PAGES_SLICE_BYTES DS_MIB(4)
#define PAGES_SLICES 8
#define PAGES_SPARES 4u
#define PAGES_CLOSES_MAX 64u /* files queued for the thread to close; with more, the loop closes them itself */
/* bytes of files to close, above which no file is filled: closed memory is charged to nobody */
#define PAGES_CLOSING_BYTES DS_GIB(2)
#define PAGES_NICE 10 /* nice value of the threads: on a machine with few CPUs, other work comes first */
#define PAGES_FILLERS_MAX 4u
#define PAGES_CPUS_PER_FILLER 4u /* number of CPUs of the process for which there is one thread that fills files */

/* A file being prepared. Of the files in `todo`, the threads read fd, mapped and bytes. */
struct dsw_file {
        struct dsw_file *prev, *next;
        uint64_t bytes;
        int fd;
        void *mapped; /* mapping of the whole file; NULL = none */

        /* fields protected by the lock */
        uint64_t given;    /* bytes that threads have filled or are filling */
        uint32_t n_slices; /* slices that threads are filling */
        int failed;        /* 1: there was no memory for the file */
        int cancelled;     /* 1: no session waits for the file any more */
        int spare;         /* 1: a spare file, for which no session waits yet */
        int in_todo;       /* 1: threads may begin slices of it */

        /* fields that only the loop uses */
        int ready;
        struct dsw_session *session;
};

/* A file to close, and its mapping; mapped NULL = it has none. */
struct pages_close {
        int fd;
        void *mapped;
        uint64_t bytes;
};

struct dsw_pages {
        pthread_t fillers[PAGES_FILLERS_MAX], closer;
        uint32_t n_fillers;
        int has_closer;
        pthread_mutex_t lock;
        pthread_cond_t work, closing;
        int event_fd; /* readable while `done` has files */
        _Atomic int any_done;
        int populates; /* 1: the kernel can populate mappings */

        /* fields protected by the lock */
        int ending;
        struct dsw_file *todo, *done;
        struct pages_close closes[PAGES_CLOSES_MAX];
        size_t n_closes;
        uint64_t closing_bytes; /* bytes of the files in `closes`, and of the one that the thread closes now */

        /* fields that only the loop uses */
        struct dsw_file *spares; /* complete spare files */
        size_t n_spares;         /* spare files, both complete and in preparation */
        size_t n_awaited;        /* number of files that sessions wait for */
        size_t n_handles;
        int broken; /* 1: the last spare file failed for lack of memory, so no further ones are made for now */
};

/* --- the threads that fill files ---------------------------------------------------------------------------------- */

/* Returns 0 if there was no memory. */
static int pages_populate(const struct dsw_file *file, uint64_t from, uint64_t until)
{
        while (from < until) {
                uint64_t bytes = DS_MIN((uint64_t)PAGES_PIECE_BYTES, until - from);

                if (madvise((uint8_t *)file->mapped + from, bytes, MADV_POPULATE_WRITE) == 0)
                        from += bytes;
                else if (errno != EINTR && errno != EAGAIN)
                        return 0;
        }
        return 1;
}

/* Returns 0 if there was no memory. */
static int pages_write(const struct dsw_file *file, uint64_t from, uint64_t until)
{
        static const char zeros[PAGES_WRITE_BYTES];
        ssize_t n;

        while (from < until) {
                n = pwrite(file->fd, zeros, DS_MIN((uint64_t)sizeof(zeros), until - from), (off_t)from);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return 0;
                from += (uint64_t)n;
        }
        return 1;
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

/* Removes the file from `todo` if no thread is to begin another slice of it. */
static void pages_stop_giving(struct dsw_pages *pages, struct dsw_file *file)
{
        if (!file->in_todo || !(file->failed || file->cancelled || file->given == file->bytes))
                return;
        DL_DELETE(pages->todo, file);
        file->in_todo = 0;
}

static uint64_t pages_slice(const struct dsw_file *file)
{
        uint64_t part = DS_ALIGN_UP(file->bytes / PAGES_SLICES, (uint64_t)PAGES_PIECE_BYTES);

        return DS_MIN(DS_MAX(part, (uint64_t)PAGES_PIECE_BYTES), PAGES_SLICE_BYTES);
}

/* Fills one slice, with the lock held except while it fills. 0: there is nothing to fill. */
static int pages_turn(struct dsw_pages *pages)
{
        struct dsw_file *file = pages_next(pages);
        uint64_t from, until;
        int filled;

        if (!file || pages->closing_bytes > PAGES_CLOSING_BYTES)
                return 0;
        from = file->given;
        until = file->cancelled ? from : DS_MIN(file->bytes, from + pages_slice(file));
        file->given = until;
        file->n_slices++;
        DL_DELETE(pages->todo, file);
        DL_APPEND(pages->todo, file);
        pages_stop_giving(pages, file);
        if (pages->todo)
                pthread_cond_signal(&pages->work);
        pthread_mutex_unlock(&pages->lock);
        filled = file->mapped ? pages_populate(file, from, until) : pages_write(file, from, until);
        pthread_mutex_lock(&pages->lock);
        file->failed |= !filled;
        file->n_slices--;
        pages_stop_giving(pages, file);
        if (!file->in_todo && !file->n_slices)
                pages_done(pages, file);
        return 1;
}

/* A failure to set the nice value is harmless. */
static void pages_be_nice(void)
{
        setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), PAGES_NICE);
}

static void *pages_run(void *arg)
{
        struct dsw_pages *pages = arg;

        pages_be_nice();
        pthread_mutex_lock(&pages->lock);
        while (!pages->ending) {
                if (!pages_turn(pages))
                        pthread_cond_wait(&pages->work, &pages->lock);
        }
        pthread_mutex_unlock(&pages->lock);
        return NULL;
}

/* --- the thread that closes files --------------------------------------------------------------------------------- */

/* Unmaps in slices: one munmap would hold up the loop's own mmap for as long as it takes. */
static void pages_close(const struct pages_close *gone)
{
        for (uint64_t at = 0; gone->mapped && at < gone->bytes; at += PAGES_SLICE_BYTES) {
                uint64_t bytes = DS_MIN((uint64_t)PAGES_SLICE_BYTES, gone->bytes - at);

                if (madvise((uint8_t *)gone->mapped + at, bytes, MADV_DONTNEED))
                        break; /* munmap does the rest */
        }
        if (gone->mapped)
                munmap(gone->mapped, gone->bytes);
        ds_close(gone->fd);
}

static void *pages_run_closer(void *arg)
{
        struct dsw_pages *pages = arg;
        struct pages_close gone;

        pages_be_nice();
        pthread_mutex_lock(&pages->lock);
        while (!pages->ending) {
                if (!pages->n_closes) {
                        pthread_cond_wait(&pages->closing, &pages->lock);
                        continue;
                }
                gone = pages->closes[--pages->n_closes];
                pthread_mutex_unlock(&pages->lock);
                pages_close(&gone);
                pthread_mutex_lock(&pages->lock);
                pages->closing_bytes -= gone.bytes;
                pthread_cond_broadcast(&pages->work);
        }
        pthread_mutex_unlock(&pages->lock);
        return NULL;
}

/* Closes the file in the thread, or here if too many are queued. */
static void pages_close_later(ds_worker *worker, const struct pages_close *gone)
{
        struct dsw_pages *pages = worker->pages;
        int queued = 0;

        if (pages) {
                pthread_mutex_lock(&pages->lock);
                queued = pages->n_closes < PAGES_CLOSES_MAX;
                if (queued) {
                        pages->closes[pages->n_closes++] = *gone;
                        pages->closing_bytes += gone->bytes;
                        pthread_cond_signal(&pages->closing);
                }
                pthread_mutex_unlock(&pages->lock);
        }
        if (!queued)
                pages_close(gone);
}

void dsw_pages_drop(ds_worker *worker, int fd, void *mapped, uint64_t bytes)
{
        const struct pages_close gone = {.fd = fd, .mapped = mapped, .bytes = bytes};

        if (fd >= 0 || mapped)
                pages_close_later(worker, &gone);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Frees the structure of a file; the thread closes its descriptor. */
static void pages_file_free(ds_worker *worker, struct dsw_file *file)
{
        dsw_pages_drop(worker, file->fd, file->mapped, file->bytes);
        ds_free(file);
}

/*
 * Maps a file at an address like that of its final place: a multiple of DSW_PINNED_ALIGN, so that the kernel can move
 * whole page tables. Returns NULL if there is no room.
 */
static void *pages_map(int fd, uint64_t bytes)
{
        uint64_t slack = bytes < DSW_PINNED_ALIGN ? 0 : DSW_PINNED_ALIGN, before;
        uint8_t *all = mmap(NULL, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), *p;

        if (all == MAP_FAILED)
                return NULL;
        before = slack ? -(uintptr_t)all % DSW_PINNED_ALIGN : 0;
        p = mmap(all + before, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
        if (p == MAP_FAILED) {
                munmap(all, bytes + slack);
                return NULL;
        }
        if (before)
                munmap(all, before);
        if (slack - before)
                munmap(p + bytes, slack - before);
        /* has an effect only where the administrator allows huge pages for files in memory (shmem_enabled) */
        if (slack)
                madvise(p, bytes, MADV_HUGEPAGE);
        return p;
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
        file->mapped = pages->populates ? pages_map(file->fd, bytes) : NULL;
        file->session = session;
        file->spare = !session;
        file->in_todo = 1;
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

int dsw_pages_ready(struct dsw_session *session, struct dsw_file **slot, uint64_t bytes)
{
        ds_worker *worker = session->worker;
        struct dsw_file *file = *slot;
        int r;

        if (file && file->bytes != bytes) {
                dsw_pages_forget(session, slot);
                file = NULL;
        }
        if (!worker->pages || bytes < PAGES_LEAST_BYTES)
                return 0;
        if (!file && bytes == DS_ARENA_BYTES)
                file = *slot = pages_spare(worker);
        if (!file) {
                r = pages_order(worker, session, bytes, slot);
                if (r)
                        return ds_error_trace(r);
                worker->pages->n_awaited++;
                return DSW_WORK_E_STALLED;
        }
        if (!file->ready)
                return DSW_WORK_E_STALLED;
        if (!file->failed)
                return 0;
        dsw_pages_forget(session, slot);
        return DS_CUDA_OUT_OF_MEMORY;
}

int dsw_pages_take(struct dsw_session *session, struct dsw_file **slot, void **ret_mapped)
{
        struct dsw_file *file = *slot;
        int fd;

        *ret_mapped = NULL;
        if (!file)
                return -1;
        assert(file->ready && !file->failed);
        fd = DS_TAKE_FD(file->fd);
        *ret_mapped = file->mapped;
        *slot = ds_free(file);
        session->worker->pages->broken = 0; /* an allocation succeeded, so memory is available again */
        pages_refill(session->worker);
        return fd;
}

int dsw_pages_file_fd(const struct dsw_file *file)
{
        return file->fd;
}

int dsw_pages_keep_bytes(const ds_worker *worker)
{
        return worker->pages && worker->pages->populates;
}

void dsw_pages_forget(struct dsw_session *session, struct dsw_file **slot)
{
        struct dsw_file *file = *slot;
        ds_worker *worker = session->worker;

        *slot = NULL;
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
                *handle = (struct dsw_handle){.va = va, .bytes = bytes, .fd = copy};
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
                dsw_pages_drop(session->worker, handle->fd, NULL, handle->bytes);
                *handle = (struct dsw_handle){0};
                session->worker->pages->n_handles--;
                return;
        }
}

/* --- start and stop ----------------------------------------------------------------------------------------------- */

static int pages_can_populate(void)
{
        long page = sysconf(_SC_PAGESIZE);
        void *p = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int can;

        if (p == MAP_FAILED)
                return 0;
        can = !madvise(p, (size_t)page, MADV_POPULATE_WRITE);
        munmap(p, (size_t)page);
        return can;
}

static uint32_t pages_count_fillers(void)
{
        cpu_set_t set;
        int cpus = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);

        return DS_MIN(DS_MAX((uint32_t)cpus / PAGES_CPUS_PER_FILLER, 1u), PAGES_FILLERS_MAX);
}

/* Starts the threads. */
static int pages_start(struct dsw_pages *pages, uint32_t n_fillers)
{
        int r = pthread_create(&pages->closer, NULL, pages_run_closer, pages);

        pages->has_closer = !r;
        while (!r && pages->n_fillers < n_fillers) {
                r = pthread_create(&pages->fillers[pages->n_fillers], NULL, pages_run, pages);
                pages->n_fillers += !r;
        }
        return r && !pages->n_fillers ? ds_error_origin(-r) : 0;
}

static void pages_free_list(struct dsw_file *list)
{
        struct dsw_file *file, *next;

        DL_FOREACH_SAFE(list, file, next)
        {
                pages_close(&(struct pages_close){.fd = file->fd, .mapped = file->mapped, .bytes = file->bytes});
                ds_free(file);
        }
}

/* Ends the threads that exist. */
static void pages_end(struct dsw_pages *pages)
{
        pthread_mutex_lock(&pages->lock);
        pages->ending = 1;
        pthread_cond_broadcast(&pages->work);
        pthread_cond_broadcast(&pages->closing);
        pthread_mutex_unlock(&pages->lock);
        while (pages->n_fillers)
                pthread_join(pages->fillers[--pages->n_fillers], NULL);
        if (pages->has_closer)
                pthread_join(pages->closer, NULL);
        pthread_cond_destroy(&pages->work);
        pthread_cond_destroy(&pages->closing);
        pthread_mutex_destroy(&pages->lock);
        ds_close(pages->event_fd);
}

int dsw_pages_new(ds_worker *worker, uint32_t n_fillers)
{
        ds_cleanup(ds_freep) struct dsw_pages *pages = ds_alloc0(1, sizeof(*pages));
        sigset_t all, before;
        int r;

        if (!pages)
                return ds_error_origin(-ENOMEM);
        pages->populates = pages_can_populate();
        pages->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (pages->event_fd < 0)
                return ds_error_origin(-errno);
        pthread_mutex_init(&pages->lock, NULL);
        pthread_cond_init(&pages->work, NULL);
        pthread_cond_init(&pages->closing, NULL);
        /* the threads block all signals: the loop handles them */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pages_start(pages, n_fillers ? DS_MIN(n_fillers, PAGES_FILLERS_MAX) : pages_count_fillers());
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (r) {
                pages_end(pages);
                return ds_error_trace(r);
        }
        worker->pages = pages;
        pages = NULL;
        pages_refill(worker);
        return 0;
}

void dsw_pages_free(ds_worker *worker)
{
        struct dsw_pages *pages = worker->pages;

        if (!pages)
                return;
        pages_end(pages);
        pages_free_list(pages->todo);
        pages_free_list(pages->done);
        pages_free_list(pages->spares);
        while (pages->n_closes)
                pages_close(&pages->closes[--pages->n_closes]);
        worker->pages = ds_free(pages);
}
