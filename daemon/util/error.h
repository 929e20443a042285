/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: two kinds, never mixed
 *
 *  - A negative errno is fatal for the operation: no caller interprets it, every caller forwards it. The place where it
 *    began and the places that it passed are logged as a stack of file:line. Use ds_error_origin() where it begins and
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

/* Logs the origin of a negative r and returns r. */
int ds_error_report_origin(int r, const char *func, const char *file, int line);
/* Logs that a negative r passes this place; positive codes and zero are not logged. Returns r. */
int ds_error_report_trace(int r, const char *func, const char *file, int line);
/* Turns a positive code that the caller does not handle into -ENOTRECOVERABLE. Logs that a negative r passes this
 * place. */
int ds_error_report_fold(int r, const char *func, const char *file, int line);
