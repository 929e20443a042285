/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/notes.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "sched/internal.h"
#include "util/alloc.h"
#include "util/macro.h"

uint64_t ds_note_key(const char *policy, uint64_t group, uint64_t key)
{
        char text[128];
        const int n = snprintf(
                text, sizeof(text), "%s|%016llx|%016llx", policy, (unsigned long long)group, (unsigned long long)key);
        const uint64_t hash = XXH3_64bits(text, DS_MIN((size_t)n, sizeof(text) - 1));

        return hash ? hash : 1;
}

/* The note with this key; NULL: there is none. */
static struct ds_note *notes_find(struct ds_notes *notes, uint64_t key)
{
        for (uint32_t i = 0; notes->notes && i < DS_NOTES_MAX; i++) {
                if (notes->notes[i].note.key != key)
                        continue;
                notes->notes[i].used = ++notes->turn;
                return &notes->notes[i];
        }
        return NULL;
}

/* The note with the policy, group and key of `like`, a new one if necessary; NULL: out of memory. */
static struct ds_note *notes_touch(struct ds_notes *notes, const char *policy, const struct detshare_note *like)
{
        const uint64_t key = ds_note_key(policy, like->group, like->key);
        struct ds_note *note = notes_find(notes, key);

        if (note)
                return note;
        if (!notes->notes)
                notes->notes = ds_alloc0(DS_NOTES_MAX, sizeof(*notes->notes));
        if (!notes->notes)
                return NULL;
        note = &notes->notes[0];
        for (uint32_t i = 1; i < DS_NOTES_MAX; i++) {
                struct ds_note *other = &notes->notes[i];

                if (other->changed != note->changed ? note->changed : other->used < note->used)
                        note = other;
        }
        *note = (struct ds_note){
                .note = {.key = key, .group = ds_note_key(policy, like->group, 0)}, .used = ++notes->turn};
        return note;
}

void ds_notes_get(struct ds_notes *notes, const char *policy, struct detshare_note *note)
{
        struct ds_note *found = notes_touch(notes, policy, note);

        note->n = 0;
        if (!found || !found->note.n)
                return;
        note->n = found->note.n;
        memcpy(note->values, found->note.values, sizeof(note->values));
}

void ds_notes_put(struct ds_notes *notes, const char *policy, const struct detshare_note *note)
{
        struct ds_note *found = notes_touch(notes, policy, note);

        if (!found)
                return;
        found->note.n = DS_MIN(note->n, DETSHARE_NOTE_VALUES);
        memcpy(found->note.values, note->values, sizeof(found->note.values));
        snprintf(found->note.text, sizeof(found->note.text), "%s: %.*s", policy, (int)DETSHARE_NOTE_TEXT - 1,
                note->text);
        found->asked = found->changed = 1;
}

void ds_notes_forget(struct ds_notes *notes)
{
        if (notes->notes)
                memset(notes->notes, 0, DS_NOTES_MAX * sizeof(*notes->notes));
}

void ds_notes_deinit(struct ds_notes *notes)
{
        notes->notes = ds_free(notes->notes);
}

size_t ds_sched_notes_asked(ds_sched *sched, struct ds_sched_note *ret, size_t n)
{
        struct ds_notes *notes = &sched->host.notes;
        size_t count = 0;

        for (uint32_t i = 0; notes->notes && i < DS_NOTES_MAX && count < n; i++) {
                struct ds_note *note = &notes->notes[i];

                if (!note->note.key || note->asked)
                        continue;
                note->asked = 1;
                ret[count++] = note->note;
        }
        return count;
}

size_t ds_sched_notes_changed(ds_sched *sched, struct ds_sched_note *ret, size_t n)
{
        struct ds_notes *notes = &sched->host.notes;
        size_t count = 0;

        for (uint32_t i = 0; notes->notes && i < DS_NOTES_MAX && count < n; i++) {
                struct ds_note *note = &notes->notes[i];

                if (!note->changed)
                        continue;
                note->changed = 0;
                ret[count++] = note->note;
        }
        return count;
}

void ds_sched_note_put(ds_sched *sched, const struct ds_sched_note *note)
{
        struct ds_note *found = notes_find(&sched->host.notes, note->key);

        /* nobody asked for it; or the policy has written it meanwhile, and knows better */
        if (!found || found->note.n)
                return;
        found->note = *note;
        found->note.n = DS_MIN(note->n, DETSHARE_NOTE_VALUES);
        found->note.text[sizeof(found->note.text) - 1] = 0;
}
