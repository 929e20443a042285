/* SPDX-License-Identifier: Apache-2.0 */
#include "util/code_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/macro.h"

#define SUFFIX ".code"
#define DIGITS ((size_t)2 * DS_SHA256_BYTES)

static const char magic[8] = "DSCODE1";

struct header {
        char magic[8];
        uint64_t size; /* size of the code that follows the header, bytes */
        uint8_t key[DS_SHA256_BYTES], sum[DS_SHA256_BYTES];
};

_Static_assert(sizeof(struct header) == DS_CODE_FILE_HEADER, "a file's header has padding");

void ds_code_file_name(const uint8_t key[static DS_SHA256_BYTES], char ret[static DS_CODE_NAME_MAX])
{
        for (size_t i = 0; i < DS_SHA256_BYTES; i++)
                snprintf(ret + 2 * i, 3, "%02x", key[i]);
        snprintf(ret + DIGITS, sizeof(SUFFIX), SUFFIX);
}

int ds_code_file_is_name(const char *name)
{
        return strspn(name, "0123456789abcdef") == DIGITS && !strcmp(name + DIGITS, SUFFIX);
}

static int read_all(int fd, void *bytes, size_t size)
{
        size_t got = 0;

        while (got < size) {
                ssize_t n = read(fd, (uint8_t *)bytes + got, size - got);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return DS_CODE_FILE_E_DAMAGED;
                got += (size_t)n;
        }
        return 0;
}

static void sum_of(const void *code, size_t size, uint8_t ret[static DS_SHA256_BYTES])
{
        struct ds_sha256 sum;

        ds_sha256_begin(&sum);
        ds_sha256_add(&sum, code, size);
        ds_sha256_end(&sum, ret);
}

/* Reads the header. Checks that only the owner can have written the file, and that the file's size is as in the
 * header. */
static int header_read(int fd, const uint8_t *key, uint32_t owner, uint64_t max, struct header *ret)
{
        struct stat st;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_uid != 0 && st.st_uid != owner) ||
                st.st_mode & (S_IWGRP | S_IWOTH))
                return DS_CODE_FILE_E_DAMAGED;
        if (read_all(fd, ret, sizeof(*ret)) || memcmp(ret->magic, magic, sizeof(magic)) ||
                memcmp(ret->key, key, DS_SHA256_BYTES))
                return DS_CODE_FILE_E_DAMAGED;
        return !ret->size || ret->size > max || (uint64_t)st.st_size != sizeof(*ret) + ret->size
                       ? DS_CODE_FILE_E_DAMAGED
                       : 0;
}

int ds_code_file_read(int directory, const uint8_t key[static DS_SHA256_BYTES], uint32_t owner, uint64_t max,
        void **ret_code, size_t *ret_size)
{
        char name[DS_CODE_NAME_MAX];
        ds_cleanup(ds_closep) int fd = -1;
        ds_cleanup(ds_freep) void *code = NULL;
        uint8_t sum[DS_SHA256_BYTES];
        struct header header;
        int r;

        ds_code_file_name(key, name);
        fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0)
                return errno == ELOOP ? DS_CODE_FILE_E_DAMAGED : DS_CODE_FILE_E_NONE;
        r = header_read(fd, key, owner, max, &header);
        if (r)
                return r;
        code = ds_alloc(header.size);
        if (!code)
                return ds_error_origin(-ENOMEM);
        r = read_all(fd, code, header.size);
        if (r)
                return r;
        sum_of(code, header.size, sum);
        if (memcmp(sum, header.sum, sizeof(sum)))
                return DS_CODE_FILE_E_DAMAGED;
        *ret_code = DS_TAKE_PTR(code);
        *ret_size = header.size;
        return 0;
}

static int file_fill(int fd, const struct header *header, const void *code)
{
        int r = fchmod(fd, 0644) < 0 ? -errno : 0;

        if (!r)
                r = ds_write_all(fd, header, sizeof(*header));
        return r ? r : ds_write_all(fd, code, header->size);
}

/* Writes the file under a temporary name and then renames it. */
static int file_put(int directory, const char *name, const struct header *header, const void *code)
{
        char beside[DS_CODE_NAME_MAX + 8];
        ds_cleanup(ds_closep) int fd = -1;
        int r;

        snprintf(beside, sizeof(beside), "new.%s", name);
        (void)unlinkat(directory, beside, 0);
        fd = openat(directory, beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return -errno;
        r = file_fill(fd, header, code);
        if (!r && renameat(directory, beside, directory, name) < 0)
                r = -errno;
        if (r)
                (void)unlinkat(directory, beside, 0);
        return r;
}

int ds_code_file_write(
        int directory, const uint8_t key[static DS_SHA256_BYTES], int code, uint64_t size, uint64_t *ret_bytes)
{
        void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, code, 0);
        struct header header = {.size = size};
        char name[DS_CODE_NAME_MAX];
        int r;

        if (bytes == MAP_FAILED)
                return -errno;
        memcpy(header.magic, magic, sizeof(magic));
        memcpy(header.key, key, DS_SHA256_BYTES);
        sum_of(bytes, size, header.sum);
        ds_code_file_name(key, name);
        r = file_put(directory, name, &header, bytes);
        munmap(bytes, size);
        if (!r)
                *ret_bytes = sizeof(header) + size;
        return r;
}
