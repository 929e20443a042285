/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames made to become large in memory
 *
 * Protobuf expands its input: an unknown field of two bytes becomes an array entry, an allocation and a place in the
 * parser's tables. The test sends frames full of such fields, at every depth that a request has. It reads each frame's
 * peak memory from the kernel's high-water marks of supervisor, worker and helper, which it resets before every frame.
 * DetShare promises at most 100 bytes per received byte, at most 8 MiB per frame, and that nothing is kept.
 *
 * usage: hostile_memory BUILD
 */
#include "tests/e2e/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/wire.h"

#define BYTES_MAX_KB (8 * 1024)
#define NOISE_KB 1024 /* allowance for the frame itself, and for pages that the processes touch anyway, KiB */
#define FACTOR_MAX 100

struct frame {
        size_t n;
        uint8_t at[DS_FRAME_MAX];
};

static void put_varint(struct frame *f, uint64_t value)
{
        for (; value > 0x7f; value >>= 7)
                f->at[f->n++] = (uint8_t)value | 0x80;
        f->at[f->n++] = (uint8_t)value;
}

static void put_head(struct frame *f, uint32_t field, size_t size)
{
        put_varint(f, (uint64_t)field << 3 | 2);
        put_varint(f, size);
}

/* Repeats `unit` until the frame is full. */
static void fill(struct frame *f, const uint8_t *unit, size_t size)
{
        while (f->n + size <= sizeof(f->at)) {
                memcpy(f->at + f->n, unit, size);
                f->n += size;
        }
}

static const uint8_t unknown_varint[] = {0x48, 0}; /* field 9, a number */
static const uint8_t unknown_bytes[] = {0x4a, 0};  /* field 9, empty bytes */
/* an empty parameter of SetPolicy: the frame has more than the limit allows */
static const uint8_t empty_param[] = {0x12, 0};
static const uint8_t known_varint[] = {0x08, 1}; /* field 1, a number; of many the last value counts */
/* field 2, bytes, such as Hello.name; of many the last value counts */
static const uint8_t known_bytes[] = {0x12, 1, 'x'};
static const uint8_t empty_call[] = {0xd2, 2, 0}; /* an empty MemInfo (call 42); of many calls the last one counts */

static const struct {
        const char *name;
        uint32_t call; /* field number of the call that contains the units; 0: the request itself */
        const uint8_t *unit;
        size_t size;
} kinds[] = {
        {"unknown numbers in a request", 0, unknown_varint, sizeof(unknown_varint)},
        {"unknown strings in a request", 0, unknown_bytes, sizeof(unknown_bytes)},
        {"the same call repeated", 0, empty_call, sizeof(empty_call)},
        {"unknown numbers in MemInfo", 42, unknown_varint, sizeof(unknown_varint)},
        {"unknown strings in MemInfo", 42, unknown_bytes, sizeof(unknown_bytes)},
        {"unknown strings in Ping", 14, unknown_bytes, sizeof(unknown_bytes)},
        {"strings of SetPolicy", 18, empty_param, sizeof(empty_param)},
        {"one number of MemAlloc repeated", 40, known_varint, sizeof(known_varint)},
        {"one string of GetKernel repeated", 47, known_bytes, sizeof(known_bytes)},
};

static void make(struct frame *f, size_t i)
{
        f->n = 0;
        put_varint(f, 1 << 3);
        put_varint(f, 7);
        if (kinds[i].call)
                put_head(f, kinds[i].call, (sizeof(f->at) - f->n - 6) / kinds[i].size * kinds[i].size);
        fill(f, kinds[i].unit, kinds[i].size);
        if (kinds[i].call) { /* the frame must have exactly the size that its length announces */
                size_t head = f->n;

                f->n = 0;
                put_varint(f, 1 << 3);
                put_varint(f, 7);
                head = (sizeof(f->at) - f->n - 6) / kinds[i].size * kinds[i].size;
                put_head(f, kinds[i].call, head);
                f->n += head;
        }
}

static void reset_peak(pid_t pid)
{
        char path[64];
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/clear_refs", (int)pid);
        f = fopen(path, "w");
        if (f) {
                fputs("5", f);
                fclose(f);
        }
}

static void test_frame(size_t i, const struct h_status *status)
{
        const pid_t who[] = {h_daemon_pid(), (pid_t)status->worker_pid, (pid_t)status->helper_pid};
        static const char *const names[] = {"supervisor", "worker", "helper"};
        static struct frame f;
        long before[3], peak[3], limit;
        int fd = h_hello(0, NULL, NULL);
        size_t size;

        make(&f, i);
        for (int p = 0; p < 3; p++) {
                reset_peak(who[p]);
                before[p] = h_memory_kb(who[p], "VmRSS");
        }
        if (h_check(fd >= 0 && h_send(fd, f.at, f.n, NULL, 0) == 0, "%s: not sent", kinds[i].name))
                free(h_receive(fd, 20000, &size, NULL)); /* waits for a reply, or for the end of the connection */
        limit = (long)(f.n * FACTOR_MAX / 1024);
        limit = (limit < BYTES_MAX_KB ? limit : BYTES_MAX_KB) + NOISE_KB;
        for (int p = 0; p < 3; p++) {
                peak[p] = h_memory_kb(who[p], "VmHWM") - before[p];
                h_check(before[p] > 0 && peak[p] <= limit, "%s: %zu bytes became %ld KiB in the %s", kinds[i].name, f.n,
                        peak[p], names[p]);
        }
        printf("%s: %zu bytes, at their peak %ld KiB in the supervisor, %ld in the worker, %ld in the helper\n",
                kinds[i].name, f.n, peak[0], peak[1], peak[2]);
        close(fd);
}

int main(int argc, char **argv)
{
        struct h_status before, after;
        long kb;

        if (argc < 2)
                return 2;
        h_daemon_start(argv[1], "sim:h200", NULL);
        before = h_quiet();
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                test_frame(i, &before);
        kb = h_memory_kb(h_daemon_pid(), "VmRSS");
        for (int n = 0; n < 50; n++) {
                static struct frame f;
                int fd = h_hello(0, NULL, NULL);
                size_t size;

                make(&f, (size_t)n % (sizeof(kinds) / sizeof(kinds[0])));
                if (h_send(fd, f.at, f.n, NULL, 0) == 0)
                        free(h_receive(fd, 20000, &size, NULL));
                close(fd);
        }
        h_baseline(&before, 20000, "after large frames");
        kb = h_memory_kb(h_daemon_pid(), "VmRSS") - kb;
        h_check(kb <= BYTES_MAX_KB, "50 more frames let the supervisor grow by %ld KiB", kb);
        h_check(h_status(&after) == 0 && after.worker_restarts == 0, "the worker was lost");
        return h_finish();
}
