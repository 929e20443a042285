/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper's check of images: the result is sealed and contains the bytes that were parsed; an error names its cause
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "helper/check.h"

static const char good[] = ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n";

static int file_of(const void *bytes, size_t size)
{
        int fd = memfd_create("test", MFD_CLOEXEC);

        cr_assert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
        return fd;
}

static struct ds_check_result *check(int fd, uint64_t bytes)
{
        static struct ds_check_result result;

        ds_check_image(&(struct ds_check_source){.fd = fd, .bytes = bytes}, 90, 1, &result);
        return &result;
}

Test(helper, good_ptx_comes_back_sealed)
{
        int fd = file_of(good, sizeof(good));
        struct ds_check_result *r = check(fd, sizeof(good));
        char back[sizeof(good)] = "";

        cr_assert(r->status == 0, "%d %s", r->status, r->message);
        cr_assert(r->bytes == strlen(good) && r->hash != 0);
        cr_assert(pread(r->fd, back, sizeof(back), 0) == (ssize_t)strlen(good));
        cr_assert(!memcmp(back, good, strlen(good)));
        cr_assert(pwrite(r->fd, "x", 1, 0) < 0 && ftruncate(r->fd, 0) < 0);
        cr_assert(fcntl(r->fd, F_GET_SEALS) == (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
        close(r->fd);
        close(fd);
}

Test(helper, a_syntax_error_is_named_with_its_line)
{
        static const char bad[] =
                ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n\tfrobnicate.u32 %r1;\n}\n";
        int fd = file_of(bad, sizeof(bad));
        struct ds_check_result *r = check(fd, sizeof(bad));

        cr_assert(r->status == 218 && r->fd == -1);
        cr_assert(strstr(r->message, "frobnicate"), "%s", r->message);
        cr_assert(strstr(r->message, ":6:"), "%s", r->message);
        close(fd);
}

Test(helper, files_that_are_no_images)
{
        static const struct {
                const char *path;
                uint64_t bytes;
                int status;
        } cases[] = {{"/dev/zero", 4096, 1}, {"/", 4096, 1}, {"/proc/self/maps", UINT64_C(1) << 60, 1}};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                int fd = open(cases[i].path, O_RDONLY | O_CLOEXEC);
                struct ds_check_result *r = check(fd, cases[i].bytes);

                cr_assert(r->status == cases[i].status && r->fd == -1 && r->message[0], "%s: %d %s", cases[i].path,
                        r->status, r->message);
                close(fd);
        }
}

Test(helper, a_file_shorter_than_announced_and_empty_ones)
{
        int fd = file_of(good, sizeof(good));

        cr_assert(check(fd, sizeof(good) + 1)->status == 1);
        cr_assert(check(fd, 0)->status == 1);
        cr_assert(ftruncate(fd, 0) == 0 && check(fd, sizeof(good))->status == 1);
        close(fd);
}

Test(helper, machine_code_alone_has_no_binary_for_this_gpu)
{
        uint8_t elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
        int fd = file_of(elf, sizeof(elf));
        struct ds_check_result *r = check(fd, sizeof(elf));

        cr_assert((r->status == 209 || r->status == 200) && r->message[0], "%d %s", r->status, r->message);
        close(fd);
}

/* The simulated device holds a module's variables in the worker's memory, so the user who loads it is charged for
 * them. */
Test(helper, variables_are_counted)
{
        static const char text[] = ".version 9.0\n.target sm_75\n.address_size 64\n"
                                   ".global .align 4 .b8 a[4294967296];\n.const .align 4 .b8 c[28];\n"
                                   ".extern .global .align 4 .b8 other[1000];\n"
                                   ".visible .entry k()\n{\n.global .align 4 .b8 inside[100];\nret;\n}\n";
        int fd = file_of(text, sizeof(text));
        struct ds_check_result *r = check(fd, sizeof(text));

        cr_assert(r->status == 0, "%d %s", r->status, r->message);
        cr_assert_eq(r->variable_bytes, (UINT64_C(1) << 32) + 128, "%llu", (unsigned long long)r->variable_bytes);
        close(r->fd);
        close(fd);
        fd = file_of(good, sizeof(good));
        r = check(fd, sizeof(good));
        cr_assert_eq(r->variable_bytes, 0);
        close(r->fd);
        close(fd);
}
