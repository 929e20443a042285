#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that README.md and docs/gpu/measured.md have the demo's tables as docs/data/demo*.json give them.
cd "$(dirname "$0")/../.." || exit
exec tests/demo/tables.py --check README.md docs/gpu/measured.md
