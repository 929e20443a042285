/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plug-in: one policy, loaded from a shared object or compiled in
 *
 * A plug-in runs inside the daemon. So it is loaded only if its directory and file belong to root or the daemon's own
 * user and nobody else can write to them. The file is opened once, and the loader uses that checked descriptor.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sched/ladder.h"
#include "sched/notes.h"
#include "sched/sched.h"

typedef struct ds_plugin ds_plugin;

struct ds_plugin {
        const struct detshare_policy *policy;
        void *state;
        int64_t params[DETSHARE_POLICY_PARAMS_MAX];
        struct ds_notes *notes;          /* the notes of all policies */
        struct detshare_notes functions; /* as passed to the policy */
        void *handle;                    /* handle of the loader; NULL: compiled in */
        int fd;
};

struct ds_plugin_place {
        const char *dir; /* "" = only the compiled-in policy */
        int dir_fd;      /* descriptor of dir, opened while the process had the right; 0 = none */
        int trust_any_owner;
        const struct ds_plugin_place *next; /* place to search if this one lacks the policy; NULL: none */
};

#define DS_PLUGIN_BUILTIN "fifo"
#define DS_PLUGIN_NAME_MAX 31u
#define DS_PLUGIN_STATE_MAX (16u << 20) /* bytes of state that a policy may have */

/* The compiled-in policy. */
extern const struct detshare_policy ds_plugin_fifo;

/*
 * Loads a policy by name and checks it; "fifo" is always the compiled-in one. The first directory that has a file of
 * that name decides, also if the file is then refused; a directory that is missing or not trusted counts as empty. The
 * contract codes DS_SCHED_E_NO_POLICY and DS_SCHED_E_REFUSED come with a message.
 */
int ds_plugin_open(
        const struct ds_plugin_place *place, const char *name, char *message, size_t message_size, ds_plugin **ret);
ds_plugin *ds_plugin_close(ds_plugin *plugin);
/* Description of the GPU for a policy. */
struct ds_plugin_world {
        const struct ds_ladder *ladder;
        /* must stay valid until the policies that received it are closed */
        const struct detshare_interference *interference;
        uint32_t n_interference;
        struct ds_notes *notes; /* the same holds for them */
};

/* Calls the policy's init with the plug-in's parameters on zeroed state. If init fails, the plug-in keeps its
 * previous state. */
int ds_plugin_begin(ds_plugin *plugin, const struct ds_plugin_world *world, char *message, size_t message_size);
/* Reads parameters and calls init. Returns 0; DS_SCHED_E_BAD_PARAM or DS_SCHED_E_REFUSED with a message; -ENOMEM. */
int ds_plugin_init(ds_plugin *plugin, const struct ds_plugin_world *world, const char *const *params, size_t n_params,
        char *message, size_t message_size);
/* Checks whether this host can call the policy table. Returns NULL or the defect. */
const char *ds_plugin_check(const struct detshare_policy *policy, const char *name);
/*
 * Lists the built-in policy, then the loadable policies of the directories by name. Returns their number; fills in up
 * to n.
 */
size_t ds_plugin_list(const struct ds_plugin_place *place, struct ds_policy_listing *list, size_t n);
