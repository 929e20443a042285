/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crowds of connections of one user, and a user who takes as much as possible, beside another user who must be served
 * throughout
 *
 * - A thousand connections that send nothing, half a frame, or a byte at times: the daemon closes them after 5 s.
 * - A thousand connections that send requests and never read: the unsent replies of all together are bounded, and so is
 *   the daemon's memory.
 * - A dozen sessions that queue work behind endless kernels: the user's accepted operations are bounded; its sessions
 *   stall, and continue when there is room again.
 *
 * The other user's requests are timed.
 *
 * usage: hostile_crowd BUILD
 */
#include "tests/e2e/harness.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/wire.h"

#define HOSTILE_UID 54324
#define CROWD 1000
#define GOOD_MS 10000      /* bound of a request of the other user on a busy machine */
#define ASKS 600           /* requests of each connection that never reads; their replies exceed the socket's buffer */
#define RSS_MAX_KB 262144  /* figure F7 of the project's figures */
#define GREEDY 12          /* sessions that queue without end */
#define USER_OPS_MAX 65536 /* same value as DSW_USER_OPS_MAX */

static const char *build;
static int good_fd;
static uint64_t good_us_max;

static void good_works(const char *when)
{
        H_REQUEST(Ping, PING, PING, ping);
        uint64_t begin = h_now_us(), took;
        int fd;

        /* Without root the good and the hostile user are one, whose own limits would refuse the good client. */
        if (geteuid() != 0)
                return;
        h_check(h_ask_status(good_fd, &request, NULL, 0, GOOD_MS) == 0, "%s: the other user's ping", when);
        fd = h_hello(0, NULL, NULL);
        h_check(fd >= 0, "%s: the other user cannot connect", when);
        close(fd);
        took = h_now_us() - begin;
        good_us_max = took > good_us_max ? took : good_us_max;
}

/* Runs fn in a process of another user. The good user works until that process has ended with 0. */
static void beside(void (*fn)(void), const char *what)
{
        uint64_t end = h_now_ms() + 120000;
        int status = -1;
        pid_t pid;

        good_us_max = 0;
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                if (geteuid() == 0 && setuid(HOSTILE_UID))
                        _exit(1);
                fn();
                _exit(0);
        }
        while (waitpid(pid, &status, WNOHANG) == 0 && h_now_ms() < end) {
                good_works(what);
                h_sleep_ms(10);
        }
        h_check(status == 0, "%s: the hostile process ended with %#x", what, status);
        if (geteuid() == 0)
                printf("%s: the other user's ping and hello took %llu us at most\n", what,
                        (unsigned long long)good_us_max);
        kill(pid, SIGKILL);
}

/* --- connections that send nothing or half a frame ---------------------------------------------------------------- */

static void slow(void)
{
        static const uint8_t half[] = {100, 0, 0, 0, 8, 5};
        int fds[CROWD], open = 0;
        uint64_t begin = h_now_ms(), end = begin + 30000;

        for (int i = 0; i < CROWD; i++) {
                fds[i] = i % 4 < 2 ? h_connect() : h_hello(1, NULL, NULL);
                if (fds[i] < 0)
                        continue;
                open++;
                if (i % 4 == 1 || i % 4 == 2)
                        send(fds[i], half, sizeof(half), MSG_NOSIGNAL);
        }
        if (open < CROWD / 2)
                _exit(2);
        while (open > CROWD / 100 && h_now_ms() < end) {
                struct pollfd p[CROWD];

                for (int i = 0; i < CROWD; i++)
                        p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
                poll(p, CROWD, 500);
                for (int i = 0; i < CROWD; i++) {
                        char byte = 1;

                        if (fds[i] < 0)
                                continue;
                        /* connections that sent hello begin a frame now and continue it byte by byte */
                        if (i % 4 == 3)
                                send(fds[i], h_now_ms() - begin < 1000 ? "d\0\0" : &byte, 1, MSG_NOSIGNAL);
                        if (p[i].revents && recv(fds[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) <= 0 && errno != EAGAIN) {
                                close(fds[i]);
                                fds[i] = -1;
                                open--;
                        }
                }
        }
        printf("%d slow connections: %d left after %llu ms\n", CROWD, open, (unsigned long long)(h_now_ms() - begin));
        fflush(stdout);
        if (open > CROWD / 100)
                _exit(3);
}

/* --- connections that never read ---------------------------------------------------------------------------------- */

static void deaf(void)
{
        H_REQUEST(GetDevice, GET_DEVICE, GET_DEVICE, get_device);
        uint8_t frame[64];
        uint64_t asked = 0;
        int refused = 0;
        size_t size;

        size = detshare__request__pack(&request, frame + 4);
        memcpy(frame, &(uint32_t){(uint32_t)size}, 4);
        for (int i = 0; i < CROWD; i++) {
                int fd = h_hello(1, NULL, NULL);

                if (fd < 0) {
                        refused++;
                        continue;
                }
                /* Sends requests until the daemon stops reading or closes the connection. */
                for (int j = 0; j < ASKS; j++) {
                        struct pollfd p = {.fd = fd, .events = POLLOUT};

                        if (send(fd, frame, size + 4, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
                                (errno != EAGAIN || poll(&p, 1, 20) <= 0))
                                break;
                        asked++;
                }
        }
        printf("%d that never read: %llu requests, %d were refused\n", CROWD, (unsigned long long)asked, refused);
        fflush(stdout);
        if (asked < CROWD * 50)
                _exit(2);
}

static void test_deaf(void)
{
        long kb;

        beside(deaf, "connections that never read");
        kb = h_memory_kb(h_daemon_pid(), "VmHWM");
        printf("the supervisor had %ld KiB at most\n", kb);
        h_check(kb > 0 && kb < RSS_MAX_KB, "the supervisor had %ld KiB", kb);
}

/* --- a user that queues without end ------------------------------------------------------------------------------- */

struct greedy {
        int fd, event;
        struct ds_ring_header *ring;
        const struct ds_completion_page *page;
        uint64_t tail;
        uint32_t stream;
};

static Detshare__Reply *must_ask(int fd, Detshare__Request *request, const int *fds, size_t n_fds)
{
        Detshare__Reply *reply = h_ask(fd, request, fds, n_fds, 60000);

        if (!reply || reply->status) {
                printf("greedy: call %d: %s\n", (int)request->call_case, reply ? reply->message : "no reply");
                fflush(stdout);
                _exit(4);
        }
        return reply;
}

static uint64_t greedy_kernel(int fd)
{
        char path[300];
        uint64_t kernel;
        size_t size;
        char *ptx;
        int image = memfd_create("greedy", 0);
        Detshare__Reply *reply;

        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        ptx = h_read_file(path, &size);
        if (write(image, ptx, size + 1) != (ssize_t)size + 1)
                _exit(5);
        free(ptx);
        {
                H_REQUEST(ModuleLoad, MODULE_LOAD, MODULE_LOAD, module_load);
                body.bytes = size + 1;
                reply = must_ask(fd, &request, &image, 1);
        }
        {
                H_REQUEST(GetKernel, GET_KERNEL, GET_KERNEL, get_kernel);
                body.module = reply->module_load->module;
                body.name = (char *)"spin";
                detshare__reply__free_unpacked(reply, NULL);
                reply = must_ask(fd, &request, NULL, 0);
        }
        kernel = reply->get_kernel->kernel;
        detshare__reply__free_unpacked(reply, NULL);
        close(image);
        return kernel;
}

/* Launches an endless kernel. All later records of the ring are marks. */
static void greedy_open(struct greedy *g)
{
        struct {
                uint64_t p;
                uint32_t n, rounds;
        } params = {0, 1, UINT32_MAX};
        Detshare__Reply *reply;
        int fds[4];

        g->fd = h_hello(0, NULL, NULL);
        {
                H_REQUEST(Attach, ATTACH, ATTACH, attach);
                reply = h_call(g->fd, &request, fds);
                if (!reply || reply->status)
                        _exit(6);
                detshare__reply__free_unpacked(reply, NULL);
        }
        g->event = fds[2];
        g->ring = mmap(NULL, DS_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
        g->page = mmap(NULL, DS_PAGE_BYTES, PROT_READ, MAP_SHARED, fds[1], 0);
        if (g->ring == MAP_FAILED || g->page == MAP_FAILED)
                _exit(7);
        {
                H_REQUEST(StreamCreate, STREAM_CREATE, STREAM_CREATE, stream_create);
                reply = must_ask(g->fd, &request, NULL, 0);
                g->stream = reply->stream_create->stream;
                detshare__reply__free_unpacked(reply, NULL);
        }
        {
                H_REQUEST(MemAlloc, MEM_ALLOC, MEM_ALLOC, mem_alloc);
                body.bytes = 4096;
                reply = must_ask(g->fd, &request, NULL, 0);
                params.p = reply->mem_alloc->address;
                detshare__reply__free_unpacked(reply, NULL);
        }
        {
                H_REQUEST(Launch, LAUNCH, LAUNCH, launch);
                body.kernel = greedy_kernel(g->fd);
                body.grid_x = body.grid_y = body.grid_z = body.block_x = body.block_y = body.block_z = 1;
                body.params.data = (uint8_t *)&params;
                body.params.len = sizeof(params);
                detshare__reply__free_unpacked(must_ask(g->fd, &request, NULL, 0), NULL);
        }
}

/* Fills the ring with marks. Returns the number of records that the worker has accepted so far. */
static uint64_t greedy_push(struct greedy *g)
{
        struct ds_record_event mark = {.head = {DS_RECORD_EVENT, 0, sizeof(mark)}};
        uint64_t head = atomic_load(&g->page->head), one = 1;

        while (g->tail - head < DS_RING_SLOTS) {
                /* two streams share the marks, because a single queue has a lower limit */
                mark.head.stream = (uint16_t)(g->tail / 512 % 2 ? g->stream : 0);
                memcpy((uint8_t *)g->ring + DS_RING_HEADER + (g->tail & (DS_RING_SLOTS - 1)) * DS_RING_SLOT, &mark,
                        sizeof(mark));
                g->tail++;
        }
        atomic_store(&g->ring->tail, g->tail);
        if (write(g->event, &one, sizeof(one)) < 0 && errno != EAGAIN)
                _exit(8);
        return atomic_load(&g->page->accepted);
}

/* Pushes until the worker accepts no more. */
static uint64_t greedy_fill(struct greedy *all, int from, int to)
{
        uint64_t last = 0, still_since = h_now_ms(), sum = 0;

        while (h_now_ms() - still_since < 1500) {
                sum = 0;
                for (int i = from; i < to; i++)
                        sum += greedy_push(&all[i]);
                if (sum != last)
                        still_since = h_now_ms();
                last = sum;
                h_sleep_ms(5);
        }
        return sum;
}

static void greedy(void)
{
        static struct greedy all[GREEDY];
        uint64_t sum, before = 0, after;

        for (int i = 0; i < GREEDY; i++)
                greedy_open(&all[i]);
        sum = greedy_fill(all, 0, GREEDY);
        printf("%d greedy sessions have %llu operations in work\n", GREEDY, (unsigned long long)sum);
        fflush(stdout);
        if (sum > USER_OPS_MAX || sum < USER_OPS_MAX / 4 * 3)
                _exit(9);
        for (int i = GREEDY / 2; i < GREEDY; i++)
                before += atomic_load(&all[i].page->accepted);
        /* Half of the sessions end, which makes room for the others. */
        for (int i = 0; i < GREEDY / 2; i++)
                close(all[i].fd);
        h_sleep_ms(500);
        after = greedy_fill(all, GREEDY / 2, GREEDY);
        printf("the remaining sessions had %llu, and have %llu\n", (unsigned long long)before,
                (unsigned long long)after);
        fflush(stdout);
        if (after <= before)
                _exit(10);
}

int main(int argc, char **argv)
{
        const struct rlimit files = {8192, 8192};
        struct h_status before;

        if (argc < 2)
                return 2;
        build = argv[1];
        setrlimit(RLIMIT_NOFILE, &files);
        h_daemon_start(build, "sim:h200", NULL);
        h_open_socket_directory();
        good_fd = h_hello(0, NULL, NULL);
        before = h_quiet();
        (void)h_is_root("another user beside the crowd");
        good_works("at the beginning");
        beside(slow, "slow ones");
        h_baseline(&before, 20000, "after slow connections");
        test_deaf();
        h_baseline(&before, 20000, "after connections that never read");
        if (h_needs_sim("sim:h200", "queues behind kernels that do not end")) {
                beside(greedy, "greedy ones");
                h_baseline(&before, 60000, "after greedy sessions");
        }
        close(good_fd);
        return h_finish();
}
