/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the daemon what its GPU was calibrated to, and telling it: as control.h, which has the rules
 */
#pragma once

#include "core/control.h"

#pragma GCC visibility push(default)

#define DSC_CALIBRATION_CELLS 256

enum dsc_calibration_load { DSC_LOAD_COMPUTE, DSC_LOAD_READ, DSC_LOAD_WRITE, DSC_LOADS };

/* As struct detshare_interference of the policies' ABI. */
struct dsc_calibration_cell {
        uint32_t ls_load, be_load, be_sms, be_blocks, ls_permille, be_permille;
};

/*
 * The same where best effort has its memory in some of the memory channels, and others have theirs in the rest.
 * be_load DSC_LOAD_NONE: nobody is beside. be_channels 0: everybody's memory is in all of them.
 */
#define DSC_CHANNEL_CELLS 128
#define DSC_LOAD_NONE DSC_LOADS

struct dsc_channel_cell {
        uint32_t ls_load, be_load, be_channels, be_blocks, ls_permille, be_permille;
};

struct dsc_channel_calibration {
        uint32_t channels, be; /* of the GPU, 0: nothing was measured; best effort's that pay, 0: none do */
        size_t n;
        struct dsc_channel_cell cells[DSC_CHANNEL_CELLS];
};

struct dsc_calibration {
        char gpu[128]; /* name and number of SMs */
        int simulated, in_memory;
        size_t n;
        struct dsc_calibration_cell cells[DSC_CALIBRATION_CELLS];
        struct dsc_channel_calibration channels;
};

int dsc_control_calibration(dsc_session *s, struct dsc_calibration *ret);
int dsc_control_calibration_put(dsc_session *s, const struct dsc_calibration_cell *cells, size_t n);
/* What is known of channels alone. */
int dsc_control_channels_put(dsc_session *s, const struct dsc_channel_calibration *channels);
int dsc_control_calibration_forget(dsc_session *s);
/*
 * The policy "calibrate" with these parameters, until this session ends or says so (dsc_control_profile_end); asked for
 * again, with others.
 */
int dsc_control_calibration_begin(dsc_session *s, char *const *params, size_t n_params);

#pragma GCC visibility pop
