/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of a module's kernels, made by a child process
 *
 * The passes read a client's PTX and may take seconds and much memory for a large module; only tests wait for their
 * result. So a child of the helper runs them, at low priority and under limits. If the child fails, the reason is only
 * recorded as the reason why this module has no forms. Its result is the module's text with all forms, and the report
 * (util/forms_file.h). No function here blocks: the owner polls the descriptor and calls ds_forms_step().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "helper/check.h"

typedef struct ds_forms ds_forms;

/* Limit of the child's processor time. Its limit of elapsed time is larger, since it has low priority. */
#define DS_FORMS_CPU_S 10u
#define DS_FORMS_TIME_MS 60000u
#define DS_FORMS_TEXT_MAX ((size_t)32 << 20) /* most bytes of PTX; a larger module gets no forms */

/* Starts the child. Copies the text. Returns 0 or a negative errno. */
int ds_forms_new(const char *text, size_t length, ds_forms **ret);
/* Kills the child if it still runs. NULL is allowed; returns NULL. */
ds_forms *ds_forms_free(ds_forms *forms);
int ds_forms_process_fd(const ds_forms *forms); /* readable when the child has ended */
/* time limit of the child by CLOCK_MONOTONIC, ns; call ds_forms_step() when it has passed */
uint64_t ds_forms_deadline_ns(const ds_forms *forms);
/* Checks whether the child has ended, without blocking. Returns 0: it still runs; 1: it has ended. */
int ds_forms_step(ds_forms *forms, uint64_t now_ns);
/*
 * Returns the result after a step that returned 1: the text with all forms followed by the report, in one block
 * (ds_free) of *ret_size bytes, of which the first *ret_text are the text. NULL: there is no result, and *result holds
 * the reason.
 */
char *ds_forms_result(const ds_forms *forms, struct ds_check_result *result, size_t *ret_text, size_t *ret_size);

static inline void ds_forms_freep(ds_forms **p)
{
        *p = ds_forms_free(*p);
}
