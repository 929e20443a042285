/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about the GPU's calibration: how much kernels disturb each other. The rules are those of control.h.
 */
#pragma once

#include "core/control.h"

#pragma GCC visibility push(default)

#define DSC_CALIBRATION_CELLS 256

enum dsc_calibration_load { DSC_LOAD_COMPUTE, DSC_LOAD_READ, DSC_LOAD_WRITE, DSC_LOADS };

/* One measured pair of loads, as struct detshare_interference of the policies' ABI. */
struct dsc_calibration_cell {
        uint32_t ls_load, be_load, be_sms, be_blocks, ls_permille, be_permille;
};

/*
 * One measured pair of loads with separate memory channels: best-effort memory lies in be_channels channels, all other
 * memory in the remaining ones. be_load DSC_LOAD_NONE: no best-effort load. be_channels 0: memory is not separated.
 */
#define DSC_CHANNEL_CELLS 128
#define DSC_LOAD_NONE DSC_LOADS

struct dsc_channel_cell {
        uint32_t ls_load, be_load, be_channels, be_blocks, ls_permille, be_permille;
};

struct dsc_channel_calibration {
        /* channels of the GPU, 0: not measured; number of best-effort channels worth separating, 0: none */
        uint32_t channels, be;
        size_t n;
        struct dsc_channel_cell cells[DSC_CHANNEL_CELLS];
};

struct dsc_calibration {
        char gpu[128]; /* name and number of SMs of the GPU */
        int simulated, in_memory;
        size_t n;
        struct dsc_calibration_cell cells[DSC_CALIBRATION_CELLS];
        struct dsc_channel_calibration channels;
};

int dsc_control_calibration(dsc_session *s, struct dsc_calibration *ret);
int dsc_control_calibration_put(dsc_session *s, const struct dsc_calibration_cell *cells, size_t n);
/* Stores measurements with separate memory channels; the others stay. */
int dsc_control_channels_put(dsc_session *s, const struct dsc_channel_calibration *channels);
int dsc_control_calibration_forget(dsc_session *s);
/*
 * Starts the policy "calibrate" with these parameters, until the session ends or calls dsc_control_profile_end(). A
 * second call changes the parameters.
 */
int dsc_control_calibration_begin(dsc_session *s, char *const *params, size_t n_params);

#pragma GCC visibility pop
