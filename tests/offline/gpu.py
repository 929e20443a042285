#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Model packs on the GPU of this machine: right outputs, the same bytes under DetShare, and their time beside eager
PyTorch.

For each model this program makes the pack (unless the folder exists) and runs it natively through the driver API.
With --detshare BUILD it also runs the pack as a client of BUILD/detshared. The outputs must equal the framework's
within the pack's tolerance, and the bytes of both runs must be equal. Eager PyTorch runs the same model in half
precision, in the default layout and channels-last; the faster one counts. torch.compile runs too, alone and with CUDA
graphs. Compilations of models run in parallel; nothing is timed meanwhile. Times are medians of a run from its first
launch to its end, with inputs on the GPU. Ends with `N passed, N failed`; a pack that takes more than 1.5 times as
long as PyTorch fails.

usage: gpu.py [--packs DIR] [--detshare BUILD] [--arch sm_NN] [--json FILE] [--no-torch] [MODEL...]
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "offline" / "detshare-pack"
sys.path.insert(0, str(ROOT / "offline"))
SLOWER = 1.5
LONGEST = 120  # limit for the runs of one pack, seconds


def few_threads():
    """Environment for programs of which many run at once: without it, each would use all cores."""
    return dict(os.environ, OMP_NUM_THREADS="2", MKL_NUM_THREADS="2")


def make(name, folder, arch):
    """Makes the pack of a model. Returns the compiler's output if it failed, else None."""
    if (folder / "pack.txt").exists():
        return None
    done = subprocess.run([sys.executable, TOOL, name, "--jobs", "4", "--arch", arch, "-o", folder], capture_output=True, text=True, env=few_threads())
    print(done.stdout.strip().replace("\n", f"\n{name}: "), flush=True)
    return None if done.returncode == 0 else done.stdout + done.stderr


def run_pack(folder, repeats, environment):
    """Returns the runner's report on a pack, from a process of its own, or the text of its error."""
    environment = dict(os.environ, DETSHARE_PACK_REPEATS=str(repeats), DETSHARE_PACK_SLOWEST="12", **environment)
    try:
        done = subprocess.run([sys.executable, TOOL, "--run", folder], capture_output=True, text=True, timeout=LONGEST, env=environment)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {LONGEST} s"}
    return json.loads(done.stdout) if done.stdout.startswith("{") else {"error": done.stderr[-500:]}


def start_daemon(build, folder):
    socket = f"{folder}/socket"
    daemon = subprocess.Popen([f"{build}/detshared", "--device", "cuda:0", "--socket", socket], stdout=subprocess.DEVNULL)
    for _ in range(300):
        if os.path.exists(socket) or daemon.poll() is not None:
            break
        time.sleep(0.1)
    return daemon, {"DETSHARE_SOCKET": socket, "LD_LIBRARY_PATH": f"{build}/cuda:{os.environ.get('LD_LIBRARY_PATH', '')}", "CUDA_VISIBLE_DEVICES": "0"}  # one GPU, as under DetShare


def module_of(name, batch):
    """The module as its users run it: with transformers' default choice of attention if the model has one."""
    from detpack import models
    if not models.MODELS[name].side:
        try:
            return models.build(name, batch, 1, attention="sdpa")
        except ValueError:
            pass
    return models.build(name, batch, 1)


def forms_of(model, channels_last):
    """The ways PyTorch runs a module: eager, channels-last, compiled, compiled with CUDA graphs."""
    import torch
    yield "eager_us", model, torch.contiguous_format
    last = torch.contiguous_format
    if channels_last:
        last = torch.channels_last
        yield "eager_last_us", model.to(memory_format=last), last
    yield "compiled_us", torch.compile(model), last
    yield "graphs_us", torch.compile(model, mode="reduce-overhead"), last


def measure_torch(name, batch, repeats):
    """Prints PyTorch's time for a forward pass in half precision, microseconds by form.

    It compiles first, which may take a minute and may overlap with other processes. Then it prints `ready` and waits
    for a line on standard input, because the measurement needs the machine for itself."""
    import torch
    torch.backends.cudnn.benchmark = True
    model, args, _ = module_of(name, batch)
    model = model.half().cuda()
    channels_last = args[0].is_floating_point()
    forms, result = [], {}
    with torch.inference_mode():
        for form, callee, memory in forms_of(model, channels_last):
            inputs = [a.half().cuda().to(memory_format=memory) if a.is_floating_point() else a.cuda() for a in args]
            try:
                for _ in range(5):
                    callee(*inputs)
                torch.cuda.synchronize()
            except Exception as error:  # pylint: disable=broad-except
                result[f"{form} error"] = str(error).strip().split("\n")[0][:200]
                continue
            forms.append((form, callee, inputs, memory))
        print("ready", flush=True)
        sys.stdin.readline()
        for form, callee, inputs, memory in forms:
            model.to(memory_format=memory)
            times = []
            for i in range(repeats + 5):
                torch.cuda.synchronize()
                begin = time.perf_counter()
                callee(*inputs)
                torch.cuda.synchronize()
                if i >= 5:
                    times.append((time.perf_counter() - begin) * 1e6)
            result[form] = round(statistics.median(times), 1)
    print(json.dumps(result), flush=True)


class Torch:
    """PyTorch with one model, in a process of its own that prepares in parallel with others."""

    def __init__(self, name, repeats, scratch):
        from detpack import models
        environment = dict(few_threads(), TORCHINDUCTOR_CACHE_DIR=f"{scratch}/inductor", TORCHINDUCTOR_COMPILE_THREADS="3")
        self.errors = open(f"{scratch}/{name}.torch", "w+")
        self.child = subprocess.Popen([sys.executable, __file__, "--measure-torch", name, str(models.MODELS[name].batch), str(repeats)],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment)

    def wait_ready(self):
        """Waits until the process has compiled or has failed."""
        for line in self.child.stdout:
            if line.startswith("ready"):
                break

    def times(self):
        """Returns the times by form; a form that fails has a text instead."""
        if self.child.poll() is None:
            said = self.child.communicate("go\n")[0]
            if said.strip().startswith("{"):
                return json.loads(said)
        self.errors.seek(0)
        return {"error": self.errors.read()[-300:]}


def judge(name, native, shared, torch_times):
    """Compares one model's results, and returns its failures as text."""
    bad = []
    for which, got in (("native", native), ("detshare", shared)):
        if got is not None and "error" in got:
            bad.append(f"{which}: {got['error'].strip().splitlines()[-1:]}")
        elif got is not None and not all(o["right"] for o in got["outputs"]):
            bad.append(f"{which}: {got['outputs']}")
    if not bad and shared and [o["sha256"] for o in native["outputs"]] != [o["sha256"] for o in shared["outputs"]]:
        bad.append("the output bytes under DetShare differ from native ones")
    eager = eager_us(torch_times)
    if torch_times and not eager:
        bad.append(f"PyTorch: {torch_times}")
    if not bad and eager and native["run_us"] > SLOWER * eager:
        bad.append(f"{native['run_us']} us, eager PyTorch {eager}")
    return bad


def eager_us(torch_times):
    """The shorter time of the two eager forms, microseconds."""
    return min((v for k, v in torch_times.items() if k.startswith("eager_") and k.endswith("_us")), default=0)


def main():
    from detpack import models
    p = argparse.ArgumentParser(description="Model packs on a GPU, beside eager PyTorch.")
    p.add_argument("models", nargs="*", metavar="MODEL")
    p.add_argument("--packs", type=pathlib.Path, metavar="DIR", help="folder of packs; missing ones are made there (default: a temporary folder)")
    p.add_argument("--detshare", type=pathlib.Path, metavar="BUILD")
    p.add_argument("--arch", default="sm_80", metavar="sm_NN", help="target of the packs that are made (default: %(default)s)")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE")
    p.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    p.add_argument("--measure-torch", nargs=3, metavar=("MODEL", "BATCH", "REPEATS"), help=argparse.SUPPRESS)
    p.add_argument("--repeats", type=int, default=50, metavar="N")
    args = p.parse_args()
    if args.measure_torch:
        name, batch, repeats = args.measure_torch
        return measure_torch(name, int(batch), int(repeats))
    names = args.models or list(models.MODELS)
    passed, failed, rows = 0, 0, []
    with tempfile.TemporaryDirectory() as scratch:
        packs = args.packs or pathlib.Path(scratch)
        torches = {} if args.no_torch else {n: Torch(n, args.repeats, scratch) for n in names if n in models.MODELS}
        with concurrent.futures.ThreadPoolExecutor(max(1, os.cpu_count() // 2)) as pool:
            errors = dict(zip(names, pool.map(lambda n: make(n, packs / n, args.arch), names)))
        for torch in torches.values():
            torch.wait_ready()
        daemon, environment = start_daemon(args.detshare.resolve(), scratch) if args.detshare else (None, None)
        for name in names:
            if errors[name]:
                bad, row = [f"not compiled: {errors[name][-400:]}"], {}
            else:
                native = run_pack(packs / name, args.repeats, {})
                shared = run_pack(packs / name, args.repeats, environment) if daemon else None
                times = torches[name].times() if name in torches and native.get("batch", 1) == models.MODELS[name].batch else {}
                bad, row = judge(name, native, shared, times), {"name": name, "native": native, "detshare": shared, **times}
            rows.append(row)
            passed, failed = passed + (not bad), failed + bool(bad)
            us = row.get("native", {}).get("run_us")
            times = {k: v for k, v in row.items() if k.split("_")[0] in ("eager", "compiled", "graphs")}
            ratio = round(us / eager_us(times), 2) if us and eager_us(times) else "-"
            print(f"{'FAIL' if bad else 'PASS'} {name:18} pack {us} us, under DetShare {(row.get('detshare') or {}).get('run_us', '-')}, "
                  f"{times}, ratio {ratio} {'; '.join(map(str, bad))}", flush=True)
        if daemon:
            daemon.terminate()
            daemon.wait()
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
