/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of policies in memory (sched/notes.h): each policy gets its own back, the table is bounded, and a note that comes
 * late does not replace what the policy has written meanwhile
 */
#include <criterion/criterion.h>
#include <string.h>

#include "sched/internal.h"
#include "util/alloc.h"

static ds_sched *sched;

static void setup(void)
{
        sched = ds_alloc0(1, sizeof(*sched));
        cr_assert_not_null(sched);
}

static void teardown(void)
{
        ds_notes_deinit(&sched->host.notes);
        ds_free(sched);
}

TestSuite(sched_notes, .init = setup, .fini = teardown, .timeout = 30);

static void put(const char *policy, uint64_t group, uint64_t key, uint64_t value)
{
        struct detshare_note note = {
                .size = sizeof(note), .n = 2, .group = group, .key = key, .values = {value, ~value}, .text = "text"};

        ds_notes_put(&sched->host.notes, policy, &note);
}

/* Value of a note; 0: there is none. */
static uint64_t get(const char *policy, uint64_t group, uint64_t key)
{
        struct detshare_note note = {.size = sizeof(note), .n = 99, .group = group, .key = key};

        ds_notes_get(&sched->host.notes, policy, &note);
        if (!note.n)
                return 0;
        cr_assert_eq(note.n, 2);
        cr_assert_eq(note.values[1], ~note.values[0]);
        return note.values[0];
}

Test(sched_notes, each_policy_and_group_has_its_own)
{
        put("detshare", 1, 7, 5);
        cr_assert_eq(get("detshare", 1, 7), 5);
        cr_assert_eq(get("other", 1, 7), 0);
        cr_assert_eq(get("detshare", 2, 7), 0);
        cr_assert_eq(get("detshare", 1, 8), 0);
        put("other", 1, 7, 6);
        put("detshare", 1, 7, 9);
        cr_assert_eq(get("detshare", 1, 7), 9);
        cr_assert_eq(get("other", 1, 7), 6);
}

Test(sched_notes, the_keeper_reads_requests_and_changes_once)
{
        struct ds_sched_note notes[4];

        cr_assert_eq(ds_sched_notes_asked(sched, notes, 4), 0);
        get("detshare", 1, 7);
        get("detshare", 1, 7);
        cr_assert_eq(ds_sched_notes_asked(sched, notes, 4), 1);
        cr_assert_eq(notes[0].key, ds_note_key("detshare", 1, 7));
        cr_assert_eq(notes[0].group, ds_note_key("detshare", 1, 0));
        cr_assert_eq(ds_sched_notes_asked(sched, notes, 4), 0);
        cr_assert_eq(ds_sched_notes_changed(sched, notes, 4), 0);
        put("detshare", 1, 7, 5);
        put("detshare", 1, 7, 6);
        cr_assert_eq(ds_sched_notes_changed(sched, notes, 4), 1);
        cr_assert_eq(notes[0].values[0], 6);
        cr_assert_str_eq(notes[0].text, "detshare: text");
        cr_assert_eq(ds_sched_notes_changed(sched, notes, 4), 0);
}

Test(sched_notes, a_note_that_comes_is_used_unless_the_policy_has_written)
{
        struct ds_sched_note note = {
                .key = ds_note_key("detshare", 1, 7), .group = 1, .n = 2, .values = {5, ~UINT64_C(5)}, .text = "x"};

        ds_sched_note_put(sched, &note);
        cr_assert_eq(get("detshare", 1, 7), 0, "nobody had asked for it");
        ds_sched_note_put(sched, &note);
        cr_assert_eq(get("detshare", 1, 7), 5);
        put("detshare", 1, 7, 6);
        ds_sched_note_put(sched, &note);
        cr_assert_eq(get("detshare", 1, 7), 6);
        note.n = UINT32_MAX;
        note.key = ds_note_key("detshare", 1, 8);
        get("detshare", 1, 8);
        ds_sched_note_put(sched, &note);
        cr_assert_eq(sched->host.notes.notes[1].note.n, DETSHARE_NOTE_VALUES);
        ds_notes_forget(&sched->host.notes);
        cr_assert_eq(get("detshare", 1, 7), 0);
}

/* The least recently used note is replaced, but a note that the keeper has yet to read only if all are such. */
Test(sched_notes, the_table_is_bounded)
{
        struct ds_sched_note notes[DS_NOTES_MAX];

        for (uint64_t key = 1; key <= DS_NOTES_MAX; key++)
                put("detshare", 1, key, key);
        cr_assert_eq(ds_sched_notes_changed(sched, notes, DS_NOTES_MAX), DS_NOTES_MAX);
        put("detshare", 1, 1, 100);
        for (uint64_t key = 1; key < DS_NOTES_MAX; key++) {
                get("detshare", 1, 2);
                get("detshare", 2, key);
        }
        cr_assert_eq(get("detshare", 1, 1), 100, "the keeper has yet to read it");
        cr_assert_eq(get("detshare", 1, 2), 2, "it is in use");
        cr_assert_eq(get("detshare", 1, 3), 0);
        for (uint64_t key = 1; key <= 2 * DS_NOTES_MAX; key++)
                put("detshare", 3, key, key);
        cr_assert_eq(get("detshare", 3, 1), 0, "nobody reads the changes, so the oldest goes");
        cr_assert_eq(get("detshare", 3, 2 * DS_NOTES_MAX), 2 * DS_NOTES_MAX);
}
