#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the targets under AFL++, one per processor at a time, beginning with the corpus in the tree. Results are in
# BUILD/afl/NAME/default/{crashes,hangs,queue}.
#
# usage: tests/fuzz/afl.sh deps | BUILD SECONDS [NAME,NAME...]
set -u
cd "$(dirname "$0")/../.."
if [ "$1" = deps ]; then
        command -v afl-clang-fast >/dev/null && exit 0
        echo "fuzz-afl: installing with apt: afl++"
        sudo=
        [ "$(id -u)" = 0 ] || sudo=sudo
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends afl++ >/dev/null
        exit
fi
build=$1
seconds=$2
only=${3:-}
jobs=${JOBS:-$(nproc)}
out=$build/afl
rm -rf "$out"
mkdir -p "$out"
export AFL_NO_UI=1 AFL_SKIP_CPUFREQ=1 AFL_NO_AFFINITY=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_FORKSRV_INIT_TMOUT=20000
export ASAN_OPTIONS=abort_on_error=1:symbolize=0:detect_leaks=0:allocator_may_return_null=1
export UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:symbolize=0

one() {
        local dict
        dict=$(tests/fuzz/dict.sh "$1" "$out")
        # shellcheck disable=SC2086
        nice -n 19 afl-fuzz -V "$seconds" -t 5000 -m none ${dict:+-x $dict} -i "tests/fuzz/corpus/$1" -o "$out/$1" \
                -- "$build/tests/fuzz/fuzz_$1" >"$out/$1.log" 2>&1
        echo $? >"$out/$1.status"
}

names=
for target in "$build"/tests/fuzz/fuzz_*; do
        name=${target##*/fuzz_}
        [ "$name" != proof ] || continue
        [ -z "$only" ] || [[ ",$only," == *",$name,"* ]] || continue
        names="$names $name"
        while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
                wait -n
        done
        one "$name" &
done
wait

status=0
printf '%-10s %12s %8s %8s %8s %8s\n' target executions exec/s edges corpus crashes
for name in $names; do
        field() { sed -n "s/^$1 *: *//p" "$out/$name/default/fuzzer_stats" 2>/dev/null; }
        crashes=$(find "$out/$name/default/crashes" "$out/$name/default/hangs" -name 'id:*' 2>/dev/null | wc -l)
        printf '%-10s %12s %8s %8s %8s %8s\n' "$name" "$(field execs_done)" "$(field execs_per_sec)" "$(field edges_found)" \
                "$(field corpus_count)" "$crashes"
        if [ "$(cat "$out/$name.status")" != 0 ] || [ "$crashes" -gt 0 ]; then
                status=1
                tail -n 5 "$out/$name.log"
        fi
done
[ -n "$names" ] || { echo "fuzz-afl: there is no target${only:+ named $only}"; status=1; }
exit $status
