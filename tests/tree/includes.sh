#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that includes point down only. Folders are layers: each row below lists the prefixes that a folder's files
# may include with quotes.
#
# usage: tests/tree/includes.sh [BUILD]
set -u
cd "$(dirname "$0")/../.."
bad=0

# check FOLDER ALLOWED-PREFIX...
check() {
        local folder=$1 f inc ok p
        shift
        for f in $(find "$folder" -name "*.[ch]"); do
                for inc in $(sed -n 's/^[ \t]*#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' "$f"); do
                        ok=0
                        for p in "$@"; do
                                case $inc in "$p"*) ok=1 ;; esac
                        done
                        [ $ok = 1 ] || { echo "$f: includes \"$inc\", which is not below $folder"; bad=1; }
                done
        done
}

pb="detshare.pb-c.h internal.pb-c.h"
check proto
check daemon/util util/
check daemon/image util/ image/
check daemon/ptx util/ ptx/
check daemon/device util/ image/ ptx/ device/ lut/ cuda_gpcs.h
check daemon/replay util/ device/device.h device/sim/profile.h sched/sched.h sched/kstat.h replay/ policies/detshare_policy.h proto/slo.h
check daemon/sched util/ device/device.h device/cluster.h device/bound.h sched/ policies/detshare_policy.h policies/fifo.c proto/trace.h proto/slo.h
# shellcheck disable=SC2086
check daemon/worker util/ image/ ptx/ device/device.h device/cluster.h sched/ worker/ proto/ lut/ policies/detshare_policy.h $pb
# shellcheck disable=SC2086
check daemon/helper util/ image/ ptx/ helper/ proto/ $pb
# shellcheck disable=SC2086
check daemon/supervisor util/ supervisor/ proto/ lut/ $pb
# shellcheck disable=SC2086
check client-lib/core core/ proto/ detshare/ $pb
check client-lib/cuda core/ cuda/ detshare/ gen/ proto/wire.h
check client-lib/cudart cudart/
# shellcheck disable=SC2086
check client-lib/ctl core/ ctl/ detshare/ proto/ lut/ device/device.h $pb
check client-lib/include detshare/
check policies policies/
# the modules of a policy, lowest first: each includes only itself and lower ones
lower="policies/detshare_policy.h policies/stair.h"
for module in mean gaps positions waits sharing sketch budget felt interference params state kept requests tide best_effort prices explore place evict launch explain detshare; do
        lower="$lower policies/detshare/$module.h"
        for f in policies/detshare/$module.[ch]; do
                [ -e "$f" ] || continue
                for inc in $(sed -n 's/^[ \t]*#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' "$f"); do
                        case " $lower " in *" $inc "*) ;; *) echo "$f: includes \"$inc\", which is not below it"; bad=1 ;; esac
                done
        done
done
for f in policies/detshare/*.h; do
        case " $lower " in *" $f "*) ;; *) echo "$f: the list of modules above lacks it"; bad=1 ;; esac
done
check serve util/ serve/ detshare/
check lut util/ device/device.h lut/ probe_
exit $bad
