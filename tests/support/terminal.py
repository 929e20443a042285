#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run a command on a pseudo terminal of COLUMNS columns and print what it wrote there.

usage: tests/support/terminal.py [--keys KEYS] [--after SECONDS] COLUMNS COMMAND [ARGUMENT...]

KEYS are typed SECONDS after the start (default: 2). Exits like the command.
"""

import argparse
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", default="")
    parser.add_argument("--after", type=float, default=2)
    parser.add_argument("columns", type=int)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 60, arguments.columns, 0, 0))
        os.execvp(arguments.command[0], arguments.command)
    keys, due = arguments.keys.encode(), time.monotonic() + arguments.after
    while True:
        ready, _, _ = select.select([terminal], [], [], max(0, due - time.monotonic()) if keys else 300)
        if keys and time.monotonic() >= due:
            os.write(terminal, keys)
            keys = b""
        if not ready:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        sys.stdout.buffer.write(data)
    _, status = os.waitpid(pid, 0)
    sys.stdout.flush()
    sys.exit(os.waitstatus_to_exitcode(status))


main()
