/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results of image checks that the supervisor remembers: for equal bytes or an unchanged file only, of one user only,
 * and bounded
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/helper_link.h"
#include "supervisor/image_memory.h"
#include "util/foreign.h"
#include "util/macro.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)

static ds_users *users;
static ds_image_memory *memory;

static void setup(void)
{
        struct ds_charge_limits limits = {0};

        cr_assert_eq(ds_users_new(&limits, &users), 0);
        cr_assert_eq(ds_image_memory_new(DS_IMAGE_MEMORY_FILES, &memory), 0);
}

static void teardown(void)
{
        ds_image_memory_free(memory);
        ds_users_free(users);
}

TestSuite(image_memory, .init = setup, .fini = teardown);

static int file_of(const void *bytes, size_t size, int seals)
{
        int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
        return fd;
}

/* A job of user `uid` for the image in fd; job_end() frees it. */
static struct ds_helper_job job_of(uid_t uid, int fd, uint64_t offset, uint64_t bytes)
{
        struct ds_helper_job job = {
                .fd = fd, .offset = offset, .bytes = bytes, .forms = DETSHARE__INTERNAL__IMAGE_FORMS__FORMS_STORED};

        cr_assert_eq(ds_user_get(users, uid, &job.user), 0);
        return job;
}

static void job_end(struct ds_helper_job *job)
{
        ds_user_unref(job->user);
        close(job->fd);
}

static ino_t inode(int fd)
{
        struct stat st;

        cr_assert_eq(fstat(fd, &st), 0);
        return st.st_ino;
}

/* Whether the image of the job is identified, and *ret_found: whether its result is remembered. */
static int look(struct ds_helper_job *job, int *ret_found)
{
        struct ds_helper_result result = {.fd = -1};

        *ret_found = 0;
        if (!ds_image_memory_identify(memory, job, &job->key))
                return 0;
        *ret_found = ds_image_memory_find(memory, &job->key, &result);
        if (*ret_found)
                close(result.fd);
        return 1;
}

static int found(uid_t uid, const char *bytes)
{
        struct ds_helper_job job = job_of(uid, file_of(bytes, strlen(bytes), SEALS), 0, strlen(bytes));
        int is_found;

        cr_assert(look(&job, &is_found));
        job_end(&job);
        return is_found;
}

static void add(struct ds_helper_job *job, size_t size)
{
        void *bytes = calloc(1, size);
        struct ds_helper_result result = {.fd = file_of(bytes, size, SEALS), .bytes = size, .no_ptx = 1};

        free(bytes);
        cr_assert(ds_image_memory_identify(memory, job, &job->key));
        ds_image_memory_add(memory, job, &job->key, &result);
        close(result.fd);
}

static void learn(uid_t uid, const char *bytes, size_t result_size)
{
        struct ds_helper_job job = job_of(uid, file_of(bytes, strlen(bytes), SEALS), 0, strlen(bytes));

        add(&job, result_size);
        job_end(&job);
}

Test(image_memory, equal_bytes_have_the_same_result)
{
        struct ds_helper_job job = job_of(1000, file_of("image", 5, SEALS), 0, 5), other;
        struct ds_helper_result result = {.fd = file_of("code", 4, SEALS),
                                        .bytes = 3,
                                        .report_bytes = 1,
                                        .variable_bytes = 7,
                                        .no_ptx = 1},
                                got;
        int is_found;

        cr_assert(look(&job, &is_found) && !is_found);
        ds_image_memory_add(memory, &job, &job.key, &result);
        other = job_of(1000, file_of("image", 5, SEALS), 0, 5);
        cr_assert(ds_image_memory_identify(memory, &other, &other.key));
        cr_assert(ds_image_memory_find(memory, &other.key, &got));
        cr_assert_eq(inode(got.fd), inode(result.fd));
        cr_assert(got.bytes == 3 && got.report_bytes == 1 && got.variable_bytes == 7 && got.no_ptx && !got.status);
        close(got.fd);
        cr_assert(!found(1000, "imagE"), "another byte");
        cr_assert(!found(1000, "image "), "one byte more");
        cr_assert(!found(1001, "image"), "another user");
        other.max_registers = 32;
        cr_assert(look(&other, &is_found) && !is_found, "other options");
        other.max_registers = 0;
        other.forms = DETSHARE__INTERNAL__IMAGE_FORMS__NATIVE;
        cr_assert(look(&other, &is_found) && !is_found, "another request for forms");
        job_end(&other);
        job_end(&job);
        close(result.fd);
}

/* Bytes that can change, large images, and requests with other results are left to the helper. */
Test(image_memory, only_small_sealed_images_are_recognised_by_their_bytes)
{
        static char large[DS_IMAGE_MEMORY_SOURCE_MAX + 1];
        struct ds_helper_job job = job_of(0, file_of("image", 5, F_SEAL_SHRINK), 0, 5);
        int is_found;

        cr_assert(!look(&job, &is_found), "it can be written");
        cr_assert_eq(fcntl(job.fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
        cr_assert(look(&job, &is_found));
        job.offset = 1;
        cr_assert(!look(&job, &is_found), "it begins within the file");
        job.offset = 0;
        job.bytes = 6;
        cr_assert(!look(&job, &is_found), "the file is shorter");
        job.bytes = 5;
        job.background = 1;
        cr_assert(!look(&job, &is_found));
        job.background = 0;
        job.link_step = DETSHARE__INTERNAL__IMAGE_LINK__LINK;
        cr_assert(!look(&job, &is_found));
        job.link_step = DETSHARE__INTERNAL__IMAGE_LINK__NO_LINK;
        job.forms = DETSHARE__INTERNAL__IMAGE_FORMS__FORMS_MADE;
        cr_assert(!look(&job, &is_found), "the answer says why there are no forms");
        job_end(&job);
        job = job_of(0, file_of(large, sizeof(large), SEALS), 0, sizeof(large) - 1);
        cr_assert(look(&job, &is_found));
        job.bytes++;
        cr_assert(!look(&job, &is_found));
        job_end(&job);
}

Test(image_memory, failures_and_large_results_are_not_remembered)
{
        struct ds_helper_job job = job_of(0, file_of("bad", 3, SEALS), 0, 3);
        const struct ds_helper_result failed = {.status = 218, .message = "no", .fd = -1};
        int is_found;

        cr_assert(look(&job, &is_found));
        ds_image_memory_add(memory, &job, &job.key, &failed);
        cr_assert(look(&job, &is_found) && !is_found);
        job_end(&job);
        learn(0, "large", DS_IMAGE_MEMORY_RESULT_MAX + 1);
        cr_assert(!found(0, "large"));
        learn(0, "large", DS_IMAGE_MEMORY_RESULT_MAX);
        cr_assert(found(0, "large"));
}

/* A file is recognised while it does not change. */
Test(image_memory, files_are_recognised_by_their_times, .timeout = 60)
{
        char path[] = "build/image-memory.XXXXXX";
        int fd = mkostemp(path, O_CLOEXEC), reader = open(path, O_RDONLY | O_CLOEXEC), is_found;
        struct ds_helper_job job = job_of(0, reader, 2, 5);

        cr_assert(fd >= 0 && reader >= 0);
        unlink(path);
        cr_assert_eq(write(fd, "0123456789", 10), 10);
        if (!ds_foreign_is_disk_file(reader)) {
                job_end(&job);
                close(fd);
                cr_skip_test("the build folder is not on a local disk");
        }
        cr_assert(!look(&job, &is_found), "it changed just now");
        while (!look(&job, &is_found))
                usleep(100000);
        cr_assert(!is_found);
        add(&job, 4);
        cr_assert(look(&job, &is_found) && is_found);
        job.offset = 3;
        cr_assert(look(&job, &is_found) && !is_found, "another part of it");
        job.offset = 2;
        cr_assert_eq(pwrite(fd, "x", 1, 0), 1);
        cr_assert(!look(&job, &is_found), "it changed");
        while (!look(&job, &is_found))
                usleep(100000);
        cr_assert(!is_found);
        job_end(&job);
        close(fd);
}

/* In a full memory, a user that has its share loses its own results only. */
Test(image_memory, users_have_shares)
{
        char name[32];

        ds_image_memory_free(memory);
        cr_assert_eq(ds_image_memory_new(16, &memory), 0);
        learn(7, "of another user", 1);
        for (unsigned i = 0; i < 40; i++) {
                snprintf(name, sizeof(name), "image %u", i);
                learn(1000, name, 1);
                cr_assert(found(1000, "image 0"), "%u: it was used last", i);
        }
        for (unsigned i = 1; i < 40; i++) {
                snprintf(name, sizeof(name), "image %u", i);
                cr_assert_eq(found(1000, name), i >= 26, "%s", name);
        }
        cr_assert(found(7, "of another user"));
        /* another user gets room, and takes none from itself before it has its share */
        for (unsigned i = 0; i < 4; i++) {
                snprintf(name, sizeof(name), "other %u", i);
                learn(8, name, 1);
        }
        for (unsigned i = 0; i < 4; i++) {
                snprintf(name, sizeof(name), "other %u", i);
                cr_assert(found(8, name), "%s", name);
        }
}

/* The results of all users are bounded in bytes, too. */
Test(image_memory, bytes_are_bounded)
{
        const unsigned fit = (unsigned)(DS_IMAGE_MEMORY_BYTES / DS_IMAGE_MEMORY_RESULT_MAX) - 1; /* images take some */
        char name[32];

        for (unsigned i = 0; i < fit + 3; i++) {
                snprintf(name, sizeof(name), "image %u", i);
                learn(1000, name, DS_IMAGE_MEMORY_RESULT_MAX);
        }
        for (unsigned i = 0; i < fit + 3; i++) {
                snprintf(name, sizeof(name), "image %u", i);
                cr_assert_eq(found(1000, name), i >= 3, "%s", name);
        }
}

Test(image_memory, few_open_files_turn_it_off)
{
        struct ds_helper_job job = job_of(0, file_of("image", 5, SEALS), 0, 5);

        ds_image_memory_free(memory);
        cr_assert_eq(ds_image_memory_new(0, &memory), 0);
        cr_assert(!ds_image_memory_identify(memory, &job, &job.key));
        job_end(&job);
}
