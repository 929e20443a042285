#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Coloured memory in a whole daemon: channels are found before anybody is served, programs have tensors in some of them and kernels
# that find them there, results are those of linear memory; limits, clients that are killed, workers that are killed, and
# daemons that keep no pool. Ends with `N passed, N failed`.
#
# usage: tests/e2e/channels.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-channels.XXXXXX)
. tests/support/counted.sh
daemon=
holder=
manager=

# shellcheck disable=SC2317
finish() {
        [ -n "$holder" ] && kill -KILL "$holder" 2>/dev/null
        [ -n "$daemon" ] && kill -KILL "$daemon" 2>/dev/null
        [ -n "$manager" ] && kill -KILL "$manager" 2>/dev/null
        rm -rf "$tmp"
}
trap finish EXIT
chmod 755 "$tmp"

# start MODEL LINE...: a daemon with these lines under [channels]
start() {
        local model=$1
        shift
        printf '%s\n' '[channels]' "$@" >"$tmp/detshared.conf"
        : >"$tmp/daemon.log"
        "$build/detshared" --device "sim:$model" --config "$tmp/detshared.conf" --socket "$tmp/sock" --state "$tmp/state" >"$tmp/daemon.log" 2>&1 &
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

# figure KEY: of the daemon's status
figure() {
        DETSHARE_SOCKET=$tmp/sock "$build/detsharectl" status --json >"$tmp/status" 2>/dev/null
        sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$tmp/status" | head -n 1
}

coloured() {
        LD_LIBRARY_PATH=$build/cuda:$build DETSHARE_SOCKET=$tmp/sock timeout 300 "$build/tests/channels/coloured" "$@"
}

# says TEXT...: a program's word, in the end
says() {
        for _ in $(seq 3000); do
                [ "$(coloured slabs 2>/dev/null)" = "$*" ] && return
                sleep 0.1
        done
        coloured slabs
        return 1
}

# heard WORD FILE: the file's last line, in the end
heard() {
        for _ in $(seq 3000); do
                [ "$(tail -n 1 "$2" 2>/dev/null)" = "$1" ] && return
                sleep 0.1
        done
        cat "$2"
        return 1
}

# hold BYTES COLOUR: a program that has a tensor; fd 8 is what it is asked by
hold() {
        rm -f "$tmp/ask"
        mkfifo "$tmp/ask"
        LD_LIBRARY_PATH=$build/cuda:$build DETSHARE_SOCKET=$tmp/sock "$build/tests/channels/coloured" hold "$@" \
                <"$tmp/ask" >"$tmp/held" 2>&1 &
        holder=$!
        exec 8>"$tmp/ask"
        heard holding "$tmp/held"
}

ask() {
        echo >&8
        heard there "$tmp/held"
}

# true_for MODEL: what the daemon knows of its pool
true_for() {
        local fd
        for fd in /proc/"$daemon"/fd/*; do
                case $(readlink "$fd") in /memfd:detshare-channels*) cp "$fd" "$tmp/facts" ;; esac
        done
        "$build/tests/channels/truth" "$1" "$tmp/facts"
}

killed() {
        local worker
        worker=$(figure worker_pid)
        kill -KILL "$worker"
        for _ in $(seq 3000); do
                [ "$(figure worker_pid)" != "$worker" ] && [ "$(figure worker_state)" = serving ] && return
                sleep 0.1
        done
        return 1
}

# --- a pool of one slab, by a table in a place that is the starting user's own ---
mkdir -m 700 "$tmp/own"
mkdir -m 755 "$tmp/own/tables"
cp lut/tables/sim-a2000.lut "$tmp/own/tables/"
start a2000 pool_mib=2 be=1/3 "tables=$tmp/own/tables"
check "the table tells the page" [ "$(figure channels_source)" = "table sim-a2000.lut (simulated) for 1 pages" ]
check "sim:a2000: two of six channels are best effort's" [ "$(figure channels_be) of $(figure channels)" = "2 of 6" ]
check "and its sectors are two KiB, of which nothing is lost" \
        [ "$(figure pool_sector_bytes) $(figure pool_granule_bytes) $(figure pool_lost_permille)" = "2048 1024 0" ]
check "and they lie where it says" true_for a2000
check "results are those of linear memory" coloured check "$build/ptx/sm_90"
check "a session's memory limit counts slabs" coloured limit 1000000
check "a program holds a tensor" hold 100000 be
check "its slab is its own" says "0 of 1 free"
check "the status says so" [ "$(figure pool_slabs_lent) of $(figure pool_slabs)" = "1 of 1" ]
check "its bytes are there" ask
check "the worker is killed, another serves" killed
check "the bytes are there again" ask
check "and channels were not looked for again" [ "$(grep -c 'coloured memory: ' "$tmp/daemon.log")" = 1 ]
kill -KILL "$holder"
exec 8>&-
wait "$holder" 2>/dev/null
holder=
check "of a program that was killed all is free again" says "1 of 1 free"
check "nobody pays for it any more" [ "$(figure charges)" = 0 ]
stop "a2000"

# --- sectors of four KiB ---
start p40 pool_mib=2 be=4 "tables=$tmp/nowhere"
check "sim:p40: tables that are not there are told of" grep -q "tables of channels in $tmp/nowhere cannot be read: No such" "$tmp/daemon.log"
check "sim:p40: sectors are four KiB" [ "$(figure channels_be) $(figure pool_sector_bytes)" = "4 4096" ]
check "and they lie where it says" true_for p40
check "results are those of linear memory" coloured check "$build/ptx/sm_90"
check "and all is free again" says "1 of 1 free"
stop "p40"

# --- a planned restart, under a service manager ---
printf '%s\n' '[channels]' pool_mib=4 be=1/3 >"$tmp/detshared.conf"
mkfifo "$tmp/orders"
"$build/tests/manager" -l "$tmp/sock" -f 1000 -- "$build/detshared" --device sim:a2000 --config "$tmp/detshared.conf" --state "$tmp/state" \
        <"$tmp/orders" >"$tmp/manager" 2>"$tmp/daemon.log" &
manager=$!
exec 9>"$tmp/orders"
served() {
        # served N: the daemon has begun to serve so many times
        for _ in $(seq 3000); do
                [ "$(grep -c '^READY=1' "$tmp/manager")" = "$1" ] && return
                sleep 0.1
        done
        cat "$tmp/manager" "$tmp/daemon.log"
        return 1
}
restart() {
        # restart N: the N-th daemon serves
        echo restart >&9
        served "$1"
}
echo start >&9
check "a daemon with a manager serves" served 1
check "a program holds a tensor" hold 100000 be
check "another configuration is written" sh -c "printf '%s\n' '[channels]' pool_mib=8 be=off >'$tmp/detshared.conf'"
check "the daemon is restarted" restart 2
check "the bytes are there" ask
check "the slab is still the program's" says "1 of 2 free"
check "of the pool that it was" [ "$(figure channels_be) $(figure pool_bytes) $(figure pool_slabs_lent)" = "2 4194304 1" ]
check "channels were not looked for again" [ "$(grep -c 'coloured memory: ' "$tmp/daemon.log")" = 1 ]
check "and again" restart 3
check "the bytes are there, again" ask
kill -KILL "$holder"
exec 8>&-
wait "$holder" 2>/dev/null
holder=
check "of a program that was killed all is free again" says "2 of 2 free"
check "nobody pays for it any more" [ "$(figure charges)" = 0 ]
check "results are those of linear memory" coloured check "$build/ptx/sm_90"
check "the daemon is restarted, and nobody has any of it" restart 4
check "then the configuration counts" says "0 of 0 free: the daemon has no pool of coloured memory"
echo quit >&9
exec 9>&-
wait "$manager"
check "the manager has no complaint" [ $? = 0 ]
rm -f "$tmp/sock"

# --- a manager that does not take enough ---
printf '%s\n' '[channels]' pool_mib=2 be=1/3 >"$tmp/detshared.conf"
"$build/tests/manager" -l "$tmp/sock" -f 2 -- "$build/detshared" --device sim:a2000 --config "$tmp/detshared.conf" --state "$tmp/state" \
        <"$tmp/orders" >"$tmp/manager" 2>"$tmp/daemon.log" &
manager=$!
exec 9>"$tmp/orders"
echo start >&9
check "a daemon with a manager that keeps two files serves" served 1
check "a program holds a tensor" hold 100000 be
check "the daemon is restarted" restart 2
check "the pool was stored" [ "$(grep -c ^stored "$tmp/manager")" = 2 ]
check "which is taken back, as no session could be" [ "$(grep -c ^removed "$tmp/manager")" = 2 ]
kill -KILL "$holder"
exec 8>&-
wait "$holder" 2>/dev/null
holder=
echo quit >&9
exec 9>&-
wait "$manager"
check "the manager has no complaint" [ $? = 0 ]
rm -f "$tmp/sock"

# --- as it was measured ---
why_not() {
        case $(figure channels_why) in *"$1"*) true ;; *) cat "$tmp/status"; false ;; esac
}

start a2000 pool_mib=4
check "by default nothing is set aside" says "0 of 0 free: the daemon has no pool of coloured memory"
check "as nothing was measured" why_not "channels were not calibrated"
stop "without a pool"
check "another GPU is measured, and this one: it does not pay" sh -c "'$build/tests/channels/measured' '$tmp/state' another/1 6 2 &&
        '$build/tests/channels/measured' '$tmp/state' 'DetShare sim:a2000/26' 6 0"
start a2000 pool_mib=4
check "then nothing is set aside" says "0 of 0 free: the daemon has no pool of coloured memory"
check "and it says that" why_not "does not pay on this GPU"
stop "where channels do not pay"
check "it was measured of other channels: it pays" "$build/tests/channels/measured" "$tmp/state" "DetShare sim:a2000/26" 12 4
start a2000 pool_mib=2
check "then nothing is set aside, which the log says" grep -q "share was measured with 12 channels, but this device has 6" "$tmp/daemon.log"
check "the worker is killed, another serves" killed
check "and channels were not looked for again" [ "$(grep -c 'no pool of coloured memory' "$tmp/daemon.log")" = 1 ]
stop "measured of other channels"
check "it is measured: it pays" "$build/tests/channels/measured" "$tmp/state" "DetShare sim:a2000/26" 6 3
start a2000 pool_mib=2
check "then there is a pool, as it was measured" [ "$(figure channels_be) of $(figure channels)" = "3 of 6" ]
check "which is lent" says "1 of 1 free"
stop "as measured"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
