/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile file descriptors: wrong kinds, too many, unannounced, and ones whose close blocks
 *
 * The test sends everything that can be opened as an image; memory files that shrink, grow and change while they are
 * copied; descriptors beside requests that announce none, before hello, in half frames and in pieces; connections that
 * carry themselves. A TCP socket with a long SO_LINGER blocks the process that closes it last for as long as its owner
 * likes; the test sends it in every possible way. The daemon drops the offender, keeps nothing of it, and answers a
 * good client's pings in time throughout.
 *
 * usage: hostile_fds BUILD
 */
#include "tests/e2e/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINGER_S 60   /* time that the last close of a socket blocks, s: a daemon that blocks so long fails the pings */
#define PING_MS 10000 /* bound of a ping on a busy machine */
#define FROM_USER 54322u
#define STEP_MAX 128

static int good_fd;
static char *step; /* shared: the hostile process's current step */

static void ping(void)
{
        H_REQUEST(Ping, PING, PING, ping);

        h_check(h_ask_status(good_fd, &request, NULL, 0, PING_MS) == 0, "%s: the good client was not answered", step);
}

static void say_step(const char *what)
{
        snprintf(step, STEP_MAX, "%s", what);
}

/* Opens a session, or a bare connection. The daemon may still be closing earlier descriptors of the user, and
 * accepts nothing from it until then. */
static int enter(int hello)
{
        uint64_t end = h_now_ms() + 20000;
        int fd;

        do {
                fd = hello ? h_hello(0, NULL, NULL) : h_connect();
                if (fd < 0)
                        h_sleep_ms(5);
        } while (fd < 0 && h_now_ms() < end);
        h_check(fd >= 0, "%s: cannot connect", step);
        return fd;
}

/* --- images ------------------------------------------------------------------------------------------------------- */

/* Requests to load that image. Returns the status; -1: the daemon dropped the connection instead. */
static int load(int image, uint64_t bytes)
{
        H_REQUEST(ModuleLoad, MODULE_LOAD, MODULE_LOAD, module_load);
        int fd = enter(1), status;

        body.bytes = bytes;
        status = h_ask_status(fd, &request, &image, 1, 30000);
        if (status < 0)
                h_check(h_closed(fd, 5000), "neither answered nor dropped");
        close(fd);
        return status;
}

static void dropped(int image, const char *what)
{
        if (image < 0) {
                printf("%s: cannot be opened here: %s\n", what, strerror(errno));
                return;
        }
        say_step(what);
        h_check(load(image, 4096) == -1, "%s: its sender was not dropped", what);
        close(image);
}

/* Requests to load a regular file: on a local disk the daemon accepts the file, but it is no module. */
static void test_disk(void)
{
        int file = open("/etc/passwd", O_RDONLY);

        say_step("a file of a disk");
        h_check(load(file, 64) != 0, "/etc/passwd was loaded");
        h_check(load(file, UINT64_C(1) << 30) != 0, "more than the file has was loaded");
        close(file);
        dropped(open("/etc/passwd", O_RDWR), "a file of a disk that can be written");
}

static void test_kinds(void)
{
        int pipes[2], pair[2];
        sigset_t none;

        sigemptyset(&none);
        h_check(pipe(pipes) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "pipe, socketpair");
        dropped(pipes[0], "a pipe to read");
        dropped(pipes[1], "a pipe to write");
        dropped(pair[0], "a socket");
        close(pair[1]);
        dropped(socket(AF_UNIX, SOCK_DGRAM, 0), "a datagram socket");
        dropped(h_connect(), "a connection to the daemon");
        dropped(open("/", O_RDONLY), "a directory");
        dropped(open("/dev/zero", O_RDONLY), "/dev/zero");
        dropped(open("/dev/null", O_WRONLY), "/dev/null");
        dropped(open("/dev/tty", O_RDWR), "a terminal");
        dropped(open("/proc/self/mem", O_RDWR), "/proc/self/mem");
        dropped(open("/proc/kmsg", O_RDONLY | O_NONBLOCK), "/proc/kmsg");
        dropped(open("/proc/self/status", O_RDONLY), "a proc file");
        dropped(open("/proc/version", O_RDONLY), "another proc file");
        dropped(open("/etc/passwd", O_PATH), "a file opened for nothing");
        dropped(epoll_create1(0), "epoll");
        dropped(eventfd(0, 0), "an eventfd");
        dropped(timerfd_create(CLOCK_MONOTONIC, 0), "a timer");
        dropped(signalfd(-1, &none, 0), "signals");
}

/* Unusual memory files: sparse, empty, unreadable, smaller than announced. None is a module. */
static void test_memory_files(void)
{
        static const uint64_t sizes[] = {0, 1, 4095, 1u << 20, UINT64_C(1) << 40};
        char path[64];
        int file;

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                file = memfd_create("image", 0);
                h_check(ftruncate(file, (off_t)sizes[i]) == 0, "ftruncate");
                h_check(load(file, 1u << 20) > 0, "%llu zeros were loaded", (unsigned long long)sizes[i]);
                h_check(load(file, UINT64_MAX) > 0, "an image of 2^64 bytes");
                close(file);
        }
        file = memfd_create("image", 0);
        h_check(ftruncate(file, 8192) == 0, "ftruncate");
        snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
        close(file = open(path, O_WRONLY));
        file = memfd_create("image", 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
        h_check(ftruncate(file, 8192) == 0 && load(open(path, O_WRONLY), 8192) > 0, "a file that cannot be read");
}

static _Atomic int changing;

/* Shrinks, grows and rewrites the memory file while the daemon copies it. */
static void *change(void *arg)
{
        int file = *(int *)arg;
        char bytes[4096];

        for (unsigned n = 0; atomic_load(&changing); n++) {
                memset(bytes, (int)n, sizeof(bytes));
                if (ftruncate(file, n % 3 ? 4 << 20 : 0) < 0 || pwrite(file, bytes, sizeof(bytes), n % 1024 * 4096) < 0)
                        break;
                fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, n % 512 * 4096, 65536);
        }
        return NULL;
}

static void test_changing(void)
{
        int file = memfd_create("image", MFD_ALLOW_SEALING);
        pthread_t thread;

        atomic_store(&changing, 1);
        h_check(pthread_create(&thread, NULL, change, &file) == 0, "pthread_create");
        for (int i = 0; i < 20; i++)
                h_check(load(file, 4u << 20) != 0, "a file that changes was loaded");
        atomic_store(&changing, 0);
        pthread_join(thread, NULL);
        close(file);
}

/* --- descriptors whose close blocks ------------------------------------------------------------------------------- */

/* A socket whose last close blocks for LINGER_S: its peer reads nothing, and more data is unsent than buffers hold. */
/* the peers of the lingering sockets, which read nothing; closing a peer ends the lingering of its socket */
static int peers[64];
static int n_peers;

static int make_lingering(void)
{
        static const struct linger linger = {1, LINGER_S};
        static char bytes[65536];
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(address);
        int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0), peer = -1;

        if (bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0 &&
                getsockname(listener, (struct sockaddr *)&address, &size) == 0 &&
                connect(fd, (struct sockaddr *)&address, size) == 0)
                peer = accept(listener, NULL, NULL);
        close(listener);
        if (peer < 0 || n_peers == 64) {
                close(fd);
                return -1;
        }
        while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
                ;
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        peers[n_peers++] = peer;
        return fd;
}

static int send_bytes(int fd, const void *bytes, size_t size, const int *fds, size_t n_fds)
{
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(int) * 256)];
        } control = {0};
        struct iovec iov = {(void *)bytes, size};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

        if (n_fds) {
                msg.msg_control = &control;
                msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
                control.align = (struct cmsghdr){
                        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int) * n_fds)};
                memcpy(CMSG_DATA(&control.align), fds, sizeof(int) * n_fds);
        }
        return (int)sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Frames as bytes: a ping that announces no descriptor, one that announces one, and a wrong length. */
static const uint8_t plain_ping[] = {4, 0, 0, 0, 0x08, 5, 0x72, 0};
static const uint8_t fd_ping[] = {6, 0, 0, 0, 0x08, 5, 0x18, 1, 0x72, 0};
static uint8_t wrong[3000] = {0xff, 0xff, 0xff, 0xff};

/* A request to load a module of 4096 bytes. */
static const uint8_t image_load[] = {10, 0, 0, 0, 0x08, 5, 0x18, 1, 0xea, 2, 3, 0x08, 0x80, 0x20};

static const struct way {
        const char *name;
        const uint8_t *bytes;
        /* bytes sent with the descriptor; the rest follows when only the daemon holds the descriptor */
        size_t size, first;
} ways[] = {
        {"unannounced", plain_ping, sizeof(plain_ping), 5}, {"announced", fd_ping, sizeof(fd_ping), 5},
        {"as an image", image_load, sizeof(image_load), 5}, {"in half a frame", plain_ping, 5, 5},
        {"unread", wrong, sizeof(wrong), 2500}, /* after 2,500 bytes the daemon has stopped reading */
};

static void on_alarm(int signum)
{
}

/* Closes the socket without lingering, in case this is the last close after all. */
static void close_lingering(int fd)
{
        const struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};

        sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
        setitimer(ITIMER_REAL, &often, NULL);
        close(fd);
        setitimer(ITIMER_REAL, &never, NULL);
}

static void send_lingering(int fd, const struct way *way)
{
        int s = make_lingering();

        if (!h_check(s >= 0, "a socket that lingers"))
                return;
        if (way->bytes == wrong) {
                send_bytes(fd, wrong, way->first, NULL, 0);
                send_bytes(fd, wrong, way->size - way->first, &s, 1);
                close_lingering(s);
                return;
        }
        send_bytes(fd, way->bytes, way->first, &s, 1);
        close_lingering(s);
        if (way->first < way->size)
                send_bytes(fd, way->bytes + way->first, way->size - way->first, NULL, 0);
}

static void test_lingering(void)
{
        for (size_t i = 0; i < 2 * sizeof(ways) / sizeof(ways[0]); i++) {
                const struct way *way = &ways[i / 2];
                int fd = enter(i % 2);

                if (fd < 0)
                        continue;
                say_step(way->name);
                send_lingering(fd, way);
                if (i % 2)
                        h_check(h_closed(fd, 15000), "%s: its sender was not dropped", way->name);
                close(fd);
        }
        while (n_peers)
                close(peers[--n_peers]);
}

/* More lingering sockets than a user's limit: the daemon stops reading from the user. */
static void test_many_lingering(void)
{
        int fd = 0;

        say_step("many that linger");
        for (int i = 0; i < 60 && fd >= 0; i++) {
                fd = h_hello(1, NULL, NULL);
                if (fd < 0)
                        break;
                send_lingering(fd, &ways[1]);
                h_check(h_closed(fd, 15000), "many that linger: not dropped");
                close(fd);
        }
        h_check(fd < 0, "60 that linger were taken from one user");
}

/* --- too many, and cycles ----------------------------------------------------------------------------------------- */

static void test_too_many(void)
{
        int files[253], fd;

        for (int i = 0; i < 253; i++)
                files[i] = memfd_create("f", MFD_CLOEXEC);
        for (size_t n = 1; n <= 253; n += n < 8 ? 1 : 49) {
                fd = enter(1);
                send_bytes(fd, plain_ping, sizeof(plain_ping), files, n);
                h_check(h_closed(fd, 5000), "%zu descriptors that nobody announced: not dropped", n);
                close(fd);
        }
        /* sends one descriptor with every byte of a frame, one byte at a time */
        fd = enter(1);
        for (size_t i = 0; i < sizeof(fd_ping); i++)
                send_bytes(fd, fd_ping + i, 1, files, 1);
        h_check(h_closed(fd, 5000), "a descriptor with every byte: not dropped");
        close(fd);
        for (int i = 0; i < 253; i++)
                close(files[i]);
}

/* Half frames with the largest number of descriptors, on many connections: the daemon's number of open files stays
 * small. */
static void test_held(void)
{
        enum { CONNECTIONS = 200 };
        int fds[CONNECTIONS], files[16];
        struct h_status before = {0}, now = {0};

        h_check(h_status(&before) == 0, "status");

        for (int i = 0; i < 16; i++)
                files[i] = memfd_create("f", MFD_CLOEXEC);
        for (int i = 0; i < CONNECTIONS; i++) {
                fds[i] = h_connect();
                if (fds[i] >= 0)
                        send_bytes(fds[i], fd_ping, 7, files, i % 2 ? 2 : 16);
        }
        h_check(h_status(&now) == 0 && now.open_fds < before.open_fds + 4 * CONNECTIONS,
                "%u descriptors are open for %d half frames", now.open_fds, CONNECTIONS);
        for (int i = 0; i < CONNECTIONS; i++)
                if (fds[i] >= 0)
                        close(fds[i]);
        for (int i = 0; i < 16; i++)
                close(files[i]);
}

/* Connections that carry themselves and each other, closed meanwhile: only the kernel still references them. */
static void test_circles(void)
{
        for (int i = 0; i < 100; i++) {
                int a = h_connect(), b = h_connect();

                if (a < 0 || b < 0)
                        continue;
                send_bytes(a, fd_ping, sizeof(fd_ping), &a, 1);
                send_bytes(b, fd_ping, i % sizeof(fd_ping) + 1, &a, 1);
                send_bytes(a, wrong, sizeof(wrong), &b, 1);
                close(a);
                close(b);
        }
}

static void hostile(void)
{
        const int other = geteuid() == 0;

        if (other && setuid(FROM_USER))
                _exit(1);
        test_kinds();
        test_disk();
        say_step("memory files");
        test_memory_files();
        say_step("a file that changes");
        test_changing();
        say_step("too many");
        test_too_many();
        test_held();
        say_step("connections in circles");
        test_circles();
        test_lingering();
        if (other) /* Without a second user the daemon would stop reading from the good client's user. */
                test_many_lingering();
        fflush(stdout);
        _exit(h_failures() ? 1 : 0);
}

int main(int argc, char **argv)
{
        uint64_t end = h_now_ms() + 200000;
        struct h_status before;
        int status = -1;
        pid_t pid;

        if (argc < 2)
                return 2;
        step = mmap(NULL, STEP_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (step == MAP_FAILED)
                return 1;
        say_step("at the beginning");
        h_daemon_start(argv[1], "sim:h200", NULL);
        h_open_socket_directory();
        before = h_quiet();
        good_fd = h_hello(0, NULL, NULL);
        ping();
        fflush(stdout);
        pid = fork();
        if (pid == 0)
                hostile();
        while (waitpid(pid, &status, WNOHANG) == 0 && h_now_ms() < end) {
                ping();
                h_sleep_ms(2);
        }
        h_check(status == 0, "the hostile process ended with %#x: %s", status, step);
        kill(pid, SIGKILL);
        ping();
        close(good_fd);
        h_baseline(&before, 20000, "after hostile descriptors");
        return h_finish();
}
