/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX whose sums and products an assembler may not join
 *
 * The text with .rn in every add, sub and mul of floats that names no rounding: without it PTX lets the assembler make
 * one fma of a mul and an add, which has other bits; the interpreter never does.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "util/macro.h"

static inline char *ptx_without_contraction(const char *text)
{
        static const char *const types[] = {".f32", ".f64", ".f16", ".bf16", ".ftz.", ".sat.f"};
        char *to = malloc(2 * strlen(text) + 1), *at = to;
        int word = 0; /* inside of one */

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
