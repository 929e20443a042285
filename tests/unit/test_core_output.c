/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that kernels print reaches the client's streams, against a daemon inside the test
 *
 * In this test the parameters of a launch are the text that its kernel prints: one byte for the stream, then the text.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "tests/support/fake_daemon.h"

#define PAGE 1000u /* most bytes in one reply of this test's daemon */

static struct fake fake;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* one entry per printed byte: the byte, and the stream that it was written to */
static char printed[2 << 20], kinds[2 << 20];
static size_t n_printed, n_read;
static _Atomic uint32_t lose; /* bytes that the daemon has dropped before the client reads */

static void print(struct fake *f, const struct ds_record *record)
{
        const struct ds_record_launch *l = (const struct ds_record_launch *)record;
        const char *params = (const char *)(l + 1);
        if (record->type != DS_RECORD_LAUNCH || l->params_size < 2)
                return;
        pthread_mutex_lock(&lock);
        memcpy(printed + n_printed, params + 1, l->params_size - 1);
        memset(kinds + n_printed, params[0], l->params_size - 1);
        n_printed += l->params_size - 1;
        atomic_fetch_add(&f->page->output, l->params_size - 1);
        pthread_mutex_unlock(&lock);
}

static enum fake_verdict answer(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        static Detshare__OutputReply out;
        size_t n = 0;
        if (request->call_case != DETSHARE__REQUEST__CALL_OUTPUT_READ)
                return FAKE_DEFAULT;
        pthread_mutex_lock(&lock);
        detshare__output_reply__init(&out);
        n_read += lose;
        out.dropped = atomic_exchange(&lose, 0);
        while (n < PAGE && n_read + n < n_printed && kinds[n_read + n] == kinds[n_read])
                n++;
        out.text = (ProtobufCBinaryData){.len = n, .data = (uint8_t *)printed + n_read};
        out.to_stderr = n && kinds[n_read] == 'e';
        n_read += n;
        out.next = n_read;
        reply->result_case = DETSHARE__REPLY__RESULT_OUTPUT_READ;
        reply->output_read = &out;
        pthread_mutex_unlock(&lock);
        return FAKE_ANSWERED;
}

static uint32_t asked(void)
{
        return fake.requests[DETSHARE__REQUEST__CALL_OUTPUT_READ];
}

static dsc_session *start(void)
{
        int error = -1;
        fake.on_record = print;
        fake.hook = answer;
        fake_start(&fake);
        dsc_session *s = dsc_get(&error);
        cr_assert(s, "dsc_get: %d %s", error, dsc_message());
        return s;
}

static void launch(dsc_session *s, const char *params)
{
        const struct dsc_launch l = {
                .grid = {1, 1, 1}, .block = {1, 1, 1}, .params = params, .params_size = (uint32_t)strlen(params)};
        cr_assert_eq(dsc_launch(s, 0, &l), 0);
}

static void settle(dsc_session *s)
{
        while (fake.page->completed < dsc_stream_tail(s, 0))
                usleep(100);
}

/* --- the program's own standard streams, in files --- */

struct caught {
        int saved[2], file[2];
        char text[2][64 << 10];
};

static void catch_streams(struct caught *c)
{
        for (int i = 0; i < 2; i++) {
                char name[] = "/tmp/detshare-output.XXXXXX";
                fflush(i ? stderr : stdout);
                c->file[i] = mkstemp(name);
                unlink(name);
                c->saved[i] = dup(i + 1);
                dup2(c->file[i], i + 1);
        }
}

static void let_go(struct caught *c)
{
        for (int i = 0; i < 2; i++) {
                fflush(i ? stderr : stdout);
                dup2(c->saved[i], i + 1);
                close(c->saved[i]);
                ssize_t n = pread(c->file[i], c->text[i], sizeof(c->text[i]) - 1, 0);
                c->text[i][n < 0 ? 0 : n] = 0;
                close(c->file[i]);
        }
}

static struct caught caught;

Test(core_output, nothing_printed_asks_nothing, .timeout = 20)
{
        dsc_session *s = start();
        int v = 0;
        uint64_t p;
        for (int i = 0; i < 100; i++) {
                launch(s, "o");
                cr_assert_eq(dsc_wait(s, 0, dsc_stream_tail(s, 0)), 0);
        }
        cr_assert_eq(dsc_mem_alloc(s, 4, &p), 0);
        cr_assert_eq(dsc_read(s, 0, &v, 4, p, 4, 4, 1), 0);
        cr_assert_eq(dsc_wait_all(s), 0);
        dsc_output(s);
        cr_assert_eq(asked(), 0);
}

Test(core_output, among_what_the_program_prints, .timeout = 20)
{
        dsc_session *s = start();
        catch_streams(&caught);
        printf("before; ");
        launch(s, "okernel; ");
        cr_assert_eq(dsc_wait(s, 0, 1), 0);
        printf("after; ");
        launch(s, "eassertion\n");
        launch(s, "olast\n");
        cr_assert_eq(dsc_wait_all(s), 0);
        printf("end\n");
        let_go(&caught);
        cr_assert_str_eq(caught.text[0], "before; kernel; after; last\nend\n");
        cr_assert_str_eq(caught.text[1], "assertion\n");
}

/* The kernels' text appears in the program's output at every call at which CUDA flushes its printf buffer. */
Test(core_output, text_appears_where_cuda_flushes, .timeout = 20)
{
        dsc_session *s = start();
        uint64_t p, module;
        int v = 0;
        cr_assert_eq(dsc_mem_alloc(s, 4, &p), 0);
        catch_streams(&caught);
        launch(s, "olaunch ");
        settle(s);
        launch(s, "o");
        settle(s);
        launch(s, "owrite ");
        settle(s);
        (void)dsc_write(s, 0, p, 4, &v, 4, 4, 1);
        launch(s, "oread ");
        (void)dsc_read(s, 0, &v, 4, p, 4, 4, 1);
        launch(s, "oload ");
        settle(s);
        (void)dsc_module_load(s, "x", 1, NULL, 0, &module);
        launch(s, "ounload ");
        settle(s);
        (void)dsc_module_unload(s, 1);
        launch(s, "oreset ");
        settle(s);
        (void)dsc_reset(s);
        launch(s, "oasked ");
        settle(s);
        dsc_output(s);
        launch(s, "onever ");
        settle(s);
        let_go(&caught);
        cr_assert_str_eq(caught.text[0], "launch write read load unload reset asked ");
}

Test(core_output, as_much_as_there_is, .timeout = 20)
{
        dsc_session *s = start();
        char params[PAGE * 3 + 2] = "o";
        memset(params + 1, 'x', sizeof(params) - 2);
        catch_streams(&caught);
        for (int i = 0; i < 5; i++)
                launch(s, params);
        cr_assert_eq(dsc_wait_all(s), 0);
        let_go(&caught);
        cr_assert_eq(strlen(caught.text[0]), 5 * (sizeof(params) - 2));
        cr_assert_leq(asked(), 16);
        const uint32_t before = asked();
        cr_assert_eq(dsc_wait_all(s), 0);
        cr_assert_eq(asked(), before, "and no more");
}

/* The client neither waits for dropped text nor requests it again. */
Test(core_output, dropped_text_is_not_requested_again, .timeout = 20)
{
        dsc_session *s = start();
        catch_streams(&caught);
        lose = 4;
        launch(s, "ogonehere");
        cr_assert_eq(dsc_wait_all(s), 0);
        lose = 4;
        launch(s, "ogone");
        cr_assert_eq(dsc_wait_all(s), 0);
        const uint32_t before = asked();
        launch(s, "o");
        cr_assert_eq(dsc_wait_all(s), 0);
        cr_assert_eq(asked(), before);
        launch(s, "oagain");
        cr_assert_eq(dsc_wait_all(s), 0);
        let_go(&caught);
        cr_assert_str_eq(caught.text[0], "hereagain");
}

/* When an assertion ends the worker, its text is printed before any thread sees the error. */
Test(core_output, an_assertions_text_comes_before_its_error, .timeout = 20)
{
        dsc_session *s = start();
        catch_streams(&caught);
        launch(s, "ewords\n");
        settle(s);
        fake_worker_dies(&fake, 710);
        cr_assert_eq(dsc_sticky_error(s), 710);
        let_go(&caught);
        cr_assert_str_eq(caught.text[1], "words\ndetshare: device-side assert triggered (CUDA_ERROR_ASSERT)\n");
        cr_assert_eq(dsc_wait(s, 0, 1), 710);
}

Test(core_output, without_shared_memory, .timeout = 20)
{
        setenv("DETSHARE_TRANSPORT", "rpc", 1);
        dsc_session *s = start();
        catch_streams(&caught);
        strcpy(printed, "words");
        memset(kinds, 'o', 5);
        n_printed = 5;
        cr_assert_eq(dsc_wait_all(s), 0);
        let_go(&caught);
        cr_assert_str_eq(caught.text[0], "words");
        cr_assert_eq(asked(), 2, "until there is no more");
}

struct waiter {
        pthread_t thread;
        dsc_session *session;
};

static void *wait_and_launch(void *arg)
{
        dsc_session *s = ((struct waiter *)arg)->session;
        for (int i = 0; i < 300; i++) {
                const struct dsc_launch l = {.params = "oy", .params_size = 2, .grid = {1, 1, 1}, .block = {1, 1, 1}};
                (void)dsc_launch(s, 0, &l);
                if (i % 3 == 0)
                        (void)dsc_wait(s, 0, dsc_stream_tail(s, 0));
        }
        return NULL;
}

Test(core_output, many_threads_lose_nothing, .timeout = 60)
{
        struct waiter waiters[8];
        dsc_session *s = start();
        catch_streams(&caught);
        for (int i = 0; i < 8; i++) {
                waiters[i].session = s;
                cr_assert_eq(pthread_create(&waiters[i].thread, NULL, wait_and_launch, &waiters[i]), 0);
        }
        for (int i = 0; i < 8; i++)
                pthread_join(waiters[i].thread, NULL);
        cr_assert_eq(dsc_wait_all(s), 0);
        let_go(&caught);
        cr_assert_eq(strlen(caught.text[0]), 8 * 300);
}

Test(core_output, limits, .timeout = 20)
{
        dsc_session *s = start();
        cr_assert_eq(dsc_limit(s, 7), 0);
        cr_assert_eq(dsc_limit(s, 1000), 0);
        cr_assert_eq(dsc_limit_set(s, 0, 4096), 0);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_SET_LIMIT], 1);
}
