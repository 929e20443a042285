/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/policy.h"

#include <ctype.h>
#include <glob.h>
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

/* A policy change requested from the worker. It holds all that the next worker needs if this one dies before it
 * answers. */
struct change {
        struct ds_worker_call call;
        struct ds_supervisor *supervisor;
        char name[DS_CONFIG_POLICY_MAX + 1];
        size_t n_params;
        char *params[DS_CONFIG_PARAMS_MAX];
};

size_t ds_policy_params(const struct ds_config *config, const char *policy, char *params[DS_CONFIG_PARAMS_MAX])
{
        const struct ds_config_param *rows[DS_CONFIG_PARAMS_MAX];
        size_t n = ds_config_params(config, policy, rows);

        for (size_t i = 0; i < n; i++)
                params[i] = rows[i]->text;
        return n;
}

/* Whether the name of the parameter `text` ("key=value") occurs in `words`. */
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

static int lies_in(const char *directory, const char *name)
{
        char path[PATH_MAX];
        int n = snprintf(path, sizeof(path), "%s/%s.so", directory, name);

        return directory[0] && n > 0 && (size_t)n < sizeof(path) && access(path, R_OK) == 0;
}

int ds_policy_installed(const struct ds_options *options, const char *name)
{
        for (size_t i = 0; i < options->n_policy_dirs; i++)
                if (lies_in(options->policy_dirs[i], name))
                        return 1;
        return !strcmp(name, DS_POLICY_BUILTIN) || lies_in(options->policy_dir, name);
}

static int has_name(const char *names, const char *name)
{
        size_t n = strlen(name);

        for (const char *at = strstr(names, name); at; at = strstr(at + n, name))
                if ((at == names || at[-1] == ' ') && (!at[n] || at[n] == ','))
                        return 1;
        return 0;
}

/* Adds the names of the policies in a directory, except those that an earlier directory has. */
static size_t add_names(const char *directory, char *ret, size_t at, size_t size)
{
        char pattern[PATH_MAX], name[64], *end;
        glob_t found;

        if (!directory[0] || (size_t)snprintf(pattern, sizeof(pattern), "%s/*.so", directory) >= sizeof(pattern) ||
                glob(pattern, 0, NULL, &found))
                return at;
        for (size_t i = 0; i < found.gl_pathc && at < size; i++) {
                snprintf(name, sizeof(name), "%s", strrchr(found.gl_pathv[i], '/') + 1);
                end = strrchr(name, '.');
                if (end)
                        *end = 0;
                if (!has_name(ret, name))
                        at += (size_t)snprintf(ret + at, size - at, ", %s", name);
        }
        globfree(&found);
        return at;
}

void ds_policy_names(const struct ds_options *options, char *ret, size_t size)
{
        size_t at = (size_t)snprintf(ret, size, "%s", DS_POLICY_BUILTIN);

        for (size_t i = 0; i < options->n_policy_dirs; i++)
                at = add_names(options->policy_dirs[i], ret, at, size);
        add_names(options->policy_dir, ret, at, size);
}

/* Warns about parameters in a section whose policy does not exist, since no worker would check those. */
static void warn_of_unknown(const struct ds_supervisor *supervisor, const struct ds_config *config)
{
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
        const char *name = supervisor->options->policy;
        char *params[DS_CONFIG_PARAMS_MAX];
        size_t n = ds_policy_params(supervisor->config, name, params);

        warn_of_unknown(supervisor, supervisor->config);
        return ds_error_trace(ds_worker_set_policy(supervisor->worker, name, params, n));
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

static struct change *change_free(struct change *change)
{
        for (size_t i = 0; i < change->n_params; i++)
                ds_free(change->params[i]);
        return ds_free(change);
}

static void change_done(struct ds_worker_call *call, const struct ds_worker_answer *answer);

static struct change *change_new(struct ds_supervisor *supervisor, const struct ds_config *config, const char *name)
{
        struct change *change = ds_alloc0(1, sizeof(*change));
        char *params[DS_CONFIG_PARAMS_MAX];
        const size_t n = ds_policy_params(config, name, params);

        if (!change)
                return NULL;
        change->call.done = change_done;
        change->call.image_fd = -1;
        change->supervisor = supervisor;
        snprintf(change->name, sizeof(change->name), "%s", name);
        for (size_t i = 0; i < n; i++) {
                change->params[i] = ds_strdup(params[i]);
                if (!change->params[i])
                        return change_free(change);
                change->n_params++;
        }
        return change;
}

/* Stores the new policy as that with which the next worker starts. */
static struct change *change_remember(struct change *change)
{
        ds_worker_take_policy(change->supervisor->worker, change->name, change->params, change->n_params);
        change->n_params = 0;
        change->supervisor->policy_refused = 0;
        return change_free(change);
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
        ds_log(DS_LOG_ERROR, "the policy is still %s: %s", ds_worker_policy(supervisor->worker), text);
        snprintf(supervisor->announced.reload, sizeof(supervisor->announced.reload), "policy %s refused: %s", name,
                text);
        ds_announce_state(supervisor);
}

static void change_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        struct change *change = DS_CONTAINER_OF(call, struct change, call);

        if (answer && answer->message->status) {
                change_refused(change->supervisor, change->name, answer->message->message);
                change_free(change);
                return;
        }
        /* the worker did not answer: the next worker starts with the new policy */
        ds_log(DS_LOG_INFO, "policy %s (by the configuration)", change->name);
        change_remember(change);
}

/* Requests the change from the worker. Returns 0 if the request was sent; then the call owns the change. */
static int ask_worker(struct change *change)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__SetPolicy set = DETSHARE__SET_POLICY__INIT;

        set.name = change->name;
        set.params = change->params;
        set.n_params = change->n_params;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET_POLICY;
        message.set_policy = &set;
        return ds_worker_send(change->supervisor->worker, &message, NULL, 0, &change->call);
}

int ds_policy_reload(struct ds_supervisor *supervisor, const struct ds_config *config)
{
        const char *name = configured(supervisor, config), *before = configured(supervisor, supervisor->config);
        int renamed = strcmp(name, before) != 0, active = !strcmp(name, ds_worker_policy(supervisor->worker)), r;
        struct change *change;

        warn_of_unknown(supervisor, config);
        /* a policy chosen with set-policy stays active, unless the file names another one than before */
        if (!renamed && !supervisor->policy_refused && (!active || same_params(config, supervisor->config, name)))
                return 0;
        change = change_new(supervisor, config, name);
        if (!change)
                return ds_error_origin(-ENOMEM);
        r = ask_worker(change);
        if (r == -EPIPE)
                change_remember(change);
        else if (r)
                change_free(change);
        if (r && r != -EPIPE && r != -ENOMEM)
                change_refused(supervisor, name, strerror(-r));
        return r == -ENOMEM ? ds_error_trace(r) : 0;
}
