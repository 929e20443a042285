# SPDX-License-Identifier: Apache-2.0
"""Percentiles and their uncertainty: bootstrap intervals, without any package.

Latencies of successive requests are not independent, because a queue passes its length on. So blocks of neighbours
are drawn, not single values (moving-block bootstrap; Kuensch 1989); a block is as long as the square root of the
number of values. Measurements of several rounds are drawn round by round. Intervals lie between percentiles of the
drawn figures, 95% by default. All randomness has a seed.
"""
import math
import random

LEVEL = 0.95
DRAWS = 400


def percentile(values, part):
    """The smallest value that at least this part of all values does not exceed; NaN without values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)] if ordered else math.nan


def drawn(series, random_):
    """A sample of one series, drawn in blocks."""
    n = len(series)
    length = max(1, math.isqrt(n))
    values = []
    while len(values) < n:
        at = random_.randrange(n - length + 1)
        values += series[at:at + length]
    return values[:n]


def draws(rounds, figure, n=DRAWS, seed=1):
    """The figure for each of n samples drawn from the series in `rounds`, for a bootstrap interval."""
    random_ = random.Random(seed)
    rounds = [series for series in rounds if series]
    return [figure([value for series in rounds for value in drawn(series, random_)]) for _ in range(n)] if rounds else []


def interval(figures, level=LEVEL):
    figures = [figure for figure in figures if not math.isnan(figure)]
    if not figures:
        return math.nan, math.nan
    return percentile(figures, (1 - level) / 2), percentile(figures, 1 - (1 - level) / 2)


def ratio_interval(above, below, level=LEVEL):
    """Interval of the ratio of two figures that were measured separately, from the bootstrap draws of both."""
    return interval([a / b for a, b in zip(above, below) if b], level)


def spread(figures):
    """Half the range of the values over the middle of the range, as noise of figures that should be equal. NaN for
    fewer than two values."""
    figures = [figure for figure in figures if not math.isnan(figure)]
    if len(figures) < 2 or max(figures) + min(figures) == 0:
        return math.nan
    return (max(figures) - min(figures)) / (max(figures) + min(figures))


def against(value, interval_, noise, than=1.0):
    """Verdict on a ratio: "more", "less", or "noise" if its interval or the run's noise around it contains `than`."""
    low, high = interval_
    noise = 0 if math.isnan(noise) else noise
    if math.isnan(value) or math.isnan(low) or math.isnan(high):
        return "noise"
    low, high = min(low, value * (1 - noise)), max(high, value * (1 + noise))
    return "more" if low > than else "less" if high < than else "noise"
