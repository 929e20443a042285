#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that the pictures of the documents are well formed, name the command that wrote them, and are what their
# commands write. If the replay is built, pictures of policies are compared too, but only for policies with fixed
# rules: those of other policies change with the policy.
#
# usage: tests/tree/pictures.sh [BUILD]
set -u
cd "$(dirname "$0")/../.." || exit
export PYTHONDONTWRITEBYTECODE=1
dir=$(mktemp -d /tmp/detshare-pictures-XXXXXX)
trap 'rm -rf "$dir"' EXIT
bad=0
for picture in docs/pictures/*.svg docs/evaluation/*.svg docs/performance/*.svg; do
        # shellcheck disable=SC2016
        head -n 1 "$picture" | grep -q '^<!-- written by `make [a-z-]*`' || { echo "$picture names no command"; bad=1; }
        python3 -c "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])" "$picture" || bad=1
done
docs/pictures/architecture.py --out "$dir" && docs/pictures/rule.py --out "$dir" && docs/pictures/ebb.py docs/pictures/ebb.csv --out "$dir/ebb.svg" || bad=1
if [ -n "${1:-}" ] && [ -x "$1/detshare-replay" ]; then
        docs/pictures/policies.py --build "$1" --out "$dir" multistream sgdrc-static fifo || bad=1
fi
for picture in "$dir"/*.svg; do
        cmp "$picture" "docs/pictures/${picture##*/}" || { echo "\`make pictures\` writes ${picture##*/} again"; bad=1; }
done
exit $bad
