#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.profiler: it does not crash, and does not change results. Its view of the GPU is reported, not judged."""
import os
import sys
import tempfile

import common


def work(device):
    import torch
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256)).to(device)
    x = torch.randn(64, 256).to(device)
    return model, x


@common.case("profiler.cpu_and_gpu", quick=True, fresh=True, seconds=150)
def cpu_and_gpu(device):
    import torch
    model, x = work(device)
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device != "cpu":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        with torch.no_grad():
            for _ in range(5):
                y = model(x)
            common.synchronize(device)
    averages = profile.key_averages()
    with tempfile.TemporaryDirectory() as folder:
        profile.export_chrome_trace(os.path.join(folder, "trace.json"))
        size = os.path.getsize(os.path.join(folder, "trace.json"))
    kernels = sum(event.device_type != torch.autograd.DeviceType.CPU for event in profile.events())
    return common.Prepared(output=lambda: y, info={"gpu_events": kernels, "names": len(averages), "trace_bytes": size})


@common.case("profiler.cpu_only", fresh=True)
def cpu_only(device):
    import torch
    model, x = work(device)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        with torch.no_grad():
            y = model(x)
            common.synchronize(device)
    return common.Prepared(output=lambda: y, info={"names": len(profile.key_averages())})


@common.case("profiler.twice", fresh=True, seconds=150)
def twice(device):
    """Profiles, works without a profiler, then profiles again, with a schedule."""
    import torch
    model, x = work(device)
    outputs = []
    for _ in range(2):
        with torch.profiler.profile(schedule=torch.profiler.schedule(wait=1, warmup=1, active=2)) as profile:
            for _ in range(4):
                outputs.append(model(x).detach())
                profile.step()
        outputs.append(model(x * 2).detach())
    return common.Prepared(output=lambda: outputs, step=lambda: model(x))


@common.case("profiler.nvtx", fresh=True, gpu=True)
def nvtx(device):
    import torch
    model, x = work(device)
    with torch.cuda.nvtx.range("forward"), torch.autograd.profiler.emit_nvtx():
        y = model(x)
    return common.Prepared(output=lambda: y.detach())


@common.case("profiler.memory_history", fresh=True, gpu=True)
def memory_history(device):
    import torch
    torch.cuda.memory._record_memory_history()
    model, x = work(device)
    y = model(x).detach()
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    return common.Prepared(output=lambda: y, info={"segments": len(snapshot["segments"])})


if __name__ == "__main__":
    sys.exit(common.main())
