#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# For the gate's proof: ends the first time as a process whose LeakSanitizer broke down, the second time as COMMAND does.
#
# usage: tests/gate/undecided.sh FILE WORDS COMMAND...   (FILE is there between the two; WORDS: what LeakSanitizer says)
file=$1
words=$2
shift 2
if [ -e "$file" ]; then
        rm "$file"
        exec "$@"
fi
touch "$file"
log=${ASAN_OPTIONS#*log_path=}
echo "==1==$words" >"${log%%:*}.undecided.1"
exit 1
