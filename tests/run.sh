#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run every test that needs no GPU. Suites:
#   tree      checks of the source tree: tests/tree/*.sh, and *.py that are programs
#   plain     unit tests on the plain build that tests/unit/plain.txt names
#   sanitize  unit tests and tests/e2e/sanitized.txt under AddressSanitizer and UndefinedBehaviorSanitizer
#   race      tests/race under ThreadSanitizer
#   e2e       tests/e2e: programs and scripts that start daemons of their own
#   unit      every unit test on the plain build; runs only on request
#
# Prints one line per test with its seconds, then the skipped parts and their number, and last `N passed, N failed`.
# Exits with 1 if any failed. A test that prints no count, crashes or hangs is one failure.
#
# usage: tests/run.sh BUILD [SUITE ...]   (default: all but unit)
#        TEST_JOBS=N             tests that run at a time (default: processors + 1, at most 9), and as many of those that
#                                mostly wait
#        DETSHARE_TEST_WHOLE=1   all random rounds and the long parts of tests (make test WHOLE=1)
#
# A test needs no line here: every tests/unit/*.c, tests/race/*.c, tests/e2e/*.c and executable tests/e2e/*.sh is one.
# Programs of tests/e2e get BUILD as their argument, and end with `N passed, N failed`. tests/e2e/sanitized.txt names
# those that run a second time, on BUILD/asan, and with how many rounds.
#
# What a test cannot do as this user or on this machine, it skips: a line `SKIP part: needs ...`, counted apart.
#
# Tests run beside others: none may depend on the machine's speed, on being alone, or on a path or port that others use.
# One that takes more than 5 seconds belongs into `slow` below, longest first; one that needs a processor for less than
# half of its time, into `waiting`. More than 60 seconds is too long: the long form belongs into `make soak`.
set -u
cd "$(dirname "$0")/.." || exit
build=$1
shift
suites=${*:-tree plain sanitize race e2e}
logs=$build/test-logs
mkdir -p "$build"
# a lock, because two runs would remove each other's logs
exec 8>"$build/test-logs.lock"
flock -n 8 || { echo "tests/run.sh: another run writes $logs: wait until it has ended" >&2; exit 2; }
rm -rf "$logs"
mkdir -p "$logs"
place=$(tests/support/place.sh "$build" 8>&-) || exit
[ -z "$place" ] || trap 'rm -rf "$place"' EXIT
export DETSHARE_TEST_PLACE=$place
# number of random histories and texts: a few in each run, more in `make test-plain` and `make test WHOLE=1`
[ -z "${DETSHARE_TEST_WHOLE:-}" ] || : "${DETSHARE_TEST_ROUNDS:=60}" "${PTX_FUZZ_ROUNDS:=20000}"
export DETSHARE_TEST_ROUNDS=${DETSHARE_TEST_ROUNDS:-10} PTX_FUZZ_ROUNDS=${PTX_FUZZ_ROUNDS:-4000}
# limit of tests at a time: what the temporary folder, memory and process table of one machine can bear
slots=${TEST_JOBS:-$(($(nproc) < 9 ? $(nproc) + 1 : 9))}

waiting="asan-test_supervisor_life asan-test_supervisor_deaths asan-test_oom_supervisor e2e-worker_death e2e-ctl asan-e2e-ctl
asan-test_supervisor_rights e2e-screen e2e-handover_fair e2e-serve e2e-hostile_frames asan-test_cuda_graph asan-test_core_memory"
slow="e2e-demo e2e-channels asan-test_cuda_work e2e-eval e2e-fake_gpu e2e-calibrate e2e-programs asan-e2e-daemon_kills asan-e2e-handover e2e-daemon_kills
test_ptx_roundtrip e2e-replay e2e-lut asan-test_policy_detshare_felt asan-test_policy_attacks asan-test_lut_learn asan-test_worker_graph_cuda
asan-e2e-programs asan-test_device_errors_cuda e2e-code_cache e2e-transform asan-test_replay e2e-interp_corpus asan-e2e-core asan-e2e-runtime
asan-test_cuda_device race-device_race e2e-hostile_crowd e2e-hostile_contents test_sim_long e2e-channels_gpu asan-test_policy_peers_kernels asan-test_policy_detshare
e2e-bimodal asan-test_cuda_forms asan-test_device_errors asan-test_ptx_tool asan-test_ptx_colour_trace e2e-runtime asan-test_worker_random_quiesce
asan-test_cuda_load asan-test_worker_random test_lut_learn asan-test_sim_share e2e-performance e2e-first_times"

# note NAME PASSED FAILED [FILE]: prints the test's line and the end of its output in one write, because other tests
# print here too
note() {
        local seconds=$(((${EPOCHREALTIME/[.,]/} - started) / 100000)) text
        seconds=$((seconds / 10)).$((seconds % 10))
        if [ "$3" -gt 0 ]; then
                text=$(printf 'FAIL %-44s %5d passed %6s s, %d failed   (%s)' "$1" "$2" "$seconds" "$3" "$logs/$1.log")
                [ -z "${4:-}" ] || text=$text$'\n'$(head -c 3000 "$4")
        else
                text=$(printf 'ok   %-44s %5d passed %6s s' "$1" "$2" "$seconds")
        fi
        printf '%s\n' "$text"
        echo "$2 $3" >"$logs/$1.result"
        # processor time of the test's processes, from which the lists above are made
        times >"$logs/$1.times"
}

# criterion NAME COMMAND...: runs a Criterion program and counts its tests by its last line, e.g. "Synthesis: Tested:
# 5 | Passing: 4 | Failing: 1 | Crashing: 0"
criterion() {
        local name=$1 log ok all status
        log=$logs/$name.log
        shift
        timeout 900 "$@" >"$log" 2>&1
        status=$?
        ok=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | sed -n 's/.*Synthesis: Tested: \([0-9]*\) | Passing: \([0-9]*\) .*/\2/p' | tail -n 1)
        all=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | sed -n 's/.*Synthesis: Tested: \([0-9]*\) | Passing: \([0-9]*\) .*/\1/p' | tail -n 1)
        # Criterion does not count skipped tests
        if [ -z "$ok" ] || { [ "$all" = 0 ] && ! grep -q -a '^SKIP ' "$log"; } || { [ "$status" -ne 0 ] && [ "$ok" = "$all" ]; }; then
                note "$name" "${ok:-0}" 1 <(tail -n 20 "$log")
        else
                note "$name" "$ok" $((all - ok)) <(grep -a -E 'FAIL|CRASH|assert|Unexpected|error' "$log" | head -n 20)
        fi
}

# script NAME COMMAND...: runs a test and counts its checks; its output ends with "N passed, N failed"
script() {
        local name=$1 line
        shift
        timeout 900 "$@" >"$logs/$name.log" 2>&1
        local status=$?
        line=$(grep -a -E '^[0-9]+ passed, [0-9]+ failed' "$logs/$name.log" | tail -n 1)
        if [ -z "$line" ]; then
                note "$name" 0 1 <(tail -n 20 "$logs/$name.log")
                return
        fi
        # shellcheck disable=SC2086
        set -- $line
        if [ "$status" -ne 0 ] && [ "$3" = 0 ]; then
                note "$name" "$1" 1 <(tail -n 20 "$logs/$name.log")
        else
                note "$name" "$1" "$3" <(grep -a -E '^(FAIL|not ok)' "$logs/$name.log" | head -n 20)
        fi
}

plain() {
        local name=$1
        shift
        if timeout 900 "$@" >"$logs/$name.log" 2>&1; then
                note "$name" 1 0
        else
                note "$name" 0 1 <(tail -n 20 "$logs/$name.log")
        fi
}

# queue KIND NAME COMMAND...: adds one test to the suite; KIND is criterion, script or plain
names=()
declare -A commands
queue() {
        names+=("$2")
        commands[$2]=$(printf '%q ' "$@")
}

suite_tree() {
        for t in tests/tree/*.sh; do
                queue plain "$(basename "$t" .sh)" "$t" "$build"
        done
        # a Python check that counts says so in its essay
        for t in tests/tree/*.py; do
                [ -x "$t" ] && grep -q 'N passed, N failed' "$t" &&
                        queue script "$(basename "$t" .py)" "$t"
        done
}

suite_unit() {
        for t in "$build"/tests/unit/test_*; do
                queue criterion "$(basename "$t")" "$t" --jobs 2 --timeout 280
        done
}

# plain_names WHEN...: tests that tests/unit/plain.txt names, as patterns for case
plain_names() {
        local name when why
        while read -r name when why; do
                [[ $name == \#* || " $* " != *" $when "* ]] || printf '%s ' "$name"
        done <tests/unit/plain.txt
}

# one_of NAME PATTERN...: succeeds if one of the patterns matches the name
one_of() {
        local name=$1 pattern
        shift
        for pattern; do
                # shellcheck disable=SC2053
                [[ $name != $pattern ]] || return 0
        done
        return 1
}

suite_plain() {
        read -r -d '' -a patterns <<<"$(plain_names too only)"
        for t in tests/unit/test_*.c; do
                name=$(basename "$t" .c)
                ! one_of "$name" "${patterns[@]}" || queue criterion "$name" "$build/tests/unit/$name" --jobs 2 --timeout 280
        done
}

# A leak does not fail a Criterion test by itself: the gate is "no report file was written", and it is proven first by
# programs that must turn it red. One job: with more, Criterion's own runner leaks a record when tests end in another
# order than they began.
suite_sanitize() {
        queue script sanitizer-proof tests/sanitize.sh "$build" --proof
        read -r -d '' -a patterns <<<"$(plain_names only)"
        for t in "$build"/asan/tests/unit/test_*; do
                name=$(basename "$t")
                one_of "$name" "${patterns[@]}" ||
                        queue criterion "asan-$name" tests/sanitize.sh "$build" "$name" "$t" --jobs 1 --timeout 280
        done
        while read -r name rounds; do
                t=tests/e2e/$name.sh
                [ -x "$t" ] || t=$build/asan/tests/e2e/$name
                # shellcheck disable=SC2086
                queue plain "asan-e2e-$name" tests/sanitize.sh "$build" "e2e-$name" "$t" "$build/asan" $rounds
        done < <(grep -v '^#' tests/e2e/sanitized.txt)
}

suite_race() {
        for t in "$build"/tests/race/*; do
                [ -x "$t" ] && queue plain "race-$(basename "$t")" "$t"
        done
}

suite_e2e() {
        for t in tests/e2e/*.sh "$build"/tests/e2e/*; do
                [ -x "$t" ] && queue script "e2e-$(basename "$t" .sh)" "$t" "$build"
        done
}

# a suite without tests was not built, or its name is wrong
for suite in $suites; do
        before=${#names[@]}
        "suite_$suite"
        [ ${#names[@]} -gt "$before" ] || queue plain "$suite" false
done

# lane NAME...: runs those of the named tests that exist, in this order, at most $slots at a time
lane() {
        for name; do
                [ -n "${commands[$name]:-}" ] || continue
                while [ "$(jobs -rp | wc -l)" -ge "$slots" ]; do
                        wait -n
                done
                { started=${EPOCHREALTIME/[.,]/} && eval "${commands[$name]}"; } 8>&- &
        done
        wait
}

# the longest tests start first, so that none of them runs alone at the end
read -r -d '' -a first <<<"$slow"
read -r -d '' -a beside <<<"$waiting"
rest=()
for name in "${names[@]}"; do
        [[ " ${first[*]} ${beside[*]} " == *" $name "* ]] || rest+=("$name")
done
lane "${beside[@]}" &
lane "${first[@]}" "${rest[@]}" &
wait

passed=0
failed=0
for name in "${names[@]}"; do
        read -r p f <"$logs/$name.result" || { p=0 f=1 && echo "FAIL $name left no result"; }
        passed=$((passed + p))
        failed=$((failed + f))
done
skips=0
for name in "${names[@]}"; do
        while read -r line; do
                [ $skips != 0 ] || echo
                skips=$((skips + 1))
                printf 'SKIP %-44s %s\n' "$name" "${line#SKIP }"
        done < <(grep -a '^SKIP ' "$logs/$name.log" 2>/dev/null | sort -u)
done
echo "$skips skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
