/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of compiled code on disk: one directory per user, bounded in total. When it is full, the user with the most
 * bytes loses its least recently used file, also after a restart. A failed write is counted and has no other effect.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/code_store.h"
#include "util/alloc.h"
#include "util/code_file.h"
#include "util/macro.h"

#define CODE 10000u
#define USER 1000u
#define OTHER 1001u
#define FITS 8u /* number of files that fit into the store of this test */
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

static void put_for(ds_code_store *store, uid_t uid, int n, size_t size)
{
        int fd = memfd_create("test", MFD_CLOEXEC);
        uint8_t key[DS_SHA256_BYTES];

        key_of(n, key);
        cr_assert_eq(ftruncate(fd, (off_t)size), 0);
        ds_code_store_put(store, uid, key, fd, size);
        close(fd);
}

static void put(ds_code_store *store, int n, size_t size)
{
        put_for(store, USER, n, size);
}

static int there_for(ds_code_store *store, uid_t uid, int n)
{
        int directory = ds_code_store_directory(store, uid);
        uint8_t key[DS_SHA256_BYTES];
        void *code = NULL;
        size_t size;
        int r;

        key_of(n, key);
        r = ds_code_file_read(directory, key, geteuid(), DS_MIB(1), &code, &size);
        ds_close(directory);
        if (r == 0)
                ds_free(code);
        return r == 0;
}

static int there(ds_code_store *store, int n)
{
        return there_for(store, USER, n);
}

/* Waits until n files have been written or have failed. */
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
                ds_code_store_used(store, USER, first);
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
                usleep(20000); /* writes at least 20 ms apart need no finer file times to show their order */
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

/* One user's compiled code is invisible to another user, because a helper of the first could have forged it. */
Test(code_store, a_file_serves_its_user_only)
{
        ds_code_store *store = open_store();

        put_for(store, OTHER, 1, CODE);
        wait_for(store, 1);
        cr_assert(there_for(store, OTHER, 1));
        cr_assert(!there_for(store, USER, 1));
        put_for(store, USER, 1, CODE);
        cr_assert_eq(wait_for(store, 2).files, 2, "each has its own");
        ds_code_store_free(store);
        store = open_store();
        cr_assert(there_for(store, OTHER, 1) && there_for(store, USER, 1));
        cr_assert(!there_for(store, 10 * USER, 1));
        ds_code_store_free(store);
}

/* A user with many files evicts its own, not the few and older ones of another user. */
Test(code_store, the_user_with_most_evicts_its_own)
{
        ds_code_store *store = open_store();

        put_for(store, OTHER, 1, CODE);
        put_for(store, OTHER, 2, CODE);
        for (int i = 0; i < 40; i++) {
                put(store, i, CODE);
                wait_for(store, (uint64_t)i + 3);
        }
        cr_assert(there_for(store, OTHER, 1) && there_for(store, OTHER, 2));
        cr_assert(!there(store, 33) && there(store, 34) && there(store, 39));
        for (int i = 0; i < 40; i++) {
                put_for(store, OTHER, i, CODE);
                wait_for(store, (uint64_t)i + 43);
        }
        cr_assert(there(store, 36) && there(store, 39), "half is as good as theirs");
        cr_assert(!there_for(store, OTHER, 35) && there_for(store, OTHER, 36));
        ds_code_store_free(store);
}

static int mode_of(const char *below)
{
        char file[96];
        struct stat st;

        snprintf(file, sizeof(file), "%s/%s", path, below);
        return lstat(file, &st) == 0 ? (int)(st.st_mode & 07777) : -1;
}

/* A helper that holds a descriptor of its user's directory reads that user's files and reaches no other user's. */
static int helper_finds(ds_code_store *store)
{
        int directory = ds_code_store_directory(store, USER);
        struct stat st;

        if (directory < 0 || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
                return 1;
        if (!there(store, 1) && fstatat(directory, ".", &st, 0))
                return 2;
        return fstatat(directory, "../1001", &st, 0) == 0 ? 3 : 0;
}

Test(code_store, a_helper_finds_no_other_users_files)
{
        ds_code_store *store = open_store();
        int status = 0;
        pid_t pid;

        put(store, 1, CODE);
        put_for(store, OTHER, 2, CODE);
        wait_for(store, 2);
        cr_assert_eq(mode_of("code"), 0700);
        cr_assert_eq(mode_of("code/1000"), 0711);
        if (geteuid() != 0) {
                ds_code_store_free(store);
                skip_test("root, to become another user");
        }
        pid = fork();
        if (pid == 0)
                _exit(helper_finds(store));
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert_eq(status, 0, "%d", status >> 8);
        ds_code_store_free(store);
}

/* Removes the single file of the old format for all users, and empty directories. */
Test(code_store, files_of_the_old_format_are_removed)
{
        ds_code_store *store = open_store();
        char command[512];

        ds_code_store_free(store);
        snprintf(command, sizeof(command),
                "cd %s/code && chmod 711 . && mkdir 7 08 && echo >README && echo >$(printf '%%064d' 5).code", path);
        cr_assert_eq(system(command), 0);
        store = open_store();
        put(store, 1, CODE);
        cr_assert_eq(wait_for(store, 1).files, 1);
        cr_assert_eq(mode_of("code"), 0700);
        cr_assert_eq(mode_of("code/7"), -1);
        cr_assert_neq(mode_of("code/08"), -1, "not a user's");
        cr_assert_neq(mode_of("code/README"), -1);
        cr_assert_eq(mode_of("code/0000000000000000000000000000000000000000000000000000000000000005.code"), -1);
        ds_code_store_free(store);
}

/* If the directory disappears, code is not cached; nothing else fails. */
Test(code_store, a_missing_directory_disables_the_cache)
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
