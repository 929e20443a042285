#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Profiles of kernels: the daemon measures a program whose stairs (time over number of SMs) are known, and knows them
# after a restart. A damaged file is not used. The previous policy is restored however a run ends. Prints `N passed, N
# failed` last.
#
# usage: tests/e2e/profile.sh BUILD
set -u
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-profile.XXXXXX)
export DETSHARE_SOCKET=$tmp/sock
ctl=$build/detsharectl
. tests/support/counted.sh
daemon=

# shellcheck disable=SC2317
finish() {
        [ -n "$daemon" ] && kill -KILL "$daemon" 2>/dev/null
        rm -rf "$tmp"
}
trap finish EXIT

start() {
        : >"$tmp/out" # of the one before
        "$build/detshared" --device "${1:-sim:h200}" --socket "$tmp/sock" --state "$tmp/state" --policy fifo --foreground \
                >"$tmp/out" 2>"$tmp/log" &
        daemon=$!
        for _ in $(seq 2000); do
                grep -q serving "$tmp/out" && return 0
                sleep 0.05
        done
        return 1
}

stop() {
        kill -TERM "$daemon"
        wait "$daemon"
        local r=$?
        daemon=
        return $r
}

# The jq expression $2 holds for the row of the kernel named $1.
of() {
        "$ctl" profile list --json "$1" >"$tmp/json" && jq -e ".profiles[0] | $2" "$tmp/json"
}

policy_is() {
        for _ in $(seq 400); do
                [ "$("$ctl" status --json | jq -r .policy)" = "$1" ] && return 0
                sleep 0.05
        done
        return 1
}

kernels() {
        "$ctl" profile list --json | jq '.profiles | map({kernel, key, sms: (.points | map(.sms))}) | sort_by(.kernel)'
}

# samples: prints the number of samples of all points on a part of the GPU
samples() {
        "$ctl" profile list --json | jq '[.profiles[].points[] | select(.sms < 132).samples] | add'
}

measure() {
        # measure ROUNDS: runs the test program under `profile run`
        timeout 300 "$ctl" profile run --json -- "$build/tests/programs/stairs" x "$1" >"$tmp/run" 2>"$tmp/run.err"
}

# --- measurement ----------------------------------------------------------------------------------------------
check "a daemon starts" start
measure 70
result "a program is measured" $?
check "the program's output comes before the table" grep -q "^PASS stairs" "$tmp/run"
check "kernel wide, one wave of blocks, needs all SMs" of wide '.least_sms == 132 and .grid == "132"'
check "its first stair ends at half of the SMs" of wide \
        '(.points | map(select(.sms > 63 and .sms < 132)) | length > 1) and (.points[] | select(.sms == 66).mean_ns) < 1.03 * (.points[] | select(.sms == 124).mean_ns // 1e18)'
check "below half of the SMs there is another stair" of wide \
        '([.points[] | select(.sms < 66)] | max_by(.sms).mean_ns) > 1.2 * (.points[] | select(.sms == 66).mean_ns)'
check "the smallest part of the GPU takes the longest" of wide '.points[0].mean_ns > 5 * .points[-1].mean_ns'
check "kernel narrow needs fewer than 20 SMs" of narrow '.least_sms == .points[0].sms and .least_sms < 20'
check "the previous policy is restored" policy_is fifo
check "profile show prints details" sh -c "'$ctl' profile show wide | grep -q '132 SMs .* the fewest at the best time'"
check "profile list prints a table" sh -c "'$ctl' profile list | grep -q 'wide.* 132 .*66: '"
kernels >"$tmp/before"
before=$(samples)

# --- after a restart ------------------------------------------------------------------------------------------
check "the daemon stops" stop
check "only the owner may read the file" [ "$(stat -c %a "$tmp/state/profiles.db")" = 600 ]
check "the daemon starts again" start
check "the profile is there after a restart" of wide '.least_sms == 132'
measure 1
result "another client runs" $?
policy_is fifo
measure 40
result "the program is measured again" $?
kernels >"$tmp/after"
check "kernels of other clients are the same as before" diff "$tmp/before" "$tmp/after"
# A point needs three samples; one late sample may still arrive.
check "no point is measured again" [ $(($(samples) - before)) -lt 3 ]

# --- export, forget, import -----------------------------------------------------------------------------------
check "profiles are exported" "$ctl" profile export "$tmp/file"
check "forget removes a kernel" "$ctl" profile forget wide
check "forget keeps other kernels" of narrow '.least_sms < 20'
check "the removed kernel is not shown" sh -c "! '$ctl' profile show wide"
measure 20
result "the removed kernel is measured again" $?
check "the new measurement begins with all SMs" of wide '.points[-1].sms == 132'
check "forget --all succeeds" "$ctl" profile forget --all
check "after forget --all no kernel is shown" sh -c "! '$ctl' profile show wide && ! '$ctl' profile show narrow"
check "a file of profiles is imported" "$ctl" profile import "$tmp/file"
check "imported profiles are there" of wide '.least_sms == 132 and (.points | length) > 5'
sed 's/sim:h200/sim:p40/' "$tmp/file" >"$tmp/other"
check "profiles of another GPU are refused" sh -c "! '$ctl' profile import '$tmp/other'"
sed 's/\t132:/\t0:/; s/ 66:/ 65:/; s/ 132:/ 1:/' "$tmp/file" >"$tmp/wrong"
check "points out of order are refused" sh -c "! '$ctl' profile import '$tmp/wrong'"
# Files by an attacker: each is refused with a message that names the line; no byte of it reaches the terminal.
fields=$(sed -n 3p "$tmp/file" | cut -f 2-)
hostile() {
        # hostile WHAT ROW: imports ROW (printf's format) after the head of a valid file
        # shellcheck disable=SC2059
        { head -n 2 "$tmp/file"; printf -- "$2\n"; } >"$tmp/hostile"
        "$ctl" profile import "$tmp/hostile" >"$tmp/hostile.out" 2>&1
        local status=$?
        check "a hostile file is refused: $1" test $status = 1
        check "the message names the line: $1" grep -q 'line 3: ' "$tmp/hostile.out"
        check "the message is printable: $1" test "$(LC_ALL=C tr -d '\n -~' <"$tmp/hostile.out" | wc -c)" = 0
}
hostile "a negative key" "-1\t$fields"
hostile "a key of 65 bits" "10000000000000000\t$fields"
hostile "a grid that is not three numbers" "1\t-1x1x1\t1x1x1\t0\t0\t-\tk"
hostile "a grid beyond 32 bits" "1\t4294967296x1x1\t1x1x1\t0\t0\t-\tk"
hostile "words for numbers" "1\t1x1x1\t1x1x1\tnan\tinf\t-\tk"
hostile "a negative time" "1\t1x1x1\t1x1x1\t0\t0\t1:-5/1\tk"
hostile "a time beyond 64 bits" "1\t1x1x1\t1x1x1\t0\t0\t1:18446744073709551616/1\tk"
hostile "more points than a row has" "1\t1x1x1\t1x1x1\t0\t0\t$(printf '1:1/1 %.0s' $(seq 25))\tk"
hostile "escape sequences" "1\t1x1x1\t1x1x1\t0\t0\t-\tk\033[2J"
hostile "bytes of 8-bit terminals" "1\t1x1x1\t1x1x1\t0\t0\t-\tk\2332J"
hostile "a NUL" "1\t1x1x1\t1x1x1\t0\t0\t-\tk\\000x"
hostile "a line without an end" "$(head -c 10000 /dev/zero | tr '\0' 1)"
check "an endless file is given up" sh -c "! timeout 60 '$ctl' profile import /dev/zero 2>/dev/null"
printf 'detshare-profiles 1\ngpu\t\033[31mred\n' >"$tmp/hostile"
"$ctl" profile import "$tmp/hostile" >"$tmp/hostile.out" 2>&1
check "escape sequences in a GPU's name do not reach the terminal" test "$(LC_ALL=C tr -d '\n -~' <"$tmp/hostile.out" | wc -c)" = 0
check "no row of these files is kept" sh -c "! '$ctl' profile export - | grep -q '	k$'"
check "a run of a program that does not exist ends with 127" sh -c "'$ctl' profile run -- /nonexistent; [ \$? = 127 ]"

# --- ends of runs ---------------------------------------------------------------------------------------------
"$ctl" profile run -- sleep 100 >"$tmp/sleeps" 2>&1 &
run=$!
check "a run sets policy profile" policy_is profile
check "a second run at the same time is refused" sh -c "! '$ctl' profile run -- true"
kill -TERM $run
wait $run
[ $? = 143 ]
result "SIGTERM ends the run with the program's status" $?
check "after SIGTERM the previous policy is restored" policy_is fifo
"$ctl" profile run -- sleep 3 >"$tmp/sleeps" 2>&1 &
run=$!
policy_is profile
kill -KILL $run
check "after SIGKILL the previous policy is restored" policy_is fifo
"$ctl" profile run --seconds 1 -- sleep 2 >"$tmp/sleeps" 2>&1 &
run=$!
policy_is profile
check "after --seconds the previous policy is restored" policy_is fifo
wait $run

# --- damaged files --------------------------------------------------------------------------------------------
check "the daemon stops" stop
printf 'this is not what was written' | dd of="$tmp/state/profiles.db" bs=1 seek=4096 conv=notrunc 2>/dev/null
check "the daemon starts with a damaged file" start
check "no profile of the damaged file is used" sh -c "'$ctl' profile list --json | jq -e '.profiles == [] and (.in_memory | not)'"
check "the log says so once" [ "$(grep -c 'it was renamed to .*profiles.db.damaged' "$tmp/log")" = 1 ]
measure 20
result "a program is measured after that" $?
check "the new profiles are there" of wide '.points | length > 1'
check "the daemon stops" stop

echo "$passed passed, $failed failed"
[ $failed = 0 ]
