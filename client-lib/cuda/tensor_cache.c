/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/tensor_cache.h"

#include <pthread.h>
#include <string.h>

struct entry {
        uint64_t hash, used; /* time of the last use; 0: empty entry */
        struct dcu_tensor_key key;
        uint8_t map[DSC_TENSOR_MAP_BYTES];
};

_Static_assert(sizeof(struct dcu_tensor_key) % sizeof(uint64_t) == 0, "a key is hashed by words");
_Static_assert(sizeof(struct dcu_tensor_key) == sizeof(void *) + 11 * 8 + 20 * 4 + 12 * 4 + DSC_TENSOR_MAP_BYTES,
        "a key has no holes: it is compared as bytes");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry sets[DCU_TENSOR_CACHE_SETS][DCU_TENSOR_CACHE_WAYS];
static uint64_t uses;

/* Copies n elements of an array, unless it is NULL, and sets its bit in `given`. */
#define TAKE(to, from, array, bit, n)                                             \
        do {                                                                      \
                if (!(from)->array)                                               \
                        break;                                                    \
                (to)->given |= 1u << (bit);                                       \
                memcpy((to)->array, (from)->array, (n) * sizeof((to)->array[0])); \
        } while (0)

int dcu_tensor_key(const dsc_session *session, const struct dsc_tensor_map *ask,
        const uint8_t map[DSC_TENSOR_MAP_BYTES], struct dcu_tensor_key *ret)
{
        const size_t rank = ask->rank, between = rank > 2 ? rank - 2 : 0;
        const size_t corners = ask->kind == DSC_TENSOR_MAP_IM2COL_WIDE ? 1 : between;

        memset(ret, 0, sizeof(*ret));
        if (rank > DSC_TENSOR_RANK_MAX)
                return 0;
        ret->session = session;
        ret->address = ask->address;
        ret->kind = ask->kind;
        ret->data_type = ask->data_type;
        ret->rank = ask->rank;
        ret->channels = ask->channels;
        ret->pixels = ask->pixels;
        ret->interleave = ask->interleave;
        ret->mode = ask->mode;
        ret->swizzle = ask->swizzle;
        ret->promotion = ask->promotion;
        ret->fill = ask->fill;
        TAKE(ret, ask, dims, 0, rank);
        TAKE(ret, ask, strides, 1, rank ? rank - 1 : 0);
        TAKE(ret, ask, box, 2, rank);
        TAKE(ret, ask, steps, 3, rank);
        TAKE(ret, ask, lower, 4, corners);
        TAKE(ret, ask, upper, 5, corners);
        if (ask->kind == DSC_TENSOR_MAP_REPLACE)
                memcpy(ret->map, map, sizeof(ret->map));
        return 1;
}

/* Returns a hash of the key: multiplies and folds it word by word. */
static uint64_t hash_of(const struct dcu_tensor_key *key)
{
        const uint8_t *bytes = (const uint8_t *)key;
        uint64_t hash = sizeof(*key);

        for (size_t i = 0; i < sizeof(*key); i += sizeof(uint64_t)) {
                uint64_t word;

                memcpy(&word, bytes + i, sizeof(word));
                hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
                hash ^= hash >> 29;
        }
        return hash;
}

static struct entry *find(const struct dcu_tensor_key *key, uint64_t hash)
{
        struct entry *set = sets[hash % DCU_TENSOR_CACHE_SETS];

        for (unsigned i = 0; i < DCU_TENSOR_CACHE_WAYS; i++)
                if (set[i].used && set[i].hash == hash && memcmp(&set[i].key, key, sizeof(*key)) == 0)
                        return &set[i];
        return NULL;
}

int dcu_tensor_cache_find(const struct dcu_tensor_key *key, uint8_t ret_map[DSC_TENSOR_MAP_BYTES])
{
        const uint64_t hash = hash_of(key);
        struct entry *entry;

        pthread_mutex_lock(&lock);
        entry = find(key, hash);
        if (entry) {
                entry->used = ++uses;
                memcpy(ret_map, entry->map, sizeof(entry->map));
        }
        pthread_mutex_unlock(&lock);
        return entry != NULL;
}

void dcu_tensor_cache_put(const struct dcu_tensor_key *key, const uint8_t map[DSC_TENSOR_MAP_BYTES])
{
        const uint64_t hash = hash_of(key);
        struct entry *set = sets[hash % DCU_TENSOR_CACHE_SETS], *oldest = set;

        pthread_mutex_lock(&lock);
        for (unsigned i = 1; i < DCU_TENSOR_CACHE_WAYS; i++)
                if (set[i].used < oldest->used)
                        oldest = &set[i];
        /* another thread may have stored the same map meanwhile */
        if (!find(key, hash)) {
                *oldest = (struct entry){.hash = hash, .used = ++uses, .key = *key};
                memcpy(oldest->map, map, sizeof(oldest->map));
        }
        pthread_mutex_unlock(&lock);
}
