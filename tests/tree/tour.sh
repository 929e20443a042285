#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that the documents point into the tree correctly: for every `path/file.c:function` that file defines the
# function, and every `path/` or `path/file` in backquotes exists.
set -u
cd "$(dirname "$0")/../.."
bad=0
count=0
for doc in README.md docs/ARCHITECTURE.md docs/gpu.md docs/tour.md; do
        while IFS= read -r ref; do
                count=$((count + 1))
                file=${ref%%:*}
                if [ "$ref" != "$file" ]; then
                        function=${ref##*:}
                        # a definition: a line with the function's name and its bracket that does not end a statement
                        grep -Eq "^[a-zA-Z_].*\b$function\(|^$function\(" "$file" 2>/dev/null ||
                                { echo "$doc: $ref: no such function there"; bad=1; }
                else
                        [ -e "$file" ] || { echo "$doc: $file is not there"; bad=1; }
                fi
        done < <(grep -oE '`(proto|daemon|client-lib|policies|lut|systemd|tests|docs)/[A-Za-z0-9_./-]+(:[A-Za-z0-9_]+)?`' "$doc" | tr -d '`')
done
[ "$count" -gt 30 ] || { echo "only $count pointers found: has the notation changed?"; bad=1; }
steps=$(grep -cE '`[a-z-]+/[A-Za-z0-9_./-]+:[A-Za-z0-9_]+`' docs/tour.md)
[ "$steps" -ge 12 ] || { echo "docs/tour.md names only $steps functions"; bad=1; }
exit $bad
