/* SPDX-License-Identifier: Apache-2.0 */
/* Round trip: matrix instructions and asynchronous copies that the target supports. */
#include <cstdint>
#include <cuda_fp16.h>
#include <mma.h>

extern "C" __global__ void rt_wmma(const half *a, const half *b, float *c, const signed char *ia, int *ic)
{
        using namespace nvcuda;
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
        wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> ga;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> gb;
        wmma::fragment<wmma::accumulator, 16, 16, 16, int> gc;

        wmma::fill_fragment(fc, 0.0f);
        wmma::load_matrix_sync(fa, a, 16);
        wmma::load_matrix_sync(fb, b, 16);
        wmma::mma_sync(fc, fa, fb, fc);
        wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
        wmma::fill_fragment(gc, 0);
        wmma::load_matrix_sync(ga, ia, 16);
        wmma::load_matrix_sync(gb, ia + 256, 16);
        wmma::mma_sync(gc, ga, gb, gc);
        wmma::store_matrix_sync(ic, gc, 16, wmma::mem_col_major);
}

extern "C" __global__ void rt_mma(const uint32_t *a, float *f, int *n)
{
        __shared__ uint4 tile[64];
        uint32_t s = (uint32_t)__cvta_generic_to_shared(tile + threadIdx.x % 32), r0, r1, r2, r3;
        float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
        int d0 = 0, d1 = 0;

        tile[threadIdx.x] = ((const uint4 *)a)[threadIdx.x];
        __syncthreads();
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                     : "r"(s));
        asm volatile(
                "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                : "r"(r0), "r"(r1), "r"(r2));
        asm volatile("mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+r"(d0), "+r"(d1)
                     : "r"(r2), "r"(r3));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(s));
        asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r2) : "r"(r0));
        n[threadIdx.x] = d0 + d1 + (int)(r0 ^ r1 ^ r2);
#if __CUDA_ARCH__ >= 800
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%4, %5}, {%0, %1, %2, %3};"
                     : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                     : "r"(r0), "r"(r1), "r"(r2), "r"(r3));
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%4, %5}, {%0, %1, %2, %3};"
                     : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                     : "r"(r0), "r"(r1), "r"(r2), "r"(r3));
        asm volatile("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%0, %1, %2, %3}, %4, 0x0;"
                     : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                     : "r"(r0), "r"(r1), "r"(r2), "r"(r3));
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(s), "l"(a));
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(s), "l"(a), "r"(8));
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;");
        asm volatile("cp.async.wait_all;");
#endif
        f[threadIdx.x] = c0 + c1 + c2 + c3 + (float)tile[threadIdx.x ^ 1].x;
}

extern "C" __global__ void rt_hopper(const float *a, float *out, int n)
{
#if __CUDA_ARCH__ >= 900
        __shared__ alignas(16) float buffer[256];
        __shared__ alignas(8) uint64_t bar;
        uint32_t b = (uint32_t)__cvta_generic_to_shared(&bar), d = (uint32_t)__cvta_generic_to_shared(buffer), r, rank;
        uint64_t state;

        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(n));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("fence.proxy.async.shared::cta;");
        asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %0, [%1], 1024;" : "=l"(state) : "r"(b));
        asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(d),
                "l"(a), "r"(b)
                : "memory");
        asm volatile("{\n\t"
                     ".reg .pred p;\n\t"
                     "WAIT: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], 0, 1000;\n\t"
                     "@!p bra WAIT;\n\t"
                     "mbarrier.test_wait.shared.b64 p, [%1], %2;\n\t"
                     "selp.b32 %0, 1, 0, p;\n\t"
                     "}"
                     : "=r"(r)
                     : "r"(b), "l"(state)
                     : "memory");
        asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(d) : "r"(d), "r"(rank ^ 1));
        asm volatile("barrier.cluster.arrive.release.aligned;");
        asm volatile("barrier.cluster.wait.acquire.aligned;");
        asm volatile(
                "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(d), "r"(r), "r"(b));
        asm volatile("{ .reg .pred p; elect.sync %0|p, -1; @p mbarrier.inval.shared::cta.b64 [%1]; }"
                     : "=r"(r)
                     : "r"(b));
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(out), "r"(d) : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group.read 0;");
        asm volatile("griddepcontrol.wait;");
        asm volatile("griddepcontrol.launch_dependents;");
        asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(d), "r"(r));
        asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(out), "f"(1.0f), "f"(buffer[n]));
        out[threadIdx.x] = buffer[threadIdx.x] + (float)r;
#else
        out[threadIdx.x] = a[n];
#endif
}

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
#define IN_CLUSTERS __cluster_dims__(2, 1, 1)
#else
#define IN_CLUSTERS
#endif

extern "C" __global__ void IN_CLUSTERS rt_cluster_dims(int *out)
{
        out[blockIdx.x] = (int)threadIdx.x;
}
