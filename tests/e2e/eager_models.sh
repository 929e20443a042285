#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The bench of eager models (tests/bench/eager_models.py) on a simulated device, with a program in the place of PyTorch's
# that copies bytes to the device and back: rounds alternate, rows are kept, a second run goes on, bytes are compared.
# Natively the program makes the same bytes without a GPU. Times say nothing about a GPU.
# Ends with `N passed, N failed`.
#
# usage: tests/e2e/eager_models.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-eager-test.XXXXXX)
. tests/support/counted.sh
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"
export TMPDIR=$tmp DETSHARE_TEST_DEVICE=sim:h200

cat >"$tmp/copies.py" <<'END'
"""Answers the orders of tests/torch/eager.py. A request writes bytes to the device and reads them back."""
import ctypes
import hashlib
import json
import os
import sys
import time

SIZES = {"eager.small": 64, "eager.large": 4096, "eager.wrong": 64, "eager.varies": 64, "eager.ends": 64}
shared = "DETSHARE_SOCKET" in os.environ


def call(name, *arguments):
    error = getattr(cuda, name)(*arguments)
    if error:
        raise SystemExit(f"{name}: {error}")


if shared:
    cuda, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4096))


def request(case):
    size = SIZES[case]
    output = bytes(range(64)) * (size // 64)
    if shared:
        there = ctypes.create_string_buffer(size)
        call("cuMemcpyHtoD_v2", memory, output, ctypes.c_size_t(size))
        call("cuMemcpyDtoH_v2", there, memory, ctypes.c_size_t(size))
        output = there.raw
    other = (case == "eager.wrong" and shared) or (case == "eager.varies" and os.getpid() % 2)
    return output + str(os.getpid()).encode() if other or case == "eager.varies" else output


def answer(order):
    case = order.get("case") or answer.case
    answer.case = case
    if order["do"] == "drop":
        return {}
    if order["do"] == "kernels":
        return {"kernels": 2, "gpu_us": 3}
    digest = {"family": "copies", "dtype": "bytes", "finite": True, "digest": hashlib.sha256(request(case)).hexdigest()[:32]}
    if order["do"] == "prepare":
        return digest
    if case == "eager.ends" and shared:
        raise SystemExit("the program ends, as it should")
    times = []
    for _ in range(order["warm"] + order["n"]):
        begin = time.perf_counter()
        request(case)
        times.append((time.perf_counter() - begin) * 1e6)
    return dict(digest, submit_us=times[order["warm"]:], request_us=times[order["warm"]:])


if "--list" in sys.argv:
    for name in SIZES:
        print(json.dumps({"case": name, "quick": True, "seconds": 20, "fresh": False, "environment": {}}))
else:
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
END

eager() {
        timeout -k 5 120 tests/bench/eager_models.py --build "$build" --program "$tmp/copies" --requests 20 --warm 2 "$@" </dev/null
}

# ends STATUS LOG COMMAND...: whether the command ends with this status; its output goes to LOG
ends() {
        local want=$1 log=$2
        shift 2
        "$@" >"$log" 2>&1
        [ $? = "$want" ] || { cat "$log"; false; }
}

rows() {
        cut -d , -f 1,4,5,7 "$tmp/out/eager.csv" | tail -n +2 | sort | tr '\n' ' '
}

check "two models, one round" ends 0 "$tmp/said" eager --rounds 1 --out "$tmp/out" small large
check "each side measured every request, and another process the kernels" test "$(rows)" = \
        "large,0,kernels,0 large,1,detshare,20 large,1,native,20 small,0,kernels,0 small,1,detshare,20 small,1,native,20 "
check "the table says that the bytes are identical" test "$(grep -cE '^. `(small|large)` . copies . bytes . 2 .* identical .$' "$tmp/out/eager.md")" = 2
check "and that the device is simulated" grep -q '^On sim:h200: the times say nothing about a GPU' "$tmp/out/eager.md"
cp "$tmp/out/eager.csv" "$tmp/one.csv"
check "a second run adds the second round" ends 0 "$tmp/said" eager --rounds 2 --out "$tmp/out" small large
check "the first round is as it was" test "$(grep -cFf <(grep ',1,' "$tmp/one.csv") "$tmp/out/eager.csv")" = 4
check "the second round is there" test "$(rows | tr ' ' '\n' | grep -c ',2,')" = 4
sed -i '/^large,.*,2,native,/d' "$tmp/out/eager.csv"
check "a round that lacks a side is measured again" ends 0 "$tmp/said" eager --rounds 2 --out "$tmp/out" small large
check "with both sides" test "$(rows | tr ' ' '\n' | grep -c '^large,2,')" = 2
python3 -c 'import lzma, sys; lzma.open(sys.argv[2], "wb").write(open(sys.argv[1], "rb").read())' "$tmp/out/eager.csv" "$tmp/out.csv.xz"
check "runs are joined, with all their rounds" ends 0 "$tmp/said" tests/bench/eager_models.py --from "$tmp/out.csv.xz" "$tmp/one.csv"
check "three rounds" grep -qE '^. `small` .* identical' "$tmp/said"
check "other bytes under DetShare: status 1" ends 1 "$tmp/said" eager --rounds 1 --out "$tmp/wrong" wrong
check "the table says so" grep -q '`wrong` .* \*\*differ\*\* ' "$tmp/wrong/eager.md"
check "bytes that differ natively, too, are no failure" ends 0 "$tmp/said" eager --rounds 1 --out "$tmp/varies" varies
check "the table says this" grep -q '`varies` .* native varies ' "$tmp/varies/eager.md"
check "a program that ends: status 1, and the next model runs" ends 1 "$tmp/said" eager --rounds 1 --out "$tmp/ends" ends small
check "its last words are shown" grep -q 'the program ends, as it should' "$tmp/said"
check "no time, nothing measured: status 3" ends 3 "$tmp/said" eager --limit 0 --out "$tmp/none" small
check "an unknown side: status 2" ends 2 "$tmp/said" eager --sides nativ --out "$tmp/none" small
# a run that would go on for long ends with SIGTERM and keeps its complete rounds
timeout -k 5 120 tests/bench/eager_models.py --build "$build" --program "$tmp/copies" --rounds 100000 --requests 20 --out "$tmp/long" small \
        >"$tmp/said" 2>&1 </dev/null &
long=$!
for _ in $(seq 600); do
        grep -qs '^small,.*,3,' "$tmp/long/eager.csv" && break
        sleep 0.1
done
kill -TERM $long
wait $long
result "SIGTERM: status 1" $(($? == 1 ? 0 : 1)) "$tmp/said"
check "three rounds are kept" tests/bench/eager_models.py --from "$tmp/long/eager.csv"
left() {
        for _ in $(seq 100); do
                pgrep -f "$tmp/" >/dev/null || return 0
                sleep 0.1
        done
        pgrep -af "$tmp/"
        return 1
}
check "it leaves no process" left
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
