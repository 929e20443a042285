#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# README.md has the demo's tables as docs/data/demo.json and docs/data/demo-packs.json give them.
cd "$(dirname "$0")/../.." || exit
exec tests/demo/tables.py --check README.md
