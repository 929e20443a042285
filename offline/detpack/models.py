# SPDX-License-Identifier: Apache-2.0
"""The named models: the eleven of the SGDRC paper and small ones; and a user's ONNX file.

The eleven need PyTorch, torchvision, timm and transformers; nothing is downloaded: the libraries
initialise weights at random from a seed. Untrained networks with batch normalisation lose their scale within some layers, so they get
the statistics of one seeded batch. Parameters are rounded to f16 for the framework too. The paper states no batch sizes:
latency-sensitive models use 1, best-effort ones 32, beyond which throughput on large GPUs hardly grows.
"""
import contextlib
import dataclasses
import io
import os
import pathlib
import tempfile
import warnings

from .graph import Unsupported

SEQUENCE = 128


@dataclasses.dataclass
class Named:
    kind: str
    batch: int
    make: object  # () -> module
    side: int  # width and height of the input image; 0: a language model
    text: str


@dataclasses.dataclass
class Loaded:
    name: str
    model: object  # onnx.ModelProto
    batch: int
    kind: str = "ls"
    reference: object = None
    vocabulary: int = 1000


def vision(name):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(weights=None)
    return make


def deep_residual(name):
    """A deep network whose blocks add a quarter of what they compute. With whole ones a difference grows in each of resnet152's 50
    untrained blocks: PyTorch's own rounding to f16 then moves the outputs as much as another image does."""
    def make():
        import torch
        import torchvision
        model = vision(name)()
        for module in model.modules():
            if isinstance(module, torchvision.models.resnet.Bottleneck):
                torch.nn.init.constant_(module.bn3.weight, 0.25)
        return model
    return make


def from_timm(name):
    def make():
        import timm
        return timm.create_model(name, pretrained=False)
    return make


def language(kind):
    def make(attention="eager"):  # eager attention: single operators, which the exporter knows
        import transformers
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        config = getattr(transformers, f"{kind}Config")(attn_implementation=attention)
        return getattr(transformers, f"{kind}Model")(config)
    return make


MODELS = {
    "mobilenet_v3": Named("ls", 1, vision("mobilenet_v3_large"), 224, "torchvision, large"),
    "squeezenet": Named("ls", 1, vision("squeezenet1_1"), 224, "torchvision, 1.1"),
    "shufflenet": Named("ls", 1, vision("shufflenet_v2_x1_0"), 224, "torchvision, v2 x1.0"),
    "efficientnet": Named("ls", 1, vision("efficientnet_b0"), 224, "torchvision, b0"),
    "resnet34": Named("ls", 1, vision("resnet34"), 224, "torchvision"),
    "mobilebert": Named("ls", 1, language("MobileBert"), 0, f"transformers, {SEQUENCE} tokens"),
    "mobilevit": Named("ls", 1, from_timm("mobilevit_s"), 256, "timm, s"),
    "efficientformer": Named("ls", 1, from_timm("efficientformer_l1"), 224, "timm, l1"),
    "resnet152": Named("be", 32, deep_residual("resnet152"), 224, "torchvision"),
    "densenet161": Named("be", 32, vision("densenet161"), 224, "torchvision"),
    "bert": Named("be", 32, language("Bert"), 0, f"transformers, base, {SEQUENCE} tokens"),
}


def small_names():
    try:
        from . import small
        return list(small.MODELS)
    except ImportError:
        return []


def settle(model, shape, torch):
    """Sets the running statistics of batch normalisation to those of one seeded batch."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.train()
        norm.momentum = None
        norm.reset_running_stats()
    if norms:
        with torch.no_grad():
            model(torch.randn(8, *shape[1:]))
    model.eval()


def without_classes(model):
    """A language model whose output is its last hidden state alone."""
    import torch

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, input_ids, attention_mask):
            types = torch.zeros_like(input_ids)
            return self.inner(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=types).last_hidden_state
    return Plain()


def build(name, batch, seed, **options):
    """The module, example inputs and the inputs' names."""
    import torch
    entry = MODELS[name]
    torch.manual_seed(seed)
    model = entry.make(**options).float().eval()
    if entry.side:
        shape = (batch, 3, entry.side, entry.side)
        settle(model, shape, torch)
        args, names = (torch.randn(shape),), ["image"]
    else:
        model = without_classes(model).eval()
        args = (torch.randint(0, 1000, (batch, SEQUENCE)), torch.ones(batch, SEQUENCE, dtype=torch.long))
        names = ["input_ids", "attention_mask"]
    for tensor in list(model.parameters()) + [b for b in model.buffers() if b.is_floating_point()]:
        tensor.data = tensor.data.half().float()
    return model, args, names


def export(model, args, names):
    """The module as ONNX, through torch's exporter."""
    import onnx
    import torch
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        path = os.path.join(folder, "model.onnx")
        torch.onnx.export(model, args, path, input_names=names, opset_version=17, dynamo=False)
        return onnx.load(path)


def load(word, batch, seed, log):
    """Loads the model that the argument MODEL names."""
    import onnx
    if word in MODELS:
        return load_named(word, batch or MODELS[word].batch, seed, log)
    if word in small_names():
        from . import small
        return Loaded(word, small.load(word, batch or 1), batch or 1)
    path = pathlib.Path(word)
    if ".py:" in word:
        return load_python(*word.rsplit(":", 1))
    if not path.is_file():
        raise Unsupported(f"{word}: neither a file nor a name that --list prints")
    model = onnx.load(str(path))
    onnx.checker.check_model(model)
    return Loaded(path.stem, model, batch or 1)


def load_python(path, function):
    """A user's PyTorch model: FILE.py:FUNCTION, which returns a module and a tuple of example inputs."""
    import inspect
    import runpy
    module, args = runpy.run_path(path)[function]()
    module = module.float().eval()
    names = list(inspect.signature(module.forward).parameters)[:len(args)]
    proto = export(module, args, names)
    return Loaded(function, proto, int(args[0].shape[0]), "ls", torch_reference(module))


def torch_reference(model):
    """The module's outputs for the input arrays, computed in f32 on the CPU."""
    import torch

    def reference(arrays):
        with torch.no_grad():
            given = [torch.from_numpy(a.astype("float32") if a.dtype.kind == "f" else a) for a in arrays]
            result = model(*given)
        return [r.float().numpy() for r in (result if isinstance(result, (tuple, list)) else (result,))], f"torch-{torch.__version__}"
    return reference


def load_named(word, batch, seed, log):
    import torch
    log(f"{word}: making the model, torch {torch.__version__}")
    model, args, names = build(word, batch, seed)
    return Loaded(word, export(model, args, names), batch, MODELS[word].kind, torch_reference(model))
