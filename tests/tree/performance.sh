#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that docs/performance.md, its plots and appendices, and README.md's section `eager` are what the figures in
# docs/performance give.
set -u
cd "$(dirname "$0")/../.." || exit
exec tests/bench/performance.py --check
