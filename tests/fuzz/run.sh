#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the libFuzzer targets, one per processor at a time, and prints a result for each. Failing inputs go to
# BUILD/artifacts, new inputs to BUILD/corpus; the corpus in the tree is only read.
#
# usage: tests/fuzz/run.sh BUILD SECONDS [NAME,NAME...]
set -u
cd "$(dirname "$0")/../.."
build=$1
seconds=$2
only=${3:-}
jobs=${JOBS:-$(nproc)}
artifacts=$build/artifacts
logs=$build/logs
mkdir -p "$artifacts" "$logs"
rm -f "$logs"/*
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:handle_abort=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1

# The time limit of an input is a second on an idle machine; fuzzing runs at low priority beside other work, so the
# limit here is much higher.
one() {
        local name=$1 dict more=
        mkdir -p "$build/corpus/$name" "tests/fuzz/corpus/$name"
        dict=$(tests/fuzz/dict.sh "$name" "$logs")
        # the corpora of the other PTX targets are useful inputs for the target `pass`, too
        [ "$name" != pass ] || more="tests/fuzz/corpus/interp tests/fuzz/corpus/ptx"
        # shellcheck disable=SC2086
        nice -n 19 "$build/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -max_len=65536 -timeout=60 -rss_limit_mb=512 \
                -malloc_limit_mb=320 -print_final_stats=1 -close_fd_mask=1 ${dict:+-dict=$dict} -artifact_prefix="$artifacts/$name-" \
                "$build/corpus/$name" "tests/fuzz/corpus/$name" $more >"$logs/$name.log" 2>&1
        echo $? >"$logs/$name.status"
}

names=
for target in "$build"/tests/fuzz/fuzz_*; do
        name=${target##*/fuzz_}
        [ "$name" != proof ] || continue # which is wrong on purpose
        [ -z "$only" ] || [[ ",$only," == *",$name,"* ]] || continue
        names="$names $name"
        while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
                wait -n
        done
        one "$name" &
done
wait

status=0
printf '%-10s %12s %8s %10s %10s %8s %8s\n' target executions exec/s edges features corpus crashes
for name in $names; do
        log=$logs/$name.log
        last=$(grep -a -E '^#[0-9]+.* cov: ' "$log" | tail -n 1)
        field() { sed -n "s/.* $1: \([0-9]*\).*/\1/p" <<<"$last"; }
        execs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
        rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log" | tail -n 1)
        crashes=$(find "$artifacts" -name "$name-*" ! -name '*slow-unit*' | wc -l)
        printf '%-10s %12s %8s %10s %10s %8s %8s\n' "$name" "${execs:--}" "${rate:--}" "$(field cov)" "$(field ft)" \
                "$(field corp)" "$crashes"
        if [ "$(cat "$logs/$name.status")" != 0 ] || [ "$crashes" -gt 0 ] || [ -z "$last" ]; then
                status=1
                grep -a -E 'ERROR|SUMMARY|does not hold|Assertion|runtime error|Test unit written' "$log" | head -n 8
        fi
done
[ -n "$names" ] || { echo "fuzz: there is no target${only:+ named $only}"; status=1; }
exit $status
