#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make lint: warnings of two compilers as errors, cppcheck, clang-format, and includes that point down.
set -u
cd "$(dirname "$0")/.."
status=0
run() {
        local name=$1
        shift
        if "$@" >build/lint.log 2>&1; then
                echo "ok   $name"
        else
                echo "FAIL $name"
                tail -n 40 build/lint.log
                status=1
        fi
}
mkdir -p build
sources=$(git ls-files '*.c' '*.h')
run "gcc -Wall -Wextra -Werror" make -s -j2 BUILD=build/lint-gcc CC=gcc all
run "clang -Wall -Wextra -Werror" make -s -j2 BUILD=build/lint-clang CC=clang all
# shellcheck disable=SC2086
run "clang-format" clang-format --dry-run -Werror $sources
run "includes point down" tests/tree/includes.sh
run "cppcheck" cppcheck -q -j2 --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 \
        --suppress=missingInclude --suppress=unknownMacro --suppressions-list=.ci/cppcheck.txt \
        -Idaemon -I. -Iclient-lib -Iclient-lib/include daemon client-lib policies serve
exit $status
