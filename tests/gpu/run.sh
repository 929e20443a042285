#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make test-gpu: what is tested on the simulated GPU, on the GPU of this machine
#
# The programs of tests/programs run under the machine's own driver: what they expect is what CUDA does, so that they are a
# measure for the drop-in library. The corpus kernels and every instruction of the interpreter are compared with the GPU
# bit by bit. Ends with `N passed, N failed`; exit status 3 without a GPU.
#
# usage: tests/gpu/run.sh BUILD
set -u
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-gpu.XXXXXX)
trap 'rm -rf "$tmp"' EXIT
passed=0
failed=0

if ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
        echo "test-gpu: this machine has no NVIDIA GPU (no /dev/nvidia0)" >&2
        exit 3
fi

check() {
        # check NAME COMMAND...
        local name=$1
        shift
        if timeout 300 "$@" >"$tmp/out" 2>&1; then
                passed=$((passed + 1))
                echo "ok   $name"
        else
                failed=$((failed + 1))
                echo "FAIL $name (status $?)"
                tail -n 15 "$tmp/out" | sed 's/^/     /'
        fi
}

for arch in sm_75 sm_90; do
        for program in "$build"/tests/programs/*; do
                name=$(basename "$program")
                # these two ask for what DetShare gives beyond the driver: stale handles refused, a new context after a fault
                case $name in handles | recovery) continue ;; esac
                [ -x "$program" ] && [ -f "$program" ] &&
                        KERNELS_DIR=$build/ptx/$arch check "$name, native, $arch" env -u LD_LIBRARY_PATH "$program"
        done
done
for test in "$build"/gpu/interp/test_*; do
        [ -x "$test" ] && check "$(basename "$test") against the GPU" "$test"
done
check "every instruction against the GPU" "$build/gpu/interp/interp_diff"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
