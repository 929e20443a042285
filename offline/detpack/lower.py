# SPDX-License-Identifier: Apache-2.0
"""From groups of values to launches: the place of each tensor, and the kernel that computes it.

Feature maps lie channels-last, independent of the model's shapes. Other tensors lie row-major, unless another layout suits their reader.
Permutations, slices and most reshapes are other strides of the same bytes. The parts of a concatenation are written directly to their
places in it; concatenations with the same beginning (those of a dense block) share one buffer. Constants become weights: f16 for
matrices, f32 for operands of elementwise operations.
"""
import numpy as np

from . import attention, gemm, rows, window
from .code import BYTES, Store
from .fuse import fuse
from .graph import Unsupported, topological, users_of
from .layout import channels_last, dense, is_dense, like, view
from .plan import Buffer

MATRIX = 65536  # number of elements from which on a constant is stored in f16


class Weight:
    def __init__(self, data):
        self.data, self.offset = np.ascontiguousarray(data), -1


def halved(data):
    if data.size and np.abs(data.astype(np.float64)).max() > 65504:
        raise Unsupported("a weight beyond the range of f16")
    return data.astype(np.float16)


class Lower:
    def __init__(self, inputs, outputs, plain=False):
        self.plain = plain  # true for a GPU before sm_80: no asynchronous copies, little shared memory
        self.inputs, self.outputs = inputs, outputs
        values = [v for _, v in outputs]
        self.order = topological(values)
        self.users = users_of(self.order)
        self.output_numbers = {v.number for v in values}
        self.groups = {g.result.number: g for g in fuse(self.order, values)}
        self.stores, self.weights, self.packs, self.launches, self.buffers = {}, [], {}, [], []
        self.destined, self.filled = {}, set()
        self.attention = {}  # number of the last product's result -> the scores' group
        self.within = set()  # results that are computed inside of an attention
        self.find_attention()
        self.place_concats()

    def shared(self, value):
        """Whether more than one value reads this value, or it is an output of the model."""
        return len(self.users[value.number]) != 1 or value.number in self.output_numbers

    def find_attention(self):
        for group in self.groups.values():
            found = attention.parts(group, self)
            if found and not self.plain:
                self.attention[group.result.number] = found[0]
                self.within |= {g.result.number for g in found}

    # memory

    def buffer(self, shape, dtype, strides, name=""):
        count = 1 + sum((d - 1) * s for d, s in zip(shape, strides))
        root = Buffer(count * BYTES[dtype], name=name)
        self.buffers.append(root)
        return Store(root, 0, tuple(shape), tuple(strides), dtype)

    def weight(self, key, make, dtype):
        """The weight with a constant's bytes, stored once per key."""
        if key not in self.packs:
            data = make()
            root = Weight(data)
            self.weights.append(root)
            self.packs[key] = Store(root, 0, data.shape, dense(data.shape), dtype)
        return self.packs[key]

    def constant(self, value, half=False):
        data = value.data
        if data.dtype.kind == "f":
            half = half or data.size >= MATRIX
            make = (lambda: halved(data)) if half else (lambda: data.astype(np.float32))
            return self.weight((value.number, half), make, "f16" if half else "f32")
        return self.weight((value.number, "i"), lambda: data.astype(np.int64), "i64")

    def half(self, value):
        """The place of one operand of a product: in f16, also if the operand is constant."""
        if value.op == "const":
            return self.constant(value, True)
        if value.op == "expand" and value.inputs[0].op == "const":
            return self.view(value, self.constant(value.inputs[0], True))
        return self.store(value)

    def packed(self, value, tile_k, tile_n):
        """A matrix [K, N] (of a convolution: [N, K, 1, 1]), padded with zeros to whole tiles."""
        def make():
            data = value.data if len(value.shape) == 2 else value.data.reshape(value.shape[0], value.shape[1]).T
            k, n = data.shape
            return halved(np.pad(data, ((0, -k % tile_k), (0, -n % tile_n))))
        return self.weight((value.number, tile_k, tile_n), make, "f16")

    def packed_conv(self, value, groups, tile_k, tile_n, few):
        """[groups, taps * channels, outputs]; channels of each tap padded to whole tiles, or, if few, only the whole."""
        def make():
            out, cin, kh, kw = value.shape
            data = value.data.reshape(groups, out // groups, cin, kh * kw).transpose(0, 3, 2, 1)
            if not few:
                data = np.pad(data, ((0, 0), (0, 0), (0, -cin % tile_k), (0, 0)))
            data = data.reshape(groups, -1, out // groups)
            return halved(np.pad(data, ((0, 0), (0, -data.shape[1] % tile_k), (0, -data.shape[2] % tile_n))))
        return self.weight((value.number, tile_k, tile_n, few), make, "f16")

    def packed_depthwise(self, value):
        return self.weight((value.number, "dw"), lambda: halved(value.data.reshape(value.shape[0], -1).T), "f16")

    # places of values

    def store(self, value):
        if value.op == "const":
            return self.constant(value)
        if value.number not in self.stores:
            self.stores[value.number] = self.view(value)
        return self.stores[value.number]

    def view(self, value, source=None):
        source = source or self.store(value.inputs[0])
        shape, strides, offset = value.shape, source.strides, source.offset
        if value.op == "permute":
            strides = [strides[p] for p in value.attrs["perm"]]
        elif value.op == "slice":
            offset += sum(a * s for a, s in zip(value.attrs["starts"], strides))
            strides = [a * s for a, s in zip(value.attrs["steps"], strides)]
        elif value.op == "expand":
            strides = [0 if a != b else s for a, b, s in zip(source.shape, shape, strides)]
        elif value.op == "reshape":
            return self.reshaped(source, shape)
        else:
            raise AssertionError(f"{value} was not computed")
        return Store(source.root, offset, shape, tuple(strides), source.dtype)

    def reshaped(self, source, shape):
        strides = view(source.shape, source.strides, shape)
        if strides is not None:
            return Store(source.root, source.offset, shape, strides, source.dtype)
        # the copy lies channels-last if its source mostly does, and if the copy can be written in that order
        target = channels_last(shape)
        inside = view(shape, target, source.shape)
        if len(shape) != 4 or source.strides[-1] == 1 or inside is None:
            target, inside = dense(shape), dense(source.shape)
        out = self.buffer(shape, source.dtype, target, "reshape")
        self.emit(window.elementwise(None, self, Store(out.root, 0, source.shape, inside, out.dtype), [source]))
        return out

    def strides_for(self, group):
        value, root = group.result, group.root
        if value.number in self.output_numbers:
            return dense(value.shape)
        if root.op in ("conv", "window", "reduce"):
            return channels_last(value.shape)
        if root.op == "matmul" and self.permuted(value):
            return dense(value.shape, self.permuted(value))
        if root.op == "pw":
            stores = [self.store(s) for v in group.members for s in v.inputs
                      if s.op != "const" and s.shape == value.shape and s not in group.members]
            dtype_stores = [s for s in stores if 0 not in [t for d, t in zip(s.shape, s.strides) if d > 1]]
            return like(value.shape, dtype_stores[0].strides) if dtype_stores else channels_last(value.shape)
        return dense(value.shape)

    def permuted(self, value):
        """The order of dimensions in which a product is stored, if its only reader permutes and then reshapes it."""
        users = self.users[value.number]
        if len(users) != 1 or users[0].op != "permute":
            return None
        readers = self.users[users[0].number]
        return users[0].attrs["perm"] if readers and all(r.op == "reshape" for r in readers) else None

    # concatenations

    def place_concats(self):
        """Finds the buffer of each part of a concatenation, and of each shorter concatenation inside of it."""
        concats = [v for v in self.order if v.op == "concat"]
        by_first = {}
        for value in concats:
            by_first.setdefault((value.inputs[0].number, value.attrs["axis"]), []).append(value)
        for value in sorted(concats, key=lambda v: -len(v.inputs)):
            count = len(value.inputs)
            longer = [c for c in by_first[value.inputs[0].number, value.attrs["axis"]]
                      if len(c.inputs) > count and c.inputs[:count] == value.inputs and c.number not in self.destined]
            if longer and value.number not in self.output_numbers:
                self.destined[value.number] = (max(longer, key=lambda c: len(c.inputs)), 0)
        for value in concats:
            if value.number in self.destined:
                continue
            begin = 0
            for part in value.inputs:
                direct = part.number in self.groups or part.op == "concat"
                if direct and part.number not in self.destined and part.number not in self.output_numbers:
                    self.destined[part.number] = (value, begin)
                begin += part.shape[value.attrs["axis"]]

    def concat_store(self, value):
        if value.number not in self.stores:
            place = self.destined.get(value.number)
            if place:
                self.stores[value.number] = self.part_of(*place, value.shape)
            else:
                plain = value.number in self.output_numbers
                strides = dense(value.shape) if plain else channels_last(value.shape)
                self.stores[value.number] = self.buffer(value.shape, value.dtype, strides, value.name)
        return self.stores[value.number]

    def part_of(self, concat, begin, shape):
        whole = self.concat_store(concat)
        return Store(whole.root, whole.offset + begin * whole.strides[concat.attrs["axis"]], shape, whole.strides, whole.dtype)

    def fill(self, value):
        """Copies the parts of a concatenation that their kernels did not write in place."""
        whole, begin = self.concat_store(value), 0
        step = whole.strides[value.attrs["axis"]]
        for part in value.inputs:
            there, here = Store(whole.root, whole.offset + begin * step, part.shape, whole.strides, whole.dtype), self.store(part)
            begin += part.shape[value.attrs["axis"]]
            key = (id(there.root), there.offset, there.shape)
            if (here.root, here.offset, here.strides) != (there.root, there.offset, there.strides) and key not in self.filled:
                self.filled.add(key)
                self.emit(window.elementwise(None, self, there, [here]))

    # launches

    def emit(self, launch):
        self.launches.append(launch)

    def compute(self, group):
        value, root = group.result, group.root
        scores = self.attention.get(value.number)
        members = group.members + (scores.members if scores else [])
        for source in {s.number: s for v in members for s in v.inputs if s not in members}.values():
            if source.op != "const" and source.number not in self.within:
                self.store(source)
        if value.number in self.destined:
            out = self.part_of(*self.destined[value.number], value.shape)
        else:
            out = self.buffer(value.shape, value.dtype, self.strides_for(group), value.name)
        self.emit(attention.attention(scores, group, self, out) if scores else self.generator(root)(group, self, out))
        self.stores[value.number] = out

    def generator(self, root):
        if root.op == "conv":
            w, at = root.inputs[1], root.attrs
            if at["groups"] == root.inputs[0].shape[1] == w.shape[0]:
                return window.window
            plain = at["groups"] == 1 and w.shape[2:] == (1, 1) and not any(at["pads"])
            return gemm.pointwise_conv if plain else gemm.conv
        return {"matmul": gemm.matmul, "reduce": rows.reduce, "softmax": rows.normalise, "layernorm": rows.normalise,
                "window": window.window, "gather": rows.gather, "pw": window.elementwise}[root.op]

    def run(self):
        for value in self.inputs:
            self.stores[value.number] = self.buffer(value.shape, value.dtype, dense(value.shape), value.name)
        for value in self.order:
            if value.number in self.within:
                continue
            if value.number in self.groups:
                self.compute(self.groups[value.number])
            elif value.op == "concat":
                self.fill(value)
            elif value.op in ("permute", "slice", "expand", "reshape") and value.inputs[0].number in self.stores:
                self.store(value)
        ins = [self.stores[v.number] for v in self.inputs]
        return ins, self.finish(ins)

    def finish(self, ins):
        """Gives the outputs buffers of their own, and computes when each buffer is in use."""
        outs, taken = [], {id(s.root) for s in ins}
        for name, value in self.outputs:
            store = self.store(value)
            own = isinstance(store.root, Buffer) and id(store.root) not in taken and not store.offset
            if not own or not is_dense(store.shape, store.strides) or store.dtype not in ("f16", "f32") or \
                    store.root.bytes != value.size * BYTES[store.dtype]:
                out = self.buffer(value.shape, "f16", dense(value.shape), name)
                self.emit(window.elementwise(None, self, out, [store]))
                store = out
            taken.add(id(store.root))
            outs.append(store)
        for number, launch in enumerate(self.launches):
            for root in launch.code.reads + launch.code.writes:
                if isinstance(root, Buffer):
                    root.touch(number)
        for store in ins:
            store.root.first, store.root.last = 0, max(0, store.root.last)
        for store in outs:
            store.root.last = len(self.launches) - 1
        self.buffers = [b for b in self.buffers if b.last >= 0]
        return outs
