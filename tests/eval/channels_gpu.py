#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The effect of divided memory channels on model packs on a GPU: a service beside a job, coloured or not, with and
without a bound on resident blocks.

For each share of the channels (--shares) a daemon starts with a pool of coloured memory. Each pair of a service
(LS) and a job (BE) is there twice, coloured (detshare-serve --bimodal) and not. All four programs stay, and their
phases follow each other within seconds; a program without an order is idle. Services answer one request after the
other, so every request meets the job. Under the policy `calibrate` LS has one half of the SMs, BE the other, and BE
as many resident blocks as the bound allows (0: no bound), as in `detsharectl calibrate`; --sms all: both have all
SMs. Colours: off, be (only the job), both. A bound without colours and colours without a bound are cells like all
others.

With --tensors beside, tensors always lie in their class's channels. Then the service and the job are also measured
alone in theirs, which gives the cost of colours by themselves.

The phases of a pair and round are shuffled. The service and the job alone come first and last, so the difference of
two measurements of the same thing (A/A) is known. One CSV file has a row per phase and program; existing rows are
not measured again. --shard K/N: every N-th share, from the K-th on, in a file of its own. --limit: seconds after
which nothing may still run; pass the file again to continue.

usage: channels_gpu.py --build BUILD --packs DIR --tables DIR --state FILE.csv [--device cuda:0] [--ls NAMES] [--be NAMES] [--shares 1/3,1/6,...]
                       [--bounds 0,33,16] [--colours off,be,both] [--seconds S] [--rounds N] [--limit S] [--shard K/N] [--pool-mib N] [--sms half|all]
                       [--memory-bound measured|all|DIR] [--tensors auto|beside]
       measured: launches that detsharectl profile PACK finds memory-bound; all: every launch; DIR/NAME.json: its output
       channels_gpu.py --show FILE.csv[.xz]...  the table, with the lines of every pair
"""
import argparse
import csv
import itertools
import json
import lzma
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from measure import Failed, Program, daemon_end
from stats import percentile

COLUMNS = ("round", "share", "channels", "ls", "be", "colours", "bound", "phase", "program", "seconds", "items", "n", "p50_ms", "p99_ms", "error")
SKIPPED = 0.1  # share of each phase's latencies, from its beginning, that does not count
START_S, PROGRAM_S = 120, 240
ALONE = ("ls", "be")
PROFILE_REQUESTS = "20"


class Rows:
    """The rows of the CSV file."""

    def __init__(self, path):
        self.path, self.rows = path, read([path]) if path.exists() else []
        if not self.rows:
            path.write_text(",".join(COLUMNS) + "\n", encoding="utf8")

    def add(self, **row):
        self.rows.append({key: str(row.get(key, "")) for key in COLUMNS})
        with open(self.path, "a", newline="", encoding="utf8") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(self.rows[-1])

    def done(self, round_, share, pair):
        """Whether the pair's last phase has been measured, and so all of its phases."""
        return any(row["phase"] == "end" and (row["round"], row["share"], row["ls"], row["be"]) == (str(round_), share, *pair) for row in self.rows)


def read(paths):
    """Rows of some files, compressed or not, without a line that was cut off."""
    rows = []
    for path in paths:
        with lzma.open(path, "rt", newline="", encoding="utf8") if path.suffix == ".xz" else open(path, newline="", encoding="utf8") as file:
            rows += [row for row in csv.DictReader(file) if row.get("error") is not None]
    return rows


# --- the daemon ---------------------------------------------------------------------------------------------------------------------

class Daemon:
    """A daemon with a pool. Its state directory, with compiled code, is that of the previous one."""

    def __init__(self, options, share, folder):
        self.options, self.socket, self.log = options, folder / "sock", folder / f"daemon.{share.replace('/', '-')}.log"
        conf = folder / "detshared.conf"
        conf.write_text(f"[channels]\npool_mib = {options.pool_mib}\nbe = {share}\ntables = {folder / 'tables'}\n", encoding="utf8")
        with open(self.log, "ab") as out:
            self.child = subprocess.Popen([str(options.build / "detshared"), "--foreground", "--device", options.device, "--config", str(conf),
                                           "--socket", str(self.socket), "--state", str(folder / "state")], stdout=out, stderr=out)
        begin = time.monotonic()
        while b"serving" not in self.log.read_bytes():
            if self.child.poll() is not None or time.monotonic() > begin + START_S:
                self.child.kill()
                raise Failed(f"detshared does not serve or ended: {self.log.read_text(errors='replace').strip()[-150:]}")
            time.sleep(0.05)
        status = json.loads(self.control("status", "--json"))
        self.n_sms = status["sms"]
        self.channels = next(line.split(":", 2)[2].strip() for line in self.log.read_text(encoding="utf8").splitlines() if "coloured memory: " in line)
        print(f"be = {share}: serves after {time.monotonic() - begin:.1f} s: {self.channels}", flush=True)

    def control(self, *words):
        env = dict(os.environ, **({"CUDA_VISIBLE_DEVICES": "0"} if os.environ.get("CUDA_VISIBLE_DEVICES") else {}))  # child processes see only the daemon's GPU
        done = subprocess.run([str(self.options.build / "detsharectl"), "--socket", str(self.socket), *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=env, timeout=60)
        text = done.stdout.decode(errors="replace")
        if done.returncode:
            raise Failed(f"{' '.join(words)}: {(done.stderr.decode(errors='replace') + text).strip()[:120]}")
        return text

    def bound(self, blocks):
        sms = self.n_sms // 2 if self.options.sms == "half" else self.n_sms
        self.control("set-policy", "calibrate", f"ls_sms={sms}", f"be_sms={sms}", f"be_blocks={blocks}")

    def end(self):
        daemon_end(self.child)


def memory_bound(options, daemon, name):
    """Arguments of detshare-serve --bimodal."""
    if options.memory_bound not in ("all", "measured"):
        return str(pathlib.Path(options.memory_bound) / f"{name}.json")
    if options.memory_bound == "measured" and name not in options.measured:
        path = daemon.log.parent / f"{name}.bounds.json"
        path.write_text(daemon.control("profile", str(options.packs / name), "--requests", PROFILE_REQUESTS, "--json"), encoding="utf8")
        said = path.read_text(encoding="utf8")  # lines about the run, then the bounds of the launches
        bounds = [word for word in ("compute", "memory") for _ in range(said.count(f'"bound": "{word}"'))]
        options.measured[name] = str(path) if "memory" in bounds else "all"
        print(f"    {name}: memory bounds {bounds.count('memory')} of {len(bounds)} kinds of launches{'' if 'memory' in bounds else ': all count as if it did'}", flush=True)
    return options.measured.get(name, "all")


def program_of(options, daemon, name, class_, coloured, folder):
    words = [str(options.build / "detshare-serve"), str(options.packs / name), "--orders", "--class", class_, "--no-hash"]
    if coloured:
        words += ["--bimodal", memory_bound(options, daemon, name), "--state", options.tensors]
    env = dict(os.environ, DETSHARE_SOCKET=str(daemon.socket))
    if env.get("CUDA_VISIBLE_DEVICES"):
        env["CUDA_VISIBLE_DEVICES"] = "0"  # the daemon's device is the only one there
    return Program(words, env, folder / f"{name}.{class_}.{'coloured' if coloured else 'plain'}.err")


# --- measuring ----------------------------------------------------------------------------------------------------------------------

class Programs:
    """The programs of one daemon, by name, class and colour; each starts when it is first needed."""

    def __init__(self, options, daemon, folder):
        self.options, self.daemon, self.folder, self.all, self.failed = options, daemon, folder, {}, {}

    def get(self, name, class_, coloured):
        key = name, class_, coloured
        if key in self.failed:
            raise Failed(self.failed[key])
        if key not in self.all:
            begin, program = time.monotonic(), program_of(self.options, self.daemon, *key, self.folder)
            try:
                program.answer(PROGRAM_S)
            except (Failed, ValueError) as error:
                program.end()
                self.failed[key] = f"{name} ({class_}{', coloured' if coloured else ''}): {error}"
                raise Failed(self.failed[key]) from error
            self.all[key] = program
            work([(program, self.options.seconds / 2)])
            print(f"    {name} ({class_}{', coloured' if coloured else ''}) is there after {time.monotonic() - begin:.1f} s", flush=True)
        return self.all[key]

    def end(self):
        for program in self.all.values():
            program.end()


def work(programs):
    """Runs a loop of some seconds in each program; returns their answers. A program may also take the time of its last
    request.
    """
    for program, seconds in programs:
        program.tell(f"loop {seconds}")
    return [program.answer(seconds * 20 + 60) for program, seconds in programs]


def figures(answer):
    latencies = answer["latencies_ms"][int(len(answer["latencies_ms"]) * SKIPPED):]
    return {"seconds": f"{answer['seconds']:.4f}", "items": answer["items"], "n": len(latencies),
            "p50_ms": f"{percentile(latencies, 0.5):.4f}", "p99_ms": f"{percentile(latencies, 0.99):.4f}"}


def run_phase(rows, programs, cell, phase, options):
    """Runs ls or be alone, or both together; adds a row for each program that worked."""
    daemon, coloured = programs.daemon, cell["colours"]
    parts = [("ls", cell["ls"], coloured == "both")] if phase != "be" else []
    parts += [("be", cell["be"], coloured != "off")] if phase != "ls" else []
    started = [(programs.get(name, class_, flag), options.seconds) for class_, name, flag in parts]
    daemon.bound(cell["bound"])
    for (class_, _, _), answer in zip(parts, work(started)):
        rows.add(**cell, phase=phase, program=class_, **figures(answer))


def run_pair(rows, programs, round_, share, pair, options):
    about = {"round": round_, "share": share, "channels": programs.daemon.channels.split(",")[1].split(" for ")[0].strip(), "ls": pair[0], "be": pair[1]}
    cells = [dict(about, colours=colours, bound=bound) for colours, bound in itertools.product(options.colours, options.bounds)]
    random.Random(f"{round_}{share}{pair}").shuffle(cells)
    plain, coloured = dict(about, colours="off", bound=0), dict(about, colours="both", bound=0)
    alone = [(plain, "ls"), (plain, "be")] + ([(coloured, "ls"), (coloured, "be")] if options.tensors == "beside" else [])
    plan = alone + [(cell, "together") for cell in cells] + alone[::-1]
    for cell, phase in plan:
        try:
            run_phase(rows, programs, cell, phase, options)
        except Failed as error:
            rows.add(**cell, phase="failed", error=str(error)[:160])
            if programs.daemon.child.poll() is not None or phase in ALONE:
                raise
    rows.add(**about, phase="end")


def run_share(rows, share, options, folder, clock):
    """Measures the missing pairs and rounds of a share. Returns False when the time is over."""
    pairs = [pair for pair in itertools.product(options.ls, options.be) if not all(rows.done(r, share, pair) for r in range(1, options.rounds + 1))]
    if not pairs:
        return True
    if not clock.fits(30):
        return False
    daemon = Daemon(options, share, folder)
    programs = Programs(options, daemon, folder)
    phases = 8 + len(options.colours) * len(options.bounds)
    try:
        for round_, pair in itertools.product(range(1, options.rounds + 1), pairs):
            if rows.done(round_, share, pair):
                continue
            if not clock.fits(phases * (options.seconds + 0.1)):
                return False
            try:
                run_pair(rows, programs, round_, share, pair, options)
            except (Failed, OSError, ValueError) as error:
                print(f"    {pair[0]} beside {pair[1]}: {error}", flush=True)
                if daemon.child.poll() is not None:
                    return True
            print(f"{clock.passed():6.0f} s  round {round_}  be = {share}  {pair[0]} beside {pair[1]}", flush=True)
    finally:
        programs.end()
        daemon.end()
    return True


class Clock:
    def __init__(self, limit):
        self.begin, self.limit = time.monotonic(), limit

    def passed(self):
        return time.monotonic() - self.begin

    def fits(self, seconds):
        return not self.limit or self.passed() + seconds < self.limit


def run(options):
    rows, clock = Rows(options.state), Clock(options.limit)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="detshare-channels-gpu."))
    folder.chmod(0o755)
    (folder / "tables").mkdir(mode=0o755)
    for table in sorted(options.tables.glob("*.lut")):
        shutil.copy(table, folder / "tables")
    whole = True
    try:
        number, of = options.shard
        # each share gets an equal part of the time, so that time is left for the last shares
        shares = options.shares[number::of]
        for i, share in enumerate(shares):
            clock.limit = options.limit and clock.passed() + (options.limit - clock.passed()) / (len(shares) - i)
            try:
                whole = run_share(rows, share, options, folder, clock) and whole
            except (Failed, OSError, subprocess.SubprocessError) as error:
                whole = False
                print(f"be = {share}: {error}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show(rows.rows, pairs=False)
    return 0 if whole else 1


# --- the table ----------------------------------------------------------------------------------------------------------------------

def mean_of(values):
    """The geometric mean, because the values are ratios; NaN without values."""
    values = [value for value in values if value > 0]
    return statistics.geometric_mean(values) if values else float("nan")


def alone_of(rows, key):
    """Figures of a pair alone in one round and share: p50 and p99 of LS, rate of BE, and how far equal LS
    measurements differ (A/A)."""
    own = [row for row in rows if (row["round"], row["share"], row["ls"], row["be"], row["colours"]) == (*key, "off") and row["phase"] in ALONE]
    ls, be = [row for row in own if row["phase"] == "ls"], [row for row in own if row["phase"] == "be"]
    if not ls or not be:
        return None
    p50 = [float(row["p50_ms"]) for row in ls]
    return {"p50": statistics.mean(p50), "p99": statistics.mean(float(row["p99_ms"]) for row in ls),
            "be": statistics.mean(float(row["items"]) / float(row["seconds"]) for row in be), "apart": max(p50) / min(p50) - 1}


def ratios(rows):
    """(share, ls, be, colours, bound): lists over all rounds of LS's p50 and p99 over alone and BE's rate over alone;
    and all A/A.
    """
    alone, found, apart = {}, {}, []
    for key in dict.fromkeys((row["round"], row["share"], row["ls"], row["be"]) for row in rows):
        alone[key] = alone_of(rows, key)
        if alone[key]:
            apart.append(alone[key]["apart"])
    for row in rows:
        base = alone[row["round"], row["share"], row["ls"], row["be"]]
        if not base or (row["phase"] != "together" and (row["phase"] not in ALONE or row["colours"] == "off")):
            continue
        cell = found.setdefault((row["share"], row["ls"], row["be"], row["colours"] if row["phase"] == "together" else "both, alone", int(row["bound"])), {"p50": [], "p99": [], "be": []})
        if row["program"] == "ls":
            cell["p50"].append(float(row["p50_ms"]) / base["p50"])
            cell["p99"].append(float(row["p99_ms"]) / base["p99"])
        else:
            cell["be"].append(float(row["items"]) / float(row["seconds"]) / base["be"])
    return found, apart


def line(name, cells):
    """A line of the table: medians of the rounds; for several cells their geometric mean, and the extremes of the
    rounds.
    """
    def text(what):
        every = [value for cell in cells for value in cell[what]]
        middle = mean_of([statistics.median(cell[what]) for cell in cells if cell[what]])
        return f"{middle:6.2f} [{min(every, default=0):.2f}, {max(every, default=0):.2f}]"
    return f"{name:58} {text('p50'):24} {text('p99'):24} {text('be'):24}"


def show(rows, pairs=True):
    """Prints all pairs together, then each if requested."""
    found, apart = ratios(rows)
    if not found:
        print("channels_gpu: the files have no measured pair")
        return
    channels = {row["share"]: row["channels"] for row in rows if row["channels"]}
    rounds = len({row["round"] for row in rows})
    print(f"LS p50 / p99 over alone, BE inferences/s over alone: median of up to {rounds} rounds [least, most]; A/A of LS p50: median "
          f"{statistics.median(apart):.1%}, worst {max(apart):.1%}")
    lots = dict.fromkeys((share, colours, bound) for share, _, _, colours, bound in sorted(found, key=lambda key: (key[0], key[3] != "off", key[3], key[4])))
    for share, colours, bound in lots:
        of = [cell for key, cell in found.items() if (key[0], key[3], key[4]) == (share, colours, bound)]
        print(line(f"all pairs, be={share} ({channels.get(share, '')}), {colours}, {bound or 'any'} blocks", of))
    for key in sorted(found if pairs else (), key=lambda key: (key[1], key[2], key[0], key[3] != "off", key[3], key[4])):
        print(line(f"{key[1]}+{key[2]}, be={key[0]}, {key[3]}, {key[4] or 'any'} blocks", [found[key]]))
    failures = sorted({row["error"] for row in rows if row["phase"] == "failed"})
    for error in failures:
        print(f"failed: {error}")


def words(text):
    return [word.strip() for word in text.split(",") if word.strip()]


def shard(text):
    number, of = map(int, text.split("/"))
    if not 0 <= number < of:
        raise ValueError(text)
    return number, of


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--show", type=pathlib.Path, nargs="+")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--packs", type=pathlib.Path, default=pathlib.Path("build/packs"))
    parser.add_argument("--tables", type=pathlib.Path, default=pathlib.Path("lut/tables"))
    parser.add_argument("--state", type=pathlib.Path, default=pathlib.Path("channels_gpu.csv"))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--ls", type=words, default=["resnet34", "mobilenet_v3", "mobilebert"])
    parser.add_argument("--be", type=words, default=["bert", "densenet161"])
    parser.add_argument("--shares", type=words, default=["1/6", "1/4", "1/3", "1/2"])
    parser.add_argument("--bounds", type=lambda text: [int(word) for word in words(text)], default=[0, 33, 16])
    parser.add_argument("--colours", type=words, default=["off", "be", "both"])
    parser.add_argument("--sms", choices=("half", "all"), default="half")
    parser.add_argument("--seconds", type=float, default=0.6, help="length of each phase, s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=290)
    parser.add_argument("--shard", type=shard, default=(0, 1), metavar="K/N")
    parser.add_argument("--pool-mib", type=int, default=4096)
    parser.add_argument("--memory-bound", default="measured")
    parser.add_argument("--tensors", choices=("auto", "beside"), default="auto")
    options = parser.parse_args()
    options.measured = {}
    options.build = options.build.resolve()
    return options


def main():
    options = arguments()
    if options.show:
        show(read(options.show))
        return 0
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
