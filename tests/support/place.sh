#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a directory that every user can reach, for files that the daemon's unprivileged processes open or execute.
#
# The worker and the helpers of a daemon that root starts are unprivileged. In a tree below a directory that only root
# may enter (/root), they can neither load the fake driver nor run the tests' compilers: this copies both. Prints the
# directory, which the caller removes; prints nothing if every user can reach the tree.
#
# usage: tests/support/place.sh BUILD
set -eu
cd "$(dirname "$0")/../.."
build=$(realpath "$1")

real=/usr/local/cuda/bin/ptxas
[ -x "$real" ] || real=$PWD/build/cuda-toolkit/nvidia/cu13/bin/ptxas
nobody() {
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}
if [ "$(id -u)" != 0 ] || [ ! -x "$real" ]; then
        exit 0
fi
if nobody test -x "$PWD/tests/support/fake_cuda/ptxas" && nobody test -r "$build" && nobody test -x "$real"; then
        exit 0
fi
place=$(mktemp -d /tmp/detshare-place.XXXXXX)
chmod 755 "$place"
mkdir "$place/bin"
cp "$real" "$place/ptxas"
cp tests/support/fake_cuda/ptxas "$place/fake_ptxas"
cp tests/support/hostile_ptxas "$place/hostile_ptxas"
printf '#!/bin/sh\nDETSHARE_REAL_PTXAS=%s exec %s "$@"\n' "$place/ptxas" "$place/fake_ptxas" >"$place/bin/ptxas"
[ ! -e "$build/fake_cuda/libcuda.so.1" ] || cp "$build/fake_cuda/libcuda.so.1" "$place/"
chmod 755 "$place"/* "$place/bin/ptxas"
echo "$place"
