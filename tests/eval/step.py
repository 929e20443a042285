#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the time of a job's step goes: natively, under DetShare alone, and beside a service that is connected and idle.

The job is a captured PyTorch model (workload.py). A step is the launch of its graph, the graph on the GPU, the copy of its
output to pageable host memory, and the rest: the launch's way to the GPU, and the way of the end back to the program.
Native rows come first and last, because a GPU's clocks change during a run.

usage: step.py --build BUILD [--seconds S] [--policies LIST] [--job NAME] [--service NAME]
       LIST: policies for the rows beside the service, separated by semicolons (detshare); S: seconds per row (2)
"""
import argparse
import pathlib
import sys
import tempfile
import time

from measure import START_S, Detshare, Failed, Native, Program, words_of

QUIET_S = 1.5  # a service without requests for a second counts as idle


def program(name, class_, world, options, folder):
    child = Program(words_of(name, options), world.environment(class_), folder / f"{name}.err")
    child.answer(START_S)
    return child


def row(text, job, seconds, native):
    """Prints a row; returns the step's time. The first second of steps does not count."""
    job.tell("loop 1")
    job.answer(START_S)
    job.tell(f"parts {seconds}")
    took = job.answer(START_S)
    rest = took["step"] - took["graph"] - took["copy"]
    share = f"{native / took['step']:8.3f}" if native else ""
    print(f"{text:44s}{took['step']:9.3f}{took['graph']:9.3f}{took['copy']:9.3f}{rest:9.3f}{share}", flush=True)
    return took["step"]


def shared(options, folder, native):
    world = Detshare(options, folder)
    try:
        job = program(options.job, "be", world, options, folder)
        row("under DetShare, nobody else", job, options.seconds, native)
        service = program(options.service, "ls", world, options, folder)
        time.sleep(QUIET_S)
        for policy in options.policies.split(";"):
            world.policy(f"detshare:{policy}")
            row(f"beside an idle service, {policy}", job, options.seconds, native)
        service.end()
        job.end()
    finally:
        world.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--policies", default="detshare")
    parser.add_argument("--job", default="bert-b64")
    parser.add_argument("--service", default="bert")
    options = parser.parse_args()
    options.build = options.build.resolve()
    vars(options).update(native_socket=None, profiles=None, daemon_device="cuda:0", torch_device="cuda", c_programs={})
    with tempfile.TemporaryDirectory(prefix="detshare-step-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        print(f"{'ms':44s}{'step':>9s}{'graph':>9s}{'copy':>9s}{'rest':>9s}   share")
        try:
            job = program(options.job, "be", Native(options, folder), options, folder)
            native = row("natively", job, options.seconds, 0)
            shared(options, folder, native)
            row("natively, again", job, options.seconds, native)
            job.end()
        except Failed as error:
            sys.exit(f"step: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
