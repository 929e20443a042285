/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a profiler's table of kernels into a profile
 *
 * The first line with columns for the name, the duration and the grid is the heading. The table of names below has the
 * columns of `nsys stats --report cuda_gpu_trace --format csv`, of nvprof, and our own; case, blanks and units do not
 * matter. Durations are in nanoseconds unless the heading says us or ms. Rows without a grid (copies, memsets) are left
 * out and counted in a comment.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/workload.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define FIELDS_MAX 64
#define NAME_MAX_ 120

enum column {
        NAME,
        DURATION,
        GRID_X,
        GRID_Y,
        GRID_Z,
        BLOCK_X,
        BLOCK_Y,
        BLOCK_Z,
        REGISTERS,
        STATIC_SHARED,
        DYNAMIC_SHARED,
        _COLUMN_MAX,
};

static const char *const column_names[_COLUMN_MAX][5] = {
        [NAME] = {"name", "kernelname", "kernel"},
        [DURATION] = {"duration", "durationns", "durationus", "durationms", "ns"},
        [GRID_X] = {"grdx", "gridx", "grid"},
        [GRID_Y] = {"grdy", "gridy"},
        [GRID_Z] = {"grdz", "gridz"},
        [BLOCK_X] = {"blkx", "blockx", "block"},
        [BLOCK_Y] = {"blky", "blocky"},
        [BLOCK_Z] = {"blkz", "blockz"},
        [REGISTERS] = {"regtrd", "registersperthread", "registers", "regs"},
        [STATIC_SHARED] = {"stcsmem", "staticsmem", "stcsmemmb", "stcsmembytes", "shared"},
        [DYNAMIC_SHARED] = {"dymsmem", "dynamicsmem", "dymsmemmb", "dymsmembytes"},
};

struct table {
        int at[_COLUMN_MAX]; /* field number of each column; -1: the table has no such column */
        double ns_per_unit, bytes_per_unit;
        unsigned left_out, kernels;
        unsigned line, bad_line; /* bad_line: first line whose duration is no number; 0: none */
        FILE *out;
};

/* Cut a line into fields without their quotes. Returns their number. */
static int cut(char *line, char *fields[FIELDS_MAX])
{
        int n = 0, more = 1;
        char *to;

        while (more && n < FIELDS_MAX) {
                line += strspn(line, " \t");
                fields[n++] = to = line;
                if (*line == '"') {
                        for (line++; *line && !(*line == '"' && line[1] != '"'); line++) {
                                line += *line == '"';
                                *to++ = *line;
                        }
                        line += *line == '"';
                } else {
                        while (*line && *line != ',')
                                *to++ = *line++;
                }
                line += strcspn(line, ",");
                more = *line++ == ',';
                *to = 0;
        }
        return n;
}

/* Keep letters and digits, in lower case: "Duration (ns)" becomes "durationns". */
static void head_plain(const char *head, char plain[64])
{
        size_t n = 0;

        for (; *head && n < 63; head++)
                if (isalnum((unsigned char)*head))
                        plain[n++] = (char)tolower((unsigned char)*head);
        plain[n] = 0;
}

static int head_read(struct table *t, char *fields[FIELDS_MAX], int n)
{
        char plain[64];

        for (int c = 0; c < _COLUMN_MAX; c++)
                t->at[c] = -1;
        t->ns_per_unit = t->bytes_per_unit = 1;
        for (int i = 0; i < n; i++) {
                head_plain(fields[i], plain);
                for (int c = 0; c < _COLUMN_MAX; c++)
                        for (int k = 0; k < 5 && column_names[c][k]; k++) {
                                if (strcmp(plain, column_names[c][k]) || t->at[c] >= 0)
                                        continue;
                                t->at[c] = i;
                                if (c == DURATION && strlen(plain) > 8)
                                        t->ns_per_unit = plain[8] == 'u' ? 1e3 : plain[8] == 'm' ? 1e6 : 1;
                                if ((c == STATIC_SHARED || c == DYNAMIC_SHARED) && strstr(plain, "mb"))
                                        t->bytes_per_unit = 1e6;
                        }
        }
        return t->at[NAME] >= 0 && t->at[DURATION] >= 0 && t->at[GRID_X] >= 0 && t->at[BLOCK_X] >= 0;
}

static double field(const struct table *t, char *fields[FIELDS_MAX], int n, enum column c, double otherwise)
{
        char *end;
        double value;

        if (t->at[c] < 0 || t->at[c] >= n)
                return otherwise;
        value = strtod(fields[t->at[c]], &end);
        return end == fields[t->at[c]] ? otherwise : value;
}

/* Print a name with its blanks replaced: C++ names have blanks, names in a profile have none. */
static void name_print(FILE *out, const char *name)
{
        for (size_t i = 0; i < NAME_MAX_ && name[i]; i++)
                fputc(isgraph((unsigned char)name[i]) ? name[i] : '_', out);
}

/* Print a grid or block as key=XxYxZ. The table has it as "4x5x6", as "4 5 6", or in three columns. */
static void extent_print(const struct table *t, char *fields[FIELDS_MAX], int n, enum column first, const char *key)
{
        const char *x = fields[t->at[first]];

        fprintf(t->out, " %s=", key);
        if (t->at[first + 1] >= 0) {
                fprintf(t->out, "%.0fx%.0fx%.0f", field(t, fields, n, first, 1), field(t, fields, n, first + 1, 1),
                        field(t, fields, n, first + 2, 1));
                return;
        }
        for (; *x; x++)
                if (isdigit((unsigned char)*x))
                        fputc(*x, t->out);
                else if (x[1] && isdigit((unsigned char)x[1]) && x != fields[t->at[first]])
                        fputc('x', t->out);
}

static void row_convert(struct table *t, char *fields[FIELDS_MAX], int n)
{
        double ns = field(t, fields, n, DURATION, -1) * t->ns_per_unit, shared;

        if (n <= t->at[NAME] || n <= t->at[BLOCK_X] || n <= t->at[GRID_X] || !*fields[t->at[GRID_X]] ||
                !strcmp(fields[t->at[GRID_X]], "-")) {
                t->left_out += n > 1;
                return;
        }
        if (!(ns >= 0)) {
                t->bad_line = t->bad_line ? t->bad_line : t->line;
                return;
        }
        shared = (field(t, fields, n, STATIC_SHARED, 0) + field(t, fields, n, DYNAMIC_SHARED, 0)) * t->bytes_per_unit;
        fprintf(t->out, "kernel ");
        name_print(t->out, *fields[t->at[NAME]] ? fields[t->at[NAME]] : "unnamed");
        extent_print(t, fields, n, GRID_X, "grid");
        extent_print(t, fields, n, BLOCK_X, "block");
        fprintf(t->out, " regs=%.0f shared=%.0f ns=%.0f\n", field(t, fields, n, REGISTERS, 0), shared,
                fmax(1, round(ns)));
        t->kernels++;
}

/* Convert the table. Return NULL, or the reason why it is invalid. */
static const char *table_convert(struct table *t, char *text)
{
        char *fields[FIELDS_MAX], *line;
        int n, heads = 0;

        while ((line = strsep(&text, "\n"))) {
                t->line++;
                line[strcspn(line, "\r")] = 0;
                n = cut(line, fields);
                if (heads)
                        row_convert(t, fields, n);
                else
                        heads = head_read(t, fields, n);
        }
        if (!heads)
                return "no line that names the columns (name, duration, grid and block at least)";
        if (t->bad_line)
                return "the duration is not a number";
        return t->kernels ? NULL : "no rows that are kernels";
}

int ds_replay_convert(
        const char *path, const char *csv, size_t size, uint32_t sms, char *message, size_t message_size, char **ret)
{
        ds_cleanup(ds_freep) char *copy = NULL;
        struct table t = {};
        const char *base = strrchr(path, '/');
        char *text = NULL;
        const char *bad;
        size_t length = 0;

        copy = ds_strndup(csv, size);
        t.out = open_memstream(&text, &length);
        if (!copy || !t.out) {
                if (t.out)
                        (void)fclose(t.out);
                free(text);
                return ds_error_origin(-ENOMEM);
        }
        fprintf(t.out, "%s %d\nname ", SIM_PROFILE_MAGIC, SIM_PROFILE_VERSION);
        base = base ? base + 1 : path;
        fprintf(t.out, "%.50s\nsource converted from %.100s\nsms %u\n", base, base, sms);
        bad = table_convert(&t, copy);
        fprintf(t.out, "# %u rows that are no kernels were left out\n", t.left_out);
        if (fclose(t.out)) {
                free(text);
                return ds_error_origin(-ENOMEM);
        }
        if (bad && t.bad_line)
                snprintf(message, message_size, "%s: line %u: %s", path, t.bad_line, bad);
        else if (bad)
                snprintf(message, message_size, "%s: %s", path, bad);
        else
                *ret = ds_strdup(text);
        free(text);
        return bad ? DS_REPLAY_E_BAD_FILE : *ret ? 0 : ds_error_origin(-ENOMEM);
}
