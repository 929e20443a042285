#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The scripts that measure coloured memory on a GPU (tests/gpu/pool.sh, tests/eval/channels_gpu.py) run, print their
# results, and continue an interrupted measurement. They run on a simulated device here, so the figures have no
# meaning. Prints `N passed, N failed` last.
#
# usage: tests/e2e/channels_gpu.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-channels-gpu.XXXXXX)
. tests/support/counted.sh
trap 'rm -rf "$tmp"' EXIT

LIMIT=600 tests/gpu/pool.sh "$build" sim:a2000 "$tmp/logs" 2+table >"$tmp/pool" 2>&1
result "a daemon with a pool serves" $? "$tmp/pool"
check "pool.sh prints the time until the daemon serves" grep -q "^2+table  *serves after  *[0-9.]* s .*2 of 6 for best effort" "$tmp/pool"
check "status names the table that told the channels" grep -q "table sim-a2000.lut (simulated) for 1 pages, 0 probed in full" "$tmp/logs/2.table.status"
check "the log has the time of finding channels" grep -q "^ *[0-9.]*  .*found in [0-9]* ms (.*finding channels [0-9]*" "$tmp/logs/2.table.log"

# measure [OPTION...]: runs channels_gpu.py with one service and one job
measure() {
        timeout 600 python3 -B tests/eval/channels_gpu.py --build "$build" --packs tests/offline/packs --device sim:a2000 --ls tiny-mlp --be tiny-bert --shares 1/3 \
                --colours off,both --bounds 0,8 --seconds 0.001 --pool-mib 4 --memory-bound all --state "$tmp/found.csv" --limit 0 "$@"
}
measure --rounds 1 >"$tmp/out" 2>&1
result "packs are measured beside each other" $? "$tmp/out"
check "each cell has a line" [ "$(grep -c '^all pairs, be=1/3 (2 of 6 channels), ' "$tmp/out")" = 4 ]
check "services and jobs are measured alone and together" [ "$(cut -d, -f 8,9 "$tmp/found.csv" | sort | uniq -c | awk '{ print $2, $1 }' | tr '\n' ' ')" = "be,be 2 end, 1 ls,ls 2 phase,program 1 together,be 4 together,ls 4 " ]
cp "$tmp/found.csv" "$tmp/before.csv"
measure --rounds 1 >"$tmp/out" 2>&1
result "a second run ends with 0" $? "$tmp/out"
check "a second run measures nothing again" cmp "$tmp/found.csv" "$tmp/before.csv"
check "a second run prints the same table" [ "$(grep -c '^all pairs, ' "$tmp/out")" = 4 ]
python3 -B tests/eval/channels_gpu.py --show "$tmp/found.csv" >"$tmp/out" 2>&1
check "--show prints lines for each pair" [ "$(grep -c '^tiny-mlp+tiny-bert, be=1/3, ' "$tmp/out")" = 4 ]

echo "$passed passed, $failed failed"
[ $failed = 0 ]
