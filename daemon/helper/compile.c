/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/compile.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/macro.h"

#define CHILD_TEXT 3
#define CHILD_CODE 4
#define CHILD_TEXT_NAME "/proc/self/fd/3"
#define CHILD_CODE_NAME "/proc/self/fd/4"
#define CHILD_NO_EXEC 127
#define CHILD_NICE 10 /* nice value of compilers: they must not take the processor from a latency-sensitive program */
#define FD_HIGH 16    /* above all descriptor numbers that the child uses */

#define CODE_MAX DS_CHECK_IMAGE_MAX
#define MEMORY_MAX DS_GIB(4)
#define WORDS_MAX 12288            /* bytes of compiler output that the client gets */
#define WORDS_HEARD_MAX DS_MIB(16) /* bytes of compiler output after which the helper kills it */
#define OPTIONS 4
#define REGISTERS_MAX 255u
#define OPTIMIZATION_MAX 4u
/* name of the text in messages: the name that NVIDIA's driver uses in its logs */
#define TEXT_NAME "application ptx input"

struct ds_compile {
        pid_t pid;
        int process_fd, words_fd, code_fd;
        uint64_t deadline_ns;
        int over, status;    /* over: the process has ended; status: as from waitpid() */
        const char *stopped; /* reason why the helper killed it; NULL: it did not */
        uint64_t heard;      /* bytes of the compiler's output that were read */
        size_t n_words;
        char words[WORDS_MAX + 1];
        uint32_t time_ms;
};

static void child_limit(int resource, uint64_t value)
{
        struct rlimit limit = {value, value}, is;

        /* an unprivileged process cannot raise its hard limit; the lower one stays */
        if (getrlimit((__rlimit_resource_t)resource, &is) == 0 && is.rlim_max < value)
                limit = (struct rlimit){is.rlim_max, is.rlim_max};
        if (setrlimit((__rlimit_resource_t)resource, &limit) < 0)
                _exit(CHILD_NO_EXEC);
}

void ds_compile_options(const struct ds_check_text *text, char ret[static DS_COMPILE_OPTIONS_MAX])
{
        int n = snprintf(ret, DS_COMPILE_OPTIONS_MAX, "-arch=%s", text->arch);

        if (text->max_registers)
                n += snprintf(ret + n, DS_COMPILE_OPTIONS_MAX - (size_t)n, " -maxrregcount=%u",
                        DS_MIN(text->max_registers, REGISTERS_MAX));
        if (text->optimization)
                n += snprintf(ret + n, DS_COMPILE_OPTIONS_MAX - (size_t)n, " -O%u",
                        DS_MIN(text->optimization - 1, OPTIMIZATION_MAX));
        if (text->relocatable)
                snprintf(ret + n, DS_COMPILE_OPTIONS_MAX - (size_t)n, " -c");
}

/* Becomes the compiler. Runs between fork and exec, so it makes async-signal-safe calls only. The descriptors are
 * all above FD_HIGH. */
static void child_exec(
        const char *ptxas, char *const *options, int text, int code, int words, pid_t parent, uint32_t time_ms)
{
        char *argv[] = {(char *)ptxas, options[0], (char *)CHILD_TEXT_NAME, (char *)"-o", (char *)CHILD_CODE_NAME,
                options[1], options[2], options[3], NULL};
        char *environment[] = {NULL};
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null < 0 || dup2(null, 0) < 0 || dup2(words, 1) < 0 || dup2(words, 2) < 0)
                _exit(CHILD_NO_EXEC);
        if (dup2(text, CHILD_TEXT) < 0 || dup2(code, CHILD_CODE) < 0 || close_range(CHILD_CODE + 1, ~0U, 0) < 0)
                _exit(CHILD_NO_EXEC);
        setpgid(0, 0); /* a process group of its own, so that child processes of the compiler are killed with it */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || chdir("/") < 0)
                _exit(CHILD_NO_EXEC);
        signal(SIGPIPE, SIG_DFL);
        child_limit(RLIMIT_CORE, 0);
        child_limit(RLIMIT_AS, MEMORY_MAX);
        child_limit(RLIMIT_FSIZE, CODE_MAX);
        /* RLIMIT_CPU counts all threads, so it also bounds the work of a multi-threaded compiler */
        child_limit(RLIMIT_CPU, time_ms / 1000 + 2);
        if (nice(CHILD_NICE) < 0)
                errno = 0;
        execve(ptxas, argv, environment);
        _exit(CHILD_NO_EXEC);
}

/* Moves fd above FD_HIGH and closes the old one. */
static int fd_high(int fd)
{
        int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_HIGH);

        ds_close(fd);
        return high;
}

static int compile_spawn(ds_compile *compile, const char *ptxas, const struct ds_check_text *text, int text_fd)
{
        ds_cleanup(ds_closep) int theirs = -1;
        pid_t parent = getpid();
        char options[DS_COMPILE_OPTIONS_MAX], *words[OPTIONS] = {0}, *rest = options;
        int fds[2];

        ds_compile_options(text, options);
        for (size_t i = 0; i < OPTIONS; i++)
                words[i] = strsep(&rest, " ");
        if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
                return ds_error_origin(-errno);
        compile->words_fd = fds[0];
        theirs = fd_high(fds[1]);
        /* the child's end of the pipe must block, because a compiler does not handle EAGAIN */
        if (theirs < 0 || fcntl(theirs, F_SETFL, 0) < 0)
                return ds_error_origin(-errno);
        compile->pid = fork();
        if (compile->pid < 0)
                return ds_error_origin(-errno);
        if (compile->pid == 0)
                child_exec(ptxas, words, text_fd, compile->code_fd, theirs, parent, compile->time_ms);
        compile->process_fd = pidfd_open(compile->pid, 0);
        if (compile->process_fd < 0)
                return ds_error_origin(-errno);
        return 0;
}

int ds_compile_new(const char *ptxas, const struct ds_check_text *text, uint32_t time_ms, ds_compile **ret)
{
        ds_cleanup(ds_compile_freep) ds_compile *compile = ds_alloc0(1, sizeof(*compile));
        ds_cleanup(ds_closep) int text_fd = fd_high(memfd_create("detshare-ptx", MFD_CLOEXEC));
        int r;

        if (!compile)
                return ds_error_origin(-ENOMEM);
        compile->process_fd = compile->words_fd = -1;
        compile->code_fd = fd_high(memfd_create("detshare-code", MFD_CLOEXEC));
        compile->time_ms = time_ms ? time_ms : DS_COMPILE_TIME_MS;
        compile->deadline_ns = ds_monotonic_ns() + compile->time_ms * DS_NS_PER_MS;
        if (text_fd < 0 || compile->code_fd < 0 || ds_write_all(text_fd, text->text, text->length) < 0)
                return ds_error_origin(-errno);
        r = compile_spawn(compile, ptxas, text, text_fd);
        if (r)
                return ds_error_trace(r);
        *ret = DS_TAKE_PTR(compile);
        return 0;
}

/* Kills the compiler's process group, in case it is a script with children, and its process, in case the group does
 * not exist yet. */
static void compile_kill(const ds_compile *compile)
{
        kill(-compile->pid, SIGKILL);
        kill(compile->pid, SIGKILL);
}

ds_compile *ds_compile_free(ds_compile *compile)
{
        if (!compile)
                return NULL;
        if (compile->pid > 0 && !compile->over) {
                compile_kill(compile);
                waitpid(compile->pid, NULL, 0);
        }
        ds_close(compile->process_fd);
        ds_close(compile->words_fd);
        ds_close(compile->code_fd);
        return ds_free(compile);
}

int ds_compile_process_fd(const ds_compile *compile)
{
        return compile->process_fd;
}

int ds_compile_words_fd(const ds_compile *compile)
{
        return compile->words_fd;
}

uint64_t ds_compile_deadline_ns(const ds_compile *compile)
{
        return compile->deadline_ns;
}

static void hear(ds_compile *compile, const char *bytes, size_t size)
{
        size_t keep = DS_MIN(size, WORDS_MAX - compile->n_words);

        memcpy(compile->words + compile->n_words, bytes, keep);
        compile->n_words += keep;
        compile->heard += size;
}

/* Reads output of the compiler once: endless output must not delay other requests. */
static void listen_once(ds_compile *compile)
{
        char bytes[65536];
        ssize_t n;

        if (compile->words_fd < 0)
                return;
        n = read(compile->words_fd, bytes, sizeof(bytes));
        if (n > 0)
                hear(compile, bytes, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
                compile->words_fd = ds_close(compile->words_fd);
}

static void stop(ds_compile *compile, const char *why)
{
        if (compile->stopped)
                return;
        compile->stopped = why;
        compile_kill(compile);
}

int ds_compile_step(ds_compile *compile, uint64_t now_ns)
{
        if (compile->over)
                return 1;
        listen_once(compile);
        if (compile->heard > WORDS_HEARD_MAX)
                stop(compile, "it printed too much");
        if (now_ns >= compile->deadline_ns)
                stop(compile, "it took too long");
        if (waitpid(compile->pid, &compile->status, WNOHANG) != compile->pid)
                return 0;
        compile->over = 1;
        kill(-compile->pid, SIGKILL); /* kills child processes that the compiler has left behind */
        /* reads the rest of the output: a pipe holds no more than one read takes */
        listen_once(compile);
        return 1;
}

/* Copies the compiler's output in printable form: replaces control bytes, names the file as the driver does, and
 * removes blanks at the end. */
static void words_copy(const ds_compile *compile, char *text, size_t size)
{
        size_t name = strlen(CHILD_TEXT_NAME), at = 0;
        const char *p = compile->words, *end = p + compile->n_words;

        while (p < end && at + strlen(TEXT_NAME) + 1 < size) {
                if ((size_t)(end - p) >= name && !memcmp(p, CHILD_TEXT_NAME, name)) {
                        at += (size_t)snprintf(text + at, size - at, "%s", TEXT_NAME);
                        p += name;
                        continue;
                }
                text[at++] = (char)(*p == '\n' || (*p >= ' ' && *p <= '~') ? *p : *p == '\t' ? ' ' : '?');
                p++;
        }
        while (at && (text[at - 1] == '\n' || text[at - 1] == ' '))
                at--;
        text[at] = 0;
}

/* Sets the result for a compiler that ended with an exit status other than 0. */
static void compile_failed(const ds_compile *compile, struct ds_check_result *result)
{
        char words[WORDS_MAX + 1];
        int status = DS_CHECK_INVALID_PTX;

        words_copy(compile, words, sizeof(words));
        if (compile->stopped)
                ds_check_fail(result, status, "ptxas was stopped: %s (limit %u ms, %llu bytes of output)%s%s",
                        compile->stopped, compile->time_ms, (unsigned long long)compile->heard, words[0] ? "\n" : "",
                        words);
        else if (WIFSIGNALED(compile->status))
                ds_check_fail(result, status,
                        "ptxas was killed by signal %d (limits: %llu MiB of memory, %llu MiB of code)%s%s",
                        WTERMSIG(compile->status), (unsigned long long)(MEMORY_MAX >> 20),
                        (unsigned long long)(CODE_MAX >> 20), words[0] ? "\n" : "", words);
        else if (WEXITSTATUS(compile->status) == CHILD_NO_EXEC && !words[0])
                ds_check_fail(result, DS_CHECK_NO_COMPILER, "no ptxas: the program cannot be executed");
        else
                ds_check_fail(result, strstr(words, "Unsupported .version") ? DS_CHECK_PTX_VERSION : status, "%s",
                        words[0] ? words : "ptxas failed without a message");
}

/* Reads the compiler's output file. Returns NULL on an error, which *result holds. */
static void *code_read(const ds_compile *compile, struct ds_check_result *result, size_t *ret_size)
{
        ds_cleanup(ds_freep) uint8_t *code = NULL;
        struct stat st;
        size_t got = 0;

        if (fstat(compile->code_fd, &st) < 0 || st.st_size <= 0 || (uint64_t)st.st_size > CODE_MAX) {
                ds_check_fail(result, DS_CHECK_INVALID_PTX,
                        "ptxas wrote no machine code, or more than %llu MiB, the most accepted",
                        (unsigned long long)(CODE_MAX >> 20));
                return NULL;
        }
        code = ds_alloc((size_t)st.st_size);
        while (code && got < (size_t)st.st_size) {
                ssize_t n = pread(compile->code_fd, code + got, (size_t)st.st_size - got, (off_t)got);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        break;
                got += (size_t)n;
        }
        if (!code || got < (size_t)st.st_size) {
                ds_check_fail(result, DS_CHECK_OUT_OF_MEMORY, "no memory for %lld bytes of machine code",
                        (long long)st.st_size);
                return NULL;
        }
        *ret_size = got;
        return DS_TAKE_PTR(code);
}

void ds_compile_result(
        const ds_compile *compile, uint32_t cc, struct ds_check_result *result, void **ret_code, size_t *ret_size)
{
        ds_cleanup(ds_freep) void *code = NULL;
        size_t size = 0;

        assert(compile->over);
        result->fd = -1;
        result->bytes = result->hash = 0;
        if (compile->stopped || !WIFEXITED(compile->status) || WEXITSTATUS(compile->status)) {
                compile_failed(compile, result);
                return;
        }
        code = code_read(compile, result, &size);
        if (!code)
                return;
        ds_check_cubin(code, size, cc, "the machine code that ptxas made of the PTX", result);
        if (result->status)
                return;
        *ret_code = DS_TAKE_PTR(code);
        *ret_size = size;
}
