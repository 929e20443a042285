/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/e2e/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/wire.h"

#define START_MS 30000 /* time limit of the daemon's start, ms: a GPU needs some seconds to wake */
#define H_DIR "/tmp/detshare-e2e-XXXXXX"

static unsigned h_passed, h_failed;
static pid_t h_pid = -1;
static char h_dir[] = H_DIR;
static char h_path[64];

int h_check(int ok, const char *fmt, ...)
{
        va_list args;

        if (ok) {
                h_passed++;
                return 1;
        }
        h_failed++;
        printf("FAIL ");
        va_start(args, fmt);
        vprintf(fmt, args);
        va_end(args);
        printf("\n");
        fflush(stdout);
        return 0;
}

int h_finish(void)
{
        if (h_pid > 0)
                h_check(h_daemon_stop() >= 0, "the daemon did not end cleanly");
        printf("%u passed, %u failed\n", h_passed, h_failed);
        return h_failed != 0;
}

uint64_t h_patience(uint64_t ms)
{
        return getenv("DETSHARE_SOAK") || ms < 500 ? ms : ms + 60000;
}

uint64_t h_now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void h_sleep_ms(int ms)
{
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

uint64_t h_random(uint64_t *state)
{
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        return *state * UINT64_C(2685821657736338717);
}

char *h_read_file(const char *path, size_t *ret_size)
{
        FILE *f = fopen(path, "rb");
        char *bytes;
        long size;

        if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0 || !(bytes = malloc((size_t)size + 1))) {
                fprintf(stderr, "%s: %s\n", path, strerror(errno));
                exit(1);
        }
        rewind(f);
        if (fread(bytes, 1, (size_t)size, f) != (size_t)size)
                exit(1);
        bytes[size] = 0;
        fclose(f);
        if (ret_size)
                *ret_size = (size_t)size;
        return bytes;
}

const char *h_device(const char *device)
{
        const char *env = getenv("DETSHARE_TEST_DEVICE");

        return env && env[0] ? env : device;
}

int h_simulated(const char *device)
{
        return !strncmp(h_device(device), "sim:", 4);
}

void h_skip(const char *part, const char *needs)
{
        printf("SKIP %s: needs %s\n", part, needs);
}

int h_is_root(const char *part)
{
        if (geteuid() == 0)
                return 1;
        h_skip(part, "root, to become another user");
        return 0;
}

int h_needs_sim(const char *device, const char *what)
{
        if (h_simulated(device))
                return 1;
        printf("not on %s: %s\n", h_device(device), what);
        return 0;
}

static void h_exec_daemon(const char *build, const char *device, const char *const *extra)
{
        const char *argv[32] = {NULL, "--device", device, "--socket", h_path, "--foreground"};
        size_t n = 6;
        char program[256];

        snprintf(program, sizeof(program), "%s/detshared", build);
        argv[0] = program;
        while (extra && *extra && n < 31)
                argv[n++] = *extra++;
        argv[n] = NULL;
        execv(program, (char *const *)argv);
        perror(program);
        _exit(127);
}

int h_daemon_again(const char *build, const char *device, const char *const *extra)
{
        const uint64_t begin = h_now_ms();
        struct h_status status;

        fflush(stdout);
        h_pid = fork();
        if (h_pid == 0)
                h_exec_daemon(build, h_device(device), extra);
        for (int nap = 2; h_now_ms() < begin + START_MS; h_sleep_ms(nap), nap = nap < 20 ? nap + 1 : nap)
                if (h_status(&status) == 0 && !strcmp(status.worker_state, "serving"))
                        return (int)(h_now_ms() - begin);
                else if (waitpid(h_pid, NULL, WNOHANG) == h_pid)
                        break;
        printf("FAIL the daemon did not start\n0 passed, 1 failed\n");
        kill(h_pid, SIGKILL);
        exit(1);
}

void h_place(void)
{
        snprintf(h_dir, sizeof(h_dir), "%s", H_DIR);
        if (!mkdtemp(h_dir))
                exit(1);
        snprintf(h_path, sizeof(h_path), "%s/sock", h_dir);
        setenv("DETSHARE_SOCKET", h_path, 1);
        signal(SIGPIPE, SIG_IGN);
}

void h_daemon_start(const char *build, const char *device, const char *const *extra)
{
        h_place();
        h_daemon_again(build, device, extra);
}

void h_daemon_kill(void)
{
        kill(h_pid, SIGKILL);
        waitpid(h_pid, NULL, 0);
        h_pid = -1;
}

int h_daemon_stop(void)
{
        uint64_t begin = h_now_ms();
        int status;

        kill(h_pid, SIGTERM);
        while (h_now_ms() < begin + h_patience(10000)) {
                if (waitpid(h_pid, &status, WNOHANG) == h_pid) {
                        h_pid = -1;
                        unlink(h_path);
                        rmdir(h_dir);
                        return status == 0 ? (int)(h_now_ms() - begin) : -1;
                }
                h_sleep_ms(5);
        }
        kill(h_pid, SIGKILL);
        waitpid(h_pid, &status, 0);
        h_pid = -1;
        return -1;
}

pid_t h_daemon_pid(void)
{
        return h_pid;
}

const char *h_socket(void)
{
        return h_path;
}

int h_connect(void)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", h_path);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
                return fd;
        if (fd >= 0)
                close(fd);
        return -1;
}

int h_send(int fd, const void *payload, size_t size, const int *fds, size_t n_fds)
{
        uint8_t header[4] = {(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16), (uint8_t)(size >> 24)};
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(int) * 16)];
        } control = {0};
        struct iovec iov[2] = {{header, 4}, {(void *)payload, size}};
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
        size_t sent = 0;

        if (n_fds) {
                struct cmsghdr *cmsg = &control.align;

                msg.msg_control = &control;
                msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
                cmsg->cmsg_level = SOL_SOCKET;
                cmsg->cmsg_type = SCM_RIGHTS;
                cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
                memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * n_fds);
        }
        while (sent < size + 4) {
                ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return -1;
                sent += (size_t)n;
                msg.msg_control = NULL;
                msg.msg_controllen = 0;
                for (size_t i = 0, left = (size_t)n; i < 2; i++) {
                        size_t step = left < iov[i].iov_len ? left : iov[i].iov_len;

                        iov[i].iov_base = (char *)iov[i].iov_base + step;
                        iov[i].iov_len -= step;
                        left -= step;
                }
        }
        return 0;
}

/* Reads exactly size bytes before the deadline; stores descriptors that arrive with them. */
static int h_read_all(int fd, uint8_t *bytes, size_t size, uint64_t end, int fds[4])
{
        size_t got = 0;

        while (got < size) {
                union {
                        struct cmsghdr align;
                        char bytes[CMSG_SPACE(sizeof(int) * 4)];
                } control;
                struct iovec iov = {bytes + got, size - got};
                struct msghdr msg = {
                        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
                struct pollfd p = {.fd = fd, .events = POLLIN};
                uint64_t now = h_now_ms();
                ssize_t n;

                if (now >= end || poll(&p, 1, (int)(end - now)) <= 0)
                        return -1;
                n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
                if (n <= 0)
                        return -1;
                for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
                        memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
                got += (size_t)n;
        }
        return 0;
}

uint8_t *h_receive(int fd, int ms, size_t *ret_size, int fds[4])
{
        uint64_t end = h_now_ms() + (uint64_t)ms;
        int unused[4] = {-1, -1, -1, -1}, *target = fds ? fds : unused;
        uint8_t header[4], *payload;
        size_t size;

        for (int i = 0; i < 4; i++)
                target[i] = -1;
        if (h_read_all(fd, header, 4, end, target) < 0)
                return NULL;
        size = header[0] | (size_t)header[1] << 8 | (size_t)header[2] << 16 | (size_t)header[3] << 24;
        if (size > DS_FRAME_MAX || !(payload = malloc(size + 1)))
                return NULL;
        if (h_read_all(fd, payload, size, end, target) < 0) {
                free(payload);
                return NULL;
        }
        *ret_size = size;
        return payload;
}

Detshare__Reply *h_call(int fd, Detshare__Request *request, int fds[4])
{
        uint8_t buffer[DS_FRAME_MAX];
        Detshare__Reply *reply;
        uint8_t *payload;
        size_t size = detshare__request__get_packed_size(request);

        if (size > sizeof(buffer))
                return NULL;
        detshare__request__pack(request, buffer);
        if (h_send(fd, buffer, size, NULL, 0) < 0)
                return NULL;
        payload = h_receive(fd, 15000, &size, fds);
        if (!payload)
                return NULL;
        reply = detshare__reply__unpack(NULL, size, payload);
        free(payload);
        return reply;
}

int h_hello(int control_only, uint64_t *ret_session, uint64_t *ret_base)
{
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__Hello hello = DETSHARE__HELLO__INIT;
        Detshare__Reply *reply;
        int fd = h_connect();

        if (fd < 0)
                return -1;
        hello.version = 1;
        hello.name = (char *)"e2e";
        hello.control_only = control_only;
        request.id = 1;
        request.call_case = DETSHARE__REQUEST__CALL_HELLO;
        request.hello = &hello;
        reply = h_call(fd, &request, NULL);
        if (!reply || reply->status != 0 || !reply->hello) {
                if (reply)
                        detshare__reply__free_unpacked(reply, NULL);
                close(fd);
                return -1;
        }
        if (ret_session)
                *ret_session = reply->hello->session;
        if (ret_base)
                *ret_base = reply->hello->window_base;
        detshare__reply__free_unpacked(reply, NULL);
        return fd;
}

int h_closed(int fd, int ms)
{
        uint64_t end = h_now_ms() + h_patience((uint64_t)ms);
        char bytes[4096];

        for (uint64_t now; (now = h_now_ms()) < end;) {
                struct pollfd p = {.fd = fd, .events = POLLIN};

                if (poll(&p, 1, (int)(end - now)) <= 0)
                        continue;
                if (recv(fd, bytes, sizeof(bytes), 0) <= 0)
                        return 1;
        }
        return 0;
}

static void h_fill_status(struct h_status *status, const Detshare__StatusReply *r)
{
        *status = (struct h_status){
                .sessions = r->sessions,
                .worker_pid = r->worker_pid,
                .helper_pid = r->helper_pid,
                .worker_restarts = r->worker_restarts,
                .open_fds = r->open_fds,
                .windows = r->windows,
                .modules = r->modules,
                .charges = r->charges,
                .memory_slabs = r->memory_slabs,
                .memory_used = r->memory_used,
                .launches = r->launches,
                .completed = r->completed,
        };
        snprintf(status->worker_state, sizeof(status->worker_state), "%s", r->worker_state);
        snprintf(status->policy, sizeof(status->policy), "%s", r->policy);
}

int h_status(struct h_status *status)
{
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__GetStatus get = DETSHARE__GET_STATUS__INIT;
        Detshare__Reply *reply;
        int fd = h_hello(1, NULL, NULL), ok;

        if (fd < 0)
                return -1;
        request.id = 2;
        request.call_case = DETSHARE__REQUEST__CALL_GET_STATUS;
        request.get_status = &get;
        reply = h_call(fd, &request, NULL);
        ok = reply && reply->status == 0 && reply->get_status;
        if (ok)
                h_fill_status(status, reply->get_status);
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        close(fd);
        return ok ? 0 : -1;
}

struct h_status h_quiet(void)
{
        struct h_status a, b = {0};

        /* The previous connection may still be closing: wait until two answers agree. */
        for (int i = 0; i < 100; i++) {
                if (h_status(&a) == 0 && a.open_fds == b.open_fds && a.charges == b.charges)
                        return a;
                b = a;
                h_sleep_ms(20);
        }
        return a;
}

void h_baseline(const struct h_status *before, int ms, const char *what)
{
        struct h_status now = {0};

        for (uint64_t end = h_now_ms() + h_patience((uint64_t)ms); h_now_ms() < end; h_sleep_ms(20)) {
                if (h_status(&now) < 0)
                        continue;
                if (now.sessions <= before->sessions && now.open_fds <= before->open_fds &&
                        now.windows <= before->windows && now.charges <= before->charges &&
                        now.memory_slabs <= before->memory_slabs && now.memory_used <= before->memory_used &&
                        now.modules <= before->modules)
                        break;
        }
        h_check(now.sessions <= before->sessions && now.open_fds <= before->open_fds &&
                        now.windows <= before->windows && now.charges <= before->charges &&
                        now.memory_slabs <= before->memory_slabs && now.memory_used <= before->memory_used &&
                        now.modules <= before->modules,
                "%s: not back at the baseline: sessions %u/%u fds %u/%u windows %u/%u charges %u/%u slabs %llu/%llu "
                "used %llu/%llu "
                "modules %u/%u",
                what, now.sessions, before->sessions, now.open_fds, before->open_fds, now.windows, before->windows,
                now.charges, before->charges, (unsigned long long)now.memory_slabs,
                (unsigned long long)before->memory_slabs, (unsigned long long)now.memory_used,
                (unsigned long long)before->memory_used, now.modules, before->modules);
}

Detshare__Reply *h_ask(int fd, Detshare__Request *request, const int *fds, size_t n_fds, int ms)
{
        uint8_t buffer[DS_FRAME_MAX], *payload;
        Detshare__Reply *reply;
        size_t size;
        int got[4];

        request->fds = (uint32_t)n_fds;
        size = detshare__request__get_packed_size(request);
        if (size > sizeof(buffer))
                return NULL;
        detshare__request__pack(request, buffer);
        if (h_send(fd, buffer, size, fds, n_fds) < 0 || !(payload = h_receive(fd, ms, &size, got)))
                return NULL;
        for (int i = 0; i < 4; i++)
                if (got[i] >= 0)
                        close(got[i]);
        reply = detshare__reply__unpack(NULL, size, payload);
        free(payload);
        return reply;
}

int h_ask_status(int fd, Detshare__Request *request, const int *fds, size_t n_fds, int ms)
{
        Detshare__Reply *reply = h_ask(fd, request, fds, n_fds, ms);
        int status = reply ? reply->status : -1;

        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        return status;
}

long h_memory_kb(pid_t pid, const char *field)
{
        char path[64], line[256];
        long kb = -1;
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        f = fopen(path, "r");
        while (f && kb < 0 && fgets(line, sizeof(line), f))
                if (!strncmp(line, field, strlen(field)) && line[strlen(field)] == ':')
                        kb = strtol(line + strlen(field) + 1, NULL, 10);
        if (f)
                fclose(f);
        return kb;
}

int h_by_value(const void *a, const void *b)
{
        const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

        return x < y ? -1 : x > y;
}

uint64_t h_now_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void h_open_socket_directory(void)
{
        char directory[256];

        snprintf(directory, sizeof(directory), "%s", h_path);
        *strrchr(directory, '/') = 0;
        h_check(chmod(directory, 0755) == 0, "chmod %s", directory);
}

unsigned h_failures(void)
{
        return h_failed;
}

struct h_child h_spawn(int (*run)(int, int), const char *transport)
{
        int a[2], b[2];
        struct h_child c;

        fflush(stdout);
        if (pipe(a) || pipe(b) || (c.pid = fork()) < 0)
                exit(1);
        if (c.pid == 0) {
                close(a[1]);
                close(b[0]);
                setenv("DETSHARE_TRANSPORT", transport, 1);
                _exit(run(a[0], b[1]));
        }
        close(a[0]);
        close(b[1]);
        c.to = a[1];
        c.from = b[0];
        return c;
}
