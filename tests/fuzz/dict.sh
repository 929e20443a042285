#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Writes the dictionary of a fuzz target, for -dict= of libFuzzer and -x of AFL++: the words of tests/fuzz/NAME.dict.
# Targets that read PTX also get every word of the front end's tables, so that a new instruction is included without
# further work.
#
# usage: tests/fuzz/dict.sh NAME DIRECTORY   writes DIRECTORY/NAME.dict and prints its name; prints nothing if there are no words
set -u
cd "$(dirname "$0")/../.." || exit
out=$2/$1.dict
case $1 in
ptx | interp | pass)
        {
                cat tests/fuzz/ptx.dict
                # mnemonics with their first dotted words, modifiers, types, special registers
                sed -n 's/^DS_PTX_OPCODE([A-Z0-9_]*, "\([^"]*\)".*/\1/p' daemon/ptx/opcodes.def
                sed -n '/^DS_PTX_OPCODE($/{n;s/^ *[A-Z0-9_]*, "\([^"]*\)".*/\1/p}' daemon/ptx/opcodes.def
                sed -n 's/^DS_PTX_MODIFIER([A-Z0-9_]*, [A-Z0-9_]*, "\([^"]*\)".*/.\1/p' daemon/ptx/modifiers.def
                sed -n 's/^ *X([A-Z0-9_]*, "\(%[a-z0-9_]*\)".*/\1/p' daemon/ptx/ir.h
                sed -n 's/^ *X([A-Z0-9_]*, "\([a-z][a-z0-9]*\)", [0-9]*).*/.\1/p' daemon/ptx/ir.h
        } | sed 's/^\([^"#].*\)$/"\1"/' | sort -u >"$out"
        ;;
*)
        [ -f "tests/fuzz/$1.dict" ] || exit 0
        cp "tests/fuzz/$1.dict" "$out"
        ;;
esac
echo "$out"
