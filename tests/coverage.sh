#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The lines of the daemon, the client library and the policies that the tests execute: unit and end-to-end tests run
# on a build that counts. Prints a table by folder; details are in BUILD/coverage/index.html and
# BUILD/coverage/files.txt. Exits with 1 if less than FLOOR percent of the lines were executed, or if the check of the
# floor itself does not work. Failed tests are shown but do not count: everything is several times slower here, and
# some tests measure time. `make test` judges them.
#
# The daemon's processes have different users and share counters, which lie where all of them may write. The lines
# that a killed process executed are lost. Code that needs a GPU runs against the fake driver.
#
# usage: tests/coverage.sh BUILD FLOOR [SUITE ...]   (the build lies in BUILD/cov; suites: tests/run.sh)
set -u
cd "$(dirname "$0")/.." || exit
build=$1/cov
report=$1/coverage
floor=$2
shift 2
counts=$(mktemp -d /tmp/detshare-coverage.XXXXXX)
trap 'rm -rf "$counts"' EXIT
chmod 755 "$counts"

# creates every counter file before the first process starts, because processes of several users write them
objects=$(realpath "$build")/obj
find "$objects" -name '*.gcda' -delete
find "$objects" -name '*.gcno' | while read -r note; do
        mkdir -p "$counts${note%/*}"
        (umask 0 && : >"$counts${note%.gcno}.gcda")
done
find "$counts" -type d -exec chmod 755 {} +

# shellcheck disable=SC2086,SC2048
GCOV_PREFIX=$counts tests/run.sh "$build" ${*:-unit e2e}

find "$counts" -name '*.gcda' -size +0 | while read -r counter; do
        cp "$counter" "${counter#"$counts"}"
done
rm -rf "$report"
mkdir -p "$report"
# the interpreter's threads count without locks, so gcov's sums can be negative
gcovr -r . -j "$(nproc)" -f daemon/ -f client-lib/ -f policies/ -e '.*gen/.*' --exclude-unreachable-branches --gcov-ignore-parse-errors \
        --json "$report/coverage.json" --json-summary "$report/summary.json" --html-details "$report/index.html" \
        --txt "$report/files.txt" "$build"/obj/{daemon,client-lib,policies} >"$report/gcovr.log" 2>&1 || { tail "$report/gcovr.log"; exit 1; }

jq -r '
def row: [.name, .lines_covered, .lines, (100 * .lines_covered / (.lines + 1e-9)), (100 * .branches_covered / (.branches + 1e-9))];
def sum(n): {name: n, lines: (map(.line_total) | add), lines_covered: (map(.line_covered) | add),
        branches: (map(.branch_total) | add), branches_covered: (map(.branch_covered) | add)};
(.files | group_by(.filename | split("/")[:-1]) | map(sum(.[0].filename | split("/")[:-1] | join("/"))))[], (.files | sum("all"))
| row | @tsv' "$report/summary.json" |
        awk -F '\t' 'BEGIN { printf "%-28s %8s %8s %8s %9s\n", "folder", "covered", "lines", "lines %", "branches %" }
                { printf "%-28s %8d %8d %8.1f %9.1f\n", $1, $2, $3, $4, $5 }' | tee "$report/folders.txt"

meets() {
        gcovr -r . -a "$report/coverage.json" --fail-under-line "$1" >/dev/null 2>&1
}
status=0
if meets 100; then
        echo "FAIL the floor did not trip at 100 %"
        status=1
fi
if ! meets "$floor"; then
        echo "FAIL fewer than $floor % of the lines are executed"
        status=1
fi
exit $status
