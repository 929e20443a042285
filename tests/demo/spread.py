#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much the figures of several runs of the demo differ.

usage: spread.py [--limit PERCENT] JSON JSON...

Prints (largest - smallest) / smallest of every figure of every row that all files have, in per cent. Ends with status 1 if one is above the
limit (2), or if the files have no row of two programs in common.
"""
import argparse
import json
import pathlib
import sys

FIGURES = {"ls_p50_us": "p50", "ls_p99_us": "p99", "slo_attainment": "SLO met", "be_per_s": "BE rate", "be_share": "share"}


def spread(values):
    low, high = min(values), max(values)
    return 0.0 if low == high else 100 * (high - low) / low if low > 0 else float("inf")


def main():
    p = argparse.ArgumentParser(description="How much the figures of several runs of the demo differ.")
    p.add_argument("--limit", type=float, default=2, metavar="PERCENT")
    p.add_argument("files", nargs="+", type=pathlib.Path, metavar="JSON")
    args = p.parse_args()
    if len(args.files) < 2:
        p.error("two files at least")
    runs = [{row["run"]: row for row in json.loads(path.read_text())["runs"]} for path in args.files]
    names = [name for name in runs[0] if all(name in run for run in runs)]
    worst = 0.0
    print(f"{'spread in %':22}" + "".join(f"{title:>9}" for title in FIGURES.values()))
    for name in names:
        row = [spread([run[name][key] for run in runs]) if key in runs[0][name] else None for key in FIGURES]
        worst = max([worst] + [value for value in row if value is not None])
        print(f"{name:22}" + "".join(f"{'-' if value is None else f'{value:.2f}':>9}" for value in row))
    print(f"largest: {worst:.2f} %, limit {args.limit:g} %, {len(args.files)} runs")
    if not any(name.startswith("together") for name in names):
        sys.exit("spread: the files have no row of two programs in common")
    return worst > args.limit


if __name__ == "__main__":
    sys.exit(main())
