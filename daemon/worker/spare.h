/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that clients offer in their rings' headers
 *
 * A client keeps freed memory for its next allocation, and offers it: the worker may free it when any session needs
 * memory. The worker does not request it from the client, because an idle client answers nothing.
 *
 * A client offers only memory that no submitted work uses, so the worker frees it at once, also while the session has
 * work. A client that offers memory in use harms its own work only, as a kernel that uses a wrong address does. What
 * the words say is checked like every address that a client names.
 */
#pragma once

#include "worker/internal.h"

/* Frees what the session's client offers. Returns the number of allocations freed. */
int dsw_spare_free(struct dsw_session *session);
/* As dsw_spare_free(), for all sessions. user: NULL = of all users. busy: 0 = only of sessions without work. */
int dsw_spare_free_all(ds_worker *worker, const struct dsw_user *user, int busy);
int dsw_spare_coming(const ds_worker *worker); /* MemInfoReply.coming */
/* Bytes of the session's offers of `least` bytes or more. */
uint64_t dsw_spare_bytes(const struct dsw_session *session, uint64_t least);
/* Bytes that others offer and the session could get; bytes that sessions of the same user offer. */
void dsw_spare_sum(const struct dsw_session *session, uint64_t *ret_other, uint64_t *ret_user);
