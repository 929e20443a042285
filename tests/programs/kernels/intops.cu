/* SPDX-License-Identifier: Apache-2.0 */
/* Integer operations: wide arithmetic, division, bit counting, shifts, byte permutation, packed dot products. */

extern "C" __global__ void int_wide(const long long *a, const long long *b, long long *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        long long x = a[i], y = b[i], *o = out + (size_t)i * 16;
        unsigned long long ux = x, uy = y;

        o[0] = x * y;
        o[1] = y ? (long long)(ux / uy) : 0;
        o[2] = y ? (long long)(ux % uy) : 0;
        o[3] = y && y != -1 ? x / y : 0;
        o[4] = y && y != -1 ? x % y : 0;
        o[5] = __mul64hi(x, y);
        o[6] = __umul64hi(ux, uy);
        o[7] = __popcll(ux);
        o[8] = __clzll(x);
        o[9] = __brevll(ux);
        o[10] = __ffsll(x);
        o[11] = x << (y & 63);
        o[12] = x >> (y & 63);
        o[13] = ux >> (y & 63);
        o[14] = min(x, y) ^ max(ux, uy);
        o[15] = llabs(x) + (x < y) + 2 * (ux < uy);
}

extern "C" __global__ void int_narrow(const int *a, const int *b, int *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        int x = a[i], y = b[i], *o = out + (size_t)i * 32;
        unsigned ux = x, uy = y;

        o[0] = x * y;
        o[1] = y ? (int)(ux / uy) : 0;
        o[2] = y ? (int)(ux % uy) : 0;
        o[3] = y && y != -1 ? x / y : 0;
        o[4] = y && y != -1 ? x % y : 0;
        o[5] = __mulhi(x, y);
        o[6] = __umulhi(ux, uy);
        o[7] = __popc(ux);
        o[8] = __clz(x);
        o[9] = __brev(ux);
        o[10] = __ffs(x);
        o[11] = x << (y & 31);
        o[12] = x >> (y & 31);
        o[13] = ux >> (y & 31);
        o[14] = __funnelshift_l(ux, uy, 13);
        o[15] = __funnelshift_r(ux, uy, x & 31);
        o[16] = __funnelshift_lc(ux, uy, 40);
        o[17] = __byte_perm(ux, uy, 0x5140);
        o[18] = __byte_perm(ux, uy, x);
        o[19] = __sad(x, y, 7);
        o[20] = __usad(ux, uy, 9);
        o[21] = __mul24(x, y);
        o[22] = __umul24(ux, uy);
        o[23] = __hadd(x, y);
        o[24] = __rhadd(x, y);
        o[25] = __dp4a(x, y, 11);
        o[26] = __dp4a(ux, uy, 13u);
        o[27] = __dp2a_lo(x, y, 17);
        o[28] = min(x, y) + (int)max(ux, uy);
        o[29] = abs(x) - (x >= y);
        o[30] = (ux & uy) | (~ux & 0x0f0f0f0f);
        o[31] = (short)x * (short)y + (signed char)(x >> 8) - (unsigned char)(y >> 4);
}

/* 128-bit arithmetic: carry chains */
extern "C" __global__ void int_carry(const unsigned long long *a, const unsigned long long *b, unsigned long long *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        unsigned __int128 x = ((unsigned __int128)a[2 * i + 1] << 64) | a[2 * i];
        unsigned __int128 y = ((unsigned __int128)b[2 * i + 1] << 64) | b[2 * i];
        unsigned __int128 r[4] = { x + y, x - y, x * y, x >> 7 };

        for (int k = 0; k < 4; k++) {
                out[8 * i + 2 * k] = (unsigned long long)r[k];
                out[8 * i + 2 * k + 1] = (unsigned long long)(r[k] >> 64);
        }
}

/* Instructions without an operator in the language: inline PTX */
extern "C" __global__ void int_ptx(const unsigned *a, const unsigned *b, unsigned *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        unsigned x = a[i], y = b[i], *o = out + (size_t)i * 12, lo, hi;

        asm("add.cc.u32 %0, %2, %3;\n\taddc.u32 %1, %2, 0;" : "=r"(lo), "=r"(hi) : "r"(x), "r"(y));
        o[0] = lo;
        o[1] = hi;
        asm("sub.cc.u32 %0, %2, %3;\n\tsubc.u32 %1, %3, 5;" : "=r"(lo), "=r"(hi) : "r"(x), "r"(y));
        o[2] = lo;
        o[3] = hi;
        asm("mad.lo.cc.u32 %0, %2, %3, %3;\n\tmadc.hi.u32 %1, %2, %3, 1;" : "=r"(lo), "=r"(hi) : "r"(x), "r"(y));
        o[4] = lo;
        o[5] = hi;
        asm("bfe.u32 %0, %1, 5, 11;" : "=r"(o[6]) : "r"(x));
        asm("bfe.s32 %0, %1, %2, 9;" : "=r"(o[7]) : "r"(x), "r"(y & 31));
        asm("bfi.b32 %0, %1, %2, 7, 13;" : "=r"(o[8]) : "r"(x), "r"(y));
        asm("lop3.b32 %0, %1, %2, 0x12345678, 0x96;" : "=r"(o[9]) : "r"(x), "r"(y));
        asm("bfind.shiftamt.u32 %0, %1;" : "=r"(o[10]) : "r"(x));
        asm("add.sat.s32 %0, %1, %2;" : "=r"(o[11]) : "r"(x), "r"(y));
}
