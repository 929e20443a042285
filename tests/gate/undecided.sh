#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# For the gate's proof: ends the first time like a process whose LeakSanitizer failed, the second time as COMMAND
# does.
#
# usage: tests/gate/undecided.sh FILE WORDS COMMAND...
#        FILE exists between the two runs; WORDS is LeakSanitizer's message
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
