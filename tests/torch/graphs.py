#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs of PyTorch: capture, replay with new inputs, pools, forks to other streams, random numbers, training
steps."""
import sys

import common


def warmed(work, times=3):
    """Runs work on a side stream first, as PyTorch requires before a capture."""
    import torch
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(times):
            work()
    torch.cuda.current_stream().wait_stream(side)


def captured(work, **options):
    import torch
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):
        result = work()
    return graph, result


def mlp(device, width=512):
    import torch
    layers = [torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.LayerNorm(width), torch.nn.Linear(width, width)]
    return torch.nn.Sequential(*layers).to(device)


@common.case("graphs.mlp", quick=True, gpu=True)
def mlp_inference(device):
    import torch
    model, x = mlp(device), torch.randn(64, 512, device=device)
    with torch.no_grad():
        warmed(lambda: model(x))
        graph, y = captured(lambda: model(x))

    def output():
        outputs = []
        for seed in range(4):
            x.copy_(torch.randn(64, 512, generator=torch.Generator().manual_seed(seed)))
            graph.replay()
            outputs.append(y.clone())
        return outputs
    return common.Prepared(output=output, step=graph.replay)


@common.case("graphs.resnet50", quick=True, gpu=True)
def resnet_inference(device):
    import torch
    import torchvision
    x = torch.randn(8, 3, 224, 224).to(device)
    model = common.settle(torchvision.models.resnet50(weights=None).to(device), x).half()
    x = x.half()
    with torch.no_grad():
        warmed(lambda: model(x))
        graph, y = captured(lambda: model(x))
        eager = model(x)
    graph.replay()
    return common.Prepared(output=lambda: y, step=graph.replay, info={"as_eager": bool(torch.equal(y, eager))})


@common.case("graphs.training", gpu=True)
def whole_step(device):
    """Forward, backward and a capturable optimizer in one graph, 20 replays with new data."""
    import torch
    common.deterministic()
    model = mlp(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True, capturable=True)
    x, y = torch.randn(64, 512, device=device), torch.randn(64, 512, device=device)

    def step():
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    warmed(step)
    graph, loss = captured(step)
    losses = []
    for seed in range(20):
        x.copy_(torch.randn(64, 512, generator=torch.Generator().manual_seed(seed)))
        graph.replay()
        losses.append(loss.clone())
    state = common.raw_bytes([list(model.state_dict().values()), losses])
    return common.Prepared(output=lambda: state, step=graph.replay, stable=False,
                           info={"loss_first": float(losses[0]), "loss_last": float(losses[-1])})


@common.case("graphs.callables", gpu=True)
def graphed_callables(device):
    import torch
    common.deterministic()
    model = mlp(device).train()
    sample = torch.randn(64, 512, device=device, requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (sample,))
    optimizer = torch.optim.AdamW(graphed.parameters(), lr=1e-3, fused=True)
    x = torch.randn(64, 512, device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = graphed(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()
    losses = [step() for _ in range(20)]
    state = common.raw_bytes([list(model.state_dict().values()), losses])
    return common.Prepared(output=lambda: state, step=step, stable=False)


@common.case("graphs.fork_join", gpu=True)
def fork_join(device):
    """Three streams within one capture; the result does not depend on which of them ends first."""
    import torch
    sides = [torch.cuda.Stream() for _ in range(3)]
    x = torch.randn(512, 512, device=device)

    def work():
        parts = []
        for number, side in enumerate(sides):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                parts.append((x * (number + 1)).softmax(-1) @ x)
        for side in sides:
            torch.cuda.current_stream().wait_stream(side)
        return sum(parts[1:], parts[0])
    with torch.no_grad():
        warmed(work)
        graph, y = captured(work)
    graph.replay()
    return common.Prepared(output=lambda: y, step=graph.replay)


@common.case("graphs.random", gpu=True)
def random_numbers(device):
    """Each replay draws the next random numbers, according to the generator's state."""
    import torch
    torch.cuda.manual_seed(5)
    x = torch.ones(1 << 16, device=device)

    def work():
        return torch.nn.functional.dropout(x, 0.3) + torch.rand_like(x)
    warmed(work)
    graph, y = captured(work)

    def output():
        torch.cuda.manual_seed(7)
        outputs = []
        for _ in range(3):
            graph.replay()
            outputs.append(y.clone())
        return outputs + [torch.rand(16, device=device)]
    return common.Prepared(output=output, step=graph.replay)


@common.case("graphs.pool", gpu=True)
def shared_pool(device):
    """Two graphs with one memory pool, and a third one that is dropped while they replay."""
    import torch
    model, x = mlp(device), torch.randn(64, 512, device=device)
    with torch.no_grad():
        warmed(lambda: model(x))
        first, y = captured(lambda: model(x))
        second, z = captured(lambda: model(y).relu(), pool=first.pool())
        gone, _ = captured(lambda: model(x) + 1)

    def step():
        first.replay()
        second.replay()
    gone.replay()
    step()
    torch.cuda.synchronize()
    gone.reset()
    del gone
    return common.Prepared(output=lambda: [y, z], step=step)


@common.case("graphs.copies", gpu=True)
def copies(device):
    """Copies from and to pinned memory, memsets and strided copies within a graph."""
    import torch
    source, target = torch.arange(1 << 16, dtype=torch.float32).pin_memory(), torch.empty(1 << 16).pin_memory()
    there = torch.empty(1 << 16, device=device)

    def work():
        there.zero_()
        there[::2].copy_(source.to(device, non_blocking=True)[::2])
        target.copy_(there, non_blocking=True)
    warmed(work)
    graph, _ = captured(work)

    def output():
        source.mul_(1.5)
        graph.replay()
        torch.cuda.synchronize()
        source.div_(1.5)
        return target.clone()
    return common.Prepared(output=output, step=graph.replay)


@common.case("graphs.broken_capture", gpu=True)
def broken_capture(device):
    """Tests that a synchronisation during a capture is an error and ends the capture, and that the process continues."""
    import torch
    x = torch.ones(1024, device=device)
    said = []
    try:
        captured(lambda: (x + 1).sum().item())
    except RuntimeError as error:
        said.append(str(error).splitlines()[0])
    torch.cuda.synchronize()
    warmed(lambda: x + 1)
    graph, y = captured(lambda: x + 1)
    graph.replay()
    return common.Prepared(output=lambda: [y, " ".join(said)], info={"said": said})


if __name__ == "__main__":
    sys.exit(common.main())
