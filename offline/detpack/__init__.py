# SPDX-License-Identifier: Apache-2.0
"""The pack compiler: from a model's graph to PTX kernels, a launch list, a plan of memory and weights (docs/offline.md).

The way of a model, one module per step: models.py or small.py make an ONNX graph (or the user has one); importer.py reads it into the
values of graph.py, with every shape known and every constant computed; patterns.py finds operators that are spelled out, combine.py
joins products of the same value; fuse.py says which values one kernel computes; lower.py lays tensors out and calls the generators of
kernels (gemm.py, attention.py, window.py, rows.py), whose Triton source build.py compiles to PTX; plan.py places buffers in the arena;
pack.py writes the folder. reader.py checks a pack and runner.py runs one, without any of these.
"""
