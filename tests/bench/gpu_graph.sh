#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Times of a best-effort job's graph, natively and under DetShare, alone and beside a latency-sensitive neighbour that
# is connected and nearly idle: kernel by kernel (graph_piece_us = 1), and in pieces of several lengths
#
# No figure is judged. Exit status: 1 if something could not run, 3 without a GPU. With another device
# (DETSHARE_TEST_DEVICE) or driver (DETSHARE_LIBCUDA) there is no native side, and the figures say nothing about a
# GPU.
#
# usage: tests/bench/gpu_graph.sh BUILD [SECONDS [PIECE_US...]]
#        takes about eight times SECONDS (1), and four times for each length (300)
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
seconds=${2:-1}
shift $(($# < 2 ? $# : 2))
# shellcheck source=tests/gpu/lib.sh
. tests/gpu/lib.sh
needs_gpu gpu_graph
program=$build/bench/gpu_graph

# row TEXT: prints a table row with the figures of the program's output
row() {
        local status=$1 text=$2
        result "$text" "$status" "$tmp/err"
        [ "$status" = 0 ] && printf '     %-62s %s\n' "$text" "$(cat "$tmp/out")"
}

native() {
        timeout -k 5 30 "$program" "$1" "$seconds" >"$tmp/out" 2>"$tmp/err"
        row $? "natively, $1"
}

shared() {
        LD_LIBRARY_PATH=$shared_path DETSHARE_CLASS=be timeout -k 5 60 "$program" "$1" "$seconds" >"$tmp/out" 2>"$tmp/err"
        row $? "$2, $1"
}

# beside POLICY PERIOD_MS TEXT: measures the graph beside a latency-sensitive neighbour with one request per period
beside() {
        local neighbour
        "$build/detsharectl" --socket "$tmp/sock" set-policy "$1" >/dev/null || result "set-policy $1" 1
        : >"$tmp/idle"
        LD_LIBRARY_PATH=$shared_path DETSHARE_CLASS=ls timeout -k 5 90 "$program" idle 80 "$2" >"$tmp/idle" 2>"$tmp/idle.err" &
        neighbour=$!
        for _ in $(seq 100); do
                grep -q idle "$tmp/idle" && break
                sleep 0.1
        done
        shared graph "$3, $1, LS $([ "$2" = 0 ] && echo idle || echo "every $2 ms")"
        kill "$neighbour" 2>/dev/null
        wait "$neighbour" 2>/dev/null
}

# with_pieces PIECE_US TEXT: measures the graph in pieces of this length
with_pieces() {
        printf '[daemon]\ngraph_piece_us = %s\n' "$1" >"$tmp/conf"
        daemon_start --config "$tmp/conf" || return
        [ "$1" = 1 ] && shared copy "under DetShare"
        [ "$1" = 1 ] && shared graph "under DetShare, nobody else"
        for policy in detshare multistream; do
                beside "$policy" 0 "$2"
                beside "$policy" 100 "$2"
        done
        daemon_stop >"$tmp/stop"
        grep FAIL "$tmp/stop"
}

if [ -n "$native" ]; then
        native graph
        native plain
        native copy
fi
with_pieces 1 "kernel by kernel"
for us in "${@:-300}"; do
        with_pieces "$us" "pieces of $us us"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
