# SPDX-License-Identifier: Apache-2.0
"""Write a pack's folder (docs/pack.md). The folder appears under its name when it is complete, not before."""
import hashlib
import os
import pathlib
import shutil

import numpy as np

from .code import BYTES, Store
from .plan import ALIGN, Buffer, up

NUMPY = {"f16": np.float16, "f32": np.float32, "i32": np.int32, "i64": np.int64, "bool": np.uint8}
PACK_TYPE = {"bool": "u8"}


def place_weights(weights):
    end = 0
    for weight in weights:
        weight.offset = end
        end += up(weight.data.nbytes)
    return end


def parameter(value):
    if not isinstance(value, Store):
        return f"i32={value}"
    kind = "a" if isinstance(value.root, Buffer) else "w"
    return f"{kind}+{value.root.offset + value.offset * BYTES[value.dtype]}"


def described(word, name, store):
    count = int(np.prod(store.shape, dtype=np.int64))
    shape = ",".join(map(str, store.shape)) or "1"
    return f"{word} {name} {PACK_TYPE.get(store.dtype, store.dtype)} {shape} {store.root.offset} {count * BYTES[store.dtype]}"


def clean(name):
    """Turns the model's name into a NAME that the format allows."""
    text = "".join(c if c.isalnum() and c.isascii() or c in "_.-" else "_" for c in name)[:120]
    return text if text and not text.startswith(".") else f"n{text}"


class Folder:
    def __init__(self, path):
        self.path, self.part = pathlib.Path(path), pathlib.Path(f"{path}.part")
        self.files = []
        shutil.rmtree(self.part, ignore_errors=True)
        self.part.mkdir(parents=True)

    def add(self, name, chunks):
        digest, size = hashlib.sha256(), 0
        with open(self.part / name, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
        self.files.append(f"file {name} {size} {digest.hexdigest()}")

    def finish(self, lines):
        (self.part / "pack.txt").write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
        if self.path.exists():
            if not (self.path / "pack.txt").exists() and any(self.path.iterdir()):
                raise FileExistsError(f"{self.path} is there and is no pack")
            shutil.rmtree(self.path)
        os.replace(self.part, self.path)


def weight_chunks(weights):
    for weight in weights:
        data = weight.data.tobytes()
        yield data + bytes(up(len(data)) - len(data))


def write(path, about, ins, outs, low, arena, kernels, ptx, cases):
    """`about`: model, class, batch, arch, framework, compiler; `cases`: (input arrays, expected arrays, (abs, rel) per output)."""
    folder = Folder(path)
    place_weights(low.weights)
    folder.add("kernels.ptx", [ptx.encode()])
    folder.add("weights.bin", weight_chunks(low.weights))
    case_lines = []
    for number, (given, wanted, tolerances) in enumerate(cases):
        for i, (store, array) in enumerate(zip(ins, given)):
            folder.add(f"case{number}.in{i}.bin", [np.ascontiguousarray(array.astype(NUMPY[store.dtype])).tobytes()])
            case_lines.append(f"case {number} input {i} case{number}.in{i}.bin")
        for i, (array, (most, part)) in enumerate(zip(wanted, tolerances)):
            folder.add(f"case{number}.out{i}.bin", [np.ascontiguousarray(array.astype("<f4")).tobytes()])
            case_lines.append(f"case {number} output {i} case{number}.out{i}.bin {most:.7f} {part:.4f}")
    lines = ["detshare-pack 1"] + [f"{word} {value}" for word, value in about.items()] + folder.files
    lines += ["module kernels.ptx", "weights weights.bin", f"arena {max(arena, ALIGN)}"]
    lines += [described("input", clean(s.root.name), s) for s in ins] + [described("output", clean(s.root.name), s) for s in outs]
    index, written = {}, []
    for key, (name, _, shared) in kernels.items():
        index[key] = len(index)
        launch = next(one for one in low.launches if one.key == key)
        lines.append(f"kernel {name} {launch.warps * 32} {shared} {len(launch.code.params) + 2}")
        written.append(" ".join([f"x-writes {index[key]}"] + [str(i) for i, (param, _, _) in enumerate(launch.code.params) if param in launch.code.written]))
    for launch in low.launches:
        # Triton's kernels end with two pointers to scratch memory, which these kernels do not use
        words = [parameter(value) for _, _, value in launch.code.params] + ["null", "null"]
        lines.append(f"launch {index[launch.key]} {' '.join(map(str, launch.grid))} {' '.join(words)}")
    lines += [f"cost {i} {one.flops} {one.bytes}" for i, one in enumerate(low.launches)]
    lines += [f"buffer {b.offset} {b.bytes} {b.first} {b.last}" for b in sorted(low.buffers, key=lambda b: (b.first, b.offset))]
    lines += written + [f"x-weight {w.offset} {w.data.nbytes}" for w in low.weights]
    folder.finish(lines + case_lines + ["end"])
