/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles in a file: one line each, fields separated by tabs
 *
 *     detshare-profiles 1
 *     gpu     DetShare sim:h200/132
 *     KEY     GRID    BLOCK   SHARED  BOUND[/FOOTPRINT]       SMS:NS/SAMPLES...       KERNEL
 *     KEY     note    GROUP   VALUE...        TEXT
 *
 * The last form is a note of a policy. A file belongs to one model of GPU. The daemon refuses files of another one, because times do not carry over.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/profile.h"

#define HEADER "detshare-profiles 1"
#define NOTE "note" /* second field of a note */
#define ROWS_MAX 65536u
#define LINE_MAX_ 4096u /* most bytes of a line with its newline; a profile with all its points is shorter */

/* --- export ----------------------- */

static void write_note(FILE *f, const struct dsc_profile *row)
{
        fprintf(f, "%016" PRIx64 "\t" NOTE "\t%016" PRIx64 "\t", row->key, row->group);
        for (uint32_t i = 0; i < row->n_note; i++)
                fprintf(f, "%s%" PRIu64, i ? " " : "", row->note[i]);
        fprintf(f, "\t%s\n", row->kernel);
}

static void write_row(FILE *f, const struct dsc_profile *row)
{
        fprintf(f,
                "%016" PRIx64 "\t%" PRIu32 "x%" PRIu32 "x%" PRIu32 "\t%" PRIu32 "x%" PRIu32 "x%" PRIu32 "\t%" PRIu32
                "\t%" PRIu32,
                row->key, row->grid[0], row->grid[1], row->grid[2], row->block[0], row->block[1], row->block[2],
                row->shared_bytes, row->bound);
        if (row->footprint)
                fprintf(f, "/%" PRIu64, row->footprint);
        fputc('\t', f);
        for (uint32_t i = 0; i < row->n_points; i++)
                fprintf(f, "%s%" PRIu32 ":%" PRIu64 "/%" PRIu32, i ? " " : "", row->points[i].n_sms,
                        row->points[i].mean_ns, row->points[i].samples);
        fprintf(f, "%s\t%s\n", row->n_points ? "" : "-", row->kernel);
}

int profile_export(const struct dsc_profiles *profiles, const char *path)
{
        FILE *f = strcmp(path, "-") ? fopen(path, "we") : stdout;
        if (!f) {
                ctl_complain("%s: %s", path, strerror(errno));
                return CTL_FAILED;
        }
        fprintf(f, HEADER "\ngpu\t%s\n", profiles->gpu);
        for (size_t i = 0; i < profiles->n; i++)
                (profiles->rows[i].n_note ? write_note : write_row)(f, &profiles->rows[i]);
        const int bad = ferror(f) | (f == stdout ? fflush(f) : fclose(f));
        if (!bad)
                return 0;
        ctl_complain("%s: %s", path, strerror(errno));
        return CTL_FAILED;
}

/* --- import ----------------------- */

/* Reads a number without a sign, up to `most`, and moves *at behind it. 0, or -1. */
static int read_number(const char **at, int base, uint64_t most, uint64_t *ret)
{
        char *end;
        if (!(base == 16 ? isxdigit((unsigned char)**at) : isdigit((unsigned char)**at)))
                return -1;
        errno = 0;
        *ret = strtoull(*at, &end, base);
        *at = end;
        return errno || *ret > most ? -1 : 0;
}

static int read_word(const char **at, uint32_t *ret)
{
        uint64_t n;
        if (read_number(at, 10, UINT32_MAX, &n))
                return -1;
        *ret = (uint32_t)n;
        return 0;
}

/* Moves *at behind the character c. 0, or -1: another character is there. */
static int read_char(const char **at, char c)
{
        if (**at != c)
                return -1;
        (*at)++;
        return 0;
}

static int read_shape(const char *at, uint32_t n[3])
{
        return read_word(&at, &n[0]) || read_char(&at, 'x') || read_word(&at, &n[1]) || read_char(&at, 'x') ||
                               read_word(&at, &n[2]) || *at
                       ? -1
                       : 0;
}

static int read_points(struct dsc_profile *row, const char *at)
{
        if (!strcmp(at, "-"))
                return 0;
        do {
                struct dsc_profile_point *p = &row->points[row->n_points];
                if (row->n_points == DSC_PROFILE_POINTS || read_word(&at, &p->n_sms) || read_char(&at, ':') ||
                        read_number(&at, 10, UINT64_MAX, &p->mean_ns) || read_char(&at, '/') ||
                        read_word(&at, &p->samples))
                        return -1;
                row->n_points++;
        } while (!read_char(&at, ' '));
        return *at ? -1 : 0;
}

/* Reads the field BOUND[/FOOTPRINT]. */
static int read_bound(struct dsc_profile *row, const char *at)
{
        if (read_word(&at, &row->bound))
                return -1;
        if (*at && (read_char(&at, '/') || read_number(&at, 10, UINT64_MAX, &row->footprint)))
                return -1;
        return *at ? -1 : 0;
}

static int read_note(struct dsc_profile *row, char *const field[5])
{
        const char *key = field[0], *group = field[2], *at = field[3];
        if (read_number(&key, 16, UINT64_MAX, &row->key) || *key || read_number(&group, 16, UINT64_MAX, &row->group) ||
                *group)
                return -1;
        do {
                if (row->n_note == DSC_PROFILE_NOTE || read_number(&at, 10, UINT64_MAX, &row->note[row->n_note]))
                        return -1;
                row->n_note++;
        } while (!read_char(&at, ' '));
        snprintf(row->kernel, sizeof(row->kernel), "%s", field[4]);
        return *at ? -1 : 0;
}

static int read_row(struct dsc_profile *row, char *line)
{
        char *rest = NULL, *field[7];
        const char *key, *shared;
        int n = 0;
        *row = (struct dsc_profile){.key = 0};
        while (n < 7 && (field[n] = strtok_r(n ? NULL : line, "\t", &rest)))
                n++;
        if (n == 5 && !strcmp(field[1], NOTE))
                return read_note(row, field);
        if (n < 7)
                return -1;
        key = field[0];
        shared = field[3];
        if (read_number(&key, 16, UINT64_MAX, &row->key) || *key || read_shape(field[1], row->grid) ||
                read_shape(field[2], row->block) || read_word(&shared, &row->shared_bytes) || *shared ||
                read_bound(row, field[4]))
                return -1;
        snprintf(row->kernel, sizeof(row->kernel), "%s", field[6]);
        return read_points(row, field[5]);
}

static int bad_line(const char *path, unsigned line, const char *what)
{
        ctl_complain("%s, line %u: %s", path, line, what);
        return CTL_FAILED;
}

struct reader {
        const char *path, *gpu;
        struct dsc_profile *rows;
        size_t n, room;
        unsigned line;
};

static int take_line(struct reader *reader, char *line)
{
        if (reader->line == 1)
                return strcmp(line, HEADER)
                               ? bad_line(reader->path, 1, "not a file of profiles: its first line must be " HEADER)
                               : 0;
        if (reader->line == 2 && (strncmp(line, "gpu\t", 4) || strcmp(line + 4, reader->gpu))) {
                ctl_complain("%s is of %s; this is %s", reader->path, strncmp(line, "gpu\t", 4) ? "no GPU" : line + 4,
                        reader->gpu);
                return CTL_FAILED;
        }
        if (reader->line == 2 || !line[0])
                return 0;
        if (reader->n == ROWS_MAX)
                return bad_line(reader->path, reader->line, "the file has too many profiles");
        if (reader->n == reader->room) {
                void *p = reallocarray(reader->rows, reader->room + 1024, sizeof(*reader->rows));
                if (!p)
                        return bad_line(reader->path, reader->line, "out of memory");
                reader->rows = p;
                reader->room += 1024;
        }
        if (read_row(&reader->rows[reader->n], line))
                return bad_line(reader->path, reader->line, "not a profile");
        reader->n++;
        return 0;
}

/*
 * Reads the next line without its newline. 1: there is one; 0: end of the file; -1: after an error message. A line with
 * control characters is an error, because error messages quote it on a terminal.
 */
static int next_line(struct reader *reader, FILE *f, char line[static LINE_MAX_])
{
        size_t n = 0;
        int c;
        reader->line++;
        while ((c = getc(f)) != '\n' && c != EOF) {
                if (n + 1 == LINE_MAX_) {
                        bad_line(reader->path, reader->line, "this line is longer than a profile's");
                        return -1;
                }
                if (c != '\t' && (c < ' ' || c > '~')) {
                        bad_line(reader->path, reader->line, "it has bytes other than printable ASCII and tabs");
                        return -1;
                }
                line[n++] = (char)c;
        }
        line[n] = '\0';
        if (c != EOF || n)
                return 1;
        reader->line--;
        return 0;
}

int profile_import(const char *path, const char *gpu, struct dsc_profile **ret, size_t *ret_n)
{
        struct reader reader = {.path = path, .gpu = gpu};
        FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
        char line[LINE_MAX_];
        int r = 0, more;
        if (!f) {
                ctl_complain("%s: %s", path, strerror(errno));
                return CTL_FAILED;
        }
        while (!r && (more = next_line(&reader, f, line)) != 0)
                r = more < 0 ? CTL_FAILED : take_line(&reader, line);
        if (!r && reader.line < 2)
                r = bad_line(path, reader.line + 1, "not a file of profiles: its first line must be " HEADER);
        if (f != stdin)
                fclose(f);
        if (r)
                free(reader.rows);
        else {
                *ret = reader.rows;
                *ret_n = reader.n;
        }
        return r;
}
