# SPDX-License-Identifier: Apache-2.0
"""The file of a measurement: CSV, a row per phase, with all latencies; FILE.csv, or compressed FILE.csv.xz.

Every row is on disk before the next phase begins. Rows cannot be appended cheaply to a compressed file. So during a
run all its rows, old and new, are in FILE.csv beside it; close() compresses them and removes that file. After a
killed run FILE.csv remains, and the next run reads both files: a row in either counts once. Two runs must not share
a file.
"""
import csv
import io
import lzma
import os
import pathlib
import time

import stats

COLUMNS = ("round", "group", "cell", "system", "phase", "load", "program", "rate", "seconds", "items", "skip_s", "latencies_ms", "at_s", "error", "when")


def read(path):
    """The rows of one file, without a row that was cut off."""
    csv.field_size_limit(1 << 26)
    packed = pathlib.Path(path).suffix == ".xz"
    with lzma.open(path, "rt", newline="", encoding="utf8") if packed else open(path, newline="", encoding="utf8") as file:
        return [row for row in csv.DictReader(file) if row.get("when")]


def union(paths):
    """The rows of several files; a row in more than one of them counts once."""
    rows = (row for path in paths for row in read(path))
    return list({tuple(row.get(key, "") for key in COLUMNS): row for row in rows}.values())


def write(path, rows):
    """Replaces a file atomically."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    data = text.getvalue().encode()
    new = path.with_name(path.name + ".new")
    new.write_bytes(lzma.compress(data, preset=9) if path.suffix == ".xz" else data)
    os.replace(new, path)


def objective_ms(rows, cell, program):
    """The p99 of a service in its first native phase alone in a cell (group, name), ms, of which objectives are multiples; 0 without
    such a phase. The part of the phase that does not count is left out."""
    for row in rows:
        if (row["group"], row["cell"], row["system"], row["phase"], row["program"]) == (*cell, "native", "ls1", program) and row["latencies_ms"]:
            pairs = zip(row["latencies_ms"].split(";"), row["at_s"].split(";"))
            return stats.percentile([float(latency) for latency, at in pairs if float(at) >= float(row["skip_s"])], 0.99)
    return 0


class State:
    """The rows so far, and the place for the next one."""

    def __init__(self, path):
        self.path = path
        self.growing = path.with_suffix("") if path.suffix == ".xz" else path
        self.rows = union(file for file in dict.fromkeys((path, self.growing)) if file.exists())
        if self.growing == path or self.growing.exists():
            write(self.growing, self.rows)

    def add(self, **row):
        if not self.growing.exists():
            write(self.growing, self.rows)
        row = {key: row.get(key, "") for key in COLUMNS} | {"when": f"{time.time():.0f}"}
        self.rows.append({key: str(value) for key, value in row.items()})
        with open(self.growing, "a", newline="", encoding="utf8") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(row)
            file.flush()
            os.fsync(file.fileno())

    def close(self):
        """Compresses the new rows of a compressed file; a file without new rows stays as it is."""
        if self.growing != self.path and self.growing.exists():
            write(self.path, self.rows)
            self.growing.unlink()

    def done(self, round_, cell, system):
        """Whether the file has a row of the last phase, or a row that says why the phase could not be measured."""
        return any(row["cell"] == cell.name and row["group"] == cell.group and row["system"] == system and row["round"] == str(round_)
                   and (row["phase"] == "end" or row["error"]) for row in self.rows)

    def rate(self, round_, cell, program):
        """Request rate of a cell's service for the systems of this round so far; None before the first."""
        return next((float(row["rate"]) for row in self.rows if (row["group"], row["cell"], row["round"], row["program"]) ==
                     (cell.group, cell.name, str(round_), program) and row["phase"] in ("ls1", "together")), None)

    def objective_ms(self, cell, program):
        return objective_ms(self.rows, (cell.group, cell.name), program)

    def seconds(self, cells, rounds):
        """Lengths of the phases of these cells in these rounds."""
        names = {(cell.group, cell.name) for cell in cells}
        return {row["seconds"] for row in self.rows if row["seconds"] and (row["group"], row["cell"]) in names and int(row["round"]) in rounds}

    def capacity(self, program):
        return next((float(row["rate"]) for row in self.rows if row["phase"] == "capacity" and row["program"] == program and not row["error"]), None)
