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
tmp=$(mktemp -d "${TMPDIR:-/tmp}/detshare-examples-XXXXXX") || exit
export DETSHARE_SOCKET=$tmp/sock
. tests/support/counted.sh
. tests/support/daemon.sh
trap 'daemon_end; wait; rm -rf "$tmp"' EXIT

# The policy is built in a copy, as its author would, with the header where the package installs it.
mkdir -p "$tmp/include/detshare" "$tmp/policies"
cp policies/detshare_policy.h "$tmp/include/detshare/"
cp -r examples/policy "$tmp/policy"
check "the policy builds with one header, and its own test passes" \
        make -s -C "$tmp/policy" test POLICY_CFLAGS="-I$tmp/include -Werror" REPLAY="$build/detshare-replay"

daemon_start --device sim:h200
ctl=$build/detsharectl

says() {
        local want=$1
        shift
        "$@" 2>&1 | tee "$tmp/said" | grep -Eq "$want" || { cat "$tmp/said"; return 1; }
}
check "the C client connects" says "^simulated device, slept 1000000 ns" "$ctl" run --class ls -- "$build/examples/hello"
check "the Python client connects" says "class ls, objective 5 ms" python3 examples/client.py "$build/libdetshare-client.so"
check "the service runs alone" says "^service: 20 requests, latency p50 .* checksum" \
        "$ctl" run --class ls --name service -- "$build/examples/service" 20
alone=$(sed -n 's/.*checksum //p' "$tmp/said")
"$ctl" run --name job -- "$build/examples/job" 3 128 >"$tmp/job" 2>&1 &
job=$!
check "the service gives the same bits beside the job" says "checksum ${alone:-missing}\$" \
        "$ctl" run --class ls --name service -- "$build/examples/service" 20
wait "$job"
check "the job makes progress beside the service" grep -Eq "^job: [1-9][0-9]* products" "$tmp/job"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
