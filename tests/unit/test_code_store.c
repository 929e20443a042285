/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled code on disk: bounded, the one that was used the longest ago goes first, also over a restart; what cannot be
 * written is counted and nothing else
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/code_store.h"
#include "util/alloc.h"
#include "util/code_file.h"
#include "util/macro.h"

#define CODE 10000u
#define FITS 8u /* files in a store of this test's */
#define MAX_BYTES (FITS * (CODE + DS_CODE_FILE_HEADER))

static char path[64];

static void setup(void)
{
        snprintf(path, sizeof(path), "/tmp/detshare-store.XXXXXX");
        cr_assert_not_null(mkdtemp(path));
}

static void teardown(void)
{
        char command[128];

        snprintf(command, sizeof(command), "rm -rf %s", path);
        cr_assert_eq(system(command), 0);
}

TestSuite(code_store, .init = setup, .fini = teardown);

static ds_code_store *open_store(void)
{
        ds_code_store *store;

        cr_assert_eq(ds_code_store_new(path, MAX_BYTES, &store), 0);
        cr_assert_not_null(store);
        return store;
}

static void key_of(int n, uint8_t key[static DS_SHA256_BYTES])
{
        memset(key, n, DS_SHA256_BYTES);
}

static void put(ds_code_store *store, int n, size_t size)
{
        int fd = memfd_create("test", MFD_CLOEXEC);
        uint8_t key[DS_SHA256_BYTES];

        key_of(n, key);
        cr_assert_eq(ftruncate(fd, (off_t)size), 0);
        ds_code_store_put(store, key, fd, size);
        close(fd);
}

static int there(ds_code_store *store, int n)
{
        uint8_t key[DS_SHA256_BYTES];
        void *code = NULL;
        size_t size;
        int r;

        key_of(n, key);
        r = ds_code_file_read(ds_code_store_directory(store), key, geteuid(), DS_MIB(1), &code, &size);
        if (r == 0)
                ds_free(code);
        return r == 0;
}

/* Until so many have been written or have failed. */
static struct ds_code_figures wait_for(ds_code_store *store, uint64_t n)
{
        struct ds_code_figures figures;

        do {
                ds_code_store_figures(store, &figures);
                usleep(1000);
        } while (figures.written + figures.failed < n);
        return figures;
}

Test(code_store, the_least_used_goes_when_there_are_too_many)
{
        ds_code_store *store = open_store();
        struct ds_code_figures figures;
        uint8_t first[DS_SHA256_BYTES];

        key_of(0, first);
        for (int i = 0; i < 30; i++) {
                put(store, i, CODE);
                ds_code_store_used(store, first);
                figures = wait_for(store, (uint64_t)i + 1);
                cr_assert_leq(figures.bytes, MAX_BYTES);
        }
        store = ds_code_store_free(store);
        store = open_store();
        cr_assert(there(store, 0), "it was always used");
        cr_assert(there(store, 29) && there(store, 23));
        cr_assert(!there(store, 1) && !there(store, 20));
        ds_code_store_free(store);
}

Test(code_store, what_was_there_counts_after_a_restart)
{
        ds_code_store *store = open_store();
        struct ds_code_figures figures;

        for (int i = 0; i < (int)FITS; i++) {
                put(store, i, CODE);
                wait_for(store, (uint64_t)i + 1);
                usleep(20000); /* times of files need not be finer */
        }
        ds_code_store_free(store);
        store = open_store();
        put(store, 100, CODE);
        figures = wait_for(store, 1);
        cr_assert_eq(figures.files, FITS);
        cr_assert(!there(store, 0), "the oldest");
        for (int i = 1; i < (int)FITS; i++)
                cr_assert(there(store, i), "%d", i);
        cr_assert(there(store, 100));
        ds_code_store_free(store);
}

Test(code_store, what_waits_is_written_before_the_end)
{
        ds_code_store *store = open_store();

        for (int i = 0; i < 5; i++)
                put(store, i, CODE);
        ds_code_store_free(store);
        store = open_store();
        for (int i = 0; i < 5; i++)
                cr_assert(there(store, i), "%d", i);
        ds_code_store_free(store);
}

Test(code_store, large_ones_are_not_kept)
{
        ds_code_store *store = open_store();

        put(store, 1, MAX_BYTES / 2);
        put(store, 2, CODE);
        cr_assert_eq(wait_for(store, 1).files, 1);
        cr_assert(!there(store, 1) && there(store, 2));
        ds_code_store_free(store);
}

/* Whatever happens to the directory is no more than code that is not kept. */
Test(code_store, a_directory_that_goes_away)
{
        ds_code_store *store = open_store();
        struct ds_code_figures figures;
        char command[128];

        put(store, 1, CODE);
        wait_for(store, 1);
        snprintf(command, sizeof(command), "rm -rf %s/code", path);
        cr_assert_eq(system(command), 0);
        put(store, 2, CODE);
        figures = wait_for(store, 2);
        cr_assert_eq(figures.failed, 1);
        cr_assert(!there(store, 1) && !there(store, 2));
        ds_code_store_free(store);
}

Test(code_store, directories_that_are_refused)
{
        char file[96];
        ds_code_store *store;
        int fd;

        cr_assert_eq(chmod(path, 0777), 0);
        cr_assert_eq(ds_code_store_new(path, 0, &store), 0);
        cr_assert_null(store, "everybody may write there");
        cr_assert_eq(chmod(path, 0700), 0);
        snprintf(file, sizeof(file), "%s/code", path);
        cr_assert_eq(symlink("/tmp", file), 0);
        cr_assert_eq(ds_code_store_new(path, 0, &store), 0);
        cr_assert_null(store, "a link");
        cr_assert_eq(unlink(file), 0);
        fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        close(fd);
        cr_assert_eq(ds_code_store_new(path, 0, &store), 0);
        cr_assert_null(store, "a file");
        cr_assert_eq(ds_code_store_new(file, 0, &store), 0);
        cr_assert_null(store, "a file is the state directory");
        cr_assert_eq(ds_code_store_new("/nonexistent/a/b", 0, &store), 0);
        cr_assert_null(store);
        cr_assert_null(ds_code_store_free(NULL));
}

Test(code_store, the_second_one_only_reads)
{
        ds_code_store *first = open_store(), *second = open_store();
        struct ds_code_figures figures;

        put(first, 1, CODE);
        wait_for(first, 1);
        cr_assert(there(second, 1));
        put(second, 2, CODE);
        ds_code_store_free(second);
        cr_assert(!there(first, 2));
        ds_code_store_figures(first, &figures);
        cr_assert_eq(figures.files, 1);
        ds_code_store_free(first);
}
