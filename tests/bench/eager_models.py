#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency of single requests to PyTorch models in eager mode, natively and under DetShare.

The models are the cases of tests/torch/eager.py. For each model there is a native process and one under DetShare; only
one of them works at a time. In every round each side runs some requests that are not measured and then measures
REQUESTS requests; the side that begins alternates. A third, native process counts the kernels of a request and adds
up their times with torch.profiler. From these times,

  GPU busy       is the time of a request's kernels over the native p50
  host-limited   is a model whose GPU is busy for less than 0.75 of its native p50. Only there a ratio of 0.75 is possible.

The goals for the ratio of the p50, DetShare / native, are 0.75 for a host-limited model and 1.0 for every other. The
bytes of the outputs are compared after each round.

OUT gets eager.csv (one line per model, round and side, as it comes, with the time of every request) and eager.md.
A second run with the same OUT keeps complete rounds and measures the rest. --from makes the table from the files of
earlier runs. Progress goes to standard error, the table to standard output. Exit status: 0, 1 if a program failed or
bytes differ, 2 for a bad command line, 3 if nothing was measured. After LIMIT seconds no round begins.

usage: eager_models.py --build BUILD [--limit SECONDS] [--rounds N] [--requests N] [--out OUT] [WORD...]
       eager_models.py --from EAGER.CSV...
"""
import argparse
import csv
import dataclasses
import lzma
import os
import pathlib
import shutil
import signal
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / folder) for folder in ("torch", "eval")]
sys.dont_write_bytecode = True

import compare  # noqa: E402
import document  # noqa: E402
import stats  # noqa: E402

SIDES = ("native", "detshare")
HOST, ANY = 0.75, 1.0  # goals; HOST is also the busy share below which a model is host-limited
KERNEL_REQUESTS = 10
DIFFER = "differ"
HEAD = ("model", "family", "dtype", "round", "side", "device", "requests", "digest", "finite", "submit_us", "kernels", "gpu_us", "request_us")


def say(text):
    print(text, file=sys.stderr, flush=True)


def compared(rows):
    """Whether the outputs of all processes were the same bytes; rows: ((round, side), row)."""
    native = {row["digest"] for (_, side), row in rows if side != "detshare"}
    shared = {row["digest"] for (_, side), row in rows if side == "detshare"}
    if len(native) > 1:
        return "native varies"
    if len(native | shared) > 1:
        return DIFFER
    return "identical" if all(row["finite"] == "True" for _, row in rows) else "identical, not finite"


@dataclasses.dataclass
class Model:
    """Figures of a model over all rounds; times in us; None where nothing was measured."""
    name: str
    family: str
    dtype: str
    rounds: int
    p50: dict  # by side
    p99: dict
    ratios: list  # of the p50, by round
    bytes: str  # identical, or what differs
    kernels: float
    gpu_us: float

    @property
    def ratio(self):
        return self.p50["detshare"] / self.p50["native"] if len(self.p50) == 2 else None

    @property
    def busy(self):
        return self.gpu_us / self.p50["native"] if self.gpu_us and "native" in self.p50 else None

    @property
    def goal(self):
        return HOST if self.busy is not None and self.busy < HOST else ANY


class Samples:
    """The rows of eager.csv, by (model, round, side); the side `kernels` has round 0."""

    def __init__(self, paths):
        self.rows = {}
        for path in paths:
            with (lzma.open if path.suffix == ".xz" else open)(path, "rt", newline="", encoding="utf8") as file:
                for row in csv.DictReader(file):
                    self.add(row)

    def add(self, row):
        self.rows[row["model"], int(row["round"]), row["side"]] = {name: str(row[name]) for name in HEAD}

    def has(self, model, round_, sides):
        return all((model, round_, side) in self.rows for side in sides)

    def drop_incomplete(self, sides):
        self.rows = {key: row for key, row in self.rows.items() if not key[1] or self.has(*key[:2], sides)}

    def next_file(self, other):
        """Adds the rounds of another run behind those of this one."""
        for (model, round_, side), row in other.rows.items():
            last = max((at for name, at, of in self.rows if (name, of) == (model, side)), default=0) if round_ else 0
            self.add(dict(row, round=last + 1 if round_ else 0))

    def model(self, name):
        own = {key[1:]: row for key, row in self.rows.items() if key[0] == name}
        times = {side: {at: [float(us) for us in row["request_us"].split(";")] for (at, of), row in own.items() if of == side and at} for side in SIDES}
        both = sorted(set(times["native"]) & set(times["detshare"]))
        if both:  # a ratio compares the same rounds
            times = {side: {at: values[at] for at in both} for side, values in times.items()}
        pooled = {side: [us for values in of.values() for us in values] for side, of in times.items() if of}
        kernels, first = own.get((0, "kernels")), next(iter(own.values()))
        return Model(name, first["family"], first["dtype"], max(map(len, times.values())), {side: statistics.median(values) for side, values in pooled.items()},
                     {side: stats.percentile(values, 0.99) for side, values in pooled.items()},
                     [statistics.median(times["detshare"][at]) / statistics.median(times["native"][at]) for at in both],
                     compared(own.items()),
                     float(kernels["kernels"]) if kernels else None, float(kernels["gpu_us"]) if kernels else None)

    def models(self):
        names = dict.fromkeys(name for name, round_, _ in self.rows if round_)
        return [self.model(name) for name in names]

    def simulated(self):
        return sorted({row["device"] for row in self.rows.values() if not row["device"].startswith("cuda")})

    def write(self, path):
        with open(path, "w", newline="", encoding="utf8") as file:
            writer = csv.DictWriter(file, HEAD)
            writer.writeheader()
            writer.writerows(self.rows.values())


# --- table ------------------------------------------------------------------------------------------------------------

def milliseconds(us):
    return "-" if us is None else f"{us / 1000:.2f}"


def row_of(model):
    shown = "-" if model.ratio is None else f"{model.ratio:.2f}" if model.ratio <= model.goal else f"**{model.ratio:.2f}**"
    tail = f"{model.p99['detshare'] / model.p99['native']:.2f}" if len(model.p99) == 2 else "-"
    return [f"`{model.name}`", model.family, model.dtype, "-" if model.kernels is None else f"{model.kernels:.0f}",
            "-" if model.busy is None else f"{100 * model.busy:.0f}%", milliseconds(model.p50.get("native")), milliseconds(model.p50.get("detshare")), shown,
            f"{min(model.ratios):.2f} to {max(model.ratios):.2f}" if model.ratios else "-", f"{model.goal:g}", tail, model.bytes if model.bytes != DIFFER else f"**{DIFFER}**"]


def table(models):
    """Markdown; ratios above their goal are bold."""
    return document.table(("model", "family", "type", "kernels", "GPU busy", "native p50, ms", "DetShare p50, ms", "ratio", "by round", "goal", "p99 ratio", "bytes"),
                          [row_of(model) for model in models])


def verdict(models):
    known = [model for model in models if model.ratio is not None]
    return (f"{sum(model.ratio <= model.goal for model in known)} of {len(known)} models reach their goal; {sum(model.goal == HOST for model in known)} are "
            f"host-limited; the outputs of {sum(model.bytes == DIFFER for model in models)} models differ")


def report(samples):
    simulated = samples.simulated()
    return "\n".join([*([f"On {', '.join(simulated)}: the times say nothing about a GPU.", ""] if simulated else []),
                      *table(samples.models()), "", verdict(samples.models())])


# --- measurement ------------------------------------------------------------------------------------------------------

class Bench:
    def __init__(self, options, tmp, daemon):
        self.options, self.tmp, self.failed = options, tmp, 0
        self.end = time.monotonic() + options.limit
        self.device = options.daemon_device if not os.environ.get("DETSHARE_LIBCUDA") else "a driver of DETSHARE_LIBCUDA"
        self.sides = [self.side(name, daemon) for name in options.sides]
        self.profiler = self.side("kernels", None) if "native" in options.sides else None
        self.path = options.out / "eager.csv"
        self.samples = Samples([self.path] if self.path.exists() else [])
        self.samples.drop_incomplete(options.sides)
        options.out.mkdir(parents=True, exist_ok=True)
        self.samples.write(self.path)
        self.file = open(self.path, "a", newline="", encoding="utf8")

    def side(self, name, daemon):
        return compare.Side(name, self.options, self.tmp, daemon.socket if name == "detshare" else None)

    def left(self):
        return self.end - time.monotonic()

    def keep(self, entry, info, round_, side, answer, **more):
        times = answer.get("request_us", [])
        row = dict.fromkeys(HEAD, "") | more | {
            "model": entry["case"].removeprefix("eager."), "family": info["family"], "dtype": info["dtype"], "round": round_, "side": side, "device": self.device,
            "requests": len(times), "digest": answer.get("digest", info["digest"]), "finite": answer.get("finite", info["finite"]),
            "request_us": ";".join(f"{us:.1f}" for us in times)}
        self.samples.add(row)
        csv.DictWriter(self.file, HEAD).writerow(row)
        self.file.flush()

    def prepare(self, side, entry):
        side.start(self.options.program, entry)
        answer = side.ask({"do": "prepare", "case": entry["case"]}, entry["seconds"])
        if "skip" in answer:
            raise compare.Failed(f"{side.name}: {answer['skip']}")
        return answer

    def round(self, entry, infos, round_):
        """Both sides measure; the rows are kept when both have, so that a round is complete."""
        answers = {}
        for side in self.sides if round_ % 2 else self.sides[::-1]:
            answers[side.name] = side.ask({"do": "requests", "warm": self.options.warm, "n": self.options.requests}, 120)
        for name, answer in answers.items():
            self.keep(entry, infos[name], round_, name, answer, submit_us=f"{statistics.median(answer['submit_us']):.1f}")

    def kernels(self, entry):
        info = self.prepare(self.profiler, entry)
        answer = self.profiler.ask({"do": "kernels", "n": KERNEL_REQUESTS}, 120)
        self.keep(entry, info, 0, "kernels", {}, kernels=f"{answer['kernels']:.1f}", gpu_us=f"{answer['gpu_us']:.1f}")
        self.profiler.ask({"do": "drop"}, 60)

    def model(self, entry):
        name = entry["case"].removeprefix("eager.")
        todo = [i for i in range(1, self.options.rounds + 1) if not self.samples.has(name, i, self.options.sides)]
        if todo:
            infos = {side.name: self.prepare(side, entry) for side in self.sides}
            for round_ in todo:
                if self.left() <= 0:
                    break
                self.round(entry, infos, round_)
            for side in self.sides:
                side.ask({"do": "drop"}, 60)
        if self.profiler and not self.samples.has(name, 0, ["kernels"]) and self.left() > 0:
            self.kernels(entry)

    def all(self, entries):
        for entry in entries:
            if self.left() <= 0:
                say(f"eager_models: time is up before {entry['case']}")
                return
            begin = time.monotonic()
            try:
                self.model(entry)
            except compare.Failed as error:
                self.failed += 1
                say(f"eager_models: {entry['case']}: {error}")
                for side in self.every_side():
                    say("\n".join("     " + line[:200] for line in side.words(self.options.program)))
                    side.end(kill=True)
            self.progress(entry["case"], time.monotonic() - begin)

    def progress(self, case, seconds):
        for model in self.samples.models():
            if f"eager.{model.name}" == case:
                say(f"{seconds:5.1f} s  " + "  ".join(row_of(model)))

    def every_side(self):
        return [*self.sides, *([self.profiler] if self.profiler else [])]

    def close(self):
        for side in self.every_side():
            side.end()
        self.file.close()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which no round begins")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=300, help="measured requests of a side in a round")
    parser.add_argument("--warm", type=int, default=20, help="requests before them that are not measured")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench/out"), help="folder for eager.csv and eager.md")
    parser.add_argument("--from", dest="earlier", type=pathlib.Path, nargs="+", default=[], metavar="EAGER.CSV", help="only make the table of these runs; also .csv.xz")
    parser.add_argument("--policy", default="detshare")
    parser.add_argument("--class", dest="class_", default="ls")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--device", default="cuda", help="PyTorch's device; cpu is for work on these programs")
    parser.add_argument("--program", default="eager", help="program of tests/torch, or the path of another one, without .py")
    parser.add_argument("words", nargs="*", help="models whose names contain one of these")
    options = parser.parse_args()
    options.build, options.socket, options.quick = options.build.resolve(), None, False
    options.daemon_device = os.environ.get("DETSHARE_TEST_DEVICE", "cuda:0")
    options.sides = options.sides.split(",")
    if not set(options.sides) <= set(SIDES):
        parser.error(f"--sides {','.join(options.sides)}: accepted are native, detshare, and native,detshare")
    return options


def joined(paths):
    """The runs behind each other, with all their rounds."""
    samples = Samples(paths[:1])
    for path in paths[1:]:
        samples.next_file(Samples([path]))
    return samples


def terminated(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def measured(options, tmp):
    """Runs the bench; returns it, closed."""
    daemon = compare.Daemon(options, tmp) if "detshare" in options.sides else None
    try:
        bench = Bench(options, tmp, daemon)
        try:
            bench.all(compare.listed(options.program, options))
        finally:
            bench.close()
    finally:
        if daemon:
            daemon.end()
    return bench


def main():
    options = arguments()
    if options.earlier:
        print(report(joined(options.earlier)))
        return 0
    signal.signal(signal.SIGTERM, terminated)
    tmp = pathlib.Path(tempfile.mkdtemp(prefix="detshare-eager."))
    tmp.chmod(0o755)
    try:
        bench = measured(options, tmp)
    except compare.Failed as error:
        say(f"eager_models: {error}")
        return 3
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    models = bench.samples.models()
    (options.out / "eager.md").write_text(report(bench.samples) + "\n", encoding="utf8")
    print(report(bench.samples))
    if not models:
        return 3
    return 1 if bench.failed or any(model.bytes == DIFFER for model in models) else 0


if __name__ == "__main__":
    sys.exit(main())
