/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/config.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <ini.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define DURATION_MAX 1000000u
#define LIMIT_MIB_MAX (UINT64_C(1) << 40) /* so that bytes do not overflow */

struct reading {
        FILE *stream;
        const char *name;
        struct ds_config *config;
        char *message;
        size_t message_size;
        unsigned line;
        uint64_t seen; /* keys given, by row of the table */
        int error;
};

struct key {
        const char *section, *name;
        int (*set)(struct reading *r, const char *key, const char *value, size_t offset);
        size_t offset; /* in struct ds_config */
};

static int fail(struct reading *r, const char *fmt, ...) ds_printf(2, 3);

/* The first error stays. */
static int fail(struct reading *r, const char *fmt, ...)
{
        va_list args;
        int n;

        if (r->error)
                return -1;
        r->error = DS_CONFIG_E_INVALID;
        n = snprintf(r->message, r->message_size, "%s:%u: ", r->name, r->line);
        if (n < 0 || (size_t)n >= r->message_size)
                return -1;
        va_start(args, fmt);
        vsnprintf(r->message + n, r->message_size - (size_t)n, fmt, args);
        va_end(args);
        return -1;
}

static int set_string(struct reading *r, const char *key, const char *value, size_t offset)
{
        char **target = (char **)((char *)r->config + offset), *copy;

        if (!*value)
                return fail(r, "%s has no value", key);
        copy = ds_strdup(value);
        if (!copy) {
                r->error = ds_error_origin(-ENOMEM);
                return -1;
        }
        ds_free(*target);
        *target = copy;
        return 0;
}

static int parse_number(const char *text, uint64_t max, uint64_t *ret)
{
        unsigned long long n;
        char *end;

        if (!isdigit((unsigned char)*text))
                return -1;
        errno = 0;
        n = strtoull(text, &end, 10);
        if (errno || *end || n > max)
                return -1;
        *ret = n;
        return 0;
}

static int set_number(struct reading *r, const char *key, const char *value, size_t offset)
{
        uint64_t n;

        if (parse_number(value, UINT32_MAX, &n) < 0 || n == 0)
                return fail(r, "%s: '%s' is not a number from 1 to %u", key, value, UINT32_MAX);
        *(uint64_t *)((char *)r->config + offset) = n;
        return 0;
}

/* What the worker takes a number of: microseconds or seconds. */
static int set_duration(struct reading *r, const char *key, const char *value, size_t offset)
{
        uint64_t n;

        if (parse_number(value, DURATION_MAX, &n) < 0 || n == 0)
                return fail(r, "%s: '%s' is not a number from 1 to %u", key, value, DURATION_MAX);
        *(uint64_t *)((char *)r->config + offset) = n;
        return 0;
}

static int set_mib(struct reading *r, const char *key, const char *value, size_t offset)
{
        uint64_t n;

        if (parse_number(value, LIMIT_MIB_MAX, &n) < 0 || n == 0)
                return fail(r, "%s: '%s' is not a number of MiB", key, value);
        *(uint64_t *)((char *)r->config + offset) = DS_MIB(n);
        return 0;
}

static int add_id(struct reading *r, const char *key, const char *item, int group)
{
        struct ds_class_rights *ls = &r->config->ls;
        const struct passwd *pw;
        const struct group *gr;
        uint64_t id;

        if (!strcmp(item, "*")) {
                ls->everybody = 1;
                return 0;
        }
        if ((group ? ls->n_gids : ls->n_uids) == DS_CONFIG_IDS_MAX)
                return fail(r, "%s: more than %d entries", key, DS_CONFIG_IDS_MAX);
        if (parse_number(item, UINT32_MAX - 1, &id) < 0) {
                pw = group ? NULL : getpwnam(item);
                gr = group ? getgrnam(item) : NULL;
                if (!pw && !gr)
                        return fail(r, "%s: there is no %s '%s'", key, group ? "group" : "user", item);
                id = pw ? pw->pw_uid : gr->gr_gid;
        }
        if (group)
                ls->gids[ls->n_gids++] = (gid_t)id;
        else
                ls->uids[ls->n_uids++] = (uid_t)id;
        return 0;
}

/* offset 1: groups, 0: users */
static int set_ids(struct reading *r, const char *key, const char *value, size_t group)
{
        char copy[256], *state = NULL;

        assert(strlen(value) < sizeof(copy)); /* shorter than a line */
        snprintf(copy, sizeof(copy), "%s", value);
        for (char *item = strtok_r(copy, ", \t", &state); item; item = strtok_r(NULL, ", \t", &state))
                if (add_id(r, key, item, (int)group) < 0)
                        return -1;
        return 0;
}

static const struct key keys[] = {
        {"daemon", "policy", set_string, offsetof(struct ds_config, policy)},
        {"daemon", "device", set_string, offsetof(struct ds_config, device)},
        {"daemon", "socket", set_string, offsetof(struct ds_config, socket)},
        {"daemon", "libcuda", set_string, offsetof(struct ds_config, libcuda)},
        {"daemon", "spin_us", set_duration, offsetof(struct ds_config, spin_us)},
        {"daemon", "ptxas", set_string, offsetof(struct ds_config, ptxas)},
        {"limits", "connections", set_number, offsetof(struct ds_config, connections)},
        {"limits", "connections_per_uid", set_number, offsetof(struct ds_config, connections_per_uid)},
        {"limits", "memory_per_uid", set_mib, offsetof(struct ds_config, memory_per_uid)},
        {"limits", "pinned_per_uid", set_mib, offsetof(struct ds_config, pinned_per_uid)},
        {"limits", "orphan_seconds", set_duration, offsetof(struct ds_config, orphan_seconds)},
        {"limits", "kernel_seconds", set_duration, offsetof(struct ds_config, kernel_seconds)},
        {"limits", "quiesce_seconds", set_duration, offsetof(struct ds_config, quiesce_seconds)},
        {"class", "ls_uids", set_ids, 0},
        {"class", "ls_groups", set_ids, 1},
};

/* inih's: 1 = fine */
static int on_key(void *user, const char *section, const char *name, const char *value)
{
        struct reading *r = user;
        char full[256];

        if (r->error)
                return 0;
        snprintf(full, sizeof(full), "[%s] %s", section, name);
        for (size_t i = 0; i < DS_ARRAY_SIZE(keys); i++) {
                if (strcmp(keys[i].section, section) || strcmp(keys[i].name, name))
                        continue;
                if (r->seen & UINT64_C(1) << i)
                        return fail(r, "%s is given twice", full) == 0;
                r->seen |= UINT64_C(1) << i;
                return keys[i].set(r, full, value, keys[i].offset) == 0;
        }
        return fail(r, "there is no key %s", full) == 0;
}

/* inih's fgets: counts lines and refuses those that inih would misread. */
static char *read_line(char *line, int size, void *user)
{
        struct reading *r = user;
        size_t n;

        if (r->error || !fgets(line, size, r->stream))
                return NULL;
        r->line++;
        n = strlen(line);
        if ((n == 0 || line[n - 1] != '\n') && !feof(r->stream)) {
                fail(r, "the line is longer than %d characters, or holds a NUL", size - 2);
                return NULL;
        }
        if (isspace((unsigned char)line[0]) && line[strspn(line, " \t\r\n\f\v")]) {
                fail(r, "the line begins with a blank");
                return NULL;
        }
        return line;
}

int ds_config_read(FILE *stream, const char *name, struct ds_config *config, char *message, size_t message_size)
{
        struct reading r = {
                .stream = stream, .name = name, .config = config, .message = message, .message_size = message_size};
        int line;

        assert(message_size > 0);
        message[0] = 0;
        line = ini_parse_stream(read_line, &r, on_key, &r);
        if (r.error)
                return r.error;
        if (line > 0) {
                r.line = (unsigned)line;
                fail(&r, "neither a [section] nor key=value");
                return r.error;
        }
        return line < 0 ? ds_error_origin(-ENOMEM) : 0;
}

int ds_config_load(const char *path, struct ds_config *config, char *message, size_t message_size)
{
        FILE *stream = fopen(path, "re");
        int r;

        if (!stream) {
                snprintf(message, message_size, "%s: %s", path, strerror(errno));
                return DS_CONFIG_E_INVALID;
        }
        r = ds_config_read(stream, path, config, message, message_size);
        if (!r && ferror(stream)) {
                snprintf(message, message_size, "%s: it cannot be read, or is a directory", path);
                r = DS_CONFIG_E_INVALID;
        }
        fclose(stream);
        return r;
}

void ds_config_deinit(struct ds_config *config)
{
        ds_free(config->policy);
        ds_free(config->device);
        ds_free(config->socket);
        ds_free(config->ptxas);
        ds_free(config->libcuda);
        *config = (struct ds_config){0};
}
