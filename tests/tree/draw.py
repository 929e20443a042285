#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws comments and sentences at random, for a reader who has not read the code and says which are clear.

Prints COMMENTS comments of sources, each with its place and the code that it stands beside, and SENTENCES sentences of
documents. The same seed and tree give the same draw. A comment of fewer than four words and a section's title are not
drawn: there is nothing to understand in them. A file's opening essay is one comment: its first 600 characters are shown.

usage: tests/tree/draw.py SEED [COMMENTS [SENTENCES]]     (100 and 50 without arguments)
"""
import random
import re
import subprocess
import sys

import prose

SHOWN = 600


def beside(lines, line, comment):
    """The code that a comment is about: the code on the comment's line, or the first line of code below it."""
    here = re.sub(r"/\*.*?(\*/|$)|//.*", "", lines[line - 1]).strip()
    if here:
        return here
    for below in lines[line - 1 + comment.count("\n") + 1:][:6]:
        if below.strip() and not below.lstrip().startswith(("*", "/*", "//", "#")):
            return below.strip()
    return ""


def all_comments():
    found = []
    for path in subprocess.check_output(["git", "ls-files"], text=True).split("\n"):
        if prose.SKIPPED.search(path) or not re.search(r"\.(c|h|cu|proto|def|py|sh|mk)$", path):
            continue
        with open(path, errors="replace") as file:
            text = file.read()
        lines = text.split("\n")
        read = prose.c_comments if re.search(r"\.(c|h|cu|proto|def)$", path) else prose.hash_comments
        for line, comment in read(text):
            if len(comment.split()) >= 4 and not comment.startswith(("---", "SPDX", "clang-format", "shellcheck")):
                found.append((f"{path}:{line}", comment[:SHOWN], beside(lines, line, comment)))
    return found


def all_sentences():
    found = []
    for path in subprocess.check_output(["git", "ls-files", "*.md", "*.scd"], text=True).split("\n"):
        if not path or prose.SKIPPED.search(path):
            continue
        with open(path, errors="replace") as file:
            kept = [line for _, line in prose.prose_of_document(file.read())]
        for block in re.split(r"\n\s*\n", "\n".join(kept)):
            if block.lstrip().startswith(("|", "#", "<", "!")):
                continue
            flat = " ".join(block.split())
            found += [(path, s) for s in re.split(r"(?<=[.!?])\s+(?=[A-Z`*])", flat) if len(s.split()) >= 4]
    return found


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    rng = random.Random(int(sys.argv[1]))
    n_comments = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    n_sentences = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    for number, (place, comment, code) in enumerate(rng.sample(all_comments(), n_comments), 1):
        print(f"[{number}] {place}\n{comment}\n" + (f"    beside: {code}\n" if code else ""))
    for number, (place, sentence) in enumerate(rng.sample(all_sentences(), n_sentences), 1):
        print(f"<{number}> {place}\n{sentence}\n")


if __name__ == "__main__":
    main()
