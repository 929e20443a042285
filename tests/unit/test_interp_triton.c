/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products and attention compiled by Triton, in the interpreter: pipelines of cp.async, ldmatrix, mma.sync of
 * four types. Elements are small integers where the reference is exact.
 */
#include "tests/support/interp_harness.h"

#include "util/macro.h"

enum type { F16, BF16, TF32, S8 };

static const struct {
        const char *arch, *name;
        enum type type;
        uint32_t tile_m, threads;
        int halves_out; /* 1: results have the type of the factors */
} products[] = {
        {"corpus/sm_80+triton", "matmul_f16", F16, 64, 128, 0},
        {"corpus/sm_86+triton", "matmul_bf16", BF16, 128, 256, 1},
        {"corpus/sm_80+triton", "matmul_tf32", TF32, 64, 128, 0},
        {"corpus/sm_80+triton", "matmul_int8", S8, 64, 128, 0},
};

static uint32_t bits_of(float f)
{
        uint32_t u;

        memcpy(&u, &f, 4);
        return u;
}

static float float_of(uint32_t u)
{
        float f;

        memcpy(&f, &u, 4);
        return f;
}

/* A number that a half represents without subnormals */
static uint16_t half_of(float f)
{
        uint32_t u = bits_of(f);

        return (uint16_t)(f == 0 ? 0 : (u >> 16 & 0x8000) | (((u >> 23 & 255) - 112) << 10 | (u >> 13 & 1023)));
}

static float from_half(uint16_t h)
{
        return ldexpf(float_of((uint32_t)(h & 0x8000) << 16 | (uint32_t)(h & 0x7fff) << 13), 112);
}

static void put(enum type type, void *to, size_t i, int value)
{
        switch (type) {
        case F16:
                ((uint16_t *)to)[i] = half_of((float)value);
                break;
        case BF16:
                ((uint16_t *)to)[i] = (uint16_t)(bits_of((float)value) >> 16);
                break;
        case TF32:
                ((float *)to)[i] = (float)value;
                break;
        case S8:
                ((int8_t *)to)[i] = (int8_t)value;
        }
}

static float result(const void *c, size_t i, enum type type, int halves)
{
        if (halves)
                return float_of((uint32_t)((const uint16_t *)c)[i] << 16);
        return type == S8 ? (float)((const int *)c)[i] : ((const float *)c)[i];
}

/* Rounds to the nearest bfloat16 */
static float rounded(int v)
{
        uint32_t u = bits_of((float)v);

        return float_of((u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u);
}

static void product(size_t p)
{
        enum { M = 128, N = 128, K = 192 };
        static int x[M * K], y[K * N];
        int m = M, n = N, k = K;
        uint32_t seed = 5;
        struct rig r;

        rig_file(&r, products[p].arch, products[p].name);
        void *a = rig_alloc(&r, sizeof(x)), *b = rig_alloc(&r, sizeof(y)), *c = rig_alloc(&r, sizeof(int) * M * N);
        void *scratch = rig_alloc(&r, 4096);

        for (int i = 0; i < M * K; i++)
                put(products[p].type, a, (size_t)i, x[i] = (int)(rig_random(&seed) % 15) - 7);
        for (int i = 0; i < K * N; i++)
                put(products[p].type, b, (size_t)i, y[i] = (int)(rig_random(&seed) % 15) - 7);
        rig_run(&r, "matmul", RIG_DIM2(M / products[p].tile_m, N / 64), RIG_DIM1(products[p].threads), 160 << 10,
                RIG_ARGS(&a, &b, &c, &m, &n, &k, &scratch, &scratch));
        cr_assert(r.cost.tensor_instructions > 0, "%s without a matrix instruction", products[p].name);
        for (int i = 0; i < M * N; i++) {
                int sum = 0;
                float is = result(c, (size_t)i, products[p].type, products[p].halves_out);

                for (int t = 0; t < K; t++)
                        sum += x[i / N * K + t] * y[t * N + i % N];
                cr_assert(is == (products[p].halves_out ? rounded(sum) : (float)sum), "%s: %d: %g, not %d",
                        products[p].name, i, (double)is, sum);
        }
        rig_close(&r);
}

Test(interp_triton, products)
{
        for (size_t p = 0; p < DS_ARRAY_SIZE(products); p++)
                product(p);
}

/* Causal attention: two heads of 100 rows of 64, in tiles of 64 rows and 32 keys */
Test(interp_triton, attention)
{
        enum { ROWS = 100, D = 64, ALL = 2 * ROWS * D };
        static float x[3][ALL];
        uint16_t *in[3], *out;
        void *scratch;
        float scale = 0.18f;
        int length = ROWS;
        uint32_t seed = 6;
        struct rig r;

        rig_file(&r, "corpus/sm_80+triton", "attention_causal");
        for (int w = 0; w < 3; w++) {
                in[w] = rig_alloc(&r, (ALL + 64 * D) * 2); /* room for tiles of 64 rows that end behind the last row */
                for (int i = 0; i < ALL; i++) {
                        in[w][i] = half_of((float)((int)(rig_random(&seed) % 255) - 127) / 64);
                        x[w][i] = from_half(in[w][i]);
                }
        }
        out = rig_alloc(&r, ALL * 2);
        scratch = rig_alloc(&r, 4096);
        rig_run(&r, "attention", RIG_DIM2(2, 2), RIG_DIM1(128), 160 << 10,
                RIG_ARGS(&in[0], &in[1], &in[2], &out, &scale, &length, &scratch, &scratch));
        for (int row = 0; row < 2 * ROWS; row++) {
                const float *q = x[0] + row * D, *keys = x[1] + row / ROWS * ROWS * D,
                            *v = x[2] + row / ROWS * ROWS * D;
                double weight[ROWS], total = 0;

                for (int j = 0; j <= row % ROWS; j++) {
                        weight[j] = 0;
                        for (int e = 0; e < D; e++)
                                weight[j] += (double)q[e] * keys[j * D + e];
                        weight[j] = exp2(weight[j] * scale);
                        total += weight[j];
                }
                for (int e = 0; e < D; e++) {
                        double sum = 0, is = from_half(out[row * D + e]);

                        for (int j = 0; j <= row % ROWS; j++)
                                sum += weight[j] / total * v[j * D + e];
                        cr_assert(fabs(is - sum) <= 4e-3, "row %d, %d: %g, not %g", row, e, is, sum);
                }
        }
        rig_close(&r);
}
