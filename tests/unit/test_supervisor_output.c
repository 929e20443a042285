/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printed text on its way from worker to client
 *
 * It arrives in order, page by page, for each of the two streams. A read waits for announced text. The amount is
 * bounded and charged; the oldest text is dropped and counted. No read waits for text that a dead worker took with it.
 */
#include "tests/unit/supervisor_fixture.h"

#include "supervisor/output.h"

/* A kernel of the session prints. */
static void print(ds_conn *conn, int to_stderr, const void *text, size_t size)
{
        FX_REQUEST(write, WRITE, Write, WRITE);

        write.stream = to_stderr ? 1 : 0;
        write.data.data = (uint8_t *)(uintptr_t)text;
        write.data.len = size;
        fx_ask(conn, &write_r, NULL);
        cr_assert_eq(fx_status(conn), 0);
}

static void ask(ds_conn *conn, uint64_t upto)
{
        FX_REQUEST(output_read, OUTPUT_READ, OutputRead, OUTPUT_READ);

        output_read.upto = upto;
        fx_ask(conn, &output_read_r, NULL);
}

static Detshare__OutputReply read_reply(ds_conn *conn, char *buffer)
{
        Detshare__Reply *reply = fx_answer(conn);
        Detshare__OutputReply copy;

        cr_assert(reply && reply->status == 0 && reply->output_read);
        copy = *reply->output_read;
        cr_assert_leq(copy.text.len, DS_OUTPUT_PAGE_MAX);
        if (copy.text.len)
                memcpy(buffer, copy.text.data, copy.text.len);
        buffer[copy.text.len] = 0;
        detshare__reply__free_unpacked(reply, NULL);
        return copy;
}

static void reads(ds_conn *conn, uint64_t upto, const char *text, int to_stderr, uint64_t next)
{
        char buffer[DS_OUTPUT_PAGE_MAX + 1];
        Detshare__OutputReply reply;

        ask(conn, upto);
        reply = read_reply(conn, buffer);
        cr_assert_str_eq(buffer, text);
        cr_assert_eq(reply.to_stderr, to_stderr);
        cr_assert_eq(reply.next, next);
        cr_assert_eq(reply.dropped, 0);
}

Test(output, in_order_and_kind_by_kind)
{
        struct fixture f;
        ds_conn *conn, *other, *control;

        fx_init(&f);
        fx_start(&f);
        conn = fx_session(&f);
        other = fx_session(&f);
        reads(conn, 0, "", 0, 0);
        print(conn, 0, "one ", 4);
        print(conn, 0, "two ", 4);
        print(conn, 1, "assertion", 9);
        print(other, 0, "mine", 4);
        print(conn, 0, "three", 5);
        reads(conn, 22, "one two ", 0, 8);
        reads(conn, 22, "assertion", 1, 17);
        reads(conn, 22, "three", 0, 22);
        reads(conn, 22, "", 0, 22);
        reads(conn, UINT64_MAX, "", 0, 22); /* a read does not wait for more than was printed */
        reads(other, 4, "mine", 0, 4);
        control = fx_hello(&f, 1, DETSHARE__CLASS__BE, NULL, NULL);
        ask(control, 1);
        cr_assert_eq(fx_status(control), DETSHARE__STATUS__BAD_REQUEST, "it has no kernels");
        ds_conn_free(control);
        ds_conn_free(conn);
        ds_conn_free(other);
        fx_baseline(&f);
        fx_stop(&f);
}

/* More text than a reply holds, and more than a session may keep. */
Test(output, pages_and_the_bound)
{
        static char text[40001], page[DS_OUTPUT_PAGE_MAX + 1];
        const int n = DS_OUTPUT_MAX * 5 / 4 / (sizeof(text) - 1);
        const uint64_t all = (uint64_t)n * (sizeof(text) - 1);
        uint64_t next = 0, dropped = 0, given = 0;
        struct fixture f;
        ds_conn *conn;
        int full = 0;

        fx_init(&f);
        fx_start(&f);
        conn = fx_session(&f);
        for (int i = 0; i < n; i++) {
                memset(text, '0' + i % 64, sizeof(text) - 1);
                print(conn, 0, text, sizeof(text) - 1);
        }
        while (next < all) {
                Detshare__OutputReply reply;

                ask(conn, all);
                reply = read_reply(conn, page);
                cr_assert_gt(reply.next, next);
                next = reply.next;
                given += reply.text.len;
                dropped += reply.dropped;
                full += reply.text.len == DS_OUTPUT_PAGE_MAX;
                cr_assert_eq(next, given + dropped);
        }
        cr_assert_eq(next, all);
        cr_assert_leq(given, DS_OUTPUT_MAX);
        cr_assert_geq(given, DS_OUTPUT_MAX - 2 * sizeof(text), "most of what may be kept");
        cr_assert_gt(full, 10);
        cr_assert_eq(page[strlen(page) - 1], '0' + (n - 1) % 64, "the newest is what is kept");
        /* after the overflow the session can print again */
        print(conn, 0, "more", 4);
        reads(conn, all + 4, "more", 0, all + 4);
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

/* Text is charged: a user with 1 MiB of the daemon's memory in total keeps less per session. */
Test(output, charged_to_the_user)
{
        static char text[40001], page[DS_OUTPUT_PAGE_MAX + 1];
        uint64_t given[2] = {0, 0};
        struct fixture f;
        ds_conn *conn[2];

        fx_init(&f);
        f.config.pinned_per_uid = DS_MIB(1);
        fx_start(&f);
        memset(text, 'x', sizeof(text) - 1);
        for (int i = 0; i < 2; i++) {
                conn[i] = fx_session(&f);
                for (int j = 0; j < 20; j++)
                        print(conn[i], 0, text, sizeof(text) - 1);
        }
        for (int i = 0; i < 2; i++) {
                Detshare__OutputReply reply;

                do {
                        ask(conn[i], 1);
                        reply = read_reply(conn[i], page);
                        given[i] += reply.text.len;
                } while (reply.text.len);
                cr_assert_eq(reply.next, 20 * (sizeof(text) - 1));
        }
        cr_assert_leq(given[0] + given[1], DS_MIB(1));
        cr_assert_gt(given[1], 0);
        for (int i = 0; i < 2; i++)
                ds_conn_free(conn[i]);
        fx_baseline(&f);
        fx_stop(&f);
}

/* A worker dies before it delivers announced text: that ends a waiting read, and positions continue with the next
 * worker. */
Test(output, a_worker_that_takes_it_with_it)
{
        char page[DS_OUTPUT_PAGE_MAX + 1];
        Detshare__OutputReply reply;
        struct fixture f;
        ds_conn *conn;
        uint32_t pid;

        setenv("FAKE_WORKER", "swallows", 1);
        fx_init(&f);
        fx_start(&f);
        pid = fx_wait_serving(&f, 0);
        conn = fx_session(&f);
        print(conn, 0, "gone", 4);
        ask(conn, 4);
        ask(conn, 3);
        cr_assert_eq(fx_ping(conn), 0, "the answer to what came later comes first");
        kill((pid_t)pid, SIGKILL);
        for (int i = 0; i < 2; i++) {
                reply = read_reply(conn, page);
                cr_assert_eq(reply.text.len, 0);
                cr_assert_eq(reply.next, 4);
                cr_assert_eq(reply.dropped, i ? 0 : 4);
        }
        fx_wait_serving(&f, pid);
        print(conn, 0, "again", 5);
        ask(conn, 9); /* this read waits, because the page continues counting where the last worker ended */
        cr_assert_eq(fx_ping(conn), 0);
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

Test(output, waiting_reads_are_bounded)
{
        struct fixture f;
        ds_conn *conn;

        setenv("FAKE_WORKER", "swallows", 1);
        fx_init(&f);
        fx_start(&f);
        conn = fx_session(&f);
        print(conn, 0, "gone", 4);
        for (unsigned i = 0; i < DS_OUTPUT_READS_MAX; i++)
                ask(conn, 1);
        ask(conn, 1);
        cr_assert_eq(fx_status(conn), DETSHARE__STATUS__QUOTA);
        ds_conn_free(conn); /* pending reads end with the session */
        fx_baseline(&f);
        fx_stop(&f);
}
