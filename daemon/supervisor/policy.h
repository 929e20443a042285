/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy as it is configured: its name, and the parameters of [policy NAME]
 *
 * The parameters are given whenever that policy is chosen without others: at start, by a reload, by set-policy. Only
 * the worker knows whether it takes them, so a refusal comes later than the reload that it belongs to: the policy stays
 * what it is, the log and the status say why, and the next reload tries again.
 */
#pragma once

#include <stddef.h>

#include "supervisor/config.h"

struct ds_options;
struct ds_supervisor;

#define DS_POLICY_WORDS_MAX 512
#define DS_POLICY_BUILTIN "fifo" /* needs no plug-in */

/* Is there a policy of that name? Whether it can be loaded only the worker knows. */
int ds_policy_installed(const struct ds_options *options, const char *name);
/* The policy to start with. 0 or -errno. */
int ds_policy_start(struct ds_supervisor *supervisor);
/*
 * The configuration is about to become that one: so does the policy, if the file says so. 0, or -ENOMEM: nothing was
 * asked of the worker.
 */
int ds_policy_reload(struct ds_supervisor *supervisor, const struct ds_config *config);
/* The texts of its parameters; they stay the config's. Returns how many. */
size_t ds_policy_params(const struct ds_config *config, const char *policy, char *params[DS_CONFIG_PARAMS_MAX]);
/* What the worker says of parameters that came from the configuration, with the place where they stand if it can be
 * told. */
const char *ds_policy_words(
        const struct ds_config *config, const char *policy, const char *words, char buffer[static DS_POLICY_WORDS_MAX]);
