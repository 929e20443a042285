/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserved addresses
 *
 * Small reservations share windows; a large one has a window of its own. One empty window for small ones is kept, so
 * that a program that reserves and frees in turn needs no requests; others are returned to the daemon.
 */
#include <stdlib.h>

#include "cuda/range.h"
#include "cuda/vmm.h"

#define WINDOW_BYTES (64ull << 30)
#define SHARING_MAX (16ull << 30)

struct reservation {
        struct reservation *next; /* sorted by address */
        uint64_t base, bytes;
};

struct window {
        struct window *next;
        struct reservation *first;
        uint64_t base, bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct window *windows;

/* Finds the first gap of `bytes` in the window, aligned, at or after `from`. Returns its address, 0: there is none.
 * *ret_before: the reservation before the gap, NULL if the gap precedes all of them. */
static uint64_t gap(
        struct window *window, uint64_t bytes, uint64_t align, uint64_t from, struct reservation **ret_before)
{
        struct reservation *before = NULL, *after = window->first;
        uint64_t at = from, end = window->base + window->bytes;

        for (;;) {
                uint64_t limit = after ? after->base : end;

                at = (at + align - 1) & ~(align - 1);
                if (at <= limit && bytes <= limit - at) {
                        *ret_before = before;
                        return at;
                }
                if (!after)
                        return 0;
                at = after->base + after->bytes > at ? after->base + after->bytes : at;
                before = after;
                after = after->next;
        }
}

static uint64_t place(struct window *window, uint64_t bytes, uint64_t align, uint64_t hint)
{
        struct reservation *fresh = calloc(1, sizeof(*fresh)), *before = NULL;
        uint64_t at = 0;

        if (!fresh)
                return 0;
        if (hint >= window->base && hint - window->base < window->bytes && hint % align == 0)
                at = gap(window, bytes, align, hint, &before);
        if (at != hint || !at)
                at = gap(window, bytes, align, window->base, &before);
        if (!at) {
                free(fresh);
                return 0;
        }
        fresh->base = at;
        fresh->bytes = bytes;
        fresh->next = before ? before->next : window->first;
        if (before)
                before->next = fresh;
        else
                window->first = fresh;
        return at;
}

static struct window *window_new(uint64_t bytes)
{
        struct window *window = calloc(1, sizeof(*window));

        if (window && dsc_address_reserve(dcu.session, bytes, &window->base, &window->bytes)) {
                free(window);
                return NULL;
        }
        if (window) {
                window->next = windows;
                windows = window;
        }
        return window;
}

static void window_free(struct window *window)
{
        struct window **at = &windows;

        while (*at != window)
                at = &(*at)->next;
        *at = window->next;
        (void)dsc_address_free(dcu.session, window->base, window->bytes);
        free(window);
}

/* The empty window that is kept; NULL: there is none. */
static struct window *kept(void)
{
        struct window *window = windows;

        while (window && window->first)
                window = window->next;
        return window;
}

/* With too few addresses left for a new window, the empty one is returned first. */
static struct window *window_get(uint64_t bytes)
{
        struct window *window = window_new(bytes), *empty = window ? NULL : kept();

        if (!empty)
                return window;
        window_free(empty);
        return window_new(bytes);
}

/* Frees an empty window, unless it is the only one and as large as those for small reservations. */
static void window_emptied(struct window *window)
{
        struct window *other = windows;

        while (other && (other == window || other->first))
                other = other->next;
        if (other || window->bytes != WINDOW_BYTES)
                window_free(window);
}

static uint64_t reserve_locked(uint64_t bytes, uint64_t align, uint64_t hint)
{
        struct window *window;
        uint64_t at = 0;

        for (window = windows; hint && window && !at; window = window->next)
                if (hint >= window->base && hint - window->base < window->bytes)
                        at = place(window, bytes, align, hint);
        for (window = windows; bytes <= SHARING_MAX && window && !at; window = window->next)
                at = place(window, bytes, align, 0);
        if (at)
                return at;
        window = window_get(bytes <= SHARING_MAX ? WINDOW_BYTES : bytes);
        if (!window)
                return 0;
        at = align <= window->bytes ? place(window, bytes, align, 0) : 0;
        if (!at)
                window_free(window);
        return at;
}

CUresult dcu_address_reserve(uint64_t bytes, uint64_t align, uint64_t hint, uint64_t *ret)
{
        uint64_t at;

        pthread_mutex_lock(&lock);
        at = reserve_locked(bytes, align, hint);
        pthread_mutex_unlock(&lock);
        *ret = at;
        return at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Finds the reservation that begins at `base`: returns the list pointer that points to it, for its removal. NULL: no
 * reservation begins there. */
static struct reservation **find(uint64_t base, struct window **ret_window)
{
        for (struct window *window = windows; window; window = window->next) {
                if (base < window->base || base - window->base >= window->bytes)
                        continue;
                *ret_window = window;
                for (struct reservation **at = &window->first; *at; at = &(*at)->next)
                        if ((*at)->base == base)
                                return at;
        }
        return NULL;
}

CUresult dcu_address_free(uint64_t base, uint64_t bytes)
{
        struct window *window = NULL;
        struct reservation **at, *gone;
        CUresult r = CUDA_ERROR_INVALID_VALUE;

        pthread_mutex_lock(&lock);
        at = find(base, &window);
        if (at && (*at)->bytes == bytes && !dcu_range_overlaps(base, bytes)) {
                gone = *at;
                *at = gone->next;
                free(gone);
                if (!window->first)
                        window_emptied(window);
                r = CUDA_SUCCESS;
        }
        pthread_mutex_unlock(&lock);
        return r;
}

int dcu_address_is_reserved(uint64_t base, uint64_t bytes)
{
        int yes = 0;

        pthread_mutex_lock(&lock);
        for (const struct window *window = windows; window && !yes; window = window->next) {
                for (const struct reservation *r = window->first; r && !yes; r = r->next)
                        yes = base >= r->base && base - r->base < r->bytes && bytes <= r->bytes - (base - r->base);
        }
        pthread_mutex_unlock(&lock);
        return yes;
}

void dcu_address_reset(void)
{
        struct window *window;
        struct reservation *gone;

        pthread_mutex_lock(&lock);
        while ((window = windows)) {
                windows = window->next;
                while ((gone = window->first)) {
                        window->first = gone->next;
                        free(gone);
                }
                free(window);
        }
        pthread_mutex_unlock(&lock);
}
