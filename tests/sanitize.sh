#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The sanitizer gate: every unit test again under AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer. A test
# passes if it exits 0 and no sanitizer wrote a report; the gate itself is proven first by programs that must turn it red.
#
# usage: tests/sanitize.sh BUILD   (the sanitized build lies in BUILD/asan)
set -u
cd "$(dirname "$0")/.."
build=$1/asan
reports=$build/reports
rm -rf "$reports"
mkdir -p "$reports"
passed=0
failed=0

# gate NAME COMMAND...: 0 if it exits 0 and leaves no report
gate() {
        local name=$1 dir=$reports/$1
        shift
        mkdir -p "$dir"
        ASAN_OPTIONS="log_path=$dir/asan:detect_leaks=1:abort_on_error=1:allocator_may_return_null=1" \
                UBSAN_OPTIONS="log_path=$dir/ubsan:halt_on_error=1:print_stacktrace=1" \
                timeout 300 "$@" >"$dir.log" 2>&1 || return 1
        [ -z "$(ls -A "$dir")" ]
}

for proof in leak overrun overflow; do
        if gate "proof-$proof" env DETSHARE_PROOF="$proof" "$build/tests/gate/proof"; then
                echo "FAIL gate: a program with a deliberate $proof passed"
                failed=$((failed + 1))
        else
                passed=$((passed + 1))
        fi
done
if gate proof-clean "$build/tests/gate/proof"; then
        passed=$((passed + 1))
else
        echo "FAIL gate: a clean program did not pass"
        failed=$((failed + 1))
fi

# One job: with more, Criterion's own runner leaks a record when tests end in another order than they began. So two
# programs run at a time instead.
for t in "$build"/tests/unit/test_*; do
        name=$(basename "$t")
        while [ "$(jobs -rp | wc -l)" -ge 2 ]; do
                wait -n
        done
        { gate "$name" "$t" --jobs 1 --timeout 200 && : >"$reports/$name.good"; } &
done
wait
for t in "$build"/tests/unit/test_*; do
        name=$(basename "$t")
        if [ -e "$reports/$name.good" ]; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
                echo "FAIL $name ($reports/$name)"
                cat "$reports/$name"/* 2>/dev/null | head -n 15
                tail -n 5 "$reports/$name.log"
        fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
