#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# detshare-lut on simulated GPUs, as its user calls it: an interrupted probe continues, also after a truncated file,
# with disturbed times, and with the algorithms of the SGDRC paper; the tool learns a table from the samples.
#
# LUT_LONG=1: the paper's algorithms find all channels of the p40 and the a2000 (a minute)
#
# usage: tests/e2e/lut.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(cd "$1" && pwd)
dir=$(mktemp -d /tmp/detshare-lut-e2e-XXXXXX)
trap 'rm -rf "$dir"' EXIT
lut=$build/detshare-lut
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

# run STATUS TEXT ARGUMENT...: detshare-lut exits with STATUS; its output is in $dir/out
run() {
        local status=$1 text=$2 got
        shift 2
        timeout 300 "$lut" "$@" >"$dir/out" 2>"$dir/err"
        got=$?
        check "$text: exit status $got: $(head -n 3 "$dir/err")" test $got = "$status"
}

says() {
        check "no line '$1': $(cat "$dir/out")" grep -qE "$1" "$dir/out"
}

# same EXPRESSION FILE FILE: the Python expression holds for the labels of granules in both files, dicts a and b
cat >"$dir/same.py" <<'END'
import struct, sys

def read(path):
    data, at, labels = open(path, "rb").read(), 136, {}
    while at < len(data):
        _, n, page, _, _, _ = struct.unpack_from("<IIQIIQ", data, at)
        at += 32
        for word in struct.unpack_from("<%dI" % n, data, at):
            if word & 255 != 255:
                labels[page, word >> 8] = word & 255
        at += 4 * n
    return labels

def alike(a, b):
    """The same labels but for their names, and no granule missing."""
    pairs = {(a[k], b.get(k)) for k in a}
    return a.keys() == b.keys() and len(pairs) == len(set(a.values())) == len(set(b.values()))

def one_channel(a, b):
    """KiB of one channel are the granules of four of them that have one label in b, as far as b goes."""
    marked = {(page, kib // 4) for page, kib in a}
    has = {b[k] for k in b if k in marked}
    page = {page for page, _ in a}
    return len(has) == 1 and {k for k in b if k[0] in page and b[k] in has} == {k for k in b if k in marked}

a, b = read(sys.argv[2]), read(sys.argv[3])
sys.exit(0 if eval(sys.argv[1]) else 1)
END
same() {
        check "$1" python3 "$dir/same.py" "$1" "$2" "$3"
}

probe=(probe --device sim:gtx1080 --per-page 128)

# --- interrupted, truncated, continued ------------------------------------------------------------------------

"$lut" "${probe[@]}" --pages 400 -o "$dir/samples" >"$dir/out" 2>"$dir/err" &
pid=$!
for _ in $(seq 3000); do
        [ -e "$dir/samples" ] && [ "$(stat -c %s "$dir/samples")" -gt 1300 ] && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.05
done
kill -INT $pid
wait $pid
status=$?
check "interrupted: $status: $(cat "$dir/err")" test $status = 1
check "the message says how to continue: $(cat "$dir/err")" grep -q "the same command does the others" "$dir/err"
run 0 "show samples" show "$dir/samples"
says "unit +4096 bytes"
blocks=$(sed -n 's/blocks *\([0-9]*\) .*/\1/p' "$dir/out")
check "$blocks pages" test "$blocks" -ge 2
truncate -s -77 "$dir/samples"
pages=$((blocks + 1))
run 0 "goes on" "${probe[@]}" --pages $pages -o "$dir/samples" --rate --structure
says "channels +8, 32 bits each of a bus of 256"
says "labelled +[0-9]+ granules of 2 pages"
says "rate .*sim"
says "8 channels have 1 neighbours"
run 0 "all is there" "${probe[@]}" --pages $pages -o "$dir/samples"
says "has $pages pages already"
run 0 "show samples" show "$dir/samples"
says "in 2 runs"

# --- disturbed times, and the paper's method ------------------------------------------------------------------

run 0 "quiet" "${probe[@]}" --pages 3 -o "$dir/quiet"
run 0 "noise" probe --device sim:gtx1080+noise=3 --per-page 128 --pages 3 -o "$dir/noise"
says "[1-5]\.[0-9]+% false positives"
same "alike(a, b) and len(set(a.values())) == 8 and len(a) == 384" "$dir/quiet" "$dir/noise"
run 0 "paper" probe --device sim:gtx1080 --pages 1 --method paper --channels 1 -o "$dir/paper"
says "channels +1"
same "one_channel(a, b)" "$dir/paper" "$dir/quiet"
for i in 1 2; do
        run 0 "paper, run $i" probe --device sim:gtx1080 --pages 1 --per-page 16 --method paper --channels 1 -o "$dir/again"
done
run 0 "what two runs found" show "$dir/again"
says "blocks +2 in 2 runs"
for model in ${LUT_LONG:+p40 a2000}; do
        run 0 "paper, $model" probe --device "sim:$model" --pages 1 --per-page 64 --method paper -o "$dir/$model.paper"
        run 0 "contention, $model" probe --device "sim:$model" --pages 1 --per-page 64 -o "$dir/$model"
        same "alike(a, b)" "$dir/$model.paper" "$dir/$model"
done

# --- learning -------------------------------------------------------------------------------------------------

run 0 "learn" learn -o "$dir/table" "$dir/quiet"
run 0 "show" show "$dir/table"
says "channels +8"
check "learn accepts an impossible SOURCE_DATE_EPOCH" env SOURCE_DATE_EPOCH=9000000000000000000 timeout 60 "$lut" learn --quiet -o "$dir/dated" "$dir/quiet"
check "the table with that date is valid" timeout 60 "$build/detsharectl" lut verify "$dir/dated"
check "the learnt table is valid" timeout 60 "$build/detsharectl" lut verify "$dir/table"

# --- wrong arguments ------------------------------------------------------------------------------------------

run 2 "no device" probe -o "$dir/x"
run 2 "no number" probe --device sim:p40 -o "$dir/x" --pages 0
run 2 "no method" probe --device sim:p40 -o "$dir/x" --method none
run 1 "no such device" probe --device sim:none -o "$dir/x"
run 1 "no samples" probe --device sim:p40 -o "$dir/table"
check "refused probes leave no file" test ! -e "$dir/x"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
