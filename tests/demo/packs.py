#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Model packs share one device: one is served to requests as they arrive in a trace, others compute as much as they can.

A daemon of its own on a private socket; detshare-serve runs every pack. Each side runs alone, then both together under each policy. What is
printed: the service's latencies and how many requests kept twice the 99th percentile that they have alone; the inferences of the others
per second while it served; whether every output of everybody had, byte for byte, the same bits as alone. Needs neither PyTorch nor a GPU:
the packs lie in the tree, and where there is no GPU they run on a simulated one, `sim:a2000` if no other is asked for, since this
machine's processors execute the kernels and a larger GPU takes more of them to be full. Times are the model's then, and named `sim`.

usage: packs.py [--build DIR] [--device SPEC] [--policies A,B,...] [--ls PACK] [--be PACK]... [--requests N] [--divisor X] [--json FILE]
Ends with status 1 if any output was wrong or not the same, or a program failed.
"""
import argparse
import atexit
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = ROOT / "tests" / "data" / "apollo_inter_arrival_s.json"
SERVICE = ROOT / "tests" / "offline" / "packs" / "tiny-mobilenet"
OTHERS = [ROOT / "tests" / "demo" / "packs" / name for name in ("batch-resnet", "batch-bert")]
SLO_FACTOR = 2
PATIENCE = 300  # seconds, for what happens once: machines may be slow
# requests, the divisor of the trace's gaps, seconds of the others alone
SIMULATED, REAL = (40, 120, 0.008), (3000, 20, 5)
BAR = "  +-----------------------+------------+------------+-----------+------------+----------+-----------+"


class Failed(Exception):
    pass


class Place:
    """A daemon, the environment of its clients, and a folder for what they write."""

    def __init__(self, build, device):
        self.build, self.folder = build, pathlib.Path(tempfile.mkdtemp(prefix="detshare-packs."))
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("DETSHARE_")}
        self.environment["DETSHARE_SOCKET"] = str(self.folder / "sock")
        self.daemon, self.clients = None, []
        atexit.register(self.end)
        self.start(device)
        if not device and self.simulated:
            self.stop()
            self.start("sim:a2000")

    def start(self, device):
        command = [self.build / "detshared", "--foreground", "--socket", self.folder / "sock", "--state", self.folder / "state"]
        self.log = open(self.folder / "daemon", "w+", encoding="utf-8")
        self.daemon = subprocess.Popen(command + (["--device", device] if device else []), stdout=self.log, stderr=self.log,
                                       env=self.environment)
        if not wait_until(lambda: self.daemon.poll() is not None or "serving" in (self.folder / "daemon").read_text()) or \
                self.daemon.poll() is not None:
            raise Failed("the daemon does not serve: " + (self.folder / "daemon").read_text())
        status = json.loads(self.ctl("status", "--json"))
        self.device, self.simulated = status["device"].removeprefix("DetShare "), status["simulated"]

    def stop(self):
        self.daemon.terminate()
        if self.daemon.wait(PATIENCE):
            raise Failed("the daemon did not end in order")

    def end(self):
        for process in self.clients + [self.daemon]:
            if process and process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ctl(self, *words):
        done = subprocess.run([self.build / "detsharectl", *words], env=self.environment, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode:
            raise Failed(f"detsharectl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def serve(self, pack, kind, *words):
        """detshare-serve, begun."""
        number = len(self.clients)
        name = f"{pathlib.Path(pack).name}-{number}"
        command = [self.build / "detshare-serve", pack, "--class", kind, "--name", name, "--json", "--check", "--digest",
                   "--latencies", self.folder / f"{number}.times", *words]
        with open(self.folder / f"{number}.json", "w", encoding="utf-8") as out, \
                open(self.folder / f"{number}.err", "w", encoding="utf-8") as err:
            process = subprocess.Popen(command, stdout=out, stderr=err, env=self.environment)
        process.number, process.name = number, name
        self.clients.append(process)
        return process

    def result(self, process):
        """What it said, and its requests as (arrival, end) in ns."""
        if process.wait(PATIENCE):
            raise Failed(f"{process.name}: " + (self.folder / f"{process.number}.err").read_text() +
                         (self.folder / f"{process.number}.json").read_text())
        said = json.loads((self.folder / f"{process.number}.json").read_text())
        lines = (self.folder / f"{process.number}.times").read_text().splitlines()
        said["times"] = [(int(a), int(e)) for a, _, e in map(str.split, lines)]
        said["bits"] = [c["sha256"] for c in said["checked"]]
        said["right"] = said["same"] and not said["different"] and not any(c["wrong"] for c in said["checked"])
        return said

    def at_work(self, others):
        """All of them have run more often than for the two cases that come first."""
        launched = {c["name"]: c["launches"] for c in json.loads(self.ctl("clients", "--json"))["clients"]}
        return all(launched.get(p.name, 0) > 4 * p.launches for p in others)


def wait_until(is_so):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if is_so():
            return True
        time.sleep(0.05)
    return False


def trace(folder, requests, divisor):
    """The trace's first gaps, as a file of ours."""
    gaps = json.loads(TRACE.read_text())[:requests]
    (folder / "trace").write_text(json.dumps([gap / divisor for gap in gaps]))
    return folder / "trace"


def part(values, share):
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def per_second(said, begin, end):
    """Inferences of all that ended in between."""
    batches = sum(s["batch"] * sum(begin < e <= end for _, e in s["times"]) for s in said)
    return batches * 1e9 / (end - begin)


class Runs:
    def __init__(self, place, args):
        requests, divisor, alone = SIMULATED if place.simulated else REAL
        self.place, self.ls, self.be, self.seconds = place, args.ls, args.be, alone
        self.requests, self.divisor = args.requests or requests, args.divisor or divisor
        self.gaps, self.rows = trace(place.folder, self.requests, self.divisor), []

    def begin_others(self, *words):
        others = []
        for pack in self.be:
            shown = subprocess.run([self.place.build / "detshare-serve", pack, "--show", "--json"], capture_output=True, check=True)
            others.append(self.place.serve(pack, "be", *words))
            others[-1].launches = json.loads(shown.stdout)["launches"]
        return others

    def row(self, name, service, others):
        row = {"run": name}
        everybody = ([service] if service else []) + others
        first = self.rows[0]["bits"] + self.rows[1]["bits"] if len(self.rows) > 1 else None
        row["bits"] = [s["bits"] for s in everybody]
        row["bit_identical"] = all(s["right"] for s in everybody) and (not first or row["bits"] == first)
        if service:
            spans = [(e - a) / 1000 for a, e in service["times"]]
            row.update(ls_requests=len(spans), ls_p50_us=part(spans, 0.5), ls_p99_us=part(spans, 0.99), spans=spans)
        if others:
            times = (service or {}).get("times") or [t for s in others for t in s["times"]]
            row["be_per_s"] = per_second(others, min(a for a, _ in times), max(e for _, e in times))
        self.rows.append(row)

    def alone(self):
        print("  running each side alone ...", flush=True)
        self.place.ctl("set-policy", "multistream")
        self.row("LS alone", self.place.result(self.place.serve(self.ls, "ls", "--trace", self.gaps)), [])
        others = self.begin_others("--seconds", str(self.seconds))
        self.row("BE alone", None, [self.place.result(p) for p in others])

    def together(self, policy):
        print(f"  running together under {policy} ...", flush=True)
        self.place.ctl("set-policy", policy)
        others = self.begin_others("--seconds", "1000000")
        if not wait_until(lambda: self.place.at_work(others) or any(p.poll() is not None for p in others)):
            raise Failed("the others do not compute")
        service = self.place.result(self.place.serve(self.ls, "ls", "--trace", self.gaps))
        for process in others:
            process.send_signal(signal.SIGINT)
        self.row(policy, service, [self.place.result(p) for p in others])

    def judge(self):
        """The objective comes from the service alone."""
        slo = SLO_FACTOR * self.rows[0]["ls_p99_us"]
        for row in self.rows:
            spans = row.pop("spans", None)
            if spans:
                row["slo_attainment"] = sum(s <= slo for s in spans) / len(spans)
            if "be_per_s" in row:
                row["be_share"] = row["be_per_s"] / self.rows[1]["be_per_s"]
            row.pop("bits")
        return slo


def show(runs, slo):
    place = runs.place
    said = " (simulated: times are the model's, not a GPU's)" if place.simulated else ""
    print(f"\n  device {place.device}{said}   LS: {pathlib.Path(runs.ls).name}, {runs.requests} requests, "
          f"Apollo arrivals / {runs.divisor:g}   SLO {slo:.0f} us ({SLO_FACTOR} x p99 alone)")
    print(f"  BE: {', '.join(pathlib.Path(p).name for p in runs.be)}")
    print(BAR)
    print("  | run                   |  LS p50 us |  LS p99 us |   SLO met |  BE inf./s | of alone | same bits |")
    print(BAR)
    for i, row in enumerate(runs.rows):
        name = row["run"] if i < 2 else f"together, {row['run']}"
        ls = f"{row['ls_p50_us']:10.1f} | {row['ls_p99_us']:10.1f} | {100 * row['slo_attainment']:8.1f}%" if "ls_p50_us" in row else \
            f"{'-':>10} | {'-':>10} | {'-':>9}"
        be = f"{row['be_per_s']:10.0f} | {100 * row['be_share']:7.1f}%" if "be_per_s" in row else f"{'-':>10} | {'-':>8}"
        print(f"  | {name:21} | {ls} | {be} | {'yes' if row['bit_identical'] else 'NO':>9} |")
    print(BAR)


def write(runs, slo, path):
    about = {"device": runs.place.device, "simulated": runs.place.simulated, "trace": "apollo", "time_divisor": runs.divisor,
             "ls": pathlib.Path(runs.ls).name, "be": [pathlib.Path(p).name for p in runs.be], "slo_us": slo, "runs": runs.rows}
    path.write_text(json.dumps(about, indent=2) + "\n")
    print(f"  written: {path}")


def parse():
    p = argparse.ArgumentParser(description="Model packs share one device, under several policies.")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build", metavar="DIR")
    p.add_argument("--device", metavar="SPEC", help="cuda:N or sim:MODEL (default: a GPU where there is one, else sim:a2000)")
    p.add_argument("--policies", default="temporal,static,detshare", metavar="A,B,...")
    p.add_argument("--ls", default=SERVICE, metavar="PACK", help="what is served")
    p.add_argument("--be", action="append", metavar="PACK", help="what computes beside it; as often as you like")
    p.add_argument("--requests", type=int, metavar="N")
    p.add_argument("--divisor", type=float, metavar="X", help="of the gaps between the trace's arrivals")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE")
    args = p.parse_args()
    args.be = args.be or OTHERS
    args.build = args.build.resolve()
    return args


def main():
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the daemon and its clients end, too
    place = Place(args.build, args.device)
    runs = Runs(place, args)
    print(f"packs: one is served, {len(runs.be)} compute beside it, on {place.device}")
    runs.alone()
    for policy in args.policies.split(","):
        runs.together(policy)
    place.stop()
    slo = runs.judge()
    show(runs, slo)
    if args.json:
        write(runs, slo, args.json)
    same = all(row["bit_identical"] for row in runs.rows)
    print(f"  outputs right, and bit-identical to running alone: {'yes' if same else 'NO'}")
    return 0 if same else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failed, subprocess.SubprocessError) as error:
        print(f"packs: {error}", file=sys.stderr)
        sys.exit(1)
