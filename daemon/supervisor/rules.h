/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules: what a user may have
 *
 * The configuration gives numbers to everybody ([limits]), to groups and to users. What a process may have is found key
 * by key: what its user's section says; else the most generous of what the sections of its groups say; else what
 * holds for everybody. Every right remembers where it comes from, so that a refusal can name the line to change.
 *
 * Who administers the daemon (uid 0, the daemon's own user, the admin group) may use every class and is not bound by
 * the sections of groups; a section of that very user binds it like anybody.
 *
 * The short form [class] is a list of users and of groups with both classes. It stands behind a section of the same
 * rank that says something else.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/macro.h"

/* Contract codes */
#define DS_RULES_E_TWICE 1 /* the key was given already in this file */
#define DS_RULES_E_FULL 2

#define DS_RULES_MAX 1024   /* sections of users and groups */
#define DS_RULES_IDS_MAX 64 /* of one list of [class] */
#define DS_RULE_NAME_MAX 64
#define DS_RIGHT_NONE UINT64_MAX /* no limit */

#define DS_CLASS_BIT_BE 1u
#define DS_CLASS_BIT_LS 2u

enum ds_rule_key {
        DS_RULE_CLASSES,     /* DS_CLASS_BIT_ */
        DS_RULE_SM_PERCENT,  /* of one session */
        DS_RULE_GPU_REQUEST, /* thousandths of the GPU's time, of one session; so is the next */
        DS_RULE_GPU_LIMIT,
        DS_RULE_MEMORY,   /* bytes, of all sessions of the uid; so are the rest */
        DS_RULE_PINNED,   /* bytes */
        DS_RULE_SESSIONS, /* that do GPU work */
        DS_RULE_CONNECTIONS,
        DS_RULE_CALLS, /* requests on the socket, per second */
        DS_RULE_BURST, /* of them, at once */
        _DS_RULE_MAX,
};

enum ds_rule_from {
        DS_FROM_BUILTIN,
        DS_FROM_LIMITS,
        DS_FROM_CLASS, /* the short form */
        DS_FROM_GROUP,
        DS_FROM_USER,
        _DS_FROM_MAX,
};

struct ds_granted {
        uint64_t value;
        enum ds_rule_from from;
        uint32_t id; /* of the user or group */
};

struct ds_rights {
        struct ds_granted of[_DS_RULE_MAX];
};

/* A section of a user or group. */
struct ds_rule {
        enum ds_rule_from from;
        uint32_t id;
        unsigned given;      /* bits of keys */
        unsigned file, seen; /* keys given in the file read last */
        uint64_t value[_DS_RULE_MAX];
};

/* [class]: `*` is everybody. */
struct ds_class_rights {
        int every_uid, every_gid;
        size_t n_uids, n_gids;
        uid_t uids[DS_RULES_IDS_MAX];
        gid_t gids[DS_RULES_IDS_MAX];
};

/* Zero-initialised: no rules. */
struct ds_rules {
        struct ds_rule *rules;
        size_t n, capacity;
        struct ds_class_rights ls;
};

/* A process, as the kernel says who it is. */
struct ds_identity {
        uid_t uid;
        gid_t gid;
        size_t n_groups;
        const gid_t *groups;
        int admin;
};

void ds_rules_deinit(struct ds_rules *rules);
/* from: USER or GROUP. file: a number that is another for each file. 0, TWICE, FULL or -ENOMEM. */
int ds_rules_set(struct ds_rules *rules, enum ds_rule_from from, uint32_t id, enum ds_rule_key key, uint64_t value,
        unsigned file);
/* everybody: what holds where no rule says something else. */
void ds_rules_for(const struct ds_rules *rules, const struct ds_identity *who, const struct ds_rights *everybody,
        struct ds_rights *ret);
/* Each right as generous as the more generous of both: for a user with processes in different groups. */
void ds_rights_merge(struct ds_rights *rights, const struct ds_rights *other);
/* "[user 1000] memory"; "the built-in limit" where the configuration is silent. */
const char *ds_right_name(const struct ds_rights *rights, enum ds_rule_key key, char name[static DS_RULE_NAME_MAX]);
