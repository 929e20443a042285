/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment: a session's options, and what is wrong with them
 *
 * variables.def has every variable. A wrong value is refused when the process connects, with the values that are
 * accepted: a limit that silently does not hold is worse than a program that does not start. An unknown variable is
 * only warned about, once per process, because it may belong to a newer version.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/internal.h"

#define DEFAULT_SOCKET "/run/detshare/detshared.sock"
#define PREFIX_BYTES 9u    /* length of "DETSHARE_" */
#define WARNINGS_MAX 8u    /* most unknown variables that are named */
#define NAME_MAX_BYTES 40u /* longest name that is compared with known ones */
/* largest number of edits (insert, delete, replace a character) between a name and the one that the warning suggests */
#define DISTANCE_MAX 2u

static const struct {
        const char *name, *accepted, *example;
} variables[] = {
#define VARIABLE(name, accepted, example, preset) {name, accepted, example},
#define FOREIGN(name)
#define PREFIX(beginning)
#include "core/variables.def"
};
#define N_VARIABLES (sizeof(variables) / sizeof(variables[0]))

static const char *const foreign[] = {
#define VARIABLE(name, accepted, example, preset)
#define FOREIGN(name) name,
#define PREFIX(beginning)
#include "core/variables.def"
};

static const char *const prefixes[] = {
#define VARIABLE(name, accepted, example, preset)
#define FOREIGN(name)
#define PREFIX(beginning) beginning,
#include "core/variables.def"
};

/* --- values --- */

/* Parses "64", "64K", "64M", "64G", "64T" as bytes. 0: not such a number, or too large. */
static uint64_t scaled(const char *text)
{
        static const char suffixes[] = "kmgt";
        char *end;
        if (text[0] < '0' || text[0] > '9')
                return 0;
        errno = 0;
        const unsigned long long n = strtoull(text, &end, 10);
        const char *suffix = *end ? strchr(suffixes, *end | 0x20) : NULL;
        const unsigned shift = suffix ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
        if (errno || (*end && (!suffix || end[1])) || n > UINT64_MAX >> shift)
                return 0;
        return (uint64_t)n << shift;
}

/*
 * Parses a decimal number, in any locale, as a number of 1 / unit; later digits are ignored: with the unit 1000 "2.5"
 * is 2500. 0: not such a number, or a digit follows a number that is larger than `most`.
 */
static uint64_t decimal(const char *text, uint64_t unit, uint64_t most)
{
        uint64_t n = 0;
        bool point = false;
        for (const char *c = text; *c; c++) {
                if (*c == '.' && !point) {
                        point = true;
                        continue;
                }
                if (*c < '0' || *c > '9' || n > most)
                        return 0;
                const uint64_t digit = (uint64_t)(*c - '0');
                unit /= point ? 10 : 1;
                n = point ? n + digit * unit : n * 10 + digit * unit;
        }
        return n;
}

/* Parses milliseconds as ns: "2.5" is 2,500,000. 0: not such a number, or too large. */
static uint64_t milliseconds(const char *text)
{
        return decimal(text, 1000000, UINT64_MAX / 100);
}

/* Parses a whole number. The daemon refuses values above 100, and names the accepted range. */
static uint64_t whole(const char *text)
{
        char *end;
        errno = 0;
        const unsigned long long n = strtoull(text, &end, 10);
        return errno || *end || text[0] < '0' || text[0] > '9' ? 0 : n > UINT32_MAX ? UINT32_MAX : n;
}

/* Parses a share as thousandths: "0.5" is 500; digits after the third are ignored. 0: not such a number, or above 1. */
static uint64_t thousandths(const char *text)
{
        const uint64_t n = decimal(text, 1000, DSC__SHARE_ALL);
        return n > DSC__SHARE_ALL ? 0 : n;
}

/* Reads a numeric variable; 0 if it is missing, empty or zero. The first wrong value is noted in `o`, so that
 * connecting fails. */
static uint64_t number(struct dsc__options *o, const char *name, uint64_t (*parse)(const char *))
{
        const char *text = getenv(name);
        if (!text || !text[0] || text[strspn(text, "0")] == '\0')
                return 0;
        const uint64_t n = parse(text);
        if (!n && !o->bad_variable)
                o->bad_variable = name;
        return n;
}

/* 1: the variable's value is `wanted`. A value other than `wanted`, `other`, "" or 0 is noted as wrong. */
static bool word(struct dsc__options *o, const char *name, const char *wanted, const char *other)
{
        const char *text = getenv(name);
        if (!text || !text[0] || !strcmp(text, "0"))
                return false;
        if (strcasecmp(text, wanted) && strcasecmp(text, other))
                o->bad_variable = name;
        return !strcasecmp(text, wanted);
}

/* Reads an objective: a factor or a latency in one variable, milliseconds in the other. Of two latencies the stricter
 * one holds. */
static void objective(struct dsc__options *o, enum ds_slo_kind kind, const char *name, const char *name_ms)
{
        const char *text = getenv(name);
        uint64_t *ns = &o->slo.ns[kind], ms = number(o, name_ms, milliseconds);
        if (text && text[strspn(text, "0")] && ds_slo_parse(text, ns, &o->slo.permille[kind]) && !o->bad_variable)
                o->bad_variable = name;
        *ns = !*ns || (ms && ms < *ns) ? ms : *ns;
}

static uint32_t phase(struct dsc__options *o, const char *name)
{
        static const char *const words[] = {"none", "prefill", "decode"};
        const char *text = getenv(name);
        if (!text || !text[0] || !strcmp(text, "0"))
                return 0;
        for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                if (!strcasecmp(text, words[i]))
                        return i;
        o->bad_variable = name;
        return 0;
}

int dsc_fallback_native(void)
{
        const char *value = getenv("DETSHARE_FALLBACK");
        return value && strcasecmp(value, "native") == 0;
}

void dsc__options_from_environment(struct dsc__options *options)
{
        const char *name = getenv("DETSHARE_NAME"), *path = getenv("DETSHARE_SOCKET");
        *options = (struct dsc__options){.path = path && path[0] ? path : DEFAULT_SOCKET};
        objective(options, DS_SLO_LATENCY, "DETSHARE_SLO", "DETSHARE_SLO_MS");
        objective(options, DS_SLO_TTFT, "DETSHARE_TTFT", "DETSHARE_TTFT_MS");
        objective(options, DS_SLO_TPOT, "DETSHARE_TPOT", "DETSHARE_TPOT_MS");
        options->memory_limit = number(options, "DETSHARE_MEM_LIMIT", scaled);
        options->sm_percent = (uint32_t)number(options, "DETSHARE_SM_PERCENT", whole);
        options->gpu_request = (uint32_t)number(options, "DETSHARE_GPU_REQUEST", thousandths);
        options->gpu_limit = (uint32_t)number(options, "DETSHARE_GPU_LIMIT", thousandths);
        options->phase = phase(options, "DETSHARE_PHASE");
        options->class_ = word(options, "DETSHARE_CLASS", "ls", "be") ? DETSHARE__CLASS__LS : DETSHARE__CLASS__BE;
        options->socket_only = word(options, "DETSHARE_TRANSPORT", "rpc", "ring");
        /* other files use these variables; these calls only check their values */
        word(options, "DETSHARE_REGISTER", "replace", "copy");
        word(options, "DETSHARE_FALLBACK", "native", "native");
        word(options, "DETSHARE_NOTES", "off", "on");
        snprintf(options->name, sizeof(options->name), "%s", name && name[0] ? name : program_invocation_short_name);
}

bool dsc__notes(void)
{
        const char *value = getenv("DETSHARE_NOTES");
        return !value || (strcasecmp(value, "off") && strcmp(value, "0"));
}

void dsc__variable_refuse(const char *name)
{
        size_t i = 0;
        while (i + 1 < N_VARIABLES && strcmp(variables[i].name, name))
                i++;
        dsc__message("%s=%s: expected %s%s%s", name, getenv(name), variables[i].accepted,
                variables[i].example[0] ? ", for example " : "", variables[i].example);
}

/* --- names --- */

/* Returns the least number of insertions, deletions and replacements of characters that make `a` equal to `b`. */
static unsigned distance(const char *a, const char *b)
{
        unsigned row[NAME_MAX_BYTES + 1], n = (unsigned)strlen(b);
        for (unsigned j = 0; j <= n; j++)
                row[j] = j;
        for (unsigned i = 0; a[i]; i++) {
                unsigned diagonal = row[0];
                row[0] = i + 1;
                for (unsigned j = 0; j < n; j++) {
                        const unsigned replaced = diagonal + (a[i] != b[j]);
                        const unsigned shorter = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
                        diagonal = row[j + 1];
                        row[j + 1] = replaced < shorter ? replaced : shorter;
                }
        }
        return row[n];
}

static const char *closest(const char *name)
{
        const char *best = NULL;
        unsigned least = DISTANCE_MAX + 1;
        if (strlen(name) > NAME_MAX_BYTES)
                return NULL;
        for (size_t i = 0; i < N_VARIABLES; i++) {
                const unsigned d = distance(name, variables[i].name);
                best = d < least ? variables[i].name : best;
                least = d < least ? d : least;
        }
        return best;
}

static bool known(const char *name)
{
        for (size_t i = 0; i < N_VARIABLES; i++)
                if (!strcmp(name, variables[i].name))
                        return true;
        for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
                if (!strcmp(name, foreign[i]))
                        return true;
        for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
                if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
                        return true;
        return false;
}

static void warn_unknown(const char *name)
{
        const char *meant = closest(name);
        if (meant)
                fprintf(stderr, "detshare: %s is not known; did you mean %s?\n", name, meant);
        else
                fprintf(stderr, "detshare: %s is not known; libdetshare-client(3) lists the variables\n", name);
}

void dsc__variables_check(void)
{
        static atomic_bool checked;
        unsigned n = 0;
        if (atomic_exchange(&checked, true) || !dsc__notes())
                return;
        for (char **e = environ; e && *e && n < WARNINGS_MAX; e++) {
                char name[128];
                const size_t length = strcspn(*e, "=");
                if (strncmp(*e, "DETSHARE_", PREFIX_BYTES) || length >= sizeof(name))
                        continue;
                memcpy(name, *e, length);
                name[length] = '\0';
                if (known(name))
                        continue;
                warn_unknown(name);
                n++;
        }
}
