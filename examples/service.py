#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An ordinary PyTorch service for the first five minutes with DetShare: it knows nothing about DetShare.

A request is one batch of one through a small transformer encoder. The service answers REQUESTS requests at random
times, RATE a second on average, and prints the median and the 99th percentile of their latency: wall-clock time from
a request's arrival to its answer on the host.

usage: service.py [REQUESTS [RATE]]     (600 requests, 60 a second without arguments)
"""
import random
import sys
import time

import torch


def main():
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    rate = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    torch.manual_seed(1)
    rng = random.Random(1)
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda().half().eval()
    inputs = torch.randn(1, 128, 512).half()
    latencies = []
    with torch.inference_mode():
        for _ in range(20):  # warm up: libraries are loaded, kernels are chosen
            model(inputs.cuda()).cpu()
        arrival = time.monotonic()
        for _ in range(requests):
            arrival += rng.expovariate(rate)
            time.sleep(max(0.0, arrival - time.monotonic()))
            answer = model(inputs.cuda()).cpu()
            latencies.append(time.monotonic() - arrival)
    latencies.sort()
    print(f"service: {requests} requests, latency p50 {1e3 * latencies[requests // 2]:.2f} ms, "
          f"p99 {1e3 * latencies[requests * 99 // 100]:.2f} ms, checksum {answer.float().sum().item():.4f}")


if __name__ == "__main__":
    main()
