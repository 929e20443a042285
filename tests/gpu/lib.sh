# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
#
# What the scripts that need a GPU share: the device, a daemon of their own, checks that are counted
#
# A script sets `build` (absolute) and sources this. The device is DETSHARE_TEST_DEVICE, else cuda:0. With a fake driver
# (DETSHARE_LIBCUDA) or a simulated device there is nothing to run programs on natively: native is then empty, and the
# script says what it leaves out.

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
daemon_within= # a program that starts it
daemon_from=   # where it lies, if not in the build
daemon_env=()  # what it is told beside

# The fake driver executes text: the helper is to take that out of every image, and the fake ptxas keeps it.
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

# needs_gpu WHO: ends the script where there is none
needs_gpu() {
        if [ -z "$native" ] && [ -z "${DETSHARE_LIBCUDA:-}" ] && [[ $device == cuda:* ]]; then
                echo "$1: this machine has no NVIDIA GPU (no /dev/nvidia0)" >&2
                exit 3
        fi
}

# result NAME STATUS(0 = good) [LOG]
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

# check SECONDS NAME COMMAND...
check() {
        local seconds=$1 name=$2 status
        shift 2
        timeout -k 5 "$seconds" "$@" >"$tmp/check.out" 2>&1 </dev/null
        status=$?
        result "$name$([ $status = 124 ] && echo ": more than $seconds s")" $status "$tmp/check.out"
        return $status
}

# counted SECONDS NAME COMMAND...: one that ends with `N passed, N failed`; what it printed is shown
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

# daemon_start ARGUMENT...: its socket in $tmp/sock, in the environment too
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
        echo "the daemon's last words:"
        tail -n 25 "$tmp/daemon.log" | sed 's/^/     /'
}

# one GPU: what counts them by other ways than the driver would find those beside it
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
# the library path under which a program is DetShare's client
shared_path=$build/cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
