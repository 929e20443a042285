#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's allocators: the caching one, expandable segments (the driver's virtual memory), cudaMallocAsync; out of
memory."""
import os
import sys

import common

EXPANDABLE = {"PYTORCH_ALLOC_CONF": "expandable_segments:True", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
ASYNC = {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync", "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}


def churn(device):
    """Allocates and drops tensors of many sizes, and checks the contents of each before it is dropped. Then steps of
    a model."""
    import random
    import torch
    turns = random.Random(4)
    held = []
    for number in range(400):
        size = turns.choice((1, 100, 5000, 1 << 18, 1 << 20, 3 << 20, 20 << 20))
        held.append((number, torch.full((size,), number, dtype=torch.int32, device=device)))
        if len(held) > 24:
            expected, tensor = held.pop(turns.randrange(len(held)))
            low, high = (int(t) for t in torch.aminmax(tensor))
            if (low, high) != (expected, expected):
                raise AssertionError(f"tensor {expected} held {low} to {high}")
    sums = torch.stack([tensor[-1].long() for _, tensor in held])
    del held, tensor
    torch.cuda.empty_cache()
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).to(device)
    x = torch.randn(64, 512).to(device)

    def step():
        with torch.no_grad():
            return model(x)
    return common.Prepared(output=lambda: [sums, step()], step=step, info={"backend": torch.cuda.get_allocator_backend()})


common.case("alloc.caching", quick=True, fresh=True, gpu=True)(churn)
common.case("alloc.expandable", quick=True, environment=EXPANDABLE, gpu=True)(churn)
common.case("alloc.async", quick=True, environment=ASYNC, gpu=True)(churn)


@common.case("alloc.empty_cache", fresh=True, gpu=True)
def empty_cache(device):
    """Times cudaMalloc and cudaFree of 64 MiB in each step: the cost of memory without PyTorch's cache."""
    import torch
    x = torch.randn(256, 256, device=device)

    def step():
        torch.cuda.empty_cache()
        there = torch.empty(64 << 20, dtype=torch.uint8, device=device)
        there[:1024] = 7
        return x @ x + there[0]
    step()
    return common.Prepared(output=step, step=step)


@common.case("alloc.statistics", fresh=True, gpu=True)
def statistics(device):
    """PyTorch's counters equal native ones; the driver's free memory falls by the allocated amount and rises again."""
    import torch
    torch.ones(1, device=device)
    before, total = torch.cuda.mem_get_info()
    tensor = torch.empty(1 << 30, dtype=torch.uint8, device=device)
    less = before - torch.cuda.mem_get_info()[0]
    counted = torch.cuda.memory_stats()
    counted = {key: counted[key] for key in ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "num_alloc_retries", "num_ooms")}
    del tensor
    torch.cuda.empty_cache()
    after = torch.cuda.mem_get_info()[0]
    right = 1 << 30 <= less < 1100 << 20 and abs(before - after) < 64 << 20 and before <= total
    return common.Prepared(output=lambda: f"{right} {sorted(counted.items())}", info={"less": less, "lost": before - after, "total": total})


def out_of_memory(device):
    """Allocates more than exists: PyTorch raises its error, existing tensors keep their contents, the next allocation
    works."""
    import torch
    kept = torch.arange(1 << 20, device=device)
    caught = 0
    for size in (1 << 40, 1 << 45):
        try:
            torch.empty(size, dtype=torch.uint8, device=device)
        except torch.OutOfMemoryError:
            caught += 1
    torch.cuda.synchronize()
    again = torch.full((1 << 24,), 3, device=device)
    return common.Prepared(output=lambda: [kept, again, str(caught).encode()], info={"caught": caught})


common.case("alloc.out_of_memory", fresh=True, gpu=True)(out_of_memory)
common.case("alloc.out_of_memory_expandable", environment=EXPANDABLE, gpu=True)(out_of_memory)
common.case("alloc.out_of_memory_async", environment=ASYNC, gpu=True)(out_of_memory)


@common.case("alloc.fraction", fresh=True, gpu=True)
def fraction(device):
    """PyTorch's own limit within the process."""
    import torch
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(0.01)
    caught = False
    try:
        torch.empty(total // 50, dtype=torch.uint8, device=device)
    except torch.OutOfMemoryError:
        caught = True
    small = torch.ones(1 << 20, device=device)
    return common.Prepared(output=lambda: [small, str(caught).encode()])


@common.case("alloc.ipc", fresh=True, gpu=True, seconds=150)
def ipc(device):
    """A tensor shared with another process through torch.multiprocessing is the same memory there."""
    import torch
    import torch.multiprocessing as multiprocessing
    context = multiprocessing.get_context("spawn")
    requests, answers = context.Queue(), context.Queue()
    child = context.Process(target=ipc_child, args=(requests, answers))
    child.start()
    shared = torch.arange(100000.0, device=device)
    requests.put(shared)
    said = answers.get(timeout=60)
    torch.cuda.synchronize()
    result = shared.clone()
    requests.put(None)
    child.join(30)
    if said != "written" or child.exitcode != 0:
        raise AssertionError(f"the other process answered {said}, exit status {child.exitcode}")
    return common.Prepared(output=lambda: result)


def ipc_child(requests, answers):
    """The other process: doubles the tensor that it receives."""
    import torch
    try:
        shared = requests.get(timeout=60)
        shared.mul_(2)
        torch.cuda.synchronize()
        del shared
        answers.put("written")
        requests.get(timeout=60)
    except Exception as error:
        answers.put(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.path.dirname(os.path.abspath(__file__)))
    sys.exit(common.main())
