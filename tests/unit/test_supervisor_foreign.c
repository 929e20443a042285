/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwanted files from clients, while the system creates no threads to close them
 *
 * This program replaces pthread_create, which fails as often as a test requires.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "supervisor/foreign.h"
#include "util/foreign.h"

#define WAIT_S 30

static int threads_fail;

__attribute__((visibility("default"))) int pthread_create(
        pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *arg)
{
        int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = (int (*)(
                pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");

        return threads_fail ? EAGAIN : real(thread, attributes, fn, arg);
}

static struct {
        uv_loop_t loop;
        struct ds_deadlines deadlines;
        struct ds_foreign foreign;
        ds_users *users;
        ds_user *user;
} fx;

static void setup(void)
{
        struct ds_charge_limits limits;

        for (int i = 0; i < _DS_CHARGE_MAX; i++)
                limits.user[i] = limits.root[i] = limits.total[i] = 2;
        cr_assert(ds_users_new(&limits, &fx.users) == 0);
        cr_assert(ds_user_get(fx.users, 1000, &fx.user) == 0);
        cr_assert(uv_loop_init(&fx.loop) == 0);
        cr_assert(ds_deadlines_init(&fx.deadlines, &fx.loop) == 0);
        ds_foreign_init(&fx.foreign, &fx.deadlines);
}

static void teardown(void)
{
        ds_foreign_deinit(&fx.foreign);
        ds_deadlines_deinit(&fx.deadlines);
        uv_run(&fx.loop, UV_RUN_DEFAULT);
        cr_assert(uv_loop_close(&fx.loop) == 0);
        ds_user_unref(fx.user);
        cr_assert(!ds_users_free(fx.users));
}

static int is_open(int fd)
{
        return fcntl(fd, F_GETFD) >= 0;
}

static void turn_for(unsigned ms)
{
        for (unsigned i = 0; i < ms; i++) {
                uv_run(&fx.loop, UV_RUN_NOWAIT);
                usleep(1000);
        }
}

TestSuite(supervisor_foreign, .init = setup, .fini = teardown);

Test(supervisor_foreign, without_threads_nothing_is_closed_by_the_loop)
{
        const time_t end = time(NULL) + WAIT_S;
        int fds[2];

        cr_assert(pipe2(fds, O_CLOEXEC) == 0);
        threads_fail = 1;
        ds_foreign_close(&fx.foreign, fx.user, fds, 2);
        turn_for(20);
        cr_assert(is_open(fds[0]) && is_open(fds[1]), "the loop closed what may take as long as its owner likes");
        cr_assert(ds_foreign_too_many(&fx.foreign, fx.user), "its user is listened to");
        threads_fail = 0;
        while (ds_user_usage(fx.user, DS_CHARGE_FOREIGN) && time(NULL) < end)
                turn_for(1);
        cr_assert(!is_open(fds[0]) && !is_open(fds[1]));
        cr_assert(!ds_foreign_too_many(&fx.foreign, fx.user));
}

Test(supervisor_foreign, files_without_a_thread_close_at_exit)
{
        int fds[2];

        cr_assert(pipe2(fds, O_CLOEXEC) == 0);
        threads_fail = 1;
        ds_foreign_close(&fx.foreign, fx.user, fds, 2);
        ds_foreign_deinit(&fx.foreign);
        cr_assert(ds_user_usage(fx.user, DS_CHARGE_FOREIGN) == 0);
        cr_assert(is_open(fds[0]) && is_open(fds[1]));
        close(fds[0]);
        close(fds[1]);
}

/* Programs send the files that contain their code by the hundred. */
Test(foreign, files_of_disks_close_at_once_while_they_have_a_name)
{
        char path[] = "/var/tmp/detshare-foreign.XXXXXX";
        int made = mkstemp(path), fd;

        cr_assert_geq(made, 0);
        cr_assert_eq(write(made, "x", 1), 1);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (!ds_foreign_is_disk_file(fd)) {
                close(fd);
                close(made);
                unlink(path);
                skip_test("a file system with a block device in /var/tmp");
        }
        cr_assert(ds_foreign_closes_at_once(fd));
        cr_assert(!ds_foreign_closes_at_once(made), "it can be written");
        cr_assert_eq(unlink(path), 0);
        cr_assert(!ds_foreign_closes_at_once(fd), "closing it frees it");
        close(fd);
        close(made);
}
