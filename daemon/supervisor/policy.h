/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configured policy: its name, and the parameters of [policy NAME]
 *
 * The parameters apply whenever that policy is chosen without other parameters: at start, by a reload, by set-policy.
 * Only the worker knows whether the policy accepts them, so a refusal arrives after the reload. Then the old policy
 * stays active, log and status give the reason, and the next reload tries again.
 */
#pragma once

#include <stddef.h>

#include "supervisor/config.h"

struct ds_options;
struct ds_supervisor;

#define DS_POLICY_WORDS_MAX 512
#define DS_POLICY_BUILTIN "fifo" /* built in: needs no plug-in */

/* Whether a policy of that name exists. Only the worker knows whether it can be loaded. */
int ds_policy_installed(const struct ds_options *options, const char *name);
/* Lists the names of all policies, separated by ", " and truncated to size. */
void ds_policy_names(const struct ds_options *options, char *ret, size_t size);
/* Determines the policy with which the first worker starts. Returns 0 or -errno. */
int ds_policy_start(struct ds_supervisor *supervisor);
/*
 * Called before the configuration is replaced: changes the policy if the file requires it. Returns 0, or -ENOMEM: no
 * request was sent to the worker.
 */
int ds_policy_reload(struct ds_supervisor *supervisor, const struct ds_config *config);
/* Lists the policy's parameters as texts, which the config still owns. Returns their number. */
size_t ds_policy_params(const struct ds_config *config, const char *policy, char *params[DS_CONFIG_PARAMS_MAX]);
/* Returns the worker's message `words` about parameters of the configuration, preceded by file and line if these can
 * be determined. */
const char *ds_policy_words(
        const struct ds_config *config, const char *policy, const char *words, char buffer[static DS_POLICY_WORDS_MAX]);
