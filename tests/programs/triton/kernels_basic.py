# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels, rows, reductions, scans, sorting."""
import triton
import triton.language as tl
from triton.language.extra import libdevice

from corpus import ALL, corpus


@corpus(ALL, "*fp32 *fp32 *fp32 i32", BLOCK=256)
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@corpus((80,), "*fp16:16 *fp16:16 i32:16", {"num_warps": 8}, BLOCK=2048)
def scale_halves(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0, eviction_policy="evict_first")
    tl.store(out + i, v * 2.5 + 1, mask=i < n, cache_modifier=".cs")


@corpus((75, 90), "*fp32 *fp32 i32 i32", BLOCK=1024)
def softmax_row(x, out, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, mask=i < n, other=-float("inf"))
    v = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * stride + i, v / tl.sum(v, axis=0), mask=i < n)


@corpus((80,), "*bf16 *bf16 i32", BLOCK=512)
def softmax_streamed(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    most = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for at in range(0, n, BLOCK):
        i = at + tl.arange(0, BLOCK)
        v = tl.load(x + row + i, mask=i < n, other=-float("inf")).to(tl.float32)
        more = tl.maximum(most, v)
        total = total * tl.exp(most - more) + tl.exp(v - more)
        most = more
    top = tl.max(most, 0)
    total_sum = tl.sum(total * tl.exp(most - top), 0)
    for at in range(0, n, BLOCK):
        i = at + tl.arange(0, BLOCK)
        v = tl.load(x + row + i, mask=i < n, other=0).to(tl.float32)
        tl.store(out + row + i, tl.exp(v - top) / total_sum, mask=i < n)


@corpus((86, 90), "*fp16 *fp16 *fp16 *fp16 *fp32 *fp32 i32 fp32", BLOCK=1024)
def layer_norm(x, out, gain, bias, means, scales, n, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=0).to(tl.float32)
    mean = tl.sum(v, 0) / n
    d = tl.where(i < n, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, 0) / n + epsilon)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    y = d * scale * tl.load(gain + i, mask=i < n) + tl.load(bias + i, mask=i < n)
    tl.store(out + row * n + i, y, mask=i < n)


@corpus((80,), "*fp32 *fp32 *fp32 *fp32 *fp32 *fp32 *i32 i32", BLOCK=256)
def layer_norm_backward(dy, x, gain, means, scales, dgain, lock, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = (tl.load(x + row * n + i, mask=i < n, other=0) - tl.load(means + row)) * tl.load(scales + row)
    g = tl.load(dy + row * n + i, mask=i < n, other=0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(dgain + i, tl.load(dgain + i, mask=i < n) + g * v, mask=i < n)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)
    w = tl.load(gain + i, mask=i < n, other=0)
    tl.store(dy + row * n + i, w * g - tl.sum(w * g, 0) / n - v * tl.sum(w * g * v, 0) / n, mask=i < n)


@corpus((75, 86), "*fp32 *fp32 i32 i32 fp32", BLOCK=512)
def dropout(x, out, n, seed, p, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, tl.where(tl.rand(seed, i) > p, v / (1 - p), 0.0), mask=i < n)


@corpus((80,), "*i32 *fp32 i32", BLOCK=256)
def random_kinds(integers, normals, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(integers + i, a ^ b ^ c ^ d)
    tl.store(normals + i, tl.randn(seed, i))


@corpus((75, 90), "*i32 *i32", BLOCK=1024)
def scan_sum(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.cumsum(tl.load(x + i), 0))


@corpus((80,), "*fp32 *fp32", ROWS=16, COLUMNS=64)
def scan_columns_reverse(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, tl.cumprod(tl.load(x + at), axis=0, reverse=True))


@triton.jit
def first_order(a, b, c, d):
    return a * c, b * c + d


@corpus((86,), "*fp32 *fp32 *fp32", BLOCK=512)
def scan_recurrence(decay, x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    _, y = tl.associative_scan((tl.load(decay + i), tl.load(x + i)), 0, first_order)
    tl.store(out + i, y)


@corpus((80,), "*fp32 *fp32 *i32 i32", BLOCK=512)
def reductions(x, values, indices, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    v = tl.load(x + row * n + i, mask=i < n, other=0)
    tl.store(values + row * 3, tl.min(v, 0))
    tl.store(values + row * 3 + 1, tl.xor_sum(v.to(tl.int32, bitcast=True), 0).to(tl.float32, bitcast=True))
    tl.store(indices + row * 2, tl.argmax(v, 0))
    tl.store(indices + row * 2 + 1, tl.argmin(v, 0, tie_break_left=False))


@triton.jit
def larger_size(a, b):
    return tl.where(tl.abs(a) > tl.abs(b), a, b)


@corpus((75,), "*fp64 *fp64", ROWS=32, COLUMNS=32)
def reduce_custom(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + tl.arange(0, ROWS), tl.reduce(tl.load(x + at), 1, larger_size))


@corpus((80, 90), "*i32 *i32", BLOCK=256)
def sort_block(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.sort(tl.load(x + i), descending=True))


@corpus((86,), "*fp32 *fp32", ROWS=4, COLUMNS=128)
def top_of_rows(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    top = tl.topk(tl.load(x + at), 8)
    tl.store(out + tl.arange(0, ROWS)[:, None] * 8 + tl.arange(0, 8)[None, :], top)


@corpus((80,), "*i32 *i32 i32", BLOCK=1024, BINS=64)
def histogram(x, out, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x + i, mask=i < n, other=0) & (BINS - 1), BINS)
    tl.atomic_add(out + tl.arange(0, BINS), counts, sem="relaxed")


@corpus((75, 80, 90), "*i32 *fp32 *fp16 *i64 i32", BLOCK=128)
def atomics(a, f, h, w, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    old = tl.atomic_add(a + (i & 7), i, mask=inside)
    tl.atomic_max(a + 8 + (i & 7), old, mask=inside, sem="acquire")
    tl.atomic_min(f + (i & 3), i.to(tl.float32), mask=inside, sem="release", scope="cta")
    tl.atomic_add(f + 4, 0.5, mask=tl.program_id(0) < 3, scope="sys")
    tl.atomic_add(h + i, (i & 15).to(tl.float16), mask=inside)
    tl.atomic_xor(w + (i & 1), i.to(tl.int64), mask=inside)
    tl.atomic_or(a + 16 + i, i, mask=inside)
    tl.atomic_and(a + 17 + i, i, mask=inside)
    tl.atomic_cas(a + 200, 0, 5)


@corpus((80,), "*fp32 *i32 *fp32 i32", BLOCK=256)
def gather_rows(x, indices, out, width, BLOCK: tl.constexpr):
    row = tl.load(indices + tl.program_id(0))
    for at in range(0, width, BLOCK):
        i = at + tl.arange(0, BLOCK)
        tl.store(out + tl.program_id(0) * width + i, tl.load(x + row * width + i, mask=i < width), mask=i < width)


@corpus((86,), "*fp32 *i32 *fp32", N=128)
def gather_in_block(x, indices, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.gather(tl.load(x + i), tl.load(indices + i), 0))


@corpus((75,), "*fp32 *i32 *fp32 i32", BLOCK=128)
def scatter_add(x, indices, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(indices + i, mask=i < n, other=0), tl.load(x + i, mask=i < n), mask=i < n)


@corpus((80,), "*fp32 *fp32 i32 i32", ROWS=64, COLUMNS=32)
def transpose(x, out, m, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    v = tl.load(x + r[:, None] * n + c[None, :], mask=(r[:, None] < m) & (c[None, :] < n))
    tl.store(out + c[:, None] * m + r[None, :], tl.trans(v), mask=(c[:, None] < n) & (r[None, :] < m))


@corpus((86,), "*i32 *i32", N=128)
def shapes(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.split(tl.reshape(tl.load(x + i), (N // 2, 2)))
    c = tl.reshape(tl.join(b, a), (N,))
    d = tl.flip(c, 0) + tl.interleave(a, b)
    tl.store(out + i, tl.ravel(tl.permute(tl.reshape(d, (4, N // 8, 2)), (2, 0, 1))))


@corpus((75, 90), "*fp32 *fp32 i32", BLOCK=256)
def math_functions(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=1)
    y = tl.sin(v) + tl.cos(v) + tl.log(v) + tl.log2(v) + tl.exp2(v) + tl.rsqrt(v) + tl.sqrt_rn(v) + tl.div_rn(v, 3.0)
    y += tl.erf(v) + tl.floor(v) + tl.ceil(v) + tl.fma(v, v, v) + tl.sigmoid(v) + tl.clamp(v, -1.0, 1.0)
    tl.store(out + i, y, mask=i < n)


@corpus((80,), "*fp32 *fp64 *fp32 i32", BLOCK=128)
def library_functions(x, w, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=1)
    y = libdevice.tanh(v) + libdevice.pow(v, 2.5) + libdevice.asin(v) + libdevice.lgamma(v) + libdevice.erfinv(v) + libdevice.ilogb(v)
    d = tl.load(w + i, mask=i < n, other=1)
    tl.store(out + i, y + (libdevice.sinh(d) + libdevice.cbrt(d) + libdevice.atan2(d, d + 1)).to(tl.float32), mask=i < n)


@corpus((86,), "*i32 *i32 *i64 i32", BLOCK=256)
def integer_functions(x, out, wide, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=7)
    y = tl.umulhi(v, v + 1) + v // 7 + v % 13 + tl.cdiv(v, 3) + (v >> 3) + (v << 2) + (v ^ 0x55) + tl.abs(v) + tl.minimum(v, 9)
    y += libdevice.popc(v) + libdevice.clz(v) + libdevice.brev(v) + libdevice.mulhi(v, y)
    tl.store(out + i, tl.where((v & 1) == 1, y, ~y), mask=i < n)
    tl.store(wide + i, v.to(tl.int64) * y // 1000003, mask=i < n)


@corpus((80,), "*fp32 *fp16 *bf16 *i8 *u8 *fp64 i32", BLOCK=256)
def conversions(x, h, b, s, u, d, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(h + i, v.to(tl.float16, fp_downcast_rounding="rtz"), mask=i < n)
    tl.store(b + i, v.to(tl.bfloat16), mask=i < n)
    tl.store(s + i, v.to(tl.int8), mask=i < n)
    tl.store(u + i, v.to(tl.uint8), mask=i < n)
    tl.store(d + i, v.to(tl.float64) + tl.load(s + i, mask=i < n), mask=i < n)


@corpus((90,), "*fp16 *fp8e4nv *fp8e5 *fp32 i32", BLOCK=512)
def eighths(x, a, b, back, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(a + i, v.to(tl.float8e4nv), mask=i < n)
    tl.store(b + i, v.to(tl.float8e5), mask=i < n)
    tl.store(back + i, tl.load(a + i, mask=i < n).to(tl.float32) + tl.load(b + i, mask=i < n).to(tl.float32), mask=i < n)


# float8e4nv needs sm_89; for sm_75 Triton 3.9 writes min.f16, which ptxas refuses there
@corpus((80,), "*fp16 *fp8e5 *fp32 i32", BLOCK=512)
def eighths_emulated(x, b, back, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(b + i, tl.load(x + i, mask=i < n).to(tl.float8e5), mask=i < n)
    tl.store(back + i, tl.load(b + i, mask=i < n).to(tl.float32), mask=i < n)


@corpus((75, 80), "*i32 *i32 *i32", BLOCK=128)
def inline_assembly(x, y, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.inline_asm_elementwise("{ .reg .b32 t; lop3.b32 t, $1, $2, 7, 0x96; shf.l.wrap.b32 $0, t, $1, 5; }", "=r,r,r",
                                  [tl.load(x + i), tl.load(y + i)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(out + i, v)


@corpus((80,), "*u8 *u8", BLOCK=512)
def inline_assembly_packed(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.inline_asm_elementwise("prmt.b32 $0, $1, 0, 0x0123;", "=r,r", [tl.load(x + i)], dtype=tl.uint8, is_pure=True, pack=4)
    tl.store(out + i, v)


@corpus((80,), "*fp32 *fp32 i32", {"debug": True}, BLOCK=128)
def checked(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.device_assert(v >= 0, "negative")
    tl.device_print("values", v)
    tl.store(out + i, tl.sqrt(v), mask=i < n)


@corpus((90,), "*fp32 *fp32 i32", {"maxnreg": 64, "num_ctas": 2}, BLOCK=1024)
def vector_add_cluster(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.program_id(1) + tl.num_programs(0), mask=i < n)


@corpus((86,), "*fp32 *fp32 i32", BLOCK=256)
def stencil(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + i - 1, mask=(i > 0) & (i < n), other=0)
    right = tl.load(x + i + 1, mask=i < n - 1, other=0)
    tl.store(out + i, 0.5 * tl.load(x + i, mask=i < n) + 0.25 * (left + right), mask=i < n)


@corpus((80,), "*fp32 *i64 *fp32 *fp32 i32", BLOCK=1024)
def cross_entropy(logits, labels, loss, gradient, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(logits + row * n + i, mask=i < n, other=-float("inf"))
    label = tl.load(labels + row)
    v = v - tl.max(v, 0)
    total = tl.sum(tl.exp(v), 0)
    tl.store(loss + row, tl.log(total) - tl.sum(tl.where(i == label, v, 0.0), 0))
    tl.store(gradient + row * n + i, tl.exp(v) / total - tl.where(i == label, 1.0, 0.0), mask=i < n)


@corpus((86, 90), "*fp32 *fp32 *fp32 *fp32 fp32 fp32 fp32 i32 i32", BLOCK=512)
def adam(w, g, m, v, rate, b1, b2, step, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    grad = tl.load(g + i, mask=inside)
    first = b1 * tl.load(m + i, mask=inside) + (1 - b1) * grad
    second = b2 * tl.load(v + i, mask=inside) + (1 - b2) * grad * grad
    tl.store(m + i, first, mask=inside)
    tl.store(v + i, second, mask=inside)
    size = first / (1 - libdevice.pow(b1, step.to(tl.float32)))
    tl.store(w + i, tl.load(w + i, mask=inside) - rate * size / (tl.sqrt(second) + 1e-8), mask=inside)


@corpus((80,), "*fp16 *fp32 *fp32 *fp16 i32 i32", HALF=32)
def rotary(q, cosines, sines, out, heads, length, HALF: tl.constexpr):
    at = tl.program_id(0)
    i = tl.arange(0, HALF)
    c = tl.load(cosines + at * HALF + i)
    s = tl.load(sines + at * HALF + i)
    for h in range(heads):
        base = (at * heads + h) * 2 * HALF
        a = tl.load(q + base + i)
        b = tl.load(q + base + HALF + i)
        tl.store(out + base + i, a * c - b * s)
        tl.store(out + base + HALF + i, b * c + a * s)
