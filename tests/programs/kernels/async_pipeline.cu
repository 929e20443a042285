// SPDX-License-Identifier: Apache-2.0
// Asynchronous barriers, pipelines and bulk copies of CUDA C++. Kernels that need sm_90 exist only there.
#include <cuda/barrier>
#include <cuda/pipeline>
#include <stdint.h>

#pragma nv_diag_suppress static_var_with_dynamic_init // init() follows
#define TILE 64
using block_barrier = cuda::barrier<cuda::thread_scope_block>;

// Threads pass values around a ring; every step ends at the barrier.
extern "C" __global__ void barrier_ring(const uint32_t *in, uint32_t *out, int steps)
{
        __shared__ block_barrier barrier;
        __shared__ uint32_t cell[2][256];
        unsigned n = blockDim.x, i = threadIdx.x;

        if (i == 0)
                init(&barrier, n);
        cell[0][i] = in[blockIdx.x * n + i];
        __syncthreads();
        for (int k = 0; k < steps; k++) {
                cell[(k + 1) & 1][i] = cell[k & 1][(i + 1) % n] * 3 + (uint32_t)k;
                barrier.arrive_and_wait();
        }
        out[blockIdx.x * n + i] = cell[steps & 1][i];
}

// Threads leave one after the other; the others wait for a decreasing number.
extern "C" __global__ void barrier_drop(uint32_t *out)
{
        __shared__ block_barrier barrier;
        __shared__ uint32_t alive[64];
        unsigned i = threadIdx.x;

        if (i == 0)
                init(&barrier, blockDim.x);
        if (i < 64)
                alive[i] = 0;
        __syncthreads();
        for (unsigned k = 0; k < i; k++) {
                atomicAdd(&alive[k], 1);
                barrier.arrive_and_wait();
        }
        (void)barrier.arrive_and_drop();
        __syncthreads();
        out[i] = alive[i];
}

// Sums of tiles, copied two stages ahead
extern "C" __global__ void pipeline_sum(const uint32_t *in, uint32_t *out, int tiles)
{
        __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
        __shared__ uint32_t tile[2][TILE];
        unsigned i = threadIdx.x;
        uint32_t sum = 0;
        struct group {
                __device__ unsigned size() const { return blockDim.x; }
                __device__ unsigned thread_rank() const { return threadIdx.x; }
                __device__ void sync() const { __syncthreads(); }
        } block;
        auto pipe = cuda::make_pipeline(block, &state);

        for (int k = 0; k < tiles + 2; k++) {
                if (k < tiles) {
                        pipe.producer_acquire();
                        cuda::memcpy_async(&tile[k & 1][i], &in[k * TILE + i], sizeof(uint32_t), pipe);
                        pipe.producer_commit();
                }
                if (k >= 1 && k - 1 < tiles) {
                        pipe.consumer_wait();
                        sum = sum * 5 + tile[(k - 1) & 1][(i + 7) % TILE];
                        __syncthreads();
                        pipe.consumer_release();
                }
        }
        out[i] = sum;
}

#if __CUDA_ARCH__ >= 900
static __device__ uint32_t shared_address(const void *p)
{
        return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ void mbarrier_init(uint64_t *m, uint32_t count)
{
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(m)), "r"(count) : "memory");
}

static __device__ void mbarrier_arrive(uint64_t *m)
{
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(m)) : "memory");
}

static __device__ void mbarrier_expect(uint64_t *m, uint32_t bytes)
{
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(m)), "r"(bytes)
                     : "memory");
}

static __device__ void mbarrier_wait(uint64_t *m, uint32_t parity)
{
        asm volatile("{\n.reg .pred p;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra WAIT;\n}" ::"r"(
                             shared_address(m)),
                "r"(parity)
                : "memory");
}

static __device__ void copy_in(void *to, const void *from, uint32_t bytes, uint64_t *m)
{
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                             shared_address(to)),
                "l"(from), "r"(bytes), "r"(shared_address(m))
                : "memory");
}

// One warp loads tiles ahead into a ring; the others compute on them and add the results to memory.
extern "C" __global__ void bulk_ring(const uint32_t *in, uint32_t *out, int tiles)
{
        __shared__ alignas(128) uint32_t stage[4][TILE];
        __shared__ alignas(128) uint32_t made[4][TILE];
        __shared__ uint64_t full[4], empty[4];
        unsigned i = threadIdx.x;

        if (i == 0) {
                for (int s = 0; s < 4; s++) {
                        mbarrier_init(&full[s], 1);
                        mbarrier_init(&empty[s], TILE);
                }
                asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
        __syncthreads();
        if (i >= TILE) {
                for (int k = 0; i == TILE && k < tiles; k++) {
                        int s = k & 3;

                        mbarrier_wait(&empty[s], (uint32_t)((k >> 2) + 1) & 1);
                        mbarrier_expect(&full[s], sizeof(stage[s]));
                        copy_in(stage[s], in + (blockIdx.x * tiles + k) * TILE, sizeof(stage[s]), &full[s]);
                }
                return;
        }
        for (int k = 0; k < tiles; k++) {
                int s = k & 3;

                mbarrier_wait(&full[s], (uint32_t)(k >> 2) & 1);
                made[s][i] = stage[s][(i + 1) % TILE] * (uint32_t)(k + 1);
                mbarrier_arrive(&empty[s]);
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                asm volatile("bar.sync 1, 64;" ::: "memory");
                if (i == 0) {
                        asm volatile(
                                "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;\n"
                                "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 2;" ::"l"(out),
                                "r"(shared_address(made[s])), "r"((uint32_t)sizeof(made[s]))
                                : "memory");
                }
        }
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Reverses a block's part of memory through shared memory
extern "C" __global__ void bulk_reverse(const uint32_t *in, uint32_t *out)
{
        __shared__ alignas(128) uint32_t from[256], to[256];
        __shared__ uint64_t m;
        unsigned i = threadIdx.x;

        if (i == 0) {
                mbarrier_init(&m, 1);
                asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
                mbarrier_expect(&m, sizeof(from));
                copy_in(from, in + blockIdx.x * 256, 512, &m);
                copy_in(from + 128, in + blockIdx.x * 256 + 128, 512, &m);
        }
        __syncthreads();
        mbarrier_wait(&m, 0);
        to[255 - i] = from[i];
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (i == 0)
                asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                             "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::"l"(out + blockIdx.x * 256),
                        "r"(shared_address(to)), "r"((uint32_t)sizeof(to))
                        : "memory");
}
#endif
