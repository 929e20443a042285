#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The long forms of tests of `make test`: 10,000 client kills, 68,000 acknowledged kernels beside random kills of
# every process, 100 deaths of the daemon, a million hostile frames, clients that connect and leave, idle clients,
# deaths of worker and helper. A steady load fills the rest of the time. Ends with a table and `N passed, N failed`.
# The tests hold the figures that the documents promise, so nothing else should run on the machine.
#
# usage: tests/soak.sh BUILD [MINUTES] [PART ...]
#        PART    kills daemon hostile failures endless churn idle deaths steady; default: all
set -u
cd "$(dirname "$0")/.."
build=$1
minutes=${2:-60}
shift $(($# < 2 ? $# : 2))
parts=${*:-kills daemon hostile failures endless churn idle deaths steady}
logs=$build/soak-logs
rm -rf "$logs"
mkdir -p "$logs"
place=$(tests/support/place.sh "$build") || exit
[ -z "$place" ] || trap 'rm -rf "$place"' EXIT
export DETSHARE_TEST_PLACE=$place
passed=0
failed=0
start=$(date +%s)

run() {
        # run NAME COMMAND...: runs one part, prints its line and counts its result
        local name=$1 line status log=$logs/$1.log
        shift
        printf '== %s\n' "$name"
        "$@" >"$log" 2>&1
        status=$?
        line=$(grep -a -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
        grep -a -E '^(FAIL|not ok)' "$log" | head -n 20
        grep -a -v -E '^(FAIL|not ok|detshare|[0-9]+ passed|\| |seed)' "$log" | tail -n 40
        if [ -z "$line" ]; then
                echo "FAIL $name said no count (status $status)"
                failed=$((failed + 1))
                return
        fi
        # shellcheck disable=SC2086
        set -- $line
        passed=$((passed + $1))
        failed=$((failed + $3))
        [ "$status" = 0 ] || [ "$3" != 0 ] || failed=$((failed + 1))
}

part_kills() {
        run client-kills "$build/tests/e2e/client_kills" "$build" 10000 judge
        run kernel-kills "$build/tests/e2e/kernel_kills" "$build" 68000
}
part_daemon() { run daemon-kills "$build/tests/e2e/daemon_kills" "$build" 100 judge; }
part_hostile() {
        local t
        for t in "$build"/tests/e2e/hostile_*; do
                [ -x "$t" ] && DETSHARE_SOAK=1 run "$(basename "$t")" "$t" "$build"
        done
}
# the part `failures` tests every call that a client makes the daemon execute; `make test` tests the first two calls
# only
part_failures() { DETSHARE_SOAK=1 run failures "$build/tests/e2e/failures" "$build"; }
part_endless() { run endless "$build/tests/e2e/endless_kernel" "$build" long; }
part_churn() { run churn "$build/tests/soak" "$build" churn 60; }
part_idle() { run idle "$build/tests/soak" "$build" idle 1000; }
part_deaths() { run deaths "$build/tests/soak" "$build" deaths $((minutes < 5 ? minutes * 12 : 60)); }
# the part `steady` gets the rest of the time
part_steady() {
        local left=$((minutes * 60 - ($(date +%s) - start)))
        run steady "$build/tests/soak" "$build" steady $((left < 30 ? 30 : left))
}

for part in $parts; do
        "part_$part"
done
echo
echo "| part | process | RSS KiB, first | last | most | KiB/h | descriptors | threads |"
echo "|---|---|---|---|---|---|---|---|"
cat "$logs"/*.log | grep -a '^| '
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
