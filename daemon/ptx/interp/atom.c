/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic operations
 *
 * Lanes are processed in order. On global memory each is a real atomic of the host, because two launches may run on two
 * threads over the same memory. Shared memory belongs to one block or cluster, which runs on one thread. Additions of
 * floats on global memory flush subnormals, as the hardware does there; on shared memory they do not.
 */
#include "ptx/interp/async.h"
#include "ptx/interp/half.h"

#define T(name) DS_PTX_TYPE_##name

static uint32_t float_add(uint32_t a, uint32_t b, int flush)
{
        float x = ds_ix_float(a), y = ds_ix_float(b);

        if (!flush)
                return ds_ix_canonical(x + y);
        return ds_ix_canonical(ds_ix_ftz(ds_ix_ftz(x) + ds_ix_ftz(y)));
}

/* Adds two doubles. A NaN: on global memory it passes unchanged, the operand first; on shared memory it becomes
 * quiet, the old value first. */
static uint64_t double_add(uint64_t old, uint64_t b, int shared)
{
        double x = ds_ix_double(old), y = ds_ix_double(b), r = x + y;
        uint64_t quiet = UINT64_C(1) << 51;

        if (r == r)
                return ds_ix_bits64(r);
        if (shared)
                return x != x ? old | quiet : y != y ? b | quiet : UINT64_C(0xfff8000000000000);
        return y != y ? b : x != x ? old : UINT64_C(0xfff8000000000000);
}

static uint16_t half_add(uint16_t a, uint16_t b)
{
        return ds_ix_to_half(ds_ix_from_half(a) + ds_ix_from_half(b));
}

static uint16_t bf16_add(uint16_t a, uint16_t b)
{
        return ds_ix_to_bf16(ds_ix_from_bf16(a) + ds_ix_from_bf16(b));
}

/* Minimum or maximum of bit patterns: -0 is less than +0, a number wins over a NaN. */
static uint16_t half_order(uint16_t a, uint16_t b, uint16_t infinity, int max)
{
        uint16_t x = a & 0x8000u ? (uint16_t)~a : a | 0x8000u, y = b & 0x8000u ? (uint16_t)~b : b | 0x8000u;
        int nan_a = (a & 0x7fffu) > infinity, nan_b = (b & 0x7fffu) > infinity;

        if (nan_a || nan_b)
                return nan_a && nan_b ? DS_IX_NAN16 : nan_a ? b : a;
        return (x < y) != max ? a : b;
}

#define HALF_ORDER(name, infinity, max)                   \
        static uint16_t name(uint16_t a, uint16_t b)      \
        {                                                 \
                return half_order(a, b, (infinity), max); \
        }
HALF_ORDER(half_min, 0x7c00u, 0)
HALF_ORDER(half_max, 0x7c00u, 1)
HALF_ORDER(bf16_min, 0x7f80u, 0)
HALF_ORDER(bf16_max, 0x7f80u, 1)

#define LOW(v) ((uint16_t)(v))
#define HIGH(v) ((uint16_t)((v) >> 16))
#define PAIR(f) ((uint32_t)f(LOW(old), LOW(b)) | (uint32_t)f(HIGH(old), HIGH(b)) << 16)

/* list of the handlers: name, type of the memory cell, value to store, computed from `old` and the operands b and c */
#define ATOMICS(X)                                                \
        X(add_32, uint32_t, old + b)                              \
        X(add_64, uint64_t, old + b)                              \
        X(add_f32, uint32_t, float_add(old, b, flush))            \
        X(add_f64, uint64_t, double_add(old, b, alone))           \
        X(add_f16, uint16_t, half_add(old, b))                    \
        X(add_bf16, uint16_t, bf16_add(old, b))                   \
        X(add_f16x2, uint32_t, PAIR(half_add))                    \
        X(add_bf16x2, uint32_t, PAIR(bf16_add))                   \
        X(and_32, uint32_t, old &b)                               \
        X(and_64, uint64_t, old &b)                               \
        X(or_32, uint32_t, old | b)                               \
        X(or_64, uint64_t, old | b)                               \
        X(xor_32, uint32_t, old ^ b)                              \
        X(xor_64, uint64_t, old ^ b)                              \
        X(min_u32, uint32_t, old < b ? old : b)                   \
        X(min_s32, uint32_t, (int32_t)old < (int32_t)b ? old : b) \
        X(min_u64, uint64_t, old < b ? old : b)                   \
        X(min_s64, uint64_t, (int64_t)old < (int64_t)b ? old : b) \
        X(max_u32, uint32_t, old > b ? old : b)                   \
        X(max_s32, uint32_t, (int32_t)old > (int32_t)b ? old : b) \
        X(max_u64, uint64_t, old > b ? old : b)                   \
        X(max_s64, uint64_t, (int64_t)old > (int64_t)b ? old : b) \
        X(min_f16, uint16_t, half_min(old, b))                    \
        X(min_bf16, uint16_t, bf16_min(old, b))                   \
        X(min_f16x2, uint32_t, PAIR(half_min))                    \
        X(min_bf16x2, uint32_t, PAIR(bf16_min))                   \
        X(max_f16, uint16_t, half_max(old, b))                    \
        X(max_bf16, uint16_t, bf16_max(old, b))                   \
        X(max_f16x2, uint32_t, PAIR(half_max))                    \
        X(max_bf16x2, uint32_t, PAIR(bf16_max))                   \
        X(inc_32, uint32_t, old >= b ? 0 : old + 1)               \
        X(dec_32, uint32_t, old == 0 || old > b ? b : old - 1)    \
        X(exch_32, uint32_t, b)                                   \
        X(exch_64, uint64_t, b)                                   \
        X(cas_16, uint16_t, old == b ? c : old)                   \
        X(cas_32, uint32_t, old == b ? c : old)                   \
        X(cas_64, uint64_t, old == b ? c : old)

#define X(name, U, value)                                                                                       \
        static U do_##name(U *cell, U b, U c, int alone)                                                        \
        {                                                                                                       \
                U old = __atomic_load_n(cell, __ATOMIC_RELAXED), new;                                           \
                int flush = !alone;                                                                             \
                                                                                                                \
                (void)flush;                                                                                    \
                (void)b;                                                                                        \
                (void)c;                                                                                        \
                do {                                                                                            \
                        new = (U)(value);                                                                       \
                        if (alone) {                                                                            \
                                *cell = new;                                                                    \
                                break;                                                                          \
                        }                                                                                       \
                } while (!__atomic_compare_exchange_n(cell, &old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)); \
                return old;                                                                                     \
        }                                                                                                       \
        static const ds_ix_op *name(ds_ix_warp *w, const ds_ix_op *op)                                          \
        {                                                                                                       \
                const U *pb = ds_ix_lanes(w, op->b), *pc = op->c == DS_IX_NO_SLOT ? pb : ds_ix_lanes(w, op->c); \
                U *pd = op->d == DS_IX_NO_SLOT ? NULL : ds_ix_lanes(w, op->d);                                  \
                struct ds_ix_access x;                                                                          \
                                                                                                                \
                if (!ds_ix_resolve(w, op, DS_IX_ATOMIC, &x))                                                    \
                        return NULL;                                                                            \
                w->spun = 1;                                                                                    \
                for (unsigned i = 0; i < DS_IX_LANES; i++) {                                                    \
                        U old;                                                                                  \
                                                                                                                \
                        if (!(w->mask & ds_ix_bit[i]))                                                          \
                                continue;                                                                       \
                        old = do_##name((U *)(uintptr_t)x.p[i], pb[i], pc[i],                                   \
                                op->space == DS_IX_SHARED || op->space == DS_IX_CLUSTER);                       \
                        if (pd)                                                                                 \
                                pd[i] = old;                                                                    \
                }                                                                                               \
                return op + 1;                                                                                  \
        }                                                                                                       \
        static void apply_##name(void *cell, const void *with, int alone)                                       \
        {                                                                                                       \
                U b = *(const U *)with;                                                                         \
                                                                                                                \
                (void)do_##name(cell, b, b, alone);                                                             \
        }                                                                                                       \
        static const struct atomic impl_##name = {{{name, name}}, {apply_##name, sizeof(U)}};

struct atomic {
        struct ds_ix_impl impl;
        struct ds_ix_reduction element;
};
ATOMICS(X)
#undef X

/* --- 128 bits --- */
typedef struct {
        uint64_t word[2];
} b128;

/* Stores `new` if the cell holds `old`. Returns 1 if it stored it; *old receives the previous value. */
static int exchange_128(b128 *cell, b128 *old, const b128 *new)
{
#if defined(__x86_64__)
        uint8_t done;

        __asm__ volatile("lock cmpxchg16b %1\n\tsete %0"
                         : "=q"(done), "+m"(*cell), "+a"(old->word[0]), "+d"(old->word[1])
                         : "b"(new->word[0]), "c"(new->word[1])
                         : "memory", "cc");
        return done;
#else
        /* without 128-bit atomics of the host, this flag makes these operations atomic, but only among each other */
        static atomic_flag busy = ATOMIC_FLAG_INIT;
        int done;

        while (atomic_flag_test_and_set(&busy))
                ;
        done = memcmp(cell, old, sizeof(*cell)) == 0;
        if (done)
                *cell = *new;
        else
                *old = *cell;
        atomic_flag_clear(&busy);
        return done;
#endif
}

/* Handler of atom.exch.b128 (no operand c) and atom.cas.b128 (operand c). */
static const ds_ix_op *atomic_128(ds_ix_warp *w, const ds_ix_op *op)
{
        const b128 *pb = ds_ix_lanes(w, op->b), *pc = op->c == DS_IX_NO_SLOT ? NULL : ds_ix_lanes(w, op->c);
        b128 *pd = op->d == DS_IX_NO_SLOT ? NULL : ds_ix_lanes(w, op->d);
        struct ds_ix_access x;

        if (!ds_ix_resolve(w, op, DS_IX_ATOMIC, &x))
                return NULL;
        w->spun = 1;
        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                b128 *cell = (b128 *)(uintptr_t)x.p[i], old = pb[i];

                if (!(w->mask & ds_ix_bit[i]))
                        continue;
                if (pc)
                        (void)exchange_128(cell, &old, &pc[i]);
                else
                        while (!exchange_128(cell, &old, &pb[i]))
                                ;
                if (pd)
                        pd[i] = old;
        }
        return op + 1;
}
static const struct atomic impl_128 = {.impl = {{atomic_128, atomic_128}}};

typedef const struct atomic *by_type[_DS_PTX_TYPE_MAX];
#define BITS(f)                                                                                                     \
        [T(B32)] = &impl_##f##_32, [T(B64)] = &impl_##f##_64, [T(U32)] = &impl_##f##_32, [T(U64)] = &impl_##f##_64, \
        [T(S32)] = &impl_##f##_32, [T(S64)] = &impl_##f##_64
#define ORDERED(f)                                                                            \
        [T(U32)] = &impl_##f##_u32, [T(S32)] = &impl_##f##_s32, [T(U64)] = &impl_##f##_u64,   \
        [T(S64)] = &impl_##f##_s64, [T(F16)] = &impl_##f##_f16, [T(BF16)] = &impl_##f##_bf16, \
        [T(F16X2)] = &impl_##f##_f16x2, [T(BF16X2)] = &impl_##f##_bf16x2

static const struct atomic *find_operation(enum ds_ptx_modifier what, enum ds_ptx_type type)
{
        static const by_type add = {BITS(add), [T(F32)] = &impl_add_f32, [T(F64)] = &impl_add_f64,
                [T(F16)] = &impl_add_f16, [T(BF16)] = &impl_add_bf16, [T(F16X2)] = &impl_add_f16x2,
                [T(BF16X2)] = &impl_add_bf16x2};
        static const by_type and = {BITS(and)}, or = {BITS(or)},
                             xor = {
                                     BITS(xor)};
        static const by_type min = {ORDERED(min)}, max = {ORDERED(max)};
        static const by_type inc = {[T(U32)] = &impl_inc_32}, dec = {[T(U32)] = &impl_dec_32};

        switch ((int)what) {
        case DS_PTX_ATOM_ADD:
                return add[type];
        case DS_PTX_ATOM_AND:
                return and[type];
        case DS_PTX_ATOM_OR:
                return or [type];
        case DS_PTX_ATOM_XOR:
                return xor[type];
        case DS_PTX_ATOM_MIN:
                return min[type];
        case DS_PTX_ATOM_MAX:
                return max[type];
        case DS_PTX_ATOM_INC:
                return inc[type];
        case DS_PTX_ATOM_DEC:
                return dec[type];
        default:
                return NULL;
        }
}

const struct ds_ix_reduction *ds_ix_find_reduction(enum ds_ptx_modifier what, enum ds_ptx_type type)
{
        const struct atomic *a = find_operation(what, type);

        return a ? &a->element : NULL;
}

const struct ds_ix_impl *ds_ix_find_atomic(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        static const by_type exch = {BITS(exch), [T(F32)] = &impl_exch_32, [T(B128)] = &impl_128};
        static const by_type cas = {BITS(cas), [T(B16)] = &impl_cas_16, [T(B128)] = &impl_128};
        enum ds_ptx_type type = in->types[0];
        const struct atomic *a;

        op->n = 1;
        op->size = (uint8_t)(ds_ptx_type_bits(type) / 8);
        switch (in->op) {
        case DS_PTX_OP_ATOM_CAS:
                a = cas[type];
                break;
        case DS_PTX_OP_ATOM_EXCH:
                a = exch[type];
                break;
        default:
                a = find_operation(ds_ptx_mod(in, DS_PTX_ATOM_ADD), type);
        }
        return a ? &a->impl : NULL;
}
