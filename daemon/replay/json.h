/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text in JSON
 */
#pragma once

#include <stdio.h>

/* The text in quotes; bytes past ASCII go as they are. */
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
