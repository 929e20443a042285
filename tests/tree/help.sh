#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that `make help` names every target that a user can call: each .PHONY target has its `## text`, or its .PHONY
# line ends with `# internal`.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/same.sh
. tests/support/same.sh
mapfile -t makefiles < <(git ls-files Makefile '*.mk' 2>/dev/null | grep . || find . -name '*.mk' -o -name Makefile -path ./Makefile)
# examples/policy has a Makefile of its own, which does not count here
phony=$(sed -n '/# internal$/d; s/^[.]PHONY: *//p' "${makefiles[@]}" | tr ' ' '\n' | grep .)
help=$(make --no-print-directory help)
same "targets that are .PHONY, and the table of make help" "$phony" "$(awk 'NR > 1 { print $1 }' <<<"$help")"
# the table must fit a terminal, and `make` without a target must still be the build
if [ "$(awk '{ print length($0) }' <<<"$help" | sort -n | tail -n 1)" -gt 160 ]; then
        echo "make help: a line has more than 160 columns"
        bad=1
fi
[ "$(make -pn -q help 2>/dev/null | sed -n 's/^[.]DEFAULT_GOAL := //p')" = all ] || { echo "plain make is not the build"; bad=1; }
exit $bad
