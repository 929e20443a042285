#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Tests the rule of `shortest` with a replay: a service keeps its tail better than under fifo, the job still gets work
# done, and one BE kernel at most delays a request. Deterministic: virtual time, one seed.
# Prints `N passed, N failed` last.
set -u
cd "$(dirname "$0")" || exit
replay=${REPLAY:-detshare-replay}
passed=0
failed=0

check() {
        if [ "$2" -eq 1 ]; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
                echo "FAIL $1"
        fi
}

# run POLICY: prints the table of detshare-replay. field TABLE CLASS COLUMN: prints one figure of that table
run() {
        "$replay" --policy-dir . --policy "$1" --ls resnet34-b1@poisson:200 --be resnet152-train --duration 5s
}
fifo=$(run fifo) && shortest=$(run shortest) || { echo "FAIL detshare-replay"; echo "0 passed, 1 failed"; exit 1; }
field() {
        printf '%s\n' "$1" | awk -v class="$2" -v column="$3" '$2 == class { print $column; exit }'
}
p99_fifo=$(field "$fifo" ls 7)
p99_shortest=$(field "$shortest" ls 7)
steps=$(field "$shortest" be 5)
echo "p99 of the service: $p99_fifo ms under fifo, $p99_shortest ms under shortest; steps of the job: $steps (sim)"
check "the service's p99 is at most half of what it has under fifo" "$(awk "BEGIN { print ($p99_shortest <= $p99_fifo / 2) }")"
check "the job makes progress" "$(awk "BEGIN { print ($steps > 0) }")"
again=$(run shortest | sed -n '3,4p')
check "the same seed gives the same figures" "$([ "$again" = "$(printf '%s\n' "$shortest" | sed -n '3,4p')" ] && echo 1 || echo 0)"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
