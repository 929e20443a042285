#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# detsharectl's completion in bash: this script loads it, calls its function as bash does, and compares the offers.
# zsh and fish read their scripts where these shells are installed. Prints `N passed, N failed` last.
#
# usage: tests/e2e/completion.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-completion.XXXXXX)
export DETSHARE_SOCKET=$tmp/sock
. tests/support/counted.sh
. tests/support/daemon.sh
holder=

# shellcheck disable=SC2317
finish() {
        exec 9>&-
        [ -z "$holder" ] || kill -KILL "$holder" 2>/dev/null
        daemon_end
        rm -rf "$tmp"
}
trap finish EXIT

# shellcheck disable=SC1090
source <("$build/detsharectl" completion bash)
result "bash reads the script" $?
check "completion is registered for detsharectl" complete -p detsharectl

# offers WORD...: prints in one line what completion offers for the last WORD
offers() {
        COMP_WORDS=("$build/detsharectl" "$@")
        COMP_CWORD=$#
        COMPREPLY=()
        _detsharectl 2>/dev/null
        echo "${COMPREPLY[*]}"
}

# is EXPECTED WORD...: completion offers exactly EXPECTED for the last WORD
is() {
        local expected=$1
        shift
        check "$* offers $expected, not $(offers "$@")" test "$(offers "$@")" = "$expected"
}

# has OFFERED WORD...: OFFERED is among the offers for the last WORD
has() {
        local word=$1
        shift
        check "$* offers $word" grep -qw -- "$word" <<<"$(offers "$@")"
}

is "status" sta
is "set-policy set-class" set-
is "--json --wide --help" status -
is "--wide" status --w
is "be ls" run --class ''
is "start stop" trace s
is "list show verify" lut ''
is "" run --slo-ms ''
has list profile ''
is "--samples --seconds" profile run --s
is "ls be" set-class 5 ''
is "bash zsh fish candidates" completion ''
is "--socket --help --version" --
touch "$tmp/unique-file"
is "$tmp/unique-file" trace stop "$tmp/uni"
is "$tmp/unique-file" --socket "$tmp/uni"
has ls run -- l
is "$tmp/unique-file" run -- cat "$tmp/uni"
is "" policies ''

daemon_start --device sim:h200 --policy fifo
check "the daemon serves" grep -q serving "$tmp/out"
mkfifo "$tmp/pipe"
"$build/detsharectl" run --name "a client" -- "$build/tests/examples/hold" <"$tmp/pipe" >"$tmp/held" 2>&1 9>&- &
holder=$!
exec 9>"$tmp/pipe"
for _ in $(seq 2000); do
        [ -s "$tmp/held" ] && break
        sleep 0.05
done
read -r id _ <"$tmp/held"

is "multistream" policies mul
is "multistream" set-policy mul
is "ls_percent=" set-policy static ls_p
is "$id a\\ client" kill ''
is "a\\ client" explain a
is "a\\ client" set-class a
DETSHARE_SOCKET=/nowhere is "multistream" --socket "$tmp/sock" policies mul

# --- other shells ---------------------------------------------------------------------------------------------

"$build/detsharectl" completion zsh >"$tmp/_detsharectl"
"$build/detsharectl" completion fish >"$tmp/detsharectl.fish"
check "the zsh script begins with #compdef" grep -q '^#compdef detsharectl' <(head -n 1 "$tmp/_detsharectl")
if command -v zsh >/dev/null; then
        check "zsh reads its script" zsh -n "$tmp/_detsharectl"
        # zsh's own functions are replaced by functions that print.
        check "the zsh script completes a command" sh -c "zsh -f -c '
_describe() { print -r -- \${(P)2} }
words=($build/detsharectl set-policy mul) CURRENT=3
source $tmp/_detsharectl' | grep -q '^multistream:.'"
fi
if command -v fish >/dev/null; then
        check "fish reads its script" fish --no-execute "$tmp/detsharectl.fish"
        check "the fish script completes a command" sh -c "PATH=$build:\$PATH fish --no-config -c 'source $tmp/detsharectl.fish; complete -C \"detsharectl set-policy mul\"' | grep -q '^multistream.*[a-z]'"
fi

exec 9>&-
daemon_stop
result "the daemon stops" $?

printf '%d passed, %d failed\n' $passed $failed
exit $((failed > 0))
