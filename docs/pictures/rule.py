#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rule of the policy detshare as one picture: where a BE kernel runs, and when it waits.

usage: rule.py [--out docs/pictures]     writes rule.svg (`make pictures`)
"""
import argparse
import pathlib

import svg

HERE = pathlib.Path(__file__).resolve().parent
COMMAND = "make pictures"
WIDTH, HEIGHT = 900, 414


def question(x, y, rows, source):
    """A question with the file that answers it."""
    lines = [svg.rect(x, y, 214, 66, "box", 'rx="6"')]
    lines += [svg.text(x + 107, y + 21 + 15 * i, row, 12, "middle") for i, row in enumerate(rows)]
    return lines + [svg.text(x + 107, y + 57, source, 10, "middle", "dim")]


def outcome(x, y, wide, hue, title, row):
    return [svg.rect(x, y, wide, 46, hue, 'rx="6" fill-opacity="0.25"'), svg.text(x + wide / 2, y + 20, title, 12, "middle", extra='font-weight="bold"'),
            svg.text(x + wide / 2, y + 36, row, 10, "middle", "dim")]


def answer(x1, y1, x2, y2, word):
    x, y = ((x1 + x2) / 2, y1 - 6) if y1 == y2 else (x1 + 7, (y1 + y2) / 2 + 4)
    return [svg.arrow(x1, y1, x2, y2), svg.text(x, y, word, 11, "middle" if y1 == y2 else "start", "dim")]


def picture():
    lines = [svg.text(20, 28, "The rule of detshare: where the next BE kernel runs", 16, extra='font-weight="bold"')]
    lines += [svg.text(20, 62, "no LS request runs", 12, extra='font-weight="bold"'), *question(20, 70, ["Does it probably end", "before the next request?"], "measured pauses: gaps.c"),
              *answer(234, 103, 652, 103, "yes"), *outcome(652, 80, 228, "green", "all SMs", "at low priority"),
              *answer(127, 136, 127, 166, "no"), *outcome(37, 166, 180, "red", "waits", "for a longer pause")]
    lines += [svg.text(20, 248, "an LS request runs", 12, extra='font-weight="bold"'), *question(20, 256, ["Has BE cost requests", "more than the slack?"], "measured: felt.c"),
              *answer(234, 289, 350, 289, "no"), *question(350, 256, ["Would it cost this request", "more than the slack?"], "predicted: prices.c"),
              *answer(564, 289, 652, 289, "yes"), *outcome(652, 266, 228, "orange", "the SMs that LS does not need", "the fewest on which it is no slower"),
              *answer(457, 256, 457, 103, "no"), *answer(127, 322, 127, 352, "yes"), *outcome(37, 352, 180, "red", "waits", "until the request ends")]
    notes = ["Slack: 2% of a request's length, or all that its objective leaves while 99% of the requests meet it (budget.c).",
             "A BE kernel longer than the pauses is placed as if a request were running (place.c).",
             "A BE kernel that is in the way when a request begins is evicted, if it can be (evict.c).",
             "A BE kernel that has waited for starve_ms starts in any case."]
    lines += [svg.text(240, 347 + 17 * i, note, 11, kind="dim") for i, note in enumerate(notes)]
    return svg.frame(WIDTH, HEIGHT, COMMAND, "the questions that decide where a BE kernel runs, and the SMs that it gets", lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "rule.svg").write_text(picture(), encoding="utf8")


if __name__ == "__main__":
    main()
