/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kind of descriptor with every request that takes one
 *
 * Some 50 kinds: pipes, sockets of many families, kernel objects (epoll, inotify, pidfds, io_uring, userfaultfd, secret
 * memory, ...), devices, terminals, files of /proc and /sys, namespaces, files that are deleted, leased, sparse or
 * shrinking, the sender's own connection. Each is sent with ModuleLoad, GraphCreate, GraphUpdate, and with a request
 * that takes none.
 *
 * The daemon accepts none as an image or a graph; the sender gets an error or is dropped. The daemon's processes
 * survive, hold nothing of it afterwards, and answer a client of another user throughout. Kinds that this machine or
 * the hostile user's rights do not offer are skipped and counted.
 *
 * usage: hostile_kinds BUILD
 */
#include "tests/e2e/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOSTILE_UID 54326
#define KINDS_MIN 30
#define ANSWER_MS 30000

static char folder[] = "/tmp/detshare-kinds-XXXXXX";
static int connection = -1; /* connection over which the next request is sent */

static const char *in_folder(const char *name)
{
        static char path[128];

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        return path;
}

/* --- kinds -------------------------------------------------------------------------------------------------------- */

static int kind_pipe(int which)
{
        int ends[2];

        if (pipe(ends))
                return -1;
        close(ends[!which]);
        return ends[which];
}

static int kind_pair(int type)
{
        int ends[2];

        if (socketpair(AF_UNIX, type, 0, ends))
                return -1;
        close(ends[1]);
        return ends[0];
}

static int kind_socket(int family)
{
        return socket(family, family == AF_NETLINK ? SOCK_RAW : family == AF_INET6 ? SOCK_DGRAM : SOCK_STREAM, 0);
}

static int kind_listener(int unused)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", in_folder("listener"));
        unlink(address.sun_path);
        return bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 1) ? -1 : fd;
}

static int kind_made(int which)
{
        struct io_uring_params uring = {0};
        union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};
        struct perf_event_attr perf = {.type = PERF_TYPE_SOFTWARE, .size = sizeof(perf), .exclude_kernel = 1};
        sigset_t none;

        sigemptyset(&none);
        switch (which) {
        case 0:
                return epoll_create1(EPOLL_CLOEXEC);
        case 1:
                return eventfd(0, 0);
        case 2:
                return eventfd(UINT32_MAX - 1, EFD_SEMAPHORE);
        case 3:
                return timerfd_create(CLOCK_MONOTONIC, 0);
        case 4:
                return signalfd(-1, &none, 0);
        case 5:
                return inotify_init1(0);
        case 6:
                return fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY);
        case 7:
                return (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */);
        case 8:
                return (int)syscall(SYS_pidfd_open, getpid(), 0);
        case 9:
                return (int)syscall(SYS_io_uring_setup, 4, &uring);
        case 10:
                return (int)syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map));
        case 11:
                return (int)syscall(SYS_perf_event_open, &perf, 0, -1, -1, 0);
        case 12:
                return (int)syscall(SYS_fsopen, "tmpfs", 0);
        case 13:
                return (int)syscall(SYS_open_tree, AT_FDCWD, "/", 0);
        default:
                return (int)syscall(SYS_landlock_create_ruleset, &(uint64_t){1}, 8, 0);
        }
}

static int kind_queue(int unused)
{
        mqd_t queue = mq_open("/detshare-kinds", O_RDWR | O_CREAT, 0600, NULL);

        mq_unlink("/detshare-kinds");
        return (int)queue;
}

/* An epoll instance that watches the connection over which it is sent. */
static int kind_epoll_self(int unused)
{
        struct epoll_event event = {.events = EPOLLIN};
        int fd = epoll_create1(0);

        return epoll_ctl(fd, EPOLL_CTL_ADD, connection, &event) ? -1 : fd;
}

static int kind_own(int unused)
{
        return dup(connection);
}

static int kind_daemon_socket(int unused)
{
        return open(h_socket(), O_PATH);
}

static int kind_memory(int which)
{
        int fd;

        switch (which) {
        case 0: /* a memory file that is fully sealed and empty */
                fd = memfd_create("k", MFD_ALLOW_SEALING);
                fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
                return fd;
        case 1:
                fd = memfd_create("k", MFD_HUGETLB);
                return fd >= 0 && ftruncate(fd, 2 << 20) ? -1 : fd;
        case 2:
                fd = (int)syscall(447 /* memfd_secret */, 0);
                return fd >= 0 && ftruncate(fd, 8192) ? -1 : fd;
        case 3:
                fd = memfd_create("k", 0);
                return ftruncate(fd, INT64_MAX & ~4095ll) ? -1 : fd;
        default: /* a memory file that is announced with a page and has none */
                return memfd_create("k", 0);
        }
}

static int file_of(const char *name, int flags, off_t bytes)
{
        int fd = open(in_folder(name), O_RDWR | O_CREAT | O_TRUNC, 0644), again;

        if (fd < 0 || ftruncate(fd, bytes))
                return -1;
        again = open(in_folder(name), flags);
        close(fd);
        return again;
}

static int kind_file(int which)
{
        int fd;

        switch (which) {
        case 0:
                fd = file_of("deleted", O_RDONLY, 4096);
                unlink(in_folder("deleted"));
                return fd;
        case 1:
                fd = file_of("leased", O_RDONLY, 4096);
                fcntl(fd, F_SETLEASE, F_RDLCK);
                return fd;
        case 2:
                return file_of("sparse", O_RDONLY, (off_t)1 << 40);
        case 3:
                fd = file_of("shrinks", O_RDONLY, 1 << 20);
                return truncate(in_folder("shrinks"), 1) ? -1 : fd;
        case 4:
                return file_of("written", O_WRONLY, 4096);
        case 5:
                return file_of("direct", O_RDONLY | O_DIRECT, 4096);
        case 6:
                mkfifo(in_folder("fifo"), 0600);
                return open(in_folder("fifo"), O_RDWR);
        default:
                unlink(in_folder("link"));
                return symlink("/etc/passwd", in_folder("link")) ? -1 : open(in_folder("link"), O_PATH | O_NOFOLLOW);
        }
}

static int kind_terminal(int unused)
{
        return posix_openpt(O_RDWR | O_NOCTTY);
}

static int kind_path(int which)
{
        static const struct {
                const char *path;
                int flags;
        } paths[] = {{"/dev/null", O_RDWR}, {"/dev/zero", O_RDWR}, {"/dev/full", O_RDWR}, {"/dev/urandom", O_RDONLY},
                {"/", O_RDONLY | O_DIRECTORY}, {"/etc/passwd", O_PATH}, {"/proc/self/mem", O_RDWR},
                {"/proc/self/maps", O_RDONLY}, {"/proc/self/pagemap", O_RDONLY}, {"/proc/self/ns/net", O_RDONLY},
                {"/proc/self/ns/user", O_RDONLY}, {"/proc/self/fd", O_RDONLY}, {"/proc/kmsg", O_RDONLY | O_NONBLOCK},
                {"/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY}, {"/tmp", O_TMPFILE | O_RDWR}};

        return open(paths[which].path, paths[which].flags, 0600);
}

static const struct kind {
        const char *name;
        int (*make)(int which);
        int which;
} kinds[] = {{"a pipe to read", kind_pipe, 0}, {"a pipe to write", kind_pipe, 1},
        {"a socket pair", kind_pair, SOCK_STREAM}, {"a datagram pair", kind_pair, SOCK_DGRAM},
        {"a packet pair", kind_pair, SOCK_SEQPACKET}, {"TCP", kind_socket, AF_INET}, {"UDP6", kind_socket, AF_INET6},
        {"netlink", kind_socket, AF_NETLINK}, {"vsock", kind_socket, AF_VSOCK}, {"AF_ALG", kind_socket, AF_ALG},
        {"a listening socket", kind_listener, 0}, {"epoll", kind_made, 0}, {"an eventfd", kind_made, 1},
        {"a full semaphore", kind_made, 2}, {"a timer", kind_made, 3}, {"signals", kind_made, 4},
        {"inotify", kind_made, 5}, {"fanotify", kind_made, 6}, {"userfaultfd", kind_made, 7}, {"a pidfd", kind_made, 8},
        {"io_uring", kind_made, 9}, {"a bpf map", kind_made, 10}, {"a perf event", kind_made, 11},
        {"a filesystem being made", kind_made, 12}, {"a tree", kind_made, 13}, {"landlock", kind_made, 14},
        {"a message queue", kind_queue, 0}, {"epoll of its connection", kind_epoll_self, 0},
        {"its own connection", kind_own, 0}, {"the daemon's socket", kind_daemon_socket, 0},
        {"sealed empty memory", kind_memory, 0}, {"huge pages", kind_memory, 1}, {"secret memory", kind_memory, 2},
        {"8 EiB of memory", kind_memory, 3}, {"empty memory", kind_memory, 4}, {"a deleted file", kind_file, 0},
        {"a leased file", kind_file, 1}, {"a sparse TiB", kind_file, 2}, {"a file that shrank", kind_file, 3},
        {"a file to write", kind_file, 4}, {"a direct file", kind_file, 5}, {"a FIFO", kind_file, 6},
        {"a link", kind_file, 7}, {"a terminal", kind_terminal, 0}, {"/dev/null", kind_path, 0},
        {"/dev/zero", kind_path, 1}, {"/dev/full", kind_path, 2}, {"/dev/urandom", kind_path, 3},
        {"a directory", kind_path, 4}, {"a file opened for nothing", kind_path, 5}, {"/proc/self/mem", kind_path, 6},
        {"/proc/self/maps", kind_path, 7}, {"/proc/self/pagemap", kind_path, 8}, {"a network namespace", kind_path, 9},
        {"a user namespace", kind_path, 10}, {"/proc/self/fd", kind_path, 11}, {"/proc/kmsg", kind_path, 12},
        {"a file of /sys", kind_path, 13}, {"a file without a name", kind_path, 14}};

/* --- requests ----------------------------------------------------------------------------------------------------- */

static int ask_module(int file)
{
        H_REQUEST(ModuleLoad, MODULE_LOAD, MODULE_LOAD, module_load);

        body.bytes = 4096;
        return h_ask_status(connection, &request, &file, 1, ANSWER_MS);
}

static int ask_graph(int file)
{
        H_REQUEST(GraphCreate, GRAPH_CREATE, GRAPH_CREATE, graph_create);

        return h_ask_status(connection, &request, &file, 1, ANSWER_MS);
}

static int ask_update(int file)
{
        H_REQUEST(GraphUpdate, GRAPH_UPDATE, GRAPH_UPDATE, graph_update);

        body.graph = 1;
        return h_ask_status(connection, &request, &file, 1, ANSWER_MS);
}

static int ask_ping(int file)
{
        H_REQUEST(Ping, PING, PING, ping);

        return h_ask_status(connection, &request, &file, 1, ANSWER_MS);
}

static int (*const asks[])(int file) = {ask_module, ask_graph, ask_update, ask_ping};
static const char *const ask_names[] = {"ModuleLoad", "GraphCreate", "GraphUpdate", "Ping"};

/* Opens a session. The daemon may still be closing earlier descriptors of the user, and accepts nothing from it
 * until then. */
static int enter(void)
{
        uint64_t end = h_now_ms() + h_patience(20000);

        while ((connection = h_hello(0, NULL, NULL)) < 0 && h_now_ms() < end)
                h_sleep_ms(5);
        return h_check(connection >= 0, "cannot connect");
}

/* Returns 1 if the kernel allows sending this descriptor; newer kernels refuse io_uring, for example. */
static int may_travel(int file)
{
        int ends[2], r;

        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
                return 0;
        r = h_send(ends[0], "x", 1, &file, 1);
        close(ends[0]);
        close(ends[1]);
        return r == 0;
}

/* Sends a descriptor of this kind with every request. Returns 0 if this machine has no such kind. */
static int try_kind(const struct kind *kind)
{
        int made = 0;

        for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]) && enter(); i++) {
                uint64_t begin = h_now_ms();
                int file = kind->make(kind->which), status;

                if (file >= 0 && may_travel(file)) {
                        status = asks[i](file);
                        h_check(status != 0, "%s with %s was accepted", kind->name, ask_names[i]);
                        h_check(status > 0 || h_closed(connection, 5000), "%s with %s: neither answered nor dropped",
                                kind->name, ask_names[i]);
                        h_check(h_now_ms() - begin < h_patience(10000), "%s with %s took %llu ms", kind->name,
                                ask_names[i], (unsigned long long)(h_now_ms() - begin));
                        made = 1;
                }
                if (file >= 0)
                        close(file);
                close(connection);
        }
        return made;
}

static void hostile(void)
{
        int n = 0, all = sizeof(kinds) / sizeof(kinds[0]);

        if (geteuid() == 0 && (chown(folder, HOSTILE_UID, HOSTILE_UID) || setuid(HOSTILE_UID)))
                _exit(1);
        /* Opening the leased file again while the daemon still has the descriptor of the request before breaks the lease:
         * the kernel sends its owner SIGIO, which ends a process that does not ignore it. */
        signal(SIGIO, SIG_IGN);
        for (int i = 0; i < all; i++)
                if (try_kind(&kinds[i]))
                        n++;
                else
                        printf("%s: this machine offers none\n", kinds[i].name);
        printf("%d kinds of %d\n", n, all);
        h_check(n >= KINDS_MIN, "only %d kinds could be opened", n);
        fflush(stdout);
        _exit(h_failures() ? 1 : 0);
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static void clean(void)
{
        static const char *const names[] = {
                "listener", "leased", "sparse", "shrinks", "written", "direct", "fifo", "link"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                unlink(in_folder(names[i]));
        rmdir(folder);
}

static void ping(int fd)
{
        H_REQUEST(Ping, PING, PING, ping);

        h_check(h_ask_status(fd, &request, NULL, 0, 10000) == 0, "the good client was not answered");
}

int main(int argc, char **argv)
{
        uint64_t end = h_now_ms() + h_patience(100000);
        struct h_status before, after = {0};
        int status = -1, good;
        pid_t pid;

        if (argc < 2 || !mkdtemp(folder))
                return 2;
        h_daemon_start(argv[1], "sim:h200", NULL);
        h_open_socket_directory();
        before = h_quiet();
        good = h_hello(0, NULL, NULL);
        fflush(stdout);
        pid = fork();
        if (pid == 0)
                hostile();
        while (waitpid(pid, &status, WNOHANG) == 0 && h_now_ms() < end) {
                ping(good);
                h_sleep_ms(5);
        }
        h_check(status == 0, "the hostile process ended with %#x", (unsigned)status);
        kill(pid, SIGKILL);
        close(good);
        h_check(h_status(&after) == 0 && after.worker_pid == before.worker_pid && after.helper_pid == before.helper_pid,
                "a process of the daemon was restarted");
        h_baseline(&before, 20000, "after all kinds of descriptors");
        clean();
        return h_finish();
}
