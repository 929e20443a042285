# SPDX-License-Identifier: Apache-2.0
"""Element by element, rows, reductions."""
import triton
import triton.language as tl

from corpus import ALL, corpus


@corpus(ALL, "*fp32 *fp32 *fp32 i32", BLOCK=256)
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)
