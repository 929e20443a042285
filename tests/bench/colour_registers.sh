#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The cost of colouring in registers, as ptxas reports it: every kernel of the files, with all parameters coloured
# that can be, against the original kernel, for each layout. Also proves that all results assemble. Prints tables:
# number of kernels without additional registers, number with fewer than five, mean, worst case, kernels that spill
# more, growth of the code.
#
# ARCH: assemble for this architecture instead of each file's own, unless the file's is newer.
#
# usage: [ARCH=sm_80] tests/bench/colour_registers.sh DETSHARE-PTX PTXAS FILE-OR-FOLDER...
set -u
tool=$1
ptxas=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
layouts="regular:2048:2 regular:1024:4 table:1024"

# options FILE: prints the compiler options for the file, from the name of its folder
options() {
        case $1 in
        */sm_*+debug/*) echo "-g -suppress-debug-info" ;;
        */sm_*+lineinfo/* | *triton* | *packs*) echo "-lineinfo -suppress-debug-info" ;;
        */sm_*+rdc/*) echo "-c" ;;
        esac
}

# assemble PTX FILE ARCH LAYOUT: prints a line per kernel: layout, file, kernel, registers, bytes spilled
assemble() {
        # shellcheck disable=SC2046
        if ! "$ptxas" -arch="$3" $(options "$2") -v "$1" -o "$work/cubin" >"$work/log" 2>&1; then
                echo "$2: what was made ($4) does not assemble" >&2
                grep -v '^ptxas info' "$work/log" | head -3 >&2
                bad=1
                return
        fi
        awk -v file="$2" -v layout="$4" '/Compiling entry function/ { name = $7; gsub("\047", "", name) }
                /bytes spill stores/ { spill = $5 + $9 }
                / Used .* registers/ { for (i = 1; i < NF; i++) if ($(i + 1) ~ /^registers/) print layout, file, name, $i, spill }' \
                "$work/log" >>"$work/all"
}

while read -r file; do
        own=$(sed -n 's/^\.target \(sm_[0-9]*[a-z]*\).*/\1/p;T;q' "$file")
        arch=${ARCH:-$own}
        if [ "${own//[!0-9]/}" -gt "${arch//[!0-9]/}" ] || [[ $own == *a ]]; then
                continue
        fi
        assemble "$file" "$file" "$arch" native
        for layout in $layouts; do
                "$tool" pass -v --layout "$layout" colour "$file" 2>"$work/said" >"$work/made.ptx" || bad=1
                sed -n "s|^colour: \(.*\) done\$|$layout $file \1|p" "$work/said" >>"$work/done"
                assemble "$work/made.ptx" "$file" "$arch" "$layout"
        done
done < <(find "$@" -name '*.ptx' | sort)

awk -v layouts="$layouts" '
        FILENAME ~ /done$/ { done[$0] = 1; next }
        { registers[$1, $2, $3] = $4; spills[$1, $2, $3] = $5; kernels[$2 " " $3] = 1 }
        END {
                bar = "+----------------+---------+---------+---------+-------+-------+-------------"
                print bar
                printf "| %-14s | %7s | %7s | %7s | %5s | %5s | %s\n", "layout", "kernels", "no more", "below 5", "mean", "worst", "who"
                print bar
                n_layouts = split(layouts, layout, " ")
                for (l = 1; l <= n_layouts; l++) {
                        n = none = few = sum = more = 0
                        worst = -999
                        for (k in kernels) {
                                split(k, part, " ")
                                if (!((layout[l] " " k) in done) || !((layout[l], part[1], part[2]) in registers)) continue
                                d = registers[layout[l], part[1], part[2]] - registers["native", part[1], part[2]]
                                n++
                                sum += d
                                none += d <= 0
                                few += d < 5
                                more += spills[layout[l], part[1], part[2]] > spills["native", part[1], part[2]]
                                if (d > worst) { worst = d; who = part[2] }
                        }
                        if (n) printf "| %-14s | %7d | %6.1f%% | %6.1f%% | %+5.2f | %+5d | %s; spill more: %d\n", layout[l], n, \
                                100 * none / n, 100 * few / n, sum / n, worst, who, more
                }
                print bar
        }' "$work/done" "$work/all"
exit $bad
