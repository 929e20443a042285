/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of a text: every byte limit of the arena, and depths and sizes that no compiler writes
 *
 * A text is read or refused, with a message or for lack of memory. Nothing crashes, and under the sanitizers nothing
 * leaks. Real PTX is read with limits from zero up to its need.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/ptx.h"
#include "read_file.h"
#include "util/macro.h"

#define HEAD ".version 9.0\n.target sm_90\n.address_size 64\n"
#define LIMITS 200

static int parse(const char *text, size_t length, size_t limit, struct ds_ptx_diags *diags)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        int r;

        memset(diags, 0, sizeof(*diags));
        r = ds_ptx_parse(text, length, limit, diags, &module);
        cr_assert(!r == !!module);
        return r;
}

Test(ptx_limits, every_limit_up_to_enough)
{
        struct ds_ptx_diags diags;
        size_t length, enough = 64, short_ = 0;
        char *text = (char *)read_file_of(TEST_PTX_DIR "/sm_90", "gemm.ptx", &length);

        while (parse(text, length, enough, &diags) == -ENOMEM)
                enough *= 2;
        cr_assert_eq(parse(text, length, enough, &diags), 0);
        for (size_t i = 1; i <= LIMITS; i++) {
                int r = parse(text, length, enough * i / LIMITS, &diags);

                cr_assert(r == 0 || r == -ENOMEM, "limit %zu: %d", enough * i / LIMITS, r);
                cr_assert_eq(diags.total, 0, "no words where there is only no memory");
                short_ += r == -ENOMEM;
        }
        cr_expect_gt(short_, LIMITS / 4, "%zu", short_);
        free(text);
}

/* Parses the text that consists of HEAD, `before`, n times `unit`, and `after` */
static int parse_many(const char *before, const char *unit, size_t n, const char *after, struct ds_ptx_diags *diags)
{
        size_t step = strlen(unit), at = strlen(HEAD) + strlen(before), size = at + step * n + strlen(after);
        char *text = malloc(size + 1);
        int r;

        cr_assert(text);
        sprintf(text, HEAD "%s", before);
        for (size_t i = 0; i < n; i++)
                memcpy(text + at + i * step, unit, step);
        strcpy(text + at + n * step, after);
        r = parse(text, size, DS_MIB(64), diags);
        free(text);
        return r;
}

Test(ptx_limits, depths)
{
        static const struct {
                const char *before, *unit, *after;
        } deep[] = {
                {".entry k() {", "{", ""},
                {".global .u32 v = ", "(", "1;"},
                {".global .u32 v = ", "-", "1;"},
                {".global .u32 v = ", "!", "1;"},
                {".global .u32 v = ", "1?", "1;"},
                {".global .u32 v[1] = ", "{", "1;"},
                {".global .u32 v", "[1]", ";"},
                {".entry k() { .reg .b32 r; mov.b32 r, ", "{", "r; }"},
                {".entry k() { .reg .b32 r; mov.b32 r, ", "(.u64)", "1; }"},
                {".entry k() { ", "call ", "; }"},
        };
        struct ds_ptx_diags diags;

        for (size_t i = 0; i < DS_ARRAY_SIZE(deep); i++) {
                int r = parse_many(deep[i].before, deep[i].unit, 200000, deep[i].after, &diags);

                cr_expect(r == DS_PTX_E_INVALID || r == -ENOMEM, "%s%s...: %d", deep[i].before, deep[i].unit, r);
                cr_expect(r != DS_PTX_E_INVALID || diags.total > 0);
        }
}

Test(ptx_limits, sizes)
{
        static const char *const refused[] = {
                ".global .b8 v[1099511627776][1099511627776];\n",
                ".global .b64 v[18446744073709551615];\n",
                ".entry k() { .reg .b32 r<4000000000>; ret; }\n",
                ".entry k() { .reg .b32 r<18446744073709551616>; ret; }\n",
                ".entry k(.param .b8 p[1099511627776]) { ret; }\n",
                ".entry k() .maxntid 4294967296 { ret; }\n",
        };
        struct ds_ptx_diags diags;

        for (size_t i = 0; i < DS_ARRAY_SIZE(refused); i++) {
                int r = parse_many("", refused[i], 1, "", &diags);

                cr_expect(r == DS_PTX_E_INVALID || r == -ENOMEM, "%s: %d", refused[i], r);
        }
        /* valid texts of large size */
        cr_expect_eq(parse_many(".global .b8 v[] = {", "7, ", 350000, "7};", &diags), 0);
        cr_expect_eq(parse_many(".entry k() {", "ret; ", 200000, "}", &diags), 0);
        cr_expect_eq(parse_many(".entry k() ", ".maxntid 1 ", 200000, "{ ret; }", &diags), 0);
        /* the first errors are reported, the others counted */
        cr_expect_eq(parse_many("", "nonsense;\n", 100000, "", &diags), DS_PTX_E_INVALID);
        cr_expect_eq(diags.n, DS_PTX_DIAGS_MAX);
        cr_expect_geq(diags.total, diags.n);
}
