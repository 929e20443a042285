# SPDX-License-Identifier: Apache-2.0
"""Shared by the PyTorch test programs of this folder: cases, digests of raw bytes, the time of a step.

A program is a list of cases. A case is a function that prepares something and returns Prepared: a step that is timed,
and an output whose bytes are digested. All random numbers come from a seed, and nothing is downloaded. So two runs on
the same GPU with the same libraries write the same bytes. compare.py runs one natively and one under DetShare. By
hand,

    python3 tests/torch/infer.py [--device cpu] [--list] [--quick] [NAME...]

runs the cases whose names contain one of the words, and prints a line of JSON for each. With --serve the program
reads requests from standard input, one line of JSON each, and answers each with one line: {"do": "prepare", "case":
NAME}, {"do": "measure", "seconds": S}, {"do": "digest"}, {"do": "drop"}. Standard output is for answers only; output
of libraries goes to standard error.

Digests from different GPUs, drivers or versions of PyTorch may differ.
"""
import argparse
import dataclasses
import gc
import hashlib
import json
import os
import statistics
import sys
import time
import traceback

BEGIN = time.monotonic()
# a fixed workspace of cuBLAS for every stream, for equal results; must be set before cuBLAS is initialised
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
# Hugging Face's libraries must not download weights
os.environ.setdefault("HF_HUB_OFFLINE", "1")

CASES = {}


class Skipped(Exception):
    """The machine lacks a requirement of a case; the text names it."""


@dataclasses.dataclass
class Prepared:
    """The result of preparing a case: step(), if any, is timed; output() returns tensors, arrays or bytes."""
    output: object
    step: object = None
    stable: bool = True  # true: output() is the same after any number of steps
    info: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Case:
    name: str
    function: object
    quick: bool
    seconds: int  # time limit for preparing the case, s
    fresh: bool  # true: the case needs a process of its own
    environment: dict
    gpu: bool  # true: the case needs a GPU


def case(name, quick=False, seconds=90, fresh=False, environment=None, gpu=False):
    """Decorator for a function that takes the device (a string) and returns Prepared."""
    def add(function):
        assert name not in CASES, name
        CASES[name] = Case(name, function, quick, seconds, fresh or bool(environment), environment or {}, gpu)
        return function
    return add


def raw_bytes(value):
    """The bytes of a tensor, an array (NumPy's or CuPy's), bytes or text; of the elements of lists and dictionaries
    in order."""
    import torch
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            value = value.to_dense()
        return value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(value, dict):
        return b"".join(raw_bytes(value[key]) for key in sorted(value))
    if isinstance(value, (list, tuple)):
        return b"".join(raw_bytes(item) for item in value)
    if hasattr(value, "get"):  # CuPy array
        value = value.get()
    if hasattr(value, "tobytes"):
        return value.tobytes()
    return value if isinstance(value, bytes) else str(value).encode()


def digest(value):
    return hashlib.sha256(raw_bytes(value)).hexdigest()[:32]


def all_finite(value):
    import torch
    if isinstance(value, torch.Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    if isinstance(value, (list, tuple)):
        return all(all_finite(item) for item in value)
    return True


def synchronize(device):
    if device != "cpu":
        import torch
        torch.cuda.synchronize()


def deterministic():
    """Selects PyTorch's deterministic algorithms; PyTorch warns on standard error about operations that have none."""
    import torch
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.deterministic = True


def settle(model, *inputs):
    """Sets the averages of batch normalisation to those of this input, so that a model with random weights behaves as
    trained."""
    import torch
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = 1.0
    model.train()
    with torch.no_grad():
        model(*inputs)
    return model.eval()


def measure(step, device, seconds, least=5, most=400):
    """Measures single steps, each with a synchronisation, and then steps queued without synchronisation between them."""
    synchronize(device)
    times, end = [], time.monotonic() + seconds
    while len(times) < most and (len(times) < least or time.monotonic() < end):
        begin = time.perf_counter()
        step()
        synchronize(device)
        times.append(time.perf_counter() - begin)
    queued = min(len(times), 20)
    begin = time.perf_counter()
    for _ in range(queued):
        step()
    synchronize(device)
    queued_ms = (time.perf_counter() - begin) / queued * 1000
    return {"step_ms": [t * 1000 for t in times], "step_ms_median": statistics.median(times) * 1000, "n": len(times),
            "queued_ms": queued_ms}


class Program:
    """The cases of one process, one prepared at a time."""

    def __init__(self, device):
        self.device, self.name, self.prepared = device, None, None

    def prepare(self, name):
        import torch
        entry, begin = CASES[name], time.monotonic()
        if entry.gpu and self.device == "cpu":
            return {"case": name, "skip": "needs a GPU"}
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = False
        try:
            self.name, self.prepared = name, entry.function(self.device)
        except Skipped as why:
            return {"case": name, "skip": str(why)}
        for _ in range(3 if self.prepared.step and self.prepared.stable else 0):
            self.prepared.step()
        answer = self.digest()
        answer.update(self.prepared.info, prepare_s=time.monotonic() - begin)
        return answer

    def digest(self):
        synchronize(self.device)
        output = self.prepared.output()
        return {"case": self.name, "digest": digest(output), "finite": all_finite(output)}

    def measure(self, seconds):
        if not self.prepared.step:
            return {"case": self.name, "n": 0}
        return dict(measure(self.prepared.step, self.device, seconds), case=self.name)

    def drop(self):
        import torch
        name, self.name, self.prepared = self.name, None, None
        gc.collect()
        if self.device != "cpu":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        return {"case": name}

    def do(self, request):
        if request["do"] == "prepare":
            return self.prepare(request["case"])
        if request["do"] == "measure":
            return self.measure(request["seconds"])
        return {"digest": self.digest, "drop": self.drop}[request["do"]]()


def serve(program, answers):
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = program.do(request)
        except BaseException as error:  # after a CUDA error the process cannot continue
            traceback.print_exc()
            last = (str(error).strip() or "no text").splitlines()[0]
            print(json.dumps({"case": request.get("case"), "error": f"{type(error).__name__}: {last}"}), file=answers, flush=True)
            return 1
        print(json.dumps(answer), file=answers, flush=True)
    return 0


def by_hand(program, names, seconds, answers):
    status = 0
    for name in names:
        try:
            answer = program.prepare(name)
            if "skip" not in answer:
                answer.update(program.measure(seconds))
                answer.pop("step_ms", None)
                program.drop()
        except Exception as error:
            traceback.print_exc()
            answer, status = {"case": name, "error": f"{type(error).__name__}: {error}"}, 1
        print(json.dumps(answer), file=answers, flush=True)
    return status


def main(program=Program):
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.5, help="time for which steps are measured")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if options.list:
        for entry in CASES.values():
            print(json.dumps({"case": entry.name, "quick": entry.quick, "seconds": entry.seconds, "fresh": entry.fresh,
                              "environment": entry.environment}), file=answers)
        answers.flush()
        return 0
    program = program(options.device)
    if options.serve:
        return serve(program, answers)
    names = [name for name, entry in CASES.items() if (entry.quick or not options.quick)
             and (not options.names or any(word in name for word in options.names))]
    return by_hand(program, names, options.seconds, answers)
