/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's one session, made by the first call that needs it
 *
 * A session whose daemon is gone stays the process's session, and its calls fail. A caller that knows of the loss makes
 * another one (detshare_connect(), or the first context that is made). Other threads may still use the old session: it
 * is retired, not freed.
 *
 * At exit only the clocks are compared (clock_note.c); nothing is torn down. Destructors and exit handlers of the
 * program may still call in after main(), in any order. The kernel closes the socket, and the daemon cleans up after
 * every client the same way, however it ended.
 *
 * After fork() the child has the parent's memory but not its session: two processes cannot share one stream of
 * requests. The child's copy is marked unusable, and its socket is closed at once, so that the daemon sees the parent's
 * death even while the child lives. A child of a process without a session may make its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/internal.h"

_Atomic bool dsc__forked;

static pthread_mutex_t connect_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(dsc_session *) the_session;
static dsc_session *pending;
static bool complained, fork_registered;
static dsc_session *retired;
static const char *home; /* socket of the last session, to which dsc_renew() connects; NULL: the environment's socket */

void dsc__pending(dsc_session *s)
{
        pending = s;
}

static void close_inherited(dsc_session *s)
{
        close(s->rpc.fd);
        s->rpc.fd = -1;
        if (s->submit.ring.event_fd >= 0)
                close(s->submit.ring.event_fd);
        s->submit.ring.event_fd = -1;
}

/* Runs in a forked child. Uses only functions that are safe there although the parent had other threads. */
static void in_child(void)
{
        dsc_session *s = atomic_load(&the_session);
        if (s) {
                atomic_store(&dsc__forked, true);
                close_inherited(s);
        }
        if (pending)
                close_inherited(pending);
        pending = NULL;
        const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
        memcpy(&connect_lock, &fresh, sizeof(fresh));
}

/* Registers the fork handler. Without it a child would use its parent's socket. False: the handler is not
 * registered, so no session may be made. */
static bool register_fork_locked(void)
{
        if (!fork_registered)
                fork_registered = pthread_atfork(NULL, NULL, in_child) == 0;
        return fork_registered;
}

int dsc__usable(dsc_session *s)
{
        if (atomic_load_explicit(&dsc__forked, memory_order_relaxed))
                return DSC__NOT_INITIALIZED;
        if (atomic_load_explicit(&s->lost, memory_order_relaxed))
                return DSC__UNKNOWN;
        return 0;
}

static void complain(int error)
{
        static const char hint[] = " (systemctl start detshared; DETSHARE_SOCKET names another socket; "
                                   "DETSHARE_FALLBACK=native does without)";

        if (complained)
                return;
        complained = true;
        if (dsc_fallback_native())
                return; /* libcuda prints the message together with what it does instead */
        fprintf(stderr, "detshare: %s%s\n", dsc_message(), error == DSC__NO_DEVICE ? hint : "");
}

static dsc_session *connect_locked(const char *path, int *ret_error)
{
        struct dsc__options options;
        dsc_session *s = NULL;
        dsc__variables_check();
        dsc__options_from_environment(&options);
        if (path)
                options.path = path;
        int r = DSC__OUT_OF_MEMORY;
        if (register_fork_locked())
                r = dsc__connect(&options, &s);
        else
                dsc__message("out of memory: no session");
        if (r) {
                complain(r);
                *ret_error = r;
                return NULL;
        }
        complained = false;
        home = s->path;
        atomic_store(&the_session, s);
        return s;
}

static void drop_locked(void)
{
        dsc_session *s = atomic_exchange(&the_session, NULL);
        if (!s)
                return;
        s->next = retired;
        retired = s;
        dsc__retire(s);
}

void dsc__session_drop(void)
{
        if (atomic_load(&dsc__forked))
                return;
        pthread_mutex_lock(&connect_lock);
        drop_locked();
        home = NULL;
        pthread_mutex_unlock(&connect_lock);
}

/* At exit, compares the clocks (reads only the page). Does nothing if another thread is replacing the session. */
__attribute__((destructor)) static void process_ends(void)
{
        if (atomic_load(&dsc__forked) || pthread_mutex_trylock(&connect_lock))
                return;
        dsc_session *s = dsc__session_peek();
        if (s && !s->lost)
                dsc__clock_note(s);
        pthread_mutex_unlock(&connect_lock);
}

int dsc_lost(dsc_session *s)
{
        return dsc__usable(s) || dsc__peer_gone(s);
}

dsc_session *dsc_renew(const char *path, int *ret_error)
{
        if (atomic_load(&dsc__forked))
                return dsc__session(path, ret_error);
        pthread_mutex_lock(&connect_lock);
        dsc_session *s = dsc__session_peek();
        if (!s || dsc__peer_gone(s)) {
                drop_locked();
                s = connect_locked(path ? path : home, ret_error);
        }
        pthread_mutex_unlock(&connect_lock);
        return s;
}

dsc_session *dsc__session_peek(void)
{
        return atomic_load_explicit(&the_session, memory_order_acquire);
}

dsc_session *dsc__session(const char *path, int *ret_error)
{
        if (atomic_load(&dsc__forked)) {
                dsc__message("a child of fork() cannot use its parent's session");
                *ret_error = DSC__NOT_INITIALIZED;
                return NULL;
        }
        dsc_session *s = dsc__session_peek();
        if (s)
                return s;
        pthread_mutex_lock(&connect_lock);
        s = dsc__session_peek();
        if (!s)
                s = connect_locked(path, ret_error);
        pthread_mutex_unlock(&connect_lock);
        return s;
}

dsc_session *dsc_get(int *ret_error)
{
        int r = 0;
        dsc_session *s = dsc__session(NULL, &r);
        if (!s)
                *ret_error = r == DETSHARE__STATUS__DENIED ? DSC__NO_DEVICE : r;
        return s;
}

const struct dsc_device *dsc_device(dsc_session *s)
{
        return &s->device;
}
