# SPDX-License-Identifier: Apache-2.0
"""The values of a model: the result of each operator, with its kind, shape and type.

A Value is made by one operator of few kinds: `input`, `const`, `pw` (an elementwise function with broadcasting), `permute`, `reshape`,
`slice`, `expand` (which move no data where the strides can say it), and those with a kernel of their own: `conv`, `matmul`, `reduce`,
`softmax`, `layernorm`, `window` (pooling), `concat`, `gather`. Shapes are tuples of numbers, not symbols:
a pack has one batch size. Types are those of computation: every float is `f16` in memory between kernels and f32 within one.
"""
import dataclasses
import itertools

import numpy as np

_count = itertools.count()


class Unsupported(Exception):
    """The model uses an operator or option that this compiler lacks; the text names the node."""


@dataclasses.dataclass(eq=False)
class Value:
    op: str
    inputs: tuple
    shape: tuple
    dtype: str
    attrs: dict = dataclasses.field(default_factory=dict)
    name: str = ""
    number: int = dataclasses.field(default_factory=lambda: next(_count))

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def data(self):
        """The array of a constant."""
        return self.attrs["data"]

    def __repr__(self):
        return f"%{self.number}={self.op}{self.attrs.get('fn', '')}{list(self.shape)}"


def kind_of(dtype):
    """The name that this module uses for a NumPy type."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return "f16"
    if dtype.kind == "b":
        return "bool"
    if dtype.kind in "iu":
        return "i64"
    raise Unsupported(f"elements of type {dtype}")


def const(data, name=""):
    data = np.asarray(data)
    return Value("const", (), tuple(int(d) for d in data.shape), kind_of(data.dtype), {"data": data}, name)


# per function: type of the result (None: that of the operands), and Triton's expression over f32 or integers
FUNCTIONS = {
    "add": (None, "({0} + {1})"), "sub": (None, "({0} - {1})"), "mul": (None, "({0} * {1})"), "div": (None, "({0} / {1})"),
    "max": (None, "tl.maximum({0}, {1})"), "min": (None, "tl.minimum({0}, {1})"), "neg": (None, "(-{0})"),
    "relu": (None, "tl.maximum({0}, 0.0)"), "sigmoid": (None, "(1.0 / (1.0 + tl.exp(-({0}))))"),
    "exp": (None, "tl.exp({0})"), "log": (None, "tl.log({0})"), "sqrt": (None, "tl.sqrt({0})"), "abs": (None, "tl.abs({0})"),
    "rsqrt": (None, "(1.0 / tl.sqrt({0}))"), "erf": (None, "tl.erf({0})"), "reciprocal": (None, "(1.0 / {0})"),
    # tanh through exp is correct for every input: if exp(2|x|) is inf, the result is 1
    "tanh": (None, "(1.0 - 2.0 / (1.0 + tl.exp(2.0 * ({0}))))"),
    "hardsigmoid": (None, "tl.minimum(tl.maximum({0} * {alpha} + {beta}, 0.0), 1.0)"),
    "hardswish": (None, "({0} * tl.minimum(tl.maximum({0} * {alpha} + {beta}, 0.0), 1.0))"),
    "leakyrelu": (None, "tl.where({0} >= 0.0, {0}, {0} * {alpha})"),
    "gelu": (None, "(0.5 * {0} * (1.0 + tl.erf({0} * 0.7071067811865476)))"),
    "gelu_tanh": (None, "({0} * (1.0 - 1.0 / (1.0 + tl.exp(1.5957691216057308 * ({0} + 0.044715 * {0} * {0} * {0})))))"),
    "clip": (None, "tl.minimum(tl.maximum({0}, {low}), {high})"),
    "equal": ("bool", "({0} == {1})"), "less": ("bool", "({0} < {1})"), "greater": ("bool", "({0} > {1})"),
    "not": ("bool", "({0} == 0)"), "and": ("bool", "({0} & {1})"), "or": ("bool", "({0} | {1})"),
    "where": (None, "tl.where({0} != 0, {1}, {2})"), "identity": (None, "{0}"),
}


def pw(fn, *operands, dtype=None, **attrs):
    """An elementwise value; the shapes broadcast as NumPy's do."""
    shape = tuple(int(d) for d in np.broadcast_shapes(*[v.shape for v in operands]))
    dtype = dtype or FUNCTIONS[fn][0] or operands[-1].dtype
    return Value("pw", operands, shape, dtype, dict(attrs, fn=fn))


def permute(x, perm):
    perm = tuple(int(p) for p in perm)
    if perm == tuple(range(len(perm))):
        return x
    return Value("permute", (x,), tuple(x.shape[p] for p in perm), x.dtype, {"perm": perm})


def reshape(x, shape):
    shape = [int(d) for d in shape]
    if -1 in shape:
        known = -int(np.prod(shape, dtype=np.int64))
        shape[shape.index(-1)] = x.size // known
    if int(np.prod(shape, dtype=np.int64)) != x.size:
        raise Unsupported(f"a reshape of {list(x.shape)} to {shape}")
    if x.op == "const":
        return const(x.data.reshape(shape), x.name)
    return x if tuple(shape) == x.shape else Value("reshape", (x,), tuple(shape), x.dtype)


def cut(x, starts, stops, steps):
    """A slice: the elements start, start + step, ... before stop of each axis."""
    shape = tuple(max(0, -((a - b) // s)) for a, b, s in zip(starts, stops, steps))
    if shape == x.shape:
        return x
    return Value("slice", (x,), shape, x.dtype, {"starts": tuple(starts), "steps": tuple(steps)})


def cut_axis(x, axis, start, stop, step=1):
    starts, stops, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return cut(x, starts, stops, steps)


def expand(x, shape):
    shape = tuple(int(d) for d in np.broadcast_shapes(x.shape, tuple(int(d) for d in shape)))
    if len(shape) > len(x.shape):
        x = reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape)
    return x if shape == x.shape else Value("expand", (x,), shape, x.dtype)


def topological(outputs):
    """Every value that the outputs need, each after its inputs."""
    order, state = [], {}
    stack = [(v, False) for v in reversed(outputs)]
    while stack:
        value, done = stack.pop()
        if done:
            order.append(value)
        elif value.number not in state:
            state[value.number] = True
            stack.append((value, True))
            stack.extend((v, False) for v in reversed(value.inputs) if v.number not in state)
    return order


def users_of(order):
    """Value's number -> the values that use it, one entry per use."""
    users = {v.number: [] for v in order}
    for value in order:
        for source in value.inputs:
            users[source.number].append(value)
    return users
