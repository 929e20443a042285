#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of what measure.py measured: a table of cells (CSV), pages of tables and a plot per group.

The latencies of a service beside the job are compared with those of the same arrivals alone, natively: its user has these today.
Every ratio comes with its 95% interval (stats.py) and the A/A noise: how far repeated measurements of the same thing alone lie
apart in that cell, over all rounds, before and after. A tilde marks a ratio that its interval or the noise cannot tell from 1. The
SLO is n times the 99th percentile of the service alone in a closed loop, without queueing.

usage: analyse.py STATE.csv[.xz]... [--merge STATE.csv.xz] [--out FIGURES.csv] [--tables docs/evaluation] [--device TEXT] [--draws N]
"""
import argparse
import csv
import math
import pathlib
import statistics
import sys

import document
import plot
import scenarios
import state
import stats

SLO = (1.2, 1.5, 2)
COMMAND = "make eval-tables"
SHOWN = ("native", "mps", "mps-priority", "detshare:orion", "detshare:sgdrc", "detshare:detshare")  # first columns of the tables with a column per system
NOISY = 0.1  # A/A difference of a service alone from which on the page mentions it, share
ALONE = "native"  # the system whose phases alone are "alone"
COLUMNS = ("group", "cell", "load", "system", "rounds", "requests", "p50_ms", "p99_ms", "p99_low_ms", "p99_high_ms", "p99_over_alone", "p99_over_alone_low",
           "p99_over_alone_high", "p99_noise", "p99_verdict", "in_slo_1.2", "in_slo_1.5", "in_slo_2", "in_slo_n", "in_slo_n_alone", "be_share", "be_share_low", "be_share_high", "be_noise",
           "be_verdict", "sum", "ls_alone_p10_ms", "ls_alone_p50_ms", "ls_alone_p99_ms", "be_alone_p50_ms", "error")


def numbers(text):
    return [float(value) for value in text.split(";")] if text else []


def steady_latencies(row):
    """Latencies of the requests that arrived after the warm-up."""
    skip = float(row["skip_s"] or 0)
    return [latency for latency, at in zip(numbers(row["latencies_ms"]), numbers(row["at_s"])) if at >= skip]


def steady_bins(row, width_s=0.25):
    """Steps per second in each time slice of the phase after its warm-up. A step counts in a slice with the part of its
    time that lies there."""
    begin, end, last = float(row["skip_s"] or 0), float(row["seconds"]), 0.0
    n = max(1, int((end - begin) / width_s))
    width, counts = (end - begin) / n, [0.0] * n
    for latency in numbers(row["latencies_ms"]):
        now = last + latency / 1000
        for i in range(max(0, int((last - begin) / width)), min(n - 1, int((now - begin) / width) if now > begin else -1) + 1):
            shared = min(now, begin + (i + 1) * width) - max(last, begin + i * width)
            counts[i] += max(0.0, shared) / (now - last) if now > last else 0
        last = now
    return [count / width for count in counts]


def whole(rows):
    """The rows without incomplete sets of phases: an interrupted run leaves some phases of a system, which may have
    been measured again later."""
    def of(row):
        return row["group"], row["cell"], row["system"], row["round"]
    ended = {of(row) for row in rows if row["phase"] == "end"}
    kept = [row for row in rows if not row["cell"] or row["phase"] == "failed" or of(row) in ended]
    last = {(*of(row), row["phase"], row["program"]): row for row in kept}
    return [row for row in kept if not row["cell"] or last[(*of(row), row["phase"], row["program"])] is row]


class Measured:
    """The measured rows, indexed by group, cell, system and phase."""

    def __init__(self, rows):
        self.rows, self.by = whole(rows), {}
        for row in self.rows:
            self.by.setdefault((row["group"], row["cell"], row["system"], row["phase"].rstrip("12")), []).append(row)

    def cells(self):
        """The cells in the order of the scenario files; cells that are in none come last."""
        there = list(dict.fromkeys((row["group"], row["cell"]) for row in self.rows if row["cell"]))
        order = {(cell.group, cell.name): number for number, cell in enumerate(scenarios.cells())}
        return sorted(there, key=lambda cell: order.get(cell, len(order)))

    def systems(self, cell):
        return list(dict.fromkeys(row["system"] for row in self.rows if (row["group"], row["cell"]) == cell))

    def of(self, cell, system, phase, kind=""):
        return [row for row in self.by.get((*cell, system, phase), []) if not row["error"] and row["program"].startswith(kind)]

    def error(self, cell, system):
        return next((row["error"] for row in self.by.get((*cell, system, "failed"), [])), "")

    def isolated_p99(self, program):
        """99th percentile of a service alone in a closed loop; NaN if it was not measured."""
        rows = [row for row in self.rows if row["phase"] == "capacity" and row["program"] == program and not row["error"]]
        return stats.percentile([v for row in rows for v in numbers(row["latencies_ms"])[5:]], 0.99)


def program_of(row):
    return row["program"].split(":", 1)[1]


def p99(values):
    return stats.percentile(values, 0.99)


def in_slo(measured, rows, times):
    """Percentage of the requests of all services with a latency of at most so many times the service's 99th percentile
    alone."""
    met = total = 0
    for row in rows:
        bound, values = times * measured.isolated_p99(program_of(row)), steady_latencies(row)
        if math.isnan(bound):
            return math.nan
        met, total = met + sum(value <= bound for value in values), total + len(values)
    return 100 * met / total if total else math.nan


def services(measured, cell, system, draws):
    """The figures of a cell's services under one system. For several services: the geometric mean of their ratios, and
    their pooled latencies."""
    together = measured.of(cell, system, "together", "ls")
    if not together:
        return {}
    ratios, above, below, noises = [], [], [], []
    for program in dict.fromkeys(row["program"] for row in together):
        beside = [steady_latencies(row) for row in together if row["program"] == program]
        alone = [steady_latencies(row) for row in measured.of(cell, ALONE, "ls", program)]
        flat = [v for series in alone for v in series]
        if not flat:
            continue
        ratios.append(p99([v for series in beside for v in series]) / p99(flat))
        above.append(stats.draws(beside, p99, draws, seed=1))
        below.append(stats.draws(alone, p99, draws, seed=2))
        noises.append(stats.spread([p99(series) for series in alone if series]))
    pooled = [steady_latencies(row) for row in together]
    flat = [v for series in pooled for v in series]
    low, high = stats.interval(stats.draws(pooled, p99, draws, seed=3))
    figures = {"requests": len(flat), "p50_ms": stats.percentile(flat, 0.5), "p99_ms": p99(flat), "p99_low_ms": low, "p99_high_ms": high}
    if ratios:
        drawn = [statistics.geometric_mean([a[i] / b[i] for a, b in zip(above, below)]) for i in range(min(map(len, above + below)))]
        figures["p99_over_alone"] = statistics.geometric_mean(ratios)
        figures["p99_over_alone_low"], figures["p99_over_alone_high"] = stats.interval(drawn)
        figures["p99_noise"] = max((n for n in noises if not math.isnan(n)), default=math.nan)
        figures["p99_verdict"] = stats.against(figures["p99_over_alone"], (figures["p99_over_alone_low"], figures["p99_over_alone_high"]), figures["p99_noise"])
    n = len({row["program"] for row in measured.of(cell, system, "together")})
    for name, times in [(f"in_slo_{t}", t) for t in SLO] + [("in_slo_n", n)]:
        figures[name] = in_slo(measured, together, times)
    figures["in_slo_n_alone"] = in_slo(measured, measured.of(cell, ALONE, "ls", "ls"), n)
    return figures


def jobs(measured, cell, system, draws):
    """The job's throughput relative to its native throughput alone; for several jobs the sum of these ratios."""
    together = measured.of(cell, system, "together", "be")
    alone = {}
    for row in measured.of(cell, ALONE, "be", "be"):
        alone.setdefault(program_of(row), []).append(steady_bins(row))
    if not together or not alone:
        return {}
    shares, above, below, noises = 0.0, [], [], []
    for program in dict.fromkeys(row["program"] for row in together):
        beside = [steady_bins(row) for row in together if row["program"] == program]
        # only the first of two jobs of the same program was measured alone; the second job's capacity stands for its
        # rate alone
        own = alone.get(program.split(":", 1)[1]) or [[float(r["rate"])] for r in measured.rows if r["phase"] == "capacity" and r["program"] == program.split(":", 1)[1]]
        shares += statistics.fmean(v for s in beside for v in s) / statistics.fmean(v for s in own for v in s)
        above.append(stats.draws(beside, statistics.fmean, draws, seed=4))
        below.append(stats.draws(own, statistics.fmean, draws, seed=5))
        noises.append(stats.spread([statistics.fmean(series) for series in own]))
    low, high = stats.interval([sum(a[i] / b[i] for a, b in zip(above, below)) for i in range(draws)])
    noise_ = max((n for n in noises if not math.isnan(n)), default=math.nan)
    return {"be_share": shares, "be_share_low": low, "be_share_high": high, "be_noise": noise_, "be_verdict": stats.against(shares, (low, high), noise_)}


def alone(measured, cell, system):
    """The cost of the system itself: figures of a service and of a job that have the GPU to themselves."""
    requests = [v for row in measured.of(cell, system, "ls", "ls") for v in steady_latencies(row)]
    steps = [v for row in measured.of(cell, system, "be", "be") for v in numbers(row["latencies_ms"])]
    figures = {f"ls_alone_p{100 * part:.0f}_ms": stats.percentile(requests, part) for part in (0.1, 0.5, 0.99)} if requests else {}
    return figures | ({"be_alone_p50_ms": stats.percentile(steps, 0.5)} if steps else {})


def figures_of(measured, draws=stats.DRAWS):
    """A dictionary per cell and system; without draws the intervals are NaN."""
    result = []
    for cell in measured.cells():
        for system in measured.systems(cell):
            own = measured.of(cell, system, "end")
            load = next(float(r["load"]) for r in measured.rows if (r["group"], r["cell"]) == cell)
            row = {"group": cell[0], "cell": cell[1], "load": load, "system": system, "rounds": len(own), "error": "" if own else measured.error(cell, system)}
            row.update(services(measured, cell, system, draws), **jobs(measured, cell, system, draws), **alone(measured, cell, system))
            if "be_share" in row:
                row["sum"] = row["be_share"] + (row["in_slo_n"] / 100 * load / 100 if "in_slo_n" in row else 0)
            if own or row["error"]:
                result.append(row)
    return result


# --- pages, plots ------------------------------------------------------------------------------------------------------------

def short(value, digits=2):
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def with_interval(row, key, digits=2):
    if key not in row:
        return "-"
    mark = "~" if row["p99_verdict" if key == "p99_over_alone" else "be_verdict"] == "noise" else ""
    return f"{mark}{short(row[key], digits)} [{short(row[key + '_low'], digits)}, {short(row[key + '_high'], digits)}]"


def noise(row, key):
    return f"±{100 * row[key]:.1f}%" if not math.isnan(row.get(key, math.nan)) else "-"


def slo_text(row):
    return " / ".join(short(row[f"in_slo_{t}"], 1) for t in (*SLO, "n")) if "in_slo_n" in row else "-"


def cell_tables(rows):
    """A heading and a table for each cell: all systems, with intervals."""
    lines = []
    for cell in dict.fromkeys((row["group"], row["cell"]) for row in rows):
        own = [row for row in rows if (row["group"], row["cell"]) == cell]
        lines += ["", f"### `{cell[1]}`", ""] + document.table(
            ["system", "p50 ms", "p99 ms", "p99 over alone", "A/A", "in SLO (1.2 / 1.5 / 2 / n times), %", "BE of alone", "A/A", "sum"],
            [[f"`{r['system']}`", r["error"], "", "", "", "", "", "", ""] if r["error"] else
             [f"`{r['system']}`", short(r.get("p50_ms")), short(r.get("p99_ms")), with_interval(r, "p99_over_alone"), noise(r, "p99_noise"), slo_text(r),
              with_interval(r, "be_share", 3), noise(r, "be_noise"), short(r.get("sum"), 3)] for r in own])
    return lines


def judged(ours, other, key, factor=1.0, less=False):
    """Whether our figure beats factor times the other system's: yes, no, or ~ if the intervals overlap."""
    if other is None or key not in ours or key not in other:
        return "-"
    low, high = ours[key + "_low"], ours[key + "_high"]
    bound = (factor * other[key + "_low"], factor * other[key + "_high"])
    if less:
        return "yes" if high < bound[0] else "**no**" if low > bound[1] else "~"
    return "yes" if low > bound[1] else "**no**" if high < bound[0] else "~"


def below(row, key, bound):
    if key not in row:
        return "-"
    noise_ = row["p99_noise"] if not math.isnan(row["p99_noise"]) else 0
    low, high = min(row[key + "_low"], row[key] * (1 - noise_)), max(row[key + "_high"], row[key] * (1 + noise_))
    return "yes" if high <= bound else "**no**" if low > bound else "~"


def goals(rows):
    """Compares detshare's cells with the goals, as far as measurements decide them."""
    lines = []
    for row in (r for r in rows if r["system"] == "detshare:detshare" and not r["error"] and "p99_over_alone" in r):
        peer = {r["system"]: r for r in rows if r["cell"] == row["cell"] and r["group"] == row["group"] and not r["error"]}
        lines.append([f"`{row['cell']}`", below(row, "p99_over_alone", 1.05), f"{short(row['in_slo_n'], 1)} / {short(row['in_slo_n_alone'], 1)}",
                      judged(row, peer.get("mps-priority"), "p99_over_alone", less=True), judged(row, peer.get("mps-priority"), "be_share"),
                      judged(row, peer.get("detshare:orion"), "be_share", 1.5)])
    return document.table(["cell", "p99 at most 1.05 of alone", "in SLO (n), %: together / alone", "p99 below MPS with priority", "BE above MPS with priority", "BE 1.5 times `orion`"], lines) if lines else []


def by_cell(rows, group, systems, text):
    """A table with a row per cell and a column per measured system; `text` makes the text of a table cell."""
    there = [system for system in systems if any(row["system"] == system and row["group"] == group for row in rows)]
    own = {(row["cell"], row["system"]): row for row in rows if row["group"] == group and not row["error"]}
    return document.table(["cell"] + [f"`{system}`" for system in there],
                          [[f"`{cell}`"] + [text(own[cell, system]) if (cell, system) in own else "-" for system in there]
                           for cell in dict.fromkeys(row["cell"] for row in rows if row["group"] == group)])


def plain(row, key, digits):
    return with_interval(row, key, digits).split(" [")[0]


def ratios_of(row):
    return f"{plain(row, 'p99_over_alone', 2)} / {plain(row, 'be_share', 3)}"


def systems_of(rows, group):
    """The systems that were measured in every cell of the group, in the order of SHOWN; systems that are not in SHOWN
    come last."""
    own = [row for row in rows if row["group"] == group]
    there = dict.fromkeys(row["system"] for row in own)
    cells = {row["cell"] for row in own}
    common = [name for name in there if {row["cell"] for row in own if row["system"] == name} == cells or name in SHOWN]
    return sorted(common, key=lambda name: SHOWN.index(name) if name in SHOWN else len(SHOWN))


def everything(rows, group):
    """A row per system for the cells that have more systems than the rest of the group."""
    own = [row for row in rows if row["group"] == group and not row["error"]]
    usual = set(systems_of(rows, group))
    cells = [cell for cell in dict.fromkeys(row["cell"] for row in own) if {row["system"] for row in own if row["cell"] == cell} - usual]
    if not cells:
        return []
    at = {(row["cell"], row["system"]): ratios_of(row) for row in own if "p99_over_alone" in row}
    names = list(dict.fromkeys(row["system"] for row in own if row["cell"] in cells))
    return ["", *document.paragraph("Some cells were measured with more systems (the service's p99 over its p99 alone / the job's throughput over its throughput alone):"), ""] + document.table(
        ["system"] + [f"`{cell}`" for cell in cells], [[f"`{name}`"] + [at.get((cell, name), "-") for cell in cells] for name in names])


def summary(rows, group):
    """The small tables of one group."""
    lines = ["", *document.paragraph("Cells of the table show the service's p99 over its p99 alone / the job's throughput over its throughput alone:"), ""] + by_cell(rows, group, systems_of(rows, group), ratios_of) + everything(rows, group)
    own = [row for row in rows if "be_alone_p50_ms" in row]
    if any(row["group"] == group for row in own):
        lines += ["", *document.paragraph("The next table has times of the service and the job alone under each system, in ms: the 10th and 99th percentile of the service's request time, and the median time of a job's step. The 10th percentile of the request time is the time of a request that did not wait for earlier requests."), ""
                  ] + by_cell(own, group, SHOWN, lambda r: f"{short(r.get('ls_alone_p10_ms'), 3)}, {short(r.get('ls_alone_p99_ms'))}; {short(r.get('be_alone_p50_ms'))}")
    return lines


def coverage(rows):
    """A line per group: how many of its cells were measured, and in which of them the service alone was unsteady."""
    lines = []
    for group in dict.fromkeys(row["group"] for row in rows):
        cells, noises = {row["cell"] for row in rows if row["group"] == group}, {}
        for row in rows:
            if row["group"] == group and row.get("p99_noise", 0) >= NOISY:
                noises[row["cell"]] = row["p99_noise"]
        of = sum(cell.group == group for cell in scenarios.cells())
        line = f"* `{group}`: {len(cells)} of {of} cells." if of else f"* `{group}`: {len(cells)} cells."
        if noises:
            line += " The p99 of the service alone was unsteady in " + ", ".join(f"`{cell}` (±{100 * value:.0f}%)" for cell, value in noises.items()) + ". In these cells, a ratio to the p99 alone says something only if it differs from 1 by more than the figure in brackets."
        lines += [("  " if i else "") + part for i, part in enumerate(document.paragraph(line, 98))]
    return lines


def preface(rows, device):
    """How to read the tables: the same text before each table."""
    rounds = max((row["rounds"] for row in rows), default=0)
    words = [f"{device + '. ' if device else ''}{'One round' if rounds == 1 else f'Up to {rounds} rounds'} of measurements per cell. *Alone* is the service natively without other programs, with the same arrivals of requests, in the same run, before and after the phase with service and job together.",
             "Figures in brackets are 95% bootstrap intervals. The column *A/A* has the noise between repeated measurements of the same program alone. The sign `~` marks a ratio whose difference from 1 is within its interval or within the A/A noise: such a ratio supports no claim.",
             "The column *in SLO* has the shares of requests that end within 1.2, 1.5, 2 and n times the p99 of the service alone in a closed loop; n is the number of programs on the GPU. The column *BE of alone* is the throughput of the job over its throughput alone. The column *sum* is *BE of alone* plus the load of the service times the last share of *in SLO*."]
    return [line for paragraph in words for line in ["", *document.paragraph(paragraph)]]


def measured_page(rows, device, plots):
    """The page of goals and of one table per group."""
    lines = ["# Measured on a GPU: tables", *preface(rows, device), "", *document.paragraph("[cells.md](cells.md) has the figures of all cells with intervals, and [method.md](method.md) says how they were measured."), "", *coverage(rows)]
    if any(row["system"] == "detshare:detshare" for row in rows):
        lines += ["", "## The goals", "", *document.paragraph("The table shows which goals the policy `detshare` meets in each cell. The sign `~` means that the interval or the noise of the figure includes the goal's bound, so the measurement does not decide."), ""] + goals(rows)
    for group in dict.fromkeys(row["group"] for row in rows):
        lines += ["", f"## `{group}`"]
        if group in plots:
            lines += ["", f"![tail against throughput]({plots[group]})"]
        lines += summary(rows, group)
    return lines


def cells_page(rows, device):
    """The page with the figures of every cell."""
    lines = ["# Measured on a GPU: every cell", *preface(rows, device)]
    for group in dict.fromkeys(row["group"] for row in rows):
        lines += ["", f"## `{group}`"] + cell_tables([row for row in rows if row["group"] == group])
    return lines


def draw(rows, folder):
    """Draws one SVG file per group that has services; returns the names of the files."""
    names = {}
    for group in dict.fromkeys(row["group"] for row in rows):
        panels, shown = {}, systems_of(rows, group)
        for row in rows:
            if row["group"] == group and row["system"] in shown and "p99_over_alone" in row and "be_share" in row:
                ls, be = row["cell"].split("@")[0].split("+", 1)
                point = (row["p99_over_alone"], (row["p99_over_alone_low"], row["p99_over_alone_high"]), row["be_share"], row["load"])
                panels.setdefault((ls, be), {}).setdefault(row["system"].removeprefix("detshare:"), []).append(point)
        if panels:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{group}.svg").write_text(plot.grid(panels, COMMAND), encoding="utf8")
            names[group] = f"{group}.svg"
    return names


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("state", type=pathlib.Path, nargs="+")
    parser.add_argument("--merge", type=pathlib.Path, help="all rows of the files as one, for measure.py --state")
    parser.add_argument("--out", type=pathlib.Path, help="the figures of all cells, CSV")
    parser.add_argument("--tables", type=pathlib.Path, help="the folder for measured.md, cells.md and a plot per group")
    parser.add_argument("--draws", type=int, default=stats.DRAWS, help="samples drawn for each interval; 0: no intervals")
    parser.add_argument("--device", default="", help="a sentence about the machine")
    options = parser.parse_args()
    measured = state.union(options.state)
    if options.merge:
        state.write(options.merge, measured)
    rows = figures_of(Measured(measured), options.draws)
    if not rows:
        print("analyse: the files have no measured cell", file=sys.stderr)
        return 1
    if options.out:
        with open(options.out, "w", newline="", encoding="utf8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()} for row in rows)
    if options.tables:
        plots = draw(rows, options.tables)
        document.whole(options.tables / "measured.md", COMMAND, measured_page(rows, options.device, plots))
        document.whole(options.tables / "cells.md", COMMAND, cells_page(rows, options.device))
    else:
        print("\n".join(measured_page(rows, options.device, {}) + cells_page(rows, options.device)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
