#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the corpus of the fuzz targets through the sanitized targets: see tests/fuzz/replay.sh.
#
# usage: tests/e2e/fuzz_corpus.sh BUILD
case $1 in
*/cov)
        echo "SKIP replay of the corpus: needs the sanitized build"
        echo "0 passed, 0 failed"
        exit 0
        ;;
esac
exec "$(dirname "$0")/../fuzz/replay.sh" "${1%/asan}"
