# SPDX-License-Identifier: Apache-2.0
"""Profiles of model packs for detshare-replay, from a pack's description of its launches.

None of these GPU models is available here, and batches of 32 are too much to execute in software. So a launch's
time follows from the pack by a rule that was fixed before the first simulation:

  - The pack states what a launch computes and must move (`cost`); each block does its part of both.
  - A block computes at half of the data sheet's rate of an SM: dense tensor cores with f16 on the a2000, f32 on the p40, which has none.
    With fewer than 256 threads it gets its part of that, so several blocks fill an SM.
  - A block that only moves bytes gets the rate that its part of an SM can take from L2, and takes at least 1.5 us.
  - The number of blocks on an SM follows from threads, the pack's shared memory, and registers as `ptxas` counts them.
  - Every launch touches the same bytes each time, so L2 may still have them from the last time.

Nothing is fitted to a result. The simulator measures which kernels are memory-bound, as `detsharectl profile PACK`
does on any device: a kernel that takes 1.2 times as long on half of the SMs while the other half writes through
more than L2 holds.
"""
import dataclasses
import math
import pathlib
import re
import shutil
import subprocess

HALF = 0.5  # share of the data sheet's rate that a kernel reaches
FULL = 256  # threads of a block from which on a kernel reaches that rate
LEAST_NS = 1500
THRASHED = 1.2
# GPU models as in daemon/device/sim/model.c; flops: of one SM, from the vendors' data sheets; arch: target of the
# packs
MODELS = {
    "a2000": {"sms": 26, "threads": 1536, "blocks": 16, "shared": 102400, "sm_mbps": 76800, "kernel_mbps": 260000, "flops": 31.9e12 / 26,
              "channels": 6, "l2": 3 << 20, "arch": "sm_80"},
    "p40": {"sms": 30, "threads": 2048, "blocks": 32, "shared": 98304, "sm_mbps": 97984, "kernel_mbps": 300000, "flops": 11.76e12 / 30,
            "channels": 12, "l2": 3 << 20, "arch": "sm_75"},
}


@dataclasses.dataclass
class Launch:
    kernel: str
    grid: tuple
    threads: int
    shared: int
    flops: int
    bytes: int
    writes: int  # maximum number of bytes that the launch writes
    regs: int = 32


def written(launch_words, kernel, writes, buffers, number):
    """Bytes of the buffers that a launch writes."""
    total = 0
    for index in writes.get(kernel, ()):
        word = launch_words[4 + index]
        if word.startswith("a+"):
            offset = int(word[2:])
            total += next((size for at, size, first, last in buffers if at <= offset < at + size and first <= number <= last), 0)
    return total


def read(folder):
    """(about, launches) of a pack, from its manifest, which detshare-serve checks."""
    about, kernels, launches, costs, buffers, writes = {}, [], [], {}, [], {}
    for line in (pathlib.Path(folder) / "pack.txt").read_text(encoding="ascii").splitlines():
        word, *rest = line.split(" ")
        if word in ("model", "class", "batch", "arch", "module"):
            about[word] = rest[0]
        elif word == "kernel":
            kernels.append((rest[0], int(rest[1]), int(rest[2])))
        elif word == "launch":
            launches.append(rest)
        elif word == "cost":
            costs[int(rest[0])] = (int(rest[1]), int(rest[2]))
        elif word == "buffer":
            buffers.append(tuple(map(int, rest)))
        elif word == "x-writes":
            writes[int(rest[0])] = [int(i) for i in rest[1:]]
    result = []
    for number, words in enumerate(launches):
        name, threads, shared = kernels[int(words[0])]
        flops, moved = costs.get(number, (0, 0))
        result.append(Launch(name, tuple(map(int, words[1:4])), threads, shared, flops, moved,
                             written(words, int(words[0]), writes, buffers, number)))
    return about, result


def registers(folder, about):
    """Registers of each kernel, as the assembler for the pack's own target counts them."""
    ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    command = [ptxas, "-v", f"-arch={about['arch']}", "-o", "/dev/null", str(pathlib.Path(folder) / about["module"])]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    found, name = {}, None
    for line in text.splitlines():
        entry = re.search(r"Compiling entry function '([^']+)'", line)
        used = re.search(r"Used (\d+) registers", line)
        name = entry[1] if entry else name
        if used:
            found[name] = int(used[1])
    return found


def per_sm(launch, model):
    warps = math.ceil(launch.threads / 32)
    return max(1, min(model["blocks"], model["threads"] // (warps * 32), model["shared"] // (launch.shared + 1024),
                      65536 // (max(launch.regs, 16) * warps * 32)))


def line_of(number, launch, model, bound):
    """A launch as a kernel line of a profile."""
    blocks, fits = math.prod(launch.grid), per_sm(launch, model)
    issue = launch.flops / blocks / (HALF * model["flops"]) * 1e9
    part = min(1, launch.threads / FULL)
    moved = launch.bytes / blocks / (model["sm_mbps"] * launch.threads / model["threads"]) * 1e3
    block = max(issue / part, moved, LEAST_NS)
    resident = min(fits, math.ceil(blocks / model["sms"]))
    waves = math.ceil(blocks / (model["sms"] * fits))
    ns = max(waves * max(block, resident * issue), launch.bytes / model["kernel_mbps"] * 1e3)
    return (f"kernel k{number} grid={'x'.join(map(str, launch.grid))} block={launch.threads} regs={min(launch.regs, 255)} shared={launch.shared} "
            f"ns={max(1, round(ns))} block_ns={max(1, round(block))} issue_ns={round(issue)} bytes={launch.bytes} "
            f"written={min(launch.writes, launch.bytes)} reuse={launch.bytes} bound={'memory' if bound else 'compute'}")


def thrasher(model):
    """A kernel that writes through eight times the size of L2."""
    size = 8 * model["l2"]
    block = Launch("thrash", (model["sms"] * 64, 1, 1), 256, 0, 0, size, size)
    return [block]


def text(name, device, launches, bounds, source):
    model = MODELS[device]
    lines = ["detshare-profile 1", f"name {name[:60]}", f"source {source}", f"gpu {device}", f"sms {model['sms']}", "samples 1"]
    return "\n".join(lines + [line_of(i, one, model, bound) for i, (one, bound) in enumerate(zip(launches, bounds))]) + "\n"
