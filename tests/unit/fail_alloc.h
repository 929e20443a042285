/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The n-th allocation fails: of everything that is linked into a test program, and of whatever takes its allocator
 *
 * The program is linked with --wrap for malloc, calloc, realloc and free, so that calls from its own objects come here:
 * the daemon's (also those that do not go through ds_alloc) and, by uv_replace_allocator, libuv's. A shared page holds
 * the count, so that a test can tell a child that runs already when to fail, and hear whether it did. What the daemon
 * has not given back when it ends is counted, too, which finds a leak in a child that leaves by _exit.
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
        _Atomic int64_t live;          /* and not given back */
        _Atomic int32_t pid;           /* the process that is counted */
        _Atomic int32_t lasts, lasted; /* those after it fail, too; and did */
};

static struct fa_page fa_none = {.left = -1}, *fa = &fa_none;
static int fa_by_thread; /* only threads that say so are counted: the others are the test's */
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

/* Once per test, before the child is made. */
static void fa_share(void)
{
        fa = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        cr_assert_neq(fa, MAP_FAILED);
        atomic_store(&fa->left, -1);
}

/* In the process that is to be counted. */
static void fa_this_process(void)
{
        atomic_store(&fa->seen, 0);
        atomic_store(&fa->live, 0);
        atomic_store(&fa->pid, getpid());
}

/* For what the coverage build does when a process ends: tests/gate/coverage.c. */
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

/* And all those after it. */
__attribute__((unused)) static void fa_arm_lasting(int64_t n)
{
        atomic_store(&fa->lasts, 1);
        atomic_store(&fa->left, n - 1);
}

/* Nothing fails any more. Returns 1 if something did. */
static int fa_disarm(void)
{
        const int lasted = atomic_exchange(&fa->lasted, 0);

        return atomic_exchange(&fa->left, -1) < 0 || lasted;
}
