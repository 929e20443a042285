#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that the table and the plots of README.md and docs/evaluation.md agree with the measurements in
# docs/evaluation/frontier.csv.xz.
set -u
cd "$(dirname "$0")/../.." || exit
PYTHONDONTWRITEBYTECODE=1 exec python3 tests/eval/worth.py --check
