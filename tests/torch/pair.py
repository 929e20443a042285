#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A latency-sensitive PyTorch service alone, then beside best-effort PyTorch processes that start, train, capture a
graph and end.

The service answers requests (ResNet-34, one picture each) that arrive at random, as a Poisson process from a seed.
The latency of a request is the time from its arrival until its output exists, including the time in which the service
was busy. Beside the service, one best-effort process after the other runs: it imports PyTorch, trains ResNet-18 with
autocast, captures its inference as a CUDA graph, replays it, and ends. The service's outputs must be the same bytes
throughout.

The test runs under DetShare with each of the policies, and natively, where the driver time-slices the two processes.
It ends with a table. The lines under each row show the stages of the best-effort processes: the time of the stage,
and the service's p99 during it.

usage: pair.py [--build BUILD] [--seconds S] [--rate R] [--policies "NAME [KEY=VALUE...]; ..."] [--no-native] [--out
FILE]
"""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve()
TRAIN_STEPS, REPLAYS = 60, 300
BESIDE = 4  # length of the shared phase over the phase alone: long enough for one best-effort process to complete


# --- the service --------------------------------------------------------------------------------------------------------------

def serve(device, rate):
    import torch
    import torchvision
    import common
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = False
    x = torch.randn(1, 3, 224, 224).to(device)
    model = common.settle(torchvision.models.resnet34(weights=None).to(device), torch.randn(8, 3, 224, 224).to(device))

    def answer():
        with torch.inference_mode():
            return model(x).cpu()
    for _ in range(100):
        answer()
    print(json.dumps({"ready": common.digest(answer())}), flush=True)
    for line in sys.stdin:
        seconds, arrivals, seed = float(line), [], random.Random(7)
        at = 0.0
        while at < seconds:
            arrivals.append(at)
            at += seed.expovariate(rate)
        print(json.dumps(requests(answer, arrivals, common.digest)), flush=True)


def requests(answer, arrivals, digest):
    latencies, outputs, begin = [], set(), time.monotonic()
    for number, at in enumerate(arrivals):
        wait = begin + at - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        output = answer()
        latencies.append((time.monotonic() - begin - at) * 1000)
        if number % 16 == 0:
            outputs.add(digest(output))
    return {"latencies": latencies, "digests": sorted(outputs), "times": [begin + at for at in arrivals]}


# --- the best-effort process --------------------------------------------------------------------------------------------------

def stage(name):
    """Prints that a stage begins, with the time of a clock that all processes share."""
    print(json.dumps({"stage": name, "at": time.monotonic()}), flush=True)


def train_and_capture(device):
    stage("import")
    import torch
    import torchvision
    torch.manual_seed(1)
    stage("context")
    torch.zeros(1, device=device)
    stage("model")
    model = torchvision.models.resnet18(weights=None).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler(device)
    x, y = torch.randn(64, 3, 224, 224).to(device), torch.randint(0, 1000, (64,)).to(device)
    begin, losses = time.monotonic(), []
    stage("first step")
    for number in range(TRAIN_STEPS):
        if number == 1:
            stage("training")
        with torch.autocast(device, dtype=torch.float16 if device != "cpu" else torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss.detach()))
    train_s = time.monotonic() - begin
    stage("capture")
    replays = capture(torch, model.eval(), x) if device != "cpu" else 0
    print(json.dumps({"train_steps_per_s": TRAIN_STEPS / train_s, "replays": replays, "loss": losses[-1]}), flush=True)


def capture(torch, model, x):
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(x)
        stage("replay")
        for _ in range(REPLAYS):
            graph.replay()
    torch.cuda.synchronize()
    stage("exit")
    return REPLAYS


# --- both together ---------------------------------------------------------------------------------------------------------------

def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def environment(options, socket, class_):
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    if socket:
        paths = [str(options.build / "cuda")] + [p for p in [env.get("LD_LIBRARY_PATH")] if p]
        env.update(LD_LIBRARY_PATH=":".join(paths), DETSHARE_SOCKET=str(socket), DETSHARE_CLASS=class_, CUDA_VISIBLE_DEVICES="0")
    return env


def start(role, options, socket, tmp, **pipes):
    class_ = "ls" if role == "serve" else "be"
    errors = open(tmp / f"{role}.err", "ab")
    return subprocess.Popen([sys.executable, str(HERE), "--role", role, "--device", options.device, "--rate", str(options.rate)],
                            env=environment(options, socket, class_), stdout=subprocess.PIPE, stderr=errors, **pipes)


def phase(service, seconds):
    """Requests `seconds` of load from the service; the caller reads the answer later."""
    service.stdin.write(b"%f\n" % seconds)
    service.stdin.flush()


def lives(options, socket, tmp, end):
    """Runs best-effort processes one after the other until `end`; kills the last one, as a user would.

    Returns the results of the processes that ended by themselves, and the time at which every stage began."""
    done, stages = [], []
    while time.monotonic() < end:
        child = start("train", options, socket, tmp)
        try:
            output, _ = child.communicate(timeout=max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            output, _ = child.communicate()
        lines = [json.loads(line) for line in output.splitlines()]
        stages += [(line["at"], line["stage"]) for line in lines if "stage" in line] + [(time.monotonic(), "between")]
        if child.returncode == -signal.SIGKILL:
            break
        if child.returncode != 0:
            raise RuntimeError(f"the best-effort process ended with {child.returncode}")
        done.append(lines[-1])
    return done, stages


def by_stage(stages, times, latencies):
    """Per stage: seconds in all best-effort processes, and the latencies of the requests that arrived during it."""
    found = {}
    for (begin, name), (end, _) in zip(stages, stages[1:]):
        values = [latency for at, latency in zip(times, latencies) if begin <= at < end]
        seconds, all_values = found.get(name, (0, []))
        found[name] = (seconds + end - begin, all_values + values)
    return {name: {"seconds": seconds, **summary(values)} for name, (seconds, values) in found.items() if values}


def summary(values):
    return {"n": len(values), "p50": percentile(values, 0.5), "p99": percentile(values, 0.99), "max": max(values)}


def pair(name, options, socket, tmp):
    service = start("serve", options, socket, tmp, stdin=subprocess.PIPE)
    try:
        line = service.stdout.readline()
        if not line:
            raise RuntimeError(f"the service ended with {service.wait()}")
        ready = json.loads(line)["ready"]
        phase(service, options.seconds)
        alone = json.loads(service.stdout.readline())
        phase(service, BESIDE * options.seconds)
        done, stages = lives(options, socket, tmp, time.monotonic() + BESIDE * options.seconds)
        beside = json.loads(service.stdout.readline())
        service.stdin.close()
        status = service.wait(30)
    finally:
        service.kill()
        service.wait()
    row = {"run": name, "identical": {ready} == set(alone["digests"]) | set(beside["digests"]), "status": status, "lives": len(done),
           "train_steps_per_s": max((d["train_steps_per_s"] for d in done), default=0)}
    for key, values in (("alone", alone["latencies"]), ("beside", beside["latencies"])):
        row[key] = summary(values)
    row["stages"] = by_stage(stages, beside["times"], beside["latencies"])
    row["p99_ratio"] = row["beside"]["p99"] / row["alone"]["p99"]
    return row


def show(row):
    if "error" in row:
        print(f"{row['run']:28} FAIL  {row['error']}", flush=True)
        return
    print(f"{row['run']:28} {row['alone']['p50']:8.2f} {row['alone']['p99']:8.2f} {row['beside']['p50']:9.2f} {row['beside']['p99']:9.2f} "
          f"{row['beside']['max']:9.1f} {row['p99_ratio']:6.2f} {row['lives']:5} {row['train_steps_per_s']:8.1f}  {'yes' if row['identical'] else 'NO'}{'' if row['lives'] else '  (no best-effort process came to its end)'}", flush=True)
    for name, seen in row["stages"].items():
        print(f"    {name:12} {seen['seconds']:7.1f} s {seen['n']:6} requests {seen['p50']:28.2f} {seen['p99']:9.2f} {seen['max']:9.1f}", flush=True)


def run(name, options, tmp):
    """Returns one row of the table; under DetShare with a daemon of its own."""
    tmp = pathlib.Path(tempfile.mkdtemp(dir=tmp))
    daemon, socket = None, None
    try:
        if name != "native":
            daemon, socket = detshared(options, tmp, name.split())
        row = pair(name, options, socket, tmp)
    except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
        row = {"run": name, "error": str(error)[:150]}
        for path in sorted(tmp.glob("*.err")) + sorted(tmp.glob("*.log")):
            print("\n".join(f"     {path.name}: {text[:180]}" for text in path.read_text(errors="replace").splitlines()[-12:]))
    finally:
        if daemon:
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
    show(row)
    return row


def detshared(options, tmp, policy):
    socket, log = tmp / "sock", tmp / "detshared.log"
    with open(log, "ab") as out:
        child = subprocess.Popen([str(options.build / "detshared"), "--device", options.daemon_device, "--socket", str(socket)], stdout=out, stderr=out)
    end = time.monotonic() + 40
    while b"serving" not in log.read_bytes():
        if child.poll() is not None or time.monotonic() > end:
            child.kill()
            raise RuntimeError("detshared did not start to serve")
        time.sleep(0.1)
    done = subprocess.run([str(options.build / "detsharectl"), "--socket", str(socket), "set-policy", *policy], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode:
        child.terminate()
        raise RuntimeError(f"set-policy {' '.join(policy)}: {done.stdout.decode().strip()}")
    return child, socket


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--role", choices=("serve", "train"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--daemon-device", default=os.environ.get("DETSHARE_TEST_DEVICE", "cuda:0"))
    parser.add_argument("--seconds", type=float, default=10, help="duration of requests alone; beside others it is four times as long")
    parser.add_argument("--rate", type=float, default=100, help="requests per second")
    parser.add_argument("--policies", default="multistream; static ls_percent=50")
    parser.add_argument("--no-native", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.role:
        serve(options.device, options.rate) if options.role == "serve" else train_and_capture(options.device)
        return 0
    names = ([] if options.no_native else ["native"]) + [p.strip() for p in options.policies.split(";") if p.strip()]
    print(f"{'run':28} {'alone ms':>17} {'beside ms':>29} {'p99':>6} {'BE':>5} {'BE train':>8}  same\n"
          f"{'':28} {'p50':>8} {'p99':>8} {'p50':>9} {'p99':>9} {'max':>9} {'ratio':>6} {'lives':>5} {'steps/s':>8}  bytes", flush=True)
    with tempfile.TemporaryDirectory(prefix="detshare-pair.") as tmp:
        os.chmod(tmp, 0o755)
        rows = [run(name, options, tmp) for name in names]
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))
    failed = sum("error" in row or not row["identical"] for row in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
