#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Measures how long a daemon that reserves coloured memory takes until it serves: with and without tables of channels,
# with pools of several sizes. LOGS/NAME.log contains each daemon's start-up log, with the seconds since its start
# before each line; one line per daemon is printed. A daemon that does not serve within a minute (LIMIT seconds) is
# ended, and its line says so. The exit status is 0 if all served.
#
# usage: tests/gpu/pool.sh BUILD DEVICE LOGS MIB[+table]...        e.g. 256+table 256 1024+table; SHARE: best effort's
# share (1/3)
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
device=$2
mkdir -p "$3"
logs=$(realpath "$3")
shift 3
tmp=$(mktemp -d /tmp/detshare-pool.XXXXXX)
chmod 755 "$tmp"
daemon=

# shellcheck disable=SC2317
finish() {
        [ -z "$daemon" ] || kill -KILL "$daemon" 2>/dev/null
        rm -rf "$tmp"
}
trap finish EXIT

since() { # since BEGIN: seconds since BEGIN, a value of $EPOCHREALTIME
        awk -v begin="$1" -v now="$EPOCHREALTIME" 'BEGIN { printf "%.2f", now - begin }'
}

stamp() { # stamp BEGIN: copies lines, each with the seconds since BEGIN before it
        local line
        while IFS= read -r line; do
                printf '%8.2f  %s\n' "$(since "$1")" "$line"
        done
}

# start NAME: starts a daemon with the configuration $tmp/conf; returns when it serves, has ended, or the time is over
start() {
        local begin=$EPOCHREALTIME end=$((SECONDS + ${LIMIT:-60}))
        "$build/detshared" --foreground --device "$device" --config "$tmp/conf" --socket "$tmp/sock" --state "$tmp/state" \
                > >(stamp "$begin" >"$logs/$1.log") 2>&1 &
        daemon=$!
        while [ $SECONDS -lt $end ] && kill -0 "$daemon" 2>/dev/null; do
                grep -q serving "$logs/$1.log" 2>/dev/null && { since "$begin"; return 0; }
                sleep 0.05
        done
        return 1
}

stop() {
        kill -TERM "$daemon" 2>/dev/null
        for _ in $(seq 200); do
                kill -0 "$daemon" 2>/dev/null || break
                sleep 0.05
        done
        kill -KILL "$daemon" 2>/dev/null
        wait "$daemon" 2>/dev/null
        daemon=
}

failed=0
for what; do
        name=$(printf '%s' "$what" | tr + .)
        mkdir -p "$tmp/none" "$tmp/tables"
        cp lut/tables/*.lut "$tmp/tables/"
        case $what in *+table) tables=$tmp/tables ;; *) tables=$tmp/none ;; esac
        printf '%s\n' '[channels]' "pool_mib = ${what%%+*}" "be = ${SHARE:-1/3}" "tables = $tables" >"$tmp/conf"
        rm -rf "$tmp/state"
        if start "$name" >"$tmp/seconds"; then
                "$build/detsharectl" --socket "$tmp/sock" status --wide >"$logs/$name.status" 2>&1
                printf '%-12s serves after %6s s  %s\n' "$what" "$(cat "$tmp/seconds")" "$(grep -i -m 1 channels "$logs/$name.status" | tr -s ' ')"
        else
                failed=1
                printf '%-12s does not serve after %s s; its last log line: %s\n' "$what" "${LIMIT:-60}" "$(tail -n 1 "$logs/$name.log" | cut -c 1-160)"
        fi
        stop
done
exit $failed
