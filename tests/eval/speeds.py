#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures which of the two speeds of a context a service has (docs/gpu/contexts.md), and what changes it.

BERT as a captured graph, request after request, in windows of half a second: alone; while another program starts,
allocates, computes and ends (native, or under DetShare if this one is); alone again. With --context, this process
also makes and destroys another context after the first windows. That is for native runs: under DetShare the daemon
owns a program's contexts.

usage: speeds.py [--context]        in the environment of a DetShare client, or natively
"""
import argparse
import ctypes
import os
import subprocess
import sys
import time

import workload

WINDOW_S, WINDOWS, NEIGHBOUR_WINDOWS = 0.5, 6, 60
NEIGHBOUR = """
import time, torch
for i in range(4):
    x = torch.ones((1 << 20) + i, device="cuda")
    (x * x).sum()
    torch.randn(512, 512, device="cuda") @ torch.randn(512, 512, device="cuda")
    torch.cuda.synchronize()
    time.sleep(1.5)
    torch.cuda.empty_cache()
"""


def window(service, name):
    latencies, end = [], time.perf_counter() + WINDOW_S
    while time.perf_counter() < end:
        begin = time.perf_counter()
        service.step()
        latencies.append((time.perf_counter() - begin) * 1000)
    latencies.sort()
    at = len(latencies)
    print(f"{name:24} {at:5} requests, ms: p50 {latencies[at // 2]:.3f} p99 {latencies[at * 99 // 100]:.3f} most {latencies[-1]:.2f}", flush=True)


def another_context():
    cuda, old, new, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    calls = (cuda.cuCtxGetCurrent(ctypes.byref(old)), cuda.cuCtxGetDevice(ctypes.byref(device)),
             cuda.cuCtxCreate_v2(ctypes.byref(new), 0, device), cuda.cuCtxDestroy_v2(new), cuda.cuCtxSetCurrent(old))
    if any(calls):
        sys.exit(f"speeds: no other context could be made: {calls}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", action="store_true")
    options = parser.parse_args()
    service = workload.Inference("bert", "cuda")
    for _ in range(workload.WARM):
        service.step()
    for _ in range(WINDOWS):
        window(service, "alone")
    if options.context:
        another_context()
        window(service, "after another context")
    with subprocess.Popen([sys.executable, "-c", NEIGHBOUR], env=dict(os.environ, DETSHARE_CLASS="be")) as neighbour:
        for _ in range(NEIGHBOUR_WINDOWS):
            if neighbour.poll() is not None:
                break
            window(service, "beside one that comes")
        neighbour.kill()
    for _ in range(WINDOWS // 2):
        window(service, "alone again")


if __name__ == "__main__":
    main()
