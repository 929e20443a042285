/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the profile database as text, and their checksum
 *
 * The database stores lists of numbers as text that people can read (points: "132:10000ns/5 ..."). A write function
 * expects a valid row (ds_profile_row_wrong). A read function accepts any text, adds to a row that has none of the values
 * yet, and returns 0, or -1: the text is not one that the write function has written.
 */
#pragma once

#include "supervisor/profile_db.h"

#define DS_PROFILE_POINTS_TEXT (DS_PROFILE_POINTS_MAX * 48u)
#define DS_PROFILE_SHAPE_TEXT 40u
#define DS_PROFILE_FORMS_TEXT 64u
#define DS_PROFILE_NOTE_TEXT (DS_PROFILE_NOTE_MAX * 21u + 1u)

void ds_profile_points_write(const struct ds_profile_row *row, char text[static DS_PROFILE_POINTS_TEXT]);
int ds_profile_points_read(struct ds_profile_row *row, const char *text);
/* A grid or block: "1x2x3". */
void ds_profile_shape_write(const uint32_t n[3], char text[static DS_PROFILE_SHAPE_TEXT]);
int ds_profile_shape_read(uint32_t n[3], const char *text);
/* Costs of forms; "" if nothing is known about them. */
void ds_profile_forms_write(const struct ds_profile_row *row, char text[static DS_PROFILE_FORMS_TEXT]);
int ds_profile_forms_read(struct ds_profile_row *row, const char *text);
/* Values of a policy's note; "" if the row is no note. */
void ds_profile_note_write(const struct ds_profile_row *row, char text[static DS_PROFILE_NOTE_TEXT]);
int ds_profile_note_read(struct ds_profile_row *row, const char *text);

/* Checksum of all columns except the time of last use. Columns that an older version did not have count only if they
 * are set. */
int64_t ds_profile_row_checksum(const char *model, const struct ds_profile_row *row);
