#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The bench of first calls (tests/bench/first_times.py) on a simulated device: every cheap group measures all its rows
# in both stages, without an error, and the tables are those of the samples. The times say nothing about a GPU.
# Ends with `N passed, N failed`.
#
# usage: tests/e2e/first_times.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-first-test.XXXXXX)
. tests/support/counted.sh
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"
export TMPDIR=$tmp DETSHARE_TEST_DEVICE=sim:h200
groups=start,modules,eager,libraries,ptx,graphs,memory,pool,objects

first() {
        timeout -k 5 120 tests/bench/first_times.py --build "$build" "$@" </dev/null
}

# rejected STATUS COMMAND...: whether the command ends with this status
rejected() {
        local want=$1
        shift
        "$@"
        [ $? = "$want" ]
}

check "every group runs" first --quick --rounds 1 --rows "$groups" --out "$tmp/out"
cat >"$tmp/rows.py" <<'END'
"""Checks the table: each row has a time in both stages, and each group is there."""
import csv
import sys

with open(sys.argv[1], newline="", encoding="utf-8") as file:
    lines = list(csv.DictReader(file))
stages, wrong = {}, []
for line in lines:
    stages.setdefault((line["group"], line["row"]), set()).add(line["stage"])
    if not line["detshare_us"].replace(".", "", 1).isdigit() or line["native_us"] or line["detshare_runs"] != "1":
        wrong.append(line)
wrong += [key for key, found in stages.items() if found != {"cold", "again"}]
wrong += sorted(set(sys.argv[2].split(",")) - {group for group, _ in stages})
print("\n".join(str(each) for each in wrong))
sys.exit(1 if wrong else 0)
END
check "each row has a time in both stages" python3 "$tmp/rows.py" "$tmp/out/table.csv" "$groups"
check "it has the rows of graphs, memory and PTX" test "$(grep -cE '^(graphs,graph.100.update|memory,free.cuMemHostRegister.1MiB|ptx,module.ptx_16KiB.load),' \
        "$tmp/out/table.csv")" = 6
python3 -c 'import lzma, sys; lzma.open(sys.argv[2], "wb").write(open(sys.argv[1], "rb").read())' "$tmp/out/samples.csv" "$tmp/out/samples.csv.xz"
check "the samples give the same table" first --from "$tmp/out/samples.csv.xz" --out "$tmp/again" --write "$tmp/again/page.md"
check "equal files" cmp "$tmp/out/table.csv" "$tmp/again/table.csv"
check "a document has the table" grep -q '^| `graph.100.update` | - | [0-9.]* [mu]s | - |' "$tmp/again/page.md"
check "it names the simulated device" grep -q '^On sim:h200: the times say nothing about a GPU' "$tmp/again/page.md"
check "no time, nothing measured: status 3" rejected 3 first --rows start --limit 0
first --rows start,pools >"$tmp/said" 2>&1
result "an unknown group: status 2" $(($? == 2 ? 0 : 1)) "$tmp/said"
check "it names the groups" grep -q "pools: accepted are all and start, modules" "$tmp/said"
# a run that would go on for long ends with SIGTERM, with its daemon and its programs
timeout -k 5 120 tests/bench/first_times.py --build "$build" --quick --rounds 100000 --rows modules,graphs --out "$tmp/long" \
        >"$tmp/said" 2>&1 </dev/null &
long=$!
for _ in $(seq 600); do
        grep -qs '^graphs,' "$tmp/long/table.csv" && break
        sleep 0.1
done
kill -TERM $long
wait $long
result "SIGTERM: status 1" $(($? == 1 ? 0 : 1)) "$tmp/said"
left() {
        for _ in $(seq 100); do
                pgrep -f "$tmp/detshare-first" >/dev/null || return 0
                sleep 0.1
        done
        pgrep -af "$tmp/detshare-first"
        return 1
}
check "it leaves no process" left
rm -rf "$tmp/out" "$tmp/again" "$tmp/long" "$tmp/rows.py" "$tmp/said"
check "it leaves no file" test "$(ls -A "$tmp")" = check
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
