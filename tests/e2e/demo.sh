#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The demo (tests/demo/demo.py): its figures repeat, it runs from any folder, and it leaves no process and no file,
# also when it is killed, when a program is missing, and when the daemon dies.
# Ends with `N passed, N failed`.
#
# usage: tests/e2e/demo.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
root=$PWD
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-demo-test.XXXXXX)
. tests/support/counted.sh
# the folder for private folders of the demo; its name has a space, as paths of users may have
export TMPDIR="$tmp/with space"
mkdir "$TMPDIR"
trap 'rm -rf "$tmp"' EXIT

# processes: prints the processes that have the demo's private folder in their command line
processes() {
        pgrep -f "$TMPDIR/detshare-demo-" || true
}

# clean: waits until no process and no file of the demo is left
clean() {
        for _ in $(seq 200); do
                [ -z "$(ls -A "$TMPDIR")" ] && [ -z "$(processes)" ] && return
                sleep 0.1
        done
        ls -A "$TMPDIR"
        processes
        return 1
}

# begun: waits until the demo's programs run
begun() {
        for _ in $(seq 600); do
                pgrep -f "$TMPDIR/detshare-demo-.*/no-stop" >/dev/null && return
                kill -0 "$demo" 2>/dev/null || return
                sleep 0.1
        done
        return 1
}

start() {
        "$root/tests/demo/demo.py" kernels --device sim:a2000 --build "$build" --json "$tmp/json" --policies detshare \
                >"$tmp/out" 2>&1 &
        demo=$!
}

# --- what it leaves -----------------------------------------------------------------------------------------------------
for signal in INT TERM HUP KILL; do
        # a shell's background processes ignore SIGINT, which a program inherits
        [ $signal = INT ] && set -m
        start
        set +m
        check "$signal: it has begun" begun
        kill -$signal "$demo"
        wait "$demo" 2>/dev/null
        result "$signal: it ends by that" $(($? == 128 + $(kill -l $signal) ? 0 : 1)) "$tmp/out"
        check "$signal: nothing is left" clean
done

start
check "its daemon is there" begun
kill -KILL "$(pgrep -o -f "detshared .*$TMPDIR/detshare-demo-")"
wait "$demo"
result "status 1 when the daemon dies" $(($? == 1 ? 0 : 1)) "$tmp/out"
check "it says so" grep -q 'detshared: the daemon ended' "$tmp/out"
check "nothing is left of that" clean

mkdir "$tmp/build"
for one in "$build"/*; do
        [ "$one" = "$build/demo" ] || ln -s "$one" "$tmp/build/"
done
"$root/tests/demo/demo.py" kernels --build "$tmp/build" --device sim:a2000 --json "$tmp/json" >"$tmp/out" 2>&1
result "status 1 when a program is missing" $(($? == 1 ? 0 : 1)) "$tmp/out"
check "it names the program" grep -q "$tmp/build/demo/.*make demo-build" "$tmp/out"
check "nothing is left of that, too" clean

# --- figures ------------------------------------------------------------------------------------------------------------
for part in kernels packs; do
        [ $part = kernels ] && data=docs/data/demo.json || data=docs/data/demo-packs.json
        check "$part: it runs from any folder" sh -c "cd / && '$root/tests/demo/demo.py' $part --build '$build' --device sim:a2000 \
                --policies detshare --json '$tmp/json'"
        check "$part: figures are those of $data, within 2 %" tests/demo/spread.py --limit 2 "$data" "$tmp/json"
done
check "nothing is left in the end" clean
printf '%d passed, %d failed\n' $passed $failed
exit $((failed > 0))
