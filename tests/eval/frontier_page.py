# SPDX-License-Identifier: Apache-2.0
"""The figures of frontier.py as a page of tables and a plot per device.

A cell is a device, a pair, a load and an objective. Its frontier is the highest job share of any fixed setting under which at least
99% of the requests meet the objective. `detshare` is below the frontier in a cell if a goal is missed there; the page gives each such
cell the reasons that REASONS derives from the figures.
"""
import csv
import dataclasses
import lzma
import math
import statistics

import document
import plot

svg = plot.svg
ALONE, OURS = "alone", "detshare"
ATTAINED = 0.99  # share of the requests that must meet the objective
POSSIBLE = 0.995  # share under which the service alone cannot meet the objective either
REACHED = 0.95  # share of the frontier that counts as reaching it
NOISE = 0.99  # share of the throughput without an objective that counts as no less
SAME = 0.02  # relative difference of two shares of the job, or two medians, that count as equal
UNUSED = 0.995  # share of requests within the objective from which half of the permitted misses are left
TEXTS = ("device", "pair", "setting")
WHOLE = ("load", "round", "requests")


def read(path):
    """The rows of a CSV file, which may be compressed, with numbers."""
    with lzma.open(path, "rt", newline="", encoding="utf8") if path.suffix == ".xz" else open(path, newline="", encoding="utf8") as file:
        return [{key: value if key in TEXTS else int(value) if key in WHOLE else float(value) for key, value in row.items()} for row in csv.DictReader(file)]


@dataclasses.dataclass(frozen=True)
class Figures:
    """A setting in a cell, over all rounds."""
    setting: str
    share: float  # of the job's throughput alone
    met: float  # share of the requests within the objective
    p50: float  # over alone
    p99: float  # over alone
    requests: int
    shares: tuple  # share, by round

    def over(self, other, link=None):
        """This share over that of another setting, in the rounds that both have. If no round has both: through a setting that has
        rounds in common with each of them, because the job's throughput alone differs between rounds."""
        mine, its = dict(self.shares), dict(other.shares)
        both = mine.keys() & its.keys()
        if not both:
            return self.over(link) * link.over(other) if link else self.share / other.share
        return statistics.fmean(mine[i] for i in both) / statistics.fmean(its[i] for i in both)


def mean_ratio(values):
    return math.inf if any(map(math.isinf, values)) else statistics.geometric_mean(values)


def figures(rows):
    """{(device, pair, load, objective): {setting: Figures}}."""
    lots, found = {}, {}
    for row in rows:
        lots.setdefault((row["device"], row["pair"], row["load"], row["objective"], row["setting"]), []).append(row)
    for (*cell, setting), own in lots.items():
        n = sum(row["requests"] for row in own)
        found.setdefault(tuple(cell), {})[setting] = Figures(
            setting, statistics.fmean(row["job_share"] for row in own), sum(row["attainment"] * row["requests"] for row in own) / n,
            mean_ratio([row["p50_over_alone"] for row in own]), mean_ratio([row["p99_over_alone"] for row in own]), n,
            tuple((row["round"], row["job_share"]) for row in own))
    return found


class Cell:
    """`detshare` with an objective against every fixed setting, and what it misses."""

    def __init__(self, key, by_cell):
        self.device, self.pair, self.load, self.objective = key
        there = by_cell[key]
        self.alone, self.ours, self.plain = there[ALONE], there[f"{OURS},slo={self.objective:g}"], there[OURS]
        self.fixed = {name: one for name, one in there.items() if is_fixed(name)}
        self.swept = any(name != "native" for name in self.fixed)
        ours_over = {one: self.ours.over(one, self.plain) for one in self.fixed.values() if one.met >= ATTAINED and one.share > 0}
        self.best = min(ours_over, key=ours_over.get, default=None)
        self.of_best = ours_over.get(self.best, math.nan)
        same = {k[2]: by_cell[k] for k in by_cell if (k[0], k[1], k[3]) == (self.device, self.pair, self.objective)}
        # the other loads at which the best setting misses the objective although the service alone meets it
        self.breaks = {load: of[self.best.setting].met for load, of in sorted(same.items())
                       if self.best and of[ALONE].met >= POSSIBLE and self.best.setting in of and of[self.best.setting].met < ATTAINED}
        self.lates = self.alone.met >= POSSIBLE and self.ours.met < ATTAINED
        self.lags = self.of_best < REACHED
        self.loses = self.ours.over(self.plain) < NOISE
        self.below = self.lates or self.lags or self.loses

    @property
    def name(self):
        return name_of(self.pair, self.load)

    @property
    def best_text(self):
        """The best fixed setting and its share; "-" if no fixed setting meets the objective; empty if only `native` was measured."""
        return f"`{self.best.setting}` {self.best.share:.3f}" if self.best else "-" if self.swept else ""


def name_of(pair, load):
    return f"`{pair.replace('/', '+')}@{load}`"


def is_fixed(setting):
    return setting != ALONE and setting != OURS and not setting.startswith(f"{OURS},slo=")


def listed(breaks):
    return ", ".join(f"{load}%: {percent(met)}" for load, met in breaks.items())


# name: (whether the reason holds in a cell, its details there, its explanation). A cell below the frontier has one at least.
REASONS = {
    "late alone": (lambda c: c.lates and c.plain.met < ATTAINED, lambda c: percent(c.plain.met),
                   "Without an objective, too, less than 99% of the requests are within it (the figure). The budget of misses is spent before BE runs beside requests."),
    "overspent": (lambda c: c.lates and c.plain.met >= ATTAINED, lambda c: "",
                  "Without an objective at least 99% of the requests are within it. So the work that the objective permits costs more misses than `detshare` expects."),
    "hindsight": (lambda c: c.lags and c.breaks, lambda c: listed(c.breaks),
                  "The best fixed setting of the cell misses the same objective at other loads of the pair (the figures: load, and share of its requests within the objective). Only a setting chosen for the load reaches this share."),
    "unused": (lambda c: c.lags and c.ours.met >= UNUSED, lambda c: percent(c.ours.met),
               "`detshare` leaves at least half of the permitted misses unused (the figure: its requests within the objective)."),
    "spent": (lambda c: c.lags and ATTAINED <= c.ours.met < UNUSED, lambda c: "",
              "`detshare` uses more than half of the permitted misses, and the job gets less for them than under the fixed setting."),
    "late": (lambda c: c.lags and not c.lates and c.ours.met < ATTAINED, lambda c: percent(c.alone.met),
             "Fewer than 99.5% of the requests are within the objective even alone (the figure), so `detshare` gives up before the objective is met."),
    "not the objective": (lambda c: c.lags and abs(c.ours.share / c.plain.share - 1) < SAME, lambda c: f"{c.plain.share:.3f}",
                          "Without an objective the job has the same share (the figure, within 2%). So the rules for requests without an objective cost the job this share, not the budget."),
    "slower requests": (lambda c: c.loses and c.ours.p50 > (1 + SAME) * c.plain.p50, lambda c: f"{c.plain.share:.3f}; {ratio(c.ours.p50)} / {ratio(c.plain.p50)}",
                        "The job has less than without an objective (the first figure). Requests take longer beside BE (the median over alone, with and without the objective). The job gains less during the requests than it loses in the shorter pauses."),
    "less": (lambda c: c.loses and c.ours.p50 <= (1 + SAME) * c.plain.p50, lambda c: f"{c.plain.share:.3f}", "The job has less than without an objective (the figure), although the median request takes no longer (by more than 2%)."),
}


def reasons(cell):
    """The names of the reasons that hold in a cell, with their details there."""
    return {name: details(cell) for name, (holds, details, _) in REASONS.items() if holds(cell)}


def needed(objective):
    return ALONE, OURS, f"{OURS},slo={objective:g}"


def incomplete(rows):
    """{cell without its objective, as text: the settings that it lacks}, for the cells that cells() leaves out."""
    found = {}
    for (device, pair, load, objective), there in figures(rows).items():
        lacks = found.setdefault((device, pair, load), {})
        lacks.update((f"`{name}`", None) for name in needed(objective) if name not in there)
    return {name_of(*cell[1:]): list(lacks) for cell, lacks in sorted(found.items()) if lacks}


def cells(rows):
    """All cells that were measured alone, without an objective and with it."""
    by_cell = {key: there for key, there in figures(rows).items() if set(needed(key[3])) <= set(there)}
    return [Cell(key, by_cell) for key in sorted(by_cell, key=lambda key: (key[0] != "sim:h200", *key))]


# --- tables -----------------------------------------------------------------------------------------------------------------

def percent(share):
    return f"{100 * share:.1f}%"


def ratio(value):
    return "never" if math.isinf(value) else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def shown(one):
    return f"{one.share:.3f} ({percent(one.met)})" if one else "-"


def below_table(below):
    return document.table(["cell", "objective", "`detshare`", "no objective", "best fixed setting", "of it", "p50", "reasons"],
                          [[c.name, f"{c.objective:g}", shown(c.ours), f"{c.plain.share:.3f}", f"`{c.best.setting}` {shown(c.best)}" if c.best else c.best_text,
                            f"{c.of_best:.2f}" if c.best else "-", f"{ratio(c.ours.p50)} / {ratio(c.best.p50) if c.best else '-'}",
                            "; ".join(f"{name} ({said})" if said else name for name, said in reasons(c).items())] for c in below])


def summary_table(found):
    """For each device and objective: number of cells that reach the frontier, and those that do not, by kind."""
    lines = []
    for device in dict.fromkeys(c.device for c in found):
        for objective in sorted({c.objective for c in found}):
            own = [c for c in found if (c.device, c.objective) == (device, objective)]
            with_best = [c for c in own if c.best]
            over = statistics.geometric_mean(c.of_best for c in with_best) if with_best else math.nan
            lines.append([device, f"{objective:g}", str(len(own)), str(sum(not c.below for c in own)), str(sum(c.lags for c in own)), str(sum(c.lates for c in own)),
                          str(sum(c.loses for c in own)), str(sum(c.swept and not c.best for c in own)), f"{over:.2f}" if with_best else "-"])
    return document.table(["device", "objective", "cells", "reached", "less job", "late", "less than without", "no fixed setting", "over the frontier"], lines)


def cell_table(own):
    """All cells of one device: a row per pair and load, and a column pair per objective."""
    objectives = sorted({c.objective for c in own})
    by = {(c.pair, c.load, c.objective): c for c in own}
    lines = []
    for pair, load in dict.fromkeys((c.pair, c.load) for c in own):
        there = [by.get((pair, load, objective)) for objective in objectives]
        one = next(filter(None, there))
        lines.append([one.name, f"{one.plain.share:.3f}", *(text for c in there for text in (
            (("**" if c.below else "") + shown(c.ours) + ("**" if c.below else ""), c.best_text) if c else ("", "")))])
    return document.table(["cell", "no objective"] + [text for objective in objectives for text in (f"`detshare` {objective:g}", f"fixed {objective:g}")], lines)


ABOUT = (
    "A *cell* is a service and a job (a pair), a load of the service in percent of its capacity, and an objective. The objective of a cell is a multiple of the service's p99 alone with the same arrivals of requests. "
    "The *job share* is the job's throughput over its throughput alone. The *frontier* of a cell is the highest job share of any fixed setting under which at least 99% of the requests meet the objective.",
    "`detshare` reaches the frontier of a cell if three goals are met. First, at least 99% of the requests meet the objective, where the service alone has 99.5%. Second, the job share is at least 0.95 of the frontier. "
    "Third, the job share is no less than without an objective (by more than 1%).")
COLUMNS = (
    "The tables show a job share with the share of requests within the objective in brackets. The column *of it* is the job share under `detshare` over that of the best fixed setting, in the rounds that have both. "
    "If no round has both, each of them is compared with `detshare` without an objective in its own rounds. "
    "The column *p50* has the median latency over the median alone, under `detshare` / under that setting. The sign - means that no fixed setting meets the objective.",)


def paragraphs(texts):
    return [line for text in texts for line in ("", *document.paragraph(text))]


def partly(rows, found):
    """Paragraphs about the cells that were not measured, or only in part."""
    lacks = "; ".join(f"{cell} ({', '.join(names)})" for cell, names in incomplete(rows).items())
    own = dict.fromkeys((c.device, c.pair, c.load) for c in found)
    unswept = dict.fromkeys((c.device, c.pair, c.load) for c in found if not c.swept)
    return [f"Of the fixed settings only `native` was measured in {len(unswept)} of the {len(own)} combinations of a pair and a load. Where it misses the "
            "objective, the tables have no fixed setting, and the second goal does not count."] * bool(unswept) + [f"Cells that lack a measurement are in no table and no count: {lacks}."] * bool(lacks)


def rounds_of(rows):
    """The number of rounds of a fixed setting in a cell, as words."""
    found = {len(one.shares) for there in figures(rows).values() for one in there.values() if is_fixed(one.setting)}
    least, most = min(found), max(found)
    return f"{least} round{'s' if least > 1 else ''}" if least == most else f"{least} to {most} rounds"


def page(rows, title, intro, plots):
    """The lines of the page. plots: {device: file name}."""
    found = cells(rows)
    below = [c for c in found if c.below]
    settings = list(dict.fromkeys(row["setting"] for row in rows if is_fixed(row["setting"])))
    rounds, least = rounds_of(rows), min(row["requests"] for row in rows)
    lines = [f"# {title}", *paragraphs(intro + ABOUT)]
    lines += paragraphs([f"The fixed settings are {', '.join(f'`{name}`' for name in settings)}. Each was measured in {rounds}, with at least {least} requests in a phase. "
                         "Every phase includes the requests during which a policy learns.", *partly(rows, found)])
    lines += ["", "## Cells that reach the frontier", "", *document.paragraph("The table counts cells. *Less job*, *late* and *less than without* are the cells in which the second, first and third goal is missed. "
                                                                              "*No fixed setting* counts cells in which no fixed setting meets the objective. *Over the frontier* is the geometric mean of the job share over the frontier."), ""]
    lines += summary_table(found) + ["", "## Cells below the frontier", *paragraphs(COLUMNS), "", *document.paragraph("The reasons follow from the figures by rule:"), ""]
    for name in REASONS:
        if any(name in reasons(c) for c in below):
            first, *rest = document.paragraph(f"**{name}**: {REASONS[name][2]}", 98)
            lines += [f"* {first}", *(f"  {line}" for line in rest)]
    for device in dict.fromkeys(c.device for c in found):
        own = [c for c in found if c.device == device]
        missed = [c for c in own if c.below]
        lines += ["", f"### Below the frontier on {device}", ""] + (below_table(missed) if missed else ["`detshare` reaches the frontier in every cell."])
    lines += ["", "## Tail against throughput", *paragraphs(["Each panel is a pair at a load. To the right is the service's p99 over its p99 alone, and up is the job share. Grey dots are fixed settings, and the orange line is the best of them up to each p99. "
                                                             "The blue dots are `detshare` without an objective (smallest) and with objectives of 1.2, 1.5 and 2. A share above 1.1 is at the upper edge."])]
    for device, name in plots.items():
        lines += ["", f"![p99 over alone against the job share on {device}]({name})"]
    for device in dict.fromkeys(c.device for c in found):
        lines += ["", f"## All cells on {device}", "", *document.paragraph("A column *fixed* has the best fixed setting for that objective, and its job share. Bold: `detshare` is below the frontier."), ""]
        lines += cell_table([c for c in found if c.device == device])
    return lines


# --- plot --------------------------------------------------------------------------------------------------------------------

WIDE, HIGH, LEFT, TOP, GAP, MOST = 170, 150, 56, 76, 46, 5


def frontier_line(box, points):
    """A step line: the highest job share up to each p99."""
    path, best = [], 0.0
    for p99, share in sorted(points):
        if share > best and p99 <= MOST:
            path += [(box.right(p99), box.up(best)), (box.right(p99), box.up(share))]
            best = share
    path.append((box.right(MOST), box.up(best)))
    return '<polyline points="' + " ".join(f"{x:.1f},{y:.1f}" for x, y in path) + '" class="orange-line" stroke-width="1.5"/>'


def objective_lines(box, there):
    """A dashed line at each objective that `detshare` ran with."""
    at = [box.right(float(name.split("=")[1])) for name in there if name.startswith(f"{OURS},slo=")]
    return [svg.line(x, box.y, x, box.y + box.high, "blue-line", 'stroke-dasharray="2 3" stroke-opacity="0.6"') for x in at]


def panel(x, y, title, there, objectives):
    box = plot.Panel(x, y, title, MOST, WIDE, HIGH, 0.9)
    points = [(one.p99, one.share) for name, one in there.items() if is_fixed(name) and math.isfinite(one.p99)]
    lines = box.axes() + objective_lines(box, there) + [frontier_line(box, points)] + [svg.circle(box.right(p99), box.up(share), 2.5, "grey") for p99, share in points]
    names = [OURS] + [f"{OURS},slo={objective:g}" for objective in objectives]
    ours = [(there[name], 25 * i) for i, name in enumerate(names) if name in there]
    return lines + box.line([(one.p99, (math.nan, math.nan), one.share, size) for one, size in ours], "blue")


def picture(rows, device, command):
    """The SVG of one device: a row per pair, a column per load."""
    there = {key: found for key, found in figures(rows).items() if key[0] == device}
    pairs, loads, objectives = list(dict.fromkeys(key[1] for key in there)), sorted({key[2] for key in there}), sorted({key[3] for key in there})
    width, height = LEFT + len(loads) * (WIDE + GAP), TOP + len(pairs) * (HIGH + GAP) + 10
    lines = [svg.text(LEFT, 26, f"Tail of the service against throughput of the job ({device})", 16, extra='font-weight="bold"')]
    for i, (name, hue) in enumerate((("fixed settings", "grey"), ("frontier of fixed settings", "orange"), ("detshare: no objective, then 1.2, 1.5, 2 times p99", "blue"))):
        lines += [svg.circle(LEFT + 5 + 170 * i, 44, 5, hue), svg.text(LEFT + 14 + 170 * i, 48, name, 11)]
    for (_, pair, load, _), found in {key[:3] + (0,): found for key, found in there.items()}.items():
        lines += panel(LEFT + loads.index(load) * (WIDE + GAP), TOP + pairs.index(pair) * (HIGH + GAP), f"{pair.replace('/', '+')}, {load}%", found, objectives)
    lines.append(svg.text(width / 2, height - 6, "right: p99 over alone (dashed: the objectives); up: the job's throughput over alone", 11, "middle", "dim"))
    return svg.frame(width, height, command, f"p99 over alone against the job's throughput over alone on {device}", lines)
