/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a client offers: the worker frees it when another session needs memory, and only then
 */
#include <criterion/criterion.h>
#include <stdatomic.h>

#include "tests/unit/worker_harness.h"

#define FILLERS 4

struct spare {
        struct wt *t;
        struct wt_client a, b, fillers[FILLERS];
        uint64_t held, large; /* allocations of a */
};

static _Atomic uint64_t *word(struct spare *s)
{
        return &((struct ds_ring_header *)(void *)s->a.ring)->spare;
}

static uint64_t free_bytes(struct spare *s, struct wt_client *client)
{
        WT_REQUEST(request, MEM_INFO, mem_info, MemInfo, MEM_INFO, );
        wt_answer *answer = wt_call(s->t, client, &request);
        uint64_t bytes = answer->reply->mem_info->free;

        wt_free(answer);
        return bytes;
}

/* Sessions hold all memory of the device but less than 2 MiB; session a holds two allocations of it. */
static struct spare spare_open(void)
{
        struct spare s = {.t = wt_open("sim:gtx1080")};

        s.a = wt_client(s.t, 1, DETSHARE__CLASS__BE);
        s.b = wt_client(s.t, 2, DETSHARE__CLASS__LS);
        wt_attach(s.t, &s.a);
        wt_attach(s.t, &s.b);
        cr_assert_eq(wt_alloc(s.t, &s.a, 4096, &s.held), 0);
        cr_assert_eq(wt_alloc(s.t, &s.a, DS_GIB(1), &s.large), 0);
        for (uint64_t i = 0; i < FILLERS; i++) {
                uint64_t left = free_bytes(&s, &s.b) & ~(DS_MIB(2) - 1), p;

                s.fillers[i] = wt_client(s.t, 3 + i, DETSHARE__CLASS__BE);
                if (left)
                        cr_assert_eq(wt_alloc(s.t, &s.fillers[i], DS_MIN(left, DS_GIB(3)), &p), 0);
        }
        return s;
}

static void spare_close(struct spare *s)
{
        wt_client_close(s->t, &s->a);
        for (int i = 0; i < FILLERS; i++)
                wt_client_close(s->t, &s->fillers[i]);
        wt_client_close(s->t, &s->b);
        wt_close(s->t);
}

Test(worker_spare, another_session_gets_the_memory, .timeout = 60)
{
        struct spare s = spare_open();
        uint64_t p, again;

        cr_assert_eq(wt_alloc(s.t, &s.b, DS_MIB(64), &p), DS_CUDA_OUT_OF_MEMORY);
        atomic_store(word(&s), s.large);
        cr_assert_eq(wt_alloc(s.t, &s.a, 4096, &again), 0);
        cr_assert_eq(atomic_load(word(&s)), s.large, "nobody else needs it");
        cr_assert_eq(wt_alloc(s.t, &s.b, DS_MIB(64), &p), 0);
        cr_assert_eq(atomic_load(word(&s)), 0);
        cr_assert_eq(wt_mem_free(s.t, &s.a, s.large), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(wt_mem_free(s.t, &s.a, again), 0);
        cr_assert_eq(wt_mem_free(s.t, &s.a, s.held), 0);
        cr_assert_eq(wt_mem_free(s.t, &s.b, p), 0);
        spare_close(&s);
}

Test(worker_spare, a_session_gets_nothing_of_its_own, .timeout = 60)
{
        struct spare s = spare_open();
        uint64_t p;

        atomic_store(word(&s), s.large);
        cr_assert_eq(wt_alloc(s.t, &s.a, DS_MIB(128), &p), DS_CUDA_OUT_OF_MEMORY, "its client can free it");
        cr_assert_eq(atomic_load(word(&s)), s.large);
        atomic_store(word(&s), 0);
        cr_assert_eq(wt_alloc(s.t, &s.b, DS_MIB(64), &p), DS_CUDA_OUT_OF_MEMORY, "the client has taken it back");
        cr_assert_eq(wt_mem_free(s.t, &s.a, s.large), 0);
        spare_close(&s);
}

Test(worker_spare, invalid_offers_free_nothing, .timeout = 60)
{
        struct spare s = spare_open();
        const uint64_t bad[] = {1, s.large + 512, s.large - 512, s.held + 1, s.large + DS_TIB(1), UINT64_MAX};
        uint64_t p;

        for (size_t i = 0; i < DS_ARRAY_SIZE(bad); i++) {
                atomic_store(word(&s), bad[i]);
                cr_assert_eq(wt_alloc(s.t, &s.b, DS_MIB(64), &p), DS_CUDA_OUT_OF_MEMORY);
                cr_assert_eq(atomic_load(word(&s)), bad[i]);
        }
        cr_assert_eq(wt_mem_free(s.t, &s.a, s.large), 0);
        cr_assert_eq(wt_mem_free(s.t, &s.a, s.held), 0);
        spare_close(&s);
}
