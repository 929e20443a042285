#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of first calls, natively and under DetShare, each with cold caches and again in a second process.

Every group of rows runs in new processes: tests/bench/gpu_first.c for the Driver API, tests/torch/first_times.py for
PyTorch and Triton. The stages of a group are

  cold    every cache is empty: the driver's, PyTorch's, Triton's, Inductor's, and those of a daemon that has just started
  again   a second process with the caches that the first one left

A daemon with an empty state folder (detshared --state) starts for each group and round. It is idle while a program
runs natively. The two sides alternate, and another side begins in each round. Files are in the page cache: a first
process, which is not measured, reads them. With a simulated device (DETSHARE_TEST_DEVICE=sim:...) there is no native
side, and the times say nothing about a GPU.

A value is the client's wall time in us. The table has medians over rounds; ratios are DetShare / native, and the goal is
at most 1.1. OUT gets samples.csv (every value, as it comes), and table.csv and table.md, rewritten after each group.
--from makes the tables from the samples of earlier runs, and --write puts them into a document, between its markers
`begin first-times` and `end first-times`.

Progress goes to standard error, the last table to standard output. Exit status: 0, 1 if a program failed, 2 for a bad
command line, 3 if nothing was measured. The time limit ends the run with the tables of the samples so far.
"""
import argparse
import csv
import dataclasses
import importlib.util
import json
import lzma
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / folder) for folder in ("torch", "bench", "eval")]
sys.dont_write_bytecode = True

import compare  # noqa: E402
import document  # noqa: E402
import first_kernels  # noqa: E402

GOAL = 1.1
STAGES = ("cold", "again")
HEAD = ("row", "native cold", "DetShare cold", "ratio", "native again", "DetShare again", "ratio", "runs")
MIB = 1 << 20
PTX_SIZES = {"1KiB": 1 << 10, "16KiB": 16 << 10, "128KiB": 128 << 10, "1MiB": MIB}
SERVICE = ("ls", "28", "100000", "2000")  # of gpu_load: requests of 28 kernels, 2 ms apart
SERVICE_START_S = 2  # time until the service runs its requests
SERVICE_ALONE_S = 2  # time for which its requests are measured without a neighbour


@dataclasses.dataclass
class Run:
    """A process of a group: its command, additional environment, and its time limit in s."""
    command: list
    environment: dict = dataclasses.field(default_factory=dict)
    seconds: int = 60
    copies: int = 1  # number of processes that start at once


@dataclasses.dataclass
class Group:
    name: str
    text: str
    runs: object  # function of Bench: the group's processes
    fresh: bool = True  # the group needs a new daemon
    service: bool = False  # a latency-sensitive program runs beside the group
    torch: bool = False  # needs PyTorch


def images(bench, kind, names=(), environment=None):
    for count in names or bench.kernels:
        name = f"{count}{'.eager' if environment else ''}"
        yield Run([bench.first, kind, name, bench.image(count), str(count)], environment or {}, 120)


def ptx(bench):
    for name, size in PTX_SIZES.items():
        if size <= bench.ptx_limit:
            path = bench.tmp / f"{name}.ptx"
            path.write_text(first_kernels.sized(size))
            yield Run([bench.first, "module", f"ptx_{name}", path, str(path.read_text().count(".entry"))], {}, 120)


def memory(bench, sizes):
    return [Run([bench.first, "memory", "all", *sizes], {}, 120)]


def python(bench, row, seconds, copies=1):
    program = ROOT / "tests" / "torch" / "first_times.py"
    return [Run([sys.executable, "-B", program, "--device", bench.options.torch_device, row], {}, seconds, copies)]


EAGER = {"CUDA_MODULE_LOADING": "EAGER"}
GROUPS = (
    Group("start", "Process start to the first memset", lambda b: [Run([b.first, "start"])]),
    Group("modules", "Modules of 1, 100 and 10,000 kernels", lambda b: images(b, "module")),
    Group("launches", "First launches of the 200 kernels of a module", lambda b: images(b, "module", (200,))),
    Group("eager", "Modules with CUDA_MODULE_LOADING=EAGER", lambda b: images(b, "module", environment=EAGER)),
    Group("libraries", "Modules through cuLibraryLoadData, which loads kernels at their first use", lambda b: images(b, "library")),
    Group("ptx", "Modules of PTX of 1 KiB to 1 MiB", ptx),
    Group("graphs", "Graphs of 10 to 3,000 kernels", lambda b: [Run([b.first, "graph", b.image(1), *b.nodes])]),
    Group("memory", "Allocation, use and free of up to 1 GiB, the first and a second time", lambda b: memory(b, b.sizes), False),
    Group("large", "Allocation, use and free of 8 GiB, the first and a second time", lambda b: memory(b, ["8GiB"]), False),
    Group("pool", "Growth of a memory pool", lambda b: [Run([b.first, "pool"])], False),
    Group("objects", "Streams, events, contexts", lambda b: [Run([b.first, "objects"])], False),
    Group("torch", "Import of PyTorch to the first operation", lambda b: python(b, "first_op", 120), torch=True),
    Group("operators", "First calls of 200 operators", lambda b: python(b, "operators", 180), torch=True),
    Group("triton", "Start of Triton", lambda b: python(b, "triton", 120), torch=True),
    Group("compile", "Start of torch.compile", lambda b: python(b, "compile", 240), torch=True),
    Group("train", "First training step of a best-effort process beside a service", lambda b: python(b, "train", 120),
          service=True, torch=True),
    Group("crowd", "64 PyTorch processes started at once", lambda b: python(b, "first_op", 240, b.options.crowd), torch=True),
)


def say(text):
    print(text, file=sys.stderr, flush=True)


class Samples:
    """All measured values, in memory and in samples.csv."""
    HEAD = ("group", "row", "stage", "side", "round", "us", "device")

    def __init__(self, out, earlier):
        self.rows, self.out = {}, out  # (group, row, stage) -> side -> values or error names
        self.simulated = set()
        for path in earlier:
            with (lzma.open if path.suffix == ".xz" else open)(path, "rt", newline="", encoding="utf-8") as file:
                for line in csv.DictReader(file):
                    self.keep(*(line[name] for name in self.HEAD))
        if out:
            out.mkdir(parents=True, exist_ok=True)
            self.file = open(out / "samples.csv", "w", newline="", encoding="utf-8")
            self.writer = csv.writer(self.file)
            self.writer.writerow(self.HEAD)

    def keep(self, group, row, stage, side, _round, us, device):
        if not device.startswith("cuda"):
            self.simulated.add(device)
        sides = self.rows.setdefault((group, row, stage), {"native": [], "detshare": []})
        sides[side].append(us)

    def add(self, *sample):
        self.keep(*sample)
        if self.out:
            self.writer.writerow(sample)
            self.file.flush()

    def median(self, key, side):
        values = []
        for us in self.rows.get(key, {}).get(side, []):
            try:
                values.append(float(us))
            except ValueError:  # the name of an error
                return str(us), 0
        return (statistics.median(values), len(values)) if values else (None, 0)

    def lines(self):
        """group, row, stage, native median, DetShare median, ratio, number of runs of each side."""
        for key in self.rows:
            (native, n), (shared, m) = self.median(key, "native"), self.median(key, "detshare")
            ratio = shared / native if n and m and native > 0 else None
            yield (*key, native, shared, ratio, n, m)

    def write(self):
        if not self.out:
            return
        with open(self.out / "table.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("group", "row", "stage", "native_us", "detshare_us", "ratio", "native_runs", "detshare_runs"))
            for line in self.lines():
                writer.writerow([f"{x:.3f}" if isinstance(x, float) else "" if x is None else x for x in line])
        (self.out / "table.md").write_text("\n".join(self.sections()) + "\n", encoding="utf-8")

    def sections(self):
        """Lines of Markdown: a heading and a table for each group. Ratios above the goal are bold."""
        groups, text = {}, [] if not self.simulated else ["", f"On {', '.join(sorted(self.simulated))}: the times say nothing about a GPU."]
        for group, row, stage, native, shared, ratio, n, m in self.lines():
            shown = "-" if ratio is None else f"**{ratio:.2f}**" if ratio > GOAL else f"{ratio:.2f}"
            groups.setdefault(group, {}).setdefault(row, {})[stage] = (number(native), number(shared), shown, max(n, m))
        for group, rows in groups.items():
            cells = [[f"`{row}`", *(cell for stage in STAGES for cell in stages.get(stage, ("-", "-", "-", 0))[:3]),
                      str(max(values[3] for values in stages.values()))] for row, stages in rows.items()]
            text += ["", f"### {next((each.text for each in GROUPS if each.name == group), group)}", "", *document.table(HEAD, cells)]
        return text[1:]

    def progress(self, group):
        """Lines of text for the rows of one group."""
        for name, row, stage, native, shared, ratio, n, m in self.lines():
            if name == group:
                yield f"  {row:44} {stage:5} {number(native):>9} {number(shared):>9} {'-' if ratio is None else f'{ratio:.2f}':>8} {n}+{m}"

    def worst(self, most=40):
        """Lines of text for the rows above the goal, the largest ratios first."""
        over = sorted((line for line in self.lines() if line[5] and line[5] > GOAL), key=lambda line: -line[5])
        return [f"  {ratio:8.2f} {row} {stage}: {number(native)}, {number(shared)}" for _, row, stage, native, shared, ratio, *_ in over[:most]]

    def report(self):
        return "\n".join([*self.sections(), "", self.verdict(), *self.worst()])

    def verdict(self):
        ratios = [ratio for *_, ratio, _, _ in self.lines() if ratio]
        return f"{sum(r <= GOAL for r in ratios)} of {len(ratios)} ratios are at most {GOAL}"


def number(us):
    """A time with its unit and three digits; the name of an error as it is."""
    if us is None or isinstance(us, str):
        return us or "-"
    for unit, size in (("s", 1e6), ("ms", 1e3), ("us", 1)):
        if us >= size:
            break
    value = us / size
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


class Process:
    """A program in a session of its own, with its output in a file; ends with all its children."""

    def __init__(self, command, environment, log):
        self.output = open(log, "wb+")
        self.errors = open(f"{log}.err", "wb+")
        environment = dict(environment, FIRST_BEGIN_US=f"{time.monotonic() * 1e6:.2f}")
        self.child = subprocess.Popen([str(word) for word in command], env=environment, stdin=subprocess.DEVNULL,
                                      stdout=self.output, stderr=self.errors, start_new_session=True)

    def wait(self, seconds):
        try:
            return self.child.wait(max(seconds, 0.1))
        except subprocess.TimeoutExpired:
            return None

    def tell(self, number):
        try:
            os.killpg(self.child.pid, number)
        except ProcessLookupError:
            pass

    def end(self):
        """Kills what is left of the process; returns its lines on standard output and the last ones on standard error."""
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()
        texts = []
        for file in (self.output, self.errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace").splitlines())
            file.close()
        return texts[0], texts[1][-8:]


class Bench:
    def __init__(self, options, tmp):
        self.options, self.tmp, self.build = options, tmp, options.build
        self.first = self.build / "bench" / "gpu_first"
        self.gpu = options.daemon_device.startswith("cuda") and not os.environ.get("DETSHARE_LIBCUDA")
        self.device = options.daemon_device if self.gpu or not options.daemon_device.startswith("cuda") else "a driver of DETSHARE_LIBCUDA"
        self.kernels = (1, 100) if options.quick else (1, 100, 10000)
        self.nodes = ("10", "100") if options.quick else ("10", "100", "1000", "3000")
        self.sizes = ("1KiB", "1MiB") if options.quick else ("1KiB", "64KiB", "1MiB", "16MiB", "256MiB", "1GiB")
        self.ptx_limit = 16 << 10 if options.quick else MIB
        self.samples = Samples(options.out, options.earlier)
        self.end = time.monotonic() + options.limit
        self.daemon, self.failed, self.warm = None, 0, False

    def left(self):
        return self.end - time.monotonic()

    def image(self, count):
        """Machine code from the build; PTX where no GPU executes machine code."""
        if self.gpu:
            return self.build / "bench" / f"first_{count}.fatbin"
        path = self.tmp / f"first_{count}.ptx"
        path.write_text(first_kernels.kernels(count))
        return path

    # --- daemon -------------------------------------------------------------------------------------------------------

    def daemon_start(self, name):
        self.daemon_end()
        folder = self.tmp / name
        folder.mkdir()
        folder.chmod(0o755)
        os.environ["CUDA_CACHE_PATH"] = str(folder / "daemon.cuda")
        self.daemon = compare.Daemon(self.options, folder, "--state", str(folder / "state"))

    def daemon_end(self):
        if self.daemon:
            self.daemon.end()
            self.daemon = None  # afterwards, because a signal may interrupt end()

    # --- processes ----------------------------------------------------------------------------------------------------

    def environment(self, caches):
        """All caches of compiled code are below the folder `caches`."""
        caches.mkdir(exist_ok=True)
        (caches / "torch").mkdir(exist_ok=True)
        return dict(os.environ, CUDA_CACHE_PATH=str(caches / "cuda"), TRITON_CACHE_DIR=str(caches / "triton"),
                    TORCHINDUCTOR_CACHE_DIR=str(caches / "inductor"), PYTORCH_KERNEL_CACHE_PATH=str(caches / "torch"),
                    XDG_CACHE_HOME=str(caches / "xdg"), HF_HUB_OFFLINE="1", PYTHONDONTWRITEBYTECODE="1",
                    CUDA_VISIBLE_DEVICES=os.environ.get("CUDA_VISIBLE_DEVICES", "0"))

    def start(self, side, class_, command, environment, log):
        if side == "detshare":
            command = [self.build / "detsharectl", "--socket", self.daemon.socket, "run", "--class", class_, "--", *command]
        return Process(command, environment, log)

    def run(self, side, run, caches):
        """Runs the processes of a Run; returns the (row, value) pairs that they printed."""
        environment = dict(self.environment(caches), **run.environment)
        begin, until = time.monotonic(), time.monotonic() + min(run.seconds, self.left())
        children, statuses, texts = [], [], []
        try:
            for i in range(run.copies):
                children.append(self.start(side, "be", run.command, environment, self.tmp / f"child.{i}"))
            statuses += [child.wait(until - time.monotonic()) for child in children]
            wall_us = (time.monotonic() - begin) * 1e6
        finally:  # also when a signal ends this program
            texts += [child.end() for child in children]
        bad = [i for i, status in enumerate(statuses) if status != 0]
        if bad:
            self.failed += 1
            say(f"first_times: {side}: {' '.join(str(word) for word in run.command)}: {len(bad)} of {run.copies} processes failed, "
                f"the first with {'no end in time' if statuses[bad[0]] is None else f'status {statuses[bad[0]]}'}")
            say("\n".join("     " + line[:200] for line in texts[bad[0]][1]))
        rows = [pair for lines, _ in texts for pair in values(lines)]
        return rows if run.copies == 1 else crowd(rows, run.copies, wall_us, len(bad))

    def service_start(self, side):
        """A service that has run its requests alone for a while: its output has a line of its start and one of that while."""
        service = self.start(side, "ls", [self.build / "bench" / "gpu_load", *SERVICE, "120"],
                             self.environment(self.tmp / "service"), self.tmp / "service.log")
        for seconds in (SERVICE_START_S, SERVICE_ALONE_S):
            time.sleep(seconds)
            service.tell(signal.SIGUSR1)
        return service

    def service_end(self, group, service, side, keep):
        """Ends the service and keeps the 99th percentiles of its requests: alone, and since then."""
        early = service.wait(0) is not None
        service.tell(signal.SIGTERM)
        service.wait(10)
        lines, errors = service.end()
        p99 = [float(line.split()[3]) for line in lines if line.startswith("ls ")]
        if early or len(p99) < 3:
            self.failed += 1
            say(f"first_times: {side}: the service beside {group.name} ended early: {' '.join(errors)[:400]}")
            return
        keep(f"{group.name}.service_p99_alone", p99[1])
        keep(f"{group.name}.service_p99_beside", p99[2])

    def quiesces(self):
        """The daemon's figures of its quiesces so far: time for which it held BE work, and of that all work, us; their
        number; delayed requests of the service."""
        status = subprocess.run([str(self.build / "detsharectl"), "--socket", str(self.daemon.socket), "status", "--json"],
                                stdout=subprocess.PIPE, timeout=30)
        figures = json.loads(status.stdout)
        return [figures[name] / per for name, per in (("quiesce_ns", 1e3), ("quiesce_stop_ns", 1e3), ("quiesces", 1), ("quiesce_hits", 1))]

    def stage(self, group, runs, stage, side, turn):
        def keep(row, value):
            self.samples.add(group.name, row, stage, side, turn, value, self.device)

        service = self.service_start(side) if group.service else None
        before = self.quiesces() if service and side == "detshare" else None
        try:
            for run in runs:
                if self.left() <= 0:
                    return
                for row, value in self.run(side, run, self.tmp / f"{group.name}.{turn}.{side}"):
                    keep(row, value)
            if before:
                held_us, all_us, number, hits = (now - then for now, then in zip(self.quiesces(), before))
                keep(f"{group.name}.be_held", held_us)
                keep(f"{group.name}.all_held", all_us)
                say(f"first_times: {group.name} {stage}: {number:.0f} stops, {hits:.0f} requests of the service delayed")
        finally:
            if service:
                self.service_end(group, service, side, keep)

    def group(self, group, turn):
        begin = time.monotonic()
        if group.fresh or not self.daemon:
            self.daemon_start(f"daemon.{group.name}.{turn}")
        if group.torch and not self.warm:
            self.run("native" if "native" in self.options.sides else "detshare", python(self, "first_op", 180)[0], self.tmp / "warm")
            self.warm = True
        runs = list(group.runs(self))
        sides = self.options.sides if turn % 2 else self.options.sides[::-1]
        for stage in STAGES:
            for side in sides:
                self.stage(group, runs, stage, side, turn)
        if group.fresh:
            self.daemon_end()
        self.samples.write()
        say(f"first_times: round {turn}, {group.name}: {time.monotonic() - begin:.1f} s; {self.left():.0f} s left; {self.samples.verdict()}")
        say("\n".join(self.samples.progress(group.name)))

    def all(self, groups):
        for turn in range(1, self.options.rounds + 1):
            for group in groups:
                if self.left() <= 0:
                    say(f"first_times: time is up before round {turn}, {group.name}")
                    return
                try:
                    self.group(group, turn)
                except compare.Failed as error:
                    self.failed += 1
                    say(f"first_times: {group.name}: {error}")


def values(lines):
    """(row, time in us or name of the error) of each line of a program's output."""
    for line in lines:
        words = line.split()
        if len(words) == 2:
            yield words[0], float(words[1])
        elif len(words) == 3 and words[1] == "error":
            yield words[0], words[2]


def crowd(rows, copies, wall_us, bad):
    """The rows of many processes that started at once."""
    name = f"crowd.{copies}"
    firsts = sorted(value for row, value in rows if row == "torch.process_to_first_op")
    if bad or len(firsts) < copies:
        return [(f"{name}.until_last_ended", f"{max(bad, copies - len(firsts))}_failed")]
    return [(f"{name}.first_op_median", statistics.median(firsts)), (f"{name}.first_op_last", firsts[-1]),
            (f"{name}.until_last_ended", wall_us)]


def arguments():
    names = [group.name for group in GROUPS]
    text = __doc__ + "\ngroups of rows:\n" + "\n".join(f"  {group.name:10} {group.text}" for group in GROUPS)
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--rows", default="all", help="groups, separated by commas; all: every group; all,-NAME: all but NAME")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which no program runs any more")
    parser.add_argument("--out", type=pathlib.Path, help="folder for samples.csv, table.csv and table.md")
    parser.add_argument("--from", dest="earlier", type=pathlib.Path, nargs="+", default=[], metavar="SAMPLES.CSV",
                        help="only make the tables of these samples; also .csv.xz")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE.md", help="with --from: write the tables into this document")
    parser.add_argument("--quick", action="store_true", help="few and small modules, PTX, graphs and buffers")
    parser.add_argument("--crowd", type=int, default=64, help="number of processes of the group crowd")
    parser.add_argument("--torch-device", default="cuda", help="PyTorch's device; cpu is for work on these programs")
    parser.add_argument("--policy", default="detshare")
    parser.add_argument("--sides", default="native,detshare")
    options = parser.parse_args()
    options.build, options.socket = options.build.resolve(), None
    options.daemon_device = os.environ.get("DETSHARE_TEST_DEVICE", "cuda:0")
    options.sides = options.sides.split(",")
    if not options.daemon_device.startswith("cuda") or os.environ.get("DETSHARE_LIBCUDA"):
        options.sides = ["detshare"]
    if not set(options.sides) <= {"native", "detshare"}:
        parser.error(f"--sides {','.join(options.sides)}: accepted are native, detshare, and native,detshare")
    if options.write and not options.earlier:
        parser.error("--write: only with --from")
    words = [name for name in options.rows.split(",") if name]
    wrong = [name for name in words if name.lstrip("-") not in names + ["all"]]
    if wrong:
        parser.error(f"--rows {wrong[0]}: accepted are all and {', '.join(names)}")
    chosen = [group for group in GROUPS if (group.name in words or "all" in words) and f"-{group.name}" not in words]
    if not importlib.util.find_spec("torch") and any(group.torch for group in chosen):
        say(f"first_times: {sys.executable} has no PyTorch: without {', '.join(group.name for group in chosen if group.torch)}")
        chosen = [group for group in chosen if not group.torch]
    return options, chosen


def terminated(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def main():
    options, groups = arguments()
    if options.earlier:
        samples = Samples(options.out, options.earlier)
        samples.write()
        if options.write:
            document.write(options.write, "first-times", samples.sections(), "tests/bench/first_times.py")
        print(samples.report())
        return 0
    signal.signal(signal.SIGTERM, terminated)
    tmp = pathlib.Path(tempfile.mkdtemp(prefix="detshare-first."))
    tmp.chmod(0o755)
    bench = Bench(options, tmp)
    try:
        bench.all(groups)
    finally:
        bench.daemon_end()
        shutil.rmtree(tmp, ignore_errors=True)
    bench.samples.write()
    print(bench.samples.report())
    if not bench.samples.rows:
        return 3
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
