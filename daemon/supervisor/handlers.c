/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/handlers.h"

#include <stdio.h>
#include <string.h>

#include "supervisor/client.h"
#include "supervisor/session.h"
#include "supervisor/supervisor.h"
#include "supervisor/worker_link.h"
#include "util/macro.h"

#define PROTOCOL_VERSION 1u
#define INVALID_DEVICE 101 /* CUDA_ERROR_INVALID_DEVICE */

/* --- hello -------------------------------------------------------------------------------------------------------- */

static void reply_hello(struct ds_client *client, uint64_t id)
{
        const struct ds_session *session = ds_client_session(client);
        Detshare__HelloReply hello = DETSHARE__HELLO_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        hello.version = PROTOCOL_VERSION;
        hello.session = session->id;
        hello.window_base = session->window.base;
        hello.window_bytes = session->window.bytes;
        hello.daemon_version = (char *)DETSHARE_VERSION;
        hello.simulated = ds_worker_info(session->supervisor->worker)->simulated;
        hello.class_ = session->class_;
        reply.result_case = DETSHARE__REPLY__RESULT_HELLO;
        reply.hello = &hello;
        ds_client_reply(client, id, &reply, NULL, 0);
}

/* Checks the client's name. Returns 0, or the request is answered. */
static int check_name(struct ds_client *client, uint64_t id, const char *name)
{
        if (strlen(name) <= DS_SESSION_NAME_MAX)
                return 0;
        ds_client_answer(client, id, DETSHARE__STATUS__BAD_PARAMETER,
                "the session's name has %zu bytes; at most %d are accepted", strlen(name), DS_SESSION_NAME_MAX);
        return -1;
}

static int check_class(struct ds_client *client, uint64_t id, Detshare__Class class_)
{
        if (class_ == DETSHARE__CLASS__BE || class_ == DETSHARE__CLASS__LS)
                return 0;
        ds_client_answer(client, id, DETSHARE__STATUS__BAD_PARAMETER, "there is no class %d; ls and be are accepted",
                (int)class_);
        return -1;
}

static int check_percent(struct ds_client *client, uint64_t id, uint32_t percent)
{
        if (percent <= 100)
                return 0;
        ds_client_answer(client, id, DETSHARE__STATUS__BAD_PARAMETER,
                "%u %% of the SMs were requested; 1 to 100 are accepted, and 0 means 100", percent);
        return -1;
}

static int check_share(struct ds_client *client, uint64_t id, struct ds_gpu_share share)
{
        if (share.request > DS_GPU_SHARE_ALL || share.limit > DS_GPU_SHARE_ALL) {
                ds_client_answer(client, id, DETSHARE__STATUS__BAD_PARAMETER,
                        "a share of %u thousandths of the GPU's time was requested; at most %u are accepted",
                        DS_MAX(share.request, share.limit), DS_GPU_SHARE_ALL);
                return -1;
        }
        if (!share.limit || share.request <= share.limit)
                return 0;
        ds_client_answer(client, id, DETSHARE__STATUS__BAD_PARAMETER,
                "the least share of the GPU's time (%u thousandths) is above the largest (%u)", share.request,
                share.limit);
        return -1;
}

static int check_factor(struct ds_client *client, uint64_t id, uint32_t permille)
{
        if (!permille || (permille >= DS_SLO_FACTOR_MIN && permille <= DS_SLO_FACTOR_MAX))
                return 0;
        ds_client_answer(client, id, DETSHARE__STATUS__BAD_PARAMETER,
                "an objective of %u thousandths of the latency alone was stated; %u to %u are accepted, and 0 means "
                "none",
                permille, DS_SLO_FACTOR_MIN, DS_SLO_FACTOR_MAX);
        return -1;
}

static int check_slo(struct ds_client *client, uint64_t id, const struct ds_slo *slo)
{
        for (int kind = 0; kind < _DS_SLO_KINDS; kind++)
                if (check_factor(client, id, slo->permille[kind]))
                        return -1;
        return 0;
}

static void take_rule(struct ds_slo *slo, enum ds_slo_kind kind, const struct ds_granted *rule)
{
        if (rule->value & DS_RULE_FACTOR)
                slo->permille[kind] = (uint32_t)rule->value;
        else
                slo->ns[kind] = rule->value;
}

/* The objectives of a session that states `stated`: those of the configuration if it is latency-sensitive and states
 * none. */
static struct ds_slo slo_of(const struct ds_client *client, Detshare__Class class_, struct ds_slo stated)
{
        const struct ds_granted *rules = ds_client_rights(client)->of;

        if (class_ != DETSHARE__CLASS__LS || ds_slo_is_stated(&stated))
                return stated;
        take_rule(&stated, DS_SLO_LATENCY, &rules[DS_RULE_SLO]);
        take_rule(&stated, DS_SLO_TTFT, &rules[DS_RULE_TTFT]);
        take_rule(&stated, DS_SLO_TPOT, &rules[DS_RULE_TPOT]);
        return stated;
}

/* Checks the user: one that may have no class is refused. Returns 0, or the request is answered. */
static int check_user(struct ds_client *client, uint64_t id)
{
        char name[DS_RULE_NAME_MAX];

        if (ds_client_may(client, DETSHARE__CLASS__BE) || ds_client_may(client, DETSHARE__CLASS__LS))
                return 0;
        ds_client_answer(client, id, DETSHARE__STATUS__DENIED, "uid %u may have no session (%s)",
                (unsigned)ds_user_uid(ds_client_user(client)),
                ds_right_name(ds_client_rights(client), DS_RULE_CLASSES, name));
        return -1;
}

/* Largest sm_percent that the client may set: the limit of its user, unless it is an administrator that changes
 * another user's session. */
static uint32_t percent_limit(const struct ds_client *client, const struct ds_session *session)
{
        return session->client == client ? (uint32_t)ds_client_rights(client)->of[DS_RULE_SM_PERCENT].value : 100;
}

static struct ds_gpu_share share_limit(const struct ds_client *client, const struct ds_session *session)
{
        const struct ds_granted *rights = ds_client_rights(client)->of;

        if (session->client != client)
                return (struct ds_gpu_share){DS_GPU_SHARE_ALL, DS_GPU_SHARE_ALL};
        return (struct ds_gpu_share){
                (uint32_t)rights[DS_RULE_GPU_REQUEST].value, (uint32_t)rights[DS_RULE_GPU_LIMIT].value};
}

/* The class that the client gets: a program that may not have the requested class runs with the other one. The reply
 * names it. */
static Detshare__Class grant_class(const struct ds_client *client, Detshare__Class class_)
{
        if (ds_client_may(client, class_))
                return class_;
        return class_ == DETSHARE__CLASS__LS ? DETSHARE__CLASS__BE : DETSHARE__CLASS__LS;
}

void ds_handle_hello(struct ds_client *client, Detshare__Request *request, int *fds)
{
        const Detshare__Hello *hello = request->hello;
        const struct ds_gpu_share share = {hello->gpu_request, hello->gpu_limit};
        struct ds_session_config config = {
                .pid = ds_client_pid(client),
                .name = hello->name,
                .class_ = hello->class_,
                .slo = DS_SLO_READ(hello),
                .memory_limit = hello->memory_limit,
                .sm_percent = hello->sm_percent ? hello->sm_percent : 100,
                .control_only = hello->control_only,
        };
        struct ds_session *session;
        char message[128];
        int r;

        if (ds_client_session(client)) {
                ds_client_answer(
                        client, request->id, DETSHARE__STATUS__BAD_REQUEST, "Hello was sent before on this connection");
                return;
        }
        if (hello->version != PROTOCOL_VERSION) {
                ds_client_answer(client, request->id, DETSHARE__STATUS__BAD_VERSION,
                        "the client uses protocol version %u, the daemon version %u; install the same DetShare version "
                        "for both",
                        hello->version, PROTOCOL_VERSION);
                return;
        }
        if (!hello->control_only && ds_client_must_wait(client, request->id))
                return;
        if (check_name(client, request->id, hello->name) || check_class(client, request->id, hello->class_) ||
                check_percent(client, request->id, hello->sm_percent) || check_share(client, request->id, share) ||
                check_slo(client, request->id, &config.slo) || check_user(client, request->id))
                return;
        config.class_ = grant_class(client, config.class_);
        config.slo = slo_of(client, config.class_, config.slo);
        r = ds_session_new(ds_client_supervisor(client), client, ds_client_user(client), &config, message,
                sizeof(message), &session);
        if (r) {
                ds_client_answer(client, request->id, r, "%s", message);
                return;
        }
        ds_client_set_session(client, session);
        ds_session_ask_percent(session, hello->sm_percent, percent_limit(client, session));
        ds_session_ask_share(session, share, share_limit(client, session));
        reply_hello(client, request->id);
}

void ds_handle_window_refused(struct ds_client *client, Detshare__Request *request, int *fds)
{
        char message[128];
        int r = ds_session_refuse_window(ds_client_session(client), message, sizeof(message));

        if (r)
                ds_client_answer(client, request->id, r, "%s", message);
        else
                reply_hello(client, request->id);
}

void ds_handle_attach(struct ds_client *client, Detshare__Request *request, int *fds)
{
        ds_session_attach(ds_client_session(client), request->id);
}

void ds_handle_output_read(struct ds_client *client, Detshare__Request *request, int *fds)
{
        ds_output_read(ds_client_session(client), request->id, request->output_read->upto);
}

void ds_handle_address_reserve(struct ds_client *client, Detshare__Request *request, int *fds)
{
        Detshare__Address address = DETSHARE__ADDRESS__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        struct ds_window range;
        char message[128];
        int r = ds_session_reserve(
                ds_client_session(client), request->address_reserve->bytes, message, sizeof(message), &range);

        if (r) {
                ds_client_answer(client, request->id, r, "%s", message);
                return;
        }
        address.address = range.base;
        address.bytes = range.bytes;
        reply.result_case = DETSHARE__REPLY__RESULT_ADDRESS_RESERVE;
        reply.address_reserve = &address;
        ds_client_reply(client, request->id, &reply, NULL, 0);
}

void ds_handle_address_free(struct ds_client *client, Detshare__Request *request, int *fds)
{
        char message[128] = "";
        int r = ds_session_unreserve(
                ds_client_session(client), request->address_free->address, message, sizeof(message));

        ds_client_answer(client, request->id, r, "%s", message);
}

void ds_handle_ping(struct ds_client *client, Detshare__Request *request, int *fds)
{
        ds_client_answer(client, request->id, 0, "%s", "");
}

/* --- one session -------------------------------------------------------------------------------------------------- */

/* The session that a SetSession names. NULL: the request is answered. A user gets the same answer for a session of
 * another user as for one that does not exist. */
static struct ds_session *set_session_target(struct ds_client *client, const Detshare__Request *request)
{
        struct ds_session *own = ds_client_session(client), *session;
        uint64_t id = request->set_session->session;

        if (id == 0 || id == own->id)
                return own;
        if (!ds_client_is_admin(client)) {
                ds_client_answer(client, request->id, DETSHARE__STATUS__DENIED,
                        "another user's session needs uid 0 or the group detshare-admin");
                return NULL;
        }
        session = ds_session_find(own->supervisor, id);
        if (!session)
                ds_client_answer(client, request->id, DETSHARE__STATUS__NO_SUCH, "there is no session %llu",
                        (unsigned long long)id);
        return session;
}

static struct ds_gpu_share share_of(const Detshare__SetSession *set)
{
        return (struct ds_gpu_share){set->gpu_request, set->gpu_limit};
}

static int check_share_rights(
        struct ds_client *client, uint64_t id, struct ds_gpu_share share, const struct ds_session *session)
{
        const struct ds_gpu_share most = share_limit(client, session);
        const int request = share.request > most.request;
        char name[DS_RULE_NAME_MAX];

        /* a request without a limit means the largest permitted one */
        if (!request && share.limit <= most.limit && share.request <= most.limit)
                return 0;
        ds_client_answer(client, id, DETSHARE__STATUS__DENIED,
                "%u thousandths of the GPU's time were requested; uid %u may have %u (%s)",
                request ? share.request : DS_MAX(share.request, share.limit),
                (unsigned)ds_user_uid(ds_client_user(client)), request ? most.request : most.limit,
                ds_right_name(ds_client_rights(client), request ? DS_RULE_GPU_REQUEST : DS_RULE_GPU_LIMIT, name));
        return -1;
}

static int check_set_rights(
        struct ds_client *client, uint64_t id, const Detshare__SetSession *set, const struct ds_session *session)
{
        const unsigned uid = (unsigned)ds_user_uid(ds_client_user(client));
        const struct ds_rights *rights = ds_client_rights(client);
        uint32_t most = percent_limit(client, session);
        char name[DS_RULE_NAME_MAX];

        if (set->set_class && !ds_client_may(client, set->class_)) {
                ds_client_answer(client, id, DETSHARE__STATUS__DENIED, "uid %u may not have class %s (%s)", uid,
                        set->class_ == DETSHARE__CLASS__LS ? "ls" : "be", ds_right_name(rights, DS_RULE_CLASSES, name));
                return -1;
        }
        if (set->set_sm_percent && set->sm_percent > most) {
                ds_client_answer(client, id, DETSHARE__STATUS__DENIED,
                        "%u %% of the SMs were requested; uid %u may have %u (%s)", set->sm_percent, uid, most,
                        ds_right_name(rights, DS_RULE_SM_PERCENT, name));
                return -1;
        }
        return set->set_share ? check_share_rights(client, id, share_of(set), session) : 0;
}

static int check_set(
        struct ds_client *client, uint64_t id, const Detshare__SetSession *set, const struct ds_session *session)
{
        if (set->set_name && check_name(client, id, set->name))
                return -1;
        if (set->set_class && check_class(client, id, set->class_))
                return -1;
        if (set->set_sm_percent && check_percent(client, id, set->sm_percent))
                return -1;
        if (set->set_share && check_share(client, id, share_of(set)))
                return -1;
        if (check_slo(client, id, &DS_SLO_READ(set)))
                return -1;
        return check_set_rights(client, id, set, session);
}

static void set_objectives(struct ds_session *session, const Detshare__SetSession *set)
{
        const struct ds_slo slo = DS_SLO_READ(set);
        const protobuf_c_boolean is_set[_DS_SLO_KINDS] = {
                [DS_SLO_LATENCY] = set->set_slo, [DS_SLO_TTFT] = set->set_ttft, [DS_SLO_TPOT] = set->set_tpot};

        for (int kind = 0; kind < _DS_SLO_KINDS; kind++) {
                if (!is_set[kind])
                        continue;
                session->slo.ns[kind] = slo.ns[kind];
                session->slo.permille[kind] = slo.permille[kind];
        }
}

void ds_handle_set_session(struct ds_client *client, Detshare__Request *request, int *fds)
{
        const Detshare__SetSession *set = request->set_session;
        struct ds_session *session = set_session_target(client, request);

        /* the request is applied only if all its parts are permitted */
        if (!session || check_set(client, request->id, set, session))
                return;
        if (set->set_class)
                session->class_ = set->class_;
        set_objectives(session, set);
        if (session->client == client)
                session->slo = slo_of(client, session->class_, session->slo);
        if (set->set_name)
                ds_session_set_name(session, set->name);
        if (set->set_memory_limit)
                session->memory_limit = set->memory_limit;
        if (set->set_sm_percent)
                ds_session_ask_percent(session, set->sm_percent, percent_limit(client, session));
        if (set->set_share)
                ds_session_ask_share(session, share_of(set), share_limit(client, session));
        ds_session_changed(session);
        ds_client_answer(client, request->id, 0, "%s", "");
}

/* Whether the client may kill the session: users may end their own. The answer does not reveal whether another
 * user's session exists. */
static int may_kill(const struct ds_client *client, const struct ds_session *session)
{
        return ds_client_is_admin(client) ||
               (session && session->client && ds_client_user(session->client) == ds_client_user(client));
}

void ds_handle_kill(struct ds_client *client, Detshare__Request *request, int *fds)
{
        uint64_t id = request->kill->session;
        struct ds_session *session = ds_session_find(ds_client_supervisor(client), id);
        char why[64];

        if (!may_kill(client, session)) {
                ds_client_answer(client, request->id, DETSHARE__STATUS__DENIED,
                        "kill: another user's session needs uid 0 or the group detshare-admin");
                return;
        }
        if (!session) {
                ds_client_answer(client, request->id, DETSHARE__STATUS__NO_SUCH, "there is no session %llu",
                        (unsigned long long)id);
                return;
        }
        snprintf(why, sizeof(why), "session %llu was killed by uid %u", (unsigned long long)id,
                (unsigned)ds_user_uid(ds_client_user(client)));
        /* answer before closing: the session may be the caller's own */
        ds_client_answer(client, request->id, 0, "%s", "");
        session = ds_session_find(ds_client_supervisor(client), id);
        if (session)
                ds_client_close(session->client, why);
}

/* --- the device --------------------------------------------------------------------------------------------------- */

void ds_handle_get_device(struct ds_client *client, Detshare__Request *request, int *fds)
{
        const struct ds_worker_info *info = ds_worker_info(ds_client_supervisor(client)->worker);
        Detshare__DeviceReply device = DETSHARE__DEVICE_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        if (request->get_device->ordinal != 0) {
                ds_client_answer(client, request->id, INVALID_DEVICE, "there is no device %u, only device 0",
                        request->get_device->ordinal);
                return;
        }
        device.count = 1;
        device.name = (char *)info->name;
        device.model = (char *)info->model;
        device.uuid.data = (uint8_t *)info->uuid;
        device.uuid.len = sizeof(info->uuid);
        device.memory_bytes = info->memory_bytes;
        device.n_attributes = info->n_attributes;
        device.attributes = (int32_t *)info->attributes;
        device.simulated = info->simulated;
        device.n_sms = info->n_sms;
        device.n_limits = info->n_limits;
        device.limits = (uint64_t *)info->limits;
        reply.result_case = DETSHARE__REPLY__RESULT_GET_DEVICE;
        reply.get_device = &device;
        ds_client_reply(client, request->id, &reply, NULL, 0);
}
