#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything about the CUDA driver's surface that the toolkit's own headers already say.

    generate.py CC INCLUDE_DIR OUT_DIR

Reads cuda.h (with every ABI version visible), cudaProfiler.h and their typedef headers, and writes

    cuda_stubs.c     one weak definition per exported name, so that a name without an implementation answers
                     CUDA_ERROR_NOT_SUPPORTED and the link is always complete
    cuda_perthread.c the _ptds and _ptsz entries: the same call with stream 0 meaning the per-thread stream
    cuda_procs.c     the table of cuGetProcAddress: (base name, introduction version, per-thread) -> function
    cuda_jumps.S     every exported name: a jump through a table in the order of cuda_procs.c, which begins with this
                     library's own functions and can be set to those of another library (fallback.c)
    cuda_rename.txt  what this library's own functions are called once they are linked together, for objcopy
    cuda_names.h     CUDA_NAMES(X): every exported name;  CUDA_CODES(X): every CUresult constant

Nothing of NVIDIA's headers is kept in the source tree. The pairing rule: cudaTypedefs.h names every ABI as
PFN_<base>_v<version>[_ptds|_ptsz]; the versions of one base name in ascending order are the exported names <base>,
<base>_v2, <base>_v3, ... in ascending order. The script fails when the two do not pair up exactly.
"""
import os
import re
import subprocess
import sys

HEADERS = ("cuda.h", "cudaProfiler.h")
TYPEDEFS = ("cudaTypedefs.h", "cudaProfilerTypedefs.h")
SUFFIX = re.compile(r"^(?P<base>.*?)(?:_v(?P<abi>\d+))?(?P<thread>_ptds|_ptsz)?$")


def preprocess(cc, include, headers):
    source = "".join(f"#include <{h}>\n" for h in headers)
    command = [*cc.split(), "-E", "-P", "-x", "c", "-D__CUDA_API_VERSION_INTERNAL", f"-I{include}", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def prototypes(text):
    """{exported name: [(declaration, argument name), ...]}"""
    found = {}
    for name, arguments in re.findall(r"\bCUresult\s+(cu\w+)\s*\(([^;{}]*)\)\s*;", text):
        flat = " ".join(arguments.split())
        pairs = [] if flat == "void" else [(a.strip(), re.search(r"(\w+)\s*(?:\[\w*\])?$", a)[1]) for a in flat.split(",")]
        found.setdefault(name, pairs)
    return found


def split(name):
    match = SUFFIX.match(name)
    return match["base"], int(match["abi"] or 1), match["thread"] or ""


def pair(names, pointer_types):
    """[(base, version, per-thread, exported name)], sorted."""
    versions, exported = {}, {}
    for base, version, thread in pointer_types:
        versions.setdefault((base, thread), set()).add(int(version))
    for name in names:
        base, abi, thread = split(name)
        exported.setdefault((base, thread), []).append((abi, name))
    if set(versions) != set(exported):
        raise SystemExit(f"generate.py: names without a partner: {sorted(set(versions) ^ set(exported))[:8]}")
    table = []
    for key, group in exported.items():
        ascending = sorted(versions[key])
        if len(ascending) != len(group):
            raise SystemExit(f"generate.py: {key[0]}{key[1]}: {len(group)} names but versions {ascending}")
        for version, (_, name) in zip(ascending, sorted(group)):
            table.append((key[0], version, 1 if key[1] else 0, name))
    return sorted(table)


def write(directory, name, text):
    path = os.path.join(directory, name)
    head = "/* Generated from the CUDA toolkit's headers by client-lib/cuda/gen/generate.py: do not edit. */\n"
    with open(path + ".new", "w", encoding="ascii") as out:
        out.write(head + text)
    os.replace(path + ".new", path)


def stubs(protos):
    lines = ["int dcu_unsupported(const char *name);\n",
             "/* where the library is not linked as a whole there are no jumps to set */\n"
             f'extern void *dcu_jumps[];\n__attribute__((weak, visibility("hidden"))) void *dcu_jumps[{len(protos)}];\n']
    for name in sorted(protos):
        if not split(name)[2]:
            lines.append(f'int {name}(void);\n__attribute__((weak, visibility("default"))) int {name}(void)\n'
                         f'{{\n        return dcu_unsupported("{name}");\n}}\n')
    return "".join(lines)


def per_thread(protos):
    lines = ['#include "cuda/api.h"\n#include "cuda/thread.h"\n']
    for name in sorted(protos):
        if split(name)[2]:
            arguments = protos[name]
            base = re.sub(r"_pt[ds][sz]$", "", name)
            declared = ", ".join(a for a, _ in arguments) or "void"
            passed = ", ".join(n for _, n in arguments)
            lines.append(f"CUresult {name}({declared})\n{{\n        int before = dcu_per_thread_enter();\n"
                         f"        CUresult r = {base}({passed});\n        dcu_per_thread_leave(before);\n"
                         "        return r;\n}\n")
    return "".join(lines)


def procs(table):
    lines = ['#include "cuda/api.h"\n#include <cudaProfiler.h>\n#include "cuda/proc.h"\n',
             "const struct dcu_proc dcu_procs[] = {\n"]
    lines += [f'        {{"{base}", "{name}", (void *){name}, {version}, {thread}}},\n' for base, version, thread, name in table]
    lines.append(f"}};\nconst size_t dcu_n_procs = {len(table)};\n")
    return "".join(lines)


JUMPS = """#if defined(__x86_64__)
#define JUMP(name, n) .globl name; .type name, @function; .balign 16; name: endbr64; jmp *dcu_jumps + 8 * n(%rip); .size name, . - name
#elif defined(__aarch64__)
#define JUMP(name, n) .globl name; .type name, %function; .balign 16; name: hint 34; adrp x16, dcu_jumps + 8 * n; \\
        ldr x16, [x16, :lo12:dcu_jumps + 8 * n]; br x16; .size name, . - name
#else
#error "no jumps for this processor"
#endif
        .section .note.GNU-stack, "", %progbits
        .text
"""


def jumps(table):
    lines = [JUMPS] + [f"JUMP({name}, {n})\n" for n, (_, _, _, name) in enumerate(table)]
    lines += ["        .data\n        .balign 8\n        .globl dcu_jumps\n        .hidden dcu_jumps\n"
              "        .type dcu_jumps, %object\ndcu_jumps:\n"]
    lines += [f"        .quad dcu_own_{name}\n" for _, _, _, name in table]
    lines.append("        .size dcu_jumps, . - dcu_jumps\n")
    return "".join(lines)


def names(protos, codes):
    return ("#define CUDA_NAMES(X) \\\n" + "".join(f"        X({n}) \\\n" for n in sorted(protos)) + "\n"
            "#define CUDA_CODES(X) \\\n" + "".join(f"        X({c}) \\\n" for c in codes) + "\n")


def main():
    cc, include, out = sys.argv[1:4]
    text = preprocess(cc, include, HEADERS)
    protos = prototypes(text)
    pointers = preprocess(cc, include, TYPEDEFS)
    types = re.findall(r"\bPFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\)", pointers)
    codes = re.findall(r"\b(CUDA_SUCCESS|CUDA_ERROR_\w+)\s*=\s*\d+", text)
    os.makedirs(out, exist_ok=True)
    write(out, "cuda_stubs.c", stubs(protos))
    write(out, "cuda_perthread.c", per_thread(protos))
    table = pair(protos, types)
    write(out, "cuda_procs.c", procs(table))
    write(out, "cuda_jumps.S", jumps(table))
    with open(os.path.join(out, "cuda_rename.txt"), "w", encoding="ascii") as file:
        file.write("".join(f"{name} dcu_own_{name}\n" for _, _, _, name in table))
    write(out, "cuda_names.h", names(protos, codes))


if __name__ == "__main__":
    main()
