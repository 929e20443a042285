/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-worker: started by detshared with its end of a socketpair as fd 3
 *
 * Exit status: 0 when told to stop or when the supervisor is gone, 1 after a fatal error, 2 for wrong usage.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>

#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"
#include "worker/worker.h"

#define WORKER_FD 3
#define WORKER_LIFE_PER_S 16

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

/* Every session holds files; and nothing that is loaded later may gain rights. */
static void main_process(void)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
                files.rlim_cur = files.rlim_max;
                setrlimit(RLIMIT_NOFILE, &files);
        }
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
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
        int r;

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
        main_process();
        return main_run(&config) ? EXIT_FAILURE : EXIT_SUCCESS;
}
