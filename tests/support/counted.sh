# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Counting what a test's script checks, for scripts that read this: `passed`, `failed`, and a line for each check.

passed=0
failed=0

# result NAME STATUS [LOG]: 0 is good; what the log ends with is shown if not
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

# skip NAME NEEDS: what this machine or user cannot run; tests/run.sh lists and counts these lines
skip() {
        echo "SKIP $1: needs $2"
}

# check NAME COMMAND...: it succeeds; what it says goes to $tmp/check
check() {
        local name=$1
        shift
        # shellcheck disable=SC2154
        "$@" >"$tmp/check" 2>&1
        result "$name" $? "$tmp/check"
}
