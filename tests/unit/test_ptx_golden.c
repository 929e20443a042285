/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Golden pairs of the PTX front end
 *
 * tests/golden/ptx/NAME.ptx with NAME.out parses and prints as NAME.out. With NAME.err it is refused with exactly these
 * diagnostics. A text without a pair fails. UPDATE_GOLDEN=1 in the environment writes the results instead of comparing;
 * look at the difference before you commit it.
 */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/ptx.h"
#include "util/alloc.h"
#include "util/macro.h"

static char *read_file(const char *path, size_t *ret_length)
{
        FILE *in = fopen(path, "re");
        char *data = calloc(1, (size_t)1 << 20);

        cr_assert(in, "cannot open %s", path);
        cr_assert(data);
        *ret_length = fread(data, 1, ((size_t)1 << 20) - 1, in);
        fclose(in);
        return data;
}

static void write_file(const char *path, const char *data, size_t length)
{
        FILE *out = fopen(path, "we");

        cr_assert(out, "cannot write %s", path);
        cr_assert_eq(fwrite(data, 1, length, out), length);
        fclose(out);
}

static void compare(const char *path, const char *found, size_t length)
{
        char *wanted;
        size_t n;

        if (getenv("UPDATE_GOLDEN")) {
                write_file(path, found, length);
                return;
        }
        wanted = read_file(path, &n);
        cr_expect(n == length && memcmp(wanted, found, n) == 0, "%s differs; this was found:\n%.*s", path, (int)length,
                found);
        free(wanted);
}

static void check_file(const char *path)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        const char *name = strrchr(path, '/') + 1;
        struct ds_ptx_diags diags;
        char pair[512], errors[16384];
        size_t length, printed = 0;
        char *text = read_file(path, &length), *out = NULL;
        bool wants_error = strncmp(name, "err_", 4) == 0;
        int r = ds_ptx_parse(text, length, 0, &diags, &module);

        snprintf(pair, sizeof(pair), "%.*s.%s", (int)(strlen(path) - 4), path, wants_error ? "err" : "out");
        ds_ptx_diags_format(&diags, name, errors, sizeof(errors));
        if (wants_error) {
                cr_expect_eq(r, DS_PTX_E_INVALID, "%s was accepted", path);
                compare(pair, errors, strlen(errors));
        } else {
                FILE *stream = open_memstream(&out, &printed);

                cr_assert_eq(r, 0, "%s was refused:\n%s", path, errors);
                cr_assert_eq(ds_ptx_print(module, stream), 0);
                fclose(stream);
                compare(pair, out, printed);
                free(out);
        }
        free(text);
}

Test(ptx_golden, pairs)
{
        glob_t found;
        size_t errors = 0;

        cr_assert_eq(glob(TEST_GOLDEN_DIR "/*.ptx", 0, NULL, &found), 0, "no golden files in " TEST_GOLDEN_DIR);
        for (size_t i = 0; i < found.gl_pathc; i++) {
                check_file(found.gl_pathv[i]);
                errors += strstr(found.gl_pathv[i], "/err_") != NULL;
        }
        cr_expect_geq(errors, 8);
        cr_expect_geq(found.gl_pathc - errors, 4);
        globfree(&found);
}
