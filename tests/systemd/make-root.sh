#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a minimal Debian root with systemd, for tests/systemd/boot.sh. Needs root privileges, and network access to
# Debian's archive the first time.
#
# usage: tests/systemd/make-root.sh ROOT
set -eu
root=$1
[ ! -x "$root/sbin/init" ] || exit 0
[ "$(id -u)" = 0 ] || { echo "test-boot: debootstrap needs root" >&2; exit 1; }
echo "test-boot: making a Debian root in $root"
rm -rf "$root.new"
mkdir -p "$(dirname "$root")"
debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus bookworm "$root.new" >"$root.log" 2>&1 || {
        tail -n 20 "$root.log" >&2
        exit 1
}
# readable, because `make test` may run as another user
chmod 755 "$root.new"
mv "$root.new" "$root"
