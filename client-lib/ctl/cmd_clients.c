/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl clients, and the table of clients, which `status` prints too
 */
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

enum { COLUMN_CLASS = 3, COLUMN_ERRORS = 7 };

static const struct ctl_column columns[] = {
        {"ID", 1, 0, 0},
        {"PID", 1, 0, 5},
        {"USER", 0, 0, 3},
        {"CLASS", 0, 0, 0},
        {"NAME", 0, 14, 0},
        {"MEMORY", 1, 0, 2},
        {"LAUNCHES", 1, 0, 6},
        {"ERRORS", 1, 0, 1},
        {"QUEUED", 1, 0, 0},
        {"DEVICE TIME", 1, 0, 4},
        {"CONNECTED", 1, 0, 7},
};

static const char *class_name(const struct dsc_client *c)
{
        return c->control_only ? "control" : c->is_ls ? "ls" : "be";
}

static int add_client(const struct dsc_client *c, struct ctl_table *table)
{
        char id[32], pid[32], uid[32], memory[32], launches[32], errors[32], queued[32], device[48], connected[32];
        const struct passwd *user = getpwuid(c->uid);
        snprintf(id, sizeof(id), "%" PRIu64, c->session);
        snprintf(pid, sizeof(pid), "%" PRIu32, c->pid);
        snprintf(uid, sizeof(uid), "%" PRIu32, c->uid);
        snprintf(launches, sizeof(launches), "%" PRIu64, c->launches);
        snprintf(errors, sizeof(errors), "%" PRIu64, c->errors);
        snprintf(queued, sizeof(queued), "%" PRIu32, c->queued + c->in_flight);
        snprintf(device, sizeof(device), "%.3f s", (double)c->device_ns / 1e9);
        const int r = ctl_table_row(table, (const char *const[]){id, pid, user ? user->pw_name : uid, class_name(c),
                                                   c->name, ctl_bytes(c->memory_used, memory), launches, errors, queued,
                                                   device, ctl_duration(c->connected_ns, connected)});
        ctl_table_colour(table, COLUMN_CLASS, ctl_class_colour(class_name(c)));
        ctl_table_colour(table, COLUMN_ERRORS, c->errors ? CTL_BAD : CTL_PLAIN);
        return r;
}

static int is_number(const char *text)
{
        return text[0] && strspn(text, "0123456789") == strlen(text);
}

/* Prints on stderr the numbers of the clients that have the same name. */
static void say_ambiguous(const struct dsc_client *clients, size_t n, const char *name, size_t found)
{
        char *ids = NULL;
        size_t size = 0;
        FILE *list = open_memstream(&ids, &size);
        if (!list)
                return;
        for (size_t i = 0; i < n; i++)
                if (!clients[i].control_only && !strcmp(clients[i].name, name))
                        fprintf(list, " %" PRIu64, clients[i].session);
        if (!fclose(list))
                ctl_complain("%zu clients have the name %s; give the number of one of them:%s", found, name, ids);
        free(ids);
}

static size_t find_name(const struct dsc_client *clients, size_t n, const char *name, struct dsc_client *ret)
{
        size_t found = 0;
        for (size_t i = 0; i < n; i++) {
                /* skip programs that only send requests to the daemon: they have no work to show or end */
                if (clients[i].control_only || strcmp(clients[i].name, name) != 0)
                        continue;
                *ret = clients[i];
                found++;
        }
        return found;
}

static size_t find_id(const struct dsc_client *clients, size_t n, uint64_t id, struct dsc_client *ret)
{
        for (size_t i = 0; i < n; i++) {
                if (clients[i].session != id)
                        continue;
                *ret = clients[i];
                return 1;
        }
        return 0;
}

/* Parses a client's number, such as "12". 0, or CTL_USAGE after an error message. */
static int parse_id(const char *text, uint64_t *ret)
{
        errno = 0;
        *ret = strtoull(text, NULL, 10);
        return errno ? ctl_usage("%s is not the number of a client: too large", text) : 0;
}

int ctl_find_client(dsc_session *s, const char *text, struct dsc_client *ret)
{
        struct dsc_client *clients = NULL;
        size_t n = 0;
        uint64_t id = 0;
        const int by_number = is_number(text);
        if (by_number && parse_id(text, &id))
                return CTL_USAGE;
        const int r = dsc_control_clients(s, &clients, &n);
        if (r)
                return ctl_fail(r, "cannot list the clients");
        const size_t found = by_number ? find_id(clients, n, id, ret) : find_name(clients, n, text, ret);
        if (found > 1)
                say_ambiguous(clients, n, text, found);
        else if (!found)
                ctl_complain("there is no client %s that you may see; detsharectl clients lists them", text);
        free(clients);
        return found == 1 ? 0 : found ? CTL_FAILED : CTL_NO_SUCH;
}

int ctl_find_id(dsc_session *s, const char *text, uint64_t *ret)
{
        struct dsc_client client;
        /* the daemon checks a number, and reports if the caller may not see that client */
        if (is_number(text))
                return parse_id(text, ret);
        const int code = ctl_find_client(s, text, &client);
        *ret = code ? 0 : client.session;
        return code;
}

int ctl_clients_table(const struct dsc_client *clients, size_t n, struct ctl_text *text)
{
        struct ctl_table *table = ctl_table_new(1);
        int r = 0;
        if (!table) {
                ctl_complain("out of memory");
                return CTL_FAILED;
        }
        ctl_table_columns(table, columns, sizeof(columns) / sizeof(columns[0]));
        for (size_t i = 0; i < n && !r; i++)
                r = add_client(&clients[i], table);
        if (!r && n > 0)
                r = ctl_table_draw(table, text);
        else if (!r)
                fprintf(text->file, "no clients\n");
        ctl_table_free(table);
        return r;
}

void ctl_clients_json(const struct dsc_client *clients, size_t n, struct ctl_text *text)
{
        ctl_json_begin(text, "clients", '[');
        for (size_t i = 0; i < n; i++) {
                const struct dsc_client *c = &clients[i];
                ctl_json_begin(text, NULL, '{');
                ctl_json_number(text, "id", c->session);
                ctl_json_number(text, "pid", c->pid);
                ctl_json_number(text, "uid", c->uid);
                ctl_json_string(text, "name", c->name);
                ctl_json_string(text, "class", c->is_ls ? "ls" : "be");
                ctl_json_bool(text, "control_only", c->control_only);
                ctl_json_objective(text, &c->slo);
                ctl_json_number(text, "memory_used_bytes", c->memory_used);
                ctl_json_number(text, "memory_limit_bytes", c->memory_limit);
                ctl_json_number(text, "sm_percent", c->sm_percent);
                ctl_json_number(text, "gpu_request_permille", c->gpu_request);
                ctl_json_number(text, "gpu_limit_permille", c->gpu_limit);
                ctl_json_number(text, "launches", c->launches);
                ctl_json_number(text, "completed", c->completed);
                ctl_json_number(text, "errors", c->errors);
                ctl_json_number(text, "queued", c->queued);
                ctl_json_number(text, "in_flight", c->in_flight);
                ctl_json_number(text, "device_ns", c->device_ns);
                ctl_json_number(text, "connected_ns", c->connected_ns);
                ctl_json_end(text, '}');
        }
        ctl_json_end(text, ']');
}

static int show(const struct dsc_client *clients, size_t n, int as_json)
{
        struct ctl_text text;
        int r = ctl_text_open(&text);
        if (r)
                return r;
        if (as_json) {
                ctl_json_begin(&text, NULL, '{');
                ctl_clients_json(clients, n, &text);
                ctl_json_end(&text, '}');
        } else {
                r = ctl_clients_table(clients, n, &text);
        }
        return ctl_text_close(&text, r);
}

int cmd_clients(const struct ctl_args *args)
{
        struct dsc_client *clients = NULL;
        dsc_session *s = NULL;
        size_t n = 0;
        const int as_json = ctl_given(args, "json");
        int code = ctl_open(&s);
        if (code)
                return code;
        const int r = dsc_control_clients(s, &clients, &n);
        code = r ? ctl_fail(r, "cannot list the clients") : show(clients, n, as_json);
        free(clients);
        dsc_control_close(s);
        return code;
}
