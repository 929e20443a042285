#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# detshare-serve --bimodal keeps each tensor in two places: over all memory channels, and in the channels of its
# class. This test proves that the results are the same bytes as with tensors in one place:
# - while the pack runs alone (all channels), beside the other class (its class's channels), and while the state
#   changes
# - for a service and a job at once, each of which learns from the daemon that the other runs
#
# A daemon without coloured memory leads to an error that says so. Prints `N passed, N failed` last.
#
# usage: tests/e2e/bimodal.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-bimodal.XXXXXX)
. tests/support/counted.sh
daemon=
job=

# shellcheck disable=SC2317
finish() {
        [ -n "$job" ] && kill -KILL "$job" 2>/dev/null
        [ -n "$daemon" ] && kill -KILL "$daemon" 2>/dev/null
        rm -rf "$tmp"
}
trap finish EXIT

# start LINE...: starts a daemon with these lines in section [channels]
start() {
        printf '%s\n' '[channels]' "$@" >"$tmp/detshared.conf"
        : >"$tmp/daemon.log"
        "$build/detshared" --device sim:a2000 --config "$tmp/detshared.conf" --socket "$tmp/sock" >"$tmp/daemon.log" 2>&1 &
        daemon=$!
        for _ in $(seq 9000); do
                grep -q serving "$tmp/daemon.log" && return
                kill -0 "$daemon" || return
                sleep 0.1
        done
}

stop() {
        kill -TERM "$daemon"
        wait "$daemon"
        result "the daemon ends in order ($1)" $? "$tmp/daemon.log"
        daemon=
}

serve() {
        DETSHARE_SOCKET=$tmp/sock timeout 300 "$build/detshare-serve" "$@"
}

digests() {
        grep -o '"sha256": "[^"]*"' "$1"
}

# figure KEY FILE: prints the value of KEY in the "bimodal" object of detshare-serve's JSON in FILE
figure() {
        sed -n "s/.*\"bimodal\": {[^}]*\"$1\": \([0-9]*\).*/\1/p" "$2"
}

# same PACK CLASS STATE: checks that outputs are the same bytes as with tensors in one place
same() {
        serve "$1" --class "$2" --digest --json --bimodal all --state "$3" --requests 3 >"$tmp/out" 2>"$tmp/err"
        result "$2, state $3: it runs" $? "$tmp/err"
        check "$2, state $3: the same bytes as with tensors in one place" test "$(digests "$tmp/out")" = "$(digests "$tmp/plain.$2")"
}

# launches NAME: prints how many launches the session of that name has made
launches() {
        DETSHARE_SOCKET=$tmp/sock "$build/detsharectl" clients --json | sed -n "/\"name\": \"$1\"/,/}/s/.*\"launches\": \([0-9]*\).*/\1/p"
}

# refused TEXT ARGUMENT...: checks that detshare-serve fails with a message that contains TEXT
refused() {
        local text=$1
        shift
        serve "$@" >"$tmp/out" 2>"$tmp/err"
        check "$text: the exit status is not 0" test $? -ne 0
        check "$text: the message says so" grep -q -e "$text" "$tmp/err"
}

bert=tests/offline/packs/tiny-bert
resnet=tests/demo/packs/batch-resnet

start pool_mib=4 be=1/3
serve $resnet --class be --digest --json >"$tmp/plain.be"
serve $bert --class ls --digest --json >"$tmp/plain.ls"
check "packs without --bimodal print digests" test "$(digests "$tmp/plain.be" | wc -l)" = 2 -a "$(digests "$tmp/plain.ls" | wc -l)" = 2
same $resnet be alone
check "state alone: no launch has coloured tensors" test "$(figure coloured "$tmp/out")" = 0
same $resnet be beside
check "state beside: every launch has coloured tensors" test "$(figure coloured "$tmp/out")" = "$(figure launched "$tmp/out")"
check "no kernel of the pack is refused" test "$(figure refused "$tmp/out")" = 0
same $resnet be turns
check "state turns: some launches, not all, have coloured tensors" test "$(figure coloured "$tmp/out")" -gt 0 -a "$(figure coloured "$tmp/out")" -lt "$(figure launched "$tmp/out")"
same $bert ls beside
check "state beside: the weights of a service are moved once" test "$(figure moves "$tmp/out")" = 1
same $bert ls turns
check "state turns: the weights are moved more than once" test "$(figure moves "$tmp/out")" -gt 1
serve $bert --class ls --digest --json --bimodal all --state turns --instances 3 --requests 12 >"$tmp/out" 2>"$tmp/err"
result "three instances share weights that move" $? "$tmp/err"
check "three instances give the same bytes" test "$(digests "$tmp/out")" = "$(digests "$tmp/plain.ls")"

# A service and a job at once: each learns from the daemon that the other runs.
DETSHARE_SOCKET=$tmp/sock "$build/detshare-serve" $resnet --class be --digest --json --bimodal all --seconds 100000 >"$tmp/be" 2>"$tmp/be.err" &
job=$!
for _ in $(seq 3000); do
        n=$(launches tiny-resnet)
        [ "${n:-0}" -gt 100 ] && break
        sleep 0.1
done
serve $bert --class ls --digest --json --bimodal all --requests 20 >"$tmp/out" 2>"$tmp/err"
result "a service runs beside a job" $? "$tmp/err"
kill -TERM "$job"
wait "$job"
result "the job ends with 0" $? "$tmp/be.err"
job=
check "the service's bytes are the same beside the job" test "$(digests "$tmp/out")" = "$(digests "$tmp/plain.ls")"
check "the job's bytes are the same beside the service" test "$(digests "$tmp/be")" = "$(digests "$tmp/plain.be")"
check "the service noticed the job: its weights were moved" test "$(figure moves "$tmp/out")" -ge 1
check "the job noticed the service: it has coloured launches" test "$(figure coloured "$tmp/be")" -gt 0
check "the job had launches without colour while it was alone" test "$(figure coloured "$tmp/be")" -lt "$(figure launched "$tmp/be")"

# A kernel that stores a pointer cannot be coloured. It and its tensors stay in all channels; the other kernels are
# coloured.
mlp=tests/offline/packs/tiny-mlp
mkdir "$tmp/keeps"
cp $mlp/* "$tmp/keeps"
sed -i '/ld.param.b64.*%rd4, \[softmax/a .shared .align 8 .b8 keeps[8];\nst.shared.b64 [keeps], %rd4;' "$tmp/keeps/kernels.ptx"
sed -i "s/^file kernels.ptx .*/file kernels.ptx $(stat -c %s "$tmp/keeps/kernels.ptx") $(sha256sum "$tmp/keeps/kernels.ptx" | cut -d ' ' -f 1)/" "$tmp/keeps/pack.txt"
serve $mlp --class be --digest --json >"$tmp/plain.be"
same "$tmp/keeps" be beside
check "the kernel that stores a pointer is refused" test "$(figure refused "$tmp/out")" = 1
check "launches of the other kernels have coloured tensors" test "$((3 * $(figure coloured "$tmp/out")))" = "$((2 * $(figure launched "$tmp/out")))"

# --- memory use, and wrong arguments --------------------------------------------------------------------------
serve $resnet --show --json --bimodal all >"$tmp/out"
check "--show prints the memory of --bimodal" grep -q '"bimodal": {"memory_bound_launches": 9, "weights": \([0-9]*\), "weights_again": \1,' "$tmp/out"
printf '{"bounds": [{"kernel": "gemm_175ad744f999", "grid_x": 2, "grid_y": 1, "grid_z": 1, "bound": "memory"}]}\n' >"$tmp/bounds"
serve $resnet --show --json --bimodal "$tmp/bounds" >"$tmp/out"
check "a file of bounds selects one kernel" grep -q '"bimodal": {"memory_bound_launches": 1,' "$tmp/out"
serve $resnet --digest --json --bimodal "$tmp/bounds" --state beside >"$tmp/out" 2>"$tmp/err"
check "one selected kernel runs with the same bytes" test "$(digests "$tmp/out")" = "$(digests "$tmp/be")" -a "$(figure memory_bound "$tmp/out")" = 1
refused "says of no kernel" $bert --bimodal "$tmp/bounds"
refused "No such file" $bert --bimodal "$tmp/none"
refused "goes with --bimodal" $bert --state turns
refused "is auto, alone, beside or turns" $bert --bimodal all --state often
refused "natively there is no coloured memory" $bert --native --bimodal all
mkdir "$tmp/old"
cp $bert/* "$tmp/old"
grep -v '^x-' $bert/pack.txt >"$tmp/old/pack.txt"
refused "does not say what kernel" "$tmp/old" --bimodal all
stop "with a pool"

start
refused "the daemon keeps no coloured memory" $bert --bimodal all
stop "without a pool"

echo "$passed passed, $failed failed"
