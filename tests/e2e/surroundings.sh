#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# detshared in surroundings that lack something: no list of users, no policies, a directory that is missing, read-only
# or full, no locked memory, few processes. The daemon serves if it can. Otherwise it ends, and a line names what is
# missing. It never hangs or crashes.
#
# usage: tests/e2e/surroundings.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(cd "$1" && pwd)
dir=$(mktemp -d /tmp/detshare-surroundings-XXXXXX)
tree=$dir/tree # where anybody may start it
passed=0
failed=0
daemon=

# shellcheck disable=SC2317
cleanup() {
        [ -n "$daemon" ] && kill -KILL "$daemon" 2>/dev/null
        wait 2>/dev/null
        rm -rf "$dir"
}
trap cleanup EXIT
ok() {
        passed=$((passed + 1))
}
bad() {
        failed=$((failed + 1))
        echo "FAIL $*: $(tail -n 5 "$dir/err")"
}
# start COMMAND...: starts a daemon in the background, pid $daemon
start() {
        : >"$dir/out"
        : >"$dir/err"
        rm -f "$dir/own/sock"
        "$@" >"$dir/out" 2>"$dir/err" </dev/null &
        daemon=$!
}
# is_serving SECONDS: waits until the daemon serves
is_serving() {
        for _ in $(seq $(($1 * 20))); do
                grep -q serving "$dir/out" && return 0
                kill -0 "$daemon" 2>/dev/null || return 1
                sleep 0.05
        done
        return 1
}
# ends WHAT: sends SIGTERM, which must end the daemon with 0
ends() {
        local status=124
        kill -TERM "$daemon" 2>/dev/null
        for _ in $(seq 2000); do
                kill -0 "$daemon" 2>/dev/null || {
                        wait "$daemon"
                        status=$?
                        break
                }
                sleep 0.05
        done
        if [ "$status" -le 1 ] && ! grep -q 'by signal [67]\|by signal 11\|Assertion' "$dir/err"; then
                ok
        else
                bad "$1: it ended with $status"
        fi
        daemon=
}
# serves WHAT COMMAND...: the daemon serves a client and ends with 0
serves() {
        local what=$1
        shift
        start "$@"
        if is_serving 120 && timeout 300 "$build/detsharectl" --socket "$dir/own/sock" status >"$dir/status" 2>>"$dir/err"; then
                ok
        else
                bad "$what: it does not serve"
        fi
        ends "$what"
}
# refuses WHAT PATTERN COMMAND...: the daemon ends by itself with 1 or 2, and its message has PATTERN
refuses() {
        local what=$1 pattern=$2 status
        shift 2
        timeout 300 "$@" >"$dir/out" 2>"$dir/err" </dev/null
        status=$?
        if { [ $status = 1 ] || [ $status = 2 ]; } && grep -q -- "$pattern" "$dir/err" && ! grep -q '\.c +[0-9]' "$dir/err"; then
                ok
        else
                bad "$what: status $status"
        fi
}

mkdir -p "$tree/libexec" "$dir/own"
cp "$build/detshared" "$tree/"
cp "$build/libexec/detshare-worker" "$build/libexec/detshare-helper" "$tree/libexec/"
chmod 755 "$dir" "$tree" "$tree/libexec"
sock=$dir/own/sock

# --- policies -------------------------------------------------------------------------------------------------
serves "no policies" "$tree/detshared" --socket "$sock" --device sim:h200
refuses "a policy where there are none" "has no policies" "$tree/detshared" --socket "$sock" --device sim:h200 --policy static
cp -r "$build/policies" "$tree/"
start "$tree/detshared" --socket "$sock" --device sim:h200 --policy static
is_serving 120 || bad "the tree does not serve"
rm -r "$tree/policies"
if ! timeout 300 "$build/detsharectl" --socket "$sock" set-policy multistream >"$dir/status" 2>>"$dir/err" &&
        timeout 300 "$build/detsharectl" --socket "$sock" status >"$dir/status" 2>>"$dir/err" && grep -q static "$dir/status"; then
        ok
else
        bad "the daemon stopped serving when the policies were removed"
fi
ends "without the policies that it began with"

# --- directories ----------------------------------------------------------------------------------------------
refuses "a place that is not there" "$dir/nowhere" "$tree/detshared" --socket "$dir/nowhere/deep/sock" --device sim:h200
# shellcheck disable=SC2016
mounted=(unshare -m bash -c 'mount -t tmpfs -o "$1" none "$2" && shift 2 && exec "$@"' -) # OPTIONS PLACE COMMAND...
if [ "$(id -u)" = 0 ] && unshare -m mount -t tmpfs none "$dir/own" 2>/dev/null; then
        refuses "a read-only place" "Read-only file system" "${mounted[@]}" ro "$dir/own" "$tree/detshared" --socket "$sock" --device sim:h200
        refuses "a full place" "No space left" "${mounted[@]}" size=4k,nr_inodes=1 "$dir/own" "$tree/detshared" --socket "$sock" --device sim:h200
        # --- empty lists of users
        # -------------------------------------------------------------------------------------
        # shellcheck disable=SC2016
        serves "no users" unshare -m bash -c \
                'mount --bind /dev/null /etc/passwd && mount --bind /dev/null /etc/group && exec "$@"' - \
                "$tree/detshared" --socket "$sock" --device sim:h200
else
        echo "SKIP mounts of its own: needs root and mount namespaces"
fi

# --- as an ordinary user, whom limits bind --------------------------------------------------------------------
if [ "$(id -u)" = 0 ]; then
        chown 64999:64999 "$dir/own"
        as=(setpriv --reuid=64999 --regid=64999 --clear-groups)
else
        as=(env)
fi
serves "no locked memory" "${as[@]}" prlimit --memlock=0:0 "$tree/detshared" --socket "$sock" --device sim:h200
if [ "$(id -u)" = 0 ]; then
        refuses "a place of somebody else" "Permission denied" "${as[@]}" "$tree/detshared" --socket "$dir/sock" --device sim:h200
        served=0
        for n in 1 2 3 5 8 16; do
                start "${as[@]}" prlimit --nproc=$n:$n "$tree/detshared" --socket "$sock" --device sim:h200
                # The start may take long on a slow machine.
                for _ in $(seq 2000); do
                        [ -s "$dir/err" ] || [ -s "$dir/out" ] && break
                        sleep 0.05
                done
                is_serving 1 && served=$((served + 1))
                [ -s "$dir/err" ] || [ -s "$dir/out" ] || bad "$n processes: no message"
                ends "$n processes"
        done
        echo "of 6 limits on processes it served under $served"
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
