/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper's memory of images that it has checked
 *
 * The helper recognises an image by its file only while the file is unchanged, and only for the same user. It
 * recognises an image by its bytes only if all bytes are equal. The memory is bounded.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "helper/known.h"

#define CODE 1000u
#define LATER (10 * DS_NS_PER_S)

static char path[64];
static int file = -1;

static uint64_t now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        return (uint64_t)t.tv_sec * DS_NS_PER_S + (uint64_t)t.tv_nsec;
}

static void setup(void)
{
        snprintf(path, sizeof(path), "/tmp/detshare-known.XXXXXX");
        file = mkostemp(path, O_CLOEXEC);
        cr_assert_geq(file, 0);
        cr_assert_eq(write(file, "0123456789", 10), 10);
}

static void teardown(void)
{
        close(file);
        unlink(path);
}

TestSuite(known, .init = setup, .fini = teardown);

static struct ds_known_origin origin_of(int fd, uint32_t uid)
{
        struct ds_known_origin origin = {.uid = uid, .bytes = 10, .cc = 90};

        cr_assert_eq(ds_known_identify(fd, now() + LATER, &origin), 0);
        return origin;
}

static struct ds_check_result made(int fill, size_t size)
{
        struct ds_check_result result = {.fd = memfd_create("test", MFD_CLOEXEC), .bytes = size, .variable_bytes = 7};
        uint8_t *bytes = malloc(size);

        memset(bytes, fill, size);
        cr_assert_eq(write(result.fd, bytes, size), (ssize_t)size);
        free(bytes);
        return result;
}

static ino_t inode(int fd)
{
        struct stat st;

        cr_assert_eq(fstat(fd, &st), 0);
        return st.st_ino;
}

Test(known, the_same_file_is_not_read_again)
{
        struct ds_known_origin origin = origin_of(file, 1000), other;
        struct ds_check_result result = made(1, CODE), again;
        ds_known *known;

        result.no_ptx = 1;
        cr_assert_eq(ds_known_new(CODE * 100, 10, &known), 0);
        cr_assert(!ds_known_find(known, &origin, NULL, &again));
        ds_known_add(known, &origin, -1, &result);
        cr_assert(ds_known_find(known, &origin, NULL, &again));
        cr_assert_eq(again.status, 0);
        cr_assert_eq(inode(again.fd), inode(result.fd));
        cr_assert(again.bytes == CODE && again.variable_bytes == 7 && again.no_ptx);
        close(again.fd);
        other = origin_of(file, 1001);
        cr_assert(!ds_known_find(known, &other, NULL, &again), "another user's word about it");
        other = origin;
        other.offset = 1;
        cr_assert(!ds_known_find(known, &other, NULL, &again));
        other = origin;
        other.max_registers = 32;
        cr_assert(!ds_known_find(known, &other, NULL, &again));
        close(result.fd);
        ds_known_free(known);
}

Test(known, a_file_that_changed_is_another)
{
        struct ds_known_origin origin = origin_of(file, 1000), other;
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
        struct stat st;

        cr_assert_eq(fstat(file, &st), 0);
        usleep(20000);
        cr_assert_eq(pwrite(file, "x", 1, 3), 1);
        /* the file's owner may set the time of modification (mtime) back, but not the time of the last change of
         * status (ctime) */
        times[1] = st.st_mtim;
        cr_assert_eq(futimens(file, times), 0);
        other = origin_of(file, 1000);
        cr_assert_eq(other.mtime_ns, origin.mtime_ns);
        cr_assert_neq(memcmp(&origin, &other, sizeof(origin)), 0);
}

Test(known, a_recent_change_is_not_trusted)
{
        struct ds_known_origin origin = {0};

        cr_assert_eq(ds_known_identify(file, now(), &origin), 1);
        cr_assert_eq(ds_known_identify(file, now() - LATER, &origin), 1, "it changes in the future");
        cr_assert_eq(ds_known_identify(file, now() + LATER, &origin), 0);
}

Test(known, only_readers_of_the_file_get_it)
{
        struct ds_known_origin origin = {0};
        int flags[] = {O_PATH, O_WRONLY, O_RDONLY, O_RDWR};
        int pipes[2];

        for (size_t i = 0; i < 4; i++) {
                int fd = open(path, flags[i] | O_CLOEXEC);

                cr_assert_geq(fd, 0);
                cr_assert_eq(ds_known_identify(fd, now() + LATER, &origin), i < 2);
                close(fd);
        }
        cr_assert_eq(pipe2(pipes, O_CLOEXEC), 0);
        cr_assert_eq(ds_known_identify(pipes[0], now() + LATER, &origin), 1);
        close(pipes[0]);
        close(pipes[1]);
        cr_assert_eq(ds_known_identify(-1, now() + LATER, &origin), 1);
}

Test(known, the_same_bytes_are_the_same_file)
{
        struct ds_check_result a = made(1, CODE), b = made(1, CODE), c = made(2, CODE), d = made(1, CODE - 1);
        ds_known *known;

        cr_assert_eq(ds_known_new(CODE * 100, 10, &known), 0);
        ds_known_add(known, NULL, -1, &a);
        ds_known_add(known, NULL, -1, &b);
        ds_known_add(known, NULL, -1, &c);
        ds_known_add(known, NULL, -1, &d);
        cr_assert_eq(inode(a.fd), inode(b.fd));
        cr_assert_neq(inode(a.fd), inode(c.fd));
        cr_assert_neq(inode(a.fd), inode(d.fd));
        cr_assert_eq(ds_known_bytes(known), 3 * CODE - 1);
        close(a.fd);
        close(b.fd);
        close(c.fd);
        close(d.fd);
        ds_known_free(known);
}

static int open_files(void)
{
        int n = 0;

        for (int fd = 0; fd < 1024; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

Test(known, bytes_and_files_are_bounded)
{
        struct ds_known_origin first = origin_of(file, 1000), origin = first;
        struct ds_check_result result, again;
        int before = open_files();
        ds_known *known;

        cr_assert_eq(ds_known_new(CODE * 10, 5, &known), 0);
        for (int i = 0; i < 50; i++) {
                result = made(i, CODE + (size_t)i);
                origin.offset = (uint64_t)i;
                ds_known_add(known, &origin, -1, &result);
                close(result.fd);
                cr_assert_leq(ds_known_bytes(known), CODE * 10);
                cr_assert_leq(open_files(), before + 5);
                cr_assert(ds_known_find(known, &first, NULL, &again), "the one that is used stays");
                close(again.fd);
        }
        result = made(1, CODE * 9);
        origin.offset = 100;
        ds_known_add(known, &origin, -1, &result);
        cr_assert(!ds_known_find(known, &origin, NULL, &again), "a large one is not kept");
        close(result.fd);
        ds_known_free(known);
        cr_assert_eq(open_files(), before);
}

/* One image is loaded from very many files: what the helper remembers about these takes a bounded amount of memory. */
Test(known, places_are_bounded)
{
        struct ds_known_origin origin = origin_of(file, 1000);
        struct ds_check_result result, again;
        ds_known *known;
        int n = 0;

        cr_assert_eq(ds_known_new(CODE * 10, 5, &known), 0);
        for (int i = 0; i < 1000; i++) {
                result = made(1, CODE);
                origin.offset = (uint64_t)i;
                ds_known_add(known, &origin, -1, &result);
                close(result.fd);
        }
        for (int i = 0; i < 1000; i++) {
                origin.offset = (uint64_t)i;
                if (ds_known_find(known, &origin, NULL, &again)) {
                        n++;
                        close(again.fd);
                }
        }
        cr_assert_eq(n, 16);
        ds_known_free(known);
}

/* A sealed image is recognised by its bytes, whichever user brings it, and not by their hash alone. */
Test(known, sealed_files_are_compared)
{
        struct ds_known_origin a = {.bytes = CODE, .cc = 90, .uid = 1000}, b = a;
        struct ds_check_result input = made(5, CODE), result = made(6, CODE), again;
        uint8_t bytes[CODE], others[CODE];
        ds_known *known;

        memset(bytes, 5, sizeof(bytes));
        memset(others, 4, sizeof(others));
        cr_assert_eq(ds_known_new(CODE * 10, 4, &known), 0);
        ds_known_identify_bytes(known, bytes, &a);
        ds_known_add(known, &a, input.fd, &result);
        cr_assert_eq(ds_known_bytes(known), 2 * CODE);
        b.uid = 1001;
        ds_known_identify_bytes(known, bytes, &b);
        cr_assert(ds_known_find(known, &b, bytes, &again));
        cr_assert_eq(inode(again.fd), inode(result.fd));
        close(again.fd);
        cr_assert(!ds_known_find(known, &b, others, &again), "as if they had the same hash");
        cr_assert(!ds_known_find(known, &b, NULL, &again));
        for (int i = 10; i < 20; i++) {
                struct ds_check_result next = made(i, CODE), from = made(i + 100, CODE);

                memset(bytes, i + 100, sizeof(bytes));
                ds_known_identify_bytes(known, bytes, &b);
                ds_known_add(known, &b, from.fd, &next);
                cr_assert_leq(ds_known_bytes(known), 4 * CODE, "so many files");
                cr_assert(ds_known_find(known, &b, bytes, &again));
                close(again.fd);
                close(next.fd);
                close(from.fd);
        }
        close(input.fd);
        close(result.fd);
        ds_known_free(known);
        cr_assert_eq(fcntl(file, F_GETFD) >= 0, 1);
}
