/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl profile PACK
 *
 * Measures a model pack's kernels in two steps. First their stairs, like `profile run` with detshare-serve as the
 * program. Then what bounds them: each kernel's time on half of the SMs, alone, and while the other half writes through
 * more memory than L2 holds (the policy "calibrate" and its BE load). A kernel that takes THRASHED or more of its time
 * alone is bound by memory, another one by computing. The result goes into the kernel's profile, with the bytes that a
 * launch touches at least, which the pack has. Both times are between two events around a launch and include the cost
 * of a launch, so very short kernels seem less bound by memory than they are.
 *
 * The daemon keeps each policy only as long as this connection lives. However this process ends, the previous policy
 * comes back.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ctl/calibrate.h"
#include "ctl/clock.h"
#include "ctl/profile.h"

#define KERNELS_MAX 65536u
/* number of requests to serve; enough for every stair of a kernel that a request launches once */
#define REQUESTS "100"
/* time beside the load from which a kernel counts as bound by memory, permille of its time alone */
#define THRASHED 1200u
/* device time of one kernel of the load, ns; some hundred launches fit into it */
#define THRASH_NS 20000000.0
#define THRASH_GRID_MAX (1u << 22)
/* limit of the real time of a kernel with less than 1 ms device time, ns; beyond it the device executes kernels on
 * CPUs */
#define REAL_NS_MAX 300000000u

struct timed {
        char name[DSC_PROFILE_NAME];
        uint32_t grid[3], threads, shared, launches;
        uint64_t ns[2]; /* time alone and time beside the load, ns; 0: not measured */
        uint64_t footprint;
};

struct pack_run {
        const char *pack, *requests;
        int as_json, file; /* file: memory file into which detshare-serve writes the kernels' times */
        char serve[PATH_MAX];
        struct calibrate_be be;
        dsc_session *control;
        uint32_t n_sms, half, thrash_grid;
        uint64_t since_ms;
        struct timed *kernels;
        size_t n;
};

/* --- the program --- */

/* *ret: path of detshare-serve: beside this program, else in PATH. */
static void find_serve(char ret[static PATH_MAX])
{
        char own[PATH_MAX] = "";
        const ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
        char *slash = n > 0 ? strrchr(own, '/') : NULL;
        if (slash)
                *slash = '\0';
        if (!slash || snprintf(ret, PATH_MAX, "%s/detshare-serve", own) >= PATH_MAX || access(ret, X_OK))
                strcpy(ret, "detshare-serve");
}

/* Starts detshare-serve in its mode that measures kernels. Returns its pid, or -1 after an error message. */
static pid_t start_timing(const struct pack_run *run)
{
        const pid_t pid = fork();
        if (pid < 0)
                ctl_complain("cannot make a process: %s", strerror(errno));
        if (pid)
                return pid;
        char file[32];
        const int null = open("/dev/null", O_WRONLY);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        snprintf(file, sizeof(file), "/proc/self/fd/%d", run->file);
        if (null >= 0)
                dup2(null, STDOUT_FILENO);
        if (arg_socket)
                setenv("DETSHARE_SOCKET", arg_socket, 1);
        execlp(run->serve, run->serve, run->pack, "--class", "ls", "--no-hash", "--kernels", file, NULL);
        ctl_complain("cannot run %s: %s", run->serve, strerror(errno));
        _exit(CTL_NOT_FOUND);
}

/* Reads the times that detshare-serve wrote. The second run must list the same kernels as the first. */
static int read_times(struct pack_run *run, int which)
{
        const int fd = dup(run->file);
        FILE *f = fd < 0 || lseek(fd, 0, SEEK_SET) ? NULL : fdopen(fd, "r");
        size_t n = 0;
        struct timed t = {.ns = {0, 0}};
        if (!f) {
                ctl_complain("cannot read the kernels' times: %s", strerror(errno));
                if (fd >= 0)
                        close(fd);
                return CTL_FAILED;
        }
        while (n < KERNELS_MAX && fscanf(f,
                                          "%255s %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32
                                          " %" SCNu64 " %" SCNu64,
                                          t.name, &t.grid[0], &t.grid[1], &t.grid[2], &t.threads, &t.shared,
                                          &t.launches, &t.ns[0], &t.footprint) == 9) {
                struct timed *more = which ? run->kernels : reallocarray(run->kernels, n + 1, sizeof(*more));
                if (!more || (which && (n == run->n || strcmp(more[n].name, t.name) != 0)))
                        break;
                run->kernels = more;
                if (which)
                        more[n].ns[1] = t.ns[0];
                else
                        more[n] = t;
                n++;
        }
        fclose(f);
        if (which ? n == run->n : n > 0) {
                run->n = n;
                return 0;
        }
        ctl_complain("cannot measure what bounds the kernels: detshare-serve did not report their times");
        return CTL_FAILED;
}

/* --- alone, and beside a load --- */

/* Waits for detshare-serve and returns its exit code. */
static int await(const struct pack_run *run, pid_t pid)
{
        int status;
        while (waitpid(pid, &status, 0) != pid) {
                if (errno == EINTR)
                        continue;
                ctl_complain("cannot wait for %s: %s", run->serve, strerror(errno));
                return CTL_FAILED;
        }
        return WIFEXITED(status) ? WEXITSTATUS(status) : CTL_FAILED;
}

static int measure(struct pack_run *run, int beside)
{
        int code = beside ? calibrate_be_keep_on(&run->be, DSC_LOAD_WRITE, run->thrash_grid) : 0;
        if (code)
                return code;
        const pid_t pid = start_timing(run);
        code = pid > 0 ? await(run, pid) : CTL_FAILED;
        if (!code && beside)
                code = calibrate_be_rest(&run->be);
        return code ? code : read_times(run, beside);
}

/* Chooses the number of blocks with which the load lasts THRASH_NS. -1: the device executes kernels on CPUs. */
static int choose_grid(struct pack_run *run)
{
        struct calibrate_span span = {0};
        const uint64_t begin = ctl_clock_ns(CLOCK_MONOTONIC);
        double grid = 8.0 * run->n_sms;
        int code = calibrate_be_launch(&run->be, DSC_LOAD_WRITE, (uint32_t)grid);
        if (!code)
                code = calibrate_be_ended(&run->be, 1, &span);
        if (!code && ctl_clock_ns(CLOCK_MONOTONIC) - begin > REAL_NS_MAX)
                return -1;
        if (!code && span.end_ns > span.start_ns)
                grid *= THRASH_NS / (double)(span.end_ns - span.start_ns);
        run->thrash_grid = grid > THRASH_GRID_MAX ? THRASH_GRID_MAX : (uint32_t)grid;
        return code;
}

/* Sets the policy that gives the program half of the SMs, in whole TPCs. */
static int set_policy(struct pack_run *run)
{
        struct dsc_status status;
        char text[2][32], *params[2] = {text[0], text[1]};
        int r = dsc_control_status(run->control, &status);
        if (r)
                return ctl_fail(r, "cannot measure what bounds the kernels");
        run->n_sms = status.n_sms;
        run->half = status.n_tpcs ? status.n_tpcs / 2 * (status.n_sms / status.n_tpcs) : 0;
        snprintf(text[0], sizeof(text[0]), "ls_sms=%" PRIu32, run->half);
        snprintf(text[1], sizeof(text[1]), "be_sms=%" PRIu32, run->half);
        r = dsc_control_calibration_begin(run->control, params, 2);
        return r ? ctl_fail(r, "cannot measure what bounds the kernels") : 0;
}

/* --- results ---------------------- */

static uint64_t permille(const struct timed *t)
{
        return t->ns[0] ? t->ns[1] * 1000 / t->ns[0] : 1000;
}

/* Returns the kernel's bound: 1 compute, 2 memory, 0 not known. */
static uint32_t bound_of(const struct timed *t)
{
        if (!t->ns[1])
                return 0;
        return permille(t) >= THRASHED ? 2 : 1;
}

static const struct timed *find_timed(const struct pack_run *run, const struct dsc_profile *row)
{
        for (size_t i = 0; i < run->n; i++) {
                const struct timed *t = &run->kernels[i];
                if (!strcmp(t->name, row->kernel) && !memcmp(t->grid, row->grid, sizeof(t->grid)) &&
                        t->threads == row->block[0] && t->shared == row->shared_bytes)
                        return t;
        }
        return NULL;
}

/* Stores the results in the profiles of kernels that were used since this process began. */
static int keep(struct pack_run *run)
{
        struct dsc_profiles profiles;
        size_t n = 0;
        int r = dsc_control_profiles(run->control, "", 0, &profiles);
        if (r)
                return ctl_fail(r, "cannot list the profiles");
        for (size_t i = 0; i < profiles.n; i++) {
                const struct timed *t = find_timed(run, &profiles.rows[i]);
                if (!t || profiles.rows[i].used_ms < run->since_ms)
                        continue;
                profiles.rows[n] = profiles.rows[i];
                if (bound_of(t))
                        profiles.rows[n].bound = bound_of(t);
                if (t->footprint)
                        profiles.rows[n].footprint = t->footprint;
                n++;
        }
        r = n ? dsc_control_profiles_put(run->control, profiles.rows, n) : 0;
        free(profiles.rows);
        return r ? ctl_fail(r, "cannot store the profiles of the kernels") : 0;
}

static int draw(const struct pack_run *run, struct ctl_text *text)
{
        static const char *const columns[] = {"KERNEL", "BLOCKS", "ALONE", "BESIDE", "TIMES", "TOUCHES", "BOUND"};
        struct ctl_table *table = ctl_table_new(1);
        int r = 0;
        for (int i = 0; table && i < 7; i++)
                ctl_table_column(table, columns[i], i > 0 && i < 6);
        for (size_t i = 0; table && i < run->n && !r; i++) {
                const struct timed *t = &run->kernels[i];
                char grid[40], alone[32], beside[32], times[32], footprint[32];
                snprintf(grid, sizeof(grid), "%" PRIu32 "x%" PRIu32 "x%" PRIu32, t->grid[0], t->grid[1], t->grid[2]);
                snprintf(alone, sizeof(alone), "%.2f us", (double)t->ns[0] / 1e3);
                snprintf(beside, sizeof(beside), "%.2f us", (double)t->ns[1] / 1e3);
                snprintf(times, sizeof(times), "%.2f", (double)permille(t) / 1e3);
                const char *cells[] = {t->name, grid, alone, beside, times, profile_bytes(t->footprint, footprint),
                        bound_of(t) == 2 ? "memory" : "compute"};
                r = ctl_table_row(table, cells);
        }
        fprintf(text->file, "half of the SMs, alone and beside a load that writes through L2\n");
        r = table && !r ? ctl_table_draw(table, text) : CTL_FAILED;
        ctl_table_free(table);
        return r;
}

static int json(const struct pack_run *run, struct ctl_text *text)
{
        ctl_json_begin(text, NULL, '{');
        ctl_json_begin(text, "bounds", '[');
        for (size_t i = 0; i < run->n; i++) {
                const struct timed *t = &run->kernels[i];
                ctl_json_begin(text, NULL, '{');
                ctl_json_string(text, "kernel", t->name);
                ctl_json_number(text, "grid_x", t->grid[0]);
                ctl_json_number(text, "grid_y", t->grid[1]);
                ctl_json_number(text, "grid_z", t->grid[2]);
                ctl_json_number(text, "alone_ns", t->ns[0]);
                ctl_json_number(text, "beside_ns", t->ns[1]);
                ctl_json_number(text, "footprint_bytes", t->footprint);
                ctl_json_string(text, "bound", bound_of(t) == 2 ? "memory" : "compute");
                ctl_json_end(text, '}');
        }
        ctl_json_end(text, ']');
        ctl_json_end(text, '}');
        return 0;
}

/* --- both steps of the measurement --- */

static int measure_bounds(struct pack_run *run)
{
        struct ctl_text text;
        int code = set_policy(run);
        if (!code)
                code = calibrate_be_ready(&run->be, run->n_sms);
        if (!code)
                code = choose_grid(run);
        const int too_long = code < 0;
        if (too_long)
                ctl_complain(
                        "the bounds of the kernels are not measured: this simulated device executes kernels, which "
                        "takes too long");
        if (!code || too_long)
                code = measure(run, 0);
        if (!code && !too_long)
                code = measure(run, 1);
        if (!code)
                code = keep(run);
        if (code || too_long)
                return code;
        code = ctl_text_open(&text);
        return code ? code : ctl_text_close(&text, run->as_json ? json(run, &text) : draw(run, &text));
}

static int find_bounds(struct pack_run *run)
{
        int code = ctl_open(&run->control);
        if (code)
                return code;
        /* detshare-serve opens this file by the descriptor's number */
        run->file = memfd_create("detshare-kernels", 0);
        if (run->file < 0) {
                ctl_complain("cannot make a file in memory: %s", strerror(errno));
                code = CTL_FAILED;
        } else {
                code = measure_bounds(run);
                close(run->file);
        }
        (void)dsc_control_profile_end(run->control);
        dsc_control_close(run->control);
        free(run->kernels);
        return code;
}

/* Runs `profile run -- detshare-serve PACK`. Signals stay blocked afterwards, as `profile run` leaves them. */
static int find_stairs(struct pack_run *run)
{
        char *argv[10] = {(char *)"profile", (char *)"run"};
        int argc = 2;
        sigset_t before;
        if (run->as_json)
                argv[argc++] = (char *)"--json";
        argv[argc++] = (char *)"--";
        argv[argc++] = run->serve;
        argv[argc++] = (char *)run->pack;
        argv[argc++] = (char *)"--requests";
        argv[argc++] = (char *)run->requests;
        if (run->as_json)
                argv[argc++] = (char *)"--json";
        sigprocmask(SIG_BLOCK, NULL, &before);
        const int code = ctl_dispatch(argc, argv);
        sigprocmask(SIG_SETMASK, &before, NULL);
        return code;
}

static int is_pack(const char *path)
{
        char manifest[PATH_MAX];
        struct stat st;
        return snprintf(manifest, sizeof(manifest), "%s/pack.txt", path) < (int)sizeof(manifest) &&
               !stat(manifest, &st) && S_ISREG(st.st_mode);
}

int profile_pack(const struct ctl_args *args)
{
        struct pack_run run = {
                .pack = args->argv[0],
                .requests = ctl_given(args, "requests") ? ctl_value(args, "requests") : REQUESTS,
                .as_json = ctl_given(args, "json"),
                .since_ms = ctl_clock_ns(CLOCK_REALTIME) / 1000000u,
        };
        if (!is_pack(run.pack))
                return ctl_usage(
                        "profile: %s is neither a subcommand nor a folder with a model pack (pack.txt)", run.pack);
        find_serve(run.serve);
        /* fork before this process has a session or a thread */
        int code = calibrate_be_start(&run.be);
        if (code)
                return code;
        code = find_stairs(&run);
        if (!code)
                code = find_bounds(&run);
        calibrate_be_stop(&run.be);
        return code;
}
