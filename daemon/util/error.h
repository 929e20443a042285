/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: two kinds, never mixed
 *
 *  - A negative errno is fatal for the operation: nobody reads it, every caller forwards it, and the place where it
 *    began and the places it passed are printed as a stack of file:line. Use ds_error_origin() where it starts and
 *    ds_error_trace() where it passes.
 *  - A positive code named in the module's header (DS_FOO_E_BAR) is part of the function's contract: the direct caller
 *    handles it, or turns it into a fatal one with ds_error_fold().
 *
 * Zero is success. Nothing here exits or allocates.
 */
#pragma once

#include <errno.h>

#define ds_error_origin(r) ds_error_report_origin((r), __func__, __FILE__, __LINE__)
#define ds_error_trace(r) ds_error_report_trace((r), __func__, __FILE__, __LINE__)
#define ds_error_fold(r) ds_error_report_fold((r), __func__, __FILE__, __LINE__)

/* r must be negative. Reports where it began and returns it. */
int ds_error_report_origin(int r, const char *func, const char *file, int line);
/* Reports a negative r as passing here; positive codes and zero go through silently. Returns r. */
int ds_error_report_trace(int r, const char *func, const char *file, int line);
/* A positive code that the caller has no use for becomes -ENOTRECOVERABLE; negative ones are traced. */
int ds_error_report_fold(int r, const char *func, const char *file, int line);
