/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of kernels: between the worker, who measures, the store, which keeps, and administrators, who look
 *
 * The worker says which kernels it sees for the first time and hears what is stored of them, whoever measured it; what
 * it refines from the times of what runs it says every few seconds. A worker that is started anew asks for all again.
 * Kernels of one image are the same for all users and share their rows; what a list says about them is for
 * administrators alone.
 *
 * A profiling run (`detsharectl profile run`) sets the policy "profile" for as long as the connection that asked for it
 * lives: however it ends, the policy in charge is put back, with the parameters that it had. Calibrations (`detsharectl
 * calibrate`) do the same with the policy "calibrate", and what they find out is kept with the profiles, for each GPU.
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

/* The GPU, as profiles and calibrations are kept for it: its name and its number of SMs. */
void ds_profiles_gpu(struct ds_supervisor *supervisor, char ret[static DS_PROFILE_MODEL_MAX + 1]);
/* The store begins to work. 0 or -errno. */
int ds_profiles_start(struct ds_supervisor *supervisor);
/* A worker that has just become ready hears what its GPU was calibrated to. */
void ds_profiles_worker_ready(struct ds_supervisor *supervisor);
/* What the worker says unasked. */
void ds_profiles_seen(struct ds_supervisor *supervisor, const Detshare__Internal__ProfileSeen *seen);
void ds_profiles_refined(struct ds_supervisor *supervisor, const Detshare__Internal__ProfileRefined *refined);
/* A client goes: if it was profiling, the policy is put back. */
void ds_profiles_client_gone(struct ds_client *client);

void ds_handle_list_profiles(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_forget_profiles(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_put_profiles(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_profile_run(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_put_calibration(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_get_calibration(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_forget_calibration(struct ds_client *client, Detshare__Request *request, int *fds);
