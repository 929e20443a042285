#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# For the gate's proof: ends the first time as a process whose LeakSanitizer broke down, the second time as COMMAND does.
#
# usage: tests/gate/undecided.sh FILE COMMAND...   (FILE is there between the two)
file=$1
shift
if [ -e "$file" ]; then
        rm "$file"
        exec "$@"
fi
touch "$file"
log=${ASAN_OPTIONS#*log_path=}
echo "==1==LeakSanitizer has encountered a fatal error." >"${log%%:*}.undecided.1"
exit 1
