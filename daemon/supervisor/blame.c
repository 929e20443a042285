/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/blame.h"

#include <assert.h>
#include <stddef.h>

#define FAULT 256u

static const struct ds_blame_user *find(const struct ds_blame *blame, uid_t uid)
{
        for (size_t i = 0; i < DS_BLAME_USERS; i++)
                if (blame->users[i].last_ns && blame->users[i].uid == uid)
                        return &blame->users[i];
        return NULL;
}

/* The entry of a user. If all entries are in use, the one whose last fault is oldest is reused for this user. */
static struct ds_blame_user *find_or_make(struct ds_blame *blame, uid_t uid)
{
        struct ds_blame_user *user = (struct ds_blame_user *)find(blame, uid);

        if (user)
                return user;
        user = &blame->users[0];
        for (size_t i = 1; i < DS_BLAME_USERS; i++)
                if (blame->users[i].last_ns < user->last_ns)
                        user = &blame->users[i];
        *user = (struct ds_blame_user){.uid = uid};
        return user;
}

void ds_blame_add(struct ds_blame *blame, uid_t uid, unsigned of, uint64_t now_ns)
{
        struct ds_blame_user *user;
        uint64_t leaked, over, ms;

        assert(of > 0);
        assert(now_ns > 0);
        if (uid == 0)
                return;
        user = find_or_make(blame, uid);
        leaked = (now_ns - user->last_ns) / (DS_BLAME_LEAK_NS / FAULT);
        user->level = (user->level > leaked ? user->level - leaked : 0) + FAULT / DS_MIN(of, FAULT);
        user->last_ns = now_ns;
        if (user->level <= DS_BLAME_FREE * FAULT)
                return;
        over = (user->level - DS_BLAME_FREE * FAULT - 1) / FAULT;
        ms = over < 16 ? (uint64_t)DS_BLAME_FIRST_MS << over : DS_BLAME_MAX_MS;
        user->until_ns = now_ns + DS_MIN(ms, (uint64_t)DS_BLAME_MAX_MS) * DS_NS_PER_MS;
        /* limits the count, so that even a burst of faults is forgotten soon after the longest wait */
        user->level = DS_MIN(user->level, (uint64_t)3 * DS_BLAME_FREE * FAULT);
}

uint64_t ds_blame_wait_ms(const struct ds_blame *blame, uid_t uid, uint64_t now_ns)
{
        const struct ds_blame_user *user = find(blame, uid);

        if (!user || user->until_ns <= now_ns)
                return 0;
        return (user->until_ns - now_ns + DS_NS_PER_MS - 1) / DS_NS_PER_MS;
}
