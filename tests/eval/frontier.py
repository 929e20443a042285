#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sweeps fixed settings and compares `detshare` with the best of them at the same objective: a CSV file, a page, a plot per device.

Each of three pairs of a service and a job runs at five loads. An objective is a multiple of the service's p99 alone with the same
arrivals. The frontier of a cell (pair, load and objective) is the highest job share that any fixed setting reaches while at least
99% of the requests meet the objective. `detshare` runs without an objective and with each of the objectives.

There are two back ends with the same cells and the same CSV columns:

  - replay: detshare-replay on simulated GPUs. Arrivals of a round have the round's number as their seed.
  - gpu: measure.py, or gpus.sh on all GPUs of this machine. Services are told their objectives by the order `slo`.

Both continue where they stopped: a cell, round and setting that has its rows does not run again.

usage: frontier.py replay --out FILE.csv [--build BUILD] [--devices h200,a2000,p40] [--jobs N] [--from FILE.csv[.xz]] [SWEEP...]
       frontier.py gpu --out FILE.csv --state FILE.csv.xz [--gpus FOLDER] [SWEEP...] [-- MEASURE-ARGUMENT...]
       frontier.py page --from FILE.csv --doc FILE.md [--keep FILE.csv.xz] [--command TEXT] [--note TEXT]      the page and the plots, from a file
       SWEEP: --pairs LS/BE,... --loads 5,10,... --settings "A;B;..." --rounds N --requests N
"""
import argparse
import concurrent.futures
import csv
import lzma
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

import analyse
import document
import frontier_page
import replay
import scenarios
import state
import stats

HERE = pathlib.Path(__file__).resolve().parent
PAIRS = "bert/bert-b64,resnet34/resnet152-train,mobilenetv3/bert-b64"
LOADS = "5,10,25,50,75"  # the longest phases first, so that all cores work until the end
OBJECTIVES = analyse.SLO
ALONE = "alone"
OURS = ("detshare", *(f"detshare,slo={times:g}" for times in OBJECTIVES))
FIXED = ("static,ls_percent=25", "static,ls_percent=50", "static,ls_percent=75", "multistream", "multistream,be_depth=1,be_ahead_us=0", "orion",
         "orion,dur_permille=400", "sgdrc")
SIMULATED = "make replay-policies"
SIM = ("All figures of this page are from a simulator (`sim`), none from a GPU. [simulated.md](simulated.md) and [simulator.md](../simulator.md) say what is simulated.",)
MPS = ("mps", "mps-priority", "mps-priority-25", "mps-priority-50", "mps-priority-75")
COLUMNS = ("device", "pair", "load", "round", "setting", "objective", "p50_ms", "p99_ms", "p50_over_alone", "p99_over_alone", "attainment", "job_share", "requests")


def rows_of(place, setting, latencies, unended, alone, share, stated_ms=0):
    """A row per objective. place: the first four columns; latencies: of the requests that ended, ms; alone: of the same arrivals
    without a job; stated_ms: the p99 of which objectives are multiples, if not that of `alone`. Requests that did not end missed every
    objective."""
    values = sorted(latencies) + [math.inf] * unended
    p50, p99 = (stats.percentile(values, part) for part in (0.5, 0.99))
    alone50, alone99 = (stats.percentile(alone, part) for part in (0.5, 0.99))
    row = dict(zip(COLUMNS, place), setting=setting, p50_ms=p50, p99_ms=p99, p50_over_alone=p50 / alone50, p99_over_alone=p99 / alone99, job_share=share,
               requests=len(values))
    bound = stated_ms or alone99
    return [dict(row, objective=times, attainment=sum(v <= times * bound for v in values) / len(values)) for times in OBJECTIVES]


def requests_of(load, least):
    """Expected number of requests of a phase: with random arrivals, at least `least` but for one phase in 700. A policy that learns
    needs some 600 requests, which at a higher load are soon over, so phases there have twice as many."""
    return least + 3 * math.sqrt(least) if load <= 10 else 2 * least


class Rows:
    """The CSV file: rows are added as they are measured."""

    def __init__(self, path):
        self.path = path
        self.there = {self.key(row) for row in (frontier_page.read(path) if path.exists() else [])}

    @staticmethod
    def key(row):
        return tuple(str(row[name]) for name in COLUMNS[:5])

    def add(self, rows):
        new = not self.path.exists()
        with open(self.path, "a", newline="", encoding="utf8") as out:
            writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerows({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()} for row in rows)
        self.there |= {self.key(row) for row in rows}

    def has(self, place, setting):
        return (*map(str, place), setting) in self.there


# --- replay ---------------------------------------------------------------------------------------------------------------------

def replayed(sim, rows, device, pair, load, round_, options):
    """Simulates the settings of one cell and round that have no rows yet."""
    place = (f"sim:{device}", pair, load, round_)
    left = [setting for setting in options.settings if not rows.has(place, setting)]
    if not left:
        return []
    ls, be = pair.split("/")
    rate, steps = sim.isolated(ls, device)["rate"] * load / 100, sim.isolated(be, device)["rate"]
    duration, service = max(requests_of(load, options.requests) / rate, 3 / steps), f"{sim.profile(ls, device)}@poisson:{rate:.6f}"

    def run(policies, slo="", job=()):
        return sim.run(device, ["--seed", str(round_), "--latencies", "--ls", service + slo, *job], duration, policies, compared=False)
    alone = run(["fifo"])[0]["sessions"][0]
    objective = stats.percentile(alone["latencies_ms"], 0.99)
    found = [] if rows.has(place, ALONE) else rows_of(place, ALONE, alone["latencies_ms"], 0, alone["latencies_ms"], 0.0)
    by_slo = {}
    for setting in left:
        policy, _, times = setting.partition(",slo=")
        by_slo.setdefault(f",slo={float(times) * objective:.6f}ms" if times else "", {})[policy] = setting
    for slo, policies in by_slo.items():
        for done, setting in zip(run(list(policies), slo, ("--be", str(sim.profile(be, device)))), policies.values()):
            service_, job = done["sessions"]
            # requests in progress at the end are no misses where the service alone has as many
            unended = max(0, service_["arrived"] - service_["ended"] - (alone["arrived"] - alone["ended"]))
            found += rows_of(place, setting, service_["latencies_ms"], unended, alone["latencies_ms"], job["steps_per_s"] / steps)
    return found


def run_replay(options):
    rows = Rows(options.out)
    if options.source:
        kept = [row for row in frontier_page.read(options.source) if row["setting"] not in options.settings]
        rows.add([row for row in kept if rows.key(row) not in rows.there])
    with tempfile.TemporaryDirectory(prefix="detshare-frontier.") as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        sim = replay.Simulator(options.build.resolve(), pathlib.Path(folder))
        for device in options.devices.split(","):
            for name in sorted({name for pair in options.pairs for name in pair.split("/")}):
                sim.isolated(name, device)
            lots = [(device, pair, load, round_) for load in options.loads for pair in options.pairs for round_ in range(1, options.rounds + 1)]
            for number, found in enumerate(pool.map(lambda lot: replayed(sim, rows, *lot, options), lots), 1):
                if found:
                    rows.add(found)
                if sys.stderr.isatty():
                    print(f"\r{device}: {number} of {len(lots)}", end="", file=sys.stderr)
    return 0


# --- gpu ------------------------------------------------------------------------------------------------------------------------

def systems_of(settings):
    """The settings as systems of measure.py; the service and the job alone are native."""
    return ["native"] + [setting if setting.startswith("mps") else f"detshare:{setting}" for setting in settings if setting != "native"]


def measured(path, device):
    """The rows of a file of measure.py."""
    kept, found = analyse.Measured([row for row in state.read(path) if row["group"] in ("frontier", "")]), []
    for cell in kept.cells():
        ls, be = cell[1].split("@")[0].split("+")
        alone = [v for row in kept.of(cell, analyse.ALONE, "ls", "ls") for v in analyse.steady_latencies(row)]
        steps = [v for row in kept.of(cell, analyse.ALONE, "be", "be") for v in analyse.steady_bins(row)]
        for system in kept.systems(cell) if alone and steps else ():
            together = kept.of(cell, system, "together")
            for round_ in dict.fromkeys(row["round"] for row in together):
                service, job = ([row for row in together if row["round"] == round_ and row["program"].startswith(kind)] for kind in ("ls", "be"))
                share = statistics.fmean(v for row in job for v in analyse.steady_bins(row)) / statistics.fmean(steps)
                latencies = [v for row in service for v in analyse.steady_latencies(row)]
                place = (device, f"{ls}/{be}", service[0]["load"], round_)
                found += rows_of(place, system.removeprefix("detshare:"), latencies, 0, alone, share, state.objective_ms(kept.rows, cell, service[0]["program"]))
        for round_ in dict.fromkeys(row["round"] for row in kept.of(cell, analyse.ALONE, "ls", "ls")):
            own = [row for row in kept.of(cell, analyse.ALONE, "ls", "ls") if row["round"] == round_]
            latencies = [v for row in own for v in analyse.steady_latencies(row)]
            found += rows_of((device, f"{ls}/{be}", own[0]["load"], round_), ALONE, latencies, 0, alone, 0.0, state.objective_ms(kept.rows, cell, own[0]["program"]))
    return found


def run_gpu(options):
    """Measures, as long as the time lasts, and writes all rows of the state again."""
    cells = [word for pair in options.pairs for load in options.loads for word in ("--cell", f"frontier:{pair}@{load}")]
    words = ["--systems", ";".join(systems_of(options.settings)), "--alone", "native", "--rounds", str(options.rounds), "--requests", str(options.requests),
             "--build", str(options.build), *cells, *options.measure]
    if options.gpus:
        done = subprocess.run([str(HERE / "gpus.sh"), str(options.state), str(options.gpus), *words])
        options.state = options.gpus / options.state.name
    else:
        done = subprocess.run([sys.executable, str(HERE / "measure.py"), "--state", str(options.state), *words])
    if not options.state.exists():
        return done.returncode or 1
    options.out.unlink(missing_ok=True)
    Rows(options.out).add(measured(options.state, options.name))
    return done.returncode


def plots_of(rows, doc):
    return {device: f"{doc.stem}-{device.removeprefix('sim:').lower()}.svg" for device in dict.fromkeys(row["device"] for row in rows)}


def write_page(options):
    rows, simulated = frontier_page.read(options.source), options.command == SIMULATED
    names = plots_of(rows, options.doc)
    document.whole(options.doc, options.command, frontier_page.page(rows, "Frontier of fixed settings" + (" on simulated GPUs" if simulated else ""), SIM if simulated else tuple(filter(None, [options.note])), names))
    for device, name in names.items():
        (options.doc.parent / name).write_text(frontier_page.picture(rows, device, options.command), encoding="utf8")
    if options.keep:
        options.keep.write_bytes(lzma.compress(options.source.read_bytes(), preset=9))
    return 0


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("back_end", choices=("replay", "gpu", "page"))
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--pairs", default=PAIRS)
    parser.add_argument("--loads", default=LOADS)
    parser.add_argument("--settings")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--devices", default=",".join(replay.DEVICES), help="replay: simulated GPUs")
    parser.add_argument("--jobs", type=int, default=2, help="replay: simulations at once")
    parser.add_argument("--state", type=pathlib.Path, help="gpu: the file of measure.py")
    parser.add_argument("--gpus", type=pathlib.Path, help="gpu: use all GPUs of this machine; a folder for the new state and the logs")
    parser.add_argument("--name", default="H200", help="gpu: name of the device in the CSV file")
    parser.add_argument("--from", dest="source", type=pathlib.Path, help="page: a CSV file; replay: rows of other settings come from it")
    parser.add_argument("--doc", type=pathlib.Path, help="page: the document")
    parser.add_argument("--keep", type=pathlib.Path, help="page: a compressed copy of the CSV file, FILE.csv.xz")
    parser.add_argument("--command", default=SIMULATED, help="page: the command that the document names as its writer")
    parser.add_argument("--note", default="", help="page: a paragraph about the measurements, for its begin")
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:at])
    options.measure = sys.argv[at + 1:]
    for name in {"replay": ("out",), "gpu": ("out", "state"), "page": ("source", "doc")}[options.back_end]:
        if not getattr(options, name):
            parser.error(f"{options.back_end} needs --{'from' if name == 'source' else name} FILE")
    gpu = options.back_end == "gpu"
    options.settings = (options.settings or ";".join(OURS + FIXED + (MPS if gpu else ()))).split(";")
    options.rounds = options.rounds or (3 if gpu else 1)
    options.pairs, options.loads = options.pairs.split(","), [int(load) for load in options.loads.split(",")]
    return options


def main():
    options = options_of()
    return {"replay": run_replay, "gpu": run_gpu, "page": write_page}[options.back_end](options)


if __name__ == "__main__":
    sys.exit(main())
