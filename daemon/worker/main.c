/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-worker: started by detshared, with its end of a socketpair as fd 3
 *
 * The worker executes clients' kernels, so it keeps no privilege of root. Before it opens the device it changes to the
 * user `detshare`, if that user exists (with its groups, since the GPU's device nodes may belong to one), otherwise to
 * a numeric uid that no user has. It opens directories (policies, channel tables) before that, because only root may be
 * able to traverse their paths.
 *
 * Exit status: 0 after an orderly stop or when the supervisor has gone, 1 after a fatal error or loss of the device, 2
 * for wrong usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sched/sched.h"
#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"
#include "worker/worker.h"

#define WORKER_FD 3
#define WORKER_LIFE_PER_S 256
#define MAIN_E_ROOT 1 /* root cannot change to the worker's user; the reason is already logged */
#define WORKER_USER "detshare"
/* uid of the worker if the user `detshare` does not exist; not 65534, because other processes of `nobody` could kill
 * the worker */
#define WORKER_UID 65533u

#define WORKER_GROUPS_MAX 64
#define WORKER_SECONDS_MAX 1000000u

/* Parses a number. Returns 0 or -EINVAL. */
static int main_number(const char *text, uint32_t max, uint32_t *ret)
{
        char *end;
        uintmax_t n;

        errno = 0;
        n = strtoumax(text, &end, 10);
        if (errno || end == text || *end || *text == '-' || n > max)
                return -EINVAL;
        *ret = (uint32_t)n;
        return 0;
}

/* Parses a number of units into ns. Returns 0 or -EINVAL. */
static int main_duration(const char *text, uint64_t unit_ns, uint64_t *ret)
{
        uint32_t n;

        if (main_number(text, WORKER_SECONDS_MAX, &n))
                return -EINVAL;
        *ret = n * unit_ns;
        return 0;
}

/* Parses the polling time; 0 turns polling off. */
static int main_spin(const char *text, uint64_t *ret)
{
        int r = main_duration(text, DS_NS_PER_US, ret);

        if (!r && *ret == 0)
                *ret = DS_WORKER_SPIN_NEVER;
        return r;
}

static int main_mib(const char *text, uint64_t *ret)
{
        uint32_t n;

        if (main_number(text, UINT32_MAX, &n))
                return -EINVAL;
        *ret = DS_MIB((uint64_t)n);
        return 0;
}

/* Handles options that are numbers or that the device reads from its environment. */
static int main_option(int c, const char *arg, struct ds_worker_config *config)
{
        switch (c) {
        case 'l':
                return setenv("DETSHARE_LIBCUDA", arg, 1) < 0 ? -errno : 0;
        case 'r':
                return setenv("DETSHARE_RESTARTED", "1", 1) < 0 ? -errno : 0;
        case 'c':
                return setenv("DETSHARE_CLOCK_NS", arg, 1) < 0 ? -errno : 0;
        case 't':
                return setenv("DETSHARE_TOPOLOGY", arg, 1) < 0 ? -errno : 0;
        case 'L':
                return main_number(arg, UINT32_MAX, &config->ladder_steps);
        case 'O':
                config->ladder_by_gpc = !strcmp(arg, "gpc");
                return config->ladder_by_gpc || !strcmp(arg, "spread") ? 0 : -EINVAL;
        case 'o':
                return main_duration(arg, DS_NS_PER_S, &config->orphan_ns);
        case 'k':
                return main_duration(arg, DS_NS_PER_S, &config->kernel_ns);
        case 'q':
                return main_duration(arg, DS_NS_PER_S, &config->quiesce_ns);
        case 's':
                return main_spin(arg, &config->spin_ns);
        case 'e':
                return main_duration(arg, DS_NS_PER_US, &config->evict_bound_ns);
        case 'g':
                return main_duration(arg, DS_NS_PER_US, &config->piece_ns);
        case 'm':
                return main_mib(arg, &config->pool_bytes);
        case 'f':
                if (config->n_pool_for == DSW_POOL_FOR_MAX)
                        return -EINVAL;
                config->pool_for[config->n_pool_for++] = arg;
                return 0;
        default:
                return -EINVAL;
        }
}

static int main_transform(const char *name, uint32_t *ret)
{
        static const char *const names[] = {[DS_SCHED_TRANSFORM_AUTO] = "auto",
                [DS_SCHED_TRANSFORM_ALWAYS] = "always",
                [DS_SCHED_TRANSFORM_NEVER] = "never"};

        for (uint32_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                if (strcmp(names[i], name))
                        continue;
                *ret = i;
                return 0;
        }
        return -EINVAL;
}

/* Adds a policy directory. The first one is policy_dir, where "" means none; further ones must not be "". Returns 0,
 * or -EINVAL: too many. */
static int main_policy_dir(const char *path, struct ds_worker_config *config)
{
        if (!config->policy_dir[0])
                config->policy_dir = path;
        else if (config->n_more_dirs == DS_POLICY_DIRS_MAX)
                return -EINVAL;
        else if (path[0])
                config->more_dirs[config->n_more_dirs++].path = path;
        return 0;
}

static int main_options(int argc, char **argv, struct ds_worker_config *config, int *ret_settle)
{
        static const struct option options[] = {
                {"device", required_argument, NULL, 'd'},
                {"policy", required_argument, NULL, 'p'},
                {"policy-dir", required_argument, NULL, 'P'},
                {"libcuda", required_argument, NULL, 'l'},
                {"restarted", no_argument, NULL, 'r'},
                {"clock-ns", required_argument, NULL, 'c'},
                {"orphan-s", required_argument, NULL, 'o'},
                {"kernel-s", required_argument, NULL, 'k'},
                {"quiesce-s", required_argument, NULL, 'q'},
                {"spin-us", required_argument, NULL, 's'},
                {"topology", required_argument, NULL, 't'},
                {"ladder-steps", required_argument, NULL, 'L'},
                {"ladder-order", required_argument, NULL, 'O'},
                {"transform", required_argument, NULL, 'T'},
                {"evict-us", required_argument, NULL, 'e'},
                {"piece-us", required_argument, NULL, 'g'},
                {"pool-mib", required_argument, NULL, 'm'},
                {"pool-be", required_argument, NULL, 'b'},
                {"pool-for", required_argument, NULL, 'f'},
                {"lut-dir", required_argument, NULL, 'D'},
                {"settle", no_argument, NULL, 'S'},
                {NULL, 0, NULL, 0},
        };
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
                switch (c) {
                case 'S':
                        *ret_settle = 1;
                        break;
                case 'd':
                        config->device = optarg;
                        break;
                case 'p':
                        config->policy = optarg;
                        break;
                case 'b':
                        config->pool_be = optarg;
                        break;
                case 'D':
                        config->lut_dir = optarg;
                        break;
                case 'T':
                        if (main_transform(optarg, &config->transform))
                                return -EINVAL;
                        break;
                case 'P':
                        if (main_policy_dir(optarg, config))
                                return -EINVAL;
                        break;
                default:
                        if (main_option(c, optarg, config))
                                return -EINVAL;
                        break;
                }
        }
        return optind == argc && config->device ? 0 : -EINVAL;
}

/* Blocks the stop signals; the worker reads them from a descriptor. */
static int main_signal_fd(int *ret)
{
        sigset_t set;
        int fd;

        signal(SIGPIPE, SIG_IGN);
        /* writes to memfds beyond RLIMIT_FSIZE must fail with an error instead of this signal */
        signal(SIGXFSZ, SIG_IGN);
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGINT);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return ds_error_origin(-errno);
        fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (fd < 0)
                return ds_error_origin(-errno);
        *ret = fd;
        return 0;
}

static void main_add_group(gid_t *groups, int *n, gid_t gid)
{
        for (int i = 0; i < *n; i++) {
                if (groups[i] == gid)
                        return;
        }
        if (*n < WORKER_GROUPS_MAX)
                groups[(*n)++] = gid;
}

/* Adds to the worker's groups those of the GPU's device nodes that not everybody may open; never root's own group. */
static int main_device_groups(uid_t uid)
{
        gid_t groups[WORKER_GROUPS_MAX];
        int n = getgroups(WORKER_GROUPS_MAX, groups);
        glob_t nodes;
        struct stat st;

        if (n < 0)
                return ds_error_origin(-errno);
        if (glob("/dev/nvidia*", 0, NULL, &nodes))
                return 0;
        for (size_t i = 0; i < nodes.gl_pathc; i++) {
                if (stat(nodes.gl_pathv[i], &st) < 0 || !S_ISCHR(st.st_mode) || (st.st_mode & 06) == 06)
                        continue;
                if (st.st_uid == uid && (st.st_mode & 0600) == 0600)
                        continue;
                if (st.st_gid && (st.st_mode & 060) == 060)
                        main_add_group(groups, &n, st.st_gid);
                else
                        ds_log(DS_LOG_WARNING, "uid %u cannot open %s: the GPU may not be usable", (unsigned)uid,
                                nodes.gl_pathv[i]);
        }
        globfree(&nodes);
        return setgroups((size_t)n, groups) < 0 ? ds_error_origin(-errno) : 0;
}

/* Handles a failed change of user. Returns MAIN_E_ROOT after a log line if root lacks the right to change, as it may in
 * a container; otherwise a negative errno. */
static int main_stays_root(uid_t uid)
{
        if (errno != EPERM && errno != EINVAL)
                return ds_error_origin(-errno);
        ds_log(DS_LOG_ERROR,
                "root cannot become uid %u here: that takes CAP_SETUID, CAP_SETGID and a uid that the container has; "
                "detshared also runs as a user that is not root",
                (unsigned)uid);
        return MAIN_E_ROOT;
}

static int main_become_nobody(void)
{
        const struct passwd *pw = getpwnam(WORKER_USER);
        const uid_t uid = pw && pw->pw_uid ? pw->pw_uid : WORKER_UID;
        const gid_t gid = pw && pw->pw_uid ? pw->pw_gid : WORKER_UID;
        int r = uid == WORKER_UID ? setgroups(0, NULL) : initgroups(WORKER_USER, gid);

        if (r < 0)
                return main_stays_root(uid);
        r = main_device_groups(uid);
        if (r)
                return ds_error_trace(r);
        if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
                return main_stays_root(uid);
        return 0;
}

/* Sets limits (every session holds files), drops root, and prevents later programs from gaining privileges. */
static int main_process(void)
{
        const struct rlimit locked = {RLIM_INFINITY, RLIM_INFINITY};
        struct rlimit files;
        int r;

        if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
                files.rlim_cur = files.rlim_max;
                setrlimit(RLIMIT_NOFILE, &files);
        }
        /* the default timer slack of Linux would add 50 us to a wait of a few us */
        (void)prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
        if (geteuid() == 0) {
                /* the driver locks pinned memory, of which the sessions may have much */
                (void)setrlimit(RLIMIT_MEMLOCK, &locked);
                r = main_become_nobody();
                if (r)
                        return ds_error_trace(r);
        }
        /* a change of user clears the parent's death signal */
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return ds_error_origin(-errno);
        return 0;
}

/* The value of `life` in the configuration: 1/256 s since the boot. No client survives a reboot, and this clock
 * never goes back. */
static uint64_t main_life(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_BOOTTIME, &ts);
        return (uint64_t)ts.tv_sec * WORKER_LIFE_PER_S + (uint64_t)ts.tv_nsec / (DS_NS_PER_S / WORKER_LIFE_PER_S);
}

/* Opens a directory. Returns -1 if that fails; the function that needs the directory reports it. */
static int main_directory(const char *path, int flags)
{
        return path && path[0] ? open(path, flags | O_DIRECTORY | O_CLOEXEC) : -1;
}

static int main_run(struct ds_worker_config *config)
{
        ds_cleanup(ds_worker_freep) ds_worker *worker = NULL;
        ds_cleanup(ds_closep) int signal_fd = -1;
        ds_cleanup(ds_closep) int policy_dir_fd = main_directory(config->policy_dir, O_PATH | O_NOFOLLOW);
        ds_cleanup(ds_closep) int lut_dir_fd = main_directory(config->lut_dir, O_RDONLY);
        int r;

        config->policy_dir_fd = DS_MAX(policy_dir_fd, 0);
        /* these descriptors stay open for the life of the process: the sandbox may forbid to open the directories
         * later */
        for (size_t i = 0; i < config->n_more_dirs; i++)
                config->more_dirs[i].fd = DS_MAX(main_directory(config->more_dirs[i].path, O_PATH | O_NOFOLLOW), 0);
        config->lut_dir_fd = DS_MAX(lut_dir_fd, 0);
        r = main_process();
        if (r)
                return ds_error_trace(r);
        r = main_signal_fd(&signal_fd);
        if (r)
                return ds_error_trace(r);
        config->fd = WORKER_FD;
        config->signal_fd = signal_fd;
        config->life = main_life();
        r = ds_worker_new(config, &worker);
        if (r)
                return ds_error_trace(r);
        do
                r = ds_worker_turn(worker, -1);
        while (!r);
        /* when the supervisor has gone, clients notice it at their sockets; cancelling their work in order would
         * give them less information */
        if (r == DS_WORKER_E_DONE && ds_worker_orphaned(worker))
                _exit(0);
        /* the driver needs long to destroy a broken context; meanwhile the next worker starts */
        if (r == DS_WORKER_E_LOST)
                _exit(EXIT_FAILURE);
        return r == DS_WORKER_E_DONE ? 0 : ds_error_trace(r);
}

/* Runs in a second process with the worker's rights: creates a context beside that of the worker, so that the GPU
 * switches contexts. */
static int main_settle(const char *device)
{
        const char *spec;
        const struct ds_device_ops *ops = ds_device_find(device, &spec);
        int r;

        if (!ops || !ops->settle)
                return ds_error_origin(-ENODEV);
        r = main_process();
        return r ? ds_error_trace(r) : ops->settle(spec, WORKER_FD);
}

int main(int argc, char **argv)
{
        static char name[64]; /* identifies the GPU in every log line */
        struct ds_worker_config config = {.policy = "fifo", .policy_dir = ""};
        int settle = 0;

        ds_log_setup("detshare-worker", DS_LOG_INFO);
        if (main_options(argc, argv, &config, &settle)) {
                fprintf(stderr,
                        "usage: detshare-worker --device SPEC [--policy NAME] [--policy-dir DIR] [--libcuda PATH]\n"
                        "       [--piece-us N] [--restarted] [--clock-ns N] [--orphan-s N] [--kernel-s N] [--quiesce-s "
                        "N] [--spin-us "
                        "N]\n"
                        "       [--transform always|auto|never] [--evict-us N] [--pool-mib N --pool-be N|N/M|auto "
                        "[--pool-for GPU/SMS=N/M]] "
                        "[--lut-dir "
                        "DIR],\n"
                        "       with the supervisor's socket as fd 3; or --settle --device SPEC [--libcuda PATH]\n");
                return 2;
        }
        snprintf(name, sizeof(name), "detshare-worker %s", config.device);
        /* the process of main_settle() starts often, so its routine lines are suppressed */
        ds_log_setup(name, settle ? DS_LOG_ERROR : DS_LOG_INFO);
        return (settle ? main_settle(config.device) : main_run(&config)) ? EXIT_FAILURE : EXIT_SUCCESS;
}
