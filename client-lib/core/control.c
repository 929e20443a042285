/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control requests: see control.h
 *
 * Lists come in pages and may change between two pages. Guarantee: a client that exists all the time is in the list
 * exactly once.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/control.h"
#include "core/internal.h"

#define LIST_MAX 65536u /* most entries in a list, if a daemon never sends the last page */

_Static_assert(DSC_CONTROL_DENIED == (int)DETSHARE__STATUS__DENIED, "control.h repeats the protocol's numbers");
_Static_assert(DSC_CONTROL_NO_SUCH == (int)DETSHARE__STATUS__NO_SUCH, "control.h repeats the protocol's numbers");
_Static_assert(
        DSC_CONTROL_UNSUPPORTED == (int)DETSHARE__STATUS__UNSUPPORTED, "control.h repeats the protocol's numbers");
_Static_assert(
        DSC_CONTROL_BAD_REQUEST == (int)DETSHARE__STATUS__BAD_REQUEST, "control.h repeats the protocol's numbers");
_Static_assert(
        DSC_CONTROL_BAD_PARAMETER == (int)DETSHARE__STATUS__BAD_PARAMETER, "control.h repeats the protocol's numbers");

#define TAKE_STRING(to, from) snprintf(to, sizeof(to), "%s", from)

const char *dsc_control_path(const char *path)
{
        struct dsc__options options;
        dsc__options_from_environment(&options);
        return path ? path : options.path;
}

int dsc_control_open(const char *path, int ls, dsc_session **ret)
{
        struct dsc__options options;
        dsc__options_from_environment(&options);
        if (path)
                options.path = path;
        options.control_only = true;
        options.class_ = ls ? DETSHARE__CLASS__LS : DETSHARE__CLASS__BE;
        options.slo = (struct ds_slo){0};
        options.memory_limit = 0;
        options.sm_percent = options.gpu_request = options.gpu_limit = options.phase = 0;
        options.bad_variable = NULL;
        return dsc__connect(&options, ret);
}

int dsc_control_device(dsc_session *s, const struct dsc_device **ret)
{
        *ret = &s->device;
        return dsc__ask_device(s);
}

dsc_session *dsc_control_close(dsc_session *s)
{
        return dsc__session_free(s);
}

int dsc_control_is_ls(dsc_session *s)
{
        return s->granted_class == DETSHARE__CLASS__LS;
}

const char *dsc_control_version(dsc_session *s)
{
        return s->daemon_version;
}

/* Writes the channel numbers, separated by blanks. */
static void take_channels(const Detshare__StatusReply *r, char *ret, size_t size)
{
        size_t at = 0;
        ret[0] = 0;
        for (size_t i = 0; i < r->n_channels_be_list && at < size; i++)
                at += (size_t)snprintf(ret + at, size - at, "%s%" PRIu32, at ? " " : "", r->channels_be_list[i]);
}

static void take_status(const Detshare__StatusReply *r, struct dsc_status *ret)
{
        memset(ret, 0, sizeof(*ret));
#define STRING(field, wire, name) TAKE_STRING(ret->field, r->wire);
#define NUMBER(field, wire, name) ret->field = r->wire;
#define BOOL(field, wire, name) ret->field = r->wire;
#include "core/status.def"
        TAKE_STRING(ret->topology, r->topology);
        take_channels(r, ret->channels_be_list, sizeof(ret->channels_be_list));
}

int dsc_control_status(dsc_session *s, struct dsc_status *ret)
{
        Detshare__GetStatus get = DETSHARE__GET_STATUS__INIT;
        Detshare__Request request = DSC__REQUEST(GET_STATUS, get_status, &get);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_GET_STATUS, &answer);
        if (r)
                return r;
        take_status(answer.reply->get_status, ret);
        dsc__answer_clear(&answer);
        return 0;
}

/* --- lists --- */

static int grow(void **array, size_t n, size_t more, size_t size)
{
        if (n + more > LIST_MAX)
                return DSC__OUT_OF_MEMORY;
        void *p = reallocarray(*array, n + more + 1, size);
        if (!p)
                return DSC__OUT_OF_MEMORY;
        *array = p;
        return 0;
}

static void take_client(const Detshare__ClientEntry *e, struct dsc_client *ret)
{
        *ret = (struct dsc_client){
                .session = e->session,
                .pid = e->pid,
                .uid = e->uid,
                .is_ls = e->class_ == DETSHARE__CLASS__LS,
                .control_only = e->control_only,
                .slo = DS_SLO_READ(e),
                .memory_used = e->memory_used,
                .memory_limit = e->memory_limit,
                .launches = e->launches,
                .completed = e->completed,
                .errors = e->errors,
                .device_ns = e->device_ns,
                .connected_ns = e->connected_ns,
                .queued = e->queued,
                .in_flight = e->in_flight,
                .sm_percent = e->sm_percent,
                .gpu_request = e->gpu_request,
                .gpu_limit = e->gpu_limit,
        };
        TAKE_STRING(ret->name, e->name);
}

static int clients_page(dsc_session *s, struct dsc_client **clients, size_t *n, bool *more)
{
        Detshare__ListClients list = DETSHARE__LIST_CLIENTS__INIT;
        list.after = *n ? (*clients)[*n - 1].session : 0;
        Detshare__Request request = DSC__REQUEST(LIST_CLIENTS, list_clients, &list);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_LIST_CLIENTS, &answer);
        if (r)
                return r;
        const Detshare__ClientList *page = answer.reply->list_clients;
        r = grow((void **)clients, *n, page->n_clients, sizeof(**clients));
        for (size_t i = 0; i < page->n_clients && !r; i++)
                take_client(page->clients[i], &(*clients)[(*n)++]);
        *more = page->more && page->n_clients > 0;
        dsc__answer_clear(&answer);
        return r;
}

int dsc_control_clients(dsc_session *s, struct dsc_client **ret, size_t *ret_n)
{
        struct dsc_client *clients = NULL;
        size_t n = 0;
        bool more = true;
        while (more) {
                int r = clients_page(s, &clients, &n, &more);
                if (r) {
                        free(clients);
                        return r;
                }
        }
        *ret = clients;
        *ret_n = n;
        return 0;
}

static int policies_page(dsc_session *s, struct dsc_policy **policies, size_t *n, bool *more)
{
        Detshare__ListPolicies list = DETSHARE__LIST_POLICIES__INIT;
        list.after = (uint32_t)*n;
        Detshare__Request request = DSC__REQUEST(LIST_POLICIES, list_policies, &list);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_LIST_POLICIES, &answer);
        if (r)
                return r;
        const Detshare__PolicyList *page = answer.reply->list_policies;
        r = grow((void **)policies, *n, page->n_policies, sizeof(**policies));
        for (size_t i = 0; i < page->n_policies && !r; i++) {
                struct dsc_policy *p = &(*policies)[(*n)++];
                TAKE_STRING(p->name, page->policies[i]->name);
                TAKE_STRING(p->description, page->policies[i]->description);
                TAKE_STRING(p->params, page->policies[i]->params);
                TAKE_STRING(p->in_force, page->policies[i]->in_force);
                p->active = page->policies[i]->active;
        }
        *more = page->more && page->n_policies > 0;
        dsc__answer_clear(&answer);
        return r;
}

int dsc_control_policies(dsc_session *s, struct dsc_policy **ret, size_t *ret_n)
{
        struct dsc_policy *policies = NULL;
        size_t n = 0;
        bool more = true;
        while (more) {
                int r = policies_page(s, &policies, &n, &more);
                if (r) {
                        free(policies);
                        return r;
                }
        }
        *ret = policies;
        *ret_n = n;
        return 0;
}

/* --- changes --- */

int dsc_control_set_policy(dsc_session *s, const char *name, char *const *params, size_t n_params)
{
        Detshare__SetPolicy set = DETSHARE__SET_POLICY__INIT;
        set.name = (char *)name;
        set.params = (char **)params;
        set.n_params = n_params;
        Detshare__Request request = DSC__REQUEST(SET_POLICY, set_policy, &set);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

int dsc_control_set_class(dsc_session *s, uint64_t session, int ls)
{
        Detshare__SetSession set = DETSHARE__SET_SESSION__INIT;
        set.session = session;
        set.set_class = true;
        set.class_ = ls ? DETSHARE__CLASS__LS : DETSHARE__CLASS__BE;
        Detshare__Request request = DSC__REQUEST(SET_SESSION, set_session, &set);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

int dsc_control_ping(dsc_session *s)
{
        Detshare__Ping ping = DETSHARE__PING__INIT;
        Detshare__Request request = DSC__REQUEST(PING, ping, &ping);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

int dsc_control_kill(dsc_session *s, uint64_t session)
{
        Detshare__Kill kill = DETSHARE__KILL__INIT;
        kill.session = session;
        Detshare__Request request = DSC__REQUEST(KILL, kill, &kill);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}
