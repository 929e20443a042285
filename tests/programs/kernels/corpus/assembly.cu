/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: instructions that nvcc emits for inline assembly only: scalar, video, control, memory. */
// targets: sm_90 sm_75
#include <cstdint>

#define THREE(NAME, TEXT)                                                                 \
        __device__ uint32_t NAME(uint32_t a, uint32_t b, uint32_t c)                      \
        {                                                                                 \
                uint32_t d;                                                               \
                                                                                          \
                asm volatile(TEXT " %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c)); \
                return d;                                                                 \
        }
#define SECOND(NAME, TEXT, A, B)                                                                    \
        __device__ uint32_t NAME(uint32_t a, uint32_t b, uint32_t c)                                \
        {                                                                                           \
                uint32_t d;                                                                         \
                                                                                                    \
                asm volatile(TEXT " %0, %1" A ", %2" B ", %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c)); \
                return d;                                                                           \
        }

SECOND(v_add, "vadd.s32.s32.u32.sat.min", ".h0", ".b3")
SECOND(v_sub, "vsub.u32.s32.s32.add", ".b1", ".b2")
SECOND(v_absdiff, "vabsdiff.s32.s32.s32.sat.max", ".h1", ".h0")
SECOND(v_min, "vmin.u32.u32.u32.add", ".b0", "")
SECOND(v_max, "vmax.s32.s32.s32.min", "", ".b0")
SECOND(v_shl, "vshl.s32.s32.u32.sat.clamp.add", ".h0", ".b1")
SECOND(v_shr, "vshr.u32.u32.u32.wrap.min", "", ".b3")
SECOND(v_set, "vset.u32.s32.lt.add", ".b2", ".h1")
SECOND(v_mad, "vmad.s32.s32.s32.sat.shr15", ".h0", ".h1")
SECOND(v_mad_plus, "vmad.u32.u32.u32.po.shr7", ".b0", ".b1")
THREE(v_add2, "vadd2.s32.s32.s32.sat")
THREE(v_sub2, "vsub2.u32.u32.u32.add")
THREE(v_avrg2, "vavrg2.s32.u32.s32")
THREE(v_absdiff2, "vabsdiff2.u32.s32.s32.sat")
THREE(v_min2, "vmin2.s32.u32.s32")
THREE(v_max2, "vmax2.u32.u32.s32.add")
THREE(v_set2, "vset2.u32.s32.ge")
THREE(v_add4, "vadd4.u32.u32.u32.sat")
THREE(v_sub4, "vsub4.s32.s32.u32")
THREE(v_avrg4, "vavrg4.u32.u32.u32.add")
THREE(v_absdiff4, "vabsdiff4.u32.u32.u32.add")
THREE(v_min4, "vmin4.u32.u32.u32")
THREE(v_max4, "vmax4.s32.s32.s32")
THREE(v_set4, "vset4.s32.u32.ne")

extern "C" __global__ void assembly_video_scalar(const uint32_t *in, uint32_t *out)
{
        uint32_t a = in[threadIdx.x], b = in[threadIdx.x + 32], c = in[threadIdx.x + 64], *o = out + threadIdx.x * 10;

        o[0] = v_add(a, b, c), o[1] = v_sub(a, b, c), o[2] = v_absdiff(a, b, c), o[3] = v_min(a, b, c),
        o[4] = v_max(a, b, c);
        o[5] = v_shl(a, b, c), o[6] = v_shr(a, b, c), o[7] = v_set(a, b, c), o[8] = v_mad(a, b, c),
        o[9] = v_mad_plus(a, b, c);
}

extern "C" __global__ void assembly_video_simd(const uint32_t *in, uint32_t *out)
{
        uint32_t a = in[threadIdx.x], b = in[threadIdx.x + 32], c = in[threadIdx.x + 64], *o = out + threadIdx.x * 14;

        o[0] = v_add2(a, b, c), o[1] = v_sub2(a, b, c), o[2] = v_avrg2(a, b, c), o[3] = v_absdiff2(a, b, c),
        o[4] = v_min2(a, b, c);
        o[5] = v_max2(a, b, c), o[6] = v_set2(a, b, c), o[7] = v_add4(a, b, c), o[8] = v_sub4(a, b, c),
        o[9] = v_avrg4(a, b, c);
        o[10] = v_absdiff4(a, b, c), o[11] = v_min4(a, b, c), o[12] = v_max4(a, b, c), o[13] = v_set4(a, b, c);
        asm volatile("vadd2.s32.s32.s32.sat %0.h1, %1.h10, %2.h32, %0;" : "+r"(o[0]) : "r"(a), "r"(b));
        asm volatile("vadd4.u32.u32.u32 %0.b10, %1.b3210, %2.b7654, %0;" : "+r"(o[7]) : "r"(a), "r"(b));
}

extern "C" __global__ void assembly_odd_arithmetic(const int *in, const float *f, int *out, float *g)
{
        int a = in[threadIdx.x], b = in[threadIdx.x + 32], d, e, h, k;
        float x, y, z;

        asm volatile("mul24.lo.s32 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
        asm volatile("mul24.hi.u32 %0, %1, %2;" : "=r"(e) : "r"(a), "r"(b));
        asm volatile("mad24.hi.sat.s32 %0, %1, %2, %1;" : "=r"(h) : "r"(a), "r"(b));
        asm volatile("mad24.lo.u32 %0, %1, %2, %1;" : "=r"(k) : "r"(a), "r"(b));
        asm volatile("mad.rn.f32 %0, %1, %2, %1;" : "=f"(x) : "f"(f[0]), "f"(f[1]));
        asm volatile("mad.rz.ftz.sat.f32 %0, %1, %2, %1;" : "=f"(y) : "f"(f[0]), "f"(f[1]));
        asm volatile("copysign.f32 %0, %1, %2;" : "=f"(z) : "f"(f[0]), "f"(f[1]));
        out[threadIdx.x] = d + e + h + k;
        g[threadIdx.x] = x + y + z;
        asm volatile("slct.f32.f32 %0, %1, %2, %3;" : "=f"(x) : "f"(f[0]), "f"(f[1]), "f"(f[2]));
        asm volatile("slct.ftz.s32.f32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "f"(f[2]));
        asm volatile("bmsk.clamp.b32 %0, %1, %2;" : "=r"(e) : "r"(a), "r"(b));
        asm volatile("szext.wrap.u32 %0, %1, %2;" : "=r"(h) : "r"(a), "r"(b));
        asm volatile("fns.b32 %0, %1, %2, 3;" : "=r"(k) : "r"(a), "r"(b));
        out[threadIdx.x + 32] = d + e + h + k;
        asm volatile("sad.s32 %0, %1, %2, 5;" : "=r"(d) : "r"(a), "r"(b));
        asm volatile("set.leu.s32.f32 %0, %1, %2;" : "=r"(e) : "f"(f[0]), "f"(f[1]));
        asm volatile("{ .reg .pred p; setp.hs.u32 p, %1, %2; set.eq.and.u32.s32 %0, %1, %2, !p; }"
                     : "=r"(h)
                     : "r"(a), "r"(b));
        asm volatile("{ .reg .pred p; testp.infinite.f32 p, %1; selp.b32 %0, 1, 0, p; }" : "=r"(k) : "f"(f[0]));
        out[threadIdx.x + 64] = d + e + h + k;
        asm volatile("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(f[0]));
        asm volatile("sqrt.approx.ftz.f32 %0, %1;" : "=f"(z) : "f"(f[0]));
        g[threadIdx.x + 32] = x + y + z;
}

/* A jump table, as other compilers implement switches */
extern "C" __global__ void assembly_jump_table(const int *in, int *out)
{
        int v;

        asm volatile("{\n\t"
                     ".reg .pred p;\n\t"
                     "setp.gt.u32 p, %1, 3;\n\t"
                     "@p bra OTHER;\n\t"
                     "TARGETS: .branchtargets ZERO, ONE, TWO, ONE;\n\t"
                     "brx.idx %1, TARGETS;\n\t"
                     "ZERO: mov.u32 %0, 10;\n\tbra.uni DONE;\n\t"
                     "ONE: add.u32 %0, %1, 20;\n\tbra.uni DONE;\n\t"
                     "TWO: mul.lo.u32 %0, %1, 30;\n\tbra.uni DONE;\n\t"
                     "OTHER: neg.s32 %0, %1;\n\t"
                     "DONE:\n\t"
                     "}"
                     : "=r"(v)
                     : "r"(in[threadIdx.x]));
        out[threadIdx.x] = v;
}

extern "C" __global__ void assembly_stack(int *out)
{
        uint64_t mark, block;

        asm volatile("stacksave.u64 %0;" : "=l"(mark));
        asm volatile("{ .reg .u64 a; alloca.u64 a, %1; cvta.local.u64 %0, a; }" : "=l"(block) : "l"(64ull));
        ((int *)block)[threadIdx.x & 15] = threadIdx.x;
        out[threadIdx.x] = ((int *)block)[threadIdx.x & 7];
        asm volatile("stackrestore.u64 %0;" ::"l"(mark));
}

extern "C" __global__ void assembly_barriers(int *out)
{
        int n;

        if (threadIdx.x < 32)
                asm volatile("barrier.arrive 3, 64;");
        else
                asm volatile("barrier.sync 3, 64;");
        asm volatile("barrier.arrive.aligned 4, 128;\n\tbarrier.sync.aligned 5;");
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; barrier.red.popc.aligned.u32 %0, 6, p; }"
                     : "=r"(n)
                     : "r"(threadIdx.x));
        asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; barrier.red.or.pred q, 7, 64, p; @q add.u32 %0, %0, 1; }"
                     : "+r"(n)
                     : "r"(threadIdx.x));
        out[threadIdx.x] = n;
        asm volatile("membar.cta;\n\tmembar.gl;\n\tfence.acq_rel.gpu;\n\tfence.sc.cta;");
}

extern "C" __global__ void assembly_caches(const int *in, int *out)
{
        int v;

        asm volatile("prefetch.global.L1 [%0];\n\tprefetch.global.L2 [%0];\n\tprefetchu.L1 [%0];" ::"l"(in));
        asm volatile("ldu.global.u32 %0, [%1];" : "=r"(v) : "l"(in));
        out[0] = v;
        asm volatile("{ .reg .pred p; isspacep.local p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(v) : "l"(in));
        out[1] = v;
        asm volatile("pmevent 2;");
        asm volatile("pmevent.mask 5;");
#if __CUDA_ARCH__ >= 800
        uint64_t policy, other;

        asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(in));
        asm volatile("createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %0, [%1], 0x1000, 0x2000;"
                     : "=l"(policy)
                     : "l"(in));
        asm volatile("createpolicy.cvt.L2.b64 %0, 0x14F0000000000000;" : "=l"(other));
        asm volatile("ld.global.L1::evict_first.L2::cache_hint.L2::64B.b32 %0, [%1], %2;"
                     : "=r"(v)
                     : "l"(in), "l"(policy));
        asm volatile("st.global.L2::cache_hint.b32 [%0], %1, %2;" ::"l"(out + 2), "r"(v), "l"(other));
        asm volatile("createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %0, 0.5;" : "=l"(policy));
        asm volatile("atom.global.add.L2::cache_hint.u32 %0, [%1], 1, %2;" : "=r"(v) : "l"(out + 3), "l"(policy));
        asm volatile(
                "applypriority.global.L2::evict_normal [%0], 128;\n\tdiscard.global.L2 [%0], 128;" ::"l"(out + 64));
        out[4] = v;
#endif
#if __CUDA_ARCH__ >= 900
        asm volatile("fence.proxy.alias;\n\tfence.proxy.async;\n\tfence.proxy.async.global;\n\tmembar.proxy.alias;");
#endif
}

extern "C" __global__ void assembly_leave(int *out, int n)
{
        if (n == 1)
                asm volatile("exit;");
        if (n == 2)
                asm volatile("trap;");
        if (n == 3)
                asm volatile("brkpt;");
        asm volatile("nanosleep.u32 %0;" ::"r"(n));
        out[threadIdx.x] = n;
}

extern "C" __global__ void assembly_special_registers(unsigned *out)
{
#define READ(N, NAME)                                              \
        do {                                                       \
                unsigned v;                                        \
                asm volatile("mov.u32 %0, %%" NAME ";" : "=r"(v)); \
                out[threadIdx.x * 24 + N] = v;                     \
        } while (0)
        READ(0, "tid.x");
        READ(1, "ntid.y");
        READ(2, "ctaid.z");
        READ(3, "nctaid.x");
        READ(4, "laneid");
        READ(5, "warpid");
        READ(6, "nwarpid");
        READ(7, "smid");
        READ(8, "nsmid");
        READ(9, "lanemask_eq");
        READ(10, "lanemask_le");
        READ(11, "lanemask_gt");
        READ(12, "clock");
        READ(13, "clock_hi");
        READ(14, "globaltimer_lo");
        READ(15, "globaltimer_hi");
        READ(16, "pm0");
        READ(17, "envreg3");
        READ(18, "total_smem_size");
        READ(19, "dynamic_smem_size");
        READ(20, "pm7");
}
