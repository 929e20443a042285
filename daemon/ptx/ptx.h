/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PTX front end's interface: from text to a checked module, and back to text
 *
 * The simulated device, the passes and the process that checks clients' images share this front end. Input may be
 * hostile: nothing exits, every error is collected with line, column and a caret, and the module lives in one arena
 * with a byte limit. The front end refuses everything that it does not know, naming instruction and line; it never
 * guesses. The IR itself is in ir.h, for passes and the interpreter.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "util/arena.h"

typedef struct ds_ptx_module ds_ptx_module;

/* contract code of ds_ptx_parse and ds_ptx_validate */
#define DS_PTX_E_INVALID 1 /* the text is wrong; see the diagnostics */

#define DS_PTX_DIAGS_MAX 20 /* most diagnostics stored; further ones are only counted */

struct ds_ptx_diag {
        uint32_t line; /* from 1 */
        uint32_t column;
        char message[200];
        char excerpt[160]; /* the source line, shortened */
};

struct ds_ptx_diags {
        size_t n;     /* number of diagnostics stored in diag[] */
        size_t total; /* number of diagnostics found */
        struct ds_ptx_diag diag[DS_PTX_DIAGS_MAX];
};

void ds_ptx_diag_add(struct ds_ptx_diags *diags, const char *text, size_t length, uint32_t line, uint32_t column,
        const char *fmt, ...) __attribute__((__format__(__printf__, 6, 7)));
/* Writes each diagnostic as "name:line:column: error: message", the source line and a caret. Returns the number of
 * bytes as snprintf does. */
size_t ds_ptx_diags_format(const struct ds_ptx_diags *diags, const char *name, char *buffer, size_t size);

/*
 * Parses and validates one PTX text (length bytes, need not end with NUL). limit: most bytes of the module's arena, 0
 * for 256 MiB. Returns 0, -ENOMEM (also past the limit), or DS_PTX_E_INVALID with diagnostics. The text is copied.
 */
int ds_ptx_parse(const char *text, size_t length, size_t limit, struct ds_ptx_diags *diags, ds_ptx_module **ret);
ds_ptx_module *ds_ptx_module_free(ds_ptx_module *module);
/* Bytes of memory for the module's variables; UINT64_MAX if the sum overflows. */
uint64_t ds_ptx_variable_bytes(const ds_ptx_module *module);
/* Prints the module as PTX that assembles to the same machine code. Returns 0 or -errno of the stream. */
int ds_ptx_print(const ds_ptx_module *module, FILE *out);

static inline void ds_ptx_module_freep(ds_ptx_module **p)
{
        *p = ds_ptx_module_free(*p);
}
