#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The sanitizer gate: runs a command under AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer. The command
# passes if it exits with 0 and none of its processes, direct or indirect, wrote a report. Each report is a file here,
# named after its program, independent of standard error and exit status. The gate misses leaks of processes that are
# killed or end with _exit. --proof tests the gate itself, with programs that must fail it.
#
# usage: tests/sanitize.sh BUILD NAME COMMAND...   (the sanitized build lies in BUILD/asan)
#        tests/sanitize.sh BUILD --proof
set -u
cd "$(dirname "$0")/.." || exit
build=$1/asan
# a directory that the unprivileged worker and helper can write to, for their reports
[ -n "${DETSHARE_TEST_PLACE+set}" ] || DETSHARE_TEST_PLACE=$(tests/support/place.sh "$1")
reports=${DETSHARE_TEST_PLACE:-$(realpath "$build")}/reports
shift
passed=0
failed=0

# once NAME COMMAND...: 0 if the command exits with 0 and leaves no report
once() {
        local dir=$reports/$1
        shift
        rm -rf "$dir"
        mkdir -p "$dir"
        chmod 1777 "$dir"
        # 32 MiB of freed memory are kept from reuse; that causes a third of the page faults that the default of 256
        # MiB causes. Reports show 12 callers of an allocation.
        ASAN_OPTIONS="quarantine_size_mb=32:malloc_context_size=12:log_path=$dir/asan:log_exe_name=1:detect_leaks=1:abort_on_error=1:allocator_may_return_null=1" \
                UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1" DETSHARE_UBSAN_LOG="$dir/ubsan" \
                timeout 600 "$@" >"$dir.log" 2>&1 || return 1
        [ -z "$(ls -A "$dir")" ]
}

# undecided NAME: 0 if LeakSanitizer itself failed in each process that wrote a report, so there is no verdict. Two
# causes are known: it reads thread-local storage of libraries that were loaded late and may be gone (a defect of the
# compiler's runtime); or the process was killed during the search, and a thread has no registers any more.
undecided() {
        local report
        for report in "$reports/$1"/*; do
                grep -q -e 'LeakSanitizer has encountered a fatal error' -e 'Unable to get registers from thread' "$report" 2>/dev/null || return 1
                ! grep -q -e 'ERROR: AddressSanitizer' -e 'detected memory leaks' -e 'runtime error' "$report" || return 1
        done
}

# gate NAME COMMAND...: like once; repeated at most twice while there is no verdict
gate() {
        once "$@" && return
        undecided "$1" && once "$@" && return
        undecided "$1" && once "$@"
}

# result WHAT STATUS: counts a check; STATUS 0 is a pass, otherwise WHAT is printed
result() {
        if [ "$2" = 0 ]; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
                echo "FAIL gate: $1"
        fi
}

# reported DEFECT: checks that each of DetShare's processes has reported this planted defect
reported() {
        local program report
        for program in detshared detshare-worker detshare-helper detsharectl saxpy; do
                for report in "$reports/processes-$1"/*san."$program".*; do
                        [ -s "$report" ]
                        result "nothing was heard of the deliberate $1 of $program" $?
                done
        done
}

proof() {
        local error word
        for error in leak overrun overflow; do
                ! gate "proof-$error" env DETSHARE_PROOF="$error" "$build/tests/gate/proof"
                result "it did not see the deliberate $error of a test" $?
                ! gate "processes-$error" env DETSHARE_PLANT="$error" tests/gate/processes.sh "$build"
                result "it did not see the deliberate $error of any process" $?
                reported "$error"
        done
        # failed assertions are reported by DetShare itself: their message must appear, and the test must fail
        for error in assertion expectations; do
                ! gate "proof-$error" env DETSHARE_PROOF="$error" "$build/tests/gate/proof"
                result "it did not see the deliberate $error of a test" $?
        done
        grep -q 'said of an assertion' "$reports/proof-assertion.log"
        result "a failed assertion did not say what it was given" $?
        [ "$(grep -c -e 'said of the first' -e 'said of the second' -e '(block) == (NULL) is false' -e '(top) < (1) is false' \
                "$reports/proof-expectations.log")" = 4 ]
        result "not all failed expectations were said" $?
        gate proof-clean "$build/tests/gate/proof"
        result "a clean test did not pass" $?
        gate processes-clean tests/gate/processes.sh "$build"
        result "clean processes did not pass" $?
        # LeakSanitizer fails the first time, so there is no verdict; the repeated run is clean or has a leak
        for word in "LeakSanitizer has encountered a fatal error." "Unable to get registers from thread 1."; do
                gate proof-undecided tests/gate/undecided.sh "$reports/tried" "$word" true
                result "it did not ask again where there was no verdict: $word" $?
                ! gate proof-undecided tests/gate/undecided.sh "$reports/tried" "$word" false
                result "it took the second verdict for a good one: $word" $?
        done
        ! gate proof-undecided tests/gate/undecided.sh "$reports/tried" "ERROR: AddressSanitizer: Unable to get registers from thread 1." true
        result "it took a verdict for none" $?
        rm -f "$reports/tried"
        # for ThreadSanitizer the gate is the exit status, not report files
        "${build%/asan}/tests/gate/race_proof" >"$build/race-proof.log" 2>&1
        [ $? = 66 ]
        result "ThreadSanitizer did not see a race" $?
        "${build%/asan}/tests/gate/race_proof" locked >>"$build/race-proof.log" 2>&1
        result "ThreadSanitizer saw a race where there is a lock" $?
        echo "$passed passed, $failed failed"
        [ "$failed" = 0 ]
}

if [ "$1" = --proof ]; then
        proof
        exit
fi
if gate "$@"; then
        # prints the number of tests, if the log has one
        grep -a 'Synthesis: ' "$reports/$1.log" | tail -n 1
        grep -a '^SKIP ' "$reports/$1.log"
        exit 0
fi
status=1
echo "FAIL $1: reports in $reports/$1, output in $reports/$1.log"
grep -a '^FAIL' "$reports/$1.log" | head -n 10
cat "$reports/$1"/* 2>/dev/null | head -n 60
tail -n 10 "$reports/$1.log"
exit $status
