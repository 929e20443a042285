/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a session: socket, hello, address window, description of the device
 *
 * The window is an address range that the daemon gives to this session alone; all its device and pinned memory lies
 * there. The library reserves it in the process (PROT_NONE, no memory committed), so that no other mapping gets an
 * address that a device pointer has. If the range is occupied, for example by a sanitizer's shadow, the library
 * requests another window.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/internal.h"

#define PROTOCOL_VERSION 1u
#define WINDOW_TRIES 8
#define CONNECT_TIMEOUT_S 10

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* --- connection and window -------- */

static int set_timeouts(int fd, time_t seconds)
{
        const struct timeval t = {.tv_sec = seconds};
        if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) < 0 ||
                setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) < 0)
                return -1;
        return 0;
}

int dsc__fd_above_standard(int fd)
{
        if (fd < 0 || fd > STDERR_FILENO)
                return fd;
        const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), e = errno;
        close(fd);
        errno = e;
        return moved;
}

/* Connects to the daemon. 0: *ret_fd is the socket. DENIED, or NO_DEVICE if no daemon listens. */
static int open_socket(const char *path, int *ret_fd)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        if (strlen(path) >= sizeof(address.sun_path)) {
                dsc__message("cannot reach the daemon at %s: the path is longer than %zu bytes", path,
                        sizeof(address.sun_path) - 1);
                return DSC__NO_DEVICE;
        }
        strcpy(address.sun_path, path);
        int fd = dsc__fd_above_standard(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        int r = fd < 0 ? -1 : set_timeouts(fd, CONNECT_TIMEOUT_S);
        while (r == 0 && (r = connect(fd, (struct sockaddr *)&address, sizeof(address))) < 0 && errno == EINTR)
                r = 0;
        if (r == 0) {
                *ret_fd = fd;
                return 0;
        }
        const int e = errno;
        if (fd >= 0)
                close(fd);
        dsc__message("cannot reach the daemon at %s: %s", path, strerror(e));
        return e == EACCES || e == EPERM ? DETSHARE__STATUS__DENIED : DSC__NO_DEVICE;
}

static void learn_hello(dsc_session *s, const Detshare__HelloReply *hello)
{
        s->id = hello->session;
        s->window_base = hello->window_base;
        /* 0 until the window is reserved, so that cleaning up does not unmap other mappings */
        s->window_bytes = s->control_only ? 0 : hello->window_bytes;
        s->simulated = hello->simulated;
        s->granted_class = hello->class_;
        snprintf(s->daemon_version, sizeof(s->daemon_version), "%s", hello->daemon_version);
}

static int say_hello(dsc_session *s, const struct dsc__options *options)
{
        Detshare__Hello hello = DETSHARE__HELLO__INIT;
        hello.version = PROTOCOL_VERSION;
        hello.name = (char *)options->name;
        hello.class_ = options->class_;
        DS_SLO_WRITE(&hello, &options->slo);
        hello.memory_limit = options->memory_limit;
        hello.sm_percent = options->sm_percent;
        hello.gpu_request = options->gpu_request;
        hello.gpu_limit = options->gpu_limit;
        hello.control_only = options->control_only;
        Detshare__Request request = DSC__REQUEST(HELLO, hello, &hello);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_HELLO, &answer);
        if (r)
                return r;
        if (answer.reply->hello->version == PROTOCOL_VERSION) {
                learn_hello(s, answer.reply->hello);
        } else {
                dsc__message("the daemon speaks protocol version %u, this library %u: install both from one version",
                        answer.reply->hello->version, PROTOCOL_VERSION);
                r = DETSHARE__STATUS__BAD_VERSION;
        }
        dsc__answer_clear(&answer);
        return r;
}

/* Reserves the address range in this process. False: another mapping lies in it, or the address space is limited
 * (see errno). */
static bool reserve(uint64_t base, uint64_t bytes)
{
        const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        errno = EINVAL;
        if (bytes == 0 || base == 0 || (bytes & (bytes - 1)) || base % page || base + bytes < base)
                return false;
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
        void *p = mmap((void *)(uintptr_t)base, bytes, PROT_NONE, flags, -1, 0);
        if (p == MAP_FAILED)
                return false;
        if ((uintptr_t)p == base)
                return true;
        munmap(p, bytes); /* a kernel before 4.17 treats the address as a hint only */
        errno = EEXIST;
        return false;
}

static int settle_window(dsc_session *s)
{
        for (int tries = 0;; tries++) {
                if (reserve(s->window_base, s->window_bytes))
                        return 0;
                if (tries == WINDOW_TRIES)
                        break;
                Detshare__WindowRefused refused = DETSHARE__WINDOW_REFUSED__INIT;
                Detshare__Request request = DSC__REQUEST(WINDOW_REFUSED, window_refused, &refused);
                struct dsc__answer answer = DSC__ANSWER_NULL;
                s->window_bytes = 0;
                int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_HELLO, &answer);
                if (r)
                        return r;
                learn_hello(s, answer.reply->hello);
                dsc__answer_clear(&answer);
        }
        dsc__message("cannot reserve %llu bytes of address space at %#llx: %s", (unsigned long long)s->window_bytes,
                (unsigned long long)s->window_base, strerror(errno));
        s->window_bytes = 0;
        return DSC__OUT_OF_MEMORY;
}

static void learn_device(struct dsc_device *device, const Detshare__DeviceReply *reply)
{
        snprintf(device->name, sizeof(device->name), "%s", reply->name);
        snprintf(device->model, sizeof(device->model), "%s", reply->model);
        const size_t n_uuid = reply->uuid.len < sizeof(device->uuid) ? reply->uuid.len : sizeof(device->uuid);
        if (n_uuid)
                memcpy(device->uuid, reply->uuid.data, n_uuid);
        device->memory_bytes = reply->memory_bytes;
        device->n_attributes = reply->n_attributes < 256 ? (uint32_t)reply->n_attributes : 256;
        if (device->n_attributes)
                memcpy(device->attributes, reply->attributes, device->n_attributes * sizeof(int32_t));
        device->simulated = reply->simulated;
        device->n_sms = reply->n_sms;
        device->n_limits = reply->n_limits < 8 ? (uint32_t)reply->n_limits : 8;
        if (device->n_limits)
                memcpy(device->limits, reply->limits, device->n_limits * sizeof(uint64_t));
}

int dsc__ask_device(dsc_session *s)
{
        Detshare__GetDevice get = DETSHARE__GET_DEVICE__INIT;
        Detshare__Request request = DSC__REQUEST(GET_DEVICE, get_device, &get);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_GET_DEVICE, &answer);
        if (r)
                return r;
        learn_device(&s->device, answer.reply->get_device);
        dsc__answer_clear(&answer);
        return 0;
}

/* Reserves one address range for ring and completion page, for the session's life. Each attachment is mapped over
 * it. */
static int reserve_shared(dsc_session *s)
{
        void *p = mmap(
                NULL, DS_RING_BYTES + DS_PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
                return DSC__OUT_OF_MEMORY;
        s->ring_header = p;
        s->page = (struct ds_completion_page *)((char *)p + DS_RING_BYTES);
        return 0;
}

/* --- the session object ----------- */

static void init_locks(dsc_session *s)
{
        pthread_mutex_init(&s->submit.lock, NULL);
        dsc__waiters_init(&s->waiters);
        dsc__output_init(&s->output);
        dsc__host_init(&s->host);
        s->submit.ring.event_fd = -1;
        atomic_init(&s->clock.epoch, dsc__clock_epoch());
}

/* Makes a session object for the socket. Closes the socket on failure. */
static int session_new(int fd, const struct dsc__options *options, dsc_session **ret)
{
        dsc_session *s = calloc(1, sizeof(*s));
        if (!s) {
                close(fd);
                return DSC__OUT_OF_MEMORY;
        }
        init_locks(s);
        s->socket_only = options->socket_only;
        s->phase = options->phase;
        s->control_only = options->control_only;
        int r = dsc__rpc_init(&s->rpc, fd);
        if (!r)
                r = dsc__memory_init(&s->memory);
        if (!r && !(s->path = strdup(options->path)))
                r = DSC__OUT_OF_MEMORY;
        if (!r && !s->socket_only && !s->control_only)
                r = reserve_shared(s);
        if (r) {
                dsc__session_free(s);
                return r;
        }
        *ret = s;
        return 0;
}

dsc_session *dsc__session_free(dsc_session *s)
{
        if (!s)
                return NULL;
        dsc__rpc_deinit(&s->rpc);
        dsc__memory_deinit(&s->memory);
        if (s->ring_header)
                munmap(s->ring_header, DS_RING_BYTES + DS_PAGE_BYTES);
        if (s->window_bytes)
                munmap((void *)(uintptr_t)s->window_base, s->window_bytes);
        free(s->path);
        free(s);
        return NULL;
}

int dsc__connect(const struct dsc__options *options, dsc_session **ret)
{
        dsc_session *s = NULL;
        int fd = -1;
        if (options->bad_variable) {
                dsc__variable_refuse(options->bad_variable);
                return DSC__INVALID_VALUE;
        }
        int r = open_socket(options->path, &fd);
        if (r)
                return r;
        r = session_new(fd, options, &s);
        if (r) {
                dsc__message("out of memory: no session");
                return r;
        }
        dsc__pending(s);
        r = say_hello(s, options);
        if (!r && !s->control_only) {
                r = settle_window(s);
                if (!r)
                        r = dsc__ask_device(s);
                /* a session with a ring sends the phase at every attachment */
                if (!r && s->socket_only)
                        dsc__phase_tell_locked(s);
        }
        if (r && s->lost) {
                dsc__message(
                        "cannot reach the daemon at %s: it closed the connection (has this user too many?) or did not "
                        "answer",
                        s->path);
                r = DSC__NO_DEVICE;
        }
        dsc__pending(NULL);
        if (r) {
                dsc__session_free(s);
                return r;
        }
        set_timeouts(fd, 0);
        *ret = s;
        return 0;
}
