#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two pictures of how DetShare is built: its processes, and the path of one launch through them.

usage: architecture.py [--out docs/pictures]     writes processes.svg and launch.svg (`make pictures`)
"""
import argparse
import pathlib

import svg

HERE = pathlib.Path(__file__).resolve().parent
COMMAND = "make pictures"


def group(x, y, width, height, title):
    """Draws a dashed frame around the boxes of one process or user."""
    return [svg.rect(x, y, width, height, "edge", 'fill="none" rx="8" stroke-dasharray="5 4"'), svg.text(x + 12, y + 18, title, 12, kind="dim")]


def label(x, y, *rows, anchor="start"):
    return [svg.text(x, y + 14 * i, row, 11, anchor, "dim") for i, row in enumerate(rows)]


def processes():
    lines = [svg.text(20, 30, "Processes of DetShare", 17, extra='font-weight="bold"')]
    lines += group(20, 48, 250, 88, "command")
    lines += svg.box(34, 72, 222, 52, "detsharectl", ["status, policies, traces"])
    lines += group(20, 160, 250, 190, "client program (unmodified)")
    lines += svg.box(34, 186, 222, 56, "CUDA program", ["kernels, copies, waits"])
    lines += svg.box(34, 252, 222, 86, "libcuda.so.1 (drop-in)", ["on libdetshare-client", "found by LD_LIBRARY_PATH", "never calls the driver"])
    lines += svg.box(420, 48, 230, 132, "supervisor: detshared", ["sockets, sessions, rights", "ledger: what each session owns", "holds the memory of the device", "restarts a worker that dies", "calls no GPU library"])
    lines += svg.box(420, 262, 230, 148, "worker: detshare-worker", ["owns the one GPU context", "rings, then coroutines", "policy (plug-in) decides", "launches, reports completions", "one per device; may die", "user detshare, no root rights"])
    lines += svg.box(740, 48, 220, 116, "helper: detshare-helper", ["one per user, random uid", "reads and checks code (PTX)", "compiles and transforms it", "no privilege"])
    lines += svg.box(740, 286, 220, 100, "device", ["cuda: an NVIDIA GPU, or", "sim: PTX on the CPU,", "virtual clock"], "box")
    lines += [svg.arrow(270, 96, 420, 96, both=True), *label(280, 74, "Unix socket:", "protobuf requests"),
              svg.arrow(270, 214, 420, 168, both=True), *label(280, 150, "Unix socket:", "requests, descriptors"),
              svg.arrow(270, 300, 420, 300, both=True), *label(280, 264, "shared memory:", "submission ring,"), *label(280, 316, "completion page,", "pinned memory"),
              svg.arrow(535, 180, 535, 262, both=True), *label(544, 212, "socketpair, descriptors", "of memory and images"),
              svg.arrow(650, 100, 740, 100, both=True), *label(656, 90, "socketpair"),
              svg.arrow(650, 336, 740, 336, both=True), *label(658, 328, "driver API")]
    return svg.frame(980, 432, COMMAND, "client, supervisor, worker, helper and device, with the sockets and memory between them", lines)


STEPS = (("client", "cuLaunchKernel", ["checks dimensions and handle,", "packs the parameters"]),
         ("client", "submission ring", ["one record in shared memory;", "no system call"]),
         ("worker", "record check", ["copies the record once,", "checks the copy"]),
         ("worker", "stream's queue", ["order of the stream, events,", "the legacy default stream"]),
         ("worker", "policy decides", ["which queue, which SMs,", "priority, how much ahead"]),
         ("device", "kernel runs", ["on a stream of that rung", "(a set of SMs)"]),
         ("worker", "completion", ["statistics and history", "learn the duration"]),
         ("client", "completion page", ["number arrives, the waiting", "call returns"]))


def launch():
    """Lanes for client, worker and device; the launch goes from left to right and back to the client."""
    lanes = {"client": 58, "worker": 158, "device": 258}
    width, wide, gap = 1230, 132, 12
    lines = [svg.text(20, 30, "The path of one launch", 17, extra='font-weight="bold"')]
    for name, y in lanes.items():
        lines += [svg.rect(12, y - 8, width - 24, 92, "edge", 'fill="none" rx="8" stroke-dasharray="5 4"'), svg.text(20, y + 10, {"client": "client", "worker": "worker", "device": "device"}[name], 12, kind="dim", extra='font-weight="bold"')]
    spot, last = 66, None
    for number, (lane, title, rows) in enumerate(STEPS, 1):
        y = lanes[lane]
        width_here = wide
        lines += [svg.rect(spot, y, width_here, 76, "box", 'rx="6"'), svg.text(spot + 8, y + 17, f"{number} {title}", 11, extra='font-weight="bold"')]
        for i, words in enumerate(fold(rows, 22)):
            lines.append(svg.text(spot + 8, y + 33 + 13 * i, words, 10, kind="dim"))
        if last:
            x0, y0 = last
            lines.append(svg.arrow(x0, y0 + 38, spot, y + 38))
        last = spot + width_here, y
        spot += wide + gap
    return svg.frame(width, 356, COMMAND, "a launch from the client through the ring, the queue and the policy to the device, and its completion back", lines)


def fold(rows, columns):
    """Wraps the text into rows of at most so many characters."""
    lines = [""]
    for word in " ".join(rows).split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > columns:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "processes.svg").write_text(processes(), encoding="utf8")
    (options.out / "launch.svg").write_text(launch(), encoding="utf8")


if __name__ == "__main__":
    main()
