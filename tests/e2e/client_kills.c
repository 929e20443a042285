/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients killed at any moment: the others notice nothing and the daemon returns to its baseline
 *
 * 32 clients of every kind in load.h work without end. SIGKILL ends one after the other at random times, a quarter of
 * them just after their start: while idle, within a frame, with open requests, with queued and running work, while they
 * hold memory and modules, while they connect and attach. A new client replaces each. At times all are killed at once,
 * and the test measures how long the daemon still holds anything of them. Two bystanders repeat the same work and check
 * every result. At the end the worker is killed between the clients, so that clients die while they attach again.
 *
 * The times are printed. They are judged only if the third argument is "judge", since other tests may run on the
 * machine.
 *
 * Kernels are native: forms that the daemon makes for the bystanders during the test would look like a leak. With
 * CLIENT_KILLS_TRANSFORM=auto or always kernels have forms, and the baseline allows charges for those of the
 * bystanders.
 *
 * usage: client_kills BUILD [KILLS] [judge] [SEED]     (KILLS at least 32)
 */
#include "tests/e2e/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/load/load.h"

#define DEVICE "sim:h200"
#define CLIENTS 32
#define BYSTANDERS 2
#define BATCH 100
#define SAMPLES (1u << 19)
/* time for the daemon to return to its baseline, ms; generous for a slow machine, since a leak never goes away */
#define BASELINE_MS 60000
#define BASELINE_SIM_US 100000u
#define BASELINE_GPU_US 1000000u
#define PHASES 2
#define FORMS_CHARGES 8 /* charges that may remain for forms of the two bystanders' kernels */

static const char *build;
static uint64_t seed;
static pid_t children[CLIENTS], bystanders[BYSTANDERS];

/* Memory shared with the bystanders. */
struct notes {
        _Atomic int phase; /* 0: no kills; 1: clients are killed; 2: the worker is killed, too */
        _Atomic int ready;
        _Atomic uint32_t n[PHASES], rounds, errors;
        uint32_t samples[PHASES][SAMPLES]; /* duration of each round, us */
};
static struct notes *notes;

/* --- processes ---------------------------------------------------------------------------------------------------- */

static void become_client(void)
{
        int null = open("/dev/null", O_WRONLY);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(null, STDOUT_FILENO);
        if (notes->phase == 2)
                dup2(null, STDERR_FILENO);
}

/* Works until it is killed. A worker's death causes an error; the client then opens a new session. */
static void client_main(enum load_kind kind, uint64_t own_seed)
{
        struct load load;
        int r;

        become_client();
        load_init(&load, kind, build, own_seed);
        for (;;) {
                r = load_open(&load);
                while (!r)
                        r = load_step(&load);
                if (r == LOAD_E_WRONG)
                        _exit(11);
                load_reset(&load);
                usleep(1000);
        }
}

static void bystander_main(int i)
{
        struct load load;
        int r = 1;

        become_client();
        load_init(&load, LOAD_STEADY, build, (uint64_t)i);
        setenv("DETSHARE_TRANSPORT", i ? "rpc" : "ring", 1);
        for (;;) {
                const int phase = notes->phase, open = !r;
                const uint64_t begin = h_now_us();

                r = open ? load_step(&load) : load_open(&load);
                if (r == LOAD_E_WRONG || (r && notes->phase < 2))
                        notes->errors++;
                if (r) {
                        load_reset(&load);
                        usleep(1000);
                        continue;
                }
                /* The first round makes what later rounds keep, such as memory for copies. */
                if (open)
                        notes->ready |= 1 << i;
                notes->rounds++;
                if (phase < PHASES && notes->n[phase] < SAMPLES - BYSTANDERS)
                        notes->samples[phase][notes->n[phase]++] = (uint32_t)(h_now_us() - begin);
        }
}

static void spawn(int i)
{
        const enum load_kind kind = (enum load_kind)(h_random(&seed) % LOAD_STEADY);
        const uint64_t own_seed = h_random(&seed);

        fflush(stdout);
        children[i] = fork();
        if (children[i] == 0)
                client_main(kind, own_seed);
}

static void end(pid_t pid, const char *who)
{
        int status = 0;

        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        h_check(WIFSIGNALED(status), "%s ended by itself, status %#x", who, (unsigned)status);
}

/* --- kills -------------------------------------------------------------------------------------------------------- */

static void kill_some(long kills, int worker_every)
{
        struct h_status status;

        for (long k = 0; k < kills; k++) {
                const int i = (int)(h_random(&seed) % CLIENTS);

                usleep((useconds_t)(h_random(&seed) % 8000));
                end(children[i], "a client");
                spawn(i);
                if (h_random(&seed) % 4 == 0) { /* the next client is killed just after its start */
                        usleep((useconds_t)(h_random(&seed) % 6000));
                        end(children[i], "a client");
                        spawn(i);
                        k++;
                }
                if (worker_every && k % worker_every < 2 &&
                        h_check(h_status(&status) == 0, "the daemon says who its worker is") && status.worker_pid)
                        h_check(kill((pid_t)status.worker_pid, SIGKILL) == 0 || errno == ESRCH, "the worker is killed");
        }
}

static int is_back(const struct h_status *before, const struct h_status *now)
{
        return now->sessions <= before->sessions && now->open_fds <= before->open_fds &&
               now->windows <= before->windows && now->charges <= before->charges &&
               now->memory_slabs <= before->memory_slabs && now->memory_used <= before->memory_used &&
               now->modules <= before->modules;
}

/* Kills all clients at once. Returns the time until the daemon holds nothing of them, us. */
static uint32_t kill_all(const struct h_status *before)
{
        uint64_t begin;
        struct h_status now;

        for (int i = 0; i < CLIENTS; i++)
                kill(children[i], SIGKILL);
        begin = h_now_us();
        for (int i = 0; i < CLIENTS; i++)
                waitpid(children[i], NULL, 0);
        while (h_now_us() - begin < BASELINE_MS * 1000u)
                if (h_status(&now) == 0 && is_back(before, &now))
                        return (uint32_t)(h_now_us() - begin);
        h_baseline(before, 100, "after all were killed"); /* reports what the daemon still holds */
        return BASELINE_MS * 1000u;
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

static uint32_t percentile(const uint32_t *sorted, size_t n, unsigned p)
{
        return n ? sorted[(n - 1) * p / 100] : 0;
}

static void print_rss(const char *when)
{
        struct h_status status = {0};

        if (h_status(&status) == 0)
                printf("%s: supervisor %ld, worker %ld, helper %ld KiB\n", when, h_memory_kb(h_daemon_pid(), "VmRSS"),
                        h_memory_kb((pid_t)status.worker_pid, "VmRSS"), h_memory_kb((pid_t)status.helper_pid, "VmRSS"));
}

static void print_bystanders(void)
{
        static const char *const names[PHASES] = {"beside 32 clients", "while clients are killed"};

        for (int i = 0; i < PHASES; i++) {
                const size_t n = notes->n[i];

                qsort(notes->samples[i], n, sizeof(uint32_t), h_by_value);
                printf("bystanders %s: %zu rounds, p50 %.2f p99 %.2f max %.2f ms\n", names[i], n,
                        percentile(notes->samples[i], n, 50) / 1000.0, percentile(notes->samples[i], n, 99) / 1000.0,
                        percentile(notes->samples[i], n, 100) / 1000.0);
        }
}

/* --- the test ----------------------------------------------------------------------------------------------------- */

static void main_part(long kills, int judge, const struct h_status *before)
{
        const long batch = kills < BATCH ? kills : BATCH;
        const size_t n = (size_t)(kills / batch);
        uint32_t *back = calloc(n, sizeof(*back));

        if (!back)
                exit(2);
        for (size_t i = 0; i < n; i++) {
                kill_some(batch - CLIENTS, 0);
                back[i] = kill_all(before);
                if (i == 0 || i == n - 1)
                        print_rss(i ? "memory at the end" : "memory after the first batch");
                for (int c = 0; c < CLIENTS && i < n - 1; c++)
                        spawn(c);
        }
        qsort(back, n, sizeof(*back), h_by_value);
        printf("%zu kills, %zu times all at once: back at the baseline after p50 %.1f p99 %.1f max %.1f ms\n",
                n * (size_t)batch, n, percentile(back, n, 50) / 1000.0, percentile(back, n, 99) / 1000.0,
                back[n - 1] / 1000.0);
        if (judge)
                h_check(percentile(back, n, 99) <= (h_simulated(DEVICE) ? BASELINE_SIM_US : BASELINE_GPU_US),
                        "the baseline takes %.1f ms", percentile(back, n, 99) / 1000.0);
        h_check(back[n - 1] < BASELINE_MS * 1000u, "back at the baseline");
        free(back);
}

static void with_worker_deaths(long kills, const struct h_status *before)
{
        const uint32_t rounds = notes->rounds;
        struct h_status after = {0};

        notes->phase = 2;
        for (int i = 0; i < CLIENTS; i++)
                spawn(i);
        kill_some(kills, 25);
        (void)kill_all(before);
        for (uint64_t stop = h_now_ms() + 20000; notes->rounds < rounds + 10 && h_now_ms() < stop;)
                h_sleep_ms(5);
        h_check(notes->rounds >= rounds + 10, "the bystanders do not continue after the worker's deaths");
        /* Waits for the new worker: a GPU's worker needs time to exit, and the bystanders may have finished their
         * rounds before. */
        for (uint64_t stop = h_now_ms() + 20000; h_now_ms() < stop; h_sleep_ms(5))
                if (h_status(&after) == 0 && after.worker_restarts > before->worker_restarts)
                        break;
        h_check(after.worker_restarts > before->worker_restarts, "the worker was restarted");
        for (int i = 0; i < BYSTANDERS; i++)
                end(bystanders[i], "a bystander");
}

static void start_bystanders(void)
{
        for (int i = 0; i < BYSTANDERS; i++) {
                fflush(stdout);
                bystanders[i] = fork();
                if (bystanders[i] == 0)
                        bystander_main(i);
        }
        for (uint64_t stop = h_now_ms() + 20000; notes->ready != (1 << BYSTANDERS) - 1 && h_now_ms() < stop;)
                h_sleep_ms(2);
        h_check(notes->ready == (1 << BYSTANDERS) - 1, "the bystanders work");
        h_sleep_ms(50);
}

int main(int argc, char **argv)
{
        const char *transform = getenv("CLIENT_KILLS_TRANSFORM");
        long kills = argc > 2 ? strtol(argv[2], NULL, 10) : 300;
        int judge = argc > 3 && !strcmp(argv[3], "judge");
        struct h_status alone, before, after = {0};

        seed = argc > 4 ? strtoull(argv[4], NULL, 0) : (uint64_t)getpid() * 2654435761u + 1;
        notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (argc < 2 || notes == MAP_FAILED || kills < CLIENTS)
                return 2;
        build = argv[1];
        setbuf(stdout, NULL);
        printf("seed %llu, %ld kills%s%s\n", (unsigned long long)seed, kills, transform ? ", --transform " : "",
                transform ? transform : "");
        h_daemon_start(build, DEVICE, (const char *const[]){"--transform", transform ? transform : "never", NULL});
        alone = h_quiet();
        start_bystanders();
        before = h_quiet();
        before.charges += transform ? FORMS_CHARGES : 0;
        printf("baseline: %u descriptors, %u charges\n", (unsigned)before.open_fds, (unsigned)before.charges);
        print_rss("memory at the beginning");
        for (int i = 0; i < CLIENTS; i++)
                spawn(i);
        h_sleep_ms(kills > 1000 ? 5000 : 500);
        notes->phase = 1;
        main_part(kills, judge, &before);
        h_check(notes->errors == 0, "the bystanders noticed: %u errors", (unsigned)notes->errors);
        h_check(h_status(&after) == 0 && after.worker_restarts == before.worker_restarts &&
                        after.worker_pid == before.worker_pid && after.helper_pid == before.helper_pid,
                "a child of the daemon was restarted by client kills");
        print_bystanders();
        with_worker_deaths(kills > 1000 ? 500 : 50, &before);
        h_baseline(&alone, BASELINE_MS, "after all clients were killed");
        return h_finish();
}
