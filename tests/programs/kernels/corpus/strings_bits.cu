/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: text, codes, and bit manipulation. */
// targets: sm_75
#include <cstdint>

extern "C" __global__ void text_find(const char *text, int n, const char *word, int length, int *hits, int *count)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;

        if (i + length > n)
                return;
        while (k < length && text[i + k] == word[k])
                k++;
        if (k == length)
                hits[atomicAdd(count, 1)] = i;
}

extern "C" __global__ void text_kmp(
        const char *text, const char *word, const int *failure, int length, int each, int *counts)
{
        int state = 0, found = 0, from = (blockIdx.x * blockDim.x + threadIdx.x) * each;

        for (int i = from; i < from + each + length - 1; i++) {
                while (state && word[state] != text[i])
                        state = failure[state - 1];
                state += word[state] == text[i];
                if (state == length) {
                        found++;
                        state = failure[state - 1];
                }
        }
        counts[blockIdx.x * blockDim.x + threadIdx.x] = found;
}

extern "C" __global__ void text_horspool(
        const unsigned char *text, int n, const unsigned char *word, int length, int *first)
{
        __shared__ int skip[256];

        skip[threadIdx.x] = length;
        __syncthreads();
        if (threadIdx.x < length - 1)
                atomicMin(&skip[word[threadIdx.x]], length - 1 - threadIdx.x);
        __syncthreads();
        for (int i = threadIdx.x * 1024; i + length <= n && i < (threadIdx.x + 1) * 1024;
                i += skip[text[i + length - 1]]) {
                int k = length - 1;

                while (k >= 0 && text[i + k] == word[k])
                        k--;
                if (k < 0) {
                        atomicMin(first, i);
                        break;
                }
        }
}

extern "C" __global__ void text_edit_distance(const char *a, const char *b, int *out, int m)
{
        __shared__ int s[3][257];
        int j = threadIdx.x, n = blockDim.x;

        for (int d = 0; d <= m + n; d++) {
                int *now = s[d % 3], *before = s[(d + 2) % 3], *earlier = s[(d + 1) % 3], i = d - j - 1;

                if (i >= 0 && i <= m) {
                        if (i == 0)
                                now[j + 1] = j + 1;
                        else
                                now[j + 1] = min(min(before[j + 1], j ? before[j] : i) + 1,
                                        (j ? earlier[j] : i - 1) + (a[i - 1] != b[j]));
                }
                __syncthreads();
        }
        if (j == n - 1)
                *out = s[(m + n) % 3][n];
}

extern "C" __global__ void text_smith_waterman(
        const unsigned char *query, const unsigned char *subjects, const signed char *scores, int *best, int m, int n)
{
        const unsigned char *subject = subjects + blockIdx.x * n;
        int above[64] = {}, gap[64] = {}, most = 0;

        for (int i = 0; i < n; i++) {
                int diagonal = 0, left = 0, across = 0;

                for (int j = 0; j < m && j < 64; j++) {
                        int h = max(0, diagonal + scores[subject[i] * 32 + query[j]]);

                        gap[j] = max(gap[j] - 1, above[j] - 11);
                        across = max(across - 1, left - 11);
                        h = max(h, max(gap[j], across));
                        diagonal = above[j];
                        above[j] = left = h;
                        most = max(most, h);
                }
        }
        best[blockIdx.x] = most;
}

extern "C" __global__ void text_utf8_count(const unsigned char *in, int n, int *count)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, here = __syncthreads_count(i < n && (in[i] & 0xc0) != 0x80);

        if (threadIdx.x == 0)
                atomicAdd(count, here);
}

extern "C" __global__ void text_lower(uint32_t *words, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                uint32_t w = words[i], capital = __vcmpgeu4(w, 0x41414141) & __vcmpleu4(w, 0x5a5a5a5a);

                words[i] = w | (capital & 0x20202020);
        }
}

extern "C" __global__ void text_count_words(const char *in, int n, unsigned *count)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        bool letter = i < n && in[i] > ' ', before = i > 0 && i < n && in[i - 1] > ' ';
        unsigned starts = __ballot_sync(~0u, letter && !before);

        if (threadIdx.x % 32 == 0 && starts)
                atomicAdd(count, __popc(starts));
}

extern "C" __global__ void text_brackets(const char *in, int *depth, int n)
{
        __shared__ int s[256];
        int i = threadIdx.x, d = 0;

        if (i < n) {
                switch (in[i]) {
                case '(':
                case '[':
                case '{':
                        d = 1;
                        break;
                case ')':
                case ']':
                case '}':
                        d = -1;
                        break;
                }
        }
        s[i] = d;
        for (int step = 1; step < 256; step *= 2) {
                int v = 0;

                __syncthreads();
                v = i >= step ? s[i - step] : 0;
                __syncthreads();
                s[i] += v;
        }
        if (i < n)
                depth[i] = s[i];
}

extern "C" __global__ void text_numbers(const char *in, const int *first, long long *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, k;
        long long v = 0;
        bool negative;

        if (i >= n)
                return;
        k = first[i];
        negative = in[k] == '-';
        for (k += negative; in[k] >= '0' && in[k] <= '9'; k++)
                v = v * 10 + (in[k] - '0');
        out[i] = negative ? -v : v;
}

extern "C" __global__ void text_decimal(const uint32_t *in, char *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                uint32_t v = in[i];

                for (int k = 9; k >= 0; k--, v /= 10)
                        out[i * 10 + k] = (char)('0' + v % 10);
        }
}

extern "C" __global__ void text_states(
        const unsigned char *in, const unsigned char *table, unsigned char *accepted, int n, int each)
{
        const uint4 *words = (const uint4 *)(in + (size_t)(blockIdx.x * blockDim.x + threadIdx.x) * each);
        unsigned state = 0;

        for (int i = 0; i < each / 16; i++) {
                uint4 v = __ldcs(&words[i]);
                const uint32_t w[4] = {v.x, v.y, v.z, v.w};

                for (int k = 0; k < 16; k++)
                        state = table[state * 256 + (w[k / 4] >> k % 4 * 8 & 255)];
        }
        accepted[blockIdx.x * blockDim.x + threadIdx.x] = state == n;
}

extern "C" __global__ void code_run_lengths(const unsigned char *in, int *starts, int *count, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n && (i == 0 || in[i] != in[i - 1]))
                starts[atomicAdd(count, 1)] = i;
}

extern "C" __global__ void code_huffman(
        const uint32_t *bits, const uint32_t *table, unsigned char *out, const int *first, int symbols)
{
        int at = first[threadIdx.x];

        for (int i = 0; i < symbols; i++) {
                uint32_t window = __funnelshift_l(bits[at / 32 + 1], bits[at / 32], at % 32),
                         entry = table[window >> 20];

                out[threadIdx.x * symbols + i] = (unsigned char)entry;
                at += entry >> 8;
        }
}

extern "C" __global__ void code_varint(const unsigned char *in, uint64_t *out, int n)
{
        const unsigned char *p = in + threadIdx.x * n * 10;

        for (int i = 0; i < n; i++) {
                uint64_t v = 0;
                int shift = 0;

                do
                        v |= (uint64_t)(*p & 127) << shift;
                while ((shift += 7, *p++ & 128));
                out[threadIdx.x * n + i] = v >> 1 ^ -(v & 1);
        }
}

extern "C" __global__ void code_bit_pack(const uint32_t *in, uint32_t *out, int width, int n)
{
        int word = blockIdx.x * blockDim.x + threadIdx.x, at = word * 32;
        uint32_t v = 0;

        for (int i = at / width; i < n && i * width < at + 32; i++) {
                int shift = i * width - at;

                v |= shift >= 0 ? in[i] << shift : in[i] >> -shift;
        }
        out[word] = v;
}

extern "C" __global__ void code_lz_match(const unsigned char *in, int *length, int *distance, int n, int most)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, best = 0, where = 0;

        for (int j = max(0, i - most); i < n && j < i; j++) {
                int k = 0;

                while (i + k < n && k < 258 && in[j + k] == in[i + k])
                        k++;
                if (k >= best) {
                        best = k;
                        where = i - j;
                }
        }
        if (i < n) {
                length[i] = best;
                distance[i] = where;
        }
}

extern "C" __global__ void code_reed_solomon(const unsigned char *data, const unsigned char *logs,
        const unsigned char *powers, unsigned char *syndromes, int n)
{
        int k = threadIdx.x;
        unsigned s = 0;

        for (int i = 0; i < n; i++)
                s = data[blockIdx.x * n + i] ^ (s ? powers[(logs[s] + k) % 255] : 0);
        syndromes[blockIdx.x * blockDim.x + k] = (unsigned char)s;
}

extern "C" __global__ void code_hamming(const uint32_t *in, uint32_t *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        uint32_t w, wrong = 0;

        if (i >= n)
                return;
        w = in[i];
        for (int k = 0; k < 5; k++)
                wrong |= (__popc(w & (k == 0          ? 0xAAAAAAAA
                                             : k == 1 ? 0xCCCCCCCC
                                             : k == 2 ? 0xF0F0F0F0
                                             : k == 3 ? 0xFF00FF00
                                                      : 0xFFFF0000)) &
                                 1)
                         << k;
        out[i] = wrong ? w ^ 1u << wrong : w;
}

extern "C" __global__ void bits_morton(const uint3 *in, uint64_t *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        uint64_t code = 0;

        if (i >= n)
                return;
        for (int k = 0; k < 3; k++) {
                uint64_t v = (k == 0 ? in[i].x : k == 1 ? in[i].y : in[i].z) & 0x1fffff;

                v = (v | v << 32) & 0x1f00000000ffff;
                v = (v | v << 16) & 0x1f0000ff0000ff;
                v = (v | v << 8) & 0x100f00f00f00f00f;
                v = (v | v << 4) & 0x10c30c30c30c30c3;
                v = (v | v << 2) & 0x1249249249249249;
                code |= v << k;
        }
        out[i] = code;
}

extern "C" __global__ void bits_hilbert(const uint2 *in, uint32_t *out, int order, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        uint32_t x, y, d = 0;

        if (i >= n)
                return;
        x = in[i].x;
        y = in[i].y;
        for (uint32_t s = 1u << (order - 1); s; s /= 2) {
                uint32_t rx = (x & s) != 0, ry = (y & s) != 0, t;

                d += s * s * (3 * rx ^ ry);
                if (!ry) {
                        if (rx) {
                                x = ~x;
                                y = ~y;
                        }
                        t = x, x = y, y = t;
                }
        }
        out[i] = d;
}

extern "C" __global__ void bits_gray(const uint64_t *in, uint64_t *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                uint64_t g = in[i];

                for (int step = 1; step < 64; step *= 2)
                        g ^= g >> step;
                out[i] = __brevll(g) + __popcll(g) + __clzll(g) + __ffsll(g);
        }
}

extern "C" __global__ void bits_transpose(uint32_t *words)
{
        uint32_t v = words[threadIdx.x], mask = 0x0000ffff, lane = threadIdx.x & 31;

        for (int step = 16; step; step /= 2, mask ^= mask << step) {
                uint32_t other = __shfl_xor_sync(~0u, v, step);

                v = lane & step ? (v & ~mask) | (other >> step & mask) : (v & mask) | (other << step & ~mask);
        }
        words[threadIdx.x] = v;
}

extern "C" __global__ void bits_queens(int n, unsigned *solutions)
{
        unsigned columns[16], left[16], right[16], all = (1u << n) - 1, free[16], found = 0;
        int row = 1, start = threadIdx.x;

        columns[0] = left[0] = right[0] = 0;
        columns[1] = 1u << start, left[1] = 2u << start, right[1] = 1u << start >> 1;
        free[1] = all & ~(columns[1] | left[1] | right[1]);
        while (row > 0) {
                if (!free[row]) {
                        row--;
                        continue;
                }
                unsigned bit = free[row] & -free[row];

                free[row] ^= bit;
                if (row == n - 1) {
                        found++;
                        continue;
                }
                columns[row + 1] = columns[row] | bit;
                left[row + 1] = (left[row] | bit) << 1;
                right[row + 1] = (right[row] | bit) >> 1;
                row++;
                free[row] = all & ~(columns[row] | left[row] | right[row]);
        }
        atomicAdd(solutions, found);
}

extern "C" __global__ void number_big_add(const uint32_t *a, const uint32_t *b, uint32_t *sum, int words)
{
        unsigned carry = 0, i = threadIdx.x, s = a[i] + b[i], makes = __ballot_sync(~0u, s < a[i]),
                 passes = __ballot_sync(~0u, s == ~0u);

        carry = (((passes | makes) + makes) ^ passes) & ~makes;
        carry = ((makes << 1) + passes) ^ passes;
        sum[i] = s + (carry >> i & 1);
        if (i == 0)
                sum[words] = carry >> 31;
}

extern "C" __global__ void number_big_multiply(const uint32_t *a, const uint32_t *b, uint32_t *out)
{
        uint32_t r[8] = {};
        const uint32_t *x = a + threadIdx.x * 4, *y = b + threadIdx.x * 4;

        for (int i = 0; i < 4; i++) {
                uint32_t carry = 0;

                for (int j = 0; j < 4; j++) {
                        uint64_t t = (uint64_t)x[i] * y[j] + r[i + j] + carry;

                        r[i + j] = (uint32_t)t;
                        carry = (uint32_t)(t >> 32);
                }
                r[i + 4] = carry;
        }
        for (int k = 0; k < 8; k++)
                out[threadIdx.x * 8 + k] = r[k];
}

extern "C" __global__ void number_wide(const unsigned __int128 *a, const unsigned __int128 *b, unsigned __int128 *out)
{
        unsigned __int128 x = a[threadIdx.x], y = b[threadIdx.x];

        out[threadIdx.x] = (x * y + (x >> 3)) ^ (y << 5) ^ (x - y);
}

extern "C" __global__ void number_montgomery(const uint64_t *base, const uint64_t *power, uint64_t *out,
        uint64_t modulus, uint64_t inverse, uint64_t one, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        uint64_t r = one, b;

        if (i >= n)
                return;
        b = base[i];
        for (uint64_t e = power[i]; e; e >>= 1) {
                for (int k = !(e & 1); k < 2; k++) {
                        uint64_t other = k ? b : r, t = (k ? b : b) * other, h = __umul64hi(b, other),
                                 m = __umul64hi(t * inverse, modulus);

                        t = h - m + (h < m ? modulus : 0);
                        if (k)
                                b = t;
                        else
                                r = t;
                }
        }
        out[i] = r;
}

extern "C" __global__ void number_gcd(const uint64_t *a, const uint64_t *b, uint64_t *out)
{
        uint64_t x = a[threadIdx.x], y = b[threadIdx.x];

        if (x && y) {
                int shift = __ffsll(x | y) - 1;

                x >>= __ffsll(x) - 1;
                while (y) {
                        y >>= __ffsll(y) - 1;
                        if (x > y) {
                                uint64_t t = x;

                                x = y;
                                y = t;
                        }
                        y -= x;
                }
                x <<= shift;
        } else {
                x |= y;
        }
        out[threadIdx.x] = x;
}

extern "C" __global__ void number_sieve(unsigned char *composite, int n)
{
        for (int p = blockIdx.x * blockDim.x + threadIdx.x + 2; (long long)p * p < n; p += gridDim.x * blockDim.x)
                if (!composite[p])
                        for (int k = p * p; k < n; k += p)
                                composite[k] = 1;
}

extern "C" __global__ void number_collatz(unsigned long long *longest, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        unsigned long long v = i;
        int steps = 0;

        if (i < 1 || i >= n)
                return;
        while (v != 1) {
                v = v & 1 ? 3 * v + 1 : v / 2;
                steps++;
        }
        atomicMax(longest, (unsigned long long)steps << 32 | i);
}

extern "C" __global__ void number_divisions(const int64_t *a, const int64_t *b, int64_t *out, const int *c, int *small)
{
        int i = threadIdx.x;

        out[4 * i] = a[i] / b[i];
        out[4 * i + 1] = a[i] % b[i];
        out[4 * i + 2] = (uint64_t)a[i] / (uint64_t)b[i];
        out[4 * i + 3] = a[i] / 1000003 + (uint64_t)a[i] % 60;
        small[4 * i] = c[i] / 7 + c[i] % 10;
        small[4 * i + 1] = c[i] / c[i + 1];
        small[4 * i + 2] = (unsigned)c[i] % (unsigned)c[i + 1];
        small[4 * i + 3] = (short)c[i] / (short)c[i + 1] + (unsigned char)c[i] % 13;
}
