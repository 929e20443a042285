#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run everything that needs no GPU and count it: unit tests plain and sanitized, race programs under ThreadSanitizer, end-to-end
# scripts against a real daemon, the tree's own checks. Ends with one line `N passed, N failed`; exit status 1 if any
# failed. A suite that prints no count, crashes or hangs counts as one failure.
#
# usage: tests/run.sh BUILD [suite ...]   (suites: unit sanitize race e2e tree; all without arguments)
set -u
cd "$(dirname "$0")/.."
build=$1
shift
suites=${*:-tree unit sanitize race e2e}
logs=$build/test-logs
rm -rf "$logs"
mkdir -p "$logs"
passed=0
failed=0
place=$(tests/support/place.sh "$build") || exit
[ -z "$place" ] || trap 'rm -rf "$place"' EXIT
export DETSHARE_TEST_PLACE=$place

note() {
        # note NAME PASSED FAILED
        passed=$((passed + $2))
        failed=$((failed + $3))
        if [ "$3" -gt 0 ]; then
                printf 'FAIL %-44s %5d passed, %d failed   (%s)\n' "$1" "$2" "$3" "$logs/$1.log"
        else
                printf 'ok   %-44s %5d passed\n' "$1" "$2"
        fi
}

# Criterion's last line, e.g. "Synthesis: Tested: 5 | Passing: 4 | Failing: 1 | Crashing: 0"
criterion() {
        local name=$1 bin=$2 log ok all status
        log=$logs/$name.log
        timeout 300 "$bin" --jobs 2 --timeout 120 >"$log" 2>&1
        status=$?
        ok=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | sed -n 's/.*Synthesis: Tested: \([0-9]*\) | Passing: \([0-9]*\) .*/\2/p' | tail -n 1)
        all=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | sed -n 's/.*Synthesis: Tested: \([0-9]*\) | Passing: \([0-9]*\) .*/\1/p' | tail -n 1)
        if [ -z "$ok" ] || [ "$all" = 0 ] || { [ "$status" -ne 0 ] && [ "$ok" = "$all" ]; }; then
                note "$name" "${ok:-0}" 1
                tail -n 20 "$log"
        else
                note "$name" "$ok" $((all - ok))
                [ "$ok" = "$all" ] || grep -a -E 'FAIL|CRASH|assert|Unexpected|error' "$log" | head -n 20
        fi
}

# Scripts end with "N passed, N failed".
script() {
        local name=$1 line
        shift
        timeout 600 "$@" >"$logs/$name.log" 2>&1
        local status=$?
        line=$(grep -a -E '^[0-9]+ passed, [0-9]+ failed' "$logs/$name.log" | tail -n 1)
        if [ -z "$line" ]; then
                note "$name" 0 1
                tail -n 20 "$logs/$name.log"
                return
        fi
        # shellcheck disable=SC2086
        set -- $line
        if [ "$status" -ne 0 ] && [ "$3" = 0 ]; then
                note "$name" "$1" 1
        else
                note "$name" "$1" "$3"
        fi
        [ "$status" = 0 ] || grep -a -E '^(FAIL|not ok)' "$logs/$name.log" | head -n 20
}

plain() {
        local name=$1
        shift
        if timeout 300 "$@" >"$logs/$name.log" 2>&1; then
                note "$name" 1 0
        else
                note "$name" 0 1
                tail -n 20 "$logs/$name.log"
        fi
}

suite_tree() {
        for t in tests/tree/*.sh; do
                plain "$(basename "$t" .sh)" "$t" "$build"
        done
}

suite_unit() {
        for t in "$build"/tests/unit/test_*; do
                criterion "$(basename "$t")" "$t"
        done
}

# A leak does not fail a Criterion test by itself: the gate is "no report file was written", and it is proven first by a
# test that leaks, one that overruns a buffer and one that overflows an integer on purpose.
suite_sanitize() {
        script sanitizer-gate tests/sanitize.sh "$build"
}

suite_race() {
        for t in "$build"/tests/race/*; do
                [ -x "$t" ] && plain "race-$(basename "$t")" "$t"
        done
}

suite_e2e() {
        for t in tests/e2e/*.sh "$build"/tests/e2e/*; do
                [ -x "$t" ] && script "e2e-$(basename "$t" .sh)" "$t" "$build"
        done
}

# a suite that ran nothing is one that was not built, or whose name is wrong
for suite in $suites; do
        echo "== $suite"
        before=$((passed + failed))
        "suite_$suite"
        [ $((passed + failed)) -gt "$before" ] || note "$suite" 0 1
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
