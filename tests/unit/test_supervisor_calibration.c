/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored calibration of memory channels: it is read back unchanged, for as many GPUs as fit. A damaged file counts as
 * none, and impossible values are not stored.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/calibration.h"
#include "util/log.h"
#include "util/macro.h"

static char path[64], file[128];

static void setup(void)
{
        snprintf(path, sizeof(path), "/tmp/detshare-channels.XXXXXX");
        cr_assert_not_null(mkdtemp(path));
        snprintf(file, sizeof(file), "%s/" DS_CALIBRATION_FILE, path);
        ds_log_to(open("/dev/null", O_WRONLY | O_CLOEXEC));
}

static void teardown(void)
{
        (void)unlink(file);
        cr_expect_eq(rmdir(path), 0, "nothing else is left there");
}

TestSuite(supervisor_calibration, .init = setup, .fini = teardown);

static struct ds_calibration_gpu gpu_of(const char *name, uint32_t be)
{
        struct ds_calibration_gpu gpu = {
                .channels = 47, .be = be, .n = 2, .cells = {{1, 2, 0, 33, 1450, 560}, {2, 3, 15, 0, 1200, 0}}};

        snprintf(gpu.name, sizeof(gpu.name), "%s", name);
        return gpu;
}

/* Number of GPUs that a newly started daemon knows. */
static size_t known(struct ds_calibration *c)
{
        ds_calibration_close(c);
        ds_calibration_open(c, path);
        return c->n;
}

Test(supervisor_calibration, comes_back)
{
        const struct ds_calibration_gpu gpu = gpu_of("DetShare sim:h200/132", 15), other = gpu_of("NVIDIA H200/132", 0);
        const struct ds_calibration_gpu *found;
        struct ds_calibration c;
        struct stat st;

        ds_calibration_open(&c, path);
        cr_assert_eq(c.n, 0);
        cr_assert_eq(ds_calibration_put(&c, &gpu), 0);
        cr_assert_eq(ds_calibration_put(&c, &other), 0);
        cr_assert_eq(stat(file, &st), 0);
        cr_expect_eq(st.st_mode & 0777, 0600);
        cr_assert_eq(known(&c), 2);
        found = ds_calibration_find(&c, gpu.name);
        cr_assert_not_null(found);
        cr_expect_eq(memcmp(found, &gpu, sizeof(gpu)), 0);
        cr_expect_eq(ds_calibration_find(&c, other.name)->be, 0);
        cr_expect_null(ds_calibration_find(&c, "another/1"));
        cr_assert_eq(ds_calibration_forget(&c, gpu.name), 0);
        cr_assert_eq(ds_calibration_forget(&c, gpu.name), 0, "twice is fine");
        cr_assert_eq(known(&c), 1);
        cr_expect_null(ds_calibration_find(&c, gpu.name));
        ds_calibration_close(&c);
}

Test(supervisor_calibration, as_many_as_there_is_room_for)
{
        struct ds_calibration c;
        char name[32];

        ds_calibration_open(&c, path);
        for (uint32_t i = 0; i < DS_CALIBRATION_GPUS_MAX + 3; i++) {
                struct ds_calibration_gpu gpu;

                snprintf(name, sizeof(name), "gpu/%u", i);
                gpu = gpu_of(name, i);
                cr_assert_eq(ds_calibration_put(&c, &gpu), 0);
                cr_assert_eq(ds_calibration_put(&c, &gpu), 0, "in its own place");
        }
        cr_assert_eq(known(&c), DS_CALIBRATION_GPUS_MAX);
        cr_expect_null(ds_calibration_find(&c, "gpu/2"), "the oldest go");
        cr_expect_eq(ds_calibration_find(&c, "gpu/3")->be, 3);
        cr_expect_str_eq(c.gpus[0].name, name, "the last is the first");
        ds_calibration_close(&c);
}

/* A file of which one byte has another value counts as none, whichever byte it is. */
Test(supervisor_calibration, damage_is_nothing)
{
        const struct ds_calibration_gpu gpu = gpu_of("gpu/1", 4);
        struct ds_calibration c;
        char text[1024];
        ssize_t size;
        int fd;

        ds_calibration_open(&c, path);
        cr_assert_eq(ds_calibration_put(&c, &gpu), 0);
        fd = open(file, O_RDWR | O_CLOEXEC);
        size = read(fd, text, sizeof(text));
        cr_assert(size > 60);
        for (ssize_t i = 0; i < size; i++) {
                const char other = (char)(text[i] ^ 1);

                cr_assert_eq(pwrite(fd, &other, 1, i), 1);
                cr_expect_eq(known(&c), 0, "byte %zd", i);
                cr_assert_eq(pwrite(fd, &text[i], 1, i), 1);
        }
        cr_assert_eq(known(&c), 1);
        for (ssize_t i = 0; i < size; i++) {
                cr_assert_eq(ftruncate(fd, i), 0);
                cr_expect_eq(known(&c), 0, "%zd bytes", i);
                cr_assert_eq(pwrite(fd, text, (size_t)size, 0), size);
        }
        close(fd);
        cr_assert_eq(known(&c), 1);
        cr_assert_eq(ds_calibration_put(&c, &gpu), 0, "and another file takes its place");
        ds_calibration_close(&c);
}

Test(supervisor_calibration, a_file_that_is_none)
{
        struct ds_calibration c;

        cr_assert_eq(mkdir(file, 0700), 0);
        ds_calibration_open(&c, path);
        cr_expect_eq(c.n, 0);
        cr_expect_eq(
                ds_calibration_put(&c, &(struct ds_calibration_gpu){.name = "gpu/1", .channels = 6, .n = 1}), -EIO);
        cr_expect_eq(c.n, 1, "it holds until the daemon ends");
        cr_assert_eq(rmdir(file), 0);
        ds_calibration_close(&c);
        ds_calibration_open(&c, NULL);
        cr_expect_eq(ds_calibration_put(&c, &(struct ds_calibration_gpu){.name = "gpu/1", .channels = 6, .n = 1}), 0);
        cr_expect_not_null(ds_calibration_find(&c, "gpu/1"), "without a directory it is in memory");
        ds_calibration_close(&c);
}

Test(supervisor_calibration, impossible_values)
{
        struct ds_calibration_gpu bad[9];

        for (size_t i = 0; i < DS_ARRAY_SIZE(bad); i++) {
                bad[i] = gpu_of("gpu/1", 4);
                cr_assert_null(ds_calibration_wrong(&bad[i]));
        }
        bad[0].name[0] = 0;
        bad[1].name[1] = '\n';
        bad[2].channels = 1;
        bad[3].channels = DS_POOL_CHANNELS_MAX + 1;
        bad[4].be = 47;
        bad[5].n = 0;
        bad[6].cells[1].be_channels = 47;
        bad[7].cells[0].ls_permille = 0;
        bad[8].cells[1].be_load = 4;
        for (size_t i = 0; i < DS_ARRAY_SIZE(bad); i++)
                cr_expect_not_null(ds_calibration_wrong(&bad[i]), "%zu", i);
}
