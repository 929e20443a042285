/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target with a deliberate bug: it proves that a replay or a fuzzer would find one
 */
#include "tests/fuzz/fuzz.h"

static char *volatile kept;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *copy = fuzz_copy(data, size);

        kept = copy;
        if (size == 7 && !memcmp(copy, "overrun", 7))
                kept[size] = 1;
        if (size != 4 || memcmp(copy, "leak", 4) != 0)
                free(copy);
        kept = NULL;
        return 0;
}
