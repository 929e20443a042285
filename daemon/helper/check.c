/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking of an image
 *
 * The file belongs to a client, which may change or truncate it at any time. So it is first copied, with reads that
 * stop at its end, and never mapped; all later steps use the copy. For a simulated device the PTX that it would select
 * is unpacked and parsed. The result is exactly the parsed text, in a memory file that nobody can change. Whether the
 * device can execute every instruction is checked when the worker loads it.
 *
 * For a real GPU matching machine code in the image is used, and only its headers are read: the driver validates it.
 * Without matching machine code the image's PTX is passed to the compiler.
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

#include "helper/coloured.h"
#include "image/cubin.h"
#include "image/image.h"
#include "ptx/ptx.h"
#include "util/alloc.h"
#include "util/forms_file.h"
#include "util/macro.h"

void ds_check_fail(struct ds_check_result *result, int status, const char *fmt, ...)
{
        va_list args;

        result->status = status;
        va_start(args, fmt);
        vsnprintf(result->message, sizeof(result->message), fmt, args);
        va_end(args);
}

void *ds_check_map(int fd, uint64_t offset, uint64_t bytes)
{
        const int want = F_SEAL_WRITE | F_SEAL_SHRINK, seals = fcntl(fd, F_GET_SEALS);
        struct stat st;
        void *p;

        if (seals < 0 || (seals & want) != want || offset || !bytes || bytes > DS_CHECK_IMAGE_MAX)
                return NULL;
        /* a file with huge pages or holes is refused: reading it may need memory that is not there, and SIGBUS would
         * end this process */
        if (fstat(fd, &st) < 0 || st.st_blksize != sysconf(_SC_PAGESIZE) || (uint64_t)st.st_size < bytes ||
                (uint64_t)st.st_blocks * 512 < bytes)
                return NULL;
        p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
        return p == MAP_FAILED ? NULL : p;
}

/* Copies the file's bytes. Returns the copy; NULL: *result holds the error. */
static uint8_t *check_copy(const struct ds_check_source *source, struct ds_check_result *result)
{
        ds_cleanup(ds_freep) uint8_t *copy = NULL;
        uint64_t bytes = source->bytes, got = 0;
        struct stat st;

        if (fstat(source->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
                ds_check_fail(
                        result, DS_CHECK_INVALID_VALUE, "the image's file descriptor is not a regular or memory file");
                return NULL;
        }
        if (!bytes || bytes > DS_CHECK_IMAGE_MAX) {
                ds_check_fail(result, DS_CHECK_INVALID_VALUE, "the image has %llu bytes; 1 to %llu are accepted",
                        (unsigned long long)bytes, (unsigned long long)DS_CHECK_IMAGE_MAX);
                return NULL;
        }
        if (source->offset > INT64_MAX - bytes) {
                ds_check_fail(result, DS_CHECK_INVALID_VALUE, "the image's offset %llu is beyond the largest file",
                        (unsigned long long)source->offset);
                return NULL;
        }
        copy = ds_alloc(bytes);
        if (!copy) {
                ds_check_fail(result, DS_CHECK_OUT_OF_MEMORY, "no memory for an image of %llu bytes",
                        (unsigned long long)bytes);
                return NULL;
        }
        while (got < bytes) {
                ssize_t n = pread(source->fd, copy + got, bytes - got, (off_t)(source->offset + got));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        ds_check_fail(result, DS_CHECK_INVALID_VALUE,
                                "the image's file has only %llu bytes from offset %llu on; the image has %llu",
                                (unsigned long long)got, (unsigned long long)source->offset, (unsigned long long)bytes);
                        return NULL;
                }
                got += (uint64_t)n;
        }
        return DS_TAKE_PTR(copy);
}

/* Creates a memory file with these bytes and all seals. Returns its descriptor; -1: *result holds the error. */
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
                ds_check_fail(result, DS_CHECK_OUT_OF_MEMORY,
                        "a memory file for the checked image could not be created: %s", strerror(errno));
                return -1;
        }
        return DS_TAKE_FD(fd);
}

static int check_parse(const char *text, size_t length, struct ds_check_result *result)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_freep) struct ds_ptx_diags *diags = ds_alloc0(1, sizeof(*diags));
        int r = diags ? ds_ptx_parse(text, length, 0, diags, &module) : -ENOMEM;

        if (r == 0) {
                result->variable_bytes = ds_ptx_variable_bytes(module);
                return 0;
        }
        if (r < 0) {
                ds_check_fail(result, DS_CHECK_OUT_OF_MEMORY, "the module is too large to be parsed");
                return r;
        }
        result->status = DS_CHECK_INVALID_PTX;
        ds_ptx_diags_format(diags, "ptx", result->message, sizeof(result->message));
        return r;
}

static void check_unpack_failed(int r, struct ds_check_result *result)
{
        result->status = r < 0 ? DS_CHECK_OUT_OF_MEMORY : DS_CHECK_INVALID_IMAGE;
        if (r < 0)
                snprintf(result->message, sizeof(result->message), "no memory to unpack the image");
}

/* Decompresses the PTX that this device selects. Returns its text; NULL: *result holds the error. */
static char *check_unpack(
        const uint8_t *bytes, size_t size, uint32_t cc, int any, struct ds_check_result *result, size_t *ret_length)
{
        ds_cleanup(ds_image_freep) ds_image *image = NULL;
        size_t index;
        char *text;
        int r;

        r = ds_image_open(bytes, size, result->message, sizeof(result->message), &image);
        if (r == 0 && ds_image_choose_ptx(image, cc, any, &index) < 0) {
                ds_check_fail(result, DS_CHECK_NO_BINARY, "the image holds no PTX for sm_%u: %zu entries, none usable",
                        cc, ds_image_count(image));
                return NULL;
        }
        if (r == 0)
                r = ds_image_ptx(image, index, result->message, sizeof(result->message), &text, ret_length);
        if (r == 0)
                return text;
        check_unpack_failed(r, result);
        return NULL;
}

static void check_begin(struct ds_check_result *result)
{
        result->status = 0;
        result->fd = -1;
        result->bytes = result->report_bytes = result->hash = result->variable_bytes = 0;
        result->origin = DS_CHECK_READ;
        result->damaged = result->no_ptx = 0;
        result->message[0] = 0;
}

static void check_finish(const void *bytes, size_t size, struct ds_check_result *result)
{
        result->fd = check_seal(bytes, size, result);
        result->bytes = size;
        result->hash = XXH3_64bits(bytes, size);
}

/* Returns bytes of the image that nobody can change: its mapping, or a copy, which the caller frees (*ret_copy).
 * NULL: *result holds the error. */
static const uint8_t *check_bytes(
        const struct ds_check_source *source, struct ds_check_result *result, uint8_t **ret_copy)
{
        if (source->mapped)
                return source->mapped;
        *ret_copy = check_copy(source, result);
        return *ret_copy;
}

void ds_check_image(const struct ds_check_source *source, uint32_t cc, int any, struct ds_check_result *result)
{
        ds_cleanup(ds_freep) uint8_t *copy = NULL;
        ds_cleanup(ds_freep) char *text = NULL;
        struct ds_coloured coloured;
        const uint8_t *bytes;
        size_t length;

        check_begin(result);
        bytes = check_bytes(source, result, &copy);
        if (!bytes || ds_coloured_open(bytes, source->bytes, &coloured, result))
                return;
        text = check_unpack(coloured.image, coloured.size, cc, any, result, &length);
        if (!text || (coloured.header && ds_coloured_make(&coloured, &text, &length, result)) ||
                check_parse(text, length, result) != 0)
                return;
        check_finish(text, length, result);
}

void ds_check_cubin(const void *bytes, size_t size, uint32_t cc, const char *origin, struct ds_check_result *result)
{
        struct ds_cubin cubin;

        check_begin(result);
        if (ds_cubin_read(bytes, size, &cubin))
                ds_check_fail(result, DS_CHECK_INVALID_IMAGE, "%s is damaged: %s", origin, ds_cubin_why(bytes, size));
        else if (!ds_cubin_runs_on(&cubin, cc))
                ds_check_fail(result, DS_CHECK_NO_BINARY, "%s is for sm_%u%s and does not run on this GPU (sm_%u)",
                        origin, cubin.cc, cubin.family ? "a" : "", cc);
        else
                check_finish(bytes, size, result);
        if (!result->status)
                result->variable_bytes = cubin.variable_bytes;
}

static void machine_elf(const ds_image *image, size_t index, uint32_t cc, struct ds_check_result *result)
{
        ds_cleanup(ds_freep) void *bytes = NULL;
        size_t size;
        int r;

        r = ds_image_elf(image, index, result->message, sizeof(result->message), &bytes, &size);
        if (r)
                check_unpack_failed(r, result);
        else
                ds_check_cubin(bytes, size, cc, "the image's machine code", result);
}

/* Returns the text of one PTX entry, followed by coloured kernels if any are requested. */
static int machine_ptx(const ds_image *image, size_t index, uint32_t cc, const struct ds_coloured *coloured,
        struct ds_check_result *result, struct ds_check_text *ret)
{
        int r = ds_image_ptx(image, index, result->message, sizeof(result->message), &ret->text, &ret->length);

        if (r) {
                check_unpack_failed(r, result);
                return 0;
        }
        if (coloured->header && ds_coloured_make(coloured, &ret->text, &ret->length, result))
                return 0;
        ret->max_registers = ds_image_entry(image, index)->max_registers;
        snprintf(ret->arch, sizeof(ret->arch), "sm_%u%s", cc, ds_image_entry(image, index)->arch_specific ? "a" : "");
        return 1;
}

/*
 * Opens the container that the source holds, and finds its requests for coloured kernels. *copy holds the bytes of both
 * unless they are mapped. Returns 0, or 1: *result holds the error.
 */
static int check_open(const struct ds_check_source *source, struct ds_check_result *result, uint8_t **copy,
        struct ds_coloured *ret_coloured, ds_image **ret)
{
        const uint8_t *bytes = check_bytes(source, result, copy);
        int r;

        if (!bytes || ds_coloured_open(bytes, source->bytes, ret_coloured, result))
                return 1;
        r = ds_image_open(ret_coloured->image, ret_coloured->size, result->message, sizeof(result->message), ret);
        if (r)
                check_unpack_failed(r, result);
        return r != 0;
}

/* Selects the PTX from which the selected machine code was made. Returns -1 if there is no PTX, or the code is from
 * other PTX. */
static int ptx_choose(const ds_image *image, uint32_t cc, int force_ptx, size_t *ret_index)
{
        const struct ds_image_entry *ptx, *elf;
        size_t code;

        if (ds_image_choose_ptx(image, cc, 0, ret_index) < 0)
                return -1;
        if (force_ptx || ds_image_choose_elf(image, cc, &code) < 0)
                return 0;
        ptx = ds_image_entry(image, *ret_index);
        elf = ds_image_entry(image, code);
        return ptx->sm == elf->sm && !ptx->arch_specific == !elf->arch_specific ? 0 : -1;
}

int ds_check_machine(const struct ds_check_source *source, uint32_t cc, int force_ptx, struct ds_check_result *result,
        struct ds_check_text *ret)
{
        ds_cleanup(ds_image_freep) ds_image *image = NULL;
        ds_cleanup(ds_freep) uint8_t *copy = NULL;
        struct ds_coloured coloured;
        char holds[512];
        size_t index;

        check_begin(result);
        if (check_open(source, result, &copy, &coloured, &image))
                return 0;
        if (!force_ptx && !coloured.header && ds_image_choose_elf(image, cc, &index) == 0) {
                machine_elf(image, index, cc, result);
                result->no_ptx = !result->status && ptx_choose(image, cc, 0, &index) < 0;
                return 0;
        }
        if (ds_image_choose_ptx(image, cc, 0, &index) == 0)
                return machine_ptx(image, index, cc, &coloured, result, ret);
        ds_image_describe(image, holds, sizeof(holds));
        ds_check_fail(result, DS_CHECK_NO_BINARY, "the image has no code for this GPU (sm_%u): it holds %s", cc, holds);
        return 0;
}

int ds_check_ptx(const struct ds_check_source *source, uint32_t cc, int force_ptx, struct ds_check_result *result,
        struct ds_check_text *ret)
{
        ds_cleanup(ds_image_freep) ds_image *image = NULL;
        ds_cleanup(ds_freep) uint8_t *copy = NULL;
        struct ds_coloured coloured;
        size_t index;

        check_begin(result);
        if (check_open(source, result, &copy, &coloured, &image))
                return 0;
        if (ptx_choose(image, cc, force_ptx || coloured.header, &index) == 0)
                return machine_ptx(image, index, cc, &coloured, result, ret);
        ds_check_fail(result, DS_CHECK_NO_BINARY, "the module has no PTX");
        return 0;
}

void ds_check_linked(const void *bytes, size_t size, uint32_t cc, struct ds_check_result *result)
{
        if (ds_cubin_is(bytes, size)) {
                ds_check_cubin(bytes, size, cc, "the linked machine code", result);
                return;
        }
        check_begin(result);
        check_finish(bytes, size, result);
}

void ds_check_forms(const void *bytes, size_t size, uint32_t cc, int simulated, struct ds_check_result *result)
{
        const size_t report = ds_forms_file_report(bytes, size);

        check_begin(result);
        if (!report || report == size) {
                ds_check_fail(result, DS_CHECK_INVALID_IMAGE, "the transformed image is damaged");
                return;
        }
        if (simulated)
                (void)check_parse(bytes, size - report, result);
        else
                ds_check_cubin(
                        bytes, size - report, cc, "the machine code that ptxas made of the transformed PTX", result);
        if (result->status)
                return;
        check_finish(bytes, size, result);
        result->bytes = size - report;
        result->report_bytes = report;
}
