#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Tables of memory channels, without a daemon. The tables of the tree are listed, shown and valid. A table that is
# damaged, truncated, or for another version or model, and a file that is no table, are refused with a message and an
# exit status. The samples of a real GPU lead to its table again. Prints `N passed, N failed` last.
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

# ends STATUS PATTERN WORD...: detsharectl lut exits with STATUS, prints a line with PATTERN to stderr, nothing to
# stdout
ends() {
        local status=$1 pattern=$2 got
        shift 2
        ctl "$@" >"$tmp/out" 2>"$tmp/err"
        got=$?
        cat "$tmp/out" "$tmp/err"
        [ $got = "$status" ] && [ ! -s "$tmp/out" ] && grep -q "$pattern" "$tmp/err"
}

for table in lut/tables/*.lut; do
        check "$table is valid" ctl verify "$table"
        model=$(ctl show --json "$table" | jq -r .model)
        check "$table is for $model" ctl verify --model "$model" "$table"
        case $table in */sim-*) source=simulated ;; *) source=measured ;; esac
        check "$table is $source and predicts all labels that were held out" sh -c "'$build/detsharectl' lut show --json $table | jq -e '.source == \"$source\" and .held_out > 1000 and .held_right == .held_out'"
done
check "list names the four simulated tables" sh -c "'$build/detsharectl' lut list lut/tables | grep -c sim: | grep -qx 4"
check "list --json has all five tables" sh -c "'$build/detsharectl' lut list --json lut/tables | jq -e '[.tables[].channels] | sort == [6, 8, 12, 47, 47]'"
# The tree has the samples from which an H200's hash was found. detshare-lut finds the hash again and predicts all
# pages that were held out.
if command -v xz >/dev/null; then
        xz -dc lut/samples/h200.samples.xz >"$tmp/h200.samples"
        timeout 100 "$build/detshare-lut" learn --method structure "$tmp/h200.samples" -o "$tmp/h200.lut" >"$tmp/found" 2>&1
        check "an H200's hash is found again in its samples" grep -q 'held out: \([0-9]*\) of \1 labels right' "$tmp/found"
fi
check "show prints a table" sh -c "'$build/detsharectl' lut show lut/tables/sim-p40.lut | grep -q 'channels   12'"

table=lut/tables/sim-p40.lut
cp "$table" "$tmp/flipped.lut"
printf x | dd of="$tmp/flipped.lut" bs=1 seek=300 conv=notrunc 2>/dev/null
head -c 400 "$table" >"$tmp/cut.lut"
cp "$table" "$tmp/later.lut"
printf '\007' | dd of="$tmp/later.lut" bs=1 seek=8 conv=notrunc 2>/dev/null
check "a table of another model is refused" ends 1 "it is for sim:p40, not for NVIDIA H200" verify --model "NVIDIA H200" "$table"
check "a damaged table is refused" ends 1 "the checksum is wrong" verify "$tmp/flipped.lut"
check "a truncated table is refused" ends 1 "truncated" verify "$tmp/cut.lut"
check "a table of another version is refused" ends 1 "version 7" verify "$tmp/later.lut"
check "a file that is no table is refused" ends 1 "not a table" show Makefile
check "a missing file is an error" ends 6 "No such file" show "$tmp/none"
check "a missing directory is an error" ends 6 "No such file" list "$tmp/none"
check "a missing word is an error" ends 2 "one of list, show, verify"
check "an unknown word is an error" ends 2 "there is no subcommand look; there are list, show, verify" look
check "a second file is an error" ends 2 "too many arguments: b" verify a b
# sealed FILE: corrects the checksum, as an attacker would
sealed() {
        local sum
        head -c -32 "$1" >"$tmp/body"
        sum=$(sha256sum <"$tmp/body" | cut -c-64)
        # shellcheck disable=SC2059 # the bytes of the sum
        { cat "$tmp/body" && printf "$(printf %s "$sum" | sed 's/../\\x&/g')"; } >"$1"
}

# at FILE OFFSET BYTES: overwrites bytes of FILE; BYTES in printf's format
at() {
        # shellcheck disable=SC2059 # as said
        printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

# This page has two granules, fewer than the command shows of a page.
cp "$table" "$tmp/two.lut"
words=$(od -An -tu4 -j228 -N4 "$table")
masks=$(od -An -tu4 -j240 -N4 "$table")
masks=$((masks + $(od -An -tu4 -j248 -N4 "$table")))
at "$tmp/two.lut" 210 '\024'
dd if=/dev/zero of="$tmp/two.lut" bs=1 seek=$((272 + 4 * words)) count=$((4 * masks)) conv=notrunc 2>/dev/null
sealed "$tmp/two.lut"
check "detsharectl shows a page of two granules" sh -c "'$build/detsharectl' lut show '$tmp/two.lut' | grep -q '^pattern 1 '"
check "detshare-lut shows a page of two granules" sh -c "'$build/detshare-lut' show --patterns '$tmp/two.lut' | grep -q 'signature'"
for when in '\377\377\377\377\377\377\377\177' '\377\377\377\377\377\377\377\377'; do
        cp "$table" "$tmp/when.lut"
        at "$tmp/when.lut" 232 "$when"
        sealed "$tmp/when.lut"
        check "detsharectl refuses an impossible time" ends 1 "time" show "$tmp/when.lut"
        "$build/detshare-lut" show "$tmp/when.lut" >"$tmp/out" 2>"$tmp/err"
        check "detshare-lut refuses an impossible time" [ "$? $(grep -c time "$tmp/err")" = "1 1" ]
done
rm "$tmp/two.lut" "$tmp/when.lut"
cp "$table" "$tmp/whole.lut"
ctl list "$tmp" >"$tmp/out" 2>"$tmp/err"
check "list shows the valid table among damaged ones" [ "$? $(grep -c whole "$tmp/out") $(wc -l <"$tmp/err")" = "1 1 3" ]

echo "$passed passed, $failed failed"
[ $failed = 0 ]
