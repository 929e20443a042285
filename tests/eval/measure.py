#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures services beside jobs on a GPU, under each way of sharing it. It runs for a given time and continues where
it stopped.

A *world* is the way in which programs reach the GPU: natively (the driver time-slices the processes), through MPS (with the job at
the lower client priority, with a percentage of the threads for the job, or both), or through DetShare. All services and jobs start once per
world and stay, because starting them takes long. A program that a cell does not have is idle beside it, also while
DetShare's policy changes (set-policy). For each cell and policy these phases follow each other:

    services alone, job alone, all together, services alone, job alone

So every figure is compared with one measured seconds before and after it, and the difference of two measurements of
the same thing (A/A) is known. Systems that --alone does not name have a short shared phase, which is not kept, and
then the shared phase: alone is native in every comparison. The first part of each phase is left out. The order of
worlds, policies and cells differs from round to round. Arrivals are the same for all systems of a cell and round.

One CSV file has a row per phase, with all latencies (state.py; FILE.csv.xz is kept compressed between runs). A
cell, round and system that has its rows does not run again: pass the file of the last run to continue it
(docs/evaluation/h200.csv.xz is one). A world or program that fails gets a row with its error, and is tried again
only in the next round.

The capacity of a service, of which loads are parts, is measured natively, once, and kept in the file.

A service states an objective (order `slo`) while a system with slo=TIMES runs: TIMES times the p99 of its first native phase alone in
that cell. So native measures a cell first. With --requests N each phase is long enough for N requests.

On a machine with several GPUs each takes a share: --shard K/N (from 0) with a file of its own and
CUDA_VISIBLE_DEVICES=K, and --meet FOLDER, the same new folder for all. Programs that start or end on one GPU
disturb the others, so all do that at the same time (meeting.py). gpus.sh does all this.

usage: measure.py --state FILE.csv[.xz] [--build BUILD] [--limit SECONDS] [--rounds N] [--first-round N] [--seconds S] [--requests N] [--systems LIST] [--shard K/N]
                  [--alone LIST] [--meet FOLDER] [--profiles FILE] [--list] [WORD...]
       systems, separated by semicolons: native, mps[-priority][-PERCENT], detshare:POLICY[,KEY=VALUE...][,slo=TIMES]
       words choose cells by group:name
"""
import argparse
import collections
import hashlib
import itertools
import json
import math
import os
import pathlib
import random
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
import time

import scenarios
from meeting import Meeting
from state import State

HERE = pathlib.Path(__file__).resolve().parent
SYSTEMS = "native;mps;mps-priority;detshare:multistream;detshare:orion;detshare:sgdrc;detshare:detshare"
CAPACITY_S = 3  # closed loop of one program, s
ALONE = "native;detshare:detshare"
WARM_S = 2  # time in which all programs run together under the default policy before the first phase, s
JOB_ALONE_S = 5  # longest phase of a job alone with --requests, s: it serves no requests
BEFORE_S = 0.5  # unmeasured shared phase of a system without phases alone, s
SKIPPED = 0.1  # share of each phase, from its beginning, that does not count
LONGER = 1.25  # jobs run this many times a phase beside services; their steps after the phase do not count
START_S, ANSWER_S = 240, 60
# arguments of `job`: kernels of a step, length of a block in us, and (xN) blocks as a multiple of what the GPU holds
C_JOBS = {"blocks-2ms": ("4", "2000"), "blocks-200us": ("4", "200", "x10"), "blocks-50us": ("4", "50", "x40")}


MPS = re.compile(r"mps(-priority)?(?:-([1-9][0-9]?))?")


class Failed(Exception):
    """A program, a daemon or MPS failed or is gone."""


class Program:
    """A service or a job that takes orders on its standard input."""

    def __init__(self, words, env, errors):
        self.errors, self.rest = open(errors, "ab"), b""
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=env, start_new_session=True)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.child.stdout, selectors.EVENT_READ)

    def tell(self, words):
        try:
            self.child.stdin.write((words + "\n").encode())
            self.child.stdin.flush()
        except OSError as error:
            raise Failed(f"{self.name()} is gone") from error

    def answer(self, seconds):
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            if not self.selector.select(max(0, end - time.monotonic())):
                raise Failed(f"{self.name()}: no answer within {seconds:.0f} s")
            data = os.read(self.child.stdout.fileno(), 1 << 16)
            if not data:
                raise Failed(f"{self.name()} ended: {self.last_words()}")
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def name(self):
        return pathlib.Path(self.errors.name).stem

    def last_words(self):
        lines = pathlib.Path(self.errors.name).read_text(errors="replace").split("\n")
        return next((line.strip()[:150] for line in reversed(lines) if line.strip()), "no output")

    def dismiss(self):
        """Closes the program's standard input, so that it exits; end() waits for that."""
        try:
            self.child.stdin.close()
        except OSError:  # the program has ended without reading its orders
            pass

    def end(self):
        self.dismiss()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.child.stdout.close()
        self.errors.close()


# --- worlds -------------------------------------------------------------------------------------------------------------------------

class Native:
    """Processes with contexts of their own."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder

    def environment(self, class_):
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", HF_HUB_OFFLINE="1")
        env.pop("DETSHARE_SOCKET", None)
        if self.options.native_socket:  # tests: without a GPU another daemon takes the place of the driver
            env.update(LD_LIBRARY_PATH=str(self.options.build / "cuda"), DETSHARE_SOCKET=str(self.options.native_socket), DETSHARE_CLASS="be")
        return env

    def policy(self, system):
        """A native process has no policy to set."""

    def end(self):
        """Nothing of its own runs."""


class Mps(Native):
    """A control daemon of our own, with its pipes and logs in the folder."""

    def __init__(self, options, folder, priority, job_percent):
        super().__init__(options, folder)
        self.priority, self.job_percent = priority, job_percent
        for name in ("pipe", "log"):
            (folder / name).mkdir()
        control = shutil.which("nvidia-cuda-mps-control")
        if not control:
            raise Failed("MPS cannot start: nvidia-cuda-mps-control is not in PATH")
        done = subprocess.run([control, "-d"], env=self.control_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=30)
        if done.returncode:
            raise Failed(f"MPS cannot start: {done.stdout.decode(errors='replace').strip()[:120]}")
        self.control = control

    def control_environment(self):
        return dict(super().environment("ls"), CUDA_MPS_PIPE_DIRECTORY=str(self.folder / "pipe"), CUDA_MPS_LOG_DIRECTORY=str(self.folder / "log"))

    def environment(self, class_):
        env = self.control_environment()
        if env.get("CUDA_VISIBLE_DEVICES"):
            env["CUDA_VISIBLE_DEVICES"] = "0"  # clients of MPS count only the devices that MPS sees
        if self.priority:
            env["CUDA_MPS_CLIENT_PRIORITY"] = "0" if class_ == "ls" else "1"
        if self.job_percent and class_ == "be":
            env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = self.job_percent
        return env

    def end(self):
        try:
            subprocess.run([self.control], input=b"quit\n", env=self.control_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30)
        except subprocess.TimeoutExpired:
            print("measure: MPS did not quit within 30 s; its daemon may still run", file=sys.stderr)


def daemon_end(child):
    """Terminates the daemon, and kills it after 20 s."""
    child.terminate()
    try:
        child.wait(20)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


class Detshare(Native):
    """A detshared that serves until the run ends. Programs reach it through the drop-in library."""

    def __init__(self, options, folder):
        super().__init__(options, folder)
        self.socket, log = folder / "sock", folder / "detshared.log"
        with open(log, "ab") as out:
            self.child = subprocess.Popen([str(options.build / "detshared"), "--foreground", "--device", options.daemon_device, "--socket",
                                           str(self.socket)], stdout=out, stderr=out)
        try:
            self.begin(log)
        except BaseException:
            daemon_end(self.child)
            raise

    def begin(self, log):
        end = time.monotonic() + 60
        while b"serving" not in log.read_bytes():
            if self.child.poll() is not None or time.monotonic() > end:
                raise Failed(f"detshared does not serve after 60 s, or ended: {log.read_text(errors='replace').strip()[-150:]}")
            time.sleep(0.05)
        if self.options.profiles:
            self.control("profile", "import", str(self.options.profiles))

    def control(self, *words):
        done = subprocess.run([str(self.options.build / "detsharectl"), "--socket", str(self.socket), *words], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60)
        if done.returncode:
            raise Failed(f"{' '.join(words)}: {done.stdout.decode(errors='replace').strip()[:120]}")

    def environment(self, class_):
        env = super().environment(class_)
        env["CUDA_VISIBLE_DEVICES"] = "0"  # the daemon's device is the only one there
        paths = [str(self.options.build / "cuda")] + ([env["LD_LIBRARY_PATH"]] if env.get("LD_LIBRARY_PATH") else [])
        return dict(env, LD_LIBRARY_PATH=":".join(paths), DETSHARE_SOCKET=str(self.socket), DETSHARE_CLASS=class_)

    def policy(self, system):
        words = system.split(":", 1)[1].split(",")
        self.control("set-policy", *(word for word in words if not word.startswith("slo=")))

    def end(self):
        daemon_end(self.child)


def world_of(system):
    return system.split(":")[0]


def world_open(name, options, folder):
    folder.mkdir()
    folder.chmod(0o755)
    if name == "native":
        return Native(options, folder)
    mps = MPS.fullmatch(name)
    if mps:
        return Mps(options, folder, bool(mps[1]), mps[2])
    if name == "detshare":
        return Detshare(options, folder)
    raise SystemExit(f"measure: unknown system {name}: use native, mps[-priority][-PERCENT] or detshare:POLICY")


def packed(values):
    return ";".join(f"{value:.3f}" for value in values)


# --- one cell -----------------------------------------------------------------------------------------------------------------------

def words_of(name, options):
    if name in options.c_programs:
        return [str(options.build / "eval/job"), str(options.build / "eval/job.ptx"), *options.c_programs[name]]
    return [sys.executable, str(HERE / "workload.py"), name, "--device", options.torch_device]


def arrivals(cell, index, rate, seconds, round_):
    """Arrival times of a service's requests, the same for every system."""
    text = f"{cell.group}:{cell.name}:{index}:{round_}"
    seed = random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"))
    if cell.arrivals == "apollo":
        gaps = json.loads(scenarios.APOLLO.read_text(encoding="utf8"))
        speed, first = rate / (len(gaps) / sum(gaps)), seed.randrange(len(gaps))
        gaps = itertools.cycle(gap / speed for gap in gaps[first:] + gaps[:first])
    else:
        gaps = iter(lambda: seed.expovariate(rate), None)
    times, at = [], 0.0
    while (at := at + next(gaps)) < seconds:
        times.append(at)
    return times


class Company:
    """The programs of all services and jobs of some cells in one world. It remembers which did not start, and why."""

    def __init__(self, cells, world, options, folder):
        self.programs, self.failed, self.warm_s = {}, {}, min(WARM_S, options.seconds)
        try:
            for key in dict.fromkeys(key for cell in cells for key in keys_of(cell)):
                path = folder / f"{key[1]}.{key[2]}.err"
                self.programs[key] = Program(words_of(key[1], options), world.environment(key[0]), path)
            self.listen(dict.fromkeys(self.programs, START_S))
        except BaseException:
            self.end()
            raise

    def listen(self, seconds):
        """The answers of programs, each within its number of seconds. A program without an answer has failed."""
        answers = {}
        for key, limit in seconds.items():
            try:
                answers[key] = self.programs[key].answer(limit)
            except (Failed, ValueError) as error:
                self.failed[key] = str(error)
        return answers

    def why_not(self, cell):
        """Reason why a cell cannot be measured; "" if it can."""
        return next((self.failed[key] for key in keys_of(cell) if key in self.failed), "")

    def phase(self, orders):
        """Gives each of some programs its order at once; returns their answers."""
        answers = self.attempt(orders)
        for key in orders:
            if key in self.failed:
                raise Failed(self.failed[key])
        return answers

    def attempt(self, orders):
        """Like phase(), but leaves out the answers of programs that fail."""
        for key, order in orders.items():
            try:
                self.programs[key].tell(order)
            except Failed as error:
                self.failed[key] = str(error)
        return self.listen({key: ANSWER_S + 20 * float(order.split()[-1] if order.startswith("loop") else 10)
                            for key, order in orders.items() if key not in self.failed})

    def warm(self):
        """Runs every program for a while: models are loaded, caches filled, kernels known."""
        self.attempt({key: f"loop {self.warm_s}" for key in self.programs if key not in self.failed})

    def end(self):
        for program in self.programs.values():
            program.dismiss()
        for program in self.programs.values():
            program.end()


def keys_of(cell):
    """Keys of a cell's programs: class, name, and index among those of this name."""
    seen = collections.Counter()
    keys = []
    for class_, names in (("ls", cell.ls), ("be", cell.be)):
        for name in names:
            keys.append((class_, name, seen[class_, name]))
            seen[class_, name] += 1
    return keys


def seconds_of(rates, options):
    """Length of a cell's phases. After the part that does not count they have --requests requests of each service, although arrivals
    are random: their expected number is three standard deviations more."""
    expected = options.requests + 3 * math.sqrt(options.requests)
    return max([options.seconds] + [expected / rate / (1 - SKIPPED) for rate in rates])


def slo_of(system):
    """The objective of a system in times of the service's p99 alone; 0: none."""
    return next((float(word[4:]) for word in system.split(",") if word.startswith("slo=")), 0.0)


def services_of(cell):
    """Names of a cell's services in the file, like ls0:bert."""
    return [f"ls{index}:{name}" for index, name in enumerate(cell.ls)]


def rates_of(cell, state):
    """Request rates of a cell's services, from their capacities."""
    return [state.capacity(name) * cell.load / 100 / len(cell.ls) for name in cell.ls]


def state_objectives(system, keys, company, cell, state):
    """Gives every service its objective of this system; 0 removes one of an earlier system."""
    if world_of(system) == "detshare":
        times = slo_of(system)
        company.phase({key: f"slo {times * state.objective_ms(cell, name) if times else 0:.6f}" for key, name in zip(keys, services_of(cell))})


def plan_of(keys, orders, alone, seconds, job_seconds):
    """The phases of one cell: a name ("" if its answers are not kept), its length, and the order for each program. A job alone runs
    for job_seconds."""
    services, jobs = [key for key in keys if key[0] == "ls"], [key for key in keys if key[0] == "be"]
    # jobs run longer than services, so that requests still waiting when the arrivals end also run beside a job
    together = orders | {key: f"loop {LONGER * seconds}" for key in jobs}
    ls, be = {key: orders[key] for key in services}, {key: f"loop {job_seconds}" for key in jobs[:1]}
    if not alone:
        return [("", seconds, {key: f"loop {min(BEFORE_S, seconds)}" for key in keys}), ("together", seconds, together)]
    return [("ls1", seconds, ls), ("be1", job_seconds, be), ("together", seconds, together), ("ls2", seconds, ls), ("be2", job_seconds, be)]


def run_system(cell, system, round_, company, state, options, folder):
    """The phases of one system in one cell."""
    keys, orders = keys_of(cell), {}
    rates = {key: state.rate(round_, cell, name) or rate for key, name, rate in zip(keys, services_of(cell), rates_of(cell, state))}
    seconds = seconds_of(rates.values(), options)
    for index, key in enumerate(keys):
        orders[key] = f"loop {seconds}"
        if key in rates:
            path = folder / f"arrivals.{index}"
            path.write_text("\n".join(f"{at:.6f}" for at in arrivals(cell, index, rates[key], seconds, round_)) + "\n", encoding="utf8")
            orders[key] = f"serve {path}"
    state_objectives(system, keys, company, cell, state)
    job_seconds = min(seconds, JOB_ALONE_S) if options.requests else seconds
    for phase, phase_s, told in plan_of(keys, orders, system in options.alone, seconds, job_seconds):
        answers = company.phase(told)
        for key, answer in answers.items() if phase else ():
            state.add(round=round_, group=cell.group, cell=cell.name, system=system, phase=phase, load=cell.load,
                      program=f"{key[0]}{keys.index(key)}:{key[1]}", rate=f"{rates[key]:.4f}" if key in rates else "",
                      seconds=f"{phase_s:.6f}", items=answer.get("items", len(answer["latencies_ms"])),
                      skip_s=f"{SKIPPED * phase_s:.3f}", latencies_ms=packed(answer["latencies_ms"]),
                      at_s=packed(answer["at_s"]) if "at_s" in answer else "")
    state.add(round=round_, group=cell.group, cell=cell.name, system=system, phase="end", load=cell.load)


def unknown(cells, state):
    """The programs whose capacity has not been measured yet."""
    return list({key[1]: key for cell in cells for key in reversed(keys_of(cell)) if not state.capacity(key[1])}.values())


def run_capacities(cells, company, state, options):
    """Measures the capacity of every service and job that has none, in a closed loop."""
    for key in unknown(cells, state):
        answers = {} if key in company.failed else company.attempt({key: f"loop {min(CAPACITY_S, 3 * options.seconds)}"})
        if key not in answers:
            print(f"measure: {key[1]} does not run natively: {company.failed[key]}", file=sys.stderr)
            state.add(phase="capacity", program=key[1], error=company.failed[key][:200])
            continue
        answer = answers[key]
        rate = answer["items"] / answer["seconds"]
        state.add(phase="capacity", system="native", program=key[1], rate=f"{rate:.6f}", seconds=f"{answer['seconds']:.6f}", items=answer["items"],
                  latencies_ms=packed(answer["latencies_ms"]))
        print(f"{key[1]}: capacity {rate:.1f}/s alone", flush=True)


def why_not(cell, system, company, state):
    """Reason why a system cannot be measured in a cell; "" if it can."""
    broken = next((f"{program} does not run natively" for program in cell.ls + cell.be if not state.capacity(program)), "")
    if slo_of(system) and not all(state.objective_ms(cell, name) for name in services_of(cell)):
        broken = broken or "the services have no native phase alone in this cell"
    return company.why_not(cell) or broken


def run_cells(todo, world, company, round_, state, options, clock, folder):
    """Measures the cells and systems of a list that this company can do, and removes them from it. Returns False when
    the time is over. If a cell fails, it is the first one left, and the caller handles it.
    """
    while todo:
        cell, system = todo[0]
        why = why_not(cell, system, company, state)
        if not clock.fits(0, options.seconds if why else seconds_of(rates_of(cell, state), options)):
            return False
        if not why:
            try:
                world.policy(system)
            except Failed as error:  # the other systems are still measured
                why = str(error)
        if why:
            failed(state, round_, cell, system, why)
        else:
            run_system(cell, system, round_, company, state, options, folder)
            print(f"{clock.passed():6.0f} s  round {round_}  {cell.name:40} {system}", flush=True)
        todo.pop(0)
    return True


def failed(state, round_, cell, system, why):
    state.add(round=round_, group=cell.group, cell=cell.name, system=system, load=cell.load, phase="failed", error=str(why)[:200])


def run_world(cells, name, round_, state, options, folder, clock):
    """Measures all cells and systems of one world that have no rows yet. Returns False when the time is over. After a
    failure the remaining cells get new programs.
    """
    todo = [(cell, system) for cell in cells for system in options.systems if world_of(system) == name and not state.done(round_, cell, system)]
    random.Random(f"{round_}{name}{cells[0].name}").shuffle(todo)
    asks = name == "native" and unknown(cells, state)
    while todo or asks:
        if not clock.fits(1, options.seconds):
            return False
        company, reached, broken = None, False, False
        try:
            if name not in clock.worlds:
                clock.worlds[name] = world_open(name, options, folder / name)
            world = clock.worlds[name]
            own = pathlib.Path(tempfile.mkdtemp(dir=folder))
            company = clock.started(lambda: Company(cells if asks else [cell for cell, _ in todo], world, options, own))
            world.policy("detshare:detshare")
            company.warm()
            clock.meeting.at(f"{round_}.{name}.ready")
            if asks:
                run_capacities(cells, company, state, options)
            reached = True
            done = run_cells(todo, world, company, round_, state, options, clock, own)
            clock.meeting.at(f"{round_}.{name}.measured")
            if not done:
                return False
        except (Failed, OSError, ValueError, subprocess.SubprocessError) as error:
            gone = todo[:1] if reached else list(todo)  # drop one cell, or all cells of this world
            for cell, system in gone:
                failed(state, round_, cell, system, error)
            del todo[:len(gone)]
            print(f"{clock.passed():6.0f} s  round {round_}  {len(gone)} cells failed in {name}: {error}", flush=True)
            broken = True
        finally:
            asks = False
            if company:
                company.end()
        if broken:  # the remaining cells get a new world, whatever failed
            world_end(name, clock, folder)
    return True


def world_end(name, clock, folder):
    if name in clock.worlds:
        clock.worlds.pop(name).end()
    shutil.rmtree(folder / name, ignore_errors=True)


class Clock:
    """The rest of the run's time, estimated from its parts so far; the open worlds; and the other measurements on this
    host.
    """

    def __init__(self, limit, meeting):
        self.begin, self.limit, self.start_s, self.worlds, self.meeting = time.monotonic(), limit, 30.0, {}, meeting

    def passed(self):
        return time.monotonic() - self.begin

    def fits(self, starts, seconds):
        """Whether this many starts of programs and one system's phases of this length still fit."""
        return not self.limit or self.passed() + starts * self.start_s + 6 * seconds < self.limit

    def started(self, start):
        begin = time.monotonic()
        result = start()
        self.start_s = max(5.0, time.monotonic() - begin)
        return result


def share(cells, shard):
    """Share K of N of the cells: every N-th cell, from the K-th on."""
    number, of = shard
    return cells[number::of]


def worlds_of(options, cells, state, turn):
    """The worlds, in another order at each turn; native first where capacities or objectives are unknown."""
    names = list(dict.fromkeys(map(world_of, options.systems)))
    names = names[turn % len(names):] + names[:turn % len(names)]
    first = unknown(cells, state) or turn == 0 and any(map(slo_of, options.systems))
    return ["native"] + [name for name in names if name != "native"] if first else names


def rounds_of(options):
    """The numbers of the rounds to measure."""
    return range(options.first_round, options.first_round + options.rounds)


def run(options, cells, state, folder):
    clock = Clock(options.limit, Meeting(options.meet, *options.shard))
    try:
        for round_ in rounds_of(options):
            for name in worlds_of(options, cells, state, round_ - options.first_round):
                clock.meeting.at(f"{round_}.{name}.begins")
                if not run_world(cells, name, round_, state, options, folder, clock):
                    return False
                clock.meeting.passed(f"{round_}.{name}.ready")  # nothing was left to do, or no program started
                clock.meeting.at(f"{round_}.{name}.measured")
                world_end(name, clock, folder)  # MPS would keep the GPU from the other worlds
    finally:
        for world in clock.worlds.values():
            world.end()
        clock.meeting.leave()
    return True


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--state", type=pathlib.Path, required=True)
    parser.add_argument("--systems", default=SYSTEMS)
    parser.add_argument("--alone", default=ALONE, help="systems that also measure services and jobs alone")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--first-round", type=int, default=1, metavar="N", help="number of the first round: a file that lacks earlier rounds gets other arrivals")
    parser.add_argument("--seconds", type=float, default=4, help="length of each phase, s; with --requests the shortest")
    parser.add_argument("--requests", type=float, default=0, help="requests of each service that a phase has at least; 0: any number")
    parser.add_argument("--limit", type=float, default=450, help="seconds after which nothing may still run; 0: no limit")
    parser.add_argument("--profiles", type=pathlib.Path, help="file of `detsharectl profile export` that each daemon imports")
    parser.add_argument("--daemon-device", default=os.environ.get("DETSHARE_TEST_DEVICE", "cuda:0"))
    parser.add_argument("--torch-device", default="cuda")
    parser.add_argument("--native-socket", type=pathlib.Path, help="tests: socket of a daemon in the place of the driver")
    parser.add_argument("--c-program", action="append", default=[], help="tests: NAME:KERNELS:BLOCK_US:BLOCKS:THREADS runs job.c under that name")
    parser.add_argument("--cell", action="append", default=[], help="a cell [GROUP:]LS[+LS]/BE[+BE]@LOAD instead of the scenarios")
    parser.add_argument("--shard", type=shard, default=(0, 1), metavar="K/N")
    parser.add_argument("--meet", type=pathlib.Path, metavar="FOLDER", help="a new folder, the same for all shards on this host")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    options.build, options.systems = options.build.resolve(), [s.strip() for s in options.systems.split(";") if s.strip()]
    options.alone = [s.strip() for s in options.alone.split(";")]
    options.c_programs = dict(C_JOBS, **{text.split(":")[0]: tuple(text.split(":")[1:]) for text in options.c_program})
    options.more_cells = [cell_of(text) for text in options.cell]
    if options.cell and not options.words:
        options.words = ["(none of the scenarios)"]
    return options


def shard(text):
    number, of = map(int, text.split("/"))
    if not 0 <= number < of:
        raise ValueError(text)
    return number, of


def cell_of(text):
    programs, load = text.split("@")
    group, _, programs = programs.rpartition(":")
    ls, be = programs.split("/")
    return scenarios.Cell(group or "core", tuple(filter(None, ls.split("+"))), tuple(filter(None, be.split("+"))), int(load), "poisson")


def check_seconds(options, cells, state):
    """Refuses phases of another length: rounds that are compared must have the same. With --requests it follows from the rates."""
    other = set() if options.requests else state.seconds(cells, rounds_of(options)) - {f"{options.seconds:.6f}"}
    if other:
        raise SystemExit(f"measure: {options.state} has phases of {', '.join(f'{float(s):g}' for s in sorted(other))} s in these rounds: "
                         "use the same --seconds, or another --state")


def left_to_do(options, cells, state):
    return sum(not state.done(r, cell, s) for r in rounds_of(options) for cell in cells for s in options.systems)


def main():
    options = arguments()
    state = State(options.state)
    cells = share(scenarios.cells(options.words) + options.more_cells, options.shard)
    if not cells:
        raise SystemExit("measure: no cell matches these words")
    check_seconds(options, cells, state)
    left = left_to_do(options, cells, state)
    if options.list or not left:
        print(f"{left} of {options.rounds * len(cells) * len(options.systems)} to be measured")
        if not options.list:
            Meeting(options.meet, *options.shard).leave()  # no other shard must wait for this one
        return 0
    folder = pathlib.Path(tempfile.mkdtemp(prefix="detshare-measure."))
    folder.chmod(0o755)
    try:
        done = run(options, cells, state, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        state.close()
    left = left_to_do(options, cells, state)
    print("everything is measured" if not left else f"{left} cells could not be measured" if done else
          f"the time limit is reached: run it again with --state {options.state} to continue")
    return 0


if __name__ == "__main__":
    sys.exit(main())
