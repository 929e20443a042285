# SPDX-License-Identifier: Apache-2.0
"""The plots of docs/performance.md, as SVG text."""
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs/pictures"))
import svg  # noqa: E402

COMMAND = "make performance-page"
FINE = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.5, 3, 4)
TICKS = [digit * 10.0 ** power for power in range(-3, 8) for digit in (1, 2, 5)]
WIDTH, LEFT, TOP, STEP = 760, 250, 64, 20


class Axis:
    """A logarithmic axis to the right that covers all values."""

    def __init__(self, values, least=0.9, most=1.2, right=WIDTH - 24):
        self.least, self.most, self.right = min([least, *values]) * 0.9, max([most, *values]) * 1.1, right

    def at(self, value):
        return LEFT + (self.right - LEFT) * math.log(max(value, self.least) / self.least) / math.log(self.most / self.least)

    def lines(self, bottom, unit=""):
        shown, last = [], -math.inf
        for tick in (tick for tick in (FINE if self.most < 5 * self.least and self.most < 5 else TICKS) if self.least <= tick <= self.most):
            x = self.at(tick)
            shown.append(svg.line(x, TOP, x, bottom, "grid"))
            label = f"{tick:,g}{unit}"
            if x - last >= 16 + 6 * len(label):
                shown.append(svg.text(x, bottom + 14, label, 10, "middle", "dim"))
                last = x
        return shown


def heading(title, said):
    return [svg.text(20, 26, title, 16, extra='font-weight="bold"'), svg.text(20, 46, said, 11, kind="dim")]


def plain(label):
    return label.replace("`", "").replace("**", "")


def ratios(title, rows):
    """rows: (label, relative time, those of the rounds, whether the goal is missed). A dot per row, and a line over its rounds."""
    axis = Axis([value for _, ratio, by_round, _ in rows for value in (ratio, *by_round)])
    bottom = TOP + STEP * len(rows) + 6
    lines = heading(title, "DetShare's time over native's; left of 1 DetShare is faster; lines: the range over rounds; red: the goal is missed")
    lines += axis.lines(bottom) + [svg.line(axis.at(1), TOP, axis.at(1), bottom, "edge", 'stroke-width="1.5"')]
    for i, (label, ratio, by_round, missed) in enumerate(rows):
        y, hue = TOP + STEP * (i + 0.5) + 3, "red" if missed else "blue"
        lines.append(svg.text(LEFT - 12, y + 4, plain(label), 11, "end"))
        if len(by_round) > 1:
            lines.append(svg.line(axis.at(min(by_round)), y, axis.at(max(by_round)), y, f"{hue}-line", 'stroke-width="2"'))
        lines.append(svg.circle(axis.at(ratio), y, 4.5, hue))
    return svg.frame(WIDTH, bottom + 28, COMMAND, title, lines)


def crowds(title, groups, goal):
    """groups: {label: {stage: ratios}}: a small dot per ratio, in two lines per group, and a mark at the median."""
    axis = Axis([ratio for stages in groups.values() for values in stages.values() for ratio in values])
    stages = list(dict.fromkeys(stage for own in groups.values() for stage in own))
    step = STEP + 8
    bottom = TOP + step * len(groups) + 6
    lines = heading(title, f"DetShare's time over native's at the same stage, a dot per row; dashed: the goal, {goal:g}")
    for i, stage in enumerate(stages):
        hue = ("orange", "blue")[i % 2]
        lines += [svg.circle(WIDTH - 170 + 80 * i, 22, 4, hue), svg.text(WIDTH - 160 + 80 * i, 26, stage, 11)]
    lines += axis.lines(bottom)
    lines.append(svg.line(axis.at(goal), TOP, axis.at(goal), bottom, "edge", 'stroke-dasharray="5 3" stroke-width="1.5"'))
    for i, (label, own) in enumerate(groups.items()):
        y = TOP + step * (i + 0.5) + 3
        lines.append(svg.text(LEFT - 12, y + 4, plain(label), 11, "end"))
        for k, stage in enumerate(stages):
            lines += [svg.circle(axis.at(ratio), y - 4 + 8 * k, 2.6, ("orange", "blue")[k % 2], 'fill-opacity="0.6"') for ratio in own.get(stage, [])]
    return svg.frame(WIDTH, bottom + 28, COMMAND, title, lines)


def pairs(title, said, rows, unit):
    """rows: (label, first, second): two dots on a logarithmic axis, joined by a line."""
    axis = Axis([value for _, *two in rows for value in two], least=10, most=100)
    bottom = TOP + STEP * len(rows) + 6
    lines = heading(title, said) + axis.lines(bottom, unit)
    for i, (label, first, second) in enumerate(rows):
        y = TOP + STEP * (i + 0.5) + 3
        lines += [svg.text(LEFT - 12, y + 4, plain(label), 11, "end"), svg.line(axis.at(first), y, axis.at(second), y, "grid", 'stroke-width="2"'),
                  svg.circle(axis.at(first), y, 4.5, "grey"), svg.circle(axis.at(second), y, 4.5, "blue")]
    return svg.frame(WIDTH, bottom + 28, COMMAND, title, lines)


def eager(title, models):
    """Two bars per model, and a mark where the kernels alone would end."""
    most = max(max(model.p50.values()) for model in models) / 1000 * 1.02
    left, right, step = 160, WIDTH - 76, 34
    bottom = TOP + step * len(models) + 6

    def at(us):
        return left + (right - left) * us / 1000 / most
    lines = heading(title, "grey: natively; blue: under DetShare; black line: time of the request's kernels; right: DetShare over native")
    unit = next(tick for tick in TICKS if most / tick <= 8)
    for i in range(int(most / unit) + 1):
        x = at(1000 * unit * i)
        lines += [svg.line(x, TOP, x, bottom, "grid"), svg.text(x, bottom + 14, f"{unit * i:g} ms", 10, "middle", "dim")]
    for i, model in enumerate(models):
        y, missed = TOP + step * i + 8, model.ratio > model.goal
        lines += [svg.text(left - 10, y + 15, model.name, 11, "end"), svg.rect(left, y, at(model.p50["native"]) - left, 11, "grey"),
                  svg.rect(left, y + 11, at(model.p50["detshare"]) - left, 11, "blue"),
                  svg.text(right + 10, y + 15, f"{model.ratio:.2f}", 12, kind="red" if missed else "ink", extra='font-weight="bold"')]
        if model.gpu_us:
            lines.append(svg.line(at(model.gpu_us), y - 3, at(model.gpu_us), y + 25, "edge", 'stroke-width="2.5"'))
    return svg.frame(WIDTH, bottom + 28, COMMAND, title, lines)
