/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What dividing the memory channels was found to do, for each GPU that was calibrated
 *
 * Apart from the file of profiles, where the rest of a calibration is, because it is needed before the first worker is
 * started, whose pool it decides about ([channels] be = auto), when nobody knows yet which GPU it will find: the worker
 * is told of all and takes its own. A GPU is its name and its number of SMs. The file is small, text, read once and
 * written anew as a whole when somebody calibrates. It is the daemon's own and is not believed: a sum over all, and
 * every figure in its bounds, else it is as if nothing had been measured, and one line in the log says so.
 */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/wire.h"

#define DS_CALIBRATION_FILE "channels.calibration"
#define DS_CALIBRATION_GPUS_MAX 8u /* those that were calibrated last */
#define DS_CALIBRATION_CELLS_MAX 128u
#define DS_CALIBRATION_NAME_MAX 127u
#define DS_CALIBRATION_PERMILLE_MAX 1000000u

/* As detshare.proto's ChannelCell. */
struct ds_calibration_cell {
        uint32_t ls_load, be_load, be_channels, be_blocks, ls_permille, be_permille;
};

struct ds_calibration_gpu {
        char name[DS_CALIBRATION_NAME_MAX + 1];
        uint32_t channels, be; /* be 0: dividing them does not pay */
        uint32_t n;
        struct ds_calibration_cell cells[DS_CALIBRATION_CELLS_MAX];
};

struct ds_calibration {
        char path[PATH_MAX];             /* the state directory; "" = nothing is kept */
        size_t n;                        /* the first was calibrated last */
        struct ds_calibration_gpu *gpus; /* DS_CALIBRATION_GPUS_MAX of them, or NULL: no room was had */
};

/* path: the state directory, NULL: in memory. Reads what is there; a file that cannot be used is none. */
void ds_calibration_open(struct ds_calibration *c, const char *path);
void ds_calibration_close(struct ds_calibration *c);

/* Is it one that may be kept? NULL, or why not, in words. */
const char *ds_calibration_wrong(const struct ds_calibration_gpu *gpu);
/* NULL: this GPU was not calibrated. */
const struct ds_calibration_gpu *ds_calibration_find(const struct ds_calibration *c, const char *name);
/* In place of what there was of that GPU. 0; -ENOMEM; -EIO: it could not be written, and holds until the daemon ends.
 */
int ds_calibration_put(struct ds_calibration *c, const struct ds_calibration_gpu *gpu);
/* As if it had not been calibrated. 0 or -EIO, as above. */
int ds_calibration_forget(struct ds_calibration *c, const char *name);
