#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Forms (transformed variants) of kernels in a whole daemon:
# - programs print the same under `--transform never`, `always` and `auto`
# - the daemon uses forms; kernels leave the SMs for a latency-sensitive program and resume, and each of their blocks
#   runs once
# - the next daemon loads the forms that an earlier one made, and a worker's death loses none
#
# Prints `N passed, N failed` last.
#
# usage: tests/e2e/transform.sh BUILD [program ...]
# With programs (all: every one) the script runs these instead of a few, under `always` alone. EVICT=yes runs them
# under a policy that evicts their kernels at random times (tests/policies/evictor.c, `make
# build/tests/policies/evictor.so`).
set -u
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
shift
tmp=$(mktemp -d /tmp/detshare-transform.XXXXXX)
. tests/support/counted.sh
. tests/support/evictor.sh
daemon=
program=
from=$build # where the daemon lies, and what else it is told
options=

# shellcheck disable=SC2317
finish() {
        [ -n "$program" ] && kill -KILL "$program" 2>/dev/null
        [ -n "$daemon" ] && kill -KILL "$daemon" 2>/dev/null
        rm -rf "$tmp"
}
trap finish EXIT

ctl() {
        DETSHARE_SOCKET=$tmp/sock "$build/detsharectl" "$@"
}

# figure KEY: prints a value of the daemon's status
figure() {
        ctl status --json >"$tmp/status" 2>/dev/null
        sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$tmp/status" | head -n 1
}

# start MODE: starts a daemon that keeps its state directory
start() {
        rm -f "$tmp/sock"
        # shellcheck disable=SC2086
        "$from/detshared" --device sim:h200 --socket "$tmp/sock" --state "$tmp/state" --transform "$1" $options >"$tmp/daemon.log" 2>&1 &
        daemon=$!
        for _ in $(seq 600); do
                [ -S "$tmp/sock" ] && return
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

# run PROGRAM [ARGUMENT ...]: runs a program; output goes to $tmp/out
run() {
        local name=$1
        shift
        LD_LIBRARY_PATH=$build/cuda DETSHARE_SOCKET=$tmp/sock KERNELS_DIR=$build/ptx/sm_90 \
                timeout 120 "$build/tests/programs/$name" "$@" >"$tmp/out" 2>&1
}

# begin FILE ROUNDS TURNS [WAVES]: starts program `evictions` in the background; output goes to FILE.out
begin() {
        rm -f "$1"
        LD_LIBRARY_PATH=$build/cuda DETSHARE_SOCKET=$tmp/sock timeout 120 "$build/tests/programs/evictions" \
                "$build/ptx/sm_90" "$2" "$3" "${4:-0}" "$1" >"$1.out" 2>&1 &
        program=$!
}

# waits FILE: waits until the program has created FILE
waits() {
        until [ -e "$1" ]; do
                kill -0 "$program" 2>/dev/null || return 1
                sleep 0.02
        done
}

# goes_on FILE WHAT: removes FILE, for which the program waits. Counts the check WHAT: the program ends with status 0.
goes_on() {
        rm -f "$1"
        wait "$program"
        result "$2" $? "$1.out"
        program=
}

# serve OUT: a latency-sensitive service with requests over time; OUT gets a line with the answer's digest for each
serve() {
        DETSHARE_CLASS=ls LD_LIBRARY_PATH=$build/cuda:$build DETSHARE_SOCKET=$tmp/sock timeout 120 "$build/demo/ls_service" \
                "$build/demo/kernels.ptx" tests/data/apollo_inter_arrival_s.json 30 40 >"$1" 2>"$1.err"
}

# let_go FILE: explain's output in FILE says that a kernel of the program was launched in a form that can be evicted
let_go() {
        grep -q '"form": *"\(persistent\|sliced\)"' "$1"
}

# until_is KEY VALUE: waits until the daemon's status has this value
until_is() {
        for _ in $(seq 1200); do
                [ "$(figure "$1")" = "$2" ] && return
                kill -0 "$daemon" || return
                sleep 0.05
        done
        return 1
}

if [ $# -gt 0 ]; then
        programs=$*
        [ "$programs" = all ] && programs=$(cd tests/programs && ls ./*.c | sed 's|^\./||; s|\.c$||')
        if [ -n "${EVICT:-}" ]; then
                evicting_daemon "$build"
                from=$tmp/evicting
                options="--policy evictor"
        fi
        start always
        for name in $programs; do
                run "$name"
                result "$name, always${EVICT:+ and evicted at random}" $? "$tmp/out"
        done
        DETSHARE_SOCKET=$tmp/sock evicting_figures
        stop always
        printf '%d passed, %d failed\n' $passed $failed
        exit $((failed > 0))
fi

# --- no transformation ----------------------------------------------------------------------------------------

few="saxpy module_globals graphs_capture evictions"
start never
for name in $few; do
        run "$name"
        result "$name, never" $? "$tmp/out"
        cp "$tmp/out" "$tmp/$name.never"
done
[ "$(figure transform) $(figure forms_made) $(figure launches_persistent) $(figure launches_sliced)" = "never 0 0 0" ]
result "never: all launches are native" $? "$tmp/status"
serve "$tmp/service.never"
result "a service, never" $? "$tmp/service.never.err"
stop never

# --- transformation before loading, forms always used ---------------------------------------------------------

start always
for name in $few; do
        run "$name"
        result "$name, always" $? "$tmp/out"
        cmp -s "$tmp/out" "$tmp/$name.never"
        result "$name prints the same" $? "$tmp/out"
done
[ "$(figure launches_persistent)" -gt 0 ] && [ "$(figure forms_made)" -gt 0 ]
result "always: forms were made and used" $? "$tmp/status"

# The program repeats until an eviction has happened, up to ten times.
for _ in $(seq 10); do
        begin "$tmp/busy" 24 3000
        while kill -0 "$program" 2>/dev/null && [ ! -e "$tmp/busy" ] && [ "$(figure evictions)" = 0 ]; do
                DETSHARE_CLASS=ls run stairs "$build/ptx/sm_90" 10 100
                [ $? = 0 ] || result "an LS program beside it" 1 "$tmp/out"
        done
        waits "$tmp/busy"
        goes_on "$tmp/busy" "a program beside a latency-sensitive one: each block ran once"
        [ "$(figure evictions)" = 0 ] || break
done
[ "$(figure evictions)" -gt 0 ] && [ "$(figure resumes)" -gt 0 ]
result "always: kernels were evicted and resumed" $? "$tmp/status"

# The blocks of this kernel leave no room on an SM for the worker blocks of the persistent form, so slices are used.
before=$(figure launches_sliced)
run stairs "$build/ptx/sm_90" 4
result "stairs, always" $? "$tmp/out"
[ "$(figure launches_sliced)" -gt "$before" ]
result "a kernel without room for one form gets another form" $? "$tmp/status"

begin "$tmp/killed" 4 100
waits "$tmp/killed"
[ "$(figure modules_transformed)" = 1 ]
result "the module of stairs has forms" $? "$tmp/status"
kill -KILL "$(figure worker_pid)"
until_is worker_restarts 1
goes_on "$tmp/killed" "a module with forms is given to the next worker"
stop always

# --- forms of an earlier daemon -------------------------------------------------------------------------------

start auto
begin "$tmp/found" 4 100
waits "$tmp/found"
[ "$(figure forms_made) $(figure forms_found) $(figure modules_transformed)" = "0 1 1" ]
result "auto: forms of the earlier daemon are loaded" $? "$tmp/status"
id=$(ctl clients --json | sed -n 's/^ *"id": *\([0-9]*\).*/\1/p' | head -n 1)
ctl explain --json "$id" >"$tmp/explain"
grep -q '"sliced": *true' "$tmp/explain" && grep -q '"persistent": *true' "$tmp/explain" && grep -q '"instead": *true' "$tmp/explain"
result "explain names its forms" $? "$tmp/explain"
goes_on "$tmp/found" "and runs"
stop auto

# --- transformation in the background -------------------------------------------------------------------------

rm -rf "$tmp/state"
start auto
begin "$tmp/behind" 4 100
waits "$tmp/behind"
until_is modules_transformed 1
result "auto: a second module with forms comes" $? "$tmp/status"
[ "$(figure forms_made) $(figure forms_found)" = "1 0" ]
result "a form is made once" $? "$tmp/status"
kill -KILL "$(figure worker_pid)"
until_is worker_restarts 1
goes_on "$tmp/behind" "and it goes on in the next worker"
run module_globals
result "module_globals, auto" $? "$tmp/out"
DETSHARE_CLASS=ls run saxpy
result "saxpy, auto, latency-sensitive" $? "$tmp/out"

# Blocks of more than 100 us and steady requests: a few launches measure the native form, then forms that can be
# evicted are used.
serve "$tmp/service" &
service=$!
for _ in $(seq 20); do
        begin "$tmp/long" 12 800 5
        waits "$tmp/long"
        ctl explain --json evictions >"$tmp/explain"
        goes_on "$tmp/long" "a program of long blocks beside a service, auto: each block ran once"
        [ "$(figure evictions)" -gt 0 ] && let_go "$tmp/explain" && break
        kill -0 "$service" 2>/dev/null && continue
        serve "$tmp/service" &
        service=$!
done
[ "$(figure evictions)" -gt 0 ] && [ "$(figure resumes)" -gt 0 ] && [ "$(figure launches_persistent)" -gt "$(figure evictions)" ]
result "auto: the kernel is evicted for requests and resumes" $? "$tmp/status"
let_go "$tmp/explain"
result "explain names the form of the launch" $? "$tmp/explain"
wait "$service"
result "the service ends with 0" $? "$tmp/service.err"
cmp -s <(sed 's/.* //' "$tmp/service") <(sed 's/.* //' "$tmp/service.never")
result "the service's answers are the same" $? "$tmp/service"
until_is charges 0
result "no session, charge or image is left" $? "$tmp/status"
stop auto

printf '%d passed, %d failed\n' $passed $failed
exit $((failed > 0))
