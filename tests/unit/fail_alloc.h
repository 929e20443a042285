/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the n-th allocation fail, in everything that is linked into a test program and in libraries that use its
 * allocator
 *
 * The program is linked with --wrap for malloc, calloc, realloc and free. So calls from its own objects come here: the
 * daemon's (also those that bypass ds_alloc) and, by uv_replace_allocator, libuv's. A shared page holds the count. So a
 * test can arm a failure in a child that runs already, and see whether the failure happened. The page also counts
 * memory that the daemon has not freed at its end, which finds a leak in a child that leaves by _exit.
 *
 * One binary includes this file once.
 */
#pragma once

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct fa_page {
        _Atomic int64_t left;          /* allocations until one fails; negative: none does */
        _Atomic int64_t seen;          /* allocations of the process so far */
        _Atomic int64_t live;          /* allocations that were not freed yet */
        _Atomic int32_t pid;           /* pid of the process whose allocations are counted */
        _Atomic int32_t lasts, lasted; /* lasts: every later allocation fails too; lasted: later ones did fail */
};

static struct fa_page fa_none = {.left = -1}, *fa = &fa_none;
static int fa_by_thread; /* 1: only threads that have set fa_mine are counted; the others belong to the test */
static __thread int fa_mine;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

static int fa_counts(void)
{
        return (!fa_by_thread || fa_mine) && atomic_load_explicit(&fa->pid, memory_order_relaxed) == getpid();
}

static int fa_fails(void)
{
        if (!fa_counts())
                return 0;
        atomic_fetch_add(&fa->seen, 1);
        if (atomic_load(&fa->lasts) && atomic_load(&fa->left) == 0) {
                atomic_store(&fa->lasted, 1);
                return 1;
        }
        return atomic_load(&fa->left) >= 0 && atomic_fetch_sub(&fa->left, 1) == 0;
}

static void *fa_got(void *p)
{
        if (p && fa_counts())
                atomic_fetch_add(&fa->live, 1);
        return p;
}

void *__wrap_malloc(size_t size)
{
        return fa_fails() ? NULL : fa_got(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
        return fa_fails() ? NULL : fa_got(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t size)
{
        if (fa_fails())
                return NULL;
        return p ? __real_realloc(p, size) : fa_got(__real_realloc(NULL, size));
}

void __wrap_free(void *p)
{
        if (p && fa_counts())
                atomic_fetch_sub(&fa->live, 1);
        __real_free(p);
}

/* Creates the shared page; once per test, before the child is forked. */
static void fa_share(void)
{
        fa = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        cr_assert_neq(fa, MAP_FAILED);
        atomic_store(&fa->left, -1);
}

/* Counts the allocations of the calling process from now on. */
static void fa_this_process(void)
{
        atomic_store(&fa->seen, 0);
        atomic_store(&fa->live, 0);
        atomic_store(&fa->pid, getpid());
}

/* Ends counting for good; the coverage build calls this before it writes its data at a process's end
 * (tests/gate/coverage.c). */
void fa_never(void);
void fa_never(void)
{
        fa = &fa_none;
}

/* The n-th allocation from now on fails, n from 1. */
static void fa_arm(int64_t n)
{
        atomic_store(&fa->lasts, 0);
        atomic_store(&fa->left, n - 1);
}

/* The n-th allocation from now on and all later ones fail. */
__attribute__((unused)) static void fa_arm_lasting(int64_t n)
{
        atomic_store(&fa->lasts, 1);
        atomic_store(&fa->left, n - 1);
}

/* Lets allocations succeed again. Returns 1 if one has failed since fa_arm. */
static int fa_disarm(void)
{
        const int lasted = atomic_exchange(&fa->lasted, 0);

        return atomic_exchange(&fa->left, -1) < 0 || lasted;
}
