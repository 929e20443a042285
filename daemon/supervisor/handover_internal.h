/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What handover.c and its two halves share: the names of the files in the store
 *
 * "s<session>.<file>", both hexadecimal, files counted from 1. Short, because systemd hands all names over in one
 * string of the environment, which the kernel bounds at 128 KiB.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ds_supervisor;

#define DS_HANDOVER_NAME_MAX 32u
#define DS_HANDOVER_NAMES_MAX 120000u /* bytes of all names, with what is between them */

/* Returns the name's length. */
size_t ds_handover_name(char name[static DS_HANDOVER_NAME_MAX], uint64_t session, uint32_t file);
/* Is it one that we may have given? */
int ds_handover_is_name(const char *name);
