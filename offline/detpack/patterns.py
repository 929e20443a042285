# SPDX-License-Identifier: Apache-2.0
"""Operators that a model spells out: layer normalisation of files before opset 17 is found again.

Their many steps would be correct without this, but slower, and would round between the steps.
"""
from .graph import Value, topological, users_of


def is_pw(value, fn):
    return value.op == "pw" and value.attrs["fn"] == fn


def mean_of(value):
    """The value whose mean over the last axis this is, or None."""
    if value.op == "reduce" and value.attrs["kind"] == "mean" and value.attrs["axes"] == [len(value.shape) - 1]:
        return value.inputs[0]
    return None


def centred(value):
    """Returns x if the value is x minus the mean of x; else None."""
    if is_pw(value, "sub") and mean_of(value.inputs[1]) is value.inputs[0]:
        return value.inputs[0]
    return None


def spelled_norm(value):
    """Returns (x, eps) if the value is (x - mean) / sqrt(mean((x - mean)^2) + eps); else None."""
    if not is_pw(value, "div") or not is_pw(value.inputs[1], "sqrt") or not is_pw(value.inputs[1].inputs[0], "add"):
        return None
    x, (variance, eps) = centred(value.inputs[0]), value.inputs[1].inputs[0].inputs
    square = mean_of(variance)
    if x is None or square is None or eps.op != "const" or eps.size != 1 or not is_pw(square, "mul"):
        return None
    if square.inputs[0] is not square.inputs[1] or centred(square.inputs[0]) is not x:
        return None
    return x, float(eps.data.reshape(-1)[0])


def recognise(outputs):
    """Replaces spelled-out operators in the graph, in place; does not replace an output of the model."""
    order = topological(outputs)
    users = users_of(order)
    for value in order:
        found = spelled_norm(value)
        if found:
            x, eps = found
            norm = Value("layernorm", (x,), value.shape, "f16", {"eps": eps}, value.name)
            for user in {u.number: u for u in users[value.number]}.values():
                user.inputs = tuple(norm if i is value else i for i in user.inputs)
