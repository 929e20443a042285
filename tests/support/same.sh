# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
#
# For scripts that compare two lists: sets `bad` if the lines of A and B are not the same set, or if A is empty.
bad=0

# same WHAT A B: compares the lists A and B
same() {
        [ -n "$2" ] || { echo "$1: nothing found: has the notation changed?"; bad=1; }
        diff <(sort -u <<<"$2") <(sort -u <<<"$3") >/dev/null && return
        echo "$1: < is in the first, > in the second"
        diff <(sort -u <<<"$2") <(sort -u <<<"$3") | grep '^[<>]'
        bad=1
}
