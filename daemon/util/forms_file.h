/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transformed image in a file: the image, then a report on its kernels, then a trailer
 *
 * What loads the image looks at its bytes alone and never sees what stands behind them; who has the file has the report
 * with it, wherever it comes from: the helper, the directory of compiled code, or the supervisor's ledger. Nothing of
 * it is believed more than its writer: a report that makes no sense ends where it stops making sense.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What became of a kernel. Strings without tabs and newlines; a reason is "" where the form was made. */
struct ds_forms_line {
        const char *kernel, *why_sliced, *why_persistent;
        int sliced, persistent; /* there is one */
        int waits, variables;   /* as in ptx/pass/forms_make.h */
};

/* A report that grows. Zero-initialised; text is freed with ds_free. */
struct ds_forms_report {
        char *text;
        size_t size, room;
};

#define DS_FORMS_REPORT_MAX ((size_t)16 << 20)
#define DS_FORMS_TRAILER_BYTES ((size_t)24)

/* 0 or -ENOMEM, also when it grows too large. */
int ds_forms_report_add(struct ds_forms_report *report, const struct ds_forms_line *line);
/*
 * The trailer, once, behind the last line. native: a hash of the text that the forms were made of, by which its kernels
 * are known. 0 or -ENOMEM.
 */
int ds_forms_report_end(struct ds_forms_report *report, uint64_t native);

/* How many bytes of the end of a file are report and trailer; 0: there is none. */
size_t ds_forms_file_report(const void *file, size_t size);
/* What report_end was told, of a file that has a report. */
uint64_t ds_forms_file_native(const void *file, size_t size);
/*
 * The next line of a report (its trailer left out) into *line, its strings copied into buffer, which has room for all
 * of the report and one byte more. Moves *at. 1; 0 at its end.
 */
int ds_forms_report_next(const char *report, size_t size, size_t *at, char *buffer, struct ds_forms_line *line);
