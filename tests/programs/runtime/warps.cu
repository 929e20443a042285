/* SPDX-License-Identifier: Apache-2.0 */
/* Communication inside of a warp: shuffles, votes, matches, reductions, also with part of the lanes */
#include "runtime.h"

enum { SHFL, UP, DOWN, XOR, WIDE, ALL, ANY, BALLOT, UNIQUE, MATCH, ADD, MIN, MAX, ACTIVE, PART, N };

__global__ void talk(long long *out)
{
        int t = threadIdx.x, lane = t % 32;
        long long *o = out + t * N;
        int pred;

        o[SHFL] = __shfl_sync(~0u, t * 10, 5);
        o[UP] = __shfl_up_sync(~0u, t, 3, 16);
        o[DOWN] = __shfl_down_sync(~0u, t, 4);
        o[XOR] = __shfl_xor_sync(~0u, t, 9);
        o[WIDE] = __double_as_longlong(__shfl_xor_sync(~0u, double(t) / 3, 1));
        o[ALL] = __all_sync(~0u, lane < 32);
        o[ANY] = __any_sync(~0u, t == 40);
        o[BALLOT] = __ballot_sync(~0u, lane % 3 == 0);
        o[UNIQUE] = __match_all_sync(~0u, 7, &pred) + pred;
        o[MATCH] = __match_any_sync(~0u, lane / 5);
        o[ADD] = __reduce_add_sync(~0u, unsigned(t));
        o[MIN] = __reduce_min_sync(~0u, unsigned(100 - t));
        o[MAX] = __reduce_max_sync(~0u, lane - 16);
        o[ACTIVE] = o[PART] = -1;
        if (lane % 2) {
                o[ACTIVE] = __activemask();
                o[PART] = __shfl_sync(0xaaaaaaaau, t, 31);
        }
}

static long long bits(double d)
{
        long long v;

        memcpy(&v, &d, sizeof(v));
        return v;
}

static long long expected(int t, int what)
{
        int lane = t % 32, base = t - lane;

        switch (what) {
        case SHFL:
                return (base + 5) * 10;
        case UP:
                return lane % 16 < 3 ? t : t - 3;
        case DOWN:
                return lane + 4 < 32 ? t + 4 : t;
        case XOR:
                return base + (lane ^ 9);
        case WIDE:
                return bits(double(base + (lane ^ 1)) / 3);
        case ALL:
                return 1;
        case ANY:
                return base == 32;
        case BALLOT:
                return 0x49249249u;
        case UNIQUE:
                return 0; /* the mask of all 32 lanes plus the predicate 1 overflows to 0 */
        case MATCH:
                return (0x1fu << lane / 5 * 5) & 0xffffffffu;
        case ADD:
                return 32 * base + 496;
        case MIN:
                return 100 - base - 31;
        case MAX:
                return 15;
        case ACTIVE:
                return lane % 2 ? 0xaaaaaaaall : -1;
        default:
                return lane % 2 ? base + 31 : -1;
        }
}

int main()
{
        long long *p;

        MUST(cudaMalloc(&p, 96 * N * sizeof(*p)));
        LAUNCHED(talk<<<1, 96>>>(p));
        std::vector<long long> got = program_download(p, 96 * N);
        for (int what = 0; what < N; what++) {
                int wrong = 0;

                for (int t = 0; t < 96; t++)
                        wrong += got[t * N + what] != expected(t, what);
                if (wrong)
                        printf("operation %d: %d lanes, lane 1 has %llx\n", what, wrong, got[N + what]);
                CHECK(wrong == 0);
        }
        OK(cudaFree(p));
        return program_end("warps");
}
