# SPDX-License-Identifier: Apache-2.0
"""A private folder, daemons and programs that end with this process, however it ends.

Every program gets SIGKILL when this process dies (PR_SET_PDEATHSIG), also when it is killed itself; the daemon's own processes die with the
daemon. A guardian, a shell that waits for the end of a pipe from this process, then removes the folder.
"""
import asyncio
import ctypes
import json
import os
import pathlib
import secrets
import signal
import subprocess
import tempfile
import time

DEATH_S = 2  # seconds between a program's failure and the end of the daemon that caused it, at most
PATIENCE = 300  # seconds for one step of one program: machines may be slow
GUARDIAN = """trap '' INT TERM HUP
while read -r line; do :; done
for i in 1 2 3 4 5 6 7 8 9 10; do
        rm -rf -- "$1" && [ ! -e "$1" ] && exit
        sleep 0.2
done"""
FORMS_PATIENCE = 60  # seconds
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    pass


def tail(path, lines=12):
    text = path.read_text(errors="replace") if path.exists() else ""
    return "\n".join(text.splitlines()[-lines:])


class Program:
    """A process whose standard input and output are pipes to this one."""

    def __init__(self, name, process, errors):
        self.name, self.process, self.errors = name, process, errors

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")

    async def line(self):
        return (await self.process.stdout.readline()).decode()

    async def answer(self, word):
        """The next line, JSON, which must have that word."""
        line = await self.line()
        try:
            return json.loads(line)[word]
        except (ValueError, KeyError):
            raise self.failed(f"expected an answer with \"{word}\", got {line.strip() or 'nothing'}") from None

    async def rest(self):
        """All lines up to the end of the program, which must succeed."""
        text = (await self.process.stdout.read()).decode()
        if await self.process.wait():
            raise self.failed("ended")
        return text.splitlines()

    def failed(self, what):
        code = self.process.returncode
        return Failed(f"{self.name}: {what}{'' if code is None else f', exit status {code}'}\n{tail(self.errors)}".rstrip())


class Place:
    def __init__(self, build):
        self.build, self.programs, self.count = build, [], 0
        self.folder = pathlib.Path(tempfile.gettempdir()) / f"detshare-demo-{secrets.token_hex(6)}"
        self.guardian = subprocess.Popen(["/bin/sh", "-c", GUARDIAN, "sh", self.folder], stdin=subprocess.PIPE, start_new_session=True)
        os.mkdir(self.folder, 0o700)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("DETSHARE_")}
        paths = [str(build / "cuda"), str(build)] + list(filter(None, [os.environ.get("LD_LIBRARY_PATH")]))
        self.environment["LD_LIBRARY_PATH"] = ":".join(paths)

    async def start(self, name, command, **environment):
        parent = os.getpid()

        def child():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(127)

        self.count += 1
        errors = self.folder / f"{self.count}.log"
        try:
            with open(errors, "wb") as log:
                process = await asyncio.create_subprocess_exec(
                    *map(str, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, limit=1 << 26, preexec_fn=child,
                    process_group=0, env={**self.environment, **environment})
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}; `make demo-build` builds all programs of the demo") from None
        program = Program(name, process, errors)
        self.programs.append(program)
        return program

    async def close(self):
        for program in self.programs:
            if program.process.returncode is None:
                program.process.kill()
                await program.process.wait()
        self.guardian.stdin.close()
        self.guardian.wait()


class Daemon:
    """A daemon of its own for one run: `async with Daemon(...)`."""

    def __init__(self, place, device, policy, *words):
        self.place, self.device, self.policy, self.words = place, device, policy, words
        self.socket = place.folder / f"sock-{place.count}-{policy}"

    async def __aenter__(self):
        state = self.socket.with_name(self.socket.name + ".state")
        command = [self.place.build / "detshared", "--foreground", "--socket", self.socket, "--state", state, "--policy", self.policy]
        self.program = await self.place.start("detshared", command + (["--device", self.device] if self.device else []) + list(self.words))
        self.drain = asyncio.ensure_future(self.program.process.stdout.read())
        await self.together(self.wait_until_it_serves())
        return self

    async def __aexit__(self, kind, *_):
        if self.program.process.returncode is None:
            self.program.process.terminate()
        await self.program.process.wait()
        await self.drain
        if not kind and self.program.process.returncode:
            raise self.program.failed("ended")

    async def together(self, work):
        """Await it; fail when the daemon ends first, or when it takes too long."""
        work, end = asyncio.ensure_future(work), asyncio.ensure_future(self.program.process.wait())
        try:
            await asyncio.wait([work, end], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            if work.done() and work.exception():
                await asyncio.wait([end], timeout=DEATH_S)  # programs may see the end of their daemon before we do
            if work.done() and not (work.exception() and end.done()):
                return work.result()
            raise self.program.failed("the daemon ended" if end.done() else f"no progress in {PATIENCE} s")
        finally:
            work.cancel()
            end.cancel()

    async def status(self):
        """None: it does not answer yet."""
        ctl = await self.place.start("detsharectl", [self.place.build / "detsharectl", "--socket", self.socket, "status", "--json"])
        text, _ = await ctl.process.communicate()
        return None if ctl.process.returncode else json.loads(text)

    async def wait_until_it_serves(self):
        while True:
            status = await self.status() if self.socket.exists() else None
            if status:
                self.model, self.simulated = status["device"].removeprefix("DetShare "), status["simulated"]
                return
            await asyncio.sleep(0.05)

    async def wait_for_forms(self, modules):
        """The daemon makes other forms of best-effort kernels in real time, after their first launch."""
        until = time.monotonic() + FORMS_PATIENCE
        while time.monotonic() < until:
            status = await self.status()
            if status["modules_transformed"] + status["forms_failed"] >= modules:
                return
            await asyncio.sleep(0.1)
        raise self.program.failed(f"forms of kernels have come for {status['modules_transformed']} of {modules} modules in {FORMS_PATIENCE} s")

    def start(self, name, command, class_, slo_us=None):
        environment = {"DETSHARE_SOCKET": str(self.socket), "DETSHARE_CLASS": class_, "DETSHARE_NAME": name}
        if slo_us:
            environment["DETSHARE_SLO_MS"] = f"{slo_us / 1000:.6f}"
        return self.place.start(name, command, **environment)
