#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The programs in examples/ work as examples/README.md says: the service and the job share a simulated GPU, the C and
# Python clients use the daemon, and the policy outside of the tree builds, replays and serves. Prints `N passed, N
# failed` last.
#
# usage: tests/e2e/examples.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
passed=0
failed=0
dir=$(mktemp -d "${TMPDIR:-/tmp}/detshare-examples-XXXXXX") || exit
socket=$dir/sock
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null; wait; rm -rf "$dir"' EXIT

check() {
        local what=$1
        shift
        if "$@" >"$dir/out" 2>&1; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
                printf 'FAIL %s\n' "$what"
                tail -n 20 "$dir/out"
        fi
}

# The policy is built in a copy, as its author would, with the header where the package installs it.
mkdir -p "$dir/include/detshare" "$dir/policies"
cp policies/detshare_policy.h "$dir/include/detshare/"
cp -r examples/policy "$dir/policy"
check "the policy builds with one header, and its own test passes" \
        make -s -C "$dir/policy" test POLICY_CFLAGS="-I$dir/include -Werror" REPLAY="$build/detshare-replay"

"$build/detshared" --device sim:h200 --socket "$socket" >"$dir/daemon.log" 2>&1 &
daemon=$!
for _ in $(seq 200); do [ -S "$socket" ] && break; sleep 0.05; done
export DETSHARE_SOCKET=$socket
ctl=$build/detsharectl

says() {
        local want=$1
        shift
        "$@" 2>&1 | tee "$dir/said" | grep -Eq "$want" || { cat "$dir/said"; return 1; }
}
check "the C client connects" says "^simulated device, slept 1000000 ns" "$ctl" run --class ls -- "$build/examples/hello"
check "the Python client connects" says "class ls, objective 5 ms" python3 examples/client.py "$build/libdetshare-client.so"
check "the service runs alone" says "^service: 20 requests, latency p50 .* checksum" \
        "$ctl" run --class ls --name service -- "$build/examples/service" 20
alone=$(sed -n 's/.*checksum //p' "$dir/said")
"$ctl" run --name job -- "$build/examples/job" 3 128 >"$dir/job" 2>&1 &
job=$!
check "the service gives the same bits beside the job" says "checksum ${alone:-missing}\$" \
        "$ctl" run --class ls --name service -- "$build/examples/service" 20
wait "$job"
check "the job makes progress beside the service" grep -Eq "^job: [1-9][0-9]* products" "$dir/job"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
