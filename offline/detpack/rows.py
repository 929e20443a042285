# SPDX-License-Identifier: Apache-2.0
"""Kernels of rows: softmax, layer normalisation, sums and means over any axes, rows of a table.

One block takes one row, or several short ones. A row of a softmax or of a normalisation is in registers as a whole. The compiler's tree
over the row fixes the order of summing, so every launch gives the same bits.
"""
from .code import Axis, Code, Launch, cdiv, power2
from .graph import Unsupported


def row_blocks(rows, columns, most=2048):
    """Rows per block, columns rounded up, warps per block."""
    wide = power2(columns)
    if wide > 16384:
        raise Unsupported(f"rows of {columns} elements")
    tall = max(1, min(power2(rows), most // wide, 32))
    while tall > 1 and cdiv(rows, tall) < 264:
        tall //= 2
    return tall, wide, max(1, min(16, tall * wide // 256))


def row_header(c, rows, columns, tall, wide):
    c.line(f"rm = tl.program_id(0) * {tall} + tl.arange(0, {tall})")
    c.line(f"rn = tl.arange(0, {wide})")
    c.line(f"mm = rm < {rows}")
    c.line(f"mn = rn < {columns}")


def normalise(group, lower, out):
    """Writes the kernel of a softmax or a layer normalisation over the last axis."""
    root = group.root
    x, shape = lower.store(root.inputs[0]), root.shape
    columns, rows = shape[-1], root.size // shape[-1]
    tall, wide, warps = row_blocks(rows, columns)
    c = Code(root.op)
    name_rows, name_columns = c.number(rows), c.number(columns)
    row_header(c, name_rows, name_columns, tall, wide)
    axes = [Axis("rm", list(enumerate(shape))[:-1], "[:, None]", "mm"), Axis("rn", [(len(shape) - 1, columns)], "[None, :]", "mn")]
    value = c.load(x, shape, axes)
    if root.op == "softmax":
        c.line(f"x = tl.where(mn[None, :], {value}, float('-inf'))")
        c.line("x = tl.exp(x - tl.max(x, 1)[:, None])")
        c.line("y = x / tl.sum(x, 1)[:, None]")
    else:
        c.line(f"mean = tl.sum({value}, 1) / {name_columns}")
        c.line(f"x = tl.where(mn[None, :], {value} - mean[:, None], 0.0)")
        c.line(f"var = tl.sum(x * x, 1) / {name_columns}")
        c.line(f"y = x * (1.0 / tl.sqrt(var + {root.attrs['eps']!r}))[:, None]")
    c.save(out, shape, axes, c.tail(group, "y", axes, lower.store))
    return Launch(c, (cdiv(rows, tall), 1, 1), warps, 1, 8 * root.size, 4 * root.size, root.op)


def reduce(group, lower, out):
    """Writes the kernel of a sum, mean or maximum over some axes."""
    root = group.root
    x, axes_in = lower.store(root.inputs[0]), root.attrs["axes"]
    kept = [d for d in range(len(x.shape)) if d not in axes_in]
    kept.sort(key=lambda d: -x.strides[d])
    over = sorted(axes_in, key=lambda d: -x.strides[d])
    rows = columns = 1
    for d in kept:
        rows *= x.shape[d]
    for d in over:
        columns *= x.shape[d]
    along = x.strides[kept[-1]] == 1 if kept else False
    tall = min(power2(rows), 64 if along else 4)
    while tall > 8 and cdiv(rows, tall) < 132:
        tall //= 2
    wide = max(16, min(power2(columns), 4096 // tall, 1024))
    c = Code("reduce")
    name_rows, name_columns = c.number(rows), c.number(columns)
    c.line(f"rm = tl.program_id(0) * {tall} + tl.arange(0, {tall})")
    c.line(f"mm = rm < {name_rows}")
    most = root.attrs["kind"] == "max"
    empty = "float('-inf')" if most else "0.0"
    c.line(f"acc = tl.full(({tall}, {wide}), {empty}, dtype=tl.float32)")
    c.line(f"for begin in range(0, {name_columns}, {wide}):")
    c.line(f"rn = begin + tl.arange(0, {wide})", 2)
    c.line(f"mn = rn < {name_columns}", 2)
    inner = [Axis("rm", [(d, x.shape[d]) for d in kept], "[:, None]", "mm"), Axis("rn", [(d, x.shape[d]) for d in over], "[None, :]", "mn")]
    where, _ = c.address(inner, x.strides, True)
    c.line(f"v = tl.load({c.pointer(x)} + {where}, mask=mm[:, None] & mn[None, :], other={empty}).to(tl.float32)", 2)
    c.line("acc = tl.maximum(acc, v)" if most else "acc += v", 2)
    c.line("y = tl.max(acc, 1)" if most else "y = tl.sum(acc, 1)")
    if root.attrs["kind"] == "mean":
        c.line(f"y = y / {name_columns}")
    axes = [Axis("rm", [(d, x.shape[d]) for d in kept], "", "mm")]
    c.save(out, root.shape, axes, c.tail(group, "y", axes, lower.store))
    return Launch(c, (cdiv(rows, tall), 1, 1), 4, 1, root.inputs[0].size, 2 * root.inputs[0].size, "reduce")


def gather(group, lower, out):
    """Writes the kernel that reads rows of a table. An index beyond the table takes the nearest row; a negative index
    counts from the end."""
    root = group.root
    table, index = lower.half(root.inputs[0]), lower.store(root.inputs[1])
    columns, rows = root.shape[-1], root.size // root.shape[-1]
    tall, wide, warps = row_blocks(rows, columns, 1024)
    c = Code("gather")
    name_rows, name_columns, count = c.number(rows), c.number(columns), c.number(table.shape[0])
    row_header(c, name_rows, name_columns, tall, wide)
    shape, last = root.shape, len(root.shape) - 1
    axes = [Axis("rm", list(enumerate(shape))[:-1], "[:, None]", "mm"), Axis("rn", [(last, columns)], "[None, :]", "mn")]
    where, _ = c.address([Axis("rm", list(enumerate(shape))[:-1], "", "mm")], list(index.strides) + [0], True)
    c.line(f"row = tl.load({c.pointer(index)} + {where}, mask=mm, other=0).to(tl.int32)")
    c.line(f"row = tl.where(row < 0, row + {count}, row)")
    c.line(f"row = tl.minimum(tl.maximum(row, 0), {count} - 1)")
    stride = c.number(table.strides[1])
    c.line(f"y = tl.load({c.pointer(table)} + row[:, None] * {c.number(table.strides[0])} + rn[None, :] * {stride}, "
           "mask=mm[:, None] & mn[None, :], other=0.0).to(tl.float32)")
    c.save(out, shape, axes, c.tail(group, "y", axes, lower.store))
    return Launch(c, (cdiv(rows, tall), 1, 1), warps, 1, 0, 4 * root.size, "gather")
