#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SMs of best effort and latency-sensitive kernels over time, from a recorded trace.

A trace is what `detsharectl trace stop FILE.json` wrote, or an extract of one (.csv), which this command also writes.

usage: ebb.py TRACE [--title TEXT] [--from MS] [--for MS] [--out docs/pictures/ebb.svg]     the picture (`make pictures`)
       ebb.py TRACE.json --extract docs/pictures/ebb.csv --from MS --for MS                 the extract
"""
import argparse
import csv
import json
import pathlib

import svg

HERE = pathlib.Path(__file__).resolve().parent
COMMAND = "make pictures"
COLUMNS = ("device", "class", "what", "name", "start_us", "duration_us", "sms", "of_sms")
WIDTH, LEFT, TOP, HIGH = 860, 96, 84, 190


def from_json(path):
    """Rows of a whole trace: kernels and requests, by class of their client."""
    trace = json.loads(path.read_text(encoding="utf8"))
    device, of = trace["otherData"]["device"] + (" (sim)" if trace["otherData"]["simulated"] else ""), trace["otherData"]["sms"]
    classes, begun, rows = {}, {}, []
    for event in trace["traceEvents"]:
        name = event.get("args", {}).get("name", "")
        if event["name"] == "process_name" and name.startswith("client "):
            classes[event["pid"]] = name.rsplit(", ", 1)[1]
    for event in trace["traceEvents"]:
        class_, kind = classes.get(event["pid"], ""), event.get("cat")
        if kind == "kernel" and class_:
            rows.append((device, class_, "kernel", event["name"], event["ts"], event["dur"], min(event["args"]["sms"], max(1, event["args"]["blocks"])), of))
        elif kind == "request" and event["ph"] == "b":
            begun[event["pid"], event.get("id")] = event["ts"]
        elif kind == "request" and event["ph"] == "e" and (event["pid"], event.get("id")) in begun:
            start = begun.pop((event["pid"], event.get("id")))
            rows.append((device, class_, "request", "", start, event["ts"] - start, 0, of))
    return [dict(zip(COLUMNS, row)) for row in rows]


def read(path):
    if path.suffix == ".json":
        return from_json(path)
    with open(path, encoding="utf8") as file:
        lines = [line for line in file if not line.startswith("#")]
    return [row | {key: float(row[key]) for key in ("start_us", "duration_us", "sms", "of_sms")} for row in csv.DictReader(lines)]


def length_of(path, rows):
    """Microseconds that a file covers: an extract states them."""
    stated = [line for line in path.read_text(encoding="utf8").split("\n", 2)[:2] if line.startswith("# length_us=")]
    return float(stated[0].split("=")[1]) if stated else max(row["start_us"] + row["duration_us"] for row in rows)


def window(rows, begin_us, length_us):
    """The rows that overlap the window, with times from its beginning."""
    kept = [row for row in rows if row["start_us"] + row["duration_us"] > begin_us and row["start_us"] < begin_us + length_us]
    return [row | {"start_us": row["start_us"] - begin_us} for row in kept]


def extract(path, rows, length_us, source):
    with open(path, "w", newline="", encoding="utf8") as file:
        file.write(f"# extract of a trace of {rows[0]['device']}: {source}\n")
        file.write(f"# length_us={length_us:g}\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else value for key, value in row.items()} for row in rows)


def picture(rows, title, length_us):
    of, device = rows[0]["of_sms"], rows[0]["device"]
    wide = WIDTH - LEFT - 20
    right = lambda us: LEFT + wide * min(max(us, 0), length_us) / length_us
    lines = [svg.text(16, 26, title, 15, extra='font-weight="bold"'), svg.rect(LEFT, 40, 12, 10, "orange", 'fill-opacity="0.55"'),
             svg.text(LEFT + 18, 50, "kernel of the job (BE), from the top", 11, kind="dim"), svg.rect(LEFT + 250, 40, 12, 10, "blue", 'fill-opacity="0.8"'),
             svg.text(LEFT + 268, 50, "kernel of the service (LS), from the bottom; height: SMs that it may use", 11, kind="dim"),
             svg.text(LEFT - 8, TOP - 7, "requests", 11, "end", "dim"), svg.text(LEFT - 8, TOP + 10, f"{of:.0f} SMs", 11, "end", "dim"),
             svg.text(LEFT - 8, TOP + HIGH, "0", 11, "end", "dim"), svg.rect(LEFT, TOP, wide, HIGH, "grid", 'fill="none"')]
    for row in sorted(rows, key=lambda row: (row["class"] != "be", row["start_us"])):
        x, x2, tall = right(row["start_us"]), right(row["start_us"] + row["duration_us"]), HIGH * row["sms"] / of
        if row["what"] == "request" and row["class"] == "ls":
            lines.append(svg.rect(x, TOP - 15, max(1, x2 - x), 9, "blue"))
        elif row["what"] == "kernel":
            be = row["class"] == "be"
            lines.append(svg.rect(x, TOP if be else TOP + HIGH - tall, max(0.7, x2 - x), tall, "orange" if be else "blue", f'fill-opacity="{0.55 if be else 0.8}"'))
    step = next(step for step in (50, 100, 200, 500, 1000, 2000, 5000, 10000) if length_us / step <= 12)
    for us in range(0, int(length_us) + 1, step):
        lines.append(svg.text(right(us), TOP + HIGH + 15, f"{us / 1000:g} ms", 10, "middle", "dim"))
    lines.append(svg.text(LEFT, TOP + HIGH + 34, f"from a trace of {device}, policy detshare", 11, kind="dim"))
    return svg.frame(WIDTH, TOP + HIGH + 44, COMMAND, title, lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("--title", default="Best effort gives up SMs while a request runs")
    parser.add_argument("--from", dest="begin", type=float, default=0, help="first millisecond shown")
    parser.add_argument("--for", dest="length", type=float, help="milliseconds shown (default: all)")
    parser.add_argument("--extract", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "ebb.svg")
    options = parser.parse_args()
    rows = read(options.trace)
    length = 1000 * options.length if options.length else length_of(options.trace, rows)
    rows = window(rows, 1000 * options.begin, length)
    if options.extract:
        extract(options.extract, rows, length, f"{options.length:g} ms of examples/service and examples/job")
    else:
        options.out.write_text(picture(rows, options.title, length), encoding="utf8")


if __name__ == "__main__":
    main()
