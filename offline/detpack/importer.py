# SPDX-License-Identifier: Apache-2.0
"""Read an ONNX model: its nodes become values with known shapes, and constant expressions are computed.

A dynamic dimension is the batch if it is an input's first one; for others an option must give it. So computations of shapes (`Shape` and
its users) become constants. An unsupported operator is an error that names the node. Constants are computed by onnx's
own reference evaluator. Batch normalisation behind a convolution goes into its weights; elsewhere it is a product and a sum.
"""
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from .graph import FUNCTIONS, Unsupported, Value, const, cut, cut_axis, expand, permute, pw, reshape

HANDLERS = {}
UNARY = {"Relu": "relu", "Sigmoid": "sigmoid", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Abs": "abs", "Erf": "erf", "Tanh": "tanh",
         "Neg": "neg", "Reciprocal": "reciprocal", "Not": "not", "Identity": "identity"}
BINARY = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Max": "max", "Min": "min", "Sum": "add",
          "Equal": "equal", "Less": "less",
          "Greater": "greater", "And": "and", "Or": "or"}


def handles(*names):
    def add(function):
        for name in names:
            HANDLERS[name] = function
        return function
    return add


class Importer:
    """The import of one model: the names that are known so far, and how often each is used."""

    def __init__(self, model, batch, shapes):
        self.model, self.batch, self.shapes = model, batch, shapes
        self.values, self.inputs = {"": None}, []
        self.uses = {}
        for node in model.graph.node:
            for name in node.input:
                self.uses[name] = self.uses.get(name, 0) + 1
        for output in model.graph.output:
            self.uses[output.name] = self.uses.get(output.name, 0) + 1
        self.opset = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))

    def run(self):
        for tensor in self.model.graph.initializer:
            self.values[tensor.name] = const(numpy_helper.to_array(tensor), tensor.name)
        for described in self.model.graph.input:
            if described.name not in self.values:
                self.add_input(described)
        strange = set(self.shapes) - {v.name for v in self.inputs}
        if strange:
            raise Unsupported(f"--shape {strange.pop()}: there is no such input")
        for node in self.model.graph.node:
            self.add_node(node)
        return self.inputs, [(o.name, self.values[o.name]) for o in self.model.graph.output]

    def add_input(self, described):
        shape = []
        for axis, dim in enumerate(described.type.tensor_type.shape.dim):
            given = self.shapes.get(described.name)
            if given and len(given) != len(described.type.tensor_type.shape.dim):
                raise Unsupported(f"--shape {described.name}: it has {len(described.type.tensor_type.shape.dim)} dimensions")
            if given:
                shape.append(given[axis])
            elif axis == 0 and self.batch and (dim.dim_param or not dim.dim_value):
                shape.append(self.batch)
            elif dim.dim_value:
                shape.append(dim.dim_value)
            else:
                raise Unsupported(f"input {described.name}: dimension {axis} is not fixed; say --shape {described.name}=...")
        dtype = helper.tensor_dtype_to_np_dtype(described.type.tensor_type.elem_type)
        kind = {"f": "f16", "i": "i32" if np.dtype(dtype).itemsize == 4 else "i64"}.get(np.dtype(dtype).kind)
        if not kind:
            raise Unsupported(f"input {described.name}: elements of type {dtype}")
        value = Value("input", (), tuple(shape), kind, {}, described.name)
        self.values[described.name] = value
        self.inputs.append(value)

    def add_node(self, node):
        ins = [self.values[name] for name in node.input]
        attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        where = f"{node.op_type} {node.name or node.output[0]}"
        if node.op_type == "Shape":
            shape = ins[0].shape[attrs.get("start", 0):attrs.get("end", len(ins[0].shape))]
            outs = [const(np.array(shape, np.int64))]
        elif all(v is None or v.op == "const" for v in ins) and not node.op_type.startswith("Random"):
            outs = [const(a) for a in self.evaluate(node, ins, where)]
        elif node.op_type in HANDLERS and node.domain in ("", "ai.onnx"):
            try:
                outs = HANDLERS[node.op_type](self, node, ins, attrs)
            except Unsupported as error:
                raise Unsupported(f"{where}: {error}") from error
            outs = outs if isinstance(outs, list) else [outs]
        else:
            raise Unsupported(f"{where}: this operator is not supported")
        for name, value in zip(node.output, outs):
            value.name = value.name or name
            self.values[name] = value

    def evaluate(self, node, ins, where):
        names = [n for n in dict.fromkeys(node.input) if n]
        graph = helper.make_graph([node], "one", [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(
            self.values[n].data.dtype), self.values[n].shape) for n in names],
            [helper.make_empty_tensor_value_info(n) for n in node.output if n])
        try:
            session = ReferenceEvaluator(helper.make_model(graph, opset_imports=self.model.opset_import))
            return session.run(None, {n: self.values[n].data for n in names})
        except Exception as error:
            raise Unsupported(f"{where}: cannot be computed beforehand: {error}") from error


def numbers(value, what):
    if value.op != "const":
        raise Unsupported(f"{what} is not constant")
    return [int(x) for x in value.data.reshape(-1)]


def scalar(value, default):
    if value is None:
        return default
    if value.op != "const" or value.size != 1:
        raise Unsupported("a bound is not a constant number")
    return float(value.data.reshape(-1)[0])


for _name, _fn in UNARY.items():
    HANDLERS[_name] = lambda im, node, ins, attrs, fn=_fn: pw(fn, ins[0])


@handles(*BINARY)
def binary(im, node, ins, attrs):
    fn, result = BINARY[node.op_type], ins[0]
    if fn == "mul" and len(ins) == 2:  # x * sigmoid(x), x * hardsigmoid(x)
        for a, b in (ins, ins[::-1]):
            if b.op == "pw" and b.attrs["fn"] == "hardsigmoid" and b.inputs[0] is a:
                return pw("hardswish", a, alpha=b.attrs["alpha"], beta=b.attrs["beta"])
    for other in ins[1:]:
        result = pw(fn, result, other)
    return result


@handles("Clip")
def clip(im, node, ins, attrs):
    if im.opset < 11:
        low, high = attrs.get("min", -3e38), attrs.get("max", 3e38)
    else:
        low, high = scalar(ins[1] if len(ins) > 1 else None, -3e38), scalar(ins[2] if len(ins) > 2 else None, 3e38)
    return pw("clip", ins[0], low=float(low), high=float(high))


@handles("HardSigmoid", "HardSwish", "LeakyRelu", "Gelu", "Where", "Cast", "Dropout", "Pow")
def elementwise(im, node, ins, attrs):
    op, x = node.op_type, ins[0]
    if op == "HardSigmoid":
        return pw("hardsigmoid", x, alpha=float(attrs.get("alpha", 0.2)), beta=float(attrs.get("beta", 0.5)))
    if op == "HardSwish":
        return pw("hardswish", x, alpha=1 / 6, beta=0.5)
    if op == "LeakyRelu":
        return pw("leakyrelu", x, alpha=float(attrs.get("alpha", 0.01)))
    if op == "Gelu":
        return pw("gelu_tanh" if attrs.get("approximate", b"none") == b"tanh" else "gelu", x)
    if op == "Where":
        return pw("where", *ins)
    if op == "Dropout":
        return pw("identity", x)
    if op == "Cast":
        kind = {"f": "f16", "b": "bool"}.get(np.dtype(helper.tensor_dtype_to_np_dtype(attrs["to"])).kind, "i64")
        if kind == x.dtype or (kind == "i64" and x.dtype == "i32"):
            return x
        return pw("identity", x, dtype=kind)
    power = scalar(ins[1], 0)
    if power == 2:
        return pw("mul", x, x)
    if power == 3:
        return pw("mul", pw("mul", x, x), x)
    if power == 0.5:
        return pw("sqrt", x)
    raise Unsupported(f"power {power}")


def spatial(attrs, x, kernel):
    """Strides, dilations and padding at the begin and end of each spatial axis."""
    rank = len(kernel)
    strides, dilations = list(attrs.get("strides", [1] * rank)), list(attrs.get("dilations", [1] * rank))
    pads = list(attrs.get("pads", [0] * 2 * rank))
    auto = attrs.get("auto_pad", b"NOTSET")
    if auto in (b"SAME_UPPER", b"SAME_LOWER"):
        for i in range(rank):
            size = x.shape[2 + i]
            total = max(0, (-(-size // strides[i]) - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - size)
            small, large = total // 2, total - total // 2
            pads[i], pads[rank + i] = (small, large) if auto == b"SAME_UPPER" else (large, small)
    return strides, dilations, pads


def out_size(size, kernel, stride, dilation, begin, end, up=False):
    span = size + begin + end - (kernel - 1) * dilation - 1
    return (-(-span // stride) if up else span // stride) + 1


@handles("Conv")
def convolution(im, node, ins, attrs):
    x, w = ins[0], ins[1]
    if len(x.shape) != 4 or w.op != "const":
        raise Unsupported("only two-dimensional convolutions with constant weights")
    kernel = w.shape[2:]
    strides, dilations, pads = spatial(attrs, x, kernel)
    size = [out_size(x.shape[2 + i], kernel[i], strides[i], dilations[i], pads[i], pads[2 + i]) for i in range(2)]
    result = Value("conv", (x, w), (x.shape[0], w.shape[0], *size), "f16",
                   {"strides": strides, "dilations": dilations, "pads": pads, "groups": int(attrs.get("group", 1))})
    if len(ins) > 2 and ins[2] is not None:
        result = pw("add", result, const(np.asarray(ins[2].data, np.float32).reshape(1, -1, 1, 1)))
    return result


@handles("BatchNormalization")
def batch_norm(im, node, ins, attrs):
    x, gamma, beta, mean, var = ins
    scale = gamma.data.astype(np.float64) / np.sqrt(var.data.astype(np.float64) + attrs.get("epsilon", 1e-5))
    shift = beta.data.astype(np.float64) - mean.data.astype(np.float64) * scale
    conv, bias = x, None
    if x.op == "pw" and x.attrs["fn"] == "add" and x.inputs[0].op == "conv" and x.inputs[1].op == "const":
        conv, bias = x.inputs[0], x.inputs[1].data.reshape(-1).astype(np.float64)
    shape = (1, -1) + (1,) * (len(x.shape) - 2)
    if conv.op == "conv" and im.uses[node.input[0]] == 1:
        weight = const((conv.inputs[1].data.astype(np.float64) * scale.reshape(-1, 1, 1, 1)).astype(np.float32))
        x = Value("conv", (conv.inputs[0], weight), conv.shape, conv.dtype, conv.attrs, conv.name)
        shift = shift if bias is None else shift + bias * scale
    else:
        x = pw("mul", x, const(scale.astype(np.float32).reshape(shape)))
    return pw("add", x, const(shift.astype(np.float32).reshape(shape)))


def matrix(a, b):
    """A product of two operands by NumPy's rules for matmul, with at least two dimensions each."""
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise Unsupported("a product of vectors")
    if len(b.shape) == 2 and b.op == "const":
        return Value("matmul", (a, b), (*a.shape[:-1], b.shape[-1]), "f16")
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = expand(a, (*lead, *a.shape[-2:])), expand(b, (*lead, *b.shape[-2:]))
    return Value("matmul", (a, b), (*(int(d) for d in lead), a.shape[-2], b.shape[-1]), "f16")


def transposed(x, perm):
    return const(np.transpose(x.data, perm), x.name) if x.op == "const" else permute(x, perm)


@handles("MatMul", "Gemm")
def product(im, node, ins, attrs):
    a, b = ins[0], ins[1]
    if node.op_type == "MatMul":
        return matrix(a, b)
    a = transposed(a, (1, 0)) if attrs.get("transA", 0) else a
    b = transposed(b, (1, 0)) if attrs.get("transB", 0) else b
    result = matrix(a, b)
    if attrs.get("alpha", 1.0) != 1.0:
        result = pw("mul", result, const(np.float32(attrs["alpha"])))
    if len(ins) > 2 and ins[2] is not None:
        c = ins[2]
        if attrs.get("beta", 1.0) != 1.0:
            c = pw("mul", c, const(np.float32(attrs["beta"])))
        result = pw("add", result, c)
    return result


@handles("MaxPool", "AveragePool")
def pool(im, node, ins, attrs):
    x, kernel = ins[0], attrs["kernel_shape"]
    if len(x.shape) != 4 or len(node.output) > 1:
        raise Unsupported("only two-dimensional pooling without indices")
    strides, dilations, pads = spatial(attrs, x, kernel)
    size = []
    for i in range(2):
        n = out_size(x.shape[2 + i], kernel[i], strides[i], dilations[i], pads[i], pads[2 + i], bool(attrs.get("ceil_mode", 0)))
        # ONNX does not count a pooling window that begins beyond the input and its padding
        size.append(n - 1 if (n - 1) * strides[i] >= x.shape[2 + i] + pads[i] else n)
    kind = "max" if node.op_type == "MaxPool" else "avg"
    return Value("window", (x,), (*x.shape[:2], *size), x.dtype, {
        "kind": kind, "kernel": tuple(kernel), "strides": strides, "dilations": dilations, "pads": pads,
        "padded": bool(attrs.get("count_include_pad", 0))})


@handles("GlobalAveragePool", "ReduceMean", "ReduceSum", "ReduceMax", "GlobalMaxPool")
def reduction(im, node, ins, attrs):
    x = ins[0]
    keep = attrs.get("keepdims", 1)
    if node.op_type.startswith("Global"):
        axes, kind = list(range(2, len(x.shape))), "mean" if "Average" in node.op_type else "max"
    else:
        kind = node.op_type[6:].lower()
        axes = attrs.get("axes") or (numbers(ins[1], "axes") if len(ins) > 1 and ins[1] is not None else list(range(len(x.shape))))
    axes = sorted(a % len(x.shape) for a in axes)
    shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape))
    result = Value("reduce", (x,), shape, x.dtype, {"kind": kind, "axes": axes})
    return result if keep else reshape(result, [d for i, d in enumerate(x.shape) if i not in axes] or [1])


@handles("Softmax")
def softmax(im, node, ins, attrs):
    x = ins[0]
    axis = attrs.get("axis", 1 if im.opset < 13 else -1) % len(x.shape)
    if im.opset < 13 and axis != len(x.shape) - 1:
        raise Unsupported("the flattening softmax of old models")
    if axis == len(x.shape) - 1:
        return Value("softmax", (x,), x.shape, "f16")
    perm = [i for i in range(len(x.shape)) if i != axis] + [axis]
    result = Value("softmax", (permute(x, perm),), tuple(x.shape[p] for p in perm), "f16")
    return permute(result, np.argsort(perm))


@handles("LayerNormalization")
def layer_norm(im, node, ins, attrs):
    x = ins[0]
    axis = attrs.get("axis", -1) % len(x.shape)
    count = int(np.prod(x.shape[axis:]))
    flat = reshape(x, (*x.shape[:axis], count))
    result = reshape(Value("layernorm", (flat,), flat.shape, "f16", {"eps": float(attrs.get("epsilon", 1e-5))}), x.shape)
    result = pw("mul", result, ins[1])
    return pw("add", result, ins[2]) if len(ins) > 2 and ins[2] is not None else result


@handles("GroupNormalization", "InstanceNormalization")
def group_norm(im, node, ins, attrs):
    x, scale, bias = ins
    groups = attrs.get("num_groups", x.shape[1])
    flat = reshape(x, (x.shape[0], groups, -1))
    result = reshape(Value("layernorm", (flat,), flat.shape, "f16", {"eps": float(attrs.get("epsilon", 1e-5))}), x.shape)
    if scale.size != x.shape[1]:
        raise Unsupported("a scale per group")
    shape = (1, -1) + (1,) * (len(x.shape) - 2)
    return pw("add", pw("mul", result, reshape_const(scale, shape)), reshape_const(bias, shape))


def reshape_const(value, shape):
    return const(value.data.reshape(shape), value.name)


@handles("Concat")
def concat(im, node, ins, attrs):
    ins = [v for v in ins if v.size]
    axis = attrs["axis"] % len(ins[0].shape)
    if len(ins) == 1:
        return ins[0]
    shape = list(ins[0].shape)
    shape[axis] = sum(v.shape[axis] for v in ins)
    dtype = next(v.dtype for v in ins if v.op != "const" or v is ins[-1])
    return Value("concat", tuple(ins), tuple(shape), dtype, {"axis": axis})


@handles("Pad")
def pad(im, node, ins, attrs):
    x = ins[0]
    if attrs.get("mode", b"constant") != b"constant":
        raise Unsupported(f"padding by {attrs['mode'].decode()}")
    amounts = attrs.get("pads") or numbers(ins[1], "pads")
    fill = scalar(ins[2], 0.0) if len(ins) > 2 and ins[2] is not None else attrs.get("value", 0.0)
    axes = numbers(ins[3], "axes") if len(ins) > 3 and ins[3] is not None else range(len(x.shape))
    half = len(amounts) // 2
    for i, axis in enumerate(axes):
        begin, end, axis = amounts[i], amounts[half + i], axis % len(x.shape)
        x = cut_axis(x, axis, max(0, -begin), x.shape[axis] - max(0, -end))
        parts = [x]
        for amount, place in ((begin, 0), (end, 1)):
            if amount > 0:
                shape = [amount if a == axis else d for a, d in enumerate(x.shape)]
                part = const(np.full(shape, fill, np.float32))
                parts = parts + [part] if place else [part] + parts
        if len(parts) > 1:
            shape = [sum(p.shape[a] for p in parts) if a == axis else d for a, d in enumerate(x.shape)]
            x = Value("concat", tuple(parts), tuple(shape), x.dtype, {"axis": axis})
    return x


@handles("Split")
def split(im, node, ins, attrs):
    x = ins[0]
    axis = attrs.get("axis", 0) % len(x.shape)
    sizes = attrs.get("split") or (numbers(ins[1], "split") if len(ins) > 1 and ins[1] is not None else None)
    if not sizes:
        count = attrs.get("num_outputs", len(node.output))
        step = -(-x.shape[axis] // count)
        sizes = [min(step, x.shape[axis] - i * step) for i in range(count)]
    begins = np.cumsum([0] + list(sizes))
    return [cut_axis(x, axis, int(b), int(b + s)) for b, s in zip(begins, sizes)]


@handles("Slice")
def slices(im, node, ins, attrs):
    x = ins[0]
    if im.opset < 10:
        starts, ends = attrs["starts"], attrs["ends"]
        axes, steps = attrs.get("axes", range(len(starts))), [1] * len(starts)
    else:
        given = [numbers(v, "a bound") if v is not None else None for v in ins[1:]] + [None] * 4
        starts, ends = given[0], given[1]
        axes, steps = given[2] or range(len(starts)), given[3] or [1] * len(starts)
    begin, end, step = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    for a, b, axis, s in zip(starts, ends, axes, steps):
        if s <= 0:
            raise Unsupported("a slice backwards")
        size = x.shape[axis]
        begin[axis] = min(max(a + size if a < 0 else a, 0), size)
        end[axis], step[axis] = min(max(b + size if b < 0 else b, 0), size), s
    return cut(x, begin, end, step)


@handles("Gather")
def gather(im, node, ins, attrs):
    x, index = ins
    axis = attrs.get("axis", 0) % len(x.shape)
    if index.op == "const" and index.size == 1:
        i = int(index.data.reshape(-1)[0]) % x.shape[axis]
        result = cut_axis(x, axis, i, i + 1)
        return reshape(result, (*x.shape[:axis], *index.shape, *x.shape[axis + 1:]))
    if index.op == "const":
        values = numbers(index, "indices")
        steps = set(np.diff(values).tolist())
        if len(steps) == 1 and min(steps) > 0 and len(index.shape) == 1:
            return cut_axis(x, axis, values[0], values[-1] + 1, steps.pop())
    if axis != 0 or len(x.shape) != 2:
        raise Unsupported("only gathers of rows of a matrix")
    return Value("gather", (x, index), (*index.shape, x.shape[1]), x.dtype)


@handles("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand")
def views(im, node, ins, attrs):
    x, op = ins[0], node.op_type
    if op == "Transpose":
        return permute(x, attrs.get("perm") or range(len(x.shape))[::-1])
    if op == "Flatten":
        axis = attrs.get("axis", 1) % (len(x.shape) + 1)
        return reshape(x, (int(np.prod(x.shape[:axis], dtype=np.int64)), int(np.prod(x.shape[axis:], dtype=np.int64))))
    if op == "Expand":
        return expand(x, numbers(ins[1], "shape"))
    if op == "Reshape":
        shape = numbers(ins[1], "shape")
        return reshape(x, [x.shape[i] if d == 0 and not attrs.get("allowzero", 0) else d for i, d in enumerate(shape)])
    axes = attrs.get("axes") or (numbers(ins[1], "axes") if len(ins) > 1 and ins[1] is not None else None)
    if op == "Squeeze":
        drop = [a % len(x.shape) for a in axes] if axes else [i for i, d in enumerate(x.shape) if d == 1]
        return reshape(x, [d for i, d in enumerate(x.shape) if i not in drop])
    rank, shape = len(x.shape) + len(axes), list(x.shape)
    for axis in sorted(a % rank for a in axes):
        shape.insert(axis, 1)
    return reshape(x, shape)


def load(model, batch=None, shapes=None):
    """The inputs, and the outputs with their names, of an onnx.ModelProto or a path to one."""
    if not isinstance(model, onnx.ModelProto):
        model = onnx.load(str(model))
    assert FUNCTIONS
    return Importer(model, batch, shapes or {}).run()
