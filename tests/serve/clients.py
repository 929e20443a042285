#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Clients of `detshare-serve --listen`, good and hostile ones. Ends with `N passed, N failed`.

usage: clients.py SOCKET PACK CONNECTIONS [PID]      the pack of make_pack.py, served with so many connections at most

With PID, of a server that may have no more than 40 files open: what it does then, and nothing else.
"""
import hashlib
import os
import random
import select
import socket
import struct
import sys
import threading
import time

OK, BAD, BUSY = 0, 1, 2
IN, OUT = 256, 384 + 192
DEAF_MAX = 1 << 24
passed = failed = 0


def check(name, good):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f'FAIL {name}')


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)  # with a timeout it would not wait for its turn
        self.socket.settimeout(30)

    def send(self, magic, content=b'', length=None, status=0):
        self.raw(struct.pack('<4sIQ', magic, status, len(content) if length is None else length) + content)

    def raw(self, data):
        self.socket.sendall(data)

    def take(self, n):
        data = b''
        while len(data) < n:
            more = self.socket.recv(n - len(data))
            if not more:
                raise EOFError(f'{len(data)} of {n} bytes')
            data += more
        return data

    def answer(self):
        magic, status, length = struct.unpack('<4sIQ', self.take(16))
        assert magic == b'DSA1' and length < 1 << 20, (magic, length)
        return status, self.take(length)

    def ask(self, magic, *args, **more):
        self.send(magic, *args, **more)
        return self.answer()

    def ended(self):
        try:
            return self.socket.recv(1) == b''
        except ConnectionResetError:
            return True

    def close(self):
        self.socket.close()


class Server:
    """The socket, what is sent to it and what must come back."""

    def __init__(self, path, pack, connections):
        self.path, self.connections = path, connections
        self.inputs, self.wanted = [], {}
        for case in range(2):
            with open(os.path.join(pack, f'case{case}.in0.bin'), 'rb') as f:
                self.inputs.append(f.read())
            with open(os.path.join(pack, f'case{case}.out0.bin'), 'rb') as f:
                self.wanted[case] = struct.unpack('<96f', f.read())

    def client(self):
        return Client(self.path)

    def is_right(self, case, content):
        got = struct.unpack('<96f', content[:384])
        return len(content) == OUT and all(abs(g - w) <= 1e-4 + 1e-4 * abs(w) for g, w in zip(got, self.wanted[case]))

    def still_serves(self):
        status, until = BUSY, time.time() + 5
        while status == BUSY and time.time() < until:  # requests of clients that have gone may still be running
            client = self.client()
            status, content = client.ask(b'DSQ1', self.inputs[0])
            client.close()
        return status == OK and self.is_right(0, content)


def good(server):
    client = server.client()
    status, text = client.ask(b'DSD1')
    lines = text.decode().splitlines()
    check('it says what it serves', status == OK and lines == ['model tiny', 'batch 1', 'input x f32 1,64 256', 'output y f32 1,96 384', 'output z f16 96 192'])
    digests = []
    for case in (0, 1, 0, 1):
        status, content = client.ask(b'DSQ1', server.inputs[case])
        check(f'case {case} is answered', status == OK and server.is_right(case, content))
        digests.append(hashlib.sha256(content).hexdigest())
    check('the same input gives the same bytes', digests[:2] == digests[2:] and digests[0] != digests[1])
    client.send(b'DSQ1', server.inputs[0])
    client.send(b'DSQ1', server.inputs[1])
    first, second = client.answer(), client.answer()
    check('requests that are sent ahead are answered in order', server.is_right(0, first[1]) and server.is_right(1, second[1]))
    for byte in struct.pack('<4sIQ', b'DSQ1', 0, IN) + server.inputs[1]:
        client.raw(bytes([byte]))
    check('byte by byte', server.is_right(1, client.answer()[1]))
    client.close()
    print('digests', *digests[:2])


def crowd(server):
    """Many at once, all of whom get what they asked for."""
    right = []

    def one(case):
        client = server.client()
        for _ in range(30):
            status, content = client.ask(b'DSQ1', server.inputs[case])
            right.append(status == OK and server.is_right(case, content))
        client.close()

    threads = [threading.Thread(target=one, args=(i % 2,)) for i in range(min(8, server.connections // 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check('clients beside each other get their own answers', len(right) == 30 * len(threads) and all(right))


def leave(client, data):
    """Says that and goes. The server may have had enough clients when this one came: then it says so and hangs up first."""
    try:
        client.raw(data)
    except OSError:
        pass
    client.close()


def refused(server, name, words, *args, **more):
    client = server.client()
    status, text = client.ask(*args, **more)
    check(f'{name}: refused with a sentence', status == BAD and words in text.decode() and '256 bytes of input' in text.decode())
    check(f'{name}: and the connection ends', client.ended())
    client.close()


def bad(server):
    refused(server, 'another magic', 'no request', b'GET ')
    refused(server, 'too short', 'length is wrong', b'DSQ1', b'x' * (IN - 1))
    refused(server, 'too long', 'length is wrong', b'DSQ1', b'x' * (IN + 1))
    refused(server, 'all memory there is', 'length is wrong', b'DSQ1', length=(1 << 64) - 1)
    refused(server, 'a status', 'status 0', b'DSQ1', server.inputs[0], status=1)
    refused(server, 'a description of something', 'length is wrong', b'DSD1', b'x')
    for size in (0, 1, 15, 16, 17, 100, IN + 15):
        leave(server.client(), (struct.pack('<4sIQ', b'DSQ1', 0, IN) + server.inputs[0])[:size])
    for _ in range(20):  # gone before the answer
        leave(server.client(), struct.pack('<4sIQ', b'DSQ1', 0, IN) + server.inputs[0])
    rng = random.Random(1)
    for _ in range(200):
        leave(server.client(), rng.randbytes(rng.choice((3, 16, 40, 1000))))
    check('after all that it serves', server.still_serves())


def deaf(server):
    """Asks and never reads: an answer lies in the socket, then requests do, and nobody waits for it."""
    client = server.client()
    client.socket.setblocking(False)
    request = struct.pack('<4sIQ', b'DSQ1', 0, IN) + server.inputs[0]
    sent, progress = 0, time.time()
    while time.time() < progress + 1 and sent < DEAF_MAX:
        try:
            sent += client.socket.send(request * 50)
            progress = time.time()
        except BlockingIOError:
            time.sleep(0.01)
    begin = time.time()
    check('while one does not read, others are served', all(server.still_serves() for _ in range(20)))
    check('at once', time.time() - begin < 5)
    return client, sent


def slow(server):
    """Begins requests and does not end them, in as many connections as there may be."""
    before = server.client()
    before.ask(b'DSQ1', server.inputs[0])
    sleepers = []
    for _ in range(server.connections + 4):
        client = server.client()
        try:
            client.raw(struct.pack('<4sIQ', b'DSQ1', 0, IN)[:11])
        except BrokenPipeError:  # refused already
            pass
        sleepers.append(client)
    check('who has a connection is served beside them', before.ask(b'DSQ1', server.inputs[1])[0] == OK)
    late = server.client()
    status, text = late.answer()
    check('a new one is told that there are too many', status == BUSY and b'too many connections' in text)
    begin = time.time()
    held = [client for client in sleepers if not client_is_refused(client)]
    check('not more than half are one user\'s', len(held) <= server.connections // 2)
    check('they are ended', all(client.ended() for client in held))
    check('in their time', 5 < time.time() - begin < 30)
    check('then there is room again', server.still_serves())
    check('who was idle meanwhile is still served', before.ask(b'DSQ1', server.inputs[0])[0] == OK)
    for client in sleepers + [before, late]:
        client.close()


def client_is_refused(client):
    client.socket.settimeout(0.05)
    try:
        return client.answer()[0] == BUSY
    except socket.timeout:
        return False
    except (EOFError, ConnectionResetError):
        return True
    finally:
        client.socket.settimeout(30)


def idle(server):
    """All connections that a user may have are idle: after a while the longest idle one makes room."""
    idlers = []
    for _ in range(server.connections // 2):
        idlers.append(server.client())
        idlers[-1].ask(b'DSD1')
        time.sleep(0.01)
    early = server.client()
    check('a young idle one does not make room', early.answer()[0] == BUSY)
    time.sleep(5.5)
    check('an old one does', server.still_serves())
    check('the longest idle of all', idlers[0].ended() and idlers[1].ask(b'DSD1')[0] == OK)
    for client in idlers + [early]:
        client.close()


def ticks(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii') as f:
        return sum(int(word) for word in f.read().split()[13:15])


def few_files(server, pid):
    """More connect than it has file descriptors for: they wait, and it does not spin."""
    clients = [server.client() for _ in range(80)]
    check('the first is served', server.is_right(0, clients[0].ask(b'DSQ1', server.inputs[0])[1]))
    before = ticks(pid)
    time.sleep(1)
    check('it sleeps meanwhile', ticks(pid) - before < 30)
    for client in clients[:79]:
        client.close()
    check('others have their turn when these have gone', server.is_right(1, clients[79].ask(b'DSQ1', server.inputs[1])[1]))


def main():
    server = Server(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    if len(sys.argv) > 4:
        few_files(server, sys.argv[4])
        finish()
    good(server)
    crowd(server)
    bad(server)
    client, sent = deaf(server)
    check('what a deaf one could send is bounded', sent < DEAF_MAX)
    slow(server)
    check('the deaf one was ended, too', client_is_gone(client))
    client.close()
    idle(server)
    finish()


def finish():
    print(f'{passed} passed, {failed} failed')
    sys.exit(failed > 0)


def client_is_gone(client):
    """Is ended by the server within its limit for a request; nothing is read meanwhile, or it were deaf no more."""
    poller = select.poll()
    poller.register(client.socket, select.POLLHUP)
    return bool(poller.poll(30_000))


if __name__ == '__main__':
    main()
