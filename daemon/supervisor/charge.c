/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/charge.h"

#include <assert.h>
#include <stdio.h>

#include "supervisor/hash.h"
#include "supervisor/rate.h"
#include "supervisor/rules.h"
#include "supervisor/turns.h"
#include "util/alloc.h"
#include "util/error.h"

#define RATES_KEPT 256u

struct ds_user {
        ds_users *users;
        uid_t uid;
        uint32_t refs;
        uint64_t usage[_DS_CHARGE_MAX];
        /* values of users->turns when the user was served last, for a client and [1] in the background */
        uint64_t turn[2];
        int has_rights;
        struct ds_rights rights;
        struct ds_rate rate;
        struct ds_turn_line turns;
        UT_hash_handle hh;
};

struct ds_users {
        ds_user *by_uid;
        struct ds_charge_limits limits;
        uint64_t total[_DS_CHARGE_MAX];
        uint32_t charges;
        uint64_t turns;
        struct ds_log_budgets log;
        /* times at which the rate buckets of disconnected users are full again: a user that reconnects gets no full
         * bucket before */
        uint64_t full_ns[RATES_KEPT];
        /* likewise, when they may be served again beside others */
        uint64_t due_ns[RATES_KEPT];
};

int ds_users_new(const struct ds_charge_limits *limits, ds_users **ret)
{
        ds_users *users = ds_alloc0(1, sizeof(*users));

        if (!users)
                return ds_error_origin(-ENOMEM);
        users->limits = *limits;
        *ret = users;
        return 0;
}

void ds_users_set_limits(ds_users *users, const struct ds_charge_limits *limits)
{
        users->limits = *limits;
        for (ds_user *user = users->by_uid; user; user = user->hh.next)
                user->has_rights = 0;
}

ds_users *ds_users_free(ds_users *users)
{
        if (!users)
                return NULL;
        assert(users->charges == 0);
        for (int slot = 0; slot < _DS_CHARGE_MAX; slot++)
                assert(users->total[slot] == 0);
        assert(!users->by_uid);
        return ds_free(users);
}

uint32_t ds_users_charges(const ds_users *users)
{
        return users->charges;
}

int ds_user_get(ds_users *users, uid_t uid, ds_user **ret)
{
        ds_user *user = NULL;

        HASH_FIND(hh, users->by_uid, &uid, sizeof(uid), user);
        if (!user) {
                user = ds_alloc0(1, sizeof(*user));
                if (!user)
                        return ds_error_origin(-ENOMEM);
                user->users = users;
                user->uid = uid;
                /* a new user does not come before users that are already served */
                user->turn[0] = user->turn[1] = users->turns;
                ds_turn_line_init(&user->turns, uid, users->due_ns[uid % RATES_KEPT]);
                ds_rate_init(&user->rate);
                user->rate.full_ns = users->full_ns[uid % RATES_KEPT];
                HASH_ADD(hh, users->by_uid, uid, sizeof(uid), user);
                if (!ds_hash_added(user)) {
                        ds_free(user);
                        return ds_error_origin(-ENOMEM);
                }
        }
        user->refs++;
        *ret = user;
        return 0;
}

ds_user *ds_user_ref(ds_user *user)
{
        assert(user->refs > 0);
        user->refs++;
        return user;
}

ds_user *ds_user_unref(ds_user *user)
{
        if (!user)
                return NULL;
        assert(user->refs > 0);
        if (--user->refs > 0)
                return NULL;
        for (int slot = 0; slot < _DS_CHARGE_MAX; slot++)
                assert(user->usage[slot] == 0);
        ds_turn_line_deinit(&user->turns);
        ds_rate_deinit(&user->rate);
        user->users->full_ns[user->uid % RATES_KEPT] = user->rate.full_ns;
        user->users->due_ns[user->uid % RATES_KEPT] = user->turns.due_ns;
        HASH_DELETE(hh, user->users->by_uid, user);
        return ds_free(user);
}

uid_t ds_user_uid(const ds_user *user)
{
        return user->uid;
}

uint64_t ds_user_turn(const ds_user *user, int background)
{
        return user->turn[background != 0];
}

void ds_user_served(ds_user *user, int background)
{
        user->turn[background != 0] = ++user->users->turns;
}

uint64_t ds_user_usage(const ds_user *user, enum ds_charge_slot slot)
{
        return user->usage[slot];
}

/* The configuration rule that bounds the slot; _DS_RULE_MAX: no rule does. */
static enum ds_rule_key slot_rule(enum ds_charge_slot slot)
{
        if (slot == DS_CHARGE_CONNECTIONS)
                return DS_RULE_CONNECTIONS;
        if (slot == DS_CHARGE_WINDOWS)
                return DS_RULE_SESSIONS;
        if (slot == DS_CHARGE_HOST_BYTES)
                return DS_RULE_PINNED;
        return slot == DS_CHARGE_DEVICE_BYTES ? DS_RULE_MEMORY : _DS_RULE_MAX;
}

uint64_t ds_user_limit(const ds_user *user, enum ds_charge_slot slot)
{
        const struct ds_charge_limits *limits = &user->users->limits;
        enum ds_rule_key rule = slot_rule(slot);

        if (user->has_rights && rule != _DS_RULE_MAX)
                return user->rights.of[rule].value;
        return user->uid == 0 ? limits->root[slot] : limits->user[slot];
}

void ds_user_add_rights(ds_user *user, const struct ds_rights *rights)
{
        if (user->has_rights)
                ds_rights_merge(&user->rights, rights);
        else
                user->rights = *rights;
        user->has_rights = 1;
        ds_rate_set(&user->rate, user->rights.of[DS_RULE_CALLS].value, user->rights.of[DS_RULE_BURST].value);
}

const char *ds_user_limit_name(const ds_user *user, enum ds_charge_slot slot, char *buffer, size_t size)
{
        enum ds_rule_key rule = slot_rule(slot);
        char name[DS_RULE_NAME_MAX];

        buffer[0] = 0;
        if (user->has_rights && rule != _DS_RULE_MAX && user->rights.of[rule].from != DS_FROM_BUILTIN)
                snprintf(buffer, size, " (%s)", ds_right_name(&user->rights, rule, name));
        return buffer;
}

struct ds_rate *ds_user_rate(ds_user *user)
{
        return &user->rate;
}

struct ds_turn_line *ds_user_turn_line(ds_user *user)
{
        return &user->turns;
}

struct ds_log_budget *ds_user_log_budget(ds_user *user)
{
        return ds_log_budget_of(&user->users->log, (uint32_t)user->uid);
}

int ds_charge_take(struct ds_charge *charge, ds_user *user, enum ds_charge_slot slot, uint64_t amount)
{
        uint64_t used, total;

        if (__builtin_add_overflow(user->usage[slot], amount, &used) || used > ds_user_limit(user, slot))
                return DS_CHARGE_E_USER;
        if (__builtin_add_overflow(user->users->total[slot], amount, &total) || total > user->users->limits.total[slot])
                return DS_CHARGE_E_TOTAL;
        ds_charge_force(charge, user, slot, amount);
        return 0;
}

void ds_charge_force(struct ds_charge *charge, ds_user *user, enum ds_charge_slot slot, uint64_t amount)
{
        assert(!charge->user);
        assert(slot >= 0 && slot < _DS_CHARGE_MAX);
        *charge = (struct ds_charge){.user = ds_user_ref(user), .slot = slot, .amount = amount};
        user->usage[slot] += amount;
        user->users->total[slot] += amount;
        user->users->charges++;
}

void ds_charge_release(struct ds_charge *charge)
{
        ds_user *user = charge->user;

        if (!user)
                return;
        assert(user->usage[charge->slot] >= charge->amount);
        assert(user->users->total[charge->slot] >= charge->amount);
        assert(user->users->charges > 0);
        user->usage[charge->slot] -= charge->amount;
        user->users->total[charge->slot] -= charge->amount;
        user->users->charges--;
        *charge = (struct ds_charge){0};
        ds_user_unref(user);
}

void ds_charge_move(struct ds_charge *to, struct ds_charge *from)
{
        assert(!to->user);
        *to = *from;
        *from = (struct ds_charge){0};
}

const char *ds_charge_name(enum ds_charge_slot slot)
{
        switch (slot) {
        case DS_CHARGE_CONNECTIONS:
                return "connections";
        case DS_CHARGE_WINDOWS:
                return "sessions";
        case DS_CHARGE_SLABS:
                return "memory slabs";
        case DS_CHARGE_MODULES:
                return "modules";
        case DS_CHARGE_HOST_BYTES:
                return "bytes of pinned memory and module images";
        case DS_CHARGE_DEVICE_BYTES:
                return "bytes of device memory";
        case DS_CHARGE_ALLOCS:
                return "allocations";
        case DS_CHARGE_REPLIES:
                return "bytes of unread replies";
        case DS_CHARGE_FOREIGN:
                return "file descriptors that are slow to close";
        case DS_CHARGE_CALLS:
                return "open requests";
        case _DS_CHARGE_MAX:
                break;
        }
        assert(0);
        return "";
}
