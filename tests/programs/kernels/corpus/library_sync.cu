/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: atomics with scopes and orders, barriers and pipelines from the C++ library. */
// targets: sm_80 sm_90
#pragma nv_diag_suppress 20054 // barriers in shared memory are initialised by init()
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/semaphore>
#include <cuda/std/tuple>

extern "C" __global__ void sync_orders(int *data, unsigned long long *wide)
{
        cuda::atomic_ref<int, cuda::thread_scope_device> a(data[0]);
        cuda::atomic_ref<int, cuda::thread_scope_block> b(data[1]);
        cuda::atomic_ref<int, cuda::thread_scope_system> c(data[2]);
        cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> d(wide[0]);
        int expected = 5;

        a.fetch_add(1, cuda::memory_order_relaxed);
        b.fetch_sub(1, cuda::memory_order_acq_rel);
        c.fetch_or(4, cuda::memory_order_seq_cst);
        d.fetch_max(7ull, cuda::memory_order_release);
        data[3] = a.load(cuda::memory_order_acquire) + b.exchange(3, cuda::memory_order_relaxed);
        c.store(9, cuda::memory_order_release);
        a.compare_exchange_strong(expected, 6, cuda::memory_order_acq_rel);
        data[4] = expected + (int)d.fetch_and(0xff, cuda::memory_order_acquire) + c.fetch_xor(1) + b.fetch_min(2);
        cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
        cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_block);
}

extern "C" __global__ void sync_floats(float *f, double *d)
{
        cuda::atomic_ref<float, cuda::thread_scope_device> a(*f);
        cuda::atomic_ref<double, cuda::thread_scope_system> b(*d);

        a.fetch_add(1.5f, cuda::memory_order_relaxed);
        b.fetch_sub(2.5, cuda::memory_order_relaxed);
        b.fetch_max(3.0, cuda::memory_order_relaxed);
}

extern "C" __global__ void sync_small(unsigned char *bytes, unsigned short *shorts)
{
        cuda::atomic_ref<unsigned char, cuda::thread_scope_device> a(bytes[threadIdx.x]);
        cuda::atomic_ref<unsigned short, cuda::thread_scope_device> b(shorts[0]);

        a.fetch_add(1, cuda::memory_order_relaxed);
        b.fetch_or(2, cuda::memory_order_relaxed);
        shorts[1] = b.load(cuda::memory_order_relaxed);
}

extern "C" __global__ void sync_ticket_lock(unsigned *lock, long long *counter)
{
        cuda::atomic_ref<unsigned, cuda::thread_scope_device> next(lock[0]), now(lock[1]);

        if (threadIdx.x == 0) {
                unsigned mine = next.fetch_add(1, cuda::memory_order_relaxed);

                while (now.load(cuda::memory_order_acquire) != mine)
                        __nanosleep(20);
                *counter += blockIdx.x;
                now.store(mine + 1, cuda::memory_order_release);
        }
}

extern "C" __global__ void sync_barrier(int *data)
{
        using barrier = cuda::barrier<cuda::thread_scope_block>;
        __shared__ barrier b;
        __shared__ int s[256];

        if (threadIdx.x == 0)
                init(&b, blockDim.x);
        __syncthreads();
        s[threadIdx.x] = data[threadIdx.x];
        barrier::arrival_token token = b.arrive();

        b.wait(std::move(token));
        data[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
        b.arrive_and_wait();
        if (threadIdx.x == 0)
                b.arrive_and_drop();
}

extern "C" __global__ void sync_copy_barrier(const float4 *in, float4 *out, int each)
{
        extern __shared__ float4 buffer[];
        __shared__ cuda::barrier<cuda::thread_scope_block> b;

        if (threadIdx.x == 0)
                init(&b, blockDim.x);
        __syncthreads();
        cuda::memcpy_async(&buffer[threadIdx.x], &in[blockIdx.x * each + threadIdx.x], cuda::aligned_size_t<16>(16), b);
        b.arrive_and_wait();
        out[blockIdx.x * each + threadIdx.x] = buffer[each - 1 - threadIdx.x];
}

extern "C" __global__ void sync_pipeline(const int *in, int *out, int tiles)
{
        constexpr int STAGES = 3;
        __shared__ int s[STAGES][128];
        auto pipe = cuda::make_pipeline();
        int sum = 0;

        for (int t = 0; t < tiles + STAGES - 1; t++) {
                if (t < tiles) {
                        pipe.producer_acquire();
                        cuda::memcpy_async(&s[t % STAGES][threadIdx.x], &in[t * 128 + threadIdx.x],
                                cuda::aligned_size_t<4>(4), pipe);
                        pipe.producer_commit();
                } else {
                        pipe.producer_acquire();
                        pipe.producer_commit();
                }
                if (t >= STAGES - 1) {
                        cuda::pipeline_consumer_wait_prior<STAGES - 1>(pipe);
                        sum += s[(t - STAGES + 1) % STAGES][threadIdx.x];
                        pipe.consumer_release();
                }
        }
        out[threadIdx.x] = sum;
}

extern "C" __global__ void sync_semaphore(cuda::counting_semaphore<cuda::thread_scope_device, 4> *s, int *inside)
{
        if (threadIdx.x == 0) {
                s->acquire();
                atomicMax(&inside[1], atomicAdd(&inside[0], 1) + 1);
                atomicSub(&inside[0], 1);
                s->release();
        }
}

extern "C" __global__ void sync_tuple(const int *in, int *out)
{
        auto t = cuda::std::make_tuple(in[0], (float)in[1], (double)in[2]);

        out[0] = cuda::std::get<0>(t) + (int)cuda::std::get<1>(t) + (int)cuda::std::get<2>(t);
}
