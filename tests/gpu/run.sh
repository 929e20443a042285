#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make test-gpu: runs on the GPU of this machine the tests that otherwise use the simulated GPU
#
#   programs   every program of tests/programs natively and under DetShare, over the ring and over the socket alone, then
#              many at once: standard output and exit status must be equal byte by byte, except for the number of checks
#   evict      the same programs with all kernels in the persistent form, evicted at random times and resumed on other
#              SMs; not part of the default
#   runtime    every program of tests/programs/runtime: natively with NVIDIA's static and shared runtimes, under DetShare
#              with both and with our own
#   interp     corpus kernels and every instruction of the interpreter against the GPU, bit by bit
#   device     the cuda device through the device vtable
#   faults     kernels that break the context, clients that die with a kernel running
#   restart    the daemon restarted and killed while clients work
#   sandbox    the daemon with the restrictions of its systemd unit
#   e2e        clients killed, workers killed, hostile clients, against a daemon that has the GPU
#   memory     device memory per client, and which processes have a context
#   libs       cuBLAS, cuDNN and other libraries of NVIDIA, with the static runtime: digests of their results equal
#              native ones
#   torch      PyTorch under DetShare: results of each case of tests/torch equal native ones to the byte, and times of a
#              step beside native times; the quick cases, or those whose names contain a word of TORCH_WORDS
#   bringup    the first steps of PyTorch under DetShare, stage by stage; not part of the default
#
# Parts are independent, and each has its time limits. The last line is `N passed, N failed`; exit status 3 without a
# GPU. Another device (DETSHARE_TEST_DEVICE) or another driver than NVIDIA's (DETSHARE_LIBCUDA) works as well, without
# the native side.
#
# usage: tests/gpu/run.sh BUILD [PART...]
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
shift
# shellcheck source=tests/gpu/lib.sh
. tests/gpu/lib.sh
. tests/support/evictor.sh

needs_gpu test-gpu

# --- programs
# -------------------------------------------------------------------------------------------------------------

# these programs test features of DetShare beyond the driver: stale handles are refused, a fault leaves room for a new
# context
native_skips=" handles recovery "
# these programs print the state after a fault, which differs natively: only the exit status is compared
says_otherwise=" faults "
# these programs break the context of every program that runs at the same time
breaks=" faults recovery asserts limits "
# kernels of these programs write to standard error, which is compared too, with its lines sorted
to_stderr=" prints asserts "
# natively these programs need the GPU for themselves: they count its memory, or measure times
native_alone=" memory_limit streams_events "

has() {
        case $1 in *" $2 "*) return 0 ;; esac
        return 1
}

# one WHERE ARCH PROGRAM: runs a program; output and status are in $tmp/WHERE/ARCH.PROGRAM.*
one() {
        local at=$tmp/$1/$2.$3
        KERNELS_DIR=$build/ptx/$2 timeout -k 5 60 "$build/tests/programs/$3" >"$at.out" 2>"$at.err" </dev/null
        echo $? >"$at.status"
}
shared() {
        LD_LIBRARY_PATH=$shared_path one "$@"
}
natively() {
        env -u DETSHARE_SOCKET bash -c 'one "$@"' _ native "$1" "$2"
}
at_once() {
        # at_once NUMBER ARCH PROGRAM: runs a program beside others, as latency-sensitive or best effort by its NUMBER
        local class=be
        [ $(($1 % 2)) = 0 ] && class='ls'
        DETSHARE_CLASS=$class shared "once$(($1 / 1000))" "$2" "$3"
}
export -f one shared natively at_once
export build tmp shared_path

# said: prints the output of a program without the number of checks. A program makes some checks only if the device
# has a feature (memory that both sides can write, registered memory, 64-bit words). A failed check has a line of its
# own.
said() {
        sed 's/^\(PASS\|FAIL\) \([^ ]*\) ([0-9]* checks)$/\1 \2/' "$1"
}
checks_of() {
        sed -n 's/^\(PASS\|FAIL\) [^ ]* (\([0-9]*\) checks)$/\2/p' "$1"
}

# compare WHERE ARCH PROGRAM NAME: compares the run at WHERE with the native run
compare() {
        local there=$tmp/$1/$2.$3 here=$tmp/native/$2.$3 status=0 text counts=
        if [ "$(cat "$there.status")" != 0 ]; then
                cat "$there.out" "$there.err" >"$there.both"
                result "$4: status $(cat "$there.status")" 1 "$there.both"
                return
        fi
        if [ -f "$here.status" ]; then
                cmp -s "$here.status" "$there.status" || status=1
                has "$says_otherwise" "$3" || cmp -s <(said "$here.out") <(said "$there.out") || status=1
                if has "$to_stderr" "$3"; then
                        cmp -s <(sort "$here.err") <(grep -v "^detshare: " "$there.err" | sort) || status=1
                fi
                if [ $status = 1 ]; then
                        text=$there.diff
                        diff <(cat "$here.status" "$here.out"; sort "$here.err") \
                                <(cat "$there.status" "$there.out"; sort "$there.err") | head -n 14 >"$text"
                fi
                [ "$(checks_of "$here.out")" = "$(checks_of "$there.out")" ] ||
                        counts=" ($(checks_of "$there.out") checks, natively $(checks_of "$here.out"))"
        fi
        result "$4$counts$([ $status = 1 ] && echo ': not as natively')" $status "${text:-}"
}

# foreign_deaths: the worker dies three times while a program works: the program gets an error each time, and a new
# context works like the first
foreign_deaths() {
        local other n
        RECOVERY_FOREIGN=1 shared "once9" sm_90 recovery &
        other=$!
        for n in 1 2 3; do
                for _ in $(seq 400); do
                        [ "$(grep -c READY "$tmp/once9/sm_90.recovery.out" 2>/dev/null)" = $n ] && break
                        sleep 0.05
                done
                sleep 0.1
                for pid in $(pgrep -P "$daemon"); do
                        grep -q detshare-worker "/proc/$pid/cmdline" 2>/dev/null && kill -KILL "$pid"
                done
        done
        wait "$other"
        result "recovery outlives three deaths of the worker" "$(cat "$tmp/once9/sm_90.recovery.status")" \
                "$tmp/once9/sm_90.recovery.out"
}

all_programs() {
        (cd "$build/tests/programs" && find . -maxdepth 1 -type f -perm -u+x | sed 's|^\./||' | sort)
}

# natives "ARCH..." PROGRAM...: runs programs natively; output and status are in $tmp/native
natives() {
        local program arch archs=$1 begin=$SECONDS
        shift
        mkdir -p "$tmp/native"
        if [ -z "$native" ]; then
                echo "no GPU with NVIDIA's driver here: nothing is compared with native runs"
                return
        fi
        # programs run in parallel, because the driver needs most of a second for a context
        for program; do
                for arch in $archs; do
                        has "$native_skips$native_alone$breaks" "$program" || echo "$arch $program"
                done
        done | timeout 120 xargs -P 6 -L 1 bash -c 'natively "$@"' _
        for arch in $archs; do
                for program; do
                        has "$native_skips" "$program" && continue
                        has "$native_alone$breaks" "$program" && natively "$arch" "$program"
                        [ -f "$tmp/native/$arch.$program.status" ] || echo 1 >"$tmp/native/$arch.$program.status"
                        result "$program, native, $arch" "$(cat "$tmp/native/$arch.$program.status")" \
                                "$tmp/native/$arch.$program.out"
                done
        done
        # prints notes of the native programs about behaviour that CUDA leaves open
        sed -n 's/^note:/     &/p' "$tmp"/native/*.err | sort -u
        echo "natively: $((SECONDS - begin)) s"
}

part_programs() {
        local programs program n=0 begin=$SECONDS
        programs=$(all_programs)
        mkdir -p "$tmp"/{ring,rpc,once0,once1,once9}
        # shellcheck disable=SC2086
        natives "sm_75 sm_90" $programs
        daemon_start --policy multistream || return
        for program in $programs; do
                DETSHARE_TRANSPORT=ring shared ring sm_90 "$program"
                compare ring sm_90 "$program" "$program over the ring"
        done
        [ "$(grep -c '^detshare: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS): kernel prog_wild' "$tmp/ring/sm_90.faults.err")" = 1 ]
        result "a fault is one line on standard error, with its kernel" $? "$tmp/ring/sm_90.faults.err"
        [ -z "$native" ] || ! grep -l 'this device is simulated' "$tmp"/ring/*.err >"$tmp/simulated"
        result "no program reports a simulated GPU" $? "$tmp/simulated"
        echo "over the ring: $((SECONDS - begin)) s"
        for program in $programs; do
                DETSHARE_TRANSPORT=rpc shared rpc sm_75 "$program"
                compare rpc sm_75 "$program" "$program over the socket"
        done
        echo "over the socket: $((SECONDS - begin)) s"
        for program in $programs $programs; do
                has "$breaks" "$program" && continue
                n=$((n + 1))
                [ -f "$tmp/first.$program" ] && echo "$((1000 + n)) sm_75 $program" || echo "$n sm_90 $program"
                touch "$tmp/first.$program"
        done | timeout 120 xargs -P 8 -L 1 bash -c 'at_once "$@"' _
        for program in $programs; do
                has "$breaks" "$program" && continue
                compare once0 sm_90 "$program" "$program among others"
                compare once1 sm_75 "$program" "$program among others, sm_75"
        done
        foreign_deaths
        daemon_stop
}

# evicted NUMBER ARCH PROGRAM: runs a program whose kernels are evicted
evicted() {
        shared evicted "$2" "$3"
}
export -f evicted

# Most kernels of the programs take some us. The kernels of `evictions` run long enough to be evicted, and each block
# must run once. Evictions repeat until enough launches were hit, or for a limited number of rounds.
evict_long() {
        local turn
        for turn in 1 2 3 4 5 6 7 8; do
                check 60 "evictions, blocks of some us: each ran once ($turn)" env LD_LIBRARY_PATH="$shared_path" \
                        "$build/tests/programs/evictions" "$build/ptx/sm_90" 24 3000
                check 60 "evictions, blocks of 100 us and more: each ran once ($turn)" env LD_LIBRARY_PATH="$shared_path" \
                        "$build/tests/programs/evictions" "$build/ptx/sm_90" 12 800 5
                [ "$(evicting_figure evictions)" -lt 200 ] || break
        done
}

part_evict() {
        local programs program begin=$SECONDS
        programs=$(all_programs)
        mkdir -p "$tmp/evicted"
        # shellcheck disable=SC2086
        natives sm_90 $programs
        evicting_daemon "$build"
        daemon_from=$tmp/evicting
        daemon_start --policy evictor --transform always --state "$tmp/state" || return
        for program in $programs; do
                has "$breaks" "$program" || echo "0 sm_90 $program"
        done | timeout 300 xargs -P 4 -L 1 bash -c 'evicted "$@"' _
        evicting_figures
        for program in $programs; do
                has "$breaks" "$program" && evicted 0 sm_90 "$program"
                compare evicted sm_90 "$program" "$program, evicted at random times"
        done
        evict_long
        [ "$(evicting_figure launches_persistent)" -gt 0 ] && [ "$(evicting_figure evictions)" -gt 0 ] &&
                [ "$(evicting_figure resumes)" -gt 0 ]
        result "kernels were evicted and resumed" $?
        evicting_figures
        echo "with evictions: $((SECONDS - begin)) s"
        daemon_stop
        daemon_from=
}

# --- programs of the Runtime API
# -----------------------------------------------------------------------------------------------

runtime_breaks=" faulty asserting "
# these programs count or allocate the memory of the whole device
runtime_alone=" out_of_memory memory_info "

# their_cudart: prints the folder of NVIDIA's shared runtime on this machine
their_cudart() {
        local d
        for d in "${CUDART_DIR:-}" "${CUDA_HOME:-}/lib64" /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib \
                /usr/local/lib/python3*/*-packages/nvidia/cu13/lib /usr/lib/python3*/*-packages/nvidia/cu13/lib /opt/*/lib; do
                [ -f "$d/libcudart.so.13" ] && echo "$d" && return
        done
}

# runtime_one MODE PROGRAM: runs a program of the Runtime API
runtime_one() {
        local at=$tmp/runtime.$1/$2 program=$runtime/$2 path=
        case $1 in
        native-static) program=$runtime_static/$2 ;;
        native-shared) path=$theirs ;;
        static) program=$runtime_static/$2 path=$shared_path ;;
        shared) path=$theirs:$shared_path ;;
        ours) path=$shared_path ;;
        esac
        LD_LIBRARY_PATH=$path${path:+:}${LD_LIBRARY_PATH:-} timeout -k 5 60 "$program" >"$at.out" 2>&1 </dev/null
        echo $? >"$at.status"
}
export -f runtime_one

# runtime_mode MODE TEXT: runs all programs, four at a time, except those that must run alone
runtime_mode() {
        local program
        mkdir -p "$tmp/runtime.$1"
        for program in $programs; do
                has "$runtime_breaks$runtime_alone" "$program" || echo "$1 $program"
        done | timeout 200 xargs -P 4 -L 1 bash -c 'runtime_one "$@"' _
        for program in $programs; do
                has "$runtime_breaks$runtime_alone" "$program" && runtime_one "$1" "$program"
                result "$program $2" "$(cat "$tmp/runtime.$1/$program.status" 2>/dev/null || echo 1)" "$tmp/runtime.$1/$program.out"
        done
}

part_runtime() {
        local programs
        export runtime=$build/tests/runtime runtime_static=$build/tests/runtime/static theirs
        theirs=$(their_cudart)
        programs=$(cd "$runtime" && find . -maxdepth 1 -type f -perm -u+x ! -name '*.so' ! -name '*.xz' | sed 's|^\./||' | sort)
        if [ -f "$runtime/static.tar.xz" ]; then
                runtime_static=$tmp/runtime-static
                mkdir -p "$runtime_static"
                tar -xJf "$runtime/static.tar.xz" -C "$runtime_static" ||
                        python3 -m tarfile -e "$runtime/static.tar.xz" "$runtime_static"
        fi
        if [ -n "$native" ]; then
                runtime_mode native-static "natively, static"
                [ -n "$theirs" ] && runtime_mode native-shared "natively, shared"
        else
                echo "no GPU with NVIDIA's driver here: NVIDIA's runtimes are left out"
        fi
        [ -n "$theirs" ] || echo "no libcudart.so.13 of NVIDIA's here: CUDART_DIR says where"
        daemon_start --policy multistream || return
        if [ -n "$native" ]; then
                runtime_mode static "with the static runtime"
                [ -n "$theirs" ] && runtime_mode shared "with NVIDIA's shared runtime"
        fi
        runtime_mode ours "with our runtime"
        grep -q '^detshare: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS): kernel .*write(int\*)' "$tmp/runtime.ours/faulty.out"
        result "the line about a fault has the kernel's demangled name" $? "$tmp/runtime.ours/faulty.out"
        daemon_stop
}

# --- the other parts
# --------------------------------------------------------------------------------------------------------

part_interp() {
        local test
        if [ -z "$native" ]; then
                echo "no GPU: the interpreter is not compared"
                return
        fi
        for test in "$build"/gpu/interp/test_*; do
                [ -x "$test" ] && check 120 "$(basename "$test") against the GPU" "$test"
        done
        check 120 "every instruction against the GPU" "$build/gpu/interp/interp_diff"
        check 120 "every matrix instruction against the GPU" "$build/gpu/interp/tensor_diff" -r 20
        check 500 "every kernel of the corpus against the interpreter" "$build/gpu/interp/corpus_diff" -j 8 "$build/ptx/"
        sed -n '/^[0-9]* files, /,$p' "$tmp/check.out"
}

part_device() {
        counted 300 "the cuda device" "$build/tests/gpu/device_cuda"
}

part_faults() {
        # shellcheck disable=SC2086
        counted 150 "faults" "$build/tests/gpu/faults" "$build" ${FAULTS_MS:-}
        echo "parts of the time until the next program is served:"
        grep -a -E '^of that:| was opened in | rungs, |later$' "$tmp/counted.out" | sed 's/^/     /'
}

part_e2e() {
        local test
        for test in worker_death core hostile_frames hostile_ring hostile_limits; do
                counted 100 $test "$build/tests/e2e/$test" "$build"
        done
        counted 100 client_kills "$build/tests/e2e/client_kills" "$build" 60
        for test in endless_kernel sm_percent; do
                counted 20 $test "$build/tests/e2e/$test" "$build"
        done
}

# part_restart: a daemon that is restarted or killed while clients work
part_restart() {
        counted 200 handover "$build/tests/e2e/handover" "$build" 3
        counted 100 daemon_kills "$build/tests/e2e/daemon_kills" "$build" 4
}

# part_sandbox: the whole daemon with the restrictions of its unit; the driver, ptxas and a worker after a fault must
# work with them
part_sandbox() {
        local programs program
        programs=$(cd "$build/tests/programs" && find . -maxdepth 1 -type f -perm -u+x | sed 's|^\./||' | sort)
        mkdir -p "$tmp/sandbox"
        daemon_within="$build/tests/gpu/sandbox -w $tmp"
        daemon_start --policy multistream || { daemon_within=; return; }
        for program in $programs; do
                DETSHARE_TRANSPORT=ring shared sandbox sm_75 "$program"
                compare sandbox sm_75 "$program" "$program, the daemon in a sandbox"
        done
        daemon_stop
        daemon_within=
        cat "$tmp/daemon.log"
}

# gpu_memory: prints the device memory in use by all processes, MiB
gpu_memory() {
        nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0
}

part_memory() {
        local without with pids worker line i
        if [ -z "$native" ] || ! command -v nvidia-smi >/dev/null; then
                echo "no GPU or no nvidia-smi: device memory of clients is not measured"
                return
        fi
        daemon_start --policy multistream || return
        without=$(gpu_memory)
        rm -f "$tmp/hold"
        mkfifo "$tmp/hold"
        sleep 60 >"$tmp/hold" &
        i=$!
        for _ in 1 2 3 4 5 6 7 8; do
                LD_LIBRARY_PATH=$shared_path "$build/tests/gpu/idle" <"$tmp/hold" >>"$tmp/idle.out" 2>&1 &
        done
        for _ in $(seq 100); do
                [ "$(grep -c READY "$tmp/idle.out")" = 8 ] && break
                sleep 0.1
        done
        [ "$(grep -c READY "$tmp/idle.out")" = 8 ]
        result "eight clients with a context" $? "$tmp/idle.out"
        with=$(gpu_memory)
        echo "device memory in use: $without MiB with the daemon alone, $with MiB with eight clients"
        # a context per client would take some hundred MiB each
        [ $((with - without)) -lt 8 ]
        result "an idle client uses no device memory: $((with - without)) MiB for eight" $?
        "$build/detsharectl" --socket "$tmp/sock" status | sed -n '1,/^+.*+$/p' | head -n 20
        pids=$(nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader)
        echo "nvidia-smi's processes: ${pids:-none}"
        worker=$("$build/detsharectl" --socket "$tmp/sock" status --json | grep -o '"worker_pid": *[0-9]*' | grep -o '[0-9]*$')
        if [ -z "$pids" ]; then
                echo "nvidia-smi names no process here (containers hide them): left out: which processes have a context"
        else
                line=$(echo "$pids" | grep -c .)
                [ "$line" = 1 ]
                result "one process has a context, and eight clients none" $?
                echo "the worker is $worker"
        fi
        # a process that has a context has the device open
        sed -n 's/^READY //p' "$tmp/idle.out" | while read -r pid; do
                find "/proc/$pid/fd" -lname '/dev/nvidia*'
        done >"$tmp/opened" 2>/dev/null
        [ ! -s "$tmp/opened" ]
        result "no client has opened /dev/nvidia*" $? "$tmp/opened"
        kill $i
        wait $i 2>/dev/null
        daemon_stop
}

# library_path: prints the folders of NVIDIA's libraries, from a toolkit or from Python packages
library_path() {
        local path
        path=$(python3 -c 'import glob, nvidia
for folder in nvidia.__path__: print(":".join(sorted(glob.glob(folder + "/*/lib"))))' 2>/dev/null | paste -sd:)
        echo "${path:+$path:}${CUDA_HOME:-/usr/local/cuda}/lib64:${CUDA_HOME:-/usr/local/cuda}/lib"
}

# one_library WHERE PROGRAM PATH: runs a program with a library; its output is in $tmp/libs.WHERE.PROGRAM
one_library() {
        local out=$tmp/libs.$1.$2
        CUDA_CACHE_PATH=$tmp/cache.$1.$2 LD_LIBRARY_PATH=$3 timeout -k 5 120 "$build/gpu/libs/$2" >"$out" 2>"$out.err" </dev/null
        echo "exit status $?" >>"$out"
}

# same_cache PROGRAM: checks that the program's library has cached compiled code on disk, with DetShare as natively
same_cache() {
        local native_n shared_n
        native_n=$(find "$tmp/cache.native.$1" -type f 2>/dev/null | wc -l)
        shared_n=$(find "$tmp/cache.shared.$1" -type f 2>/dev/null | wc -l)
        echo "natively $native_n files, with DetShare $shared_n" >"$tmp/cache.diff"
        [ "$native_n" -gt 0 ] && [ "$shared_n" -gt 0 ]
        result "$1: compiled code is cached for later processes" $? "$tmp/cache.diff"
}

part_libs() {
        local program path begin took good=0
        if ! compgen -G "$build/gpu/libs/*" >/dev/null; then
                echo "left out: the toolkit that this was built with has no libraries"
                return
        fi
        if [ -z "$native" ]; then
                echo "left out: no GPU with NVIDIA's driver here, which NVIDIA's runtime needs"
                return
        fi
        path=$(library_path)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
        daemon_start --policy multistream || return
        for program in "$build"/gpu/libs/*; do
                program=$(basename "$program")
                # a library that is not on this machine is skipped, not failed
                if LD_LIBRARY_PATH=$path ldd "$build/gpu/libs/$program" | grep 'not found'; then
                        echo "left out: $program: the library is not on this machine"
                        continue
                fi
                one_library native "$program" "$path"
                begin=$(date +%s%3N)
                one_library shared "$program" "$build/cuda:$path"
                took=$(($(date +%s%3N) - begin))
                good=0
                cmp -s "$tmp/libs.native.$program" "$tmp/libs.shared.$program" || good=1
                grep -q '^exit status 0' "$tmp/libs.shared.$program" || good=1
                { diff "$tmp/libs.native.$program" "$tmp/libs.shared.$program"; cat "$tmp/libs.shared.$program.err"; } >"$tmp/libs.diff" 2>&1
                result "$program: $(grep -c -E ' [0-9a-f]{16}$' "$tmp/libs.shared.$program") digests in $took ms" $good "$tmp/libs.diff"
        done
        [ ! -s "$tmp/libs.shared.nvrtc" ] || same_cache nvrtc
        daemon_stop
}

# has_torch: succeeds if this machine has PyTorch; otherwise prints why not
has_torch() {
        python3 -c 'import torch' 2>"$tmp/torch.err" && return
        echo "left out: python3 has no torch here: $(tail -n 1 "$tmp/torch.err")"
        return 1
}

part_torch() {
        local quick=--quick
        has_torch || return
        if [ -z "$native" ]; then
                echo "left out: no GPU with NVIDIA's driver here, PyTorch has no native run to compare with"
                return
        fi
        [ -n "${TORCH_WORDS:-}" ] && quick=
        # shellcheck disable=SC2086
        counted 590 "PyTorch" python3 tests/torch/compare.py --build "$build" --daemon-device "$device" $quick \
                ${TORCH_OPTIONS:-} ${TORCH_WORDS:-}
        cat "$tmp/counted.out"
}

part_bringup() {
        has_torch || return
        daemon_start --policy multistream || return
        LD_LIBRARY_PATH=$shared_path PYTHONDONTWRITEBYTECODE=1 timeout -k 5 240 \
                python3 tests/torch/bring_up.py --keep-going >"$tmp/bringup.out" 2>&1 </dev/null
        result "PyTorch under DetShare, stage by stage" $?
        sed 's/^/     /' "$tmp/bringup.out"
        daemon_stop
}

[ $# = 0 ] && set -- programs runtime interp device faults e2e memory restart sandbox libs torch
for part; do
        begin=$SECONDS before=$failed
        echo "== $part"
        if ! declare -F "part_$part" >/dev/null; then
                echo "test-gpu: no part $part" >&2
                exit 2
        fi
        "part_$part"
        daemon_stop
        echo "== $part: $([ $failed = $before ] && echo good || echo "$((failed - before)) failed"), $((SECONDS - begin)) s"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
