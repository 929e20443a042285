/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plug-in: one policy, loaded from a shared object or compiled in
 *
 * A plug-in runs inside the daemon, so it is loaded only from a directory and a file that root or the daemon's own user
 * owns and nobody else may write. The file is opened once, and what was checked is what is loaded (by its descriptor).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sched/ladder.h"
#include "sched/sched.h"

typedef struct ds_plugin ds_plugin;

struct ds_plugin {
        const struct detshare_policy *policy;
        void *state;
        int64_t params[DETSHARE_POLICY_PARAMS_MAX];
        void *handle; /* NULL: compiled in */
        int fd;
};

struct ds_plugin_place {
        const char *dir; /* "" = only what is compiled in */
        int dir_fd;      /* of dir, when it was opened while that was allowed; 0 = none */
        int trust_any_owner;
};

#define DS_PLUGIN_BUILTIN "fifo"
#define DS_PLUGIN_NAME_MAX 31u
#define DS_PLUGIN_STATE_MAX (16u << 20) /* bytes of policy state */

/* The policy that is compiled in. */
extern const struct detshare_policy ds_plugin_fifo;

/*
 * Load a policy by name and check it; the name "fifo" is always the compiled-in one. Contract codes
 * DS_SCHED_E_NO_POLICY and DS_SCHED_E_REFUSED come with a message.
 */
int ds_plugin_open(
        const struct ds_plugin_place *place, const char *name, char *message, size_t message_size, ds_plugin **ret);
ds_plugin *ds_plugin_close(ds_plugin *plugin);
/* What a policy is told about where it is. */
struct ds_plugin_world {
        const struct ds_ladder *ladder;
        const struct detshare_interference *interference; /* lives as long as policies that were told of it */
        uint32_t n_interference;
};

/* Call init with the parameters that it has, on state that is all zero. Its old state stays if that fails. */
int ds_plugin_begin(ds_plugin *plugin, const struct ds_plugin_world *world, char *message, size_t message_size);
/* Read parameters and call init. DS_SCHED_E_BAD_PARAM, DS_SCHED_E_REFUSED with a message; -ENOMEM. */
int ds_plugin_init(ds_plugin *plugin, const struct ds_plugin_world *world, const char *const *params, size_t n_params,
        char *message, size_t message_size);
/* Whether the policy table is one this host can call; NULL or what is wrong with it. */
const char *ds_plugin_check(const struct detshare_policy *policy, const char *name);
/*
 * The built-in one, then what the directory holds, by name; those that cannot be loaded are left out. Returns how many
 * there are, fills up to n.
 */
size_t ds_plugin_list(const struct ds_plugin_place *place, struct ds_policy_listing *list, size_t n);
