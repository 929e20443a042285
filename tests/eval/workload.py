#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program of the evaluation: a service that answers requests at given times, or a job that runs step after
step.

Models, inputs and half precision are those of tests/torch (random weights, no download). It takes the same orders
on standard input, and answers with the same lines of JSON, as job.c. A request is one picture, or one text of 128
tokens, and ends when its output is in host memory. A step of a job is a batch of 64. Training waits for the step
before the last one, like a loop that reads its losses late.

Inference is captured once as a CUDA graph and replayed, as servers do it. Otherwise a request of 1 ms of GPU time
takes 3 to 12 ms in Python, and the measurement is of the host. With -eager behind the name it is launched kernel by
kernel.

usage: workload.py NAME [--device cuda]
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "torch"))
AHEAD_S = 0.0003
VISION = {"resnet34": "resnet34", "mobilenetv3": "mobilenet_v3_large", "efficientnet": "efficientnet_b0"}
TIMM = {"mobilevit": "mobilevit_s", "efficientformer": "efficientformer_l1"}
WARM = 30


def network(name, batch, half):
    """A network that tests/torch prepares for inference, by its name in the scenarios."""
    import infer
    if name == "bert":
        return infer.language("bert", batch, half)
    if name in TIMM:
        import timm
        infer.vision_model = lambda model: timm.create_model(model, pretrained=False)
    return infer.vision(TIMM.get(name) or VISION.get(name, name), batch, half)


def captured(step):
    import torch
    import graphs
    graphs.warmed(step)
    return graphs.captured(step)[0].replay


class Inference:
    """Requests or steps of inference."""

    def __init__(self, name, device):
        plain = name.removesuffix("-eager")
        batch = 64 if plain.endswith("-b64") else 1
        self.prepared = network(plain.removesuffix("-b64"), batch, "fp16" if device != "cpu" else "fp32")(device)
        self.run = self.prepared.step if device == "cpu" or plain != name else captured(self.prepared.step)

    def step(self):
        self.run()
        self.copy()

    def copy(self):
        output = self.prepared.output()
        (output[0] if isinstance(output, tuple) else output).cpu()

    def end(self):
        """Waits until every step has ended."""


class Training:
    """Steps of ResNet-152 with autocast; one is launched while the previous one runs."""

    def __init__(self, device):
        import torch
        import torchvision
        import train
        torch.backends.cudnn.benchmark = False
        size = 224 if device != "cpu" else 32
        batches = [(torch.randn(64, 3, size, size).to(device), torch.randint(0, 1000, (64,)).to(device)) for _ in range(2)]
        model = torchvision.models.resnet152(weights=None)
        self.trainer = train.Trainer(device, model, batches, lambda m, x, y: torch.nn.functional.cross_entropy(m(x), y), torch.float16)
        self.losses = []

    def step(self):
        self.losses.append(self.trainer.step())
        if len(self.losses) == 2:
            float(self.losses.pop(0))

    def end(self):
        for loss in self.losses:
            float(loss)
        self.losses.clear()


def sleep_until(at):
    left = at - time.perf_counter()
    if left > AHEAD_S:
        time.sleep(left - AHEAD_S)
    while time.perf_counter() < at:
        pass


def serve(program, path):
    arrivals = [float(line) for line in pathlib.Path(path).read_text(encoding="utf8").split()]
    latencies, begin = [], time.perf_counter()
    for at in arrivals:
        sleep_until(begin + at)
        program.step()
        latencies.append(round((time.perf_counter() - begin - at) * 1000, 4))
    return {"latencies_ms": latencies, "at_s": arrivals}


def slo(ms):
    """Sets the objective of this process, a client of DetShare, ms; 0 removes it."""
    import ctypes
    library = ctypes.CDLL("libdetshare-client.so.0")  # the one that the drop-in libcuda uses
    library.detshare_set_slo_ns.argtypes = [ctypes.c_uint64]
    error = library.detshare_set_slo_ns(round(ms * 1e6))
    if error:
        raise RuntimeError(f"detshare_set_slo_ns: error {error}")
    return {"slo_ms": ms}


def loop(program, seconds):
    latencies, begin = [], time.perf_counter()
    last = begin
    while last < begin + seconds:
        program.step()
        now = time.perf_counter()
        latencies.append(round((now - last) * 1000, 4))
        last = now
    program.end()
    return {"items": len(latencies), "seconds": time.perf_counter() - begin, "latencies_ms": latencies}


def parts(program, seconds):
    """Medians over the steps of a captured model, ms: a step as `loop` times it, its graph by the GPU's own clock, and the copy of its
    output to the host after the GPU has ended."""
    import torch
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    rows, until = [], time.perf_counter() + seconds
    while time.perf_counter() < until:
        at = time.perf_counter()
        program.step()
        step = time.perf_counter() - at
        begin.record()
        program.run()
        end.record()
        end.synchronize()
        at = time.perf_counter()
        program.copy()
        rows.append((step * 1000, begin.elapsed_time(end), (time.perf_counter() - at) * 1000))
    return {name: statistics.median(row[i] for row in rows) for i, name in enumerate(("step", "graph", "copy"))}


ORDERS = {"serve": serve, "loop": lambda program, text: loop(program, float(text)), "parts": lambda program, text: parts(program, float(text)),
          "slo": lambda program, text: slo(float(text))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # standard output belongs to the answers

    def say(answer):
        print(json.dumps(answer), file=answers, flush=True)
    import torch
    torch.manual_seed(1)
    program = Training(options.device) if options.name.endswith("-train") else Inference(options.name, options.device)
    for _ in range(WARM if options.device != "cpu" else 1):
        program.step()
    program.end()
    say({"ready": {"name": options.name, "torch": torch.__version__}})
    for line in sys.stdin:
        word, argument = line.split()
        say(ORDERS[word](program, argument))
    return 0


if __name__ == "__main__":
    sys.exit(main())
