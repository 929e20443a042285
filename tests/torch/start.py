#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A short process: imports PyTorch, does one thing on the GPU, ends. compare.py times the whole process from outside.

usage: start.py import|first_op|matmul|resnet18 [DEVICE]
"""
import json
import sys
import time

BEGIN = time.monotonic()


def first_op(torch, device):
    return torch.arange(1000.0).to(device) + 1


def matmul(torch, device):
    torch.manual_seed(1)
    a = torch.randn(512, 512, device=device)
    return [a @ a, a.half() @ a.half()]


def resnet18(torch, device):
    import torchvision
    torch.manual_seed(1)
    with torch.inference_mode():
        return torchvision.models.resnet18(weights=None).eval().to(device)(torch.randn(1, 3, 224, 224).to(device))


def nothing(torch, _):
    return torch.ones(1)


def main():
    import torch
    import common
    imported = time.monotonic()
    device = sys.argv[2] if len(sys.argv) > 2 else "cuda"
    if device != "cpu" and sys.argv[1] != "import":
        torch.cuda.init()
    initialised = time.monotonic()
    work = {"import": nothing, "first_op": first_op, "matmul": matmul, "resnet18": resnet18}[sys.argv[1]]
    output = common.digest(work(torch, device))
    print(json.dumps({"case": f"start.{sys.argv[1]}", "digest": output, "import_ms": (imported - BEGIN) * 1000,
                      "init_ms": (initialised - imported) * 1000, "first_ms_inside": (time.monotonic() - initialised) * 1000}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
