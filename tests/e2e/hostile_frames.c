/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile frames against a daemon, beside a good client that must notice nothing
 *
 * Random bytes, wrong lengths, half frames, frames with wrong file descriptors, requests before hello, mutated requests
 * of every kind, requests for objects of other sessions. The daemon drops the offender or sends an error, and keeps
 * answering the good client's pings. At the end the daemon holds what it held before.
 *
 * usage: hostile_frames BUILD [SEED]
 */
#include "tests/e2e/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/wire.h"

#define MUTATIONS 3000
#define CALL_FIRST 10
#define CALL_LAST 106

static int good_fd;
static uint64_t good_id = 100;

static int ping_ok(void)
{
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__Ping ping = DETSHARE__PING__INIT;
        Detshare__Reply *reply;
        int ok;

        request.id = ++good_id;
        request.call_case = DETSHARE__REQUEST__CALL_PING;
        request.ping = &ping;
        reply = h_call(good_fd, &request, NULL);
        ok = reply && reply->id == good_id && reply->status == 0;
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        return ok;
}

static void test_raw(const char *what, const void *bytes, size_t size, int ms)
{
        int fd = h_connect();

        h_check(fd >= 0, "%s: cannot connect", what);
        if (fd < 0)
                return;
        h_check(write(fd, bytes, size) == (ssize_t)size, "%s: write", what);
        h_check(h_closed(fd, ms), "%s: the connection stayed open", what);
        close(fd);
        h_check(ping_ok(), "%s: the good client noticed", what);
}

static void test_lengths(void)
{
        static uint8_t huge[8] = {0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4};
        static uint8_t zero[8];
        static uint8_t over[4 + 8] = {0x01, 0x00, 0x01, 0x00};
        static uint8_t half[4 + 10] = {100, 0, 0, 0, 1, 2, 3};

        test_raw("length 4 GiB", huge, sizeof(huge), 2000);
        test_raw("length 0", zero, sizeof(zero), 2000);
        test_raw("length 65537", over, sizeof(over), 2000);
        test_raw("half a frame held open", half, sizeof(half), 7000);
}

static void test_random(uint64_t *seed)
{
        for (int i = 0; i < 200; i++) {
                uint8_t bytes[600];
                size_t size = 8 + h_random(seed) % 500;
                int fd = h_connect();

                for (size_t j = 0; j < size; j++)
                        bytes[j] = (uint8_t)h_random(seed);
                if (i % 2) /* a correct length before random bytes */
                        bytes[0] = (uint8_t)(size - 4), bytes[1] = (uint8_t)((size - 4) >> 8), bytes[2] = bytes[3] = 0;
                if (fd >= 0 && write(fd, bytes, size) < 0)
                        h_check(errno == EPIPE, "write");
                close(fd);
        }
        h_check(ping_ok(), "random bytes: the good client noticed");
}

/* A request whose call is the message with number `field`, built by hand so that every kind is reached. */
static size_t make_request(uint8_t *out, uint64_t id, unsigned field, const uint8_t *body, size_t size)
{
        size_t n = 0;

        out[n++] = 0x08;
        out[n++] = (uint8_t)(id & 0x7f);
        out[n++] = (uint8_t)((field << 3 | 2) & 0x7f) | 0x80;
        out[n++] = (uint8_t)(field >> 4);
        if (size >= 0x80)
                out[n++] = (uint8_t)(size & 0x7f) | 0x80, out[n++] = (uint8_t)(size >> 7);
        else
                out[n++] = (uint8_t)size;
        memcpy(out + n, body, size);
        return n + size;
}

static void test_before_hello(void)
{
        for (unsigned field = CALL_FIRST + 1; field <= CALL_LAST; field++) {
                uint8_t frame[64];
                size_t size = make_request(frame, 5, field, frame, 0), got;
                int fd = h_connect();
                uint8_t *reply;

                if (!h_check(fd >= 0 && h_send(fd, frame, size, NULL, 0) == 0, "before hello: call %u", field))
                        continue;
                reply = h_receive(fd, 1000, &got, NULL);
                if (reply) { /* the daemon must send a refusal or drop the connection */
                        Detshare__Reply *r = detshare__reply__unpack(NULL, got, reply);

                        h_check(r && r->status != 0, "before hello: call %u was answered with success", field);
                        if (r)
                                detshare__reply__free_unpacked(r, NULL);
                        free(reply);
                }
                close(fd);
        }
}

/* Sends every call with random fields: valid wire format, meaningless values. */
static void test_nonsense_values(uint64_t *seed)
{
        int fd = -1;

        for (int i = 0; i < MUTATIONS; i++) {
                uint8_t body[400], frame[512], *reply = NULL;
                unsigned field = CALL_FIRST + 1 + (unsigned)(h_random(seed) % (CALL_LAST - CALL_FIRST));
                size_t n = 0, got;

                if (field == 12 || field == 18 || field == 19 || field == 66)
                        continue; /* Attach has its own test; set-policy, kill and sleep would take effect. */
                if (fd < 0)
                        fd = h_hello(0, NULL, NULL);
                if (!h_check(fd >= 0, "nonsense %d: hello", i))
                        return;
                while (n < h_random(seed) % 60) {
                        body[n++] = (uint8_t)((1 + h_random(seed) % 11) << 3); /* a field of type varint */
                        for (int j = (int)(h_random(seed) % 9); j > 0; j--)
                                body[n++] = (uint8_t)h_random(seed) | 0x80;
                        body[n++] = (uint8_t)h_random(seed) & 0x7f;
                }
                if (h_send(fd, frame, make_request(frame, 9, field, body, n), NULL, 0) < 0 ||
                        (h_random(seed) % 3 == 0 && !(reply = h_receive(fd, 50, &got, NULL)) && h_closed(fd, 0))) {
                        close(fd);
                        fd = -1;
                } else if (h_random(seed) % 40 == 0) {
                        close(fd);
                        fd = -1;
                }
                free(reply);
        }
        if (fd >= 0)
                close(fd);
        h_check(ping_ok(), "nonsense values: the good client noticed");
}

/* Sends valid requests with flipped, removed and doubled bytes. */
static void test_mutations(uint64_t *seed)
{
        for (int i = 0; i < MUTATIONS; i++) {
                Detshare__Request request = DETSHARE__REQUEST__INIT;
                Detshare__Launch launch = DETSHARE__LAUNCH__INIT;
                uint8_t params[64] = {1}, bytes[256];
                size_t size;
                int fd = i % 10 ? -1 : h_hello(0, NULL, NULL);
                static int keep = -1;

                if (fd >= 0) {
                        if (keep >= 0)
                                close(keep);
                        keep = fd;
                }
                request.id = 3;
                request.call_case = DETSHARE__REQUEST__CALL_LAUNCH;
                request.launch = &launch;
                launch.kernel = h_random(seed);
                launch.grid_x = launch.grid_y = launch.grid_z = launch.block_x = launch.block_y = launch.block_z = 1;
                launch.params.data = params;
                launch.params.len = h_random(seed) % sizeof(params);
                size = detshare__request__get_packed_size(&request);
                detshare__request__pack(&request, bytes);
                for (unsigned j = 0; j < 1 + h_random(seed) % 4; j++)
                        bytes[h_random(seed) % size] ^= (uint8_t)(1u << h_random(seed) % 8);
                size -= h_random(seed) % 3;
                if (keep < 0 || h_send(keep, bytes, size, NULL, 0) < 0) {
                        if (keep >= 0)
                                close(keep);
                        keep = h_hello(0, NULL, NULL);
                }
                if (i == MUTATIONS - 1 && keep >= 0)
                        close(keep);
        }
        h_check(ping_ok(), "mutations: the good client noticed");
}

static void test_fds(void)
{
        int fds[16], fd = h_hello(0, NULL, NULL);
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__Ping ping = DETSHARE__PING__INIT;
        uint8_t bytes[64];
        size_t size;

        request.id = 4;
        request.call_case = DETSHARE__REQUEST__CALL_PING;
        request.ping = &ping;
        size = detshare__request__pack(&request, bytes);
        for (int i = 0; i < 16; i++)
                fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        h_check(h_send(fd, bytes, size, fds, 16) < 0 || h_closed(fd, 2000), "16 unannounced fds: stayed open");
        close(fd);
        fd = h_hello(0, NULL, NULL);
        request.fds = 3; /* three descriptors are announced and none is sent */
        size = detshare__request__pack(&request, bytes);
        h_check(h_send(fd, bytes, size, NULL, 0) < 0 || h_closed(fd, 2000), "fds announced and not sent: stayed open");
        close(fd);
        for (int i = 0; i < 16; i++)
                close(fds[i]);
}

/* Requests to load a module whose descriptor is no image. */
static void test_module_fd(const char *path, const char *what)
{
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__ModuleLoad load = DETSHARE__MODULE_LOAD__INIT;
        int fd = h_hello(0, NULL, NULL), image = open(path, O_RDONLY | O_CLOEXEC);
        uint8_t bytes[64], *payload;
        Detshare__Reply *reply = NULL;
        size_t size;

        request.id = 4;
        request.fds = 1;
        request.call_case = DETSHARE__REQUEST__CALL_MODULE_LOAD;
        request.module_load = &load;
        load.bytes = 4096;
        size = detshare__request__pack(&request, bytes);
        if (h_check(image >= 0 && h_send(fd, bytes, size, &image, 1) == 0, "%s: send", what)) {
                payload = h_receive(fd, 5000, &size, NULL);
                reply = payload ? detshare__reply__unpack(NULL, size, payload) : NULL;
                h_check(!payload || (reply && reply->status != 0), "%s: loaded as a module", what);
                h_check(!reply || reply->message[0], "%s: refused without a word", what);
                free(payload);
        }
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        close(image);
        close(fd);
        h_check(ping_ok(), "%s: the good client noticed", what);
}

int main(int argc, char **argv)
{
        uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)getpid() * 2654435761u + 1;
        struct h_status before;

        if (argc < 2)
                return 2;
        printf("seed %llu\n", (unsigned long long)seed);
        h_daemon_start(argv[1], "sim:h200", NULL);
        good_fd = h_hello(0, NULL, NULL);
        h_check(good_fd >= 0 && ping_ok(), "the good client");
        before = h_quiet();
        test_lengths();
        test_random(&seed);
        test_before_hello();
        test_nonsense_values(&seed);
        test_mutations(&seed);
        test_fds();
        test_module_fd("/dev/zero", "a device as image");
        test_module_fd("/proc/self/status", "a proc file as image");
        test_module_fd("/", "a directory as image");
        h_baseline(&before, 10000, "after hostile frames");
        h_check(ping_ok(), "the good client at the end");
        close(good_fd);
        return h_finish();
}
