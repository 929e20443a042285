/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients killed at any moment: the others notice nothing and the daemon is back at its baseline
 *
 * Children work without end (allocate, copy, launch, synchronise, load modules, make streams) and are killed with
 * SIGKILL after a random time, while a bystander does the same work and checks every result. At the end also SIGTERM
 * under load.
 *
 * usage: client_kills BUILD [KILLS] [SEED]
 */
#include "tests/e2e/harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"

#define N 4096
#define CHILDREN 4

static const char *build;

static int launch_fill(dsc_session *s, uint32_t stream, const struct dsc_kernel *kernel, uint64_t p, uint32_t value)
{
        struct {
                uint64_t p;
                uint32_t n, value;
        } params = {p, N, value};
        struct dsc_launch l = {.kernel = kernel->id,
                .grid = {N / 256, 1, 1},
                .block = {256, 1, 1},
                .params = &params,
                .params_size = sizeof(params)};

        return dsc_launch(s, stream, &l);
}

/* One round of everything; 0 if every result was right. */
static int work_round(dsc_session *s, const char *ptx, size_t size, uint32_t value)
{
        static uint32_t host[N];
        struct dsc_kernel fill;
        uint64_t module, p, q;
        uint32_t stream;
        void *pinned;
        int r;

        if ((r = dsc_module_load(s, ptx, size + 1, NULL, 0, &module)) || (r = dsc_kernel_get(s, module, "fill", &fill)))
                return r;
        if ((r = dsc_mem_alloc(s, N * 4, &p)) || (r = dsc_mem_alloc(s, 5u << 20, &q)) ||
                (r = dsc_host_alloc(s, 65536, &pinned)) || (r = dsc_stream_create(s, 0, 1, &stream)))
                return r;
        for (uint32_t i = 0; i < 10; i++)
                if ((r = launch_fill(s, stream, &fill, p, value + i)))
                        return r;
        if ((r = dsc_read(s, stream, host, 0, p, 0, sizeof(host), 1)))
                return r;
        for (uint32_t i = 0; i < N; i++)
                if (host[i] != value + 9)
                        return -2;
        dsc_kernel_clear(&fill);
        if ((r = dsc_stream_destroy(s, stream)) || (r = dsc_host_free(s, pinned)) || (r = dsc_mem_free(s, q)) ||
                (r = dsc_mem_free(s, p)) || (r = dsc_module_unload(s, module)))
                return r;
        return 0;
}

static int worker_child(uint32_t seed, int endless, const int *stop_fd)
{
        int error, r;
        dsc_session *s = dsc_get(&error);
        char path[300], c;
        size_t size;
        char *ptx;

        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        ptx = h_read_file(path, &size);
        if (!s)
                return 10;
        for (uint32_t i = 0;; i++) {
                if ((r = work_round(s, ptx, size, seed + i)) != 0) {
                        if (!endless)
                                printf("bystander: round %u: %d %s\n", i, r, dsc_message());
                        fflush(stdout);
                        return 11;
                }
                if (!endless && stop_fd && read(*stop_fd, &c, 1) != -1)
                        break;
        }
        free(ptx);
        return 0;
}

static pid_t spawn(uint32_t seed, int endless, const int *stop_fd)
{
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                setenv("DETSHARE_TRANSPORT", seed % 3 ? "ring" : "rpc", 1);
                _exit(worker_child(seed, endless, stop_fd));
        }
        return pid;
}

static void kill_loop(long kills, uint64_t *seed)
{
        pid_t child[CHILDREN];

        for (int i = 0; i < CHILDREN; i++)
                child[i] = spawn((uint32_t)h_random(seed), 1, NULL);
        for (long k = 0; k < kills; k++) {
                int i = (int)(h_random(seed) % CHILDREN);

                usleep((useconds_t)(h_random(seed) % 40000));
                kill(child[i], SIGKILL);
                waitpid(child[i], NULL, 0);
                child[i] = spawn((uint32_t)h_random(seed), 1, NULL);
        }
        for (int i = 0; i < CHILDREN; i++) {
                kill(child[i], SIGKILL);
                waitpid(child[i], NULL, 0);
        }
}

static void stop_under_load(uint64_t *seed)
{
        pid_t child[CHILDREN];
        int ms;

        for (int i = 0; i < CHILDREN; i++)
                child[i] = spawn((uint32_t)h_random(seed), 1, NULL);
        h_sleep_ms(300);
        ms = h_daemon_stop();
        h_check(ms >= 0, "SIGTERM under load: no clean exit");
        h_check(ms <= 2000, "SIGTERM under load took %d ms", ms);
        for (int i = 0; i < CHILDREN; i++) {
                uint64_t end = h_now_ms() + 15000;
                int status, done = 0;

                while (h_now_ms() < end && !(done = waitpid(child[i], &status, WNOHANG) == child[i]))
                        h_sleep_ms(10);
                h_check(done && WIFEXITED(status) && WEXITSTATUS(status) == 11,
                        "a client of the stopped daemon did not get an error (%s)", done ? "other exit" : "it hangs");
                if (!done) {
                        kill(child[i], SIGKILL);
                        waitpid(child[i], &status, 0);
                }
        }
}

int main(int argc, char **argv)
{
        long kills = argc > 2 ? strtol(argv[2], NULL, 10) : 150;
        uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)getpid() * 2654435761u + 1;
        struct h_status before, after;
        int pipes[2], status;
        pid_t bystander;

        if (argc < 2 || pipe2(pipes, O_NONBLOCK))
                return 2;
        build = argv[1];
        printf("seed %llu, %ld kills\n", (unsigned long long)seed, kills);
        h_daemon_start(build, "sim:h200", NULL);
        before = h_quiet();
        bystander = spawn(7, 0, &pipes[0]);
        kill_loop(kills, &seed);
        h_check(write(pipes[1], "s", 1) == 1, "tell the bystander");
        waitpid(bystander, &status, 0);
        h_check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the bystander noticed (status %d)", status);
        h_baseline(&before, 5000, "after the kills");
        h_check(h_status(&after) == 0 && after.worker_restarts == before.worker_restarts,
                "the worker was restarted by client kills");
        stop_under_load(&seed);
        return h_finish();
}
