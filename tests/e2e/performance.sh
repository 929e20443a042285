#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# From the benches on a GPU to docs/performance.md: the generator with figures whose page is known, and then parts of
# tests/bench/gpu.sh on a simulated device, whose files must become rows of a page. Times say nothing about a GPU.
# Ends with `N passed, N failed`.
#
# usage: tests/e2e/performance.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-performance-test.XXXXXX)
. tests/support/counted.sh
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"

check "figures whose page is known" python3 tests/bench/check_performance.py
export DETSHARE_TEST_DEVICE=sim:h200 BENCH_OUT=$tmp/out BENCH_SCALE=0.01 BENCH_ROUNDS=2 BENCH_CLIENT_SECONDS=1 BENCH_IDLE_SECONDS=1
check "two parts of the bench run" timeout -k 5 120 tests/bench/gpu.sh "$build" figures clients
# figures PART SIDE FIGURE: number of values
figures() {
        grep -cE "^[0-9]+,$2,$3,[0-9.]+," "$tmp/out/$1.csv"
}
check "every round has its figures" test "$(figures figures detshare launch_sync_p50) $(figures figures detshare alloc_1GiB) $(figures clients detshare clients_8_launches)" = "2 2 2"
check "the processor time of a launch is split by process" test "$(figures clients detshare 'clients_1_cpu_(client|worker|superv)')" = 6
check "the machine is named" grep -q '^device,sim:h200$' "$tmp/out/machine.csv"
touch "$tmp/README.md"
page() {
        tests/bench/performance.py --doc "$tmp/docs/page.md" --readme "$tmp/README.md" "$@"
}
mkdir "$tmp/docs"
check "the files give a page" page --simulated --from "$tmp/out"
check "with the launches of 8 clients" grep -qE '^\| launches of 8 clients for some seconds \| - \| [0-9,]+/s ' "$tmp/docs/page.md"
check "with each size of an allocation" test "$(grep -c '^| `cuMemAlloc`, ' "$tmp/docs/page.md")" = 6
check "the page is what the kept figures give" page --check
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
