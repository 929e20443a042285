# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG text: a grid of panels, in each the tail of a service's latency against what is left of the job, a line for every system."""
import math
from xml.sax.saxutils import escape

COLOURS = ("#1b6ca8", "#d1495b", "#2e933c", "#edae49", "#66418a", "#00798c", "#8d5524", "#6b6b6b", "#e377c2", "#17becf", "#222222", "#9c9c00")
WIDE, HIGH, LEFT, TOP, GAP = 250, 200, 60, 60, 56
TICKS = (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000)


def text(x, y, words, size=11, anchor="middle", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" {extra}>{escape(words)}</text>'


class Panel:
    """Axes: p99 over alone (logarithmic) to the right, the job's share upwards."""

    def __init__(self, x, y, title, most):
        self.x, self.y, self.title, self.most = x, y, title, max(1.2, most)

    def right(self, value):
        return self.x + WIDE * min(1.0, max(0.0, math.log(max(value, 0.8) / 0.8) / math.log(self.most / 0.8)))

    def up(self, value):
        return self.y + HIGH * (1 - min(1.1, max(0.0, value)) / 1.1)

    def axes(self):
        lines = [f'<rect x="{self.x}" y="{self.y}" width="{WIDE}" height="{HIGH}" fill="none" stroke="#888"/>', text(self.x + WIDE / 2, self.y - 6, self.title, 12)]
        for tick in (t for t in TICKS if t <= self.most):
            lines += [f'<line x1="{self.right(tick):.1f}" x2="{self.right(tick):.1f}" y1="{self.y}" y2="{self.y + HIGH}" stroke="#ddd"/>',
                      text(self.right(tick), self.y + HIGH + 14, f"{tick:g}", 10)]
        for share in (0, 0.25, 0.5, 0.75, 1):
            lines += [f'<line x1="{self.x}" x2="{self.x + WIDE}" y1="{self.up(share):.1f}" y2="{self.up(share):.1f}" stroke="#ddd"/>',
                      text(self.x - 6, self.up(share) + 4, f"{share:g}", 10, "end")]
        return lines

    def line(self, points, colour):
        """points: (p99 over alone, its interval, share, load), by load."""
        shown = [point for point in points if math.isfinite(point[0]) and math.isfinite(point[2])]
        path = " ".join(f"{self.right(p):.1f},{self.up(share):.1f}" for p, _, share, _ in shown)
        lines = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-opacity="0.5"/>'] if len(shown) > 1 else []
        for p, (low, high), share, load in shown:
            if math.isfinite(low) and math.isfinite(high):
                lines.append(f'<line x1="{self.right(low):.1f}" x2="{self.right(high):.1f}" y1="{self.up(share):.1f}" y2="{self.up(share):.1f}" stroke="{colour}"/>')
            lines.append(f'<circle cx="{self.right(p):.1f}" cy="{self.up(share):.1f}" r="{2 + load / 25:.1f}" fill="{colour}"/>')
        return lines


def legend(systems, width):
    lines, x, y = [], LEFT, 20
    for system, colour in systems.items():
        if x + 10 * len(system) > width:
            x, y = LEFT, y + 16
        lines += [f'<circle cx="{x}" cy="{y - 4}" r="5" fill="{colour}"/>', text(x + 9, y, system, 11, "start")]
        x += 30 + 7 * len(system)
    return lines


def grid(panels):
    """panels: {(row, column): {system: [(p99 over alone, interval, share, load)]}}; the SVG."""
    rows, columns = (list(dict.fromkeys(key[i] for key in panels)) for i in (0, 1))
    names = list(dict.fromkeys(system for panel in panels.values() for system in panel))
    systems = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    width, height = LEFT + len(columns) * (WIDE + GAP), TOP + len(rows) * (HIGH + GAP) + 20
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
             f'<rect width="{width}" height="{height}" fill="white"/>'] + legend(systems, width)
    for (row, column), panel in panels.items():
        finite = [p for points in panel.values() for p, _, _, _ in points if math.isfinite(p)]
        box = Panel(LEFT + columns.index(column) * (WIDE + GAP), TOP + rows.index(row) * (HIGH + GAP), f"{row} beside {column}", max(finite, default=2))
        lines += box.axes()
        for system, points in panel.items():
            lines += box.line(sorted(points, key=lambda point: point[3]), systems[system])
    lines += [text(width / 2, height - 6, "p99 of requests over alone (circles grow with the load) / upwards: the job's throughput over alone"), "</svg>"]
    return "\n".join(lines) + "\n"
