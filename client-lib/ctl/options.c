/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of all subcommands' options and arguments, and the help
 */
#include "ctl/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

#define HELP_COLUMN 24 /* column in which the help text of an option begins */

int arg_wide;

/* --- values ------------------------------------------------------------------------------------------------------- */

static int is_number(const char *text, double *ret)
{
        char *end;
        errno = 0;
        *ret = strtod(text, &end);
        return end != text && !*end && !errno;
}

/* 1: the text is one of the words of a list like "ls|be"; *ret is its index, from 0. */
static int is_word(const char *text, const char *words, double *ret)
{
        const size_t n = strlen(text);
        for (*ret = 0; *words; *ret += 1) {
                const size_t length = strcspn(words, "|");
                if (n == length && !strncmp(text, words, n))
                        return 1;
                words += length + (words[length] == '|');
        }
        return 0;
}

static int is_accepted(const struct ctl_option *option, const char *text, double *number, uint64_t *bytes)
{
        uint64_t ns;
        uint32_t permille;
        switch (option->kind) {
        case CTL_COUNT:
                return text[strspn(text, "0123456789")] == '\0' && is_number(text, number) && *number >= option->min &&
                       *number <= option->max;
        case CTL_REAL:
                return is_number(text, number) && *number >= option->min && *number <= option->max;
        case CTL_SHARE:
                return is_number(text, number) && (*number == 0 || *number >= option->min) && *number <= option->max;
        case CTL_BYTES:
                return !ctl_parse_bytes(text, bytes) && (double)*bytes >= option->min;
        case CTL_OBJECTIVE:
                return !ds_slo_parse(text, &ns, &permille);
        case CTL_WORD:
                return is_word(text, option->accepts, number);
        case CTL_TEXT:
                return !option->max || strlen(text) <= (size_t)option->max;
        default:
                return 1;
        }
}

static int refuse(const struct ctl_args *args, const struct ctl_option *option, const char *text)
{
        char range[64] = "";
        if (option->kind == CTL_WORD)
                return ctl_usage("%s: --%s takes one of %s, not %s", args->path, option->name, option->accepts, text);
        if (option->kind == CTL_SHARE)
                snprintf(range, sizeof(range), " from %g to %g, or 0 for none", option->min, option->max);
        else if (option->kind == CTL_COUNT || option->kind == CTL_REAL)
                snprintf(range, sizeof(range), " from %.15g to %.15g", option->min, option->max);
        return ctl_usage("%s: --%s takes %s%s, not %s", args->path, option->name, option->accepts, range, text);
}

/* --- options and arguments ---------------------------------------------------------------------------------------- */

static size_t count_options(const struct ctl_option *options)
{
        size_t n = 0;
        while (n < CTL_OPTIONS_MAX && options[n].name)
                n++;
        return n;
}

static size_t count_arguments(const struct ctl_argument *arguments)
{
        size_t n = 0;
        while (n < CTL_ARGUMENTS_MAX && arguments[n].name)
                n++;
        return n;
}

static int has_program(const struct ctl_command *command)
{
        const size_t n = count_arguments(command->arguments);
        return n > 0 && command->arguments[n - 1].kind == CTL_PROGRAM;
}

static int take_option(struct ctl_args *args, size_t i, const char *text)
{
        const struct ctl_option *option = &args->command->options[i];
        args->text[i] = text ? text : "";
        if (option->kind != CTL_FLAG && !is_accepted(option, text, &args->number[i], &args->bytes[i]))
                return refuse(args, option, text);
        return 0;
}

static int check_arguments(struct ctl_args *args)
{
        const struct ctl_argument *arguments = args->command->arguments;
        const size_t n = count_arguments(arguments);
        double which;
        for (size_t i = 0; i < n; i++) {
                const int given = (int)i < args->argc;
                if (!given && !arguments[i].optional && arguments[i].kind == CTL_PROGRAM)
                        return ctl_usage("%s: which command?", args->path);
                if (!given && !arguments[i].optional)
                        return ctl_usage("%s: an argument is missing: %s", args->path, arguments[i].name);
                if (given && arguments[i].kind == CTL_WORD && !is_word(args->argv[i], arguments[i].words, &which))
                        return ctl_usage("%s: %s takes one of %s, not %s", args->path, arguments[i].name,
                                arguments[i].words, args->argv[i]);
        }
        if (args->argc > (int)n && !(n && arguments[n - 1].many))
                return ctl_usage("%s: too many arguments: %s", args->path, args->argv[n]);
        return 0;
}

static void print_command_help(const struct ctl_command *command, const char *path);

/* Parses options and arguments of the subcommand. -1: continue; else the exit code. */
static int parse(struct ctl_args *args, int argc, char **argv)
{
        const struct ctl_option *options = args->command->options;
        const size_t n = count_options(options);
        struct option list[CTL_OPTIONS_MAX + 2] = {{"help", no_argument, NULL, 'h'}};
        int c;
        for (size_t i = 0; i < n; i++)
                list[i + 1] = (struct option){options[i].name,
                        options[i].kind == CTL_FLAG ? no_argument : required_argument, NULL, 256 + (int)i};
        optind = 0;
        while ((c = getopt_long(argc, argv, has_program(args->command) ? "+:h" : ":h", list, NULL)) >= 0) {
                if (c == 'h') {
                        print_command_help(args->command, args->path);
                        return CTL_OK;
                }
                if (c == ':')
                        return ctl_usage("%s: option %s needs a value", args->path, argv[optind - 1]);
                if (c < 256)
                        return ctl_usage("%s: unknown option %s", args->path, argv[optind - 1]);
                const int code = take_option(args, (size_t)c - 256, optarg);
                if (code)
                        return code;
        }
        args->argv = argv + optind;
        args->argc = argc - optind;
        const int code = check_arguments(args);
        return code ? code : -1;
}

const struct ctl_option *ctl_find_option(const struct ctl_option *options, const char *name)
{
        for (size_t i = 0; i < CTL_OPTIONS_MAX && options[i].name; i++)
                if (!strcmp(options[i].name, name))
                        return &options[i];
        return NULL;
}

/* Returns the index of an option that the subcommand's row has and the user gave, else CTL_OPTIONS_MAX. */
static size_t find_given(const struct ctl_args *args, const char *name)
{
        const struct ctl_option *option = ctl_find_option(args->command->options, name);
        const size_t i = option ? (size_t)(option - args->command->options) : CTL_OPTIONS_MAX;
        return i < CTL_OPTIONS_MAX && args->text[i] ? i : CTL_OPTIONS_MAX;
}

int ctl_given(const struct ctl_args *args, const char *name)
{
        return ctl_value(args, name) != NULL;
}

const char *ctl_value(const struct ctl_args *args, const char *name)
{
        const size_t i = find_given(args, name);
        return i < CTL_OPTIONS_MAX ? args->text[i] : NULL;
}

double ctl_number(const struct ctl_args *args, const char *name, double otherwise)
{
        const size_t i = find_given(args, name);
        return i < CTL_OPTIONS_MAX ? args->number[i] : otherwise;
}

uint64_t ctl_value_bytes(const struct ctl_args *args, const char *name)
{
        const size_t i = find_given(args, name);
        return i < CTL_OPTIONS_MAX ? args->bytes[i] : 0;
}

/* --- dispatch ----------------------------------------------------------------------------------------------------- */

const struct ctl_command *ctl_find_command(const struct ctl_command *commands, const char *name)
{
        for (; commands && commands->name; commands++)
                if (!strcmp(commands->name, name))
                        return commands;
        return NULL;
}

static void extend_path(struct ctl_args *args, const char *name)
{
        const size_t n = strlen(args->path);
        snprintf(args->path + n, sizeof(args->path) - n, "%s%s", n ? " " : "", name);
        ctl_usage_of(args->path);
}

/* Prints an error for a word where only a subcommand is accepted. */
static int no_subcommand(const struct ctl_args *args, const char *word)
{
        char names[256] = "";
        size_t at = 0;
        for (const struct ctl_command *sub = args->command->subcommands; sub->name; sub++)
                at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", at ? ", " : "", sub->name);
        if (!word)
                return ctl_usage("%s: an argument is missing: one of %s", args->path, names);
        return ctl_usage("%s: there is no subcommand %s; there are %s", args->path, word, names);
}

int ctl_dispatch(int argc, char **argv)
{
        struct ctl_args args = {.command = ctl_find_command(ctl_commands, argv[0])};
        if (!args.command)
                return ctl_usage("unknown command %s", argv[0]);
        extend_path(&args, argv[0]);
        while (argc > 1 && ctl_find_command(args.command->subcommands, argv[1])) {
                args.command = ctl_find_command(args.command->subcommands, argv[1]);
                argc--;
                argv++;
                extend_path(&args, argv[0]);
        }
        const int asks_help = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
        if (!args.command->run && !asks_help)
                return no_subcommand(&args, argc > 1 ? argv[1] : NULL);
        const int code = parse(&args, argc, argv);
        if (code >= 0)
                return code;
        arg_wide = arg_wide || ctl_given(&args, "wide");
        return args.command->run(&args);
}

/* --- help --------------------------------------------------------------------------------------------------------- */

void ctl_synopsis(const struct ctl_command *command, char *ret, size_t size)
{
        size_t at = 0;
        ret[0] = '\0';
#define ADD(...) at += at < size ? (size_t)snprintf(ret + at, size - at, __VA_ARGS__) : 0
        for (size_t i = 0; i < count_options(command->options); i++) {
                const struct ctl_option *option = &command->options[i];
                ADD("%s[--%s%s%s]", at ? " " : "", option->name, option->value ? CTL_HARD_BLANK : "",
                        option->value ? option->value : "");
        }
        if (has_program(command))
                ADD("%s--" CTL_HARD_BLANK, at ? " " : "");
        for (size_t i = 0; i < count_arguments(command->arguments); i++) {
                const struct ctl_argument *argument = &command->arguments[i];
                ADD("%s%s%s%s%s", at && ret[at - 1] != CTL_HARD_BLANK[0] ? " " : "", argument->optional ? "[" : "",
                        argument->name, argument->many ? "..." : "", argument->optional ? "]" : "");
        }
#undef ADD
}

static void print_option(const char *name, const char *value, const char *help)
{
        char left[64];
        const int n = snprintf(left, sizeof(left), "  --%s%s%s", name, value ? " " : "", value ? value : "");
        printf("%s%*s", left, n < HELP_COLUMN ? HELP_COLUMN - n : 1, "");
        ctl_wrap(stdout, help, HELP_COLUMN, HELP_COLUMN, CTL_HELP_WIDTH);
}

static void print_usage_line(const struct ctl_command *command, const char *path)
{
        char synopsis[512], line[640];
        ctl_synopsis(command, synopsis, sizeof(synopsis));
        snprintf(line, sizeof(line), "usage: detsharectl [--socket PATH] %s%s%s", path, synopsis[0] ? " " : "",
                synopsis);
        ctl_wrap(stdout, line, 0, 11, CTL_HELP_WIDTH);
}

static void print_subcommands(const struct ctl_command *sub, const char *path)
{
        char synopsis[512], line[640];
        printf("\n");
        for (; sub->name; sub++) {
                ctl_synopsis(sub, synopsis, sizeof(synopsis));
                snprintf(line, sizeof(line), "  %s %s %s", path, sub->name, synopsis);
                ctl_wrap(stdout, line, 0, 10, CTL_HELP_WIDTH);
                printf("      ");
                ctl_wrap(stdout, sub->summary, 6, 6, CTL_HELP_WIDTH);
        }
}

static void print_command_help(const struct ctl_command *command, const char *path)
{
        const size_t n = count_options(command->options);
        if (command->run)
                print_usage_line(command, path);
        else
                printf("usage: detsharectl [--socket PATH] %s SUBCOMMAND ...\n", path);
        printf("\n%s\n", command->summary);
        if (command->help) {
                printf("\n");
                ctl_wrap(stdout, command->help, 0, 0, CTL_HELP_WIDTH);
        }
        if (n)
                printf("\n");
        for (size_t i = 0; i < n; i++)
                print_option(command->options[i].name, command->options[i].value, command->options[i].help);
        if (command->subcommands)
                print_subcommands(command->subcommands, path);
}

void ctl_print_help(void)
{
        printf("usage: detsharectl [--socket PATH] COMMAND [ARGUMENT...]\n\n");
        for (const struct ctl_command *command = ctl_commands; command->name; command++)
                printf("  %-12s %s\n", command->name, command->summary);
        printf("\n");
        for (const struct ctl_option *option = ctl_global_options; option->name; option++)
                print_option(option->name, option->value, option->help);
        printf("\nexit status: 0 done, 1 failed, 2 usage, 3 unsupported, 4 permission denied, 6 no such object,\n"
               "9 daemon unreachable\n");
}
