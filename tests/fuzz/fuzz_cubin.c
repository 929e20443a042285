/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cubins: the parts that the daemon parses before a driver does
 */
#include "image/cubin.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct ds_cubin cubin;
        void *image = fuzz_copy(data, size);
        int r = ds_cubin_read(image, size, &cubin);

        FUZZ_CHECK(r == 0 || r == DS_CUBIN_E_NOT);
        FUZZ_CHECK((ds_cubin_why(image, size) != NULL) == (r != 0));
        if (r == 0) {
                FUZZ_CHECK(ds_cubin_is(image, size));
                FUZZ_CHECK(cubin.cc > 0 && cubin.size <= size && cubin.size >= 64);
                FUZZ_CHECK(!cubin.family || ds_cubin_runs_on(&cubin, cubin.cc));
        }
        free(image);
        return 0;
}
