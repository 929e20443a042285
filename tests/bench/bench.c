/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make bench: the cost of the daemon's own paths on the simulated device, with the target beside each figure
 *
 * Control RPC round trip, ring launches per second of one client (device in timing mode: kernels are not executed),
 * processor time per launch of client, worker and supervisor and of an idle daemon, memory of 1,000 idle sessions.
 * Figures depend on the machine; ratios to the same path without a daemon (bench_bare.h) depend less on it. The program
 * fails only if it cannot run. Writes BUILD/bench.json.
 *
 * usage: bench BUILD
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/control.h"
#include "core/core.h"
#include "tests/bench/bench_bare.h"
#include "tests/e2e/harness.h"

#define PINGS 20000
#define LAUNCHES 400000
#define SESSIONS 1000
#define IDLE_MS 5000
#define TREE_MAX 16
#define IMAGES 200
#define IMAGE_PADDING 65536

struct figure {
        const char *name, *unit, *target;
        double value;
};

static struct figure figures[24];
static size_t n_figures;

static void figure(const char *name, const char *unit, const char *target, double value)
{
        figures[n_figures++] = (struct figure){name, unit, target, value};
        printf("  %-44s %12.1f %-10s target %s\n", name, value, unit, target);
        fflush(stdout);
}

static double now_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Lists the pids of the daemon and its children. */
static size_t tree(pid_t pids[TREE_MAX])
{
        char path[64];
        size_t n = 0;
        FILE *f;

        pids[n++] = h_daemon_pid();
        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pids[0], (int)pids[0]);
        f = fopen(path, "r");
        for (int child; f && n < TREE_MAX && fscanf(f, "%d", &child) == 1;)
                pids[n++] = child;
        if (f)
                fclose(f);
        return n;
}

/* User and system time of the daemon's processes, s. */
static double tree_cpu(void)
{
        pid_t pids[TREE_MAX];
        size_t n = tree(pids);
        double sum = 0;

        for (size_t i = 0; i < n; i++) {
                unsigned long user = 0, sys = 0;
                char path[64];
                FILE *f;

                snprintf(path, sizeof(path), "/proc/%d/stat", (int)pids[i]);
                f = fopen(path, "r");
                if (f &&
                        fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys) == 2)
                        sum += (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
                if (f)
                        fclose(f);
        }
        return sum;
}

/* Proportional set size of the daemon's processes, KiB: shared libraries count once. */
static double tree_memory_kib(void)
{
        pid_t pids[TREE_MAX];
        size_t n = tree(pids);
        double sum = 0;

        for (size_t i = 0; i < n; i++) {
                char path[64], line[256];
                unsigned long kib;
                FILE *f;

                snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pids[i]);
                f = fopen(path, "r");
                while (f && fgets(line, sizeof(line), f))
                        if (sscanf(line, "Pss: %lu", &kib) == 1)
                                sum += (double)kib;
                if (f)
                        fclose(f);
        }
        return sum;
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static void bench_rpc(void)
{
        static double us[PINGS];
        double bare = bench_bare_pair_us(PINGS);
        dsc_session *s = NULL;

        if (dsc_control_open(NULL, 0, &s))
                exit(1);
        for (int i = 0; i < PINGS; i++) {
                double begin = now_us();

                if (dsc_control_ping(s))
                        exit(1);
                us[i] = now_us() - begin;
        }
        dsc_control_close(s);
        qsort(us, PINGS, sizeof(us[0]), by_value);
        figure("control RPC round trip p50", "us", "< 80", us[PINGS / 2]);
        figure("control RPC round trip p99", "us", "-", us[PINGS * 99 / 100]);
        figure("round trip over a bare socket pair p50", "us", "-", bare);
        figure("the RPC over the bare round trip, p50", "times", "-", us[PINGS / 2] / bare);
}

static void bench_idle(void)
{
        double cpu = tree_cpu(), begin = now_us();

        h_sleep_ms(IDLE_MS);
        figure("idle daemon CPU", "%", "< 1", 100 * (tree_cpu() - cpu) / ((now_us() - begin) / 1e6));
}

static void bench_sessions(void)
{
        static int fds[SESSIONS];
        double before = tree_memory_kib();
        int n = 0;

        while (n < SESSIONS && (fds[n] = h_hello(0, NULL, NULL)) >= 0)
                n++;
        figure("idle sessions held", "", "1000", n);
        figure("memory of the daemon's processes with them", "MiB", "< 64", tree_memory_kib() / 1024);
        figure("growth per idle session", "KiB", "-", (tree_memory_kib() - before) / n);
        while (n > 0)
                close(fds[--n]);
}

/* Processor time since the start of each process, us. */
struct cpu {
        double client, worker, supervisor;
};

static struct cpu cpu_now(void)
{
        struct dsc_status status;
        struct timespec t;
        dsc_session *s = NULL;

        if (dsc_control_open(NULL, 0, &s) || dsc_control_status(s, &status))
                exit(1);
        dsc_control_close(s);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (struct cpu){(double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3, (double)status.worker_cpu_ns / 1e3,
                (double)status.supervisor_cpu_ns / 1e3};
}

static void figure_cpu(const struct cpu *begin)
{
        struct cpu end = cpu_now();

        figure("processor time of a launch: client", "us", "-", (end.client - begin->client) / LAUNCHES);
        figure("worker", "us", "-", (end.worker - begin->worker) / LAUNCHES);
        figure("supervisor", "us", "-", (end.supervisor - begin->supervisor) / LAUNCHES);
}

static void bench_ring(const char *build)
{
        char path[300];
        struct dsc_kernel fill;
        uint64_t module, p;
        int error;
        size_t size;
        dsc_session *s = dsc_get(&error);
        struct {
                uint64_t p;
                uint32_t n, value;
        } params = {0, 1, 1};
        struct dsc_launch l = {
                .grid = {1, 1, 1}, .block = {32, 1, 1}, .params = &params, .params_size = sizeof(params)};
        char *ptx;
        double begin, submitted, bare = bench_bare_ring_us(10 * LAUNCHES), each;
        struct cpu cpu;

        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        ptx = h_read_file(path, &size);
        if (!s || dsc_module_load(s, ptx, size + 1, NULL, 0, &module) || dsc_kernel_get(s, module, "fill", &fill) ||
                dsc_mem_alloc(s, 4096, &p)) {
                fprintf(stderr, "bench: %s\n", dsc_message());
                exit(1);
        }
        free(ptx);
        params.p = p;
        l.kernel = fill.id;
        for (int i = 0; i < 2000; i++)
                dsc_launch(s, 0, &l);
        dsc_wait_all(s);
        cpu = cpu_now();
        begin = now_us();
        for (int i = 0; i < LAUNCHES; i++)
                if (dsc_launch(s, 0, &l))
                        exit(1);
        submitted = now_us();
        if (dsc_wait_all(s))
                exit(1);
        each = (now_us() - begin) / LAUNCHES;
        figure("ring launches, submitted to completed", "per s", ">= 80000", 1e6 / each);
        figure("a record through a bare ring", "ns", "-", 1e3 * bare);
        figure("a launch over a record in the bare ring", "times", "-", each / bare);
        figure_cpu(&cpu);
        figure("client cost of a launch (mean, ring may be full)", "us", "-", (submitted - begin) / LAUNCHES);
        begin = now_us();
        for (int i = 0; i < 2000; i++) {
                dsc_launch(s, 0, &l);
                dsc_wait_all(s);
        }
        figure("launch and synchronise", "us", "-", (now_us() - begin) / 2000);
        dsc_kernel_clear(&fill);
}

/* Loads many different images of 64 KiB, then all of them again. */
static void bench_modules(const char *build)
{
        static const char *const names[] = {
                "load of a module, its image is new", "load of a module, its image is known"};
        char path[300], *text;
        size_t size;
        int error;
        dsc_session *s = dsc_get(&error);

        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        text = h_read_file(path, &size);
        text = realloc(text, size + IMAGE_PADDING + 1);
        if (!s || !text)
                exit(1);
        memset(text + size, ' ', IMAGE_PADDING);
        text[size + IMAGE_PADDING] = 0;
        for (int round = 0; round < 2; round++) {
                double begin = now_us();

                for (int i = 0; i < IMAGES; i++) {
                        uint64_t module;

                        snprintf(text + size, 32, "// %08d\n", i);
                        text[size + strlen(text + size)] = ' ';
                        if (dsc_module_load(s, text, size + IMAGE_PADDING, NULL, 0, &module) ||
                                dsc_module_unload(s, module))
                                exit(1);
                }
                figure(names[round], "us", "-", (now_us() - begin) / IMAGES);
        }
        free(text);
}

static void write_json(const char *build)
{
        char path[300], date[16];
        time_t now = time(NULL);
        FILE *f;

        snprintf(path, sizeof(path), "%s/bench.json", build);
        f = fopen(path, "w");
        if (!f)
                exit(1);
        strftime(date, sizeof(date), "%Y-%m-%d", gmtime(&now));
        fprintf(f, "{\n  \"device\": \"sim:h200+timing\",\n  \"simulated\": true,\n  \"date\": \"%s\",\n", date);
        fprintf(f, "  \"processors\": %ld,\n  \"figures\": [\n", sysconf(_SC_NPROCESSORS_ONLN));
        for (size_t i = 0; i < n_figures; i++)
                fprintf(f, "    {\"name\": \"%s\", \"value\": %.3f, \"unit\": \"%s\", \"target\": \"%s\"}%s\n",
                        figures[i].name, figures[i].value, figures[i].unit, figures[i].target,
                        i + 1 < n_figures ? "," : "");
        fprintf(f, "  ]\n}\n");
        fclose(f);
        printf("  written: %s\n", path);
}

int main(int argc, char **argv)
{
        struct rlimit files;

        if (argc < 2)
                return 2;
        /* a sixth of the daemon's limit of open files is for connections */
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                setrlimit(RLIMIT_NOFILE, &files);
        }
        printf("bench: daemon paths on sim:h200+timing (simulated device; host costs are this machine's)\n");
        h_daemon_start(argv[1], "sim:h200+timing", NULL);
        bench_rpc();
        bench_idle();
        bench_sessions();
        bench_ring(argv[1]);
        bench_modules(argv[1]);
        write_json(argv[1]);
        return h_finish();
}
