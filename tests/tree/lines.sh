#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# House limits: files under 1,000 lines, an SPDX line first, headers that open with an essay.
set -u
cd "$(dirname "$0")/../.."
bad=0
for f in $(git ls-files '*.c' '*.h' '*.cu'); do
        n=$(wc -l <"$f")
        [ "$n" -lt 1000 ] || { echo "$f: $n lines"; bad=1; }
        case $f in *.h) sed -n 2p "$f" | grep -q '^/\*' || { echo "$f: does not begin with what it is for"; bad=1; } ;; esac
        head -n 1 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' || { echo "$f: no SPDX line"; bad=1; }
done
exit $bad
