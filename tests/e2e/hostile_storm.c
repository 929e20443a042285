/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storms of valid ring records by 32 sessions of one user, beside another user whose requests are timed
 *
 * Each hostile session has 64 streams and keeps its ring full: a mixture of all record types, marks that alternate
 * streams, events and waits across streams, records that fail, records that wait for ever. The protocol allows all of
 * it. The victim, another user, allocates and frees, launches and waits, and loads a module, alone and beside each
 * storm.
 *
 * The victim's results stay right, no process restarts, and its requests take a bounded time, since the worker gives
 * each user the same share of a turn, however many sessions it has. The policy stays in force, since time without a
 * processor does not count towards its budget.
 *
 * One process holds all hostile sessions and runs at a lower priority: the test measures how the daemon divides its
 * time, not how the kernel divides processors. The times are printed and not judged, since on the simulated device they
 * mostly measure the execution of kernels. tests/unit/test_worker_turns.c judges a user's share of a turn.
 *
 * usage: hostile_storm BUILD [MS of each storm] [STORM]
 */
#include "tests/e2e/harness.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"
#include "proto/wire.h"

#define HOSTILE_UID 54325
#define SESSIONS 32u
#define STREAMS 64u /* streams of each session, including the default stream */
#define MEMORY 65536u
#define SAMPLES 4096u
#define STORM_MS 700u
#define CALL_MS 60000 /* timeout of the hostile user's requests; only a request without any reply exceeds it */

enum kind { ALLOC, LAUNCH, MODULE, _KIND_MAX };
static const char *const kinds[] = {"alloc+free", "launch+wait", "module load"};

enum storm { ALONE, MIXED, STREAM_EACH, ACROSS, FAILING, WAITING, _STORM_MAX };
static const char *const storms[] = {
        "alone", "mixed records", "another stream each", "waits across streams", "failing records", "waiting records"};

static struct shared {
        _Atomic int storm; /* ALONE: no records are written */
        _Atomic int ready;
        _Atomic uint64_t records;
} * shared;

static const char *build;

static char *image(size_t *ret_size)
{
        char path[300];

        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        return h_read_file(path, ret_size);
}

/* --- hostile sessions --------------------------------------------------------------------------------------------- */

struct ring {
        int fd, event;
        struct ds_ring_header *header;
        const struct ds_completion_page *page;
        uint64_t tail, kernel, memory, event_id;
        uint64_t seq[STREAMS];
        uint32_t slot[STREAMS]; /* completion slot of each stream */
        uint64_t n;             /* number of records that the session has written so far */
};

static Detshare__Reply *must_ask(int fd, Detshare__Request *request, const int *fds, size_t n_fds)
{
        Detshare__Reply *reply = h_ask(fd, request, fds, n_fds, CALL_MS);

        if (!reply || reply->status) {
                printf("FAIL hostile session: call %d: %s\n", (int)request->call_case,
                        reply ? reply->message : "no reply");
                fflush(stdout);
                _exit(4);
        }
        return reply;
}

static void ring_attach(struct ring *r)
{
        H_REQUEST(Attach, ATTACH, ATTACH, attach);
        int fds[4];
        Detshare__Reply *reply = h_call(r->fd, &request, fds);

        if (!reply || reply->status)
                _exit(5);
        detshare__reply__free_unpacked(reply, NULL);
        r->event = fds[2];
        r->header = mmap(NULL, DS_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
        r->page = mmap(NULL, DS_PAGE_BYTES, PROT_READ, MAP_SHARED, fds[1], 0);
        if (r->header == MAP_FAILED || r->page == MAP_FAILED)
                _exit(6);
        close(fds[0]);
        close(fds[1]);
}

static void ring_streams(struct ring *r)
{
        for (uint32_t i = 1; i < STREAMS; i++) {
                H_REQUEST(StreamCreate, STREAM_CREATE, STREAM_CREATE, stream_create);
                Detshare__Reply *reply;

                body.non_blocking = 1;
                reply = must_ask(r->fd, &request, NULL, 0);
                r->slot[i] = reply->stream_create->stream;
                detshare__reply__free_unpacked(reply, NULL);
        }
}

static void ring_memory(struct ring *r)
{
        Detshare__Reply *reply;

        {
                H_REQUEST(MemAlloc, MEM_ALLOC, MEM_ALLOC, mem_alloc);
                body.bytes = MEMORY;
                reply = must_ask(r->fd, &request, NULL, 0);
                r->memory = reply->mem_alloc->address;
                detshare__reply__free_unpacked(reply, NULL);
        }
        {
                H_REQUEST(EventCreate, EVENT_CREATE, EVENT_CREATE, event_create);
                reply = must_ask(r->fd, &request, NULL, 0);
                r->event_id = reply->event_create->event;
                detshare__reply__free_unpacked(reply, NULL);
        }
}

static void ring_kernel(struct ring *r)
{
        int file = memfd_create("storm", MFD_CLOEXEC);
        Detshare__Reply *reply;
        size_t size;
        char *ptx = image(&size);

        if (write(file, ptx, size + 1) != (ssize_t)size + 1)
                _exit(7);
        free(ptx);
        {
                H_REQUEST(ModuleLoad, MODULE_LOAD, MODULE_LOAD, module_load);
                body.bytes = size + 1;
                reply = must_ask(r->fd, &request, &file, 1);
        }
        {
                H_REQUEST(GetKernel, GET_KERNEL, GET_KERNEL, get_kernel);
                body.module = reply->module_load->module;
                body.name = (char *)"fill";
                detshare__reply__free_unpacked(reply, NULL);
                reply = must_ask(r->fd, &request, NULL, 0);
        }
        r->kernel = reply->get_kernel->kernel;
        detshare__reply__free_unpacked(reply, NULL);
        close(file);
}

static void ring_open(struct ring *r)
{
        *r = (struct ring){.fd = h_hello(0, NULL, NULL)};
        if (r->fd < 0)
                _exit(8);
        ring_attach(r);
        ring_streams(r);
        ring_memory(r);
        ring_kernel(r);
}

union record {
        struct ds_record head;
        struct {
                struct ds_record_launch launch;
                struct {
                        uint64_t p;
                        uint32_t n, value;
                } params;
        };
        struct ds_record_copy copy;
        struct ds_record_memset memset;
        struct ds_record_event event;
        struct ds_record_wait wait;
        struct ds_record_host host;
        struct ds_record_value value;
};

static void make_launch(const struct ring *r, union record *record)
{
        record->launch = (struct ds_record_launch){.head = {DS_RECORD_LAUNCH, 0, 0},
                .kernel = r->kernel,
                .grid = {1, 1, 1},
                .block = {1, 1, 1},
                .params_size = sizeof(record->params)};
        record->head.size = sizeof(record->launch) + sizeof(record->params);
        record->params.p = r->memory;
        record->params.n = 1;
        record->params.value = (uint32_t)r->n;
}

static void make_memset(uint64_t at, union record *record)
{
        record->memset = (struct ds_record_memset){.head = {DS_RECORD_MEMSET, 0, sizeof(record->memset)},
                .element_size = 4,
                .dst = at,
                .width = 16,
                .height = 1,
                .pitch = 64};
}

static void make_copy(const struct ring *r, union record *record)
{
        record->copy = (struct ds_record_copy){.head = {DS_RECORD_COPY, 0, sizeof(record->copy)},
                .kind = 2,
                .dst = r->memory,
                .src = r->memory + 4096,
                .width = 64,
                .height = 1,
                .dst_pitch = 64,
                .src_pitch = 64};
}

static void make_event(const struct ring *r, int timed, union record *record)
{
        record->event = (struct ds_record_event){
                .head = {DS_RECORD_EVENT, 0, sizeof(record->event)}, .event = timed ? r->event_id : 0};
}

/* Makes a wait for the last operation of another stream. */
static void make_wait(const struct ring *r, uint32_t other, union record *record)
{
        record->wait = (struct ds_record_wait){.head = {DS_RECORD_WAIT, 0, sizeof(record->wait)},
                .other = r->slot[other % STREAMS],
                .seq = r->seq[other % STREAMS]};
}

static void make_value(const struct ring *r, uint32_t kind, uint64_t value, union record *record)
{
        record->value = (struct ds_record_value){.head = {DS_RECORD_VALUE, 0, sizeof(record->value)},
                .kind = kind,
                .bytes = 4,
                .address = r->memory + 8192,
                .value = value};
}

static void make_host(const struct ring *r, union record *record)
{
        record->host = (struct ds_record_host){.head = {DS_RECORD_HOST, 0, sizeof(record->host)}, .id = r->n};
}

static void make_mixed(const struct ring *r, uint32_t stream, union record *record)
{
        switch (r->n % 8) {
        case 0:
                make_launch(r, record);
                break;
        case 1:
                make_memset(r->memory, record);
                break;
        case 2:
                make_copy(r, record);
                break;
        case 3:
                make_event(r, 1, record);
                break;
        case 4:
                make_wait(r, stream + 7, record);
                break;
        case 5:
                make_value(r, DS_VALUE_WRITE, 0, record);
                break;
        case 6:
                make_value(r, DS_VALUE_GEQ, 0, record);
                break;
        default:
                make_host(r, record);
                break;
        }
}

/* Makes the next record of that storm. Returns the record's stream. */
static uint32_t make(const struct ring *r, enum storm storm, union record *record)
{
        uint32_t stream = (uint32_t)(r->n % STREAMS);

        switch (storm) {
        case MIXED:
                stream = (uint32_t)(r->n / 8 % STREAMS);
                make_mixed(r, stream, record);
                break;
        case STREAM_EACH:
                make_event(r, 0, record);
                break;
        case ACROSS:
                stream = (uint32_t)(r->n / 2 % STREAMS);
                if (r->n % 2)
                        make_wait(r, stream + 1, record);
                else
                        make_event(r, 1, record);
                break;
        case FAILING:
                make_memset(0x1000, record);
                break;
        default:
                make_value(r, DS_VALUE_EQ, 4711, record);
                break;
        }
        return stream;
}

/* Fills the ring. Returns the number of records that fitted. */
static uint64_t ring_fill(struct ring *r, enum storm storm)
{
        uint64_t head = atomic_load(&r->page->head), n = 0, one = 1, called = atomic_load(&r->page->host_calls);
        uint8_t *slots = (uint8_t *)r->header + DS_RING_HEADER;
        union record record;

        while (r->tail - head <= DS_RING_SLOTS - 4) {
                uint64_t at = r->tail & (DS_RING_SLOTS - 1);
                uint32_t stream = make(r, storm, &record);
                uint32_t need = (record.head.size + DS_RING_SLOT - 1) / DS_RING_SLOT;

                if (at + need > DS_RING_SLOTS) {
                        record.head =
                                (struct ds_record){DS_RECORD_PAD, 0, (uint32_t)(DS_RING_SLOTS - at) * DS_RING_SLOT};
                        memcpy(slots + at * DS_RING_SLOT, &record.head, sizeof(record.head));
                        r->tail += DS_RING_SLOTS - at;
                        continue;
                }
                record.head.stream = (uint16_t)r->slot[stream];
                memcpy(slots + at * DS_RING_SLOT, &record, record.head.size);
                r->seq[stream]++;
                r->tail += need;
                r->n++;
                n++;
        }
        atomic_store(&r->header->tail, r->tail);
        if (called != atomic_load(&r->header->host_done))
                atomic_store(&r->header->host_done, called);
        if (atomic_load(&r->page->asleep) && write(r->event, &one, sizeof(one)) < 0 && errno != EAGAIN)
                _exit(9);
        return n;
}

static void hostile(void)
{
        static struct ring rings[SESSIONS];

        if (setuid(HOSTILE_UID))
                _exit(1);
        setpriority(PRIO_PROCESS, 0, 19);
        for (uint32_t i = 0; i < SESSIONS; i++)
                ring_open(&rings[i]);
        atomic_store(&shared->ready, 1);
        for (;;) {
                enum storm storm = atomic_load(&shared->storm);
                uint64_t n = 0;

                for (uint32_t i = 0; storm != ALONE && i < SESSIONS; i++)
                        n += ring_fill(&rings[i], storm);
                atomic_fetch_add(&shared->records, n);
                if (!n)
                        usleep(500);
        }
}

static pid_t hostile_start(void)
{
        uint64_t end = h_now_ms() + h_patience(20000);
        pid_t pid;

        atomic_store(&shared->storm, ALONE);
        atomic_store(&shared->ready, 0);
        atomic_store(&shared->records, 0);
        fflush(stdout);
        pid = fork();
        if (pid == 0)
                hostile();
        while (!atomic_load(&shared->ready) && h_now_ms() < end && waitpid(pid, NULL, WNOHANG) == 0)
                h_sleep_ms(5);
        h_check(atomic_load(&shared->ready), "the hostile sessions were opened");
        return pid;
}

static void hostile_stop(pid_t pid)
{
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
}

/* --- the victim --------------------------------------------------------------------------------------------------- */

struct times {
        uint32_t n[_KIND_MAX], us[_KIND_MAX][SAMPLES];
};

static dsc_session *victim;
static struct dsc_kernel fill;
static uint64_t memory;

static int victim_alloc(void)
{
        uint64_t p;

        return !dsc_mem_alloc(victim, 1 << 20, &p) && !dsc_mem_free(victim, p);
}

static int victim_launch(uint32_t value)
{
        struct {
                uint64_t p;
                uint32_t n, value;
        } params = {memory, 1024, value};
        struct dsc_launch l = {.kernel = fill.id,
                .grid = {4, 1, 1},
                .block = {256, 1, 1},
                .params = &params,
                .params_size = sizeof(params)};

        return !dsc_launch(victim, 0, &l) && !dsc_wait_all(victim);
}

static int victim_right(uint32_t value)
{
        uint32_t host[1024];

        if (dsc_read(victim, 0, host, 0, memory, 0, sizeof(host), 1))
                return 0;
        for (int i = 0; i < 1024; i++)
                if (host[i] != value)
                        return 0;
        return 1;
}

static int victim_module(void)
{
        uint64_t module;
        size_t size;
        char *ptx = image(&size);
        int r = !dsc_module_load(victim, ptx, size + 1, NULL, 0, &module) && !dsc_module_unload(victim, module);

        free(ptx);
        return r;
}

static int victim_open(void)
{
        uint64_t module;
        size_t size;
        char *ptx = image(&size);
        int error, r;

        victim = dsc_get(&error);
        r = victim && !dsc_module_load(victim, ptx, size + 1, NULL, 0, &module) &&
            !dsc_kernel_get(victim, module, "fill", &fill) && !dsc_mem_alloc(victim, 4096, &memory);
        free(ptx);
        /* the victim creates all objects that it ever holds before the first baseline */
        return r && victim_launch(1) && victim_right(1) && victim_module();
}

static int victim_do(enum kind kind, uint32_t value)
{
        return kind == ALLOC ? victim_alloc() : kind == LAUNCH ? victim_launch(value) : victim_module();
}

/* Runs the victim's requests for ms. */
static void victim_run(const char *when, uint64_t ms, struct times *times)
{
        uint64_t end = h_now_ms() + ms;
        uint32_t value = 1;

        memset(times, 0, sizeof(*times));
        for (; h_now_ms() < end; value++) {
                enum kind kind = value % 8 == 7 ? MODULE : value % 2 ? ALLOC : LAUNCH;
                uint64_t begin = h_now_us();

                if (!h_check(victim_do(kind, value), "%s: the victim's %s: %s", when, kinds[kind], dsc_message()))
                        break;
                if (times->n[kind] < SAMPLES)
                        times->us[kind][times->n[kind]++] = (uint32_t)(h_now_us() - begin);
                usleep(500);
        }
        h_check(victim_launch(value) && victim_right(value), "%s: the victim's results", when);
}

/* Quantile of the victim's times for this kind of request, us. */
static uint32_t quantile(struct times *times, enum kind kind, uint32_t permille)
{
        uint32_t n = times->n[kind];

        qsort(times->us[kind], n, sizeof(uint32_t), h_by_value);
        return n ? times->us[kind][(uint64_t)(n - 1) * permille / 1000] : 0;
}

static void print(const char *when, struct times *times, uint64_t records, uint64_t ms)
{
        printf("%-22s", when);
        for (enum kind kind = 0; kind < _KIND_MAX; kind++)
                printf("  %s %u: p50 %u p99 %u max %u", kinds[kind], times->n[kind], quantile(times, kind, 500),
                        quantile(times, kind, 990), quantile(times, kind, 1000));
        printf(" us  (%llu records/s)\n", (unsigned long long)(records * 1000 / (ms ? ms : 1)));
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static void run(enum storm storm, uint64_t ms)
{
        static struct times alone, beside;
        struct h_status before = h_quiet(), after;
        pid_t pid;

        victim_run(storms[ALONE], ms, &alone);
        print(storms[ALONE], &alone, 0, ms);
        pid = hostile_start();
        atomic_store(&shared->storm, storm);
        h_sleep_ms(200);
        victim_run(storms[storm], ms, &beside);
        print(storms[storm], &beside, atomic_load(&shared->records), ms);
        h_check(waitpid(pid, NULL, WNOHANG) == 0, "%s: the hostile process ended", storms[storm]);
        hostile_stop(pid);
        for (enum kind kind = 0; kind < _KIND_MAX; kind++)
                h_check(beside.n[kind], "%s: no %s of the victim was served", storms[storm], kinds[kind]);
        h_check(h_status(&after) == 0 && !strcmp(after.policy, before.policy), "%s: the policy is %s now",
                storms[storm], after.policy);
        h_check(h_status(&after) == 0 && after.worker_restarts == before.worker_restarts,
                "%s: the worker was restarted", storms[storm]);
        h_baseline(&before, 30000, storms[storm]);
}

/* The user's first image and its kernels stay cached and charged to the user, so they are loaded before the
 * baseline. */
static void warm_up(void)
{
        pid_t pid = hostile_start();

        atomic_store(&shared->storm, MIXED);
        h_sleep_ms(500);
        hostile_stop(pid);
        h_sleep_ms(1000);
}

int main(int argc, char **argv)
{
        uint64_t ms = STORM_MS;
        int only = -1;

        if (argc < 2)
                return 2;
        build = argv[1];
        if (argc > 2)
                ms = strtoull(argv[2], NULL, 0);
        if (argc > 3)
                only = atoi(argv[3]);
        setbuf(stdout, NULL);
        /* the storm is another user's: sessions of one user share that user's turns and its time of the clock */
        if (!h_is_root("a user beside another one's storm"))
                return h_finish();
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
                return 1;
        h_daemon_start(build, "sim:h200", (const char *const[]){"--transform", "never", NULL});
        h_open_socket_directory();
        setenv("DETSHARE_SOCKET", h_socket(), 1);
        if (!h_check(victim_open(), "the victim: %s", dsc_message()))
                return h_finish();
        warm_up();
        for (int storm = MIXED; storm < _STORM_MAX; storm++)
                if (only < 0 || storm == only)
                        run((enum storm)storm, ms);
        return h_finish();
}
