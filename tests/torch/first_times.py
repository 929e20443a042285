#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of the first calls of a PyTorch process; tests/bench/first_times.py runs it natively and under DetShare.

  first_op   process start to the end of the first CUDA operation
  operators  200 operators that this process has not called before, each with a synchronisation
  triton     import of Triton to the end of the first launch of a small kernel
  compile    torch.compile of a small network to the end of its first forward pass
  train      process start to the end of the first training step of a small convolutional network

The begin of the process is the number FIRST_BEGIN_US of the environment (CLOCK_MONOTONIC). Prints `ROW us` per row.

usage: first_times.py [--device cuda|cpu] ROW
"""
import os
import sys
import time

BEGIN = float(os.environ.get("FIRST_BEGIN_US", time.monotonic() * 1e6))

# Functions of one floating-point tensor, and of two, each called with up to three types.
UNARY = """abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac
i0 lgamma log log10 log1p log2 logit neg rad2deg reciprocal round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan
tanh trunc isfinite isinf isnan nan_to_num relu sum mean prod amax amin argmax argmin std var norm logsumexp cumsum cumprod
softmax log_softmax sort flip roll tril triu diag trace unique count_nonzero all any""".split()
BINARY = """add sub mul div pow atan2 fmod remainder maximum minimum eq ne lt le gt ge hypot copysign logaddexp matmul bmm_ outer_
kron_ where_ cat stack""".split()
DIMENSION = {"logsumexp", "cumsum", "cumprod", "softmax", "log_softmax", "roll"}
OPERATORS = 200
SLOW_S = 0.005  # an operator's first call that takes longer has a row of its own, s


def row(name, begin):
    print(f"{name} {time.monotonic() * 1e6 - begin:.2f}", flush=True)


def synchronize(torch, device):
    if device != "cpu":
        torch.cuda.synchronize()


def unary(torch, name, a):
    function = getattr(torch, name)
    if name == "flip":
        return function(a, (0,))
    return function(a, 1) if name in DIMENSION else function(a)


def binary(torch, name, a, b):
    special = {"bmm_": lambda: torch.bmm(a[None], b[None]), "outer_": lambda: torch.outer(a[0], b[0]),
               "kron_": lambda: torch.kron(a[:4], b[:4]), "where_": lambda: torch.where(a > b, a, b),
               "cat": lambda: torch.cat((a, b)), "stack": lambda: torch.stack((a, b))}
    return special[name]() if name in special else getattr(torch, name)(a, b)


def operators(torch, device):
    """200 pairs of an operator and a type, in a fixed order: all with float32 first. Slow ones have a row of their own."""
    calls = []
    for kind in (torch.float32, torch.float16, torch.bfloat16):
        a, b = (torch.rand(64, 64, device=device).to(kind) for _ in range(2))
        suffix = str(kind).removeprefix("torch.")
        calls += [(f"{n}.{suffix}", lambda n=n, a=a: unary(torch, n, a)) for n in UNARY]
        calls += [(f"{n}.{suffix}", lambda n=n, a=a, b=b: binary(torch, n, a, b)) for n in BINARY]
    synchronize(torch, device)
    done, all_begin, worst = 0, time.monotonic() * 1e6, 0.0
    for name, call in calls:
        begin = time.monotonic()
        try:
            call()
        except (RuntimeError, NotImplementedError) as error:
            if "not implemented for" not in str(error):  # a type that this operator does not have
                raise
            continue
        synchronize(torch, device)
        took, done = time.monotonic() - begin, done + 1
        worst = max(worst, took)
        if took >= SLOW_S:
            print(f"torch.operator.{name} {took * 1e6:.2f}", flush=True)
        if done == OPERATORS:
            break
    if done < OPERATORS:
        raise SystemExit(f"first_times: only {done} of {OPERATORS} operators ran")
    row("torch.operators_200", all_begin)
    print(f"torch.operators_slowest {worst * 1e6:.2f}", flush=True)


def triton_kernel(torch, device):
    begin = time.monotonic() * 1e6
    import triton_kernels
    row("triton.import", begin)
    begin_launch = time.monotonic() * 1e6
    a, b = torch.ones(2, 4096, device=device)
    out = torch.empty_like(a)
    triton_kernels.add_kernel[(4,)](a, b, out, a.numel(), BLOCK=1024)
    synchronize(torch, device)
    row("triton.first_launch", begin_launch)
    row("triton.process_to_launch", BEGIN)
    if float(out.sum()) != 2 * 4096:
        raise SystemExit("first_times: the Triton kernel's result is wrong")


def compiled(torch, device):
    import compile as programs
    model, inputs = programs.mlp(device)
    synchronize(torch, device)
    begin = time.monotonic() * 1e6
    with torch.no_grad():
        torch.compile(model)(inputs)
    synchronize(torch, device)
    row("compile.first_forward", begin)
    row("compile.process_to_forward", BEGIN)


def train(torch, device):
    nn = torch.nn
    begin = time.monotonic() * 1e6
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 3, stride=2), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 100)).to(device)
    optimiser = torch.optim.AdamW(model.parameters())
    images, labels = torch.randn(16, 3, 64, 64, device=device), torch.randint(100, (16,), device=device)
    synchronize(torch, device)
    row("train.model_to_device", begin)
    for name in ("train.first_step", "train.second_step"):
        begin = time.monotonic() * 1e6
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimiser.step()
        synchronize(torch, device)
        row(name, begin)
        if name == "train.first_step":
            row("train.process_to_first_step", BEGIN)


def first_op(torch, device):
    begin = time.monotonic() * 1e6
    x = torch.ones(1000, device=device) + 1
    synchronize(torch, device)
    row("torch.first_op", begin)
    row("torch.process_to_first_op", BEGIN)
    if float(x.sum()) != 2000:
        raise SystemExit("first_times: the first operation's result is wrong")


def main():
    rows = {"first_op": first_op, "operators": operators, "triton": triton_kernel, "compile": compiled, "train": train}
    words, device = sys.argv[1:], "cuda"
    if words[:1] == ["--device"] and len(words) > 1:
        device, words = words[1], words[2:]
    if len(words) != 1 or words[0] not in rows:
        print(f"first_times.py: {words}: accepted is one of {', '.join(rows)}", file=sys.stderr)
        return 2
    import torch
    if words[0] == "first_op":
        row("torch.process_to_import", BEGIN)
    torch.manual_seed(1)
    rows[words[0]](torch, device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
