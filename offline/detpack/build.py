# SPDX-License-Identifier: Apache-2.0
"""Compile kernels with Triton, without a GPU, and make one PTX module of them.

The target is an option, so the compiler queries no device. Triton's last stage, ptxas, is left out: the GPU's driver assembles the PTX,
and the simulated device executes it as it is. A cache (DETSHARE_PACK_CACHE, default ~/.cache/detshare-pack) keeps compiled kernels by
the hash of their inputs. Parameters carry their divisors, so that loads are as wide as possible.

Triton's tensor core code requires sm_80. For an older GPU its passes run for sm_80 without asynchronous copies, and LLVM writes PTX for
the real target. Each product instruction then becomes two of half the depth, which Turing has. The first takes the first half of the
operands' registers and the second the other half, so no data moves.
"""
import hashlib
import importlib.util
import json
import multiprocessing
import os
import pathlib
import re
import tempfile

from . import progress
from .code import BYTES, Store

PTX_VERSION = 80  # PTX ISA 8.0: drivers from CUDA 12.0 on read it
FIRST = 80  # the first compute capability that Triton's passes know
HEAD = "# made by detshare-pack\nimport triton\nimport triton.language as tl\n\n\n"

os.environ.setdefault("TRITON_DISABLE_LINE_INFO", "1")
os.environ.setdefault("TRITON_MOCK_PTX_VERSION", str(PTX_VERSION))
os.environ.setdefault("TRITON_BACKENDS_IN_TREE", "1")
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")


def version():
    import triton
    return f"triton-{triton.__version__}"


def divisor(number):
    return next(d for d in (16, 8, 4, 2, 1) if number % d == 0)


def attributes(launch):
    """The known divisor of each parameter; 1 if a larger divisor has no use."""
    result = []
    for _, _, value in launch.code.params:
        result.append(divisor(value.offset * BYTES[value.dtype]) if isinstance(value, Store) else divisor(value))
    return result


def key_of(launch, arch):
    parts = [version(), PTX_VERSION, arch, launch.warps, launch.stages, attributes(launch), [p[1] for p in launch.code.params],
             launch.code.source()]
    text = json.dumps(parts + (["halves"] if arch < FIRST else []))
    return hashlib.sha256(text.encode()).hexdigest()


def cache():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    base = os.environ.get("DETSHARE_PACK_CACHE") or os.path.join(home, "detshare-pack")
    pathlib.Path(base).mkdir(parents=True, exist_ok=True)
    return pathlib.Path(base)


PRODUCT = re.compile(r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16\.f16\.f32\s*"
                     r"\{([^}]*)\}\s*,\s*\{([^}]*)\}\s*,\s*\{([^}]*)\}\s*,\s*\{([^}]*)\}\s*;")


def halves(found):
    """Replaces a product instruction of depth 16 by two of depth 8."""
    result, a, b, sums = ([word.strip() for word in found[i].split(",")] for i in range(1, 5))
    if set(result) & {*a, *b}:
        raise RuntimeError("a product's sum lies in its operands")
    lines = []
    for half in range(2):
        operands = (result, a[2 * half:2 * half + 2], b[half:half + 1], result if half else sums)
        lines.append("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 " + ", ".join("{" + ", ".join(o) + "}" for o in operands) + ";")
    return "\n\t".join(lines)


def stages_for(arch):
    """Triton's hook for its stages: removes ptxas, and writes PTX for GPUs that its passes do not support."""
    def change(*arguments):
        if not arguments:
            return "no ptxas", "no ptxas"
        backend, stages, options = arguments[:3]
        stages["cubin"] = lambda source, metadata: b""
        if arch < FIRST:
            stages["ptx"] = lambda source, metadata: PRODUCT.sub(halves, backend.make_ptx(source, metadata, options, arch))
        return None
    return change


def compile_one(job):
    """Compiles one kernel; returns its key, PTX and shared memory."""
    key, name, source, params, attrs, warps, stages, arch = job
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    triton.knobs.runtime.add_stages_inspection_hook = stages_for(arch)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"{name}.py"
        path.write_text(HEAD + source.replace("KERNEL", name))
        os.environ["TRITON_CACHE_DIR"] = folder
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        hints = {(i,): [["tt.divisibility", d]] for i, d in enumerate(attrs) if d > 1}
        made = triton.compile(ASTSource(getattr(module, name), dict(params), {}, hints), target=GPUTarget("cuda", max(arch, FIRST), 32),
                              options={"num_warps": warps, "num_stages": stages if arch >= FIRST else 1, "ptx_version": PTX_VERSION})
        meta = made.metadata
        if meta.global_scratch_size or meta.profile_scratch_size or meta.num_ctas != 1:
            raise RuntimeError(f"{name} asks for scratch memory or clusters")
        return key, made.asm["ptx"], meta.shared


def compile_all(launches, arch, jobs, log):
    """Compiles all kernels that the cache lacks; returns key -> (name, PTX, shared memory) in the order of first use."""
    wanted, result = {}, {}
    for launch in launches:
        key = launch.key = key_of(launch, arch)
        launch.name = f"{launch.code.kind}_{key[:12]}"
        wanted.setdefault(key, launch)
    todo = []
    for key, launch in wanted.items():
        if not (cache() / f"{key}.json").exists():
            params = [p[:2] for p in launch.code.params]
            todo.append((key, launch.name, launch.code.source(), params, attributes(launch), launch.warps, launch.stages, arch))
    log(f"{len(launches)} launches of {len(wanted)} kernels, {len(todo)} to compile")
    with multiprocessing.get_context("spawn").Pool(max(1, min(jobs, len(todo)))) if len(todo) > 1 else Alone() as pool:
        for key, text, shared in progress.over(pool.imap_unordered(compile_one, todo), len(todo), "compiling kernels"):
            part = cache() / f"{key}.{os.getpid()}"
            part.write_text(json.dumps([text, shared]))
            part.replace(cache() / f"{key}.json")
    for key, launch in wanted.items():
        text, shared = json.loads((cache() / f"{key}.json").read_text())
        result[key] = (launch.name, text, shared)
    return result


class Alone:
    """Takes the place of the pool of processes if there is only one kernel to compile."""
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def imap_unordered(self, function, jobs):
        return map(function, jobs)


def merge(kernels, arch):
    """Joins the PTX of all kernels to one module: one header, one declaration of shared memory, every entry."""
    bodies = []
    for name, text, _ in kernels:
        text = re.sub(r"//[^\n]*", "", text)
        begin = text.index(".visible .entry")
        head = text[:begin]
        left = re.sub(
            r"\.version\s+\S+|\.target\s+[^\n]+|\.address_size\s+\d+|\.extern \.shared \.align 16 \.b8 global_smem\[\];", "", head)
        # LLVM leaves strings with names of compiler options in the text, which no code uses
        left = re.sub(r"\.global \.align 1 \.b8 (_\$_str\S*)\[\d+\] = \{[^}]*\};",
                      lambda m: "" if m[1] not in text[begin:] else m[0], left).strip()
        if left:
            raise RuntimeError(f"{name}: more in the module than its kernel: {left[:200]}")
        end = text.find("\t.section")
        body = text[begin:end if end >= 0 else None]
        bodies.append("\n".join(line.rstrip() for line in body.splitlines() if line.strip()))
    head = f".version {PTX_VERSION // 10}.{PTX_VERSION % 10}\n.target sm_{arch}{'a' if arch >= 90 else ''}\n.address_size 64\n\n"
    return head + ".extern .shared .align 16 .b8 global_smem[];\n\n" + "\n\n".join(bodies) + "\n"
