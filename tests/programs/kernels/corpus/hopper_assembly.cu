/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: sm_90a only: warpgroup products, tensor copies, bulk copies, barriers in memory, multicast. */
// targets: sm_90a
#include <cstdint>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define SHARED(P) ((uint32_t)__cvta_generic_to_shared(P))

__device__ __forceinline__ void barrier_init(uint32_t bar, int count)
{
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count));
}

__device__ __forceinline__ void barrier_expect(uint32_t bar, int bytes)
{
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_wait(uint32_t bar, int parity)
{
        asm volatile("{\n\t"
                     ".reg .pred p;\n\t"
                     "AGAIN:\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t"
                     "@p bra DONE;\n\t"
                     "bra AGAIN;\n\t"
                     "DONE:\n\t"
                     "}" ::"r"(bar),
                     "r"(parity)
                     : "memory");
}

__device__ __forceinline__ uint64_t descriptor(const void *p)
{
        return (uint64_t)((SHARED(p) & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

/* Producer and consumers: one warp copies tiles through tensor maps, a warpgroup multiplies */
extern "C" __global__ void __launch_bounds__(256) hopper_gemm(
        const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float *c, int n, int k)
{
        __shared__ alignas(1024) half as[2][64 * 64], bs[2][64 * 64];
        __shared__ alignas(8) uint64_t full[2], empty[2];
        float d[32] = {};

        if (threadIdx.x == 0) {
                asm volatile("prefetch.tensormap [%0];" ::"l"(&a));
                asm volatile("prefetch.tensormap [%0];" ::"l"(&b));
                for (int s = 0; s < 2; s++) {
                        barrier_init(SHARED(&full[s]), 1);
                        barrier_init(SHARED(&empty[s]), 128);
                }
                asm volatile("fence.proxy.async.shared::cta;\n\tfence.mbarrier_init.release.cluster;");
        }
        __syncthreads();
        if (threadIdx.x >= 128) {
                asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
                if (threadIdx.x == 128) {
                        for (int t = 0; t < k / 64; t++) {
                                int s = t & 1;

                                barrier_wait(SHARED(&empty[s]), (t >> 1 & 1) ^ 1);
                                barrier_expect(SHARED(&full[s]), sizeof(as[0]) + sizeof(bs[0]));
                                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_"
                                             "tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(SHARED(as[s])),
                                             "l"(&a), "r"(t * 64), "r"((int)blockIdx.y * 64), "r"(SHARED(&full[s]))
                                             : "memory");
                                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
                                             "bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(SHARED(bs[s])),
                                             "l"(&b), "r"(t * 64), "r"((int)blockIdx.x * 64), "r"(SHARED(&full[s]))
                                             : "memory");
                        }
                }
                return;
        }
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        for (int t = 0; t < k / 64; t++) {
                int s = t & 1;

                barrier_wait(SHARED(&full[s]), t >> 1 & 1);
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
                for (int kk = 0; kk < 4; kk++) {
                        asm volatile("{\n\t"
                                     ".reg .pred p;\n\t"
                                     "setp.ne.b32 p, %34, 0;\n\t"
                                     "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                                     "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
                                     "%18, %19, %20, %21, %22, %23, "
                                     "%24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;\n\t"
                                     "}"
                                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                                     "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                                     "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                                     "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                                     "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                                     "+f"(d[30]), "+f"(d[31])
                                     : "l"(descriptor(as[s]) + kk * 2), "l"(descriptor(bs[s]) + kk * 2), "r"(t | kk));
                }
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
                asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SHARED(&empty[s])) : "memory");
        }
        for (int i = 0; i < 32; i++)
                c[(blockIdx.y * 64 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8) * n +
                        blockIdx.x * 64 + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] = d[i];
}

#define OUT4 "{%0, %1, %2, %3}"
#define WGMMA(NAME, TYPE, C, TEXT)                                                                                 \
        extern "C" __global__ void wgmma_##NAME(TYPE *out, const uint32_t *in)                                     \
        {                                                                                                          \
                __shared__ alignas(128) uint32_t s[2048];                                                          \
                TYPE d[4] = {};                                                                                    \
                uint32_t r[4] = {in[threadIdx.x], in[threadIdx.x + 1], in[threadIdx.x + 2], in[threadIdx.x + 3]};  \
                s[threadIdx.x] = in[threadIdx.x];                                                                  \
                asm volatile("fence.proxy.async;\n\twgmma.fence.sync.aligned;" ::: "memory");                      \
                asm volatile(TEXT                                                                                  \
                             : "+" C(d[0]), "+" C(d[1]), "+" C(d[2]), "+" C(d[3])                                  \
                             : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(descriptor(s)),                     \
                             "l"(descriptor(s + 512)), "r"(r[0]));                                                 \
                asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;" ::: "memory"); \
                for (int i = 0; i < 4; i++)                                                                        \
                        out[threadIdx.x * 4 + i] = d[i];                                                           \
        }

WGMMA(f16_registers, float, "f",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 " OUT4 ", {%4, %5, %6, %7}, %8, 1, -1, 1, 1;")
WGMMA(bf16, float, "f", "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 " OUT4 ", %8, %9, 1, 1, -1, 0, 1;")
WGMMA(tf32, float, "f", "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 " OUT4 ", %8, %9, 0, 1, 1;")
WGMMA(e4m3, float, "f", "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 " OUT4 ", %8, %9, 1, 1, 1;")
WGMMA(s8, int, "r", "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8.satfinite " OUT4 ", %8, %9, 1;")
WGMMA(b1, int, "r", "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc " OUT4 ", %8, %9, 1;")
WGMMA(sparse, float, "f",
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 " OUT4 ", %8, %9, %10, 0, 1, 1, 1, 0, 0;")

extern "C" __global__ void wgmma_halves(uint32_t *out)
{
        __shared__ alignas(128) uint32_t s[2048];
        uint32_t d[2] = {};

        s[threadIdx.x] = out[threadIdx.x];
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%0, %1}, %2, %3, 1, 1, 1, 0, 0;"
                     : "+r"(d[0]), "+r"(d[1])
                     : "l"(descriptor(s)), "l"(descriptor(s + 512)));
        asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 1;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        out[threadIdx.x] = d[0] + d[1];
}

extern "C" __global__ void tensor_copies(const __grid_constant__ CUtensorMap map, float *out, uint64_t policy)
{
        __shared__ alignas(1024) float s[4096];
        __shared__ alignas(8) uint64_t bar;
        uint32_t b = SHARED(&bar), d = SHARED(s);

        if (threadIdx.x == 0) {
                barrier_init(b, 1);
                asm volatile("fence.proxy.async.shared::cta;");
                barrier_expect(b, 4096);
#define LOAD(DIM, LIST)                                                                                             \
        asm volatile("cp.async.bulk.tensor." DIM                                                                    \
                     ".shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {" LIST "}], [%2];" ::"r"(d), \
                     "l"(&map), "r"(b), "r"(0), "r"(1)                                                              \
                     : "memory")
                LOAD("1d.tile", "%3");
                LOAD("3d", "%3, %4, %3");
                LOAD("4d", "%3, %4, %3, %4");
                LOAD("5d", "%3, %4, %3, %4, %3");
                asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
                             "[%1, {%3, %3, %3}], [%2], {%4};" ::"r"(d),
                             "l"(&map), "r"(b), "r"(0), "h"((short)1)
                             : "memory");
                asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
                             "[%1, {%3, %3, %3, %3}], [%2], {%4, %4};" ::"r"(d),
                             "l"(&map), "r"(b), "r"(0), "h"((short)1)
                             : "memory");
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
                             "cluster.L2::cache_hint "
                             "[%0], [%1, {%3, %3}], [%2], %4, %5;" ::"r"(d),
                             "l"(&map), "r"(b), "r"(0), "h"((short)3), "l"(policy)
                             : "memory");
        }
        barrier_wait(b, 0);
        s[threadIdx.x] *= 2;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
                asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %2}], [%1];" ::"l"(&map),
                             "r"(d), "r"(0)
                             : "memory");
                asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%2}], "
                             "[%1], %3;" ::"l"(&map),
                             "r"(d), "r"(0), "l"(policy)
                             : "memory");
                asm volatile(
                        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %2}], [%1];" ::
                                "l"(&map),
                        "r"(d), "r"(0)
                        : "memory");
                asm volatile(
                        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.max.bulk_group [%0, {%2, %2, %2}], [%1];" ::
                                "l"(&map),
                        "r"(d), "r"(0)
                        : "memory");
                asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group "
                             "1;\n\tcp.async.bulk.wait_group.read 0;" ::
                                     : "memory");
                asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %1}];" ::"l"(&map), "r"(8));
        }
        out[threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void tensor_map_edit(CUtensorMap *map, void *address)
{
        __shared__ alignas(128) CUtensorMap s;
        uint32_t m = SHARED(&s);

        if (threadIdx.x < 32) {
                ((uint32_t *)&s)[threadIdx.x] = ((const uint32_t *)map)[threadIdx.x];
                __syncwarp();
                if (threadIdx.x == 0) {
                        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(m),
                                     "l"(address)
                                     : "memory");
                        asm volatile("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], 1;" ::"r"(m) : "memory");
                        asm volatile(
                                "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 0, %1;" ::"r"(m), "r"(64)
                                : "memory");
                        asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 7;" ::"r"(m)
                                     : "memory");
                        asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 3;" ::"r"(m)
                                     : "memory");
                }
                __syncwarp();
                asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
                             "[%0], [%1], 128;" ::"l"(map),
                             "r"(m)
                             : "memory");
                asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
                asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
        }
}

extern "C" __global__ void bulk_copies(const float *in, float *out, uint4 *sums, int bytes)
{
        __shared__ alignas(128) float s[1024];
        __shared__ alignas(8) uint64_t bar;
        uint32_t b = SHARED(&bar), d = SHARED(s);

        if (threadIdx.x == 0) {
                barrier_init(b, 1);
                barrier_expect(b, bytes);
                asm volatile(
                        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                                d),
                        "l"(in), "r"(bytes), "r"(b)
                        : "memory");
                asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(in + 1024), "r"(bytes));
        }
        barrier_wait(b, 0);
        if (threadIdx.x == 0) {
                asm volatile(
                        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out), "r"(d), "r"(bytes)
                        : "memory");
                asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(sums),
                             "r"(d), "r"(bytes)
                             : "memory");
                asm volatile(
                        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%0], [%1], 64;" ::"l"(sums),
                        "r"(d)
                        : "memory");
                asm volatile(
                        "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.u64 [%0], [%1], 64;" ::"l"(sums), "r"(d)
                        : "memory");
                asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
        }
        out[threadIdx.x + 1024] = s[threadIdx.x];
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) bulk_between_blocks(const float *in, float *out, uint64_t policy)
{
        __shared__ alignas(128) float s[256], from[256];
        __shared__ alignas(8) uint64_t bar;
        uint32_t b = SHARED(&bar), d = SHARED(s), rank, far, there;

        asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(d), "r"(rank ^ 1));
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(b), "r"(rank ^ 1));
        from[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
        if (threadIdx.x == 0) {
                barrier_init(b, 1);
                barrier_expect(b, 1024 + 4 + 1024);
                asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;");
        }
        asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;");
        if (threadIdx.x == 0) {
                asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 1024, "
                             "[%2];" ::"r"(far),
                             "r"(SHARED(from)), "r"(there)
                             : "memory");
                asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], 1, "
                             "[%1];" ::"r"(far),
                             "r"(there)
                             : "memory");
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::"
                             "cache_hint [%0], [%1], 512, [%2], %3, %4;" ::"r"(d),
                             "l"(in), "r"(b), "h"((short)3), "l"(policy)
                             : "memory");
                asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.or.b32 "
                             "[%0], [%1], 64, [%2];" ::"r"(far),
                             "r"(SHARED(from)), "r"(there)
                             : "memory");
        }
        barrier_wait(b, 0);
        out[blockIdx.x * 256 + threadIdx.x] = s[threadIdx.x];
        asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;");
        asm volatile("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;");
        asm volatile("fence.acquire.sync_restrict::shared::cluster.cluster;\n\tfence.release.sync_restrict::shared::"
                     "cta.cluster;");
        asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;");
}

extern "C" __global__ void barrier_objects(int *out)
{
        __shared__ alignas(8) uint64_t bars[2];
        uint32_t b = SHARED(&bars[0]), c = SHARED(&bars[1]), done, pending;
        uint64_t token;

        if (threadIdx.x == 0) {
                barrier_init(b, blockDim.x);
                barrier_init(c, 2);
        }
        __syncthreads();
        asm volatile("mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %0, [%1], 1;"
                     : "=l"(token)
                     : "r"(c)
                     : "memory");
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(token));
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 16;\n\t"
                     "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 16;" ::"r"(c)
                     : "memory");
        asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 %0, [%1];" : "=l"(token) : "r"(b) : "memory");
        asm volatile("{ .reg .pred p;\n\t"
                     "L: mbarrier.test_wait.acquire.cta.shared::cta.b64 p, [%1], %2;\n\t"
                     "@!p bra L;\n\t"
                     "mbarrier.try_wait.acquire.cta.shared::cta.b64 p, [%1], %2, 100;\n\t"
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(b), "l"(token)
                     : "memory");
        asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];" : "=l"(token) : "r"(b) : "memory");
        asm volatile(
                "cp.async.mbarrier.arrive.shared.b64 [%0];\n\tcp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(c)
                : "memory");
        __syncthreads();
        if (threadIdx.x == 0)
                asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(b) : "memory");
        out[threadIdx.x] = (int)(done + pending);
}

extern "C" __global__ void multicast_sums(float *f, uint32_t *u, const float *in)
{
        float a, b, c, d;
        uint32_t v, h;

        asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(a) : "l"(f) : "memory");
        asm volatile("multimem.ld_reduce.weak.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(a), "=f"(b), "=f"(c), "=f"(d)
                     : "l"(f)
                     : "memory");
        asm volatile("multimem.ld_reduce.acquire.gpu.global.max.u32 %0, [%1];" : "=r"(v) : "l"(u) : "memory");
        asm volatile("multimem.ld_reduce.relaxed.gpu.global.add.acc::f32.bf16x2 %0, [%1];"
                     : "=r"(h)
                     : "l"(u)
                     : "memory");
        asm volatile("multimem.st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(f), "f"(a + b + c + d) : "memory");
        asm volatile("multimem.st.weak.global.v2.f32 [%0], {%1, %2};" ::"l"(f), "f"(a), "f"(in[0]) : "memory");
        asm volatile("multimem.red.release.sys.global.add.u32 [%0], %1;" ::"l"(u), "r"(v + h) : "memory");
        asm volatile("multimem.red.relaxed.gpu.global.add.v2.f16x2 [%0], {%1, %2};" ::"l"(u), "r"(v), "r"(h)
                     : "memory");
}

extern "C" __global__ void launch_dependence(float *data, int n)
{
        asm volatile("griddepcontrol.wait;" ::: "memory");
        data[blockIdx.x * blockDim.x + threadIdx.x] += n;
        asm volatile("griddepcontrol.launch_dependents;");
}

extern "C" __global__ void one_of_a_warp(int *out)
{
        uint32_t leader, mine;

        asm volatile("{ .reg .pred p; elect.sync %0|p, 0xffffffff; selp.u32 %1, 1, 0, p; }" : "=r"(leader), "=r"(mine));
        out[threadIdx.x] = (int)(leader * 2 + mine);
        asm volatile("{ .reg .pred p; elect.sync _|p, -1; @p red.global.add.u32 [%0], 1; }" ::"l"(out) : "memory");
}
