/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/interp/async.h"
#include "ptx/interp/lane.h"

#define COUNT_BITS 20
#define COUNT_MAX ((1u << COUNT_BITS) - 1)
#define VALID UINT64_C(1)
#define EXPECTED_SHIFT 1
#define TX_SHIFT 21
#define TX_BITS 21
#define MISSING_SHIFT 43
#define PHASE_SHIFT 63
/* consecutive rounds in which a block only waits, after which each further wait takes a time slice */
#define IDLE_ROUNDS 1024

struct mbarrier {
        uint32_t missing, expected, phase;
        int32_t bytes;
};

/* --- the mbarrier object --- */
/* Host address of the mbarrier's 64 bits at a generic address. NULL: the access faulted. */
static uint64_t *object(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint64_t address)
{
        uint8_t *p = NULL;

        if (address & 7) {
                ds_ix_fault(w, op, DS_INTERP_FAULT_MISALIGNED, lane, address, "misaligned mbarrier at 0x%llx",
                        (unsigned long long)address);
                return NULL;
        }
        if (address >> 56 == DS_INTERP_SHARED_BASE >> 56)
                p = ds_ix_reach(w, address, 8, DS_IX_ATOMIC, lane);
        if (!p)
                ds_ix_fault(w, op, DS_INTERP_FAULT_ADDRESS, lane, address, "no mbarrier can be at 0x%llx",
                        (unsigned long long)address);
        return (uint64_t *)(void *)p;
}

static int unpack(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint64_t u, struct mbarrier *ret)
{
        *ret = (struct mbarrier){
                .missing = -(uint32_t)(u >> MISSING_SHIFT) & COUNT_MAX,
                .expected = -(uint32_t)(u >> EXPECTED_SHIFT) & COUNT_MAX,
                .phase = (uint32_t)(u >> PHASE_SHIFT),
                .bytes = (int32_t)((int64_t)(u << (64 - TX_SHIFT - TX_BITS)) >> (64 - TX_BITS)),
        };
        if (u & VALID)
                return 1;
        ds_ix_fault(w, op, DS_INTERP_FAULT_ILLEGAL, lane, 0, "an mbarrier that was not initialised");
        return 0;
}

static uint64_t pack(const struct mbarrier *m)
{
        uint64_t bytes = (uint64_t)m->bytes & ((UINT64_C(1) << TX_BITS) - 1);

        return (uint64_t)(-m->missing & COUNT_MAX) << MISSING_SHIFT |
               (uint64_t)(-m->expected & COUNT_MAX) << EXPECTED_SHIFT | bytes << TX_SHIFT | VALID |
               (uint64_t)m->phase << PHASE_SHIFT;
}

/* Adds to the bytes that the phase still expects; negative: subtracts. 0: faulted. */
static int add_bytes(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, struct mbarrier *m, int64_t bytes)
{
        int64_t sum = m->bytes + bytes, most = COUNT_MAX;

        if (bytes > most || bytes < -most || sum > most || sum < -most) {
                ds_ix_fault(
                        w, op, DS_INTERP_FAULT_ILLEGAL, lane, 0, "an mbarrier cannot count %lld bytes", (long long)sum);
                return 0;
        }
        m->bytes = (int32_t)sum;
        return 1;
}

static int arrive(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, struct mbarrier *m, uint32_t count)
{
        if (count == 0 || count > m->missing) {
                ds_ix_fault(w, op, DS_INTERP_FAULT_ILLEGAL, lane, 0, "%u arrivals at an mbarrier that waits for %u",
                        count, m->missing);
                return 0;
        }
        m->missing -= count;
        return 1;
}

/* Stores the mbarrier in memory. If all expected arrivals and bytes have come, the next phase begins. */
static void put(ds_ix_warp *w, uint64_t *to, struct mbarrier *m)
{
        if (m->missing == 0 && m->bytes == 0) {
                m->phase ^= 1;
                m->missing = m->expected;
        }
        w->block->cluster->moved = 1;
        *to = pack(m);
}

/* --- operations --- */
static uint32_t value32(const ds_ix_warp *w, uint32_t slot, uint32_t lane, uint32_t otherwise)
{
        return slot == DS_IX_NO_SLOT ? otherwise : ((const uint32_t *)ds_ix_lanes(w, slot))[lane];
}

/* One lane's operation on an mbarrier; returns 0 after a fault. */
typedef int (*one_fn)(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint64_t *object);

DS_IX_INLINE const ds_ix_op *each(ds_ix_warp *w, const ds_ix_op *op, one_fn what)
{
        uint64_t address[DS_IX_LANES], *p;

        ds_ix_addresses(w, op, address);
        w->cost.shared_instructions++;
        w->spun = 1;
        for (uint32_t left = w->mask; left; left &= left - 1) {
                uint32_t lane = (uint32_t)__builtin_ctz(left);

                p = object(w, op, lane, address[lane]);
                if (!p || !what(w, op, lane, p))
                        return NULL;
        }
        return op + 1;
}

static int init_one(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint64_t *p)
{
        uint32_t count = value32(w, op->b, lane, 0);
        struct mbarrier m = {.missing = count, .expected = count};

        if (count == 0 || count > COUNT_MAX) {
                ds_ix_fault(w, op, DS_INTERP_FAULT_ILLEGAL, lane, 0, "an mbarrier of %u threads", count);
                return 0;
        }
        put(w, p, &m);
        return 1;
}

static int inval_one(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint64_t *p)
{
        struct mbarrier m;

        if (!unpack(w, op, lane, *p, &m))
                return 0;
        *p = 0;
        return 1;
}

static int expect_one(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint64_t *p)
{
        struct mbarrier m;

        if (!unpack(w, op, lane, *p, &m) || !add_bytes(w, op, lane, &m, value32(w, op->b, lane, 0)))
                return 0;
        put(w, p, &m);
        return 1;
}

static int complete_one(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint64_t *p)
{
        struct mbarrier m;

        if (!unpack(w, op, lane, *p, &m) || !add_bytes(w, op, lane, &m, -(int64_t)value32(w, op->b, lane, 0)))
                return 0;
        put(w, p, &m);
        return 1;
}

static int arrive_one(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint64_t *p)
{
        uint32_t count = value32(w, op->b, lane, 1);
        uint64_t before = *p;
        struct mbarrier m;

        if (!unpack(w, op, lane, before, &m) || !add_bytes(w, op, lane, &m, value32(w, op->c, lane, 0)) ||
                !arrive(w, op, lane, &m, count))
                return 0;
        if (op->mode & DS_IX_ARRIVE_DROP)
                m.expected -= DS_MIN(count, m.expected);
        put(w, p, &m);
        if (op->d != DS_IX_NO_SLOT)
                ((uint64_t *)ds_ix_lanes(w, op->d))[lane] = before;
        return 1;
}

static int touch_one(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint64_t *p)
{
        struct mbarrier m;

        return unpack(w, op, lane, *p, &m);
}

const ds_ix_op *ds_ix_mbarrier_init(ds_ix_warp *w, const ds_ix_op *op)
{
        return each(w, op, init_one);
}

const ds_ix_op *ds_ix_mbarrier_inval(ds_ix_warp *w, const ds_ix_op *op)
{
        return each(w, op, inval_one);
}

const ds_ix_op *ds_ix_mbarrier_expect(ds_ix_warp *w, const ds_ix_op *op)
{
        return each(w, op, expect_one);
}

const ds_ix_op *ds_ix_mbarrier_complete(ds_ix_warp *w, const ds_ix_op *op)
{
        return each(w, op, complete_one);
}

const ds_ix_op *ds_ix_mbarrier_arrive(ds_ix_warp *w, const ds_ix_op *op)
{
        return each(w, op, arrive_one);
}

const ds_ix_op *ds_ix_mbarrier_touch(ds_ix_warp *w, const ds_ix_op *op)
{
        return each(w, op, touch_one);
}

int ds_ix_mbarrier_bytes(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint64_t address, uint32_t bytes)
{
        uint64_t *p = object(w, op, lane, address);
        struct mbarrier m;

        if (!p || !unpack(w, op, lane, *p, &m) || !add_bytes(w, op, lane, &m, -(int64_t)bytes))
                return 0;
        put(w, p, &m);
        return 1;
}

const ds_ix_op *ds_ix_mbarrier_pending(ds_ix_warp *w, const ds_ix_op *op)
{
        const uint64_t *state = ds_ix_lanes(w, op->a);
        uint32_t *d = ds_ix_lanes(w, op->d);

        for (uint32_t i = 0; i < DS_IX_LANES; i++)
                d[i] = w->mask >> i & 1 ? -(uint32_t)(state[i] >> MISSING_SHIFT) & COUNT_MAX : d[i];
        return op + 1;
}

/* --- waiting --- */
static const ds_ix_op *wait_in_vain(ds_ix_warp *w, const ds_ix_op *next)
{
        w->spun = 1;
        w->idle = 1;
        if (w->block->cluster->idle_rounds >= IDLE_ROUNDS)
                w->fuel -= DS_IX_SLICE;
        return ds_ix_expire(w, next);
}

const ds_ix_op *ds_ix_mbarrier_wait(ds_ix_warp *w, const ds_ix_op *op)
{
        uint64_t address[DS_IX_LANES], *p;
        uint32_t done = 0;

        ds_ix_addresses(w, op, address);
        w->cost.shared_instructions++;
        w->fuel -= op->count;
        for (uint32_t left = w->mask; left; left &= left - 1) {
                uint32_t lane = (uint32_t)__builtin_ctz(left), phase;
                struct mbarrier m;

                p = object(w, op, lane, address[lane]);
                if (!p || !unpack(w, op, lane, *p, &m))
                        return NULL;
                phase = op->mode ? value32(w, op->b, lane, 0) & 1
                                 : (uint32_t)(((const uint64_t *)ds_ix_lanes(w, op->b))[lane] >> PHASE_SHIFT);
                done |= m.phase != phase ? 1u << lane : 0;
        }
        ds_ix_set_pred(w, op->d, done);
        if (done != w->mask)
                return wait_in_vain(w, op + 1);
        w->block->cluster->moved = 1;
        return w->fuel < 0 ? ds_ix_expire(w, op + 1) : op + 1;
}

/* --- bulk copies --- */
#define BYTES_PER_INSTRUCTION 512

const ds_ix_op *ds_ix_address_of(ds_ix_warp *w, const ds_ix_op *op)
{
        uint64_t address[DS_IX_LANES];

        ds_ix_addresses(w, op, address);
        memcpy(ds_ix_lanes(w, op->d), address, sizeof(address));
        return op + 1;
}

/* Checks the memory at one end of a copy. Returns its host address; NULL: the access faulted. */
static uint8_t *end_of(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint64_t address, uint32_t size, int shared,
        enum ds_ix_intent intent)
{
        uint64_t window = shared ? DS_INTERP_SHARED_BASE >> 56 : 0;
        uint8_t *p = NULL;

        if (address & 15) {
                ds_ix_fault(w, op, DS_INTERP_FAULT_MISALIGNED, lane, address,
                        "misaligned bulk %s of %u bytes at 0x%llx", intent == DS_IX_READ ? "read" : "write", size,
                        (unsigned long long)address);
                return NULL;
        }
        if (address >> 56 == window)
                p = ds_ix_reach(w, address, size, intent, lane);
        if (!p)
                ds_ix_fault(w, op, DS_INTERP_FAULT_ADDRESS, lane, address, "invalid bulk %s of %u bytes at 0x%llx",
                        intent == DS_IX_READ ? "read" : "write", size, (unsigned long long)address);
        return p;
}

static void move_bytes(const ds_ix_op *op, uint8_t *to, const uint8_t *from, uint32_t size, uint32_t mask)
{
        const struct ds_ix_reduction *r = op->ext;

        if (r) {
                for (uint32_t k = 0; k < size; k += r->bytes)
                        r->apply(to + k, from + k, op->mode & DS_IX_BULK_TO_SHARED);
        } else if (mask == UINT16_MAX) {
                memmove(to, from, size);
        } else {
                for (uint32_t k = 0; k < size; k++)
                        to[k] = mask >> (k & 15) & 1 ? from[k] : to[k];
        }
}

/* Copies the bytes to one block of the cluster and counts them at that block's mbarrier. */
static int deliver(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint64_t target, uint64_t mbarrier,
        const uint8_t *from, uint32_t size, uint32_t mask)
{
        int to_shared = op->mode & DS_IX_BULK_TO_SHARED;
        uint8_t *to = end_of(w, op, lane, target, size, to_shared, DS_IX_WRITE);

        if (!to)
                return 0;
        move_bytes(op, to, from, size, mask);
        if (!to_shared)
                ds_ix_touch(w, target, size, op->ext ? DS_IX_ATOMIC : DS_IX_WRITE);
        w->fuel -= size / BYTES_PER_INSTRUCTION;
        return op->f == DS_IX_NO_SLOT || ds_ix_mbarrier_bytes(w, op, lane, mbarrier, size);
}

/* The address of the same location in another block's shared memory. */
static uint64_t in_block(uint64_t address, uint32_t rank)
{
        return (address & ~(UINT64_C(255) << DS_IX_RANK_SHIFT)) | (uint64_t)rank << DS_IX_RANK_SHIFT;
}

static int copy_one(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane)
{
        uint64_t source = ((const uint64_t *)ds_ix_lanes(w, op->a))[lane];
        uint64_t target = ((const uint64_t *)ds_ix_lanes(w, op->b))[lane], mbarrier = 0;
        uint32_t size = value32(w, op->c, lane, 0), mask = UINT16_MAX;
        int from_shared = op->mode & DS_IX_BULK_FROM_SHARED;
        const uint8_t *from;

        if (op->e != DS_IX_NO_SLOT)
                mask = ((const uint16_t *)ds_ix_lanes(w, op->e))[lane];
        if (op->f != DS_IX_NO_SLOT)
                mbarrier = ((const uint64_t *)ds_ix_lanes(w, op->f))[lane];
        if (size & 15) {
                ds_ix_fault(w, op, DS_INTERP_FAULT_MISALIGNED, lane, target,
                        "a bulk copy of %u bytes, which is not a multiple of 16", size);
                return 0;
        }
        from = end_of(w, op, lane, source, size, from_shared, DS_IX_READ);
        if (!from)
                return 0;
        if (!from_shared)
                ds_ix_touch(w, source, size, DS_IX_READ);
        if (!(op->mode & DS_IX_BULK_MULTICAST))
                return deliver(w, op, lane, target, mbarrier, from, size, mask);
        for (; mask; mask &= mask - 1) {
                uint32_t rank = (uint32_t)__builtin_ctz(mask);

                if (!deliver(w, op, lane, in_block(target, rank), in_block(mbarrier, rank), from, size, UINT16_MAX))
                        return 0;
        }
        return 1;
}

const ds_ix_op *ds_ix_bulk_copy(ds_ix_warp *w, const ds_ix_op *op)
{
        w->cost.memory_instructions++;
        w->cost.shared_instructions++;
        for (uint32_t left = w->mask; left; left &= left - 1) {
                if (!copy_one(w, op, (uint32_t)__builtin_ctz(left)))
                        return NULL;
        }
        w->fuel -= op->count;
        return w->fuel < 0 ? ds_ix_expire(w, op + 1) : op + 1;
}

/* Copies for one lane of cp.async: `some` bytes from memory, and zeros up to op->n bytes. Sectors that the previous
 * lane read are not counted again. */
static int some_one(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint32_t some, uint64_t *last)
{
        uint64_t source = ((const uint64_t *)ds_ix_lanes(w, op->a))[lane];
        uint64_t target = ((const uint64_t *)ds_ix_lanes(w, op->b))[lane];
        int misaligned = ((source | target) & (op->n - 1u)) != 0;
        uint64_t bad = misaligned && !(source & (op->n - 1u)) ? target : source;
        const uint8_t *from = NULL;
        uint8_t *to = NULL;

        if (!misaligned && some && source >> 56 == 0)
                from = ds_ix_reach(w, source, some, DS_IX_READ, lane);
        if (!misaligned && (from || !some)) {
                bad = target;
                if (target >> 56 == DS_INTERP_SHARED_BASE >> 56)
                        to = ds_ix_reach(w, target, op->n, DS_IX_WRITE, lane);
        }
        if (!to) {
                ds_ix_fault(w, op, misaligned ? DS_INTERP_FAULT_MISALIGNED : DS_INTERP_FAULT_ADDRESS, lane, bad,
                        "%s copy of %u bytes at 0x%llx", misaligned ? "misaligned" : "invalid", op->n,
                        (unsigned long long)bad);
                return 0;
        }
        if (from)
                memcpy(to, from, some);
        memset(to + some, 0, op->n - some);
        if (from && source >> DS_INTERP_SECTOR_BITS != *last)
                ds_ix_touch(w, source, some, DS_IX_READ);
        *last = from ? source >> DS_INTERP_SECTOR_BITS : *last;
        return 1;
}

const ds_ix_op *ds_ix_copy_some(ds_ix_warp *w, const ds_ix_op *op)
{
        uint32_t none = op->e == DS_IX_NO_SLOT ? 0 : ds_ix_pred(w, op->e);
        uint64_t last = UINT64_MAX;

        w->cost.memory_instructions++;
        w->cost.shared_instructions++;
        for (uint32_t left = w->mask; left; left &= left - 1) {
                uint32_t lane = (uint32_t)__builtin_ctz(left);
                uint32_t some = DS_MIN(value32(w, op->c, lane, op->n), (uint32_t)op->n);

                if (!some_one(w, op, lane, none >> lane & 1 ? 0 : some, &last))
                        return NULL;
        }
        return op + 1;
}
