#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The sanitizer gate: a command under AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer. It passes if it exits 0 and
# no process that it started, itself or through others, wrote a report: every report is a file here, whoever wrote it.
# With --proof the gate itself is tried, on programs that must turn it red.
#
# usage: tests/sanitize.sh BUILD NAME COMMAND...   (the sanitized build lies in BUILD/asan; the reports in its reports/NAME)
#        tests/sanitize.sh BUILD --proof
set -u
cd "$(dirname "$0")/.." || exit
build=$1/asan
reports=$(realpath "$build")/reports
shift
passed=0
failed=0

# gate NAME COMMAND...: 0 if it exits 0 and leaves no report
gate() {
        local dir=$reports/$1
        shift
        rm -rf "$dir"
        mkdir -p "$dir"
        ASAN_OPTIONS="log_path=$dir/asan:detect_leaks=1:abort_on_error=1:allocator_may_return_null=1" \
                UBSAN_OPTIONS="log_path=$dir/ubsan:halt_on_error=1:print_stacktrace=1" \
                timeout 300 "$@" >"$dir.log" 2>&1 || return 1
        [ -z "$(ls -A "$dir")" ]
}

# red NAME COMMAND...: a proof
red() {
        if gate "proof-$1" "${@:2}"; then
                echo "FAIL gate: it did not see the deliberate $1"
                failed=$((failed + 1))
        else
                passed=$((passed + 1))
        fi
}

proof() {
        for error in leak overrun overflow; do
                red "$error" env DETSHARE_PROOF="$error" "$build/tests/gate/proof"
        done
        if gate proof-clean "$build/tests/gate/proof"; then
                passed=$((passed + 1))
        else
                echo "FAIL gate: a clean program did not pass"
                failed=$((failed + 1))
        fi
        echo "$passed passed, $failed failed"
        [ "$failed" = 0 ]
}

if [ "$1" = --proof ]; then
        proof
        exit
fi
gate "$@" && exit
status=$?
echo "FAIL $1 ($reports/$1)"
cat "$reports/$1"/* 2>/dev/null | head -n 40
tail -n 10 "$reports/$1.log"
exit $status
