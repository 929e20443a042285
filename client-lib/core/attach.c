/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching: the ring and the completion page of one worker process
 *
 * The first operation attaches. When a worker has died, its page says so, and the thread that sees it attaches to the
 * new worker. The new files are mapped over the old ones, and the new eventfd takes the old one's number, so threads
 * that only read the page need no lock.
 *
 * Old operations: stream_done[] in the new page counts those that ended; the others are lost, so both counts,
 * "submitted" and "ended", continue from there. If any operation was lost, the new page carries a sticky error until
 * the session is reset.
 *
 * After an orderly restart of the daemon the ring is kept: its unfinished operations run in the new worker, and the
 * counts continue.
 *
 * Requests carry the ring's tail. From the sending of Attach until the new ring is in place they carry 0, which is true
 * for the old ring (it is gone) and for a new one; for a kept ring the daemon knows the real value.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/internal.h"

static int bad_attachment(const char *what)
{
        dsc__message("the daemon's shared memory cannot be used: %s", what);
        return DETSHARE__STATUS__INTERNAL;
}

bool dsc__keeps_bytes(int fd, uint64_t bytes)
{
        struct stat st;
        const int seals = fcntl(fd, F_GET_SEALS);
        return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 && (uint64_t)st.st_size >= bytes;
}

static int map_over(void *at, size_t bytes, int protection, int fd)
{
        return mmap(at, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ? -1 : 0;
}

static int take_eventfd(struct dsc__submit *submit, struct dsc__answer *answer)
{
        if (submit->ring.event_fd < 0) {
                submit->ring.event_fd = dsc__fd_above_standard(answer->fds[2]);
                answer->fds[2] = -1;
                return submit->ring.event_fd < 0 ? -1 : 0;
        }
        int r;
        while ((r = dup3(answer->fds[2], submit->ring.event_fd, O_CLOEXEC)) < 0 && (errno == EINTR || errno == EBUSY))
                ;
        return r < 0 ? -1 : 0;
}

static int take_attachment(dsc_session *s, struct dsc__answer *answer)
{
        const Detshare__AttachReply *reply = answer->reply->attach;
        if (answer->n_fds != 3)
                return bad_attachment("file descriptors are missing");
        if (reply->wire_version != DS_WIRE_VERSION || reply->ring_bytes != DS_RING_BYTES ||
                reply->page_bytes != DS_PAGE_BYTES) {
                bad_attachment("it has another version of the layout; install daemon and library of one version");
                return DETSHARE__STATUS__BAD_VERSION;
        }
        if (!dsc__keeps_bytes(answer->fds[0], DS_RING_BYTES) || !dsc__keeps_bytes(answer->fds[1], DS_PAGE_BYTES))
                return bad_attachment("a file is too short or not sealed against shrinking");
        if (map_over(s->ring_header, DS_RING_BYTES, PROT_READ | PROT_WRITE, answer->fds[0]) < 0 ||
                map_over(s->page, DS_PAGE_BYTES, PROT_READ, answer->fds[1]) < 0)
                return bad_attachment(strerror(errno));
        if (s->ring_header->slots != DS_RING_SLOTS || s->ring_header->slot_bytes != DS_RING_SLOT)
                return bad_attachment("the ring's header is wrong");
        if (take_eventfd(&s->submit, answer) < 0)
                return bad_attachment(strerror(errno));
        return 0;
}

static void resynchronise(dsc_session *s)
{
        struct dsc__submit *submit = &s->submit;
        const int event_fd = submit->ring.event_fd;
        const uint64_t tail = submit->ring.tail;
        dsc__ring_init(&submit->ring, s->ring_header, s->page, event_fd);
        if (submit->kept) {
                submit->ring.tail = tail;
                submit->ring.head = atomic_load(&s->page->head);
        }
        for (uint32_t i = 0; i < DS_STREAMS_MAX && !submit->kept; i++)
                atomic_store(&submit->tails[i], atomic_load(&s->page->stream_done[i]));
        if (!submit->kept)
                dsc__settle_forget_locked(s);
        dsc__waiters_publish(s);
        atomic_store(&s->rpc.ring_tail, submit->ring.tail);
        atomic_store_explicit(&submit->attached, true, memory_order_release);
        dsc__host_attach_locked(s);
}

static void check_lost(dsc_session *s)
{
        bool lost = false;
        for (uint32_t i = 0; i < DS_STREAMS_MAX && dsc__attached(s); i++)
                lost |= atomic_load(&s->submit.tails[i]) > atomic_load(&s->page->stream_done[i]);
        if (lost)
                atomic_store(&s->submit.lost_error, DSC__LAUNCH_FAILED);
}

static void suspend_tail(dsc_session *s)
{
        pthread_mutex_lock(&s->rpc.send_lock);
        atomic_store(&s->rpc.ring_tail, 0);
        pthread_mutex_unlock(&s->rpc.send_lock);
}

int dsc__attach_locked(dsc_session *s)
{
        int r = dsc__usable(s);
        if (r || (dsc__attached(s) && !atomic_load(&s->page->dead)))
                return r;
        if (!s->page) {
                dsc__message("DETSHARE_TRANSPORT=rpc: the session has no ring");
                return DETSHARE__STATUS__BAD_REQUEST;
        }
        suspend_tail(s);
        dsc__host_detach_locked(s);
        Detshare__Attach attach = DETSHARE__ATTACH__INIT;
        Detshare__Request request = DSC__REQUEST(ATTACH, attach, &attach);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_ATTACH, &answer);
        if (r)
                return r;
        s->submit.kept = dsc__attached(s) && answer.reply->attach->kept;
        s->submit.objects = answer.reply->attach->objects;
        if (!s->submit.kept)
                check_lost(s);
        s->memory.spare_bytes = answer.reply->attach->spare_bytes;
        uint64_t spare[DS_SPARES];
        dsc__spare_leave_locked(s, spare);
        r = take_attachment(s, &answer);
        dsc__answer_clear(&answer);
        if (r) {
                dsc__lose(s);
                return r;
        }
        for (uint32_t i = 0; i < DS_SPARES; i++)
                atomic_store(&s->ring_header->spare[i], spare[i]);
        resynchronise(s);
        if (!s->submit.kept)
                dsc__streams_renew_locked(s);
        dsc__clock_note_begin(s);
        dsc__phase_tell_locked(s);
        return dsc__clock_rejoin_locked(s);
}

int dsc__attach(dsc_session *s)
{
        pthread_mutex_lock(&s->submit.lock);
        int r = dsc__attach_locked(s);
        pthread_mutex_unlock(&s->submit.lock);
        return r;
}

int dsc__sticky(dsc_session *s)
{
        if (!dsc__attached(s))
                return 0;
        const int error = atomic_load(&s->page->error);
        return error > 0 ? error : atomic_load(&s->submit.lost_error);
}
