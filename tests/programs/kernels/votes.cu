/* SPDX-License-Identifier: Apache-2.0 */
/* Warp votes, matches, shuffles of every mode and width, warp-aggregated atomics, lane masks. */

extern "C" __global__ void votes_basic(const int *in, unsigned *out)
{
        int v = in[threadIdx.x];
        unsigned *o = out + threadIdx.x * 6;

        o[0] = __ballot_sync(0xffffffff, v > 10);
        o[1] = __any_sync(0xffffffff, v == 3);
        o[2] = __all_sync(0xffffffff, v < 1000);
        o[3] = __match_any_sync(0xffffffff, v & 3);
        int pred;
        o[4] = __match_all_sync(0xffffffff, v >> 20, &pred);
        o[5] = pred;
}

extern "C" __global__ void votes_shuffle(const int *in, int *out)
{
        int v = in[threadIdx.x], lane = threadIdx.x & 31, *o = out + threadIdx.x * 10;

        o[0] = __shfl_sync(0xffffffff, v, (lane * 7) & 31);
        o[1] = __shfl_sync(0xffffffff, v, lane + 3, 8);
        o[2] = __shfl_up_sync(0xffffffff, v, 5);
        o[3] = __shfl_up_sync(0xffffffff, v, 3, 16);
        o[4] = __shfl_down_sync(0xffffffff, v, 9);
        o[5] = __shfl_down_sync(0xffffffff, v, 2, 4);
        o[6] = __shfl_xor_sync(0xffffffff, v, 21);
        o[7] = __shfl_xor_sync(0xffffffff, v, 9, 8);
        o[8] = (int)__double2ll_rz(__shfl_xor_sync(0xffffffff, v * 2.0, 1));
        o[9] = (int)(__shfl_down_sync(0xffffffff, (long long)v << 20, 1) >> 18);
}

/* Adds with one atomic per group of lanes that are active together */
extern "C" __global__ void votes_aggregate(const int *in, unsigned *counter, unsigned *slots, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n && in[i] > 0) {
                unsigned mask = __activemask(), lane = threadIdx.x & 31, base = 0;
                int leader = __ffs(mask) - 1;

                if (lane == leader)
                        base = atomicAdd(counter, __popc(mask));
                base = __shfl_sync(mask, base, leader);
                slots[base + __popc(mask & ((1u << lane) - 1))] = i;
        }
}

extern "C" __global__ void votes_masks(unsigned *out)
{
        unsigned eq, lt, le, gt, ge, lane, warp;

        asm("mov.u32 %0, %%lanemask_eq;" : "=r"(eq));
        asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
        asm("mov.u32 %0, %%lanemask_le;" : "=r"(le));
        asm("mov.u32 %0, %%lanemask_gt;" : "=r"(gt));
        asm("mov.u32 %0, %%lanemask_ge;" : "=r"(ge));
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
        asm("mov.u32 %0, %%nwarpid;" : "=r"(warp));
        out[threadIdx.x * 2] = eq ^ (lt << 1) ^ le ^ (gt * 3) ^ (ge * 5);
        out[threadIdx.x * 2 + 1] = lane | (warp != 0) << 8;
}

/* Half warps synchronise separately, through bar.warp.sync with a mask */
extern "C" __global__ void votes_partial(int *out)
{
        __shared__ int s[64];
        unsigned lane = threadIdx.x & 31;
        unsigned mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;

        s[threadIdx.x] = lane * lane;
        __syncwarp(mask);
        int v = s[threadIdx.x ^ 5];

        if (lane < 16)
                v += __shfl_xor_sync(0x0000ffffu, v, 3);
        else
                v -= __shfl_xor_sync(0xffff0000u, v, 6);
        out[threadIdx.x] = v;
}

/* The predicates that shuffles return beside the value */
extern "C" __global__ void votes_shuffle_pred(int *out)
{
        int r, p;

        asm volatile("{\n\t.reg .pred q;\n\tshfl.sync.down.b32 %0|q, %2, 4, 0x1c1f, -1;\n\tselp.b32 %1, 1, 0, q;\n\t}"
                     : "=r"(r), "=r"(p)
                     : "r"((int)threadIdx.x * 11));
        out[threadIdx.x * 2] = r;
        out[threadIdx.x * 2 + 1] = p;
}
