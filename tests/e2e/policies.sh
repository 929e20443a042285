#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Policies in a whole daemon under load. Each installed policy is set in turn, repeatedly, while a service and a job
# run; both get the same bits as alone. A policy that exceeds its time and one that takes invalid actions are replaced
# by the built-in policy, with one line in the log each, and the clients continue. Prints `N passed, N failed` last.
#
# usage: tests/e2e/policies.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-policies.XXXXXX)
export DETSHARE_SOCKET=$tmp/sock
. tests/support/counted.sh
daemon=
job=
service=

# shellcheck disable=SC2317
finish() {
        for pid in $service $job $daemon; do
                kill -KILL "$pid" 2>/dev/null
        done
        rm -rf "$tmp"
}
trap finish EXIT

ctl() {
        "$build/detsharectl" "$@"
}

# A copy of the daemon that also has the policies of the tests.
mkdir "$tmp/root" && cp -rL "$build/detshared" "$build/libexec" "$build/policies" "$tmp/root" &&
        cp "$build/tests/policies/slow.so" "$build/tests/policies/chaos.so" "$tmp/root/policies" && chmod -R go-w "$tmp/root" || exit
"$tmp/root/detshared" --device sim:h200 --socket "$tmp/sock" --policy fifo --foreground >"$tmp/out" 2>"$tmp/log" &
daemon=$!
for _ in $(seq 2000); do
        grep -q serving "$tmp/out" && break
        sleep 0.05
done

# serve OUT: starts an LS service with requests over time; OUT gets a line per request, with a digest of the answer as
# third word
serve() {
        DETSHARE_CLASS=ls DETSHARE_NAME=service LD_LIBRARY_PATH=$build/cuda:$build timeout 300 "$build/demo/ls_service" \
                "$build/demo/kernels.ptx" tests/data/apollo_inter_arrival_s.json 20 120 >"$1" 2>"$1.err" &
        service=$!
}

# work OUT ITERATIONS: starts a BE job that runs until $tmp/stop exists; every iteration has the same result
work() {
        DETSHARE_CLASS=be DETSHARE_NAME=job LD_LIBRARY_PATH=$build/cuda:$build timeout 300 "$build/demo/be_job" \
                "$build/demo/kernels.ptx" "$2" "$tmp/stop" 96 64 1 >"$1" 2>"$1.err" &
        job=$!
}

# ends PID: the process ends with 0
ends() {
        wait "$1"
}

# more FILE N: waits until FILE has N lines
more() {
        for _ in $(seq 2400); do
                [ "$(wc -l <"$1")" -ge "$2" ] && return
                kill -0 "$job" || return
                sleep 0.05
        done
        return 1
}

answers() {
        cut -d ' ' -f 3 "$1"
}

# same FILE FILE: the answers are the same, as far as both files have some
same() {
        local n m
        n=$(wc -l <"$1")
        m=$(wc -l <"$2")
        [ "$n" -gt 0 ] && [ "$m" -gt 0 ] && cmp <(answers "$1" | head -n "$m") <(answers "$2" | head -n "$n")
}

policy_is() {
        for _ in $(seq 1200); do
                [ "$(ctl status --json | jq -r .policy)" = "$1" ] && return
                sleep 0.05
        done
        return 1
}

# --- reference run: each program alone ------------------------------------------------------------------------

check "the daemon serves" grep -q serving "$tmp/out"
serve "$tmp/service.alone"
check "the service runs alone" ends "$service"
work "$tmp/job.alone" 40
check "the job runs alone" ends "$job"

# --- switching policies under load ----------------------------------------------------------------------------

mapfile -t policies < <(ctl policies --json | jq -r '.policies[].name | select(. != "slow" and . != "chaos" and . != "profile" and . != "calibrate")')
check "at least 17 policies can be set" test "${#policies[@]}" -ge 17
work "$tmp/job" 100000
check "the job begins" more "$tmp/job" 1
serve "$tmp/service"
switches=0
refused=0
while [ $switches -lt "${#policies[@]}" ] || kill -0 "$service" 2>/dev/null; do
        ctl set-policy "${policies[switches % ${#policies[@]}]}" >>"$tmp/switches" 2>&1 || refused=$((refused + 1))
        switches=$((switches + 1))
done
check "every set-policy under load succeeds, $switches times in all" test $refused = 0
check "the service ends" ends "$service"
check "the service's answers are the same as alone" cmp <(answers "$tmp/service.alone") <(answers "$tmp/service")
service=
check "no policy was replaced" test -z "$(grep "takes over" "$tmp/log")"

# --- faulty policies ------------------------------------------------------------------------------------------

# replaced NAME WHY: policy NAME is set and soon replaced; one line gives the reason; the job continues under the
# built-in policy
replaced() {
        local name=$1 why=$2 before
        check "$name is set" ctl set-policy "$name"
        check "the built-in policy comes in its place" policy_is fifo
        before=$(wc -l <"$tmp/job")
        check "the job continues" more "$tmp/job" $((before + 2))
        check "the log has one line about the replacement" test "$(grep -c "policy $name .*$why.*: the built-in policy takes over" "$tmp/log")" = 1
        check "status gives the reason" sh -c "'$build/detsharectl' status | tr -d '\n|' | tr -s ' ' | grep -q 'policy $name .*$why'"
        check "status --json gives the reason" sh -c "'$build/detsharectl' status --json | jq -e '.policy_fallback | test(\"^policy $name .*$why\")'"
        check "top gives the reason" sh -c "'$build/detsharectl' top --once | tr '\\n' ' ' | grep -q 'policy $name .*$why'"
        check "top --json gives the reason" sh -c "'$build/detsharectl' top --json | jq -e '.policy_fallback | test(\"^policy $name .*$why\")'"
        check "the log has no other replacement" test "$(grep -c "takes over" "$tmp/log")" = "$(ctl status --json | jq .policy_fallbacks)"
}

replaced slow "exceeded its time budget"
replaced chaos "too many invalid actions"
check "setting another policy clears the reason" sh -c "'$build/detsharectl' set-policy multistream && '$build/detsharectl' status --json | jq -e '.policy_fallback == \"\"'"
touch "$tmp/stop"
check "the job ends" ends "$job"
job=
check "the job's results are the same as alone" same "$tmp/job.alone" "$tmp/job"
check "no session had an error and no worker restarted" test "$(ctl status --json | jq '.errors + .worker_restarts')" = 0
kill -TERM "$daemon"
check "the daemon stops" ends "$daemon"
daemon=

printf '%d passed, %d failed\n' $passed $failed
exit $((failed > 0))
