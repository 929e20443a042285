/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings in JSON
 */
#pragma once

#include <stdio.h>

/* Print the text in quotes; bytes outside of ASCII stay as they are. */
static inline void ds_replay_json_text(FILE *out, const char *text)
{
        fputc('"', out);
        for (; *text; text++) {
                if ((unsigned char)*text < ' ')
                        fprintf(out, "\\u%04x", (unsigned char)*text);
                else
                        fprintf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
        }
        fputc('"', out);
}
