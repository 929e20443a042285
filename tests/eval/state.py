# SPDX-License-Identifier: Apache-2.0
"""The file that measurements are kept in: CSV, a row per phase, with all latencies; FILE.csv, or packed, FILE.csv.xz.

Every row is on disk before the next phase begins. A packed file cannot be added to cheaply: while a run goes on its rows, those that were there before and
the new ones, are in FILE.csv beside it; close() packs them and takes that file away. After a run that was killed FILE.csv is still there, and the next
one begins with both: what either has counts once. Two runs must not share a file.
"""
import csv
import io
import lzma
import os
import pathlib
import time

COLUMNS = ("round", "group", "cell", "system", "phase", "load", "program", "rate", "seconds", "items", "skip_s", "latencies_ms", "at_s", "error", "when")


def read(path):
    """The rows of one file; a row that was cut off is none."""
    csv.field_size_limit(1 << 26)
    packed = pathlib.Path(path).suffix == ".xz"
    with lzma.open(path, "rt", newline="", encoding="utf8") if packed else open(path, newline="", encoding="utf8") as file:
        return [row for row in csv.DictReader(file) if row.get("when")]


def union(paths):
    """The rows of several files; one that is in more than one of them counts once."""
    rows = (row for path in paths for row in read(path))
    return list({tuple(row.get(key, "") for key in COLUMNS): row for row in rows}.values())


def write(path, rows):
    """A file in place of the one that was there, whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    data = text.getvalue().encode()
    new = path.with_name(path.name + ".new")
    new.write_bytes(lzma.compress(data, preset=9) if path.suffix == ".xz" else data)
    os.replace(new, path)


class State:
    """What has been measured, and where the next row goes."""

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
        """Packs what came to a packed file; what nothing came to stays as it is."""
        if self.growing != self.path and self.growing.exists():
            write(self.path, self.rows)
            self.growing.unlink()

    def done(self, round_, cell, system):
        """Its last phase is there, or why there will be none."""
        return any(row["cell"] == cell.name and row["group"] == cell.group and row["system"] == system and row["round"] == str(round_)
                   and (row["phase"] == "end" or row["error"]) for row in self.rows)

    def rate(self, round_, cell, program):
        """At which a cell's service was asked in this round by the systems that have been there; None before the first."""
        return next((float(row["rate"]) for row in self.rows if (row["group"], row["cell"], row["round"], row["program"]) ==
                     (cell.group, cell.name, str(round_), program) and row["phase"] in ("ls1", "together")), None)

    def seconds(self, cells, rounds):
        """What phases of these cells have lasted in the first rounds."""
        names = {(cell.group, cell.name) for cell in cells}
        return {row["seconds"] for row in self.rows if row["seconds"] and (row["group"], row["cell"]) in names and int(row["round"]) <= rounds}

    def capacity(self, program):
        return next((float(row["rate"]) for row in self.rows if row["phase"] == "capacity" and row["program"] == program and not row["error"]), None)
