/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/replace.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

#include "cuda/state.h"

#define PAGE 4096u

int dcu_replace_wanted(void)
{
        const char *value = getenv("DETSHARE_REGISTER");

        return value && strcasecmp(value, "replace") == 0;
}

struct pages {
        char *base;
        size_t bytes;
};

static struct pages pages_of(const void *p, size_t bytes)
{
        uintptr_t first = (uintptr_t)p & ~(uintptr_t)(PAGE - 1);
        uintptr_t end = ((uintptr_t)p + bytes + PAGE - 1) & ~(uintptr_t)(PAGE - 1);

        return (struct pages){(char *)first, end - first};
}

int dcu_replace(void *p, size_t bytes, uint64_t *ret)
{
        struct pages pages = pages_of(p, bytes);
        uint64_t base, size;
        void *pinned;

        if (dsc_host_alloc(dcu.session, pages.bytes, &pinned))
                return 0;
        memcpy(pinned, pages.base, pages.bytes);
        /* mremap of size 0 maps the same pages again; a session without shared memory has no such pages */
        if (dsc_lookup(dcu.session, (uintptr_t)pinned, &base, &size) != 2 ||
                mremap(pinned, 0, pages.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pages.base) == MAP_FAILED) {
                (void)dsc_host_free(dcu.session, pinned);
                return 0;
        }
        *ret = (uintptr_t)pinned;
        return 1;
}

void dcu_replace_undo(void *p, size_t bytes, uint64_t pinned, int in_daemon)
{
        struct pages pages = pages_of(p, bytes);
        char *fresh = mmap(NULL, pages.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        /* if memory for a private copy is short, the shared pages stay: they hold the program's data */
        if (fresh != MAP_FAILED) {
                memcpy(fresh, pages.base, pages.bytes);
                if (mremap(fresh, pages.bytes, pages.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pages.base) == MAP_FAILED)
                        munmap(fresh, pages.bytes);
        }
        if (in_daemon)
                (void)dsc_host_free(dcu.session, (void *)(uintptr_t)pinned);
}

uint64_t dcu_replace_address(uint64_t base, uint64_t pinned, uint64_t address)
{
        return pinned + (base & (PAGE - 1)) + (address - base);
}
