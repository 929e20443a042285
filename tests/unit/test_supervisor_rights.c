/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights, against a live supervisor: every request, by root, a member of the administrators' group, the owner of the
 * session in question, and another user. Then the limits of users: classes, SMs, sessions, rate of requests.
 */
#include <grp.h>

#include "supervisor/rpc_table.h"
#include "supervisor/session.h"
#include "tests/unit/supervisor_fixture.h"

#define ADMIN_GID 4242
#define UID_OWN 4001
#define UID_OTHER 4002
#define UID_ADMIN 4003

/* Pretends that the group of administrators exists. */
struct group *getgrnam(const char *name)
{
        static struct group admin = {.gr_name = (char *)"detshare-admin", .gr_gid = ADMIN_GID};

        return strcmp(name, admin.gr_name) ? NULL : &admin;
}

/* --- users -------------------------------------------------------------------------------------------------------- */

/* A child's exit status is the line of its first failure. */
#define CHECK(condition)                 \
        do {                             \
                if (!(condition))        \
                        return __LINE__; \
        } while (0)

struct person {
        uid_t uid;
        gid_t group; /* supplementary group; 0: none */
        int admin, sees_all;
};

static int become(const struct person *who)
{
        gid_t group = who->group;

        if (setgroups(group ? 1 : 0, &group) < 0 || setresgid(who->uid, who->uid, who->uid) < 0)
                return -1;
        return setresuid(who->uid, who->uid, who->uid);
}

static pid_t as(const struct person *who, int (*fn)(struct fixture *f, const struct person *who), struct fixture *f)
{
        pid_t pid;

        fflush(NULL);
        pid = fork();
        if (pid == 0) {
                int line = become(who) < 0 ? 1 : fn(f, who);

                if (line)
                        fprintf(stderr, "uid %u: line %d\n", (unsigned)who->uid, line);
                _exit(line ? 1 : 0);
        }
        cr_assert_gt(pid, 0);
        return pid;
}

static void went_well(pid_t pid)
{
        int status;

        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFEXITED(status));
        cr_assert_eq(WEXITSTATUS(status), 0);
}

static void init(struct fixture *f)
{
        fx_init(f);
        cr_assert_eq(chmod(f->dir, 0755), 0);
}

/* --- every request ------------------------------------------------------------------------------------------------ */

/* Sends the call with only `session` filled in, where the call has such a field. */
static int ask_for(ds_conn *conn, const struct ds_rpc *rpc, uint64_t session)
{
        const ProtobufCFieldDescriptor *field =
                protobuf_c_message_descriptor_get_field(&detshare__request__descriptor, (unsigned)rpc->call);
        union {
                ProtobufCMessage base;
                char bytes[512];
        } body;
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        ds_cleanup(ds_closep) int fd = memfd_create("image", MFD_CLOEXEC);

        CHECK(field && ((const ProtobufCMessageDescriptor *)field->descriptor)->sizeof_message <= sizeof(body));
        CHECK(write(fd, "x", 1) == 1);
        protobuf_c_message_init(field->descriptor, &body.base);
        if (rpc->call == DETSHARE__REQUEST__CALL_SET_SESSION)
                ((Detshare__SetSession *)&body)->session = session;
        if (rpc->call == DETSHARE__REQUEST__CALL_KILL)
                ((Detshare__Kill *)&body)->session = session;
        if (rpc->call == DETSHARE__REQUEST__CALL_EXPLAIN)
                ((Detshare__Explain *)&body)->session = session;
        if (rpc->call == DETSHARE__REQUEST__CALL_LIST_FORMS)
                ((Detshare__ListForms *)&body)->session = session;
        if (rpc->call == DETSHARE__REQUEST__CALL_MODULE_LOAD)
                ((Detshare__ModuleLoad *)&body)->bytes = 1;
        request.call_case = rpc->call;
        *(ProtobufCMessage **)((char *)&request + field->offset) = &body.base;
        request.fds = rpc->fds;
        fx_ask(conn, &request, &fd);
        return 0;
}

static int is_of_profiles(const struct ds_rpc *rpc)
{
        return rpc->call == DETSHARE__REQUEST__CALL_LIST_PROFILES ||
               rpc->call == DETSHARE__REQUEST__CALL_FORGET_PROFILES ||
               rpc->call == DETSHARE__REQUEST__CALL_PUT_PROFILES || rpc->call == DETSHARE__REQUEST__CALL_PROFILE_RUN ||
               rpc->call == DETSHARE__REQUEST__CALL_PUT_CALIBRATION ||
               rpc->call == DETSHARE__REQUEST__CALL_FORGET_CALIBRATION;
}

static int is_of_observation(const struct ds_rpc *rpc)
{
        return rpc->call == DETSHARE__REQUEST__CALL_EXPLAIN || rpc->call == DETSHARE__REQUEST__CALL_LIST_FORMS ||
               rpc->call == DETSHARE__REQUEST__CALL_TRACE_START || rpc->call == DETSHARE__REQUEST__CALL_TRACE_STOP;
}

static int is_for_admins(const struct ds_rpc *rpc)
{
        if (is_of_profiles(rpc) || is_of_observation(rpc))
                return 1;
        return rpc->call == DETSHARE__REQUEST__CALL_SET_POLICY || rpc->call == DETSHARE__REQUEST__CALL_KILL;
}

/* Status of one request on a new session, which is closed afterwards. */
static int status_of(struct fixture *f, const struct ds_rpc *rpc, uint64_t session, char *message, size_t size)
{
        ds_conn *conn = fx_hello(f, 0, DETSHARE__CLASS__BE, NULL, NULL);
        Detshare__Reply *reply;
        int status = -2;

        message[0] = 0;
        if (!conn)
                return -3;
        if (ask_for(conn, rpc, session))
                return -4;
        /* this request gets no answer: the answer to a second one shows that the first was accepted */
        if (rpc->call == DETSHARE__REQUEST__CALL_SYNC) {
                status = fx_ping(conn);
                ds_conn_free(conn);
                return status;
        }
        reply = fx_answer(conn);
        if (reply) {
                status = reply->status;
                snprintf(message, size, "%s", reply->message);
                detshare__reply__free_unpacked(reply, NULL);
        }
        ds_conn_free(conn);
        return status;
}

static int try_row(struct fixture *f, const struct person *who, const struct ds_rpc *rpc)
{
        char message[512], there[512];
        int status = status_of(f, rpc, 0, message, sizeof(message));

        if (is_for_admins(rpc)) {
                CHECK(who->admin ? status != DETSHARE__STATUS__DENIED : status == DETSHARE__STATUS__DENIED);
                CHECK(who->admin || (strstr(message, rpc->name) && strstr(message, "detshare-admin")));
        } else {
                CHECK(status >= 0);
                CHECK(status != DETSHARE__STATUS__DENIED);
        }
        if (rpc->call != DETSHARE__REQUEST__CALL_KILL && rpc->call != DETSHARE__REQUEST__CALL_EXPLAIN &&
                rpc->call != DETSHARE__REQUEST__CALL_LIST_FORMS && rpc->call != DETSHARE__REQUEST__CALL_SET_SESSION)
                return 0;
        /* a session that does not exist, and session 1 of another connection (of this user or not) */
        status = status_of(f, rpc, 999999, message, sizeof(message));
        CHECK(status == (who->admin ? DETSHARE__STATUS__NO_SUCH : DETSHARE__STATUS__DENIED));
        if (who->admin)
                return 0;
        if (rpc->call != DETSHARE__REQUEST__CALL_SET_SESSION && who->uid == UID_OWN)
                return 0; /* permitted, so tested later */
        CHECK(status_of(f, rpc, 1, there, sizeof(there)) == DETSHARE__STATUS__DENIED);
        CHECK(!strcmp(message, there));
        return 0;
}

static uint32_t count_listed(struct fixture *f)
{
        ds_conn *conn = fx_hello(f, 1, DETSHARE__CLASS__BE, NULL, NULL);
        Detshare__Reply *reply;
        uint32_t n = 0;
        FX_REQUEST(list_clients, LIST_CLIENTS, ListClients, LIST_CLIENTS);

        if (!conn)
                return 0;
        fx_ask(conn, &list_clients_r, NULL);
        reply = fx_answer(conn);
        if (reply && reply->list_clients)
                for (size_t i = 0; i < reply->list_clients->n_clients; i++)
                        n += !reply->list_clients->clients[i]->control_only;
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        ds_conn_free(conn);
        return n;
}

static unsigned n_calls(void)
{
        const ProtobufCMessageDescriptor *request = &detshare__request__descriptor;
        unsigned n = 0;

        for (unsigned i = 0; i < request->n_fields; i++)
                n += (request->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
        return n;
}

static int try_all(struct fixture *f, const struct person *who)
{
        const struct ds_rpc *rpc;
        unsigned n = 0;

        CHECK(count_listed(f) == (who->sees_all ? 1u : 0u));
        for (size_t i = 0; (rpc = ds_rpc_at(i)); i++) {
                int line;

                n++;
                /* last, because it ends the fake worker */
                if (rpc->call == DETSHARE__REQUEST__CALL_COPY)
                        continue;
                line = try_row(f, who, rpc);
                if (line) {
                        fprintf(stderr, "%s: ", rpc->name);
                        return line;
                }
        }
        CHECK(n == n_calls());
        return try_row(f, who, ds_rpc_find(DETSHARE__REQUEST__CALL_COPY));
}

static int kill_own(struct fixture *f, const struct person *who)
{
        char message[512];

        CHECK(status_of(f, ds_rpc_find(DETSHARE__REQUEST__CALL_KILL), 1, message, sizeof(message)) == 0);
        return 0;
}

/* Before hello no request of a client is answered; without a window, no request that needs one. */
static int try_outside(struct fixture *f, const struct person *who)
{
        const struct ds_rpc *rpc;

        for (size_t i = 0; (rpc = ds_rpc_at(i)); i++) {
                ds_conn *conn = fx_conn(fx_connect(f));

                CHECK(ask_for(conn, rpc, 0) == 0);
                CHECK((fx_status(conn) == -1) == !(rpc->flags & DS_RPC_BEFORE_HELLO));
                ds_conn_free(conn);
                conn = fx_hello(f, 1, DETSHARE__CLASS__BE, NULL, NULL);
                CHECK(conn && ask_for(conn, rpc, 0) == 0);
                if (rpc->flags & DS_RPC_WINDOW)
                        CHECK(fx_status(conn) == DETSHARE__STATUS__BAD_REQUEST);
                ds_conn_free(conn);
        }
        return 0;
}

Test(rights, matrix, .timeout = 60)
{
        static const struct person people[] = {
                {.uid = 0, .admin = 1, .sees_all = 1},
                {.uid = UID_ADMIN, .group = ADMIN_GID, .admin = 1, .sees_all = 1},
                {.uid = UID_OWN, .sees_all = 1},
                {.uid = UID_OTHER},
        };
        static const struct person owner = {.uid = UID_OWN};
        struct fixture f;
        ds_conn *own;

        if (geteuid() != 0)
                skip_test("root, to become another user");
        init(&f);
        fx_start(&f);
        /* session 1 belongs to UID_OWN, because a process with that uid connects */
        cr_assert_eq(setresgid((gid_t)-1, owner.uid, (gid_t)-1) | setresuid((uid_t)-1, owner.uid, (uid_t)-1), 0);
        own = fx_session(&f);
        cr_assert_eq(setresuid((uid_t)-1, 0, (uid_t)-1) | setresgid((gid_t)-1, 0, (gid_t)-1), 0);
        for (size_t i = 0; i < DS_ARRAY_SIZE(people); i++)
                went_well(as(&people[i], try_all, &f));
        went_well(as(&people[3], try_outside, &f));
        cr_assert_eq(fx_ping(own), 0, "nobody has harmed it");
        went_well(as(&people[2], kill_own, &f));
        cr_assert_eq(fx_ping(own), -1, "its user has ended it");
        ds_conn_free(own);
        fx_baseline(&f);
        fx_stop(&f);
}

/* --- limits of users ---------------------------------------------------------------------------------------------- */

static void rule(struct fixture *f, uid_t uid, enum ds_rule_key key, uint64_t value)
{
        static unsigned file;

        cr_assert_eq(ds_rules_set(&f->config.rules, DS_FROM_USER, uid, key, value, ++file), 0);
}

static int set_percent(ds_conn *conn, uint32_t percent, char *message, size_t size)
{
        Detshare__Reply *reply;
        int status;
        FX_REQUEST(set_session, SET_SESSION, SetSession, SET_SESSION);

        set_session.set_sm_percent = 1;
        set_session.sm_percent = percent;
        fx_ask(conn, &set_session_r, NULL);
        reply = fx_answer(conn);
        CHECK(reply);
        status = reply->status;
        snprintf(message, size, "%s", reply->message);
        detshare__reply__free_unpacked(reply, NULL);
        return status;
}

static int set_share(ds_conn *conn, uint32_t request, uint32_t limit, char *message, size_t size)
{
        Detshare__Reply *reply;
        int status;
        FX_REQUEST(set_session, SET_SESSION, SetSession, SET_SESSION);

        set_session.set_share = 1;
        set_session.gpu_request = request;
        set_session.gpu_limit = limit;
        fx_ask(conn, &set_session_r, NULL);
        reply = fx_answer(conn);
        CHECK(reply);
        status = reply->status;
        snprintf(message, size, "%s", reply->message);
        detshare__reply__free_unpacked(reply, NULL);
        return status;
}

/* Shares of the user's last session in the list, as one number: 10000 * request + limit. */
static uint32_t share_of(ds_conn *conn)
{
        Detshare__Reply *reply;
        uint32_t share = UINT32_MAX;
        FX_REQUEST(list_clients, LIST_CLIENTS, ListClients, LIST_CLIENTS);

        fx_ask(conn, &list_clients_r, NULL);
        reply = fx_answer(conn);
        for (size_t i = 0; reply && reply->list_clients && i < reply->list_clients->n_clients; i++)
                share = 10000 * reply->list_clients->clients[i]->gpu_request +
                        reply->list_clients->clients[i]->gpu_limit;
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        return share;
}

static int hello_share(struct fixture *f, uint32_t request, uint32_t limit, uint32_t *ret_granted)
{
        ds_conn *conn = fx_conn(fx_connect(f));
        int status;
        FX_REQUEST(hello, HELLO, Hello, HELLO);

        hello.version = 1;
        hello.gpu_request = request;
        hello.gpu_limit = limit;
        fx_ask(conn, &hello_r, NULL);
        status = fx_status(conn);
        *ret_granted = status ? 0 : share_of(conn);
        ds_conn_free(conn);
        return status;
}

/* Message of a refused hello; "" if it succeeded. */
static const char *refusal(struct fixture *f, int control_only)
{
        ds_conn *conn = fx_conn(fx_connect(f));
        static char message[256];
        Detshare__Reply *reply;
        FX_REQUEST(hello, HELLO, Hello, HELLO);

        hello.version = 1;
        hello.control_only = control_only;
        fx_ask(conn, &hello_r, NULL);
        reply = fx_answer(conn);
        snprintf(message, sizeof(message), "%s", reply ? reply->message : "no answer");
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        ds_conn_free(conn);
        return message;
}

static int held(struct fixture *f, const struct person *who)
{
        Detshare__Class granted;
        char message[256];
        ds_conn *a, *b;

        a = fx_hello(f, 0, DETSHARE__CLASS__LS, NULL, &granted);
        CHECK(a && granted == DETSHARE__CLASS__BE);
        CHECK(set_percent(a, 51, message, sizeof(message)) == DETSHARE__STATUS__DENIED);
        CHECK(!strcmp(message, "51 % of the SMs were requested; uid 4001 may have 50 ([user 4001] sm_percent)"));
        CHECK(set_percent(a, 50, message, sizeof(message)) == 0);
        CHECK(set_percent(a, 0, message, sizeof(message)) == 0);
        b = fx_hello(f, 0, DETSHARE__CLASS__BE, NULL, NULL);
        CHECK(b);
        CHECK(!strcmp(refusal(f, 0), "uid 4001 has 2 sessions, the most permitted ([user 4001] sessions)"));
        CHECK(!strcmp(refusal(f, 1), ""));
        ds_conn_free(a);
        ds_conn_free(b);
        return 0;
}

/* At least 300 and at most 600 permille. A hello gets what is left; a change beyond that is refused as a whole. */
static int shares(struct fixture *f, const struct person *who)
{
        static const struct {
                uint32_t request, limit, granted;
        } hellos[] = {{0, 0, 600}, {100, 0, 1000600}, {1000, 0, 3000600}, {100, 200, 1000200}, {700, 900, 3000600}};
        uint32_t granted;
        char message[256];
        ds_conn *conn;

        for (size_t i = 0; i < DS_ARRAY_SIZE(hellos); i++)
                CHECK(hello_share(f, hellos[i].request, hellos[i].limit, &granted) == 0 &&
                        granted == hellos[i].granted);
        CHECK(hello_share(f, 1001, 0, &granted) == DETSHARE__STATUS__BAD_PARAMETER);
        CHECK(hello_share(f, 0, 1001, &granted) == DETSHARE__STATUS__BAD_PARAMETER);
        CHECK(hello_share(f, 300, 299, &granted) == DETSHARE__STATUS__BAD_PARAMETER);
        conn = fx_hello(f, 0, DETSHARE__CLASS__BE, NULL, NULL);
        CHECK(conn && set_share(conn, 300, 600, message, sizeof(message)) == 0 && share_of(conn) == 3000600);
        CHECK(set_share(conn, 301, 600, message, sizeof(message)) == DETSHARE__STATUS__DENIED);
        CHECK(!strcmp(message, "301 thousandths of the GPU's time were requested; uid 4001 may have 300 ([user 4001] "
                               "gpu_request_percent)"));
        CHECK(set_share(conn, 1, 601, message, sizeof(message)) == DETSHARE__STATUS__DENIED);
        CHECK(!strcmp(message, "601 thousandths of the GPU's time were requested; uid 4001 may have 600 ([user 4001] "
                               "gpu_limit_percent)"));
        CHECK(set_share(conn, 2, 1, message, sizeof(message)) == DETSHARE__STATUS__BAD_PARAMETER);
        CHECK(share_of(conn) == 3000600);
        CHECK(set_share(conn, 0, 0, message, sizeof(message)) == 0 && share_of(conn) == 600);
        ds_conn_free(conn);
        return 0;
}

static int no_cap(struct fixture *f, const struct person *who)
{
        uint32_t granted;

        CHECK(hello_share(f, 0, 0, &granted) == 0 && granted == 0);
        CHECK(hello_share(f, 1000, 1000, &granted) == 0 && granted == 10001000);
        return 0;
}

static int refused(struct fixture *f, const struct person *who)
{
        CHECK(!strcmp(refusal(f, 0), "uid 4002 may have no session ([user 4002] classes)"));
        CHECK(!strcmp(refusal(f, 1), "uid 4002 may have no session ([user 4002] classes)"));
        return 0;
}

static int only_ls(struct fixture *f, const struct person *who)
{
        Detshare__Class granted;
        ds_conn *conn = fx_hello(f, 0, DETSHARE__CLASS__BE, NULL, &granted);

        CHECK(conn && granted == DETSHARE__CLASS__LS);
        ds_conn_free(conn);
        return 0;
}

Test(rights, users_are_held_to_their_rules, .timeout = 30)
{
        static const struct person own = {.uid = UID_OWN}, other = {.uid = UID_OTHER}, third = {.uid = UID_ADMIN};
        struct fixture f;

        if (geteuid() != 0)
                skip_test("root, to become another user");
        init(&f);
        rule(&f, UID_OWN, DS_RULE_SM_PERCENT, 50);
        rule(&f, UID_OWN, DS_RULE_GPU_REQUEST, 300);
        rule(&f, UID_OWN, DS_RULE_GPU_LIMIT, 600);
        rule(&f, UID_OWN, DS_RULE_SESSIONS, 2);
        rule(&f, UID_OTHER, DS_RULE_CLASSES, 0);
        rule(&f, UID_ADMIN, DS_RULE_CLASSES, DS_CLASS_BIT_LS);
        fx_start(&f);
        went_well(as(&own, held, &f));
        fx_baseline(&f);
        went_well(as(&own, shares, &f));
        went_well(as(&third, no_cap, &f));
        went_well(as(&other, refused, &f));
        went_well(as(&third, only_ls, &f));
        fx_baseline(&f);
        fx_stop(&f);
        ds_rules_deinit(&f.config.rules);
}

/* --- rates -------------------------------------------------------------------------------------------------------- */

static void send_pings(ds_conn *conn, int n)
{
        for (int i = 0; i < n; i++) {
                FX_REQUEST(ping, PING, Ping, PING);
                fx_ask(conn, &ping_r, NULL);
        }
}

#define CROWD 8

/*
 * A request beyond the rate may wait longer than the 5 s that a hello or the rest of a frame may take, because these
 * deadlines are for slow clients. Half a frame of the first client waits here together with its ping.
 */
static int too_fast(struct fixture *f, const struct person *who)
{
        const uint64_t begin = fx_now_ms();
        ds_conn *conns[CROWD];

        for (int i = 0; i < CROWD; i++) {
                FX_REQUEST(hello, HELLO, Hello, HELLO);

                conns[i] = fx_conn(fx_connect(f));
                hello.version = 1;
                fx_ask(conns[i], &hello_r, NULL);
        }
        send_pings(conns[0], 1);
        CHECK(write(ds_conn_fd(conns[0]), "\x04\0\0", 3) == 3);
        CHECK(fx_status(conns[0]) == 0);
        CHECK(fx_status(conns[0]) == 0);
        CHECK(write(ds_conn_fd(conns[0]), "\0\x08\x07\x72\0", 5) == 5); /* the rest of the frame: a ping */
        for (int i = 1; i < CROWD; i++)
                CHECK(fx_status(conns[i]) == 0);
        CHECK(fx_status(conns[0]) == 0);
        CHECK(fx_now_ms() - begin >= CROWD * 1000); /* ten requests at one per second, two at once */
        for (int i = 0; i < CROWD; i++)
                ds_conn_free(conns[i]);
        return 0;
}

Test(rights, rate, .timeout = 60)
{
        static const struct person own = {.uid = UID_OWN};
        struct fixture f;
        ds_conn *root;
        pid_t pid;

        if (geteuid() != 0)
                skip_test("root, to become another user");
        init(&f);
        rule(&f, UID_OWN, DS_RULE_CALLS, 1);
        rule(&f, UID_OWN, DS_RULE_BURST, 2);
        fx_start(&f);
        pid = as(&own, too_fast, &f);
        root = fx_session(&f);
        for (int i = 0; i < 200; i++)
                cr_assert_eq(fx_ping(root), 0, "others do not wait for it");
        went_well(pid);
        ds_conn_free(root);
        fx_baseline(&f);
        fx_stop(&f);
        ds_rules_deinit(&f.config.rules);
}

static int leaves_while_it_waits(struct fixture *f, const struct person *who)
{
        for (int i = 0; i < 20; i++) {
                ds_conn *conn = fx_conn(fx_connect(f));
                FX_REQUEST(hello, HELLO, Hello, HELLO);

                hello.version = 1;
                fx_ask(conn, &hello_r, NULL);
                send_pings(conn, 20);
                ds_conn_free(conn);
        }
        return 0;
}

Test(rights, a_departed_waiter_leaves_nothing, .timeout = 30)
{
        static const struct person own = {.uid = UID_OWN};
        struct fixture f;

        if (geteuid() != 0)
                skip_test("root, to become another user");
        init(&f);
        rule(&f, UID_OWN, DS_RULE_CALLS, 1);
        fx_start(&f);
        went_well(as(&own, leaves_while_it_waits, &f));
        fx_baseline(&f);
        /* one more client leaves: it still waits when the daemon stops */
        went_well(as(&own, leaves_while_it_waits, &f));
        fx_stop(&f);
        ds_rules_deinit(&f.config.rules);
}

/* --- reload ------------------------------------------------------------------------------------------------------- */

static void put_config(const struct fixture *f, const char *text)
{
        char path[128], new[140];
        FILE *file;

        snprintf(path, sizeof(path), "%s/x.conf", f->dir);
        snprintf(new, sizeof(new), "%s.new", path);
        file = fopen(new, "w");
        cr_assert(file);
        fputs(text, file);
        fclose(file);
        cr_assert_eq(rename(new, path), 0);
}

/* The worker gets the times and the policy of the new configuration, and the next worker starts with them. */
Test(reload, the_worker_gets_the_new_limits, .timeout = 30)
{
        struct fixture f;
        char path[128], log[4000];
        uint32_t pid;

        init(&f);
        snprintf(path, sizeof(path), "%s/x.conf", f.dir);
        put_config(&f, "[daemon]\npolicy=fifo\n");
        f.options.config_path = path;
        f.options.config_must_exist = 1;
        setenv("FAKE_WORKER", "arguments", 1);
        fx_start(&f);
        pid = fx_wait_serving(&f, 0);
        put_config(&f, "[daemon]\npolicy=clever\nspin_us=7\n[limits]\norphan_seconds=3\nkernel_seconds=4\n"
                       "quiesce_seconds=5\n[policy clever]\na=1\nb=2\n");
        kill(f.pid, SIGHUP);
        fx_await_log(&f, "policy clever params=2\nlimits 3000 4000 5000 7\n", 1);
        /* reading the same configuration again changes nothing, nor does a file with a mistake */
        kill(f.pid, SIGHUP);
        fx_await_log(&f, "limits 3000 4000 5000 7\n", 1);
        put_config(&f, "[daemon]\npolicy=clever\nspin_us=0\n[policy clever]\na=1\nb=2\n");
        kill(f.pid, SIGHUP);
        fx_await_log(&f, "limits 0 0 0 0 never\n", 1);
        put_config(&f, "[daemon]\npolicy=clever\nspin_us=7\n[limits]\norphan_seconds=3\nkernel_seconds=4\n"
                       "quiesce_seconds=5\n[policy clever]\na=1\nb=2\n");
        kill(f.pid, SIGHUP);
        fx_await_log(&f, "limits 3000 4000 5000 7\n", 1);
        put_config(&f, "[daemon]\npolicy=other\n[limits]\nnonsense=1\n");
        kill(f.pid, SIGHUP);
        cr_assert_eq(kill((pid_t)pid, SIGKILL), 0);
        fx_wait_serving(&f, pid);
        fx_read_log(&f, log, sizeof(log));
        cr_assert(strstr(log, "start clever\n"), "%s", log);
        cr_assert(strstr(log, "--orphan-s\n3\n--kernel-s\n4\n--quiesce-s\n5\n--spin-us\n7\n"), "%s", log);
        cr_assert_not(strstr(log, "other"), "%s", log);
        unlink(path);
        fx_baseline(&f);
        fx_stop(&f);
}

/* Requests that wait for a rate continue when a reload removes it. */
static int waits(struct fixture *f, const struct person *who)
{
        ds_conn *conn = fx_hello(f, 0, DETSHARE__CLASS__BE, NULL, NULL);

        CHECK(conn);
        send_pings(conn, 150); /* 150 requests would take longer than the test may, at one per second */
        for (int i = 0; i < 150; i++)
                CHECK(fx_status(conn) == 0);
        ds_conn_free(conn);
        return 0;
}

Test(reload, rates_of_waiting_clients, .timeout = 60)
{
        static const struct person own = {.uid = UID_OWN};
        struct fixture f;
        char path[128];
        pid_t pid;

        if (geteuid() != 0)
                skip_test("root, to become another user");
        init(&f);
        snprintf(path, sizeof(path), "%s/x.conf", f.dir);
        put_config(&f, "");
        f.options.config_path = path;
        rule(&f, UID_OWN, DS_RULE_CALLS, 1);
        fx_start(&f);
        fx_wait_serving(&f, 0); /* a starting daemon has just read the configuration */
        pid = as(&own, waits, &f);
        usleep(50000); /* the client waits for its rate already or soon will: it must end well in both cases */
        kill(f.pid, SIGHUP);
        went_well(pid);
        unlink(path);
        fx_baseline(&f);
        fx_stop(&f);
        ds_rules_deinit(&f.config.rules);
}

/* --- addresses ---------------------------------------------------------------------------------------------------- */

/* All sessions of one user together leave as much address space as they have. */
Test(rights, addresses_are_left_for_others, .timeout = 60)
{
        FX_REQUEST(address_reserve, ADDRESS_RESERVE, AddressReserve, ADDRESS_RESERVE);
        ds_conn *conns[6];
        struct fixture f;
        uint64_t sum = 0;

        fx_init(&f);
        fx_start(&f);
        address_reserve.bytes = DS_WINDOW_MAX;
        for (size_t i = 0; i < DS_ARRAY_SIZE(conns); i++) {
                conns[i] = fx_session(&f);
                for (uint64_t n = 0; n < DS_SESSION_RESERVED_BYTES / DS_WINDOW_MAX; n++) {
                        fx_ask(conns[i], &address_reserve_r, NULL);
                        sum += fx_status(conns[i]) == 0 ? DS_WINDOW_MAX : 0;
                }
        }
        cr_assert_eq(sum, DS_WINDOW_AREA_BYTES / 4, "%llu bytes", (unsigned long long)sum);
        for (size_t i = 0; i < DS_ARRAY_SIZE(conns); i++)
                ds_conn_free(conns[i]);
        fx_baseline(&f);
        fx_stop(&f);
}

/* --- the calibration ---------------------------------------------------------------------------------------------- */

/* Number of cells in the connection's next answer. */
static size_t cells_there(ds_conn *conn)
{
        FX_REQUEST(get_calibration, GET_CALIBRATION, GetCalibration, GET_CALIBRATION);
        Detshare__Reply *reply;
        size_t n;

        fx_ask(conn, &get_calibration_r, NULL);
        reply = fx_answer(conn);
        cr_assert(reply && reply->get_calibration);
        cr_assert_str_eq(reply->get_calibration->gpu, "DetShare fake/132");
        cr_assert(reply->get_calibration->simulated && reply->get_calibration->in_memory);
        n = reply->get_calibration->n_cells;
        if (n)
                cr_assert(reply->get_calibration->cells[0]->be_blocks == 33 &&
                          reply->get_calibration->cells[0]->ls_permille == 1086 &&
                          reply->get_calibration->cells[0]->be_permille == 420);
        detshare__reply__free_unpacked(reply, NULL);
        return n;
}

/* A valid calibration is stored and sent to workers; an invalid one leaves the old one in place. */
Test(rights, a_calibration_makes_sense_or_is_refused)
{
        static const Detshare__CalibrationCell good = {
                .base = PROTOBUF_C_MESSAGE_INIT(&detshare__calibration_cell__descriptor),
                .ls_load = 1,
                .be_load = 2,
                .be_sms = 66,
                .be_blocks = 33,
                .ls_permille = 1086,
                .be_permille = 420};
        FX_REQUEST(put_calibration, PUT_CALIBRATION, PutCalibration, PUT_CALIBRATION);
        FX_REQUEST(forget_calibration, FORGET_CALIBRATION, ForgetCalibration, FORGET_CALIBRATION);
        Detshare__CalibrationCell cells[2], *pointers[257];
        struct fixture f;
        ds_conn *conn;

        fx_init(&f);
        fx_start(&f);
        fx_wait_serving(&f, 0);
        conn = fx_session(&f);
        put_calibration.cells = pointers;
        put_calibration.n_cells = 1;
        pointers[0] = &cells[0];
        pointers[1] = &cells[1];
        cells[0] = good;
        fx_ask(conn, &put_calibration_r, NULL);
        cr_assert_eq(fx_status(conn), 0);
        fx_await_log(&f, "calibration of 1\n", 1);
        for (int i = 0; i < 10; i++) {
                cells[0] = cells[1] = good;
                put_calibration.n_cells = i == 0 ? 0 : i == 1 ? 2 : 1;
                cells[0].ls_load = i == 2 ? 3 : 1;
                cells[0].be_load = i == 3 ? UINT32_MAX : 2;
                cells[0].be_sms = i == 4 ? 133 : i == 5 ? 0 : 66;
                cells[0].be_blocks = i == 6 ? 65537 : 33;
                cells[0].ls_permille = i == 7 ? 0 : i == 8 ? 1000001 : 1086;
                cells[0].be_permille = i == 9 ? 1000001 : 420;
                fx_ask(conn, &put_calibration_r, NULL);
                cr_assert_eq(fx_status(conn), DETSHARE__STATUS__BAD_PARAMETER, "case %d", i);
        }
        cr_assert_eq(cells_there(conn), 1);
        cells[0] = cells[1] = good;
        cells[1].be_blocks = 34;
        put_calibration.n_cells = 2;
        fx_ask(conn, &put_calibration_r, NULL);
        cr_assert_eq(fx_status(conn), 0);
        fx_await_log(&f, "calibration of 2\n", 1);
        cr_assert_eq(cells_there(conn), 2);
        fx_ask(conn, &forget_calibration_r, NULL);
        cr_assert_eq(fx_status(conn), 0);
        fx_await_log(&f, "calibration of 0\n", 1);
        cr_assert_eq(cells_there(conn), 0);
        /* more cells than the limit are an invalid request */
        for (size_t i = 0; i < DS_ARRAY_SIZE(pointers); i++)
                pointers[i] = &cells[0];
        put_calibration.n_cells = DS_ARRAY_SIZE(pointers);
        fx_ask(conn, &put_calibration_r, NULL);
        cr_assert_neq(fx_status(conn), 0);
        ds_conn_free(conn);
        fx_stop(&f);
}
