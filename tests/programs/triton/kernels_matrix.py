# SPDX-License-Identifier: Apache-2.0
"""Matrix products and kernels built from them: pipelines, descriptors, attention."""
import triton
import triton.language as tl

from corpus import corpus


@corpus((75, 80, 90), "*fp16:16 *fp16:16 *fp32:16 i32 i32:16 i32:16", {"num_stages": 3}, name="matmul_f16", M=64, N=64, K=32)
@corpus((86,), "*bf16:16 *bf16:16 *bf16:16 i32 i32:16 i32:16", {"num_stages": 4, "num_warps": 8}, name="matmul_bf16", M=128, N=64, K=32)
@corpus((80,), "*fp32:16 *fp32:16 *fp32:16 i32 i32:16 i32:16", {"num_stages": 5}, name="matmul_tf32", M=64, N=64, K=32)
@corpus((80, 90), "*i8:16 *i8:16 *i32:16 i32 i32:16 i32:16", {"num_stages": 3}, name="matmul_int8", M=64, N=64, K=64)
@corpus((90,), "*bf16:16 *bf16:16 *bf16:16 i32 i32:16 i32:16", {"num_stages": 3, "num_warps": 8}, name="matmul_bf16_warpgroups", M=128, N=128, K=64)
@corpus((90,), "*fp8e4nv:16 *fp8e5:16 *fp32:16 i32 i32:16 i32:16", {"num_stages": 3}, name="matmul_eighths", M=64, N=64, K=64)
@corpus((90,), "*fp16:16 *fp16:16 *fp16:16 i32 i32:16 i32:16", {"num_stages": 2, "num_ctas": 2}, name="matmul_two_blocks", M=128, N=128, K=32)
@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    r = (tl.program_id(0) * M + tl.arange(0, M)) % m
    s = tl.program_id(1) * N + tl.arange(0, N)
    e = tl.arange(0, K)
    x = a + r[:, None] * k + e[None, :]
    y = b + e[:, None] * n + s[None, :]
    total = tl.zeros((M, N), tl.int32 if c.dtype.element_ty == tl.int32 else tl.float32)
    for _ in range(0, k, K):
        total = tl.dot(tl.load(x), tl.load(y), total)
        x += K
        y += K * n
    tl.store(c + r[:, None] * n + s[None, :], total.to(c.dtype.element_ty))


@corpus((80,), "*fp32 *fp32 *fp32 i32", {"num_stages": 2}, name="matmul_ieee", PRECISION="ieee")
@corpus((80,), "*fp32 *fp32 *fp32 i32", {"num_stages": 2}, name="matmul_tf32x3", PRECISION="tf32x3")
@triton.jit
def matmul_precision(a, b, c, k, PRECISION: tl.constexpr):
    r = tl.arange(0, 32)
    total = tl.zeros((32, 32), tl.float32)
    for at in range(0, k, 32):
        x = tl.load(a + r[:, None] * k + at + r[None, :])
        y = tl.load(b + (at + r[:, None]) * 32 + r[None, :])
        total += tl.dot(x, y, input_precision=PRECISION)
    tl.store(c + r[:, None] * 32 + r[None, :], total)


@corpus((86,), "*fp16:16 *i32:16 *fp16:16 *fp16:16 i32:16 i32:16", {"num_stages": 3})
def matmul_int4(a, packed, scales, c, n, k):
    r = tl.arange(0, 64)
    s = tl.program_id(0) * 32 + tl.arange(0, 32)
    e = tl.arange(0, 32)
    total = tl.zeros((64, 32), tl.float32)
    for at in range(0, k, 32):
        x = tl.load(a + r[:, None] * k + at + e[None, :])
        w = tl.load(packed + ((at + e[:, None]) // 8) * n + s[None, :])
        w = ((w >> ((e[:, None] % 8) * 4)) & 15) - 8
        y = w.to(tl.float16) * tl.load(scales + (at // 64) * n + s)[None, :]
        total = tl.dot(x, y, total)
    tl.store(c + r[:, None] * n + s[None, :], total.to(tl.float16))


@corpus((80, 90), "*fp16:16 *fp16:16 *fp16:16 *fp16:16 fp32 i32", {"num_stages": 3}, name="attention_causal", M=64, N=32, D=64, CAUSAL=True)
@corpus((86,), "*bf16:16 *bf16:16 *bf16:16 *bf16:16 fp32 i32", {"num_stages": 4, "num_warps": 4}, name="attention_full", M=64, N=64, D=32, CAUSAL=False)
@triton.jit
def attention(q, k, v, out, scale, length, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    head = tl.program_id(1) * length * D
    r = tl.program_id(0) * M + tl.arange(0, M)
    s = tl.arange(0, N)
    e = tl.arange(0, D)
    query = tl.load(q + head + r[:, None] * D + e[None, :], mask=r[:, None] < length, other=0.0)
    most = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    value = tl.zeros((M, D), tl.float32)
    last = tl.minimum((tl.program_id(0) + 1) * M, length) if CAUSAL else length
    for at in range(0, last, N):
        keys = tl.load(k + head + (at + s[None, :]) * D + e[:, None], mask=at + s[None, :] < length, other=0.0)
        score = tl.dot(query, keys) * scale
        if CAUSAL:
            score = tl.where(r[:, None] >= at + s[None, :], score, -float("inf"))
        more = tl.maximum(most, tl.max(score, 1))
        p = tl.math.exp2(score - more[:, None])
        keep = tl.math.exp2(most - more)
        total = total * keep + tl.sum(p, 1)
        values = tl.load(v + head + (at + s[:, None]) * D + e[None, :], mask=at + s[:, None] < length, other=0.0)
        value = tl.dot(p.to(values.dtype), values, value * keep[:, None])
        most = more
    tl.store(out + head + r[:, None] * D + e[None, :], (value / total[:, None]).to(out.dtype.element_ty), mask=r[:, None] < length)


@corpus((75,), "*fp16 *fp16 *fp16 i32 i32", K=64)
def decode_attention(q, k, out, length, stride, K: tl.constexpr):
    e = tl.arange(0, K)
    query = tl.load(q + tl.program_id(0) * K + e).to(tl.float32)
    most = -float("inf")
    total = 0.0
    value = tl.zeros((K,), tl.float32)
    for at in range(0, length):
        key = tl.load(k + at * stride + e).to(tl.float32)
        score = tl.sum(query * key, 0)
        more = tl.maximum(most, score)
        p = tl.exp(score - more)
        keep = tl.exp(most - more)
        total = total * keep + p
        value = value * keep + p * key
        most = more
    tl.store(out + tl.program_id(0) * K + e, (value / total).to(tl.float16))


@corpus((80,), "*fp16:16 *fp16:16 *fp16:16 i32 i32 i32", M=64, N=64, K=32)
def block_pointers(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    r = tl.program_id(0) * M
    s = tl.program_id(1) * N
    x = tl.make_tensor_descriptor(a, (m, k), (k, 1), (M, K))
    y = tl.make_tensor_descriptor(b, (k, n), (n, 1), (K, N))
    z = tl.make_tensor_descriptor(c, (m, n), (n, 1), (M, N))
    total = tl.zeros((M, N), tl.float32)
    for at in range(0, k, K):
        total = tl.dot(x.load([r, at]), y.load([at, s]), total)
    z.store([r, s], total.to(tl.float16))


@corpus((90,), "*fp16:16 *fp16:16 *fp16:16 i32 i32 i32", {"num_stages": 3, "num_warps": 4}, name="descriptors", M=64, N=64, K=64, SPECIALIZE=False)
@corpus((90,), "*fp16:16 *fp16:16 *fp16:16 i32 i32 i32", {"num_stages": 2, "num_warps": 4}, name="descriptors_warp_specialized", M=128, N=64, K=64,
        SPECIALIZE=True)
@triton.jit
def tensor_copies(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, SPECIALIZE: tl.constexpr):
    r = tl.program_id(0) * M
    s = tl.program_id(1) * N
    x = tl.make_tensor_descriptor(a, (m, k), (k, 1), (M, K))
    y = tl.make_tensor_descriptor(b, (n, k), (k, 1), (N, K))
    z = tl.make_tensor_descriptor(c, (m, n), (n, 1), (M, N))
    total = tl.zeros((M, N), tl.float32)
    for at in tl.range(0, k, K, warp_specialize=SPECIALIZE):
        total = tl.dot(x.load([r, at]), y.load([s, at]).T, total)
    z.store([r, s], total.to(tl.float16))


@corpus((90,), "*fp32:16 *fp32:16 i32 i32", N=64)
def descriptor_reductions(a, c, m, n, N: tl.constexpr):
    r = tl.program_id(0) * N
    x = tl.make_tensor_descriptor(a, (m, n), (n, 1), (N, N))
    z = tl.make_tensor_descriptor(c, (m, n), (n, 1), (N, N))
    v = x.load([r, 0])
    z.atomic_add([r, 0], v)
    z.atomic_add([0, 0], v * 2)


@corpus((80, 90), "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16", {"num_stages": 4, "num_warps": 4}, M=64, N=64, K=32, PROGRAMS=132)
def persistent_matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PROGRAMS: tl.constexpr):
    tiles_n = tl.cdiv(n, N)
    tiles = tl.cdiv(m, M) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=False):
        r = tile // tiles_n * M + tl.arange(0, M)
        s = tile % tiles_n * N + tl.arange(0, N)
        e = tl.arange(0, K)
        total = tl.zeros((M, N), tl.float32)
        for at in range(0, k, K):
            x = tl.load(a + r[:, None] * k + at + e[None, :], mask=r[:, None] < m, other=0.0)
            y = tl.load(b + (at + e[:, None]) * n + s[None, :], mask=s[None, :] < n, other=0.0)
            total = tl.dot(x, y, total)
        tl.store(c + r[:, None] * n + s[None, :], total.to(tl.float16), mask=(r[:, None] < m) & (s[None, :] < n))


@corpus((86,), "*fp16:16 *fp16:16 *fp32:16 i32:16", M=16, N=16, K=32, SPLIT=4)
def matmul_split(a, b, c, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, SPLIT: tl.constexpr):
    r = tl.arange(0, M)
    s = tl.arange(0, N)
    e = tl.program_id(0) * K + tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for at in range(0, k, K * SPLIT):
        total += tl.dot(tl.load(a + r[:, None] * k + at + e[None, :]), tl.load(b + (at + e[:, None]) * N + s[None, :]))
    tl.atomic_add(c + r[:, None] * N + s[None, :], total)


@corpus((80,), "*fp64 *fp64 *fp64 i32", N=16)
def matmul_double(a, b, c, k, N: tl.constexpr):
    r = tl.arange(0, N)
    total = tl.zeros((N, N), tl.float64)
    for at in range(0, k):
        total += tl.load(a + r * k + at)[:, None] * tl.load(b + at * N + r)[None, :]
    tl.store(c + r[:, None] * N + r[None, :], total)


@corpus((80,), "*fp16:16 *fp16:16 *fp16:16 i32 i32 i32", {"num_stages": 3}, CHANNELS=32, OUT=32, PIXELS=64)
def convolution3(x, w, out, width, height, n, CHANNELS: tl.constexpr, OUT: tl.constexpr, PIXELS: tl.constexpr):
    p = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    c = tl.arange(0, CHANNELS)
    o = tl.arange(0, OUT)
    total = tl.zeros((PIXELS, OUT), tl.float32)
    for tap in tl.static_range(9):
        u = p % width + tap % 3 - 1
        v = p // width + tap // 3 - 1
        inside = (u >= 0) & (u < width) & (v >= 0) & (v < height)
        pixels = tl.load(x + (v * width + u)[:, None] * CHANNELS + c[None, :], mask=inside[:, None], other=0.0)
        weights = tl.load(w + tap * CHANNELS * OUT + c[:, None] * OUT + o[None, :])
        total = tl.dot(pixels, weights, total)
    tl.store(out + p[:, None] * OUT + o[None, :], tl.maximum(total, 0).to(tl.float16), mask=p[:, None] < n)
