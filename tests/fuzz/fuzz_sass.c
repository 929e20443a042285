/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine code: the parts that the worker parses before it launches a kernel
 */
#include "image/cubin.h"
#include "image/sass.h"
#include "tests/fuzz/fuzz.h"

#define KERNELS_MAX 32 /* largest number of kernels of a file that the target inspects */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        void *image = fuzz_copy(data, size);
        struct ds_sass_kernel facts, again;
        struct ds_cubin cubin;
        ds_sass *sass = NULL;
        const char *name;
        int r = ds_sass_open(image, size, &sass);

        FUZZ_CHECK(r == 0 || r == DS_SASS_E_NOT);
        FUZZ_CHECK((r == 0) == (ds_cubin_read(image, size, &cubin) == 0));
        for (size_t i = 0; r == 0 && i < KERNELS_MAX && (name = ds_sass_kernel_name(sass, i)); i++) {
                FUZZ_CHECK(ds_sass_kernel(sass, name, &facts) == 0);
                FUZZ_CHECK(ds_sass_kernel(sass, name, &again) == 0);
                FUZZ_CHECK(facts.waits == again.waits && facts.sees_shared == again.sees_shared);
                FUZZ_CHECK(facts.waits <= 1 && facts.sees_shared <= 1);
        }
        ds_sass_free(sass);
        free(image);
        return 0;
}
