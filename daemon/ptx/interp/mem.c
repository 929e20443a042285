/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and stores
 *
 * Every access is checked before any byte is touched: its alignment, and that it lies in the memory of its address
 * space (the launch's memory, the module's variables, the block's shared memory, the thread's local memory or the
 * kernel's parameters). Then lanes are copied one by one, or all at once if they are adjacent. The warp caches the
 * range of global memory that was accessed last, because programs use few of them.
 *
 * Constants are read-only here too: a module's instance may serve several launches at once. If lanes store to the same
 * location, the first of them always wins. PTX leaves this open; an H200 does so with words of 32 bits (seen with
 * tests/gpu/corpus_diff.c), but with 16 bytes into shared memory another lane wins.
 */
#include "ptx/interp/lane.h"
#include "ptx/interp/layout.h"

typedef struct {
        uint64_t word[2];
} b128;

/* --- ranges --- */
static int within(uint64_t address, uint64_t size, uint64_t base, uint64_t length)
{
        return length >= size && address - base <= length - size;
}

uint8_t *ds_ix_global(ds_ix_warp *w, uint64_t address, uint64_t size, enum ds_ix_intent intent)
{
        const struct ds_interp_launch *launch = w->block->launch;
        const ds_interp *interp = w->block->interp;
        size_t low = 0, high = launch->n_ranges;
        uint64_t heap, heap_size;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (launch->ranges[middle].va <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low > 0 && within(address, size, launch->ranges[low - 1].va, launch->ranges[low - 1].size)) {
                w->lo = launch->ranges[low - 1].va;
                w->size = launch->ranges[low - 1].size;
                return (uint8_t *)(uintptr_t)address;
        }
        if (within(address, size, (uintptr_t)interp->globals, interp->globals_size)) {
                w->lo = (uintptr_t)interp->globals;
                w->size = interp->globals_size;
                return (uint8_t *)(uintptr_t)address;
        }
        if (intent == DS_IX_READ && within(address, size, (uintptr_t)interp->consts, interp->consts_size))
                return (uint8_t *)(uintptr_t)address;
        heap = interp->heap ? ds_ix_heap_base(interp->heap, &heap_size) : 0;
        if (heap && within(address, size, heap, heap_size)) {
                w->lo = heap;
                w->size = heap_size;
                return (uint8_t *)(uintptr_t)address;
        }
        return NULL;
}

static const char *space_name(uint32_t space)
{
        static const char *const names[] = {
                "generic", "global", "constant", "shared", "local", "parameter", "parameter", "cluster's shared"};

        return names[space];
}

/* Records the fault of an access by this lane, whose address is misaligned or not in its space. Returns 0. */
static int bad_access(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint64_t address, enum ds_ix_intent intent)
{
        uint32_t bytes = (uint32_t)op->size * op->n;
        const char *what = intent != DS_IX_READ ? "write" : "read";

        if (address & (bytes - 1))
                ds_ix_fault(w, op, DS_INTERP_FAULT_MISALIGNED, lane, address, "misaligned %s %s of %u bytes at 0x%llx",
                        space_name(op->space), what, bytes, (unsigned long long)address);
        else
                ds_ix_fault(w, op, DS_INTERP_FAULT_ADDRESS, lane, address, "invalid %s %s of %u bytes at 0x%llx",
                        space_name(op->space), what, bytes, (unsigned long long)address);
        return 0;
}

/* --- from addresses to host pointers --- */
static uint64_t symbol(const ds_ix_warp *w, uint32_t number)
{
        return number == DS_IX_SYM_LOCAL ? w->frame->local_base
                                         : w->block->kernel->symbol[number] + w->block->shared_base;
}

/* Computes the address operand's value for each lane. */
DS_IX_INLINE void addresses(const ds_ix_warp *w, const ds_ix_op *op, uint64_t *p)
{
        uint64_t offset = op->imm;

        if (op->f != DS_IX_SYM_NONE)
                offset += symbol(w, op->f);
        if (op->a == DS_IX_NO_SLOT) {
                DS_IX_EACH
                p[i] = offset;
        } else if (op->flags & DS_IX_WIDE_ADDRESS) {
                const uint64_t *pa = ds_ix_lanes(w, op->a);

                DS_IX_EACH
                p[i] = pa[i] + offset;
        } else {
                const uint32_t *pa = ds_ix_lanes(w, op->a);

                DS_IX_EACH
                p[i] = (uint32_t)(pa[i] + (uint32_t)offset);
        }
}

/* Whether the addresses of all active lanes are aligned and in [base, base + length). */
DS_IX_INLINE int all_within(const uint64_t *p, uint32_t mask, uint64_t bytes, uint64_t base, uint64_t length)
{
        uint64_t bad = 0, limit = length - bytes;

        if (length < bytes)
                return 0;
        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                uint64_t outside = (p[i] - base > limit ? 1 : 0) | (p[i] & (bytes - 1));

                bad |= mask & ds_ix_bit[i] ? outside : 0;
        }
        return bad == 0;
}

DS_IX_INLINE int contiguous(const uint64_t *p, uint64_t bytes)
{
        uint64_t differ = 0;

        for (unsigned i = 0; i < DS_IX_LANES; i++)
                differ |= p[i] ^ (p[0] + i * bytes);
        return differ == 0;
}

/* --- reports of accesses --- */

/* Stores the distinct sectors that the lanes in mask access in `to`, and returns their number; an aligned access
 * lies in one sector. */
static uint32_t find_sectors(const uint64_t *p, uint32_t mask, uint64_t *to)
{
        uint64_t table[64], last = UINT64_MAX;
        uint32_t n = 0;
        int sorted = 1;

        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                uint64_t s = p[i] >> DS_INTERP_SECTOR_BITS;

                if (!(mask & ds_ix_bit[i]) || s == last)
                        continue;
                sorted &= last == UINT64_MAX || s > last;
                last = s;
                to[n++] = s;
        }
        if (sorted)
                return n;
        memset(table, 0xff, sizeof(table));
        n = 0;
        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                uint64_t s = p[i] >> DS_INTERP_SECTOR_BITS, at = (s ^ s >> 6) & 63;

                if (!(mask & ds_ix_bit[i]))
                        continue;
                while (table[at] != s && table[at] != UINT64_MAX)
                        at = (at + 1) & 63;
                if (table[at] != s)
                        to[n++] = s;
                table[at] = s;
        }
        return n;
}

static enum ds_interp_access access_kind(const ds_ix_op *op, enum ds_ix_intent intent)
{
        if (intent == DS_IX_READ && op->flags & DS_IX_VOLATILE)
                return DS_INTERP_READ_L2;
        return (enum ds_interp_access)intent;
}

/* Address to report for an access: the module's variables and heap are reported at the launch's memory_base. */
static uint64_t told(const ds_ix_warp *w, uint64_t address)
{
        const ds_interp *interp = w->block->interp;
        uint64_t offset = address - (uintptr_t)interp->globals, heap, heap_size;

        if (offset < interp->globals_size)
                return w->block->launch->memory_base + offset;
        offset = address - (uintptr_t)interp->consts;
        if (offset < interp->consts_size)
                return w->block->launch->memory_base + DS_INTERP_MAX_GLOBALS + offset;
        heap = interp->heap ? ds_ix_heap_base(interp->heap, &heap_size) : 0;
        if (heap && address - heap < heap_size)
                return w->block->launch->memory_base + 2 * DS_INTERP_MAX_GLOBALS + (address - heap);
        return address;
}

static void touch_lanes(ds_ix_warp *w, const uint64_t *p, uint32_t mask, enum ds_interp_access kind)
{
        const struct ds_interp_launch *launch = w->block->launch;
        uint64_t sectors[DS_IX_LANES];
        uint32_t n = find_sectors(p, mask, sectors);

        w->cost.sectors += n;
        if (!launch->memory || !n)
                return;
        for (uint32_t i = 0; i < n; i++)
                sectors[i] = told(w, sectors[i] << DS_INTERP_SECTOR_BITS) >> DS_INTERP_SECTOR_BITS;
        launch->memory(launch->memory_user, sectors, n, kind);
}

static void touch_bytes(ds_ix_warp *w, uint64_t address, uint64_t size, enum ds_interp_access kind)
{
        const struct ds_interp_launch *launch = w->block->launch;
        uint64_t next, end, sectors[DS_INTERP_SECTORS_MAX];
        uint32_t n;

        address = told(w, address);
        next = address >> DS_INTERP_SECTOR_BITS;
        end = ((address + size - 1) >> DS_INTERP_SECTOR_BITS) + 1;
        w->cost.sectors += end - next;
        while (launch->memory && next < end) {
                for (n = 0; n < DS_INTERP_SECTORS_MAX && next < end; n++)
                        sectors[n] = next++;
                launch->memory(launch->memory_user, sectors, n, kind);
        }
}

void ds_ix_touch(ds_ix_warp *w, uint64_t address, uint64_t size, enum ds_ix_intent intent)
{
        if (size)
                touch_bytes(w, address, size, intent == DS_IX_READ ? DS_INTERP_READ_L2 : (enum ds_interp_access)intent);
}

static int global_slowly(ds_ix_warp *w, const ds_ix_op *op, enum ds_ix_intent intent, const uint64_t *p)
{
        uint64_t bytes = (uint64_t)op->size * op->n;

        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                if (!(w->mask & ds_ix_bit[i]))
                        continue;
                if (p[i] & (bytes - 1))
                        return bad_access(w, op, i, p[i], intent);
                if (within(p[i], bytes, w->lo, w->size))
                        continue;
                if (!ds_ix_global(w, p[i], bytes, intent))
                        return bad_access(w, op, i, p[i], intent);
        }
        return 1;
}

/* Whether the lanes' addresses are consecutive and valid; then checking the first and the last is enough. */
DS_IX_INLINE int side_by_side(const uint64_t *p, uint32_t mask, uint64_t bytes, uint64_t base, uint64_t length)
{
        return mask == DS_IX_FULL && contiguous(p, bytes) && !(p[0] & (bytes - 1)) &&
               within(p[0], DS_IX_LANES * bytes, base, length);
}

DS_IX_INLINE int resolve_global(ds_ix_warp *w, const ds_ix_op *op, enum ds_ix_intent intent, struct ds_ix_access *x)
{
        uint64_t bytes = (uint64_t)op->size * op->n;

        w->cost.memory_instructions++;
        x->contiguous = (uint8_t)side_by_side(x->p, w->mask, bytes, w->lo, w->size);
        if (x->contiguous) {
                if (w->block->launch->memory)
                        touch_bytes(w, x->p[0], DS_IX_LANES * bytes, access_kind(op, intent));
                else
                        w->cost.sectors += (uint32_t)(((x->p[31] + bytes - 1) >> 5) - (x->p[0] >> 5) + 1);
                return 1;
        }
        if (!all_within(x->p, w->mask, bytes, w->lo, w->size) && !global_slowly(w, op, intent, x->p))
                return 0;
        touch_lanes(w, x->p, w->mask, access_kind(op, intent));
        return 1;
}

/* Computes host addresses from offsets into memory that has one piece per block (stride 0) or one per thread
 * (stride: bytes from thread to thread). */
DS_IX_INLINE int resolve_offsets(ds_ix_warp *w, const ds_ix_op *op, enum ds_ix_intent intent, struct ds_ix_access *x,
        uint8_t *base, uint64_t length, uint64_t stride)
{
        uint64_t bytes = (uint64_t)op->size * op->n, start = (uintptr_t)base;

        x->contiguous = (uint8_t)(stride == 0 && side_by_side(x->p, w->mask, bytes, 0, length));
        if (!x->contiguous && !all_within(x->p, w->mask, bytes, 0, length)) {
                for (unsigned i = 0; i < DS_IX_LANES; i++) {
                        if (w->mask & ds_ix_bit[i] && (!within(x->p[i], bytes, 0, length) || x->p[i] & (bytes - 1)))
                                return bad_access(w, op, i, x->p[i], intent);
                }
        }
        DS_IX_EACH
        x->p[i] += start + i * stride;
        return 1;
}

/* Computes host addresses in the block's own shared memory. Its addresses contain the rank, but a plain offset
 * without the rank is valid too. */
DS_IX_INLINE int resolve_shared(ds_ix_warp *w, const ds_ix_op *op, enum ds_ix_intent intent, struct ds_ix_access *x)
{
        const ds_ix_block *block = w->block;

        w->cost.shared_instructions++;
        if (block->shared_base) {
                DS_IX_EACH
                x->p[i] -= x->p[i] >= block->shared_size ? block->shared_base : 0;
        }
        return resolve_offsets(w, op, intent, x, block->shared, block->shared_size, 0);
}

/* Computes host addresses in the shared memory of any block of the cluster. */
static int resolve_cluster(ds_ix_warp *w, const ds_ix_op *op, enum ds_ix_intent intent, struct ds_ix_access *x)
{
        uint64_t bytes = (uint64_t)op->size * op->n;

        w->cost.shared_instructions++;
        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                uint64_t host;

                if (!(w->mask & ds_ix_bit[i]))
                        continue;
                host = x->p[i] & (bytes - 1) ? 0 : (uintptr_t)ds_ix_cluster_at(w, x->p[i], bytes, NULL);
                if (!host)
                        return bad_access(w, op, i, x->p[i], intent);
                x->p[i] = host;
        }
        x->contiguous = 0;
        return 1;
}

/* Whether the bytes of local memory belong to the frame, to its callers, or to an alloca allocation of the lane. */
static int in_local(const ds_ix_warp *w, uint64_t offset, uint64_t bytes, uint32_t lane)
{
        return within(offset, bytes, 0, w->local_limit) ||
               (offset >= w->stack[lane] && within(offset, bytes, 0, w->block->local_stride));
}

/* Computes host addresses in the local memory of a kernel that uses alloca. */
static int resolve_stack(ds_ix_warp *w, const ds_ix_op *op, enum ds_ix_intent intent, struct ds_ix_access *x)
{
        uint64_t bytes = (uint64_t)op->size * op->n;

        for (uint32_t i = 0; i < DS_IX_LANES; i++) {
                if (w->mask & ds_ix_bit[i] && (!in_local(w, x->p[i], bytes, i) || x->p[i] & (bytes - 1)))
                        return bad_access(w, op, i, x->p[i], intent);
                x->p[i] += (uintptr_t)w->local + (uint64_t)i * w->block->local_stride;
        }
        x->contiguous = 0;
        return 1;
}

/* Host address of one lane's access at a generic address; 0 if the access is invalid. */
static uint64_t generic_lane(ds_ix_warp *w, uint64_t address, uint64_t bytes, enum ds_ix_intent intent, uint32_t lane)
{
        const ds_ix_block *block = w->block;
        uint64_t offset = address & DS_IX_WINDOW_MASK;

        switch (address >> 56) {
        case 0:
                return within(address, bytes, w->lo, w->size) || ds_ix_global(w, address, bytes, intent) ? address : 0;
        case 1:
                return (uintptr_t)ds_ix_cluster_at(w, offset, bytes, NULL);
        case 2:
                if (!in_local(w, offset, bytes, lane))
                        return 0;
                return (uintptr_t)w->local + (uint64_t)lane * block->local_stride + offset;
        case 3:
                if (intent != DS_IX_READ || !within(offset, bytes, 0, block->params_size))
                        return 0;
                return (uintptr_t)block->params + offset;
        default:
                return 0;
        }
}

uint8_t *ds_ix_reach(ds_ix_warp *w, uint64_t address, uint64_t size, enum ds_ix_intent intent, uint32_t lane)
{
        return (uint8_t *)(uintptr_t)generic_lane(w, address, size, intent, lane);
}

void ds_ix_addresses(const ds_ix_warp *w, const ds_ix_op *op, uint64_t *ret_addresses)
{
        addresses(w, op, ret_addresses);
        if (op->space != DS_IX_SHARED && op->space != DS_IX_CLUSTER)
                return;
        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                uint64_t a = ret_addresses[i];

                a += op->space == DS_IX_SHARED && a < w->block->shared_size ? w->block->shared_base : 0;
                ret_addresses[i] = a >> 56 ? UINT64_MAX << 8 : a | DS_INTERP_SHARED_BASE;
        }
}

const uint8_t *ds_ix_readable(ds_ix_warp *w, uint64_t address, uint32_t lane)
{
        return (const uint8_t *)(uintptr_t)generic_lane(w, address, 1, DS_IX_READ, lane);
}

static int resolve_generic(ds_ix_warp *w, const ds_ix_op *op, enum ds_ix_intent intent, struct ds_ix_access *x)
{
        uint64_t bytes = (uint64_t)op->size * op->n;
        uint32_t global = 0;

        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                uint64_t host;

                if (!(w->mask & ds_ix_bit[i]))
                        continue;
                host = x->p[i] & (bytes - 1) ? 0 : generic_lane(w, x->p[i], bytes, intent, i);
                if (!host)
                        return bad_access(w, op, i, x->p[i], intent);
                global |= x->p[i] >> 56 ? 0 : ds_ix_bit[i];
                x->p[i] = host;
        }
        x->contiguous = 0;
        w->cost.memory_instructions++;
        touch_lanes(w, x->p, global, access_kind(op, intent));
        return 1;
}

DS_IX_INLINE int resolve(ds_ix_warp *w, const ds_ix_op *op, enum ds_ix_intent intent, struct ds_ix_access *x)
{
        ds_ix_block *block = w->block;
        const ds_interp *interp = block->interp;

        addresses(w, op, x->p);
        w->spun |= op->flags & DS_IX_VOLATILE;
        switch (op->space) {
        case DS_IX_GLOBAL:
                return resolve_global(w, op, intent, x);
        case DS_IX_SHARED:
                return resolve_shared(w, op, intent, x);
        case DS_IX_CLUSTER:
                return resolve_cluster(w, op, intent, x);
        case DS_IX_LOCAL:
                if (interp->stack && !all_within(x->p, w->mask, (uint64_t)op->size * op->n, 0, w->local_limit))
                        return resolve_stack(w, op, intent, x);
                return resolve_offsets(w, op, intent, x, w->local, w->local_limit, block->local_stride);
        case DS_IX_PARAM:
                return resolve_offsets(w, op, intent, x, block->params, block->params_size, 0);
        case DS_IX_ARGS:
                return resolve_offsets(
                        w, op, intent, x, w->frame->args, w->frame->func->args_bytes, w->frame->func->args_bytes);
        case DS_IX_CONST:
                if (!all_within(
                            x->p, w->mask, (uint64_t)op->size * op->n, (uintptr_t)interp->consts, interp->consts_size))
                        return resolve_generic(w, op, intent, x);
                x->contiguous = w->mask == DS_IX_FULL && contiguous(x->p, (uint64_t)op->size * op->n);
                return 1;
        default:
                if (all_within(x->p, w->mask, (uint64_t)op->size * op->n, w->lo, w->size))
                        return resolve_global(w, op, intent, x);
                return resolve_generic(w, op, intent, x);
        }
}

int ds_ix_resolve(ds_ix_warp *w, const ds_ix_op *op, enum ds_ix_intent intent, struct ds_ix_access *access)
{
        return resolve(w, op, intent, access);
}

/* --- copying lanes --- */
/* list of the accesses: name, type in memory, type in the register; a narrower element is extended by the sign of
 * its memory type */
#define ACCESSES(X)                   \
        X(u8_8, uint8_t, uint8_t)     \
        X(u8_16, uint8_t, uint16_t)   \
        X(u8_32, uint8_t, uint32_t)   \
        X(u8_64, uint8_t, uint64_t)   \
        X(s8_16, int8_t, int16_t)     \
        X(s8_32, int8_t, int32_t)     \
        X(s8_64, int8_t, int64_t)     \
        X(u16_16, uint16_t, uint16_t) \
        X(u16_32, uint16_t, uint32_t) \
        X(u16_64, uint16_t, uint64_t) \
        X(s16_32, int16_t, int32_t)   \
        X(s16_64, int16_t, int64_t)   \
        X(u32_32, uint32_t, uint32_t) \
        X(u32_64, uint32_t, uint64_t) \
        X(s32_64, int32_t, int64_t)   \
        X(u64_64, uint64_t, uint64_t) \
        X(b128_128, b128, b128)

typedef void (*load_fn)(void *to, const uint64_t *p, uint32_t mask, uint32_t offset);
typedef void (*store_fn)(const void *from, const uint64_t *p, uint32_t mask, uint32_t offset);

#define AT(M, i) (*(M *)(uintptr_t)(p[i] + offset))
#define X(name, M, R)                                                                                 \
        static void load_##name(void *to, const uint64_t *p, uint32_t mask, uint32_t offset)          \
        {                                                                                             \
                R *d = to;                                                                            \
                if (mask == DS_IX_FULL) {                                                             \
                        for (unsigned i = 0; i < DS_IX_LANES; i++)                                    \
                                d[i] = AT(const M, i);                                                \
                        return;                                                                       \
                }                                                                                     \
                for (unsigned i = 0; i < DS_IX_LANES; i++) {                                          \
                        if (mask & ds_ix_bit[i])                                                      \
                                d[i] = AT(const M, i);                                                \
                }                                                                                     \
        }                                                                                             \
        static void store_##name(const void *from, const uint64_t *p, uint32_t mask, uint32_t offset) \
        {                                                                                             \
                const R *s = from;                                                                    \
                for (unsigned i = DS_IX_LANES; i-- > 0;) {                                            \
                        if (mask & ds_ix_bit[i])                                                      \
                                store_one_##M(&AT(M, i), s[i]);                                       \
                }                                                                                     \
        }
#define store_one_b128(to, v) (*(to) = (v))
#define store_one_int8_t(to, v) (*(to) = (int8_t)(v))
#define store_one_uint8_t(to, v) (*(to) = (uint8_t)(v))
#define store_one_int16_t(to, v) (*(to) = (int16_t)(v))
#define store_one_uint16_t(to, v) (*(to) = (uint16_t)(v))
#define store_one_int32_t(to, v) (*(to) = (int32_t)(v))
#define store_one_uint32_t(to, v) (*(to) = (uint32_t)(v))
#define store_one_uint64_t(to, v) (*(to) = (v))
ACCESSES(X)
#undef X

static const struct {
        uint8_t memory_bytes, register_bytes, sign;
        load_fn load;
        store_fn store;
} accesses[] = {
#define X(name, M, R) {sizeof(M), sizeof(R), #name[0] == 's', load_##name, store_##name},
        ACCESSES(X)
#undef X
};

/* Whether all lanes can be copied at once: their addresses are consecutive, and an element has the same width in
 * memory and register (row op->mode of accesses[]). */
static int whole(const ds_ix_op *op, const struct ds_ix_access *x)
{
        return x->contiguous && op->n == 1 && accesses[op->mode].register_bytes == op->size;
}

DS_IX_INLINE const ds_ix_op *load_body(ds_ix_warp *w, const ds_ix_op *op)
{
        const uint32_t slots[4] = {op->d, op->e, op->b, op->c};
        struct ds_ix_access x;

        if (!resolve(w, op, DS_IX_READ, &x))
                return NULL;
        if (whole(op, &x)) {
                memcpy(ds_ix_lanes(w, op->d), (const void *)(uintptr_t)x.p[0], (size_t)DS_IX_LANES * op->size);
                return op + 1;
        }
        for (unsigned k = 0; k < op->n; k++) {
                if (slots[k] != DS_IX_NO_SLOT)
                        accesses[op->mode].load(ds_ix_lanes(w, slots[k]), x.p, w->mask, k * op->size);
        }
        return op + 1;
}

DS_IX_INLINE const ds_ix_op *store_body(ds_ix_warp *w, const ds_ix_op *op)
{
        const uint32_t slots[4] = {op->d, op->e, op->b, op->c};
        struct ds_ix_access x;

        if (!resolve(w, op, DS_IX_WRITE, &x))
                return NULL;
        if (whole(op, &x)) {
                memcpy((void *)(uintptr_t)x.p[0], ds_ix_lanes(w, op->d), (size_t)DS_IX_LANES * op->size);
                return op + 1;
        }
        for (unsigned k = 0; k < op->n; k++)
                accesses[op->mode].store(ds_ix_lanes(w, slots[k]), x.p, w->mask, k * op->size);
        return op + 1;
}

DS_IX_FLOW_VARIANTS(load)
DS_IX_FLOW_VARIANTS(store)

/* Handler of ld.param in a kernel at a constant offset: one value for all lanes. */
static const ds_ix_op *load_param(ds_ix_warp *w, const ds_ix_op *op)
{
        const uint32_t slots[4] = {op->d, op->e, op->b, op->c};
        uint64_t p[DS_IX_LANES], bytes = (uint64_t)op->size * op->n;

        if (!within(op->imm, bytes, 0, w->block->params_size) || op->imm & (bytes - 1)) {
                (void)bad_access(w, op, (uint32_t)__builtin_ctz(w->mask), op->imm, DS_IX_READ);
                return NULL;
        }
        DS_IX_EACH
        p[i] = (uintptr_t)w->block->params + op->imm;
        for (unsigned k = 0; k < op->n; k++) {
                if (slots[k] != DS_IX_NO_SLOT)
                        accesses[op->mode].load(ds_ix_lanes(w, slots[k]), p, w->mask, k * op->size);
        }
        return op + 1;
}
static const struct ds_ix_impl load_param_impl = {{load_param, load_param}};

static int find_access(enum ds_ptx_type type, uint32_t register_bytes, int sign, ds_ix_op *op)
{
        uint32_t bytes = ds_ptx_type_bits(type) / 8;

        for (size_t i = 0; i < DS_ARRAY_SIZE(accesses); i++) {
                if (accesses[i].memory_bytes != bytes || accesses[i].register_bytes != register_bytes)
                        continue;
                if (accesses[i].sign != sign && register_bytes != bytes)
                        continue;
                op->mode = (uint8_t)i;
                op->size = (uint8_t)bytes;
                return 1;
        }
        return 0;
}

const struct ds_ix_impl *ds_ix_find_load(enum ds_ptx_type type, uint32_t register_bytes, ds_ix_op *op)
{
        if (!find_access(type, register_bytes, ds_ptx_type_is_signed(type), op))
                return NULL;
        return op->space == DS_IX_PARAM && op->a == DS_IX_NO_SLOT ? &load_param_impl : &load;
}

const struct ds_ix_impl *ds_ix_find_store(enum ds_ptx_type type, uint32_t register_bytes, ds_ix_op *op)
{
        return find_access(type, register_bytes, 0, op) ? &store : NULL;
}
