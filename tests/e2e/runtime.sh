#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Unmodified Runtime API programs (nvcc -cudart shared) on DetShare's libcudart.so.13, without a driver. A daemon with
# a simulated H200 runs each program over the submission ring and, at the same time in another process, over the
# socket alone. The library's exports are compared with NVIDIA's. Prints `N passed, N failed` last.
#
# usage: tests/e2e/runtime.sh BUILD [program ...]
# DETSHARE_TEST_DEVICE=cuda:0 selects another device. CUDART_DIR names another folder with a libcudart.so.13.
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
shift
tmp=$(mktemp -d /tmp/detshare-runtime.XXXXXX)
mkdir "$tmp/ring.static"
. tests/support/counted.sh
daemon=

# shellcheck disable=SC2317
finish() {
        [ -n "$daemon" ] && kill -KILL "$daemon" 2>/dev/null
        rm -rf "$tmp"
}
trap finish EXIT

# A sanitized or counting build lies in the plain build's folder and uses the plain programs, which nvcc builds
# without sanitizers.
at=$build/tests/runtime
[ -d "$at" ] || at=$(dirname "$build")/tests/runtime
preload=
readelf -d "$build/cuda/libcudart.so.13" | grep -q 'libasan' &&
        preload="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"

# run TRANSPORT PROGRAM: runs a program with DetShare's libraries; output goes to $tmp/TRANSPORT.PROGRAM
run() {
        LD_LIBRARY_PATH=${CUDART_DIR:+$CUDART_DIR:}$build/cuda DETSHARE_SOCKET=$tmp/sock DETSHARE_TRANSPORT=$1 \
                timeout 300 env LD_PRELOAD="$preload" "$at/$2" >"$tmp/$1.$2" 2>&1 </dev/null
        echo $? >"$tmp/$1.$2.status"
}

names() {
        readelf --dyn-syms -W "$1" | awk '$7 != "UND" && $4 == "FUNC" { print $8 }' | sort
}
for theirs in "${CUDA_HOME:-}"/lib64/libcudart.so.13 /usr/local/cuda/lib64/libcudart.so.13 build/cuda-toolkit/nvidia/cu13/lib/libcudart.so.13; do
        [ -f "$theirs" ] && break
done
diff <(names "$theirs") <(names "$build/cuda/libcudart.so.13") >"$tmp/names"
result "the library exports the names that NVIDIA's exports, under the same version" $? "$tmp/names"

diff <(grep -oE '^ *(cudaSuccess|cudaError[A-Za-z0-9]+) *= *[0-9]+' "$(dirname "$theirs")/../include/driver_types.h" | sed 's/^ *//; s/ *=.*//' | sort) \
        <(sed -n 's/^X(\(cuda[A-Za-z0-9]*\), ".*/\1/p' client-lib/cudart/errors.def | sort) >"$tmp/codes"
result "the library has a name and a text for every error of the toolkit's header" $? "$tmp/codes"

if [ $# = 0 ]; then
        LD_LIBRARY_PATH=$(dirname "$theirs") "$at/error_texts" >"$tmp/texts.theirs" 2>&1
        run ring error_texts
        [ "$(wc -l <"$tmp/texts.theirs")" -gt 129 ] && diff "$tmp/texts.theirs" "$tmp/ring.error_texts" >"$tmp/texts"
        result "every error's name and text are those of NVIDIA's runtime" $? "$tmp/texts"
fi

"$build/detshared" --device "${DETSHARE_TEST_DEVICE:-sim:h200}" --socket "$tmp/sock" >"$tmp/daemon.log" 2>&1 &
daemon=$!
for _ in $(seq 2000); do
        [ -S "$tmp/sock" ] && break
        sleep 0.1
done

programs=${*:-$(cd tests/programs/runtime && basename -s .cu ./*.cu)}
# These programs need a device that reads and writes pinned host memory. Over the socket alone the device shares no
# memory with the host.
shared=" pinned managed legacy_stream host_functions pointer_attributes per_thread_copies
        graph_capture graph_mixed graph_nodes graph_update "
# These programs allocate or count all memory, so no other program may run.
alone=" out_of_memory memory_info "
among() {
        [[ $1 =~ [[:space:]]$2[[:space:]] ]]
}
# Both transports lead to the same code in the daemon. Under a sanitizer one of them is enough.
rpc=yes
[ "$(basename "$build")" = asan ] && rpc=
for program in $programs; do [ -z "$rpc" ] || among "$shared$alone" "$program" || run rpc "$program"; done &
other=$!
for program in $programs; do among "$alone" "$program" || run ring "$program"; done
wait $other
for program in $programs; do
        if among "$alone" "$program"; then
                run ring "$program"
                [ -z "$rpc" ] || run rpc "$program"
        fi
done
for transport in ring rpc; do
        for program in $programs; do
                [ -f "$tmp/$transport.$program.status" ] || continue
                result "$program over $transport" "$(cat "$tmp/$transport.$program.status")" "$tmp/$transport.$program"
        done
done

if [ $# = 0 ]; then
        grep -q '^detshare: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS): kernel .*write(int\*) at 0x10' "$tmp/ring.faulty"
        result "a fault's line has the kernel's name as C++ has it" $? "$tmp/ring.faulty"
        run ring static/vector_add
        [ "$(cat "$tmp/ring.static/vector_add.status")" != 0 ] && [ "$(grep -c '^detshare' "$tmp/ring.static/vector_add")" = 1 ] &&
                grep -q "^detshare: NVIDIA's CUDA runtime.*-cudart shared" "$tmp/ring.static/vector_add"
        result "a program with NVIDIA's static runtime, which needs NVIDIA's driver, gets an error and one line that explains it" $? "$tmp/ring.static/vector_add"
fi

kill -TERM "$daemon"
wait "$daemon"
result "the daemon ends with 0" $? "$tmp/daemon.log"
daemon=

if [ $# = 0 ]; then
        run ring vector_add
        grep -q 'cudaErrorNoDevice' "$tmp/ring.vector_add" && [ "$(grep -c '^detshare' "$tmp/ring.vector_add")" = 1 ]
        result "without a daemon: no device, and one line that says why" $? "$tmp/ring.vector_add"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
