# SPDX-License-Identifier: Apache-2.0
"""Meeting points for measurements on several GPUs of one host.

A program that starts or ends on one GPU takes time slices of the others. On a host with two H200s, services had
requests of 4 to 43 ms, alone and under every load, in the seconds in which programs of the other GPU's measurement
started and ended. So all measurements of a host start their programs, measure, and end their programs at the same
times: at() returns when all others have reached the same point.

No measurement waits for one that is gone, however it ended (each holds a lock on a file of its own), for one that
never came (ABSENT_S), or for one that waits at a point that this one has not reached. So measurements in different
orders do not block each other for ever. A measurement that skips a point reports that with passed(). Without the
folder there are no others.
"""
import fcntl
import os
import pathlib
import time

ABSENT_S = 60
LOOK_S = 0.05


class Meeting:
    """Member `number` of `of`, which share one new folder; folder None: there are no others."""

    def __init__(self, folder, number, of):
        self.folder, self.number, self.begin, self.been = pathlib.Path(folder) if folder else None, number, time.monotonic(), set()
        self.others = [k for k in range(of) if k != number] if folder else []
        self.lock = None
        if self.others:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.lock = open(self.folder / f"{number}.here", "w", encoding="utf8")
            fcntl.flock(self.lock, fcntl.LOCK_EX)

    def at(self, point):
        """Waits until all other members have reached this point. Further calls for the same point return at once."""
        if not self.passed(point):
            return
        try:
            self.says(point)
            while any(self.is_awaited(k, point) for k in self.others):
                time.sleep(LOOK_S)
            self.says("")
        except FileNotFoundError:  # the script that started all measurements is gone, and so is the folder
            self.others = []

    def passed(self, point):
        """Reports that the other members need not wait at this point. Returns 0 if that was reported before, or if
        there are no other members."""
        if point in self.been or not self.others:
            return 0
        self.been.add(point)
        try:
            (self.folder / f"{self.number}.at.{point}").touch()
        except FileNotFoundError:
            self.others = []
        return len(self.others)

    def says(self, point):
        """Writes a file so that other members read either all of it or none."""
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
