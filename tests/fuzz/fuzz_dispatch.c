/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole supervisor; the input plays clients, worker and helper
 *
 * Clients of several users connect, send anything in any pieces, and disconnect. The worker and the helper reply to the
 * request, send something else, or die. Time jumps. This file replaces process.c and listener.c; the rest is the
 * daemon's own code. Every reply can be parsed, and has a message if the request failed. At the end the supervisor
 * stops, which asserts that windows, charges and sessions are released, and no file is left open.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "supervisor/announce.h"
#include "supervisor/client.h"
#include "supervisor/helper_link.h"
#include "supervisor/listener.h"
#include "supervisor/process.h"
#include "supervisor/session.h"
#include "supervisor/supervisor.h"
#include "supervisor/worker_link.h"
#include "tests/fuzz/message.h"
#include "util/frame.h"

#define CLIENTS 6
#define STEPS_MAX 300
#define PROCESSES 16
#define ASKED_MAX 64
#define KNOWN 16
#define FILES_MAX 4

struct asked {
        uint64_t id, session;
        uint32_t body, call;
};

struct ds_process {
        const struct ds_process_ops *ops;
        void *user;
        int is_helper, dying, lost, ended, freed;
        pid_t pid;
        struct asked asked[ASKED_MAX];
        size_t n_asked;
        int files[FILES_MAX]; /* descriptors that the process sends beside its next frame */
        size_t n_files;
};

static struct {
        struct fuzz_input in;
        struct ds_supervisor *supervisor;
        struct ds_process *processes[PROCESSES];
        ds_conn *clients[CLIENTS];
        uint64_t known[KNOWN];
        struct ds_completion_page *page; /* completion page of the session that was opened last */
        uint64_t now_ns;
        uid_t uid; /* credentials that the next connection reports */
        pid_t pid;
        int listening;
        struct fuzz_maker maker;
} world;

/* --- replaced system calls: time and credentials from the input --------------------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *ret)
{
        if (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE)
                return (int)syscall(SYS_clock_gettime, clock, ret);
        *ret = (struct timespec){(time_t)(world.now_ns / DS_NS_PER_S), (long)(world.now_ns % DS_NS_PER_S)};
        return 0;
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
        struct ucred *creds = value;

        if (level != SOL_SOCKET || name != SO_PEERCRED)
                return (int)syscall(SYS_getsockopt, fd, level, name, value, size);
        *creds = (struct ucred){.pid = 1000, .uid = world.uid, .gid = world.uid};
        return 0;
}

/* --- replaced listener and processes ------------------------------------------------------------------------------ */

int ds_listener_new(
        struct ds_supervisor *supervisor, const char *path, char *message, size_t message_size, ds_listener **ret)
{
        *ret = (ds_listener *)&world;
        return 0;
}

int ds_listener_start(ds_listener *listener)
{
        world.listening = 1;
        return 0;
}

const char *ds_listener_path(const ds_listener *listener)
{
        return "/fuzz";
}

ds_listener *ds_listener_free(ds_listener *listener)
{
        world.listening = 0;
        return NULL;
}

int ds_process_spawn(uv_loop_t *loop, const char *const *argv, size_t out_max, const struct ds_process_ops *ops,
        void *user, ds_process **ret)
{
        for (size_t i = 0; i < PROCESSES; i++) {
                if (world.processes[i])
                        continue;
                world.processes[i] = calloc(1, sizeof(ds_process));
                FUZZ_CHECK(world.processes[i]);
                *world.processes[i] = (ds_process){
                        .ops = ops, .user = user, .is_helper = !strcmp(argv[0], "helper"), .pid = ++world.pid};
                *ret = world.processes[i];
                return 0;
        }
        return -EAGAIN;
}

ds_process *ds_process_free(ds_process *process)
{
        if (process) {
                FUZZ_CHECK(process->ended && process->lost && !process->freed);
                process->freed = 1;
        }
        return NULL;
}

ds_process *ds_process_leave(ds_process *process)
{
        if (process) {
                FUZZ_CHECK(!process->freed);
                process->freed = 1;
        }
        return NULL;
}

pid_t ds_process_pid(const ds_process *process)
{
        return process->pid;
}

static void learn(uint64_t value)
{
        memmove(world.known + 1, world.known, (KNOWN - 1) * sizeof(world.known[0]));
        world.known[0] = value;
}

static void note_open(const Detshare__Internal__SessionOpen *open, int page_fd)
{
        void *page = mmap(NULL, DS_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);

        learn(open->session);
        learn(open->window_base);
        learn(open->window_base + open->window_bytes / 2);
        FUZZ_CHECK(page != MAP_FAILED);
        if (world.page)
                munmap(world.page, DS_PAGE_BYTES);
        world.page = page;
}

static void note_worker(struct asked *asked, const uint8_t *payload, size_t size, const int *fds)
{
        Detshare__Internal__ToWorker *to = detshare__internal__to_worker__unpack(NULL, size, payload);

        FUZZ_CHECK(to); /* a message that does not parse would end the worker */
        asked->id = to->id;
        asked->body = to->body_case;
        if (to->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_OPEN)
                note_open(to->open, fds[0]);
        if (to->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_CALL) {
                FUZZ_CHECK(to->call->request && to->call->request->call_case);
                asked->session = to->call->session;
                asked->call = to->call->request->call_case;
        }
        detshare__internal__to_worker__free_unpacked(to, NULL);
}

int ds_process_send(ds_process *process, const void *payload, size_t size, const int *fds, size_t n_fds)
{
        struct asked asked = {0};

        if (process->lost || process->dying)
                return -EPIPE;
        FUZZ_CHECK(size >= 1 && size <= DS_PROCESS_FRAME_MAX);
        for (size_t i = 0; i < n_fds; i++)
                FUZZ_CHECK(fcntl(fds[i], F_GETFD) >= 0);
        if (process->is_helper) {
                Detshare__Internal__ToHelper *to = detshare__internal__to_helper__unpack(NULL, size, payload);

                FUZZ_CHECK(to);
                asked.id = to->id;
                detshare__internal__to_helper__free_unpacked(to, NULL);
        } else {
                note_worker(&asked, payload, size, fds);
        }
        if (asked.id && process->n_asked < ASKED_MAX)
                process->asked[process->n_asked++] = asked;
        return 0;
}

/* Returns 1 for 100 ms of every 800 ms: the worker then takes no further messages. */
int ds_process_has_enough(ds_process *process)
{
        return !process->is_helper && world.now_ns / (100 * DS_NS_PER_MS) % 8 == 7;
}

int ds_process_is_unread(const ds_process *process)
{
        return 0;
}

int ds_process_take_fds(ds_process *process, int *fds, size_t n)
{
        if (n > process->n_files)
                return -1;
        process->n_files -= n;
        for (size_t i = 0; i < n; i++)
                fds[i] = process->files[process->n_files + i];
        return 0;
}

void ds_process_hand_over(ds_process *process, const struct ds_process_ops *ops, void *user)
{
        FUZZ_CHECK(process->lost);
        process->ops = ops;
        process->user = user;
}

void ds_process_kill(ds_process *process, const char *why)
{
        if (!process->ended)
                process->dying = 1;
}

int ds_process_dying(const ds_process *process)
{
        return process->dying;
}

void ds_process_shutdown(ds_process *process)
{
        process->dying = 1;
}

/* --- messages of worker and helper -------------------------------------------------------------------------------- */

static uint64_t number(struct fuzz_input *in)
{
        uint8_t how = fuzz_u8(in);

        if (how < 0x80)
                return how;
        if (how < 0xc0)
                return world.known[how % KNOWN] + (how & 0x20 ? DS_MIB(64) * (fuzz_u8(in) & 7) : 0);
        return how < 0xe0 ? UINT64_C(1) << (how & 63) : fuzz_bytes(in, 1 + (how & 7));
}

static struct fuzz_maker *maker(void)
{
        world.maker.in = &world.in;
        world.maker.number = number;
        world.maker.used = 0;
        return &world.maker;
}

/* Finds the process of that kind that the supervisor listens to; NULL: there is none. */
static ds_process *find_process(int is_helper)
{
        for (size_t i = PROCESSES; i-- > 0;)
                if (world.processes[i] && world.processes[i]->is_helper == is_helper && !world.processes[i]->lost)
                        return world.processes[i];
        return NULL;
}

static void end_process(ds_process *process, int killed)
{
        if (!process->lost) {
                process->lost = 1;
                process->ops->lost(process->user);
        }
        if (!process->ended) {
                process->ended = 1;
                process->ops->ended(process->user, killed ? "was killed by signal 9" : "exited with status 1", killed);
        }
}

static void bury(void)
{
        for (size_t i = 0; i < PROCESSES; i++) {
                ds_process *process = world.processes[i];

                if (!process || !process->freed)
                        continue;
                free(process);
                world.processes[i] = NULL;
        }
}

static void add_file(ds_process *process, int sealed, uint64_t bytes)
{
        int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        FUZZ_CHECK(fd >= 0);
        if (ftruncate(fd, (off_t)DS_MIN(bytes, DS_GIB(1))) == 0 && sealed)
                (void)fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        process->files[process->n_files++] = fd;
}

static void say(ds_process *process, const uint8_t *payload, size_t size)
{
        if (process->ops->frame(process->user, payload, size))
                process->dying = 1;
        while (process->n_files > 0)
                close(process->files[--process->n_files]);
        /* A connection ends after an invalid message. */
        if (process->dying && !process->lost) {
                process->lost = 1;
                process->ops->lost(process->user);
        }
}

static void say_message(ds_process *process, const ProtobufCMessage *message)
{
        static uint8_t bytes[DS_PROCESS_FRAME_MAX];

        FUZZ_CHECK(protobuf_c_message_get_packed_size(message) <= sizeof(bytes));
        say(process, bytes, protobuf_c_message_pack(message, bytes));
}

static void take_asked(ds_process *process, struct asked *ret)
{
        size_t i = process->n_asked ? fuzz_u8(&world.in) % process->n_asked : 0;

        *ret = (struct asked){.id = number(&world.in)};
        if (!process->n_asked)
                return;
        *ret = process->asked[i];
        process->n_asked--;
        memmove(&process->asked[i], &process->asked[i + 1], (process->n_asked - i) * sizeof(process->asked[0]));
}

static void worker_ready(ds_process *process)
{
        Detshare__Internal__FromWorker from = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__Ready ready = DETSHARE__INTERNAL__READY__INIT;

        ready.name = ready.model = (char *)"fuzz";
        ready.policy = (char *)"fifo";
        ready.simulated = fuzz_u8(&world.in) & 1;
        ready.memory_bytes = DS_GIB(64);
        from.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_READY;
        from.ready = &ready;
        say_message(process, &from.base);
}

/* Sends the reply of a correct worker, with a slab after an allocation. */
static void worker_answers(ds_process *process)
{
        Detshare__Internal__FromWorker from = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Slab slab = DETSHARE__INTERNAL__SLAB__INIT;
        Detshare__Internal__Range range = DETSHARE__INTERNAL__RANGE__INIT;
        Detshare__Internal__Module module = DETSHARE__INTERNAL__MODULE__INIT;
        Detshare__Internal__Stream stream = DETSHARE__INTERNAL__STREAM__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        struct asked asked;

        take_asked(process, &asked);
        from.id = asked.id;
        ledger.session = asked.session;
        if (asked.body == DETSHARE__INTERNAL__TO_WORKER__BODY_CALL) {
                from.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_REPLY;
                from.reply = &reply;
        }
        if (asked.call == DETSHARE__REQUEST__CALL_MEM_ALLOC || asked.call == DETSHARE__REQUEST__CALL_PINNED_ALLOC) {
                slab.pinned = range.pinned = asked.call == DETSHARE__REQUEST__CALL_PINNED_ALLOC;
                slab.va = number(&world.in);
                slab.bytes = DS_MIB(64);
                range.va = slab.va + (fuzz_u8(&world.in) & 7) * 4096u;
                range.bytes = 4096;
                ledger.slab_added = fuzz_u8(&world.in) & 1 ? NULL : &slab;
                ledger.alloc_added = &range;
                from.ledger = &ledger;
                if (ledger.slab_added)
                        add_file(process, 0, slab.bytes);
        } else if (asked.call == DETSHARE__REQUEST__CALL_MODULE_LOAD) {
                module.module = number(&world.in);
                ledger.module_added = &module;
                from.ledger = &ledger;
        } else if (asked.call == DETSHARE__REQUEST__CALL_STREAM_CREATE) {
                stream.stream = fuzz_u8(&world.in);
                ledger.stream_added = &stream;
                from.ledger = &ledger;
        } else if (asked.call == DETSHARE__REQUEST__CALL_RESET_SESSION) {
                ledger.reset = 1;
                from.ledger = &ledger;
        }
        from.fds = (uint32_t)process->n_files;
        say_message(process, &from.base);
}

/* Sends any valid message. */
static void worker_lies(ds_process *process)
{
        Detshare__Internal__FromWorker *from =
                (Detshare__Internal__FromWorker *)fuzz_message(maker(), &detshare__internal__from_worker__descriptor);
        struct asked asked;

        if (fuzz_u8(&world.in) & 3) {
                take_asked(process, &asked);
                from->id = asked.id;
                if (from->ledger)
                        from->ledger->session = asked.session;
        }
        for (unsigned n = fuzz_below(&world.in, 3); n > 0; n--)
                add_file(process, 0, DS_MIB(64));
        if (fuzz_u8(&world.in) < 0xf0)
                from->fds = (uint32_t)process->n_files;
        if (from->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_REPLY && from->reply)
                from->reply->fds = from->fds;
        say_message(process, &from->base);
}

static void helper_speaks(ds_process *process)
{
        Detshare__Internal__FromHelper *from =
                (Detshare__Internal__FromHelper *)fuzz_message(maker(), &detshare__internal__from_helper__descriptor);
        struct asked asked;

        take_asked(process, &asked);
        from->id = asked.id;
        if (fuzz_u8(&world.in) & 3) {
                from->status = 0;
                from->bytes = 1 + fuzz_u8(&world.in);
                from->variable_bytes %= DS_MIB(1);
                add_file(process, (fuzz_u8(&world.in) & 7) != 0, from->bytes);
        }
        from->fds = (uint32_t)process->n_files;
        say_message(process, &from->base);
}

static void say_raw(ds_process *process)
{
        size_t n;
        const uint8_t *bytes = fuzz_span(&world.in, fuzz_u8(&world.in), &n);
        uint8_t *copy = fuzz_copy(bytes, n);

        say(process, copy, n);
        free(copy);
}

static void worker_acts(void)
{
        ds_process *process = find_process(0);
        uint8_t how = fuzz_u8(&world.in);

        if (!process || process->dying)
                return;
        if (!world.listening || how < 16)
                worker_ready(process);
        else if (how < 0xb0)
                worker_answers(process);
        else if (how < 0xe8)
                worker_lies(process);
        else if (how < 0xf0)
                say_raw(process);
        else if (how < 0xf8 && world.page)
                ((_Atomic uint64_t *)world.page)[fuzz_below(&world.in, 64)] = number(&world.in);
        else
                end_process(process, how & 1);
}

static void helper_acts(void)
{
        ds_process *process = find_process(1);
        uint8_t how = fuzz_u8(&world.in);

        if (!process || process->dying)
                return;
        if (how < 0xe0)
                helper_speaks(process);
        else if (how < 0xf0)
                say_raw(process);
        else
                end_process(process, how & 1);
}

/* --- clients ------------------------------------------------------------------------------------------------------ */

static void client_comes(size_t i)
{
        static const uid_t users[] = {0, 1000, 1001, 65534};
        int pair[2];

        if (!world.listening)
                return;
        world.uid = users[fuzz_below(&world.in, DS_ARRAY_SIZE(users))];
        FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
        FUZZ_CHECK(ds_conn_new(pair[1], DS_FRAME_MAX, DS_MIB(4), &world.clients[i]) == 0);
        (void)ds_client_new(world.supervisor, pair[0]);
}

static void client_goes(size_t i)
{
        world.clients[i] = ds_conn_free(world.clients[i]);
}

static void client_hears(size_t i)
{
        const uint8_t *payload;
        size_t size;
        int over = ds_conn_read(world.clients[i]);

        while (ds_conn_next(world.clients[i], &payload, &size) == 1) {
                Detshare__Reply *reply = detshare__reply__unpack(NULL, size, payload);
                int fds[DS_CONN_FDS_MAX];

                FUZZ_CHECK(reply);
                FUZZ_CHECK(ds_conn_take_fds(world.clients[i], fds, reply->fds) == 0);
                for (uint32_t f = 0; f < reply->fds; f++)
                        close(fds[f]);
                if (reply->result_case == DETSHARE__REPLY__RESULT_HELLO)
                        learn(reply->hello->session);
                detshare__reply__free_unpacked(reply, NULL);
        }
        if (over)
                client_goes(i);
}

static void client_says(size_t i)
{
        static uint8_t bytes[DS_FRAME_MAX];
        Detshare__Request *request = (Detshare__Request *)fuzz_message(maker(), &detshare__request__descriptor);
        int image = -1;

        request->fds = 0;
        if (request->call_case == DETSHARE__REQUEST__CALL_HELLO)
                request->hello->version = 1;
        if (request->call_case == DETSHARE__REQUEST__CALL_MODULE_LOAD) {
                image = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
                request->fds = 1;
        }
        if (protobuf_c_message_get_packed_size(&request->base) <= sizeof(bytes))
                (void)ds_conn_send(
                        world.clients[i], bytes, protobuf_c_message_pack(&request->base, bytes), &image, image >= 0);
        ds_close(image);
}

static void client_greets(size_t i)
{
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__Hello hello = DETSHARE__HELLO__INIT;
        uint8_t bytes[256], how = fuzz_u8(&world.in);

        hello.version = 1;
        hello.class_ = how & 1;
        hello.control_only = (how & 0xe) == 2;
        hello.memory_limit = how & 0x10 ? DS_MIB(how) : 0;
        hello.name = (char *)"fuzz";
        request.id = how;
        request.call_case = DETSHARE__REQUEST__CALL_HELLO;
        request.hello = &hello;
        (void)ds_conn_send(world.clients[i], bytes, detshare__request__pack(&request, bytes), NULL, 0);
}

static void client_scribbles(size_t i)
{
        size_t n;
        const uint8_t *bytes = fuzz_span(&world.in, fuzz_u8(&world.in), &n);

        if (fuzz_u8(&world.in) & 1)
                (void)ds_conn_send(world.clients[i], bytes, n, NULL, 0);
        else
                (void)!send(ds_conn_fd(world.clients[i]), bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void client_acts(void)
{
        uint8_t how = fuzz_u8(&world.in);
        size_t i = how % CLIENTS;

        how = fuzz_u8(&world.in);
        if (!world.clients[i]) {
                client_comes(i);
                if (world.clients[i] && how < 0xe0)
                        client_greets(i);
                return;
        }
        if (how < 0xb0)
                client_says(i);
        else if (how < 0xd0)
                client_hears(i);
        else if (how < 0xe0)
                client_greets(i);
        else if (how < 0xf8)
                client_scribbles(i);
        else
                client_goes(i);
}

/* --- sequence of events ------------------------------------------------------------------------------------------- */

static void turn(void)
{
        uv_run(&world.supervisor->loop, UV_RUN_NOWAIT);
        bury();
}

static void reap(void)
{
        for (size_t i = 0; i < PROCESSES; i++)
                if (world.processes[i] && world.processes[i]->dying)
                        end_process(world.processes[i], 1);
        bury();
}

static void step(void)
{
        switch (fuzz_below(&world.in, 16)) {
        case 0:
                world.now_ns += number(&world.in) % 20000 * DS_NS_PER_MS;
                break;
        case 1:
                reap();
                break;
        case 2:
                helper_acts();
                break;
        case 3:
        case 4:
        case 5:
        case 6:
        case 7:
                worker_acts();
                break;
        default:
                client_acts();
        }
        turn();
}

static void stop(void)
{
        ds_supervisor_stop(world.supervisor);
        for (int i = 0; i < 100 && uv_loop_alive(&world.supervisor->loop); i++) {
                for (size_t p = 0; p < PROCESSES; p++)
                        if (world.processes[p])
                                end_process(world.processes[p], 1);
                world.now_ns += DS_NS_PER_S;
                turn();
        }
        FUZZ_CHECK(!uv_loop_alive(&world.supervisor->loop));
        ds_supervisor_free(world.supervisor); /* asserts that everything is released */
        bury();
        for (size_t p = 0; p < PROCESSES; p++)
                FUZZ_CHECK(!world.processes[p]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct ds_config config;
        static struct ds_options options = {.device = "sim:fuzz",
                .socket = "/fuzz",
                .policy = "fifo",
                .config = &config,
                .transform = DS_TRANSFORM_AUTO,
                .worker_path = "worker",
                .helper_path = "helper",
                .config_path = "/dev/null"};
        sigset_t signals;

        fuzz_quiet();
        signal(SIGPIPE, SIG_IGN);
        memset(&world, 0, sizeof(world));
        world.in = (struct fuzz_input){data, size};
        world.now_ns = 1000 * DS_NS_PER_S;
        pthread_sigmask(SIG_BLOCK, NULL, &signals);
        FUZZ_CHECK(ds_supervisor_new(&options, &world.supervisor) == 0);
        FUZZ_CHECK(!ds_announce_start(world.supervisor) && !ds_worker_start(world.supervisor->worker) &&
                   !ds_helper_start(world.supervisor->helper));
        worker_ready(find_process(0));
        for (int i = 0; i < STEPS_MAX && world.in.size && world.supervisor->state != DS_DAEMON_STOPPING; i++)
                step();
        stop();
        for (size_t i = 0; i < CLIENTS; i++)
                client_goes(i);
        if (world.page)
                munmap(world.page, DS_PAGE_BYTES);
        pthread_sigmask(SIG_SETMASK, &signals, NULL);
        fuzz_expect_files();
        return 0;
}
