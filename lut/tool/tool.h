/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-lut from inside: one file per command, and what they share
 *
 * Results go to standard output, progress and what went wrong to standard error. A command is given its own words,
 * argv[0] is its name.
 */
#pragma once

#include <stddef.h>

enum ds_lut_tool_exit {
        DS_LUT_TOOL_OK = 0,
        DS_LUT_TOOL_BAD = 1,         /* the input is wrong, damaged or not enough, or the device failed */
        DS_LUT_TOOL_USAGE = 2,       /* the command line is wrong */
        DS_LUT_TOOL_UNSUPPORTED = 3, /* the samples are fine, and no table can be made of them */
};

int ds_lut_tool_probe(int argc, char **argv);
int ds_lut_tool_learn(int argc, char **argv);
int ds_lut_tool_show(int argc, char **argv);

/* A line on standard error, and how to get help; the exit code. */
__attribute__((format(printf, 1, 2))) int ds_lut_tool_usage(const char *format, ...);
/* A line on standard error; DS_LUT_TOOL_BAD. */
__attribute__((format(printf, 1, 2))) int ds_lut_tool_bad(const char *format, ...);
/* What is in standard output's buffer is written: an exit code. */
int ds_lut_tool_flush(void);
