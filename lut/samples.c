/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/samples.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define BLOCK_MAGIC 0x4b4c4253u
#define UNIT_BITS_MIN 5
#define FILE_MAX (UINT64_C(1) << 30)

struct head {
        char magic[8];
        uint32_t version, zero;
        struct ds_lut_about about;
        uint64_t sum; /* checksum of all previous fields */
};

/* A block is followed by its samples, four bytes each: unit << 8 | label */
struct block {
        uint32_t magic, n;
        uint64_t address;
        uint32_t run, zero;
        uint64_t sum; /* checksum of all previous fields and of the samples */
};

/* FNV-1a: the checksum detects truncated blocks, not malicious changes. */
static uint64_t add_sum(uint64_t sum, const void *bytes, size_t n)
{
        const uint8_t *at = bytes;

        for (size_t i = 0; i < n; i++)
                sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
        return sum;
}

static uint64_t sum_of(const void *bytes, size_t n)
{
        return add_sum(UINT64_C(0xcbf29ce484222325), bytes, n);
}

static int refuse(char *why, size_t size, const char *reason)
{
        snprintf(why, size, "%s", reason);
        return DS_LUT_SAMPLES_E_REFUSED;
}

static uint32_t units(const struct ds_lut_about *about)
{
        return 1u << (about->page_bits - about->unit_bits);
}

static bool plausible(const struct ds_lut_about *about)
{
        return about->page_bits == 21 && about->unit_bits >= UNIT_BITS_MIN && about->unit_bits < about->page_bits &&
               memchr(about->device, 0, sizeof(about->device)) && memchr(about->driver, 0, sizeof(about->driver));
}

static int check_head(const uint8_t *bytes, size_t n, struct ds_lut_about *ret, char *why, size_t size)
{
        struct head head;

        if (n < sizeof(head))
                return refuse(why, size, n ? "too short for samples" : "the file is empty");
        memcpy(&head, bytes, sizeof(head));
        if (memcmp(head.magic, DS_LUT_SAMPLES_MAGIC, sizeof(head.magic)) != 0)
                return refuse(why, size, "not a file of samples");
        if (head.version != DS_LUT_SAMPLES_VERSION)
                return refuse(why, size, "samples of another version");
        if (head.sum != sum_of(&head, offsetof(struct head, sum)) || !plausible(&head.about))
                return refuse(why, size, "its header is damaged");
        *ret = head.about;
        return 0;
}

/* Length of the block at the beginning of n bytes; 0: no complete block. */
static size_t check_block(const uint8_t *bytes, size_t n, const struct ds_lut_about *about, struct block *ret)
{
        size_t length;
        uint32_t entry;

        if (n < sizeof(*ret))
                return 0;
        memcpy(ret, bytes, sizeof(*ret));
        /* run numbers below UINT32_MAX only, so that the next run's number does not overflow */
        if (ret->magic != BLOCK_MAGIC || ret->n > units(about) || ret->run == UINT32_MAX ||
                ret->address & ((UINT64_C(1) << about->page_bits) - 1))
                return 0;
        length = sizeof(*ret) + (size_t)ret->n * sizeof(entry);
        if (length > n || ret->sum != add_sum(sum_of(ret, offsetof(struct block, sum)), bytes + sizeof(*ret),
                                              length - sizeof(*ret)))
                return 0;
        for (uint32_t i = 0; i < ret->n; i++) {
                memcpy(&entry, bytes + sizeof(*ret) + (size_t)i * sizeof(entry), sizeof(entry));
                if (entry >> 8 >= units(about))
                        return 0;
        }
        return length;
}

static int read_all(int fd, uint8_t **ret, size_t *ret_n)
{
        struct stat st;
        ssize_t got;
        size_t n = 0;

        if (fstat(fd, &st) < 0)
                return ds_error_origin(-errno);
        if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > FILE_MAX)
                return DS_LUT_SAMPLES_E_REFUSED;
        *ret = ds_alloc((size_t)st.st_size + 1);
        if (!*ret)
                return ds_error_origin(-ENOMEM);
        while (n < (size_t)st.st_size) {
                got = pread(fd, *ret + n, (size_t)st.st_size - n, (off_t)n);
                if (got < 0 && errno != EINTR)
                        return ds_error_origin(-errno);
                if (got == 0)
                        break;
                n += got > 0 ? (size_t)got : 0;
        }
        *ret_n = n;
        return 0;
}

static int keep_block(struct ds_lut_samples *samples, const struct block *block, const uint8_t *entries)
{
        struct ds_lut_block *at;
        uint32_t entry;

        if (!(samples->n_blocks & (samples->n_blocks - 1))) {
                at = ds_realloc(samples->blocks, DS_MAX(samples->n_blocks * 2, (size_t)1), sizeof(*at));
                if (!at)
                        return ds_error_origin(-ENOMEM);
                samples->blocks = at;
        }
        at = &samples->blocks[samples->n_blocks];
        *at = (struct ds_lut_block){.address = block->address, .run = block->run, .n = block->n};
        at->samples = ds_alloc0(block->n + 1, sizeof(*at->samples));
        if (!at->samples)
                return ds_error_origin(-ENOMEM);
        samples->n_blocks++;
        for (uint32_t i = 0; i < block->n; i++) {
                memcpy(&entry, entries + (size_t)i * sizeof(entry), sizeof(entry));
                at->samples[i] = (struct ds_lut_sample){entry >> 8, (uint8_t)entry};
        }
        samples->n_samples += block->n;
        samples->next_run = DS_MAX(samples->next_run, block->run + 1);
        return 0;
}

int ds_lut_samples_read(const char *path, struct ds_lut_samples **ret, char *why, size_t size)
{
        ds_cleanup(ds_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        ds_cleanup(ds_freep) uint8_t *bytes = NULL;
        struct ds_lut_samples *samples = NULL;
        size_t n = 0, at, length;
        struct block block;
        int r;

        *ret = NULL;
        if (fd < 0)
                return refuse(why, size, strerror(errno));
        r = read_all(fd, &bytes, &n);
        if (r)
                return r > 0 ? refuse(why, size, "not a regular file, or too large for samples") : r;
        samples = ds_alloc0(1, sizeof(*samples));
        if (!samples)
                return ds_error_origin(-ENOMEM);
        r = check_head(bytes, n, &samples->about, why, size);
        for (at = sizeof(struct head); !r && at < n; at += length) {
                length = check_block(bytes + at, n - at, &samples->about, &block);
                if (!length)
                        break;
                r = keep_block(samples, &block, bytes + at + sizeof(block));
        }
        if (r)
                samples = ds_lut_samples_free(samples);
        else
                samples->torn = n - at;
        *ret = samples;
        return r;
}

struct ds_lut_samples *ds_lut_samples_free(struct ds_lut_samples *samples)
{
        if (!samples)
                return NULL;
        for (size_t i = 0; i < samples->n_blocks; i++)
                ds_free(samples->blocks[i].samples);
        ds_free(samples->blocks);
        return ds_free(samples);
}

/* --- appending --- */

struct ds_lut_writer {
        int fd;
        struct ds_lut_about about;
};

static int write_all(int fd, const void *bytes, size_t n)
{
        const uint8_t *at = bytes;
        ssize_t put;

        while (n) {
                put = write(fd, at, n);
                if (put < 0 && errno == EINTR)
                        continue;
                if (put < 0)
                        return ds_error_origin(-errno);
                at += put;
                n -= (size_t)put;
        }
        return 0;
}

static int begin(int fd, const struct ds_lut_about *about)
{
        struct head head;

        memset(&head, 0, sizeof(head));
        memcpy(head.magic, DS_LUT_SAMPLES_MAGIC, sizeof(head.magic));
        head.version = DS_LUT_SAMPLES_VERSION;
        snprintf(head.about.device, sizeof(head.about.device), "%s", about->device);
        snprintf(head.about.driver, sizeof(head.about.driver), "%s", about->driver);
        head.about.source = about->source;
        head.about.unit_bits = about->unit_bits;
        head.about.page_bits = about->page_bits;
        head.about.bus_bits = about->bus_bits;
        head.sum = sum_of(&head, offsetof(struct head, sum));
        return write_all(fd, &head, sizeof(head));
}

static bool same(const struct ds_lut_about *a, const struct ds_lut_about *b)
{
        return strcmp(a->device, b->device) == 0 && strcmp(a->driver, b->driver) == 0 && a->source == b->source &&
               a->unit_bits == b->unit_bits && a->page_bits == b->page_bits && a->bus_bits == b->bus_bits;
}

/* Seeks to the end of the last complete block, to append. A file with an incomplete header counts as empty. */
static int go_on(int fd, const struct ds_lut_about *about, char *why, size_t size)
{
        ds_cleanup(ds_freep) uint8_t *bytes = NULL;
        size_t n = 0, at = sizeof(struct head), length;
        struct ds_lut_about was;
        struct block block;
        int r;

        r = read_all(fd, &bytes, &n);
        if (r)
                return r > 0 ? refuse(why, size, "not a regular file, or too large for samples") : r;
        if (n < sizeof(struct head) &&
                memcmp(bytes, DS_LUT_SAMPLES_MAGIC, DS_MIN(n, strlen(DS_LUT_SAMPLES_MAGIC))) == 0)
                return ftruncate(fd, 0) < 0 ? ds_error_origin(-errno) : begin(fd, about);
        r = check_head(bytes, n, &was, why, size);
        if (r)
                return r;
        if (!same(about, &was))
                return refuse(why, size, "its samples are of another device, driver or size");
        while (at < n && (length = check_block(bytes + at, n - at, &was, &block)))
                at += length;
        /* an interrupted write truncates at most one block; more bytes behind the complete blocks mean damage and
         * must not be removed */
        if (n - at > sizeof(block) + (size_t)units(&was) * sizeof(uint32_t))
                return refuse(why, size, "damaged in the middle, with more samples behind it");
        if (ftruncate(fd, (off_t)at) < 0 || lseek(fd, (off_t)at, SEEK_SET) < 0)
                return ds_error_origin(-errno);
        return 0;
}

int ds_lut_writer_open(
        const char *path, const struct ds_lut_about *about, struct ds_lut_writer **ret, char *why, size_t size)
{
        ds_cleanup(ds_closep) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
        struct ds_lut_writer *writer;
        int r;

        *ret = NULL;
        if (!plausible(about))
                return refuse(why, size, "invalid unit or page size");
        if (fd < 0)
                return refuse(why, size, strerror(errno));
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return refuse(why, size, "another program is writing to it");
        r = go_on(fd, about, why, size);
        if (r)
                return r;
        writer = ds_alloc0(1, sizeof(*writer));
        if (!writer)
                return ds_error_origin(-ENOMEM);
        *writer = (struct ds_lut_writer){.fd = DS_TAKE_FD(fd), .about = *about};
        *ret = writer;
        return 0;
}

int ds_lut_writer_put(struct ds_lut_writer *writer, const struct ds_lut_block *block)
{
        size_t length = sizeof(struct block) + (size_t)block->n * sizeof(uint32_t);
        ds_cleanup(ds_freep) uint8_t *bytes = ds_alloc(length);
        struct block head = {BLOCK_MAGIC, block->n, block->address, block->run, 0, 0};
        off_t at = lseek(writer->fd, 0, SEEK_CUR);
        uint32_t entry;

        if (!bytes)
                return ds_error_origin(-ENOMEM);
        if (at < 0 || length > FILE_MAX - DS_MIN((uint64_t)at, FILE_MAX))
                return ds_error_origin(at < 0 ? -errno : -EFBIG);
        if (block->n > units(&writer->about) || block->run == UINT32_MAX ||
                block->address & ((UINT64_C(1) << writer->about.page_bits) - 1))
                return ds_error_origin(-EINVAL);
        for (uint32_t i = 0; i < block->n; i++) {
                if (block->samples[i].unit >= units(&writer->about))
                        return ds_error_origin(-EINVAL);
                entry = block->samples[i].unit << 8 | block->samples[i].label;
                memcpy(bytes + sizeof(head) + (size_t)i * sizeof(entry), &entry, sizeof(entry));
        }
        head.sum = add_sum(sum_of(&head, offsetof(struct block, sum)), bytes + sizeof(head), length - sizeof(head));
        memcpy(bytes, &head, sizeof(head));
        return ds_error_trace(write_all(writer->fd, bytes, length));
}

int ds_lut_writer_close(struct ds_lut_writer *writer)
{
        int r = 0;

        if (!writer)
                return 0;
        if (fsync(writer->fd) < 0 && errno != EINVAL && errno != EROFS)
                r = ds_error_origin(-errno);
        ds_close(writer->fd);
        ds_free(writer);
        return r;
}
