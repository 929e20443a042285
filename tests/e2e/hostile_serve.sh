#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# detshare-serve under attack by users who may write to its socket (tests/serve/hostile.py lists the attacks), beside
# a good user. The server does not restart, gives the good user the same bytes, and ends on SIGTERM.
# tests/e2e/serve.sh covers its time limits. Prints `N passed, N failed` last.
#
# usage: tests/e2e/hostile_serve.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-hostile-serve.XXXXXX)
export DETSHARE_SOCKET=$tmp/sock PYTHONDONTWRITEBYTECODE=1
unset DETSHARE_CLASS DETSHARE_NAME DETSHARE_SLO_MS
. tests/support/counted.sh
. tests/support/daemon.sh
pack=tests/offline/packs/tiny-mlp
connections=512
server=

# shellcheck disable=SC2317
finish() {
        [ -n "$server" ] && kill -KILL "$server" 2>/dev/null
        daemon_end
        rm -rf "$tmp"
}
trap finish EXIT

check "a daemon starts" daemon_start --device sim:h200
"$build/detshare-serve" $pack --listen "$tmp/at" --connections $connections --json >"$tmp/served" 2>"$tmp/served.err" &
server=$!
check "the server listens" await "$tmp/served" 'serving tiny-mlp at'
chmod 711 "$tmp"
chmod 666 "$tmp/at"
timeout 100 python3 tests/serve/hostile.py "$tmp/at" $pack $server $connections >"$tmp/clients" 2>&1
result "hostile users do not disturb the good user" $? "$tmp/clients"
grep -v '^FAIL' "$tmp/clients"
of_clients=$(sed -n 's/^\([0-9]*\) passed, .*/\1/p' "$tmp/clients")
passed=$((passed + ${of_clients:-0}))
check "the server process is the same" kill -0 $server
check "no socket of a client is left open" [ "$(find /proc/$server/fd -mindepth 1 -lname 'socket:*' | wc -l)" -le 4 ]
kill -TERM $server
wait $server
result "the server ends with 0 on SIGTERM" $? "$tmp/served.err"
server=
check "the server counts what it refused" bash -c "tail -n 1 '$tmp/served' | jq -e '.bad > 100 and .busy > 600'"
check "the daemon stops" daemon_stop

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
