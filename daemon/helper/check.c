/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking an image
 *
 * The file belongs to a client, who may change or shrink it at any time, so it is copied first, with reads that
 * end where the file ends, and never mapped. Everything after that looks at the copy. The PTX that this device would
 * take is unpacked and parsed; what comes out is exactly the text that was parsed, in a memory file that nobody can
 * change. That the device can execute every instruction is found when the worker loads it.
 */
#include "helper/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "image/image.h"
#include "ptx/ptx.h"
#include "util/alloc.h"
#include "util/macro.h"

/* CUresult */
#define CHECK_INVALID_VALUE 1
#define CHECK_OUT_OF_MEMORY 2
#define CHECK_INVALID_IMAGE 200
#define CHECK_NO_BINARY 209
#define CHECK_INVALID_PTX 218

static void check_fail(struct ds_check_result *result, int status, const char *fmt, ...) ds_printf(3, 4);

static void check_fail(struct ds_check_result *result, int status, const char *fmt, ...)
{
        va_list args;

        result->status = status;
        va_start(args, fmt);
        vsnprintf(result->message, sizeof(result->message), fmt, args);
        va_end(args);
}

/* The file's bytes, or NULL with the result filled. */
static uint8_t *check_copy(int fd, uint64_t bytes, struct ds_check_result *result)
{
        ds_cleanup(ds_freep) uint8_t *copy = NULL;
        uint64_t got = 0;
        struct stat st;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
                check_fail(result, CHECK_INVALID_VALUE, "the image's file descriptor is not a regular or memory file");
                return NULL;
        }
        if (!bytes || bytes > DS_CHECK_IMAGE_MAX) {
                check_fail(result, CHECK_INVALID_VALUE, "an image of %llu bytes: it must have 1 to %llu",
                        (unsigned long long)bytes, (unsigned long long)DS_CHECK_IMAGE_MAX);
                return NULL;
        }
        copy = ds_alloc(bytes);
        if (!copy) {
                check_fail(
                        result, CHECK_OUT_OF_MEMORY, "no memory for an image of %llu bytes", (unsigned long long)bytes);
                return NULL;
        }
        while (got < bytes) {
                ssize_t n = pread(fd, copy + got, bytes - got, (off_t)got);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        check_fail(result, CHECK_INVALID_VALUE, "the image's file has %llu bytes, %llu were announced",
                                (unsigned long long)got, (unsigned long long)bytes);
                        return NULL;
                }
                got += (uint64_t)n;
        }
        return DS_TAKE_PTR(copy);
}

/* A memory file with these bytes, sealed against everything; -1 and the result filled. */
static int check_seal(const void *bytes, size_t size, struct ds_check_result *result)
{
        ds_cleanup(ds_closep) int fd = memfd_create("detshare-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        size_t done = 0;

        while (fd >= 0 && done < size) {
                ssize_t n = write(fd, (const uint8_t *)bytes + done, size - done);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        break;
                done += (size_t)n;
        }
        if (fd < 0 || done < size ||
                fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
                check_fail(result, CHECK_OUT_OF_MEMORY, "no memory file for the checked image: %s", strerror(errno));
                return -1;
        }
        return DS_TAKE_FD(fd);
}

static int check_parse(const char *text, size_t length, struct ds_check_result *result)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_freep) struct ds_ptx_diags *diags = ds_alloc0(1, sizeof(*diags));
        int r = diags ? ds_ptx_parse(text, length, 0, diags, &module) : -ENOMEM;

        if (r == 0)
                return 0;
        if (r < 0) {
                check_fail(result, CHECK_OUT_OF_MEMORY, "the module is too large to be parsed");
                return r;
        }
        result->status = CHECK_INVALID_PTX;
        ds_ptx_diags_format(diags, "ptx", result->message, sizeof(result->message));
        return r;
}

/* The text of the PTX that this device takes, or NULL with the result filled. */
static char *check_unpack(
        const uint8_t *bytes, size_t size, uint32_t cc, int any, struct ds_check_result *result, size_t *ret_length)
{
        ds_cleanup(ds_image_freep) ds_image *image = NULL;
        size_t index;
        char *text;
        int r;

        r = ds_image_open(bytes, size, result->message, sizeof(result->message), &image);
        if (r == 0 && ds_image_choose_ptx(image, cc, any, &index) < 0) {
                check_fail(result, CHECK_NO_BINARY, "the image holds no PTX for sm_%u: %zu entries, none usable", cc,
                        ds_image_count(image));
                return NULL;
        }
        if (r == 0)
                r = ds_image_ptx(image, index, result->message, sizeof(result->message), &text, ret_length);
        if (r == 0)
                return text;
        result->status = r < 0 ? CHECK_OUT_OF_MEMORY : CHECK_INVALID_IMAGE;
        if (r < 0)
                snprintf(result->message, sizeof(result->message), "no memory to unpack the image");
        return NULL;
}

void ds_check_image(int fd, uint64_t bytes, uint32_t cc, int any, struct ds_check_result *result)
{
        ds_cleanup(ds_freep) uint8_t *copy = NULL;
        ds_cleanup(ds_freep) char *text = NULL;
        size_t length;

        result->status = 0;
        result->fd = -1;
        result->bytes = result->hash = 0;
        result->message[0] = 0;
        copy = check_copy(fd, bytes, result);
        if (!copy)
                return;
        text = check_unpack(copy, bytes, cc, any, result, &length);
        if (!text || check_parse(text, length, result) != 0)
                return;
        result->fd = check_seal(text, length, result);
        result->bytes = length;
        result->hash = XXH3_64bits(text, length);
}
