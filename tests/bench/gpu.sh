#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make bench-gpu: the cost of DetShare and the protection that it gives, on this machine's GPU, beside a native run
#
#   figures   launches, copies, events, modules: the same program natively and under DetShare, alternately, side by side
#   clients   launches of 1 and of 8 programs at a time, all the same or each with another argument: their rate, and
#             processor time per launch of the programs, the worker and the supervisor; processor time of a daemon
#             without clients
#   delay     time until 16 blocks have started and ended beside a program whose 1,024-thread blocks hold every SM for
#             2 ms each: alone, under `static`, under `multistream`, and natively (the driver time-slices two processes)
#   loop      requests of a latency-sensitive program, alone and beside best-effort programs that start, load modules,
#             allocate, launch, free everything and end, one after the other
#   forms     kernels that can be evicted: cost without an eviction, time until their SMs are free, cost of resuming
#   first     first calls of new processes, with cold caches and again (tests/bench/first_times.py): FIRST_ROWS and
#             FIRST_SECONDS in the environment choose its groups and its time limit (default: all groups, 550 s)
#   eager     requests to PyTorch models in eager mode (tests/bench/eager_models.py): EAGER_MODELS and EAGER_SECONDS choose
#             its models and its time limit (default: all models, 550 s)
#   calls     latency of calls that a program makes while it starts: natively, and under DetShare without polling after
#             requests (spin_us = 0) and with it
#   colour    kernels whose tensors lie in sectors of some memory channels: cost on an otherwise idle GPU;
#             PACKS in the environment: folders of model packs, measured as well
#
# Every figure is of this machine and this run. No figure is judged; the goal stands beside it. Exit status: 1 if
# something could not run, 3 without a GPU. With another device (DETSHARE_TEST_DEVICE) or driver (DETSHARE_LIBCUDA)
# there is no native side, and the figures say nothing about a GPU.
#
# The figures also go to files in BENCH_OUT (default: BUILD/bench/out), from which tests/bench/performance.py makes
# docs/performance.md: PART.csv with the columns round, side, figure, value, unit; for `first` and `eager` those of their
# programs; and machine.csv. A part replaces its own file.
#
# usage: tests/bench/gpu.sh BUILD [PART...]
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
shift
# shellcheck source=tests/gpu/lib.sh
. tests/gpu/lib.sh
needs_gpu bench-gpu
rounds=${BENCH_ROUNDS:-3}
be_us=${BENCH_SPIN_US:-2000}
loops=
out=${BENCH_OUT:-$build/bench/out}
mkdir -p "$out" || exit

# keep_begin PART: empties the part's file of figures. keep PART ROUND SIDE FILE: adds the lines `figure value unit` of FILE
keep_begin() {
        echo "round,side,figure,value,unit" >"$out/$1.csv"
}
keep() {
        awk -v round="$2" -v side="$3" -v OFS=, 'NF >= 2 { print round, side, $1, $2, $3 }' "$4" >>"$out/$1.csv"
}

# keep_requests PART SIDE WHEN NAME: adds the figures of `gpu_load ls` in $tmp/ls.NAME; WHEN is alone or beside
keep_requests() {
        awk -v when="$3" '$1 == "ls" { print when "_requests", $2; print when "_p50", $3, "us"; print when "_p99", $4, "us"; print when "_max", $5, "us" }' \
                "$tmp/ls.$4" >"$tmp/kept" 2>/dev/null && keep "$1" 1 "$2" "$tmp/kept"
}

# machine: writes machine.csv: what the figures were measured on
machine() {
        local name
        name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
        [ -n "$name" ] || name=$(sed -n 's/^Model: *//p' /proc/driver/nvidia/gpus/*/information 2>/dev/null | head -n 1)
        {
                echo "name,value"
                echo "device,$([ -n "$native" ] && echo "$name" || echo "$device")"
                echo "driver,$([ -n "$native" ] && grep -oE '[0-9]+\.[0-9.]+' /proc/driver/nvidia/version 2>/dev/null | head -n 1)"
                echo "processors,$(nproc)"
                echo "date,$(date -u +%Y-%m-%d)"
        } >"$out/machine.csv"
}

# native SECONDS CLASS COMMAND..., shared SECONDS CLASS COMMAND...: runs a program natively or under DetShare
native() {
        local seconds=$1
        shift 2
        timeout -k 5 "$seconds" "$@"
}
shared() {
        local seconds=$1 class=$2
        shift 2
        LD_LIBRARY_PATH=$shared_path DETSHARE_CLASS=$class timeout -k 5 "$seconds" "$@"
}

set_policy() {
        "$build/detsharectl" --socket "$tmp/sock" set-policy "$@" || result "set-policy $*" 1
}

# --- figures ----------------------------------------------------------------------------------------------------------------

# goals of DetShare's figures: NAME KIND NUMBER. KIND below: the figure is below NUMBER; of: at least this fraction of
# the native figure
goals="launch_p50 below 1
launch_sync_p50 below 20
pinned_h2d_256MiB of 0.9
pinned_d2h_256MiB of 0.9
pinned_h2d_16MiB of 0.9
pinned_d2h_16MiB of 0.9"

# figures_table: prints the rounds' medians side by side, from $tmp/native.N and $tmp/shared.N
figures_table() {
        awk -v goals="$goals" '
                function median(text,   v, n, i, j, t) {
                        n = split(text, v, " ")
                        for (i = 2; i <= n; i++)
                                for (j = i; j > 1 && v[j] + 0 < v[j - 1] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
                        return v[int((n + 1) / 2)]
                }
                BEGIN {
                        n = split(goals, line, "\n")
                        for (i = 1; i <= n; i++) { split(line[i], f, " "); kind[f[1]] = f[2]; number[f[1]] = f[3] }
                }
                {
                        where = FILENAME ~ /native/ ? "n" : "s"
                        if (!($1 in unit)) order[++count] = $1
                        unit[$1] = $3
                        all[where, $1] = all[where, $1] " " $2
                }
                END {
                        bar = "+--------------------------+--------+------------+------------+--------+-----------------------+"
                        print bar
                        printf "| %-24s | %-6s | %10s | %10s | %6s | %-21s |\n", "figure", "unit", "native", "DetShare", "ratio", "goal"
                        print bar
                        for (i = 1; i <= count; i++) {
                                name = order[i]
                                n = (("n", name) in all) ? median(all["n", name]) : ""
                                s = (("s", name) in all) ? median(all["s", name]) : ""
                                ratio = n != "" && s != "" && n > 0 ? sprintf("%.2f", s / n) : "-"
                                goal = ""
                                if (s != "" && kind[name] == "below")
                                        goal = sprintf("< %s %s: %s", number[name], unit[name], s < number[name] ? "yes" : "NO")
                                if (ratio != "-" && kind[name] == "of")
                                        goal = sprintf(">= %s of native: %s", number[name], s / n >= number[name] ? "yes" : "NO")
                                printf "| %-24s | %-6s | %10s | %10s | %6s | %-21s |\n", name, unit[name], \
                                        n == "" ? "-" : n, s == "" ? "-" : s, ratio, goal
                        }
                        print bar
                }' "$@"
}

part_figures() {
        local i status files=
        daemon_start --policy multistream || return
        keep_begin figures
        for i in $(seq "$rounds"); do
                if [ -n "$native" ]; then
                        native 40 - "$build/bench/gpu_figures" >"$tmp/native.$i" 2>"$tmp/err"
                        result "figures, natively, round $i" $? "$tmp/err"
                        keep figures "$i" native "$tmp/native.$i"
                        files="$files $tmp/native.$i"
                fi
                shared 40 be "$build/bench/gpu_figures" >"$tmp/shared.$i" 2>"$tmp/err"
                status=$?
                result "figures, under DetShare, round $i" $status "$tmp/err"
                keep figures "$i" detshare "$tmp/shared.$i"
                files="$files $tmp/shared.$i"
        done
        sed -n "1,4p" "$tmp/daemon.log"
        # shellcheck disable=SC2086
        figures_table $files
        daemon_stop
}

# --- launches of several programs ---------------------------------------------------------------------------------------------

# cpu_ns: processor time of the daemon's worker and supervisor so far, ns
cpu_ns() {
        "$build/detsharectl" --socket "$tmp/sock" status --json | sed -nE 's/^ *"(worker|supervisor)_cpu_ns": ([0-9]+).*/\2/p' | tr '\n' ' '
}

# launchers WHERE N SECONDS KIND: N programs launch at the same time; writes figures to $tmp/WHERE.N.
# KIND: clients, which repeat one launch, or changing, whose launches have other arguments each
launchers() {
        local i pids=() before="" after="" bad=0 what=rate
        [ "$4" = clients ] || what=$4
        rm -f "$tmp/start" "$tmp"/launcher.*
        for i in $(seq "$2"); do
                "$1" $((20 + $3)) be "$build/bench/gpu_figures" "$what" "$3" "$tmp/start" >"$tmp/launcher.$i" 2>"$tmp/launcher.$i.err" &
                pids+=($!)
        done
        for _ in $(seq 200); do
                [ "$(cat "$tmp"/launcher.*[0-9] | grep -c READY)" = "$2" ] && break
                sleep 0.1
        done
        [ "$1" = native ] || before=$(cpu_ns)
        touch "$tmp/start"
        for i in "${pids[@]}"; do
                wait "$i" || bad=1
        done
        [ "$1" = native ] || after=$(cpu_ns)
        awk -v n="$4_$2" -v cpu="$before $after" '
                $1 == "rate" { launches += $2; rate += $2 / $3; client += $4 }
                END {
                        if (!launches) exit 1
                        printf "%s_launches %.0f 1/s\n%s_cpu_client %.4f us\n", n, rate, n, client / launches
                        if (split(cpu, ns, " ") == 4) {
                                printf "%s_cpu_worker %.4f us\n", n, (ns[3] - ns[1]) / 1000 / launches
                                printf "%s_cpu_superv %.4f us\n", n, (ns[4] - ns[2]) / 1000 / launches
                        }
                }' "$tmp"/launcher.*[0-9] >"$tmp/$1.$2"
        result "launches of $2 at a time, $4, $1" $((bad + $?)) "$tmp/launcher.1.err"
}

# launchers_kept WHERE N SECONDS KIND ROUND: the same, and keeps the figures; adds their file to $files
launchers_kept() {
        local side=$1
        [ "$1" = native ] || side=detshare
        launchers "$1" "$2" "$3" "$4"
        keep clients "$5" $side "$tmp/$1.$2"
        mv "$tmp/$1.$2" "$tmp/$1.$4.$2.$5"
        files="$files $tmp/$1.$4.$2.$5"
}

part_clients() {
        local i n kind before after files='' seconds=${BENCH_CLIENT_SECONDS:-2} idle=${BENCH_IDLE_SECONDS:-5}
        daemon_start --policy multistream || return
        keep_begin clients
        sleep "$((idle / 2))"
        before=$(cpu_ns)
        sleep "$idle"
        after=$(cpu_ns)
        echo "$before $after" | awk -v s="$idle" '{ printf "idle_daemon %.4f %%\n", ($3 + $4 - $1 - $2) / s / 1e7 }' >"$tmp/shared.idle"
        keep clients 1 detshare "$tmp/shared.idle"
        files=$tmp/shared.idle
        for i in $(seq "$rounds"); do
                for kind in clients changing; do
                        for n in 1 8; do
                                [ -z "$native" ] || launchers_kept native $n "$seconds" $kind "$i"
                                launchers_kept shared $n "$seconds" $kind "$i"
                        done
                done
        done
        # shellcheck disable=SC2086
        figures_table $files
        daemon_stop
}

# --- the start of a latency-sensitive kernel ----------------------------------------------------------------------------------

# measure WHERE NAME SECONDS KERNELS REQUESTS PAUSE_US: measures one row; the output of `gpu_load ls` goes to
# $tmp/ls.NAME
measure() {
        "$1" $(($3 + 20)) ls "$build/bench/gpu_load" ls "$4" "$5" "$6" "$3" >"$tmp/ls.$2" 2>"$tmp/err"
        result "$2" $? "$tmp/err"
}

# row TEXT NAME ALONE GOAL: prints the figures of NAME, and their ratios to those of ALONE
row() {
        awk -v text="$1" -v goal="$4" '
                NR == 1 { n = $2; p50 = $3; p99 = $4; max = $5 }
                NR == 2 { a50 = $3; a99 = $4 }
                END {
                        verdict = ""
                        if (goal != "")
                                verdict = sprintf("p99 <= %s x: %s", goal, p99 <= goal * a99 ? "yes" : "NO")
                        printf "| %-34s | %8d | %10.1f | %10.1f | %10.1f | %6.2f | %6.2f | %-17s |\n", text, n, p50, p99, max, \
                                p50 / a50, p99 / a99, verdict
                }' "$tmp/ls.$2" "$tmp/ls.$3" 2>/dev/null || echo "| $1: no figures"
}

rows_head() {
        echo "+------------------------------------+----------+------------+------------+------------+--------+--------+-------------------+"
        printf '| %-34s | %8s | %10s | %10s | %10s | %6s | %6s | %-17s |\n' "latency-sensitive, us" requests p50 p99 max "p50 x" "p99 x" goal
        echo "+------------------------------------+----------+------------+------------+------------+--------+--------+-------------------+"
}

# be_start WHERE: starts a best-effort program that holds every SM. be_stop: ends it and prints its progress
be_start() {
        : >"$tmp/be.out"
        rm -f "$tmp/stop"
        "$1" 60 be "$build/bench/gpu_load" be "$be_us" "$tmp/stop" >"$tmp/be.out" 2>"$tmp/be.err" &
        be=$!
        for _ in $(seq 100); do
                grep -q READY "$tmp/be.out" && return 0
                sleep 0.1
        done
        result "the best-effort program gets to work" 1 "$tmp/be.err"
        return 1
}

be_stop() {
        touch "$tmp/stop"
        wait "$be"
        sed -n "s/^be \([0-9]*\) \(.*\)/best-effort kernels per second $1: \2/p" "$tmp/be.out" | tee -a "$tmp/be.rows" >/dev/null
}

# keep_delay SIDE: adds the figures of one side
keep_delay() {
        keep_requests delay "$1" alone "$1_alone"
        keep_requests delay "$1" beside "$1_beside"
        sed -n 's/^be [0-9]* /be_kernels /p' "$tmp/be.out" | sed 's|$| 1/s|' >"$tmp/kept"
        keep delay 1 "$1" "$tmp/kept"
}

part_delay() {
        local policy
        : >"$tmp/be.rows"
        keep_begin delay
        if [ -n "$native" ]; then
                measure native native_alone 5 1 2000 200
                be_start native && measure native native_beside 8 1 2000 200
                be_stop natively
                keep_delay native
        fi
        daemon_start --policy multistream || return
        for policy in multistream static; do
                set_policy $policy
                measure shared ${policy}_alone 5 1 2000 200
                be_start shared && measure shared ${policy}_beside 8 1 2000 200
                be_stop "under $policy"
                keep_delay $policy
        done
        daemon_stop
        rows_head
        if [ -n "$native" ]; then
                row "natively, alone" native_alone native_alone ""
                row "natively, beside" native_beside native_alone ""
        fi
        row "multistream, alone" multistream_alone multistream_alone ""
        row "multistream, beside" multistream_beside multistream_alone ""
        row "static, alone" static_alone static_alone ""
        row "static, beside" static_beside static_alone 1.3
        sed 's/^/| /' "$tmp/be.rows"
}

# --- short-lived programs -------------------------------------------------------------------------------------

churn() {
        # churn WHERE: runs short-lived programs one after the other until $tmp/stop exists; writes their number to
        # $tmp/churn
        local n=0 bad=0
        while [ ! -e "$tmp/stop" ]; do
                if "$1" 30 be "$build/bench/gpu_load" churn >/dev/null 2>>"$tmp/churn.err"; then n=$((n + 1)); else bad=$((bad + 1)); fi
        done
        echo "$n $bad" >"$tmp/churn"
}

# beside_churn WHERE NAME: measures the latency-sensitive program while short-lived programs run
beside_churn() {
        rm -f "$tmp/stop"
        churn "$1" &
        loops=$!
        sleep 1
        measure "$1" "$2" 60 28 5000 5000
        touch "$tmp/stop"
        wait $loops
        result "$2: programs that came and went: $(cut -d ' ' -f 1 "$tmp/churn"), of them failed: $(cut -d ' ' -f 2 "$tmp/churn")" \
                "$(cut -d ' ' -f 2 "$tmp/churn")" "$tmp/churn.err"
        echo "$2: best-effort programs meanwhile: $(cut -d ' ' -f 1 "$tmp/churn")" >>"$tmp/churn.rows"
}

# keep_loop PART SIDE ALONE BESIDE: adds the figures of two names
keep_loop() {
        keep_begin "$1"
        keep_requests "$1" "$2" alone "$3"
        keep_requests "$1" "$2" beside "$4"
        sed 's/^\([0-9]*\) .*/programs \1/' "$tmp/churn" >"$tmp/kept" && keep "$1" 1 "$2" "$tmp/kept"
}

part_loop() {
        : >"$tmp/churn.rows"
        : >"$tmp/churn.err"
        daemon_start --policy multistream || return
        measure shared loop_alone 60 28 5000 5000
        beside_churn shared loop_beside
        keep_loop loop detshare loop_alone loop_beside
        "$build/detsharectl" --socket "$tmp/sock" status --json | grep -oE '"(quiesces|quiesce_ns)": *[0-9]+' | tr '\n' ' '
        daemon_stop
        rows_head
        row "under DetShare, alone" loop_alone loop_alone ""
        row "under DetShare, beside the loop" loop_beside loop_alone 1.2
        sed 's/^/| /' "$tmp/churn.rows"
}

part_nativeloop() {
        : >"$tmp/churn.rows"
        : >"$tmp/churn.err"
        if [ -z "$native" ]; then
                echo "no GPU: nothing to run natively"
                return
        fi
        measure native native_loop_alone 60 28 5000 5000
        beside_churn native native_loop_beside
        keep_loop nativeloop native native_loop_alone native_loop_beside
        rows_head
        row "natively, alone" native_loop_alone native_loop_alone ""
        row "natively, beside the loop" native_loop_beside native_loop_alone ""
        sed 's/^/| /' "$tmp/churn.rows"
}

# part_forms: the part `forms`; needs the device alone, without a daemon
part_forms() {
        if timeout -k 5 100 "$build/tests/gpu/forms"; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
        fi
}

# part_colour: the part `colour`; needs the device alone, without a daemon
part_colour() {
        # shellcheck disable=SC2086
        if timeout -k 5 300 "$build/tests/gpu/colour" ${PACKS-}; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
        fi
}

# --- calls of a program's start -------------------------------------------------------------------------------

# calls_table: prints medians of the rounds side by side, from $tmp/calls.WHERE.N
calls_table() {
        awk '
                function median(text,   v, n, i, j, t) {
                        n = split(text, v, " ")
                        for (i = 2; i <= n; i++)
                                for (j = i; j > 1 && v[j] + 0 < v[j - 1] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
                        return n ? v[int((n + 1) / 2)] : "-"
                }
                {
                        where = FILENAME
                        sub(/.*calls[.]/, "", where)
                        sub(/[.].*/, "", where)
                        if (!($1 in seen)) { seen[$1] = 1; order[++count] = $1 }
                        all[where, $1] = all[where, $1] " " $2
                }
                END {
                        bar = "+-------------------------+------------+-------------+------------+"
                        print bar
                        printf "| %-23s | %10s | %11s | %10s |\n", "us", "native", "spin_us = 0", "default"
                        print bar
                        for (i = 1; i <= count; i++)
                                printf "| %-23s | %10s | %11s | %10s |\n", order[i], median(all["native", order[i]]), \
                                        median(all["off", order[i]]), median(all["on", order[i]])
                        print bar
                }' "$@"
}

# calls_under NAME LINE: measures under a daemon whose configuration has that line in [daemon]
calls_under() {
        local i
        printf '[daemon]\n%s\n' "$2" >"$tmp/calls.conf"
        chmod 644 "$tmp/calls.conf"
        daemon_start --config "$tmp/calls.conf" || return
        for i in $(seq "$rounds"); do
                shared 60 be "$build/bench/gpu_calls" >"$tmp/calls.$1.$i" 2>"$tmp/err"
                result "calls, $1, round $i" $? "$tmp/err"
                keep calls "$i" "$1" "$tmp/calls.$1.$i"
        done
        "$build/detsharectl" --socket "$tmp/sock" status | grep -A 1 processor
        daemon_stop
}

part_calls() {
        local i
        keep_begin calls
        for i in $(seq "$rounds"); do
                [ -n "$native" ] || break
                native 60 - "$build/bench/gpu_calls" >"$tmp/calls.native.$i" 2>"$tmp/err"
                result "calls, natively, round $i" $? "$tmp/err"
                keep calls "$i" native "$tmp/calls.native.$i"
        done
        calls_under off "spin_us = 0"
        calls_under on "# the default"
        calls_table "$tmp"/calls.*.[0-9]*
}

# part_first: the part `first`; starts daemons of its own
part_first() {
        local seconds=${FIRST_SECONDS:-550}
        if timeout -k 10 $((seconds + 60)) python3 tests/bench/first_times.py --build "$build" --limit "$seconds" --rounds "$rounds" \
                --rows "${FIRST_ROWS:-all}" --out "$out/first" </dev/null; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
        fi
}

# part_eager: the part `eager`; starts a daemon of its own. EAGER_GO_ON=1 keeps the rounds that BENCH_OUT has
part_eager() {
        local seconds=${EAGER_SECONDS:-550}
        if [ -z "$native" ]; then
                echo "no GPU: PyTorch's models run on GPUs only"
                return
        fi
        [ -n "${EAGER_GO_ON:-}" ] || rm -f "$out/eager.csv"
        # shellcheck disable=SC2086
        if timeout -k 10 $((seconds + 60)) python3 tests/bench/eager_models.py --build "$build" --limit "$seconds" --rounds "$rounds" \
                --out "$out" ${EAGER_MODELS-} </dev/null; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
        fi
}

machine
[ $# = 0 ] && set -- figures clients delay loop nativeloop forms calls first eager colour
case ${DETSHARE_LIBCUDA:-}$device in
cuda:*) ;;
*) echo "device $device ${DETSHARE_LIBCUDA:-}: not a GPU: these figures are of the machinery only" ;;
esac
for part; do
        begin=$SECONDS
        echo "== $part"
        if ! declare -F "part_$part" >/dev/null; then
                echo "bench-gpu: no part $part" >&2
                exit 2
        fi
        "part_$part"
        daemon_stop
        echo "== $part: $((SECONDS - begin)) s"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
