/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about profiles of kernels. The rules are those of control.h.
 */
#pragma once

#include "core/control.h"

#pragma GCC visibility push(default)

#define DSC_PROFILE_POINTS 24
#define DSC_PROFILE_NAME 256
#define DSC_PROFILE_NOTE 40

struct dsc_profile_point {
        uint32_t n_sms, samples;
        uint64_t mean_ns;
};

struct dsc_profile {
        uint64_t key;
        char kernel[DSC_PROFILE_NAME];
        uint32_t grid[3], block[3], shared_bytes;
        uint32_t bound; /* limiting resource: 0 unknown, 1 compute, 2 memory */
        /* duration of the sliced and the persistent form in permille of the native form's; samples 0: not measured */
        uint32_t sliced_permille, sliced_samples, persistent_permille, persistent_samples;
        uint64_t footprint; /* least memory that a launch reads or writes, bytes; 0 unknown */
        uint32_t n_points;
        struct dsc_profile_point points[DSC_PROFILE_POINTS]; /* sorted by n_sms */
        uint64_t changed_ms, used_ms;
        /* a note of a policy if n_note is not 0: `kernel` is its text, and nothing else is set */
        uint32_t n_note;
        uint64_t group, note[DSC_PROFILE_NOTE];
};

struct dsc_profiles {
        char gpu[128]; /* name and number of SMs of the GPU */
        uint64_t kept, bytes, refused, failed;
        int in_memory;
        struct dsc_profile *rows; /* malloc'ed by dsc_control_profiles() */
        size_t n;
};

/* *ret: profiles of kernels whose name contains `filter` ("" = all) and that changed at since_ms or later. */
int dsc_control_profiles(dsc_session *s, const char *filter, uint64_t since_ms, struct dsc_profiles *ret);
int dsc_control_profiles_forget(dsc_session *s, const char *filter, uint64_t *ret_count);
int dsc_control_profiles_put(dsc_session *s, const struct dsc_profile *rows, size_t n);
/* Starts the policy "profile" with these parameters, until the session ends or calls dsc_control_profile_end(). */
int dsc_control_profile_run(dsc_session *s, char *const *params, size_t n_params);
int dsc_control_profile_end(dsc_session *s);

#pragma GCC visibility pop
