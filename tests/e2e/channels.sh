#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Coloured memory (tensors that lie in selected memory channels) in a whole daemon, on simulated GPUs:
# - the daemon finds the channels before it serves, and results with coloured tensors are those of linear memory
# - the memory of a killed client is freed, and a tensor survives the death of the worker and a planned restart
# - the daemon keeps a pool only if calibration says that dividing channels pays, or the configuration demands it
#
# Prints `N passed, N failed` last.
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

# start MODEL LINE...: starts a daemon with these lines in section [channels]
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

# figure KEY: prints a value of the daemon's status
figure() {
        DETSHARE_SOCKET=$tmp/sock "$build/detsharectl" status --json >"$tmp/status" 2>/dev/null
        sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$tmp/status" | head -n 1
}

coloured() {
        LD_LIBRARY_PATH=$build/cuda:$build DETSHARE_SOCKET=$tmp/sock timeout 300 "$build/tests/channels/coloured" "$@"
}

# says TEXT...: waits until the test program prints TEXT as the state of the pool
says() {
        for _ in $(seq 3000); do
                [ "$(coloured slabs 2>/dev/null)" = "$*" ] && return
                sleep 0.1
        done
        coloured slabs
        return 1
}

# heard WORD FILE: waits until WORD is the last line of FILE
heard() {
        for _ in $(seq 3000); do
                [ "$(tail -n 1 "$2" 2>/dev/null)" = "$1" ] && return
                sleep 0.1
        done
        cat "$2"
        return 1
}

# hold BYTES COLOUR: starts a program that holds a tensor; each line written to descriptor 8 makes it verify the
# tensor
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

# true_for MODEL: compares the channels that the daemon found with the true ones of the simulated MODEL
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

# --- a pool of one slab, with a table in a directory of the user who starts the daemon ------------------------
mkdir -m 700 "$tmp/own"
mkdir -m 755 "$tmp/own/tables"
cp lut/tables/sim-a2000.lut "$tmp/own/tables/"
start a2000 pool_mib=2 be=1/3 "tables=$tmp/own/tables"
check "the table tells the channels of the page" [ "$(figure channels_source)" = "table sim-a2000.lut (simulated) for 1 pages" ]
check "sim:a2000: BE has two of six channels" [ "$(figure channels_be) of $(figure channels)" = "2 of 6" ]
check "sim:a2000: sectors have two KiB and no byte is lost" \
        [ "$(figure pool_sector_bytes) $(figure pool_granule_bytes) $(figure pool_lost_permille)" = "2048 1024 0" ]
check "sim:a2000: addresses lie in the channels that the daemon found" true_for a2000
check "sim:a2000: results are those of linear memory" coloured check "$build/ptx/sm_90"
check "slabs count towards a session's memory limit" coloured limit 1000000
check "a program holds a tensor" hold 100000 be
check "the slab belongs to the program" says "0 of 1 free"
check "status reports the lent slab" [ "$(figure pool_slabs_lent) of $(figure pool_slabs)" = "1 of 1" ]
check "the tensor has its bytes" ask
check "a new worker replaces the killed one" killed
check "the tensor has its bytes after the worker's death" ask
check "the new worker does not search channels again" [ "$(grep -c 'coloured memory: ' "$tmp/daemon.log")" = 1 ]
kill -KILL "$holder"
exec 8>&-
wait "$holder" 2>/dev/null
holder=
check "the slab of a killed program is free again" says "1 of 1 free"
check "no charge is left of the killed program" [ "$(figure charges)" = 0 ]
stop "a2000"

# --- sectors of four KiB --------------------------------------------------------------------------------------
start p40 pool_mib=2 be=4 "tables=$tmp/nowhere"
check "sim:p40: the log names a directory of tables that does not exist" grep -q "tables of channels in $tmp/nowhere cannot be read: No such" "$tmp/daemon.log"
check "sim:p40: sectors are four KiB" [ "$(figure channels_be) $(figure pool_sector_bytes)" = "4 4096" ]
check "sim:p40: addresses lie in the channels that the daemon found" true_for p40
check "sim:p40: results are those of linear memory" coloured check "$build/ptx/sm_90"
check "sim:p40: all slabs are free again" says "1 of 1 free"
stop "p40"

# --- planned restart under a service manager ------------------------------------------------------------------
printf '%s\n' '[channels]' pool_mib=4 be=1/3 >"$tmp/detshared.conf"
mkfifo "$tmp/orders"
"$build/tests/manager" -l "$tmp/sock" -f 1000 -- "$build/detshared" --device sim:a2000 --config "$tmp/detshared.conf" --state "$tmp/state" \
        <"$tmp/orders" >"$tmp/manager" 2>"$tmp/daemon.log" &
manager=$!
exec 9>"$tmp/orders"
served() {
        # served N: waits until the daemon has reported READY N times
        for _ in $(seq 3000); do
                [ "$(grep -c '^READY=1' "$tmp/manager")" = "$1" ] && return
                sleep 0.1
        done
        cat "$tmp/manager" "$tmp/daemon.log"
        return 1
}
restart() {
        # restart N: restarts the daemon and waits until the N-th one serves
        echo restart >&9
        served "$1"
}
echo start >&9
check "a daemon under a service manager serves" served 1
check "a program holds a tensor" hold 100000 be
check "another configuration is written" sh -c "printf '%s\n' '[channels]' pool_mib=8 be=off >'$tmp/detshared.conf'"
check "the daemon is restarted" restart 2
check "the tensor has its bytes after the restart" ask
check "the slab still belongs to the program" says "1 of 2 free"
check "the pool keeps its old configuration while a slab is lent" [ "$(figure channels_be) $(figure pool_bytes) $(figure pool_slabs_lent)" = "2 4194304 1" ]
check "the new daemon does not search channels again" [ "$(grep -c 'coloured memory: ' "$tmp/daemon.log")" = 1 ]
check "the daemon is restarted again" restart 3
check "the tensor has its bytes after the second restart" ask
kill -KILL "$holder"
exec 8>&-
wait "$holder" 2>/dev/null
holder=
check "the slab of the killed program is free again" says "2 of 2 free"
check "no charge is left of the killed program" [ "$(figure charges)" = 0 ]
check "results are those of linear memory after restarts" coloured check "$build/ptx/sm_90"
check "the daemon is restarted while no slab is lent" restart 4
check "the new configuration is in force: no pool" says "0 of 0 free: the daemon has no pool of coloured memory"
echo quit >&9
exec 9>&-
wait "$manager"
check "the service manager ends with 0" [ $? = 0 ]
rm -f "$tmp/sock"

# --- a service manager that stores too few descriptors --------------------------------------------------------
printf '%s\n' '[channels]' pool_mib=2 be=1/3 >"$tmp/detshared.conf"
"$build/tests/manager" -l "$tmp/sock" -f 2 -- "$build/detshared" --device sim:a2000 --config "$tmp/detshared.conf" --state "$tmp/state" \
        <"$tmp/orders" >"$tmp/manager" 2>"$tmp/daemon.log" &
manager=$!
exec 9>"$tmp/orders"
echo start >&9
check "a daemon serves under a service manager that stores two descriptors" served 1
check "a program holds a tensor" hold 100000 be
check "the daemon is restarted" restart 2
check "the daemon stored the pool" [ "$(grep -c ^stored "$tmp/manager")" = 2 ]
check "the pool is removed from the store, since no session could be stored" [ "$(grep -c ^removed "$tmp/manager")" = 2 ]
kill -KILL "$holder"
exec 8>&-
wait "$holder" 2>/dev/null
holder=
echo quit >&9
exec 9>&-
wait "$manager"
check "the service manager ends with 0" [ $? = 0 ]
rm -f "$tmp/sock"

# --- pools by calibration -------------------------------------------------------------------------------------
why_not() {
        case $(figure channels_why) in *"$1"*) true ;; *) cat "$tmp/status"; false ;; esac
}

start a2000 pool_mib=4
check "by default there is no pool" says "0 of 0 free: the daemon has no pool of coloured memory"
check "status gives the reason: not calibrated" why_not "channels were not calibrated"
stop "without a pool"
check "calibration says that dividing channels does not pay on this GPU, but on another" sh -c "'$build/tests/channels/measured' '$tmp/state' another/1 6 2 &&
        '$build/tests/channels/measured' '$tmp/state' 'DetShare sim:a2000/26' 6 0"
start a2000 pool_mib=4
check "without a gain there is no pool" says "0 of 0 free: the daemon has no pool of coloured memory"
check "status gives the reason: it does not pay" why_not "does not pay on this GPU"
stop "where channels do not pay"
check "a calibration with 12 channels says that dividing pays" "$build/tests/channels/measured" "$tmp/state" "DetShare sim:a2000/26" 12 4
start a2000 pool_mib=2
check "a calibration with another number of channels is not used, and the log says so" grep -q "share was measured with 12 channels, but this device has 6" "$tmp/daemon.log"
check "the worker is killed, another serves" killed
check "the new worker does not search channels again" [ "$(grep -c 'no pool of coloured memory' "$tmp/daemon.log")" = 1 ]
stop "measured of other channels"
check "a calibration with 6 channels says that dividing pays" "$build/tests/channels/measured" "$tmp/state" "DetShare sim:a2000/26" 6 3
start a2000 pool_mib=2
check "the pool has the calibrated share" [ "$(figure channels_be) of $(figure channels)" = "3 of 6" ]
check "the pool has one free slab" says "1 of 1 free"
stop "as measured"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
