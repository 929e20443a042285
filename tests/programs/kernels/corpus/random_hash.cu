/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: random number generators, sampling, checksums, hashes, ciphers, hash tables. */
// targets: sm_75
#include <cstdint>

__device__ __forceinline__ uint32_t rotate_left(uint32_t v, int by)
{
        return __funnelshift_l(v, v, by);
}

__device__ __forceinline__ uint64_t rotate_left(uint64_t v, int by)
{
        return v << by | v >> (64 - by);
}

extern "C" __global__ void random_philox(uint32_t *out, uint32_t key0, uint32_t key1, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        uint4 c = make_uint4(i, 0, 0, 0);

        for (int round = 0; round < 10; round++) {
                uint32_t h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x, h1 = __umulhi(0xCD9E8D57u, c.z),
                         l1 = 0xCD9E8D57u * c.z;

                c = make_uint4(h1 ^ c.y ^ key0, l1, h0 ^ c.w ^ key1, l0);
                key0 += 0x9E3779B9u;
                key1 += 0xBB67AE85u;
        }
        if (i < n)
                ((uint4 *)out)[i] = c;
}

extern "C" __global__ void random_xorwow(uint32_t *state, uint32_t *out, int n)
{
        uint32_t *s = state + threadIdx.x * 6, x = s[0], y = s[1], z = s[2], w = s[3], v = s[4], d = s[5];

        for (int i = 0; i < n; i++) {
                uint32_t t = x ^ x >> 2;

                x = y;
                y = z;
                z = w;
                w = v;
                v = (v ^ v << 4) ^ (t ^ t << 1);
                d += 362437;
                out[i * blockDim.x + threadIdx.x] = v + d;
        }
        s[0] = x, s[1] = y, s[2] = z, s[3] = w, s[4] = v, s[5] = d;
}

extern "C" __global__ void random_pcg(const uint64_t *seed, uint32_t *out, int n)
{
        uint64_t state = seed[threadIdx.x];

        for (int i = 0; i < n; i++) {
                uint32_t x = (uint32_t)((state >> 18 ^ state) >> 27);
                int r = (int)(state >> 59);

                out[i * blockDim.x + threadIdx.x] = __funnelshift_r(x, x, r);
                state = state * 6364136223846793005u + 1442695040888963407u;
        }
}

extern "C" __global__ void random_mrg32k3a(double *state, double *out, int n)
{
        const double m1 = 4294967087.0, m2 = 4294944443.0;
        double *s = state + threadIdx.x * 6;

        for (int i = 0; i < n; i++) {
                double p = fmod(1403580.0 * s[1] - 810728.0 * s[0], m1),
                       q = fmod(527612.0 * s[5] - 1370589.0 * s[3], m2);

                p += p < 0 ? m1 : 0;
                q += q < 0 ? m2 : 0;
                s[0] = s[1], s[1] = s[2], s[2] = p;
                s[3] = s[4], s[4] = s[5], s[5] = q;
                out[i * blockDim.x + threadIdx.x] = (p > q ? p - q : p - q + m1) * 2.328306549295728e-10;
        }
}

extern "C" __global__ void random_sobol(const uint32_t *directions, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        uint32_t g = i ^ i >> 1, v = 0;

        for (int bit = 0; g; bit++, g >>= 1)
                v ^= g & 1 ? directions[blockIdx.y * 32 + bit] : 0;
        if (i < n)
                out[blockIdx.y * n + i] = v * 2.3283064e-10f;
}

extern "C" __global__ void random_box_muller(const uint2 *in, float2 *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                float r = sqrtf(-2 * logf((in[i].x + 1.0f) * 2.3283064e-10f)), s, c;

                sincospif(in[i].y * 4.656613e-10f, &s, &c);
                out[i] = make_float2(r * c, r * s);
        }
}

extern "C" __global__ void random_normal_inverse(const uint32_t *in, float *out, double *precise, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                out[i] = normcdfinvf((in[i] + 0.5f) * 2.3283064e-10f);
                precise[i] = normcdfinv((in[i] + 0.5) * 2.328306436538696e-10);
        }
}

extern "C" __global__ void random_poisson(const float *uniform, const float *lambda, int *out, int n, int most)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
        float p, sum;

        if (i >= n)
                return;
        p = sum = expf(-lambda[i]);
        while (uniform[i] > sum && k < most)
                sum += p *= lambda[i] / ++k;
        out[i] = k;
}

extern "C" __global__ void random_shuffle_blocks(int *data, const uint32_t *random)
{
        __shared__ int s[256];

        s[threadIdx.x] = data[blockIdx.x * 256 + threadIdx.x];
        __syncthreads();
        if (threadIdx.x == 0) {
                for (int i = 255; i > 0; i--) {
                        int j = (int)__umulhi(random[blockIdx.x * 256 + i], i + 1), t = s[i];

                        s[i] = s[j];
                        s[j] = t;
                }
        }
        __syncthreads();
        data[blockIdx.x * 256 + threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void random_pi(unsigned long long *inside, uint32_t seed, int n)
{
        uint32_t x = seed ^ (blockIdx.x * blockDim.x + threadIdx.x + 1) * 2654435761u, hits = 0;

        for (int i = 0; i < n; i++) {
                float a, b;

                x ^= x << 13, x ^= x >> 17, x ^= x << 5;
                a = (x >> 8) * 5.9604645e-8f;
                x ^= x << 13, x ^= x >> 17, x ^= x << 5;
                b = (x >> 8) * 5.9604645e-8f;
                hits += a * a + b * b < 1;
        }
        atomicAdd(inside, (unsigned long long)hits);
}

extern "C" __global__ void option_black_scholes(const float *spot, const float *strike, const float *years, float *call,
        float *put, float rate, float volatility, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        float root = sqrtf(years[i]),
              d1 = (logf(spot[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) /
                   (volatility * root);
        float c1 = normcdff(d1), c2 = normcdff(d1 - volatility * root), discount = expf(-rate * years[i]);

        call[i] = spot[i] * c1 - strike[i] * discount * c2;
        put[i] = strike[i] * discount * (1 - c2) - spot[i] * (1 - c1);
}

extern "C" __global__ void option_binomial(
        double *value, double up, double p, double discount, double strike, int steps)
{
        __shared__ double v[257];
        int i = threadIdx.x;

        v[i] = fmax(pow(up, 2 * i - steps) * 100 - strike, 0.0);
        for (int t = steps; t > 0; t--) {
                double next = 0;

                __syncthreads();
                if (i < t)
                        next = discount * (p * v[i + 1] + (1 - p) * v[i]);
                __syncthreads();
                if (i < t)
                        v[i] = next;
        }
        if (i == 0)
                *value = v[0];
}

extern "C" __global__ void hash_fnv(const unsigned char *data, const int *first, uint64_t *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        uint64_t h = 14695981039346656037u;

        if (i >= n)
                return;
        for (int k = first[i]; k < first[i + 1]; k++)
                h = (h ^ data[k]) * 1099511628211u;
        out[i] = h;
}

extern "C" __global__ void hash_murmur3(const uint32_t *data, uint32_t *out, int words)
{
        uint32_t h = threadIdx.x;

        for (int i = 0; i < words; i++) {
                uint32_t k = data[threadIdx.x * words + i] * 0xcc9e2d51u;

                h = rotate_left(h ^ rotate_left(k, 15) * 0x1b873593u, 13) * 5 + 0xe6546b64u;
        }
        h ^= words * 4;
        h = (h ^ h >> 16) * 0x85ebca6bu;
        h = (h ^ h >> 13) * 0xc2b2ae35u;
        out[threadIdx.x] = h ^ h >> 16;
}

extern "C" __global__ void hash_xxh64_lanes(const uint64_t *data, uint64_t *out, int stripes)
{
        uint64_t acc = threadIdx.x * 0x9E3779B185EBCA87u;

        for (int i = 0; i < stripes; i++)
                acc = rotate_left(acc + data[i * 4 + threadIdx.x % 4] * 0xC2B2AE3D27D4EB4Fu, 31) * 0x9E3779B185EBCA87u;
        for (int step = 1; step < 4; step *= 2)
                acc = (acc ^ __shfl_xor_sync(~0u, acc, step)) * 0x165667B19E3779F9u;
        out[threadIdx.x] = acc ^ acc >> 32;
}

extern "C" __global__ void hash_siphash(const uint64_t *messages, uint64_t k0, uint64_t k1, uint64_t *out, int words)
{
        uint64_t v0 = k0 ^ 0x736f6d6570736575u, v1 = k1 ^ 0x646f72616e646f6du, v2 = k0 ^ 0x6c7967656e657261u,
                 v3 = k1 ^ 0x7465646279746573u;

        for (int i = 0; i < words + 2; i++) {
                uint64_t m = i < words ? messages[blockIdx.x * words + i] : 0;

                v3 ^= m;
                for (int round = 0; round < 2; round++) {
                        v0 += v1, v1 = rotate_left(v1, 13) ^ v0, v0 = rotate_left(v0, 32);
                        v2 += v3, v3 = rotate_left(v3, 16) ^ v2;
                        v0 += v3, v3 = rotate_left(v3, 21) ^ v0;
                        v2 += v1, v1 = rotate_left(v1, 17) ^ v2, v2 = rotate_left(v2, 32);
                }
                v0 ^= m;
        }
        out[blockIdx.x] = v0 ^ v1 ^ v2 ^ v3;
}

extern "C" __global__ void hash_crc32(const uint32_t *data, uint32_t *out, int words)
{
        __shared__ uint32_t table[256];
        uint32_t crc = threadIdx.x;

        for (int k = 0; k < 8; k++)
                crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
        table[threadIdx.x] = crc;
        __syncthreads();
        crc = ~0u;
        for (int i = 0; i < words; i++) {
                uint32_t w = data[threadIdx.x * words + i];

                for (int b = 0; b < 4; b++, w >>= 8)
                        crc = table[(crc ^ w) & 255] ^ crc >> 8;
        }
        out[threadIdx.x] = ~crc;
}

extern "C" __global__ void hash_adler32(const unsigned char *data, uint32_t *out, int n)
{
        uint32_t a = 1, b = 0;

        for (int i = 0; i < n; i++) {
                a = (a + data[blockIdx.x * n + i]) % 65521;
                b = (b + a) % 65521;
        }
        out[blockIdx.x] = b << 16 | a;
}

__constant__ uint32_t sha_constants[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
        0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7,
        0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
        0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c,
        0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
        0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

extern "C" __global__ void hash_sha256_block(const uint32_t *messages, uint32_t *digests)
{
        const uint32_t *m = messages + (blockIdx.x * blockDim.x + threadIdx.x) * 16;
        uint32_t w[16], s[8], *out = digests + (blockIdx.x * blockDim.x + threadIdx.x) * 8;

        for (int i = 0; i < 8; i++)
                s[i] = out[i];
        for (int i = 0; i < 16; i++)
                w[i] = __byte_perm(m[i], 0, 0x0123);
#pragma unroll 16
        for (int i = 0; i < 64; i++) {
                uint32_t t1, t2, x = w[i & 15];

                t1 = s[7] + (rotate_left(s[4], 26) ^ rotate_left(s[4], 21) ^ rotate_left(s[4], 7)) +
                     ((s[4] & s[5]) ^ (~s[4] & s[6])) + sha_constants[i] + x;
                t2 = (rotate_left(s[0], 30) ^ rotate_left(s[0], 19) ^ rotate_left(s[0], 10)) +
                     ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
                for (int k = 7; k > 0; k--)
                        s[k] = s[k - 1];
                s[4] += t1;
                s[0] = t1 + t2;
                uint32_t a = w[(i + 1) & 15], b = w[(i + 14) & 15];

                w[i & 15] = x + (rotate_left(a, 25) ^ rotate_left(a, 14) ^ a >> 3) + w[(i + 9) & 15] +
                            (rotate_left(b, 15) ^ rotate_left(b, 13) ^ b >> 10);
        }
        for (int i = 0; i < 8; i++)
                out[i] += s[i];
}

extern "C" __global__ void cipher_chacha20(const uint32_t *key, uint32_t *data, uint32_t counter)
{
        uint32_t in[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, x[16];
        uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;

        for (int i = 0; i < 11; i++)
                in[i < 8 ? 4 + i : 5 + i] = key[i];
        in[12] = counter + at;
        for (int i = 0; i < 16; i++)
                x[i] = in[i];
        for (int round = 0; round < 10; round++) {
                for (int q = 0; q < 8; q++) {
                        int d = q < 4 ? 0 : 1, a = q & 3, b = 4 + ((q + d) & 3), c = 8 + ((q + 2 * d) & 3),
                            e = 12 + ((q + 3 * d) & 3);

                        x[a] += x[b], x[e] = rotate_left(x[e] ^ x[a], 16);
                        x[c] += x[e], x[b] = rotate_left(x[b] ^ x[c], 12);
                        x[a] += x[b], x[e] = rotate_left(x[e] ^ x[a], 8);
                        x[c] += x[e], x[b] = rotate_left(x[b] ^ x[c], 7);
                }
        }
        for (int i = 0; i < 16; i++)
                data[at * 16 + i] ^= x[i] + in[i];
}

extern "C" __global__ void cipher_xtea(uint2 *data, uint32_t k0, uint32_t k1, uint32_t k2, uint32_t k3)
{
        uint2 v = data[blockIdx.x * blockDim.x + threadIdx.x];
        const uint32_t key[4] = {k0, k1, k2, k3};
        uint32_t sum = 0;

#pragma unroll 1
        for (int i = 0; i < 32; i++) {
                v.x += ((v.y << 4 ^ v.y >> 5) + v.y) ^ (sum + key[sum & 3]);
                sum += 0x9E3779B9u;
                v.y += ((v.x << 4 ^ v.x >> 5) + v.x) ^ (sum + key[sum >> 11 & 3]);
        }
        data[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

extern "C" __global__ void text_base64(const unsigned char *in, char *out, int groups)
{
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        uint32_t v;

        if (i >= groups)
                return;
        v = in[3 * i] << 16 | in[3 * i + 1] << 8 | in[3 * i + 2];
        ((char4 *)out)[i] = make_char4(digits[v >> 18], digits[v >> 12 & 63], digits[v >> 6 & 63], digits[v & 63]);
}

extern "C" __global__ void table_insert(
        unsigned long long *slots, const uint32_t *keys, const uint32_t *values, int n, uint32_t mask, int *lost)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        unsigned long long entry = (unsigned long long)keys[i] << 32 | values[i];

        for (uint32_t at = keys[i] * 2654435769u, tries = 0; tries <= mask; at++, tries++) {
                unsigned long long old = atomicCAS(&slots[at & mask], ~0ull, entry);

                if (old == ~0ull || old >> 32 == keys[i])
                        return;
        }
        atomicAdd(lost, 1);
}

extern "C" __global__ void table_cuckoo(
        unsigned long long *slots, const unsigned long long *entries, int n, uint32_t size)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        unsigned long long entry = i < n ? entries[i] : ~0ull;

        for (int tries = 0; tries < 64 && entry != ~0ull; tries++) {
                uint32_t key = (uint32_t)(entry >> 32), at = (tries & 1 ? key * 40503u + 7 : key * 2654435761u) % size;

                entry = atomicExch(&slots[at + (tries & 1) * size], entry);
        }
}

extern "C" __global__ void table_bloom(uint32_t *bits, const uint32_t *keys, int n, uint32_t words, unsigned char *seen)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        bool all = true;

        if (i >= n)
                return;
        for (uint32_t k = 1; k <= 4; k++) {
                uint32_t h = keys[i] * (k * 2654435761u | 1), bit = 1u << (h & 31);

                all &= (atomicOr(&bits[(h >> 5) % words], bit) & bit) != 0;
        }
        seen[i] = all;
}
