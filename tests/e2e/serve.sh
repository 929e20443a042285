#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# detshare-serve with a pack made by tests/serve:
# - outputs are right, and the same bits on two simulated GPUs, over both transports, with several instances, beside
#   other work, and natively (on a machine without a GPU: the drop-in library without its ELF note)
# - requests in a loop, at random times, from a trace, and over a socket with good and hostile clients
# - packs that contradict themselves or the GPU are refused
#
# Prints `N passed, N failed` last.
#
# usage: tests/e2e/serve.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-serve.XXXXXX)
export DETSHARE_SOCKET=$tmp/sock PYTHONDONTWRITEBYTECODE=1
unset DETSHARE_CLASS DETSHARE_NAME DETSHARE_SLO_MS
serve=$build/detshare-serve
. tests/support/counted.sh
. tests/support/daemon.sh
server=

# shellcheck disable=SC2317
finish() {
        [ -n "$server" ] && kill -KILL "$server" 2>/dev/null
        daemon_end
        rm -rf "$tmp"
}
trap finish EXIT

# start DEVICE OPTION...: starts a daemon
start() {
        daemon_start --device "$@"
}

# json FILTER ARGUMENT...: detshare-serve prints JSON for which the jq filter holds
json() {
        local filter=$1
        shift
        timeout 60 "$serve" "$tmp/pack" --json "$@" >"$tmp/json" && jq -e "$filter" "$tmp/json"
}

digests() {
        timeout 60 "$serve" "$tmp/pack" --json --digest "$@" >"$tmp/json" && jq -r '.checked[].sha256' "$tmp/json"
}

same_digests() {
        # same_digests NAME ARGUMENT...: detshare-serve prints the same digests of outputs as at first
        digests "${@:2}" >"$tmp/digests.other"
        check "$1: the same bits" cmp "$tmp/digests" "$tmp/digests.other"
}

# fails STATUS WORDS PACK ARGUMENT...: exits with STATUS and one line that has WORDS
fails() {
        timeout 60 "$serve" "${@:3}" >"$tmp/fails" 2>&1
        local status=$?
        [ $status = "$1" ] && grep -q -- "$2" "$tmp/fails" && return 0
        echo "status $status:"
        cat "$tmp/fails"
        return 1
}

# edit SED-SCRIPT: makes another pack with a changed manifest
edit() {
        rm -rf "$tmp/edited"
        cp -r "$tmp/pack" "$tmp/edited"
        sed -i "$1" "$tmp/edited/pack.txt"
}

make_pack() {
        python3 tests/serve/make_pack.py "$build/e2e/tiny.ptx" "$@"
}

check "a pack is made" make_pack "$tmp/pack"
check "a pack for class be is made" make_pack "$tmp/be" --class be
check "a pack with wrong expected outputs is made" make_pack "$tmp/wrong" --wrong

"$serve" --help | grep '^  --' | grep -oE '^  --[a-z-]+|, --[a-z-]+' | tr -d ' ,' | sort >"$tmp/helped"
sed -n '/^# WHAT IS SERVED/,/^# THE SOCKET/p' docs/man/detshare-serve.1.scd | grep -oE '^\*--.*' | grep -oE -- '--[a-z-]+' | sort >"$tmp/paged"
check "the manual page has the options of --help" diff "$tmp/helped" "$tmp/paged"
sed -n 's/^ *{"\([a-z-]*\)", \(required\|no\)_argument.*/--\1/p' serve/options.c | sort >"$tmp/parsed"
check "the comparison is not empty" diff "$tmp/parsed" "$tmp/paged"

# --- without a daemon -----------------------------------------------------------------------------------------
check "--show prints a pack" json '.model == "tiny" and .launches == 3 and .inputs[0].shape == [1, 64] and .outputs[1].type == "f16"' --show
check "without a daemon the exit status is 9" fails 9 'cannot reach the daemon' "$tmp/pack"
check "--native without a driver: the exit status is 1" env DETSHARE_LIBCUDA=/nonexistent bash -c "! '$serve' '$tmp/pack' --native 2>'$tmp/said' && grep -q 'driver library is not found: DETSHARE_LIBCUDA names /nonexistent' '$tmp/said'"
check "--native refuses the drop-in library" env DETSHARE_LIBCUDA="$build/cuda/libcuda.so.1" bash -c "! '$serve' '$tmp/pack' --native"
check "a pack that does not exist: the exit status is 1" fails 1 'No such file' "$tmp/none"
check "no pack: the exit status is 2" fails 2 'which pack' --native
check "options that exclude each other: the exit status is 2" fails 2 'not for one run' "$tmp/pack" --rate 1 --seconds 1 --listen x
check "--rate without an end: the exit status is 2" fails 2 'needs --seconds' "$tmp/pack" --rate 1
check "a word for a number: the exit status is 2" fails 2 'takes a number from 1 to 256, not 0' "$tmp/pack" --instances 0
edit 's/^arena 1536/arena 1000/'
check "a pack that contradicts itself is refused" fails 1 'pack.txt, line [0-9]*, output: .* behind the arena' "$tmp/edited" --show
printf x | dd of="$tmp/edited/weights.bin" bs=1 seek=100 conv=notrunc 2>/dev/null
cp "$tmp/pack/pack.txt" "$tmp/edited/"
check "a file with another checksum is refused" fails 1 'weights.bin is not what pack.txt says' "$tmp/edited" --show

# --- right outputs, and the same bits everywhere --------------------------------------------------------------
check "a daemon starts" start sim:h200
check "outputs are right" json '.simulated and .class == "ls" and .same and (.checked | length == 2 and all(.wrong == 0 and .worst_of_tolerance < 1))' --check
digests >"$tmp/digests"
check "there is one digest per case" [ "$(sort -u "$tmp/digests" | wc -l)" = 2 ]
same_digests "three instances" --instances 3
DETSHARE_TRANSPORT=rpc same_digests "the output says that it ran natively, on no simulated device"
check "wrong outputs: the exit status is 1" fails 1 'case 1 *WRONG: 190 of 192 elements' "$tmp/wrong" --check
objcopy --remove-section .note.detshare "$build/cuda/libcuda.so.1" "$tmp/libcuda.so.1"
LD_LIBRARY_PATH=$build DETSHARE_LIBCUDA=$tmp/libcuda.so.1 same_digests "natively" --native
check "the output names the wrong values" jq -e '.native and .class == "none" and (.simulated | not)' "$tmp/json"
check "the default class is the pack's" bash -c "'$serve' '$tmp/be' --json | jq -e '.class == \"be\"'"
check "--class sets another class" json '.class == "be"' --class be

# --- packs made by the pack compiler --------------------------------------------------------------------------
for pack in tests/offline/packs/*; do
        [ -e "$pack/pack.txt" ] || continue
        check "$(basename "$pack") is what its hashes say" "$serve" "$pack" --show
        check "$(basename "$pack") is right" timeout 60 "$serve" "$pack" --check --requests 5 --instances 2
done

# --- kernels --------------------------------------------------------------------------------------------------
check "each kernel is measured" "$serve" "$tmp/pack" --kernels "$tmp/kernels"
check "each kernel has a line" awk '$1 == "dense" && $2 == 3 && $5 == 32 && $7 == 1 && $8 > 1000 { n++ } $1 == "leaky" && $6 == 128 { n++ } END { exit n != 2 || NR != 3 }' "$tmp/kernels"
check "a pack is profiled" bash -c "'$build/detsharectl' profile '$tmp/pack' --requests 80 --json >'$tmp/profile' 2>'$tmp/said'"
check "profiles have the stairs of its kernels" bash -c "jq -es '.[1].profiles | map(select(.points | length > 1).kernel) | contains([\"dense\", \"leaky\", \"to_half\"])' '$tmp/profile'"
# The measurement of bounds may take too long, depending on the machine.
check "bounds of kernels are known, or would take too long on this simulated device" bash -c "grep -q 'this simulated device executes kernels' '$tmp/said' || grep -q '\"bound\"' '$tmp/profile'"
touches() {
        "$build/detsharectl" profile list --json dense | jq -e 'any(.profiles[]; .footprint_bytes == 25600)'
}
check "the memory that a launch touches is stored as in the pack" touches
check "the touched memory is exported" bash -c "'$build/detsharectl' profile export '$tmp/profiles' && grep -q '/25600.*dense' '$tmp/profiles'"
check "the touched memory is imported" bash -c "'$build/detsharectl' profile forget --all && '$build/detsharectl' profile import '$tmp/profiles'"
check "the imported value is the exported one" touches
check "two instances divide the time of the requests" bash -c "'$build/detsharectl' profile show dense | grep -q 'touches 25.0 KiB of memory'"

# --- requests -------------------------------------------------------------------------------------------------
check "a loop of requests" json '.requests == 300 and .different == 0 and .latency_us.p50 > 0 and .latency_us.p50 <= .latency_us.p99 and .latency_us.p99 <= .latency_us.max' --requests 300 --instances 2
check "the requests fill the time of the run" jq -e '.seconds * 2e6 / 300 >= .latency_us.mean and .seconds * 2e6 / 300 < 1.2 * .latency_us.mean' "$tmp/json"
check "--seconds limits the run" json '.seconds > 0.0199 and .seconds < 0.022 and .requests > 100' --seconds 0.02
check "requests arrive at random times" json '.requests > 120 and .requests < 280 and .in_slo <= .requests and .seconds < 0.25' --rate 1000 --seconds 0.2 --slo-ms 0.05
random=$(jq -c '[.requests, .latency_us]' "$tmp/json")
check "the same seed gives the same times" [ "$random" = "$(json . --rate 1000 --seconds 0.2 --slo-ms 0.05 | jq -c '[.requests, .latency_us]')" ]
printf '0\n0.00001\n0.00002\n0.01\n' >"$tmp/trace"
check "requests arrive as the trace says and queue when all instances are busy" json '.requests == 4 and .latency_us.max > 2.4 * .service_us.p50 and .seconds > 0.01' --trace "$tmp/trace" --latencies "$tmp/latencies"
check "there is one line per request, in order" awk 'NR > 1 && $1 < last { bad = 1 } $3 < $2 || $2 < $1 { bad = 1 } { last = $1 } END { exit bad || NR != 4 }' "$tmp/latencies"
check "with two instances requests wait less" json '.latency_us.max < 2.2 * .service_us.p50' --trace "$tmp/trace" --instances 2
check "a trace without arrivals is refused" fails 1 'there is no arrival' "$tmp/pack" --trace /dev/null
printf 'loop 0.002\nserve %s\nserve /dev/null\nloop 0.001\n' "$tmp/trace" >"$tmp/orders"
check "orders on standard input are carried out" bash -c "'$serve' '$tmp/pack' --orders <'$tmp/orders' >'$tmp/carried'"
check "each order has an answer" jq -es 'length == 5 and .[0].ready and .[1].items == (.[1].latencies_ms | length) and .[1].items > 20 and (.[2].at_s == [0, 0.00001, 0.00002, 0.01]) and (.[2].latencies_ms | length == 4) and .[3] == {latencies_ms: [], at_s: []} and .[4].seconds >= 0.001' "$tmp/carried"
printf 'hold\nat 500000000\nloop 0.001\nhold\n' >"$tmp/orders"
check "orders begin at a time of the clock" bash -c "'$serve' '$tmp/pack' --orders --digest <'$tmp/orders' >'$tmp/carried'"
check "the clock was held before that time" jq -es 'length == 4 and (.[0].ready.checked[0].sha256 | length == 64) and .[1].held.now_ns < 500000000 and .[3].held.now_ns >= 501000000' "$tmp/carried"
check "an unknown order is refused" bash -c "echo hop 1 | '$serve' '$tmp/pack' --orders 2>'$tmp/said' | grep -q ready && grep -q 'there is no order hop 1' '$tmp/said'"
LD_LIBRARY_PATH=$build/cuda same_digests "what the linker finds" --as-found
LD_LIBRARY_PATH=$tmp:$build same_digests "which may be the driver" --as-found
check "the output says that it ran natively" jq -e '.native' "$tmp/json"
check "a trace may give gaps in JSON" json '.requests == 6240 and .different == 0' --trace tests/data/apollo_inter_arrival_s.json --speed 5000
"$serve" "$tmp/be" --seconds 100000 --instances 2 --json >"$tmp/be.json" 2>&1 &
server=$!
works() {
        "$build/detsharectl" clients --json | jq -e '.clients[] | select(.class == "be" and .launches > 100)' >"$tmp/works"
}
for _ in $(seq 400); do
        works && break
        sleep 0.05
done
check "the service runs beside another program" json '.different == 0 and .requests == 500' --requests 500
same_digests "beside another"
kill -INT $server
wait $server
result "SIGTERM ends the job, which prints its results" $? "$tmp/be.json"
server=
check "the job got the same bits every time" jq -e '.different == 0 and .requests > 10 and .same' "$tmp/be.json"

# --- over a socket --------------------------------------------------------------------------------------------
listen() {
        # The file must have the output of the new server only.
        : >"$tmp/served"
        "$serve" "$tmp/pack" --listen "$tmp/at" --instances 2 --connections 24 --json >"$tmp/served" 2>"$tmp/served.err" &
        server=$!
        await "$tmp/served" 'serving tiny at'
}
check "the server listens" listen
check "only the user may use the socket" [ "$(stat -c %a "$tmp/at")" = 600 ]
check "a second server at the same path is refused" fails 1 'somebody listens there' "$tmp/pack" --listen "$tmp/at"
timeout 100 python3 tests/serve/clients.py "$tmp/at" "$tmp/pack" 24 >"$tmp/clients" 2>&1
result "good clients are served beside hostile ones" $? "$tmp/clients"
of_clients=$(sed -n 's/^\([0-9]*\) passed, .*/\1/p' "$tmp/clients")
passed=$((passed + ${of_clients:-0}))
check "clients get the same bits as without a socket" [ "$(sed -n 's/^digests //p' "$tmp/clients")" = "$(paste -sd' ' "$tmp/digests")" ]
check "no socket of a client is left open" [ "$(find /proc/$server/fd -mindepth 1 -lname 'socket:*' | wc -l)" -le 4 ]
kill -TERM $server
wait $server
result "SIGTERM ends the server with 0" $? "$tmp/served.err"
check "the server prints counts" bash -c "tail -n 1 '$tmp/served' | jq -e '.requests > 250 and .bad >= 6 and .slow > 8 and .busy > 0 and .dropped >= 1'"
check "the socket file is removed" [ ! -e "$tmp/at" ]
: >"$tmp/served"
(ulimit -n 40 && exec "$serve" "$tmp/pack" --listen "$tmp/at" --connections 200 >"$tmp/served" 2>"$tmp/served.err") &
server=$!
await "$tmp/served" 'serving tiny at'
timeout 60 python3 tests/serve/clients.py "$tmp/at" "$tmp/pack" 200 $server >"$tmp/clients" 2>&1
result "more clients than the limit of descriptors" $? "$tmp/clients"
kill -TERM $server
wait $server
result "SIGTERM ends the server with 0" $? "$tmp/served.err"
listen
kill -KILL $server
wait $server 2>/dev/null
check "the socket file of a killed server is replaced" listen

# --- the end of a server while a request runs ------------------------------------------------------------------
# ask: sends a request as a client that waits for the answer
ask() {
        rm -f "$tmp/sent"
        python3 -c "
import sys
sys.path.insert(0, 'tests/serve')
import clients
server = clients.Server('$tmp/at', '$tmp/pack', 24)
client = server.client()
client.send(b'DSQ1', bytes(256))
server.client().ask(b'DSD1')  # what is answered after it: it has been read
open('$tmp/sent', 'w').close()
sys.exit(client.answer()[0])" 2>"$tmp/asked" &
        client=$!
        for _ in $(seq 200); do
                [ -e "$tmp/sent" ] && break
                sleep 0.1
        done
}
# gone PATH: waits until PATH does not exist
gone() {
        for _ in $(seq 200); do
                [ -e "$1" ] || return 0
                sleep 0.1
        done
        return 1
}
# ended PID: sends SIGTERM until the process has ended, for at most 30 s
ended() {
        for _ in $(seq 60); do
                kill -TERM "$1" 2>/dev/null || return 0
                sleep 0.5
        done
        kill -KILL "$1"
        return 1
}
# prepared PID: waits until the process handles SIGTERM
prepared() {
        for _ in $(seq 200); do
                (((0x$(sed -n 's/^SigCgt:[ \t]*//p' "/proc/$1/status") | 0x$(sed -n 's/^SigBlk:[ \t]*//p' "/proc/$1/status")) >> 14 & 1)) && return 0
                sleep 0.1
        done
        return 1
}
kill -STOP "$daemon"
ask
kill -TERM $server
check "SIGTERM removes the socket's path while a request runs" gone "$tmp/at"
sleep 0.5
check "after SIGTERM the server waits for the request" kill -0 $server
touch "$tmp/at"
kill -CONT "$daemon"
wait $client
result "the client gets its answer" $? "$tmp/asked"
wait $server
result "after the answer the server ends with 0" $? "$tmp/served.err"
check "a file that another process created at the path stays" rm "$tmp/at"
check "the server listens" listen
kill -STOP "$daemon"
ask
kill -TERM $server
sleep 0.5
ended $server
wait $server
[ $? = 143 ]
result "a second SIGTERM ends the server at once" $? "$tmp/served.err"
wait $client
: >"$tmp/served"
"$serve" "$tmp/pack" --seconds 1000 >"$tmp/served" 2>"$tmp/served.err" &
server=$!
prepared $server
sleep 0.5
kill -TERM $server
sleep 0.5
check "without a socket a second SIGTERM ends the server, too" ended $server
wait $server
[ $? = 143 ]
result "without a socket the first SIGTERM waits for the request" $? "$tmp/served.err"
kill -CONT "$daemon"
check "the server listens" listen

# --- a request that waits behind an endless one ---------------------------------------------------------------
kill -TERM $server
wait $server
: >"$tmp/served"
"$serve" "$tmp/pack" --listen "$tmp/at" --wait 0.3 --json >"$tmp/served" 2>"$tmp/served.err" &
server=$!
check "a server with one instance listens" await "$tmp/served" 'serving tiny at'
kill -STOP "$daemon"
ask
check "a request that waits longer than --wait is refused" python3 -c "
import sys
sys.path.insert(0, 'tests/serve')
import clients
status, text = clients.Server('$tmp/at', '$tmp/pack', 24).client().ask(b'DSQ1', bytes(256))
sys.exit(0 if status == clients.BUSY and b'waited for too long' in text else 1)"
kill -CONT "$daemon"
wait $client
result "the client before it gets its answer" $? "$tmp/asked"
kill -TERM $server
wait $server
result "SIGTERM ends the server with 0" $? "$tmp/served.err"
check "the server counts the refused request" bash -c "tail -n 1 '$tmp/served' | jq -e '.late == 1 and .requests == 1'"
check "the server listens" listen

# --- failures while the server runs ---------------------------------------------------------------------------
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null
daemon=
check "the client gets an error when the daemon dies" python3 -c "
import sys
sys.argv = ['', '$tmp/at', '$tmp/pack', '24']
sys.path.insert(0, 'tests/serve')
import clients
status, text = clients.Server('$tmp/at', '$tmp/pack', 24).client().ask(b'DSQ1', bytes(256))
sys.exit(0 if status == 3 and b'CUDA_ERROR' in text else 1)"
wait $server
[ $? = 1 ]
result "the server ends with 1" $? "$tmp/served.err"
check "the server's message has the CUDA error" grep -q 'detshare-serve: .*CUDA_ERROR' "$tmp/served.err"
server=

# --- wrong packs, and a pack on another model of GPU ----------------------------------------------------------
check "a daemon starts" start sim:p40
same_digests "another simulated GPU"
edited() {
        # edited WORDS SED-SCRIPT: a pack with the changed manifest is refused with WORDS
        edit "$2"
        fails 1 "$1" "$tmp/edited"
}
check "a pack for a newer GPU is refused" edited 'arch: the pack is for sm_89 and later, and DetShare sim:p40' 's/^arch sm_75/arch sm_89/'
check "a pack for one other GPU is refused" edited 'arch: the pack is for sm_200 alone, and DetShare sim:p40' 's/^arch sm_75/arch sm_200/'
check "a pack that names no kernel of its module is refused" edited 'kernel 0, densest: the module has no such entry' 's/^kernel dense/kernel densest/'
check "a wrong number of parameters is refused" edited 'kernel 2, to_half: .* another number of parameters' 's/^kernel to_half 32 0 4/kernel to_half 32 0 3/; s/^\(launch 2 .*\) null/\1/'
check "a parameter of a wrong size is refused" edited 'launch 1, parameter 3: it has 4 bytes, and leaky of the module takes 8' 's/i64=96/i32=96/'
check "an arena larger than the memory is refused" edited 'OUT_OF_MEMORY' 's/^arena .*/arena 60000000000/'
check "a module that is no PTX is refused" bash -c "cp -r '$tmp/pack' '$tmp/noptx' && head -c \$(stat -c %s '$tmp/pack/kernels.ptx') /dev/zero | tr '\\0' x >'$tmp/noptx/kernels.ptx' && ! '$serve' '$tmp/noptx' --no-hash 2>'$tmp/said' && grep -q 'kernels.ptx: cuModuleLoadDataEx: CUDA_ERROR' '$tmp/said'"
check "after these the daemon still serves" bash -c "'$serve' '$tmp/pack' --check"
check "the daemon stops" daemon_stop

# --- the path of a real GPU, with real time: the fake driver --------------------------------------------------
printf '[daemon]\nlibcuda=%s/libcuda.so.1\nptxas=%s/bin/ptxas\n' "${DETSHARE_TEST_PLACE:-$build/fake_cuda}" "${DETSHARE_TEST_PLACE:-$build/fake_cuda}" >"$tmp/fake.conf"
chmod 755 "$tmp"
check "a daemon starts" start cuda:0 --config "$tmp/fake.conf"
same_digests "a GPU's path" --instances 3
check "the output does not say that the device is simulated" jq -e '.simulated | not' "$tmp/json"
check "requests arrive in real time" json '.requests == 4 and .seconds > 0.01 and .different == 0 and .latency_us.p50 >= .service_us.p50' --trace "$tmp/trace"
check "the daemon stops" daemon_stop

# --- bounds of kernels, on a simulated device that only times them --------------------------------------------
check "a daemon starts" start sim:h200+timing
make_pack "$tmp/hints" --hints
check "a pack is profiled" bash -c "'$build/detsharectl' profile '$tmp/hints' --json >'$tmp/profile'"
check "a kernel that reads memory in L2 is bound by memory" jq -es '.[2].bounds[] | select(.kernel == "dense") | .bound == "memory" and .beside_ns > 1.5 * .alone_ns' "$tmp/profile"
check "a kernel that computes is bound by computation" jq -es '.[2].bounds[] | select(.kernel == "leaky") | .bound == "compute"' "$tmp/profile"
kept() {
        "$build/detsharectl" profile list --json | jq -e '[.profiles[] | select(.kernel == "dense" or .kernel == "leaky") | .bound] | sort == ["compute", "memory"]'
}
check "the bounds are stored" kept
check "the stairs are stored" bash -c "'$build/detsharectl' profile list --json dense | jq -e '.profiles[0] | .least_sms >= 40 and (.points | length > 4)'"
check "the kernels run again" bash -c "'$serve' '$tmp/hints' --requests 50 >/dev/null"
sleep 3 # the device says what it learnt every two seconds
check "the stored bounds stay" kept
check "the previous policy is restored" bash -c "'$build/detsharectl' status --json | jq -e '.policy == \"detshare\"'"
check "without a daemon the exit status is 9" bash -c "DETSHARE_SOCKET=$tmp/none '$build/detsharectl' profile '$tmp/hints' 2>/dev/null; [ \$? = 9 ]"
check "the daemon stops" daemon_stop

echo "$passed passed, $failed failed"
[ $failed = 0 ]
