#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run parts of the tests and benches on a GPU machine, with the files that pack.sh made; the tree must be beside them
#
# Every part has a time limit and a log of its own; one line says how each ended. Parts:
#   facts                                        what the GPU and its driver do
#   programs evict runtime interp device faults e2e memory restart sandbox libs torch bringup     of tests/gpu/run.sh
#   figures clients delay loop nativeloop forms colour first eager        of tests/bench/gpu.sh; files of figures in LOGS/out
#   demo                                         make demo's first part
#
# usage: tests/gpu/on-gpu.sh [-p PACKED] [-l LOGS] [PART...]        PACKED: build/gpurun, LOGS: PACKED/logs
set -u
cd "$(dirname "$0")/../.." || exit
packed=build/gpurun
logs=
while getopts p:l: option; do
        case $option in
        p) packed=$OPTARG ;;
        l) logs=$OPTARG ;;
        *) exit 2 ;;
        esac
done
shift $((OPTIND - 1))
packed=$(realpath "$packed") || exit 2
b=$packed/b
logs=${logs:-$packed/logs}
mkdir -p "$logs"
export DETSHARE_TEST_DEVICE=${DETSHARE_TEST_DEVICE:-cuda:0} BENCH_OUT=${BENCH_OUT:-$logs/out}
# the packed libraries come last, so that the machine's own libraries take precedence
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$packed/lib
# a copy may have lost the permissions that the daemon requires: only the owner may write policies
chmod -R go-w "$b/policies"
[ "$(id -u)" = 0 ] && chown -R 0:0 "$b/policies"

run() {
        # run PART SECONDS COMMAND...: runs the command with this time limit; its output goes to $logs/PART.log
        local part=$1 seconds=$2 begin=$SECONDS status
        shift 2
        timeout -k 10 "$seconds" "$@" >"$logs/$part.log" 2>&1 </dev/null
        status=$?
        printf '### %-9s status %3d after %3d s%s  %s\n' "$part" $status $((SECONDS - begin)) \
                "$([ $status = 124 ] && echo ' (time is up)')" "$(tail -n 1 "$logs/$part.log")"
        # shows failed checks with the lines after them, and measured figures
        awk '/^ *FAIL|does not hold|^demo: / { left = 14 } left-- > 0 || /^ *[|]/ || /^ *note: |was opened in/ || /( ms|later|got [0-9]+)$/ || /^(device memory|nvidia-smi|natively:|over the)/' \
                "$logs/$part.log" | cut -c 1-200 | head -n 90
}

[ $# = 0 ] && set -- programs runtime device faults e2e memory restart sandbox figures delay loop demo interp
for part; do
        case $part in
        facts) run facts 240 "$packed/facts" "$packed/facts.cubin" ;;
        runtime) run runtime 400 tests/gpu/run.sh "$b" runtime ;;
        programs) run programs 400 tests/gpu/run.sh "$b" programs ;;
        evict) run evict 400 tests/gpu/run.sh "$b" evict ;;
        interp) run interp 200 tests/gpu/run.sh "$b" interp ;;
        device) run device 200 tests/gpu/run.sh "$b" device ;;
        faults) run faults 170 tests/gpu/run.sh "$b" faults ;;
        e2e) run e2e 300 tests/gpu/run.sh "$b" e2e ;;
        restart) run restart 290 tests/gpu/run.sh "$b" restart ;;
        sandbox) run sandbox 200 tests/gpu/run.sh "$b" sandbox ;;
        memory) run memory 60 tests/gpu/run.sh "$b" memory ;;
        libs) run libs 300 tests/gpu/run.sh "$b" libs ;;
        torch) run torch 590 tests/gpu/run.sh "$b" torch ;;
        bringup) run bringup 280 tests/gpu/run.sh "$b" bringup ;;
        figures | clients | delay | loop | nativeloop | forms) run "$part" 120 tests/bench/gpu.sh "$b" "$part" ;;
        first) FIRST_SECONDS=500 run first 550 tests/bench/gpu.sh "$b" first ;;
        eager) EAGER_SECONDS=${EAGER_SECONDS:-500} run eager 550 tests/bench/gpu.sh "$b" eager ;;
        colour) run colour 320 tests/bench/gpu.sh "$b" colour ;;
        demo) run demo 180 tests/demo/demo.py kernels --build "$b" --device "$DETSHARE_TEST_DEVICE" ;;
        *) echo "on-gpu.sh: no part $part" >&2 ;;
        esac
done
