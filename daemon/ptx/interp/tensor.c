/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mma.sync, mma.sp and wmma.mma: what tensor cores compute
 *
 * Integers, bits and f64 (a chain of fused multiply-adds along k) have the expected results. For the other types this
 * file computes the results of an NVIDIA H200, bit by bit:
 *
 *  - The products of a group along k are exact.
 *  - The products and the accumulator are truncated, toward zero, to 25 bits behind the point of the largest one (the
 *    largest sum of exponents, before any product is normalised).
 *  - Their sum is exact. It is rounded once, toward zero for f32 and to nearest for f16.
 *  - Subnormals count, zeros have no exponent and results no negative zero, NaN is 0x7fffffff or 0x7fff.
 *  - A group is all of k: 16 halves (sparse: the stored ones), 8 numbers of tf32, 4 in wmma.
 *  - e4m3 and e5m2 become halves, in two groups (of each four stored elements the first two, the second two). The first
 *    group starts with zero, and the accumulator is added at the end, rounded to nearest.
 *
 * Sources: Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021; Xie et al., "MMA-Sim",
 * 2025. Checked on an H200 (tests/gpu/tensor_diff.c). Older GPUs keep fewer bits in smaller groups.
 *
 * The fused sum processes the columns of a row at once: eight accumulators, significands and exponents as integers.
 */
#include "ptx/interp/half.h"
#include "ptx/interp/tensor_tiles.h"

#define BEHIND 25     /* bits kept behind the largest term's point */
#define POINT 10      /* bits behind the binary point in the significands that are multiplied */
#define NOTHING -5000 /* exponent that stands for zero */
#define MOST 512      /* most elements of a floating-point matrix */

/* --- decomposed numbers --- */
struct parts {
        int32_t size[MOST], sign[MOST], exponent[MOST]; /* significand, sign (0 or -1) and exponent of each element */
        uint32_t special;                               /* not 0: some elements are infinity or NaN */
} __attribute__((__aligned__(64)));

struct format {
        int32_t mantissa, bias, bits;
};

static const struct format formats[_DS_IX_MATRIX_KINDS] = {
        [DS_IX_MATRIX_F16] = {10, 15, 16},
        [DS_IX_MATRIX_BF16] = {7, 127, 16},
        [DS_IX_MATRIX_TF32] = {10, 127, 19},
        [DS_IX_MATRIX_F32] = {23, 127, 32},
};

/* Splits n numbers into sign, exponent and significand, with `point` bits behind the significand's binary point. */
DS_IX_INLINE void take_apart(struct format f, int32_t point, const uint32_t *from, unsigned n, struct parts *to)
{
        const uint32_t fraction = (1u << f.mantissa) - 1, top = (1u << (f.bits - 1 - f.mantissa)) - 1;
        uint32_t special = 0;

        for (unsigned i = 0; i < n; i++) {
                uint32_t u = from[i], e = u >> f.mantissa & top;
                uint32_t size = (u & fraction) | (e ? fraction + 1 : 0);

                special |= e == top;
                to->sign[i] = -(int32_t)(u >> (f.bits - 1) & 1);
                to->size[i] = (int32_t)(size << (point - f.mantissa));
                to->exponent[i] = size ? (int32_t)(e ? e : 1) - f.bias : NOTHING;
        }
        to->special = special;
}

static double value_of(struct format f, uint32_t u)
{
        uint32_t top = (1u << (f.bits - 1 - f.mantissa)) - 1, e = u >> f.mantissa & top;
        uint32_t fraction = u & ((1u << f.mantissa) - 1);
        double sign = u >> (f.bits - 1) & 1 ? -1 : 1;

        if (e == top)
                return fraction ? __builtin_nan("") : sign * __builtin_inf();
        fraction |= e ? 1u << f.mantissa : 0;
        return sign * fraction * ds_ix_double((uint64_t)(1023 + (int64_t)(e ? e : 1) - f.bias - f.mantissa) << 52);
}

/* --- the fused sum --- */
#if defined(__clang__)
#define ALL_TERMS _Pragma("clang loop unroll(full)")
#else
#define ALL_TERMS _Pragma("GCC unroll 16")
#endif

/* Factors for eight results of one row: a's elements one by one, b's for eight columns at a time, and eight of c */
struct factors {
        const int32_t *size, *sign, *exponent;
};

DS_IX_INLINE struct factors part_of(const struct parts *p, unsigned at)
{
        return (struct factors){.size = p->size + at, .sign = p->sign + at, .exponent = p->exponent + at};
}

/*
 * Computes eight results of one row: `terms` products, plus c. The largest sum of 16 terms needs 32 bits and a sign, so
 * it is kept in two halves. With a constant number of terms the compiler unrolls the loop, and eight results are a
 * vector.
 */
DS_IX_INLINE void fused_sum(
        struct factors a, struct factors b, struct factors c, const unsigned terms, double *restrict out)
{
        int32_t most[8], sum[2][8];

        DS_IX_INDEPENDENT for (unsigned v = 0; v < 8; v++)
        {
                int32_t m = c.exponent[v];

                ALL_TERMS for (unsigned t = 0; t < terms; t++)
                {
                        int32_t e = b.exponent[t * 8 + v] + a.exponent[t];

                        m = e > m ? e : m;
                }
                most[v] = m;
        }
        DS_IX_INDEPENDENT for (unsigned v = 0; v < 8; v++)
        {
                int32_t m = most[v], shift = m - c.exponent[v], even, odd = 0;

                shift = shift < 31 ? shift : 31;
                even = ((c.size[v] >> shift) ^ c.sign[v]) - c.sign[v];
                ALL_TERMS for (unsigned t = 0; t < terms; t++)
                {
                        int32_t by = m - (b.exponent[t * 8 + v] + a.exponent[t]), flip = b.sign[t * 8 + v] ^ a.sign[t];
                        int32_t term = (b.size[t * 8 + v] * a.size[t]) >> (by < 31 ? by : 31);

                        if (t & 1)
                                odd += (term ^ flip) - flip;
                        else
                                even += (term ^ flip) - flip;
                }
                sum[0][v] = even;
                sum[1][v] = odd;
        }
        DS_IX_INDEPENDENT for (unsigned v = 0; v < 8; v++)
        {
                int32_t scale = 1023 - BEHIND + most[v];

                scale = scale > 0 ? scale : 0;
                out[v] = ((double)sum[0][v] + sum[1][v]) * ds_ix_double((uint64_t)(uint32_t)scale << 52);
        }
}

/* Truncates x toward zero to f32's precision. Too large a value becomes infinity, and zero gets no sign. */
DS_IX_INLINE uint32_t narrow(double x)
{
        uint64_t u = ds_ix_bits64(x);
        int32_t below = -126 - ((int32_t)(u >> 52 & 2047) - 1023), cut = 29 + (below > 0 ? below : 0);

        u &= ~UINT64_C(0) << (cut < 52 ? cut : 52);
        return ds_ix_bits32((float)ds_ix_double(u) + 0.0f);
}

DS_IX_INLINE uint32_t narrow_half(double x)
{
        uint32_t half = ds_ix_to_half(ds_ix_narrow_odd(x));

        return half == 0x8000 ? 0 : half;
}

/* A product of matrices during its computation */
struct product {
        unsigned m, n, k, group, in_b;  /* in_b: number of elements of b */
        uint32_t a[MOST], b[MOST];      /* layouts: a[row][k]; b[columns / 8][k][8] */
        uint32_t c[DS_IX_ACCUMULATORS]; /* the accumulators as bits of f32 or of halves; the results replace them */
        /* for each element of a: index in b of its first factor; sparse: one list per row */
        uint16_t row[MOST];
        unsigned row_stride;
        int listed; /* 1: b is read through `row`; 0: b is read in order */
        struct parts pa, pb, pc, picked;
};

/* Index in b of the first element of the eight columns that contain column j. */
DS_IX_INLINE unsigned b_at(const struct product *p, unsigned j)
{
        return j / 8 * (p->in_b / p->n) * 8;
}

/* Result of row i and column j for the terms from `from` on if it is infinity or NaN; else `otherwise`. */
static uint32_t special_result(
        const struct product *p, struct format f, unsigned i, unsigned j, unsigned from, int half, uint32_t otherwise)
{
        const uint16_t *rows = p->row + (size_t)i * p->row_stride;
        struct format c = formats[half ? DS_IX_MATRIX_F16 : DS_IX_MATRIX_F32];
        double sum = value_of(c, p->c[i * p->n + j]);

        /* stops at a NaN, which stays NaN */
        for (unsigned t = from; t < from + p->group && sum == sum; t++)
                sum += value_of(f, p->a[i * p->k + t]) * value_of(f, p->b[b_at(p, j) + rows[t] + j % 8]);
        if (sum != sum)
                return half ? DS_IX_NAN16 : DS_IX_NAN32;
        if (__builtin_isinf(sum))
                return (half ? 0x7c00u : 0x7f800000u) | (sum < 0 ? (half ? 0x8000u : 0x80000000u) : 0);
        return otherwise;
}

/* Mask of those of the eight results in row i, columns j.., that infinities or NaN of these terms or of c may
 * affect. */
static unsigned reached(const struct product *p, struct format f, unsigned i, unsigned j, unsigned from, int half)
{
        const uint16_t *rows = p->row + (size_t)i * p->row_stride;
        const uint32_t top = ((1u << (f.bits - 1 - f.mantissa)) - 1) << f.mantissa,
                       c_top = half ? 0x7c00u : 0x7f800000u;
        unsigned bits = 0;

        for (unsigned v = 0; v < 8; v++)
                bits |= (p->c[i * p->n + j + v] & c_top) == c_top ? 1u << v : 0;
        for (unsigned t = from; t < from + p->group; t++) {
                if ((p->a[i * p->k + t] & top) == top)
                        return 255;
                for (unsigned v = 0; v < 8; v++)
                        bits |= (p->b[b_at(p, j) + rows[t] + v] & top) == top ? 1u << v : 0;
        }
        return bits;
}

/* Copies the factors of one row's terms from b into `to` when they are not consecutive in b. */
DS_IX_INLINE void pick(const struct parts *b, const uint16_t *rows, unsigned at, unsigned terms, struct parts *to)
{
        for (unsigned t = 0; t < terms; t++) {
                memcpy(to->size + (size_t)8 * t, b->size + at + rows[t], 32);
                memcpy(to->sign + (size_t)8 * t, b->sign + at + rows[t], 32);
                memcpy(to->exponent + (size_t)8 * t, b->exponent + at + rows[t], 32);
        }
}

/* Adds one group's products to c. */
DS_IX_INLINE void add_group(struct product *p, struct format f, unsigned from, int half, const unsigned terms)
{
        uint32_t result[8];
        double sum[8];

        take_apart(formats[half ? DS_IX_MATRIX_F16 : DS_IX_MATRIX_F32], BEHIND, p->c, p->m * p->n, &p->pc);
        for (unsigned i = 0; i < p->m; i++) {
                for (unsigned j = 0; j < p->n; j += 8) {
                        struct factors b = part_of(&p->pb, b_at(p, j) + 8 * from);
                        unsigned special = 0;

                        if (p->listed) {
                                pick(&p->pb, p->row + (size_t)i * p->row_stride + from, b_at(p, j), terms, &p->picked);
                                b = part_of(&p->picked, 0);
                        }
                        fused_sum(part_of(&p->pa, i * p->k + from), b, part_of(&p->pc, i * p->n + j), terms, sum);
                        for (unsigned v = 0; v < 8; v++)
                                result[v] = half ? narrow_half(sum[v]) : narrow(sum[v]);
                        if (p->pa.special | p->pb.special | p->pc.special)
                                special = reached(p, f, i, j, from, half);
                        for (; special; special &= special - 1) {
                                unsigned v = (unsigned)__builtin_ctz(special);

                                result[v] = special_result(p, f, i, j + v, from, half, result[v]);
                        }
                        memcpy(p->c + i * p->n + j, result, sizeof(result));
                }
        }
}

DS_IX_INLINE void multiply(struct product *p, struct format f, int half)
{
        take_apart(f, BEHIND - POINT, p->a, p->m * p->k, &p->pa);
        take_apart(f, POINT, p->b, p->in_b, &p->pb);
        for (unsigned from = 0; from < p->k; from += p->group) {
                if (p->group == 16)
                        add_group(p, f, from, half, 16);
                else if (p->group == 8)
                        add_group(p, f, from, half, 8);
                else
                        add_group(p, f, from, half, 4);
        }
}

/* --- operands --- */
/* Element k of a row of a dense matrix */
DS_IX_INLINE uint32_t element(enum ds_ix_matrix_kind kind, const uint8_t *row, unsigned k)
{
        uint16_t half;
        uint32_t word;

        if (kind == DS_IX_MATRIX_TF32) {
                memcpy(&word, row + 4 * k, sizeof(word));
                return word >> 13;
        }
        memcpy(&half, row + 2 * k, sizeof(half));
        return half;
}

/* Converts a byte of e4m3 or e5m2 to a half, exactly; NaN becomes the conversion's NaN. */
DS_IX_INLINE uint32_t half_of(enum ds_ix_matrix_kind kind, uint32_t byte)
{
        static const uint16_t small[8] = {0, 0x1800, 0x1c00, 0x1e00, 0x2000, 0x2100, 0x2200, 0x2300};
        uint32_t sign = (byte & 0x80) << 8, size = byte & 0x7f;

        if (kind == DS_IX_MATRIX_E5M2)
                return byte << 8;
        if (size == 0x7f)
                return DS_IX_NAN16;
        return sign | (size < 8 ? small[size] : (size << 7) + (8u << 10));
}

/*
 * Metadata of the q-th group of four elements along k in a row: four bits, which name the two stored elements of the
 * group. The selector chooses the lanes of a quad that provide the metadata. If a row has at most 32 bits, each lane
 * has 16 bits of row g and 16 bits of row g + 8; if a row has 64 bits, a lane has 32 bits of one row.
 */
static uint32_t metadata_bits(const uint32_t *lanes, const struct ds_ix_matrix *m, unsigned row, unsigned q, unsigned n)
{
        unsigned quad = 4 * (row & 7), high = row >> 3;

        if (n == 4)
                return lanes[quad + m->selector] >> (16 * high + 4 * q) & 15;
        if (n == 8 && m->a.kind < DS_IX_MATRIX_S8)
                return lanes[quad + 2 * m->selector + q / 4] >> (16 * high + 4 * (q & 3)) & 15;
        if (n == 8)
                return lanes[quad + 2 * m->selector + high] >> (4 * q) & 15;
        return lanes[quad + 2 * (q / 8) + high] >> (4 * (q & 7)) & 15;
}

/* Computes the position along k of each stored element of a sparse A. */
void ds_ix_read_metadata(const ds_ix_warp *w, const struct ds_ix_matrix *m, uint8_t (*columns)[DS_IX_MATRIX_STORED])
{
        const uint32_t *lanes = ds_ix_lanes(w, m->metadata);
        unsigned stored = m->k / 2,
                 /* tf32 stores one element of two, in units of halves; other types store two of four */
                single = m->a.kind == DS_IX_MATRIX_TF32;
        unsigned together = m->a.kind == DS_IX_MATRIX_S4 || m->a.kind == DS_IX_MATRIX_U4 ? 2 : 1;
        unsigned n = single ? stored : stored / (2 * together);

        for (unsigned row = 0; row < 16; row++) {
                for (unsigned q = 0; q < n; q++) {
                        uint32_t bits = metadata_bits(lanes, m, row, q, n);
                        unsigned first = bits & 3, second = bits >> 2 & 3;
                        uint8_t *to = columns[row] + (size_t)2 * together * q;

                        if (single)
                                columns[row][q] = (uint8_t)(2 * q + (first >> 1));
                        for (unsigned e = 0; e < together && !single; e++) {
                                to[e] = (uint8_t)(together * (4 * q + first) + e);
                                to[together + e] = (uint8_t)(together * (4 * q + second) + e);
                        }
                }
        }
}

/* --- fused products --- */
/* Position along k of the t-th element of a part. part -1: all elements; 0 or 1: of each four the first or the last
 * two. */
DS_IX_INLINE unsigned of_part(unsigned t, int part)
{
        return part < 0 ? t : 4 * (t / 2) + 2 * (unsigned)part + (t & 1);
}

/* Sets the sizes of the product, and for each term the row of b with its factor. */
DS_IX_INLINE void prepare(const ds_ix_warp *w, const struct ds_ix_matrix *m, int part, struct product *p)
{
        unsigned stored = m->sparse ? m->k / 2u : m->k;
        uint8_t columns[16][DS_IX_MATRIX_STORED];

        p->m = m->m;
        p->n = m->n;
        p->k = part < 0 ? stored : stored / 2;
        p->in_b = (unsigned)m->k * m->n;
        p->row_stride = m->sparse ? p->k : 0;
        p->listed = m->sparse || part >= 0;
        if (m->sparse)
                ds_ix_read_metadata(w, m, columns);
        for (unsigned i = 0; i < (m->sparse ? 16 : 1); i++) {
                for (unsigned t = 0; t < p->k; t++)
                        p->row[i * p->k + t] =
                                (uint16_t)((m->sparse ? columns[i][of_part(t, part)] : of_part(t, part)) * 8);
        }
}

DS_IX_INLINE void take_c(const ds_ix_warp *w, const struct ds_ix_matrix *m, int half, uint32_t *c)
{
        unsigned count = (unsigned)m->m * m->n;
        uint16_t halves[DS_IX_ACCUMULATORS];

        if (m->c.kind != DS_IX_MATRIX_F16) {
                ds_ix_gather32(w, &m->c, m->n, c);
                return;
        }
        ds_ix_gather16(w, &m->c, m->n, halves);
        for (unsigned i = 0; i < count; i++)
                c[i] = half ? halves[i] : ds_ix_bits32(ds_ix_from_half(halves[i]));
}

DS_IX_INLINE void give_d(const ds_ix_warp *w, const struct ds_ix_matrix *m, int half, const uint32_t *d)
{
        unsigned count = (unsigned)m->m * m->n;
        uint16_t halves[DS_IX_ACCUMULATORS];

        if (m->d.kind != DS_IX_MATRIX_F16) {
                ds_ix_scatter32(w, &m->d, m->n, d);
                return;
        }
        for (unsigned i = 0; i < count; i++)
                halves[i] = half ? (uint16_t)d[i] : ds_ix_to_half(ds_ix_float(d[i]));
        ds_ix_scatter16(w, &m->d, m->n, halves);
}

DS_IX_INLINE const ds_ix_op *fused(ds_ix_warp *w, const ds_ix_op *op, enum ds_ix_matrix_kind kind)
{
        const struct ds_ix_matrix *m = op->ext;
        int half = m->c.kind == DS_IX_MATRIX_F16 && m->d.kind == DS_IX_MATRIX_F16;
        const ds_ix_op *next;
        struct ds_ix_dense a, b;
        struct product p;

        if (!ds_ix_whole_warp(w, op, &next))
                return next;
        w->cost.tensor_instructions += m->weight;
        prepare(w, m, -1, &p);
        p.group = DS_MIN(p.k, m->group);
        ds_ix_gather(w, &m->a, &a);
        ds_ix_gather(w, &m->b, &b);
        for (unsigned i = 0; i < p.m; i++) {
                for (unsigned t = 0; t < p.k; t++)
                        p.a[i * p.k + t] = element(kind, a.row[i], t);
        }
        for (unsigned j = 0; j < p.n; j++) {
                for (unsigned t = 0; t < m->k; t++)
                        p.b[(j / 8 * m->k + t) * 8 + j % 8] = element(kind, b.row[j], t);
        }
        take_c(w, m, half, p.c);
        if (half)
                multiply(&p, formats[kind], 1);
        else
                multiply(&p, formats[kind], 0);
        give_d(w, m, half, p.c);
        return op + 1;
}

DS_IX_INLINE const ds_ix_op *mma_f16_body(ds_ix_warp *w, const ds_ix_op *op)
{
        return fused(w, op, DS_IX_MATRIX_F16);
}

DS_IX_INLINE const ds_ix_op *mma_bf16_body(ds_ix_warp *w, const ds_ix_op *op)
{
        return fused(w, op, DS_IX_MATRIX_BF16);
}

DS_IX_INLINE const ds_ix_op *mma_tf32_body(ds_ix_warp *w, const ds_ix_op *op)
{
        return fused(w, op, DS_IX_MATRIX_TF32);
}

DS_IX_FLOW_VARIANTS(mma_f16)
DS_IX_FLOW_VARIANTS(mma_bf16)
DS_IX_FLOW_VARIANTS(mma_tf32)

/* --- eight bits of floating point --- */
DS_IX_INLINE void add_late(const uint32_t *c, unsigned n, int half, uint32_t *d)
{
        for (unsigned i = 0; i < n; i++) {
                float x = ds_ix_from_half((uint16_t)c[i]), y = ds_ix_from_half((uint16_t)d[i]);

                d[i] = half ? ds_ix_to_half(ds_ix_narrow_odd((double)x + y))
                            : ds_ix_canonical(ds_ix_float(c[i]) + ds_ix_float(d[i]));
        }
}

DS_IX_INLINE const ds_ix_op *mma_fp8_body(ds_ix_warp *w, const ds_ix_op *op)
{
        const struct ds_ix_matrix *m = op->ext;
        int half = m->d.kind == DS_IX_MATRIX_F16;
        uint32_t c[DS_IX_ACCUMULATORS];
        const ds_ix_op *next;
        struct ds_ix_dense a, b;
        struct product p;

        if (!ds_ix_whole_warp(w, op, &next))
                return next;
        w->cost.tensor_instructions += m->weight;
        ds_ix_gather(w, &m->a, &a);
        ds_ix_gather(w, &m->b, &b);
        take_c(w, m, half, c);
        memset(p.c, 0, sizeof(p.c));
        for (unsigned j = 0; j < m->n; j++) {
                for (unsigned t = 0; t < m->k; t++)
                        p.b[(j / 8 * m->k + t) * 8 + j % 8] = half_of((enum ds_ix_matrix_kind)m->b.kind, b.row[j][t]);
        }
        for (int part = 0; part < 2; part++) {
                prepare(w, m, part, &p);
                p.group = p.k;
                for (unsigned i = 0; i < p.m; i++) {
                        for (unsigned t = 0; t < p.k; t++)
                                p.a[i * p.k + t] =
                                        half_of((enum ds_ix_matrix_kind)m->a.kind, a.row[i][of_part(t, part)]);
                }
                multiply(&p, formats[DS_IX_MATRIX_F16], half);
        }
        add_late(c, p.m * p.n, half, p.c);
        give_d(w, m, half, p.c);
        return op + 1;
}

DS_IX_FLOW_VARIANTS(mma_fp8)

const struct ds_ix_impl *ds_ix_find_mma(const struct ds_ix_matrix *m)
{
        switch (m->a.kind) {
        case DS_IX_MATRIX_F16:
                return &mma_f16;
        case DS_IX_MATRIX_BF16:
                return &mma_bf16;
        case DS_IX_MATRIX_TF32:
                return &mma_tf32;
        case DS_IX_MATRIX_E4M3:
        case DS_IX_MATRIX_E5M2:
                return &mma_fp8;
        default:
                return ds_ix_find_mma_exact(m);
        }
}
