/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kept: what LS requests and BE achieve side by side (sharing.h) outlasts the policy, the daemon and both programs
 *
 * Once the ways are measured, the policy writes them to a note (struct detshare_note) of the pair: the service and all
 * BE sessions that have run beside it since the last new one. Programs are recognised by their kernels (sketch.h). The
 * group of the note is made of the users of both, so users do not share notes, not even for the same program.
 *
 * When the pair meets again, the note stands for a measurement. It is used at once and checked by the first requests
 * (sharing_adopt). Only the speeds are kept: the choice follows from them and from the present objective. A note is
 * ignored if it has another version, values that cannot be, other SM counts, or another length of requests.
 *
 * Not guaranteed: two programs with the same kernels, for example a model with other weights, share a note.
 */
#pragma once

#include "policies/detshare/state.h"

/* Looks for the note of the session and the present BE, unless they have been measured for a while. */
void kept_recall(const struct detshare *d, struct ls *ls);

/* Writes the note of the session and the present BE, if they are measured and the note is older than a few requests. */
void kept_write(const struct detshare *d, struct ls *ls);
