# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A daemon that has the tests' policy `evictor`, for scripts that have set $tmp: policies lie beside the daemon, and that one is not
# among those that are installed.

# evicting_daemon BUILD: a copy of what a daemon needs, in $tmp/evicting
evicting_daemon() {
        # shellcheck disable=SC2154
        local to=$tmp/evicting
        mkdir "$to" && cp "$1/detshared" "$to/" && cp -r "$1/libexec" "$1/policies" "$to/" &&
                cp "$1/tests/policies/evictor.so" "$to/policies/" && chmod -R go-w "$to"
}

# evicting_figure KEY: of the status of the daemon at $DETSHARE_SOCKET, which $build/detsharectl asks
evicting_figure() {
        # shellcheck disable=SC2154
        "$build/detsharectl" status --json | sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" | head -n 1
}

# evicting_figures: what became of kernels in that daemon, a line each
evicting_figures() {
        local key
        for key in forms_made forms_found forms_failed launches launches_persistent launches_sliced evictions resumes; do
                echo "     $key $(evicting_figure $key)"
        done
}
