/* SPDX-License-Identifier: Apache-2.0 */
#include "util/forms_file.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define MAGIC 0x32736d726f667364ull /* "dsforms2" */
#define FIELDS 4                    /* fields of a line: kernel, flags, two reasons */

struct trailer {
        uint64_t native, report_bytes, magic;
};

_Static_assert(sizeof(struct trailer) == DS_FORMS_TRAILER_BYTES, "as the header says");

static int append(struct ds_forms_report *report, const void *bytes, size_t size)
{
        size_t room = DS_MAX(report->room * 2, report->size + size);
        char *grown;

        if (size > DS_FORMS_REPORT_MAX - report->size)
                return -ENOMEM;
        if (report->size + size > report->room) {
                grown = ds_realloc(report->text, room, 1);
                if (!grown)
                        return ds_error_origin(-ENOMEM);
                report->text = grown;
                report->room = room;
        }
        memcpy(report->text + report->size, bytes, size);
        report->size += size;
        return 0;
}

int ds_forms_report_add(struct ds_forms_report *report, const struct ds_forms_line *line)
{
        const char flags[] = {line->sliced ? 's' : '-', line->persistent ? 'p' : '-', line->waits ? 'w' : '-',
                line->variables ? 'v' : '-', 0};
        const char *fields[FIELDS] = {line->kernel, flags, line->why_sliced, line->why_persistent};
        int r = 0;

        for (size_t i = 0; i < FIELDS && !r; i++) {
                r = append(report, fields[i], strlen(fields[i]));
                if (!r)
                        r = append(report, i + 1 < FIELDS ? "\t" : "\n", 1);
        }
        return r;
}

int ds_forms_report_end(struct ds_forms_report *report, uint64_t native)
{
        const struct trailer trailer = {.native = native, .report_bytes = report->size, .magic = MAGIC};

        return append(report, &trailer, sizeof(trailer));
}

size_t ds_forms_file_report(const void *file, size_t size)
{
        struct trailer trailer;

        if (size < sizeof(trailer))
                return 0;
        memcpy(&trailer, (const char *)file + size - sizeof(trailer), sizeof(trailer));
        if (trailer.magic != MAGIC || trailer.report_bytes > size - sizeof(trailer))
                return 0;
        return (size_t)trailer.report_bytes + sizeof(trailer);
}

uint64_t ds_forms_file_native(const void *file, size_t size)
{
        struct trailer trailer;

        assert(size >= sizeof(trailer));
        memcpy(&trailer, (const char *)file + size - sizeof(trailer), sizeof(trailer));
        return trailer.native;
}

int ds_forms_report_next(const char *report, size_t size, size_t *at, char *buffer, struct ds_forms_line *line)
{
        const char *end = *at < size ? memchr(report + *at, '\n', size - *at) : NULL;
        char *fields[FIELDS], *rest = buffer;
        size_t n;

        if (!end)
                return 0;
        n = (size_t)(end - (report + *at));
        memcpy(buffer, report + *at, n);
        buffer[n] = 0;
        *at += n + 1;
        for (size_t i = 0; i < FIELDS; i++) {
                fields[i] = strsep(&rest, "\t");
                if (!fields[i])
                        return 0;
        }
        if (strlen(fields[1]) != 4)
                return 0;
        *line = (struct ds_forms_line){
                .kernel = fields[0],
                .sliced = fields[1][0] == 's',
                .persistent = fields[1][1] == 'p',
                .waits = fields[1][2] == 'w',
                .variables = fields[1][3] == 'v',
                .why_sliced = fields[2],
                .why_persistent = fields[3],
        };
        return 1;
}
