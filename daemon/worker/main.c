/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-worker: started by detshared with its end of a socketpair as fd 3
 *
 * It executes what clients send, so it keeps nothing of root: before it looks at the device it becomes the user
 * `detshare` where there is one (with that user's groups: the GPU's device nodes may belong to one), else a number that
 * is nobody's. The policy directory is opened before that, because its path may lead through places that are root's.
 *
 * Exit status: 0 when told to stop or when the supervisor is gone, 1 after a fatal error, 2 for wrong usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"
#include "worker/worker.h"

#define WORKER_FD 3
#define WORKER_LIFE_PER_S 16
#define WORKER_USER "detshare"
#define WORKER_UID 65533u /* without that user: not 65534, programs of nobody could kill the worker */

static int main_options(int argc, char **argv, struct ds_worker_config *config)
{
        static const struct option options[] = {
                {"device", required_argument, NULL, 'd'},
                {"policy", required_argument, NULL, 'p'},
                {"policy-dir", required_argument, NULL, 'P'},
                {NULL, 0, NULL, 0},
        };
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
                switch (c) {
                case 'd':
                        config->device = optarg;
                        break;
                case 'p':
                        config->policy = optarg;
                        break;
                case 'P':
                        config->policy_dir = optarg;
                        break;
                default:
                        return -EINVAL;
                }
        }
        return optind == argc && config->device ? 0 : -EINVAL;
}

/* Stop signals are read from a descriptor. */
static int main_signal_fd(int *ret)
{
        sigset_t set;
        int fd;

        signal(SIGPIPE, SIG_IGN);
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

static int main_become_nobody(void)
{
        const struct passwd *pw = getpwnam(WORKER_USER);
        const uid_t uid = pw && pw->pw_uid ? pw->pw_uid : WORKER_UID;
        const gid_t gid = pw && pw->pw_uid ? pw->pw_gid : WORKER_UID;
        const int r = uid == WORKER_UID ? setgroups(0, NULL) : initgroups(WORKER_USER, gid);

        if (r < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
                return ds_error_origin(-errno);
        return 0;
}

/* Every session holds files; and nothing that is loaded later may gain rights. */
static int main_process(void)
{
        struct rlimit files;
        int r;

        if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
                files.rlim_cur = files.rlim_max;
                setrlimit(RLIMIT_NOFILE, &files);
        }
        if (geteuid() == 0) {
                r = main_become_nobody();
                if (r)
                        return ds_error_trace(r);
        }
        /* changing the user takes the parent's death signal back */
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return ds_error_origin(-errno);
        return 0;
}

static uint64_t main_life(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_REALTIME, &ts);
        return (uint64_t)ts.tv_sec * WORKER_LIFE_PER_S + (uint64_t)ts.tv_nsec / (DS_NS_PER_S / WORKER_LIFE_PER_S);
}

static int main_run(struct ds_worker_config *config)
{
        ds_cleanup(ds_worker_freep) ds_worker *worker = NULL;
        ds_cleanup(ds_closep) int signal_fd = -1;
        ds_cleanup(ds_closep) int policy_dir_fd = -1;
        int r;

        if (config->policy_dir[0])
                policy_dir_fd = open(config->policy_dir, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        config->policy_dir_fd = policy_dir_fd > 0 ? policy_dir_fd : 0;
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
        /* clients learn from their sockets that the daemon is gone; giving up their work in order would tell them less
         */
        if (r == DS_WORKER_E_DONE && ds_worker_orphaned(worker))
                _exit(0);
        return r == DS_WORKER_E_DONE ? 0 : ds_error_trace(r);
}

int main(int argc, char **argv)
{
        struct ds_worker_config config = {.policy = "fifo", .policy_dir = ""};

        ds_log_setup("detshare-worker", DS_LOG_INFO);
        if (main_options(argc, argv, &config)) {
                fprintf(stderr, "usage: detshare-worker --device SPEC [--policy NAME] [--policy-dir DIR], with the "
                                "supervisor's socket as fd 3\n");
                return 2;
        }
        return main_run(&config) ? EXIT_FAILURE : EXIT_SUCCESS;
}
