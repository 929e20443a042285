/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of kernels as people know them
 *
 * Images contain C++ kernels under their mangled names. A name that is no C++ name stays as it is; one that was cut
 * becomes as much of the name as can be read.
 */
#pragma once

#include <stddef.h>

/* Demangled, with template arguments and parameters. ret may be cut. Returns ret. */
const char *ctl_demangle(const char *name, char *ret, size_t size);
/*
 * For tables: demangled, without return type and parameters. If that has more than `most` characters, template arguments
 * become "<...>"; if it still has, "...::" replaces the first namespaces. Returns ret.
 */
const char *ctl_kernel(const char *name, size_t most, char *ret, size_t size);
/* Does the name, or the demangled one, contain the text? */
int ctl_kernel_contains(const char *name, const char *text);
