#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first steps of PyTorch, stage by stage: one line for each stage, written as soon as it ends, with its time.

A stage compares its result with the CPU's, so a stage that passes has also computed correctly. The first failed stage
ends the program with a traceback and status 1; the last line names it. For work on the drop-in library; compare.py is
the test.

usage: LD_LIBRARY_PATH=build/cuda DETSHARE_SOCKET=... bring_up.py [--device DEVICE] [--keep-going]
"""
import argparse
import faulthandler
import os
import sys
import time
import traceback

BEGIN = time.monotonic()
torch = None  # the first stage imports it
STAGES = []


def stage(function):
    STAGES.append(function)
    return function


def say(text):
    print(f"{time.monotonic() - BEGIN:8.3f}  {text}", flush=True)


def close(name, there, here, tolerance):
    """Asserts that the largest difference is within the tolerance, relative to the largest value. Returns it as text."""
    there, here = there.double().cpu(), here.double().cpu()
    worst = float((there - here).abs().max() / here.abs().max().clamp_min(1e-30))
    if not worst <= tolerance:
        raise AssertionError(f"{name}: relative error {worst:.3g}, at most {tolerance:.3g} is allowed")
    return f"off by {worst:.2g}"


def libraries(*words):
    """The mapped files whose names contain one of the words."""
    with open("/proc/self/maps", encoding="utf8") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if line.count("/")}
    return sorted(path for path in paths if any(word in os.path.basename(path) for word in words))


@stage
def import_torch(_):
    global torch
    import torch as imported
    torch = imported
    return f"{torch.__version__}, CUDA {torch.version.cuda}"


@stage
def count(device):
    if device == "cpu":
        return "runs on the CPU"
    return f"available {torch.cuda.is_available()}, {torch.cuda.device_count()} devices"


@stage
def init(device):
    if device != "cpu":
        torch.cuda.init()
    return f"libraries: {' '.join(libraries('libcuda.so', 'libcudart', 'libdetshare'))}"


@stage
def properties(device):
    if device == "cpu":
        return "-"
    return str(torch.cuda.get_device_properties(0))


@stage
def empty(device):
    return tuple(torch.empty(1 << 20, device=device).shape)


@stage
def copy_there_and_back(device):
    data = torch.arange(1 << 20, dtype=torch.int32)
    assert torch.equal(data.to(device).cpu(), data)


@stage
def fill(device):
    assert torch.ones(1000, device=device).cpu().sum() == 1000


@stage
def add(device):
    a, b = torch.arange(100000.0), torch.ones(100000)
    assert torch.equal((a.to(device) + b.to(device)).cpu(), a + b)


@stage
def reduce(device):
    a = torch.arange(1 << 20, dtype=torch.int64)
    assert int(a.to(device).sum()) == int(a.sum())


@stage
def index_and_sort(device):
    a = torch.randperm(100000, generator=torch.Generator().manual_seed(1))
    assert torch.equal(a.to(device).sort().values.cpu(), torch.arange(100000))
    assert torch.equal(a.to(device)[a.to(device) > 50000].cpu(), a[a > 50000])


@stage
def random(device):
    torch.manual_seed(1)
    return f"mean {float(torch.randn(1 << 20, device=device).mean()):.5f}"


@stage
def synchronize(device):
    if device != "cpu":
        torch.cuda.synchronize()


@stage
def matmul_fp32(device):
    a, b = torch.randn(512, 256), torch.randn(256, 384)
    return close("matmul", a.to(device) @ b.to(device), a @ b, 1e-3)


@stage
def matmul_fp16(device):
    a, b = torch.randn(512, 256).half(), torch.randn(256, 384).half()
    return close("matmul", a.to(device) @ b.to(device), a.float() @ b.float(), 1e-2)


@stage
def matmul_bf16_large(device):
    a, b = torch.randn(2048, 2048).bfloat16(), torch.randn(2048, 2048).bfloat16()
    return close("matmul", a.to(device) @ b.to(device), a.float() @ b.float(), 2e-2)


@stage
def linear_with_bias(device):
    layer, x = torch.nn.Linear(256, 384), torch.randn(64, 256)
    here = layer(x).detach()
    return close("linear", layer.to(device)(x.to(device)).detach(), here, 1e-3)


@stage
def convolution(device):
    layer, x = torch.nn.Conv2d(16, 32, 3, padding=1), torch.randn(4, 16, 32, 32)
    here = layer(x).detach()
    return close("convolution", layer.to(device)(x.to(device)).detach(), here, 5e-3)


@stage
def convolution_fp16(device):
    layer, x = torch.nn.Conv2d(16, 32, 3, padding=1), torch.randn(4, 16, 32, 32)
    here = layer(x).detach()
    return close("convolution", layer.to(device).half()(x.to(device).half()).detach(), here, 2e-2)


@stage
def attention(device):
    q, k, v = (torch.randn(2, 4, 64, 32) for _ in range(3))
    here = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    there = torch.nn.functional.scaled_dot_product_attention(*(t.to(device).half() for t in (q, k, v)))
    return close("attention", there, here, 2e-2)


@stage
def backward(device):
    layer, x = torch.nn.Conv2d(8, 8, 3), torch.randn(2, 8, 16, 16)
    layer(x).square().sum().backward()
    here = layer.weight.grad.clone()
    layer.zero_grad()
    layer.to(device)(x.to(device)).square().sum().backward()
    return close("gradient", layer.weight.grad, here, 1e-2)


@stage
def resnet18(device):
    import torchvision
    torch.manual_seed(1)
    model, x = torchvision.models.resnet18().eval(), torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        here = model(x)
        return close("output", model.to(device)(x.to(device)), here, 1e-2)


@stage
def train_step(device):
    import torchvision
    torch.manual_seed(1)
    model = torchvision.models.resnet18().to(device)
    x, y = torch.randn(8, 3, 64, 64, device=device), torch.arange(8, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler(device)
    losses = []
    for _ in range(4):
        with torch.autocast(device, dtype=torch.float16 if device != "cpu" else torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0], losses
    return " ".join(f"{loss:.3f}" for loss in losses)


@stage
def pinned_and_streams(device):
    if device == "cpu":
        return "-"
    data = torch.arange(1 << 20, dtype=torch.float32).pin_memory()
    stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream):
        event.record()
        there = data.to(device, non_blocking=True) * 2
        end.record()
    torch.cuda.current_stream().wait_stream(stream)
    back = torch.empty_like(data, pin_memory=True)
    back.copy_(there, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(back, data * 2)
    return f"{event.elapsed_time(end):.3f} ms"


@stage
def cuda_graph(device):
    if device == "cpu":
        return "-"
    layer, x = torch.nn.Linear(64, 64).to(device), torch.randn(8, 64, device=device)
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            layer(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = layer(x)
        x.copy_(torch.randn(8, 64))
        graph.replay()
        return close("replay", y, layer(x), 1e-6)


@stage
def triton(device):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)).to(device)
    x = torch.randn(32, 64, device=device)
    with torch.no_grad():
        return close("compiled", torch.compile(model)(x), model(x), 1e-3)


@stage
def memory(device):
    if device == "cpu":
        return "-"
    free, total = torch.cuda.mem_get_info()
    return f"{free >> 20} of {total >> 20} MiB free, {torch.cuda.max_memory_allocated() >> 20} MiB at most used by tensors"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--keep-going", action="store_true", help="continue after a stage that fails")
    options = parser.parse_args()
    faulthandler.enable()
    failed = 0
    for function in STAGES:
        begin = time.monotonic()
        print(f"{begin - BEGIN:8.3f}  {function.__name__} ...", flush=True)
        try:
            # after 90 s a stage that hangs prints its traceback, and the program ends
            faulthandler.dump_traceback_later(90, exit=True)
            text = function(options.device)
            faulthandler.cancel_dump_traceback_later()
        except Exception:
            faulthandler.cancel_dump_traceback_later()
            traceback.print_exc()
            failed += 1
            say(f"{function.__name__} FAILED after {time.monotonic() - begin:.3f} s")
            if torch is None or not options.keep_going:
                break
            continue
        say(f"{function.__name__}: {(time.monotonic() - begin) * 1000:.1f} ms{'' if text is None else f', {text}'}")
    say(f"{len(STAGES)} stages, {failed} failed" if not failed or options.keep_going else "ended at the first failed stage")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
