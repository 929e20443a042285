/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-ptx internals: one file per command, and their shared code
 *
 * PTX and results go to standard output, diagnostics with the source line and a caret to standard error. Exit codes are
 * in enum ds_ptx_tool_exit and in the manual page. A command gets its own words; argv[0] is its name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ptx/ptx.h"

enum ds_ptx_tool_exit {
        DS_PTX_TOOL_OK = 0,
        DS_PTX_TOOL_BAD = 1,         /* the input is invalid, or the kernel faulted */
        DS_PTX_TOOL_USAGE = 2,       /* the command line is invalid */
        DS_PTX_TOOL_UNSUPPORTED = 3, /* the input is valid, but cannot be executed or transformed */
};

int ds_ptx_tool_check(int argc, char **argv);
int ds_ptx_tool_print(int argc, char **argv);
int ds_ptx_tool_stats(int argc, char **argv);
int ds_ptx_tool_run(int argc, char **argv);
int ds_ptx_tool_pass(int argc, char **argv);
int ds_ptx_tool_forms(int argc, char **argv);

/* Sets whether messages on standard error are coloured: "auto" (on a terminal, unless NO_COLOR is set), "always",
 * "never". false: another word */
bool ds_ptx_tool_color(const char *when);

int ds_ptx_tool_usage(const char *message);
/* Reads, parses and validates a file; "-" is standard input. 0, or an exit code after printing the reason. */
int ds_ptx_tool_load(const char *path, struct ds_ptx_diags *diags, ds_ptx_module **ret);
void ds_ptx_tool_diags(const struct ds_ptx_diags *diags, const char *path);
/* Prints "path:line: what: message", and below it that line of the module's text with a caret under its first word. */
void ds_ptx_tool_point(
        const ds_ptx_module *module, const char *path, unsigned line, const char *what, const char *message);
/* A line of the module's text without surrounding blanks; "": there is no such line. */
const char *ds_ptx_tool_line(const ds_ptx_module *module, unsigned line, size_t *ret_length);
/* Prints the module as PTX to standard output; returns an exit code. */
int ds_ptx_tool_put(const ds_ptx_module *module);
/* Writes the buffered standard output; returns an exit code. */
int ds_ptx_tool_flush(void);
