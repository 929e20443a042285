# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Counts the checks of a script that sources this file: `passed`, `failed`, and one line per check.

passed=0
failed=0

# result NAME STATUS [LOG]: counts a check. STATUS 0 is a pass; otherwise prints the end of LOG
result() {
        if [ "$2" = 0 ]; then
                passed=$((passed + 1))
                echo "ok   $1"
        else
                failed=$((failed + 1))
                echo "FAIL $1"
                [ -z "${3:-}" ] || tail -n 20 "$3" | sed 's/^/     /'
        fi
}

# skip NAME NEEDS: notes a check that this machine or user cannot run; tests/run.sh lists and counts these lines
skip() {
        echo "SKIP $1: needs $2"
}

# check NAME COMMAND...: counts a check that passes if the command succeeds; the command's output goes to $tmp/check
check() {
        local name=$1
        shift
        # shellcheck disable=SC2154
        "$@" >"$tmp/check" 2>&1
        result "$name" $? "$tmp/check"
}
