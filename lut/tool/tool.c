/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/tool/tool.h"

#include <stdarg.h>
#include <stdio.h>

static void say(const char *format, va_list args)
{
        fputs("detshare-lut: ", stderr);
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
}

int ds_lut_tool_usage(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        say(format, args);
        va_end(args);
        fputs("Try 'detshare-lut --help'.\n", stderr);
        return DS_LUT_TOOL_USAGE;
}

int ds_lut_tool_bad(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        say(format, args);
        va_end(args);
        return DS_LUT_TOOL_BAD;
}

int ds_lut_tool_flush(void)
{
        if (fflush(stdout) == 0)
                return DS_LUT_TOOL_OK;
        perror("detshare-lut: cannot write");
        return DS_LUT_TOOL_BAD;
}
