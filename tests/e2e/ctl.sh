#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# detsharectl against a daemon: every command and every exit code. JSON output parses. A failure prints to stderr and
# nothing to stdout.
#
# usage: tests/e2e/ctl.sh BUILD
set -u
cd "$(dirname "$0")/../.."
build=$(cd "$1" && pwd)
dir=$(mktemp -d /tmp/detshare-ctl-XXXXXX)
chmod 755 "$dir"
socket=$dir/sock
export DETSHARE_SOCKET=$socket
ctl=$build/detsharectl
passed=0
failed=0
daemon=
holders=()

cleanup() {
        exec 7>&- 8>&- 9>&-
        [ -n "$daemon" ] && kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null
        rm -rf "$dir"
}
trap cleanup EXIT

check() {
        # check TEXT COMMAND...: passes when the command succeeds
        local text=$1
        shift
        if "$@" >/dev/null 2>&1; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
                echo "FAIL $text"
        fi
}

# exits CODE PATTERN ARGUMENT...: detsharectl exits with CODE and its output has PATTERN; for a failure stdout is
# empty and stderr has PATTERN
exits() {
        local code=$1 pattern=$2 got
        shift 2
        timeout 300 "$ctl" "$@" >"$dir/out" 2>"$dir/err" </dev/null
        got=$?
        if [ "$got" != "$code" ]; then
                failed=$((failed + 1))
                echo "FAIL detsharectl $*: exit status $got, not $code: $(head -n 2 "$dir/err")"
        elif [ "$code" != 0 ] && { [ -s "$dir/out" ] || ! grep -q -- "$pattern" "$dir/err"; }; then
                failed=$((failed + 1))
                echo "FAIL detsharectl $*: wrong words: $(head -n 1 "$dir/out") / $(head -n 2 "$dir/err")"
        elif [ "$code" = 0 ] && { [ -s "$dir/err" ] || { [ -n "$pattern" ] && ! grep -q -- "$pattern" "$dir/out"; }; }; then
                failed=$((failed + 1))
                echo "FAIL detsharectl $*: $(head -n 2 "$dir/err") / $(head -n 5 "$dir/out")"
        else
                passed=$((passed + 1))
        fi
}

# json EXPRESSION ARGUMENT...: detsharectl prints JSON for which the Python expression (of variable d) is true
json() {
        local expression=$1
        shift
        "$ctl" "$@" 2>"$dir/err" >"$dir/out"
        check "detsharectl $*: $expression: $(head -n 1 "$dir/err")" python3 -c "
import json, sys
d = json.load(open('$dir/out'))
sys.exit(0 if ($expression) else 1)"
}

# get EXPRESSION ARGUMENT...: prints the value of the Python expression on detsharectl's JSON
get() {
        local expression=$1
        shift
        "$ctl" "$@" 2>/dev/null | python3 -c "import json, sys; d = json.load(sys.stdin); print($expression)" 2>/dev/null
}

# until_true SECONDS COMMAND...: retries the command until it succeeds, for 12 times SECONDS, since the machine may be
# slow
until_true() {
        local end=$((SECONDS + 12 * $1))
        shift
        until "$@" >/dev/null 2>&1; do
                [ $SECONDS -lt $end ] || return 1
                sleep 0.05
        done
}

# --- without a daemon -----------------------------------------------------------------------------------------

absent="cannot reach the daemon at $socket: No such file or directory; is detshared running?"
exits 9 "$absent" status
exits 9 "$absent" status --json
exits 9 "$absent" clients
exits 9 "$absent" policies
exits 9 "$absent" top
exits 9 "$absent" explain 1
exits 9 "$absent" trace start
exits 9 "$absent" set-policy fifo
exits 9 "$absent" set-class 1 ls
exits 9 "$absent" kill 1
exits 9 "$absent" run -- true
DETSHARE_FALLBACK=native exits 42 "" run -- sh -c 'echo >&2; exit 42'
exits 9 "the daemon at /elsewhere: No such file" --socket /elsewhere status
exits 9 "longer than 107 bytes" --socket "/$(printf 'x%.0s' $(seq 200))" status
exits 0 "^detsharectl [0-9]" version
exits 0 "^detsharectl [0-9]" --version
exits 0 "usage: detsharectl" --help
for command in status top explain run clients policies set-policy set-class kill version profile calibrate "trace start" "trace stop" \
        "profile list" "profile show" "profile forget" "profile export" "profile import" "profile run" "lut list" "lut show" "lut verify" \
        "completion bash" "completion zsh" "completion fish"; do
        # shellcheck disable=SC2086
        exits 0 "usage: detsharectl .* $command" $command --help
done
for command in trace lut completion; do
        exits 0 "usage: detsharectl .* $command" "$command" --help
done

# For every command the manual has the synopsis of the help.
synopsis() {
        "$ctl" "$@" --help | sed -n '/^usage/,/^$/p' | tr '\n' ' ' | tr -s ' ' | sed 's/^usage: detsharectl \[--socket PATH\] //; s/ $//'
}
sed -n '/^\*/s/[*_\\]//gp' docs/man/detsharectl.1.scd >"$dir/man"
for command in status top explain run clients policies set-policy set-class kill version profile calibrate "trace start" "trace stop" \
        "profile list" "profile show" "profile forget" "profile export" "profile import" "profile run" "lut list" "lut show" "lut verify" \
        "completion bash" "completion zsh" "completion fish"; do
        # shellcheck disable=SC2086
        check "the manual has: $(synopsis $command)" grep -qxF -- "$(synopsis $command)" "$dir/man"
done

exits 2 "Try 'detsharectl kill --help'" kill
exits 2 "Try 'detsharectl profile run --help'" profile run --samples 9 -- true
exits 2 "Try 'detsharectl --help'" frob
exits 2 "there is no subcommand frob; there are list, show, verify" lut frob
exits 2 "one of start, stop" trace
exits 2 "which command" --socket x
exits 2 "unknown command frob" frob
exits 2 "unknown option --frob" --frob status
exits 2 "needs a value" --socket
exits 2 "unknown option --frob" status --frob
exits 2 "too many arguments: x" status x
exits 2 "too many arguments: x" version x
exits 2 "an argument is missing" set-policy
exits 2 "x is not KEY=VALUE" set-policy static x
exits 2 "an argument is missing" set-class 1
exits 2 "takes one of ls|be, not royal" set-class 1 royal
exits 9 "$absent" set-class one ls
exits 2 "an argument is missing" kill
exits 9 "$absent" kill -- -1
exits 2 "which command" run --class ls
exits 2 "takes one of be|ls, not royal" run --class royal -- true
exits 2 "takes a number of milliseconds .*, not soon" run --slo-ms soon -- true
exits 2 "takes a factor .*, not fast" run --slo fast -- true
exits 2 "takes a factor .*, not 0.5x" run --tpot 0.5x -- true
exits 2 "takes a factor .*, not 5" run --ttft 5 -- true
exits 2 "takes a number of bytes, not 5x" run --mem-limit 5x -- true
exits 2 "takes a share .*, not 1.5" run --gpu-request 1.5 -- true
exits 2 "takes a share .*, not half" run --gpu-limit half -- true
exits 2 "takes a share .*, not 0.0001" run --gpu-limit 0.0001 -- true
exits 2 "0.5 is more than --gpu-limit 0.25" run --gpu-limit 0.25 --gpu-request 0.5 -- true
exits 2 "takes a percentage from 1 to 100, not 101" run --sm-percent 101 -- true
exits 2 "at most 63 bytes" run --name "$(printf 'x%.0s' $(seq 64))" -- true
exits 2 "unknown option --json" kill --json 5

# --- with a daemon --------------------------------------------------------------------------------------------

"$build/detshared" --device sim:h200 --socket "$socket" --policy fifo --foreground >"$dir/daemon.log" 2>&1 &
daemon=$!
serving() {
        [ "$(get 'd["worker_state"]' status --json)" = serving ]
}
check "the daemon serves within 10 s: $(tail -n 2 "$dir/daemon.log")" until_true 10 serving

exits 0 "(sim)" status
exits 0 "DetShare sim:h200" status
exits 0 "serving" status
# The worker reports its topology; a worker without topology reports at least its SMs.
json 'len(d["gpc_tpcs"]) == d["gpcs"] == 8 and sorted(sum(d["gpc_tpcs"], [])) == list(range(8)) + list(range(9, 17)) + list(range(18, 26)) + list(range(27, 35)) + list(range(36, 66)) and d["rungs"] == 45 and d["coarse_rungs"] == 14 and d["ladder_ns"] > 0' status --json
exits 0 "GPU .*132 SMs, .* TPCs.* rungs, own memory" status
json 'd["sms"] == 132 and all(type(d[k]) is int for k in ("tpcs", "gpcs", "rungs", "device_own_bytes", "quiesces", "quiesce_ns", "quiesce_stop_ns", "quiesce_hits", "migrations", "loans", "kills", "policy_nonsense"))' status --json
json 'd["spin_ns"] >= 1000 and d["request_spin_ns"] in (0, 50000) and d["worker_cpu_ns"] > 0 and d["supervisor_cpu_ns"] > 0' status --json
json 'd["simulated"] is True and d["worker_answers"] is True and d["policy"] == "fifo"' status --json
json 'all(type(d[k]) is int for k in ("uptime_ns", "worker_pid", "sessions", "memory_total_bytes", "launches", "open_fds"))' status --json
json 'd["memory_total_bytes"] > 0 and d["uptime_ns"] > 0 and isinstance(d["clients"], list)' status --json
exits 0 "^detshared [0-9]" version
json '[p["name"] for p in d["policies"] if p["active"]] == ["fifo"]' policies --json
json '{"fifo", "multistream", "static"} <= {p["name"] for p in d["policies"]}' policies --json
exits 0 "multistream" policies
check "policies: no escapes" sh -c "! '$ctl' policies | grep -q '\\\\x0a'"
"$ctl" clients >&- 2>"$dir/err"
check "a closed standard output is an error" test $? = 1

# hold N ARGUMENT...: starts a client that lives until descriptor N is closed; its first line goes to $dir/held
hold() {
        local fd=$1 pipe=$dir/pipe$1
        shift
        mkfifo "$pipe"
        rm -f "$dir/held$fd"
        "$ctl" run "$@" -- "$build/tests/examples/hold" <"$pipe" >"$dir/held$fd" 2>"$dir/held$fd.err" 7>&- 8>&- 9>&- &
        holders[fd]=$!
        eval "exec $fd>$pipe"
        until_true 10 test -s "$dir/held$fd"
}

check "a client runs" hold 7 --class ls --slo-ms 2.5 --name 'he said "hi"' --mem-limit 1G --gpu-request .25 --gpu-limit 0.5 --sm-percent 40
read -r id class slo limit <"$dir/held7"
check "run passes class, SLO and limit on: $class $slo $limit" test "$class $slo $limit" = "ls 2500000 1073741824"
json '[c["name"] for c in d["clients"] if c["id"] == '"$id"'] == ["he said \"hi\""]' clients --json
json '[(c["class"], c["slo_ns"], c["memory_limit_bytes"]) for c in d["clients"] if c["id"] == '"$id"'] == [("ls", 2500000, 1 << 30)]' clients --json
json '[(c["gpu_request_permille"], c["gpu_limit_permille"], c["sm_percent"]) for c in d["clients"] if c["id"] == '"$id"'] == [(250, 500, 40)]' clients --json
json 'd["sessions_ls"] >= 1 and any(c["id"] == '"$id"' for c in d["clients"])' status --json
exits 0 "he said" clients
exits 0 "" set-class "$id" be
json '[c["class"] for c in d["clients"] if c["id"] == '"$id"'] == ["be"]' clients --json
exits 6 "cannot set the class of client 999999" set-class 999999 ls
exits 6 "cannot set the class of client 0" set-class 0 ls
exits 0 "" set-class 'he said "hi"' ls
json '[c["class"] for c in d["clients"] if c["id"] == '"$id"'] == ["ls"]' clients --json
exits 6 "there is no client nobody" set-class nobody ls
exits 6 "there is no client nobody" kill nobody
exits 6 "there is no client -1" kill -- -1
exits 2 "too large" kill 99999999999999999999

check "a second client runs" hold 8 --name other
read -r other class slo limit <"$dir/held8"
check "class be is the default: $class" test "$class" = be
check "a third client has the same name" hold 9 --name other
read -r third class slo limit <"$dir/held9"
exits 1 "2 clients have the name other; .*: $other $third\$" kill other
exits 1 "2 clients have the name other; .*: $other $third\$" set-class other ls
exits 0 "" kill "$third"
exec 9>&-
wait "${holders[9]}"
exits 0 "" kill "$id"
gone() {
        [ "$(get '[c["id"] for c in d["clients"]].count('"$id"')' clients --json)" = 0 ]
}
check "the killed client is gone" until_true 5 gone
exits 6 "cannot end client $id" kill "$id"
exec 7>&-
wait "${holders[7]}"
check "the killed client noticed" test $? = 3
json 'any(c["id"] == '"$other"' for c in d["clients"])' clients --json

# --- policies -------------------------------------------------------------------------------------------------

exits 0 "" set-policy multistream
json 'd["policy"] == "multistream"' status --json
exits 6 "cannot set policy frob" set-policy frob
check "set-policy lists the right names" grep -q "the policies are: fifo, .*detshare" "$dir/err"
exits 6 "there is no policy frob" policies frob
check "policies lists the right names" grep -q "the policies are: fifo, .*detshare" "$dir/err"
exits 0 "^| \* | multistream " policies
exits 0 "^multistream (in force): " policies multistream
exits 0 "^static (not in force): " policies static
exits 0 "^  ls_percent  *default 50, [0-9]*..[0-9]*, percent\$" policies static
exits 0 "" set-policy static ls_percent=37
exits 0 "^  ls_percent  *37 in force, default 50, " policies static
json '[(p["default"], p["in_force"], p["type"]) for p in d["policies"][0]["parameters"] if p["name"] == "ls_percent"] == [(50, 37, "percent")] and len(d["policies"]) == 1' policies static --json
json 'all("in_force" not in q for p in d["policies"] if not p["active"] for q in p["parameters"]) and all(p["params"].count("\n") + bool(p["params"]) == len(p["parameters"]) for p in d["policies"])' policies --json
exits 0 "" set-policy multistream
exits 1 "without '/'" set-policy ../fifo
exits 1 "cannot set policy static" set-policy static no_such_parameter=1
mapfile -t keys < <("$ctl" policies --json | python3 -c 'import json, re, sys
text = [p["params"] for p in json.load(sys.stdin)["policies"] if p["name"] == "detshare"][0]
print(*re.findall(r"^(\w+=-?\d+) ", text, re.M), sep="\n")')
check "detshare has its parameters" test "${#keys[@]}" -ge 8
exits 0 "" set-policy detshare "${keys[@]}"
json 'd["policy"] == "detshare"' status --json
exits 0 "" set-policy multistream
json 'd["policy"] == "multistream"' status --json
exits 0 "" set-policy fifo
json '[p["name"] for p in d["policies"] if p["active"]] == ["fifo"]' policies --json

# --- detsharectl run ------------------------------------------------------------------------------------------

exits 127 "cannot run /nonexistent" run -- /nonexistent
exits 126 "cannot run /etc/passwd" run -- /etc/passwd
exits 42 "" run -- sh -c 'echo >&2; exit 42'
exits 0 "^$build/cuda:/some/where" run -- sh -c 'echo "$LD_LIBRARY_PATH" >/dev/null; LD_LIBRARY_PATH=/some/where '"$ctl"' run -- sh -c "echo \$LD_LIBRARY_PATH"'
exits 0 "^ls 5.000000 12 $socket" run --class ls --slo-ms 5 --mem-limit 12 -- sh -c 'echo $DETSHARE_CLASS $DETSHARE_SLO_MS $DETSHARE_MEM_LIMIT $DETSHARE_SOCKET'
exits 0 "^1.5x 200ms 1.2x\$" run --class ls --slo 1.5x --ttft 200ms --tpot 1.2x -- sh -c 'echo $DETSHARE_SLO $DETSHARE_TTFT $DETSHARE_TPOT'
exits 0 "^$(realpath "$socket")\$" --socket "$(realpath --relative-to=. "$socket")" run -- sh -c 'echo "$DETSHARE_SOCKET"'
# Without an option the environment's value stays.
DETSHARE_CLASS=ls exits 0 "^ls\$" run -- sh -c 'echo $DETSHARE_CLASS'
exits 0 "^simulated device, slept 1000000 ns" run --class ls -- "$build/examples/hello"
exits 0 "^simulated device, slept 1000000 ns" run -- env DETSHARE_TRANSPORT=rpc "$build/examples/hello"
exits 1 "DETSHARE_MEM_LIMIT=1.5G: expected bytes as a whole number, or with K, M, G or T behind it, for example 512M" run -- env DETSHARE_MEM_LIMIT=1.5G "$build/examples/hello"
exits 1 "101 % of the SMs" run -- env DETSHARE_SM_PERCENT=101 "$build/examples/hello"
# A client without standard streams: its output must not reach its connection to the daemon.
"$ctl" run -- sh -c "exec '$build/examples/hello' <&- >&- 2>&-"
check "a program without standard streams runs" test $? = 0
check "no output of the program reaches the daemon" sh -c "! grep 'a frame of' '$dir/daemon.log'"

# --- permissions ----------------------------------------------------------------------------------------------

if [ "$(id -u)" = 0 ]; then
        cp "$ctl" "$build/libdetshare-client.so.0" "$dir"
        as_nobody() {
                setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
        }
        denied() {
                # denied PATTERN ARGUMENT...: as another user, detsharectl exits with 4 and prints PATTERN
                local pattern=$1
                shift
                LD_LIBRARY_PATH=$dir as_nobody "$dir/detsharectl" "$@" >"$dir/out" 2>"$dir/err"
                [ $? = 4 ] && [ ! -s "$dir/out" ] && grep -q "$pattern" "$dir/err"
        }
        chmod 600 "$socket"
        check "no permission for the socket is exit 4: $(cat "$dir/err")" denied "permission denied: .*$socket: Permission denied" status
        chmod 666 "$socket"
        check "another user may get the status" env LD_LIBRARY_PATH="$dir" setpriv --reuid=65534 --regid=65534 --clear-groups \
                "$dir/detsharectl" status
        for command in "set-policy fifo" "kill $other" "set-class $other ls"; do
                # shellcheck disable=SC2086
                check "another user may not $command" denied "cannot" $command
        done
        json 'any(c["id"] == '"$other"' for c in d["clients"])' clients --json
fi

# --- restart of the worker ------------------------------------------------------------------------------------

worker=$(get 'd["worker_pid"]' status --json)
kill -STOP "$worker" # not an answer from it any more
exits 0 "(sim)" status
json 'd["worker_answers"] is False and type(d["launches"]) is int' status --json
exits 0 "(last known)" status
kill -KILL "$worker"
for _ in 1 2 3 4 5; do
        json 'd["worker_state"] in ("starting", "restarting", "serving")' status --json
done
check "the worker serves again" until_true 10 serving
json 'd["worker_restarts"] == 1 and d["worker_pid"] != '"$worker" status --json
exec 8>&-
wait "${holders[8]}"
check "an idle client lives through it" test $? = 0

kill -TERM "$daemon"
wait "$daemon"
check "the daemon ends with 0" test $? = 0
daemon=
exits 9 "$absent" status

# --- the public header ----------------------------------------------------------------------------------------

if command -v g++ >/dev/null; then
        check "detshare.h is a C++ header, too" g++ -std=c++11 -Wall -Wextra -pedantic -Werror -fsyntax-only -x c++ \
                -Iclient-lib/include client-lib/include/detshare/detshare.h
fi
exported=$(nm -D --defined-only "$build/libdetshare-client.so" | awk '{print $3}' | grep -v '^DETSHARE_' | sed 's/@.*//' | sort)
named=$(sed -n 's/^ *\([a-z_0-9]*\);$/\1/p' client-lib/core/libdetshare-client.sym | sort)
check "the library exports what its symbol file names, and nothing else" test "$exported" = "$named"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
