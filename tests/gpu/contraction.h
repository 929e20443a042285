/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forbids an assembler to fuse floating-point operations in PTX
 *
 * Adds .rn to every add, sub and mul of floats without a rounding mode. Otherwise, PTX allows the assembler to fuse a
 * mul and an add into one fma, whose bits differ. The interpreter never fuses.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "util/macro.h"

static inline char *ptx_without_contraction(const char *text)
{
        static const char *const types[] = {".f32", ".f64", ".f16", ".bf16", ".ftz.", ".sat.f"};
        char *to = malloc(2 * strlen(text) + 1), *at = to;
        int word = 0; /* 1: `text` points into the middle of a word */

        while (to && *text) {
                int is = 0;

                if (word)
                        ;
                else if (strncmp(text, "add.", 4) == 0 || strncmp(text, "sub.", 4) == 0 ||
                         strncmp(text, "mul.", 4) == 0)
                        for (size_t i = 0; i < DS_ARRAY_SIZE(types); i++)
                                is |= strncmp(text + 3, types[i], strlen(types[i])) == 0;
                if (is) {
                        memcpy(at, text, 3);
                        memcpy(at + 3, ".rn", 3);
                        at += 6;
                        text += 3;
                } else {
                        word = *text > ' ' && *text != ';';
                        *at++ = *text++;
                }
        }
        if (to)
                *at = 0;
        return to;
}
