/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations that the subcommands of detsharectl share
 *
 * One file per subcommand, one row per subcommand in commands.c. A subcommand gets its parsed options, returns an exit
 * code, and writes to stdout only if it succeeds. Errors go to stderr and begin with `detsharectl: `.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/control.h"
#include "ctl/options.h"

enum ctl_exit {
        CTL_OK = 0,
        CTL_FAILED = 1,
        CTL_USAGE = 2,
        CTL_UNSUPPORTED = 3,
        CTL_DENIED = 4,
        CTL_NO_SUCH = 6,
        CTL_UNREACHABLE = 9,
        CTL_CANNOT_EXECUTE = 126, /* only of `run`, as in a shell */
        CTL_NOT_FOUND = 127,
};

extern const char *arg_socket; /* --socket; NULL = DETSHARE_SOCKET or the default */
extern int arg_wide;           /* --wide: tables and lines may be wider than the terminal */

/* --- error.c: errors and exit codes, and the connection to the daemon --- */

/* Print an error, and the command that prints the help. Returns CTL_USAGE. */
__attribute__((format(printf, 1, 2))) int ctl_usage(const char *format, ...);
/* Sets the subcommand ("profile list") whose help ctl_usage() points to. */
void ctl_usage_of(const char *path);
/* Print an error. */
__attribute__((format(printf, 1, 2))) void ctl_complain(const char *format, ...);
/* Prints the error of a request (a non-zero result of dsc_control_...()). The format names the failed action:
 * "cannot kill session 5". Returns the exit code. */
__attribute__((format(printf, 2, 3))) int ctl_fail(int error, const char *format, ...);
/* Opens a control session with the daemon. 0, or an exit code after an error message. */
int ctl_open(dsc_session **ret);
/* opens a control session with the daemon; ls: 1 requests class LS for it */
int ctl_open_as(int ls, dsc_session **ret);

/* --- text.c: the output is collected in memory and printed at once -------------------------- */

struct ctl_text {
        FILE *file;
        char *bytes;
        size_t size;
        int depth, first; /* nesting depth, and 1 before the first member: state of the JSON writer */
};

int ctl_text_open(struct ctl_text *text); /* 0, or CTL_FAILED after an error message */
/* Prints the collected text to stdout if r is 0, and frees it. Returns r, or CTL_FAILED after an error message if
 * writing failed. */
int ctl_text_close(struct ctl_text *text, int r);

void ctl_json_quote(FILE *file, const char *value); /* writes a JSON string with its quotes */
void ctl_json_begin(
        /* opens an object '{' or an array '['; key NULL in arrays and at the top */
        struct ctl_text *text, const char *key, char bracket);
void ctl_json_end(struct ctl_text *text, char bracket); /* closes an object '}' or an array ']' */
void ctl_json_string(struct ctl_text *text, const char *key, const char *value);
void ctl_json_number(struct ctl_text *text, const char *key, uint64_t value);
void ctl_json_signed(struct ctl_text *text, const char *key, int64_t value);
void ctl_json_bool(struct ctl_text *text, const char *key, int value);
/* Writes a session's objectives: slo_ns, slo_permille and the same for ttft and tpot. */
void ctl_json_objective(struct ctl_text *text, const struct ds_slo *slo);

/* Write a size ("1.5 GiB") or a duration ("3:02:11") into the caller's buffer, and return the buffer. */
const char *ctl_bytes(uint64_t bytes, char buffer[static 32]);
const char *ctl_duration(uint64_t ns, char buffer[static 32]);

/* --- screen.c: the width of the output, lines that fit it, colours --- */

#define CTL_HELP_WIDTH 80

/* Returns the width of the output in columns: the terminal's; if stdout is no terminal, COLUMNS or 80; SIZE_MAX with
 * --wide. */
size_t ctl_width(void);
/* Returns the columns that the text takes on a terminal; escape sequences of colours take none. */
size_t ctl_display_width(const char *text, size_t bytes);
/*
 * Print text in lines of at most `width` columns, broken at blanks where possible, and a newline at the end. The first
 * line begins in column `at`; the others are indented by `indent`. Control characters become '?'; newlines stay.
 */
void ctl_wrap(FILE *file, const char *text, size_t at, size_t indent, size_t width);
/* As ctl_wrap(), but returns the text as a malloc'ed string for a cell of a table. NULL: out of memory. */
char *ctl_wrapped(const char *text, size_t width);

enum ctl_colour {
        CTL_PLAIN,
        CTL_BOLD,
        CTL_GOOD, /* green */
        CTL_WARN, /* yellow */
        CTL_BAD,  /* red */
        CTL_LS,   /* cyan: class ls */
        CTL_FAINT,
};

/* 1: the terminal behind fd shows colours. 0 if it is no terminal, TERM is dumb, or NO_COLOR is not empty. */
int ctl_has_colours(int fd);
/* Returns the escape sequence that begins the colour on stdout, or ends it (CTL_PLAIN); "" if stdout shows no
 * colours. */
const char *ctl_colour(enum ctl_colour colour);
enum ctl_colour ctl_class_colour(const char *class_name);

/* --- table.c: tables in boxes, drawn by smartcols --- */

struct ctl_table;

struct ctl_column {
        const char *name;
        int right;   /* 1: cells are aligned to the right */
        size_t wrap; /* wrap, drop: see ctl_table_may() */
        int drop;
};

struct ctl_table *ctl_table_new(int headings);
void ctl_table_free(struct ctl_table *table);
void ctl_table_column(struct ctl_table *table, const char *name, int right);
/*
 * Sets what happens to the last added column if the table is wider than ctl_width(). wrap: its cells may be broken into
 * lines of at least that many columns; 0 = never. drop: rank in which columns are left out, the highest first; 0 =
 * never.
 */
void ctl_table_may(struct ctl_table *table, size_t wrap, int drop);
/* Appends n columns. */
void ctl_table_columns(struct ctl_table *table, const struct ctl_column *columns, size_t n);
/* Change the drop rank of a column, counted from 0. */
void ctl_table_rank(struct ctl_table *table, size_t column, int drop);
/* Append a row: one string per column. 0, or CTL_FAILED after an error message. */
int ctl_table_row(struct ctl_table *table, const char *const *cells);
/* Set the colour of a cell of the last row. */
void ctl_table_colour(struct ctl_table *table, size_t column, enum ctl_colour colour);
/* Appends the table to the text, and a line with the names of the columns that did not fit. 0, or CTL_FAILED after
 * an error message. */
int ctl_table_draw(struct ctl_table *table, struct ctl_text *text);

/* --- used by several subcommands ---- */

int ctl_clients_table(const struct dsc_client *clients, size_t n, struct ctl_text *text);
void ctl_clients_json(const struct dsc_client *clients, size_t n, struct ctl_text *text);

/* Prints the names of the policies on stderr (cmd_policies.c). */
void ctl_say_policies(const struct dsc_policy *policies, size_t n);

/* *ret: the directory with the installed tables of memory channels (cmd_lut.c). 0, or -1 if there is none. */
int ctl_lut_dir(char *ret, size_t size);

/*
 * *ret: the client with that number or name, among those that the caller may see. 0, or an exit code after an error
 * message: CTL_NO_SUCH, or CTL_FAILED if several clients have that name.
 */
int ctl_find_client(dsc_session *s, const char *text, struct dsc_client *ret);
/* *ret: the number of the client with that name. A number is returned unchanged, even if no client has it. */
int ctl_find_id(dsc_session *s, const char *text, uint64_t *ret);
/* Replaces the mangled kernel name in the fault's line by the C++ name, if that succeeds within a second
 * (fault_words.c). */
void ctl_fault_demangle(struct dsc_fault *fault);
/* Writes a time such as "312 us" or "2.31 ms" into the buffer and returns it. */
const char *ctl_time(uint64_t ns, char buffer[static 32]);
/* Parses a size such as "12K". 0 and *ret in bytes, or -1. */
int ctl_parse_bytes(const char *text, uint64_t *ret);

int cmd_calibrate(const struct ctl_args *args);
int cmd_clients(const struct ctl_args *args);
int cmd_explain(const struct ctl_args *args);
int cmd_kill(const struct ctl_args *args);
int cmd_policies(const struct ctl_args *args);
int cmd_run(const struct ctl_args *args);
int cmd_set_class(const struct ctl_args *args);
int cmd_set_policy(const struct ctl_args *args);
int cmd_status(const struct ctl_args *args);
int cmd_top(const struct ctl_args *args);
int cmd_version(const struct ctl_args *args);
int completion_bash(const struct ctl_args *args);
int completion_candidates(const struct ctl_args *args);
int completion_fish(const struct ctl_args *args);
int completion_zsh(const struct ctl_args *args);
int lut_list(const struct ctl_args *args);
int lut_show(const struct ctl_args *args);
int lut_verify(const struct ctl_args *args);
int trace_start(const struct ctl_args *args);
int trace_stop(const struct ctl_args *args);
