#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python program that uses DetShare's C interface (detshare/detshare.h) through ctypes, without any package.

It connects, says what it is (name, class, objective), reads the device's clock and prints its statistics. A CUDA
program in the same process (PyTorch under `detsharectl run`, for example) shares this session.

usage: client.py [PATH OF libdetshare-client.so]
"""
import ctypes
import sys

DETSHARE_LS = 1
DETSHARE_E_DENIED = -2


class Stats(ctypes.Structure):
    """struct detshare_stats; the caller sets `size`, the library fills as much as it knows."""
    _fields_ = [("size", ctypes.c_uint32), ("class_", ctypes.c_uint32)] + \
        [(name, ctypes.c_uint64) for name in ("session", "slo_ns", "launches", "completed", "errors", "requests",
                                              "device_ns", "wait_ns", "memory_used", "memory_limit",
                                              "memory_peak")] + \
        [("queued", ctypes.c_uint32), ("in_flight", ctypes.c_uint32)]


def main():
    lib = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libdetshare-client.so.0")
    for name in ("detshare_last_error", "detshare_strerror", "detshare_version"):
        getattr(lib, name).restype = ctypes.c_char_p
    lib.detshare_set_slo_ns.argtypes = [ctypes.c_uint64]
    lib.detshare_sleep_until.argtypes = [ctypes.c_uint64]

    def check(result, what):
        """Raises when a call failed: negative results are DETSHARE_E_ codes."""
        if result < 0:
            raise RuntimeError(f"{what}: {lib.detshare_strerror(result).decode()} "
                               f"({lib.detshare_last_error().decode()})")
        return result

    check(lib.detshare_connect(None), "connect")
    check(lib.detshare_set_name(b"python-client"), "set the name")
    if lib.detshare_set_class(DETSHARE_LS) == DETSHARE_E_DENIED:
        print(f"class ls was refused, the session stays best effort: {lib.detshare_last_error().decode()}")
    check(lib.detshare_set_slo_ns(5_000_000), "set the objective")

    begin, end = ctypes.c_uint64(), ctypes.c_uint64()
    check(lib.detshare_now(ctypes.byref(begin)), "read the clock")
    check(lib.detshare_sleep_until(begin.value + 1_000_000), "sleep")
    check(lib.detshare_now(ctypes.byref(end)), "read the clock")
    lib.detshare_clock_leave()
    kind = "simulated" if check(lib.detshare_simulated(), "ask for the kind of device") else "real"
    print(f"{lib.detshare_version().decode()}: {kind} device, slept {end.value - begin.value} ns")

    stats = Stats(size=ctypes.sizeof(Stats))
    check(lib.detshare_get_stats(ctypes.byref(stats)), "get the statistics")
    print(f"session {stats.session}, class {'ls' if stats.class_ == DETSHARE_LS else 'be'}, objective "
          f"{stats.slo_ns / 1e6:g} ms, {stats.launches} launches")


if __name__ == "__main__":
    main()
