#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the corpus in the tree through every fuzz target of a sanitized build, so that fixed bugs stay fixed. First it
# proves that a replay can fail: a target that overruns a buffer for one input must fail.
#
# usage: tests/fuzz/replay.sh BUILD   (the sanitized build is in BUILD/asan)
set -u
cd "$(dirname "$0")/../.."
bin=$1/asan/tests/fuzz
passed=0
failed=0
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1:allocator_may_return_null=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

replay() {
        timeout 120 "$bin/fuzz_$1" "${@:2}" >"$logs/$1.log" 2>&1
}

count() {
        if [ "$1" = 0 ]; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
                echo "FAIL $2"
                tail -n 30 "$logs/$3.log" 2>/dev/null
        fi
}

printf 'overrun' >"$logs/bad"
printf 'leak' >"$logs/leak"
printf 'overru' >"$logs/good"
mkdir "$logs/empty"
replay proof "$logs/good"
count $? 'proof: a good input fails' proof
for bad in bad leak empty; do
        ! replay proof "$logs/$bad"
        count $? "proof: the replay of $bad passes" proof
done

jobs_max=$(nproc)
names=
for target in tests/fuzz/fuzz_*.c; do
        name=$(basename "$target" .c)
        name=${name#fuzz_}
        [ "$name" = proof ] && continue
        names="$names $name"
        while [ "$(jobs -rp | wc -l)" -ge "$jobs_max" ]; do
                wait -n
        done
        { replay "$name" "tests/fuzz/corpus/$name" && : >"$logs/$name.good"; } &
done
wait
for name in $names; do
        [ -e "$logs/$name.good" ]
        count $? "the corpus of $name" "$name"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
