#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the mechanical part of how DetShare writes; people judge the rest.

 - A line of a document has at most 100 columns. Tables, code and lines that hold one long link are exempt.
 - A comment begins with a subject or a noun phrase, never with a relative pronoun ("who waits for ...", "of the walk").
 - The words in retired.txt do not occur in comments or documents; each line there names what to write instead.

usage: tests/tree/prose.py [FILE...]   (default: every file that git knows)
The last line is `N passed, N failed`, counted in files.
"""
import os
import re
import subprocess
import sys

DOCUMENT_COLUMNS = 100
HEADLESS = re.compile(r"(who|whom|whose|what|whatever|whoever|of|that|which|where)\b", re.I)
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(/\*.*?\*/|//[^\n]*)', re.S)
HERE = os.path.dirname(os.path.abspath(__file__))
# files that are generated, data, or not written by this project
SKIPPED = re.compile(r"^(LICENSE|tests/(fuzz/corpus|golden|data|offline/packs|demo/packs)/|tests/tree/retired\.txt$)")
# a glossary explains the words, so it must name them
ALLOWED = {"docs/glossary.md"}


def retired():
    """The pairs (pattern, what to write instead) of retired.txt."""
    rows = []
    with open(os.path.join(HERE, "retired.txt")) as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                pattern, _, instead = line.rstrip("\n").partition("\t")
                rows.append((re.compile(pattern, re.I), instead.strip()))
    return rows


def c_comments(text):
    """Yields (line, comment) for C comments; lines of // that follow each other are one comment."""
    last_end, last = None, None
    for match in COMMENT.finditer(text):
        if not match.group(1):
            continue
        line = text.count("\n", 0, match.start(1)) + 1
        raw = match.group(1)
        if raw.startswith("//"):
            if last and last_end is not None and text[last_end:match.start(1)].strip() == "" and \
                    text[last_end:match.start(1)].count("\n") == 1:
                last[1] += "\n" + raw[2:].strip()
                last_end = match.end(1)
                continue
            if last:
                yield tuple(last)
            last, last_end = [line, raw[2:].strip()], match.end(1)
        else:
            if last:
                yield tuple(last)
                last = None
            yield line, re.sub(r"\n\s*\*", "\n", raw[2:-2]).strip("* \n")
    if last:
        yield tuple(last)


def hash_comments(text):
    """Yields (line, comment) for lines of # that follow each other."""
    start, body = 0, []
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        if bare.startswith("#") and not bare.startswith("#!"):
            if not body:
                start = number
            body.append(bare.lstrip("#").strip())
        elif body:
            yield start, "\n".join(body)
            body = []
    if body:
        yield start, "\n".join(body)


def prose_of_document(text):
    """Yields (line number, line) outside of code blocks."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("    ", "\t")):
            yield number, line


def words_of(piece):
    """The text on one line without code in backquotes, because the rules for words do not apply to names in code."""
    return re.sub(r"`[^`]*`", "``", piece.replace("\n", " "))


def too_long(line):
    bare = line.strip()
    return len(line) > DOCUMENT_COLUMNS and not bare.startswith(("|", "<", "![")) and " " in bare[: DOCUMENT_COLUMNS]


def look(path, words):
    """Returns the complaints about one file."""
    with open(path, errors="replace") as file:
        text = file.read()
    found = []
    if path.endswith((".md", ".scd")):
        pieces = list(prose_of_document(text))
        if path.endswith(".md"):
            found += [f"{path}:{n}: {len(line)} columns, at most {DOCUMENT_COLUMNS}" for n, line in pieces if too_long(line)]
    elif re.search(r"\.(c|h|cu|cuh|proto|def)$", path):
        pieces = list(c_comments(text))
    elif re.search(r"\.(py|sh|mk)$", path) or path == "Makefile" or text.startswith("#!"):
        pieces = list(hash_comments(text))
    else:
        return []
    if not path.endswith((".md", ".scd")):
        for n, comment in pieces:
            if HEADLESS.match(comment):
                found.append(f"{path}:{n}: the comment begins without a subject: {comment.splitlines()[0][:70]}")
    for n, piece in pieces:
        if path in ALLOWED:
            break
        for pattern, instead in words:
            hit = pattern.search(words_of(piece))
            if hit:
                found.append(f"{path}:{n}: \"{hit.group(0)}\" is retired: {instead}")
    return found


def main():
    paths = sys.argv[1:] or subprocess.check_output(["git", "ls-files"], text=True).split("\n")
    words = retired()
    passed = failed = 0
    for path in paths:
        if not path or SKIPPED.search(path) or not os.path.isfile(path):
            continue
        complaints = look(path, words)
        for complaint in complaints:
            print("FAIL " + complaint)
        passed, failed = (passed, failed + 1) if complaints else (passed + 1, failed)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
