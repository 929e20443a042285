#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Makes a small model pack for the tests of detshare-serve from tiny.cu's PTX: a dense layer of 64 inputs and 96 outputs. This
program computes the expected outputs in double precision; weights and inputs come from a fixed seed.

usage: make_pack.py TINY.ptx FOLDER [--class ls|be] [--wrong] [--hints]

--wrong: one element of the expected outputs is wrong. --hints: adds the costs of kernels for a simulated device that only times them:
`dense` has one block per SM of an H200 and reads memory that L2 holds, `leaky` computes.
"""
import argparse
import hashlib
import os
import random
import struct

N_IN, N_OUT, CASES, SLOPE = 64, 96, 2, 0.125
X, HIDDEN, Y, Z, ARENA = 0, 256, 768, 1280, 1536


def floats(values):
    return struct.pack(f'<{len(values)}f', *values)


def as_floats(values):
    """The value rounded to a float."""
    return list(struct.unpack(f'<{len(values)}f', floats(values)))


def as_halves(values):
    return list(struct.unpack(f'<{len(values)}e', struct.pack(f'<{len(values)}e', *values)))


HINTS = b'''// detshare-sim: dense block_ns=5400 bytes=393216 reuse=25952256
// detshare-sim: leaky block_ns=5400 issue_ns=5400
'''


def expected(weights, bias, x):
    y = [sum(w * v for w, v in zip(weights[i * N_IN:(i + 1) * N_IN], x)) + bias[i] for i in range(N_OUT)]
    return [v if v > 0 else SLOPE * v for v in y]


def make_files(ptx, wrong, hints):
    rng = random.Random(20251122)
    weights = as_floats([rng.uniform(-1, 1) for _ in range(N_OUT * N_IN)])
    bias = as_floats([rng.uniform(-1, 1) for _ in range(N_OUT)])
    with open(ptx, 'rb') as f:
        files = {'kernels.ptx': (HINTS if hints else b'') + f.read()}
    files['weights.bin'] = floats(weights) + floats(bias)
    for case in range(CASES):
        x = as_floats([rng.uniform(-1, 1) for _ in range(N_IN)])
        y = expected(weights, bias, x)
        if wrong and case == CASES - 1:
            y[5] += 1
        files[f'case{case}.in0.bin'] = floats(x)
        files[f'case{case}.out0.bin'] = floats(y)
        files[f'case{case}.out1.bin'] = floats(as_halves(y))
    return files


def manifest(files, class_, hints):
    blocks = (N_OUT + 31) // 32
    dense_blocks = 132 if hints else blocks
    lines = ['detshare-pack 1', '# made by tests/serve/make_pack.py', 'model tiny', f'class {class_}', 'batch 1', 'arch sm_75', 'framework python',
             'compiler nvcc', 'x-note what begins with x- says nothing']
    lines += [f'file {name} {len(data)} {hashlib.sha256(data).hexdigest()}' for name, data in files.items()]
    lines += ['module kernels.ptx', 'weights weights.bin', f'arena {ARENA}', f'input x f32 1,{N_IN} {X} {4 * N_IN}',
              f'output y f32 1,{N_OUT} {Y} {4 * N_OUT}', f'output z f16 {N_OUT} {Z} {2 * N_OUT}',
              'kernel dense 32 0 6', 'kernel leaky 32 128 4', 'kernel to_half 32 0 4',
              f'launch 0 {dense_blocks} 1 1 a+{X} w+0 w+{4 * N_IN * N_OUT} a+{HIDDEN} i32={N_IN} i32={N_OUT}',
              f'launch 1 {blocks} 1 1 a+{HIDDEN} a+{Y} f32={struct.pack(">f", SLOPE).hex()} i64={N_OUT}',
              f'launch 2 {blocks} 1 1 a+{Y} a+{Z} null i32={N_OUT}',
              f'cost 0 {2 * N_IN * N_OUT} {4 * (N_IN * N_OUT + N_IN + 2 * N_OUT)}',
              f'buffer {X} {4 * N_IN} 0 0', f'buffer {HIDDEN} {4 * N_OUT} 0 1', f'buffer {Y} {4 * N_OUT} 1 2', f'buffer {Z} {2 * N_OUT} 2 2']
    for case in range(CASES):
        lines += [f'case {case} input 0 case{case}.in0.bin', f'case {case} output 0 case{case}.out0.bin 0.0001 0.0001',
                  f'case {case} output 1 case{case}.out1.bin 0.001 0.002']
    return '\n'.join(lines + ['end', ''])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('ptx')
    parser.add_argument('folder')
    parser.add_argument('--class', dest='class_', default='ls')
    parser.add_argument('--wrong', action='store_true')
    parser.add_argument('--hints', action='store_true')
    args = parser.parse_args()
    files = make_files(args.ptx, args.wrong, args.hints)
    os.makedirs(args.folder, exist_ok=True)
    for name, data in files.items():
        with open(os.path.join(args.folder, name), 'wb') as f:
            f.write(data)
    with open(os.path.join(args.folder, 'pack.txt'), 'w', encoding='ascii') as f:
        f.write(manifest(files, args.class_, args.hints))


if __name__ == '__main__':
    main()
