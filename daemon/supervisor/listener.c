/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "supervisor/client.h"
#include "supervisor/notify.h"
#include "supervisor/poll.h"
#include "supervisor/socket_file.h"
#include "supervisor/supervisor.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/foreign.h"
#include "util/macro.h"

/* Pause after a failed accept(), so that the loop does not spin while connections are pending. */
#define PAUSE_MS 100u
/* connections accepted in one iteration of the loop; a bound, so that many new connections do not delay existing
 * clients */
#define ACCEPTS_PER_TURN 8

struct ds_listener {
        uv_poll_t poll;
        struct ds_supervisor *supervisor;
        int fd, reserve_fd;
        int polled;
        int given; /* 1: the service manager passed the socket and owns the socket file */
        char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
        struct ds_socket_file file; /* unused if the socket was passed by the service manager */
        struct ds_log_budget log;
        struct ds_deadline pause;
};

/* --- socket from the service manager ------------------------------------------------------------------------------ */

static int option_of(int fd, int option)
{
        socklen_t size = sizeof(int);
        int value = -1;

        return getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0 ? -1 : value;
}

/* Returns NULL if the socket is usable, else the reason why not. */
static const char *unfit(int fd)
{
        if (option_of(fd, SO_DOMAIN) < 0)
                return "is not a socket";
        if (option_of(fd, SO_DOMAIN) != AF_UNIX)
                return "is not a Unix socket";
        if (option_of(fd, SO_TYPE) != SOCK_STREAM)
                return "is not a stream socket";
        if (option_of(fd, SO_ACCEPTCONN) != 1)
                return "does not listen (Accept=no is needed)";
        return NULL;
}

static void name_path(ds_listener *listener)
{
        struct sockaddr_un address = {0};
        socklen_t size = sizeof(address);
        size_t length;

        if (getsockname(listener->fd, (struct sockaddr *)&address, &size) < 0 ||
                size <= offsetof(struct sockaddr_un, sun_path))
                size = offsetof(struct sockaddr_un, sun_path);
        length = size - offsetof(struct sockaddr_un, sun_path);
        memcpy(listener->path, address.sun_path, length);
        listener->path[length] = 0;
        if (length && !listener->path[0])
                listener->path[0] = '@';
        if (!length)
                snprintf(listener->path, sizeof(listener->path), "a socket without a name");
}

/* Takes the socket that the service manager passed, if any; then listener->given is 1. Returns 0 or a contract code. */
static int take_given(ds_listener *listener, ds_notify *notify, char *message, size_t message_size)
{
        const struct ds_options *options = listener->supervisor->options;
        const char *wrong;
        int other;

        listener->fd = ds_notify_take(notify, DS_NOTIFY_SOCKET_NAME);
        if (listener->fd < 0)
                return 0;
        listener->given = 1;
        wrong = unfit(listener->fd);
        if (wrong) {
                snprintf(message, message_size, "the file that the service manager passed as '%s' %s",
                        DS_NOTIFY_SOCKET_NAME, wrong);
                return DS_LISTENER_E_REFUSED;
        }
        fcntl(listener->fd, F_SETFL, fcntl(listener->fd, F_GETFL) | O_NONBLOCK);
        name_path(listener);
        if (options->socket_given && strcmp(options->socket, listener->path) != 0)
                ds_log(DS_LOG_WARNING, "clients are served at the service manager's socket %s, not at %s",
                        listener->path, options->socket);
        while ((other = ds_notify_take(notify, DS_NOTIFY_SOCKET_NAME)) >= 0) {
                ds_log(DS_LOG_WARNING, "the service manager passed more than one socket: clients are served only at %s",
                        listener->path);
                ds_close(other);
        }
        return 0;
}

/* Warns about a passed socket that has another name. Without FileDescriptorName= in the unit the socket has a
 * default name: the daemon does not use it, and clients would wait for ever. */
static void look_for_misnamed(ds_notify *notify)
{
        struct ds_given_file *files;
        size_t n;

        files = ds_notify_files(notify, &n);
        for (size_t i = 0; i < n; i++)
                if (files[i].fd >= 0 && !unfit(files[i].fd))
                        ds_log(DS_LOG_WARNING,
                                "the service manager gave a socket named '%s', which is not used: "
                                "FileDescriptorName=%s "
                                "is what is served",
                                files[i].name, DS_NOTIFY_SOCKET_NAME);
}

static int open_socket(ds_listener *listener, const char *path, char *message, size_t message_size)
{
        ds_notify *notify = listener->supervisor->notify;
        int r = take_given(listener, notify, message, message_size);

        if (r || listener->given)
                return r;
        look_for_misnamed(notify);
        r = ds_socket_file_open(&listener->file, path, &listener->fd, message, message_size);
        if (r)
                return r == DS_SOCKET_FILE_E_REFUSED ? DS_LISTENER_E_REFUSED : ds_error_trace(r);
        snprintf(listener->path, sizeof(listener->path), "%s", path);
        return 0;
}

static void unbind_socket(ds_listener *listener)
{
        ds_socket_file_remove(&listener->file);
        listener->fd = ds_foreign_close_listening(listener->fd);
        listener->reserve_fd = ds_close(listener->reserve_fd);
}

int ds_listener_new(
        struct ds_supervisor *supervisor, const char *path, char *message, size_t message_size, ds_listener **ret)
{
        ds_listener *listener = ds_alloc0(1, sizeof(*listener));
        int r;

        if (!listener)
                return ds_error_origin(-ENOMEM);
        listener->supervisor = supervisor;
        listener->poll.data = listener;
        listener->fd = -1;
        listener->file.directory = -1;
        listener->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        r = open_socket(listener, path, message, message_size);
        if (r) {
                unbind_socket(listener);
                ds_free(listener);
                return ds_error_trace(r);
        }
        *ret = listener;
        return 0;
}

/* Called without free file descriptors: uses the reserved one to accept a connection and close it. Returns 0 if no
 * connection was pending. */
static int turn_away(ds_listener *listener)
{
        int fd;

        ds_log_limited(&listener->log, uv_hrtime(), DS_LOG_ERROR,
                "out of file descriptors: a connection was closed; raise LimitNOFILE= or lower [limits] connections");
        listener->reserve_fd = ds_close(listener->reserve_fd);
        fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        ds_foreign_close_socket(fd);
        listener->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return fd >= 0;
}

static void accept_one(ds_listener *listener, int fd)
{
        struct ucred peer = {.uid = UINT32_MAX};
        socklen_t size = sizeof(peer);
        int r;

        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
        r = ds_client_new(listener->supervisor, fd); /* consumes fd, also on failure */
        if (r > 0 && ds_log_may(&listener->log, uv_hrtime(), DS_LOG_WARNING))
                ds_log_about(&(struct ds_log_about){.pid = peer.pid, .uid = peer.uid}, DS_LOG_WARNING,
                        "a connection was refused (pid %d, uid %u): %s the most permitted connections", (int)peer.pid,
                        (unsigned)peer.uid, r == DS_CHARGE_E_USER ? "this user has" : "all users together have");
        else if (r < 0)
                (void)ds_error_trace(r);
}

static void poll_cb(uv_poll_t *poll, int status, int events);

static void go_on(struct ds_deadline *deadline)
{
        ds_listener *listener = DS_CONTAINER_OF(deadline, ds_listener, pause);

        if (listener->reserve_fd < 0)
                listener->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (ds_poll_start(&listener->poll, UV_READABLE, poll_cb))
                ds_deadline_arm(&listener->supervisor->deadlines, &listener->pause, PAUSE_MS, go_on);
}

static int is_shortage(int error)
{
        return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
        ds_listener *listener = poll->data;

        for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
                int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd >= 0) {
                        accept_one(listener, fd);
                        continue;
                }
                if (!is_shortage(errno))
                        return;
                if (turn_away(listener))
                        continue;
                uv_poll_stop(&listener->poll);
                ds_deadline_arm(&listener->supervisor->deadlines, &listener->pause, PAUSE_MS, go_on);
                return;
        }
}

const char *ds_listener_path(const ds_listener *listener)
{
        return listener->path;
}

int ds_listener_start(ds_listener *listener)
{
        int r = uv_poll_init(&listener->supervisor->loop, &listener->poll, listener->fd);

        if (r < 0)
                return ds_error_origin(r);
        listener->polled = 1;
        return ds_error_trace(ds_poll_start(&listener->poll, UV_READABLE, poll_cb));
}

static void closed_cb(uv_handle_t *handle)
{
        ds_listener *listener = handle->data;

        unbind_socket(listener);
        ds_free(listener);
}

ds_listener *ds_listener_free(ds_listener *listener)
{
        if (!listener)
                return NULL;
        ds_deadline_disarm(&listener->supervisor->deadlines, &listener->pause);
        if (listener->polled) {
                uv_close((uv_handle_t *)&listener->poll, closed_cb);
        } else {
                unbind_socket(listener);
                ds_free(listener);
        }
        return NULL;
}
