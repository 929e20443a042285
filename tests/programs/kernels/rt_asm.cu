/* SPDX-License-Identifier: Apache-2.0 */
/* Round trip: inline assembly with its own scopes, rare instructions, constants in every notation. */
#include <cstdint>

__device__ __forceinline__ uint32_t scoped(uint32_t a, uint32_t b)
{
        uint32_t r;

        asm("{\n\t"
            ".reg .pred p, q;\n\t"
            ".reg .u32 t<3>;\n\t"
            "setp.lt.u32 p|q, %1, %2;\n\t"
            "@p bra DONE;\n\t"
            "add.u32 t0, %1, 0x10;\n\t"
            "add.u32 t1, t0, 0b101;\n\t"
            "sub.u32 t2, t1, 010;\n\t"
            "mov.u32 %0, t2;\n\t"
            "@q bra END;\n\t"
            "DONE: mov.u32 %0, (1 + 2) * 3 - WARP_SZ / 4;\n\t"
            "END:\n\t"
            "}"
                : "=r"(r)
                : "r"(a), "r"(b));
        return r;
}

extern "C" __global__ void rt_scopes(const uint32_t *a, uint32_t *out)
{
        int i = threadIdx.x;

        out[i] = scoped(a[i], a[i + 1]) + scoped(a[i + 2], 7) + scoped(3, a[i]);
}

extern "C" __global__ void rt_carry(const uint32_t *a, const uint64_t *w, uint32_t *out, uint64_t *wide)
{
        uint32_t lo, mid, hi, top;
        uint64_t x, y;

        asm volatile("add.cc.u32 %0, %4, %5;\n\taddc.cc.u32 %1, %6, %7;\n\taddc.u32 %2, %4, 0;\n\tmov.b32 %3, %2;"
                     : "=r"(lo), "=r"(mid), "=r"(hi), "=r"(top)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]));
        out[0] = lo ^ mid ^ hi ^ top;
        asm volatile("sub.cc.u32 %0, %2, %3;\n\tsubc.u32 %1, %4, %5;"
                     : "=r"(lo), "=r"(hi)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]));
        out[1] = lo ^ hi;
        asm volatile("mad.lo.cc.u32 %0, %2, %3, %4;\n\tmadc.hi.cc.u32 %1, %2, %3, %5;\n\tmadc.hi.u32 %0, %2, %3, 0;"
                     : "=r"(lo), "=r"(hi)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]));
        out[2] = lo ^ hi;
        asm volatile("add.cc.u64 %0, %2, %3;\n\taddc.u64 %1, %2, %3;" : "=l"(x), "=l"(y) : "l"(w[0]), "l"(w[1]));
        wide[0] = x ^ y;
        asm volatile("add.sat.s32 %0, %1, %2;" : "=r"(lo) : "r"(a[4]), "r"(a[5]));
        asm volatile("mad.hi.sat.s32 %0, %1, %2, %1;" : "=r"(hi) : "r"(a[4]), "r"(a[5]));
        asm volatile("mad24.lo.s32 %0, %1, %2, %1;" : "=r"(top) : "r"(a[4]), "r"(a[5]));
        out[3] = lo ^ hi ^ top;
}

extern "C" __global__ void rt_logic(const uint32_t *a, uint32_t *out, uint64_t *wide)
{
        uint32_t r, s, t, u;
        uint64_t z;
        uint16_t h, l;

        asm volatile("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(r) : "r"(a[0]), "r"(a[1]), "r"(a[2]));
        asm volatile(
                "{ .reg .pred p, q; setp.ne.u32 q, %1, 0; lop3.or.b32 %0|p, %1, %2, 5, 0x3c, q; @p not.b32 %0, %0; }"
                : "=r"(s)
                : "r"(a[0]), "r"(a[1]));
        asm volatile("prmt.b32.f4e %0, %1, %2, 3;" : "=r"(t) : "r"(a[0]), "r"(a[1]));
        asm volatile("prmt.b32.rc16 %0, %1, %2, %3;" : "=r"(u) : "r"(a[0]), "r"(a[1]), "r"(a[2]));
        out[0] = r ^ s ^ t ^ u;
        asm volatile("bfe.s32 %0, %1, 3, 9;" : "=r"(r) : "r"(a[0]));
        asm volatile("bfi.b32 %0, %1, %2, %3, 8;" : "=r"(s) : "r"(a[0]), "r"(a[1]), "r"(a[2]));
        asm volatile("bfind.shiftamt.u32 %0, %1;" : "=r"(t) : "r"(a[0]));
        asm volatile("szext.clamp.s32 %0, %1, %2;" : "=r"(u) : "r"(a[0]), "r"(a[1]));
        out[1] = r ^ s ^ t ^ u;
        asm volatile("bmsk.wrap.b32 %0, %1, 12;" : "=r"(r) : "r"(a[0]));
        asm volatile("cnot.b32 %0, %1;" : "=r"(s) : "r"(a[0]));
        asm volatile("shf.l.clamp.b32 %0, %1, %2, %3;" : "=r"(t) : "r"(a[0]), "r"(a[1]), "r"(a[2]));
        asm volatile("slct.b32.s32 %0, %1, 4, %2;" : "=r"(u) : "r"(a[0]), "r"(a[1]));
        out[2] = r ^ s ^ t ^ u;
        asm volatile("mov.b64 {%0, %1}, %2;" : "=r"(r), "=r"(s) : "l"(wide[0]));
        asm volatile("mov.b64 %0, {%1, %2};" : "=l"(z) : "r"(s), "r"(r));
        asm volatile("mov.b32 {%0, %1}, %2;" : "=h"(h), "=h"(l) : "r"(r));
        asm volatile("mov.b32 %0, {%1, %2};" : "=r"(t) : "h"(l), "h"(h));
        asm volatile("{ .reg .b32 x; mov.b64 {x, _}, %1; mov.b32 %0, x; }" : "=r"(u) : "l"(z));
        asm volatile("cvt.pack.sat.s16.s32 %0, %1, %2;" : "=r"(s) : "r"(a[0]), "r"(a[1]));
        asm volatile("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %0;" : "+r"(s) : "r"(a[0]), "r"(a[1]));
        out[3] = t ^ u ^ s;
        wide[1] = z;
        asm volatile("vadd.s32.u32.s32.sat.max %0, %1.b0, %2.h1, %1;" : "=r"(r) : "r"(a[0]), "r"(a[1]));
        asm volatile("vmad.s32.s32.u32.sat.shr7 %0, %1.h0, -%2.h1, %1;" : "=r"(s) : "r"(a[0]), "r"(a[1]));
        asm volatile("vabsdiff4.u32.u32.u32.add %0, %1, %2, %1;" : "=r"(t) : "r"(a[0]), "r"(a[1]));
        asm volatile("vset.u32.u32.ge %0.b3, %1, %2.b2, %1;" : "=r"(u) : "r"(a[0]), "r"(a[1]));
        out[4] = r ^ s ^ t ^ u;
}

extern "C" __global__ void rt_predicates(const float *a, const int *b, int *out)
{
        int r;

        asm volatile("{\n\t"
                     ".reg .pred p, q, r, s;\n\t"
                     "setp.lt.and.f32 p, %1, 0f3F800000, p;\n\t"
                     "setp.nan.f32 q, %1, %2;\n\t"
                     "and.pred r, p, q;\n\t"
                     "not.pred s, r;\n\t"
                     "xor.pred s, s, p;\n\t"
                     "selp.s32 %0, 5, -6, s;\n\t"
                     "@!q add.s32 %0, %0, 1;\n\t"
                     "testp.subnormal.f32 p, %2;\n\t"
                     "setp.eq.or.s32 p|q, %3, %3, !p;\n\t"
                     "@q mov.b32 %0, 7;\n\t"
                     "set.gt.u32.f32 %0, %1, %2;\n\t"
                     "vote.sync.any.pred p, !q, -1;\n\t"
                     "@p bra.uni SKIP;\n\t"
                     "isspacep.global p, %4;\n\t"
                     "selp.b32 %0, 1, 2, p;\n\t"
                     "SKIP:\n\t"
                     "}"
                     : "=&r"(r)
                     : "f"(a[0]), "f"(a[1]), "r"(b[0]), "l"(a));
        out[0] = r;
}

extern "C" __global__ void rt_barriers(int *out, int n)
{
        int r, i = threadIdx.x;

        asm volatile("bar.sync 1, 64;");
        asm volatile("bar.sync %0, %1;" ::"r"(n), "r"(n * 32));
        asm volatile("barrier.sync 2;");
        asm volatile("barrier.sync.aligned 3, 64;");
        if (i < 32)
                asm volatile("bar.arrive 4, 64;");
        else
                asm volatile("bar.sync 4, 64;");
        asm volatile("{ .reg .pred p, q; setp.gt.s32 p, %1, 3; bar.red.and.pred q, 0, p; selp.b32 %0, 1, 0, q; }"
                     : "=r"(r)
                     : "r"(i));
        out[i] = r;
        asm volatile("{ .reg .pred p; setp.gt.s32 p, %1, 3; barrier.red.popc.u32 %0, 0, 64, !p; }" : "=r"(r) : "r"(i));
        out[i + 64] = r;
        asm volatile("bar.warp.sync -1;");
        asm volatile("pmevent 3;");
}
