#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The effect of divided memory channels on simulated GPUs: the experiments behind figures 16, 17 and 18 of the SGDRC
paper with our packs.

Nothing is executed: detshare-replay simulates kernels block by block with L2 and channels, and their times follow
from the packs (tests/eval/packs.py). Best effort has a third of the channels, as in the paper. Each figure is there
twice: with the simulator's default, where a request that waits for a full channel delays others as on an H200, and
with +apart, where it does not. Not simulated: the cost of translated addresses, and errors in tables. Needs packs
of all eleven models for sm_80 and sm_75 (make packs ARCH=...). The same arguments give the same figures.

usage: channels.py --build BUILD --packs DIR [--devices a2000,p40] [--figures 16,17,18] [--requests N] [--jobs N] [--out FILE.json] [--doc FILE.md]
                   [--instances N] [--shares 6,3,2] [--be NAMES] [--policies NAMES] [--loads NAMES] [--windows N] (of figure 18)
       channels.py --from FILE.json --doc FILE.md       the page again

DIR has a folder of packs per target: DIR/sm_80/bert, DIR/sm_75/bert, ... With several windows figure 18 is repeated
from as many places of the trace, and the effect of divided channels is given for the same requests of each window.
The differences between windows show how much such a run can tell.
"""
import argparse
import concurrent.futures
import itertools
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import document
import packs
import scenarios

LS = ("mobilenet_v3", "squeezenet", "shufflenet", "efficientnet", "resnet34", "mobilebert", "mobilevit", "efficientformer")
BE = ("resnet152", "densenet161", "bert")
POLICIES = ("multistream", "orion", "sgdrc-static", "sgdrc", "detshare")
LOADS = {"light": 25, "heavy": 50}  # load of all services together, percent of their capacity
VARIANTS = ("", "+apart")
COMMAND, COMMAND_WINDOWS = "make eval-channels", "make eval-channels-windows"
SOURCES = 2  # conflicting kernels per GPU
SEED = 16
BE_QUEUE = 4  # BE launches submitted ahead, before it is known whether LS work will run beside them


class Bench:
    def __init__(self, options, folder):
        self.build, self.packs, self.folder = options.build, options.packs, pathlib.Path(folder)
        self.pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
        self.number, self.models, self.bounds = 0, {}, {}

    def model(self, device, name):
        """A pack's launches, with registers."""
        if (device, name) not in self.models:
            folder = self.packs / packs.MODELS[device]["arch"] / name
            about, launches = packs.read(folder)
            used = packs.registers(folder, about)
            for one in launches:
                one.regs = used.get(one.kernel, 32)
            self.models[device, name] = launches
        return self.models[device, name]

    def file(self, text, suffix):
        self.number += 1
        path = self.folder / f"{self.number}.{suffix}"
        path.write_text(text, encoding="utf8")
        return path

    def replay(self, device, words):
        command = [str(self.build / "detshare-replay"), "--device", f"sim:{device}", "--json", "--no-alone", *map(str, words)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode not in (0, 3):  # 3: fifo replaced a policy, which the result says
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)["runs"]


def key_of(launch):
    return (launch.kernel, launch.grid, launch.flops, launch.bytes)


def distinct(launches):
    return list({key_of(one): one for one in launches}.values())


# --- one kernel beside another ----------------------------------------------------------------------------------------------------

def kernel_p99(bench, device, variant, one, other, channels, bound=True):
    """The 99th percentile of a kernel's time in ns, repeated on half of the SMs, beside another one on the other half."""
    model = packs.MODELS[device]
    own = packs.text("ls", device, [one], [bound], "a pack")
    words = ["--policy", "static,ls_percent=50", "--channels", channels, "--ls", f"{bench.file(own, 'profile')}@closed,name=ls"]
    if other:
        beside = packs.text("be", device, [other], [True], "a pack")
        words += ["--be", f"{bench.file(beside, 'profile')},name=be,queue=4"]
    alone_ns = max(ns_of(one, model), 1000) + 10000
    duration = max(150 * alone_ns, 8 * ns_of(other, model) if other else 0)
    trace = bench.file("", "trace")
    bench.replay(device + variant, words + ["--duration", f"{duration}ns", "--trace", trace])
    times = []
    for line in trace.read_text(encoding="utf8").splitlines():
        word = line.split(" ")
        if word[0] == "end" and word[2] == "ls":
            times.append(int(word[1]) - int(word[4].removeprefix("start=")))
    trace.unlink()
    times = sorted(times[len(times) // 10:])
    return times[min(len(times) - 1, int(len(times) * 0.99))] if times else 0


def ns_of(launch, model):
    return int(next(word for word in packs.line_of(0, launch, model, False).split() if word.startswith("ns=")).removeprefix("ns="))


def measure_bounds(bench, device, names):
    """Measures which kernels of the packs are memory-bound: those slowed by a thrasher."""
    thrash, every = packs.thrasher(packs.MODELS[device])[0], {}
    for name in names:
        every.update({key_of(one): one for one in bench.model(device, name)})

    def measured(item):
        alone, beside = (kernel_p99(bench, device, "", item[1], other, 0) for other in (None, thrash))
        return item[0], bool(alone) and beside >= packs.THRASHED * alone

    bench.bounds[device] = dict(bench.pool.map(measured, sorted(every.items())))
    return bench.bounds[device]


def bandwidth(launch, device):
    return launch.bytes / ns_of(launch, packs.MODELS[device])


def sources(bench, device):
    """Memory-bound kernels of the jobs with high throughput, drawn at random from the upper quarter."""
    every = [one for name in BE for one in distinct(bench.model(device, name)) if bench.bounds[device][key_of(one)] and one.bytes > 1 << 20]
    every.sort(key=lambda one: (-bandwidth(one, device), one.kernel, one.grid))
    return random.Random(SEED).sample(every[:max(SOURCES, len(every) // 4)], SOURCES)


def figure16(bench, device):
    third, rows = packs.MODELS[device]["channels"] // 3, []
    chosen = sources(bench, device)
    kernels = [(name, one) for name in LS for one in distinct(bench.model(device, name))]

    def measured(item):
        (name, one), source, variant = item
        bound = bench.bounds[device][key_of(one)]
        shared, apart = (kernel_p99(bench, device, variant, one, source, channels, bound) for channels in (0, third))
        return {"device": device, "variant": variant, "model": name, "kernel": one.kernel, "source": source.kernel, "bound": bound, "shared_ns": shared, "divided_ns": apart}

    items = [(kernel, source, variant) for variant in VARIANTS for source in chosen for kernel in kernels]
    rows = list(bench.pool.map(measured, items))
    return [row for row in rows if row["shared_ns"] and row["divided_ns"]]


# --- memory ---------------------------------------------------------------------------------------------------------------------

def bounds_text(bench, device, name):
    """Bounds in the format of detsharectl profile PACK --json."""
    lines = [{"kernel": one.kernel, "grid_x": one.grid[0], "grid_y": one.grid[1], "grid_z": one.grid[2],
              "bound": "memory" if bench.bounds[device][key_of(one)] else "compute"} for one in bench.model(device, name)]
    return json.dumps({"bounds": lines})


def figure17(bench, device):
    rows = []
    for name in LS + BE:
        folder = bench.packs / packs.MODELS[device]["arch"] / name
        for which in ("measured", "all"):
            bounds = bench.file(bounds_text(bench, device, name), "json") if which == "measured" else "all"
            done = subprocess.run([bench.build / "detshare-serve", folder, "--show", "--no-hash", "--json", "--bimodal", bounds], check=True, stdout=subprocess.PIPE, text=True)
            shown = json.loads(done.stdout)
            rows.append({"device": device, "model": name, "class": shown["pack_class"], "batch": shown["batch"], "bounds": which, "launches": shown["launches"], **shown["bimodal"]})
    return rows


# --- end to end -----------------------------------------------------------------------------------------------------------------

def profile_of(bench, device, name):
    launches = bench.model(device, name)
    return bench.file(packs.text(name, device, launches, [bench.bounds[device][key_of(one)] for one in launches], "a pack"), "profile")


def alone_of(bench, device, profile):
    first = bench.replay(device, ["--policy", "fifo", "--channels", 0, "--duration", "60ms", "--ls", f"{profile}@closed"])[0]["sessions"][0]
    return {"rate": 1000 / first["p50_ms"], "p99_ms": first["p99_ms"]}


def be_alone(bench, device, profile):
    """Steps per second of a job alone."""
    first = bench.replay(device, ["--policy", "fifo", "--channels", 0, "--duration", "2s", "--be", f"{profile},queue={BE_QUEUE}"])[0]["sessions"][0]
    return first["steps_per_s"]


def dealt(bench, n, window, windows):
    """Files of arrival times: the trace's requests from one of `windows` places on, dealt to n instances of a service
    in turn.
    """
    at, now, gaps = [], 0.0, json.loads(scenarios.APOLLO.read_text(encoding="utf8"))
    first = len(gaps) * window // windows
    for gap in gaps[first:] + gaps[:first]:
        now += gap
        at.append(now)
    return [bench.file("".join(f"{time:.9f}\n" for time in at[i::n]), "times") for i in range(n)], len(at) / now


def services18(options, bench, profiles, alone, rates, window):
    """Arguments of the replay; the instances of a service share its requests."""
    plain = options.instances == options.windows == 1
    traces, rate = ([scenarios.APOLLO], None) if plain else dealt(bench, options.instances, window, options.windows)
    gaps, words = json.loads(scenarios.APOLLO.read_text(encoding="utf8")), []
    for name in LS:
        speed = rates[name] / (rate or len(gaps) / sum(gaps))
        for i, trace in enumerate(traces):
            own = name if len(traces) == 1 else f"{name}-{i}"
            words += ["--ls", f"{profiles[name]}@{trace},speed={speed:.6f},name={own},slo={(len(LS) + 1) * alone[name]['p99_ms']:.6f}ms"]
    return words


def figure18(bench, device, options):
    shares = [packs.MODELS[device]["channels"] // of for of in options.shares]
    profiles = {name: profile_of(bench, device, name) for name in LS + BE}
    alone = {name: alone_of(bench, device, profiles[name]) for name in LS}
    jobs = {name: be_alone(bench, device, profiles[name]) for name in options.be}

    def cell(item):
        job, load, channels, variant, window = item
        rates = {name: alone[name]["rate"] * LOADS[load] / 100 / len(LS) for name in LS}
        words = ["--channels", channels, "--profiled", "--transform", "--compare", ",".join(options.policies)] + services18(options, bench, profiles, alone, rates, window)
        words += ["--be", f"{profiles[job]},name=be,queue={BE_QUEUE}", "--duration", f"{max(options.requests / min(rates.values()), 0.5):.4f}s"]
        return [dict(row18(device, variant, job, load, channels, run, alone, jobs[job], options.instances), window=window) for run in bench.replay(device + variant, words)]

    items = list(itertools.product(options.be, options.loads, [0] + shares, VARIANTS, range(options.windows)))
    return [row for rows in bench.pool.map(cell, items) for row in rows]


def row18(device, variant, job, load, channels, run, alone, job_alone, instances):
    n = len(LS) * instances
    ls, be = run["sessions"][:n], run["sessions"][n]
    arrived = sum(s["arrived"] for s in ls)
    return {"device": device, "variant": variant, "job": job, "load": load, "channels": channels, "policy": run["policy"], "arrived": arrived, "instances": instances,
            "p99_over_alone": statistics.geometric_mean(s["p99_ms"] / alone[LS[i // instances]]["p99_ms"] for i, s in enumerate(ls)),
            "in_slo": sum(s["in_slo_percent"] * s["arrived"] for s in ls) / arrived, "be": be["steps_per_s"] / job_alone}


# --- the page ------------------------------------------------------------------------------------------------------------------

def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * part))]


def named(device, variant):
    return f"`sim:{device}{variant}`"


def lines16(rows):
    table = []
    paper = {"p40": "28.7 / 135", "a2000": "47.5 / 106.3"}
    for device, variant in dict.fromkeys((row["device"], row["variant"]) for row in rows):
        own = [row for row in rows if (row["device"], row["variant"]) == (device, variant)]
        for what, chosen in (("all kernels", own), ("those that memory bounds", [row for row in own if row["bound"]])):
            gains = [100 * (row["shared_ns"] / row["divided_ns"] - 1) for row in chosen]
            if gains:
                table.append([named(device, variant), what, str(len(gains)), f"{statistics.fmean(gains):.1f}", f"{quantile(gains, 0.1):.1f}", f"{quantile(gains, 0.5):.1f}",
                              f"{quantile(gains, 0.9):.1f}", f"{max(gains):.1f}", paper[device] if what == "all kernels" else ""])
    return ["## Figure 16: a kernel of a service beside a memory-bound kernel of a job", ""] + paragraphs(
        "In the experiment of figure 16, a service's kernel and a job's kernel each run again and again on half of the SMs. The table compares the p99 of the service's kernel in two cases: service and job both use all memory channels, or the job has a third of the channels and the service the rest. A figure of the table says by how many percent the p99 of the service's kernel is higher when both use all channels. A negative figure means that dividing channels makes the service's kernel slower.",
        f"The experiment of figure 16 covers all different kernels and sizes of the eight services. The job's kernels are drawn at random from the quarter of the jobs' kernels with the most bytes per second (seed {SEED}). The last column of the table has the mean and the maximum of the percentage in the SGDRC paper.") + document.table(["GPU", "kernels", "pairs", "mean", "p10", "median", "p90", "most", "paper: mean / most"], table)


def mib(value):
    return f"{value / 2**20:.1f}"


def lines17(rows):
    table = []
    for row in rows:
        if row["device"] != rows[0]["device"]:
            continue
        if row["bounds"] == "measured":
            other = next(r for r in rows if (r["device"], r["model"], r["bounds"]) == (row["device"], row["model"], "all"))
            moves = row["class"] == "ls"
            base, apart, twice = row["weights"] + row["arena"], other["weights"] + other["arena_apart"], other["weights"] + other["weights_again"]
            ratio = lambda r, arena, again: (r["weights"] + (0 if moves else r["weights_again"]) + r[arena] + r[again]) / base
            table.append([f"`{row['model']}`", str(row["batch"]), f"{row['memory_bound_launches']} of {row['launches']}", f"{mib(row['weights'])} + {mib(row['arena'])}", mib(row["arena_apart"]),
                          f"{mib(row['weights_again'])}{' (moved)' if moves else ''} + {mib(row['arena_again'])}", f"{ratio(row, 'arena', 'arena_again'):.2f}", f"{ratio(other, 'arena', 'arena_again'):.2f}",
                          f"{(twice + other['arena_apart'] + other['arena_again_apart']) / apart:.2f}", f"{(twice + other['arena'] + other['arena_again']) / apart:.2f}"])
    return ["## Figure 17: memory of bimodal tensors", ""] + paragraphs(
        f"The table shows how much memory the model packs take (weights + intermediate tensors, MiB) for `sim:{rows[0]['device']}`. `detshare-serve --show --bimodal` computes these amounts of memory from the model packs; they are not measured.",
        "The column *memory-bound* counts launches that take 1.2 times as long beside a kernel that thrashes L2 (sim). A bimodal tensor has a place in memory of all channels and a second place in memory of some channels; the column *again* is the memory of the second places. A service holds only one copy of its weights and moves the copy between the two places.",
        "The column *times* is the memory with second places for the tensors of memory-bound kernels, over the memory without second places. The column *if all* is the memory with second places for the tensors of all kernels, over the memory without second places. In the columns *times* and *if all*, intermediate tensors that are not in use at the same time share memory.",
        "The column *apart* is the ratio *if all* without any sharing of memory among intermediate tensors. The column *reused* is the memory with second places and with sharing, over the memory without second places and without sharing. The columns *apart* and *reused* count both copies of the weights of a service.",
        "The SGDRC paper prints no numbers for its figure 17. For the column *apart* the text of the paper says \"nearly double\". The paper also says that reuse of memory removes much of the increase, most of all for the jobs, which have larger batches.") + document.table(
                ["model", "batch", "memory-bound", "plain", "intermediates apart", "again", "times", "if all", "apart", "reused"], table)


def parts18(rows):
    """Channels of the job in these rows, as parts of the GPU's channels; 0: all are shared."""
    return {channels: f"1/{packs.MODELS[rows[0]['device']]['channels'] // channels}" if channels else "all" for channels in sorted({row["channels"] for row in rows})}


def windows18(rows):
    """The effect of divided channels on the same requests, window by window."""
    key = lambda row: (row["device"], row["variant"], row["policy"], row["load"])
    whole = {(key(row), row["job"], row["window"]): row for row in rows if not row["channels"]}
    table, loads = [], " and ".join(sorted({row["load"] for row in rows}))
    for cell in dict.fromkeys(map(key, rows)):
        for channels, part in parts18([row for row in rows if key(row) == cell]).items():
            pairs = [(row, whole[cell, row["job"], row["window"]]) for row in rows if key(row) == cell and row["channels"] == channels]
            if not channels:
                said = span([row["p99_over_alone"] for row, _ in pairs])
                slo, be = span([row["in_slo"] for row, _ in pairs], 1), span([row["be"] for row, _ in pairs])
            else:
                said = span([row["p99_over_alone"] / before["p99_over_alone"] for row, before in pairs])
                slo, be = span([row["in_slo"] - before["in_slo"] for row, before in pairs], 1, "+"), span([row["be"] / before["be"] for row, before in pairs])
            table.append([named(*cell[:2]), f"`{cell[2]}`", cell[3], part if channels else "all", said, slo, be])
    n, instances = len({row["window"] for row in rows}), rows[0]["instances"]
    arrived = sorted(row["arrived"] for row in rows)
    return ["# Memory channels on simulated GPUs: several instances of each service (sim)", ""] + paragraphs(
        f"This page simulates the experiment of figure 18 of the SGDRC paper, with the same requests with and without divided memory channels. Each service has {instances} instances, which take its requests in turn; {loads} "
        f"load; jobs: {', '.join(sorted({row['job'] for row in rows}))}. "
        f"Each configuration runs {n} times, from different places of the Apollo trace, with about {arrived[len(arrived) // 2]} requests in each run.",
        "In rows with *all* in the column *channels*, services and job use all memory channels. These rows have the services' p99 over their p99 alone (geometric mean over instances), the percentage of requests within their SLO, and the job's throughput over its throughput alone. In rows with a part in the column *channels*, such as 1/3, the job uses only that part of the memory channels. The figures of a row with a part of the channels are relative to the row *all* above it: the ratio of the p99s, the difference of the shares within the SLO in percentage points, and the ratio of the job's throughputs.",
        "Each figure is the median over the runs from different places of the trace, with [least, most]. If the range from least to most contains 1 (for differences: 0), the figure supports no claim. [../channels/paper.md](../channels/paper.md) "
        "discusses the figures of this page.") + document.table(
                ["GPU", "policy", "load", "channels", "p99", "in SLO", "BE"], table)


def span(values, digits=2, sign=""):
    return f"{statistics.median(values):{sign}.{digits}f} [{min(values):{sign}.{digits}f}, {max(values):{sign}.{digits}f}]"


def lines18(rows):
    if len({row.get("window", 0) for row in rows}) > 1:
        return windows18(rows)
    instances = rows[0].get("instances", 1)
    works = "In the simulation of figure 18 a service works on one request at a time (the SGDRC paper has four instances of each service)." if instances == 1 else f"Each service has {instances} instances, which take its requests in turn."
    parts = " / ".join(parts18([row for row in rows if row["device"] == rows[0]["device"]]).values())
    lines = ["## Figure 18: the services beside a job", ""] + paragraphs(
        f"In the experiment of figure 18, all eight services run beside one job at a time. Requests arrive as in the Apollo trace. The load of all services together is a quarter (light) or half (heavy) of their capacity. {works}",
        "The columns *p99 over alone* have the service's p99 over its p99 alone, as the geometric mean over services and jobs. The columns *in SLO* have the share of requests that end within nine times the service's p99 alone. The columns *BE* have the job's throughput over its throughput alone, as the mean over jobs.",
        f"Each cell has two figures: {parts.replace('all', 'all channels for everybody').replace('1/3', 'a third')} of the channels for the memory-bound tensors of the job during requests, and the other channels for the memory-bound tensors of the services.",
        "In the SGDRC paper, 99.0% of requests end within the SLO under SGDRC on average. The BE throughput under SGDRC in the paper is up to 2.36 (P40) and 1.79 (A2000) times that under Orion. All of these figures in the paper are with divided channels; the paper does not measure SGDRC without divided channels.")
    for device, variant in dict.fromkeys((row["device"], row["variant"]) for row in rows):
        table, here = [], [row for row in rows if (row["device"], row["variant"]) == (device, variant)]
        for policy in dict.fromkeys(row["policy"] for row in here):
            cells = [f"`{policy}`"]
            for load in LOADS:
                own = [[row for row in here if (row["policy"], row["load"], row["channels"]) == (policy, load, channels)] for channels in parts18(here)]
                each = lambda value: " / ".join(value(group) for group in own)
                cells += [each(lambda g: f"{statistics.geometric_mean(r['p99_over_alone'] for r in g):.2f}"), each(lambda g: f"{statistics.fmean(r['in_slo'] for r in g):.1f}%"),
                          each(lambda g: f"{statistics.fmean(r['be'] for r in g):.3f}")]
            table.append(cells)
        lines += [f"The next table has the results of figure 18 on {named(device, variant)}:", ""] + document.table(["policy"] + [f"{load}: {what}" for load in LOADS for what in ("p99 over alone", "in SLO", "BE")], table) + [""]
    return lines


def paragraphs(*texts):
    return [line for words in texts for line in [*document.paragraph(words), ""]]


def page(found):
    """The page with all tables; if several windows were measured, only the tables of the windows."""
    if any(row.get("window") for row in found.get("18", [])):
        return lines18(found["18"])
    lines = ["# Memory channels on simulated GPUs (sim)", ""] + paragraphs(
        "Every figure of this page comes from a simulator (`sim`), except figures from the SGDRC paper, which the paper's authors measured on their GPUs. `tests/eval/packs.py` computes from the model packs how long kernels take on the simulated GPUs, by a rule that was fixed before the first simulation. No constant of the simulation was chosen to match the SGDRC paper. In this simulation the address translation of coloured memory costs nothing, and the simulator knows the channel of every address without error.",
        "On the devices `sim:MODEL`, a memory access that waits for a full channel also delays accesses to other channels. The size of the delay of accesses to other channels was measured on an H200, and the simulator uses it for all GPU models. On the devices `sim:MODEL+apart`, a memory access that waits for a full channel does not delay accesses to other channels. It is unknown which of the two behaviours a P40 or an A2000 has; the gain from divided channels in the SGDRC paper suggests the behaviour of `+apart`.",
        "[../channels/paper.md](../channels/paper.md) discusses the results of the tables on this page.")
    for name, write in (("16", lines16), ("17", lines17), ("18", lines18)):
        if found.get(name):
            lines += write(found[name]) + [""]
    return lines


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--packs", type=pathlib.Path, default=pathlib.Path("build/packs"))
    parser.add_argument("--devices", default="p40,a2000")
    parser.add_argument("--figures", default="16,17,18")
    parser.add_argument("--requests", type=int, default=60, help="requests of the slowest service in a cell of figure 18")
    parser.add_argument("--instances", type=int, default=1, help="instances of each service in figure 18; the paper has 4")
    parser.add_argument("--shares", type=lambda text: [int(of) for of in text.split(",")], default=[3], help="figure 18: the job has 1/N of the channels, for each N of this list")
    parser.add_argument("--be", type=lambda text: text.split(","), default=list(BE), help="the jobs of figure 18")
    parser.add_argument("--policies", type=lambda text: text.split(","), default=list(POLICIES))
    parser.add_argument("--loads", type=lambda text: text.split(","), default=list(LOADS), help="loads of figure 18")
    parser.add_argument("--windows", type=int, default=1, help="figure 18: number of places of the trace from which it starts")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--from", dest="source", type=pathlib.Path)
    parser.add_argument("--doc", type=pathlib.Path)
    options = parser.parse_args()
    options.build, options.packs = options.build.resolve(), options.packs.resolve()
    return options


def run(options):
    found = {figure: [] for figure in options.figures.split(",")}
    with tempfile.TemporaryDirectory(prefix="detshare-channels.") as folder:
        bench = Bench(options, folder)
        for device in options.devices.split(","):
            measure_bounds(bench, device, LS + BE)
            for figure, rows in found.items():
                print(f"{device}: figure {figure}", file=sys.stderr, flush=True)
                rows += figure16(bench, device) if figure == "16" else figure17(bench, device) if figure == "17" else figure18(bench, device, options)
    return found


def main():
    options = arguments()
    found = json.loads(options.source.read_text(encoding="utf8")) if options.source else run(options)
    if options.out:
        options.out.write_text(json.dumps(found, indent=0), encoding="utf8")
    if options.doc:
        document.whole(options.doc, COMMAND_WINDOWS if any(row.get("window") for row in found.get("18", [])) else COMMAND, page(found))
    else:
        print("\n".join(page(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
