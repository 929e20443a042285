#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parameters of every policy as tables of docs/policies.md, from the plug-ins themselves.

usage: parameters.py --build BUILD            writes the tables (`make parameters`)
       parameters.py --build BUILD --check    fails where a table differs from its policy, and names it
"""
import argparse
import ctypes
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/eval"))
import document  # noqa: E402

COMMAND = "make parameters"
MEASURE = {"profile", "calibrate"}  # they serve nobody and have no section


class Param(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("help", ctypes.c_char_p), ("default", ctypes.c_int64), ("least", ctypes.c_int64), ("most", ctypes.c_int64)]


class Policy(ctypes.Structure):
    """The beginning of struct detshare_policy (policies/detshare_policy.h)."""
    _fields_ = [("abi", ctypes.c_uint32), ("size", ctypes.c_uint32), ("name", ctypes.c_char_p), ("description", ctypes.c_char_p),
                ("params", ctypes.POINTER(Param)), ("n_params", ctypes.c_uint32)]


def table(path):
    policy = Policy.in_dll(ctypes.CDLL(str(path)), "detshare_policy")
    rows = [[f"`{p.name.decode()}`", str(p.default), f"{p.least} to {p.most}", p.help.decode().replace("|", "\\|")] for p in policy.params[:policy.n_params]]
    return document.table(["parameter", "default", "range", "meaning"], rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--doc", type=pathlib.Path, default=ROOT / "docs/policies.md")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = 0
    for path in sorted(options.build.resolve().glob("policies/*.so")):
        if path.stem in MEASURE:
            continue
        name, lines = f"parameters of {path.stem}", table(path)
        if options.check:
            if document.section(options.doc, name, COMMAND) != "\n".join(lines):
                print(f"{options.doc.name}: the {name} differ from the policy; `{COMMAND}` writes them again")
                stale = 1
        else:
            document.write(options.doc, name, lines, COMMAND)
    return stale


if __name__ == "__main__":
    sys.exit(main())
