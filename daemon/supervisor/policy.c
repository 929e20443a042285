/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/policy.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/announce.h"
#include "supervisor/supervisor.h"
#include "supervisor/worker_link.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

/* A policy that the worker is asked to change to. */
struct change {
        struct ds_worker_call call;
        struct ds_supervisor *supervisor;
        char name[DS_CONFIG_POLICY_MAX + 1];
};

size_t ds_policy_params(const struct ds_config *config, const char *policy, char *params[DS_CONFIG_PARAMS_MAX])
{
        const struct ds_config_param *rows[DS_CONFIG_PARAMS_MAX];
        size_t n = ds_config_params(config, policy, rows);

        for (size_t i = 0; i < n; i++)
                params[i] = rows[i]->text;
        return n;
}

/* Is the parameter's name a word of it? */
static int names_param(const char *words, const char *text)
{
        const size_t n = strcspn(text, "=");

        for (const char *at = words; *at; at++) {
                if (strncmp(at, text, n))
                        continue;
                if ((at == words || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[n]) && at[n] != '_')
                        return 1;
        }
        return 0;
}

const char *ds_policy_words(
        const struct ds_config *config, const char *policy, const char *words, char buffer[static DS_POLICY_WORDS_MAX])
{
        const struct ds_config_param *rows[DS_CONFIG_PARAMS_MAX], *found = NULL;
        size_t n = ds_config_params(config, policy, rows), n_found = 0;

        for (size_t i = 0; i < n; i++) {
                if (!names_param(words, rows[i]->text))
                        continue;
                found = rows[i];
                n_found++;
        }
        if (n_found == 1)
                snprintf(buffer, DS_POLICY_WORDS_MAX, "%s: [policy %s]: %s", found->where, policy, words);
        else
                snprintf(buffer, DS_POLICY_WORDS_MAX, "%s", words);
        return buffer;
}

/* What the next worker starts with. */
static int remember(struct ds_supervisor *supervisor, const char *name)
{
        char *params[DS_CONFIG_PARAMS_MAX];
        size_t n = ds_policy_params(supervisor->config, name, params);

        return ds_worker_set_policy(supervisor->worker, name, params, n);
}

int ds_policy_installed(const struct ds_options *options, const char *name)
{
        char path[PATH_MAX];
        int n = snprintf(path, sizeof(path), "%s/%s.so", options->policy_dir, name);

        if (!strcmp(name, DS_POLICY_BUILTIN))
                return 1;
        return options->policy_dir[0] && n > 0 && (size_t)n < sizeof(path) && access(path, R_OK) == 0;
}

/* What stands in a section with a misspelt name would never be looked at. */
static void warn_of_unknown(const struct ds_supervisor *supervisor)
{
        const struct ds_config *config = supervisor->config;

        for (size_t i = 0; i < config->n_params; i++) {
                const struct ds_config_param *param = &config->params[i];

                if (i > 0 && !strcmp(param->policy, param[-1].policy))
                        continue;
                if (!ds_policy_installed(supervisor->options, param->policy))
                        ds_log(DS_LOG_WARNING, "%s: [policy %s]: there is no such policy", param->where, param->policy);
        }
}

int ds_policy_start(struct ds_supervisor *supervisor)
{
        warn_of_unknown(supervisor);
        return ds_error_trace(remember(supervisor, supervisor->options->policy));
}

/* --- reload ------------------------------------------------------------------------------------------------------- */

static const char *configured(const struct ds_supervisor *supervisor, const struct ds_config *config)
{
        return config->policy && !supervisor->options->policy_given ? config->policy : supervisor->options->policy;
}

static int same_params(const struct ds_config *a, const struct ds_config *b, const char *policy)
{
        char *of_a[DS_CONFIG_PARAMS_MAX], *of_b[DS_CONFIG_PARAMS_MAX];
        size_t n = ds_policy_params(a, policy, of_a);

        if (n != ds_policy_params(b, policy, of_b))
                return 0;
        for (size_t i = 0; i < n; i++)
                if (strcmp(of_a[i], of_b[i]))
                        return 0;
        return 1;
}

static void change_refused(struct ds_supervisor *supervisor, const char *name, const char *why)
{
        char words[DS_POLICY_WORDS_MAX];
        const char *text = ds_policy_words(supervisor->config, name, why[0] ? why : "it was refused", words);
        const char *where = supervisor->config->policy_where;

        supervisor->policy_refused = 1;
        if (where && !ds_policy_installed(supervisor->options, name)) {
                snprintf(words, sizeof(words), "%s: there is no policy '%s'", where, name);
                text = words;
        }
        ds_log(DS_LOG_ERROR, "the policy stays %s: %s", ds_worker_policy(supervisor->worker), text);
        snprintf(supervisor->announced.reload, sizeof(supervisor->announced.reload), "policy %s refused: %s", name,
                text);
        ds_announce_state(supervisor);
}

static void change_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        struct change *change = DS_CONTAINER_OF(call, struct change, call);
        struct ds_supervisor *supervisor = change->supervisor;

        /* without an answer the next worker has to try */
        if (answer && answer->message->status) {
                change_refused(supervisor, change->name, answer->message->message);
        } else if (remember(supervisor, change->name) == 0) {
                supervisor->policy_refused = 0;
                ds_log(DS_LOG_INFO, "policy %s (by the configuration)", change->name);
        }
        ds_free(change);
}

/* 0: the worker was asked. */
static int ask_worker(struct ds_supervisor *supervisor, const char *name)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__SetPolicy set = DETSHARE__SET_POLICY__INIT;
        char *params[DS_CONFIG_PARAMS_MAX];
        struct change *change = ds_alloc0(1, sizeof(*change));
        int r;

        if (!change)
                return ds_error_origin(-ENOMEM);
        change->call.done = change_done;
        change->call.image_fd = -1;
        change->supervisor = supervisor;
        snprintf(change->name, sizeof(change->name), "%s", name);
        set.name = change->name;
        set.params = params;
        set.n_params = ds_policy_params(supervisor->config, name, params);
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET_POLICY;
        message.set_policy = &set;
        r = ds_worker_send(supervisor->worker, &message, NULL, 0, &change->call);
        if (r)
                ds_free(change);
        return r;
}

void ds_policy_reload(struct ds_supervisor *supervisor, const struct ds_config *was)
{
        const char *name = configured(supervisor, supervisor->config), *before = configured(supervisor, was);
        int renamed = strcmp(name, before) != 0, active = !strcmp(name, ds_worker_policy(supervisor->worker)), r;

        warn_of_unknown(supervisor);
        /* what set-policy has chosen meanwhile stays, unless the file has chosen anew */
        if (!renamed && !supervisor->policy_refused && (!active || same_params(supervisor->config, was, name)))
                return;
        r = ask_worker(supervisor, name);
        if (r == -EPIPE)
                r = remember(supervisor, name);
        if (r)
                change_refused(supervisor, name, strerror(-r));
}
