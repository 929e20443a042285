#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two parts: programs that know nothing of each other share one device under several policies.

  kernels   a service of CUDA kernels (LS) beside a batch job (BE)
  packs     one model pack is served (LS), others compute as much as they can (BE)

Each row of a table is one run with a daemon of its own. All programs of a run are loaded and warm before they begin their measured work at
one time of the device clock, a fixed one on a simulated device; the best-effort programs end at a fixed time, too. So on a simulated device
all figures repeat. The service alone gives the objective that it has beside others (DETSHARE_SLO_MS). Every output is compared, bit by bit,
with what its program computes alone. Without a GPU the device is sim:a2000: a larger one needs more work to be full, which this machine's
processors execute. A GPU is faster than its simulation: there requests are more and come slower, and the job's kernels are larger.

Ends with status 1 if an output is wrong or differs, or a program fails. Leaves no process and no file, however it ends.
"""
import argparse
import asyncio
import json
import os
import pathlib
import signal
import sys
import time

import tables
from place import Daemon, Failed, Place

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = ROOT / "tests" / "data" / "apollo_inter_arrival_s.json"
PACKS = ROOT / "tests" / "offline" / "packs"
SLO_FACTOR = 2
START_NS = 1_000_000_000  # of a simulated device's clock; preparing takes less
STAGGER_NS = 1000         # between the begins of two programs: none is the first by chance
AHEAD_NS = 500_000_000    # on a GPU: from the last program's order to the begin
SIMULATED = "sim:a2000"


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


class Part:
    """requests, divisor: of the trace's gaps."""

    def __init__(self, place, args, simulated):
        self.place, self.build = place, place.build
        load = self.SIMULATED if simulated else self.REAL
        self.requests, self.divisor = args.requests or load["requests"], args.divisor or load["divisor"]
        self.load = load
        gaps = json.loads(TRACE.read_text())[:self.requests]
        if len(gaps) < self.requests:
            raise Failed(f"--requests {self.requests}: {TRACE.name} has {len(gaps)} arrivals")
        self.window_ns = int(sum(gaps) * 1e9 / self.divisor)
        self.gaps = place.folder / f"{self.NAME}.trace"
        self.gaps.write_text(json.dumps([gap / self.divisor for gap in gaps]))


class Kernels(Part):
    NAME, TITLE, UNIT, POLICIES = "kernels", "a service of kernels beside a batch job", "iter/s", "multistream,static,sgdrc,detshare"
    SIMULATED = {"requests": 600, "divisor": 160, "image": 16, "steps": 128, "n": 32, "rounds": 1}
    REAL = {"requests": 3000, "divisor": 20, "image": 32, "steps": 4096, "n": 256, "rounds": 4}

    def __init__(self, place, args, simulated):
        super().__init__(place, args, simulated)
        self.kernels = self.build / "demo" / "kernels.ptx"
        self.ls = f"{self.load['image']} x {self.load['image']} images"
        self.be = [f"walks of {self.load['steps']} steps on every SM, {self.load['n']} x {self.load['n']} matrices"]

    def ls_command(self):
        return [self.build / "demo" / "ls_service", "-s", self.kernels, TRACE, self.requests, self.divisor, self.load["image"]]

    def be_commands(self):
        return [[self.build / "demo" / "be_job", "-s", self.kernels, 2**31, self.place.folder / "no-stop",
                 self.load["steps"], self.load["n"], self.load["rounds"]]]

    async def run_ls(self, program, ready, begin):
        program.say(f"at {begin}")
        lines = [line.split() for line in await program.rest()]
        return {"latencies_us": [int(span) / 1000 for _, span, _ in lines], "bits": [bits for *_, bits in lines]}

    async def run_be(self, program, ready, begin):
        program.say(f"at {begin} {begin + self.window_ns}")
        lines = [line.split() for line in await program.rest()]
        return {"per_s": len(lines) * 1e9 / (int(lines[-1][0]) - begin), "bits": [bits for *_, bits in lines]}


class Packs(Part):
    NAME, TITLE, UNIT, POLICIES = "packs", "a model pack is served while others compute", "inf./s", "temporal,static,sgdrc,detshare"
    SIMULATED = {"requests": 600, "divisor": 200, "instances": 2}
    REAL = {"requests": 3000, "divisor": 20, "instances": 1}
    OTHERS = [PACKS / "tiny-resnet", PACKS / "tiny-bert"], [ROOT / "tests" / "demo" / "packs" / name for name in ("batch-resnet", "batch-bert")]

    def __init__(self, place, args, simulated):
        super().__init__(place, args, simulated)
        self.pack = (args.ls or PACKS / "tiny-mobilenet").resolve()
        self.others = [pack.resolve() for pack in args.be or self.OTHERS[not simulated]]
        self.instances = 1 if args.be else self.load["instances"]
        self.ls, self.be = self.pack.name, [f"{pack.name}{f' x {self.instances}' if self.instances > 1 else ''}" for pack in self.others]

    def command(self, pack, kind, *words):
        return [self.build / "detshare-serve", pack, "--orders", "--check", "--digest", "--class", kind, *words]

    def ls_command(self):
        return self.command(self.pack, "ls")

    def be_commands(self):
        return [self.command(pack, "be", "--instances", self.instances) for pack in self.others]

    @staticmethod
    async def finish(program, ready, answer):
        answer = json.loads(answer)
        program.process.stdin.close()
        await program.rest()
        if not ready["same"] or any(case["wrong"] for case in ready["checked"]):
            raise program.failed("an output is wrong or was not the same every time")
        return answer, [case["sha256"] for case in ready["checked"]]

    async def run_ls(self, program, ready, begin):
        program.say(f"at {begin}")
        program.say(f"serve {self.gaps}")
        answer, bits = await self.finish(program, ready, await program.line() or "{}")
        return {"latencies_us": [1000 * ms for ms in answer["latencies_ms"]], "bits": bits}

    async def run_be(self, program, ready, begin):
        program.say(f"at {begin}")
        program.say(f"loop {self.window_ns / 1e9:.9f}")
        answer, bits = await self.finish(program, ready, await program.line() or "{}")
        return {"per_s": answer["items"] * ready["batch"] / answer["seconds"], "bits": bits}


class Runs:
    def __init__(self, part, device, simulated):
        self.part, self.device, self.simulated, self.slo_us, self.rows = part, device, simulated, None, {}
        # two runs use two processors better than one does; a GPU has one at a time
        self.room = asyncio.Semaphore(2 if simulated else 1)

    async def prepare(self, daemon, with_ls, with_be):
        """All programs, loaded and warm, one after the other: so preparing takes the same virtual time every time."""
        commands = [("service", self.part.ls_command(), "ls", self.slo_us)] if with_ls else []
        commands += [(f"job-{i}", command, "be", None) for i, command in enumerate(self.part.be_commands() if with_be else [])]
        programs = []
        for name, command, class_, slo_us in commands:
            program = await daemon.start(name, command, class_, slo_us)
            programs.append((program, class_, await program.answer("ready")))
        await daemon.wait_for_forms(sum(class_ == "be" for _, class_, _ in programs))
        return programs

    async def begin_ns(self, programs):
        now = 0
        for program, *_ in programs:
            program.say("hold")
            now = max(now, (await program.answer("held"))["now_ns"])
        if self.simulated and now >= START_NS:
            raise Failed(f"preparing took until {now} ns of the device clock, and the run begins at {START_NS}")
        return START_NS if self.simulated else time.monotonic_ns() + AHEAD_NS

    async def work(self, daemon, with_ls, with_be):
        programs = await self.prepare(daemon, with_ls, with_be)
        begin = await self.begin_ns(programs)
        results = await asyncio.gather(*[
            (self.part.run_ls if class_ == "ls" else self.part.run_be)(program, ready, begin + i * STAGGER_NS)
            for i, (program, class_, ready) in enumerate(programs)])
        return (results[0] if with_ls else None), results[1 if with_ls else 0:]

    async def run(self, name, policy, with_ls=True, with_be=True):
        async with self.room:
            print(f"  running {name} ...", flush=True)
            async with Daemon(self.part.place, self.device, policy) as daemon:
                self.rows[name] = await daemon.together(self.work(daemon, with_ls, with_be))

    async def run_all(self, policies):
        await gather(self.run("LS alone", "multistream", with_be=False), self.run("BE alone", "multistream", with_ls=False))
        self.slo_us = SLO_FACTOR * percentile(self.rows["LS alone"][0]["latencies_us"], 0.99)
        await gather(*[self.run(f"together, {policy}", policy) for policy in policies])

    def same_bits(self, ls, be):
        ls_alone, be_alone = self.rows["LS alone"][0], self.rows["BE alone"][1]
        pairs = [(ls["bits"], ls_alone["bits"])] if ls else []
        pairs += [(mine["bits"], alone["bits"]) for mine, alone in zip(be, be_alone)]
        # how many iterations the job makes depends on the policy
        return all(len(mine) > 0 and mine[:len(alone)] == alone[:len(mine)] for mine, alone in pairs)

    def judge(self):
        rates = {name: sum(job["per_s"] for job in be) for name, (_, be) in self.rows.items()}
        for name in sorted(self.rows, key=lambda name: name.startswith("together")):
            ls, be = self.rows[name]
            row = {"run": name}
            if ls:
                spans = ls["latencies_us"]
                row.update(ls_p50_us=percentile(spans, 0.5), ls_p99_us=percentile(spans, 0.99),
                           slo_attainment=sum(span <= self.slo_us for span in spans) / len(spans))
            if be:
                row.update(be_per_s=rates[name], be_share=rates[name] / rates["BE alone"])
            row["bit_identical"] = self.same_bits(ls, be)
            yield {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}

    def result(self, order):
        rows = {row["run"]: row for row in self.judge()}
        names = ["LS alone", "BE alone"] + [f"together, {policy}" for policy in order]
        return {"part": self.part.NAME, "device": self.device, "times": "sim" if self.simulated else "real", "requests": self.part.requests,
                "trace": "apollo", "time_divisor": self.part.divisor, "slo_us": round(self.slo_us, 3), "slo_factor": SLO_FACTOR,
                "ls": self.part.ls, "be": self.part.be, "be_unit": self.part.UNIT, "runs": [rows[name] for name in names]}


async def gather(*work):
    """All of them; the first that fails ends the others."""
    async with asyncio.TaskGroup() as group:
        for one in work:
            group.create_task(one)


async def run_part(kind, place, args, device, simulated):
    part = kind(place, args, simulated)
    runs = Runs(part, device, simulated)
    policies = (args.policies or kind.POLICIES).split(",")
    print(f"\n{kind.NAME}: {kind.TITLE}, on {device}", flush=True)
    await runs.run_all(policies)
    result = runs.result(policies)
    print("\n" + "\n".join(tables.render(result)))
    path = args.json or place.build / ("demo.json" if kind is Kernels else "demo-packs.json")
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"  written: {path}", flush=True)
    return all(row["bit_identical"] for row in result["runs"])


async def run_demo(args):
    place = Place(args.build)
    try:
        async with Daemon(place, args.device, "multistream") as daemon:
            device, simulated = args.device, daemon.simulated
            device = device or (SIMULATED if simulated else "cuda:0")
            if not simulated:
                print(f"device {device}: {daemon.model}")
        good = True
        for kind in (Kernels, Packs):
            if kind.NAME in args.parts:
                good &= await run_part(kind, place, args, device, simulated)
        return 0 if good else 1
    finally:
        await place.close()


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("parts", nargs="*", metavar="PART", help="kernels, packs (default: both)")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build", metavar="DIR")
    p.add_argument("--device", metavar="SPEC", help=f"cuda:N or sim:MODEL (default: a GPU if there is one, else {SIMULATED})")
    p.add_argument("--policies", metavar="A,B,...", help=f"default: {Kernels.POLICIES}; of packs {Packs.POLICIES}")
    p.add_argument("--requests", type=int, metavar="N", help="that the service answers")
    p.add_argument("--divisor", type=float, metavar="X", help="of the gaps between the trace's arrivals")
    p.add_argument("--ls", type=pathlib.Path, metavar="PACK", help="the pack that is served")
    p.add_argument("--be", type=pathlib.Path, action="append", metavar="PACK", help="a pack that computes beside it; may be repeated")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", help="of one part; default: demo.json, demo-packs.json in the build folder")
    args = p.parse_args()
    args.parts = args.parts or ["kernels", "packs"]
    if set(args.parts) - {"kernels", "packs"}:
        p.error(f"the parts are kernels and packs, not {' '.join(args.parts)}")
    if args.json and len(args.parts) > 1:
        p.error("--json is for one part")
    args.build = args.build.resolve()
    return args


async def main():
    task, loop, got = asyncio.current_task(), asyncio.get_running_loop(), []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, lambda number=number: (got.append(number), task.cancel()))
    try:
        return await run_demo(parse())
    except asyncio.CancelledError:
        return 128 + got[0] if got else 1


if __name__ == "__main__":
    try:
        status = asyncio.run(main())
    except* (Failed, BrokenPipeError, ConnectionError) as group:
        print(f"demo: {group.exceptions[0]}", file=sys.stderr)
        status = 1
    sys.stdout.flush()
    os._exit(status)
