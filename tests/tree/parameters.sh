#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that docs/policies.md lists every parameter of the policies, and no other, and that detsharectl(1) names
# their defaults. If the policies are built, the page's tables must be those of the plug-ins.
#
# usage: tests/tree/parameters.sh [BUILD]
set -u
cd "$(dirname "$0")/../.." || exit
bad=0
page=docs/policies.md

# Parameters in the sources: .name = "x", or rows {"x", "help", default, least, most}. profile and calibrate are left
# out: they do not schedule.
known=$(find policies -name '*.[ch]' ! -name profile.c ! -name calibrate.c \
        -exec sed -n 's/.*\.name = "\([a-z_]*\)".*/\1/p; s/.*[{]"\([a-z_]*\)",.*/\1/p' {} + | sort -u)
[ "$(wc -l <<<"$known")" -ge 70 ] || { echo "only $(wc -l <<<"$known") parameters were found"; bad=1; }
for name in $known; do
        grep -q "\`${name}[\`= ]" $page || { echo "$page does not know $name"; bad=1; }
done

# the other direction: every word with an underscore in the page's sections of policies must be a parameter
# shellcheck disable=SC2016
for name in $(sed '1,/^## /d' $page | grep -oE '`[a-z]+_[a-z_]+(`|=)' | tr -d '`=' | sort -u); do
        grep -qx "$name" <<<"$known" || grep -rqw --include='*.h' "$name" daemon policies client-lib || { echo "$page: there is no $name"; bad=1; }
done

# the manual page's *x* (N) must name the default N of a policy's parameter x
rows=$(find policies -name '*.[ch]' -exec cat {} + | tr -s ' \n' ' ')
defaults=$(sed -n '/^# POLICIES/,$p' docs/man/detsharectl.1.scd | grep -oE '\*[a-z]+_[a-z_]+\* \([0-9]+\)' | tr -d '*()' | sort -u)
[ -n "$defaults" ] || { echo "the manual page names no defaults"; bad=1; }
while read -r name value; do
        grep -qE "\{\"$name\",( ?\"[^\"]*\")+, $value,|\.name = \"$name\",[^}]*\.def = $value," <<<"$rows" || {
                echo "detsharectl.1: the default of $name is not $value"
                bad=1
        }
done <<<"$defaults"
if [ -n "${1:-}" ] && [ -e "$1/policies/detshare.so" ]; then
        PYTHONDONTWRITEBYTECODE=1 python3 docs/parameters.py --build "$1" --check || bad=1
fi
exit $bad
