# SPDX-License-Identifier: Apache-2.0
"""Places in the arena for buffers whose lifetimes are known.

A buffer is in use from the first launch that writes it to the last that touches it. Best fit, largest buffer first: each goes into the
smallest sufficient gap between placed buffers that live at the same time, or behind all of them. The optimum is NP-hard; `peak`, the
most bytes in use at once, is a lower bound, and the compiler prints the difference.
"""
import dataclasses

ALIGN = 256


@dataclasses.dataclass(eq=False)
class Buffer:
    bytes: int
    first: int = 1 << 60
    last: int = -1
    offset: int = -1
    name: str = ""

    def touch(self, launch):
        self.first, self.last = min(self.first, launch), max(self.last, launch)


def up(n):
    return -(-n // ALIGN) * ALIGN


def place_one(buffer, placed):
    """The offset for one buffer: the begin of the smallest sufficient gap, or behind all placed buffers."""
    busy = sorted((b.offset, b.offset + up(b.bytes)) for b in placed if b.first <= buffer.last and buffer.first <= b.last)
    best, end = None, 0
    for begin, stop in busy:
        if begin - end >= up(buffer.bytes) and (best is None or begin - end < best[0]):
            best = (begin - end, end)
        end = max(end, stop)
    return best[1] if best else end


def place(buffers):
    """Sets the offsets of all buffers, and returns the arena's length."""
    placed = []
    for buffer in sorted(buffers, key=lambda b: (-b.bytes, b.first, b.last)):
        buffer.offset = place_one(buffer, placed)
        placed.append(buffer)
    return max([b.offset + up(b.bytes) for b in buffers], default=0)


def peak(buffers):
    """The maximum number of bytes that are in use at one launch."""
    events = sorted([(b.first, 1, up(b.bytes)) for b in buffers] + [(b.last + 1, 0, -up(b.bytes)) for b in buffers])
    most = now = 0
    for _, _, change in events:
        now += change
        most = max(most, now)
    return most
