/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client core's side of linking, against a daemon inside the test: what it sends, and replies of a wrong daemon
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/core.h"
#include "tests/support/fake_daemon.h"

#define IMAGE "linked image"

/* One reply of the daemon inside the test. */
struct answer {
        int status, with_file, sealed;
        uint64_t bytes;
};

static struct fake fake;
static struct answer answer;
static uint64_t sent_bytes;
static int sent_check;

static int image_file(void)
{
        int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        cr_assert(fd >= 0 && write(fd, IMAGE, strlen(IMAGE)) == (ssize_t)strlen(IMAGE));
        if (answer.sealed)
                cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
        return fd;
}

static enum fake_verdict on_link(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        Detshare__LinkReply link = DETSHARE__LINK_REPLY__INIT;
        int fd;

        if (request->call_case != DETSHARE__REQUEST__CALL_MODULE_LINK)
                return FAKE_DEFAULT;
        sent_bytes = request->module_link->bytes;
        sent_check = request->module_link->check;
        reply->id = request->id;
        reply->status = answer.status;
        reply->message = answer.status ? (char *)"error   : Undefined reference to 'f' in 'a'" : (char *)"";
        link.bytes = answer.bytes;
        link.log = (char *)"1 warning";
        if (!answer.status) {
                reply->result_case = DETSHARE__REPLY__RESULT_MODULE_LINK;
                reply->module_link = &link;
        }
        fd = answer.with_file ? image_file() : -1;
        fake_reply(f, reply, &fd, answer.with_file ? 1 : 0);
        if (fd >= 0)
                close(fd);
        return FAKE_SILENT;
}

static dsc_session *get(void)
{
        int error = -1;
        dsc_session *s;

        fake.hook = on_link;
        fake_start(&fake);
        s = dsc_get(&error);
        cr_assert(s, "dsc_get: %d %s", error, dsc_message());
        return s;
}

static const struct dsc_link_input inputs[] = {{.bytes = "first", .size = 5, .kind = DS_LINK_PTX, .name = "a"},
        {.bytes = "2", .size = 1, .kind = DS_LINK_CUBIN}};

static int run(dsc_session *s, struct answer next, char *log, size_t log_size, char **ret)
{
        const struct dsc_link link = {.inputs = inputs, .n_inputs = 2, .log = log, .log_size = log_size};
        size_t size = 0;
        void *image = NULL;
        int r;

        answer = next;
        r = dsc_link(s, &link, &image, &size);
        cr_assert_eq(r == 0, image != NULL);
        if (!r)
                cr_assert_eq(size, next.bytes);
        *ret = image;
        return r;
}

Test(core_link, the_image_comes_back)
{
        const struct answer good = {.with_file = 1, .sealed = 1, .bytes = strlen(IMAGE)};
        dsc_session *s = get();
        char log[64], *image;

        cr_assert_eq(run(s, good, log, sizeof(log), &image), 0);
        cr_assert_str_eq(image, IMAGE);
        cr_assert_str_eq(log, "1 warning");
        cr_assert_eq(sent_check, 0);
        /* the header, two descriptions, and two inputs at multiples of 16 bytes */
        cr_assert_eq(sent_bytes, sizeof(struct ds_link_file) + 2 * sizeof(struct ds_link_input) + 2 * 16);
        free(image);
        cr_assert_eq(run(s, good, NULL, 0, &image), 0);
        free(image);
        cr_assert_eq(run(s, good, log, 4, &image), 0);
        cr_assert_str_eq(log, "1 w");
        free(image);
}

Test(core_link, errors_come_with_their_text)
{
        const struct answer bad = {.status = 300};
        dsc_session *s = get();
        char log[64], *image;

        cr_assert_eq(run(s, bad, log, sizeof(log), &image), 300);
        cr_assert_str_eq(log, "error   : Undefined reference to 'f' in 'a'");
}

/* Files and sizes that a correct daemon does not send. */
Test(core_link, a_wrong_image_is_refused)
{
        const struct answer wrong[] = {
                {.with_file = 0, .bytes = 5},
                {.with_file = 1, .sealed = 0, .bytes = strlen(IMAGE)},
                {.with_file = 1, .sealed = 1, .bytes = 0},
                {.with_file = 1, .sealed = 1, .bytes = strlen(IMAGE) + 1},
                {.with_file = 1, .sealed = 1, .bytes = UINT64_MAX},
        };
        dsc_session *s = get();
        char log[64], *image;

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
                cr_assert_neq(run(s, wrong[i], log, sizeof(log), &image), 0, "%zu", i);
}

Test(core_link, a_check_needs_no_file)
{
        const struct dsc_link link = {.inputs = inputs, .n_inputs = 1};
        dsc_session *s = get();

        answer = (struct answer){.status = 0};
        cr_assert_eq(dsc_link_check(s, &link), 0);
        cr_assert_eq(sent_check, 1);
        answer = (struct answer){.status = 218};
        cr_assert_eq(dsc_link_check(s, &link), 218);
}

Test(core_link, too_many_or_too_large_inputs)
{
        static struct dsc_link_input many[DS_LINK_INPUTS_MAX + 1];
        const struct dsc_link_input large[] = {{.bytes = "x", .size = SIZE_MAX - 8}, {.bytes = "x", .size = 1}};
        struct dsc_link link = {.inputs = many};
        dsc_session *s = get();
        void *image;
        size_t size;

        sent_bytes = 0;
        cr_assert_eq(dsc_link(s, &link, &image, &size), 1);
        link.n_inputs = DS_LINK_INPUTS_MAX + 1;
        cr_assert_eq(dsc_link(s, &link, &image, &size), 1);
        link = (struct dsc_link){.inputs = large, .n_inputs = 2};
        cr_assert_eq(dsc_link(s, &link, &image, &size), 2);
        cr_assert_eq(sent_bytes, 0);
}
