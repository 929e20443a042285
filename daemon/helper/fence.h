/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper's fence: what the process gives up before it reads an image
 *
 * A helper serves one user, and several run at once. One that an image has taken over must not reach the others, so:
 *
 *   - A helper that root starts becomes a uid of its own: a random one of 2^27 that no account, container or service
 *     has. Processes of different uids cannot signal or trace each other, nor read each other's memory. Compilers have
 *     the uid of the helper that starts them. A process that outlives its helper meets no later helper of its uid.
 *   - Where these uids do not exist (a user namespace with few ids) all helpers are nobody, and a line in the log says
 *     so. Then Landlock keeps them from each other's memory: a process in a Landlock domain traces only processes of
 *     the same domain, and from Linux 6.12 on signals no others either. The compilers inherit the domain. So does a
 *     helper of a daemon that is not root, which is kept from the daemon's memory in the same way.
 *
 * Where neither is there, a helper that was taken over can change what the compiler of another one makes.
 */
#pragma once

#include <sys/types.h>

/* 2013265920 to 2147483647: beyond what sssd hands out, in what systemd documents as unused. */
#define DS_FENCE_UID_FIRST 0x78000000u
#define DS_FENCE_UIDS 0x08000000u
#define DS_FENCE_NOBODY 65534u

/* Contract codes */
#define DS_FENCE_E_ROOT 1 /* root can become nobody else here; the log says so */

/*
 * Irreversible. say: the log is told when the helper has no uid of its own. 0, ROOT, or a negative errno. Changing the
 * user takes back the parent's death signal, which is therefore set again here.
 */
int ds_fence(int say);
