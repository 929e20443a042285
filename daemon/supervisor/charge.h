/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charges: everything a client makes the daemon hold is paid for by its uid
 *
 * A struct ds_charge is embedded in the object it pays for and given back with it, so that no release can be
 * forgotten: when the last object is gone every account is at zero, which ds_users_free() asserts. What a user may
 * hold is bounded per user and over all users, so that one user cannot take what the others need.
 *
 * The account of a user is also where its processes meet: what they may have together (rules.h; processes in different
 * groups have the more generous of their rights), how fast they may ask (rate.h), and where they wait to be served
 * (turns.h).
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

/* Contract codes */
#define DS_CHARGE_E_USER 1  /* the user's limit is reached */
#define DS_CHARGE_E_TOTAL 2 /* the daemon's limit over all users is reached */

enum ds_charge_slot {
        DS_CHARGE_CONNECTIONS,
        DS_CHARGE_WINDOWS,
        DS_CHARGE_SLABS, /* file descriptors of memory */
        DS_CHARGE_MODULES,
        DS_CHARGE_HOST_BYTES,   /* pinned memory and module images */
        DS_CHARGE_DEVICE_BYTES, /* allocations */
        DS_CHARGE_ALLOCS,       /* how many they are, device and pinned */
        DS_CHARGE_REPLIES,      /* bytes of replies that it does not read */
        DS_CHARGE_FOREIGN,      /* descriptors that it sent and that take long to close */
        DS_CHARGE_CALLS,        /* requests that the worker has not answered, also of clients that have gone */
        _DS_CHARGE_MAX,
};

/* Zero-initialised: pays for nothing. */
struct ds_charge {
        ds_user *user;
        enum ds_charge_slot slot;
        uint64_t amount;
};

struct ds_charge_limits {
        uint64_t user[_DS_CHARGE_MAX];
        uint64_t root[_DS_CHARGE_MAX]; /* uid 0 */
        uint64_t total[_DS_CHARGE_MAX];
};

/* limits are copied. */
int ds_users_new(const struct ds_charge_limits *limits, ds_users **ret);
/* Other limits, and no user's rights are known any more. What is charged stays charged. */
void ds_users_set_limits(ds_users *users, const struct ds_charge_limits *limits);
/* Asserts that nothing is charged and no user is referenced. NULL is fine; returns NULL. */
ds_users *ds_users_free(ds_users *users);
/* Objects charged now, over all users and slots. */
uint32_t ds_users_charges(const ds_users *users);

/* A reference to the account of uid, made when it is new. */
int ds_user_get(ds_users *users, uid_t uid, ds_user **ret);
ds_user *ds_user_ref(ds_user *user);
/* NULL is fine; returns NULL. */
ds_user *ds_user_unref(ds_user *user);
uid_t ds_user_uid(const ds_user *user);
/* Users take turns: who was served longest ago has the smallest number. background: of what nobody waits for. */
uint64_t ds_user_turn(const ds_user *user, int background);
void ds_user_served(ds_user *user, int background);
uint64_t ds_user_usage(const ds_user *user, enum ds_charge_slot slot);
uint64_t ds_user_limit(const ds_user *user, enum ds_charge_slot slot);
/* A process of the user has these rights: they hold instead of the limits, with those of its other processes. */
void ds_user_add_rights(ds_user *user, const struct ds_rights *rights);
/* " ([user 1000] memory)", for messages; "" when no rule has set that limit. */
const char *ds_user_limit_name(const ds_user *user, enum ds_charge_slot slot, char *buffer, size_t size);
struct ds_rate *ds_user_rate(ds_user *user);
/* Where its connections wait for their turn to be served. */
struct ds_turn_line *ds_user_turn_line(ds_user *user);
/* For lines said on behalf of this user: one budget for all its connections, also those to come. */
struct ds_log_budget *ds_user_log_budget(ds_user *user);

/* charge must be empty. 0, USER or TOTAL. */
int ds_charge_take(struct ds_charge *charge, ds_user *user, enum ds_charge_slot slot, uint64_t amount);
/* As ds_charge_take without a limit: for what exists already and was checked before it came to be. */
void ds_charge_force(struct ds_charge *charge, ds_user *user, enum ds_charge_slot slot, uint64_t amount);
/* Empties charge; an empty one is fine. */
void ds_charge_release(struct ds_charge *charge);
/* to must be empty; from is empty afterwards. */
void ds_charge_move(struct ds_charge *to, struct ds_charge *from);
/* "connections", for messages. */
const char *ds_charge_name(enum ds_charge_slot slot);

static inline void ds_users_freep(ds_users **p)
{
        *p = ds_users_free(*p);
}
