# SPDX-License-Identifier: Apache-2.0
"""Windows over pixels, channel by channel: depthwise convolutions and pooling. Elementwise groups and copies are here, too.

A block takes some pixels and some channels. Taps are unrolled, so one load gets a tap's weights for all pixels.
"""
from .code import Axis, Code, Launch, cdiv, merge, power2


def window(group, lower, out):
    """Writes the kernel of a depthwise convolution, or of a maximum or average over a window."""
    root = group.root
    x, at = lower.store(root.inputs[0]), root.attrs
    depthwise = root.op == "conv"
    kind, (kh, kw) = ("dw", root.inputs[1].shape[2:]) if depthwise else (at["kind"], at["kernel"])
    n, channels, oh, ow = root.shape
    pixels = n * oh * ow
    wide = min(64, power2(channels)) if channels % 64 == 0 or channels > 256 else min(32, power2(channels))
    tall = max(1, 1024 // wide)
    while tall > 4 and cdiv(pixels, tall) * cdiv(channels, wide) < 264:
        tall //= 2
    c = Code(kind)
    px = c.pointer(x)
    name_m, name_n = c.number(pixels), c.number(channels)
    name_oh, name_ow, name_h, name_w = (c.number(v) for v in (oh, ow, x.shape[2], x.shape[3]))
    sn, sc, sh, sw = (c.number(s) for s in x.strides)
    c.line(f"rm = tl.program_id(0) * {tall} + tl.arange(0, {tall})")
    c.line(f"rn = tl.program_id(1) * {wide} + tl.arange(0, {wide})")
    c.line(f"mm = rm < {name_m}")
    c.line(f"mn = rn < {name_n}")
    c.line(f"ih0 = rm // {name_ow} % {name_oh} * {at['strides'][0]} - {at['pads'][0]}")
    c.line(f"iw0 = rm % {name_ow} * {at['strides'][1]} - {at['pads'][1]}")
    c.line(f"base = {px} + (rm // ({name_ow} * {name_oh}) * {sn} + ih0 * {sh} + iw0 * {sw})[:, None] + (rn * {sc})[None, :]")
    empty = "float('-inf')" if kind == "max" else "0.0"
    c.line(f"acc = tl.full(({tall}, {wide}), {empty}, dtype=tl.float32)")
    if kind == "avg":
        c.line(f"count = tl.zeros(({tall},), dtype=tl.float32)")
    if depthwise:
        pw = c.pointer(lower.packed_depthwise(root.inputs[1]))
    for tap in range(kh * kw):
        dy, dx = tap // kw * at["dilations"][0], tap % kw * at["dilations"][1]
        c.line(f"inside = (ih0 + {dy} >= 0) & (ih0 + {dy} < {name_h}) & (iw0 + {dx} >= 0) & (iw0 + {dx} < {name_w}) & mm")
        c.line(f"v = tl.load(base + ({dy} * {sh} + {dx} * {sw}), mask=inside[:, None] & mn[None, :], other={empty}).to(tl.float32)")
        if depthwise:
            c.line(f"w = tl.load({pw} + {tap} * {name_n} + rn, mask=mn, other=0.0).to(tl.float32)")
            c.line("acc += v * w[None, :]")
        elif kind == "max":
            c.line("acc = tl.maximum(acc, v)")
        else:
            c.line("acc += v")
            # an average does not count the part of a window beyond the padding
            c.line("count += " + (f"((ih0 + {dy} < {name_h} + {at['pads'][2]}) & (iw0 + {dx} < {name_w} + {at['pads'][3]})).to(tl.float32)"
                                  if at["padded"] else "inside.to(tl.float32)"))
    if kind == "avg":
        c.line("acc = acc / tl.maximum(count, 1.0)[:, None]")
    axes = [Axis("rm", [(0, n), (2, oh), (3, ow)], "[:, None]", "mm"), Axis("rn", [(1, channels)], "[None, :]", "mn")]
    c.save(out, root.shape, axes, c.tail(group, "acc", axes, lower.store))
    grid = (cdiv(pixels, tall), cdiv(channels, wide), 1)
    return Launch(c, grid, 4, 1, 2 * root.size * kh * kw, 2 * (root.inputs[0].size + root.size), "depthwise" if depthwise else "pool")


def inner_dims(order, strides):
    """Number of innermost dimensions that lie contiguously in all operands."""
    count = 1
    while count < len(order):
        dims = order[-count - 1:]
        if any(len(merge([(size, s[d]) for d, size in dims])) > 1 for s in strides):
            break
        count += 1
    return count


def elementwise(group, lower, out, sources=None):
    """Writes the kernel of an elementwise group; without a group, a copy of the first source."""
    shape = out.shape
    stores = sources or [lower.store(s) for v in group.members for s in v.inputs
                         if all(s is not m for m in group.members) and not (s.op == "const" and s.size == 1)]
    strides = [[0] * (len(shape) - len(s.shape)) + [0 if d == 1 else t for d, t in zip(s.shape, s.strides)] for s in stores]
    strides.append([0 if d == 1 else t for d, t in zip(shape, out.strides)])
    order = sorted([(d, size) for d, size in enumerate(shape) if size > 1], key=lambda e: -out.strides[e[0]]) or [(0, 1)]
    inner = inner_dims(order, strides)
    rows = columns = 1
    for _, size in order[:-inner]:
        rows *= size
    for _, size in order[-inner:]:
        columns *= size
    c = Code("pointwise" if group else "copy")
    wide = min(power2(columns), 1024)
    tall = min(power2(rows), 1024 // wide)
    axes = [Axis("rn", order[-inner:], "[None, :]", "mn")]
    c.line(f"rn = tl.program_id({0 if rows == 1 else 1}) * {wide} + tl.arange(0, {wide})")
    c.line(f"mn = rn < {c.number(columns)}")
    grid = [cdiv(columns, wide), 1, 1]
    if rows > 1:
        c.line(f"rm = tl.program_id(0) * {tall} + tl.arange(0, {tall})")
        c.line(f"mm = rm < {c.number(rows)}")
        axes.insert(0, Axis("rm", order[:-inner], "[:, None]", "mm"))
        grid = [cdiv(rows, tall), grid[0], 1]
    else:
        axes[0].spread = ""
    result = c.tail(group, None, axes, lower.store) if group else c.load(stores[0], shape, axes)
    c.save(out, shape, axes, result)
    size = rows * columns
    return Launch(c, tuple(grid), 4, 1, size * len(group.members) if group else 0, 2 * size * (len(stores) + 1), c.kind)
