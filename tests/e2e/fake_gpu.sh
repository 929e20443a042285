#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The code path of a real GPU on a machine without one: `--device cuda:0` with the fake driver and the fake ptxas of
# tests/support/fake_cuda, LS and BE in green contexts of their own.
#
# All test programs run, LS ones over the ring and BE ones over the socket at once. Then programs that break the
# context run one by one. The fake driver aborts the worker if the daemon makes a call that stops a real context while
# work is in flight. tests/e2e/worker_death.c covers what idle clients get after a fault. Prints `N passed, N failed`
# last.
#
# usage: tests/e2e/fake_gpu.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-fake-gpu.XXXXXX)
. tests/support/counted.sh
daemon=
breaks=" asserts faults recovery limits "
export FAKE_CUDA_STRICT=1

# shellcheck disable=SC2317
finish() {
        [ -n "$daemon" ] && kill -KILL "$daemon" 2>/dev/null
        rm -rf "$tmp"
}
trap finish EXIT

# run CLASS TRANSPORT ARCH PROGRAM: runs a program; output and status go to $tmp/CLASS.PROGRAM.*
run() {
        local class=$1 transport=$2 arch=$3 program=$4 at=$tmp/$1.$4
        # The fake driver executes PTX text only, so this program needs an architecture for which its fatbins have no
        # machine code.
        [ "$program" = fatbins ] && arch=sm_75
        DETSHARE_CLASS=$class DETSHARE_TRANSPORT=$transport LD_LIBRARY_PATH=$build/cuda DETSHARE_SOCKET=$tmp/sock \
                KERNELS_DIR=$build/ptx/$arch timeout 300 "$build/tests/programs/$program" >"$at.out" 2>&1
        echo $? >"$at.status"
}

programs=$(basename -s .c tests/programs/*.c)
all_of() {
        # all_of CLASS TRANSPORT ARCH: runs all programs
        local program
        for program in $programs; do
                [[ $breaks == *" $program "* ]] || run "$@" "$program"
        done
}

cat >"$tmp/detshared.conf" <<END
[daemon]
libcuda=${DETSHARE_TEST_PLACE:-$build/fake_cuda}/libcuda.so.1
ptxas=${DETSHARE_TEST_PLACE:-$build/fake_cuda}/bin/ptxas
END
# The worker does not run as root, so it needs access to this directory.
chmod 755 "$tmp"
: >"$tmp/calls"
chmod 666 "$tmp/calls"
FAKE_CUDA_LOG=$tmp/calls "$build/detshared" --device cuda:0 --policy static --config "$tmp/detshared.conf" --socket "$tmp/sock" \
        >"$tmp/daemon.log" 2>&1 &
daemon=$!
for _ in $(seq 2000); do
        grep -q serving "$tmp/daemon.log" && break
        sleep 0.1
done
grep -q 'serving DetShare fake H200' "$tmp/daemon.log"
result "the daemon serves the fake GPU and says that it is one" $? "$tmp/daemon.log"

all_of be rpc sm_75 &
other=$!
all_of ls ring sm_90
wait "$other"
for program in $programs; do
        [[ $breaks == *" $program "* ]] && continue
        result "$program, LS over the ring, beside BE programs" "$(cat "$tmp/ls.$program.status")" "$tmp/ls.$program.out"
        result "$program, BE over the socket, beside LS programs" "$(cat "$tmp/be.$program.status")" "$tmp/be.$program.out"
done
! grep -q 'fake_cuda: .* stops\|the worker was killed' "$tmp/daemon.log"
result "no call that stops the context was made beside work" $? "$tmp/daemon.log"
grep -q '^cuLibraryLoadData' "$tmp/calls" && grep -q '^cuLaunchKernel.* busy$' "$tmp/calls"
result "the driver's log has loads of modules, and launches beside work" $? "$tmp/daemon.log"
# The worker retains one primary context for itself, and another one for LS once programs have loaded code.
for _ in $(seq 300); do
        [ "$(grep -c '^cuDevicePrimaryCtxRetain' "$tmp/calls")" -gt 1 ] && break
        sleep 0.1
done
[ "$(grep -c '^cuDevicePrimaryCtxRetain' "$tmp/calls")" -gt 1 ] && ! grep -q 'no second context' "$tmp/daemon.log"
result "the worker retained a second context" $? "$tmp/daemon.log"

# The stand-in's memory is the machine's, so the program gets little of it.
MEMORY_ALONE=1 DETSHARE_MEM_LIMIT=1G run be ring sm_90 kept
result "a program with a memory limit gets the memory that it keeps" "$(cat "$tmp/be.kept.status")" "$tmp/be.kept.out"

for program in $breaks; do
        run be ring sm_90 "$program"
        result "$program" "$(cat "$tmp/be.$program.status")" "$tmp/be.$program.out"
done
grep -q "context was lost with error 700" "$tmp/daemon.log"
result "the daemon's log names the error that ended the context" $? "$tmp/daemon.log"

kill -TERM "$daemon"
wait "$daemon"
result "the daemon ends with 0" $? "$tmp/daemon.log"
daemon=

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
