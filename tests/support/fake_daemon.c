/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon inside the test: see fake_daemon.h
 *
 * An impossible situation aborts the test process.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/fake_daemon.h"

#define NAME_FD 150 /* descriptor that holds the socket's name */

#define CHECK(condition)                                                                                     \
        do {                                                                                                 \
                if (!(condition)) {                                                                          \
                        fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, strerror(errno)); \
                        abort();                                                                             \
                }                                                                                            \
        } while (0)

uint64_t fake_now_ms(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void nap_us(long us)
{
        const struct timespec t = {.tv_nsec = us * 1000};
        nanosleep(&t, NULL);
}

/* --- frames --- */

static void send_bytes(int fd, const uint8_t *bytes, size_t size, const int *fds, size_t n_fds, bool dribble)
{
        union {
                char bytes[CMSG_SPACE(4 * sizeof(int))];
                struct cmsghdr align;
        } control;
        for (size_t sent = 0; sent < size;) {
                struct iovec iov = {.iov_base = (void *)(bytes + sent), .iov_len = dribble ? 1 : size - sent};
                struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
                if (n_fds && sent == 0) {
                        memset(&control, 0, sizeof(control));
                        message.msg_control = control.bytes;
                        message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
                        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
                        c->cmsg_level = SOL_SOCKET;
                        c->cmsg_type = SCM_RIGHTS;
                        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
                        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
                }
                ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
                if (n <= 0)
                        return; /* the send fails if the client has disconnected */
                sent += (size_t)n;
        }
}

void fake_reply(struct fake *fake, Detshare__Reply *reply, const int *fds, size_t n_fds)
{
        reply->fds = (uint32_t)n_fds;
        const size_t size = detshare__reply__get_packed_size(reply);
        uint8_t *frame = malloc(size + 4);
        CHECK(frame && size <= DS_FRAME_MAX);
        for (int i = 0; i < 4; i++)
                frame[i] = (uint8_t)(size >> (8 * i));
        detshare__reply__pack(reply, frame + 4);
        pthread_mutex_lock(&fake->lock);
        send_bytes(fake->client_fd, frame, size + 4, fds, n_fds, fake->dribble);
        pthread_mutex_unlock(&fake->lock);
        free(frame);
}

static bool read_exactly(int fd, uint8_t *to, size_t size, int *ret_fd)
{
        union {
                char bytes[CMSG_SPACE(4 * sizeof(int))];
                struct cmsghdr align;
        } control;
        while (size > 0) {
                struct iovec iov = {.iov_base = to, .iov_len = size};
                struct msghdr message = {
                        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
                ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return false;
                struct cmsghdr *c = CMSG_FIRSTHDR(&message);
                if (c && c->cmsg_type == SCM_RIGHTS)
                        memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
                to += n;
                size -= (size_t)n;
        }
        return true;
}

/* --- the worker: one thread that consumes the ring --- */

void fake_flush(struct fake *fake)
{
        atomic_store(&fake->page->now_ns, fake->clock_ns);
        atomic_thread_fence(memory_order_seq_cst);
        if (!atomic_load(&fake->ring->waiters))
                return;
        atomic_fetch_add(&fake->page->wake, 1);
        syscall(SYS_futex, &fake->page->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static uint8_t *at(struct fake *fake, uint64_t address, uint64_t bytes)
{
        if (address >= fake->window + FAKE_WINDOW_BYTES / 2 && address < fake->window + FAKE_WINDOW_BYTES)
                /* pinned memory has the same address in this process as in the client */
                return (uint8_t *)(uintptr_t)address;
        CHECK(address >= fake->window && address - fake->window + bytes <= FAKE_DEVICE_BYTES);
        return fake->device + (address - fake->window);
}

/*
 * ThreadSanitizer identifies memory by address, and the core and this worker see ring and page at different addresses.
 * It cannot know that a record orders accesses to the bytes that the record names. So an uninstrumented function moves
 * those bytes.
 */
#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize("thread"))) static void move(volatile uint8_t *to, const volatile uint8_t *from, uint64_t n)
{
        for (uint64_t i = 0; i < n; i++)
                to[i] = from[i];
}
#else
static void move(uint8_t *to, const uint8_t *from, uint64_t n)
{
        memcpy(to, from, n);
}
#endif

static void run_copy(struct fake *fake, const struct ds_record_copy *c)
{
        for (uint64_t y = 0; y < c->height; y++)
                move(at(fake, c->dst + y * c->dst_pitch, c->width), at(fake, c->src + y * c->src_pitch, c->width),
                        c->width);
}

/* Calls the host function. Returns false if the worker ends meanwhile: then the call is lost. */
static bool run_host(struct fake *fake, const struct ds_record_host *host)
{
        const uint64_t n = atomic_load(&fake->page->host_calls);
        atomic_store(&fake->page->host_ids[n % DS_HOST_CALLS], host->id);
        atomic_store(&fake->page->host_calls, n + 1);
        fake_flush(fake);
        while (atomic_load(&fake->ring->host_done) == n) {
                if (fake->worker_stop)
                        return false;
                nap_us(10);
        }
        CHECK(atomic_load(&fake->ring->host_done) == n + 1);
        return true;
}

static void run_record(struct fake *fake, const struct ds_record *record)
{
        CHECK(record->type < _DS_RECORD_MAX && record->stream < DS_STREAMS_MAX);
        _Static_assert(_DS_RECORD_MAX <= sizeof(((struct fake *)0)->records) / sizeof(uint32_t), "types are counted");
        fake->records[record->type]++;
        if (fake->on_record)
                fake->on_record(fake, record);
        if (record->type == DS_RECORD_PAD || record->type == DS_RECORD_OBJECT)
                return;
        atomic_fetch_add(&fake->page->accepted, 1);
        if (record->type == DS_RECORD_COPY)
                run_copy(fake, (const struct ds_record_copy *)record);
        if (record->type == DS_RECORD_HOST && !run_host(fake, (const struct ds_record_host *)record))
                return;
        fake->done[record->stream]++;
        atomic_fetch_add(&fake->page->completed, 1);
        atomic_store(&fake->page->stream_done[record->stream], fake->done[record->stream]);
}

static bool consume(struct fake *fake)
{
        const uint64_t tail = atomic_load(&fake->ring->tail);
        const bool any = fake->head != tail;
        while (fake->head != tail && !fake->paused && !fake->worker_stop) {
                const uint64_t slot = fake->head & (DS_RING_SLOTS - 1);
                const struct ds_record *record =
                        (const struct ds_record *)((uint8_t *)fake->ring + DS_RING_HEADER + slot * DS_RING_SLOT);
                const uint64_t slots = (record->size + DS_RING_SLOT - 1) / DS_RING_SLOT;
                CHECK(tail - fake->head <= DS_RING_SLOTS && slots >= 1 && slot + slots <= DS_RING_SLOTS);
                run_record(fake, record);
                fake->head += slots;
                atomic_store(&fake->page->head, fake->head);
                fake_flush(fake);
        }
        return any;
}

/* sets asleep, checks the ring once more, then waits for the eventfd: the client's wake-up relies on this order */
static void doze(struct fake *fake)
{
        uint64_t value;
        atomic_store(&fake->page->asleep, 1);
        if (atomic_load(&fake->ring->tail) == fake->head &&
                atomic_load(&fake->ring->synchronised) == fake->synchronised) {
                struct pollfd p = {.fd = fake->event_fd, .events = POLLIN};
                fake->sleeps++;
                while (poll(&p, 1, 20) == 0 && !fake->worker_stop && !fake->paused)
                        ;
                if (p.revents & POLLIN)
                        CHECK(read(fake->event_fd, &value, sizeof(value)) == sizeof(value));
        }
        fake->synchronised = atomic_load(&fake->ring->synchronised);
        atomic_store(&fake->page->asleep, 0);
}

static void *worker_main(void *arg)
{
        struct fake *fake = arg;
        while (!fake->worker_stop) {
                if (fake->paused) {
                        nap_us(200);
                        continue;
                }
                if (consume(fake))
                        continue;
                if (fake->naps)
                        doze(fake);
                else
                        nap_us(20);
        }
        return NULL;
}

static void stop_worker(struct fake *fake)
{
        if (!fake->worker_runs)
                return;
        fake->worker_stop = true;
        pthread_join(fake->worker, NULL);
        fake->worker_runs = false;
}

void fake_worker_dies(struct fake *fake, int error)
{
        pthread_mutex_lock(&fake->attach_lock);
        stop_worker(fake);
        fake->sticky = error;
        if (error)
                atomic_store(&fake->page->error, error);
        atomic_store(&fake->page->dead, 1);
        atomic_fetch_add(&fake->page->wake, 1);
        syscall(SYS_futex, &fake->page->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        pthread_mutex_unlock(&fake->attach_lock);
}

static int shared_file(size_t bytes, void **ret)
{
        int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
        *ret = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK(*ret != MAP_FAILED);
        return fd;
}

static void attach(struct fake *fake, Detshare__Reply *reply, int fds[3])
{
        static Detshare__AttachReply attached;
        const uint64_t full = UINT64_MAX - 1;
        stop_worker(fake);
        if (fake->page) {
                munmap(fake->page, DS_PAGE_BYTES);
                munmap(fake->ring, DS_RING_BYTES);
                close(fake->event_fd);
        }
        fds[0] = shared_file(DS_RING_BYTES, (void **)&fake->ring);
        fds[1] = shared_file(DS_PAGE_BYTES, (void **)&fake->page);
        fds[2] = eventfd(0, EFD_CLOEXEC | (fake->kick_blocks ? 0 : EFD_NONBLOCK));
        if (fake->kick_blocks)
                CHECK(write(fds[2], &full, sizeof(full)) == sizeof(full));
        fake->event_fd = fcntl(fds[2], F_DUPFD_CLOEXEC, 3);
        *fake->ring = (struct ds_ring_header){
                .version = DS_WIRE_VERSION, .bytes = DS_RING_BYTES, .slots = DS_RING_SLOTS, .slot_bytes = DS_RING_SLOT};
        fake->page->asleep = fake->kick_blocks;
        fake->page->simulated = fake->simulated;
        fake->page->now_ns = fake->clock_ns;
        fake->page->error = fake->sticky;
        for (int i = 0; i < (int)DS_STREAMS_MAX; i++)
                fake->page->stream_done[i] = fake->done[i];
        CHECK(fcntl(fds[0], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
        CHECK(fcntl(fds[1], F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
        fake->head = 0;
        fake->declared = 0;
        fake->worker_stop = false;
        fake->worker_runs = true;
        CHECK(pthread_create(&fake->worker, NULL, worker_main, fake) == 0);
        attached = (Detshare__AttachReply)DETSHARE__ATTACH_REPLY__INIT;
        attached.wire_version = DS_WIRE_VERSION;
        attached.ring_bytes = DS_RING_BYTES;
        attached.page_bytes = DS_PAGE_BYTES;
        attached.objects = fake->objects;
        attached.spare_bytes = fake->spare_bytes;
        reply->result_case = DETSHARE__REPLY__RESULT_ATTACH;
        reply->attach = &attached;
}

/* --- requests --- */

static void hello(struct fake *fake, Detshare__Reply *reply)
{
        static Detshare__HelloReply r;
        static int given;
        r = (Detshare__HelloReply)DETSHARE__HELLO_REPLY__INIT;
        r.version = 1;
        r.session = 7;
        r.window_base = given < fake->n_windows ? fake->windows[given] : fake->window;
        given++;
        r.window_bytes = FAKE_WINDOW_BYTES;
        r.daemon_version = (char *)"fake";
        r.simulated = fake->simulated;
        r.class_ = fake->hello_class;
        reply->result_case = DETSHARE__REPLY__RESULT_HELLO;
        reply->hello = &r;
}

static void device(Detshare__Reply *reply)
{
        static Detshare__DeviceReply r = DETSHARE__DEVICE_REPLY__INIT;
        static int32_t attributes[3] = {0, 1024, 77};
        r.count = 1;
        r.name = (char *)"Fake";
        r.model = (char *)"fake";
        r.n_sms = 4;
        r.n_attributes = 3;
        r.attributes = attributes;
        reply->result_case = DETSHARE__REPLY__RESULT_GET_DEVICE;
        reply->get_device = &r;
}

static void address(Detshare__Reply *reply, Detshare__Reply__ResultCase result, uint64_t va, uint64_t bytes)
{
        static __thread Detshare__Address r;
        r = (Detshare__Address)DETSHARE__ADDRESS__INIT;
        r.address = va;
        r.bytes = bytes;
        reply->result_case = result;
        reply->mem_alloc = &r;
}

static int pinned(struct fake *fake, uint64_t bytes, Detshare__Reply *reply)
{
        const uint64_t size = (bytes + 4095) & ~4095ull, va = fake->window + FAKE_WINDOW_BYTES / 2 + fake->pinned_used;
        int fd = memfd_create("pinned", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
        CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
        fake->pinned_used += size;
        address(reply, DETSHARE__REPLY__RESULT_PINNED_ALLOC, va, size);
        return fd;
}

static void submitted(struct fake *fake, uint32_t stream, Detshare__Reply *reply)
{
        static __thread Detshare__Submitted r;
        r = (Detshare__Submitted)DETSHARE__SUBMITTED__INIT;
        r.seq = ++fake->done[stream];
        reply->result_case = DETSHARE__REPLY__RESULT_SUBMITTED;
        reply->submitted = &r;
}

static void read_data(struct fake *fake, const Detshare__Read *read, Detshare__Reply *reply)
{
        static __thread Detshare__ReadReply r;
        r = (Detshare__ReadReply)DETSHARE__READ_REPLY__INIT;
        r.data.len = read->bytes;
        r.data.data = at(fake, read->src, read->bytes);
        fake->done[read->stream]++;
        reply->result_case = DETSHARE__REPLY__RESULT_READ;
        reply->read = &r;
}

static void clock_reply(struct fake *fake, Detshare__Reply *reply)
{
        static __thread Detshare__ClockReply r;
        r = (Detshare__ClockReply)DETSHARE__CLOCK_REPLY__INIT;
        r.now_ns = fake->clock_ns;
        r.simulated = fake->simulated;
        reply->result_case = DETSHARE__REPLY__RESULT_CLOCK;
        reply->clock = &r;
}

static void query(struct fake *fake, uint32_t stream, Detshare__Reply *reply)
{
        static __thread Detshare__QueryReply r;
        r = (Detshare__QueryReply)DETSHARE__QUERY_REPLY__INIT;
        r.done = r.submitted = fake->done[stream];
        r.error = fake->sticky;
        reply->result_case = DETSHARE__REPLY__RESULT_QUERY;
        reply->query = &r;
}

static void remember_hello(struct fake *fake, const Detshare__Hello *h)
{
        snprintf(fake->hello_name, sizeof(fake->hello_name), "%s", h->name);
        fake->hello_class = h->class_;
        fake->hello_slo = DS_SLO_READ(h);
        fake->hello_limit = h->memory_limit;
        fake->hello_percent = h->sm_percent;
        fake->hello_request = h->gpu_request;
        fake->hello_share_limit = h->gpu_limit;
}

/* Waits until the worker has consumed the ring up to the tail in the request. */
static void catch_up(struct fake *fake, const Detshare__Request *request)
{
        fake->last_ring_tail = request->ring_tail;
        CHECK(request->ring_tail <= (fake->ring ? atomic_load(&fake->ring->tail) : 0) || !fake->worker_runs);
        while (fake->worker_runs && !fake->worker_stop && !fake->paused &&
                atomic_load(&fake->page->head) < request->ring_tail)
                nap_us(50);
}

static size_t answer(struct fake *fake, const Detshare__Request *request, Detshare__Reply *reply, int fds[3])
{
        switch (request->call_case) {
        case DETSHARE__REQUEST__CALL_HELLO:
                remember_hello(fake, request->hello);
                hello(fake, reply);
                return 0;
        case DETSHARE__REQUEST__CALL_WINDOW_REFUSED:
                hello(fake, reply);
                return 0;
        case DETSHARE__REQUEST__CALL_GET_DEVICE:
                device(reply);
                return 0;
        case DETSHARE__REQUEST__CALL_ATTACH:
                pthread_mutex_lock(&fake->attach_lock);
                attach(fake, reply, fds);
                pthread_mutex_unlock(&fake->attach_lock);
                return 3;
        case DETSHARE__REQUEST__CALL_MEM_ALLOC:
                address(reply, DETSHARE__REPLY__RESULT_MEM_ALLOC, fake->window + fake->device_used,
                        request->mem_alloc->bytes);
                fake->device_used += (request->mem_alloc->bytes + 511) & ~511ull;
                return 0;
        case DETSHARE__REQUEST__CALL_PINNED_ALLOC:
                fds[0] = pinned(fake, request->pinned_alloc->bytes, reply);
                return 1;
        case DETSHARE__REQUEST__CALL_LAUNCH:
                submitted(fake, request->launch->stream, reply);
                return 0;
        case DETSHARE__REQUEST__CALL_WRITE:
                memcpy(at(fake, request->write->dst, request->write->data.len), request->write->data.data,
                        request->write->data.len);
                submitted(fake, request->write->stream, reply);
                return 0;
        case DETSHARE__REQUEST__CALL_READ:
                read_data(fake, request->read, reply);
                return 0;
        case DETSHARE__REQUEST__CALL_QUERY:
                query(fake, request->query->stream, reply);
                return 0;
        case DETSHARE__REQUEST__CALL_CLOCK_JOIN:
                fake->declared++;
                clock_reply(fake, reply);
                return 0;
        case DETSHARE__REQUEST__CALL_CLOCK_LEAVE:
                fake->declared -= fake->declared > 0;
                return 0;
        case DETSHARE__REQUEST__CALL_SLEEP_UNTIL:
                if (fake->clock_ns < request->sleep_until->ns)
                        fake->clock_ns = request->sleep_until->ns;
                if (fake->page)
                        atomic_store(&fake->page->now_ns, fake->clock_ns);
                clock_reply(fake, reply);
                return 0;
        case DETSHARE__REQUEST__CALL_RESET_SESSION:
                fake->sticky = 0;
                if (fake->page)
                        atomic_store(&fake->page->error, 0);
                /* device addresses are not reused: a late free must not hit another allocation */
                fake->pinned_used = 0;
                return 0;
        default: /* for a sync, a free or a setting nothing is left to do after the ring has been consumed */
                return 0;
        }
}

static bool serve(struct fake *fake, const Detshare__Request *request)
{
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        enum fake_verdict verdict = FAKE_DEFAULT;
        int fds[3];
        size_t n_fds = 0;
        reply.id = request->id;
        fake->requests[request->call_case]++;
        if (request->call_case >= 12 && fake->restarting > 0) {
                fake->restarting--;
                reply.status = DETSHARE__STATUS__RESTARTING;
                reply.message = (char *)"the worker is being restarted";
                fake_reply(fake, &reply, NULL, 0);
                return true;
        }
        if (fake->hook)
                verdict = fake->hook(fake, request, &reply);
        if (verdict == FAKE_DEFAULT) {
                catch_up(fake, request);
                n_fds = answer(fake, request, &reply, fds);
        }
        if (verdict == FAKE_DEFAULT || verdict == FAKE_ANSWERED)
                fake_reply(fake, &reply, fds, n_fds);
        while (n_fds > 0)
                close(fds[--n_fds]);
        return verdict != FAKE_CLOSE;
}

struct connection {
        struct fake *fake;
        int fd;
};

static void *serve_main(void *arg)
{
        struct connection *connection = arg;
        struct fake *fake = connection->fake;
        const int fd = connection->fd;
        uint8_t *frame = malloc(DS_FRAME_MAX);
        bool go_on = true;
        free(connection);
        while (go_on) {
                int passed = -1;
                uint8_t prefix[4];
                if (!read_exactly(fd, prefix, 4, &passed))
                        break;
                const uint32_t size =
                        prefix[0] | (uint32_t)prefix[1] << 8 | (uint32_t)prefix[2] << 16 | (uint32_t)prefix[3] << 24;
                CHECK(size >= 1 && size <= DS_FRAME_MAX);
                if (!read_exactly(fd, frame, size, &passed))
                        break;
                Detshare__Request *request = detshare__request__unpack(NULL, size, frame);
                CHECK(request && (request->fds == 1) == (passed >= 0));
                go_on = serve(fake, request);
                detshare__request__free_unpacked(request, NULL);
                if (passed >= 0)
                        close(passed);
        }
        shutdown(fd, SHUT_RDWR);
        free(frame);
        return NULL;
}

static void *accept_main(void *arg)
{
        struct fake *fake = arg;
        int fd;
        while ((fd = accept4(fake->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
                struct connection *connection = malloc(sizeof(*connection));
                pthread_t thread;
                CHECK(connection);
                *connection = (struct connection){.fake = fake, .fd = fd};
                fake->client_fd = fd;
                fake->connections++;
                CHECK(pthread_create(&thread, NULL, serve_main, connection) == 0);
                pthread_detach(thread);
        }
        return NULL;
}

/*
 * A descriptor of this process holds the socket's name and disappears with the process, since most tests end without
 * cleanup. A later daemon of the same process has the same name.
 */
static void name_socket(struct fake *fake)
{
        struct sockaddr_un address_ = {.sun_family = AF_UNIX};
        int fd;

        snprintf(address_.sun_path, sizeof(address_.sun_path), "/tmp/detshare-fake-%d.sock", (int)getpid());
        unlink(address_.sun_path);
        CHECK(bind(fake->listen_fd, (struct sockaddr *)&address_, sizeof(address_)) == 0);
        fd = open(address_.sun_path, O_PATH | O_CLOEXEC);
        unlink(address_.sun_path);
        CHECK(fd >= 0 && dup3(fd, NAME_FD, O_CLOEXEC) == NAME_FD);
        close(fd);
        snprintf(fake->path, sizeof(fake->path), "/proc/%d/fd/%d", (int)getpid(), NAME_FD);
}

void fake_start(struct fake *fake)
{
        pthread_mutex_init(&fake->lock, NULL);
        pthread_mutex_init(&fake->attach_lock, NULL);
        fake->client_fd = -1;
        fake->window = fake->window ? fake->window : FAKE_WINDOW;
        fake->clock_ns = 1000;
        fake->device = mmap(
                NULL, FAKE_DEVICE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(fake->device != MAP_FAILED);
        fake->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fake->listen_fd >= 0);
        name_socket(fake);
        CHECK(listen(fake->listen_fd, 64) == 0);
        CHECK(pthread_create(&fake->acceptor, NULL, accept_main, fake) == 0);
        setenv("DETSHARE_SOCKET", fake->path, 1);
}

void fake_stop(struct fake *fake)
{
        shutdown(fake->listen_fd, SHUT_RDWR);
        pthread_join(fake->acceptor, NULL);
        /* The worker stops before the client notices and unmaps its pinned memory, which the worker accesses at the
         * same addresses. */
        pthread_mutex_lock(&fake->attach_lock);
        stop_worker(fake);
        pthread_mutex_unlock(&fake->attach_lock);
        if (fake->client_fd >= 0)
                shutdown(fake->client_fd, SHUT_RDWR);
        /* the client may have attached again, which started another worker */
        stop_worker(fake);
        close(NAME_FD);
}
