/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: one file, and the files *.conf in the directory conf.d beside it
 *
 * INI files, parsed with inih. inih silently accepts some mistakes; this code rejects them: lines that inih would
 * truncate, indented lines that it would append to the previous value, names that it would shorten, text after a
 * section's name, comments that become part of a value, and keys given twice. The first error ends the reading; the
 * message names file, line and key. A key that is absent keeps its value; a later file overrides an earlier one key by
 * key.
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
 *   [policy NAME]   KEY=VALUE, as the policy defines them
 *
 * A daemon that runs as root refuses files and directories that anybody but root can write to.
 */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "proto/wire.h"
#include "supervisor/rules.h"

/* Positive return codes of the functions below */
#define DS_CONFIG_E_INVALID 1 /* the configuration is invalid; the message gives the reason */

#define DS_CONFIG_BYTES_MAX (1u << 20) /* size limit of one file, bytes */
#define DS_CONFIG_FILES_MAX 256u       /* most files in conf.d */
#define DS_CONFIG_PARAMS_MAX DS_POLICY_PARAMS_MAX
#define DS_CONFIG_POLICY_MAX 63u /* most characters of a policy's name */

/* A policy parameter "key=value", and where it is given ("FILE:LINE"). */
struct ds_config_param {
        char *policy, *text, *where;
        unsigned file;
};

/* Setting `transform`: when kernels get forms that can be sliced and evicted */
enum ds_transform {
        DS_TRANSFORM_NOT_SAID,
        DS_TRANSFORM_AUTO,   /* in the background, after the module is loaded */
        DS_TRANSFORM_ALWAYS, /* before the module is loaded, and used wherever a form exists: for tests */
        DS_TRANSFORM_NEVER,
        _DS_TRANSFORM_MAX,
        _DS_TRANSFORM_INVALID = -EINVAL,
};

/* The setting with this name, or INVALID; and the name of a setting. */
enum ds_transform ds_transform_find(const char *name);
const char *ds_transform_name(enum ds_transform transform);

/* The values of the configuration. It owns its strings, which are NULL if not given; numbers are 0 if not given. */
struct ds_config {
        char *policy, *device, *socket, *libcuda, *ptxas, *state;
        char *policy_where; /* "FILE:LINE: KEY" of the line that names the policy */
        char *read;         /* paths of the files that were read, separated by ", "; NULL: none */
        uint64_t connections, connections_per_uid, sessions_per_uid;
        uint64_t memory_per_uid, pinned_per_uid; /* limits per user, bytes */
        uint64_t sm_percent, gpu_request_percent, gpu_limit_percent, calls_per_second, calls_burst;
        uint64_t slo, ttft, tpot; /* objectives: ns, or DS_RULE_FACTOR and permille */
        uint64_t orphan_seconds, kernel_seconds, quiesce_seconds, spin_us, evict_us, graph_piece_us;
        uint64_t spin_never;    /* 1: spin_us is 0, so nothing polls */
        uint64_t compiled_code; /* limit of compiled code on disk, bytes */
        uint64_t ladder_steps, ladder_by_gpc, settle_never;
        uint64_t transform;  /* enum ds_transform */
        uint64_t pool_bytes; /* size of the pool, i.e. device memory whose channels are known, bytes */
        char *pool_be, *lut; /* pool_be: auto, off, N or N/M; lut: directory of the channel tables */
        struct ds_rules rules;
        struct ds_config_param *params;
        size_t n_params, params_capacity;
        unsigned files; /* number of files read so far */
};

/* Reads a stream into *config, which must be zeroed or hold the result of an earlier call. `name` is the file's name
 * for messages. Returns 0, INVALID or -ENOMEM. */
int ds_config_read(FILE *stream, const char *name, struct ds_config *config, char *message, size_t message_size);
/* Reads one file; works as ds_config_read(). A file that cannot be opened, is not a regular file, or that others can
 * write to is INVALID. */
int ds_config_load(const char *path, struct ds_config *config, char *message, size_t message_size);
/* Reads the file (which may be absent unless must_exist), then the files of conf.d beside it in alphabetical order. */
int ds_config_load_all(const char *path, int must_exist, struct ds_config *config, char *message, size_t message_size);
void ds_config_deinit(struct ds_config *config);

/* Whether this errno of a failed user or group look-up leaves open if the name exists. */
int ds_lookup_failed(int error);

/* Lists the parameters that the configuration gives for that policy; the config still owns them. Returns their
 * number. */
size_t ds_config_params(
        const struct ds_config *config, const char *policy, const struct ds_config_param *params[DS_CONFIG_PARAMS_MAX]);
