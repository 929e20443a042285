#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Clients of `detshare-serve --listen`: correct and hostile ones. Prints `N passed, N failed` last.

usage: clients.py SOCKET PACK CONNECTIONS [PID]      the pack of make_pack.py, served with at most CONNECTIONS connections

With PID: only the behaviour of a server with that pid whose limit of open files is 40.
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
    """The socket, the inputs of requests, and the expected outputs."""

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
    check('the server describes the model', status == OK and lines == ['model tiny', 'batch 1', 'input x f32 1,64 256', 'output y f32 1,96 384', 'output z f16 96 192'])
    digests = []
    for case in (0, 1, 0, 1):
        status, content = client.ask(b'DSQ1', server.inputs[case])
        check(f'case {case} gets the right outputs', status == OK and server.is_right(case, content))
        digests.append(hashlib.sha256(content).hexdigest())
    check('the same input gives the same bytes', digests[:2] == digests[2:] and digests[0] != digests[1])
    client.send(b'DSQ1', server.inputs[0])
    client.send(b'DSQ1', server.inputs[1])
    first, second = client.answer(), client.answer()
    check('requests sent without waiting are answered in order', server.is_right(0, first[1]) and server.is_right(1, second[1]))
    for byte in struct.pack('<4sIQ', b'DSQ1', 0, IN) + server.inputs[1]:
        client.raw(bytes([byte]))
    check('a request sent byte by byte is answered', server.is_right(1, client.answer()[1]))
    client.close()
    print('digests', *digests[:2])


def crowd(server):
    """Many clients at once: each gets the outputs for its own inputs."""
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
    check('concurrent clients get their own outputs', len(right) == 30 * len(threads) and all(right))


def leave(client, data):
    """Sends the bytes and disconnects. A server at its limit of clients may have closed the connection first."""
    try:
        client.raw(data)
    except OSError:
        pass
    client.close()


def refused(server, name, words, *args, **more):
    client = server.client()
    status, text = client.ask(*args, **more)
    check(f'{name}: refused with a message', status == BAD and words in text.decode() and '256 bytes of input' in text.decode())
    check(f'{name}: the server closes the connection', client.ended())
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
    check('the server still serves after all invalid requests', server.still_serves())


def deaf(server):
    """A client that sends requests and never reads: replies fill its socket, and other clients do not wait for it."""
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
    check('others are served while one client does not read', all(server.still_serves() for _ in range(20)))
    check('others are served within 5 s', time.time() - begin < 5)
    return client, sent


def slow(server):
    """Sends incomplete requests on as many connections as the server allows."""
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
    check('a client that is already connected is served beside incomplete requests', before.ask(b'DSQ1', server.inputs[1])[0] == OK)
    late = server.client()
    status, text = late.answer()
    check('a new connection is refused: too many connections', status == BUSY and b'too many connections' in text)
    begin = time.time()
    held = [client for client in sleepers if not client_is_refused(client)]
    check('at most half of the connections belong to one user', len(held) <= server.connections // 2)
    check('the server closes incomplete requests', all(client.ended() for client in held))
    check('the server closes them after 5 to 30 s', 5 < time.time() - begin < 30)
    check('then new clients are served again', server.still_serves())
    check('a client that was idle meanwhile is still served', before.ask(b'DSQ1', server.inputs[0])[0] == OK)
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
    """All of a user's connections are idle: after a while the server closes the longest idle one for a new client."""
    idlers = []
    for _ in range(server.connections // 2):
        idlers.append(server.client())
        idlers[-1].ask(b'DSD1')
        time.sleep(0.01)
    early = server.client()
    check('a recently active connection is not closed for a new one', early.answer()[0] == BUSY)
    time.sleep(5.5)
    check('a connection that is idle for long is closed for a new one', server.still_serves())
    check('the longest idle connection is closed, and no other', idlers[0].ended() and idlers[1].ask(b'DSD1')[0] == OK)
    for client in idlers + [early]:
        client.close()


def ticks(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii') as f:
        return sum(int(word) for word in f.read().split()[13:15])


def few_files(server, pid):
    """More clients connect than the server has descriptors for: they wait, and the server does not spin."""
    clients = [server.client() for _ in range(80)]
    check('the first client is served', server.is_right(0, clients[0].ask(b'DSQ1', server.inputs[0])[1]))
    before = ticks(pid)
    time.sleep(1)
    check('the server sleeps while clients wait', ticks(pid) - before < 30)
    for client in clients[:79]:
        client.close()
    check('waiting clients are served after these disconnect', server.is_right(1, clients[79].ask(b'DSQ1', server.inputs[1])[1]))


def main():
    server = Server(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    if len(sys.argv) > 4:
        few_files(server, sys.argv[4])
        finish()
    good(server)
    crowd(server)
    bad(server)
    client, sent = deaf(server)
    check('the bytes that a client can send without reading are bounded', sent < DEAF_MAX)
    slow(server)
    check('the server closes the client that never reads', client_is_gone(client))
    client.close()
    idle(server)
    finish()


def finish():
    print(f'{passed} passed, {failed} failed')
    sys.exit(failed > 0)


def client_is_gone(client):
    """1 if the server closes the client within its time limit for a request. Reads nothing, since the client must stay one that never reads."""
    poller = select.poll()
    poller.register(client.socket, select.POLLHUP)
    return bool(poller.poll(30_000))


if __name__ == '__main__':
    main()
