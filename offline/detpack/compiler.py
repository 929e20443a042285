# SPDX-License-Identifier: Apache-2.0
"""Compile a model into a pack: the steps in order, and the expected outputs.

Expected outputs come from the model's own framework in f32 on the CPU: PyTorch for the models of models.py, ONNX Runtime for ONNX files
(where it is not installed, onnx's reference evaluator). Inputs are rounded to f16 first, so that both
start from the same values. The pack's results may differ by the f16 rounding between kernels.
"""
import os

import numpy as np
import onnx

from . import build, importer, pack, plan
from .combine import combine
from .graph import Unsupported
from .lower import Lower
from .patterns import recognise

PEAK = 0.02  # largest tolerance, share of the output's largest value
CHANGE = 0.5  # largest tolerance, share of the output's change with another input (root mean square)
ROUNDING = 0.002  # relative tolerance of each value: four steps of f16
GRID_LIMIT = (2**31 - 1, 65535, 65535)


def seeded_inputs(values, seed, vocabulary):
    """Example inputs from a seed: standard normal floats; whole numbers below `vocabulary`; ones for masks."""
    random = np.random.default_rng(seed)
    result = []
    for value in values:
        if value.dtype == "f16":
            result.append(random.standard_normal(value.shape).astype(np.float16))
        elif "mask" in value.name:
            result.append(np.ones(value.shape, np.int64))
        elif "type" in value.name:
            result.append(np.zeros(value.shape, np.int64))
        else:
            result.append(random.integers(0, vocabulary, value.shape).astype(np.int64))
    return result


def onnx_reference(model, feeds):
    """The outputs of ONNX Runtime, or of the reference evaluator; and its name."""
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator
        return ReferenceEvaluator(model).run(None, feeds), f"onnx-{onnx.__version__}"
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds), f"onnxruntime-{onnxruntime.__version__}"


def typed(model, values, arrays):
    """Converts the inputs to the types that the model declares."""
    kinds = {i.name: onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in model.graph.input}
    return {v.name: a.astype(kinds[v.name]) for v, a in zip(values, arrays)}


def tolerance(wanted, other):
    """(abs, rel): small compared with the output's largest value and with the effect of another input; otherwise a wrong kernel could pass."""
    if not all(np.isfinite(w).all() and np.abs(w).max(initial=0) < 60000 for w in (wanted, other)):
        raise Unsupported("the framework's own output is not finite in f16")
    change = float(np.sqrt(np.mean(np.square(wanted - other)))) if wanted.size else 0.0
    most = PEAK * float(np.abs(wanted).max(initial=0))
    return max(min(most, CHANGE * change) if change else most, 1e-6), ROUNDING


def make(model, path, name, batch, arch, kind="ls", seed=1, reference=None, shapes=None, vocabulary=1000, jobs=None, log=print):
    """Compile `model` (an onnx.ModelProto) into the folder `path`. `reference`: arrays -> (outputs, the framework's name)."""
    inputs, outputs = importer.load(model, batch, shapes)
    recognise([v for _, v in outputs])
    combine([v for _, v in outputs])
    low = Lower(inputs, outputs, plain=arch < 80)
    ins, outs = low.run()
    for launch in low.launches:
        if any(g > most for g, most in zip(launch.grid, GRID_LIMIT)):
            raise Unsupported(f"a grid of {launch.grid}")
    arena = plan.place(low.buffers)
    total = sum(plan.up(b.bytes) for b in low.buffers)
    log(f"arena {arena / 2**20:.1f} MiB, at one time {plan.peak(low.buffers) / 2**20:.1f}, without reuse {total / 2**20:.1f}")
    kernels = build.compile_all(low.launches, arch, jobs or os.cpu_count(), log)
    ptx = build.merge(list(kernels.values()), arch)
    reference = reference or (lambda arrays: onnx_reference(model, typed(model, inputs, arrays)))
    arrays = [seeded_inputs(inputs, seed + i, vocabulary) for i in range(2)]
    wanted, framework = zip(*[reference(given) for given in arrays])
    for store, array in zip(outs, wanted[0]):
        if store.shape != array.shape and store.shape != (array.shape or (1,)):
            raise Unsupported(f"the framework's output is {array.shape}, ours {store.shape}")
    for (given, _), store in zip(outputs, outs):
        store.root.name = given
    about = {"model": pack.clean(name), "class": kind, "batch": batch or 1, "arch": f"sm_{arch}",
             "framework": pack.clean(framework[0].split("+")[0]), "compiler": pack.clean(build.version())}
    bounds = [[tolerance(w, o) for w, o in zip(wanted[i], wanted[1 - i])] for i in range(2)]
    pack.write(path, about, ins, outs, low, arena, kernels, ptx, list(zip(arrays, wanted, bounds)))
    log(f"{path}: {sum(w.data.nbytes for w in low.weights) / 2**20:.1f} MiB of weights")
    return low
