# SPDX-License-Identifier: Apache-2.0
"""The progress of long work on standard error: a bar with the time left, and nothing where it is no terminal."""
import sys
import time

CELLS = 40


def line(what, done, total, elapsed):
    """The text of the progress bar."""
    full = CELLS * done // total
    text = f"{what} [{'#' * full}{'.' * (CELLS - full)}] {done} of {total}"
    if 0 < done < total:
        left = round(elapsed * (total - done) / done)
        text += f"  {left // 60}:{left % 60:02} left"
    return text


def over(items, total, what, file=None):
    """Yields the items, and shows a progress bar meanwhile."""
    file = file or sys.stderr
    begin = time.monotonic()
    shown = total > 1 and file.isatty()
    for done, item in enumerate(items, 1):
        yield item
        if shown:
            print(f"\r{line(what, done, total, time.monotonic() - begin)}\033[K", end="", file=file, flush=True)
    if shown:
        print("\r\033[K", end="", file=file, flush=True)
