#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Tables of channels as people look at them: those in the tree are listed, shown and whole; what is damaged, cut off, of
# another version or model, or no table is refused with a sentence and an exit status. What was measured on a GPU makes
# its table again. No daemon is there.
#
# usage: tests/e2e/lut_tables.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(cd "$1" && pwd)
tmp=$(mktemp -d /tmp/detshare-lut-tables-XXXXXX)
trap 'rm -rf "$tmp"' EXIT
. tests/support/counted.sh
export DETSHARE_SOCKET=$tmp/nobody

ctl() {
        timeout 100 "$build/detsharectl" lut "$@"
}

# ends STATUS PATTERN WORD...: so, with a line on standard error that has the pattern, and nothing on standard output
ends() {
        local status=$1 pattern=$2 got
        shift 2
        ctl "$@" >"$tmp/out" 2>"$tmp/err"
        got=$?
        cat "$tmp/out" "$tmp/err"
        [ $got = "$status" ] && [ ! -s "$tmp/out" ] && grep -q "$pattern" "$tmp/err"
}

for table in lut/tables/*.lut; do
        check "$table is whole" ctl verify "$table"
        model=$(ctl show --json "$table" | jq -r .model)
        check "$table is for $model" ctl verify --model "$model" "$table"
        case $table in */sim-*) source=simulated ;; *) source=measured ;; esac
        check "$table is $source and told all" sh -c "'$build/detsharectl' lut show --json $table | jq -e '.source == \"$source\" and .held_out > 1000 and .held_right == .held_out'"
done
check "they are listed" sh -c "'$build/detsharectl' lut list lut/tables | grep -c sim: | grep -qx 4"
check "for scripts too" sh -c "'$build/detsharectl' lut list --json lut/tables | jq -e '[.tables[].channels] | sort == [6, 8, 12, 47, 47]'"
# What a GPU's hash was found in is there: it is found again, and tells all of the pages that are held out.
if command -v xz >/dev/null; then
        xz -dc lut/samples/h200.samples.xz >"$tmp/h200.samples"
        timeout 100 "$build/detshare-lut" learn --method structure "$tmp/h200.samples" -o "$tmp/h200.lut" >"$tmp/found" 2>&1
        check "an H200's hash is found in its samples" grep -q 'held out: \([0-9]*\) of \1 labels right' "$tmp/found"
fi
check "one is shown" sh -c "'$build/detsharectl' lut show lut/tables/sim-p40.lut | grep -q 'channels   12'"

table=lut/tables/sim-p40.lut
cp "$table" "$tmp/flipped.lut"
printf x | dd of="$tmp/flipped.lut" bs=1 seek=300 conv=notrunc 2>/dev/null
head -c 400 "$table" >"$tmp/cut.lut"
cp "$table" "$tmp/later.lut"
printf '\007' | dd of="$tmp/later.lut" bs=1 seek=8 conv=notrunc 2>/dev/null
check "another model's" ends 1 "it is for sim:p40, not for NVIDIA H200" verify --model "NVIDIA H200" "$table"
check "a damaged one" ends 1 "the checksum is wrong" verify "$tmp/flipped.lut"
check "one that was cut off" ends 1 "truncated" verify "$tmp/cut.lut"
check "one of another version" ends 1 "version 7" verify "$tmp/later.lut"
check "what is no table" ends 1 "not a table" show Makefile
check "what is not there" ends 6 "No such file" show "$tmp/none"
check "no such directory" ends 6 "No such file" list "$tmp/none"
check "no word" ends 2 "one of list, show, verify"
check "a wrong word" ends 2 "there is no subcommand look; there are list, show, verify" look
check "two files" ends 2 "too many arguments: b" verify a b
# sealed FILE: its sum made right again, as somebody would who means harm
sealed() {
        local sum
        head -c -32 "$1" >"$tmp/body"
        sum=$(sha256sum <"$tmp/body" | cut -c-64)
        # shellcheck disable=SC2059 # the bytes of the sum
        { cat "$tmp/body" && printf "$(printf %s "$sum" | sed 's/../\\x&/g')"; } >"$1"
}

# at FILE OFFSET BYTES: BYTES as printf has them
at() {
        # shellcheck disable=SC2059 # as said
        printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

# A page of two granules: there are fewer than are shown.
cp "$table" "$tmp/two.lut"
words=$(od -An -tu4 -j228 -N4 "$table")
masks=$(od -An -tu4 -j240 -N4 "$table")
masks=$((masks + $(od -An -tu4 -j248 -N4 "$table")))
at "$tmp/two.lut" 210 '\024'
dd if=/dev/zero of="$tmp/two.lut" bs=1 seek=$((272 + 4 * words)) count=$((4 * masks)) conv=notrunc 2>/dev/null
sealed "$tmp/two.lut"
check "a page of two granules is shown" sh -c "'$build/detsharectl' lut show '$tmp/two.lut' | grep -q '^pattern 1 '"
check "by detshare-lut, too" sh -c "'$build/detshare-lut' show --patterns '$tmp/two.lut' | grep -q 'signature'"
for when in '\377\377\377\377\377\377\377\177' '\377\377\377\377\377\377\377\377'; do
        cp "$table" "$tmp/when.lut"
        at "$tmp/when.lut" 232 "$when"
        sealed "$tmp/when.lut"
        check "a time that cannot be" ends 1 "time" show "$tmp/when.lut"
        "$build/detshare-lut" show "$tmp/when.lut" >"$tmp/out" 2>"$tmp/err"
        check "for detshare-lut, too" [ "$? $(grep -c time "$tmp/err")" = "1 1" ]
done
rm "$tmp/two.lut" "$tmp/when.lut"
cp "$table" "$tmp/whole.lut"
ctl list "$tmp" >"$tmp/out" 2>"$tmp/err"
check "among damaged ones the whole one is listed" [ "$? $(grep -c whole "$tmp/out") $(wc -l <"$tmp/err")" = "1 1 3" ]

echo "$passed passed, $failed failed"
[ $failed = 0 ]
