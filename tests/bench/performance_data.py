# SPDX-License-Identifier: Apache-2.0
"""The figures behind docs/performance.md: read from the folders that benches write, and kept in docs/performance.

A *part* is a part of tests/bench/gpu.sh, or `host` for `make bench`. docs/performance has

  figures.csv     a line for each part, run, round, side, figure: value and unit
  machines.csv    a line for each part and run: what it was measured on
  first.csv.xz    the samples of tests/bench/first_times.py
  eager.csv.xz    the samples of tests/bench/eager_models.py

A folder of a bench has PART.csv, machine.csv, first/samples.csv, eager.csv, or bench*.json of `make bench`; each JSON file
is a round. A new run of a part replaces all earlier runs of that part.
"""
import csv
import dataclasses
import io
import json
import lzma
import statistics

import eager_models
import first_times

FIGURES = ("part", "run", "round", "side", "figure", "value", "unit")
MACHINES = ("part", "run", "device", "driver", "processors", "date", "note")
PARTS = ("figures", "clients", "delay", "loop", "nativeloop")
RATES = ("GB/s", "1/s")  # units of which more is better


@dataclasses.dataclass(frozen=True)
class Figure:
    """One figure over all runs and rounds."""
    unit: str
    values: dict  # {side: {(run, round): value}}

    def of(self, side):
        values = self.values.get(side)
        return statistics.median(values.values()) if values else None

    def relative(self, native, shared):
        if not native or not shared:
            return None
        return native / shared if self.unit in RATES else shared / native

    @property
    def ratio(self):
        """DetShare's time over native's; of rates the inverse, so that below 1 DetShare is faster. None without both."""
        return self.relative(self.of("native"), self.of("detshare"))

    @property
    def by_round(self):
        native, shared = (self.values.get(side, {}) for side in ("native", "detshare"))
        return [ratio for at in native if at in shared and (ratio := self.relative(native[at], shared[at])) is not None]


class Data:
    """All figures. rows: dictionaries with FIGURES; machines: dictionaries with MACHINES."""

    def __init__(self):
        self.rows, self.machines, self.first, self.eager = [], [], [], eager_models.Samples([])

    def figures(self, part):
        """{figure: Figure} of a part, in the order in which they were measured."""
        found = {}
        for row in self.rows:
            if row["part"] == part:
                values = found.setdefault(row["figure"], Figure(row["unit"], {})).values
                values.setdefault(row["side"], {})[row["run"], row["round"]] = float(row["value"])
        return found

    def sides(self, part):
        return list(dict.fromkeys(row["side"] for row in self.rows if row["part"] == part))

    def rounds(self, part):
        return len({(row["run"], row["round"]) for row in self.rows if row["part"] == part})

    def first_samples(self):
        samples = first_times.Samples(None, [])
        for row in self.first:
            samples.keep(*(row[name] for name in samples.HEAD))
        return samples

    def of_machines(self, part):
        return [machine for machine in self.machines if machine["part"] == part]

    def drop(self, part):
        self.rows = [row for row in self.rows if row["part"] != part]
        self.machines = [machine for machine in self.machines if machine["part"] != part]

    # --- folders of benches ---------------------------------------------------------------------------------------------

    def gather(self, folders):
        """Takes the figures of the folders. Returns the names of the parts that they have."""
        found = {}  # part -> [folder]
        for folder in folders:
            for part, name in [(part, f"{part}.csv") for part in PARTS] + [("first", "first/samples.csv"), ("eager", "eager.csv")]:
                if (folder / name).exists() and read_csv(folder / name):
                    found.setdefault(part, []).append(folder)
            if list(folder.glob("bench*.json")):
                found.setdefault("host", []).append(folder)
        for part, own in found.items():
            self.drop(part)
            for run, folder in enumerate(own, 1):
                self.host(run, folder) if part == "host" else self.run(part, run, folder)
        if "first" in found:
            self.first = [row for folder in found["first"] for row in read_csv(folder / "first/samples.csv")]
        if "eager" in found:
            self.eager = eager_models.joined([folder / "eager.csv" for folder in found["eager"]])
        return list(found)

    def run(self, part, run, folder):
        if part in PARTS:
            self.rows += [dict(row, part=part, run=str(run)) for row in read_csv(folder / f"{part}.csv")]
        path = folder / "machine.csv"
        named = {row["name"]: row["value"] for row in read_csv(path)} if path.exists() else {}
        self.machines.append({name: named.get(name, "") for name in MACHINES} | {"part": part, "run": str(run)})

    def host(self, run, folder):
        for round_, path in enumerate(sorted(folder.glob("bench*.json")), 1):
            bench = json.loads(path.read_text(encoding="utf8"))
            self.rows += [{"part": "host", "run": str(run), "round": str(round_), "side": "detshare", "figure": figure["name"], "value": f"{figure['value']:g}",
                           "unit": figure["unit"]} for figure in bench["figures"]]
        self.machines.append(dict.fromkeys(MACHINES, "") | {"part": "host", "run": str(run), "device": bench["device"], "processors": str(bench["processors"]),
                                                            "date": bench["date"]})

    def simulated(self):
        """The devices of the benches on a GPU that are none."""
        return sorted({machine["device"] for machine in self.machines if machine["part"] != "host" and machine["device"].startswith("sim:")})


# --- the files in docs/performance ----------------------------------------------------------------------------------------

def read_csv(path):
    with lzma.open(path, "rt", newline="", encoding="utf8") if path.suffix == ".xz" else open(path, newline="", encoding="utf8") as file:
        return list(csv.DictReader(file))


def write_csv(path, head, rows):
    """Writes the rows; without rows, there is no file."""
    path.unlink(missing_ok=True)
    if not rows:
        return
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, head, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: row.get(name, "") for name in head} for row in rows)
    bytes_ = text.getvalue().encode()
    path.write_bytes(lzma.compress(bytes_, preset=9) if path.suffix == ".xz" else bytes_)


def read(folder):
    data = Data()
    for name, path in (("rows", "figures.csv"), ("machines", "machines.csv"), ("first", "first.csv.xz")):
        if (folder / path).exists():
            setattr(data, name, read_csv(folder / path))
    if (folder / "eager.csv.xz").exists():
        data.eager = eager_models.Samples([folder / "eager.csv.xz"])
    return data


def write(folder, data):
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "figures.csv", FIGURES, data.rows)
    write_csv(folder / "machines.csv", MACHINES, data.machines)
    write_csv(folder / "first.csv.xz", first_times.Samples.HEAD, data.first)
    write_csv(folder / "eager.csv.xz", eager_models.HEAD, list(data.eager.rows.values()))
