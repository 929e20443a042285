# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A daemon for a test's script, which has set $build and $tmp: at $tmp/sock, what it says in $tmp/out and $tmp/log. A script that ends
# early calls daemon_end from its trap.

daemon=

# await FILE WORDS: until the file has them, for a minute: a machine may be slow
await() {
        for _ in $(seq 1200); do
                grep -q "$2" "$1" 2>/dev/null && return 0
                sleep 0.05
        done
        return 1
}

# daemon_start OPTION...: until it serves
daemon_start() {
        # shellcheck disable=SC2154
        : >"$tmp/out" # of the one before
        # shellcheck disable=SC2154
        "$build/detshared" --socket "$tmp/sock" --foreground "$@" >"$tmp/out" 2>"$tmp/log" &
        daemon=$!
        await "$tmp/out" serving
}

# its exit status
daemon_stop() {
        kill -TERM "$daemon"
        wait "$daemon"
        local r=$?
        daemon=
        return $r
}

daemon_end() {
        [ -z "$daemon" ] || kill -KILL "$daemon" 2>/dev/null
}
