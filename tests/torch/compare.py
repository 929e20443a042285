#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares PyTorch under DetShare with native PyTorch: equal bytes of results, and the time of a step.

For every program of this folder two processes run at the same time, one natively and one under DetShare. A case is
prepared in both. Then its steps are timed alternately (native, DetShare, native, ...), so that the GPU's clocks and
temperature are the same for both; the other process is idle meanwhile. The digests of raw output bytes are compared.
Where they differ, a second native process shows whether native runs agree with each other. start.py is timed as whole
processes. A process that fails or does not answer in time is replaced, and the remaining cases run.

A case passes when both processes ran it and their bytes are equal. Times are shown and never judged. Ends with a
table and `N passed, N failed`; exit status 1 when a case failed, 2 for a bad command line, 3 when nothing could run.

usage: compare.py --build BUILD [--quick] [--rounds N] [--seconds S] [--out FILE] [--list] [WORD...]
"""
import argparse
import json
import os
import pathlib
import selectors
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ("infer", "train", "llama", "graphs", "streams", "loader", "alloc", "libs", "compile", "profiler")
STARTS = ("import", "first_op", "matmul", "resnet18")


class Failed(Exception):
    """A process did not answer, or answered with an error."""


class Process:
    """A program of this folder, or one that a path names (without .py), that runs with --serve, and its answers."""

    def __init__(self, side, program, extra):
        self.errors = open(side.errors(program), "ab")
        self.child = subprocess.Popen(
            [sys.executable, str(HERE / f"{program}.py"), "--serve", "--device", side.device], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.errors, env=side.environment(extra), start_new_session=True)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.child.stdout, selectors.EVENT_READ)
        self.rest = b""

    def ask(self, request, seconds):
        """Sends a request and returns its answer; raises Failed on a timeout, the end of the process, or an error
        answer."""
        try:
            self.child.stdin.write(json.dumps(request).encode() + b"\n")
            self.child.stdin.flush()
        except OSError as error:
            raise Failed(f"ended before {request['do']}{self.how()}") from error
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            if not self.selector.select(max(0, end - time.monotonic())):
                raise Failed(f"no answer to {request['do']} in {seconds} s")
            data = os.read(self.child.stdout.fileno(), 1 << 16)
            if not data:
                raise Failed(f"ended during {request['do']}{self.how()}")
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def how(self):
        try:
            status = self.child.wait(5)
        except subprocess.TimeoutExpired:
            return ""
        return f" by {signal.Signals(-status).name}" if status < 0 else f" with status {status}"

    def end(self):
        """Closes the standard input of the process and waits. Returns its exit status; None if it had to be killed."""
        try:
            self.child.stdin.close()
        except OSError:
            pass
        try:
            status = self.child.wait(20)
        except subprocess.TimeoutExpired:
            status = None
        try:  # also ends remaining worker processes
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()
        self.child.stdout.close()
        self.errors.close()
        return status


class Side:
    """One way to run programs: natively or under DetShare. Each side has its own caches of compiled code."""

    def __init__(self, name, options, tmp, socket=None):
        self.name, self.device, self.tmp, self.socket = name, options.device, tmp, socket
        self.build, self.class_ = options.build, options.class_
        self.process, self.running = None, None

    def environment(self, extra):
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", TRITON_CACHE_DIR=str(self.tmp / f"{self.name}.triton"),
                   TORCHINDUCTOR_CACHE_DIR=str(self.tmp / f"{self.name}.inductor"), CUPY_CACHE_DIR=str(self.tmp / f"{self.name}.cupy"),
                   CUBLAS_WORKSPACE_CONFIG=":4096:8", HF_HUB_OFFLINE="1", COMPARE_TMP=str(self.tmp / self.name), **extra)
        pathlib.Path(env["COMPARE_TMP"]).mkdir(exist_ok=True)
        if self.socket:
            paths = [str(self.build / "cuda")] + [p for p in [env.get("LD_LIBRARY_PATH")] if p]
            env.update(LD_LIBRARY_PATH=":".join(paths), DETSHARE_SOCKET=str(self.socket), DETSHARE_CLASS=self.class_,
                       CUDA_VISIBLE_DEVICES="0")
        return env

    def start(self, program, entry):
        wanted = (program, entry["case"] if entry["fresh"] else None)
        if self.process and self.running != wanted:
            self.end()
        if not self.process:
            self.process, self.running = Process(self, program, entry["environment"]), wanted

    def ask(self, request, seconds):
        try:
            return self.process.ask(request, seconds)
        except (Failed, json.JSONDecodeError) as error:
            self.end(kill=True)
            raise Failed(f"{self.name}: {error}") from error

    def end(self, kill=False):
        process, self.process = self.process, None
        if process:
            if kill:
                process.child.kill()
            status = process.end()
            if status != 0 and not kill:
                print(f"     {self.name} {self.running[0]}: {'does not end' if status is None else f'exit status {status}'}", flush=True)

    def errors(self, program):
        return self.tmp / f"{self.name}.{pathlib.Path(program).name}.err"

    def words(self, program):
        path = self.errors(program)
        return path.read_text(errors="replace").splitlines()[-14:] if path.exists() else []


def listed(program, options):
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    text = subprocess.run([sys.executable, str(HERE / f"{program}.py"), "--list"], check=True, env=env, timeout=120,
                          stdout=subprocess.PIPE).stdout
    entries = [json.loads(line) for line in text.splitlines()]
    return [e for e in entries if (e["quick"] or not options.quick) and wanted(e["case"], options)]


def wanted(name, options):
    return not options.words or any(word in name for word in options.words)


def time_in_turns(sides, rounds, seconds):
    times = {side.name: [] for side in sides}
    queued = {side.name: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            answer = side.ask({"do": "measure", "seconds": seconds}, 60 + 20 * seconds)
            if answer["n"]:
                times[side.name] += answer["step_ms"]
                queued[side.name].append(answer["queued_ms"])
    return {name: {"step_ms_median": statistics.median(values), "queued_ms": statistics.median(queued[name]), "n": len(values)}
            for name, values in times.items() if values}


def run_case(program, entry, sides, options):
    """Runs one case on all sides. Returns its row of the table."""
    row = {"case": entry["case"]}
    try:
        for side in sides:
            side.start(program, entry)
            row[side.name] = side.ask({"do": "prepare", "case": entry["case"]}, entry["seconds"])
            if "skip" in row[side.name]:
                return dict(row, skip=row[side.name]["skip"])
        for name, values in time_in_turns(sides, options.rounds, options.seconds).items():
            row[name].update(values)
        for side in sides:
            side.ask({"do": "drop"}, 60)
    except Failed as error:
        row["error"] = str(error)
        return row
    row["identical"] = len({row[side.name]["digest"] for side in sides}) == 1
    return row


def native_varies(program, entry, options, tmp, digest):
    """Whether another native process writes different bytes: then the case is not deterministic, and DetShare is not
    at fault."""
    side = Side("native2", options, tmp)
    try:
        side.start(program, entry)
        return side.ask({"do": "prepare", "case": entry["case"]}, entry["seconds"])["digest"] != digest
    except Failed:
        return None
    finally:
        side.end()


def run_start(name, sides, options, tmp):
    """Times whole processes from start to end, alternately; the first round is reported separately."""
    row, walls = {"case": f"start.{name}"}, {side.name: [] for side in sides}
    for _ in range(1 + max(2, options.rounds)):
        for side in sides:
            begin = time.monotonic()
            with open(tmp / f"{side.name}.start.err", "ab") as errors:
                try:
                    done = subprocess.run([sys.executable, str(HERE / "start.py"), name, side.device], env=side.environment({}), timeout=150,
                                          stdout=subprocess.PIPE, stderr=errors, check=True)
                    row[side.name] = dict(json.loads(done.stdout.splitlines()[-1]))
                except subprocess.CalledProcessError as error:
                    return dict(row, error=f"{side.name}: exit status {error.returncode}")
                except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
                    return dict(row, error=f"{side.name}: {type(error).__name__}")
            walls[side.name].append((time.monotonic() - begin) * 1000)
    for side in sides:
        row[side.name].update(first_ms=walls[side.name][0], step_ms_median=statistics.median(walls[side.name][1:]),
                              n=len(walls[side.name]) - 1)
    row["identical"] = len({row[side.name]["digest"] for side in sides}) == 1
    return row


def verdict(row):
    if "skip" in row:
        return "skipped"
    if "error" in row:
        return "FAIL"
    if row["identical"]:
        return "yes" if row.get("native", {}).get("finite", True) else "yes, no number"
    return "native varies" if row.get("native_varies") else "NO"


def show(row, sides):
    native, shared = row.get(sides[0].name, {}), row.get(sides[-1].name, {}) if len(sides) > 1 else {}
    columns = []
    for key in ("step_ms_median", "queued_ms"):
        a, b = native.get(key), shared.get(key)
        columns.append(f"{a:9.3f}" if a else " " * 8 + "-")
        columns.append(f"{b:9.3f}" if b else " " * 8 + "-")
        columns.append(f"{b / a:6.3f}" if a and b else " " * 5 + "-")
    text = f"{row['case']:30} {verdict(row):14} {' '.join(columns)}"
    if row.get("error") or row.get("skip"):
        text += f"  {row.get('error') or row.get('skip')}"
    print(text[:230], flush=True)


def heading(sides):
    a, b = sides[0].name, sides[-1].name
    print(f"{'case':30} {'identical':14} {a:>9} {b:>9} {'ratio':>6} {'queued':>9} {b:>9} {'ratio':>6}    (step, ms)", flush=True)


class Daemon:
    """A detshared for this test, with its socket and its log in the temporary folder; `more` are further arguments."""

    def __init__(self, options, tmp, *more):
        self.socket, self.log, self.child = options.socket, tmp / "detshared.log", None
        if not self.socket:
            self.socket = tmp / "sock"
            with open(self.log, "ab") as log:
                self.child = subprocess.Popen([str(options.build / "detshared"), "--device", options.daemon_device, "--socket",
                                               str(self.socket), "--policy", options.policy, *more], stdin=subprocess.DEVNULL,
                                              stdout=log, stderr=log)
            try:
                self.await_serving(time.monotonic() + 40)
            except BaseException:  # also when a signal ends this program
                self.end()
                raise

    def await_serving(self, end):
        while b"serving" not in self.log.read_bytes():
            if self.child.poll() is not None or time.monotonic() > end:
                raise Failed("detshared did not start to serve")
            time.sleep(0.1)

    def end(self):
        if self.child:
            self.child.terminate()
            try:
                self.child.wait(20)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()

    def words(self):
        return self.log.read_text(errors="replace").splitlines()[-25:] if self.log.exists() else []


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--device", default="cuda", help="PyTorch's device; cpu is for work on these programs")
    parser.add_argument("--daemon-device", default=os.environ.get("DETSHARE_TEST_DEVICE", "cuda:0"))
    parser.add_argument("--socket", type=pathlib.Path, help="socket of a running daemon; default: start one")
    parser.add_argument("--policy", default="multistream")
    parser.add_argument("--class", dest="class_", default="be")
    parser.add_argument("--sides", default="native,detshare", help="one side alone, or native,native2 to test the test itself")
    parser.add_argument("--quick", action="store_true", help="few cases; 3 minutes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.4, help="time for which steps are measured in each round")
    parser.add_argument("--limit", type=float, default=0, help="no case begins after this many seconds; 0: no limit")
    parser.add_argument("--out", type=pathlib.Path, help="rows as JSON")
    parser.add_argument("--logs", type=pathlib.Path, help="folder for the output of programs and the daemon")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("words", nargs="*", help="cases whose names contain one of these")
    options = parser.parse_args()
    options.build = options.build.resolve()
    return options


def work(options):
    """The programs with their cases, and the cases of start.py, which does not serve."""
    plan = [(program, entry) for program in PROGRAMS if (HERE / f"{program}.py").exists() for entry in listed(program, options)]
    starts = [name for name in STARTS if wanted(f"start.{name}", options) and (not options.quick or name == "first_op")]
    return plan, starts


def complain(program, row, sides):
    """Prints the last output of the program that failed."""
    for side in sides:
        if row.get("error", "").startswith(side.name + ":"):
            print("\n".join("     " + line[:200] for line in side.words(program)), flush=True)


def run_all(plan, starts, sides, options, tmp):
    rows, begin = [], time.monotonic()

    def late():
        return options.limit and time.monotonic() - begin > options.limit

    def keep(row):
        rows.append(row)
        show(row, sides)
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1))
    heading(sides)
    for name in starts:
        row = {"case": f"start.{name}", "skip": "time is up"} if late() else run_start(name, sides, options, tmp)
        keep(row)
        complain("start", row, sides)
    for program, entry in plan:
        if late():
            keep({"case": entry["case"], "skip": "time is up"})
            continue
        row = run_case(program, entry, sides, options)
        if row.get("identical") is False and "native" in row:
            row["native_varies"] = native_varies(program, entry, options, tmp, row["native"]["digest"])
        keep(row)
        complain(program, row, sides)
    for side in sides:
        side.end()
    return rows


def main():
    options = arguments()
    plan, starts = work(options)
    if options.list:
        print("\n".join([f"start.{name}" for name in starts] + [entry["case"] for _, entry in plan]))
        return 0
    tmp = pathlib.Path(tempfile.mkdtemp(prefix="detshare-torch."))
    tmp.chmod(0o755)
    names, daemon = options.sides.split(","), None
    try:
        if "detshare" in names:
            daemon = Daemon(options, tmp)
        sides = [Side(name, options, tmp, daemon.socket if name == "detshare" else None) for name in names]
        rows = run_all(plan, starts, sides, options, tmp)
    except Failed as error:
        print(f"compare: {error}", file=sys.stderr)
        print("\n".join((tmp / "detshared.log").read_text(errors="replace").splitlines()[-25:]), file=sys.stderr)
        return 3
    finally:
        if daemon:
            daemon.end()
            print("\n".join("     " + line[:200] for line in daemon.words()))
        if options.logs:
            options.logs.mkdir(parents=True, exist_ok=True)
            for path in list(tmp.glob("*.err")) + list(tmp.glob("*.log")):
                shutil.copy(path, options.logs)
        shutil.rmtree(tmp, ignore_errors=True)
    skipped = sum("skip" in row for row in rows)
    failed = sum(verdict(row) in ("NO", "FAIL") for row in rows)
    print(f"{len(rows) - skipped - failed} passed, {failed} failed" + (f", {skipped} left out" if skipped else ""))
    return 1 if failed else 0 if len(rows) > skipped else 3


if __name__ == "__main__":
    sys.exit(main())
