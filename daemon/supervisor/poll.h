/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libuv with the daemon's allocator, and without its abort()
 *
 * libuv keeps a table of polled handles, indexed by file descriptor, and ends the process when that table cannot grow.
 * A daemon must not end because a client connects while memory is short. So ds_poll_start(), which can fail, first
 * allocates spare memory for a larger table, and libuv's allocator falls back to it. All other functions of libuv
 * report a lack of memory. From ds_poll_setup() on they use the daemon's allocator.
 *
 * One case still ends the process: the kernel refuses epoll_ctl() for a file that it accepted a moment before (no
 * memory, or the user's limit of watches, fs.epoll.max_user_watches).
 */
#pragma once

#include <uv.h>

/* Prepares libuv. Must precede any other function of libuv. Idempotent. Returns 0 or -ENOMEM. */
int ds_poll_setup(void);
/* Works as uv_poll_start(), but returns -ENOMEM where that function would abort. Returns 0 or a negative errno. */
int ds_poll_start(uv_poll_t *poll, int events, uv_poll_cb fn);
/* Frees the spare memory for a new loop. Call it when the loop's first handles are active. */
void ds_poll_settled(void);
