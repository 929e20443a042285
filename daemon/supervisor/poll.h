/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libuv with the daemon's allocator, and without its abort()
 *
 * libuv keeps a table of what is polled, indexed by file descriptor, and ends the process when that table cannot grow.
 * A daemon must not end because one more client came while memory was short. So the memory for a larger table is taken
 * first, by ds_poll_start, which can fail; libuv's allocator falls back to it. Everything else of libuv reports that
 * memory is short, and goes through the daemon's allocator (and its seam) from ds_poll_setup on.
 *
 * What is left: the kernel refusing epoll_ctl() for a file that it took a moment before (no memory, or the user's limit
 * of watches, fs.epoll.max_user_watches) still ends the process.
 */
#pragma once

#include <uv.h>

/* Before anything else of libuv; again does nothing. -ENOMEM. */
int ds_poll_setup(void);
/* uv_poll_start, but -ENOMEM where that would abort. Returns 0 or a negative errno. */
int ds_poll_start(uv_poll_t *poll, int events, uv_poll_cb fn);
/* Gives back what is kept for a loop that is being made: call it when its first handles run. */
void ds_poll_settled(void);
