# SPDX-License-Identifier: Apache-2.0
"""The pack compiler: from a model's graph to PTX kernels, a launch list, a plan of memory and weights (docs/offline.md).

The steps, one module each:
  models.py, small.py   make an ONNX graph, if the user brings none
  importer.py           reads it into the values of graph.py; every shape is known, every constant computed
  patterns.py           replaces operators that a model spells out
  combine.py            joins products of the same value
  fuse.py               groups the values that one kernel computes
  lower.py              places tensors, and calls the generators of kernels: gemm.py, attention.py, window.py, rows.py
  build.py              compiles their Triton source to PTX
  plan.py               places buffers in the arena
  pack.py               writes the folder
reader.py checks a pack and runner.py runs one; both need none of the others.
"""
