#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every kernel of the corpus in the interpreter, once for each instruction set of the host and in two orders of
# blocks: the resulting memory must be the same. `make test-gpu` compares it with a GPU's. Here one launch of each
# kernel and two fillings of memory are enough.
#
# usage: tests/e2e/interp_corpus.sh BUILD
set -u
build=$(cd "$1" && pwd)
at_least=450 # kernels of different names that are driven; 524 of 642 when this was written

said=$("$build/gpu/interp/corpus_diff" --sim -j 2 -l 1 -f 2 "$build/ptx/")
status=$?
echo "$said"
names=$(sed -n 's/.*compared: [0-9]* kernels (\([0-9]*\) names).*/\1/p' <<<"$said")
if [ $status = 0 ] && [ "${names:-0}" -ge $at_least ]; then
        echo "1 passed, 0 failed"
else
        echo "FAIL status $status, ${names:-0} kernels driven"
        echo "0 passed, 1 failed"
        exit 1
fi
