/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service manager's part of the environment and of the socket
 *
 * Files from the manager have the numbers from 3 on. The test framework uses these numbers itself, so each case runs in
 * a child.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/notify.h"
#include "util/alloc.h"

/* In the child: returns the line of the first failing check; 0: all hold. */
#define CHECK(x)                        \
        do {                            \
                if (!(x))               \
                        _exit(wrong()); \
        } while (0)
#define wrong() (fprintf(stderr, "%s:%d: wrong\n", __FILE__, __LINE__), 1)

static int manager = -1; /* the manager's end of the notification socket */
static char manager_path[64];

static void be_manager(void)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        snprintf(manager_path, sizeof(manager_path), "/tmp/ds-test-notify-%d", (int)getpid());
        strcpy(address.sun_path, manager_path);
        manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        cr_assert(manager >= 0 && bind(manager, (struct sockaddr *)&address, sizeof(address)) == 0);
        setenv("NOTIFY_SOCKET", manager_path, 1);
}

static void manager_gone(void)
{
        close(manager);
        unlink(manager_path);
}

/* Receives one message as a string; *ret_fd is its file or -1. */
static const char *hear(int *ret_fd)
{
        static char text[2048];
        struct iovec iov = {.iov_base = text, .iov_len = sizeof(text) - 1};
        union {
                struct cmsghdr head;
                char bytes[CMSG_SPACE(sizeof(int))];
        } control;
        struct msghdr message = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
        ssize_t n = recvmsg(manager, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

        if (ret_fd)
                *ret_fd = -1;
        if (n < 0)
                return "";
        text[n] = 0;
        if (ret_fd && message.msg_controllen >= CMSG_LEN(sizeof(int)))
                memcpy(ret_fd, CMSG_DATA(&control.head), sizeof(int));
        return text;
}

/* Runs `body` in a child that has `n` files from number 3 on, as a service manager leaves them, and no others. */
static int in_child(int n, const char *n_text, const char *names, void (*body)(void))
{
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                char self[16];

                close_range(3, ~0U, 0);
                for (int i = 0; i < n; i++)
                        CHECK(memfd_create("given", 0) == 3 + i);
                snprintf(self, sizeof(self), "%d", (int)getpid());
                setenv("LISTEN_PID", self, 1);
                setenv("LISTEN_FDS", n_text, 1);
                if (names)
                        setenv("LISTEN_FDNAMES", names, 1);
                body();
                _exit(0);
        }
        waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void takes_by_name(void)
{
        struct ds_given_file *files;
        ds_notify *notify;
        size_t n;

        CHECK(ds_notify_new(&notify) == 0);
        CHECK(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS") && !getenv("LISTEN_FDNAMES"));
        for (int fd = 3; fd < 6; fd++)
                CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
        CHECK(ds_notify_take(notify, "detshared") == 4);
        CHECK(ds_notify_take(notify, "detshared") == -1);
        CHECK(ds_notify_take(notify, "nothing") == -1);
        files = ds_notify_files(notify, &n);
        CHECK(n == 3 && !strcmp(files[0].name, "slab") && files[0].fd == 3 && files[1].fd == -1 && files[2].fd == 5);
        CHECK(!strcmp(files[2].name, "slab"));
        CHECK(!ds_notify_stores(notify)); /* there is no manager, although the environment named one */
        CHECK(ds_notify_store(notify, "slab", 5, DS_NS_PER_S) == DS_NOTIFY_E_NO_STORE);
        ds_notify_free(notify);
        CHECK(fcntl(3, F_GETFD) == -1 && fcntl(4, F_GETFD) == FD_CLOEXEC && fcntl(5, F_GETFD) == -1);
}

Test(notify, files_are_taken_by_name_and_the_rest_is_closed)
{
        setenv("DETSHARE_FDSTORE", "1", 1);
        cr_assert_eq(in_child(3, "3", "slab:detshared:slab", takes_by_name), 0);
}

static void finds_nothing(void)
{
        ds_notify *notify;
        size_t n = 1;

        CHECK(ds_notify_new(&notify) == 0);
        CHECK(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS") && !getenv("LISTEN_FDNAMES"));
        ds_notify_files(notify, &n);
        CHECK(n == 0 && ds_notify_take(notify, "detshared") == -1);
        ds_notify_free(notify);
}

static void not_for_us(void)
{
        setenv("LISTEN_PID", "1", 1);
        finds_nothing();
        CHECK(fcntl(3, F_GETFD) == 0); /* LISTEN_PID names another process, so file 3 is not ours and stays open */
}

Test(notify, what_makes_no_sense_is_not_used)
{
        cr_assert_eq(in_child(1, "0", NULL, finds_nothing), 0);
        cr_assert_eq(in_child(1, "-1", NULL, finds_nothing), 0);
        cr_assert_eq(in_child(1, "one", NULL, finds_nothing), 0);
        cr_assert_eq(in_child(1, "2147483647", NULL, finds_nothing), 0);
        /* more files than are open */
        cr_assert_eq(in_child(2, "2000000000", NULL, finds_nothing), 0);
        /* names that do not match the files: too few, or malformed */
        cr_assert_eq(in_child(2, "2", "detshared", finds_nothing), 0);
        cr_assert_eq(in_child(1, "1", "detshared\\", finds_nothing), 0);
        cr_assert_eq(in_child(1, "1", "detshared", not_for_us), 0);
}

static void no_memory(void)
{
        ds_notify *notify;

        for (int n = 0; n < 16; n++) {
                int r;

                ds_alloc_fail_after(n);
                r = ds_notify_new(&notify);
                ds_alloc_fail_after(-1);
                if (r == 0)
                        ds_notify_free(notify);
                else
                        CHECK(r == -ENOMEM);
        }
}

Test(notify, out_of_memory_is_an_error)
{
        cr_assert_eq(in_child(2, "2", "a:b", no_memory), 0);
}

Test(notify, says_what_happens, .init = be_manager, .fini = manager_gone)
{
        unsigned long long us;
        ds_notify *notify;
        char end;

        cr_assert_eq(ds_notify_new(&notify), 0);
        cr_assert_null(getenv("NOTIFY_SOCKET"));
        ds_notify_ready(notify);
        cr_assert_str_eq(hear(NULL), "READY=1");
        ds_notify_status(notify, "%d sessions\nREADY=1", 3);
        cr_assert_str_eq(hear(NULL), "STATUS=3 sessions READY=1");
        ds_notify_status(notify, "%d sessions\nREADY=1", 3);
        cr_assert_str_eq(hear(NULL), "");
        ds_notify_reloading(notify);
        cr_assert_eq(sscanf(hear(NULL), "RELOADING=1\nMONOTONIC_USEC=%llu%c", &us, &end), 1);
        ds_notify_extend(notify, 5);
        cr_assert_str_eq(hear(NULL), "EXTEND_TIMEOUT_USEC=5000000");
        ds_notify_stopping(notify);
        cr_assert_str_eq(hear(NULL), "STOPPING=1");
        cr_assert_not(ds_notify_stores(notify));
        ds_notify_free(notify);
}

Test(notify, gives_files_to_keep, .init = be_manager, .fini = manager_gone)
{
        int given = memfd_create("given", MFD_CLOEXEC), fd;
        char long_name[300];
        ds_notify *notify;

        setenv("DETSHARE_FDSTORE", "1", 1);
        cr_assert_eq(ds_notify_new(&notify), 0);
        cr_assert_null(getenv("DETSHARE_FDSTORE"));
        cr_assert(ds_notify_stores(notify));
        cr_assert_eq(ds_notify_store(notify, "s1-slab", given, DS_NS_PER_S), 0);
        cr_assert_str_eq(hear(&fd), "FDSTORE=1\nFDNAME=s1-slab");
        cr_assert_geq(fd, 0);
        close(fd);
        ds_notify_unstore(notify, "s1-slab");
        cr_assert_str_eq(hear(&fd), "FDSTOREREMOVE=1\nFDNAME=s1-slab");
        cr_assert_eq(fd, -1);
        memset(long_name, 'a', sizeof(long_name));
        long_name[256] = 0;
        cr_assert_eq(ds_notify_store(notify, "a:b", given, DS_NS_PER_S), -EINVAL);
        cr_assert_eq(ds_notify_store(notify, "a\nREADY=1", given, DS_NS_PER_S), -EINVAL);
        cr_assert_eq(ds_notify_store(notify, "a\\", given, DS_NS_PER_S), -EINVAL);
        cr_assert_eq(ds_notify_store(notify, "", given, DS_NS_PER_S), -EINVAL);
        cr_assert_eq(ds_notify_store(notify, long_name, given, DS_NS_PER_S), -EINVAL);
        cr_assert_str_eq(hear(NULL), "");
        long_name[255] = 0;
        cr_assert_eq(ds_notify_store(notify, long_name, given, DS_NS_PER_S), 0);
        close(given);
        ds_notify_free(notify);
}

/* The manager does not read and its queue is full: the first important message waits a little, later ones do not. */
Test(notify, a_manager_that_does_not_read_stops_nobody, .init = be_manager, .fini = manager_gone, .timeout = 60)
{
        uint64_t start = uv_hrtime();
        ds_notify *notify;
        int small = 1;

        setsockopt(manager, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        cr_assert_eq(ds_notify_new(&notify), 0);
        for (int i = 0; i < 5000; i++)
                ds_notify_status(notify, "line %d", i);
        cr_assert_lt(uv_hrtime() - start, 20 * DS_NS_PER_S);
        start = uv_hrtime();
        for (int i = 0; i < 100; i++)
                ds_notify_ready(notify); /* a wait of half a second for each message would take 50 s */
        cr_assert_lt(uv_hrtime() - start, 20 * DS_NS_PER_S);
        ds_notify_free(notify);
}

Test(notify, knows_how_many_files_are_kept, .init = be_manager, .fini = manager_gone)
{
        static const struct {
                const char *unit, *own;
                size_t want;
        } rows[] = {{"1", NULL, DS_NOTIFY_STORED_MAX}, {"0", NULL, 0}, {NULL, NULL, 0}, {"500", NULL, 500},
                {"1", "40", 40}, {"500", "40", 40}, {NULL, "40", 40}, {"1", "0", DS_NOTIFY_STORED_MAX},
                {"yes", NULL, DS_NOTIFY_STORED_MAX}, {"99999999999999999999", NULL, DS_NOTIFY_STORED_MAX}};
        ds_notify *notify;

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                setenv("NOTIFY_SOCKET", manager_path, 1);
                if (rows[i].unit)
                        setenv("DETSHARE_FDSTORE", rows[i].unit, 1);
                if (rows[i].own)
                        setenv("FDSTORE", rows[i].own, 1);
                cr_assert_eq(ds_notify_new(&notify), 0);
                cr_assert_eq(ds_notify_stores(notify), rows[i].want, "row %zu", i);
                ds_notify_free(notify);
        }
}

/* The manager answers by closing the file. */
static void *answer(void *text)
{
        const char *line;
        int fd = -1;

        while (*(line = hear(&fd)) == 0 || strcmp(line, "BARRIER=1") != 0)
                usleep(1000);
        strcpy(text, line);
        close(fd);
        return NULL;
}

Test(notify, waits_until_all_is_handled, .init = be_manager, .fini = manager_gone)
{
        char text[64] = "";
        pthread_t thread;
        ds_notify *notify;
        int fd = -1;

        setenv("DETSHARE_FDSTORE", "1", 1);
        cr_assert_eq(ds_notify_new(&notify), 0);
        cr_assert_eq(ds_notify_sync(notify, 20 * DS_NS_PER_MS), -EAGAIN, "nobody has answered");
        cr_assert_str_eq(hear(&fd), "BARRIER=1");
        cr_assert_geq(fd, 0);
        close(fd);
        cr_assert_eq(pthread_create(&thread, NULL, answer, text), 0);
        cr_assert_eq(ds_notify_sync(notify, 60 * DS_NS_PER_S), 0);
        pthread_join(thread, NULL);
        cr_assert_str_eq(text, "BARRIER=1");
        ds_notify_free(notify);
        cr_assert_eq(ds_notify_sync(NULL, DS_NS_PER_S), 0);
}

/* The notification queue is full: storing a file waits up to its limit, the first time and the second time. */
Test(notify, stores_in_time_or_not, .init = be_manager, .fini = manager_gone, .timeout = 60)
{
        int given = memfd_create("given", MFD_CLOEXEC), r = 0;
        uint64_t start;
        ds_notify *notify;

        setenv("DETSHARE_FDSTORE", "1", 1);
        cr_assert_eq(ds_notify_new(&notify), 0);
        for (int i = 0; i < 5000 && !r; i++)
                r = ds_notify_store(notify, "a", given, 0);
        cr_assert_eq(r, -EAGAIN);
        for (int i = 0; i < 2; i++) {
                start = uv_hrtime();
                cr_assert_eq(ds_notify_store(notify, "a", given, 50 * DS_NS_PER_MS), -EAGAIN);
                cr_assert_geq(uv_hrtime() - start, 40 * DS_NS_PER_MS);
        }
        hear(NULL);
        cr_assert_eq(ds_notify_store(notify, "a", given, 20 * DS_NS_PER_S), 0);
        close(given);
        ds_notify_free(notify);
}

Test(notify, a_manager_that_is_not_there_is_no_error)
{
        ds_notify *notify;

        setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1);
        cr_assert_eq(ds_notify_new(&notify), 0);
        ds_notify_ready(notify);
        ds_notify_free(notify);
        setenv("NOTIFY_SOCKET", "vsock:1:2", 1);
        cr_assert_eq(ds_notify_new(&notify), 0);
        ds_notify_ready(notify);
        ds_notify_free(notify);
        ds_notify_ready(NULL);
        cr_assert_eq(ds_notify_take(NULL, "detshared"), -1);
        cr_assert_not(ds_notify_stores(NULL));
}

static int alive;

static int is_alive(void *user)
{
        return *(int *)user;
}

static int count_pings(uv_loop_t *loop, int ms)
{
        uint64_t end = uv_hrtime() + (uint64_t)ms * DS_NS_PER_MS;
        int n = 0;

        while (uv_hrtime() < end) {
                uv_run(loop, UV_RUN_NOWAIT);
                while (!strcmp(hear(NULL), "WATCHDOG=1"))
                        n++;
                usleep(1000);
        }
        return n;
}

Test(notify, the_watchdog_hears_of_a_loop_that_turns_and_lives, .init = be_manager, .fini = manager_gone)
{
        uv_async_t busy;
        ds_notify *notify;
        uv_loop_t loop;

        setenv("WATCHDOG_USEC", "60000", 1);
        cr_assert_eq(ds_notify_new(&notify), 0);
        cr_assert_null(getenv("WATCHDOG_USEC"));
        uv_loop_init(&loop);
        /* a handle that keeps the loop busy, because uv_run returns at once from an empty loop */
        uv_async_init(&loop, &busy, NULL);
        alive = 1;
        cr_assert_eq(ds_notify_watchdog_start(notify, &loop, is_alive, &alive), 0);
        cr_assert_geq(count_pings(&loop, 200), 2);
        alive = 0;
        cr_assert_eq(count_pings(&loop, 100), 0);
        uv_unref((uv_handle_t *)&busy);
        cr_assert_eq(uv_loop_alive(&loop), 0); /* the watchdog's handle does not keep the loop alive */
        uv_close((uv_handle_t *)&busy, NULL);
        ds_notify_watchdog_stop(notify);
        ds_notify_watchdog_stop(notify);
        uv_run(&loop, UV_RUN_DEFAULT);
        cr_assert_eq(uv_loop_close(&loop), 0);
        ds_notify_free(notify);
}
