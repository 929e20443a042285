/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target that is wrong on purpose: the proof that a replay, or a fuzzer, would notice
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
