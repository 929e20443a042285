/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon is restarted under its clients, who notice only a delay
 *
 * The service manager is tests/support/manager. The clients are processes of the client core:
 * - idle ones with device and pinned memory, modules and streams: they verify every byte at its address, then continue
 *   to work
 * - busy ones that launch without pause, over ring and socket, on two streams: their result shows whether every launch
 *   ran once and in order
 * - one that sleeps on the device's clock
 * - one whose kernels print
 *
 * After ten restarts all results must be right, ids, names, classes and limits must be unchanged, and nothing may be
 * left behind.
 *
 * Then failures: a client killed during the pause; raw connections with half a request sent or a reply unread; a daemon
 * that does not start; state that is damaged, of another version, missing, or names files of another kind; a manager
 * that stores too few descriptors; a stop. A client that cannot continue gets an error, the others continue, and
 * nothing is left behind.
 *
 * The manager also starts this program: as `handover shim MODE-FILE DAEMON...` it damages the stored files as the file
 * says, then executes the daemon.
 *
 * usage: handover BUILD [RESTARTS]
 */
#include "tests/e2e/graph.h"
#include "tests/e2e/harness.h"
#include "tests/e2e/manager.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/control.h"
#include "core/core.h"
#include "detshare/detshare.h"
#include "internal.pb-c.h"

#define DEVICE "sim:h200"
#define WAIT_MS MANAGER_WAIT_MS
#define WORDS 4096u
#define BIG (1u << 20) /* number of words of 4 bytes in a large allocation */
#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* A program linked with another libcuda cannot load a drop-in library that AddressSanitizer instruments. */
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static const char *build;
static char mode_path[128], config_path[128];

/* Writes the daemon's configuration, which applies from its next start on. */
static void configure(const char *text)
{
        FILE *f = fopen(config_path, "w");

        if (!f || fputs(text, f) < 0 || fclose(f))
                exit(1);
}

/* --- the manager -------------------------------------------------------------------------------------------------- */

static void manager_start(const char *store_max)
{
        char program[300], self[300], daemon[300];
        char *argv[] = {program, "-r", "-l", (char *)(uintptr_t)h_socket(), "-f", (char *)(uintptr_t)store_max, "--",
                self, "shim", mode_path, daemon, "--device", (char *)(uintptr_t)h_device(DEVICE), "--config",
                config_path, NULL};

        snprintf(program, sizeof(program), "%s/tests/manager", build);
        snprintf(self, sizeof(self), "%s/tests/e2e/handover", build);
        snprintf(daemon, sizeof(daemon), "%s/detshared", build);
        snprintf(mode_path, sizeof(mode_path), "%s.mode", h_socket());
        snprintf(config_path, sizeof(config_path), "%s.conf", h_socket());
        configure("");
        manager_run(argv, -1);
}

static void manager_end(void)
{
        manager_quit();
        unlink(h_socket());
        unlink(mode_path);
        unlink(config_path);
}

static int ready(void)
{
        return h_check(manager_says("READY=1") != NULL, "the daemon is ready");
}

/* Restarts the daemon. Returns the milliseconds until it serves again. mode: how to damage the stored files; NULL:
 * not. */
static int restart(const char *mode)
{
        uint64_t begin = h_now_ms();

        if (mode) {
                FILE *f = fopen(mode_path, "w");

                if (!f || fputs(mode, f) < 0 || fclose(f))
                        exit(1);
        }
        manager_do("restart");
        ready();
        return (int)(h_now_ms() - begin);
}

/* --- clients ------------------------------------------------------------------------------------------------------ */

struct child {
        pid_t pid;
        int to, from;
        const char *what;
};

struct kind {
        const char *what, *transport, *class_, *name, *memory, *slo;
        int (*run)(int in, int out);
};

static struct child spawn(const struct kind *kind)
{
        struct child c = {.what = kind->what};
        int a[2], b[2];

        fflush(stdout);
        if (pipe2(a, O_CLOEXEC) || pipe2(b, O_CLOEXEC) || (c.pid = fork()) < 0)
                exit(1);
        if (c.pid == 0) {
                setenv("DETSHARE_TRANSPORT", kind->transport, 1);
                setenv("DETSHARE_CLASS", kind->class_, 1);
                setenv("DETSHARE_NAME", kind->name, 1);
                setenv("DETSHARE_MEM_LIMIT", kind->memory, 1);
                setenv("DETSHARE_SLO_MS", kind->slo, 1);
                setenv("DETSHARE_SLO", "1.5x", 1);
                setenv("DETSHARE_TTFT", "2x", 1);
                setenv("DETSHARE_TTFT_MS", "200", 1);
                setenv("DETSHARE_TPOT", "1.2x", 1);
                setenv("DETSHARE_TPOT_MS", "30", 1);
                setenv("DETSHARE_GPU_REQUEST", "0.125", 1);
                setenv("DETSHARE_GPU_LIMIT", "0.75", 1);
                close(a[1]);
                close(b[0]);
                alarm(300);
                _exit(kind->run(a[0], b[1]));
        }
        close(a[0]);
        close(b[1]);
        c.to = a[1];
        c.from = b[0];
        return c;
}

/* Whether the child reports this letter in time. */
static int says(const struct child *c, char want)
{
        struct pollfd p = {.fd = c->from, .events = POLLIN};
        char got = 0;

        return poll(&p, 1, WAIT_MS) == 1 && read(c->from, &got, 1) == 1 && got == want;
}

static void check(struct child *c, const char *when)
{
        if (!h_check(write(c->to, "c", 1) == 1 && says(c, 'k'), "%s: %s is not all right", when, c->what)) {
                int status = 0;

                kill(c->pid, SIGKILL);
                waitpid(c->pid, &status, 0);
                printf("  it ended with status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
                c->pid = 0;
        }
}

static int reap(struct child *c)
{
        int status = 0;

        close(c->to);
        if (c->pid)
                waitpid(c->pid, &status, 0);
        close(c->from);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

/* Loads the kernel. Over the socket the image exceeds the limit for bytes inside the state, so the image's file is
 * stored. */
static int get_kernel(dsc_session *s, const char *name, struct dsc_kernel *kernel)
{
        const size_t more = strcmp(getenv("DETSHARE_TRANSPORT"), "rpc") ? 0 : 1 << 16;
        char path[300];
        uint64_t module;
        size_t size;
        char *ptx;
        int r;

        snprintf(path, sizeof(path), "%s/e2e/handover.ptx", build);
        ptx = h_read_file(path, &size);
        ptx = realloc(ptx, size + more + 1);
        if (!ptx)
                return -1;
        memset(ptx + size, '\n', more);
        size += more;
        ptx[size] = 0;
        r = dsc_module_load(s, ptx, size + 1, NULL, 0, &module);
        if (!r)
                r = dsc_kernel_get(s, module, name, kernel);
        free(ptx);
        return r;
}

static int launch(
        dsc_session *s, uint32_t stream, const struct dsc_kernel *kernel, uint64_t p, uint32_t n, uint32_t value)
{
        struct {
                uint64_t p;
                uint32_t n, value;
        } params = {p, n, value};
        struct dsc_launch l = {.kernel = kernel->id,
                .grid = {(n + 255) / 256, 1, 1},
                .block = {256, 1, 1},
                .params = &params,
                .params_size = sizeof(params)};

        return dsc_launch(s, stream, &l);
}

static void mix(uint32_t *p, uint32_t n, uint32_t value)
{
        for (uint32_t i = 0; i < n; i++)
                p[i] = p[i] * 1664525u + value + i;
}

static int fail(int code, dsc_session *s, int r)
{
        fprintf(stderr, "step %d: %d %s\n", code, r, s ? dsc_message() : "");
        return code;
}

/* A client that is idle during restarts: its memory and objects are unchanged after each, and it continues to work. */
static int idle_client(int in, int out)
{
        int r = 0;
        dsc_session *s = dsc_get(&r);
        uint32_t *host = calloc(BIG, 4), *back = calloc(BIG, 4), *model = calloc(WORDS, 4), *pinned = NULL, stream = 0;
        struct dsc_kernel kernel;
        uint64_t big, small;
        char c;

        if (!s || (r = dsc_mem_alloc(s, BIG * 4, &big)) || (r = dsc_mem_alloc(s, WORDS * 4, &small)))
                return fail(10, s, r);
        if ((r = dsc_host_alloc(s, WORDS * 4, (void **)&pinned)) || (r = dsc_stream_create(s, 0, 1, &stream)))
                return fail(11, s, r);
        if ((r = get_kernel(s, "mix", &kernel)))
                return fail(12, s, r);
        for (uint32_t i = 0; i < BIG; i++)
                host[i] = i * 2654435761u;
        for (uint32_t i = 0; i < WORDS; i++)
                pinned[i] = ~i;
        if ((r = dsc_write(s, 0, big, 0, host, 0, BIG * 4, 1)) ||
                (r = dsc_write(s, 0, small, 0, model, 0, WORDS * 4, 1)))
                return fail(13, s, r);
        if ((r = dsc_wait_all(s)) || write(out, "r", 1) != 1)
                return fail(14, s, r);
        for (uint32_t round = 1; read(in, &c, 1) == 1 && c == 'c'; round++) {
                if ((r = dsc_read(s, 0, back, 0, big, 0, BIG * 4, 1)) || memcmp(host, back, BIG * 4))
                        return fail(15, s, r);
                for (uint32_t i = 0; i < WORDS; i++)
                        if (pinned[i] != ~i)
                                return fail(16, s, 0);
                mix(model, WORDS, round);
                if ((r = launch(s, stream, &kernel, small, WORDS, round)) ||
                        (r = dsc_wait(s, stream, dsc_stream_tail(s, stream))))
                        return fail(17, s, r);
                if ((r = dsc_read(s, 0, back, 0, small, 0, WORDS * 4, 1)) || memcmp(model, back, WORDS * 4))
                        return fail(18, s, r);
                if (write(out, "k", 1) != 1)
                        return fail(19, s, 0);
        }
        return (r = dsc_mem_free(s, big)) || (r = dsc_mem_free(s, small)) ? fail(20, s, r) : 0;
}

struct busy {
        dsc_session *s;
        uint32_t streams[2], n[2];
        uint64_t memory[2], graphs[2];
        struct dsc_kernel kernel;
};

/* Launches the next three launches of a stream as a graph: created the first time, then changed to new parameters by
 * the launch, or updated before it. */
static int busy_graph(struct busy *b, int i)
{
        struct {
                uint64_t p;
                uint32_t n, value;
        } params[3];
        int r;

        for (uint32_t k = 0; k < 3; k++) {
                params[k].p = b->memory[i];
                params[k].n = WORDS;
                params[k].value = ++b->n[i];
        }
        if (b->graphs[i] && b->n[i] % 4 && dsc_graph_changes_max(b->s))
                return graph_change_launch(b->s, b->streams[i], b->graphs[i], &b->kernel, (WORDS + 255) / 256, 256, 3,
                        params, sizeof(params[0]));
        r = graph_make(b->s, &b->kernel, (WORDS + 255) / 256, 256, 3, params, sizeof(params[0]), &b->graphs[i]);
        return r ? r : dsc_graph_launch(b->s, b->streams[i], b->graphs[i], NULL);
}

static int busy_start(struct busy *b)
{
        static const uint32_t zero[WORDS];
        int r = 0;

        b->s = dsc_get(&r);
        if (!b->s)
                return r;
        for (int i = 0; i < 2; i++) {
                if ((r = dsc_stream_create(b->s, 0, 1, &b->streams[i])) ||
                        (r = dsc_mem_alloc(b->s, WORDS * 4, &b->memory[i])))
                        return r;
                if ((r = dsc_write(b->s, b->streams[i], b->memory[i], 0, zero, 0, WORDS * 4, 1)))
                        return r;
        }
        return get_kernel(b->s, "mix", &b->kernel);
}

/* Runs the same number of launches on the CPU and compares. */
static int busy_right(struct busy *b, uint32_t *model, uint32_t *back)
{
        int r = dsc_wait_all(b->s);

        for (int i = 0; i < 2 && !r; i++) {
                memset(model, 0, WORDS * 4);
                for (uint32_t k = 1; k <= b->n[i]; k++)
                        mix(model, WORDS, k);
                r = dsc_read(b->s, b->streams[i], back, 0, b->memory[i], 0, WORDS * 4, 1);
                if (!r && memcmp(model, back, WORDS * 4))
                        r = -1;
        }
        return r;
}

/* A client that launches without pause and waits occasionally. */
static int busy_client(int in, int out)
{
        uint32_t *model = calloc(WORDS, 4), *back = calloc(WORDS, 4);
        struct pollfd p = {.fd = in, .events = POLLIN};
        struct busy b = {0};
        int r = busy_start(&b);
        char c;

        if (r || write(out, "r", 1) != 1)
                return fail(30, b.s, r);
        for (uint32_t turn = 0;; turn++) {
                int i = (int)(turn % 2);

                if ((r = launch(b.s, b.streams[i], &b.kernel, b.memory[i], WORDS, ++b.n[i])))
                        return fail(31, b.s, r);
                if (turn % 5 == 0 && (r = busy_graph(&b, i)))
                        return fail(31, b.s, r);
                if (turn % 7 == 0 && (r = dsc_wait(b.s, b.streams[i], dsc_stream_tail(b.s, b.streams[i]))))
                        return fail(32, b.s, r);
                if (turn % 64 == 0)
                        h_sleep_ms(1);
                if (poll(&p, 1, 0) <= 0)
                        continue;
                if (read(in, &c, 1) != 1 || c == 'q')
                        break;
                if ((r = busy_right(&b, model, back)))
                        return fail(33, b.s, r);
                if (write(out, "k", 1) != 1)
                        return fail(34, b.s, 0);
        }
        r = busy_right(&b, model, back);
        return r ? fail(r < 0 ? 36 : 35, b.s, r) : 0;
}

/* A client that sleeps on the device's clock, and whose kernels print. */
static int sleepy_client(int in, int out)
{
        struct pollfd p = {.fd = in, .events = POLLIN};
        struct dsc_kernel kernel;
        uint64_t memory, now = 0, before;
        uint32_t said = 0;
        int r = 0;
        dsc_session *s = dsc_get(&r);
        char c;

        if (!s || (r = dsc_mem_alloc(s, 4096, &memory)) || (r = get_kernel(s, "say", &kernel)))
                return fail(40, s, r);
        if (write(out, "r", 1) != 1)
                return fail(41, s, 0);
        for (;;) {
                if ((r = launch(s, 0, &kernel, memory, 32, said++)))
                        return fail(42, s, r);
                before = now;
                if ((r = detshare_now(&now)) || (r = detshare_sleep_until(now + 2000000)))
                        return fail(43, s, r);
                if (now < before)
                        return fail(46, NULL, 0);
                h_sleep_ms(1);
                if (poll(&p, 1, 0) <= 0)
                        continue;
                if (read(in, &c, 1) != 1 || c == 'q')
                        break;
                if ((r = dsc_wait_all(s)) || write(out, "k", 1) != 1)
                        return fail(44, s, r);
        }
        r = dsc_wait_all(s);
        dsc_output(s);
        fflush(stdout);
        if (!r && write(out, &said, sizeof(said)) != sizeof(said))
                r = -1;
        return r ? fail(45, s, r) : 0;
}

static const struct kind kinds[] = {
        {"idle, ring", "ring", "be", "idle ring", "1073741824", "0", idle_client},
        {"idle, socket", "rpc", "be", "idle rpc", "0", "0", idle_client},
        {"busy, ring", "ring", "ls", "busy ring", "0", "7", busy_client},
        {"busy, socket", "rpc", "be", "busy rpc", "0", "0", busy_client},
        {"sleepy, ring", "ring", "be", "sleepy", "0", "0", sleepy_client},
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* --- the sessions as detsharectl sees them ------------------------------------------------------------------------ */

/* Lists the sessions that do GPU work, as detsharectl does. Returns their number. */
static size_t list(struct dsc_client **ret)
{
        struct dsc_client *all = NULL;
        dsc_session *control;
        size_t n = 0, kept = 0;

        if (dsc_control_open(h_socket(), 0, &control))
                return 0;
        h_check(dsc_control_clients(control, &all, &n) == 0, "the list of clients");
        for (size_t i = 0; i < n; i++)
                if (!all[i].control_only)
                        all[kept++] = all[i];
        dsc_control_close(control);
        *ret = all;
        return kept;
}

static void same_list(const struct dsc_client *a, size_t n_a, const char *when)
{
        struct dsc_client *b = NULL;
        size_t n_b = list(&b);

        h_check(n_a == n_b, "%s: %zu sessions, and %zu before", when, n_b, n_a);
        if (n_a) {
                h_check(a[0].gpu_request == 125 && a[0].gpu_limit == 750, "the requested shares are granted");
                h_check(a[0].slo.permille[DS_SLO_LATENCY] == 1500 && a[0].slo.permille[DS_SLO_TTFT] == 2000 &&
                                a[0].slo.permille[DS_SLO_TPOT] == 1200 && a[0].slo.ns[DS_SLO_TTFT] == 200000000 &&
                                a[0].slo.ns[DS_SLO_TPOT] == 30000000,
                        "the sessions have the objectives that they stated");
        }
        for (size_t i = 0; i < n_a && i < n_b; i++)
                h_check(a[i].session == b[i].session && a[i].pid == b[i].pid && a[i].uid == b[i].uid &&
                                a[i].is_ls == b[i].is_ls && !memcmp(&a[i].slo, &b[i].slo, sizeof(a[i].slo)) &&
                                a[i].memory_limit == b[i].memory_limit && a[i].gpu_request == b[i].gpu_request &&
                                a[i].gpu_limit == b[i].gpu_limit && !strcmp(a[i].name, b[i].name),
                        "%s: session %llu '%s' has changed", when, (unsigned long long)a[i].session, a[i].name);
        free(b);
}

static void nothing_left(const char *when)
{
        struct h_status status = {0};
        uint64_t end = h_now_ms() + WAIT_MS;
        int r;

        do {
                h_sleep_ms(5);
                r = h_status(&status);
        } while ((r || status.sessions || status.windows || status.memory_slabs || status.modules) && h_now_ms() < end);
        h_check(r == 0 && !status.sessions && !status.windows && !status.memory_slabs && !status.modules,
                "%s: %u sessions, %u windows, %llu bytes, %u modules are left", when, status.sessions, status.windows,
                (unsigned long long)status.memory_slabs, status.modules);
        manager_do("store");
        h_check(!strcmp(manager_says("store ") ?: "", "store 0"), "%s: the store is not empty", when);
}

/* --- ten restarts ------------------------------------------------------------------------------------------------- */

static void many_restarts(int n)
{
        struct dsc_client *before = NULL;
        struct child children[N_KINDS];
        int worst = 0, devnull = dup(1), text = memfd_create("text", MFD_CLOEXEC);
        char printed[64] = "";
        uint32_t said = 0;
        struct stat st;
        size_t sessions;

        for (size_t i = 0; i < N_KINDS; i++) {
                /* flushes the test's own output, because kernels print to the client's standard output */
                fflush(stdout);
                if (kinds[i].run == sleepy_client)
                        dup2(text, 1);
                children[i] = spawn(&kinds[i]);
                dup2(devnull, 1);
                h_check(says(&children[i], 'r'), "%s got ready", kinds[i].what);
        }
        close(devnull);
        sessions = list(&before);
        h_check(sessions == N_KINDS, "%zu sessions", sessions);
        for (int k = 0; k < n; k++) {
                int ms = restart(NULL);

                worst = ms > worst ? ms : worst;
                snprintf(printed, sizeof(printed), "restart %d", k + 1);
                for (size_t i = 0; i < N_KINDS; i++)
                        if (children[i].pid && (k % 3 != 1 || kinds[i].run != idle_client))
                                check(&children[i], printed);
                if (k % 4 == 0)
                        same_list(before, sessions, printed);
        }
        same_list(before, sessions, "at the end");
        printf("%d restarts under %zu clients, the longest of %d ms\n", n, N_KINDS, worst);
        for (size_t i = 0; i < N_KINDS; i++) {
                int r;

                if (children[i].pid && write(children[i].to, "q", 1) != 1)
                        continue;
                if (kinds[i].run == sleepy_client && children[i].pid)
                        h_check(read(children[i].from, &said, sizeof(said)) == sizeof(said),
                                "the client reports how much it printed");
                r = reap(&children[i]);
                h_check(r == 0, "%s ended at step %d", kinds[i].what, r);
        }
        for (uint32_t i = 0, bytes = 0; fstat(text, &st) == 0; i++) {
                bytes += 2 * (uint32_t)snprintf(NULL, 0, "line 0 of %u\n", i);
                if (i + 1 < said)
                        continue;
                h_check((uint32_t)st.st_size == bytes, "%lld bytes were printed, not %u", (long long)st.st_size, bytes);
                break;
        }
        close(text);
        free(before);
        nothing_left("after the restarts");
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

/* Descriptor of the stored file with this name or prefix; -1: none. */
static int given(const char *prefix, int exact)
{
        char *names = strdup(getenv("LISTEN_FDNAMES") ?: ""), *rest = names, *name;
        int fd = 3, found = -1;

        for (; found < 0 && (name = strsep(&rest, ":")); fd++)
                if (exact ? !strcmp(name, prefix) : !strncmp(name, prefix, strlen(prefix)))
                        found = fd;
        free(names);
        return found;
}

static void replace(int fd, int by)
{
        if (fd < 0 || by < 0 || dup2(by, fd) < 0)
                _exit(99);
        close(by);
}

/* Overwrites the n-th record, of which 0 is the header; its length stays. */
static void spoil_record(uint8_t *bytes, size_t size, int n)
{
        uint32_t length;

        for (size_t at = 0; at + 4 < size; at += 4 + length, n--) {
                memcpy(&length, bytes + at, sizeof(length));
                for (size_t i = at + 4; !n && i < at + 4 + length && i < size; i++)
                        bytes[i] ^= 0x5a;
        }
}

/* Changes bytes of the stored state. */
static void spoil_state(const char *mode)
{
        int fd = given("handover", 1), copy = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        struct stat st = {0};
        uint8_t *bytes;
        size_t size;

        if (fd < 0 || fstat(fd, &st) < 0)
                _exit(98);
        size = (size_t)st.st_size;
        bytes = malloc(size);
        if (!bytes || pread(fd, bytes, size, 0) != st.st_size)
                _exit(97);
        if (!strcmp(mode, "version"))
                /* the header's first field, behind a length, the header's tag and length, and the field's tag */
                bytes[4 + 2 + 1] = 77;
        if (!strcmp(mode, "session"))
                spoil_record(bytes, size, 1);
        if (!strcmp(mode, "part"))
                spoil_record(bytes, size, 3);
        if (!strcmp(mode, "length"))
                bytes[3] = 1;
        if (!strcmp(mode, "short"))
                size -= 40; /* cuts off bytes of the last session */
        if (write(copy, bytes, size) != (ssize_t)size)
                _exit(96);
        if (strcmp(mode, "unsealed") != 0)
                fcntl(copy, F_ADD_SEALS, SEALS);
        replace(fd, copy);
}

/* Returns 1 if /proc shows this name for the file. */
static int is_file(int fd, const char *what)
{
        char path[64], target[256];
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, target, sizeof(target) - 1);
        if (n < 0)
                return 0;
        target[n] = 0;
        return strstr(target, what) != NULL;
}

static int first_file(const char *what)
{
        int n = atoi(getenv("LISTEN_FDS") ?: "0");

        for (int fd = 3; fd < 3 + n; fd++)
                if (is_file(fd, what))
                        return fd;
        return -1;
}

/* Makes the daemon start a worker that exits at once. */
static void worker_that_fails(const char *place, const char *daemon)
{
        char path[160], *here = realpath(daemon, NULL), target[600];

        if (!here || mkdir(place, 0755) < 0)
                _exit(95);
        *strrchr(here, '/') = 0;
        snprintf(target, sizeof(target), "%.500s/libexec/detshare-helper", here);
        snprintf(path, sizeof(path), "%s/detshare-helper", place);
        if (symlink(target, path) < 0)
                _exit(94);
        snprintf(path, sizeof(path), "%s/detshare-worker", place);
        if (symlink("/bin/false", path) < 0)
                _exit(93);
        setenv("DETSHARE_LIBEXEC", place, 1);
        free(here);
}

static int shim(char **argv)
{
        char mode[32] = "", place[160], *newline;
        FILE *f = fopen(argv[0], "re");

        if (f) {
                if (!fgets(mode, sizeof(mode), f))
                        mode[0] = 0;
                fclose(f);
                unlink(argv[0]);
        }
        if ((newline = strchr(mode, '\n')))
                *newline = 0;
        if (!strcmp(mode, "slow"))
                h_sleep_ms(400);
        else if (!strcmp(mode, "noworker"))
                worker_that_fails(strcat(strcpy(place, argv[0]), ".d"), argv[1]);
        else if (!strcmp(mode, "nostate"))
                replace(given("handover", 1), open("/dev/null", O_RDONLY));
        else if (!strcmp(mode, "slab"))
                replace(first_file("detshare-slab"), open("/dev/null", O_RDWR));
        else if (!strcmp(mode, "small"))
                replace(first_file("detshare-slab"), memfd_create("small", MFD_ALLOW_SEALING));
        else if (!strcmp(mode, "image"))
                replace(first_file("detshare-image"), dup(first_file("detshare-slab")));
        else if (!strcmp(mode, "connection"))
                replace(given("s", 0), open("/dev/null", O_RDWR));
        else if (mode[0])
                spoil_state(mode);
        execv(argv[1], argv + 1);
        return 127;
}

/* Restarts the daemon under two idle clients. mode: how the stored files are damaged; go_on: number of clients that
 * continue. */
static void spoiled(const char *mode, int go_on)
{
        struct child a = spawn(&kinds[0]), b;
        int ends[2], n = 0;

        h_check(says(&a, 'r'), "%s: the first client is ready", mode);
        b = spawn(&kinds[1]);
        h_check(says(&b, 'r'), "%s: the second client is ready", mode);
        restart(mode);
        for (int i = 0; i < 2; i++) {
                struct child *c = i ? &b : &a;
                /* a client that cannot continue gets its error at once; none hangs */
                int right = write(c->to, "c", 1) == 1 && says(c, 'k') && write(c->to, "q", 1) == 1;

                ends[i] = reap(c);
                n += right && ends[i] == 0;
        }
        h_check(n == go_on, "%s: %d of two clients go on, not %d (%d, %d)", mode, n, go_on, ends[0], ends[1]);
        nothing_left(mode);
}

static void killed_in_the_pause(void)
{
        struct child a = spawn(&kinds[0]), b;

        h_check(says(&a, 'r'), "pause: the first client is ready");
        b = spawn(&kinds[1]);
        h_check(says(&b, 'r'), "pause: the second client is ready");
        FILE *f = fopen(mode_path, "w");
        if (!f || fputs("slow", f) < 0 || fclose(f))
                exit(1);
        manager_do("restart");
        h_check(manager_says("started") != NULL, "pause: the daemon is started again");
        kill(a.pid, SIGKILL);
        reap(&a);
        ready();
        check(&b, "pause");
        h_check(write(b.to, "q", 1) == 1 && reap(&b) == 0, "pause: the other client continued");
        nothing_left("a client killed in the pause");
}

/* A failed start leaves the stored files to the next start. */
static void failed_start(void)
{
        struct child a = spawn(&kinds[0]);

        h_check(says(&a, 'r'), "failed start: the client is ready");
        restart("noworker");
        check(&a, "failed start");
        h_check(write(a.to, "q", 1) == 1 && reap(&a) == 0, "failed start: the client continued");
        nothing_left("a start that failed");
        for (size_t i = 0; i < 3; i++) {
                static const char *const names[] = {"/detshare-helper", "/detshare-worker", ""};
                char path[200];

                snprintf(path, sizeof(path), "%s.d%s", mode_path, names[i]);
                h_check(remove(path) == 0, "%s is there", path);
        }
}

/* A connection sends half a request before the restart and the rest after it, and leaves replies unread. */
static void raw_connection(void)
{
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__Ping ping = DETSHARE__PING__INIT;
        uint64_t session, base;
        int fd = h_hello(0, &session, &base);
        uint8_t frame[64];
        size_t size;

        h_check(fd >= 0, "a raw connection");
        request.call_case = DETSHARE__REQUEST__CALL_PING;
        request.ping = &ping;
        for (request.id = 100; request.id < 110; request.id++) {
                size = detshare__request__pack(&request, frame + 4);
                h_check(h_send(fd, frame + 4, size, NULL, 0) == 0, "a ping");
        }
        request.id = 110;
        size = detshare__request__pack(&request, frame + 4);
        memcpy(frame, (uint8_t[4]){(uint8_t)size}, 4);
        h_check(write(fd, frame, 6) == 6, "half a ping");
        h_sleep_ms(50);
        restart(NULL);
        h_check(write(fd, frame + 6, size - 2) == (ssize_t)(size - 2), "the other half");
        for (uint64_t id = 100; id <= 110; id++) {
                int fds[4];
                uint8_t *payload = h_receive(fd, WAIT_MS, &size, fds);
                Detshare__Reply *reply = payload ? detshare__reply__unpack(NULL, size, payload) : NULL;

                h_check(reply && reply->id == id && reply->status == 0, "the answer to ping %llu",
                        (unsigned long long)id);
                if (reply)
                        detshare__reply__free_unpacked(reply, NULL);
                free(payload);
        }
        close(fd);
        nothing_left("a raw connection");
}

static void stopped(void)
{
        struct child a = spawn(&kinds[2]);
        int r;

        h_check(says(&a, 'r'), "stop: the client is ready");
        manager_do("stop");
        h_check(manager_says("released") != NULL, "stop: the stored files are released");
        r = reap(&a);
        h_check(r == 31 || r == 32 || r == 35, "stop: the client gets an error, but ended at step %d", r);
        manager_do("start");
        ready();
        nothing_left("a stop");
}

static void all_that_may_go_wrong(void)
{
        static const struct {
                const char *mode;
                int go_on;
        } rows[] = {{"version", 0}, {"session", 1}, {"part", 1}, {"length", 0}, {"short", 1}, {"unsealed", 0},
                {"nostate", 0}, {"slab", 1}, {"small", 1}, {"image", 1}, {"connection", 1}};

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                spoiled(rows[i].mode, rows[i].go_on);
        killed_in_the_pause();
        failed_start();
        raw_connection();
        stopped();
}

/* A resource that the new configuration takes away does not survive the restart. */
static void another_configuration(void)
{
        struct dsc_client *now = NULL;
        struct kind ls = kinds[2];
        struct child a;
        char own[64];

        ls.class_ = "ls";
        a = spawn(&ls);
        h_check(says(&a, 'r'), "another configuration: the client is ready");
        h_check(list(&now) == 1 && now[0].is_ls, "another configuration: the client's class is ls");
        free(now);
        snprintf(own, sizeof(own), "[user %u]\nclasses=be\n", geteuid());
        configure(own);
        restart(NULL);
        check(&a, "another configuration");
        h_check(list(&now) == 1 && !now[0].is_ls,
                "another configuration: the client's class is the one that its user may have");
        free(now);
        configure("");
        restart(NULL);
        h_check(write(a.to, "q", 1) == 1 && reap(&a) == 0, "another configuration: the client continued");
        nothing_left("another configuration");
}

/* A manager that stores fewer files than the daemon has: sessions with missing files get an error, and nothing is
 * left behind. */
static void small_store(void)
{
        struct child a, b;
        int r;

        manager_start("9");
        ready();
        a = spawn(&kinds[0]);
        h_check(says(&a, 'r'), "small store: the first client is ready");
        b = spawn(&kinds[0]);
        h_check(says(&b, 'r'), "small store: the second client is ready");
        restart(NULL);
        close(a.to);
        close(b.to);
        a.to = b.to = -1;
        r = reap(&a);
        r = reap(&b) ?: r;
        h_check(r == 0 || r == 20, "small store: no client hangs (%d)", r);
        nothing_left("a small store");
        manager_end();
}

/* --- a program unaware of restarts -------------------------------------------------------------------------------- */

/* Starts the demo's best-effort job, which prints a hash of its results after each iteration. */
static pid_t job_start(int *ret_out)
{
        char program[300], kernels[300], library[300];
        int p[2];
        pid_t pid;

        snprintf(program, sizeof(program), "%s/demo/be_job", build);
        snprintf(kernels, sizeof(kernels), "%s/demo/kernels.ptx", build);
        snprintf(library, sizeof(library), "%s/cuda:%s", build, build);
        fflush(stdout);
        if (pipe2(p, O_CLOEXEC) || (pid = fork()) < 0)
                exit(1);
        if (pid == 0) {
                dup2(p[1], 1);
                setenv("LD_LIBRARY_PATH", library, 1);
                execl(program, program, kernels, "12", "/nonexistent", "40", "32", "2", NULL);
                _exit(127);
        }
        close(p[1]);
        *ret_out = p[0];
        return pid;
}

/* Collects the last word of each line, which is the hash; the others give times. restarts: restart the daemon after
 * every third line. */
static int job_hashes(char *hashes, size_t size, int restarts)
{
        int out, status = -1, lines = 0;
        pid_t pid = job_start(&out);
        FILE *f = fdopen(out, "r");
        char line[256], *word;

        hashes[0] = 0;
        while (f && fgets(line, sizeof(line), f)) {
                word = strrchr(line, ' ');
                snprintf(hashes + strlen(hashes), size - strlen(hashes), "%s", word ? word : line);
                if (restarts && lines++ % 3 == 0)
                        restart(NULL);
        }
        waitpid(pid, &status, 0);
        if (f)
                fclose(f);
        return status;
}

static void real_program(void)
{
        char alone[4096], restarted[4096];

        h_check(job_hashes(alone, sizeof(alone), 0) == 0 && alone[0], "be_job runs");
        h_check(job_hashes(restarted, sizeof(restarted), 1) == 0, "be_job runs through restarts");
        h_check(!strcmp(alone, restarted), "be_job's hashes are the same through restarts:\n%s instead of\n%s",
                restarted, alone);
        nothing_left("be_job");
}

int main(int argc, char **argv)
{
        char place[128];

        if (argc < 2)
                return 2;
        if (!strcmp(argv[1], "shim"))
                return shim(argv + 2);
        build = argv[1];
        h_place();
        manager_start("4096");
        ready();
        many_restarts(argc > 2 ? atoi(argv[2]) : 10);
        if (h_needs_sim(DEVICE, "damaged stored files"))
                all_that_may_go_wrong();
        another_configuration();
        if (!SANITIZED)
                real_program();
        manager_end();
        if (h_needs_sim(DEVICE, "a store that is too small"))
                small_store();
        *strrchr(strcpy(place, h_socket()), '/') = 0;
        rmdir(place);
        return h_finish();
}
