/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every acknowledged kernel leaves the right bytes while every process is killed and stopped at random
 *
 * Verified clients (ring and socket, latency-sensitive and best-effort) launch batches of kernels, each of which writes
 * its own value. The kernels of a batch are acknowledged once a wait for the batch succeeds. Then the client reads and
 * compares every byte of this batch and of the previous one: device memory must outlive workers.
 *
 * Meanwhile a killer with a seed kills the worker, the helper and hostile clients with SIGKILL, and stops worker,
 * helper, supervisor and clients for up to 60 ms with SIGSTOP. An error is allowed at any time, and costs the client
 * its session's contents. A wrong byte is never allowed. tests/e2e/daemon_kills.c kills the supervisor, and
 * tests/e2e/handover.c restarts it.
 *
 * The test ends after a given number of verified kernels and of killed workers.
 *
 * usage: kernel_kills BUILD [KERNELS [SEED]]     (DETSHARE_SOAK=1: 68,000 kernels)
 */
#include "tests/e2e/harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/load/load.h"

#define DEVICE "sim:h200"
#define CLIENTS 4u
#define HOSTILE 4u
#define BATCH 32u /* kernels per batch */
#define WORDS 64u /* words that each kernel writes */
#define KERNELS 3000u
#define KERNELS_SOAK 68000u
#define DEATHS 5u /* minimum number of killed workers */
#define STOP_MS 60u
#define LIMIT_MS 600000u

static const enum load_kind hostile_kinds[HOSTILE] = {LOAD_RING, LOAD_IMAGES, LOAD_HALF, LOAD_PRINT};

static const char *build;
static uint64_t seed;
static pid_t clients[CLIENTS], hostile[HOSTILE];

static struct notes {
        _Atomic int end;
        /* kept: kernels of the previous batch whose words were verified a second time */
        _Atomic uint64_t verified, kept, wrong, errors;
        _Atomic uint64_t of[CLIENTS];
} * notes;

/* --- verified clients --------------------------------------------------------------------------------------------- */

struct client {
        uint32_t which;
        dsc_session *s;
        struct dsc_kernel fill;
        uint64_t memory;          /* device memory of two batches */
        uint32_t batch, valid[2]; /* numbers of the batches whose values the two halves of the memory hold; 0: none */
};

static uint32_t value_of(const struct client *c, uint32_t batch, uint32_t kernel)
{
        uint32_t x = (batch * BATCH + kernel) * 2654435761u ^ (c->which + 1) * 0x9e3779b9u;

        return x ^ x >> 15;
}

static int client_open(struct client *c)
{
        char path[300];
        uint64_t module;
        size_t size;
        int error, r;
        char *ptx;

        c->valid[0] = c->valid[1] = 0;
        c->s = dsc_get(&error);
        if (!c->s)
                return error ? error : 1;
        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        ptx = h_read_file(path, &size);
        r = dsc_module_load(c->s, ptx, size + 1, NULL, 0, &module);
        free(ptx);
        if (!r)
                r = dsc_kernel_get(c->s, module, "fill", &c->fill);
        return r ? r : dsc_mem_alloc(c->s, 2 * BATCH * WORDS * 4, &c->memory);
}

static uint64_t half_of(const struct client *c, uint32_t batch)
{
        return c->memory + (uint64_t)(batch % 2) * BATCH * WORDS * 4;
}

static int client_launch(struct client *c, uint32_t kernel)
{
        struct {
                uint64_t p;
                uint32_t n, value;
        } params = {half_of(c, c->batch) + (uint64_t)kernel * WORDS * 4, WORDS, value_of(c, c->batch, kernel)};
        struct dsc_launch l = {.kernel = c->fill.id,
                .grid = {1, 1, 1},
                .block = {WORDS, 1, 1},
                .params = &params,
                .params_size = sizeof(params)};

        return dsc_launch(c->s, 0, &l);
}

/* Compares every word of a batch and counts its kernels. */
static int client_verify(struct client *c, uint32_t batch, _Atomic uint64_t *count)
{
        static uint32_t host[BATCH * WORDS];
        int r = dsc_read(c->s, 0, host, 0, half_of(c, batch), 0, sizeof(host), 1);

        for (uint32_t i = 0; !r && i < BATCH * WORDS; i++)
                if (host[i] != value_of(c, batch, i / WORDS)) {
                        printf("FAIL client %u, batch %u, kernel %u, word %u: %#x instead of %#x\n", c->which, batch,
                                i / WORDS, i % WORDS, host[i], value_of(c, batch, i / WORDS));
                        fflush(stdout);
                        atomic_fetch_add(&notes->wrong, 1);
                        break;
                }
        if (!r)
                atomic_fetch_add(count, BATCH);
        return r;
}

static int client_batch(struct client *c)
{
        const uint32_t before = c->batch++;
        int r = 0;

        c->valid[c->batch % 2] = 0;
        for (uint32_t i = 0; !r && i < BATCH; i++)
                r = client_launch(c, i);
        if (!r)
                r = dsc_wait_all(c->s);
        if (!r)
                r = client_verify(c, c->batch, &notes->verified);
        if (r)
                return r;
        c->valid[c->batch % 2] = c->batch;
        atomic_fetch_add(&notes->of[c->which], BATCH);
        return before && c->valid[before % 2] == before ? client_verify(c, before, &notes->kept) : 0;
}

static void client_main(uint32_t which)
{
        struct client c = {.which = which};
        int null = open("/dev/null", O_WRONLY), r = 1;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(null, STDERR_FILENO);
        setenv("DETSHARE_TRANSPORT", which % 2 ? "rpc" : "ring", 1);
        setenv("DETSHARE_CLASS", which / 2 % 2 ? "ls" : "be", 1);
        while (!atomic_load(&notes->end)) {
                r = r ? client_open(&c) : client_batch(&c);
                if (!r)
                        continue;
                atomic_fetch_add(&notes->errors, 1);
                if (c.s)
                        dsc_reset(c.s);
                h_sleep_ms(1);
        }
        _exit(0);
}

static void hostile_main(uint32_t which, uint64_t own_seed)
{
        struct load load;
        int null = open("/dev/null", O_WRONLY);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        load_init(&load, hostile_kinds[which], build, own_seed);
        for (;;) {
                int r = load_open(&load);

                while (!r) {
                        r = load_step(&load);
                        h_sleep_ms(2); /* the hostile client pauses, so that the verified clients get processors */
                }
                load_reset(&load);
                h_sleep_ms(5);
        }
}

static void hostile_spawn(uint32_t which)
{
        uint64_t own_seed = h_random(&seed);

        fflush(stdout);
        hostile[which] = fork();
        if (hostile[which] == 0)
                hostile_main(which, own_seed);
}

/* --- the killer --------------------------------------------------------------------------------------------------- */

static void stop_for_a_while(pid_t pid)
{
        if (pid <= 0 || kill(pid, SIGSTOP))
                return;
        h_sleep_ms((int)(h_random(&seed) % STOP_MS) + 1);
        kill(pid, SIGCONT);
}

/* Does one random thing: stops or kills a process. Stops are more frequent, so that stopped processes get killed,
 * too. Returns 1 if it killed the worker. */
static int act(const struct h_status *now)
{
        uint32_t which = (uint32_t)(h_random(&seed) % HOSTILE);

        switch (h_random(&seed) % 10) {
        case 0:
        case 1:
                return now->worker_pid && kill((pid_t)now->worker_pid, SIGKILL) == 0;
        case 2:
                if (now->helper_pid)
                        kill((pid_t)now->helper_pid, SIGKILL);
                return 0;
        case 3:
        case 4:
                kill(hostile[which], SIGKILL);
                waitpid(hostile[which], NULL, 0);
                hostile_spawn(which);
                return 0;
        case 5:
                stop_for_a_while(h_daemon_pid());
                return 0;
        case 6:
                stop_for_a_while((pid_t)now->worker_pid);
                return 0;
        case 7:
                stop_for_a_while((pid_t)now->helper_pid);
                return 0;
        case 8:
                stop_for_a_while(hostile[which]);
                return 0;
        default:
                stop_for_a_while(clients[h_random(&seed) % CLIENTS]);
                return 0;
        }
}

static uint64_t served_least(void)
{
        uint64_t least = UINT64_MAX;

        for (uint32_t i = 0; i < CLIENTS; i++) {
                uint64_t of = atomic_load(&notes->of[i]);

                least = of < least ? of : least;
        }
        return least;
}

/* Runs until enough kernels are verified, in total and of each client. Returns the number of killed workers. */
static uint32_t storm(uint64_t kernels)
{
        const uint64_t end = h_now_ms() + LIMIT_MS;
        struct h_status now;
        uint32_t deaths = 0;

        while (h_now_ms() < end && !atomic_load(&notes->wrong) &&
                (atomic_load(&notes->verified) < kernels || deaths < DEATHS || !served_least())) {
                h_sleep_ms((int)(h_random(&seed) % 150) + 20);
                if (h_status(&now) == 0)
                        deaths += (uint32_t)act(&now);
        }
        return deaths;
}

static void finish_clients(void)
{
        int status;

        atomic_store(&notes->end, 1);
        for (uint32_t i = 0; i < CLIENTS; i++)
                h_check(waitpid(clients[i], &status, 0) == clients[i] && status == 0, "client %u ended with %#x", i,
                        (unsigned)status);
        for (uint32_t i = 0; i < HOSTILE; i++) {
                kill(hostile[i], SIGKILL);
                waitpid(hostile[i], NULL, 0);
        }
}

int main(int argc, char **argv)
{
        uint64_t kernels = getenv("DETSHARE_SOAK") ? KERNELS_SOAK : KERNELS, begin;
        struct h_status before, after = {0};
        uint32_t deaths;

        if (argc < 2)
                return 2;
        build = argv[1];
        if (argc > 2)
                kernels = strtoull(argv[2], NULL, 0);
        seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)getpid() * 2654435761u + 1;
        notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (notes == MAP_FAILED)
                return 2;
        setbuf(stdout, NULL);
        printf("seed %llu, %llu kernels\n", (unsigned long long)seed, (unsigned long long)kernels);
        h_daemon_start(build, DEVICE, (const char *const[]){"--transform", "never", NULL});
        before = h_quiet();
        begin = h_now_ms();
        for (uint32_t i = 0; i < CLIENTS; i++) {
                fflush(stdout);
                clients[i] = fork();
                if (clients[i] == 0)
                        client_main(i);
        }
        for (uint32_t i = 0; i < HOSTILE; i++)
                hostile_spawn(i);
        deaths = storm(kernels);
        finish_clients();
        printf("%llu acknowledged kernels verified, %llu of them again a batch later, %llu wrong; %llu errors, %u "
               "workers "
               "killed, %llu ms\n",
                (unsigned long long)atomic_load(&notes->verified), (unsigned long long)atomic_load(&notes->kept),
                (unsigned long long)atomic_load(&notes->wrong), (unsigned long long)atomic_load(&notes->errors), deaths,
                (unsigned long long)(h_now_ms() - begin));
        h_check(atomic_load(&notes->wrong) == 0, "acknowledged kernels left wrong bytes");
        h_check(atomic_load(&notes->verified) >= kernels, "too few kernels were acknowledged");
        h_check(served_least() > 0, "a client was never served");
        h_check(h_status(&after) == 0 && after.worker_restarts >= 1 && deaths >= DEATHS, "%u workers died, %u restarts",
                deaths, after.worker_restarts);
        /* the number of modules may differ, because cached images depend on the clients that ran */
        before.modules = after.modules;
        h_baseline(&before, 60000, "after the storm");
        return h_finish();
}
