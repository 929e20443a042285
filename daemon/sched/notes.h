/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of policies (struct detshare_note), in memory
 *
 * A policy reads and writes its notes here without waiting. Somebody else keeps them: ds_sched_notes_asked() says which
 * notes to read from the database, ds_sched_note_put() brings them, and ds_sched_notes_changed() returns the new ones.
 * If nobody does that (replay, tests), the notes live as long as the scheduler, over changes of the policy.
 *
 * The host's key of a note is a hash of the policy's name, the group and the policy's key; its group is a hash of name and
 * group. So policies do not share notes. The table has DS_NOTES_MAX notes. A new note replaces the least recently used one,
 * and a note that the keeper has yet to read only if all are such.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "policies/detshare_policy.h"
#include "sched/sched.h"

#define DS_NOTES_MAX 64u

struct ds_note {
        struct ds_sched_note note; /* key 0: the place is free */
        uint64_t used;             /* turn of the last use */
        uint8_t asked;             /* 1: ds_sched_notes_asked() has returned it, or the policy has written it */
        uint8_t changed;           /* 1: ds_sched_notes_changed() has yet to return it */
};

struct ds_notes {
        struct ds_note *notes; /* NULL until the first use */
        uint64_t turn;
};

/* The host's key of a note; never 0. */
uint64_t ds_note_key(const char *policy, uint64_t group, uint64_t key);

/* Reads and writes a note of the policy, as in struct detshare_notes. Without memory there are no notes. */
void ds_notes_get(struct ds_notes *notes, const char *policy, struct detshare_note *note);
void ds_notes_put(struct ds_notes *notes, const char *policy, const struct detshare_note *note);
void ds_notes_forget(struct ds_notes *notes);
void ds_notes_deinit(struct ds_notes *notes);
