/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 by the standard's examples. Files of compiled code: the reader returns what was written, and refuses any
 * other content of the file.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/code_file.h"

#define CODE_BYTES 5000u
#define MAX 100000u

static char path[64];
static int directory = -1;
static uint8_t key[DS_SHA256_BYTES], code[CODE_BYTES];

static void setup(void)
{
        snprintf(path, sizeof(path), "/tmp/detshare-code.XXXXXX");
        cr_assert_not_null(mkdtemp(path));
        directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; i < sizeof(code); i++)
                code[i] = (uint8_t)(i * 7);
        for (size_t i = 0; i < sizeof(key); i++)
                key[i] = (uint8_t)(i * 11);
}

static void teardown(void)
{
        char command[128];

        close(directory);
        snprintf(command, sizeof(command), "rm -rf %s", path);
        cr_assert_eq(system(command), 0);
}

TestSuite(code_file, .init = setup, .fini = teardown);

static void sum_of(const char *text, size_t times, char hex[static 65])
{
        uint8_t sum[DS_SHA256_BYTES];
        struct ds_sha256 state;

        ds_sha256_begin(&state);
        for (size_t i = 0; i < times; i++)
                ds_sha256_add(&state, text, strlen(text));
        ds_sha256_end(&state, sum);
        for (size_t i = 0; i < sizeof(sum); i++)
                snprintf(hex + 2 * i, 3, "%02x", sum[i]);
}

Test(sha256, the_standards_examples)
{
        static const struct {
                const char *text;
                size_t times;
                const char *sum;
        } rows[] = {
                {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
                {"aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
        };
        char hex[65];

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                sum_of(rows[i].text, rows[i].times, hex);
                cr_assert_str_eq(hex, rows[i].sum);
        }
}

static void put(void)
{
        int fd = memfd_create("test", MFD_CLOEXEC);
        uint64_t bytes = 0;

        cr_assert_eq(write(fd, code, sizeof(code)), (ssize_t)sizeof(code));
        cr_assert_eq(ds_code_file_write(directory, key, fd, sizeof(code), &bytes), 0);
        cr_assert_eq(bytes, sizeof(code) + DS_CODE_FILE_HEADER);
        close(fd);
}

static int get(void)
{
        void *back = NULL;
        size_t size = 0;
        int r = ds_code_file_read(directory, key, geteuid(), MAX, &back, &size);

        if (r == 0) {
                cr_assert_eq(size, sizeof(code));
                cr_assert_eq(memcmp(back, code, size), 0);
                ds_free(back);
        }
        return r;
}

static int file_of(int flags)
{
        char name[DS_CODE_NAME_MAX];
        int fd;

        ds_code_file_name(key, name);
        cr_assert(ds_code_file_is_name(name));
        fd = openat(directory, name, flags | O_CLOEXEC, 0644);
        cr_assert_geq(fd, 0);
        return fd;
}

Test(code_file, what_was_written_comes_back)
{
        cr_assert_eq(get(), DS_CODE_FILE_E_NONE);
        put();
        cr_assert_eq(get(), 0);
        put();
        cr_assert_eq(get(), 0, "written again");
        key[3] ^= 1;
        cr_assert_eq(get(), DS_CODE_FILE_E_NONE);
}

Test(code_file, every_damaged_byte_is_seen)
{
        uint8_t byte;

        put();
        for (off_t at = 0; at < (off_t)(CODE_BYTES + DS_CODE_FILE_HEADER); at += at < 100 ? 1 : 331) {
                int fd = file_of(O_RDWR);

                cr_assert_eq(pread(fd, &byte, 1, at), 1);
                byte ^= 0x10;
                cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
                cr_assert_eq(get(), DS_CODE_FILE_E_DAMAGED, "byte %lld", (long long)at);
                byte ^= 0x10;
                cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
                close(fd);
        }
        cr_assert_eq(get(), 0);
}

Test(code_file, one_that_is_cut_off_or_longer_is_damaged)
{
        int fd;

        put();
        fd = file_of(O_RDWR);
        cr_assert_eq(ftruncate(fd, CODE_BYTES), 0);
        cr_assert_eq(get(), DS_CODE_FILE_E_DAMAGED);
        cr_assert_eq(ftruncate(fd, 10), 0);
        cr_assert_eq(get(), DS_CODE_FILE_E_DAMAGED);
        cr_assert_eq(ftruncate(fd, 0), 0);
        cr_assert_eq(get(), DS_CODE_FILE_E_DAMAGED);
        close(fd);
        put();
        fd = file_of(O_WRONLY | O_APPEND);
        cr_assert_eq(write(fd, "x", 1), 1);
        cr_assert_eq(get(), DS_CODE_FILE_E_DAMAGED);
        close(fd);
}

Test(code_file, what_others_may_write_is_not_believed)
{
        char name[DS_CODE_NAME_MAX];
        int fd;

        put();
        fd = file_of(O_RDONLY);
        cr_assert_eq(fchmod(fd, 0664), 0);
        cr_assert_eq(get(), DS_CODE_FILE_E_DAMAGED);
        close(fd);
        ds_code_file_name(key, name);
        cr_assert_eq(unlinkat(directory, name, 0), 0);
        cr_assert_eq(symlinkat("/etc/passwd", directory, name), 0);
        cr_assert_eq(get(), DS_CODE_FILE_E_DAMAGED);
        cr_assert_eq(unlinkat(directory, name, 0), 0);
        cr_assert_eq(mkdirat(directory, name, 0700), 0);
        cr_assert_eq(get(), DS_CODE_FILE_E_DAMAGED);
        cr_assert_eq(unlinkat(directory, name, AT_REMOVEDIR), 0);
        cr_assert_eq(mkfifoat(directory, name, 0600), 0);
        cr_assert_eq(get(), DS_CODE_FILE_E_DAMAGED);
}

Test(code_file, names)
{
        cr_assert(!ds_code_file_is_name("x.code"));
        cr_assert(!ds_code_file_is_name(""));
        cr_assert(!ds_code_file_is_name("new.0123"));
}
