# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A daemon for scripts that have set $build and $tmp. It listens at $tmp/sock; its output is in $tmp/out and $tmp/log.
# A script that ends early calls daemon_end from its trap.

daemon=

# await FILE WORDS: waits until the file contains the words, at most a minute, because a machine may be slow
await() {
        for _ in $(seq 1200); do
                grep -q "$2" "$1" 2>/dev/null && return 0
                sleep 0.05
        done
        return 1
}

# daemon_start OPTION...: starts the daemon and returns when it serves
daemon_start() {
        # shellcheck disable=SC2154
        : >"$tmp/out" # of the one before
        # shellcheck disable=SC2154
        "$build/detshared" --socket "$tmp/sock" --foreground "$@" >"$tmp/out" 2>"$tmp/log" &
        daemon=$!
        await "$tmp/out" serving
}

# daemon_stop: ends the daemon; its status is the daemon's exit status
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
