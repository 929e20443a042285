# SPDX-License-Identifier: Apache-2.0
"""Small models for tests, made with onnx alone: one per family of the paper's models, with all of its kinds of operators.

A simulated device runs each in seconds. Weights are seeded and scaled so that values keep their size from layer to layer.
"""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

MODELS = {}


def small(function):
    MODELS[function.__name__.replace("_", "-")] = function
    return function


class Net:
    """An ONNX graph under construction."""

    def __init__(self, seed=7):
        self.random, self.nodes, self.constants, self.inputs, self.count = np.random.default_rng(seed), [], [], [], 0

    def input(self, name, shape, kind=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def const(self, data):
        self.count += 1
        self.constants.append(numpy_helper.from_array(np.asarray(data), f"c{self.count}"))
        return f"c{self.count}"

    def normal(self, *shape, scale=1.0):
        return self.const((self.random.standard_normal(shape) * scale).astype(np.float16).astype(np.float32))

    def op(self, kind, *inputs, outputs=1, **attrs):
        names = []
        for _ in range(outputs):
            self.count += 1
            names.append(f"v{self.count}")
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attrs))
        return names[0] if outputs == 1 else names

    def conv(self, x, cin, cout, kernel=1, stride=1, groups=1, norm=True, act="Relu", pad=None):
        pad = kernel // 2 if pad is None else pad
        w = self.normal(cout, cin // groups, kernel, kernel, scale=(2 / (cin // groups * kernel * kernel)) ** 0.5)
        b = self.normal(cout, scale=0.1)
        x = self.op("Conv", x, w, b, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, group=groups)
        if norm:
            x = self.norm(x, cout)
        return self.op(act, x) if act else x

    def norm(self, x, channels):
        positive = [self.const((0.5 + self.random.random(channels)).astype(np.float32)) for _ in range(2)]
        shift, mean = (self.normal(channels, scale=0.1) for _ in range(2))
        return self.op("BatchNormalization", x, positive[0], shift, mean, positive[1])

    def linear(self, x, k, n, act=None):
        x = self.op("Add", self.op("MatMul", x, self.normal(k, n, scale=k ** -0.5)), self.normal(n, scale=0.1))
        return self.op(act, x) if act else x

    def layer_norm(self, x, n):
        return self.op("LayerNormalization", x, self.const(np.ones(n, np.float32)), self.normal(n, scale=0.1), axis=-1)

    def reshape(self, x, *shape):
        return self.op("Reshape", x, self.const(np.array(shape, np.int64)))

    def attention(self, x, batch, tokens, width, heads, mask=None):
        parts = []
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            part = self.reshape(self.linear(x, width, width), batch, tokens, heads, width // heads)
            parts.append(self.op("Transpose", part, perm=perm))
        scores = self.op("Mul", self.op("MatMul", parts[0], parts[1]), self.const(np.float32((width // heads) ** -0.5)))
        if mask:
            scores = self.op("Add", scores, mask)
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), parts[2])
        return self.linear(self.reshape(self.op("Transpose", mixed, perm=[0, 2, 1, 3]), batch, tokens, width), width, width)

    def block(self, x, batch, tokens, width, heads, act="Gelu", mask=None):
        x = self.op("Add", x, self.attention(self.layer_norm(x, width), batch, tokens, width, heads, mask))
        return self.op("Add", x, self.linear(self.linear(self.layer_norm(x, width), width, 2 * width, act), 2 * width, width))

    def model(self, output):
        described = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "small", self.inputs, [described], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@small
def tiny_mlp(batch):
    n = Net()
    x = n.input("x", [batch, 40])
    x = n.linear(n.linear(x, 40, 64, "Relu"), 64, 10)
    return n.model(n.op("Softmax", x, axis=-1))


@small
def tiny_resnet(batch):
    n = Net()
    x = n.conv(n.input("image", [batch, 3, 16, 16]), 3, 16, 3, 2)
    x = n.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    side = x
    x = n.op("Relu", n.op("Add", n.conv(n.conv(x, 16, 16, 3), 16, 16, 3, act=None), side))
    side = n.conv(x, 16, 32, 1, 2, act=None)
    x = n.op("Relu", n.op("Add", n.conv(n.conv(x, 16, 32, 3, 2), 32, 32, 3, act=None), side))
    return n.model(n.linear(n.op("Flatten", n.op("GlobalAveragePool", x)), 32, 10))


@small
def tiny_mobilenet(batch):
    n = Net()
    x = n.conv(n.input("image", [batch, 3, 16, 16]), 3, 16, 3, 2, act="HardSwish")
    y = n.conv(n.conv(x, 16, 24, 1, act="HardSwish"), 24, 24, 5, 1, 24, act="HardSwish")
    gate = n.conv(n.op("ReduceMean", y, n.const(np.array([2, 3], np.int64))), 24, 8, norm=False)
    gate = n.op("HardSigmoid", n.conv(gate, 8, 24, norm=False, act=None), alpha=1 / 6)
    x = n.op("Add", n.conv(n.op("Mul", y, gate), 24, 16, 1, act=None), x)
    x = n.conv(x, 16, 16, 3, 2, 16, act=None)
    x = n.op("Mul", x, n.op("Sigmoid", x))
    return n.model(n.linear(n.op("Flatten", n.op("GlobalAveragePool", x)), 16, 10))


@small
def tiny_densenet(batch):
    n = Net()
    x = n.conv(n.input("image", [batch, 3, 16, 16]), 3, 16, 3, 2)
    features = [x]
    for i in range(3):
        y = n.op("Concat", *features, axis=1) if i else x
        width = 16 + 8 * i
        y = n.conv(n.op("Relu", n.norm(y, width)), width, 16, 1)
        features.append(n.conv(y, 16, 8, 3, norm=False, act=None))
    x = n.op("Relu", n.norm(n.op("Concat", *features, axis=1), 40))
    x = n.op("AveragePool", n.conv(x, 40, 20, 1, norm=False, act=None), kernel_shape=[2, 2], strides=[2, 2])
    return n.model(n.linear(n.op("Flatten", n.op("GlobalAveragePool", x)), 20, 10))


@small
def tiny_shufflenet(batch):
    n = Net()
    x = n.conv(n.input("image", [batch, 3, 16, 16]), 3, 16, 3, 2)
    for _ in range(2):
        a, b = n.op("Split", x, outputs=2, axis=1, num_outputs=2)
        b = n.conv(n.conv(n.conv(b, 8, 8), 8, 8, 3, 1, 8, act=None), 8, 8)
        x = n.reshape(n.op("Concat", a, b, axis=1), batch, 2, 8, 8, 8)
        x = n.reshape(n.op("Transpose", x, perm=[0, 2, 1, 3, 4]), batch, 16, 8, 8)
    x = n.conv(x, 16, 32, 3, 2, 4)
    return n.model(n.linear(n.op("Flatten", n.op("GlobalAveragePool", x)), 32, 10))


@small
def tiny_vit(batch):
    n = Net()
    x = n.conv(n.input("image", [batch, 3, 16, 16]), 3, 32, 4, 4, norm=False, act=None, pad=0)
    x = n.op("Transpose", n.reshape(x, batch, 32, 16), perm=[0, 2, 1])
    x = n.block(n.op("Add", x, n.normal(1, 16, 32)), batch, 16, 32, 2)
    x = n.op("ReduceMean", n.layer_norm(x, 32), n.const(np.array([1], np.int64)), keepdims=0)
    return n.model(n.linear(x, 32, 10))


@small
def tiny_bert(batch):
    n = Net()
    ids = n.input("input_ids", [batch, 12], TensorProto.INT64)
    mask = n.input("attention_mask", [batch, 12], TensorProto.INT64)
    x = n.op("Add", n.op("Gather", n.normal(1000, 32), ids), n.normal(1, 12, 32))
    off = n.op("Sub", n.const(np.float32(1)), n.op("Cast", mask, to=TensorProto.FLOAT))
    off = n.op("Mul", n.op("Unsqueeze", off, n.const(np.array([1, 2], np.int64))), n.const(np.float32(-10000)))
    x = n.block(n.layer_norm(x, 32), batch, 12, 32, 2, mask=off)
    first = n.op("Gather", n.layer_norm(x, 32), n.const(np.int64(0)), axis=1)
    return n.model(n.linear(n.linear(first, 32, 32, "Tanh"), 32, 2))


def load(name, batch):
    return MODELS[name](batch)
