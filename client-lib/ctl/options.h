/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of subcommands: names, options, kinds of arguments, help texts
 *
 * commands.c has the table. The parser and the help (options.c) and the completion of shells (cmd_completion.c) read
 * it, so they cannot disagree. A new subcommand or option is a row in commands.c, and a function for a subcommand.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The kind of an option's value or of an argument: decides which values the parser accepts and which a shell
 * completes. */
enum ctl_kind {
        CTL_FLAG,      /* an option without a value */
        CTL_TEXT,      /* any text */
        CTL_COUNT,     /* a whole number from min to max */
        CTL_REAL,      /* a number from min to max */
        CTL_SHARE,     /* 0, or a number from min to max */
        CTL_BYTES,     /* a number of bytes from min on; K, M, G or T may follow it */
        CTL_OBJECTIVE, /* a factor such as 1.5x, or a latency such as 5ms */
        CTL_WORD,      /* one of the words that `accepts` or `words` lists */
        CTL_FILE,      /* a path */
        CTL_CLIENT,    /* the number or the name of a session */
        CTL_POLICY,    /* the name of a policy */
        CTL_PARAMETER, /* KEY=VALUE, for the policy that the argument before it names */
        CTL_PROGRAM,   /* a program and its arguments; options end before it */
};

struct ctl_option {
        const char *name;  /* without "--" */
        const char *value; /* name of the value in the help; NULL for a flag */
        enum ctl_kind kind;
        double min, max; /* accepted range of numbers; max of CTL_TEXT: most bytes, 0 = any */
        /* accepted values, in words, for error messages: "a number of milliseconds"; for CTL_WORD "ls|be" */
        const char *accepts;
        const char *help;
};

struct ctl_argument {
        const char *name; /* name of the argument in the help */
        enum ctl_kind kind;
        const char *words; /* CTL_WORD: "ls|be", else NULL */
        int optional, many;
};

#define CTL_OPTIONS_MAX 12
#define CTL_ARGUMENTS_MAX 3

struct ctl_args;

struct ctl_command {
        const char *name, *summary;
        const char *help; /* longer description for the help; NULL: none */
        int (*run)(const struct ctl_args *args);
        /* table of subcommands, ended by an entry without a name; NULL: none */
        const struct ctl_command *subcommands;
        struct ctl_option options[CTL_OPTIONS_MAX];       /* ended by an entry without a name */
        struct ctl_argument arguments[CTL_ARGUMENTS_MAX]; /* ended by an entry without a name */
};

/* The options and arguments of the command line. */
struct ctl_args {
        const struct ctl_command *command;
        char path[48];                     /* names of the subcommand, for example "profile list" */
        const char *text[CTL_OPTIONS_MAX]; /* value of each option, "" for a flag; NULL: not given */
        double number[CTL_OPTIONS_MAX];    /* value of each numeric option; for CTL_WORD the index of the word */
        uint64_t bytes[CTL_OPTIONS_MAX];   /* value of each CTL_BYTES option */
        char **argv;                       /* arguments without options, ended by NULL */
        int argc;
};

extern const struct ctl_command ctl_commands[]; /* table of subcommands, ended by an entry without a name */
/* options that stand before the subcommand, ended by an entry without a name */
extern const struct ctl_option ctl_global_options[];

/* Return the row with that name, or NULL. commands: such a table, or NULL for an empty one. */
const struct ctl_command *ctl_find_command(const struct ctl_command *commands, const char *name);
const struct ctl_option *ctl_find_option(const struct ctl_option *options, const char *name);

/*
 * Runs the subcommand that argv names, after checking its options and arguments. argv[0] is the subcommand's name.
 * Returns the exit code; prints errors.
 */
int ctl_dispatch(int argc, char **argv);
void ctl_print_help(void); /* prints the help of detsharectl as a whole */

/* Read an option by its name, which the subcommand's row must have. ctl_given() returns 1 if the user gave it. */
int ctl_given(const struct ctl_args *args, const char *name);
const char *ctl_value(const struct ctl_args *args, const char *name); /* value of the option; NULL: not given */
double ctl_number(const struct ctl_args *args, const char *name, double otherwise);
uint64_t ctl_value_bytes(const struct ctl_args *args, const char *name); /* number of bytes; 0: not given */

/* A blank in a text at which ctl_wrap() does not break the line. */
#define CTL_HARD_BLANK "\001"

/* *ret: options and arguments for the usage line, such as "[--json] [--wide] CLIENT". */
void ctl_synopsis(const struct ctl_command *command, char *ret, size_t size);
