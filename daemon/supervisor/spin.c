/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/spin.h"

#include <stdlib.h>

#include "util/cpus.h"
#include "util/error.h"

static struct ds_spin_account *find(struct ds_spin *spin, uid_t uid)
{
        return &spin->accounts[uid % DS_SPIN_ACCOUNTS];
}

static int may(const struct ds_spin_account *account, uint64_t now_ns)
{
        return account->due_ns <= now_ns && account->paused_ns <= now_ns;
}

/* Charges the polling since the last request or answer. */
static void charge(struct ds_spin *spin, uint64_t now_ns)
{
        const uint64_t saved = DS_SPIN_SHARE * DS_SPIN_SAVED_NS, least = now_ns > saved ? now_ns - saved : 0;
        struct ds_spin_account *account = find(spin, spin->uid);

        if (now_ns > spin->since_ns)
                account->due_ns = DS_MAX(account->due_ns, least) + DS_SPIN_SHARE * (now_ns - spin->since_ns);
        spin->since_ns = now_ns;
}

/* Judges polling for a next request: whether one came. */
static void judge(struct ds_spin *spin, uint64_t now_ns, int came)
{
        struct ds_spin_account *account = find(spin, spin->uid);

        if (came) {
                account->vain -= account->vain > 0;
                return;
        }
        account->vain += 2;
        if (account->vain < DS_SPIN_VAIN_MAX)
                return;
        account->vain = 0;
        account->paused_ns = now_ns + DS_SPIN_PAUSE_NS;
}

static void idle_cb(uv_idle_t *idle)
{
        struct ds_spin *spin = idle->data;
        const uint64_t now = uv_hrtime();

        if (now < spin->until_ns)
                return;
        charge(spin, now);
        if (!spin->awaits)
                judge(spin, now, 0);
        uv_idle_stop(idle);
}

int ds_spin_init(struct ds_spin *spin, uv_loop_t *loop)
{
        int r = uv_idle_init(loop, &spin->idle);

        spin->idle.data = spin;
        return r < 0 ? ds_error_origin(r) : 0;
}

void ds_spin_deinit(struct ds_spin *spin)
{
        spin->limit_ns = 0;
        if (spin->idle.loop && !uv_is_closing((uv_handle_t *)&spin->idle))
                uv_close((uv_handle_t *)&spin->idle, NULL);
}

void ds_spin_set(struct ds_spin *spin, uint64_t spin_us, int never)
{
        spin->limit_ns = spin_us ? DS_MIN(spin_us * DS_NS_PER_US, DS_SPIN_NS) : DS_SPIN_NS;
        if (never || ds_cpus() < DS_SPIN_CPUS)
                spin->limit_ns = 0;
}

void ds_spin_after(struct ds_spin *spin, uid_t uid, uint64_t now_ns, uint64_t ns)
{
        struct ds_spin_account *account = find(spin, uid);

        if (!spin->limit_ns)
                return;
        if (uv_is_active((uv_handle_t *)&spin->idle)) {
                charge(spin, now_ns - ns);
                if (!spin->awaits)
                        judge(spin, now_ns, 1);
        }
        account->due_ns -= DS_MIN(account->due_ns, DS_SPIN_SHARE * ns);
        spin->since_ns = now_ns;
        spin->awaits = spin->asked;
        spin->asked = 0;
        if (!may(account, now_ns))
                return;
        spin->uid = uid;
        spin->until_ns = now_ns + spin->limit_ns;
        uv_idle_start(&spin->idle, idle_cb);
}

uint64_t ds_spin_ask(struct ds_spin *spin, uid_t uid, uint64_t now_ns)
{
        spin->asked = 1;
        return may(find(spin, uid), now_ns) ? spin->limit_ns : 0;
}
