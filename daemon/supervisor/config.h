/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: a file, and the *.conf of the directory conf.d beside it
 *
 * INI files read with inih, whose silent traps are closed here: lines that it would cut, indented lines that it
 * would append to the value before, names that it would shorten, what it skips behind a section's name, comments that
 * become part of a value, keys given twice. The first error ends the reading and is named with file, line and key. What
 * is not given keeps its value; a later file wins key by key.
 *
 *   [daemon]        policy=NAME  device=SPEC  socket=PATH  libcuda=PATH  ptxas=PATH  state=PATH
 *                   spin_us=N  transform=always|auto|never  evict_us=N  graph_piece_us=N
 *   [limits]        connections=N  connections_per_uid=N  sessions_per_uid=N  memory_per_uid=MIB  pinned_per_uid=MIB
 *                   sm_percent=N  gpu_request_percent=N  gpu_limit_percent=N  calls_per_second=N  calls_burst=N
 *                   orphan_seconds=N  kernel_seconds=N
 *                   quiesce_seconds=N  compiled_code=MIB
 *   [gpu]           ladder_steps=N  ladder_order=spread|gpc  settle=auto|never
 *   [channels]      pool_mib=N  be=auto|off|N|N/M  tables=DIR
 *   [class]         ls_uids=alice,1000  ls_groups=audio,wheel   (`*`: everybody)
 *   [user NAME]     classes=ls,be  sm_percent=N  gpu_request_percent=N  gpu_limit_percent=N  memory=MIB  pinned=MIB
 *                   sessions=N  connections=N
 *   [group NAME]    calls_per_second=N  calls_burst=N   (numbers may be `none`)
 *   [policy NAME]   KEY=VALUE, as the policy knows them
 *
 * Nobody but root may be able to write what root's daemon believes: such files and directories are refused.
 */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "proto/wire.h"
#include "supervisor/rules.h"

/* Contract codes */
#define DS_CONFIG_E_INVALID 1 /* see the message */

#define DS_CONFIG_BYTES_MAX (1u << 20) /* of one file */
#define DS_CONFIG_FILES_MAX 256u       /* of conf.d */
#define DS_CONFIG_PARAMS_MAX DS_POLICY_PARAMS_MAX
#define DS_CONFIG_POLICY_MAX 63u /* characters of its name */

/* "key=value" of a policy, and where it stands. */
struct ds_config_param {
        char *policy, *text, *where;
        unsigned file;
};

/* When kernels are given forms that can be sliced and evicted */
enum ds_transform {
        DS_TRANSFORM_NOT_SAID,
        DS_TRANSFORM_AUTO,   /* behind their clients' backs */
        DS_TRANSFORM_ALWAYS, /* before they are loaded, and used wherever there are any: tests */
        DS_TRANSFORM_NEVER,
        _DS_TRANSFORM_MAX,
        _DS_TRANSFORM_INVALID = -EINVAL,
};

/* The one of that name, or INVALID; and back. */
enum ds_transform ds_transform_find(const char *name);
const char *ds_transform_name(enum ds_transform transform);

/* Strings are owned (NULL: not given); limits are 0 when not given. */
struct ds_config {
        char *policy, *device, *socket, *libcuda, *ptxas, *state;
        char *policy_where; /* "FILE:LINE: KEY", where the policy is named */
        uint64_t connections, connections_per_uid, sessions_per_uid;
        uint64_t memory_per_uid, pinned_per_uid; /* bytes */
        uint64_t sm_percent, gpu_request_percent, gpu_limit_percent, calls_per_second, calls_burst;
        uint64_t orphan_seconds, kernel_seconds, quiesce_seconds, spin_us, evict_us, graph_piece_us;
        uint64_t compiled_code; /* bytes on disk */
        uint64_t ladder_steps, ladder_by_gpc, settle_never;
        uint64_t transform;  /* enum ds_transform */
        uint64_t pool_bytes; /* of memory whose channels are known */
        char *pool_be, *lut; /* auto, off, N or N/M; where tables of channels lie */
        struct ds_rules rules;
        struct ds_config_param *params;
        size_t n_params, params_capacity;
        unsigned files; /* read so far */
};

/* Reads into *config, which must be initialised (zeroed or read before). name is for messages. 0, INVALID or -ENOMEM.
 */
int ds_config_read(FILE *stream, const char *name, struct ds_config *config, char *message, size_t message_size);
/* As ds_config_read; what cannot be opened, is no file, or may be written by others, is INVALID. */
int ds_config_load(const char *path, struct ds_config *config, char *message, size_t message_size);
/* The file (which need not be there unless must_exist) and what lies in conf.d beside it, in the order of the names. */
int ds_config_load_all(const char *path, int must_exist, struct ds_config *config, char *message, size_t message_size);
void ds_config_deinit(struct ds_config *config);

/* errno of a look-up of a user or group that found nothing: 1 if it says nothing of whether there is one. */
int ds_lookup_failed(int error);

/* The parameters given for that policy; they stay the config's. Returns how many. */
size_t ds_config_params(
        const struct ds_config *config, const char *policy, const struct ds_config_param *params[DS_CONFIG_PARAMS_MAX]);
