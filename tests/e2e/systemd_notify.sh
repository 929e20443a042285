#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Messages of detshared to a service manager, played by tests/support/manager: READY only when the daemon serves, its
# status, a reload and its result, the watchdog while the main loop runs, the stop. The daemon serves sockets that the
# manager passes, leaves their files alone, and refuses descriptors that are no sockets.
#
# usage: tests/e2e/systemd_notify.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(cd "$1" && pwd)
dir=$(mktemp -d /tmp/detshare-notify-XXXXXX)
passed=0
failed=0
manager=

cleanup() {
        exec 9>&-
        [ -n "$manager" ] && kill -KILL "$manager" 2>/dev/null
        wait 2>/dev/null
        rm -rf "$dir"
}
trap cleanup EXIT
ok() {
        passed=$((passed + 1))
}
bad() {
        failed=$((failed + 1))
        echo "FAIL $*"
        sed 's/^/    /' "$dir/said" "$dir/err" | tail -n 20
}
# equals WHAT WANTED GOT: the two values are equal
equals() {
        if [ "$2" = "$3" ]; then ok; else bad "$1: '$3' and not '$2'"; fi
}
# manage OPTION... -- COMMAND...: starts a manager, pid $manager, that takes commands from descriptor 9
manage() {
        rm -f "$dir/words"
        mkfifo "$dir/words"
        : >"$dir/said"
        : >"$dir/err"
        "$build/tests/manager" "$@" <"$dir/words" >"$dir/said" 2>"$dir/err" &
        manager=$!
        exec 9>"$dir/words"
}
word() {
        echo "$1" >&9
}
# lines PATTERN: prints the number of messages so far that have PATTERN
lines() {
        grep -cE -- "$1" "$dir/said"
}
# hears PATTERN [N]: waits for N messages with PATTERN in all; the machine may be slow
hears() {
        for _ in $(seq 2000); do
                [ "$(lines "$1")" -ge "${2:-1}" ] && ok && return 0
                sleep 0.05
        done
        bad "'$1' was not said ${2:-1} times"
        return 1
}
# before A B: the first message A comes before the first message B
before() {
        local a b
        a=$(grep -nE -m 1 -- "$1" "$dir/said" | cut -d: -f1)
        b=$(grep -nE -m 1 -- "$2" "$dir/said" | cut -d: -f1)
        if [ -n "$a" ] && [ -n "$b" ] && [ "$a" -lt "$b" ]; then ok; else bad "'$1' does not come before '$2'"; fi
}
quit_manager() {
        word quit
        exec 9>&-
        wait "$manager"
        manager=
}
status() {
        timeout 300 "$build/detsharectl" --socket "$1" status >/dev/null 2>&1
}

# --- start ----------------------------------------------------------------------------------------------------
printf '[daemon]\ndevice = sim:h200\n' >"$dir/conf"
manage -l "$dir/sock" -w 3000000 -- "$build/detshared" --config "$dir/conf" --socket "$dir/other"
hears '^READY=1$'
before '^STATUS=starting the worker for sim:h200$' '^READY=1$'
hears '^STATUS=serving DetShare sim:h200: 0 sessions \(0 latency-sensitive\), policy [a-z]+$'
grep -q "serving .* at $dir/sock " "$dir/err" && ok || bad "the daemon does not serve the socket that the manager passed"
grep -q "$dir/sock, not at $dir/other" "$dir/err" && ok || bad "the log does not say which socket is served"
[ ! -e "$dir/other" ] && ok || bad "the daemon has bound its own socket, too"
status "$dir/sock" && ok || bad "the passed socket does not answer"
hears '^WATCHDOG=1$' 3

# The status counts sessions.
DETSHARE_SOCKET=$dir/sock "$build/tests/examples/hold" < <(exec sleep 300) >"$dir/hold" 2>&1 &
hold=$!
hears '^STATUS=serving .*: 1 session '
kill "$hold"
wait "$hold" 2>/dev/null

# --- reload ---------------------------------------------------------------------------------------------------
word reload
hears '^READY=1$' 2
hears '^RELOADING=1$'
now=$(sed 's/[. ].*//' /proc/uptime)
at=$(sed -n 's/^MONOTONIC_USEC=\([0-9]*\)$/\1/p' "$dir/said")
[ "$((at / 1000000))" -le "$((now + 1))" ] && [ "$((at / 1000000))" -ge "$((now - 600))" ] && ok || bad "MONOTONIC_USEC=$at at $now s"
echo 'colour = blue' >>"$dir/conf"
word reload
hears '^READY=1$' 3
hears "^STATUS=serving .*; reload refused: $dir/conf:3: .*colour"
grep -q "the configuration was refused, the previous one stays in force: $dir/conf:3: " "$dir/err" && ok || bad "the log does not name the line"
sed -i '/colour/d' "$dir/conf"
for _ in $(seq 20); do
        word reload
done
hears '^RELOADING=1$' 3
status "$dir/sock" && ok || bad "the socket does not answer after reloads"
last() {
        tail -n 30 "$dir/said" | grep -E '^(READY|RELOADING)=1' | tail -n 1
}
for _ in $(seq 2000); do
        [ "$(last)" = READY=1 ] && break
        sleep 0.05
done
[ "$(last)" = READY=1 ] && ok || bad "the last reload does not end"

# --- the replacement of a worker does not trip the watchdog ---------------------------------------------------
main=$(sed -n 's/^started //p' "$dir/said" | tail -n 1)
served=$(lines '^STATUS=serving ')
pkill -KILL -P "$main" detshare-worker
hears '^STATUS=the worker ended and is being replaced'
hears '^STATUS=serving ' $((served + 1))

# --- watchdog -------------------------------------------------------------------------------------------------
word pause
hears '^watchdog$'
hears '^killed 6$'
ready=$(lines '^READY=1$')
word start
hears '^started ' 2
hears '^READY=1$' $((ready + 1))
pings=$(lines '^WATCHDOG=1$')
hears '^WATCHDOG=1$' $((pings + 2))

# --- stop -----------------------------------------------------------------------------------------------------
word stop
hears '^exited 0$'
before '^STOPPING=1$' '^exited 0$'
equals "others than the daemon's main process say nothing" 0 "$(lines '^ignored')"
[ -S "$dir/sock" ] && ok || bad "the manager's socket file is gone"
quit_manager

# --- descriptors that are no sockets -------------------------------------------------------------------------------
# refuses PATTERN COMMAND...: the daemon exits with 1 and PATTERN
refuses() {
        local pattern=$1 got
        shift
        timeout 300 "$@" >"$dir/said" 2>"$dir/err" </dev/null
        got=$?
        if [ "$got" = 1 ] && grep -q -- "$pattern" "$dir/err" && [ "$(wc -l <"$dir/err")" -le 2 ]; then ok; else bad "$*: $got"; fi
}
given() { # what is 3 -> exec
        # shellcheck disable=SC2016
        echo 'export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=detshared; exec "$@"'
}
daemon=("$build/detshared" --device sim:h200 --socket "$dir/sock2")
refuses "passed as 'detshared' is not a socket" bash -c "exec 3</dev/null; $(given)" bash "${daemon[@]}"
refuses "passed as 'detshared' does not listen" perl -MSocket -MPOSIX=dup2 -e 'BEGIN { $^F = 9 } socket(S, AF_UNIX, SOCK_STREAM, 0) or die; dup2(fileno(S), 3);
        %ENV = (%ENV, LISTEN_PID => $$, LISTEN_FDS => 1, LISTEN_FDNAMES => "detshared"); exec @ARGV' "${daemon[@]}"
refuses "passed as 'detshared' is not a stream socket" perl -MSocket -MPOSIX=dup2 -e 'BEGIN { $^F = 9 } socket(S, AF_UNIX, SOCK_DGRAM, 0) or die; dup2(fileno(S), 3);
        %ENV = (%ENV, LISTEN_PID => $$, LISTEN_FDS => 1, LISTEN_FDNAMES => "detshared"); exec @ARGV' "${daemon[@]}"

# A socket with another name: the daemon logs it and serves its own socket.
manage -l "$dir/sock3:web" -- "${daemon[@]}"
hears '^READY=1$'
grep -q "a socket named 'web', which is not used" "$dir/err" && ok || bad "a socket with another name is not mentioned"
status "$dir/sock2" && ok || bad "the daemon's own socket is not served"
quit_manager
[ ! -e "$dir/sock2" ] && ok || bad "the daemon's own socket file stays"

# A slow worker: the daemon does not report READY before it serves, and asks the manager for more time.
mkdir "$dir/libexec"
ln -s "$build/libexec/detshare-helper" "$dir/libexec/"
printf '#!/bin/sh\nsleep 3\nexec %s "$@"\n' "$build/libexec/detshare-worker" >"$dir/libexec/detshare-worker"
chmod 755 "$dir/libexec/detshare-worker"
DETSHARE_LIBEXEC=$dir/libexec manage -- "${daemon[@]}"
hears '^READY=1$'
before '^EXTEND_TIMEOUT_USEC=10000000$' '^READY=1$'
quit_manager

# fails CALL ERRNO: from now on the daemon's calls of CALL fail with ERRNO (tests/support/faults); `none 0` ends this
fails() {
        python3 - "$dir/faults" "$1" "$2" <<'END'
import re, struct, sys
path, call, error = sys.argv[1:]
calls = re.findall(r"X\([A-Z_0-9]+, (\w+)\)", open("tests/support/faults/faults.h").read())
number = 1 + calls.index(call) if call != "none" else 0
with open(path, "r+b" if call != "none" else "wb") as f:
    f.write(struct.pack("=iiqqqq32s", number, int(error), 0, 0, 0, 0, b"detshared"))
END
}
# If the state cannot be stored, the daemon removes at once the descriptors that it stored already, with clients'
# connections, instead of leaving this to the next daemon.
fails none 0
LD_PRELOAD=$build/faults/faults.so DETSHARE_FAULTS=$dir/faults manage -f 100 -l "$dir/sock3" -- "${daemon[@]}"
hears '^READY=1$'
DETSHARE_SOCKET=$dir/sock3 "$build/tests/examples/hold" < <(exec sleep 300) >"$dir/hold" 2>&1 &
hold=$!
hears '^STATUS=serving .*: 1 session '
fails fcntl 5
word stop
hears '^stored s1\.1$'
hears '^exited 0$'
equals "what of it goes" "removed s1.1" "$(grep -E '^(removed|released)' "$dir/said")"
grep -q 'the state could not be stored: no session is handed over' "$dir/err" && ok || bad "the log says nothing of state that cannot be stored"
kill "$hold"
wait "$hold" 2>/dev/null
quit_manager

# Descriptors for another process: the daemon does not use them.
manage -p -l "$dir/sock3" -- "${daemon[@]}"
hears '^READY=1$'
status "$dir/sock2" && ok || bad "the daemon used descriptors for another process"
quit_manager

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
