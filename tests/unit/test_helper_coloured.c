/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images with a request for coloured kernels: the result contains these kernels, and damaged containers are refused
 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "helper/check.h"
#include "helper/coloured.h"
#include "util/alloc.h"

static const char text[] = ".version 7.0\n.target sm_60\n.address_size 64\n"
                           ".visible .entry set(.param .u64 p, .param .u32 value)\n"
                           "{\n\t.reg .b64 %rd<3>;\n\t.reg .b32 %r<2>;\n"
                           "\tld.param.u64 %rd1, [p];\n\tld.param.u32 %r1, [value];\n"
                           "\tst.global.u32 [%rd1], %r1;\n\tret;\n}\n"
                           ".visible .entry keep(.param .u64 p)\n"
                           "{\n\t.reg .b64 %rd<3>;\n"
                           "\tld.param.u64 %rd1, [p];\n\tst.global.u64 [%rd1], %rd1;\n\tret;\n}\n";

struct packed {
        struct ds_coloured_image header;
        struct ds_coloured_want wants[2];
        char image[sizeof(text)];
};

static struct packed pack(const char *first, const char *second)
{
        struct packed packed = {.header = {.magic = DS_COLOURED_MAGIC,
                                        .version = DS_WIRE_VERSION,
                                        .bytes = sizeof(packed),
                                        .image_offset = offsetof(struct packed, image),
                                        .n_wants = second ? 2 : 1,
                                        .kind = 1,
                                        .sector_bits = 11}};

        packed.wants[0].mask = packed.wants[1].mask = 1;
        strcpy(packed.wants[0].name, first);
        strcpy(packed.wants[1].name, second ? second : "");
        memcpy(packed.image, text, sizeof(text));
        return packed;
}

static struct ds_check_result *check(const void *bytes, size_t size, int machine, struct ds_check_text *ret)
{
        static struct ds_check_result result;
        int fd = memfd_create("test", MFD_CLOEXEC);
        const struct ds_check_source source = {.fd = fd, .bytes = size};

        cr_assert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
        if (machine)
                cr_assert_eq(ds_check_machine(&source, 90, 0, &result, ret), !result.status && ret->text);
        else
                ds_check_image(&source, 90, 1, &result);
        close(fd);
        return &result;
}

static char *content(const struct ds_check_result *result)
{
        static char bytes[8192];

        cr_assert_lt(result->bytes, sizeof(bytes));
        memset(bytes, 0, sizeof(bytes));
        cr_assert_eq(pread(result->fd, bytes, result->bytes, 0), (ssize_t)result->bytes);
        close(result->fd);
        return bytes;
}

Test(helper_coloured, the_forms_stand_behind_the_kernels)
{
        struct packed packed = pack("set", NULL);
        struct ds_check_result *r = check(&packed, sizeof(packed), 0, NULL);
        struct ds_check_text ptx = {0};
        char *out;

        cr_assert_eq(r->status, 0, "%s", r->message);
        out = content(r);
        cr_expect(strstr(out, "set("), "%s", out);
        cr_expect(strstr(out, "keep("));
        cr_expect(strstr(out, "set__ds_colour_1("));
        cr_expect_null(strstr(out, "keep__ds_colour"));
        /* the same check for a GPU, where the helper compiles the coloured text afterwards */
        r = check(&packed, sizeof(packed), 1, &ptx);
        cr_assert_eq(r->status, 0, "%s", r->message);
        cr_assert_not_null(ptx.text);
        cr_expect(memmem(ptx.text, ptx.length, "set__ds_colour_1(", 17));
        ds_free(ptx.text);
}

Test(helper_coloured, an_impossible_request_is_refused)
{
        struct packed packed = pack("set", "keep");
        struct ds_check_result *r = check(&packed, sizeof(packed), 0, NULL);

        cr_assert_eq(r->status, DS_CHECK_INVALID_PTX);
        cr_expect_eq(r->fd, -1);
        cr_expect(strstr(r->message, "keep cannot be coloured: "), "%s", r->message);
        cr_expect_null(strstr(r->message, "set cannot"));
        packed = pack("nobody", NULL);
        r = check(&packed, sizeof(packed), 0, NULL);
        cr_assert_eq(r->status, DS_CHECK_INVALID_PTX);
        cr_expect(strstr(r->message, "nobody"), "%s", r->message);
}

Test(helper_coloured, containers_that_lie)
{
        for (int i = 0; i < 12; i++) {
                struct packed packed = pack("set", NULL);
                size_t size = sizeof(packed);
                struct ds_check_result *r;

                packed.header.version += i == 0;
                packed.header.bytes += i == 1;
                packed.header.image_offset = i == 2   ? size
                                             : i == 3 ? 8
                                             : i == 4 ? UINT64_MAX
                                                      : packed.header.image_offset;
                packed.header.n_wants = i == 5 ? 0 : i == 6 ? UINT32_MAX : packed.header.n_wants;
                packed.header.kind = i == 7 ? 9 : packed.header.kind;
                packed.header.sector_bits = i == 8 ? 3 : packed.header.sector_bits;
                packed.wants[0].mask = i == 9 ? 0 : 1;
                if (i == 10)
                        memset(packed.wants[0].name, 'x', sizeof(packed.wants[0].name));
                size = i == 11 ? sizeof(packed.header) - 1 : size;
                r = check(&packed, size, 0, NULL);
                cr_expect_neq(r->status, 0, "%d", i);
                cr_expect_eq(r->fd, -1);
        }
}

/* Changes every byte of the container's header and names, one at a time. */
Test(helper_coloured, any_byte_may_be_another)
{
        for (size_t at = 0; at < offsetof(struct packed, wants) + 64; at++) {
                struct packed packed = pack("set", NULL);
                struct ds_check_result *r;

                ((uint8_t *)&packed)[at] ^= 0x55;
                r = check(&packed, sizeof(packed), 0, NULL);
                if (!r->status)
                        close(r->fd);
        }
}
