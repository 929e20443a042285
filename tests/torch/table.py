#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/compatibility/pytorch.md to standard output as Markdown, from files of compare.py and
pair.py (--out).

If several files contain a case, the last of them counts. usage: table.py FILE.json...
"""
import json
import sys


def number(value, digits):
    return f"{value:.{digits}f}" if value else "-"


def ratio(native, shared, key):
    return number(shared[key] / native[key], 2) if native.get(key) and shared.get(key) else "-"


def result(row):
    if "skip" in row:
        return f"left out: {row['skip']}"
    if "error" in row:
        return f"**fails**: {row['error'][:90]}"
    if row["identical"]:
        return "identical"
    return "native runs differ, too" if row.get("native_varies") else "**differs**"


def cases(rows):
    print("| case | bytes | native, ms | DetShare, ms | ratio | queued, ratio |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        native, shared = row.get("native", {}), row.get("detshare", {})
        print(f"| `{row['case']}` | {result(row)} | {number(native.get('step_ms_median'), 3)} | {number(shared.get('step_ms_median'), 3)} | "
              f"{ratio(native, shared, 'step_ms_median')} | {ratio(native, shared, 'queued_ms')} |")


def starts(rows):
    print("\n| whole process | first time, ratio | later, ratio |")
    print("|---|---|---|")
    for row in rows:
        native, shared = row.get("native", {}), row.get("detshare", {})
        print(f"| `{row['case']}` | {ratio(native, shared, 'first_ms')} | {ratio(native, shared, 'step_ms_median')} |")


def pairs(rows):
    print("\n| run | p99 alone, ms | p50 beside, ms | p99 beside, ms | p99 ratio | BE lives | BE steps/s | bytes |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        if "error" in row:
            print(f"| {row['run']} | **fails**: {row['error'][:90]} | | | | | | |")
            continue
        print(f"| {row['run']} | {row['alone']['p99']:.2f} | {row['beside']['p50']:.2f} | {row['beside']['p99']:.2f} | {row['p99_ratio']:.2f} | "
              f"{row['lives']} | {row['train_steps_per_s']:.1f} | {'identical' if row['identical'] else '**differs**'} |")


def main():
    by_case, by_run = {}, {}
    for path in sys.argv[1:]:
        with open(path, encoding="utf8") as file:
            for row in json.load(file):
                if "run" in row:
                    by_run[row["run"]] = row
                elif "skip" not in row or row["case"] not in by_case:
                    by_case[row["case"]] = row
    if by_case:
        cases(by_case.values())
    if any(name.startswith("start.") for name in by_case):
        starts([row for name, row in by_case.items() if name.startswith("start.")])
    if by_run:
        pairs(by_run.values())
    return 0


if __name__ == "__main__":
    sys.exit(main())
