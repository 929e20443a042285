/* SPDX-License-Identifier: Apache-2.0 */
/* Divergent control flow: code that must reconverge, and code that must progress without reconverging. */

extern "C" __global__ void diverge_nested(const int *in, int *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, v, r = 0;

        if (i >= n)
                return;
        v = in[i];
        if (v & 1) {
                if (v & 2) {
                        r = v & 4 ? v * 3 : v * 5;
                } else {
                        for (int k = 0; k < (v & 7); k++)
                                r += k * v;
                }
                r ^= 0x55;
        } else if (v > 50) {
                while (v > 3) {
                        v = v / 2 + (v & 1);
                        r += v;
                }
        } else {
                r = -v;
        }
        out[i] = r;
}

extern "C" __global__ void diverge_collatz(const unsigned *in, unsigned *steps, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        unsigned long long v = in[i];
        unsigned count = 0;

        while (v != 1) {
                v = v & 1 ? 3 * v + 1 : v / 2;
                count++;
        }
        steps[i] = count;
}

/* A dense switch: the compiler chooses brx.idx or a tree of branches */
extern "C" __global__ void diverge_switch(const int *op, const int *in, int *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        int v = in[i], r;

        switch (op[i]) {
        case 0:
                r = v + 1;
                break;
        case 1:
                r = v * v;
                break;
        case 2:
                r = v / 3;
                break;
        case 3:
                r = v % 7;
                break;
        case 4:
                r = __popc(v);
                break;
        case 5:
                r = ~v;
                break;
        case 6:
                for (r = 0; v > 0; v >>= 1)
                        r += v & 1 ? 3 : 1;
                break;
        case 7:
                r = __clz(v);
                /* falls through */
        case 8:
                r = v ^ 0x1234;
                break;
        case 9:
                return;
        case 10:
                r = v << 3;
                break;
        case 11:
                r = v - 1000;
                break;
        default:
                r = -1;
        }
        out[i] = r;
}

extern "C" __global__ void diverge_break(const int *in, int *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, r = 0;

        if (i >= n)
                return;
        for (int a = 0; a < 20; a++) {
                if ((in[i] + a) % 3 == 0)
                        continue;
                for (int b = 0; b < 10; b++) {
                        if (b * a > in[i] % 40)
                                break;
                        r += a ^ b;
                        if (r > 200)
                                goto done;
                }
        }
done:
        out[i] = r;
}

/* Each branch sees only its own lanes; after the join all lanes see each other. */
extern "C" __global__ void diverge_ballot(unsigned *out)
{
        unsigned lane = threadIdx.x & 31, r;

        if (lane % 3 == 0)
                r = __ballot_sync(0x49249249, lane & 1);
        else if (lane % 3 == 1)
                r = __ballot_sync(0x92492492, lane & 2);
        else
                r = __ballot_sync(0x24924924, lane & 4);
        __syncwarp();
        out[threadIdx.x * 3] = r;
        out[threadIdx.x * 3 + 1] = __ballot_sync(0xffffffff, r & 1);
        r = 0;
        for (unsigned k = 0; k < lane % 5; k++)
                r += __popc(__activemask()) > 0;
        __syncwarp();
        out[threadIdx.x * 3 + 2] = r + __shfl_sync(0xffffffff, r, (lane + 1) & 31);
}

/* Lanes exit at different times; the remaining ones still use the barrier and shuffles. */
extern "C" __global__ void diverge_exit(int *out, int stay)
{
        __shared__ int s[256];
        int t = threadIdx.x;

        out[t] = -t;
        if (t >= stay)
                return;
        s[t] = t * t;
        __syncthreads();
        int v = s[stay - 1 - t];

        if (t % 2 == 0) {
                out[t] = v;
                return;
        }
        __syncthreads();
        out[t] = v + s[t];
}

/* One lane produces for another one of its warp, through shared memory: both must progress. */
extern "C" __global__ void diverge_handshake(int *out)
{
        __shared__ volatile int flag[2], value;

        if (threadIdx.x < 2)
                flag[threadIdx.x] = 0;
        __syncthreads();
        if (threadIdx.x == 0) {
                while (flag[0] == 0)
                        ;
                out[0] = value + 1;
                __threadfence_block();
                flag[1] = 1;
        } else if (threadIdx.x == blockDim.x - 1) {
                value = 41;
                __threadfence_block();
                flag[0] = 1;
                while (flag[1] == 0)
                        ;
                out[1] = value + 2;
        }
}

/* Barrier numbers and counts: producers arrive, consumers wait. 128 threads. */
extern "C" __global__ void diverge_named(int *out)
{
        __shared__ int s[64];

        if (threadIdx.x < 64) {
                s[threadIdx.x] = threadIdx.x * 3;
                asm volatile("bar.arrive 1, 128;" ::: "memory");
        } else {
                asm volatile("bar.sync 1, 128;" ::: "memory");
                out[threadIdx.x - 64] = s[127 - threadIdx.x];
        }
        out[64 + threadIdx.x] = __syncthreads_count(threadIdx.x % 3 == 0);
        out[192 + threadIdx.x] = __syncthreads_and(threadIdx.x < 128) * 2 + __syncthreads_or(threadIdx.x == 77);
}
