/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kept.h"

#include <pthread.h>
#include <string.h>

#include "cuda/context.h"

#define KEPT_MAX 7u /* one word of the ring's header is left for a chunk of the small allocations */
#define KEPT_LEAST (2ull << 20)
#define WASTE_PART 8 /* part of an allocation that may be left over */

struct kept {
        uint64_t base, size;
        uint64_t offer; /* dsc_mem_offer() */
};

/* Taken after the pools' lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept list[KEPT_MAX]; /* oldest first */
static uint32_t n_kept;

static void forget(uint32_t at)
{
        memmove(&list[at], &list[at + 1], (--n_kept - at) * sizeof(list[0]));
}

/* Forgets what the daemon has taken. Returns the bytes of the rest. */
static uint64_t sweep(void)
{
        uint64_t bytes = 0;

        for (uint32_t i = 0; i < n_kept;) {
                if (dsc_mem_offered(dcu.session, list[i].offer))
                        bytes += list[i++].size;
                else
                        forget(i);
        }
        return bytes;
}

/* Returns the oldest allocations until one of `bytes` fits. */
static void make_room(uint64_t bytes, uint64_t most)
{
        uint64_t sum = sweep();

        while (n_kept && (n_kept == KEPT_MAX || sum + bytes > most)) {
                sum -= list[0].size;
                if (dsc_mem_withdraw(dcu.session, list[0].offer))
                        (void)dsc_mem_free_later(dcu.session, list[0].base);
                forget(0);
        }
}

int dcu_kept_wants(uint64_t bytes)
{
        return bytes >= KEPT_LEAST && bytes <= dsc_mem_offer_most(dcu.session);
}

int dcu_kept_put(uint64_t address)
{
        uint64_t most = dsc_mem_offer_most(dcu.session), base, size, offer;

        if (!dsc_lookup(dcu.session, address, &base, &size) || base != address || size < KEPT_LEAST || size > most)
                return 0;
        pthread_mutex_lock(&lock);
        make_room(size, most);
        offer = dsc_mem_offer(dcu.session, address);
        if (offer)
                list[n_kept++] = (struct kept){address, size, offer};
        pthread_mutex_unlock(&lock);
        return offer != 0;
}

/* Index of the smallest allocation that fits; KEPT_MAX: none does. */
static uint32_t fitting(uint64_t bytes)
{
        uint32_t best = KEPT_MAX;

        for (uint32_t i = 0; i < n_kept; i++) {
                if (list[i].size < bytes || list[i].size - bytes > list[i].size / WASTE_PART)
                        continue;
                if (best == KEPT_MAX || list[i].size < list[best].size)
                        best = i;
        }
        return best;
}

int dcu_kept_take(uint64_t bytes, uint64_t *ret)
{
        uint32_t at;
        int found = 0;

        if (bytes < KEPT_LEAST)
                return 0;
        pthread_mutex_lock(&lock);
        while (!found && (at = fitting(bytes)) < KEPT_MAX) {
                *ret = list[at].base;
                found = dsc_mem_withdraw(dcu.session, list[at].offer);
                forget(at);
        }
        pthread_mutex_unlock(&lock);
        return found;
}

void dcu_kept_reset(void)
{
        pthread_mutex_lock(&lock);
        n_kept = 0;
        pthread_mutex_unlock(&lock);
}
