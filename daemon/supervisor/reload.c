/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/reload.h"

#include <stdio.h>
#include <string.h>

#include "supervisor/client.h"
#include "supervisor/policy.h"
#include "supervisor/session.h"
#include "supervisor/supervisor.h"
#include "util/alloc.h"
#include "util/error.h"

static struct ds_config *config_free(struct ds_config *config)
{
        if (!config)
                return NULL;
        ds_config_deinit(config);
        return ds_free(config);
}

void ds_reload_deinit(struct ds_supervisor *supervisor)
{
        supervisor->config = supervisor->options->config;
        supervisor->reloaded = config_free(supervisor->reloaded);
}

/* --- keys that need a restart ------------------------------------------------------------------------------------- */

static int differ(const char *a, const char *b)
{
        return a && b ? strcmp(a, b) != 0 : a != b;
}

/* Lists the keys that differ from the values at the start and apply only after a restart. "" if there are none. */
static void name_restart_keys(const struct ds_config *started, const struct ds_config *now, char *text, size_t size)
{
        const struct {
                const char *name;
                int differs;
        } keys[] = {
                {"device", differ(started->device, now->device)},
                {"socket", differ(started->socket, now->socket)},
                {"libcuda", differ(started->libcuda, now->libcuda)},
                {"ptxas", differ(started->ptxas, now->ptxas)},
                {"state", differ(started->state, now->state)},
                {"compiled_code", started->compiled_code != now->compiled_code},
                {"ladder_steps", started->ladder_steps != now->ladder_steps},
                {"transform", started->transform != now->transform},
                {"evict_us", started->evict_us != now->evict_us},
                {"graph_piece_us", started->graph_piece_us != now->graph_piece_us},
                {"pool_mib", started->pool_bytes != now->pool_bytes},
                {"be", differ(started->pool_be, now->pool_be)},
                {"tables", differ(started->lut, now->lut)},
                {"settle", started->settle_never != now->settle_never},
                {"ladder_order", started->ladder_by_gpc != now->ladder_by_gpc},
        };
        size_t at = 0;

        text[0] = 0;
        for (size_t i = 0; i < DS_ARRAY_SIZE(keys); i++)
                if (keys[i].differs)
                        at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", keys[i].name);
}

/* --- existing clients --------------------------------------------------------------------------------------------- */

static void adapt_class(struct ds_session *session, const struct ds_rights *was)
{
        const uint64_t bit = session->class_ == DETSHARE__CLASS__LS ? DS_CLASS_BIT_LS : DS_CLASS_BIT_BE;
        const Detshare__Class other =
                session->class_ == DETSHARE__CLASS__LS ? DETSHARE__CLASS__BE : DETSHARE__CLASS__LS;

        /* an administrator may have granted the session more than its user's rights, so only a right that the reload
         * removes changes the class */
        if (!(was->of[DS_RULE_CLASSES].value & bit) || ds_client_may(session->client, session->class_) ||
                !ds_client_may(session->client, other))
                return;
        session->class_ = other;
        ds_log(DS_LOG_INFO, "session %llu '%s' (uid %u) has class %s now: the configuration permits no other",
                (unsigned long long)session->id, session->name, (unsigned)ds_user_uid(session->user),
                other == DETSHARE__CLASS__LS ? "ls" : "be");
}

/* Adapts the session's shares to the user's rights. Returns nonzero if a share has changed. */
static int adapt_share(struct ds_session *session, const struct ds_rights *was)
{
        const struct ds_granted *now = ds_client_rights(session->client)->of;
        const struct ds_gpu_share most = {
                (uint32_t)now[DS_RULE_GPU_REQUEST].value, (uint32_t)now[DS_RULE_GPU_LIMIT].value};
        const struct ds_gpu_share share = session->share;

        if (most.request == was->of[DS_RULE_GPU_REQUEST].value && most.limit == was->of[DS_RULE_GPU_LIMIT].value)
                return 0;
        ds_session_ask_share(session, session->share_asked, most);
        return session->share.request != share.request || session->share.limit != share.limit;
}

void ds_reload_adapt(struct ds_session *session, const struct ds_rights *was)
{
        const uint64_t cap = ds_client_rights(session->client)->of[DS_RULE_SM_PERCENT].value;
        const Detshare__Class class_ = session->class_;
        const uint32_t percent = session->sm_percent;
        int changed = adapt_share(session, was);

        adapt_class(session, was);
        if (cap != was->of[DS_RULE_SM_PERCENT].value)
                ds_session_ask_percent(session, session->sm_asked, (uint32_t)cap);
        if (changed || session->class_ != class_ || session->sm_percent != percent)
                ds_session_changed(session);
}

/* Determines the rights of all clients again. They keep the resources that they hold; their next requests are
 * checked against the new rights. */
static void adapt_clients(struct ds_supervisor *supervisor)
{
        struct ds_client *client = NULL;

        ds_users_set_limits(supervisor->users, &supervisor->defaults.limits);
        while ((client = ds_client_next(supervisor, client))) {
                const struct ds_rights was = *ds_client_rights(client);
                struct ds_session *session = ds_client_session(client);

                ds_client_find_rights(client);
                if (session && !session->control_only)
                        ds_reload_adapt(session, &was);
        }
}

/* --- reload ------------------------------------------------------------------------------------------------------- */

static void apply(struct ds_supervisor *supervisor, struct ds_config *config, char *message, size_t message_size)
{
        struct ds_config *last = supervisor->reloaded;
        char restart[128];

        supervisor->config = supervisor->reloaded = config;
        ds_defaults_init(&supervisor->defaults, config);
        adapt_clients(supervisor);
        ds_spin_set(&supervisor->turns.spin, config->spin_us, config->spin_never != 0);
        ds_worker_set_limits(supervisor->worker);
        snprintf(message, message_size, "the configuration was read");
        config_free(last);
        name_restart_keys(supervisor->options->config, config, restart, sizeof(restart));
        if (!restart[0])
                return;
        ds_log(DS_LOG_WARNING, "these keys have changed and need a restart of the daemon: %s", restart);
        snprintf(message, message_size, "the configuration was read; these keys need a restart: %s", restart);
}

int ds_supervisor_reload(struct ds_supervisor *supervisor, char *message, size_t message_size)
{
        const struct ds_options *options = supervisor->options;
        struct ds_config *config;
        int r;

        if (!options->config_path) {
                snprintf(message, message_size, "the daemon was started without a configuration file");
                return DS_RELOAD_E_REFUSED;
        }
        config = ds_alloc0(1, sizeof(*config));
        if (!config)
                return ds_error_origin(-ENOMEM);
        r = ds_config_load_all(options->config_path, options->config_must_exist, config, message, message_size);
        if (r) {
                config_free(config);
                return r == DS_CONFIG_E_INVALID ? DS_RELOAD_E_REFUSED : ds_error_trace(r);
        }
        /* from here on only the next two calls can fail, and their failure leaves everything unchanged */
        r = ds_supervisor_find_admins(supervisor);
        if (!r)
                r = ds_policy_reload(supervisor, config);
        if (r) {
                config_free(config);
                return ds_error_trace(r);
        }
        apply(supervisor, config, message, message_size);
        return 0;
}
