/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start of a thread that handles no signals: the program's loop handles them
 */
#pragma once

#include <pthread.h>

/* Starts a joinable thread with all signals blocked. Returns 0 or a negative errno. */
int ds_thread_start(pthread_t *ret, void *(*run)(void *), void *arg);
