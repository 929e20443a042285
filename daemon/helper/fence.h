/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Privilege drop: rights that the process gives up before it reads an image
 *
 * A helper serves one user, and several helpers run at once. One that a malicious image controls must not reach the
 * others, so:
 *
 *   - A helper started by root changes to a uid of its own: a random one of 2^27 that no account, container or service
 *     has. Processes of different uids cannot signal or trace each other, nor read each other's memory. Compilers have
 *     the uid of the helper that starts them. A process that outlives its helper meets no later helper of its uid.
 *   - Where these uids do not exist (a user namespace with few ids) all helpers run as nobody, which is logged. Then
 *     Landlock isolates their memory: a process in a Landlock domain can trace only processes of the same domain, and
 *     from Linux 6.12 on signal only those. Compilers inherit the domain. The helper of a daemon that is not root also
 *     enters a domain, which isolates the daemon's memory from it.
 *
 * Where neither is available, a helper under an attacker's control can change the output of another helper's compiler.
 */
#pragma once

#include <sys/types.h>

/* The helpers' uids are 2013265920 to 2147483647: above the range of sssd, in a range that systemd documents as
 * unused. */
#define DS_FENCE_UID_FIRST 0x78000000u
#define DS_FENCE_UIDS 0x08000000u
#define DS_FENCE_NOBODY 65534u

/* Positive return codes */
#define DS_FENCE_E_ROOT 1 /* root cannot become another user here; the reason is logged */

/*
 * Gives up the rights, irreversibly. say: log it if the helper gets no uid of its own. Returns 0, DS_FENCE_E_ROOT, or a
 * negative errno. A change of the user clears the parent-death signal, so this function sets it again.
 */
int ds_fence(int say);
