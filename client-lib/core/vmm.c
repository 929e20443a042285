/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory without an address, reserved addresses without memory, and sharing of memory between sessions
 *
 * Address ranges outside of the window come from the daemon, so that no other session has them, and are reserved in
 * this process too, so that nothing else is mapped there. libcuda keeps track of which ranges hold memory, and the
 * daemon checks it; this file only keeps the list of ranges to unmap with the session.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/internal.h"

#define PLACES_MAX 4u /* most address ranges to try, because other mappings of the process may lie in a range */

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct place {
        uint64_t base, bytes;
};

static bool hold(const struct place *place)
{
        void *want = (void *)(uintptr_t)place->base;
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
        void *p = mmap(want, place->bytes, PROT_NONE, flags, -1, 0);
        if (p != MAP_FAILED && p != want) { /* a kernel before 4.17 ignores MAP_FIXED_NOREPLACE */
                munmap(p, place->bytes);
                return false;
        }
        return p == want;
}

static int ask(dsc_session *s, uint64_t bytes, struct place *ret)
{
        Detshare__AddressReserve reserve = DETSHARE__ADDRESS_RESERVE__INIT;
        Detshare__Request request = DSC__REQUEST(ADDRESS_RESERVE, address_reserve, &reserve);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        reserve.bytes = bytes;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_ADDRESS_RESERVE, &answer);
        if (r)
                return r;
        *ret = (struct place){answer.reply->address_reserve->address, answer.reply->address_reserve->bytes};
        dsc__answer_clear(&answer);
        if (ret->bytes >= bytes && ret->base && ret->base % (1u << 21) == 0 && ret->base <= UINT64_MAX - ret->bytes)
                return 0;
        dsc__message("the daemon offers an invalid range of addresses");
        return DETSHARE__STATUS__INTERNAL;
}

static int give_back(dsc_session *s, uint64_t base)
{
        Detshare__AddressFree address_free = DETSHARE__ADDRESS_FREE__INIT;
        Detshare__Request request = DSC__REQUEST(ADDRESS_FREE, address_free, &address_free);
        address_free.address = base;
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

/* Adds the range to the list that is unmapped when the session ends. False: the list is full. */
static bool note(dsc_session *s, const struct place *place)
{
        struct dsc__memory *m = &s->memory;
        bool noted = false;
        pthread_rwlock_wrlock(&m->table);
        for (uint32_t i = 0; i < DSC__RESERVED_MAX && !noted; i++)
                if (!m->reserved[i].bytes) {
                        m->reserved[i].base = place->base;
                        m->reserved[i].bytes = place->bytes;
                        noted = true;
                }
        pthread_rwlock_unlock(&m->table);
        return noted;
}

static bool forget(dsc_session *s, uint64_t base, uint64_t bytes)
{
        struct dsc__memory *m = &s->memory;
        bool known = false;
        pthread_rwlock_wrlock(&m->table);
        for (uint32_t i = 0; i < DSC__RESERVED_MAX && !known; i++)
                if (m->reserved[i].bytes == bytes && m->reserved[i].base == base) {
                        m->reserved[i].bytes = 0;
                        known = true;
                }
        pthread_rwlock_unlock(&m->table);
        return known;
}

void dsc__reserved_drop(dsc_session *s, bool in_daemon)
{
        struct dsc__memory *m = &s->memory;
        for (uint32_t i = 0; i < DSC__RESERVED_MAX; i++) {
                const struct place place = {m->reserved[i].base, m->reserved[i].bytes};
                if (!place.bytes)
                        continue;
                munmap((void *)(uintptr_t)place.base, place.bytes);
                if (forget(s, place.base, place.bytes) && in_daemon)
                        give_back(s, place.base);
        }
}

static int reserve_locked(dsc_session *s, uint64_t bytes, struct place *ret)
{
        struct place places[PLACES_MAX];
        uint32_t n = 0;
        int r;
        bool held = false;
        do {
                r = ask(s, bytes, &places[n]);
                n += r ? 0 : 1;
                held = !r && hold(&places[n - 1]);
        } while (!r && !held && n < PLACES_MAX);
        if (held && note(s, &places[n - 1])) {
                *ret = places[--n];
        } else if (held) {
                munmap((void *)(uintptr_t)places[n - 1].base, places[n - 1].bytes);
                held = false;
        }
        /* occupied ranges are returned only now, so that the daemon offered a different one each time */
        while (n > 0)
                give_back(s, places[--n].base);
        return held ? 0 : r ? r : DSC__OUT_OF_MEMORY;
}

int dsc_address_reserve(dsc_session *s, uint64_t bytes, uint64_t *ret_address, uint64_t *ret_bytes)
{
        struct place place = {0, 0};
        int r = dsc__usable(s);
        if (r || bytes == 0)
                return r ? r : DSC__INVALID_VALUE;
        pthread_rwlock_rdlock(&s->memory.use);
        r = reserve_locked(s, bytes, &place);
        pthread_rwlock_unlock(&s->memory.use);
        if (r)
                return r;
        *ret_address = place.base;
        *ret_bytes = place.bytes;
        return 0;
}

int dsc_address_free(dsc_session *s, uint64_t address, uint64_t bytes)
{
        int r = dsc__usable(s);
        if (r)
                return r;
        pthread_rwlock_rdlock(&s->memory.use);
        /* unmap first: after the daemon's answer another session may have the addresses */
        const bool known = forget(s, address, bytes);
        if (known)
                munmap((void *)(uintptr_t)address, bytes);
        pthread_rwlock_unlock(&s->memory.use);
        return known ? give_back(s, address) : DSC__INVALID_VALUE;
}

int dsc_mem_create(dsc_session *s, uint64_t bytes, uint64_t *ret_handle)
{
        Detshare__MemCreate create = DETSHARE__MEM_CREATE__INIT;
        Detshare__Request request = DSC__REQUEST(MEM_CREATE, mem_create, &create);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        uint32_t nap_ns = 0;
        int r;
        create.bytes = bytes;
        do
                r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_PHYSICAL, &answer);
        while (r && dsc__memory_comes(s, r, bytes, &nap_ns));
        if (r)
                return r;
        *ret_handle = answer.reply->physical->handle;
        dsc__answer_clear(&answer);
        return 0;
}

int dsc_mem_release(dsc_session *s, uint64_t handle)
{
        Detshare__MemRelease release = DETSHARE__MEM_RELEASE__INIT;
        Detshare__Request request = DSC__REQUEST(MEM_RELEASE, mem_release, &release);
        release.handle = handle;
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

int dsc_mem_map(dsc_session *s, uint64_t handle, uint64_t address, uint64_t bytes)
{
        Detshare__MemMap map = DETSHARE__MEM_MAP__INIT;
        Detshare__Request request = DSC__REQUEST(MEM_MAP, mem_map, &map);
        map.handle = handle;
        map.address = address;
        map.bytes = bytes;
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

int dsc_mem_unmap(dsc_session *s, uint64_t address)
{
        Detshare__MemUnmap unmap = DETSHARE__MEM_UNMAP__INIT;
        Detshare__Request request = DSC__REQUEST(MEM_UNMAP, mem_unmap, &unmap);
        unmap.address = address;
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

int dsc_mem_export(dsc_session *s, uint64_t address, uint64_t handle, uint8_t ret_token[DSC_TOKEN_BYTES])
{
        Detshare__MemExport export = DETSHARE__MEM_EXPORT__INIT;
        Detshare__Request request = DSC__REQUEST(MEM_EXPORT, mem_export, &export);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        export.address = address;
        export.handle = handle;
        if (!handle)
                dsc__table_export(s, address);
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_MEM_EXPORT, &answer);
        if (r)
                return r;
        if (answer.reply->mem_export->token.len == DSC_TOKEN_BYTES)
                memcpy(ret_token, answer.reply->mem_export->token.data, DSC_TOKEN_BYTES);
        else
                r = DETSHARE__STATUS__INTERNAL;
        dsc__answer_clear(&answer);
        return r;
}

void dsc_token_narrow(uint8_t token[DSC_TOKEN_BYTES], uint64_t offset, uint64_t size)
{
        uint64_t at;
        memcpy(&at, token + DS_TOKEN_OFFSET, sizeof(at));
        at += offset;
        memcpy(token + DS_TOKEN_OFFSET, &at, sizeof(at));
        memcpy(token + DS_TOKEN_OFFSET + sizeof(at), &size, sizeof(size));
}

int dsc_mem_import(dsc_session *s, const uint8_t token[DSC_TOKEN_BYTES], struct dsc_imported *ret)
{
        Detshare__MemImport import = DETSHARE__MEM_IMPORT__INIT;
        Detshare__Request request = DSC__REQUEST(MEM_IMPORT, mem_import, &import);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        import.token = (ProtobufCBinaryData){.len = DSC_TOKEN_BYTES, .data = (uint8_t *)(uintptr_t)token};
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_PHYSICAL, &answer);
        if (r)
                return r;
        const Detshare__PhysicalReply *reply = answer.reply->physical;
        *ret = (struct dsc_imported){reply->handle, reply->bytes, reply->offset, reply->size};
        dsc__answer_clear(&answer);
        return 0;
}
