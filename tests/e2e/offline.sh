#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The pack compiler's tests: its reader, planner, comparison, and the packs of the tree on a simulated GPU. What needs the compiler itself
# (numpy, onnx, Triton) runs where these are found, and says so where not.
#
# usage: tests/e2e/offline.sh BUILD
exec python3 "$(dirname "$0")/../offline/check.py" "$1"
