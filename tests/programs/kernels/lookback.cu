// SPDX-License-Identifier: Apache-2.0
// A scan whose blocks wait for their predecessors (decoupled look-back). Each block publishes its sum as soon as
// possible. Then it looks back over the sums of earlier blocks until one has published a whole prefix, and publishes
// its own. It ends only if no block starts before a block with a lower index on which it waits.

#define THREADS 64

// state per block: 0 none, 1 the block's sum, 2 the prefix sum including the block; `sum` and `whole` hold these values
extern "C" __global__ void lookback_scan(const unsigned *in, unsigned *out, volatile unsigned *state, volatile unsigned *sum,
                                         volatile unsigned *whole, unsigned n)
{
        __shared__ unsigned part[THREADS], before;
        unsigned t = threadIdx.x, i = blockIdx.x * THREADS + t, own = i < n ? in[i] : 0;

        part[t] = own;
        __syncthreads();
        for (unsigned step = 1; step < THREADS; step *= 2) {
                unsigned left = t >= step ? part[t - step] : 0;

                __syncthreads();
                part[t] += left;
                __syncthreads();
        }
        if (t == 0) {
                unsigned total = part[THREADS - 1], sofar = 0;

                sum[blockIdx.x] = total;
                __threadfence();
                state[blockIdx.x] = 1;
                for (int b = (int)blockIdx.x - 1; b >= 0;) {
                        unsigned s = state[b];

                        __threadfence();
                        if (s == 2) {
                                sofar += whole[b];
                                break;
                        }
                        if (s == 1) {
                                sofar += sum[b];
                                b--;
                        }
                }
                whole[blockIdx.x] = sofar + total;
                __threadfence();
                state[blockIdx.x] = 2;
                before = sofar;
        }
        __syncthreads();
        if (i < n)
                out[i] = before + part[t];
}
