/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshared: the daemon that owns one GPU and shares it
 *
 * Reads options and configuration, finds its other programs and its policies relative to its own path, and runs the
 * supervisor until it is stopped. It always stays in the foreground, as service managers expect; --foreground is
 * accepted for scripts. Exit status: 0 stopped on request, 1 failure, 2 wrong usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/config.h"
#include "supervisor/journal.h"
#include "supervisor/notify.h"
#include "supervisor/policy.h"
#include "supervisor/supervisor.h"
#include "util/alloc.h"
#include "util/log.h"
#include "util/macro.h"

#define DEFAULT_DEVICE "cuda:0" /* default device if the machine has a GPU */
#define DEFAULT_SIMULATED "sim:h200"
#define DEFAULT_SOCKET "/run/detshare/detshared.sock"
#define DEFAULT_CONFIG "/etc/detshare/detshared.conf"
#define DEFAULT_POLICY "detshare"
#define EXIT_USAGE 2
#define NICE (-10) /* nice value of the daemon; the service unit sets the same one */

static const char *arg_device, *arg_socket, *arg_config, *arg_policy, *arg_libcuda, *arg_ptxas, *arg_state;
static const char *arg_transform;
static const char *arg_policy_dirs[DS_OPTIONS_POLICY_DIRS_MAX];
static size_t arg_n_policy_dirs;
static int arg_debug, arg_check_config;

static void help(void)
{
        printf("Usage: detshared [OPTION]...\n"
               "Owns one GPU and shares it among programs.\n\n"
               "  --device SPEC      cuda:N, a GPU of this machine, or a simulated one: sim:h200, sim:a2000, sim:p40\n"
               "                     or sim:gtx1080 (default: " DEFAULT_DEVICE ", or " DEFAULT_SIMULATED
               " where there is no GPU)\n"
               "  --socket PATH      where clients connect (default: " DEFAULT_SOCKET ")\n"
               "  --config FILE      configuration file (default: " DEFAULT_CONFIG ", if it is there)\n"
               "  --check-config     check the configuration and exit: 0 it is right, 2 it is not\n"
               "  --policy NAME      scheduling policy to start with\n"
               "  --policy-dir DIR   search DIR for policies first; may be repeated, the first match wins\n"
               "  --libcuda PATH     NVIDIA's libcuda.so.1, if it is not found by itself\n"
               "  --ptxas PATH       the CUDA toolkit's assembler, if it is not found by itself\n"
               "  --state DIR        where compiled code and profiles are kept (default: $STATE_DIRECTORY; else "
               "nowhere)\n"
               "  --transform WHEN   give kernels forms that can be sliced and evicted: auto (default), always or "
               "never\n"
               "  --foreground       stay in the foreground; it always does\n"
               "  --debug            log what happens inside\n"
               "  --version, --help\n\n"
               "Options win over the configuration.\n");
}

static int usage(const char *fmt, const char *what)
{
        fprintf(stderr, "detshared: ");
        fprintf(stderr, fmt, what);
        fprintf(stderr, "; see detshared --help\n");
        return EXIT_USAGE;
}

enum {
        OPT_DEVICE = 256,
        OPT_SOCKET,
        OPT_CONFIG,
        OPT_POLICY,
        OPT_LIBCUDA,
        OPT_PTXAS,
        OPT_STATE,
        OPT_TRANSFORM,
        OPT_POLICY_DIR,
        OPT_CHECK_CONFIG,
        OPT_FOREGROUND,
        OPT_DEBUG,
        OPT_VERSION,
        OPT_HELP,
};

static int check_transform(void)
{
        if (!arg_transform || ds_transform_find(arg_transform) > 0)
                return 0;
        return usage("--transform '%s' is not accepted; always, auto and never are", arg_transform);
}

static int add_policy_dir(const char *path)
{
        struct stat st;

        if (arg_n_policy_dirs == DS_OPTIONS_POLICY_DIRS_MAX)
                return usage("--policy-dir %s: more than 8 directories", path);
        if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
                return usage("--policy-dir %s: not a directory", path);
        arg_policy_dirs[arg_n_policy_dirs++] = path;
        return 0;
}

/* Reads the command line. Returns -1 to continue, otherwise the exit status. */
static int parse_options(int argc, char **argv)
{
        static const struct option options[] = {
                {"device", required_argument, NULL, OPT_DEVICE},
                {"socket", required_argument, NULL, OPT_SOCKET},
                {"config", required_argument, NULL, OPT_CONFIG},
                {"policy", required_argument, NULL, OPT_POLICY},
                {"libcuda", required_argument, NULL, OPT_LIBCUDA},
                {"ptxas", required_argument, NULL, OPT_PTXAS},
                {"state", required_argument, NULL, OPT_STATE},
                {"transform", required_argument, NULL, OPT_TRANSFORM},
                {"policy-dir", required_argument, NULL, OPT_POLICY_DIR},
                {"check-config", no_argument, NULL, OPT_CHECK_CONFIG},
                {"foreground", no_argument, NULL, OPT_FOREGROUND},
                {"debug", no_argument, NULL, OPT_DEBUG},
                {"version", no_argument, NULL, OPT_VERSION},
                {"help", no_argument, NULL, OPT_HELP},
                {0},
        };
        const char **strings[] = {&arg_device, &arg_socket, &arg_config, &arg_policy, &arg_libcuda, &arg_ptxas,
                &arg_state, &arg_transform};
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
                if (c >= OPT_DEVICE && c <= OPT_TRANSFORM) {
                        *strings[c - OPT_DEVICE] = optarg;
                } else if (c == OPT_POLICY_DIR) {
                        if (add_policy_dir(optarg))
                                return EXIT_USAGE;
                } else if (c == OPT_CHECK_CONFIG) {
                        arg_check_config = 1;
                } else if (c == OPT_DEBUG) {
                        arg_debug = 1;
                } else if (c == OPT_VERSION) {
                        printf("detshared %s\n", DETSHARE_VERSION);
                        return 0;
                } else if (c == OPT_HELP) {
                        help();
                        return 0;
                } else if (c != OPT_FOREGROUND) {
                        return EXIT_USAGE; /* getopt has already printed the error */
                }
        }
        if (optind < argc)
                return usage("unexpected argument '%s'", argv[optind]);
        return check_transform() ? EXIT_USAGE : -1;
}

static int read_config(struct ds_config *config)
{
        const char *path = arg_config ? arg_config : DEFAULT_CONFIG;
        const struct ds_log_about refused = {.event = DS_EVENT_CONFIG_REFUSED};
        char message[512] = "";

        if (ds_config_load_all(path, arg_config != NULL, config, message, sizeof(message)) == 0)
                return 0;
        ds_log_about(&refused, DS_LOG_ERROR, "%s", message[0] ? message : strerror(ENOMEM));
        return -1;
}

/* --- programs and policies of the daemon -------------------------------------------------------------------------- */

/* Finds the directory that contains this program. */
static int own_directory(char *buffer, size_t size)
{
        ssize_t n = readlink("/proc/self/exe", buffer, size - 1);
        char *slash;

        if (n < 0)
                return -1;
        buffer[n] = 0;
        slash = strrchr(buffer, '/');
        if (!slash)
                return -1;
        *slash = 0;
        return 0;
}

/* Finds the first pattern, relative to `directory`, that matches a file. Returns 0 and the file's path, or nonzero. */
static int find_first(const char *directory, const char *const *patterns, char *buffer, size_t size)
{
        for (; *patterns; patterns++) {
                char pattern[PATH_MAX];
                glob_t found;
                int n;

                n = snprintf(pattern, sizeof(pattern), "%s/%s", directory, *patterns);
                if (n < 0 || (size_t)n >= sizeof(pattern) || glob(pattern, 0, NULL, &found))
                        continue;
                n = snprintf(buffer, size, "%s", found.gl_pathv[0]);
                globfree(&found);
                if (n >= 0 && (size_t)n < size)
                        return 0;
        }
        return -1;
}

static int find_program(const char *directory, const char *name, char *buffer, size_t size)
{
        char in_build[64], in_libexec[64], in_lib[64], in_arch[64];
        const char *patterns[] = {in_build, in_libexec, in_lib, in_arch, NULL}, *own[] = {name, NULL};
        const char *override = getenv("DETSHARE_LIBEXEC");

        snprintf(in_build, sizeof(in_build), "libexec/%s", name);
        snprintf(in_libexec, sizeof(in_libexec), "../libexec/detshare/%s", name);
        snprintf(in_lib, sizeof(in_lib), "../lib*/detshare/%s", name);
        snprintf(in_arch, sizeof(in_arch), "../lib/*/detshare/%s", name);
        if (find_first(override ? override : directory, override ? own : patterns, buffer, size) == 0)
                return 0;
        fprintf(stderr, "detshared: there is no %s in %s%s\n", name, override ? override : directory,
                override ? "" : "/libexec or ../libexec/detshare");
        return -1;
}

static void find_policies(struct ds_options *options, const char *directory)
{
        static const char *const policies[] = {
                "policies", "../lib*/detshare/policies", "../lib/*/detshare/policies", NULL};

        memcpy(options->policy_dirs, arg_policy_dirs, sizeof(options->policy_dirs));
        options->n_policy_dirs = arg_n_policy_dirs;
        if (find_first(directory, policies, options->policy_dir, sizeof(options->policy_dir)) < 0)
                options->policy_dir[0] = 0;
}

static int find_parts(struct ds_options *options)
{
        static const char *const tables[] = {"../share/detshare/lut", "../lut/tables", "../../lut/tables", NULL};
        char directory[PATH_MAX];

        if (own_directory(directory, sizeof(directory)) < 0) {
                fprintf(stderr, "detshared: /proc/self/exe: %s\n", strerror(errno));
                return -1;
        }
        if (find_program(directory, "detshare-worker", options->worker_path, sizeof(options->worker_path)) < 0 ||
                find_program(directory, "detshare-helper", options->helper_path, sizeof(options->helper_path)) < 0)
                return -1;
        find_policies(options, directory);
        if (options->config->lut)
                snprintf(options->lut_dir, sizeof(options->lut_dir), "%s", options->config->lut);
        else if (find_first(directory, tables, options->lut_dir, sizeof(options->lut_dir)) < 0)
                options->lut_dir[0] = 0;
        return 0;
}

/* The default policy if it is installed, else the built-in one. */
static const char *default_policy(const struct ds_options *options)
{
        return ds_policy_installed(options, DEFAULT_POLICY) ? DEFAULT_POLICY : DS_POLICY_BUILTIN;
}

/* Checks that the configured policy exists. The worker would report a missing policy, too, but without the place in
 * the configuration. */
static int check_policy(const struct ds_options *options)
{
        char where[2048] = "", names[1024];
        size_t n = 0;

        if (strchr(options->policy, '/') || ds_policy_installed(options, options->policy))
                return 0;
        for (size_t i = 0; i < options->n_policy_dirs && n < sizeof(where); i++)
                n += (size_t)snprintf(where + n, sizeof(where) - n, "%s, ", options->policy_dirs[i]);
        ds_policy_names(options, names, sizeof(names));
        ds_log(DS_LOG_ERROR, "%s: there is no policy '%s' in %s%s; there are %s",
                options->policy_given ? "--policy" : options->config->policy_where, options->policy, where,
                options->policy_dir[0] ? options->policy_dir : "this installation, which has no policies", names);
        return -1;
}

/* --check-config: reads what the daemon would read, and starts nothing. Returns the exit status. */
static int check_config(void)
{
        struct ds_config config = {0};
        struct ds_options options = {.config = &config};
        char directory[PATH_MAX];
        int r = EXIT_USAGE;

        if (read_config(&config) == 0 && own_directory(directory, sizeof(directory)) == 0) {
                find_policies(&options, directory);
                options.policy = config.policy;
                if (!config.policy || check_policy(&options) == 0)
                        r = EXIT_SUCCESS;
        }
        if (r == EXIT_SUCCESS && config.read)
                printf("OK: %s\n", config.read);
        else if (r == EXIT_SUCCESS)
                printf("OK: there is no " DEFAULT_CONFIG ", every key has its default\n");
        ds_config_deinit(&config);
        return r;
}

/*
 * The device to use by default: the GPU if its driver has created device nodes, even if the GPU may be unusable. The
 * worker then reports why, which is better than an unexpected simulated GPU.
 */
static const char *default_device(void)
{
        glob_t found;
        int there = 0;

        if (access("/dev/nvidiactl", F_OK) == 0 && glob("/dev/nvidia[0-9]*", GLOB_NOSORT, NULL, &found) == 0) {
                there = found.gl_pathc > 0;
                globfree(&found);
        }
        return there ? DEFAULT_DEVICE : DEFAULT_SIMULATED;
}

/* --- start -------------------------------------------------------------------------------------------------------- */

/* Opens descriptors 0, 1 and 2 on /dev/null if they are closed: otherwise a client's socket could become standard
 * output. */
static void open_standard_fds(void)
{
        int fd;

        do
                fd = open("/dev/null", O_RDWR);
        while (fd >= 0 && fd <= 2);
        if (fd > 2)
                close(fd);
}

static void raise_file_limit(void)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0)
                return;
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
}

/*
 * Raises the priority of this process, and of the worker, which inherits it. Requests of all users pass through both.
 * Without the priority, programs that flood the daemon with requests would also compete with it for the processor, for
 * milliseconds at a time. The work per user is bounded (turns.h), and the helper sets its priority back to 0. Under a
 * service manager the unit sets the priority, and this call fails.
 */
static void raise_priority(void)
{
        errno = 0;
        if (getpriority(PRIO_PROCESS, 0) > NICE && !errno)
                (void)setpriority(PRIO_PROCESS, 0, NICE);
}

static int run(struct ds_options *options)
{
        struct ds_supervisor *supervisor;
        int r;

        if (find_parts(options) < 0)
                return EXIT_FAILURE;
        if (!options->policy)
                options->policy = default_policy(options);
        if (check_policy(options) < 0)
                return EXIT_FAILURE;
        if (ds_supervisor_new(options, &supervisor))
                return EXIT_FAILURE;
        r = ds_supervisor_run(supervisor);
        ds_supervisor_free(supervisor);
        return r;
}

/* Replaces a value of the configuration by that of an option, if it was given. Returns 0, or -1: out of memory. */
static int override(char **key, const char *option)
{
        char *copy = option ? ds_strdup(option) : NULL;

        if (option && !copy) {
                fprintf(stderr, "detshared: %s\n", strerror(ENOMEM));
                return -1;
        }
        if (copy) {
                ds_free(*key);
                *key = copy;
        }
        return 0;
}

/* Finds the state directory. systemd may pass several directories; the first one is used. */
static int find_state(struct ds_config *config)
{
        const char *given = config->state ? NULL : getenv("STATE_DIRECTORY");
        char first[PATH_MAX];

        if (arg_state || !given || !given[0])
                return override(&config->state, arg_state);
        snprintf(first, sizeof(first), "%.*s", (int)strcspn(given, ":"), given);
        return override(&config->state, first);
}

static const char *first_of(const char *a, const char *b, const char *c)
{
        return a ? a : b ? b : c;
}

static enum ds_transform transform_of(const struct ds_config *config)
{
        if (arg_transform)
                return ds_transform_find(arg_transform);
        return config->transform ? (enum ds_transform)config->transform : DS_TRANSFORM_AUTO;
}

int main(int argc, char **argv)
{
        struct ds_config config = {0};
        struct ds_options options = {.config = &config};
        int r;

        signal(SIGHUP, SIG_IGN); /* SIGHUP is ignored until the daemon can reload */

        open_standard_fds();
        umask(0022);
        r = parse_options(argc, argv);
        if (r >= 0)
                return r;
        ds_log_setup("detshared", arg_debug ? DS_LOG_DEBUG : DS_LOG_INFO);
        if (arg_check_config)
                return check_config();
        signal(SIGPIPE, SIG_IGN);
        /* the limit of file sizes also applies to memfds: exceeding it must cause an error instead of a signal */
        signal(SIGXFSZ, SIG_IGN);
        raise_file_limit();
        raise_priority();
        /* must precede every opening of a file: passed files are identified by their descriptor numbers */
        if (ds_notify_new(&options.notify))
                return EXIT_FAILURE;
        ds_journal_start("detshared", NULL);
        r = EXIT_FAILURE;
        options.config_path = arg_config ? arg_config : DEFAULT_CONFIG;
        options.config_must_exist = arg_config != NULL;
        if (read_config(&config) == 0 && override(&config.libcuda, arg_libcuda) == 0 &&
                override(&config.ptxas, arg_ptxas) == 0 && find_state(&config) == 0) {
                options.device = first_of(arg_device, config.device, NULL);
                if (!options.device)
                        options.device = default_device();
                options.socket = first_of(arg_socket, config.socket, DEFAULT_SOCKET);
                options.socket_given = arg_socket || config.socket;
                options.policy = first_of(arg_policy, config.policy, NULL);
                options.policy_given = arg_policy != NULL;
                options.transform = transform_of(&config);
                r = run(&options);
        }
        ds_config_deinit(&config);
        ds_notify_free(options.notify);
        ds_journal_stop();
        return r;
}
