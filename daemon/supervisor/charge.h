/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charges: every resource that a client makes the daemon hold is charged to the client's uid
 *
 * A struct ds_charge is embedded in the object that it accounts for and is released with it, so no release can be
 * forgotten. When the last object is freed every account is zero, which ds_users_free() asserts. Each slot has a limit
 * per user and a limit over all users, so that one user cannot take the resources of the others.
 *
 * The account of a user also holds the state that its processes share: their limits (rules.h; processes in different
 * groups get the most generous of their limits), their request rate (rate.h), and the line in which they wait for
 * service (turns.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/log.h"

struct ds_rate;
struct ds_rights;
struct ds_turn_line;

typedef struct ds_user ds_user;
typedef struct ds_users ds_users;

/* Positive return codes of the functions below */
#define DS_CHARGE_E_USER 1  /* the user's limit is reached */
#define DS_CHARGE_E_TOTAL 2 /* the daemon's limit over all users is reached */

enum ds_charge_slot {
        DS_CHARGE_CONNECTIONS,
        DS_CHARGE_WINDOWS,
        DS_CHARGE_SLABS, /* file descriptors of device memory */
        DS_CHARGE_MODULES,
        DS_CHARGE_HOST_BYTES,   /* bytes of pinned memory and module images */
        DS_CHARGE_DEVICE_BYTES, /* bytes of device allocations */
        DS_CHARGE_ALLOCS,       /* number of allocations, device and pinned */
        DS_CHARGE_REPLIES,      /* bytes of replies that wait in the supervisor, because the client does not read */
        DS_CHARGE_FOREIGN,      /* files that the client sent and whose closing takes long */
        DS_CHARGE_CALLS,        /* requests that the worker has not answered, also those of disconnected clients */
        _DS_CHARGE_MAX,
};

/* Zero-initialised: an empty charge. */
struct ds_charge {
        ds_user *user;
        enum ds_charge_slot slot;
        uint64_t amount;
};

struct ds_charge_limits {
        uint64_t user[_DS_CHARGE_MAX];
        uint64_t root[_DS_CHARGE_MAX]; /* limits of uid 0 */
        uint64_t total[_DS_CHARGE_MAX];
};

/* Creates the accounts. Copies the limits. Returns 0 or -ENOMEM. */
int ds_users_new(const struct ds_charge_limits *limits, ds_users **ret);
/* Replaces the limits and forgets the rights of all users. Existing charges stay. */
void ds_users_set_limits(ds_users *users, const struct ds_charge_limits *limits);
/* Frees all accounts. Asserts that no charge and no reference to a user is left. NULL is allowed; returns NULL. */
ds_users *ds_users_free(ds_users *users);
/* Number of charges held now, over all users and slots. */
uint32_t ds_users_charges(const ds_users *users);

/* Returns a reference to the account of uid; creates the account if there is none. */
int ds_user_get(ds_users *users, uid_t uid, ds_user **ret);
ds_user *ds_user_ref(ds_user *user);
/* Drops a reference. NULL is allowed; returns NULL. */
ds_user *ds_user_unref(ds_user *user);
uid_t ds_user_uid(const ds_user *user);
/* Order of service between users: the user with the smallest number was served longest ago. background: the order
 * for work that no client waits for. */
uint64_t ds_user_turn(const ds_user *user, int background);
void ds_user_served(ds_user *user, int background);
uint64_t ds_user_usage(const ds_user *user, enum ds_charge_slot slot);
uint64_t ds_user_limit(const ds_user *user, enum ds_charge_slot slot);
/* Adds the rights of one process of the user. They replace the default limits and combine with those of its other
 * processes. */
void ds_user_add_rights(ds_user *user, const struct ds_rights *rights);
/* Text like " ([user 1000] memory)" for messages: the rule that set the limit; "" if no rule did. */
const char *ds_user_limit_name(const ds_user *user, enum ds_charge_slot slot, char *buffer, size_t size);
struct ds_rate *ds_user_rate(ds_user *user);
/* The line in which the user's own connections wait for service. */
struct ds_turn_line *ds_user_turn_line(ds_user *user);
/* The log budget that all connections of this user share, also future ones. */
struct ds_log_budget *ds_user_log_budget(ds_user *user);

/* Charges an amount to the user. charge must be empty. Returns 0, DS_CHARGE_E_USER or DS_CHARGE_E_TOTAL. */
int ds_charge_take(struct ds_charge *charge, ds_user *user, enum ds_charge_slot slot, uint64_t amount);
/* Charges an amount without checking the limits: for resources that exist already and were checked when they were
 * created. */
void ds_charge_force(struct ds_charge *charge, ds_user *user, enum ds_charge_slot slot, uint64_t amount);
/* Releases the amount of a charge, which is empty afterwards. An empty charge is allowed. */
void ds_charge_release(struct ds_charge *charge);
/* Moves a charge to another object. `to` must be empty; `from` is empty afterwards. */
void ds_charge_move(struct ds_charge *to, struct ds_charge *from);
/* Name of the slot for messages, like "connections". */
const char *ds_charge_name(enum ds_charge_slot slot);

static inline void ds_users_freep(ds_users **p)
{
        *p = ds_users_free(*p);
}
