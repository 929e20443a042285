/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transformed image in a file: the image, then a report on its kernels, then a trailer
 *
 * The loader of the image reads only the image's bytes. Every holder of the file also has the report: the helper, the
 * directory of compiled code, or the supervisor's ledger. The report is as untrusted as its writer: reading stops at
 * the first malformed line.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Result of the transformation of a kernel. Strings have no tabs or newlines; a reason is "" if the form was made. */
struct ds_forms_line {
        const char *kernel, *why_sliced, *why_persistent;
        int sliced, persistent; /* 1: the form exists */
        int waits, variables;   /* properties of the kernel, as in ptx/pass/forms_make.h */
};

/* A growing report. Initialise with zeros; free text with ds_free(). */
struct ds_forms_report {
        char *text;
        size_t size, room;
};

#define DS_FORMS_REPORT_MAX ((size_t)16 << 20)
#define DS_FORMS_TRAILER_BYTES ((size_t)24)

/* Adds a line to the report. Returns 0 or -ENOMEM, the latter also if the report becomes too large. */
int ds_forms_report_add(struct ds_forms_report *report, const struct ds_forms_line *line);
/*
 * Adds the trailer, once, behind the last line. native: hash of the text that the forms were made from, which
 * identifies its kernels. Returns 0 or -ENOMEM.
 */
int ds_forms_report_end(struct ds_forms_report *report, uint64_t native);

/* Number of bytes of report and trailer at the end of a file; 0: none. */
size_t ds_forms_file_report(const void *file, size_t size);
/* The hash that was passed to ds_forms_report_end(). The file must have a report. */
uint64_t ds_forms_file_native(const void *file, size_t size);
/*
 * Reads the next line of a report (without trailer) into *line, with its strings in buffer, which must have room for
 * the report and one more byte. Advances *at. Returns 1; 0 at the end.
 */
int ds_forms_report_next(const char *report, size_t size, size_t *at, char *buffer, struct ds_forms_line *line);
