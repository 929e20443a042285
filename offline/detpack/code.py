# SPDX-License-Identifier: Apache-2.0
"""The common part of the kernel generators: parameters, index expressions, and the elementwise tail of a group.

A kernel is Triton source. Its text depends on the computation and on which strides are 0 or 1. All other sizes are parameters, so layers
that differ only in sizes share a kernel. An Axis is a vector (or scalar) of positions in some dimensions of the result. An operand's
address is the sum over axes of position times stride; dimensions with contiguous strides need no division.
"""
import dataclasses

import numpy as np

from .graph import FUNCTIONS, Unsupported

POINTER = {"f16": "*fp16", "f32": "*fp32", "i32": "*i32", "i64": "*i64", "bool": "*i8"}
BYTES = {"f16": 2, "f32": 4, "i32": 4, "i64": 8, "bool": 1}
LIMIT = 1 << 31


@dataclasses.dataclass(frozen=True, eq=False)
class Store:
    """The place of a value: elements of a root (a Buffer of the arena, or a Weight) at an offset, by strides."""
    root: object
    offset: int
    shape: tuple
    strides: tuple
    dtype: str

    def __post_init__(self):
        reach = self.offset + sum((d - 1) * s for d, s in zip(self.shape, self.strides))
        if reach >= LIMIT:
            raise Unsupported(f"a tensor {list(self.shape)} with more than 2^31 elements")


@dataclasses.dataclass
class Axis:
    var: str       # the name of the positions
    dims: list     # (dimension of the result, its size), outer ones first
    spread: str    # how the axis broadcasts in the kernel's block: "[:, None]", "[None, :]" or "" for a scalar
    mask: str = ""  # the name of what says which positions exist


def merge(terms):
    """Merges dimensions (size, stride), outermost first, so that the same addresses need fewer terms. Positions are
    row-major over the sizes."""
    result = []
    for size, stride in terms:
        if size == 1:
            continue
        if result and result[-1][1] == stride * size:
            result[-1] = (result[-1][0] * size, stride)
        else:
            result.append((size, stride))
    return result


class Code:
    """One kernel under construction, with the arguments of one launch."""

    def __init__(self, kind):
        self.kind, self.params, self.lines, self.stores = kind, [], [], {}
        self.reads, self.writes, self.temporaries = [], [], 0
        self.written = set()  # names of parameters through which the kernel stores

    def pointer(self, store, writes=False):
        (self.writes if writes else self.reads).append(store.root)
        key = (id(store.root), store.offset, store.dtype)
        if key not in self.stores:
            self.stores[key] = name = f"P{len(self.params)}"
            self.params.append((name, POINTER[store.dtype], store))
        if writes:
            self.written.add(self.stores[key])
        return self.stores[key]

    def number(self, value):
        value = int(value)
        if value in (0, 1):
            return str(value)
        name = f"I{len(self.params)}"
        self.params.append((name, "i32", value))
        return name

    def line(self, text, depth=1):
        self.lines.append("    " * depth + text)

    def temporary(self):
        self.temporaries += 1
        return f"t{self.temporaries}"

    def along(self, axis, strides):
        """The part of an address that an axis adds; None if it adds nothing."""
        terms = merge([(size, strides[dim]) for dim, size in axis.dims])
        parts, inner = [], 1
        for i in range(len(terms) - 1, -1, -1):
            size, stride = terms[i]
            if stride:
                place = axis.var if inner == 1 else f"({axis.var} // {self.number(inner)})"
                if i > 0:
                    place = f"({place} % {self.number(size)})"
                parts.append(place if stride == 1 else f"{place} * {self.number(stride)}")
            inner *= size
        return " + ".join(reversed(parts)) or None

    def address(self, axes, strides, full=False):
        """The offset expression for a block, and the mask that guards it; `full`: in the block's shape, also if an axis adds nothing."""
        parts, masks = [], []
        for axis in axes:
            part = self.along(axis, strides) or (f"{axis.var} * 0" if full and (axis.spread or axis.mask) else None)
            if part:
                parts.append(f"({part}){axis.spread}")
                if axis.mask:
                    masks.append(f"{axis.mask}{axis.spread}")
        return " + ".join(parts) or "0", " & ".join(masks)

    def load(self, store, shape, axes):
        """Writes the load of an operand at the result's positions; f16 becomes f32."""
        lead = len(shape) - len(store.shape)
        strides = [0] * lead + [0 if d == 1 else s for d, s in zip(store.shape, store.strides)]
        where, mask = self.address(axes, strides)
        guard = f", mask={mask}, other=0" if mask else ""
        name, pointer = self.temporary(), self.pointer(store)
        self.line(f"{name} = tl.load({pointer} + {where}{guard})" + (".to(tl.float32)" if store.dtype == "f16" else ""))
        return name

    def tail(self, group, root, axes, store_of):
        """Writes the group's members that follow the root; returns the name of the group's result."""
        known = {group.root.number: root} if root else {}
        shape = group.result.shape
        for value in group.members:
            if value.number in known:
                continue
            names = []
            for source in value.inputs:
                if source.number not in known:
                    if source.op == "const" and source.size == 1:
                        known[source.number] = literal(source.data)
                    else:
                        known[source.number] = self.load(store_of(source), shape, axes)
                names.append(f"({known[source.number]})" if known[source.number].startswith("-") else known[source.number])
            known[value.number] = name = self.temporary()
            attrs = {k: repr(float(v)) for k, v in value.attrs.items() if k != "fn"}
            text = FUNCTIONS[value.attrs["fn"]][1].format(*names, **attrs)
            if value.attrs["fn"] == "identity" and value.dtype != value.inputs[0].dtype:
                text = {"f16": f"{names[0]}.to(tl.float32)", "bool": f"({names[0]} != 0)"}.get(value.dtype, f"{names[0]}.to(tl.int64)")
            self.line(f"{name} = {text}")
        return known[group.result.number]

    def save(self, store, shape, axes, name):
        strides = [0 if d == 1 else s for d, s in zip(store.shape, store.strides)]
        where, mask = self.address(axes, strides, True)
        kind = {"f16": "tl.float16", "f32": "tl.float32", "i64": "tl.int64", "i32": "tl.int32", "bool": "tl.int8"}[store.dtype]
        guard = f", mask={mask}" if mask else ""
        self.line(f"tl.store({self.pointer(store, True)} + {where}, ({name}).to({kind}){guard})")

    def source(self):
        names = ", ".join(name for name, _, _ in self.params)
        return f"@triton.jit\ndef KERNEL({names}):\n" + "\n".join(self.lines) + "\n"


@dataclasses.dataclass
class Launch:
    code: Code
    grid: tuple
    warps: int
    stages: int
    flops: int
    bytes: int
    label: str


def literal(data):
    value = np.asarray(data).reshape(-1)[0]
    if value.dtype.kind == "f":
        value = max(min(float(value), 3.4028234663852886e38), -3.4028234663852886e38)
        return repr(float(np.float32(value)))
    return str(int(value))


def power2(n):
    return 1 << max(0, int(n) - 1).bit_length()


def cdiv(a, b):
    return -(-a // b)
