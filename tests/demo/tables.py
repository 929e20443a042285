#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo's tables, from its JSON: in a terminal, and in a document between marker lines.

usage: tables.py --write FILE.md... | --check FILE.md...     the tables of docs/data/demo*.json
       tables.py JSON...                                     print them

A document has `<!-- begin NAME: ... -->` and `<!-- end NAME -->` around the table of docs/data/NAME.json. --check ends with status 1 if a
document has other tables, or no table.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "data"
TABLE = re.compile(r"(<!-- begin (demo[a-z-]*):[^\n]*-->\n).*?(<!-- end \2 -->)", re.S)
BAR = "  +-----------------------+-----------+-----------+---------+------------+----------+-----------+"


def cells(row):
    ls = f"{row['ls_p50_us']:9.1f} | {row['ls_p99_us']:9.1f} | {100 * row['slo_attainment']:6.1f}%" if "ls_p50_us" in row else \
        f"{'-':>9} | {'-':>9} | {'-':>7}"
    be = f"{row['be_per_s']:10.0f} | {100 * row['be_share']:7.1f}%" if "be_per_s" in row else f"{'-':>10} | {'-':>8}"
    return f"  | {row['run']:21} | {ls} | {be} | {'yes' if row['bit_identical'] else 'NO':>9} |"


def render(result):
    said = " (simulated: times are the model's, not a GPU's)" if result["times"] == "sim" else ""
    same = all(row["bit_identical"] for row in result["runs"])
    return [
        f"  device {result['device']}{said}",
        f"  LS: {result['ls']}, {result['requests']} requests, Apollo arrivals / {result['time_divisor']:g}; "
        f"SLO {result['slo_us']:.0f} us, {result['slo_factor']} x p99 alone",
        f"  BE: {', '.join(result['be'])}",
        BAR,
        f"  | run                   | LS p50 us | LS p99 us | SLO met | {'BE ' + result['be_unit']:>10} | of alone | same bits |",
        BAR,
        *[cells(row) for row in result["runs"]],
        BAR,
        f"  outputs bit-identical to running alone: {'yes' if same else 'NO'}",
    ]


def in_document(lines):
    """Without the outer rulers, which a document has no room for."""
    bars = [n for n, line in enumerate(lines) if line == BAR]
    return [line for n, line in enumerate(lines) if n not in (bars[0], bars[-1])]


def with_tables(path):
    def table(match):
        body = "\n".join(in_document(render(json.loads((DATA / f"{match[2]}.json").read_text()))))
        return f"{match[1]}```\n{body}\n```\n{match[3]}"
    text, n = TABLE.subn(table, path.read_text())
    if not n:
        sys.exit(f"tables: {path} has no pair of the markers `begin NAME:` and `end NAME` with the name of a file docs/data/demo*.json")
    return text


def main():
    if len(sys.argv) > 2 and sys.argv[1] in ("--write", "--check"):
        for path in map(pathlib.Path, sys.argv[2:]):
            new = with_tables(path)
            if sys.argv[1] == "--write":
                path.write_text(new)
            elif new != path.read_text():
                sys.exit(f"tables: {path} has other tables than docs/data/demo*.json; `make demo-tables` writes them")
    elif len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        for name in sys.argv[1:]:
            print("\n".join(render(json.loads(pathlib.Path(name).read_text()))))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
