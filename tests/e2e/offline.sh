#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests of the pack compiler: its reader, planner, comparison, and the packs of the tree on a simulated GPU. Tests of
# the compiler itself need numpy, onnx and Triton; without these they are skipped, and the output says so.
#
# usage: tests/e2e/offline.sh BUILD
exec python3 "$(dirname "$0")/../offline/check.py" "$1"
