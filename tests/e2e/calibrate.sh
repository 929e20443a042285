#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Calibration: the matrix of a simulated GPU says what it must, is kept, reaches policies and is forgotten; the policy that was set
# comes back however a run ends; who works meanwhile, or may not ask, is told so. Ends with `N passed, N failed`.
#
# usage: tests/e2e/calibrate.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-calibrate.XXXXXX)
chmod 755 "$tmp"
export DETSHARE_SOCKET=$tmp/sock LD_LIBRARY_PATH=$tmp/root
ctl=$tmp/root/detsharectl
. tests/support/counted.sh
daemon=

# a daemon that has the tests' policies, too
mkdir "$tmp/root"
cp -rL "$build/detshared" "$build/libexec" "$build/detsharectl" "$build/libdetshare-client.so.0" "$tmp/root"
mkdir "$tmp/root/policies"
cp "$build"/policies/*.so "$build/tests/policies/cells.so" "$tmp/root/policies"
mkdir "$tmp/lut"
cp -r lut/tables "$tmp/lut"

# shellcheck disable=SC2317
finish() {
        [ -n "$daemon" ] && kill -KILL "$daemon" 2>/dev/null
        rm -rf "$tmp"
}
trap finish EXIT

ends() {
        # ends CODE PATTERN COMMAND...: with that exit code, saying so on stderr, and nothing else
        local code=$1 pattern=$2
        shift 2
        "$@" >"$tmp/words.out" 2>"$tmp/words.err"
        local r=$?
        cat "$tmp/words.err"
        [ $r = "$code" ] && [ ! -s "$tmp/words.out" ] && grep -q "$pattern" "$tmp/words.err"
}

start() {
        : >"$tmp/out"
        "$tmp/root/detshared" --device "${1:-sim:h200+timing}" --socket "$tmp/sock" --state "$tmp/state" --policy detshare --foreground \
                >"$tmp/out" 2>>"$tmp/log" &
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

status_is() {
        # status_is JQ-EXPRESSION: soon
        for _ in $(seq 2000); do
                [ "$("$ctl" status --json 2>/dev/null | jq "$1")" = true ] && return 0
                sleep 0.05
        done
        return 1
}

loads() {
        # loads N: soon so many clients have the loads
        for _ in $(seq 2000); do
                [ "$("$ctl" clients --json | jq '[.clients[] | select(.name | startswith("calibrate-"))] | length')" = "$1" ] && return 0
                sleep 0.05
        done
        return 1
}

cells() {
        # cells JQ-EXPRESSION: about those of the last run; ls, be, sms and blocks find one
        jq "def cell(\$ls; \$be; \$sms; \$blocks): .cells[] | select(.ls == \$ls and .be == \$be and .be_sms == \$sms and .be_blocks == \$blocks); $1" \
                "$tmp/json" >"$tmp/answer"
        cat "$tmp/answer"
        [ "$(cat "$tmp/answer")" = true ]
}

told() {
        # told N: policies hear of that many cells
        "$ctl" set-policy cells cells="$1" && "$ctl" set-policy detshare
}

# --- words ----------------------------------------------------------------------------------------------------------------
check "no time is no time" ends 2 "from 1 to 3600" "$ctl" calibrate --seconds 0
check "nor is a word" ends 2 "from 1 to 3600" "$ctl" calibrate --seconds 1s
check "quick or seconds" ends 2 "either" "$ctl" calibrate --quick --seconds 1
check "show alone" ends 2 "go with no option but --json" "$ctl" calibrate --show --forget
check "no arguments" ends 2 "too many" "$ctl" calibrate all
check "nobody is there" ends 9 "is detshared running" "$ctl" calibrate

# --- measured -------------------------------------------------------------------------------------------------------------
check "a daemon starts" start
check "there is nothing yet" ends 6 "sim:h200/132 was not calibrated" "$ctl" calibrate --show
check "policies hear nothing" told 0
check "nor of what is not there" ends 3 "cannot set policy" "$ctl" set-policy cells cells=90
check "it is measured" sh -c "'$ctl' calibrate --seconds 1 --json >'$tmp/json'"
check "with a bar on a terminal, and the time left" sh -c "tests/support/terminal.py 80 '$ctl' calibrate --seconds 1 | grep -aq 'calibrating \[#*\.*\] .* %  [0-9]*:[0-9][0-9] left'"
check "all of it, and that it is simulated" cells '(.cells | length) == 90 and .simulated and .gpu == "DetShare sim:h200/132" and (.in_memory | not)'
check "with confidence" cells '[.cells[] | .samples >= 4 and .ls_permille_low <= .ls_permille and .ls_permille <= .ls_permille_high] | all'
# as on an H200, in docs/gpu.md: a reader slows a reader, less so with fewer blocks
check "an unbounded reader slows a reader" cells 'cell("read"; "read"; 66; 0).ls_permille > 1400'
check "a bounded one less" cells 'cell("read"; "read"; 66; 33).ls_permille < cell("read"; "read"; 66; 0).ls_permille - 200'
check "and gets less" cells 'cell("read"; "read"; 66; 33).be_permille < 0.6 * cell("read"; "read"; 66; 0).be_permille'
check "by its share of blocks" cells 'cell("read"; "read"; 66; 16).be_permille | . > 100 and . < 250'
check "who computes elsewhere slows nobody much" cells '[.cells[] | select(.be == "compute" and .be_sms == 66) | .ls_permille < 1150] | all'
check "half of the SMs compute half as much" cells 'cell("compute"; "compute"; 66; 0).be_permille | . > 450 and . < 550'
check "a bound for readers follows" cells '.bounds[] | select(.be == "memory" and .be_sms == 66) | .be_blocks > 0 and .enough'
check "and none for others" cells '.bounds[] | select(.be == "compute" and .be_sms == 66) | .be_blocks == 0 and .enough'
check "the policy came back" status_is '.policy == "detshare"'
check "and the clients are gone" loads 0

# --- kept -----------------------------------------------------------------------------------------------------------------
kept() {
        "$ctl" calibrate --show --json | jq -S '.cells | map({ls, be, be_sms, be_blocks, ls_permille, be_permille}) | sort_by(.ls, .be, .be_sms, .be_blocks)'
}
jq -S '.cells | map({ls, be, be_sms, be_blocks, ls_permille, be_permille}) | sort_by(.ls, .be, .be_sms, .be_blocks)' "$tmp/json" >"$tmp/measured"
same() {
        [ -s "$tmp/measured" ] && kept | diff "$tmp/measured" -
}
check "it is kept" same
check "a table is shown" sh -c "'$ctl' calibrate --show | grep -q 'Calibration of DetShare sim:h200/132 (sim)'"
check "with its bounds" sh -c "'$ctl' calibrate --show | grep -q 'reads or writes, on 66 SMs: at most [0-9]* blocks resident'"
check "policies hear of it" told 90
kill -KILL "$("$ctl" status --json | jq .worker_pid)"
check "another worker comes" status_is '.worker_restarts == 1 and .worker_state == "serving"'
check "its policies hear of it" told 90
check "the daemon stops" stop
check "it starts again" start
check "all is there" same
check "its policies hear of it" told 90

# --- ends of runs -----------------------------------------------------------------------------------------------------------
for signal in INT TERM KILL; do
        env --default-signal=INT "$ctl" calibrate --seconds 600 >"$tmp/run" 2>&1 &
        run=$!
        check "$signal: it measures" loads 2
        [ $signal != INT ] || check "there is one at a time" ends 1 "has a profiling run" "$ctl" calibrate
        kill -$signal $run
        wait $run 2>/dev/null
        check "$signal ends it" [ $? -gt 128 ]
        check "$signal: the policy comes back" status_is '.policy == "detshare"'
        check "$signal: and its other process is gone" loads 0
done
env --default-signal=INT "$ctl" calibrate --seconds 600 >"$tmp/run" 2>&1 &
run=$!
check "it measures" loads 2
"$ctl" kill "$("$ctl" clients --json | jq '.clients[] | select(.name == "calibrate-be").id')"
wait $run
r=$?
check "without BE's session it fails" [ $r != 0 ]
check "and says so" grep -q "cannot calibrate: " "$tmp/run"
check "the policy comes back" status_is '.policy == "detshare"'
check "what was kept stays" same

# --- others -----------------------------------------------------------------------------------------------------------------
"$build/detsharectl" run -- "$build/tests/programs/stairs" x 100000000 >"$tmp/other" 2>&1 &
other=$!
check "somebody works" status_is '.launches > 20'
check "then nothing is measured, or kept" ends 1 "work on the GPU; --force measures all the same" "$ctl" calibrate --seconds 1
kill -KILL $other
wait $other 2>/dev/null
check "what was kept stays" same
if [ "$(id -u)" = 0 ]; then
        chmod 666 "$tmp/sock"
        as_nobody() {
                setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
        }
        check "others may not measure" ends 4 "cannot calibrate" as_nobody "$ctl" calibrate
        check "nor forget" ends 4 "cannot forget" as_nobody "$ctl" calibrate --forget
        check "but look" as_nobody "$ctl" calibrate --show
else
        skip "who may calibrate" "root, to become another user"
fi

# --- forgotten ----------------------------------------------------------------------------------------------------------------
check "it is forgotten" "$ctl" calibrate --forget
check "and gone" ends 6 "was not calibrated" "$ctl" calibrate --show
check "policies hear of that" told 0
check "the daemon stops" stop
check "one starts that executes" start sim:h200
check "which takes too long" ends 3 "sim:MODEL+timing" "$ctl" calibrate
check "the policy comes back" status_is '.policy == "detshare"'
check "the daemon stops" stop

# --- memory channels --------------------------------------------------------------------------------------------------------
channels() {
        # channels JQ-EXPRESSION: about those of the last run; a cell by LS's and BE's kind, channels and blocks
        jq ".channels | def cell(\$be; \$n; \$blocks): .cells[] | select(.be == \$be and .be_channels == \$n and .be_blocks == \$blocks); $1" \
                "$tmp/json" >"$tmp/answer"
        cat "$tmp/answer"
        [ "$(cat "$tmp/answer")" = true ]
}
check "one starts that executes" start sim:a2000
check "its memory channels are measured" sh -c "'$ctl' calibrate --channels --json >'$tmp/json'"
check "all there are, by parts" channels '.channels == 6 and ([.cells[].be_channels] | unique == [0, 1, 2, 3])'
check "by the table that is installed" channels '.source | startswith("table sim-a2000.lut")'
check "who reads beside slows a reader" channels 'cell("read"; 0; 0).ls_permille > 1500'
check "less so with few blocks" channels 'cell("read"; 0; 3).ls_permille < cell("read"; 0; 0).ls_permille - 300'
check "a half of the channels is half of the rate" channels 'cell("read"; 3; 0).be_permille | . > 400 and . < 600'
check "a sixth a sixth" channels 'cell("read"; 1; 0).be_permille | . > 120 and . < 220'
check "fewer channels cost LS something, with nobody beside, too" channels 'cell("nobody"; 3; 0).ls_permille > 1100'
check "it comes to a verdict, with what it follows from" channels '.be <= 3 and .without.ls_permille > 1000 and (.be == 0) == (has("with") | not)'
check "the policy came back" status_is '.policy == "detshare"'
jq -S '.channels | [.be, (.cells | map({ls, be, be_channels, be_blocks, ls_permille, be_permille}))]' "$tmp/json" >"$tmp/measured"
check "it is kept" sh -c "'$ctl' calibrate --show --json | jq -S '.channels | [.be, (.cells | map({ls, be, be_channels, be_blocks, ls_permille, be_permille}))]' | diff '$tmp/measured' -"
check "a table is shown" sh -c "'$ctl' calibrate --show | grep -q '^Best without dividing channels'"
check "the daemon stops" stop
check "it starts again" start sim:a2000
check "all is there" sh -c "'$ctl' calibrate --show --json | jq -S '.channels | [.be, (.cells | map({ls, be, be_channels, be_blocks, ls_permille, be_permille}))]' | diff '$tmp/measured' -"
check "it is forgotten" "$ctl" calibrate --forget
check "and gone" ends 6 "was not calibrated" "$ctl" calibrate --show
check "the daemon stops" stop
check "one starts that only times" start
check "of which channels cannot be found" ends 3 "executes no kernels" "$ctl" calibrate --channels
check "the daemon stops" stop

echo "$passed passed, $failed failed"
[ $failed = 0 ]
