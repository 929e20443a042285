/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on another program's text within limits of time and memory
 *
 * A C++ name that a client made up can keep the demangler busy for ever, or take all memory. So a child process does
 * such work, and the caller keeps its text where the child does not succeed.
 */
#pragma once

#include <stddef.h>

#define CTL_LIMITED_BYTES 4096 /* size of a result with its final zero, bytes */

/*
 * Calls work(text, result, size of result) in a child process with one second of processor time and 256 MiB of memory,
 * and copies the result to ret, which may be text. Returns 1, or 0 if there is no result. After three calls without a
 * result there is none any more, so that many such texts do not add up to minutes.
 */
int ctl_limited(void (*work)(const char *text, char *ret, size_t size), const char *text, char *ret, size_t size);
