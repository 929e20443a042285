#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An ordinary PyTorch training job for the first five minutes with DetShare: it knows nothing about DetShare.

It trains a wide perceptron on random data for SECONDS and prints its rate. Its matrix products fill a GPU.

usage: job.py [SECONDS]     (20 without an argument)
"""
import sys
import time

import torch


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    torch.manual_seed(2)
    model = torch.nn.Sequential(*[m for _ in range(6) for m in (torch.nn.Linear(4096, 4096), torch.nn.GELU())])
    model = model.cuda().bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs, targets = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    step().item()  # libraries are loaded before the clock starts
    begin, steps = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        loss = step().item()
        steps += 1
    print(f"job: {steps / (time.monotonic() - begin):.1f} steps/s, last loss {loss:.6f}")


if __name__ == "__main__":
    main()
