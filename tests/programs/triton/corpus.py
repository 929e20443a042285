# SPDX-License-Identifier: Apache-2.0
"""The decorator that states for which targets and types a Triton kernel is compiled: see compile.py."""
import triton

ENTRIES = []
ALL = (75, 80, 86, 90)


class Entry:
    """A kernel, its targets, the types of its parameters in order, constants and options.

    A type is "*fp32", "i32" or the like; "*fp16:16" means divisible by 16, which lets Triton copy whole vectors."""

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
    """Decorator: compile this kernel for `targets`; a kernel may have several, with names."""

    def add(kernel):
        jitted = kernel if isinstance(kernel, triton.JITFunction) else triton.jit(kernel)
        ENTRIES.append(Entry(name or jitted.__name__, jitted, targets, types.split(), constants, options or {}))
        return jitted

    return add
