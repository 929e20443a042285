#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DataLoader with worker processes and pinned memory: the data that arrives on the GPU, and training on it.

The workers are forked from a process that has used the GPU; they must neither use it nor fail.
"""
import sys

import common


class Squares:
    """512 small pictures, each from its own seed."""

    def __len__(self):
        return 512

    def __getitem__(self, index):
        import torch
        generator = torch.Generator().manual_seed(index)
        return torch.randn(3, 32, 32, generator=generator), index % 10


def loaded(device, **options):
    """Copies all batches to the GPU: a sum of each, in the order of the sampler."""
    import torch
    loader = torch.utils.data.DataLoader(Squares(), batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(3),
                                         pin_memory=device != "cpu", **options)
    sums = []
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        sums.append(x.mul(y.view(-1, 1, 1, 1)).sum((0, 2, 3)))
    return torch.stack(sums)


def passes(**options):
    def prepare(device):
        import torch
        torch.ones(1, device=device)  # creates the CUDA context before the workers are forked
        first = loaded(device, **options)
        second = loaded(device, **options)
        return common.Prepared(output=lambda: [first, second])
    return prepare


def train(device):
    import torch
    common.deterministic()
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 225, 10))
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    loader = torch.utils.data.DataLoader(Squares(), batch_size=64, num_workers=4, pin_memory=device != "cpu", persistent_workers=True,
                                         prefetch_factor=4)
    losses = []
    for _ in range(3):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x.to(device, non_blocking=True)), y.to(device, non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return common.Prepared(output=lambda: [list(model.state_dict().values()), losses],
                           info={"loss_first": float(losses[0]), "loss_last": float(losses[-1])})


def pinned(device):
    """Pinned memory alone: copies of many sizes to the GPU and back."""
    import torch
    results = []
    for size in (1, 4096, 100001, 1 << 20, 5 << 20):
        source = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(size)).pin_memory()
        back = torch.empty_like(source).pin_memory()
        back.copy_(source.to(device, non_blocking=True) ^ 0x5A, non_blocking=True)
        torch.cuda.synchronize()
        if not torch.equal(back, source ^ 0x5A):
            raise AssertionError(f"{size} bytes differ after a copy to the GPU and back")
        results.append(back)
    big = torch.empty(64 << 20, dtype=torch.uint8).pin_memory()
    there = torch.empty(64 << 20, dtype=torch.uint8, device=device)
    return common.Prepared(output=lambda: results, step=lambda: there.copy_(big, non_blocking=True))


common.case("loader.workers", quick=True)(passes(num_workers=4))
common.case("loader.in_process")(passes(num_workers=0))
common.case("loader.spawned", seconds=150)(passes(num_workers=2, multiprocessing_context="spawn"))
common.case("loader.train")(train)
common.case("loader.pinned_64MiB", gpu=True)(pinned)

if __name__ == "__main__":
    sys.exit(common.main())
