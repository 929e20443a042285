#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Build the Debian packages from the files that git knows (without git: all files that are not built), and check them
# with lintian: its errors and warnings fail. The packages come to BUILD/deb.
#
# usage: systemd/build-deb.sh BUILD CUDA_ROOT
set -eu
cd "$(dirname "$0")/.."
root=$PWD
version=$(cat VERSION)
out=$(realpath -m "$1")/deb
cuda=$(realpath "$2")
work=$out/detshare-$version
rm -rf "$out"
mkdir -p "$work"
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files -z | while IFS= read -r -d '' f; do [ ! -e "$f" ] || printf '%s\0' "$f"; done |
                tar -c --null -T - | tar -x -C "$work"
        date=$(git log -1 --format=%cD)
else
        tar -c --exclude=./build --exclude=./.git . | tar -x -C "$work"
        date=$(date -R)
fi
mv "$work/systemd/debian" "$work/debian"
sed -e "s/@VERSION@/$version/" -e "s/@DATE@/$date/" "$work/debian/changelog.in" >"$work/debian/changelog"
rm "$work/debian/changelog.in"
(cd "$work" && CUDA_HOME=$cuda dpkg-buildpackage -b -uc -us -j"$(nproc)") >"$out/build.log" 2>&1 || {
        tail -n 40 "$out/build.log"
        echo "deb: the build failed: $out/build.log" >&2
        exit 1
}
rm -rf "$work"
cd "$out"
status=0
lintian --no-cfg --allow-root --fail-on error,warning ./*.changes || status=$?
ls -l "$out"/*.deb | sed "s|$root/||"
exit $status
