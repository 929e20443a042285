#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sharing is worth on a GPU, in one table and two plots: from the measurements, into README.md and docs/evaluation.md.

The table and the plots are of the cells of a file of `frontier.py gpu` that have every system which any cell has. The text between the
markers of README.md and docs/evaluation.md is replaced.

usage: worth.py [--state FILE.csv[.xz]] [--root FOLDER]    writes the tables and the plots (`make worth`)
       worth.py --check                                                  fails where a file differs, and names it
"""
import argparse
import math
import pathlib
import statistics
import sys

import document
import frontier_page
import plot

svg = plot.svg
ROOT = pathlib.Path(__file__).resolve().parents[2]
SECTION, COMMAND = "worth", "make worth"
NAMES = {"native": "native, time-sliced", "mps": "MPS", "mps-priority": "MPS with client priority", "detshare:orion": "DetShare, policy `orion`",
         "detshare:sgdrc": "DetShare, policy `sgdrc`", "detshare:detshare": "DetShare, policy `detshare`",
         "detshare:detshare,slo=2": "DetShare, policy `detshare`, objective 2"}


def of_frontier(path):
    """The rows at an objective of twice the p99 alone."""
    rows = []
    for (_, pair, load, objective), settings in frontier_page.figures(frontier_page.read(path)).items():
        for name, one in settings.items() if objective == 2 else ():
            rows.append({"system": name if name == "native" or name.startswith("mps") else f"detshare:{name}", "cell": f"{pair}@{load}", "load": load,
                         "p99_over_alone": one.p99, "be_share": one.share, "in_slo_2": 100 * one.met, "in_slo_n_alone": 100 * settings[frontier_page.ALONE].met})
    return [row for row in rows if row["system"] in NAMES]


def loads_of(rows):
    return sorted({int(row["load"]) for row in rows})


def figures(path):
    """The rows of the compared cells, without intervals."""
    rows = of_frontier(path)
    there = [system for system in NAMES if any(row["system"] == system for row in rows)]
    if not there:
        raise SystemExit(f"worth: {path} has no system of the table ({', '.join(NAMES)})")
    cells = set.intersection(*({row["cell"] for row in rows if row["system"] == system} for system in there))
    return [row for row in rows if row["cell"] in cells], there, len(cells)


def short(value):
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def of(rows, system, key, load=None):
    return [row[key] for row in rows if row["system"] == system and load in (None, row["load"])]


def table(rows, systems):
    lines = []
    for system in systems:
        tails = of(rows, system, "p99_over_alone")
        name = f"**{NAMES[system]}**" if system == "detshare:detshare" else NAMES[system]
        lines.append([name, short(statistics.geometric_mean(tails)), f"{short(min(tails))} to {short(max(tails))}",
                      f"{statistics.fmean(of(rows, system, 'in_slo_2')):.1f}%"]
                     + [f"{statistics.fmean(of(rows, system, 'be_share', load)):.2f}" for load in loads_of(rows)])
    alone = statistics.fmean(of(rows, systems[0], "in_slo_n_alone"))
    lines.insert(0, ["service alone, no job", "1", "", f"{alone:.1f}%", *("" for _ in loads_of(rows))])
    return document.table(["system", "p99 over alone", "least to most", "within 2 times"] + [f"job at {load}%" for load in loads_of(rows)], lines)


def hue(system):
    return plot.HUES.get(system.removeprefix("detshare:"), "teal")


def legend(systems, x):
    lines = []
    for system in systems:
        name = NAMES[system].replace("`", "").replace("DetShare, policy ", "").replace(", time-sliced", "")
        name += " (DetShare)" if system.startswith("detshare:") else ""
        lines += [svg.circle(x + 5, 44, 5, hue(system)), svg.text(x + 13, 48, name, 11)]
        x += 24 + 5.7 * len(name)
    return lines


def tail_plot(rows, systems):
    """A small dot per cell, and a line per system over the means of the three loads."""
    width, height, left, top = 760, 430, 64, 62
    *others, most = loads_of(rows)
    box = plot.Panel(left, top, "", 1000, width - left - 24, height - top - 64)
    lines = [svg.text(left, 26, "Tail of the service against throughput of the job (H200)", 16, extra='font-weight="bold"')] + box.axes()
    lines += legend(systems, left)
    for system in systems:
        means = []
        for row in (row for row in rows if row["system"] == system):
            lines.append(svg.circle(box.right(row["p99_over_alone"]), box.up(row["be_share"]), 2.5, hue(system), 'fill-opacity="0.45"'))
        for load in (*others, most):
            means.append((statistics.geometric_mean(of(rows, system, "p99_over_alone", load)), (math.nan, math.nan), statistics.fmean(of(rows, system, "be_share", load)), load))
        lines += box.line(means, hue(system))
    lines += [svg.text(left + 10, height - 26, "p99 of the service over its p99 alone (logarithmic; left is better)", 12),
              svg.text(left + 10, height - 10, f"large circles: means at {', '.join(map(str, others))} and {most}% load, growing with the load; small: single cells", 11, kind="dim"),
              svg.text(16, top + 150, "throughput of the job over alone", 12, "middle", extra=f'transform="rotate(-90 16 {top + 150})"')]
    return svg.frame(width, height, COMMAND, "p99 of the service over alone, against the job's throughput over alone, by system", lines)


def slo_plot(rows, systems):
    """Bars: requests within twice the p99 of the service alone, by load; a line for the service without a job."""
    width, height, left, top, wide = 760, 330, 64, 62, 200
    high, lines = height - top - 54, []
    lines.append(svg.text(left, 26, "Requests answered within twice the p99 of the service alone (H200)", 16, extra='font-weight="bold"'))
    for share in (0, 25, 50, 75, 100):
        y = top + high * (1 - share / 100)
        lines += [svg.line(left, y, width - 24, y, "grid"), svg.text(left - 6, y + 4, f"{share}%", 10, "end", "dim")]
    loads = loads_of(rows)
    step = (width - 24 - left) / len(loads)
    wide = min(wide, step - 20)
    for i, load in enumerate(loads):
        x0 = left + i * step + (step - wide) / 2
        bar = wide / len(systems)
        for k, system in enumerate(systems):
            value = statistics.fmean(of(rows, system, "in_slo_2", load))
            tall = high * value / 100
            lines += [svg.rect(x0 + k * bar + 2, top + high - tall, bar - 4, tall, hue(system)),
                      svg.text(x0 + (k + 0.5) * bar, top + high - tall + (14 if tall > 40 else -4), f"{value:.0f}", 10, "middle", "paper" if tall > 40 else "dim")]
        alone = statistics.fmean(of(rows, systems[0], "in_slo_n_alone", load))
        y = top + high * (1 - alone / 100)
        lines += [svg.line(x0 - 4, y, x0 + wide + 4, y, "edge", 'stroke-dasharray="5 3" stroke-width="1.5"'),
                  svg.text(x0 + wide / 2, top + high + 16, f"service at {load}% of its capacity", 12, "middle")]
    lines += legend(systems, left)
    lines.append(svg.text(left, height - 12, "dashed: the service without a job", 11, kind="dim"))
    return svg.frame(width, height, COMMAND, "requests within twice the p99 of the service alone, by load and system", lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=pathlib.Path, default=ROOT / "docs/evaluation/frontier.csv.xz")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the folder that has README.md and docs/")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    rows, systems, _ = figures(options.state)
    lines = table(rows, systems)
    pictures = {"docs/pictures/worth.svg": tail_plot(rows, systems), "docs/pictures/slo.svg": slo_plot(rows, systems)}
    stale = []
    for name in ("README.md", "docs/evaluation.md"):
        if options.check and document.section(options.root / name, SECTION, COMMAND) != "\n".join(lines):
            stale.append(name)
        elif not options.check:
            document.write(options.root / name, SECTION, lines, COMMAND)
    for name, picture in pictures.items():
        path = options.root / name
        if options.check and (not path.exists() or path.read_text(encoding="utf8") != picture):
            stale.append(name)
        elif not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(picture, encoding="utf8")
    for name in stale:
        print(f"{name}: differs from {options.state.name}; `{COMMAND}` writes it again")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
