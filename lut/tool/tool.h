/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of detshare-lut: one file per command, and shared functions
 *
 * Results go to standard output, progress and errors to standard error. A command receives its own arguments; argv[0]
 * is its name.
 */
#pragma once

#include <stddef.h>

enum ds_lut_tool_exit {
        DS_LUT_TOOL_OK = 0,
        DS_LUT_TOOL_BAD = 1,         /* the input is invalid, damaged or insufficient, or the device failed */
        DS_LUT_TOOL_USAGE = 2,       /* the command line is wrong */
        DS_LUT_TOOL_UNSUPPORTED = 3, /* the samples are valid, but no table can be made from them */
};

int ds_lut_tool_probe(int argc, char **argv);
int ds_lut_tool_learn(int argc, char **argv);
int ds_lut_tool_show(int argc, char **argv);

/* Prints the message and how to get help to standard error. Returns DS_LUT_TOOL_USAGE. */
__attribute__((format(printf, 1, 2))) int ds_lut_tool_usage(const char *format, ...);
/* Prints the message to standard error. Returns DS_LUT_TOOL_BAD. */
__attribute__((format(printf, 1, 2))) int ds_lut_tool_bad(const char *format, ...);
/* Flushes standard output; returns an exit code. */
int ds_lut_tool_flush(void);
