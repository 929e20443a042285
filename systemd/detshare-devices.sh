#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Creates missing device nodes of the NVIDIA driver. NVIDIA's own program does that if it is installed; otherwise this
# script takes the numbers from /proc, as the driver's README describes. Without an NVIDIA GPU it ends quickly and
# prints nothing.
#
# usage: detshare-devices [ROOT]     ROOT: for tests, replaces /; prints the nodes instead of making them
set -eu
root=${1:-}
state=0

node() { # PATH MAJOR MINOR
        [ -e "$root$1" ] && return
        if [ -n "$root" ]; then
                echo "mknod $1 c $2 $3"
        elif mknod -m 666 "$1" c "$2" "$3"; then
                echo "made $1"
        else
                state=1
        fi
}

# major NAME...: prints the major device number of the first of these names that is in /proc/devices
major() {
        for name in "$@"; do
                awk -v name="$name" '$2 == name { print $1; found = 1; exit } END { exit !found }' "$root/proc/devices" && return
        done
        return 1
}

cat "$root"/sys/bus/pci/devices/*/vendor 2>/dev/null | grep -qx 0x10de || [ -e "$root/proc/driver/nvidia/version" ] || exit 0
if [ -z "$root" ] && command -v nvidia-modprobe >/dev/null; then
        nvidia-modprobe -c 255 || :
        minors=$(sed -n 's/^Device Minor:[[:space:]]*//p' /proc/driver/nvidia/gpus/*/information 2>/dev/null || :)
        for minor in ${minors:-0}; do
                set -- "$@" -c "$minor"
        done
        exec nvidia-modprobe "$@" -u
fi
[ -n "$root" ] || modprobe -a -q nvidia nvidia-uvm || :
if ! control=$(major nvidia-frontend nvidia nvidiactl); then
        echo "detshare-devices: there is an NVIDIA GPU and no driver for it" >&2
        exit 0
fi
node /dev/nvidiactl "$control" 255
for minor in $(sed -n 's/^Device Minor:[[:space:]]*//p' "$root"/proc/driver/nvidia/gpus/*/information 2>/dev/null); do
        node "/dev/nvidia$minor" "$control" "$minor"
done
if uvm=$(major nvidia-uvm); then
        node /dev/nvidia-uvm "$uvm" 0
        node /dev/nvidia-uvm-tools "$uvm" 1
fi
exit $state
