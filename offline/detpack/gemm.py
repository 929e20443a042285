# SPDX-License-Identifier: Apache-2.0
"""Products and convolutions with tensor cores: a tile of the result per block, K in steps, f32 sums, the group's tail at the end.

A convolution of one by one is a product whose rows are the result's pixels. In any other convolution K runs over (tap, channel): the
kernel gathers rows of the input on use and unfolds nothing in memory. With few input channels (an image's three) K is the flat index
of (tap, channel). The order of summing is fixed by the tile, so results depend only on it. Weights are packed as the tiles read
them and padded with zeros, so reading them needs no mask.
"""
from .code import Axis, Code, Launch, cdiv
from .graph import Unsupported
from .tiles import choose


def header(c, m, n, tile, plain):
    """Writes the positions rm, rn of the block's tile. Blocks go down columns of eight rows of tiles, which reuses data
    in L2."""
    c.line("pid = tl.program_id(0)")
    c.line(f"tiles_m = tl.cdiv({m}, {tile.m})")
    c.line(f"tiles_n = tl.cdiv({n}, {tile.n})")
    c.line("first = pid // (8 * tiles_n) * 8")
    c.line("rows = tl.minimum(tiles_m - first, 8)")
    c.line("inner = pid % (8 * tiles_n)")
    c.line(f"rm = (first + inner % rows) * {tile.m} + tl.arange(0, {tile.m})")
    c.line(f"rn = inner // rows * {tile.n} + tl.arange(0, {tile.n})")
    c.line(f"mm = rm < {m}")
    c.line(f"mn = rn < {n}")
    # rows beyond the last one of the matrix read the last row: loads need no mask, and results of these rows are
    # dropped
    c.line(f"am = tl.minimum(rm, {m} - 1)")
    c.line(f"rk = tl.arange(0, {tile.k})")
    c.line(f"acc = tl.zeros(({tile.m}, {tile.n}), dtype=tl.float32)")


def step(c, a, b, depth=2):
    c.line(f"acc = tl.dot({a}, {b}, acc)", depth)


def matmul(group, lower, out):
    """A product of matrices, batched or not."""
    root = group.root
    a, b = lower.half(root.inputs[0]), root.inputs[1]
    rank, m_dims, k = len(root.shape), [], root.inputs[0].shape[-1]
    flat = b.op == "const" and len(b.shape) == 2
    lead = list(range(rank - 2))
    if flat:
        m_dims = [(d, root.shape[d]) for d in lead + [rank - 2]]
        lead = []
    else:
        m_dims = [(rank - 2, root.shape[-2])]
    z_dims = [(d, root.shape[d]) for d in lead]
    return product(group, lower, out, a, list(a.strides[:-1]) + [0], a.strides[-1], m_dims, z_dims, (rank - 1, root.shape[-1]),
                   k, b)


def pointwise_conv(group, lower, out):
    """A convolution of one by one without padding."""
    root = group.root
    x = lower.store(root.inputs[0])
    sn, sc, sh, sw = x.strides
    stride = root.attrs["strides"]
    n, _, oh, ow = root.shape
    return product(group, lower, out, x, [sn, 0, sh * stride[0], sw * stride[1]], sc, [(0, n), (2, oh), (3, ow)], [], (1, root.shape[1]),
                   root.inputs[0].shape[1], root.inputs[1])


def product(group, lower, out, a, a_strides, a_k, m_dims, z_dims, n_dim, k, b):
    m = z = 1
    for _, d in m_dims:
        m *= d
    for _, d in z_dims:
        z *= d
    n = n_dim[1]
    tile = choose(m, n, k, z, lower.plain)
    c = Code("gemm")
    pa = c.pointer(a)
    name_m, name_n, name_k = c.number(m), c.number(n), c.number(k)
    header(c, name_m, name_n, tile, lower.plain)
    axes = [Axis("rm", m_dims, "[:, None]", "mm"), Axis("rn", [n_dim], "[None, :]", "mn")]
    a_axes = [Axis("am", m_dims, "[:, None]")]
    if z > 1:
        c.line("z = tl.program_id(1)")
        axes.append(Axis("z", z_dims, ""))
        a_axes.append(Axis("z", z_dims, ""))
    where, _ = c.address(a_axes, a_strides, True)
    c.line(f"a_base = {pa} + ({where})")
    even = k % tile.k == 0
    stride_k = "" if a_k == 1 else f" * {c.number(a_k)}"
    if b.op == "const" and len(b.shape) in (2, 4) and not z_dims:
        store = lower.packed(b, tile.k, tile.n)
        pb, ld = c.pointer(store), c.number(store.strides[0])
        c.line(f"b_base = {pb} + rk[:, None] * {ld} + rn[None, :]")
        b_step, b_mask = f" + k * {ld}", ""
    else:
        store = lower.half(b)
        b_axes = [Axis("tl.minimum(rn, %s - 1)" % name_n, [n_dim], "[None, :]")] + ([Axis("z", z_dims, "")] if z > 1 else [])
        strides = list(store.strides[:-2]) + [0, store.strides[-1]]
        where, _ = c.address(b_axes, strides, True)
        sk = store.strides[-2]
        sk_text = "" if sk == 1 else f" * {c.number(sk)}"
        c.line(f"b_base = {c.pointer(store)} + (rk[:, None]{sk_text} + {where})")
        b_step, b_mask = f" + k{sk_text}", "" if even else f", mask=(k + rk < {name_k})[:, None], other=0.0"
    c.line(f"for k in range(0, {name_k}, {tile.k}):")
    a_mask = "" if even else f", mask=(k + rk < {name_k})[None, :], other=0.0"
    c.line(f"a = tl.load(a_base + (k + rk)[None, :]{stride_k}{a_mask})", 2)
    c.line(f"b = tl.load(b_base{b_step}{b_mask})", 2)
    step(c, "a", "b")
    result = c.tail(group, "acc", axes, lower.store)
    c.save(out, group.result.shape, axes, result)
    grid = (cdiv(m, tile.m) * cdiv(n, tile.n), z, 1)
    return Launch(c, grid, tile.warps, tile.stages, 2 * m * n * k * z, 2 * z * (m * k + n * k + m * n), "gemm")


def conv(group, lower, out):
    """Any other convolution."""
    root = group.root
    x, w, at = lower.store(root.inputs[0]), root.inputs[1], root.attrs
    groups, (cout, cin, kh, kw) = at["groups"], w.shape
    if cout % groups:
        raise Unsupported("groups that do not divide the channels")
    n, _, oh, ow = root.shape
    m, per = n * oh * ow, cout // groups
    few = cin < 16
    tile = choose(m, per, kh * kw * cin, groups, lower.plain) if few else choose(m, per, cin, groups, lower.plain, kh * kw)
    c = Code("conv")
    px = c.pointer(x)
    name_m, name_n = c.number(m), c.number(per)
    header(c, name_m, name_n, tile, lower.plain)
    channel = "rn"
    if groups > 1:
        c.line("g = tl.program_id(1)")
        c.line(f"cn = g * {name_n} + rn")
        channel = "cn"
    name_oh, name_ow, name_h, name_w = (c.number(v) for v in (oh, ow, x.shape[2], x.shape[3]))
    sn, sc, sh, sw = (c.number(s) for s in x.strides)
    c.line(f"ih0 = am // {name_ow} % {name_oh} * {at['strides'][0]} - {at['pads'][0]}")
    c.line(f"iw0 = am % {name_ow} * {at['strides'][1]} - {at['pads'][1]}")
    c.line(f"a_base = {px} + (am // ({name_ow} * {name_oh}) * {sn} + ih0 * {sh} + iw0 * {sw})[:, None]"
           + (f" + g * {cin} * {sc}" if groups > 1 else ""))
    store = lower.packed_conv(w, groups, tile.k, tile.n, few)
    ld = c.number(store.strides[1])
    c.line(f"b_base = {c.pointer(store)} + rk[:, None] * {ld} + rn[None, :]" + \
           (f" + g * {c.number(store.strides[0])}" if groups > 1 else ""))
    dh, dw = at["dilations"]
    if few:
        total = kh * kw * cin
        c.line(f"for t in range(0, {cdiv(total, tile.k)}):")
        c.line(f"kk = t * {tile.k} + rk", 2)
        c.line(f"tap = kk // {cin}", 2)
        c.line(f"ih = ih0[:, None] + (tap // {kw} * {dh})[None, :]", 2)
        c.line(f"iw = iw0[:, None] + (tap % {kw} * {dw})[None, :]", 2)
        c.line(f"inside = (ih >= 0) & (ih < {name_h}) & (iw >= 0) & (iw < {name_w}) & (kk < {total})[None, :]", 2)
        c.line(f"a = tl.load(a_base + (tap // {kw} * {dh} * {sh} + tap % {kw} * {dw} * {sw} + kk % {cin} * {sc})[None, :], "
               "mask=inside, other=0.0)", 2)
    else:
        chunks = cdiv(cin, tile.k)
        c.line(f"for t in range(0, {kh * kw * chunks}):")
        c.line(f"tap = t // {chunks}", 2)
        c.line(f"kc = t % {chunks} * {tile.k} + rk", 2)
        c.line(f"dy = tap // {kw} * {dh}", 2)
        c.line(f"dx = tap % {kw} * {dw}", 2)
        c.line(f"inside = (ih0 + dy >= 0) & (ih0 + dy < {name_h}) & (iw0 + dx >= 0) & (iw0 + dx < {name_w})", 2)
        mask = "inside[:, None]" + (f" & (kc < {cin})[None, :]" if cin % tile.k else "")
        c.line(f"a = tl.load(a_base + (dy * {sh} + dx * {sw}) + kc[None, :] * {sc}, mask={mask}, other=0.0)", 2)
    c.line(f"b = tl.load(b_base + t * {tile.k} * {ld})", 2)
    step(c, "a", "b")
    axes = [Axis("rm", [(0, n), (2, oh), (3, ow)], "[:, None]", "mm"), Axis(channel, [(1, cout)], "[None, :]", "mn")]
    result = c.tail(group, "acc", axes, lower.store)
    c.save(out, group.result.shape, axes, result)
    grid = (cdiv(m, tile.m) * cdiv(per, tile.n), groups, 1)
    k = kh * kw * cin
    return Launch(c, grid, tile.warps, tile.stages, 2 * m * cout * k, 2 * (root.inputs[0].size + w.size + m * cout), "conv")
