/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile PTX: cut at every byte, with bytes and lines changed at random
 *
 * Nothing may crash, hang or leak (run under the sanitizers). A text that still parses must print, parse again and
 * print the same. The seed is fixed; PTX_FUZZ_SEED and PTX_FUZZ_ROUNDS select others.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/ptx.h"
#include "util/macro.h"

#define LIMIT DS_MIB(32)

static uint64_t random_state;

static uint32_t dice(uint32_t n)
{
        random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t)(random_state >> 33) % n;
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
        const char *value = getenv(name);

        return value ? strtoull(value, NULL, 0) : otherwise;
}

static char *read_file(const char *path, size_t *ret_length)
{
        FILE *in = fopen(path, "re");
        char *data = malloc((size_t)1 << 20);

        cr_assert(in, "cannot open %s", path);
        cr_assert(data);
        *ret_length = fread(data, 1, (size_t)1 << 20, in);
        fclose(in);
        return data;
}

static char *print(const ds_ptx_module *module, size_t *ret_length)
{
        char *out = NULL;
        FILE *stream = open_memstream(&out, ret_length);

        cr_assert(stream);
        cr_assert_eq(ds_ptx_print(module, stream), 0);
        fclose(stream);
        return out;
}

/* Parses an exact-size copy, so that a sanitizer notices a read behind its end. Returns whether the parser accepted
 * it. */
static bool try(const char *text, size_t length)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL, *again = NULL;
        char *copy = malloc(length ? length : 1), *once, *twice, errors[8192];
        struct ds_ptx_diags diags;
        size_t n_once, n_twice;
        int r;

        cr_assert(copy);
        memcpy(copy, text, length);
        r = ds_ptx_parse(copy, length, LIMIT, &diags, &module);
        free(copy);
        if (r) {
                cr_assert(r == -ENOMEM || diags.total > 0);
                ds_ptx_diags_format(&diags, "fuzz", errors, sizeof(errors));
                return false;
        }
        once = print(module, &n_once);
        r = ds_ptx_parse(once, n_once, LIMIT, &diags, &again);
        ds_ptx_diags_format(&diags, "printed", errors, sizeof(errors));
        cr_assert_eq(r, 0, "what was printed does not parse:\n%s\n--- printed\n%.*s\n--- from\n%.*s", errors,
                (int)DS_MIN(n_once, (size_t)4000), once, (int)DS_MIN(length, (size_t)4000), text);
        twice = print(again, &n_twice);
        cr_assert(n_once == n_twice && memcmp(once, twice, n_once) == 0, "printing twice differs");
        free(once);
        free(twice);
        return true;
}

Test(ptx_fuzz, cut_at_every_byte)
{
        glob_t found;
        size_t accepted = 0;

        cr_assert_eq(glob(TEST_GOLDEN_DIR "/*.ptx", 0, NULL, &found), 0);
        for (size_t i = 0; i < found.gl_pathc; i++) {
                size_t length;
                char *text = read_file(found.gl_pathv[i], &length);

                for (size_t n = 0; n <= length; n++)
                        accepted += try(text, n);
                free(text);
        }
        globfree(&found);
        cr_expect_gt(accepted, 0);
}

static const char *const words[] = {"{", "}", "(", ")", "[", "]", ";", ",", ":", "@", "!", "%r1", "%p1", "%rd1", "%f1",
        "_", ".u32", ".f32", ".pred", ".b64", ".v2", ".v4", ".global", ".param", ".reg", ".align", ".func", ".entry",
        "0", "1", "-1", "0x7fffffffffffffff", "18446744073709551615", "0f3F800000", "1.5", "ret", "add.u32", "bra",
        "call", "mov.b64", "|", "<", ">", "+", "-", "?", "\"", "/*", "//", "\n", "\0", "%tid.x", "generic", "WARP_SZ",
        ".branchtargets", ".callprototype", ".section", ".pragma", ".loc", "@@DWARF"};

static size_t mutate(char *text, size_t length, size_t capacity)
{
        uint32_t changes = 1 + dice(4);

        for (uint32_t i = 0; i < changes && length > 64; i++) {
                size_t at = dice((uint32_t)length), n = 1 + dice(40), from = dice((uint32_t)(length - 41));
                const char *word = words[dice(DS_ARRAY_SIZE(words))];

                switch (dice(5)) {
                case 0:
                        text[at] = (char)dice(256);
                        break;
                case 1: /* removes a piece of the text */
                        n = DS_MIN(n, length - at);
                        memmove(text + at, text + at + n, length - at - n);
                        length -= n;
                        break;
                case 2: /* copies a piece of the text to another place */
                        if (length + n > capacity)
                                break;
                        memmove(text + at + n, text + at, length - at);
                        memmove(text + at, text + from, n);
                        length += n;
                        break;
                default: /* inserts a word into the text */
                        n = strlen(word);
                        if (length + n > capacity)
                                break;
                        memmove(text + at + n, text + at, length - at);
                        memcpy(text + at, word, n);
                        length += n;
                }
        }
        return length;
}

Test(ptx_fuzz, changed_at_random)
{
        uint64_t rounds = number_from("PTX_FUZZ_ROUNDS", 20000);
        size_t accepted = 0;
        glob_t found;

        random_state = number_from("PTX_FUZZ_SEED", 1);
        cr_assert_eq(glob(TEST_GOLDEN_DIR "/*.ptx", 0, NULL, &found), 0);
        for (uint64_t i = 0; i < rounds; i++) {
                char work[16384];
                size_t length;
                char *text = read_file(found.gl_pathv[dice((uint32_t)found.gl_pathc)], &length);

                length = DS_MIN(length, sizeof(work) / 2);
                memcpy(work, text, length);
                free(text);
                length = mutate(work, length, sizeof(work));
                accepted += try(work, length);
        }
        globfree(&found);
        cr_expect_gt(accepted, rounds / 100);
}
