#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A language model's service beside a job: time to first token, time per output token, and the job's share of its speed alone.

The service is language.py, the job a captured model (workload.py). The same prompts arrive in every row. Rows: natively,
alone and with both; under DetShare alone, under each of the policies, and under `detshare` with a factor of the TPOT alone
as the objective. Before the rows of an objective the service runs alone for a phase, so that the daemon learns what it has then.

usage: tpot.py --build BUILD [--seconds S] [--rate R] [--job NAME] [--policies LIST] [--factors LIST]
       LIST: policies separated by semicolons; factors in thousandths, separated by commas
"""
import argparse
import pathlib
import statistics
import sys
import tempfile

import stats
from measure import ANSWER_S, HERE, START_S, Detshare, Failed, Native, Program, words_of

POLICIES = "detshare;multistream;static,ls_percent=25;static,ls_percent=50;orion;tpot-first"
TPOT = 2  # kind of objective, detshare.h
WARM_SHARE = 0.1  # part of the job's steps, from the beginning, that does not count


class Pair:
    """The service and the job in one world."""

    def __init__(self, world, options, folder, name):
        self.options, words = options, [sys.executable, str(HERE / "language.py"), "--device", options.torch_device]
        self.service = Program(words, world.environment("ls"), folder / f"{name}-language.err")
        self.job = Program(words_of(options.job, options), world.environment("be"), folder / f"{name}-{options.job}.err")
        for program in (self.service, self.job):
            program.answer(START_S)

    def steps(self):
        """Steps of the job per second, without the service."""
        self.job.tell(f"loop {self.options.seconds}")
        return rate(self.job.answer(START_S))

    def phase(self, beside):
        """Answer of the service, and steps of the job per second."""
        self.service.tell(f"serve {self.options.rate} {self.options.seconds} 1")
        if beside:
            self.job.tell(f"loop {self.options.seconds}")
        took = self.service.answer(self.options.seconds + ANSWER_S)
        return took, rate(self.job.answer(START_S)) if beside else 0.0

    def objective(self, permille):
        self.service.tell(f"objective {TPOT} {permille}")
        self.service.answer(ANSWER_S)

    def end(self):
        self.service.end()
        self.job.end()


def rate(loop):
    times = loop["latencies_ms"][int(len(loop["latencies_ms"]) * WARM_SHARE):]
    if not times:
        raise Failed("the job made no step in a phase: use a longer --seconds")
    return 1000 / statistics.fmean(times)


class Table:
    """Prints rows; ratios are to the first row, which is the service alone, natively."""

    def __init__(self, alone_steps):
        self.steps, self.first = alone_steps, None
        print(f"{'ms':44s}{'TTFT p50':>10s}{'p99':>9s}{'TPOT p50':>10s}{'p99':>9s}{'/ alone':>9s}{'job':>8s}")

    def row(self, text, took, steps):
        figures = [stats.percentile(sorted(took[name]), part) for name in ("ttft_ms", "tpot_ms") for part in (0.5, 0.99)]
        self.first = self.first or figures[2]
        print(f"{text:44s}{figures[0]:10.1f}{figures[1]:9.1f}{figures[2]:10.2f}{figures[3]:9.2f}{figures[2] / self.first:9.3f}{steps / self.steps:8.3f}", flush=True)


def natively(options, folder):
    pair = Pair(Native(options, folder), options, folder, "native")
    try:
        table = Table(pair.steps())
        table.row("natively, alone", *pair.phase(False))
        table.row("natively, both", *pair.phase(True))
    finally:
        pair.end()
    return table


def shared(options, folder, table):
    world = Detshare(options, folder)
    try:
        pair = Pair(world, options, folder, "shared")
        table.row("alone", *pair.phase(False))
        for policy in options.policies.split(";"):
            world.policy(f"detshare:{policy}")
            table.row(policy, *pair.phase(True))
        world.policy("detshare:detshare")
        for permille in options.factors.split(","):
            pair.objective(int(permille))
            pair.phase(False)
            for number in (1, 2):
                table.row(f"detshare, TPOT {int(permille) / 1000:g} of alone ({number})", *pair.phase(True))
        pair.end()
    finally:
        world.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=10, help="prompts per second")
    parser.add_argument("--job", default="bert-b64")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--factors", default="1100,1150,1300")
    parser.add_argument("--torch-device", default="cuda")
    parser.add_argument("--daemon-device", default="cuda:0")
    options = parser.parse_args()
    options.build = options.build.resolve()
    vars(options).update(native_socket=None, profiles=None, c_programs={})
    with tempfile.TemporaryDirectory(prefix="detshare-tpot-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        try:
            shared(options, folder, natively(options, folder))
        except Failed as error:
            sys.exit(f"tpot: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
