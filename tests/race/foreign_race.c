/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's loop and the threads that close clients' descriptors, under ThreadSanitizer
 *
 * Two users' pipes, sockets and memory files are handed over in batches as fast as they can be made, while the loop
 * collects closed ones. Then the test waits for all; charges and descriptors must be as before. At the end the list is
 * freed while threads work.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "supervisor/foreign.h"

#define ROUNDS 400
#define BATCH 6 /* descriptors that are handed over at once, in pairs */
#define WAIT_S 60

#define CHECK(x)                                                                         \
        do {                                                                             \
                if (!(x)) {                                                              \
                        fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #x); \
                        exit(1);                                                         \
                }                                                                        \
        } while (0)

static size_t descriptors(void)
{
        DIR *dir = opendir("/proc/self/fd");
        size_t n = 0;

        CHECK(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

static void give_up(struct ds_foreign *foreign, ds_user *user)
{
        int fds[BATCH];

        CHECK(pipe2(fds, O_CLOEXEC) == 0);
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds + 2) == 0);
        fds[4] = memfd_create("foreign", MFD_CLOEXEC);
        CHECK(fds[4] >= 0);
        fds[5] = -1;
        ds_foreign_close(foreign, user, fds, BATCH);
}

static uint64_t held(ds_user *const *users)
{
        return ds_user_usage(users[0], DS_CHARGE_FOREIGN) + ds_user_usage(users[1], DS_CHARGE_FOREIGN);
}

static void await(uv_loop_t *loop, ds_user *const *users, size_t before)
{
        time_t end = time(NULL) + WAIT_S;

        while ((held(users) || descriptors() > before) && time(NULL) < end) {
                uv_run(loop, UV_RUN_NOWAIT);
                usleep(1000);
        }
        CHECK(held(users) == 0);
        CHECK(descriptors() == before);
}

int main(void)
{
        struct ds_charge_limits limits;
        struct ds_deadlines deadlines;
        struct ds_foreign foreign;
        ds_users *users;
        ds_user *both[2];
        uv_loop_t loop;
        size_t before;
        int refused = 0;

        for (int i = 0; i < _DS_CHARGE_MAX; i++)
                limits.user[i] = limits.root[i] = limits.total[i] = 64;
        CHECK(ds_users_new(&limits, &users) == 0);
        CHECK(ds_user_get(users, 1000, &both[0]) == 0 && ds_user_get(users, 1001, &both[1]) == 0);
        CHECK(uv_loop_init(&loop) == 0 && ds_deadlines_init(&deadlines, &loop) == 0);
        ds_foreign_init(&foreign, &deadlines);
        before = descriptors();
        for (int i = 0; i < ROUNDS; i++) {
                if (ds_foreign_too_many(&foreign, both[i % 2]))
                        refused++;
                else
                        give_up(&foreign, both[i % 2]);
                uv_run(&loop, UV_RUN_NOWAIT);
        }
        await(&loop, both, before);
        for (int i = 0; i < 8; i++)
                give_up(&foreign, both[i % 2]);
        ds_foreign_deinit(&foreign);
        ds_deadlines_deinit(&deadlines);
        uv_run(&loop, UV_RUN_DEFAULT);
        CHECK(uv_loop_close(&loop) == 0);
        ds_user_unref(both[0]);
        ds_user_unref(both[1]);
        CHECK(!ds_users_free(users));
        printf("%d of %d rounds refused\n", refused, ROUNDS);
        return 0;
}
