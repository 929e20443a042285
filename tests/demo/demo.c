/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make demo: two programs that know nothing of each other share one device through detshared
 *
 * Starts a daemon of its own on a private socket, runs the service and the job, together under three policies and each
 * alone, checks that every answer has the same bits as alone, and prints and writes (BUILD/demo.json) what it saw. The
 * device is the daemon's own choice: the GPU where there is one, else a simulated one. On a simulated device all times
 * are the model's, and table and file say `sim`. A GPU is faster than its simulation: there the requests are more and
 * come slower, and the job's kernels are larger, so that they take milliseconds there too.
 * Exit status 0 only if both programs' outputs were bit-identical in every run.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINES_MAX 200000
#define SLO_FACTOR 2.0
#define BE_ALONE_MIN 8

struct line {
        uint64_t time_ns, span_ns; /* LS: arrival and latency; BE: end and duration */
        char hash[17];
};

struct output {
        struct line *line;
        size_t n;
};

struct row {
        const char *name;
        struct output ls, be;
        double p50_us, p99_us, attainment, be_per_s;
        int has_ls, has_be, same;
};

/* Requests, divisor of the trace's gaps; steps of the job's walks, size of its matrices, rounds per iteration. */
struct load {
        const char *requests, *divisor, *steps, *n, *rounds;
};

static const struct load load_simulated = {"150", "120", "96", "64", "1"},
                         load_gpu = {"3000", "20", "4096", "256", "4"};
static struct load load;

static const char *arg_build = "build", *arg_device, *arg_requests, *arg_divisor;
static char device[80]; /* its name */
static int simulated;
static char dir[] = "/tmp/detshare-demo-XXXXXX";
static char *path_of[9];

static void die(const char *what)
{
        fprintf(stderr, "demo: %s: %s\n", what, strerror(errno));
        exit(1);
}

static char *format(const char *fmt, const char *a, const char *b)
{
        char *s;

        if (asprintf(&s, fmt, a, b) < 0)
                die("asprintf");
        return s;
}

/* Start argv with stdout in out (NULL: ours). */
static pid_t start(char *const argv[], const char *class_, const char *out)
{
        pid_t pid = fork();

        if (pid < 0)
                die("fork");
        if (pid > 0)
                return pid;
        if (out) {
                int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);

                if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
                        die(out);
        }
        setenv("DETSHARE_SOCKET", path_of[0], 1);
        setenv("LD_LIBRARY_PATH", path_of[1], 1);
        setenv("DETSHARE_CLASS", class_, 1);
        execv(argv[0], argv);
        die(argv[0]);
        return -1;
}

static void finish(pid_t pid, const char *what)
{
        int status;

        if (waitpid(pid, &status, 0) < 0 || status != 0) {
                fprintf(stderr, "demo: %s failed (status %d)\n", what, status);
                exit(1);
        }
}

static void pause_ms(long ms)
{
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static struct output read_output(const char *path)
{
        struct output o = {calloc(LINES_MAX, sizeof(struct line)), 0};
        FILE *f = fopen(path, "r");

        if (!f || !o.line)
                die(path);
        while (o.n < LINES_MAX && fscanf(f, "%" SCNu64 " %" SCNu64 " %16s", &o.line[o.n].time_ns, &o.line[o.n].span_ns,
                                          o.line[o.n].hash) == 3)
                o.n++;
        fclose(f);
        return o;
}

static int same_bits(const struct output *a, const struct output *b)
{
        size_t n = a->n < b->n ? a->n : b->n;

        for (size_t i = 0; i < n; i++)
                if (strcmp(a->line[i].hash, b->line[i].hash))
                        return 0;
        return n > 0;
}

static int by_span(const void *a, const void *b)
{
        const struct line *x = a, *y = b;

        return (x->span_ns > y->span_ns) - (x->span_ns < y->span_ns);
}

static double percentile_us(const struct output *o, double p)
{
        struct line *sorted = malloc(o->n * sizeof(*sorted));
        size_t i = (size_t)(p * (double)o->n);
        double us;

        if (!sorted || !o->n)
                die("no lines");
        memcpy(sorted, o->line, o->n * sizeof(*sorted));
        qsort(sorted, o->n, sizeof(*sorted), by_span);
        us = (double)sorted[i < o->n ? i : o->n - 1].span_ns / 1000;
        free(sorted);
        return us;
}

/* Iterations per second of device time that ended within [from, to]. */
static double rate(const struct output *be, uint64_t from, uint64_t to)
{
        uint64_t first = 0, last = 0, n = 0;

        for (size_t i = 0; i < be->n; i++) {
                if (be->line[i].time_ns < from || be->line[i].time_ns > to)
                        continue;
                if (!first)
                        first = be->line[i].time_ns;
                else
                        n++;
                last = be->line[i].time_ns;
        }
        return last > first ? (double)n * 1e9 / (double)(last - first) : 0;
}

static void wait_for_output(const char *path)
{
        for (int i = 0; i < 600; i++) {
                FILE *f = fopen(path, "r");
                int c = f ? fgetc(f) : EOF;

                if (f)
                        fclose(f);
                if (c != EOF)
                        return;
                pause_ms(50);
        }
        fprintf(stderr, "demo: the job made no progress in 30 s\n");
        exit(1);
}

static pid_t start_ls(const char *out)
{
        char *argv[] = {path_of[2], path_of[4], (char *)"tests/data/apollo_inter_arrival_s.json", (char *)load.requests,
                (char *)load.divisor, NULL};

        return start(argv, "ls", out);
}

static pid_t start_be(const char *out, const char *iterations)
{
        char *argv[] = {path_of[3], path_of[4], (char *)iterations, path_of[5], (char *)load.steps, (char *)load.n,
                (char *)load.rounds, NULL};

        return start(argv, "be", out);
}

static void set_policy(const char *name)
{
        char *argv[] = {path_of[6], (char *)"set-policy", (char *)name, NULL};

        finish(start(argv, "be", "/dev/null"), "detsharectl set-policy");
}

static void run_together(struct row *row, const char *policy)
{
        char *ls = format("%s/ls-%s", dir, policy), *be = format("%s/be-%s", dir, policy);
        pid_t ls_pid, be_pid;

        printf("  running together under %s ...\n", policy);
        fflush(stdout);
        set_policy(policy);
        unlink(path_of[5]);
        be_pid = start_be(be, "100000");
        wait_for_output(be);
        ls_pid = start_ls(ls);
        finish(ls_pid, "the LS service");
        close(open(path_of[5], O_WRONLY | O_CREAT, 0600));
        finish(be_pid, "the BE job");
        unlink(path_of[5]);
        row->ls = read_output(ls);
        row->be = read_output(be);
        row->has_ls = row->has_be = 1;
        row->be_per_s = rate(&row->be, row->ls.line[0].time_ns, row->ls.line[row->ls.n - 1].time_ns);
}

static void run_alone(struct row *ls, struct row *be, size_t iterations)
{
        char *out = format("%s/%s", dir, "alone"), count[32];

        printf("  running each alone ...\n");
        fflush(stdout);
        set_policy("multistream");
        finish(start_ls(out), "the LS service");
        ls->ls = read_output(out);
        ls->has_ls = 1;
        snprintf(count, sizeof(count), "%zu", iterations < BE_ALONE_MIN ? BE_ALONE_MIN : iterations);
        finish(start_be(out, count), "the BE job");
        be->be = read_output(out);
        be->has_be = 1;
        be->be_per_s = rate(&be->be, 0, UINT64_MAX);
}

static void evaluate(struct row *rows, size_t n, double *ret_slo_us)
{
        double slo = SLO_FACTOR * percentile_us(&rows[0].ls, 0.99);

        for (size_t i = 0; i < n; i++) {
                struct row *r = &rows[i];
                size_t within = 0;

                r->same = (!r->has_ls || (same_bits(&r->ls, &rows[0].ls) && r->ls.n == rows[0].ls.n)) &&
                          (!r->has_be || same_bits(&r->be, &rows[1].be));
                if (!r->has_ls)
                        continue;
                r->p50_us = percentile_us(&r->ls, 0.5);
                r->p99_us = percentile_us(&r->ls, 0.99);
                for (size_t j = 0; j < r->ls.n; j++)
                        within += (double)r->ls.line[j].span_ns / 1000 <= slo;
                r->attainment = 100.0 * (double)within / (double)r->ls.n;
        }
        *ret_slo_us = slo;
}

static void print_table(const struct row *rows, size_t n, double slo)
{
        const char *bar =
                "+-----------------------+------------+------------+-----------+------------+----------+-----------+";

        printf("\n  device %s%s   LS: %zu requests, Apollo arrivals / %s   SLO %.0f us (2 x p99 alone)\n", device,
                simulated ? " (simulated: times are the model's, not a GPU's)" : "", rows[0].ls.n, load.divisor, slo);
        if (!simulated)
                printf("  BE: an iteration is %s rounds of walks of %s steps on every SM and a product of %s x %s "
                       "matrices\n",
                        load.rounds, load.steps, load.n, load.n);
        printf("  %s\n", bar);
        printf("  | %-21s | %10s | %10s | %9s | %10s | %8s | %9s |\n", "run", "LS p50 us", "LS p99 us", "SLO met",
                "BE iter/s", "of alone", "same bits");
        printf("  %s\n", bar);
        for (size_t i = 0; i < n; i++) {
                const struct row *r = &rows[i];

                printf("  | %-21s |", r->name);
                if (r->has_ls)
                        printf(" %10.1f | %10.1f | %8.1f%% |", r->p50_us, r->p99_us, r->attainment);
                else
                        printf(" %10s | %10s | %9s |", "-", "-", "-");
                if (r->has_be)
                        printf(" %10.1f | %7.1f%% |", r->be_per_s, 100 * r->be_per_s / rows[1].be_per_s);
                else
                        printf(" %10s | %8s |", "-", "-");
                printf(" %9s |\n", r->same ? "yes" : "NO");
        }
        printf("  %s\n", bar);
}

static void write_json(const struct row *rows, size_t n, double slo)
{
        char *path = format("%s/demo.json%s", arg_build, "");
        FILE *f = fopen(path, "w");

        if (!f)
                die(path);
        fprintf(f, "{\n  \"device\": \"%s\",\n  \"simulated\": %s,\n  \"requests\": %zu,\n  \"trace\": \"apollo\",\n",
                device, simulated ? "true" : "false", rows[0].ls.n);
        fprintf(f, "  \"time_divisor\": %s,\n  \"slo_us\": %.3f,\n  \"runs\": [\n", load.divisor, slo);
        for (size_t i = 0; i < n; i++) {
                const struct row *r = &rows[i];

                fprintf(f, "    {\"run\": \"%s\"", r->name);
                if (r->has_ls)
                        fprintf(f, ", \"ls_p50_us\": %.3f, \"ls_p99_us\": %.3f, \"slo_attainment\": %.4f", r->p50_us,
                                r->p99_us, r->attainment / 100);
                if (r->has_be)
                        fprintf(f, ", \"be_per_s\": %.3f, \"be_share\": %.4f, \"be_iterations\": %zu", r->be_per_s,
                                r->be_per_s / rows[1].be_per_s, r->be.n);
                fprintf(f, ", \"bit_identical\": %s}%s\n", r->same ? "true" : "false", i + 1 < n ? "," : "");
        }
        fprintf(f, "  ]\n}\n");
        if (fclose(f))
                die(path);
        printf("  written: %s\n", path);
}

/* The string or word behind "key": in the daemon's status. */
static void status_value(const char *key, char *ret, size_t size)
{
        char *pattern = format("\"%s\": %s", key, ""), line[256];
        FILE *f = fopen(path_of[8], "r");

        ret[0] = 0;
        while (f && !ret[0] && fgets(line, sizeof(line), f)) {
                const char *at = strstr(line, pattern);

                if (at)
                        snprintf(ret, size, "%.*s",
                                (int)strcspn(at + strlen(pattern) + (at[strlen(pattern)] == '"'), "\",\n"),
                                at + strlen(pattern) + (at[strlen(pattern)] == '"'));
        }
        if (f)
                fclose(f);
        free(pattern);
}

/* What the daemon serves, and what to do with it. Devices that are none of silicon have names of DetShare's own. */
static void choose_load(void)
{
        static const char own[] = "DetShare ";
        char value[sizeof(device)];

        status_value("device", value, sizeof(value));
        load = strncmp(value, own, strlen(own)) ? load_gpu : load_simulated;
        snprintf(device, sizeof(device), "%s", value + (strncmp(value, own, strlen(own)) ? 0 : strlen(own)));
        status_value("simulated", value, sizeof(value));
        simulated = strcmp(value, "false") != 0;
        if (arg_requests)
                load.requests = arg_requests;
        if (arg_divisor)
                load.divisor = arg_divisor;
}

static pid_t start_daemon(void)
{
        char *argv[] = {path_of[7], (char *)"--foreground", (char *)"--socket", path_of[0],
                arg_device ? (char *)"--device" : NULL, (char *)arg_device, NULL};
        pid_t pid = start(argv, "be", "/dev/null");

        for (int i = 0; i < 1200; i++) {
                char *status[] = {path_of[6], (char *)"status", (char *)"--json", NULL};
                int code;

                if (access(path_of[0], F_OK) == 0) {
                        pid_t probe = start(status, "be", path_of[8]);

                        if (waitpid(probe, &code, 0) == probe && code == 0)
                                return pid;
                }
                if (waitpid(pid, &code, WNOHANG) == pid)
                        break;
                pause_ms(25);
        }
        fprintf(stderr, "demo: the daemon did not start\n");
        if (!arg_device)
                fprintf(stderr, "demo: to see it on a simulated GPU: %s/demo/demo -b %s -d sim:h200\n", arg_build,
                        arg_build);
        exit(1);
}

static void make_paths(void)
{
        if (!mkdtemp(dir))
                die(dir);
        path_of[0] = format("%s/sock%s", dir, "");
        path_of[1] = format("%s/cuda:%s", arg_build, arg_build);
        if (getenv("LD_LIBRARY_PATH"))
                path_of[1] = format("%s:%s", path_of[1], getenv("LD_LIBRARY_PATH"));
        path_of[2] = format("%s/demo/ls_service%s", arg_build, "");
        path_of[3] = format("%s/demo/be_job%s", arg_build, "");
        path_of[4] = format("%s/demo/kernels.ptx%s", arg_build, "");
        path_of[5] = format("%s/stop%s", dir, "");
        path_of[6] = format("%s/detsharectl%s", arg_build, "");
        path_of[7] = format("%s/detshared%s", arg_build, "");
        path_of[8] = format("%s/status%s", dir, "");
}

/* What the runs left in the private directory. */
static void remove_outputs(void)
{
        static const char *const names[] = {
                "ls-multistream", "be-multistream", "ls-static", "be-static", "alone", "sock", "stop", "status"};
        char path[128];

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
                unlink(path);
        }
        rmdir(dir);
}

static void parse(int argc, char **argv)
{
        int c;

        while ((c = getopt(argc, argv, "b:d:n:t:")) != -1) {
                if (c == 'b')
                        arg_build = optarg;
                else if (c == 'd')
                        arg_device = optarg;
                else if (c == 'n')
                        arg_requests = optarg;
                else if (c == 't')
                        arg_divisor = optarg;
                else {
                        fprintf(stderr, "usage: %s [-b BUILD] [-d DEVICE] [-n REQUESTS] [-t TIME_DIVISOR]\n", argv[0]);
                        exit(2);
                }
        }
}

int main(int argc, char **argv)
{
        struct row rows[] = {{.name = "LS alone"}, {.name = "BE alone"}, {.name = "together, multistream"},
                {.name = "together, static"}, {.name = "together, detshare"}};
        static const char *const policies[] = {"multistream", "static", "detshare"};
        size_t n = sizeof(rows) / sizeof(rows[0]), same = 0, most = 0;
        pid_t daemon_pid;
        double slo;

        parse(argc, argv);
        make_paths();
        daemon_pid = start_daemon();
        choose_load();
        printf("demo: one LS service and one BE job share %s through detshared\n", device);
        for (size_t i = 2; i < n; i++) {
                run_together(&rows[i], policies[i - 2]);
                most = rows[i].be.n > most ? rows[i].be.n : most;
        }
        run_alone(&rows[0], &rows[1], most);
        kill(daemon_pid, SIGTERM);
        finish(daemon_pid, "detshared");
        remove_outputs();
        evaluate(rows, n, &slo);
        print_table(rows, n, slo);
        write_json(rows, n, slo);
        for (size_t i = 0; i < n; i++)
                same += (size_t)rows[i].same;
        printf("  outputs bit-identical to running alone: %s\n", same == n ? "yes" : "NO");
        return same == n ? 0 : 1;
}
