#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# detsharectl calibrate on simulated GPUs:
# - the measured matrix of interference has the expected properties, is stored, reaches policies, and can be forgotten
# - the previous policy is restored however a run ends
# - calibration is refused while a program works on the GPU, and to users without permission; the message says so
#
# Prints `N passed, N failed` last.
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

# A copy of the daemon that also has the test policy `cells`.
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
        # ends CODE PATTERN COMMAND...: exits with CODE, prints PATTERN to stderr and nothing to stdout
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
        # status_is JQ-EXPRESSION: waits until the expression is true of the daemon's status
        for _ in $(seq 2000); do
                [ "$("$ctl" status --json 2>/dev/null | jq "$1")" = true ] && return 0
                sleep 0.05
        done
        return 1
}

loads() {
        # loads N: waits until exactly N clients of the calibration are connected
        for _ in $(seq 2000); do
                [ "$("$ctl" clients --json | jq '[.clients[] | select(.name | startswith("calibrate-"))] | length')" = "$1" ] && return 0
                sleep 0.05
        done
        return 1
}

cells() {
        # cells JQ-EXPRESSION: evaluates the expression on the last run's cells; cell(ls; be; sms; blocks) selects one
        jq "def cell(\$ls; \$be; \$sms; \$blocks): .cells[] | select(.ls == \$ls and .be == \$be and .be_sms == \$sms and .be_blocks == \$blocks); $1" \
                "$tmp/json" >"$tmp/answer"
        cat "$tmp/answer"
        [ "$(cat "$tmp/answer")" = true ]
}

told() {
        # told N: policy `cells`, which refuses any other number of cells, accepts N
        "$ctl" set-policy cells cells="$1" && "$ctl" set-policy detshare
}

# --- arguments ------------------------------------------------------------------------------------------------
check "--seconds 0 is refused" ends 2 "from 1 to 3600" "$ctl" calibrate --seconds 0
check "--seconds with a unit is refused" ends 2 "from 1 to 3600" "$ctl" calibrate --seconds 1s
check "--quick and --seconds exclude each other" ends 2 "either" "$ctl" calibrate --quick --seconds 1
check "--show and --forget exclude each other" ends 2 "go with no option but --json" "$ctl" calibrate --show --forget
check "an argument is refused" ends 2 "too many" "$ctl" calibrate all
check "without a daemon the exit status is 9" ends 9 "is detshared running" "$ctl" calibrate

# --- results --------------------------------------------------------------------------------------------------
check "a daemon starts" start
check "before the first run nothing is stored" ends 6 "sim:h200/132 was not calibrated" "$ctl" calibrate --show
check "policies get no cells" told 0
check "a policy that needs 90 cells is refused" ends 3 "cannot set policy" "$ctl" set-policy cells cells=90
check "calibration runs" sh -c "'$ctl' calibrate --seconds 1 --json >'$tmp/json'"
check "90 cells are measured, marked as simulated" cells '(.cells | length) == 90 and .simulated and .gpu == "DetShare sim:h200/132" and (.in_memory | not)'
check "every cell has at least 4 samples and a confidence interval" cells '[.cells[] | .samples >= 4 and .ls_permille_low <= .ls_permille and .ls_permille <= .ls_permille_high] | all'
# As on an H200 (docs/gpu.md): a memory-bound BE kernel slows a memory-bound LS kernel, less so with fewer blocks.
check "a memory-bound BE kernel without a bound slows a memory-bound LS kernel" cells 'cell("read"; "read"; 66; 0).ls_permille > 1400'
check "with fewer blocks it slows LS less" cells 'cell("read"; "read"; 66; 33).ls_permille < cell("read"; "read"; 66; 0).ls_permille - 200'
check "with fewer blocks BE gets less" cells 'cell("read"; "read"; 66; 33).be_permille < 0.6 * cell("read"; "read"; 66; 0).be_permille'
check "BE's rate follows its number of blocks" cells 'cell("read"; "read"; 66; 16).be_permille | . > 100 and . < 250'
check "a compute-bound BE kernel on its own SMs slows LS by less than 15 %" cells '[.cells[] | select(.be == "compute" and .be_sms == 66) | .ls_permille < 1150] | all'
check "with half of the SMs a compute-bound kernel has half of its rate" cells 'cell("compute"; "compute"; 66; 0).be_permille | . > 450 and . < 550'
check "a bound for memory-bound BE kernels follows" cells '.bounds[] | select(.be == "memory" and .be_sms == 66) | .be_blocks > 0 and .enough'
check "compute-bound BE kernels need no bound" cells '.bounds[] | select(.be == "compute" and .be_sms == 66) | .be_blocks == 0 and .enough'
check "the previous policy is restored" status_is '.policy == "detshare"'
check "the clients of the calibration are gone" loads 0

# --- storage --------------------------------------------------------------------------------------------------
kept() {
        "$ctl" calibrate --show --json | jq -S '.cells | map({ls, be, be_sms, be_blocks, ls_permille, be_permille}) | sort_by(.ls, .be, .be_sms, .be_blocks)'
}
jq -S '.cells | map({ls, be, be_sms, be_blocks, ls_permille, be_permille}) | sort_by(.ls, .be, .be_sms, .be_blocks)' "$tmp/json" >"$tmp/measured"
same() {
        [ -s "$tmp/measured" ] && kept | diff "$tmp/measured" -
}
check "the stored cells are the measured ones" same
check "--show prints a table" sh -c "'$ctl' calibrate --show | grep -q 'Calibration of DetShare sim:h200/132 (sim)'"
check "--show prints the bounds" sh -c "'$ctl' calibrate --show | grep -q 'reads or writes, on 66 SMs: at most [0-9]* blocks resident'"
check "policies get 90 cells" told 90
kill -KILL "$("$ctl" status --json | jq .worker_pid)"
check "a new worker replaces the killed one" status_is '.worker_restarts == 1 and .worker_state == "serving"'
check "policies of the new worker get 90 cells" told 90
check "the daemon stops" stop
check "the daemon starts again" start
check "the cells are there after a restart of the daemon" same
check "policies get 90 cells after a restart of the daemon" told 90

# --- interrupted runs -----------------------------------------------------------------------------------------
for signal in INT TERM KILL; do
        env --default-signal=INT "$ctl" calibrate --seconds 600 >"$tmp/run" 2>&1 &
        run=$!
        check "$signal: the calibration runs" loads 2
        [ $signal != INT ] || check "a second calibration at the same time is refused" ends 1 "has a profiling run" "$ctl" calibrate
        kill -$signal $run
        wait $run 2>/dev/null
        check "$signal ends the calibration" [ $? -gt 128 ]
        check "$signal: the previous policy is restored" status_is '.policy == "detshare"'
        check "$signal: the processes of the calibration are gone" loads 0
done
env --default-signal=INT "$ctl" calibrate --seconds 600 >"$tmp/run" 2>&1 &
run=$!
check "the calibration runs" loads 2
"$ctl" kill "$("$ctl" clients --json | jq '.clients[] | select(.name == "calibrate-be").id')"
wait $run
r=$?
check "a calibration whose BE session is killed fails" [ $r != 0 ]
check "the message says that it cannot calibrate" grep -q "cannot calibrate: " "$tmp/run"
check "after the failure the previous policy is restored" status_is '.policy == "detshare"'
check "after interrupted runs the stored cells are unchanged" same

# --- busy GPU, and other users --------------------------------------------------------------------------------
"$build/detsharectl" run -- "$build/tests/programs/stairs" x 100000000 >"$tmp/other" 2>&1 &
other=$!
check "another program works on the GPU" status_is '.launches > 20'
check "calibration beside another program is refused" ends 1 "work on the GPU; --force measures all the same" "$ctl" calibrate --seconds 1
kill -KILL $other
wait $other 2>/dev/null
check "after the refusal the stored cells are unchanged" same
if [ "$(id -u)" = 0 ]; then
        chmod 666 "$tmp/sock"
        as_nobody() {
                setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
        }
        check "another user may not calibrate" ends 4 "cannot calibrate" as_nobody "$ctl" calibrate
        check "another user may not forget the calibration" ends 4 "cannot delete" as_nobody "$ctl" calibrate --forget
        check "another user may read the calibration" as_nobody "$ctl" calibrate --show
else
        skip "calibration by another user" "root, to become another user"
fi

# --- forgetting -----------------------------------------------------------------------------------------------
# the time left is shown from half a second on, and a quick machine measures for 1 s of the device in less
tests/support/terminal.py 80 "$ctl" calibrate --seconds 5 >"$tmp/bar" 2>&1
grep -aq 'calibrating \[#*\.*\] .* %  [0-9]*:[0-9][0-9] left' "$tmp/bar"
result "a terminal shows a progress bar and the time left" $? "$tmp/bar"
check "--forget succeeds" "$ctl" calibrate --forget
check "after --forget nothing is stored" ends 6 "was not calibrated" "$ctl" calibrate --show
check "after --forget policies get no cells" told 0
check "the daemon stops" stop
check "a daemon starts whose simulated GPU executes kernels" start sim:h200
check "calibration of a simulated GPU that executes kernels is refused as too slow" ends 3 "sim:MODEL+timing" "$ctl" calibrate
check "after that refusal the policy is unchanged" status_is '.policy == "detshare"'
check "the daemon stops" stop

# --- memory channels ------------------------------------------------------------------------------------------
channels() {
        # channels JQ-EXPRESSION: evaluates the expression on the last run's channels; cell(be; channels; blocks)
        # selects one by BE's kind, channels and blocks
        jq ".channels | def cell(\$be; \$n; \$blocks): .cells[] | select(.be == \$be and .be_channels == \$n and .be_blocks == \$blocks); $1" \
                "$tmp/json" >"$tmp/answer"
        cat "$tmp/answer"
        [ "$(cat "$tmp/answer")" = true ]
}
check "a daemon starts whose simulated GPU executes kernels" start sim:a2000
check "--channels measures memory channels" sh -c "'$ctl' calibrate --channels --json >'$tmp/json'"
check "all 6 channels are measured, with BE in 0, 1, 2 and 3 of them" channels '.channels == 6 and ([.cells[].be_channels] | unique == [0, 1, 2, 3])'
check "the installed table tells the channels" channels '.source | startswith("table sim-a2000.lut")'
check "a memory-bound BE kernel in all channels slows a memory-bound LS kernel" channels 'cell("read"; 0; 0).ls_permille > 1500'
check "with few blocks it slows LS less" channels 'cell("read"; 0; 3).ls_permille < cell("read"; 0; 0).ls_permille - 300'
check "in half of the channels BE has half of its rate" channels 'cell("read"; 3; 0).be_permille | . > 400 and . < 600'
check "in a sixth of the channels BE has a sixth of its rate" channels 'cell("read"; 1; 0).be_permille | . > 120 and . < 220'
check "fewer channels slow LS even without BE" channels 'cell("nobody"; 3; 0).ls_permille > 1100'
check "there is a verdict, with the figures that it follows from" channels '.be <= 3 and .without.ls_permille > 1000 and (.be == 0) == (has("with") | not)'
check "the previous policy is restored" status_is '.policy == "detshare"'
jq -S '.channels | [.be, (.cells | map({ls, be, be_channels, be_blocks, ls_permille, be_permille}))]' "$tmp/json" >"$tmp/measured"
check "the stored channel cells are the measured ones" sh -c "'$ctl' calibrate --show --json | jq -S '.channels | [.be, (.cells | map({ls, be, be_channels, be_blocks, ls_permille, be_permille}))]' | diff '$tmp/measured' -"
check "--show prints the verdict" sh -c "'$ctl' calibrate --show | grep -q '^Best without dividing channels'"
check "the daemon stops" stop
check "the daemon starts again" start sim:a2000
check "the channel cells are there after a restart of the daemon" sh -c "'$ctl' calibrate --show --json | jq -S '.channels | [.be, (.cells | map({ls, be, be_channels, be_blocks, ls_permille, be_permille}))]' | diff '$tmp/measured' -"
check "--forget succeeds" "$ctl" calibrate --forget
check "after --forget nothing is stored" ends 6 "was not calibrated" "$ctl" calibrate --show
check "the daemon stops" stop
check "a daemon starts whose simulated GPU only times kernels" start
check "--channels is refused there, since nothing executes" ends 3 "executes no kernels" "$ctl" calibrate --channels
check "the daemon stops" stop

echo "$passed passed, $failed failed"
[ $failed = 0 ]
