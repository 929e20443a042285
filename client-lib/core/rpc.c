/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over the socket, from any number of threads at once
 *
 * There is no reader thread, because a library must not surprise its host program with threads. Each thread sends its
 * request, then reads the socket (if no other thread does) or sleeps. The reading thread passes every reply to the
 * thread that waits for its id; when its own reply has come, it leaves the reading to another thread. So one thread's
 * Sync of a second does not delay another thread's allocation.
 *
 * When the daemon ends, the reader sees it at once, and all calls return DSC__UNKNOWN. A malformed frame ends the
 * session the same way: the rest of the stream cannot be trusted. The last thread that uses a retired session frees its
 * socket and buffers: n_open counts threads with a request, n_users the others. The daemon bounds a session's open
 * requests (64). Threads beyond that wait here; some places are kept for requests that are answered at once, because
 * slow requests may wait for them.
 *
 * One lock covers reading the ring's tail and sending the frame, so tails leave in the order in which the daemon sees
 * them.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/internal.h"

#define OPEN_MAX_ALL 60u
#define OPEN_MAX_SLOW 48u
#define RESTART_WAIT_NS 10000000000u
#define RESTART_PAUSE_MIN_MS 5u
#define RESTART_PAUSE_MAX_MS 40u
#define FRAME_PREFIX 4u
#define LOOK_NS 60000u
#define SPARE_NAP_NS 50000 /* interval between attempts to take the spare memory, ns */

struct dsc__open_call {
        struct dsc__open_call *next;
        pthread_cond_t cond;
        uint64_t id;
        bool done, slow, waiting;
        struct dsc__answer answer;
};

int dsc__rpc_init(struct dsc__rpc *rpc, int fd)
{
        rpc->fd = fd;
        pthread_mutex_init(&rpc->lock, NULL);
        pthread_cond_init(&rpc->room, NULL);
        pthread_mutex_init(&rpc->send_lock, NULL);
        rpc->next_id = 1;
        rpc->out = malloc(FRAME_PREFIX + DS_FRAME_MAX);
        rpc->in = malloc(FRAME_PREFIX + DS_FRAME_MAX);
        rpc->spare = malloc(DSC__SPARE_BYTES);
        if (rpc->out && rpc->in && rpc->spare)
                return 0;
        return DSC__OUT_OF_MEMORY;
}

void dsc__rpc_deinit(struct dsc__rpc *rpc)
{
        for (uint32_t i = 0; i < rpc->n_in_fds; i++)
                close(rpc->in_fds[i]);
        rpc->n_in_fds = 0;
        free(rpc->out);
        free(rpc->in);
        free(rpc->spare);
        rpc->out = rpc->in = rpc->spare = NULL;
        if (rpc->fd >= 0)
                close(rpc->fd);
        rpc->fd = -1;
}

static void release_locked(struct dsc__rpc *rpc)
{
        if (rpc->retired && !rpc->n_open && !rpc->n_users)
                dsc__rpc_deinit(rpc);
}

void dsc__rpc_retire(struct dsc__rpc *rpc)
{
        pthread_mutex_lock(&rpc->lock);
        rpc->retired = true;
        release_locked(rpc);
        pthread_mutex_unlock(&rpc->lock);
}

/* Counts the calling thread as a user of the connection. True: socket and buffers stay until leave(). False: the
 * session is lost. */
static bool enter(dsc_session *s)
{
        pthread_mutex_lock(&s->rpc.lock);
        const bool there = !s->lost;
        s->rpc.n_users += there;
        pthread_mutex_unlock(&s->rpc.lock);
        return there;
}

static void leave(dsc_session *s)
{
        pthread_mutex_lock(&s->rpc.lock);
        s->rpc.n_users--;
        release_locked(&s->rpc);
        pthread_mutex_unlock(&s->rpc.lock);
}

bool dsc__spare_take(struct dsc__rpc *rpc)
{
        pthread_mutex_lock(&rpc->lock);
        const bool mine = !rpc->spare_taken;
        rpc->spare_taken = true;
        rpc->n_users += mine;
        pthread_mutex_unlock(&rpc->lock);
        return mine;
}

void dsc__spare_give(struct dsc__rpc *rpc)
{
        pthread_mutex_lock(&rpc->lock);
        rpc->spare_taken = false;
        rpc->n_users--;
        release_locked(rpc);
        pthread_mutex_unlock(&rpc->lock);
}

void dsc__lose(dsc_session *s)
{
        struct dsc__rpc *rpc = &s->rpc;
        pthread_mutex_lock(&rpc->lock);
        atomic_store(&s->lost, true);
        shutdown(rpc->fd, SHUT_RDWR);
        for (struct dsc__open_call *c = rpc->calls; c; c = c->next)
                pthread_cond_signal(&c->cond);
        pthread_cond_broadcast(&rpc->room);
        pthread_mutex_unlock(&rpc->lock);
}

/* Waits up to `ms` for the socket to close. True: the daemon is gone. */
static bool peer_goes(dsc_session *s, int ms)
{
        if (!enter(s))
                return true;
        struct pollfd p = {.fd = s->rpc.fd, .events = POLLRDHUP};
        const bool gone = poll(&p, 1, ms) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
        if (gone)
                dsc__lose(s);
        leave(s);
        return gone;
}

bool dsc__peer_gone(dsc_session *s)
{
        return peer_goes(s, 0);
}

/* --- sending --- */

static int send_all(int socket_fd, const uint8_t *bytes, size_t size, int fd)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control;
        for (size_t sent = 0; sent < size;) {
                struct iovec iov = {.iov_base = (void *)(bytes + sent), .iov_len = size - sent};
                struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
                if (fd >= 0 && sent == 0) {
                        memset(&control, 0, sizeof(control));
                        message.msg_control = control.bytes;
                        message.msg_controllen = sizeof(control.bytes);
                        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
                        c->cmsg_level = SOL_SOCKET;
                        c->cmsg_type = SCM_RIGHTS;
                        c->cmsg_len = CMSG_LEN(sizeof(int));
                        memcpy(CMSG_DATA(c), &fd, sizeof(int));
                }
                ssize_t n = sendmsg(socket_fd, &message, MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return -1;
                sent += (size_t)n;
        }
        return 0;
}

/* Returns 0; INVALID_VALUE: the request does not fit a frame; UNKNOWN: the connection broke. */
static int send_request(dsc_session *s, Detshare__Request *request, int fd)
{
        struct dsc__rpc *rpc = &s->rpc;
        int r = 0;
        request->fds = fd >= 0 ? 1 : 0;
        pthread_mutex_lock(&rpc->send_lock);
        request->ring_tail = atomic_load(&rpc->ring_tail);
        const size_t size = detshare__request__get_packed_size(request);
        if (size > DS_FRAME_MAX) {
                r = DSC__INVALID_VALUE;
        } else {
                for (unsigned i = 0; i < FRAME_PREFIX; i++)
                        rpc->out[i] = (uint8_t)(size >> (8 * i));
                detshare__request__pack(request, rpc->out + FRAME_PREFIX);
                if (send_all(rpc->fd, rpc->out, FRAME_PREFIX + size, fd) < 0)
                        r = DSC__UNKNOWN;
        }
        pthread_mutex_unlock(&rpc->send_lock);
        return r;
}

/* --- receiving, by the one thread that reads --- */

static int keep_fds(struct dsc__rpc *rpc, struct msghdr *message)
{
        int r = 0;
        if (message->msg_flags & MSG_CTRUNC)
                rpc->fds_missing = true; /* the process has no descriptor left, so the kernel dropped some */
        for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < n; i++) {
                        int fd;
                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
                        if (rpc->n_in_fds < DSC__FDS_QUEUE) {
                                rpc->in_fds[rpc->n_in_fds++] = fd;
                        } else {
                                close(fd);
                                r = -1;
                        }
                }
        }
        return r;
}

/*
 * As recvmsg(), but spins first. Most replies come within microseconds, and a sleeping processor takes longer to wake
 * up. So it polls for a moment, yielding the processor to others (the daemon may need it), then sleeps.
 */
static ssize_t receive(int fd, struct msghdr *message)
{
        const uint64_t end = dsc__now() + LOOK_NS;
        do {
                ssize_t n = recvmsg(fd, message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
                if (n >= 0 || (errno != EAGAIN && errno != EINTR))
                        return n;
                sched_yield();
        } while (dsc__now() < end);
        return recvmsg(fd, message, MSG_CMSG_CLOEXEC);
}

static int fill(struct dsc__rpc *rpc)
{
        union {
                char bytes[CMSG_SPACE(DSC__FDS_QUEUE * sizeof(int))];
                struct cmsghdr align;
        } control;
        for (;;) {
                struct iovec iov = {
                        .iov_base = rpc->in + rpc->in_size, .iov_len = FRAME_PREFIX + DS_FRAME_MAX - rpc->in_size};
                struct msghdr message = {.msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = control.bytes,
                        .msg_controllen = sizeof(control.bytes)};
                ssize_t n = receive(rpc->fd, &message);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return -1;
                rpc->in_size += (size_t)n;
                return keep_fds(rpc, &message);
        }
}

/* Returns the size of the first frame with its prefix; 0: incomplete; -1: malformed. */
static ssize_t whole_frame(const struct dsc__rpc *rpc)
{
        if (rpc->in_size < FRAME_PREFIX)
                return 0;
        uint32_t size = 0;
        for (unsigned i = 0; i < FRAME_PREFIX; i++)
                size |= (uint32_t)rpc->in[i] << (8 * i);
        if (size == 0 || size > DS_FRAME_MAX)
                return -1;
        return rpc->in_size >= FRAME_PREFIX + size ? (ssize_t)(FRAME_PREFIX + size) : 0;
}

static int take_fds(struct dsc__rpc *rpc, struct dsc__answer *answer)
{
        const uint32_t n = answer->reply->fds, here = n < rpc->n_in_fds ? n : rpc->n_in_fds;
        if (n > DS_FRAME_FDS_MAX || (here < n && !rpc->fds_missing))
                return -1;
        memcpy(answer->fds, rpc->in_fds, here * sizeof(int));
        answer->n_fds = n; /* descriptors that did not arrive are -1 */
        if (here < n)
                rpc->fds_missing = false;
        rpc->n_in_fds -= here;
        memmove(rpc->in_fds, rpc->in_fds + here, rpc->n_in_fds * sizeof(int));
        return 0;
}

static void deliver(struct dsc__rpc *rpc, struct dsc__answer *answer)
{
        pthread_mutex_lock(&rpc->lock);
        struct dsc__open_call *c = rpc->calls;
        while (c && c->id != answer->reply->id)
                c = c->next;
        if (c && !c->done) {
                c->answer = *answer;
                c->done = true;
                *answer = DSC__ANSWER_NULL;
                pthread_cond_signal(&c->cond);
        }
        pthread_mutex_unlock(&rpc->lock);
        dsc__answer_clear(answer);
}

/*
 * Reads the socket until at least one reply was delivered, then delivers all received replies for which there is
 * memory: the thread itself may wait for one of them. Returns 0, or -1 when the session cannot continue.
 */
static int read_replies(dsc_session *s)
{
        struct dsc__rpc *rpc = &s->rpc;
        const struct timespec nap = {.tv_nsec = SPARE_NAP_NS};
        bool delivered = false;
        ssize_t size;
        while ((size = whole_frame(rpc)) == 0)
                if (fill(rpc) < 0)
                        return -1;
        while (size > 0 && !s->lost) {
                struct dsc__answer answer = DSC__ANSWER_NULL;
                const int r = dsc__answer_unpack(rpc, rpc->in + FRAME_PREFIX, (size_t)size - FRAME_PREFIX, &answer);
                if (r == DSC__OUT_OF_MEMORY && delivered)
                        return 0;
                if (r == DSC__OUT_OF_MEMORY) {
                        nanosleep(&nap, NULL);
                        continue;
                }
                rpc->in_size -= (size_t)size;
                memmove(rpc->in, rpc->in + size, rpc->in_size);
                if (r)
                        return -1;
                if (take_fds(rpc, &answer) < 0) {
                        dsc__answer_clear(&answer);
                        return -1;
                }
                deliver(rpc, &answer);
                delivered = true;
                size = whole_frame(rpc);
        }
        return size < 0 ? -1 : 0;
}

/* --- one call --- */

static bool is_slow(const Detshare__Request *request)
{
        switch (request->call_case) {
        case DETSHARE__REQUEST__CALL_SYNC:
        case DETSHARE__REQUEST__CALL_SLEEP_UNTIL:
        case DETSHARE__REQUEST__CALL_READ:
        case DETSHARE__REQUEST__CALL_MEM_FREE:
        case DETSHARE__REQUEST__CALL_PINNED_FREE:
        case DETSHARE__REQUEST__CALL_MODULE_LOAD:
        case DETSHARE__REQUEST__CALL_MODULE_LINK:
        case DETSHARE__REQUEST__CALL_MODULE_UNLOAD:
        case DETSHARE__REQUEST__CALL_STREAM_DESTROY:
        case DETSHARE__REQUEST__CALL_EVENT_ELAPSED:
        case DETSHARE__REQUEST__CALL_GRAPH_CREATE:
        case DETSHARE__REQUEST__CALL_RESET_SESSION:
        case DETSHARE__REQUEST__CALL_HOST_NEXT:
        case DETSHARE__REQUEST__CALL_SHARED_EVENT:
                return true;
        default:
                return false;
        }
}

/* Puts the call on the list of open calls. False: the session is lost, and the call is not on the list. */
static bool open_call(dsc_session *s, struct dsc__open_call *call)
{
        struct dsc__rpc *rpc = &s->rpc;
        pthread_mutex_lock(&rpc->lock);
        while (!s->lost && (rpc->n_open >= OPEN_MAX_ALL || (call->slow && rpc->n_slow >= OPEN_MAX_SLOW)))
                pthread_cond_wait(&rpc->room, &rpc->lock);
        const bool there = !s->lost;
        if (there) {
                call->id = rpc->next_id++;
                call->next = rpc->calls;
                rpc->calls = call;
                rpc->n_open++;
                rpc->n_slow += call->slow;
        }
        pthread_mutex_unlock(&rpc->lock);
        return there;
}

static void close_call_locked(struct dsc__rpc *rpc, struct dsc__open_call *call)
{
        struct dsc__open_call **at = &rpc->calls;
        while (*at != call)
                at = &(*at)->next;
        *at = call->next;
        rpc->n_open--;
        rpc->n_slow -= call->slow;
        pthread_cond_broadcast(&rpc->room);
        release_locked(rpc);
        if (rpc->reading)
                return;
        struct dsc__open_call *next = rpc->calls;
        while (next && (!next->waiting || next->done))
                next = next->next;
        if (next)
                pthread_cond_signal(&next->cond); /* the thread of this call reads next */
}

/* Waits until the answer is in `call`, or the session is lost; removes `call` from the list. */
static void await_answer(dsc_session *s, struct dsc__open_call *call)
{
        struct dsc__rpc *rpc = &s->rpc;
        pthread_mutex_lock(&rpc->lock);
        while (!call->done && !s->lost) {
                if (rpc->reading) {
                        call->waiting = true;
                        pthread_cond_wait(&call->cond, &rpc->lock);
                        call->waiting = false;
                        continue;
                }
                rpc->reading = true;
                pthread_mutex_unlock(&rpc->lock);
                const int r = read_replies(s);
                if (r < 0)
                        dsc__lose(s);
                pthread_mutex_lock(&rpc->lock);
                rpc->reading = false;
        }
        close_call_locked(rpc, call);
        pthread_mutex_unlock(&rpc->lock);
}

static int call_once(dsc_session *s, Detshare__Request *request, int fd, struct dsc__answer *ret)
{
        struct dsc__open_call call = {.answer = DSC__ANSWER_NULL, .slow = is_slow(request)};
        pthread_cond_init(&call.cond, NULL);
        if (!open_call(s, &call)) {
                pthread_cond_destroy(&call.cond);
                return DSC__UNKNOWN;
        }
        request->id = call.id;
        int r = send_request(s, request, fd);
        if (r == DSC__UNKNOWN)
                dsc__lose(s);
        if (r == DSC__INVALID_VALUE) {
                pthread_mutex_lock(&s->rpc.lock);
                close_call_locked(&s->rpc, &call);
                pthread_mutex_unlock(&s->rpc.lock);
        } else {
                await_answer(s, &call);
        }
        pthread_cond_destroy(&call.cond);
        dsc__clock_contact(s);
        if (call.done)
                *ret = call.answer;
        else if (r == 0)
                r = DSC__UNKNOWN;
        return call.done ? 0 : r;
}

static int judge(const struct dsc__answer *answer, Detshare__Reply__ResultCase expect)
{
        const Detshare__Reply *reply = answer->reply;
        if (reply->status < 0)
                return DETSHARE__STATUS__INTERNAL;
        if (reply->status > 0) {
                dsc__message("%s", reply->message);
                return reply->status;
        }
        if (expect == DETSHARE__REPLY__RESULT__NOT_SET || expect == reply->result_case)
                return 0;
        dsc__message("the daemon's answer does not fit the request");
        return DETSHARE__STATUS__INTERNAL;
}

/* 1: another call made the request and reports the error itself. */
static bool is_silent(const Detshare__Request *request)
{
        return request->call_case == DETSHARE__REQUEST__CALL_OUTPUT_READ ||
               request->call_case == DETSHARE__REQUEST__CALL_HOST_NEXT;
}

int dsc__call(
        dsc_session *s, Detshare__Request *request, int fd, Detshare__Reply__ResultCase expect, struct dsc__answer *ret)
{
        uint64_t pause = RESTART_PAUSE_MIN_MS, deadline = 0;
        for (;;) {
                struct dsc__answer answer = DSC__ANSWER_NULL;
                int r = dsc__usable(s);
                const uint64_t asked = dsc__now();
                if (!r)
                        r = call_once(s, request, fd, &answer);
                /* time that the request waited in the daemon (it may be restarting) does not count towards the
                 * deadline */
                deadline += deadline ? dsc__now() - asked : 0;
                if (r) {
                        if (s->lost)
                                dsc__message("the connection to the daemon at %s was lost", s->path);
                        return r;
                }
                r = judge(&answer, expect);
                if (r == 0 && ret) {
                        *ret = answer;
                        return 0;
                }
                dsc__answer_clear(&answer);
                if (r != DETSHARE__STATUS__RESTARTING)
                        return is_silent(request) ? r : dsc__told(s, r);
                const uint64_t now = dsc__now();
                deadline = deadline ? deadline : now + RESTART_WAIT_NS;
                if (now >= deadline)
                        return r;
                peer_goes(s, (int)pause);
                pause = pause * 2 < RESTART_PAUSE_MAX_MS ? pause * 2 : RESTART_PAUSE_MAX_MS;
        }
}

void dsc__call_forget(dsc_session *s, Detshare__Request *request)
{
        if (dsc__usable(s) || !enter(s))
                return;
        pthread_mutex_lock(&s->rpc.lock);
        request->id = s->rpc.next_id++;
        pthread_mutex_unlock(&s->rpc.lock);
        if (send_request(s, request, -1) == DSC__UNKNOWN)
                dsc__lose(s);
        leave(s);
}
