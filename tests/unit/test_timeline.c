/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace as a timeline: overlapping slices do not cross, lost records are counted, and a damaged trace is refused or
 * written as far as it is valid, but never read beyond its end
 */
#include <criterion/criterion.h>
#include <stdarg.h>

#include "ctl/text.c"
#include "ctl/timeline.c"

#define BYTES DS_TRACE_BYTES_MIN
#define RECORDS 64u

void ctl_complain(const char *format, ...)
{
}

static _Alignas(64) uint8_t trace[BYTES];
static char *text;
static size_t text_size;

static struct ds_trace_header *header(void)
{
        return (void *)trace;
}

static struct ds_trace_record *record(unsigned i)
{
        return (struct ds_trace_record *)(void *)(trace + header()->records_at) + i;
}

/* A trace of kernels in two streams on one rung: from 0 to 100, 10 to 60, 50 to 90 ns, twice. */
static void setup(void)
{
        static const uint64_t times[][2] = {{0, 100}, {10, 60}, {50, 90}};

        memset(trace, 0, sizeof(trace));
        *header() = (struct ds_trace_header){.magic = DS_TRACE_MAGIC,
                .bytes = BYTES,
                .record_bytes = sizeof(struct ds_trace_record),
                .n_sms = 4,
                .n_tpcs = 2,
                .n_rungs = 2,
                .names_at = DS_TRACE_HEADER_BYTES,
                .names_bytes = 4096,
                .names_used = 8,
                .records_at = DS_TRACE_HEADER_BYTES + 4096,
                .capacity = RECORDS,
                .written = 60,
                .device = "\"quoted\"",
                .rungs = {{4, 2, {3, 0}}, {2, 1, {2, 0}}}};
        memcpy(trace + header()->names_at, "\0kernel", 8);
        for (unsigned i = 0; i < RECORDS; i++)
                *record(i) = (struct ds_trace_record){.kind = DS_TRACE_OPERATION,
                        .session = 1 + i % 2,
                        .coroutine = 1 + i % 2,
                        .name = 1,
                        .begin_ns = 1000 * (i / 3) + times[i % 3][0],
                        .end_ns = 1000 * (i / 3) + times[i % 3][1]};
}

static int write_it(struct ctl_timeline_figures *figures)
{
        FILE *file = open_memstream(&text, &text_size);
        int r = ctl_timeline_write(trace, BYTES, file, figures);

        fclose(file);
        return r;
}

static void teardown(void)
{
        free(text);
        text = NULL;
}

TestSuite(timeline, .init = setup, .fini = teardown);

static unsigned count(const char *what)
{
        unsigned n = 0;

        for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
                n++;
        return n;
}

Test(timeline, what_runs_beside_each_other_lies_in_lanes)
{
        struct ctl_timeline_figures figures;

        cr_assert_eq(write_it(&figures), 0);
        cr_assert_eq(figures.operations, 60);
        cr_assert_eq(figures.sessions, 2);
        cr_assert_eq(figures.lost, 0);
        cr_assert_eq(count("\"ph\":\"X\""), 120);
        cr_assert_eq(count("rung 0: 4 SMs, TPC 0-1\""), 1);
        cr_assert_eq(count("rung 0: 4 SMs, TPC 0-1 (2)"), 1);
        cr_assert_eq(count("rung 0: 4 SMs, TPC 0-1 (3)"), 1);
        cr_assert_eq(count("rung 0: 4 SMs, TPC 0-1 (4)"), 0);
        cr_assert_eq(count("stream "), 2);
        cr_assert_eq(count("\\\"quoted\\\""), 2);
}

/* On a stream's track the slice 50 to 90 lies within 0 to 100, but 10 to 60 and 50 to 90 would cross. */
Test(timeline, slices_of_a_stream_do_not_cross)
{
        struct ctl_timeline_figures figures;

        for (unsigned i = 0; i < RECORDS; i++)
                record(i)->coroutine = record(i)->session = 1;
        header()->written = 3;
        cr_assert_eq(write_it(&figures), 0);
        cr_assert_eq(count("\"ts\":0.010,\"dur\":0.050"), 2);
        record(0)->kind = DS_TRACE_NONE;
        teardown();
        cr_assert_eq(write_it(&figures), 0);
        cr_assert_eq(figures.operations, 2);
        cr_assert_eq(count("\"ts\":0.060,\"dur\":0.030"), 1); /* on the stream's track */
        cr_assert_eq(count("\"ts\":0.050,\"dur\":0.040"), 1); /* on the rung's track, in a lane of its own */
}

Test(timeline, what_was_lost_is_counted)
{
        struct ctl_timeline_figures figures;

        header()->written = 1000;
        cr_assert_eq(write_it(&figures), 0);
        cr_assert_eq(figures.lost, 1000 - RECORDS);
        cr_assert_eq(figures.operations, RECORDS);
}

Test(timeline, nonsense_is_refused)
{
        const struct ds_trace_header good = *header();
        struct ctl_timeline_figures figures;
#define REFUSED(field, value)                                      \
        do {                                                       \
                *header() = good;                                  \
                header()->field = (value);                         \
                cr_assert_eq(write_it(&figures), -EINVAL, #field); \
                teardown();                                        \
        } while (0)

        REFUSED(magic, 5);
        REFUSED(bytes, BYTES + 1);
        REFUSED(record_bytes, 8);
        REFUSED(n_rungs, DS_TRACE_RUNGS_MAX + 1);
        REFUSED(names_at, BYTES);
        REFUSED(names_at, UINT64_MAX - 100);
        REFUSED(names_used, 0);
        REFUSED(names_used, 5);
        REFUSED(names_used, 4097);
        REFUSED(names_bytes, UINT64_MAX);
        REFUSED(records_at, BYTES - 8);
        REFUSED(records_at, 1);
        REFUSED(capacity, 0);
        REFUSED(capacity, UINT64_MAX / sizeof(struct ds_trace_record) + 2);
}

Test(timeline, any_record_is_survived)
{
        struct ctl_timeline_figures figures;
        unsigned seed = 3;

        for (int round = 0; round < 300; round++) {
                for (size_t i = 0; i < RECORDS * sizeof(struct ds_trace_record); i++)
                        if (rand_r(&seed) % 4 == 0)
                                ((uint8_t *)record(0))[i] = (uint8_t)rand_r(&seed);
                for (unsigned i = 0; i < RECORDS; i++)
                        record(i)->kind %= _DS_TRACE_KINDS;
                cr_assert_eq(write_it(&figures), 0);
                teardown();
                setup();
        }
}
