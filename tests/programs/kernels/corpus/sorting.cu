/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: sorting, scans, selection, compaction. */
// targets: sm_86
#include <cstdint>

extern "C" __global__ void sort_bitonic_shared(unsigned *keys)
{
        __shared__ unsigned s[1024];
        unsigned i = threadIdx.x;

        s[i] = keys[blockIdx.x * 1024 + i];
        s[i + 512] = keys[blockIdx.x * 1024 + i + 512];
        for (unsigned size = 2; size <= 1024; size *= 2) {
                for (unsigned step = size / 2; step; step /= 2) {
                        unsigned at = 2 * i - (i & (step - 1)), up;

                        __syncthreads();
                        up = (at & size) == 0;
                        if ((s[at] > s[at + step]) == up) {
                                unsigned t = s[at];

                                s[at] = s[at + step];
                                s[at + step] = t;
                        }
                }
        }
        __syncthreads();
        keys[blockIdx.x * 1024 + i] = s[i];
        keys[blockIdx.x * 1024 + i + 512] = s[i + 512];
}

extern "C" __global__ void sort_bitonic_warp(float *keys)
{
        unsigned lane = threadIdx.x & 31;
        float key = keys[threadIdx.x];

        for (unsigned size = 2; size <= 32; size *= 2) {
                for (unsigned step = size / 2; step; step /= 2) {
                        float other = __shfl_xor_sync(~0u, key, step);
                        bool low = !(lane & step), up = !(lane & size);

                        key = low == up ? fminf(key, other) : fmaxf(key, other);
                }
        }
        keys[threadIdx.x] = key;
}

extern "C" __global__ void sort_odd_even(int *a, int n)
{
        for (int round = 0; round < n; round++) {
                int i = 2 * threadIdx.x + (round & 1);

                if (i + 1 < n && a[i] > a[i + 1]) {
                        int t = a[i];

                        a[i] = a[i + 1];
                        a[i + 1] = t;
                }
                __syncthreads();
        }
}

extern "C" __global__ void sort_rank(const double *in, double *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, rank = 0;

        if (i >= n)
                return;
        for (int j = 0; j < n; j++)
                rank += in[j] < in[i] || (in[j] == in[i] && j < i);
        out[rank] = in[i];
}

extern "C" __global__ void sort_radix_histogram(const unsigned *keys, unsigned *counts, int n, int shift)
{
        __shared__ unsigned s[16];

        if (threadIdx.x < 16)
                s[threadIdx.x] = 0;
        __syncthreads();
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
                atomicAdd(&s[keys[i] >> shift & 15], 1);
        __syncthreads();
        if (threadIdx.x < 16)
                counts[threadIdx.x * gridDim.x + blockIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void sort_radix_warp_rank(const unsigned *keys, unsigned *rank, unsigned *last, int shift)
{
        unsigned i = threadIdx.x, digit = keys[i] >> shift & 15, same = __match_any_sync(~0u, digit), before;

        asm("mov.u32 %0, %%lanemask_lt;" : "=r"(before));
        rank[i] = __popc(same & before);
        last[i] = 31 - __clz(same);
}

extern "C" __global__ void sort_radix_split(unsigned *keys, int bit)
{
        __shared__ unsigned s[256], zeros[8];
        unsigned i = threadIdx.x, key = keys[i], one = key >> bit & 1, ballot = __ballot_sync(~0u, !one), before,
                 total = 0, mine = 0;

        asm("mov.u32 %0, %%lanemask_lt;" : "=r"(before));
        if (i % 32 == 0)
                zeros[i / 32] = __popc(ballot);
        __syncthreads();
        for (unsigned w = 0; w < 8; w++) {
                mine += w < i / 32 ? zeros[w] : 0;
                total += zeros[w];
        }
        mine += __popc(ballot & before);
        s[one ? total + i - mine : mine] = key;
        __syncthreads();
        keys[i] = s[i];
}

extern "C" __global__ void sort_merge_path(const int *a, int m, const int *b, int n, int *out, int each)
{
        int diagonal = (blockIdx.x * blockDim.x + threadIdx.x) * each, low = max(0, diagonal - n),
            high = min(diagonal, m);

        while (low < high) {
                int middle = (low + high) / 2;

                if (a[middle] <= b[diagonal - 1 - middle])
                        low = middle + 1;
                else
                        high = middle;
        }
        for (int k = 0, i = low, j = diagonal - low; k < each && diagonal + k < m + n; k++)
                out[diagonal + k] = j >= n || (i < m && a[i] <= b[j]) ? a[i++] : b[j++];
}

extern "C" __global__ void scan_warp(const int *in, int *out)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];

        for (int step = 1; step < 32; step *= 2) {
                int other = __shfl_up_sync(~0u, v, step);

                if ((threadIdx.x & 31) >= step)
                        v += other;
        }
        out[i] = v;
}

extern "C" __global__ void scan_segmented(const int *in, const unsigned char *head, int *out)
{
        int i = threadIdx.x, v = in[i];
        unsigned heads = __ballot_sync(~0u, head[i]) | 1, upto;

        asm("mov.u32 %0, %%lanemask_le;" : "=r"(upto));
        upto = (i & 31) - (31 - __clz(heads & upto));
        for (unsigned step = 1; step < 32; step *= 2) {
                int other = __shfl_up_sync(~0u, v, step);

                v += step <= upto ? other : 0;
        }
        out[i] = v;
}

extern "C" __global__ void scan_look_back(
        const int *in, int *out, volatile int *state, volatile int *sums, unsigned *ticket)
{
        __shared__ int s[256], before, block;
        int i = threadIdx.x;

        if (i == 0)
                block = atomicInc(ticket, ~0u);
        __syncthreads();
        s[i] = in[block * 256 + i];
        for (int step = 1; step < 256; step *= 2) {
                int v;

                __syncthreads();
                v = i >= step ? s[i - step] : 0;
                __syncthreads();
                s[i] += v;
        }
        __syncthreads();
        if (i == 255) {
                int sum = 0;

                sums[2 * block] = s[255];
                __threadfence();
                state[block] = 1;
                for (int b = block - 1; b >= 0; b--) {
                        int st;

                        while (!(st = state[b]))
                                ;
                        __threadfence();
                        sum += sums[2 * b + (st == 2)];
                        if (st == 2)
                                break;
                }
                sums[2 * block + 1] = sum + s[255];
                __threadfence();
                state[block] = 2;
                before = sum;
        }
        __syncthreads();
        out[block * 256 + i] = s[i] + before;
}

extern "C" __global__ void scan_max(const float *in, float *out)
{
        __shared__ float s[2][128];
        int i = threadIdx.x, from = 0;

        s[0][i] = in[i];
        for (int step = 1; step < 128; step *= 2, from ^= 1) {
                __syncthreads();
                s[from ^ 1][i] = i >= step ? fmaxf(s[from][i], s[from][i - step]) : s[from][i];
        }
        __syncthreads();
        out[i] = s[from][i];
}

extern "C" __global__ void select_compact(const int *in, int *out, int *count, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, base = 0;
        bool keep = i < n && in[i] > 0;
        unsigned active = __activemask(), mask = __ballot_sync(active, keep), leader = __ffs(mask) - 1, before;

        asm("mov.u32 %0, %%lanemask_lt;" : "=r"(before));
        if (!keep)
                return;
        if ((threadIdx.x & 31) == leader)
                base = atomicAdd(count, __popc(mask));
        base = __shfl_sync(mask, base, leader);
        out[base + __popc(mask & before)] = in[i];
}

extern "C" __global__ void select_unique(const int *sorted, int *flags, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                flags[i] = i == 0 || sorted[i] != sorted[i - 1];
}

extern "C" __global__ void select_kth(const unsigned *keys, unsigned *out, int n, int k)
{
        __shared__ int ones;
        unsigned prefix = 0;

        for (int bit = 31; bit >= 0; bit--) {
                int mine = 0;

                if (threadIdx.x == 0)
                        ones = 0;
                __syncthreads();
                for (int i = threadIdx.x; i < n; i += blockDim.x)
                        mine += (keys[i] >> bit) == prefix >> bit;
                mine = __reduce_add_sync(~0u, mine);
                if (threadIdx.x % 32 == 0)
                        atomicAdd(&ones, mine);
                __syncthreads();
                if (k >= ones) {
                        k -= ones;
                        prefix |= 1u << bit;
                }
                __syncthreads();
        }
        *out = prefix;
}

extern "C" __global__ void select_lower_bound(const long long *sorted, int n, const long long *keys, int *where, int m)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, low = 0;

        if (i >= m)
                return;
        for (int length = n; length > 0;) {
                int half = length >> 1;

                if (sorted[low + half] < keys[i]) {
                        low += half + 1;
                        length -= half + 1;
                } else {
                        length = half;
                }
        }
        where[i] = low;
}

extern "C" __global__ void select_topk_insert(const float *in, float *best, int n)
{
        float top[8];

        for (int k = 0; k < 8; k++)
                top[k] = -INFINITY;
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
                float v = in[i];

                for (int k = 0; k < 8; k++) {
                        float keep = fmaxf(top[k], v);

                        v = fminf(top[k], v);
                        top[k] = keep;
                }
        }
        for (int k = 0; k < 8; k++)
                best[threadIdx.x * 8 + k] = top[k];
}

extern "C" __global__ void reduce_by_key(const int *keys, const double *values, double *sums, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        double v = i < n ? values[i] : 0;
        int key = i < n ? keys[i] : -1;

        for (int step = 1; step < 32; step *= 2) {
                double other = __shfl_down_sync(~0u, v, step);
                int k = __shfl_down_sync(~0u, key, step);

                if (k == key && (threadIdx.x & 31) + step < 32)
                        v += other;
        }
        if (i < n && ((threadIdx.x & 31) == 0 || __shfl_up_sync(__activemask(), key, 1) != key))
                atomicAdd(&sums[key], v);
}

extern "C" __global__ void reduce_integer_warp(const unsigned *in, unsigned *out)
{
        unsigned v = in[threadIdx.x];

        out[threadIdx.x * 6 + 0] = __reduce_add_sync(~0u, v);
        out[threadIdx.x * 6 + 1] = __reduce_min_sync(~0u, v);
        out[threadIdx.x * 6 + 2] = __reduce_max_sync(~0u, (int)v);
        out[threadIdx.x * 6 + 3] = __reduce_and_sync(~0u, v);
        out[threadIdx.x * 6 + 4] = __reduce_or_sync(~0u, v);
        out[threadIdx.x * 6 + 5] = __reduce_xor_sync(~0u, v);
}
