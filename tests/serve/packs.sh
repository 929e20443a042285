#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Model packs on a GPU. Each pack runs natively, under DetShare over the ring, over the socket alone, and finally as
# LS beside all others as BE. Outputs must be within the pack's tolerance and the same bits in each case. Prints a
# table of times: native, under DetShare, beside the others. Prints `N passed, N failed` last.
#
# A simulated device (its name as second argument) cannot run packs natively. Its digests are compared with those of
# FILE, if given: lines `PACK CASE SHA256`, in the format that this script prints.
#
# EVICT=yes: instead of the runs beside others, all kernels of each pack run in a form that can be evicted, and are
# evicted at random times and resumed on other SMs (tests/policies/evictor.c, `make build/tests/policies/evictor.so`),
# first alone, then all packs at once. Outputs must be the same bits as natively, and some kernels must have been
# evicted. REQUESTS is the number of requests of each run (500).
#
# usage: tests/serve/packs.sh BUILD cuda:0|sim:MODEL[,FILE] PACK...
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
device=${2%%,*}
known=
case $2 in *,*) known=${2#*,} ;; esac
shift 2
tmp=$(mktemp -d /tmp/detshare-packs.XXXXXX)
chmod 755 "$tmp"
export DETSHARE_SOCKET=$tmp/sock
serve=$build/detshare-serve
requests=${REQUESTS:-500}
. tests/support/counted.sh
. tests/support/daemon.sh
. tests/support/evictor.sh

# shellcheck disable=SC2317
finish() {
        daemon_end
        rm -rf "$tmp"
}
trap finish EXIT

# `of FILE EXPRESSION` prints the value of a Python expression for the JSON in FILE, which it calls d
of() {
        python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"
}

# digests_of WAY NAME: writes the digests of a run to a file
digests_of() {
        of "$tmp/$1.$2.json" "'\n'.join('$2 %d %s' % (c['case'], c['sha256']) for c in d['checked'])" >"$tmp/$1.$2.digests"
}

# one WAY PACK ARGUMENT...: runs a pack and checks its outputs; writes digests and times to $tmp/WAY.NAME.*
one() {
        local at name status devices=${CUDA_VISIBLE_DEVICES:-}
        name=$(basename "$2")
        at=$tmp/$1.$name
        # a native run uses this script's GPU; a client of the daemon has only one GPU, number 0
        [ "$1" = native ] || devices=${devices:+0}
        env ${devices:+CUDA_VISIBLE_DEVICES="$devices"} timeout 300 "$serve" "$2" --json --check --digest --requests "$requests" "${@:3}" >"$at.json" 2>"$at.err"
        status=$?
        result "$1 $name: right, and the same bits each time" $status "$at.err"
        digests_of "$1" "$name"
}

same() {
        # same WAY PACK FILE: checks that the digests of WAY are those in FILE
        local name status
        name=$(basename "$2")
        [ -s "$3" ] && cmp -s "$tmp/$1.$name.digests" "$3"
        status=$?
        result "$1 $name: the bits of ${4:-native}" $status
}

us() {
        [ -s "$tmp/$1.$2.json" ] || { echo -; return; }
        of "$tmp/$1.$2.json" "'%.1f / %.1f' % (d['latency_us']['p50'], d['latency_us']['p99'])" || echo -
}

# Runs each pack as LS with all others beside it as BE.
beside_others() {
        local pack other others
        for pack; do
                others=
                for other; do
                        [ "$other" = "$pack" ] && [ $# -gt 1 ] && continue
                        env ${CUDA_VISIBLE_DEVICES:+CUDA_VISIBLE_DEVICES=0} timeout 300 "$serve" "$other" --class be --seconds 1000000 >/dev/null 2>&1 &
                        others="$others $!"
                done
                one beside "$pack" --class ls
                same beside "$pack" "$tmp/ring.$(basename "$pack").digests" "alone"
                # shellcheck disable=SC2086
                kill -INT $others 2>/dev/null
                # shellcheck disable=SC2086
                wait $others
        done
}

# Runs all packs in the form that can be evicted, under a policy that evicts at random times.
told_to_let_go() {
        local pack way running=
        daemon_stop
        result "the daemon ends with 0" $?
        evicting_daemon "$build"
        build=$tmp/evicting daemon_start --device "$device" --state "$tmp/state" --policy evictor --transform always
        result "a daemon that has kernels let go serves $device" $? "$tmp/log"
        for pack; do
                one evicted "$pack"
        done
        for pack; do
                env ${CUDA_VISIBLE_DEVICES:+CUDA_VISIBLE_DEVICES=0} timeout 300 "$serve" "$pack" --json --check --digest \
                        --requests "$requests" >"$tmp/crowd.$(basename "$pack").json" 2>"$tmp/crowd.$(basename "$pack").err" &
                running="$running $!"
        done
        # shellcheck disable=SC2086
        for pack in $running; do
                wait "$pack"
                result "a pack run beside all others ends with 0" $?
        done
        for pack; do
                digests_of crowd "$(basename "$pack")"
                for way in evicted crowd; do
                        same $way "$pack" "$tmp/$first_way.$(basename "$pack").digests" "$first_way"
                done
        done
        [ "$(evicting_figure evictions)" -gt 0 ] && [ "$(evicting_figure resumes)" -gt 0 ]
        result "kernels let go and went on" $?
        evicting_figures
}

daemon_start --device "$device" --state "$tmp/state"
result "a daemon serves $device" $? "$tmp/log"

first_way=ring
case $device in cuda*) first_way=native ;; esac
for pack; do
        name=$(basename "$pack")
        one ring "$pack"
        [ -n "${EVICT:-}" ] || DETSHARE_TRANSPORT=rpc one rpc "$pack"
        first=$tmp/ring.$name.digests against="the ring"
        case $device in
        cuda*)
                one native "$pack" --native
                first=$tmp/native.$name.digests against=native
                same ring "$pack" "$first"
                ;;
        *)
                [ -z "$known" ] || { grep "^$name " "$known" >"$tmp/known"; same ring "$pack" "$tmp/known" "$known"; }
                ;;
        esac
        [ -n "${EVICT:-}" ] || same rpc "$pack" "$first" "$against"
done
last=beside
if [ -n "${EVICT:-}" ]; then
        last=evicted
        told_to_let_go "$@"
else
        beside_others "$@"
fi
daemon_stop
result "the daemon ends with 0" $?

cat "$tmp"/ring.*.digests
printf '%-24s %22s %22s %22s   us, p50 / p99 of %s requests%s\n' pack native DetShare "$([ $last = evicted ] && echo "told to let go" || echo "beside others")" "$requests" \
        "$(case $device in sim*) echo " (sim)" ;; esac)"
for pack; do
        name=$(basename "$pack")
        printf '%-24s %22s %22s %22s\n' "$name" "$(us native "$name")" "$(us ring "$name")" "$(us $last "$name")"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
