# SPDX-License-Identifier: Apache-2.0
"""Percentiles, and how sure they are: bootstrap intervals, without any package.

Latencies of requests that follow each other are not independent: a queue passes its length on. So blocks of neighbours are drawn, not
single values (moving-block bootstrap; Kuensch 1989), as long as the square root of how many there are; measurements of several rounds are
drawn round by round. Intervals are between the percentiles of the drawn figures, 95% unless said otherwise. Everything random has a seed.
"""
import math
import random

LEVEL = 0.95
DRAWS = 400


def percentile(values, part):
    """The smallest value that so many parts of all do not exceed; NaN of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)] if ordered else math.nan


def drawn(series, random_):
    """Values of one series, drawn in blocks."""
    n = len(series)
    length = max(1, math.isqrt(n))
    values = []
    while len(values) < n:
        at = random_.randrange(n - length + 1)
        values += series[at:at + length]
    return values[:n]


def draws(rounds, figure, n=DRAWS, seed=1):
    """The figure of n drawn samples; rounds: a list of series."""
    random_ = random.Random(seed)
    rounds = [series for series in rounds if series]
    return [figure([value for series in rounds for value in drawn(series, random_)]) for _ in range(n)] if rounds else []


def interval(figures, level=LEVEL):
    figures = [figure for figure in figures if not math.isnan(figure)]
    if not figures:
        return math.nan, math.nan
    return percentile(figures, (1 - level) / 2), percentile(figures, 1 - (1 - level) / 2)


def ratio_interval(above, below, level=LEVEL):
    """Of two figures that were measured apart: draws of one over draws of the other."""
    return interval([a / b for a, b in zip(above, below) if b], level)


def spread(figures):
    """How far figures that should be the same lie apart: half the range over the middle. NaN of fewer than two."""
    figures = [figure for figure in figures if not math.isnan(figure)]
    if len(figures) < 2 or max(figures) + min(figures) == 0:
        return math.nan
    return (max(figures) - min(figures)) / (max(figures) + min(figures))


def against(value, interval_, noise, than=1.0):
    """What a ratio says: "more", "less", or "noise" when its interval, or the noise of the run around it, holds `than`."""
    low, high = interval_
    noise = 0 if math.isnan(noise) else noise
    if math.isnan(value) or math.isnan(low) or math.isnan(high):
        return "noise"
    low, high = min(low, value * (1 - noise)), max(high, value * (1 + noise))
    return "more" if low > than else "less" if high < than else "noise"
