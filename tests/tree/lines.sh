#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks limits of the tree: files have fewer than 1,000 lines and an SPDX line first; headers begin with an essay.
set -u
cd "$(dirname "$0")/../.."
find client-lib daemon lut offline policies proto serve tests -type f \( -name "*.c" -o -name "*.h" -o -name "*.cu" \) -print0 | xargs -0 awk '
        function told(what) {
                print file ": " what
                bad = 1
        }
        function ended() {
                if (lines >= 1000)
                        told(lines " lines")
                if (lines == 1 && file ~ /[.]h$/)
                        told("does not say what it is for")
        }
        FNR == 1 {
                ended()
                file = FILENAME
                files++
                if ($0 !~ /SPDX-License-Identifier: Apache-2.0/)
                        told("no SPDX line")
        }
        FNR == 2 && FILENAME ~ /[.]h$/ && $0 !~ /^\/[*]/ { told("does not begin with what it is for") }
        { lines = FNR }
        END {
                ended()
                if (files != ARGC - 1) {
                        print ARGC - 1 - files " files are empty"
                        bad = 1
                }
                exit bad
        }'
