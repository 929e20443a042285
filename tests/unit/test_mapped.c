/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that lie in a mapped file: which images are found there, and that the file holds their bytes
 *
 * The daemon accepts only files on block devices (util/foreign.h). On a tmpfs, a container's overlay or btrfs no image
 * may be found: the client then copies the image into a memory file. A test of replaced files looks for a directory on
 * a block device and is skipped without one.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <zstd.h>

#include "core/internal.h"

#define BYTES 65536u

int dsc__fd_above_standard(int fd)
{
        int above = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);

        if (fd >= 0)
                close(fd);
        return above;
}

/* Data of this program: read-only without relocations, and writable. */
static const uint8_t in_text[BYTES] = {1, 2, 3, [BYTES - 1] = 9};
static uint8_t in_data[BYTES] = {4, 5, 6};

static int find(const void *bytes, size_t size)
{
        uint64_t offset = 0;
        int fd = dsc__mapped(bytes, size, &offset);
        uint8_t *copy;

        if (fd < 0)
                return 0;
        cr_assert_gt(fd, 2);
        cr_assert_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
        copy = malloc(size);
        cr_assert_eq(pread(fd, copy, size, (off_t)offset), (ssize_t)size);
        cr_assert_eq(memcmp(copy, bytes, size), 0);
        free(copy);
        close(fd);
        return 1;
}

/* Whether the path, or the file system that it lies on, has a block device */
static int on_device(const char *path)
{
        struct stat st;

        return stat(path, &st) == 0 && major(st.st_dev) != 0;
}

Test(mapped, constants_of_the_program_are_found)
{
        const int wanted = on_device("/proc/self/exe");

        cr_assert_eq(find(in_text, BYTES), wanted);
        cr_assert_eq(find(in_text + 100, BYTES - 200), wanted, "a part, and the object is known already");
        if (!wanted)
                skip_part("a build directory on a block device");
}

Test(mapped, what_may_have_been_written_is_not)
{
        static const char *const pointers[4096] = {"a", [4095] = "b"};
        uint8_t *heap = calloc(1, BYTES);

        cr_assert(!find(in_data, BYTES));
        cr_assert(!find(pointers, sizeof(pointers)), "it has relocations");
        cr_assert(!find(heap, BYTES));
        free(heap);
}

Test(mapped, small_ones_are_not_worth_it)
{
        cr_assert(!find(in_text, 100));
}

/* A range of bytes that ends behind its segment does not lie in the file as a whole. */
Test(mapped, a_range_beyond_its_segment_is_not_found)
{
        uint64_t offset;

        cr_assert_eq(dsc__mapped(in_text, (size_t)1 << 40, &offset), -1);
        cr_assert_eq(dsc__mapped(in_text, SIZE_MAX - 4096, &offset), -1);
}

/* --- a library that changes on disk ------------------------------------------------------------------------------- */

static char directory[256], library[288], other[288];

struct segment {
        const char *path;
        const uint8_t *bytes;
        size_t size;
        uint64_t offset;
};

static int find_segment(struct dl_phdr_info *info, size_t size, void *user)
{
        struct segment *segment = user;

        for (size_t i = 0; !strcmp(info->dlpi_name, segment->path) && i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *header = &info->dlpi_phdr[i];

                if (header->p_type != PT_LOAD || header->p_flags & PF_W || header->p_filesz <= segment->size)
                        continue;
                segment->bytes = (const uint8_t *)(info->dlpi_addr + header->p_vaddr);
                segment->size = header->p_filesz;
                segment->offset = header->p_offset;
        }
        return 0;
}

/* A directory of this test: on a block device if `device`, else with other temporary files; 0: there is none */
static int make_directory(int device)
{
        const char *const places[] = {getenv("TMPDIR"), "/tmp", "/var/tmp", "build", "."};

        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
                if (!places[i] || (device && !on_device(places[i])))
                        continue;
                snprintf(directory, sizeof(directory), "%s/detshare-mapped.XXXXXX", places[i]);
                if (mkdtemp(directory))
                        return 1;
        }
        return 0;
}

static void copy_library(const char *to)
{
        char command[4600];
        Dl_info info;

        cr_assert(dladdr((void *)(uintptr_t)ZSTD_versionNumber, &info));
        snprintf(command, sizeof(command), "cp -L %s %s", info.dli_fname, to);
        cr_assert_eq(system(command), 0);
}

static void *load_library(struct segment *segment)
{
        void *handle;

        snprintf(library, sizeof(library), "%s/lib.so", directory);
        snprintf(other, sizeof(other), "%s/other.so", directory);
        copy_library(library);
        copy_library(other);
        handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        cr_assert_not_null(handle);
        segment->path = library;
        dl_iterate_phdr(find_segment, segment);
        cr_assert_gt(segment->size, 100000);
        return handle;
}

static void end(void *handle)
{
        dlclose(handle);
        unlink(library);
        unlink(other);
        rmdir(directory);
}

Test(mapped, a_library_whose_file_was_replaced)
{
        struct segment segment = {0};
        void *handle;
        int fd;

        if (!make_directory(1))
                skip_test("a directory on a block device: TMPDIR, /tmp, /var/tmp or the build's");
        handle = load_library(&segment);
        cr_assert(find(segment.bytes, segment.size));
        cr_assert_eq(rename(other, library), 0);
        cr_assert(find(segment.bytes, segment.size), "another file, with the same bytes");
        copy_library(other);
        fd = open(other, O_WRONLY | O_CLOEXEC);
        cr_assert_eq(pwrite(fd, "\xff\xfe\xfd", 3, (off_t)(segment.offset + segment.size - 3)), 3);
        close(fd);
        cr_assert_eq(rename(other, library), 0);
        cr_assert(!find(segment.bytes, segment.size), "another file, with other bytes");
        cr_assert(find(segment.bytes, segment.size - 3), "but up to there it has the same");
        cr_assert_eq(truncate(library, 4096), 0);
        cr_assert(!find(segment.bytes, segment.size - 3), "it is too short");
        cr_assert_eq(unlink(library), 0);
        cr_assert(!find(segment.bytes, segment.size), "it is gone");
        end(handle);
}

/* A library was unloaded: its cached result does not apply to the next library at the same address. */
Test(mapped, libraries_that_come_and_go)
{
        for (int i = 0; i < 5; i++) {
                struct segment segment = {0};
                void *handle;

                cr_assert(make_directory(0));
                handle = load_library(&segment);
                cr_assert_eq(find(segment.bytes, segment.size), on_device(directory));
                end(handle);
        }
}

/* Libraries that exist in memory only are not found, so the client sends their images as a copy. */
Test(mapped, a_library_in_memory_is_not_found)
{
        struct segment segment = {0};
        struct statvfs vfs;
        void *handle;

        snprintf(directory, sizeof(directory), "/dev/shm/detshare-mapped.XXXXXX");
        if (statvfs("/dev/shm", &vfs) || vfs.f_flag & ST_NOEXEC || on_device("/dev/shm") || !mkdtemp(directory))
                skip_test("a tmpfs at /dev/shm from which libraries load");
        handle = load_library(&segment);
        cr_assert(!find(segment.bytes, segment.size));
        end(handle);
}
