# SPDX-License-Identifier: Apache-2.0
"""Read and check a pack, with Python's standard library alone (docs/pack.md).

Checks everything that the format promises: words, numbers, limits, files and their hashes; addresses lie within their blocks; buffers
that share bytes of the arena do not live at the same time; the module has the kernels. It does not check how kernels use addresses.
"""
import dataclasses
import hashlib
import pathlib
import re

NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}\Z")
SIZES = {"f16": 2, "f32": 4, "i32": 4, "i64": 8, "u8": 1}
LIMITS = {"input": 16, "output": 16, "file": 64, "kernel": 4096, "launch": 65536, "buffer": 65536, "cost": 65536, "case": 16 * 32}
HEAD = ("model", "class", "batch", "arch", "framework", "compiler")
ORDER = HEAD + ("file", "module", "weights", "arena", "input", "output", "kernel", "launch", "cost", "buffer", "case", "end")


class Bad(Exception):
    """The folder is not a valid pack; the text names the line."""


@dataclasses.dataclass
class Tensor:
    name: str
    type: str
    shape: tuple
    offset: int
    bytes: int


@dataclasses.dataclass
class Pack:
    path: pathlib.Path
    about: dict = dataclasses.field(default_factory=dict)
    files: dict = dataclasses.field(default_factory=dict)  # name -> bytes
    module: str = ""
    weights: str = ""
    arena: int = 0
    inputs: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)
    kernels: list = dataclasses.field(default_factory=list)  # (name, threads, shared, parameters)
    launches: list = dataclasses.field(default_factory=list)  # (kernel, grid, [(kind, value)])
    costs: list = dataclasses.field(default_factory=list)
    buffers: list = dataclasses.field(default_factory=list)  # (offset, bytes, first, last)
    cases: dict = dataclasses.field(default_factory=dict)  # (case, "input" or "output", index) -> (file, abs, rel)


def number(word, most, least=0):
    if not re.fullmatch(r"0|[1-9][0-9]{0,18}", word) or not least <= int(word) <= most:
        raise Bad(f"{word!r} is no number from {least} to {most}")
    return int(word)


def name(word):
    if not NAME.match(word):
        raise Bad(f"{word!r} is no name")
    return word


def tensor(pack, words, kinds):
    if words[1] not in kinds:
        raise Bad(f"type {words[1]}")
    shape = tuple(number(d, 1 << 40, 1) for d in words[2].split(","))
    if len(shape) > 8:
        raise Bad("more than 8 dimensions")
    size = SIZES[words[1]]
    for d in shape:
        size *= d
    result = Tensor(name(words[0]), words[1], shape, number(words[3], pack.arena), number(words[4], pack.arena, 1))
    if result.bytes != size or result.offset % 256 or result.offset + size > pack.arena:
        raise Bad("bytes, alignment or place in the arena")
    return result


def parameter(pack, word):
    if word == "null":
        return ("null", 0)
    found = re.fullmatch(r"([aw])\+(\d{1,11})|(i32|i64)=(-?\d{1,19})|f32=([0-9a-f]{8})", word)
    if not found:
        raise Bad(f"parameter {word!r}")
    block, offset, kind, value, bits = found.groups()
    if block:
        if int(offset) >= (pack.arena if block == "a" else pack.files[pack.weights]):
            raise Bad(f"{word} is beyond its block")
        return (block, int(offset))
    if kind:
        half = 1 << (31 if kind == "i32" else 63)
        if not -half <= int(value) < half:
            raise Bad(f"{word} does not fit")
        return (kind, int(value))
    return ("f32", int(bits, 16))


def take(pack, word, words):
    """One line."""
    counts = {"file": 3, "input": 5, "output": 5, "kernel": 4, "cost": 3, "buffer": 4, "end": 0}
    expected = counts.get(word, 1)
    if word not in ("launch", "case") and len(words) != expected:
        raise Bad(f"{len(words)} words instead of {expected}")
    if word in HEAD:
        pack.about[word] = number(words[0], 1 << 20, 1) if word == "batch" else name(words[0])
        if word == "class" and words[0] not in ("ls", "be") or word == "arch" and not re.fullmatch(r"sm_[0-9]{2,3}", words[0]):
            raise Bad(words[0])
    elif word == "file":
        if not re.fullmatch(r"[0-9a-f]{64}", words[2]) or name(words[0]) in pack.files or words[0] == "pack.txt":
            raise Bad("a file twice, or no sha256")
        pack.files[words[0]] = number(words[1], 64 << 30)
        check_file(pack, *words)
    elif word in ("module", "weights"):
        if words[0] not in pack.files:
            raise Bad(f"{words[0]} is no file of the pack")
        setattr(pack, word, words[0])
    elif word == "arena":
        pack.arena = number(words[0], 64 << 30, 1)
    elif word == "input":
        pack.inputs.append(tensor(pack, words, SIZES))
    elif word == "output":
        pack.outputs.append(tensor(pack, words, ("f16", "f32")))
    elif word == "kernel":
        pack.kernels.append((name(words[0]), number(words[1], 1024, 1), number(words[2], 227 << 10), number(words[3], 64)))
    elif word == "launch":
        take_launch(pack, words)
    elif word == "cost":
        pack.costs.append((number(words[0], len(pack.launches) - 1), number(words[1], 1 << 60), number(words[2], 1 << 60)))
    elif word == "buffer":
        offset, size, first, last = (number(w, 1 << 60) for w in words)
        if offset % 256 or offset + size > pack.arena or not first <= last < len(pack.launches):
            raise Bad("a buffer's place or time")
        pack.buffers.append((offset, size, first, last))
    elif word == "case":
        take_case(pack, words)


def take_launch(pack, words):
    if len(words) < 4:
        raise Bad("no grid")
    kernel = number(words[0], len(pack.kernels) - 1)
    grid = tuple(number(w, most, 1) for w, most in zip(words[1:4], (2**31 - 1, 65535, 65535)))
    params = [parameter(pack, w) for w in words[4:]]
    if len(params) != pack.kernels[kernel][3]:
        raise Bad("not as many parameters as the kernel has")
    pack.launches.append((kernel, grid, params))


def take_case(pack, words):
    if len(words) < 4 or words[1] not in ("input", "output") or len(words) != (4 if words[1] == "input" else 6):
        raise Bad("a case's words")
    tensors = pack.inputs if words[1] == "input" else pack.outputs
    key = (number(words[0], 15), words[1], number(words[2], len(tensors) - 1))
    size = tensors[key[2]].bytes
    if words[1] == "output":
        size = size // SIZES[tensors[key[2]].type] * 4
    if key in pack.cases or pack.files.get(words[3]) != size:
        raise Bad("a case's file")
    bounds = [float(w) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", w) else None for w in words[4:]]
    if None in bounds:
        raise Bad("a tolerance")
    pack.cases[key] = (words[3], *bounds)


def check_file(pack, file, size, digest):
    path = pack.path / file
    if not path.is_file() or path.stat().st_size != int(size):
        raise Bad(f"{file} is not there or not {size} bytes long")
    found = hashlib.sha256()
    with open(path, "rb") as opened:
        for chunk in iter(lambda: opened.read(1 << 20), b""):
            found.update(chunk)
    if found.hexdigest() != digest:
        raise Bad(f"{file}: the sha256 is another one")


def check_buffers(pack):
    """Checks that no two buffers that live at the same time share a byte."""
    events = sorted([(first, 1, offset, size) for offset, size, first, _ in pack.buffers] +
                    [(last + 1, 0, offset, size) for offset, size, _, last in pack.buffers])
    alive = []
    for _, begins, offset, size in events:
        if not begins:
            alive.remove((offset, size))
            continue
        for other, length in alive:
            if offset < other + length and other < offset + size:
                raise Bad(f"buffers at {offset} and {other} overlap in place and time")
        alive.append((offset, size))


def check_module(pack):
    """Checks that every kernel is an entry of the module, with as many parameters as its launches have."""
    text = (pack.path / pack.module).read_text(encoding="ascii", errors="replace")
    entries = {found[1]: found[2].count(".param") for found in re.finditer(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)", text)}
    for kernel, _, _, count in pack.kernels:
        if entries.get(kernel) != count:
            raise Bad(f"{pack.module} has {'no ' + kernel if kernel not in entries else f'{entries[kernel]} parameters for {kernel}'}")


def read(path):
    """Reads the pack in the folder `path`; raises Bad if it is not valid."""
    pack, at = Pack(pathlib.Path(path)), 0
    text = (pack.path / "pack.txt").read_bytes()
    counts = dict.fromkeys(ORDER, 0)
    lines = text.split(b"\n")
    if lines[-1] or lines[0] != b"detshare-pack 1":
        raise Bad(f"{path}: this is no pack of format 1")
    for i, line in enumerate(lines[1:-1], 2):
        try:
            if len(line) > 4096:
                raise Bad("a line of more than 4,096 bytes")
            words = line.decode("ascii").split(" ")
            if not line or line.startswith((b"#", b"x-")):
                continue
            if words[0] not in ORDER or ORDER.index(words[0]) < at or "" in words:
                raise Bad(f"{words[0]!r} here")
            at = ORDER.index(words[0])
            counts[words[0]] += 1
            if counts[words[0]] > LIMITS.get(words[0], 1):
                raise Bad(f"too many of {words[0]}")
            take(pack, words[0], words[1:])
        except (Bad, UnicodeDecodeError) as error:
            raise Bad(f"{path}/pack.txt:{i}: {error}") from error
    absent = [w for w in ORDER if not counts[w] and w not in ("input", "cost", "buffer", "case")]
    if absent:
        raise Bad(f"{path}/pack.txt: no line {absent[0]}")
    numbers = {case for case, _, _ in pack.cases}
    if numbers != set(range(len(numbers))) or len(pack.cases) != len(numbers) * (len(pack.inputs) + len(pack.outputs)):
        raise Bad(f"{path}/pack.txt: cases are not complete")
    check_buffers(pack)
    check_module(pack)
    return pack
