/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/profile_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "util/macro.h"

#define TIME_MAX_NS (3600 * DS_NS_PER_S)
#define SMS_MAX 65536u
#define BOUND_MAX 2u
#define FOOTPRINT_MAX (UINT64_C(1) << 50) /* largest footprint accepted, bytes; more memory than any GPU has */
#define PERMILLE_MAX 1000000u

void ds_profile_set_name(struct ds_profile_row *row, const char *name)
{
        size_t i;

        for (i = 0; i < DS_PROFILE_NAME_MAX && name[i]; i++)
                row->name[i] = name[i] < ' ' || name[i] > '~' ? '?' : name[i];
        row->name[i] = 0;
}

const char *ds_profile_row_wrong(const struct ds_profile_row *row)
{
        if (!row->name[0])
                return "it has no name";
        if (row->n_note > DS_PROFILE_NOTE_MAX || (row->of_policy != 0) != (row->n_note != 0))
                return "a note must have 1 to 40 values, and other rows have none";
        if (row->of_policy && (row->bound || row->footprint || row->n_points))
                return "it is both a note and a profile of a kernel";
        if (row->bound > BOUND_MAX)
                return "its bound is not accepted; 0 (not known), 1 (compute) and 2 (memory) are";
        if (row->footprint > FOOTPRINT_MAX)
                return "its footprint is larger than any GPU's memory";
        if (row->sliced.permille > PERMILLE_MAX || row->persistent.permille > PERMILLE_MAX)
                return "the cost of a form is above the largest accepted";
        if (row->n_points > DS_PROFILE_POINTS_MAX)
                return "it has more than 24 points, the most accepted";
        for (uint32_t i = 0; i < row->n_points; i++) {
                const struct ds_profile_point *point = &row->points[i];

                if (!point->n_sms || point->n_sms > SMS_MAX || (i && point->n_sms <= point[-1].n_sms))
                        return "its points are not in ascending order of 1 to 65536 SMs";
                if (!point->samples || !point->mean_ns || point->mean_ns > TIME_MAX_NS)
                        return "a point has no samples, or a time that is 0 or above an hour";
        }
        return NULL;
}

void ds_profile_points_write(const struct ds_profile_row *row, char text[static DS_PROFILE_POINTS_TEXT])
{
        size_t at = 0;

        text[0] = 0;
        for (uint32_t i = 0; i < row->n_points; i++)
                at += (size_t)snprintf(text + at, DS_PROFILE_POINTS_TEXT - at, "%s%" PRIu32 ":%" PRIu64 "ns/%" PRIu32,
                        i ? " " : "", row->points[i].n_sms, row->points[i].mean_ns, row->points[i].samples);
}

int ds_profile_points_read(struct ds_profile_row *row, const char *text)
{
        int used = 0;

        while (*text) {
                struct ds_profile_point *point = &row->points[row->n_points];

                if (row->n_points == DS_PROFILE_POINTS_MAX || strspn(text, "0123456789:ns/ ") != strlen(text) ||
                        sscanf(text, "%" SCNu32 ":%" SCNu64 "ns/%" SCNu32 "%n", &point->n_sms, &point->mean_ns,
                                &point->samples, &used) != 3)
                        return -1;
                row->n_points++;
                text += used;
                text += *text == ' ';
        }
        return 0;
}

void ds_profile_shape_write(const uint32_t n[3], char text[static DS_PROFILE_SHAPE_TEXT])
{
        snprintf(text, DS_PROFILE_SHAPE_TEXT, "%" PRIu32 "x%" PRIu32 "x%" PRIu32, n[0], n[1], n[2]);
}

int ds_profile_shape_read(uint32_t n[3], const char *text)
{
        return sscanf(text, "%" SCNu32 "x%" SCNu32 "x%" SCNu32, &n[0], &n[1], &n[2]) == 3 ? 0 : -1;
}

void ds_profile_forms_write(const struct ds_profile_row *row, char text[static DS_PROFILE_FORMS_TEXT])
{
        text[0] = 0;
        if (row->sliced.samples || row->persistent.samples)
                snprintf(text, DS_PROFILE_FORMS_TEXT, "sliced:%" PRIu32 "/%" PRIu32 " persistent:%" PRIu32 "/%" PRIu32,
                        row->sliced.permille, row->sliced.samples, row->persistent.permille, row->persistent.samples);
}

int ds_profile_forms_read(struct ds_profile_row *row, const char *text)
{
        if (!text[0])
                return 0;
        return sscanf(text, "sliced:%" SCNu32 "/%" SCNu32 " persistent:%" SCNu32 "/%" SCNu32, &row->sliced.permille,
                       &row->sliced.samples, &row->persistent.permille, &row->persistent.samples) == 4
                       ? 0
                       : -1;
}

void ds_profile_note_write(const struct ds_profile_row *row, char text[static DS_PROFILE_NOTE_TEXT])
{
        size_t at = 0;

        text[0] = 0;
        for (uint32_t i = 0; i < row->n_note && i < DS_PROFILE_NOTE_MAX; i++)
                at += (size_t)snprintf(text + at, DS_PROFILE_NOTE_TEXT - at, "%s%" PRIu64, i ? " " : "", row->note[i]);
}

int ds_profile_note_read(struct ds_profile_row *row, const char *text)
{
        int used = 0;

        row->of_policy = text[0] != 0;
        while (*text) {
                if (row->n_note == DS_PROFILE_NOTE_MAX || strspn(text, "0123456789 ") != strlen(text) ||
                        sscanf(text, "%" SCNu64 "%n", &row->note[row->n_note], &used) != 1)
                        return -1;
                row->n_note++;
                text += used;
                text += *text == ' ';
        }
        return 0;
}

int64_t ds_profile_row_checksum(const char *model, const struct ds_profile_row *row)
{
        char points[DS_PROFILE_POINTS_TEXT], forms[DS_PROFILE_FORMS_TEXT], note[DS_PROFILE_NOTE_TEXT];
        char text[DS_PROFILE_POINTS_TEXT + DS_PROFILE_NAME_MAX + DS_PROFILE_MODEL_MAX + DS_PROFILE_FORMS_TEXT +
                  DS_PROFILE_NOTE_TEXT + 256];
        int n;

        ds_profile_points_write(row, points);
        n = snprintf(text, sizeof(text),
                "%s|%" PRIu64 "|%s|%" PRIu32 "x%" PRIu32 "x%" PRIu32 "|%" PRIu32 "x%" PRIu32 "x%" PRIu32 "|%" PRIu32
                "|%" PRIu32 "|%s|%" PRIu64,
                model, row->key, row->name, row->grid[0], row->grid[1], row->grid[2], row->block[0], row->block[1],
                row->block[2], row->shared_bytes, row->bound, points, row->changed_ms);
        if (row->footprint)
                n += snprintf(text + n, sizeof(text) - (size_t)n, "|%" PRIu64, row->footprint);
        ds_profile_forms_write(row, forms);
        if (forms[0])
                n += snprintf(text + n, sizeof(text) - (size_t)n, "|%s", forms);
        ds_profile_note_write(row, note);
        if (note[0])
                n += snprintf(text + n, sizeof(text) - (size_t)n, "|%" PRIx64 "|%s", row->group, note);
        return (int64_t)XXH3_64bits(text, DS_MIN((size_t)n, sizeof(text) - 1));
}
