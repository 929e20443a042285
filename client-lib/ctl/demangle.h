/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readable names of kernels
 *
 * Images contain C++ kernels under mangled names. A name that is not C++ stays as it is. Of a mangled name that was
 * cut, the namespaces and the function are shown as far as they can be read.
 */
#pragma once

#include <stddef.h>

/* Writes the demangled name with template arguments and parameters to ret, cut to its size. Returns ret. */
const char *ctl_demangle(const char *name, char *ret, size_t size);
/*
 * Writes a name for tables to ret: demangled, without return type and parameters. If it has more than `most`
 * characters, template arguments become "<...>". If it is still too long, "...::" replaces the first namespaces.
 * Returns ret.
 */
const char *ctl_kernel(const char *name, size_t most, char *ret, size_t size);
/* 1: the mangled or the demangled name contains the text. */
int ctl_kernel_contains(const char *name, const char *text);
