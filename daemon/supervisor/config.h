/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file
 *
 * An INI file read with inih, whose silent traps are closed here: lines that it would cut, indented lines that it
 * would append to the value before, keys given twice. The first error ends the reading and is named with file, line and
 * key. What is not given keeps its value.
 *
 *   [daemon]  policy=NAME  device=SPEC  socket=PATH  libcuda=PATH  ptxas=PATH  spin_us=N
 *   [limits]  connections=N  connections_per_uid=N  memory_per_uid=MIB  pinned_per_uid=MIB  orphan_seconds=N
 *             kernel_seconds=N  quiesce_seconds=N
 *   [class]   ls_uids=alice,1000  ls_groups=audio,wheel   (`*`: everybody)
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Contract codes */
#define DS_CONFIG_E_INVALID 1 /* see the message */

#define DS_CONFIG_IDS_MAX 64 /* of one list */

/* Who may be latency sensitive, beside those who may do everything: root, the daemon's own user, detshare-admin. */
struct ds_class_rights {
        int everybody;
        size_t n_uids, n_gids;
        uid_t uids[DS_CONFIG_IDS_MAX];
        gid_t gids[DS_CONFIG_IDS_MAX];
};

/* Strings are owned (NULL: not given); limits are 0 when not given. */
struct ds_config {
        char *policy, *device, *socket, *libcuda, *ptxas;
        uint64_t connections, connections_per_uid;
        uint64_t memory_per_uid, pinned_per_uid; /* bytes */
        uint64_t orphan_seconds, kernel_seconds, quiesce_seconds, spin_us;
        struct ds_class_rights ls;
};

/* Reads into *config, which must be initialised (zeroed or read before). name is for messages. 0, INVALID or -ENOMEM.
 */
int ds_config_read(FILE *stream, const char *name, struct ds_config *config, char *message, size_t message_size);
/* As ds_config_read; a file that cannot be opened is INVALID. */
int ds_config_load(const char *path, struct ds_config *config, char *message, size_t message_size);
void ds_config_deinit(struct ds_config *config);
