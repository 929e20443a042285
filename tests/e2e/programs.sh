#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Unmodified driver-API programs under DetShare: a daemon with a simulated H200, each program over the submission ring and over
# the socket alone, then what only several processes or the environment show. Ends with `N passed, N failed`.
#
# usage: tests/e2e/programs.sh BUILD [program ...]
# DETSHARE_TEST_DEVICE=sim:h200+order=7 in the environment: another device, such as one whose blocks come in another order
set -u
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
shift
tmp=$(mktemp -d /tmp/detshare-programs.XXXXXX)
. tests/support/counted.sh
daemon=

# shellcheck disable=SC2317
finish() {
        [ -n "$daemon" ] && kill -KILL "$daemon" 2>/dev/null
        rm -rf "$tmp"
}
trap finish EXIT

run() {
        # run ARCH PROGRAM: under the drop-in library, its output in $tmp/out
        LD_LIBRARY_PATH=$build/cuda DETSHARE_SOCKET=$tmp/sock KERNELS_DIR=$build/ptx/$1 \
                timeout 300 "$build/tests/programs/$2" >"$tmp/out" 2>&1
}

"$build/detshared" --device "${DETSHARE_TEST_DEVICE:-sim:h200}" --socket "$tmp/sock" >"$tmp/daemon.log" 2>&1 &
daemon=$!
for _ in $(seq 2000); do
        [ -S "$tmp/sock" ] && break
        sleep 0.1
done

programs=${*:-$(cd tests/programs && ls ./*.c | sed 's|^\./||; s|\.c$||')}
# both ways lead to the same code in the daemon, and under a sanitizer one takes minutes
transports="ring rpc"
[ "$(basename "$build")" = asan ] && transports=ring
for transport in $transports; do
        arch=sm_90
        [ $transport = rpc ] && arch=sm_75
        for program in $programs; do
                DETSHARE_TRANSPORT=$transport run $arch "$program"
                result "$program over $transport" $? "$tmp/out"
        done
done

if [ $# = 0 ]; then
        CUDA_LAUNCH_BLOCKING=1 run sm_90 saxpy
        result "saxpy with CUDA_LAUNCH_BLOCKING" $? "$tmp/out"
        CUDA_MODULE_LOADING=EAGER run sm_90 libraries
        result "libraries with CUDA_MODULE_LOADING=EAGER" $? "$tmp/out"
        CUDA_VISIBLE_DEVICES='' run sm_90 saxpy
        grep -q 'cuInit(0) = 100' "$tmp/out"
        result "no visible device is no device" $? "$tmp/out"
        CUDA_VISIBLE_DEVICES=0 run sm_90 saxpy
        result "saxpy with the one device visible" $? "$tmp/out"

        DETSHARE_MEM_LIMIT=64M MEMORY_LIMIT_BYTES=$((64 << 20)) run sm_90 memory_limit
        result "a limit of the session is what there is" $? "$tmp/out"
        run sm_90 host_register
        plain=$(sed -n 's/^PASS .*(\(.*\) checks)/\1/p' "$tmp/out")
        DETSHARE_REGISTER=replace run sm_90 host_register
        replaced=$(sed -n 's/^PASS .*(\(.*\) checks)/\1/p' "$tmp/out")
        [ "${replaced:-0}" -gt "${plain:-0}" ]
        result "kernels use registered memory whose pages are replaced" $? "$tmp/out"

        # one latency-sensitive and one best-effort program at once
        (DETSHARE_CLASS=be run sm_90 memory_all_copies; cp "$tmp/out" "$tmp/be"; exit "$(grep -c '^PASS' "$tmp/be")") &
        other=$!
        ls_status=0
        for _ in 1 2 3 4 5; do
                LD_LIBRARY_PATH=$build/cuda DETSHARE_SOCKET=$tmp/sock KERNELS_DIR=$build/ptx/sm_90 DETSHARE_CLASS=ls \
                        timeout 300 "$build/tests/programs/gemm" >"$tmp/ls" 2>&1 || ls_status=1
        done
        wait "$other"
        [ $? = 1 ] && [ $ls_status = 0 ]
        result "an LS and a BE program at once" $? "$tmp/ls"
fi

if [ $# = 0 ]; then
        # the worker dies three times under a program that works: an error each time, and a new context is as good as new
        LD_LIBRARY_PATH=$build/cuda DETSHARE_SOCKET=$tmp/sock KERNELS_DIR=$build/ptx/sm_90 RECOVERY_FOREIGN=1 \
                timeout 300 "$build/tests/programs/recovery" >"$tmp/recovery" 2>&1 &
        other=$!
        for n in 1 2 3; do
                for _ in $(seq 2000); do
                        [ "$(grep -c READY "$tmp/recovery")" = $n ] && break
                        sleep 0.05
                done
                sleep 0.1
                for pid in $(pgrep -P "$daemon"); do
                        grep -q detshare-worker "/proc/$pid/cmdline" 2>/dev/null && kill -KILL "$pid"
                done
        done
        wait "$other"
        result "a program outlives three deaths of the worker" $? "$tmp/recovery"
fi

kill -TERM "$daemon"
wait "$daemon"
result "the daemon ends with 0" $? "$tmp/daemon.log"
daemon=

if [ $# = 0 ]; then
        run sm_90 saxpy
        grep -q 'cuInit(0) = 100' "$tmp/out" && [ "$(grep -c '^detshare' "$tmp/out")" = 1 ]
        result "without a daemon: no device, and one line that says why" $? "$tmp/out"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
