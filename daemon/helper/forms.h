/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of a module's kernels, made by a child
 *
 * The passes read a client's PTX, may take seconds for a large module and memory as they like, and nobody waits for
 * them but a test: so a child of the helper does it, at low priority and under limits, and whatever it dies of is only
 * the reason why this module has no forms. What it hands back is the module's text with all forms, and the report
 * (util/forms_file.h). Nothing is waited for here: its owner polls the descriptor and calls ds_forms_step.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "helper/check.h"

typedef struct ds_forms ds_forms;

#define DS_FORMS_CPU_S 10u /* of processor; in all it may take longer, where others want that too: */
#define DS_FORMS_TIME_MS 60000u
#define DS_FORMS_TEXT_MAX ((size_t)32 << 20) /* of PTX; a larger module keeps the forms that it has */

/* The text is not needed any more when it returns. Negative errno. */
int ds_forms_new(const char *text, size_t length, ds_forms **ret);
/* Kills it when it still runs. NULL is fine; returns NULL. */
ds_forms *ds_forms_free(ds_forms *forms);
int ds_forms_process_fd(const ds_forms *forms);       /* readable: it has ended */
uint64_t ds_forms_deadline_ns(const ds_forms *forms); /* of CLOCK_MONOTONIC; step when it is over */
/* 0: it goes on; 1: it is over. Does not block. */
int ds_forms_step(ds_forms *forms, uint64_t now_ns);
/*
 * After a step of 1: the text with all forms and behind it the report, in one piece of memory (ds_free), *ret_text of
 * its *ret_size bytes being the text. NULL: there is nothing of it, and *result says why.
 */
char *ds_forms_result(const ds_forms *forms, struct ds_check_result *result, size_t *ret_text, size_t *ret_size);

static inline void ds_forms_freep(ds_forms **p)
{
        *p = ds_forms_free(*p);
}
