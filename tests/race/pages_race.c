/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's loop and the threads that make and free its pages, under ThreadSanitizer
 *
 * Sessions request files of many sizes, take them, cancel them before and after they are ready, keep handles and
 * release them. Files are closed faster than a thread can close them, and work is pending at the end. Every taken
 * file contains only zeros, and no descriptor is left open.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/internal.h"

#define SESSIONS 6
#define ROUNDS 3000

#define CHECK(x)                                                                         \
        do {                                                                             \
                if (!(x)) {                                                              \
                        fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #x); \
                        exit(1);                                                         \
                }                                                                        \
        } while (0)

/* --- functions of the worker that pages.c calls ------------------------------------------------------------------- */

int dsw_memory_host_file(uint64_t bytes, int *ret_fd)
{
        *ret_fd = memfd_create("pages", MFD_CLOEXEC);
        CHECK(*ret_fd >= 0);
        CHECK(ftruncate(*ret_fd, (off_t)bytes) == 0);
        return 0;
}

void dsw_session_activate(struct dsw_session *session)
{
        CHECK(session->retry);
        session->is_active = 1;
}

/* --- sessions ----------------------------------------------------------------------------------------------------- */

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

/* Checks that every page of the mapping exists. */
static void check_pages(void *mapped, uint64_t bytes)
{
        static unsigned char exists[DS_ARENA_BYTES / 4096];

        CHECK(bytes / 4096 <= sizeof(exists) && mincore(mapped, bytes, exists) == 0);
        for (uint64_t i = 0; i < bytes / 4096; i++)
                CHECK(exists[i] & 1);
}

static void take(struct dsw_session *session, uint64_t bytes)
{
        void *mapped;
        int fd = dsw_pages_take(session, &session->file, &mapped);
        struct stat st;
        char last = 1;

        CHECK(fd >= 0);
        if (mapped) {
                check_pages(mapped, bytes);
                CHECK(((const char *)mapped)[0] == 0 && ((const char *)mapped)[bytes - 1] == 0);
                ((char *)mapped)[0] = 1;
                CHECK(pread(fd, &last, 1, 0) == 1 && last);
                dsw_pages_drop(session->worker, -1, mapped, bytes);
        }
        CHECK(fstat(fd, &st) == 0 && (uint64_t)st.st_size == bytes && (uint64_t)st.st_blocks * 512 == bytes);
        CHECK(pread(fd, &last, 1, (off_t)bytes - 1) == 1 && !last);
        dsw_pages_release(session, 4096);
        dsw_pages_hold(session, 4096, bytes, fd);
        close(fd);
}

/* Requests a file until it is ready, or cancels the request. */
static void act(struct dsw_session *session, uint64_t *want)
{
        if (!*want)
                *want = rand() % 4 ? DS_MIB(1) * (uint64_t)(1 + rand() % 9) : DS_ARENA_BYTES;
        if (rand() % 16 == 0) {
                dsw_pages_forget(session, &session->file);
                *want = 0;
        } else if (dsw_pages_ready(session, &session->file, *want) == 0) {
                take(session, *want);
                *want = 0;
        }
}

int main(void)
{
        static struct dsw_session sessions[SESSIONS];
        static struct ds_worker worker;
        uint64_t wants[SESSIONS] = {0};
        size_t before = descriptors(), n = 0;

        CHECK(dsw_pages_new(&worker, 3) == 0);
        /* On a busy machine the thread needs more rounds until it has made some files. */
        for (int i = 0; i < ROUNDS || (n <= 20 && i < 1000 * ROUNDS); i++) {
                struct pollfd pfd = {.fd = dsw_pages_fd(&worker), .events = POLLIN};
                int which = rand() % SESSIONS;

                sessions[which].worker = &worker;
                act(&sessions[which], &wants[which]);
                for (int k = rand() % 300 ? 0 : 200; k > 0; k--)
                        dsw_pages_drop(&worker, memfd_create("drop", MFD_CLOEXEC), NULL, 0);
                if (rand() % 4 == 0)
                        poll(&pfd, 1, 1);
                n += dsw_pages_step(&worker);
        }
        CHECK(n > 20);
        for (int i = 0; i < SESSIONS; i++) {
                CHECK(sessions[i].worker);
                dsw_pages_forget(&sessions[i], &sessions[i].file);
                dsw_pages_release(&sessions[i], 4096);
        }
        CHECK(!dsw_pages_awaited(&worker));
        dsw_pages_free(&worker);
        CHECK(descriptors() == before);
        printf("%zu files\n", n);
        return 0;
}
