#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every policy over every scenario on simulated GPUs: a CSV file, and a page of tables (docs/evaluation/simulated.md).

For each GPU and program one simulation alone measures what a request or step takes there. From that follow the rates of the
services (load), their SLO (n times the 99th percentile alone, n programs on the GPU, as in the SGDRC paper) and the simulated
time of a cell: until its slowest service had --requests arrivals. Policies know the kernels from the start
(detshare-replay --profiled). The same arguments give the same file.

usage: replay.py --build BUILD [--devices h200,a2000,p40] [--policies A,B] [--requests N] [--jobs N] [--out FILE.csv]
                 [--doc FILE.md] [WORD...]           only cells whose group:name contains a word
       replay.py --from FILE.csv --doc FILE.md       the page again, from a file
       replay.py ... --policies A --update --doc FILE.md   only the rows and columns of A in an existing page
"""
import argparse
import concurrent.futures
import csv
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

import document
import profiles
import scenarios

DEVICES = ("h200", "a2000", "p40")
NOT_COMPARED = {"profile", "calibrate"}  # policies that measure and do not serve
PAPER = ("sgdrc", "sgdrc-static", "orion", "multistream", "tgs")
ALONE = "(no job)"  # the services without a job: the effect of the load itself
CHUNK = 8  # policies per process
COLUMNS = ("device", "group", "cell", "policy", "load", "duration_s", "arrived", "ended", "p50_over_alone", "p99_over_alone", "worst_p99_over_alone",
           "in_slo", "be_share", "sum", "ls_p50_ms", "ls_p99_ms", "fallbacks")
COMMAND = "make replay-policies"


def policies_of(build):
    found = {path.stem for path in (build / "policies").glob("*.so")} - NOT_COMPARED
    order = ["detshare", "sgdrc", "sgdrc-static", "multistream", "static", "fifo"]
    return [name for name in order if name in found | {"fifo"}] + sorted(found - set(order))


class Simulator:
    """Runs detshare-replay, and remembers its results for programs alone."""

    def __init__(self, build, folder):
        self.program, self.folder, self.alone = build / "detshare-replay", folder, {}

    def run(self, device, sessions, duration_s, policies, compared=True):
        words = [str(self.program), "--device", f"sim:{device}", "--json", "--profiled", "--duration", f"{duration_s:.6f}s", "--compare",
                 ",".join(policies)] + ([] if compared else ["--no-alone"])
        done = subprocess.run(words + sessions, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode not in (0, 3):  # 3: fifo replaced a policy, which the result says
            raise RuntimeError(f"{' '.join(words + sessions)}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)["runs"]

    def profile(self, name, device):
        path = self.folder / f"{name}.{device}.profile"
        return path if path.exists() else profiles.write(self.program, self.folder, name, device)

    def isolated(self, name, device):
        """Steps per second and 99th percentile of a step, alone and without a pause."""
        if (name, device) not in self.alone:
            session = ["--ls", f"{self.profile(name, device)}@closed"]
            for duration_s in (0.5, 30):  # all steps take the same time, so a few are enough
                first = self.run(device, session, duration_s, ["fifo"], compared=False)[0]["sessions"][0]
                if first["ended"] >= 5:
                    break
            self.alone[name, device] = {"rate": 1000 / first["p50_ms"], "p99_ms": first["p99_ms"]}
        return self.alone[name, device]


def sessions_of(sim, cell, device):
    """The arguments of detshare-replay for the sessions, and the rates of the services."""
    words, rates, n = [], [], len(cell.ls) + len(cell.be)
    for i, name in enumerate(cell.ls):
        alone = sim.isolated(name, device)
        rate = alone["rate"] * cell.load / 100 / len(cell.ls)
        path, slo = sim.profile(name, device), f"slo={n * alone['p99_ms']:.6f}ms,name={name}"
        if cell.arrivals == "apollo":
            gaps = json.loads(scenarios.APOLLO.read_text(encoding="utf8"))
            words += ["--ls", f"{path}@{scenarios.APOLLO},speed={rate / (len(gaps) / sum(gaps)):.6f},{slo}"]
        else:
            words += ["--ls", f"{path}@poisson:{rate:.6f},{slo}"]
        rates.append(rate)
    for i, name in enumerate(cell.be):
        words += ["--be", f"{sim.profile(name, device)},name=be{i}-{name}"]
    return words, rates


def duration_of(sim, cell, device, rates, requests):
    """Time in which every service has the given number of arrivals and every job a few steps."""
    steps = max((3 / sim.isolated(name, device)["rate"] for name in cell.be), default=0)
    return max([0.2, steps] + [requests / rate for rate in rates])


def chunk_rows(sim, cell, device, requests, policies):
    """The rows of some policies in a cell."""
    words, rates = sessions_of(sim, cell, device)
    duration = duration_of(sim, cell, device, rates, requests)
    if policies == [ALONE]:
        run = sim.run(device, words[:2 * len(cell.ls)], duration, ["fifo"])[0]
        return [row_of(cell, device, duration, dict(run, policy=ALONE))]
    runs = sim.run(device, words, duration, policies)
    return [row_of(cell, device, duration, run) for run in runs]


def row_of(cell, device, duration, run):
    ls, be = run["sessions"][:len(cell.ls)], run["sessions"][len(cell.ls):]
    arrived, ended = sum(s["arrived"] for s in ls), sum(s["ended"] for s in ls)
    in_slo = sum(s["in_slo_percent"] * s["arrived"] for s in ls) / arrived if arrived else math.nan
    be_share = sum(s.get("steps_of_alone", 0) for s in be)
    tails = [s.get("p99_over_alone", math.inf) for s in ls]
    row = {"device": f"sim:{device}", "group": cell.group, "cell": cell.name, "policy": run["policy"], "load": cell.load,
           "duration_s": round(duration, 6), "arrived": arrived, "ended": ended, "in_slo": in_slo, "be_share": be_share,
           "p99_over_alone": statistics.geometric_mean(tails) if ls else math.nan, "worst_p99_over_alone": max(tails, default=math.nan),
           "sum": be_share + (in_slo / 100 * cell.load / 100 if ls else 0), "fallbacks": run["fallbacks"],
           "ls_p50_ms": statistics.fmean(s["p50_ms"] for s in ls) if ls else math.nan,
           "ls_p99_ms": max((s["p99_ms"] for s in ls), default=math.nan)}
    return {key: f"{value:.6g}" if isinstance(value, float) else str(value) for key, value in row.items()}


def simulate(options):
    """All rows, in the order of cells and policies."""
    with tempfile.TemporaryDirectory(prefix="detshare-eval.") as folder:
        sim = Simulator(options.build, pathlib.Path(folder))
        cells = scenarios.cells(options.words, simulated=True)
        for device in options.devices:
            for name in sorted({name for cell in cells for name in cell.ls + cell.be}):
                sim.isolated(name, device)
        lots = [[ALONE]] + [options.policies[i:i + CHUNK] for i in range(0, len(options.policies), CHUNK)]
        chunks = [(cell, device, lot) for device in options.devices for cell in cells for lot in lots if cell.ls or lot != [ALONE]]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            futures = [pool.submit(chunk_rows, sim, cell, device, options.requests, chunk) for cell, device, chunk in chunks]
            rows = []
            for number, future in enumerate(futures, 1):
                rows += future.result()
                if sys.stderr.isatty():
                    print(f"\r{number} of {len(futures)}", end="", file=sys.stderr)
        return rows


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf8") as out:
        writer = csv.DictWriter(out, [c for c in COLUMNS if c in rows[0]], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def merged(paths):
    """The rows of several files; the last one counts for a row in more than one."""
    rows = {}
    for path in paths:
        with open(path, encoding="utf8") as file:
            rows.update(((row["device"], row["group"], row["cell"], row["policy"]), row) for row in csv.DictReader(file))
    return list(rows.values())


# --- the page ----------------------------------------------------------------------------------------------------------------

def figure(value, digits=2):
    return "-" if math.isnan(value) else "never" if math.isinf(value) else f"{value:.{digits}f}" if value < 1000 else f"{value:.0f}"


def mean(rows, key):
    values = [float(row[key]) for row in rows]
    return statistics.fmean(values) if values else math.nan


def tail(rows):
    values = [float(row["p99_over_alone"]) for row in rows]
    return math.inf if any(map(math.isinf, values)) else statistics.geometric_mean(values) if values else math.nan


def summary(rows, device, group):
    """One line per policy: means over the group's cells."""
    lines = []
    for policy in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if (row["device"], row["group"], row["policy"]) == (device, group, policy)]
        if not own:
            continue
        cells = [policy if policy == ALONE else f"`{policy}`"]
        if own[0]["arrived"] != "0":
            cells += [figure(tail(own)), figure(max(float(r["worst_p99_over_alone"]) for r in own)), figure(mean(own, "in_slo"), 1) + "%"]
        cells += [figure(mean(own, "be_share"), 3)]
        if own[0]["arrived"] != "0":
            cells += [figure(mean(own, "sum"), 3)]
        lines.append(cells)
    head = ["policy", "p99 over alone", "worst", "in SLO", "BE of alone", "sum"] if lines and len(lines[0]) > 2 else ["policy", "BE of alone, together"]
    return document.table(head, lines)


def per_cell(rows, device, policies):
    """Table of p99 relative to alone / BE throughput relative to alone, with a column for each policy."""
    by_cell = {}
    for row in rows:
        if row["device"] == device and row["policy"] in policies and row["group"] == "core":
            by_cell.setdefault(row["cell"], {})[row["policy"]] = cell_text(row)
    return document.table(["cell"] + [f"`{p}`" for p in policies], [[f"`{cell}`"] + [of.get(p, "-") for p in policies] for cell, of in by_cell.items()])


def cell_text(row):
    return f"{figure(float(row['p99_over_alone']))} / {figure(float(row['be_share']), 3)}"


def claims(rows, device):
    """Checks claims of the SGDRC paper about its two GPUs (section 9.3) against the simulation of one GPU: (claim,
    figures, holds)."""
    own = {p: [r for r in rows if r["device"] == device and r["group"] == "services" and r["policy"] == p] for p in PAPER}
    slo, be, total = ({p: mean(own[p], key) for p in PAPER} for key in ("in_slo", "be_share", "sum"))
    p99 = {p: tail(own[p]) for p in PAPER}
    light, heavy = ({p: mean([r for r in own[p] if r["load"] == load], "be_share") for p in PAPER} for load in ("25", "50"))
    ratio = {p: gain["sgdrc"] / gain["sgdrc-static"] for p, gain in (("light", light), ("heavy", heavy))}
    listed = lambda values, digits, unit="": ", ".join(f"{p} {figure(values[p], digits)}{unit}" for p in PAPER)
    return [
        ("SGDRC has the highest SLO attainment", listed(slo, 1, "%"), slo["sgdrc"] >= max(slo.values())),
        ("its p99 is comparable to Orion's or lower (5%)", listed(p99, 2), p99["sgdrc"] <= 1.05 * p99["orion"]),
        ("its BE throughput is higher than Orion's (up to 2.36 and 1.79 times)", listed(be, 3), be["sgdrc"] > be["orion"]),
        ("so is its overall throughput (up to 1.47 and 1.32 times)", listed(total, 3), total["sgdrc"] > total["orion"]),
        ("multi-streaming may have more throughput, but a worse tail", f"p99 {figure(p99['multistream'])} against {figure(p99['sgdrc'])}", p99["multistream"] > p99["sgdrc"]),
        ("TGS has the lowest throughput", f"sum {figure(total['tgs'], 3)}", total["tgs"] <= min(total.values())),
        ("TGS has a high p99", f"{figure(p99['tgs'])} against {figure(p99['sgdrc'])}", p99["tgs"] > p99["sgdrc"]),
        ("more BE throughput than the static split, most of all under light load", f"times the static one: light {figure(ratio['light'])}, heavy {figure(ratio['heavy'])}",
         ratio["light"] > ratio["heavy"] > 1),
    ]


def page(rows):
    """The whole page of tables."""
    devices = list(dict.fromkeys(row["device"] for row in rows))
    words = ["All figures of this page are from a simulator (`sim`), none from a GPU. The scenarios are in `tests/eval/scenarios/`. `tests/eval/profiles.py` computes the kernel profiles of the other GPUs from measured profiles of the H200; comments in that file name the assumptions about memory. [simulator.md](../simulator.md) lists the limits of the simulator. "
             "No constant of the simulator was chosen to improve the results of this page.",
             "The column *p99 over alone* is the p99 latency of a service over its p99 alone on the GPU with the same arrivals of requests. The latency of a request includes its time in the service's queue. The column *p99 over alone* has the geometric mean over cells and services, the column *worst* the greatest ratio. The entry *never* means that the service does not keep up with the arrivals.",
             "The column *in SLO* is the share of all arrived requests that ended within their SLO. The SLO of a service is n times its p99 alone without a queue of requests; n is the number of programs on the GPU. "
             "A service works on one request at a time, so even without a job some requests miss their SLO.",
             "The column *BE of alone* is the work that the job does beside the service over its work alone in the same time. The column *sum* is *BE of alone* plus the load of the requests that ended within their SLO."]
    lines = ["# Simulated GPUs: every policy in every scenario"] + [line for paragraph in words for line in ["", *document.paragraph(paragraph)]]
    for path in scenarios.files():
        about = f"The scenario `{path.stem}` has {scenarios.about(path)}."
        for device in devices:
            if any(r["device"] == device and r["group"] == path.stem for r in rows):
                lines += ["", f"## `{path.stem}` on {device}", "", *document.paragraph(about), ""] + summary(rows, device, path.stem)
    for device in devices:
        columns = [p for p in ("detshare", "sgdrc", "orion", "tally", "multistream", "sgdrc-static") if any(r["policy"] == p for r in rows)]
        lines += ["", f"## Cell by cell on {device}", "", *document.paragraph("Cells of the table show the service's p99 over its p99 alone / the job's throughput over its throughput alone."), ""] + per_cell(rows, device, columns)
    for device in devices:
        if device in ("sim:a2000", "sim:p40") and all(any(r["device"] == device and r["policy"] == p and r["group"] == "services" for r in rows) for p in PAPER):
            lines += ["", f"## Claims of the SGDRC paper on {device}", ""] + document.table(
                ["the paper says", "here", ""], [[a, b, "yes" if holds else "**no**"] for a, b, holds in claims(rows, device)])
    return lines


def cells_of(line):
    return [cell.strip() for cell in line[2:-2].split(" | ")]


def updated(old, new):
    """Updates a page: replaces each table cell of the old page that the new page, made with fewer policies, has under
    the same heading, row and column."""
    heading, tables = None, {}
    for line in new:
        heading = line if line.startswith("## ") else heading
        if line.startswith("| "):
            tables.setdefault(heading, []).append(cells_of(line))
    known = {(heading, row[0], name): cell for heading, (head, *rows) in tables.items() for row in rows for name, cell in zip(head[1:], row[1:])}
    lines, heading, head = [], None, None
    for line in old:
        if line.startswith("## "):
            heading, head = line, None
        elif line.startswith("| ") and head:
            row = cells_of(line)
            line = "| " + " | ".join(row[:1] + [known.get((heading, row[0], name), cell) for name, cell in zip(head[1:], row[1:])]) + " |"
        elif line.startswith("| "):
            head = cells_of(line)
        lines.append(line)
    return lines


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--devices", default=",".join(DEVICES))
    parser.add_argument("--policies", default="")
    parser.add_argument("--requests", type=int, default=250)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--from", dest="source", type=pathlib.Path, action="append", help="an earlier CSV file; the last one counts")
    parser.add_argument("--doc", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    options.build, options.devices = options.build.resolve(), options.devices.split(",")
    options.policies = [p for p in options.policies.split(",") if p] or policies_of(options.build)
    return options


def main():
    options = arguments()
    if options.source:
        rows = merged(options.source)
    else:
        rows = simulate(options)
    if options.out:
        write_csv(options.out, rows)
    if options.doc:
        lines = page(rows)
        document.whole(options.doc, COMMAND, updated(document.body(options.doc), lines) if options.update else lines)
    else:
        for row in rows:
            print(f"{row['device']:10} {row['cell']:40} {row['policy']:14} {cell_text(row):>18} {row['in_slo']:>8}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
