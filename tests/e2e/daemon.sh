#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# detshared as its user meets it: messages and exit status when it cannot start, one daemon per socket, a socket file
# that a killed daemon left, signals, permissions. A mistake of the user gives one plain line that names it, no names
# of internal functions, and the daemon ends.
#
# usage: tests/e2e/daemon.sh BUILD
set -u
cd "$(dirname "$0")/../.."
build=$(cd "$1" && pwd)
dir=$(mktemp -d /tmp/detshare-daemon-XXXXXX)
socket=$dir/sock
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
        echo "FAIL $*"
}

# refuses CODE PATTERN ARGUMENT...: detshared exits with CODE; its last line has PATTERN; no line names internal
# functions
refuses() {
        local code=$1 pattern=$2 got
        shift 2
        timeout 300 "$build/detshared" "$@" >"$dir/out" 2>"$dir/err" </dev/null
        got=$?
        if [ "$got" != "$code" ]; then
                bad "detshared $*: exit status $got, not $code: $(head -n 2 "$dir/err")"
        elif [ -s "$dir/out" ] || ! grep -q -- "$pattern" "$dir/err"; then
                bad "detshared $*: wrong words: $(head -n 2 "$dir/err")"
        elif grep -q '\.c +[0-9]' "$dir/err" || [ "$(grep -vc '^detshare-helper: ' "$dir/err")" -gt "${lines:-2}" ]; then
                bad "detshared $*: more than words: $(cat "$dir/err")"
        else
                ok
        fi
}

# serve ARGUMENT...: starts a daemon, pid $daemon, and waits until it serves
serve() {
        : >"$dir/out" # what an earlier one said is not this one's
        "$build/detshared" --socket "$socket" "$@" >"$dir/out" 2>"$dir/err" </dev/null &
        daemon=$!
        for _ in $(seq 2000); do
                grep -q serving "$dir/out" && return 0
                sleep 0.05
        done
        bad "the daemon does not serve: $(cat "$dir/err")"
        return 1
}

# ends SIGNAL CODE TEXT: sends SIGNAL and expects exit status CODE
ends() {
        kill "-$1" "$daemon"
        wait "$daemon" 2>/dev/null
        local got=$?
        daemon=
        if [ "$got" = "$2" ]; then ok; else bad "$3: exit status $got"; fi
}

# --- failures to start ----------------------------------------------------------------------------------------

refuses 2 "unrecognized option '--frob'" --frob
refuses 2 "unexpected argument 'x'" x
refuses 2 "'sometimes' is not accepted; always, auto and never are" --transform sometimes
refuses 1 "the socket path has 208 characters, at most 107 are accepted: /xxx" --socket "/$(printf 'x%.0s' $(seq 207))"
refuses 1 "the socket path is empty" --socket ""
refuses 1 "cannot listen at /nonexistent/dir/sock: No such file" --socket /nonexistent/dir/sock
refuses 1 "/etc/passwd exists and is not a socket" --socket /etc/passwd
# A directory where another user could replace the socket by a link to somebody's file. /tmp itself is accepted.
mkdir -m 770 "$dir/shared"
chmod 770 "$dir/shared"
refuses 1 "$dir/shared can be written by others: .* mode 0770; use a directory that belongs to root" --socket "$dir/shared/sock" --device sim:h200
if [ "$(id -u)" = 0 ]; then
        chmod 700 "$dir/shared"
        chown 12345 "$dir/shared"
        refuses 1 "$dir/shared can be written by others: it belongs to uid 12345 " --socket "$dir/shared/sock" --device sim:h200
fi
own=$socket
socket=$(mktemp -u /tmp/detshare-daemon-XXXXXX)
if serve --device sim:h200; then
        if [ "$(stat -c %a "$socket")" = 666 ]; then ok; else bad "the socket's mode: $(stat -c %A "$socket")"; fi
        ends TERM 0 "SIGTERM, in /tmp"
        if [ -e "$socket" ]; then bad "the socket stays in /tmp"; else ok; fi
fi
socket=$own
refuses 1 "/nonexistent: No such file" --config /nonexistent
refuses 1 "$dir: .*directory" --config "$dir"
printf '[limits]\nmemory_per_uid=1G\n' >"$dir/config"
refuses 1 "$dir/config:2: .*'1G' is not a number of MiB" --config "$dir/config"
refuses 1 'no policy "../fifo"' --socket "$socket" --policy ../fifo
refuses 1 "detshared: --policy: there is no policy .frob. in .*; there are fifo, antman, .*static" --socket "$socket" --policy frob
printf "[daemon]\npolicy=frob\n" >"$dir/config"
refuses 1 "$dir/config:2: \[daemon\] policy: there is no policy .frob. in " --socket "$socket" --config "$dir/config"
# --check-config prints the same messages, starts nothing, and exits with 2 for a wrong file.
refuses 2 "$dir/config:2: \[daemon\] policy: there is no policy .frob. in " --check-config --config "$dir/config"
printf '[limits]\nmemory_per_user=1\n' >"$dir/config"
refuses 2 "$dir/config:2: there is no key \[limits\] memory_per_user; accepted are .*memory_per_uid, " --check-config --config "$dir/config"
printf '[limit]\n' >"$dir/config"
refuses 2 "$dir/config:1: there is no section \[limit\]; accepted are .*\[limits\], " --check-config --config "$dir/config"
refuses 2 "/nonexistent: No such file" --check-config --config /nonexistent
printf '[daemon]\npolicy=static\n' >"$dir/config"
mkdir -p "$dir/conf.d"
printf '[limits]\nsm_percent=200\n' >"$dir/conf.d/10.conf"
refuses 2 "$dir/conf.d/10.conf:2: \[limits\] sm_percent: '200' is not a number from 1 to 100" --check-config --config "$dir/config"
printf '[limits]\nsm_percent=20\n' >"$dir/conf.d/10.conf"
if [ "$("$build/detshared" --check-config --config "$dir/config" 2>&1)" = "OK: $dir/config, $dir/conf.d/10.conf" ]; then ok; else bad "--check-config of good files"; fi
rm -r "$dir/conf.d"
refuses 2 "/nonexistent: not a directory" --policy-dir /nonexistent
refuses 2 "more than 8 directories" --policy-dir / --policy-dir / --policy-dir / --policy-dir / --policy-dir / --policy-dir / --policy-dir / --policy-dir / --policy-dir /
refuses 1 "sim:h200,a2000: one simulated GPU per daemon" --socket "$socket" --device sim:h200,a2000
if ! [ -e /dev/nvidiactl ]; then
        # The worker names each place where it looked for the driver.
        lines=20 refuses 1 "the worker for cuda:0 could not start: .*; --device sim:h200 needs" --socket "$socket" --device cuda:0
fi
lines=20 refuses 1 "/nonexistent/libcuda.so.1: No such file" --socket "$socket" --device cuda:0 --libcuda /nonexistent/libcuda.so.1
# The daemon runs as root in a container without CAP_SETUID, and as a process with a low limit of descriptors.
if [ "$(id -u)" = 0 ]; then
        printf '#!/bin/sh\nexec setpriv --bounding-set=-setuid,-setgid --inh-caps=-setuid,-setgid "%s/detshared" "$@"\n' "$build" >"$dir/detshared"
        chmod 755 "$dir/detshared"
        # shellcheck disable=SC2034
        (build=$dir lines=3 && refuses 1 "root cannot become uid [0-9]* here: that takes CAP_SETUID" --socket "$socket" --device sim:h200 && exit $failed) || bad "root without rights"
        printf '#!/bin/sh\nulimit -n 200\nexec "%s/detshared" "$@"\n' "$build" >"$dir/detshared"
        plain=$build build=$dir
        if serve --device sim:h200; then
                sleep 0.5
                if grep -q 'helper exited' "$dir/err"; then bad "few files: $(cat "$dir/err")"; else ok; fi
                ends TERM 0 "SIGTERM"
        fi
        build=$plain
fi
# The start is tried repeatedly, since the worker may exit before its parent looks.
for _ in $(seq 20); do
        refuses 1 "sim:h300: no such model, there are h200" --socket "$socket" --device sim:h300
done
if [ -e "$socket" ]; then bad "a daemon that did not start left its socket"; else ok; fi

# --- one daemon per socket ------------------------------------------------------------------------------------

if serve; then
        [ -e /dev/nvidiactl ] && default=NVIDIA || default='DetShare sim:h200'
        if grep -q "^detshared: serving $default" "$dir/out"; then ok; else bad "the default device: $(cat "$dir/out")"; fi
        refuses 1 "another daemon serves $socket already" --socket "$socket"
        if "$build/detsharectl" --socket "$socket" version | grep -q '^detshared'; then ok; else bad "the first daemon no longer answers"; fi
        kill -KILL "$daemon"
        wait "$daemon" 2>/dev/null
        if [ -S "$socket" ]; then ok; else bad "a killed daemon left no socket file: this test proves nothing"; fi
        if serve; then
                ok
                ends TERM 0 "SIGTERM"
        fi
fi
if [ -e "$socket" ]; then bad "SIGTERM left the socket"; else ok; fi
serve --foreground --device sim:a2000 --policy static && ends INT 0 "SIGINT"
if grep -q '^detshared: serving .*sim:a2000 at .* (policy static)$' "$dir/out"; then ok; else bad "$(cat "$dir/out")"; fi

# --- the configuration of docs/guide.md, with names that this machine has -------------------------------------

sed -n '/^\[daemon\]/,/^```/p' docs/guide.md | sed -e '/^```/d' -e 's/^device=.*/device=sim:h200/' -e 's/alice/root/' -e 's/inference/root/' >"$dir/config"
if [ "$(grep -c = "$dir/config")" = 11 ] && serve --config "$dir/config"; then
        ok
        ends TERM 0 "SIGTERM"
else
        bad "the configuration of docs/guide.md is refused: $(cat "$dir/config")"
fi

# --- unknown policies: the message has file and line ----------------------------------------------------------

# says PATTERN: waits until the daemon's log has PATTERN
says() {
        for _ in $(seq 2000); do
                grep -q -- "$1" "$dir/err" && { ok; return; }
                sleep 0.05
        done
        bad "the daemon does not say '$1': $(cat "$dir/err")"
}
printf '[policy mutlistream]\nbe_depth=2\n[limits]\nconnections=1\n' >"$dir/config"
if serve --config "$dir/config"; then
        says "$dir/config:2: \[policy mutlistream\]: there is no such policy"
        printf '[daemon]\npolicy=frob\n' >"$dir/config"
        kill -HUP "$daemon"
        says "the policy is still detshare: $dir/config:2: \[daemon\] policy: there is no policy 'frob'"
        # A section of the configuration may have every parameter that a policy knows.
        "$build/detsharectl" --socket "$socket" policies --json | python3 -c 'import json, re, sys
text = [p["params"] for p in json.load(sys.stdin)["policies"] if p["name"] == "detshare"][0]
keys = re.findall(r"^(\w+=-?\d+) ", text, re.M)
assert len(keys) >= 8
print("[daemon]", "policy=detshare", "[policy detshare]", *keys, sep="\n")' >"$dir/config" || bad "cannot list the parameters of policy detshare"
        kill -HUP "$daemon"
        says "policy detshare (by the configuration)"
        ends TERM 0 "SIGTERM"
fi

# --- limit of connections, and users without service ----------------------------------------------------------

printf '[user root]\nconnections=1\n' >"$dir/config"
if [ "$(id -u)" = 0 ] && serve --config "$dir/config"; then
        mkfifo "$dir/in"
        "$build/detsharectl" --socket "$socket" run -- "$build/tests/examples/hold" <"$dir/in" >"$dir/held" 2>&1 &
        held=$!
        exec 9>"$dir/in"
        for _ in $(seq 2000); do [ -s "$dir/held" ] && break; sleep 0.05; done
        "$build/detsharectl" --socket "$socket" status >/dev/null 2>&1
        says "a connection was refused (pid [0-9]*, uid 0): this user has the most permitted connections"
        exec 9>&-
        wait "$held"
        printf '[user root]\nclasses=\n' >"$dir/config"
        kill -HUP "$daemon"
        for _ in $(seq 2000); do
                out=$("$build/detsharectl" --socket "$socket" status 2>&1)
                status=$?
                [ $status = 4 ] && break
                sleep 0.05
        done
        if [ $status = 4 ] && grep -q "permission denied: uid 0 may have no session (\[user 0\] classes)" <<<"$out"; then ok; else bad "not served: $out"; fi
        ends TERM 0 "SIGTERM"
fi

# --- users allowed to be latency sensitive --------------------------------------------------------------------

# class_of [PREFIX...]: prints the class that `run --class ls` gets
class_of() {
        "$@" "$dir/detsharectl" --socket "$socket" run --class ls -- "$dir/hello" 2>/dev/null | sed -n 's/.*class \(..\),.*/\1/p'
}
if [ "$(id -u)" = 0 ]; then
        chmod 755 "$dir"
        cp -rL "$build/detsharectl" "$build/cuda" "$build/examples/hello" "$build/libdetshare-client.so.0" "$dir"
        export LD_LIBRARY_PATH=$dir
        nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
        for list in "" "ls_uids=65534" "ls_groups=1,65534" "ls_uids=*" "ls_uids=1"; do
                printf '[class]\n%s\n' "$list" >"$dir/config"
                case $list in *65534 | *'*') want=ls ;; *) want=be ;; esac
                serve --config "$dir/config" || continue
                # shellcheck disable=SC2086
                got=$(class_of)$(class_of $nobody)
                if [ "$got" = "ls$want" ]; then ok; else bad "[class] $list: root and nobody get $got, not ls$want"; fi
                ends TERM 0 "SIGTERM"
        done
        unset LD_LIBRARY_PATH
fi

# --- policies that other users may write are not loaded -------------------------------------------------------

mkdir -m 700 "$dir/private"
cp -r "$build/detshared" "$build/libexec" "$build/policies" "$dir"
cp -r "$build/detshared" "$build/libexec" "$build/policies" "$dir/private"
chmod g+w "$dir/policies/detshare.so"
"$dir/detshared" --socket "$socket" >"$dir/out" 2>"$dir/err" </dev/null
if grep -q "detshare.so is writable by others" "$dir/err"; then ok; else bad "a writable policy: $(head -n 2 "$dir/err")"; fi
if [ -z "$(find "$build/policies" -perm /022)" ]; then ok; else bad "the build's policies are writable by others"; fi

# --- processes that run clients' code have no rights and still find policies ----------------------------------

if [ "$(id -u)" = 0 ]; then
        : >"$dir/out"
        "$dir/private/detshared" --socket "$socket" >"$dir/out" 2>"$dir/err" </dev/null &
        daemon=$!
        for _ in $(seq 2000); do
                grep -q serving "$dir/out" && break
                sleep 0.05
        done
        children=$(cat "/proc/$daemon/task/$daemon/children")
        # shellcheck disable=SC2086
        if [ "$(echo $children | wc -w)" = 2 ]; then ok; else bad "children: $children"; fi
        for child in $children; do
                state=$(grep -E '^(Uid|Gid|Groups|CapEff|CapPrm|NoNewPrivs):' "/proc/$child/status" | tr -s '\t ' ' ')
                if echo "$state" | grep -qE '^(Uid|Gid):.* 0( |$)|^Groups: [0-9]|^Cap...: .*[1-9a-f]|^NoNewPrivs: 0'; then
                        bad "$(cat "/proc/$child/comm"): $state"
                else
                        ok
                fi
        done
        if "$build/detsharectl" --socket "$socket" set-policy static; then ok; else bad "set-policy as another user"; fi
        ends TERM 0 "SIGTERM"
fi

# --- directories of policies ------------------------------------------------------------------------------------------------

# An installation without policies, with two directories named by --policy-dir: the second has a policy; other users
# may write to the first.
mkdir -p "$dir/bare" "$dir/one" "$dir/two"
chmod 755 "$dir/two"
cp "$build/detshared" "$dir/bare/"
ln -s "$build/libexec" "$dir/bare/libexec"
cp "$build/policies/static.so" "$dir/one/"
cp "$build/policies/static.so" "$build/policies/temporal.so" "$dir/two/"
chmod 777 "$dir/one"
chmod 755 "$dir"/two/*
whole=$build
build=$dir/bare
if serve --policy-dir "$dir/one" --policy-dir "$dir/two" --policy static; then
        "$whole/detsharectl" --socket "$socket" policies --json >"$dir/policies.json"
        if grep -q '"static"' "$dir/policies.json" && grep -q '"temporal"' "$dir/policies.json" && ! grep -q '"orion"' "$dir/policies.json"; then
                ok
        else
                bad "policies of the second directory: $(cat "$dir/policies.json")"
        fi
        ends TERM 0 "SIGTERM"
fi
refuses 1 "there is no policy 'static' in $dir/bare, this installation, which has no policies" --socket "$socket" --policy-dir "$dir/bare" --policy static
build=$whole

# An idle daemon sleeps: at first, after another policy, and after a client has come and gone.
# ticks: processor time of the daemon and its children so far, 1/100 s
ticks() {
        local pid sum=0 stat
        for pid in "$daemon" $(pgrep -P "$daemon"); do
                stat=$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null) || continue
                # shellcheck disable=SC2086 # the fields become arguments
                set -- $stat
                sum=$((sum + ${12} + ${13}))
        done
        echo "$sum"
}

# sleeps WHEN: the daemon uses less than a tenth of a processor for a second
sleeps() {
        local before used
        sleep 0.3
        before=$(ticks)
        sleep 1
        used=$(($(ticks) - before))
        if [ "$used" -lt 10 ]; then ok; else bad "$1: the idle daemon used $used % of a processor"; fi
}

# polls TEXT: the daemon's own figures about its polling
polls() {
        if "$build/detsharectl" --socket "$socket" status | grep -qF "polls for $1"; then ok; else bad "status: not $1"; fi
}

# With enough processors the daemon polls after requests, but not without any.
export DETSHARE_CPUS=4
if serve --device sim:h200; then
        polls "0.05 ms after LS work, 0.05 ms after requests"
        sleeps "at first"
        "$build/detsharectl" --socket "$socket" set-policy fifo >/dev/null
        sleeps "after another policy"
        if DETSHARE_SOCKET=$socket LD_LIBRARY_PATH=$build/cuda "$build/tests/programs/alloc_threads" >"$dir/program" 2>&1; then
                ok
        else
                bad "a client: $(tail -n 2 "$dir/program")"
        fi
        sleeps "after a client"
        "$build/detsharectl" --socket "$socket" set-policy detshare >/dev/null
        sleeps "after another policy and a client"
        ends TERM 0 "SIGTERM"
fi
printf '[daemon]\nspin_us=0\n' >"$dir/spin.conf"
if serve --device sim:h200 --config "$dir/spin.conf"; then
        polls "0 ms after LS work, 0 ms after requests"
        ends TERM 0 "SIGTERM"
fi
unset DETSHARE_CPUS

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
