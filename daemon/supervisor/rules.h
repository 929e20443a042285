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

/* Positive return codes of the functions below */
#define DS_RULES_E_TWICE 1 /* the key was already given in this file */
#define DS_RULES_E_FULL 2

#define DS_RULES_MAX 1024   /* most sections of users and groups together */
#define DS_RULES_IDS_MAX 64 /* most entries in a list of [class] */
#define DS_RULE_NAME_MAX 64
#define DS_RIGHT_NONE UINT64_MAX /* value of a right without a limit */

#define DS_RULE_FACTOR (1ull << 63) /* bit of the value of an objective: the other bits are a factor, permille */

#define DS_CLASS_BIT_BE 1u
#define DS_CLASS_BIT_LS 2u

enum ds_rule_key {
        DS_RULE_CLASSES,     /* classes that sessions may have, as DS_CLASS_BIT_* bits */
        DS_RULE_SM_PERCENT,  /* share of the SMs per session, percent */
        DS_RULE_GPU_REQUEST, /* shares of the GPU's time per session, permille (request and limit) */
        DS_RULE_GPU_LIMIT,
        DS_RULE_SLO, /* objectives of LS sessions that state none (proto/slo.h): ns, or DS_RULE_FACTOR and permille */
        DS_RULE_TTFT,
        DS_RULE_TPOT,
        /* bytes of device memory; this limit and those below apply to all sessions of the uid together */
        DS_RULE_MEMORY,
        DS_RULE_PINNED,   /* bytes of pinned memory */
        DS_RULE_SESSIONS, /* number of sessions that use the GPU */
        DS_RULE_CONNECTIONS,
        DS_RULE_CALLS, /* requests per second on the socket */
        DS_RULE_BURST, /* requests that may come at once */
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
        unsigned given;      /* keys that the section sets, as a bit set */
        unsigned file, seen; /* file: number of the file read last; seen: keys given in that file, as a bit set */
        uint64_t value[_DS_RULE_MAX];
};

/* Content of [class]: users and groups that may use both classes; every_uid, every_gid: the entry `*`. */
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
/* Sets a key of a section. from: DS_FROM_USER or DS_FROM_GROUP. file: a number that differs from that of every other
 * file. Returns 0, DS_RULES_E_TWICE, DS_RULES_E_FULL or -ENOMEM. */
int ds_rules_set(struct ds_rules *rules, enum ds_rule_from from, uint32_t id, enum ds_rule_key key, uint64_t value,
        unsigned file);
/* Determines the rights of a process. everybody: the values that apply where no section sets one. */
void ds_rules_for(const struct ds_rules *rules, const struct ds_identity *who, const struct ds_rights *everybody,
        struct ds_rights *ret);
/* Sets each right to the more generous of both: for a user with processes in different groups. */
void ds_rights_merge(struct ds_rights *rights, const struct ds_rights *other);
/* Source of the right: like "[user 1000] memory", or "the built-in limit" if the configuration does not set it. */
const char *ds_right_name(const struct ds_rights *rights, enum ds_rule_key key, char name[static DS_RULE_NAME_MAX]);
