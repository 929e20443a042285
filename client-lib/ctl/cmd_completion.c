/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl completion: the candidates that a shell shows while a user types a command
 *
 * The scripts for bash, zsh and fish only pass the typed words to `detsharectl completion candidates`. That reads the
 * table of subcommands, and gets the names of policies and clients from the daemon. So the three shells show the same
 * candidates, and a new option needs no change here. Without a daemon the names are missing.
 */
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/policy_text.h"

/* --- scripts ------------------------------------------------------------------------------------------------------ */

static const char bash_script[] =
        "# bash completion for detsharectl\n"
        "_detsharectl() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} line word\n"
        "    COMPREPLY=()\n"
        "    while IFS= read -r line; do\n"
        "        case $line in\n"
        "        :files)\n"
        "            compopt -o filenames 2>/dev/null\n"
        "            while IFS= read -r word; do COMPREPLY+=(\"$word\"); done < <(compgen -f -- \"$cur\")\n"
        "            ;;\n"
        "        :programs)\n"
        "            while IFS= read -r word; do COMPREPLY+=(\"$word\"); done < <(compgen -c -- \"$cur\")\n"
        "            ;;\n"
        "        *)\n"
        "            word=${line%%$'\\t'*}\n"
        "            [[ $word != *= ]] || compopt -o nospace 2>/dev/null\n"
        "            printf -v word %q \"$word\"\n"
        "            COMPREPLY+=(\"$word\")\n"
        "            ;;\n"
        "        esac\n"
        "    done < <(\"${COMP_WORDS[0]}\" completion candidates -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
        "}\n"
        "complete -F _detsharectl detsharectl\n";

static const char zsh_script[] =
        "#compdef detsharectl\n"
        "_detsharectl() {\n"
        "    local line\n"
        "    local -a lines described\n"
        "    lines=(\"${(@f)$($words[1] completion candidates -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
        "    for line in $lines; do\n"
        "        case $line in\n"
        "        :files) _files ;;\n"
        "        :programs) _command_names -e ;;\n"
        "        *) described+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
        "        esac\n"
        "    done\n"
        "    (( ! $#described )) || _describe detsharectl described\n"
        "}\n"
        "_detsharectl \"$@\"\n";

static const char fish_script[] =
        "# fish completion for detsharectl\n"
        "function __detsharectl_candidates\n"
        "    set -l before (commandline -opc)\n"
        "    set -l current (commandline -ct)\n"
        "    for line in ($before[1] completion candidates -- $before[2..-1] \"$current\" 2>/dev/null)\n"
        "        switch $line\n"
        "            case ':files'\n"
        "                __fish_complete_path \"$current\"\n"
        "            case ':programs'\n"
        "                complete -C \"$current\"\n"
        "            case '*'\n"
        "                echo $line\n"
        "        end\n"
        "    end\n"
        "end\n"
        "complete -c detsharectl -f -a '(__detsharectl_candidates)'\n";

static int print(const char *script)
{
        return fputs(script, stdout) < 0 || fflush(stdout) ? CTL_FAILED : CTL_OK;
}

int completion_bash(const struct ctl_args *args)
{
        return print(bash_script);
}

int completion_zsh(const struct ctl_args *args)
{
        return print(zsh_script);
}

int completion_fish(const struct ctl_args *args)
{
        return print(fish_script);
}

/* --- candidates --------------------------------------------------------------------------------------------------- */

/* The words that the user has typed, up to the one at the cursor. */
struct typed {
        const struct ctl_command *command;     /* subcommand that was typed; NULL: none yet */
        const struct ctl_command *subcommands; /* subcommands that can come next; NULL: none */
        const struct ctl_option *pending;      /* option whose value is the word at the cursor; NULL: none */
        const char *arguments[CTL_ARGUMENTS_MAX];
        size_t n;         /* number of arguments before the word at the cursor */
        int no_more;      /* "--" was typed: no more options */
        int program;      /* 1: the words at the cursor are arguments of another program */
        const char *word; /* the word at the cursor, may be "" */
};

static void offer(const struct typed *t, const char *word, const char *meaning)
{
        if (!strncmp(word, t->word, strlen(t->word)))
                printf("%s\t%s\n", word, meaning);
}

/* Returns the subcommand's option with that name; NULL: it has none. */
static const struct ctl_option *option_of(const struct typed *t, const char *word)
{
        return ctl_find_option(t->command ? t->command->options : ctl_global_options, word + 2);
}

static const struct ctl_argument *argument_of(const struct typed *t)
{
        size_t i = 0;
        if (!t->command || !t->command->arguments[0].name)
                return NULL;
        while (i < t->n && i + 1 < CTL_ARGUMENTS_MAX && t->command->arguments[i + 1].name)
                i++;
        return i == t->n || t->command->arguments[i].many ? &t->command->arguments[i] : NULL;
}

static void take_argument(struct typed *t, const char *word)
{
        const struct ctl_argument *argument = argument_of(t);
        if (argument && argument->kind == CTL_PROGRAM)
                t->program = 1;
        if (t->n < CTL_ARGUMENTS_MAX)
                t->arguments[t->n] = word;
        t->n++;
}

/* Processes one of the words before the cursor. */
static void take_word(struct typed *t, const char *word)
{
        const struct ctl_command *command = t->n ? NULL : ctl_find_command(t->subcommands, word);
        if (t->pending) {
                if (!strcmp(t->pending->name, "socket"))
                        arg_socket = word;
                t->pending = NULL;
        } else if (t->no_more || strncmp(word, "--", 2) != 0) {
                if (command && !t->no_more) {
                        t->command = command;
                        t->subcommands = command->subcommands;
                } else {
                        take_argument(t, word);
                }
        } else if (!word[2]) {
                t->no_more = 1;
        } else {
                const struct ctl_option *option = option_of(t, word);
                t->pending = option && option->kind != CTL_FLAG ? option : NULL;
        }
}

static void offer_clients(const struct typed *t, dsc_session *s)
{
        struct dsc_client *clients = NULL;
        size_t n = 0;
        char id[32], meaning[128];
        if (dsc_control_clients(s, &clients, &n))
                return;
        for (size_t i = 0; i < n; i++) {
                if (clients[i].control_only)
                        continue;
                snprintf(id, sizeof(id), "%llu", (unsigned long long)clients[i].session);
                snprintf(meaning, sizeof(meaning), "%s, class %s", clients[i].name, clients[i].is_ls ? "ls" : "be");
                offer(t, id, meaning);
                if (!clients[i].name[strcspn(clients[i].name, "\n\t")])
                        offer(t, clients[i].name, clients[i].is_ls ? "class ls" : "class be");
        }
        free(clients);
}

/* Prints the policy's parameters as candidates, for example "depth=". */
static void offer_parameters(const struct typed *t, const struct dsc_policy *policy)
{
        const char *at = policy->params;
        struct ctl_param param;
        int next;
        while ((next = ctl_next_param(&at, &param))) {
                char word[80];
                snprintf(word, sizeof(word), "%s=", param.name);
                if (next > 0)
                        offer(t, word, param.help);
        }
}

static void offer_policies(const struct typed *t, dsc_session *s, int parameters)
{
        struct dsc_policy *policies = NULL;
        size_t n = 0;
        if (dsc_control_policies(s, &policies, &n))
                return;
        for (size_t i = 0; i < n; i++) {
                if (!parameters)
                        offer(t, policies[i].name, policies[i].description);
                else if (!strcmp(policies[i].name, t->arguments[0]))
                        offer_parameters(t, &policies[i]);
        }
        free(policies);
}

static void offer_from_daemon(const struct typed *t, enum ctl_kind kind)
{
        dsc_session *s = NULL;
        if (dsc_control_open(arg_socket, 0, &s))
                return;
        if (kind == CTL_CLIENT)
                offer_clients(t, s);
        else
                offer_policies(t, s, kind == CTL_PARAMETER);
        dsc_control_close(s);
}

/* Prints the candidates for a value or argument. words: "ls|be" if the kind is CTL_WORD. */
static void offer_kind(const struct typed *t, enum ctl_kind kind, const char *words)
{
        switch (kind) {
        case CTL_WORD:
                while (*words) {
                        char word[32];
                        const size_t n = strcspn(words, "|");
                        snprintf(word, sizeof(word), "%.*s", (int)n, words);
                        offer(t, word, "");
                        words += n + (words[n] == '|');
                }
                break;
        case CTL_FILE:
                puts(":files");
                break;
        case CTL_PROGRAM:
                puts(":programs");
                break;
        case CTL_CLIENT:
        case CTL_POLICY:
        case CTL_PARAMETER:
                offer_from_daemon(t, kind);
                break;
        default:
                break;
        }
}

static void offer_options(const struct typed *t)
{
        const struct ctl_option *options = t->command ? t->command->options : ctl_global_options;
        char word[64];
        for (size_t i = 0; i < CTL_OPTIONS_MAX && options[i].name; i++) {
                snprintf(word, sizeof(word), "--%s", options[i].name);
                offer(t, word, options[i].help);
        }
        if (t->command)
                offer(t, "--help", "the help of this command");
}

static void offer_all(const struct typed *t)
{
        const struct ctl_argument *argument = argument_of(t);
        if (t->program) {
                puts(":files");
        } else if (t->pending) {
                offer_kind(t, t->pending->kind, t->pending->accepts);
        } else if (t->word[0] == '-' && !t->no_more) {
                offer_options(t);
        } else {
                for (const struct ctl_command *sub = t->n ? NULL : t->subcommands; sub && sub->name; sub++)
                        offer(t, sub->name, sub->summary);
                if (argument)
                        offer_kind(t, argument->kind, argument->words);
        }
}

int completion_candidates(const struct ctl_args *args)
{
        struct typed t = {.subcommands = ctl_commands};
        for (int i = 0; i + 1 < args->argc; i++)
                take_word(&t, args->argv[i]);
        t.word = args->argv[args->argc - 1];
        offer_all(&t);
        return fflush(stdout) ? CTL_FAILED : CTL_OK;
}
