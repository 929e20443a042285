#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Unmodified Driver API programs under DetShare: a daemon with a simulated H200 runs each program over the submission
# ring and over the socket alone, then cases that need several processes or another environment. Prints `N passed, N
# failed` last.
#
# usage: tests/e2e/programs.sh BUILD [program ...]
# DETSHARE_TEST_DEVICE selects another device, e.g. sim:h200+order=7, whose blocks run in another order.
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
        # run ARCH PROGRAM: runs a program with the drop-in library; output goes to $tmp/out
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
# Both transports lead to the same code in the daemon. Under a sanitizer one transport takes minutes, so only the ring
# is tested.
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
        result "without a visible device there is no device" $? "$tmp/out"
        CUDA_VISIBLE_DEVICES=0 run sm_90 saxpy
        result "saxpy runs with CUDA_VISIBLE_DEVICES=0" $? "$tmp/out"

        DETSHARE_MEM_LIMIT=64M MEMORY_LIMIT_BYTES=$((64 << 20)) run sm_90 memory_limit
        result "a session's memory limit is the device's memory" $? "$tmp/out"
        MEMORY_ALONE=1 run sm_90 kept
        result "another process gets the memory that a program keeps" $? "$tmp/out"
        MEMORY_ALONE=1 DETSHARE_MEM_LIMIT=1G run sm_90 kept
        result "kept memory and a session's memory limit" $? "$tmp/out"
        run sm_90 host_register
        plain=$(sed -n 's/^PASS .*(\(.*\) checks)/\1/p' "$tmp/out")
        DETSHARE_REGISTER=replace run sm_90 host_register
        replaced=$(sed -n 's/^PASS .*(\(.*\) checks)/\1/p' "$tmp/out")
        [ "${replaced:-0}" -gt "${plain:-0}" ]
        result "kernels use registered memory whose pages are replaced" $? "$tmp/out"

        # The kernel, address, block, thread and line of PTX of a fault are in one line of the program and in
        # `detsharectl explain`.
        where='kernel prog_wild at 0x10, block (0,0,0) thread (0,0,0), PTX line [0-9]*: '
        for transport in ring rpc; do
                DETSHARE_TRANSPORT=$transport run sm_90 faults
                [ "$(grep -c '^detshare: an illegal' "$tmp/out")" = 1 ] &&
                        grep -q "^detshare: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS): $where" "$tmp/out"
                result "a fault is one line on standard error over $transport" $? "$tmp/out"
        done
        DETSHARE_NOTES=off run sm_90 faults
        ! grep '^detshare' "$tmp/out"
        result "DETSHARE_NOTES=off suppresses the line" $? "$tmp/out"
        mkfifo "$tmp/pause"
        (FAULTS_PAUSE=1 run sm_90 faults <"$tmp/pause") &
        other=$!
        exec 9>"$tmp/pause"
        for _ in $(seq 2000); do
                DETSHARE_SOCKET=$tmp/sock "$build/detsharectl" explain faults >"$tmp/explain" 2>&1
                grep -q 'CUDA error' "$tmp/explain" && break
                sleep 0.05
        done
        grep -q "^its work ended with CUDA error 700: $where" "$tmp/explain" &&
                DETSHARE_SOCKET=$tmp/sock "$build/detsharectl" explain --json faults | grep -q '"fault": *"kernel prog_wild at 0x10'
        result "explain has the fault while the program keeps its context" $? "$tmp/explain"
        exec 9>&-
        wait "$other"
        result "the program continues after its fault" $? "$tmp/out"

        # For a wrong value of a variable the message says what is accepted; for an unknown name it gives the closest
        # name.
        wrong=0
        while read -r value accepted; do
                (export "DETSHARE_${value?}" && run sm_90 saxpy)
                [ "$(grep -c '^detshare' "$tmp/out")" = 1 ] && grep -qxF "detshare: DETSHARE_$value: expected $accepted" "$tmp/out" ||
                        { wrong=1 && cp "$tmp/out" "$tmp/wrong"; }
        done <<'END'
SLO_MS=5ms milliseconds as a number, for example 5 or 2.5
CLASS=lss ls or be
MEM_LIMIT=64MB bytes as a whole number, or with K, M, G or T behind it, for example 512M
SM_PERCENT=half a whole number from 1 to 100, for example 50
GPU_REQUEST=50% a share of the GPU's time from 0 to 1, for example 0.25
GPU_LIMIT=1.5 a share of the GPU's time from 0 to 1, for example 0.5
PHASE=decoding prefill, decode or none
REGISTER=yes copy or replace
TRANSPORT=tcp ring or rpc
NOTES=quiet on or off
END
        result "a wrong value of a variable is refused, and the message says what is accepted" $wrong "$tmp/wrong"
        DETSHARE_CALSS=ls DETSHARE_TEST_ANYTHING=1 run sm_90 saxpy
        [ "$(grep '^detshare: DETSHARE' "$tmp/out")" = "detshare: DETSHARE_CALSS is not known; did you mean DETSHARE_CLASS?" ] && grep -q '^PASS' "$tmp/out"
        result "an unknown variable gets a warning with the closest name" $? "$tmp/out"
        DETSHARE_COLOR_OF_SKY=blue run sm_90 saxpy
        [ "$(grep '^detshare: DETSHARE' "$tmp/out")" = "detshare: DETSHARE_COLOR_OF_SKY is not known; libdetshare-client(3) lists the variables" ]
        result "a variable unlike any known one gets a warning that names the manual" $? "$tmp/out"

        # Real time and the device clock differ: the program prints one note, at a wait or at its end.
        note='^detshare: this device is simulated: its clock advanced [0-9.e+-]* s while [0-9.e+-]* s passed\. Its times are the model.s: .*detshare_now().*docs/simulator\.md$'
        run sm_90 idle_second
        [ "$(grep -c "$note" "$tmp/out")" = 1 ] && grep -q '^PASS' "$tmp/out"
        result "a program whose clocks differ prints one note at its end" $? "$tmp/out"
        IDLE_SYNC=1 run sm_90 idle_second
        [ "$(grep -c "$note" "$tmp/out")" = 1 ] && [ "$(grep -n "$note" "$tmp/out" | cut -d: -f1)" = 1 ]
        result "a program whose clocks differ prints the note at its first wait" $? "$tmp/out"
        DETSHARE_NOTES=off run sm_90 idle_second
        ! grep '^detshare' "$tmp/out"
        result "DETSHARE_NOTES=off suppresses the note" $? "$tmp/out"

        # One LS and one BE program at once.
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
        # The worker dies three times under a running program. The program gets an error each time, and a new context
        # works.
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
        result "a program survives three deaths of the worker" $? "$tmp/recovery"
fi

kill -TERM "$daemon"
wait "$daemon"
result "the daemon ends with 0" $? "$tmp/daemon.log"
daemon=

if [ $# = 0 ]; then
        printf '[limits]\nmemory_per_uid = 2048\n' >"$tmp/limits.conf"
        rm -f "$tmp/daemon.log" # the last daemon's says `serving`, too
        "$build/detshared" --device sim:h200 --config "$tmp/limits.conf" --socket "$tmp/sock" >"$tmp/daemon.log" 2>&1 &
        daemon=$!
        for _ in $(seq 2000); do
                grep -qs serving "$tmp/daemon.log" && break
                sleep 0.1
        done
        MEMORY_ALONE=1 run sm_90 kept
        result "another process of a user with a limit gets the memory that a program keeps" $? "$tmp/out"
        kill -TERM "$daemon"
        wait "$daemon"
        daemon=

        run sm_90 saxpy
        grep -q 'cuInit(0) = 100' "$tmp/out" && [ "$(grep -c '^detshare' "$tmp/out")" = 1 ]
        result "without a daemon: no device, and one line that says why" $? "$tmp/out"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
