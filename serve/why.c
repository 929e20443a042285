/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/why.h"

#include <stdarg.h>
#include <stdio.h>

int sv_fail(struct sv_why *why, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        (void)vsnprintf(why->text, sizeof(why->text), format, args);
        va_end(args);
        for (char *c = why->text; *c; c++)
                if (*c < ' ' || *c > '~')
                        *c = '?';
        return -1;
}
