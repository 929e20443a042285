/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox: run a program with the restrictions of detshared.service, as far as possible without systemd
 *
 * For GPU machines without systemd, to test that NVIDIA's libraries work with these restrictions: the seccomp filters
 * of SystemCallFilter=, MemoryDenyWriteExecute=, RestrictNamespaces=, RestrictRealtime=, RestrictAddressFamilies=,
 * LockPersonality= and SystemCallArchitectures=, with the error numbers that systemd uses; no new privileges; the
 * bounding set; the limits. With sufficient privileges also: a network namespace, and a file tree that is read-only
 * except for /dev, /proc, /run, /tmp and the directories named with -w. Without the network namespace or the tree it
 * prints a note and continues. Devices are not restricted: that needs a cgroup.
 *
 * usage: sandbox [-w DIRECTORY]... COMMAND...
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILES_MAX 524288
#define WRITABLE_MAX 16
#define PROGRAM_MAX 1200
#define NAMESPACES                                                                                                   \
        (CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP | \
                CLONE_NEWTIME)
/* offset of the low 32 bits of argument n */
#define ARGUMENT(n) (offsetof(struct seccomp_data, args) + (n) * sizeof(uint64_t))

static const char *writable[WRITABLE_MAX] = {"/dev", "/proc", "/run", "/tmp"};
static size_t n_writable = 4;

static struct sock_filter program[PROGRAM_MAX];
static unsigned short n_program;

static void die(const char *what)
{
        fprintf(stderr, "sandbox: %s: %s\n", what, strerror(errno));
        exit(125);
}

/* --- system calls ------------------------------------------------------------------------------------------------- */

static void add(uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
        if (n_program == PROGRAM_MAX) {
                fprintf(stderr, "sandbox: the filter is too long\n");
                exit(125);
        }
        program[n_program++] = (struct sock_filter)BPF_JUMP(code, k, jt, jf);
}

static void load(uint32_t offset)
{
        add(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

static void refuse(int error)
{
        add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error, 0, 0);
}

/* Refuses the call with `error` if the bits `mask` of argument n equal value. Afterwards the call's number is loaded
 * again. */
static void refuse_if(uint32_t call, unsigned n, uint32_t mask, uint32_t value, int error)
{
        add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5);
        load((uint32_t)ARGUMENT(n));
        add(BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
        add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
        refuse(error);
        load(offsetof(struct seccomp_data, nr));
}

/* Refuses the call with `error` unless argument n equals value. */
static void refuse_unless(uint32_t call, unsigned n, uint32_t value, int error)
{
        add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
        load((uint32_t)ARGUMENT(n));
        add(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
        refuse(error);
        load(offsetof(struct seccomp_data, nr));
}

static void refuse_call(uint32_t call, int error)
{
        add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
        refuse(error);
}

static void make_filter(void)
{
        load(offsetof(struct seccomp_data, arch));
        add(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
        add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
        load(offsetof(struct seccomp_data, nr));
        /* MemoryDenyWriteExecute= */
        refuse_if(__NR_mmap, 2, PROT_WRITE | PROT_EXEC, PROT_WRITE | PROT_EXEC, EPERM);
        refuse_if(__NR_mprotect, 2, PROT_EXEC, PROT_EXEC, EPERM);
        refuse_if(__NR_pkey_mprotect, 2, PROT_EXEC, PROT_EXEC, EPERM);
        refuse_if(__NR_shmat, 2, SHM_EXEC, SHM_EXEC, EPERM);
        /* RestrictNamespaces= */
        refuse_call(__NR_clone3, ENOSYS);
        refuse_call(__NR_unshare, EPERM);
        refuse_call(__NR_setns, EPERM);
        for (uint32_t bit = 1; bit; bit <<= 1)
                if (bit & NAMESPACES)
                        refuse_if(__NR_clone, 0, bit, bit, EPERM);
        /* RestrictAddressFamilies=AF_UNIX, LockPersonality=, RestrictRealtime= */
        refuse_unless(__NR_socket, 0, AF_UNIX, EAFNOSUPPORT);
        refuse_call(__NR_personality, EPERM);
        refuse_if(__NR_sched_setscheduler, 1, ~0U, SCHED_FIFO, EPERM);
        refuse_if(__NR_sched_setscheduler, 1, ~0U, SCHED_RR, EPERM);
        /* SystemCallFilter= */
#define CALL(name)                                         \
        add(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1); \
        add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
#include "sandbox_calls.def"
        refuse(EPERM);
}

static void filter_calls(void)
{
        struct sock_fprog filter = {.len = n_program, .filter = program};

        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
                die("seccomp");
}

/* --- capabilities and limits -------------------------------------------------------------------------------------- */

static void drop_rights(void)
{
        for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
                if (cap != CAP_KILL && cap != CAP_SETGID && cap != CAP_SETUID && prctl(PR_CAPBSET_DROP, cap) < 0 &&
                        geteuid() == 0)
                        die("the bounding set");
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                die("no new privileges");
}

static void limit(__rlimit_resource_t resource, rlim_t value)
{
        struct rlimit is, wanted = {value, value};

        getrlimit(resource, &is);
        if (setrlimit(resource, &wanted) < 0) {
                wanted = (struct rlimit){is.rlim_max, is.rlim_max};
                setrlimit(resource, &wanted);
        }
}

/* --- files and network -------------------------------------------------------------------------------------------- */

static int set_tree(const char *path, int read_only)
{
        struct mount_attr attributes = {0};

        if (read_only)
                attributes.attr_set = MOUNT_ATTR_RDONLY;
        else
                attributes.attr_clr = MOUNT_ATTR_RDONLY;
        return (int)syscall(SYS_mount_setattr, AT_FDCWD, path, AT_RECURSIVE, &attributes, sizeof(attributes));
}

/* Returns "yes", or the reason why the files are not protected. */
static const char *protect_files(void)
{
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return strerror(errno);
        for (size_t i = 0; i < n_writable; i++)
                if (mount(writable[i], writable[i], NULL, MS_BIND | MS_REC, NULL) < 0)
                        return strerror(errno);
        if (set_tree("/", 1) < 0)
                return strerror(errno);
        for (size_t i = 0; i < n_writable; i++)
                if (set_tree(writable[i], 0) < 0)
                        return strerror(errno);
        /* enter the working directory again: the new mounts lie above the old one */
        return chdir(".") < 0 ? strerror(errno) : "yes";
}

int main(int argc, char **argv)
{
        const char *network, *files;
        char here[4096];
        int c;

        while ((c = getopt(argc, argv, "+w:")) != -1) {
                if (c != 'w' || n_writable == WRITABLE_MAX)
                        return 125;
                writable[n_writable++] = optarg;
        }
        if (optind >= argc || !getcwd(here, sizeof(here)))
                return 125;
        network = unshare(CLONE_NEWNET) < 0 ? strerror(errno) : "yes";
        files = protect_files();
        if (chdir(here) < 0)
                die(here);
        limit(RLIMIT_NOFILE, FILES_MAX);
        limit(RLIMIT_MEMLOCK, RLIM_INFINITY);
        limit(RLIMIT_CORE, 0);
        drop_rights();
        make_filter();
        fprintf(stderr, "sandbox: %u instructions of filter; network of its own: %s; files read-only: %s\n", n_program,
                network, files);
        filter_calls();
        execvp(argv[optind], argv + optind);
        die(argv[optind]);
        return 125;
}
