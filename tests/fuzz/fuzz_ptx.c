/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX text: parsed, validated, and if accepted, printed and parsed again
 *
 * A refused text causes a message. The printed text parses, and prints the same a second time.
 */
#include <errno.h>

#include "ptx/ptx.h"
#include "tests/fuzz/fuzz.h"

#define LIMIT DS_MIB(64)

static char *print(const ds_ptx_module *module, size_t *ret_length)
{
        char *out = NULL;
        FILE *stream = open_memstream(&out, ret_length);

        FUZZ_CHECK(stream);
        FUZZ_CHECK(ds_ptx_print(module, stream) == 0);
        fclose(stream);
        return out;
}

static void print_again(const ds_ptx_module *module)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *again = NULL;
        struct ds_ptx_diags diags;
        size_t n_once, n_twice;
        char *once = print(module, &n_once), *twice;

        /* The printed text may be longer than the input and exceed the limit only for that reason. */
        if (ds_ptx_parse(once, n_once, 4 * LIMIT, &diags, &again)) {
                fwrite(once, 1, DS_MIN(n_once, (size_t)2000), stderr);
                FUZZ_CHECK(!"the printed text parses");
        }
        twice = print(again, &n_twice);
        FUZZ_CHECK(n_once == n_twice && memcmp(once, twice, n_once) == 0);
        free(once);
        free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        static struct ds_ptx_diags diags;
        static char errors[8192];
        char *text = fuzz_copy(data, size);
        int r = ds_ptx_parse(text, size, LIMIT, &diags, &module);

        free(text);
        if (r) {
                FUZZ_CHECK(r == -ENOMEM || (r == DS_PTX_E_INVALID && diags.n > 0 && diags.n <= diags.total));
                (void)ds_ptx_diags_format(&diags, "fuzz", errors, sizeof(errors));
                return 0;
        }
        print_again(module);
        return 0;
}
