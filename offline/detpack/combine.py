# SPDX-License-Identifier: Apache-2.0
"""Products of one value with several matrices become one product, as of a transformer's query, key and value.

One launch with three times the tiles fills a GPU better than three launches. This joins products with constant matrices and a constant
bias (or none), if nothing else reads the product without its bias. The parts are slices of the whole, which move no data.
"""
import numpy as np

from .graph import Value, const, cut_axis, pw, topological, users_of

MOST_COLUMNS = 8192


def biased(value, users):
    """The sum of this product and a constant row (its bias), if the product has no other use; else None."""
    if len(users[value.number]) == 1:
        user = users[value.number][0]
        if user.op == "pw" and user.attrs["fn"] == "add" and user.shape == value.shape:
            other = user.inputs[1] if user.inputs[0] is value else user.inputs[0]
            if other.op == "const" and other.shape == (value.shape[-1],):
                return user, other
    return None


def families(order, users):
    """Lists of (product, sum, bias) whose products have the same left side."""
    found = {}
    for value in order:
        right = value.inputs[1] if value.op == "matmul" else None
        if right and right.op == "const" and len(right.shape) == 2 and len(users[right.number]) == 1:
            both = biased(value, users)
            if both:
                found.setdefault(value.inputs[0].number, []).append((value, *both))
    return [f for f in found.values() if len(f) > 1 and sum(p.shape[-1] for p, _, _ in f) <= MOST_COLUMNS]


def combine(outputs):
    """Joins products with the same left side, in place."""
    order = topological(outputs)
    users = users_of(order)
    kept = {v.number for v in outputs}
    for family in families(order, users):
        if any(p.number in kept or s.number in kept for p, s, _ in family):
            continue
        left = family[0][0].inputs[0]
        weight = const(np.concatenate([p.inputs[1].data for p, _, _ in family], axis=1))
        bias = const(np.concatenate([b.data for _, _, b in family]))
        shape = (*left.shape[:-1], weight.shape[1])
        whole = pw("add", Value("matmul", (left, weight), shape, "f16"), bias)
        begin = 0
        for _, total, _ in family:
            end = begin + total.shape[-1]
            part = cut_axis(whole, len(shape) - 1, begin, end)
            for user in {u.number: u for u in users[total.number]}.values():
                user.inputs = tuple(part if i is total else i for i in user.inputs)
            users[part.number] = users[total.number]
            begin = end
