# SPDX-License-Identifier: Apache-2.0
"""The command line of detshare-pack."""
import argparse
import importlib
import os
import pathlib
import sys
import time

NEEDS = {"numpy": "numpy", "onnx": "onnx", "triton": "triton"}


def parser():
    p = argparse.ArgumentParser(prog="detshare-pack", description="Compile a model into a pack for detshare-serve; no GPU is needed.")
    p.add_argument("model", nargs="?", metavar="MODEL",
                   help="an .onnx file, FILE.py:FUNCTION that returns a PyTorch module and a tuple of example inputs, "
                        "or a name that --list prints; with --check and --run a pack's folder")
    p.add_argument("-o", "--output", metavar="DIR", help="the pack's folder (default: MODEL's name)")
    p.add_argument("--batch", type=int, metavar="N", help="batch size (default: a named model's own; else 1)")
    p.add_argument("--arch", default="sm_80", metavar="sm_NN",
                   help="the oldest GPU it must run on (default: %(default)s; sm_75 or later)")
    p.add_argument("--class", dest="kind", choices=("ls", "be"),
                   help="what it is meant to be served as (default: a named model's own; else ls)")
    p.add_argument("--shape", action="append", default=[], metavar="INPUT=A,B,C",
                   help="the shape of an input whose dimensions are not fixed")
    p.add_argument("--seed", type=int, default=1, metavar="N", help="of weights and inputs (default: %(default)s)")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="kernels that are compiled at a time")
    p.add_argument("--list", action="store_true", help="the models that have names")
    p.add_argument("--check", action="store_true", help="check that the folder MODEL is a pack; compiles nothing")
    p.add_argument("--run", action="store_true", help="run the pack MODEL's cases on the driver that libcuda.so.1 is, and compare")
    p.add_argument("-q", "--quiet", action="store_true")
    return p


def list_models():
    from . import models
    for name, entry in models.MODELS.items():
        print(f"{name:20} {entry.kind}  batch {entry.batch:3}  {entry.text}")
    for name in models.small_names():
        print(f"{name:20} ls  batch   1  for tests")


def missing():
    """The packages that compiling needs and this Python lacks."""
    gone = []
    for module, package in NEEDS.items():
        try:
            importlib.import_module(module)
        except ImportError:
            gone.append(package)
    return gone


def say_missing(packages):
    print(f"detshare-pack: {sys.executable} lacks the Python packages {', '.join(packages)}. Make an environment that has them, and use its "
          f"Python:\n  python3 -m venv ENV && ENV/bin/python -m pip install {' '.join(packages)}\n  ENV/bin/python {sys.argv[0]} ...\n"
          f"{pathlib.Path(__file__).resolve().parent.parent / 'requirements.txt'} has the versions that are tested.", file=sys.stderr)


def shape_of(text):
    """Parses INPUT=A,B,C into a name and numbers."""
    name, _, dims = text.partition("=")
    if not name or not all(d.isdigit() and int(d) for d in dims.split(",")):
        raise ValueError(f"--shape {text}: not INPUT=A,B,C")
    return name, [int(d) for d in dims.split(",")]


def compile_model(args):
    from . import compiler, models
    arch = args.arch.removeprefix("sm_")
    if not arch.isdigit() or int(arch) < 75:
        print(f"detshare-pack: --arch {args.arch}: sm_75 or later", file=sys.stderr)
        return 2
    log = (lambda text: None) if args.quiet else (lambda text: print(f"{time.monotonic() - begin:6.1f} s  {text}", flush=True))
    begin = time.monotonic()
    shapes = dict(shape_of(text) for text in args.shape)
    loaded = models.load(args.model, args.batch, args.seed, log)
    low = compiler.make(loaded.model, args.output or loaded.name, loaded.name, loaded.batch, int(arch), args.kind or loaded.kind, args.seed,
                        loaded.reference, shapes, loaded.vocabulary, args.jobs, log)
    log(f"{len(low.launches)} launches")
    return 0


def main(arguments):
    p = parser()
    args = p.parse_args(arguments)
    try:
        if args.list:
            list_models()
            return 0
        if not args.model:
            p.error("which model?")
        if args.check:
            from . import reader
            pack = reader.read(args.model)
            print(f"{args.model}: {pack.about['model']}, {len(pack.launches)} launches of {len(pack.kernels)} kernels, arena {pack.arena}")
            return 0
        if args.run:
            from . import runner
            return runner.main(args.model)
        if missing():
            say_missing(missing())
            return 3
        return compile_model(args)
    except ModuleNotFoundError as error:
        gone = missing()
        say_missing(gone if error.name in gone else [*gone, error.name])
        return 3
    except Exception as error:
        if os.environ.get("DETSHARE_PACK_DEBUG"):
            raise
        builtin = not str(error) or type(error).__module__ == "builtins"
        print(f"detshare-pack: {type(error).__name__ + ': ' if builtin else ''}{error}", file=sys.stderr)
        return 1
