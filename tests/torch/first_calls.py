#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time of the first call of cuDNN's attention for shapes that this process has not used yet.

cuDNN generates a kernel for each shape, and NVRTC compiles it, unless the driver's cache on disk has the result. The program
also checks the outputs of the first calls against PyTorch's own product. Run it twice natively and twice under DetShare:

     CUDA_CACHE_PATH=FOLDER python3 tests/torch/first_calls.py
     CUDA_CACHE_PATH=FOLDER detsharectl run -- python3 tests/torch/first_calls.py

It prints a line: the shapes' first calls and their sum, ms. The exit status is 1 if an output is wrong.
"""
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

# (size of a head, length of the sequence, kind of mask)
SHAPES = ((64, 128, ""), (64, 200, ""), (128, 333, ""), (128, 512, "causal"), (64, 333, "mask"), (128, 200, "causal"))
HEADS = 16
TOLERANCE = 0.05  # largest difference from the product in fp32


def attention(inputs, kind):
    n = inputs[0].shape[2]
    mask = torch.zeros(1, 1, n, n, device="cuda", dtype=torch.bfloat16) if kind == "mask" else None
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(*inputs, attn_mask=mask, is_causal=kind == "causal")


def expected(inputs, kind):
    q, k, v = (x.float() for x in inputs)
    scores = q @ k.transpose(2, 3) * q.shape[3] ** -0.5
    if kind == "causal":
        scores += torch.ones(scores.shape[2:], device="cuda").tril().log()
    return torch.softmax(scores, -1) @ v


def first_call(size, length, kind):
    """Milliseconds of the call, and whether its output is right."""
    torch.manual_seed(length)
    inputs = [torch.randn(1, HEADS, length, size, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    torch.cuda.synchronize()
    begin = time.perf_counter()
    output = attention(inputs, kind)
    torch.cuda.synchronize()
    took = (time.perf_counter() - begin) * 1e3
    return took, float((expected(inputs, kind) - output.float()).abs().max()) < TOLERANCE


def main():
    times, right = zip(*(first_call(*shape) for shape in SHAPES))
    names = (f"{size}x{length}{'-' + kind if kind else ''} {took:.1f}" for (size, length, kind), took in zip(SHAPES, times))
    print(f"first calls, ms: {', '.join(names)}; sum {sum(times):.1f}")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
