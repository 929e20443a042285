#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The cache of compiled code on disk, on a GPU that is emulated by the fake driver and the fake ptxas. The program
# that loads the code works in each case:
# - the next daemon finds the code that an earlier one compiled
# - linked images are found like compiled ones
# - damaged, truncated and empty files are compiled and written again
# - a directory that other users may write is refused
# - of two daemons with one directory, the second one only reads
#
# Prints `N passed, N failed` last.
#
# usage: tests/e2e/code_cache.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-code-cache.XXXXXX)
place=${DETSHARE_TEST_PLACE:-$build/fake_cuda}
. tests/support/counted.sh
daemons=()

# shellcheck disable=SC2317
finish() {
        for pid in "${daemons[@]}"; do
                kill -KILL "$pid" 2>/dev/null
        done
        rm -rf "$tmp"
}
trap finish EXIT

cat >"$tmp/detshared.conf" <<END
[daemon]
libcuda=$place/libcuda.so.1
ptxas=$place/bin/ptxas
END
chmod 755 "$tmp"
state=$tmp/state

# start NAME DIR: starts a daemon with socket $tmp/NAME and state directory DIR. It makes no forms of kernels: whether the
# files of forms are written before the program ends would depend on the load of the machine
start() {
        "$build/detshared" --device cuda:0 --policy static --transform never --config "$tmp/detshared.conf" \
                --socket "$tmp/$1" --state "$2" >"$tmp/$1.log" 2>&1 &
        daemons+=($!)
        for _ in $(seq 2000); do
                grep -qs serving "$tmp/$1.log" && return
                sleep 0.1
        done
}

stop() {
        kill -TERM "${daemons[-1]}"
        wait "${daemons[-1]}"
        unset 'daemons[-1]'
}

# program NAME TEXT [PROGRAM]: runs a program, by default saxpy, at the daemon NAME
program() {
        LD_LIBRARY_PATH=$build/cuda DETSHARE_SOCKET=$tmp/$1 KERNELS_DIR=$build/ptx/sm_90 timeout 300 \
                "$build/tests/programs/${3:-saxpy}" >"$tmp/out" 2>&1
        result "$2: the program works" $? "$tmp/out"
}

# figure NAME KEY: prints a value of detsharectl status
figure() {
        DETSHARE_SOCKET=$tmp/$1 "$build/detsharectl" status --json | python3 -c "import json, sys; print(json.load(sys.stdin)['$2'])"
}

# expect NAME TEXT COMPILED STORED DAMAGED: checks the daemon's counts of images compiled, found on disk, and damaged
expect() {
        local found
        found="$(figure "$1" code_compiled) $(figure "$1" code_stored) $(figure "$1" code_damaged)"
        [ "$found" = "$3 $4 $5" ]
        result "$2: compiled $3, from disk $4, damaged $5 (is: $found)" $?
}

# once NAME TEXT COMPILED STORED DAMAGED: starts a daemon, runs the program, checks the counts
once() {
        start "$1" "$state"
        program "$1" "$2"
        expect "$@"
        stop
}

once first "nothing is there" 1 0 0
files=("$state"/code/"$(id -u)"/*.code)
[ ${#files[@]} = 1 ] && [ -s "${files[0]}" ]
result "one file of compiled code is there" $?
[ "$(stat -c %a "$state" "$state/code" "${files[0]%/*}" "${files[0]}" | xargs)" = "700 700 711 644" ]
result "the directory is closed" $?

once second "the next daemon" 0 1 0

start known "$state"
program known "the first of two"
program known "the second of two"
expect known "the second finds it in memory" 0 1 0
[ "$(figure known images)" -gt "$(figure known code_stored)" ]
result "both are counted" $?
stop

size=$(stat -c %s "${files[0]}")
python3 - "${files[0]}" $((size / 2)) <<END
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2]))
    byte = f.read(1)[0]
    f.seek(int(sys.argv[2]))
    f.write(bytes([byte ^ 1]))
END
once damaged "a byte is damaged" 1 0 1
truncate -s $((size - 1)) "${files[0]}"
once cut "the file is truncated" 1 0 1
chmod 666 "${files[0]}"
once writable "the file is writable by others" 1 0 1
once again "the replaced file is valid" 0 1 0

# Linked images are cached as well, and PTX that is compiled in order to be linked.
start links "$state"
program links "linking" link
[ "$(figure links code_compiled)" -gt 3 ]
result "linked images are new (compiled: $(figure links code_compiled))" $?
stop
start links_again "$state"
program links_again "linking, at the next daemon" link
found="$(figure links_again code_compiled) $(figure links_again code_damaged)"
[ "$found" = "0 0" ] && [ "$(figure links_again code_stored)" -gt 3 ]
result "the next daemon finds linked images on disk (compiled and damaged: $found)" $?
stop

# Twelve loads of one image, from the program's file or from memory: the daemon reads the image only a few times.
start embedded "$state"
DETSHARE_SOCKET=$tmp/embedded LD_LIBRARY_PATH=$build/cuda timeout 300 "$build/tests/programs/embedded" >"$tmp/out" 2>&1
result "code in the program's own file: the program works" $? "$tmp/out"
found="$(figure embedded images) $(figure embedded images_known)"
[ "${found% *}" = 12 ] && [ "${found#* }" -ge 5 ]
result "images that were read before are known (is: $found)" $?
stop

# The daemon removes leftovers of a killed daemon and keeps files of others.
touch "${files[0]%/*}/new.$(basename "${files[0]}")" "$state/code/README"
once leftovers "other files are in the directory" 0 1 0
[ ! -e "${files[0]%/*}/new.$(basename "${files[0]}")" ] && [ -e "$state/code/README" ]
result "half a file is removed, a stranger's stays" $?

start writer "$state"
start reader "$state"
program reader "a second daemon with the same directory"
expect reader "the second daemon reads the first one's code" 0 1 0
grep -q "is used read-only: another daemon writes there" "$tmp/reader.log"
result "the second daemon logs that it only reads" $? "$tmp/reader.log"
stop
stop

chmod 777 "$state"
start open "$state"
program open "a directory that everybody may write"
expect open "a directory writable by all is not used" 1 0 0
grep -q "others may write it; compiled code is not kept" "$tmp/open.log"
result "the log gives the reason" $? "$tmp/open.log"
stop
: >"$tmp/file"
start nowhere "$tmp/file"
program nowhere "no directory at all"
expect nowhere "compiled all the same" 1 0 0
stop

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
