/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile rings: a client writes anything into its own submission ring at any time
 *
 * Tails that jump or run backwards; records of wrong size, type, stream, handle and address; slots full of random
 * bytes; records rewritten while the worker reads them, by several threads and processes without pause; the eventfd
 * filled, drained and made blocking; holes punched into the files. The offender's session ends or gets an error. A good
 * client beside it gets right results. No client can write the completion page.
 *
 * usage: hostile_ring BUILD [SEED] [MS] (MS: time of writing without pause; 60,000 with DETSHARE_SOAK=1)
 */
#include "tests/e2e/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"
#include "proto/wire.h"

struct attached {
        int fd, event;
        struct ds_ring_header *ring;
        uint8_t *slots;
        const struct ds_completion_page *page;
        int page_fd, ring_fd;
};

static dsc_session *good;
static struct dsc_kernel good_fill;
static uint64_t good_memory;

static int good_round(uint32_t value)
{
        static uint32_t host[1024];
        struct {
                uint64_t p;
                uint32_t n, value;
        } params = {good_memory, 1024, value};
        struct dsc_launch l = {.kernel = good_fill.id,
                .grid = {4, 1, 1},
                .block = {256, 1, 1},
                .params = &params,
                .params_size = sizeof(params)};

        if (dsc_launch(good, 0, &l) || dsc_read(good, 0, host, 0, good_memory, 0, sizeof(host), 1))
                return 0;
        for (int i = 0; i < 1024; i++)
                if (host[i] != value)
                        return 0;
        return 1;
}

static int attach(struct attached *a)
{
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__Attach body = DETSHARE__ATTACH__INIT;
        Detshare__Reply *reply;
        int fds[4], ok;

        *a = (struct attached){.fd = h_hello(0, NULL, NULL)};
        request.id = 2;
        request.call_case = DETSHARE__REQUEST__CALL_ATTACH;
        request.attach = &body;
        reply = a->fd >= 0 ? h_call(a->fd, &request, fds) : NULL;
        ok = reply && reply->status == 0 && fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0;
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        if (!ok)
                return 0;
        a->ring_fd = fds[0];
        a->page_fd = fds[1];
        a->event = fds[2];
        a->ring = mmap(NULL, DS_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
        a->page = mmap(NULL, DS_PAGE_BYTES, PROT_READ, MAP_SHARED, fds[1], 0);
        a->slots = (uint8_t *)a->ring + DS_RING_HEADER;
        return a->ring != MAP_FAILED && a->page != MAP_FAILED;
}

static void kick(struct attached *a, uint64_t tail)
{
        uint64_t one = 1;

        atomic_store(&a->ring->tail, tail);
        if (write(a->event, &one, sizeof(one)) < 0)
                h_check(errno == EAGAIN, "eventfd");
}

static void detach(struct attached *a)
{
        munmap(a->ring, DS_RING_BYTES);
        munmap((void *)a->page, DS_PAGE_BYTES);
        close(a->fd);
        close(a->event);
        close(a->ring_fd);
        close(a->page_fd);
}

/* Checks that the session soon ends or has a sticky error. */
static void expect_punished(struct attached *a, const char *what)
{
        uint64_t end = h_now_ms() + h_patience(2000);
        int ended = 0;

        while (h_now_ms() < end && !(ended = h_closed(a->fd, 20) || atomic_load(&a->page->error) != 0))
                ;
        h_check(ended, "%s: neither closed nor in error", what);
        detach(a);
        h_check(good_round((uint32_t)h_now_ms()), "%s: the good client noticed", what);
}

static void test_page_readonly(void)
{
        struct attached a;
        char path[64];
        void *p;
        int fd;

        if (!h_check(attach(&a), "attach"))
                return;
        p = mmap(NULL, DS_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, a.page_fd, 0);
        h_check(p == MAP_FAILED, "the completion page could be mapped for writing");
        h_check(pwrite(a.page_fd, "x", 1, 0) < 0, "the completion page could be written");
        snprintf(path, sizeof(path), "/proc/self/fd/%d", a.page_fd);
        fd = open(path, O_RDWR | O_CLOEXEC);
        h_check(fd < 0 || mmap(NULL, DS_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED,
                "the completion page could be opened and mapped for writing");
        if (fd >= 0)
                close(fd);
        h_check(ftruncate(a.ring_fd, 4096) < 0, "the ring could be shrunk under the worker");
        h_check(ftruncate(a.page_fd, 4096) < 0, "the page could be shrunk under the worker");
        detach(&a);
}

static void test_tails(void)
{
        static const struct {
                const char *what;
                uint64_t tail;
        } cases[] = {{"tail one past the ring", DS_RING_SLOTS + 1}, {"tail at 2^63", UINT64_C(1) << 63},
                {"tail at the end", UINT64_MAX}};
        struct attached a;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                if (!h_check(attach(&a), "%s: attach", cases[i].what))
                        continue;
                kick(&a, cases[i].tail);
                expect_punished(&a, cases[i].what);
        }
}

static void test_record(const char *what, const void *record, size_t size, uint64_t tail)
{
        struct attached a;

        if (!h_check(attach(&a), "%s: attach", what))
                return;
        memcpy(a.slots, record, size);
        kick(&a, tail);
        expect_punished(&a, what);
}

static void test_records(void)
{
        struct ds_record_launch launch = {
                .head = {DS_RECORD_LAUNCH, 0, sizeof(launch)}, .kernel = 12345, .grid = {1, 1, 1}, .block = {1, 1, 1}};
        struct ds_record_copy copy = {.head = {DS_RECORD_COPY, 0, sizeof(copy)}, .kind = 2, .width = 4, .height = 1};
        struct ds_record_memset set = {
                .head = {DS_RECORD_MEMSET, 0, sizeof(set)}, .element_size = 1, .dst = 0x1000, .width = 1, .height = 1};
        struct ds_record_wait wait = {.head = {DS_RECORD_WAIT, 0, sizeof(wait)}, .other = 0, .seq = 1000};
        struct ds_record bad = {0, 0, 0};

        test_record("unknown kernel", &launch, sizeof(launch), 1);
        launch.params_size = 32000;
        test_record("parameters past the record", &launch, sizeof(launch), 1);
        launch.params_size = 0xffffffff;
        test_record("4 GiB of parameters", &launch, sizeof(launch), 1);
        test_record("copy of address 0", &copy, sizeof(copy), 2);
        copy.dst = copy.src = UINT64_MAX - 2;
        test_record("copy that wraps around", &copy, sizeof(copy), 2);
        copy.kind = 77;
        test_record("copy of an unknown kind", &copy, sizeof(copy), 2);
        test_record("memset outside", &set, sizeof(set), 1);
        set.element_size = 3;
        test_record("memset of 3-byte elements", &set, sizeof(set), 1);
        test_record("wait for the future", &wait, sizeof(wait), 1);
        wait.other = 60000;
        test_record("wait for no stream", &wait, sizeof(wait), 1);
        test_record("record of type 0 and size 0", &bad, sizeof(bad), 1);
        bad = (struct ds_record){DS_RECORD_EVENT, 500, sizeof(struct ds_record_event)};
        test_record("stream that does not exist", &bad, sizeof(bad), 1);
        bad = (struct ds_record){DS_RECORD_LAUNCH, 0, 4};
        test_record("size below its header", &bad, sizeof(bad), 1);
        bad = (struct ds_record){DS_RECORD_LAUNCH, 0, 64 * 5};
        test_record("size past the tail", &bad, sizeof(bad), 1);
        bad = (struct ds_record){DS_RECORD_PAD, 0, 64};
        test_record("padding in the middle", &bad, sizeof(bad), 1);
}

/* Writes random slots, and records that change while the worker reads them. The worker must only survive. */
static void test_scribble(uint64_t *seed)
{
        for (int round = 0; round < 20; round++) {
                struct attached a;

                if (!h_check(attach(&a), "scribble: attach"))
                        return;
                for (size_t i = 0; i < 64 * 64; i += 8)
                        memcpy(a.slots + i, &(uint64_t){h_random(seed)}, 8);
                for (int i = 0; i < 16; i++) {
                        struct ds_record head = {(uint16_t)(1 + h_random(seed) % 6), (uint16_t)(h_random(seed) % 2),
                                (uint32_t)(h_random(seed) % 300)};

                        memcpy(a.slots + 64 * (size_t)i, &head, sizeof(head));
                }
                kick(&a, 16);
                for (int i = 0; i < 20000; i++) {
                        uint64_t value = h_random(seed);

                        memcpy(a.slots + (h_random(seed) % (64 * 16)), &value, 8);
                        if (i % 1000 == 0)
                                kick(&a, h_random(seed) % 64);
                }
                detach(&a);
        }
        h_check(good_round(4711), "scribble: the good client noticed");
}

/* --- storms: writes without pause while the worker reads ---------------------------------------------------------- */

static _Atomic int storming;

struct storm {
        struct attached *a;
        uint64_t seed;
};

/* Writes a plausible record at any place; some of its words change again at once. */
static void storm_record(struct storm *storm)
{
        struct attached *a = storm->a;
        union {
                struct ds_record head;
                struct ds_record_launch launch;
                struct ds_record_copy copy;
                struct ds_record_wait wait;
                uint64_t words[16];
        } r = {.head = {(uint16_t)(1 + h_random(&storm->seed) % 7), 0, 0}};
        static const uint32_t sizes[] = {8, sizeof(struct ds_record), sizeof(struct ds_record_launch),
                sizeof(struct ds_record_copy), sizeof(struct ds_record_memset), sizeof(struct ds_record_event),
                sizeof(struct ds_record_wait), 0};
        uint8_t *slot = a->slots + h_random(&storm->seed) % DS_RING_SLOTS * DS_RING_SLOT;

        r.head.size = sizes[r.head.type];
        if (r.head.type == DS_RECORD_LAUNCH) {
                r.launch.kernel = good_fill.id;
                r.launch.grid[0] = r.launch.grid[1] = r.launch.grid[2] = 1;
                r.launch.block[0] = r.launch.block[1] = r.launch.block[2] = 1;
                r.launch.params_size = (uint32_t)(h_random(&storm->seed) % 40000);
                r.head.size += r.launch.params_size;
        }
        if (slot + sizeof(r) <= a->slots + DS_RING_SLOT * DS_RING_SLOTS)
                memcpy(slot, &r, sizeof(r));
        *(volatile uint64_t *)slot = h_random(&storm->seed) % 4 ? r.words[0] : h_random(&storm->seed);
        *(volatile uint32_t *)(slot + 48) = (uint32_t)h_random(&storm->seed);
}

static void *storm_thread(void *arg)
{
        struct storm *storm = arg;
        struct attached *a = storm->a;
        uint64_t tail = 0, drained;

        while (atomic_load(&storming)) {
                for (int i = 0; i < 64; i++)
                        storm_record(storm);
                tail += h_random(&storm->seed) % 3;
                /* writes the ring's tail, a 64-bit word, in two halves; mostly forward, sometimes anywhere */
                ((volatile uint32_t *)&a->ring->tail)[0] = (uint32_t)tail;
                ((volatile uint32_t *)&a->ring->tail)[1] = h_random(&storm->seed) % 100000 ? 0 : 1;
                *(volatile uint32_t *)&a->ring->waiters = (uint32_t)h_random(&storm->seed);
                a->ring->version = a->ring->slots = (uint32_t)h_random(&storm->seed);
                switch (h_random(&storm->seed) % 64) {
                case 0: /* changes the mode of the eventfd, which the daemon's descriptor shares */
                        fcntl(a->event, F_SETFL, h_random(&storm->seed) % 2 ? O_NONBLOCK : 0);
                        break;
                case 1:
                        fcntl(a->event, F_SETFL, O_NONBLOCK);
                        if (read(a->event, &drained, sizeof(drained)) < 0)
                                break;
                        break;
                case 2:
                        fcntl(a->event, F_SETFL, O_NONBLOCK);
                        drained = UINT64_MAX - 1;
                        if (write(a->event, &drained, sizeof(drained)) < 0)
                                break;
                        break;
                case 3:
                        fallocate(a->ring_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                (off_t)(h_random(&storm->seed) % DS_RING_BYTES & ~UINT64_C(4095)), 8192);
                        break;
                case 4:
                        fallocate(a->page_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
                        break;
                default:
                        fcntl(a->event, F_SETFL, O_NONBLOCK);
                        drained = 1;
                        if (write(a->event, &drained, sizeof(drained)) < 0)
                                break;
                        break;
                }
        }
        return NULL;
}

/* Opens sessions one after the other for ms, each with two threads and a process that write into its ring. */
static void test_storm(uint64_t *seed, uint64_t ms)
{
        uint64_t end = h_now_ms() + ms, rounds = 0, longest = 0;

        while (h_now_ms() < end) {
                struct attached a;
                struct storm storms[2] = {{&a, h_random(seed)}, {&a, h_random(seed)}};
                pthread_t threads[2];
                pid_t pid;

                if (!h_check(attach(&a), "storm: attach"))
                        return;
                atomic_store(&storming, 1);
                pid = fork();
                if (pid == 0) {
                        storm_thread(&storms[1]);
                        _exit(0);
                }
                for (int i = 0; i < 2; i++)
                        pthread_create(&threads[i], NULL, storm_thread, &storms[i]);
                for (uint64_t until = h_now_ms() + 60; h_now_ms() < until; rounds++) {
                        uint64_t begin = h_now_ms();

                        h_check(good_round((uint32_t)rounds), "storm: the good client");
                        longest = h_now_ms() - begin > longest ? h_now_ms() - begin : longest;
                }
                atomic_store(&storming, 0);
                for (int i = 0; i < 2; i++)
                        pthread_join(threads[i], NULL);
                kill(pid, SIGKILL);
                waitpid(pid, NULL, 0);
                detach(&a);
        }
        printf("storm: the good client's %llu rounds took %llu ms at most\n", (unsigned long long)rounds,
                (unsigned long long)longest);
}

static void make_good(const char *build)
{
        char path[300];
        uint64_t module;
        size_t size;
        char *ptx;
        int error;

        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        ptx = h_read_file(path, &size);
        good = dsc_get(&error);
        h_check(good && !dsc_module_load(good, ptx, size + 1, NULL, 0, &module) &&
                        !dsc_kernel_get(good, module, "fill", &good_fill) && !dsc_mem_alloc(good, 4096, &good_memory),
                "the good client: %s", dsc_message());
        free(ptx);
}

int main(int argc, char **argv)
{
        uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)getpid() * 2654435761u + 1;
        struct h_status before, after;

        if (argc < 2)
                return 2;
        printf("seed %llu\n", (unsigned long long)seed);
        /* Forms of kernels would be charged to the good client when they are made and change its baseline. */
        h_daemon_start(argv[1], "sim:h200", (const char *const[]){"--transform", "never", NULL});
        make_good(argv[1]);
        h_check(good_round(1), "the good client's first round");
        before = h_quiet();
        test_page_readonly();
        test_tails();
        test_records();
        test_scribble(&seed);
        test_storm(&seed, argc > 3 ? strtoull(argv[3], NULL, 0) : getenv("DETSHARE_SOAK") ? 60000 : 3000);
        h_baseline(&before, 20000, "after hostile rings");
        h_check(h_status(&after) == 0 && after.worker_restarts == 0, "the worker was lost");
        return h_finish();
}
