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

#include "lut/sectors.h"
#include "proto/slo.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define DURATION_MAX 1000000u
#define STEPS_MIN 2 /* bounds of ladder_steps, as in daemon/sched/ladder.h */
#define STEPS_MAX 24
#define CALLS_MAX 1000000u
/* largest memory limit in MiB, so that the number of bytes does not overflow */
#define LIMIT_MIB_MAX (UINT64_C(1) << 40)
#define POOL_MIB_MAX 262144u /* largest pool: daemon/worker/pool.h reserves this many MiB of addresses */
#define PARAMS_TOTAL_MAX 1024u
#define SECTION_NAME_MAX 63
#define NAMES_MAX 320 /* bytes of the longest list of a section's keys */
#define SECTIONS "[daemon], [limits], [gpu], [channels], [class], [user NAME], [group NAME] and [policy NAME]"
#define BLANKS " \t\r\n\f\v"

enum section {
        SECTION_NONE, /* before the first section */
        SECTION_KEYS, /* section whose keys are rows of the table `keys` */
        SECTION_RULES,
        SECTION_POLICY,
};

struct reading {
        FILE *stream;
        const char *name;
        struct ds_config *config;
        char *message;
        size_t message_size;
        unsigned line;
        size_t bytes;
        uint64_t seen; /* keys given in this file, one bit per row of the table */
        int error;
        enum section kind;
        char section[SECTION_NAME_MAX + 1]; /* section name as written in the file */
        enum ds_rule_from from;
        uint32_t id;
};

struct key {
        const char *section, *name;
        int (*set)(struct reading *r, const char *key, const char *value, size_t offset);
        size_t offset; /* offset of the target in struct ds_config */
};

static int fail(struct reading *r, const char *fmt, ...) ds_printf(2, 3);

/* Records an error of the current line. Only the first error is kept. Returns -1. */
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

static int fail_memory(struct reading *r)
{
        r->error = ds_error_origin(-ENOMEM);
        return -1;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static int set_string(struct reading *r, const char *key, const char *value, size_t offset)
{
        char **target = (char **)((char *)r->config + offset), *copy;

        if (!*value)
                return fail(r, "%s has no value; remove the line to keep the default", key);
        if (*value == '"' || *value == '\'')
                return fail(r, "%s: %s is in quotes; write the value without quotes", key, value);
        copy = ds_strdup(value);
        if (!copy)
                return fail_memory(r);
        ds_free(*target);
        *target = copy;
        return 0;
}

static int set_policy(struct reading *r, const char *key, const char *value, size_t offset)
{
        char where[512], *copy;

        if (strlen(value) > DS_CONFIG_POLICY_MAX || strchr(value, '/'))
                return fail(r, "%s: '%s' is not a policy name; 1 to %u characters without '/' are accepted", key, value,
                        DS_CONFIG_POLICY_MAX);
        if (set_string(r, key, value, offset) < 0)
                return -1;
        snprintf(where, sizeof(where), "%s:%u: %s", r->name, r->line, key);
        copy = ds_strdup(where);
        if (!copy)
                return fail_memory(r);
        ds_free(r->config->policy_where);
        r->config->policy_where = copy;
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

static int set_in_range(struct reading *r, const char *key, const char *value, size_t offset, unsigned max)
{
        uint64_t n;

        if (parse_number(value, max, &n) < 0 || n == 0)
                return fail(r, "%s: '%s' is not a number from 1 to %u", key, value, max);
        *(uint64_t *)((char *)r->config + offset) = n;
        return 0;
}

static int set_number(struct reading *r, const char *key, const char *value, size_t offset)
{
        return set_in_range(r, key, value, offset, UINT32_MAX);
}

/* Sets a duration in microseconds or seconds, within the bounds that the worker accepts. */
static int set_duration(struct reading *r, const char *key, const char *value, size_t offset)
{
        return set_in_range(r, key, value, offset, DURATION_MAX);
}

/* Sets the polling time. 0 means no polling and overrides an earlier file. */
static int set_spin(struct reading *r, const char *key, const char *value, size_t offset)
{
        uint64_t n;

        if (parse_number(value, DURATION_MAX, &n) < 0)
                return fail(r, "%s: '%s' is not a number from 0 to %u", key, value, DURATION_MAX);
        *(uint64_t *)((char *)r->config + offset) = n;
        r->config->spin_never = n == 0;
        return 0;
}

static int set_percent(struct reading *r, const char *key, const char *value, size_t offset)
{
        return set_in_range(r, key, value, offset, 100);
}

static int parse_objective(struct reading *r, const char *key, const char *value, uint64_t *ret)
{
        uint64_t ns = 0;
        uint32_t permille = 0;

        if (!strcmp(value, "none")) {
                *ret = 0;
                return 0;
        }
        if (ds_slo_parse(value, &ns, &permille) || ns >= DS_RULE_FACTOR)
                return fail(r,
                        "%s: '%s' is not an objective: a latency such as 5ms, a factor from 1x to 100x such as 1.5x, "
                        "or "
                        "none",
                        key, value);
        *ret = permille ? DS_RULE_FACTOR | permille : ns;
        return 0;
}

static int set_objective(struct reading *r, const char *key, const char *value, size_t offset)
{
        return parse_objective(r, key, value, (uint64_t *)((char *)r->config + offset));
}

/* Sets the number of ladder steps, within the bounds that the scheduler supports. */
static int set_steps(struct reading *r, const char *key, const char *value, size_t offset)
{
        uint64_t n;

        if (parse_number(value, STEPS_MAX, &n) < 0 || n < STEPS_MIN)
                return fail(r, "%s: '%s' is not a number from %d to %d", key, value, STEPS_MIN, STEPS_MAX);
        *(uint64_t *)((char *)r->config + offset) = n;
        return 0;
}

static int set_order(struct reading *r, const char *key, const char *value, size_t offset)
{
        int by_gpc = !strcmp(value, "gpc");

        if (!by_gpc && strcmp(value, "spread") != 0)
                return fail(r, "%s: '%s' is neither spread nor gpc", key, value);
        *(uint64_t *)((char *)r->config + offset) = (uint64_t)by_gpc;
        return 0;
}

static int set_settle(struct reading *r, const char *key, const char *value, size_t offset)
{
        int never = !strcmp(value, "never");

        if (!never && strcmp(value, "auto") != 0)
                return fail(r, "%s: '%s' is neither auto nor never", key, value);
        *(uint64_t *)((char *)r->config + offset) = (uint64_t)never;
        return 0;
}

static const char *const transforms[_DS_TRANSFORM_MAX] = {
        [DS_TRANSFORM_AUTO] = "auto",
        [DS_TRANSFORM_ALWAYS] = "always",
        [DS_TRANSFORM_NEVER] = "never",
};

enum ds_transform ds_transform_find(const char *name)
{
        for (int i = DS_TRANSFORM_AUTO; i < _DS_TRANSFORM_MAX; i++)
                if (!strcmp(transforms[i], name))
                        return (enum ds_transform)i;
        return _DS_TRANSFORM_INVALID;
}

const char *ds_transform_name(enum ds_transform transform)
{
        assert(transform > DS_TRANSFORM_NOT_SAID && transform < _DS_TRANSFORM_MAX);
        return transforms[transform];
}

static int set_transform(struct reading *r, const char *key, const char *value, size_t offset)
{
        const enum ds_transform transform = ds_transform_find(value);

        if (transform < 0)
                return fail(r, "%s: '%s' is neither always nor auto nor never", key, value);
        *(uint64_t *)((char *)r->config + offset) = transform;
        return 0;
}

static int set_calls(struct reading *r, const char *key, const char *value, size_t offset)
{
        return set_in_range(r, key, value, offset, CALLS_MAX);
}

static int set_mib(struct reading *r, const char *key, const char *value, size_t offset)
{
        uint64_t n;

        if (parse_number(value, LIMIT_MIB_MAX, &n) < 0 || n == 0)
                return fail(r, "%s: '%s' is not a number of MiB from 1 to %llu", key, value,
                        (unsigned long long)LIMIT_MIB_MAX);
        *(uint64_t *)((char *)r->config + offset) = DS_MIB(n);
        return 0;
}

int ds_lookup_failed(int error)
{
        return error == ENOMEM || error == EMFILE || error == ENFILE || error == EIO || error == EINTR ||
               error == ERANGE;
}

/* Sets the size of the pool. 0 means no pool and overrides an earlier file. */
static int set_pool(struct reading *r, const char *key, const char *value, size_t offset)
{
        uint64_t n;

        if (parse_number(value, POOL_MIB_MAX, &n) < 0)
                return fail(r, "%s: '%s' is not a number of MiB from 0 to %u", key, value, POOL_MIB_MAX);
        *(uint64_t *)((char *)r->config + offset) = DS_MIB(n);
        return 0;
}

/* Sets BE's share of the channels. */
static int set_share(struct reading *r, const char *key, const char *value, size_t offset)
{
        struct ds_sectors_share share;

        if (strcmp(value, "auto") != 0 && strcmp(value, "off") != 0 && ds_sectors_share_read(value, &share))
                return fail(r, "%s: '%s' is neither auto nor off nor a number of channels nor a fraction like 1/3", key,
                        value);
        return set_string(r, key, value, offset);
}

/* The number of a user or group, given by name or as a number. */
static int find_id(struct reading *r, const char *key, const char *name, int group, uint32_t *ret)
{
        const struct passwd *pw;
        const struct group *gr;
        uint64_t id;

        if (parse_number(name, UINT32_MAX - 1, &id) < 0) {
                errno = 0;
                pw = group ? NULL : getpwnam(name);
                gr = group ? getgrnam(name) : NULL;
                if (!pw && !gr && ds_lookup_failed(errno))
                        return fail(r, "%s: '%s' cannot be looked up: %s", key, name, strerror(errno));
                if (!pw && !gr)
                        return fail(r, "%s: there is no %s '%s'; a name or a number is accepted", key,
                                group ? "group" : "user", name);
                id = pw ? pw->pw_uid : gr->gr_gid;
        }
        *ret = (uint32_t)id;
        return 0;
}

static int add_id(struct reading *r, const char *key, const char *item, int group)
{
        struct ds_class_rights *ls = &r->config->rules.ls;
        uint32_t id;

        if (!strcmp(item, "*")) {
                *(group ? &ls->every_gid : &ls->every_uid) = 1;
                return 0;
        }
        if ((group ? ls->n_gids : ls->n_uids) == DS_RULES_IDS_MAX)
                return fail(r, "%s has more than %d entries, the most accepted; '*' means everybody", key,
                        DS_RULES_IDS_MAX);
        if (find_id(r, key, item, group, &id) < 0)
                return -1;
        if (group)
                ls->gids[ls->n_gids++] = (gid_t)id;
        else
                ls->uids[ls->n_uids++] = (uid_t)id;
        return 0;
}

static int for_each_item(struct reading *r, const char *key, const char *value,
        int (*fn)(struct reading *r, const char *key, const char *item, int arg), int arg)
{
        char copy[256], *state = NULL;

        assert(strlen(value) < sizeof(copy)); /* always true: a value is shorter than a line */
        snprintf(copy, sizeof(copy), "%s", value);
        for (char *item = strtok_r(copy, ", \t", &state); item; item = strtok_r(NULL, ", \t", &state))
                if (fn(r, key, item, arg) < 0)
                        return -1;
        return 0;
}

/* Sets a list of users, replacing the list of an earlier file. */
static int set_uids(struct reading *r, const char *key, const char *value, size_t unused)
{
        r->config->rules.ls.every_uid = 0;
        r->config->rules.ls.n_uids = 0;
        return for_each_item(r, key, value, add_id, 0);
}

static int set_gids(struct reading *r, const char *key, const char *value, size_t unused)
{
        r->config->rules.ls.every_gid = 0;
        r->config->rules.ls.n_gids = 0;
        return for_each_item(r, key, value, add_id, 1);
}

static const struct key keys[] = {
        {"daemon", "policy", set_policy, offsetof(struct ds_config, policy)},
        {"daemon", "device", set_string, offsetof(struct ds_config, device)},
        {"daemon", "socket", set_string, offsetof(struct ds_config, socket)},
        {"daemon", "libcuda", set_string, offsetof(struct ds_config, libcuda)},
        {"daemon", "spin_us", set_spin, offsetof(struct ds_config, spin_us)},
        {"daemon", "ptxas", set_string, offsetof(struct ds_config, ptxas)},
        {"daemon", "state", set_string, offsetof(struct ds_config, state)},
        {"daemon", "transform", set_transform, offsetof(struct ds_config, transform)},
        {"daemon", "evict_us", set_duration, offsetof(struct ds_config, evict_us)},
        {"daemon", "graph_piece_us", set_duration, offsetof(struct ds_config, graph_piece_us)},
        {"limits", "connections", set_number, offsetof(struct ds_config, connections)},
        {"limits", "connections_per_uid", set_number, offsetof(struct ds_config, connections_per_uid)},
        {"limits", "sessions_per_uid", set_number, offsetof(struct ds_config, sessions_per_uid)},
        {"limits", "memory_per_uid", set_mib, offsetof(struct ds_config, memory_per_uid)},
        {"limits", "pinned_per_uid", set_mib, offsetof(struct ds_config, pinned_per_uid)},
        {"limits", "sm_percent", set_percent, offsetof(struct ds_config, sm_percent)},
        {"limits", "gpu_request_percent", set_percent, offsetof(struct ds_config, gpu_request_percent)},
        {"limits", "gpu_limit_percent", set_percent, offsetof(struct ds_config, gpu_limit_percent)},
        {"limits", "slo", set_objective, offsetof(struct ds_config, slo)},
        {"limits", "ttft", set_objective, offsetof(struct ds_config, ttft)},
        {"limits", "tpot", set_objective, offsetof(struct ds_config, tpot)},
        {"limits", "calls_per_second", set_calls, offsetof(struct ds_config, calls_per_second)},
        {"limits", "calls_burst", set_calls, offsetof(struct ds_config, calls_burst)},
        {"limits", "orphan_seconds", set_duration, offsetof(struct ds_config, orphan_seconds)},
        {"limits", "kernel_seconds", set_duration, offsetof(struct ds_config, kernel_seconds)},
        {"limits", "quiesce_seconds", set_duration, offsetof(struct ds_config, quiesce_seconds)},
        {"limits", "compiled_code", set_mib, offsetof(struct ds_config, compiled_code)},
        {"gpu", "ladder_steps", set_steps, offsetof(struct ds_config, ladder_steps)},
        {"gpu", "ladder_order", set_order, offsetof(struct ds_config, ladder_by_gpc)},
        {"gpu", "settle", set_settle, offsetof(struct ds_config, settle_never)},
        {"channels", "pool_mib", set_pool, offsetof(struct ds_config, pool_bytes)},
        {"channels", "be", set_share, offsetof(struct ds_config, pool_be)},
        {"channels", "tables", set_string, offsetof(struct ds_config, lut)},
        {"class", "ls_uids", set_uids, 0},
        {"class", "ls_groups", set_gids, 0},
};

/* --- sections [user NAME] and [group NAME] ------------------------------------------------------------------------ */

/* Keys of these sections. unit 0: the value is a list of classes; otherwise a number of units, or `none` where that
 * is allowed. */
static const struct rule_key {
        const char *name;
        enum ds_rule_key key;
        uint64_t unit, max;
        int may_be_none;
} rule_keys[] = {
        {"classes", DS_RULE_CLASSES, 0, 0, 0},
        {"sm_percent", DS_RULE_SM_PERCENT, 1, 100, 0},
        {"gpu_request_percent", DS_RULE_GPU_REQUEST, 10, 100, 0},
        {"gpu_limit_percent", DS_RULE_GPU_LIMIT, 10, 100, 0},
        {"slo", DS_RULE_SLO, 0, 0, 0},
        {"ttft", DS_RULE_TTFT, 0, 0, 0},
        {"tpot", DS_RULE_TPOT, 0, 0, 0},
        {"memory", DS_RULE_MEMORY, DS_MIB(1), LIMIT_MIB_MAX, 1},
        {"pinned", DS_RULE_PINNED, DS_MIB(1), LIMIT_MIB_MAX, 1},
        {"sessions", DS_RULE_SESSIONS, 1, UINT32_MAX, 1},
        {"connections", DS_RULE_CONNECTIONS, 1, UINT32_MAX, 1},
        {"calls_per_second", DS_RULE_CALLS, 1, CALLS_MAX, 1},
        {"calls_burst", DS_RULE_BURST, 1, CALLS_MAX, 0},
};

static void add_name(char list[static NAMES_MAX], const char *name)
{
        size_t n = strlen(list);

        snprintf(list + n, NAMES_MAX - n, "%s%s", n ? ", " : "", name);
}

/* Refuses the key and lists the keys of its section. */
static int fail_key(struct reading *r, const char *key)
{
        char names[NAMES_MAX] = "";

        for (size_t i = 0; r->kind == SECTION_RULES && i < DS_ARRAY_SIZE(rule_keys); i++)
                add_name(names, rule_keys[i].name);
        for (size_t i = 0; r->kind == SECTION_KEYS && i < DS_ARRAY_SIZE(keys); i++)
                if (!strcmp(keys[i].section, r->section))
                        add_name(names, keys[i].name);
        return fail(r, "there is no key %s; accepted are %s", key, names);
}

static int add_class(struct reading *r, const char *key, const char *item, int unused)
{
        return !strcmp(item, "ls") || !strcmp(item, "be")
                       ? 0
                       : fail(r, "%s: '%s' is not a class; ls and be are accepted", key, item);
}

static int parse_classes(struct reading *r, const char *key, const char *value, uint64_t *ret)
{
        if (for_each_item(r, key, value, add_class, 0) < 0)
                return -1;
        /* the value contains only the words ls and be, which for_each_item() has checked */
        *ret = (strstr(value, "ls") ? DS_CLASS_BIT_LS : 0) | (strstr(value, "be") ? DS_CLASS_BIT_BE : 0);
        return 0;
}

static int parse_rule(struct reading *r, const struct rule_key *row, const char *key, const char *value, uint64_t *ret)
{
        uint64_t n = 0;

        if (row->key == DS_RULE_CLASSES)
                return parse_classes(r, key, value, ret);
        if (row->unit == 0)
                return parse_objective(r, key, value, ret);
        if (row->may_be_none && !strcmp(value, "none")) {
                *ret = DS_RIGHT_NONE;
                return 0;
        }
        if (parse_number(value, row->max, &n) < 0 || n == 0)
                return fail(r, "%s: '%s' is not a number from 1 to %llu%s", key, value, (unsigned long long)row->max,
                        row->may_be_none ? " or 'none'" : "");
        *ret = n * row->unit;
        return 0;
}

static int set_rule(struct reading *r, const char *name, const char *key, const char *value)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(rule_keys); i++) {
                uint64_t n = 0;
                int e;

                if (strcmp(rule_keys[i].name, name))
                        continue;
                if (parse_rule(r, &rule_keys[i], key, value, &n) < 0)
                        return -1;
                e = ds_rules_set(&r->config->rules, r->from, r->id, rule_keys[i].key, n, r->config->files);
                if (e == DS_RULES_E_TWICE)
                        return fail(r, "%s is given twice in this file; remove one of the lines", key);
                if (e == DS_RULES_E_FULL)
                        return fail(r, "%s: there are more than %d sections of users and groups, the most accepted",
                                key, DS_RULES_MAX);
                return e ? fail_memory(r) : 0;
        }
        return fail_key(r, key);
}

/* --- sections [policy NAME] --------------------------------------------------------------------------------------- */

static int same_key(const char *text, const char *name)
{
        size_t n = strlen(name);

        return !strncmp(text, name, n) && text[n] == '=';
}

static void param_deinit(struct ds_config_param *param)
{
        ds_free(param->policy);
        ds_free(param->text);
        ds_free(param->where);
        *param = (struct ds_config_param){0};
}

/* The row of the parameter: that of an earlier file, or a new one. Returns NULL after an error, which r->error
 * holds. */
static struct ds_config_param *param_row(struct reading *r, const char *policy, const char *name, const char *key)
{
        struct ds_config *config = r->config;
        size_t capacity, of_policy = 0;
        void *more;

        for (size_t i = 0; i < config->n_params; i++) {
                struct ds_config_param *param = &config->params[i];

                if (strcmp(param->policy, policy))
                        continue;
                of_policy++;
                if (!same_key(param->text, name))
                        continue;
                if (param->file == config->files)
                        fail(r, "%s is given twice in this file; remove one of the lines", key);
                return r->error ? NULL : param;
        }
        if (of_policy == DS_CONFIG_PARAMS_MAX || config->n_params == PARAMS_TOTAL_MAX) {
                fail(r, "%s: too many parameters; a policy may have %u, all policies together %u", key,
                        DS_CONFIG_PARAMS_MAX, PARAMS_TOTAL_MAX);
                return NULL;
        }
        if (config->n_params == config->params_capacity) {
                capacity = config->params_capacity ? 2 * config->params_capacity : 8;
                more = ds_realloc(config->params, capacity, sizeof(config->params[0]));
                if (!more) {
                        fail_memory(r);
                        return NULL;
                }
                config->params = more;
                config->params_capacity = capacity;
        }
        config->params[config->n_params] = (struct ds_config_param){0};
        return &config->params[config->n_params];
}

static int set_param(struct reading *r, const char *name, const char *key, const char *value)
{
        const char *policy = r->section + strlen("policy ");
        char text[256], where[512];
        struct ds_config_param *row, new;

        if (!*name || !*value)
                return fail(r, "%s has no %s", key, *name ? "value" : "name");
        row = param_row(r, policy, name, key);
        if (!row)
                return -1;
        snprintf(text, sizeof(text), "%s=%s", name, value); /* cannot truncate: the text is shorter than a line */
        snprintf(where, sizeof(where), "%s:%u", r->name, r->line);
        new = (struct ds_config_param){.policy = ds_strdup(policy),
                .text = ds_strdup(text),
                .where = ds_strdup(where),
                .file = r->config->files};
        if (!new.policy || !new.text || !new.where) {
                param_deinit(&new);
                return fail_memory(r);
        }
        if (row == &r->config->params[r->config->n_params])
                r->config->n_params++;
        param_deinit(row);
        *row = new;
        return 0;
}

size_t ds_config_params(
        const struct ds_config *config, const char *policy, const struct ds_config_param *params[DS_CONFIG_PARAMS_MAX])
{
        size_t n = 0;

        for (size_t i = 0; i < config->n_params; i++)
                if (!strcmp(config->params[i].policy, policy))
                        params[n++] = &config->params[i];
        assert(n <= DS_CONFIG_PARAMS_MAX);
        return n;
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static int set_key(struct reading *r, const char *name, const char *full, const char *value)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(keys); i++) {
                if (strcmp(keys[i].section, r->section) || strcmp(keys[i].name, name))
                        continue;
                if (r->seen & UINT64_C(1) << i)
                        return fail(r, "%s is given twice in this file; remove one of the lines", full);
                r->seen |= UINT64_C(1) << i;
                return keys[i].set(r, full, value, keys[i].offset);
        }
        return fail_key(r, full);
}

/* Callback of inih for each key; returns 1 on success. inih may truncate the section name, so r->section is used
 * instead. */
static int on_key(void *user, const char *section, const char *name, const char *value)
{
        struct reading *r = user;
        char full[300];

        if (r->error)
                return 0;
        snprintf(full, sizeof(full), "[%s] %s", r->section, name);
        if (strstr(value, " #") || strstr(value, "\t#"))
                return fail(r, "%s: '#' within a value; a comment after a value begins with ';'", full) == 0;
        switch (r->kind) {
        case SECTION_NONE:
                return fail(r, "the key %s stands before the first [section]; write its section above it", name) == 0;
        case SECTION_KEYS:
                return set_key(r, name, full, value) == 0;
        case SECTION_RULES:
                return set_rule(r, name, full, value) == 0;
        case SECTION_POLICY:
                return set_param(r, name, full, value) == 0;
        }
        assert(0);
        return 0;
}

/* For "user alice" and the word "user", returns "alice". Returns NULL for a section of another kind. */
static const char *section_of(const char *name, const char *word)
{
        size_t n = strlen(word);

        return !strncmp(name, word, n) && name[n] == ' ' ? name + n + 1 : NULL;
}

static int enter_section(struct reading *r)
{
        const char *policy = section_of(r->section, "policy"), *user = section_of(r->section, "user"),
                   *group = section_of(r->section, "group"),
                   *argument = policy ? policy
                               : user ? user
                                      : group;
        char full[SECTION_NAME_MAX + 3];

        snprintf(full, sizeof(full), "[%s]", r->section);
        if (argument) {
                if (!*argument || strpbrk(argument, BLANKS "/"))
                        return fail(r, "%s: one name without '/' is accepted, as in [user alice]", full);
                r->kind = policy ? SECTION_POLICY : SECTION_RULES;
                r->from = user ? DS_FROM_USER : DS_FROM_GROUP;
                return policy ? 0 : find_id(r, full, argument, !user, &r->id);
        }
        r->kind = SECTION_KEYS;
        for (size_t i = 0; i < DS_ARRAY_SIZE(keys); i++)
                if (!strcmp(keys[i].section, r->section))
                        return 0;
        return fail(r, "there is no section %s; accepted are " SECTIONS, full);
}

/* Parses a line that begins with '['. inih would ignore text after the ']'; here it is an error. */
static int read_section(struct reading *r, const char *line)
{
        const char *end = strchr(line, ']'), *rest;

        if (!end)
                return fail(r, "the line is neither a [section] nor key=value");
        rest = end + 1 + strspn(end + 1, BLANKS);
        if (*rest && *rest != ';' && *rest != '#')
                return fail(r, "there is text after the section's name; only a comment is accepted there");
        if (end - line - 1 > SECTION_NAME_MAX)
                return fail(r, "the section's name has more than %d characters, the most accepted", SECTION_NAME_MAX);
        snprintf(r->section, sizeof(r->section), "%.*s", (int)(end - line - 1), line + 1);
        return enter_section(r);
}

static int check_line(struct reading *r, const char *line)
{
        size_t end = strcspn(line, "\r\n");

        /* a line ends with \n or \r\n; other carriage returns are errors */
        if (line[end] == '\r' && line[end + 1] != '\n' && line[end + 1])
                return fail(r, "there is a carriage return within the line; only LF or CR LF at its end is accepted");
        for (const char *c = line; c < line + end; c++)
                if ((unsigned char)*c < 0x20 && *c != '\t')
                        return fail(r,
                                "there is a control character (0x%02x) in the line; of these only tabs are accepted",
                                (unsigned)(unsigned char)*c);
        if (r->line == 1 && !strncmp(line, "\xef\xbb\xbf", 3))
                line += 3;
        if (isspace((unsigned char)line[0]) && line[strspn(line, BLANKS)])
                return fail(r, "the line begins with a blank; keys and sections begin in the first column");
        return line[0] == '[' ? read_section(r, line) : 0;
}

/* Replaces fgets() for inih: counts lines and rejects those that inih would misread. */
static char *read_line(char *line, int size, void *user)
{
        struct reading *r = user;
        size_t n;

        if (r->error || !fgets(line, size, r->stream))
                return NULL;
        r->line++;
        n = strlen(line);
        r->bytes += n;
        if ((n == 0 || line[n - 1] != '\n') && !feof(r->stream)) {
                fail(r, "the line is longer than %d characters, the most accepted, or has a NUL byte", size - 2);
                return NULL;
        }
        if (r->bytes > DS_CONFIG_BYTES_MAX) {
                fail(r, "the file is longer than %u bytes, the most accepted", DS_CONFIG_BYTES_MAX);
                return NULL;
        }
        return check_line(r, line) ? NULL : line;
}

int ds_config_read(FILE *stream, const char *name, struct ds_config *config, char *message, size_t message_size)
{
        struct reading r = {
                .stream = stream, .name = name, .config = config, .message = message, .message_size = message_size};
        int line;

        assert(message_size > 0);
        message[0] = 0;
        config->files++;
        line = ini_parse_stream(read_line, &r, on_key, &r);
        if (r.error)
                return r.error;
        if (line > 0) {
                r.line = (unsigned)line;
                fail(&r, "the line is neither a [section] nor key=value");
                return r.error;
        }
        return line < 0 ? ds_error_origin(-ENOMEM) : 0;
}

void ds_config_deinit(struct ds_config *config)
{
        for (size_t i = 0; i < config->n_params; i++)
                param_deinit(&config->params[i]);
        ds_free(config->params);
        ds_rules_deinit(&config->rules);
        ds_free(config->policy);
        ds_free(config->read);
        ds_free(config->policy_where);
        ds_free(config->device);
        ds_free(config->socket);
        ds_free(config->ptxas);
        ds_free(config->state);
        ds_free(config->pool_be);
        ds_free(config->lut);
        ds_free(config->libcuda);
        *config = (struct ds_config){0};
}
