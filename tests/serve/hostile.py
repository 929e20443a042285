#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Hostile users of `detshare-serve --listen`, beside a good user whose replies are compared and timed

Parts: requests of every wrong length, seeded mutations of a valid request, inputs that are NaN and infinite, clients that
disconnect in the middle, floods of requests from clients that never read, more connections than the server allows, and two
users who hold all connections. The protocol has no names, types, shapes or counts that could be wrong, only a length.

After each part the good user gets the same bytes, and the server has grown by less than 16 MiB. The effective uid at
connect() is the user of a connection. Without root there is one user, and parts that need more are skipped. Prints
`N passed, N failed` last.

usage: hostile.py SOCKET PACK PID CONNECTIONS      the pack has one input; one instance serves it
"""
import array
import fcntl
import os
import random
import resource
import select
import signal
import statistics
import struct
import sys
import termios
import time

import clients
from clients import BAD, BUSY, OK, check

GOOD, FIRST, SECOND, THIRD = 0, 54324, 54325, 54326  # users
GOOD_S = 5  # at most for one request of the good user, on a busy machine
RSS_KB = 16384  # that the server may grow by
ROOT = os.geteuid() == 0


class Attack:
    def __init__(self, path, pack, pid, connections):
        self.path, self.pid, self.most = path, pid, connections
        self.inputs = []
        for case in range(2):
            with open(os.path.join(pack, f'case{case}.in0.bin'), 'rb') as f:
                self.inputs.append(f.read())
        self.length = len(self.inputs[0])
        self.request = struct.pack('<4sIQ', b'DSQ1', 0, self.length) + self.inputs[0]
        self.good = self.client(GOOD)
        self.wanted = [self.good.ask(b'DSQ1', data) for data in self.inputs]
        self.answer_bytes = 16 + len(self.wanted[0][1])
        self.rss = self.rss_kb()

    def client(self, user):
        if ROOT:
            os.seteuid(user)
        try:
            return clients.Client(self.path)
        finally:
            if ROOT:
                os.seteuid(0)

    def rss_kb(self):
        with open(f'/proc/{self.pid}/status', encoding='ascii') as f:
            return next(int(line.split()[1]) for line in f if line.startswith('VmRSS'))

    def is_good(self, n=1):
        """The good user's n requests get the right bytes in time. Returns the longest time in seconds, None if one was wrong."""
        worst = 0
        for i in range(n):
            begin = time.monotonic()
            if self.good.ask(b'DSQ1', self.inputs[i % 2]) != self.wanted[i % 2]:
                return None
            worst = max(worst, time.monotonic() - begin)
        return worst

    def still_good(self, part):
        worst = self.is_good(4)
        check(f'{part}: the good user gets the right bytes in time', worst is not None and worst < GOOD_S)
        check(f'{part}: the server grows by less than 16 MiB', self.rss_kb() - self.rss < RSS_KB)


def close(some):
    for client in some:
        client.close()


def drain(client):
    """All replies until the server closes the connection, as (status, content); None for bytes that are no reply."""
    answers = []
    try:
        while True:
            answers.append(client.answer())
    except AssertionError:
        return None
    except (EOFError, ConnectionResetError):
        return answers


# --- input on one connection ----------------------------------------------------------------------------------


def lengths(a):
    n = a.length
    for length in (0, 1, n - 1, n + 1, 2 * n, 1 << 16, 1 << 31, (1 << 32) + n, 1 << 63, (1 << 63) + n, (1 << 64) - n, (1 << 64) - 16, (1 << 64) - 1):
        for magic in (b'DSQ1', b'DSD1'):
            if (magic, length) == (b'DSD1', 0):
                continue
            client = a.client(FIRST)
            client.send(magic, a.inputs[0], length=length)
            check(f'{magic} of {length} bytes is refused', [status for status, _ in drain(client) or []] == [BAD])
            client.close()
    for text in (b'GET /../../etc/passwd HTTP/1.1\r\n\r\n', b'DSQ1../../etc/passwd', b'DSA1' + bytes(12), b'dsq1' + bytes(100), b'\xff' * 300):
        client = a.client(FIRST)
        client.raw(text)
        check(f'{text[:8]} is refused', [status for status, _ in drain(client) or []] == [BAD])
        client.close()
    a.still_good('wrong lengths')


def mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:at + rng.randrange(1, 40)]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 40))
        elif kind == 3:
            data[4:16] = rng.choice((bytes(12), b'\xff' * 12, rng.randbytes(12)))
        else:
            data += data[:at]
    return bytes(data)


def mutations(a, seed=22, n=400):
    rng = random.Random(seed)
    wrong = []
    for i in range(n):
        client = a.client(FIRST)
        data = mutate(rng, a.request)
        try:
            client.raw(data)
            client.socket.shutdown(1)
        except OSError:  # it was refused before the end
            pass
        answers = drain(client)
        # a refusal is the last reply, and an answer has the model's length
        if answers is None or any(status not in (OK, BAD) for status, _ in answers) or any(status != OK for status, _ in answers[:-1]):
            wrong.append((i, data, answers))
        client.close()
    check(f'{n} mutations are answered or refused, {wrong[:2]}', not wrong)
    a.still_good('mutations')


def contents(a):
    client = a.client(FIRST)
    for name, half in (('NaN', 0x7e00), ('signalling NaN', 0xfd55), ('infinity', 0x7c00), ('-infinity', 0xfc00), ('-0', 0x8000), ('the largest', 0x7bff), ('the smallest', 1)):
        status, content = client.ask(b'DSQ1', struct.pack('<H', half) * (a.length // 2))
        check(f'{name}: gets a reply', status == OK and len(content) + 16 == a.answer_bytes)
        check(f'{name}: the next request gets the right bytes', client.ask(b'DSQ1', a.inputs[1]) == a.wanted[1])
    client.close()
    a.still_good('contents')


def leavers(a):
    """Clients disconnect in the middle of requests, before replies, and in the middle of replies."""
    rng = random.Random(23)
    for _ in range(300):
        client = a.client(FIRST)
        try:
            client.raw((a.request * 3)[:rng.randrange(3 * len(a.request))])
            if rng.random() < .3:
                client.socket.settimeout(.001)
                client.socket.recv(rng.randrange(1, 20))
        except OSError:
            pass
        client.close()
    a.still_good('leavers')


# --- many connections -------------------------------------------------------------------------------------------------------


def answered(a, some):
    """Number of unread replies."""
    total = 0
    for client in some:
        waiting = array.array('i', [0])
        fcntl.ioctl(client.socket, termios.FIONREAD, waiting)
        total += waiting[0] // a.answer_bytes
    return total


def flood(a):
    """Each client sends 200 requests and never reads: the good user waits for a few of them, however many are queued."""
    some = [a.client(FIRST) for _ in range(20)]
    for client in some:
        client.raw(a.request * 200)
    before, good = [], True
    for i in range(40):
        begun = answered(a, some)
        good = good and a.is_good() is not None
        before.append(answered(a, some) - begun)
    check('flood: the good user gets the right bytes', good)
    left = 200 * len(some) - answered(a, some)
    check(f'flood: the flood lasts longer than the good requests ({left} are left)', left > 0)
    print(f'flood: {statistics.median(before)} (median) hostile requests ran during a good one, {max(before)} at most')
    if ROOT:
        check('flood: a user with 20 requests gets no larger share than a user with one', statistics.median(before) <= 6)
    close(some)
    a.still_good('flood')


def crowd(a, n=500):
    """One user holds all connections that it may have with half requests, and continues to connect."""
    held, refused, unclear = [], 0, 0
    while len(held) < a.most // 2 - (0 if ROOT else 1):
        held.append(a.client(FIRST))
        held[-1].raw(a.request[:11])
    check('crowd: the good user gets the right bytes beside half requests', a.is_good(4) is not None)
    begin, ticks, worst = time.monotonic(), clients.ticks(a.pid), 0
    for i in range(n):
        client = a.client(FIRST)
        answers = drain(client)
        refused += answers == [(BUSY, b'there are too many connections')]
        client.close()
    took = time.monotonic() - begin
    check(f'crowd: {n} more are refused with a message', refused == n)
    print(f'crowd: {1e6 * took / n:.0f} us a refusal, {1e4 * (clients.ticks(a.pid) - ticks) / n:.0f} us of the server')
    passed_by = []
    while len(passed_by) < 20 and min(passed_by, default=200) > 150:
        os.kill(a.pid, signal.SIGSTOP)
        some = [a.client(FIRST) for _ in range(200)]
        poller = select.poll()
        for client in some:
            poller.register(client.socket, select.POLLIN)
        a.good.send(b'DSQ1', a.inputs[0])
        begin = time.monotonic()
        os.kill(a.pid, signal.SIGCONT)
        right = a.good.answer() == a.wanted[0]
        worst = max(worst, time.monotonic() - begin)
        passed_by.append(len(poller.poll(0)) if right else 200)
        for client in some:  # the backlog is empty before the server is stopped again, or connect() would not return
            drain(client)
        close(some)
    print(f'crowd: {1e3 * worst:.1f} ms for a good request; {passed_by} of 200 were refused meanwhile')
    # The request needs four turns of the server's loop, and each turn refuses 16 connections. This process may wait
    # for a processor and count more, so one good try of 20 is enough.
    check('crowd: a good request does not wait for all refusals', min(passed_by) <= 150)
    check('crowd: the good user is served in time', worst < GOOD_S)
    if ROOT:
        client = a.client(GOOD)
        check('crowd: another user may connect', client.ask(b'DSQ1', a.inputs[1]) == a.wanted[1])
        client.close()
    close(held)
    a.still_good('crowd')


def greedy(a, say):
    """Two users hold all connections: other users still get their share, and no more."""
    held = {FIRST: [], SECOND: []}
    for _ in range(a.most // 2):
        for user, some in held.items():
            some.append(a.client(user))
            try:
                some[-1].raw(say)
            except OSError:  # it is refused, because the good user has one
                pass
    new = [a.client(THIRD) for _ in range(5)]
    answers = []
    for client in new:
        try:
            answers.append(client.ask(b'DSQ1', a.inputs[1]))
        except (EOFError, OSError):
            answers.append(None)
    check(f'greedy {len(say)}: a third user is served', answers == [a.wanted[1]] * 5)
    close(new + held[FIRST] + held[SECOND])
    a.still_good(f'greedy {len(say)}')


def main():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    a = Attack(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    for part in (lengths, mutations, contents, leavers, flood, crowd):
        begin = time.monotonic()
        part(a)
        print(f'{part.__name__}: {time.monotonic() - begin:.2f} s')
    if ROOT:
        begin = time.monotonic()
        for say in (b'', a.request[:50], a.request * 300):
            greedy(a, say)
        print(f'greedy: {time.monotonic() - begin:.2f} s')
    clients.finish()


if __name__ == '__main__':
    main()
