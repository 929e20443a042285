/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of kernels: exchanged between the worker (measures), the store (keeps) and administrators (read)
 *
 * The worker reports each kernel that it sees for the first time and receives the stored profile, whoever measured it.
 * Every few seconds it sends profiles that it has refined from running kernels. A restarted worker requests all
 * profiles again. Kernels of one image are the same for all users and share their rows; only administrators may list
 * them. Notes of policies take the same way; the worker's policy reads them by a key that includes the users concerned.
 *
 * A profiling run (`detsharectl profile run`) sets the policy "profile" as long as the connection that requested it
 * exists. However it ends, the previous policy is restored with its parameters. Calibrations (`detsharectl calibrate`)
 * do the same with the policy "calibrate"; their results are stored with the profiles, per GPU.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "internal.pb-c.h"
#include "supervisor/profile_db.h"

struct ds_client;
struct ds_supervisor;

#define DS_PROFILE_POLICY "profile"
#define DS_CALIBRATE_POLICY "calibrate"

/* Writes the key of this daemon's GPU in the database: its name and its number of SMs. */
void ds_profiles_gpu(struct ds_supervisor *supervisor, char ret[static DS_PROFILE_MODEL_MAX + 1]);
/* Starts the store of profiles. Returns 0 or -errno. */
int ds_profiles_start(struct ds_supervisor *supervisor);
/* Sends the calibration of the worker's GPU to a worker that has just become ready. */
void ds_profiles_worker_ready(struct ds_supervisor *supervisor);
/* Handle the worker's reports of kernels seen for the first time, and of refined profiles. */
void ds_profiles_seen(struct ds_supervisor *supervisor, const Detshare__Internal__ProfileSeen *seen);
void ds_profiles_refined(struct ds_supervisor *supervisor, const Detshare__Internal__ProfileRefined *refined);
/* Called when a client disconnects: if it ran a profiling run, the previous policy is restored. */
void ds_profiles_client_gone(struct ds_client *client);

void ds_handle_list_profiles(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_forget_profiles(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_put_profiles(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_profile_run(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_put_calibration(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_get_calibration(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_forget_calibration(struct ds_client *client, Detshare__Request *request, int *fds);
