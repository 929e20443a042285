#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The tools of the evaluation:
# - properties that hold under every policy, in a few simulated cells
# - docs/evaluation/simulated.md has the figures that the command prints
# - the analysis of measurements, with data whose result is known
# - the measuring script, on a simulated device
#
# usage: tests/e2e/eval.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(cd "$1" && pwd)
dir=$(mktemp -d /tmp/detshare-eval-XXXXXX)
trap 'rm -rf "$dir"' EXIT
export PYTHONDONTWRITEBYTECODE=1
passed=0
failed=0

check() {
        # check TEXT COMMAND...: passes when the command succeeds
        local text=$1
        shift
        if "$@" >"$dir/said" 2>&1; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
                echo "FAIL $text"
                tail -n 15 "$dir/said"
        fi
}

holds() {
        # holds FILE EXPRESSION: the Python expression holds for the rows (d) of a CSV file, or for the content of a
        # JSON file
        check "$2" python3 -c "
import csv, json, sys
text = open('$1')
d = json.load(text) if '$1'.endswith('.json') else list(csv.DictReader(text))
sys.exit(0 if ($2) else 1)"
}

replay() {
        python3 tests/eval/replay.py --build "$build" --jobs 1 "$@"
}

# --- simulated: properties under every policy -----------------------------------------------------------------
mapfile -t policies < <(find "$build/policies" -name '*.so' -printf '%f\n' | sed 's/[.]so$//' | grep -vx -e profile -e calibrate | sort)
check "there are at least 10 policies" test ${#policies[@]} -ge 10
printf '%s\n' 0 0.001 0.002 0.02 0.021 0.05 0.06 0.061 0.07 0.1 1000 >"$dir/ten"
for part in "${policies[*]:0:9}" "${policies[*]:9}"; do
        [ -n "$part" ] || continue
        timeout 300 "$build/detshare-replay" --ls "mobilenetv3-b1@$dir/ten" --be bert-base-b64 --be resnet152-b64 --duration 900ms --no-alone \
                --compare "${part// /,}" --json >"$dir/ten.json"
        holds "$dir/ten.json" "all(r['sessions'][0]['ended'] == 10 for r in d['runs'])"
        holds "$dir/ten.json" "all(s['steps_per_s'] > 0 for r in d['runs'] for s in r['sessions'][1:])"
        holds "$dir/ten.json" "all(r['fallbacks'] == 0 for r in d['runs']) and len(d['runs']) == len('$part'.split())"
done
small=(--requests 60 --policies 'detshare,multistream' core:mobilenetv3+blocks-2ms@50)
check "replay.py runs" replay "${small[@]}" --out "$dir/a.csv"
check "replay.py runs again" replay "${small[@]}" --out "$dir/b.csv"
check "the same figures for the same seed" cmp "$dir/a.csv" "$dir/b.csv"
holds "$dir/a.csv" "len(d) == 9 and {r['device'] for r in d} == {'sim:h200', 'sim:a2000', 'sim:p40'}"
for device in h200 a2000 p40; do
        holds "$dir/a.csv" "(lambda p99: p99['detshare'] < 2 and p99['detshare'] <= p99['multistream'])({r['policy']: float(r['p99_over_alone']) for r in d if r['device'] == 'sim:$device'})"
done
holds "$dir/a.csv" "all(float(r['be_share']) > 0.1 and r['fallbacks'] == '0' for r in d if r['policy'] != '(no job)')"
for policy in detshare sgdrc; do
        for end in a b; do
                "$build/detshare-replay" --ls resnet34-b1@poisson:400 --be bert-base-b64 --policy $policy --duration 200ms --no-alone --trace "$dir/$end.trace" >"$dir/said"
        done
        check "$policy: the same trace for the same seed" cmp "$dir/a.trace" "$dir/b.trace"
        check "$policy: the trace has more than 10,000 lines" test "$(wc -l <"$dir/a.trace")" -gt 10000
done
# The document has what the command prints, in one cell. Its two policies have fixed rules, so that changes of other
# policies do not outdate it.
check "the sample cell runs" replay --devices p40 --policies multistream,sgdrc-static core:bert+blocks-2ms@75 --out "$dir/sample.csv"
check "docs/evaluation/simulated.md has the figures of make replay-policies" python3 -c "
import csv, sys
sys.path.insert(0, 'tests/eval')
import document, replay
rows = {r['policy']: replay.cell_text(r) for r in csv.DictReader(open('$dir/sample.csv'))}
text = '\n'.join(document.body('docs/evaluation/simulated.md')).split('## Cell by cell on sim:p40', 1)[1]
head = [c.strip(' \`') for c in next(l for l in text.splitlines() if l.startswith('| cell')).split('|')]
line = [c.strip() for c in next(l for l in text.splitlines() if l.startswith('| \`bert+blocks-2ms@75\` |')).split('|')]
for policy, said in rows.items():
    if policy != replay.ALONE:
        assert line[head.index(policy)] == said, (policy, line[head.index(policy)], said)"

# --- the frontier of fixed settings ----------------------------------------------------------------------------
sweep() {
        python3 tests/eval/frontier.py replay --build "$build" --jobs 1 --devices p40 --pairs mobilenetv3/bert-b64 --loads 75,50 --requests 60 --out "$dir/frontier.csv" "$@"
}
check "frontier.py sweeps" sweep --loads 75 --settings 'detshare;detshare,slo=2;multistream'
check "frontier.py continues where it stopped" sweep --settings 'detshare;detshare,slo=1.2;detshare,slo=1.5;detshare,slo=2;multistream;static,ls_percent=75'
holds "$dir/frontier.csv" "len(d) == len({tuple(r.values())[:6] for r in d}) == 2 * 3 * 7 and all(int(r['requests']) >= 60 for r in d)"
holds "$dir/frontier.csv" "all(float(r['p99_over_alone']) == 1 and r['job_share'] == '0' for r in d if r['setting'] == 'alone')"
holds "$dir/frontier.csv" "all((float(r['attainment']) >= 0.99) == (float(r['p99_over_alone']) <= float(r['objective'])) for r in d)"
holds "$dir/frontier.csv" "all(0 < float(r['job_share']) < 1.1 and 0 <= float(r['attainment']) <= 1 for r in d if r['setting'] != 'alone')"
cp "$dir/frontier.csv" "$dir/frontier.before"
check "frontier.py has nothing left to simulate" sweep --settings 'detshare;detshare,slo=2'
check "a second sweep adds no rows" cmp "$dir/frontier.csv" "$dir/frontier.before"
check "frontier.py simulates some settings again" sweep --from "$dir/frontier.before" --out "$dir/again.csv" --settings 'detshare,slo=2;multistream'
check "the same figures again" cmp <(sort "$dir/frontier.csv") <(sort "$dir/again.csv")
page() { python3 tests/eval/frontier.py page "$@"; }
unpacked() { python3 -c 'import lzma, sys; sys.stdout.buffer.write(lzma.open(sys.argv[1]).read())' "$1"; } # a bare machine has no xz
check "frontier.py writes the page" page --from "$dir/frontier.csv" --doc "$dir/page/f.md" --keep "$dir/page/f.csv.xz"
check "the page names every cell" test "$(grep -c '^| [*`]*mobilenetv3+bert-b64@' <(sed -n '/^## All cells/,$p' "$dir/page/f.md"))" = 2
check "the plot of the sweep is valid XML" python3 -c "import xml.dom.minidom; xml.dom.minidom.parse('$dir/page/f-p40.svg')"
check "the kept file has the rows" cmp "$dir/frontier.csv" <(unpacked "$dir/page/f.csv.xz")
# The page of the tree is that of its CSV file, and the CSV file has a cell as the command simulates it. The cell's
# settings have fixed rules, so that changes of other policies do not outdate it.
check "the page in docs/evaluation is written" page --from docs/evaluation/frontier-sim.csv.xz --doc "$dir/tree/frontier-sim.md"
for name in frontier-sim.md frontier-sim-h200.svg frontier-sim-a2000.svg frontier-sim-p40.svg; do
        check "docs/evaluation/$name agrees with frontier-sim.csv.xz" cmp "$dir/tree/$name" "docs/evaluation/$name"
done
check "the page of the GPU's frontier is written" make -s frontier FRONTIER_DOC="$dir/tree/frontier.md"
for name in frontier.md frontier-h200.svg; do
        check "docs/evaluation/$name agrees with frontier.csv.xz" cmp "$dir/tree/$name" "docs/evaluation/$name"
done
check "the sample cell of the frontier runs" python3 tests/eval/frontier.py replay --build "$build" --jobs 1 --devices a2000 --pairs mobilenetv3/bert-b64 --loads 75 \
        --settings 'multistream;static,ls_percent=75' --out "$dir/sample-frontier.csv"
check "frontier-sim.csv.xz has the figures of make replay-policies" test "$(unpacked docs/evaluation/frontier-sim.csv.xz | grep -cxFf "$dir/sample-frontier.csv")" = 10

# --- measured: the analysis with known results, and a whole measurement on a simulated device -----------------
check "the self-test of the analysis passes" python3 tests/eval/check.py
"$build/detshared" --foreground --device sim:h200 --socket "$dir/native.sock" >"$dir/native.log" 2>&1 &
native=$!
trap 'kill "$native" 2>/dev/null; rm -rf "$dir"' EXIT
for _ in $(seq 2000); do
        grep -q serving "$dir/native.log" && break
        sleep 0.1
done
# A fake MPS that only logs its calls.
mkdir "$dir/bin"
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "$1 $(cat)" >>%s/mps.calls\n' "$dir" >"$dir/bin/nvidia-cuda-mps-control"
chmod 755 "$dir/bin/nvidia-cuda-mps-control"
systems='native;mps;mps-priority;detshare:multistream;detshare:detshare;detshare:nosuch'
measure() { # the last --state counts
        PATH=$dir/bin:$PATH timeout 300 python3 tests/eval/measure.py --build "$build" --state "$dir/state.csv" --native-socket "$dir/native.sock" --daemon-device sim:h200 \
                --c-program ls:4:4:2:64 --c-program be:6:20:4:64 --cell ls/be@30 --seconds 0.25 --rounds 1 --systems "$systems" "$@"
}
check "measure.py accepts a limit that leaves no time" measure --limit 0.01
check "without time nothing is measured" test "$(wc -l <"$dir/state.csv")" = 1
check "measure.py measures" measure --limit 0
holds "$dir/state.csv" "{r['system'] for r in d if r['phase'] == 'end'} == {'native', 'mps', 'mps-priority', 'detshare:multistream', 'detshare:detshare'}"
holds "$dir/state.csv" "[[r['phase'] for r in d if r['system'] == s] for s in ('mps', 'detshare:detshare')] == [['together', 'together', 'end'], ['ls1', 'be1', 'together', 'together', 'ls2', 'be2', 'end']]"
holds "$dir/state.csv" "len({r['at_s'] for r in d if r['phase'] == 'together' and r['program'] == 'ls0:ls'}) == 1"
holds "$dir/state.csv" "all('nosuch' in r['error'] for r in d if r['system'] == 'detshare:nosuch')"
check "MPS was started and ended for each of two systems" test "$(grep -c '^-d' "$dir/mps.calls") $(grep -c quit "$dir/mps.calls")" = "2 2"
# Two shards of one cell each, which begin and end each phase together.
grep capacity "$dir/state.csv" >"$dir/capacities"
for k in 0 1; do
        cat <(head -n 1 "$dir/state.csv") "$dir/capacities" >"$dir/shard$k.csv"
        measure --cell ls/be@60 --shard $k/2 --meet "$dir/meet" --state "$dir/shard$k.csv" --systems 'native;detshare:multistream' --limit 0 >"$dir/shard$k.log" 2>&1 &
        shards[k]=$!
done
check "the first shard ends" wait "${shards[0]}"
check "the second shard ends" wait "${shards[1]}"
holds "$dir/shard0.csv" "[r['phase'] for r in d].count('end') == 2"
holds "$dir/shard1.csv" "[r['phase'] for r in d].count('end') == 2"
check "both shards met at each step" test "$(cd "$dir/meet" && echo ?.at.1.detshare.measured)" = "0.at.1.detshare.measured 1.at.1.detshare.measured"
cp "$dir/state.csv" "$dir/before.csv"
check "measure.py runs again" measure --limit 0
check "a second run measures nothing again" cmp "$dir/before.csv" "$dir/state.csv"
check "analyse.py runs" python3 tests/eval/analyse.py "$dir/state.csv" --out "$dir/figures.csv" --tables "$dir/tables"
holds "$dir/figures.csv" "{r['system']: float(r['p99_ms'] or 0) > 0 and float(r['be_share'] or 0) > 0 for r in d} == {s: s != 'detshare:nosuch' for s in '$systems'.split(';')}"
check "the table names the plot" grep -q '(core.svg)' "$dir/tables/measured.md"
check "every cell has a table" grep -q '^### ' "$dir/tables/cells.md"
check "the plot is valid XML" python3 -c "import xml.dom.minidom; xml.dom.minidom.parse('$dir/tables/core.svg')"
# The sweep of fixed settings as on a GPU, with objectives that the client library sets.
on_gpu() {
        PATH=$dir/bin:$PATH timeout 300 python3 tests/eval/frontier.py gpu --build "$build" --state "$dir/gpu.csv" --out "$dir/gpu-frontier.csv" --pairs ls/be --loads 30 \
                --requests 30 --rounds 1 --settings 'detshare;detshare,slo=1.2;detshare,slo=1.5;detshare,slo=2;multistream;mps-priority-50' --name sim:h200 -- --seconds 0.2 \
                --limit 0 --native-socket "$dir/native.sock" --daemon-device sim:h200 --c-program ls:4:4:2:64 --c-program be:6:20:4:64
}
check "frontier.py measures" on_gpu
holds "$dir/gpu.csv" "not [r['error'] for r in d if r['error']]"
holds "$dir/gpu-frontier.csv" "{r['setting'] for r in d} == {'alone', 'native', 'detshare', 'detshare,slo=1.2', 'detshare,slo=1.5', 'detshare,slo=2', 'multistream', 'mps-priority-50'}"
holds "$dir/gpu-frontier.csv" "all(int(r['requests']) >= 30 and r['pair'] == 'ls/be' and r['load'] == '30' and r['device'] == 'sim:h200' for r in d)"
check "frontier.py writes the page of a GPU" page --from "$dir/gpu-frontier.csv" --doc "$dir/page/gpu.md" --command 'make frontier'
check "worth.py reads the file of a GPU" bash -c "mkdir -p '$dir/root/docs' && python3 tests/eval/worth.py --state '$dir/gpu-frontier.csv' --root '$dir/root'"
check "the table of README.md has the objective" grep -q 'objective 2' "$dir/root/README.md"
printf '#!/bin/sh\necho "GPU 0: x"\necho "GPU 1: y"\n' >"$dir/bin/nvidia-smi"
chmod 755 "$dir/bin/nvidia-smi"
check "gpus.sh runs a share of the cells on each GPU" env PATH="$dir/bin:$PATH" tests/eval/gpus.sh "$dir/state.csv" "$dir/gpus" core --list
parts=$(cat "$dir"/gpus/gpu?.log | sed -n 's/.* of \([0-9]*\) to be measured/\1/p' | paste -sd+)
check "each cell is in exactly one share" test "$(python3 tests/eval/measure.py --state "$dir/none.csv" core --list)" = "$((parts)) of $((parts)) to be measured"
check "both GPUs have a share" test "${parts#*[1-9]*+[1-9]}" != "$parts"
check "the shares are merged into one file" cmp <(sort "$dir/state.csv") <(sort "$dir/gpus/state.csv")
check "analyse.py fails without measurements and writes no tables" bash -c "! python3 tests/eval/analyse.py tests/data/azure_llm_2023_conv.csv --tables $dir/none && test ! -e $dir/none"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
