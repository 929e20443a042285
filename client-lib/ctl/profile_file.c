/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles in a file: one line each, fields between tabs
 *
 *      detshare-profiles 1
 *      gpu     DetShare sim:h200/132
 *      KEY     GRID    BLOCK   SHARED  BOUND[/FOOTPRINT]       SMS:NS/SAMPLES...       KERNEL
 *
 * A file is of one GPU, and only a daemon with such a one takes it: times of another mean nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/profile.h"

#define HEADER "detshare-profiles 1"
#define ROWS_MAX 65536u

/* --- out --- */

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
                write_row(f, &profiles->rows[i]);
        const int bad = ferror(f) | (f == stdout ? fflush(f) : fclose(f));
        if (!bad)
                return 0;
        ctl_complain("%s: %s", path, strerror(errno));
        return CTL_FAILED;
}

/* --- in --- */

static int read_points(struct dsc_profile *row, const char *text)
{
        int used = 0;
        if (!strcmp(text, "-"))
                return 0;
        while (*text) {
                struct dsc_profile_point *p = &row->points[row->n_points];
                if (row->n_points == DSC_PROFILE_POINTS || sscanf(text, "%" SCNu32 ":%" SCNu64 "/%" SCNu32 "%n",
                                                                   &p->n_sms, &p->mean_ns, &p->samples, &used) != 3)
                        return -1;
                row->n_points++;
                text += used;
                text += *text == ' ';
        }
        return 0;
}

static int read_row(struct dsc_profile *row, char *line)
{
        char *rest = NULL, *field[7];
        *row = (struct dsc_profile){.key = 0};
        for (int i = 0; i < 7; i++) {
                field[i] = strtok_r(i ? NULL : line, "\t", &rest);
                if (!field[i])
                        return -1;
        }
        if (sscanf(field[0], "%" SCNx64, &row->key) != 1 ||
                sscanf(field[1], "%" SCNu32 "x%" SCNu32 "x%" SCNu32, &row->grid[0], &row->grid[1], &row->grid[2]) !=
                        3 ||
                sscanf(field[2], "%" SCNu32 "x%" SCNu32 "x%" SCNu32, &row->block[0], &row->block[1], &row->block[2]) !=
                        3 ||
                sscanf(field[3], "%" SCNu32, &row->shared_bytes) != 1 ||
                sscanf(field[4], "%" SCNu32 "/%" SCNu64, &row->bound, &row->footprint) < 1)
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
        reader->line++;
        line[strcspn(line, "\n")] = '\0';
        if (reader->line == 1)
                return strcmp(line, HEADER) ? bad_line(reader->path, 1, "this is no file of profiles") : 0;
        if (reader->line == 2 && (strncmp(line, "gpu\t", 4) || strcmp(line + 4, reader->gpu))) {
                ctl_complain("%s is of %s; this is %s", reader->path, strncmp(line, "gpu\t", 4) ? "no GPU" : line + 4,
                        reader->gpu);
                return CTL_FAILED;
        }
        if (reader->line == 2 || !line[0])
                return 0;
        if (reader->n == ROWS_MAX)
                return bad_line(reader->path, reader->line, "there are too many");
        if (reader->n == reader->room) {
                void *p = reallocarray(reader->rows, reader->room + 1024, sizeof(*reader->rows));
                if (!p)
                        return bad_line(reader->path, reader->line, "out of memory");
                reader->rows = p;
                reader->room += 1024;
        }
        if (read_row(&reader->rows[reader->n], line))
                return bad_line(reader->path, reader->line, "this is no profile");
        reader->n++;
        return 0;
}

int profile_import(const char *path, const char *gpu, struct dsc_profile **ret, size_t *ret_n)
{
        struct reader reader = {.path = path, .gpu = gpu};
        FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
        char *line = NULL;
        size_t size = 0;
        int r = 0;
        if (!f) {
                ctl_complain("%s: %s", path, strerror(errno));
                return CTL_FAILED;
        }
        while (!r && getline(&line, &size, f) >= 0)
                r = take_line(&reader, line);
        if (!r && reader.line < 2)
                r = bad_line(path, reader.line + 1, "this is no file of profiles");
        free(line);
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
