# SPDX-License-Identifier: Apache-2.0
"""Attention in one kernel: scores, their softmax and the product with the values, where a block can hold its rows of scores in registers.

A block takes some queries of one head and all keys at once. So the softmax needs one pass, and no scores are written to memory. The
kernel includes elementwise values before the softmax (a scale, a mask) and after the product. A sequence longer than MOST_KEYS takes
three kernels.
"""
from .code import Axis, Code, Launch, cdiv, power2

MOST_KEYS = 256
MOST_WIDTH = 128


def parts(group, lower):
    """The groups of the scores and of their softmax, if `group` is the product of the softmax with the values and
    nothing else uses the two. Else None."""
    root = group.root
    if root.op != "matmul" or root.inputs[1].op == "const" or len(root.shape) < 3:
        return None
    weights = root.inputs[0]
    soft = lower.groups.get(weights.number)
    if not soft or soft.root.op != "softmax" or soft.root is not weights or len(soft.members) != 1 or lower.shared(weights):
        return None
    scores = soft.root.inputs[0]
    first = lower.groups.get(scores.number)
    if not first or first.root.op != "matmul" or first.root.inputs[1].op == "const" or lower.shared(scores):
        return None
    keys, width, out = scores.shape[-1], first.root.inputs[0].shape[-1], root.shape[-1]
    if keys > MOST_KEYS or width > MOST_WIDTH or out > MOST_WIDTH or first.result.shape != first.root.shape:
        return None
    return first, soft


def operand(c, store, down, across, z_axes):
    """A tile of an operand: `down` and `across` are (positions, size's name, size) of its last two dimensions."""
    rank, where, masks = len(store.shape), [], []
    for (var, name, size), dim, spread in ((down, rank - 2, "[:, None]"), (across, rank - 1, "[None, :]")):
        stride = store.strides[dim]
        where.append(f"({var})[:, None]" if spread[1] == ":" else f"({var})[None, :]")
        where[-1] += "" if stride == 1 else f" * {c.number(stride)}"
        if name:
            masks.append(f"({var} < {name}){spread}")
    batch, _ = c.address(z_axes, store.strides)
    guard = f", mask={' & '.join(masks)}, other=0.0" if masks else ""
    return f"tl.load({c.pointer(store)} + ({batch}) + {where[0]} + {where[1]}{guard})"


def attention(first, group, lower, out):
    """Writes the attention kernel. `first`: the group of the scores; `group`: the group of the product with the values."""
    root, scores = group.root, first.root
    q, k, v = lower.half(scores.inputs[0]), lower.half(scores.inputs[1]), lower.half(root.inputs[1])
    rank = len(root.shape)
    queries, keys, width, values = scores.shape[-2], scores.shape[-1], q.shape[-1], root.shape[-1]
    z_dims = [(d, root.shape[d]) for d in range(rank - 2)]
    heads = 1
    for _, size in z_dims:
        heads *= size
    wide, deep, last = (max(16, power2(n)) for n in (keys, width, values))
    tall = 64 if wide <= 128 else 32
    while tall > 16 and cdiv(queries, tall) * heads < 132:
        tall //= 2
    c = Code("attention")
    names = [c.number(n) for n in (queries, keys, width, values)]
    c.line(f"rm = tl.program_id(0) * {tall} + tl.arange(0, {tall})")
    c.line("z = tl.program_id(1)")
    c.line(f"rn = tl.arange(0, {wide})")
    c.line(f"rk = tl.arange(0, {deep})")
    c.line(f"rv = tl.arange(0, {last})")
    for mask, positions, name in (("mm", "rm", names[0]), ("mn", "rn", names[1]), ("mv", "rv", names[3])):
        c.line(f"{mask} = {positions} < {name}")
    batch = [Axis("z", z_dims, "")]
    across = ("rk", names[2] if deep != width else "", width)
    c.line("q = " + operand(c, q, ("rm", names[0], queries), across, batch))
    c.line("k = " + operand(c, k, across, ("rn", names[1], keys), batch))
    c.line(f"acc = tl.dot(q, k, tl.zeros(({tall}, {wide}), dtype=tl.float32))")
    axes = [Axis("rm", [(rank - 2, queries)], "[:, None]", "mm"), Axis("rn", [(rank - 1, keys)], "[None, :]", "mn")] + batch
    c.line(f"s = tl.where(mn[None, :], {c.tail(first, 'acc', axes, lower.store)}, float('-inf'))")
    c.line("s = tl.exp(s - tl.max(s, 1)[:, None])")
    c.line("p = (s / tl.sum(s, 1)[:, None]).to(tl.float16)")
    c.line("v = " + operand(c, v, ("rn", names[1], keys), ("rv", names[3] if last != values else "", values), batch))
    c.line(f"out = tl.dot(p, v, tl.zeros(({tall}, {last}), dtype=tl.float32))")
    axes = [Axis("rm", [(rank - 2, queries)], "[:, None]", "mm"), Axis("rv", [(rank - 1, values)], "[None, :]", "mv")] + batch
    c.save(out, group.result.shape, axes, c.tail(group, "out", axes, lower.store))
    flops = 2 * heads * queries * keys * (width + values)
    moved = 2 * heads * (queries * (width + values) + keys * (width + values))
    return Launch(c, (cdiv(queries, tall), heads, 1), 4, 1, flops, moved, "attention")
