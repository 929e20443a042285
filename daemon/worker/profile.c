/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles: reports the kernels seen, and exchanges their measurements and policies' notes with the supervisor
 *
 * The scheduler records new kernels and refines a kernel's profile with every undisturbed sample. The supervisor stores
 * the profiles of all workers of this GPU. The worker reports new kernels soon, in batches, and receives the stored
 * profiles. It sends refined profiles every two seconds in which something ended, on request, and when it ends. No work
 * waits for this: a kernel without a profile runs with the defaults. Notes of policies (sched/notes.h) travel in the same
 * messages.
 */
#include <stdio.h>
#include <string.h>

#include "util/error.h"
#include "worker/internal.h"

#define PROFILE_ROWS 64u                  /* profiles per message */
#define PROFILE_ASK_NS (5 * DS_NS_PER_MS) /* minimum interval between two messages with profiles */
#define PROFILE_SAY_NS (2 * DS_NS_PER_S)  /* interval between two reports of all refined profiles */
#define PROFILE_NOTES 8u                  /* most notes in such a message */
#define PROFILE_FLUSH 64u                 /* most messages that a request for all profiles sends at once */

/* Buffer of one message, which is filled and sent at once. */
static struct {
        Detshare__Profile profiles[PROFILE_ROWS], *pointers[PROFILE_ROWS];
        Detshare__ProfilePoint points[PROFILE_ROWS][DETSHARE_POINTS_MAX],
                *point_pointers[PROFILE_ROWS][DETSHARE_POINTS_MAX];
        struct ds_sched_note notes[PROFILE_NOTES];
} profile_out;

/* Adds the first n notes of the buffer to the message, behind `at` profiles. Returns the number of both. */
static size_t profile_fill_notes(size_t at, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                struct ds_sched_note *note = &profile_out.notes[i];
                Detshare__Profile *profile = &profile_out.profiles[at];

                detshare__profile__init(profile);
                profile->key = note->key;
                profile->of_policy = 1;
                profile->group = note->group;
                profile->kernel = note->text;
                profile->note = note->values;
                profile->n_note = note->n;
                profile_out.pointers[at++] = profile;
        }
        return at;
}

static size_t profile_say_seen(ds_worker *worker)
{
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__ProfileSeen list = DETSHARE__INTERNAL__PROFILE_SEEN__INIT;
        struct ds_sched_seen seen[PROFILE_ROWS];
        size_t n = ds_sched_seen(worker->sched, seen, PROFILE_ROWS - PROFILE_NOTES);

        for (size_t i = 0; i < n; i++) {
                Detshare__Profile *profile = &profile_out.profiles[i];

                detshare__profile__init(profile);
                profile->key = seen[i].key;
                profile->kernel = seen[i].name;
                profile->grid_x = seen[i].grid[0];
                profile->grid_y = seen[i].grid[1];
                profile->grid_z = seen[i].grid[2];
                profile->block_x = seen[i].block[0];
                profile->block_y = seen[i].block[1];
                profile->block_z = seen[i].block[2];
                profile->shared_bytes = seen[i].shared_bytes;
                profile_out.pointers[i] = profile;
        }
        n = profile_fill_notes(n, ds_sched_notes_asked(worker->sched, profile_out.notes, PROFILE_NOTES));
        if (!n)
                return 0;
        list.profiles = profile_out.pointers;
        list.n_profiles = n;
        message.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_PROFILE_SEEN;
        message.profile_seen = &list;
        dsw_message_send(worker, &message, NULL, 0);
        return n;
}

static void profile_fill(size_t i, const struct ds_sched_profile *from)
{
        Detshare__Profile *profile = &profile_out.profiles[i];

        detshare__profile__init(profile);
        profile->key = from->key;
        profile->bound = from->bound;
        profile->sliced_permille = from->forms[DS_PTX_FORM_SLICED].permille;
        profile->sliced_samples = from->forms[DS_PTX_FORM_SLICED].samples;
        profile->persistent_permille = from->forms[DS_PTX_FORM_PERSISTENT].permille;
        profile->persistent_samples = from->forms[DS_PTX_FORM_PERSISTENT].samples;
        for (uint32_t k = 0; k < from->n_points; k++) {
                Detshare__ProfilePoint *point = &profile_out.points[i][k];

                detshare__profile_point__init(point);
                point->n_sms = from->points[k].n_sms;
                point->samples = from->points[k].samples;
                point->mean_ns = from->points[k].mean_ns;
                profile_out.point_pointers[i][k] = point;
        }
        profile->points = profile_out.point_pointers[i];
        profile->n_points = from->n_points;
        profile_out.pointers[i] = profile;
}

static size_t profile_say_refined(ds_worker *worker)
{
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__ProfileRefined list = DETSHARE__INTERNAL__PROFILE_REFINED__INIT;
        struct ds_sched_profile refined[PROFILE_ROWS];
        size_t n = ds_sched_profiles_changed(worker->sched, refined, PROFILE_ROWS - PROFILE_NOTES);

        for (size_t i = 0; i < n; i++)
                profile_fill(i, &refined[i]);
        n = profile_fill_notes(n, ds_sched_notes_changed(worker->sched, profile_out.notes, PROFILE_NOTES));
        if (!n)
                return 0;
        list.profiles = profile_out.pointers;
        list.n_profiles = n;
        message.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_PROFILE_REFINED;
        message.profile_refined = &list;
        dsw_message_send(worker, &message, NULL, 0);
        return n;
}

void dsw_profile_flush(ds_worker *worker)
{
        for (unsigned i = 0; i < PROFILE_FLUSH && profile_say_seen(worker); i++)
                continue;
        for (unsigned i = 0; i < PROFILE_FLUSH && profile_say_refined(worker); i++)
                continue;
        worker->profile.said_wall_ns = worker->wall_ns();
}

void dsw_profile_step(ds_worker *worker)
{
        const uint64_t now = worker->wall_ns();

        if (now - worker->profile.asked_wall_ns < PROFILE_ASK_NS || dsw_message_full(worker))
                return;
        worker->profile.asked_wall_ns = now;
        profile_say_seen(worker);
        if (now - worker->profile.said_wall_ns < PROFILE_SAY_NS ||
                worker->active_wall_ns < worker->profile.said_wall_ns)
                return;
        /* if the message is full, the next one carries the other refined profiles */
        if (profile_say_refined(worker) < PROFILE_ROWS - PROFILE_NOTES)
                worker->profile.said_wall_ns = now;
}

uint64_t dsw_profile_wait_ns(const ds_worker *worker)
{
        uint64_t now, due;

        if (worker->active_wall_ns < worker->profile.said_wall_ns)
                return UINT64_MAX;
        now = worker->wall_ns();
        due = worker->profile.said_wall_ns + PROFILE_SAY_NS;
        if (worker->profile.asked_wall_ns < worker->active_wall_ns)
                due = DS_MIN(due, worker->profile.asked_wall_ns + PROFILE_ASK_NS);
        return due > now ? due - now : 0;
}

static void profile_put_note(ds_worker *worker, const Detshare__Profile *from)
{
        struct ds_sched_note note = {.key = from->key, .group = from->group};

        for (; note.n < from->n_note && note.n < DETSHARE_NOTE_VALUES; note.n++)
                note.values[note.n] = from->note[note.n];
        snprintf(note.text, sizeof(note.text), "%s", from->kernel);
        ds_sched_note_put(worker->sched, &note);
}

void dsw_profile_put(ds_worker *worker, const Detshare__Internal__ProfilePut *put)
{
        for (size_t i = 0; i < put->n_profiles; i++) {
                const Detshare__Profile *from = put->profiles[i];
                struct ds_sched_profile profile = {.key = from->key, .bound = from->bound};

                if (from->of_policy) {
                        profile_put_note(worker, from);
                        continue;
                }
                profile.forms[DS_PTX_FORM_SLICED] =
                        (struct ds_sched_form_cost){.samples = from->sliced_samples, .permille = from->sliced_permille};
                profile.forms[DS_PTX_FORM_PERSISTENT] = (struct ds_sched_form_cost){
                        .samples = from->persistent_samples, .permille = from->persistent_permille};
                for (size_t k = 0; k < from->n_points && k < DETSHARE_POINTS_MAX; k++)
                        profile.points[profile.n_points++] =
                                (struct detshare_profile_point){.n_sms = from->points[k]->n_sms,
                                        .samples = from->points[k]->samples,
                                        .mean_ns = from->points[k]->mean_ns};
                ds_sched_profile_put(worker->sched, &profile);
        }
}

int dsw_profile_calibration(ds_worker *worker, const Detshare__Internal__Calibration *calibration)
{
        struct detshare_interference cells[256];
        uint32_t n = 0;

        for (size_t i = 0; i < calibration->n_cells && n < DS_ARRAY_SIZE(cells); i++) {
                const Detshare__Internal__Interference *from = calibration->cells[i];

                cells[n++] = (struct detshare_interference){.ls_load = from->ls_load,
                        .be_load = from->be_load,
                        .be_sms = from->be_sms,
                        .be_blocks = from->be_blocks,
                        .ls_permille = from->ls_permille,
                        .be_permille = from->be_permille};
        }
        worker->sched_due = 1;
        return ds_sched_set_interference(worker->sched, cells, n, worker->now_ns);
}
