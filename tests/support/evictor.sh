# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A daemon with the tests' policy `evictor`, for scripts that have set $tmp. A daemon finds policies beside itself,
# and this policy is not installed, so the script copies the daemon.

# evicting_daemon BUILD: copies the files of a daemon to $tmp/evicting
evicting_daemon() {
        # shellcheck disable=SC2154
        local to=$tmp/evicting
        mkdir "$to" && cp "$1/detshared" "$to/" && cp -r "$1/libexec" "$1/policies" "$to/" &&
                cp "$1/tests/policies/evictor.so" "$to/policies/" && chmod -R go-w "$to"
}

# evicting_figure KEY: prints one figure of the status that $build/detsharectl gets from the daemon at
# $DETSHARE_SOCKET
evicting_figure() {
        # shellcheck disable=SC2154
        "$build/detsharectl" status --json | sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" | head -n 1
}

# evicting_figures: prints the counts of that daemon's kernels by outcome, one per line
evicting_figures() {
        local key
        for key in forms_made forms_found forms_failed launches launches_persistent launches_sliced evictions resumes; do
                echo "     $key $(evicting_figure $key)"
        done
}
