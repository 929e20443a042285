/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger: a worker's reports are checked, a new worker receives exactly what the old one had, and all descriptors,
 * charges and memory are released.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/wire.h"
#include "supervisor/ledger.h"
#include "util/alloc.h"
#include "util/macro.h"

#define BASE UINT64_C(0x100000000000)
#define HALF DS_GIB(2)
#define MAX_SEEN 5000

static ds_users *users;
static ds_user *user;

static size_t count_fds(void)
{
        DIR *dir = opendir("/proc/self/fd");
        size_t n = 0;

        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

static ds_ledger *make(void)
{
        struct ds_window window = {.base = BASE, .bytes = 2 * HALF};
        struct ds_charge_limits limits;
        ds_ledger *ledger = NULL;

        for (int i = 0; i < _DS_CHARGE_MAX; i++)
                limits.user[i] = limits.root[i] = limits.total[i] = UINT64_MAX;
        cr_assert_eq(ds_users_new(&limits, &users), 0);
        cr_assert_eq(ds_user_get(users, 1000, &user), 0);
        cr_assert_eq(ds_ledger_new(&window, user, &ledger), 0);
        return ledger;
}

static void drop(ds_ledger *ledger)
{
        ds_ledger_free(ledger);
        ds_user_unref(user);
        ds_users_free(users);
}

static int add_slab(ds_ledger *ledger, uint64_t va, uint64_t bytes, int pinned)
{
        Detshare__Internal__Ledger entry = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Slab slab = DETSHARE__INTERNAL__SLAB__INIT;
        ds_cleanup(ds_closep) int fd = memfd_create("slab", MFD_CLOEXEC);
        struct ds_ledger_beside beside = {.slab_fd = &fd};

        slab.va = va;
        slab.bytes = bytes;
        slab.pinned = pinned;
        entry.slab_added = &slab;
        return ds_ledger_apply(ledger, &entry, &beside);
}

static int add_alloc(ds_ledger *ledger, uint64_t va, uint64_t bytes, int pinned)
{
        Detshare__Internal__Ledger entry = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Range range = DETSHARE__INTERNAL__RANGE__INIT;
        struct ds_ledger_beside beside = {0};

        range.va = va;
        range.bytes = bytes;
        range.pinned = pinned;
        entry.alloc_added = &range;
        return ds_ledger_apply(ledger, &entry, &beside);
}

static int add_module(ds_ledger *ledger, uint64_t id, int writable)
{
        Detshare__Internal__Ledger entry = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Module module = DETSHARE__INTERNAL__MODULE__INIT;
        ds_cleanup(ds_closep) int fd = memfd_create("image", MFD_CLOEXEC);
        struct ds_charge modules = {0}, bytes = {0};
        struct ds_ledger_beside beside = {
                .image_fd = &fd, .image_bytes = 77, .module_charge = &modules, .image_charge = &bytes};
        int r;

        cr_assert_eq(ds_charge_take(&modules, user, DS_CHARGE_MODULES, 1), 0);
        cr_assert_eq(ds_charge_take(&bytes, user, DS_CHARGE_HOST_BYTES, 77), 0);
        module.module = id;
        module.writable_globals = writable;
        entry.module_added = &module;
        r = ds_ledger_apply(ledger, &entry, &beside);
        cr_assert_eq(r == 0, fd == -1 && !modules.user, "file and charge go over together, or not at all");
        ds_charge_release(&modules);
        ds_charge_release(&bytes);
        return r;
}

static int add_stream(ds_ledger *ledger, uint32_t slot)
{
        Detshare__Internal__Ledger entry = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Stream stream = DETSHARE__INTERNAL__STREAM__INIT;
        struct ds_ledger_beside beside = {0};

        stream.stream = slot;
        stream.priority = -1;
        stream.non_blocking = 1;
        entry.stream_added = &stream;
        return ds_ledger_apply(ledger, &entry, &beside);
}

static int remove_one(ds_ledger *ledger, uint64_t slab, uint64_t alloc, uint64_t module, uint32_t stream)
{
        Detshare__Internal__Ledger entry = DETSHARE__INTERNAL__LEDGER__INIT;
        struct ds_ledger_beside beside = {0};

        entry.slab_removed = slab;
        entry.alloc_removed = alloc;
        entry.module_removed = module;
        entry.stream_removed = stream;
        return ds_ledger_apply(ledger, &entry, &beside);
}

Test(ledger, impossible_words_are_refused)
{
        size_t before = count_fds();
        ds_ledger *ledger = make();

        cr_assert_eq(add_slab(ledger, BASE - 4096, DS_MIB(64), 0), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(add_slab(ledger, BASE, 0, 0), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(add_slab(ledger, BASE, HALF + 1, 0), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(add_slab(ledger, BASE + HALF - DS_MIB(1), DS_MIB(2), 0), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(add_slab(ledger, UINT64_MAX - 4096, DS_MIB(2), 0), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(add_slab(ledger, BASE, DS_MIB(2), 1), DS_LEDGER_E_PROTOCOL, "pinned in the device half");
        cr_assert_eq(add_slab(ledger, BASE + HALF, DS_MIB(2), 0), DS_LEDGER_E_PROTOCOL, "device in the pinned half");
        cr_assert_eq(add_slab(ledger, BASE, DS_MIB(64), 0), 0);
        cr_assert_eq(add_slab(ledger, BASE + DS_MIB(63), DS_MIB(64), 0), DS_LEDGER_E_PROTOCOL, "overlap");
        cr_assert_eq(add_alloc(ledger, BASE + DS_MIB(63), DS_MIB(2), 0), DS_LEDGER_E_PROTOCOL, "reaches out of it");
        cr_assert_eq(add_alloc(ledger, BASE + DS_MIB(64), 512, 0), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(add_alloc(ledger, BASE, 512, 1), DS_LEDGER_E_PROTOCOL, "wrong kind");
        cr_assert_eq(add_alloc(ledger, BASE, 0, 0), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(add_alloc(ledger, BASE, 512, 0), 0);
        cr_assert_eq(add_alloc(ledger, BASE, 512, 0), DS_LEDGER_E_PROTOCOL, "twice");
        cr_assert_eq(remove_one(ledger, BASE, 0, 0, 0), DS_LEDGER_E_PROTOCOL, "the slab is in use");
        cr_assert_eq(remove_one(ledger, 0, BASE + 512, 0, 0), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(add_stream(ledger, 0), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(add_stream(ledger, DS_STREAMS_MAX), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(add_stream(ledger, 3), 0);
        cr_assert_eq(add_stream(ledger, 3), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(remove_one(ledger, 0, 0, 0, 4), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(remove_one(ledger, 0, 0, 9, 0), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(add_module(ledger, 9, 0), 0);
        cr_assert_eq(add_module(ledger, 9, 0), DS_LEDGER_E_PROTOCOL);
        drop(ledger);
        cr_assert_eq(count_fds(), before);
}

Test(ledger, charges_follow)
{
        ds_ledger *ledger = make();
        struct ds_ledger_sums sums;

        cr_assert_eq(add_slab(ledger, BASE, DS_MIB(64), 0), 0);
        cr_assert_eq(add_slab(ledger, BASE + HALF, DS_MIB(2), 1), 0);
        cr_assert_eq(add_alloc(ledger, BASE + 512, 1024, 0), 0);
        cr_assert_eq(add_alloc(ledger, BASE + HALF, 4096, 1), 0);
        cr_assert_eq(add_module(ledger, 1, 1), 0);
        cr_assert_eq(ds_user_usage(user, DS_CHARGE_SLABS), 2);
        cr_assert_eq(ds_user_usage(user, DS_CHARGE_DEVICE_BYTES), 1024);
        cr_assert_eq(ds_user_usage(user, DS_CHARGE_HOST_BYTES), DS_MIB(2) + 77);
        cr_assert_eq(ds_user_usage(user, DS_CHARGE_MODULES), 1);
        ds_ledger_sums(ledger, &sums);
        cr_assert_eq(sums.slab_bytes, DS_MIB(64));
        cr_assert_eq(sums.alloc_bytes, 1024);
        cr_assert(sums.writable_globals);
        cr_assert_eq(remove_one(ledger, BASE, BASE + 512, 0, 0), 0, "an allocation and its slab at once");
        cr_assert_eq(ds_user_usage(user, DS_CHARGE_SLABS), 1);
        ds_ledger_reset(ledger);
        cr_assert_eq(ds_users_charges(users), 0);
        ds_ledger_sums(ledger, &sums);
        cr_assert_eq(sums.slabs + sums.allocs + sums.modules, 0);
        drop(ledger);
}

static int lend(ds_ledger *ledger, uint32_t slab, uint64_t bytes, int added)
{
        Detshare__Internal__Ledger entry = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Lent lent = DETSHARE__INTERNAL__LENT__INIT;
        int none = -1;
        const struct ds_ledger_beside beside = {.slab_fd = &none};

        lent.slab = slab;
        lent.bytes = bytes;
        if (added)
                entry.lent_added = &lent;
        else
                entry.lent_removed = &lent;
        return ds_ledger_apply(ledger, &entry, &beside);
}

static int replayed_lent(void *data, Detshare__Internal__ToWorker *message, int fd)
{
        if (message->body_case != DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_LENT)
                return 0;
        cr_assert_eq(message->restore_lent->session, 42);
        cr_assert_eq(message->restore_lent->lent->bytes, DS_MIB(2));
        cr_assert_lt(fd, 0);
        *(uint64_t *)data |= UINT64_C(1) << message->restore_lent->lent->slab;
        return 0;
}

/* Slabs of the pool of coloured memory: charged as a whole, owned by one session each, and all reported to a new
 * worker. */
Test(ledger, slabs_that_are_lent)
{
        ds_ledger *ledger = make();
        struct ds_ledger_sums sums;
        uint64_t seen = 0;

        cr_assert_eq(lend(ledger, 0, DS_MIB(2), 1), 0);
        cr_assert_eq(lend(ledger, 63, DS_MIB(2), 1), 0);
        cr_assert_eq(lend(ledger, 63, DS_MIB(2), 1), DS_LEDGER_E_PROTOCOL, "twice");
        cr_assert_eq(lend(ledger, 64, DS_MIB(2), 1), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(lend(ledger, 5, DS_MIB(4), 1), DS_LEDGER_E_PROTOCOL, "of another size");
        cr_assert_eq(lend(ledger, 5, 0, 1), DS_LEDGER_E_PROTOCOL);
        cr_assert_eq(lend(ledger, 5, DS_MIB(2), 0), DS_LEDGER_E_PROTOCOL, "not had");
        ds_ledger_sums(ledger, &sums);
        cr_assert_eq(sums.lent, 2);
        cr_assert_eq(ds_user_usage(user, DS_CHARGE_DEVICE_BYTES), DS_MIB(4));
        cr_assert_eq(ds_ledger_replay(ledger, 42, replayed_lent, &seen), 0);
        cr_assert_eq(seen, UINT64_C(1) << 63 | 1);
        cr_assert_eq(lend(ledger, 0, DS_MIB(2), 0), 0);
        cr_assert_eq(ds_user_usage(user, DS_CHARGE_DEVICE_BYTES), DS_MIB(2));
        ds_ledger_reset(ledger);
        cr_assert_eq(ds_users_charges(users), 0);
        cr_assert_eq(lend(ledger, 7, DS_MIB(4), 1), 0);
        drop(ledger);
}

struct seen {
        size_t n_slabs, n_allocs, n_modules, n_streams, messages;
        uint64_t alloc_bytes, seqs;
};

static int replayed(void *data, Detshare__Internal__ToWorker *message, int fd)
{
        struct seen *seen = data;

        seen->messages++;
        if (message->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_SLAB) {
                const Detshare__Internal__RestoreSlab *r = message->restore_slab;

                cr_assert_eq(r->session, 42);
                cr_assert_leq(r->n_allocs, DS_LEDGER_RANGES_MAX);
                cr_assert_leq(detshare__internal__to_worker__get_packed_size(message), 256 << 10);
                seen->n_slabs += fd >= 0;
                for (size_t i = 0; i < r->n_allocs; i++) {
                        cr_assert(r->allocs[i]->va >= r->slab->va &&
                                  r->allocs[i]->va + r->allocs[i]->bytes <= r->slab->va + r->slab->bytes);
                        cr_assert_eq(r->allocs[i]->pinned, r->slab->pinned);
                        seen->alloc_bytes += r->allocs[i]->bytes;
                        seen->n_allocs++;
                }
        } else if (message->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MODULE) {
                cr_assert(fd >= 0 && message->restore_module->bytes == 77);
                seen->n_modules++;
        } else {
                cr_assert_eq(message->body_case, DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_STREAM);
                if (message->restore_stream->stream->stream)
                        cr_assert(message->restore_stream->stream->non_blocking &&
                                  message->restore_stream->stream->priority == -1);
                seen->seqs += message->restore_stream->seq;
                seen->n_streams++;
        }
        return 0;
}

/* One slab has more ranges than fit into a message, in random order; the replay reports each once. */
Test(ledger, replay_says_everything_once)
{
        struct ds_completion_page *page = calloc(1, sizeof(*page));
        ds_ledger *ledger = make();
        struct seen seen = {0};
        unsigned state = 5;

        cr_assert_eq(add_slab(ledger, BASE + DS_MIB(128), DS_MIB(64), 0), 0);
        cr_assert_eq(add_slab(ledger, BASE, DS_MIB(64), 0), 0);
        cr_assert_eq(add_slab(ledger, BASE + DS_MIB(64), DS_MIB(64), 0), 0);
        cr_assert_eq(add_slab(ledger, BASE + HALF, DS_MIB(2), 1), 0);
        for (int i = 0; i < 6000; i++) {
                uint64_t at = (uint64_t)(i * 7919 % 6000) * 1024;

                cr_assert_eq(add_alloc(ledger, BASE + at, 512, 0), 0);
        }
        cr_assert_eq(add_alloc(ledger, BASE + DS_MIB(130), DS_MIB(1), 0), 0);
        cr_assert_eq(add_alloc(ledger, BASE + HALF, DS_MIB(2), 1), 0);
        for (uint64_t id = 1; id <= 5; id++)
                cr_assert_eq(add_module(ledger, id * 1000 + (uint64_t)rand_r(&state) % 9, 0), 0);
        cr_assert_eq(add_stream(ledger, 1), 0);
        cr_assert_eq(add_stream(ledger, 511), 0);
        atomic_store(&page->stream_done[0], 1000);
        atomic_store(&page->stream_done[1], 20);
        atomic_store(&page->stream_done[511], 3);
        cr_assert_eq(ds_ledger_save_progress(ledger, page), 0);
        cr_assert_eq(ds_ledger_replay(ledger, 42, replayed, &seen), 0);
        cr_assert_eq(seen.n_slabs, 4);
        cr_assert_eq(seen.n_allocs, 6002);
        cr_assert_eq(seen.alloc_bytes, 6000 * 512 + DS_MIB(3));
        cr_assert_eq(seen.n_modules, 5);
        cr_assert_eq(seen.n_streams, 3, "two and the legacy stream");
        cr_assert_eq(seen.seqs, 1023);
        free(page);
        drop(ledger);
}

static int refuses_third(void *data, Detshare__Internal__ToWorker *message, int fd)
{
        return ++*(int *)data == 3 ? -EPIPE : 0;
}

Test(ledger, replay_stops_at_the_first_failure)
{
        ds_ledger *ledger = make();
        int n = 0;

        for (uint32_t slot = 1; slot < 10; slot++)
                cr_assert_eq(add_stream(ledger, slot), 0);
        cr_assert_eq(ds_ledger_replay(ledger, 1, refuses_third, &n), -EPIPE);
        cr_assert_eq(n, 3);
        drop(ledger);
}

/* Random reports of a worker, compared with a model of the expected content. */
Test(ledger, random_against_a_model)
{
        for (unsigned seed = 1; seed <= 10; seed++) {
                static uint8_t slab[16], alloc[16][64];
                uint64_t sum = 0;
                size_t before = count_fds(), n_slabs = 0, n_allocs = 0;
                ds_ledger *ledger = make();
                struct seen seen = {0};
                unsigned state = seed;

                memset(slab, 0, sizeof(slab));
                memset(alloc, 0, sizeof(alloc));
                for (int step = 0; step < 4000; step++) {
                        unsigned s = (unsigned)rand_r(&state) % 16, a = (unsigned)rand_r(&state) % 64, used = 0;
                        uint64_t at = BASE + s * DS_MIB(64), va = at + a * DS_MIB(1);

                        for (int i = 0; i < 64; i++)
                                used += alloc[s][i];
                        switch (rand_r(&state) % 4) {
                        case 0:
                                cr_assert_eq(add_slab(ledger, at, DS_MIB(64), 0) == 0, !slab[s], "seed %u", seed);
                                n_slabs += !slab[s];
                                slab[s] = 1;
                                break;
                        case 1:
                                cr_assert_eq(remove_one(ledger, at, 0, 0, 0) == 0, slab[s] && !used, "seed %u", seed);
                                n_slabs -= slab[s] && !used;
                                slab[s] = slab[s] && used;
                                break;
                        case 2:
                                cr_assert_eq(add_alloc(ledger, va, 4096 + a, 0) == 0, slab[s] && !alloc[s][a]);
                                if (slab[s] && !alloc[s][a]) {
                                        alloc[s][a] = 1;
                                        sum += 4096 + a;
                                        n_allocs++;
                                }
                                break;
                        default:
                                cr_assert_eq(remove_one(ledger, 0, va, 0, 0) == 0, alloc[s][a]);
                                if (alloc[s][a]) {
                                        alloc[s][a] = 0;
                                        sum -= 4096 + a;
                                        n_allocs--;
                                }
                        }
                        cr_assert_eq(ds_user_usage(user, DS_CHARGE_DEVICE_BYTES), sum);
                }
                cr_assert_eq(ds_ledger_replay(ledger, 42, replayed, &seen), 0);
                cr_assert_eq(seen.n_slabs, n_slabs);
                cr_assert_eq(seen.n_allocs, n_allocs);
                cr_assert_eq(seen.alloc_bytes, sum);
                drop(ledger);
                cr_assert_eq(count_fds(), before, "seed %u", seed);
        }
}

Test(ledger, out_of_memory_leaves_the_books_right)
{
        ds_ledger *ledger = make();
        struct ds_ledger_sums sums;

        for (int n = 0; n < 4; n++) {
                int r;

                ds_alloc_fail_after(n);
                r = add_slab(ledger, BASE, DS_MIB(64), 0);
                ds_alloc_fail_after(-1);
                ds_ledger_sums(ledger, &sums);
                cr_assert_eq(sums.slabs, r == 0 ? 1 : 0);
                cr_assert_eq(ds_user_usage(user, DS_CHARGE_SLABS), sums.slabs);
                if (r == 0)
                        break;
                cr_assert_eq(r, -ENOMEM);
        }
        cr_assert_eq(sums.slabs, 1);
        for (int n = 0; n < 4; n++) {
                ds_alloc_fail_after(n);
                (void)add_alloc(ledger, BASE + (uint64_t)n * 4096, 512, 0);
                (void)add_module(ledger, (uint64_t)n + 1, 0);
                ds_alloc_fail_after(-1);
        }
        drop(ledger);
}
