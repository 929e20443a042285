#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs each of DetShare's processes once, from start to orderly end: daemon, worker, helper, a program on the drop-in
# library, the command. Fails if one of them fails. With DETSHARE_PLANT each process commits that defect and its
# failure is ignored, so that only reports can fail the gate.
#
# usage: tests/gate/processes.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
dir=$(mktemp -d /tmp/detshare-gate.XXXXXX)
export DETSHARE_SOCKET=$dir/sock
daemon=
# shellcheck disable=SC2317
finish() {
        [ -n "$daemon" ] && kill -KILL "$daemon" 2>/dev/null
        rm -rf "$dir"
}
trap finish EXIT

must() {
        "$@" >"$dir/out" 2>&1 || [ -n "${DETSHARE_PLANT:-}" ] || {
                echo "FAIL $*"
                cat "$dir/out" "$dir/daemon"
                exit 1
        }
}

"$build/detshared" --device sim:h200 --socket "$dir/sock" >"$dir/daemon" 2>&1 &
daemon=$!
for _ in $(seq 300); do
        grep -q serving "$dir/daemon" && break
        sleep 0.1
done
must env LD_LIBRARY_PATH="$build/cuda" KERNELS_DIR="$build/ptx/sm_90" "$build/tests/programs/saxpy"
must "$build/detsharectl" status
kill -TERM "$daemon"
must wait "$daemon"
daemon=
