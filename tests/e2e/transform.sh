#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Forms of kernels in a whole daemon: programs say the same under `--transform never`, `always` and `auto`; forms are really used,
# and kernels really let go beside a latency-sensitive program, each of their blocks running once; what was made is found again by
# the next daemon and loaded instead; a worker's death loses none of it. Ends with `N passed, N failed`.
#
# usage: tests/e2e/transform.sh BUILD [program ...]
# With programs (all: every one): those instead of a few, under `always` alone. EVICT=yes: those under a policy that has their
# kernels let go at random times (tests/policies/evictor.c, `make build/tests/policies/evictor.so`).
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

# figure KEY: of the daemon's status
figure() {
        ctl status --json >"$tmp/status" 2>/dev/null
        sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$tmp/status" | head -n 1
}

# start MODE: a daemon whose state stays
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

# run PROGRAM [ARGUMENT ...]: its words in $tmp/out
run() {
        local name=$1
        shift
        LD_LIBRARY_PATH=$build/cuda DETSHARE_SOCKET=$tmp/sock KERNELS_DIR=$build/ptx/sm_90 \
                timeout 120 "$build/tests/programs/$name" "$@" >"$tmp/out" 2>&1
}

# begin FILE ROUNDS TURNS [WAVES]: `evictions` beside all else, its words in FILE.out
begin() {
        rm -f "$1"
        LD_LIBRARY_PATH=$build/cuda DETSHARE_SOCKET=$tmp/sock timeout 120 "$build/tests/programs/evictions" \
                "$build/ptx/sm_90" "$2" "$3" "${4:-0}" "$1" >"$1.out" 2>&1 &
        program=$!
}

# waits FILE: until the program has come there
waits() {
        until [ -e "$1" ]; do
                kill -0 "$program" 2>/dev/null || return 1
                sleep 0.02
        done
}

# goes_on FILE WHAT: and ends well
goes_on() {
        rm -f "$1"
        wait "$program"
        result "$2" $? "$1.out"
        program=
}

# serve OUT: a latency-sensitive service with requests that come; a line for each, and what it answered
serve() {
        DETSHARE_CLASS=ls LD_LIBRARY_PATH=$build/cuda:$build DETSHARE_SOCKET=$tmp/sock timeout 120 "$build/demo/ls_service" \
                "$build/demo/kernels.ptx" tests/data/apollo_inter_arrival_s.json 30 40 >"$1" 2>"$1.err"
}

# let_go FILE: of its kernels one is launched in a form that does, as far as explain says
let_go() {
        grep -q '"form": *"\(persistent\|sliced\)"' "$1"
}

# until_is KEY VALUE: the daemon's figure comes to be that
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
                result "$name, always${EVICT:+ and told to let go}" $? "$tmp/out"
        done
        DETSHARE_SOCKET=$tmp/sock evicting_figures
        stop always
        printf '%d passed, %d failed\n' $passed $failed
        exit $((failed > 0))
fi

# --- nothing is transformed ---------------------------------------------------------------------------------------------------

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

# --- before it is loaded, and always used ---------------------------------------------------------------------------------------

start always
for name in $few; do
        run "$name"
        result "$name, always" $? "$tmp/out"
        cmp -s "$tmp/out" "$tmp/$name.never"
        result "$name says the same" $? "$tmp/out"
done
[ "$(figure launches_persistent)" -gt 0 ] && [ "$(figure forms_made)" -gt 0 ]
result "always: forms were made and used" $? "$tmp/status"

# the program works on until there has been one, or for so many rounds
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
result "always: kernels let go and went on" $? "$tmp/status"

# its blocks leave no room for what a worker of the persistent form needs
before=$(figure launches_sliced)
run stairs "$build/ptx/sm_90" 4
result "stairs, always" $? "$tmp/out"
[ "$(figure launches_sliced)" -gt "$before" ]
result "where one form has no room there is another" $? "$tmp/status"

begin "$tmp/killed" 4 100
waits "$tmp/killed"
[ "$(figure modules_transformed)" = 1 ]
result "its module has forms" $? "$tmp/status"
kill -KILL "$(figure worker_pid)"
until_is worker_restarts 1
goes_on "$tmp/killed" "a module with forms is given to the next worker"
stop always

# --- what was made is there ------------------------------------------------------------------------------------------------------

start auto
begin "$tmp/found" 4 100
waits "$tmp/found"
[ "$(figure forms_made) $(figure forms_found) $(figure modules_transformed)" = "0 1 1" ]
result "auto: what was made before is loaded instead" $? "$tmp/status"
id=$(ctl clients --json | sed -n 's/^ *"id": *\([0-9]*\).*/\1/p' | head -n 1)
ctl explain --json "$id" >"$tmp/explain"
grep -q '"sliced": *true' "$tmp/explain" && grep -q '"persistent": *true' "$tmp/explain" && grep -q '"instead": *true' "$tmp/explain"
result "explain names its forms" $? "$tmp/explain"
goes_on "$tmp/found" "and runs"
stop auto

# --- behind its back --------------------------------------------------------------------------------------------------------------

rm -rf "$tmp/state"
start auto
begin "$tmp/behind" 4 100
waits "$tmp/behind"
until_is modules_transformed 1
result "auto: a second module with forms comes" $? "$tmp/status"
[ "$(figure forms_made) $(figure forms_found)" = "1 0" ]
result "it was made once" $? "$tmp/status"
kill -KILL "$(figure worker_pid)"
until_is worker_restarts 1
goes_on "$tmp/behind" "and it goes on in the next worker"
run module_globals
result "module_globals, auto" $? "$tmp/out"
DETSHARE_CLASS=ls run saxpy
result "saxpy, auto, latency-sensitive" $? "$tmp/out"

# blocks of more than 100 us, and requests all the while: a few launches for the native form's time, then the others let go
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
result "auto: it lets go for requests and goes on" $? "$tmp/status"
let_go "$tmp/explain"
result "explain says in which form it was launched" $? "$tmp/explain"
wait "$service"
result "the service ends well" $? "$tmp/service.err"
cmp -s <(sed 's/.* //' "$tmp/service") <(sed 's/.* //' "$tmp/service.never")
result "and answers the same" $? "$tmp/service"
until_is charges 0
result "nothing is left of anybody" $? "$tmp/status"
stop auto

printf '%d passed, %d failed\n' $passed $failed
exit $((failed > 0))
