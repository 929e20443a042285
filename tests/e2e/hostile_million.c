/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutated frames by the million, beside eight good clients
 *
 * Seeds are one valid request of every call in the schema, made from its descriptor, so that no new call is forgotten.
 * Each seed is sent once unchanged and must be understood. Then four processes of another user mutate them: with
 * knowledge of fields (values at limits, other types, repetition, bodies of other calls, wrong lengths) or without
 * (flipped bits, cuts, splices), over connections with and without hello, several frames at a time. Eight good clients,
 * latency-sensitive and best-effort, over ring and socket, compute and check their results. Frame n depends only on the
 * seed and n: the printed values suffice to send any part again.
 *
 * ClockJoin is among the seeds and is not mutated: a client that declares a thread may hold the virtual clock of a
 * simulated device for 5 s. That is no fault, and would dominate the measurement.
 *
 * usage: hostile_million BUILD [FRAMES] [SEED] [FIRST] [judge]
 *        FIRST: number of the first frame
 *        judge: p99 of the good clients beside the attack at most a fifth above alone, and drops within 10 ms; needs
 *        processors for four processes that send without pause
 *        DETSHARE_SOAK=1: 1,000,000 frames
 */
#include "tests/e2e/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"
#include "proto/wire.h"

#define FRAMES 60000u
#define ATTACKERS 4
#define CONNECTIONS 4 /* connections of each attacker */
#define GOOD 8
#define SAMPLES 65536u /* most samples of request times for each good client and phase */
#define HOSTILE_UID 54323
#define BODY_MAX 4096u
#define ALONE_MS 1500

enum phase { PHASE_WAIT, PHASE_ALONE, PHASE_BESIDE, PHASE_END };

struct good {
        uint32_t n[2], errors, us[2][SAMPLES];
        _Atomic int ready;
};

static struct shared {
        _Atomic int phase;
        _Atomic uint64_t sent, dropped, drops_timed, drop_us_max, drop_us_sum;
        struct good good[GOOD];
} * shared;

static const char *build;
static uint64_t seed, first, frames = FRAMES;
static int judge;

/* --- seeds -------------------------------------------------------------------------------------------------------- */

struct bytes {
        size_t n;
        uint8_t at[DS_FRAME_MAX + 4096];
};

static void put_byte(struct bytes *b, uint8_t value)
{
        if (b->n < sizeof(b->at))
                b->at[b->n++] = value;
}

static void put_varint(struct bytes *b, uint64_t value)
{
        for (; value > 0x7f; value >>= 7)
                put_byte(b, (uint8_t)value | 0x80);
        put_byte(b, (uint8_t)value);
}

static void put_bytes(struct bytes *b, const void *bytes, size_t n)
{
        n = n < sizeof(b->at) - b->n ? n : sizeof(b->at) - b->n;
        memcpy(b->at + b->n, bytes, n);
        b->n += n;
}

static void put_field(struct bytes *b, uint32_t field, unsigned wire_type)
{
        put_varint(b, (uint64_t)field << 3 | wire_type);
}

/* A value that a correct client might send in this field. */
static uint64_t field_value(const char *name)
{
        static const struct {
                const char *name;
                uint64_t value;
        } values[] = {{"version", 1}, {"bytes", 4096}, {"width", 64}, {"height", 1}, {"element_size", 4},
                {"sm_percent", 50}, {"set_sm_percent", 1}, {"set_slo", 1}, {"slo_ns", 1000000}, {"grid_x", 1},
                {"grid_y", 1}, {"grid_z", 1}, {"block_x", 1}, {"block_y", 1}, {"block_z", 1}};

        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
                if (!strcmp(values[i].name, name))
                        return values[i].value;
        return 0;
}

/* Writes every field of a call's message, in order. */
static void make_body(const ProtobufCMessageDescriptor *message, struct bytes *body)
{
        for (unsigned i = 0; i < message->n_fields; i++) {
                const ProtobufCFieldDescriptor *field = &message->fields[i];

                switch (field->type) {
                case PROTOBUF_C_TYPE_STRING:
                case PROTOBUF_C_TYPE_BYTES:
                        put_field(body, field->id, 2);
                        put_varint(body, 4);
                        put_bytes(body, "seed", 4);
                        break;
                case PROTOBUF_C_TYPE_MESSAGE: /* writes an empty message */
                        put_field(body, field->id, 2);
                        put_varint(body, 0);
                        break;
                default:
                        put_field(body, field->id, 0);
                        put_varint(body, field_value(field->name));
                        break;
                }
        }
}

static int is_call(const ProtobufCFieldDescriptor *field)
{
        return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

static unsigned n_calls(void)
{
        unsigned n = 0;

        for (unsigned i = 0; i < detshare__request__descriptor.n_fields; i++)
                n += is_call(&detshare__request__descriptor.fields[i]) ? 1 : 0;
        return n;
}

static const ProtobufCFieldDescriptor *call_at(unsigned index)
{
        for (unsigned i = 0; i < detshare__request__descriptor.n_fields; i++)
                if (is_call(&detshare__request__descriptor.fields[i]) && index-- == 0)
                        return &detshare__request__descriptor.fields[i];
        abort();
}

static void make_request(uint64_t id, uint32_t field, const struct bytes *body, struct bytes *frame)
{
        put_field(frame, 1, 0);
        put_varint(frame, id);
        put_field(frame, field, 2);
        put_varint(frame, body->n);
        put_bytes(frame, body->at, body->n);
}

/* Whether a call needs a memory file. */
static int brings_file(uint32_t call)
{
        return call == DETSHARE__REQUEST__CALL_MODULE_LOAD || call == DETSHARE__REQUEST__CALL_GRAPH_CREATE ||
               call == DETSHARE__REQUEST__CALL_GRAPH_UPDATE || call == DETSHARE__REQUEST__CALL_MODULE_LINK;
}

/* Every seed is understood: it gets a reply other than for an unknown request. A wait for host functions gets it
 * when one is due. */
static void test_seeds(void)
{
        static struct bytes body, frame;

        for (unsigned i = 0; i < n_calls(); i++) {
                const ProtobufCFieldDescriptor *call = call_at(i);
                int fd = call->id == DETSHARE__REQUEST__CALL_HELLO ? h_connect() : h_hello(0, NULL, NULL);
                Detshare__Reply *reply = NULL;
                uint8_t *payload;
                size_t size;

                body.n = frame.n = 0;
                make_body(call->descriptor, &body);
                make_request(9, call->id, &body, &frame);
                if (brings_file(call->id)) {
                        int image = memfd_create("seed", MFD_CLOEXEC);

                        put_field(&frame, 3, 0);
                        put_varint(&frame, 1);
                        h_check(h_send(fd, frame.at, frame.n, &image, 1) == 0, "seed %s: send", call->name);
                        close(image);
                } else {
                        h_check(h_send(fd, frame.at, frame.n, NULL, 0) == 0, "seed %s: send", call->name);
                }
                if (call->id == DETSHARE__REQUEST__CALL_HOST_NEXT) {
                        h_check(!h_closed(fd, 100), "the seed of %s was not understood", call->name);
                        close(fd);
                        continue;
                }
                payload = h_receive(fd, 20000, &size, NULL);
                if (payload)
                        reply = detshare__reply__unpack(NULL, size, payload);
                /* A daemon without a pool replies with the status of an unknown request. */
                h_check(reply && reply->id == 9 &&
                                (reply->status != DETSHARE__STATUS__UNSUPPORTED ||
                                        (reply->message && strstr(reply->message, "no pool of coloured memory"))),
                        "the seed of %s was not understood", call->name);
                if (reply)
                        detshare__reply__free_unpacked(reply, NULL);
                free(payload);
                close(fd);
        }
}

/* --- mutations ---------------------------------------------------------------------------------------------------- */

static uint64_t random_below(uint64_t *state, uint64_t n)
{
        return h_random(state) % n;
}

static uint64_t odd_value(uint64_t *state)
{
        static const uint64_t values[] = {0, 1, 2, 63, 64, 511, 512, 513, 4095, 4096, 65535, 65536, 0x7fffffff,
                0x80000000, 0xffffffff, UINT64_C(1) << 32, UINT64_C(1) << 40, UINT64_C(0x7fffffffffffffff),
                UINT64_C(1) << 63, UINT64_MAX - 1, UINT64_MAX, 61440, 61441, 10000, 32764, 32765};
        uint64_t value = values[random_below(state, sizeof(values) / sizeof(values[0]))];

        switch (random_below(state, 4)) {
        case 0:
                return h_random(state);
        case 1:
                return value + random_below(state, 5) - 2;
        default:
                return value;
        }
}

static void put_odd_bytes(uint64_t *state, struct bytes *b)
{
        uint64_t n = random_below(state, 50) ? random_below(state, 80) : random_below(state, 62000);
        int text = random_below(state, 2) != 0;

        put_varint(b, n);
        for (uint64_t i = 0; i < n; i++)
                put_byte(b, text ? (uint8_t)('!' + i % 90) : (uint8_t)h_random(state));
}

static void put_odd_field(uint64_t *state, struct bytes *b, uint32_t field)
{
        unsigned wire_type = (unsigned)random_below(state, 8);

        put_field(b, field, wire_type);
        switch (wire_type) {
        case 0:
                put_varint(b, odd_value(state));
                break;
        case 1:
                put_bytes(b, &(uint64_t){odd_value(state)}, 8);
                break;
        case 2:
                put_odd_bytes(state, b);
                break;
        case 5:
                put_bytes(b, &(uint32_t){(uint32_t)odd_value(state)}, 4);
                break;
        default:
                break;
        }
}

/* Writes the message of a call, with some fields unchanged and some mutated. */
static void mutate_body(uint64_t *state, const ProtobufCMessageDescriptor *message, struct bytes *body)
{
        for (unsigned i = 0; i < message->n_fields; i++) {
                const ProtobufCFieldDescriptor *field = &message->fields[i];
                int is_text = field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES;
                uint64_t repeat = random_below(state, 400) ? 1 : random_below(state, 3000);

                switch (random_below(state, 6)) {
                case 0: /* the field stays unchanged */
                        break;
                case 1:
                        while (repeat-- > 0)
                                put_odd_field(state, body, field->id);
                        break;
                default:
                        for (; repeat > 0; repeat--) {
                                put_field(body, field->id, is_text ? 2 : 0);
                                if (is_text)
                                        put_odd_bytes(state, body);
                                else
                                        put_varint(body,
                                                random_below(state, 2) ? odd_value(state) : field_value(field->name));
                        }
                        break;
                }
        }
        if (random_below(state, 8) == 0)
                put_odd_field(state, body, (uint32_t)random_below(state, 1u << 20) + 1);
}

static const ProtobufCFieldDescriptor *random_call(uint64_t *state)
{
        const ProtobufCFieldDescriptor *call;

        do
                call = call_at((unsigned)random_below(state, n_calls()));
        while (call->id == DETSHARE__REQUEST__CALL_CLOCK_JOIN ||
                (geteuid() == 0 && (call->id == DETSHARE__REQUEST__CALL_SET_POLICY ||
                                           /* these calls would take effect: they are not mutated */
                                           call->id == DETSHARE__REQUEST__CALL_KILL)));
        return call;
}

static void mutate_structure(uint64_t *state, struct bytes *frame)
{
        const ProtobufCFieldDescriptor *call = random_call(state), *other = random_call(state);
        static struct bytes body;

        body.n = 0;
        if (random_below(state, 4) == 0)
                make_body(call->descriptor, &body);
        else
                mutate_body(state, call->descriptor, &body);
        if (random_below(state, 20) == 0)
                /* one of the request's own fields: id, tail, fds, or a number that no field has */
                put_odd_field(state, frame, 1 + (uint32_t)random_below(state, 4));
        make_request(random_below(state, 1000), random_below(state, 12) ? call->id : other->id, &body, frame);
        if (random_below(state, 60) == 0)
                make_request(1, other->id, &body, frame); /* writes a second call into the same request */
}

static void mutate_bytes(uint64_t *state, struct bytes *frame)
{
        const uint64_t flips = 1 + random_below(state, 4);
        size_t cut;

        for (uint64_t i = 0; i < flips && frame->n; i++)
                frame->at[random_below(state, frame->n)] ^= (uint8_t)(1u << random_below(state, 8));
        if (random_below(state, 4) == 0)
                frame->n -= random_below(state, frame->n);
        if (random_below(state, 6) == 0 && frame->n > 2) { /* repeats a part of the frame */
                cut = random_below(state, frame->n);
                put_bytes(frame, frame->at + cut, frame->n - cut);
        }
}

/* Makes frame `number`, after a length that may be wrong. */
static void make_frame(uint64_t number, struct bytes *out)
{
        static struct bytes frame;
        uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + number * UINT64_C(0xbf58476d1ce4e5b9) + 1;
        uint32_t length;

        for (int i = 0; i < 4; i++)
                h_random(&state);
        frame.n = out->n = 0;
        mutate_structure(&state, &frame);
        if (random_below(&state, 5) == 0)
                mutate_bytes(&state, &frame);
        if (!frame.n)
                put_byte(&frame, 0);
        length = (uint32_t)(frame.n < DS_FRAME_MAX || random_below(&state, 2) ? frame.n : DS_FRAME_MAX);
        if (random_below(&state, 100) == 0)
                length = (uint32_t)odd_value(&state);
        put_bytes(out, &length, 4);
        put_bytes(out, frame.at, frame.n);
}

/* --- attackers ---------------------------------------------------------------------------------------------------- */

/* Reads and discards available data. Returns 0 if the connection has ended. */
static int drain(int fd)
{
        char bytes[16384];

        for (;;) {
                ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

                if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                        return 1;
                if (n <= 0)
                        return 0;
        }
}

/* Sends everything unless the peer stops reading. Returns 0 if it stopped. */
static int push(int fd, const struct bytes *b)
{
        size_t done = 0;

        while (done < b->n) {
                struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
                ssize_t n = send(fd, b->at + done, b->n - done, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n > 0)
                        done += (size_t)n;
                else if (errno != EAGAIN || poll(&p, 1, 10000) <= 0)
                        return 0;
                if (!drain(fd))
                        return 0;
        }
        return 1;
}

/* Measures the time from an invalid frame to the end of the connection. */
static void time_drop(uint64_t number)
{
        static const uint8_t bad[][8] = {{0}, {0xff, 0xff, 0xff, 0xff}, {4, 0, 0, 0, 0x08, 5, 0x72, 0}, {1, 0, 1, 0}};
        int fd = h_connect();
        uint64_t begin = h_now_us(), took, max;

        if (fd < 0 || send(fd, bad[number % 4], 8, MSG_NOSIGNAL) < 0 || !h_closed(fd, 10000)) {
                printf("FAIL a bad frame is not answered by the end of its connection\n");
                _exit(1);
        }
        took = h_now_us() - begin;
        close(fd);
        atomic_fetch_add(&shared->drop_us_sum, took);
        atomic_fetch_add(&shared->drops_timed, 1);
        max = atomic_load(&shared->drop_us_max);
        while (took > max && !atomic_compare_exchange_weak(&shared->drop_us_max, &max, took))
                ;
}

static void attack(unsigned which)
{
        static struct bytes frame, several;
        int fds[CONNECTIONS] = {-1, -1, -1, -1};

        if (geteuid() == 0 && setuid(HOSTILE_UID))
                _exit(1);
        for (uint64_t n = first + which; n < first + frames; n += ATTACKERS) {
                int *fd = &fds[n / ATTACKERS % CONNECTIONS];

                make_frame(n, &frame);
                if (n / ATTACKERS % 5 == 4 && several.n + frame.n < sizeof(several.at)) {
                        /* the frame waits and is sent together with the next one */
                        put_bytes(&several, frame.at, frame.n);
                        atomic_fetch_add(&shared->sent, 1);
                        continue;
                }
                put_bytes(&several, frame.at, frame.n);
                if (*fd < 0)
                        *fd = n % 7 == 0 ? h_connect() : h_hello(n % 11 == 0, NULL, NULL);
                if (*fd < 0 || !push(*fd, &several) || n % 97 == 0) {
                        atomic_fetch_add(&shared->dropped, 1);
                        close(*fd);
                        *fd = -1;
                }
                several.n = 0;
                atomic_fetch_add(&shared->sent, 1);
                if (n % 512 < ATTACKERS)
                        time_drop(n / 512);
        }
        _exit(0);
}

/* --- good clients ------------------------------------------------------------------------------------------------- */

static dsc_session *good_open(struct dsc_kernel *fill, uint64_t *memory)
{
        char path[300];
        uint64_t module;
        size_t size;
        int error;
        dsc_session *s = dsc_get(&error);
        char *ptx;

        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        ptx = h_read_file(path, &size);
        if (!s || dsc_module_load(s, ptx, size + 1, NULL, 0, &module) || dsc_kernel_get(s, module, "fill", fill) ||
                dsc_mem_alloc(s, 4096, memory))
                return NULL;
        free(ptx);
        return s;
}

static int good_round(dsc_session *s, const struct dsc_kernel *fill, uint64_t memory, uint32_t value)
{
        uint32_t host[1024];
        struct {
                uint64_t p;
                uint32_t n, value;
        } params = {memory, 1024, value};
        struct dsc_launch l = {.kernel = fill->id,
                .grid = {4, 1, 1},
                .block = {256, 1, 1},
                .params = &params,
                .params_size = sizeof(params)};

        if (dsc_launch(s, 0, &l) || dsc_read(s, 0, host, 0, memory, 0, sizeof(host), 1))
                return 0;
        for (int i = 0; i < 1024; i++)
                if (host[i] != value)
                        return 0;
        return 1;
}

static void be_good(unsigned which)
{
        struct good *good = &shared->good[which];
        struct dsc_kernel fill;
        uint64_t memory;
        dsc_session *s;
        int phase;

        setenv("DETSHARE_CLASS", which % 2 ? "ls" : "be", 1);
        setenv("DETSHARE_TRANSPORT", which / 2 % 2 ? "rpc" : "ring", 1);
        s = good_open(&fill, &memory);
        atomic_store(&good->ready, s ? 1 : -1);
        for (uint32_t value = 1; s && (phase = atomic_load(&shared->phase)) != PHASE_END; value++) {
                uint64_t begin = h_now_us();
                uint32_t *n = &good->n[phase == PHASE_BESIDE];

                if (phase == PHASE_WAIT) {
                        h_sleep_ms(5);
                        continue;
                }
                if (!good_round(s, &fill, memory, value)) {
                        if (!good->errors++)
                                printf("good client %u, round %u: %s\n", which, value, dsc_message());
                        h_sleep_ms(100);
                }
                if (*n < SAMPLES)
                        good->us[phase == PHASE_BESIDE][(*n)++] = (uint32_t)(h_now_us() - begin);
                h_sleep_ms(4);
        }
        _exit(s && !good->errors ? 0 : 1);
}

/* Computes p50 and p99 of the request times of all good clients in a phase, us. */
static void percentiles(int beside, uint32_t *p50, uint32_t *p99, size_t *ret_n)
{
        uint32_t *all = malloc(sizeof(*all) * GOOD * SAMPLES);
        size_t n = 0;

        for (int i = 0; i < GOOD; i++) {
                memcpy(all + n, shared->good[i].us[beside], shared->good[i].n[beside] * sizeof(*all));
                n += shared->good[i].n[beside];
        }
        qsort(all, n, sizeof(*all), h_by_value);
        *p50 = n ? all[n / 2] : 0;
        *p99 = n ? all[n / 100 * 99] : 0;
        *ret_n = n;
        free(all);
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static pid_t start(void (*fn)(unsigned), unsigned which)
{
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0)
                fn(which);
        return pid;
}

static void print_memory(const char *when, const struct h_status *status)
{
        const struct {
                const char *name;
                pid_t pid;
        } who[] = {{"supervisor", h_daemon_pid()}, {"worker", (pid_t)status->worker_pid},
                {"helper", (pid_t)status->helper_pid}};

        printf("%s:", when);
        for (int i = 0; i < 3; i++)
                printf(" %s %ld KiB (at most %ld)", who[i].name, h_memory_kb(who[i].pid, "VmRSS"),
                        h_memory_kb(who[i].pid, "VmHWM"));
        printf("\n");
}

static void say_how_to_repeat(const char *what)
{
        uint64_t sent = atomic_load(&shared->sent);

        printf("FAIL %s at about frame %llu; again: %s/tests/e2e/hostile_million %s %llu %llu %llu\n", what,
                (unsigned long long)(first + sent), build, build, (unsigned long long)(sent < 4000 ? sent + 4 : 4000),
                (unsigned long long)seed, (unsigned long long)(sent < 4000 ? first : first + sent - 3996));
}

/* Waits until all attackers have finished. */
static void watch(pid_t *attackers, const struct h_status *before)
{
        int left = ATTACKERS, said = 0, status;
        struct h_status now;

        while (left > 0) {
                for (int i = 0; i < ATTACKERS; i++)
                        if (attackers[i] > 0 && waitpid(attackers[i], &status, WNOHANG) == attackers[i]) {
                                h_check(status == 0, "an attacker ended with status %#x", status);
                                attackers[i] = 0;
                                left--;
                        }
                if (!said && (kill(h_daemon_pid(), 0) ||
                                     (h_status(&now) == 0 && (now.worker_pid != before->worker_pid ||
                                                                     now.helper_pid != before->helper_pid)))) {
                        say_how_to_repeat("a process of the daemon was lost");
                        said = 1;
                }
                h_sleep_ms(50);
        }
        h_check(!said, "see above");
}

static void wait_for_good(void)
{
        uint64_t end = h_now_ms() + 60000;

        for (int i = 0; i < GOOD; i++) {
                while (!atomic_load(&shared->good[i].ready) && h_now_ms() < end)
                        h_sleep_ms(5);
                h_check(atomic_load(&shared->good[i].ready) == 1, "good client %d did not start", i);
        }
}

static void report(uint64_t ms)
{
        uint64_t timed = atomic_load(&shared->drops_timed), sum = atomic_load(&shared->drop_us_sum);
        uint32_t p50[2], p99[2], errors = 0;
        size_t n[2];

        percentiles(0, &p50[0], &p99[0], &n[0]);
        percentiles(1, &p50[1], &p99[1], &n[1]);
        for (int i = 0; i < GOOD; i++)
                errors += shared->good[i].errors;
        printf("%llu frames in %llu ms, %llu connections ended; a bad frame's connection after %llu us on average, "
               "%llu "
               "at most (%llu times)\n",
                (unsigned long long)atomic_load(&shared->sent), (unsigned long long)ms,
                (unsigned long long)atomic_load(&shared->dropped), (unsigned long long)(timed ? sum / timed : 0),
                (unsigned long long)atomic_load(&shared->drop_us_max), (unsigned long long)timed);
        printf("good clients: alone p50 %u us, p99 %u us (%zu rounds), beside p50 %u us, p99 %u us (%zu rounds), %u "
               "errors\n",
                p50[0], p99[0], n[0], p50[1], p99[1], n[1], errors);
        h_check(errors == 0, "%u rounds of good clients failed", errors);
        h_check(atomic_load(&shared->sent) == frames, "%llu frames of %llu were sent",
                (unsigned long long)atomic_load(&shared->sent), (unsigned long long)frames);
        if (!judge)
                return;
        h_check(p99[1] <= p99[0] + p99[0] / 5, "p99 of the good clients: %u us alone, %u beside", p99[0], p99[1]);
        h_check(timed && sum / timed <= 10000, "the average drop took %llu us", (unsigned long long)(sum / timed));
}

static void run(void)
{
        struct h_status empty = h_quiet(), before, now = {0};
        pid_t good[GOOD], attackers[ATTACKERS];
        uint64_t begin;
        int status;

        for (unsigned i = 0; i < GOOD; i++)
                good[i] = start(be_good, i);
        wait_for_good();
        before = h_quiet();
        print_memory("before", &before);
        atomic_store(&shared->phase, PHASE_ALONE);
        h_sleep_ms(ALONE_MS);
        atomic_store(&shared->phase, PHASE_BESIDE);
        begin = h_now_ms();
        for (unsigned i = 0; i < ATTACKERS; i++)
                attackers[i] = start(attack, i);
        watch(attackers, &before);
        begin = h_now_ms() - begin;
        atomic_store(&shared->phase, PHASE_END);
        for (int i = 0; i < GOOD; i++)
                h_check(waitpid(good[i], &status, 0) == good[i] && status == 0, "good client %d: status %#x", i,
                        status);
        h_check(h_status(&now) == 0 && now.worker_restarts == 0 && now.worker_pid == before.worker_pid &&
                        now.helper_pid == before.helper_pid,
                "worker %u, helper %u; before %u, %u", now.worker_pid, now.helper_pid, before.worker_pid,
                before.helper_pid);
        print_memory("after", &now);
        h_baseline(&empty, 20000, "after the frames");
        report(begin);
}

int main(int argc, char **argv)
{
        if (argc < 2)
                return 2;
        build = argv[1];
        if (getenv("DETSHARE_SOAK"))
                frames = 1000000;
        if (argc > 2)
                frames = strtoull(argv[2], NULL, 0);
        seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)getpid() * 2654435761u + 1;
        first = argc > 4 ? strtoull(argv[4], NULL, 0) : 0;
        judge = argc > 5 && !strcmp(argv[5], "judge");
        printf("seed %llu\n", (unsigned long long)seed);
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
                return 1;
        h_daemon_start(build, "sim:h200", NULL);
        h_open_socket_directory();
        test_seeds();
        run();
        return h_finish();
}
