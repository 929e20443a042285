/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service manager for tests: treats one service as systemd does, without systemd
 *
 * It starts a command with NOTIFY_SOCKET, listening sockets, stored files and a watchdog, prints the command's
 * messages, and executes commands from standard input. It follows systemd 252 in these points: messages of other
 * processes than the main one are ignored, a file is stored once, a file that hangs up is removed, a restart and a
 * crash keep the store, a stop empties it, and a missed watchdog ends the command with SIGABRT. There is no sandbox, no
 * journal, and no dependencies.
 *
 *   manager [-l PATH[:NAME]]... [-w WATCHDOG_USEC] [-f STORE_MAX [-a]] [-r] [-p] -- COMMAND...
 *     -l  bind a stream socket there and pass it (NAME: detshared)   -f  store files, at most that many
 *     -w  WATCHDOG_USEC                                              -r  start again after a failure
 *     -p  LISTEN_PID is 1, as if the files were meant for another process
 *     -a  pass STORE_MAX in FDSTORE, as systemd does from 254 on
 *
 *   commands on standard input, one per line         lines on standard output
 *     start  stop  restart  quit                       started PID, exited STATUS, killed SIGNAL, watchdog
 *     kill (SIGKILL)  reload (SIGHUP)                  KEY=VALUE: the command's messages, one assignment per line
 *     pause  resume (SIGSTOP, SIGCONT)                 stored NAME, refused NAME, removed NAME, hung NAME, released N
 *     store: list stored files                         store N, then "kept NAME" N times
 *     slow MS PREFIX: a file with this prefix costs MS
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SOCKETS_MAX 8
#define NAME_SIZE 256
#define MESSAGE_FDS_MAX 253
#define RESTART_AFTER_US 100000
#define SLOW_MAX 16

struct file {
        char name[NAME_SIZE];
        int fd, polled;
};

static struct file sockets[SOCKETS_MAX], *kept;
static size_t n_sockets, n_kept, store_max;
/* times, us; 0: no watchdog, no ping so far, no restart planned */
static uint64_t watchdog_us, pinged_us, restart_at_us;
static struct {
        char prefix[NAME_SIZE];
        useconds_t us;
} slow[SLOW_MAX];
static size_t n_slow;
static int auto_restart, for_another, announces, is_ready, notify_fd = -1, signal_fd = -1;
static char notify_path[108];
static char **command;
static pid_t child;
static enum { STAY, AGAIN, QUIT } afterwards; /* action after the child's end */
static int release_store;

static void die(const char *what)
{
        perror(what);
        exit(2);
}

static uint64_t now_us(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

/* Moves all descriptors to 3 and up: first out of the way, then into place. */
static int pass_files(char *names, size_t size)
{
        int n = 0;

        names[0] = 0;
        for (size_t i = 0; i < n_sockets + n_kept; i++) {
                const struct file *file = i < n_sockets ? &sockets[i] : &kept[i - n_sockets];
                size_t used = strlen(names);

                snprintf(names + used, size - used, "%s%s", i ? ":" : "", file->name);
                if (dup2(file->fd, 3 + n) < 0)
                        die("dup2");
                n++;
        }
        return n;
}

static void move_files_up(void)
{
        int first = 3 + (int)(n_sockets + n_kept);

        for (size_t i = 0; i < n_sockets + n_kept; i++) {
                struct file *file = i < n_sockets ? &sockets[i] : &kept[i - n_sockets];

                file->fd = fcntl(file->fd, F_DUPFD_CLOEXEC, first);
                if (file->fd < 0)
                        die("dup");
        }
}

static void set_number(const char *name, uint64_t value)
{
        char text[24];

        snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
        setenv(name, text, 1);
}

static void run_command(void)
{
        size_t size = (n_sockets + n_kept + 1) * NAME_SIZE;
        char *names = malloc(size);
        sigset_t none;
        int n;

        if (!names)
                die("malloc");
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(2, 1);
        move_files_up();
        n = pass_files(names, size);
        setenv("NOTIFY_SOCKET", notify_path, 1);
        if (n) {
                set_number("LISTEN_FDS", (uint64_t)n);
                set_number("LISTEN_PID", for_another ? 1 : (uint64_t)getpid());
                setenv("LISTEN_FDNAMES", names, 1);
        }
        if (watchdog_us) {
                set_number("WATCHDOG_USEC", watchdog_us);
                set_number("WATCHDOG_PID", (uint64_t)getpid());
        }
        if (store_max)
                setenv("DETSHARE_FDSTORE", "1", 1);
        if (announces)
                set_number("FDSTORE", store_max);
        execvp(command[0], command);
        die(command[0]);
}

static void start(void)
{
        if (child)
                return;
        restart_at_us = 0;
        child = fork();
        if (child < 0)
                die("fork");
        if (child == 0)
                run_command();
        is_ready = 0;
        printf("started %d\n", (int)child);
}

static void end(int then)
{
        afterwards = then;
        is_ready = 0;
        if (child) {
                kill(child, SIGTERM);
                kill(child, SIGCONT);
        }
}

/* --- the store ---------------------------------------------------------------------------------------------------- */

static int same_file(int a, int b)
{
        pid_t self = getpid();

        return syscall(SYS_kcmp, self, self, KCMP_FILE, a, b) == 0;
}

static void drop(size_t i)
{
        close(kept[i].fd);
        memmove(&kept[i], &kept[i + 1], (--n_kept - i) * sizeof(kept[0]));
}

/* Delays the storing of a file with a slow prefix; the manager does nothing else meanwhile. */
static void take_time(const char *name)
{
        for (size_t i = 0; i < n_slow; i++)
                if (!strncmp(name, slow[i].prefix, strlen(slow[i].prefix)))
                        usleep(slow[i].us);
}

static void store(const char *name, int fd, int polled)
{
        struct file *more;

        take_time(name);
        for (size_t i = 0; i < n_kept; i++) {
                if (same_file(kept[i].fd, fd)) {
                        close(fd);
                        return;
                }
        }
        more = n_kept < store_max ? realloc(kept, (n_kept + 1) * sizeof(*kept)) : NULL;
        if (!more) {
                close(fd);
                printf("refused %s\n", name);
                return;
        }
        kept = more;
        snprintf(kept[n_kept].name, sizeof(kept[0].name), "%s", name);
        kept[n_kept].polled = polled;
        kept[n_kept++].fd = fd;
        printf("stored %s\n", name);
}

static void unstore(const char *name)
{
        for (size_t i = n_kept; i-- > 0;) {
                if (!strcmp(kept[i].name, name)) {
                        drop(i);
                        printf("removed %s\n", name);
                }
        }
}

static void list_store(void)
{
        printf("store %zu\n", n_kept);
        for (size_t i = 0; i < n_kept; i++)
                printf("kept %s\n", kept[i].name);
}

static void empty_store(void)
{
        if (n_kept)
                printf("released %zu\n", n_kept);
        while (n_kept)
                drop(n_kept - 1);
}

static void drop_hung(void)
{
        for (size_t i = n_kept; i-- > 0;) {
                struct pollfd poll_fd = {.fd = kept[i].fd};

                if (kept[i].polled && poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLHUP | POLLERR))) {
                        printf("hung %s\n", kept[i].name);
                        drop(i);
                }
        }
}

/* --- messages of the command -------------------------------------------------------------------------------------- */

static void obey(char *text, const int *fds, size_t n_fds)
{
        const char *name = "stored";
        int keep = 0, forget = 0, polled = 1;

        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
                if (!strcmp(line, "WATCHDOG=1") || !strcmp(line, "READY=1"))
                        pinged_us = now_us();
                if (!strcmp(line, "READY=1"))
                        is_ready = 1;
                else if (!strcmp(line, "STOPPING=1"))
                        is_ready = 0;
                else if (!strcmp(line, "FDSTORE=1"))
                        keep = 1;
                else if (!strcmp(line, "FDSTOREREMOVE=1"))
                        forget = 1;
                else if (!strcmp(line, "FDPOLL=0"))
                        polled = 0;
                else if (!strncmp(line, "FDNAME=", 7))
                        name = line + 7;
                /* a BARRIER message is not printed; its file is closed below, which is the reply */
                if (strncmp(line, "FD", 2) != 0 && strcmp(line, "BARRIER=1") != 0)
                        printf("%s\n", line);
        }
        for (size_t i = 0; i < n_fds; i++) {
                if (keep)
                        store(name, fds[i], polled);
                else
                        close(fds[i]);
        }
        if (forget)
                unstore(name);
}

/* Reads one message. Returns 0 if there was none. */
static int hear(void)
{
        char text[4096], control[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(MESSAGE_FDS_MAX * sizeof(int))];
        struct iovec iov = {.iov_base = text, .iov_len = sizeof(text) - 1};
        struct msghdr message = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
        ssize_t n = recvmsg(notify_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        int fds[MESSAGE_FDS_MAX];
        struct ucred from = {0};
        size_t n_fds = 0;

        if (n < 0)
                return 0;
        text[n] = 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
                if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
                        memcpy(&from, CMSG_DATA(c), sizeof(from));
                } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
                        n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                        memcpy(fds, CMSG_DATA(c), n_fds * sizeof(int));
                }
        }
        if (from.pid == child && child) {
                obey(text, fds, n_fds);
                return 1;
        }
        for (size_t i = 0; i < n_fds; i++)
                close(fds[i]);
        printf("ignored a message of process %d\n", (int)from.pid);
        return 1;
}

static void bury(void)
{
        int status, failed;

        if (!child || waitpid(child, &status, WNOHANG) != child)
                return;
        while (hear()) /* reads the command's last messages */
                ;
        if (WIFSIGNALED(status))
                printf("killed %d\n", WTERMSIG(status));
        else
                printf("exited %d\n", WEXITSTATUS(status));
        failed = WIFSIGNALED(status) || WEXITSTATUS(status);
        child = 0;
        if (afterwards == QUIT)
                exit(0);
        if (afterwards == AGAIN)
                start();
        else if (auto_restart && failed && !release_store)
                restart_at_us = now_us() + RESTART_AFTER_US;
        else if (release_store)
                empty_store();
        afterwards = STAY;
        release_store = 0;
}

/* --- commands from standard input --------------------------------------------------------------------------------- */

static void signal_child(int sig)
{
        if (child)
                kill(child, sig);
}

static void be_slow(const char *text)
{
        unsigned ms;

        if (n_slow < SLOW_MAX && sscanf(text, "%u %255s", &ms, slow[n_slow].prefix) == 2)
                slow[n_slow++].us = ms * 1000;
}

static void do_word(const char *word)
{
        if (!strcmp(word, "start")) {
                start();
        } else if (!strcmp(word, "stop")) {
                release_store = 1;
                restart_at_us = 0;
                end(STAY);
                if (!child)
                        empty_store();
        } else if (!strcmp(word, "restart")) {
                end(AGAIN);
                start();
        } else if (!strcmp(word, "quit")) {
                end(QUIT);
                if (!child)
                        exit(0);
        } else if (!strcmp(word, "kill")) {
                signal_child(SIGKILL);
        } else if (!strcmp(word, "reload")) {
                signal_child(SIGHUP);
        } else if (!strcmp(word, "pause")) {
                signal_child(SIGSTOP);
        } else if (!strcmp(word, "resume")) {
                signal_child(SIGCONT);
        } else if (!strcmp(word, "store")) {
                list_store();
        } else if (!strncmp(word, "slow ", strlen("slow "))) {
                be_slow(word + strlen("slow "));
        } else if (word[0]) {
                printf("unknown command: %s\n", word);
        }
}

/* Reads commands from standard input. Returns 0 at the end of file. */
static int read_words(void)
{
        static char buffer[4096];
        static size_t used;
        ssize_t n = read(0, buffer + used, sizeof(buffer) - used - 1);
        char *line = buffer, *newline;

        if (n <= 0) {
                do_word("quit");
                return 0;
        }
        buffer[used + (size_t)n] = 0;
        for (; (newline = strchr(line, '\n')); line = newline + 1) {
                *newline = 0;
                do_word(line);
        }
        used = strlen(line);
        memmove(buffer, line, used + 1);
        if (used == sizeof(buffer) - 1)
                used = 0;
        return 1;
}

static void check_watchdog(void)
{
        if (!child || !is_ready || !watchdog_us || now_us() - pinged_us < watchdog_us)
                return;
        printf("watchdog\n");
        kill(child, SIGABRT);
        kill(child, SIGCONT);
        pinged_us = now_us();
}

/* --- start -------------------------------------------------------------------------------------------------------- */

static void add_socket(char *spec)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        char *name = strchr(spec, ':');
        struct file *file = &sockets[n_sockets++];

        if (n_sockets > SOCKETS_MAX)
                exit(2);
        if (name)
                *name++ = 0;
        snprintf(file->name, sizeof(file->name), "%s", name ? name : "detshared");
        snprintf(address.sun_path, sizeof(address.sun_path), "%s", spec);
        unlink(spec);
        file->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (file->fd < 0 || bind(file->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
                listen(file->fd, 1024) < 0)
                die(spec);
}

static void open_notify(void)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int on = 1;

        snprintf(notify_path, sizeof(notify_path), "@detshare-test-manager-%d", (int)getpid());
        memcpy(address.sun_path, notify_path, strlen(notify_path));
        address.sun_path[0] = 0;
        notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (notify_fd < 0 ||
                bind(notify_fd, (struct sockaddr *)&address,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(notify_path))) < 0 ||
                setsockopt(notify_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
                die("notify socket");
}

static void set_up(int argc, char **argv)
{
        struct rlimit files;
        sigset_t set;
        int c;

        while ((c = getopt(argc, argv, "+l:w:f:arp")) != -1) {
                if (c == 'l')
                        add_socket(optarg);
                else if (c == 'w')
                        watchdog_us = strtoull(optarg, NULL, 10);
                else if (c == 'f')
                        store_max = strtoul(optarg, NULL, 10);
                else if (c == 'a')
                        announces = 1;
                else if (c == 'r')
                        auto_restart = 1;
                else if (c == 'p')
                        for_another = 1;
                else
                        exit(2);
        }
        if (optind >= argc)
                exit(2);
        command = argv + optind;
        sigemptyset(&set);
        sigaddset(&set, SIGCHLD);
        sigprocmask(SIG_BLOCK, &set, NULL);
        signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                setrlimit(RLIMIT_NOFILE, &files);
        }
        setvbuf(stdout, NULL, _IOLBF, 0);
        open_notify();
}

int main(int argc, char **argv)
{
        int more = 1;

        set_up(argc, argv);
        start();
        for (;;) {
                struct pollfd fds[] = {{.fd = notify_fd, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN},
                        {.fd = more ? 0 : -1, .events = POLLIN}};
                struct signalfd_siginfo info;

                poll(fds, 3, watchdog_us ? 10 : 50);
                while (hear())
                        ;
                while (read(signal_fd, &info, sizeof(info)) > 0)
                        ;
                bury();
                if (restart_at_us && now_us() >= restart_at_us)
                        start();
                drop_hung();
                check_watchdog();
                if (fds[2].revents)
                        more = read_words();
        }
}
