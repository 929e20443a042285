# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG text: a grid of panels, in each the tail of a service's latency against the job's throughput, a line for every system."""
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs/pictures"))
import svg  # noqa: E402

# each system has the same colour in every picture; systems not listed take the remaining colours
HUES = {"native": "grey", "mps": "red", "mps-priority": "orange", "orion": "violet", "sgdrc": "green", "detshare": "blue"}
WIDE, HIGH, LEFT, TOP, GAP = 250, 200, 60, 60, 56
TICKS = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Panel:
    """Axes: p99 over alone (logarithmic) to the right, the job's share of its throughput alone upwards."""

    def __init__(self, x, y, title, most, wide=WIDE, high=HIGH, least=0.8):
        self.x, self.y, self.title, self.most, self.wide, self.high, self.least = x, y, title, max(1.2, most), wide, high, min(0.8, least)

    def right(self, value):
        return self.x + self.wide * min(1.0, math.log(max(value, self.least) / self.least) / math.log(self.most / self.least))

    def up(self, value):
        return self.y + self.high * (1 - min(1.1, max(0.0, value)) / 1.1)

    def axes(self):
        lines = [svg.rect(self.x, self.y, self.wide, self.high, "grid", 'fill="none"'), svg.text(self.x + self.wide / 2, self.y - 6, self.title, 12, "middle")]
        last = -math.inf
        for tick in (t for t in TICKS if self.least <= t <= self.most):
            at = self.right(tick)
            lines.append(svg.line(at, self.y, at, self.y + self.high, "grid"))
            if at - last >= 24:
                lines.append(svg.text(at, self.y + self.high + 14, f"{tick:g}", 10, "middle", "dim"))
                last = at
        for share in (0, 0.25, 0.5, 0.75, 1):
            lines += [svg.line(self.x, self.up(share), self.x + self.wide, self.up(share), "grid"),
                      svg.text(self.x - 6, self.up(share) + 4, f"{share:g}", 10, "end", "dim")]
        return lines

    def line(self, points, hue):
        """points: (p99 over alone, its interval, share, load), by load."""
        shown = [point for point in points if math.isfinite(point[0]) and math.isfinite(point[2])]
        path = " ".join(f"{self.right(p):.1f},{self.up(share):.1f}" for p, _, share, _ in shown)
        lines = [f'<polyline points="{path}" class="{hue}-line" stroke-opacity="0.5"/>'] if len(shown) > 1 else []
        for p, (low, high), share, load in shown:
            if math.isfinite(low) and math.isfinite(high):
                lines.append(svg.line(self.right(low), self.up(share), self.right(high), self.up(share), f"{hue}-line"))
            lines.append(svg.circle(self.right(p), self.up(share), 2 + load / 25, hue))
        return lines


def legend(systems, width):
    lines, x, y = [], LEFT, 20
    for system, hue in systems.items():
        if x + 10 * len(system) > width:
            x, y = LEFT, y + 16
        lines += [svg.circle(x, y - 4, 5, hue), svg.text(x + 9, y, system, 11)]
        x += 30 + 7 * len(system)
    return lines


def grid(panels, command="tests/eval/analyse.py"):
    """panels: {(row, column): {system: [(p99 over alone, interval, share, load)]}}; the SVG. Systems beyond the hues share the
    last hue."""
    rows, columns = (list(dict.fromkeys(key[i] for key in panels)) for i in (0, 1))
    names = list(dict.fromkeys(system for panel in panels.values() for system in panel))
    left = [hue for hue in svg.HUES if hue not in {HUES.get(name) for name in names}]
    systems = {name: HUES[name] if name in HUES else left.pop(0) if len(left) > 1 else left[0] for name in names}
    width, height = LEFT + len(columns) * (WIDE + GAP), TOP + len(rows) * (HIGH + GAP) + 20
    lines = legend(systems, width)
    for (row, column), panel in panels.items():
        finite = [p for points in panel.values() for p, _, _, _ in points if math.isfinite(p)]
        box = Panel(LEFT + columns.index(column) * (WIDE + GAP), TOP + rows.index(row) * (HIGH + GAP), f"{row} beside {column}", max(finite, default=2),
                    least=0.9 * min(finite, default=1))
        lines += box.axes()
        for system, points in panel.items():
            lines += box.line(sorted(points, key=lambda point: point[3]), systems[system])
    lines.append(svg.text(width / 2, height - 6, "right: p99 of requests over alone (circles grow with the load); up: the job's throughput over alone", 11, "middle", "dim"))
    return svg.frame(width, height, command, "tail of the service against throughput of the job", lines)
