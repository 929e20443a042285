/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measured cost and benefit of partitioning the memory channels, per calibrated GPU
 *
 * The values have a file of their own, apart from the profiles, because the first worker's pool depends on them
 * ([channels] be = auto). Before that worker starts nobody knows which GPU it will find, so it receives the values of
 * all GPUs and selects its own. A GPU is identified by its name and its number of SMs.
 *
 * The file is small text. It is read once and rewritten as a whole at every calibration. It is checked although the
 * daemon wrote it: a checksum over all lines, and bounds for every number. If a check fails, the daemon logs one line
 * and continues without calibrated values.
 */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/wire.h"

#define DS_CALIBRATION_FILE "channels.calibration"
#define DS_CALIBRATION_GPUS_MAX 8u /* number of GPUs kept: those calibrated most recently */
#define DS_CALIBRATION_CELLS_MAX 128u
#define DS_CALIBRATION_NAME_MAX 127u
#define DS_CALIBRATION_PERMILLE_MAX 1000000u

/* Fields as in ChannelCell of detshare.proto. */
struct ds_calibration_cell {
        uint32_t ls_load, be_load, be_channels, be_blocks, ls_permille, be_permille;
};

struct ds_calibration_gpu {
        char name[DS_CALIBRATION_NAME_MAX + 1];
        uint32_t channels, be; /* best number of channels for BE; 0: partitioning does not pay */
        uint32_t n;
        struct ds_calibration_cell cells[DS_CALIBRATION_CELLS_MAX];
};

struct ds_calibration {
        char path[PATH_MAX]; /* the state directory; "": nothing is saved */
        /* number of elements of `gpus`, of which the most recently calibrated is first */
        size_t n;
        struct ds_calibration_gpu *gpus; /* array of DS_CALIBRATION_GPUS_MAX, or NULL: out of memory */
};

/* Reads the file. An unusable file counts as absent. path: the state directory; NULL: values are only kept in
 * memory. */
void ds_calibration_open(struct ds_calibration *c, const char *path);
void ds_calibration_close(struct ds_calibration *c);

/* Checks the values of one GPU. Returns NULL if they are valid, else the reason as text. */
const char *ds_calibration_wrong(const struct ds_calibration_gpu *gpu);
/* The values of the GPU with this name. NULL: it is not calibrated. */
const struct ds_calibration_gpu *ds_calibration_find(const struct ds_calibration *c, const char *name);
/* Replaces the values of the GPU that `gpu` names. Returns 0; -ENOMEM; or -EIO: the file was not written, so the
 * values hold only until the daemon ends. */
int ds_calibration_put(struct ds_calibration *c, const struct ds_calibration_gpu *gpu);
/* Removes the values of the GPU with this name. Returns 0 or -EIO, as ds_calibration_put(). */
int ds_calibration_forget(struct ds_calibration *c, const char *name);
