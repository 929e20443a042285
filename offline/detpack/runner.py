# SPDX-License-Identifier: Apache-2.0
"""Run a pack's cases on the CUDA driver API and compare: a check for the compiler. detshare-serve serves packs.

Uses ctypes on libcuda.so.1: NVIDIA's driver, or DetShare's library if LD_LIBRARY_PATH names it. Prints JSON: for each case and output
whether it is right, the largest difference, and the sha256 of the raw bytes; the median and the shortest time of a run.
"""
import array
import ctypes
import hashlib
import json
import os
import struct
import sys
import time

from . import reader

SHARED_ATTRIBUTE = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
PARAMETER = {"a": ctypes.c_uint64, "w": ctypes.c_uint64, "null": ctypes.c_uint64,
             "i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_uint32}


class Driver:
    """The functions of the driver API that a pack needs. If one fails, the program ends and prints the error's name."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()}")

    def open(self):
        self("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(256)
        self("cuDeviceGetName", name, 256, device)
        return name.value.decode()

    def alloc(self, size):
        address = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 256)))
        return address.value

    def upload(self, address, data):
        self("cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_char_p(data), ctypes.c_size_t(len(data)))

    def download(self, address, size):
        data = ctypes.create_string_buffer(size)
        self("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return data.raw


class Instance:
    """A pack loaded on the device, with all of its launches prepared."""

    def __init__(self, driver, pack):
        self.driver, self.pack = driver, pack
        module, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        ptx = (pack.path / pack.module).read_bytes() + b"\0"
        driver("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(ptx))
        driver("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.functions = []
        for name, _, shared, _ in pack.kernels:
            function = ctypes.c_void_p()
            driver("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            if shared > 48 << 10:
                driver("cuFuncSetAttribute", function, SHARED_ATTRIBUTE, shared)
            self.functions.append(function)
        weights = (pack.path / pack.weights).read_bytes()
        self.weights, self.arena = driver.alloc(len(weights)), driver.alloc(pack.arena)
        if weights:
            driver.upload(self.weights, weights)
        self.launches = [self.prepare(*launch) for launch in pack.launches]

    def prepare(self, kernel, grid, params):
        base = {"a": self.arena, "w": self.weights}
        values = [PARAMETER[kind](base.get(kind, 0) + value) for kind, value in params]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values])
        _, threads, shared, _ = self.pack.kernels[kernel]
        return (self.functions[kernel], *grid, threads, 1, 1, shared, self.stream, pointers, None), values

    def give(self, case):
        for i, tensor in enumerate(self.pack.inputs):
            self.driver.upload(self.arena + tensor.offset, (self.pack.path / self.pack.cases[case, "input", i][0]).read_bytes())

    def run(self):
        launch = self.driver.library.cuLaunchKernel
        for arguments, _ in self.launches:
            code = launch(*arguments)
            if code:
                raise RuntimeError(f"cuLaunchKernel: {code}")
        self.driver("cuStreamSynchronize", self.stream)

    def each(self):
        """Microseconds of every launch, each waited for alone; finds the slow ones."""
        result = []
        for arguments, _ in self.launches:
            begin = time.perf_counter()
            self.driver.library.cuLaunchKernel(*arguments)
            self.driver("cuStreamSynchronize", self.stream)
            result.append((time.perf_counter() - begin) * 1e6)
        return result


def floats(data, kind):
    if kind == "f16":
        return struct.unpack(f"<{len(data) // 2}e", data)
    return array.array("f", data)


def compare(pack, case, index, data):
    file, most, part = pack.cases[case, "output", index]
    wanted = array.array("f", (pack.path / file).read_bytes())
    got = floats(data, pack.outputs[index].type)
    worst, wrong = 0.0, 0
    for g, w in zip(got, wanted):
        difference = abs(g - w)
        if not difference <= most + part * abs(w):
            wrong += 1
        worst = max(worst, difference) if difference == difference else float("inf")
    peak = max(map(abs, wanted))
    return {"case": case, "output": index, "right": wrong == 0, "wrong": wrong, "of": len(wanted), "difference": round(worst, 6),
            "peak": round(peak, 6), "sha256": hashlib.sha256(data).hexdigest()}


def check(path, repeats=0, slowest=0):
    """Runs one pack, and returns all results in types that JSON has."""
    pack, driver = reader.read(path), Driver()
    device = driver.open()
    instance = Instance(driver, pack)
    result = {"pack": pack.about["model"], "device": device, "batch": pack.about["batch"], "launches": len(pack.launches), "outputs": []}
    for case in sorted({case for case, _, _ in pack.cases}):
        instance.give(case)
        instance.run()
        for i, tensor in enumerate(pack.outputs):
            result["outputs"].append(compare(pack, case, i, driver.download(instance.arena + tensor.offset, tensor.bytes)))
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        instance.run()
        times.append((time.perf_counter() - begin) * 1e6)
    if times:
        result["run_us"], result["least_us"] = round(sorted(times)[len(times) // 2], 1), round(min(times), 1)
    if slowest:
        each = instance.each()
        top = sorted(range(len(each)), key=lambda i: -each[i])[:slowest]
        result["slowest"] = [[i, pack.kernels[pack.launches[i][0]][0], round(each[i], 1)] for i in top]
    return result


def main(path):
    result = check(path, int(os.environ.get("DETSHARE_PACK_REPEATS", "0")), int(os.environ.get("DETSHARE_PACK_SLOWEST", "0")))
    json.dump(result, sys.stdout)
    print()
    return 0 if all(o["right"] for o in result["outputs"]) else 1
