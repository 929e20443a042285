/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pack's folder and its files
 *
 * A file name leads nowhere else: it is opened inside the folder, no link is followed, and only a regular file is read,
 * because a pipe or a device could block the reader. Bytes are hashed while they are handed on, in one pass. So the
 * checked bytes are the used ones, whoever writes the file meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/pack.h"
#include "util/alloc.h"
#include "util/macro.h"

#define PIECE ((size_t)1 << 20)

/* Returns a file descriptor, or -1; *ret_size is the file's length. */
static int open_file(int folder, const char *path, const char *name, uint64_t *ret_size, struct sv_why *why)
{
        ds_cleanup(ds_closep) int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
        struct stat st;

        if (fd < 0)
                return sv_fail(why, "%s/%s: %s", path, name,
                        errno == ELOOP ? "a link: a pack's files lie in its folder" : strerror(errno));
        if (fstat(fd, &st))
                return sv_fail(why, "%s/%s: %s", path, name, strerror(errno));
        if (!S_ISREG(st.st_mode))
                return sv_fail(why, "%s/%s is no regular file", path, name);
        *ret_size = (uint64_t)st.st_size;
        return DS_TAKE_FD(fd);
}

/* Reads up to size bytes, until the end of the file; -1 with errno. */
static ssize_t read_some(int fd, uint8_t *buffer, size_t size)
{
        size_t at = 0;

        while (at < size) {
                ssize_t n = read(fd, buffer + at, size - at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -1;
                if (n == 0)
                        break;
                at += (size_t)n;
        }
        return (ssize_t)at;
}

static int read_manifest(int folder, const char *path, char **ret, size_t *ret_size, struct sv_why *why)
{
        uint64_t size = 0;
        ds_cleanup(ds_closep) int fd = open_file(folder, path, SV_MANIFEST, &size, why);
        ds_cleanup(ds_freep) uint8_t *text = NULL;
        ssize_t n;

        if (fd < 0)
                return -1;
        if (size > SV_MANIFEST_MAX)
                return sv_fail(
                        why, "%s/%s has more than %llu bytes", path, SV_MANIFEST, (unsigned long long)SV_MANIFEST_MAX);
        text = ds_alloc(size);
        if (!text)
                return sv_fail(why, "%s/%s: out of memory", path, SV_MANIFEST);
        n = read_some(fd, text, size);
        if (n < 0)
                return sv_fail(why, "%s/%s: %s", path, SV_MANIFEST, strerror(errno));
        *ret_size = (size_t)n;
        *ret = (char *)DS_TAKE_PTR(text);
        return 0;
}

/* Checks that all files exist with their lengths, before any of them is used. */
static int check_files(const struct sv_pack *pack, struct sv_why *why)
{
        for (uint32_t i = 0; i < pack->n_files; i++) {
                uint64_t size;
                int fd = open_file(pack->folder, pack->path, pack->files[i].name, &size, why);

                if (fd < 0)
                        return -1;
                (void)ds_close(fd);
                if (size != pack->files[i].bytes)
                        return sv_fail(why, "%s/%s has %llu bytes, and %s says %llu", pack->path, pack->files[i].name,
                                (unsigned long long)size, SV_MANIFEST, (unsigned long long)pack->files[i].bytes);
        }
        return 0;
}

int sv_pack_open(const char *path, struct sv_pack **ret, struct sv_why *why)
{
        ds_cleanup(ds_closep) int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ds_cleanup(sv_pack_freep) struct sv_pack *pack = NULL;
        ds_cleanup(ds_freep) char *text = NULL;
        char name[SV_WHY_MAX / 2];
        size_t size = 0;

        if (folder < 0)
                return sv_fail(why, "%s: %s", path, errno == ENOTDIR ? "a pack is a folder" : strerror(errno));
        (void)snprintf(name, sizeof(name), "%s/%s", path, SV_MANIFEST);
        if (read_manifest(folder, path, &text, &size, why) || sv_pack_parse(text, size, name, &pack, why))
                return -1;
        pack->path = ds_strdup(path);
        if (!pack->path)
                return sv_fail(why, "%s: out of memory", path);
        pack->folder = DS_TAKE_FD(folder);
        if (check_files(pack, why))
                return -1;
        *ret = DS_TAKE_PTR(pack);
        return 0;
}

/* --- contents ----------------------------------------------------------------------------------------------------- */

static int wrong_bytes(const struct sv_pack *pack, const struct sv_file *file, struct sv_why *why)
{
        return sv_fail(why, "%s/%s is not what %s says: its SHA-256 is another", pack->path, file->name, SV_MANIFEST);
}

static int hand_on(const struct sv_pack *pack, const struct sv_file *file, int fd, uint8_t *piece, sv_take take,
        void *user, struct ds_sha256 *sum, struct sv_why *why)
{
        for (uint64_t at = 0; at < file->bytes;) {
                size_t want = (size_t)DS_MIN(file->bytes - at, (uint64_t)PIECE);
                ssize_t n = read_some(fd, piece, want);

                if (n < 0)
                        return sv_fail(why, "%s/%s: %s", pack->path, file->name, strerror(errno));
                if ((size_t)n != want)
                        return sv_fail(why, "%s/%s became shorter", pack->path, file->name);
                if (!pack->trusted)
                        ds_sha256_add(sum, piece, want);
                if (take(user, piece, want, why))
                        return -1;
                at += want;
        }
        return 0;
}

int sv_pack_read(const struct sv_pack *pack, uint32_t i, sv_take take, void *user, struct sv_why *why)
{
        const struct sv_file *file = &pack->files[i];
        uint64_t size = 0;
        ds_cleanup(ds_closep) int fd = open_file(pack->folder, pack->path, file->name, &size, why);
        ds_cleanup(ds_freep) uint8_t *piece = NULL;
        uint8_t sha256[DS_SHA256_BYTES];
        struct ds_sha256 sum;

        if (fd < 0)
                return -1;
        piece = ds_alloc(PIECE);
        if (!piece)
                return sv_fail(why, "%s/%s: out of memory", pack->path, file->name);
        ds_sha256_begin(&sum);
        if (hand_on(pack, file, fd, piece, take, user, &sum, why))
                return -1;
        ds_sha256_end(&sum, sha256);
        if (!pack->trusted && memcmp(sha256, file->sha256, sizeof(sha256)) != 0)
                return wrong_bytes(pack, file, why);
        return 0;
}

static int append(void *user, const void *bytes, size_t size, struct sv_why *why)
{
        uint8_t **at = user;

        memcpy(*at, bytes, size);
        *at += size;
        return 0;
}

int sv_pack_load(const struct sv_pack *pack, uint32_t file, uint8_t **ret, struct sv_why *why)
{
        ds_cleanup(ds_freep) uint8_t *bytes = ds_alloc(pack->files[file].bytes + 1);
        uint8_t *at = bytes;

        if (!bytes)
                return sv_fail(why, "%s/%s: out of memory", pack->path, pack->files[file].name);
        if (sv_pack_read(pack, file, append, &at, why))
                return -1;
        *at = 0;
        *ret = DS_TAKE_PTR(bytes);
        return 0;
}

static int ignore(void *user, const void *bytes, size_t size, struct sv_why *why)
{
        return 0;
}

int sv_pack_verify(const struct sv_pack *pack, struct sv_why *why)
{
        for (uint32_t i = 0; i < pack->n_files; i++)
                if (sv_pack_read(pack, i, ignore, NULL, why))
                        return -1;
        return 0;
}
