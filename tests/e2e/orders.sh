#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# No order of make targets breaks another one: a later build leaves the files of an earlier build in place and up to
# date.
#
# A short build (SHORT=1) and a whole build assemble the same texts in different ways, side by side. After each build
# this script checks that every file of the earlier builds has the same bytes. At the end make must have nothing left
# to do for any of them. Prints `N passed, N failed` last.
#
# usage: tests/e2e/orders.sh BUILD         the rules for PTX and cubins, with one small kernel, in an empty directory; seconds
#        tests/e2e/orders.sh BUILD full    what `make test`, `make gpu-build` and `make corpus` build, in BUILD/orders, with
#                                          the round trip's test in each of three orders; an hour on two cores
set -u
cd "$(dirname "$0")/../.." || exit
# make sets these when it runs this script.
unset MAKEFLAGS MFLAGS MAKELEVEL
passed=0
failed=0
result() {
        if [ "$2" = 0 ]; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
                echo "FAIL $1"
                tail -n 20 "$tmp/said" | sed 's/^/     /'
        fi
}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/detshare-orders-XXXXXX") || exit
trap 'rm -rf "$tmp"' EXIT

if [ "${2:-}" = full ]; then
        build=$1/orders
        made="ptx e2e fatbin cubin compile bench demo eval gpu tests/runtime"
        declare -A words=([short]="SHORT=1 test-build" [gpu]="gpu-build" [whole]="corpus")
        orders=("short gpu whole" "gpu whole short" "whole short gpu")
else
        build=$tmp/build
        made=ptx
        # A short build writes the second cubin from the first one.
        one=$build/ptx/sm_75/saxpy other=$build/ptx/sm_90/saxpy
        declare -A words=([short]="SHORT=1 $one.O0.cubin $other.ptx" [whole]="$one.cubin $other.cubin")
        orders=("short whole" "whole short")
fi

do_make() {
        # shellcheck disable=SC2086
        make -s -j2 --no-print-directory BUILD="$build" "$@" >"$tmp/said" 2>&1
}

for order in "${orders[@]}"; do
        for folder in $made; do rm -rf "${build:?}/$folder"; done
        : >"$tmp/sums"
        for step in $order; do
                # shellcheck disable=SC2086
                do_make ${words[$step]}
                result "$order: $step builds" $?
                [ ! -s "$tmp/sums" ] || (cd "$build" && sha256sum --quiet -c "$tmp/sums") >"$tmp/said" 2>&1
                result "$order: $step leaves earlier files as they were" $?
                (cd "$build" && find $made -type f ! -name '*.stamp' -print0 2>/dev/null | xargs -0 sha256sum) >"$tmp/sums"
        done
        [ -s "$tmp/sums" ] && ! grep -E '[.](new|log)$' "$tmp/sums" >"$tmp/said"
        result "$order: no unexpected file is left" $?
        for step in $order; do
                # Counts only files that a recipe would make, since phony targets always run.
                # shellcheck disable=SC2086
                do_make -n ${words[$step]}
                ! grep -E 'ptxas|nvcc|sed .*target' "$tmp/said" >"$tmp/left" && [ ! -s "$tmp/left" ]
                result "$order: nothing is left to do for $step: $(head -n 1 "$tmp/left")" $?
        done
        [ "${2:-}" != full ] && continue
        make -s -j2 --no-print-directory BUILD="$build" SHORT=1 "$build/tests/unit/test_ptx_roundtrip" >"$tmp/said" 2>&1 &&
                "$build/tests/unit/test_ptx_roundtrip" --jobs 1 --timeout 600 >"$tmp/said" 2>&1
        result "$order: the round trip passes" $?
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
