#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The service of the benches (tests/bench/gpu_load.c, `ls`) on a simulated device: SIGUSR1 ends a measurement and begins
# the next one, SIGTERM ends the last one. Ends with `N passed, N failed`.
#
# usage: tests/e2e/gpu_load.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-load-test.XXXXXX)
. tests/support/counted.sh
. tests/support/daemon.sh
load=
trap '[ -z "$load" ] || kill -KILL $load 2>/dev/null; daemon_end; rm -rf "$tmp"' EXIT
chmod 755 "$tmp"

# lines N: whether the service has printed this many lines
lines() {
        [ "$(wc -l <"$tmp/load")" -ge "$1" ]
}

# handled: waits until the service handles SIGUSR1, which would end it before, at most 30 s
handled() {
        for _ in $(seq 600); do
                (($((0x$(awk '/^SigCgt/ { print $2 }' "/proc/$load/status"))) & 0x200)) && return
                sleep 0.05
        done
        return 1
}

daemon_start --device sim:h200
DETSHARE_SOCKET=$tmp/sock "$build/detsharectl" run --class ls -- "$build/bench/gpu_load" ls 2 100000 500 100 \
        >"$tmp/load" 2>"$tmp/load.err" &
load=$!
handled || result "the service handles SIGUSR1" 1 "$tmp/load.err"
for n in 1 2; do
        for _ in $(seq 300); do
                lines $n && break
                kill -USR1 $load 2>/dev/null || break
                sleep 0.1
        done
        check "line $n comes at SIGUSR1" lines $n
done
kill -TERM $load
wait $load
result "SIGTERM: status 0" $? "$tmp/load.err"
load=
check "and a last line" lines 3
check "each line has a number of requests and three times" test "$(grep -cvE '^ls [1-9][0-9]*( [0-9]+\.[0-9]+){3}$' "$tmp/load")" = 0
daemon_stop
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
