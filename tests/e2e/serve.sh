#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# detshare-serve with a pack of our own (tests/serve): outputs are right, and the same bits on two simulated GPUs, over both
# transports, with several instances, beside other work, and natively (on the drop-in without its note, which is all that a
# machine without a GPU has for that); requests in a loop, at random, from a trace, over a socket with good and hostile
# clients; packs that are not what they say. Ends with `N passed, N failed`.
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

# start DEVICE OPTION...
start() {
        daemon_start --device "$@"
}

# json FILTER ARGUMENT...: what the program prints about the pack has this
json() {
        local filter=$1
        shift
        timeout 60 "$serve" "$tmp/pack" --json "$@" >"$tmp/json" && jq -e "$filter" "$tmp/json"
}

digests() {
        timeout 60 "$serve" "$tmp/pack" --json --digest "$@" >"$tmp/json" && jq -r '.checked[].sha256' "$tmp/json"
}

same_digests() {
        # same_digests NAME ARGUMENT...
        digests "${@:2}" >"$tmp/digests.other"
        check "$1: the same bits" cmp "$tmp/digests" "$tmp/digests.other"
}

# fails STATUS WORDS PACK ARGUMENT...: ends with that status and one line with these words
fails() {
        timeout 60 "$serve" "${@:3}" >"$tmp/fails" 2>&1
        local status=$?
        [ $status = "$1" ] && grep -q -- "$2" "$tmp/fails" && return 0
        echo "status $status:"
        cat "$tmp/fails"
        return 1
}

# edit SED-SCRIPT: another pack, with the manifest changed
edit() {
        rm -rf "$tmp/edited"
        cp -r "$tmp/pack" "$tmp/edited"
        sed -i "$1" "$tmp/edited/pack.txt"
}

make_pack() {
        python3 tests/serve/make_pack.py "$build/e2e/tiny.ptx" "$@"
}

check "a pack is made" make_pack "$tmp/pack"
check "and one for class be" make_pack "$tmp/be" --class be
check "and one that expects something else" make_pack "$tmp/wrong" --wrong

"$serve" --help | grep '^  --' | grep -oE '^  --[a-z-]+|, --[a-z-]+' | tr -d ' ,' | sort >"$tmp/helped"
sed -n '/^# WHAT IS SERVED/,/^# THE SOCKET/p' docs/man/detshare-serve.1.scd | grep -oE '^\*--.*' | grep -oE -- '--[a-z-]+' | sort >"$tmp/paged"
check "the page has the options that --help has" diff "$tmp/helped" "$tmp/paged"
sed -n 's/^ *{"\([a-z-]*\)", \(required\|no\)_argument.*/--\1/p' serve/options.c | sort >"$tmp/parsed"
check "and that there are" diff "$tmp/parsed" "$tmp/paged"

# --- without a daemon ----------------------------------------------------------------------------------------------------
check "a pack is shown" json '.model == "tiny" and .launches == 3 and .inputs[0].shape == [1, 64] and .outputs[1].type == "f16"' --show
check "no daemon: 9" fails 9 'cannot reach the daemon' "$tmp/pack"
check "no driver: 1" env DETSHARE_LIBCUDA=/nonexistent bash -c "! '$serve' '$tmp/pack' --native 2>'$tmp/said' && grep -q 'driver library is not found: DETSHARE_LIBCUDA names /nonexistent' '$tmp/said'"
check "the drop-in is not taken for the driver" env DETSHARE_LIBCUDA="$build/cuda/libcuda.so.1" bash -c "! '$serve' '$tmp/pack' --native"
check "no pack" fails 1 'No such file' "$tmp/none"
check "wrong usage: 2" fails 2 'which pack' --native
check "what does not go together: 2" fails 2 'not for one run' "$tmp/pack" --rate 1 --seconds 1 --listen x
check "--rate needs an end: 2" fails 2 'needs --seconds' "$tmp/pack" --rate 1
check "numbers are numbers: 2" fails 2 'takes a number from 1 to 256, not 0' "$tmp/pack" --instances 0
edit 's/^arena 1536/arena 1000/'
check "a pack that contradicts itself" fails 1 'pack.txt, line [0-9]*, output: .* behind the arena' "$tmp/edited" --show
printf x | dd of="$tmp/edited/weights.bin" bs=1 seek=100 conv=notrunc 2>/dev/null
cp "$tmp/pack/pack.txt" "$tmp/edited/"
check "a file that is not what it was" fails 1 'weights.bin is not what pack.txt says' "$tmp/edited" --show

# --- right, and the same ----------------------------------------------------------------------------------------------------
check "a daemon starts" start sim:h200
check "outputs are right" json '.simulated and .class == "ls" and .same and (.checked | length == 2 and all(.wrong == 0 and .worst_of_tolerance < 1))' --check
digests >"$tmp/digests"
check "there are digests, one per case" [ "$(sort -u "$tmp/digests" | wc -l)" = 2 ]
same_digests "three instances" --instances 3
DETSHARE_TRANSPORT=rpc same_digests "over the socket only"
check "what is wrong is said, and is status 1" fails 1 'case 1 *WRONG: 190 of 192 elements' "$tmp/wrong" --check
objcopy --remove-section .note.detshare "$build/cuda/libcuda.so.1" "$tmp/libcuda.so.1"
LD_LIBRARY_PATH=$build DETSHARE_LIBCUDA=$tmp/libcuda.so.1 same_digests "natively" --native
check "which it says" jq -e '.native and .class == "none" and (.simulated | not)' "$tmp/json"
check "its class is the pack's" bash -c "'$serve' '$tmp/be' --json | jq -e '.class == \"be\"'"
check "unless another is said" json '.class == "be"' --class be

# --- packs that our compiler made ----------------------------------------------------------------------------------------------
for pack in tests/offline/packs/*; do
        [ -e "$pack/pack.txt" ] || continue
        check "$(basename "$pack") is what its hashes say" "$serve" "$pack" --show
        check "$(basename "$pack") is right" timeout 60 "$serve" "$pack" --check --requests 5 --instances 2
done

# --- kernels ---------------------------------------------------------------------------------------------------------------------
check "each kernel is measured" "$serve" "$tmp/pack" --kernels "$tmp/kernels"
check "a line each" awk '$1 == "dense" && $2 == 3 && $5 == 32 && $7 == 1 && $8 > 1000 { n++ } $1 == "leaky" && $6 == 128 { n++ } END { exit n != 2 || NR != 3 }' "$tmp/kernels"
check "a pack is profiled" bash -c "'$build/detsharectl' profile '$tmp/pack' --requests 80 --json >'$tmp/profile' 2>'$tmp/said'"
check "its kernels' stairs are known" bash -c "jq -es '.[1].profiles | map(select(.points | length > 1).kernel) | contains([\"dense\", \"leaky\", \"to_half\"])' '$tmp/profile'"
# whether that takes too long is the machine's affair
check "what bounds them would take too long here, or is known" bash -c "grep -q 'this simulated device executes kernels' '$tmp/said' || grep -q '\"bound\"' '$tmp/profile'"
touches() {
        "$build/detsharectl" profile list --json dense | jq -e 'any(.profiles[]; .footprint_bytes == 25600)'
}
check "what a launch touches is kept, as the pack says it" touches
check "and written" bash -c "'$build/detsharectl' profile export '$tmp/profiles' && grep -q '/25600.*dense' '$tmp/profiles'"
check "and read" bash -c "'$build/detsharectl' profile forget --all && '$build/detsharectl' profile import '$tmp/profiles'"
check "as it was" touches
check "for people, too" bash -c "'$build/detsharectl' profile show dense | grep -q 'touches 25.0 KiB of memory'"

# --- requests ----------------------------------------------------------------------------------------------------------------
check "a loop of requests" json '.requests == 300 and .different == 0 and .latency_us.p50 > 0 and .latency_us.p50 <= .latency_us.p99 and .latency_us.p99 <= .latency_us.max' --requests 300 --instances 2
check "which takes as long as requests take" jq -e '.seconds * 2e6 / 300 >= .latency_us.mean and .seconds * 2e6 / 300 < 1.2 * .latency_us.mean' "$tmp/json"
check "for a time" json '.seconds > 0.0199 and .seconds < 0.022 and .requests > 100' --seconds 0.02
check "at random" json '.requests > 120 and .requests < 280 and .in_slo <= .requests and .seconds < 0.25' --rate 1000 --seconds 0.2 --slo-ms 0.05
random=$(jq -c '[.requests, .latency_us]' "$tmp/json")
check "the same times for the same seed" [ "$random" = "$(json . --rate 1000 --seconds 0.2 --slo-ms 0.05 | jq -c '[.requests, .latency_us]')" ]
printf '0\n0.00001\n0.00002\n0.01\n' >"$tmp/trace"
check "as a trace says, and who finds all busy waits" json '.requests == 4 and .latency_us.max > 2.4 * .service_us.p50 and .seconds > 0.01' --trace "$tmp/trace" --latencies "$tmp/latencies"
check "a line per request, in order" awk 'NR > 1 && $1 < last { bad = 1 } $3 < $2 || $2 < $1 { bad = 1 } { last = $1 } END { exit bad || NR != 4 }' "$tmp/latencies"
check "two instances wait less" json '.latency_us.max < 2.2 * .service_us.p50' --trace "$tmp/trace" --instances 2
check "a trace without arrivals" fails 1 'there is no arrival' "$tmp/pack" --trace /dev/null
printf 'loop 0.002\nserve %s\nserve /dev/null\nloop 0.001\n' "$tmp/trace" >"$tmp/orders"
check "orders are carried out" bash -c "'$serve' '$tmp/pack' --orders <'$tmp/orders' >'$tmp/carried'"
check "with an answer each" jq -es 'length == 5 and .[0].ready and .[1].items == (.[1].latencies_ms | length) and .[1].items > 20 and (.[2].at_s == [0, 0.00001, 0.00002, 0.01]) and (.[2].latencies_ms | length == 4) and .[3] == {latencies_ms: [], at_s: []} and .[4].seconds >= 0.001' "$tmp/carried"
check "what is no order is refused" bash -c "echo hop 1 | '$serve' '$tmp/pack' --orders 2>'$tmp/said' | grep -q ready && grep -q 'there is no order hop 1' '$tmp/said'"
LD_LIBRARY_PATH=$build/cuda same_digests "what the linker finds" --as-found
LD_LIBRARY_PATH=$tmp:$build same_digests "which may be the driver" --as-found
check "which it says" jq -e '.native' "$tmp/json"
check "gaps in JSON" json '.requests == 6240 and .different == 0' --trace tests/data/apollo_inter_arrival_s.json --speed 5000
"$serve" "$tmp/be" --seconds 100000 --instances 2 --json >"$tmp/be.json" 2>&1 &
server=$!
works() {
        "$build/detsharectl" clients --json | jq -e '.clients[] | select(.class == "be" and .launches > 100)' >"$tmp/works"
}
for _ in $(seq 400); do
        works && break
        sleep 0.05
done
check "beside another" json '.different == 0 and .requests == 500' --requests 500
same_digests "beside another"
kill -INT $server
wait $server
result "who is told to end says how it went" $? "$tmp/be.json"
server=
check "and got the same bits every time" jq -e '.different == 0 and .requests > 10 and .same' "$tmp/be.json"

# --- over a socket --------------------------------------------------------------------------------------------------------------
listen() {
        # the new server's words, not the last one's
        : >"$tmp/served"
        "$serve" "$tmp/pack" --listen "$tmp/at" --instances 2 --connections 24 --json >"$tmp/served" 2>"$tmp/served.err" &
        server=$!
        await "$tmp/served" 'serving tiny at'
}
check "it listens" listen
check "at a socket of the user's own" [ "$(stat -c %a "$tmp/at")" = 600 ]
check "which nobody else takes" fails 1 'somebody listens there' "$tmp/pack" --listen "$tmp/at"
timeout 100 python3 tests/serve/clients.py "$tmp/at" "$tmp/pack" 24 >"$tmp/clients" 2>&1
result "clients, good and hostile" $? "$tmp/clients"
of_clients=$(sed -n 's/^\([0-9]*\) passed, .*/\1/p' "$tmp/clients")
passed=$((passed + ${of_clients:-0}))
check "they get the bits that everybody gets" [ "$(sed -n 's/^digests //p' "$tmp/clients")" = "$(paste -sd' ' "$tmp/digests")" ]
check "it holds no more files than before" [ "$(find /proc/$server/fd -mindepth 1 -lname 'socket:*' | wc -l)" -le 4 ]
kill -TERM $server
wait $server
result "it ends when it is told to" $? "$tmp/served.err"
check "and says what it did" bash -c "tail -n 1 '$tmp/served' | jq -e '.requests > 250 and .bad >= 6 and .slow > 8 and .busy > 0 and .dropped >= 1'"
check "its socket is gone" [ ! -e "$tmp/at" ]
: >"$tmp/served"
(ulimit -n 40 && exec "$serve" "$tmp/pack" --listen "$tmp/at" --connections 200 >"$tmp/served" 2>"$tmp/served.err") &
server=$!
await "$tmp/served" 'serving tiny at'
timeout 60 python3 tests/serve/clients.py "$tmp/at" "$tmp/pack" 200 $server >"$tmp/clients" 2>&1
result "more clients than it may have files" $? "$tmp/clients"
kill -TERM $server
wait $server
result "and it ends" $? "$tmp/served.err"
listen
kill -KILL $server
wait $server 2>/dev/null
check "a socket that nobody listens at is taken over" listen

# --- who is told to end while a request is under way, and does not end ---------------------------------------------------------------
# ask: a client has sent its request and waits for the answer
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
# gone PATH
gone() {
        for _ in $(seq 200); do
                [ -e "$1" ] || return 0
                sleep 0.1
        done
        return 1
}
# ended PID: told to end until it has, for half a minute
ended() {
        for _ in $(seq 60); do
                kill -TERM "$1" 2>/dev/null || return 0
                sleep 0.5
        done
        kill -KILL "$1"
        return 1
}
# prepared PID: it knows what to do about signals
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
check "its socket's path is free while a request is under way" gone "$tmp/at"
sleep 0.5
check "who is told to end waits for it" kill -0 $server
touch "$tmp/at"
kill -CONT "$daemon"
wait $client
result "the client has its answer" $? "$tmp/asked"
wait $server
result "and it ends" $? "$tmp/served.err"
check "what came to that path is another's, and stays" rm "$tmp/at"
check "it listens" listen
kill -STOP "$daemon"
ask
kill -TERM $server
sleep 0.5
ended $server
wait $server
[ $? = 143 ]
result "a second signal does not wait" $? "$tmp/served.err"
wait $client
: >"$tmp/served"
"$serve" "$tmp/pack" --seconds 1000 >"$tmp/served" 2>"$tmp/served.err" &
server=$!
prepared $server
sleep 0.5
kill -TERM $server
sleep 0.5
check "nor without a socket" ended $server
wait $server
[ $? = 143 ]
result "where the first one waits, too" $? "$tmp/served.err"
kill -CONT "$daemon"
check "it listens" listen

# --- who waits behind a request that does not end -----------------------------------------------------------------------------------------
kill -TERM $server
wait $server
: >"$tmp/served"
"$serve" "$tmp/pack" --listen "$tmp/at" --wait 0.3 --json >"$tmp/served" 2>"$tmp/served.err" &
server=$!
check "one instance listens" await "$tmp/served" 'serving tiny at'
kill -STOP "$daemon"
ask
check "who waits for too long is told so" python3 -c "
import sys
sys.path.insert(0, 'tests/serve')
import clients
status, text = clients.Server('$tmp/at', '$tmp/pack', 24).client().ask(b'DSQ1', bytes(256))
sys.exit(0 if status == clients.BUSY and b'waited for too long' in text else 1)"
kill -CONT "$daemon"
wait $client
result "who was before him has his answer" $? "$tmp/asked"
kill -TERM $server
wait $server
result "it ends" $? "$tmp/served.err"
check "and says how many that were" bash -c "tail -n 1 '$tmp/served' | jq -e '.late == 1 and .requests == 1'"
check "it listens" listen

# --- what fails while it serves -----------------------------------------------------------------------------------------------
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null
daemon=
check "a client hears that the device failed" python3 -c "
import sys
sys.argv = ['', '$tmp/at', '$tmp/pack', '24']
sys.path.insert(0, 'tests/serve')
import clients
status, text = clients.Server('$tmp/at', '$tmp/pack', 24).client().ask(b'DSQ1', bytes(256))
sys.exit(0 if status == 3 and b'CUDA_ERROR' in text else 1)"
wait $server
[ $? = 1 ]
result "and the server ends with 1" $? "$tmp/served.err"
check "after words" grep -q 'detshare-serve: .*CUDA_ERROR' "$tmp/served.err"
server=

# --- packs whose kernels are others, on another model ---------------------------------------------------------------------------
check "a daemon starts" start sim:p40
same_digests "another simulated GPU"
edited() {
        # edited WORDS SED-SCRIPT
        edit "$2"
        fails 1 "$1" "$tmp/edited"
}
check "a GPU that is too old" edited 'arch: the pack is for sm_89 and later, and DetShare sim:p40' 's/^arch sm_75/arch sm_89/'
check "a GPU that is another" edited 'arch: the pack is for sm_200 alone, and DetShare sim:p40' 's/^arch sm_75/arch sm_200/'
check "a kernel that is not there" edited 'kernel 0, densest: the module has no such entry' 's/^kernel dense/kernel densest/'
check "another number of parameters" edited 'kernel 2, to_half: .* another number of parameters' 's/^kernel to_half 32 0 4/kernel to_half 32 0 3/; s/^\(launch 2 .*\) null/\1/'
check "parameters of another size" edited 'launch 1, parameter 3: it has 4 bytes, and leaky of the module takes 8' 's/i64=96/i32=96/'
check "an arena that is too large" edited 'OUT_OF_MEMORY' 's/^arena .*/arena 60000000000/'
check "a module that is no PTX" bash -c "cp -r '$tmp/pack' '$tmp/noptx' && head -c \$(stat -c %s '$tmp/pack/kernels.ptx') /dev/zero | tr '\\0' x >'$tmp/noptx/kernels.ptx' && ! '$serve' '$tmp/noptx' --no-hash 2>'$tmp/said' && grep -q 'kernels.ptx: cuModuleLoadDataEx: CUDA_ERROR' '$tmp/said'"
check "the daemon is none the worse" bash -c "'$serve' '$tmp/pack' --check"
check "the daemon stops" daemon_stop

# --- a GPU's path, and its clock, which is the real one: the fake driver -------------------------------------------------------------
printf '[daemon]\nlibcuda=%s/libcuda.so.1\nptxas=%s/bin/ptxas\n' "${DETSHARE_TEST_PLACE:-$build/fake_cuda}" "${DETSHARE_TEST_PLACE:-$build/fake_cuda}" >"$tmp/fake.conf"
chmod 755 "$tmp"
check "a daemon starts" start cuda:0 --config "$tmp/fake.conf"
same_digests "a GPU's path" --instances 3
check "a device that is not simulated, for who asks" jq -e '.simulated | not' "$tmp/json"
check "requests arrive in real time" json '.requests == 4 and .seconds > 0.01 and .different == 0 and .latency_us.p50 >= .service_us.p50' --trace "$tmp/trace"
check "the daemon stops" daemon_stop

# --- what bounds kernels, on a simulated device that only times them ----------------------------------------------------------------
check "a daemon starts" start sim:h200+timing
make_pack "$tmp/hints" --hints
check "a pack is profiled" bash -c "'$build/detsharectl' profile '$tmp/hints' --json >'$tmp/profile'"
check "a kernel that reads what L2 holds is bound by memory" jq -es '.[2].bounds[] | select(.kernel == "dense") | .bound == "memory" and .beside_ns > 1.5 * .alone_ns' "$tmp/profile"
check "one that computes is not" jq -es '.[2].bounds[] | select(.kernel == "leaky") | .bound == "compute"' "$tmp/profile"
kept() {
        "$build/detsharectl" profile list --json | jq -e '[.profiles[] | select(.kernel == "dense" or .kernel == "leaky") | .bound] | sort == ["compute", "memory"]'
}
check "which is kept" kept
check "with the stairs" bash -c "'$build/detsharectl' profile list --json dense | jq -e '.profiles[0] | .least_sms >= 40 and (.points | length > 4)'"
check "and stays when they are used again" bash -c "'$serve' '$tmp/hints' --requests 50 >/dev/null"
sleep 3 # the device says what it learnt every two seconds
check "which it does" kept
check "the policy that was set is back" bash -c "'$build/detsharectl' status --json | jq -e '.policy == \"detshare\"'"
check "no daemon: 9" bash -c "DETSHARE_SOCKET=$tmp/none '$build/detsharectl' profile '$tmp/hints' 2>/dev/null; [ \$? = 9 ]"
check "the daemon stops" daemon_stop

echo "$passed passed, $failed failed"
[ $failed = 0 ]
