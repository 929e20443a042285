#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/performance.md: what DetShare costs and gains beside native runs, from the files of the benches on a GPU.

With --from, the figures of the folders (BENCH_OUT of tests/bench/gpu.sh; for `make bench` a folder with bench*.json)
replace those of the same parts in the folder beside the document: docs/performance for docs/performance.md. Several
folders are runs of one set of figures. Then, and without --from, the page, its plots, and the section `eager` of
README.md, where it has one, are written from that folder. A part without figures has no section.

Exit status: 0, 1 if --check finds a difference, 3 if the folders have no figures, or figures of no GPU (--simulated
takes those, too).

usage: performance.py [--from FOLDER...] [--doc FILE.md] [--readme FILE.md]      (`make performance-page`)
       performance.py --check
"""
import argparse
import pathlib
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / folder) for folder in ("torch", "eval", "bench")]
sys.dont_write_bytecode = True

import document  # noqa: E402
import eager_models  # noqa: E402
import first_times  # noqa: E402
import performance_data  # noqa: E402
import performance_plots as plots  # noqa: E402

COMMAND = plots.COMMAND
TIMES, MOST, LEAST, MORE = "times", "most", "least", "more"  # kinds of goals: see Goal


class Goal:
    """A goal for DetShare's figure: its relative time is at most `number` (TIMES); it is at most (MOST) or at least (LEAST)
    `number`; or it is at most native's plus `number` (MORE)."""

    def __init__(self, kind, number):
        self.kind, self.number = kind, number

    def met(self, figure):
        shared, native = figure.of("detshare"), figure.of("native")
        if self.kind == TIMES:
            return figure.ratio is None or round(figure.ratio, 2) <= self.number
        if self.kind == MORE:
            return native is None or shared <= native + self.number
        return shared <= self.number if self.kind == MOST else shared >= self.number

    def words(self, unit):
        if self.kind == TIMES:
            return f"at most {self.number:g}"
        value = shown(self.number, unit)
        return f"native + {value}" if self.kind == MORE else f"at {self.kind} {value}"


ALWAYS = Goal(TIMES, 1.0)
GOALS = {
    "launch_p50": Goal(MOST, 0.15), "launch_sync_p50": ALWAYS, "launches_per_s": ALWAYS, "launches_changing_per_s": ALWAYS, "clients_1_launches": ALWAYS, "changing_1_launches": ALWAYS,
    "clients_8_launches": Goal(LEAST, 1e6), "changing_8_launches": Goal(LEAST, 1e6), "idle_daemon": Goal(MOST, 0.5), "copy_4KiB_to_device_p50": Goal(MORE, 3), "copy_4KiB_to_host_p50": Goal(MORE, 3)}
PREFIXES = {"pageable_": ALWAYS, "alloc_": ALWAYS, "pinned_h2d": Goal(TIMES, 1.11), "pinned_d2h": Goal(TIMES, 1.11), "module_": Goal(TIMES, 1.1), "start_": Goal(TIMES, 1.1)}
LABELS = {
    "launch_p50": "`cuLaunchKernel`, time in the client, p50", "launch_p99": "the same, p99",
    "launch_sync_p50": "launch and synchronise, p50", "launch_sync_p99": "the same, p99",
    "launches_per_s": "launches of one client", "launches_changing_per_s": "the same, each with another argument",
    "clients_1_launches": "launches of one client for some seconds", "clients_8_launches": "launches of 8 clients for some seconds",
    "changing_1_launches": "launches of one client for some seconds, each with another argument", "changing_8_launches": "launches of 8 clients for some seconds, each with another argument",
    "elapsed_of_100us_p50": "events around 100 us, p50", "elapsed_of_100us_p99": "the same, p99",
    "elapsed_of_1000us_p50": "events around 1 ms, p50", "elapsed_of_1000us_p99": "the same, p99",
    "pinned_alloc_largest": "`cuMemHostAlloc`, 256 MiB", "start_context": "`cuInit` to a current context",
    "module_cubin_first": "machine code, first time", "module_cubin_again": "machine code, again", "module_ptx_new": "PTX, first time", "module_ptx_again": "PTX, again",
    "idle_daemon": "daemon without clients, of one core"}
WAYS = {"pinned_h2d_": "pinned to device, ", "pinned_d2h_": "device to pinned, ", "pageable_h2d_": "pageable to device, ", "pageable_d2h_": "device to pageable, ",
        "copy_4KiB_to_device_": "`cuMemcpyHtoD`, 4 KiB, ", "copy_4KiB_to_host_": "`cuMemcpyDtoH`, 4 KiB, ", "alloc_": "`cuMemAlloc`, ", "free_": "`cuMemFree`, "}
WHO = {"client": "program", "worker": "worker", "superv": "supervisor"}


def label(name):
    if name in LABELS:
        return LABELS[name]
    for prefix, words in WAYS.items():
        if name.startswith(prefix):
            return words + name.removeprefix(prefix).replace("iB", " iB").replace("K iB", " KiB").replace("M iB", " MiB").replace("G iB", " GiB")
    words = name.split("_")
    if words[0] in ("clients", "changing") and words[2] == "cpu":
        return f"a launch{' with another argument' if words[0] == 'changing' else ''} of {'one of 8 clients' if words[1] == '8' else 'one client'}: {WHO[words[3]]}"
    return f"`{name}`"


def goal_of(name):
    return GOALS.get(name) or next((goal for prefix, goal in PREFIXES.items() if name.startswith(prefix)), None)


def shown(value, unit):
    if value is None:
        return "-"
    if unit == "us":
        return first_times.number(value)
    if unit == "ns":
        return f"{value:.1f} ns"
    if unit in ("1/s", "per s", ""):
        return f"{value:,.0f}{'/s' if unit else ''}"
    return f"{value:,.{3 if value < 1 else 2 if value < 10 else 1}f}{'' if unit == '%' else ' '}{unit}"


def times(ratio):
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


# --- sections ---------------------------------------------------------------------------------------------------------

class Page:
    """The lines of the page and its plots, {file name: SVG}."""

    def __init__(self, data, folder):
        self.data, self.folder, self.lines, self.plots, self.pages = data, folder, [], {}, {}

    def say(self, *texts):
        for text in texts:
            self.lines += ["", *document.paragraph(text)]

    def title(self, text):
        self.lines += ["", f"## {text}"]

    def table(self, head, rows):
        self.lines += ["", *document.table(head, rows)]

    def plot(self, name, words, text):
        self.plots[name] = text
        self.lines += ["", f"![{words}]({self.folder}/{name})"]

    def command(self, parts, *commands):
        """The machines of these parts, and the commands that measure them."""
        said = []
        for part in parts:
            for machine in self.data.of_machines(part):
                rounds = machine["note"] or count(self.rounds(part), "round")
                said.append(", ".join(filter(None, [machine["device"], f"driver {machine['driver']}" if machine["driver"] else "",
                                                    f"{machine['processors']} processors" if machine["processors"] else "", machine["date"], rounds])))
        if said:
            self.say("Measured on: " + "; ".join(dict.fromkeys(said)) + ".")
        self.lines += ["", *(f"    {command}" for command in commands)]

    def rounds(self, part):
        if part == "eager":
            return max((model.rounds for model in self.data.eager.models()), default=0)
        if part == "first":
            return max((n for *_, n, m in self.data.first_samples().lines()), default=0)
        return self.data.rounds(part)

    def figures(self, chosen, plot, title):
        """The table of these figures, {name: Figure}, and a plot of those that have a ratio."""
        rows, dots = [], []
        for name, figure in chosen.items():
            goal, by_round = goal_of(name), figure.by_round
            missed = goal is not None and not goal.met(figure)
            words = "" if goal is None else f"**{goal.words(figure.unit)}**" if missed else goal.words(figure.unit)
            rows.append([label(name), shown(figure.of("native"), figure.unit), shown(figure.of("detshare"), figure.unit), "-" if figure.ratio is None else times(figure.ratio),
                         f"{times(min(by_round))} to {times(max(by_round))}" if len(by_round) > 1 else "-", words])
            if figure.ratio:
                dots.append((label(name) if not label(name).startswith("the same") else f"{rows[-2][0].removesuffix(', p50')}, p99", figure.ratio, by_round, missed))
        if plot and dots:
            self.plot(plot, title, plots.ratios(title, dots))
        self.table(("figure", "native", "DetShare", "relative time", "by round", "goal"), rows)


def count(n, word):
    return f"{n} {word}{'s' if n != 1 else ''}"


def chosen(figures, *prefixes):
    return {name: figure for name, figure in figures.items() if name.startswith(prefixes) and "_cpu_" not in name}


def launches(page):
    figures = page.data.figures("figures") | page.data.figures("clients")
    own = chosen(figures, "launch", "clients_", "changing_", "elapsed_")
    if own:
        page.title("Launches and events")
        page.say("A launch is an empty kernel of one block. In the figures of a rate, each client launches kernels without waiting, and one synchronisation ends them. Where the same kernels are launched again and again, with the same arguments or others, DetShare launches them as graphs (`daemon/worker/repeat.h`).")
        page.figures(own, "launches.svg", "Launches and events")
        page.command([part for part in ("figures", "clients") if page.data.figures(part)], "tests/bench/gpu.sh build figures clients")


def costs(page, own, title, text, picture, alt=None):
    """A section of the part `figures`, if it has these figures."""
    if own:
        page.title(title)
        page.say(text)
        page.figures(own, picture, alt or title)
        page.command(["figures"], "tests/bench/gpu.sh build figures")


def copies(page):
    costs(page, chosen(page.data.figures("figures"), "pinned_h2d", "pinned_d2h", "pageable", "copy_"), "Copies",
          "Each copy ends with a synchronisation of its stream; copies of 4 KiB are synchronous calls on an idle GPU.", "copies.svg")


def memory(page):
    costs(page, chosen(page.data.figures("figures"), "alloc_", "free_", "pinned_alloc"), "Device memory",
          "The program holds other memory meanwhile, and frees each block before it allocates the next one.", "memory.svg",
          "Allocating and freeing device memory")


def modules(page):
    costs(page, chosen(page.data.figures("figures"), "start_", "module_"), "Contexts and modules",
          "A module is loaded, one of its kernels is launched, and the module is unloaded; the time ends with the kernel.", "modules.svg")


def first(page):
    if not page.data.first:
        return
    samples, groups = page.data.first_samples(), {}
    for group, row, stage, _, _, ratio, *_ in samples.lines():
        if ratio:
            groups.setdefault(group, {}).setdefault(stage, {})[row] = ratio
    texts = {group.name: group.text for group in first_times.GROUPS}
    page.title("First times")
    page.say("New processes call each function for the first time. At the stage *cold*, every cache is empty; at the stage *again*, a second process finds the "
             f"caches that the first one left. The goal is at most {first_times.GOAL} of native at the same stage. {samples.verdict().capitalize()}. "
             f"[The appendix]({page.folder}/first-times.md) has every row.")
    page.plot("first.svg", "first times", plots.crowds("First times", {name: {stage: list(own.values()) for stage, own in stages.items()} for name, stages in groups.items()},
                                                       first_times.GOAL))
    rows = []
    for name, stages in groups.items():
        cells = []
        for stage in first_times.STAGES:
            own = stages.get(stage, {})
            cells += [f"{sum(ratio <= first_times.GOAL for ratio in own.values())} of {len(own)}", f"{statistics.median(own.values()):.2f}" if own else "-"]
        again = stages.get("again") or stages.get("cold")
        worst = max(again, key=again.get)
        rows.append([f"`{name}`: {texts.get(name, '')}", *cells, f"`{worst}` {again[worst]:.2f}"])
    page.table(("group", "cold, goal met", "median", "again, goal met", "median", "slowest again"), rows)
    page.pages["first-times.md"] = ["# Appendix: first times, row by row", "", *document.paragraph(
        "[The page of performance](../performance.md#first-times) explains the stages. Times are medians over rounds; ratios above the goal are bold."), "", *samples.sections()]
    page.command(["first"], "tests/bench/gpu.sh build first        # or tests/bench/first_times.py --rows GROUP,...")


def eager_models_of(page):
    return [model for model in page.data.eager.models() if model.ratio is not None]


def eager(page):
    models = eager_models_of(page)
    if not models:
        return
    page.title("Eager PyTorch")
    page.say(f"A request is one forward pass at batch 1 with one synchronisation, in eager mode: every operation is a launch. The service has the class `ls` and the policy "
             f"`detshare`, and nothing else runs. *GPU busy* is the time of the request's kernels over the native p50. The host is the limit where the GPU is busy for less than "
             f"{eager_models.HOST} of it; there the goal is a ratio of at most {eager_models.HOST}, elsewhere of at most {eager_models.ANY:g}. {eager_models.verdict(models).capitalize()}.")
    page.plot("eager.svg", "latency of requests to eager PyTorch models", plots.eager("Requests to eager PyTorch models at batch 1, p50", models))
    page.lines += ["", *eager_models.table(models)]
    page.command(["eager"], "tests/bench/gpu.sh build eager        # or tests/bench/eager_models.py MODEL...")


def processor(page):
    figures = page.data.figures("clients")
    own = {name: figure for name, figure in figures.items() if "_cpu_" in name or name == "idle_daemon"}
    if own:
        page.title("Processor time")
        page.say("Processor time of a launch: of the program with all its threads, and of the daemon's two processes.")
        page.figures(own, "", "Processor time")
        page.command(["clients"], "tests/bench/gpu.sh build clients")


def requests_table(page, rows, head):
    """rows: (text, figures of the side, side, last column); a line of the table per row, and a dot pair for the plot."""
    lines, dots = [], []
    for text, figures, side, last in rows:
        values = {name: figures[name].of(side) for name in figures}
        if None in (values.get("alone_p99"), values.get("beside_p99")):
            continue
        lines.append([text, *(f"{values[f'{when}_{what}']:,.1f}" for when in ("alone", "beside") for what in ("p50", "p99", "max")),
                      f"{values['beside_p99'] / values['alone_p99']:.2f}", last])
        dots.append((text, values["alone_p99"], values["beside_p99"]))
    page.table(("latency, us", "alone p50", "p99", "max", "beside p50", "p99", "max", "p99 beside / alone", head), lines)
    return dots


def neighbours(page):
    delay, dots = page.data.figures("delay"), []
    loops = [("natively", page.data.figures("nativeloop"), "native"), ("DetShare", page.data.figures("loop"), "detshare")]
    if not delay and not any(figures for _, figures, _ in loops):
        return
    page.title("Beside other programs")
    at = len(page.lines)
    names = {"native": "natively", "multistream": "policy `multistream`", "static": "policy `static`"}
    if delay:
        page.say("**Blocks that hold every SM.** The service launches a kernel of 16 blocks and waits for it, 2,000 times. The job's blocks of 1,024 threads hold every SM for 2 ms "
                 "each. The last column has the job's kernels per second.")
        dots += [(f"{text}, held SMs", *two) for text, *two in requests_table(
            page, [(names.get(side, side), delay, side, f"{delay['be_kernels'].of(side):.1f}" if "be_kernels" in delay and delay["be_kernels"].of(side) else "-")
                   for side in page.data.sides("delay")], "job")]
    if any(figures for _, figures, _ in loops):
        page.say("**Programs that start and end.** The service sends 5,000 requests of 28 kernels and one synchronisation, 5 ms apart, under the policy `multistream`. Beside it, programs "
                 "start one after another: each loads two modules, allocates and copies memory, launches kernels, frees everything and ends. The last column has their number.")
        dots += [(f"{text}, programs start and end", *two) for text, *two in requests_table(
            page, [(text, figures, side, f"{figures['programs'].of(side):.0f}" if "programs" in figures else "-") for text, figures, side in loops if figures], "programs")]
    if dots:
        picture = plots.pairs("Beside other programs", "p99 of the service's requests: grey alone, blue beside the other programs", dots, " us")
        page.plots["neighbours.svg"] = picture
        page.lines[at:at] = ["", f"![p99 of a service alone and beside other programs]({page.folder}/neighbours.svg)"]
    page.command([part for part in ("delay", "loop", "nativeloop") if page.data.figures(part)], "tests/bench/gpu.sh build delay loop nativeloop")


def host(page):
    figures = page.data.figures("host")
    if not figures:
        return
    page.title("Without a GPU")
    page.say("`make bench` measures the daemon's own paths on a simulated device that executes no kernels. Figures with the unit *times* compare a path with the same path "
             "without a daemon: a record through a bare ring in shared memory, and a round trip over a bare socket pair, between two processes, measured in the same run. "
             "The times are sim: they say nothing about a GPU.")
    names = {who: f"processor time of a launch: {who}" for who in ("worker", "supervisor")}  # as `make bench` means them
    rows = []
    for name, figure in figures.items():
        values = figure.values["detshare"].values()
        by_round = f"{shown(min(values), figure.unit)} to {shown(max(values), figure.unit)}" if len(values) > 1 else "-"
        rows.append([names.get(name, name), shown(figure.of("detshare"), figure.unit), by_round])
    page.table(("path", "sim", "by round"), rows)
    page.command(["host"], "make bench")


SECTIONS = (launches, copies, memory, modules, first, eager, processor, neighbours, host)


def page_of(data, folder):
    page = Page(data, folder)
    page.lines = ["# Performance"]
    page.say("This page compares DetShare with native runs of the same programs on the same GPU. `make bench-gpu` measures everything and writes this page. "
             "Natively and under DetShare the programs run alternately, or one after the other, in the same run.",
             "A figure is the median over all rounds. *Relative time* is DetShare's time over native's; for rates it is the inverse of their ratio. So below 1 DetShare is faster. *By round* has the "
             "smallest and the largest relative time of a round. A goal in bold type is missed. Each section ends with the machine and the command of its figures; "
             "`make bench-gpu-build` builds the programs.",
             "[gpu/measured.md](gpu/measured.md) has measurements of single mechanisms, and [evaluation.md](evaluation.md) compares policies with MPS and native time-slicing.")
    if data.simulated():
        page.say(f"On {', '.join(data.simulated())}: the figures say nothing about a GPU.")
    for section in SECTIONS:
        section(page)
    return page


def readme_rates(page):
    """A sentence about the launch rates, or no line without them."""
    rates = [figure.ratio for name in ("changing_1_launches", "changing_8_launches") if (figure := page.data.figures("clients").get(name)) and figure.ratio]
    if len(rates) < 2:
        return []
    return [*document.paragraph(f"A loop of small kernels, each launch with another argument, runs {1 / rates[0]:.1f} times as fast as natively; eight programs at a time, "
                                f"{1 / rates[1]:.1f} times (`docs/performance.md`)."), ""]


def readme_lines(page):
    """The section of README.md; no line without figures of eager models."""
    models = eager_models_of(page)
    if not models:
        return readme_rates(page)
    limited = [model.ratio for model in models if model.goal == eager_models.HOST]
    said = f"where the host is the limit ({len(limited)} of {len(models)}), its median is {statistics.median(limited):.2f}" if limited else "the host limits none of them"
    return [*readme_rates(page), *document.paragraph(f"Eager PyTorch at batch 1, alone on the GPU: p50 under DetShare over native is {min(m.ratio for m in models):.2f} to {max(m.ratio for m in models):.2f}; {said} "
                                f"(`docs/performance.md`)."), f"![requests to eager PyTorch models](docs/{page.folder}/eager.svg)"]


# --- files -----------------------------------------------------------------------------------------------------------

def write(page, doc):
    """Writes the page, its plots and its appendices; removes plots that the page no longer has."""
    folder = doc.parent / page.folder
    folder.mkdir(parents=True, exist_ok=True)
    document.whole(doc, COMMAND, page.lines)
    for old in [*folder.glob("*.svg"), *folder.glob("*.md")]:
        if old.name not in page.plots | page.pages:
            old.unlink()
    for name, text in page.plots.items():
        (folder / name).write_text(text, encoding="utf8")
    for name, lines in page.pages.items():
        document.whole(folder / name, COMMAND, lines)


def stale(page, doc, readme):
    """Names of files that differ from what the figures give."""
    with tempfile.TemporaryDirectory() as other:
        fresh = pathlib.Path(other) / doc.name
        write(page, fresh)
        names = {path.relative_to(other) for path in pathlib.Path(other).rglob("*") if path.is_file()}
        names |= {path.relative_to(doc.parent) for end in ("svg", "md") for path in (doc.parent / page.folder).glob(f"*.{end}")}
        wrong = [str(name) for name in sorted(names) if not same(pathlib.Path(other) / name, doc.parent / name)]
    if document.section(readme, "eager", COMMAND) not in (None, "\n".join(readme_lines(page))):
        wrong.append(readme.name)
    return wrong


def same(path, other):
    return path.exists() and other.exists() and path.read_bytes() == other.read_bytes()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="folders", type=pathlib.Path, nargs="+", default=[], metavar="FOLDER", help="folders that the benches wrote")
    parser.add_argument("--doc", type=pathlib.Path, default=ROOT / "docs/performance.md")
    parser.add_argument("--readme", type=pathlib.Path, default=ROOT / "README.md", help="a file that may have a section `eager`")
    parser.add_argument("--simulated", action="store_true", help="also take figures of a simulated device")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file differs from its figures")
    return parser.parse_args()


def main():
    options = arguments()
    folder = options.doc.with_suffix("")
    data = performance_data.read(folder)
    if options.folders:
        if not data.gather(options.folders):
            print(f"performance: no figures in {', '.join(map(str, options.folders))}: expected are PART.csv, eager.csv, first/samples.csv or bench.json", file=sys.stderr)
            return 3
        if data.simulated() and not options.simulated:
            print(f"performance: figures of {', '.join(data.simulated())}, which is no GPU: {options.doc} stays as it is; --simulated takes them", file=sys.stderr)
            return 3
        performance_data.write(folder, data)
    page = page_of(data, folder.name)
    if options.check:
        wrong = stale(page, options.doc, options.readme)
        for name in wrong:
            print(f"{name}: differs from the figures in {folder}; `{COMMAND}` writes it again")
        return 1 if wrong else 0
    write(page, options.doc)
    if document.section(options.readme, "eager", COMMAND) is not None:
        document.write(options.readme, "eager", readme_lines(page), COMMAND)
    return 0


if __name__ == "__main__":
    sys.exit(main())
