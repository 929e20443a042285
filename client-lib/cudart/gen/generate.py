#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The surface of the CUDA runtime, as the toolkit's own library has it.

    generate.py LIBCUDART OUT_DIR

Reads the names (never the code) that the toolkit's libcudart exports, and writes

    cudart_stubs.c   one weak definition per exported name, so that a name without an implementation answers
                     cudaErrorNotSupported and every program links

Nothing of NVIDIA's is kept in the source tree.
"""
import os
import re
import struct
import sys


def exported(path):
    """Names of the functions that an ELF64 library defines dynamically."""
    with open(path, "rb") as f:
        elf = f.read()
    offset, = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, offset + i * size) for i in range(count)]
    names = set()
    for _, kind, _, _, at, length, link, _, _, entry in sections:
        if kind != 11:  # SHT_DYNSYM
            continue
        strings = sections[link][4]
        for symbol in range(at, at + length, entry):
            name, info, _, section = struct.unpack_from("<IBBH", elf, symbol)
            if section and info & 15 == 2:  # defined here, STT_FUNC
                begin = strings + name
                names.add(elf[begin:elf.index(b"\0", begin)].decode("ascii"))
    return sorted(n for n in names if re.match(r"(__)?cuda", n))


def write(directory, name, text):
    path = os.path.join(directory, name)
    head = "/* Generated from the names in the CUDA toolkit's library by client-lib/cudart/gen/generate.py: do not edit. */\n"
    with open(path + ".new", "w", encoding="ascii") as out:
        out.write(head + text)
    os.replace(path + ".new", path)


def main():
    library, out = sys.argv[1:3]
    names = exported(library)
    if len(names) < 300:
        raise SystemExit(f"generate.py: {library} has only {len(names)} names of the runtime")
    os.makedirs(out, exist_ok=True)
    write(out, "cudart_stubs.c", "int rt_unsupported(const char *name);\n" + "".join(
        f'int {n}(void);\n__attribute__((weak, visibility("default"))) int {n}(void)\n{{\n        return rt_unsupported("{n}");\n}}\n'
        for n in names))


if __name__ == "__main__":
    main()
