/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper's fence: a uid for each helper, and Landlock where all helpers share one uid
 *
 * A helper that was taken over must not reach another helper. The test puts two processes behind fences and checks what
 * one can do to the other, and to a program that the other has started (as it starts ptxas).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helper/fence.h"

#define SOMEBODY 54341u

/* A fenced process's report about itself. */
struct said {
        pid_t pid, program; /* program: pid of the program that it has started */
        uid_t uid;
        gid_t gid;
        int privileges; /* 1: neither it nor its children can gain privileges */
        rlim_t processes, memory;
};

/* Starts a fenced process with a program of its own, which runs until it is killed. uid: before the fence; 0: root. */
static struct said fenced(uid_t uid)
{
        struct said said = {0};
        struct rlimit limit;
        int ends[2], begun[2];
        char byte;
        pid_t pid;

        cr_assert_eq(pipe(ends), 0);
        cr_assert_eq(pipe2(begun, O_CLOEXEC), 0);
        pid = fork();
        if (pid == 0) {
                if ((uid && (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))) || ds_fence(0))
                        _exit(1);
                said.pid = getpid();
                said.uid = getuid();
                said.gid = getgid();
                said.privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
                getrlimit(RLIMIT_NPROC, &limit);
                said.processes = limit.rlim_cur;
                getrlimit(RLIMIT_AS, &limit);
                said.memory = limit.rlim_cur;
                said.program = fork();
                if (said.program == 0) {
                        prctl(PR_SET_PDEATHSIG, SIGKILL);
                        execlp("sleep", "sleep", "600", NULL);
                        _exit(1);
                }
                close(begun[1]);
                (void)!read(begun[0], &byte, 1); /* the end of file shows that the program has been executed */
                (void)!write(ends[1], &said, sizeof(said));
                for (;;)
                        pause();
        }
        close(ends[1]);
        close(begun[0]);
        close(begun[1]);
        cr_assert_eq(read(ends[0], &said, sizeof(said)), (ssize_t)sizeof(said));
        close(ends[0]);
        return said;
}

static void end(const struct said *said)
{
        kill(said->pid, SIGKILL);
        waitpid(said->pid, NULL, 0);
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

static int reads_or_traces(pid_t other)
{
        return opens(other, "mem", O_RDWR) || opens(other, "fd/0", O_RDONLY) || ptrace(PTRACE_SEIZE, other, 0, 0) == 0;
}

/* Attacks another process from behind a fence. Returns one bit per attack that succeeds; 0: none does. */
static int reaches(uid_t before, uid_t after, const struct said *other)
{
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
                if ((before && (setresgid(before, before, before) || setresuid(before, before, before))) ||
                        (after ? setresuid(after, after, after) : ds_fence(0)))
                        _exit(64);
                _exit((kill(other->pid, 0) == 0) | (kill(other->program, 0) == 0) << 1 |
                        reads_or_traces(other->pid) << 2 | reads_or_traces(other->program) << 3);
        }
        waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static long landlock_version(void)
{
        return syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, 1u);
}

Test(fence, each_has_a_uid_of_its_own)
{
        struct said a, b;

        if (geteuid() != 0)
                skip_test("root, to become another user");
        a = fenced(0);
        b = fenced(0);
        if (a.uid == DS_FENCE_NOBODY) { /* the user namespace has too few uids for helpers of their own */
                end(&a);
                end(&b);
                return;
        }
        cr_assert(a.uid >= DS_FENCE_UID_FIRST && a.uid - DS_FENCE_UID_FIRST < DS_FENCE_UIDS, "%u", (unsigned)a.uid);
        cr_assert_eq(a.gid, a.uid);
        cr_assert_neq(a.uid, b.uid);
        cr_assert_eq(a.privileges, 1);
        cr_assert_leq(a.processes, 512);
#ifndef __SANITIZE_ADDRESS__
        cr_assert_leq(a.memory, 4ull << 30);
#endif
        cr_assert_eq(reaches(0, a.uid, &b), 0, "by its uid");
        cr_assert_eq(reaches(0, 0, &b), 0, "behind a fence");
        cr_assert_eq(reaches(0, b.uid, &b) & 3, 3, "does the test see it?");
        end(&a);
        end(&b);
}

/* The daemon is not root or has too few uids: helpers of one uid cannot read each other's memory or their
 * compilers'. */
Test(fence, landlock_separates_helpers_of_one_uid)
{
        struct said b;

        if (geteuid() != 0)
                skip_test("root, to become another user");
        if (landlock_version() < 1)
                skip_test("a kernel with Landlock");
        b = fenced(SOMEBODY);
        cr_assert_eq(b.uid, SOMEBODY);
        cr_assert_eq(reaches(SOMEBODY, 0, &b) & 12, 0);
        if (landlock_version() >= 6)
                cr_assert_eq(reaches(SOMEBODY, 0, &b) & 3, 0, "signals");
        cr_assert_eq(reaches(SOMEBODY, SOMEBODY, &b) & 8, 8, "does the test see it?");
        end(&b);
}
