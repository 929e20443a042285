# SPDX-License-Identifier: Apache-2.0
"""Where measurements of several GPUs of one host wait for each other.

A program that starts or ends on one GPU takes time slices of the others: on a host of two H200s, services had requests of 4 to 43 ms, alone and under
every load, for the seconds in which programs of the other GPU's measurement came and went. So those who measure start their programs, measure, and
end their programs at the same times: at() returns when all others have come to the same point.

Nobody is waited for who is gone, however it went (each holds a lock on a file of its own), who never came (ABSENT_S), or who waits itself at a point
where we have not been: those who do things in another order do not wait for each other for ever. Who does not come to a point says so (passed()).
Without the folder there is nobody to wait for.
"""
import fcntl
import os
import pathlib
import time

ABSENT_S = 60
LOOK_S = 0.05


class Meeting:
    """Of number k of n, who use the same folder, which nobody used before; None: there is nobody to wait for."""

    def __init__(self, folder, number, of):
        self.folder, self.number, self.begin, self.been = pathlib.Path(folder) if folder else None, number, time.monotonic(), set()
        self.others = [k for k in range(of) if k != number] if folder else []
        self.lock = None
        if self.others:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.lock = open(self.folder / f"{number}.here", "w", encoding="utf8")
            fcntl.flock(self.lock, fcntl.LOCK_EX)

    def at(self, point):
        """Once for each point, further calls do nothing."""
        if not self.passed(point):
            return
        try:
            self.says(point)
            while any(self.is_awaited(k, point) for k in self.others):
                time.sleep(LOOK_S)
            self.says("")
        except FileNotFoundError:  # who started us all has gone, and taken the folder with it
            self.others = []

    def passed(self, point):
        """The others need not wait there; 0: it was known, or there are none."""
        if point in self.been or not self.others:
            return 0
        self.been.add(point)
        try:
            (self.folder / f"{self.number}.at.{point}").touch()
        except FileNotFoundError:
            self.others = []
        return len(self.others)

    def says(self, point):
        """What the others read whole or not at all."""
        new = self.folder / f"{self.number}.new"
        new.write_text(point, encoding="utf8")
        os.replace(new, self.folder / f"{self.number}.waits")

    def is_awaited(self, other, point):
        if (self.folder / f"{other}.at.{point}").exists():
            return False
        try:
            waits = (self.folder / f"{other}.waits").read_text(encoding="utf8")
        except FileNotFoundError:
            waits = ""
        return not (waits and waits not in self.been) and not self.is_gone(other)

    def is_gone(self, other):
        try:
            with open(self.folder / f"{other}.here", encoding="utf8") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return not self.folder.exists() or time.monotonic() - self.begin > ABSENT_S
        except BlockingIOError:
            return False
        return True

    def leave(self):
        if self.lock:
            self.lock.close()
