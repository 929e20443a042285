/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/log.h"

#define MESSAGE_MAX 1024
#define STORE_NAME_MAX 255
/* Longest wait for a busy manager to accept an important message. After a timeout, no message waits at all for
 * DEAF_NS. */
#define WAIT_US 500000
#define DEAF_NS (5 * DS_NS_PER_S)

struct ds_notify {
        int fd; /* socket to the service manager; -1: there is none */
        struct sockaddr_un address;
        socklen_t address_size;
        size_t keeps_files; /* most files that the manager stores for the daemon; 0: there is no store */
        uint64_t wait_us;   /* current send timeout of the socket */
        uint64_t deaf_ns;   /* time of the last timed-out message, 0: none */
        uint64_t watchdog_us;
        uv_timer_t *timer; /* freed by its close callback */
        int (*alive)(void *user);
        void *alive_user;
        struct ds_given_file *files;
        size_t n_files;
        char status[MESSAGE_MAX]; /* last status line sent */
};

/* --- input at start ----------------------------------------------------------------------------------------------- */

/* Opens the socket to the manager. Returns 0 also if the variable NOTIFY_SOCKET is absent or unusable. */
static int open_socket(ds_notify *notify)
{
        const char *path = getenv("NOTIFY_SOCKET");
        size_t length = path ? strlen(path) : 0;

        if (!length)
                return 0;
        if ((path[0] != '/' && path[0] != '@') || length < 2 || length >= sizeof(notify->address.sun_path)) {
                ds_log(DS_LOG_WARNING,
                        "NOTIFY_SOCKET=%s is not a socket's address: the service manager gets no messages", path);
                return 0;
        }
        notify->address.sun_family = AF_UNIX;
        memcpy(notify->address.sun_path, path, length);
        notify->address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (path[0] == '/'));
        if (path[0] == '@')
                notify->address.sun_path[0] = 0;
        notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (notify->fd < 0)
                return ds_error_origin(-errno);
        return 0;
}

static int is_yes(const char *variable)
{
        const char *value = getenv(variable);

        return value && value[0] && strcmp(value, "0") != 0;
}

/* Number of files that the manager stores. Its own number (FDSTORE) has precedence over that in the unit. */
static size_t files_kept(void)
{
        static const char *const says[] = {"FDSTORE", "DETSHARE_FDSTORE"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(says); i++) {
                unsigned long long n = strtoull(getenv(says[i]) ?: "", NULL, 10);

                if (is_yes(says[i]) && n > 1)
                        return (size_t)DS_MIN(n, DS_NOTIFY_STORED_MAX + 0ull);
        }
        return is_yes("DETSHARE_FDSTORE") || is_yes("FDSTORE") ? DS_NOTIFY_STORED_MAX : 0;
}

static void read_watchdog(ds_notify *notify)
{
        uint64_t us = 0;
        int r = sd_watchdog_enabled(1, &us);

        if (r > 0)
                notify->watchdog_us = us;
        else if (r < 0)
                ds_log(DS_LOG_WARNING, "WATCHDOG_USEC or WATCHDOG_PID is invalid: the watchdog gets no messages");
}

/* Adds a passed file to the list. Consumes fd and name, also on failure. */
static void add_file(ds_notify *notify, int fd, char *name)
{
        char *own = ds_strdup(name);

        free(name);
        if (!own) {
                close(fd);
                (void)ds_error_origin(-ENOMEM);
                return;
        }
        notify->files[notify->n_files++] = (struct ds_given_file){.name = own, .fd = fd};
}

static int take_files(ds_notify *notify)
{
        char **names = NULL;
        int n = sd_listen_fds_with_names(1, &names);

        if (n < 0)
                ds_log(DS_LOG_WARNING, "LISTEN_FDS or LISTEN_FDNAMES is invalid (%s): the passed files are not used",
                        strerror(-n));
        if (n <= 0)
                return 0;
        notify->files = ds_alloc0((size_t)n, sizeof(*notify->files));
        for (int i = 0; i < n; i++) {
                int fd = SD_LISTEN_FDS_START + i;

                if (notify->files && (size_t)i < DS_NOTIFY_STORED_MAX) {
                        add_file(notify, fd, names[i]);
                } else {
                        close(fd);
                        free(names[i]);
                }
        }
        free(names);
        return notify->files ? 0 : ds_error_origin(-ENOMEM);
}

int ds_notify_new(ds_notify **ret)
{
        static const char *const ours[] = {"NOTIFY_SOCKET", "DETSHARE_FDSTORE", "FDSTORE"};
        ds_notify *notify = ds_alloc0(1, sizeof(*notify));
        int r;

        if (!notify)
                return ds_error_origin(-ENOMEM);
        notify->fd = -1;
        r = take_files(notify);
        if (!r)
                r = open_socket(notify);
        notify->keeps_files = notify->fd >= 0 ? files_kept() : 0;
        read_watchdog(notify);
        for (size_t i = 0; i < DS_ARRAY_SIZE(ours); i++)
                unsetenv(ours[i]);
        if (r) {
                ds_notify_free(notify);
                return ds_error_trace(r);
        }
        *ret = notify;
        return 0;
}

ds_notify *ds_notify_free(ds_notify *notify)
{
        if (!notify)
                return NULL;
        for (size_t i = 0; i < notify->n_files; i++) {
                ds_close(notify->files[i].fd);
                ds_free(notify->files[i].name);
        }
        ds_free(notify->files);
        ds_close(notify->fd);
        return ds_free(notify);
}

int ds_notify_take(ds_notify *notify, const char *name)
{
        if (!notify)
                return -1;
        for (size_t i = 0; i < notify->n_files; i++)
                if (notify->files[i].fd >= 0 && !strcmp(notify->files[i].name, name))
                        return DS_TAKE_FD(notify->files[i].fd);
        return -1;
}

struct ds_given_file *ds_notify_files(ds_notify *notify, size_t *ret_n)
{
        *ret_n = notify ? notify->n_files : 0;
        return notify ? notify->files : NULL;
}

/* --- messages to the manager -------------------------------------------------------------------------------------- */

static uint64_t monotonic_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * DS_NS_PER_S + (uint64_t)now.tv_nsec;
}

static void set_wait(ds_notify *notify, uint64_t us)
{
        const struct timeval wait = {.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)};

        if (us != notify->wait_us && setsockopt(notify->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) == 0)
                notify->wait_us = us;
}

/* Sends one message. wait_us: longest wait while the manager's queue is full, 0: none. 0 or -errno. */
static int send_within(ds_notify *notify, const char *text, int fd, uint64_t wait_us)
{
        struct iovec iov = {.iov_base = (void *)text, .iov_len = strlen(text)};
        struct msghdr message = {
                .msg_name = &notify->address, .msg_namelen = notify->address_size, .msg_iov = &iov, .msg_iovlen = 1};
        union {
                struct cmsghdr head;
                char bytes[CMSG_SPACE(sizeof(int))];
        } control = {.head = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))}};
        int flags = MSG_NOSIGNAL | (wait_us ? 0 : MSG_DONTWAIT);
        ssize_t n;

        if (fd >= 0) {
                memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
                message.msg_control = &control;
                message.msg_controllen = sizeof(control.bytes);
        }
        if (wait_us)
                set_wait(notify, wait_us);
        do
                n = sendmsg(notify->fd, &message, flags);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : 0;
}

/*
 * Sends a message. important: it may wait for the manager, unless another one has just timed out. Returns 0 or -errno,
 * which callers may ignore.
 */
static int send_message(ds_notify *notify, const char *text, int fd, int important)
{
        int deaf = notify->deaf_ns && monotonic_ns() - notify->deaf_ns < DEAF_NS;
        int r = send_within(notify, text, fd, important && !deaf ? WAIT_US : 0);

        if (!r)
                notify->deaf_ns = 0;
        else if (r == -EAGAIN && important && !deaf)
                notify->deaf_ns = monotonic_ns();
        return r;
}

static void say(ds_notify *notify, const char *text)
{
        if (notify && notify->fd >= 0 && send_message(notify, text, -1, 1))
                ds_log(DS_LOG_WARNING, "a message to the service manager failed: %s", text);
}

void ds_notify_ready(ds_notify *notify)
{
        say(notify, "READY=1");
}

void ds_notify_reloading(ds_notify *notify)
{
        char text[64];

        snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu",
                (unsigned long long)(monotonic_ns() / DS_NS_PER_US));
        say(notify, text);
}

void ds_notify_stopping(ds_notify *notify)
{
        say(notify, "STOPPING=1");
}

void ds_notify_extend(ds_notify *notify, uint32_t seconds)
{
        char text[64];

        snprintf(text, sizeof(text), "EXTEND_TIMEOUT_USEC=%llu", seconds * (DS_NS_PER_S / DS_NS_PER_US));
        say(notify, text);
}

void ds_notify_status(ds_notify *notify, const char *fmt, ...)
{
        char text[MESSAGE_MAX] = "STATUS=";
        size_t prefix = strlen(text);
        va_list args;

        if (!notify || notify->fd < 0)
                return;
        va_start(args, fmt);
        vsnprintf(text + prefix, sizeof(text) - prefix, fmt, args);
        va_end(args);
        /* replaces line breaks, because a line break would begin another assignment */
        for (char *c = text + prefix; *c; c++)
                if ((unsigned char)*c < ' ')
                        *c = ' ';
        if (!strcmp(text, notify->status))
                return;
        if (send_message(notify, text, -1, 0) == 0)
                memcpy(notify->status, text, sizeof(text));
}

/* --- the watchdog ------------------------------------------------------------------------------------------------- */

static void watchdog_cb(uv_timer_t *timer)
{
        ds_notify *notify = timer->data;

        if (notify->alive && !notify->alive(notify->alive_user))
                return;
        (void)send_message(notify, "WATCHDOG=1", -1, 0);
}

static void free_timer(uv_handle_t *handle)
{
        ds_free(handle);
}

int ds_notify_watchdog_start(ds_notify *notify, uv_loop_t *loop, int (*alive)(void *user), void *user)
{
        uint64_t ms;
        int r;

        if (!notify || !notify->watchdog_us || notify->fd < 0)
                return 0;
        /* sends three messages per watchdog timeout, so one that a full queue rejects does no harm */
        ms = DS_MAX(notify->watchdog_us / 3000, 1u);
        notify->timer = ds_alloc0(1, sizeof(*notify->timer));
        if (!notify->timer)
                return ds_error_origin(-ENOMEM);
        r = uv_timer_init(loop, notify->timer);
        if (r < 0) {
                notify->timer = ds_free(notify->timer);
                return ds_error_origin(r);
        }
        notify->timer->data = notify;
        notify->alive = alive;
        notify->alive_user = user;
        r = uv_timer_start(notify->timer, watchdog_cb, 0, ms);
        uv_unref((uv_handle_t *)notify->timer);
        return r < 0 ? ds_error_origin(r) : 0;
}

void ds_notify_watchdog_stop(ds_notify *notify)
{
        if (notify && notify->timer)
                uv_close((uv_handle_t *)DS_TAKE_PTR(notify->timer), free_timer);
}

/* --- the file descriptor store ------------------------------------------------------------------------------------ */

size_t ds_notify_stores(const ds_notify *notify)
{
        return notify ? notify->keeps_files : 0;
}

/* Whether the name is valid for a stored file. systemd would return a backslash as an escape sequence. */
static int is_name(const char *name)
{
        size_t length = strlen(name);

        for (size_t i = 0; i < length; i++)
                if (name[i] <= ' ' || name[i] == 127 || name[i] == ':' || name[i] == '\\' || name[i] == '"' ||
                        name[i] == '\'')
                        return 0;
        return length > 0 && length <= STORE_NAME_MAX;
}

int ds_notify_store(ds_notify *notify, const char *name, int fd, uint64_t wait_ns)
{
        char text[MESSAGE_MAX];
        int r;

        if (!ds_notify_stores(notify))
                return DS_NOTIFY_E_NO_STORE;
        if (!is_name(name))
                return ds_error_origin(-EINVAL);
        snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s", name);
        r = send_within(notify, text, fd, DS_MAX(wait_ns, DS_NS_PER_MS) / DS_NS_PER_US);
        /* a busy manager (-EAGAIN) is not logged here: the caller decides what it means */
        return !r || r == -EAGAIN ? r : ds_error_origin(r);
}

/* Sends a pipe end to the manager, which closes it when it has handled all earlier messages (systemd 246). */
int ds_notify_sync(ds_notify *notify, uint64_t wait_ns)
{
        ds_cleanup(ds_closep) int ours = -1;
        const uint64_t until = monotonic_ns() + wait_ns;
        struct pollfd closed = {.events = POLLIN};
        int ends[2], r;

        if (!notify || notify->fd < 0)
                return 0;
        if (pipe2(ends, O_CLOEXEC) < 0)
                return ds_error_origin(-errno);
        closed.fd = ours = ends[0];
        r = send_within(notify, "BARRIER=1", ends[1], DS_MAX(wait_ns, DS_NS_PER_MS) / DS_NS_PER_US);
        close(ends[1]);
        for (uint64_t now = monotonic_ns(); !r && !closed.revents; now = monotonic_ns()) {
                int n = now < until ? poll(&closed, 1, (int)DS_MIN((until - now) / DS_NS_PER_MS + 1, 60000u)) : 0;

                if (n == 0)
                        return -EAGAIN;
                if (n < 0 && errno != EINTR)
                        r = -errno;
        }
        return !r || r == -EAGAIN ? r : ds_error_origin(r);
}

int ds_notify_unstore(ds_notify *notify, const char *name)
{
        char text[MESSAGE_MAX];

        if (!ds_notify_stores(notify) || !is_name(name))
                return 0;
        snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
        return send_message(notify, text, -1, 1);
}
