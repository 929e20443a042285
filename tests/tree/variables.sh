#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks environment variables of programs: libdetshare-client(3) has those of client-lib/core/variables.def, with the
# same accepted values, examples and defaults; README and the other manual pages name no variable that is not there.
set -u
cd "$(dirname "$0")/../.." || exit
. tests/support/same.sh

table=client-lib/core/variables.def page=docs/man/libdetshare-client.3.scd
rows=$(sed -n 's/^VARIABLE("\([A-Z_]*\)", "\(.*\)", "\(.*\)", "\(.*\)")$/\1|\2|\3|\4/p' $table)
[ "$(wc -l <<<"$rows")" -ge 12 ] || { echo "only $(wc -l <<<"$rows") variables in $table"; bad=1; }
entries=$(sed -n '/^# ENVIRONMENT/,/^# [A-DF-Z]/p' $page)
same "$table, $page" "$(cut -d'|' -f1 <<<"$rows" | sort)" "$(sed -n 's/^\*\(DETSHARE_[A-Z_]*\)\*$/\1/p' <<<"$entries" | sort)"
while IFS='|' read -r name accepted example preset; do
        text="$accepted${example:+, for example $example}; default: $preset."
        grep -A 2 -F "*$name*" <<<"$entries" | tr -d '\\*_' | grep -qF "$(tr -d '_' <<<"$text")" ||
                { echo "$page: $name lacks: $text"; bad=1; }
done <<<"$rows"
# names in documents that look like variables but are none: constants of detshare.h, fields of the journal
constants='^DETSHARE_(E_[A-Z_]+|OK|LS|BE|PREFILL|DECODE|NO_PHASE|LATENCY|CLIENT|CLIENT_PID|CLIENT_UID|GPU)$'
known=$(sed -n 's/^\(VARIABLE\|FOREIGN\)("\(DETSHARE_[A-Z_]*\)".*/^\2$/p; s/^PREFIX("\(DETSHARE_[A-Z_]*\)")$/^\1/p' $table)
unknown=$(grep -ohE '\bDETSHARE_[A-Z_]+' README.md docs/man/*.scd docs/*.md | sort -u | grep -vE "$constants" | grep -vf <(echo "$known"))
[ -z "$unknown" ] || { echo "named in the documents and unknown to $table: $unknown"; bad=1; }
exit $bad
