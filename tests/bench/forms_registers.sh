#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The cost of kernels' forms in registers, as ptxas reports it: every kernel of the files, native against sliced and
# persistent. Also proves that all results assemble. Prints a table with the mean, the worst case and the kernels that
# spill more.
#
# usage: tests/bench/forms_registers.sh DETSHARE-PTX PTXAS FILE-OR-FOLDER...
set -u
tool=$1
ptxas=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# options FILE: prints the compiler options for the file, from the name of its folder
options() {
        case $1 in
        */sm_*+debug/*) echo "-g -suppress-debug-info" ;;
        */sm_*+lineinfo/* | *triton*) echo "-lineinfo -suppress-debug-info" ;;
        */sm_*+rdc/*) echo "-c" ;;
        esac
}

while read -r file; do
        arch=$(sed -n 's/^\.target \(sm_[0-9]*[a-z]*\).*/\1/p;T;q' "$file")
        # shellcheck disable=SC2046
        if "$tool" forms "$file" >"$work/forms.ptx" 2>/dev/null &&
                "$ptxas" -arch="$arch" $(options "$file") -v "$work/forms.ptx" -o /dev/null >"$work/log" 2>&1; then
                awk -v file="$file" '/Compiling entry function/ { name = $7; gsub("\047", "", name) }
                        /bytes spill stores/ { spill = $5 + $9 }
                        / Used .* registers/ { for (i = 1; i < NF; i++) if ($(i + 1) ~ /^registers/) print file, name, $i, spill }' \
                        "$work/log" >>"$work/all"
        else
                echo "$file: what was made does not assemble" >&2
                grep -v '^ptxas info' "$work/log" | head -3 >&2
                bad=1
        fi
done < <(find "$@" -name '*.ptx' | sort)

awk '{ registers[$1 " " $2] = $3; spills[$1 " " $2] = $4 }
        function table(form,    suffix, k, base, n, sum, wide, wide_sum, d, worst, who) {
                suffix = "__ds_" form
                worst = -999
                for (k in registers) {
                        if (substr(k, length(k) - length(suffix) + 1) != suffix) continue
                        base = substr(k, 1, length(k) - length(suffix))
                        d = registers[k] - registers[base]
                        n++
                        sum += d
                        if (registers[base] >= 32) { wide++; wide_sum += d }
                        if (d > worst) { worst = d; who = base }
                        if (spills[k] > spills[base])
                                printf "%s spills more: %s, %d bytes instead of %d\n", form, base, spills[k], spills[base]
                }
                if (n) printf "%s: %d kernels, registers %+.2f in the mean, worst %+d (%s)\n", form, n, sum / n, worst, who
                if (wide) printf "%s: %d of them with 32 registers or more: %+.2f in the mean\n", form, wide, wide_sum / wide
        }
        END { table("sliced"); table("persistent") }' "$work/all"
exit $bad
