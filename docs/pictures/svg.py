# SPDX-License-Identifier: Apache-2.0
"""What all pictures of the documents share: one style, shapes as SVG text, and the frame around them.

A picture brings its own background and follows the reader's light or dark theme, so it is readable on any page. It needs no
script, no font and no other file. Its first comment names the command that wrote it.
"""
import pathlib
from xml.sax.saxutils import escape

# each colour name: the colour in the light theme, and in the dark theme
HUES = {"blue": ("#1b6ca8", "#6cb6f0"), "red": ("#c2334d", "#ff8095"), "green": ("#2b8a3e", "#69d27c"),
        "orange": ("#c77700", "#f5b04c"), "violet": ("#6741a0", "#b89af0"), "teal": ("#00798c", "#4fcbdd"),
        "brown": ("#8d5524", "#d9a26c"), "grey": ("#6b7280", "#a3abb8")}


def style():
    light = ".paper{fill:#fff}.ink{fill:#1f2328}.dim{fill:#5b6470}.grid{stroke:#d8dde3}.edge{stroke:#57606a}.box{fill:#f3f5f8;stroke:#57606a}"
    dark = ".paper{fill:#0d1117}.ink{fill:#e6edf3}.dim{fill:#9aa4b0}.grid{stroke:#30363d}.edge{stroke:#9aa4b0}.box{fill:#1b222c;stroke:#9aa4b0}"
    light += "".join(f".{hue}{{fill:{values[0]}}}.{hue}-line{{stroke:{values[0]};fill:none}}" for hue, values in HUES.items())
    dark += "".join(f".{hue}{{fill:{values[1]}}}.{hue}-line{{stroke:{values[1]};fill:none}}" for hue, values in HUES.items())
    return f"<style>text{{font-family:Helvetica,Arial,sans-serif}}{light}@media(prefers-color-scheme:dark){{{dark}}}</style>"


def number(value):
    return f"{value:.1f}".removesuffix(".0")


def text(x, y, words, size=12, anchor="start", kind="ink", extra=""):
    extra = f" {extra}" if extra else ""
    return f'<text x="{number(x)}" y="{number(y)}" font-size="{size}" text-anchor="{anchor}" class="{kind}"{extra}>{escape(words)}</text>'


def line(x1, y1, x2, y2, kind="edge", extra=""):
    extra = f" {extra}" if extra else ""
    return f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" class="{kind}"{extra}/>'


def rect(x, y, width, height, kind="box", extra=""):
    extra = f" {extra}" if extra else ""
    return f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" class="{kind}"{extra}/>'


def circle(x, y, radius, kind, extra=""):
    extra = f" {extra}" if extra else ""
    return f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" class="{kind}"{extra}/>'


def arrow(x1, y1, x2, y2, both=False, extra=""):
    ends = 'marker-end="url(#tip)"' + (' marker-start="url(#tip)"' if both else "")
    return line(x1, y1, x2, y2, "edge", f'stroke-width="1.4" {ends} {extra}'.strip())


def box(x, y, width, height, title, rows=(), kind="box"):
    """A rounded box with a bold title and rows of small text."""
    lines = [rect(x, y, width, height, kind, 'rx="6"'), text(x + 10, y + 19, title, 13, extra='font-weight="bold"')]
    return lines + [text(x + 10, y + 37 + 15 * i, row, 11, kind="dim") for i, row in enumerate(rows)]


def frame(width, height, command, title, lines):
    """The text of the whole SVG file."""
    assert "--" not in command, "a comment in XML has no two hyphens"
    tip = ('<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
           '<path d="M0,0L8,4L0,8z" class="dim"/></marker></defs>')
    return "\n".join([f"<!-- written by `{command}`: do not edit -->",
                      f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}" width="{number(width)}" height="{number(height)}" '
                      'role="img">', f"<title>{escape(title)}</title>", style(), tip, rect(0, 0, width, height, "paper", 'rx="8"'), *lines, "</svg>"]) + "\n"


def write(path, *arguments):
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_text(frame(*arguments), encoding="utf8")
