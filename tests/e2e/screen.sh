#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# detsharectl's output fits the terminal and has colours only where they are wanted. A service and a job with long
# names and a dozen other sessions run meanwhile. Prints `N passed, N failed` last.
#
# usage: tests/e2e/screen.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-screen.XXXXXX)
export DETSHARE_SOCKET=$tmp/sock
unset COLUMNS NO_COLOR
export TERM=xterm
. tests/support/counted.sh
. tests/support/daemon.sh
pids=()

# shellcheck disable=SC2317
finish() {
        exec 9>&-
        for pid in "${pids[@]}"; do
                kill -KILL "$pid" 2>/dev/null
        done
        daemon_end
        rm -rf "$tmp"
}
trap finish EXIT

ctl() {
        "$build/detsharectl" "$@"
}

# widest: prints the length of the longest line on standard input, in characters, without colours and cursor moves
widest() {
        python3 -c '
import re, sys
text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sys.stdin.buffer.read().decode())
print(max(len(line.rstrip("\r")) for line in text.split("\n")))'
}

# fits COLUMNS FILE: FILE has lines, and none is longer than COLUMNS
fits() {
        local n
        n=$(widest <"$2")
        [ -s "$2" ] && [ "$n" -le "$1" ] || { echo "the longest line has $n columns:"; cat "$2"; return 1; }
}

daemon_start --device sim:h200 --policy detshare
check "the daemon serves" grep -q serving "$tmp/out"

service=inference-service-of-the-recommendation-team-with-a-long-name
DETSHARE_CLASS=ls DETSHARE_SLO_MS=0.001 DETSHARE_NAME=$service LD_LIBRARY_PATH=$build/cuda:$build "$build/demo/ls_service" \
        "$build/demo/kernels.ptx" tests/data/apollo_inter_arrival_s.json 100000 120 >/dev/null 2>&1 &
pids+=($!)
DETSHARE_CLASS=be DETSHARE_NAME="a job with blanks in its long name, for tests of the width of lines" \
        LD_LIBRARY_PATH=$build/cuda:$build "$build/demo/be_job" "$build/demo/kernels.ptx" 1000000 "$tmp/stop" 96 64 1 >/dev/null 2>&1 &
pids+=($!)
mkfifo "$tmp/pipe"
for i in $(seq 12); do
        ctl run --name "session-$i-$(printf 'x%.0s' $(seq 40))" -- "$build/tests/examples/hold" <"$tmp/pipe" >"$tmp/held$i" 2>&1 9>&- &
        pids+=($!)
done
exec 9>"$tmp/pipe"
ready() {
        for _ in $(seq 2400); do
                [ "$(ctl top --json | jq '[.clients[] | select(.requests > 20)] | length')" = 2 ] &&
                        [ "$(cat "$tmp"/held* | wc -l)" = 12 ] && return
                sleep 0.05
        done
        return 1
}
check "14 sessions run" ready

# --- width ----------------------------------------------------------------------------------------------------

commands=(status "top --once" clients "explain $service" policies "policies detshare" "profile list")
for command in "${commands[@]}"; do
        # shellcheck disable=SC2086
        ctl $command >"$tmp/plain" 2>&1
        check "$command: 80 columns without a terminal" fits 80 "$tmp/plain"
        # shellcheck disable=SC2086
        COLUMNS=100 ctl $command >"$tmp/plain" 2>&1
        check "$command: the width of COLUMNS" fits 100 "$tmp/plain"
        # shellcheck disable=SC2086
        COLUMNS=200 tests/support/terminal.py 80 "$build/detsharectl" $command >"$tmp/pty" 2>&1
        check "$command: 80 columns on a terminal" fits 80 "$tmp/pty"
done
tests/support/terminal.py --keys q --after 2.5 80 "$build/detsharectl" top >"$tmp/pty"
check "top, live: 80 columns" fits 80 "$tmp/pty"
check "top, live: sessions are shown" grep -q inference "$tmp/pty"

for command in status "top --once" clients "explain $service"; do
        # shellcheck disable=SC2086
        ctl $command --wide >"$tmp/wide" 2>&1
        check "$command --wide: more than 80 columns" test "$(widest <"$tmp/wide")" -gt 80
done
check "--wide has every column" sh -c "'$build/detsharectl' clients --wide | grep -q 'PID.*LAUNCHES.*ERRORS.*CONNECTED'"
check "--wide shows whole names" sh -c "'$build/detsharectl' clients --wide | grep -q '$service'"
check "the omitted columns are named" sh -c "'$build/detsharectl' clients | grep -q 'columns that do not fit, see --wide: .*CONNECTED'"
check "wrapped names are complete" sh -c "'$build/detsharectl' clients | sed 's/^|[^|]*|[^|]*|[^|]*| //; s/ *|.*//' | tr -d '\n' | grep -q '$service'"
check "JSON does not depend on COLUMNS" cmp <(COLUMNS=40 ctl policies --json) <(COLUMNS=400 ctl policies --json)
check "JSON has whole names" sh -c "COLUMNS=40 '$build/detsharectl' clients --json | jq -e '[.clients[].name] | index(\"$service\")'"

# --- names of kernels --------------------------------------------------------------------------------------------------------------

mangled=_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIiEESt5arrayIPcLm1EEEEviT0_T1_
{ printf 'detshare-profiles 1\ngpu\t%s\n' "$(ctl profile list --json | jq -r .gpu)"
        printf '00000000000000aa\t64x1x1\t128x1x1\t0\t0\t132:5000/3\t%s\n' "$mangled"; } >"$tmp/profiles"
check "a profile of a C++ kernel is imported" ctl profile import "$tmp/profiles"
ctl profile list vectorized >"$tmp/plain"
check "profile list has its name shortened" sh -c "sed 's/^| *//; s/ *|.*//' '$tmp/plain' | tr -d '\n' | grep -q '::vectorized_elementwise_kernel<[.][.][.]>'"
check "profile list of it: 80 columns" fits 80 "$tmp/plain"
check "profile list --wide has the template's arguments" sh -c "'$build/detsharectl' profile list --wide | grep -q ' at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>'"
check "profile show has both names" sh -c "'$build/detsharectl' profile show 'FillFunctor<int>' | tr -d '\n' | grep -q 'void at::native::vectorized_elementwise_kernel<4, .*$mangled'"
check "the JSON has both names" sh -c "'$build/detsharectl' profile list FillFunctor --json | jq -e '.profiles[0] | .kernel == \"$mangled\" and (.demangled | startswith(\"void at::native::vectorized\"))'"

# --- colours --------------------------------------------------------------------------------------------------

# has_escapes FILE: FILE contains escape sequences
has_escapes() {
        grep -q $'\033' "$1"
}

for command in "top --once" clients policies; do
        # shellcheck disable=SC2086
        tests/support/terminal.py 120 "$build/detsharectl" $command >"$tmp/pty" 2>&1
        check "$command: colours on a terminal" has_escapes "$tmp/pty"
        # shellcheck disable=SC2086
        NO_COLOR=1 tests/support/terminal.py 120 "$build/detsharectl" $command >"$tmp/pty" 2>&1
        check "$command: no colours with NO_COLOR" sh -c "! grep -q '$(printf '\033')' '$tmp/pty'"
        # shellcheck disable=SC2086
        TERM=dumb tests/support/terminal.py 120 "$build/detsharectl" $command >"$tmp/pty" 2>&1
        check "$command: no colours with TERM=dumb" sh -c "! grep -q '$(printf '\033')' '$tmp/pty'"
        # shellcheck disable=SC2086
        NO_COLOR='' tests/support/terminal.py 120 "$build/detsharectl" $command >"$tmp/pty" 2>&1
        check "$command: colours with an empty NO_COLOR" has_escapes "$tmp/pty"
        # shellcheck disable=SC2086
        ctl $command >"$tmp/plain" 2>&1
        check "$command: no colours without a terminal" sh -c "! grep -q '$(printf '\033')' '$tmp/plain'"
done
tests/support/terminal.py 120 "$build/detsharectl" top --once >"$tmp/pty"
check "class ls is cyan" grep -q $'\033\\[36mls' "$tmp/pty"
check "an objective with missed requests is red" grep -q $'\033\\[31m *[0-9.]* %' "$tmp/pty"
check "JSON has no colours" sh -c "tests/support/terminal.py 120 '$build/detsharectl' top --json | tr -d '\r' | jq -e .policy"
tests/support/terminal.py 80 "$build/detsharectl" kill nobody >"$tmp/pty"
check "errors begin in red" grep -q $'^\033\\[31mdetsharectl:' "$tmp/pty"

exec 9>&-
touch "$tmp/stop"
daemon_stop
result "the daemon stops" $?

printf '%d passed, %d failed\n' $passed $failed
exit $((failed > 0))
