# SPDX-License-Identifier: Apache-2.0
"""Generated parts of documents: whole files, and sections between two markers in a file whose other lines people write."""
import pathlib


def markers(name, command):
    return f"<!-- begin {name}: written by {command} -->", f"<!-- end {name} -->"


def section(path, name, command):
    """The text between the markers; None where the file has no such section."""
    begin, end = markers(name, command)
    path = pathlib.Path(path)
    text = path.read_text(encoding="utf8") if path.exists() else ""
    if begin not in text or end not in text:
        return None
    return text.split(begin, 1)[1].split(end, 1)[0].strip("\n")


def write(path, name, lines, command):
    """Puts the lines between the markers; a file without such a section gets it at its end."""
    begin, end = markers(name, command)
    path = pathlib.Path(path)
    text = path.read_text(encoding="utf8") if path.exists() else ""
    body = begin + "\n" + "\n".join(lines).strip("\n") + "\n" + end
    if section(path, name, command) is None:
        text = (text.rstrip("\n") + "\n\n" if text else "") + body + "\n"
    else:
        text = text.split(begin, 1)[0] + body + text.split(end, 1)[1]
    path.write_text(text, encoding="utf8")


def whole(path, command, lines):
    """Writes a file that is generated from its first line, which names the command, to its last."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(line for line in lines).strip("\n")
    path.write_text(f"<!-- written by `{command}`: do not edit -->\n\n{text}\n", encoding="utf8")


def body(path):
    """The lines of a generated file behind the line that names its command."""
    return pathlib.Path(path).read_text(encoding="utf8").split("\n", 2)[2].rstrip("\n").split("\n")


def paragraph(words, columns=100):
    """Words wrapped at the columns of a document."""
    lines = [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > columns:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def table(head, rows):
    """Markdown: a head, and rows of texts."""
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(row) + " |" for row in rows]
