/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl from the inside: what its commands share
 *
 * One command per file, one row per command in main.c. A command gets its own argv (argv[0] is its name), returns an
 * exit code, and writes to stdout only when it has succeeded; words about a failure go to stderr and begin with
 * `detsharectl: `.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/control.h"

enum ctl_exit {
        CTL_OK = 0,
        CTL_FAILED = 1,
        CTL_USAGE = 2,
        CTL_UNSUPPORTED = 3,
        CTL_DENIED = 4,
        CTL_NO_SUCH = 6,
        CTL_UNREACHABLE = 9,
        CTL_CANNOT_EXECUTE = 126, /* run only, as a shell does */
        CTL_NOT_FOUND = 127,
};

struct ctl_command {
        const char *name, *arguments, *summary;
        const char *help; /* further lines, may be NULL */
        int (*run)(const struct ctl_command *self, int argc, char **argv);
};

extern const char *arg_socket; /* --socket, NULL = the environment's or the default */

/* --- main.c, error.c --- */

int ctl_help(const struct ctl_command *command); /* to stdout; CTL_OK */
/* A line on stderr, and how to get help. Returns CTL_USAGE. */
__attribute__((format(printf, 1, 2))) int ctl_usage(const char *format, ...);
/* A line on stderr. */
__attribute__((format(printf, 1, 2))) void ctl_complain(const char *format, ...);
/* Say what went wrong with a request (a non-zero dsc_control_ result). what: "cannot kill session 5". Returns the exit
 * code. */
__attribute__((format(printf, 2, 3))) int ctl_fail(int error, const char *format, ...);
/* 0 and a control session, or an exit code after the words. */
int ctl_open(dsc_session **ret);
int ctl_open_as(int ls, dsc_session **ret); /* asking for class ls */

/*
 * The options that every command takes: --help, and --json when ret_json is not NULL. -1 to go on (optind is the
 * first argument), else the exit code. n_min and n_max bound the arguments; n_max -1 = any number.
 */
int ctl_options(const struct ctl_command *command, int argc, char **argv, int *ret_json, int n_min, int n_max);
/* A session's number. 0, or CTL_USAGE after the words. */
int ctl_parse_id(const char *text, uint64_t *ret);
/* "ls" or "be". 0, or CTL_USAGE after the words. */
int ctl_parse_class(const char *text, int *ret_ls);

/* --- text.c: output is gathered first and printed at once, when nothing can fail any more --- */

struct ctl_text {
        FILE *file;
        char *bytes;
        size_t size;
        int depth, first; /* JSON */
};

int ctl_text_open(struct ctl_text *text); /* 0, or CTL_FAILED after the words */
/* To stdout when r is 0, else nowhere: a text that could not be finished is not shown. Returns r, or CTL_FAILED after
 * the words when it could not be written. */
int ctl_text_close(struct ctl_text *text, int r);

void ctl_json_quote(FILE *file, const char *value); /* a string with its quotes */
void ctl_json_begin(
        struct ctl_text *text, const char *key, char bracket); /* '{' or '['; key NULL in arrays and at the top */
void ctl_json_end(struct ctl_text *text, char bracket);        /* '}' or ']' */
void ctl_json_string(struct ctl_text *text, const char *key, const char *value);
void ctl_json_number(struct ctl_text *text, const char *key, uint64_t value);
void ctl_json_bool(struct ctl_text *text, const char *key, int value);

/* "1.5 GiB" and "3:02:11"; static per call site's buffer. */
const char *ctl_bytes(uint64_t bytes, char buffer[static 32]);
const char *ctl_duration(uint64_t ns, char buffer[static 32]);

/* --- table.c: boxes around smartcols --- */

struct libscols_table;

struct libscols_table *ctl_table_new(int headings);
void ctl_table_free(struct libscols_table *table);
void ctl_table_column(struct libscols_table *table, const char *name, int right);
/* One row: as many strings as columns. 0, or CTL_FAILED after the words. */
int ctl_table_row(struct libscols_table *table, const char *const *cells);
int ctl_table_draw(struct libscols_table *table, struct ctl_text *text);

/* --- shared by status and clients --- */

int ctl_clients_table(const struct dsc_client *clients, size_t n, struct ctl_text *text);
void ctl_clients_json(const struct dsc_client *clients, size_t n, struct ctl_text *text);

/* cmd_lut.c: where tables of memory channels are installed. 0, or -1: nowhere. */
int ctl_lut_dir(char *ret, size_t size);

/* A client by number or name among those that the caller sees. 0, or an exit code after the words. */
int ctl_find_client(dsc_session *s, const char *text, struct dsc_client *ret);
/* "312 us", "2.31 ms" */
const char *ctl_time(uint64_t ns, char buffer[static 32]);
/* "12K" in bytes. 0, or -1. */
int ctl_parse_bytes(const char *text, uint64_t *ret);

int cmd_calibrate(const struct ctl_command *self, int argc, char **argv);
int cmd_clients(const struct ctl_command *self, int argc, char **argv);
int cmd_explain(const struct ctl_command *self, int argc, char **argv);
int cmd_kill(const struct ctl_command *self, int argc, char **argv);
int cmd_lut(const struct ctl_command *self, int argc, char **argv);
int cmd_policies(const struct ctl_command *self, int argc, char **argv);
int cmd_profile(const struct ctl_command *self, int argc, char **argv);
int cmd_run(const struct ctl_command *self, int argc, char **argv);
int cmd_set_class(const struct ctl_command *self, int argc, char **argv);
int cmd_set_policy(const struct ctl_command *self, int argc, char **argv);
int cmd_status(const struct ctl_command *self, int argc, char **argv);
int cmd_top(const struct ctl_command *self, int argc, char **argv);
int cmd_trace(const struct ctl_command *self, int argc, char **argv);
int cmd_version(const struct ctl_command *self, int argc, char **argv);
