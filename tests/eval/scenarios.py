# SPDX-License-Identifier: Apache-2.0
"""Scenarios of the evaluation: services that share a GPU with jobs, and their load.

A file of scenarios/ is one group: lists of services (ls), of jobs (be) and of loads. Every combination is one cell.
A load is in percent of the services' capacity, each alone on the GPU; several share it evenly. The simulator and
the GPU run the same cells: replay.py and workload.py define the names.
"""
import dataclasses
import itertools
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "data"
MEASURED_ONLY = ("eager", "evict")
APOLLO = DATA / "apollo_inter_arrival_s.json"


@dataclasses.dataclass(frozen=True)
class Cell:
    group: str
    ls: tuple
    be: tuple
    load: int  # load of all services together, percent of their capacity
    arrivals: str  # poisson, apollo, closed (no services)

    @property
    def name(self):
        """Name in tables and CSV files: resnet34+resnet152-train@50."""
        services = "services" if len(self.ls) > 2 else "+".join(self.ls)
        text = "+".join(part for part in (services, "+".join(self.be)) if part)
        return text + (f"@{self.load}" if self.ls else "")


def read(path):
    """The cells of one file, in its order."""
    path = pathlib.Path(path)
    group = json.loads(path.read_text(encoding="utf8"))
    return [Cell(path.stem, tuple(ls), tuple(be), load, group["arrivals"])
            for ls, be, load in itertools.product(group["ls"], group["be"], group["load"])]


def about(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf8"))["about"]


def files():
    return sorted((HERE / "scenarios").glob("*.json"), key=lambda path: ("core services training eager evict".find(path.stem), path.stem))


def cells(words=(), simulated=False):
    """The cells of all files whose group or name contains one of the words; all without words. Simulated: without the
    groups whose effects are not simulated here.
    """
    return [cell for path in files() for cell in read(path)
            if (not words or any(word in f"{cell.group}:{cell.name}" for word in words)) and not (simulated and cell.group in MEASURED_ONLY)]
