#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.compile, and the Triton kernels of triton_kernels.py.

Inductor must not choose kernels by measuring: two runs could choose differently and compute different bits.
"""
import sys

import common


def compiled(model, *inputs, mode=None):
    """A compiled model: its output is compared with eager execution; a step runs it."""
    import torch
    import torch._inductor.config as inductor
    if hasattr(inductor, "deterministic"):
        inductor.deterministic = True
    torch._dynamo.reset()
    fast = torch.compile(model, mode=mode)

    def step():
        with torch.no_grad():
            return fast(*inputs)
    with torch.no_grad():
        eager = first(model(*inputs))
    for _ in range(3):
        result = first(step())
    off = float((result.double() - eager.double()).abs().max() / eager.double().abs().max())
    if not off < 0.05:
        raise AssertionError(f"the compiled model differs from eager by {off:.3g}")
    return common.Prepared(output=lambda: first(step()).clone(), step=step, info={"off_eager": off})


def first(output):
    if hasattr(output, "last_hidden_state"):
        return output.last_hidden_state
    return output[0] if isinstance(output, (tuple, list)) else output


def mlp(device):
    import torch
    layers = [torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.LayerNorm(1024), torch.nn.Linear(1024, 512), torch.nn.Softmax(-1)]
    return torch.nn.Sequential(*layers).to(device), torch.randn(64, 512).to(device)


@common.case("compile.mlp", quick=True, seconds=240)
def compile_mlp(device):
    return compiled(*mlp(device))


@common.case("compile.mlp_reduce_overhead", seconds=240, gpu=True)
def compile_mlp_graphs(device):
    """This mode captures CUDA graphs, with trees of memory pools."""
    return compiled(*mlp(device), mode="reduce-overhead")


@common.case("compile.resnet18", seconds=300)
def compile_resnet(device):
    import torch
    import torchvision
    x = torch.randn(8, 3, 224, 224).to(device)
    model = common.settle(torchvision.models.resnet18(weights=None).to(device), x)
    return compiled(model, x)


@common.case("compile.bert_layer", seconds=300)
def compile_bert(device):
    import torch
    try:
        import transformers
    except ImportError as error:
        raise common.Skipped(f"no transformers: {error}") from error
    config = transformers.BertConfig(num_hidden_layers=1)
    model = transformers.BertModel(config).eval().to(device).half()
    return compiled(model, torch.randint(0, 30000, (4, 128)).to(device))


@common.case("compile.training", seconds=300)
def compile_training(device):
    import torch
    import torch._inductor.config as inductor
    common.deterministic()
    inductor.deterministic = True
    torch._dynamo.reset()
    model, x = mlp(device)
    fast = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step():
        loss = (fast(x) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()
    losses = [step() for _ in range(20)]
    state = common.raw_bytes([list(model.state_dict().values()), losses])
    return common.Prepared(output=lambda: state, step=step, stable=False)


def own_kernel(name):
    def prepare(device):
        try:
            import triton_kernels
        except ImportError as error:
            raise common.Skipped(f"no triton: {error}") from error
        return getattr(triton_kernels, name)(device)
    return prepare


for kernel in ("add", "softmax", "matmul", "matmul_descriptors", "atomic_histogram"):
    common.case(f"triton.{kernel}", quick=kernel == "matmul", seconds=240, gpu=True)(own_kernel(kernel))

if __name__ == "__main__":
    sys.exit(common.main())
