/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/later.h"

#include <errno.h>
#include <fcntl.h>

#include "util/error.h"
#include "worker/internal.h"

struct dsw_later {
        struct dsw_later *prev, *next;
        uint64_t va, bytes;
        struct dsw_file *file; /* file in preparation; NULL: a small one, which needs none */
        int fd;                /* descriptor of a small file, else -1 */
};

/* Removes the entry. The heap's range stays. */
static void later_remove(struct dsw_session *session, struct dsw_later *later)
{
        DL_DELETE(session->memory.later, later);
        dsw_pages_forget(session, &later->file);
        ds_close(later->fd);
        ds_free(later);
}

/* Opens or orders the file. *ret_fd: a duplicate of its descriptor. */
static int later_open(struct dsw_session *session, struct dsw_later *later, int *ret_fd)
{
        int fd, r = dsw_pages_ready(session, &later->file, later->bytes);

        if (!r && !later->file)
                r = dsw_memory_host_file(later->bytes, &later->fd);
        if (r && r != DSW_WORK_E_STALLED)
                return ds_error_trace(r);
        fd = fcntl(later->file ? dsw_pages_file_fd(later->file) : later->fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
                return ds_error_origin(-errno);
        *ret_fd = fd;
        return 0;
}

static int later_place(struct dsw_session *session, struct dsw_later *later)
{
        struct dsw_heap *heap = &session->memory.pinned;
        uint64_t removed;
        int r = dsw_heap_add_slab(heap, later->va, later->bytes);

        if (r)
                return ds_error_fold(r);
        r = dsw_heap_place(heap, later->va, later->bytes);
        if (r) {
                dsw_heap_remove_slab(heap, later->va, &removed);
                return ds_error_fold(r);
        }
        dsw_heap_find(heap, later->va)->flags = DSW_RANGE_LATER;
        return 0;
}

int dsw_later_alloc(struct dsw_session *session, uint64_t bytes, uint64_t align, uint64_t *ret_va, int *ret_fd)
{
        struct dsw_later *later;
        size_t n;
        int r;

        DL_COUNT(session->memory.later, later, n);
        if (n >= DSW_LATER_MAX || !dsw_pages_keep_bytes(session->worker))
                return DSW_LATER_E_NOW;
        later = ds_alloc0(1, sizeof(*later));
        if (!later)
                return ds_error_origin(-ENOMEM);
        later->bytes = bytes;
        later->fd = -1;
        DL_APPEND(session->memory.later, later);
        if (dsw_heap_gap(&session->memory.pinned, 0, bytes, align, &later->va))
                r = DSW_LATER_E_NOW; /* it fails there for the same reason, with the right status */
        else
                r = later_open(session, later, ret_fd);
        if (!r) {
                r = later_place(session, later);
                if (r)
                        *ret_fd = ds_close(*ret_fd);
        }
        if (r) {
                later_remove(session, later);
                return r < 0 ? ds_error_trace(r) : r;
        }
        session->memory.n_pinned++;
        *ret_va = later->va;
        return 0;
}

/* Returns 0, STALLED, a CUDA error, or a negative errno. */
static int later_register(struct dsw_session *session, struct dsw_later *later)
{
        ds_worker *worker = session->worker;
        ds_cleanup(ds_closep) int fd = -1;
        void *mapped = NULL;
        int r = later->file ? dsw_pages_ready(session, &later->file, later->bytes) : 0;

        if (r)
                return r == DSW_WORK_E_STALLED ? r : ds_error_trace(r);
        if (!dsw_quiesce_may_do(session, DSW_STOP_OTHER, later->bytes))
                return DSW_WORK_E_STALLED;
        fd = later->file ? dsw_pages_take(session, &later->file, &mapped) : DS_TAKE_FD(later->fd);
        if (mapped)
                r = worker->ops->host_move(worker->device, session->space, fd, mapped, later->va, later->bytes);
        else
                r = worker->ops->host_map(worker->device, session->space, fd, later->va, later->bytes);
        if (r)
                return ds_error_trace(r);
        dsw_heap_find(&session->memory.pinned, later->va)->flags &= ~DSW_RANGE_LATER;
        dsw_pages_hold(session, later->va, later->bytes, fd);
        return 0;
}

int dsw_later_settle(struct dsw_session *session)
{
        struct dsw_later *later;
        int r;

        while ((later = session->memory.later) && session->state == DSW_SESSION_OPEN && !dsw_session_error(session)) {
                r = later_register(session, later);
                if (r == DSW_WORK_E_STALLED)
                        return r;
                if (!r)
                        later_remove(session, later);
                else
                        dsw_session_fail(session, r > 0 ? r : DS_CUDA_UNKNOWN,
                                r == DS_CUDA_OUT_OF_MEMORY ? "there is no host memory for managed memory"
                                                           : "managed memory cannot be registered with the GPU");
        }
        return 0;
}

/* Frees an allocation that the device does not know. */
static void later_free(struct dsw_session *session, struct dsw_later *later)
{
        struct dsw_heap *heap = &session->memory.pinned;
        uint64_t va = later->va, empty = 0, bytes;

        later_remove(session, later);
        if (dsw_heap_free(heap, va, &empty) || !empty || dsw_heap_remove_slab(heap, empty, &bytes))
                (void)ds_error_origin(-EINVAL);
        session->memory.n_pinned--;
}

int dsw_later_free(struct dsw_session *session, uint64_t va)
{
        struct dsw_later *later;

        DL_SEARCH_SCALAR(session->memory.later, later, va, va);
        if (!later)
                return 0;
        later_free(session, later);
        return 1;
}

void dsw_later_free_all(struct dsw_session *session)
{
        while (session->memory.later)
                later_free(session, session->memory.later);
}
