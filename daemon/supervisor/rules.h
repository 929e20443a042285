/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules: the resources and classes that a user may have
 *
 * The configuration has values for all users ([limits]), for groups and for users. The rights of a process are
 * determined per key: the value of its user's section; else the most generous value of its groups' sections; else the
 * value for all users. Every right records its source, so that a refusal can name the line to change.
 *
 * An administrator of the daemon (uid 0, the daemon's own user, the admin group) may use every class and is not bound
 * by the sections of groups; a section of that user does bind it.
 *
 * The short form [class] lists users and groups that may use both classes. A section of the same rank has precedence
 * over it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/macro.h"

/* Contract codes */
#define DS_RULES_E_TWICE 1 /* the key was already given in this file */
#define DS_RULES_E_FULL 2

#define DS_RULES_MAX 1024   /* most sections of users and groups */
#define DS_RULES_IDS_MAX 64 /* most entries in a list of [class] */
#define DS_RULE_NAME_MAX 64
#define DS_RIGHT_NONE UINT64_MAX /* no limit */

#define DS_CLASS_BIT_BE 1u
#define DS_CLASS_BIT_LS 2u

enum ds_rule_key {
        DS_RULE_CLASSES,     /* set of DS_CLASS_BIT_* */
        DS_RULE_SM_PERCENT,  /* per session */
        DS_RULE_GPU_REQUEST, /* per session: permille of the GPU's time; so is the next */
        DS_RULE_GPU_LIMIT,
        DS_RULE_MEMORY,   /* bytes; this and the following: sum over the uid's sessions */
        DS_RULE_PINNED,   /* bytes */
        DS_RULE_SESSIONS, /* sessions that use the GPU */
        DS_RULE_CONNECTIONS,
        DS_RULE_CALLS, /* requests on the socket, per second */
        DS_RULE_BURST, /* requests at once */
        _DS_RULE_MAX,
};

enum ds_rule_from {
        DS_FROM_BUILTIN,
        DS_FROM_LIMITS,
        DS_FROM_CLASS, /* the short form [class] */
        DS_FROM_GROUP,
        DS_FROM_USER,
        _DS_FROM_MAX,
};

struct ds_granted {
        uint64_t value;
        enum ds_rule_from from;
        uint32_t id; /* id of the user or group */
};

struct ds_rights {
        struct ds_granted of[_DS_RULE_MAX];
};

/* A section of a user or group. */
struct ds_rule {
        enum ds_rule_from from;
        uint32_t id;
        unsigned given;      /* keys that are set, one bit each */
        unsigned file, seen; /* the file read last, and the keys given in it, one bit each */
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

/* Credentials of a process, from the kernel. */
struct ds_identity {
        uid_t uid;
        gid_t gid;
        size_t n_groups;
        const gid_t *groups;
        int admin;
};

void ds_rules_deinit(struct ds_rules *rules);
/* from: DS_FROM_USER or DS_FROM_GROUP. file: a different number for each file. 0, DS_RULES_E_TWICE, DS_RULES_E_FULL
 * or -ENOMEM. */
int ds_rules_set(struct ds_rules *rules, enum ds_rule_from from, uint32_t id, enum ds_rule_key key, uint64_t value,
        unsigned file);
/* everybody: the values that apply without a rule. */
void ds_rules_for(const struct ds_rules *rules, const struct ds_identity *who, const struct ds_rights *everybody,
        struct ds_rights *ret);
/* Sets each right to the more generous of both: for a user with processes in different groups. */
void ds_rights_merge(struct ds_rights *rights, const struct ds_rights *other);
/* Source of the right: like "[user 1000] memory", or "the built-in limit" if the configuration does not set it. */
const char *ds_right_name(const struct ds_rights *rights, enum ds_rule_key key, char name[static DS_RULE_NAME_MAX]);
