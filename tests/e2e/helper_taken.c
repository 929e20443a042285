/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A helper that an image has compromised harms only its own user
 *
 * This program is also the helper of the daemons that it starts, as a relay between the supervisor and the real helper.
 * It is honest until an image contains TAKEN. From then on all returned code stores 2222 where the PTX says 1111, so
 * the supervisor also writes this code to disk.
 *
 * User A compromises the helper and loads a kernel that stores 1111. Users B and C load the same PTX: B from the
 * attacked daemon and from the next one, which finds the code on disk; C from the next one only. Both must get 1111; A
 * gets the wrong code. The test runs on the simulated device with kernels' forms, and on device `cuda` with the fake
 * driver, where ptxas compiles.
 *
 * Then, with real helpers: a process with the uid of A's helper has no access to B's helper.
 *
 * Without root there is only one user, and the test only sees that the helper lies.
 *
 * usage: helper_taken BUILD
 */
#include "tests/e2e/harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"
#include "helper/fence.h"
#include "internal.pb-c.h"

#define USER_A 54331u
#define USER_B 54332u
#define USER_C 54333u
#define RIGHT 1111u
#define WRONG 2222u
#define ANSWER_MS 600000
#define FILE_MAX (1u << 20)

static const char *build;
static char place[] = "/tmp/detshare-taken.XXXXXX";

static const char takes_over[] = "// TAKEN\n.version 7.0\n.target sm_75\n.address_size 64\n.visible .entry none()\n"
                                 "{\n\tret;\n}\n";
static const char stores[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                             ".visible .entry store(.param .u64 p)\n{\n\t.reg .b64 %rd<3>;\n\t.reg .b32 %r<2>;\n"
                             "\tld.param.u64 %rd1, [p];\n\tcvta.to.global.u64 %rd2, %rd1;\n\tmov.u32 %r1, 1111;\n"
                             "\tst.global.u32 [%rd2], %r1;\n\tret;\n}\n";

/* --- the compromised helper --------------------------------------------------------------------------------------- */

static size_t file_read(int fd, char *bytes)
{
        ssize_t n = pread(fd, bytes, FILE_MAX - 1, 0);

        bytes[n > 0 ? n : 0] = 0;
        return n > 0 ? (size_t)n : 0;
}

/* Makes the same file with the other number in it, sealed. */
static int file_of_lies(int fd)
{
        static char bytes[FILE_MAX];
        size_t size = file_read(fd, bytes);
        int lies = memfd_create("lies", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        for (size_t i = 0; i + 4 <= size; i++)
                if (!memcmp(bytes + i, "1111", 4))
                        memcpy(bytes + i, "2222", 4);
        if (lies < 0 || write(lies, bytes, size) != (ssize_t)size ||
                fcntl(lies, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
                _exit(9);
        return lies;
}

/* Passes a frame on between the supervisor and the real helper. Returns 0, or -1 if one side is gone. */
static int relay(int from, int to, int up, int *taken)
{
        static char image[FILE_MAX];
        int fds[4], n = 0, r;
        size_t size;
        uint8_t *payload = h_receive(from, ANSWER_MS, &size, fds);

        if (!payload)
                return -1;
        for (; n < 4 && fds[n] >= 0; n++)
                if (!up && file_read(fds[n], image) && strstr(image, "TAKEN"))
                        *taken = 1;
        if (up && *taken && n) {
                int lies = file_of_lies(fds[0]);

                close(fds[0]);
                fds[0] = lies;
        }
        r = h_send(to, payload, size, fds, (size_t)n);
        while (n)
                close(fds[--n]);
        free(payload);
        return r;
}

static int stand_in(char **argv)
{
        int ends[2], taken = 0;
        struct pollfd p[2] = {{.fd = 3, .events = POLLIN}};
        pid_t real;

        signal(SIGINT, SIG_IGN);
        signal(SIGPIPE, SIG_IGN);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return 9;
        real = fork();
        if (real == 0) {
                dup2(ends[1], 3);
                execv(getenv("TAKEN_REAL"), argv);
                _exit(9);
        }
        close(ends[1]);
        p[1] = (struct pollfd){.fd = ends[0], .events = POLLIN};
        for (;;) {
                if (poll(p, 2, -1) < 0 && errno != EINTR)
                        return 9;
                if ((p[0].revents && relay(3, ends[0], 0, &taken)) || (p[1].revents && relay(ends[0], 3, 1, &taken)))
                        return 0;
        }
}

/* --- users -------------------------------------------------------------------------------------------------------- */

/* Loads and launches the kernel. Returns the value that it stored; 0: it could not be loaded. */
static uint32_t load_and_launch(dsc_session *s)
{
        char log[2000] = "";
        struct dsc_kernel kernel;
        uint64_t p = 0, module;
        uint32_t value = 0;
        struct dsc_launch l = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .params = &p, .params_size = sizeof(p)};

        if (dsc_mem_alloc(s, 4096, &p) || dsc_module_load(s, stores, sizeof(stores), log, sizeof(log), &module) ||
                dsc_kernel_get(s, module, "store", &kernel)) {
                printf("%s %s\n", dsc_message(), log);
                return 0;
        }
        l.kernel = kernel.id;
        if (dsc_launch(s, 0, &l) || dsc_read(s, 0, &value, 0, p, 0, sizeof(value), 1))
                printf("%s\n", dsc_message());
        dsc_kernel_clear(&kernel);
        return value;
}

/* Loads and launches the kernel in a process of that user. take: the process compromises the helper first. */
static uint32_t user_gets(uid_t uid, int take)
{
        char log[2000] = "";
        uint32_t value = 0;
        uint64_t module;
        dsc_session *s;
        int error, ends[2];
        pid_t pid;

        if (pipe(ends))
                return 0;
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                if (geteuid() == 0 && (setresgid(uid, uid, uid) || setresuid(uid, uid, uid)))
                        _exit(1);
                s = dsc_get(&error);
                if (!s || (take && dsc_module_load(s, takes_over, sizeof(takes_over), log, sizeof(log), &module))) {
                        printf("%s %s\n", dsc_message(), log);
                        fflush(stdout);
                        _exit(2);
                }
                value = load_and_launch(s);
                fflush(stdout);
                _exit(write(ends[1], &value, sizeof(value)) != sizeof(value));
        }
        close(ends[1]);
        if (read(ends[0], &value, sizeof(value)) != sizeof(value))
                value = 0;
        close(ends[0]);
        waitpid(pid, NULL, 0);
        return value;
}

static void gets(const char *device, const char *who, uid_t uid, int take, uint32_t want)
{
        uint32_t value = user_gets(uid, take);

        h_check(value == want, "%s: %s gets %u instead of %u", device, who, value, want);
}

/* Number of times that the daemon used a file of compiled code. */
static uint64_t stored(void)
{
        H_REQUEST(GetStatus, GET_STATUS, GET_STATUS, get_status);
        int fd = h_hello(1, NULL, NULL);
        Detshare__Reply *reply = h_ask(fd, &request, NULL, 0, 15000);
        uint64_t n = reply && reply->get_status ? reply->get_status->code_stored : 0;

        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        close(fd);
        return n;
}

/* --- the attack --------------------------------------------------------------------------------------------------- */

static void attack(const char *device, const char *config, const char *state)
{
        const char *const extra[] = {
                "--policy", "fifo", "--transform", "always", "--config", config, "--state", state, NULL};
        const int root = geteuid() == 0;

        h_daemon_start(build, device, extra);
        h_open_socket_directory();
        gets(device, "A, who has compromised a helper,", USER_A, 1, WRONG);
        if (root) {
                gets(device, "B, beside A,", USER_B, 0, RIGHT);
                gets(device, "root, beside A,", 0, 0, RIGHT);
        }
        h_check(h_daemon_stop() >= 0, "%s: the daemon ends", device);
        h_daemon_start(build, device, extra);
        h_open_socket_directory();
        gets(device, "A, from disk,", USER_A, 0, WRONG);
        h_check(stored() == 1, "%s: A's code came from disk", device);
        if (root) {
                gets(device, "B, from disk,", USER_B, 0, RIGHT);
                h_check(stored() == 2, "%s: B's code came from disk", device);
                gets(device, "C, who comes later,", USER_C, 0, RIGHT);
                h_check(stored() == 2, "%s: C's code was compiled again", device);
        }
        h_check(h_daemon_stop() >= 0, "%s: the daemon ends", device);
}

static void write_file(const char *path, const char *text)
{
        FILE *f = fopen(path, "w");

        if (!f || fputs(text, f) < 0 || fclose(f))
                exit(1);
}

static void attacks(void)
{
        const char *place_of_fake = getenv("DETSHARE_TEST_PLACE"),
                   *fake = place_of_fake && *place_of_fake ? place_of_fake : NULL;
        char here[400], path[600], text[1200];

        if (!realpath(build, here))
                exit(1);
        snprintf(path, sizeof(path), "%s/detshare-worker", place);
        snprintf(text, sizeof(text), "%s/libexec/detshare-worker", here);
        if (symlink(text, path))
                exit(1);
        snprintf(path, sizeof(path), "%s/detshare-helper", place);
        snprintf(text, sizeof(text), "%s/tests/e2e/helper_taken", here);
        if (symlink(text, path))
                exit(1);
        snprintf(text, sizeof(text), "%s/libexec/detshare-helper", here);
        setenv("TAKEN_REAL", text, 1);
        setenv("DETSHARE_LIBEXEC", place, 1);
        snprintf(path, sizeof(path), "%s/conf", place);
        snprintf(text, sizeof(text), "%s/state.sim", place);
        write_file(path, "");
        attack("sim:h200", path, text);
        if (fake)
                snprintf(text, sizeof(text), "[daemon]\nlibcuda=%s/libcuda.so.1\nptxas=%s/bin/ptxas\n", fake, fake);
        else
                snprintf(text, sizeof(text),
                        "[daemon]\nlibcuda=%s/fake_cuda/libcuda.so.1\nptxas=%s/fake_cuda/bin/ptxas\n", here, here);
        write_file(path, text);
        snprintf(text, sizeof(text), "%s/state.cuda", place);
        attack("cuda:0", path, text);
        unsetenv("DETSHARE_LIBEXEC");
}

/* --- access from one helper to another ---------------------------------------------------------------------------- */

static long proc_number(pid_t pid, const char *field)
{
        char path[64], line[256];
        long n = -1;
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        f = fopen(path, "re");
        while (f && n < 0 && fgets(line, sizeof(line), f))
                if (!strncmp(line, field, strlen(field)))
                        n = strtol(line + strlen(field), NULL, 10);
        if (f)
                fclose(f);
        return n;
}

/* Finds the pids of the daemon's helpers. */
static int helpers(pid_t *pids, int max)
{
        DIR *proc = opendir("/proc");
        struct dirent *entry;
        int n = 0;

        while (proc && n < max && (entry = readdir(proc))) {
                pid_t pid = (pid_t)atoi(entry->d_name);

                if (pid > 0 && proc_number(pid, "PPid:") == h_daemon_pid() &&
                        proc_number(pid, "Uid:") >= (long)DS_FENCE_UID_FIRST)
                        pids[n++] = pid;
        }
        if (proc)
                closedir(proc);
        return n;
}

static int opens(pid_t pid, const char *what, int flags)
{
        char path[64];
        int fd;

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
        fd = open(path, flags | O_CLOEXEC);
        if (fd >= 0)
                close(fd);
        return fd >= 0;
}

/* Returns 0, or the kind of access that a process of that uid has to process `other`. */
static int reaches(uid_t uid, pid_t other)
{
        if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
                return 1;
        if (kill(other, 0) == 0)
                return 2;
        if (ptrace(PTRACE_SEIZE, other, 0, 0) == 0)
                return 3;
        return opens(other, "mem", O_RDWR) ? 4 : opens(other, "fd", O_RDONLY) ? 5 : 0;
}

static void reach(void)
{
        int status = -1, n;
        pid_t pids[8], pid;
        uid_t uid;

        h_daemon_start(build, "sim:h200", NULL);
        h_open_socket_directory();
        gets("real helpers", "A", USER_A, 0, RIGHT);
        gets("real helpers", "B", USER_B, 0, RIGHT);
        gets("real helpers", "A again", USER_A, 0, RIGHT);
        n = helpers(pids, 8);
        if (h_check(n == 2, "two users have %d helpers", n)) {
                uid = (uid_t)proc_number(pids[0], "Uid:");
                h_check(uid != (uid_t)proc_number(pids[1], "Uid:"), "two helpers are uid %u", (unsigned)uid);
                pid = fork();
                if (pid == 0)
                        _exit(reaches(uid, pids[1]));
                waitpid(pid, &status, 0);
                h_check(status == 0, "one helper reaches the other: %d", status >> 8);
        }
        h_check(h_daemon_stop() >= 0, "the daemon ends");
}

/* Returns whether helpers have uids of their own; a user namespace may have too few. */
static int has_uids(void)
{
        unsigned long first, outside, n, end = 0;
        FILE *f = fopen("/proc/self/uid_map", "re");

        while (f && fscanf(f, "%lu %lu %lu", &first, &outside, &n) == 3)
                end = first <= DS_FENCE_UID_FIRST ? first + n : end;
        if (f)
                fclose(f);
        return end >= (unsigned long)DS_FENCE_UID_FIRST + DS_FENCE_UIDS;
}

int main(int argc, char **argv)
{
        const char *base = argc > 0 ? strrchr(argv[0], '/') : NULL;
        char command[128];

        if (base && !strcmp(base, "/detshare-helper"))
                return stand_in(argv);
        if (argc < 2 || !mkdtemp(place) || chmod(place, 0755))
                return 2;
        build = argv[1];
        attacks();
        if (h_is_root("access between helpers of two users")) {
                if (has_uids())
                        reach();
                else
                        h_skip("access between helpers of two users", "a range of user ids for helpers");
        }
        snprintf(command, sizeof(command), "rm -rf %s", place);
        h_check(system(command) == 0, "%s stays", place);
        return h_finish();
}
