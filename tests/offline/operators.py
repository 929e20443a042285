# SPDX-License-Identifier: Apache-2.0
"""Every operator of the compiler, in the forms that fail most easily: odd sizes, strides, dilation, groups, padding
on one side, broadcasting from either side, other axes.

Each case is a function that adds nodes to a network and returns the names of its outputs. Cases share a model, up to
the number of outputs that a pack may have, because a kernel takes most of a second to compile.
"""
import numpy as np
from onnx import TensorProto, helper

from detpack.small import Net

MOST_OUTPUTS = 14
CASES = []


def case(function):
    CASES.append(function)
    return function


def conv(n, x, cin, cout, kernel, **attrs):
    groups = attrs.get("group", 1)
    w = n.normal(cout, cin // groups, *kernel, scale=(cin // groups * kernel[0] * kernel[1]) ** -0.5)
    return n.op("Conv", x, w, kernel_shape=list(kernel), **attrs)


@case
def convolutions(n, x):  # x: [2, 20, 9, 11]
    return [conv(n, x, 20, 24, (3, 3), strides=[2, 1], pads=[1, 0, 2, 1]), conv(n, x, 20, 8, (1, 1), strides=[2, 2]),
            conv(n, x, 20, 40, (3, 3), group=20, pads=[1, 1, 1, 1]), conv(n, x, 20, 24, (3, 2), group=4, dilations=[2, 1]),
            conv(n, x, 20, 20, (5, 3), group=20, pads=[2, 1, 2, 1], strides=[1, 2]),
            conv(n, x, 20, 6, (2, 2), auto_pad="SAME_UPPER", strides=[2, 2]),
            conv(n, n.op("Slice", x, n.const([2]), n.const([19]), n.const([1])), 17, 33, (3, 3), dilations=[2, 2], pads=[2, 2, 2, 2])]


@case
def pooling(n, x):
    return [n.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
            n.op("MaxPool", x, kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1),
            n.op("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            n.op("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 0, 1], count_include_pad=1),
            n.op("GlobalMaxPool", x)]


@case
def reductions(n, x):
    axes = [n.const(np.array(a, np.int64)) for a in ([1], [0, 3], [3], [0, 1, 2, 3], [-2, -1])]
    return [n.op("ReduceMean", x, axes[0]), n.op("ReduceSum", x, axes[1], keepdims=0), n.op("ReduceMax", x, axes[2]),
            n.op("ReduceMean", x, axes[3]), n.op("ReduceMean", x, axes[4], keepdims=0)]


@case
def rows(n, x):
    flat = n.reshape(x, 2, 20, 99)
    scale, bias = n.normal(99), n.normal(99)
    last = n.const([-1])
    centred = n.op("Sub", flat, n.op("ReduceMean", flat, last))
    variance = n.op("ReduceMean", n.op("Pow", centred, n.const(np.float32(2))), last)
    spelled = n.op("Div", centred, n.op("Sqrt", n.op("Add", variance, n.const(np.float32(0.3)))))
    return [n.op("Neg", spelled), n.op("Softmax", flat, axis=-1), n.op("Softmax", x, axis=1),
            n.op("LayerNormalization", flat, scale, bias, axis=-1),
            n.op("LayerNormalization", n.op("Transpose", x, perm=[0, 2, 3, 1]), n.normal(20), axis=-1, epsilon=1e-3),
            n.op("InstanceNormalization", x, n.normal(20), n.normal(20))]


@case
def products(n, x):
    flat = n.reshape(x, 2, 20, 99)
    turned = n.op("Transpose", flat, perm=[0, 2, 1])
    square = n.op("MatMul", n.op("Mul", flat, n.const(np.float32(0.1))), turned)
    gemm = n.op("Gemm", n.reshape(x, 40, 99), n.normal(7, 99, scale=0.1), n.normal(7), transB=1, alpha=0.5, beta=2.0)
    left = n.op("MatMul", n.normal(5, 20, scale=0.2), flat)
    wide = n.op("MatMul", n.op("Unsqueeze", flat, n.const([1])), n.normal(3, 99, 4, scale=0.1))
    return [square, gemm, left, wide, n.op("MatMul", turned, n.normal(20, 65, scale=0.2))]


@case
def attentions(n, x):
    flat = n.op("Transpose", n.reshape(x, 2, 2, 10, 99), perm=[0, 1, 3, 2])  # [2, 2, 99, 10]
    other = n.reshape(n.op("Slice", x, n.const([0]), n.const([10]), n.const([3])), 2, 2, 10, 90)
    plain = n.op("MatMul", n.op("Softmax", n.op("MatMul", flat, other), axis=-1), n.op("Transpose", other, perm=[0, 1, 3, 2]))
    scores = n.op("Add", n.op("Mul", n.op("MatMul", flat, other), n.const(np.float32(0.3))), n.normal(2, 1, 90))
    masked = n.op("MatMul", n.op("Softmax", scores, axis=-1), n.normal(1, 1, 90, 33))
    scores = n.op("Softmax", n.op("MatMul", flat, other), axis=-1)  # the softmax is read twice, so it is not fused: three kernels
    return [plain, n.op("Relu", n.op("Add", masked, n.normal(33))),
            n.op("MatMul", scores, n.normal(90, 20)), n.op("ReduceMax", scores, n.const([3]))]


@case
def shapes(n, x):
    shuffled = n.reshape(n.op("Transpose", n.reshape(x, 2, 4, 5, 9, 11), perm=[0, 2, 1, 3, 4]), 2, 20, 9, 11)
    parts = n.op("Split", x, n.const([3, 12, 5]), outputs=3, axis=1)
    odd = n.op("Slice", x, n.const([1, 2]), n.const([9, 11]), n.const([2, 3]), n.const([2, 3]))
    wide = n.op("Expand", n.op("Slice", x, n.const([0]), n.const([1]), n.const([1])), n.const([2, 3, 9, 11]))
    return [shuffled, n.op("Relu", parts[1]), n.op("Neg", odd), n.op("Add", wide, n.normal(3, 1, 1)),
            n.op("Flatten", n.op("Transpose", x, perm=[0, 3, 1, 2])),
            n.op("Gather", x, n.const(np.int64(-1)), axis=2),
            n.op("Squeeze", n.op("Slice", x, n.const([4]), n.const([5]), n.const([3])), n.const([3]))]


@case
def joined(n, x):
    a, b = n.op("Relu", x), n.op("Sigmoid", x)
    one = n.op("Concat", a, b, axis=1)
    two = n.op("Concat", a, b, n.op("Tanh", x), axis=1)
    other = n.op("Concat", x, a, x, axis=3)
    padded = n.op("Pad", x, n.const([0, 1, 2, -1, 0, 0, 1, 3]), n.const(np.float32(0.5)))
    return [n.op("Mul", one, one), two, other, padded, n.op("Concat", n.op("Concat", b, a, axis=2), n.op("Concat", a, b, axis=2), axis=0)]


@case
def elementwise(n, x):
    positive = n.op("Add", n.op("Abs", x), n.const(np.float32(0.5)))
    row, column = n.normal(11), n.normal(20, 1, 1)
    below = n.op("Less", x, n.const(np.float32(0.2)))
    return [n.op("Sub", row, x), n.op("Div", column, positive), n.op("Max", x, row, column),
            n.op("Clip", x, n.const(np.float32(-0.3)), n.const(np.float32(0.7))),
            n.op("Where", below, x, row), n.op("Gelu", x), n.op("Gelu", x, approximate="tanh"), n.op("LeakyRelu", x, alpha=0.3),
            n.op("Pow", x, n.const(np.float32(3))), n.op("Pow", positive, n.const(np.float32(0.5))), n.op("Log", positive), n.op("Erf", x),
            n.op("Reciprocal", positive), n.op("Exp", x)]


@case
def more_elementwise(n, x):
    side = n.op("ReduceMean", x, n.const([2, 3]))
    twice = n.op("Relu", n.op("Mul", x, n.op("Sigmoid", side)))
    flag = n.op("Cast", n.op("Greater", x, side), to=TensorProto.FLOAT)
    both = n.op("And", n.op("Less", x, side), n.op("Not", n.op("Equal", x, x)))
    return [n.op("Add", twice, n.op("Mul", twice, x)), n.op("Mul", flag, x), n.op("Cast", both, to=TensorProto.FLOAT),
            n.op("HardSwish", x), n.op("Mul", n.op("HardSigmoid", x), side), n.op("Sqrt", n.op("Mul", x, x)), n.op("Min", x, side)]


def models():
    """Yields names and models, with as many cases per model as fit."""
    packed = []
    for function in CASES:
        n = Net(len(packed) + 11)
        outputs = function(n, n.input("x", [2, 20, 9, 11]))
        assert len(outputs) <= MOST_OUTPUTS, function.__name__
        described = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(n.nodes, function.__name__, n.inputs, described, n.constants)
        packed.append((function.__name__, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)))
    return packed
