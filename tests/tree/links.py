#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every relative link in README.md, SECURITY.md and docs/ points to an existing file, and every anchor to a heading there.

A picture counts as a link. Links to web pages are not followed.

usage: tests/tree/links.py [BUILD]
The last line is `N passed, N failed`, counted in links.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)\)")
OUTSIDE = re.compile(r"[a-z]+:")


def prose(text):
    """Yields (line number, line) outside of code blocks and without `code`."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield number, re.sub(r"`[^`]*`", "", line)


def anchors(path):
    """The anchors of a document's headings, as GitHub makes them."""
    found, fenced = {}, False
    for line in path.read_text(encoding="utf8").split("\n"):
        fenced ^= line.lstrip().startswith("```")
        heading = None if fenced else re.match(r"#{1,6} +(.*)", line)
        if heading:
            words = re.sub(r"[^\w\- ]", "", heading[1].strip().lower()).replace(" ", "-")
            found[words] = found.get(words, -1) + 1
    return {word if i == 0 else f"{word}-{i}" for word, last in found.items() for i in range(last + 1)}


def complaint(document, target):
    """What is wrong with a link; empty when nothing is."""
    name, _, anchor = target.partition("#")
    path = (document.parent / name).resolve() if name else document
    if not path.exists():
        return f"there is no {name}"
    if anchor and path.suffix == ".md" and anchor not in anchors(path):
        return f"{path.relative_to(ROOT)} has no heading #{anchor}"
    return ""


def main():
    passed = failed = 0
    documents = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for document in documents:
        for number, line in prose(document.read_text(encoding="utf8")):
            for target in LINK.findall(line):
                if OUTSIDE.match(target):
                    continue
                wrong = complaint(document, target)
                passed, failed = (passed, failed + 1) if wrong else (passed + 1, failed)
                if wrong:
                    print(f"FAIL {document.relative_to(ROOT)}:{number}: {target}: {wrong}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
