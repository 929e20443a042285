/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/rules.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "util/alloc.h"
#include "util/error.h"

static const struct {
        const char *in_section, *in_limits;
} key_names[_DS_RULE_MAX] = {
        [DS_RULE_CLASSES] = {"classes", "classes"},
        [DS_RULE_SM_PERCENT] = {"sm_percent", "sm_percent"},
        [DS_RULE_GPU_REQUEST] = {"gpu_request_percent", "gpu_request_percent"},
        [DS_RULE_GPU_LIMIT] = {"gpu_limit_percent", "gpu_limit_percent"},
        [DS_RULE_SLO] = {"slo", "slo"},
        [DS_RULE_TTFT] = {"ttft", "ttft"},
        [DS_RULE_TPOT] = {"tpot", "tpot"},
        [DS_RULE_MEMORY] = {"memory", "memory_per_uid"},
        [DS_RULE_PINNED] = {"pinned", "pinned_per_uid"},
        [DS_RULE_SESSIONS] = {"sessions", "sessions_per_uid"},
        [DS_RULE_CONNECTIONS] = {"connections", "connections_per_uid"},
        [DS_RULE_CALLS] = {"calls_per_second", "calls_per_second"},
        [DS_RULE_BURST] = {"calls_burst", "calls_burst"},
};

void ds_rules_deinit(struct ds_rules *rules)
{
        ds_free(rules->rules);
        *rules = (struct ds_rules){0};
}

/* The row of the section; creates it if necessary. NULL: it failed with *ret_error. */
static struct ds_rule *rule_get(struct ds_rules *rules, enum ds_rule_from from, uint32_t id, int *ret_error)
{
        struct ds_rule *more;
        size_t capacity;

        for (size_t i = 0; i < rules->n; i++)
                if (rules->rules[i].from == from && rules->rules[i].id == id)
                        return &rules->rules[i];
        if (rules->n == DS_RULES_MAX) {
                *ret_error = DS_RULES_E_FULL;
                return NULL;
        }
        if (rules->n == rules->capacity) {
                capacity = rules->capacity ? 2 * rules->capacity : 8;
                more = ds_realloc(rules->rules, capacity, sizeof(*more));
                if (!more) {
                        *ret_error = ds_error_origin(-ENOMEM);
                        return NULL;
                }
                rules->rules = more;
                rules->capacity = capacity;
        }
        rules->rules[rules->n] = (struct ds_rule){.from = from, .id = id};
        return &rules->rules[rules->n++];
}

int ds_rules_set(struct ds_rules *rules, enum ds_rule_from from, uint32_t id, enum ds_rule_key key, uint64_t value,
        unsigned file)
{
        struct ds_rule *rule;
        int r = 0;

        assert(from == DS_FROM_USER || from == DS_FROM_GROUP);
        assert(key >= 0 && key < _DS_RULE_MAX);
        rule = rule_get(rules, from, id, &r);
        if (!rule)
                return r;
        if (rule->file != file)
                rule->seen = 0;
        if (rule->seen & 1u << key)
                return DS_RULES_E_TWICE;
        rule->file = file;
        rule->seen |= 1u << key;
        rule->given |= 1u << key;
        rule->value[key] = value;
        return 0;
}

/* --- rights of a process ------------------------------------------------------------------------------------------ */

static int in_group(const struct ds_identity *who, gid_t gid)
{
        if (who->gid == gid)
                return 1;
        for (size_t i = 0; i < who->n_groups; i++)
                if (who->groups[i] == gid)
                        return 1;
        return 0;
}

/* The more generous of two values of a key: the union of classes, otherwise the larger number. */
static uint64_t more_generous(enum ds_rule_key key, uint64_t a, uint64_t b)
{
        if (key == DS_RULE_CLASSES)
                return a | b;
        return DS_MAX(a, b);
}

static void give(struct ds_rights *rights, enum ds_rule_key key, uint64_t value, enum ds_rule_from from, uint32_t id)
{
        struct ds_granted *right = &rights->of[key];

        /* the more generous value of two groups applies; otherwise the value of the later call */
        if (right->from == from && from == DS_FROM_GROUP) {
                if (more_generous(key, right->value, value) == right->value)
                        return;
                value = more_generous(key, right->value, value);
        }
        *right = (struct ds_granted){.value = value, .from = from, .id = id};
}

static void apply_rules(
        const struct ds_rules *rules, enum ds_rule_from from, const struct ds_identity *who, struct ds_rights *rights)
{
        for (size_t i = 0; i < rules->n; i++) {
                const struct ds_rule *rule = &rules->rules[i];

                if (rule->from != from)
                        continue;
                if (from == DS_FROM_USER ? rule->id != who->uid : !in_group(who, rule->id))
                        continue;
                for (int key = 0; key < _DS_RULE_MAX; key++)
                        if (rule->given & 1u << key)
                                give(rights, (enum ds_rule_key)key, rule->value[key], from, rule->id);
        }
}

static int listed_uid(const struct ds_class_rights *ls, const struct ds_identity *who)
{
        for (size_t i = 0; i < ls->n_uids; i++)
                if (ls->uids[i] == who->uid)
                        return 1;
        return 0;
}

static const gid_t *listed_gid(const struct ds_class_rights *ls, const struct ds_identity *who)
{
        for (size_t i = 0; i < ls->n_gids; i++)
                if (in_group(who, ls->gids[i]))
                        return &ls->gids[i];
        return NULL;
}

static void allow_ls(struct ds_rights *rights, uint32_t id)
{
        struct ds_granted *classes = &rights->of[DS_RULE_CLASSES];

        *classes = (struct ds_granted){
                .value = classes->value | DS_CLASS_BIT_BE | DS_CLASS_BIT_LS, .from = DS_FROM_CLASS, .id = id};
}

void ds_rules_for(const struct ds_rules *rules, const struct ds_identity *who, const struct ds_rights *everybody,
        struct ds_rights *ret)
{
        const gid_t *gid = listed_gid(&rules->ls, who);
        struct ds_rights rights = *everybody;

        if (who->admin || rules->ls.every_uid || rules->ls.every_gid)
                allow_ls(&rights, who->uid);
        if (!who->admin)
                apply_rules(rules, DS_FROM_GROUP, who, &rights);
        if (gid)
                allow_ls(&rights, *gid);
        if (listed_uid(&rules->ls, who))
                allow_ls(&rights, who->uid);
        apply_rules(rules, DS_FROM_USER, who, &rights);
        *ret = rights;
}

void ds_rights_merge(struct ds_rights *rights, const struct ds_rights *other)
{
        for (int key = 0; key < _DS_RULE_MAX; key++) {
                struct ds_granted *mine = &rights->of[key];
                const struct ds_granted *theirs = &other->of[key];
                uint64_t value = more_generous((enum ds_rule_key)key, mine->value, theirs->value);

                if (value != mine->value) {
                        *mine = *theirs;
                        mine->value = value;
                }
        }
}

const char *ds_right_name(const struct ds_rights *rights, enum ds_rule_key key, char name[static DS_RULE_NAME_MAX])
{
        const struct ds_granted *right = &rights->of[key];

        switch (right->from) {
        case DS_FROM_BUILTIN:
                snprintf(name, DS_RULE_NAME_MAX, "the built-in limit");
                break;
        case DS_FROM_LIMITS:
                snprintf(name, DS_RULE_NAME_MAX, "[limits] %s", key_names[key].in_limits);
                break;
        case DS_FROM_CLASS:
                snprintf(name, DS_RULE_NAME_MAX, "[class]");
                break;
        case DS_FROM_GROUP:
                snprintf(name, DS_RULE_NAME_MAX, "[group %u] %s", right->id, key_names[key].in_section);
                break;
        case DS_FROM_USER:
                snprintf(name, DS_RULE_NAME_MAX, "[user %u] %s", right->id, key_names[key].in_section);
                break;
        case _DS_FROM_MAX:
                assert(0);
        }
        return name;
}
