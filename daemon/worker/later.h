/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned memory that is registered with the GPU after its allocation: managed memory
 *
 * A program that allocates managed memory expects pages only at their first use. So the worker answers at once: with
 * an address, and a file that the client maps. Meanwhile threads allocate the file's pages (pages.c), and the next
 * quiesce registers them.
 *
 * Guarantees: no work that the client submits after the allocation starts before the registration. Until then,
 * dsw_memory_where() does not know the addresses. The client may use the memory at any time, because preparing it
 * changes no byte. If there is no memory for it, the session gets a sticky error, as by a failed operation. Not
 * guaranteed: a kernel that already runs can not use memory that the program allocates meanwhile.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct dsw_session;

#define DSW_RANGE_LATER 16u /* flag of a pinned range that is not registered yet */
#define DSW_LATER_MAX 16u   /* allocations of a session that are not registered yet */
#define DSW_LATER_E_NOW 1   /* contract: this memory must be allocated by dsw_memory_pinned_alloc() */

/* Returns 0, NOW, or a negative errno. The caller has checked the limits and rounded bytes to pages; align is a power of
 * two. *ret_fd is a duplicate of the file's descriptor. */
int dsw_later_alloc(struct dsw_session *session, uint64_t bytes, uint64_t align, uint64_t *ret_va, int *ret_fd);
/* Registers what it can now. Returns 0 if nothing is left, or the session has an error; DSW_WORK_E_STALLED: the session
 * is pumped again when files are ready, or in the next quiesce. */
int dsw_later_settle(struct dsw_session *session);
/* Frees the allocation that begins at va if it is not registered yet. 0: it is registered. */
int dsw_later_free(struct dsw_session *session, uint64_t va);
void dsw_later_free_all(struct dsw_session *session);
