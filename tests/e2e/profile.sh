#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Profiles of kernels: a program whose stairs are known is measured, the daemon restarted, and what was measured is known; a damaged
# file is not believed; the policy that was set comes back however a run ends. Ends with `N passed, N failed`.
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

# of the kernel named $1, by a jq expression about its row
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

# of all points on a part of the GPU
samples() {
        "$ctl" profile list --json | jq '[.profiles[].points[] | select(.sms < 132).samples] | add'
}

measure() {
        # measure ROUNDS
        timeout 300 "$ctl" profile run --json -- "$build/tests/programs/stairs" x "$1" >"$tmp/run" 2>"$tmp/run.err"
}

# --- measured -----------------------------------------------------------------------------------------------------------
check "a daemon starts" start
measure 70
result "a program is measured" $?
check "it was the program's output, then the table" grep -q "^PASS stairs" "$tmp/run"
check "a wave of blocks needs all SMs" of wide '.least_sms == 132 and .grid == "132"'
check "the next stair goes down to half of them" of wide \
        '(.points | map(select(.sms > 63 and .sms < 132)) | length > 1) and (.points[] | select(.sms == 66).mean_ns) < 1.03 * (.points[] | select(.sms == 124).mean_ns // 1e18)'
check "below half of them there is another" of wide \
        '([.points[] | select(.sms < 66)] | max_by(.sms).mean_ns) > 1.2 * (.points[] | select(.sms == 66).mean_ns)'
check "the lowest of all takes the longest" of wide '.points[0].mean_ns > 5 * .points[-1].mean_ns'
check "a small kernel needs the fewest" of narrow '.least_sms == .points[0].sms and .least_sms < 20'
check "the policy came back" policy_is fifo
check "details are shown" sh -c "'$ctl' profile show wide | grep -q '132 SMs .* the fewest at the best time'"
check "a table is shown" sh -c "'$ctl' profile list | grep -q 'wide.* 132 .*66: '"
kernels >"$tmp/before"
before=$(samples)

# --- known afterwards ---------------------------------------------------------------------------------------------------
check "the daemon stops" stop
check "the file is its own" [ "$(stat -c %a "$tmp/state/profiles.db")" = 600 ]
check "it starts again" start
check "what was measured is there" of wide '.least_sms == 132'
measure 1
result "another client comes" $?
policy_is fifo
measure 40
result "and another" $?
kernels >"$tmp/after"
check "their kernels are the same" diff "$tmp/before" "$tmp/after"
# a point takes three; one that came late may be among them
check "and nothing had to be measured again" [ $(($(samples) - before)) -lt 3 ]

# --- in and out -----------------------------------------------------------------------------------------------------------
check "profiles are exported" "$ctl" profile export "$tmp/file"
check "forgotten" "$ctl" profile forget wide
check "only those" of narrow '.least_sms < 20'
check "and are gone" sh -c "! '$ctl' profile show wide"
measure 20
result "what was forgotten is measured anew" $?
check "from the first on" of wide '.points[-1].sms == 132'
check "all are forgotten" "$ctl" profile forget --all
check "and none is left" sh -c "! '$ctl' profile show wide && ! '$ctl' profile show narrow"
check "imported" "$ctl" profile import "$tmp/file"
check "and are there" of wide '.least_sms == 132 and (.points | length) > 5'
sed 's/sim:h200/sim:p40/' "$tmp/file" >"$tmp/other"
check "those of another GPU are refused" sh -c "! '$ctl' profile import '$tmp/other'"
sed 's/\t132:/\t0:/; s/ 66:/ 65:/; s/ 132:/ 1:/' "$tmp/file" >"$tmp/wrong"
check "and points out of order" sh -c "! '$ctl' profile import '$tmp/wrong'"
# a file of somebody else's: each is refused by its line, and nothing of it reaches the terminal
fields=$(sed -n 3p "$tmp/file" | cut -f 2-)
hostile() {
        # hostile WHAT ROW: ROW (printf's format) behind the head of the good file
        # shellcheck disable=SC2059
        { head -n 2 "$tmp/file"; printf -- "$2\n"; } >"$tmp/hostile"
        "$ctl" profile import "$tmp/hostile" >"$tmp/hostile.out" 2>&1
        local status=$?
        check "a hostile file is refused: $1" test $status = 1
        check "and by its line: $1" grep -q 'line 3: ' "$tmp/hostile.out"
        check "in printable words: $1" test "$(LC_ALL=C tr -d '\n -~' <"$tmp/hostile.out" | wc -c)" = 0
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
check "a file without an end is given up" sh -c "! timeout 60 '$ctl' profile import /dev/zero 2>/dev/null"
printf 'detshare-profiles 1\ngpu\t\033[31mred\n' >"$tmp/hostile"
"$ctl" profile import "$tmp/hostile" >"$tmp/hostile.out" 2>&1
check "a GPU's name does not reach the terminal" test "$(LC_ALL=C tr -d '\n -~' <"$tmp/hostile.out" | wc -c)" = 0
check "nothing of them is kept" sh -c "! '$ctl' profile export - | grep -q '	k$'"
check "a run of something that is not there ends" sh -c "'$ctl' profile run -- /nonexistent; [ \$? = 127 ]"

# --- ends of runs ---------------------------------------------------------------------------------------------------------
"$ctl" profile run -- sleep 100 >"$tmp/sleeps" 2>&1 &
run=$!
check "a run has its policy" policy_is profile
check "there is one at a time" sh -c "! '$ctl' profile run -- true"
kill -TERM $run
wait $run
[ $? = 143 ]
result "it ends as its program does when it is told to" $?
check "and the policy comes back" policy_is fifo
"$ctl" profile run -- sleep 3 >"$tmp/sleeps" 2>&1 &
run=$!
policy_is profile
kill -KILL $run
check "as it does when nobody can say so" policy_is fifo
"$ctl" profile run --seconds 1 -- sleep 2 >"$tmp/sleeps" 2>&1 &
run=$!
policy_is profile
check "and when the time is over" policy_is fifo
wait $run

# --- damage ----------------------------------------------------------------------------------------------------------------
check "the daemon stops" stop
printf 'this is not what was written' | dd of="$tmp/state/profiles.db" bs=1 seek=4096 conv=notrunc 2>/dev/null
check "it starts with a damaged file" start
check "nothing of it is believed" sh -c "'$ctl' profile list --json | jq -e '.profiles == [] and (.in_memory | not)'"
check "which is said once" [ "$(grep -c 'profiles.db is damaged: it is profiles.db.damaged now' "$tmp/log")" = 1 ]
measure 20
result "and it begins anew" $?
check "with what it measures" of wide '.points | length > 1'
check "the daemon stops" stop

echo "$passed passed, $failed failed"
[ $failed = 0 ]
