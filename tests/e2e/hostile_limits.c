/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One user that takes as much as possible, beside another that must notice nothing
 *
 * The daemon has a low limit of open files, so that its own limits are reached soon: a kernel with a name longer than
 * any reply; pinned memory and modules until they are refused; every window refused; unread replies with descriptors; a
 * stopped worker flooded with data; invalid frames on new connections, to fill the log. The worker survives all of it,
 * the good client gets what it requests, and at the end the daemon holds what it held before.
 *
 * usage: hostile_limits BUILD
 */
#include "tests/e2e/harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOSTILE_UID 54321
#define OPEN_FILES 1500
#define GARBAGE 300
#define DEAF_MAX 4000    /* most requests whose replies the client does not read */
#define LOG_LINES_MAX 60 /* most log lines during the test; each log budget of the daemon allows 20 lines per 10 s */

#define REQUEST(type, TYPE, CASE, field)                     \
        Detshare__Request request = DETSHARE__REQUEST__INIT; \
        Detshare__##type body = DETSHARE__##TYPE##__INIT;    \
        request.call_case = DETSHARE__REQUEST__CALL_##CASE;  \
        request.field = &body

static int good_fd;
static char log_path[] = "/tmp/detshare-log-XXXXXX";

static int send_request(int fd, Detshare__Request *request, const int *fds, size_t n_fds)
{
        static uint64_t id = 1000;
        uint8_t *bytes;
        int r;

        request->id = ++id;
        request->fds = (uint32_t)n_fds;
        bytes = malloc(detshare__request__get_packed_size(request));
        r = h_send(fd, bytes, detshare__request__pack(request, bytes), fds, n_fds);
        free(bytes);
        return r;
}

/* Reads the next reply. Returns its status; -1 at the end of the connection or after ms. Closes descriptors that
 * come with it. */
static int next_status(int fd, int ms, uint64_t *ret_value)
{
        int fds[4], status = -1;
        size_t size;
        uint8_t *bytes = h_receive(fd, ms, &size, fds);
        Detshare__Reply *reply = bytes ? detshare__reply__unpack(NULL, size, bytes) : NULL;

        for (int i = 0; bytes && i < 4; i++)
                if (fds[i] >= 0)
                        close(fds[i]);
        free(bytes);
        if (!reply)
                return -1;
        status = reply->status;
        if (ret_value && reply->result_case == DETSHARE__REPLY__RESULT_MODULE_LOAD)
                *ret_value = reply->module_load->module;
        if (ret_value && (reply->result_case == DETSHARE__REPLY__RESULT_MEM_ALLOC ||
                                 reply->result_case == DETSHARE__REPLY__RESULT_PINNED_ALLOC))
                *ret_value = reply->mem_alloc->address;
        detshare__reply__free_unpacked(reply, NULL);
        return status;
}

static int pin(int fd, uint64_t *ret_va)
{
        REQUEST(PinnedAlloc, PINNED_ALLOC, PINNED_ALLOC, pinned_alloc);
        body.bytes = 4096;
        return send_request(fd, &request, NULL, 0) ? -1 : next_status(fd, 10000, ret_va);
}

static int allocate(int fd, uint64_t *ret_va)
{
        REQUEST(MemAlloc, MEM_ALLOC, MEM_ALLOC, mem_alloc);
        body.bytes = 61440;
        return send_request(fd, &request, NULL, 0) ? -1 : next_status(fd, 10000, ret_va);
}

static int load(int fd, int image, size_t size, uint64_t *ret_module)
{
        REQUEST(ModuleLoad, MODULE_LOAD, MODULE_LOAD, module_load);
        body.bytes = size;
        return send_request(fd, &request, &image, 1) ? -1 : next_status(fd, 10000, ret_module);
}

/* A memory file with a module of one kernel of that name. */
static int make_image(const char *name, size_t *ret_size)
{
        char *text;
        int fd = memfd_create("image", MFD_CLOEXEC),
            n = asprintf(
                    &text, ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry %s()\n{\nret;\n}\n", name);

        if (n < 0 || fd < 0 || write(fd, text, (size_t)n) != n)
                exit(1);
        free(text);
        *ret_size = (size_t)n;
        return fd;
}

static void good_works(const char *when)
{
        struct h_status status = {0};
        size_t size;
        int image = make_image("k", &size);

        h_check(pin(good_fd, NULL) == 0, "%s: the good client cannot pin", when);
        h_check(allocate(good_fd, NULL) == 0, "%s: the good client cannot allocate", when);
        h_check(load(good_fd, image, size, NULL) == 0, "%s: the good client cannot load", when);
        h_check(h_status(&status) == 0 && status.worker_restarts == 0, "%s: the worker was lost", when);
        close(image);
}

/* Runs fn in a child of another user; after its end the daemon holds nothing of it. */
static void hostile(void (*fn)(void), const char *what)
{
        int ready[2], done[2], status;
        char byte = 1;
        pid_t pid;

        if (pipe(ready) || pipe(done))
                exit(1);
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                if (geteuid() == 0 && setuid(HOSTILE_UID))
                        _exit(1);
                close(done[1]);
                fn();
                if (write(ready[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 0)
                        _exit(1);
                _exit(0);
        }
        close(ready[1]);
        close(done[0]);
        h_check(read(ready[0], &byte, 1) == 1, "%s: the hostile client failed", what);
        /* Unless root may become another user, both share one user's limits. */
        if (geteuid() == 0)
                good_works(what);
        close(ready[0]);
        close(done[1]);
        h_check(waitpid(pid, &status, 0) == pid && status == 0, "%s: the hostile client ended with an error", what);
}

static void long_names(void)
{
        REQUEST(ListKernels, LIST_KERNELS, LIST_KERNELS, list_kernels);
        static const size_t lengths[] = {300000, 70000, 20000, 16000};
        int fd = h_hello(0, NULL, NULL);

        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
                char *name = malloc(lengths[i] + 1);
                size_t size;
                int image, status;

                memset(name, 'a', lengths[i]);
                name[lengths[i]] = 0;
                image = make_image(name, &size);
                body.module = 0;
                status = load(fd, image, size, &body.module);
                if ((status == 0) != (lengths[i] <= 16384))
                        _exit(2);
                if (status == 0 && (send_request(fd, &request, NULL, 0) || next_status(fd, 5000, NULL) != 0))
                        _exit(3);
                close(image);
                free(name);
        }
}

/* Allocates until the daemon refuses an allocation. It must refuse, and survive. */
static void many_files(void)
{
        int status = 0, fd = h_hello(0, NULL, NULL), image;
        size_t size;

        for (int i = 0; i < OPEN_FILES && status == 0; i++)
                status = pin(fd, NULL);
        if (status != DETSHARE__STATUS__QUOTA)
                _exit(2);
        image = make_image("k", &size);
        status = 0;
        for (int i = 0; i < OPEN_FILES && status == 0; i++)
                status = load(fd, image, size, NULL);
        if (status != DETSHARE__STATUS__QUOTA)
                _exit(3);
}

static void all_windows(void)
{
        int refused = 0;

        for (int i = 0; i < 240; i++) {
                int fd = h_hello(0, NULL, NULL);

                for (int j = 0; fd >= 0 && j < 8; j++) {
                        REQUEST(WindowRefused, WINDOW_REFUSED, WINDOW_REFUSED, window_refused);
                        refused += !send_request(fd, &request, NULL, 0) && next_status(fd, 2000, NULL) == 0;
                }
        }
        if (!refused)
                _exit(2);
}

/* Allocates pinned memory repeatedly without reading replies. */
static void deaf(void)
{
        int fd = h_hello(0, NULL, NULL), i;
        uint64_t va;

        if (pin(fd, &va))
                _exit(2);
        for (i = 0; i < DEAF_MAX; i++) {
                REQUEST(PinnedAlloc, PINNED_ALLOC, PINNED_ALLOC, pinned_alloc);
                Detshare__Request request_free = DETSHARE__REQUEST__INIT;
                Detshare__PinnedFree body_free = DETSHARE__PINNED_FREE__INIT;

                body.bytes = 4096;
                body_free.address = va + 4096;
                request_free.call_case = DETSHARE__REQUEST__CALL_PINNED_FREE;
                request_free.pinned_free = &body_free;
                if (send_request(fd, &request, NULL, 0) || send_request(fd, &request_free, NULL, 0))
                        break;
        }
        if (i == DEAF_MAX)
                _exit(3);
}

/* 24 sessions send 60 writes each. The supervisor reads them only while the worker reads; until then they wait. */
static pid_t write_all(const int *fds, const uint64_t *va)
{
        static uint8_t data[61440];
        pid_t pid = fork();

        if (pid != 0)
                return pid;
        for (int i = 0; i < 24 * 60; i++) {
                REQUEST(Write, WRITE, WRITE, write);
                body.dst = va[i % 24];
                body.data.data = data;
                body.data.len = sizeof(data);
                if (send_request(fds[i % 24], &request, NULL, 0))
                        _exit(1);
        }
        _exit(0);
}

/* Sends 80 MiB of writes for a worker that is stopped briefly. */
static void test_busy_worker(void)
{
        struct h_status status;
        uint64_t va[24];
        int fds[24], ended = -1;
        pid_t pid;

        if (!h_check(h_status(&status) == 0 && status.worker_pid > 0, "busy worker: no worker"))
                return;
        for (int i = 0; i < 24; i++) {
                fds[i] = h_hello(0, NULL, NULL);
                h_check(allocate(fds[i], &va[i]) == 0, "busy worker: session %d", i);
        }
        kill((pid_t)status.worker_pid, SIGSTOP);
        pid = write_all(fds, va);
        h_sleep_ms(500);
        kill((pid_t)status.worker_pid, SIGCONT);
        for (int i = 0; i < 24; i++) {
                int answered = 0, other = 0;

                while (answered < 60) {
                        int r = next_status(fds[i], 10000, NULL);

                        if (r < 0)
                                break;
                        answered++;
                        other += r != 0;
                }
                h_check(answered == 60 && other == 0, "busy worker: 60 requests, %d answered, %d failed", answered,
                        other);
                close(fds[i]);
        }
        h_check(waitpid(pid, &ended, 0) == pid && ended == 0, "busy worker: the writer ended with %#x", ended);
        good_works("busy worker");
}

static void garbage(void)
{
        static const uint8_t bytes[8] = {0xff, 0xff, 0xff, 0xff};

        for (int i = 0; i < GARBAGE; i++) {
                int fd = h_connect();

                if (fd < 0 || write(fd, bytes, sizeof(bytes)) != sizeof(bytes) || !h_closed(fd, 2000))
                        _exit(2);
                close(fd);
        }
}

/* Sends invalid frames on connections of a user who has no other connection. */
static void test_log(void)
{
        unsigned lines = 0;
        char line[1024];
        FILE *log;

        hostile(garbage, "garbage");
        log = fopen(log_path, "r");
        while (log && fgets(line, sizeof(line), log))
                lines += strstr(line, "client closed") != NULL;
        h_check(lines >= 1 && lines <= LOG_LINES_MAX, "%u lines about %d bad clients", lines, GARBAGE);
        if (log)
                fclose(log);
}

static void start(const char *build)
{
        const struct rlimit few = {OPEN_FILES, OPEN_FILES};
        int log = mkstemp(log_path), err = dup(2);
        char directory[256];

        /* The daemon raises its soft limit of open files to the hard one, so the test lowers the hard one. */
        h_check(setrlimit(RLIMIT_NOFILE, &few) == 0, "setrlimit");
        dup2(log, 2);
        h_daemon_start(build, "sim:h200", NULL);
        dup2(err, 2);
        close(err);
        close(log);
        snprintf(directory, sizeof(directory), "%s", h_socket());
        *strrchr(directory, '/') = 0;
        h_check(chmod(directory, 0755) == 0, "chmod");
}

int main(int argc, char **argv)
{
        struct h_status before;
        int r;

        if (argc < 2)
                return 2;
        start(argv[1]);
        before = h_quiet();
        good_fd = h_hello(0, NULL, NULL);
        good_works("at the beginning");
        hostile(long_names, "long names");
        hostile(many_files, "many files");
        hostile(all_windows, "all windows");
        hostile(deaf, "replies unread");
        test_busy_worker();
        test_log();
        good_works("at the end");
        close(good_fd);
        h_baseline(&before, 10000, "after hostile limits");
        r = h_finish();
        unlink(log_path);
        return r;
}
