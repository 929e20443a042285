#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several streams and threads: ordering between them, and results that do not depend on their timing."""
import sys
import threading

import common


def data(device, number, size=256):
    import torch
    return torch.randn(size, size, generator=torch.Generator().manual_seed(number)).to(device)


@common.case("streams.many", quick=True, gpu=True)
def many(device):
    import torch
    streams = [torch.cuda.Stream(priority=-(i % 2)) for i in range(8)]
    inputs = [data(device, i) for i in range(8)]
    results = [None] * 8
    torch.cuda.synchronize()

    def step():
        for i, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                x = inputs[i]
                for _ in range(6):
                    x = torch.tanh(x @ inputs[i] * 0.05)
                results[i] = x
    step()
    return common.Prepared(output=lambda: results, step=step)


@common.case("streams.events", gpu=True)
def events(device):
    """A chain through four streams, ordered by events alone; its end waits for all of them."""
    import torch
    streams = [torch.cuda.Stream() for _ in range(4)]
    x = data(device, 1)
    result = []

    def step():
        y, event = x, torch.cuda.Event()
        event.record()
        for i in range(16):
            stream = streams[i % 4]
            stream.wait_event(event)
            with torch.cuda.stream(stream):
                y.record_stream(stream)
                y = torch.tanh(y @ x * 0.05)
                event = torch.cuda.Event()
                event.record()
        torch.cuda.current_stream().wait_event(event)
        y.record_stream(torch.cuda.current_stream())
        result[:] = [y + 1]
    step()
    return common.Prepared(output=lambda: result, step=step)


@common.case("streams.timing", gpu=True)
def timing(device):
    import torch
    x = data(device, 1, 2048)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    took = []

    def step():
        begin.record()
        x @ x
        end.record()
        end.synchronize()
        took.append(begin.elapsed_time(end))
    for _ in range(10):
        step()
    return common.Prepared(output=lambda: [b"%d" % (0 < sorted(took)[5] < 1000)], step=step, info={"matmul_2048_ms": sorted(took)[5]})


@common.case("streams.threads", quick=True, gpu=True)
def threads(device):
    """Eight threads, each with a stream and a model, run forward and backward passes."""
    import torch
    common.deterministic()
    results, errors = [None] * 8, []
    models = [torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)).to(device) for _ in range(8)]
    inputs = [data(device, i) for i in range(8)]

    def one(number):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
                model = models[number]
                model.zero_grad()
                for _ in range(5):
                    model(inputs[number]).square().mean().backward()
                torch.cuda.current_stream().synchronize()
                results[number] = [p.grad.clone() for p in model.parameters()]
                torch.cuda.current_stream().synchronize()
        except Exception as error:
            errors.append(error)

    def step():
        workers = [threading.Thread(target=one, args=(i,)) for i in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if errors:
            raise errors[0]
    step()
    return common.Prepared(output=lambda: results, step=step)


@common.case("streams.allocate", gpu=True)
def allocate(device):
    """Threads that allocate, fill, check and free through one caching allocator."""
    import torch
    sums, errors = [0] * 6, []

    def one(number):
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                total = torch.zeros((), dtype=torch.int64, device=device)
                for i in range(60):
                    size = 1000 * (1 + (i * 7 + number * 13) % 97)
                    total += torch.full((size,), i + number, dtype=torch.int64, device=device).sum()
                sums[number] = int(total)
        except Exception as error:
            errors.append(error)
    workers = [threading.Thread(target=one, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]
    expected = [sum(1000 * (1 + (i * 7 + n * 13) % 97) * (i + n) for i in range(60)) for n in range(6)]
    if sums != expected:
        raise AssertionError(f"sums {sums}, expected {expected}")
    return common.Prepared(output=lambda: str(sums))


@common.case("streams.copies", gpu=True)
def copies(device):
    """Copies in both directions beside kernels, from pinned and from pageable memory."""
    import torch
    up, down = torch.cuda.Stream(), torch.cuda.Stream()
    pinned = [torch.randn(1 << 18, generator=torch.Generator().manual_seed(i)).pin_memory() for i in range(8)]
    pageable = [t.clone() for t in pinned]
    results = [torch.empty(1 << 18).pin_memory() for _ in range(16)]

    def step():
        for i in range(16):
            with torch.cuda.stream(up):
                there = (pinned if i % 2 else pageable)[i // 2].to(device, non_blocking=True)
            torch.cuda.current_stream().wait_stream(up)
            there.record_stream(torch.cuda.current_stream())
            y = there * (i + 1)
            down.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(down):
                y.record_stream(down)
                results[i].copy_(y, non_blocking=True)
        down.synchronize()
    step()
    return common.Prepared(output=lambda: results, step=step)


@common.case("streams.turns", gpu=True)
def turns(device):
    """The default stream and another one alternate; only synchronisation by the host orders them, no event."""
    import torch
    other = torch.cuda.Stream()
    x = torch.zeros(1 << 22, device=device)

    def step():
        x.zero_()
        for i in range(6):
            torch.cuda.synchronize()
            with torch.cuda.stream(other):
                x.add_(i)
            other.synchronize()
            x.mul_(2)
    step()
    return common.Prepared(output=lambda: x, step=step)


if __name__ == "__main__":
    sys.exit(common.main())
