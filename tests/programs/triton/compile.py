#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the Triton kernels of this folder to PTX, without a GPU, and assembles the result with ptxas.

A kernel is a function in a module beside this one. The decorator of corpus.py states its targets, types of parameters
and options. One process imports the compiler and all kernels, and forks one child per processor; each compiles its
share. Output: OUT/sm_80+triton/NAME.ptx and NAME.cubin (NAME.O0.cubin with the option -O0). Triton writes sm_90 as
sm_90a. A kernel that does not compile is an error, and is never left out silently.

usage: compile.py OUT PTXAS [OPTION of ptxas ...] [--short] [-- NAME ...]   (--short: each for one of its targets)
"""
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

PTX_VERSION = 90  # the version that ptxas of nvcc 13.0 reads

os.environ.update(TRITON_BACKENDS_IN_TREE="1", TRITON_DEFAULT_FP_FUSION="1", TRITON_MOCK_PTX_VERSION=str(PTX_VERSION))


def put(path, text):
    """Writes a file atomically; a file that already has this text keeps its time of modification."""
    if not path.exists() or path.read_text() != text:
        new = path.with_name(path.name + ".new")
        new.write_text(text)
        new.rename(path)


def remove_stale(out, entries):
    """Removes the files of kernels and targets that are no longer listed."""
    wanted = {(f"sm_{arch}{'a' if arch >= 90 else ''}+triton", e.name) for e in entries for arch in e.targets}
    for file in out.glob("*+triton/*"):
        if (file.parent.name, file.name.split(".")[0]) not in wanted:
            file.unlink()


def compile_one(entry, arch, out, ptxas):
    """Compiles one kernel for one target; Triton's last stage, ptxas, is replaced by our call."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    suffix = "a" if arch >= 90 else ""
    folder = out / f"sm_{arch}{suffix}+triton"
    source = ASTSource(entry.kernel, entry.signature(), entry.constants(), entry.attributes())
    options = dict(entry.options, ptx_version=PTX_VERSION)
    text = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options).asm["ptx"]
    folder.mkdir(parents=True, exist_ok=True)
    # a cubin must not be older than its text, or the round-trip test considers it stale
    put(folder / f"{entry.name}.ptx", text)
    cubin = f"{entry.name}.O0.cubin" if "-O0" in ptxas else f"{entry.name}.cubin"
    subprocess.run([ptxas[0], f"-arch=sm_{arch}{suffix}", *ptxas[1:], "-o", f"{cubin}.new", f"{entry.name}.ptx"],
                   check=True, cwd=folder)
    (folder / f"{cubin}.new").rename(folder / cubin)


def without_last_stage(*arguments):
    """A hook for Triton's list of stages that removes the last one."""
    if not arguments:
        return "no ptxas", "no ptxas"
    arguments[1]["cubin"] = lambda source, metadata: b""


def share(work, out, ptxas):
    """The work of a forked process. Returns the number of kernels that failed, which is its exit status."""
    import triton
    triton.knobs.runtime.add_stages_inspection_hook = without_last_stage
    failed = 0
    for entry, arch in work:
        try:
            compile_one(entry, arch, out, ptxas)
        except Exception:
            traceback.print_exc(limit=-1)
            print(f"triton: {entry.name} does not compile for sm_{arch}", file=sys.stderr, flush=True)
            failed += 1
    return min(failed, 100)


def main():
    arguments, only = sys.argv[1:], None
    if "--" in arguments:
        only = arguments[arguments.index("--") + 1:]
        arguments = arguments[:arguments.index("--")]
    short = "--short" in arguments
    arguments = [a for a in arguments if a != "--short"]
    here, out, ptxas = pathlib.Path(__file__).parent, pathlib.Path(arguments[0]), arguments[1:]
    import corpus
    for module in sorted(here.glob("kernels_*.py")):
        importlib.import_module(module.stem)
    if not only:
        remove_stale(out, corpus.ENTRIES)
    targets = (lambda e: (80 if 80 in e.targets else e.targets[-1],)) if short else (lambda e: e.targets)
    work = [(e, arch) for e in corpus.ENTRIES for arch in targets(e) if not only or e.name in only]
    n = min(len(work), os.cpu_count() or 1, 16)
    with tempfile.TemporaryDirectory(prefix="detshare-triton-") as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        children = []
        for i in range(n):
            pid = os.fork()
            if pid == 0:
                os._exit(share(work[i::n], out, ptxas))
            children.append(pid)
        failed = sum(os.waitpid(pid, 0)[1] != 0 for pid in children)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
