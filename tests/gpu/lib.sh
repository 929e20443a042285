# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
#
# Shared by the scripts that need a GPU: the device, a daemon for each script, and counted checks
#
# A script sets `build` (absolute) and sources this file. The device is DETSHARE_TEST_DEVICE, else cuda:0. With a fake
# driver (DETSHARE_LIBCUDA) or a simulated device, programs cannot run natively: `native` is then empty, and the
# script prints which comparisons it leaves out.

device=${DETSHARE_TEST_DEVICE:-cuda:0}
export DETSHARE_TEST_DEVICE=$device
native=
if [ -z "${DETSHARE_LIBCUDA:-}" ] && compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
        native=yes
fi
tmp=$(mktemp -d /tmp/detshare-gpu.XXXXXX)
chmod 755 "$tmp"
passed=0
failed=0
daemon=
daemon_within= # a program that starts the daemon
daemon_from=   # folder of the daemon, if not the build
daemon_env=()  # additional environment of the daemon

# The fake driver executes PTX: the helper must take PTX out of every image, and the fake ptxas keeps it.
if [[ ${DETSHARE_LIBCUDA:-} == */fake_cuda/* ]]; then
        mkdir -p "$tmp/toolkit/bin"
        printf '#!/bin/sh\nexec "%s" "$@"\n' "$PWD/tests/support/fake_cuda/ptxas" >"$tmp/toolkit/bin/ptxas"
        chmod -R a+rx "$tmp/toolkit"
        daemon_env=(env "CUDA_HOME=$tmp/toolkit" CUDA_FORCE_PTX_JIT=1)
fi

# shellcheck disable=SC2317
finish() {
        [ -n "$daemon" ] && kill -KILL "$daemon" 2>/dev/null
        rm -rf "$tmp"
}
trap finish EXIT

# needs_gpu WHO: ends the script on a machine without a GPU
needs_gpu() {
        if [ -z "$native" ] && [ -z "${DETSHARE_LIBCUDA:-}" ] && [[ $device == cuda:* ]]; then
                echo "$1: this machine has no NVIDIA GPU (no /dev/nvidia0)" >&2
                exit 3
        fi
}

# result NAME STATUS [LOG]: counts a check, which passes if STATUS is 0; otherwise prints the end of LOG
result() {
        if [ "$2" = 0 ]; then
                passed=$((passed + 1))
                echo "ok   $1"
        else
                failed=$((failed + 1))
                echo "FAIL $1"
                [ -n "${3:-}" ] && [ -f "$3" ] && tail -n 15 "$3" | sed 's/^/     /'
        fi
        return 0
}

# check SECONDS NAME COMMAND...: counts a check, which passes if the command succeeds in time
check() {
        local seconds=$1 name=$2 status
        shift 2
        timeout -k 5 "$seconds" "$@" >"$tmp/check.out" 2>&1 </dev/null
        status=$?
        result "$name$([ $status = 124 ] && echo ": more than $seconds s")" $status "$tmp/check.out"
        return $status
}

# counted SECONDS NAME COMMAND...: counts the checks of a command that ends with `N passed, N failed`; shows its
# output
counted() {
        local seconds=$1 name=$2 status line
        shift 2
        timeout -k 5 "$seconds" "$@" >"$tmp/counted.out" 2>&1 </dev/null
        status=$?
        line=$(grep -a -E '^[0-9]+ passed, [0-9]+ failed' "$tmp/counted.out" | tail -n 1)
        grep -a -E '^(FAIL|signal)|does not hold' "$tmp/counted.out" | head -n 40 | sed "s/^/     /"
        grep -a -v -E '^([0-9]+ passed, |ok |FAIL|signal)|does not hold' "$tmp/counted.out" | tail -n 20 | sed "s/^/     /"
        # shellcheck disable=SC2086
        set -- $line
        passed=$((passed + ${1:-0}))
        if [ $status = 0 ] && [ -n "$line" ]; then
                echo "ok   $name: $line"
        else
                [ "${3:-0}" = 0 ] && failed=$((failed + 1))
                failed=$((failed + ${3:-0}))
                echo "FAIL $name: ${line:-no count} (status $status$([ $status = 124 ] && echo ": more than $seconds s"))"
        fi
        return $status
}

# daemon_start ARGUMENT...: starts a daemon; its socket is $tmp/sock, also in the environment
daemon_start() {
        export DETSHARE_SOCKET=$tmp/sock
        # shellcheck disable=SC2086
        "${daemon_env[@]}" $daemon_within "${daemon_from:-$build}/detshared" --device "$device" --socket "$tmp/sock" "$@" >"$tmp/daemon.log" 2>&1 </dev/null &
        daemon=$!
        for _ in $(seq 300); do
                grep -q serving "$tmp/daemon.log" && return 0
                kill -0 "$daemon" 2>/dev/null || break
                sleep 0.1
        done
        result "the daemon serves $device" 1 "$tmp/daemon.log"
        kill -KILL "$daemon" 2>/dev/null
        wait "$daemon" 2>/dev/null
        daemon=
        return 1
}

daemon_stop() {
        local status
        [ -n "$daemon" ] || return 0
        kill -TERM "$daemon"
        for _ in $(seq 200); do
                kill -0 "$daemon" 2>/dev/null || break
                sleep 0.1
        done
        kill -KILL "$daemon" 2>/dev/null
        wait "$daemon" 2>/dev/null
        status=$?
        daemon=
        result "the daemon ends with 0" $status "$tmp/daemon.log"
        echo "the end of the daemon's log:"
        tail -n 25 "$tmp/daemon.log" | sed 's/^/     /'
}

# only one GPU is visible, because programs that count GPUs by other means than the driver would find the others
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
# library path with which a program is a client of DetShare
shared_path=$build/cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
