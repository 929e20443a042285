/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress of long work, as a bar with the time left
 *
 * The bar is one line on stderr, drawn again and again; nothing is printed if stderr is no terminal. Messages on stderr
 * erase it first (error.c).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Draws the bar. done: 0 to 1; below 0: unknown, so only the elapsed time is shown. Time counts from the first call
 * with the same `what`. */
void ctl_progress(const char *what, double done);
/* Erases the bar. */
void ctl_progress_end(void);

/* Writes the line into ret: "calibrating [####......] 42 % 0:12 left". */
void ctl_progress_line(const char *what, double done, uint64_t elapsed_ns, size_t width, char *ret, size_t size);
