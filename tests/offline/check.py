#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the pack compiler, as far as this machine allows: tests that need a missing package are skipped, with a
line that says so.

    reader    Python alone: the progress bar; the packs of this folder are valid, each of many damaged manifests is refused
    device    Python alone: the packs of this folder run on a simulated GPU, give their framework's outputs, the same bytes each time
    compiler  numpy, onnx: import, fusion, strides and the memory plan, by random cases and small graphs
    kernels   numpy, onnx, triton: every small model is compiled and runs as above, one compiled twice to the same bytes, one for
              GPUs for which Triton has no tensor cores (sm_75)
    operators the same packages: every operator in the forms that fail most easily (operators.py)

usage: check.py BUILD [PART...]; ends with `N passed, N failed`
"""
import functools
import importlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKS = sorted(p.parent for p in (ROOT / "tests" / "offline" / "packs").glob("*/pack.txt"))
TOOL = ROOT / "offline" / "detshare-pack"
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "offline"))

CASES = []


def test(part, *needs):
    def add(function):
        CASES.append((part, needs, function))
        return function
    return add


def absent(needs):
    for module in needs:
        try:
            importlib.import_module(module)
        except ImportError:
            return module
    return None


# --- progress ---------------------------------------------------------------------------------------------------------

@test("reader")
def progress_shows_the_time_left():
    import io
    from detpack import progress

    class Terminal(io.StringIO):
        def isatty(self):
            return True
    assert progress.line("x", 3, 12, 30).endswith("3 of 12  1:30 left")
    for file, bars in ((Terminal(), 3), (io.StringIO(), 0)):
        assert list(progress.over("abc", 3, "x", file)) == ["a", "b", "c"]
        assert file.getvalue().count("[") - file.getvalue().count("\033[") == bars


# --- the reader -------------------------------------------------------------------------------------------------------

def refused(folder, change):
    """Whether the reader refuses the pack with a changed manifest; `change` takes and returns its lines."""
    from detpack import reader
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch) / "pack"
        shutil.copytree(folder, copy)
        lines = (copy / "pack.txt").read_text().split("\n")
        (copy / "pack.txt").write_text("\n".join(change(lines)))
        try:
            reader.read(copy)
        except reader.Bad:
            return True
        return False


def edit(word, index, value, nth=0):
    """Changes one word of the nth line that begins with `word`."""
    def change(lines):
        at = [i for i, line in enumerate(lines) if line.startswith(word + " ")][nth]
        words = lines[at].split(" ")
        words[index] = value(words[index]) if callable(value) else value
        return lines[:at] + [" ".join(words)] + lines[at + 1:]
    return change


DAMAGE = {
    "another version": lambda lines: ["detshare-pack 2"] + lines[1:],
    "no end": lambda lines: lines[:-2] + [""],
    "no last newline": lambda lines: lines[:-1],
    "an unknown word": lambda lines: lines[:-2] + ["surprise 1"] + lines[-2:],
    "two spaces": edit("arena", 1, " 512"),
    "a line that is too long": lambda lines: lines[:-2] + ["# " + "x" * 4096] + lines[-2:],
    "lines in another order": lambda lines: [lines[0], lines[2], lines[1]] + lines[3:],
    "two models": lambda lines: lines[:2] + lines[1:],
    "no output": lambda lines: [line for line in lines if not line.startswith("output")],
    "no launch": lambda lines: [line for line in lines if not line.startswith(("launch", "cost"))],
    "a class that is none": edit("class", 1, "best"),
    "an architecture that is none": edit("arch", 1, "sm_x"),
    "batch 0": edit("batch", 1, "0"),
    "a leading zero": edit("batch", 1, "01"),
    "a sign": edit("batch", 1, "+1"),
    "a path as a file": edit("file", 1, "../kernels.ptx"),
    "a file that is not there": edit("file", 1, "other.bin", 1),
    "a wrong length": edit("file", 2, lambda w: str(int(w) + 1)),
    "a wrong hash": edit("file", 3, lambda w: w[1:] + w[0] if w[0] != w[1] else ("0" if w[0] != "0" else "1") + w[1:]),
    "upper-case hash": edit("file", 3, lambda w: w.upper() if w.upper() != w else "A" + w[1:]),
    "a module that is no file": edit("module", 1, "other.ptx"),
    "no arena": edit("arena", 1, "0"),
    "an arena that is too small": edit("arena", 1, "256"),
    "an arena beyond the limit": edit("arena", 1, str(65 << 30)),
    "an input beyond the arena": edit("input", 4, str(1 << 20)),
    "an input that is not aligned": edit("input", 4, "8"),
    "a type that is none": edit("input", 2, "f64"),
    "an output of integers": edit("output", 2, "i32"),
    "a shape that is not its bytes": edit("input", 3, "3,3"),
    "too many dimensions": edit("input", 3, lambda w: w + ",1" * 8),
    "a kernel without threads": edit("kernel", 2, "0"),
    "a kernel of too many threads": edit("kernel", 2, "1025"),
    "too much shared memory": edit("kernel", 3, str(1 << 20)),
    "a kernel with more parameters": edit("kernel", 4, lambda w: str(int(w) + 1)),
    "a kernel that the module lacks": edit("kernel", 1, "nothing"),
    "a launch of no kernel": edit("launch", 1, "99"),
    "a grid of 0": edit("launch", 2, "0"),
    "a grid beyond the limit": edit("launch", 3, "65536"),
    "an address beyond the arena": edit("launch", -1, "a+999999999"),
    "an address beyond the weights": edit("launch", -1, "w+999999999"),
    "a parameter that is none": edit("launch", -1, "b+0"),
    "an integer that does not fit": edit("launch", -1, "i32=2147483648"),
    "half a float": edit("launch", -1, "f32=3f80"),
    "a cost of no launch": edit("cost", 1, "99"),
    "a buffer beyond the arena": edit("buffer", 2, str(1 << 20)),
    "a buffer that ends before it begins": edit("buffer", 3, "2"),
    "buffers that overlap": lambda lines: [f"buffer 0 {line.split(' ')[2]} 0 0" if line.startswith("buffer ") else line for line in lines],
    "buffers that overlap by a part": edit("buffer", 2, "300"),
    "a case's file of another length": edit("case", 4, "weights.bin"),
    "a case without its output": lambda lines: [line for line in lines if not line.startswith("case 0 output")],
    "case 1 without case 0": lambda lines: [line.replace("case 0 ", "case 1 ") if line.startswith("case") else line for line in lines],
    "a tolerance that is none": edit("case", 5, "nan", 1),
}


@test("reader")
def packs_are_read():
    from detpack import reader
    assert PACKS, "no pack in tests/offline/packs"
    for folder in PACKS:
        reader.read(folder)
    assert not refused(PACKS[0], lambda lines: lines[:3] + ["# a comment", "", "x-later something"] + lines[3:]), "comments are refused"


def damaged(name):
    def damaged_pack():
        assert refused(ROOT / "tests" / "offline" / "packs" / "tiny-mlp", DAMAGE[name]), f"{name}: was taken"
    damaged_pack.__name__ = f"refused: {name}"
    return damaged_pack


for _name in DAMAGE:
    test("reader")(damaged(_name))


@test("reader")
def changed_bytes_are_seen():
    from detpack import reader
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch) / "pack"
        shutil.copytree(PACKS[0], copy)
        data = bytearray((copy / "weights.bin").read_bytes())
        data[len(data) // 2] ^= 1
        (copy / "weights.bin").write_bytes(data)
        try:
            reader.read(copy)
        except reader.Bad:
            return
        raise AssertionError("the reader accepted a changed weight")


# --- a simulated device -----------------------------------------------------------------------------------------------

class Device:
    """A daemon with a simulated GPU, on which packs run."""

    def __init__(self, build):
        self.build, self.daemon, self.folder, self.scratch = build, None, None, tempfile.mkdtemp()

    def start(self):
        if self.daemon:
            return
        self.folder = tempfile.mkdtemp()
        self.daemon = subprocess.Popen([f"{self.build}/detshared", "--device", "sim:h200", "--socket", f"{self.folder}/socket"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            if os.path.exists(f"{self.folder}/socket"):
                return
            time.sleep(0.05)
        raise RuntimeError("the daemon did not start to serve within 10 s")

    def run(self, folder):
        """Returns runner.py's report on a pack, from a process that uses our libcuda.so.1."""
        self.start()
        done = subprocess.run([sys.executable, TOOL, "--run", folder], capture_output=True, text=True, timeout=120, env=dict(
            os.environ, DETSHARE_SOCKET=f"{self.folder}/socket", LD_LIBRARY_PATH=f"{self.build}/cuda"))
        assert done.returncode in (0, 1) and done.stdout.startswith("{"), done.stderr
        return __import__("json").loads(done.stdout)

    def stop(self):
        shutil.rmtree(self.scratch)
        if self.daemon:
            self.daemon.terminate()
            self.daemon.wait()
            shutil.rmtree(self.folder)


DEVICE = None


def runs_right(folder):
    first, second = DEVICE.run(folder), DEVICE.run(folder)
    assert first["outputs"] and all(o["right"] for o in first["outputs"]), first
    assert [o["sha256"] for o in first["outputs"]] == [o["sha256"] for o in second["outputs"]], "the second run gave other bytes"
    return first


def on_device(folder):
    def pack_runs():
        runs_right(folder)
    pack_runs.__name__ = f"{folder.name} on sim:h200"
    return pack_runs


for _folder in PACKS:
    test("device")(on_device(_folder))


@test("device")
def wrong_weights_are_wrong_outputs():
    """The comparison can fail: the same pack with its weights in another order gives wrong outputs."""
    import hashlib
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch) / "pack"
        shutil.copytree(ROOT / "tests" / "offline" / "packs" / "tiny-mlp", copy)
        data = (copy / "weights.bin").read_bytes()
        old = hashlib.sha256(data).hexdigest()
        data = data[1024:4096] + data[:1024] + data[4096:]
        (copy / "weights.bin").write_bytes(data)
        text = (copy / "pack.txt").read_text().replace(old, hashlib.sha256(data).hexdigest())
        (copy / "pack.txt").write_text(text)
        assert not all(o["right"] for o in DEVICE.run(copy)["outputs"]), "wrong weights gave right outputs"


# --- the compiler without its kernels ---------------------------------------------------------------------------------

@test("compiler", "numpy")
def plans_are_tight_and_apart():
    from detpack import plan
    rng = random.Random(5)
    for _ in range(200):
        buffers = []
        for _ in range(rng.randint(1, 40)):
            first = rng.randint(0, 30)
            buffers.append(plan.Buffer(rng.randint(1, 5000), first, rng.randint(first, min(30, first + 6))))
        arena = plan.place(buffers)
        for i, a in enumerate(buffers):
            assert a.offset % plan.ALIGN == 0 and a.offset + a.bytes <= arena
            for b in buffers[:i]:
                assert a.last < b.first or b.last < a.first or a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset, (a, b)
        assert plan.peak(buffers) <= arena <= sum(plan.up(b.bytes) for b in buffers)


@test("compiler", "numpy")
def reshapes_are_views_where_numpy_says_so():
    import numpy as np
    from detpack.layout import view
    rng, seen = random.Random(3), 0
    shapes = [(2, 3, 4, 5), (6, 4, 5), (2, 12, 5), (24, 5), (2, 3, 20), (120,), (1, 120), (2, 1, 3, 4, 5), (6, 20), (3, 2, 20), (5, 24)]
    for _ in range(2000):
        base = np.arange(120).reshape(rng.choice(shapes))
        base = base.transpose(rng.sample(range(base.ndim), base.ndim))
        new = rng.choice(shapes)
        strides = view(base.shape, [s // base.itemsize for s in base.strides], new)
        copied = not np.shares_memory(base.reshape(new), base)
        assert (strides is None) == copied, (base.shape, base.strides, new, strides)
        if strides is not None:
            flat = np.lib.stride_tricks.as_strided(base, new, [s * base.itemsize for s in strides])
            assert (flat == base.reshape(new)).all()
            seen += 1
    assert seen > 200


@functools.lru_cache
def lowered(name):
    from detpack import combine, importer, small
    from detpack.lower import Lower
    inputs, outputs = importer.load(small.load(name, 1), 1)
    combine.combine([v for _, v in outputs])
    low = Lower(inputs, outputs)
    low.run()
    return low


@test("compiler", "numpy", "onnx")
def groups_compute_every_value_once():
    from detpack import small
    for name in small.MODELS:
        low = lowered(name)
        done = set()
        for group in sorted(low.groups.values(), key=lambda g: max(low.order.index(v) for v in g.members)):
            assert not done & {v.number for v in group.members}, f"{name}: a value twice"
            inside = {v.number for v in group.members}
            for value in group.members:
                for source in value.inputs:
                    if source.op in ("conv", "matmul", "pw", "reduce", "softmax", "layernorm", "window", "gather"):
                        assert source.number in done | inside, f"{name}: {source} is not there yet"
            done |= inside


@test("compiler", "numpy", "onnx")
def what_follows_a_product_is_fused():
    kinds = [launch.code.kind for launch in lowered("tiny-resnet").launches]
    assert sorted(kinds) == sorted(["conv"] * 5 + ["gemm"] * 2 + ["max", "reduce"]), kinds
    assert [launch.code.kind for launch in lowered("tiny-mlp").launches] == ["gemm", "gemm", "softmax"]


@test("compiler", "numpy", "onnx")
def a_spelled_out_normalisation_is_one_kernel():
    import numpy as np
    from detpack import importer, patterns, small
    from detpack.lower import Lower
    n = small.Net()
    x = n.op("Relu", n.input("x", [2, 5, 33]))
    axes = n.const(np.array([-1], np.int64))
    flat = n.op("Sub", x, n.op("ReduceMean", x, axes))
    spread = n.op("Sqrt", n.op("Add", n.op("ReduceMean", n.op("Pow", flat, n.const(np.float32(2))), axes), n.const(np.float32(1e-5))))
    y = n.op("Mul", n.op("Div", flat, spread), n.normal(33))
    inputs, outputs = importer.load(n.model(y), 2)
    patterns.recognise([v for _, v in outputs])
    low = Lower(inputs, outputs)
    low.run()
    assert [launch.code.kind for launch in low.launches] == ["pointwise", "layernorm"], low.launches


@test("compiler", "numpy", "onnx")
def concatenations_are_written_in_place():
    kinds = [launch.code.kind for launch in lowered("tiny-densenet").launches]
    assert "copy" not in kinds, kinds


@test("compiler", "numpy", "onnx")
def attention_is_one_kernel_behind_one_product():
    kinds = [launch.code.kind for launch in lowered("tiny-bert").launches if launch.code.kind in ("gemm", "attention", "softmax")]
    # tiny-bert's products: one for queries, keys and values; one for the output, two feed-forward, two in the head
    assert kinds == ["gemm", "attention"] + ["gemm"] * 5, kinds


@test("compiler", "numpy", "onnx")
def unknown_operators_are_named():
    from onnx import TensorProto, helper
    from detpack import importer
    from detpack.graph import Unsupported
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], name="deep")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, 3]) for n in "xwr"],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    try:
        importer.load(helper.make_model(graph), 1)
    except Unsupported as error:
        assert "LSTM deep" in str(error)
        return
    raise AssertionError("the compiler accepted an LSTM")


# --- compiled packs ---------------------------------------------------------------------------------------------------

def compile_small(name, folder, arch=80):
    from detpack import compiler, small
    compiler.make(small.load(name, 1), folder, name, 1, arch, log=lambda text: None)


def compiled(name, arch):
    def small_model():
        from detpack import reader
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / name
            os.environ["DETSHARE_PACK_CACHE"] = f"{DEVICE.scratch}/cache"
            compile_small(name, folder, arch)
            reader.read(folder)
            runs_right(folder)
            if name == "tiny-mlp":
                first = {p.name: p.read_bytes() for p in folder.iterdir()}
                os.environ["DETSHARE_PACK_CACHE"] = f"{scratch}/other"
                compile_small(name, folder, arch)
                assert first == {p.name: p.read_bytes() for p in folder.iterdir()}, "the second pack is another one"
    small_model.__name__ = f"{name} compiled for sm_{arch}"
    return small_model


for _name in ("tiny-mlp", "tiny-resnet", "tiny-mobilenet", "tiny-densenet", "tiny-shufflenet", "tiny-vit", "tiny-bert"):
    test("kernels", "numpy", "onnx", "triton")(compiled(_name, 80))
test("kernels", "numpy", "onnx", "triton")(compiled("tiny-resnet", 75))


@test("operators", "numpy", "onnx", "triton")
def operators_are_right():
    sys.path.insert(0, str(ROOT / "tests" / "offline"))
    import operators
    from detpack import compiler
    os.environ["DETSHARE_PACK_CACHE"] = f"{DEVICE.scratch}/cache"
    for name, model in operators.models():
        folder = f"{DEVICE.scratch}/{name}"
        compiler.make(model, folder, name, 2, 80, log=lambda text: None)
        got = DEVICE.run(folder)
        assert all(o["right"] for o in got["outputs"]), (name, [o for o in got["outputs"] if not o["right"]])


def main():
    global DEVICE
    build = pathlib.Path(sys.argv[1]).resolve()
    parts = sys.argv[2:]
    DEVICE = Device(build)
    passed = failed = 0
    skipped = {}
    try:
        for part, needs, function in CASES:
            if parts and part not in parts:
                continue
            gone = absent(needs)
            if gone:
                skipped[part, gone] = skipped.get((part, gone), 0) + 1
                continue
            try:
                function()
                passed += 1
            except Exception:
                failed += 1
                print(f"FAIL {part}: {function.__name__}", flush=True)
                traceback.print_exc(limit=-2, file=sys.stdout)
    finally:
        DEVICE.stop()
    for (part, gone), count in skipped.items():
        print(f"skipped: {count} of {part}: no {gone} here (python3 -m pip install {gone})")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
