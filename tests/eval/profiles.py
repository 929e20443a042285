# SPDX-License-Identifier: Apache-2.0
"""Profiles of the scenarios' programs for each simulated GPU, from measurements of an H200.

detshare-replay's built-in workloads have durations and blocks measured on an H200. Those of a smaller GPU follow by
a rule that was fixed before the first simulation:

  - A block takes longer by the ratio of the clocks, and a kernel takes as many waves as its blocks need on that GPU.
  - A kernel with one block per SM that stays until all work is done (a library's GEMM) has one block per SM there, too, and takes
    longer by SMs and clock.
  - Every second kernel counts as memory-bound, as batch normalisation, activations and optimisers are beside convolutions and GEMMs.
    With all its blocks on the GPU it moves as much as a streaming kernel on an H200 (3.0 of 3.5 TB/s), with fewer its part of that. On
    a GPU with less bandwidth it takes at least as long as that transfer. This is an assumption; no bytes were measured.
  - blocks-2ms is blocks of 1,024 threads, as many as the GPU holds, of 2 ms each on every GPU.

Nothing is fitted to a policy's result.
"""
import math
import pathlib
import re
import subprocess

# GPU models as in daemon/device/sim/model.c: SMs, threads and blocks on one SM, clock, bandwidth of a streaming
# kernel
MODELS = {
    "h200": {"sms": 132, "threads": 2048, "blocks": 32, "clock_khz": 1980000, "kernel_mbps": 3500000},
    "a2000": {"sms": 26, "threads": 1536, "blocks": 16, "clock_khz": 1200000, "kernel_mbps": 260000},
    "p40": {"sms": 30, "threads": 2048, "blocks": 32, "clock_khz": 1531000, "kernel_mbps": 300000},
}
REGISTERS = 65536  # registers per SM on all three GPUs
STREAMED = 3.0 / 3.5  # share of kernel_mbps
WORKLOADS = {
    "resnet34": "resnet34-b1", "mobilenetv3": "mobilenetv3-b1", "efficientnet": "efficientnet-b0-b1", "mobilevit": "mobilevit-s-b1",
    "efficientformer": "efficientformer-l1-b1", "bert": "bert-base-b64", "bert-b64": "bert-base-b64", "resnet152-b64": "resnet152-b64",
    "densenet161-b64": "densenet161-b64", "resnet152-train": "resnet152-train",
}
KERNEL = re.compile(r"^kernel (?P<name>\S+) grid=(?P<grid>\d+) block=(?P<block>\d+) regs=(?P<regs>\d+) ns=(?P<ns>\d+)$")
BLOCKS_2MS = 16  # kernels of the 2-ms-blocks job per step


def per_sm(model, threads, registers):
    return min(model["blocks"], model["threads"] // threads, REGISTERS // (registers * threads))


def scaled(kernel, index, model):
    """A kernel of the H200 as a line of the model's profile."""
    of, grid, threads, registers, ns = MODELS["h200"], *(int(kernel[key]) for key in ("grid", "block", "regs", "ns"))
    fits = per_sm(of, threads, registers)
    clock = of["clock_khz"] / model["clock_khz"]
    if fits == 1 and grid == of["sms"]:
        target, slower = model["sms"], clock * of["sms"] / model["sms"]
    else:
        waves = math.ceil(grid / (of["sms"] * fits))
        target, slower = grid, clock * math.ceil(grid / (model["sms"] * per_sm(model, threads, registers))) / waves
    moved = 0
    if index % 2 and fits > 1:
        moved = int(ns * STREAMED * of["kernel_mbps"] / 1000 * min(1, grid / (of["sms"] * fits)))  # MB/s are bytes per us
        slower = max(slower, moved * 1000 / (STREAMED * model["kernel_mbps"]) / ns)
    return f"kernel {kernel['name']} grid={target} block={threads} regs={registers} ns={max(1, round(ns * slower))} bytes={moved}"


def long_blocks(model):
    fits = per_sm(model, 1024, 32)
    line = f"block=1024 regs=32 ns=2000000 block_ns=2000000 grid={model['sms'] * fits}"
    return ["name blocks-2ms", "source blocks of 2 ms, by definition", "samples 1"] + [f"kernel b{i} {line}" for i in range(BLOCKS_2MS)]


def of_h200(replay, name, model):
    text = subprocess.run([str(replay), "--workload", name], check=True, stdout=subprocess.PIPE, text=True).stdout
    lines, index = [], 0
    for line in text.splitlines():
        match = KERNEL.match(line)
        if match:
            lines.append(scaled(match, index, model))
            index += 1
        elif line.split(" ")[0] in ("name", "source", "samples"):
            lines.append(line)
    assert index, f"{name}: no kernels"
    return lines


def write(replay, folder, name, device):
    """Writes the profile of a scenario's program on a GPU; returns its path."""
    model = MODELS[device]
    body = long_blocks(model) if name == "blocks-2ms" else of_h200(replay, WORKLOADS[name], model)
    path = pathlib.Path(folder) / f"{name}.{device}.profile"
    path.write_text("\n".join(["detshare-profile 1", f"gpu {device}", f"sms {model['sms']}"] + body) + "\n", encoding="utf8")
    return path
