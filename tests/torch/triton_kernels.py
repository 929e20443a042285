# SPDX-License-Identifier: Apache-2.0
"""Triton kernels for compile.py, each compared with PyTorch: Triton compiles them here and loads bare cubins."""
import torch
import triton
import triton.language as tl

import common


@triton.jit
def add_kernel(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(a + at, mask) + tl.load(b + at, mask), mask)


@triton.jit
def softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row + at, at < columns, -float("inf"))
    values = tl.exp(values - tl.max(values))
    tl.store(out + row + at, values / tl.sum(values), at < columns)


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, K, BK):
        total = tl.dot(tl.load(a + rows[:, None] * K + (at + inner)[None, :]),
                       tl.load(b + (at + inner)[:, None] * N + columns[None, :]), total)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


@triton.jit
def descriptor_kernel(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, K, BK):
        total = tl.dot(a.load([m, at]), b.load([at, n]), total)
    c.store([m, n], total.to(tl.float16))


@triton.jit
def histogram_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.atomic_add(out + tl.load(x + at, mask, 0), 1, mask)


def prepared(step, expected, tolerance):
    """Prepares a step whose result must be near PyTorch's."""
    off = float((step().double() - expected.double()).abs().max() / expected.double().abs().max())
    if not off <= tolerance:
        raise AssertionError(f"relative error {off:.3g}, at most {tolerance} is allowed")
    return common.Prepared(output=step, step=step, info={"off": off})


def add(device):
    a, b = torch.randn(2, 1000003, device=device)
    out = torch.empty_like(a)

    def step():
        add_kernel[(triton.cdiv(a.numel(), 1024),)](a, b, out, a.numel(), BLOCK=1024)
        return out
    return prepared(step, a + b, 0)


def softmax(device):
    x = torch.randn(2000, 1000, device=device)
    out = torch.empty_like(x)

    def step():
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=1024, num_warps=4)
        return out
    return prepared(step, x.softmax(-1), 1e-5)


def matrices(device):
    a, b = torch.randn(1024, 512, device=device).half(), torch.randn(512, 768, device=device).half()
    return a, b, torch.empty(1024, 768, dtype=torch.float16, device=device)


def matmul(device):
    """tl.dot becomes wgmma on sm_90, with dynamic shared memory beyond 48 KiB."""
    a, b, c = matrices(device)

    def step():
        matmul_kernel[(1024 // 128, 768 // 128)](a, b, c, 1024, 768, 512, BM=128, BN=128, BK=64, num_warps=8, num_stages=4)
        return c
    return prepared(step, a.float() @ b.float(), 5e-3)


def matmul_descriptors(device):
    """A matmul with tensor maps: cuTensorMapEncodeTiled, and the map as a kernel parameter of 128 bytes."""
    from triton.tools.tensor_descriptor import TensorDescriptor
    if torch.cuda.get_device_capability() < (9, 0):
        raise common.Skipped("tensor maps need compute capability 9.0")
    a, b, c = matrices(device)
    maps = [TensorDescriptor.from_tensor(t, block) for t, block in ((a, [128, 64]), (b, [64, 128]), (c, [128, 128]))]

    def step():
        descriptor_kernel[(1024 // 128, 768 // 128)](*maps, 512, BM=128, BN=128, BK=64, num_warps=8, num_stages=3)
        return c
    return prepared(step, a.float() @ b.float(), 5e-3)


def atomic_histogram(device):
    x = torch.randint(0, 256, (1 << 20,), device=device, dtype=torch.int32)

    def step():
        out = torch.zeros(256, dtype=torch.int32, device=device)
        histogram_kernel[(x.numel() // 1024,)](x, out, x.numel(), BLOCK=1024)
        return out
    return prepared(step, torch.bincount(x.long(), minlength=256), 0)
