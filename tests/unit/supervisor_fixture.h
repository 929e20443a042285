/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A supervisor in a child process, with a fake worker and a fake helper
 *
 * The test program itself plays both. Started under the name detshare-worker or detshare-helper (a link in the test's
 * directory), it speaks the internal protocol, and environment variables say how it misbehaves. So a test can produce
 * every death, lie and delay of a worker. The supervisor under test is the real one.
 */
#pragma once

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "internal.pb-c.h"
#include "proto/wire.h"
#include "supervisor/supervisor.h"
#include "util/alloc.h"
#include "util/frame.h"
#include "util/macro.h"

#define FX_WAIT_MS 10000

static inline uint64_t fx_now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- frames: blocking, with a deadline ---------------------------------------------------------------------------- */

static inline ds_conn *fx_conn(int fd)
{
        ds_conn *conn = NULL;

        if (ds_conn_new(fd, 256 << 10, 4 << 20, &conn))
                abort();
        return conn;
}

static inline void fx_send(ds_conn *conn, const ProtobufCMessage *message, const int *fds, size_t n_fds)
{
        size_t size = protobuf_c_message_get_packed_size(message);
        uint8_t *bytes = malloc(size + 1);

        protobuf_c_message_pack(message, bytes);
        (void)ds_conn_send(conn, bytes, size, fds, n_fds);
        free(bytes);
}

/* The next message; NULL at the end of the connection or after ms milliseconds. */
static inline ProtobufCMessage *fx_receive(ds_conn *conn, const ProtobufCMessageDescriptor *descriptor, int ms)
{
        uint64_t end = fx_now_ms() + (uint64_t)ms;
        const uint8_t *payload;
        size_t size;

        for (;;) {
                struct pollfd p = {.fd = ds_conn_fd(conn), .events = POLLIN};
                uint64_t now = fx_now_ms();

                if (ds_conn_next(conn, &payload, &size) == 1)
                        return protobuf_c_message_unpack(descriptor, NULL, size, payload);
                if (now >= end || poll(&p, 1, (int)(end - now)) <= 0 || ds_conn_read(conn))
                        return NULL;
        }
}

/* --- the fake worker ---------------------------------------------------------------------------------------------- */

/* Whether the environment variable FAKE_WORKER contains the word; each word switches one behaviour on. */
static inline int fw_does(const char *word)
{
        const char *mode = getenv("FAKE_WORKER");

        return mode && strstr(mode, word);
}

static inline void fw_log(const char *fmt, ...) __attribute__((__format__(__printf__, 1, 2)));

static inline void fw_log(const char *fmt, ...)
{
        FILE *f = fopen(getenv("FAKE_LOG"), "a");
        va_list args;

        va_start(args, fmt);
        vfprintf(f, fmt, args);
        va_end(args);
        fclose(f);
}

static inline void fw_ready(ds_conn *conn)
{
        Detshare__Internal__FromWorker from = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__Ready ready = DETSHARE__INTERNAL__READY__INIT;
        static int32_t attributes[100] = {[75] = 9, [76] = 0};
        static uint64_t limits[3] = {1024, 1 << 20, 8 << 20};

        ready.name = (char *)"DetShare fake";
        ready.model = (char *)"fake";
        ready.policy = (char *)"fifo";
        ready.simulated = !getenv("FAKE_WORKER") || !strstr(getenv("FAKE_WORKER"), "silicon");
        ready.memory_bytes = DS_GIB(1);
        ready.n_attributes = DS_ARRAY_SIZE(attributes);
        ready.attributes = attributes;
        ready.n_sms = 132;
        ready.n_tpcs = 66;
        ready.n_gpcs = 8;
        ready.n_rungs = 15;
        ready.own_bytes = DS_MIB(600);
        ready.n_limits = DS_ARRAY_SIZE(limits);
        ready.limits = limits;
        from.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_READY;
        from.ready = &ready;
        fx_send(conn, &from.base, NULL, 0);
}

/* The state of each session in the fake worker; index: session id */
static struct {
        uint64_t window, slabs;
        struct ds_completion_page *page;
} fw_sessions[1024]; /* large, because requests for the status use ids too */

static inline void fw_stirred(ds_conn *conn)
{
        Detshare__Internal__FromWorker from = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__Stirred stirred = DETSHARE__INTERNAL__STIRRED__INIT;

        from.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_STIRRED;
        from.stirred = &stirred;
        fx_send(conn, &from.base, NULL, 0);
}

/* Answers an allocation with a slab of its own, or with a lie about one. */
static inline void fw_alloc(ds_conn *conn, uint64_t id, uint64_t session)
{
        Detshare__Internal__FromWorker from = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Slab slab = DETSHARE__INTERNAL__SLAB__INIT;
        Detshare__Internal__Range range = DETSHARE__INTERNAL__RANGE__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        Detshare__Address address = DETSHARE__ADDRESS__INIT;
        ds_cleanup(ds_closep) int fd = memfd_create("slab", MFD_CLOEXEC);

        slab.va = fw_sessions[session].window + fw_sessions[session].slabs++ * DS_MIB(64);
        slab.va -= fw_does("lies") ? DS_GIB(4) : 0;
        slab.bytes = DS_MIB(64);
        range.va = slab.va;
        range.bytes = 4096;
        ledger.session = session;
        ledger.slab_added = &slab;
        ledger.alloc_added = &range;
        address.address = slab.va;
        address.bytes = 4096;
        reply.result_case = DETSHARE__REPLY__RESULT_MEM_ALLOC;
        reply.mem_alloc = &address;
        from.id = id;
        from.fds = 1;
        from.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_REPLY;
        from.reply = &reply;
        from.ledger = &ledger;
        fx_send(conn, &from.base, &fd, 1);
        if (fw_does("stirs"))
                fw_stirred(conn);
}

static inline void fw_reply(ds_conn *conn, uint64_t id, Detshare__Internal__Ledger *ledger)
{
        Detshare__Internal__FromWorker from = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        from.id = id;
        from.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_REPLY;
        from.reply = &reply;
        from.ledger = ledger;
        fx_send(conn, &from.base, NULL, 0);
}

/* Answers with the error that the session's page had when the session was opened, in the wording of a real worker. */
static inline void fw_reply_error(ds_conn *conn, uint64_t id, uint64_t session)
{
        Detshare__Internal__FromWorker from = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        reply.status = atomic_load(&fw_sessions[session].page->error);
        reply.message = (char *)(reply.status ? "work was lost" : "");
        from.id = id;
        from.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_REPLY;
        from.reply = &reply;
        fx_send(conn, &from.base, NULL, 0);
}

/* Answers with a virtual time that no completion page contains. */
static inline void fw_reply_clock(ds_conn *conn, uint64_t id)
{
        Detshare__Internal__FromWorker from = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        Detshare__ClockReply clock = DETSHARE__CLOCK_REPLY__INIT;

        clock.now_ns = 12345;
        reply.result_case = DETSHARE__REPLY__RESULT_CLOCK;
        reply.clock = &clock;
        from.id = id;
        from.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_REPLY;
        from.reply = &reply;
        fx_send(conn, &from.base, NULL, 0);
}

/* Modules, and requests for forms of their kernels. Clients name modules by their order, from 0. */
static uint64_t fw_modules[256];
static size_t fw_n_modules;

static inline void fw_module(ds_conn *conn, uint64_t id, uint64_t session)
{
        Detshare__Internal__FromWorker from = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__FormsWanted wanted = DETSHARE__INTERNAL__FORMS_WANTED__INIT;
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Module module = DETSHARE__INTERNAL__MODULE__INIT;

        module.module = id;
        module.writable_globals = fw_does("globals");
        fw_modules[fw_n_modules++ % DS_ARRAY_SIZE(fw_modules)] = id;
        ledger.session = session;
        ledger.module_added = &module;
        fw_reply(conn, id, &ledger);
        if (!fw_does("wants"))
                return;
        wanted.session = session;
        wanted.module = id;
        from.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_FORMS_WANTED;
        from.forms_wanted = &wanted;
        fx_send(conn, &from.base, NULL, 0);
}

/* Sends the text that a kernel printed, then the count. A worker with the word `swallow` only counts. */
static inline void fw_print(ds_conn *conn, uint64_t session, const Detshare__Write *write)
{
        Detshare__Internal__FromWorker from = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__Output output = DETSHARE__INTERNAL__OUTPUT__INIT;

        output.session = session;
        output.to_stderr = write->stream == 1;
        output.text = write->data;
        from.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_OUTPUT;
        from.output = &output;
        if (!fw_does("swallows"))
                fx_send(conn, &from.base, NULL, 0);
        atomic_fetch_add(&fw_sessions[session].page->output, write->data.len);
}

/* Reports a context that a kernel of this session destroyed; the process then sleeps, so that it ends late. */
static inline void fw_lose(ds_conn *conn, uint64_t session)
{
        Detshare__Internal__FromWorker from = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__DeviceLost lost = DETSHARE__INTERNAL__DEVICE_LOST__INIT;

        lost.status = 700;
        lost.message = (char *)"kernel boom wrote to address 0x10";
        lost.suspects = &session;
        lost.n_suspects = 1;
        from.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_LOST;
        from.lost = &lost;
        fx_send(conn, &from.base, NULL, 0);
        sleep(30);
        _exit(1);
}

/* Requests that get no answer before their session ends. */
static struct {
        uint64_t session, id;
} fw_held[256];
static size_t fw_n_held;

static inline void fw_hold(uint64_t session, uint64_t id)
{
        if (fw_n_held == DS_ARRAY_SIZE(fw_held))
                abort();
        fw_held[fw_n_held].session = session;
        fw_held[fw_n_held++].id = id;
}

/* A worker answers all requests of a session before it reports that the session is closed. */
static inline void fw_release(ds_conn *conn, uint64_t session)
{
        size_t kept = 0;

        for (size_t i = 0; i < fw_n_held; i++) {
                if (fw_held[i].session == session)
                        fw_reply(conn, fw_held[i].id, NULL);
                else
                        fw_held[kept++] = fw_held[i];
        }
        fw_n_held = kept;
}

static inline void fw_call(ds_conn *conn, const Detshare__Internal__ToWorker *to)
{
        const Detshare__Internal__Call *call = to->call;
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        ledger.session = call->session;
        fw_log("call %d\n", (int)call->request->call_case);
        switch (call->request->call_case) {
        case DETSHARE__REQUEST__CALL_MEM_ALLOC:
                fw_alloc(conn, to->id, call->session);
                break;
        case DETSHARE__REQUEST__CALL_MODULE_LOAD:
                fw_module(conn, to->id, call->session);
                break;
        case DETSHARE__REQUEST__CALL_MODULE_UNLOAD:
                ledger.module_removed = fw_modules[call->request->module_unload->module % DS_ARRAY_SIZE(fw_modules)];
                fw_reply(conn, to->id, &ledger);
                break;
        case DETSHARE__REQUEST__CALL_RESET_SESSION:
                ledger.reset = 1;
                fw_reply(conn, to->id, &ledger);
                break;
        case DETSHARE__REQUEST__CALL_LAUNCH: /* a launch is accepted and never completes */
                atomic_fetch_add(&fw_sessions[call->session].page->accepted, 1);
                atomic_store(&fw_sessions[call->session].page->stream_done[0], 7);
                fw_reply(conn, to->id, NULL);
                break;
        case DETSHARE__REQUEST__CALL_SYNC: /* a synchronisation is answered when its session ends */
                fw_hold(call->session, to->id);
                break;
        case DETSHARE__REQUEST__CALL_WRITE:
                fw_print(conn, call->session, call->request->write);
                fw_reply(conn, to->id, NULL);
                break;
        case DETSHARE__REQUEST__CALL_MEMSET:
                fw_reply_error(conn, to->id, call->session);
                break;
        case DETSHARE__REQUEST__CALL_COPY:
                fw_lose(conn, call->session);
                break;
        case DETSHARE__REQUEST__CALL_SET_LIMIT:
                fw_log("limit %u %d\n", call->request->set_limit->limit, (int)call->request->set_limit->value);
                fw_reply(conn, to->id, NULL);
                break;
        case DETSHARE__REQUEST__CALL_CLOCK_JOIN:
                fw_reply_clock(conn, to->id);
                break;
        case DETSHARE__REQUEST__CALL_QUERY:
                if (fw_does("garbage"))
                        (void)ds_conn_send(conn, "\xff\xff\xff", 3, NULL, 0);
                else if (fw_does("forges"))
                        fw_reply(conn, to->id + 1000, NULL);
                else if (fw_does("dies"))
                        _exit(9);
                else
                        fw_reply(conn, to->id, NULL);
                break;
        default:
                fw_reply(conn, to->id, NULL);
        }
}

static inline void fw_message(ds_conn *conn, const Detshare__Internal__ToWorker *to)
{
        Detshare__Internal__FromWorker from = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        int fds[4] = {-1, -1, -1, -1};

        (void)ds_conn_take_fds(conn, fds, to->fds);
        from.id = to->id;
        if (fw_does("polls") && to->spin_ns)
                fw_log("may poll for %d us\n", (int)(to->spin_ns / DS_NS_PER_US));
        if (to->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_OPEN) {
                struct ds_completion_page *page;

                page = mmap(NULL, DS_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
                fw_sessions[to->open->session].page = page;
                fw_sessions[to->open->session].window = to->open->window_base;
                fw_log("open class=%d error=%d\n", (int)to->open->class_, atomic_load(&page->error));
        } else if (to->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_SLAB) {
                fw_sessions[to->restore_slab->session].slabs++;
                fw_log("slab %d allocs=%zu fds=%u\n", (int)to->restore_slab->slab->bytes, to->restore_slab->n_allocs,
                        to->fds);
        } else if (to->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MODULE) {
                fw_log("module bytes=%d fds=%u\n", (int)to->restore_module->bytes, to->fds);
        } else if (to->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_MODULE_FORMS) {
                fw_log("forms: %s\n", to->module_forms->bytes ? "here" : to->module_forms->why);
        } else if (to->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_STREAM) {
                fw_log("stream %u seq=%d\n", to->restore_stream->stream->stream, (int)to->restore_stream->seq);
        } else if (to->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_CLOSE) {
                fw_release(conn, to->close->session);
        } else if (to->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_STOP) {
                if (!fw_does("lingers"))
                        _exit(0);
        } else if (to->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_SET_POLICY) {
                fw_log("policy %s params=%zu\n", to->set_policy->name, to->set_policy->n_params);
        } else if (to->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_CALIBRATION) {
                fw_log("calibration of %zu\n", to->calibration->n_cells);
        } else if (to->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_LIMITS) {
                fw_log("limits %d %d %d %d%s\n", (int)(to->limits->orphan_ns / DS_NS_PER_MS),
                        (int)(to->limits->kernel_ns / DS_NS_PER_MS), (int)(to->limits->quiesce_ns / DS_NS_PER_MS),
                        (int)(to->limits->spin_ns / DS_NS_PER_US), to->limits->spin_never ? " never" : "");
        }
        for (int i = 0; i < 4; i++)
                ds_close(fds[i]);
        if (to->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_CALL && to->call->no_ptx)
                fw_log("image without PTX\n");
        if (to->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_CALL)
                fw_call(conn, to);
        else if (to->id)
                fx_send(conn, &from.base, NULL, 0);
}

/* Plays the process with a second context (supervisor/settle.h). */
static inline void fw_settle(void)
{
        char said[64];

        fw_log("settle\n");
        while (fw_does("hangs"))
                pause();
        if (fw_does("perishes"))
                raise(SIGKILL);
        while (!fw_does("refuses") && !fw_does("leaves") && read(3, said, sizeof(said)) > 0)
                fw_log("turn\n");
        _exit(fw_does("refuses"));
}

static inline void fw_main(int argc, char **argv)
{
        Detshare__Internal__ToWorker *to;
        ds_conn *conn;

        if (argc > 1 && !strcmp(argv[1], "--settle"))
                fw_settle();
        conn = fx_conn(3);
        fw_log("start %s\n", argc > 4 ? argv[4] : "");
        for (int i = 7; fw_does("arguments") && i < argc; i++)
                fw_log("%s\n", argv[i]);
        if (fw_does("fails"))
                _exit(3);
        if (fw_does("says")) {
                Detshare__Internal__FromWorker from = DETSHARE__INTERNAL__FROM_WORKER__INIT;

                from.status = 100;
                from.message = (char *)"there is no such device";
                fx_send(conn, &from.base, NULL, 0);
                _exit(1);
        }
        fw_ready(conn);
        while ((to = (Detshare__Internal__ToWorker *)fx_receive(
                        conn, &detshare__internal__to_worker__descriptor, 3600000))) {
                fw_message(conn, to);
                detshare__internal__to_worker__free_unpacked(to, NULL);
        }
        _exit(0);
}

/* --- the fake helper ---------------------------------------------------------------------------------------------- */

static uint64_t fh_held; /* id of an image that gets no answer until it is cancelled; 0: none */

static inline void fh_cancel(ds_conn *conn, uint64_t image)
{
        Detshare__Internal__FromHelper from = DETSHARE__INTERNAL__FROM_HELPER__INIT;

        fw_log("cancelled %u\n", (unsigned)image);
        if (!fh_held || fh_held != image)
                return;
        /* the cancelled image's withheld answer goes out now */
        fh_held = 0;
        from.id = image;
        from.status = 999;
        from.message = (char *)"cancelled";
        fx_send(conn, &from.base, NULL, 0);
}

static inline void fh_forge(ds_conn *conn, uint64_t id)
{
        Detshare__Internal__FromHelper from = DETSHARE__INTERNAL__FROM_HELPER__INIT;

        from.id = id;
        from.status = 218;
        from.message = (char *)"forged";
        fx_send(conn, &from.base, NULL, 0);
}

/* The first byte of an image selects the helper's behaviour. */
static inline void fh_answer(ds_conn *conn, uint64_t id, char first)
{
        Detshare__Internal__FromHelper from = DETSHARE__INTERNAL__FROM_HELPER__INIT;
        ds_cleanup(ds_closep) int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        const char *mode = getenv("FAKE_HELPER");

        if (first == 'S') /* 'S': a slow image */
                usleep(300000);
        if (write(fd, "checked", 7) != 7)
                _exit(8);
        if (!mode || !strstr(mode, "unsealed"))
                fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
        if (first == 'F') /* 'F': the helper answers for an image that another helper has */
                fh_forge(conn, id - 1);
        from.id = id;
        from.status = first == 'B' ? 218 : 0;
        from.message = first == 'B' ? (char *)"module:1: bad" : (char *)"";
        from.bytes = 7;
        from.fds = from.status == 0;
        from.no_ptx = first == 'P'; /* 'P': machine code without PTX */
        /* 'V', 'W': an image with variables */
        from.variable_bytes = first == 'V' ? 2 * 4096 : first == 'W' ? UINT64_MAX : 0;
        fx_send(conn, &from.base, &fd, from.fds);
}

static inline void fh_check(ds_conn *conn, const Detshare__Internal__ToHelper *to)
{
        ds_cleanup(ds_closep) int image = -1;
        char first = 0;

        if (ds_conn_take_fds(conn, &image, 1) || pread(image, &first, 1, 0) != 1)
                _exit(8);
        if (first == 'R') /* 'R': the reading is logged */
                fw_log("an image was read\n");
        if (to->check->forms == DETSHARE__INTERNAL__IMAGE_FORMS__FORMS_ONLY) {
                fw_log("forms for %u\n", to->check->uid);
                fh_held = to->id;  /* no answer until the supervisor cancels the request */
        } else if (first == 'K') { /* 'K': the helper dies */
                _exit(7);
        } else if (first == 'N') { /* 'N': never answered */
                fw_log("image without end\n");
        } else {
                fh_answer(conn, to->id, first);
        }
}

static inline void fh_main(void)
{
        Detshare__Internal__ToHelper *to;
        ds_conn *conn = fx_conn(3);

        while ((to = (Detshare__Internal__ToHelper *)fx_receive(
                        conn, &detshare__internal__to_helper__descriptor, 3600000))) {
                if (to->body_case == DETSHARE__INTERNAL__TO_HELPER__BODY_CANCEL)
                        fh_cancel(conn, to->cancel->image);
                else
                        fh_check(conn, to);
                detshare__internal__to_helper__free_unpacked(to, NULL);
        }
        _exit(0);
}

__attribute__((constructor)) static void fx_constructor(int argc, char **argv)
{
        const char *base = argc > 0 ? strrchr(argv[0], '/') : NULL;

        if (base && !strcmp(base, "/detshare-worker"))
                fw_main(argc, argv);
        if (base && !strcmp(base, "/detshare-helper"))
                fh_main();
}

/* --- the supervisor ----------------------------------------------------------------------------------------------- */

struct fixture {
        char dir[64], socket[80], log[80];
        struct ds_options options;
        struct ds_config config;
        pid_t pid;
        rlim_t files;       /* limit of open files; 0: unchanged */
        int64_t fail_after; /* the allocation that fails, counted from 1; 0: none */
};

static inline void fx_init(struct fixture *f)
{
        char target[200], path[200];
        ssize_t n;

        *f = (struct fixture){.options = {.device = "sim:fake", .policy = "fifo", .transform = DS_TRANSFORM_AUTO}};
        snprintf(f->dir, sizeof(f->dir), "/tmp/detshare-unit-XXXXXX");
        cr_assert(mkdtemp(f->dir));
        snprintf(f->socket, sizeof(f->socket), "%s/sock", f->dir);
        snprintf(f->log, sizeof(f->log), "%s/log", f->dir);
        n = readlink("/proc/self/exe", target, sizeof(target) - 1);
        cr_assert_gt(n, 0);
        target[n] = 0;
        snprintf(path, sizeof(path), "%s/detshare-worker", f->dir);
        snprintf(f->options.worker_path, sizeof(f->options.worker_path), "%s", path);
        cr_assert_eq(symlink(target, path), 0);
        snprintf(path, sizeof(path), "%s/detshare-helper", f->dir);
        snprintf(f->options.helper_path, sizeof(f->options.helper_path), "%s", path);
        cr_assert_eq(symlink(target, path), 0);
        f->options.socket = f->socket;
        setenv("FAKE_LOG", f->log, 1);
        signal(SIGPIPE, SIG_IGN);
}

static inline void fx_child(struct fixture *f)
{
        struct ds_supervisor *supervisor;
        int r;

        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test leaves no process behind */
        if (f->files)
                setrlimit(RLIMIT_NOFILE, &(struct rlimit){f->files, f->files});
        f->options.config = &f->config;
        if (ds_supervisor_new(&f->options, &supervisor))
                _exit(1);
        if (f->fail_after)
                ds_alloc_fail_after(f->fail_after);
        r = ds_supervisor_run(supervisor);
        ds_supervisor_free(supervisor); /* asserts that all charges are released */
        /* _exit, not exit: memory of the test program's threads is no leak of this process */
        _exit(r);
}

static inline void fx_start(struct fixture *f)
{
        fflush(NULL);
        f->pid = fork();
        cr_assert_geq(f->pid, 0);
        if (f->pid == 0)
                fx_child(f);
}

/* The exit status within ms milliseconds, or -1 after killing the process. */
static inline int fx_wait(struct fixture *f, int ms)
{
        int status;

        for (uint64_t end = fx_now_ms() + (uint64_t)ms; fx_now_ms() < end; usleep(2000))
                if (waitpid(f->pid, &status, WNOHANG) == f->pid)
                        return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
        kill(f->pid, SIGKILL);
        waitpid(f->pid, &status, 0);
        return -1;
}

static inline void fx_clean(struct fixture *f)
{
        static const char *const names[] = {"detshare-worker", "detshare-helper", "log", "sock"};
        char path[200];

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                snprintf(path, sizeof(path), "%s/%s", f->dir, names[i]);
                unlink(path);
        }
        cr_assert_eq(rmdir(f->dir), 0);
}

/* Sends SIGTERM and asserts that the supervisor releases all charges, removes the socket and ends in the permitted
 * time. */
static inline void fx_stop(struct fixture *f)
{
        uint64_t begin = fx_now_ms();

        kill(f->pid, SIGTERM);
        cr_assert_eq(fx_wait(f, FX_WAIT_MS), 0);
        /* 2 s in all; more under a sanitizer, where DS_STOP_MAX_MS is larger */
        cr_assert_leq(fx_now_ms() - begin, DS_STOP_MAX_MS + 400);
        cr_assert_neq(access(f->socket, F_OK), 0);
        fx_clean(f);
}

/* Reads the lines that the fake worker wrote. */
static inline void fx_read_log(const struct fixture *f, char *buffer, size_t size)
{
        int fd = open(f->log, O_RDONLY | O_CLOEXEC);
        ssize_t n = read(fd, buffer, size - 1);

        close(fd);
        cr_assert_geq(n, 0);
        buffer[n] = 0;
}

/* Waits until the fake worker's last n lines all equal `line`. */
static inline void fx_await_log(const struct fixture *f, const char *line, int n)
{
        const uint64_t end = fx_now_ms() + FX_WAIT_MS;
        const size_t length = strlen(line);
        char log[4000];
        int found;

        do {
                size_t size;

                fx_read_log(f, log, sizeof(log));
                size = strlen(log);
                for (found = 0; size >= length && !strcmp(log + size - length, line); found++)
                        log[size -= length] = 0;
        } while (found < n && fx_now_ms() < end && usleep(1000) == 0);
        cr_assert_geq(found, n, "%d times %s in %s", n, line, log);
}

/* --- clients ------------------------------------------------------------------------------------------------------ */

static inline int fx_ended(const struct fixture *f)
{
        siginfo_t dead = {0};

        return waitid(P_PID, (id_t)f->pid, &dead, WEXITED | WNOHANG | WNOWAIT) == 0 && dead.si_pid;
}

static inline int fx_connect(const struct fixture *f)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->socket);
        for (uint64_t end = fx_now_ms() + FX_WAIT_MS; fx_now_ms() < end; usleep(2000)) {
                int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

                if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
                        return fd;
                close(fd);
                if (fx_ended(f))
                        return -1;
        }
        return -1;
}

static inline void fx_ask(ds_conn *conn, Detshare__Request *request, const int *fds)
{
        static uint64_t id;

        request->id = ++id;
        fx_send(conn, &request->base, fds, request->fds);
}

static inline Detshare__Reply *fx_answer(ds_conn *conn)
{
        return (Detshare__Reply *)fx_receive(conn, &detshare__reply__descriptor, FX_WAIT_MS);
}

/* Receives a reply. Returns its status; -1: the connection was closed. */
static inline int fx_status(ds_conn *conn)
{
        Detshare__Reply *reply = fx_answer(conn);
        int status = reply ? reply->status : -1;

        if (reply) {
                if (status)
                        cr_assert(reply->message[0], "status %d without a word", status);
                detshare__reply__free_unpacked(reply, NULL);
        }
        return status;
}

#define FX_REQUEST(name, NAME, type, TYPE)                    \
        Detshare__Request name##_r = DETSHARE__REQUEST__INIT; \
        Detshare__##type name = DETSHARE__##TYPE##__INIT;     \
        name##_r.call_case = DETSHARE__REQUEST__CALL_##NAME;  \
        name##_r.name = &name

static inline int fx_ping(ds_conn *conn)
{
        FX_REQUEST(ping, PING, Ping, PING);
        fx_ask(conn, &ping_r, NULL);
        return fx_status(conn);
}

static inline int fx_alloc_status(ds_conn *conn, uint64_t bytes)
{
        FX_REQUEST(mem_alloc, MEM_ALLOC, MemAlloc, MEM_ALLOC);

        mem_alloc.bytes = bytes;
        fx_ask(conn, &mem_alloc_r, NULL);
        return fx_status(conn);
}

/* Requests to load an image and announces `bytes` as the size of the file. */
static inline void fx_ask_load_bytes(ds_conn *conn, const char *image, uint64_t bytes)
{
        ds_cleanup(ds_closep) int fd = memfd_create("image", MFD_CLOEXEC);
        FX_REQUEST(module_load, MODULE_LOAD, ModuleLoad, MODULE_LOAD);

        cr_assert_eq(write(fd, image, strlen(image)), (ssize_t)strlen(image));
        module_load.bytes = bytes;
        module_load_r.fds = 1;
        fx_ask(conn, &module_load_r, &fd);
}

static inline void fx_ask_load(ds_conn *conn, const char *image)
{
        fx_ask_load_bytes(conn, image, strlen(image));
}

static inline int fx_load_status(ds_conn *conn, const char *image)
{
        fx_ask_load(conn, image);
        return fx_status(conn);
}

/* Opens a session; *ret_base is the address of its window. */
static inline ds_conn *fx_hello(
        const struct fixture *f, int control_only, Detshare__Class want, uint64_t *ret_base, Detshare__Class *ret_class)
{
        ds_conn *conn;
        Detshare__Reply *reply;
        int fd = fx_connect(f);
        FX_REQUEST(hello, HELLO, Hello, HELLO);

        if (fd < 0)
                return NULL;
        conn = fx_conn(fd);
        hello.version = 1;
        hello.name = (char *)"unit";
        hello.class_ = want;
        hello.control_only = control_only;
        fx_ask(conn, &hello_r, NULL);
        reply = fx_answer(conn);
        if (!reply || reply->status) {
                if (reply)
                        detshare__reply__free_unpacked(reply, NULL);
                return ds_conn_free(conn);
        }
        if (ret_base)
                *ret_base = reply->hello->window_base;
        if (ret_class)
                *ret_class = reply->hello->class_;
        detshare__reply__free_unpacked(reply, NULL);
        return conn;
}

static inline ds_conn *fx_session(const struct fixture *f)
{
        ds_conn *conn = fx_hello(f, 0, DETSHARE__CLASS__BE, NULL, NULL);

        cr_assert_not_null(conn);
        return conn;
}

static inline Detshare__Reply *fx_get_status(const struct fixture *f)
{
        ds_conn *conn = fx_hello(f, 1, DETSHARE__CLASS__BE, NULL, NULL);
        Detshare__Reply *reply;
        FX_REQUEST(get_status, GET_STATUS, GetStatus, GET_STATUS);

        cr_assert_not_null(conn);
        fx_ask(conn, &get_status_r, NULL);
        reply = fx_answer(conn);
        cr_assert(reply && reply->get_status);
        ds_conn_free(conn);
        return reply;
}

/* Waits until everything that clients held is released. */
static inline void fx_baseline(const struct fixture *f)
{
        uint32_t windows = 1, charges = 1;

        for (uint64_t end = fx_now_ms() + 3000; fx_now_ms() < end && (windows || charges); usleep(5000)) {
                Detshare__Reply *reply = fx_get_status(f);

                windows = reply->get_status->windows;
                charges = reply->get_status->charges;
                detshare__reply__free_unpacked(reply, NULL);
        }
        cr_assert_eq(windows, 0);
        cr_assert_eq(charges, 0);
}

/* Waits until the daemon serves with a worker whose pid is not `not_pid`. */
static inline uint32_t fx_wait_serving(const struct fixture *f, uint32_t not_pid)
{
        for (uint64_t end = fx_now_ms() + FX_WAIT_MS; fx_now_ms() < end; usleep(5000)) {
                Detshare__Reply *reply = fx_get_status(f);
                uint32_t pid = strcmp(reply->get_status->worker_state, "serving") ? 0 : reply->get_status->worker_pid;

                detshare__reply__free_unpacked(reply, NULL);
                if (pid && pid != not_pid)
                        return pid;
        }
        cr_assert_fail("the daemon does not serve again");
        return 0;
}
