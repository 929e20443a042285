# SPDX-License-Identifier: Apache-2.0
"""Strides: dense ones in a given order of dimensions, and whether a reshape needs no copy."""
from .code import merge


def dense(shape, order=None):
    """Strides of a tensor without gaps whose dimensions lie in `order`, outermost first (default: row-major)."""
    strides, step = [0] * len(shape), 1
    for dim in reversed(order if order is not None else range(len(shape))):
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def channels_last(shape):
    return dense(shape, (0, 2, 3, 1)) if len(shape) == 4 else dense(shape)


def like(shape, strides):
    """Dense strides with the dimensions in the same order as the given strides; dimensions of size 1 stay where
    row-major has them."""
    order = sorted(range(len(shape)), key=lambda d: (-strides[d] if shape[d] > 1 else -(1 << 62), d))
    return dense(shape, order)


def is_dense(shape, strides):
    return all(size == 1 or a == b for size, a, b in zip(shape, strides, dense(shape)))


def view(shape, strides, new):
    """Strides that give the same elements the shape `new` without a copy; None if there are none."""
    old = merge(list(zip(shape, strides)))
    result, at = [], len(old) - 1
    left, step = old[at] if old else (1, 1)
    for size in reversed(new):
        if size == 1:
            result.append(0)
            continue
        while left == 1:
            at -= 1
            left, step = old[at]
        if left % size:
            return None
        result.append(step)
        left, step = left // size, step * size
    return tuple(reversed(result))
