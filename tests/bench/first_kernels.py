#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PTX of the kernels of first_times.py. Equal arguments give equal text.

Every kernel k1, k2, ... has constants of its own, and the parameters (u64 buffer, u32 n): threads below n change one
float each. A launch with n = 0 accesses no memory.

usage: first_kernels.py KERNELS        writes PTX of this many kernels
"""
import struct
import sys

HEAD = ".version 6.4\n.target sm_75\n.address_size 64\n"
BEGIN = """.visible .entry k{i}(.param .u64 buffer, .param .u32 n)
{{
.reg .pred %p1;
.reg .b32 %r<3>;
.reg .f32 %f1;
.reg .b64 %d<3>;
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
setp.ge.u32 %p1, %r2, %r1;
@%p1 bra END;
ld.param.u64 %d1, [buffer];
cvta.to.global.u64 %d1, %d1;
mul.wide.u32 %d2, %r2, 4;
add.s64 %d1, %d1, %d2;
ld.global.f32 %f1, [%d1];
"""
STEP = "fma.rn.f32 %f1, %f1, 0f{a:08X}, 0f3F000000;\n"
END = "st.global.f32 [%d1], %f1;\nEND:\nret;\n}\n"
STEPS = 32  # arithmetic instructions of a kernel in a text of a given size


def constant(i, step):
    """Bits of a float between 0.5 and 1.5, different for each kernel."""
    return struct.unpack("<I", struct.pack("<f", 0.5 + i / 65536 + step / 1024))[0]


def kernel(i, steps):
    return BEGIN.format(i=i) + "".join(STEP.format(a=constant(i, step)) for step in range(steps)) + END


def kernels(count, steps=1):
    return HEAD + "".join(kernel(i, steps) for i in range(1, count + 1))


def sized(size):
    """Text of exactly `size` bytes, at least 512: full kernels, then a smaller one and a comment."""
    parts, length = [HEAD], len(HEAD)
    while length + len(kernel(len(parts), STEPS)) <= size:
        parts.append(kernel(len(parts), STEPS))
        length += len(parts[-1])
    steps = (size - length - len(kernel(len(parts), 0))) // len(STEP.format(a=0))
    if steps >= 0:
        parts.append(kernel(len(parts), steps))
        length += len(parts[-1])
    left = size - length
    return "".join(parts) + ("//" + "-" * (left - 3) + "\n" if left >= 3 else "\n" * left)


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip().splitlines()[-1], file=sys.stderr)
        return 2
    sys.stdout.write(kernels(int(sys.argv[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
