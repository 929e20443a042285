#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# systemd-socket-activate starts detshared on the first connection. The daemon serves a socket with the name that the
# unit gives it, and does not serve a socket with another name. Skipped where systemd-socket-activate is not
# installed.
#
# usage: tests/e2e/systemd_activate.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(cd "$1" && pwd)
if ! command -v systemd-socket-activate >/dev/null; then
        echo "SKIP start by a socket: needs systemd-socket-activate"
        echo "0 passed, 0 failed"
        exit 0
fi
dir=$(mktemp -d /tmp/detshare-activate-XXXXXX)
passed=0
failed=0
daemon=

cleanup() {
        [ -n "$daemon" ] && kill -KILL "$daemon" 2>/dev/null
        rm -rf "$dir"
}
trap cleanup EXIT
ok() {
        passed=$((passed + 1))
}
bad() {
        failed=$((failed + 1))
        echo "FAIL $*: $(tail -n 3 "$dir/err")"
}
# activate NAME...: systemd-socket-activate listens at $dir/sock; the daemon itself would bind $dir/own
activate() {
        systemd-socket-activate -l "$dir/sock" "$@" "$build/detshared" --device sim:h200 --socket "$dir/own" >"$dir/out" 2>"$dir/err" </dev/null &
        daemon=$!
        for _ in $(seq 2000); do
                [ -S "$dir/sock" ] && return
                sleep 0.05
        done
        bad "systemd-socket-activate does not listen"
}
stop() {
        kill "$daemon"
        wait "$daemon"
        status=$?
        daemon=
}

activate --fdname=detshared
grep -q serving "$dir/out" && bad "the daemon was started before the first connection" || ok
if timeout 300 "$build/detsharectl" --socket "$dir/sock" status >"$dir/status" 2>&1 && grep -q 'sim:h200' "$dir/status"; then
        ok
else
        bad "the first who came: $(cat "$dir/status")"
fi
grep -q "^detshared: serving .* at $dir/sock " "$dir/out" && ok || bad "$(cat "$dir/out")"
[ ! -e "$dir/own" ] && ok || bad "the daemon has bound a socket of its own"
timeout 300 "$build/detsharectl" --socket "$dir/sock" clients >/dev/null 2>&1 && ok || bad "a second client is not served"
stop
[ "$status" = 0 ] && ok || bad "stopped: exit status $status"
[ -S "$dir/sock" ] && ok || bad "the socket file, which is not the daemon's, is gone"
rm -f "$dir/sock"

# A socket without a name, or with another one: the daemon logs it, does not serve it, and serves its own socket.
for name in "" --fdname=web; do
        activate ${name:+"$name"}
        (exec 3<>/dev/null; timeout 5 "$build/detsharectl" --socket "$dir/sock" status >/dev/null 2>&1) &
        for _ in $(seq 2000); do
                grep -q serving "$dir/out" && break
                sleep 0.05
        done
        grep -q "^detshared: serving .* at $dir/own " "$dir/out" && ok || bad "name '$name': $(cat "$dir/out")"
        grep -q "which is not used: FileDescriptorName=detshared" "$dir/err" && ok || bad "name '$name' is not mentioned"
        timeout 300 "$build/detsharectl" --socket "$dir/own" status >/dev/null 2>&1 && ok || bad "name '$name': the own socket"
        stop
        wait
        rm -f "$dir/sock"
done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
