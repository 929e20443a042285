/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking several images into one, for cuLink*
 *
 * The client sends a struct ds_link_file (proto/wire.h). A child of the helper links it, at low priority and under
 * limits, so a hostile input stops neither the helper nor its other requests. There are two ways:
 *
 *   - If all inputs have PTX, their texts are linked to one text (ptx/link.h), which is the result. The daemon can make
 *     forms of its kernels, and a simulated device can execute it.
 *   - Otherwise nvJitLink (nvjitlink.h) links the machine code, and the result is a cubin: a GPU only. LTO code alone
 *     becomes PTX.
 *
 * A library's objects take part only if they define a name that is otherwise missing. A single input that needs no
 * linking is the result itself. No function here blocks: the owner polls the descriptor and calls ds_link_step().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "helper/check.h"
#include "helper/nvjitlink.h"
#include "proto/wire.h"

typedef struct ds_link ds_link;

/* Limits of the child's processor time and elapsed time */
#define DS_LINK_CPU_S 40u
#define DS_LINK_TIME_MS 60000u
#define DS_LINK_VERSION 1u /* a change of the linker's results gets a new number, which is part of their key */

/* Checks the file's header and descriptions. Returns 0, or -1: *result holds the error. */
int ds_link_check(const void *bytes, size_t size, struct ds_check_result *result);
/* The file's inputs and their number; the file has been checked. */
const struct ds_link_input *ds_link_inputs(const void *bytes, uint32_t *ret_n);

/*
 * Starts the child. The file has been checked; its bytes are needed only during this call. only_read: the inputs are
 * read and not linked, and the result is a short text. Returns 0 or a negative errno.
 */
int ds_link_new(const void *bytes, uint32_t cc, int simulated, int only_read, const struct ds_nvjitlink *library,
        ds_link **ret);
/* Kills the child if it still runs. NULL is allowed; returns NULL. */
ds_link *ds_link_free(ds_link *link);
int ds_link_process_fd(const ds_link *link); /* readable when the child has ended */
/* time limit of the child by CLOCK_MONOTONIC, ns; call ds_link_step() when it has passed */
uint64_t ds_link_deadline_ns(const ds_link *link);
/* Checks whether the child has ended, without blocking. Returns 0: it still runs; 1: it has ended. */
int ds_link_step(ds_link *link, uint64_t now_ns);
/* Returns the linked image (ds_free) after a step that returned 1, and the linker's messages in result->message. NULL:
 * *result holds the error. */
void *ds_link_result(const ds_link *link, struct ds_check_result *result, size_t *ret_size);

static inline void ds_link_freep(ds_link **p)
{
        *p = ds_link_free(*p);
}
