/* SPDX-License-Identifier: Apache-2.0 */
/* Prefix sums: Hillis-Steele, Blelloch, by warp shuffles, and single-pass with decoupled look-back. */

extern "C" __global__ void scan_hillis(const int *in, int *out, int n)
{
        extern __shared__ int s[];
        int t = threadIdx.x, src = 0;

        s[t] = t < n ? in[t] : 0;
        __syncthreads();
        for (int d = 1; d < blockDim.x; d <<= 1) {
                int v = s[src * blockDim.x + t];

                if (t >= d)
                        v += s[src * blockDim.x + t - d];
                src ^= 1;
                s[src * blockDim.x + t] = v;
                __syncthreads();
        }
        if (t < n)
                out[t] = s[src * blockDim.x + t];
}

/* Exclusive prefix sum of 2 * blockDim.x elements */
extern "C" __global__ void scan_blelloch(const int *in, int *out)
{
        extern __shared__ int s[];
        int t = threadIdx.x, n = 2 * blockDim.x, offset = 1;

        s[2 * t] = in[2 * t];
        s[2 * t + 1] = in[2 * t + 1];
        for (int d = n >> 1; d > 0; d >>= 1, offset *= 2) {
                __syncthreads();
                if (t < d)
                        s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
        }
        if (t == 0)
                s[n - 1] = 0;
        for (int d = 1; d < n; d *= 2) {
                offset >>= 1;
                __syncthreads();
                if (t < d) {
                        int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1, v = s[left];

                        s[left] = s[right];
                        s[right] += v;
                }
        }
        __syncthreads();
        out[2 * t] = s[2 * t];
        out[2 * t + 1] = s[2 * t + 1];
}

static __device__ int warp_scan(int v)
{
        int lane = threadIdx.x & 31;

        for (int d = 1; d < 32; d <<= 1) {
                int o = __shfl_up_sync(0xffffffff, v, d);

                if (lane >= d)
                        v += o;
        }
        return v;
}

static __device__ int block_scan(int v)
{
        __shared__ int sums[32];
        int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;

        v = warp_scan(v);
        if (lane == 31)
                sums[warp] = v;
        __syncthreads();
        if (warp == 0)
                sums[lane] = warp_scan(lane < blockDim.x / 32 ? sums[lane] : 0);
        __syncthreads();
        return warp ? v + sums[warp - 1] : v;
}

extern "C" __global__ void scan_shuffle(const int *in, int *out, int *block_sums, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        int v = block_scan(i < n ? in[i] : 0);

        if (i < n)
                out[i] = v;
        if (block_sums && threadIdx.x == blockDim.x - 1)
                block_sums[blockIdx.x] = v;
}

/* status[b]: upper half 1 = sum of block b known, 2 = prefix known; lower half the value. ticket and status start at 0. */
extern "C" __global__ void scan_lookback(const int *in, int *out, volatile unsigned long long *status, int *ticket, int n)
{
        __shared__ int block, prefix;

        if (threadIdx.x == 0)
                block = atomicAdd(ticket, 1);
        __syncthreads();
        int i = block * blockDim.x + threadIdx.x;
        int v = block_scan(i < n ? in[i] : 0);

        if (threadIdx.x == blockDim.x - 1) {
                int before = 0;

                if (block > 0) {
                        status[block] = (1ull << 32) | (unsigned)v;
                        for (int b = block - 1; b >= 0; b--) {
                                unsigned long long s;

                                do {
                                        s = status[b];
                                } while (s == 0);
                                before += (int)(unsigned)s;
                                if (s >> 32 == 2)
                                        break;
                        }
                }
                __threadfence();
                status[block] = (2ull << 32) | (unsigned)(before + v);
                prefix = before;
        }
        __syncthreads();
        if (i < n)
                out[i] = v + prefix;
}
