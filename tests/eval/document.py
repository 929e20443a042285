# SPDX-License-Identifier: Apache-2.0
"""Sections of docs/evaluation.md that a command writes: between two markers, the rest of the file is people's."""
import pathlib


def markers(name):
    return f"<!-- {name}: written by a command, do not edit -->", f"<!-- end of {name} -->"


def section(path, name):
    """What stands between the markers; None where there is no such section."""
    begin, end = markers(name)
    path = pathlib.Path(path)
    text = path.read_text(encoding="utf8") if path.exists() else ""
    if begin not in text or end not in text:
        return None
    return text.split(begin, 1)[1].split(end, 1)[0].strip("\n")


def write(path, name, lines):
    """Puts the lines between the markers; a file without such a section gets it at its end."""
    begin, end = markers(name)
    path = pathlib.Path(path)
    text = path.read_text(encoding="utf8") if path.exists() else "# Evaluation\n"
    body = begin + "\n" + "\n".join(lines).strip("\n") + "\n" + end
    if section(path, name) is None:
        text = text.rstrip("\n") + "\n\n" + body + "\n"
    else:
        text = text.split(begin, 1)[0] + body + text.split(end, 1)[1]
    path.write_text(text, encoding="utf8")


def table(head, rows):
    """Markdown: a head, and rows of texts."""
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(row) + " |" for row in rows]
