# SPDX-License-Identifier: Apache-2.0
"""How a Triton kernel says what it is compiled for: see compile.py."""
import triton

ENTRIES = []
ALL = (75, 80, 86, 90)


class Entry:
    """A kernel, its targets, the types of its parameters in their order ("*fp32", "i32"; "*fp16:16": divisible by 16,
    which is what lets Triton copy whole vectors), constants and options."""

    def __init__(self, name, kernel, targets, types, constants, options):
        self.name, self.kernel, self.targets = name, kernel, targets
        self.types, self.values, self.options = types, constants, options

    def signature(self):
        names = [n for n in self.kernel.arg_names if n not in self.values]
        if len(names) != len(self.types):
            raise ValueError(f"{self.name}: {len(self.types)} types for {names}")
        types = dict(zip(names, (t.split(":")[0] for t in self.types)))
        return {n: types.get(n, "constexpr") for n in self.kernel.arg_names}

    def attributes(self):
        names = [n for n in self.kernel.arg_names if n not in self.values]
        return {(self.kernel.arg_names.index(n),): [["tt.divisibility", int(t.split(":")[1])]]
                for n, t in zip(names, self.types) if ":" in t}

    def constants(self):
        return dict(self.values)


def corpus(targets, types, options=None, name=None, **constants):
    """Decorator: compile this kernel for `targets`; may stand several times, with names, before one kernel."""

    def add(kernel):
        jitted = kernel if isinstance(kernel, triton.JITFunction) else triton.jit(kernel)
        ENTRIES.append(Entry(name or jitted.__name__, jitted, targets, types.split(), constants, options or {}))
        return jitted

    return add
