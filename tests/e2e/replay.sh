#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# detshare-replay as its user calls it: tables, JSON, the same trace for the same seed, and messages and exit status
# for wrong input.
#
# usage: tests/e2e/replay.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(cd "$1" && pwd)
dir=$(mktemp -d /tmp/detshare-replay-XXXXXX)
trap 'rm -rf "$dir"' EXIT
replay=$build/detshare-replay
passed=0
failed=0

check() {
        # check TEXT COMMAND...: passes when the command succeeds
        local text=$1
        shift
        if "$@" >/dev/null 2>&1; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
                echo "FAIL $text"
        fi
}

# run TEXT ARGUMENT...: exits with 0 and an empty stderr; its output is in $dir/out
run() {
        local text=$1 status
        shift
        timeout 300 "$replay" "$@" >"$dir/out" 2>"$dir/err"
        status=$?
        check "$text: exit status $status $(head -n 2 "$dir/err")" test $status = 0
        check "$text: $(head -n 2 "$dir/err")" test ! -s "$dir/err"
}

# refused CODE PATTERN ARGUMENT...: exits with CODE, an empty stdout and one line with PATTERN on stderr
refused() {
        local code=$1 pattern=$2 got
        shift 2
        timeout 300 "$replay" "$@" >"$dir/out" 2>"$dir/err"
        got=$?
        check "$*: exit status $got, not $code" test "$got" = "$code"
        check "$*: $(wc -l <"$dir/err") lines: $(head -n 3 "$dir/err")" test "$(wc -l <"$dir/err")" = 1
        check "$*: $(head -n 1 "$dir/err")" grep -q -- "$pattern" "$dir/err"
        check "$*: words on stdout" test ! -s "$dir/out"
}

# holds EXPRESSION: the Python expression holds for the JSON (d) in $dir/out
holds() {
        check "$1" python3 -c "
import json, sys
d = json.load(open('$dir/out'))
sys.exit(0 if ($1) else 1)"
}

disb=tests/data/disb_real.json
load=(--ls "resnet34-b1@$disb,id=vgg19_rt,slo=10ms" --be resnet152-train --duration 2s)

# --- comparison of policies -----------------------------------------------------------------------------------
run "compare" "${load[@]}" --compare fifo,multistream,be_depth=2,static,ls_percent=25
check "the output says that figures are simulated" grep -q "every figure is a simulator's (sim)" "$dir/out"
check "the table has its columns" grep -Eq '^policy +session +arrived +ended +p50 ms +p99 ms +max ms p99/alone +in SLO +steps/s of alone$' "$dir/out"
check "the table of costs has its columns" grep -Eq '^policy +GPU busy +kernels +decisions +real s +kernels/s \(sim\)$' "$dir/out"
for policy in fifo multistream,be_depth=2 static,ls_percent=25; do
        check "$policy: a row per session, with numbers" test "$(awk -v p="$policy" \
                '$1 == p && ($2 == "ls" || $2 == "be") && NF == 12 && $4 > 0 && $5 > 0 && $6 > 0 && $7 >= $6 && $8 >= $7 && $9 >= 0.9 {n++} END {print n}' \
                "$dir/out")" = 2
        check "$policy: a row of costs" test "$(awk -v p="$policy" '$1 == p && NF == 6 && $3 > 10000 && $4 > 10000 && $6 > 0 {n++} END {print n}' "$dir/out")" = 1
done
run "json" "${load[@]}" --compare fifo,multistream,static --json
holds "d['simulated'] is True and d['device'] == 'sim:h200' and d['duration_s'] == 2.0 and d['seed'] == 1"
holds "[r['policy'] for r in d['runs']] == ['fifo', 'multistream', 'static']"
holds "all(r['fallbacks'] == 0 and r['kernels'] == sum(s['kernels'] for s in r['sessions']) for r in d['runs'])"
holds "all(s['source'] == 'synthesised from quantiles measured on an H200' for r in d['runs'] for s in r['sessions'])"
holds "d['runs'][2]['sessions'][0]['p99_ms'] < d['runs'][1]['sessions'][0]['p99_ms'] < d['runs'][0]['sessions'][0]['p99_ms']"
holds "d['runs'][2]['sessions'][1]['steps_of_alone'] < 0.8 < d['runs'][1]['sessions'][1]['steps_of_alone'] <= 1"
holds "all(0 < r['sessions'][0]['in_slo_percent'] <= 100 for r in d['runs'])"
run "latencies" "${load[@]}" --no-alone --latencies
holds "all(len(s['latencies_ms']) == s['ended'] > 0 and s['latencies_ms'] == sorted(s['latencies_ms']) for r in d['runs'] for s in r['sessions'])"
holds "all(s['max_ms'] == s['latencies_ms'][-1] for r in d['runs'] for s in r['sessions'])"
run "no alone" "${load[@]}" --no-alone --json
holds "'p99_over_alone' not in d['runs'][0]['sessions'][0] and d['runs'][0]['policy'] == 'multistream'"

# --- profiles known from the start ----------------------------------------------------------------------------
run "learning" "${load[@]}" --policy detshare --no-alone --json
cp "$dir/out" "$dir/learning"
run "profiled" "${load[@]}" --policy detshare --no-alone --json --profiled
check "known profiles change the policy's decisions" test "$(grep -v real_s "$dir/out" | cksum)" != "$(grep -v real_s "$dir/learning" | cksum)"
holds "d['runs'][0]['fallbacks'] == 0 and d['runs'][0]['sessions'][1]['steps_per_s'] > 1"

# --- same seed, same trace ------------------------------------------------------------------------------------
random=(--ls resnet34-b1@poisson:300 --be llama-1b-decode --duration 300ms --no-alone)
for end in txt json; do
        run "trace" "${random[@]}" --seed 5 --trace "$dir/a.$end"
        run "trace" "${random[@]}" --seed 5 --trace "$dir/b.$end"
        run "trace" "${random[@]}" --seed 6 --trace "$dir/c.$end"
        check "the same seed gives the same trace" cmp "$dir/a.$end" "$dir/b.$end"
        check "another seed gives another trace" test "$(cmp -s "$dir/a.$end" "$dir/c.$end"; echo $?)" = 1
done
check "the trace has launches and ends" awk '$1 == "launch" && $5 ~ /^rung=/ {l++} $1 == "end" && $5 ~ /^start=/ {e++}
        END {exit !(l + e == NR && e > 20000 && l >= e)}' "$dir/a.txt"
cp "$dir/a.json" "$dir/out"
holds "sum(e['ph'] == 'M' for e in d) == 2 and sum(e['ph'] == 'X' and e['dur'] > 0 for e in d) == len(d) - 2 > 20000"

# --- files by an attacker -------------------------------------------------------------------------------------
printf 'detshare-profile 1\n\033[2J\233x y\n' >"$dir/hostile.profile"
"$build/detshare-replay" --be "$dir/hostile.profile" >"$dir/hostile" 2>&1
check "the message names line 2 and the unknown word" grep -q 'line 2: .*unknown' "$dir/hostile"
check "no control byte of the file reaches the terminal" test "$(LC_ALL=C tr -d '\n -~' <"$dir/hostile" | wc -c)" = 0

# --- workloads of every kind ----------------------------------------------------------------------------------
run "list" --list
check "--list prints eleven workloads" test "$(wc -l <"$dir/out")" = 11
cut -d' ' -f1 "$dir/out" >"$dir/names"
while read -r name; do
        run "$name" --workload "$name"
        cp "$dir/out" "$dir/$name.profile"
        run "$name from its file" --be "$dir/$name.profile" --duration 100ms --no-alone --json
        holds "d['runs'][0]['kernels'] > 100"
done <"$dir/names"
cat >"$dir/table.csv" <<'EOF'
Start (ns),Duration (ns),GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,Name
0,2000,64,1,1,256,1,1,32,"void first<int, 2>(float *)"
0,50000,,,,,,,,"[CUDA memcpy HtoD]"
0,8000,528,1,1,128,1,1,40,second
EOF
run "a table" --ls "$dir/table.csv@uniform:1000,name=service" --duration 1s --no-alone --json
holds "d['runs'][0]['kernels'] == 2 * 999 and d['runs'][0]['sessions'][0]['name'] == 'service'"
run "converted" --convert "$dir/table.csv"
check "--convert prints a line per kernel" grep -q '^kernel void_first<int,_2>(float_\*) grid=64x1x1 block=256x1x1 regs=32 shared=0 ns=2000$' "$dir/out"
run "tokens" --ls llama-1b-prefill+llama-1b-decode@tests/data/azure_llm_2023_conv.csv,speed=0.3 --duration 20s --no-alone --json
holds "d['runs'][0]['sessions'][0]['ended'] >= 5"
run "gaps" --ls mobilenetv3-b1@tests/data/apollo_inter_arrival_s.json --duration 10s --no-alone --json
holds "d['runs'][0]['sessions'][0]['arrived'] > 150"
run "help" --help
run "version" --version

# --- wrong input ----------------------------------------------------------------------------------------------
refused 2 "no sessions"
refused 2 "--channels many: not a number of channels" --channels many --ls resnet34-b1@closed
refused 2 "--frob: no such option" --frob
refused 2 "--seed: an argument is missing" --seed
refused 2 "'word': not an option" word
refused 2 "not a simulated GPU" --device cuda:0 --ls resnet34-b1@closed
refused 2 "no such model" --device sim:h300 --ls resnet34-b1@closed
refused 2 "no such workload" --ls resnet35@closed
refused 2 "not WORKLOAD@ARRIVALS" --ls resnet34-b1
refused 2 "think: only for latency-sensitive sessions, not for best-effort" --be resnet34-b1@closed,think=1ms
refused 2 "arrivals 'closed', not 'uniform:10'" --ls resnet34-b1@uniform:10,think=1ms
refused 2 "not a rate" --ls resnet34-b1@poisson:many
refused 2 "slo=-3ms: not a valid value" --ls resnet34-b1@closed,slo=-3ms
refused 2 "colour: unknown key" --ls resnet34-b1@closed,colour=red
refused 2 "queue=5000: not a valid value" --be resnet34-b1,queue=5000
refused 2 "--duration forever" --ls resnet34-b1@closed --duration forever
refused 2 "one policy, --compare takes several" --ls resnet34-b1@closed --policy fifo,static
refused 2 "not NAME" --ls resnet34-b1@closed --policy depth=3
refused 2 "nosuch" --ls resnet34-b1@closed --policy nosuch --duration 1ms
refused 2 "depth" --ls resnet34-b1@closed --policy fifo,depth=0 --duration 1ms
refused 1 "No such file" --ls "$dir/none.profile@closed"
refused 1 "name one of its tasks" --ls "resnet34-b1@$disb"
refused 1 "closed loop" --ls "resnet34-b1@$disb,id=resnet152_be"
refused 1 "No such file" --ls resnet34-b1@closed --trace "$dir/none/trace" --duration 1ms
printf 'detshare-profile 1\nsms 132\n\nkernel k grid=1 block=32 ns=fast\n' >"$dir/bad.profile"
refused 1 "bad.profile: line 4: ns=fast: not a number" --ls "$dir/bad.profile@closed"
printf 'detshare-profile 1\nsms 26\nkernel k grid=1 block=32 ns=5\n' >"$dir/other.profile"
refused 1 ": other.profile: the profile was measured on a GPU with 26 SMs; h200 has 132" --ls "$dir/other.profile@closed" --duration 1ms
printf 'name,ns,grid,block\nk,5,1,32\ncopy,9,,\nl,long,1,32\n' >"$dir/bad.csv"
refused 1 "bad.csv: line 4: the duration is not a number" --convert "$dir/bad.csv"

# --- a failing policy -----------------------------------------------------------------------------------------

# failed_policy ARGUMENT...: exit status 3, and results are printed
failed_policy() {
        timeout 300 "$replay" --policy-dir "$dir/policies" --policy chaos "${load[@]}" --no-alone "$@" >"$dir/out" 2>"$dir/err"
        check "a policy that fails is exit status 3: $?" test $? = 3
}
mkdir "$dir/policies" && cp "$build/tests/policies/chaos.so" "$dir/policies"
failed_policy
check "the reason for the replacement is below the table" grep -q "^chaos: policy chaos .*invalid actions .*; fifo replaced it" "$dir/out"
failed_policy --json
holds "'invalid actions' in d['runs'][0]['fallback'] and d['runs'][0]['fallbacks'] == 1"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
